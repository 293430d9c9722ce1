//! Looking at a home without its lock: the state up to the last sealed batch, while a gate may be running.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::open::{HomeError, Seams, read_genesis};
use super::rulebook;
use crate::gate::{Record, State};
use crate::host::disk::Access;
use crate::ledger::log::{CHECKPOINT_FILE, Position};
use crate::ledger::note;
use crate::ledger::recover::{self, segments};
use crate::ledger::scan::{LogIdentity, SealedLine, scan_segment};
use crate::ledger::segment;
use crate::rules::Rulebook;
use crate::state::fold::{Outstanding, fold};
use crate::state::{Store, StoreError};
use crate::trading::order::Fill;
use crate::wire::signing::unhex;
use crate::wire::time::Time;

/// A home as it was at some sealed batch.
pub struct View {
    /// The state there.
    pub state: State,
    /// The rulebook in force there.
    pub rulebook: Rulebook,
    /// What the lines behind the snapshot would put into the index.
    newest: Store,
    /// The index as far as it was committed.
    on_disk: Option<Store>,
    /// Where the ledger ended.
    pub position: Position,
}

impl View {
    /// Fills recorded at or after `since`, oldest first.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn fills_since(&self, since: Time) -> Result<Vec<Fill>, StoreError> {
        let mut fills: BTreeMap<(u64, u32), Fill> = BTreeMap::new();
        for store in self.on_disk.iter().chain([&self.newest]) {
            fills.extend(store.numbered_fills_since(since, usize::MAX)?);
        }
        Ok(fills.into_values().collect())
    }
}

/// Reads a home: the snapshot, and the ledger behind it. Takes no lock and changes nothing.
///
/// # Errors
/// [`HomeError`].
pub fn read(root: &Path, seams: &Seams) -> Result<View, HomeError> {
    let genesis = read_genesis(root, seams.disk.as_ref())?;
    let seal_key = unhex(&genesis.seal_key)
        .and_then(|bytes| bytes.try_into().ok())
        .and_then(|bytes: [u8; 32]| ed25519_dalek::VerifyingKey::from_bytes(&bytes).ok())
        .ok_or_else(|| HomeError::Record("the genesis line has no seal key".to_owned()))?;
    let identity = LogIdentity { origin: genesis.origin, seal_key };
    // Read before the log: beside a running gate the log may grow meanwhile, and must hold this head.
    let checkpoint = Path::new(CHECKPOINT_FILE);
    let newest = match seams.disk.read(checkpoint, note::NOTE_BYTES_MAX) {
        // Nothing is trusted for it: it can only show that lines are missing.
        Ok(file) => String::from_utf8_lossy(&file.bytes).lines().nth(1).and_then(|size| size.parse().ok()),
        Err(_) => None,
    };
    // Folding goes to an index of its own, with what the snapshot does not hold; look-ups ask both.
    let store = Store::in_memory()?;
    // Without a usable index, or with one of another log, everything is folded from the first line.
    let snapshot = Store::open_read_only(root).ok().and_then(|on_disk| {
        let snapshot = on_disk.snapshot().ok()??;
        let position = Position::from_stored(&snapshot.position)?;
        recover::check_anchor(seams.disk.as_ref(), &position, &identity).ok()?;
        Some((on_disk, position, snapshot.state))
    });
    let (on_disk, mut position, mut state) = match snapshot {
        Some((on_disk, position, state)) => (Some(on_disk), position, state),
        None => (None, Position::start(), State::default()),
    };
    let mut outstanding = Outstanding::new();
    let mut failure = None;
    let last = segments(seams.disk.as_ref(), Path::new(segment::AUDIT_DIR))?.last().copied().unwrap_or(1);
    loop {
        let path = segment::path(position.segment);
        let fail = |source| HomeError::disk(&path, source);
        let file = seams.disk.open_log(&path, Access::Read).map_err(fail)?;
        let mut visit = |line: &SealedLine| -> io::Result<()> {
            let folded =
                Record::parse(&line.kind, &line.body).map_err(HomeError::Record).and_then(|record| {
                    match record {
                        Some(record) => Ok(fold(&mut state, &store, &mut outstanding, line.seq, &record)?),
                        None => Ok(()),
                    }
                });
            folded.map_err(|error| {
                failure = Some(error);
                io::Error::other("a line cannot be folded")
            })
        };
        let scanned = scan_segment(file.as_ref(), &position, &identity, &mut visit);
        if let Some(failure) = failure {
            return Err(failure);
        }
        let end = scanned.map_err(fail)?.position;
        let number = end.segment;
        position = end;
        if number >= last {
            break;
        }
        position.segment = number.saturating_add(1);
        position.offset = 0;
        position.lines = 0;
    }
    if let Some(size) = newest.filter(|size| position.seq < *size) {
        return Err(HomeError::Record(format!(
            "`{}` knows {size} lines, of which only {} can be read; run `spoolgate audit verify`",
            checkpoint.display(),
            position.seq
        )));
    }
    let rulebook = rulebook::kept(seams.disk.as_ref(), &state.rulebook.hash)?;
    Ok(View { state, rulebook, newest: store, on_disk, position })
}

/// Makes the seams of a real home.
///
/// # Errors
/// What the system says of its directory.
pub fn real_seams(root: &Path) -> Result<Seams, HomeError> {
    let disk = crate::host::real_disk::RealDisk::open(root).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => HomeError::NotAHome(root.to_owned()),
        _ => HomeError::disk(root, source),
    })?;
    Ok(Seams {
        disk: Arc::new(disk),
        clock: Arc::new(crate::host::clock::SystemClock::default()),
        entropy: Arc::new(crate::host::entropy::SystemEntropy),
    })
}
