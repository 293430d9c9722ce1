//! Turns the arguments of a tool call into the payload of a request, copying the text of each
//! member.

use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::ids::RequestId;
use spoolgate_wire::json;

use super::raw::Members;

/// The additional member that holds the task behind the request.
pub(crate) const CAUSALITY: &str = "causality";

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

impl Arguments {
    /// Reads the arguments of a tool. `id_member` is the name of its id member, if it takes one;
    /// `takes_causality` says whether it takes a task.
    ///
    /// # Errors
    /// Describes what is wrong with the arguments, and where.
    pub(crate) fn read(
        text: &str,
        id_member: Option<&str>,
        takes_causality: bool,
    ) -> Result<Arguments, String> {
        let text = json::check_object(text.as_bytes()).map_err(|error| error.to_string())?;
        let text = json::minify(text);
        let members = Members::of(&text).ok_or("the arguments are not an object")?;
        let is_own = |name: &str| id_member == Some(name) || (takes_causality && name == CAUSALITY);
        let id = match id_member.and_then(|name| members.get(name).map(|_| name)) {
            Some(name) => {
                let id = members
                    .string(name)
                    .ok_or_else(|| format!("`{name}` is not a string"))?;
                Some(RequestId::parse(&id).map_err(|error| format!("`{name}`: {error}"))?)
            }
            None => None,
        };
        let causality = members
            .text(CAUSALITY)
            .filter(|_| takes_causality)
            .map(str::to_owned);
        Ok(Arguments {
            payload: members.only(|name| !is_own(name)),
            id,
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
    /// Describes what is wrong with the arguments.
    pub(crate) fn read(text: &str, actions: &[ActionName]) -> Result<Inner, String> {
        let members = Members::of(text).ok_or("the arguments are not an object")?;
        if let Some((other, _)) = members
            .0
            .iter()
            .find(|(name, _)| name != "action" && name != "payload")
        {
            let other: String = other.escape_debug().take(64).collect();
            return Err(format!(
                "there is no `{other}` here: give `action` and `payload`"
            ));
        }
        let known = || {
            actions
                .iter()
                .map(|action| action.as_str())
                .collect::<Vec<_>>()
                .join(", ")
        };
        let asked = members
            .string("action")
            .ok_or_else(|| format!("`action` is one of {}", known()))?;
        let action = actions
            .iter()
            .find(|action| asked == **action)
            .ok_or_else(|| format!("`action` is none of {}", known()))?;
        let payload = members.text("payload").unwrap_or("{}");
        if !payload.starts_with('{') {
            return Err("`payload` is not an object".to_owned());
        }
        Ok(Inner {
            action: *action,
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
        let read = Arguments::read(text, Some("request_id"), true).unwrap();
        assert_eq!(read.payload, r#"{"size":0.10000000000000000001}"#);
        assert_eq!(read.id.unwrap().as_str(), "r-1");
        assert_eq!(read.causality.unwrap(), r#"{"a":1.0}"#);
        let read = Arguments::read(text, Some("idempotency_id"), false).unwrap();
        assert!(read.payload.contains("request_id") && read.payload.contains("causality"));
        assert_eq!((read.id, read.causality), (None, None));
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
            let error = Arguments::read(text, Some("request_id"), true).unwrap_err();
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
