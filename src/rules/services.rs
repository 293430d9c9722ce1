//! `rules/services.yaml`: the allowlist. Empty, or absent, nothing leaves the machine.

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use super::rule::host;
use super::rulebook::RulebookError;
use super::yaml;
use crate::wire::gateway::Method;
use crate::wire::ids::{Principal, ServiceName};
use crate::wire::time::Time;

/// Path below a home.
pub const PATH: &str = "rules/services.yaml";
/// Most services.
pub const SERVICES_MAX: usize = 1000;
/// Actions that find their service by its `actions`; a call names its service itself.
pub const BY_ACTION: [&str; 8] = [
    "email.fetch",
    "email.send",
    "email.draft",
    "calendar.fetch",
    "calendar.create",
    "calendar.update",
    "finance.fetch_transactions",
    "health.fetch",
];

/// One destination that somebody allowed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// Its name.
    pub service: ServiceName,
    /// Its host: one, whole, without wildcards.
    pub host: String,
    /// Its port; absent: that of the protocol.
    #[serde(default, deserialize_with = "yaml::present", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::wire::schema::whole::<1, 65535>")]
    pub port: Option<u16>,
    /// `https`, `imap`, `caldav` and so on: for the adapter.
    #[schemars(schema_with = "crate::wire::schema::protocol")]
    pub protocol: String,
    /// Methods that calls may have; absent: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("uniqueItems" = true))]
    pub methods: Vec<Method>,
    /// Actions other than calls that go there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "by_action_schema")]
    pub actions: Vec<String>,
    /// Since when.
    pub added_at: Time,
    /// By whom.
    pub added_by: Principal,
    /// Whether it is allowed now.
    pub is_active: bool,
}

/// The file.
#[derive(Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServicesFile {
    /// The allowlist; empty, nothing leaves the machine.
    #[schemars(length(max = SERVICES_MAX))]
    services: Vec<Service>,
}

pub(crate) fn by_action_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    crate::wire::schema::words(&BY_ACTION)
}

/// The allowlist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Services {
    /// In the order of the file.
    pub services: Vec<Service>,
}

impl Services {
    /// Reads the file.
    ///
    /// # Errors
    /// [`RulebookError`]: unknown keys, wildcards, hosts that are none, names or actions that stand twice.
    pub fn read(path: &str, text: &str) -> Result<Services, RulebookError> {
        let fail = |what: String| Err(RulebookError::new(path, None, what));
        let ServicesFile { mut services } = yaml::read(path, text)?;
        if services.len() > SERVICES_MAX {
            return fail(format!("more than {SERVICES_MAX} services"));
        }
        for service in &mut services {
            service.host = folded(&service.host).map_err(|why| {
                RulebookError::new(path, None, format!("service `{}`: {why}", service.service))
            })?;
        }
        let services = Services { services };
        match services.fault() {
            Some(fault) => fail(fault),
            None => Ok(services),
        }
    }

    /// The service of this name.
    pub fn named(&self, name: &str) -> Option<&Service> {
        self.services.iter().find(|service| service.service.as_str() == name)
    }

    /// What is wrong with the entries; none: nothing.
    fn fault(&self) -> Option<String> {
        let mut names = BTreeSet::new();
        let mut goes: BTreeMap<&str, &ServiceName> = BTreeMap::new();
        let mut places: BTreeMap<(&str, Option<u16>), &ServiceName> = BTreeMap::new();
        for service in &self.services {
            let name = &service.service;
            if !names.insert(name) {
                return Some(format!("service `{name}` stands twice"));
            }
            if let Some(fault) = service.fault() {
                return Some(format!("service `{name}`: {fault}"));
            }
            if !service.is_active {
                continue;
            }
            for action in &service.actions {
                if let Some(other) = goes.insert(action, name) {
                    return Some(format!("`{action}` goes to two active services, `{other}` and `{name}`"));
                }
            }
            if let Some(other) = places.insert((&service.host, service.port), name) {
                let what = "are active with the same host and port; one entry can have the methods and actions of both";
                return Some(format!("services `{other}` and `{name}` {what}"));
            }
        }
        // A call that names it would mean either.
        self.services.iter().find_map(|service| {
            let other = self.named(&service.host).filter(|other| other.service != service.service)?;
            Some(format!(
                "the name of service `{}` is the host of service `{}`",
                other.service, service.service
            ))
        })
    }
}

impl Service {
    fn fault(&self) -> Option<String> {
        fault_of(self.port, &self.protocol, &self.methods, &self.actions)
    }

    /// Its line in the file.
    fn to_line(&self) -> String {
        let port = self.port.map(|port| format!("port: {port}, ")).unwrap_or_default();
        let methods: Vec<&str> = self.methods.iter().map(|method| method.as_str()).collect();
        // Texts in quotes: YAML would read some of them as numbers or truth values.
        format!(
            "  - {{service: \"{}\", host: \"{}\", {port}protocol: \"{}\", methods: [{}], actions: [{}], added_at: \"{}\", \
             added_by: \"{}\", is_active: {}}}\n",
            self.service,
            self.host,
            self.protocol,
            methods.join(", "),
            self.actions.join(", "),
            self.added_at,
            self.added_by,
            self.is_active
        )
    }
}

