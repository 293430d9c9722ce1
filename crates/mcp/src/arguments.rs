//! Turns the arguments of a tool call into the payload of a request, copying the text of each
//! member.

use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::ids::{NameError, RequestId};
use spoolgate_wire::json::{self, JsonError};

use super::raw::{Members, object};

/// The member that some clients wrap all arguments in.
const PAYLOAD: &str = "payload";
/// The additional member that holds the task behind the request.
pub(crate) const CAUSALITY: &str = "causality";

/// Why the arguments of a call are invalid.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ArgumentsError {
    /// The text is not strict JSON.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// The arguments are not an object.
    #[error("they are not an object")]
    NotAnObject,
    /// A member is both in the payload and beside it.
    #[error("a member is both in `payload` and beside it")]
    Wrapped,
    /// A member is not a string.
    #[error("`{0}` is not a string")]
    NotAString(String),
    /// A member is not a request id.
    #[error("`{name}`: {source}")]
    Id {
        /// The member.
        name: String,
        /// Why it is not one.
        source: NameError,
    },
    /// The tool does not know a member.
    #[error("`{unknown}` is not a member of these arguments, which are {known}")]
    Unknown {
        /// The member, escaped and cut.
        unknown: String,
        /// The members that the tool knows.
        known: &'static str,
    },
    /// The action is missing or is not one of those that the tool takes.
    #[error("`action` must be one of {}", names(.0))]
    Action(Vec<ActionName>),
    /// The payload is not an object.
    #[error("`payload` is not an object")]
    Payload,
}

fn names(actions: &[ActionName]) -> String {
    let names: Vec<&str> = actions.iter().map(|action| action.as_str()).collect();
    names.join(", ")
}

/// Reads a member that is a request id, if it is there.
fn id_of(members: &Members<'_>, name: &str) -> Result<Option<RequestId>, ArgumentsError> {
    if members.get(name).is_none() {
        return Ok(None);
    }
    let name = || name.to_owned();
    let id = members
        .string(&name())
        .ok_or_else(|| ArgumentsError::NotAString(name()))?;
    let id = RequestId::parse(&id);
    id.map(Some).map_err(|source| ArgumentsError::Id {
        name: name(),
        source,
    })
}

/// Reads `{"request_id"}`.
///
/// # Errors
/// Returns [`ArgumentsError`] if the arguments are anything else.
pub(crate) fn request_id(text: &str) -> Result<RequestId, ArgumentsError> {
    const NAME: &str = "request_id";
    let members = Members::of(text).ok_or(ArgumentsError::NotAnObject)?;
    members.only_these(&[NAME], "`request_id`")?;
    id_of(&members, NAME)?.ok_or_else(|| ArgumentsError::NotAString(NAME.to_owned()))
}

/// Reads `{"action"}`, an action that rules apply to.
///
/// # Errors
/// Returns [`ArgumentsError`] if the arguments are anything else.
pub(crate) fn ruled(text: &str) -> Result<ActionName, ArgumentsError> {
    let members = Members::of(text).ok_or(ArgumentsError::NotAnObject)?;
    members.only_these(&["action"], "`action`")?;
    one_of(&members, &ActionName::RULED)
}

/// Reads `action`, one of `actions`.
fn one_of(members: &Members<'_>, actions: &[ActionName]) -> Result<ActionName, ArgumentsError> {
    let asked = members.string("action");
    let action = asked.and_then(|asked| actions.iter().find(|action| asked == **action));
    action
        .copied()
        .ok_or_else(|| ArgumentsError::Action(actions.to_vec()))
}

/// Returns the text of arguments whose payload is wrapped as `{"payload": {...}}`, with the payload's
/// members in its place; `None` if they are not wrapped. Members of the call itself stay beside it.
fn unwrapped(members: &Members<'_>, is_own: impl Fn(&str) -> bool) -> Option<String> {
    let mut payload = members.0.iter().filter(|(name, _)| !is_own(name));
    let (Some((name, value)), None) = (payload.next(), payload.next()) else {
        return None;
    };
    let inner = Members::of(value.get()).filter(|_| name == PAYLOAD)?;
    let own = members.0.iter().filter(|(name, _)| is_own(name));
    let all = own.chain(&inner.0);
    Some(object(all.map(|(name, value)| (name, value.get()))))
}

/// The arguments of a call, with the members that are not payload separated.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Arguments {
    /// JSON text of the payload.
    pub payload: String,
    /// The id to send the request under, if the call names one.
    pub id: Option<RequestId>,
    /// JSON text of the task behind the request, if the call names one.
    pub causality: Option<String>,
}

impl Members<'_> {
    /// Refuses members that are not in `names`, which `known` lists for the message.
    fn only_these(&self, names: &[&str], known: &'static str) -> Result<(), ArgumentsError> {
        let unknown = self
            .0
            .iter()
            .find(|(name, _)| !names.contains(&name.as_str()));
        unknown.map_or(Ok(()), |(name, _)| {
            let unknown = name.escape_debug().take(64).collect();
            Err(ArgumentsError::Unknown { unknown, known })
        })
    }
}

