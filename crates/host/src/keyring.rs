//! `state/keyring.db`: the gate's copies of secrets, in SQLite, mode 0600, each encrypted for its
//! row. The ledger records which keys are in force and whose they are; only this file has their
//! bytes.

mod key;
mod upgrade;

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use ed25519_dalek::VerifyingKey;
use rusqlite::{Connection, OptionalExtension, params};
use sha2::{Digest, Sha256};
use zeroize::{Zeroize, Zeroizing};

use spoolgate_gate::prepare::Keyring;
use spoolgate_wire::admin::Algorithm;
use spoolgate_wire::ids::ServiceName;
use spoolgate_wire::signing::{SignKey, VerifyKey, hex};

pub use key::{KEY_FILE, key_file, name_key_file};
use key::{Key, Place};

/// Path of the keyring below the home.
pub const KEYRING_FILE: &str = "state/keyring.db";

/// Row names of the keys in force: for checkpoints, for seals.
const LOG_KEYS: (&str, &str) = ("log", "seal");
/// Row names of the keys that a rotation is about to bring into force.
const PENDING_LOG_KEYS: (&str, &str) = ("next-log", "next-seal");

/// Version of the keyring, in SQLite's `user_version`. Version 1 held the secrets in clear and had
/// no number, so its number is 0.
const VERSION: u32 = 2;
/// The row that tells whether a key is the right one.
const CHECK: Place<'static> = ("check", "key", "");

/// Why a keyring operation failed.
#[derive(Debug, thiserror::Error)]
pub enum KeyringError {
    /// The file cannot be used.
    #[error("keyring `{path}`: {source}")]
    File {
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// SQLite reports an error.
    #[error("keyring: {0}")]
    Database(#[from] rusqlite::Error),
    /// A row does not hold a valid key, or holds what was encrypted for another row.
    #[error("keyring: key {0} is damaged")]
    Damaged(String),
    /// The file with the key to the keyring cannot be used.
    #[error("keyring key `{path}`: {what}")]
    Key {
        /// The path of the key file.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        what: String,
    },
    /// A gate that cannot read encrypted secrets runs over the home.
    #[error(
        "keyring `{0}` is not encrypted yet, and another process holds the home; stop the gate of \
            the older version, then try again"
    )]
    Held(PathBuf),
    /// The keyring was written by a newer version.
    #[error("keyring `{0}` has version {1}, which this program does not know; use a newer one")]
    Newer(PathBuf, u32),
    /// The system has no random bytes.
    #[error("keyring: the operating system gave no random bytes: {0}")]
    NoRandomness(String),
    /// The log's own keys are missing.
    #[error(
        "keyring: the log's own keys are missing; they were made by `spoolgate init` and cannot be \
            made again"
    )]
    NoLogKeys,
}

impl KeyringError {
    /// Whether the disk of the keyring is full.
    pub fn is_full(&self) -> bool {
        matches!(self, KeyringError::Database(error)
            if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull))
    }
}

/// The open keyring.
#[derive(Debug)]
pub struct SqliteKeyring {
    database: Connection,
    /// Decrypts the rows. `None` for a keyring of version 1, which is only read.
    key: Option<Key>,
}

/// The secrets that the log is signed with.
#[derive(Clone)]
pub struct LogKeys {
    /// Seed of the key that signs checkpoints.
    pub log_seed: [u8; 32],
    /// Seed of the key that signs seals.
    pub seal_seed: [u8; 32],
}

impl Drop for LogKeys {
    fn drop(&mut self) {
        self.log_seed.zeroize();
        self.seal_seed.zeroize();
    }
}

impl std::fmt::Debug for LogKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LogKeys(..)")
    }
}

/// Id of a key: the first 16 hex digits of a hash of the verifying key.
pub fn key_id(key: &VerifyKey) -> String {
    let (label, bytes) = match key {
        VerifyKey::Hmac(secret) => ("hmac-sha256", *secret),
        VerifyKey::Ed25519(public) => ("ed25519", public.to_bytes()),
    };
    let digest = Sha256::new()
        .chain_update(b"spoolgate key id ")
        .chain_update(label)
        .chain_update(bytes)
        .finalize();
    hex(&digest).chars().take(16).collect()
}

/// What follows the service of a secret until a line puts it in force. No service can have such a
/// name.
const ASKED_FOR: &str = " (asked for)";

