//! Areas: what a rule acts on, as a box over dimensions; and pieces of them, with what is cut off.

use std::rc::Rc;

use super::cells::Cells;

/// For some dimensions, by rising number, the cells that count; all cells of every other.
pub type Sides = Vec<(u32, Rc<Cells>)>;

/// What a rule acts on.
#[derive(Clone, Debug, Default)]
pub struct Area {
    /// What it asks of single values.
    pub sides: Sides,
    /// What it asks of crowds, by number of the crowd.
    pub asks: Vec<(u32, Ask)>,
}

/// What a condition asks of a crowd: the elements of an array, or the links in a text. One that is not known satisfies
/// either.
#[derive(Clone, Debug)]
pub enum Ask {
    /// Some element lies in this area.
    Some(Rc<Area>),
    /// There is no element.
    Nobody,
}

/// What is left of a crowd's possibilities.
#[derive(Clone, Debug)]
pub struct Crowd {
    /// It may be unknown.
    pub may_be_unknown: bool,
    /// If it is known: in each of these areas lies some element, and
    pub with: Vec<Rc<Area>>,
    /// in none of these lies any.
    pub without: Vec<Rc<Area>>,
}

/// A part of an area.
#[derive(Clone, Debug, Default)]
pub struct Piece {
    /// Single values.
    pub sides: Sides,
    /// Crowds, by rising number; any crowd in place of every other.
    pub crowds: Vec<(u32, Crowd)>,
}

impl Crowd {
    /// Any crowd at all.
    pub fn any() -> Crowd {
        Crowd { may_be_unknown: true, with: Vec::new(), without: Vec::new() }
    }

    /// How much work it is.
    pub fn weight(&self) -> u64 {
        (self.with.len() as u64).saturating_add(self.without.len() as u64).saturating_add(1)
    }

    /// Those that satisfy the condition.
    pub fn satisfying(mut self, ask: &Ask) -> Crowd {
        match ask {
            Ask::Some(area) => self.with.push(Rc::clone(area)),
            Ask::Nobody => self.without.push(Rc::default()),
        }
        self
    }

    /// Those that do not.
    pub fn failing(mut self, ask: &Ask) -> Crowd {
        match ask {
            Ask::Some(area) => self.without.push(Rc::clone(area)),
            Ask::Nobody => self.with.push(Rc::default()),
        }
        self.may_be_unknown = false;
        self
    }
}

impl Piece {
    /// All of an area.
    pub fn all_of(area: &Area) -> Piece {
        let mut piece = Piece { sides: area.sides.clone(), crowds: Vec::new() };
        for (number, ask) in &area.asks {
            let crowd = piece.crowd(*number).satisfying(ask);
            piece.set_crowd(*number, crowd);
        }
        piece
    }

    /// How much work it is to copy it.
    pub fn weight(&self) -> u64 {
        let crowds = self.crowds.iter().map(|(_, crowd)| crowd.weight());
        crowds.fold(self.sides.len() as u64, u64::saturating_add)
    }

    /// Cells of a dimension, if not all.
    pub fn side(&self, dimension: u32) -> Option<&Rc<Cells>> {
        let at = self.sides.binary_search_by_key(&dimension, |(number, _)| *number).ok()?;
        self.sides.get(at).map(|(_, cells)| cells)
    }

    /// Puts other cells in place of those of a dimension.
    pub fn set_side(&mut self, dimension: u32, cells: Cells) {
        let side = (dimension, Rc::new(cells));
        match self.sides.binary_search_by_key(&dimension, |(number, _)| *number) {
            Ok(at) => self.sides.splice(at..=at, [side]),
            Err(at) => self.sides.splice(at..at, [side]),
        };
    }

    /// What is left of a crowd.
    pub fn crowd(&self, number: u32) -> Crowd {
        let at = self.crowds.iter().find(|(other, _)| *other == number);
        at.map_or_else(Crowd::any, |(_, crowd)| crowd.clone())
    }

    /// Puts another crowd in its place.
    pub fn set_crowd(&mut self, number: u32, crowd: Crowd) {
        match self.crowds.iter_mut().find(|(other, _)| *other == number) {
            Some((_, place)) => *place = crowd,
            None => self.crowds.push((number, crowd)),
        }
    }
}
