//! The index of task trees: trees, tasks, and how often each capability occurs in a tree. Every
//! look-up is by key, so its cost does not grow with the history.

use rusqlite::{OptionalExtension, params};

use super::store::{Store, StoreError, from_sql, to_sql};
use spoolgate_admission::lineage::{Admitted, Lineage, Parent, Query, Tree};
use spoolgate_wire::ids::{Capability, NameError, RequestId};

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

pub(super) const DROP: &str = "DROP TABLE IF EXISTS trees; DROP TABLE IF EXISTS tree_counts;
    DROP TABLE IF EXISTS tasks; DROP TABLE IF EXISTS repeats;";

pub(super) const DUMP: [&str; 4] = [
    "SELECT 'tree ' || tenant || ' ' || root || ' ' || task FROM trees ORDER BY tenant, root",
    "SELECT 'tree counts ' || tenant || ' ' || root || ' ' || coalesce(budget, '-') || ' ' || \
        descendants FROM tree_counts ORDER BY tenant, root",
    "SELECT 'task ' || tenant || ' ' || root || ' ' || task || ' ' || seq || ' ' || \
        coalesce(parent, '-') || ' ' || depth || ' ' || capability FROM tasks ORDER BY tenant, \
        root, task",
    "SELECT 'repeats ' || tenant || ' ' || root || ' ' || capability || ' ' || tasks FROM repeats \
        ORDER BY tenant, root, capability",
];

fn damaged(error: NameError) -> StoreError {
    StoreError::Damaged(error.to_string())
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
            ..
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
        self.database
            .prepare_cached(
                "INSERT OR REPLACE INTO repeats (tenant, root, capability, tasks) VALUES (?1, ?2, \
                    ?3, ?4)",
            )?
            .execute(params![
                tenant,
                root,
                capability.as_str(),
                to_sql(*repeats)?
            ])?;
        Ok(())
    }

    /// Returns what the ledger knows about a task that requests admission and about its tree.
    pub fn lineage(&self, query: &Query) -> Result<Lineage, StoreError> {
        let Some(tree) = self.tree(query)? else {
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
        let sql = "SELECT tasks FROM repeats WHERE tenant = ?1 AND root = ?2 AND capability = ?3";
        let repeats: Option<i64> = self
            .database
            .prepare_cached(sql)?
            .query_row(
                params![
                    query.tenant.as_str(),
                    query.root.as_str(),
                    query.capability.as_str()
                ],
                |row| row.get(0),
            )
            .optional()?;
        lineage.repeats = repeats.map_or(Ok(0), from_sql)?;
        lineage.tree = Some(tree);
        Ok(lineage)
    }

    fn tree(&self, query: &Query) -> Result<Option<Tree>, StoreError> {
        let sql =
            "SELECT task, budget, descendants FROM trees JOIN tree_counts USING (tenant, root)
                   WHERE tenant = ?1 AND root = ?2";
        let row: Option<(String, Option<i64>, i64)> = self
            .database
            .prepare_cached(sql)?
            .query_row(params![query.tenant.as_str(), query.root.as_str()], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })
            .optional()?;
        row.map(|(task, budget, descendants)| {
            let task = RequestId::parse(&task).map_err(damaged)?;
            Ok(Tree {
                task,
                budget,
                descendants: from_sql(descendants)?,
            })
        })
        .transpose()
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