/// What is wrong with an entry besides its name and host; none: nothing.
pub fn fault_of(port: Option<u16>, protocol: &str, methods: &[Method], actions: &[String]) -> Option<String> {
    if port == Some(0) {
        return Some("`port` is 0; it is 1 to 65535, or left out".to_owned());
    }
    if !is_protocol(protocol) {
        let what = "1 to 16 of a-z, 0-9, `+`, `.` and `-`, starting with a letter, as `https`";
        return Some(format!("`protocol` is {what}"));
    }
    let mut seen = BTreeSet::new();
    if let Some(twice) = methods.iter().find(|method| !seen.insert(method.as_str())) {
        return Some(format!("method {} stands twice", twice.as_str()));
    }
    for action in actions {
        if !BY_ACTION.contains(&action.as_str()) {
            return Some(format!("`{}` is none of {}", action.escape_debug(), BY_ACTION.join(", ")));
        }
        if !seen.insert(action) {
            return Some(format!("`{action}` stands twice"));
        }
    }
    if seen.is_empty() {
        return Some("it has neither methods nor actions, so nothing could go there".to_owned());
    }
    None
}

/// One change of the file that the gate makes itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Edit {
    /// One more service, at the end.
    Added(Box<Service>),
    /// One less.
    Removed {
        /// Which.
        service: ServiceName,
    },
    /// It is allowed now, or no longer.
    Allowed {
        /// Which.
        service: ServiceName,
        /// Whether it is.
        is_active: bool,
    },
}

impl Edit {
    /// The service that it is about.
    pub fn service(&self) -> &ServiceName {
        match self {
            Edit::Added(service) => &service.service,
            Edit::Removed { service } | Edit::Allowed { service, .. } => service,
        }
    }
}

impl fmt::Display for Edit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let action = match self {
            Edit::Added(_) => "services.add",
            Edit::Removed { .. } => "services.remove",
            Edit::Allowed { is_active: true, .. } => "services.activate",
            Edit::Allowed { is_active: false, .. } => "services.deactivate",
        };
        write!(f, "{action} of `{}`", self.service())
    }
}

/// The file after a change, from what it was and holds: its first comments stay, each entry has one line.
///
/// # Errors
/// [`RulebookError`]: comments among the entries would be lost, or the file would not be good.
pub fn edited(text: Option<&str>, services: &Services, edit: &Edit) -> Result<String, RulebookError> {
    let text = text.unwrap_or_default();
    let is_head = |line: &&str| line.trim().is_empty() || line.starts_with('#');
    let head: Vec<&str> = text.lines().take_while(is_head).collect();
    let has_comment =
        |line: &str| line.trim_start().starts_with('#') || line.contains(" #") || line.contains("\t#");
    if let Some(index) = text.lines().skip(head.len()).position(has_comment) {
        let line = index.saturating_add(head.len()).saturating_add(1);
        let what =
            "a comment among the entries would be lost; move it above `services:`, or edit the file by hand";
        return Err(RulebookError::new(PATH, Some(line), what));
    }
    let mut after = services.clone();
    match edit {
        Edit::Added(service) => after.services.push(service.as_ref().clone()),
        Edit::Removed { service } => after.services.retain(|other| other.service != *service),
        Edit::Allowed { service, is_active } => {
            let of = after.services.iter_mut().filter(|other| other.service == *service);
            of.for_each(|other| other.is_active = *is_active);
        }
    }
    let mut made: String = head.iter().map(|line| format!("{line}\n")).collect();
    if after.services.is_empty() {
        made.push_str("services: []\n");
    } else {
        made.push_str("services:\n");
        after.services.iter().for_each(|service| made.push_str(&service.to_line()));
    }
    if Services::read(PATH, &made)? != after {
        return Err(RulebookError::new(PATH, None, "the changed file does not say what it should"));
    }
    Ok(made)
}

fn is_protocol(text: &str) -> bool {
    let is_in =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'+' | b'.' | b'-');
    text.len() <= 16 && text.starts_with(|c: char| c.is_ascii_lowercase()) && text.bytes().all(is_in)
}

/// The host of an entry as hosts are compared: lower case, IDNA, without a dot at its end.
///
/// # Errors
/// Why it is not one whole host, in words.
pub fn folded(host: &str) -> Result<String, String> {
    let shown = host.escape_debug();
    if host.contains('*') || host.starts_with('.') {
        return Err(format!("`{shown}` is a wildcard; there are none: each host is an entry of its own"));
    }
    let is_address = host.starts_with('[');
    if !is_address && host.contains(['/', '\\', '@', ':', '?', '#']) {
        let what = "a host alone, without scheme, user, port or path; `port` is a key of its own";
        return Err(format!("`{shown}` is not {what}; an IPv6 address stands in brackets"));
    }
    let name = host::name_of(host).ok_or_else(|| format!("`{shown}` is not one whole host name"))?;
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = bare.parse::<IpAddr>() {
        if *name != *host {
            return Err(format!("`{shown}` is the address {name} in another form; write it so"));
        }
        if address.is_unspecified() || address.is_multicast() || bare == "255.255.255.255" {
            return Err(format!("`{shown}` is the address of no single host"));
        }
    }
    Ok(name.into_owned())
}
