//! Levels that refute theses, and the rows that cross them.

use super::VenueError;
use super::paper::Run;
use crate::rules::Rulebook;
use crate::trading::book::Book;
use crate::trading::change::Change;
use crate::trading::market::Row;
use crate::wire::amount::Amount;
use crate::wire::ids::{Symbol, ThesisSlug};
use crate::wire::time::Time;

/// What can still be refuted in one symbol. Most rows cross nothing: two comparisons say so, however many theses
/// there are.
#[derive(Clone, Debug, Default)]
pub(super) struct Levels {
    theses: Vec<Level>,
    /// The highest level that refutes from below.
    below: Option<Amount>,
    /// The lowest level that refutes from above.
    above: Option<Amount>,
}

#[derive(Clone, Debug)]
struct Level {
    slug: ThesisSlug,
    below: Option<Amount>,
    above: Option<Amount>,
    since: Option<Time>,
    expires: Time,
}

impl Level {
    /// The price between these two that refutes it, if one does.
    fn crossed_by(&self, low: Amount, high: Amount, time: Time) -> Option<Amount> {
        let stood = self.since.is_none_or(|since| time >= since) && time < self.expires;
        let fell = self.below.is_some_and(|below| low <= below);
        let rose = self.above.is_some_and(|above| high >= above);
        match (stood, fell, rose) {
            (true, true, _) => Some(low),
            (true, false, true) => Some(high),
            _ => None,
        }
    }
}

impl Levels {
    /// Theses about `symbol` that stand.
    pub(super) fn of(book: &Book, rules: &Rulebook, symbol: &Symbol) -> Levels {
        let about =
            rules.theses.values().filter(|it| it.symbol == *symbol && !book.refuted.contains_key(&it.slug));
        let theses = about.map(|thesis| Level {
            slug: thesis.slug.clone(),
            below: thesis.invalid_below,
            above: thesis.invalid_above,
            since: thesis.since,
            expires: thesis.expires,
        });
        Levels { theses: theses.collect(), ..Levels::default() }.bounded()
    }

    fn bounded(mut self) -> Levels {
        self.below = self.theses.iter().filter_map(|level| level.below).max();
        self.above = self.theses.iter().filter_map(|level| level.above).min();
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
        let mut crossed = Vec::new();
        levels.theses.retain(|level| match level.crossed_by(low, high, time) {
            Some(price) => {
                crossed.push((level.slug.clone(), price));
                false
            }
            // What has ended by then is refuted by no later row, and would only be looked at again and again.
            None => time < level.expires,
        });
        self.levels = levels.bounded();
        crossed
            .into_iter()
            .try_for_each(|(slug, price)| self.emit(Change::ThesisRefuted { slug, at: time, price }))
    }
}
