//! The policy of a suite as files of a home: the sample's rules, with services and sets made from
//! the environment.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::json;
use spoolgate_rules::services::BY_ACTION;

use super::calls::{Call, Suite};
use super::establish::{Established, Found};

/// How much of the policy is in force; each level includes all earlier ones.
pub(crate) const LADDER: [(&str, &[&str]); 7] = [
    ("nothing", &[]),
    ("host allowlist", &[]),
    ("+ destinations", &["to-"]),
    ("+ classes that hold", &["to-", "class-"]),
    ("+ links in texts", &["to-", "class-", "link-"]),
    (
        "+ card and account numbers",
        &["to-", "class-", "link-", "data-"],
    ),
    (
        "+ limits, first seen: all",
        &["to-", "class-", "link-", "data-", "limit-", "first-"],
    ),
];

/// Writes the policy over the rules of a home. With `is_open`, every service that any call names is
/// allowed.
///
/// # Errors
/// Returns an error if a file cannot be read or written.
pub(crate) fn write(
    home: &Path,
    policy: &Path,
    suite: (&Suite, &[&Call]),
    groups: &[&str],
    is_open: bool,
) -> Result<Established> {
    let (suite, calls) = suite;
    let (from, to) = (policy.join("rules"), home.join("rules"));
    for folder in ["core", "sets"] {
        fs::create_dir_all(to.join(folder))?;
    }
    for name in ["gateway.yaml", "principals.yaml"] {
        fs::copy(from.join(name), to.join(name))
            .with_context(|| format!("file `rules/{name}` of the policy"))?;
    }
    for entry in fs::read_dir(from.join("core"))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if groups.iter().any(|group| name.starts_with(group)) {
            fs::copy(entry.path(), to.join("core").join(name))?;
        }
    }
    let established = super::establish::established(&suite.env);
    let known: Found = [
        &established.names,
        &established.contacts,
        &established.payees,
    ]
    .into_iter()
    .flat_map(|found| found.iter().map(|(value, why)| (value.clone(), *why)))
    .collect();
    let none = Found::new();
    for (name, kind, found, seen) in [
        ("contacts", "address", &established.contacts, &none),
        ("payees", "text", &established.payees, &none),
        ("known", "text", &known, &none),
        ("hosts-writing", "host", &established.hosts, &none),
        (
            "hosts-reading",
            "host",
            &established.hosts,
            &established.seen,
        ),
    ] {
        let mut entries = Vec::new();
        for (value, why) in found {
            entries.push(json!({"value": value, "provenance": "user_established", "note": why}));
        }
        for (value, why) in seen.iter().filter(|(value, _)| !found.contains_key(*value)) {
            entries.push(json!({"value": value, "provenance": "seen", "note": why}));
        }
        // JSON is YAML.
        let set = json!({"name": name, "kind": kind, "grows": "on_approval", "entries": entries});
        fs::write(
            to.join(format!("sets/{name}.yaml")),
            serde_json::to_string_pretty(&set)?,
        )?;
    }
    let services = services(suite, calls, &established, is_open);
    fs::write(
        to.join("services.yaml"),
        serde_json::to_string_pretty(&services)?,
    )?;
    Ok(established)
}

/// Returns the services to which benign calls of the environment's own tools go, with the actions
/// of these calls. A service whose name is a host must be established itself.
fn services(
    suite: &Suite,
    calls: &[&Call],
    established: &Established,
    is_open: bool,
) -> serde_json::Value {
    let is_users =
        |call: &&&Call| is_open || (!call.is_attack() && suite.tools.contains(&call.tool));
    let mut names: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for call in calls.iter().filter(is_users) {
        if BY_ACTION.contains(&call.action.as_str()) {
            let service = call.action.split('.').next().unwrap_or_default();
            names.entry(service).or_default().insert(&call.action);
        } else if let Some(name) = call
            .payload
            .get("service")
            .and_then(serde_json::Value::as_str)
        {
            let is_known =
                established.hosts.contains_key(name) || established.seen.contains_key(name);
            if is_open || !name.contains('.') || is_known {
                names.entry(name).or_default();
            }
        }
    }
    let rows: Vec<serde_json::Value> = names
        .into_iter()
        .map(|(name, actions)| {
            let host = if name.contains('.') {
                name.to_owned()
            } else {
                format!("{name}.example.com")
            };
            // Hosts that were only seen may be read.
            let is_seen = name.contains('.') && !established.hosts.contains_key(name) && !is_open;
            let methods: &[&str] = if is_seen {
                &["GET"]
            } else {
                &["GET", "POST", "PUT", "PATCH", "DELETE"]
            };
            json!({
                "service": name, "host": host, "protocol": "https",
                "methods": methods, "actions": actions,
                "added_at": "2026-01-01T00:00:00Z", "added_by": "owner", "is_active": true,
            })
        })
        .collect();
    json!({ "services": rows })
}
