//! Payloads of requests as the gate reads them.

use std::fmt::Debug;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::admission::AdmissionAttempt;
use super::amount::Amount;
use super::control::ControlAttempt;
use super::faults::Instead;
use super::gateway::HeaderError;
use super::json;
use super::market::MarketError;
use super::orders::OrderError;
use super::schema::HasSchema;
use super::shape;
use super::time::Time;

/// Why a payload is invalid. The message is for the sender: it names the member and what is
/// expected there.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PayloadError {
    /// The text does not have the shape of the payload.
    #[error("{}", plain(.0))]
    Shape(Arc<serde_json::Error>),
    /// A part of the payload is invalid.
    #[error("{part}: {fault}")]
    Within {
        /// The part.
        part: &'static str,
        /// What is wrong with the part.
        fault: Box<PayloadError>,
    },
    /// The payload is not an object.
    #[error("it must be an object")]
    NotAnObject,
    /// The action does not leave the machine.
    #[error("it is not the payload of an outgoing action")]
    NotOutgoing,
    /// The payload has a member that its action does not know.
    #[error("unknown key{}; known keys are \
        {}", key.as_ref().map(|key| format!(" `{key}`")).unwrap_or_default(), quoted(known))]
    UnknownKey {
        /// The key; `None` if it is not fit to be repeated.
        key: Option<String>,
        /// The keys that the action knows.
        known: &'static [&'static str],
    },
    /// A member is missing.
    #[error("`{field}` is missing")]
    Missing {
        /// The member.
        field: &'static str,
    },
    /// A member does not have the form that it must have.
    #[error("`{field}` {rule}")]
    Form {
        /// The member.
        field: &'static str,
        /// What holds for it, as the predicate of a sentence.
        rule: &'static str,
    },
    /// Two members do not have the form that they must have.
    #[error("`{}` and `{}` {rule}", fields[0], fields[1])]
    Forms {
        /// The members.
        fields: [&'static str; 2],
        /// What holds for them, as the predicate of a sentence.
        rule: &'static str,
    },
    /// Two members may not be there together.
    #[error("`{}` and `{}` exclude each other; {rule}", fields[0], fields[1])]
    Exclude {
        /// The members.
        fields: [&'static str; 2],
        /// The reason, or what to do.
        rule: &'static str,
    },
    /// A number is out of its range.
    #[error("`{field}` is {found}; {rule}")]
    Range {
        /// The member.
        field: &'static str,
        /// The number.
        found: Amount,
        /// The range, as a sentence.
        rule: &'static str,
    },
    /// A member is not a whole number from 1 to a bound.
    #[error("`{field}` must be a whole number of 1 to {most}")]
    Count {
        /// The member.
        field: &'static str,
        /// The largest number.
        most: u32,
    },
    /// A member has too many bytes, addresses or members.
    #[error("`{field}` has {found} {unit}; at most {most} are accepted")]
    TooMany {
        /// The member.
        field: &'static str,
        /// How many it has.
        found: usize,
        /// What is counted.
        unit: &'static str,
        /// The largest number.
        most: usize,
    },
    /// A text is empty or too long.
    #[error("`{field}` has {found} bytes; {demand} 1 to {most}")]
    Length {
        /// The member.
        field: &'static str,
        /// Its length in bytes.
        found: usize,
        /// What to write, as the beginning of a sentence.
        demand: &'static str,
        /// The largest length in bytes.
        most: usize,
    },
    /// A text has only white space.
    #[error("`{field}` has no visible character; {demand} 1 to {most} bytes")]
    Blank {
        /// The member.
        field: &'static str,
        /// What to write, as the beginning of a sentence.
        demand: &'static str,
        /// The largest length in bytes.
        most: usize,
    },
    /// A text that may be left out is empty or too long.
    #[error("`{field}` must have 1 to {most} bytes, or be left out")]
    OptionalLength {
        /// The member.
        field: &'static str,
        /// The largest length in bytes.
        most: usize,
    },
    /// A name is too long.
    #[error("`{field}` is longer than {most} bytes")]
    TooLong {
        /// The member.
        field: &'static str,
        /// The largest length in bytes.
        most: usize,
    },
    /// A member names too many ledger lines.
    #[error("`{field}` names more than {most} lines")]
    TooManyLines {
        /// The member.
        field: &'static str,
        /// The largest number.
        most: usize,
    },
    /// The gate cannot be asked about this action.
    #[error("`action` cannot be checked; use one of {}", known.join(", "))]
    NotChecked {
        /// The actions that it can be asked about.
        known: Vec<&'static str>,
    },
    /// The kind of work is not a name.
    #[error("`payload_kind` must be 1 to {most} characters of a-z and `_`")]
    Kind {
        /// The largest length in bytes.
        most: usize,
    },
    /// A mail address is not a bare one.
    #[error("`{field}`, number {number}: it must be one bare mail address, as ann@example.com")]
    Address {
        /// The member.
        field: &'static str,
        /// The position of the address, from 1.
        number: usize,
    },
    /// A mail has too many recipients.
    #[error("`to` and `cc` have {found} addresses together; at most {most} are accepted")]
    Recipients {
        /// How many it has.
        found: usize,
        /// The largest number.
        most: usize,
    },
    /// A period ends before it starts.
    #[error("`{end}` must be after `{start}`")]
    Period {
        /// The member with its start.
        start: &'static str,
        /// The member with its end.
        end: &'static str,
    },
    /// A header of a call is invalid.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// An order contradicts itself.
    #[error(transparent)]
    Order(#[from] OrderError),
    /// A market update is empty or too large.
    #[error(transparent)]
    Market(#[from] MarketError),
    /// Another crate reads a part of the payload and refuses it.
    #[error(transparent)]
    Other(Arc<dyn std::error::Error + Send + Sync>),
}

impl From<serde_json::Error> for PayloadError {
    fn from(error: serde_json::Error) -> PayloadError {
        PayloadError::Shape(Arc::new(error))
    }
}

impl PayloadError {
    /// The error for a member that does not have its form; `rule` is the predicate of a sentence.
    pub fn form(field: &'static str, rule: &'static str) -> PayloadError {
        PayloadError::Form { field, rule }
    }

    /// Checks a text that must have a visible character and at most `most` bytes. `demand` is what
    /// to write, as the beginning of a sentence.
    ///
    /// # Errors
    /// Returns [`PayloadError::Blank`] or [`PayloadError::Length`].
    pub fn check_said(
        field: &'static str,
        text: &str,
        demand: &'static str,
        most: usize,
    ) -> Result<(), PayloadError> {
        let found = text.len();
        if text.is_empty() || found > most {
            return Err(PayloadError::Length {
                field,
                found,
                demand,
                most,
            });
        }
        if text.trim().is_empty() {
            return Err(PayloadError::Blank {
                field,
                demand,
                most,
            });
        }
        Ok(())
    }

    /// The fault of a part of a payload.
    pub fn within(part: &'static str, fault: impl Into<PayloadError>) -> PayloadError {
        PayloadError::Within {
            part,
            fault: Box::new(fault.into()),
        }
    }

    /// Whether the text does not have the shape of the payload, or of a part of it.
    pub fn is_of_shape(&self) -> bool {
        match self {
            PayloadError::Shape(_) => true,
            PayloadError::Within { fault, .. } => fault.is_of_shape(),
            _ => false,
        }
    }

    /// The JSON pointer of the invalid value in the payload's text; the whole payload if that is
    /// not known.
    pub fn pointer(&self, text: &str) -> String {
        let member = |field: &str| {
            let own = format!("/{}", field.replace('.', "/"));
            let value: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
            let of_variant = match &value {
                serde_json::Value::Object(members) if members.len() == 1 => members.keys().next(),
                _ => None,
            };
            let within = of_variant.map(|name| format!("/{name}{own}"));
            within
                .filter(|within| value.pointer(within).is_some())
                .unwrap_or(own)
        };
        match self {
            // The reader has read up to there.
            PayloadError::Shape(error) => json::pointer_at(text, error.column()),
            PayloadError::Within { part, fault } => {
                let part = part.split(' ').next().unwrap_or_default().replace('.', "/");
                let pointer = format!("/{part}");
                let value = json::value_at(text, &pointer);
                let inner = value
                    .map(|value| fault.pointer(value.get()))
                    .unwrap_or_default();
                format!("/{part}{inner}")
            }
            PayloadError::UnknownKey { key: Some(key), .. } => {
                let mut pointer = String::new();
                json::push(&mut pointer, key);
                pointer
            }
            PayloadError::Missing { field }
            | PayloadError::Form { field, .. }
            | PayloadError::Range { field, .. }
            | PayloadError::Count { field, .. }
            | PayloadError::TooMany { field, .. }
            | PayloadError::Length { field, .. }
            | PayloadError::Blank { field, .. }
            | PayloadError::OptionalLength { field, .. }
            | PayloadError::TooLong { field, .. }
            | PayloadError::TooManyLines { field, .. } => member(field),
            PayloadError::Forms { fields, .. } => member(fields[0]),
            PayloadError::Exclude { fields, .. } => member(fields[1]),
            PayloadError::Address { field, number } => {
                format!("{}/{}", member(field), number.saturating_sub(1))
            }
            PayloadError::NotChecked { .. } => member("action"),
            PayloadError::Kind { .. } => member("payload_kind"),
            PayloadError::Recipients { .. } => member("to"),
            PayloadError::Period { end, .. } => member(end),
            PayloadError::Header(_) => member("headers"),
            PayloadError::Order(OrderError::NoPrice | OrderError::PriceGiven(_)) => member("price"),
            PayloadError::Order(OrderError::NoTrigger) => member("stop_price"),
            PayloadError::NotAnObject
            | PayloadError::NotOutgoing
            | PayloadError::UnknownKey { key: None, .. }
            | PayloadError::Market(_)
            | PayloadError::Other(_) => String::new(),
        }
    }

    /// What repairs the value at [`PayloadError::pointer`].
    pub fn instead(&self, text: &str) -> Instead {
        match self {
            PayloadError::Order(OrderError::PriceGiven(_)) | PayloadError::Exclude { .. } => {
                Instead::Nothing
            }
            // At the planned entry a stop order would begin.
            PayloadError::Order(OrderError::NoTrigger) => {
                let value = json::value_at(text, "/planned_entry");
                let entry = value.and_then(|it| serde_json::from_str(it.get()).ok());
                entry.map_or(Instead::Example, Instead::Value)
            }
            PayloadError::Period { start, .. } => {
                let value = json::value_at(text, &format!("/{start}"));
                let start: Option<Time> = value.and_then(|it| serde_json::from_str(it.get()).ok());
                let end = start.map(|start| start.plus_ms(HOUR_MS).to_string());
                end.map_or(Instead::Example, |end| Instead::Value(end.into()))
            }
            _ => Instead::Example,
        }
    }

    /// The error of another crate that reads a part of the payload.
    pub fn other(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> PayloadError {
        PayloadError::Other(Arc::from(error.into()))
    }
}

/// The message of a reader without its position, which is not one in the sender's file, without
/// the value that it quotes, and with the types of JSON.
fn plain(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let what = match message.rsplit_once(" at line ") {
        Some((what, _)) => what,
        None => message.as_str(),
    };
    let is_of_type = ["invalid type", "invalid value", "invalid length"]
        .iter()
        .any(|begin| what.starts_with(begin));
    let Some((_, expected)) = what.rsplit_once(", expected ").filter(|_| is_of_type) else {
        return what.replace("unknown variant", "unknown word");
    };
    format!(
        "a value has the wrong form: expected {}",
        type_in_words(expected)
    )
}

/// A type as readers name it, in the words of JSON; other words as they are.
pub fn type_in_words(name: &str) -> &str {
    match name {
        "a string" | "string" | "str" | "a borrowed string" => "a text",
        "a boolean" | "bool" => "true or false",
        "i8" | "i16" | "i32" | "i64" | "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number",
        "f32" | "f64" => "a number",
        "map" | "a map" => "an object",
        "sequence" | "a sequence" => "a list",
        "unit" => "null",
        "option" => "a value",
        other if other.starts_with("struct ") => "an object",
        other if other.starts_with("enum ") || other.starts_with("variant ") => "a known word",
        other if other.starts_with("a nonzero ") => "a whole number other than 0",
        other if other.starts_with("tuple ") || other.starts_with("an array ") => "a list",
        other => other,
    }
}

fn quoted(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

/// Milliseconds of an hour.
const HOUR_MS: i64 = 3_600_000;

/// What an action takes.
pub trait Payload: Debug + HasSchema + Send + Sync + Sized + 'static {
    /// Reads strict JSON without insignificant white space.
    ///
    /// # Errors
    /// Returns what is wrong with it, and where.
    fn read(text: &str) -> Result<Self, PayloadError>;
}

impl<T: DeserializeOwned + Debug + HasSchema + Send + Sync + 'static> Payload for T {
    fn read(text: &str) -> Result<T, PayloadError> {
        Ok(shape::from_json(text)?)
    }
}

// The contracts answer these two even if they have the wrong shape.
impl Payload for AdmissionAttempt {
    fn read(text: &str) -> Result<AdmissionAttempt, PayloadError> {
        Ok(AdmissionAttempt::read(text))
    }
}

impl Payload for ControlAttempt {
    fn read(text: &str) -> Result<ControlAttempt, PayloadError> {
        Ok(ControlAttempt::read(text))
    }
}

crate::schema_of!(AdmissionAttempt, super::admission::BodyFields<'_>);
crate::schema_of!(ControlAttempt, super::control::ControlDecision);
crate::schema_of!(super::venue::VenueReport, super::venue::Sent);
