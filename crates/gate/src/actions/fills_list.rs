//! `fills.list`.

use super::prelude::*;
use crate::decide::FILLS_MAX;
use spoolgate_trading::order::Fill;
use spoolgate_wire::orders::ListFills;

/// Lists the executions since a given time.
pub struct FillsList;

/// The answer.
#[derive(Serialize, JsonSchema)]
pub enum Answer<'a> {
    /// The answer to `fills.list`.
    Fills(&'a [Fill]),
}

impl Action for FillsList {
    type Payload = ListFills;
    type Answer = Answer<'static>;
    const ABOUT: &'static str = "Lists fills since a time.";
    const CONDITIONS: &'static [Condition] = &[CALENDAR];
    const ROW: Row = Row::new(ActionName::FillsList, "GetFillHistory", "since", ANYBODY).query(
        "fills",
        "Fills",
        "Executions since a time, as 2026-02-20T14:42:00Z.",
    );

    fn needs(_: &Rulebook, _: &Authentic, list: &ListFills, needs: &mut Needs) {
        needs.fills_since = Some(list.since);
    }

    fn execute(turn: &Turn<'_>, _: &Authentic, _: &ListFills) -> Result<Outcome, Refusal> {
        let fills = &turn.lookups.fills;
        if fills.len() > FILLS_MAX {
            let what = format!("there were more than {FILLS_MAX} fills since then");
            return Err(Refusal::new(Code::ResultTooLarge, what));
        }
        answer(&Answer::Fills(fills))
    }
}
