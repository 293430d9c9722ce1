//! The index of requests: who used which id in which spool, and the line that answered.

use rusqlite::params;

use super::store::{Store, StoreError, from_sql, to_sql};
use spoolgate_gate::Seen;

/// Separates the hash of a request whose id is open from the number of its attempt.
const OPEN: char = '/';

/// The hash of a request as its row has it. A column of its own would need a rebuild, and a home
/// whose segments were pruned has no lines to rebuild from.
fn marked(seen: &Seen) -> String {
    match seen.is_open {
        true => format!("{}{OPEN}{}", seen.request_hash, seen.attempt),
        false => seen.request_hash.clone(),
    }
}

impl Store {
    /// Records a request with a valid signature.
    pub fn insert_request(&self, id: &str, spool: &str, seen: &Seen) -> Result<(), StoreError> {
        self.database
            .prepare_cached(
                "INSERT OR IGNORE INTO requests (source, id, spool, request_hash, seq) VALUES \
                (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute(params![
                seen.source,
                id,
                spool,
                marked(seen),
                to_sql(seen.seq)?
            ])?;
        Ok(())
    }

    /// Records a request that replaces one whose shape was refused, in every spool.
    pub fn repair_request(&self, id: &str, spool: &str, seen: &Seen) -> Result<(), StoreError> {
        self.database
            .prepare_cached(
                "UPDATE requests SET request_hash = ?1, seq = ?2 WHERE source = ?3 AND id = ?4",
            )?
            .execute(params![marked(seen), to_sql(seen.seq)?, seen.source, id])?;
        self.insert_request(id, spool, seen)
    }

    /// Records that a request was answered again, as it may be in another spool.
    pub fn copy_request(&self, id: &str, spool: &str, seen: &Seen) -> Result<(), StoreError> {
        let copied = self
            .database
            .prepare_cached(
                "INSERT OR IGNORE INTO requests (source, id, spool, request_hash, seq) SELECT \
                    source, id, ?1, request_hash, seq FROM requests WHERE source = ?2 AND id = ?3 \
                    LIMIT 1",
            )?
            .execute(params![spool, seen.source, id])?;
        // An index of only the newest lines lacks the line that was copied.
        if copied == 0 {
            self.insert_request(id, spool, seen)
        } else {
            Ok(())
        }
    }

    /// Makes another line answer a request that was held, in every spool that it came through.
    pub fn replace_request(&self, id: &str, spool: &str, seen: &Seen) -> Result<(), StoreError> {
        let changed = self
            .database
            .prepare_cached(
                "UPDATE requests SET seq = ?1 WHERE source = ?2 AND id = ?3 AND request_hash = ?4",
            )?
            .execute(params![
                to_sql(seen.seq)?,
                seen.source,
                id,
                seen.request_hash
            ])?;
        // An index of only the newest lines lacks the line that held the request.
        if changed == 0 {
            self.insert_request(id, spool, seen)
        } else {
            Ok(())
        }
    }

    /// Reads the row with the smallest line. The other columns come from that row
    /// (lang_select.html, "bare columns"), which avoids the sorter that `ORDER BY` would need.
    /// Without a match, SQLite returns one row of nulls.
    fn seen_where(&self, sql: &str, first: &str, id: &str) -> Result<Option<Seen>, StoreError> {
        let row: Option<(String, String, i64)> =
            self.database
                .prepare_cached(sql)?
                .query_row(params![first, id], |row| {
                    let Some(seq) = row.get(2)? else {
                        return Ok(None);
                    };
                    Ok(Some((row.get(0)?, row.get(1)?, seq)))
                })?;
        row.map(|(source, marked, seq)| {
            let open = marked.split_once(OPEN);
            Ok(Seen {
                source,
                request_hash: open.map_or(marked.as_str(), |(hash, _)| hash).to_owned(),
                seq: from_sql(seq)?,
                attempt: open.map_or(Ok(0), |(_, attempt)| {
                    let damaged = |_| StoreError::Damaged(format!("`{marked}` is not a hash"));
                    attempt.parse().map_err(damaged)
                })?,
                is_open: open.is_some(),
            })
        })
        .transpose()
    }

    /// Returns the request of this source and id.
    pub fn seen(&self, source: &str, id: &str) -> Result<Option<Seen>, StoreError> {
        self.seen_where(
            "SELECT source, request_hash, min(seq) FROM requests WHERE source = ?1 AND id = ?2",
            source,
            id,
        )
    }

    /// Returns the first request under this id in this spool.
    pub fn seen_in_spool(&self, spool: &str, id: &str) -> Result<Option<Seen>, StoreError> {
        let sql =
            "SELECT source, request_hash, min(seq) FROM requests WHERE spool = ?1 AND id = ?2";
        self.seen_where(sql, spool, id)
    }
}
