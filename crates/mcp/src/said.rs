//! Says in one sentence what happened to a request: the first text of a result.
//!
//! A model acts on this sentence, so it states what was done and never more: an order that rests is
//! not filled, a dry run did nothing, and a hold waits for a person.

use serde::Deserialize;
use spoolgate_gate::proposals::Found;
use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::checks::AnsweredRow;
use spoolgate_wire::control::{ControlResponse, ControlStatus};
use spoolgate_wire::council::{Stance, SubmitVerdict};
use spoolgate_wire::envelope::Envelope;
use spoolgate_wire::ids::ControlId;
use spoolgate_wire::orders::{CancelOrder, OrderType, SubmitOrder, TightenStop};
use spoolgate_wire::requests::CheckRequest;

use super::body::{Admission, AnswerBody, Fills, Limit, Queried, Strategy, Tagged, VerdictFiled};
use super::told::shown;

/// The check that only entries have: it demands the protective stop.
const OF_ENTRIES: &str = "stop_required";
/// Most names that a sentence lists.
const NAMES_MAX: usize = 8;

/// The request that was answered, as far as it is known.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    /// Its action.
    pub action: ActionName,
    /// The text of its payload.
    pub payload: &'a str,
}

impl<'a> Asked<'a> {
    /// Returns what a request asks for.
    pub(crate) fn of(request: &'a Envelope) -> Option<Asked<'a>> {
        Some(Asked {
            action: request.action.parse().ok()?,
            payload: &request.payload,
        })
    }

    /// Returns the payload, if it has this type.
    fn payload<T: Deserialize<'a>>(self) -> Option<T> {
        serde_json::from_str(self.payload).ok()
    }
}

/// Says what the gate did, from the body of an answer that refuses nothing, and the request if it is
/// known.
pub(crate) fn said(data: Option<&str>, asked: Option<Asked<'_>>) -> String {
    match AnswerBody::read(data, asked) {
        AnswerBody::Tagged(tagged) => of_tagged(&tagged, asked),
        AnswerBody::Queried(queried) => of_queried(&queried),
        AnswerBody::Fills(Fills { fills, next_since }) => {
            let more = next_since.map(|next| format!(" and there are more: go on since {next}"));
            format!("{} executions{}", fills.len(), more.unwrap_or_default())
        }
        AnswerBody::Control(response) => of_control(&response),
        AnswerBody::Case(case) => {
            let unstaffed = match case.unstaffed.as_slice() {
                [] => String::new(),
                roles => format!("; nobody may speak for {}", roles.join(", ")),
            };
            format!(
                "{} is open until {}; nothing is decided; waiting for {}{unstaffed}",
                case.case,
                case.deadline,
                case.roles.join(", ")
            )
        }
        AnswerBody::Verdict(verdict) => of_verdict(&verdict, asked),
        AnswerBody::Decision(decision) => format!(
            "case `{}` is decided: {}",
            decision.request_id,
            decision.final_outcome.as_str()
        ),
        AnswerBody::Admission(Admission { receipt }) if receipt.dry_run => {
            "dry run: the task would be allowed; nothing was reserved".to_owned()
        }
        AnswerBody::Admission(Admission { receipt }) => format!(
            "ALLOW: the task has its place in its tree (receipt {})",
            receipt.receipt_id
        ),
        AnswerBody::Settled(settled) => format!("noted what {} has spent", settled.receipt_id),
        AnswerBody::Result => match asked {
            Some(asked) => format!(
                "{} is done; its adapter reports the data below",
                asked.action
            ),
            None => "it is done".to_owned(),
        },
    }
}

