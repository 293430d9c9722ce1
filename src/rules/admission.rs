//! `rules/admission/<tenant>/<surface>/<profile>.yaml`: what may be admitted where. Without a file nothing is.

use std::num::{NonZeroU32, NonZeroU64};

use serde::{Deserialize, Serialize};

use super::command::CommandRule;
use super::rulebook::RulebookError;
use super::yaml;
use crate::wire::admission::Domain;
use crate::wire::ids::{Capability, DomainPart};
use crate::wire::signing::sha256_hex;

/// Longest ancestor window: each of its tasks is looked up.
pub const WINDOW_MAX: u32 = 64;
/// Most roots that a key may be allowed to open in an hour: the gate remembers when it opened each.
pub const ROOTS_PER_HOUR_MAX: u32 = 10_000;
/// Longest text of `policy_version`, bytes.
const VERSION_BYTES_MAX: usize = 128;
/// Longest time that a fetched policy may be kept, seconds.
const CACHE_TTL_S_MAX: u32 = 86_400;
/// Longest list of a profile.
const LIST_MAX: usize = 10_000;
/// How long a delivered profile is kept where its file does not say, seconds: that of the document.
pub const CACHE_TTL_S: u32 = 300;

/// Limits of one domain, names as in SPEC-IG-0000. What is absent is not limited, but for depth.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Named in receipts.
    #[serde(default, deserialize_with = "yaml::present", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::wire::schema::short::<VERSION_BYTES_MAX>")]
    pub policy_version: Option<String>,
    /// Denied from this depth on; roots have depth 0.
    pub max_spawn_depth: NonZeroU32,
    /// Tasks below a root.
    #[serde(default, deserialize_with = "yaml::present", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::wire::schema::count::<0>")]
    pub max_total_descendants: Option<u64>,
    /// Tasks of one capability in a tree, the root's included.
    #[serde(default, deserialize_with = "yaml::present", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::wire::schema::count::<1>")]
    pub max_repeats_per_capability: Option<NonZeroU64>,
    /// How often a capability may stand among the nearest ancestors.
    #[serde(default, deserialize_with = "yaml::present", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::wire::schema::count::<1>")]
    pub max_repeats_in_ancestor_window: Option<NonZeroU64>,
    /// How many ancestors those are.
    #[serde(default, deserialize_with = "yaml::present", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::wire::schema::whole::<1, WINDOW_MAX>")]
    pub ancestor_window_size: Option<NonZeroU32>,
    /// Tasks that may be admitted in a tree, the root included; issued when the root is opened.
    #[serde(default, deserialize_with = "yaml::present", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::wire::schema::count::<1>")]
    pub recursion_budget: Option<NonZeroU64>,
    /// The only capabilities; empty: none.
    #[serde(default, deserialize_with = "yaml::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<Capability>", length(max = LIST_MAX))]
    pub capability_allowlist: Option<Vec<Capability>>,
    /// Capabilities never admitted.
    #[serde(default, deserialize_with = "yaml::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<Capability>", length(max = LIST_MAX))]
    pub capability_denylist: Option<Vec<Capability>>,
    /// The only targets that a payload may name; empty: none.
    #[serde(default, deserialize_with = "yaml::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<String>", length(max = LIST_MAX))]
    pub allowed_targets: Option<Vec<String>>,
    /// Whether anything but leases is admitted.
    #[serde(default = "yes")]
    pub can_spawn: bool,
    /// Largest artifact, bytes.
    #[serde(default, deserialize_with = "yaml::present", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::wire::schema::count::<0>")]
    pub max_artifact_size_bytes: Option<u64>,
    /// A program that delivers a second profile, which holds besides this one: it can only be stricter.
    #[serde(default, deserialize_with = "yaml::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "CommandRule")]
    pub policy_command: Option<CommandRule>,
    /// How long its answer is kept, seconds.
    #[serde(default, deserialize_with = "yaml::present", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::wire::schema::whole::<1, CACHE_TTL_S_MAX>")]
    pub cache_ttl_seconds: Option<NonZeroU32>,
    /// A program that knows more of a task's lineage than the ledger: its counts can only be higher.
    #[serde(default, deserialize_with = "yaml::present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "CommandRule")]
    pub lineage_command: Option<CommandRule>,
}

fn yes() -> bool {
    true
}

