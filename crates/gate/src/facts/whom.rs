//! The recipients of a call. Every service names them differently, so a field name is split into
//! words. A value that is an address is a recipient under any name.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use spoolgate_rules::rule::{Fact, Value};
use spoolgate_wire::host;

/// Field names that identify a recipient, in lower case and without `_` and `-`.
const WHOM: &[&str] = &[
    "accountnumber",
    "address",
    "addresses",
    "channel",
    "channelid",
    "channels",
    "contact",
    "contacts",
    "destination",
    "destinationaccount",
    "email",
    "emailaddress",
    "emailaddresses",
    "emails",
    "group",
    "groups",
    "handle",
    "handles",
    "iban",
    "ibans",
    "member",
    "members",
    "mobile",
    "owner",
    "owners",
    "phone",
    "phonenumber",
    "phonenumbers",
    "phones",
    "recipientid",
    "room",
    "sendto",
    "sharedwith",
    "sharewith",
    "telephone",
    "to",
    "toaccount",
    "user",
    "useremail",
    "useremails",
    "userid",
    "userids",
    "username",
    "usernames",
    "users",
    "wallet",
    "walletaddress",
];
/// Nouns for a recipient, wherever they occur in a field name.
const PARTIES: &[&str] = &[
    "addressee",
    "addressees",
    "assignee",
    "assignees",
    "attendee",
    "attendees",
    "bcc",
    "beneficiaries",
    "beneficiary",
    "cc",
    "collaborator",
    "collaborators",
    "delegate",
    "delegates",
    "follower",
    "followers",
    "grantee",
    "grantees",
    "guest",
    "guests",
    "invitee",
    "invitees",
    "participant",
    "participants",
    "payee",
    "payees",
    "receiver",
    "receivers",
    "recipient",
    "recipients",
    "subscriber",
    "subscribers",
];
/// Nouns that identify a recipient when they end a field name, unless the field names the sender.
const NAMING: &[&str] = &[
    "channel",
    "channels",
    "contact",
    "contacts",
    "email",
    "emails",
    "handle",
    "handles",
    "iban",
    "ibans",
    "member",
    "members",
    "owner",
    "owners",
    "phone",
    "phones",
    "user",
    "username",
    "usernames",
    "users",
    "wallet",
    "wallets",
];
/// First words of a field name that identifies a recipient if its last word is in [`LABELS`].
const TOWARDS: &[&str] = &["dest", "destination", "target", "to", "toward", "towards"];
const LABELS: &[&str] = &[
    "account",
    "accounts",
    "address",
    "addresses",
    "group",
    "id",
    "ids",
    "name",
    "names",
    "number",
    "numbers",
    "people",
    "person",
    "room",
    "team",
];
/// First words of a field name of two words whose second word is `to` or `with`.
const GIVING: &[&str] = &[
    "assign",
    "assigned",
    "bill",
    "credit",
    "deliver",
    "delivered",
    "forward",
    "forwarded",
    "grant",
    "granted",
    "invite",
    "mail",
    "pay",
    "send",
    "sent",
    "share",
    "shared",
    "ship",
    "transfer",
];
/// First words of field names that identify the sender or payer, or hold an earlier value.
const SENDERS: &[&str] = &[
    "current", "debtor", "from", "my", "old", "origin", "own", "payer", "previous", "sender",
    "source",
];
/// First words of field names that hold a number.
const MEASURES_FIRST: &[&str] = &[
    "count", "max", "maximum", "min", "minimum", "n", "num", "number", "total",
];
/// Last words of field names that describe a recipient without identifying one.
const MEASURES_LAST: &[&str] = &[
    "body",
    "comment",
    "count",
    "kind",
    "limit",
    "max",
    "message",
    "min",
    "note",
    "permission",
    "permissions",
    "policy",
    "role",
    "roles",
    "status",
    "subject",
    "text",
    "total",
    "type",
    "visibility",
];
/// Words for the caller itself, in the paths of many services.
const ONESELF: &[&str] = &["@me", "me", "self"];

