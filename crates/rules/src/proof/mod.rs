//! Proves whether one rulebook is tighter than another for every vector of facts, or finds a vector
//! for which it is not.
//!
//! Proofs compute with the same compiled values that decisions use, so a proof is about
//! the real rules.

mod area;
mod cells;
mod cover;
mod cuts;
mod expressions;
mod relate;
mod space;
mod texts;
mod witness;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use area::{Area, Piece};
use cover::{Cover, Exhausted, Steps};
use space::{Resolver, Space};

use crate::rule::entries::Entry;
use crate::rule::{Around, Entries, Fact, Guard, Program, Reading, RuleSet, RuleStatus, Then};
use spoolgate_wire::ids::{Principal, SetName};
use spoolgate_wire::time::Time;

/// Default budget of a proof; a step takes some nanoseconds.
pub const STEPS_MAX: u64 = 10_000_000;

/// Most uncovered parts that are tried as an example.
const EXAMPLES_MAX: usize = 16;

/// How a rulebook relates to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Every request is treated the same.
    Same,
    /// No request is treated more leniently than before. [`Comparison::tightens`] shows a request
    /// that is treated more strictly; if it is `None`, the budget did not suffice to find out
    /// whether there is one.
    Tightening,
    /// Some requests may be treated more leniently, and none more strictly.
    Loosening,
    /// Some requests may be treated more leniently, and some more strictly.
    Incomparable,
    /// The budget did not suffice to prove that no request is treated more leniently. Or, if
    /// [`Comparison::loosens`] shows such a request, it did not suffice to prove that none is
    /// treated more strictly.
    Unproved,
}

/// The result of comparing two rulebooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// How the second rulebook relates to the first.
    pub direction: Direction,
    /// Facts that the second treats more leniently.
    pub loosens: Option<Witness>,
    /// Facts that the second treats more strictly.
    pub tightens: Option<Witness>,
    /// Steps that the comparison took.
    pub steps: u64,
}

impl Comparison {
    /// Returns whether it is proved that no request is treated more leniently.
    pub fn may_apply_itself(&self) -> bool {
        matches!(self.direction, Direction::Same | Direction::Tightening)
    }
}

/// Facts that two rulebooks treat differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Witness {
    /// The action of the request.
    pub action: String,
    /// What the rules of both rulebooks read.
    pub facts: Vec<(Reading, Fact<'static>)>,
    /// Values that an approver must have added to sets before.
    pub approved: Vec<(SetName, String)>,
    /// The instant; decides which entries of sets have expired.
    pub now: Time,
    /// What the first rulebook does to the request.
    pub before: Option<Then>,
    /// What the second rulebook does to the request.
    pub after: Option<Then>,
    /// Whether evaluating the facts above with both rulebooks shows the difference. If not, fields
    /// that the proof treats as independent depend on each other, or no text was found that matches
    /// an expression.
    pub feasible: bool,
}

/// Compares two rulebooks in at most about `budget` steps, for instance [`STEPS_MAX`].
///
/// `after` tightens `before` if, at every instant, for every action and every vector of facts, its
/// hardest effect is at least as hard as before. Warning is softer than holding, and holding is
/// softer than refusing.
pub fn compare(before: &RuleSet, after: &RuleSet, budget: u64) -> Comparison {
    let mut steps = Steps {
        used: 0,
        limit: budget,
    };
    let loosens = softer(before, after, &mut steps);
    let tightens = softer(after, before, &mut steps);
    let direction = match (&loosens, &tightens) {
        (Ok(None), Ok(None)) => Direction::Same,
        // It is proved that nothing loosens. Whether anything changes at all may stay open.
        (Ok(None), Ok(Some(_)) | Err(Exhausted)) => Direction::Tightening,
        (Ok(Some(_)), Ok(None)) => Direction::Loosening,
        (Ok(Some(_)), Ok(Some(_))) => Direction::Incomparable,
        (Err(Exhausted), _) | (Ok(Some(_)), Err(Exhausted)) => Direction::Unproved,
    };
    let swap = |witness: Witness| Witness {
        before: witness.after,
        after: witness.before,
        ..witness
    };
    Comparison {
        direction,
        loosens: loosens.ok().flatten(),
        tightens: tightens.ok().flatten().map(swap),
        steps: steps.used,
    }
}

/// Returns facts that `other` treats more leniently than `book`, if there are any.
fn softer(
    book: &RuleSet,
    other: &RuleSet,
    steps: &mut Steps,
) -> Result<Option<Witness>, Exhausted> {
    let nothing = Program::default();
    for (action, program) in &book.programs {
        let pair = Pair {
            action,
            hard: program,
            soft: other.programs.get(action).unwrap_or(&nothing),
        };
        if let Some(witness) = pair.softer(steps)? {
            return Ok(Some(witness));
        }
    }
    Ok(None)
}

