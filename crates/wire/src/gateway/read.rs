//! Reads the members of a payload one by one, so that every refusal names the field and what is
//! expected there, but never the value.

use std::collections::BTreeMap;

#[cfg(feature = "schema")]
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::value::RawValue;

use super::{NAME_BYTES_MAX, PEOPLE_MAX, TEXT_BYTES_MAX};
use crate::host::{is_hidden, split_address};
use crate::payload::PayloadError;
use crate::time::Time;

/// Longest key that a refusal repeats, in bytes.
const KEY_PRINTED_BYTES_MAX: usize = 64;
/// Longest mail address, in bytes.
const ADDRESS_BYTES_MAX: usize = 254;

/// Schema of a list of bare mail addresses.
#[cfg(feature = "schema")]
pub(super) fn addresses(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": PEOPLE_MAX,
        "items": {
            "type": "string",
            "minLength": 5,
            "pattern": "^[A-Za-z0-9_+][^@]*@[^@]+$",
            "description": "One bare address, at most 254 bytes.",
            "examples": ["ann@example.com"],
        },
    })
}

/// The members of a payload, all with keys that its action knows.
pub(super) struct Fields<'a>(BTreeMap<String, &'a RawValue>);

impl<'a> Fields<'a> {
    /// Reads an object whose keys are all among `known`.
    pub(super) fn read(
        payload: &'a str,
        known: &'static [&'static str],
    ) -> Result<Fields<'a>, PayloadError> {
        let members: BTreeMap<String, &'a RawValue> =
            serde_json::from_str(payload).map_err(|_| PayloadError::NotAnObject)?;
        match members.keys().find(|key| !known.contains(&key.as_str())) {
            None => Ok(Fields(members)),
            Some(key) => Err(unknown_key(key, known)),
        }
    }

    /// The member of this name.
    pub(super) fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.get(name).copied()
    }

    fn needed<T>(&self, name: &'static str, found: Option<T>) -> Result<T, PayloadError> {
        found.ok_or(PayloadError::Missing { field: name })
    }

    /// Reads a text of any length.
    pub(super) fn text(&self, name: &'static str) -> Result<String, PayloadError> {
        let found = self.text_if_any(name)?;
        self.needed(name, found)
    }

    /// As [`Fields::text`], but the member may be absent.
    pub(super) fn text_if_any(&self, name: &'static str) -> Result<Option<String>, PayloadError> {
        let wanted = || PayloadError::form(name, "must be a text");
        let read = |value: &RawValue| text_of(value).ok_or_else(wanted);
        self.get(name).map(read).transpose()
    }

    /// Reads one line of displayable text; it may be empty.
    pub(super) fn line(&self, name: &'static str) -> Result<String, PayloadError> {
        let text = self.text(name)?;
        check_line(name, &text)?;
        Ok(text)
    }

    /// Reads a name, which must not be empty or contain invisible characters.
    pub(super) fn name(&self, name: &'static str) -> Result<String, PayloadError> {
        let found = self.name_if_any(name)?;
        self.needed(name, found)
    }

    /// As [`Fields::name`], but the member may be absent.
    pub(super) fn name_if_any(&self, name: &'static str) -> Result<Option<String>, PayloadError> {
        let found = self.text_if_any(name)?;
        found.iter().try_for_each(|text| check_name(name, text))?;
        Ok(found)
    }

    /// Reads a time.
    pub(super) fn time(&self, name: &'static str) -> Result<Time, PayloadError> {
        let found = self.time_if_any(name)?;
        self.needed(name, found)
    }

    /// As [`Fields::time`], but the member may be absent.
    pub(super) fn time_if_any(&self, name: &'static str) -> Result<Option<Time>, PayloadError> {
        let Some(value) = self.get(name) else {
            return Ok(None);
        };
        let time = text_of(value).and_then(|text| Time::parse(&text).ok());
        let rule = "must be a time of the form `2026-02-20T14:42:00Z` (UTC, with `Z`)";
        let wanted = || PayloadError::form(name, rule);
        time.map(Some).ok_or_else(wanted)
    }

    /// Reads a limit from 1 to `most`, written as digits only.
    pub(super) fn limit(&self, name: &'static str, most: u32) -> Result<Option<u32>, PayloadError> {
        let Some(value) = self.get(name) else {
            return Ok(None);
        };
        let digits = value.get();
        let number = digits
            .parse::<u32>()
            .ok()
            .filter(|_| digits.bytes().all(|byte| byte.is_ascii_digit()));
        let wanted = || PayloadError::Count { field: name, most };
        number
            .filter(|number| (1..=most).contains(number))
            .map(Some)
            .ok_or_else(wanted)
    }

    /// Reads bare mail addresses. Their hosts are in the form that rules compare.
    pub(super) fn addresses(&self, name: &'static str) -> Result<Vec<String>, PayloadError> {
        let found = self.addresses_if_any(name)?;
        self.needed(name, found)
    }

    /// As [`Fields::addresses`], but the member may be absent.
    pub(super) fn addresses_if_any(
        &self,
        name: &'static str,
    ) -> Result<Option<Vec<String>>, PayloadError> {
        let Some(value) = self.get(name) else {
            return Ok(None);
        };
        let texts: Vec<String> = serde_json::from_str(value.get())
            .map_err(|_| PayloadError::form(name, "must be an array of mail addresses"))?;
        if texts.len() > PEOPLE_MAX {
            return Err(PayloadError::TooMany {
                field: name,
                found: texts.len(),
                unit: "addresses",
                most: PEOPLE_MAX,
            });
        }
        let read = |(number, text): (usize, &String)| {
            let field = name;
            bare_address(text).ok_or(PayloadError::Address { field, number })
        };
        (1..)
            .zip(&texts)
            .map(read)
            .collect::<Result<Vec<String>, PayloadError>>()
            .map(Some)
    }
}

