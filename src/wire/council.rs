//! Contract 2, the council: what is asked for, what a role answers, what is decided. Shapes and names are the
//! contract's; `check_id`, `returns` and `trial_returns` are optional additions to them.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::value::RawValue;

use super::admin::is_digest;
use super::ids::RequestId;
use super::time::Time;

/// What kind of change is asked for. There is no other.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ChangeType {
    /// A strategy has passed its validation.
    DeclarePass,
    /// A specification is final.
    FreezeSpec,
    /// A configuration changes.
    UpdateConfig,
    /// Code changes and behaviour does not.
    CodeRefactor,
}

impl ChangeType {
    /// All of them, in the contract's order.
    pub const ALL: [ChangeType; 4] =
        [ChangeType::DeclarePass, ChangeType::FreezeSpec, ChangeType::UpdateConfig, ChangeType::CodeRefactor];

    /// `DECLARE_PASS`, `FREEZE_SPEC`, `UPDATE_CONFIG` or `CODE_REFACTOR`.
    pub fn as_str(self) -> &'static str {
        match self {
            ChangeType::DeclarePass => "DECLARE_PASS",
            ChangeType::FreezeSpec => "FREEZE_SPEC",
            ChangeType::UpdateConfig => "UPDATE_CONFIG",
            ChangeType::CodeRefactor => "CODE_REFACTOR",
        }
    }
}

/// A JSON value as its text: quoted figures keep every digit they were sent with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonText(String);

impl JsonText {
    /// The text, one JSON value.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

super::schema::text_schema!(JsonText, schemars::json_schema!({}));

impl<'de> Deserialize<'de> for JsonText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<JsonText, D::Error> {
        let raw = <Box<RawValue>>::deserialize(deserializer)?;
        Ok(JsonText(raw.get().to_owned()))
    }
}

impl Serialize for JsonText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw = RawValue::from_string(self.0.clone()).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

/// `council.request`: the change, with its evidence as inline text. No path named in it is ever opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CouncilRequest {
    /// Name of the case; used once.
    pub request_id: RequestId,
    /// When it was written, by its proposer's clock.
    pub timestamp: Time,
    /// Who proposes, in the proposer's words. Who it really is says the signature.
    #[schemars(schema_with = "crate::wire::schema::said::<NAME_BYTES_MAX>")]
    pub proposer: String,
    /// What kind of change.
    #[serde(deserialize_with = "super::word")]
    pub change_type: ChangeType,
    /// The change in short.
    pub context: Context,
    /// Its evidence.
    #[serde(default)]
    pub artifacts: Artifacts,
    /// Returns per period as fractions: an array of numbers, or CSV text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returns: Option<JsonText>,
    /// Returns of every configuration that was tried, a row a period and a column a trial: an array of
    /// arrays of numbers, or CSV text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial_returns: Option<JsonText>,
}

/// Longest name that a proposer or a role may give itself, bytes.
const NAME_BYTES_MAX: usize = 200;

fn check_name(what: &str, name: &str) -> Result<(), String> {
    if name.trim().is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(format!("`{what}` has {} bytes; give a name of 1 to {NAME_BYTES_MAX}", name.len()));
    }
    Ok(())
}

impl CouncilRequest {
    /// Checks what the shape alone does not say.
    ///
    /// # Errors
    /// Which field, and what it should be.
    pub fn validate(&self) -> Result<(), String> {
        check_name("proposer", &self.proposer)?;
        if self.context.summary.trim().is_empty() {
            return Err("`context.summary` is empty; say what the change is".to_owned());
        }
        Ok(())
    }
}

/// The change in short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Context {
    /// In the proposer's words.
    #[schemars(schema_with = "crate::wire::schema::said_at_length")]
    pub summary: String,
    /// Files it changes; never opened.
    #[serde(default)]
    pub files_changed: Vec<String>,
    /// Figures by name, percentages in percent. Any name and any value: the evidence roles say what they could not
    /// use.
    #[serde(default)]
    pub key_metrics: BTreeMap<String, JsonText>,
}

/// The evidence, inline.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Artifacts {
    /// The specification, Markdown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec_content: Option<String>,
    /// The change, a git diff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff_content: Option<String>,
    /// The report, Markdown tables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validation_report: Option<String>,
    /// Monte Carlo statistics, JSON as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub monte_carlo_stats: Option<String>,
}