/// The label for secrets of a service until a line puts them in force.
fn asked_for(service: &ServiceName) -> String {
    format!("{service}{ASKED_FOR}")
}

impl SqliteKeyring {
    /// Opens the keyring of a home, and creates it if `create` is set. A keyring of version 1 is
    /// encrypted first, unless another process holds the home.
    ///
    /// # Errors
    /// Returns [`KeyringError`], also if other users may read the file, or its key is missing or
    /// another one.
    pub fn open(home: &Path, create: bool) -> Result<SqliteKeyring, KeyringError> {
        let path = home.join(KEYRING_FILE);
        if create {
            OpenOptions::new()
                .create_new(true)
                .write(true)
                .mode(0o600)
                .open(&path)
                .map_err(|source| KeyringError::File { path, source })?;
            return SqliteKeyring::open_under_lock(home);
        }
        let mut database = connect(&path)?;
        if version(&path, &database)? < VERSION {
            upgrade::alone(home, &mut database)?;
        }
        unlocked(home, database)
    }

    /// Like [`SqliteKeyring::open`], for a process that holds the home.
    ///
    /// # Errors
    /// As [`SqliteKeyring::open`].
    pub fn open_under_lock(home: &Path) -> Result<SqliteKeyring, KeyringError> {
        let path = home.join(KEYRING_FILE);
        let mut database = connect(&path)?;
        if version(&path, &database)? < VERSION {
            upgrade::encrypt(home, &mut database)?;
        }
        unlocked(home, database)
    }

    /// Opens the keyring of a home read-only: creates nothing, and rolls nothing back that another
    /// process is writing. A keyring of version 1 is read as it is.
    ///
    /// # Errors
    /// Returns [`KeyringError`] if the file cannot be opened.
    pub fn open_read_only(home: &Path) -> Result<SqliteKeyring, KeyringError> {
        let path = home.join(KEYRING_FILE);
        let fail = |source| KeyringError::File {
            path: path.clone(),
            source,
        };
        fs::File::open(&path).map_err(fail)?;
        let flags =
            rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY | rusqlite::OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let database = Connection::open_with_flags(&path, flags)?;
        if version(&path, &database)? < VERSION {
            return Ok(SqliteKeyring {
                database,
                key: None,
            });
        }
        unlocked(home, database)
    }

    /// Creates a keyring in memory.
    ///
    /// # Errors
    /// Returns [`KeyringError::Database`].
    pub fn in_memory() -> Result<SqliteKeyring, KeyringError> {
        let database = Connection::open_in_memory()?;
        let key = Key::random()?;
        upgrade::make_tables(&database, &key)?;
        Ok(SqliteKeyring {
            database,
            key: Some(key),
        })
    }

    /// Encrypts all secrets with the key in the file `to`, which is made if it does not exist, and
    /// removes the key in the home. The caller holds the home. After a crash at any point, one of
    /// the two keys opens the keyring, and a second call with the same file completes the first.
    ///
    /// # Errors
    /// Returns [`KeyringError`], also if `to` is the present key.
    pub fn reseal(home: &Path, to: &Path) -> Result<(), KeyringError> {
        upgrade::reseal(home, to)
    }

    fn seal(&self, place: Place<'_>, clear: &[u8]) -> Result<Vec<u8>, KeyringError> {
        self.key
            .as_ref()
            .ok_or_else(|| KeyringError::Damaged(place.1.to_owned()))?
            .seal(place, clear)
    }

    fn unseal(
        &self,
        place: Place<'_>,
        stored: Vec<u8>,
    ) -> Result<Zeroizing<Vec<u8>>, KeyringError> {
        match &self.key {
            Some(key) => key
                .open(place, &stored)
                .ok_or_else(|| KeyringError::Damaged(place.1.to_owned())),
            None => Ok(Zeroizing::new(stored)),
        }
    }

