//! `council/roles.yaml`: which roles must answer on which type of change, and how the council
//! decision follows from their verdicts. Scores and deductions are whole tenths.

mod check;
mod error;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::Deserialize;

pub(crate) use error::RolesError;

use super::bounds::{Bounded, Share};
use super::command::CommandRule;
use super::evidence::EvidencePolicy;
use super::principals::PrincipalRule;
use super::rulebook::RulebookError;
use super::yaml;
use spoolgate_wire::amount::Amount;
#[cfg(feature = "schema")]
use spoolgate_wire::council::Artifacts;
use spoolgate_wire::council::{Axis, ChangeType};
use spoolgate_wire::ids::FamilyName;
use spoolgate_wire::text;

/// Path of the file below a home.
pub const PATH: &str = "council/roles.yaml";

/// The council of a home that has no such file.
pub const SHIPPED: &str = include_str!("../../../council/roles.yaml");

/// A role that the gate fills by computation.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Computed {
    /// Checks whether the figures are possible.
    RealismChecker,
    /// Checks whether the figures are good enough.
    QuantResearcher,
}

/// One role of the roster.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RoleRule {
    /// Its name in briefs and decisions.
    pub name: String,
    /// Other spellings of the name.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// Axes it answers for.
    // INVARIANT: not empty once compiled.
    #[schemars(length(min = 1), extend("uniqueItems" = true))]
    pub primary_axes: Vec<Axis>,
    /// The axis that its concerns count on.
    pub concern_axis: Axis,
    /// The computation that fills it, if there is one.
    #[serde(default)]
    pub computed: Option<Computed>,
    /// The program that answers for it, if there is one.
    #[serde(default)]
    pub command: Option<CommandRule>,
    /// The family of models of its program.
    #[serde(default, deserialize_with = "yaml::present")]
    #[schemars(with = "FamilyName")]
    pub family: Option<FamilyName>,
    /// Its own lower bound on the confidence of approvals.
    #[serde(default, deserialize_with = "yaml::present")]
    #[schemars(with = "Share")]
    pub confidence_floor: Option<Share>,
    /// Questions in its brief.
    #[serde(default)]
    #[schemars(length(max = check::LINES_MAX))]
    pub checklist: Vec<String>,
}

impl RoleRule {
    /// Returns all spellings of its name, aliases first.
    fn spellings(&self) -> impl Iterator<Item = &String> {
        self.aliases.iter().chain([&self.name])
    }

    /// Returns the axis of its vote and of the checks that it files itself: its first primary axis.
    pub fn fail_axis(&self) -> Axis {
        self.primary_axes
            .first()
            .copied()
            .unwrap_or(self.concern_axis)
    }
}

/// A score or a part of one, in tenths.
pub type Tenths = Bounded<0, 100, u8>;

/// The score before any deduction, in tenths.
pub type Start = Bounded<1, 100, u8>;

/// How a vote lowers a score.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VoteWeight {
    /// Tenths that are deducted.
    pub deduct: Tenths,
    /// The highest score that is possible afterwards, tenths.
    pub cap: Tenths,
}

/// How concerns lower a score.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConcernWeight {
    /// Tenths that each concern deducts.
    pub deduct: Tenths,
    /// Most concerns per role that count.
    pub per_role_max: Tenths,
}

/// How much everything lowers a score, in tenths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Weights {
    /// The score before any deduction.
    pub start: Start,
    /// A role rejects; on its first primary axis.
    pub reject: VoteWeight,
    /// A role needs more information; on its first primary axis.
    pub unsure: VoteWeight,
    /// A failed major or blocker check.
    pub failed_check: Tenths,
    /// A failed minor check.
    pub failed_minor: Tenths,
    /// Concerns.
    pub concern: ConcernWeight,
    /// Cap on the primary axes of a required role that did not answer.
    pub absent_cap: Tenths,
    /// Cap on axes that no required role answers for.
    pub not_assessed_cap: Tenths,
}

/// What follows from a low score.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Floor {
    /// Scores below this lead to REJECT.
    pub reject_below: Tenths,
    /// Scores below this lead to NEEDS_MORE_INFO.
    pub unsure_below: Tenths,
}

/// The floor of one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AxisFloor {
    /// The axis.
    pub axis: Axis,
    /// Scores below this lead to REJECT.
    pub reject_below: Tenths,
    /// Scores below this lead to NEEDS_MORE_INFO.
    pub unsure_below: Tenths,
}

/// Limits of the decision's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TextRules {
    /// Longest quoted text, characters.
    pub chars_max: Bounded<20, 4000, u16>,
    /// A risk is called significant below this score.
    pub significant_below: Tenths,
    /// A risk is called material below this score.
    pub material_below: Tenths,
    /// Code and applicability are called sound from this score on.
    pub sound_from: Tenths,
}

