//! Contract 3, control decisions: the controller's request and the gate's response. Shapes and
//! names follow the contract; `cancelled_orders`, `positions_kept`, `would_be` and
//! `retry_after_ms` are additions to `result`, which the contract leaves open.

mod confidence;
pub mod fault;

use std::collections::BTreeMap;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

pub use fault::ControlFault;

use super::amount::Amount;
use super::ids::{ConcernId, ConcernPart, ControlId, OrderId, StrategyName, Symbol};
use super::payload::PayloadError;
use super::shape;
use super::time::Time;

/// Longest reason of a decision, in bytes.
pub const CONTROL_REASON_BYTES_MAX: usize = 1000;
/// Longest unsupported action that is echoed, in bytes.
const ECHO_BYTES_MAX: usize = 64;

crate::named! {
    /// The possible actions of a control decision.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
    pub enum ControlAction {
        /// Runs another strategy of the concern from now on.
        Switch = "switch",
        /// Stops entries of the current strategy.
        Pause = "pause",
        /// Allows entries of the strategy again.
        Resume = "resume",
        /// Sets how much the concern may risk.
        SetRiskMode = "set_risk_mode",
    }
}

impl ControlAction {
    /// All actions, in the contract's order.
    pub const ALL: [ControlAction; 4] = [
        ControlAction::Switch,
        ControlAction::Pause,
        ControlAction::Resume,
        ControlAction::SetRiskMode,
    ];
}

crate::named! {
    /// How much may be risked, from the loosest mode to the strictest.
    #[derive(
        Clone,
        Copy,
        Debug,
        Default,
        PartialEq,
        Eq,
        PartialOrd,
        Ord,
        Serialize,
        Deserialize,
        schemars::JsonSchema,
    )]
    pub enum RiskMode {
        /// The limits of the rule files.
        #[default]
        Normal = "normal",
        /// Every limit on size and risk is multiplied by `reduced_risk_factor` of safety.yaml.
        Reduced = "reduced",
        /// No entries.
        ExitsOnly = "exits_only",
    }
}

/// `control.apply`: the contract's request, exactly.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ControlDecision {
    /// Id of the decision; used once per sender.
    pub decision_id: ControlId,
    /// The concern: `account_id:market_symbol`.
    pub concern_id: ConcernId,
    /// The account.
    pub account_id: ConcernPart,
    /// The market.
    pub market_symbol: ConcernPart,
    /// The action.
    #[serde(deserialize_with = "super::word")]
    pub action: ControlAction,
    /// The strategy that the action applies to; required for `switch`.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "ControlId")]
    pub target_strategy_id: Option<ControlId>,
    /// The strategy that the controller believes is active: absent means no expectation, null means
    /// that none is active.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Option<ControlId>")]
    pub expected_active_strategy_id: Option<Option<ControlId>>,
    /// The mode to set; with another action, the mode that is expected to be in force afterwards.
    #[serde(default, deserialize_with = "present_word")]
    #[schemars(with = "RiskMode")]
    pub risk_mode: Option<RiskMode>,
    /// The reason, for people.
    #[schemars(schema_with = "crate::schema::said::<CONTROL_REASON_BYTES_MAX>")]
    pub reason: String,
    /// Confidence from 0 to 1.
    #[serde(deserialize_with = "confidence")]
    #[schemars(schema_with = "crate::schema::number_0_to_1")]
    pub confidence: Amount,
    /// Only report what would happen.
    #[serde(default)]
    pub dry_run: bool,
    /// Ignore the expectation and degraded execution, and nothing else.
    #[serde(default, rename = "override")]
    pub overrides: bool,
    /// Time of the decision by the controller's clock; an old or a future one is refused, unless
    /// the decision makes nothing riskier.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Time")]
    pub requested_at: Option<Time>,
}

/// Reads an optional field that, if present, has its type; null is allowed only if the type has it.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

fn present_word<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    super::word(deserializer).map(Some)
}

fn confidence<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Amount, D::Error> {
    let raw = <&RawValue>::deserialize(deserializer)?;
    confidence::parse(raw.get()).ok_or_else(|| D::Error::custom(ControlError::Confidence))
}

impl ControlDecision {
    /// Checks what the shape cannot express.
    fn validate(&self) -> Result<(), ControlError> {
        let most = CONTROL_REASON_BYTES_MAX;
        PayloadError::check_said("reason", &self.reason, "say why in", most)?;
        match self.action {
            ControlAction::Switch if self.target_strategy_id.is_none() => {
                Err(ControlError::NoTarget)
            }
            ControlAction::SetRiskMode if self.risk_mode.is_none() => Err(ControlError::NoRiskMode),
            _ => Ok(()),
        }
    }
}

/// Why a payload is not a control decision.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// The action does not exist. Its name is cut.
    #[error("`{0}` is not an action; use switch, pause, resume or set_risk_mode")]
    UnknownAction(String),
    /// The confidence is out of its range, or not a number.
    #[error("`confidence` is not a JSON number from 0 to 1")]
    Confidence,
    /// A switch names no target.
    #[error("`switch` needs `target_strategy_id`")]
    NoTarget,
    /// A change of the risk mode names no mode.
    #[error("`set_risk_mode` needs `risk_mode`")]
    NoRiskMode,
    /// The shape is wrong in any other way.
    #[error(transparent)]
    Malformed(#[from] PayloadError),
}