    /// Stores what verifies a principal's signatures: the secret of a shared key, or the public
    /// half of an Ed25519 key. Returns the key id.
    ///
    /// # Errors
    /// Returns [`KeyringError::Database`].
    pub fn insert(&self, key: &VerifyKey) -> Result<String, KeyringError> {
        let key_id = key_id(key);
        let (algorithm, material) = match key {
            VerifyKey::Hmac(secret) => ("hmac-sha256", *secret),
            VerifyKey::Ed25519(public) => ("ed25519", public.to_bytes()),
        };
        let material = self.seal(("keys", &key_id, algorithm), &Zeroizing::new(material)[..])?;
        self.database.execute(
            "INSERT OR IGNORE INTO keys (key_id, algorithm, material) VALUES (?1, ?2, ?3)",
            params![key_id, algorithm, material],
        )?;
        Ok(key_id)
    }

    /// Reads a key. `None` if the keyring does not have it.
    ///
    /// # Errors
    /// Returns [`KeyringError`] if the row is damaged or cannot be read.
    pub fn load(&self, key_id: &str) -> Result<Option<(Algorithm, VerifyKey)>, KeyringError> {
        let row: Option<(String, Vec<u8>)> = self
            .database
            .query_row(
                "SELECT algorithm, material FROM keys WHERE key_id = ?1",
                params![key_id],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )
            .optional()?;
        let Some((algorithm, material)) = row else {
            return Ok(None);
        };
        let damaged = || KeyringError::Damaged(key_id.to_owned());
        let material = self.unseal(("keys", key_id, &algorithm), material)?;
        let material: [u8; 32] = material.as_slice().try_into().map_err(|_| damaged())?;
        match algorithm.as_str() {
            "hmac-sha256" => Ok(Some((Algorithm::HmacSha256, VerifyKey::Hmac(material)))),
            "ed25519" => {
                let public = VerifyingKey::from_bytes(&material).map_err(|_| damaged())?;
                Ok(Some((
                    Algorithm::Ed25519,
                    VerifyKey::Ed25519(Box::new(public)),
                )))
            }
            _ => Err(damaged()),
        }
    }

    /// The signing key of a shared key, for commands that run as the gate's own user.
    ///
    /// # Errors
    /// As [`SqliteKeyring::load`].
    pub fn sign_key(&self, key_id: &str) -> Result<Option<SignKey>, KeyringError> {
        Ok(self.load(key_id)?.and_then(|(_, key)| match key {
            VerifyKey::Hmac(secret) => Some(SignKey::Hmac(secret)),
            VerifyKey::Ed25519(_) => None,
        }))
    }

    /// Stores a secret of a service under a random name. The ledger decides which secret is in
    /// force. Until a line puts this one in force it is stored separately, so that a start of the
    /// gate does not wipe it as an old secret.
    ///
    /// # Errors
    /// Returns [`KeyringError::Database`].
    pub fn insert_credential(
        &self,
        service: &ServiceName,
        id: &str,
        secret: &str,
    ) -> Result<(), KeyringError> {
        let secret = self.seal(("credentials", id, service.as_str()), secret.as_bytes())?;
        let sql = "INSERT INTO credentials (credential_id, service, secret) VALUES (?1, ?2, ?3)";
        Ok(self
            .database
            .execute(sql, params![id, asked_for(service), secret])
            .map(drop)?)
    }

    /// The secret of a service under this name. `None` if there is none.
    ///
    /// # Errors
    /// Returns [`KeyringError::Database`].
    pub fn credential(
        &self,
        service: &ServiceName,
        id: &str,
    ) -> Result<Option<Zeroizing<String>>, KeyringError> {
        let sql = "SELECT secret FROM credentials WHERE service IN (?1, ?3) AND credential_id = ?2";
        let bound = params![service.as_str(), id, asked_for(service)];
        let sealed: Option<Vec<u8>> = self
            .database
            .query_row(sql, bound, |row| row.get(0))
            .optional()?;
        let Some(sealed) = sealed else {
            return Ok(None);
        };
        let mut clear = self.unseal(("credentials", id, service.as_str()), sealed)?;
        match String::from_utf8(std::mem::take(&mut *clear)) {
            Ok(secret) => Ok(Some(Zeroizing::new(secret))),
            Err(error) => {
                error.into_bytes().zeroize();
                Err(KeyringError::Damaged(id.to_owned()))
            }
        }
    }

