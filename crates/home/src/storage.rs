//! Room on the disk of the ledger: what the gate still serves when there is little.

use std::path::Path;

use super::core::Core;
use spoolgate_gate::record::{Event, EventKind, Record};
use spoolgate_gate::storage::{Room, Scarce};
use spoolgate_ledger::segment::AUDIT_DIR;
use spoolgate_wire::time::Time;

/// How much room there is, as it was last looked up.
#[derive(Debug, Default)]
pub(super) struct Storage {
    /// What is scarce, or `None` if there is enough room for every request.
    scarce: Option<Scarce>,
}

impl Storage {
    /// Returns what is scarce, or `None` if there is enough room for every request.
    pub(super) fn scarce(&self) -> Option<Scarce> {
        self.scarce
    }
}

impl Core {
    /// Looks up how much room there is, and returns the event line of a change of level.
    pub(super) fn look_at_storage(&mut self, now: Time) -> Option<Record> {
        let was_low = self.storage.scarce.is_some();
        // Where the room cannot be looked up, a write shows whether there is any.
        let scarce = self
            .seams
            .disk
            .space(Path::new(AUDIT_DIR))
            .ok()
            .and_then(|space| {
                let room = Room {
                    bytes: space.bytes,
                    files: space.files,
                };
                Scarce::of(room, &self.rulebook.safety.storage, was_low)
            });
        self.storage.scarce = scarce;
        let note = match scarce {
            Some(scarce) if !was_low => format!(
                "{scarce}: only exits, cancels, tightens, halts, stricter control decisions, \
                    revocations and queries are served until there is room"
            ),
            None if was_low => {
                "the disk of the ledger has room again: every request is served".to_owned()
            }
            _ => return None,
        };
        let event = Event {
            timestamp: now,
            note,
            changes: Vec::new(),
            cage: None,
        };
        Some(Record::Event(EventKind::Storage, event))
    }
}
