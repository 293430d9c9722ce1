//! The nine outgoing actions. Adapters carry them out; the gate reads their payloads, checks the
//! allowlist, rules and rates, and starts them.

use std::any::Any;
use std::sync::Arc;

use super::prelude::*;
use super::{Body, ErasedAction, ErasedPayload};
use spoolgate_wire::gateway::{
    CalendarCreate, CalendarFetch, EmailFetch, EmailSend, FetchHealth, FetchTransactions,
    GatewayCall, ServiceApiCall,
};

/// Largest file, bytes: a payload may be as large as a request. Large payloads are held.
const BYTES_MAX: usize = 10 * 1024 * 1024;

/// One of the nine outgoing actions.
pub struct Outgoing {
    row: Row,
    about: &'static str,
    conditions: &'static [Condition],
    schema: fn() -> Schema,
}

/// `email.fetch`.
pub static EMAIL_FETCH: Outgoing = Outgoing {
    row: row(
        ActionName::EmailFetch,
        "EmailFetch",
        "folder?, limit?, since?",
    ),
    about: "Reads mails of a folder.",
    conditions: &[SEEN, BYTES, WHOLE, CALENDAR],
    schema: schemas::read::<EmailFetch>,
};

/// `email.send`.
pub static EMAIL_SEND: Outgoing = Outgoing {
    row: row(
        ActionName::EmailSend,
        "EmailSend",
        "to, cc?, subject, body, replyToMessageId?",
    )
    .sealed(&["/subject", "/body"]),
    about: "Sends a mail.",
    conditions: &[RECIPIENT, RECIPIENTS, ADDRESS, SEEN, BYTES],
    schema: schemas::read::<EmailSend>,
};

/// `email.draft`.
pub static EMAIL_DRAFT: Outgoing = Outgoing {
    row: row(
        ActionName::EmailDraft,
        "EmailSend",
        "to, cc?, subject, body, replyToMessageId?",
    )
    .sealed(&["/subject", "/body"]),
    about: "Saves a mail as a draft.",
    conditions: &[RECIPIENTS, ADDRESS, SEEN, BYTES],
    schema: schemas::read::<EmailSend>,
};

/// `calendar.fetch`.
pub static CALENDAR_FETCH: Outgoing = Outgoing {
    row: row(
        ActionName::CalendarFetch,
        "CalendarFetch",
        "calendarId?, startDate, endDate",
    ),
    about: "Reads events of a period.",
    conditions: &[PERIOD, SEEN, BYTES, CALENDAR],
    schema: schemas::read::<CalendarFetch>,
};

/// `calendar.create`.
pub static CALENDAR_CREATE: Outgoing = Outgoing {
    row: row(
        ActionName::CalendarCreate,
        "CalendarCreate",
        "calendarId?, title, startTime, endTime, description?, attendees?",
    )
    .sealed(&["/title", "/description"]),
    about: "Creates an event.",
    conditions: &[PERIOD, ADDRESS, SEEN, BYTES, CALENDAR],
    schema: schemas::read::<CalendarCreate>,
};

/// `calendar.update`.
pub static CALENDAR_UPDATE: Outgoing = Outgoing {
    row: row(
        ActionName::CalendarUpdate,
        "CalendarCreate",
        "calendarId?, title, startTime, endTime, description?, attendees?",
    )
    .sealed(&["/title", "/description"]),
    about: "Changes an event.",
    conditions: &[PERIOD, ADDRESS, SEEN, BYTES, CALENDAR],
    schema: schemas::read::<CalendarCreate>,
};

/// `finance.fetch_transactions`.
pub static FINANCE_FETCH_TRANSACTIONS: Outgoing = Outgoing {
    row: row(
        ActionName::FinanceFetchTransactions,
        "FetchTransactions",
        "accountId?, limit?",
    ),
    about: "Reads transactions of an account.",
    conditions: &[SEEN, BYTES, WHOLE],
    schema: schemas::read::<FetchTransactions>,
};

/// `health.fetch`.
pub static HEALTH_FETCH: Outgoing = Outgoing {
    row: row(
        ActionName::HealthFetch,
        "FetchHealth",
        "dataType, startDate?",
    ),
    about: "Reads health data of one kind.",
    conditions: &[SEEN, BYTES, CALENDAR],
    schema: schemas::read::<FetchHealth>,
};

/// `service.api_call`.
pub static SERVICE_API_CALL: Outgoing = Outgoing {
    row: row(
        ActionName::ServiceApiCall,
        "ServiceApiCall",
        "service, endpoint, method, headers?, body?",
    )
    .sealed(&["/headers", "/body"]),
    about: "Calls a service of the allowlist.",
    conditions: &[ENDPOINT, HEADERS, SEEN, BYTES],
    schema: schemas::read::<ServiceApiCall>,
};

/// The common row: rules, anomalies and admission can refuse outgoing actions.
const fn row(name: ActionName, request_type: &'static str, payload: &'static str) -> Row {
    Row::new(name, request_type, payload, SPEAKERS)
        .bytes_max(BYTES_MAX)
        .rules_apply(Rules::Refuses)
        .admission(Admission::Refuses)
}

impl ErasedAction for Outgoing {
    fn row(&'static self) -> &'static Row {
        &self.row
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn conditions(&self) -> &'static [Condition] {
        self.conditions
    }

    fn schema(&self) -> Schema {
        (self.schema)()
    }

    fn answer_schema(&self) -> Schema {
        schemars::json_schema!({"description": "The data of the adapter: any JSON, in the form of \
            the service."})
    }

    fn read(&'static self, text: &str) -> Result<Body, PayloadError> {
        let call = GatewayCall::read(self.row.name.as_str(), text)?;
        Ok(Body {
            rule: &self.row,
            payload: Arc::new(call),
        })
    }
}

impl ErasedPayload for GatewayCall {
    fn payload(&self) -> &dyn Any {
        self
    }

    fn needs(&self, _: &Rulebook, _: &Authentic, _: &mut Needs) {}

    fn execute(&self, turn: &Turn<'_>, sender: &Authentic) -> Result<Outcome, Refusal> {
        turn.begin_action(sender, self)
    }
}
