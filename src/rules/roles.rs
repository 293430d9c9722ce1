//! `council/roles.yaml`: who is heard on what change, and what follows from the votes. Scores and what is
//! taken off them are whole tenths.

mod check;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::Deserialize;

use super::command::CommandRule;
use super::evidence::EvidencePolicy;
use super::principals::PrincipalRule;
use super::rulebook::RulebookError;
use super::yaml;
use crate::wire::amount::{self, Amount};
use crate::wire::council::{Artifacts, Axis, ChangeType};
use crate::wire::text;

/// Path of the file below a home.
pub const PATH: &str = "council/roles.yaml";

/// What holds in a home that has no such file.
pub const SHIPPED: &str = include_str!("../../council/roles.yaml");

/// Arithmetic of the gate that fills a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Computed {
    /// Whether the figures are possible.
    RealismChecker,
    /// Whether the figures are good enough.
    QuantResearcher,
}

/// One role of the roster.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RoleRule {
    /// Its name in briefs and decisions.
    pub name: String,
    /// Other spellings.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// Axes it answers for.
    // INVARIANT: not empty once compiled.
    #[schemars(length(min = 1), extend("uniqueItems" = true))]
    pub primary_axes: Vec<Axis>,
    /// Axis of its concerns.
    pub concern_axis: Axis,
    /// The arithmetic that fills it, where there is one.
    #[serde(default)]
    pub computed: Option<Computed>,
    /// The program that answers for it, where there is one.
    #[serde(default)]
    pub command: Option<CommandRule>,
    /// Its own bound on the confidence of approvals.
    #[serde(default, deserialize_with = "amount::yaml::optional")]
    #[schemars(schema_with = "crate::wire::schema::amount_0_to_1")]
    pub confidence_floor: Option<Amount>,
    /// Questions of its brief.
    #[serde(default)]
    #[schemars(length(max = check::LINES_MAX))]
    pub checklist: Vec<String>,
}

impl RoleRule {
    /// The axis of its vote and of the checks that it files itself: the first primary one.
    pub fn fail_axis(&self) -> Axis {
        self.primary_axes.first().copied().unwrap_or(self.concern_axis)
    }
}

/// What is taken off a score, and the most that is left of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VoteWeight {
    /// Taken off.
    #[schemars(schema_with = "crate::wire::schema::whole::<0, 100>")]
    pub deduct: u8,
    /// The most that is left.
    #[schemars(schema_with = "crate::wire::schema::whole::<0, 100>")]
    pub cap: u8,
}

/// What concerns cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConcernWeight {
    /// Each of them.
    #[schemars(schema_with = "crate::wire::schema::whole::<0, 100>")]
    pub deduct: u8,
    /// How many of one role count.
    #[schemars(schema_with = "crate::wire::schema::whole::<0, 100>")]
    pub per_role_max: u8,
}

/// What everything costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Weights {
    /// A score that nothing was taken off.
    #[schemars(schema_with = "crate::wire::schema::whole::<1, 100>")]
    pub start: u8,
    /// A role that rejects, on its first primary axis.
    pub reject: VoteWeight,
    /// A role that needs more information, on the same.
    pub unsure: VoteWeight,
    /// A failed check, major or blocker.
    #[schemars(schema_with = "crate::wire::schema::whole::<0, 100>")]
    pub failed_check: u8,
    /// A failed minor check.
    #[schemars(schema_with = "crate::wire::schema::whole::<0, 100>")]
    pub failed_minor: u8,
    /// Concerns.
    pub concern: ConcernWeight,
    /// Cap on the primary axes of a required role that is absent.
    #[schemars(schema_with = "crate::wire::schema::whole::<0, 100>")]
    pub absent_cap: u8,
    /// Cap on axes that no required role covers.
    #[schemars(schema_with = "crate::wire::schema::whole::<0, 100>")]
    pub not_assessed_cap: u8,
}

/// What a low score brings about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Floor {
    /// Below this: REJECT.
    #[schemars(schema_with = "crate::wire::schema::whole::<0, 100>")]
    pub reject_below: u8,
    /// Below this: NEEDS_MORE_INFO.
    #[schemars(schema_with = "crate::wire::schema::whole::<0, 100>")]
    pub unsure_below: u8,
}

