//! The checks, in the order of [`Reason`]. All that can be computed are; the first that fails is the reason.

use std::borrow::Cow;

use super::lineage::{Admitted, Lineage, Reported};
use super::receipt::{Counters, Reason};
use crate::rules::admission::{Grant, Profile};
use crate::wire::admission::{Causality, Domain, LEASE};
use crate::wire::amount::Amount;
use crate::wire::ids::{Principal, RequestId};
use crate::wire::orders::CheckResult;
use crate::wire::time::Time;

/// Source of what a key may.
const PRINCIPALS: &str = "principals.yaml";
/// Source of what the ledger says.
const STATE: &str = "state";
/// Source of what the contract says.
const CONTRACT: &str = "contract";

/// What a task is measured by: what people wrote, and what a command delivered besides. Both hold.
#[derive(Clone, Copy, Debug)]
pub struct Limits<'a> {
    /// Of the policy file.
    pub file: &'a Profile,
    /// Of its command.
    pub delivered: Option<&'a Profile>,
}

/// One task that asks to be admitted.
#[derive(Clone, Debug)]
pub struct Question<'a> {
    /// Who signed.
    pub source: &'a Principal,
    /// The task's id: that of the signed request.
    pub task: &'a RequestId,
    /// Where.
    pub domain: &'a Domain,
    /// What kind of work.
    pub payload_kind: &'a str,
    /// Size of the payload's text, bytes.
    pub payload_bytes: u64,
    /// What it is for.
    pub target: Option<&'a str>,
    /// Size of the artifact that it declares, bytes.
    pub artifact_size_bytes: Option<u64>,
    /// Where it stands in its tree.
    pub causality: Option<&'a Causality>,
    /// What the key may.
    pub grant: Option<&'a Grant>,
    /// The limits, or why there are none.
    pub policy: Result<Limits<'a>, String>,
    /// What the ledger says.
    pub lineage: &'a Lineage,
    /// What a lineage command says.
    pub reported: Option<&'a Reported>,
    /// Roots that the key has opened within the last hour.
    pub roots_in_hour: u64,
    /// The gate's clock.
    pub now: Time,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluation {
    /// The check vector.
    pub rows: Vec<CheckResult>,
    /// Why it is denied; none: it is allowed.
    pub denied: Option<(Reason, String)>,
    /// What it was decided on: nothing of this task is in it yet.
    pub counters: Counters,
    /// What an ALLOW reserves; none without causality, of which there is no lineage.
    pub admitted: Option<Admitted>,
}

/// The rows in the making.
#[derive(Default)]
struct Rows {
    rows: Vec<CheckResult>,
    denied: Option<(Reason, String)>,
}

impl Rows {
    /// A yes or no: the fault, if there is one.
    fn yes_no(&mut self, reason: Reason, fault: Option<String>, source: impl Into<Cow<'static, str>>) {
        let value = Some(if fault.is_some() { Amount::ZERO } else { Amount::ONE });
        self.push(reason, value, Some(Amount::ONE), "bool", source.into(), fault);
    }

    /// A count against a limit; one that nobody knows has failed.
    fn count(
        &mut self,
        reason: Reason,
        value: Option<u64>,
        limit: u64,
        passes: impl Fn(u64) -> bool,
        source: Cow<'static, str>,
    ) {
        let fault = match value {
            Some(value) if passes(value) => None,
            Some(value) => Some(format!("{value} against a limit of {limit}")),
            None => Some("cannot be computed: where the task stands is not known".to_owned()),
        };
        self.push(reason, value.and_then(amount), amount(limit), "count", source, fault);
    }

    fn push(
        &mut self,
        reason: Reason,
        value: Option<Amount>,
        limit: Option<Amount>,
        unit: &'static str,
        source: Cow<'static, str>,
        fault: Option<String>,
    ) {
        let passed = fault.is_none();
        if let (None, Some(fault)) = (&self.denied, &fault) {
            self.denied = Some((reason, fault.clone()));
        }
        let (check_name, unit) = (Cow::Borrowed(reason.name()), Cow::Borrowed(unit));
        let reason = fault.map(Cow::Owned);
        self.rows.push(CheckResult { check_name, passed, value, limit, source, unit, reason });
    }

