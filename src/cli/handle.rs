//! `spoolgate handle`: decides one signed file at once, or only tries it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::value::RawValue;
use spoolgate_home::dry_run::{Asked, Trial, Tried};
use spoolgate_home::read::real_seams;
use spoolgate_rules::Rulebook;
use spoolgate_wire::answer::Answer;
use spoolgate_wire::code::Exit;
use spoolgate_wire::envelope::{Envelope, REQUEST_BYTES_MAX};
use spoolgate_wire::ids::{Principal, RequestId};
use spoolgate_wire::json;
use spoolgate_wire::time::Time;

use super::handover::{self, Handed};
use super::look;
use super::output::Output;
use super::rules::Folder;

/// Decide one signed file at once and print the answer.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  spoolgate handle r1.json\n  spoolgate handle - < r1.json | jq \
        .data\n  spoolgate handle --dry-run r1.json\n  spoolgate handle --dry-run --as trend-bot \
        --action order.submit order.json\n  spoolgate handle --dry-run --rules my-checkout \
        witness.json\n\nA dry run writes nothing and uses up no id; a gate may be running. It \
        accepts a request without a signature, and a\npayload alone with --as and \
        --action.\n\nThe exit code is that of the answer. If a watcher is running, the command \
        hands the file to it."
)]
pub(super) struct Args {
    /// The signed request; `-` for standard input.
    file: PathBuf,
    /// Print what the answer would be, and do nothing.
    #[arg(long)]
    dry_run: bool,
    /// Use the rules in this folder instead of those in force.
    #[arg(long, value_name = "DIR", requires = "dry_run")]
    rules: Option<PathBuf>,
    /// The principal that would sign it; default: the one that the file names.
    #[arg(long = "as", value_name = "PRINCIPAL", requires = "dry_run",
        value_parser = Principal::parse)]
    source: Option<Principal>,
    /// The action, if the file holds only the payload.
    #[arg(long, requires = "dry_run")]
    action: Option<String>,
}

/// Reads a file or standard input: at most one byte more than a request may have.
pub(super) fn read_input(path: &Path) -> Result<Vec<u8>> {
    let cap = u64::try_from(REQUEST_BYTES_MAX)
        .unwrap_or(u64::MAX)
        .saturating_add(1);
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        std::io::stdin()
            .take(cap)
            .read_to_end(&mut bytes)
            .context("standard input")?;
    } else {
        let shown = || {
            format!(
                "file `{}`; name one that can be read, or `-` for standard input",
                path.display()
            )
        };
        let file = File::open(path).with_context(shown)?;
        file.take(cap).read_to_end(&mut bytes).with_context(shown)?;
    }
    Ok(bytes)
}

/// Runs the command.
pub(super) fn run(home: &Path, args: &Args, output: &Output) -> Result<Exit> {
    let request = read_input(&args.file)?;
    if args.dry_run {
        return try_it(home, args, &request, output);
    }
    match handover::decide(home, &request)? {
        Handed::Answered(bytes) => {
            output.raw(&bytes)?;
            let answer: Answer = serde_json::from_slice(&bytes).context("the gate's answer")?;
            Ok(answer.exit())
        }
        Handed::TimedOut => {
            output.remark(
                "the running gate did not answer in time; the request is still in its spool",
            );
            Ok(Exit::WaitTimeout)
        }
    }
}

fn try_it(home: &Path, args: &Args, request: &[u8], output: &Output) -> Result<Exit> {
    let seams = real_seams(home)?;
    let mut trial = Trial::of(home, &seams)?;
    match &args.rules {
        Some(dir) => trial.under(rules_of(dir, &trial.view.rulebook)?),
        None => look::rules_apart(home, &trial.view)
            .iter()
            .for_each(|apart| output.remark(apart)),
    }
    let asked = asked(args, request, trial.now)?;
    let Tried {
        answer, remarks, ..
    } = trial.decide(&asked)?;
    remarks.iter().for_each(|remark| output.remark(remark));
    output.raw(&marked(&answer))?;
    Ok(answer.exit())
}

