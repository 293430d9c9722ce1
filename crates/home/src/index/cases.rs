//! The index of council cases: who opened each case, who has filed a verdict, and when it must be
//! decided. The verdicts themselves are in the ledger lines that the index names, so thousands of
//! open cases cost no memory.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{OptionalExtension, params};

use super::store::{Store, StoreError, from_sql, to_sql};
use spoolgate_council::case::{Case, Change, Closed, Docket, Vote};
use spoolgate_wire::council::Stance;
use spoolgate_wire::ids::RequestId;
use spoolgate_wire::time::Time;

pub(super) const TABLES: &str = "
    CREATE TABLE cases (
        id TEXT PRIMARY KEY, seq INTEGER NOT NULL, body TEXT NOT NULL, deadline_ms INTEGER NOT NULL,
        is_open INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX cases_open ON cases (deadline_ms, id) WHERE is_open = 1;
    CREATE INDEX cases_by_seq ON cases (seq);
    CREATE TABLE votes (
        case_id TEXT NOT NULL, seq INTEGER NOT NULL, body TEXT NOT NULL, PRIMARY KEY (case_id, seq)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE silent_roles (
        case_id TEXT NOT NULL, role TEXT NOT NULL, PRIMARY KEY (case_id, role)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE case_ends (id TEXT PRIMARY KEY, seq INTEGER NOT NULL, outcome TEXT NOT NULL) \
        STRICT, WITHOUT ROWID;
";

/// Tables that version 12 of the index lacks.
pub(super) const SINCE_12: &str = "
    CREATE TABLE settling_cases (id TEXT PRIMARY KEY, closes_at_ms INTEGER NOT NULL) \
        STRICT, WITHOUT ROWID;
    CREATE TABLE contestable_cases (id TEXT PRIMARY KEY, until_ms INTEGER NOT NULL) \
        STRICT, WITHOUT ROWID;
    CREATE TABLE reopened_cases (id TEXT PRIMARY KEY, seq INTEGER NOT NULL) STRICT, WITHOUT ROWID;
";

/// An SQL index that finds a case by its alias. The version does not count it, because without it a
/// query gives the same result by reading all rows.
pub(super) const BY_ALIAS: &str = "
    CREATE INDEX IF NOT EXISTS cases_by_alias ON cases (json_extract(body, '$.alias'));
";

pub(super) const DROP: &str = "DROP TABLE IF EXISTS cases; DROP TABLE IF EXISTS votes;
    DROP TABLE IF EXISTS silent_roles; DROP TABLE IF EXISTS settling_cases;
    DROP TABLE IF EXISTS case_ends; DROP TABLE IF EXISTS contestable_cases;
    DROP TABLE IF EXISTS reopened_cases;";

pub(super) const DUMP: [&str; 7] = [
    "SELECT 'case ' || id || ' ' || seq || ' ' || body || ' ' || deadline_ms || ' ' || is_open \
        FROM cases ORDER BY id",
    "SELECT 'vote ' || case_id || ' ' || seq || ' ' || body FROM votes ORDER BY case_id, seq",
    "SELECT 'silent ' || case_id || ' ' || role FROM silent_roles ORDER BY case_id, role",
    "SELECT 'settling case ' || id || ' ' || closes_at_ms FROM settling_cases ORDER BY id",
    "SELECT 'case end ' || id || ' ' || seq || ' ' || outcome FROM case_ends ORDER BY id",
    "SELECT 'contestable case ' || id || ' ' || until_ms FROM contestable_cases ORDER BY id",
    "SELECT 'reopened case ' || id || ' ' || seq FROM reopened_cases ORDER BY id",
];

/// Combines what several indexes know of a case: the one on disk and the one of the lines after it.
/// The case may be named by its alias.
pub fn docket(stores: &[&Store], name: &RequestId) -> Result<Option<Docket>, StoreError> {
    let mut of_alias = None;
    for store in stores.iter().filter(|_| name.is_alias()) {
        of_alias = store.case_of_alias(name)?.or(of_alias);
    }
    // A case of an earlier version may have an id of this form.
    let id = of_alias.as_ref().unwrap_or(name);
    let mut opened = None;
    let mut votes: BTreeMap<u64, Vote> = BTreeMap::new();
    let mut silent: BTreeSet<String> = BTreeSet::new();
    let (mut closes_at, mut closed, mut reopened) = (None, None, None);
    for store in stores {
        if let Some(row) = store.case_row(id)? {
            opened = Some(row);
        }
        store.votes_of(id, &mut votes)?;
        store.silent_of(id, &mut silent)?;
        closes_at = store.settling_until(id)?.or(closes_at);
        closed = store.end_of(id)?.or(closed);
        reopened = store.reopened_in(id)?.or(reopened);
    }
    if let Some(closed) = &mut closed {
        closed.is_reopened = reopened.is_some_and(|line| line > closed.line);
    }
    Ok(opened.map(|(request, case)| Docket {
        case,
        request,
        votes: votes.into_iter().collect(),
        silent: silent.into_iter().collect(),
        closes_at,
        closed,
    }))
}

fn case_id(text: &str) -> Result<RequestId, StoreError> {
    RequestId::parse(text).map_err(|error| StoreError::Damaged(error.to_string()))
}

fn time_of(ms: i64) -> Result<Time, StoreError> {
    Time::from_ms(ms).map_err(|error| StoreError::Damaged(error.to_string()))
}

impl Store {
    /// Applies what line `seq` does to a case.
    pub fn apply_to_cases(&self, seq: u64, change: &Change) -> Result<(), StoreError> {
        let seq = to_sql(seq)?;
        match change {
            Change::CaseOpened(case) => self
                .database
                .prepare_cached(
                    "INSERT OR REPLACE INTO cases (id, seq, body, deadline_ms, is_open) VALUES \
                        (?1, ?2, ?3, ?4, 1)",
                )?
                .execute(params![
                    case.id.as_str(),
                    seq,
                    serde_json::to_string(case)?,
                    case.deadline.ms()
                ])?,
            Change::VoteFiled(vote) => self
                .database
                .prepare_cached(
                    "INSERT OR REPLACE INTO votes (case_id, seq, body) VALUES (?1, ?2, ?3)",
                )?
                .execute(params![
                    vote.case.as_str(),
                    seq,
                    serde_json::to_string(vote)?
                ])?,
            Change::RoleSilent { case, role } => self
                .database
                .prepare_cached(
                    "INSERT OR REPLACE INTO silent_roles (case_id, role) VALUES (?1, ?2)",
                )?
                .execute(params![case.as_str(), role])?,
            // A deadline before every possible one, so that the case is due at once.
            Change::CaseFull {
                case,
                closes_at: None,
            } => self.make_due(case, -1)?,
            Change::CaseFull {
                case,
                closes_at: Some(closes_at),
            } => {
                self.database
                    .prepare_cached(
                        "INSERT OR REPLACE INTO settling_cases (id, closes_at_ms) VALUES (?1, ?2)",
                    )?
                    .execute(params![case.as_str(), closes_at.ms()])?;
                self.make_due(case, closes_at.ms().saturating_add(1))?
            }
            Change::CaseReopened { case } => {
                self.database
                    .prepare_cached(
                        "INSERT OR REPLACE INTO reopened_cases (id, seq) VALUES (?1, ?2)",
                    )?
                    .execute(params![case.as_str(), seq])?;
                self.make_due(case, -1)?
            }
            Change::CaseClosed {
                case,
                outcome,
                objections_until,
            } => {
                self.database
                    .prepare_cached("UPDATE cases SET is_open = 0 WHERE id = ?1")?
                    .execute(params![case.as_str()])?;
                self.database
                    .prepare_cached(
                        "INSERT OR REPLACE INTO case_ends (id, seq, outcome) VALUES (?1, ?2, ?3)",
                    )?
                    .execute(params![case.as_str(), seq, outcome.as_str()])?;
                match objections_until {
                    Some(until) => self
                        .database
                        .prepare_cached(
                            "INSERT OR REPLACE INTO contestable_cases (id, until_ms) VALUES \
                                (?1, ?2)",
                        )?
                        .execute(params![case.as_str(), until.ms()])?,
                    None => self
                        .database
                        .prepare_cached("DELETE FROM contestable_cases WHERE id = ?1")?
                        .execute(params![case.as_str()])?,
                }
            }
        };
        Ok(())
    }

    /// Makes a case due at a time, milliseconds; returns how many rows changed.
    fn make_due(&self, case: &RequestId, at_ms: i64) -> Result<usize, StoreError> {
        Ok(self
            .database
            .prepare_cached("UPDATE cases SET deadline_ms = ?2, is_open = 1 WHERE id = ?1")?
            .execute(params![case.as_str(), at_ms])?)
    }

    fn case_of_alias(&self, alias: &RequestId) -> Result<Option<RequestId>, StoreError> {
        let sql = "SELECT id FROM cases WHERE json_extract(body, '$.alias') = ?1 \
            ORDER BY seq LIMIT 1";
        let mut statement = self.database.prepare_cached(sql)?;
        let id: Option<String> = statement
            .query_row(params![alias.as_str()], |row| row.get(0))
            .optional()?;
        id.map(|id| case_id(&id)).transpose()
    }

    fn case_row(&self, id: &RequestId) -> Result<Option<(u64, Case)>, StoreError> {
        let row: Option<(i64, String)> = self
            .database
            .prepare_cached("SELECT seq, body FROM cases WHERE id = ?1")?
            .query_row(params![id.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        row.map(|(seq, body)| Ok((from_sql(seq)?, serde_json::from_str(&body)?)))
            .transpose()
    }

    fn votes_of(&self, id: &RequestId, votes: &mut BTreeMap<u64, Vote>) -> Result<(), StoreError> {
        let mut statement = self
            .database
            .prepare_cached("SELECT seq, body FROM votes WHERE case_id = ?1")?;
        let mut rows = statement.query(params![id.as_str()])?;
        while let Some(row) = rows.next()? {
            let body: String = row.get(1)?;
            votes.insert(from_sql(row.get(0)?)?, serde_json::from_str(&body)?);
        }
        Ok(())
    }

    fn silent_of(&self, id: &RequestId, silent: &mut BTreeSet<String>) -> Result<(), StoreError> {
        let mut statement = self
            .database
            .prepare_cached("SELECT role FROM silent_roles WHERE case_id = ?1")?;
        let mut rows = statement.query(params![id.as_str()])?;
        while let Some(row) = rows.next()? {
            silent.insert(row.get(0)?);
        }
        Ok(())
    }

    fn settling_until(&self, id: &RequestId) -> Result<Option<Time>, StoreError> {
        let sql = "SELECT closes_at_ms FROM settling_cases WHERE id = ?1";
        self.number_of(sql, id)?.map(time_of).transpose()
    }

    fn reopened_in(&self, id: &RequestId) -> Result<Option<u64>, StoreError> {
        let sql = "SELECT seq FROM reopened_cases WHERE id = ?1";
        self.number_of(sql, id)?.map(from_sql).transpose()
    }

    fn number_of(&self, sql: &str, id: &RequestId) -> Result<Option<i64>, StoreError> {
        let mut statement = self.database.prepare_cached(sql)?;
        Ok(statement
            .query_row(params![id.as_str()], |row| row.get(0))
            .optional()?)
    }

    /// The decision on a case, as if no objection waited.
    fn end_of(&self, id: &RequestId) -> Result<Option<Closed>, StoreError> {
        let row: Option<(i64, String)> = self
            .database
            .prepare_cached("SELECT seq, outcome FROM case_ends WHERE id = ?1")?
            .query_row(params![id.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let sql = "SELECT until_ms FROM contestable_cases WHERE id = ?1";
        let until = self.number_of(sql, id)?.map(time_of).transpose()?;
        row.map(|(seq, outcome)| {
            let stance = Stance::parse(&outcome)
                .ok_or_else(|| StoreError::Damaged(format!("`{outcome}` is not an outcome")))?;
            Ok(Closed {
                line: from_sql(seq)?,
                outcome: stance,
                objections_until: until,
                is_reopened: false,
            })
        })
        .transpose()
    }

    /// Returns what is known of a case.
    pub fn docket(&self, id: &RequestId) -> Result<Option<Docket>, StoreError> {
        docket(&[self], id)
    }

    /// Returns open cases that are full, and those whose deadline is not after `now`, earliest
    /// first.
    pub fn due_cases(&self, now: Time, limit: usize) -> Result<Vec<RequestId>, StoreError> {
        let sql = "SELECT id FROM cases WHERE is_open = 1 AND deadline_ms <= ?1 ORDER BY \
            deadline_ms, id LIMIT ?2";
        self.case_ids(sql, now.ms(), limit)
    }

    /// Returns cases by the line of their request, newest first.
    pub fn newest_cases(&self, limit: usize) -> Result<Vec<RequestId>, StoreError> {
        self.case_ids(
            "SELECT id FROM cases WHERE seq >= ?1 ORDER BY seq DESC LIMIT ?2",
            0,
            limit,
        )
    }

    /// Returns open cases by the line of their request, oldest first.
    pub fn open_cases(&self, limit: usize) -> Result<Vec<RequestId>, StoreError> {
        self.case_ids(
            "SELECT id FROM cases WHERE is_open = 1 AND seq >= ?1 ORDER BY seq LIMIT ?2",
            0,
            limit,
        )
    }

    fn case_ids(&self, sql: &str, from: i64, limit: usize) -> Result<Vec<RequestId>, StoreError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut statement = self.database.prepare_cached(sql)?;
        let mut rows = statement.query(params![from, limit])?;
        let mut ids = Vec::new();
        while let Some(row) = rows.next()? {
            let id: String = row.get(0)?;
            ids.push(case_id(&id)?);
        }
        Ok(ids)
    }
}
