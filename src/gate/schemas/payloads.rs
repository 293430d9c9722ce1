//! Schemas of payloads, under the names of their actions.

use schemars::Schema;
use serde_json::{Value, json};

use super::about::{
    ADDRESS, BYTES, CALENDAR, CONTROL, DIGITS, ENDPOINT, HEADERS, LINE, PERIOD, PRICE, RECIPIENT, RECIPIENTS,
    REPORT, ROWS, SEEN, SERVICE, WHOLE,
};
use super::{Body, Condition, read};
use crate::gate::actions::{self, Action};
use crate::gate::check;
use crate::rules::services::BY_ACTION;
use crate::wire::admin::{
    AcceptClock, AddKey, AdjustAccount, ClearHalt, Heartbeat, ImportMarket, RevokeKey, SetHalt, UpdateFunding,
};
use crate::wire::admission::{BodyFields, InvalidatePolicy};
use crate::wire::approvals::{AddGrant, DenyApproval, EndGrant, GrantApproval};
use crate::wire::control::{ControlDecision, GetStrategy};
use crate::wire::council::{CouncilRequest, SubmitVerdict};
use crate::wire::gateway::{
    CalendarCreate, CalendarFetch, EmailFetch, EmailSend, FetchHealth, FetchTransactions, ServiceApiCall,
};
use crate::wire::market::UpdateMarket;
use crate::wire::orders::{CancelOrder, Empty, GetMarket, ListFills, SubmitOrder, TightenStop};
use crate::wire::proposals::{ApproveProposal, EndProposal, RuleProposal};
use crate::wire::services::{AddService, NameService, SetCredential};
use crate::wire::venue;

/// The payload of the action of this name.
pub(super) fn body(name: &str) -> Option<Body> {
    let rule = actions::find(name)?;
    let (schema, purpose, conditions) = of(rule.action);
    let senders: Vec<&str> = rule.senders.iter().map(|role| role.as_str()).collect();
    let about = format!("{purpose} Payload of `{name}`, sent by: {}.", senders.join(", "));
    Some(Body { schema, about, conditions: conditions.to_vec() })
}

/// The payload of `request.check`: that of the action in it is told apart in the answer, not here.
fn checked() -> Schema {
    let actions: Vec<&str> = check::checked().collect();
    schemars::json_schema!({
        "type": "object",
        "properties": {
            "action": {"type": "string", "enum": actions, "description": "The action that is asked about."},
            "payload": {
                "type": "object",
                "description": "Its payload, as in the schema of that action. One that is not is answered as the request would be.",
            },
        },
        "required": ["action", "payload"],
        "additionalProperties": false,
    })
}

type Row = (Schema, &'static str, &'static [Condition]);

fn of(action: Action) -> Row {
    match action {
        Action::OrderSubmit => (
            read::<SubmitOrder>(),
            "Enters or leaves a position: an order within a strategy and a thesis. It is checked against every limit before it goes anywhere.",
            &[PRICE, DIGITS],
        ),
        Action::OrderCancel => (read::<CancelOrder>(), "Takes back an open order.", &[LINE]),
        Action::OrderTightenStop => (
            read::<TightenStop>(),
            "Moves a protective stop closer to the market; it can never be loosened.",
            &[DIGITS, LINE],
        ),
        Action::PortfolioGet => {
            (read::<Empty>(), "Asks for cash, equity, positions and what the limits leave.", &[])
        }
        Action::OrdersList => (read::<Empty>(), "Asks for the open orders.", &[]),
        Action::FillsList => (read::<ListFills>(), "Asks for fills from an instant on.", &[CALENDAR]),
        Action::MarketGet => (read::<GetMarket>(), "Asks for the last quote and bar of an instrument.", &[]),
        Action::RequestCheck => {
            (checked(), "Asks what would become of a request; nothing of it is done.", &[])
        }
        Action::CouncilRequest => (
            read::<CouncilRequest>(),
            "Opens a case before the council: a change with its evidence.",
            &[BYTES, CALENDAR],
        ),
        Action::CouncilVerdict => (read::<SubmitVerdict>(), "Files what a role says about a case.", &[BYTES]),
        Action::AdmissionEvaluate => (admission(), "Has a task judged without admitting it.", &[WHOLE, LINE]),
        Action::AdmissionAdmit => {
            (admission(), "Has a task admitted: it counts, and an ALLOW may be forwarded.", &[WHOLE, LINE])
        }
        Action::AdmissionCheck => {
            (admission(), "Says whether a task would be admitted; nothing counts.", &[WHOLE, LINE])
        }
        Action::AdmissionHealth => (read::<Empty>(), "Asks whether admission can judge.", &[]),
        Action::AdmissionCacheClear => (read::<Empty>(), "Forgets delivered policies of all domains.", &[]),
        Action::AdmissionCacheInvalidate => {
            (read::<InvalidatePolicy>(), "Forgets delivered policies of one profile.", &[])
        }
        Action::ControlApply => (
            read::<ControlDecision>(),
            "Decides what runs on a concern: switch, pause, resume, or how much may be risked.",
            &[CONTROL, BYTES, CALENDAR],
        ),
        Action::StrategiesList => (read::<Empty>(), "Asks for all strategies and what runs.", &[]),
        Action::StrategiesGet => (read::<GetStrategy>(), "Asks for one strategy.", &[]),
        Action::RulePropose => (
            read::<RuleProposal>(),
            "Proposes that a rule comes into force, is suspended, or has another threshold. Give exactly one of the three \
             members. People decide on what loosens.",
            &[DIGITS, WHOLE, BYTES],
        ),
        Action::ProposalApprove => {
            (read::<ApproveProposal>(), "Approves a proposal, as it was seen.", &[LINE])
        }
        Action::ProposalDecline => (read::<EndProposal>(), "Declines a proposal.", &[LINE, BYTES]),
        Action::ProposalRevert => (read::<EndProposal>(), "Takes back what a proposal did.", &[LINE, BYTES]),
        action => outside(action),
    }
}

