//! Why a control decision is refused: the codes in `errors` of its answer.

use serde::{Deserialize, Serialize};

macro_rules! faults {
    ($($(#[doc = $doc:literal])* $variant:ident = $name:literal, $override:ident;)*) => {
        /// A code in `errors`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize,
            schemars::JsonSchema)]
        pub enum ControlFault {
            $($(#[doc = $doc])* #[serde(rename = $name)] $variant,)*
        }

        impl ControlFault {
            /// All codes, in the order in which they are checked.
            pub const ALL: &'static [ControlFault] = &[$(ControlFault::$variant),*];

            /// The stable name, `lower_snake`.
            pub fn as_str(self) -> &'static str {
                match self { $(ControlFault::$variant => $name),* }
            }

            /// The condition for this code.
            pub fn meaning(self) -> &'static str {
                match self { $(ControlFault::$variant => concat!($($doc),*).trim_ascii()),* }
            }

            /// Whether `override` lifts the check that fails with this code.
            pub fn is_lifted_by_override(self) -> bool {
                match self { $(ControlFault::$variant => faults!(@$override)),* }
            }
        }
    };
    (@lifted) => { true };
    (@stays) => { false };
}

faults! {
    /// The action is `keep`, or anything but the four.
    ActionNotSupported = "action_not_supported", stays;
    /// `confidence` is not a JSON number from 0 to 1.
    ConfidenceOutOfRange = "confidence_out_of_range", stays;
    /// The shape is wrong in any other way.
    Malformed = "malformed", stays;
    /// The sender used this decision_id before, with other bytes.
    DecisionIdConflict = "decision_id_conflict", stays;
    /// `concern_id` is not `account_id:market_symbol`.
    ConcernMismatch = "concern_mismatch", stays;
    /// No strategy file names this concern.
    ConcernUnknown = "concern_unknown", stays;
    /// The key may not decide this on this concern.
    NotAuthorised = "not_authorised", stays;
    /// The sender is not a person, and the decision would relax what a person made stricter.
    HeldByPerson = "held_by_person", stays;
    /// There is no strategy with the id of the target.
    TargetUnknown = "target_unknown", stays;
    /// The target is of another account or market, or of none.
    TargetMismatch = "target_mismatch", stays;
    /// Pause and set_risk_mode: a target is named and is not the current strategy.
    TargetNotCurrent = "target_not_current", stays;
    /// Pause and resume: nothing is current, and resume names no target.
    NoStrategy = "no_strategy", stays;
    /// Resume: another strategy is active; switch to the target instead.
    AnotherActive = "another_active", stays;
    /// The active strategy is not the one that the decision expects.
    ExpectationFailed = "expectation_failed", lifted;
    /// The decision overrides, and its key may not.
    OverrideNotPermitted = "override_not_permitted", stays;
    /// `requested_at` is further ahead of the gate's clock than `request_ahead_max_s` of
    /// safety.yaml.
    RequestedAtFuture = "requested_at_future", stays;
    /// `requested_at` is older than `control_age_max_s` of safety.yaml.
    RequestedAtStale = "requested_at_stale", stays;
    /// `requested_at` is before that of the sender's last applied decision on the concern.
    OutOfOrder = "out_of_order", stays;
    /// `confidence` is below `control_confidence_min` of safety.yaml.
    ConfidenceTooLow = "confidence_too_low", stays;
    /// The strategy's file pauses it, or it lists no instrument.
    TargetNotRunnable = "target_not_runnable", stays;
    /// The strategy's execution cannot be trusted: see `degraded` in `strategies.get`.
    ExecutionDegraded = "execution_degraded", lifted;
    /// With another action than set_risk_mode: `risk_mode` is not what would be in force
    /// afterwards.
    RiskModeMismatch = "risk_mode_mismatch", stays;
    /// The mode is laxer than the strategy's file allows.
    RiskModeNotPermitted = "risk_mode_not_permitted", stays;
    /// An agent changes the concern too soon or too often (`control_dwell_s` and
    /// `control_changes_per_hour` of safety.yaml); see `result.retry_after_ms`.
    TooSoon = "too_soon", stays;
    /// Entries of everybody or of the sender are halted, or the drawdown limit was reached.
    Halted = "halted", stays;
    /// The gate's clock stepped.
    ClockFault = "clock_fault", stays;
    /// The rule files cannot be used.
    RulebookFault = "rulebook_fault", stays;
    /// Status `failed`: working entries could not be cancelled; nothing changed.
    ReconcileFailed = "reconcile_failed", stays;
}

/// The table in `docs/control.md`.
pub fn markdown() -> String {
    let rows = ControlFault::ALL.iter().map(|fault| {
        let lifted = if fault.is_lifted_by_override() {
            "lifted"
        } else {
            "not lifted"
        };
        format!(
            "| `{}` | {} | {lifted} |\n",
            fault.as_str(),
            fault.meaning()
        )
    });
    std::iter::once("| code in `errors` | when | by `override` |\n|---|---|---|\n".to_owned())
        .chain(rows)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_in_the_docs_is_this_one() {
        let docs = include_str!("../../../../docs/control.md");
        assert!(
            docs.contains(&markdown()),
            "docs/control.md should hold:\n{}",
            markdown()
        );
        for fault in ControlFault::ALL {
            assert_eq!(
                serde_json::to_string(fault).unwrap(),
                format!("\"{}\"", fault.as_str())
            );
        }
    }
}
