//! Recipients, destinations and amounts in the body of a call. Every service has its own body, so
//! members are found by their names, at any depth.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::payload::{gather, members};
use super::{UNREADABLE, unknown, whom};
use spoolgate_rules::rule::{Fact, Value};
use spoolgate_wire::amount::Amount;

/// Names of members that hold a destination of the call or of a callback.
const WHERE: &[&str] = &[
    "callback",
    "callbackurl",
    "domain",
    "host",
    "hostname",
    "href",
    "link",
    "links",
    "redirect",
    "redirecturl",
    "site",
    "uri",
    "url",
    "urls",
    "webhook",
    "webhookurl",
    "webpage",
    "website",
];
const SEVERAL: &str = "the body has more than one amount";

/// The recipients in a body: everything in members with such a name, and elsewhere every text that
/// is an address.
pub(super) fn named_whom(body: &str) -> Fact<'_> {
    let mut found = Vec::new();
    many(gather_whom(body, &mut found).map(|()| found))
}

fn gather_whom<'a>(json: &'a str, found: &mut Vec<Value<'a>>) -> Option<()> {
    match json.bytes().next()? {
        b'{' => members(json)?
            .into_iter()
            .try_for_each(|(name, value)| match value.get() {
                value if whom::is_named(&name) => gather(value, found),
                value if whom::is_sender(&name) && !value.starts_with(['{', '[']) => Some(()),
                value => gather_whom(value, found),
            }),
        b'[' => {
            let elements: Vec<&'a RawValue> = serde_json::from_str(json).ok()?;
            elements
                .into_iter()
                .try_for_each(|value| gather_whom(value.get(), found))
        }
        b'"' => {
            let text: Cow<'a, str> = serde_json::from_str(json).ok()?;
            found.extend(
                whom::addresses_in(&text)
                    .into_iter()
                    .map(|address| Value::Text(address.into())),
            );
            Some(())
        }
        _ => Some(()),
    }
}

/// Hosts and URLs in a body.
pub(super) fn places(body: &str) -> Fact<'_> {
    let mut found = Vec::new();
    let mut texts: Vec<Value<'_>> = Vec::new();
    let read = named(
        body,
        &|name| WHERE.contains(&whom::plain(name).as_str()),
        &mut found,
    )
    .and_then(|()| {
        found
            .into_iter()
            .try_for_each(|value| gather(value, &mut texts))
    });
    many(read.map(|()| texts))
}

/// The only amount in a body.
pub(super) fn amount(body: &str) -> Fact<'_> {
    let mut found = Vec::new();
    if named(body, &is_amount, &mut found).is_none() {
        return unknown(UNREADABLE);
    }
    match found.as_slice() {
        [] => Fact::Absent,
        [one] => {
            let text = serde_json::from_str::<Cow<'_, str>>(one).unwrap_or(Cow::Borrowed(one));
            Fact::number_or_unknown(Amount::parse_wire(&text).ok(), UNREADABLE)
        }
        _ => unknown(SEVERAL),
    }
}

/// `None` means that the body cannot be read.
fn many(texts: Option<Vec<Value<'_>>>) -> Fact<'_> {
    match texts {
        None => unknown(UNREADABLE),
        Some(texts) if texts.is_empty() => Fact::Absent,
        Some(texts) => Fact::Many(texts),
    }
}

/// Whether a name means an amount, like `amount`, `transferAmount` and `amount_usd`.
fn is_amount(name: &str) -> bool {
    whom::words(name).iter().any(|word| word == "amount")
}

/// Values of the members with such a name. Members below one of them are part of its value.
fn named<'a>(
    json: &'a str,
    is_meant: &dyn Fn(&str) -> bool,
    found: &mut Vec<&'a str>,
) -> Option<()> {
    match json.bytes().next()? {
        b'{' => members(json)?.into_iter().try_for_each(|(name, value)| {
            if is_meant(&name) {
                found.push(value.get());
                return Some(());
            }
            named(value.get(), is_meant, found)
        }),
        b'[' => {
            let elements: Vec<&'a RawValue> = serde_json::from_str(json).ok()?;
            elements
                .into_iter()
                .try_for_each(|value| named(value.get(), is_meant, found))
        }
        _ => Some(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(values: &[&str]) -> Fact<'static> {
        Fact::Many(
            values
                .iter()
                .map(|text| Value::Text((*text).to_owned().into()))
                .collect(),
        )
    }

    #[test]
    fn members_are_found_by_name_however_it_is_written_and_at_any_depth() {
        let body = r#"{"Recipient":"A","n":[{"user_email":"b@c.d","x":"no"},{"share-with":["e",7,null]}],"amount":"1.50"}"#;
        assert_eq!(named_whom(body), texts(&["A", "b@c.d", "e", "7"]));
        assert_eq!(
            amount(body),
            Fact::number(Amount::parse_exact("1.50").unwrap())
        );
        assert_eq!(places(body), Fact::Absent);
        assert_eq!(
            places(r#"{"callbackUrl":"https://x.y/z","links":[]}"#),
            texts(&["https://x.y/z"])
        );
        assert_eq!(
            named_whom(r#"{"to":{"name":"A"}}"#),
            texts(&["name", "A"]),
            "all of it is compared"
        );
        for nothing in [
            "{}",
            "7",
            r#"{"text":"to"}"#,
            r#"{"to":null}"#,
            r#"{"to":[]}"#,
        ] {
            assert_eq!(named_whom(nothing), Fact::Absent, "{nothing}");
        }
    }

    #[test]
    fn of_two_amounts_or_of_one_that_is_no_number_nobody_says_anything() {
        for body in [
            r#"{"amount":1,"split":[{"transferAmount":2}]}"#,
            r#"{"amount":"much"}"#,
            r#"{"amount":{"value":1}}"#,
        ] {
            assert!(matches!(amount(body), Fact::Unknown(_)), "{body}");
        }
        assert_eq!(amount(r#"{"value":1}"#), Fact::Absent);
        assert_eq!(amount(r#"{"amount_usd":1}"#), Fact::number(Amount::ONE));
    }
}
