//! The words of `spoolgate explain`: describes requests, changes and lines in one sentence each.

use std::collections::BTreeMap;

use spoolgate_gate::approvals;
use spoolgate_gate::prepare::escaped;
use spoolgate_gate::proposals::Change as Step;
use spoolgate_gate::record::{Decision, Status};
use spoolgate_gate::state::On;
use spoolgate_gate::storage::Level;
use spoolgate_gate::{Change, Record, services};
use spoolgate_ledger::rotation::Rotation;
use spoolgate_outgoing as actions;
use spoolgate_trading as trading;
use spoolgate_trading::order::{Merged, Order, OrderEnd, OrderRole, Verb, Why};
use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::checks::CheckRow;
use spoolgate_wire::ids::Principal;
use spoolgate_wire::orders::{
    AdjustPosition, CancelOrder, ClosePosition, SubmitOrder, TightenStop,
};

use super::output::short;

/// Longest part of a payload or answer that is repeated, in characters.
const PIECE_CHARS: usize = 160;

fn shown(amount: Amount) -> String {
    amount.normalized().to_string()
}

/// Describes the request, to continue "`bot` asked".
pub(super) fn asked(decision: &Decision, payload: Option<&str>) -> String {
    let action = decision
        .action
        .as_deref()
        .unwrap_or("something that could not be read");
    let Some(payload) = payload else {
        return format!("for {action}");
    };
    let words = match action.parse() {
        Ok(ActionName::OrderSubmit) => serde_json::from_str(payload)
            .ok()
            .map(|order| of_order(&order)),
        Ok(ActionName::OrderCancel) => serde_json::from_str(payload)
            .ok()
            .map(|cancel: CancelOrder| format!("to cancel {}", cancel.order_id)),
        Ok(ActionName::OrderTightenStop) => serde_json::from_str(payload).ok().map(
            |TightenStop { order_id, new_stop }: TightenStop| {
                format!("to tighten the stop of {order_id} to {}", shown(new_stop))
            },
        ),
        Ok(ActionName::PositionClose) => {
            serde_json::from_str(payload)
                .ok()
                .map(|close: ClosePosition| {
                    let size = close.size.map_or_else(|| "all".to_owned(), shown);
                    format!("to close {size} of {} in {}", close.strategy, close.symbol)
                })
        }
        Ok(ActionName::PositionAdjust) => {
            serde_json::from_str(payload)
                .ok()
                .map(|adjust: AdjustPosition| {
                    let (size, price) = (shown(adjust.size), shown(adjust.price));
                    let leg = format!("{} in {}", adjust.strategy, adjust.symbol);
                    format!("to adjust {leg} by {size} at {price}")
                })
        }
        _ => None,
    };
    words.unwrap_or_else(|| match payload.trim() {
        "" | "{}" => format!("for {action}"),
        payload => format!("for {action} with {}", short(payload, PIECE_CHARS)),
    })
}

fn of_order(order: &SubmitOrder) -> String {
    let own = match (order.price, order.stop_price) {
        (Some(price), _) => format!(" at {}", shown(price)),
        (None, Some(trigger)) if order.order_type.as_str() == "stop" => {
            format!(" at {}", shown(trigger))
        }
        _ => String::new(),
    };
    let target = order
        .target_price
        .map(|at| format!(", target {}", shown(at)))
        .unwrap_or_default();
    format!(
        "to {} {} {} ({}{own}, stop {}{target}, thesis {}) for strategy {}",
        order.side.as_str(),
        shown(order.size),
        order.symbol,
        order.order_type.as_str(),
        shown(order.planned_stop),
        order.thesis_slug,
        order.strategy
    )
}

