//! One judge for every change of a rulebook: is the new one proved to treat no request more
//! leniently than the old one?
//!
//! Rules and sets are compared by [`proof`]. Every key of every other file has a direction in
//! `files`; a key without one does not compile.

mod files;
mod moves;
pub mod statement;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::lint::{is_rule, is_set};
use crate::proof::{self, Comparison, Direction};
use crate::rule::table::Id;
use crate::rule::{Reading, RuleSet};
use crate::{Bundle, Rulebook};

pub use moves::{Move, Way};

spoolgate_wire::named! {
    /// How a whole rulebook relates to the one before it, from the best for a gate to the worst.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    pub enum Verdict {
        /// Every request is treated the same.
        Same = "same",
        /// No request is treated more leniently.
        Tightening = "tightening",
        /// It is not proved that no request is treated more leniently.
        Unproved = "not proved",
        /// Some requests may be treated more leniently, and some more strictly.
        Incomparable = "incomparable",
        /// Some requests may be treated more leniently.
        Loosening = "loosening",
    }
}

impl From<Direction> for Verdict {
    fn from(direction: Direction) -> Verdict {
        match direction {
            Direction::Same => Verdict::Same,
            Direction::Tightening => Verdict::Tightening,
            Direction::Unproved => Verdict::Unproved,
            Direction::Incomparable => Verdict::Incomparable,
            Direction::Loosening => Verdict::Loosening,
        }
    }
}

impl From<Way> for Verdict {
    fn from(way: Way) -> Verdict {
        match way {
            Way::Tighter => Verdict::Tightening,
            Way::Open => Verdict::Unproved,
            Way::Looser => Verdict::Loosening,
        }
    }
}

/// What a change of a rulebook does.
#[derive(Clone, Debug)]
pub struct Judgement {
    /// The worst of all parts.
    pub verdict: Verdict,
    /// Changed keys of files other than rules and sets, in the order of the files.
    pub moves: Vec<Move>,
    /// What the proof says of rules and sets.
    pub rules: Comparison,
    /// Rule and set files that differ.
    pub rule_files: Vec<String>,
}

impl Judgement {
    /// Whether the change may come into force without anybody's approval.
    pub fn may_apply_itself(&self) -> bool {
        self.verdict <= Verdict::Tightening
    }

    /// Returns the files whose change is not proved to tighten.
    pub fn open_files(&self) -> BTreeSet<&str> {
        let moved = self.moves.iter().filter(|it| it.way > Way::Tighter);
        let ruled = match self.rules.may_apply_itself() {
            true => &[],
            false => self.rule_files.as_slice(),
        };
        moved
            .map(|it| it.file.as_str())
            .chain(ruled.iter().map(String::as_str))
            .collect()
    }
}

/// Returns the paths at which two bundles differ.
pub fn differing<'a>(old: &'a Bundle, new: &'a Bundle) -> impl Iterator<Item = &'a String> {
    let all: BTreeSet<&String> = old.files.keys().chain(new.files.keys()).collect();
    all.into_iter()
        .filter(|path| old.files.get(*path) != new.files.get(*path))
}

/// Compares two rulebooks in at most about `budget` steps, for instance [`proof::STEPS_MAX`].
///
/// If the verdict is [`Verdict::Same`] or [`Verdict::Tightening`], then in every state no entry and
/// no outgoing action that the old rulebook refuses or holds is treated more leniently by the new
/// one, and no exit more strictly.
pub fn judge(old: &Rulebook, new: &Rulebook, budget: u64) -> Judgement {
    let rules = proof::compare(&old.ruleset, &new.ruleset, budget);
    let mut moves = files::moves(old, new);
    // What computes a fact that rules read has no direction of its own: the rules decide.
    let is_read = |ids: &[Id]| reads(&old.ruleset, ids) || reads(&new.ruleset, ids);
    for moved in &mut moves {
        if moved.way == Way::Tighter && is_read(moved.feeds) {
            moved.way = Way::Open;
        }
    }
    moves.extend(covered(old, new, budget));
    let worst = moves.iter().map(|moved| Verdict::from(moved.way));
    let verdict = worst.fold(rules.direction.into(), Verdict::max);
    let ruled = |path: &&String| is_rule(path) || is_set(path);
    let differing = differing(&old.files, &new.files).filter(ruled);
    Judgement {
        verdict,
        moves,
        rules,
        rule_files: differing.cloned().collect(),
    }
}

/// Returns a move for each area whose own rules are not proved to tighten although all rules
/// together are: rules of another area cover for them. Without it, moving a rule into an area of
/// fewer approvers would need nobody, and loosening it there only those.
fn covered(old: &Rulebook, new: &Rulebook, budget: u64) -> Vec<Move> {
    let rules = |book: &Rulebook| -> Vec<String> {
        let paths = book.files.files.keys().filter(|path| is_rule(path));
        paths.cloned().collect()
    };
    let [before, after] = [rules(old), rules(new)];
    let all: BTreeSet<&String> = before.iter().chain(&after).collect();
    let name = |path: &str| old.approval.area_of(path).name.to_string();
    let areas: BTreeSet<String> = all.iter().map(|path| name(path)).collect();
    let mut ruled = differing(&old.files, &new.files).filter(|path| is_rule(path) || is_set(path));
    if areas.len() < 2 || ruled.next().is_none() {
        return Vec::new();
    }
    let mut moves = Vec::new();
    for area in areas {
        let of_area = |book: &Rulebook| {
            let texts = book.files.files.iter();
            let texts = texts.map(|(path, text)| (path.as_str(), text.as_str()));
            let (sets, rest): (Vec<_>, Vec<_>) = texts.partition(|(path, _)| is_set(path));
            let own = rest
                .into_iter()
                .filter(|(path, _)| is_rule(path) && name(path) == area);
            RuleSet::compile(own, sets)
        };
        let compared = match (of_area(old), of_area(new)) {
            (Ok(old), Ok(new)) => proof::compare(&old, &new, budget).may_apply_itself(),
            (Err(_), _) | (_, Err(_)) => false,
        };
        if compared {
            continue;
        }
        let changed = |path: &&&String| old.files.files.get(**path) != new.files.files.get(**path);
        let own = || all.iter().filter(|path| name(path) == area);
        let file = own().find(changed).or_else(|| own().next());
        moves.extend(file.map(|file| Move {
            file: (*file).clone(),
            what: "what it loosens is covered by rules of other areas only".to_owned(),
            way: Way::Open,
            feeds: &[],
        }));
    }
    moves
}

/// Whether a program reads one of these fields.
fn reads(rules: &RuleSet, ids: &[Id]) -> bool {
    let mut readings = rules
        .programs
        .values()
        .flat_map(|program| &program.readings);
    readings.any(|reading| {
        let field = match reading {
            Reading::Field(field) | Reading::FirstSeen(field) => field,
            Reading::Sum { of, .. } | Reading::Distinct { of, .. } => of,
            Reading::Count { .. } => return false,
        };
        ids.contains(&field.id)
    })
}

#[cfg(test)]
mod tests;
