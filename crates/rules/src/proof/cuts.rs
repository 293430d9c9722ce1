//! Numbers, cut wherever a condition can tell two of them apart.

use crate::rule::Ranges;
use crate::rule::ranges::End;
use spoolgate_wire::amount::Amount;

use super::cells::Cells;

/// A place between numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cut {
    /// The number beside the cut.
    pub at: Amount,
    /// Whether the cut is after the number, not before it.
    pub is_behind: bool,
}

/// The numbers of a dimension, with their cuts.
#[derive(Clone, Debug, Default)]
pub(super) struct Numbers {
    /// The cuts, in rising order after [`Numbers::seal`].
    cuts: Vec<Cut>,
    /// Bounds, inclusive, if there are only whole numbers.
    pub whole: Option<(i64, i64)>,
    /// The cut before the least number, if there is a bound.
    least: Option<Cut>,
    /// The cut after the greatest number, if there is a bound.
    most: Option<Cut>,
}

/// Where a range begins or ends within the existing numbers.
enum Edge {
    /// Before all numbers.
    First,
    /// At this cut.
    At(Cut),
    /// After all numbers.
    Last,
}

impl Numbers {
    /// Creates the whole numbers from `least` to `most`.
    pub(super) fn whole(least: i64, most: i64) -> Numbers {
        Numbers {
            whole: Some((least, most)),
            least: cut_at(End::With(Amount::from_i64(least)), true),
            most: cut_at(End::With(Amount::from_i64(most)), false),
            ..Numbers::default()
        }
    }

    /// Creates the decimal numbers between these ends.
    pub(super) fn between(low: End, high: End) -> Numbers {
        Numbers {
            least: cut_at(low, true),
            most: cut_at(high, false),
            ..Numbers::default()
        }
    }

    /// Adds cuts where these ranges begin and end.
    pub(super) fn mention(&mut self, ranges: &Ranges) {
        for range in ranges.parts() {
            for edge in [self.edge(range.low, true), self.edge(range.high, false)] {
                if let Edge::At(cut) = edge {
                    self.cuts.push(cut);
                }
            }
        }
    }

    /// Returns the number of cuts.
    pub(super) fn len(&self) -> usize {
        self.cuts.len()
    }

    /// Sorts the cuts; returns the number of cells.
    pub(super) fn seal(&mut self) -> u32 {
        self.cuts.sort_unstable();
        self.cuts.dedup();
        u32::try_from(self.cuts.len()).unwrap_or(u32::MAX - 5) + 1
    }

    /// Returns the cells of these ranges, whose ends were mentioned before.
    pub(super) fn cells(&self, ranges: &Ranges) -> Cells {
        let spans = ranges.parts().iter();
        Cells::of(
            spans
                .map(|range| (self.place(range.low, true), self.place(range.high, false)))
                .collect(),
        )
    }

    /// Returns the cuts at both ends of a span of cells, with those of the bounds.
    pub(super) fn bounded_ends(&self, span: (u32, u32)) -> (Option<Cut>, Option<Cut>) {
        let (low, high) = self.ends(span);
        (low.or(self.least), high.or(self.most))
    }

    /// Returns every cut, with those of the bounds.
    pub(super) fn all_cuts(&self) -> impl Iterator<Item = Cut> {
        self.cuts.iter().copied().chain(self.least).chain(self.most)
    }

    /// Returns whether the number lies within the bounds of decimal numbers.
    pub(super) fn has(&self, number: Amount) -> bool {
        let at = |is_behind| Cut {
            at: number,
            is_behind,
        };
        self.least.is_none_or(|least| least <= at(false))
            && self.most.is_none_or(|most| at(true) <= most)
    }

    /// Returns the cuts at both ends of a span of cells.
    pub(super) fn ends(&self, (from, to): (u32, u32)) -> (Option<Cut>, Option<Cut>) {
        let low = (from as usize)
            .checked_sub(1)
            .and_then(|at| self.cuts.get(at));
        let high = (to as usize)
            .checked_sub(1)
            .and_then(|at| self.cuts.get(at));
        (low.copied(), high.copied())
    }

    /// Returns the number of the first cell after an end.
    fn place(&self, end: End, is_low: bool) -> u32 {
        let at = match self.edge(end, is_low) {
            Edge::First => 0,
            Edge::At(cut) => self
                .cuts
                .partition_point(|other| *other < cut)
                .saturating_add(1),
            Edge::Last => self.cuts.len().saturating_add(1),
        };
        u32::try_from(at).unwrap_or(u32::MAX - 4)
    }

