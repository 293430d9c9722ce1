//! The index of task trees: trees, tasks, and how often each capability occurs in a tree. Every
//! look-up is by key, so its cost does not grow with the history.

use rusqlite::{OptionalExtension, Row, params};

use super::store::{Store, StoreError, from_sql, sought, to_sql};
use spoolgate_admission::lineage::{
    Admitted, Binding, Funds, Lineage, Parent, Query, Settled, Tree,
};
use spoolgate_admission::settle::{Settlement, Task};
use spoolgate_wire::admission::Spent;
use spoolgate_wire::amount::{Amount, AmountError};
use spoolgate_wire::ids::{Capability, DomainPart, NameError, Principal, RequestId};
use spoolgate_wire::time::{Time, TimeError};

pub(super) const TABLES: &str = "
    CREATE TABLE trees (
        tenant TEXT NOT NULL, root TEXT NOT NULL, task TEXT NOT NULL, PRIMARY KEY (tenant, root)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE tree_counts (
        tenant TEXT NOT NULL, root TEXT NOT NULL, budget INTEGER, descendants INTEGER NOT NULL,
        PRIMARY KEY (tenant, root)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE tasks (
        tenant TEXT NOT NULL, root TEXT NOT NULL, task TEXT NOT NULL, seq INTEGER NOT NULL, parent \
            TEXT,
        depth INTEGER NOT NULL, capability TEXT NOT NULL, PRIMARY KEY (tenant, root, task)
    ) STRICT, WITHOUT ROWID;
    CREATE UNIQUE INDEX tasks_by_seq ON tasks (seq);
    CREATE TABLE repeats (
        tenant TEXT NOT NULL, root TEXT NOT NULL, capability TEXT NOT NULL, tasks INTEGER NOT NULL,
        PRIMARY KEY (tenant, root, capability)
    ) STRICT, WITHOUT ROWID;
";

/// The tables that version 12 lacks. Lines of that time leave no rows in them, so an index that is
/// only extended is the one that would be built anew.
pub(super) const SINCE_12: &str = "
    CREATE TABLE tree_bindings (
        tenant TEXT NOT NULL, root TEXT NOT NULL, profile TEXT NOT NULL, opened_by TEXT,
        since_ms INTEGER NOT NULL, PRIMARY KEY (tenant, root)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE tree_funds (
        tenant TEXT NOT NULL, root TEXT NOT NULL, usd TEXT, tokens INTEGER,
        PRIMARY KEY (tenant, root)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE reservations (
        tenant TEXT NOT NULL, root TEXT NOT NULL, task TEXT NOT NULL, requested_by TEXT, usd TEXT,
        tokens INTEGER, PRIMARY KEY (tenant, root, task)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE settlements (
        tenant TEXT NOT NULL, root TEXT NOT NULL, task TEXT NOT NULL, usd TEXT NOT NULL,
        tokens INTEGER NOT NULL, is_final INTEGER NOT NULL, raises INTEGER NOT NULL,
        PRIMARY KEY (tenant, root, task)
    ) STRICT, WITHOUT ROWID;
";

pub(super) const DROP: &str = "DROP TABLE IF EXISTS trees; DROP TABLE IF EXISTS tree_counts;
    DROP TABLE IF EXISTS tasks; DROP TABLE IF EXISTS repeats; DROP TABLE IF EXISTS tree_bindings;
    DROP TABLE IF EXISTS tree_funds; DROP TABLE IF EXISTS reservations;
    DROP TABLE IF EXISTS settlements;";

pub(super) const DUMP: [&str; 8] = [
    "SELECT 'tree ' || tenant || ' ' || root || ' ' || task FROM trees ORDER BY tenant, root",
    "SELECT 'tree counts ' || tenant || ' ' || root || ' ' || coalesce(budget, '-') || ' ' || \
        descendants FROM tree_counts ORDER BY tenant, root",
    "SELECT 'task ' || tenant || ' ' || root || ' ' || task || ' ' || seq || ' ' || \
        coalesce(parent, '-') || ' ' || depth || ' ' || capability FROM tasks ORDER BY tenant, \
        root, task",
    "SELECT 'repeats ' || tenant || ' ' || root || ' ' || capability || ' ' || tasks FROM repeats \
        ORDER BY tenant, root, capability",
    "SELECT 'tree binding ' || tenant || ' ' || root || ' ' || profile || ' ' || \
        coalesce(opened_by, '-') || ' ' || since_ms FROM tree_bindings ORDER BY tenant, root",
    "SELECT 'tree funds ' || tenant || ' ' || root || ' ' || coalesce(usd, '-') || ' ' || \
        coalesce(tokens, '-') FROM tree_funds ORDER BY tenant, root",
    "SELECT 'reservation ' || tenant || ' ' || root || ' ' || task || ' ' || \
        coalesce(requested_by, '-') || ' ' || coalesce(usd, '-') || ' ' || coalesce(tokens, '-') \
        FROM reservations ORDER BY tenant, root, task",
    "SELECT 'settlement ' || tenant || ' ' || root || ' ' || task || ' ' || usd || ' ' || tokens || \
        ' ' || is_final || ' ' || raises FROM settlements ORDER BY tenant, root, task",
];

/// What the tasks of a tree have reserved and spent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeSums {
    /// The tenant that owns the tree.
    pub tenant: DomainPart,
    /// The tree.
    pub tree: Tree,
    /// Its tasks, including the root.
    pub tasks: u64,
    /// The tasks that no settler has settled.
    pub unsettled_tasks: u64,
    /// Money, USD.
    pub usd: Sums<Amount>,
    /// Tokens.
    pub tokens: Sums<i128>,
}

/// Sums over the tasks of a tree. A sum is `None` if it cannot be represented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sums<T> {
    /// What they have reserved.
    pub reserved: Option<T>,
    /// What settlers say they have spent.
    pub spent: Option<T>,
    /// What counts as spent although no settler said so.
    pub unsettled: Option<T>,
}

impl<T: Copy> Sums<T> {
    fn of(zero: T) -> Sums<T> {
        Sums {
            reserved: Some(zero),
            spent: Some(zero),
            unsettled: Some(zero),
        }
    }

    fn add(&mut self, reserved: T, counted: T, is_final: bool, sum: impl Fn(T, T) -> Option<T>) {
        let place = if is_final {
            &mut self.spent
        } else {
            &mut self.unsettled
        };
        *place = place.and_then(|so_far| sum(so_far, counted));
        self.reserved = self.reserved.and_then(|so_far| sum(so_far, reserved));
    }
}

/// A value of a row that cannot be read back.
#[derive(Debug, thiserror::Error)]
enum Unreadable {
    #[error(transparent)]
    Name(#[from] NameError),
    #[error(transparent)]
    Amount(#[from] AmountError),
    #[error(transparent)]
    Time(#[from] TimeError),
}

fn damaged(error: impl Into<Unreadable>) -> StoreError {
    StoreError::Damaged(error.into().to_string())
}

fn principal(text: Option<String>) -> Result<Option<Principal>, StoreError> {
    text.map(|text| Principal::parse(&text).map_err(damaged))
        .transpose()
}

fn funds(usd: Option<String>, tokens: Option<i64>) -> Result<Funds, StoreError> {
    let usd = usd.map(|usd| Amount::parse_exact(&usd).map_err(damaged));
    Ok(Funds {
        usd: usd.transpose()?,
        tokens,
    })
}

impl Store {
    /// Records a task that line `seq` admitted.
    pub fn insert_task(&self, seq: u64, admitted: &Admitted) -> Result<(), StoreError> {
        let Admitted {
            tenant,
            root,
            task,
            parent,
            depth,
            capability,
            repeats,
            descendants,
            budget,
            left,
            reserved,
            profile,
            by,
            opened_by,
            at,
        } = admitted;
        let (tenant, root) = (tenant.as_str(), root.as_str());
        if parent.is_none() {
            self.database
                .prepare_cached(
                    "INSERT OR REPLACE INTO trees (tenant, root, task) VALUES (?1, ?2, ?3)",
                )?
                .execute(params![tenant, root, task.as_str()])?;
        }
        self.database
            .prepare_cached(
                "INSERT OR REPLACE INTO tree_counts (tenant, root, budget, descendants) VALUES \
                    (?1, ?2, ?3, ?4)",
            )?
            .execute(params![tenant, root, budget, to_sql(*descendants)?])?;
        self.database
            .prepare_cached(
                "INSERT OR REPLACE INTO tasks (tenant, root, task, seq, parent, depth, capability)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?
            .execute(params![
                tenant,
                root,
                task.as_str(),
                to_sql(seq)?,
                parent.as_ref().map(RequestId::as_str),
                to_sql(*depth)?,
                capability.as_str()
            ])?;
        let mut counted = capability.as_str().to_owned();
        if let Some(profile) = profile {
            let opened_by = opened_by.as_ref().map(Principal::as_str);
            self.database
                .prepare_cached(
                    "INSERT OR IGNORE INTO tree_bindings (tenant, root, profile, opened_by, \
                        since_ms) VALUES (?1, ?2, ?3, ?4, ?5)",
                )?
                .execute(params![tenant, root, profile, opened_by, at.ms()])?;
            self.insert_funds(tenant, root, left)?;
            self.database
                .prepare_cached(
                    "INSERT OR REPLACE INTO reservations (tenant, root, task, requested_by, usd, \
                        tokens) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                )?
                .execute(params![
                    tenant,
                    root,
                    task.as_str(),
                    by.as_ref().map(Principal::as_str),
                    reserved.usd.map(|usd| usd.to_string()),
                    reserved.tokens
                ])?;
            // Spellings of one capability share a row; earlier versions counted each by itself.
            counted.make_ascii_lowercase();
        }
        self.database
            .prepare_cached(
                "INSERT OR REPLACE INTO repeats (tenant, root, capability, tasks) VALUES (?1, ?2, \
                    ?3, ?4)",
            )?
            .execute(params![tenant, root, counted, to_sql(*repeats)?])?;
        Ok(())
    }

    fn insert_funds(&self, tenant: &str, root: &str, left: &Funds) -> Result<(), StoreError> {
        let sql = "INSERT OR REPLACE INTO tree_funds (tenant, root, usd, tokens) VALUES (?1, ?2, \
            ?3, ?4)";
        self.database.prepare_cached(sql)?.execute(params![
            tenant,
            root,
            left.usd.map(|usd| usd.to_string()),
            left.tokens
        ])?;
        Ok(())
    }

    /// Records what a task has spent.
    pub fn settle_task(&self, settled: &Settled) -> Result<(), StoreError> {
        let (tenant, root) = (settled.tenant.as_str(), settled.root.as_str());
        self.insert_funds(tenant, root, &settled.left)?;
        let sql = "INSERT OR REPLACE INTO settlements (tenant, root, task, usd, tokens, is_final, \
            raises) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        self.database.prepare_cached(sql)?.execute(params![
            tenant,
            root,
            settled.task.as_str(),
            settled.usd.to_string(),
            settled.tokens,
            settled.is_final,
            settled.raises
        ])?;
        Ok(())
    }

    /// Returns the newest lines that admitted a lease without causality, at most `most`.
    pub fn free_leases(&self, most: u32) -> Result<Vec<u64>, StoreError> {
        let sql = "SELECT seq FROM lines WHERE action IN ('admission.admit', \
            'admission.evaluate') AND verdict IN ('ACCEPTED', 'ALLOW')
            AND seq NOT IN (SELECT seq FROM tasks) ORDER BY seq DESC LIMIT ?1";
        let mut statement = self.database.prepare_cached(sql)?;
        let rows = statement.query_map([most], |row| row.get(0))?;
        rows.map(|seq| from_sql(seq?)).collect()
    }

    /// Returns whether a line of this index changed the tree. The index may lack the tree itself.
    pub fn mentions(&self, tenant: &str, root: &str) -> Result<bool, StoreError> {
        let sql = "SELECT 1 FROM tree_counts WHERE tenant = ?1 AND root = ?2 UNION ALL
            SELECT 1 FROM tree_funds WHERE tenant = ?1 AND root = ?2";
        let mut statement = self.database.prepare_cached(sql)?;
        Ok(statement.exists(params![tenant, root])?)
    }

    /// Returns the tenant and the name of the tree in which line `seq` admitted a task.
    pub fn tree_of_line(&self, seq: u64) -> Result<Option<(String, String)>, StoreError> {
        let sql = "SELECT tenant, root FROM tasks WHERE seq = ?1";
        let mut statement = self.database.prepare_cached(sql)?;
        let found = statement.query_row([sought(seq)], |row| Ok((row.get(0)?, row.get(1)?)));
        Ok(found.optional()?)
    }

    /// Returns the task that line `seq` admitted, with its tree as it is now.
    pub fn task_of_line(&self, seq: u64) -> Result<Option<Task>, StoreError> {
        let sql = format!("{TASK_FUNDS} WHERE seq = ?1");
        let found = self
            .database
            .prepare_cached(&sql)?
            .query_row([sought(seq)], TaskFunds::of)
            .optional()?;
        let Some(found) = found else { return Ok(None) };
        let tenant = DomainPart::parse(&found.tenant).map_err(damaged)?;
        let root = RequestId::parse(&found.root).map_err(damaged)?;
        let Some(tree) = self.tree(&tenant, &root)? else {
            return Ok(None);
        };
        Ok(Some(found.task(tenant, root, tree)?))
    }

    /// Returns the tenants that have a tree of this name.
    pub fn tenants_of(&self, root: &RequestId) -> Result<Vec<DomainPart>, StoreError> {
        let sql = "SELECT tenant FROM trees WHERE root = ?1";
        let mut statement = self.database.prepare_cached(sql)?;
        let rows = statement.query_map([root.as_str()], |row| row.get::<_, String>(0))?;
        rows.map(|tenant| DomainPart::parse(&tenant?).map_err(damaged))
            .collect()
    }

    /// Returns what the tasks of a tree have reserved and spent; `None` if there is no such tree.
    pub fn tree_sums(
        &self,
        tenant: &DomainPart,
        root: &RequestId,
    ) -> Result<Option<TreeSums>, StoreError> {
        let Some(tree) = self.tree(tenant, root)? else {
            return Ok(None);
        };
        let mut sums = TreeSums {
            tenant: tenant.clone(),
            tree: tree.clone(),
            tasks: 0,
            unsettled_tasks: 0,
            usd: Sums::of(Amount::ZERO),
            tokens: Sums::of(0),
        };
        let sql = format!("{TASK_FUNDS} WHERE tenant = ?1 AND root = ?2");
        let mut statement = self.database.prepare_cached(&sql)?;
        let rows = statement.query_map([tenant.as_str(), root.as_str()], TaskFunds::of)?;
        for row in rows {
            let task = row?.task(tenant.clone(), root.clone(), tree.clone())?;
            let (reserved, counted) = (task.reserved, task.counts_as());
            let is_final = task.settlement.is_some_and(|it| it.is_final);
            sums.tasks = sums.tasks.saturating_add(1);
            sums.unsettled_tasks = sums.unsettled_tasks.saturating_add(u64::from(!is_final));
            let usd = reserved.usd.unwrap_or(Amount::ZERO);
            sums.usd
                .add(usd, counted.usd, is_final, Amount::checked_add);
            let tokens = reserved.tokens.unwrap_or(0);
            sums.tokens.add(
                tokens.into(),
                counted.tokens.into(),
                is_final,
                i128::checked_add,
            );
        }
        Ok(Some(sums))
    }

    /// Returns what the ledger knows about a task that requests admission and about its tree.
    pub fn lineage(&self, query: &Query) -> Result<Lineage, StoreError> {
        let Some(tree) = self.tree(&query.tenant, &query.root)? else {
            return Ok(Lineage::default());
        };
        // The name of the tree and the id of its root task denote the same task.
        let is_taken = query.task == query.root || self.task(query, query.task.as_str())?.is_some();
        let mut lineage = Lineage {
            is_taken,
            ..Lineage::default()
        };
        if let Some(named) = &query.parent {
            let id = if *named == query.root {
                &tree.task
            } else {
                named
            };
            if let Some(TaskRow {
                depth,
                parent,
                capability,
            }) = self.task(query, id.as_str())?
            {
                lineage.parent = Some(Parent {
                    task: id.clone(),
                    depth,
                });
                lineage.ancestors = self.ancestors(query, capability, parent)?;
            }
        }
        // A number beyond the range of SQLite is not the number of a line.
        if let Some(seq) = query.cause.and_then(|seq| i64::try_from(seq).ok()) {
            let sql = "SELECT 1 FROM tasks WHERE seq = ?1 AND tenant = ?2 AND root = ?3";
            lineage.has_cause = self.database.prepare_cached(sql)?.exists(params![
                seq,
                query.tenant.as_str(),
                query.root.as_str()
            ])?;
        }
        let sql = "SELECT max(tasks) FROM repeats WHERE tenant = ?1 AND root = ?2 AND capability \
            IN (?3, ?4)";
        let capability = query.capability.as_str();
        let repeats: Option<i64> = self.database.prepare_cached(sql)?.query_row(
            params![
                query.tenant.as_str(),
                query.root.as_str(),
                capability,
                capability.to_ascii_lowercase()
            ],
            |row| row.get(0),
        )?;
        lineage.repeats = repeats.map_or(Ok(0), from_sql)?;
        lineage.tree = Some(tree);
        Ok(lineage)
    }

    fn tree(&self, tenant: &DomainPart, root: &RequestId) -> Result<Option<Tree>, StoreError> {
        let sql = "SELECT task, budget, descendants, profile, opened_by, since_ms, usd, tokens
            FROM trees JOIN tree_counts USING (tenant, root)
            LEFT JOIN tree_bindings USING (tenant, root) LEFT JOIN tree_funds USING (tenant, root)
            WHERE tenant = ?1 AND root = ?2";
        let mut statement = self.database.prepare_cached(sql)?;
        let mut rows = statement.query(params![tenant.as_str(), root.as_str()])?;
        let Some(row) = rows.next()? else {
            return Ok(None);
        };
        let binding = match row.get(3)? {
            Some(profile) => Some(Binding {
                profile,
                opened_by: principal(row.get(4)?)?,
                since: Time::from_ms(row.get(5)?).map_err(damaged)?,
            }),
            None => None,
        };
        Ok(Some(Tree {
            task: RequestId::parse(&row.get::<_, String>(0)?).map_err(damaged)?,
            budget: row.get(1)?,
            descendants: from_sql(row.get(2)?)?,
            binding,
            left: funds(row.get(6)?, row.get(7)?)?,
        }))
    }

    fn task(&self, query: &Query, id: &str) -> Result<Option<TaskRow>, StoreError> {
        let sql = "SELECT depth, parent, capability FROM tasks WHERE tenant = ?1 AND root = ?2 AND \
            task = ?3";
        let row: Option<(i64, Option<String>, String)> = self
            .database
            .prepare_cached(sql)?
            .query_row(
                params![query.tenant.as_str(), query.root.as_str(), id],
                |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
            )
            .optional()?;
        row.map(|(depth, parent, capability)| {
            Ok(TaskRow {
                depth: from_sql(depth)?,
                parent,
                capability,
            })
        })
        .transpose()
    }

    /// Returns the capabilities from the parent upwards, at most as many as the query's window.
    fn ancestors(
        &self,
        query: &Query,
        parents: String,
        mut above: Option<String>,
    ) -> Result<Vec<Capability>, StoreError> {
        let mut found = Vec::new();
        let mut next = Some(parents);
        while let Some(capability) = next.filter(|_| found.len() < query.window as usize) {
            found.push(Capability::parse(&capability).map_err(damaged)?);
            let row = match above {
                Some(id) => self.task(query, &id)?,
                None => None,
            };
            (next, above) = row.map_or((None, None), |row| (Some(row.capability), row.parent));
        }
        Ok(found)
    }
}

/// Selects the columns of [`TaskFunds`].
const TASK_FUNDS: &str = "SELECT tenant, root, task, requested_by, reservations.usd, \
    reservations.tokens, settlements.usd, settlements.tokens, is_final, raises
    FROM tasks LEFT JOIN reservations USING (tenant, root, task)
    LEFT JOIN settlements USING (tenant, root, task)";

/// What a recorded task has reserved and spent.
struct TaskFunds {
    tenant: String,
    root: String,
    task: String,
    by: Option<String>,
    reserved: (Option<String>, Option<i64>),
    settled: Option<(String, i64, bool, u32)>,
}

impl TaskFunds {
    fn of(row: &Row<'_>) -> rusqlite::Result<TaskFunds> {
        let settled = match row.get(6)? {
            Some(usd) => Some((usd, row.get(7)?, row.get(8)?, row.get(9)?)),
            None => None,
        };
        Ok(TaskFunds {
            tenant: row.get(0)?,
            root: row.get(1)?,
            task: row.get(2)?,
            by: row.get(3)?,
            reserved: (row.get(4)?, row.get(5)?),
            settled,
        })
    }

    fn task(self, tenant: DomainPart, root: RequestId, tree: Tree) -> Result<Task, StoreError> {
        let settlement = match self.settled {
            Some((usd, tokens, is_final, raises)) => Some(Settlement {
                spent: Spent {
                    usd: Amount::parse_exact(&usd).map_err(damaged)?,
                    tokens,
                },
                is_final,
                raises,
            }),
            None => None,
        };
        let (usd, tokens) = self.reserved;
        Ok(Task {
            tenant,
            root,
            task: RequestId::parse(&self.task).map_err(damaged)?,
            by: principal(self.by)?,
            reserved: funds(usd, tokens)?,
            settlement,
            tree,
        })
    }
}

/// A recorded task.
struct TaskRow {
    depth: u64,
    parent: Option<String>,
    capability: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use spoolgate_wire::ids::DomainPart;
    use spoolgate_wire::time::Time;

    fn id(text: &str) -> RequestId {
        RequestId::parse(text).unwrap()
    }

    // The largest numbers used to stop the gate, again at every start until it gave up on the
    // request.
    #[test]
    fn a_receipt_of_any_number_can_be_asked_for() {
        let store = Store::in_memory().unwrap();
        let (tenant, capability) = (
            DomainPart::parse("t").unwrap(),
            Capability::parse("c").unwrap(),
        );
        let root = Admitted {
            tenant: tenant.clone(),
            root: id("T"),
            task: id("a"),
            parent: None,
            depth: 0,
            capability: capability.clone(),
            repeats: 1,
            descendants: 0,
            budget: None,
            left: Funds::default(),
            reserved: Funds::default(),
            profile: None,
            by: None,
            opened_by: None,
            at: Time::EPOCH,
        };
        store.insert_task(7, &root).unwrap();
        for (cause, expect) in [
            (7, true),
            (6, false),
            (8, false),
            (i64::MAX as u64, false),
            (1 << 63, false),
            (u64::MAX, false),
        ] {
            let query = Query {
                tenant: tenant.clone(),
                root: id("T"),
                task: id("b"),
                parent: Some(id("a")),
                capability: capability.clone(),
                cause: Some(cause),
                window: 0,
            };
            assert_eq!(store.lineage(&query).unwrap().has_cause, expect, "{cause}");
        }
    }
}
