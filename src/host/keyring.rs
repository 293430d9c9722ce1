//! `state/keyring.db`: the gate's copies of secrets, in SQLite, mode 0600. The ledger says which keys
//! hold and whose they are; only this file knows their bytes.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use ed25519_dalek::VerifyingKey;
use rusqlite::{Connection, OptionalExtension, params};
use sha2::{Digest, Sha256};

use crate::gate::prepare::Keyring;
use crate::wire::admin::Algorithm;
use crate::wire::ids::ServiceName;
use crate::wire::signing::{SignKey, VerifyKey, hex};

/// Path of the keyring below the home.
pub const KEYRING_FILE: &str = "state/keyring.db";

/// Rows of the keys in force: of checkpoints, of seals.
const LOG_KEYS: (&str, &str) = ("log", "seal");
/// Rows of the keys that a rotation is about to bring into force.
const PENDING_LOG_KEYS: (&str, &str) = ("next-log", "next-seal");

/// Secrets of services.
const CREDENTIALS: &str = "CREATE TABLE IF NOT EXISTS credentials (credential_id TEXT PRIMARY KEY, service TEXT NOT NULL, \
     secret TEXT NOT NULL) STRICT;";

/// What went wrong with the keyring.
#[derive(Debug, thiserror::Error)]
pub enum KeyringError {
    /// The file itself.
    #[error("keyring `{path}`: {source}")]
    File {
        /// Where.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// Its content.
    #[error("keyring: {0}")]
    Database(#[from] rusqlite::Error),
    /// A row that is not a key.
    #[error("keyring: key {0} is damaged")]
    Damaged(String),
    /// The log's own keys are not there.
    #[error(
        "keyring: the log's own keys are missing; they were made by `spoolgate init` and cannot be made again"
    )]
    NoLogKeys,
}

/// The open keyring.
#[derive(Debug)]
pub struct SqliteKeyring {
    database: Connection,
}

/// The secrets the log is signed with.
#[derive(Clone)]
pub struct LogKeys {
    /// Seed of the key that signs checkpoints.
    pub log_seed: [u8; 32],
    /// Seed of the key that signs seals.
    pub seal_seed: [u8; 32],
}

impl std::fmt::Debug for LogKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LogKeys(..)")
    }
}

/// Name of a key: the first 16 hex digits of a hash of what verifies its signatures.
pub fn key_id(key: &VerifyKey) -> String {
    let (label, bytes) = match key {
        VerifyKey::Hmac(secret) => ("hmac-sha256", *secret),
        VerifyKey::Ed25519(public) => ("ed25519", public.to_bytes()),
    };
    let digest =
        Sha256::new().chain_update(b"spoolgate key id ").chain_update(label).chain_update(bytes).finalize();
    hex(&digest).chars().take(16).collect()
}

/// What secrets of a service stand under until a line says that they are in force. No service has such a name.
fn asked_for(service: &ServiceName) -> String {
    format!("{service} (asked for)")
}

impl SqliteKeyring {
    /// Opens the keyring of a home, making it if `create`.
    ///
    /// # Errors
    /// [`KeyringError`]; also if others than its owner may read it.
    pub fn open(home: &Path, create: bool) -> Result<SqliteKeyring, KeyringError> {
        let path = home.join(KEYRING_FILE);
        let fail = |source| KeyringError::File { path: path.clone(), source };
        if create {
            OpenOptions::new().create_new(true).write(true).mode(0o600).open(&path).map_err(fail)?;
        }
        let metadata = fs::symlink_metadata(&path).map_err(fail)?;
        if !metadata.is_file() || metadata.permissions().mode() & 0o077 != 0 {
            let what = "must be a file that only its owner may read; run chmod 600 on it";
            return Err(fail(std::io::Error::new(std::io::ErrorKind::PermissionDenied, what)));
        }
        let database = Connection::open(&path)?;
        database.busy_timeout(std::time::Duration::from_secs(5))?;
        // Synced in full, the folder after a commit too: a key that an answer speaks of must survive a power cut.
        database.pragma_update(None, "synchronous", "EXTRA")?;
        // A watcher's sandbox leaves it no folder for temporary files.
        database.pragma_update(None, "temp_store", "MEMORY")?;
        let keyring = SqliteKeyring { database };
        if create {
            keyring.make_tables()?;
        }
        Ok(keyring)
    }

