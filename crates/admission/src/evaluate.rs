//! The checks of admission, in the order of [`Reason`]. All checks that can be computed run; the
//! first one that fails is the reason of a DENY.

use std::borrow::Cow;

use super::lineage::{Admitted, Change, Leased, Lineage, Reported};
use super::receipt::{Counters, Reason};
use super::spending;
use spoolgate_rules::admission::{Grant, Profile, TARGET_POINTER};
use spoolgate_wire::admission::{Causality, Domain, LEASE};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::checks::CheckRow;
use spoolgate_wire::ids::{Capability, Principal, RequestId};
use spoolgate_wire::sealed::value_at;
use spoolgate_wire::time::Time;

/// Source of rows about the rights of a principal.
const PRINCIPALS: &str = "principals.yaml";
/// Source of rows about the ledger.
const STATE: &str = "state";
/// Source of rows about the contract.
const CONTRACT: &str = "contract";

/// The limits of a task: the profile in the policy file, and the profile that a command
/// delivered. Both apply.
#[derive(Clone, Copy, Debug)]
pub struct Limits<'a> {
    /// The profile in the policy file.
    pub file: &'a Profile,
    /// The profile that its command delivered.
    pub delivered: Option<&'a Profile>,
}

/// Why no limits can be applied to a task.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoLimits<'a> {
    /// The rule files cannot be used, for this reason.
    #[error("the rule files cannot be used: {0}")]
    RuleFiles(&'a str),
    /// The domain has no policy file.
    #[error("`rules/admission/{0}.yaml` does not exist")]
    NoPolicy(&'a Domain),
    /// The answer of the policy command is missing.
    #[error("the policy command has not answered")]
    PolicyNotAnswered,
    /// The answer of the lineage command is missing.
    #[error("the lineage command has not answered")]
    LineageNotAnswered,
    /// A command failed for this reason.
    #[error("{0}")]
    Command(&'a str),
}

/// A task that requests admission.
#[derive(Clone, Debug)]
pub struct Question<'a> {
    /// The sender.
    pub source: &'a Principal,
    /// The task's id, which is the id of the signed request.
    pub task: &'a RequestId,
    /// The domain.
    pub domain: &'a Domain,
    /// The kind of work.
    pub payload_kind: &'a str,
    /// The payload's text without insignificant white space.
    pub payload: &'a str,
    /// Size of the artifact that the payload declares, bytes.
    pub artifact_size_bytes: Option<u64>,
    /// The task's position in its tree, as claimed.
    pub causality: Option<&'a Causality>,
    /// What the principal may have admitted.
    pub grant: Option<&'a Grant>,
    /// The limits, or why there are none.
    pub policy: Result<Limits<'a>, NoLimits<'a>>,
    /// The task's lineage according to the ledger.
    pub lineage: &'a Lineage,
    /// The lineage that a command reported.
    pub reported: Option<&'a Reported>,
    /// Roots that the principal opened within the last hour.
    pub roots_in_hour: u64,
    /// Leases without causality that the principal had admitted in this domain within the last
    /// hour.
    pub leases_in_hour: u64,
    /// The gate's clock.
    pub now: Time,
}

/// The result of evaluating a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluation {
    /// The check vector.
    pub rows: Vec<CheckRow>,
    /// Why it is denied; `None` if it is allowed.
    pub denied: Option<(Reason, String)>,
    /// The counts that the decision is based on, without this task.
    pub counters: Counters,
    /// The counts once the task is admitted; the same if it is denied.
    pub after: Counters,
    /// What an ALLOW reserves; `None` if the task is denied.
    pub reserves: Option<Change>,
}

/// The rows so far.
#[derive(Default)]
pub(crate) struct Rows {
    rows: Vec<CheckRow>,
    denied: Option<(Reason, String)>,
}

impl Rows {
    /// Adds a yes-or-no row, which fails if there is a fault.
    fn yes_no(
        &mut self,
        reason: Reason,
        fault: Option<String>,
        source: impl Into<Cow<'static, str>>,
    ) {
        self.push(reason, CheckRow::yes_no(fault, source));
    }

    /// Adds a row for a count that must be below a limit. It fails if the count is not known.
    fn count(
        &mut self,
        reason: Reason,
        value: Option<u64>,
        limit: u64,
        source: impl Into<Cow<'static, str>>,
    ) {
        let fault = match value {
            Some(value) if value < limit => None,
            Some(value) => Some(format!("{value} against a limit of {limit}")),
            None => Some(
                "cannot be computed: the place of the task in its tree is \
                unknown"
                    .to_owned(),
            ),
        };
        let row = CheckRow::measured(value.and_then(amount), amount(limit), "count", source);
        self.push(reason, row.unless_fault(fault));
    }

