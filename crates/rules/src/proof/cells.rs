//! Sets of cells. The values of a dimension are cut into numbered cells wherever a condition can
//! tell two values apart.

/// A set of cells.
// INVARIANT: spans `from..to` are not empty, are in rising order, and no two of them touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cells(Vec<(u32, u32)>);

impl Cells {
    /// Returns the empty set.
    pub(super) fn none() -> Cells {
        Cells(Vec::new())
    }

    /// Returns the cells from `from` up to, but not including, `to`.
    pub(super) fn span(from: u32, to: u32) -> Cells {
        Cells::of(vec![(from, to)])
    }

    /// Returns the set of one cell.
    pub(super) fn one(at: u32) -> Cells {
        Cells::span(at, at.saturating_add(1))
    }

    /// Returns the cells in any of these spans.
    pub(super) fn of(mut spans: Vec<(u32, u32)>) -> Cells {
        spans.retain(|(from, to)| from < to);
        spans.sort_unstable();
        let mut joined: Vec<(u32, u32)> = Vec::with_capacity(spans.len());
        for (from, to) in spans {
            match joined.last_mut() {
                Some((_, end)) if from <= *end => *end = (*end).max(to),
                _ => joined.push((from, to)),
            }
        }
        Cells(joined)
    }

    /// Returns the spans; the second number of each is exclusive.
    pub(super) fn spans(&self) -> &[(u32, u32)] {
        &self.0
    }

    /// Returns every cell.
    pub(super) fn each(&self) -> impl Iterator<Item = u32> {
        self.0.iter().flat_map(|(from, to)| *from..*to)
    }

    /// Returns whether the set is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the amount of work that it causes, in steps.
    pub(super) fn weight(&self) -> u64 {
        self.0.len() as u64
    }

    /// Returns whether the cell is in the set.
    pub(super) fn holds(&self, cell: u32) -> bool {
        let after = self.0.partition_point(|(from, _)| *from <= cell);
        after
            .checked_sub(1)
            .and_then(|at| self.0.get(at))
            .is_some_and(|(_, to)| cell < *to)
    }

    /// Returns the cells that are in either set.
    pub(super) fn union(&self, other: &Cells) -> Cells {
        Cells::of(self.0.iter().chain(&other.0).copied().collect())
    }

    /// Returns the cells that are in both sets.
    pub(super) fn intersection(&self, other: &Cells) -> Cells {
        let mut both = Vec::new();
        self.overlaps(other, |from, to| {
            both.push((from, to));
            true
        });
        Cells(both)
    }

    /// Returns the cells that are not in the other set.
    pub(super) fn minus(&self, other: &Cells) -> Cells {
        let mut left = Vec::new();
        let mut cuts = other.0.iter().copied().peekable();
        for (mut from, to) in self.0.iter().copied() {
            while cuts.next_if(|(_, end)| *end <= from).is_some() {}
            while let Some((cut, end)) = cuts.peek().copied().filter(|(cut, _)| *cut < to) {
                if from < cut {
                    left.push((from, cut));
                }
                from = from.max(end);
                if end > to {
                    break;
                }
                cuts.next();
            }
            if from < to {
                left.push((from, to));
            }
        }
        Cells(left)
    }

    /// Returns whether the sets have no cell in common.
    pub(super) fn is_apart(&self, other: &Cells) -> bool {
        let mut is_apart = true;
        self.overlaps(other, |_, _| {
            is_apart = false;
            false
        });
        is_apart
    }

    /// Returns whether all cells are in the other set.
    pub(super) fn is_within(&self, other: &Cells) -> bool {
        let mut others = other.0.iter().copied().peekable();
        self.0.iter().all(|(from, to)| {
            while others.next_if(|(_, end)| end <= from).is_some() {}
            others
                .peek()
                .is_some_and(|(start, end)| start <= from && to <= end)
        })
    }

    /// Calls `found` for every common span until it returns false.
    fn overlaps(&self, other: &Cells, mut found: impl FnMut(u32, u32) -> bool) {
        let (mut mine, mut theirs) = (self.0.iter().peekable(), other.0.iter().peekable());
        while let (Some((a, b)), Some((c, d))) = (mine.peek(), theirs.peek()) {
            let (from, to) = (*a.max(c), *b.min(d));
            if from < to && !found(from, to) {
                return;
            }
            if b <= d {
                mine.next()
            } else {
                theirs.next()
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from_bits(bits: u32) -> Cells {
        Cells::of(
            (0..8)
                .filter(|at| bits >> at & 1 == 1)
                .map(|at| (at, at + 1))
                .collect(),
        )
    }

    fn bits(cells: &Cells) -> u32 {
        cells.each().map(|at| 1 << at).sum()
    }

    #[test]
    fn every_pair_of_sets_of_eight_cells() {
        for a in 0..256 {
            let left = from_bits(a);
            assert_eq!(bits(&left), a);
            assert!((0..8).all(|at| left.holds(at) == (a >> at & 1 == 1)));
            for b in 0..256 {
                let right = from_bits(b);
                assert_eq!(left.intersection(&right), from_bits(a & b), "{a} {b}");
                assert_eq!(left.union(&right), from_bits(a | b), "{a} {b}");
                assert_eq!(left.minus(&right), from_bits(a & !b), "{a} {b}");
                assert_eq!(left.is_apart(&right), a & b == 0, "{a} {b}");
                assert_eq!(left.is_within(&right), a & !b == 0, "{a} {b}");
            }
        }
    }
}
