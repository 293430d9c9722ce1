//! `spoolgate approvals`: requests that rules hold, and the approvers' decisions on them.
//! `spoolgate grants`: values that are in a set for one task.

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Serialize;
use spoolgate_gate::approvals::Hold;
use spoolgate_gate::record::Record;
use spoolgate_home::read::View;
use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::approvals::HoldId;
use spoolgate_wire::checks::CheckRow;
use spoolgate_wire::code::Exit;
use spoolgate_wire::ids::{Principal, SetName, TaskName};
use spoolgate_wire::time::Time;

use super::handover::{self, Person};
use super::look;
use super::output::{Output, plain};

/// The commands.
#[derive(clap::Subcommand)]
pub(super) enum Command {
    /// Show held requests.
    #[command(
        after_help = "Examples:\n  spoolgate approvals list\n  spoolgate --format json approvals \
            list | jq -r .id"
    )]
    List,
    /// Show a held request with all its checks.
    #[command(
        after_help = "Examples:\n  spoolgate approvals show h-42\n  spoolgate --format json \
            approvals show h-42 | jq .payload"
    )]
    Show {
        /// Id of the hold.
        #[arg(value_parser = read_id)]
        id: HoldId,
    },
    /// Decide it again with the holding rules satisfied; all other checks run as things stand.
    #[command(
        after_help = "Examples:\n  spoolgate approvals grant h-42\n  spoolgate approvals grant \
            h-42 --remember --reason \"known payee\""
    )]
    Grant(GrantArgs),
    /// Refuse a held request.
    #[command(after_help = "Examples:\n  spoolgate approvals deny h-42 --reason \"not this one\"")]
    Deny(DenyArgs),
}

/// Grant a held request.
#[derive(clap::Args)]
pub(super) struct GrantArgs {
    /// Id of the hold.
    #[arg(value_parser = read_id)]
    id: HoldId,
    /// Add the values that the rules did not find to their sets, if those grow on approval.
    #[arg(long)]
    remember: bool,
    /// The reason; it is recorded in the ledger.
    #[arg(long)]
    reason: Option<String>,
    #[command(flatten)]
    by: Person,
}

/// Deny a held request.
#[derive(clap::Args)]
pub(super) struct DenyArgs {
    /// Id of the hold.
    #[arg(value_parser = read_id)]
    id: HoldId,
    /// The reason; it is recorded in the ledger.
    #[arg(long)]
    reason: Option<String>,
    #[command(flatten)]
    by: Person,
}

/// Values that are in a set for one task.
#[derive(clap::Subcommand)]
pub(super) enum Grants {
    /// Show values that were added to sets while the gate ran.
    #[command(
        after_help = "Examples:\n  spoolgate grants list\n  spoolgate --format json grants list | \
            jq -r .value"
    )]
    List,
    /// Add a value to a set for one task.
    #[command(
        after_help = "Examples:\n  spoolgate grants add --set hosts --value example.org --task \
            research/task-001 --until 2026-03-02T18:00:00Z"
    )]
    Add(AddArgs),
    /// Remove a value from a set again.
    #[command(
        after_help = "Examples:\n  spoolgate grants end --set hosts --value example.org --task \
            research/task-001\n  spoolgate grants end --set payees --value DE00123"
    )]
    End(EndArgs),
}

/// Adds a value to a set for one task.
#[derive(clap::Args)]
pub(super) struct AddArgs {
    /// The set; its file must contain `grows: on_approval`.
    #[arg(long, value_parser = SetName::parse)]
    set: SetName,
    /// The value.
    #[arg(long)]
    value: String,
    /// The tree of tasks: tenant and id of its root.
    #[arg(long, value_parser = TaskName::parse)]
    task: TaskName,
    /// When the value expires, RFC 3339 UTC.
    #[arg(long, value_name = "TIME", value_parser = Time::parse)]
    until: Time,
    #[command(flatten)]
    by: Person,
}

