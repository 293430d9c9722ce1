//! Price levels that refute theses, and the rows that cross them.

use super::VenueError;
use super::paper::Run;
use crate::book::Book;
use crate::change::Change;
use crate::market_row::Row;
use spoolgate_rules::Rulebook;
use spoolgate_rules::theses::Thesis;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::Symbol;
use spoolgate_wire::time::Time;

/// The theses of one symbol that can still be refuted. Most rows cross no level, and two
/// comparisons show that, however many theses there are.
#[derive(Clone, Debug, Default)]
pub(super) struct Levels<'a> {
    theses: Vec<&'a Thesis>,
    /// The highest level that refutes from below.
    below: Option<Amount>,
    /// The lowest level that refutes from above.
    above: Option<Amount>,
}

/// Returns the price in this range that refutes the thesis, if one does.
fn crossed(thesis: &Thesis, low: Amount, high: Amount, time: Time) -> Option<Amount> {
    let stood = thesis.since.is_none_or(|since| time >= since) && time < thesis.expires;
    let fell = thesis.invalid_below.is_some_and(|below| low <= *below);
    let rose = thesis.invalid_above.is_some_and(|above| high >= *above);
    match (stood, fell, rose) {
        (true, true, _) => Some(low),
        (true, false, true) => Some(high),
        _ => None,
    }
}

impl<'a> Levels<'a> {
    /// Collects the theses about `symbol` that are not refuted.
    pub(super) fn of(book: &Book, rules: &'a Rulebook, symbol: &Symbol) -> Levels<'a> {
        let about = rules.theses.values().filter(|thesis| {
            thesis.symbol == *symbol
                && (book.refuted.is_empty() || !book.refuted.contains_key(&thesis.slug))
        });
        Levels {
            theses: about.collect(),
            ..Levels::default()
        }
        .bounded()
    }

    fn bounded(mut self) -> Levels<'a> {
        self.below = self
            .theses
            .iter()
            .filter_map(|thesis| thesis.invalid_below)
            .max()
            .map(|bound| bound.get());
        self.above = self
            .theses
            .iter()
            .filter_map(|thesis| thesis.invalid_above)
            .min()
            .map(|bound| bound.get());
        self
    }
}

impl Run<'_> {
    /// Records theses whose level the row crosses: a low at or below it, a high at or above it; for
    /// quotes the bid and the ask.
    pub(super) fn refute_theses(&mut self, row: &Row, time: Time) -> Result<(), VenueError> {
        let (low, high) = match *row {
            Row::Bar { low, high, .. } => (low, high),
            Row::Quote { bid, ask, .. } => (bid, ask),
        };
        let reaches = self.levels.below.is_some_and(|below| low <= below)
            || self.levels.above.is_some_and(|above| high >= above);
        if !reaches {
            return Ok(());
        }
        let mut levels = std::mem::take(&mut self.levels);
        let mut refuted = Vec::new();
        levels
            .theses
            .retain(|thesis| match crossed(thesis, low, high, time) {
                Some(price) => {
                    refuted.push((thesis.slug.clone(), price));
                    false
                }
                // Drop theses that have expired by then: no later row refutes them.
                None => time < thesis.expires,
            });
        self.levels = levels.bounded();
        refuted.into_iter().try_for_each(|(slug, price)| {
            self.emit(Change::ThesisRefuted {
                slug,
                at: time,
                price,
            })
        })
    }
}
