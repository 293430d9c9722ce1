//! `rules/admission/<tenant>/<surface>/<profile>.yaml`: what may be admitted in a domain. Without a
//! file, nothing is admitted.

use serde::{Deserialize, Serialize};

use super::bounds::{AtLeast, Bounded, Count, Positive};
use super::command::{CommandError, CommandRule};
use super::rulebook::RulebookError;
use super::yaml;
use spoolgate_wire::admission::Domain;
use spoolgate_wire::ids::{Capability, DomainPart, Principal};
use spoolgate_wire::signing::sha256_hex;

/// Longest ancestor window. Each of its tasks is looked up, so it is bounded.
pub const WINDOW_MAX: u32 = 64;
/// Largest `roots_per_hour`. The gate remembers when each root was opened, so it is bounded.
pub const ROOTS_PER_HOUR_MAX: u32 = 10_000;
/// Largest `leases_per_hour`. The gate remembers when each lease was admitted, so it is bounded.
pub const LEASES_PER_HOUR_MAX: u32 = 1_000;
/// Where a payload names its target if the profile does not say.
pub const TARGET_POINTER: &str = "/target";
/// Longest `target_pointer`, bytes.
const POINTER_BYTES_MAX: usize = 256;
/// Longest text of `policy_version`, bytes.
const VERSION_BYTES_MAX: usize = 128;
/// Longest time that a delivered policy may be kept, seconds.
const CACHE_TTL_S_MAX: u32 = 86_400;
/// Most entries of a list in a profile.
const LIST_MAX: usize = 10_000;
/// How long a delivered profile is kept if the file does not say, seconds; the
/// specification's default.
pub const CACHE_TTL_S: u32 = 300;

/// Why a profile cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// It cannot be parsed.
    #[error(transparent)]
    Form(#[from] RulebookError),
    /// Its version is too long.
    #[error("`policy_version` is longer than {VERSION_BYTES_MAX} bytes")]
    LongVersion,
    /// The limit within the ancestor window, or the window's size, is missing.
    #[error("`max_repeats_in_ancestor_window` and `ancestor_window_size` need each other")]
    HalfAWindow,
    /// A budget, or what every task reserves of it, is missing.
    #[error("`budget_{0}` and `reserve_{0}` need each other")]
    HalfABudget(&'static str),
    /// A pointer to the target is no JSON pointer to a part of a payload.
    #[error(
        "`target_pointer` must be a JSON pointer of at most {POINTER_BYTES_MAX} bytes, such as \
            `/args/target`"
    )]
    NoPointer,
    /// It says where a target is, and allows every target.
    #[error("`target_pointer` is for `allowed_targets`")]
    IdlePointer,
    /// A list is too long.
    #[error("`{0}` has more than {LIST_MAX} entries")]
    LongList(&'static str),
    /// A command cannot be started.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// It limits how long the answer of a policy command is kept, and there is no such command.
    #[error("`cache_ttl_seconds` is for the answer of a `policy_command`")]
    NothingToCache,
    /// A policy command delivered it, and it names commands.
    #[error("a delivered profile may not name commands")]
    NamesCommands,
    /// A policy command delivered it, and it names principals that settle.
    #[error("a delivered profile may not name `settlers`")]
    NamesSettlers,
}