    /// Opens the keyring of a home for looking only: nothing is made, and nothing of another's writing is undone.
    ///
    /// # Errors
    /// [`KeyringError`].
    pub fn open_read_only(home: &Path) -> Result<SqliteKeyring, KeyringError> {
        let path = home.join(KEYRING_FILE);
        let fail = |source| KeyringError::File { path: path.clone(), source };
        fs::File::open(&path).map_err(fail)?;
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY | rusqlite::OpenFlags::SQLITE_OPEN_NO_MUTEX;
        Ok(SqliteKeyring { database: Connection::open_with_flags(&path, flags)? })
    }

    /// A keyring that lives as long as this value.
    ///
    /// # Errors
    /// [`KeyringError::Database`].
    pub fn in_memory() -> Result<SqliteKeyring, KeyringError> {
        let keyring = SqliteKeyring { database: Connection::open_in_memory()? };
        keyring.make_tables()?;
        Ok(keyring)
    }

    fn make_tables(&self) -> Result<(), KeyringError> {
        Ok(self.database.execute_batch(
            "CREATE TABLE keys (key_id TEXT PRIMARY KEY, algorithm TEXT NOT NULL, material BLOB NOT NULL) STRICT;
             CREATE TABLE log_keys (name TEXT PRIMARY KEY, seed BLOB NOT NULL) STRICT;",
        )?)
    }

    /// Keeps what verifies a principal's signatures: the secret of a shared key, the public half of an own
    /// one. Returns its key id.
    ///
    /// # Errors
    /// [`KeyringError::Database`].
    pub fn insert(&self, key: &VerifyKey) -> Result<String, KeyringError> {
        let key_id = key_id(key);
        let (algorithm, material) = match key {
            VerifyKey::Hmac(secret) => ("hmac-sha256", *secret),
            VerifyKey::Ed25519(public) => ("ed25519", public.to_bytes()),
        };
        self.database.execute(
            "INSERT OR IGNORE INTO keys (key_id, algorithm, material) VALUES (?1, ?2, ?3)",
            params![key_id, algorithm, material.as_slice()],
        )?;
        Ok(key_id)
    }