    /// Adds a row under the name of this reason. The first row that fails denies the task.
    pub(crate) fn push(&mut self, reason: Reason, row: CheckRow) {
        if let (None, Some(fault)) = (&self.denied, &row.reason) {
            self.denied = Some((reason, fault.clone().into_owned()));
        }
        self.rows.push(row.named(reason.name()));
    }

    /// Ends the evaluation of a task that is admitted, if no row failed, with this change.
    fn done(self, counters: Counters, after: Counters, reserves: Option<Change>) -> Evaluation {
        let is_denied = self.denied.is_some();
        Evaluation {
            rows: self.rows,
            denied: self.denied,
            counters,
            after: if is_denied { counters } else { after },
            reserves: reserves.filter(|_| !is_denied),
        }
    }

    /// Ends the evaluation of a task without a place in a tree.
    fn without_place(self) -> Evaluation {
        self.done(Counters::default(), Counters::default(), None)
    }
}

fn amount(count: u64) -> Option<Amount> {
    i64::try_from(count).ok().map(Amount::from_i64)
}

/// Returns the evaluation of a body that cannot be read. No other check can be computed.
pub fn unreadable(fault: &dyn std::error::Error) -> Evaluation {
    let mut rows = Rows::default();
    rows.yes_no(Reason::MissingFields, Some(fault.to_string()), CONTRACT);
    rows.without_place()
}

/// Returns the evaluation of a request whose sender has no domain, so that there is no policy to
/// check it against.
pub fn homeless(source: &Principal) -> Evaluation {
    let mut rows = Rows::default();
    rows.yes_no(Reason::MissingFields, None, CONTRACT);
    let fault = format!(
        "`{source}` has no domain; a person may grant one as `admission` in \
        rules/principals.yaml"
    );
    rows.yes_no(Reason::DomainDenied, Some(fault), PRINCIPALS);
    rows.without_place()
}

/// Evaluates whether a task may be admitted.
pub fn evaluate(question: &Question<'_>) -> Evaluation {
    let mut rows = Rows::default();
    rows.yes_no(Reason::MissingFields, None, CONTRACT);
    let missing = causality_fault(question);
    let is_free = question.causality.is_none() && missing.is_none();
    rows.yes_no(Reason::MissingCausality, missing, CONTRACT);
    let stranger = domain_fault(question);
    let path = format!("rules/admission/{}.yaml", question.domain);
    // Without the right or a policy there are no limits to check, and nothing about the tree
    // may be disclosed.
    let limits = question.policy.as_ref().ok().filter(|_| stranger.is_none());
    let limits = limits.map(|limits| limits.each());
    if let Some(limits) = limits.as_ref().filter(|_| is_free) {
        free_leases(&mut rows, question, limits, &path);
    }
    rows.yes_no(Reason::DomainDenied, stranger, PRINCIPALS);
    rows.yes_no(
        Reason::PolicyUnavailable,
        question.policy.as_ref().err().map(ToString::to_string),
        path.clone(),
    );
    let Some(limits) = limits else {
        return rows.without_place();
    };
    let placed = match question.causality {
        Some(causality) => place(&mut rows, question, causality, &limits, &path),
        None => Placed {
            reserves: is_free.then(|| {
                Change::Leased(Leased {
                    by: question.source.clone(),
                    domain: question.domain.to_string(),
                    at: question.now,
                })
            }),
            ..Placed::default()
        },
    };
    lists(&mut rows, question, &limits, &path);
    rows.done(placed.counters, placed.after, placed.reserves)
}

/// Returns why a task without causality is denied whatever its profile says.
fn causality_fault(question: &Question<'_>) -> Option<String> {
    if question.causality.is_some() {
        return None;
    }
    if question.payload_kind != LEASE {
        return Some(format!("a `{}` needs causality", question.payload_kind));
    }
    let is_required = question.grant.is_some_and(|grant| grant.required);
    is_required.then(|| {
        format!(
            "a `{LEASE}` needs causality: the grant of `{}` has `required: true`",
            question.source
        )
    })
}