    fn done(self, counters: Counters, admitted: Option<Admitted>) -> Evaluation {
        let admitted = admitted.filter(|_| self.denied.is_none());
        Evaluation { rows: self.rows, denied: self.denied, counters, admitted }
    }
}

fn amount(count: u64) -> Option<Amount> {
    i64::try_from(count).ok().map(Amount::from_i64)
}

/// What is said of a body that cannot be read: nothing else of it can be computed.
pub fn unreadable(fault: &str) -> Evaluation {
    let mut rows = Rows::default();
    rows.yes_no(Reason::MissingFields, Some(fault.to_owned()), CONTRACT);
    rows.done(Counters::default(), None)
}

/// What is said of a request whose key names no domain: there is none to look at it in.
pub fn homeless(source: &Principal) -> Evaluation {
    let mut rows = Rows::default();
    rows.yes_no(Reason::MissingFields, None, CONTRACT);
    let fault = format!("`{source}` has no domain; a person may grant one (`admission`)");
    rows.yes_no(Reason::DomainDenied, Some(fault), PRINCIPALS);
    rows.done(Counters::default(), None)
}

/// Decides whether a task may come into being.
pub fn evaluate(question: &Question<'_>) -> Evaluation {
    let mut rows = Rows::default();
    rows.yes_no(Reason::MissingFields, None, CONTRACT);
    let needs_causality = question.payload_kind != LEASE;
    let missing = (needs_causality && question.causality.is_none())
        .then(|| format!("a `{}` needs causality", question.payload_kind));
    rows.yes_no(Reason::MissingCausality, missing, CONTRACT);
    let stranger = domain_fault(question);
    let path = format!("rules/admission/{}.yaml", question.domain);
    rows.yes_no(Reason::DomainDenied, stranger.clone(), PRINCIPALS);
    rows.yes_no(Reason::PolicyUnavailable, question.policy.as_ref().err().cloned(), path.clone());
    // Without the right or a policy there is nothing to measure by, and nothing of the tree is told.
    let (Ok(limits), None) = (&question.policy, stranger) else {
        return rows.done(Counters::default(), None);
    };
    let limits = limits.each();
    let mut counters = Counters::default();
    let mut admitted = None;
    if let Some(causality) = question.causality {
        (counters, admitted) = place(&mut rows, question, causality, &limits, &path);
    }
    lists(&mut rows, question, &limits, &path);
    rows.done(counters, admitted)
}

impl<'a> Limits<'a> {
    fn each(self) -> Vec<&'a Profile> {
        [Some(self.file), self.delivered].into_iter().flatten().collect()
    }
}

fn domain_fault(question: &Question<'_>) -> Option<String> {
    let holds = question.grant.is_some_and(|grant| grant.domains.contains(question.domain));
    (!holds).then(|| format!("`{}` may not speak for {}", question.source, question.domain))
}

/// The strictest of a limit.
fn least(limits: &[&Profile], of: impl Fn(&Profile) -> Option<u64>) -> Option<u64> {
    limits.iter().filter_map(|profile| of(profile)).min()
}