/// What leaves the machine, and what people, feeds and bridges send.
fn outside(action: Action) -> Row {
    match action {
        Action::EmailFetch => {
            (read::<EmailFetch>(), "Reads mails of a folder.", &[SEEN, BYTES, WHOLE, CALENDAR])
        }
        Action::EmailSend => {
            (read::<EmailSend>(), "Sends a mail.", &[RECIPIENT, RECIPIENTS, ADDRESS, SEEN, BYTES])
        }
        Action::EmailDraft => {
            (read::<EmailSend>(), "Leaves a mail as a draft.", &[RECIPIENTS, ADDRESS, SEEN, BYTES])
        }
        Action::CalendarFetch => {
            (read::<CalendarFetch>(), "Reads events of a period.", &[PERIOD, SEEN, BYTES, CALENDAR])
        }
        Action::CalendarCreate => {
            (read::<CalendarCreate>(), "Makes an event.", &[PERIOD, ADDRESS, SEEN, BYTES, CALENDAR])
        }
        Action::CalendarUpdate => {
            (read::<CalendarCreate>(), "Changes an event.", &[PERIOD, ADDRESS, SEEN, BYTES, CALENDAR])
        }
        Action::FinanceFetchTransactions => {
            (read::<FetchTransactions>(), "Reads transactions of an account.", &[SEEN, BYTES, WHOLE])
        }
        Action::HealthFetch => {
            (read::<FetchHealth>(), "Reads health data of one kind.", &[SEEN, BYTES, CALENDAR])
        }
        Action::ServiceApiCall => {
            (read::<ServiceApiCall>(), "Calls a service of the allowlist.", &[ENDPOINT, HEADERS, SEEN, BYTES])
        }
        Action::MarketImport => {
            (read::<ImportMarket>(), "Takes in rows that a command has stored.", &[WHOLE, BYTES])
        }
        Action::MarketUpdate => {
            (read::<UpdateMarket>(), "Takes in a few rows of one symbol.", &[ROWS, DIGITS, WHOLE, CALENDAR])
        }
        Action::FundingUpdate => (read::<UpdateFunding>(), "Takes in a funding rate.", &[DIGITS, CALENDAR]),
        Action::VenueReport => (
            read::<venue::Sent>(),
            "Says what became of an order at a venue.",
            &[REPORT, DIGITS, WHOLE, BYTES, CALENDAR, LINE],
        ),
        Action::HaltSet => (read::<SetHalt>(), "Stops entries.", &[BYTES]),
        Action::HaltClear => (read::<ClearHalt>(), "Lets entries go on.", &[BYTES]),
        Action::Heartbeat => (read::<Heartbeat>(), "Says that an agent is there.", &[]),
        Action::AccountAdjust => {
            (read::<AdjustAccount>(), "Books a deposit or withdrawal.", &[DIGITS, BYTES])
        }
        Action::ClockAccept => (read::<AcceptClock>(), "Accepts a step of the clock.", &[BYTES]),
        Action::KeysAdd => (add_key(), "Brings a key into force.", &[]),
        Action::KeysRotate => {
            (rotate_key(), "Brings a key into force, and the others of its principal to an end.", &[CALENDAR])
        }
        Action::KeysRevoke => (read::<RevokeKey>(), "Puts a key out of force.", &[BYTES]),
        Action::ServicesAdd => (add_service(), "Allows one more service.", &[SERVICE, WHOLE]),
        Action::ServicesRemove => (read::<NameService>(), "Takes a service out of the allowlist.", &[]),
        Action::ServicesDeactivate => (read::<NameService>(), "Allows a service no longer, for now.", &[]),
        Action::ServicesActivate => (read::<NameService>(), "Allows a service again.", &[]),
        Action::ServicesCredential => {
            (read::<SetCredential>(), "Brings another credential of a service into force.", &[])
        }
        Action::ApprovalGrant => {
            (read::<GrantApproval>(), "Approves a held request, as it was seen.", &[LINE, BYTES])
        }
        Action::ApprovalDeny => (read::<DenyApproval>(), "Refuses a held request.", &[LINE, BYTES]),
        Action::GrantAdd => (read::<AddGrant>(), "Puts a value into a set for one task.", &[CALENDAR]),
        Action::GrantEnd => (read::<EndGrant>(), "Ends that.", &[]),
        // The rest is told above.
        _ => (read::<Empty>(), "", &[]),
    }
}

fn admission() -> Schema {
    read::<BodyFields<'_>>()
}

/// A new key ends nothing.
fn add_key() -> Schema {
    let mut schema = read::<AddKey>();
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.remove("others_end");
    }
    schema
}

fn rotate_key() -> Schema {
    let mut schema = read::<AddKey>();
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.push(json!("others_end"));
    }
    schema
}

/// Which actions find their service by its entry stands with the rule files.
fn add_service() -> Schema {
    let mut schema = read::<AddService>();
    if let Some(actions) = schema.pointer_mut("/properties/actions").and_then(Value::as_object_mut) {
        actions.insert("items".to_owned(), json!({"type": "string", "enum": BY_ACTION}));
        actions.insert("uniqueItems".to_owned(), json!(true));
    }
    schema
}
