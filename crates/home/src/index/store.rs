//! `state/state.db`: data that decisions look up and that would grow without bound in memory.
//!
//! A batch runs inside one transaction, which is committed after the batch's lines are durable. So
//! look-ups see the batch's own requests, and a crash in between only leaves the index behind the
//! ledger; the next start rolls it forward. The WAL is not synced: a power cut can lose commits,
//! but never their order.

use std::cell::Cell;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize};

use super::fold::Outstanding;
use super::{cases, decisions, history, lineage, lines, proposals, reports, responses, sealed};
use spoolgate_gate::State;
use spoolgate_ledger::log::StoredPosition;
use spoolgate_trading::order::Fill;
use spoolgate_trading::requests::ClosedOrder;
use spoolgate_wire::ids::OrderId;
use spoolgate_wire::signing::sha256_hex;
use spoolgate_wire::time::Time;

/// Path of the index below the home.
pub const STATE_FILE: &str = "state/state.db";

/// Must change with every change of tables, snapshot or fold; an older file is rebuilt from the
/// ledger.
const STORE_VERSION: i64 = 13;

/// The version that lacks only tables, which are added: an index of a pruned ledger cannot be
/// rebuilt.
const EXTENDED_VERSION: i64 = 12;

/// How long a statement waits for another connection.
const BUSY_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(5);

/// An error of the index.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// SQLite failed.
    #[error("state.db: {0}; it is a cache: `spoolgate rebuild` rebuilds it from the ledger")]
    Database(#[from] rusqlite::Error),
    /// A value that cannot be read back.
    #[error("state.db: {0}; it is a cache: `spoolgate rebuild` rebuilds it from the ledger")]
    Damaged(String),
}

impl StoreError {
    /// Whether the disk refuses what SQLite would write: it is full, or a quota is used up, which
    /// SQLite does not tell from other errors of writing.
    pub fn is_full(&self) -> bool {
        const SHM_SIZE: i32 = rusqlite::ffi::SQLITE_IOERR_SHMSIZE;
        const WRITE: i32 = rusqlite::ffi::SQLITE_IOERR_WRITE;
        match self {
            StoreError::Database(error) => {
                let extended = error.sqlite_error().map(|error| error.extended_code);
                error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull)
                    || matches!(extended, Some(SHM_SIZE | WRITE))
            }
            StoreError::Damaged(_) => false,
        }
    }
}

impl From<serde_json::Error> for StoreError {
    fn from(error: serde_json::Error) -> StoreError {
        StoreError::Damaged(error.to_string())
    }
}

/// The bounded state as of a sealed place of the ledger.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    /// The place.
    pub position: StoredPosition,
    /// The state as of that place.
    pub state: State,
    /// Decision lines before that place whose answers are not known to be durable.
    pub outstanding: Outstanding,
}

/// A fill with the number of its line and its index within the line.
pub type NumberedFill = ((u64, u32), Fill);

/// How long a process holds the index open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// A gate that runs until it is stopped: closing merges the WAL into the index.
    Long,
    /// A command that adds a few rows and ends: its rows stay in the WAL, or each command would pay
    /// for two syncs of its own.
    Brief,
}

/// WAL size in bytes at which a brief holder checkpoints, about 16 commands' worth: every opening
/// of the index reads the whole WAL.
const BESIDE_BYTES_MAX: u64 = 256 * 1024;

/// The open index.
#[derive(Debug)]
pub struct Store {
    pub(super) database: Connection,
    /// Path of the WAL; `None` for a long holder.
    beside: Option<PathBuf>,
    /// State of the index file that the WAL belongs to, for a brief holder.
    base: Option<String>,
    /// Whether the transaction stays open from one batch to the next.
    is_kept_open: Cell<bool>,
}

/// Identifies a file and its state by inode, size and time of last change. Only [`is_same`]
/// compares two such texts.
fn state_of(path: &Path) -> Option<String> {
    let file = std::fs::metadata(path).ok()?;
    Some(format!(
        "{} {} {}.{:09}",
        file.ino(),
        file.len(),
        file.mtime(),
        file.mtime_nsec()
    ))
}

/// Returns whether two states have the same size and time of last change. The inode does not count,
/// because a copy of the home has another one; it stays in the text for older programs.
fn is_same(one: &str, other: &str) -> bool {
    let without_inode = |state: &str| state.split_once(' ').map(|(_, rest)| rest.to_owned());
    without_inode(one) == without_inode(other)
}