    /// Wipes every secret of a service except this one. Wipes secrets that are not decided yet only
    /// if `and_asked_for` is set.
    ///
    /// # Errors
    /// Returns [`KeyringError::Database`].
    pub fn keep_only_credential(
        &self,
        service: &ServiceName,
        id: Option<&str>,
        and_asked_for: bool,
    ) -> Result<(), KeyringError> {
        self.database.pragma_update(None, "secure_delete", "ON")?;
        let sql = "UPDATE credentials SET service = ?1 WHERE service = ?3 AND credential_id = ?2";
        self.database
            .execute(sql, params![service.as_str(), id, asked_for(service)])?;
        let sql = "DELETE FROM credentials WHERE (service = ?1 OR (?4 AND service = ?3)) AND \
            credential_id IS NOT ?2";
        let bound = params![service.as_str(), id, asked_for(service), and_asked_for];
        Ok(self.database.execute(sql, bound).map(drop)?)
    }

    /// Wipes one secret that never came into force.
    ///
    /// # Errors
    /// Returns [`KeyringError::Database`].
    pub fn remove_credential(&self, id: &str) -> Result<(), KeyringError> {
        self.database.pragma_update(None, "secure_delete", "ON")?;
        Ok(self
            .database
            .execute("DELETE FROM credentials WHERE credential_id = ?1", [id])
            .map(drop)?)
    }

    /// Stores the log's own keys.
    ///
    /// # Errors
    /// Returns [`KeyringError::Database`].
    pub fn insert_log_keys(&self, keys: &LogKeys) -> Result<(), KeyringError> {
        self.put_log_keys(LOG_KEYS, keys)
    }

    /// Stores a pair of log keys under these names, in place of those there.
    fn put_log_keys(&self, (log, seal): (&str, &str), keys: &LogKeys) -> Result<(), KeyringError> {
        let log_seed = self.seal(("log_keys", log, ""), &keys.log_seed)?;
        let seal_seed = self.seal(("log_keys", seal, ""), &keys.seal_seed)?;
        let sql = "INSERT OR REPLACE INTO log_keys (name, seed) VALUES (?1, ?2), (?3, ?4)";
        let bound = params![log, log_seed, seal, seal_seed];
        Ok(self.database.execute(sql, bound).map(drop)?)
    }

    /// The log's own keys.
    ///
    /// # Errors
    /// Returns [`KeyringError::NoLogKeys`] if they are missing, or [`KeyringError::Database`].
    pub fn log_keys(&self) -> Result<LogKeys, KeyringError> {
        self.log_keys_named(LOG_KEYS)?
            .ok_or(KeyringError::NoLogKeys)
    }

    /// The keys that a rotation is about to bring into force, or was about to when it was
    /// interrupted.
    ///
    /// # Errors
    /// Returns [`KeyringError::Database`].
    pub fn pending_log_keys(&self) -> Result<Option<LogKeys>, KeyringError> {
        self.log_keys_named(PENDING_LOG_KEYS)
    }

