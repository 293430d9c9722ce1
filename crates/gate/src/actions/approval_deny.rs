//! `approval.deny`.

use super::prelude::*;
use crate::approvals::{Resolution, Verdict, check_answer, pending};
use spoolgate_wire::approvals::{DenyApproval, HoldId};
use spoolgate_wire::ids::RequestId;

/// Refuses a held request.
pub struct ApprovalDeny;

/// The answer.
#[derive(Serialize, JsonSchema)]
pub enum Answer<'a> {
    /// The answer to `approval.deny`.
    ApprovalDenied {
        /// The held request.
        id: HoldId,
        /// The id of its request, whose answer states the result.
        request_id: &'a RequestId,
    },
}

impl Action for ApprovalDeny {
    type Payload = DenyApproval;
    type Answer = Answer<'static>;
    const ABOUT: &'static str = "Refuses a held request.";
    const CONDITIONS: &'static [Condition] = &[LINE, BYTES];
    const ROW: Row = Row::new(
        ActionName::ApprovalDeny,
        "DenyApproval",
        "id, request_sha256, reason?",
        HUMAN,
    )
    .lane(Lane::Control);

    fn check(deny: &DenyApproval) -> Result<(), PayloadError> {
        check_answer(&deny.request_sha256, deny.reason.as_deref())
    }

    fn execute(
        turn: &Turn<'_>,
        sender: &Authentic,
        deny: &DenyApproval,
    ) -> Result<Outcome, Refusal> {
        let hold = pending(turn.state, deny.id, &deny.request_sha256, turn.now)?;
        let verdict = Verdict::Denied {
            reason: deny.reason.clone(),
        };
        let (id, request_id) = (hold.id, &hold.request_id);
        Ok(Outcome {
            data: data(&Answer::ApprovalDenied { id, request_id })?,
            resolves: Some(Resolution {
                hold: id,
                by: sender.envelope.source.clone(),
                verdict,
            }),
            ..Outcome::default()
        })
    }
}
