//! Rewriting a whole keyring: with a new key, or from version 1, which held the secrets in clear.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};
use zeroize::Zeroizing;

use super::key::{self, KEY_FILE, Key, Place};
use super::{CHECK, KEYRING_FILE, KeyringError, VERSION, connect, key_file, version};
use crate::lock;

/// The tables of secrets: name, column of the row's name, column of what else the secret is bound
/// to, column of the secret.
const TABLES: [(&str, &str, &str, &str); 3] = [
    ("keys", "key_id", "algorithm", "material"),
    ("log_keys", "name", "''", "seed"),
    ("credentials", "credential_id", "service", "secret"),
];

/// How often to look whether another process has finished, 50 ms apart.
const LOOKS: u32 = 100;

/// A row of one of the tables.
struct Row {
    name: String,
    of: String,
    secret: Zeroizing<Vec<u8>>,
}

impl Row {
    /// Where the secret belongs. Whether a credential is in force yet changes later, so it is not
    /// part of the place.
    fn place(&self, table: &'static str) -> Place<'_> {
        let of = self.of.strip_suffix(super::ASKED_FOR).unwrap_or(&self.of);
        (table, &self.name, of)
    }
}

/// Makes the tables of the present version, with nothing in them.
pub(super) fn make_tables(database: &Connection, key: &Key) -> Result<(), KeyringError> {
    database.execute_batch(
        "CREATE TABLE keys (key_id TEXT PRIMARY KEY, algorithm TEXT NOT NULL, material BLOB NOT \
            NULL) STRICT;
         CREATE TABLE log_keys (name TEXT PRIMARY KEY, seed BLOB NOT NULL) STRICT;
         CREATE TABLE credentials (credential_id TEXT PRIMARY KEY, service TEXT NOT NULL, secret \
            BLOB NOT NULL) STRICT;
         CREATE TABLE key_check (sealed BLOB NOT NULL) STRICT;",
    )?;
    let check = key.seal(CHECK, b"")?;
    database.execute("INSERT INTO key_check (sealed) VALUES (?1)", params![check])?;
    Ok(database.pragma_update(None, "user_version", VERSION)?)
}

/// Reports whether this is the key that a keyring is encrypted with.
pub(super) fn is_key_of(database: &Connection, key: &Key) -> Result<bool, KeyringError> {
    let sql = "SELECT sealed FROM key_check";
    let sealed: Vec<u8> = database.query_row(sql, [], |row| row.get(0))?;
    Ok(key.open(CHECK, &sealed).is_some())
}

fn rows(
    database: &Connection,
    (table, name, of, secret): (&str, &str, &str, &str),
) -> Result<Vec<Row>, KeyringError> {
    let sql = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1";
    let exists = database.query_row(sql, [table], |_| Ok(())).optional()?;
    if exists.is_none() {
        return Ok(Vec::new());
    }
    let mut rows = database.prepare(&format!(
        "SELECT {name}, {of}, CAST({secret} AS BLOB) FROM {table}"
    ))?;
    let rows = rows.query_map([], |row| {
        Ok(Row {
            name: row.get(0)?,
            of: row.get(1)?,
            secret: Zeroizing::new(row.get(2)?),
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Encrypts a keyring of version 1, as soon as no other process holds the home.
pub(super) fn alone(home: &Path, database: &mut Connection) -> Result<(), KeyringError> {
    let path = home.join(KEYRING_FILE);
    for _ in 0..LOOKS {
        let held = lock::try_lock(home).map_err(|source| KeyringError::File {
            path: home.join(lock::LOCK_FILE),
            source,
        })?;
        if held.is_some() {
            return encrypt(home, database);
        }
        if version(&path, database)? == VERSION {
            return Ok(());
        }
        // A gate of this version encrypts it right after it has taken the lock.
        thread::sleep(Duration::from_millis(50));
    }
    Err(KeyringError::Held(path))
}

/// Encrypts a keyring of version 1, or an empty one, in a home that this process holds.
pub(super) fn encrypt(home: &Path, database: &mut Connection) -> Result<(), KeyringError> {
    // The key must be durable before anything is encrypted with it.
    let key = Key::read_or_make(&key_file(home))?;
    database.pragma_update(None, "secure_delete", "ON")?;
    let within = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut old = Vec::new();
    for table in TABLES {
        old.push((table, rows(&within, table)?));
        within.execute_batch(&format!("DROP TABLE IF EXISTS {};", table.0))?;
    }
    make_tables(&within, &key)?;
    for ((table, name, of, secret), rows) in old {
        for row in rows {
            let sealed = key.seal(row.place(table), &row.secret)?;
            let (columns, values) = match of {
                "''" => (format!("{name}, {secret}"), "?1, ?3"),
                of => (format!("{name}, {of}, {secret}"), "?1, ?2, ?3"),
            };
            let sql = format!("INSERT INTO {table} ({columns}) VALUES ({values})");
            within.execute(&sql, params![row.name, row.of, sealed])?;
        }
    }
    within.commit()?;
    // The pages of the old tables are overwritten already; this returns them.
    Ok(database.execute_batch("VACUUM;")?)
}

/// Encrypts a keyring with another key.
pub(super) fn reseal(home: &Path, to: &Path) -> Result<(), KeyringError> {
    let (path, from) = (home.join(KEYRING_FILE), key_file(home));
    let fault = |path: &Path, what: &str| KeyringError::Key {
        path: path.to_owned(),
        what: what.to_owned(),
    };
    let mut database = connect(&path)?;
    if version(&path, &database)? < VERSION {
        encrypt(home, &mut database)?;
    }
    let old = Key::read(&from)?;
    let is_old = old
        .as_ref()
        .map_or(Ok(false), |key| is_key_of(&database, key))?;
    let next = match Key::read(to)? {
        Some(next) => next,
        None if is_old => Key::read_or_make(to)?,
        None => {
            let what = "is not the key of the keyring; name that one with --keyring-key";
            return Err(fault(&from, what));
        }
    };
    match (old.filter(|_| is_old), is_key_of(&database, &next)?) {
        (Some(_), true) => {
            return Err(fault(
                to,
                "is the key of the keyring already; name a new file",
            ));
        }
        (Some(old), false) => rewrite(&mut database, &old, &next)?,
        // An earlier call was interrupted after it had rewritten the rows.
        (None, true) => {}
        (None, false) => {
            let what = "is not the key of the keyring; name that one with --keyring-key";
            return Err(fault(&from, what));
        }
    }
    // A copy of the home no longer has the key.
    let own = home.join(KEY_FILE);
    if from != own {
        return Ok(());
    }
    let fail = |source| KeyringError::File {
        path: own.clone(),
        source,
    };
    fs::remove_file(&own).map_err(fail)?;
    key::sync_folder_of(&own).map_err(fail)
}

fn rewrite(database: &mut Connection, old: &Key, next: &Key) -> Result<(), KeyringError> {
    database.pragma_update(None, "secure_delete", "ON")?;
    let within = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for table in TABLES {
        for row in rows(&within, table)? {
            let (table, name, _, secret) = table;
            let place = row.place(table);
            let clear = old
                .open(place, &row.secret)
                .ok_or_else(|| KeyringError::Damaged(row.name.clone()))?;
            let sql = format!("UPDATE {table} SET {secret} = ?2 WHERE {name} = ?1");
            within.execute(&sql, params![row.name, next.seal(place, &clear)?])?;
        }
    }
    let check = next.seal(CHECK, b"")?;
    within.execute("UPDATE key_check SET sealed = ?1", params![check])?;
    Ok(within.commit()?)
}