/// Returns the answer with a mark at the front, so that it cannot be mistaken for a real one.
fn marked(answer: &Answer) -> Vec<u8> {
    let mut bytes = br#"{"dry_run":true,"#.to_vec();
    bytes.extend(answer.to_bytes().into_iter().skip(1));
    bytes
}

/// Reads the rulebook in `dir`. If that holds only rules and sets, they replace those of the
/// rulebook in force.
pub(super) fn rules_of(dir: &Path, in_force: &Rulebook) -> Result<Rulebook> {
    let folder = Folder::read(dir, None)?;
    let read = folder.sound_rules()?;
    match folder.rulebook() {
        Some(Ok(mut rulebook)) => {
            // Theses are not kept with the rules: if the folder has none, the home's stay in force.
            if rulebook.theses.is_empty() {
                rulebook.theses.clone_from(&in_force.theses);
            }
            Ok(rulebook)
        }
        Some(Err(fault)) => bail!(folder.shown(fault)),
        None => Ok(Rulebook {
            ruleset: read.rules,
            ..in_force.clone()
        }),
    }
}

/// A request that may lack a signature and other fields, as people and `rules review` write it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Draft<'a> {
    id: Option<String>,
    timestamp: Option<String>,
    action: Option<String>,
    source: Option<String>,
    signature: Option<String>,
    #[serde(borrow)]
    payload: &'a RawValue,
    #[serde(borrow, default)]
    causality: Option<&'a RawValue>,
}

/// Reads the request in the file.
pub(super) fn asked<'a>(args: &Args, bytes: &'a [u8], now: Time) -> Result<Asked<'a>> {
    read_asked(bytes, args.source.as_ref(), args.action.as_deref(), now)
}

/// Reads a request that is signed, unsigned, or only a payload.
pub(super) fn read_asked<'a>(
    bytes: &'a [u8],
    source: Option<&Principal>,
    action: Option<&str>,
    now: Time,
) -> Result<Asked<'a>> {
    if source.is_none() && Envelope::parse(bytes).is_ok() {
        return Ok(Asked::Signed(bytes));
    }
    let text = json::check_object(bytes).context("the request")?;
    let keys: BTreeMap<String, &RawValue> = serde_json::from_str(text).context("the request")?;
    let is_payload = !keys.contains_key("payload");
    let draft = if is_payload {
        if action.is_none() {
            bail!(
                "the request has no `payload`; if the file itself is the payload, name its \
                action with --action"
            );
        }
        let payload = serde_json::from_str(text).context("the payload")?;
        Draft {
            id: None,
            timestamp: None,
            action: None,
            source: None,
            signature: None,
            payload,
            causality: None,
        }
    } else {
        serde_json::from_str(text).context("the request")?
    };
    let Some(action) = action.map(str::to_owned).or(draft.action) else {
        bail!("the request has no `action`; name it with --action");
    };
    let source = match (source, &draft.source) {
        (Some(source), _) => source.clone(),
        (None, Some(source)) => Principal::parse(source)?,
        (None, None) => bail!("the request is not signed; name the sender with --as"),
    };
    let timestamp_text = draft.timestamp.unwrap_or_else(|| now.to_string());
    let id = match draft.id {
        Some(id) => id,
        None => spoolgate_client::random_name()?,
    };
    Ok(Asked::Unsigned(Envelope {
        id: RequestId::parse(&id)?,
        timestamp: Time::parse(&timestamp_text)?,
        timestamp_text,
        action,
        payload: json::minify(draft.payload.get()).into_owned(),
        source,
        signature: draft.signature.unwrap_or_default(),
        causality: draft
            .causality
            .map(|raw| json::minify(raw.get()).into_owned()),
    }))
}
