//! `audit rotate`: new keys for the log. They are put into the keyring as pending, then the file that begins with
//! them appears, then the old ones are deleted: at every point in between the next start knows which pair the
//! log ends with.

use super::layout;
use super::open::{Home, HomeError};
use crate::gate::Record;
use crate::host::keyring::{LogKeys, SqliteKeyring};
use crate::ledger::Ledger;
use crate::ledger::heads::Heads;
use crate::ledger::log;
use crate::ledger::recover::Known;
use crate::ledger::rotation::{Order, is_reason};
use crate::rules::principals::Role;
use crate::state::fold::fold;
use crate::wire::ids::Principal;

/// The log's keys, as the keyring has them.
pub(super) struct Pairs {
    current: LogKeys,
    pending: Option<LogKeys>,
}

impl Pairs {
    /// Of a keyring.
    ///
    /// # Errors
    /// [`HomeError::Keyring`].
    pub(super) fn of(keyring: &SqliteKeyring) -> Result<Pairs, HomeError> {
        Ok(Pairs { current: keyring.log_keys()?, pending: keyring.pending_log_keys()? })
    }

    /// What opening the log of this name needs.
    ///
    /// # Errors
    /// [`HomeError::Record`]: only a damaged genesis line names a log that cannot have one.
    pub(super) fn known(&self, origin: &str, heads: Heads) -> Result<Known, HomeError> {
        let signer = |keys: &LogKeys| {
            layout::log_signer(origin, keys)
                .map_err(|error| HomeError::Record(format!("the first line: {error}")))
        };
        let pending = self.pending.as_ref().map(signer).transpose()?;
        Ok(Known { current: signer(&self.current)?, pending, heads })
    }

    /// Ends a rotation that was cut short, now that it is known which keys the log ends with, durably.
    ///
    /// # Errors
    /// [`HomeError::Keyring`].
    pub(super) fn settle(&self, keyring: &SqliteKeyring, ledger: &Ledger) -> Result<(), HomeError> {
        let Some(pending) = &self.pending else { return Ok(()) };
        let signer = ledger.signer();
        let is_pending = *signer.seal.as_bytes() == pending.seal_seed;
        Ok(if is_pending { keyring.promote_pending_log_keys() } else { keyring.drop_pending_log_keys() }?)
    }
}

/// What a rotation came to.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Rotated {
    /// Number of the `rotate` line.
    pub line: u64,
    /// The verifier key from here on, to be published.
    pub log_key: String,
    /// The one before.
    pub old_log_key: String,
}

impl Home {
    /// Demands a person who could sign a command here: a human principal with a key in the keyring.
    ///
    /// # Errors
    /// [`HomeError::NotAllowed`].
    pub(super) fn check_person(&self, by: &Principal, reason: &str) -> Result<(), HomeError> {
        let now = self.ledger_now();
        let is_human = self.rulebook.role(by) == Some(Role::Human);
        if !is_human || layout::own_sign_key(self.keyring(), &self.state, by, now)?.is_none() {
            return Err(HomeError::NotAllowed(format!(
                "`{by}` is not a principal with `role: human` and a key in this keyring; name such a person with --as"
            )));
        }
        if !is_reason(reason) {
            let what = "a reason is one line of at most 500 bytes, and not empty";
            return Err(HomeError::NotAllowed(what.to_owned()));
        }
        Ok(())
    }

    /// Gives the log new keys.
    ///
    /// # Errors
    /// [`HomeError`]. What was begun is ended or given up by the next start.
    pub fn rotate_keys(&mut self, by: &Principal, reason: &str) -> Result<Rotated, HomeError> {
        self.check_person(by, reason)?;
        // What is made again after a crash would be signed with the new key.
        self.mark_published()?;
        let signer = self.ledger.signer();
        let (origin, old_log_key) = (signer.origin.clone(), signer.verifier().to_string());
        let entropy = &self.seams.entropy;
        let keys = LogKeys { log_seed: entropy.bytes32()?, seal_seed: entropy.bytes32()? };
        let next = layout::log_signer(&origin, &keys)?;
        let log_key = next.verifier().to_string();
        self.keyring().set_pending_log_keys(&keys)?;
        let order = Order { timestamp: self.ledger_now(), by: by.clone(), reason: reason.to_owned() };
        let log::Rotated { seq: line, location, rotation } = self.ledger.rotate(next, &order)?;
        let record = Record::Rotate(rotation);
        self.keyring().promote_pending_log_keys()?;
        self.store.begin()?;
        fold(&mut self.state, &self.store, &mut self.outstanding, line, &record)?;
        if let Some(location) = location {
            self.store.insert_line(line, location, &record)?;
        }
        self.store.save_tip(&self.ledger.position().to_stored())?;
        self.store.commit()?;
        self.lines_since_snapshot = self.lines_since_snapshot.saturating_add(3);
        self.ledger.publish_head()?;
        self.save_snapshot()?;
        Ok(Rotated { line, log_key, old_log_key })
    }
}
