//! Decides whether areas together cover another one. They are cut out of it one by one until
//! nothing is left, or until a part is left that none of them touches.

use std::cmp::Reverse;
use std::ops::ControlFlow;
use std::rc::Rc;

use super::area::{Area, Crowd, Piece};
use super::cells::Cells;
use super::relate::{Mail, Relations};
use super::space::Dimension;

/// The budget is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exhausted;

/// Work done so far, and its limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steps {
    /// Steps taken.
    pub used: u64,
    /// Most steps that may be taken.
    pub limit: u64,
}

impl Steps {
    /// Counts work before it is done; fails if the budget does not suffice.
    pub(super) fn take(&mut self, steps: u64) -> Result<(), Exhausted> {
        self.used = self.used.saturating_add(steps);
        if self.used > self.limit {
            Err(Exhausted)
        } else {
            Ok(())
        }
    }

    /// Returns how many steps are left.
    pub(super) fn left(&self) -> u64 {
        self.limit.saturating_sub(self.used)
    }
}

/// Steps that one memory allocation counts as.
const MAKING: u64 = 4;

/// The position of an area relative to a piece.
enum Lie {
    /// They have nothing in common.
    Apart,
    /// The piece lies within it.
    Over,
    /// The area covers a part of the piece. The number counts the conditions that some of
    /// the piece fails.
    Across(usize),
}

/// Ties a yes-or-no dimension to another one: it can be yes only if the other has a value, because
/// a missing value cannot have been approved.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tie {
    /// The other dimension.
    pub to: u32,
    /// Number of the other dimension's cells with values; its later cells have no value.
    pub count: u32,
}

/// A piece with the areas that cover a part of it, each with the number of conditions that some of
/// the piece fails.
struct Open<'a> {
    piece: Piece,
    near: Vec<(&'a Area, usize)>,
}

/// Covers pieces of one space with areas.
pub(super) struct Cover<'s, 'a> {
    /// All cells of each dimension.
    pub universes: &'s [Cells],
    /// The tie of each dimension, if it has one.
    pub ties: &'s [Option<Tie>],
    /// Which facts are never above others.
    pub relations: &'s Relations<'a>,
    /// The dimensions.
    pub dimensions: &'s [Dimension<'a>],
    /// The budget.
    pub steps: &'s mut Steps,
}

impl Cover<'_, '_> {
    /// Passes the uncovered parts of a piece to `seen`, one by one, until it breaks. Returns
    /// whether there are any.
    pub(super) fn leave(
        &mut self,
        piece: Piece,
        areas: &[&Area],
        seen: &mut dyn FnMut(&Piece) -> ControlFlow<()>,
    ) -> Result<bool, Exhausted> {
        let mut is_any_left = false;
        let mut open: Vec<Open> = Vec::new();
        open.extend(self.open(piece, areas.iter().copied())?);
        while let Some(Open { piece, mut near }) = open.pop() {
            // Cut with the area that has the fewest open conditions: this gives fewer
            // and larger parts.
            let first = near
                .iter()
                .enumerate()
                .min_by_key(|(_, (_, cuts))| *cuts)
                .map(|(at, _)| at);
            let Some(first) = first else {
                is_any_left = true;
                if seen(&piece).is_break() {
                    return Ok(true);
                }
                continue;
            };
            let (area, _) = near.swap_remove(first);
            let behind = open.len();
            for part in self.cut(piece, area)? {
                open.extend(self.open(part, near.iter().map(|(area, _)| *area))?);
            }
            // Continue with the part that the fewest areas touch: an uncovered part is found
            // sooner this way.
            if let Some(parts) = open.get_mut(behind..) {
                parts.sort_by_key(|part| Reverse(part.near.len()));
            }
        }
        Ok(is_any_left)
    }

