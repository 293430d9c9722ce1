//! Trees of tasks under agents that claim what they like: wrong depths, inflated budgets, parents
//! and receipts of others, used ids, roots opened again, many keys and profiles. A second, naive
//! model decides the same.
//!
//! `cargo test --release --test it task_trees:: -- --ignored --nocapture` requests 100,000 tasks.

mod naive;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Instant;

use crate::kit::Dice;
use crate::kit::tasks::{Gate, Task, check_receipt, reserved};
use naive::{Asked, Naive, Said};
use serde_json::{Value, json};
use spoolgate_admission::lineage::Admitted;
use spoolgate_gate::Prepared;
use spoolgate_wire::code::Code;

const LARGE: &str = "v/s/open";

/// A profile: name and text.
pub(crate) const PROFILES: [(&str, &str); 6] = [
    (
        "t/s/tight",
        "{max_spawn_depth: 4, max_total_descendants: 12, max_repeats_per_capability: 3, \
            max_repeats_in_ancestor_window: 2, ancestor_window_size: 3, recursion_budget: 14, \
            budget_usd: '2.00', reserve_usd: '0.20', budget_tokens: 900, reserve_tokens: 40, \
            settlers: [meter]}",
    ),
    (
        "t/s/wide",
        "{max_spawn_depth: 3, max_total_descendants: 4, capability_denylist: [Shell], \
            leases_per_hour: 7, budget_tokens: 700, reserve_tokens: 90, settlers: [meter], \
            allowed_targets: [here]}",
    ),
    (
        "t/s/deep",
        "{max_spawn_depth: 40, max_repeats_in_ancestor_window: 5, ancestor_window_size: 8, \
            max_tree_age_s: 90}",
    ),
    ("t/s/open", "{max_spawn_depth: 30}"),
    (
        "u/s/open",
        "{max_spawn_depth: 6, max_total_descendants: 9, recursion_budget: 400, \
            capability_allowlist: [plan, read, write, test], budget_usd: '9.00', reserve_usd: '0.05', max_tree_age_s: 150}",
    ),
    // Nobody lowers the budget here, so these trees become large.
    (LARGE, "{max_spawn_depth: 25}"),
];

/// A key: name, domains, roots per hour.
pub(crate) const AGENTS: [(&str, &[&str], u64); 11] = [
    ("a1", &["t/s/tight", "t/s/open"], 60),
    ("a2", &["t/s/tight"], 40),
    ("a3", &["t/s/wide", "t/s/none"], 30),
    ("a4", &["t/s/deep", "t/s/tight"], 12),
    ("a5", &["t/s/open"], 3),
    ("a6", &["t/s/open", "t/s/deep"], 0),
    ("b1", &["u/s/open"], 50),
    ("b2", &["u/s/open"], 2),
    ("b3", &["u/s/open"], 0),
    ("c1", &[LARGE], 1),
    ("c2", &[LARGE], 0),
];

const CAPABILITIES: [&str; 8] = [
    "plan", "read", "write", "test", "shell", "search", "Read", "SHELL",
];

fn principals() -> String {
    let mut text = "principals:\n  - {name: meter, role: agent, spool: meter}\n".to_owned();
    for (name, domains, roots) in AGENTS {
        let domains: Vec<String> = domains
            .iter()
            .map(|domain| domain.split('/').collect::<Vec<_>>())
            .map(|d| format!("{{tenant: {}, surface: {}, profile: {}}}", d[0], d[1], d[2]))
            .collect();
        let roots = if roots > 0 {
            format!(", roots_per_hour: {roots}")
        } else {
            String::new()
        };
        text.push_str(&format!(
            "  - {{name: {name}, role: agent, spool: {name}, admission: {{domains: \
                [{}]{roots}}}}}\n",
            domains.join(", ")
        ));
    }
    text
}

