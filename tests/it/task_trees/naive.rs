//! Admission a second time, from docs/admission.md alone: flat lists, depths by walking parents,
//! counts by scanning all tasks.

use std::collections::HashMap;

use serde_json::Value;

use super::{AGENTS, PROFILES};
use crate::kit::tasks::Task;

/// The reasons that the naive model knows.
pub(super) const REASONS: &[&str] = &[
    "leases_exceeded",
    "domain_denied",
    "policy_unavailable",
    "unknown_parent",
    "profile_mismatch",
    "unknown_receipt",
    "task_exists",
    "roots_exceeded",
    "depth_mismatch",
    "budget_exhausted",
    "tree_expired",
    "money_exhausted",
    "tokens_exhausted",
    "depth_exceeded",
    "descendants_exceeded",
    "repeats_exceeded",
    "ancestor_window_violated",
    "capability_denied",
    "target_denied",
];

/// Which principal sends a request, and how.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub source: String,
    /// `admit`, `evaluate` or `check`.
    pub way: String,
    /// A lease may come without causality.
    pub has_causality: bool,
}

/// The outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    Allowed,
    Denied(&'static str),
    /// The id was used before.
    Taken,
}

impl Said {
    pub(super) fn name(self) -> &'static str {
        match self {
            Said::Allowed => "allowed",
            Said::Denied(reason) => reason,
            Said::Taken => "taken",
        }
    }
}

struct Node {
    tenant: String,
    root: String,
    id: String,
    /// The index of its parent.
    parent: Option<usize>,
    capability: String,
    claim: Option<i64>,
    profile: String,
    line: u64,
    source: String,
    at: i64,
    /// Cents and tokens that count as spent.
    counted: [i64; 2],
    raises: u32,
    is_final: bool,
}

/// The outcome of a settlement: what is left of money in cents, and of tokens.
pub(super) type Settled = Result<[Option<i64>; 2], &'static str>;

/// The keys of a profile about money, in cents, and about tokens.
const FUNDS: [(&str, &str); 2] = [
    ("budget_usd", "reserve_usd"),
    ("budget_tokens", "reserve_tokens"),
];

/// Returns a number of a profile; money, which has two decimals there, in cents.
fn number(limits: &HashMap<String, Value>, key: &str) -> Option<i64> {
    let text = limits.get(key)?.to_string();
    text.trim_matches('"').replace('.', "").parse().ok()
}

#[derive(Default)]
pub(super) struct Naive {
    nodes: Vec<Node>,
    used: Vec<(String, String)>,
    opened: Vec<(String, i64)>,
    leased: Vec<(String, String, i64)>,
}

fn limits(profile: &str) -> Option<HashMap<String, Value>> {
    let (_, text) = PROFILES.iter().find(|(name, _)| *name == profile)?;
    Some(serde_yaml::from_str(text).unwrap())
}

fn listed(limits: &HashMap<String, Value>, key: &str, name: &str) -> Option<bool> {
    limits.get(key).map(|list| {
        list.as_array()
            .unwrap()
            .iter()
            .any(|entry| entry.as_str().unwrap().eq_ignore_ascii_case(name))
    })
}

fn is_stray(task: &Task, limits: &HashMap<String, Value>) -> bool {
    let target = task.payload["target"].as_str();
    match (limits.get("allowed_targets"), target) {
        (None, _) => false,
        (Some(_), None) => true,
        (Some(list), Some(target)) => !list.as_array().unwrap().iter().any(|it| it == target),
    }
}

impl Naive {
    fn tree(&self, tenant: &str, root: &str) -> Vec<&Node> {
        self.nodes
            .iter()
            .filter(|node| node.tenant == tenant && node.root == root)
            .collect()
    }

    /// Computes the budget from the first task on.
    fn budget(&self, tenant: &str, root: &str) -> Option<i64> {
        let mut left: Option<i64> = None;
        let tree = self.tree(tenant, root);
        for node in &tree {
            let issued = limits(&node.profile)
                .unwrap()
                .get("recursion_budget")
                .and_then(Value::as_i64);
            let held = left.or(issued);
            // Only who opened the tree lowers its budget.
            let claim = node.claim.filter(|_| node.source == tree[0].source);
            left = match (held, claim) {
                (Some(held), Some(claim)) => Some(held.min(claim) - 1),
                (Some(one), None) | (None, Some(one)) => Some(one - 1),
                (None, None) => None,
            };
        }
        left
    }

    /// Returns what is left of a tree's budget of money (0) or of tokens (1).
    fn funds(&self, tenant: &str, root: &str, which: usize) -> Option<i64> {
        let tree = self.tree(tenant, root);
        let issued = number(&limits(&tree.first()?.profile).unwrap(), FUNDS[which].0)?;
        Some(issued - tree.iter().map(|node| node.counted[which]).sum::<i64>())
    }