fn of_tagged(body: &Tagged, asked: Option<Asked<'_>>) -> String {
    match body {
        Tagged::Accepted {
            order_id,
            checks_passed,
        } => of_order(order_id, checks_passed, asked),
        Tagged::Held {
            hold_id,
            rules,
            anomalies,
            expires_at,
        } => {
            let unusual = anomalies.iter().map(|anomaly| format!("anomaly {anomaly}"));
            let by: Vec<String> = rules.iter().cloned().chain(unusual).collect();
            let by = by.join(", ");
            format!("held as {hold_id} by {by} until {expires_at}: a person decides")
        }
        Tagged::ProposalAcknowledged {
            proposal_id,
            auto_approved,
            rule_id,
            direction,
            waits_because,
            would_allow,
        } => {
            let rule = rule_id.as_deref().unwrap_or(proposal_id);
            if *auto_approved {
                return format!("in force: {rule} ({proposal_id})");
            }
            let what = match direction {
                Some(Found::Loosening) => "it loosens",
                Some(Found::Incomparable) => "it loosens in part",
                Some(Found::Tightening) => "it tightens",
                Some(Found::Same) => "it changes no decision",
                Some(Found::Unproved) | None => "it is not proved to tighten",
            };
            let allows = would_allow.as_ref();
            let allows = allows.map(|request| format!(" and would newly allow {request}"));
            let why = waits_because.as_ref().map(|why| format!(" ({why})"));
            format!(
                "waits for people as {proposal_id}: {what}{}{}",
                allows.unwrap_or_default(),
                why.unwrap_or_default()
            )
        }
        Tagged::HaltSet {
            principal,
            strategy,
        } => {
            let of = strategy.as_ref().or(principal.as_ref());
            let of = of.map(|of| format!(" of {of}")).unwrap_or_default();
            format!("halted: no entry{of} is accepted until a person clears the halt")
        }
        Tagged::Heartbeat { armed_again: true } => {
            "alive: the dead man's switch no longer closes your entries".to_owned()
        }
        Tagged::Heartbeat { armed_again: false } => {
            "alive: the dead man's switch had not closed your entries".to_owned()
        }
        Tagged::PoliciesForgotten { domains } => {
            format!("forgot {} delivered policies", domains.len())
        }
    }
}

/// Says what a query found.
fn of_queried(body: &Queried) -> String {
    match body {
        Queried::AdmissionHealth {
            policies,
            rulebook_fault,
        } => match rulebook_fault {
            Some(fault) => format!("admission cannot decide: {fault}"),
            None => format!(
                "admission can decide; {} policies are yours",
                policies.len()
            ),
        },
        Queried::Portfolio {
            cash,
            equity,
            positions,
            limits,
        } => of_portfolio(cash, equity.as_deref(), positions.len(), limits),
        Queried::Orders(orders) => format!("{} open orders", orders.len()),
        Queried::MarketData {
            symbol,
            bid,
            ask,
            stale,
        } => {
            let price = |price: &Option<String>| price.as_deref().unwrap_or("none").to_owned();
            let age = if *stale {
                "missing or too old for entries"
            } else {
                "fresh"
            };
            format!("{symbol}: bid {}, ask {}, {age}", price(bid), price(ask))
        }
        Queried::Strategies(strategies) => {
            let each = |strategy: &Strategy| format!("{} is {}", strategy.name, strategy.status);
            counted(strategies, "strategies", each)
        }
        Queried::Strategy(strategy) => format!("{} is {}", strategy.name, strategy.status),
        Queried::Instruments(instruments) => counted(instruments, "instruments", |instrument| {
            let age = if instrument.stale { "stale" } else { "fresh" };
            format!("{} ({age})", instrument.symbol)
        }),
        Queried::Theses(theses) => counted(theses, "theses", |thesis| {
            let valid = if thesis.valid { "valid" } else { "not valid" };
            format!("{} ({valid})", thesis.slug)
        }),
        Queried::Cases(cases) => counted(cases, "cases", |case| {
            let outcome = case.outcome.map_or("open", Stance::as_str);
            format!("{} ({outcome})", case.case)
        }),
        Queried::Proposals(proposals) => counted(proposals, "proposals", |proposal| {
            format!("{} ({})", proposal.proposal_id, proposal.standing)
        }),
        Queried::Rules(rules) => counted(rules, "rules", |rule| rule.id.clone()),
    }
}

/// Counts what a list has, and names the first of it.
fn counted<T>(list: &[T], what: &str, each: impl Fn(&T) -> String) -> String {
    let first: Vec<String> = list.iter().take(NAMES_MAX).map(each).collect();
    let colon = if first.is_empty() { "" } else { ": " };
    let more = if list.len() > NAMES_MAX { ", ..." } else { "" };
    format!("{} {what}{colon}{}{more}", list.len(), first.join(", "))
}

