//! Facts that depend on each other: a longer window has at least as much in it as a shorter one,
//! what is derived from a text belongs to one text, and the recipients of a mail are those of `to`
//! and `cc`.
//!
//! For one request, `a <= b` holds between two readings of its past that read the same if the window
//! of `a` lies in that of `b`, and between a number of the request and every sum with it. A fact
//! that is not known counts as greater than every number: whatever hides a part of the shorter
//! window hides it in the longer one, too, and a sum over a number that is not known is not known.
//! A fact that is left out is not in the order.
//!
//! A side of a piece allows some values of one dimension. Constraints `a <= b` are closed under
//! minimum, so a piece is possible exactly if the least solution exists: each dimension of a chain,
//! from the least to the greatest, takes the least value of its side that is not below the one
//! before it.

use std::collections::BTreeMap;

use super::area::{Crowd, Piece};
use super::cells::Cells;
use super::cover::{Exhausted, Steps};
use super::cuts::{Cut, Numbers};
use super::space::{CrowdOf, Dimension, Space, Values};
use super::texts::Text;
use crate::rule::Reading;
use crate::rule::field::Id;
use spoolgate_wire::amount::Amount;

/// The least value that a dimension of a chain can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// The number right behind this cut; `None` if the numbers have no least one.
    Number(Option<Cut>),
    /// Not known.
    Unknown,
}

/// Dimensions in order: the value of each is at most the value of the next.
type Chain = Vec<u32>;

/// How the facts of a space depend on each other.
#[derive(Debug, Default)]
pub(super) struct Relations<'a> {
    chains: Vec<Chain>,
    /// The texts from which something is derived.
    pub texts: Vec<Text<'a>>,
    /// The recipients of a mail.
    pub mail: Option<Mail>,
}

/// The crowds of the arrays of recipients: `recipients` has the elements of `to` and `cc`, and is
/// not known exactly if one of them is not.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mail {
    /// The crowd of `to`; `None` if no rule reads it.
    pub to: Option<u32>,
    /// The crowd of `cc`; `None` if no rule reads it.
    pub cc: Option<u32>,
    /// The crowd of `recipients`.
    pub recipients: u32,
}

/// Returns whether a reading is an array of recipients of a mail.
pub(super) fn is_of_mail(reading: &Reading) -> bool {
    let of_mail = [Id::PayloadTo, Id::PayloadCc, Id::PayloadRecipients];
    matches!(reading, Reading::Field(field) if of_mail.contains(&field.id))
}

impl Mail {
    /// Finds the crowds in a space; `None` if no rule reads `recipients`.
    pub(super) fn of(space: &Space) -> Option<Mail> {
        let crowd = |id: Id| {
            let is_it =
                |reading: &Reading| matches!(reading, Reading::Field(field) if field.id == id);
            space.number_of(CrowdOf {
                reading: space.readings.iter().position(is_it)?,
                is_links: false,
            })
        };
        Some(Mail {
            to: crowd(Id::PayloadTo),
            cc: crowd(Id::PayloadCc),
            recipients: crowd(Id::PayloadRecipients)?,
        })
    }

    /// Returns the crowds of `to`, `cc` and `recipients` in a piece.
    pub(super) fn crowds(&self, piece: &Piece) -> [Crowd; 3] {
        [self.to, self.cc, Some(self.recipients)]
            .map(|number| number.map_or_else(Crowd::any, |number| piece.crowd(number)))
    }

    /// Returns the crowd with these elements if all recipients are known.
    pub(super) fn among(part: &Crowd, recipients: &Crowd) -> Crowd {
        let without = part.without.iter().chain(&recipients.without);
        Crowd {
            may_be_unknown: false,
            with: part.with.clone(),
            without: without.cloned().collect(),
        }
    }
}