/// Describes what would have to change for the request to pass.
pub(super) fn needs(decision: &Decision, failed: &[CheckRow]) -> Vec<String> {
    let mut needs = Vec::new();
    if let Some(headroom) = &decision.headroom {
        let check = &headroom.binding_check;
        needs.push(match headroom.max_size.is_positive() {
            true => {
                format!(
                    "the size: at most {} would pass; {check} refuses more",
                    shown(headroom.max_size)
                )
            }
            false => format!("no size would pass while {check} refuses"),
        });
    }
    let (roots, follow): (Vec<&CheckRow>, Vec<&CheckRow>) =
        failed.iter().partition(|row| row.is_root());
    for row in roots.iter().filter(|row| row.unit != "bool") {
        if let (Some(value), Some(limit)) = (row.value, row.limit) {
            let unit = if row.unit == "price" {
                String::new()
            } else {
                format!(" {}", row.unit)
            };
            let (value, limit) = (shown(value), shown(limit));
            needs.push(format!(
                "{}: {value}{unit} against {limit}{unit} of {}",
                row.name, row.source
            ));
        }
    }
    for row in roots
        .iter()
        .filter(|row| row.unit == "bool" || row.value.is_none())
    {
        let why = row.reason.as_deref().unwrap_or("it refuses");
        needs.push(format!("{} ({}): {why}", row.name, row.source));
    }
    let mut causes: BTreeMap<&str, usize> = BTreeMap::new();
    for cause in follow.iter().filter_map(|row| row.follows_from.as_deref()) {
        let count = causes.entry(cause).or_default();
        *count = count.saturating_add(1);
    }
    for (cause, count) in causes {
        let checks = if count == 1 {
            "check was"
        } else {
            "checks were"
        };
        needs.push(format!(
            "{cause} first: {count} more {checks} not computed without it"
        ));
    }
    if let Some(code) = decision.metadata.code.filter(|_| failed.is_empty()) {
        needs.push(code.remedy().to_owned());
    }
    needs
}

/// Describes the answer to a request that changed nothing.
pub(super) fn answer(decision: &Decision) -> Option<String> {
    let receipt = decision.receipt.as_ref();
    if decision.status == Status::Success && receipt.is_some() {
        let receipt = receipt?;
        return Some(format!("receipt {} of its admission", receipt.receipt_id));
    }
    decision
        .data
        .as_ref()
        .map(|data| format!("answered {}", short(data.get(), PIECE_CHARS)))
}

/// Says which check pulled an entry, to continue a sentence about it.
pub(super) fn because(why: Option<&Why>) -> String {
    let Some(Why {
        check,
        value,
        limit,
    }) = why
    else {
        return String::new();
    };
    match (value, limit) {
        (Some(value), Some(limit)) => format!(
            " by `{check}`: {} is above the limit of {}",
            shown(*value),
            shown(*limit)
        ),
        _ => format!(" by `{check}`"),
    }
}

/// Says where an open order is: in a sentence, and as a remark in a table, which is empty for an order
/// that is where it is expected.
pub(super) fn stands(order: &Order) -> (&'static str, &'static str) {
    if order.ending().is_some() {
        ("is being ended", ", ending")
    } else if order.leaves().is_zero() || !order.is_untold() {
        ("is open", "")
    } else if order.is_held() {
        ("is held at the gate until the market is there", ", held")
    } else {
        ("waits at the gate for room at its venue", ", waits")
    }
}

/// Describes how an order ended, to continue a sentence about the order.
pub(super) fn end(end: OrderEnd) -> &'static str {
    match end {
        OrderEnd::Filled => "filled completely",
        OrderEnd::Cancelled => "was cancelled",
        OrderEnd::Retired => "was retired: nothing was left to reduce or protect",
        OrderEnd::Refused => "was refused by the venue",
        OrderEnd::Expired => "expired",
        OrderEnd::Pulled => "was pulled",
    }
}

/// Describes what a step of a proposal did.
fn of_proposal(step: &Step) -> String {
    match step {
        Step::Pended { proposed, .. } => format!(
            "proposal {} on rule `{}` waits for an approver: it is {}",
            proposed.proposal_id,
            proposed.rule_id,
            proposed.direction.as_str()
        ),
        Step::Applied {
            proposed, rulebook, ..
        } => format!(
            "proposal {} was applied: rule `{}` is changed in rulebook {rulebook}",
            proposed.proposal_id, proposed.path
        ),
        Step::Declined {
            proposal_id,
            by,
            reason,
        } => {
            format!("proposal {proposal_id} was declined by `{by}`: {reason}")
        }
    }
}