/// Writes a path as a part of a URI.
fn in_uri(path: &Path) -> String {
    let bytes = path.as_os_str().as_encoded_bytes();
    bytes.iter().map(|byte| format!("%{byte:02x}")).collect()
}

const TABLES: &str = "
    CREATE TABLE requests (
        source TEXT NOT NULL, id TEXT NOT NULL, spool TEXT NOT NULL, request_hash TEXT NOT NULL, \
            seq INTEGER NOT NULL,
        PRIMARY KEY (source, id, spool)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX requests_by_spool ON requests (spool, id);
    CREATE TABLE closed_orders (order_id TEXT PRIMARY KEY, body TEXT NOT NULL) STRICT, WITHOUT \
        ROWID;
    CREATE TABLE fills (
        seq INTEGER NOT NULL, ordinal INTEGER NOT NULL, recorded_ms INTEGER NOT NULL, body TEXT \
            NOT NULL,
        PRIMARY KEY (seq, ordinal)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX fills_by_time ON fills (recorded_ms, seq, ordinal);
    CREATE TABLE snapshot (
        only INTEGER PRIMARY KEY CHECK (only = 1), body TEXT NOT NULL, sha256 TEXT NOT NULL
    ) STRICT;
    CREATE TABLE tip (only INTEGER PRIMARY KEY CHECK (only = 1), position TEXT NOT NULL, base \
        TEXT) STRICT;
";

pub(super) fn to_sql(n: u64) -> Result<i64, StoreError> {
    i64::try_from(n).map_err(|_| StoreError::Damaged(format!("{n} is too large for SQLite")))
}

/// Returns the key under which a row is looked for. A number that no row can have, which a sender may
/// name, becomes a key that no row has.
pub(super) fn sought(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(-1)
}

pub(super) fn from_sql(n: i64) -> Result<u64, StoreError> {
    u64::try_from(n).map_err(|_| StoreError::Damaged(format!("{n} is not a count")))
}

/// Refuses what is not a file: SQLite would wait for ever at a pipe.
fn demand_file(path: &Path) -> Result<(), StoreError> {
    match std::fs::metadata(path) {
        Ok(found) if !found.is_file() => {
            let what = format!("`{STATE_FILE}` is not a file; move it away");
            Err(StoreError::Damaged(what))
        }
        _ => Ok(()),
    }
}

impl Store {
    /// Opens the index of a home; empty if it is missing, of another version or not a database. The
    /// caller must hold the lock of the home.
    pub fn open(home: &Path, hold: Hold) -> Result<Store, StoreError> {
        let (path, beside) = (
            home.join(STATE_FILE),
            home.join(format!("{STATE_FILE}-wal")),
        );
        let rests_beside = std::fs::metadata(&beside).is_ok_and(|file| file.len() > 0);
        let base = state_of(&path).filter(|_| rests_beside);
        let mut store = Store::open_or_replace(home)?;
        if base.is_some() && !store.is_on(base.as_deref()) {
            // Another index file, perhaps from a copy, was put under this WAL. SQLite would read
            // both as one, and requests that were already decided would count as new.
            drop(store);
            Store::remove(home).map_err(|error| StoreError::Damaged(error.to_string()))?;
            store = Store::open_or_replace(home)?;
        }
        // A watcher in the sandbox has no folder for temporary files.
        store.database.pragma_update(None, "temp_store", "MEMORY")?;
        if hold == Hold::Brief {
            store
                .database
                .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
            store.beside = Some(beside);
            store.base = state_of(&path);
        }
        Ok(store)
    }

    /// Returns whether the rows in the WAL belong to the index file in this state. A long holder
    /// records no state, but leaves no WAL unless it is killed.
    fn is_on(&self, base: Option<&str>) -> bool {
        let told: rusqlite::Result<Option<String>> =
            self.database
                .query_row("SELECT base FROM tip", [], |row| row.get(0));
        match told {
            Ok(None) => true,
            Ok(Some(told)) => base.is_some_and(|base| is_same(&told, base)),
            Err(error) => error == rusqlite::Error::QueryReturnedNoRows,
        }
    }

    fn open_or_replace(home: &Path) -> Result<Store, StoreError> {
        let path = home.join(STATE_FILE);
        demand_file(&path)?;
        let open = || {
            Connection::open(&path)
                .map_err(StoreError::from)
                .and_then(Store::prepare)
        };
        match open() {
            // There is no room for the file that lets others read at the same time.
            Err(error) if error.is_full() => {
                let database = Connection::open(&path)?;
                database.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
                Store::prepare(database)
            }
            Err(StoreError::Database(error))
                if matches!(
                    error.sqlite_error_code(),
                    Some(rusqlite::ErrorCode::NotADatabase | rusqlite::ErrorCode::DatabaseCorrupt)
                ) =>
            {
                Store::remove(home).map_err(|error| StoreError::Damaged(error.to_string()))?;
                Store::prepare(Connection::open(&path)?)
            }
            other => other,
        }
    }

    /// Removes the files of the index.
    ///
    /// # Errors
    /// Returns the system's error, unless the files do not exist.
    pub fn remove(home: &Path) -> std::io::Result<()> {
        for ending in ["", "-wal", "-shm"] {
            match std::fs::remove_file(home.join(format!("{STATE_FILE}{ending}"))) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Opens the index for reading while another process may write it.
    pub fn open_read_only(home: &Path) -> Result<Store, StoreError> {
        let flags =
            rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY | rusqlite::OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let path = home.join(STATE_FILE);
        demand_file(&path)?;
        let database = Connection::open_with_flags(path, flags)?;
        database.busy_timeout(BUSY_TIMEOUT)?;
        Store::of_this_version(database)
    }

    /// Opens the index while nobody writes it, without creating the files that reading creates
    /// otherwise.
    ///
    /// # Errors
    /// Returns [`StoreError`] if it cannot be read, also if the rows in the WAL belong to another
    /// index file: a gate would build the index anew.
    pub fn open_untouched(home: &Path) -> Result<Store, StoreError> {
        let (path, beside) = (
            home.join(STATE_FILE),
            home.join(format!("{STATE_FILE}-wal")),
        );
        demand_file(&path)?;
        let has_rows_beside = std::fs::metadata(beside).is_ok_and(|file| file.len() > 0);
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY
            | rusqlite::OpenFlags::SQLITE_OPEN_NO_MUTEX
            | rusqlite::OpenFlags::SQLITE_OPEN_URI;
        let database = if has_rows_beside {
            // SQLite deletes the WAL of an empty file.
            if std::fs::metadata(&path).is_ok_and(|file| file.len() == 0) {
                return Err(StoreError::Damaged("the file is empty".to_owned()));
            }
            let uri = format!("file:{}?mode=ro", in_uri(&path));
            // Without locks, and with the WAL's index in memory instead of in a file beside it.
            let database = Connection::open_with_flags_and_vfs(uri, flags, c"unix-none")?;
            database.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
            database.execute_batch("PRAGMA locking_mode=EXCLUSIVE")?;
            database
        } else {
            let uri = format!("file:{}?immutable=1", in_uri(&path));
            Connection::open_with_flags(uri, flags)?
        };
        let store = Store::of_this_version(database)?;
        if has_rows_beside && !store.is_on(state_of(&path).as_deref()) {
            return Err(StoreError::Damaged(
                "the rows in `state.db-wal` belong to another state.db".to_owned(),
            ));
        }
        Ok(store)
    }

    fn of_this_version(database: Connection) -> Result<Store, StoreError> {
        let version: i64 = database.pragma_query_value(None, "user_version", |row| row.get(0))?;
        if version == EXTENDED_VERSION {
            let tables = [cases::SINCE_12, lineage::SINCE_12].concat();
            let tables = tables.replace("CREATE TABLE", "CREATE TEMP TABLE");
            database.pragma_update(None, "temp_store", "MEMORY")?;
            database.execute_batch(&tables)?;
        } else if version != STORE_VERSION {
            return Err(StoreError::Damaged(format!(
                "version {version} where {STORE_VERSION} is wanted"
            )));
        }
        Ok(Store {
            database,
            beside: None,
            base: None,
            is_kept_open: Cell::new(false),
        })
    }

    /// Creates an index that lives as long as this value.
    pub fn in_memory() -> Result<Store, StoreError> {
        Store::prepare(Connection::open_in_memory()?)
    }

    /// As [`Store::in_memory`], for a history of any length: what does not fit into the cache goes
    /// to an unnamed temporary file.
    pub fn temporary() -> Result<Store, StoreError> {
        Store::prepare(Connection::open("")?)
    }

    fn prepare(database: Connection) -> Result<Store, StoreError> {
        database.busy_timeout(BUSY_TIMEOUT)?;
        database.pragma_update(None, "synchronous", "NORMAL")?;
        database.set_prepared_statement_cache_capacity(32);
        // Otherwise SQLite plans a statement anew for every bound value, in case table statistics
        // favour another plan; there are no statistics.
        database.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        let store = Store {
            database,
            beside: None,
            base: None,
            is_kept_open: Cell::new(false),
        };
        let version: i64 = store
            .database
            .pragma_query_value(None, "user_version", |row| row.get(0))?;
        if version == EXTENDED_VERSION {
            store.begin()?;
            store.database.execute_batch(cases::SINCE_12)?;
            store.database.execute_batch(lineage::SINCE_12)?;
            store
                .database
                .pragma_update(None, "user_version", STORE_VERSION)?;
            store.commit()?;
        } else if version != STORE_VERSION {
            // This mode is stored in the file.
            store.database.pragma_update(None, "journal_mode", "WAL")?;
            store.clear()?;
        }
        store.database.execute_batch(cases::BY_ALIAS)?;
        Ok(store)
    }

    /// Deletes everything.
    pub fn clear(&self) -> Result<(), StoreError> {
        self.begin()?;
        self.clear_within()?;
        self.commit()
    }

    /// As [`Store::clear`], within a transaction; rolling it back restores everything.
    pub fn clear_within(&self) -> Result<(), StoreError> {
        self.database.execute_batch(
            "DROP TABLE IF EXISTS requests; DROP TABLE IF EXISTS closed_orders;
             DROP TABLE IF EXISTS fills; DROP TABLE IF EXISTS snapshot; DROP TABLE IF EXISTS tip;",
        )?;
        for drop in [
            cases::DROP,
            decisions::DROP,
            history::DROP,
            lineage::DROP,
            lines::DROP,
            proposals::DROP,
            reports::DROP,
            responses::DROP,
            sealed::DROP,
        ] {
            self.database.execute_batch(drop)?;
        }
        for tables in [
            TABLES,
            cases::TABLES,
            decisions::TABLES,
            history::TABLES,
            lineage::TABLES,
            lineage::SINCE_12,
            cases::SINCE_12,
            cases::BY_ALIAS,
            lines::TABLES,
            proposals::TABLES,
            reports::TABLES,
            responses::TABLES,
            sealed::TABLES,
        ] {
            self.database.execute_batch(tables)?;
        }
        Ok(self
            .database
            .pragma_update(None, "user_version", STORE_VERSION)?)
    }

    /// Begins the transaction of a batch.
    pub fn begin(&self) -> Result<(), StoreError> {
        if self.is_kept_open.get() && !self.database.is_autocommit() {
            return Ok(());
        }
        Ok(self.database.execute_batch("BEGIN IMMEDIATE")?)
    }

    /// Commits the transaction of a batch, unless it is kept open.
    pub fn commit(&self) -> Result<(), StoreError> {
        if self.is_kept_open.get() {
            return Ok(());
        }
        Ok(self.database.execute_batch("COMMIT")?)
    }

    /// Keeps the transaction open from one batch to the next, because the disk has no room for it.
    /// What it holds is in memory alone; a start makes it again from the ledger.
    ///
    /// # Errors
    /// Returns [`StoreError`] if SQLite cannot be told to keep it in memory.
    pub fn keep_open(&self) -> Result<(), StoreError> {
        self.database.pragma_update(None, "cache_spill", false)?;
        self.is_kept_open.set(true);
        Ok(())
    }

    /// Commits what was kept open. Returns whether the disk had room for it; if not, SQLite has
    /// rolled it back.
    ///
    /// # Errors
    /// Returns [`StoreError`] for any other error.
    pub fn let_go(&self) -> Result<bool, StoreError> {
        if self.is_kept_open.replace(false) && !self.database.is_autocommit() {
            match self.commit() {
                Err(error) if error.is_full() => return Ok(false),
                other => other?,
            }
            self.database.pragma_update(None, "cache_spill", true)?;
        }
        Ok(true)
    }

    /// Whether the transaction stays open from one batch to the next.
    pub fn is_kept_open(&self) -> bool {
        self.is_kept_open.get()
    }

    /// Checkpoints the WAL if it has grown large; a brief holder calls this last.
    pub fn rest(&self) -> Result<(), StoreError> {
        // While a transaction is kept open nothing can be moved out of the WAL.
        let Some(beside) = self.beside.as_ref().filter(|_| !self.is_kept_open()) else {
            return Ok(());
        };
        if std::fs::metadata(beside).is_ok_and(|file| file.len() >= BESIDE_BYTES_MAX) {
            // If another process is reading, the next command does it.
            self.database.busy_timeout(std::time::Duration::ZERO)?;
            self.database
                .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
            self.database.busy_timeout(BUSY_TIMEOUT)?;
            // After a partial checkpoint, the rest of the WAL belongs to the index file as it is
            // now.
            let base = beside
                .parent()
                .and_then(|folder| state_of(&folder.join("state.db")));
            self.database
                .execute("UPDATE tip SET base = ?1", params![base])?;
        }
        Ok(())
    }

    /// Returns whether the holder is a command that decides one request and ends.
    pub fn is_held_briefly(&self) -> bool {
        self.beside.is_some()
    }

    /// Rolls back the transaction of a batch.
    pub fn roll_back(&self) -> Result<(), StoreError> {
        // After some failures SQLite has already rolled it back.
        if self.database.is_autocommit() {
            Ok(())
        } else {
            Ok(self.database.execute_batch("ROLLBACK")?)
        }
    }

    /// Returns the last snapshot.
    ///
    /// # Errors
    /// Returns [`StoreError`], also if the snapshot's bytes changed since they were stored: no line
    /// of the ledger would ever contradict a changed digit in it.
    pub fn snapshot(&self) -> Result<Option<Snapshot>, StoreError> {
        let row: Option<(String, String)> = self
            .database
            .query_row("SELECT body, sha256 FROM snapshot", [], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .optional()?;
        let Some((body, sha256)) = row else {
            return Ok(None);
        };
        if sha256_hex(body.as_bytes()) != sha256 {
            return Err(StoreError::Damaged(
                "the snapshot differs from what was stored".to_owned(),
            ));
        }
        Ok(Some(serde_json::from_str(&body)?))
    }

    /// Returns the place of the ledger up to which the index goes. The snapshot may be older.
    pub fn tip(&self) -> Result<Option<StoredPosition>, StoreError> {
        let position: Option<String> = self
            .database
            .query_row("SELECT position FROM tip", [], |row| row.get(0))
            .optional()?;
        Ok(position
            .map(|position| serde_json::from_str(&position))
            .transpose()?)
    }

    /// Records the place of the ledger up to which the index goes, in the transaction that extends
    /// it to there.
    pub fn save_tip(&self, position: &StoredPosition) -> Result<(), StoreError> {
        let position = serde_json::to_string(position)?;
        self.database
            .prepare_cached("INSERT OR REPLACE INTO tip (only, position, base) VALUES (1, ?1, ?2)")?
            .execute(params![position, self.base])?;
        Ok(())
    }

    /// Replaces the snapshot.
    pub fn save_snapshot(&self, snapshot: &Snapshot) -> Result<(), StoreError> {
        let body = serde_json::to_string(snapshot)?;
        self.database.execute(
            "INSERT OR REPLACE INTO snapshot (only, body, sha256) VALUES (1, ?1, ?2)",
            params![body, sha256_hex(body.as_bytes())],
        )?;
        Ok(())
    }

    /// Records how an order ended.
    pub fn insert_closed_order(&self, order: &ClosedOrder) -> Result<(), StoreError> {
        self.database
            .prepare_cached(
                "INSERT OR REPLACE INTO closed_orders (order_id, body) VALUES (?1, ?2)",
            )?
            .execute(params![
                order.order_id.to_string(),
                serde_json::to_string(order)?
            ])?;
        Ok(())
    }

    /// Returns how an order ended.
    pub fn closed_order(&self, order_id: OrderId) -> Result<Option<ClosedOrder>, StoreError> {
        let body: Option<String> = self
            .database
            .prepare_cached("SELECT body FROM closed_orders WHERE order_id = ?1")?
            .query_row(params![order_id.to_string()], |row| row.get(0))
            .optional()?;
        Ok(body.map(|body| serde_json::from_str(&body)).transpose()?)
    }

    /// Records a fill: the `ordinal`-th of line `seq`.
    pub fn insert_fill(&self, seq: u64, ordinal: u32, fill: &Fill) -> Result<(), StoreError> {
        self.database
            .prepare_cached(
                "INSERT OR REPLACE INTO fills (seq, ordinal, recorded_ms, body) VALUES (?1, ?2, \
                    ?3, ?4)",
            )?
            .execute(params![
                to_sql(seq)?,
                ordinal,
                fill.recorded_at.ms(),
                serde_json::to_string(fill)?
            ])?;
        Ok(())
    }

    /// Returns the fills recorded at or after `since`, oldest first.
    pub fn fills_since(&self, since: Time, limit: usize) -> Result<Vec<Fill>, StoreError> {
        Ok(self
            .numbered_fills_since(since, limit)?
            .into_iter()
            .map(|(_, fill)| fill)
            .collect())
    }

    /// As [`Store::fills_since`], with the line number of each fill and its index within the line.
    pub fn numbered_fills_since(
        &self,
        since: Time,
        limit: usize,
    ) -> Result<Vec<NumberedFill>, StoreError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut statement = self.database.prepare_cached(
            "SELECT seq, ordinal, body FROM fills WHERE recorded_ms >= ?1 ORDER BY recorded_ms, \
                seq, ordinal LIMIT ?2",
        )?;
        let rows = statement.query_map(params![since.ms(), limit], |row| {
            Ok((
                row.get::<_, i64>(0)?,
                row.get::<_, u32>(1)?,
                row.get::<_, String>(2)?,
            ))
        })?;
        rows.map(|row| {
            let (seq, ordinal, body) = row?;
            Ok(((from_sql(seq)?, ordinal), serde_json::from_str(&body)?))
        })
        .collect()
    }

    /// Returns all rows of all tables except the snapshot, in order, to compare two indexes.
    pub fn dump(&self) -> Result<Vec<String>, StoreError> {
        let mut rows = Vec::new();
        for sql in [
            "SELECT 'request ' || source || ' ' || id || ' ' || spool || ' ' || request_hash || ' \
                ' || seq FROM requests ORDER BY source, id, spool",
            "SELECT 'closed ' || order_id || ' ' || body FROM closed_orders ORDER BY order_id",
            "SELECT 'fill ' || seq || ' ' || ordinal || ' ' || recorded_ms || ' ' || body FROM \
                fills ORDER BY seq, ordinal",
        ]
        .iter()
        .chain(&cases::DUMP)
        .chain(&lineage::DUMP)
        .chain(&history::DUMP)
        .chain([
            &decisions::DUMP,
            &lines::DUMP,
            &proposals::DUMP,
            &reports::DUMP,
            &responses::DUMP,
            &sealed::DUMP,
        ]) {
            let mut statement = self.database.prepare(sql)?;
            let found = statement.query_map([], |row| row.get::<_, String>(0))?;
            rows.extend(found.collect::<Result<Vec<String>, _>>()?);
        }
        Ok(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIP: &str = "SELECT position FROM tip";

    fn tip(home: &Path) -> Option<String> {
        let store = Store::open(home, Hold::Brief).unwrap();
        let tip = store.database.query_row(TIP, [], |row| row.get(0));
        tip.optional().unwrap()
    }

    /// Rows beside the index belong to a copy of the index as well. If they did not, the index of
    /// the copy was deleted, and no pruned ledger can make it again.
    #[test]
    fn a_copied_index_keeps_the_rows_beside_it_and_another_one_does_not() {
        let root = std::env::temp_dir().join(format!("spoolgate-store-{}", std::process::id()));
        let (home, copy) = (root.join("home"), root.join("copy"));
        for home in [&home, &copy] {
            std::fs::create_dir_all(home.join("state")).unwrap();
        }
        // The first holder creates the index; the second one leaves a row beside it.
        drop(Store::open(&home, Hold::Long).unwrap());
        let store = Store::open(&home, Hold::Brief).unwrap();
        let insert = "INSERT INTO tip (only, position, base) VALUES (1, 'here', ?1)";
        store.database.execute(insert, params![store.base]).unwrap();
        drop(store);
        let index = home.join(STATE_FILE);
        let modified = std::fs::metadata(&index).unwrap().modified().unwrap();
        for ending in ["", "-wal"] {
            let name = format!("{STATE_FILE}{ending}");
            std::fs::copy(home.join(&name), copy.join(&name)).unwrap();
        }
        let copied = std::fs::File::options()
            .write(true)
            .open(copy.join(STATE_FILE))
            .unwrap();
        copied.set_modified(modified).unwrap();
        assert_eq!(tip(&home).as_deref(), Some("here"));
        assert_eq!(tip(&copy).as_deref(), Some("here"));
        let later = modified + std::time::Duration::from_nanos(1);
        copied.set_modified(later).unwrap();
        assert_eq!(tip(&copy), None);
        std::fs::remove_dir_all(&root).unwrap();
    }
}
