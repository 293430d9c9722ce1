//! The index of accepted requests by sender and action: the values of the last 31 days for windows,
//! and every value that was ever accepted.

use std::collections::BTreeSet;

use rusqlite::params;

use super::store::{Store, StoreError, from_sql, to_sql};
use spoolgate_gate::history::{Accepted, History, KEPT_MS, Query, ROWS_MAX, Row};
use spoolgate_wire::time::Time;

pub(super) const TABLES: &str = "
    CREATE TABLE history (
        source TEXT NOT NULL, action TEXT NOT NULL, ms INTEGER NOT NULL, seq INTEGER NOT NULL, \
            body TEXT,
        PRIMARY KEY (source, action, ms, seq)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE known_values (
        source TEXT NOT NULL, action TEXT NOT NULL, field TEXT NOT NULL, value TEXT NOT NULL,
        PRIMARY KEY (source, action, field, value)
    ) STRICT, WITHOUT ROWID;
";

pub(super) const DROP: &str = "DROP TABLE IF EXISTS history; DROP TABLE IF EXISTS known_values;";

pub(super) const DUMP: [&str; 2] = [
    "SELECT 'history ' || source || ' ' || action || ' ' || ms || ' ' || seq || ' ' || \
        coalesce(body, '-')
     FROM history ORDER BY source, action, ms, seq",
    "SELECT 'known ' || source || ' ' || action || ' ' || field || ' ' || value
     FROM known_values ORDER BY source, action, field, value",
];

impl Store {
    /// Records a request that line `seq` accepted, and deletes rows that no window reaches any
    /// more.
    pub fn insert_history(
        &self,
        seq: u64,
        at: Time,
        accepted: Accepted<'_>,
    ) -> Result<(), StoreError> {
        let Accepted {
            source,
            action,
            values,
            makes_known,
        } = accepted;
        self.database
            .prepare_cached("DELETE FROM history WHERE source = ?1 AND action = ?2 AND ms <= ?3")?
            .execute(params![source, action, at.ms().saturating_sub(KEPT_MS)])?;
        let body = values.as_ref().map(serde_json::to_string).transpose()?;
        self.database
            .prepare_cached(
                "INSERT OR REPLACE INTO history (source, action, ms, seq, body) VALUES (?1, ?2, \
                    ?3, ?4, ?5)",
            )?
            .execute(params![source, action, at.ms(), to_sql(seq)?, body])?;
        let known = values.iter().filter(|_| makes_known);
        let texts = known.flatten().filter(|(field, _)| is_text(field));
        for (field, values) in texts {
            for value in values {
                self.database
                    .prepare_cached(
                        "INSERT OR IGNORE INTO known_values (source, action, field, value) VALUES \
                            (?1, ?2, ?3, ?4)",
                    )?
                    .execute(params![source, action, field, value])?;
            }
        }
        Ok(())
    }

    /// Returns what the index knows of a sender's accepted requests.
    pub fn history(&self, query: &Query, now: Time) -> Result<History, StoreError> {
        let Query {
            source,
            action,
            firsts,
            ..
        } = query;
        let mut known = BTreeSet::new();
        for (field, value) in firsts {
            let sql = "SELECT 1 FROM known_values WHERE source = ?1 AND action = ?2 AND field = ?3 \
                AND value = ?4";
            if self
                .database
                .prepare_cached(sql)?
                .exists(params![source, action, field, value])?
            {
                known.insert((*field, value.clone()));
            }
        }
        let Some(since) = query.since(now).filter(|_| query.window_ms != Some(0)) else {
            return Ok(History {
                rows: Vec::new(),
                known,
            });
        };
        let limit = i64::try_from(ROWS_MAX)
            .unwrap_or(i64::MAX)
            .saturating_add(1);
        let mut statement = self.database.prepare_cached(
            "SELECT ms, seq, body FROM history WHERE source = ?1 AND action = ?2 AND ms > ?3
             ORDER BY ms DESC, seq DESC LIMIT ?4",
        )?;
        let found = statement.query_map(params![source, action, since.ms(), limit], |row| {
            Ok((
                row.get::<_, i64>(0)?,
                row.get::<_, i64>(1)?,
                row.get::<_, Option<String>>(2)?,
            ))
        })?;
        let mut rows = Vec::new();
        for row in found {
            let (ms, seq, body) = row?;
            let at = Time::from_ms(ms).map_err(|error| StoreError::Damaged(error.to_string()))?;
            rows.push(Row {
                seq: from_sql(seq)?,
                at,
                values: body.map(|body| serde_json::from_str(&body)).transpose()?,
            });
        }
        Ok(History { rows, known })
    }
}

fn is_text(field: &str) -> bool {
    spoolgate_rules::rule::field::find(field).is_some_and(|field| !field.kind.is_number())
}