/// The policy of one domain: what people wrote, and the hash of the very bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Its limits.
    pub profile: Profile,
    /// SHA-256 of the file's bytes, hex.
    pub sha256: String,
}

/// What a key may have admitted.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// Domains it may speak for; the first is that of bare causality.
    #[schemars(length(min = 1))]
    pub domains: Vec<Domain>,
    /// Roots it may open within any hour; absent: none.
    #[serde(default, deserialize_with = "yaml::present", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::wire::schema::whole::<1, ROOTS_PER_HOUR_MAX>")]
    pub roots_per_hour: Option<NonZeroU32>,
    /// Whether what admission can refuse must carry causality.
    #[serde(default)]
    pub required: bool,
}

impl Grant {
    /// Whether it makes sense.
    ///
    /// # Errors
    /// What does not.
    pub fn check(&self) -> Result<(), String> {
        if self.domains.is_empty() {
            return Err("`admission` names no domain".to_owned());
        }
        match self.roots_per_hour {
            Some(roots) if roots.get() > ROOTS_PER_HOUR_MAX => {
                Err(format!("`roots_per_hour` is {roots}; it must be at most {ROOTS_PER_HOUR_MAX}"))
            }
            _ => Ok(()),
        }
    }
}

/// The domain whose policy a path is; none if it is no path of a policy.
///
/// # Errors
/// [`RulebookError`] for a path below `rules/admission` that names no domain.
pub fn domain_of(path: &str) -> Option<Result<Domain, RulebookError>> {
    let below = path.strip_prefix("rules/admission/")?;
    let named = |what: &str| RulebookError::new(path, None, what);
    let parts: Vec<&str> = below.split('/').collect();
    let [tenant, surface, file] = parts.as_slice() else {
        return Some(Err(named("a policy is rules/admission/<tenant>/<surface>/<profile>.yaml")));
    };
    let profile = file.strip_suffix(".yaml").unwrap_or(file);
    let part = |text: &str| DomainPart::parse(text).map_err(|error| named(&error.to_string()));
    let domain = || Ok(Domain { tenant: part(tenant)?, surface: part(surface)?, profile: part(profile)? });
    Some(domain())
}

impl Policy {
    /// Reads a policy file.
    ///
    /// # Errors
    /// [`RulebookError`]: unknown keys, limits that make no sense.
    pub fn read(path: &str, text: &str) -> Result<Policy, RulebookError> {
        let profile: Profile = yaml::read(path, text)?;
        profile.check().map_err(|what| RulebookError::new(path, None, what))?;
        Ok(Policy { profile, sha256: sha256_hex(text.as_bytes()) })
    }
}

