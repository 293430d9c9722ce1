//! Heads of the log that are remembered outside of it, and whether they lie on it. What a head says counts only
//! where the log contradicts it, and only if it is signed by the key that was in force at its size. Pure.

use std::collections::BTreeMap;

use super::log::Position;
use super::note;
use super::proof;
use super::rotation::{LogIdentity, Timeline};
use super::scan::SealedLine;
use super::seal::Seal;
use super::tree::Hash;
pub use crate::wire::heads::{GivenUp, Head};

/// A remembered head.
#[derive(Clone, Debug)]
pub struct Remembered {
    /// Where it is remembered, in words.
    pub from: String,
    /// The head.
    pub head: Head,
    signed: Signed,
}

#[derive(Clone, Debug)]
enum Signed {
    /// A checkpoint, by the log key.
    Note(String),
    /// A seal behind the line with this leaf hash, by the seal key.
    Seal(Seal, Hash),
}

impl Remembered {
    /// The head in a checkpoint or a receipt; none if it is neither.
    pub fn of_file(from: &str, text: &str) -> Option<Remembered> {
        let note = checkpoint_of(text);
        let claimed = note::claimed(note)?;
        let head = Head { size: claimed.size, root: claimed.root.to_string() };
        Some(Remembered { from: from.to_owned(), head, signed: Signed::Note(note.to_owned()) })
    }

    /// The head of a place that somebody was at; none before the first line.
    pub fn of_place(from: &str, place: &Position) -> Option<Remembered> {
        let seal = place.seal()?;
        let head = Head { size: seal.size, root: seal.root.clone() };
        Some(Remembered { from: from.to_owned(), head, signed: Signed::Seal(seal, place.before_seal) })
    }

    /// Whether it is signed by one of these keys.
    pub fn is_signed_by(&self, keys: &LogIdentity) -> bool {
        match &self.signed {
            Signed::Note(note) => note::open_checkpoint(note, &keys.log_key, &keys.origin).is_ok(),
            Signed::Seal(seal, prev) => Hash::from_hex(&seal.root)
                .is_some_and(|root| seal.verifies(&keys.seal_key, &keys.origin, &root, prev)),
        }
    }
}

/// The checkpoint in a receipt; any other text is one itself.
pub fn checkpoint_of(text: &str) -> &str {
    if text.lines().next() != Some(proof::HEADER) {
        return text;
    }
    text.split_once("\n\n").map_or(text, |(_, checkpoint)| checkpoint)
}

/// What is remembered of a log outside of it.
#[derive(Clone, Debug, Default)]
pub struct Heads {
    /// Heads.
    pub remembered: Vec<Remembered>,
    /// Those that a line of the log gave up.
    pub given_up: Vec<Head>,
}

/// Remembered heads beside a log that is being scanned.
#[derive(Debug)]
pub(super) struct Beside {
    heads: Heads,
    /// The roots in the log's seals of the sizes that heads speak of.
    roots: BTreeMap<u64, Option<String>>,
    scanned_from: u64,
}

impl Beside {
    /// Beside a scan from `start`.
    pub(super) fn new(heads: Heads, start: &Position) -> Beside {
        let mut roots: BTreeMap<u64, Option<String>> =
            heads.remembered.iter().map(|remembered| (remembered.head.size, None)).collect();
        if let Some(root) = start.seq.checked_sub(1).and_then(|size| roots.get_mut(&size)) {
            *root = Some(start.root.to_string());
        }
        Beside { heads, roots, scanned_from: start.seq }
    }

    /// A line of the log, whose seals were checked.
    pub(super) fn see(&mut self, line: &SealedLine) {
        if line.kind == "seal"
            && let Some(root) = self.roots.get_mut(&line.seq)
        {
            *root = serde_json::from_str::<Seal>(&line.body).ok().map(|seal| seal.root);
        }
        if line.kind == "admin" {
            self.heads.given_up.extend(given_up(&line.body));
        }
    }

    /// The heads that count and are not on the log, nor given up; the largest last.
    pub(super) fn missing(&self, keys: &Timeline, end: &Position) -> Vec<(Remembered, Option<String>)> {
        let mut missing: Vec<(Remembered, Option<String>)> = Vec::new();
        for remembered in &self.heads.remembered {
            let head = &remembered.head;
            let there = self.roots.get(&head.size).cloned().flatten();
            // Behind what state.db vouches for: it was written after that head's batch.
            let is_older = there.is_none() && head.size.saturating_add(1) < self.scanned_from;
            let is_there = there.as_ref() == Some(&head.root);
            if is_older || is_there || self.heads.given_up.contains(head) {
                continue;
            }
            if remembered.is_signed_by(keys.at(head.size).unwrap_or(&end.keys)) {
                missing.push((remembered.clone(), there));
            }
        }
        missing.sort_by(|(one, _), (other, _)| one.head.cmp(&other.head));
        missing
    }
}

/// The heads that an `admin` line gave up.
pub(super) fn given_up(body: &str) -> Vec<Head> {
    match crate::gate::Record::parse("admin", body) {
        Ok(Some(record)) => record.given_up().flat_map(|given_up| given_up.heads.clone()).collect(),
        _ => Vec::new(),
    }
}
