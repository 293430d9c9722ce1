//! `spoolgate explain`: one decision in plain words, from the ledger. Takes no lock, so it works
//! beside a running gate.

use std::path::Path;

use anyhow::{Result, bail};
use serde::Serialize;
use spoolgate_gate::record::{Decision, Status};
use spoolgate_gate::{Change, Record};
use spoolgate_home::read::View;
use spoolgate_trading::order::OrderRole;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::checks::CheckRow;
use spoolgate_wire::code::{Code, Exit};
use spoolgate_wire::gateway::ActionId;
use spoolgate_wire::ids::{Leg, OrderId, RequestId};
use spoolgate_wire::orders::Headroom;
use spoolgate_wire::time::Time;

use super::output::{Output, plain, short};
use super::{audit, explain_words as words, look};

/// Explains one decision.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  spoolgate explain first\n  spoolgate explain 42\n  spoolgate \
        explain o-42-stop\n  spoolgate --format json explain first | jq .failed\n\nExit codes: 0 \
        the decision is explained, whatever it is, 2 the request, line or order does not exist."
)]
pub(super) struct Args {
    /// Id of a request, number of a line (an answer's auditRef), or id of an order.
    what: String,
}

/// The explanation of a decision.
#[derive(Serialize)]
struct Explained {
    line: u64,
    request_id: Option<String>,
    source: Option<String>,
    action: Option<String>,
    /// The request in words.
    asked: String,
    signed_at: Option<String>,
    decided_at: Time,
    /// `accepted`, `done`, `held`, `pending`, `refused`, `error`, `decided` or `recorded`.
    outcome: &'static str,
    code: Option<Code>,
    why: Option<String>,
    /// The checks that refused; the first determines the code of the refusal.
    failed: Vec<CheckRow>,
    headroom: Option<Headroom>,
    /// What would have to change, in words.
    needs: Vec<String>,
    /// Checks that passed with a remark.
    warnings: Vec<CheckRow>,
    /// The changes that it made, in words.
    did: Vec<String>,
    /// What has happened since.
    since: Vec<Event>,
    /// The earlier line whose answer this line repeats.
    answered_again_as: Option<u64>,
}

/// An event in the life of the decision's orders, action or case.
#[derive(Serialize)]
struct Event {
    /// Time on the gate's clock; `None` if it is unknown.
    time: Option<Time>,
    what: String,
}

/// Longest note in the table, in characters.
const NOTE_CHARS: usize = 100;

/// Runs the command.
pub(super) fn run(home: &Path, args: &Args, output: &Output) -> Result<Exit> {
    let (view, _) = look::view(home)?;
    let found = find(home, &view, &args.what)?;
    if found.is_empty() {
        bail!(
            "the ledger has no request, line or order `{}`; `spoolgate audit tail` shows the \
                newest lines",
            plain(&args.what)
        );
    }
    let meant = OrderId::parse(&args.what).ok();
    for (nth, (line, record)) in found.into_iter().enumerate() {
        let explained = match record {
            Record::Decision(decision) => of_decision(&view, line, &decision, meant)?,
            other => of_other(&view, line, &other, meant)?,
        };
        if output.is_json() {
            output.json(&explained)?;
            continue;
        }
        if nth > 0 {
            output.line("")?;
        }
        print(&explained, output)?;
    }
    Ok(Exit::Success)
}

/// Finds lines by number, by order or by request. What the index does not know is searched for in
/// the whole ledger.
pub(super) fn find(home: &Path, view: &View, what: &str) -> Result<Vec<(u64, Record)>> {
    let order = OrderId::parse(what).ok();
    let named = order
        .map(|order| order.seq)
        .or(ActionId::parse(what).map(|action| action.0));
    let seqs = match what.parse().ok().or(named) {
        Some(seq) => vec![seq],
        None => view.request_lines(what)?,
    };
    let mut found = Vec::new();
    for seq in seqs {
        if let Some(record) = view.record(seq)? {
            found.push((seq, record));
        }
    }
    if let Some(order) = order {
        if found.is_empty() {
            // The index does not contain every line that places orders.
            found = audit::records(home, &order.seq.to_string())?;
        }
        found.retain(|(_, record)| is_of_order(record, order));
        return Ok(found);
    }
    if found.is_empty() {
        // A number can also be the id of a request.
        let lines = view.request_lines(what)?;
        for seq in lines {
            found.extend(view.record(seq)?.map(|record| (seq, record)));
        }
    }
    if found.is_empty() {
        audit::records(home, what)
    } else {
        Ok(found)
    }
}

/// Returns whether a line placed the order or is about it.
fn is_of_order(record: &Record, id: OrderId) -> bool {
    let is_about = matches!(record, Record::Decision(decision)
        if decision.order_id == Some(id));
    let places = |change: &Change| {
        matches!(change, Change::Book(spoolgate_trading::Change::OrderPlaced(order))
            if order.order_id == id)
    };
    is_about || record.changes().iter().any(places)
}