/// Describes a change of the allowlist or of a credential.
fn of_services(change: &services::Change) -> String {
    match change {
        services::Change::Edited { edit, rulebook, .. } => {
            format!("rules/services.yaml was changed by {edit}, in rulebook {rulebook}")
        }
        services::Change::Credential {
            service,
            credential: Some(record),
        } => {
            format!(
                "service `{service}` has credential {}",
                record.credential_id
            )
        }
        services::Change::Credential {
            service,
            credential: None,
        } => {
            format!("service `{service}` has no credential any more")
        }
    }
}

/// Names what a halt is about.
fn whose(principal: Option<&Principal>, on: Option<&On>) -> String {
    match (principal, on) {
        (_, Some(on)) => on.to_string(),
        (Some(name), None) => format!("`{name}`"),
        (None, None) => "everybody".to_owned(),
    }
}

/// Describes a change.
pub(super) fn change(change: &Change) -> String {
    match change {
        Change::Book(change) => of_book(change),
        Change::Services(change) => of_services(change),
        Change::KeyAdded(key) => format!("key {} of `{}` was added", key.key_id, key.principal),
        Change::KeyEnds { key_id, at } => format!("key {key_id} ends at {at}"),
        Change::KeyRevoked { key_id, at } => format!("key {key_id} was revoked at {at}"),
        Change::HaltFile {
            present: true,
            flatten: true,
        } => "rules/HALT demands that positions are closed: entries are halted".to_owned(),
        Change::HaltFile { present: true, .. } => {
            "rules/HALT appeared: entries are halted".to_owned()
        }
        Change::HaltFile { present: false, .. } => "rules/HALT was removed".to_owned(),
        Change::StorageLevel { level } => match level {
            Level::Normal => "every request is served again",
            Level::Low => "only what makes things safer, and queries, are served",
            Level::Reserve => "only exits, cancels, tightens and halts are served",
        }
        .to_owned(),
        Change::HaltSet {
            principal,
            on,
            halt,
        } => {
            let whose = whose(principal.as_ref(), on.as_ref());
            let flat = if halt.flatten {
                " and positions closed at the market"
            } else {
                ""
            };
            format!("entries of {whose} were halted{flat}: {}", halt.reason)
        }
        Change::Drilled { .. } => "a halt was drilled; nothing was halted".to_owned(),
        Change::HaltCleared { principal, on } => {
            let whose = whose(principal.as_ref(), on.as_ref());
            format!("the halt of {whose} was cleared")
        }
        Change::ClockFaulted(fault) => {
            format!("the clock stepped from {} to {}", fault.from, fault.to)
        }
        Change::LimitOverridden { limit, set } => {
            let (name, until) = (limit.as_str(), set.until);
            format!("`{name}` is {} until {until}", set.value)
        }
        Change::OverrideEnded { limit } => {
            format!(
                "`{}` has the value of rules/safety.yaml again",
                limit.as_str()
            )
        }
        Change::ClockAccepted {} => "the machine's clock was accepted".to_owned(),
        Change::Proposal(step) => of_proposal(step),
        Change::Approvals(step) => of_approvals(step),
        Change::Actions(step) => of_actions(step),
        Change::RulebookLoaded { hash, approved } => {
            let by = approved.iter().flat_map(|it| it.by.keys()).cloned();
            let by: Vec<String> = by.collect();
            let by = match by.as_slice() {
                [] => String::new(),
                by => format!(", approved by {}", by.join(", ")),
            };
            format!("the rulebook {hash} came into force{by}")
        }
        Change::RulebookRefused(refused) => {
            format!("the rulebook {} lacks approvals", refused.hash)
        }
        Change::ProgramChanged { version, .. } => {
            format!("spoolgate {version} writes from here on")
        }
        Change::RulebookFaulted { fault } => format!("rule file {fault}: entries are refused"),
        other => named(other),
    }
}

fn of_actions(step: &actions::Change) -> String {
    match step {
        actions::Change::Opened(open) => {
            format!(
                "{} was begun at {} ({}), adapter {}",
                open.id, open.service, open.host, open.adapter
            )
        }
        actions::Change::FirstUse {
            service,
            destination,
        } => {
            format!(
                "this was the first action for {service} ({})",
                destination.host
            )
        }
        actions::Change::AlsoAnswer { id, answer } => {
            format!("the outcome of {id} is also written to {answer}")
        }
        actions::Change::Closed { id } => format!("{id} has ended"),
    }
}

