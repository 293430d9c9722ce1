//! `spoolgate sign`: a payload into a signed envelope.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use spoolgate::agent::{self, KeyFile, SignError};
use spoolgate::gate::actions;
use spoolgate::wire::code::Exit;
use spoolgate::wire::envelope::REQUEST_BYTES_MAX;
use spoolgate::wire::ids::Principal;
use spoolgate::wire::signing::SignKey;

use super::output::Output;
use super::{handover, schema};

/// Sign a payload and print the envelope.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  spoolgate sign order.json --as trend-bot --action order.submit --key bot.key > r1.json\n  echo '{}' | spoolgate sign - --as trend-bot --action portfolio.get | spoolgate handle -\n  spoolgate sign order.json --as trend-bot --action order.submit --causality task.json > r2.json"
)]
pub struct Args {
    /// File with the payload, a JSON object; `-` for standard input.
    file: PathBuf,
    /// Who signs.
    #[arg(long = "as", value_name = "PRINCIPAL")]
    source: String,
    /// What is asked for, such as order.submit.
    #[arg(long)]
    action: String,
    /// Key file; absent: the gate's own copy in this home's keyring.
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// File with the causality, a JSON object: which task asks and what caused it; absent: none.
    #[arg(long, value_name = "FILE")]
    causality: Option<PathBuf>,
    /// Id of the request; absent: a random one.
    #[arg(long)]
    id: Option<String>,
    /// Timestamp, RFC 3339 UTC; absent: now.
    #[arg(long, value_name = "TIME")]
    timestamp: Option<String>,
}

/// Runs the command.
pub fn run(home: &Path, args: &Args, output: &Output) -> Result<Exit> {
    let source = Principal::parse(&args.source)?;
    if args.causality.as_deref() == Some(&*args.file) {
        bail!("payload and causality are both `{}`; name a file for one of them", args.file.display());
    }
    let key = key_of(home, &source, args.key.as_deref())?;
    let payload = read_text(&args.file, "payload")?;
    // Signed and sent, a key would stand in the ledger for everybody who reads it.
    if serde_json::from_str::<KeyFile>(&payload).is_ok() {
        bail!(
            "`{}` is a key file, which nobody else may see; name the file with the payload",
            args.file.display()
        );
    }
    let causality = args.causality.as_ref().map(|path| read_text(path, "causality")).transpose()?;
    let (id, timestamp) = (args.id.as_deref(), args.timestamp.as_deref());
    let signed = agent::sign(&key, &source, &args.action, &payload, causality.as_deref(), id, timestamp);
    let envelope = match signed {
        Err(error @ SignError::Payload(_)) => {
            let file = args.file.display();
            return Err(error).with_context(|| format!("file `{file}`; a payload is one JSON object"));
        }
        other => other?,
    };
    output.line(&envelope.to_json())?;
    if actions::find(&args.action).is_none() {
        let near =
            actions::ACTIONS.iter().map(|rule| (schema::distance(&args.action, rule.name), rule.name)).min();
        let near = near.map(|(_, name)| format!("; `{name}` is near it")).unwrap_or_default();
        let action = &args.action;
        output.remark(&format!(
            "signed all the same: this version knows no action `{action}`{near}, and docs/contracts.md has all"
        ));
    }
    Ok(Exit::Success)
}

/// A text from a file or standard input, no longer than a request may be.
pub fn read_text(path: &Path, what: &str) -> Result<String> {
    let bytes = super::handle::read_input(path)?;
    if bytes.len() > REQUEST_BYTES_MAX {
        bail!("the {what} is larger than the {REQUEST_BYTES_MAX} bytes that a request may have");
    }
    String::from_utf8(bytes).with_context(|| format!("the {what} is not UTF-8"))
}

/// The key of who signs: of a file, or the gate's own copy.
pub fn key_of(home: &Path, source: &Principal, file: Option<&Path>) -> Result<SignKey> {
    match file {
        Some(path) => Ok(KeyFile::read(path, source)?.sign_key()?),
        None => match handover::own_key(home, source)? {
            Some(key) => Ok(key),
            None => bail!(
                "the keyring of `{}` holds no current shared key of `{source}`; name its key file with --key, or add one with `spoolgate keys add {source} --out FILE`",
                home.display()
            ),
        },
    }
}