/// What the readings of a chain have in common.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Of {
    Count,
    Sum(&'static str),
    Distinct(&'static str),
}

impl<'a> Relations<'a> {
    /// Finds the chains of these readings, whose dimensions have the same numbers.
    pub(super) fn of(readings: &[Reading]) -> Relations<'a> {
        let mut chains: BTreeMap<Of, Vec<(u32, u32)>> = BTreeMap::new();
        for (number, reading) in (0..).zip(readings) {
            // The request's own number comes before every window.
            let (of, window_s) = match reading {
                Reading::Count { window_s } => (Of::Count, *window_s),
                Reading::Sum { of, window_s } if of.is_never_negative() => {
                    (Of::Sum(of.name), *window_s)
                }
                Reading::Field(field) if field.is_never_negative() && !field.is_many => {
                    (Of::Sum(field.name), 0)
                }
                Reading::Distinct { of, window_s } => (Of::Distinct(of.name), *window_s),
                Reading::Field(_) | Reading::FirstSeen(_) | Reading::Sum { .. } => continue,
            };
            chains.entry(of).or_default().push((window_s, number));
        }
        let chains = chains.into_values().filter(|chain| chain.len() > 1);
        let ordered = chains.map(|mut chain| {
            chain.sort_unstable();
            chain.into_iter().map(|(_, number)| number).collect()
        });
        Relations {
            chains: ordered.collect(),
            ..Relations::default()
        }
    }

    /// Returns whether some facts in the piece agree with the relations of single values.
    pub(super) fn allow(
        &self,
        dimensions: &[Dimension<'a>],
        universes: &[Cells],
        piece: &Piece,
        steps: &mut Steps,
    ) -> Result<bool, Exhausted> {
        for text in &self.texts {
            if !text.allows(dimensions, universes, piece, steps)? {
                return Ok(false);
            }
        }
        for chain in &self.chains {
            steps.take(chain.len() as u64)?;
            let mut least = Place::Number(None);
            for number in chain {
                let (Some(cells), Some(dimension)) =
                    (piece.side(*number), dimensions.get(*number as usize))
                else {
                    continue;
                };
                steps.take(cells.weight())?;
                if cells.holds(dimension.absent()) {
                    continue;
                }
                match least_from(dimension, cells, least) {
                    Some(place) => least = place,
                    None => return Ok(false),
                }
            }
        }
        Ok(true)
    }

    /// Returns texts for a reading whose matches are those that the piece allows.
    pub(super) fn examples(&self, reading: usize, universes: &[Cells], piece: &Piece) -> Vec<&str> {
        let mut texts = self.texts.iter();
        let text = texts.find(|text| text.plain as usize == reading);
        text.map_or_else(Vec::new, |text| text.examples(universes, piece))
    }

    /// Returns related facts in the piece, by dimension; `None` if a fact is not known. The piece
    /// must be possible.
    pub(super) fn example(
        &self,
        dimensions: &[Dimension],
        universes: &[Cells],
        piece: &Piece,
    ) -> BTreeMap<u32, Option<Amount>> {
        let mut facts = BTreeMap::new();
        for chain in &self.chains {
            let mut least = Place::Number(None);
            for number in chain {
                let cells = piece.side(*number).map(|cells| cells.as_ref());
                let (Some(cells), Some(dimension)) = (
                    cells.or(universes.get(*number as usize)),
                    dimensions.get(*number as usize),
                ) else {
                    continue;
                };
                let Some(place) = least_from(dimension, cells, least) else {
                    continue;
                };
                least = place;
                let fact = match place {
                    Place::Number(Some(cut)) => Some(just_behind(cut, chain, dimensions)),
                    Place::Number(None) => continue,
                    Place::Unknown => None,
                };
                facts.insert(*number, fact);
            }
        }
        facts
    }
}

fn numbers<'d>(dimension: &'d Dimension<'_>) -> Option<&'d Numbers> {
    match &dimension.values {
        Values::Numbers(numbers) => Some(numbers),
        Values::Texts { .. } | Values::Flag | Values::Expression(_) => None,
    }
}

/// Returns the least value in these cells that is not below `least`.
fn least_from(dimension: &Dimension, cells: &Cells, least: Place) -> Option<Place> {
    let numbers = numbers(dimension)?;
    if let Place::Number(least) = least {
        let values = cells.intersection(&Cells::span(0, dimension.count));
        for span in values.spans() {
            let (low, high) = numbers.bounded_ends(*span);
            let from = low.max(least);
            if high.is_none_or(|high| from.is_none_or(|from| from < high)) {
                return Some(Place::Number(from));
            }
        }
    }
    cells.holds(dimension.unknown()).then_some(Place::Unknown)
}

/// Returns a number behind a cut, before the next cut of the chain; the same for the same cut.
fn just_behind(cut: Cut, chain: &Chain, dimensions: &[Dimension]) -> Amount {
    if !cut.is_behind {
        return cut.at;
    }
    let of_chain = chain.iter().filter_map(|at| dimensions.get(*at as usize));
    let cuts = of_chain.filter_map(numbers).flat_map(Numbers::all_cuts);
    let next = cuts.map(|cut| cut.at).filter(|at| *at > cut.at).min();
    super::cuts::units()
        .filter_map(|unit| cut.at.checked_add(unit))
        .find(|number| *number > cut.at && next.is_none_or(|next| *number < next))
        .unwrap_or(cut.at)
}

#[cfg(test)]
mod tests {
    use super::super::{Comparison, Direction, STEPS_MAX, compare};
    use crate::rule::{Fact, RuleSet, Value};
    use spoolgate_wire::amount::Amount;

    /// Compares rules that refuse entries under these conditions.
    fn compared(before: &str, after: &str) -> Comparison {
        let book = |when: &str| {
            let text = format!(
                "id: r\nstatus: active\napplies_to: {{action: order.submit}}\nwhen:\n{when}\nthen: \
                    reject\nmessage: no\n"
            );
            RuleSet::compile([("rules/core/r.yaml", text.as_str())], []).unwrap()
        };
        compare(&book(before), &book(after), STEPS_MAX)
    }

    fn count(window_s: u32, test: &str) -> String {
        format!("  - {{field: history.count, window_s: {window_s}, {test}}}\n")
    }

    fn sum(window_s: u32, test: &str) -> String {
        format!("  - {{field: history.sum, of: order.size, window_s: {window_s}, {test}}}\n")
    }

    fn distinct(window_s: u32, test: &str) -> String {
        format!("  - {{field: history.distinct, of: order.symbol, window_s: {window_s}, {test}}}\n")
    }

    fn shown(found: &Comparison) -> Vec<Vec<Option<Amount>>> {
        let witnesses = [&found.loosens, &found.tightens].into_iter().flatten();
        let numbers = witnesses.map(|witness| {
            assert!(witness.feasible, "{witness:?}");
            let mut facts: Vec<(String, Option<Amount>)> = witness
                .facts
                .iter()
                .map(|(reading, fact)| match fact {
                    Fact::Known(Value::Number(number)) => (reading.to_string(), Some(*number)),
                    _ => (reading.to_string(), None),
                })
                .collect();
            facts.sort_by_key(|(name, _)| (name.len(), name.clone()));
            facts.into_iter().map(|(_, number)| number).collect()
        });
        numbers.collect()
    }

    #[test]
    fn a_longer_window_only_tightens_what_refuses_more() {
        let three = "op: gte, value: 3";
        for of in [count, sum, distinct] {
            let longer = compared(&of(60, three), &of(3600, three));
            assert_eq!(longer.direction, Direction::Tightening);
            let shorter = compared(&of(3600, three), &of(60, three));
            assert_eq!(shorter.direction, Direction::Loosening);
            for facts in [shown(&longer), shown(&shorter)] {
                assert!(facts.iter().all(|facts| facts[0] <= facts[1]), "{facts:?}");
            }
            // The longer window may be unknown alone, with too many requests; then it acts.
            let few = "op: lt, value: 3";
            let fewer = compared(&of(60, few), &of(3600, few));
            assert_eq!(fewer.direction, Direction::Incomparable);
            let same = compared(&of(60, three), &of(60, three));
            assert_eq!(same.direction, Direction::Same);
        }
    }

    #[test]
    fn windows_of_other_readings_stay_independent() {
        let three = "op: gte, value: 3";
        let found = compared(&count(60, three), &distinct(3600, three));
        assert_eq!(found.direction, Direction::Incomparable);
        let five = compared(&count(60, three), &count(3600, "op: gte, value: 5"));
        assert_eq!(five.direction, Direction::Incomparable);
        assert!(shown(&five).iter().all(|facts| facts[0] <= facts[1]));
        let never = count(60, "op: gt, value: 3") + &count(3600, "op: lte, value: 3");
        let unknown = count(60, "op: gt, value: 3") + &count(3600, "op: lt, value: 0");
        let nothing = compared(&never, &unknown);
        assert_eq!(nothing.direction, Direction::Same, "no known count acts");
    }

    #[test]
    fn the_own_amount_is_in_every_sum() {
        let own = "  - {field: order.size, op: gt, value: 5}\n";
        let found = compared(own, &sum(60, "op: gt, value: 5"));
        assert_eq!(found.direction, Direction::Tightening);
        let back = compared(&sum(60, "op: gt, value: 5"), own);
        assert_eq!(back.direction, Direction::Loosening);
        let facts = shown(&back);
        assert!(facts[0][0] <= facts[0][1], "{facts:?}");
        // Between two thresholds there is always another number.
        let within = "  - {field: order.size, op: gt, value: 5}\n".to_owned()
            + &sum(60, "op: lt, value: 5.1");
        let found = compared(&within, own);
        assert_eq!(found.direction, Direction::Tightening);
        assert!(shown(&found)[0][0] <= shown(&found)[0][1]);
    }
}
