//! Why a control decision is refused: the codes in `errors` of its answer.

use serde::{Deserialize, Serialize};

use crate::code::Retry;

macro_rules! faults {
    ($($(#[doc = $doc:literal])* $variant:ident = $name:literal, $retry:ident, $override:ident;)*) => {
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

            /// Whether and how its sender may decide again.
            pub fn retry(self) -> Retry {
                match self { $(ControlFault::$variant => Retry::$retry),* }
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
    ActionNotSupported = "action_not_supported", SameId, stays;
    /// `confidence` is not a JSON number from 0 to 1.
    ConfidenceOutOfRange = "confidence_out_of_range", SameId, stays;
    /// The shape is wrong in any other way.
    Malformed = "malformed", SameId, stays;
    /// The sender used this decision_id before, with other bytes.
    DecisionIdConflict = "decision_id_conflict", NewId, stays;
    /// `concern_id` is not `account_id:market_symbol`.
    ConcernMismatch = "concern_mismatch", NewId, stays;
    /// No strategy file names this concern.
    ConcernUnknown = "concern_unknown", NewId, stays;
    /// The key may not decide this on this concern.
    NotAuthorised = "not_authorised", Never, stays;
    /// The sender is not a person, and the decision would relax what a person made stricter.
    HeldByPerson = "held_by_person", Never, stays;
    /// There is no strategy with the id of the target.
    TargetUnknown = "target_unknown", NewId, stays;
    /// The target is of another account or market, or of none.
    TargetMismatch = "target_mismatch", NewId, stays;
    /// Pause and set_risk_mode: a target is named and is not the current strategy.
    TargetNotCurrent = "target_not_current", NewId, stays;
    /// Pause and resume: nothing is current, and resume names no target.
    NoStrategy = "no_strategy", NewId, stays;
    /// Resume: another strategy is active; switch to the target instead.
    AnotherActive = "another_active", NewId, stays;
    /// The active strategy is not the one that the decision expects.
    ExpectationFailed = "expectation_failed", NewId, lifted;
    /// The decision overrides, and its key may not.
    OverrideNotPermitted = "override_not_permitted", NewId, stays;
    /// `requested_at` is further ahead of the gate's clock than `request_ahead_max_s` of
    /// safety.yaml.
    RequestedAtFuture = "requested_at_future", NewId, stays;
    /// `requested_at` is older than `control_age_max_s` of safety.yaml.
    RequestedAtStale = "requested_at_stale", NewId, stays;
    /// `requested_at` is before that of the sender's last applied decision on the concern.
    OutOfOrder = "out_of_order", NewId, stays;
    /// `confidence` is below `control_confidence_min` of safety.yaml.
    ConfidenceTooLow = "confidence_too_low", NewId, stays;
    /// The strategy's file pauses it, or it lists no instrument.
    TargetNotRunnable = "target_not_runnable", Never, stays;
    /// The strategy's execution cannot be trusted: see `degraded` in `strategies.get`.
    ExecutionDegraded = "execution_degraded", Never, lifted;
    /// With another action than set_risk_mode: `risk_mode` is not what would be in force
    /// afterwards.
    RiskModeMismatch = "risk_mode_mismatch", NewId, stays;
    /// The mode is laxer than the strategy's file allows.
    RiskModeNotPermitted = "risk_mode_not_permitted", Never, stays;
    /// An agent changes the concern too soon or too often (`control_dwell_s` and
    /// `control_changes_per_hour` of safety.yaml); see `retry_after_ms`.
    TooSoon = "too_soon", NewId, stays;
    /// Entries of everybody or of the sender are halted, or the drawdown limit was reached.
    Halted = "halted", Never, stays;
    /// The gate's clock stepped.
    ClockFault = "clock_fault", Never, stays;
    /// The rule files cannot be used.
    RulebookFault = "rulebook_fault", Never, stays;
    /// Status `failed`: working entries could not be cancelled; nothing changed.
    ReconcileFailed = "reconcile_failed", NewId, stays;
}

/// Returns whether and how the sender of a decision that is rejected with these codes may decide
/// again: not at all if one of them does not permit it.
pub fn retry_of(errors: &[ControlFault]) -> Retry {
    let mut words = errors.iter().map(|fault| fault.retry());
    let first = words.clone().next().unwrap_or(Retry::NewId);
    words.find(|word| *word == Retry::Never).unwrap_or(first)
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
            "| `{}` | `{}` | {} | {lifted} |\n",
            fault.as_str(),
            fault.retry().as_str(),
            fault.meaning()
        )
    });
    let head = "| code in `errors` | retry | when | by `override` |\n|---|---|---|---|\n";
    std::iter::once(head.to_owned()).chain(rows).collect()
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

    #[test]
    fn one_code_that_forbids_it_is_enough() {
        use ControlFault::{ExpectationFailed, HeldByPerson, Malformed, TooSoon};
        for (errors, expect) in [
            (vec![], Retry::NewId),
            (vec![Malformed], Retry::SameId),
            (vec![ExpectationFailed, TooSoon], Retry::NewId),
            (vec![ExpectationFailed, HeldByPerson, TooSoon], Retry::Never),
        ] {
            assert_eq!(retry_of(&errors), expect, "{errors:?}");
        }
    }
}