impl Artifacts {
    /// Names of all artifacts.
    pub const NAMES: [&'static str; 4] =
        ["spec_content", "diff_content", "validation_report", "monte_carlo_stats"];

    /// The artifact of this name, where it was sent.
    pub fn get(&self, name: &str) -> Option<&str> {
        match name {
            "spec_content" => self.spec_content.as_deref(),
            "diff_content" => self.diff_content.as_deref(),
            "validation_report" => self.validation_report.as_deref(),
            "monte_carlo_stats" => self.monte_carlo_stats.as_deref(),
            _ => None,
        }
    }
}

/// `council.verdict`: what a role says about exactly these bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SubmitVerdict {
    /// The case.
    pub request_id: RequestId,
    /// Payload hash of the request it was formed on, lower-case hex.
    #[schemars(schema_with = "crate::wire::schema::hex::<64>")]
    pub request_sha256: String,
    /// The contract's object.
    pub verdict: RoleVerdict,
}

impl SubmitVerdict {
    /// Checks what the shape alone does not say.
    ///
    /// # Errors
    /// Which field, and what it should be.
    pub fn validate(&self) -> Result<(), String> {
        if !is_digest(&self.request_sha256) {
            return Err("`request_sha256` is not 64 lower-case hex digits".to_owned());
        }
        check_name("verdict.role", &self.verdict.role)
    }
}

/// What one role answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RoleVerdict {
    /// Its role.
    #[schemars(schema_with = "crate::wire::schema::said::<NAME_BYTES_MAX>")]
    pub role: String,
    /// One of the [`Stance`]s; anything else counts as NEEDS_MORE_INFO.
    pub verdict: String,
    /// From 0 to 1. Stored; a missing, invalid or low one weakens an approval and none strengthens anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence_score: Option<JsonText>,
    /// What it looked at.
    #[serde(default)]
    pub checklist_results: Vec<ChecklistItem>,
    /// What worries it.
    #[serde(default)]
    pub concerns: Vec<String>,
    /// What it wants done.
    #[serde(default)]
    pub required_actions: Vec<String>,
}

/// One question of a role's checklist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChecklistItem {
    /// Name of the check, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check_id: Option<String>,
    /// The question.
    pub question: String,
    /// The answer; the reason, where `pass` is null.
    pub answer: String,
    /// Whether it is good; null: unknown or not applicable.
    pub pass: Option<bool>,
}

/// A vote, from worst to best.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Stance {
    /// No.
    Reject,
    /// Not yet.
    NeedsMoreInfo,
    /// Yes.
    Approve,
}

impl Stance {
    /// The contract's word, exactly.
    pub fn parse(text: &str) -> Option<Stance> {
        [Stance::Reject, Stance::NeedsMoreInfo, Stance::Approve]
            .into_iter()
            .find(|stance| stance.as_str() == text)
    }

    /// `REJECT`, `NEEDS_MORE_INFO` or `APPROVE`.
    pub fn as_str(self) -> &'static str {
        match self {
            Stance::Reject => "REJECT",
            Stance::NeedsMoreInfo => "NEEDS_MORE_INFO",
            Stance::Approve => "APPROVE",
        }
    }
}

/// What a change is judged on, in the contract's order.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Axis {
    /// What is taken for granted.
    Assumptions,
    /// Whether it fits where it is to be used.
    Applicability,
    /// Whether the code does what it says.
    CodeCorrectness,
    /// Whether what is new is plausible.
    RealisticNewness,
    /// Whether the result would be there on other data.
    Overfitting,
    /// What else changes with it.
    Implications,
}

impl Axis {
    /// All of them, in the contract's order: overfitting is axis 5.
    pub const ALL: [Axis; 6] = [
        Axis::Assumptions,
        Axis::Applicability,
        Axis::CodeCorrectness,
        Axis::RealisticNewness,
        Axis::Overfitting,
        Axis::Implications,
    ];

    /// Its name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Axis::Assumptions => "assumptions",
            Axis::Applicability => "applicability",
            Axis::CodeCorrectness => "code_correctness",
            Axis::RealisticNewness => "realistic_newness",
            Axis::Overfitting => "overfitting",
            Axis::Implications => "implications",
        }
    }

    /// Its number, from 1.
    pub fn number(self) -> usize {
        Axis::ALL.iter().position(|axis| *axis == self).map_or(0, |index| index + 1)
    }
}

/// How bad a failed check is, from least to most.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Costs half.
    Minor,
    /// One leaves the question open.
    Major,
    /// One rejects.
    Blocker,
}

