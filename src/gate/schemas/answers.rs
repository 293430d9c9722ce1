//! Schemas of answers and of their `data`.

use schemars::Schema;
use serde_json::Value;

use super::{Body, tidy, written};
use crate::gate::actions::{self, Action};
use crate::gate::handle::AnswerBody;
use crate::gate::record::{AdmissionAnswer, HeldAnswer, LimitedAnswer, OrderAnswer};
use crate::gate::{check, control, council, proposals, services};
use crate::wire::answer::Answer;
use crate::wire::control::ControlResponse;

/// The schemas of `data`: each action has one.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    NAMES.iter().map(|(name, _)| *name)
}

macro_rules! named {
    ($($name:literal)*) => {
        /// Names of the schemas, and of their actions.
        const NAMES: &[(&str, &str)] = &[$((concat!($name, ".answer"), $name)),*];
    };
}

named! {
    "order.submit" "order.cancel" "order.tighten_stop" "portfolio.get" "orders.list" "fills.list" "market.get"
    "request.check"
    "council.request" "council.verdict"
    "admission.evaluate" "admission.admit" "admission.check" "admission.health" "admission.cache_clear"
    "admission.cache_invalidate"
    "control.apply" "strategies.list" "strategies.get"
    "rule.propose" "proposal.approve" "proposal.decline" "proposal.revert"
    "email.fetch" "email.send" "email.draft" "calendar.fetch" "calendar.create" "calendar.update"
    "finance.fetch_transactions" "health.fetch" "service.api_call"
    "market.import" "market.update" "funding.update" "venue.report"
    "halt.set" "halt.clear" "heartbeat" "account.adjust" "clock.accept" "keys.add" "keys.rotate" "keys.revoke"
    "services.add" "services.remove" "services.deactivate" "services.activate" "services.credential"
    "approval.grant" "approval.deny" "grant.add" "grant.end"
}

/// The answer to any request.
pub(super) fn answer() -> Body {
    Body {
        schema: written::<Answer>(),
        about: "The answer to a request, as it lies in `spool/out`. The schema of `data` is named after the action, as \
                `order.submit.answer`."
            .to_owned(),
        conditions: Vec::new(),
    }
}

