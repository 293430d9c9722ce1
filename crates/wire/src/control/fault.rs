//! Why a control decision is refused: the codes in `errors` of its answer.

use serde::{Deserialize, Serialize};

macro_rules! faults {
    ($($(#[doc = $doc:literal])* $variant:ident = $name:literal;)*) => {
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
        }
    };
}

faults! {
    /// The action is `keep`, or anything but the four.
    ActionNotSupported = "action_not_supported";
    /// `confidence` is not a JSON number from 0 to 1.
    ConfidenceOutOfRange = "confidence_out_of_range";
    /// The shape is wrong in any other way.
    Malformed = "malformed";
    /// The sender used this decision_id before, with other bytes.
    DecisionIdConflict = "decision_id_conflict";
    /// `concern_id` is not `account_id:market_symbol`.
    ConcernMismatch = "concern_mismatch";
    /// No strategy file names this concern.
    ConcernUnknown = "concern_unknown";
    /// The key may not decide this on this concern.
    NotAuthorised = "not_authorised";
    /// There is no strategy with the id of the target.
    TargetUnknown = "target_unknown";
    /// The target is of another account or market, or of none.
    TargetMismatch = "target_mismatch";
    /// Pause and set_risk_mode: a target is named and is not the current strategy.
    TargetNotCurrent = "target_not_current";
    /// Pause and resume: nothing is current, and resume names no target.
    NoStrategy = "no_strategy";
    /// Resume: another strategy is active; switch to the target instead.
    AnotherActive = "another_active";
    /// The active strategy is not the one that the decision expects.
    ExpectationFailed = "expectation_failed";
    /// The decision overrides, and its key may not.
    OverrideNotPermitted = "override_not_permitted";
    /// `confidence` is below `control_confidence_min` of safety.yaml.
    ConfidenceTooLow = "confidence_too_low";
    /// The strategy's file pauses it, or it lists no instrument.
    TargetNotRunnable = "target_not_runnable";
    /// The strategy's execution cannot be trusted: see `degraded` in `strategies.get`.
    ExecutionDegraded = "execution_degraded";
    /// With another action than set_risk_mode: `risk_mode` is not what would be in force
    /// afterwards.
    RiskModeMismatch = "risk_mode_mismatch";
    /// The mode is laxer than the strategy's file allows.
    RiskModeNotPermitted = "risk_mode_not_permitted";
    /// Entries of everybody or of the sender are halted, or the drawdown limit was reached.
    Halted = "halted";
    /// The gate's clock stepped.
    ClockFault = "clock_fault";
    /// The rule files cannot be used.
    RulebookFault = "rulebook_fault";
    /// Status `failed`: working entries could not be cancelled; nothing changed.
    ReconcileFailed = "reconcile_failed";
}

/// The table in `docs/control.md`.
pub fn markdown() -> String {
    let rows = ControlFault::ALL
        .iter()
        .map(|fault| format!("| `{}` | {} |\n", fault.as_str(), fault.meaning()));
    std::iter::once("| code in `errors` | when |\n|---|---|\n".to_owned())
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