fn of_decision(
    view: &View,
    line: u64,
    decision: &Decision,
    meant: Option<OrderId>,
) -> Result<Explained> {
    let rows = |keep: &dyn Fn(&CheckRow) -> bool| -> Vec<CheckRow> {
        decision
            .checks
            .iter()
            .filter(|row| keep(row))
            .cloned()
            .collect()
    };
    let payload = view.payload(line)?;
    let failed = rows(&|row| !row.passed);
    let outcome = match (decision.status, decision.decision.is_some()) {
        (Status::Rejected | Status::RateLimited, _) => "refused",
        (Status::Held, _) => "held",
        (Status::Pending, _) => "pending",
        (Status::Error, _) => "error",
        (Status::Success, true) => "accepted",
        (Status::Success, false) => "done",
    };
    let mut did: Vec<String> = decision.changes.iter().map(words::change).collect();
    if did.is_empty() && decision.status == Status::Success && decision.metadata.replay_of.is_none()
    {
        did.extend(words::answer(decision));
    }
    Ok(Explained {
        line,
        request_id: decision.request_id.clone(),
        source: decision.source.clone(),
        action: decision.action.clone(),
        asked: words::asked(decision, payload.as_deref()),
        signed_at: decision.requested_at.clone(),
        decided_at: decision.timestamp,
        outcome,
        code: decision.metadata.code,
        why: decision.metadata.message.clone(),
        needs: words::needs(decision, &failed),
        failed,
        headroom: decision.headroom.clone(),
        warnings: rows(&|row| row.passed && row.reason.is_some()),
        did,
        since: since(view, line, decision, meant)?,
        answered_again_as: decision.metadata.replay_of,
    })
}

/// Explains a line that is not a decision on a request.
fn of_other(view: &View, line: u64, record: &Record, meant: Option<OrderId>) -> Result<Explained> {
    let (asked, outcome) = words::record(record);
    let since = match meant {
        Some(order) => of_orders(view, line, record.timestamp(), order, record.changes())?,
        None => Vec::new(),
    };
    let ended = match record {
        Record::Response(ended) => Some(ended),
        _ => None,
    };
    Ok(Explained {
        line,
        request_id: ended.map(|ended| ended.request_id.clone()),
        source: ended.map(|ended| ended.source.clone()),
        action: ended.map(|ended| ended.action.clone()),
        asked,
        signed_at: None,
        decided_at: record.timestamp(),
        outcome,
        code: ended.and_then(|ended| ended.metadata.code),
        why: ended.map(|ended| {
            ended
                .metadata
                .message
                .as_ref()
                .unwrap_or(&ended.note)
                .clone()
        }),
        failed: Vec::new(),
        headroom: None,
        needs: Vec::new(),
        warnings: Vec::new(),
        did: record.changes().iter().map(words::change).collect(),
        since,
        answered_again_as: None,
    })
}

/// Returns what has happened since to the council case, the outgoing action and the orders of this
/// line, as far as the index knows it.
fn since(
    view: &View,
    line: u64,
    decision: &Decision,
    meant: Option<OrderId>,
) -> Result<Vec<Event>> {
    let mut events = Vec::new();
    if decision.opens_a_case()
        && let Some(id) = decision
            .request_id
            .as_deref()
            .and_then(|id| RequestId::parse(id).ok())
        && let Some(docket) = view.docket(&id)?
    {
        let what = match &docket.closed {
            Some(closed) => format!(
                "the council decided in line {}: {}",
                closed.line,
                closed.outcome.as_str()
            ),
            None => format!(
                "the case is open until {}, {} verdicts so far",
                docket.case.deadline,
                docket.votes.len()
            ),
        };
        events.push(Event { time: None, what });
    }
    if decision.status == Status::Pending {
        events.push(match view.response_to(line)? {
            Some(ended) => {
                let code = ended
                    .metadata
                    .code
                    .map_or_else(|| "success".to_owned(), |code| code.to_string());
                let why = ended.metadata.message.unwrap_or(ended.note);
                Event {
                    time: Some(ended.timestamp),
                    what: format!("it ended as {code} (line {}): {why}", ended.id),
                }
            }
            None => Event {
                time: None,
                what: "its outcome is not known yet".to_owned(),
            },
        });
    }
    let done = decision.status == Status::Success;
    if let Some(named) = decision.order_id.or(meant).filter(|_| done) {
        events.extend(of_orders(
            view,
            line,
            decision.timestamp,
            named,
            &decision.changes,
        )?);
    }
    Ok(events)
}