fn of_portfolio(cash: &str, equity: Option<&str>, positions: usize, limits: &[Limit]) -> String {
    let mut closed: Vec<&str> = limits
        .iter()
        .filter(|limit| limit.closed.is_some())
        .map(|limit| limit.check.as_str())
        .collect();
    closed.dedup();
    let closed = match closed.as_slice() {
        [] => String::new(),
        checks => format!("; closed to entries, see `closed` of {}", checks.join(", ")),
    };
    let equity = equity.unwrap_or("unknown");
    format!("cash {cash}, equity {equity}, {positions} positions{closed}")
}

/// Says what an accepted order, cancel or tightened stop means.
fn of_order(order_id: &str, rows: &[AnsweredRow<'_>], asked: Option<Asked<'_>>) -> String {
    let remark = |check: &str| {
        let row = rows.iter().find(|row| row.check_name == check)?;
        Some(row.reason.as_deref()?.replace('`', ""))
    };
    let Some(asked) = asked else {
        return remark("cancel_ok").unwrap_or_else(|| format!("accepted: {order_id}"));
    };
    match asked.action {
        ActionName::OrderCancel => {
            let id = asked.payload::<CancelOrder>().map(|cancel| cancel.order_id);
            let id = id.map_or_else(|| order_id.to_owned(), |id| id.to_string());
            remark("cancel_ok").unwrap_or_else(|| format!("cancelled {id}"))
        }
        ActionName::OrderTightenStop => {
            let remark = remark("tighten_ok").filter(|remark| remark.starts_with("nothing"));
            remark.unwrap_or_else(|| match asked.payload::<TightenStop>() {
                Some(tighten) => format!(
                    "tightened the stop of {} to {}",
                    tighten.order_id,
                    shown(tighten.new_stop)
                ),
                None => format!("tightened the stop of {order_id}"),
            })
        }
        _ => match asked.payload::<SubmitOrder>() {
            Some(order) => of_submitted(order_id, &order, rows),
            None => format!("accepted: {order_id}"),
        },
    }
}

fn of_submitted(order_id: &str, order: &SubmitOrder, rows: &[AnsweredRow<'_>]) -> String {
    let is_entry = rows.iter().any(|row| row.check_name == OF_ENTRIES);
    let at = match order.order_type {
        OrderType::Limit => order.price,
        OrderType::Stop => order.stop_price,
        OrderType::Market => None,
    };
    let at = at.map(|price| format!(" {}", shown(price)));
    let what = format!(
        "{} {} {} {}{}",
        order.side.as_str(),
        shown(order.size),
        order.symbol,
        order.order_type.as_str(),
        at.unwrap_or_default()
    );
    let then = if is_entry {
        format!("stop {} armed for fills", shown(order.planned_stop))
    } else {
        "it only reduces what is held".to_owned()
    };
    format!("accepted: {order_id} {what} is working, nothing filled yet; {then}")
}

fn of_control(response: &ControlResponse) -> String {
    let concern = || {
        let concern = response.concern_id.as_ref();
        concern.map_or_else(|| "the concern".to_owned(), ToString::to_string)
    };
    let name = |strategy: &Option<ControlId>| strategy.as_ref().map(ToString::to_string);
    let (from, to) = (
        name(&response.from_strategy_id),
        name(&response.to_strategy_id),
    );
    let mode = response.risk_mode.map_or("unknown", |mode| mode.as_str());
    let whom = from.clone().or_else(|| to.clone()).unwrap_or_else(concern);
    let next = to.clone().unwrap_or_else(concern);
    let action = response.action.as_deref().unwrap_or_default();
    // What it does, what it has done, and what is so already.
    let (does, did, already) = match action {
        "pause" => (
            format!("pause {whom}"),
            format!("paused {whom}"),
            format!("{whom} is paused"),
        ),
        "resume" => (
            format!("resume {next}"),
            format!("resumed {next}"),
            format!("{next} is active"),
        ),
        "switch" => (
            format!("switch {} to {next}", concern()),
            format!("switched {} to {next}", concern()),
            format!("{next} is active"),
        ),
        _ => (
            format!("set the risk mode of {} to {mode}", concern()),
            format!("set the risk mode of {} to {mode}", concern()),
            format!("the risk mode of {} is {mode}", concern()),
        ),
    };
    if response.dry_run == Some(true) {
        return match response.result.would_be {
            Some(ControlStatus::Applied) => format!("dry run: would {does}"),
            Some(ControlStatus::Noop) | None => format!("dry run: nothing to do: {already}"),
            Some(ControlStatus::Rejected | ControlStatus::Failed) => {
                format!("dry run: would not {does}")
            }
        };
    }
    match response.status {
        ControlStatus::Noop => format!("nothing to do: {already}"),
        ControlStatus::Rejected | ControlStatus::Failed => format!("did not {does}"),
        ControlStatus::Applied => {
            let cancelled = &response.result.cancelled_orders;
            let cancelled = match cancelled.as_slice() {
                [] => String::new(),
                orders => {
                    let orders: Vec<String> = orders.iter().map(ToString::to_string).collect();
                    format!("; cancelled {}", orders.join(", "))
                }
            };
            let kept = match response.result.positions_kept.len() {
                0 => String::new(),
                1 => "; 1 position kept".to_owned(),
                many => format!("; {many} positions kept"),
            };
            format!("{did}{cancelled}{kept}")
        }
    }
}

fn of_verdict(filed: &VerdictFiled, asked: Option<Asked<'_>>) -> String {
    let said = asked.and_then(|asked| asked.payload::<SubmitVerdict>());
    let said = said.map_or_else(|| "verdict".to_owned(), |said| said.verdict.verdict);
    let counts = match filed.counts_as {
        Some(stance) if stance.as_str() == said => format!("your {said} counts"),
        Some(stance) => format!("your {said} counts as {}", stance.as_str()),
        None => format!("your {said} is filed; only an own spool shows what it counts as"),
    };
    let why = match filed.notes.as_slice() {
        [] => String::new(),
        notes => format!(": {}", notes.join("; ")),
    };
    let waits = match (filed.waits_for.as_slice(), filed.closes_at) {
        ([], None) => "nothing is decided yet".to_owned(),
        ([], Some(at)) => format!("no verdict is missing; decided after {at}"),
        (roles, _) => format!("waiting for {}", roles.join(", ")),
    };
    format!("{counts}{why}; {waits} ({} in {})", filed.role, filed.case)
}

/// How a checked request would be answered.
pub(crate) enum WouldBe<'a> {
    /// It would be accepted, with this body.
    Accepted(Option<&'a str>),
    /// An adapter would be started.
    Begun,
    /// It would be held, with this body.
    Held(Option<&'a str>),
    /// It would be refused, with this code and message.
    Refused(&'a str, &'a str),
    /// Too much was sent, with this message.
    Limited(&'a str),
}

/// Says how a checked request would be answered.
pub(crate) fn would_be(answer: &WouldBe<'_>, asked: Option<Asked<'_>>) -> String {
    let inner = asked.and_then(|asked| asked.payload::<CheckRequest>());
    let would = match answer {
        WouldBe::Accepted(data) => {
            let noop = inner.as_ref().and_then(|inner| {
                let asked = Asked {
                    action: inner.action.parse().ok()?,
                    payload: inner.payload.get(),
                };
                let said = said(*data, Some(asked));
                said.starts_with("nothing to do").then_some(said)
            });
            noop.unwrap_or_else(|| "would be accepted".to_owned())
        }
        WouldBe::Begun => "would be passed to its adapter".to_owned(),
        WouldBe::Held(data) => match AnswerBody::read(*data, None) {
            AnswerBody::Tagged(Tagged::Held { rules, .. }) if !rules.is_empty() => {
                format!(
                    "would be held by {}: a person would decide",
                    rules.join(", ")
                )
            }
            _ => "would be held: a person would decide".to_owned(),
        },
        WouldBe::Refused(code, message) => format!("would be refused: {code}: {message}"),
        WouldBe::Limited(message) => format!("would not be decided, too much was sent: {message}"),
    };
    format!("dry run: {would}; nothing was reserved")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(action: ActionName, payload: &Value, data: &Value) -> String {
        let (payload, data) = (payload.to_string(), data.to_string());
        let asked = Asked {
            action,
            payload: &payload,
        };
        said(Some(&data), Some(asked))
    }

    fn row(check: &str, reason: Option<&str>) -> Value {
        let mut row = json!({"check_name": check, "passed": true, "value": null, "limit": null,
            "source": "s", "unit": "bool"});
        if let (Some(reason), Some(row)) = (reason, row.as_object_mut()) {
            row.insert("reason".to_owned(), reason.into());
        }
        row
    }

    fn accepted(rows: &[Value]) -> Value {
        json!({"Accepted": {"order_id": "o-86", "checks_passed": rows}})
    }

    #[test]
    fn an_order_that_rests_is_not_done() {
        let mut order = json!({"strategy": "trend", "symbol": "BTC-USD", "side": "buy",
            "size": "0.010", "order_type": "limit", "price": "6760", "stop_price": "6600",
            "thesis_slug": "t", "planned_entry": "6760", "planned_stop": "6600"});
        let entry = accepted(&[row(OF_ENTRIES, None)]);
        assert_eq!(
            of(ActionName::OrderSubmit, &order, &entry),
            "accepted: o-86 buy 0.01 BTC-USD limit 6760 is working, nothing filled yet; stop 6600 \
                armed for fills"
        );
        assert_eq!(
            of(ActionName::OrderSubmit, &json!({}), &entry),
            "accepted: o-86"
        );
        order["order_type"] = "market".into();
        order.as_object_mut().unwrap().remove("price");
        assert_eq!(
            of(ActionName::OrderSubmit, &order, &accepted(&[])),
            "accepted: o-86 buy 0.01 BTC-USD market is working, nothing filled yet; it only reduces \
                what is held"
        );
        assert_eq!(said(Some(&entry.to_string()), None), "accepted: o-86");
    }

    #[test]
    fn a_cancel_says_whether_it_cancelled() {
        let cancel = json!({"order_id": "o-86"});
        let data = accepted(&[row("cancel_ok", None)]);
        assert_eq!(
            of(ActionName::OrderCancel, &cancel, &data),
            "cancelled o-86"
        );
        let data = accepted(&[row("cancel_ok", Some("nothing to do: `o-86` had filled"))]);
        let noop = "nothing to do: o-86 had filled";
        assert_eq!(of(ActionName::OrderCancel, &cancel, &data), noop);
        assert_eq!(said(Some(&data.to_string()), None), noop);
        let tighten = json!({"order_id": "o-86", "new_stop": "6610.50"});
        let data = accepted(&[row("tighten_ok", Some("no fresh price"))]);
        assert_eq!(
            of(ActionName::OrderTightenStop, &tighten, &data),
            "tightened the stop of o-86 to 6610.5"
        );
    }

    fn control(action: &str, status: &str, dry_run: bool, would_be: Option<&str>) -> String {
        let mut result = json!({"mode_change": "none", "reconciled": true,
            "cancelled_orders": ["o-3"],
            "positions_kept": [{"strategy": "trend", "symbol": "BTC-USD"}]});
        if let Some(would_be) = would_be {
            result["would_be"] = would_be.into();
        }
        let strategy = |is_so: bool| if is_so { "trend".into() } else { Value::Null };
        let data = json!({"ok": true, "status": status, "decision_id": "d-1",
            "concern_id": "paper:btc-usd", "action": action,
            "from_strategy_id": strategy(action == "pause"),
            "to_strategy_id": strategy(action != "pause"), "risk_mode": "reduced",
            "dry_run": dry_run, "validation": {}, "warnings": [], "errors": [], "result": result,
            "applied_at": "2026-02-20T14:42:00Z"});
        said(Some(&data.to_string()), None)
    }

    #[test]
    fn a_dry_run_and_a_noop_did_nothing() {
        for (action, status, is_dry, would_be, expect) in [
            (
                "pause",
                "noop",
                true,
                Some("applied"),
                "dry run: would pause trend",
            ),
            (
                "resume",
                "noop",
                true,
                Some("noop"),
                "dry run: nothing to do: trend is active",
            ),
            (
                "resume",
                "noop",
                false,
                None,
                "nothing to do: trend is active",
            ),
            (
                "pause",
                "applied",
                false,
                None,
                "paused trend; cancelled o-3; 1 position kept",
            ),
            (
                "switch",
                "applied",
                false,
                None,
                "switched paper:btc-usd to trend; cancelled o-3; 1 position kept",
            ),
            (
                "set_risk_mode",
                "noop",
                false,
                None,
                "nothing to do: the risk mode of paper:btc-usd is reduced",
            ),
        ] {
            assert_eq!(control(action, status, is_dry, would_be), expect);
        }
    }

    #[test]
    fn what_waits_for_people_says_so() {
        let held = json!({"Held": {"hold_id": "h-9", "request_sha256": "", "rules": ["ask-first"],
            "expires_at": "2026-02-21T00:00:00Z", "checks_failed": [], "checks_passed": []}});
        let says = "held as h-9 by ask-first until 2026-02-21T00:00:00.000Z: a person decides";
        assert_eq!(said(Some(&held.to_string()), None), says);
        let with_advice = json!({"retry": "never", "Held": held["Held"]});
        assert_eq!(said(Some(&with_advice.to_string()), None), says);
        let mail = json!({});
        // What an adapter reports is not taken for the gate's own words.
        let foreign = of(ActionName::EmailSend, &mail, &accepted(&[]));
        assert_eq!(
            foreign,
            "email.send is done; its adapter reports the data below"
        );
        let proposal = |auto: bool| {
            let body = json!({"proposal_id": "p-12", "auto_approved": auto, "rule_id": "no-market",
                "direction": "loosening", "waits_because": "it loosens",
                "would_allow": "order.size = 3"});
            said(
                Some(&json!({"ProposalAcknowledged": body}).to_string()),
                None,
            )
        };
        assert_eq!(proposal(true), "in force: no-market (p-12)");
        assert_eq!(
            proposal(false),
            "waits for people as p-12: it loosens and would newly allow order.size = 3 (it loosens)"
        );
    }

    #[test]
    fn a_case_is_open_until_it_is_decided() {
        let case = json!({"case": "c1", "alias": "case-1", "roles": ["Risk Officer"],
            "deadline": "2026-02-21T00:00:00Z", "request_sha256": ""});
        assert_eq!(
            said(Some(&case.to_string()), None),
            "c1 is open until 2026-02-21T00:00:00.000Z; nothing is decided; waiting for Risk Officer"
        );
        let verdict = json!({"request_id": "c1", "request_sha256": "", "verdict":
            {"role": "Code Auditor", "verdict": "APPROVE"}});
        let filed = json!({"case": "c1", "role": "Code Auditor", "counts_as": "NEEDS_MORE_INFO",
            "notes": ["the checklist is empty"], "waits_for": ["Risk Officer"]});
        let says = of(ActionName::CouncilVerdict, &verdict, &filed);
        assert!(
            says.starts_with(
                "your APPROVE counts as NEEDS_MORE_INFO: the checklist is empty; waiting for Risk \
                    Officer"
            ),
            "{says}"
        );
    }

    #[test]
    fn a_checked_request_reserved_nothing() {
        let payload =
            json!({"action": "order.cancel", "payload": {"order_id": "o-86"}}).to_string();
        let asked = Some(Asked {
            action: ActionName::RequestCheck,
            payload: &payload,
        });
        let cancels = accepted(&[row("cancel_ok", None)]).to_string();
        let ended = row("cancel_ok", Some("nothing to do: `o-86` had filled"));
        let ended = accepted(&[ended]).to_string();
        for (answer, expect) in [
            (WouldBe::Accepted(Some(&cancels)), "would be accepted"),
            (
                WouldBe::Accepted(Some(&ended)),
                "nothing to do: o-86 had filled",
            ),
            (WouldBe::Begun, "would be passed to its adapter"),
            (
                WouldBe::Refused("HALTED", "no"),
                "would be refused: HALTED: no",
            ),
        ] {
            let says = would_be(&answer, asked);
            assert_eq!(says, format!("dry run: {expect}; nothing was reserved"));
        }
    }

    #[test]
    fn lists_are_counted() {
        let of = |body: Value| said(Some(&body.to_string()), None);
        assert_eq!(of(json!({"Orders": [{}, {}]})), "2 open orders");
        assert_eq!(of(json!({"Fills": []})), "0 executions");
        let more = of(json!({"Fills": [{}], "next_since": "2026-02-20T00:00:00Z"}));
        assert!(more.starts_with("1 executions and there are more: go on since 2026-02-20"));
        let theses =
            json!({"Theses": [{"slug": "a", "valid": true}, {"slug": "b", "valid": false}]});
        assert_eq!(of(theses), "2 theses: a (valid), b (not valid)");
        let rules: Vec<Value> = (0..9).map(|n| json!({"id": format!("r-{n}")})).collect();
        let listed = of(json!({ "Rules": rules }));
        assert!(
            listed.starts_with("9 rules: r-0,") && listed.ends_with("r-7, ..."),
            "{listed}"
        );
    }
}
