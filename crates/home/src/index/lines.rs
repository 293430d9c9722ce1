//! The index of lines: the place of each line, and the members that operators search by. The views
//! are for use with `sqlite3`; no decision reads them.

use rusqlite::types::Value;
use rusqlite::{OptionalExtension, params, params_from_iter};

use super::store::{Store, StoreError, from_sql, sought, to_sql};
use spoolgate_admission::receipt::Verdict;
use spoolgate_gate::Record;
use spoolgate_gate::record::{AskedFor, Decision, Ruling, Status};
use spoolgate_ledger::log::Location;
use spoolgate_ledger::tree::Hash;
use spoolgate_rules::gateway::ACTIONS;

/// Maximum rows per page of a look-up. Each page is a transaction of its own, so that a slow reader
/// does not keep the gate from checkpointing the WAL.
const PAGE_ROWS: u32 = 1_000;

/// Number of lines that one look for old answers looks at.
const LINES_SWEPT: u32 = 1_024;

pub(super) const TABLES: &str = "
    CREATE TABLE lines (
        seq INTEGER PRIMARY KEY, segment INTEGER NOT NULL, start INTEGER NOT NULL, length INTEGER \
            NOT NULL,
        leaf TEXT NOT NULL, time_ms INTEGER NOT NULL, kind TEXT NOT NULL, action TEXT, source \
            TEXT, request_id TEXT,
        status TEXT, verdict TEXT, code TEXT, strategy TEXT, symbol TEXT, order_id TEXT
    ) STRICT;
    CREATE VIEW decisions AS
        SELECT seq AS line, strftime('%Y-%m-%dT%H:%M:%fZ', time_ms / 1000.0, 'unixepoch') AS time, \
            source, action,
            request_id, status, verdict, code, strategy, symbol, order_id
        FROM lines WHERE kind IN ('decision', 'request');
    CREATE VIEW actions AS
        SELECT q.seq AS line, strftime('%Y-%m-%dT%H:%M:%fZ', q.time_ms / 1000.0, 'unixepoch') AS \
            time, q.source,
            q.action, q.request_id, r.seq AS response, coalesce(r.status, 'open') AS status, r.code,
            (r.time_ms - q.time_ms) / 1000.0 AS seconds
        FROM lines AS q LEFT JOIN responses ON request_line = q.seq LEFT JOIN lines AS r ON r.seq \
            = responses.seq
        WHERE q.kind = 'request';
    CREATE VIEW events AS
        SELECT seq AS line, strftime('%Y-%m-%dT%H:%M:%fZ', time_ms / 1000.0, 'unixepoch') AS time, \
            kind, source,
            request_id, verdict, symbol
        FROM lines WHERE kind NOT IN ('decision', 'request');
    CREATE VIEW executions AS
        SELECT seq AS line, body ->> 'market_time' AS time, body ->> 'order_id' AS order_id,
            body ->> 'strategy' AS strategy, body ->> 'symbol' AS symbol, body ->> 'role' AS role,
            body ->> 'side' AS side, body ->> 'size' AS size, body ->> 'price' AS price, body ->> \
                'fee' AS fee,
            body ->> 'realised' AS realised
        FROM fills;
";

pub(super) const DROP: &str = "
    DROP VIEW IF EXISTS decisions; DROP VIEW IF EXISTS actions; DROP VIEW IF EXISTS events; DROP \
        VIEW IF EXISTS executions;
    DROP TABLE IF EXISTS lines;
";

pub(super) const DUMP: &str =
    "SELECT 'line ' || seq || ' ' || segment || ' ' || start || ' ' || length || ' ' || leaf || ' \
        ' || time_ms || ' ' ||
    kind || ' ' || json_array(action, source, request_id, status, verdict, code, strategy, symbol, \
        order_id)
    FROM lines ORDER BY seq";

/// A column to search lines by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// Kind of the line.
    Kind,
    /// The action of a request.
    Action,
    /// The sender, or the one that an unverified request names.
    Source,
    /// Id of the request.
    RequestId,
    /// Code of a refusal.
    Code,
    /// Strategy of an order.
    Strategy,
    /// Symbol of an order or of market rows.
    Symbol,
}

impl Column {
    fn name(self) -> &'static str {
        match self {
            Column::Kind => "kind",
            Column::Action => "action",
            Column::Source => "source",
            Column::RequestId => "request_id",
            Column::Code => "code",
            Column::Strategy => "strategy",
            Column::Symbol => "symbol",
        }
    }
}

/// A conjunction of conditions on lines.
#[derive(Clone, Debug, Default)]
pub struct Conditions {
    sql: String,
    values: Vec<Value>,
}

impl Conditions {
    /// Returns whether there are no conditions.
    pub fn is_empty(&self) -> bool {
        self.sql.is_empty()
    }