/// Keys are the sender's own words, so the message does not repeat a key that looks like anything
/// else.
fn unknown_key(key: &str, known: &'static [&'static str]) -> PayloadError {
    let is_plain = !key.is_empty()
        && key.len() <= KEY_PRINTED_BYTES_MAX
        && key
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
    let key = is_plain.then(|| key.to_owned());
    PayloadError::UnknownKey { key, known }
}

/// The text of a string member. `None` if the member is not a string.
pub(super) fn text_of(value: &RawValue) -> Option<String> {
    serde_json::from_str(value.get()).ok()
}

/// Whether a character ends a line, is invisible, or changes the reading direction. Joiners are
/// allowed: some letters and emoji need them.
fn breaks_a_line(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

fn check_line(name: &'static str, text: &str) -> Result<(), PayloadError> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(PayloadError::TooMany {
            field: name,
            found: text.len(),
            unit: "bytes",
            most: TEXT_BYTES_MAX,
        });
    }
    if text.chars().any(breaks_a_line) {
        let rule = "must be one line without control or direction characters";
        return Err(PayloadError::form(name, rule));
    }
    Ok(())
}

fn check_name(name: &'static str, text: &str) -> Result<(), PayloadError> {
    if !(1..=NAME_BYTES_MAX).contains(&text.len()) {
        return Err(PayloadError::Length {
            field: name,
            found: text.len(),
            demand: "it must have",
            most: NAME_BYTES_MAX,
        });
    }
    let is_seen = |c: char| c == ' ' || !is_hidden(c);
    if text.trim_matches(' ') != text || !text.chars().all(is_seen) {
        let rule = "must not begin or end with a space, nor hold invisible characters";
        return Err(PayloadError::form(name, rule));
    }
    Ok(())
}

/// Returns the address with its host in the form that rules compare. `None` also if programs could
/// take it for something else: an option, a pipe, a file, or a host that is completed with a local
/// domain.
fn bare_address(text: &str) -> Option<String> {
    let (local, host) = split_address(text)?;
    let begins = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '+';
    let address = format!("{local}@{host}");
    (local.starts_with(begins) && host.contains('.') && address.len() <= ADDRESS_BYTES_MAX)
        .then_some(address)
}