/// Where the task stands in its tree, and whether there is room.
fn place(
    rows: &mut Rows,
    question: &Question<'_>,
    causality: &Causality,
    limits: &[&Profile],
    path: &str,
) -> (Counters, Option<Admitted>) {
    let Question { lineage, reported, .. } = *question;
    let (root, source) = (&causality.root_task_id, || Cow::Owned(path.to_owned()));
    let is_root = causality.parent_task_id.is_none();
    let orphan = causality
        .parent_task_id
        .as_ref()
        .filter(|_| lineage.parent.is_none())
        .map(|parent| format!("`{parent}` is not a task of `{root}`"));
    rows.yes_no(Reason::UnknownParent, orphan, STATE);
    let cause = causality.caused_by_receipt_id.as_ref().filter(|_| is_root || !lineage.has_cause);
    let cause = cause.map(|receipt| match is_root {
        true => format!("a root names no receipt: `{receipt}` is of another tree, whose task it would be"),
        false => format!("`{receipt}` is not the receipt of a task of `{root}`"),
    });
    rows.yes_no(Reason::UnknownReceipt, cause, STATE);
    let taken = if is_root {
        lineage.tree.is_some().then(|| format!("`{root}` was opened before"))
    } else {
        lineage.is_taken.then(|| format!("`{}` is a task of `{root}` already", question.task))
    };
    rows.yes_no(Reason::TaskExists, taken, STATE);
    if is_root {
        let roots = question.grant.and_then(|grant| grant.roots_per_hour).map_or(0, |roots| roots.get());
        let roots = u64::from(roots);
        let opened = Some(question.roots_in_hour);
        rows.count(Reason::RootsExceeded, opened, roots, |n| n < roots, PRINCIPALS.into());
    }
    let derived = if is_root { Some(0) } else { lineage.parent.as_ref().map(|p| p.depth.saturating_add(1)) };
    depth_claim(rows, derived, causality.spawn_depth);
    let (left, after) = budget(question, causality, limits);
    if let Some(left) = left {
        let fault = (left <= 0).then(|| format!("{left} left of the tree's budget"));
        let (value, limit) = (Some(Amount::from_i64(left)), Some(Amount::ONE));
        rows.push(Reason::BudgetExhausted, value, limit, "count", Cow::Borrowed(STATE), fault);
    }
    let higher = |known: u64, told: Option<u32>| known.max(told.map_or(0, u64::from));
    let depth = derived.map(|depth| higher(depth, reported.and_then(|told| told.current_depth)));
    if let Some(max) = least(limits, |profile| Some(u64::from(profile.max_spawn_depth.get()))) {
        rows.count(Reason::DepthExceeded, depth, max, |n| n < max, source());
    }
    let below = lineage.tree.as_ref().map(|tree| tree.descendants);
    let descendants = if is_root { Some(0) } else { below }
        .map(|known| higher(known, reported.and_then(|told| told.total_descendants)));
    // A root is nobody's descendant.
    let max = least(limits, |profile| profile.max_total_descendants).filter(|_| !is_root);
    if let Some(max) = max {
        rows.count(Reason::DescendantsExceeded, descendants, max, |n| n < max, source());
    }
    let repeats = higher(lineage.repeats, reported.and_then(|told| told.capability_repeat_count));
    if let Some(max) = least(limits, |profile| profile.max_repeats_per_capability.map(|n| n.get())) {
        rows.count(Reason::RepeatsExceeded, Some(repeats), max, |n| n < max, source());
    }
    let ancestor_repeats = window(rows, question, causality, limits, path);
    let counters = Counters {
        spawn_depth: depth,
        total_descendants: descendants,
        capability_repeats: Some(repeats),
        ancestor_repeats,
        recursion_budget_remaining: left,
    };
    let admitted = derived.map(|depth| Admitted {
        tenant: question.domain.tenant.clone(),
        root: root.clone(),
        task: question.task.clone(),
        parent: lineage.parent.as_ref().map(|parent| parent.task.clone()),
        depth,
        capability: causality.capability_id.clone(),
        repeats: lineage.repeats.saturating_add(1),
        descendants: if is_root { 0 } else { below.unwrap_or(0).saturating_add(1) },
        budget: after,
        opened_by: is_root.then(|| question.source.clone()),
        at: question.now,
    });
    (counters, admitted)
}

fn depth_claim(rows: &mut Rows, derived: Option<u64>, claim: Option<i64>) {
    let Some(claim) = claim else { return };
    let fault = match derived {
        Some(derived) if i64::try_from(derived) == Ok(claim) => None,
        Some(derived) => Some(format!("claimed {claim}, the ledger says {derived}")),
        None => Some("cannot be computed: where the task stands is not known".to_owned()),
    };
    let limit = derived.and_then(amount);
    rows.push(
        Reason::DepthMismatch,
        Some(Amount::from_i64(claim)),
        limit,
        "count",
        Cow::Borrowed(STATE),
        fault,
    );
}