    /// Requires one of these values, or a text that begins with one of `starts`.
    pub fn one_of(&mut self, column: Column, values: &[String], starts: &[&str]) {
        let name = column.name();
        let mut either = Vec::new();
        for value in values {
            either.push(format!("{name} = ?"));
            self.values.push(Value::Text(value.clone()));
        }
        for start in starts {
            either.push(format!("substr({name}, 1, length(?)) = ?"));
            self.values.extend([
                Value::Text((*start).to_owned()),
                Value::Text((*start).to_owned()),
            ]);
        }
        if !either.is_empty() {
            self.sql
                .push_str(&format!(" AND ({})", either.join(" OR ")));
        }
    }

    /// Requires a time at or after `from_ms` and before `to_ms`, milliseconds since 1970.
    pub fn recorded(&mut self, from_ms: Option<i64>, to_ms: Option<i64>) {
        for (bound, sql) in [(from_ms, " AND time_ms >= ?"), (to_ms, " AND time_ms < ?")] {
            if let Some(bound) = bound {
                self.sql.push_str(sql);
                self.values.push(Value::Integer(bound));
            }
        }
    }

    /// Requires one of these outcomes, as `status` or `verdict` of the line.
    pub fn decided(&mut self, outcomes: &[&str]) {
        let either: Vec<&str> = outcomes
            .iter()
            .map(|_| "status = ? OR verdict = ?")
            .collect();
        for outcome in outcomes {
            self.values.extend([
                Value::Text((*outcome).to_owned()),
                Value::Text((*outcome).to_owned()),
            ]);
        }
        if !either.is_empty() {
            self.sql
                .push_str(&format!(" AND ({})", either.join(" OR ")));
        }
    }
}

/// The order of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Oldest first.
    Oldest,
    /// Newest first.
    Newest,
}

/// The indexed members of a line besides its place.
struct Row<'a> {
    action: Option<&'a str>,
    source: Option<&'a str>,
    request_id: Option<&'a str>,
    status: Option<&'static str>,
    verdict: Option<&'static str>,
    code: Option<&'static str>,
    strategy: Option<&'a str>,
    symbol: Option<&'a str>,
    order_id: Option<String>,
}

const NOTHING: Row<'static> = Row {
    action: None,
    source: None,
    request_id: None,
    status: None,
    verdict: None,
    code: None,
    strategy: None,
    symbol: None,
    order_id: None,
};

/// Returns the result of a decision: the ruling over its check vector, otherwise the verdict of its
/// receipt.
fn verdict(decision: &Decision) -> Option<&'static str> {
    match (
        decision.decision,
        decision.receipt.as_deref().map(|receipt| receipt.decision),
    ) {
        (Some(Ruling::Accepted), _) => Some("ACCEPTED"),
        (Some(Ruling::Rejected), _) => Some("REJECTED"),
        (None, Some(Verdict::Allow)) => Some("ALLOW"),
        (None, Some(Verdict::Deny)) => Some("DENY"),
        (None, None) => None,
    }
}

fn row_of(record: &Record) -> Row<'_> {
    match record {
        Record::Decision(decision) => row_of_decision(decision),
        Record::Council(line) => Row {
            request_id: Some(line.request_id.as_str()),
            verdict: Some(line.outcome.as_str()),
            ..NOTHING
        },
        Record::Input(input) => Row {
            request_id: Some(input.request_id.as_str()),
            ..NOTHING
        },
        Record::AdmissionInput(input) => match &input.about {
            AskedFor::Lineage {
                source, request_id, ..
            } => Row {
                source: Some(source.as_str()),
                request_id: Some(request_id.as_str()),
                ..NOTHING
            },
            AskedFor::Policy { .. } => NOTHING,
        },
        Record::Response(line) => Row {
            action: Some(&line.action),
            source: Some(&line.source),
            request_id: Some(&line.request_id),
            status: Some(status_name(line.status)),
            code: line.metadata.code.map(spoolgate_wire::code::Code::name),
            ..NOTHING
        },
        Record::Market(rows) => Row {
            symbol: Some(&rows.symbol),
            ..NOTHING
        },
        _ => NOTHING,
    }
}

fn status_name(status: Status) -> &'static str {
    match status {
        Status::Success => "success",
        Status::Rejected => "rejected",
        Status::RateLimited => "rate_limited",
        Status::Held => "requires_approval",
        Status::Pending => "pending",
        Status::Error => "error",
    }
}

fn row_of_decision(decision: &Decision) -> Row<'_> {
    let status = status_name(decision.status);
    Row {
        action: decision.action.as_deref(),
        source: decision.source.as_deref(),
        request_id: decision.request_id.as_deref(),
        status: Some(status),
        verdict: verdict(decision),
        code: decision.metadata.code.map(spoolgate_wire::code::Code::name),
        strategy: decision.strategy.as_deref(),
        symbol: decision.symbol.as_deref(),
        order_id: decision.order_id.map(|id| id.to_string()),
    }
}