    /// Returns what a task reserves, of money in cents and of tokens.
    fn reserves(task: &Task) -> [i64; 2] {
        let limits = limits(&task.domain).unwrap();
        [0, 1].map(|which| {
            let Some(least) = number(&limits, FUNDS[which].1) else {
                return 0;
            };
            let own = &task.payload["budget"][["usd", "tokens"][which]];
            let own = own.to_string().trim_matches('"').replace('.', "").parse();
            least.max(own.unwrap_or(0))
        })
    }

    /// Settles the task that a line admitted, with cents and tokens.
    pub(super) fn settle(&mut self, source: &str, id: &str, line: u64, spent: [i64; 2]) -> Settled {
        self.used.push((source.to_owned(), id.to_owned()));
        let node = self.nodes.iter_mut().find(|node| node.line == line);
        let Some(node) = node else {
            return Err("NOT_PERMITTED");
        };
        let settlers = limits(&node.profile).unwrap();
        let is_settler = listed(&settlers, "settlers", source) == Some(true);
        if !is_settler && node.source != source {
            return Err("NOT_PERMITTED");
        }
        if node.is_final {
            return Err("STATE_CONFLICT");
        }
        if !is_settler {
            let is_less = spent.iter().zip(node.counted).any(|(new, old)| *new < old);
            if is_less || node.raises == 8 {
                return Err("NOT_PERMITTED");
            }
            node.raises += 1;
        }
        (node.counted, node.is_final) = (spent, is_settler);
        let (tenant, root) = (node.tenant.clone(), node.root.clone());
        Ok([0, 1].map(|which| self.funds(&tenant, &root, which)))
    }

    /// Returns what is left after the task of this line.
    pub(super) fn reserved_budget(&self, line: u64) -> Option<Option<i64>> {
        let node = self.nodes.last().filter(|node| node.line == line)?;
        Some(self.budget(&node.tenant, &node.root))
    }

    fn ancestors(&self, from: usize) -> Vec<&str> {
        let mut found = Vec::new();
        let mut at = Some(from);
        while let Some(place) = at {
            found.push(self.nodes[place].capability.as_str());
            at = self.nodes[place].parent;
        }
        found
    }

    pub(super) fn decide(&mut self, asked: &Asked, task: &Task, line: u64, now_ms: i64) -> Said {
        let key = (asked.source.clone(), task.id.clone());
        if self.used.contains(&key) {
            return Said::Taken;
        }
        self.used.push(key);
        match self.fault(asked, task, now_ms) {
            Some(reason) => Said::Denied(reason),
            None => {
                if asked.has_causality && asked.way != "check" {
                    self.admit(asked, task, line, now_ms);
                } else if asked.way != "check" {
                    let domain = task.domain.clone();
                    self.leased.push((asked.source.clone(), domain, now_ms));
                }
                Said::Allowed
            }
        }
    }

    fn place(&self, task: &Task, tenant: &str) -> Option<usize> {
        let named = task.parent.as_deref()?;
        self.nodes.iter().position(|node| {
            let is_root = node.parent.is_none() && named == task.root;
            node.tenant == tenant && node.root == task.root && (node.id == named || is_root)
        })
    }

    fn admit(&mut self, asked: &Asked, task: &Task, line: u64, now_ms: i64) {
        let tenant = task.domain.split('/').next().unwrap().to_owned();
        let parent = self.place(task, &tenant);
        if parent.is_none() {
            self.opened.push((asked.source.clone(), now_ms));
        }
        self.nodes.push(Node {
            tenant,
            root: task.root.clone(),
            id: task.id.clone(),
            parent,
            capability: task.capability.clone(),
            claim: task.budget.as_ref().and_then(Value::as_i64),
            profile: task.domain.clone(),
            line,
            source: asked.source.clone(),
            at: now_ms,
            counted: Self::reserves(task),
            raises: 0,
            is_final: false,
        });
    }

