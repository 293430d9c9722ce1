//! Lines by which the owner of the machine changes a home while no gate runs.

use std::path::Path;

use super::core::Core;
use super::error::HomeError;
use super::open::{Home, Seams};
use crate::index::fold::fold;
use spoolgate_gate::Change;
use spoolgate_gate::record::{Admin, Record};
use spoolgate_rules::Rulebook;
use spoolgate_wire::ids::Principal;

/// Result of letting a rulebook come into force.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Freed {
    /// Number of the `admin` line.
    pub line: u64,
    /// Hash of the rulebook.
    pub rulebook: String,
}

impl Core {
    /// Writes an `admin` line, durably, and publishes the head. Returns the line's number. The
    /// transaction of the index has begun.
    ///
    /// # Errors
    /// [`HomeError::NotAllowed`] if `by` is not a person of this home or the reason is not one line,
    /// otherwise the error of the disk or the index.
    pub(super) fn append_admin(
        &mut self,
        by: &Principal,
        reason: &str,
        note: String,
        change: Change,
    ) -> Result<u64, HomeError> {
        self.check_person(by, reason)?;
        let line = self.ledger.position().seq;
        let record = Record::Admin(Admin {
            timestamp: self.ledger_now(),
            by: by.clone(),
            reason: reason.to_owned(),
            note,
            changes: vec![change],
        });
        let body = record
            .body()
            .map_err(|error| HomeError::Record(error.to_string()))?;
        let sealed = self.ledger.append(&[(record.kind(), body)])?;
        let outstanding = &mut self.outstanding;
        fold(&mut self.state, &self.store, outstanding, line, &record)?;
        if let Some(location) = sealed.locations.first() {
            self.store.insert_line(line, *location, &record)?;
        }
        self.store.save_tip(&self.ledger.position().to_stored())?;
        self.store.commit()?;
        self.ledger.publish_head()?;
        self.lines_since_snapshot = self.lines_since_snapshot.saturating_add(2);
        Ok(line)
    }
}

impl Home {
    /// Lets the rule files as they are now come into force without approvals, at the next start of a
    /// gate, and records it.
    ///
    /// # Errors
    /// [`HomeError`] if the files cannot be used, if they need no approval, or as for opening.
    pub fn free_rulebook(
        root: &Path,
        seams: Seams,
        by: &Principal,
        reason: &str,
    ) -> Result<Freed, HomeError> {
        let mut home = Home::open(root, seams)?;
        let core = &mut home.core;
        let book = Rulebook::compile(&core.rules.load()?)?;
        if book.hash == core.state.rulebook.hash {
            return Err(HomeError::NotAllowed(
                "these rules are in force; there is nothing to approve".to_owned(),
            ));
        }
        let rulebook = book.hash;
        let note = format!("rulebook {rulebook} may come into force without approvals");
        let change = Change::RulebookFreed {
            hash: rulebook.clone(),
        };
        core.store.begin()?;
        let line = core.append_admin(by, reason, note, change)?;
        core.save_snapshot()?;
        Ok(Freed { line, rulebook })
    }
}