/// The `data` of this name.
pub(super) fn body(name: &str) -> Option<Body> {
    let (_, action) = NAMES.iter().find(|(known, _)| *known == name)?;
    let rule = actions::find(action)?;
    let mut choices = Vec::new();
    add(&mut choices, own(rule.action));
    let is_held = rule.rules_apply != actions::Rules::No;
    if is_held {
        add(&mut choices, written::<HeldAnswer<'_>>());
    }
    if rule.admission == actions::Admission::Refuses || rule.admission == actions::Admission::Entries {
        add(&mut choices, written::<AdmissionAnswer<'_>>());
    }
    // Whatever is checked can be refused by its checks, and what is counted can be told to come again.
    add(&mut choices, tagged(written::<OrderAnswer<'_>>(), &["Rejected"]));
    add(&mut choices, written::<LimitedAnswer<'_>>());
    add(&mut choices, retry());
    let about = format!(
        "`data` of answers to `{action}`: what was asked for, or why it is not to be had: refused, held, or too much at a time. \
         Answers to what could not be read have none."
    );
    let schema = schemars::json_schema!({"anyOf": choices});
    Some(Body { schema, about, conditions: Vec::new() })
}

/// Only how long to wait.
fn retry() -> Schema {
    schemars::json_schema!({
        "type": "object",
        "properties": {
            "retryAfterMs": {
                "type": "integer", "minimum": 0, "maximum": u64::MAX,
                "description": "How long to wait before the same is sent again, milliseconds.",
            },
        },
        "required": ["retryAfterMs"],
        "additionalProperties": false,
    })
}

/// Puts a schema among the choices; one that is a choice itself with its parts, each once.
fn add(choices: &mut Vec<Value>, schema: Schema) {
    let mut members = tidy::tidied(schema.to_value());
    members.remove("title");
    let parts = match members.get("oneOf") {
        Some(Value::Array(parts)) => parts.clone(),
        _ => vec![Value::Object(members)],
    };
    for part in parts {
        if !choices.contains(&part) {
            choices.push(part);
        }
    }
}

/// The member of an externally tagged body.
fn tagged(schema: Schema, tags: &[&str]) -> Schema {
    let parts = schema.get("oneOf").and_then(Value::as_array).cloned().unwrap_or_default();
    let is_of = |part: &Value| tags.iter().any(|tag| part.pointer(&format!("/properties/{tag}")).is_some());
    schemars::json_schema!({"oneOf": parts.into_iter().filter(is_of).collect::<Vec<_>>()})
}

/// What an action answers where it is done.
fn own(action: Action) -> Schema {
    let body = |tag: &str| tagged(written::<AnswerBody<'_>>(), &[tag]);
    match action {
        Action::OrderSubmit | Action::OrderCancel | Action::OrderTightenStop => written::<OrderAnswer<'_>>(),
        Action::PortfolioGet => body("Portfolio"),
        Action::OrdersList => body("Orders"),
        Action::FillsList => body("Fills"),
        Action::MarketGet => body("MarketData"),
        Action::RequestCheck => check::answer_schema(),
        Action::CouncilRequest => written::<council::CaseOpened<'_>>(),
        Action::CouncilVerdict => written::<council::VerdictFiled<'_>>(),
        Action::AdmissionEvaluate | Action::AdmissionAdmit | Action::AdmissionCheck => {
            written::<AdmissionAnswer<'_>>()
        }
        Action::AdmissionHealth => body("AdmissionHealth"),
        Action::AdmissionCacheClear | Action::AdmissionCacheInvalidate => body("PoliciesForgotten"),
        Action::ControlApply => written::<ControlResponse>(),
        Action::StrategiesList => tagged(written::<control::Shown<'_>>(), &["Strategies"]),
        Action::StrategiesGet => tagged(written::<control::Shown<'_>>(), &["Strategy"]),
        Action::RulePropose => proposal(&["ProposalAcknowledged"]),
        Action::ProposalApprove => proposal(&["ProposalApplied"]),
        Action::ProposalDecline => proposal(&["ProposalDeclined"]),
        Action::ProposalRevert => proposal(&["ProposalReverted"]),
        Action::EmailSend
        | Action::EmailDraft
        | Action::EmailFetch
        | Action::CalendarFetch
        | Action::CalendarCreate
        | Action::CalendarUpdate
        | Action::FinanceFetchTransactions
        | Action::HealthFetch
        | Action::ServiceApiCall => {
            schemars::json_schema!({"description": "What the adapter gave: any JSON, whose shape is the other side's."})
        }
        Action::MarketImport => body("MarketImported"),
        Action::MarketUpdate => body("MarketUpdated"),
        Action::FundingUpdate => body("FundingCharged"),
        Action::VenueReport => body("ReportBooked"),
        Action::HaltSet => body("HaltSet"),
        Action::HaltClear => body("HaltCleared"),
        Action::Heartbeat => body("Heartbeat"),
        Action::AccountAdjust => body("AccountAdjusted"),
        Action::ClockAccept => body("ClockAccepted"),
        Action::KeysAdd | Action::KeysRotate => body("KeyAdded"),
        Action::KeysRevoke => body("KeyRevoked"),
        Action::ServicesAdd
        | Action::ServicesRemove
        | Action::ServicesDeactivate
        | Action::ServicesActivate => tagged(written::<services::Body<'_>>(), &["ServicesChanged"]),
        Action::ServicesCredential => tagged(written::<services::Body<'_>>(), &["CredentialSet"]),
        Action::ApprovalGrant => body("ApprovalGranted"),
        Action::ApprovalDeny => body("ApprovalDenied"),
        Action::GrantAdd => body("GrantAdded"),
        Action::GrantEnd => body("GrantEnded"),
    }
}

fn proposal(tags: &[&str]) -> Schema {
    tagged(written::<proposals::Answered<'_>>(), tags)
}
