//! Facts of a control decision: its content, and the state of its concern before it.

use super::{NO_SUCH, Source, text_or_absent, unknown};
use spoolgate_control::registry;
use spoolgate_rules::rule::Fact;
use spoolgate_rules::rule::field::Id;
use spoolgate_wire::control::ControlDecision;
use spoolgate_wire::ids::ControlId;

impl<'a> Source<'a> {
    pub(super) fn of_control(&self, id: Id, decision: &'a ControlDecision) -> Fact<'a> {
        let named = |id: Option<&'a ControlId>| text_or_absent(id.map(ControlId::as_str));
        match id {
            Id::ControlAction => Fact::text(decision.action.as_str()),
            Id::ControlConcern => Fact::text(decision.concern_id.as_str()),
            Id::ControlAccount => Fact::text(decision.account_id.as_str()),
            Id::ControlMarket => Fact::text(decision.market_symbol.as_str()),
            Id::ControlTarget => named(decision.target_strategy_id.as_ref()),
            Id::ControlExpected => named(
                decision
                    .expected_active_strategy_id
                    .as_ref()
                    .and_then(Option::as_ref),
            ),
            Id::ControlRiskMode => text_or_absent(decision.risk_mode.map(|mode| mode.as_str())),
            Id::ControlConfidence => Fact::number(decision.confidence),
            Id::ControlOverride => Fact::flag(decision.overrides),
            Id::ControlDryRun => Fact::flag(decision.dry_run),
            Id::ControlReason => Fact::text(decision.reason.as_str()),
            Id::ControlCurrent | Id::ControlCurrentRiskMode | Id::ControlIsPaused => {
                self.of_concern(id, decision)
            }
            _ => unknown(NO_SUCH),
        }
    }

    fn of_concern(&self, id: Id, decision: &'a ControlDecision) -> Fact<'a> {
        let rules = self.turn.rules;
        let stands = self.turn.state.control.of(rules, &decision.concern_id);
        match id {
            Id::ControlCurrent => stands.current.map_or(Fact::Absent, |current| {
                Fact::text(current.as_str().to_owned())
            }),
            Id::ControlCurrentRiskMode => {
                Fact::text(registry::mode(rules, &decision.concern_id, &stands).as_str())
            }
            _ => Fact::flag(stands.paused),
        }
    }
}
