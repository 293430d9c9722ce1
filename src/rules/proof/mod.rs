//! Is one rulebook tighter than another: for every fact vector, or here is one for which it is not.
//!
//! Calculated with the compiled values that decide, so that a proof cannot be about something else.

mod area;
mod cells;
mod cover;
mod cuts;
mod space;
mod witness;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use area::{Area, Piece};
use cover::{Cover, Exhausted, Steps};
use space::{Resolver, Space};

use crate::rules::rule::entries::Entry;
use crate::rules::rule::{Around, Entries, Fact, Guard, Program, Reading, RuleSet, RuleStatus, Then};
use crate::wire::ids::{Principal, SetName};
use crate::wire::time::Time;

/// Steps that bound the time of a proof: a step is some nanoseconds.
pub const STEPS_MAX: u64 = 10_000_000;

/// Most parts of what is left over that are tried for an example.
const EXAMPLES_MAX: usize = 16;

/// Where one rulebook stands to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Every request is treated alike.
    Same,
    /// No request is treated more kindly than before. Some could be treated less kindly, as [`Comparison::tightens`]
    /// shows; without that the budget did not suffice to tell whether any could.
    Tightening,
    /// Some request could be treated more kindly, and none less kindly.
    Loosening,
    /// Some could be treated more kindly and some less.
    Incomparable,
    /// The budget did not suffice to prove that no request is treated more kindly, or, where one is, that none is
    /// treated less kindly. [`Comparison::loosens`] shows whether one is.
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

/// Compares two rulebooks in about `budget` steps at most, [`STEPS_MAX`] for instance.
///
/// `after` tightens `before` if, at every instant, for every action and every vector of facts, the hardest thing that
/// its rules do is not less than before: warning is less than holding, and that less than refusing.
pub fn compare(before: &RuleSet, after: &RuleSet, budget: u64) -> Comparison {
    let mut steps = Steps { used: 0, limit: budget };
    let loosens = softer(before, after, &mut steps);
    let tightens = softer(after, before, &mut steps);
    let direction = match (&loosens, &tightens) {
        (Ok(None), Ok(None)) => Direction::Same,
        // What was asked is proved; whether anything changes at all need not be.
        (Ok(None), Ok(Some(_)) | Err(Exhausted)) => Direction::Tightening,
        (Ok(Some(_)), Ok(None)) => Direction::Loosening,
        (Ok(Some(_)), Ok(Some(_))) => Direction::Incomparable,
        (Err(Exhausted), _) | (Ok(Some(_)), Err(Exhausted)) => Direction::Unproved,
    };
    let swap = |witness: Witness| Witness { before: witness.after, after: witness.before, ..witness };
    Comparison {
        direction,
        loosens: loosens.ok().flatten(),
        tightens: tightens.ok().flatten().map(swap),
        steps: steps.used,
    }
}

/// Facts that `other` treats more kindly than `book`, if there are any.
fn softer(book: &RuleSet, other: &RuleSet, steps: &mut Steps) -> Result<Option<Witness>, Exhausted> {
    let nothing = Program::default();
    for (action, program) in &book.programs {
        let pair = Pair { action, hard: program, soft: other.programs.get(action).unwrap_or(&nothing) };
        if let Some(witness) = pair.softer(steps)? {
            return Ok(Some(witness));
        }
    }
    Ok(None)
}

/// The rules of one action in two rulebooks: is there anything that the second does less about?
struct Pair<'a> {
    action: &'a str,
    hard: &'a Program,
    soft: &'a Program,
}

/// How hard it is on the request.
fn hardness(act: Option<Then>) -> Then {
    act.unwrap_or(Then::Warn)
}

fn counts(guard: &Guard) -> bool {
    guard.status == RuleStatus::Active && guard.then > Then::Warn
}

impl<'a> Pair<'a> {
    fn softer(&self, steps: &mut Steps) -> Result<Option<Witness>, Exhausted> {
        let changed = self.changed(steps)?;
        if changed.is_empty() {
            return Ok(None);
        }
        let (readings, soft_slots) = self.readings();
        let hard_slots: Vec<usize> = (0..self.hard.readings.len()).collect();
        let soft: Vec<&Guard> = self.soft.guards.iter().filter(|guard| counts(guard)).collect();
        let mut space = Space::over(readings);
        for (guards, slots) in [(&changed, &hard_slots), (&soft, &soft_slots)] {
            for guard in guards {
                space.mention(guard, slots, steps)?;
            }
        }
        let endings = space::endings(changed.iter().chain(&soft).copied(), steps)?;
        if space.is_opaque {
            return Err(Exhausted);
        }
        space.seal();
        for now in instants(&endings) {
            let mut resolver = Resolver::at(&space, now);
            let mut areas = Vec::with_capacity(soft.len());
            for guard in &soft {
                areas.push((guard.then, resolver.area(guard, &soft_slots, steps)?));
            }
            for guard in &changed {
                let area = resolver.area(guard, &hard_slots, steps)?;
                let against: Vec<&Area> =
                    areas.iter().filter(|(then, _)| *then >= guard.then).map(|(_, area)| area).collect();
                if let Some(witness) = self.left(&space, &area, &against, now, steps)? {
                    return Ok(Some(witness));
                }
            }
        }
        Ok(None)
    }