/// Checks the rate of leases without causality. A profile that does not limit them allows none.
fn free_leases(rows: &mut Rows, question: &Question<'_>, limits: &[&Profile], path: &str) {
    let allowed = |profile: &Profile| profile.leases_per_hour.map_or(0, |leases| leases.get());
    let max = least(limits, |profile| Some(u64::from(allowed(profile)))).unwrap_or(0);
    let admitted = question.leases_in_hour;
    let fault = match (admitted < max, max) {
        (true, _) => None,
        (false, 0) => Some(format!(
            "a `{LEASE}` needs causality here: the profile has no `leases_per_hour`"
        )),
        (false, _) => Some(format!("{admitted} against a limit of {max}")),
    };
    let row = CheckRow::measured(amount(admitted), amount(max), "count", path.to_owned());
    rows.push(Reason::LeasesExceeded, row.unless_fault(fault));
}

impl<'a> Limits<'a> {
    fn each(self) -> Vec<&'a Profile> {
        [Some(self.file), self.delivered]
            .into_iter()
            .flatten()
            .collect()
    }
}

fn domain_fault(question: &Question<'_>) -> Option<String> {
    let holds = question
        .grant
        .is_some_and(|grant| grant.domains.contains(question.domain));
    (!holds).then(|| {
        format!(
            "`{}` may not speak for {}",
            question.source, question.domain
        )
    })
}

/// Returns the strictest value of a limit.
pub(crate) fn least(limits: &[&Profile], of: impl Fn(&Profile) -> Option<u64>) -> Option<u64> {
    limits.iter().filter_map(|profile| of(profile)).min()
}

/// The place of a task in its tree.
#[derive(Default)]
struct Placed {
    counters: Counters,
    after: Counters,
    reserves: Option<Change>,
}

/// Checks that tasks are left of the tree's budget. Returns how many are left now, and how many
/// afterwards.
fn tasks_left(
    rows: &mut Rows,
    question: &Question<'_>,
    causality: &Causality,
    limits: &[&Profile],
) -> (Option<i64>, Option<i64>) {
    let (left, after) = budget(question, causality, limits);
    if let Some(left) = left {
        let fault = (left <= 0).then(|| format!("{left} left of the tree's budget"));
        let row = CheckRow::compared(Amount::from_i64(left), Amount::ONE, "count", STATE);
        rows.push(Reason::BudgetExhausted, row.unless_fault(fault));
    }
    (left, after)
}

/// Checks the task's position in its tree, and the limits on the tree.
fn place(
    rows: &mut Rows,
    question: &Question<'_>,
    causality: &Causality,
    limits: &[&Profile],
    path: &str,
) -> Placed {
    let Question {
        lineage, reported, ..
    } = *question;
    let root = &causality.root_task_id;
    let is_root = causality.parent_task_id.is_none();
    origin(rows, question, causality);
    let derived = if is_root {
        Some(0)
    } else {
        lineage.parent.as_ref().map(|p| p.depth.saturating_add(1))
    };
    depth_claim(rows, derived, causality.spawn_depth);
    let (left, budget) = tasks_left(rows, question, causality, limits);
    let budgets = spending::check(rows, question, is_root, limits, path);
    let higher = |known: u64, told: Option<u32>| known.max(told.map_or(0, u64::from));
    let depth = derived.map(|depth| higher(depth, reported.and_then(|told| told.current_depth)));
    if let Some(max) = least(limits, |profile| {
        Some(u64::from(profile.max_spawn_depth.get()))
    }) {
        rows.count(Reason::DepthExceeded, depth, max, path.to_owned());
    }
    let below = lineage.tree.as_ref().map(|tree| tree.descendants);
    let descendants = if is_root { Some(0) } else { below }
        .map(|known| higher(known, reported.and_then(|told| told.total_descendants)));
    // A root is not a descendant, so the limit does not apply to it.
    let max = least(limits, |profile| {
        profile.max_total_descendants.map(|bound| bound.get())
    })
    .filter(|_| !is_root);
    if let Some(max) = max {
        rows.count(
            Reason::DescendantsExceeded,
            descendants,
            max,
            path.to_owned(),
        );
    }
    let repeats = higher(
        lineage.repeats,
        reported.and_then(|told| told.capability_repeat_count),
    );
    if let Some(max) = least(limits, |profile| {
        profile.max_repeats_per_capability.map(|n| n.get())
    }) {
        rows.count(Reason::RepeatsExceeded, Some(repeats), max, path.to_owned());
    }
    let ancestor_repeats = window(rows, question, causality, limits, path);
    let counters = Counters {
        spawn_depth: depth,
        total_descendants: descendants,
        capability_repeats: Some(repeats),
        ancestor_repeats,
        recursion_budget_remaining: left,
        usd_left: budgets.before.usd,
        tokens_left: budgets.before.tokens,
        seconds_left: budgets.seconds_left,
    };
    let after = Counters {
        recursion_budget_remaining: budget,
        usd_left: budgets.after.usd,
        tokens_left: budgets.after.tokens,
        ..counters
    };
    let reserves = derived.map(|depth| {
        let descendants = if is_root {
            0
        } else {
            below.unwrap_or(0).saturating_add(1)
        };
        Change::Admitted(Box::new(Admitted {
            tenant: question.domain.tenant.clone(),
            root: root.clone(),
            task: question.task.clone(),
            parent: lineage.parent.as_ref().map(|parent| parent.task.clone()),
            depth,
            capability: causality.capability_id.clone(),
            repeats: lineage.repeats.saturating_add(1),
            descendants,
            budget,
            left: budgets.after,
            reserved: budgets.reserved,
            profile: Some(question.domain.to_string()),
            by: Some(question.source.clone()),
            opened_by: is_root.then(|| question.source.clone()),
            at: question.now,
        }))
    });
    Placed {
        counters,
        after,
        reserves,
    }
}