impl Severity {
    /// `minor`, `major` or `blocker`.
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Minor => "minor",
            Severity::Major => "major",
            Severity::Blocker => "blocker",
        }
    }
}

/// A score from 0.0 to 10.0, in tenths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tenths(u8);

impl Tenths {
    /// 10.0.
    pub const TEN: Tenths = Tenths(100);

    /// A score of so many tenths; more than 100 is 10.0.
    pub fn new(tenths: u8) -> Tenths {
        Tenths(tenths.min(100))
    }

    /// How many tenths.
    pub fn tenths(self) -> u8 {
        self.0
    }
}

impl fmt::Display for Tenths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0 / 10, self.0 % 10)
    }
}

impl Serialize for Tenths {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw = RawValue::from_string(self.to_string()).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

super::schema::text_schema!(
    Tenths,
    schemars::json_schema!({"type": "number", "minimum": 0, "maximum": 10, "description": "A score from 0.0 to 10.0, one decimal."})
);

impl<'de> Deserialize<'de> for Tenths {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Tenths, D::Error> {
        let raw = <Box<RawValue>>::deserialize(deserializer)?;
        let text = raw.get();
        let (whole, tenth) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        let tenths = Some(format!("{whole}{tenth}"))
            .filter(|_| tenth.len() == 1 && !whole.is_empty() && digits(whole) && digits(tenth))
            .and_then(|digits| digits.parse::<u8>().ok())
            .filter(|tenths| *tenths <= 100);
        tenths.map(Tenths).ok_or_else(|| de::Error::custom(format!("`{text}` is no score from 0.0 to 10.0")))
    }
}

/// The six scores; high is good on all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AxisScores {
    /// Axis 1.
    pub assumptions: Tenths,
    /// Axis 2.
    pub applicability: Tenths,
    /// Axis 3.
    pub code_correctness: Tenths,
    /// Axis 4.
    pub realistic_newness: Tenths,
    /// Axis 5.
    pub overfitting: Tenths,
    /// Axis 6.
    pub implications: Tenths,
}

impl AxisScores {
    /// The score of one axis.
    pub fn get(&self, axis: Axis) -> Tenths {
        match axis {
            Axis::Assumptions => self.assumptions,
            Axis::Applicability => self.applicability,
            Axis::CodeCorrectness => self.code_correctness,
            Axis::RealisticNewness => self.realistic_newness,
            Axis::Overfitting => self.overfitting,
            Axis::Implications => self.implications,
        }
    }
}

/// What is decided: exactly the contract's six fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CouncilDecision {
    /// The case.
    pub request_id: RequestId,
    /// The outcome.
    pub final_outcome: Stance,
    /// The scores.
    pub axis_scores: AxisScores,
    /// Why, in a few sentences.
    pub summary_reasoning: String,
    /// What stands in the way.
    pub blocking_issues: Vec<String>,
    /// What to do next.
    pub next_steps: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_written_with_one_decimal_and_read_back() {
        for tenths in 0..=100 {
            let score = Tenths::new(tenths);
            let text = serde_json::to_string(&score).unwrap();
            assert_eq!(text, format!("{}.{}", tenths / 10, tenths % 10));
            assert_eq!(serde_json::from_str::<Tenths>(&text).unwrap(), score);
        }
        for text in ["10.1", "-1.0", "1.00", "1e0", "\"1.0\"", ".5", "25.5", "25.6"] {
            assert!(serde_json::from_str::<Tenths>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_contract_s_own_request_is_read_and_a_typo_is_not() {
        let text = r#"{"request_id":"req_123456789","timestamp":"2025-12-09T12:00:00Z","proposer":"QuantResearchAgent_v1",
            "change_type":"DECLARE_PASS","context":{"summary":"s","files_changed":["a.md"],"key_metrics":
            {"total_return":15.4,"sharpe":1.2,"max_dd":-4.5,"oos_win_rate":55.0}},"artifacts":{"spec_content":"x",
            "diff_content":"x","validation_report":"x","monte_carlo_stats":"{}"}}"#;
        let request: CouncilRequest = serde_json::from_str(text).unwrap();
        assert_eq!(request.context.key_metrics["oos_win_rate"].as_str(), "55.0");
        for (from, to) in [("artifacts", "artefacts"), ("DECLARE_PASS", "MERGE"), ("summary", "sumary")] {
            assert!(serde_json::from_str::<CouncilRequest>(&text.replace(from, to)).is_err(), "{to}");
        }
    }
}