/// What is left of the budget before and after this task. Issued by the policy when the tree has none; a claim may only
/// lower it.
fn budget(question: &Question<'_>, causality: &Causality, limits: &[&Profile]) -> (Option<i64>, Option<i64>) {
    let issued = || least(limits, |profile| profile.recursion_budget.map(|budget| budget.get()));
    let issued = || issued().and_then(|budget| i64::try_from(budget).ok());
    let held = question.lineage.tree.as_ref().and_then(|tree| tree.budget).or_else(issued);
    let left = [held, causality.recursion_budget_remaining].into_iter().flatten().min();
    (left, left.map(|left| left.saturating_sub(1)))
}

/// How often the capability stands among the nearest ancestors: the row shows the window that is fullest.
fn window(
    rows: &mut Rows,
    question: &Question<'_>,
    causality: &Causality,
    limits: &[&Profile],
    path: &str,
) -> Option<u64> {
    let told = question.reported.map(|told| told.ancestor_capability_ids.as_slice()).unwrap_or_default();
    let count = |ancestors: &[crate::wire::ids::Capability], size: usize| {
        let same = ancestors.iter().take(size).filter(|other| **other == causality.capability_id);
        u64::try_from(same.count()).unwrap_or(u64::MAX)
    };
    let fullest = limits
        .iter()
        .filter_map(|profile| {
            let max = profile.max_repeats_in_ancestor_window?.get();
            let size = usize::try_from(profile.ancestor_window_size?.get()).unwrap_or(usize::MAX);
            Some((count(&question.lineage.ancestors, size).max(count(told, size)), max))
        })
        .min_by_key(|(found, max)| i128::from(*max).saturating_sub(i128::from(*found)))?;
    let (found, max) = fullest;
    rows.count(Reason::AncestorWindowViolated, Some(found), max, |n| n < max, Cow::Owned(path.to_owned()));
    Some(found)
}

/// What the policy lists, and sizes.
fn lists(rows: &mut Rows, question: &Question<'_>, limits: &[&Profile], path: &str) {
    if let Some(Causality { capability_id: capability, .. }) = question.causality {
        let is_denied = limits
            .iter()
            .filter_map(|p| p.capability_denylist.as_ref())
            .any(|list| list.contains(capability));
        let mut allowlists = limits.iter().filter_map(|profile| profile.capability_allowlist.as_ref());
        let is_left_out = allowlists.any(|list| !list.contains(capability));
        let fault = match (is_denied, is_left_out) {
            (true, _) => Some(format!("`{capability}` is on the denylist")),
            (false, true) => Some(format!("`{capability}` is not on the allowlist")),
            (false, false) => None,
        };
        rows.yes_no(Reason::CapabilityDenied, fault, path.to_owned());
    }
    let mut targets = limits.iter().filter_map(|profile| profile.allowed_targets.as_ref());
    let stranger =
        question.target.filter(|target| targets.any(|list| !list.iter().any(|name| name == target)));
    let fault = stranger.map(|_| "the payload's target is not among allowed_targets".to_owned());
    rows.yes_no(Reason::TargetDenied, fault, path.to_owned());
    if let Some(max) = least(limits, |profile| profile.max_artifact_size_bytes) {
        let size = question.artifact_size_bytes.unwrap_or(0).max(question.payload_bytes);
        let fault = (size > max).then(|| format!("{size} bytes against a limit of {max}"));
        let source = Cow::Owned(path.to_owned());
        rows.push(Reason::ArtifactTooLarge, amount(size), amount(max), "bytes", source, fault);
    }
    let may_spawn = limits.iter().all(|profile| profile.can_spawn);
    let spawns = (!may_spawn && question.payload_kind != LEASE)
        .then(|| format!("can_spawn is false, and a `{}` is no lease", question.payload_kind));
    rows.yes_no(Reason::InvariantViolation, spawns, path.to_owned());
}
