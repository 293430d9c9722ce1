//! `instruments.list`.

use super::is_shown;
use super::prelude::*;
use spoolgate_trading::views::{self, InstrumentView};

/// Lists the instruments.
pub struct InstrumentsList;

/// The answer.
#[derive(Serialize, JsonSchema)]
pub enum Answer<'a> {
    /// The answer to `instruments.list`.
    Instruments(Vec<InstrumentView<'a>>),
}

impl Action for InstrumentsList {
    type Payload = Empty;
    type Answer = Answer<'static>;
    const ABOUT: &'static str = "Lists the instruments: their filters, prices and their ages, and \
        which strategies of the sender may enter them.";
    const ROW: Row = Row::new(
        ActionName::InstrumentsList,
        "ListInstruments",
        "(none)",
        ANYBODY,
    )
    .query(
        "list_instruments",
        "Instruments",
        "All symbols: tick, lot, smallest size and notional (the stop's too), bid, ask and their \
            age, and your strategies for each.",
    );

    fn execute(turn: &Turn<'_>, sender: &Authentic, _: &Empty) -> Result<Outcome, Refusal> {
        let source = &sender.envelope.source;
        let is_own = |strategy: &_| is_shown(turn.rules, source, strategy);
        let (book, rules) = (&turn.state.book, turn.rules);
        answer(&Answer::Instruments(views::instruments(
            book, rules, turn.now, is_own,
        )))
    }
}
