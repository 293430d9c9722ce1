//! `control.apply`.

use super::prelude::*;
use spoolgate_wire::control::{ControlAttempt, ControlResponse};

/// Decides which strategy runs on a concern, and in which risk mode.
pub struct ControlApply;

impl Action for ControlApply {
    /// A payload of the wrong shape gets the contract's answer too.
    type Payload = ControlAttempt;
    type Answer = ControlResponse;
    const ABOUT: &'static str = "Decides which strategy of a concern runs, and in which risk mode.";
    const CONDITIONS: &'static [Condition] = &[CONTROL, BYTES, CALENDAR];
    const ROW: Row = Row::new(
        ActionName::ControlApply,
        "ControlDecision",
        "decision_id, concern_id, account_id, market_symbol, action, target_strategy_id?, \
            expected_active_strategy_id?, risk_mode?, reason, confidence, dry_run?, override?, \
            requested_at?",
        SPEAKERS,
    )
    .lane(Lane::Control)
    .rate(Rate::UnlessSafer)
    .rules_apply(Rules::UnlessSafer)
    .admission(Admission::Refuses)
    .tool(
        "apply_control_decision",
        "Decide what runs",
        "Switch, pause or resume the strategy of a concern, or set its risk mode. With dry_run \
            true nothing changes.",
    );

    fn needs(_: &Rulebook, sender: &Authentic, attempt: &ControlAttempt, needs: &mut Needs) {
        let id = attempt
            .decision
            .as_ref()
            .ok()
            .map(|decision| decision.decision_id.clone());
        needs.control = id.map(|id| (sender.envelope.source.clone(), id));
    }

    fn execute(
        turn: &Turn<'_>,
        sender: &Authentic,
        attempt: &ControlAttempt,
    ) -> Result<Outcome, Refusal> {
        turn.control(sender, attempt)
    }
}
