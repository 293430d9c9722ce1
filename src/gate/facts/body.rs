//! What the body of a call names: whom it is for, where it goes, how much. Services have bodies of their own, so members
//! are found by their names, at any depth.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::payload::{gather, members};
use super::{UNREADABLE, unknown};
use crate::rules::rule::{Fact, Value};
use crate::wire::amount::Amount;

/// Names of members that say whom a call is for, without case, `_` and `-`.
const WHOM: &[&str] = &[
    "accountnumber",
    "attendee",
    "attendees",
    "bcc",
    "beneficiary",
    "cc",
    "channel",
    "channelid",
    "channels",
    "contact",
    "contacts",
    "destination",
    "destinationaccount",
    "email",
    "emailaddress",
    "emails",
    "grantee",
    "group",
    "guest",
    "guests",
    "iban",
    "invitee",
    "invitees",
    "member",
    "members",
    "participant",
    "participants",
    "payee",
    "payees",
    "phone",
    "phonenumber",
    "receiver",
    "recipient",
    "recipientid",
    "recipients",
    "room",
    "sharedwith",
    "sharewith",
    "to",
    "toaccount",
    "user",
    "useremail",
    "userid",
    "username",
    "users",
];
/// Names of members that say where a call goes, or has its service go.
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
/// Names of members that say how much.
const AMOUNT: &[&str] = &["amount"];
const SEVERAL: &str = "the body has more than one amount";

/// Whom a body names.
pub(super) fn whom(body: &str) -> Fact<'_> {
    texts_of(body, WHOM)
}

/// Hosts and URLs that a body names.
pub(super) fn places(body: &str) -> Fact<'_> {
    texts_of(body, WHERE)
}

/// The one amount that a body names.
pub(super) fn amount(body: &str) -> Fact<'_> {
    let mut found = Vec::new();
    if named(body, AMOUNT, &mut found).is_none() {
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

fn texts_of<'a>(body: &'a str, names: &[&str]) -> Fact<'a> {
    let mut found = Vec::new();
    let mut texts: Vec<Value<'a>> = Vec::new();
    let read = named(body, names, &mut found)
        .and_then(|()| found.into_iter().try_for_each(|value| gather(value, &mut texts)));
    match read {
        None => unknown(UNREADABLE),
        Some(()) if texts.is_empty() => Fact::Absent,
        Some(()) => Fact::Many(texts),
    }
}

/// Values of the members with one of these names; what stands below one of them belongs to it.
fn named<'a>(json: &'a str, names: &[&str], found: &mut Vec<&'a str>) -> Option<()> {
    match json.bytes().next()? {
        b'{' => members(json)?.into_iter().try_for_each(|(name, value)| {
            if names.contains(&plain(&name).as_str()) {
                found.push(value.get());
                return Some(());
            }
            named(value.get(), names, found)
        }),
        b'[' => {
            let elements: Vec<&'a RawValue> = serde_json::from_str(json).ok()?;
            elements.into_iter().try_for_each(|value| named(value.get(), names, found))
        }
        _ => Some(()),
    }
}

fn plain(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '_' | '-' | ' ')).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(values: &[&str]) -> Fact<'static> {
        Fact::Many(values.iter().map(|text| Value::Text((*text).to_owned().into())).collect())
    }

    #[test]
    fn members_are_found_by_name_however_it_is_written_and_at_any_depth() {
        let body = r#"{"Recipient":"A","n":[{"user_email":"b@c.d","x":"no"},{"share-with":["e",7,null]}],"amount":"1.50"}"#;
        assert_eq!(whom(body), texts(&["A", "b@c.d", "e", "7"]));
        assert_eq!(amount(body), Fact::number(Amount::parse_exact("1.50").unwrap()));
        assert_eq!(places(body), Fact::Absent);
        assert_eq!(places(r#"{"callbackUrl":"https://x.y/z","links":[]}"#), texts(&["https://x.y/z"]));
        assert_eq!(whom(r#"{"to":{"name":"A"}}"#), texts(&["name", "A"]), "all of it is compared");
        for nothing in ["{}", "7", r#"{"text":"to"}"#, r#"{"to":null}"#, r#"{"to":[]}"#] {
            assert_eq!(whom(nothing), Fact::Absent, "{nothing}");
        }
    }

    #[test]
    fn of_two_amounts_or_of_one_that_is_no_number_nobody_says_anything() {
        for body in
            [r#"{"amount":1,"split":[{"Amount":2}]}"#, r#"{"amount":"much"}"#, r#"{"amount":{"value":1}}"#]
        {
            assert!(matches!(amount(body), Fact::Unknown(_)), "{body}");
        }
        assert_eq!(amount(r#"{"value":1}"#), Fact::Absent);
    }
}
