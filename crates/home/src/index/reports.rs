//! The index of venue reports: the line that booked each report of each bridge.

use rusqlite::{OptionalExtension, params};

use super::store::{Store, StoreError, from_sql, to_sql};
use spoolgate_wire::ids::{ExecId, Principal};

pub(super) const TABLES: &str = "
    CREATE TABLE reports (
        bridge TEXT NOT NULL, exec_id TEXT NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY (bridge, \
            exec_id)
    ) STRICT, WITHOUT ROWID;
";

pub(super) const DROP: &str = "DROP TABLE IF EXISTS reports;";

pub(super) const DUMP: &str = "SELECT 'report ' || bridge || ' ' || exec_id || ' ' || seq FROM \
    reports ORDER BY bridge, exec_id";

impl Store {
    /// Records that line `seq` booked a report.
    pub fn insert_report(
        &self,
        seq: u64,
        bridge: &Principal,
        exec_id: &ExecId,
    ) -> Result<(), StoreError> {
        self.database
            .prepare_cached(
                "INSERT OR IGNORE INTO reports (bridge, exec_id, seq) VALUES (?1, ?2, ?3)",
            )?
            .execute(params![bridge.as_str(), exec_id.as_str(), to_sql(seq)?])?;
        Ok(())
    }

    /// Returns the line that booked this report of this bridge.
    pub fn booked_in(
        &self,
        bridge: &Principal,
        exec_id: &ExecId,
    ) -> Result<Option<u64>, StoreError> {
        let seq: Option<i64> = self
            .database
            .prepare_cached("SELECT seq FROM reports WHERE bridge = ?1 AND exec_id = ?2")?
            .query_row(params![bridge.as_str(), exec_id.as_str()], |row| row.get(0))
            .optional()?;
        seq.map(from_sql).transpose()
    }
}