    /// Whether the keyring holds this key.
    ///
    /// # Errors
    /// [`KeyringError`].
    pub fn load(&self, key_id: &str) -> Result<Option<(Algorithm, VerifyKey)>, KeyringError> {
        let row: Option<(String, Vec<u8>)> = self
            .database
            .query_row("SELECT algorithm, material FROM keys WHERE key_id = ?1", params![key_id], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .optional()?;
        let Some((algorithm, material)) = row else { return Ok(None) };
        let damaged = || KeyringError::Damaged(key_id.to_owned());
        let material: [u8; 32] = material.try_into().map_err(|_| damaged())?;
        match algorithm.as_str() {
            "hmac-sha256" => Ok(Some((Algorithm::HmacSha256, VerifyKey::Hmac(material)))),
            "ed25519" => {
                let public = VerifyingKey::from_bytes(&material).map_err(|_| damaged())?;
                Ok(Some((Algorithm::Ed25519, VerifyKey::Ed25519(Box::new(public)))))
            }
            _ => Err(damaged()),
        }
    }

    /// The signing key of a shared key, for commands run by the gate's own user.
    ///
    /// # Errors
    /// [`KeyringError`].
    pub fn sign_key(&self, key_id: &str) -> Result<Option<SignKey>, KeyringError> {
        Ok(self.load(key_id)?.and_then(|(_, key)| match key {
            VerifyKey::Hmac(secret) => Some(SignKey::Hmac(secret)),
            VerifyKey::Ed25519(_) => None,
        }))
    }

    /// Keeps a secret of a service under a random name, until it is in force and another one follows it. The ledger
    /// decides which one is; until then it stands apart, so that no start wipes it as one that is in force no more.
    ///
    /// # Errors
    /// [`KeyringError::Database`].
    pub fn insert_credential(
        &self,
        service: &ServiceName,
        id: &str,
        secret: &str,
    ) -> Result<(), KeyringError> {
        // Homes of before outgoing actions have no such table.
        self.database.execute_batch(CREDENTIALS)?;
        let sql = "INSERT INTO credentials (credential_id, service, secret) VALUES (?1, ?2, ?3)";
        Ok(self.database.execute(sql, params![id, asked_for(service), secret]).map(drop)?)
    }

    /// The secret of a service under this name.
    ///
    /// # Errors
    /// [`KeyringError::Database`].
    pub fn credential(&self, service: &ServiceName, id: &str) -> Result<Option<String>, KeyringError> {
        if !self.has_credentials()? {
            return Ok(None);
        }
        let sql = "SELECT secret FROM credentials WHERE service IN (?1, ?3) AND credential_id = ?2";
        Ok(self
            .database
            .query_row(sql, params![service.as_str(), id, asked_for(service)], |row| row.get(0))
            .optional()?)
    }

    /// Wipes every secret of a service but this one; those that are asked for and not decided yet only if so said.
    ///
    /// # Errors
    /// [`KeyringError::Database`].
    pub fn keep_only_credential(
        &self,
        service: &ServiceName,
        id: Option<&str>,
        and_asked_for: bool,
    ) -> Result<(), KeyringError> {
        if !self.has_credentials()? {
            return Ok(());
        }
        self.database.pragma_update(None, "secure_delete", "ON")?;
        let sql = "UPDATE credentials SET service = ?1 WHERE service = ?3 AND credential_id = ?2";
        self.database.execute(sql, params![service.as_str(), id, asked_for(service)])?;
        let sql = "DELETE FROM credentials WHERE (service = ?1 OR (?4 AND service = ?3)) AND credential_id IS NOT ?2";
        let bound = params![service.as_str(), id, asked_for(service), and_asked_for];
        Ok(self.database.execute(sql, bound).map(drop)?)
    }

    /// Wipes one secret: it never came into force.
    ///
    /// # Errors
    /// [`KeyringError::Database`].
    pub fn remove_credential(&self, id: &str) -> Result<(), KeyringError> {
        self.database.pragma_update(None, "secure_delete", "ON")?;
        Ok(self.database.execute("DELETE FROM credentials WHERE credential_id = ?1", [id]).map(drop)?)
    }

    fn has_credentials(&self) -> Result<bool, KeyringError> {
        let sql = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'credentials')";
        Ok(self.database.query_row(sql, [], |row| row.get(0))?)
    }

    /// Keeps the log's own keys.
    ///
    /// # Errors
    /// [`KeyringError::Database`].
    pub fn insert_log_keys(&self, keys: &LogKeys) -> Result<(), KeyringError> {
        for (name, seed) in [("log", keys.log_seed), ("seal", keys.seal_seed)] {
            self.database.execute(
                "INSERT INTO log_keys (name, seed) VALUES (?1, ?2)",
                params![name, seed.as_slice()],
            )?;
        }
        Ok(())
    }

    /// The log's own keys.
    ///
    /// # Errors
    /// [`KeyringError::NoLogKeys`] if they are not there.
    pub fn log_keys(&self) -> Result<LogKeys, KeyringError> {
        self.log_keys_named(LOG_KEYS)?.ok_or(KeyringError::NoLogKeys)
    }

    /// Those that a rotation is about to bring into force, or was when it ended early.
    ///
    /// # Errors
    /// [`KeyringError::Database`].
    pub fn pending_log_keys(&self) -> Result<Option<LogKeys>, KeyringError> {
        self.log_keys_named(PENDING_LOG_KEYS)
    }