/// Texts that count as missing.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Placeholders {
    /// Texts that count as missing as a whole; after compilation in lower case, letters
    /// and digits only, as they look.
    #[schemars(length(max = check::LINES_MAX))]
    pub whole: Vec<String>,
    /// Beginnings of a line that make a text count as missing; after compilation as they look, in
    /// lower case.
    #[schemars(length(max = check::LINES_MAX))]
    pub line_starts: Vec<String>,
}

impl Placeholders {
    /// Returns whether the text counts as missing.
    pub fn stand_for_nothing(&self, text: &str) -> bool {
        self.are_all_of(text) || self.begin_one_of(text.lines())
    }

    /// Returns whether the text is one of these as a whole, or has neither letter nor digit.
    pub fn are_all_of(&self, text: &str) -> bool {
        let folded = text::fold(&text::look(text));
        folded.is_empty() || self.whole.contains(&folded)
    }

    /// Returns whether one of these lines begins with a placeholder.
    pub fn begin_one_of<'a>(&self, mut lines: impl Iterator<Item = &'a str>) -> bool {
        lines.any(|line| {
            // A mark of Markdown makes nothing of a placeholder.
            let is_mark =
                |c: char| c.is_whitespace() || matches!(c, '*' | '_' | '~' | '`' | '>' | '#');
            let line = text::look(line.trim_start_matches(is_mark));
            let follows = |start: &String| line.strip_prefix(start.as_str());
            self.line_starts
                .iter()
                .filter_map(follows)
                .any(|rest| rest.chars().next().is_none_or(|c| !c.is_alphanumeric()))
        })
    }
}

fn yes() -> bool {
    true
}

/// A number of families.
pub type FamiliesMin = Bounded<1, { check::ROLES_MAX as u32 }>;

/// How long a complete case still takes verdicts, seconds.
pub type SettleS = Bounded<0, { check::SETTLE_S_MAX }>;

/// How long an objection may lower an outcome, seconds.
pub type ObjectionS = Bounded<0, { check::DEADLINE_S_MAX }>;

/// What one type of change requires.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeRule {
    /// Roles that must answer; after compilation by roster name and in roster order.
    #[schemars(length(min = 1))]
    pub required_roles: Vec<String>,
    /// Required roles whose rejection alone leads to REJECT.
    #[serde(default)]
    pub veto_roles: Vec<String>,
    /// Artifacts that the request must bring.
    #[serde(default)]
    #[schemars(schema_with = "artifacts_schema")]
    pub required_artifacts: Vec<String>,
    /// Figures that the request must bring.
    #[serde(default)]
    #[schemars(length(max = check::LINES_MAX), extend("uniqueItems" = true))]
    pub required_metrics: Vec<String>,
    /// How long roles may take to answer, seconds.
    pub deadline_s: Bounded<1, { check::DEADLINE_S_MAX }>,
    /// Whether each seat that approves needs a signer of its own.
    #[serde(default = "yes")]
    pub distinct_signers: bool,
    /// Of how many families the signers of approving seats must be; signers without one are one
    /// family, and each person is one.
    #[serde(default = "FamiliesMin::least")]
    pub families_min: FamiliesMin,
    /// How long a case that waits for nobody still takes verdicts, seconds; 0 decides it behind the
    /// batch that completed it.
    #[serde(default = "SettleS::least")]
    pub settle_s: SettleS,
    /// How long after the decision a verdict that is not an approval still lowers the outcome,
    /// seconds.
    #[serde(default = "ObjectionS::usual::<604_800>")]
    pub objection_s: ObjectionS,
    /// Floors that replace `axis_floor` for single axes.
    #[serde(default)]
    pub floors: Vec<AxisFloor>,
}

/// The requirements of each type of change.
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
    /// Code changes, behaviour does not.
    #[serde(rename = "CODE_REFACTOR")]
    pub code_refactor: ChangeRule,
}

/// The file as it is written.
#[derive(Clone, Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RolesFile {
    /// The roster.
    #[schemars(length(min = 1, max = check::ROLES_MAX))]
    roles: Vec<RoleRule>,
    /// Confidence that an approval needs, 0 to 1, unless its role has its own bound.
    confidence_floor: Share,
    /// How much everything lowers a score, tenths.
    weights: Weights,
    /// Floors of all axes, tenths.
    axis_floor: Floor,
    /// Limits of the decision's text.
    text: TextRules,
    /// Texts that count as missing.
    placeholders: Placeholders,
    /// What each type of change requires.
    changes: Changes,
    /// Thresholds of the computed checks.
    #[serde(default)]
    evidence: EvidencePolicy,
}

#[cfg(feature = "schema")]
fn artifacts_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    spoolgate_wire::schema::words(&Artifacts::NAMES)
}