/// The rules of one action in two rulebooks; the proof asks whether `soft` is ever more
/// lenient than `hard`.
struct Pair<'a> {
    action: &'a str,
    hard: &'a Program,
    soft: &'a Program,
}

/// Returns how hard an effect is. A warning is as soft as no effect.
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
        let soft: Vec<&Guard> = self
            .soft
            .guards
            .iter()
            .filter(|guard| counts(guard))
            .collect();
        let mut space = Space::over(readings, self.action);
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
                let against: Vec<&Area> = areas
                    .iter()
                    .filter(|(then, _)| *then >= guard.then)
                    .map(|(_, area)| area)
                    .collect();
                if let Some(witness) = self.left(&space, &area, &against, now, steps)? {
                    return Ok(Some(witness));
                }
            }
        }
        Ok(None)
    }

    /// Returns the active rules that are not in the second rulebook unchanged or with a
    /// harder effect.
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
        // Finding each reading is a linear search.
        let pairs = self
            .hard
            .readings
            .len()
            .saturating_mul(self.soft.readings.len());
        steps.take(u64::try_from(pairs / 4).unwrap_or(u64::MAX))?;
        let mut changed = Vec::new();
        for guard in self.hard.guards.iter().filter(|guard| counts(guard)) {
            let texts = guard
                .conditions
                .iter()
                .map(|condition| space::texts(&condition.test));
            steps.take(texts.fold(1, |sum, texts| sum.saturating_add(texts).saturating_add(1)))?;
            let is_kept = soft.get(guard.id.as_str()).is_some_and(|other| {
                other.then >= guard.then
                    && other.conditions.len() == guard.conditions.len()
                    && guard
                        .conditions
                        .iter()
                        .zip(&other.conditions)
                        .all(|(one, two)| {
                            same.get(one.slot).copied().flatten() == Some(two.slot)
                                && one.test == two.test
                        })
            });
            if !is_kept {
                changed.push(guard);
            }
        }
        Ok(changed)
    }

    /// Returns what either rulebook reads, with the indexes of the second rulebook's readings.
    fn readings(&self) -> (Vec<Reading>, Vec<usize>) {
        let mut readings = self.hard.readings.clone();
        let slots = self.soft.readings.iter().map(|reading| {
            readings
                .iter()
                .position(|known| known == reading)
                .unwrap_or_else(|| {
                    readings.push(*reading);
                    readings.len().saturating_sub(1)
                })
        });
        let slots = slots.collect();
        (readings, slots)
    }

    /// Returns an example from the part of `area` that the areas in `against` leave uncovered;
    /// prefers one that shows the difference.
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
        // Something is left uncovered, even if the budget does not suffice to find a
        // better example.
        let better = self
            .examples(space, area, against, EXAMPLES_MAX, now, steps)
            .ok()
            .flatten();
        Ok(better.filter(|witness| witness.feasible).or(first))
    }

    /// Tries at most `most` uncovered parts for an example; returns one that shows the difference
    /// if there is one, otherwise the last.
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
            if parts.len() < most {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        };
        let mut cover = Cover {
            universes: &space.universes,
            ties: &space.ties,
            relations: &space.relations,
            dimensions: &space.dimensions,
            steps,
        };
        cover.leave(Piece::all_of(area), against, &mut found)?;
        let mut last = None;
        for part in &parts {
            let witness = self.witness(
                &space.readings,
                witness::example(space, part, &mut cover)?,
                now,
            );
            if witness.feasible {
                return Ok(Some(witness));
            }
            last = Some(witness);
        }
        Ok(last)
    }

    /// Evaluates an example with both rulebooks.
    fn witness(&self, readings: &[Reading], example: witness::Example, now: Time) -> Witness {
        let witness::Example { facts, approved } = example;
        let entries = approved_entries(&approved, now);
        let around = Around {
            now,
            entries: &entries,
            task: None,
        };
        let act = |program: &Program| {
            let own = program.readings.iter().map(|reading| {
                let at = readings.iter().position(|other| other == reading);
                let fact = at.and_then(|at| facts.get(at)).cloned();
                fact.unwrap_or_else(|| Fact::Unknown("no rule reads it".into()))
            });
            program.act(&own.collect::<Vec<_>>(), &around)
        };
        let (before, after) = (act(self.hard), act(self.soft));
        Witness {
            action: self.action.to_owned(),
            facts: readings
                .iter()
                .copied()
                .zip(facts.iter().cloned())
                .collect(),
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
            let entry = Entry {
                by: by.clone(),
                until: None,
                task: None,
            };
            entries.insert(set.clone(), value.clone(), entry, now);
        }
    }
    entries
}

/// Returns an instant before anything expires, and every instant at which something does. Between
/// these instants nothing changes.
fn instants(endings: &BTreeSet<Time>) -> Vec<Time> {
    let before = endings
        .first()
        .map_or(Time::EPOCH, |first| first.plus_ms(-1));
    std::iter::once(before)
        .chain(endings.iter().copied())
        .collect()
}