/// Agents at work.
struct Swarm {
    gate: Gate,
    dice: Dice,
    n: u64,
    /// Admitted tasks, with their profiles.
    admitted: Vec<(Admitted, String)>,
    /// The lines that admitted them, with their sources.
    lines: Vec<(u64, &'static str)>,
    /// Names of trees that were requested.
    trees: Vec<String>,
    /// Requests that were sent, by source, for replays.
    sent: Vec<(String, String, Prepared)>,
    counts: BTreeMap<String, u64>,
}

impl Swarm {
    fn new(seed: u64) -> Swarm {
        let gate = Gate::new(&principals(), PROFILES);
        let (dice, admitted, trees) = (Dice::new(seed), Vec::new(), Vec::new());
        Swarm {
            gate,
            dice,
            n: 0,
            admitted,
            lines: Vec::new(),
            trees,
            sent: Vec::new(),
            counts: BTreeMap::new(),
        }
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[usize::try_from(self.dice.below(from.len() as u64)).unwrap()]
    }

    /// Returns an admitted task: any, so that large trees grow, or a late one.
    fn known(&mut self) -> Option<Admitted> {
        let among = if self.dice.below(3) > 0 {
            self.admitted.len()
        } else {
            self.admitted.len().min(40)
        };
        let back = usize::try_from(self.dice.below(among.max(1) as u64)).unwrap();
        self.admitted
            .iter()
            .rev()
            .nth(back)
            .map(|(task, _)| task.clone())
    }

    /// Draws what an agent requests, and how: truthfully in three of five cases, otherwise with one
    /// lie or more.
    fn draw(&mut self) -> (Asked, Task) {
        self.n += 1;
        let (name, domains, _) = *self.pick(&AGENTS);
        let mut task = Task::parse(&format!("x{}", self.n));
        task.domain = (*self.pick(domains)).to_owned();
        task.capability = (*self.pick(&CAPABILITIES)).to_owned();
        let tenant = task.domain.split('/').next().unwrap().to_owned();
        let is_stray = self.dice.one_in(6);
        let parent = (0..12).filter_map(|_| self.known()).find(|task| {
            let profile = task.profile.as_deref().unwrap();
            task.tenant.as_str() == tenant && (is_stray || domains.contains(&profile))
        });
        match parent.filter(|_| !self.dice.one_in(12)) {
            Some(parent) => {
                task.root = parent.root.to_string();
                task.parent = Some(parent.task.to_string());
                if parent.parent.is_none() && self.dice.one_in(2) {
                    task.parent = Some(task.root.clone());
                }
                if self.dice.one_in(2) {
                    task.depth = Some(json!(parent.depth + 1));
                }
                let profile = parent.profile.as_deref().unwrap();
                if domains.contains(&profile) && !is_stray {
                    task.domain = profile.to_owned();
                }
            }
            None => task.root = format!("tree-{}", self.n),
        }
        if !self.dice.one_in(9) {
            task.payload = json!({"target": "here"});
        }
        if self.dice.one_in(5) {
            let cents = self.dice.below(80);
            task.payload["budget"] =
                json!({"usd": format!("0.{cents:02}"), "tokens": self.dice.below(300)});
        }
        let mut way = "admit";
        if self.dice.below(5) < 2 {
            for _ in 0..=self.dice.below(2) {
                self.lie(&mut task, &mut way);
            }
        }
        self.trees.push(task.root.clone());
        let has_causality = task.kind != "lease";
        (
            Asked {
                source: name.to_owned(),
                way: way.to_owned(),
                has_causality,
            },
            task,
        )
    }

