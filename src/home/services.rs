//! The allowlist and credentials of a home: rules/services.yaml is written by the gate where a person asked for that, and
//! made again after a crash; secrets that are in force no more are wiped.

use std::path::Path;

use super::batch::Pending;
use super::open::{Home, HomeError};
use super::rulebook;
use crate::gate::record::Record;
use crate::gate::services::{self, Change as Step};
use crate::gate::{Change, events};
use crate::host::adapters::Credential;
use crate::host::keyring::KeyringError;
use crate::rules::services::{PATH, Service};
use crate::wire::time::Time;

impl Home {
    /// The credential that is in force for a service at its host; none: there is none.
    ///
    /// # Errors
    /// [`KeyringError`], also where the keyring has lost it: what needs one must not go out without.
    pub fn credential(&self, service: &Service) -> Result<Option<Credential>, KeyringError> {
        let record = self.state.credentials.get(&service.service);
        let Some(record) = record.filter(|record| record.host == service.host) else { return Ok(None) };
        let secret = self.keyring.inner().credential(&service.service, &record.credential_id)?;
        let lost = || {
            KeyringError::Damaged(format!("`{}` is missing: set its credential again; it", service.service))
        };
        secret.map(|secret| Some(Credential(secret))).ok_or_else(lost)
    }

    /// What a rulebook of this hash has as rules/services.yaml.
    fn services_of(&self, hash: &str) -> Result<Option<String>, HomeError> {
        let mut bundle = rulebook::kept_bundle(self.seams.disk.as_ref(), hash)?;
        Ok(bundle.files.remove(PATH))
    }

    /// What rules/services.yaml may hold while lines of a batch wait for their seal: what they started from.
    ///
    /// # Errors
    /// [`HomeError`].
    pub(super) fn services_before(&self, pending: &Pending) -> Result<Vec<Option<String>>, HomeError> {
        let edits = pending.records.iter().flat_map(|record| services::edits(record.changes()));
        edits.map(|(_, base, _)| self.services_of(base)).collect()
    }

    /// Puts a rulebook in force that a change of the allowlist made: kept before any line names it, and known to the next
    /// decision of the batch.
    ///
    /// # Errors
    /// [`HomeError`].
    pub(super) fn put_services_in_force(
        &mut self,
        pending: &mut Pending,
        line: u64,
        now: Time,
    ) -> Result<(), HomeError> {
        let index = line.checked_sub(self.ledger.position().seq).and_then(|at| usize::try_from(at).ok());
        let Some(record) = index.and_then(|index| pending.records.get(index)) else { return Ok(()) };
        let edits: Vec<_> = services::edits(record.changes())
            .map(|(edit, _, hash)| (edit.clone(), hash.to_owned()))
            .collect();
        for (edit, hash) in edits {
            let book = services::after(&self.rulebook, &edit)?;
            if book.hash != hash {
                return Err(HomeError::Record(format!("line {line}: it does not make rulebook {hash}")));
            }
            rulebook::keep(self.seams.disk.as_ref(), &book.files)?;
            self.rulebook = book;
            let event = events::rulebook_loaded(&hash, Some((PATH, &edit.to_string())), now);
            self.push_event(pending, Record::Rulebook(event))?;
        }
        Ok(())
    }

    /// Writes rules/services.yaml as a line has it, and wipes secrets that it ended.
    ///
    /// # Errors
    /// [`HomeError`].
    pub(super) fn publish_services(&mut self, seq: u64, changes: &[Change]) -> Result<(), HomeError> {
        for (_, base, hash) in services::edits(changes) {
            let (old, new) = (self.services_of(base)?, self.services_of(hash)?);
            self.proposals_outstanding = true;
            self.put_rule(Path::new(PATH), new.as_deref(), &[old.as_deref()], seq)?;
        }
        self.wipe_credentials(changes, false)
    }

    /// Wipes every secret of a service that a line has given another one, or none. At a start those stay that somebody has
    /// just put there to ask for.
    ///
    /// # Errors
    /// [`HomeError::Keyring`].
    pub(super) fn wipe_credentials(&mut self, changes: &[Change], at_start: bool) -> Result<(), HomeError> {
        for change in changes {
            let Change::Services(Step::Credential { service, .. }) = change else { continue };
            let in_force = self.state.credentials.get(service).map(|record| record.credential_id.as_str());
            self.keyring.inner().keep_only_credential(service, in_force, !at_start)?;
        }
        Ok(())
    }

    /// Makes rules/services.yaml again that lines since the last mark have changed, unless a person's later edit is in
    /// force.
    ///
    /// # Errors
    /// [`HomeError`].
    pub(super) fn redo_services(&mut self, lines: &[(u64, Record)]) -> Result<(), HomeError> {
        let (mut known, mut last) = (Vec::new(), None);
        for (seq, record) in lines {
            for (_, base, hash) in services::edits(record.changes()) {
                // Where the kept files are lost, the folder is taken as it is.
                let (Ok(old), Ok(new)) = (self.services_of(base), self.services_of(hash)) else { continue };
                known.extend([old, new.clone()]);
                last = Some((*seq, new));
            }
        }
        let Some((seq, new)) = last else { return Ok(()) };
        if self.rulebook.files.files.get(PATH) == new.as_ref() {
            let known: Vec<Option<&str>> = known.iter().map(Option::as_deref).collect();
            self.put_rule(Path::new(PATH), new.as_deref(), &known, seq)?;
        }
        Ok(())
    }
}
