//! `rules/principals.yaml`: who may sign requests, in which role, and for which strategies.

use serde::Deserialize;

use super::admission::Grant;
use super::bounds::AtLeast;
use super::yaml;
use spoolgate_wire::ids::{ConcernId, FamilyName, Principal, StrategyName, UnixUser};

spoolgate_wire::named! {
    /// The role of a principal; the action table says what each role may send.
    #[derive(
        Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, schemars::JsonSchema,
    )]
    pub enum Role {
        /// A person: clears halts, adjusts the account, manages keys. Never trades.
        Human = "human",
        /// A program that trades within its strategies.
        Agent = "agent",
        /// A program that delivers market data.
        Feed = "feed",
        /// A program that holds the keys of a venue. It carries out instructions and
        /// reports the results.
        Bridge = "bridge",
    }
}

/// One principal.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PrincipalRule {
    /// Its name, the `source` of its requests. Never reused for somebody else.
    pub name: Principal,
    /// Its role.
    pub role: Role,
    /// Strategies it may trade; only agents have any.
    #[serde(default)]
    pub strategies: Vec<StrategyName>,
    /// Name of its own spool directory below `spool/in`; if absent, it uses the flat spool.
    #[serde(default)]
    pub spool: Option<Principal>,
    /// The system user, by name or number, whose processes may send its requests through the
    /// socket; if absent, only those of the gate's own user may.
    #[serde(default)]
    pub unix_user: Option<UnixUser>,
    /// Its own bound on the age of requests, seconds; if absent, the bound of safety.yaml.
    #[serde(default)]
    pub request_age_max_s: Option<AtLeast<1>>,
    /// Council roles it may speak for; feeds and bridges have none. After compilation, roles of the
    /// roster have their roster names. The objection of a role outside the roster counts; its
    /// approval does not.
    #[serde(default)]
    pub council_roles: Vec<String>,
    /// Who runs it: principals of one operator are one signer before the council. If absent, it is one
    /// of its own.
    #[serde(default, deserialize_with = "yaml::present")]
    #[schemars(with = "Principal")]
    pub operator: Option<Principal>,
    /// The family of models that it speaks with.
    #[serde(default, deserialize_with = "yaml::present")]
    #[schemars(with = "FamilyName")]
    pub family: Option<FamilyName>,
    /// Outgoing actions that it may request; if absent, none.
    #[serde(default)]
    #[schemars(schema_with = "crate::gateway::actions_schema")]
    pub actions: Vec<String>,
    /// Concerns that it may decide on; if absent, it may only make things safer, and an agent only
    /// where its own strategy is current.
    #[serde(default)]
    pub control: ControlRight,
    /// Where its tasks may be admitted; if absent, nowhere.
    #[serde(default, deserialize_with = "yaml::present")]
    #[schemars(with = "Grant")]
    pub admission: Option<Grant>,
}

impl PrincipalRule {
    /// Returns the principal as which the council counts it: its operator, or itself if it declares
    /// none.
    pub fn operator(&self) -> &Principal {
        self.operator.as_ref().unwrap_or(&self.name)
    }
}

/// What a principal may decide by `control.apply`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ControlRight {
    /// Concerns that it may decide on. At least one strategy file belongs to each.
    pub concerns: Vec<ConcernId>,
    /// Whether it may use `override` on these concerns.
    #[serde(default, rename = "override")]
    pub overrides: bool,
}

/// The file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PrincipalsFile {
    /// All principals.
    pub principals: Vec<PrincipalRule>,
}
