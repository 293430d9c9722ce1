//! `approval.grant`.

use super::prelude::*;
use crate::approvals::{Resolution, Verdict, check_answer, pending};
use spoolgate_wire::approvals::{GrantApproval, HoldId};
use spoolgate_wire::ids::RequestId;

/// Has a held request decided again.
pub struct ApprovalGrant;

/// The answer.
#[derive(Serialize, JsonSchema)]
pub enum Answer<'a> {
    /// The answer to `approval.grant`.
    ApprovalGranted {
        /// The held request.
        id: HoldId,
        /// The id of its request, whose answer states the result.
        request_id: &'a RequestId,
    },
}

impl Action for ApprovalGrant {
    type Payload = GrantApproval;
    type Answer = Answer<'static>;
    const ABOUT: &'static str = "Approves a held request with the SHA-256 that the approver saw.";
    const CONDITIONS: &'static [Condition] = &[LINE, BYTES];
    const ROW: Row = Row::new(
        ActionName::ApprovalGrant,
        "GrantApproval",
        "id, request_sha256, reason?, remember?",
        HUMAN,
    )
    .lane(Lane::Control);

    fn check(grant: &GrantApproval) -> Result<(), PayloadError> {
        check_answer(&grant.request_sha256, grant.reason.as_deref())
    }

    fn execute(
        turn: &Turn<'_>,
        sender: &Authentic,
        grant: &GrantApproval,
    ) -> Result<Outcome, Refusal> {
        let hold = pending(turn.state, grant.id, &grant.request_sha256, turn.now)?;
        let verdict = Verdict::Granted {
            remember: grant.remember,
        };
        let (id, request_id) = (hold.id, &hold.request_id);
        Ok(Outcome {
            data: data(&Answer::ApprovalGranted { id, request_id })?,
            resolves: Some(Resolution {
                hold: id,
                by: sender.envelope.source.clone(),
                verdict,
            }),
            ..Outcome::default()
        })
    }
}
