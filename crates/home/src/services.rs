//! The allowlist and credentials of a home: computes the rulebook that a change of
//! rules/services.yaml makes, and wipes secrets that are no longer in force.

use super::batch::Pending;
use super::core::Core;
use super::error::HomeError;
use super::open::Home;
use super::rulebook;
use spoolgate_gate::record::{EventKind, Record};
use spoolgate_gate::services::{self, Change as Step};
use spoolgate_gate::{Change, events};
use spoolgate_host::adapters::Credential;
use spoolgate_host::keyring::KeyringError;
use spoolgate_rules::services::{PATH, Service};
use spoolgate_wire::time::Time;

impl Core {
    /// Returns the credential in force for a service at its host; `None` if it has none.
    ///
    /// # Errors
    /// Returns [`KeyringError`], also if the keyring has lost the credential: a request that needs
    /// one must not go out without it.
    pub(super) fn credential(&self, service: &Service) -> Result<Option<Credential>, KeyringError> {
        let record = self.state.credentials.get(&service.service);
        let Some(record) = record.filter(|record| record.host == service.host) else {
            return Ok(None);
        };
        let secret = self
            .keyring
            .inner()
            .credential(&service.service, &record.credential_id)?;
        let lost = || {
            KeyringError::Damaged(format!(
                "`{}` is missing: set its credential again; it",
                service.service
            ))
        };
        secret
            .map(|mut secret| Some(Credential(std::mem::take(&mut *secret))))
            .ok_or_else(lost)
    }

    /// Returns the text of rules/services.yaml in the rulebook of this hash.
    pub(super) fn services_of(&self, hash: &str) -> Result<Option<String>, HomeError> {
        let mut bundle = rulebook::kept_bundle(self.seams.disk.as_ref(), hash)?;
        Ok(bundle.files.remove(PATH))
    }

    /// Returns what rules/services.yaml may contain while lines of a batch are not sealed: the
    /// versions that they changed.
    pub(super) fn services_before(
        &self,
        pending: &Pending,
    ) -> Result<Vec<Option<String>>, HomeError> {
        let edits = pending
            .records
            .iter()
            .flat_map(|record| services::edits(record.changes()));
        edits.map(|(_, base, _)| self.services_of(base)).collect()
    }

    /// Wipes every secret of a service whose credential a line replaced or removed. At a start,
    /// secrets that were just stored for a request that is still to come stay.
    pub(super) fn wipe_credentials(
        &self,
        changes: &[Change],
        at_start: bool,
    ) -> Result<(), HomeError> {
        for change in changes {
            let Change::Services(Step::Credential { service, .. }) = change else {
                continue;
            };
            let in_force = self
                .state
                .credentials
                .get(service)
                .map(|record| record.credential_id.as_str());
            self.keyring
                .inner()
                .keep_only_credential(service, in_force, !at_start)?;
        }
        Ok(())
    }
}

impl Home {
    /// Puts a rulebook in force that a change of the allowlist made. It is kept before any line
    /// names it, and the next decision of the batch uses it.
    pub(super) fn put_services_in_force(
        &mut self,
        pending: &mut Pending,
        line: u64,
        now: Time,
    ) -> Result<(), HomeError> {
        let index = line
            .checked_sub(self.core.ledger.position().seq)
            .and_then(|at| usize::try_from(at).ok());
        let Some(record) = index.and_then(|index| pending.records.get(index)) else {
            return Ok(());
        };
        let edits: Vec<_> = services::edits(record.changes())
            .map(|(edit, _, hash)| (edit.clone(), hash.to_owned()))
            .collect();
        for (edit, hash) in edits {
            let book = services::after(&self.core.rulebook, &edit)?;
            if book.hash != hash {
                return Err(HomeError::Record(format!(
                    "line {line}: it does not make rulebook {hash}"
                )));
            }
            rulebook::keep(self.core.seams.disk.as_ref(), &book.files)?;
            self.core.rulebook = book;
            let event = events::rulebook_loaded(&hash, Some((PATH, &edit.to_string())), now);
            self.push_event(pending, Record::Event(EventKind::Rulebook, event))?;
        }
        Ok(())
    }
}