/// The floor of one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AxisFloor {
    /// The axis.
    pub axis: Axis,
    /// Below this: REJECT.
    #[schemars(schema_with = "crate::wire::schema::whole::<0, 100>")]
    pub reject_below: u8,
    /// Below this: NEEDS_MORE_INFO.
    #[schemars(schema_with = "crate::wire::schema::whole::<0, 100>")]
    pub unsure_below: u8,
}

/// Limits of the decision's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TextRules {
    /// Longest quoted text, characters.
    #[schemars(schema_with = "crate::wire::schema::whole::<20, 4000>")]
    pub chars_max: u16,
    /// Below this a risk is significant.
    #[schemars(schema_with = "crate::wire::schema::whole::<0, 100>")]
    pub significant_below: u8,
    /// Below this it is material.
    #[schemars(schema_with = "crate::wire::schema::whole::<0, 100>")]
    pub material_below: u8,
    /// From this score on code and applicability are called sound.
    #[schemars(schema_with = "crate::wire::schema::whole::<0, 100>")]
    pub sound_from: u8,
}

/// What counts as missing although something stands there.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Placeholders {
    /// Whole texts; once compiled in lower case, letters and digits only.
    #[schemars(length(max = check::LINES_MAX))]
    pub whole: Vec<String>,
    /// Beginnings of a line; once compiled in lower case.
    #[schemars(length(max = check::LINES_MAX))]
    pub line_starts: Vec<String>,
}

impl Placeholders {
    /// Whether the text says nothing.
    pub fn stand_for_nothing(&self, text: &str) -> bool {
        let folded = text::fold(text);
        if folded.is_empty() || self.whole.contains(&folded) {
            return true;
        }
        text.lines().any(|line| {
            let line = line.trim_start().to_lowercase();
            let follows = |start: &String| line.strip_prefix(start.as_str());
            self.line_starts
                .iter()
                .filter_map(follows)
                .any(|rest| rest.chars().next().is_none_or(|c| !c.is_alphanumeric()))
        })
    }
}

/// What one type of change needs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeRule {
    /// Roles that must answer; once compiled by name and in roster order.
    #[schemars(length(min = 1))]
    pub required_roles: Vec<String>,
    /// Those of them whose rejection alone rejects.
    #[serde(default)]
    pub veto_roles: Vec<String>,
    /// Artifacts that must be there.
    #[serde(default)]
    #[schemars(schema_with = "artifacts_schema")]
    pub required_artifacts: Vec<String>,
    /// Figures that must be there.
    #[serde(default)]
    #[schemars(length(max = check::LINES_MAX), extend("uniqueItems" = true))]
    pub required_metrics: Vec<String>,
    /// How long roles may take, seconds.
    #[schemars(schema_with = "crate::wire::schema::whole::<1, { check::DEADLINE_S_MAX }>")]
    pub deadline_s: u32,
    /// Floors of its own.
    #[serde(default)]
    pub floors: Vec<AxisFloor>,
}

/// All types of change.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Changes {
    /// A strategy has passed its validation.
    #[serde(rename = "DECLARE_PASS")]
    pub declare_pass: ChangeRule,
    /// A specification is final.
    #[serde(rename = "FREEZE_SPEC")]
    pub freeze_spec: ChangeRule,
    /// A configuration changes.
    #[serde(rename = "UPDATE_CONFIG")]
    pub update_config: ChangeRule,
    /// Code changes and behaviour does not.
    #[serde(rename = "CODE_REFACTOR")]
    pub code_refactor: ChangeRule,
}

/// The file as it is written.
#[derive(Clone, Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RolesFile {
    /// The roster.
    #[schemars(length(min = 1, max = check::ROLES_MAX))]
    roles: Vec<RoleRule>,
    /// An approval needs this much confidence, 0 to 1, where its role has no bound of its own.
    #[serde(deserialize_with = "amount::yaml::required")]
    #[schemars(schema_with = "crate::wire::schema::amount_0_to_1")]
    confidence_floor: Amount,
    /// What everything costs, tenths.
    weights: Weights,
    /// Floors of all axes, tenths.
    axis_floor: Floor,
    /// Limits of the decision's text.
    text: TextRules,
    /// What counts as missing although something stands there.
    placeholders: Placeholders,
    /// What each type of change needs.
    changes: Changes,
    /// Thresholds of the computed checks.
    #[serde(default)]
    evidence: EvidencePolicy,
}

fn artifacts_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    crate::wire::schema::words(&Artifacts::NAMES)
}