/// Whether a member or parameter of this name identifies a recipient.
pub(super) fn is_named(name: &str) -> bool {
    if is(WHOM, &plain(name)) || is(PARTIES, &plain(name)) {
        return true;
    }
    let words = words(name);
    let [first, .., last] = words.as_slice() else {
        return false;
    };
    if is(SENDERS, first) || is(MEASURES_FIRST, first) || is(MEASURES_LAST, last) {
        return false;
    }
    words.iter().any(|word| is(PARTIES, word))
        || is(NAMING, last)
        || (is(TOWARDS, first) && is(LABELS, last))
        || (is(GIVING, first) && words.len() == 2 && matches!(last.as_str(), "to" | "with"))
}

/// Whether a member of this name identifies the sender or payer.
pub(super) fn is_sender(name: &str) -> bool {
    words(name).first().is_some_and(|first| is(SENDERS, first))
}

/// Returns the addresses of a text that consists only of addresses, separated by commas or
/// semicolons: mail addresses, with or without a display name, and IBANs. Empty if the text
/// contains other words.
pub(super) fn addresses_in(text: &str) -> Vec<String> {
    if !text
        .bytes()
        .any(|byte| byte == b'@' || byte.is_ascii_digit())
    {
        return Vec::new();
    }
    let parts = text
        .split([',', ';'])
        .map(str::trim)
        .filter(|part| !part.is_empty());
    parts
        .map(address)
        .collect::<Option<Vec<_>>>()
        .unwrap_or_default()
}

fn address(text: &str) -> Option<String> {
    let bare = text
        .strip_suffix('>')
        .and_then(|text| text.rsplit_once('<'))
        .map_or(text, |(_, bare)| bare);
    let bare = bare.strip_prefix("mailto:").unwrap_or(bare);
    if host::address_of(bare).is_some() {
        return Some(bare.to_owned());
    }
    // Sets hold account numbers without the spaces of their paper form.
    let compact = bare.replace(' ', "");
    is_iban(&compact).then_some(compact)
}

/// Whether a text has the form of an IBAN of ISO 13616 and correct check digits modulo 97.
fn is_iban(text: &str) -> bool {
    let upper = text.to_ascii_uppercase();
    let Some((head, account)) = upper.as_bytes().split_at_checked(4) else {
        return false;
    };
    let has_form = matches!(head, [a, b, c, d]
            if a.is_ascii_uppercase() && b.is_ascii_uppercase() && c.is_ascii_digit()
                && d.is_ascii_digit())
        && (11..=30).contains(&account.len());
    let rest = account.iter().chain(head).try_fold(0_u32, |rest, byte| {
        let value = char::from(*byte).to_digit(36)?;
        let shift = if value < 10 { 10 } else { 100 };
        Some((rest * shift + value) % 97)
    });
    has_form && rest == Some(1)
}

/// Returns the recipients that an endpoint names: the part of the path after a part whose name
/// identifies recipients, the values of parameters with such names, and every part that is an
/// address.
pub(super) fn of_endpoint(endpoint: &str) -> Fact<'static> {
    let (path, query) = endpoint.split_once('?').unwrap_or((endpoint, ""));
    let mut found = Vec::new();
    let mut is_next = false;
    for part in path
        .split(['/', ';', '='])
        .map(decoded)
        .filter(|part| !part.is_empty())
    {
        match addresses_in(&part) {
            _ if is_next && is(ONESELF, &part) => {}
            addresses if !addresses.is_empty() => found.extend(addresses),
            _ if is_next => found.push(part.clone().into_owned()),
            _ => {}
        }
        is_next = !is_next && is_named(&part);
    }
    for parameter in query.split(['&', ';']) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let (name, value) = (decoded(name), decoded(value));
        let addresses = addresses_in(&value);
        if name.split(['[', ']', '.']).any(is_named) && addresses.is_empty() {
            found.push(value.replace('+', " "));
        }
        found.extend(addresses);
    }
    found.retain(|text| !text.is_empty());
    let texts = found
        .into_iter()
        .map(|text| Value::Text(text.into()))
        .collect::<Vec<_>>();
    if texts.is_empty() {
        Fact::Absent
    } else {
        Fact::Many(texts)
    }
}

fn decoded(text: &str) -> Cow<'_, str> {
    percent_decode_str(text).decode_utf8_lossy()
}

fn is(list: &[&str], word: &str) -> bool {
    list.contains(&word)
}