    fn edge(&self, end: End, is_low: bool) -> Edge {
        let Some(cut) = cut_at(end, is_low) else {
            return if is_low { Edge::First } else { Edge::Last };
        };
        let Cut { at, is_behind } = cut;
        let Some((least, most)) = self.whole else {
            if self.least.is_some_and(|least| cut <= least) {
                return Edge::First;
            }
            if self.most.is_some_and(|most| cut >= most) {
                return Edge::Last;
            }
            return Edge::At(cut);
        };
        // All cuts between two neighbouring whole numbers are equal; place them before
        // the upper one.
        if at < Amount::from_i64(least) {
            return Edge::First;
        }
        if at > Amount::from_i64(most) {
            return Edge::Last;
        }
        let whole = at.decimal();
        let floor = i64::try_from(whole.floor()).unwrap_or(most);
        let is_above = is_behind || whole.floor() != whole;
        match if is_above {
            floor.checked_add(1)
        } else {
            Some(floor)
        } {
            Some(next) if next <= least => Edge::First,
            Some(next) if next <= most => Edge::At(Cut {
                at: Amount::from_i64(next),
                is_behind: false,
            }),
            _ => Edge::Last,
        }
    }
}

/// Returns 1, 0.1, 0.01, …
pub(super) fn units() -> impl Iterator<Item = Amount> {
    let tenth = Amount::parse_wire("0.1").unwrap_or(Amount::ONE);
    std::iter::successors(Some(Amount::ONE), move |unit| unit.checked_mul(tenth)).take(28)
}

/// Returns the cut at the end of a range, or `None` if the range has no such end.
fn cut_at(end: End, is_low: bool) -> Option<Cut> {
    let (at, is_behind) = match (end, is_low) {
        (End::Open, _) => return None,
        (End::With(at), true) | (End::Without(at), false) => (at, false),
        (End::Without(at), true) | (End::With(at), false) => (at, true),
    };
    Some(Cut { at, is_behind })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(low: End, high: End) -> Ranges {
        Ranges::between(low, high)
    }

    fn amount(text: &str) -> Amount {
        Amount::parse_wire(text).unwrap()
    }

    #[test]
    fn no_whole_number_lies_between_three_and_four() {
        let (open, three, four) = (End::Open, amount("3"), amount("4"));
        let above = [
            End::Without(three),
            End::With(amount("3.5")),
            End::Without(amount("3.2")),
            End::With(four),
        ];
        let sets: Vec<Ranges> = above.into_iter().map(|low| ranges(low, open)).collect();
        let mut whole = Numbers::whole(0, 9);
        sets.iter().for_each(|set| whole.mention(set));
        assert_eq!(whole.seal(), 2);
        assert!(sets.iter().all(|set| whole.cells(set) == Cells::one(1)));
        let mut all = Numbers::default();
        sets.iter().for_each(|set| all.mention(set));
        assert_eq!(all.seal(), 5);
    }

    #[test]
    fn the_ends_of_whole_numbers_are_not_cuts() {
        let all = [
            ranges(End::With(amount("0")), End::Open),
            ranges(End::Without(amount("-1")), End::With(amount("9"))),
            ranges(End::Open, End::Without(amount("10"))),
            ranges(End::With(amount("-0.5")), End::With(amount("9.5"))),
        ];
        let mut whole = Numbers::whole(0, 9);
        all.iter().for_each(|set| whole.mention(set));
        assert_eq!(whole.seal(), 1);
        assert!(all.iter().all(|set| whole.cells(set) == Cells::one(0)));
        let none = [
            ranges(End::Open, End::Without(amount("0"))),
            ranges(End::Without(amount("9")), End::Open),
            ranges(End::With(amount("9.5")), End::With(amount("12"))),
            ranges(End::Without(amount("3")), End::Without(amount("4"))),
        ];
        none.iter().for_each(|set| whole.mention(set));
        whole.seal();
        assert!(none.iter().all(|set| whole.cells(set).is_empty()));
        let mut largest = Numbers::whole(0, i64::MAX);
        let top = ranges(End::With(Amount::from_i64(i64::MAX)), End::Open);
        largest.mention(&top);
        assert_eq!(largest.seal(), 2);
        assert_eq!(largest.cells(&top), Cells::one(1));
        assert!(
            largest
                .cells(&ranges(End::Without(Amount::from_i64(i64::MAX)), End::Open))
                .is_empty()
        );
    }
}
