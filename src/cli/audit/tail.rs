//! `audit tail`: the last lines, a row each.

use std::path::Path;

use anyhow::Result;
use spoolgate::gate::record::{AskedFor, Event};
use spoolgate::gate::{Change, Record};
use spoolgate::wire::code::Exit;

use super::lines::{Shown, each_line, segments_of};
use crate::cli::output::{self, Output};

/// How many lines, and which.
#[derive(clap::Args)]
pub struct Args {
    /// How many.
    #[arg(short = 'n', long, default_value_t = 20)]
    lines: usize,
    /// Also seals and other lines that decide nothing.
    #[arg(long)]
    all: bool,
}

/// Prints the last lines.
pub fn run(home: &Path, args: &Args, output: &Output) -> Result<Exit> {
    let (_, numbers) = segments_of(home)?;
    let mut last: std::collections::VecDeque<Shown> = std::collections::VecDeque::new();
    // From the newest segment backwards until there are enough.
    for number in numbers.into_iter().rev() {
        last.clear();
        each_line(home, number, &mut |shown| {
            let decides = !matches!(shown.kind.as_str(), "seal" | "segment" | "published");
            if args.all || decides {
                last.push_back(shown);
            }
            if last.len() > args.lines {
                last.pop_front();
            }
        })?;
        if last.len() >= args.lines {
            break;
        }
    }
    if output.is_json() {
        last.iter().try_for_each(|shown| output.line(&shown.text))?;
        return Ok(Exit::Success);
    }
    let rows: Vec<Vec<String>> = last.iter().map(describe).collect();
    output.table(&["line", "time", "kind", "who", "what", "outcome"], &["line"], &rows)?;
    Ok(Exit::Success)
}

/// What is wrong with rule files, by an event that says so.
fn fault_of(event: &Event) -> String {
    let fault = event.changes.iter().find_map(|change| match change {
        Change::RulebookFaulted { fault } => Some(fault.clone()),
        _ => None,
    });
    fault.unwrap_or_default()
}

/// A line in a row for people.
fn describe(shown: &Shown) -> Vec<String> {
    let (time, who, what, outcome) = match &shown.record {
        Some(Record::Decision(decision)) => {
            let outcome = match (decision.metadata.code, decision.metadata.replay_of) {
                (Some(code), _) => {
                    format!("{code}: {}", decision.metadata.message.as_deref().unwrap_or_default())
                }
                (None, Some(original)) => format!("answered again as in line {original}"),
                (None, None) => {
                    decision.order_id.map_or_else(|| "success".to_owned(), |id| format!("success, {id}"))
                }
            };
            let who = decision.source.clone().unwrap_or_default();
            let what = decision.action.clone().unwrap_or_else(|| decision.file.clone());
            (decision.timestamp.to_string(), who, what, outcome)
        }
        Some(Record::Council(line)) => {
            let what = format!("council decides case {}", line.request_id);
            (line.timestamp.to_string(), String::new(), what, line.outcome.as_str().to_owned())
        }
        Some(Record::Input(input)) => {
            let what = format!("{} on case {}", input.role, input.request_id);
            (input.timestamp.to_string(), "command".to_owned(), what, input.note.clone())
        }
        Some(Record::AdmissionInput(input)) => {
            let what = match &input.about {
                AskedFor::Policy { domain, .. } => format!("policy of {domain}"),
                AskedFor::Lineage { source, request_id, .. } => {
                    format!("lineage of `{request_id}` of {source}")
                }
            };
            (input.timestamp.to_string(), "command".to_owned(), what, input.note.clone())
        }
        Some(Record::Market(rows)) => {
            let what = format!("{} rows of {}", rows.row_count, rows.symbol);
            (
                rows.timestamp.to_string(),
                rows.file_name.clone().unwrap_or_default(),
                what,
                format!("{} changes", rows.changes.len()),
            )
        }
        Some(Record::Genesis(genesis)) => (
            genesis.timestamp.to_string(),
            String::new(),
            "the log begins".to_owned(),
            genesis.origin.clone(),
        ),
        Some(Record::Rotate(rotation)) => (
            rotation.timestamp.to_string(),
            rotation.by.to_string(),
            format!("the log's key is {} from here on", rotation.log_key),
            rotation.reason.clone(),
        ),
        Some(Record::Admin(admin)) => {
            (admin.timestamp.to_string(), admin.by.to_string(), admin.note.clone(), admin.reason.clone())
        }
        Some(Record::Published(published)) => (
            published.timestamp.to_string(),
            String::new(),
            format!("answers up to {} are durable", published.up_to),
            String::new(),
        ),
        Some(
            Record::Start(event)
            | Record::Stop(event)
            | Record::Rulebook(event)
            | Record::Tick(event)
            | Record::Halt(event)
            | Record::ClockStep(event)
            | Record::DeadMan(event)
            | Record::Quota(event)
            | Record::Proposal(event),
        ) => (event.timestamp.to_string(), String::new(), event.note.clone(), fault_of(event)),
        None => (String::new(), String::new(), String::new(), String::new()),
    };
    let outcome = output::short(&outcome, 120);
    vec![shown.seq.to_string(), time, shown.kind.clone(), who, what, outcome]
}
