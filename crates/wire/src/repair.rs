//! What a refusal adds to `data` for programs: whether to try again, and what to repair first.

use std::collections::BTreeMap;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::code::Retry;
use super::json::Members;

/// Largest number of faults in one answer.
pub const FAULTS_MAX: usize = 32;

/// A position in a file, as an editor shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// Line, from 1.
    pub line: u64,
    /// Column in characters, from 1.
    pub column: u64,
}

/// One thing that is wrong with a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// JSON pointer to the value within the request, such as `/payload/size`. A missing member is
    /// named by the pointer that it would have.
    pub pointer: String,
    /// Where the value is in the sender's file. Of a missing member, where its parent is. Absent if
    /// that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Place>,
    /// What is there; only the kind of value if the action has sealed members.
    pub got: String,
    /// What is expected there.
    pub expected: String,
    /// A value that would be accepted there. Absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub example: Option<Value>,
}

/// Whether and how to try again: members of `data` in every refusal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Repair {
    /// Whether and how to try again.
    pub retry: Retry,
    /// How long to wait first, milliseconds. Absent if there is no need to, or if that is not
    /// known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// What is wrong with the request, in the order of its members. At most 32 faults.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub faults: Vec<Fault>,
    /// How many faults there are besides those. Absent if there are none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub faults_more: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Repair {
    /// Advice without a time and without faults.
    pub fn of(retry: Retry) -> Repair {
        Repair {
            retry,
            retry_after_ms: None,
            faults: Vec::new(),
            faults_more: 0,
        }
    }

    /// Adds these members to the `data` of an answer. A body that is not an object, or that has a
    /// member `retry` of its own, as an adapter may write it, stays as it is.
    ///
    /// ```
    /// use spoolgate_wire::code::Retry;
    /// use spoolgate_wire::repair::Repair;
    ///
    /// let alone = Repair::of(Retry::NewId).added_to(None)?;
    /// assert_eq!(alone.get(), r#"{"retry":"new_id"}"#);
    /// let body = serde_json::value::RawValue::from_string(r#"{"a":0.10}"#.to_owned())?;
    /// let both = Repair::of(Retry::Never).added_to(Some(body))?;
    /// assert_eq!(both.get(), r#"{"a":0.10,"retry":"never"}"#);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the serialiser's error.
    pub fn added_to(&self, data: Option<Box<RawValue>>) -> serde_json::Result<Box<RawValue>> {
        let own = to_raw_value(self)?;
        let Some(data) = data else {
            return Ok(own);
        };
        let text = data.get().trim_ascii();
        let open = text
            .strip_prefix('{')
            .and_then(|text| text.strip_suffix('}'));
        let names: BTreeMap<String, IgnoredAny> = serde_json::from_str(text).unwrap_or_default();
        let has_own = names.contains_key("retry");
        let (Some(members), Some(added), false) = (open, own.get().strip_prefix('{'), has_own)
        else {
            return Ok(data);
        };
        let comma = if members.trim_ascii().is_empty() {
            ""
        } else {
            ","
        };
        RawValue::from_string(format!("{{{members}{comma}{added}"))
    }
}

/// Names of the members that a [`Repair`] adds to `data`.
pub const MEMBERS: [&str; 4] = ["retry", "retry_after_ms", "faults", "faults_more"];

/// Returns the `data` of an answer without the members that say how to try again, as the body of a
/// contract is read. What is not an object stays as it is.
///
/// # Errors
/// Returns the serialiser's error.
pub fn own_members(data: &RawValue) -> serde_json::Result<Box<RawValue>> {
    let Ok(Members(members)) = serde_json::from_str(data.get()) else {
        return Ok(data.to_owned());
    };
    let mut own = Vec::new();
    for (name, value) in members {
        if !MEMBERS.contains(&name.as_str()) {
            own.push(format!("{}:{}", serde_json::to_string(&name)?, value.get()));
        }
    }
    RawValue::from_string(format!("{{{}}}", own.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_that_has_no_room_for_the_members_stays_as_it_is() {
        let repair = Repair::of(Retry::NewId);
        for (body, expect) in [
            ("{}", r#"{"retry":"new_id"}"#),
            (" { \"a\" : 1 } ", r#"{ "a" : 1 ,"retry":"new_id"}"#),
            ("[1]", "[1]"),
            ("null", "null"),
            (r#"{"retry":5}"#, r#"{"retry":5}"#),
            (r#"{"retry":null}"#, r#"{"retry":null}"#),
        ] {
            let body = serde_json::from_str::<Box<RawValue>>(body).unwrap();
            let made = repair.added_to(Some(body)).unwrap();
            assert_eq!(made.get(), expect);
        }
    }

    #[test]
    fn what_was_added_is_taken_away_again() {
        let place = Place { line: 1, column: 2 };
        let fault = Fault {
            pointer: "/payload".to_owned(),
            at: Some(place),
            got: "null".to_owned(),
            expected: "an object".to_owned(),
            example: None,
        };
        let whole = Repair {
            retry: Retry::SameId,
            retry_after_ms: Some(1),
            faults: vec![fault],
            faults_more: 1,
        };
        for body in [r#"{}"#, r#"{"a":0.10,"b\n":[1]}"#] {
            let body = RawValue::from_string(body.to_owned()).unwrap();
            let made = whole.added_to(Some(body.clone())).unwrap();
            assert!(
                MEMBERS
                    .iter()
                    .all(|name| made.get().contains(&format!("\"{name}\":")))
            );
            assert_eq!(own_members(&made).unwrap().get(), body.get());
        }
        let list = RawValue::from_string("[1]".to_owned()).unwrap();
        assert_eq!(own_members(&list).unwrap().get(), "[1]");
    }
}