    fn log_keys_named(&self, (log, seal): (&str, &str)) -> Result<Option<LogKeys>, KeyringError> {
        let sql =
            "SELECT (SELECT seed FROM log_keys WHERE name = ?1), (SELECT seed FROM log_keys WHERE name = ?2)";
        let (log, seal): (Option<Vec<u8>>, Option<Vec<u8>>) =
            self.database.query_row(sql, [log, seal], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let seed = |bytes: Option<Vec<u8>>| bytes.and_then(|bytes| bytes.try_into().ok());
        Ok(seed(log).zip(seed(seal)).map(|(log_seed, seal_seed)| LogKeys { log_seed, seal_seed }))
    }

    /// Keeps keys that a rotation is about to bring into force, durably, in place of any such.
    ///
    /// # Errors
    /// [`KeyringError::Database`].
    pub fn set_pending_log_keys(&self, keys: &LogKeys) -> Result<(), KeyringError> {
        let (log, seal) = PENDING_LOG_KEYS;
        Ok(self
            .database
            .execute(
                "INSERT OR REPLACE INTO log_keys (name, seed) VALUES (?1, ?2), (?3, ?4)",
                params![log, keys.log_seed.as_slice(), seal, keys.seal_seed.as_slice()],
            )
            .map(drop)?)
    }

    /// Makes the pending keys the log's own, in place of the old ones, whose bytes in the file are overwritten.
    ///
    /// # Errors
    /// [`KeyringError::Database`].
    pub fn promote_pending_log_keys(&self) -> Result<(), KeyringError> {
        Ok(self.database.execute_batch(
            "PRAGMA secure_delete = ON;
             BEGIN;
             UPDATE log_keys SET seed = zeroblob(32) WHERE name IN ('log', 'seal');
             DELETE FROM log_keys WHERE name IN ('log', 'seal');
             UPDATE log_keys SET name = substr(name, 6) WHERE name IN ('next-log', 'next-seal');
             COMMIT;",
        )?)
    }

    /// Forgets keys of a rotation that never was.
    ///
    /// # Errors
    /// [`KeyringError::Database`].
    pub fn drop_pending_log_keys(&self) -> Result<(), KeyringError> {
        let (log, seal) = PENDING_LOG_KEYS;
        Ok(self.database.execute("DELETE FROM log_keys WHERE name IN (?1, ?2)", [log, seal]).map(drop)?)
    }
}

/// Keys read once per process; the ledger decides which of them hold.
#[derive(Debug)]
pub struct CachedKeyring {
    keyring: SqliteKeyring,
    known: std::cell::RefCell<std::collections::BTreeMap<String, VerifyKey>>,
    /// Why the file could not be read.
    fault: std::cell::RefCell<Option<KeyringError>>,
}

impl CachedKeyring {
    /// Over an open keyring.
    pub fn new(keyring: SqliteKeyring) -> CachedKeyring {
        CachedKeyring { keyring, known: std::cell::RefCell::default(), fault: std::cell::RefCell::default() }
    }

    /// Demands that no key was missed because the file could not be read: whoever sent a good request would be
    /// called a forger.
    ///
    /// # Errors
    /// What SQLite said since this was last asked.
    pub fn check(&self) -> Result<(), KeyringError> {
        self.fault.borrow_mut().take().map_or(Ok(()), Err)
    }

    /// The keyring itself, without what was read of it.
    pub fn into_inner(self) -> SqliteKeyring {
        self.keyring
    }

    /// The keyring itself.
    pub fn inner(&self) -> &SqliteKeyring {
        &self.keyring
    }
}

impl Keyring for CachedKeyring {
    fn verify_key(&self, key_id: &str) -> Option<VerifyKey> {
        if let Some(key) = self.known.borrow().get(key_id) {
            return Some(key.clone());
        }
        let key = match self.keyring.load(key_id) {
            Ok(key) => key,
            // A damaged row verifies nothing, and stops nobody else.
            Err(KeyringError::Damaged(_)) => None,
            Err(error) => {
                *self.fault.borrow_mut() = Some(error);
                None
            }
        };
        let (_, key) = key?;
        self.known.borrow_mut().insert(key_id.to_owned(), key.clone());
        Some(key)
    }
}
