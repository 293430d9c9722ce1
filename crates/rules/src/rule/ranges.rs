//! Sets of numbers as disjoint ranges: the numbers for which a condition holds. Decisions and
//! proofs use the same values.

use std::cmp::Ordering;

use spoolgate_wire::amount::Amount;

/// One end of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The range is unbounded on this side.
    Open,
    /// The end belongs to the range.
    With(Amount),
    /// The end does not belong to the range.
    Without(Amount),
}

/// All numbers between two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Where it begins.
    pub low: End,
    /// Where it ends.
    pub high: End,
}

/// A set of numbers.
// INVARIANT: ranges are not empty, in rising order, and no two of them touch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranges(Vec<Range>);

impl Range {
    /// Returns whether the range has no number.
    fn is_empty(&self) -> bool {
        match (self.low, self.high) {
            (End::Open, _) | (_, End::Open) => false,
            (End::With(low), End::With(high)) => low > high,
            (End::With(low) | End::Without(low), End::With(high) | End::Without(high)) => {
                low >= high
            }
        }
    }

    /// Returns whether the number is in the range.
    pub fn holds(&self, number: Amount) -> bool {
        let after = match self.low {
            End::Open => true,
            End::With(low) => number >= low,
            End::Without(low) => number > low,
        };
        after
            && match self.high {
                End::Open => true,
                End::With(high) => number <= high,
                End::Without(high) => number < high,
            }
    }

    fn overlap(&self, other: &Range) -> Range {
        let low = if compare_low(self.low, other.low) == Ordering::Less {
            other.low
        } else {
            self.low
        };
        let high = if compare_high(self.high, other.high) == Ordering::Greater {
            other.high
        } else {
            self.high
        };
        Range { low, high }
    }

    /// Returns whether no number lies between the end of this range and the start of `next`.
    fn reaches(&self, next: &Range) -> bool {
        match (self.high, next.low) {
            (End::Open, _) | (_, End::Open) => true,
            (End::Without(high), End::Without(low)) => high > low,
            (End::With(high) | End::Without(high), End::With(low) | End::Without(low)) => {
                high >= low
            }
        }
    }
}

fn compare_low(a: End, b: End) -> Ordering {
    match (a, b) {
        (End::Open, End::Open) => Ordering::Equal,
        (End::Open, _) => Ordering::Less,
        (_, End::Open) => Ordering::Greater,
        (End::With(a) | End::Without(a), End::With(b) | End::Without(b)) if a != b => a.cmp(&b),
        (End::With(_), End::Without(_)) => Ordering::Less,
        (End::Without(_), End::With(_)) => Ordering::Greater,
        _ => Ordering::Equal,
    }
}

fn compare_high(a: End, b: End) -> Ordering {
    match (a, b) {
        (End::Open, End::Open) => Ordering::Equal,
        (End::Open, _) => Ordering::Greater,
        (_, End::Open) => Ordering::Less,
        (End::With(a) | End::Without(a), End::With(b) | End::Without(b)) if a != b => a.cmp(&b),
        (End::With(_), End::Without(_)) => Ordering::Greater,
        (End::Without(_), End::With(_)) => Ordering::Less,
        _ => Ordering::Equal,
    }
}

impl Ranges {
    /// Returns the set of all numbers.
    pub fn all() -> Ranges {
        Ranges(vec![Range {
            low: End::Open,
            high: End::Open,
        }])
    }

    /// Returns the empty set.
    pub fn none() -> Ranges {
        Ranges(Vec::new())
    }

    /// Returns the set of this number alone.
    pub fn only(number: Amount) -> Ranges {
        Ranges(vec![Range {
            low: End::With(number),
            high: End::With(number),
        }])
    }

    /// Returns the numbers from `low` to `high`.
    pub fn between(low: End, high: End) -> Ranges {
        Ranges::of(vec![Range { low, high }])
    }

