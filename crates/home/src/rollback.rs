//! The heads that a home remembers of its log, and continuing, by an operator's decision, with a
//! log that lacks them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::HomeError;
use super::open::{Folded, Home, Seams};
use super::released;
use super::rotation::Pairs;
use crate::index::Store;
use crate::index::fold::Outstanding;
use crate::index::store::{Hold, STATE_FILE};
use spoolgate_gate::{Change, State};
use spoolgate_ledger::disk::{Disk, Kind};
use spoolgate_ledger::heads::{GivenUp, Head, Heads, Remembered};
use spoolgate_ledger::log::Position;
use spoolgate_ledger::{note, recover};
use spoolgate_wire::ids::Principal;

/// Folder of answers and receipts.
const OUT_DIR: &str = "spool/out";
/// Suffix of the file names of receipts.
const RECEIPT_ENDING: &str = ".tlog-proof";
/// How many of the newest receipts a start reads, so that it does not slow down with every answer.
const RECEIPTS_AT_START_MAX: usize = 16;
/// How many receipts' heads one rollback gives up at most; they are listed in one line.
const RECEIPTS_GIVEN_UP_MAX: usize = 256;
/// Maximum length of a receipt, bytes: the largest checkpoint, the longest line in base64 and the
/// longest path.
const RECEIPT_BYTES_MAX: usize = note::NOTE_BYTES_MAX + 100_000;

/// Returns the heads in the newest receipts beside the answers.
///
/// # Errors
/// Returns [`HomeError::Disk`] if the folder cannot be read. Files that cannot be read are skipped.
fn receipts(disk: &dyn Disk, most: usize) -> Result<Vec<Remembered>, HomeError> {
    let out = Path::new(OUT_DIR);
    let entries = match disk.read_dir(out) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(|source| HomeError::disk(out, source))?,
    };
    let mut found: Vec<(i128, PathBuf)> = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|source| HomeError::disk(out, source))?;
        let Some(name) = entry.name.to_str() else {
            continue;
        };
        if name.starts_with('.') || !name.ends_with(RECEIPT_ENDING) {
            continue;
        }
        let path = out.join(name);
        if let Ok(Some(stat)) = disk.stat(&path)
            && stat.kind == Kind::File
        {
            found.push((stat.modified_ns, path));
        }
    }
    found.sort_by(|one, other| other.cmp(one));
    found.truncate(most);
    let read = |(_, path): (i128, PathBuf)| {
        let file = disk.read(&path, RECEIPT_BYTES_MAX).ok()?;
        let text = std::str::from_utf8(&file.bytes)
            .ok()
            .filter(|text| text.len() <= RECEIPT_BYTES_MAX)?;
        Remembered::of_file(&format!("the receipt `{}`", path.display()), text)
    };
    Ok(found.into_iter().filter_map(read).collect())
}

/// Returns what a start checks besides the index. A command that decides one request and ends does
/// not list the folder of all answers.
pub(super) fn beside_index(disk: &dyn Disk, store: &Store) -> Result<Vec<Remembered>, HomeError> {
    if store.is_held_briefly() {
        Ok(Vec::new())
    } else {
        newest_receipts(disk)
    }
}

/// Returns the heads in the receipts that a start reads.
pub(super) fn newest_receipts(disk: &dyn Disk) -> Result<Vec<Remembered>, HomeError> {
    receipts(disk, RECEIPTS_AT_START_MAX)
}

/// Returns the heads that an index had reached. Each batch is durable before the index is
/// committed, so no power cut puts the index ahead of its log. Unreadable entries count as absent.
pub(super) fn of_index(store: &Store) -> Vec<Remembered> {
    let tip = store.tip().ok().flatten();
    let snapshot = store
        .snapshot()
        .ok()
        .flatten()
        .map(|snapshot| snapshot.position);
    let places = tip.into_iter().chain(snapshot);
    let places = places.filter_map(|stored| Position::from_stored(&stored));
    places
        .filter_map(|place| Remembered::of_place(&format!("`{STATE_FILE}`"), &place))
        .collect()
}

