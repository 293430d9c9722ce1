//! `rules/services.yaml`: the allowlist of services. If it is empty or absent, nothing
//! leaves the machine.

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use super::gateway;
use super::rule::host;
use super::rulebook::RulebookError;
use super::yaml;
use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::gateway::Method;
use spoolgate_wire::ids::{Principal, ServiceName};
use spoolgate_wire::time::Time;

/// Path below a home.
pub const PATH: &str = "rules/services.yaml";
/// Most services on the allowlist.
pub const SERVICES_MAX: usize = 1000;
/// Actions that reach the service that lists them in `actions`. `service.api_call` names its
/// service itself.
pub const BY_ACTION: &[&str] = match &gateway::ACTIONS {
    [by_action @ .., _call] => by_action,
};

/// One destination on the allowlist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// Its name.
    pub service: ServiceName,
    /// Its host: one full name or address, without wildcards.
    pub host: String,
    /// Its port; if absent, the protocol's port.
    #[serde(
        default,
        deserialize_with = "yaml::present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "spoolgate_wire::schema::whole::<1, 65535>")]
    pub port: Option<u16>,
    /// `https`, `imap`, `caldav` and so on, for the adapter.
    #[schemars(schema_with = "spoolgate_wire::schema::protocol")]
    pub protocol: String,
    /// Methods that calls may use; if absent, calls are not allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("uniqueItems" = true))]
    pub methods: Vec<Method>,
    /// Actions other than calls that use this service.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "by_action_schema")]
    pub actions: Vec<String>,
    /// When it was added.
    pub added_at: Time,
    /// Who added it.
    pub added_by: Principal,
    /// Whether it may be used now.
    pub is_active: bool,
}

/// The file.
#[derive(Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServicesFile {
    /// The services; if empty, nothing leaves the machine.
    #[schemars(length(max = SERVICES_MAX))]
    services: Vec<Service>,
}

#[cfg(feature = "schema")]
pub(crate) fn by_action_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    spoolgate_wire::schema::words(BY_ACTION)
}

/// The allowlist, checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Services {
    /// The services, in the order of the file.
    pub services: Vec<Service>,
}

impl Services {
    /// Reads the file.
    ///
    /// # Errors
    /// Returns [`RulebookError`] for unknown keys, wildcards, invalid hosts, and duplicate
    /// names or actions.
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

    /// Returns the service of this name.
    pub fn named(&self, name: &str) -> Option<&Service> {
        self.services
            .iter()
            .find(|service| service.service.as_str() == name)
    }

    /// Returns a host that several active services have, on different ports.
    pub fn shared_host(&self) -> Option<&str> {
        let mut hosts = BTreeSet::new();
        let mut active = self.services.iter().filter(|service| service.is_active);
        let shared = active.find(|service| !hosts.insert(service.host.as_str()));
        shared.map(|service| service.host.as_str())
    }

