//! `spoolgate admit`: admission of tasks.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;
use spoolgate::home::open::read_genesis;
use spoolgate::home::read::real_seams;
use spoolgate::ledger::note::VerifierKey;
use spoolgate::ledger::token::{self, FORWARDED_BYTES_MAX, Forwarded};
use spoolgate::wire::code::Exit;

use super::output::Output;

/// The commands.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Check that a forwarded file is what the gate admitted.
    #[command(
        after_help = "Examples:\n  spoolgate admit verify spool/forward/api/r-42.json\n  spoolgate admit verify r-42.json --log-key 'example.org/log+1a2b3c4d+AZ...'\n\nExit codes: 0 genuine, 1 forged or changed, 2 no forwarded file.\nThe key of a log is shown by `spoolgate audit verify`."
    )]
    Verify(VerifyArgs),
}

/// Check that a forwarded file is what the gate admitted.
#[derive(clap::Args)]
pub struct VerifyArgs {
    /// The file; `-` for standard input.
    file: PathBuf,
    /// The log's verifier key, which names the log too; absent: that of the home.
    #[arg(long, value_name = "VKEY")]
    log_key: Option<String>,
}

/// Runs a command.
pub fn run(home: &Path, command: &Command, output: &Output) -> Result<Exit> {
    match command {
        Command::Verify(args) => verify(home, args, output),
    }
}

/// The key of the log and its origin.
fn log_key(home: &Path, given: Option<&str>) -> Result<(VerifierKey, String)> {
    if let Some(text) = given {
        let key: VerifierKey = text.parse().context("--log-key")?;
        let origin = key.name().to_owned();
        return Ok((key, origin));
    }
    let genesis = read_genesis(home, real_seams(home)?.disk.as_ref())?;
    let key = genesis.log_key.parse().context("the log key in the ledger's first line")?;
    Ok((key, genesis.origin))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let source: Box<dyn Read> = if path == Path::new("-") {
        Box::new(std::io::stdin())
    } else {
        Box::new(File::open(path).with_context(|| format!("file `{}`", path.display()))?)
    };
    let cap = u64::try_from(FORWARDED_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    source.take(cap).read_to_end(&mut bytes).with_context(|| format!("file `{}`", path.display()))?;
    Ok(bytes)
}

fn verify(home: &Path, args: &VerifyArgs, output: &Output) -> Result<Exit> {
    let (key, origin) = log_key(home, args.log_key.as_deref())?;
    let verified = token::verify_forwarded(&read(&args.file)?, &key, &origin);
    match verified {
        Ok(forwarded) => {
            print_genuine(&forwarded, &origin, output)?;
            Ok(Exit::Success)
        }
        Err(error) if error.is_unreadable() => bail!("`{}`: {error}", args.file.display()),
        Err(error) => {
            if output.is_json() {
                output.json(&json!({"genuine": false, "log": origin, "why": error.to_string()}))?;
            } else {
                output.remark(&format!("NOT GENUINE  `{}`: {error}", args.file.display()));
            }
            Ok(Exit::Refused)
        }
    }
}

/// Members of a JSON object as their texts: an envelope may hold numbers that a program has no room for.
fn members(text: &str) -> Result<BTreeMap<String, &RawValue>> {
    Ok(serde_json::from_str(text)?)
}

/// What programs are told of a genuine file.
#[derive(Serialize)]
struct Genuine<'a> {
    genuine: bool,
    log: &'a str,
    receipt_id: &'a str,
    request_id: &'a str,
    request_hash: &'a str,
    envelope_sha256: &'a str,
    tenant_id: Option<&'a RawValue>,
    surface_id: Option<&'a RawValue>,
    causality: Option<&'a RawValue>,
}

fn print_genuine(forwarded: &Forwarded, origin: &str, output: &Output) -> Result<()> {
    let envelope = members(&forwarded.envelope)?;
    let causality = match envelope.get("causality") {
        Some(text) if text.get().starts_with('{') => members(text.get())?,
        _ => BTreeMap::new(),
    };
    if output.is_json() {
        return output.json(&Genuine {
            genuine: true,
            log: origin,
            receipt_id: &forwarded.claim.receipt_id,
            request_id: &forwarded.claim.request_id,
            request_hash: &forwarded.claim.request_hash,
            envelope_sha256: &forwarded.claim.envelope_sha256,
            tenant_id: envelope.get("tenant_id").copied(),
            surface_id: envelope.get("surface_id").copied(),
            causality: envelope.get("causality").copied(),
        });
    }
    let shown = |value: Option<&&RawValue>| match value {
        Some(value) => serde_json::from_str(value.get()).unwrap_or_else(|_| value.get().to_owned()),
        None => "-".to_owned(),
    };
    let of = |key: &str| shown(causality.get(key));
    let task = format!("root {}, depth {}, {}", of("root_task_id"), of("spawn_depth"), of("capability_id"));
    let rows: Vec<Vec<String>> = [
        ("receipt", forwarded.claim.receipt_id.clone()),
        ("request", forwarded.claim.request_id.clone()),
        ("tenant", shown(envelope.get("tenant_id"))),
        ("surface", shown(envelope.get("surface_id"))),
        ("task", task),
        ("genuine", format!("log {origin} admitted this; whether it was used before, only you know")),
    ]
    .map(|(name, value)| vec![name.to_owned(), value])
    .to_vec();
    output.table(&["forwarded", ""], &[], &rows)
}