/// Removes a value from a set.
#[derive(clap::Args)]
pub(super) struct EndArgs {
    /// The set.
    #[arg(long, value_parser = SetName::parse)]
    set: SetName,
    /// The value.
    #[arg(long)]
    value: String,
    /// The tree of tasks; default: the approval for all tasks.
    #[arg(long, value_parser = TaskName::parse)]
    task: Option<TaskName>,
    #[command(flatten)]
    by: Person,
}

fn read_id(text: &str) -> Result<HoldId> {
    HoldId::parse(text)
        .context("the id of a held request looks like h-42; `spoolgate approvals list` shows all")
}

/// Longest payload that is shown to a person in full, in bytes.
const SHOWN_BYTES_MAX: usize = 8 * 1024;

/// A hold with the payload and checks of its ledger line.
#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    hold: &'a Hold,
    payload: Option<String>,
    checks: &'a [CheckRow],
}

/// A value in a set.
#[derive(Serialize)]
struct InSet<'a> {
    set: &'a SetName,
    value: &'a str,
    task: Option<&'a TaskName>,
    until: Option<Time>,
    by: &'a Principal,
}

fn find(view: &View, id: HoldId) -> Result<&Hold> {
    match view.state.approvals.get(id) {
        Some(hold) => Ok(hold),
        None => {
            bail!("no request is held as {id}; `spoolgate approvals list` shows all held requests")
        }
    }
}

/// Runs a command.
pub(super) fn run(home: &Path, command: &Command, output: &Output) -> Result<Exit> {
    let (view, now) = look::view(home)?;
    match command {
        Command::List => list(&view, now, output),
        Command::Show { id } => show(&view, find(&view, *id)?, output),
        Command::Grant(args) => {
            let hold = find(&view, args.id)?;
            let (id, sha256) = (hold.id, &hold.request_sha256);
            let payload =
                serde_json::json!({"id": id, "request_sha256": sha256, "remember": args.remember});
            say(
                home,
                hold,
                ActionName::ApprovalGrant,
                payload,
                args.reason.as_deref(),
                &args.by,
                output,
            )
        }
        Command::Deny(args) => {
            let hold = find(&view, args.id)?;
            let payload = serde_json::json!({"id": hold.id, "request_sha256": hold.request_sha256});
            say(
                home,
                hold,
                ActionName::ApprovalDeny,
                payload,
                args.reason.as_deref(),
                &args.by,
                output,
            )
        }
    }
}

fn say(
    home: &Path,
    hold: &Hold,
    action: ActionName,
    mut payload: serde_json::Value,
    reason: Option<&str>,
    by: &Person,
    output: &Output,
) -> Result<Exit> {
    if let (Some(reason), Some(object)) = (reason, payload.as_object_mut()) {
        object.insert("reason".to_owned(), reason.into());
    }
    let done = match action {
        ActionName::ApprovalGrant => "granted and decided again",
        _ => "denied",
    };
    handover::administer(home, &by.person, action, &payload, output, |answer| {
        format!(
            "{} is {done}; `spoolgate explain {}` shows the result (ledger line {})",
            hold.id, hold.request_id, answer.audit_ref
        )
    })
}

fn list(view: &View, now: Time, output: &Output) -> Result<Exit> {
    if output.is_json() {
        view.state
            .approvals
            .iter()
            .try_for_each(|hold| output.json(hold))?;
        return Ok(Exit::Success);
    }
    let rows: Vec<Vec<String>> = view
        .state
        .approvals
        .iter()
        .map(|hold| {
            let expires = if hold.expires_at <= now {
                "over".to_owned()
            } else {
                hold.expires_at.to_string()
            };
            let texts = [
                hold.source.to_string(),
                hold.action.clone(),
                hold.request_id.to_string(),
            ];
            [
                vec![hold.id.to_string()],
                texts.to_vec(),
                vec![hold.held_by().join(", "), expires],
            ]
            .concat()
        })
        .collect();
    output.table(
        &["id", "source", "action", "request", "held by", "until"],
        &[],
        &rows,
    )?;
    Ok(Exit::Success)
}

/// Cuts a long payload for a terminal, and states its full size.
fn begin_of(payload: String) -> String {
    if payload.len() <= SHOWN_BYTES_MAX {
        return payload;
    }
    let end = (0..=SHOWN_BYTES_MAX)
        .rev()
        .find(|end| payload.is_char_boundary(*end));
    let begin = end.and_then(|end| payload.get(..end)).unwrap_or_default();
    format!(
        "{begin}... ({} bytes, `--format json` shows all)",
        payload.len()
    )
}

