//! The nine outgoing actions: their strict payloads with defaults applied, the id of an action in
//! progress, and the answer of an adapter.

mod calendar;
mod call;
mod mail;
mod read;
mod records;

use std::fmt;

use crate::action_name::ActionName;
use crate::payload::PayloadError;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::value::RawValue;

pub use calendar::{CALENDAR, CalendarCreate, CalendarFetch};
pub use call::{HeaderError, Method, ServiceApiCall};
pub use mail::{EmailFetch, EmailSend, FOLDER, LIMIT};
pub use records::{FetchHealth, FetchTransactions};

/// Maximum number of recipients of a mail, or of people invited to an event.
pub const PEOPLE_MAX: usize = 200;
/// Longest subject, title, endpoint or header, in bytes.
pub const TEXT_BYTES_MAX: usize = 2048;
/// Longest name of a folder, calendar, account, service, kind of data or message, in bytes.
pub const NAME_BYTES_MAX: usize = 512;
/// Maximum number of items that one request may fetch.
pub const LIMIT_MAX: u32 = 10_000;
/// Maximum number of headers of a call.
pub const HEADERS_MAX: usize = 64;

/// Id of an action that was begun: `a-<seq of its request line>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActionId(pub u64);

impl ActionId {
    /// Reads `a-<seq>`. `None` for anything else, including leading zeros.
    pub fn parse(text: &str) -> Option<ActionId> {
        let digits = text.strip_prefix("a-")?;
        let is_plain = digits == "0" || !digits.starts_with('0');
        let are_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        digits
            .parse()
            .ok()
            .filter(|_| is_plain && are_digits)
            .map(ActionId)
    }
}

crate::text_schema!(ActionId, super::schema::numbered("a"));

impl fmt::Display for ActionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a-{}", self.0)
    }
}

impl Serialize for ActionId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ActionId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ActionId, D::Error> {
        let text = String::deserialize(deserializer)?;
        ActionId::parse(&text).ok_or_else(|| {
            de::Error::custom(
                "the name of an outgoing action has \
            the form `a-12`",
            )
        })
    }
}

/// A well-formed payload of one of the nine actions, with defaults.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum GatewayCall {
    /// `email.send`, `email.draft`.
    Mail(EmailSend),
    /// `email.fetch`.
    FetchMail(EmailFetch),
    /// `calendar.fetch`.
    FetchEvents(CalendarFetch),
    /// `calendar.create`, `calendar.update`.
    Event(CalendarCreate),
    /// `finance.fetch_transactions`.
    Transactions(FetchTransactions),
    /// `health.fetch`.
    Health(FetchHealth),
    /// `service.api_call`.
    Call(ServiceApiCall),
}

impl GatewayCall {
    /// Reads the payload of an action, which is strict JSON without insignificant white space.
    ///
    /// # Errors
    /// Returns a [`PayloadError`] with the field, never its value, and with what is expected there.
    pub fn read(action: &str, payload: &str) -> Result<GatewayCall, PayloadError> {
        match action.parse() {
            Ok(ActionName::EmailSend) => EmailSend::read(payload, false).map(GatewayCall::Mail),
            Ok(ActionName::EmailDraft) => EmailSend::read(payload, true).map(GatewayCall::Mail),
            Ok(ActionName::EmailFetch) => EmailFetch::read(payload).map(GatewayCall::FetchMail),
            Ok(ActionName::CalendarFetch) => {
                CalendarFetch::read(payload).map(GatewayCall::FetchEvents)
            }
            Ok(ActionName::CalendarCreate | ActionName::CalendarUpdate) => {
                CalendarCreate::read(payload).map(GatewayCall::Event)
            }
            Ok(ActionName::FinanceFetchTransactions) => {
                FetchTransactions::read(payload).map(GatewayCall::Transactions)
            }
            Ok(ActionName::HealthFetch) => FetchHealth::read(payload).map(GatewayCall::Health),
            Ok(ActionName::ServiceApiCall) => ServiceApiCall::read(payload).map(GatewayCall::Call),
            _ => Err(PayloadError::NotOutgoing),
        }
    }

    /// The payload with defaults, as an adapter gets it.
    ///
    /// # Errors
    /// Returns the serialiser's message.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }
}

/// Reads an optional member that must not be null.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// An error that an adapter reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdapterError {
    /// The adapter's own code.
    pub code: String,
    /// The message.
    pub message: String,
}

/// The answer of an adapter: exactly one JSON object.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdapterAnswer {
    /// Whether the action was carried out.
    pub success: bool,
    /// Result of the action.
    #[serde(default, deserialize_with = "present")]
    pub data: Option<Box<RawValue>>,
    /// Why the action was not carried out; only if `success` is false.
    #[serde(default, deserialize_with = "present")]
    pub error: Option<AdapterError>,
}
