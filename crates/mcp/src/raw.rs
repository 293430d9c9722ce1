//! JSON as text: the members of an object exactly as they were written, so that no number is ever
//! read into a binary float.

use std::fmt;

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// The members of an object, in their order. Reading an object with a repeated name is an error.
pub(crate) struct Members<'a>(pub Vec<(String, &'a RawValue)>);

impl<'a> Members<'a> {
    /// Reads the text of an object; `None` for anything else.
    pub(crate) fn of(text: &'a str) -> Option<Members<'a>> {
        serde_json::from_str(text).ok()
    }

    /// Returns the value of a member.
    pub(crate) fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0
            .iter()
            .find(|(own, _)| own == name)
            .map(|(_, value)| *value)
    }

    /// Returns the JSON text of a member.
    pub(crate) fn text(&self, name: &str) -> Option<&'a str> {
        self.get(name).map(RawValue::get)
    }

    /// Returns a member that is a string.
    pub(crate) fn string(&self, name: &str) -> Option<String> {
        serde_json::from_str(self.text(name)?).ok()
    }

    /// Writes an object of the members whose names `keep` accepts.
    pub(crate) fn only(&self, keep: impl Fn(&str) -> bool) -> String {
        object(
            self.0
                .iter()
                .filter(|(name, _)| keep(name))
                .map(|(name, value)| (name, value.get())),
        )
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Members<'a>, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members: Vec<(String, &'de RawValue)> = Vec::new();
                let mut seen = std::collections::BTreeSet::new();
                while let Some((name, value)) = map.next_entry::<String, &'de RawValue>()? {
                    if !seen.insert(name.clone()) {
                        return Err(A::Error::custom("a name appears twice"));
                    }
                    members.push((name, value));
                }
                Ok(members)
            }
        }

        deserializer.deserialize_map(Object).map(Members)
    }
}

/// Writes a string as JSON.
pub(crate) fn quoted(text: &str) -> String {
    // Serializing a string cannot fail.
    serde_json::to_string(text).unwrap_or_default()
}

/// Writes an object of members whose values are already JSON.
pub(crate) fn object<N: AsRef<str>, V: AsRef<str>>(
    members: impl IntoIterator<Item = (N, V)>,
) -> String {
    let inside: Vec<String> = members
        .into_iter()
        .map(|(name, value)| format!("{}:{}", quoted(name.as_ref()), value.as_ref()))
        .collect();
    format!("{{{}}}", inside.join(","))
}

/// Writes an array of values that are already JSON.
pub(crate) fn array<V: AsRef<str>>(values: impl IntoIterator<Item = V>) -> String {
    let inside: Vec<String> = values
        .into_iter()
        .map(|value| value.as_ref().to_owned())
        .collect();
    format!("[{}]", inside.join(","))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_text() {
        let text = r#"{"a":0.10000000000000000001,"b":{"c":1e400},"d":"x"}"#;
        let members = Members::of(text).unwrap();
        assert_eq!(members.only(|_| true), text);
        assert_eq!(
            members.only(|name| name == "a"),
            r#"{"a":0.10000000000000000001}"#
        );
        assert_eq!(members.string("d").unwrap(), "x");
        assert!(Members::of(r#"{"a":1,"\u0061":2}"#).is_none());
        assert!(Members::of("[1]").is_none());
    }
}
