//! Finds what the user of an environment established: the recipients of their mail and payments,
//! and the entries of their own lists. What merely arrived (mail, files, pages, reviews,
//! invitations, money received) establishes nothing, because attacks come from there. The procedure
//! is described in examples/assistant/README.md; it knows names of members and no values.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use spoolgate_rules::rule::host;

/// Values, each with the reason why it counts.
pub(crate) type Found = BTreeMap<String, &'static str>;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Established {
    /// Mail addresses.
    pub contacts: Found,
    /// Accounts that were paid.
    pub payees: Found,
    /// Names of people and channels.
    pub names: Found,
    /// Hosts that belong to the user.
    pub hosts: Found,
    /// Hosts of pages that the environment lists; they are not trusted.
    pub seen: Found,
}

/// Who the user is.
#[derive(Debug, Default)]
struct Own {
    /// Addresses and accounts, lower case, and `me`.
    names: BTreeSet<String>,
    /// Hosts of the user's own addresses, except mail providers.
    domains: BTreeSet<String>,
}

/// Members that contain the user, or an account of the user.
const SELF: &[&str] = &[
    "user",
    "useraccount",
    "profile",
    "owner",
    "me",
    "account",
    "bankaccount",
    "userinfo",
    "userprofile",
];
/// Members with a list that only the user, or the administrator of the user's workspace, writes.
const BOOKS: &[&str] = &[
    "contacts",
    "contactlist",
    "addressbook",
    "friends",
    "users",
    "members",
    "team",
    "colleagues",
    "payees",
    "beneficiaries",
    "channels",
    "userchannels",
];
const SENDER: &[&str] = &["sender", "from", "payer"];
const RECIPIENTS: &[&str] = &["recipient", "recipients", "to", "cc", "bcc", "payee"];
const ADDRESSES: &[&str] = &["email", "emails", "address", "mail", "emailaddress"];
const NAMES: &[&str] = &["name", "username", "handle", "displayname"];
const ACCOUNTS: &[&str] = &["iban", "account", "accountnumber", "bankaccountnumber"];
const PEOPLE: &[&str] = &[
    "participants",
    "attendees",
    "sender",
    "from",
    "owner",
    "organizer",
];
const MAKERS: &[&str] = &["organizer", "creator", "createdby", "owner"];
/// Mail providers, whose addresses have nothing to do with each other.
const PROVIDERS: &[&str] = &[
    "aol.com",
    "gmail.com",
    "gmx.de",
    "gmx.net",
    "google.com",
    "googlemail.com",
    "hotmail.com",
    "icloud.com",
    "live.com",
    "mail.com",
    "me.com",
    "outlook.com",
    "proton.me",
    "protonmail.com",
    "yahoo.com",
    "yandex.com",
    "zoho.com",
];
/// Folders of mail that others filled.
const ARRIVED: &[&str] = &["received", "spam", "junk", "trash"];
/// Depth of the user's own lists and accounts: deeper values belong to an entry and came with it.
const OWN_DEPTH_MAX: usize = 3;
/// Longest name of a person or channel, characters.
const NAME_CHARS_MAX: usize = 64;

/// Reads an environment.
pub(crate) fn established(env: &Value) -> Established {
    let mut own = Own::default();
    own.names.insert("me".to_owned());
    find_own(env, "", 0, &mut own);
    let mut found = Established::default();
    for name in own.names.iter().filter(|name| name.as_str() != "me") {
        found.take(name, "the user's own");
    }
    for domain in &own.domains {
        found
            .hosts
            .insert(domain.clone(), "domain of the user's own address");
    }
    walk(env, &own, 0, &mut found);
    found
}

fn plain(name: &str) -> String {
    name.chars()
        .filter(|c| !matches!(c, '_' | '-' | ' '))
        .flat_map(char::to_lowercase)
        .collect()
}

/// Returns a text, the texts of an array, or the names of a map.
fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(values) => values.iter().filter_map(Value::as_str).collect(),
        Value::Object(members) => members.keys().map(String::as_str).collect(),
        _ => Vec::new(),
    }
}

fn of<'a>(members: &'a Map<String, Value>, names: &[&str]) -> Vec<&'a str> {
    let named = members
        .iter()
        .filter(|(name, _)| names.contains(&plain(name).as_str()));
    named.flat_map(|(_, value)| texts(value)).collect()
}

/// Returns the account if the text is nothing else: an IBAN, or a text in the form of one.
fn account(text: &str) -> Option<&str> {
    let is_account = (11..=34).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && text.bytes().take(2).all(|byte| byte.is_ascii_alphabetic())
        && text
            .bytes()
            .skip(2)
            .take(2)
            .all(|byte| byte.is_ascii_digit());
    is_account.then_some(text)
}

