//! `council.request`.

use super::prelude::*;
use crate::council::CaseOpened;
use spoolgate_wire::council::CouncilRequest as Case;
use spoolgate_wire::ids::RequestId;

/// Largest file, bytes: a case carries its evidence, for example a matrix of returns.
const CASE_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Puts a change before the council.
pub struct CouncilRequest;

impl Action for CouncilRequest {
    type Payload = Case;
    type Answer = CaseOpened<'static>;
    const ABOUT: &'static str = "Opens a case before the council: a change with its evidence.";
    const CONDITIONS: &'static [Condition] = &[BYTES, CALENDAR];
    const ROW: Row = Row::new(
        ActionName::CouncilRequest,
        "CouncilRequest",
        "request_id, timestamp, proposer, change_type, context, artifacts?, returns?, \
            trial_returns?",
        SPEAKERS,
    )
    .bytes_max(CASE_BYTES_MAX)
    .rules_apply(Rules::Refuses)
    .admission(Admission::Refuses)
    .sealed(&["/artifacts/*"])
    .tool(
        "council_request",
        "Open a council case",
        "Put a change of research, specification, configuration or code before the council of \
            roles. `request_id` is the name of the case.",
    );

    fn check(case: &Case) -> Result<(), PayloadError> {
        case.validate()
    }

    fn needs(_: &Rulebook, sender: &Authentic, case: &Case, needs: &mut Needs) {
        needs.case = Some(case.request_id.clone());
        // A sealed request has another hash in the ledger, which its sender cannot choose.
        needs.case_of_alias = Some(RequestId::alias_of(&sender.payload_hash));
    }

    fn execute(turn: &Turn<'_>, sender: &Authentic, case: &Case) -> Result<Outcome, Refusal> {
        turn.open_case(sender, case)
    }
}