/// Returns what has happened to an order, and to the orders that belong to it, since the line at
/// `from` that made these changes.
fn of_orders(
    view: &View,
    line: u64,
    from: Time,
    named: OrderId,
    changes: &[Change],
) -> Result<Vec<Event>> {
    let mut events = Vec::new();
    let entry = named.entry();
    let is_of_entry = |id: OrderId| id.entry() == entry;
    let fills = view.fills_since(from)?;
    for fill in fills.iter().filter(|fill| is_of_entry(fill.order_id)) {
        let fee = look::fee(fill);
        let realised = match fill.realised.is_zero() {
            true => String::new(),
            false => format!(", realised {}", fill.realised.normalized()),
        };
        let what = format!(
            "{} {} {} at {}, fee {fee}{realised}",
            fill.order_id,
            if fill.side == spoolgate_wire::orders::Side::Buy {
                "bought"
            } else {
                "sold"
            },
            fill.size.normalized(),
            fill.price.normalized()
        );
        events.push(Event {
            time: Some(fill.recorded_at),
            what,
        });
    }
    for id in [entry, entry.stop(), entry.target(), entry.flatten()] {
        let open = view.state.book.orders.get(&id);
        let planned = changes.iter().find_map(|change| match change {
            Change::Book(spoolgate_trading::Change::OrderPlaced(order)) if order.order_id == id => {
                order.trigger
            }
            _ => None,
        });
        if let Some(order) = open {
            let left = order.leaves().normalized();
            let moved = match (order.role, planned, order.trigger) {
                (OrderRole::Protective, Some(from), Some(to)) if from != to => {
                    format!(
                        ", tightened from {} to {}",
                        from.normalized(),
                        to.normalized()
                    )
                }
                _ => String::new(),
            };
            events.push(Event {
                time: None,
                what: format!("{id} {}, {left} unfilled{moved}", words::stands(order).0),
            });
        } else if let Some(closed) = view.closed_order(id)? {
            let because = words::because(closed.why.as_ref());
            let what = format!("{id} {}{because}", words::end(closed.end));
            events.push(Event { time: None, what });
        } else if id.leg == Leg::Order && id.seq == line {
            events.push(Event {
                time: None,
                what: format!("nothing more is known of {id}"),
            });
        }
    }
    Ok(events)
}

fn print(told: &Explained, output: &Output) -> Result<()> {
    let who = told.source.as_deref().unwrap_or("somebody unknown");
    let by = match &told.request_id {
        Some(id) => format!(
            "Line {}, request `{id}`: `{who}` asked {}.",
            told.line, told.asked
        ),
        None if told.source.is_some() => {
            format!("Line {}: `{who}` asked {}.", told.line, told.asked)
        }
        None => format!("Line {}: {}.", told.line, told.asked),
    };
    output.line(&plain(&by))?;
    let signed = told
        .signed_at
        .as_deref()
        .map(|at| format!("Signed {at}, decided"))
        .unwrap_or("At".to_owned());
    output.line(&plain(&format!("{signed} {}.", told.decided_at)))?;
    let code = told
        .code
        .map(|code| format!(" ({code})"))
        .unwrap_or_default();
    let why = told
        .why
        .as_deref()
        .map(|why| format!(": {why}"))
        .unwrap_or_default();
    match told.answered_again_as {
        Some(line) => output.line(&format!(
            "Answered again as in line {line}: `spoolgate explain {line}`."
        ))?,
        None => output.line(&plain(&format!(
            "{}{code}{why}",
            told.outcome.to_uppercase()
        )))?,
    }
    if !told.failed.is_empty() {
        output.heading("Failed checks, the first of which names the refusal")?;
        table(&told.failed, output)?;
    }
    list("What would have to change", &told.needs, output)?;
    if !told.warnings.is_empty() {
        output.heading("Passed with a remark")?;
        table(&told.warnings, output)?;
    }
    list("What it did", &told.did, output)?;
    let since: Vec<String> = told
        .since
        .iter()
        .map(|event| {
            event
                .time
                .map_or_else(|| event.what.clone(), |at| format!("{at}  {}", event.what))
        })
        .collect();
    list("Since then", &since, output)
}

fn list(heading: &str, lines: &[String], output: &Output) -> Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    output.heading(heading)?;
    lines
        .iter()
        .try_for_each(|line| output.line(&plain(&format!("  {line}"))))
}

fn table(rows: &[CheckRow], output: &Output) -> Result<()> {
    let shown = |amount: Option<Amount>| {
        amount.map_or_else(|| "-".to_owned(), |a| a.normalized().to_string())
    };
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let amounts = if row.unit == "bool" {
                [None; 2]
            } else {
                [row.value, row.limit]
            };
            let [value, limit] = amounts.map(shown);
            let unit = if row.unit == "bool" {
                String::new()
            } else {
                row.unit.to_string()
            };
            let why = short(row.reason.as_deref().unwrap_or_default(), NOTE_CHARS);
            vec![
                row.name.to_string(),
                value,
                limit,
                unit,
                row.source.to_string(),
                why,
            ]
        })
        .collect();
    output.table(
        &["check", "value", "limit", "unit", "source", "why"],
        &["value", "limit"],
        &rows,
    )
}