/// Checks where the task comes from (its parent, its cause, the principal's rate of new trees), and
/// that it is new.
fn origin(rows: &mut Rows, question: &Question<'_>, causality: &Causality) {
    let (root, lineage) = (&causality.root_task_id, question.lineage);
    let is_root = causality.parent_task_id.is_none();
    let orphan = causality
        .parent_task_id
        .as_ref()
        .filter(|_| lineage.parent.is_none())
        .map(|parent| format!("`{parent}` is not a task of `{root}`"));
    rows.yes_no(Reason::UnknownParent, orphan, STATE);
    let binding = lineage.tree.as_ref().and_then(|tree| tree.binding.as_ref());
    let stray = binding
        .map(|binding| &binding.profile)
        .filter(|bound| !is_root && **bound != question.domain.to_string())
        .map(|bound| format!("the tree `{root}` is bound to the profile `{bound}`"));
    rows.yes_no(Reason::ProfileMismatch, stray, STATE);
    let cause = causality
        .caused_by_receipt_id
        .as_ref()
        .filter(|_| is_root || !lineage.has_cause);
    let cause = cause.map(|receipt| match is_root {
        true => format!("a root task must not name a receipt: `{receipt}` belongs to another tree"),
        false => format!("`{receipt}` is not the receipt of a task of `{root}`"),
    });
    rows.yes_no(Reason::UnknownReceipt, cause, STATE);
    let taken = if is_root {
        lineage
            .tree
            .is_some()
            .then(|| format!("the tree `{root}` already exists"))
    } else {
        lineage
            .is_taken
            .then(|| format!("`{}` is already a task of `{root}`", question.task))
    };
    rows.yes_no(Reason::TaskExists, taken, STATE);
    if is_root {
        let roots = question
            .grant
            .and_then(|grant| grant.roots_per_hour)
            .map_or(0, |roots| roots.get());
        let roots = u64::from(roots);
        let opened = Some(question.roots_in_hour);
        rows.count(Reason::RootsExceeded, opened, roots, PRINCIPALS);
    }
}

fn depth_claim(rows: &mut Rows, derived: Option<u64>, claim: Option<i64>) {
    let Some(claim) = claim else { return };
    let fault = match derived {
        Some(derived) if i64::try_from(derived) == Ok(claim) => None,
        Some(derived) => Some(format!(
            "the request claims {claim}, but the ledger gives \
            {derived}"
        )),
        None => Some("cannot be computed: the place of the task in its tree is unknown".to_owned()),
    };
    let (value, limit) = (Some(Amount::from_i64(claim)), derived.and_then(amount));
    let row = CheckRow::measured(value, limit, "count", STATE);
    rows.push(Reason::DepthMismatch, row.unless_fault(fault));
}

/// Returns what is left of the tree's budget before and after this task. If the tree has no budget
/// yet, the policy issues it. A claim never raises it, and only the claim of who opened the tree
/// lowers it for others.
fn budget(
    question: &Question<'_>,
    causality: &Causality,
    limits: &[&Profile],
) -> (Option<i64>, Option<i64>) {
    let issued = || {
        least(limits, |profile| {
            profile.recursion_budget.map(|budget| budget.get())
        })
    };
    let issued = || issued().and_then(|budget| i64::try_from(budget).ok());
    let tree = question.lineage.tree.as_ref();
    let held = tree.and_then(|tree| tree.budget).or_else(issued);
    let claim = causality.recursion_budget_remaining;
    let least_of = |one: Option<i64>, other: Option<i64>| one.into_iter().chain(other).min();
    let left = least_of(held, claim);
    let opener = match tree {
        None => Some(question.source),
        Some(tree) => tree.binding.as_ref().and_then(|it| it.opened_by.as_ref()),
    };
    let of_tree = if opener == Some(question.source) {
        left
    } else {
        held
    };
    (left, of_tree.map(|left| left.saturating_sub(1)))
}