    fn lie(&mut self, task: &mut Task, way: &mut &'static str) {
        match self.dice.below(14) {
            0 => task.depth = Some(json!(self.dice.below(6) as i64 - 1)),
            1 => task.depth = Some(json!(*self.pick(&[i64::MIN, -1, 1 << 32, i64::MAX]))),
            2 => task.budget = Some(json!(*self.pick(&[i64::MAX, 1_000_000]))),
            // A low claim ends a tree, so they are rare.
            3 if self.dice.one_in(8) && task.domain != LARGE => {
                task.budget = Some(json!(*self.pick(&[1, 2, 7, 50])))
            }
            3 => task.budget = Some(json!(*self.pick(&[i64::MIN, -1, 0]))),
            4 => task.parent = self.known().map(|other| other.task.to_string()),
            5 => {
                task.root = self
                    .known()
                    .map_or_else(|| "stolen".to_owned(), |other| other.root.to_string())
            }
            6 => task.parent = Some(format!("x{}", self.dice.below(self.n + 5))),
            // An id that was used before, and the name of a tree.
            7 => task.id = format!("x{}", self.dice.below(self.n)),
            8 => task.id = task.root.clone(),
            9 => task.cause = Some(json!(format!("r-{}", self.dice.below(self.gate.seq + 3)))),
            10 => {
                // Opens a tree that may be open already.
                task.parent = None;
                let place =
                    usize::try_from(self.dice.below(self.trees.len().max(1) as u64)).unwrap();
                task.root = self
                    .trees
                    .get(place)
                    .cloned()
                    .unwrap_or_else(|| "again".to_owned());
            }
            11 => task.domain = self.pick(&PROFILES).0.to_owned(),
            12 => *way = *self.pick(&["check", "evaluate"]),
            _ => task.kind = "lease".to_owned(),
        }
    }

    /// Settles a task, most often one that was admitted; the naive model must agree.
    fn settle(&mut self, naive: Option<&mut Naive>) {
        self.n += 1;
        if self.lines.is_empty() {
            return;
        }
        let place = usize::try_from(self.dice.below(self.lines.len() as u64)).unwrap();
        let (mut line, own) = self.lines[place];
        if self.dice.one_in(9) {
            line = self.dice.below(self.gate.seq + 3);
        }
        let source = match self.dice.below(3) {
            0 => "meter",
            1 => self.pick(&AGENTS).0,
            _ => own,
        };
        let (cents, tokens) = (self.dice.below(60), self.dice.below(120));
        let id = format!("s{}", self.n);
        let body = json!({"receipt_id": format!("r-{line}"),
            "spent": {"usd": format!("0.{cents:02}"), "tokens": tokens}});
        let decision = self
            .gate
            .ask(source, &id, "admission.settle", &body.to_string(), None);
        let cents_of = |value: &Value| {
            let text = value.as_str()?.parse::<f64>().unwrap();
            Some((text * 100.0).round() as i64)
        };
        let said: naive::Settled = match &decision.metadata.code {
            None => {
                let data: Value =
                    serde_json::from_str(decision.data.as_ref().unwrap().get()).unwrap();
                let tree = &data["tree"];
                Ok([cents_of(&tree["usd_left"]), tree["tokens_left"].as_i64()])
            }
            Some(Code::NotPermitted) => Err("NOT_PERMITTED"),
            Some(Code::StateConflict) => Err("STATE_CONFLICT"),
            Some(other) => panic!("{other:?}: {decision:?}"),
        };
        let name = said.map_or_else(|code| code, |_| "settled");
        *self.counts.entry(name.to_owned()).or_default() += 1;
        if let Some(naive) = naive {
            let spent = [cents, tokens].map(|n| i64::try_from(n).unwrap());
            let expected = naive.settle(source, &id, line, spent);
            assert_eq!(said, expected, "{source} {body}");
        }
    }