impl Arguments {
    /// Reads the arguments of a tool, which may be wrapped in `payload` unless the tool has a member
    /// of that name. `id_member` is the name of its id member, if it changes something; only then
    /// it takes a task.
    ///
    /// # Errors
    /// Returns [`ArgumentsError`] with what is wrong, and where.
    pub(crate) fn read(
        text: &str,
        id_member: Option<&str>,
        has_payload: bool,
    ) -> Result<Arguments, ArgumentsError> {
        let text = json::check_object(text.as_bytes())?;
        let text = json::minify(text);
        let takes_causality = id_member.is_some();
        let is_own = |name: &str| id_member == Some(name) || (takes_causality && name == CAUSALITY);
        let members = Members::of(&text).ok_or(ArgumentsError::NotAnObject)?;
        let wrapped = Some(&members).filter(|_| !has_payload);
        let inner = wrapped.and_then(|members| unwrapped(members, is_own));
        let members = match &inner {
            Some(text) => Members::of(text).ok_or(ArgumentsError::Wrapped)?,
            None => members,
        };
        let id = id_member.map(|name| id_of(&members, name)).transpose()?;
        let causality = members
            .text(CAUSALITY)
            .filter(|_| takes_causality)
            .map(str::to_owned);
        Ok(Arguments {
            payload: members.only(|name| !is_own(name)),
            id: id.flatten(),
            causality,
        })
    }
}

/// The arguments of `submit_action` and `check`: an action and its payload.
pub(crate) struct Inner {
    /// The action.
    pub action: ActionName,
    /// The text of its payload.
    pub payload: String,
}

impl Inner {
    /// Reads `{"action", "payload"}`, where the action is one of `actions`.
    ///
    /// # Errors
    /// Returns [`ArgumentsError`] with what is wrong.
    pub(crate) fn read(text: &str, actions: &[ActionName]) -> Result<Inner, ArgumentsError> {
        let members = Members::of(text).ok_or(ArgumentsError::NotAnObject)?;
        members.only_these(&["action", "payload"], "`action` and `payload`")?;
        let action = one_of(&members, actions)?;
        let payload = members.text("payload").unwrap_or("{}");
        if !payload.starts_with('{') {
            return Err(ArgumentsError::Payload);
        }
        Ok(Inner {
            action,
            payload: payload.to_owned(),
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_no_payload_is_taken_out() {
        let text =
            r#"{ "size" : 0.10000000000000000001 , "request_id":"r-1", "causality": {"a" : 1.0} }"#;
        let read = Arguments::read(text, Some("request_id"), false).unwrap();
        assert_eq!(read.payload, r#"{"size":0.10000000000000000001}"#);
        assert_eq!(read.id.unwrap().as_str(), "r-1");
        assert_eq!(read.causality.unwrap(), r#"{"a":1.0}"#);
        let read = Arguments::read(text, Some("idempotency_id"), false).unwrap();
        assert!(read.payload.contains("request_id"));
        assert_eq!((read.id, read.causality.is_some()), (None, true));
        let read = Arguments::read(text, None, false).unwrap();
        assert!(read.payload.contains("request_id") && read.payload.contains("causality"));
        assert_eq!((read.id, read.causality), (None, None));
    }

    #[test]
    fn wrapped_arguments_are_the_payload() {
        let read = |text, has_payload| Arguments::read(text, Some("request_id"), has_payload);
        for text in [
            r#"{"payload":{"size":0.10,"request_id":"r-1"}}"#,
            r#"{"request_id":"r-1","payload":{"size":0.10}}"#,
        ] {
            let read = read(text, false).unwrap();
            assert_eq!(read.payload, r#"{"size":0.10}"#);
            assert_eq!(read.id.unwrap().as_str(), "r-1");
        }
        let text = r#"{"request_id":"r-1","payload":{"request_id":"r-2"}}"#;
        assert!(matches!(read(text, false), Err(ArgumentsError::Wrapped)));
        // Such a member is not a wrapper beside others, if it is no object, or if the tool has one.
        for (text, has_payload) in [
            (r#"{"payload":{"a":1},"size":1}"#, false),
            (r#"{"payload":7}"#, false),
            (r#"{"payload":{"a":1}}"#, true),
        ] {
            assert_eq!(read(text, has_payload).unwrap().payload, text);
        }
    }

    #[test]
    fn hostile_arguments_are_refused_by_name() {
        let deep = format!(r#"{{"a":{}{}}}"#, "[".repeat(50_000), "]".repeat(50_000));
        for (text, expect) in [
            ("[]", "not an object"),
            (deep.as_str(), "more than 64 nested containers"),
            (r#"{"a":1,"\u0061":2}"#, "duplicate key `a`"),
            ("{\"a\":\"\u{1}\"}", "control character"),
            (r#"{"a":NaN}"#, "unknown literal"),
            (r#"{"request_id":1}"#, "`request_id` is not a string"),
            (
                r#"{"request_id":"../x"}"#,
                "`request_id`: `../x` is not a request id",
            ),
        ] {
            let error = Arguments::read(text, Some("request_id"), false)
                .unwrap_err()
                .to_string();
            assert!(error.contains(expect), "{expect}: {error}");
        }
    }

    #[test]
    fn only_listed_actions_are_read() {
        let read = |text| {
            Inner::read(text, &[ActionName::EmailSend]).map(|inner| (inner.action, inner.payload))
        };
        assert_eq!(
            read(r#"{"action":"email.send","payload":{"n":1.0}}"#).unwrap(),
            (ActionName::EmailSend, r#"{"n":1.0}"#.to_owned())
        );
        for text in [
            r#"{"action":"halt.clear","payload":{}}"#,
            r#"{"payload":{}}"#,
            r#"{"action":"email.send","payload":[]}"#,
            r#"{"action":"email.send","override":true}"#,
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
