//! The index of outgoing actions: the line with the result of each request line.

use rusqlite::{OptionalExtension, params};

use super::store::{Store, StoreError, from_sql, sought, to_sql};

pub(super) const TABLES: &str = "
    CREATE TABLE responses (request_line INTEGER PRIMARY KEY, seq INTEGER NOT NULL) STRICT;
";

pub(super) const DROP: &str = "DROP TABLE IF EXISTS responses;";

pub(super) const DUMP: &str =
    "SELECT 'response ' || request_line || ' ' || seq FROM responses ORDER BY request_line";

impl Store {
    /// Records that line `seq` has the result of a request line.
    pub fn insert_response(&self, request_line: u64, seq: u64) -> Result<(), StoreError> {
        self.database
            .prepare_cached("INSERT OR REPLACE INTO responses (request_line, seq) VALUES (?1, ?2)")?
            .execute(params![to_sql(request_line)?, to_sql(seq)?])?;
        Ok(())
    }

    /// Returns the line with the result of a request line; `None` if there is no result yet.
    pub fn response_to(&self, request_line: u64) -> Result<Option<u64>, StoreError> {
        let seq: Option<i64> = self
            .database
            .prepare_cached("SELECT seq FROM responses WHERE request_line = ?1")?
            .query_row(params![sought(request_line)], |row| row.get(0))
            .optional()?;
        seq.map(from_sql).transpose()
    }
}
