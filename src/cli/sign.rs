//! `spoolgate sign`: wraps a payload in a signed envelope.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use spoolgate_client::{self as agent, KeyFile, SignError};
use spoolgate_gate::actions;
use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::code::Exit;
use spoolgate_wire::envelope::REQUEST_BYTES_MAX;
use spoolgate_wire::ids::Principal;
use spoolgate_wire::signing::SignKey;

use super::output::Output;
use super::{handover, schema};

/// Sign a payload and print the envelope.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  spoolgate sign order.json --as trend-bot --action order.submit \
        --key bot.key > r1.json\n  echo '{}' | spoolgate sign - --as trend-bot --action \
        portfolio.get | spoolgate handle -\n  spoolgate sign order.json --as trend-bot --action \
        order.submit --causality task.json > r2.json"
)]
pub(super) struct Args {
    /// File with the payload, a JSON object; `-` for standard input.
    file: PathBuf,
    /// The principal that signs.
    #[arg(long = "as", value_name = "PRINCIPAL")]
    source: String,
    /// The action to request, such as order.submit.
    #[arg(long)]
    action: String,
    /// Key file; default: the gate's own copy in this home's keyring.
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// File with the causality, a JSON object: the task behind the request, and what caused it;
    /// default: none.
    #[arg(long, value_name = "FILE")]
    causality: Option<PathBuf>,
    /// Id of the request; default: a random one.
    #[arg(long)]
    id: Option<String>,
    /// Timestamp, RFC 3339 UTC; default: now.
    #[arg(long, value_name = "TIME")]
    timestamp: Option<String>,
}

/// Runs the command.
pub(super) fn run(home: &Path, args: &Args, output: &Output) -> Result<Exit> {
    let source = Principal::parse(&args.source)?;
    if args.causality.as_deref() == Some(&*args.file) {
        bail!(
            "both payload and causality are `{}`; name a file for one of them",
            args.file.display()
        );
    }
    let key = key_of(home, &source, args.key.as_deref())?;
    let payload = read_text(&args.file, "payload")?;
    // A key that was signed and sent would be in the ledger for every auditor to read.
    if serde_json::from_str::<KeyFile>(&payload).is_ok() {
        bail!(
            "`{}` is a key file, which must stay secret; name the file with the payload",
            args.file.display()
        );
    }
    let causality = args
        .causality
        .as_ref()
        .map(|path| read_text(path, "causality"))
        .transpose()?;
    let (id, timestamp) = (args.id.as_deref(), args.timestamp.as_deref());
    let signed = agent::sign(
        &key,
        &source,
        &args.action,
        &payload,
        causality.as_deref(),
        id,
        timestamp,
    );
    let envelope = match signed {
        Err(error @ SignError::Payload(_)) => {
            let file = args.file.display();
            return Err(error)
                .with_context(|| format!("file `{file}`; a payload is one JSON object"));
        }
        other => other?,
    };
    output.line(&envelope.to_json())?;
    if actions::find(&args.action).is_none() {
        let near = ActionName::ALL
            .into_iter()
            .map(|name| (schema::distance(&args.action, name.as_str()), name.as_str()))
            .min();
        let near = near
            .map(|(_, name)| format!(" (`{name}` is similar)"))
            .unwrap_or_default();
        let action = &args.action;
        output.remark(&format!(
            "signed, but this version knows no action `{action}`{near}; docs/contracts.md lists \
                all actions"
        ));
    }
    Ok(Exit::Success)
}

/// Reads a text from a file or standard input, no longer than a request may be.
pub(super) fn read_text(path: &Path, what: &str) -> Result<String> {
    let bytes = super::handle::read_input(path)?;
    if bytes.len() > REQUEST_BYTES_MAX {
        bail!("the {what} is larger than the {REQUEST_BYTES_MAX} bytes that a request may have");
    }
    String::from_utf8(bytes).with_context(|| format!("the {what} is not UTF-8"))
}

/// Returns the sender's key, from a file or from the gate's own copy.
pub(super) fn key_of(home: &Path, source: &Principal, file: Option<&Path>) -> Result<SignKey> {
    match file {
        Some(path) => Ok(KeyFile::read(path, source)?.sign_key()?),
        None => match handover::own_key(home, source)? {
            Some(key) => Ok(key),
            None => bail!(
                "the keyring of `{}` holds no current shared key of `{source}`; name its key file \
                    with --key, or add one with `spoolgate keys add {source} --out FILE`",
                home.display()
            ),
        },
    }
}