type StoredLocation = (i64, u32, i64, i64, String);

fn location_of(row: StoredLocation) -> Result<(u64, Location), StoreError> {
    let (seq, segment, offset, length, leaf) = row;
    let leaf = Hash::from_hex(&leaf)
        .ok_or_else(|| StoreError::Damaged(format!("`{leaf}` is not a hash")))?;
    let location = Location {
        segment,
        offset: from_sql(offset)?,
        length: from_sql(length)?,
        leaf,
    };
    Ok((from_sql(seq)?, location))
}

impl Store {
    /// Records the place of a line and its indexed members.
    pub fn insert_line(
        &self,
        seq: u64,
        location: Location,
        record: &Record,
    ) -> Result<(), StoreError> {
        self.insert_row(
            seq,
            location,
            record.timestamp().ms(),
            record.kind(),
            &row_of(record),
        )
    }

    fn insert_row(
        &self,
        seq: u64,
        location: Location,
        time_ms: i64,
        kind: &str,
        row: &Row<'_>,
    ) -> Result<(), StoreError> {
        self.database
            .prepare_cached(
                "INSERT OR REPLACE INTO lines (seq, segment, start, length, leaf, time_ms, kind, \
                    action, source,
                     request_id, status, verdict, code, strategy, symbol, order_id)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)",
            )?
            .execute(params![
                to_sql(seq)?,
                location.segment,
                to_sql(location.offset)?,
                to_sql(location.length)?,
                location.leaf.to_string(),
                time_ms,
                kind,
                row.action,
                row.source,
                row.request_id,
                row.status,
                row.verdict,
                row.code,
                row.strategy,
                row.symbol,
                row.order_id,
            ])?;
        Ok(())
    }

    /// Returns the lines that answer outgoing actions, at most `most`, among those from `from` on
    /// before the first of `before_ms` or later, and the number of the line to go on with. It looks
    /// at no more than 1,024 lines.
    pub fn answers_before(
        &self,
        from: u64,
        before_ms: i64,
        most: usize,
    ) -> Result<(Vec<u64>, u64), StoreError> {
        let mut seen = self.database.prepare_cached(
            "SELECT seq, time_ms < ?2, kind = 'response' OR (kind = 'decision' AND \
                action IN (SELECT value FROM json_each(?3))) FROM lines WHERE seq >= ?1 ORDER BY \
                seq LIMIT ?4",
        )?;
        let actions = serde_json::to_string(&ACTIONS).unwrap_or_default();
        let mut rows = seen.query(params![sought(from), before_ms, actions, LINES_SWEPT])?;
        let (mut found, mut next) = (Vec::new(), from);
        while let Some(row) = rows.next()? {
            let is_old: bool = row.get(1)?;
            if !is_old || found.len() == most {
                break;
            }
            let seq: u64 = from_sql(row.get(0)?)?;
            next = seq.saturating_add(1);
            if row.get::<_, Option<bool>>(2)? == Some(true) {
                found.push(seq);
            }
        }
        Ok((found, next))
    }

    /// Returns the place of a line.
    pub fn line(&self, seq: u64) -> Result<Option<Location>, StoreError> {
        let row: Option<StoredLocation> = self
            .database
            .prepare_cached("SELECT seq, segment, start, length, leaf FROM lines WHERE seq = ?1")?
            .query_row(params![sought(seq)], |row| row.try_into())
            .optional()?;
        row.map(|row| location_of(row).map(|(_, location)| location))
            .transpose()
    }

    /// Returns a page of the lines from `from` to before `to` that match the conditions, in
    /// `order`; empty if there are no more. For the next page, call again from after the last line,
    /// or up to before it.
    pub fn lines_where(
        &self,
        conditions: &Conditions,
        (from, to): (u64, u64),
        order: Order,
    ) -> Result<Vec<(u64, Location)>, StoreError> {
        let direction = match order {
            Order::Oldest => "ASC",
            Order::Newest => "DESC",
        };
        let sql = format!(
            "SELECT seq, segment, start, length, leaf FROM lines WHERE seq >= ? AND seq < ?{} \
                ORDER BY seq {direction} LIMIT {PAGE_ROWS}",
            conditions.sql
        );
        let bounds = [from, to].map(|n| Value::Integer(i64::try_from(n).unwrap_or(i64::MAX)));
        let mut statement = self.database.prepare_cached(&sql)?;
        let rows = statement.query_map(
            params_from_iter(bounds.into_iter().chain(conditions.values.iter().cloned())),
            |row| row.try_into(),
        )?;
        rows.map(|row| location_of(row?)).collect()
    }
}
