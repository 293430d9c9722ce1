//! The index of sealed fields: the disclosures that lines have committed to, and those that were
//! redacted.

use rusqlite::{OptionalExtension, params};

use super::store::{Store, StoreError, from_sql, sought, to_sql};
use spoolgate_gate::record::Redaction;
use spoolgate_wire::sealed::Field;

pub(super) const TABLES: &str = "
    CREATE TABLE sealed (
        seq INTEGER NOT NULL, digest TEXT NOT NULL, redacted_in INTEGER, PRIMARY KEY (seq, digest)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX sealed_by_digest ON sealed (digest);
";

pub(super) const DROP: &str = "DROP TABLE IF EXISTS sealed;";

pub(super) const DUMP: &str = "SELECT 'sealed ' || seq || ' ' || digest || ' ' || \
    ifnull(redacted_in, '-') FROM sealed ORDER BY seq, digest";

impl Store {
    /// Records what line `seq` has committed to.
    pub fn insert_sealed(&self, seq: u64, fields: &[Field]) -> Result<(), StoreError> {
        for field in fields {
            self.database
                .prepare_cached("INSERT OR REPLACE INTO sealed (seq, digest) VALUES (?1, ?2)")?
                .execute(params![to_sql(seq)?, field.sd])?;
        }
        Ok(())
    }

    /// Records what line `seq` redacts.
    pub fn redact(&self, seq: u64, line: &Redaction) -> Result<(), StoreError> {
        for field in &line.fields {
            self.database
                .prepare_cached(
                    "UPDATE sealed SET redacted_in = ?1 WHERE digest = ?2 AND redacted_in IS NULL",
                )?
                .execute(params![to_sql(seq)?, field.sd])?;
        }
        Ok(())
    }

    /// Returns the line that redacted this disclosure; `None` if no line did.
    pub fn redacted_in(&self, digest: &str) -> Result<Option<u64>, StoreError> {
        let sql = "SELECT redacted_in FROM sealed WHERE digest = ?1 AND redacted_in IS NOT NULL";
        let seq: Option<i64> = self
            .database
            .prepare_cached(sql)?
            .query_row(params![digest], |row| row.get(0))
            .optional()?;
        seq.map(from_sql).transpose()
    }

    /// Returns whether anything of line `seq` was redacted.
    pub fn has_redacted(&self, seq: u64) -> Result<bool, StoreError> {
        let sql = "SELECT count(*) FROM sealed WHERE seq = ?1 AND redacted_in IS NOT NULL";
        let count: i64 = self
            .database
            .prepare_cached(sql)?
            .query_row(params![sought(seq)], |row| row.get(0))?;
        Ok(count > 0)
    }

    /// Returns whether any line has committed to this digest.
    pub fn is_committed_to(&self, digest: &str) -> Result<bool, StoreError> {
        let sql = "SELECT count(*) FROM sealed WHERE digest = ?1";
        let count: i64 = self
            .database
            .prepare_cached(sql)?
            .query_row(params![digest], |row| row.get(0))?;
        Ok(count > 0)
    }

    /// Returns the lines that answered requests of this id, of all senders, oldest first.
    pub fn lines_of_id(&self, id: &str) -> Result<Vec<u64>, StoreError> {
        let mut statement = self
            .database
            .prepare_cached("SELECT DISTINCT seq FROM requests WHERE id = ?1 ORDER BY seq")?;
        let mut rows = statement.query(params![id])?;
        let mut lines = Vec::new();
        while let Some(row) = rows.next()? {
            lines.push(from_sql(row.get(0)?)?);
        }
        Ok(lines)
    }
}
