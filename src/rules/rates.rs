//! `rules/rates.yaml`: how much each spool may hand in. Without the file there are no quotas.

use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroU64};

use serde::Deserialize;

use super::principals::PrincipalRule;
use super::rulebook::RulebookError;
use super::yaml;
use crate::wire::ids::Principal;

/// What one spool may hand in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Quota {
    /// Files a minute.
    pub requests_per_minute: NonZeroU32,
    /// Their bytes a minute.
    pub bytes_per_minute: NonZeroU64,
}

/// The quota of one principal's own spool.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct PrincipalQuota {
    /// Whose; it has a spool of its own.
    name: Principal,
    /// Files a minute.
    requests_per_minute: NonZeroU32,
    /// Their bytes a minute.
    bytes_per_minute: NonZeroU64,
}

/// Quotas of spools.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct SpoolQuotas {
    /// Files a minute of a spool that nothing else is said of.
    requests_per_minute: NonZeroU32,
    /// Their bytes a minute.
    bytes_per_minute: NonZeroU64,
    /// The flat spool, where it has another quota.
    #[serde(default)]
    flat: Option<Quota>,
    /// Spools of principals that have another quota.
    #[serde(default)]
    principals: Vec<PrincipalQuota>,
}

/// The file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RatesFile {
    /// Quotas of spools.
    spool: SpoolQuotas,
}

/// The quotas of all spools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rates {
    path: String,
    /// Of a spool that nothing else is said of.
    each: Quota,
    /// Of the flat spool.
    flat: Quota,
    /// Of principals.
    by_principal: BTreeMap<Principal, Quota>,
    /// Of spool folders, once it is known whose they are.
    by_spool: BTreeMap<Principal, Quota>,
}

impl Rates {
    /// Reads the file.
    ///
    /// # Errors
    /// [`RulebookError`]: unknown keys, values that are 0 or no whole numbers, a principal that stands twice.
    pub fn read(path: &str, text: &str) -> Result<Rates, RulebookError> {
        let RatesFile { spool } = yaml::read(path, text)?;
        let SpoolQuotas { requests_per_minute, bytes_per_minute, flat, principals } = spool;
        let each = Quota { requests_per_minute, bytes_per_minute };
        let mut by_principal = BTreeMap::new();
        for PrincipalQuota { name, requests_per_minute, bytes_per_minute } in principals {
            let quota = Quota { requests_per_minute, bytes_per_minute };
            if by_principal.insert(name.clone(), quota).is_some() {
                return Err(RulebookError::new(path, None, format!("principal `{name}` stands twice")));
            }
        }
        let (path, by_spool) = (path.to_owned(), BTreeMap::new());
        Ok(Rates { path, each, flat: flat.unwrap_or(each), by_principal, by_spool })
    }

    /// Finds out whose spools the quotas of principals are for.
    ///
    /// # Errors
    /// [`RulebookError`] for a principal without a spool of its own, and for two quotas of one spool.
    pub(super) fn resolve(
        &mut self,
        principals: &BTreeMap<Principal, PrincipalRule>,
    ) -> Result<(), RulebookError> {
        for (name, quota) in &self.by_principal {
            let fail = |what: &str| {
                let message = format!("principal `{name}` {what}");
                Err(RulebookError::new(self.path.clone(), None, message))
            };
            let Some(rule) = principals.get(name) else { return fail("is not in rules/principals.yaml") };
            let Some(spool) = &rule.spool else {
                return fail("has no spool of its own: its requests count in the flat spool's quota");
            };
            if self.by_spool.insert(spool.clone(), *quota).is_some_and(|other| other != *quota) {
                return fail("shares its spool with a principal that has another quota");
            }
        }
        Ok(())
    }

    /// The quota of an agent's spool folder.
    pub fn of_spool(&self, spool: &Principal) -> Quota {
        self.by_spool.get(spool).copied().unwrap_or(self.each)
    }

    /// The quota of the flat spool as a whole.
    pub fn of_flat(&self) -> Quota {
        self.flat
    }
}