    fn log_keys_named(&self, names: (&str, &str)) -> Result<Option<LogKeys>, KeyringError> {
        let sql = "SELECT (SELECT seed FROM log_keys WHERE name = ?1), (SELECT seed FROM log_keys \
            WHERE name = ?2)";
        let stored: (Option<Vec<u8>>, Option<Vec<u8>>) =
            self.database.query_row(sql, [names.0, names.1], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?;
        let (Some(log), Some(seal)) = stored else {
            return Ok(None);
        };
        let seed = |name: &str, stored| {
            let clear = self.unseal(("log_keys", name, ""), stored)?;
            let seed: Result<[u8; 32], _> = clear.as_slice().try_into();
            seed.map_err(|_| KeyringError::Damaged(name.to_owned()))
        };
        Ok(Some(LogKeys {
            log_seed: seed(names.0, log)?,
            seal_seed: seed(names.1, seal)?,
        }))
    }

    /// Stores the keys that a rotation is about to bring into force, durably. Replaces earlier
    /// pending keys.
    ///
    /// # Errors
    /// Returns [`KeyringError::Database`].
    pub fn set_pending_log_keys(&self, keys: &LogKeys) -> Result<(), KeyringError> {
        self.put_log_keys(PENDING_LOG_KEYS, keys)
    }

    /// Makes the pending keys the log's own keys. Overwrites the bytes of the old ones in the file.
    ///
    /// # Errors
    /// Returns [`KeyringError::Database`].
    pub fn promote_pending_log_keys(&self) -> Result<(), KeyringError> {
        let Some(keys) = self.pending_log_keys()? else {
            return Ok(());
        };
        self.database.pragma_update(None, "secure_delete", "ON")?;
        let within = self.database.unchecked_transaction()?;
        self.put_log_keys(LOG_KEYS, &keys)?;
        self.drop_pending_log_keys()?;
        Ok(within.commit()?)
    }

    /// Deletes the keys of a rotation that did not take place.
    ///
    /// # Errors
    /// Returns [`KeyringError::Database`].
    pub fn drop_pending_log_keys(&self) -> Result<(), KeyringError> {
        let (log, seal) = PENDING_LOG_KEYS;
        Ok(self
            .database
            .execute("DELETE FROM log_keys WHERE name IN (?1, ?2)", [log, seal])
            .map(drop)?)
    }
}

/// Opens the database of a keyring.
fn connect(path: &Path) -> Result<Connection, KeyringError> {
    let fail = |source| KeyringError::File {
        path: path.to_owned(),
        source,
    };
    let metadata = fs::symlink_metadata(path).map_err(fail)?;
    if !metadata.is_file() || metadata.permissions().mode() & 0o077 != 0 {
        let what = "must be a file that only its owner may read; run chmod 600 on it";
        return Err(fail(std::io::Error::new(
            std::io::ErrorKind::PermissionDenied,
            what,
        )));
    }
    let database = Connection::open(path)?;
    database.busy_timeout(std::time::Duration::from_secs(5))?;
    // Sync in full, and the folder after each commit: a key that an answer mentions must survive a
    // power cut.
    database.pragma_update(None, "synchronous", "EXTRA")?;
    // The sandbox of `spoolgate watch` has no folder for temporary files.
    database.pragma_update(None, "temp_store", "MEMORY")?;
    Ok(database)
}

/// Returns the version of a keyring.
fn version(path: &Path, database: &Connection) -> Result<u32, KeyringError> {
    let found = database.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if found > VERSION {
        return Err(KeyringError::Newer(path.to_owned(), found));
    }
    Ok(found)
}

/// Returns the keyring with its key.
fn unlocked(home: &Path, database: Connection) -> Result<SqliteKeyring, KeyringError> {
    let path = key_file(home);
    let keyring = home.join(KEYRING_FILE);
    let fail = |what| KeyringError::Key {
        path: path.clone(),
        what,
    };
    let Some(key) = Key::read(&path)? else {
        let keyring = keyring.display();
        return Err(fail(format!(
            "is missing, and without it the secrets in `{keyring}` cannot be read; restore it from \
                a copy, or name it with --keyring-key"
        )));
    };
    if !upgrade::is_key_of(&database, &key)? {
        let keyring = keyring.display();
        return Err(fail(format!(
            "is not the key that `{keyring}` is encrypted with; name that one with --keyring-key, \
                or restore it from a copy"
        )));
    }
    Ok(SqliteKeyring {
        database,
        key: Some(key),
    })
}

/// A keyring that reads each key once per process. The ledger decides which keys are in force.
#[derive(Debug)]
pub struct CachedKeyring {
    keyring: SqliteKeyring,
    known: std::cell::RefCell<std::collections::BTreeMap<String, VerifyKey>>,
    /// Why the file could not be read.
    fault: std::cell::RefCell<Option<KeyringError>>,
}

impl CachedKeyring {
    /// Wraps an open keyring.
    pub fn new(keyring: SqliteKeyring) -> CachedKeyring {
        CachedKeyring {
            keyring,
            known: std::cell::RefCell::default(),
            fault: std::cell::RefCell::default(),
        }
    }

    /// Reports whether a key was missed because the file could not be read. Without this check, the
    /// sender of a valid request would be treated as a forger.
    ///
    /// # Errors
    /// Returns SQLite's error since the last check.
    pub fn check(&self) -> Result<(), KeyringError> {
        self.fault.borrow_mut().take().map_or(Ok(()), Err)
    }

    /// Returns the keyring itself without the cache.
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
            // A damaged row verifies nothing, and must not affect other keys.
            Err(KeyringError::Damaged(_)) => None,
            Err(error) => {
                *self.fault.borrow_mut() = Some(error);
                None
            }
        };
        let (_, key) = key?;
        self.known
            .borrow_mut()
            .insert(key_id.to_owned(), key.clone());
        Some(key)
    }
}

#[cfg(test)]
mod tests;
