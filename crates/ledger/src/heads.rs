//! Checks whether heads that are remembered outside of the log are on it. A head matters only if
//! the log contradicts it and the key in force at its size signed it. Pure.

use std::collections::BTreeMap;

use super::log::Position;
use super::note;
use super::proof;
use super::rotation::{LogIdentity, Timeline};
use super::scan::SealedLine;
use super::seal::Seal;
use super::tree::Hash;
pub use spoolgate_wire::heads::{GivenUp, Head};

/// A remembered head.
#[derive(Clone, Debug)]
pub struct Remembered {
    /// Where the head is remembered, for messages.
    pub from: String,
    /// The head.
    pub head: Head,
    signed: Signed,
}

#[derive(Clone, Debug)]
enum Signed {
    /// A checkpoint, signed by the log key.
    Note(String),
    /// A seal, signed by the seal key, after the line with this leaf hash.
    Seal(Seal, Hash),
    /// Not signed: a file of the gate's own user that was released for the last of these lines.
    Released(Release),
}

/// When a file was released, which says by which lines it can have been given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// At any time, so any line can have given it up.
    Unknown,
    /// After the lines that are known before the scan, so only a line of the scan can have given it
    /// up.
    AfterKnown,
    /// A person gives it up now.
    GivenNow,
}

impl Remembered {
    /// Reads the head from a checkpoint or a receipt. `None` if the text is neither.
    pub fn of_file(from: &str, text: &str) -> Option<Remembered> {
        let note = checkpoint_of(text);
        let claimed = note::claimed(note)?;
        let head = Head {
            size: claimed.size,
            root: claimed.root.to_string(),
        };
        Some(Remembered {
            from: from.to_owned(),
            head,
            signed: Signed::Note(note.to_owned()),
        })
    }

    /// The head at a stored position. `None` before the first line.
    pub fn of_place(from: &str, place: &Position) -> Option<Remembered> {
        let seal = place.seal()?;
        let head = Head {
            size: seal.size,
            root: seal.root.clone(),
        };
        Some(Remembered {
            from: from.to_owned(),
            head,
            signed: Signed::Seal(seal, place.before_seal),
        })
    }

    /// What a file shows that the gate released for a line: the log had that line, and so a head
    /// behind it, whose root is unknown and given as zeros.
    pub fn of_released(from: &str, line: u64, when: Release) -> Remembered {
        Remembered {
            from: from.to_owned(),
            head: Head {
                size: line.saturating_add(1),
                root: Hash::ZERO.to_string(),
            },
            signed: Signed::Released(when),
        }
    }

    /// The line that a file was released for, if that is all that is known, and when.
    fn released(&self) -> Option<(u64, Release)> {
        match self.signed {
            Signed::Released(when) => Some((self.head.size.checked_sub(1)?, when)),
            Signed::Note(_) | Signed::Seal(..) => None,
        }
    }

    /// The line that a file was released for, if that is all that is known.
    pub(super) fn released_line(&self) -> Option<u64> {
        self.released().map(|(line, _)| line)
    }

    /// Whether the head is signed by one of these keys.
    pub fn is_signed_by(&self, keys: &LogIdentity) -> bool {
        match &self.signed {
            Signed::Note(note) => note::open_checkpoint(note, &keys.log_key, &keys.origin).is_ok(),
            Signed::Seal(seal, prev) => Hash::from_hex(&seal.root)
                .is_some_and(|root| seal.verifies(&keys.seal_key, &keys.origin, &root, prev)),
            Signed::Released(_) => false,
        }
    }
}

/// Returns the checkpoint in a receipt; any other text is returned unchanged.
pub fn checkpoint_of(text: &str) -> &str {
    if text.lines().next() != Some(proof::HEADER) {
        return text;
    }
    text.split_once("\n\n")
        .map_or(text, |(_, checkpoint)| checkpoint)
}

/// Heads of a log that are remembered outside of it.
#[derive(Clone, Debug, Default)]
pub struct Heads {
    /// The remembered heads.
    pub remembered: Vec<Remembered>,
    /// The heads that a line of the log gave up.
    pub given_up: Vec<Head>,
}

/// Remembered heads that are compared with a log while it is scanned.
#[derive(Debug)]
pub(super) struct Beside {
    heads: Heads,
    /// How many of the heads given up were known before the scan.
    known: usize,
    /// The roots in the log's seals, for the sizes of the remembered heads.
    roots: BTreeMap<u64, Option<String>>,
    scanned_from: u64,
}

impl Beside {
    /// Prepares the comparison for a scan from `start`.
    pub(super) fn new(heads: Heads, start: &Position) -> Beside {
        let mut roots: BTreeMap<u64, Option<String>> = heads
            .remembered
            .iter()
            .map(|remembered| (remembered.head.size, None))
            .collect();
        if let Some(root) = start
            .seq
            .checked_sub(1)
            .and_then(|size| roots.get_mut(&size))
        {
            *root = Some(start.root.to_string());
        }
        Beside {
            known: heads.given_up.len(),
            heads,
            roots,
            scanned_from: start.seq,
        }
    }

    /// Takes in a line of the log whose seals were checked.
    pub(super) fn see(&mut self, line: &SealedLine) {
        if line.kind == "seal"
            && let Some(root) = self.roots.get_mut(&line.seq)
        {
            *root = serde_json::from_str::<Seal>(&line.body)
                .ok()
                .map(|seal| seal.root);
        }
        if line.kind == "admin" {
            self.heads.given_up.extend(given_up(&line.body));
        }
    }

    /// The heads that count but are neither on the log nor given up, sorted so that the largest is
    /// last.
    pub(super) fn missing(
        &self,
        keys: &Timeline,
        end: &Position,
    ) -> Vec<(Remembered, Option<String>)> {
        let mut missing: Vec<(Remembered, Option<String>)> = Vec::new();
        for remembered in &self.heads.remembered {
            let head = &remembered.head;
            if let Some((line, when)) = remembered.released() {
                let earlier = match when {
                    Release::Unknown => 0,
                    Release::AfterKnown => self.known,
                    Release::GivenNow => usize::MAX,
                };
                // Giving up a head gives up all lines below it that were released before.
                let mut given_up = self.heads.given_up.iter().skip(earlier);
                if line >= end.seq && !given_up.any(|given_up| given_up.size >= head.size) {
                    missing.push((remembered.clone(), None));
                }
                continue;
            }
            let there = self.roots.get(&head.size).cloned().flatten();
            // Such a head is before the position in state.db, which was written after that head's
            // batch.
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

/// The changes of an `admin` line; the ledger reads only one kind of them.
#[derive(Default, serde::Deserialize)]
struct AdminBody {
    #[serde(default)]
    changes: Vec<Box<serde_json::value::RawValue>>,
}

/// The change by which a person continues with an older copy of the log.
#[derive(serde::Deserialize)]
struct HeadsGivenUp {
    #[serde(rename = "HeadsGivenUp")]
    given_up: GivenUp,
}

/// The heads that an `admin` line gave up.
pub(super) fn given_up(body: &str) -> Vec<Head> {
    let body: AdminBody = serde_json::from_str(body).unwrap_or_default();
    let given_up = body
        .changes
        .iter()
        .filter_map(|change| serde_json::from_str::<HeadsGivenUp>(change.get()).ok());
    given_up.flat_map(|change| change.given_up.heads).collect()
}