/// The council's rules, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roles {
    /// The roles, in the order of the decision's text.
    pub roster: Vec<RoleRule>,
    /// An approval needs this much confidence, 0 to 1, where its role has no bound of its own.
    pub confidence_floor: Amount,
    /// What everything costs.
    pub weights: Weights,
    /// Floors of all axes.
    pub axis_floor: Floor,
    /// Limits of the decision's text.
    pub text: TextRules,
    /// What counts as missing.
    pub placeholders: Placeholders,
    /// What each type of change needs.
    pub changes: Changes,
    /// Thresholds of the computed checks.
    pub evidence: EvidencePolicy,
    /// Places in the roster by every folded spelling.
    by_spelling: BTreeMap<String, usize>,
}

impl Roles {
    /// Reads the file.
    ///
    /// # Errors
    /// [`RulebookError`]: unknown keys, roles or axes; a missing change type; two roles of one spelling; values
    /// out of range or in an order in which a worse vote would help.
    pub fn read(path: &str, text: &str) -> Result<Roles, RulebookError> {
        let file: RolesFile = yaml::read(path, text)?;
        check::compile(file).map_err(|message| RulebookError::new(path, None, message))
    }

    /// What holds in a home that has no file of its own.
    ///
    /// # Errors
    /// Never for a program that passed its tests: the shipped file is part of it.
    pub fn shipped() -> Result<Roles, RulebookError> {
        Roles::read(PATH, SHIPPED)
    }

    /// The role of the roster with this name or alias; case, spaces and punctuation do not matter.
    pub fn resolve(&self, spelling: &str) -> Option<&RoleRule> {
        self.by_spelling.get(&text::fold(spelling)).and_then(|place| self.roster.get(*place))
    }

    /// Whether a principal may speak for what its verdict calls its role.
    pub fn may_speak_for(&self, principal: &PrincipalRule, spelling: &str) -> bool {
        let key = self.key(spelling);
        principal.council_roles.iter().any(|role| self.key(role) == key)
    }

    /// What all spellings of one role have in common; empty where nothing can be read in it.
    pub fn key(&self, spelling: &str) -> String {
        self.resolve(spelling).map_or_else(|| text::fold(spelling), |role| text::fold(&role.name))
    }

    /// What this type of change needs.
    pub fn change(&self, change: ChangeType) -> &ChangeRule {
        match change {
            ChangeType::DeclarePass => &self.changes.declare_pass,
            ChangeType::FreezeSpec => &self.changes.freeze_spec,
            ChangeType::UpdateConfig => &self.changes.update_config,
            ChangeType::CodeRefactor => &self.changes.code_refactor,
        }
    }

    /// The roles that must answer, in roster order.
    pub fn required(&self, change: ChangeType) -> impl Iterator<Item = &RoleRule> {
        let required = &self.change(change).required_roles;
        self.roster.iter().filter(move |role| required.contains(&role.name))
    }

    /// Whether a required role answers for this axis.
    pub fn covers(&self, change: ChangeType, axis: Axis) -> bool {
        self.required(change).any(|role| role.primary_axes.contains(&axis))
    }

    /// The floor of an axis.
    pub fn floor(&self, change: ChangeType, axis: Axis) -> Floor {
        let own = self.change(change).floors.iter().find(|floor| floor.axis == axis);
        own.map_or(self.axis_floor, |own| Floor {
            reject_below: own.reject_below,
            unsure_below: own.unsure_below,
        })
    }

    /// The confidence an approval of this role needs; of a role off the roster the common one.
    pub fn confidence_floor(&self, role: Option<&RoleRule>) -> Amount {
        role.and_then(|role| role.confidence_floor).unwrap_or(self.confidence_floor)
    }

    /// The names of the roles a principal is to speak for: roster roles by their name, others as they stand.
    ///
    /// # Errors
    /// What is wrong with them, for whoever writes the file.
    pub(super) fn resolve_all(&self, spellings: &[String]) -> Result<Vec<String>, String> {
        let mut names = Vec::new();
        for spelling in spellings {
            check::role_name(spelling)?;
            let name = self.resolve(spelling).map_or(spelling, |role| &role.name);
            if names.iter().any(|other: &String| text::fold(other) == text::fold(name)) {
                return Err(format!("council role `{name}` stands twice"));
            }
            names.push(name.clone());
        }
        Ok(names)
    }
}