/// Checks how often the capability occurs among the nearest ancestors. The row shows the window
/// with the least room.
fn window(
    rows: &mut Rows,
    question: &Question<'_>,
    causality: &Causality,
    limits: &[&Profile],
    path: &str,
) -> Option<u64> {
    let told = question
        .reported
        .map(|told| told.ancestor_capability_ids.as_slice())
        .unwrap_or_default();
    let count = |ancestors: &[Capability], size: usize| {
        let same = ancestors
            .iter()
            .take(size)
            .filter(|other| other.is(&causality.capability_id));
        u64::try_from(same.count()).unwrap_or(u64::MAX)
    };
    let fullest = limits
        .iter()
        .filter_map(|profile| {
            let max = profile.max_repeats_in_ancestor_window?.get();
            let size = usize::try_from(profile.ancestor_window_size?.get()).unwrap_or(usize::MAX);
            Some((
                count(&question.lineage.ancestors, size).max(count(told, size)),
                max,
            ))
        })
        .min_by_key(|(found, max)| i128::from(*max).saturating_sub(i128::from(*found)))?;
    let (found, max) = fullest;
    rows.count(
        Reason::AncestorWindowViolated,
        Some(found),
        max,
        path.to_owned(),
    );
    Some(found)
}

/// Checks the lists and sizes in the policy.
fn lists(rows: &mut Rows, question: &Question<'_>, limits: &[&Profile], path: &str) {
    if let Some(Causality {
        capability_id: capability,
        ..
    }) = question.causality
    {
        let has = |list: &Vec<Capability>| list.iter().any(|other| other.is(capability));
        let is_denied = limits
            .iter()
            .filter_map(|p| p.capability_denylist.as_ref())
            .any(has);
        let mut allowlists = limits
            .iter()
            .filter_map(|profile| profile.capability_allowlist.as_ref());
        let is_left_out = allowlists.any(|list| !has(list));
        let fault = match (is_denied, is_left_out) {
            (true, _) => Some(format!("`{capability}` is on the denylist")),
            (false, true) => Some(format!("`{capability}` is not on the allowlist")),
            (false, false) => None,
        };
        rows.yes_no(Reason::CapabilityDenied, fault, path.to_owned());
    }
    let fault = limits
        .iter()
        .find_map(|profile| target_fault(profile, question.payload));
    rows.yes_no(Reason::TargetDenied, fault, path.to_owned());
    if let Some(max) = least(limits, |profile| {
        profile.max_artifact_size_bytes.map(|bound| bound.get())
    }) {
        let size = question
            .artifact_size_bytes
            .unwrap_or(0)
            .max(u64::try_from(question.payload.len()).unwrap_or(u64::MAX));
        let fault = (size > max).then(|| format!("{size} bytes against a limit of {max}"));
        let row = CheckRow::measured(amount(size), amount(max), "bytes", path.to_owned());
        rows.push(Reason::ArtifactTooLarge, row.unless_fault(fault));
    }
    let may_spawn = limits.iter().all(|profile| profile.can_spawn);
    let spawns = (!may_spawn && question.payload_kind != LEASE).then(|| {
        format!(
            "`can_spawn` is false, and a `{}` is not a lease",
            question.payload_kind
        )
    });
    rows.yes_no(Reason::InvariantViolation, spawns, path.to_owned());
}

/// Returns why the target of a payload is not allowed. A payload that names none is not.
fn target_fault(profile: &Profile, payload: &str) -> Option<String> {
    let allowed = profile.allowed_targets.as_ref()?;
    let pointer = profile.target_pointer.as_deref().unwrap_or(TARGET_POINTER);
    let target = value_at(payload, pointer);
    match target.and_then(|text| serde_json::from_str::<String>(text).ok()) {
        Some(target) if allowed.contains(&target) => None,
        Some(_) => Some("the payload's target is not among allowed_targets".to_owned()),
        None => Some(format!("the payload has no text at `{pointer}`")),
    }
}
