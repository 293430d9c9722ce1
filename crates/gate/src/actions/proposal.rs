//! `proposal.approve`, `proposal.decline` and `proposal.revert`: an approver's decisions on
//! proposals.

use super::prelude::*;
use crate::proposals::Answered;
use spoolgate_wire::proposals::{ApproveProposal, EndProposal};

/// Puts a proposal in force.
pub struct ProposalApprove;

/// Declines a proposal.
pub struct ProposalDecline;

/// Takes back the change of an applied proposal.
pub struct ProposalRevert;

impl Action for ProposalApprove {
    type Payload = ApproveProposal;
    type Answer = Answered<'static>;
    const ABOUT: &'static str = "Approves a proposal with the SHA-256 that the approver saw.";
    const CONDITIONS: &'static [Condition] = &[LINE];
    const ROW: Row = Row::new(
        ActionName::ProposalApprove,
        "ApproveProposal",
        "id, sha256",
        HUMAN,
    )
    .lane(Lane::Control);

    #[cfg(feature = "schema")]
    fn answer_schema() -> Schema {
        schemas::variant::<Answered<'_>>("ProposalApplied")
    }

    fn check(approve: &ApproveProposal) -> Result<(), PayloadError> {
        approve.validate()
    }

    fn needs(_: &Rulebook, _: &Authentic, approve: &ApproveProposal, needs: &mut Needs) {
        needs.proposal = Some(approve.id);
    }

    fn execute(
        turn: &Turn<'_>,
        sender: &Authentic,
        approve: &ApproveProposal,
    ) -> Result<Outcome, Refusal> {
        turn.approve_proposal(&sender.envelope.source, approve)
    }
}

impl Action for ProposalDecline {
    type Payload = EndProposal;
    type Answer = Answered<'static>;
    const ABOUT: &'static str = "Declines a proposal.";
    const CONDITIONS: &'static [Condition] = &[LINE, BYTES];
    const ROW: Row = Row::new(
        ActionName::ProposalDecline,
        "DeclineProposal",
        "id, reason",
        HUMAN,
    )
    .lane(Lane::Control);

    #[cfg(feature = "schema")]
    fn answer_schema() -> Schema {
        schemas::variant::<Answered<'_>>("ProposalDeclined")
    }

    fn check(end: &EndProposal) -> Result<(), PayloadError> {
        check_reason(&end.reason)
    }

    fn needs(_: &Rulebook, _: &Authentic, end: &EndProposal, needs: &mut Needs) {
        needs.proposal = Some(end.id);
    }

    fn execute(turn: &Turn<'_>, sender: &Authentic, end: &EndProposal) -> Result<Outcome, Refusal> {
        turn.decline_proposal(&sender.envelope.source, end)
    }
}

impl Action for ProposalRevert {
    type Payload = EndProposal;
    type Answer = Answered<'static>;
    const ABOUT: &'static str = "Reverts the change of an applied proposal.";
    const CONDITIONS: &'static [Condition] = &[LINE, BYTES];
    const ROW: Row = Row::new(
        ActionName::ProposalRevert,
        "RevertProposal",
        "id, reason",
        HUMAN,
    )
    .lane(Lane::Control);

    #[cfg(feature = "schema")]
    fn answer_schema() -> Schema {
        schemas::variant::<Answered<'_>>("ProposalReverted")
    }

    fn check(end: &EndProposal) -> Result<(), PayloadError> {
        check_reason(&end.reason)
    }

    fn needs(_: &Rulebook, _: &Authentic, end: &EndProposal, needs: &mut Needs) {
        needs.proposal = Some(end.id);
    }

    fn execute(turn: &Turn<'_>, sender: &Authentic, end: &EndProposal) -> Result<Outcome, Refusal> {
        turn.revert_proposal(sender, end)
    }
}
