//! `rules/principals.yaml`: who may sign, as what, and for which strategies.

use serde::Deserialize;

use super::admission::Grant;
use super::yaml;
use crate::wire::ids::{ConcernId, Principal, StrategyName};

/// What kind of signer a principal is; the action table says what each kind may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// A person: clears halts, adjusts the account, manages keys. Never trades.
    Human,
    /// A program that trades within its strategies.
    Agent,
    /// A program that delivers market data.
    Feed,
    /// A program that holds the keys of a venue: it carries out instructions and reports what became of them.
    Bridge,
}

impl Role {
    /// `human`, `agent`, `feed` or `bridge`.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Human => "human",
            Role::Agent => "agent",
            Role::Feed => "feed",
            Role::Bridge => "bridge",
        }
    }
}

/// One signer.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PrincipalRule {
    /// Its name, the `source` of its requests. Never reused for somebody else.
    pub name: Principal,
    /// What it is.
    pub role: Role,
    /// Strategies it may trade; only agents have any.
    #[serde(default)]
    pub strategies: Vec<StrategyName>,
    /// Name of its own spool directory under `spool/in`; absent: the flat spool.
    #[serde(default)]
    pub spool: Option<Principal>,
    /// Its own bound on the age of requests, in seconds; absent: that of safety.yaml.
    #[serde(default)]
    #[schemars(schema_with = "crate::wire::schema::whole_or_null::<1, { u32::MAX }>")]
    pub request_age_max_s: Option<u32>,
    /// Council roles it may speak for; feeds have none. Once compiled, those of the roster by their name there;
    /// any other name is a role whose objection counts and whose approval does not.
    #[serde(default)]
    pub council_roles: Vec<String>,
    /// Which of the actions that leave the machine it may ask for; absent: none.
    #[serde(default)]
    #[schemars(schema_with = "crate::rules::gateway::actions_schema")]
    pub actions: Vec<String>,
    /// What it may decide on; absent: nothing but what makes its own safer.
    #[serde(default)]
    pub control: ControlRight,
    /// Where its tasks may be admitted; absent: nowhere.
    #[serde(default, deserialize_with = "yaml::present")]
    #[schemars(with = "Grant")]
    pub admission: Option<Grant>,
}

/// What a principal may decide on by `control.apply`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ControlRight {
    /// Concerns, each of at least one strategy file.
    pub concerns: Vec<ConcernId>,
    /// Whether it may override there.
    #[serde(default, rename = "override")]
    pub overrides: bool,
}

/// The file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PrincipalsFile {
    /// All signers.
    pub principals: Vec<PrincipalRule>,
}
