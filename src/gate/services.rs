//! What people change in the allowlist, and credentials of its services. The decision computes the new file from the one
//! of the rulebook in force and the request alone; the ledger has the change, never the file, and of a secret its name.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::to_raw_value;

use super::handle::{Outcome, Turn};
use super::prepare::Refusal;
use super::proposals::EDITED;
use super::state;
use crate::rules::services::{self, Edit, Service};
use crate::rules::{Rulebook, RulebookError, gateway};
use crate::wire::code::Code;
use crate::wire::ids::{Principal, ServiceName};
use crate::wire::services::{AddService, SetCredential};
use crate::wire::time::Time;

/// What a person asks for.
#[derive(Clone, Debug)]
pub enum Asked {
    /// One more service.
    Add(AddService),
    /// One less.
    Remove(ServiceName),
    /// Whether one is allowed now.
    Allow(ServiceName, bool),
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Change {
    /// The gate writes rules/services.yaml.
    Edited {
        /// What changes in it.
        edit: Edit,
        /// Hash of the rulebook before.
        base: String,
        /// Hash of the rulebook that it makes.
        rulebook: String,
    },
    /// Another credential is in force for a service, or none.
    Credential {
        /// Whose.
        service: ServiceName,
        /// Which; absent: none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        credential: Option<CredentialRecord>,
    },
}

/// A credential as the ledger knows it; its secret is in the keyring.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CredentialRecord {
    /// Its name in the keyring: random, and no hash of it.
    pub credential_id: String,
    /// The host that it is for: at another one nobody gets it, whoever has changed the file.
    pub host: String,
    /// Since when.
    pub set_at: Time,
    /// By whom.
    pub set_by: Principal,
}

/// Applies a step to the credentials in force.
pub(super) fn apply(credentials: &mut BTreeMap<ServiceName, CredentialRecord>, change: &Change) {
    match change {
        Change::Edited { .. } => {}
        Change::Credential { service, credential: Some(record) } => {
            credentials.insert(service.clone(), record.clone());
        }
        Change::Credential { service, credential: None } => {
            credentials.remove(service);
        }
    }
}

/// The rulebook that a change of the allowlist makes of another.
///
/// # Errors
/// Why that is no rulebook, or the file cannot be written without losing something.
pub fn after(rules: &Rulebook, edit: &Edit) -> Result<Rulebook, RulebookError> {
    let old = rules.files.files.get(services::PATH).map(String::as_str);
    let text = services::edited(old, &rules.services, edit)?;
    rules.with_services(&text)
}

/// The rulebooks that the changes of a line make, by changes of the allowlist: the change, the hash before and after.
pub fn edits(changes: &[state::Change]) -> impl Iterator<Item = (&Edit, &str, &str)> {
    changes.iter().filter_map(|change| match change {
        state::Change::Services(Change::Edited { edit, base, rulebook }) => {
            Some((edit, base.as_str(), rulebook.as_str()))
        }
        _ => None,
    })
}

/// Bodies of answers.
#[derive(Serialize, schemars::JsonSchema)]
pub(super) enum Body<'a> {
    /// The allowlist is another one.
    #[serde(rename = "ServicesChanged")]
    Changed {
        /// Which service.
        service: &'a ServiceName,
        /// What was done with it.
        change: &'a str,
        /// SHA-256 of the new rulebook, hex.
        rulebook: &'a str,
    },
    /// The service has another credential, or none.
    #[serde(rename = "CredentialSet")]
    Credential {
        /// Which service.
        service: &'a ServiceName,
        /// The credential's name in the keyring; null: none.
        credential_id: Option<&'a str>,
    },
}

fn done(body: &Body<'_>, changes: Vec<Change>) -> Result<Outcome, Refusal> {
    let data = to_raw_value(body)
        .map_err(|error| Refusal::new(Code::Internal, format!("the answer cannot be written: {error}")))?;
    let changes = changes.into_iter().map(state::Change::Services).collect();
    Ok(Outcome { data: Some(data), changes, ..Outcome::default() })
}

fn conflict(what: impl Into<String>) -> Refusal {
    Refusal::new(Code::StateConflict, what.into())
}