impl ControlError {
    /// The member that it is about, if it is about a single one.
    pub fn member(&self) -> Option<&'static str> {
        match self {
            ControlError::UnknownAction(_) => Some("action"),
            ControlError::Confidence => Some("confidence"),
            ControlError::NoTarget => Some("target_strategy_id"),
            ControlError::NoRiskMode => Some("risk_mode"),
            ControlError::Malformed(_) => None,
        }
    }

    /// The code in `errors` of the answer.
    pub fn fault(&self) -> ControlFault {
        match self {
            ControlError::UnknownAction(_) => ControlFault::ActionNotSupported,
            ControlError::Confidence => ControlFault::ConfidenceOutOfRange,
            ControlError::NoTarget | ControlError::NoRiskMode | ControlError::Malformed(_) => {
                ControlFault::Malformed
            }
        }
    }
}

/// The parts of a payload that could be read, even if it is malformed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlEcho {
    /// Id of the decision.
    pub decision_id: Option<ControlId>,
    /// Id of the concern.
    pub concern_id: Option<ConcernId>,
    /// The action, supported or not.
    pub action: Option<String>,
    /// Whether it is a dry run. `None` if that cannot be read.
    pub dry_run: Option<bool>,
}

/// A payload of `control.apply`. Reading never fails, because even a payload of the wrong shape is
/// answered with the contract's response.
#[derive(Clone, Debug)]
pub struct ControlAttempt {
    /// The parts that could be read.
    pub echo: ControlEcho,
    /// The decision, or why the payload is not one.
    pub decision: Result<ControlDecision, ControlError>,
}

impl ControlAttempt {
    /// Reads any JSON text.
    pub fn read(text: &str) -> ControlAttempt {
        let members: BTreeMap<String, &RawValue> = serde_json::from_str(text).unwrap_or_default();
        let string = |name: &str| {
            members
                .get(name)
                .and_then(|raw| serde_json::from_str::<String>(raw.get()).ok())
        };
        let action = string("action");
        let echo = ControlEcho {
            decision_id: string("decision_id").and_then(|id| ControlId::parse(&id).ok()),
            concern_id: string("concern_id").and_then(|id| ConcernId::parse(&id).ok()),
            action: action
                .clone()
                .filter(|action| action.len() <= ECHO_BYTES_MAX),
            dry_run: match members.get("dry_run") {
                None => Some(false).filter(|_| !members.is_empty()),
                Some(raw) => serde_json::from_str(raw.get()).ok(),
            },
        };
        let unknown = action.filter(|name| {
            !ControlAction::ALL
                .iter()
                .any(|known| known.as_str() == name)
        });
        let bad_confidence = members
            .get("confidence")
            .filter(|raw| confidence::parse(raw.get()).is_none());
        let decision = if let Some(name) = unknown {
            let name = name.chars().take(ECHO_BYTES_MAX).collect();
            Err(ControlError::UnknownAction(name))
        } else if bad_confidence.is_some() {
            Err(ControlError::Confidence)
        } else {
            shape::from_json(text)
                .map_err(|error| ControlError::Malformed(error.into()))
                .and_then(|decision: ControlDecision| decision.validate().map(|()| decision))
        };
        ControlAttempt { echo, decision }
    }
}

crate::named! {
    /// Outcome of a control decision.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
    pub enum ControlStatus {
        /// The state changed.
        Applied = "applied",
        /// The decision was refused, which is a normal outcome.
        Rejected = "rejected",
        /// The state is already as requested, or it was a dry run.
        Noop = "noop",
        /// The decision could not be completed; nothing changed.
        Failed = "failed",
    }
}

impl ControlStatus {
    /// Reads a status from its name.
    pub fn parse(text: &str) -> Option<ControlStatus> {
        [
            ControlStatus::Applied,
            ControlStatus::Rejected,
            ControlStatus::Noop,
            ControlStatus::Failed,
        ]
        .into_iter()
        .find(|status| status.as_str() == text)
    }

    /// Whether the answer is a success.
    pub fn is_ok(self) -> bool {
        matches!(self, ControlStatus::Applied | ControlStatus::Noop)
    }
}

/// Results of the validation; null where a check does not apply or its result is unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Validation {
    /// Whether the concern is known and equals `account_id:market_symbol`.
    pub concern_match: Option<bool>,
    /// Whether the account is the target's, or the concern's if there is no target.
    pub account_match: Option<bool>,
    /// Whether the market is the target's, or the concern's if there is no target.
    pub market_match: Option<bool>,
    /// Whether the expected strategy is active.
    pub expected_active_match: Option<bool>,
    /// Whether the target exists.
    pub target_exists: Option<bool>,
    /// Whether the strategy can run.
    pub target_runnable: Option<bool>,
}

