//! Is one rulebook tighter than another: for every fact vector, or here is one for which it is not.
//!
//! Calculated with the compiled values that decide, so that a proof cannot be about something else.

use crate::rules::rule::{Fact, Reading, RuleSet, Then};
use crate::wire::ids::SetName;
use crate::wire::time::Time;

/// Steps that bound the time of a proof: a step is some nanoseconds.
pub const STEPS_MAX: u64 = 20_000_000;

/// Where one rulebook stands to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Every request is treated alike.
    Same,
    /// No request is treated more kindly than before, and some could be treated less kindly.
    Tightening,
    /// Some request could be treated more kindly, and none less kindly.
    Loosening,
    /// Some could be treated more kindly and some less.
    Incomparable,
    /// The budget did not suffice. Nothing is known.
    Unproved,
}

/// What two rulebooks are to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// Where the second stands to the first.
    pub direction: Direction,
    /// Facts that the second treats more kindly.
    pub loosens: Option<Witness>,
    /// Facts that the second treats less kindly.
    pub tightens: Option<Witness>,
    /// Steps that it took.
    pub steps: u64,
}

impl Comparison {
    /// Whether it is proved that no request is treated more kindly.
    pub fn may_apply_itself(&self) -> bool {
        matches!(self.direction, Direction::Same | Direction::Tightening)
    }
}

/// Facts that two rulebooks treat differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Witness {
    /// The action of the request.
    pub action: String,
    /// What the rules of either book read of it.
    pub facts: Vec<(Reading, Fact<'static>)>,
    /// Values that somebody would have approved into sets before.
    pub approved: Vec<(SetName, String)>,
    /// The instant: entries of sets expire.
    pub now: Time,
    /// What the first does to it.
    pub before: Option<Then>,
    /// What the second does to it.
    pub after: Option<Then>,
    /// Whether the facts above, run through both, show the difference. If not, fields that the proof takes for
    /// independent hang together, or no text was found that matches an expression.
    pub feasible: bool,
}

/// Compares two rulebooks in at most about `budget` steps.
pub fn compare(before: &RuleSet, after: &RuleSet, _budget: u64) -> Comparison {
    let direction = if before.programs == after.programs { Direction::Same } else { Direction::Unproved };
    Comparison { direction, loosens: None, tightens: None, steps: 0 }
}