    /// Returns the numbers that are in any of these ranges.
    pub fn of(mut ranges: Vec<Range>) -> Ranges {
        ranges.retain(|range| !range.is_empty());
        ranges.sort_by(|a, b| compare_low(a.low, b.low));
        let mut joined: Vec<Range> = Vec::with_capacity(ranges.len());
        for range in ranges {
            match joined.last_mut() {
                Some(last) if last.reaches(&range) => {
                    if compare_high(range.high, last.high) == Ordering::Greater {
                        last.high = range.high;
                    }
                }
                _ => joined.push(range),
            }
        }
        Ranges(joined)
    }

    /// Returns whether the number is in the set.
    pub fn holds(&self, number: Amount) -> bool {
        self.0.iter().any(|range| range.holds(number))
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the ranges, in rising order.
    pub fn parts(&self) -> &[Range] {
        &self.0
    }

    /// Returns the numbers that are in either set.
    pub fn union(&self, other: &Ranges) -> Ranges {
        Ranges::of(self.0.iter().chain(&other.0).copied().collect())
    }

    /// Returns the numbers that are in both sets.
    pub fn intersection(&self, other: &Ranges) -> Ranges {
        Ranges::of(
            self.0
                .iter()
                .flat_map(|a| other.0.iter().map(|b| a.overlap(b)))
                .collect(),
        )
    }

    /// Returns the numbers that are not in the set.
    pub fn complement(&self) -> Ranges {
        let mut gaps = Vec::with_capacity(self.0.len().saturating_add(1));
        let mut low = Some(End::Open);
        for range in &self.0 {
            if let (Some(low), Some(high)) = (low, before(range.low)) {
                gaps.push(Range { low, high });
            }
            low = after(range.high);
        }
        gaps.extend(low.map(|low| Range {
            low,
            high: End::Open,
        }));
        Ranges::of(gaps)
    }
}

/// Returns the upper end of the numbers below a range, or `None` if there are no such numbers.
fn before(low: End) -> Option<End> {
    match low {
        End::Open => None,
        End::With(low) => Some(End::Without(low)),
        End::Without(low) => Some(End::With(low)),
    }
}

/// Returns the lower end of the numbers above a range, or `None` if there are no such numbers.
fn after(high: End) -> Option<End> {
    match high {
        End::Open => None,
        End::With(high) => Some(End::Without(high)),
        End::Without(high) => Some(End::With(high)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn end() -> impl Strategy<Value = End> {
        let number = (-4_i64..5).prop_map(Amount::from_i64);
        prop_oneof![
            1 => Just(End::Open),
            3 => number.clone().prop_map(End::With),
            3 => number.prop_map(End::Without),
        ]
    }

    fn ranges() -> impl Strategy<Value = Ranges> {
        prop::collection::vec((end(), end()), 0..5).prop_map(|ends| {
            Ranges::of(
                ends.into_iter()
                    .map(|(low, high)| Range { low, high })
                    .collect(),
            )
        })
    }

    /// Returns numbers that tell any two of these sets apart: all ends, points between them, and
    /// points beyond them.
    fn probes() -> Vec<Amount> {
        (-11..12)
            .map(|half: i64| {
                Amount::from_i64(half)
                    .checked_mul(Amount::parse_wire("0.5").unwrap())
                    .unwrap()
            })
            .collect()
    }

    proptest! {
        #[test]
        fn set_operations_agree_point_by_point(a in ranges(), b in ranges()) {
            let (union, both, not) = (a.union(&b), a.intersection(&b), a.complement());
            for x in probes() {
                prop_assert_eq!(union.holds(x), a.holds(x) || b.holds(x));
                prop_assert_eq!(both.holds(x), a.holds(x) && b.holds(x));
                prop_assert_eq!(not.holds(x), !a.holds(x));
            }
            prop_assert_eq!(&not.complement(), &a, "one form only");
            prop_assert!(a.intersection(&not).is_empty());
            prop_assert_eq!(a.union(&not), Ranges::all());
        }
    }
}