fn of_approvals(step: &approvals::Change) -> String {
    match step {
        approvals::Change::Held(hold) => {
            format!(
                "it is held as {} until {}: a person grants or denies it",
                hold.id, hold.expires_at
            )
        }
        approvals::Change::Ended { id, end, by } => {
            let how = match end {
                approvals::End::Granted => "was granted",
                approvals::End::Denied => "was denied",
                approvals::End::Expired => "expired",
            };
            let by = by
                .as_ref()
                .map(|by| format!(" by `{by}`"))
                .unwrap_or_default();
            format!("{id} {how}{by}")
        }
        approvals::Change::EntryAdded {
            set, value, entry, ..
        } => {
            let task = entry
                .task
                .as_ref()
                .map(|task| format!(" for task {task}"))
                .unwrap_or_default();
            format!("`{}` was added to set `{set}`{task}", escaped(value))
        }
        approvals::Change::EntryEnded { set, value, .. } => {
            format!("`{}` was removed from set `{set}`", escaped(value))
        }
    }
}

/// Says that an order was placed.
fn placed(order: &Order) -> String {
    let role = match order.role {
        OrderRole::Entry => "entry",
        OrderRole::Exit => "exit",
        OrderRole::Protective => "protective stop",
        OrderRole::Target => "target",
        OrderRole::Adjust => "adjustment",
    };
    let at = order
        .price
        .or(order.trigger)
        .map(|at| format!(" at {}", shown(at)))
        .unwrap_or_default();
    let size = match order.size.is_zero() {
        true => String::new(),
        false => format!(" {}", shown(order.size)),
    };
    let side = order.side.as_str();
    format!(
        "placed the {role} {}: {side}{size} {}{at}",
        order.order_id, order.symbol
    )
}

/// Describes what was noticed of a bridge, or of an instruction to it; empty for any other change.
fn of_bridge(change: &trading::Change) -> String {
    match change {
        trading::Change::TakenBack { order_id, version } => {
            format!("version {version} of {order_id} reached nobody")
        }
        trading::Change::TradedUntold { order_id, traded } => format!(
            "{order_id} filled {} at {} in a silence of the imitated exchange, which tells it later",
            traded.size, traded.price
        ),
        trading::Change::Unanswered { order_id, .. } => {
            format!("the bridge has not answered what it was told of {order_id}")
        }
        trading::Change::BridgeSilent { bridge, since, why } => {
            format!("bridge `{bridge}` is silent since {since}: {why}")
        }
        trading::Change::BridgeHeard { bridge, run, .. } => {
            format!("bridge `{bridge}` gives signs of life (run `{run}`)")
        }
        trading::Change::PingAnswered { bridge, line, .. } => {
            format!("bridge `{bridge}` answered the ping of line {line}")
        }
        trading::Change::Reconciled {
            bridge,
            differences,
            ..
        } => match differences {
            0 => format!("book and venue of `{bridge}` agree"),
            1 => format!("book and venue of `{bridge}` differ in one point"),
            count => format!("book and venue of `{bridge}` differ in {count} points"),
        },
        _ => String::new(),
    }
}

