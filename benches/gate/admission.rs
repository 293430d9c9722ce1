//! One admission with so many tasks in the index: look-ups, decision and fold, in one tree that is
//! a single chain and in one that is all siblings, beside a bare loop of the same SQLite look-ups
//! on the same file.

use std::collections::BTreeMap;
use std::fs;
use std::hint::black_box;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};
use spoolgate_admission::lineage::{Admitted, Funds};
use spoolgate_gate::actions::Body;
use spoolgate_gate::actions::admission_judge::AdmissionAdmit;
use spoolgate_gate::decide::needs;
use spoolgate_gate::prepare::{Authentic, Origin};
use spoolgate_gate::state::KeyRecord;
use spoolgate_gate::{Change, Lookups, Prepared, Record, State, decide};
use spoolgate_home::index::store::{Hold, STATE_FILE};
use spoolgate_home::index::{Outstanding, Store, fold};
use spoolgate_rules::{Bundle, Rulebook};
use spoolgate_wire::admin::Algorithm;
use spoolgate_wire::admission::AdmissionAttempt;
use spoolgate_wire::envelope::Envelope;
use spoolgate_wire::ids::{Capability, DomainPart, Principal, RequestId};
use spoolgate_wire::time::Time;

use crate::Bench;
use crate::child::thread_seconds;
use crate::figures::{Figure, Report, Unit};

const PRINCIPALS: &str = "principals:
  - {name: bot, role: agent, admission: {domains: [{tenant: t, surface: s, profile: p}], \
      roots_per_hour: 1}}
";
const POLICY: &str = "{max_spawn_depth: 4294967295, max_total_descendants: 9000000000, \
    max_repeats_per_capability: 9000000000, max_repeats_in_ancestor_window: 9, \
    ancestor_window_size: 8, recursion_budget: 9000000000}";
/// Ancestors that a decision looks at.
const WINDOW: usize = 8;
const NOW: &str = "2026-03-02T12:00:00Z";
const LOOP: &str = "bare SQLite look-ups";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Deep,
    Wide,
}

struct Forest {
    rules: Rulebook,
    state: State,
    store: Store,
    now: Time,
    shape: Shape,
    /// Tasks in the tree, the root included.
    tasks: u64,
}

fn id(task: u64) -> Result<RequestId> {
    Ok(RequestId::parse(&format!("task-{task}"))?)
}

impl Forest {
    fn new(home: &Path, shape: Shape) -> Result<Forest> {
        fs::create_dir_all(home.join("state"))?;
        let files = [
            ("rules/safety.yaml", include_str!("../../rules/safety.yaml")),
            ("rules/principals.yaml", PRINCIPALS),
            ("rules/admission/t/s/p.yaml", POLICY),
        ];
        let files: BTreeMap<_, _> = files
            .into_iter()
            .map(|(p, t)| (p.to_owned(), t.to_owned()))
            .collect();
        let (rules, now) = (Rulebook::compile(&Bundle { files })?, Time::parse(NOW)?);
        let mut state = State::default();
        state.apply(&Change::KeyAdded(KeyRecord {
            key_id: "k".to_owned(),
            principal: Principal::parse("bot")?,
            algorithm: Algorithm::HmacSha256,
            added_at: now,
            ends_at: None,
            revoked_at: None,
        }))?;
        Ok(Forest {
            rules,
            state,
            store: Store::open(home, Hold::Long)?,
            now,
            shape,
            tasks: 0,
        })
    }

    fn parent(&self) -> u64 {
        match self.shape {
            Shape::Deep => self.tasks.saturating_sub(1),
            Shape::Wide => 0,
        }
    }

    /// Tasks as decisions would have left them.
    fn grow(&mut self, to: u64) -> Result<()> {
        self.store.begin()?;
        while self.tasks < to {
            let is_root = self.tasks == 0;
            let capability = self.tasks % 2;
            self.store.insert_task(
                self.tasks + 1,
                &Admitted {
                    tenant: DomainPart::parse("t")?,
                    root: RequestId::parse("tree")?,
                    task: id(self.tasks)?,
                    parent: if is_root {
                        None
                    } else {
                        Some(id(self.parent())?)
                    },
                    depth: if self.shape == Shape::Deep {
                        self.tasks
                    } else {
                        u64::from(!is_root)
                    },
                    capability: Capability::parse(&format!("c{capability}"))?,
                    repeats: self.tasks / 2 + 1,
                    descendants: self.tasks,
                    budget: Some(9_000_000_000 - i64::try_from(self.tasks)?),
                    left: Funds::default(),
                    reserved: Funds::default(),
                    profile: Some("t/s/p".to_owned()),
                    by: None,
                    opened_by: None,
                    at: self.now,
                },
            )?;
            self.tasks += 1;
        }
        Ok(self.store.commit()?)
    }