    /// Returns why a lease without causality is denied.
    fn lease_fault(
        &self,
        asked: &Asked,
        task: &Task,
        limits: &HashMap<String, Value>,
        now_ms: i64,
    ) -> Option<&'static str> {
        let max = limits.get("leases_per_hour").and_then(Value::as_u64);
        let recent = self.leased.iter().filter(|(who, domain, at)| {
            *who == asked.source && *domain == task.domain && now_ms - at < 3_600_000
        });
        (recent.count() as u64 >= max.unwrap_or(0)).then_some("leases_exceeded")
    }

    /// Returns why the age or the funds of its tree deny a task.
    fn spending_fault(
        &self,
        task: &Task,
        tenant: &str,
        limits: &HashMap<String, Value>,
        now_ms: i64,
    ) -> Option<&'static str> {
        let tree = self.tree(tenant, &task.root);
        let opened = tree.first().map_or(now_ms, |node| node.at);
        if limits
            .get("max_tree_age_s")
            .and_then(Value::as_u64)
            .is_some_and(|max| now_ms - opened > max as i64 * 1000)
        {
            return Some("tree_expired");
        }
        let reserves = Self::reserves(task);
        for (which, reason) in ["money_exhausted", "tokens_exhausted"]
            .into_iter()
            .enumerate()
        {
            let left = match tree.is_empty() {
                true => number(limits, FUNDS[which].0),
                false => self.funds(tenant, &task.root, which),
            };
            if left.is_some_and(|left| reserves[which] > left) {
                return Some(reason);
            }
        }
        None
    }

    fn fault(&self, asked: &Asked, task: &Task, now_ms: i64) -> Option<&'static str> {
        let (_, domains, roots) = AGENTS
            .iter()
            .find(|(name, ..)| *name == asked.source)
            .unwrap();
        if !domains.contains(&task.domain.as_str()) {
            return Some("domain_denied");
        }
        let Some(limits) = limits(&task.domain) else {
            return Some("policy_unavailable");
        };
        let limit = |key: &str| limits.get(key).and_then(Value::as_u64);
        let is_stray = is_stray(task, &limits);
        if !asked.has_causality {
            let lease = self.lease_fault(asked, task, &limits, now_ms);
            return lease.or(is_stray.then_some("target_denied"));
        }
        let tenant = task.domain.split('/').next().unwrap();
        let tree = self.tree(tenant, &task.root);
        let is_root = task.parent.is_none();
        let parent = self.place(task, tenant);
        if !is_root && parent.is_none() {
            return Some("unknown_parent");
        }
        if !is_root && tree[0].profile != task.domain {
            return Some("profile_mismatch");
        }
        if let Some(cause) = task.cause.as_ref().and_then(Value::as_str) {
            let is_of_tree = tree.iter().any(|node| format!("r-{}", node.line) == cause);
            if is_root || !is_of_tree {
                return Some("unknown_receipt");
            }
        }
        let taken = tree.iter().any(|node| node.id == task.id) || task.id == task.root;
        if is_root && !tree.is_empty() || !is_root && taken {
            return Some("task_exists");
        }
        if is_root {
            let recent = self
                .opened
                .iter()
                .filter(|(who, at)| *who == asked.source && now_ms - at < 3_600_000);
            if recent.count() as u64 >= *roots {
                return Some("roots_exceeded");
            }
        }
        let above = parent
            .map(|place| self.ancestors(place))
            .unwrap_or_default();
        if task
            .depth
            .as_ref()
            .is_some_and(|claim| claim.as_i64() != Some(above.len() as i64))
        {
            return Some("depth_mismatch");
        }
        let issued = limit("recursion_budget").map(|budget| budget as i64);
        let held = self.budget(tenant, &task.root).or(issued);
        let claim = task.budget.as_ref().and_then(Value::as_i64);
        if [held, claim].iter().flatten().any(|left| *left <= 0) {
            return Some("budget_exhausted");
        }
        let spending = self.spending_fault(task, tenant, &limits, now_ms);
        if spending.is_some() {
            return spending;
        }
        if above.len() as u64 >= limit("max_spawn_depth").unwrap() {
            return Some("depth_exceeded");
        }
        if !is_root && limit("max_total_descendants").is_some_and(|max| tree.len() as u64 > max) {
            return Some("descendants_exceeded");
        }
        let same = tree
            .iter()
            .filter(|node| node.capability.eq_ignore_ascii_case(&task.capability))
            .count() as u64;
        if limit("max_repeats_per_capability").is_some_and(|max| same >= max) {
            return Some("repeats_exceeded");
        }
        if let (Some(max), Some(size)) = (
            limit("max_repeats_in_ancestor_window"),
            limit("ancestor_window_size"),
        ) {
            let near = above
                .iter()
                .take(size as usize)
                .filter(|other| other.eq_ignore_ascii_case(&task.capability))
                .count();
            if near as u64 >= max {
                return Some("ancestor_window_violated");
            }
        }
        let is_denied = listed(&limits, "capability_denylist", &task.capability) == Some(true);
        let is_left_out = listed(&limits, "capability_allowlist", &task.capability) == Some(false);
        if is_denied || is_left_out {
            return Some("capability_denied");
        }
        is_stray.then_some("target_denied")
    }
}
