//! The index of proposals: their standing, and the line that contains each.

use rusqlite::{OptionalExtension, params};

use super::store::{Store, StoreError, from_sql, sought, to_sql};
pub use spoolgate_gate::proposals::Standing;
use spoolgate_gate::proposals::{Change, Kind};
use spoolgate_wire::ids::ProposalId;

pub(super) const TABLES: &str = "
    CREATE TABLE proposals (
        id INTEGER PRIMARY KEY, seq INTEGER NOT NULL, status TEXT NOT NULL, record INTEGER
    ) STRICT;
";

pub(super) const DROP: &str = "DROP TABLE IF EXISTS proposals;";

pub(super) const DUMP: &str = "SELECT 'proposal ' || id || ' ' || seq || ' ' || status || ' ' || \
    coalesce(record, '') FROM proposals ORDER BY id";

/// A row of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProposalRow {
    /// The proposal.
    pub id: ProposalId,
    /// Its standing.
    pub standing: Standing,
    /// The line that made it so.
    pub seq: u64,
    /// The line that contains the proposal; `None` if this index does not know it.
    pub record: Option<u64>,
}

impl Store {
    /// Applies what line `seq` does to a proposal.
    pub fn apply_to_proposals(&self, seq: u64, change: &Change) -> Result<(), StoreError> {
        let line = to_sql(seq)?;
        let (standing, record) = match change {
            Change::Pended { .. } => (Standing::Pending, Some(line)),
            Change::Applied { proposed, .. } => {
                if let Kind::Revert { of, .. } = &proposed.kind {
                    self.put_proposal(*of, line, Standing::Reverted, None)?;
                }
                (Standing::Applied, Some(line))
            }
            Change::Declined { .. } => (Standing::Declined, None),
        };
        self.put_proposal(change.proposal_id(), line, standing, record)
    }

    fn put_proposal(
        &self,
        id: ProposalId,
        line: i64,
        standing: Standing,
        record: Option<i64>,
    ) -> Result<(), StoreError> {
        self.database
            .prepare_cached(
                "INSERT INTO proposals (id, seq, status, record) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (id) DO UPDATE SET seq = ?2, status = ?3, record = coalesce(?4, \
                     record)",
            )?
            .execute(params![to_sql(id.0)?, line, standing.as_str(), record])?;
        Ok(())
    }

    /// Returns what the index knows of a proposal.
    pub fn proposal(&self, id: ProposalId) -> Result<Option<ProposalRow>, StoreError> {
        let row: Option<(i64, String, Option<i64>)> = self
            .database
            .prepare_cached("SELECT seq, status, record FROM proposals WHERE id = ?1")?
            .query_row(params![sought(id.0)], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })
            .optional()?;
        row.map(|(seq, status, record)| {
            let standing = Standing::parse(&status)
                .ok_or_else(|| StoreError::Damaged(format!("`{status}` is not a standing")))?;
            Ok(ProposalRow {
                id,
                standing,
                seq: from_sql(seq)?,
                record: record.map(from_sql).transpose()?,
            })
        })
        .transpose()
    }

    /// Returns the newest proposals.
    pub fn newest_proposals(&self, limit: usize) -> Result<Vec<ProposalId>, StoreError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut statement = self
            .database
            .prepare_cached("SELECT id FROM proposals ORDER BY id DESC LIMIT ?1")?;
        let found = statement.query_map(params![limit], |row| row.get::<_, i64>(0))?;
        found.map(|id| Ok(ProposalId(from_sql(id?)?))).collect()
    }

    /// Returns the proposals that wait for an approver.
    pub fn pending_proposals(&self) -> Result<Vec<ProposalId>, StoreError> {
        let mut statement = self
            .database
            .prepare_cached("SELECT id FROM proposals WHERE status = ?1")?;
        let found =
            statement.query_map([Standing::Pending.as_str()], |row| row.get::<_, i64>(0))?;
        found.map(|id| Ok(ProposalId(from_sql(id?)?))).collect()
    }
}

/// Combines what several indexes know of a proposal: the one on disk and the one of the lines after
/// it.
pub fn proposal(stores: &[&Store], id: ProposalId) -> Result<Option<ProposalRow>, StoreError> {
    let mut known: Option<ProposalRow> = None;
    for store in stores {
        if let Some(row) = store.proposal(id)? {
            let record = row.record.or(known.and_then(|earlier| earlier.record));
            known = Some(ProposalRow { record, ..row });
        }
    }
    Ok(known)
}