fn of_book(change: &trading::Change) -> String {
    match change {
        trading::Change::OrderPlaced(order) => placed(order),
        trading::Change::ExitMerged(Merged { order_id, size, .. }) => {
            format!(
                "added it to the waiting market exit {order_id}, now {}",
                shown(*size)
            )
        }
        trading::Change::OrderReleased { order_id } => {
            format!("let {order_id} go to its venue, because the market is there")
        }
        trading::Change::StopMoved { order_id, trigger } => {
            format!("moved the stop {order_id} to {}", shown(*trigger))
        }
        trading::Change::OrderClosed {
            order_id,
            end: how,
            why,
            ..
        } => format!("{order_id} {}{}", end(*how), because(why.as_ref())),
        trading::Change::OrderRefused {
            order_id, reason, ..
        } => {
            format!("the venue refused {order_id}: {reason}")
        }
        trading::Change::OrderFilled(fill) => {
            format!(
                "{} {} {} at {}",
                fill.order_id,
                fill.side.as_str(),
                shown(fill.size),
                shown(fill.price)
            )
        }
        trading::Change::AccountAdjusted { amount } => {
            let what = if amount.is_negative() {
                "withdrawn"
            } else {
                "deposited"
            };
            format!("{} was {what}", shown(amount.abs()))
        }
        trading::Change::StrategyCleared { strategy } => {
            format!("strategy `{strategy}` may enter again")
        }
        trading::Change::SymbolCleared { symbol } => {
            format!("entries in `{symbol}` are allowed again")
        }
        trading::Change::DrawdownCleared { peak } => {
            format!("the drawdown counts from {}", shown(*peak))
        }
        trading::Change::OrderEnding { order_id, why, .. } => format!(
            "{order_id} is to end{}; its venue may fill it until it confirms the end",
            because(why.as_ref())
        ),
        trading::Change::Instructed(told) => {
            let what = match told.instruction {
                Verb::Place => "place",
                Verb::Replace => "replace",
                Verb::Cancel => "cancel",
            };
            format!(
                "told `{}` to {what} {} (version {})",
                told.bridge, told.order_id, told.version
            )
        }
        trading::Change::VenueReported {
            order_id,
            bridge,
            exec_id,
            ..
        } => {
            format!("`{bridge}` reported on {order_id} ({exec_id})")
        }
        trading::Change::TakenBack { .. }
        | trading::Change::TradedUntold { .. }
        | trading::Change::Unanswered { .. }
        | trading::Change::BridgeSilent { .. }
        | trading::Change::BridgeHeard { .. }
        | trading::Change::PingAnswered { .. }
        | trading::Change::Reconciled { .. } => of_bridge(change),
        trading::Change::SymbolDoubted { symbol, doubt } => {
            format!(
                "entries in `{symbol}` are closed until a person clears the halt: {}",
                doubt.what
            )
        }
        trading::Change::ThesisRefuted { slug, price, .. } => {
            format!(
                "the market refuted the thesis `{slug}` at {}",
                shown(*price)
            )
        }
        other => named(other),
    }
}

/// Describes a change by its name and members in the ledger.
fn named(change: &impl serde::Serialize) -> String {
    serde_json::to_string(change)
        .map_or_else(|error| error.to_string(), |json| short(&json, PIECE_CHARS))
}

/// Describes a line that is not about a single request, and names its outcome.
pub(super) fn record(record: &Record) -> (String, &'static str) {
    match record {
        Record::Council(line) => {
            let what = format!(
                "the council decided case `{}` of line {}: {}",
                line.request_id,
                line.request_line,
                line.outcome.as_str()
            );
            (what, "decided")
        }
        Record::Input(input) => (
            format!(
                "the command of {} answered in case `{}`: {}",
                input.role, input.request_id, input.note
            ),
            "recorded",
        ),
        Record::AdmissionInput(input) => (
            format!("a command of admission answered: {}", input.note),
            "recorded",
        ),
        Record::Market(rows) => {
            let from = rows.file_name.as_deref().unwrap_or("a request");
            (
                format!(
                    "{} market rows of {} from {from}",
                    rows.row_count, rows.symbol
                ),
                "recorded",
            )
        }
        Record::Published(published) => (
            format!("answers up to line {} are on disk", published.up_to),
            "recorded",
        ),
        Record::Redact(line) => (
            format!(
                "{} redacted a part of line {}: {}",
                line.by, line.line, line.reason
            ),
            "recorded",
        ),
        Record::Genesis(genesis) => (format!("the log {} begins", genesis.origin), "recorded"),
        Record::Admin(admin) => (
            format!("{}, by {}: {}", admin.note, admin.by, admin.reason),
            "recorded",
        ),
        Record::Rotate(rotation) => {
            let Rotation {
                by,
                reason,
                log_key,
                ..
            } = rotation;
            (
                format!("{by} rotated the log's keys, the new one is {log_key}: {reason}"),
                "recorded",
            )
        }
        Record::Event(_, event) => (event.note.clone(), "recorded"),
        Record::Response(line) => {
            let outcome = if line.status == Status::Success {
                "done"
            } else {
                "error"
            };
            (
                format!("for {}, begun in line {}", line.action, line.request_line),
                outcome,
            )
        }
        Record::Decision(decision) => (asked(decision, decision.payload.as_deref()), "decided"),
    }
}