    fn request(&self, ahead: u64) -> Result<Prepared> {
        let task = self.tasks + ahead;
        let parent = if self.shape == Shape::Deep {
            task - 1
        } else {
            0
        };
        let payload = format!(
            r#"{{"envelope":{{"tenant_id":"t","surface_id":"s","policy_profile_id":"p","payload_kind":"task","payload":{{"target":"worker"}},"causality":{{"root_task_id":"tree","parent_task_id":"task-{parent}","capability_id":"c{}"}}}}}}"#,
            task % 2
        );
        let attempt = AdmissionAttempt::read(&payload);
        let envelope = Envelope {
            id: id(task)?,
            timestamp_text: NOW.to_owned(),
            timestamp: self.now,
            action: "admission.admit".to_owned(),
            payload,
            source: Principal::parse("bot")?,
            signature: "0".repeat(64),
            causality: None,
        };
        let (payload_hash, request_hash) = (envelope.payload_hash(), envelope.request_hash());
        let body = Ok(Body::of::<AdmissionAdmit>(attempt));
        let authentic = Authentic {
            envelope,
            key_id: "k".to_owned(),
            payload_hash,
            request_hash,
            body,
        };
        Ok(Prepared {
            origin: Origin::Flat,
            file: format!("{task}.json"),
            file_sha256: None,
            file_bytes: None,
            request: Ok(authentic),
        })
    }

    /// Microseconds of processor time an admission: look-ups, decision, fold.
    fn admit(&mut self, calls: u64) -> Result<f64> {
        let requests = (0..calls)
            .map(|ahead| self.request(ahead))
            .collect::<Result<Vec<_>>>()?;
        let mut outstanding = Outstanding::new();
        self.store.begin()?;
        let started = thread_seconds();
        for request in &requests {
            let query = needs(request, &self.rules)
                .lineage
                .context("nothing was asked of the index")?;
            let lookups = Lookups {
                lineage: self.store.lineage(&query)?,
                ..Lookups::default()
            };
            let seq = self.tasks + 1;
            let decided = decide(&self.state, &self.rules, request, &lookups, self.now, seq);
            ensure!(
                decided.decision.metadata.code.is_none(),
                "{:?}",
                decided.decision.metadata.message
            );
            let record = Record::Decision(Box::new(decided.decision));
            fold(&mut self.state, &self.store, &mut outstanding, seq, &record)?;
            self.tasks += 1;
        }
        let taken = thread_seconds() - started;
        self.store.commit()?;
        Ok(taken * 1e6 / calls as f64)
    }
}

/// The same rows by the same keys, with nothing made of them.
fn look_up(database: &Connection, forest: &Forest, calls: u64) -> Result<f64> {
    let started = thread_seconds();
    // In one transaction, as a batch is: otherwise each statement pays for a lock of its own.
    database.execute_batch("BEGIN")?;
    for _ in 0..calls {
        let mut tree = database.prepare_cached(
            "SELECT task, budget, descendants FROM trees JOIN tree_counts USING (tenant, root) \
                WHERE tenant = ?1 AND root = ?2",
        )?;
        black_box(
            tree.query_row(params!["t", "tree"], |row| row.get::<_, String>(0))
                .optional()?,
        );
        let mut task = database.prepare_cached(
            "SELECT depth, parent, capability FROM tasks WHERE tenant = ?1 AND root = ?2 AND task \
                = ?3",
        )?;
        let mut row_of = |id: &str| {
            task.query_row(params!["t", "tree", id], |row| {
                Ok((
                    row.get::<_, i64>(0)?,
                    row.get::<_, Option<String>>(1)?,
                    row.get::<_, String>(2)?,
                ))
            })
            .optional()
        };
        black_box(row_of(&format!("task-{}", forest.tasks))?);
        let mut next = Some(format!("task-{}", forest.parent()));
        for _ in 0..WINDOW {
            let Some(id) = next else { break };
            next = row_of(&id)?.and_then(|(_, parent, _)| parent);
        }
        let sql = "SELECT tasks FROM repeats WHERE tenant = ?1 AND root = ?2 AND capability = ?3";
        let mut repeats = database.prepare_cached(sql)?;
        black_box(
            repeats
                .query_row(params!["t", "tree", "c1"], |row| row.get::<_, i64>(0))
                .optional()?,
        );
    }
    database.execute_batch("COMMIT")?;
    Ok((thread_seconds() - started) * 1e6 / calls as f64)
}

/// Measures both shapes at every size.
pub(crate) fn measure(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let calls = if bench.args.quick { 20 } else { 200 };
    let mut figures = Vec::new();
    for (shape, name) in [(Shape::Deep, "one chain"), (Shape::Wide, "all siblings")] {
        let home = bench.scratch.join(name.replace(' ', "-"));
        let mut forest = Forest::new(&home, shape)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        for tasks in bench.args.tasks() {
            let what = format!("{tasks} tasks, {name}");
            bench.args.say(&format!("admission: {what}"));
            forest.grow(*tasks)?;
            let database = Connection::open_with_flags(home.join(STATE_FILE), flags)?;
            let (mut ours, mut peer) = (Vec::new(), Vec::new());
            // Once for warmth.
            look_up(&database, &forest, calls)?;
            forest.admit(calls)?;
            for _ in 0..bench.args.rounds() {
                peer.push(look_up(&database, &forest, calls)?);
                ours.push(forest.admit(calls)?);
            }
            figures.push(Figure::alone(what, Unit::Microseconds, &ours).beside(LOOP, &ours, &peer));
        }
        fs::remove_dir_all(&home)?;
    }
    report.note(format!(
        "admission: every one was allowed and reserved; {WINDOW} ancestors are looked at; a round \
            is {calls} admissions in one transaction, which then are in the index as well; the \
            loop only reads"
    ));
    report.section(
        "Admission: processor time of look-ups, decision and fold, without ledger and disk",
        figures,
    );
    Ok(())
}