/// An account in an array belongs to an entry of a list.
fn find_own(value: &Value, key: &str, depth: usize, own: &mut Own) {
    let Value::Object(members) = value else {
        return;
    };
    if depth >= OWN_DEPTH_MAX {
        return;
    }
    let mine = if SELF.contains(&plain(key).as_str()) {
        [of(members, ADDRESSES), of(members, ACCOUNTS)].concat()
    } else {
        Vec::new()
    };
    for text in mine.into_iter().chain(of(members, &["accountemail"])) {
        let address = host::address_of(text);
        if let Some((_, domain)) = address
            .as_deref()
            .and_then(|address| address.split_once('@'))
            && !PROVIDERS.contains(&domain)
        {
            own.domains.insert(domain.to_owned());
        }
        if address.is_some() || text.bytes().any(|byte| byte.is_ascii_digit()) {
            own.names.insert(text.to_lowercase());
        }
    }
    members
        .iter()
        .for_each(|(name, value)| find_own(value, name, depth.saturating_add(1), own));
}

impl Established {
    /// Adds a text that is a single value to its collection; running text is ignored.
    fn take(&mut self, text: &str, why: &'static str) {
        if let Some(address) = host::address_of(text) {
            self.contacts.entry(address).or_insert(why);
        } else if let Some(account) = account(text) {
            self.payees.entry(account.to_lowercase()).or_insert(why);
        } else {
            self.name(text, why);
        }
    }

    fn name(&mut self, text: &str, why: &'static str) {
        let is_name = (1..=NAME_CHARS_MAX).contains(&text.chars().count())
            && !text.contains(['\n', '/', '@', ':'])
            && text.chars().any(char::is_alphabetic)
            && text.split_whitespace().count() <= 4;
        if is_name {
            self.names.entry(text.to_lowercase()).or_insert(why);
        }
    }

    /// Takes the entries of one of the user's own lists.
    fn book(&mut self, value: &Value, why: &'static str) {
        match value {
            Value::String(text) => self.take(text, why),
            Value::Array(values) => values.iter().for_each(|value| self.book(value, why)),
            Value::Object(members) => {
                let entry = [
                    of(members, NAMES),
                    of(members, ADDRESSES),
                    of(members, ACCOUNTS),
                ]
                .concat();
                if entry.is_empty() {
                    // A map from people to their values: channels of users, users of channels.
                    for (name, value) in members {
                        self.take(name, why);
                        self.book(value, why);
                    }
                }
                entry.into_iter().for_each(|text| self.take(text, why));
            }
            _ => {}
        }
    }
}

fn walk(value: &Value, own: &Own, depth: usize, found: &mut Established) {
    match value {
        Value::Array(values) => values
            .iter()
            .for_each(|value| walk(value, own, OWN_DEPTH_MAX, found)),
        Value::Object(members) => {
            object(members, own, found);
            for (name, value) in members {
                let name = plain(name);
                if depth < OWN_DEPTH_MAX && BOOKS.contains(&name.as_str()) {
                    found.book(value, "in a list of the user's own");
                } else if !ARRIVED.contains(&name.as_str()) {
                    walk(value, own, depth.saturating_add(1), found);
                }
            }
        }
        _ => {}
    }
}

fn object(members: &Map<String, Value>, own: &Own, found: &mut Established) {
    let is_own = |text: &&str| own.names.contains(&text.to_lowercase());
    let sent = of(members, SENDER).iter().any(is_own);
    let status = of(members, &["status"]);
    if sent
        && !status
            .iter()
            .any(|status| matches!(*status, "draft" | "received"))
    {
        let why = if members.contains_key("amount") {
            "paid by the user"
        } else {
            "written to by the user"
        };
        of(members, RECIPIENTS)
            .into_iter()
            .filter(|text| !is_own(text))
            .for_each(|text| found.take(text, why));
    }
    if of(members, MAKERS).iter().any(is_own) {
        for text in of(members, &["participants", "attendees", "sharedwith"]) {
            found.take(text, "invited or shared with by the user");
        }
    }
    // Strangers cannot create a colleague's address, wherever it occurs; only members that contain
    // nothing but addresses are read.
    for text in of(members, PEOPLE)
        .into_iter()
        .chain(of(members, RECIPIENTS))
    {
        let address = host::address_of(text);
        let domain = address
            .as_deref()
            .and_then(|address| address.split_once('@'));
        if domain.is_some_and(|(_, domain)| own.domains.contains(domain)) {
            found.take(text, "at the domain of the user's own address");
        }
    }
    for name in members.keys().filter(|name| name.contains('.')) {
        let is_page =
            name.contains("://") || name.starts_with("www.") || !name.contains(['@', ' ']);
        let host = host::host_of(name).filter(|host| is_page && is_host(host) && !is_file(name));
        if let Some(host) = host {
            found
                .seen
                .entry(host.into_owned())
                .or_insert("a page that the environment lists");
        }
    }
}

fn is_host(host: &str) -> bool {
    let last = host.rsplit('.').next().unwrap_or_default();
    last.len() >= 2 && last.bytes().all(|byte| byte.is_ascii_alphabetic())
}

/// A name without a scheme and without `www.` may be a file name.
fn is_file(name: &str) -> bool {
    let ending = name.rsplit('.').next().unwrap_or_default();
    let kinds = [
        "txt", "pdf", "docx", "doc", "xlsx", "csv", "md", "json", "html", "png", "jpg", "zip",
        "pptx",
    ];
    !name.contains("://") && !name.starts_with("www.") && kinds.contains(&ending)
}