/// Limits of one domain; the names are those of SPEC-IG-0000. Absent members do not limit anything;
/// depth is always limited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Version that receipts name.
    #[serde(
        default,
        deserialize_with = "yaml::present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "spoolgate_wire::schema::short::<VERSION_BYTES_MAX>")]
    pub policy_version: Option<String>,
    /// Tasks of this depth or more are denied; roots have depth 0.
    pub max_spawn_depth: AtLeast<1>,
    /// Most tasks below a root.
    #[serde(
        default,
        deserialize_with = "yaml::present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Count<0>")]
    pub max_total_descendants: Option<Count<0>>,
    /// Most tasks of one capability in a tree, including the root's.
    #[serde(
        default,
        deserialize_with = "yaml::present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Count<1>")]
    pub max_repeats_per_capability: Option<Count<1>>,
    /// How often a capability may occur among the nearest ancestors.
    #[serde(
        default,
        deserialize_with = "yaml::present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Count<1>")]
    pub max_repeats_in_ancestor_window: Option<Count<1>>,
    /// How many of the nearest ancestors are looked at.
    #[serde(
        default,
        deserialize_with = "yaml::present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Bounded<1, WINDOW_MAX>")]
    pub ancestor_window_size: Option<Bounded<1, WINDOW_MAX>>,
    /// Tasks that may be admitted in a tree, including the root. The budget is set when the
    /// root is opened.
    #[serde(
        default,
        deserialize_with = "yaml::present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Count<1>")]
    pub recursion_budget: Option<Count<1>>,
    /// Money that the tasks of a tree may spend together, USD. The budget is set when the root is
    /// opened.
    #[serde(
        default,
        deserialize_with = "yaml::present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Positive")]
    pub budget_usd: Option<Positive>,
    /// The least money that every task of a tree with such a budget reserves, USD.
    #[serde(
        default,
        deserialize_with = "yaml::present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Positive")]
    pub reserve_usd: Option<Positive>,
    /// Tokens that the tasks of a tree may spend together. The budget is set when the root is
    /// opened.
    #[serde(
        default,
        deserialize_with = "yaml::present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Count<1>")]
    pub budget_tokens: Option<Count<1>>,
    /// The least number of tokens that every task of a tree with such a budget reserves.
    #[serde(
        default,
        deserialize_with = "yaml::present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Count<1>")]
    pub reserve_tokens: Option<Count<1>>,
    /// Age above which a tree admits nothing, seconds since its root by the gate's clock.
    #[serde(
        default,
        deserialize_with = "yaml::present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "AtLeast<1>")]
    pub max_tree_age_s: Option<AtLeast<1>>,
    /// Principals that report finally what a task has spent. None of them has a grant in this
    /// domain.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = LIST_MAX))]
    pub settlers: Vec<Principal>,
    /// The only capabilities that are admitted; if empty, none.
    #[serde(
        default,
        deserialize_with = "yaml::present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Vec<Capability>", length(max = LIST_MAX))]
    pub capability_allowlist: Option<Vec<Capability>>,
    /// Capabilities that are never admitted.
    #[serde(
        default,
        deserialize_with = "yaml::present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Vec<Capability>", length(max = LIST_MAX))]
    pub capability_denylist: Option<Vec<Capability>>,
    /// The only targets of a payload; a payload without one is denied.
    #[serde(
        default,
        deserialize_with = "yaml::present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Vec<String>", length(max = LIST_MAX))]
    pub allowed_targets: Option<Vec<String>>,
    /// JSON pointer to the target in a payload; if absent, `/target`.
    #[serde(
        default,
        deserialize_with = "yaml::present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "pointer_schema")]
    pub target_pointer: Option<String>,
    /// Whether anything other than leases is admitted.
    #[serde(default = "yes")]
    pub can_spawn: bool,
    /// Leases without causality that one key may have admitted within any hour; if absent, none.
    #[serde(
        default,
        deserialize_with = "yaml::present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Bounded<0, LEASES_PER_HOUR_MAX>")]
    pub leases_per_hour: Option<Bounded<0, LEASES_PER_HOUR_MAX>>,
    /// Largest artifact, bytes.
    #[serde(
        default,
        deserialize_with = "yaml::present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Count<0>")]
    pub max_artifact_size_bytes: Option<Count<0>>,
    /// A program that delivers a second profile. Both profiles apply, so it can only be stricter.
    #[serde(
        default,
        deserialize_with = "yaml::present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "CommandRule")]
    pub policy_command: Option<CommandRule>,
    /// How long the delivered profile is kept, seconds.
    #[serde(
        default,
        deserialize_with = "yaml::present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Bounded<1, CACHE_TTL_S_MAX>")]
    pub cache_ttl_seconds: Option<Bounded<1, CACHE_TTL_S_MAX>>,
    /// A program that knows more about a task's lineage than the ledger. The higher count applies.
    #[serde(
        default,
        deserialize_with = "yaml::present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "CommandRule")]
    pub lineage_command: Option<CommandRule>,
}

