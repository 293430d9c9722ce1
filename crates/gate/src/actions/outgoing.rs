//! The nine outgoing actions. Adapters carry them out; the gate reads their payloads, checks the
//! allowlist, rules and rates, and starts them.

use std::any::Any;
use std::sync::Arc;

use super::prelude::*;
use super::{Body, ErasedAction, ErasedPayload};
use spoolgate_wire::envelope::REQUEST_BYTES_MAX;
use spoolgate_wire::gateway::{
    CalendarCreate, CalendarFetch, EmailFetch, EmailSend, FetchHealth, FetchTransactions,
    GatewayCall, ServiceApiCall,
};
use spoolgate_wire::schema::HasSchema;

/// One of the nine outgoing actions.
pub struct Outgoing {
    row: Row,
    about: &'static str,
    conditions: &'static [Condition],
    #[cfg(feature = "schema")]
    schema: fn() -> Schema,
}

/// An outgoing action whose payload the type `P` describes.
#[cfg_attr(
    not(feature = "schema"),
    expect(
        clippy::extra_unused_type_parameters,
        reason = "only a schema needs it"
    )
)]
const fn outgoing<P: HasSchema>(
    row: Row,
    about: &'static str,
    conditions: &'static [Condition],
) -> Outgoing {
    Outgoing {
        row,
        about,
        conditions,
        #[cfg(feature = "schema")]
        schema: schemas::read::<P>,
    }
}

/// `email.fetch`.
pub static EMAIL_FETCH: Outgoing = outgoing::<EmailFetch>(
    row(
        ActionName::EmailFetch,
        "EmailFetch",
        "folder?, limit?, since?",
    ),
    "Reads mails of a folder.",
    &[SEEN, BYTES, WHOLE, CALENDAR],
);

/// `email.send`.
pub static EMAIL_SEND: Outgoing = outgoing::<EmailSend>(
    row(
        ActionName::EmailSend,
        "EmailSend",
        "to, cc?, subject, body, replyToMessageId?",
    )
    .sealed(&["/subject", "/body"]),
    "Sends a mail.",
    &[RECIPIENT, RECIPIENTS, ADDRESS, SEEN, BYTES],
);

/// `email.draft`.
pub static EMAIL_DRAFT: Outgoing = outgoing::<EmailSend>(
    row(
        ActionName::EmailDraft,
        "EmailSend",
        "to, cc?, subject, body, replyToMessageId?",
    )
    .sealed(&["/subject", "/body"]),
    "Saves a mail as a draft.",
    &[RECIPIENTS, ADDRESS, SEEN, BYTES],
);

/// `calendar.fetch`.
pub static CALENDAR_FETCH: Outgoing = outgoing::<CalendarFetch>(
    row(
        ActionName::CalendarFetch,
        "CalendarFetch",
        "calendarId?, startDate, endDate",
    ),
    "Reads events of a period.",
    &[PERIOD, SEEN, BYTES, CALENDAR],
);

/// `calendar.create`.
pub static CALENDAR_CREATE: Outgoing = outgoing::<CalendarCreate>(
    row(
        ActionName::CalendarCreate,
        "CalendarCreate",
        "calendarId?, title, startTime, endTime, description?, attendees?",
    )
    .sealed(&["/title", "/description"]),
    "Creates an event.",
    &[PERIOD, ADDRESS, SEEN, BYTES, CALENDAR],
);

/// `calendar.update`.
pub static CALENDAR_UPDATE: Outgoing = outgoing::<CalendarCreate>(
    row(
        ActionName::CalendarUpdate,
        "CalendarCreate",
        "calendarId?, title, startTime, endTime, description?, attendees?",
    )
    .sealed(&["/title", "/description"]),
    "Changes an event.",
    &[PERIOD, ADDRESS, SEEN, BYTES, CALENDAR],
);

/// `finance.fetch_transactions`.
pub static FINANCE_FETCH_TRANSACTIONS: Outgoing = outgoing::<FetchTransactions>(
    row(
        ActionName::FinanceFetchTransactions,
        "FetchTransactions",
        "accountId?, limit?",
    ),
    "Reads transactions of an account.",
    &[SEEN, BYTES, WHOLE],
);

/// `health.fetch`.
pub static HEALTH_FETCH: Outgoing = outgoing::<FetchHealth>(
    row(
        ActionName::HealthFetch,
        "FetchHealth",
        "dataType, startDate?",
    ),
    "Reads health data of one kind.",
    &[SEEN, BYTES, CALENDAR],
);

/// `service.api_call`.
pub static SERVICE_API_CALL: Outgoing = outgoing::<ServiceApiCall>(
    row(
        ActionName::ServiceApiCall,
        "ServiceApiCall",
        "service, endpoint, method, headers?, body?",
    )
    .sealed(&["/headers", "/body"]),
    "Calls a service of the allowlist.",
    &[ENDPOINT, HEADERS, SEEN, BYTES],
);

/// The common row: rules, anomalies and admission can refuse outgoing actions.
const fn row(name: ActionName, request_type: &'static str, payload: &'static str) -> Row {
    Row::new(name, request_type, payload, SPEAKERS)
        // Large payloads are held.
        .bytes_max(REQUEST_BYTES_MAX)
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

    #[cfg(feature = "schema")]
    fn schema(&self) -> Schema {
        (self.schema)()
    }

    #[cfg(feature = "schema")]
    fn answer_schema(&self) -> Schema {
        schemars::json_schema!({"description": "The data of the adapter: any JSON, in the form of \
            the service."})
    }

    fn read(&'static self, text: &str) -> Result<Body, PayloadError> {
        let call = GatewayCall::read(self.row.name.as_str(), text)?;
        Ok(Body {
            malformed: None,
            malformed_causality: None,
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
