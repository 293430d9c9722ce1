//! Contract 2, the council: the request, a role's answer and the decision. Shapes and names follow
//! the contract; `check_id`, `returns` and `trial_returns` are optional additions.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::value::RawValue;

use super::admin::is_digest;
use super::ids::RequestId;
use super::payload::PayloadError;
use super::time::Time;

crate::named! {
    /// The kinds of change that can be requested.
    #[derive(
        Clone,
        Copy,
        Debug,
        PartialEq,
        Eq,
        PartialOrd,
        Ord,
        Hash,
        Serialize,
        Deserialize,
        schemars::JsonSchema,
    )]
    pub enum ChangeType {
        /// A strategy passed its validation.
        DeclarePass = "DECLARE_PASS",
        /// A specification becomes final.
        FreezeSpec = "FREEZE_SPEC",
        /// A configuration changes.
        UpdateConfig = "UPDATE_CONFIG",
        /// Code changes but its behaviour does not.
        CodeRefactor = "CODE_REFACTOR",
    }
}

impl ChangeType {
    /// All kinds, in the contract's order.
    pub const ALL: [ChangeType; 4] = [
        ChangeType::DeclarePass,
        ChangeType::FreezeSpec,
        ChangeType::UpdateConfig,
        ChangeType::CodeRefactor,
    ];
}

/// A JSON value as its text, so that figures keep every digit they were sent with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonText(String);

impl JsonText {
    /// The text: one JSON value.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

crate::text_schema!(JsonText, schemars::json_schema!({}));

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

/// `council.request`: the change, with its evidence as inline text. Paths in it are never opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CouncilRequest {
    /// Id of the case; used once.
    pub request_id: RequestId,
    /// Time of writing, by the proposer's clock.
    pub timestamp: Time,
    /// The proposer, as the proposer calls itself. Only the signature shows who it really is.
    #[schemars(schema_with = "crate::schema::said::<NAME_BYTES_MAX>")]
    pub proposer: String,
    /// Kind of change.
    #[serde(deserialize_with = "super::word")]
    pub change_type: ChangeType,
    /// Summary of the change.
    pub context: Context,
    /// Its evidence.
    #[serde(default)]
    pub artifacts: Artifacts,
    /// Returns per period as fractions: an array of numbers, or CSV text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returns: Option<JsonText>,
    /// Returns of every configuration that was tried, one row per period and one column per trial:
    /// an array of arrays of numbers, or CSV text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial_returns: Option<JsonText>,
}

/// Longest name that a proposer or a role may give itself, in bytes.
const NAME_BYTES_MAX: usize = 200;

fn check_name(field: &'static str, name: &str) -> Result<(), PayloadError> {
    PayloadError::check_said(field, name, "give a name of", NAME_BYTES_MAX)
}

impl CouncilRequest {
    /// Checks what the shape cannot express.
    ///
    /// # Errors
    /// Returns a [`PayloadError`] with the field and what is expected there.
    pub fn validate(&self) -> Result<(), PayloadError> {
        check_name("proposer", &self.proposer)?;
        if self.request_id.is_alias() {
            let rule =
                "must not have the form of an alias, `c-` and 16 lower-case hexadecimal digits";
            return Err(PayloadError::form("request_id", rule));
        }
        if self.context.summary.trim().is_empty() {
            let rule = "is empty; say what the change is";
            return Err(PayloadError::form("context.summary", rule));
        }
        Ok(())
    }
}

/// Summary of the change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Context {
    /// The change in the proposer's words.
    #[schemars(schema_with = "crate::schema::said_at_length")]
    pub summary: String,
    /// Files that it changes; they are never opened.
    #[serde(default)]
    pub files_changed: Vec<String>,
    /// Figures by name, percentages in percent. Any name and any value is allowed; the evidence
    /// roles report what they could not use.
    #[serde(default)]
    pub key_metrics: BTreeMap<String, JsonText>,
}

/// The evidence as inline text.
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
    pub const NAMES: [&'static str; 4] = [
        "spec_content",
        "diff_content",
        "validation_report",
        "monte_carlo_stats",
    ];

    /// The artifact with this name, if it was sent.
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

/// `council.verdict`: a role's verdict about exactly these bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SubmitVerdict {
    /// The case: its alias or its id.
    pub request_id: RequestId,
    /// Payload hash of the request that the verdict is about, lower-case hex.
    #[schemars(schema_with = "crate::schema::hex::<64>")]
    pub request_sha256: String,
    /// The verdict, as the contract defines it.
    pub verdict: RoleVerdict,
}

impl SubmitVerdict {
    /// Checks what the shape cannot express.
    ///
    /// # Errors
    /// Returns a [`PayloadError`] with the field and what is expected there.
    pub fn validate(&self) -> Result<(), PayloadError> {
        if !is_digest(&self.request_sha256) {
            let rule = "must be 64 lower-case hex digits";
            return Err(PayloadError::form("request_sha256", rule));
        }
        check_name("verdict.role", &self.verdict.role)
    }
}

/// The verdict of one role.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RoleVerdict {
    /// Name of the role.
    #[schemars(schema_with = "crate::schema::said::<NAME_BYTES_MAX>")]
    pub role: String,
    /// One of the [`Stance`]s; anything else counts as NEEDS_MORE_INFO.
    pub verdict: String,
    /// Confidence from 0 to 1. It is stored. A missing, invalid or low one weakens an approval; no
    /// confidence strengthens a verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence_score: Option<JsonText>,
    /// Results of the role's checklist.
    #[serde(default)]
    pub checklist_results: Vec<ChecklistItem>,
    /// Concerns of the role.
    #[serde(default)]
    pub concerns: Vec<String>,
    /// Actions that the role demands.
    #[serde(default)]
    pub required_actions: Vec<String>,
}

