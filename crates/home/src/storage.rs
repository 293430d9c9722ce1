//! Room on the disk of the ledger: what the gate still serves when there is little, and when there
//! is none.

use std::path::Path;

use super::core::Core;
use super::error::HomeError;
use super::open::forward_again;
use spoolgate_gate::Change;
use spoolgate_gate::record::{Event, EventKind, Record};
use spoolgate_gate::storage::{Level, Room, Scarce, bound};
use spoolgate_ledger::disk::{Mode, is_full};
use spoolgate_ledger::segment::AUDIT_DIR;
use spoolgate_wire::time::Time;

/// A file that shows whether there is room. It is removed at once.
const PROBE_FILE: &str = "audit/.probe.tmp";

/// The shortest and the longest time until a gate on a full disk looks whether it has room again,
/// milliseconds.
const WAIT_MS: (u64, u64) = (1000, 60_000);

/// How much room there is, as it was last looked up.
#[derive(Debug, Default)]
pub(super) struct StorageWatch {
    /// What is scarce, or `None` if there is enough room for every request.
    scarce: Option<Scarce>,
    /// When to look whether there is room again, while a write has found none.
    full_until_ms: Option<u64>,
    /// When the gate last began to wait for room, and how long it waits, both in milliseconds.
    last_full: Option<(u64, u64)>,
    /// Whether this process has tried whether there is room.
    is_tried: bool,
    /// Whether the room of answers may have been used up on a full disk.
    is_used: bool,
}

impl StorageWatch {
    /// Returns what is scarce, or `None` if there is enough room for every request.
    pub(super) fn scarce(&self) -> Option<Scarce> {
        self.scarce.or(self.is_full().then_some(Scarce::Bytes(0)))
    }

    /// Whether a write has found no room, and there was none since.
    pub(super) fn is_full(&self) -> bool {
        self.full_until_ms.is_some()
    }

    /// Whether the answers' room must be made again, once.
    pub(super) fn must_refill(&mut self) -> bool {
        !self.is_full() && std::mem::take(&mut self.is_used)
    }

    fn level(&self) -> Level {
        match (self.is_full(), self.scarce) {
            (true, _) => Level::Reserve,
            (false, Some(_)) => Level::Low,
            (false, None) => Level::Normal,
        }
    }
}

impl Core {
    /// Looks up how much room there is. On a full disk, tries whether there is enough again.
    ///
    /// # Errors
    /// Returns [`HomeError`] if the ledger or the index reports another error.
    pub(super) fn look_at_storage(&mut self) -> Result<(), HomeError> {
        // Where the room cannot be looked up, a write shows whether there is any.
        let room = self.seams.disk.space(Path::new(AUDIT_DIR)).ok();
        let room = room.map(|space| Room {
            bytes: space.bytes,
            files: space.files,
        });
        let limits = &self.rulebook.safety.storage;
        let was_low = !self.state.storage.is_normal();
        self.storage.scarce = room.and_then(|room| Scarce::of(room, limits, was_low));
        let reserve = limits.reserve_bytes.get();
        let now_ms = self.seams.clock.monotonic_ms();
        let Some(until) = self.storage.full_until_ms else {
            // A gate that died of a full disk must not die of it again. A command saves the look,
            // unless the disk was full when a line last told of it.
            let is_first = !std::mem::replace(&mut self.storage.is_tried, true);
            let must_try = !self.store.is_held_briefly() || self.state.storage == Level::Reserve;
            if is_first && must_try && !self.has_room(reserve) {
                self.meet_full_disk()?;
            }
            return Ok(());
        };
        if now_ms < until || room.is_some_and(|room| room.bytes < bound(reserve, true)) {
            return Ok(());
        }
        if !self.has_room(reserve) || !self.ledger.make_room(reserve)? {
            self.storage.wait(now_ms);
            return Ok(());
        }
        if self.store.let_go()? {
            self.storage.full_until_ms = None;
            self.storage.is_used = true;
        } else {
            self.storage.wait(now_ms);
            forward_again(self)?;
        }
        Ok(())
    }

    /// Whether the disk has this much room for the gate.
    fn has_room(&self, bytes: u64) -> bool {
        let (disk, probe) = (self.seams.disk.as_ref(), Path::new(PROBE_FILE));
        let tried = disk
            .write(probe, b"", Mode::Private, false)
            .and_then(|()| disk.allocate(probe, 0, bytes));
        let _ = disk.remove(probe);
        !tried.is_err_and(|error| is_full(&error))
    }

    /// Takes room for the next batch, and begins a transaction of the index.
    ///
    /// # Errors
    /// Returns [`HomeError`] if the ledger or the index reports an error other than that the disk is
    /// full.
    pub(super) fn begin_batch(&mut self) -> Result<(), HomeError> {
        let reserve = self.rulebook.safety.storage.reserve_bytes.get();
        if !self.ledger.make_room(reserve)? {
            self.meet_full_disk()?;
        }
        Ok(self.store.begin()?)
    }

    /// Ends the transaction of a batch whose lines are durable. If the disk has no room for it, it
    /// stays in memory.
    ///
    /// # Errors
    /// Returns [`HomeError`] if the index reports any other error.
    pub(super) fn commit_index(&mut self) -> Result<(), HomeError> {
        match self.store.commit() {
            Err(error) if error.is_full() => {
                self.meet_full_disk()?;
                forward_again(self)
            }
            other => Ok(other?),
        }
    }

    /// Notes that a write has found no room. From the next round on the gate leaves in the spool
    /// what can wait.
    ///
    /// # Errors
    /// Returns [`HomeError`] if the index cannot be kept in memory.
    pub(super) fn meet_full_disk(&mut self) -> Result<(), HomeError> {
        if !self.storage.is_full() {
            self.store.keep_open()?;
            self.storage.wait(self.seams.clock.monotonic_ms());
        }
        Ok(())
    }

    /// Whether a write has found no room, or had found none when a line last told of that.
    pub(super) fn is_or_was_full(&self) -> bool {
        self.storage.is_full() || self.state.storage == Level::Reserve
    }

    /// Returns the event line of a change of level.
    pub(super) fn storage_line(&self, now: Time) -> Option<Record> {
        let level = self.storage.level();
        if self.state.storage == level {
            return None;
        }
        let served = match level {
            Level::Normal => "the disk of the ledger has room again: every request is served",
            Level::Low => {
                "only exits, cancels, tightens, halts, stricter control decisions, revocations and \
                    queries are served until there is room"
            }
            Level::Reserve => {
                "a disk of the gate is full: exits, cancels, tightens and halts are served from room \
                    that was kept for them; everything else waits in the spool"
            }
        };
        let note = match self.storage.scarce.filter(|_| level == Level::Low) {
            Some(scarce) => format!("{scarce}: {served}"),
            None => served.to_owned(),
        };
        let event = Event {
            timestamp: now,
            note,
            changes: vec![Change::StorageLevel { level }],
            cage: None,
        };
        Some(Record::Event(EventKind::Storage, event))
    }
}

impl StorageWatch {
    /// Waits longer each time that the room was not enough, also if it seemed to be for a while.
    fn wait(&mut self, now_ms: u64) {
        let (shortest, longest) = WAIT_MS;
        let before = self
            .last_full
            .filter(|(at, _)| now_ms.saturating_sub(*at) < longest);
        let wait = before.map_or(shortest, |(_, wait)| wait.saturating_mul(2).min(longest));
        self.full_until_ms = Some(now_ms.saturating_add(wait));
        self.last_full = Some((now_ms, wait));
    }
}