    /// Rules in force that do not stand in the second as they are, or harder.
    fn changed(&self, steps: &mut Steps) -> Result<Vec<&'a Guard>, Exhausted> {
        let same: Vec<Option<usize>> = self
            .hard
            .readings
            .iter()
            .map(|reading| self.soft.readings.iter().position(|other| other == reading))
            .collect();
        let soft: BTreeMap<&str, &Guard> = self
            .soft
            .guards
            .iter()
            .filter(|guard| counts(guard))
            .map(|guard| (guard.id.as_str(), guard))
            .collect();
        // Readings are looked for one among the others.
        let pairs = self.hard.readings.len().saturating_mul(self.soft.readings.len());
        steps.take(u64::try_from(pairs / 4).unwrap_or(u64::MAX))?;
        let mut changed = Vec::new();
        for guard in self.hard.guards.iter().filter(|guard| counts(guard)) {
            let texts = guard.conditions.iter().map(|condition| space::texts(&condition.test));
            steps.take(texts.fold(1, |sum, texts| sum.saturating_add(texts).saturating_add(1)))?;
            let stands = soft.get(guard.id.as_str()).is_some_and(|other| {
                other.then >= guard.then
                    && other.conditions.len() == guard.conditions.len()
                    && guard.conditions.iter().zip(&other.conditions).all(|(one, two)| {
                        same.get(one.slot).copied().flatten() == Some(two.slot) && one.test == two.test
                    })
            });
            if !stands {
                changed.push(guard);
            }
        }
        Ok(changed)
    }

    /// What either reads, with the places of what the second does.
    fn readings(&self) -> (Vec<Reading>, Vec<usize>) {
        let mut readings = self.hard.readings.clone();
        let slots = self.soft.readings.iter().map(|reading| {
            readings.iter().position(|known| known == reading).unwrap_or_else(|| {
                readings.push(*reading);
                readings.len().saturating_sub(1)
            })
        });
        let slots = slots.collect();
        (readings, slots)
    }

    /// An example of what the areas leave of another: one that shows the difference, if some part has one.
    fn left(
        &self,
        space: &Space,
        area: &Area,
        against: &[&Area],
        now: Time,
        steps: &mut Steps,
    ) -> Result<Option<Witness>, Exhausted> {
        let first = self.examples(space, area, against, 1, now, steps)?;
        if first.as_ref().is_none_or(|witness| witness.feasible) {
            return Ok(first);
        }
        // What is left is left, whether or not a better example is found within the budget.
        let better = self.examples(space, area, against, EXAMPLES_MAX, now, steps).ok().flatten();
        Ok(better.filter(|witness| witness.feasible).or(first))
    }

    /// Of so many parts that are left, an example that shows the difference, else one that does not.
    fn examples(
        &self,
        space: &Space,
        area: &Area,
        against: &[&Area],
        most: usize,
        now: Time,
        steps: &mut Steps,
    ) -> Result<Option<Witness>, Exhausted> {
        let mut parts: Vec<Piece> = Vec::new();
        let mut found = |part: &Piece| {
            parts.push(part.clone());
            if parts.len() < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        let mut cover = Cover { universes: &space.universes, ties: &space.ties, steps };
        cover.leave(Piece::all_of(area), against, &mut found)?;
        let mut last = None;
        for part in &parts {
            let witness = self.witness(&space.readings, witness::example(space, part, &mut cover)?, now);
            if witness.feasible {
                return Ok(Some(witness));
            }
            last = Some(witness);
        }
        Ok(last)
    }

    /// Runs the example through both.
    fn witness(&self, readings: &[Reading], example: witness::Example, now: Time) -> Witness {
        let witness::Example { facts, approved } = example;
        let entries = approved_entries(&approved, now);
        let around = Around { now, entries: &entries, task: None };
        let act = |program: &Program| {
            let own = program.readings.iter().map(|reading| {
                let at = readings.iter().position(|other| other == reading);
                let fact = at.and_then(|at| facts.get(at)).cloned();
                fact.unwrap_or_else(|| Fact::Unknown("nobody asked".into()))
            });
            program.act(&own.collect::<Vec<_>>(), &around)
        };
        let (before, after) = (act(self.hard), act(self.soft));
        Witness {
            action: self.action.to_owned(),
            facts: readings.iter().copied().zip(facts.iter().cloned()).collect(),
            approved,
            now,
            before,
            after,
            feasible: hardness(before) > hardness(after),
        }
    }
}

fn approved_entries(approved: &[(SetName, String)], now: Time) -> Entries {
    let mut entries = Entries::default();
    if let Ok(by) = Principal::parse("somebody") {
        for (set, value) in approved {
            let entry = Entry { by: by.clone(), until: None, task: None };
            entries.insert(set.clone(), value.clone(), entry, now);
        }
    }
    entries
}

/// An instant before anything ends, and every one at which something does: between them nothing changes.
fn instants(endings: &BTreeSet<Time>) -> Vec<Time> {
    let before = endings.first().map_or(Time::EPOCH, |first| first.plus_ms(-1));
    std::iter::once(before).chain(endings.iter().copied()).collect()
}
