//! `audit rotate`: new keys for the log. They are stored in the keyring as pending, then the
//! segment that begins with them appears, then the old ones are deleted. At every point in between,
//! the next start knows which pair the log ends with.

use super::core::Core;
use super::error::HomeError;
use super::layout;
use super::open::Home;
use crate::index::fold::fold;
use spoolgate_gate::Record;
use spoolgate_host::keyring::{LogKeys, SqliteKeyring};
use spoolgate_ledger::Ledger;
use spoolgate_ledger::heads::Heads;
use spoolgate_ledger::log;
use spoolgate_ledger::recover::Known;
use spoolgate_ledger::rotation::{Order, is_reason};
use spoolgate_rules::principals::Role;
use spoolgate_wire::ids::Principal;

/// The log's keys in the keyring.
pub(super) struct Pairs {
    current: LogKeys,
    pending: Option<LogKeys>,
}

impl Pairs {
    /// Reads them from a keyring.
    pub(super) fn of(keyring: &SqliteKeyring) -> Result<Pairs, HomeError> {
        Ok(Pairs {
            current: keyring.log_keys()?,
            pending: keyring.pending_log_keys()?,
        })
    }

    /// Returns what opening the log of this name needs.
    ///
    /// # Errors
    /// Returns [`HomeError::Record`] if the genesis line is damaged and names an impossible log.
    pub(super) fn known(&self, origin: &str, heads: Heads) -> Result<Known, HomeError> {
        let signer = |keys: &LogKeys| {
            layout::log_signer(origin, keys)
                .map_err(|error| HomeError::Record(format!("the first line: {error}")))
        };
        let pending = self.pending.as_ref().map(signer).transpose()?;
        Ok(Known {
            current: signer(&self.current)?,
            pending,
            heads,
        })
    }

    /// Finishes an interrupted rotation durably, once it is known which keys the log ends with.
    pub(super) fn settle(&self, keyring: &SqliteKeyring, ledger: &Ledger) -> Result<(), HomeError> {
        let Some(pending) = &self.pending else {
            return Ok(());
        };
        let signer = ledger.signer();
        let is_pending = *signer.seal.as_bytes() == pending.seal_seed;
        Ok(if is_pending {
            keyring.promote_pending_log_keys()
        } else {
            keyring.drop_pending_log_keys()
        }?)
    }
}

/// Result of a rotation.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Rotated {
    /// Number of the `rotate` line.
    pub line: u64,
    /// The verifier key from now on, to be published.
    pub log_key: String,
    /// The previous verifier key.
    pub old_log_key: String,
}

impl Core {
    /// Checks that `by` is a person who could sign a command here: a human principal with a key in
    /// the keyring.
    pub(super) fn check_person(&self, by: &Principal, reason: &str) -> Result<(), HomeError> {
        let now = self.ledger_now();
        let is_human = self.rulebook.role(by) == Some(Role::Human);
        if !is_human || layout::own_sign_key(self.keyring.inner(), &self.state, by, now)?.is_none()
        {
            return Err(HomeError::NotAllowed(format!(
                "`{by}` is not a principal with `role: human` and a key in this keyring; name such \
                    a person with --as"
            )));
        }
        if !is_reason(reason) {
            let what = "the reason must be one line of 1 to 500 bytes";
            return Err(HomeError::NotAllowed(what.to_owned()));
        }
        Ok(())
    }
}

impl Home {
    /// Gives the log new keys.
    ///
    /// # Errors
    /// Returns [`HomeError`]. The next start completes or abandons a rotation that was begun.
    pub fn rotate_keys(&mut self, by: &Principal, reason: &str) -> Result<Rotated, HomeError> {
        self.core.check_person(by, reason)?;
        // Answers restored after a crash would be signed with the new key, so publish them first.
        self.mark_published()?;
        let signer = self.core.ledger.signer();
        let (origin, old_log_key) = (signer.origin.clone(), signer.verifier().to_string());
        let entropy = &self.core.seams.entropy;
        let keys = LogKeys {
            log_seed: entropy.bytes32()?,
            seal_seed: entropy.bytes32()?,
        };
        let next = layout::log_signer(&origin, &keys)?;
        let log_key = next.verifier().to_string();
        self.keyring().set_pending_log_keys(&keys)?;
        let order = Order {
            timestamp: self.core.ledger_now(),
            by: by.clone(),
            reason: reason.to_owned(),
        };
        let log::Rotated {
            seq: line,
            rotation,
            sealed,
        } = self.core.ledger.rotate(next, &order)?;
        self.keyring().promote_pending_log_keys()?;
        self.core.store.begin()?;
        let record = Record::Rotate(rotation);
        fold(
            &mut self.core.state,
            &self.core.store,
            &mut self.core.outstanding,
            line,
            &record,
        )?;
        if let Some(location) = sealed.locations.last() {
            self.core.store.insert_line(line, *location, &record)?;
        }
        self.core
            .store
            .save_tip(&self.core.ledger.position().to_stored())?;
        self.core.store.commit()?;
        self.core.lines_since_snapshot = self.core.lines_since_snapshot.saturating_add(3);
        self.core.ledger.publish_head()?;
        self.core.save_snapshot()?;
        Ok(Rotated {
            line,
            log_key,
            old_log_key,
        })
    }
}