fn yes() -> bool {
    true
}

#[cfg(feature = "schema")]
fn pointer_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "string",
        "pattern": "^(/([^/~]|~[01])*)+$",
        "maxLength": POINTER_BYTES_MAX,
    })
}

/// Returns whether a text is a JSON pointer (RFC 6901) to a part of a value.
fn is_pointer(text: &str) -> bool {
    let is_escaped = |rest: &str| rest.starts_with(['0', '1']);
    text.starts_with('/')
        && text.len() <= POINTER_BYTES_MAX
        && text.split('~').skip(1).all(is_escaped)
}

/// The policy of one domain, with the hash of its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Its limits.
    pub profile: Profile,
    /// SHA-256 of the file's bytes, hex.
    pub sha256: String,
}

/// What a principal may have admitted.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// Domains that it may speak for. The first is used for causality that a request carries
    /// beside its payload.
    #[schemars(length(min = 1))]
    pub domains: Vec<Domain>,
    /// Roots that it may open within any hour; if absent, none.
    #[serde(
        default,
        deserialize_with = "yaml::present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Bounded<1, ROOTS_PER_HOUR_MAX>")]
    pub roots_per_hour: Option<Bounded<1, ROOTS_PER_HOUR_MAX>>,
    /// Whether every request that admission can refuse must carry causality.
    #[serde(default)]
    pub required: bool,
}

/// Returns the domain of a policy file by its path, or `None` if the path is not below
/// `rules/admission`.
///
/// # Errors
/// Returns [`RulebookError`] for a path below `rules/admission` that does not name a domain.
pub fn domain_of(path: &str) -> Option<Result<Domain, RulebookError>> {
    let below = path.strip_prefix("rules/admission/")?;
    let named = |what: &str| RulebookError::new(path, None, what);
    let parts: Vec<&str> = below.split('/').collect();
    let [tenant, surface, file] = parts.as_slice() else {
        return Some(Err(named(
            "a policy is rules/admission/<tenant>/<surface>/<profile>.yaml",
        )));
    };
    let profile = file.strip_suffix(".yaml").unwrap_or(file);
    let part = |text: &str| DomainPart::parse(text).map_err(|error| named(&error.to_string()));
    let domain = || {
        Ok(Domain {
            tenant: part(tenant)?,
            surface: part(surface)?,
            profile: part(profile)?,
        })
    };
    Some(domain())
}

impl Policy {
    /// Reads a policy file.
    ///
    /// # Errors
    /// Returns [`RulebookError`] for unknown keys and limits that make no sense.
    pub fn read(path: &str, text: &str) -> Result<Policy, RulebookError> {
        let profile: Profile = yaml::read(path, text)?;
        profile
            .check()
            .map_err(|fault| RulebookError::new(path, None, fault))?;
        Ok(Policy {
            profile,
            sha256: sha256_hex(text.as_bytes()),
        })
    }
}

impl Profile {
    /// Parses the output of a policy command: YAML or JSON with the keys of a policy file, except
    /// the keys about commands.
    ///
    /// # Errors
    /// Returns [`ProfileError`] if the text is not such a profile.
    pub fn delivered(text: &str) -> Result<Profile, ProfileError> {
        let profile: Profile = yaml::read("policy_command", text)?;
        profile.check()?;
        if profile.policy_command.is_some()
            || profile.cache_ttl_seconds.is_some()
            || profile.lineage_command.is_some()
        {
            return Err(ProfileError::NamesCommands);
        }
        if !profile.settlers.is_empty() {
            return Err(ProfileError::NamesSettlers);
        }
        Ok(profile)
    }

