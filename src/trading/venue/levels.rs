//! Levels that refute theses, and the rows that cross them.

use super::VenueError;
use super::paper::Run;
use crate::rules::Rulebook;
use crate::rules::theses::Thesis;
use crate::trading::book::Book;
use crate::trading::change::Change;
use crate::trading::market::Row;
use crate::wire::amount::Amount;
use crate::wire::ids::Symbol;
use crate::wire::time::Time;

/// What can still be refuted in one symbol. Most rows cross nothing: two comparisons say so, however many theses
/// there are.
#[derive(Clone, Debug, Default)]
pub(super) struct Levels<'a> {
    theses: Vec<&'a Thesis>,
    /// The highest level that refutes from below.
    below: Option<Amount>,
    /// The lowest level that refutes from above.
    above: Option<Amount>,
}

/// The price between these two that refutes a thesis, if one does.
fn crossed(thesis: &Thesis, low: Amount, high: Amount, time: Time) -> Option<Amount> {
    let stood = thesis.since.is_none_or(|since| time >= since) && time < thesis.expires;
    let fell = thesis.invalid_below.is_some_and(|below| low <= below);
    let rose = thesis.invalid_above.is_some_and(|above| high >= above);
    match (stood, fell, rose) {
        (true, true, _) => Some(low),
        (true, false, true) => Some(high),
        _ => None,
    }
}

impl<'a> Levels<'a> {
    /// Theses about `symbol` that stand.
    pub(super) fn of(book: &Book, rules: &'a Rulebook, symbol: &Symbol) -> Levels<'a> {
        let about = rules.theses.values().filter(|thesis| {
            thesis.symbol == *symbol && (book.refuted.is_empty() || !book.refuted.contains_key(&thesis.slug))
        });
        Levels { theses: about.collect(), ..Levels::default() }.bounded()
    }

    fn bounded(mut self) -> Levels<'a> {
        self.below = self.theses.iter().filter_map(|thesis| thesis.invalid_below).max();
        self.above = self.theses.iter().filter_map(|thesis| thesis.invalid_above).min();
        self
    }
}

impl Run<'_> {
    /// Notes theses whose level the row crosses: a low at or below it, a high at or above it; of quotes the bid and the
    /// ask.
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
        levels.theses.retain(|thesis| match crossed(thesis, low, high, time) {
            Some(price) => {
                refuted.push((thesis.slug.clone(), price));
                false
            }
            // What has ended by then is refuted by no later row, and would only be looked at again and again.
            None => time < thesis.expires,
        });
        self.levels = levels.bounded();
        refuted
            .into_iter()
            .try_for_each(|(slug, price)| self.emit(Change::ThesisRefuted { slug, at: time, price }))
    }
}
