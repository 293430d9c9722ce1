//! `state/state.db`: what decisions look up and would grow without bound in memory.
//!
//! A batch runs inside one transaction that is committed after its lines are durable: look-ups see the
//! batch's own requests, and a crash in between only leaves the index behind the ledger, from where it is
//! rolled forward at the next start. WAL without syncs: a power cut can lose commits, never order.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize};

use super::fold::Outstanding;
use super::{cases, decisions, history, lineage, lines, proposals, reports, responses, sealed};
use crate::gate::{Seen, State};
use crate::ledger::log::StoredPosition;
use crate::trading::order::Fill;
use crate::trading::requests::ClosedOrder;
use crate::wire::ids::OrderId;
use crate::wire::signing::sha256_hex;
use crate::wire::time::Time;

/// Path of the index below the home.
pub const STATE_FILE: &str = "state/state.db";

/// Changes with every change of tables, snapshot or fold: an older file is rebuilt from the ledger.
const STORE_VERSION: i64 = 12;

/// How long a statement waits for another connection.
const BUSY_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(5);

/// What went wrong with the index.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// SQLite.
    #[error("state.db: {0}; it is a cache: `spoolgate rebuild` makes it again from the ledger")]
    Database(#[from] rusqlite::Error),
    /// A value that cannot be read back.
    #[error("state.db: {0}; it is a cache: `spoolgate rebuild` makes it again from the ledger")]
    Damaged(String),
}

impl From<serde_json::Error> for StoreError {
    fn from(error: serde_json::Error) -> StoreError {
        StoreError::Damaged(error.to_string())
    }
}

/// The bounded state at a sealed place of the ledger.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    /// The place.
    pub position: StoredPosition,
    /// The state there.
    pub state: State,
    /// Decision lines before that place whose answers are not known to be durable.
    pub outstanding: Outstanding,
}

/// A fill with the number of its line and its place in it.
pub type NumberedFill = ((u64, u32), Fill);

/// How long an index is held open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// By a gate that goes on until it is stopped: closing puts everything into the one file.
    Long,
    /// By a command that adds a few rows and ends: what it adds stays in the file beside, or each command
    /// would pay for two syncs of its own.
    Brief,
}

/// Bytes of the file beside the index from which on a brief holder puts it into the index, about 16 commands:
/// whoever opens the index reads all of them.
const BESIDE_BYTES_MAX: u64 = 256 * 1024;

/// The open index.
#[derive(Debug)]
pub struct Store {
    pub(super) database: Connection,
    /// The file beside it, for a brief holder.
    beside: Option<PathBuf>,
    /// Which index file that belongs to, for a brief holder.
    base: Option<String>,
}

/// Which file this is and in which state: inode, size, time of its last change.
fn state_of(path: &Path) -> Option<String> {
    let file = std::fs::metadata(path).ok()?;
    Some(format!("{} {} {}.{:09}", file.ino(), file.len(), file.mtime(), file.mtime_nsec()))
}

