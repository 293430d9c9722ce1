//! `theses.list`.

use super::is_shown;
use super::prelude::*;
use spoolgate_trading::views::{self, ThesisView};

/// Lists the theses of the sender's strategies.
pub struct ThesesList;

/// The answer.
#[derive(Serialize, JsonSchema)]
pub enum Answer<'a> {
    /// The answer to `theses.list`.
    Theses(Vec<ThesisView<'a>>),
}

impl Action for ThesesList {
    type Payload = Empty;
    type Answer = Answer<'static>;
    const ABOUT: &'static str = "Lists the theses of the sender's strategies, and which of them \
        carry an entry now. People see all.";
    const ROW: Row = Row::new(ActionName::ThesesList, "ListTheses", "(none)", SPEAKERS).query(
        "list_theses",
        "Theses",
        "The theses of your strategies: symbol, direction, expiry, and whether each is valid now.",
    );

    fn execute(turn: &Turn<'_>, sender: &Authentic, _: &Empty) -> Result<Outcome, Refusal> {
        let source = &sender.envelope.source;
        let is_own = |strategy: &_| is_shown(turn.rules, source, strategy);
        let (book, rules) = (&turn.state.book, turn.rules);
        answer(&Answer::Theses(views::theses(
            book, rules, turn.now, is_own,
        )))
    }
}
