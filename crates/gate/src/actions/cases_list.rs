//! `cases.list`.

use super::prelude::*;
use crate::council::{CaseView, cases};

/// Lists the council cases of the sender.
pub struct CasesList;

/// The answer.
#[derive(Serialize, JsonSchema)]
pub enum Answer<'a> {
    /// The answer to `cases.list`.
    Cases(Vec<CaseView<'a>>),
}

impl Action for CasesList {
    type Payload = Empty;
    type Answer = Answer<'static>;
    const ABOUT: &'static str = "Lists the council cases that the sender opened or has a seat in, \
        newest first, among the oldest open and the newest 256 of all.";
    const ROW: Row = Row::new(ActionName::CasesList, "ListCases", "(none)", SPEAKERS).query(
        "list_cases",
        "Council cases",
        "The cases that you opened or have a seat in: what they are about, what they wait for, and \
            how they were decided.",
    );

    fn needs(_: &Rulebook, _: &Authentic, _: &Empty, needs: &mut Needs) {
        needs.cases = true;
    }

    fn execute(turn: &Turn<'_>, sender: &Authentic, _: &Empty) -> Result<Outcome, Refusal> {
        let source = &sender.envelope.source;
        answer(&Answer::Cases(cases(
            turn.rules,
            &turn.lookups.cases,
            source,
        )))
    }
}