const TABLES: &str = "
    CREATE TABLE requests (
        source TEXT NOT NULL, id TEXT NOT NULL, spool TEXT NOT NULL, request_hash TEXT NOT NULL, seq INTEGER NOT NULL,
        PRIMARY KEY (source, id, spool)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX requests_by_spool ON requests (spool, id);
    CREATE TABLE closed_orders (order_id TEXT PRIMARY KEY, body TEXT NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE fills (
        seq INTEGER NOT NULL, ordinal INTEGER NOT NULL, recorded_ms INTEGER NOT NULL, body TEXT NOT NULL,
        PRIMARY KEY (seq, ordinal)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX fills_by_time ON fills (recorded_ms, seq, ordinal);
    CREATE TABLE snapshot (
        only INTEGER PRIMARY KEY CHECK (only = 1), body TEXT NOT NULL, sha256 TEXT NOT NULL
    ) STRICT;
    CREATE TABLE tip (only INTEGER PRIMARY KEY CHECK (only = 1), position TEXT NOT NULL, base TEXT) STRICT;
";

pub(super) fn to_sql(n: u64) -> Result<i64, StoreError> {
    i64::try_from(n).map_err(|_| StoreError::Damaged(format!("{n} is beyond what SQLite counts")))
}

pub(super) fn from_sql(n: i64) -> Result<u64, StoreError> {
    u64::try_from(n).map_err(|_| StoreError::Damaged(format!("{n} where a count should stand")))
}

impl Store {
    /// Opens the index of a home, empty if it is not there, of another version or no database any more.
    /// Whoever calls this holds the lock of the home.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn open(home: &Path, hold: Hold) -> Result<Store, StoreError> {
        let (path, beside) = (home.join(STATE_FILE), home.join(format!("{STATE_FILE}-wal")));
        let rests_beside = std::fs::metadata(&beside).is_ok_and(|file| file.len() > 0);
        let base = state_of(&path).filter(|_| rests_beside);
        let mut store = Store::open_or_replace(home)?;
        if base.is_some() && !store.is_on(base.as_deref()) {
            // Somebody put another index, from a copy perhaps, under the rows beside it. SQLite reads them as one,
            // and requests that were decided would count as new.
            drop(store);
            Store::remove(home).map_err(|error| StoreError::Damaged(error.to_string()))?;
            store = Store::open_or_replace(home)?;
        }
        // A watcher's sandbox leaves it no folder for temporary files.
        store.database.pragma_update(None, "temp_store", "MEMORY")?;
        if hold == Hold::Brief {
            store.database.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
            store.beside = Some(beside);
            store.base = state_of(&path);
        }
        Ok(store)
    }

    /// Whether the rows beside the index were left there for the index in this state. A long holder, who does
    /// not say, leaves none unless it is killed.
    fn is_on(&self, base: Option<&str>) -> bool {
        let told: rusqlite::Result<Option<String>> =
            self.database.query_row("SELECT base FROM tip", [], |row| row.get(0));
        match told {
            Ok(told) => told.is_none() || told.as_deref() == base,
            Err(error) => error == rusqlite::Error::QueryReturnedNoRows,
        }
    }

    fn open_or_replace(home: &Path) -> Result<Store, StoreError> {
        let path = home.join(STATE_FILE);
        match Connection::open(&path).map_err(StoreError::from).and_then(Store::prepare) {
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
    /// What the system says, other than that they are not there.
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
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn open_read_only(home: &Path) -> Result<Store, StoreError> {
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY | rusqlite::OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let database = Connection::open_with_flags(home.join(STATE_FILE), flags)?;
        database.busy_timeout(BUSY_TIMEOUT)?;
        let version: i64 = database.pragma_query_value(None, "user_version", |row| row.get(0))?;
        if version != STORE_VERSION {
            return Err(StoreError::Damaged(format!("version {version} where {STORE_VERSION} is wanted")));
        }
        Ok(Store { database, beside: None, base: None })
    }

    /// Opens the index where nobody writes it, and makes no file beside it, as reading does otherwise. None: rows stand
    /// beside it, which cannot be read so.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn open_untouched(home: &Path) -> Result<Option<Store>, StoreError> {
        let beside = home.join(format!("{STATE_FILE}-wal"));
        if std::fs::metadata(beside).is_ok_and(|file| file.len() > 0) {
            return Ok(None);
        }
        let bytes = home.join(STATE_FILE).into_os_string().into_encoded_bytes();
        let path: String = bytes.iter().map(|byte| format!("%{byte:02x}")).collect();
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY
            | rusqlite::OpenFlags::SQLITE_OPEN_NO_MUTEX
            | rusqlite::OpenFlags::SQLITE_OPEN_URI;
        let database = Connection::open_with_flags(format!("file:{path}?immutable=1"), flags)?;
        let version: i64 = database.pragma_query_value(None, "user_version", |row| row.get(0))?;
        if version != STORE_VERSION {
            return Err(StoreError::Damaged(format!("version {version} where {STORE_VERSION} is wanted")));
        }
        Ok(Some(Store { database, beside: None, base: None }))
    }

    /// An index that lives as long as this value.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn in_memory() -> Result<Store, StoreError> {
        Store::prepare(Connection::open_in_memory()?)
    }

    /// The same for a history of any length: what does not fit into the cache lies in a temporary file that no name
    /// leads to.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn temporary() -> Result<Store, StoreError> {
        Store::prepare(Connection::open("")?)
    }

    fn prepare(database: Connection) -> Result<Store, StoreError> {
        database.busy_timeout(BUSY_TIMEOUT)?;
        database.pragma_update(None, "synchronous", "NORMAL")?;
        database.set_prepared_statement_cache_capacity(32);
        // Otherwise SQLite plans a statement anew for every value bound to it, in case statistics of the table,
        // of which there are none, spoke for another plan.
        database.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        let store = Store { database, beside: None, base: None };
        let version: i64 = store.database.pragma_query_value(None, "user_version", |row| row.get(0))?;
        if version != STORE_VERSION {
            // The file remembers this mode.
            store.database.pragma_update(None, "journal_mode", "WAL")?;
            store.clear()?;
        }
        Ok(store)
    }

    /// Forgets everything.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn clear(&self) -> Result<(), StoreError> {
        self.begin()?;
        self.clear_within()?;
        self.commit()
    }

    /// The same within a transaction: where it is given up, nothing was forgotten.
    ///
    /// # Errors
    /// [`StoreError`].
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
            lines::TABLES,
            proposals::TABLES,
            reports::TABLES,
            responses::TABLES,
            sealed::TABLES,
        ] {
            self.database.execute_batch(tables)?;
        }
        Ok(self.database.pragma_update(None, "user_version", STORE_VERSION)?)
    }

    /// Begins the transaction of a batch.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn begin(&self) -> Result<(), StoreError> {
        Ok(self.database.execute_batch("BEGIN IMMEDIATE")?)
    }

    /// Ends it.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn commit(&self) -> Result<(), StoreError> {
        Ok(self.database.execute_batch("COMMIT")?)
    }

    /// What a brief holder does last: now and then, puts the file beside the index into the index.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn rest(&self) -> Result<(), StoreError> {
        let Some(beside) = &self.beside else { return Ok(()) };
        if std::fs::metadata(beside).is_ok_and(|file| file.len() >= BESIDE_BYTES_MAX) {
            // Where somebody is reading just then, the next command does it.
            self.database.busy_timeout(std::time::Duration::ZERO)?;
            self.database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
            self.database.busy_timeout(BUSY_TIMEOUT)?;
            // Unless all of it went there, what is left belongs to the index as it is now.
            let base = beside.parent().and_then(|folder| state_of(&folder.join("state.db")));
            self.database.execute("UPDATE tip SET base = ?1", params![base])?;
        }
        Ok(())
    }

    /// Whether it is held by a command that decides one request and ends.
    pub fn is_held_briefly(&self) -> bool {
        self.beside.is_some()
    }

    /// Gives it up.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn roll_back(&self) -> Result<(), StoreError> {
        // Some failures have given it up already.
        if self.database.is_autocommit() { Ok(()) } else { Ok(self.database.execute_batch("ROLLBACK")?) }
    }

    /// The last snapshot.
    ///
    /// # Errors
    /// [`StoreError`]; one whose bytes changed since they were stored is damaged, as no line of the ledger
    /// would ever contradict a changed digit in it.
    pub fn snapshot(&self) -> Result<Option<Snapshot>, StoreError> {
        let row: Option<(String, String)> = self
            .database
            .query_row("SELECT body, sha256 FROM snapshot", [], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let Some((body, sha256)) = row else { return Ok(None) };
        if sha256_hex(body.as_bytes()) != sha256 {
            return Err(StoreError::Damaged("the snapshot is not what was stored".to_owned()));
        }
        Ok(Some(serde_json::from_str(&body)?))
    }

    /// The place of the ledger up to which the index goes; the snapshot may be older.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn tip(&self) -> Result<Option<StoredPosition>, StoreError> {
        let position: Option<String> =
            self.database.query_row("SELECT position FROM tip", [], |row| row.get(0)).optional()?;
        Ok(position.map(|position| serde_json::from_str(&position)).transpose()?)
    }

    /// Says up to which place of the ledger the index goes, in the transaction that takes it there.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn save_tip(&self, position: &StoredPosition) -> Result<(), StoreError> {
        let position = serde_json::to_string(position)?;
        self.database
            .prepare_cached("INSERT OR REPLACE INTO tip (only, position, base) VALUES (1, ?1, ?2)")?
            .execute(params![position, self.base])?;
        Ok(())
    }

    /// Replaces the snapshot.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn save_snapshot(&self, snapshot: &Snapshot) -> Result<(), StoreError> {
        let body = serde_json::to_string(snapshot)?;
        self.database.execute(
            "INSERT OR REPLACE INTO snapshot (only, body, sha256) VALUES (1, ?1, ?2)",
            params![body, sha256_hex(body.as_bytes())],
        )?;
        Ok(())
    }

    /// Remembers a request whose signature was good.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn insert_request(&self, id: &str, spool: &str, seen: &Seen) -> Result<(), StoreError> {
        self.database
            .prepare_cached("INSERT OR IGNORE INTO requests (source, id, spool, request_hash, seq) VALUES (?1, ?2, ?3, ?4, ?5)")?
            .execute(params![seen.source, id, spool, seen.request_hash, to_sql(seen.seq)?])?;
        Ok(())
    }

    /// Has a request that was held answered by another line from now on, in every spool that it came through.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn replace_request(&self, id: &str, spool: &str, seen: &Seen) -> Result<(), StoreError> {
        let changed = self
            .database
            .prepare_cached(
                "UPDATE requests SET seq = ?1 WHERE source = ?2 AND id = ?3 AND request_hash = ?4",
            )?
            .execute(params![to_sql(seen.seq)?, seen.source, id, seen.request_hash])?;
        // An index of the newest lines alone does not have the line that held it.
        if changed == 0 { self.insert_request(id, spool, seen) } else { Ok(()) }
    }

    /// The other columns are those of the row with the least number (lang_select.html, "bare columns"): no sorter is
    /// set up, as it would be for `ORDER BY`. Where there is no row there is one of nulls.
    fn seen_where(&self, sql: &str, first: &str, id: &str) -> Result<Option<Seen>, StoreError> {
        let row: Option<(String, String, i64)> =
            self.database.prepare_cached(sql)?.query_row(params![first, id], |row| {
                let Some(seq) = row.get(2)? else { return Ok(None) };
                Ok(Some((row.get(0)?, row.get(1)?, seq)))
            })?;
        row.map(|(source, request_hash, seq)| Ok(Seen { source, request_hash, seq: from_sql(seq)? }))
            .transpose()
    }

    /// The request of this source and id.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn seen(&self, source: &str, id: &str) -> Result<Option<Seen>, StoreError> {
        self.seen_where(
            "SELECT source, request_hash, min(seq) FROM requests WHERE source = ?1 AND id = ?2",
            source,
            id,
        )
    }

    /// The first request under this id in this spool.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn seen_in_spool(&self, spool: &str, id: &str) -> Result<Option<Seen>, StoreError> {
        let sql = "SELECT source, request_hash, min(seq) FROM requests WHERE spool = ?1 AND id = ?2";
        self.seen_where(sql, spool, id)
    }

    /// Remembers how an order ended.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn insert_closed_order(&self, order: &ClosedOrder) -> Result<(), StoreError> {
        self.database
            .prepare_cached("INSERT OR REPLACE INTO closed_orders (order_id, body) VALUES (?1, ?2)")?
            .execute(params![order.order_id.to_string(), serde_json::to_string(order)?])?;
        Ok(())
    }

    /// How an order ended.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn closed_order(&self, order_id: OrderId) -> Result<Option<ClosedOrder>, StoreError> {
        let body: Option<String> = self
            .database
            .prepare_cached("SELECT body FROM closed_orders WHERE order_id = ?1")?
            .query_row(params![order_id.to_string()], |row| row.get(0))
            .optional()?;
        Ok(body.map(|body| serde_json::from_str(&body)).transpose()?)
    }

    /// Remembers a fill: the `ordinal`-th of line `seq`.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn insert_fill(&self, seq: u64, ordinal: u32, fill: &Fill) -> Result<(), StoreError> {
        self.database
            .prepare_cached(
                "INSERT OR REPLACE INTO fills (seq, ordinal, recorded_ms, body) VALUES (?1, ?2, ?3, ?4)",
            )?
            .execute(params![to_sql(seq)?, ordinal, fill.recorded_at.ms(), serde_json::to_string(fill)?])?;
        Ok(())
    }

    /// Fills recorded at or after `since`, oldest first.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn fills_since(&self, since: Time, limit: usize) -> Result<Vec<Fill>, StoreError> {
        Ok(self.numbered_fills_since(since, limit)?.into_iter().map(|(_, fill)| fill).collect())
    }

    /// The same with the number of their line and their place in it.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn numbered_fills_since(&self, since: Time, limit: usize) -> Result<Vec<NumberedFill>, StoreError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut statement = self.database.prepare_cached(
            "SELECT seq, ordinal, body FROM fills WHERE recorded_ms >= ?1 ORDER BY recorded_ms, seq, ordinal LIMIT ?2",
        )?;
        let rows = statement.query_map(params![since.ms(), limit], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, u32>(1)?, row.get::<_, String>(2)?))
        })?;
        rows.map(|row| {
            let (seq, ordinal, body) = row?;
            Ok(((from_sql(seq)?, ordinal), serde_json::from_str(&body)?))
        })
        .collect()
    }

    /// All rows of all tables but the snapshot, in order: for comparing two indexes.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn dump(&self) -> Result<Vec<String>, StoreError> {
        let mut rows = Vec::new();
        for sql in [
            "SELECT 'request ' || source || ' ' || id || ' ' || spool || ' ' || request_hash || ' ' || seq FROM requests ORDER BY source, id, spool",
            "SELECT 'closed ' || order_id || ' ' || body FROM closed_orders ORDER BY order_id",
            "SELECT 'fill ' || seq || ' ' || ordinal || ' ' || recorded_ms || ' ' || body FROM fills ORDER BY seq, ordinal",
        ]
        .iter()
        .chain(&cases::DUMP)
        .chain(&lineage::DUMP)
        .chain(&history::DUMP)
        .chain([&decisions::DUMP, &lines::DUMP, &proposals::DUMP, &reports::DUMP, &responses::DUMP, &sealed::DUMP])
        {
            let mut statement = self.database.prepare(sql)?;
            let found = statement.query_map([], |row| row.get::<_, String>(0))?;
            rows.extend(found.collect::<Result<Vec<String>, _>>()?);
        }
        Ok(rows)
    }
}