/// The head that an operator gives up.
pub enum Given {
    /// The head of state.db.
    State,
    /// The head of a checkpoint or a receipt, or the line of a released file: its origin and its
    /// text.
    File(String, String),
}

/// Result of accepting a rollback.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Accepted {
    /// Number of the `admin` line.
    pub line: u64,
    /// The heads that were given up, and the head that the log resumed from.
    #[serde(flatten)]
    pub given_up: GivenUp,
}

impl Home {
    /// Continues with a log that lacks remembered heads up to the given one: an operator confirms
    /// that the older copy was restored on purpose. Records this in a line of its own and rebuilds
    /// the index.
    ///
    /// # Errors
    /// Returns [`HomeError::NotAllowed`] if there is nothing to give up or `by` may not do it, and
    /// [`HomeError`] as for opening, also if a remembered head has more lines than the given one.
    /// Nothing was changed then.
    pub fn accept_rollback(
        root: &Path,
        seams: Seams,
        by: &Principal,
        reason: &str,
        given: &Given,
    ) -> Result<Accepted, HomeError> {
        let (lock, genesis) = Home::lock(root, &seams)?;
        let parts = Home::parts(root, lock, Hold::Long)?;
        let pairs = Pairs::of(&parts.keyring)?;
        let disk = Arc::clone(&seams.disk);
        let mut remembered = of_index(&parts.store);
        let given = match given {
            Given::State => remembered
                .iter()
                .max_by_key(|remembered| remembered.head.size)
                .cloned(),
            Given::File(from, text) => {
                Remembered::of_file(from, text).or_else(|| released::of_file(from, text))
            }
        };
        let Some(given) = given else {
            return Err(HomeError::NotAllowed(
                "--head names no head; it must be a checkpoint, a receipt, an answer, an \
                    instruction, a forwarded task, or `state`"
                    .to_owned(),
            ));
        };
        remembered.extend(receipts(disk.as_ref(), RECEIPTS_GIVEN_UP_MAX)?);
        remembered.extend(released::newest(disk.as_ref(), None, seams.clock.now())?);
        remembered.push(given.clone());
        let heads = Heads {
            remembered,
            given_up: Vec::new(),
        };
        let known = pairs.known(&genesis.origin, heads)?;
        parts.store.begin()?;
        parts.store.clear_within()?;
        let mut folded = Folded::from(State::default(), Outstanding::new());
        let opened = recover::open_beside(disk, known, None, Some(&given.head), &mut |line| {
            folded.line(&parts.store, line)
        });
        let opened = match opened {
            Ok(opened) => opened,
            Err(error) => return Err(folded.failure.take().unwrap_or(HomeError::Ledger(error))),
        };
        let missing = opened.missing;
        let mut heads: Vec<Head> = missing
            .iter()
            .map(|remembered| remembered.head.clone())
            .collect();
        heads.dedup();
        // The given head itself must be signed; an equal head from another file does not count.
        if !missing
            .iter()
            .any(|remembered| (&remembered.from, &remembered.head) == (&given.from, &given.head))
        {
            return Err(HomeError::NotAllowed(format!(
                "{} cannot be given up: it is on this log, was given up before, or is not signed \
                    by the key that this log had at {} lines",
                given.from, given.head.size
            )));
        }
        let mut home = Home::over(root, seams, parts, (opened.ledger, opened.found, folded))?;
        let position = home.core.ledger.position();
        let resumed_from = Head {
            size: position.seq.saturating_sub(1),
            root: position.root.to_string(),
        };
        let given_up = GivenUp {
            heads,
            resumed_from,
        };
        let note = format!(
            "gave up {} and went on from {}",
            given.head, given_up.resumed_from
        );
        let change = Change::HeadsGivenUp(given_up.clone());
        // Up to here, the heads that were given up are still remembered.
        let line = home.core.append_admin(by, reason, note, change)?;
        pairs.settle(home.keyring(), &home.core.ledger)?;
        home.core.save_snapshot()?;
        Ok(Accepted { line, given_up })
    }
}