/// A name in lower case, without the characters that separate its words.
pub(super) fn plain(name: &str) -> String {
    name.chars()
        .filter(|c| !matches!(c, '_' | '-' | ' '))
        .flat_map(char::to_lowercase)
        .collect()
}

/// The words of a name in `snake_case`, `kebab-case`, `camelCase` or like `recipientIBAN`, in lower
/// case.
pub(super) fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for c in name.chars() {
        let parts = matches!(c, '_' | '-' | ' ' | '.');
        if parts || (was_lower && c.is_uppercase()) {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| !parts) {
            word.extend(c.to_lowercase());
        }
        was_lower = c.is_lowercase() || c.is_ascii_digit();
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_whom_are_known_however_services_write_them() {
        for name in [
            "recipient",
            "Recipients",
            "recipient_username",
            "recipientIBAN",
            "guest_ids",
            "to",
            "to_account_number",
            "toUser",
            "target_id",
            "share-with",
            "assigned_to",
            "new_member",
            "invited_users",
            "user_email",
            "collaborator",
            "handle",
            "EMAIL",
            "notificationEmail",
            "transfer_to",
            "channel_id",
            "address",
        ] {
            assert!(is_named(name), "{name}");
        }
        for name in [
            "",
            "_",
            "body",
            "subject",
            "email_subject",
            "email_id",
            "guest_count",
            "max_users",
            "number_of_guests",
            "from_user",
            "sender_email",
            "reply_to",
            "valid_to",
            "to_date",
            "total",
            "token",
            "title",
            "room_type",
            "recipient_type",
            "file_name",
            "filename",
            "amount",
            "permission",
        ] {
            assert!(!is_named(name), "{name}");
        }
        assert!(
            is_sender("from_account")
                && is_sender("sender")
                && !is_sender("fromage")
                && !is_sender("reply_to")
        );
    }

    #[test]
    fn text_of_addresses_alone_is_found() {
        for (text, expect) in [
            ("a@b.com", vec!["a@b.com"]),
            (
                " a@b.com; Ann <C@d.org>,mailto:e@f.net ",
                vec!["a@b.com", "C@d.org", "e@f.net"],
            ),
            (
                "GB33 BUKB 2020 1555 5555 55",
                vec!["GB33BUKB20201555555555"],
            ),
            ("de89370400440532013000", vec!["de89370400440532013000"]),
            ("GB34BUKB20201555555555", vec![]),
            ("write to a@b.com", vec![]),
            ("a@b.com and more, c@d.org", vec![]),
            ("a@b", vec!["a@b"]),
            ("", vec![]),
            (",;", vec![]),
            ("GB33", vec![]),
            ("1234567890123456", vec![]),
            ("2024-05-01", vec![]),
            ("GB33BUKB2020155555555\u{e9}", vec![]),
        ] {
            assert_eq!(addresses_in(text), expect, "{text}");
        }
    }

    #[test]
    fn endpoints_name_somebody_by_collection_parameter_or_address() {
        let texts = |values: &[&str]| {
            Fact::Many(
                values
                    .iter()
                    .map(|text| Value::Text((*text).to_owned().into()))
                    .collect(),
            )
        };
        for (endpoint, expect) in [
            ("/repos/x/collaborators/mallory", texts(&["mallory"])),
            (
                "/files/7/permissions/m%40evil.example",
                texts(&["m@evil.example"]),
            ),
            ("/channels/general/members/eve", texts(&["general", "eve"])),
            ("/users/users/x", texts(&["users"])),
            (
                "/share?user=Ann+Lee&role=editor&x=a+b@c.de",
                texts(&["Ann Lee", "a+b@c.de"]),
            ),
            (
                "/share?to%5B%5D=eve&filter[user]=bob",
                texts(&["eve", "bob"]),
            ),
            (
                "/pay/GB33BUKB20201555555555",
                texts(&["GB33BUKB20201555555555"]),
            ),
            ("/pay;to=eve", texts(&["eve"])),
            ("/users/me/notes", Fact::Absent),
            ("/users", Fact::Absent),
            ("/v1/notes?tag=a&user=", Fact::Absent),
            ("/", Fact::Absent),
        ] {
            assert_eq!(of_endpoint(endpoint), expect, "{endpoint}");
        }
    }
}