    /// Returns what is wrong with the entries, or `None` if nothing is.
    fn fault(&self) -> Option<String> {
        let mut names = BTreeSet::new();
        let mut goes: BTreeMap<&str, &ServiceName> = BTreeMap::new();
        let mut places: BTreeMap<(&str, Option<u16>), &ServiceName> = BTreeMap::new();
        for service in &self.services {
            let name = &service.service;
            if !names.insert(name) {
                return Some(format!("service `{name}` appears twice"));
            }
            if let Some(fault) = service.fault() {
                return Some(format!("service `{name}`: {fault}"));
            }
            if !service.is_active {
                continue;
            }
            for action in &service.actions {
                if let Some(other) = goes.insert(action, name) {
                    return Some(format!(
                        "`{action}` goes to two active services, `{other}` and `{name}`"
                    ));
                }
            }
            if let Some(other) = places.insert((&service.host, service.port), name) {
                let what = "are active with the same host and port; one entry can have the methods \
                    and actions of both";
                return Some(format!("services `{other}` and `{name}` {what}"));
            }
        }
        // A call could mean either service if a name equals the host of another.
        self.services.iter().find_map(|service| {
            let other = self
                .named(&service.host)
                .filter(|other| other.service != service.service)?;
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

    /// Returns its line in the file.
    fn to_line(&self) -> String {
        let port = self
            .port
            .map(|port| format!("port: {port}, "))
            .unwrap_or_default();
        let methods: Vec<&str> = self.methods.iter().map(|method| method.as_str()).collect();
        // Values are quoted because YAML would read some of them as numbers or booleans.
        format!(
            "  - {{service: \"{}\", host: \"{}\", {port}protocol: \"{}\", methods: [{}], actions: \
                [{}], added_at: \"{}\", added_by: \"{}\", is_active: {}}}\n",
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

/// Returns what is wrong with an entry apart from its name and host, or `None` if nothing is.
pub fn fault_of(
    port: Option<u16>,
    protocol: &str,
    methods: &[Method],
    actions: &[String],
) -> Option<String> {
    if port == Some(0) {
        return Some("`port` is 0; it is 1 to 65535, or left out".to_owned());
    }
    if !is_protocol(protocol) {
        let what = "1 to 16 of a-z, 0-9, `+`, `.` and `-`, starting with a letter, as `https`";
        return Some(format!("`protocol` is {what}"));
    }
    let mut seen = BTreeSet::new();
    if let Some(twice) = methods.iter().find(|method| !seen.insert(method.as_str())) {
        return Some(format!("method {} appears twice", twice.as_str()));
    }
    for action in actions {
        if !BY_ACTION.contains(&action.as_str()) {
            return Some(format!(
                "`{}` is none of {}",
                action.escape_debug(),
                BY_ACTION.join(", ")
            ));
        }
        if !seen.insert(action) {
            return Some(format!("`{action}` appears twice"));
        }
    }
    if seen.is_empty() {
        return Some("it has neither methods nor actions, so nothing could go there".to_owned());
    }
    None
}

/// A change that the gate makes to the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Edit {
    /// A service is added at the end.
    Added(Box<Service>),
    /// A service is removed.
    Removed {
        /// The service.
        service: ServiceName,
    },
    /// A service is activated or deactivated.
    Allowed {
        /// The service.
        service: ServiceName,
        /// Whether it is active now.
        is_active: bool,
    },
}

impl Edit {
    /// Returns the service that the change is about.
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
            Edit::Added(_) => ActionName::ServicesAdd,
            Edit::Removed { .. } => ActionName::ServicesRemove,
            Edit::Allowed {
                is_active: true, ..
            } => ActionName::ServicesActivate,
            Edit::Allowed {
                is_active: false, ..
            } => ActionName::ServicesDeactivate,
        };
        write!(f, "{action} of `{}`", self.service())
    }
}

/// Returns the file's text after a change. The comments at its top are kept, and each
/// entry has one line.
///
/// # Errors
/// Returns [`RulebookError`] if comments among the entries would be lost, or if the new file
/// would not be valid.
pub fn edited(
    text: Option<&str>,
    services: &Services,
    edit: &Edit,
) -> Result<String, RulebookError> {
    let text = text.unwrap_or_default();
    let is_head = |line: &&str| line.trim().is_empty() || line.starts_with('#');
    let head: Vec<&str> = text.lines().take_while(is_head).collect();
    let has_comment = |line: &str| {
        line.trim_start().starts_with('#') || line.contains(" #") || line.contains("\t#")
    };
    if let Some(index) = text.lines().skip(head.len()).position(has_comment) {
        let line = index.saturating_add(head.len()).saturating_add(1);
        let what = "a comment among the entries would be lost; move it above `services:`, or edit \
            the file by hand";
        return Err(RulebookError::new(PATH, Some(line), what));
    }
    let mut after = services.clone();
    match edit {
        Edit::Added(service) => after.services.push(service.as_ref().clone()),
        Edit::Removed { service } => after.services.retain(|other| other.service != *service),
        Edit::Allowed { service, is_active } => {
            let of = after
                .services
                .iter_mut()
                .filter(|other| other.service == *service);
            of.for_each(|other| other.is_active = *is_active);
        }
    }
    let mut made: String = head.iter().map(|line| format!("{line}\n")).collect();
    if after.services.is_empty() {
        made.push_str("services: []\n");
    } else {
        made.push_str("services:\n");
        after
            .services
            .iter()
            .for_each(|service| made.push_str(&service.to_line()));
    }
    if Services::read(PATH, &made)? != after {
        return Err(RulebookError::new(
            PATH,
            None,
            "the changed file does not say what it should",
        ));
    }
    Ok(made)
}

fn is_protocol(text: &str) -> bool {
    let is_in = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'+' | b'.' | b'-')
    };
    text.len() <= 16
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.bytes().all(is_in)
}

/// Why a text, which is quoted, is not the host of a service.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// It stands for several hosts.
    #[error("`{0}` is a wildcard; there are none: each host is an entry of its own")]
    Wildcard(String),
    /// It has a scheme, a user, a port or a path.
    #[error(
        "`{0}` is not a host alone, without scheme, user, port or path; `port` is a key of its \
            own; an IPv6 address stands in brackets"
    )]
    NotAlone(String),
    /// It is not a full host name.
    #[error("`{0}` is not one whole host name")]
    NotWhole(String),
    /// It is an address in another form than the usual one, which comes second.
    #[error("`{0}` is the address {1} in another form; write it so")]
    OtherForm(String, String),
    /// It is an address of no host, or of several.
    #[error("`{0}` is the address of no single host")]
    NoSingleHost(String),
}

/// Returns the host of an entry in the form in which hosts are compared: lower case, IDNA, without
/// a trailing dot.
///
/// # Errors
/// Returns [`HostError`] if the text is not one full host name or address.
pub fn folded(host: &str) -> Result<String, HostError> {
    let shown = || host.escape_debug().to_string();
    if host.contains('*') || host.starts_with('.') {
        return Err(HostError::Wildcard(shown()));
    }
    let is_address = host.starts_with('[');
    if !is_address && host.contains(['/', '\\', '@', ':', '?', '#']) {
        return Err(HostError::NotAlone(shown()));
    }
    let name = host::name_of(host).ok_or_else(|| HostError::NotWhole(shown()))?;
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = bare.parse::<IpAddr>() {
        if *name != *host {
            return Err(HostError::OtherForm(shown(), name.into_owned()));
        }
        if address.is_unspecified() || address.is_multicast() || bare == "255.255.255.255" {
            return Err(HostError::NoSingleHost(shown()));
        }
    }
    Ok(name.into_owned())
}