/// A question of a role's checklist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChecklistItem {
    /// Id of the check, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check_id: Option<String>,
    /// The question.
    pub question: String,
    /// The answer; if `pass` is null, the reason for that.
    pub answer: String,
    /// Whether the check passed; null if that is unknown or does not apply.
    pub pass: Option<bool>,
}

crate::named! {
    /// A vote, from the worst to the best.
    #[derive(
        Clone,
        Copy,
        Debug,
        PartialEq,
        Eq,
        PartialOrd,
        Ord,
        Hash,
        Serialize,
        Deserialize,
        schemars::JsonSchema,
    )]
    pub enum Stance {
        /// Against the change.
        Reject = "REJECT",
        /// More information is needed first.
        NeedsMoreInfo = "NEEDS_MORE_INFO",
        /// For the change.
        Approve = "APPROVE",
    }
}

impl Stance {
    /// Reads the contract's exact word.
    pub fn parse(text: &str) -> Option<Stance> {
        [Stance::Reject, Stance::NeedsMoreInfo, Stance::Approve]
            .into_iter()
            .find(|stance| stance.as_str() == text)
    }
}

crate::named! {
    /// The axes on which a change is scored, in the contract's order.
    #[derive(
        Clone,
        Copy,
        Debug,
        PartialEq,
        Eq,
        PartialOrd,
        Ord,
        Hash,
        Serialize,
        Deserialize,
        schemars::JsonSchema,
    )]
    pub enum Axis {
        /// Whether its assumptions are sound.
        Assumptions = "assumptions",
        /// Whether it fits the situation in which it will be used.
        Applicability = "applicability",
        /// Whether the code does what it claims.
        CodeCorrectness = "code_correctness",
        /// Whether its novelty is plausible.
        RealisticNewness = "realistic_newness",
        /// Whether the result would hold on other data.
        Overfitting = "overfitting",
        /// What else changes as a consequence.
        Implications = "implications",
    }
}

impl Axis {
    /// All axes, in the contract's order: overfitting is axis 5.
    pub const ALL: [Axis; 6] = [
        Axis::Assumptions,
        Axis::Applicability,
        Axis::CodeCorrectness,
        Axis::RealisticNewness,
        Axis::Overfitting,
        Axis::Implications,
    ];

    /// The number, from 1.
    pub fn number(self) -> usize {
        Axis::ALL
            .iter()
            .position(|axis| *axis == self)
            .map_or(0, |index| index + 1)
    }
}

crate::named! {
    /// How severe a failed check is, from least to most.
    #[derive(
        Clone,
        Copy,
        Debug,
        PartialEq,
        Eq,
        PartialOrd,
        Ord,
        Hash,
        Serialize,
        Deserialize,
        schemars::JsonSchema,
    )]
    pub enum Severity {
        /// By default it costs half as many points as a more severe failure.
        Minor = "minor",
        /// A single one prevents an approval.
        Major = "major",
        /// A single one leads to a rejection.
        Blocker = "blocker",
    }
}

/// A score from 0.0 to 10.0, in tenths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tenths(u8);

impl Tenths {
    /// 10.0.
    pub const TEN: Tenths = Tenths(100);

    /// Makes a score from tenths; more than 100 tenths are 10.0.
    pub fn new(tenths: u8) -> Tenths {
        Tenths(tenths.min(100))
    }

    /// The score in tenths.
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

crate::text_schema!(
    Tenths,
    schemars::json_schema!({"type": "number", "minimum": 0, "maximum": 10, "description": "A score \
        from 0.0 to 10.0, one decimal."})
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
        tenths
            .map(Tenths)
            .ok_or_else(|| de::Error::custom(format!("`{text}` is not a score from 0.0 to 10.0")))
    }
}

/// The six scores; a high score is good on every axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AxisScores {
    /// Score of axis 1.
    pub assumptions: Tenths,
    /// Score of axis 2.
    pub applicability: Tenths,
    /// Score of axis 3.
    pub code_correctness: Tenths,
    /// Score of axis 4.
    pub realistic_newness: Tenths,
    /// Score of axis 5.
    pub overfitting: Tenths,
    /// Score of axis 6.
    pub implications: Tenths,
}

impl AxisScores {
    /// The score of an axis.
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

/// The council decision: exactly the contract's six fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CouncilDecision {
    /// Id of the case.
    pub request_id: RequestId,
    /// The outcome.
    pub final_outcome: Stance,
    /// The scores.
    pub axis_scores: AxisScores,
    /// The reasons, in a few sentences.
    pub summary_reasoning: String,
    /// Issues that prevent an approval.
    pub blocking_issues: Vec<String>,
    /// The next steps.
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
        for text in [
            "10.1", "-1.0", "1.00", "1e0", "\"1.0\"", ".5", "25.5", "25.6",
        ] {
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
        for (from, to) in [
            ("artifacts", "artefacts"),
            ("DECLARE_PASS", "MERGE"),
            ("summary", "sumary"),
        ] {
            assert!(
                serde_json::from_str::<CouncilRequest>(&text.replace(from, to)).is_err(),
                "{to}"
            );
        }
    }
}