impl Profile {
    /// Reads what a policy command wrote: YAML or JSON with the keys of a policy file, but for those about commands.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn delivered(text: &str) -> Result<Profile, String> {
        let profile: Profile = yaml::read("policy_command", text).map_err(|error| error.to_string())?;
        profile.check()?;
        if profile.policy_command.is_some()
            || profile.cache_ttl_seconds.is_some()
            || profile.lineage_command.is_some()
        {
            return Err("a delivered profile may not name commands".to_owned());
        }
        Ok(profile)
    }

    fn check(&self) -> Result<(), String> {
        if self.policy_version.as_ref().is_some_and(|text| text.len() > VERSION_BYTES_MAX) {
            return Err(format!("`policy_version` is longer than {VERSION_BYTES_MAX} bytes"));
        }
        if self.max_repeats_in_ancestor_window.is_some() != self.ancestor_window_size.is_some() {
            return Err(
                "`max_repeats_in_ancestor_window` and `ancestor_window_size` need each other".to_owned()
            );
        }
        if let Some(size) = self.ancestor_window_size.filter(|size| size.get() > WINDOW_MAX) {
            return Err(format!("`ancestor_window_size` is {size}; it must be at most {WINDOW_MAX}"));
        }
        // Ledger numbers are 64-bit with a sign.
        let numbers = [
            ("max_total_descendants", self.max_total_descendants),
            ("max_repeats_per_capability", self.max_repeats_per_capability.map(NonZeroU64::get)),
            ("max_repeats_in_ancestor_window", self.max_repeats_in_ancestor_window.map(NonZeroU64::get)),
            ("recursion_budget", self.recursion_budget.map(NonZeroU64::get)),
            ("max_artifact_size_bytes", self.max_artifact_size_bytes),
        ];
        if let Some((name, _)) = numbers.iter().find(|(_, n)| n.is_some_and(|n| i64::try_from(n).is_err())) {
            return Err(format!("`{name}` is larger than {}", i64::MAX));
        }
        let lists = [
            ("capability_allowlist", self.capability_allowlist.as_ref().map(Vec::len)),
            ("capability_denylist", self.capability_denylist.as_ref().map(Vec::len)),
            ("allowed_targets", self.allowed_targets.as_ref().map(Vec::len)),
        ];
        if let Some((name, _)) = lists.iter().find(|(_, length)| length.is_some_and(|n| n > LIST_MAX)) {
            return Err(format!("`{name}` has more than {LIST_MAX} entries"));
        }
        for command in [&self.policy_command, &self.lineage_command].into_iter().flatten() {
            command.check()?;
        }
        match self.cache_ttl_seconds {
            Some(_) if self.policy_command.is_none() => {
                Err("`cache_ttl_seconds` is for the answer of a `policy_command`".to_owned())
            }
            Some(ttl) if ttl.get() > CACHE_TTL_S_MAX => {
                Err(format!("`cache_ttl_seconds` is {ttl}; it must be at most {CACHE_TTL_S_MAX}"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_of(text: &str) -> String {
        Policy::read("rules/admission/t/s/p.yaml", text).unwrap_err().to_string()
    }

    #[test]
    fn what_no_policy_may_say() {
        for (text, expect) in [
            ("max_total_descendants: 3\n", "missing field `max_spawn_depth`"),
            ("max_spawn_depth: 0\n", "expected a nonzero"),
            ("max_spawn_depth: -1\n", "max_spawn_depth"),
            ("max_spawn_depth: 3\nmax_total_descendants:\n", "max_total_descendants"),
            ("max_spawn_depth: 3\ncapability_allowlist: ~\n", "capability_allowlist"),
            ("max_spawn_depth: 3.5\n", "max_spawn_depth"),
            ("max_spawn_depth: 3\nmax_spawn_deph: 2\n", "unknown field `max_spawn_deph`"),
            ("max_spawn_depth: 3\nmax_spawn_depth: 4\n", "duplicate"),
            ("max_spawn_depth: 3\nforward_targets: [a]\n", "unknown field `forward_targets`"),
            ("max_spawn_depth: 3\nancestor_window_size: 3\n", "need each other"),
            ("max_spawn_depth: 3\nmax_repeats_in_ancestor_window: 3\n", "need each other"),
            (
                "max_spawn_depth: 3\nancestor_window_size: 65\nmax_repeats_in_ancestor_window: 1\n",
                "at most 64",
            ),
            ("max_spawn_depth: 3\nrecursion_budget: 0\n", "expected a nonzero"),
            ("max_spawn_depth: 3\nmax_repeats_per_capability: 0\n", "expected a nonzero"),
            ("max_spawn_depth: 3\nrecursion_budget: 9223372036854775808\n", "larger than"),
            ("max_spawn_depth: 3\ncapability_denylist: ['a b']\n", "not a capability"),
            ("max_spawn_depth: 3\ncache_ttl_seconds: 3\n", "is for the answer of a `policy_command`"),
            (
                "max_spawn_depth: 3\nlineage_command: {program: '', time_limit_s: 1, output_bytes_max: 9}\n",
                "`program` is empty",
            ),
        ] {
            let error = error_of(text);
            assert!(error.contains(expect), "{text}: {error}");
        }
    }

    #[test]
    fn a_delivered_profile_names_no_commands() {
        assert!(Profile::delivered("{\"max_spawn_depth\": 3}").is_ok());
        let text =
            "max_spawn_depth: 3\nlineage_command: {program: x, time_limit_s: 1, output_bytes_max: 9}\n";
        assert!(Profile::delivered(text).unwrap_err().contains("may not name commands"));
    }

    #[test]
    fn a_path_names_its_domain() {
        let domain = domain_of("rules/admission/tenant-123/api/default.yaml").unwrap().unwrap();
        assert_eq!(domain.to_string(), "tenant-123/api/default");
        for path in ["rules/admission/a.yaml", "rules/admission/a/b.yaml", "rules/admission/a/b/c/d.yaml"] {
            assert!(domain_of(path).unwrap().is_err(), "{path}");
        }
        assert!(domain_of("rules/safety.yaml").is_none());
    }
}
