//! `council.verdict`.

use super::prelude::*;
use crate::council::VerdictFiled;
use spoolgate_wire::council::SubmitVerdict;

/// Files a role's verdict on a case.
pub struct CouncilVerdict;

impl Action for CouncilVerdict {
    type Payload = SubmitVerdict;
    type Answer = VerdictFiled<'static>;
    const ABOUT: &'static str = "Files the verdict of a role on a case.";
    const CONDITIONS: &'static [Condition] = &[BYTES];
    const ROW: Row = Row::new(
        ActionName::CouncilVerdict,
        "CouncilVerdict",
        "request_id, request_sha256, verdict",
        SPEAKERS,
    )
    .tool(
        "council_verdict",
        "File a verdict",
        "A role's verdict on a case that another principal proposed. `request_id` is the name of \
            the case.",
    );

    fn check(submit: &SubmitVerdict) -> Result<(), PayloadError> {
        submit.validate()
    }

    fn needs(_: &Rulebook, _: &Authentic, submit: &SubmitVerdict, needs: &mut Needs) {
        needs.case = Some(submit.request_id.clone());
    }

    fn execute(
        turn: &Turn<'_>,
        sender: &Authentic,
        submit: &SubmitVerdict,
    ) -> Result<Outcome, Refusal> {
        turn.file_verdict(&sender.envelope.source, submit)
    }
}
