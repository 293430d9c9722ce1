//! The nine actions that leave the machine: their payloads, strict, with defaults applied; the name of an action on its way;
//! what an adapter answers.

mod calendar;
mod call;
mod mail;
mod read;
mod records;

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::value::RawValue;

pub use calendar::{CALENDAR, CalendarCreate, CalendarFetch};
pub use call::{Method, ServiceApiCall};
pub use mail::{EmailFetch, EmailSend, FOLDER, LIMIT};
pub use records::{FetchHealth, FetchTransactions};

/// Most recipients of a mail, or people invited to an event.
pub const PEOPLE_MAX: usize = 200;
/// Longest subject, title, endpoint or header, bytes.
pub const TEXT_BYTES_MAX: usize = 2048;
/// Longest name of a folder, calendar, account, service, kind of data or message, bytes.
pub const NAME_BYTES_MAX: usize = 512;
/// Most that may be fetched at once.
pub const LIMIT_MAX: u32 = 10_000;
/// Most headers of a call.
pub const HEADERS_MAX: usize = 64;

/// Name of an action that was begun: `a-<seq of its request line>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActionId(pub u64);

impl ActionId {
    /// Reads `a-<seq>`; none for anything else, leading zeros included.
    pub fn parse(text: &str) -> Option<ActionId> {
        let digits = text.strip_prefix("a-")?;
        let is_plain = digits == "0" || !digits.starts_with('0');
        let are_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        digits.parse().ok().filter(|_| is_plain && are_digits).map(ActionId)
    }
}

super::schema::text_schema!(ActionId, super::schema::numbered("a"));

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
        ActionId::parse(&text).ok_or_else(|| de::Error::custom("an action is named as `a-12`"))
    }
}

/// One of the nine, well-formed, with defaults.
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
    /// Reads the payload of an action, strict JSON without insignificant white space.
    ///
    /// # Errors
    /// What is wrong: the field, never its value, and what is wanted there.
    pub fn read(action: &str, payload: &str) -> Result<GatewayCall, String> {
        match action {
            "email.send" => EmailSend::read(payload, false).map(GatewayCall::Mail),
            "email.draft" => EmailSend::read(payload, true).map(GatewayCall::Mail),
            "email.fetch" => EmailFetch::read(payload).map(GatewayCall::FetchMail),
            "calendar.fetch" => CalendarFetch::read(payload).map(GatewayCall::FetchEvents),
            "calendar.create" | "calendar.update" => CalendarCreate::read(payload).map(GatewayCall::Event),
            "finance.fetch_transactions" => FetchTransactions::read(payload).map(GatewayCall::Transactions),
            "health.fetch" => FetchHealth::read(payload).map(GatewayCall::Health),
            "service.api_call" => ServiceApiCall::read(payload).map(GatewayCall::Call),
            _ => Err("it is no payload of an action that leaves the machine".to_owned()),
        }
    }

    /// The payload that an adapter gets: with defaults.
    ///
    /// # Errors
    /// The serialiser's message.
    pub fn to_json(&self) -> Result<String, String> {
        serde_json::to_string(self).map_err(|error| error.to_string())
    }
}

/// A key that is there has a value: null is not one.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// What an adapter says went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdapterError {
    /// Its own code.
    pub code: String,
    /// In words.
    pub message: String,
}

/// What an adapter writes: exactly one JSON object.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdapterAnswer {
    /// Whether it was done.
    pub success: bool,
    /// What came of it.
    #[serde(default, deserialize_with = "present")]
    pub data: Option<Box<RawValue>>,
    /// Why it was not done; only where `success` is false.
    #[serde(default, deserialize_with = "present")]
    pub error: Option<AdapterError>,
}