/// The council's rules, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roles {
    /// The roles, in the order of the decision's text.
    pub roster: Vec<RoleRule>,
    /// Confidence that an approval needs, 0 to 1, unless its role has its own bound.
    pub confidence_floor: Share,
    /// How much everything lowers a score, tenths.
    pub weights: Weights,
    /// Floors of all axes, tenths.
    pub axis_floor: Floor,
    /// Limits of the decision's text.
    pub text: TextRules,
    /// Texts that count as missing.
    pub placeholders: Placeholders,
    /// What each type of change requires.
    pub changes: Changes,
    /// Thresholds of the computed checks.
    pub evidence: EvidencePolicy,
    /// Index in the roster by folded spelling.
    by_spelling: BTreeMap<String, usize>,
}

impl Roles {
    /// Reads the file.
    ///
    /// # Errors
    /// Returns [`RulebookError`] for unknown keys, roles or axes, a missing change type, two roles
    /// with one spelling, values out of range, and weights with which a worse vote would help.
    pub fn read(path: &str, text: &str) -> Result<Roles, RulebookError> {
        let file: RolesFile = yaml::read(path, text)?;
        check::compile(file).map_err(|fault| RulebookError::new(path, None, fault))
    }

    /// Returns the shipped council.
    ///
    /// # Errors
    /// Never fails in a program that passed its tests, because the shipped file is compiled in.
    pub fn shipped() -> Result<Roles, RulebookError> {
        Roles::read(PATH, SHIPPED)
    }

    /// Returns the roster role with this name or alias. Case, spaces and punctuation do not matter.
    pub fn resolve(&self, spelling: &str) -> Option<&RoleRule> {
        self.by_spelling
            .get(&text::fold(spelling))
            .and_then(|place| self.roster.get(*place))
    }

    /// Returns whether a principal may speak for the role that its verdict names.
    pub fn may_speak_for(&self, principal: &PrincipalRule, spelling: &str) -> bool {
        let key = self.key(spelling);
        principal
            .council_roles
            .iter()
            .any(|role| self.key(role) == key)
    }

    /// Returns a key that is equal for all spellings of one role; empty if the text has no
    /// letter or digit.
    pub fn key(&self, spelling: &str) -> String {
        self.resolve(spelling)
            .map_or_else(|| text::fold(spelling), |role| text::fold(&role.name))
    }

    /// Returns what this type of change requires.
    pub fn change(&self, change: ChangeType) -> &ChangeRule {
        match change {
            ChangeType::DeclarePass => &self.changes.declare_pass,
            ChangeType::FreezeSpec => &self.changes.freeze_spec,
            ChangeType::UpdateConfig => &self.changes.update_config,
            ChangeType::CodeRefactor => &self.changes.code_refactor,
        }
    }

    /// Returns the roles that must answer, in roster order.
    pub fn required(&self, change: ChangeType) -> impl Iterator<Item = &RoleRule> {
        let required = &self.change(change).required_roles;
        self.roster
            .iter()
            .filter(move |role| required.contains(&role.name))
    }

    /// Returns whether a required role answers for this axis.
    pub fn covers(&self, change: ChangeType, axis: Axis) -> bool {
        self.required(change)
            .any(|role| role.primary_axes.contains(&axis))
    }

    /// Returns the floor of an axis.
    pub fn floor(&self, change: ChangeType, axis: Axis) -> Floor {
        let own = self
            .change(change)
            .floors
            .iter()
            .find(|floor| floor.axis == axis);
        own.map_or(self.axis_floor, |own| Floor {
            reject_below: own.reject_below,
            unsure_below: own.unsure_below,
        })
    }

    /// Returns the confidence that an approval of this role needs; `None` is a role
    /// outside the roster.
    pub fn confidence_floor(&self, role: Option<&RoleRule>) -> Amount {
        role.and_then(|role| role.confidence_floor)
            .unwrap_or(self.confidence_floor)
            .get()
    }

    /// Returns the names of the roles that a principal may speak for. Roster roles get their roster
    /// names, others stay as written.
    ///
    /// # Errors
    /// Returns [`RolesError`] for a text that cannot be a name, and for a role that is named twice.
    pub(super) fn resolve_all(&self, spellings: &[String]) -> Result<Vec<String>, RolesError> {
        let mut names = Vec::new();
        for spelling in spellings {
            check::role_name(spelling)?;
            let name = self.resolve(spelling).map_or(spelling, |role| &role.name);
            if names
                .iter()
                .any(|other: &String| text::fold(other) == text::fold(name))
            {
                return Err(RolesError::CouncilRoleTwice(name.clone()));
            }
            names.push(name.clone());
        }
        Ok(names)
    }
}