/// A position that stays open, with its stops.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PositionKept {
    /// Strategy of the position.
    pub strategy: StrategyName,
    /// Symbol of the position.
    pub symbol: Symbol,
}

/// Whether the state changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ModeChange {
    /// The state changed.
    Applied,
    /// The state did not change.
    None,
}

/// Effects of the decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ControlResult {
    /// Whether the state changed.
    pub mode_change: ModeChange,
    /// Whether working entries that are not allowed any more were searched for and cancelled.
    pub reconciled: bool,
    /// The entries that were cancelled.
    pub cancelled_orders: Vec<OrderId>,
    /// Positions of the same strategies, which stay open with their stops.
    pub positions_kept: Vec<PositionKept>,
    /// For a dry run: the status that the decision would have without `dry_run`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub would_be: Option<ControlStatus>,
    /// If the decision is `too_soon`: how long to wait before a new one. Milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

/// The contract's response: its members, in its order. The answer to a refused decision adds how to
/// try again; see [`own_members`](crate::repair::own_members).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ControlResponse {
    /// Whether the decision is applied or already in effect or, for a dry run, would be.
    pub ok: bool,
    /// The outcome.
    pub status: ControlStatus,
    /// As sent; null if it could not be read.
    pub decision_id: Option<ControlId>,
    /// As sent; null if it could not be read.
    pub concern_id: Option<ConcernId>,
    /// As sent; null if it could not be read.
    pub action: Option<String>,
    /// The strategy that was active before; null if there was none.
    pub from_strategy_id: Option<ControlId>,
    /// The strategy that should be active by this decision; null if none.
    pub to_strategy_id: Option<ControlId>,
    /// The mode in force afterwards; null if there is no such concern.
    pub risk_mode: Option<RiskMode>,
    /// As sent; null if it could not be read.
    pub dry_run: Option<bool>,
    /// Results of the validation.
    pub validation: Validation,
    /// Findings that did not prevent the decision.
    pub warnings: Vec<String>,
    /// Codes of the findings that prevented it.
    pub errors: Vec<ControlFault>,
    /// Effects of the decision.
    pub result: ControlResult,
    /// Time of the decision on the gate's clock, whatever the status.
    pub applied_at: Time,
}

/// `strategies.get`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetStrategy {
    /// Id of the strategy.
    pub strategy_id: ControlId,
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = r#"{"decision_id":"dec_2026_04_16_001","concern_id":"qndd8o9ppop6:xrpusd",
        "account_id":"qndd8o9ppop6","market_symbol":"xrpusd","action":"switch",
        "target_strategy_id":"0c555fee-e4c8-4543-ae70-c132517017e1",
        "expected_active_strategy_id":"9cf29124-65a7-4950-ac18-65f938e0239b","risk_mode":"normal",
        "reason":"trend strategy still fits the directional narrative","confidence":0.83,"dry_run":false,
        "override":false,"requested_at":"2026-04-16T20:15:00Z"}"#;

    #[test]
    fn the_contract_s_own_request_and_response_are_read() {
        let attempt = ControlAttempt::read(EXAMPLE);
        let decision = attempt.decision.unwrap();
        assert_eq!(decision.confidence.to_string(), "0.83");
        assert_eq!(attempt.echo.dry_run, Some(false));
        let response = r#"{"ok":true,"status":"applied","decision_id":"dec_2026_04_16_001",
            "concern_id":"qndd8o9ppop6:xrpusd","action":"switch",
            "from_strategy_id":"9cf29124-65a7-4950-ac18-65f938e0239b",
            "to_strategy_id":"0c555fee-e4c8-4543-ae70-c132517017e1","risk_mode":"normal","dry_run":false,
            "validation":{"concern_match":true,"account_match":true,"market_match":true,
            "expected_active_match":true,"target_exists":true,"target_runnable":true},"warnings":[],"errors":[],
            "result":{"mode_change":"applied","reconciled":true,"cancelled_orders":[],"positions_kept":[]},
            "applied_at":"2026-04-16T20:15:01Z"}"#;
        let read: ControlResponse = serde_json::from_str(response).unwrap();
        let written = serde_json::to_string(&read).unwrap();
        // The members in the contract's order.
        let squeezed: String = response.split_whitespace().collect();
        assert_eq!(written.replace(".000Z", "Z"), squeezed);
    }

    #[test]
    fn anything_is_read_as_far_as_it_goes() {
        for text in [
            "[]",
            "null",
            "7",
            "\"x\"",
            "{}",
            r#"{"decision_id":null,"dry_run":"no"}"#,
        ] {
            let attempt = ControlAttempt::read(text);
            assert_eq!(
                attempt.decision.unwrap_err().fault(),
                ControlFault::Malformed,
                "{text}"
            );
            assert_eq!(attempt.echo.decision_id, None);
        }
        let attempt = ControlAttempt::read(&EXAMPLE.replace("\"switch\"", "\"keep\""));
        assert_eq!(attempt.echo.action.as_deref(), Some("keep"));
        assert_eq!(
            attempt.decision.unwrap_err().fault(),
            ControlFault::ActionNotSupported
        );
    }
}