impl Turn<'_> {
    /// `services.add`, `services.remove`, `services.deactivate`, `services.activate`.
    pub(super) fn edit_services(&self, source: &Principal, asked: &Asked) -> Result<Outcome, Refusal> {
        if let Some(fault) = &self.state.rulebook.fault {
            return Err(conflict(format!("the rule files cannot be used, mend them first: {fault}")));
        }
        // Before anything else: that is how its line tells what the folder held.
        if self.lookups.rule_file_differs {
            return Err(conflict(format!("`{}` {EDITED}", services::PATH)));
        }
        let edit = self.edit_of(source, asked)?;
        let book = after(self.rules, &edit).map_err(|error| conflict(error.to_string()))?;
        let service = edit.service().clone();
        let mut changes =
            vec![Change::Edited { edit, base: self.rules.hash.clone(), rulebook: book.hash.clone() }];
        let is_over = matches!(asked, Asked::Remove(_)) && self.state.credentials.contains_key(&service);
        if is_over {
            // Whoever comes to have this name next is somebody else.
            changes.push(Change::Credential { service: service.clone(), credential: None });
        }
        let change = match asked {
            Asked::Add(_) => "added",
            Asked::Remove(_) => "removed",
            Asked::Allow(_, true) => "activated",
            Asked::Allow(_, false) => "deactivated",
        };
        done(&Body::Changed { service: &service, change, rulebook: &book.hash }, changes)
    }

    fn edit_of(&self, source: &Principal, asked: &Asked) -> Result<Edit, Refusal> {
        Ok(match asked {
            Asked::Add(add) => {
                if self.rules.services.named(add.service.as_str()).is_some() {
                    return Err(conflict(format!("there is a service `{}` already", add.service)));
                }
                Edit::Added(Box::new(Service {
                    service: add.service.clone(),
                    host: services::folded(&add.host)
                        .map_err(|why| Refusal::new(Code::MalformedPayload, why))?,
                    port: add.port,
                    protocol: add.protocol.clone(),
                    methods: add.methods.clone(),
                    actions: add.actions.clone(),
                    added_at: self.now,
                    added_by: source.clone(),
                    is_active: true,
                }))
            }
            Asked::Remove(name) => {
                self.service(name)?;
                self.check_unnamed(name)?;
                Edit::Removed { service: name.clone() }
            }
            Asked::Allow(name, is_active) => {
                if self.service(name)?.is_active == *is_active {
                    let what = if *is_active { "is active already" } else { "is not active already" };
                    return Err(conflict(format!("service `{name}` {what}")));
                }
                Edit::Allowed { service: name.clone(), is_active: *is_active }
            }
        })
    }

    fn service(&self, name: &ServiceName) -> Result<&Service, Refusal> {
        self.rules.services.named(name.as_str()).ok_or_else(|| {
            Refusal::new(Code::NotFound, format!("`{}` has no service `{name}`", services::PATH))
        })
    }

    /// That no adapter is for it: the rulebook without it would be none.
    fn check_unnamed(&self, name: &ServiceName) -> Result<(), Refusal> {
        let Some(adapter) = self.rules.gateway.adapters.iter().find(|rule| rule.services.contains(name))
        else {
            return Ok(());
        };
        let (place, actions) = (gateway::PATH, adapter.actions.join(", "));
        Err(conflict(format!(
            "the adapter of {actions} in `{place}` names service `{name}`; take it out there first, or close the service \
             with `spoolgate services deactivate {name}`"
        )))
    }

    /// `services.credential`.
    pub(super) fn set_credential(&self, source: &Principal, set: &SetCredential) -> Result<Outcome, Refusal> {
        let name = &set.service;
        let credential = match &set.credential_id {
            None if !self.state.credentials.contains_key(name) => {
                let what = format!("service `{name}` has no credential");
                return Err(Refusal::new(Code::NotFound, what));
            }
            None => None,
            Some(credential_id) => {
                let host = self.service(name)?.host.clone();
                if !self.lookups.key_is_held {
                    let what = format!(
                        "the keyring of this home does not hold credential {credential_id} of `{name}`"
                    );
                    return Err(Refusal::new(Code::NotFound, what));
                }
                let (set_at, set_by) = (self.now, source.clone());
                Some(CredentialRecord { credential_id: credential_id.clone(), host, set_at, set_by })
            }
        };
        let body = Body::Credential { service: name, credential_id: set.credential_id.as_deref() };
        done(&body, vec![Change::Credential { service: name.clone(), credential }])
    }
}

/// What is wrong with a request for one more service, as far as it tells without the others.
pub(super) fn check_added(add: &AddService) -> Result<(), String> {
    services::folded(&add.host)?;
    services::fault_of(add.port, &add.protocol, &add.methods, &add.actions).map_or(Ok(()), Err)
}
