//! Changes that people make to the allowlist, and credentials of its services. The decision
//! computes the new file from the rulebook in force and the request alone. The ledger records the
//! change, never the file, and only the name of a secret.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::enforced;
use super::handle::{Outcome, Turn, data};
use super::prepare::Refusal;
use super::proposals::EDITED;
use super::state;
use spoolgate_rules::services::{self, Edit, Service};
use spoolgate_rules::{Rulebook, RulebookError, gateway};
use spoolgate_wire::code::Code;
use spoolgate_wire::ids::{Principal, ServiceName};
use spoolgate_wire::payload::PayloadError;
use spoolgate_wire::services::AddService;
use spoolgate_wire::time::Time;

/// What a person requests.
#[derive(Clone, Copy, Debug)]
pub enum Asked<'a> {
    /// Add a service.
    Add(&'a AddService),
    /// Remove a service.
    Remove(&'a ServiceName),
    /// Set whether a service is allowed.
    Allow(&'a ServiceName, bool),
}

/// A change to the allowlist or to a credential.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Change {
    /// The gate writes `rules/services.yaml`.
    Edited {
        /// The edit.
        edit: Edit,
        /// Hash of the rulebook before.
        base: String,
        /// Hash of the rulebook afterwards.
        rulebook: String,
    },
    /// A service has another credential, or no longer has one.
    Credential {
        /// The service.
        service: ServiceName,
        /// The credential; absent if there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        credential: Option<CredentialRecord>,
    },
}

/// A credential as the ledger knows it; its secret is in the keyring.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CredentialRecord {
    /// Its random name in the keyring, which is not a hash of it.
    pub credential_id: String,
    /// The host that it is for. It is not sent to another host, even if the file is changed.
    pub host: String,
    /// When it was set.
    pub set_at: Time,
    /// The person who set it.
    pub set_by: Principal,
}

/// Applies a change to the credentials in force.
pub(super) fn apply(credentials: &mut BTreeMap<ServiceName, CredentialRecord>, change: &Change) {
    match change {
        Change::Edited { .. } => {}
        Change::Credential {
            service,
            credential: Some(record),
        } => {
            credentials.insert(service.clone(), record.clone());
        }
        Change::Credential {
            service,
            credential: None,
        } => {
            credentials.remove(service);
        }
    }
}

/// Returns the rulebook after a change of the allowlist.
///
/// # Errors
/// Returns why the result is not a valid rulebook, or why the file cannot be written without loss.
pub fn after(rules: &Rulebook, edit: &Edit) -> Result<Rulebook, RulebookError> {
    let old = rules.files.files.get(services::PATH).map(String::as_str);
    let text = services::edited(old, &rules.services, edit)?;
    rules.with_services(&text)
}

/// The allowlist edits of a line: the edit, and the hashes of the rulebook before and after.
pub fn edits(changes: &[state::Change]) -> impl Iterator<Item = (&Edit, &str, &str)> {
    changes.iter().filter_map(|change| match change {
        state::Change::Services(Change::Edited {
            edit,
            base,
            rulebook,
        }) => Some((edit, base.as_str(), rulebook.as_str())),
        _ => None,
    })
}

/// The answer of `services.add`, `services.remove`, `services.deactivate` and `services.activate`.
#[derive(Serialize, schemars::JsonSchema)]
pub enum Changed<'a> {
    /// The allowlist has changed.
    ServicesChanged {
        /// The service.
        service: &'a ServiceName,
        /// What was done to the service.
        change: &'a str,
        /// SHA-256 of the new rulebook, hex.
        rulebook: &'a str,
    },
}

fn conflict(what: impl Into<String>) -> Refusal {
    Refusal::new(Code::StateConflict, what.into())
}