    /// Sends one request; the naive model, if there is one, must agree.
    fn step(&mut self, naive: Option<&mut Naive>) {
        self.gate.now = self
            .gate
            .now
            .plus_ms(i64::try_from(self.dice.below(400)).unwrap());
        if self.dice.one_in(40) && !self.sent.is_empty() {
            let place = usize::try_from(self.dice.below(self.sent.len() as u64)).unwrap();
            let (source, id, request) = self.sent[place].clone();
            let decision = self.gate.decide(&request);
            // A request that waited too long is late; a replay never is.
            let is_replay = decision.metadata.replay_of.is_some();
            assert!(is_replay, "{source} {id}: {decision:?}");
            assert!(decision.changes.is_empty() && decision.receipt.is_none());
            *self.counts.entry("replayed".to_owned()).or_default() += 1;
            return;
        }
        if self.dice.one_in(6) {
            return self.settle(naive);
        }
        let (asked, task) = self.draw();
        let mut body = task.body();
        if !asked.has_causality {
            body["envelope"]
                .as_object_mut()
                .unwrap()
                .remove("causality");
        }
        let action = format!("admission.{}", asked.way);
        let request = self
            .gate
            .prepared(&asked.source, &task.id, &action, &body.to_string(), None);
        let line = self.gate.seq;
        let decision = self.gate.decide(&request);
        check_receipt(&decision);
        let said = match (&decision.receipt, &decision.metadata.code) {
            (Some(receipt), _) => match receipt.rejection_reason_code {
                None => Said::Allowed,
                Some(reason) => Said::Denied(reason.name()),
            },
            (None, Some(code)) => {
                assert_eq!(json!(code), "REQUEST_ID_CONFLICT");
                Said::Taken
            }
            (None, None) => panic!("no receipt: {decision:?}"),
        };
        *self.counts.entry(said.name().to_owned()).or_default() += 1;
        if let Some(naive) = naive {
            let expected = naive.decide(&asked, &task, line, self.gate.now.ms());
            assert_eq!(said, expected, "line {line}: {asked:?} {task:?}");
            let budget = reserved(&decision).map(|task| task.budget);
            assert_eq!(budget, naive.reserved_budget(line), "line {line}");
        }
        if said != Said::Taken {
            self.sent
                .push((asked.source.clone(), task.id.clone(), request));
        }
        // Replays come soon or not at all, so that the list does not grow.
        if self.sent.len() > 500 {
            self.sent.swap_remove(0);
        }
        if reserved(&decision).is_some() {
            let own = AGENTS.iter().find(|(name, ..)| *name == asked.source);
            self.lines.push((line, own.unwrap().0));
        }
        self.admitted
            .extend(reserved(&decision).map(|admitted| (admitted.clone(), task.domain.clone())));
    }

    /// Checks what holds for all trees together, counted anew from the admitted tasks.
    fn check(&self) {
        let limits: HashMap<&str, Value> = PROFILES
            .iter()
            .map(|(name, text)| (*name, serde_yaml::from_str(text).unwrap()))
            .collect();
        let at_most = |profile: &str, key: &str| limits[profile][key].as_u64().unwrap_or(u64::MAX);
        let mut trees: HashMap<(&str, &str), Vec<&(Admitted, String)>> = HashMap::new();
        for entry in &self.admitted {
            trees
                .entry((entry.0.tenant.as_str(), entry.0.root.as_str()))
                .or_default()
                .push(entry);
        }
        let (mut largest, mut deepest) = (0, 0);
        for tasks in trees.values() {
            let (root, issued_by) = tasks[0];
            assert!(root.parent.is_none() && root.depth == 0 && root.opened_by.is_some());
            assert!(
                tasks.len() as u64 <= at_most(issued_by, "recursion_budget"),
                "{root:?}"
            );
            let mut depths: HashMap<&str, u64> = HashMap::new();
            let mut repeats: HashMap<String, u64> = HashMap::new();
            for (place, (task, profile)) in tasks.iter().enumerate() {
                let depth = match &task.parent {
                    None => 0,
                    Some(parent) => depths[parent.as_str()] + 1,
                };
                assert_eq!(
                    (task.depth, task.parent.is_none()),
                    (depth, place == 0),
                    "{task:?}"
                );
                assert!(depth < at_most(profile, "max_spawn_depth"), "{task:?}");
                assert!(
                    place as u64 <= at_most(profile, "max_total_descendants"),
                    "{task:?}"
                );
                let folded = task.capability.as_str().to_ascii_lowercase();
                let same = repeats.entry(folded).or_default();
                *same += 1;
                assert!(
                    *same <= at_most(profile, "max_repeats_per_capability"),
                    "{task:?}"
                );
                assert_eq!(
                    (task.repeats, task.descendants),
                    (*same, place as u64),
                    "{task:?}"
                );
                assert!(task.budget.is_none_or(|left| left >= 0), "{task:?}");
                assert!(
                    depths.insert(task.task.as_str(), depth).is_none(),
                    "{task:?} twice"
                );
                deepest = deepest.max(depth);
            }
            largest = largest.max(tasks.len());
        }
        for (name, _, roots) in AGENTS {
            let opened = self.admitted.iter().filter(|(task, _)| {
                task.opened_by
                    .as_ref()
                    .is_some_and(|principal| principal.as_str() == name)
            });
            let times: Vec<i64> = opened.map(|(task, _)| task.at.ms()).collect();
            let span = usize::try_from(roots).unwrap();
            assert!(
                times
                    .windows(span + 1)
                    .all(|times| times[span] - times[0] >= 3_600_000),
                "{name}"
            );
        }
        self.check_receipts();
        println!(
            "{} trees, {} tasks, the largest {largest}, {deepest} deep",
            trees.len(),
            self.admitted.len()
        );
    }

