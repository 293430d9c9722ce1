//! The index of control decisions: which decision_ids a sender has used, for which bytes, with what
//! outcome. The decisions themselves are in the ledger lines that the index names.

use rusqlite::{OptionalExtension, params};

use super::store::{Store, StoreError, from_sql, to_sql};
use spoolgate_control::Change;
use spoolgate_wire::control::ControlStatus;
use spoolgate_wire::ids::{ControlId, Principal};

pub(super) const TABLES: &str = "
    CREATE TABLE control_decisions (
        source TEXT NOT NULL, decision_id TEXT NOT NULL, seq INTEGER NOT NULL, payload_hash TEXT \
            NOT NULL,
        status TEXT NOT NULL, PRIMARY KEY (source, decision_id)
    ) STRICT, WITHOUT ROWID;
";

pub(super) const DROP: &str = "DROP TABLE IF EXISTS control_decisions;";

pub(super) const DUMP: &str =
    "SELECT 'control ' || source || ' ' || decision_id || ' ' || seq || ' ' || payload_hash || ' ' \
        || status
    FROM control_decisions ORDER BY source, decision_id";

/// A use of a decision_id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsedId {
    /// The line.
    pub seq: u64,
    /// SHA-256 of the payload, hex.
    pub payload_hash: String,
    /// The outcome.
    pub status: ControlStatus,
}

impl Store {
    /// Applies what line `seq` says about a decision. A failed decision may be retried, so the
    /// newest line counts.
    pub fn apply_to_decisions(&self, seq: u64, change: &Change) -> Result<(), StoreError> {
        if let Change::Decided {
            source,
            decision_id,
            payload_hash,
            status,
        } = change
        {
            self.database
                .prepare_cached(
                    "INSERT OR REPLACE INTO control_decisions (source, decision_id, seq, \
                        payload_hash, status)
                     VALUES (?1, ?2, ?3, ?4, ?5)",
                )?
                .execute(params![
                    source.as_str(),
                    decision_id.as_str(),
                    to_sql(seq)?,
                    payload_hash,
                    status.as_str()
                ])?;
        }
        Ok(())
    }

    /// Returns where this sender used this decision_id.
    pub fn used_id(
        &self,
        source: &Principal,
        decision_id: &ControlId,
    ) -> Result<Option<UsedId>, StoreError> {
        let row: Option<(i64, String, String)> = self
            .database
            .prepare_cached(
                "SELECT seq, payload_hash, status FROM control_decisions WHERE source = ?1 AND \
                    decision_id = ?2",
            )?
            .query_row(params![source.as_str(), decision_id.as_str()], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })
            .optional()?;
        row.map(|(seq, payload_hash, status)| {
            let status = ControlStatus::parse(&status)
                .ok_or_else(|| StoreError::Damaged(format!("`{status}` is not a status")))?;
            Ok(UsedId {
                seq: from_sql(seq)?,
                payload_hash,
                status,
            })
        })
        .transpose()
    }
}
