//! Formats a line of the ledger as one row on a terminal.

use std::io::IsTerminal;

use anyhow::Result;
use clap::ValueEnum;
use spoolgate_gate::record::{AskedFor, Decision, Event, Ruling, Status};
use spoolgate_gate::{Change, Record};
use spoolgate_ledger::batches::Line;
use spoolgate_wire::checks::CheckRow;

use crate::cli::output::{self, Output};

/// Longest message, in characters.
const WHY_CHARACTERS_MAX: usize = 160;
/// Longest name chosen by an agent, in characters.
const NAME_CHARACTERS_MAX: usize = 40;

/// Whether to print colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Color {
    /// On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Prints rows one by one, without collecting them first.
pub(super) struct Rows<'a> {
    output: &'a Output,
    colored: bool,
}

/// The columns of a row.
struct Row {
    time: String,
    outcome: (&'static str, Tone),
    who: String,
    what: String,
    id: String,
    why: String,
}

/// The meaning of an outcome's colour.
#[derive(Clone, Copy)]
enum Tone {
    Done,
    Refused,
    Waits,
    Told,
}

impl<'a> Rows<'a> {
    /// Creates rows for this output.
    pub(super) fn new(output: &'a Output, color: Color) -> Rows<'a> {
        let colored = match color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => {
                std::io::stdout().is_terminal()
                    && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
            }
        };
        Rows { output, colored }
    }

    /// Prints the names of the columns.
    pub(super) fn heading(&self) -> Result<()> {
        if self.output.is_json() {
            return Ok(());
        }
        let row = Row {
            time: "TIME".to_owned(),
            outcome: ("OUTCOME", Tone::Told),
            who: "WHO".to_owned(),
            what: "WHAT".to_owned(),
            id: "REQUEST".to_owned(),
            why: "WHY".to_owned(),
        };
        self.output.line(&self.render("LINE", &row))
    }

    /// Prints a line: unchanged for programs, as a row for people.
    pub(super) fn line(&self, line: &Line) -> Result<()> {
        if self.output.is_json() {
            return self.output.line(&line.text);
        }
        self.output
            .line(&self.render(&line.seq.to_string(), &row_of(line)))
    }