impl Turn<'_> {
    /// Decides `services.add`, `services.remove`, `services.deactivate` and `services.activate`.
    pub(super) fn edit_services(
        &self,
        source: &Principal,
        asked: &Asked<'_>,
    ) -> Result<Outcome, Refusal> {
        if let Some(fault) = &self.state.rulebook.fault {
            return Err(conflict(format!(
                "the rule files cannot be used; correct them first: {fault}"
            )));
        }
        // This check comes first: from its message a replay learns that the file had been edited.
        if self.lookups.rule_file_differs {
            return Err(conflict(format!("`{}` {EDITED}", services::PATH)));
        }
        let edit = self.edit_of(source, asked)?;
        let book = after(self.rules, &edit).map_err(|error| conflict(error.to_string()))?;
        enforced::check_person(self.rules, &book)?;
        let service = edit.service().clone();
        let mut changes = vec![Change::Edited {
            edit,
            base: self.rules.hash.clone(),
            rulebook: book.hash.clone(),
        }];
        let is_over =
            matches!(asked, Asked::Remove(_)) && self.state.credentials.contains_key(&service);
        if is_over {
            // A service added later under the same name must not inherit the credential.
            changes.push(Change::Credential {
                service: service.clone(),
                credential: None,
            });
        }
        let change = match asked {
            Asked::Add(_) => "added",
            Asked::Remove(_) => "removed",
            Asked::Allow(_, true) => "activated",
            Asked::Allow(_, false) => "deactivated",
        };
        let data = data(&Changed::ServicesChanged {
            service: &service,
            change,
            rulebook: &book.hash,
        })?;
        let changes = changes.into_iter().map(state::Change::Services).collect();
        Ok(Outcome {
            data,
            changes,
            ..Outcome::default()
        })
    }

    fn edit_of(&self, source: &Principal, asked: &Asked<'_>) -> Result<Edit, Refusal> {
        Ok(match asked {
            Asked::Add(add) => {
                if self.rules.services.named(add.service.as_str()).is_some() {
                    return Err(conflict(format!(
                        "service `{}` already exists",
                        add.service
                    )));
                }
                Edit::Added(Box::new(Service {
                    service: add.service.clone(),
                    host: services::folded(&add.host)
                        .map_err(|why| Refusal::new(Code::MalformedPayload, why.to_string()))?,
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
                Edit::Removed {
                    service: (*name).clone(),
                }
            }
            Asked::Allow(name, is_active) => {
                if self.service(name)?.is_active == *is_active {
                    let what = if *is_active {
                        "is already active"
                    } else {
                        "is already inactive"
                    };
                    return Err(conflict(format!("service `{name}` {what}")));
                }
                Edit::Allowed {
                    service: (*name).clone(),
                    is_active: *is_active,
                }
            }
        })
    }

    pub(super) fn service(&self, name: &ServiceName) -> Result<&Service, Refusal> {
        self.rules.services.named(name.as_str()).ok_or_else(|| {
            Refusal::new(
                Code::NotFound,
                format!("`{}` has no service `{name}`", services::PATH),
            )
        })
    }

    /// Checks that no adapter names the service: without it the rulebook would be invalid.
    fn check_unnamed(&self, name: &ServiceName) -> Result<(), Refusal> {
        let Some(adapter) = self
            .rules
            .gateway
            .adapters
            .iter()
            .find(|rule| rule.services.contains(name))
        else {
            return Ok(());
        };
        let (place, actions) = (gateway::PATH, adapter.actions.join(", "));
        Err(conflict(format!(
            "the adapter of {actions} in `{place}` names service `{name}`; remove it there first, \
                or run `spoolgate services deactivate {name}`"
        )))
    }
}

/// Checks a service to be added, as far as that is possible without the others.
pub(super) fn check_added(add: &AddService) -> Result<(), PayloadError> {
    let host = services::folded(&add.host).map_err(PayloadError::other);
    host.map_err(|fault| PayloadError::within("host", fault))?;
    let fault = services::fault_of(add.port, &add.protocol, &add.methods, &add.actions);
    fault.map_or(Ok(()), |fault| Err(PayloadError::other(fault)))
}
