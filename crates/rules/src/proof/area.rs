//! Areas: what a rule acts on, as a box over dimensions. Pieces: what is left of an area after
//! parts were cut off.

use std::rc::Rc;

use super::cells::Cells;

/// The relevant cells of some dimensions, by rising number. Of every other dimension, all
/// cells are relevant.
pub(super) type Sides = Vec<(u32, Rc<Cells>)>;

/// What a rule acts on.
#[derive(Clone, Debug, Default)]
pub(super) struct Area {
    /// Conditions on single values.
    pub sides: Sides,
    /// Conditions on crowds, by number of the crowd.
    pub asks: Vec<(u32, Ask)>,
}

/// A condition on a crowd, which is the elements of an array or the links in a text. An unknown
/// crowd satisfies every condition.
#[derive(Clone, Debug)]
pub(super) enum Ask {
    /// Some element is in this area.
    Some(Rc<Area>),
    /// There is no element.
    Empty,
}

/// The crowds that are still possible.
#[derive(Clone, Debug)]
pub(super) struct Crowd {
    /// Whether the crowd may be unknown.
    pub may_be_unknown: bool,
    /// If it is known, some element is in each of these areas.
    pub with: Vec<Rc<Area>>,
    /// If it is known, no element is in any of these areas.
    pub without: Vec<Rc<Area>>,
}

/// A part of an area.
#[derive(Clone, Debug, Default)]
pub(super) struct Piece {
    /// Cells of single values.
    pub sides: Sides,
    /// Crowds, by rising number. Any other crowd is unrestricted.
    pub crowds: Vec<(u32, Crowd)>,
}

impl Crowd {
    /// Returns the unrestricted crowd.
    pub(super) fn any() -> Crowd {
        Crowd {
            may_be_unknown: true,
            with: Vec::new(),
            without: Vec::new(),
        }
    }

    /// Returns the amount of work that it causes, in steps.
    pub(super) fn weight(&self) -> u64 {
        (self.with.len() as u64)
            .saturating_add(self.without.len() as u64)
            .saturating_add(1)
    }

    /// Restricts it to crowds that satisfy the condition.
    pub(super) fn satisfying(mut self, ask: &Ask) -> Crowd {
        match ask {
            Ask::Some(area) => self.with.push(Rc::clone(area)),
            Ask::Empty => self.without.push(Rc::default()),
        }
        self
    }

    /// Restricts it to crowds that do not satisfy the condition.
    pub(super) fn failing(mut self, ask: &Ask) -> Crowd {
        match ask {
            Ask::Some(area) => self.without.push(Rc::clone(area)),
            Ask::Empty => self.with.push(Rc::default()),
        }
        self.may_be_unknown = false;
        self
    }
}

impl Piece {
    /// Returns a piece that covers a whole area.
    pub(super) fn all_of(area: &Area) -> Piece {
        let mut piece = Piece {
            sides: area.sides.clone(),
            crowds: Vec::new(),
        };
        for (number, ask) in &area.asks {
            let crowd = piece.crowd(*number).satisfying(ask);
            piece.set_crowd(*number, crowd);
        }
        piece
    }

    /// Returns the amount of work that copying it causes, in steps.
    pub(super) fn weight(&self) -> u64 {
        let crowds = self.crowds.iter().map(|(_, crowd)| crowd.weight());
        crowds.fold(self.sides.len() as u64, u64::saturating_add)
    }

    /// Returns the cells of a dimension, or `None` if all cells are relevant.
    pub(super) fn side(&self, dimension: u32) -> Option<&Rc<Cells>> {
        let at = self
            .sides
            .binary_search_by_key(&dimension, |(number, _)| *number)
            .ok()?;
        self.sides.get(at).map(|(_, cells)| cells)
    }

    /// Replaces the cells of a dimension.
    pub(super) fn set_side(&mut self, dimension: u32, cells: Cells) {
        let side = (dimension, Rc::new(cells));
        match self
            .sides
            .binary_search_by_key(&dimension, |(number, _)| *number)
        {
            Ok(at) => self.sides.splice(at..=at, [side]),
            Err(at) => self.sides.splice(at..at, [side]),
        };
    }

    /// Returns what is possible for a crowd.
    pub(super) fn crowd(&self, number: u32) -> Crowd {
        let at = self.crowds.iter().find(|(other, _)| *other == number);
        at.map_or_else(Crowd::any, |(_, crowd)| crowd.clone())
    }

    /// Replaces what is possible for a crowd.
    pub(super) fn set_crowd(&mut self, number: u32, crowd: Crowd) {
        match self.crowds.iter_mut().find(|(other, _)| *other == number) {
            Some((_, place)) => *place = crowd,
            None => self.crowds.push((number, crowd)),
        }
    }
}