    fn check(&self) -> Result<(), ProfileError> {
        let version = self.policy_version.as_ref();
        if version.is_some_and(|text| text.len() > VERSION_BYTES_MAX) {
            return Err(ProfileError::LongVersion);
        }
        if self.max_repeats_in_ancestor_window.is_some() != self.ancestor_window_size.is_some() {
            return Err(ProfileError::HalfAWindow);
        }
        if self.budget_usd.is_some() != self.reserve_usd.is_some() {
            return Err(ProfileError::HalfABudget("usd"));
        }
        if self.budget_tokens.is_some() != self.reserve_tokens.is_some() {
            return Err(ProfileError::HalfABudget("tokens"));
        }
        if let Some(pointer) = &self.target_pointer {
            if !is_pointer(pointer) {
                return Err(ProfileError::NoPointer);
            }
            if self.allowed_targets.is_none() {
                return Err(ProfileError::IdlePointer);
            }
        }
        let lists = [
            ("settlers", Some(self.settlers.len())),
            (
                "capability_allowlist",
                self.capability_allowlist.as_ref().map(Vec::len),
            ),
            (
                "capability_denylist",
                self.capability_denylist.as_ref().map(Vec::len),
            ),
            (
                "allowed_targets",
                self.allowed_targets.as_ref().map(Vec::len),
            ),
        ];
        if let Some((name, _)) = lists
            .iter()
            .find(|(_, length)| length.is_some_and(|n| n > LIST_MAX))
        {
            return Err(ProfileError::LongList(name));
        }
        for command in [&self.policy_command, &self.lineage_command]
            .into_iter()
            .flatten()
        {
            command.check()?;
        }
        match self.cache_ttl_seconds {
            Some(_) if self.policy_command.is_none() => Err(ProfileError::NothingToCache),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_of(text: &str) -> String {
        Policy::read("rules/admission/t/s/p.yaml", text)
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn policies_that_must_not_load() {
        for (text, expect) in [
            (
                "max_total_descendants: 3\n",
                "missing field `max_spawn_depth`",
            ),
            ("max_spawn_depth: 0\n", "is `0`; use a whole number from 1"),
            ("max_spawn_depth: -1\n", "max_spawn_depth"),
            (
                "max_spawn_depth: 3\nmax_total_descendants:\n",
                "max_total_descendants",
            ),
            (
                "max_spawn_depth: 3\ncapability_allowlist: ~\n",
                "capability_allowlist",
            ),
            ("max_spawn_depth: 3.5\n", "max_spawn_depth"),
            (
                "max_spawn_depth: 3\nmax_spawn_deph: 2\n",
                "unknown field `max_spawn_deph`",
            ),
            ("max_spawn_depth: 3\nmax_spawn_depth: 4\n", "duplicate"),
            (
                "max_spawn_depth: 3\nforward_targets: [a]\n",
                "unknown field `forward_targets`",
            ),
            (
                "max_spawn_depth: 3\nancestor_window_size: 3\n",
                "need each other",
            ),
            (
                "max_spawn_depth: 3\nmax_repeats_in_ancestor_window: 3\n",
                "need each other",
            ),
            (
                "max_spawn_depth: 3\nancestor_window_size: 65\nmax_repeats_in_ancestor_window: 1\n",
                "window_size` is `65`; use a whole number from 1 to 64",
            ),
            (
                "max_spawn_depth: 3\nrecursion_budget: 0\n",
                "is `0`; use a whole number from 1",
            ),
            (
                "max_spawn_depth: 3\nmax_repeats_per_capability: 0\n",
                "is `0`; use a whole number from 1",
            ),
            (
                "max_spawn_depth: 3\nrecursion_budget: 9223372036854775808\n",
                "use a whole number from 1 to 9223372036854775807",
            ),
            (
                "max_spawn_depth: 3\ncapability_denylist: ['a b']\n",
                "not a capability",
            ),
            (
                "max_spawn_depth: 3\ncache_ttl_seconds: 3\n",
                "is for the answer of a `policy_command`",
            ),
            (
                "max_spawn_depth: 3\nlineage_command: {program: '', time_limit_s: 1, \
                    output_bytes_max: 9}\n",
                "`program` is empty",
            ),
        ] {
            let error = error_of(text);
            assert!(error.contains(expect), "{text}: {error}");
        }
    }

    #[test]
    fn budgets_rates_and_targets_that_must_not_load() {
        for (text, expect) in [
            (
                "max_spawn_depth: 3\nbudget_usd: 1.00\n",
                "`budget_usd` and `reserve_usd` need each other",
            ),
            (
                "max_spawn_depth: 3\nreserve_tokens: 1\n",
                "`budget_tokens` and `reserve_tokens` need each other",
            ),
            (
                "max_spawn_depth: 3\nbudget_usd: 1.00\nreserve_usd: 0\n",
                "is `0`; use an amount above 0",
            ),
            (
                "max_spawn_depth: 3\nbudget_tokens: 5\nreserve_tokens: 0\n",
                "is `0`; use a whole number from 1",
            ),
            (
                "max_spawn_depth: 3\nmax_tree_age_s: 0\n",
                "is `0`; use a whole number from 1",
            ),
            (
                "max_spawn_depth: 3\nleases_per_hour: 1001\n",
                "is `1001`; use a whole number from 0 to 1000",
            ),
            (
                "max_spawn_depth: 3\ntarget_pointer: /target\n",
                "`target_pointer` is for `allowed_targets`",
            ),
            (
                "max_spawn_depth: 3\nallowed_targets: [a]\ntarget_pointer: target\n",
                "must be a JSON pointer",
            ),
            (
                "max_spawn_depth: 3\nallowed_targets: [a]\ntarget_pointer: /a~2b\n",
                "must be a JSON pointer",
            ),
            ("max_spawn_depth: 3\nsettlers: ~\n", "settlers"),
        ] {
            let error = error_of(text);
            assert!(error.contains(expect), "{text}: {error}");
        }
    }

    #[test]
    fn a_delivered_profile_names_no_commands() {
        assert!(Profile::delivered("{\"max_spawn_depth\": 3}").is_ok());
        let text = "max_spawn_depth: 3\nlineage_command: {program: x, time_limit_s: 1, \
            output_bytes_max: 9}\n";
        assert!(
            Profile::delivered(text)
                .unwrap_err()
                .to_string()
                .contains("may not name commands")
        );
    }

    #[test]
    fn a_delivered_profile_names_no_settlers() {
        let told = Profile::delivered("{\"max_spawn_depth\": 3, \"settlers\": [meter]}");
        assert_eq!(told, Err(ProfileError::NamesSettlers));
    }

    #[test]
    fn a_pointer_has_at_most_256_bytes() {
        for (length, expect) in [(255, true), (256, true), (257, false)] {
            assert_eq!(is_pointer(&format!("/{}", "a".repeat(length - 1))), expect);
        }
        assert!(is_pointer("/") && is_pointer("/a~0b/~1") && !is_pointer("") && !is_pointer("/~"));
    }

    #[test]
    fn a_path_names_its_domain() {
        let domain = domain_of("rules/admission/tenant-123/api/default.yaml")
            .unwrap()
            .unwrap();
        assert_eq!(domain.to_string(), "tenant-123/api/default");
        for path in [
            "rules/admission/a.yaml",
            "rules/admission/a/b.yaml",
            "rules/admission/a/b/c/d.yaml",
        ] {
            assert!(domain_of(path).unwrap().is_err(), "{path}");
        }
        assert!(domain_of("rules/safety.yaml").is_none());
    }
}