    fn render(&self, seq: &str, row: &Row) -> String {
        let cell = |text: &str| output::plain(text);
        let (word, tone) = row.outcome;
        // Pad before colouring: escape codes have no width on a terminal.
        let word = format!("{word:<12}");
        let color = match tone {
            Tone::Done => "32",
            Tone::Refused => "31",
            Tone::Waits => "33",
            Tone::Told => "2",
        };
        let word = if self.colored {
            format!("\u{1b}[{color}m{word}\u{1b}[0m")
        } else {
            word
        };
        let text = format!(
            "{seq:>8}  {:<24}  {word}  {:<14}  {:<44}  {:<20}  {}",
            cell(&row.time),
            cell(&row.who),
            cell(&row.what),
            cell(&row.id),
            cell(&row.why)
        );
        text.trim_end().to_owned()
    }
}

fn row_of(line: &Line) -> Row {
    match Record::parse(&line.kind, &line.body()) {
        Ok(Some(Record::Decision(decision))) => row_of_decision(&decision),
        Ok(Some(record)) => row_of_event(line, &record),
        // Lines that the ledger writes about itself, and lines that this version cannot read.
        Ok(None) => told("", line, String::new(), String::new()),
        Err(error) => told("", line, String::new(), error.to_string()),
    }
}

/// Builds a row without an outcome. If `what` is empty, the kind of the line is shown.
fn told(time: &str, line: &Line, what: String, why: String) -> Row {
    let what = if what.is_empty() {
        line.kind.clone()
    } else {
        what
    };
    Row {
        time: time.to_owned(),
        outcome: ("-", Tone::Told),
        who: String::new(),
        what: output::short(&what, WHY_CHARACTERS_MAX),
        id: String::new(),
        why: output::short(&why, WHY_CHARACTERS_MAX),
    }
}

fn outcome(decision: &Decision) -> (&'static str, Tone) {
    match (decision.status, decision.decision, decision.metadata.code) {
        _ if decision.metadata.replay_of.is_some() => ("again", Tone::Told),
        (Status::Success, Some(Ruling::Accepted), _) => ("accepted", Tone::Done),
        (Status::Success, ..) => ("success", Tone::Done),
        (Status::Held, ..) => ("held", Tone::Waits),
        (Status::Pending, ..) => ("pending", Tone::Waits),
        (Status::Error, ..) => ("error", Tone::Refused),
        (Status::RateLimited, ..) => ("rate_limited", Tone::Waits),
        (Status::Rejected, ..) => ("rejected", Tone::Refused),
    }
}

fn row_of_decision(decision: &Decision) -> Row {
    Row {
        time: decision.timestamp.to_string(),
        outcome: outcome(decision),
        who: output::short(
            decision.source.as_deref().unwrap_or("-"),
            NAME_CHARACTERS_MAX,
        ),
        what: what(decision),
        id: output::short(
            decision.request_id.as_deref().unwrap_or("-"),
            NAME_CHARACTERS_MAX,
        ),
        why: why(decision),
    }
}

/// Returns a text or number of the payload exactly as the sender wrote it; it is shown only.
fn sent(decision: &Decision, name: &str) -> Option<String> {
    let payload: serde_json::Value = serde_json::from_str(decision.payload.as_deref()?).ok()?;
    let text = match payload.get(name)? {
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Number(number) => number.to_string(),
        _ => return None,
    };
    Some(output::short(&text, NAME_CHARACTERS_MAX))
}

/// Describes the action, and for orders their details.
fn what(decision: &Decision) -> String {
    let Some(action) = &decision.action else {
        return output::short(&format!("file {}", decision.file), WHY_CHARACTERS_MAX);
    };
    let mut words = vec![output::short(action, NAME_CHARACTERS_MAX)];
    if let (Some(side), Some(size), Some(symbol)) =
        (&decision.side, decision.size, &decision.symbol)
    {
        words.extend([side.clone(), size.normalized().to_string(), symbol.clone()]);
        match (
            sent(decision, "order_type").as_deref(),
            sent(decision, "price"),
            sent(decision, "stop_price"),
        ) {
            (Some("stop"), _, Some(trigger)) => words.push(format!("at stop {trigger}")),
            (_, Some(price), _) => words.push(format!("@ {price}")),
            (Some("market"), ..) => words.push("at market".to_owned()),
            _ => {}
        }
    } else if let Some(order) = sent(decision, "order_id") {
        words.push(order);
        words.extend(sent(decision, "new_stop").map(|stop| format!("to {stop}")));
    }
    output::short(&words.join(" "), WHY_CHARACTERS_MAX)
}

/// Describes a failed check with its value and its limit.
fn failed(check: &CheckRow) -> String {
    let amount =
        |amount: Option<spoolgate_wire::amount::Amount>| amount.map(|a| a.normalized().to_string());
    let unit = if check.unit == "bool" {
        ""
    } else {
        check.unit.as_ref()
    };
    match (amount(check.value), amount(check.limit)) {
        (Some(value), Some(limit)) if check.unit != "bool" => {
            format!("{} {value} (limit {limit} {unit})", check.name).replace(" )", ")")
        }
        _ => match &check.reason {
            Some(reason) => format!(
                "{}: {}",
                check.name,
                output::short(reason, WHY_CHARACTERS_MAX)
            ),
            None => check.name.to_string(),
        },
    }
}

fn why(decision: &Decision) -> String {
    if let Some(original) = decision.metadata.replay_of {
        return format!("answered again as in line {original}");
    }
    let checks: Vec<String> = decision
        .checks
        .iter()
        .filter(|check| !check.passed)
        .map(failed)
        .collect();
    let message = decision.metadata.message.as_deref().unwrap_or_default();
    let reason = if checks.is_empty() || decision.status == Status::Success {
        output::short(message, WHY_CHARACTERS_MAX)
    } else {
        checks.join("; ")
    };
    match (decision.metadata.code, decision.order_id) {
        (Some(code), _) => format!("{code}: {reason}"),
        (None, Some(order)) => format!("{order} {reason}").trim_end().to_owned(),
        (None, None) => reason,
    }
}

/// Returns the fault of the rule files that an event records.
fn fault_of(event: &Event) -> String {
    let fault = event.changes.iter().find_map(|change| match change {
        Change::RulebookFaulted { fault } => Some(fault.clone()),
        _ => None,
    });
    fault.unwrap_or_default()
}

/// Formats a line that is not about a request.
fn row_of_event(line: &Line, record: &Record) -> Row {
    let time = record.timestamp().to_string();
    let row = |who: &str, what: String, id: &str, why: String| Row {
        outcome: (record.kind(), Tone::Told),
        who: output::short(who, NAME_CHARACTERS_MAX),
        id: output::short(id, NAME_CHARACTERS_MAX),
        ..told(&time, line, what, why)
    };
    match record {
        Record::Council(council) => row(
            "",
            "the council decides the case".to_owned(),
            council.request_id.as_str(),
            council.outcome.as_str().to_owned(),
        ),
        Record::Input(input) => row(
            "command",
            format!("{} on the case", input.role),
            input.request_id.as_str(),
            input.note.clone(),
        ),
        Record::AdmissionInput(input) => match &input.about {
            AskedFor::Policy { domain, .. } => row(
                "command",
                format!("policy of {domain}"),
                "",
                input.note.clone(),
            ),
            AskedFor::Lineage {
                source, request_id, ..
            } => row(
                "command",
                format!("lineage of a task of {source}"),
                request_id.as_str(),
                input.note.clone(),
            ),
        },
        Record::Market(rows) => row(
            rows.file_name.as_deref().unwrap_or_default(),
            format!("{} rows of {}", rows.row_count, rows.symbol),
            "",
            format!("{} changes", rows.changes.len()),
        ),
        Record::Genesis(genesis) => {
            row("", "the log begins".to_owned(), "", genesis.origin.clone())
        }
        Record::Rotate(rotation) => row(
            &rotation.by.to_string(),
            format!("the log's key is {} from here on", rotation.log_key),
            "",
            rotation.reason.clone(),
        ),
        Record::Redact(line) => {
            let fields: Vec<&str> = line
                .fields
                .iter()
                .map(|field| field.field.as_str())
                .collect();
            row(
                line.by.as_str(),
                format!("redacts {} of line {}", fields.join(", "), line.line),
                "",
                line.reason.clone(),
            )
        }
        Record::Admin(admin) => row(
            &admin.by.to_string(),
            admin.note.clone(),
            "",
            admin.reason.clone(),
        ),
        Record::Published(published) => row(
            "",
            format!("answers up to {} are durable", published.up_to),
            "",
            String::new(),
        ),
        Record::Event(_, event) => row("", event.note.clone(), "", fault_of(event)),
        Record::Response(line) => Row {
            outcome: match line.status {
                Status::Success => ("success", Tone::Done),
                _ => ("error", Tone::Refused),
            },
            ..row(
                &line.source,
                format!("{} of line {}", line.action, line.request_line),
                &line.request_id,
                line.metadata
                    .message
                    .clone()
                    .filter(|_| !line.is_sealed("message"))
                    .unwrap_or_else(|| line.note.clone()),
            )
        },
        Record::Decision(decision) => row_of_decision(decision),
    }
}