    /// Returns the piece with the areas that touch it, or `None` if it is empty or one area covers
    /// it completely.
    fn open<'a>(
        &mut self,
        piece: Piece,
        areas: impl Iterator<Item = &'a Area>,
    ) -> Result<Option<Open<'a>>, Exhausted> {
        if !self.is_possible(&piece)? {
            return Ok(None);
        }
        Ok(self.near(&piece, areas)?.map(|near| Open { piece, near }))
    }

    /// Returns the areas that cover a part of the piece, each with the number of conditions that
    /// some of the piece fails. Returns `None` if one area covers the piece completely.
    fn near<'a>(
        &mut self,
        piece: &Piece,
        areas: impl Iterator<Item = &'a Area>,
    ) -> Result<Option<Vec<(&'a Area, usize)>>, Exhausted> {
        let mut near = Vec::new();
        for area in areas {
            match self.lie(piece, area)? {
                Lie::Apart => {}
                Lie::Over => return Ok(None),
                Lie::Across(cuts) => near.push((area, cuts)),
            }
        }
        Ok(Some(near))
    }

    fn lie(&mut self, piece: &Piece, area: &Area) -> Result<Lie, Exhausted> {
        let mut cuts = 0_usize;
        self.steps.take(1)?;
        for (dimension, cells) in &area.sides {
            let Some(have) = piece.side(*dimension) else {
                // Areas have no sides with all cells.
                self.steps.take(1)?;
                cuts = cuts.saturating_add(1);
                continue;
            };
            self.steps
                .take(have.weight().saturating_add(cells.weight()))?;
            if have.is_apart(cells) {
                return Ok(Lie::Apart);
            }
            cuts = cuts.saturating_add(usize::from(!have.is_within(cells)));
        }
        for (number, ask) in &area.asks {
            let crowd = piece.crowd(*number);
            self.steps.take(crowd.weight())?;
            if !self.can_be(&crowd.clone().satisfying(ask))? {
                return Ok(Lie::Apart);
            }
            cuts = cuts.saturating_add(usize::from(self.can_be(&crowd.failing(ask))?));
        }
        Ok(if cuts == 0 {
            Lie::Over
        } else {
            Lie::Across(cuts)
        })
    }

    /// Returns the piece without the area, as disjoint parts.
    fn cut(&mut self, piece: Piece, area: &Area) -> Result<Vec<Piece>, Exhausted> {
        let mut parts = Vec::new();
        let mut within = piece;
        for (dimension, cells) in &area.sides {
            let all = self.universes.get(*dimension as usize);
            let Some(have) = within.side(*dimension).map(Rc::as_ref).or(all) else {
                continue;
            };
            self.steps.take(
                have.weight()
                    .saturating_add(cells.weight())
                    .saturating_add(MAKING),
            )?;
            let (outside, inside) = (have.minus(cells), have.intersection(cells));
            if !outside.is_empty() {
                self.steps.take(within.weight().saturating_add(MAKING))?;
                let mut part = within.clone();
                part.set_side(*dimension, outside);
                parts.push(part);
                within.set_side(*dimension, inside);
            }
        }
        for (number, ask) in &area.asks {
            let crowd = within.crowd(*number);
            self.steps.take(crowd.weight())?;
            let outside = crowd.clone().failing(ask);
            if self.can_be(&outside)? {
                self.steps.take(within.weight().saturating_add(MAKING))?;
                let mut part = within.clone();
                part.set_crowd(*number, outside);
                parts.push(part);
                within.set_crowd(*number, crowd.satisfying(ask));
            }
        }
        Ok(parts)
    }

    fn is_possible(&mut self, piece: &Piece) -> Result<bool, Exhausted> {
        self.steps.take(piece.sides.len() as u64)?;
        if piece.sides.iter().any(|(_, cells)| cells.is_empty()) {
            return Ok(false);
        }
        for (dimension, cells) in piece.sides.iter().filter(|(_, cells)| !cells.holds(0)) {
            let Some(Some(tie)) = self.ties.get(*dimension as usize) else {
                continue;
            };
            let values = Cells::span(0, tie.count);
            self.steps.take(cells.weight())?;
            if piece
                .side(tie.to)
                .is_some_and(|cells| cells.is_apart(&values))
            {
                return Ok(false);
            }
        }
        if !self
            .relations
            .allow(self.dimensions, self.universes, piece, self.steps)?
        {
            return Ok(false);
        }
        for (_, crowd) in &piece.crowds {
            if !self.can_be(crowd)? {
                return Ok(false);
            }
        }
        match self.relations.mail {
            Some(mail) if piece.crowds.iter().any(|(at, _)| *at == mail.recipients) => {
                self.can_be_mail(&mail.crowds(piece))
            }
            _ => Ok(true),
        }
    }

    /// Returns whether a mail has such crowds of `to`, `cc` and `recipients`, each of which is
    /// possible alone.
    fn can_be_mail(&mut self, [to, cc, recipients]: &[Crowd; 3]) -> Result<bool, Exhausted> {
        // The recipients are not known if one of the others is not.
        if recipients.may_be_unknown && (to.may_be_unknown || cc.may_be_unknown) {
            return Ok(true);
        }
        let (to, cc) = (Mail::among(to, recipients), Mail::among(cc, recipients));
        if !self.can_be(&to)? || !self.can_be(&cc)? {
            return Ok(false);
        }
        for wanted in &recipients.with {
            if self.room(wanted, &to)?.is_none() && self.room(wanted, &cc)?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns whether such a crowd exists: every area in `with` has room outside the
    /// areas in `without`.
    fn can_be(&mut self, crowd: &Crowd) -> Result<bool, Exhausted> {
        if crowd.may_be_unknown {
            return Ok(true);
        }
        for wanted in &crowd.with {
            if self.room(wanted, crowd)?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns a part of `wanted` in which elements of the crowd may be.
    pub(super) fn room(
        &mut self,
        wanted: &Area,
        crowd: &Crowd,
    ) -> Result<Option<Piece>, Exhausted> {
        let without: Vec<&Area> = crowd.without.iter().map(Rc::as_ref).collect();
        self.steps.take(1)?;
        let mut room = None;
        let mut first = |piece: &Piece| {
            room = Some(piece.clone());
            ControlFlow::Break(())
        };
        self.leave(Piece::all_of(wanted), &without, &mut first)?;
        Ok(room)
    }
}

#[cfg(test)]
mod tests {
    use super::super::area::Ask;
    use super::*;

    fn side(dimension: u32, from: u32, to: u32) -> (u32, Rc<Cells>) {
        (dimension, Rc::new(Cells::span(from, to)))
    }

    fn left(piece: Piece, areas: &[Area], limit: u64) -> Result<bool, Exhausted> {
        let universes = vec![Cells::span(0, 4); 3];
        let mut steps = Steps { used: 0, limit };
        let areas: Vec<&Area> = areas.iter().collect();
        Cover {
            universes: &universes,
            ties: &[],
            relations: &Relations::default(),
            dimensions: &[],
            steps: &mut steps,
        }
        .leave(piece, &areas, &mut |_| ControlFlow::Break(()))
    }

    #[test]
    fn two_halves_cover_and_one_does_not() {
        let low = Area {
            sides: vec![side(0, 0, 2)],
            asks: Vec::new(),
        };
        let high = Area {
            sides: vec![side(0, 2, 4)],
            asks: Vec::new(),
        };
        assert_eq!(
            left(Piece::default(), &[low.clone(), high], 1000),
            Ok(false)
        );
        assert_eq!(left(Piece::default(), &[low], 1000), Ok(true));
        assert_eq!(left(Piece::default(), &[], 1000), Ok(true));
    }

    #[test]
    fn a_crowd_that_must_keep_clear_of_two_halves_has_no_element() {
        let half = |from, to| {
            Ask::Some(Rc::new(Area {
                sides: vec![side(0, from, to)],
                asks: Vec::new(),
            }))
        };
        let asking = |ask: Ask| Area {
            sides: Vec::new(),
            asks: vec![(0, ask)],
        };
        let occupied = Area {
            sides: Vec::new(),
            asks: vec![(0, Ask::Some(Rc::default()))],
        };
        let both = [asking(half(0, 2)), asking(half(2, 4))];
        assert_eq!(
            left(Piece::all_of(&occupied), &both, 1000),
            Ok(false),
            "every element is in one of the halves"
        );
        assert_eq!(
            left(Piece::default(), &both, 1000),
            Ok(true),
            "a crowd without elements is in neither"
        );
        let three = [asking(half(0, 2)), asking(half(2, 4)), asking(Ask::Empty)];
        assert_eq!(left(Piece::default(), &three, 1000), Ok(false));
        assert_eq!(
            left(Piece::all_of(&asking(half(1, 3))), &both[..1], 1000),
            Ok(true),
            "an element in cell 2 is in the other half"
        );
    }

    #[test]
    fn an_exhausted_budget_is_an_error() {
        let areas: Vec<Area> = (0..3)
            .map(|at| Area {
                sides: vec![side(at, 0, 2)],
                asks: Vec::new(),
            })
            .collect();
        assert_eq!(left(Piece::default(), &areas, 3), Err(Exhausted));
    }
}
