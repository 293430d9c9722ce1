//! `spoolgate status`: what is going on in a home, at a glance.

use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};
use spoolgate_gate::storage::{Room, Scarce};
use spoolgate_home::HomeError;
use spoolgate_home::read::real_seams;
use spoolgate_home::status::{Holder, holder};
use spoolgate_ledger::disk::Space;
use spoolgate_ledger::segment;
use spoolgate_rules::safety::StorageLimits;
use spoolgate_wire::code::Exit;

use super::bridges;
use super::look;
use super::output::Output;

/// Show whether a gate is running, what is left in the spool, room, and what keeps entries closed.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  spoolgate status\n  spoolgate --format json status | jq \
        .spool_left\n  spoolgate status --only gate || echo \"no gate is running\"\n\nIt takes no \
        lock and works beside a running gate, as the gate's user or root. spool_left counts\nentries \
        that the watcher cannot move or read; it is null without a watcher.\n\nExit codes: 0; with \
        --only gate 0 if a gate is running and 1 if none is; 2 if this is not a home, 5 or 6\nif it \
        cannot be read."
)]
pub(super) struct Args {
    /// Show only this, without reading the ledger. The exit code says whether a gate is running.
    #[arg(long, value_enum, value_name = "WHAT")]
    only: Option<Only>,
}

/// A part of the status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Only {
    /// The process that holds the home's lock.
    Gate,
}

/// One row for people: a subject, and what is to be said of it.
type Row = (String, String);

/// Runs the command.
pub(super) fn run(home: &Path, args: &Args, output: &Output) -> Result<Exit> {
    let seams = real_seams(home)?;
    let gate = holder(home, seams.disk.as_ref())?;
    if !segment::is_log(&home.join(segment::AUDIT_DIR)) {
        return Err(HomeError::NotAHome(home.to_owned()).into());
    }
    if args.only == Some(Only::Gate) {
        if output.is_json() {
            output.json(&json!({"gate": gate_as_json(gate.as_ref())}))?;
        } else {
            print(&[gate_in_words(gate.as_ref())], output)?;
        }
        return Ok(match gate {
            Some(_) => Exit::Success,
            None => Exit::Refused,
        });
    }
    let (view, now) = look::view(home)?;
    let mut closed = look::why_closed(&view.state);
    closed.extend(look::closed_for_now(&view.state, &view.rulebook, now));
    let apart = look::rules_apart(home, &view);
    let storage = seams.disk.space(Path::new(segment::AUDIT_DIR)).ok();
    let storage = storage.map(|space| {
        let was_low = !view.state.storage.is_normal();
        StorageStatus::of(space, &view.rulebook.safety.storage, was_low)
    });
    if output.is_json() {
        output.json(&json!({
            "gate": gate_as_json(gate.as_ref()),
            "spool_left": watcher(gate.as_ref()).map(|watcher| &watcher.spool_left),
            "storage": storage,
            "bridges": bridges::as_json(home, &view.state, &view.rulebook),
            "halts": view.state.halts,
            "rules": apart,
            "closed": closed,
        }))?;
        return Ok(Exit::Success);
    }
    let mut rows = vec![gate_in_words(gate.as_ref())];
    rows.extend(left_in_words(gate.as_ref()));
    rows.extend(storage.map(|storage| ("storage".to_owned(), storage.in_words())));
    rows.extend(bridges::in_words(home, &view.state, &view.rulebook, now));
    rows.extend(apart.map(|why| ("rules".to_owned(), why)));
    rows.extend(closed_in_words(closed));
    print(&rows, output)?;
    Ok(Exit::Success)
}

/// Room on the disk of the ledger.
#[derive(serde::Serialize)]
struct StorageStatus {
    free_bytes: u64,
    /// Why a gate that looks now refuses what can wait; `None` if there is enough room.
    scarce: Option<String>,
}

impl StorageStatus {
    fn of(space: Space, limits: &StorageLimits, was_low: bool) -> StorageStatus {
        let room = Room {
            bytes: space.bytes,
            files: space.files,
        };
        StorageStatus {
            free_bytes: space.bytes,
            scarce: Scarce::of(room, limits, was_low).map(|scarce| scarce.to_string()),
        }
    }

    fn in_words(&self) -> String {
        match &self.scarce {
            Some(scarce) => format!("low: {scarce}"),
            None => format!("{} MiB free", self.free_bytes >> 20),
        }
    }
}

fn print(rows: &[Row], output: &Output) -> Result<()> {
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|(what, told)| vec![what.clone(), told.clone()])
        .collect();
    output.table(&["what", "status"], &[], &rows)
}

fn watcher(gate: Option<&Holder>) -> Option<&spoolgate_home::status::Watcher> {
    gate?.watcher.as_ref()
}

fn gate_as_json(gate: Option<&Holder>) -> Value {
    let watcher = watcher(gate);
    json!({
        "running": gate.is_some(),
        "pid": gate.map(|gate| gate.pid),
        "watcher": watcher.is_some(),
        "since": watcher.map(|watcher| watcher.since),
        "landlock": watcher.and_then(|watcher| watcher.landlock),
    })
}

fn gate_in_words(gate: Option<&Holder>) -> Row {
    let told = match gate {
        None => "not running".to_owned(),
        Some(Holder {
            pid,
            name,
            watcher: None,
        }) => format!("{name} holds the lock, process {pid}; not a watcher, or just started"),
        Some(Holder {
            pid,
            watcher: Some(watcher),
            ..
        }) => {
            let sandbox = match watcher.landlock {
                Some(abi) => format!("in a sandbox (Landlock {abi})"),
                None => "without a sandbox".to_owned(),
            };
            format!(
                "a watcher is running since {}, process {pid}, {sandbox}",
                watcher.since
            )
        }
    };
    ("gate".to_owned(), told)
}

fn left_in_words(gate: Option<&Holder>) -> Vec<Row> {
    let Some(watcher) = watcher(gate) else {
        let told = "unknown: only a watcher counts what it cannot move";
        return vec![("spool left".to_owned(), told.to_owned())];
    };
    if watcher.spool_left.is_empty() {
        return vec![("spool left".to_owned(), "nothing".to_owned())];
    }
    let left = watcher.spool_left.iter();
    left.map(|(spool, count)| {
        let what = format!("spool left ({spool})");
        (what, format!("{count} that the gate cannot move or read"))
    })
    .collect()
}

fn closed_in_words(reasons: Vec<String>) -> Vec<Row> {
    if reasons.is_empty() {
        return vec![("entries".to_owned(), "open".to_owned())];
    }
    let closed = reasons.into_iter();
    closed
        .map(|reason| ("entries".to_owned(), reason))
        .collect()
}