fn show(view: &View, hold: &Hold, output: &Output) -> Result<Exit> {
    let Some(Record::Decision(line)) = view.record(hold.id.0)? else {
        bail!("ledger line {} cannot be read", hold.id.0)
    };
    let payload = view.payload(hold.id.0)?;
    if output.is_json() {
        output.json(&Shown {
            hold,
            payload,
            checks: &line.checks,
        })?;
        return Ok(Exit::Success);
    }
    let rows: Vec<Vec<String>> = [
        ("id", hold.id.to_string()),
        ("source", hold.source.to_string()),
        ("request", hold.request_id.to_string()),
        ("action", hold.action.clone()),
        (
            "payload",
            plain(&payload.map_or_else(|| "(lost)".to_owned(), begin_of)),
        ),
        ("sha256", hold.request_sha256.clone()),
        ("held by", hold.held_by().join(", ")),
        ("since", hold.held_at.to_string()),
        ("until", hold.expires_at.to_string()),
    ]
    .into_iter()
    .map(|(name, value)| vec![name.to_owned(), value])
    .collect();
    output.table(&["what", ""], &[], &rows)?;
    let checks: Vec<Vec<String>> = line
        .checks
        .iter()
        .map(|row| {
            let passed = if row.passed { "yes" } else { "no" };
            let reason = row.reason.as_deref().map_or_else(|| "-".to_owned(), plain);
            vec![
                plain(&row.name),
                passed.to_owned(),
                plain(&row.source),
                reason,
            ]
        })
        .collect();
    output.table(&["check", "passed", "source", "why"], &[], &checks)?;
    Ok(Exit::Success)
}

/// Runs a command about values in sets.
pub(super) fn run_grants(home: &Path, command: &Grants, output: &Output) -> Result<Exit> {
    match command {
        Grants::List => {
            let (view, _) = look::view(home)?;
            list_entries(&view, output)
        }
        Grants::Add(AddArgs {
            set,
            value,
            task,
            until,
            by,
        }) => {
            let payload =
                serde_json::json!({"set": set, "value": value, "task": task, "expires_at": until});
            handover::administer(
                home,
                &by.person,
                ActionName::GrantAdd,
                &payload,
                output,
                |answer| {
                    format!(
                        "`{value}` is in set `{set}` for task {task} until {until} (ledger line \
                            {})",
                        answer.audit_ref
                    )
                },
            )
        }
        Grants::End(EndArgs {
            set,
            value,
            task,
            by,
        }) => {
            let mut payload = serde_json::json!({"set": set, "value": value});
            if let (Some(task), Some(object)) = (task, payload.as_object_mut()) {
                object.insert("task".to_owned(), task.as_str().into());
            }
            handover::administer(
                home,
                &by.person,
                ActionName::GrantEnd,
                &payload,
                output,
                |answer| {
                    format!(
                        "`{value}` is no longer in set `{set}` (ledger line {})",
                        answer.audit_ref
                    )
                },
            )
        }
    }
}

fn list_entries(view: &View, output: &Output) -> Result<Exit> {
    let all = view.state.entries.iter().map(|(set, value, entry)| InSet {
        set,
        value,
        task: entry.task.as_ref(),
        until: entry.until,
        by: &entry.by,
    });
    if output.is_json() {
        all.into_iter().try_for_each(|entry| output.json(&entry))?;
        return Ok(Exit::Success);
    }
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let rows: Vec<Vec<String>> = all
        .map(
            |InSet {
                 set,
                 value,
                 task,
                 until,
                 by,
             }| {
                let task = or_dash(task.map(ToString::to_string));
                vec![
                    set.to_string(),
                    plain(value),
                    task,
                    or_dash(until.map(|until| until.to_string())),
                    by.to_string(),
                ]
            },
        )
        .collect();
    output.table(&["set", "value", "task", "until", "by"], &[], &rows)?;
    Ok(Exit::Success)
}