    /// Checks that every admitted task has exactly one receipt, and every receipt of a task its
    /// task.
    fn check_receipts(&self) {
        let ids: BTreeSet<&str> = self
            .gate
            .receipts
            .iter()
            .map(|receipt| receipt.receipt_id.as_str())
            .collect();
        assert_eq!(ids.len(), self.gate.receipts.len());
        let mut of_tasks: HashMap<(&str, &str, &str), u64> = HashMap::new();
        for receipt in &self.gate.receipts {
            let Some(root) = receipt.root_task_id.as_deref() else {
                continue;
            };
            if receipt.rejection_reason_code.is_none() && !receipt.dry_run {
                let tenant = receipt.tenant_id.as_deref().unwrap();
                *of_tasks
                    .entry((tenant, root, receipt.request_id.as_str()))
                    .or_default() += 1;
            }
        }
        assert!(of_tasks.values().all(|count| *count == 1));
        assert_eq!(of_tasks.len(), self.admitted.len());
        for (task, _) in &self.admitted {
            assert!(of_tasks.contains_key(&(
                task.tenant.as_str(),
                task.root.as_str(),
                task.task.as_str()
            )));
        }
    }
}

fn grow(seed: u64, asked: u64) -> Swarm {
    let begun = Instant::now();
    let mut swarm = Swarm::new(seed);
    (0..asked).for_each(|_| swarm.step(None));
    println!(
        "{asked} asked in {:.1} s: {:?}",
        begun.elapsed().as_secs_f32(),
        swarm.counts
    );
    swarm.check();
    swarm
}

#[test]
fn a_naive_model_decides_the_same() {
    let mut swarm = Swarm::new(1);
    let mut naive = Naive::default();
    (0..5_000).for_each(|_| swarm.step(Some(&mut naive)));
    println!("{:?}", swarm.counts);
    swarm.check();
    for reason in naive::REASONS {
        assert!(
            swarm.counts.contains_key(*reason),
            "nobody was ever denied for {reason}: {:?}",
            swarm.counts
        );
    }
    assert!(swarm.admitted.len() > 1000, "{:?}", swarm.counts);
}

#[test]
fn no_claim_gets_past_a_limit() {
    let swarm = grow(2, 5_000);
    assert!(swarm.admitted.len() > 1000);
}

#[test]
#[ignore = "minutes without optimisation"]
fn a_hundred_thousand_tasks() {
    let swarm = grow(3, 100_000);
    assert!(swarm.admitted.len() > 20_000);
}
