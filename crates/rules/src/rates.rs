//! `rules/rates.yaml`: how much each spool may submit. Without the file there are no quotas.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use serde::Deserialize;

use super::bounds::AtLeast;
use super::principals::PrincipalRule;
use super::rulebook::RulebookError;
use super::yaml;
use spoolgate_wire::ids::Principal;

/// What one spool may submit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Quota {
    /// Files per minute.
    pub requests_per_minute: AtLeast<1>,
    /// Bytes per minute, over all files.
    pub bytes_per_minute: NonZeroU64,
}

/// The quota of one principal's own spool.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct PrincipalQuota {
    /// The principal; it must have its own spool.
    name: Principal,
    /// Files per minute.
    requests_per_minute: AtLeast<1>,
    /// Bytes per minute, over all files.
    bytes_per_minute: NonZeroU64,
}

/// Quotas of spools.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct SpoolQuotas {
    /// Files per minute for each spool without a quota of its own.
    requests_per_minute: AtLeast<1>,
    /// Bytes per minute for each such spool, over all files.
    bytes_per_minute: NonZeroU64,
    /// Quota of the flat spool, if it differs.
    #[serde(default)]
    flat: Option<Quota>,
    /// Quotas of principals' own spools, where they differ.
    #[serde(default)]
    principals: Vec<PrincipalQuota>,
}

/// The file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RatesFile {
    /// Quotas of spools.
    spool: SpoolQuotas,
}

/// The quotas of all spools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rates {
    path: String,
    /// Quota of spools without a quota of their own.
    each: Quota,
    /// Quota of the flat spool.
    flat: Quota,
    /// Quotas by principal.
    by_principal: BTreeMap<Principal, Quota>,
    /// Quotas by spool folder, filled in by [`Rates::resolve`].
    by_spool: BTreeMap<Principal, Quota>,
}

impl Rates {
    /// Reads the file.
    ///
    /// # Errors
    /// Returns [`RulebookError`] for unknown keys, values that are not whole numbers above 0, and
    /// duplicate principals.
    pub fn read(path: &str, text: &str) -> Result<Rates, RulebookError> {
        let RatesFile { spool } = yaml::read(path, text)?;
        let SpoolQuotas {
            requests_per_minute,
            bytes_per_minute,
            flat,
            principals,
        } = spool;
        let each = Quota {
            requests_per_minute,
            bytes_per_minute,
        };
        let mut by_principal = BTreeMap::new();
        for PrincipalQuota {
            name,
            requests_per_minute,
            bytes_per_minute,
        } in principals
        {
            let quota = Quota {
                requests_per_minute,
                bytes_per_minute,
            };
            if by_principal.insert(name.clone(), quota).is_some() {
                return Err(RulebookError::new(
                    path,
                    None,
                    format!("principal `{name}` appears twice"),
                ));
            }
        }
        let (path, by_spool) = (path.to_owned(), BTreeMap::new());
        Ok(Rates {
            path,
            each,
            flat: flat.unwrap_or(each),
            by_principal,
            by_spool,
        })
    }

    /// Finds the spool folders that the quotas of principals apply to.
    ///
    /// # Errors
    /// Returns [`RulebookError`] for a principal without its own spool, and for two
    /// quotas of one spool.
    pub(super) fn resolve(
        &mut self,
        principals: &BTreeMap<Principal, PrincipalRule>,
    ) -> Result<(), RulebookError> {
        for (name, quota) in &self.by_principal {
            let fail = |what: &str| {
                let message = format!("principal `{name}` {what}");
                Err(RulebookError::new(self.path.clone(), None, message))
            };
            let Some(rule) = principals.get(name) else {
                return fail("is not in rules/principals.yaml");
            };
            let Some(spool) = &rule.spool else {
                return fail(
                    "has no spool of its own: its requests count in the flat spool's quota",
                );
            };
            if self
                .by_spool
                .insert(spool.clone(), *quota)
                .is_some_and(|other| other != *quota)
            {
                return fail("shares its spool with a principal that has another quota");
            }
        }
        Ok(())
    }

    /// Returns the quota of an agent's spool folder.
    pub fn of_spool(&self, spool: &Principal) -> Quota {
        self.by_spool.get(spool).copied().unwrap_or(self.each)
    }

    /// Returns the quota of the flat spool as a whole.
    pub fn of_flat(&self) -> Quota {
        self.flat
    }
}
