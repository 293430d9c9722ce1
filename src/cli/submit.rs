//! `spoolgate submit`: the agent's side; drops files into the spool and reads their answers.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use spoolgate_client as agent;
use spoolgate_client::spool::{Sent, Spool, SpoolError};
use spoolgate_home::HomeError;
use spoolgate_host::spool::name::FileName;
use spoolgate_wire::code::Exit;
use spoolgate_wire::envelope::Envelope;
use spoolgate_wire::ids::{Principal, RequestId};

use super::audit;
use super::output::Output;

/// Drop signed files into the spool, as an agent does.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  spoolgate submit r1.json r2.json\n  spoolgate submit r1.json \
        --wait\n  spoolgate submit r1.json --agent trend-bot --wait 5\n  spoolgate submit r1.json \
        --proof=r1.tlog-proof\n\nWith --wait the answers are printed, one JSON line each; the \
        exit code is that of the first that is not a success."
)]
pub(super) struct Args {
    /// Signed requests; `-` for standard input.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Use this agent's own spool directory instead of the flat spool.
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Wait for the answers, at most this many seconds.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "60",
        value_parser = seconds)]
    wait: Option<u64>,
    /// Wait, and write the receipt of each answer's ledger line beside its request or to FILE.
    /// Needs the audit folder.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    proof: Option<Option<PathBuf>>,
}

/// Parses a number of seconds. A file name after `--wait` ends up here, so the error says what to
/// write instead.
fn seconds(text: &str) -> Result<u64> {
    text.parse().map_err(|_| {
        anyhow!(
            "`{text}` is not a number of seconds; put files before `--wait`, or write \
            `--wait=60`"
        )
    })
}

/// How many seconds to wait by default.
const WAIT_S: u64 = 60;

/// A file that was handed in.
struct OnItsWay {
    sent: Sent,
    /// Where to write its receipt.
    receipt: Option<PathBuf>,
}

/// Returns the receipt file for each request, `None` for each if no receipts are wanted.
fn receipt_files(args: &Args) -> Result<Vec<Option<PathBuf>>> {
    let Some(named) = &args.proof else {
        return Ok(vec![None; args.files.len()]);
    };
    if let Some(named) = named {
        if args.files.len() > 1 {
            bail!(
                "--proof=FILE is for one request; with --proof alone, each receipt is written \
                    beside its request"
            );
        }
        return Ok(vec![Some(named.clone())]);
    }
    let beside = |file: &PathBuf| {
        if file == Path::new("-") {
            bail!(
                "a request from standard input has no folder for a receipt; name a file with \
                    --proof=FILE"
            );
        }
        Ok(Some(file.with_extension("tlog-proof")))
    };
    args.files.iter().map(beside).collect()
}

/// Runs the command.
pub(super) fn run(home: &Path, args: &Args, output: &Output) -> Result<Exit> {
    let receipts = receipt_files(args)?;
    let agent = args.agent.as_deref().map(Principal::parse).transpose()?;
    let spool = Spool::of(home, agent.as_ref()).map_err(of_home)?;
    let mut sent = Vec::new();
    for (file, receipt) in args.files.iter().zip(receipts) {
        sent.push(OnItsWay {
            sent: drop_file(file, &spool)?,
            receipt,
        });
    }
    let Some(seconds) = args.wait.or(args.proof.as_ref().map(|_| WAIT_S)) else {
        if !output.is_json() {
            sent.iter().try_for_each(|sent| {
                output.line(&format!(
                    "submitted {}",
                    super::output::plain(&sent.sent.name)
                ))
            })?;
        }
        return Ok(Exit::Success);
    };
    collect(
        home,
        &sent,
        Instant::now() + Duration::from_secs(seconds),
        output,
    )
}

/// Turns a disk error into a [`HomeError`], which has an exit code of its own.
fn of_home(error: SpoolError) -> anyhow::Error {
    match error {
        SpoolError::Disk { path, source } | SpoolError::HandedIn { path, source } => {
            HomeError::disk(&path, source).into()
        }
        other => other.into(),
    }
}

fn drop_file(file: &Path, spool: &Spool) -> Result<Sent> {
    let bytes = super::handle::read_input(file)?;
    // A file that is not an envelope goes in under its own name, because the gate answers that too.
    // A name that no request may have, such as `-` for standard input, could not get an answer, so
    // it is replaced.
    let own_name = file
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let own_stem = own_name
        .strip_suffix(".json")
        .unwrap_or(&own_name)
        .to_owned();
    let is_good = FileName::of(OsStr::new(&format!("{own_stem}.json"))).is_good;
    let own_stem = if is_good {
        own_stem
    } else {
        agent::random_name()?
    };
    let id = Envelope::parse(&bytes).ok().map(|envelope| envelope.id);
    let stem = id.as_ref().map_or(own_stem.into(), RequestId::file_stem);
    spool.hand_in(&bytes, &stem, id.as_ref()).map_err(of_home)
}

/// Waits for the answers.
fn collect(home: &Path, sent: &[OnItsWay], deadline: Instant, output: &Output) -> Result<Exit> {
    let mut exit = Exit::Success;
    for OnItsWay { sent, receipt } in sent {
        let Some(answer) = sent.answer_by(deadline) else {
            output.remark(&format!(
                "no answer to `{}` in time; a gate (`spoolgate watch`) may still decide it; run \
                    the same command again to wait for the answer",
                sent.name
            ));
            return Ok(Exit::WaitTimeout);
        };
        output.raw(&answer.to_bytes())?;
        let receipt = match receipt {
            Some(file) => audit::write_receipt(home, &answer.audit_ref, file, deadline, output),
            None => Exit::Success,
        };
        if exit == Exit::Success {
            exit = if answer.exit() == Exit::Success {
                receipt
            } else {
                answer.exit()
            };
        }
    }
    Ok(exit)
}
