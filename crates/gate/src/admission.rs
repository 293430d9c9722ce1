//! The admission step of the gate: `admission.*` requests, and every request that carries
//! causality.

use std::collections::VecDeque;

use super::actions::{self, Body, Lane, Malformed};
use super::elsewhere::NoLineage;
use super::handle::{Judged, Outcome, Turn};
use super::prepare::{Authentic, Refusal, escaped};
use super::state::{Change, State};
use spoolgate_admission::evaluate::{self, Limits, Question};
use spoolgate_admission::lineage::{Delivered, Query, Settled, Tree};
use spoolgate_admission::receipt::{Claimed, Counters, Phase, Reason, Receipt, Verdict};
use spoolgate_admission::settle::{self, Right, SettleError};
use spoolgate_admission::spending::seconds_left;
use spoolgate_admission::{Evaluation, NoLimits};
use spoolgate_control as control;
use spoolgate_rules::Rulebook;
use spoolgate_rules::admission::{CACHE_TTL_S, Policy};
use spoolgate_rules::principals::Role;
use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::admission::{
    AdmissionAttempt, AdmissionBody, Causality, Domain, Echo, InvalidatePolicy, Settle, TASK,
    receipt_id, receipt_line,
};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::checks::CheckRow;
use spoolgate_wire::code::{Code, Retry};
use spoolgate_wire::control::ControlAttempt;
use spoolgate_wire::ids::Principal;
use spoolgate_wire::payload::PayloadError;
use spoolgate_wire::repair::Repair;
use spoolgate_wire::time::Time;

/// The window in which roots, and leases without causality, are counted, milliseconds.
pub const HOUR_MS: i64 = 3_600_000;

/// How long the failure of a policy command is kept, seconds.
const FAULT_KEPT_S: u32 = 1;

/// How an admission request is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Decides and reserves; forwards if the body asks for it.
    Evaluate,
    /// Decides, reserves and forwards.
    Admit,
    /// Decides without changing anything.
    Check,
}

impl Way {
    fn of(body: &Body) -> Way {
        match body.rule.name {
            ActionName::AdmissionAdmit => Way::Admit,
            ActionName::AdmissionCheck => Way::Check,
            _ => Way::Evaluate,
        }
    }
}

/// The task that a request describes, as far as it could be read.
pub struct Asked<'a> {
    echo: Echo,
    task: Result<Task<'a>, Unasked>,
}

/// Why there is no task to evaluate.
#[derive(Clone, Debug, thiserror::Error)]
enum Unasked {
    /// The causality cannot be read.
    #[error(transparent)]
    Malformed(#[from] PayloadError),
    /// The body cannot be read.
    #[error("{0}")]
    Unread(String),
    /// The envelope of the request carries causality, and so may its body.
    #[error(
        "an admission request has its causality in the payload; leave `causality` out of the \
        envelope"
    )]
    CausalityTwice,
    /// The action forwards, and the body asks it not to.
    #[error(
        "`forward` is false, but `admission.admit` always forwards; send `admission.evaluate` \
        instead"
    )]
    NotForwarded,
    /// The sender has no domain.
    #[error("the sender has no domain")]
    Homeless,
}

struct Task<'a> {
    domain: &'a Domain,
    payload_kind: &'a str,
    payload: &'a str,
    artifact_size_bytes: Option<u64>,
    causality: Option<Causality>,
    forward: Option<bool>,
}

impl<'a> Asked<'a> {
    fn of_body(authentic: &Authentic, way: Way, attempt: &'a AdmissionAttempt) -> Asked<'a> {
        let malformed = authentic
            .body
            .as_ref()
            .ok()
            .and_then(|it| it.malformed.as_deref());
        let unread = |fault: &PayloadError| match malformed {
            Some(malformed) => Unasked::Unread(malformed.words.clone()),
            None => Unasked::Malformed(fault.clone()),
        };
        let mut task =
            attempt
                .body
                .as_ref()
                .map_err(unread)
                .map(|AdmissionBody { envelope, forward }| Task {
                    domain: &envelope.domain,
                    payload_kind: &envelope.payload_kind,
                    payload: &envelope.payload,
                    artifact_size_bytes: envelope.artifact_size_bytes,
                    causality: envelope.causality.clone(),
                    forward: *forward,
                });
        if authentic.envelope.causality.is_some() {
            task = Err(Unasked::CausalityTwice);
        }
        if way == Way::Admit && task.as_ref().is_ok_and(|task| task.forward == Some(false)) {
            task = Err(Unasked::NotForwarded);
        }
        Asked {
            echo: attempt.echo.clone(),
            task,
        }
    }

    /// Reads the task of a request of another contract, which carries causality or has to. Its
    /// domain is the first domain of its sender.
    fn of_step(rules: &'a Rulebook, authentic: &'a Authentic) -> Asked<'a> {
        let text = authentic.envelope.causality.as_deref();
        let mut echo = Echo::of_causality(text.unwrap_or_default());
        let grant = rules
            .principals
            .get(&authentic.envelope.source)
            .and_then(|rule| rule.admission.as_ref());
        let domain = grant.and_then(|grant| grant.domains.first());
        echo.tenant_id = domain.map(|domain| domain.tenant.to_string());
        echo.surface_id = domain.map(|domain| domain.surface.to_string());
        echo.policy_profile_id = domain.map(|domain| domain.profile.to_string());
        echo.payload_kind = Some(TASK.to_owned());
        let read = text.map(Causality::read).transpose();
        let malformed = malformed_causality(authentic);
        let task = match (read, malformed, domain) {
            (_, Some(malformed), _) => Err(Unasked::Unread(malformed.words.clone())),
            (Err(fault), None, _) => Err(Unasked::Malformed(fault)),
            (Ok(_), None, None) => Err(Unasked::Homeless),
            (Ok(causality), None, Some(domain)) => Ok(Task {
                domain,
                payload_kind: TASK,
                payload: &authentic.envelope.payload,
                artifact_size_bytes: None,
                causality,
                forward: None,
            }),
        };
        Asked { echo, task }
    }
}

/// Returns what is wrong with the causality of a request of another contract.
fn malformed_causality(authentic: &Authentic) -> Option<&Malformed> {
    authentic.body.as_ref().ok()?.malformed_causality.as_deref()
}

/// Returns the task that a request describes, if it has to do with admission.
fn asked<'a>(rules: &'a Rulebook, authentic: &'a Authentic, body: &'a Body) -> Option<Asked<'a>> {
    if let Some(attempt) = body.payload() {
        return Some(Asked::of_body(authentic, Way::of(body), attempt));
    }
    authentic
        .envelope
        .causality
        .is_some()
        .then(|| Asked::of_step(rules, authentic))
}

/// Returns what to look up in the ledger before the decision; nothing if the sender may not use the
/// domain.
pub(super) fn query(rules: &Rulebook, authentic: &Authentic, body: &Body) -> Option<Query> {
    let task = asked(rules, authentic, body)?.task.ok()?;
    let grant = rules
        .principals
        .get(&authentic.envelope.source)?
        .admission
        .as_ref()?;
    let causality = task
        .causality
        .filter(|_| grant.domains.contains(task.domain))?;
    let window = rules.admission.get(task.domain).map_or(0, |policy| {
        if asks_elsewhere(policy) {
            spoolgate_rules::admission::WINDOW_MAX
        } else {
            own_window(policy)
        }
    });
    Some(Query {
        tenant: task.domain.tenant.clone(),
        root: causality.root_task_id,
        task: authentic.envelope.id.clone(),
        parent: causality.parent_task_id,
        capability: causality.capability_id,
        cause: causality
            .caused_by_receipt_id
            .as_deref()
            .and_then(receipt_line),
        window,
    })
}

/// Returns the domain and the causality of a request that cannot be carried out without admission.
/// `None` where admission can only warn: such a request never waits for a command.
pub(super) fn needed<'a>(
    state: &State,
    rules: &'a Rulebook,
    authentic: &'a Authentic,
    body: &'a Body,
    lane: Lane,
) -> Option<(&'a Domain, Option<Causality>)> {
    let grant = rules
        .principals
        .get(&authentic.envelope.source)?
        .admission
        .as_ref()?;
    let asked = match body.payload() {
        Some(attempt) => Asked::of_body(authentic, Way::of(body), attempt),
        None if !refuses(state, rules, body, lane) => return None,
        None if authentic.envelope.causality.is_none() && !grant.required => return None,
        None => Asked::of_step(rules, authentic),
    };
    let task = asked
        .task
        .ok()
        .filter(|task| grant.domains.contains(task.domain))?;
    Some((task.domain, task.causality))
}

/// Whether a DENY refuses such a request. It never refuses requests that reduce risk, report news
/// or are a person's to send.
fn refuses(state: &State, rules: &Rulebook, body: &Body, lane: Lane) -> bool {
    match body.rule.admission {
        actions::Admission::Warns => false,
        actions::Admission::Entries => lane != Lane::Protected,
        actions::Admission::Refuses => body.payload().is_none_or(|attempt: &ControlAttempt| {
            let decision = attempt.decision.as_ref();
            decision.is_ok_and(|decision| {
                !control::registry::makes_safer(rules, &state.control, decision)
            })
        }),
    }
}

fn own_window(policy: &Policy) -> u32 {
    policy
        .profile
        .ancestor_window_size
        .map_or(0, |size| size.get())
}

/// Whether a policy command is configured; the profile it delivers may have a longer window than
/// the file.
fn asks_elsewhere(policy: &Policy) -> bool {
    policy.profile.policy_command.is_some()
}

/// Who else may settle. No grant in principals.yaml helps, so the remedy of the code would be wrong.
const BY_SETTLERS: &str = "a principal that `settlers` of the tree's profile in rules/admission \
    names may report it";

/// The refusal of a settlement, which no new request helps.
fn unsettled(code: Code, what: &str, remedy: &str) -> Refusal {
    Refusal::recorded(code, format!("{}; {remedy}", escaped(what))).retried(Retry::Never)
}

/// The result of the admission step for a request of another contract.
pub(super) struct Step {
    pub(super) receipt: Receipt,
    /// The row for the check vector of an order.
    pub(super) row: CheckRow,
    pub(super) changes: Vec<Change>,
    pub(super) rows: Vec<CheckRow>,
    /// The counters without this task.
    before: Counters,
    /// Why a DENY refuses the request.
    pub(super) refusal: Option<Refusal>,
}

impl Step {
    /// Turns the receipt into a rejection because another check refused the request, so that no
    /// task is reserved.
    pub(super) fn withdraw(&mut self, why: &str) {
        self.receipt.reject(Reason::RequestRefused, why);
        self.receipt.effective_counters = self.before;
        self.changes.clear();
    }
}

/// The refusal of a denied request; `None` of an admitted one.
fn refusal_of(receipt: &Receipt, again: Repair) -> Option<Refusal> {
    let reason = receipt.rejection_reason_code?;
    let detail = receipt.rejection_detail.as_deref().unwrap_or_default();
    let what = format!("{}: {detail}", reason.name());
    Some(Refusal {
        repair: again,
        ..Refusal::new(Code::AdmissionDenied, what)
    })
}

impl Turn<'_> {
    /// Decides an admission request.
    pub(super) fn admission(
        &self,
        authentic: &Authentic,
        way: Way,
        attempt: &AdmissionAttempt,
    ) -> Outcome {
        let asked = Asked::of_body(authentic, way, attempt);
        let malformed = authentic
            .body
            .as_ref()
            .ok()
            .and_then(|it| it.malformed.as_deref());
        let faults = malformed.map(|it| it.faults.clone()).unwrap_or_default();
        let is_wanted = match way {
            Way::Evaluate => asked
                .task
                .as_ref()
                .is_ok_and(|task| task.forward == Some(true)),
            Way::Admit => true,
            Way::Check => false,
        };
        let (mut receipt, evaluation, again) = self.judge(authentic, asked);
        receipt.dry_run = way == Way::Check;
        let is_accepted = receipt.phase == Phase::Accepted;
        if is_accepted && is_wanted {
            let surface = receipt.surface_id.as_deref().unwrap_or_default();
            receipt.forwarded_to = Some(format!("forward/{surface}/{}.json", receipt.receipt_id));
        }
        let reserves = evaluation.reserves.filter(|_| !receipt.dry_run);
        let changes = reserves.into_iter().map(Change::Admission);
        Outcome {
            changes: changes.collect(),
            judged: Some(Judged {
                rows: evaluation.rows,
                refusal: refusal_of(&receipt, again).map(|refusal| refusal.with_faults(faults)),
            }),
            receipt: Some(receipt),
            without_task: Some(evaluation.counters),
            ..Outcome::default()
        }
    }

    /// Runs the admission step for a request of another contract, if it carries causality or its
    /// sender must send it.
    pub(super) fn admission_step(
        &self,
        authentic: &Authentic,
        body: &Body,
        lane: Lane,
    ) -> Option<Step> {
        let grant = self
            .rules
            .principals
            .get(&authentic.envelope.source)?
            .admission
            .as_ref();
        let only_warns = !refuses(self.state, self.rules, body, lane);
        let is_required = grant.is_some_and(|grant| grant.required) && !only_warns;
        let carries = authentic.envelope.causality.is_some();
        if body.payload::<AdmissionAttempt>().is_some() || !(carries || is_required) {
            return None;
        }
        let asked = Asked::of_step(self.rules, authentic);
        let (receipt, evaluation, again) = self.judge(authentic, asked);
        let faults = malformed_causality(authentic).map(|it| it.faults.clone());
        let refusal = refusal_of(&receipt, again)
            .filter(|_| !only_warns)
            .map(|refusal| refusal.with_faults(faults.unwrap_or_default()));
        let reason = receipt.rejection_reason_code.map(|reason| {
            let detail = receipt.rejection_detail.as_deref().unwrap_or_default();
            format!("{}: {detail}", reason.name())
        });
        let row = CheckRow::yes_no(reason, "rules/admission").named("admission");
        let row = if only_warns {
            row.lifted("exempt")
        } else {
            row
        };
        let reserves = evaluation.reserves.into_iter();
        let changes = reserves.map(Change::Admission).collect();
        let before = evaluation.counters;
        Some(Step {
            receipt,
            row,
            changes,
            rows: evaluation.rows,
            before,
            refusal,
        })
    }

    /// Evaluates a task. Returns also whether and when its sender may ask again.
    fn judge(&self, authentic: &Authentic, asked: Asked<'_>) -> (Receipt, Evaluation, Repair) {
        let Asked { echo, task } = asked;
        let source = &authentic.envelope.source;
        let grant = self
            .rules
            .principals
            .get(source)
            .and_then(|rule| rule.admission.as_ref());
        // Only principals that may use a domain learn about its policy.
        let own = task.as_ref().ok().map(|task| task.domain);
        let own = own.filter(|domain| grant.is_some_and(|grant| grant.domains.contains(domain)));
        let policy = own.and_then(|domain| self.rules.admission.get(domain));
        let mut delivered_policy_hash = None;
        let evaluation = match &task {
            Err(Unasked::Homeless) => evaluate::homeless(source),
            Err(unreadable) => evaluate::unreadable(unreadable),
            Ok(task) => {
                let limits = self.limits(task);
                delivered_policy_hash = self
                    .delivered(task.domain)
                    .map(|delivered| delivered.sha256.clone());
                let reported = self
                    .lookups
                    .reported
                    .as_ref()
                    .and_then(|reported| reported.as_ref().ok());
                evaluate::evaluate(&Question {
                    source,
                    task: &authentic.envelope.id,
                    domain: task.domain,
                    payload_kind: task.payload_kind,
                    payload: task.payload,
                    artifact_size_bytes: task.artifact_size_bytes,
                    causality: task.causality.as_ref(),
                    grant,
                    policy: limits,
                    lineage: &self.lookups.lineage,
                    reported,
                    roots_in_hour: self.in_hour(self.state.admission.roots.get(source)),
                    leases_in_hour: self.leases_in_hour(source, task.domain),
                    now: self.now,
                })
            }
        };
        let mut receipt = Receipt {
            receipt_id: receipt_id(self.seq),
            phase: Phase::Accepted,
            decision: Verdict::Allow,
            dry_run: false,
            request_id: authentic.envelope.id.clone(),
            request_hash: self.request_hash(authentic),
            tenant_id: echo.tenant_id,
            surface_id: echo.surface_id,
            policy_profile_id: echo.policy_profile_id,
            policy_version: policy.and_then(|policy| policy.profile.policy_version.clone()),
            policy_hash: policy.map(|policy| policy.sha256.clone()),
            delivered_policy_hash,
            payload_kind: echo.payload_kind,
            root_task_id: echo.root_task_id,
            parent_task_id: echo.parent_task_id,
            caused_by_receipt_id: echo.caused_by_receipt_id,
            capability_id: echo.capability_id,
            effective_counters: evaluation.after,
            claimed_counters: Claimed {
                spawn_depth: echo.spawn_depth,
                recursion_budget_remaining: echo.recursion_budget_remaining,
            },
            rejection_reason_code: None,
            rejection_detail: None,
            forwarded_to: None,
            evaluated_at: self.now,
        };
        if let Some((reason, detail)) = &evaluation.denied {
            receipt.reject(*reason, &escaped(detail));
        }
        let again = self.again(source, own, &evaluation);
        (receipt, evaluation, again)
    }

    /// Returns whether and when the sender of a denied task may ask again.
    fn again(
        &self,
        source: &Principal,
        domain: Option<&Domain>,
        evaluation: &Evaluation,
    ) -> Repair {
        let Some((reason, _)) = evaluation.denied else {
            return Repair::of(Code::AdmissionDenied.retry());
        };
        let row = evaluation.rows.iter().find(|row| row.name == reason.name());
        let most = row.and_then(|row| row.limit);
        // Without a number in the grant nobody may open a root, whenever it is.
        if reason == Reason::RootsExceeded && most == Some(Amount::ZERO) {
            return Repair::of(Retry::Never);
        }
        let times = if reason == Reason::RootsExceeded {
            self.state.admission.roots.get(source)
        } else if reason == Reason::LeasesExceeded {
            domain.and_then(|domain| self.leases(source, domain))
        } else {
            None
        };
        let recent: Vec<Time> = self.recent(times).collect();
        let over = most
            .and_then(|most| usize::try_from(most.div_floor_count(Amount::from_i64(1))?).ok())
            .and_then(|most| recent.len().checked_sub(most));
        let leaves = over.and_then(|over| recent.get(over));
        let wait_ms = leaves.map(|at| at.plus_ms(HOUR_MS).since_ms(self.now));
        Repair {
            retry_after_ms: wait_ms.and_then(|ms| u64::try_from(ms).ok()),
            ..Repair::of(reason.retry())
        }
    }

    /// Returns the limits that apply to a task, or why there are none.
    fn limits<'a>(&'a self, task: &Task<'a>) -> Result<Limits<'a>, NoLimits<'a>> {
        let domain = task.domain;
        if let Some(fault) = &self.state.rulebook.fault {
            return Err(NoLimits::RuleFiles(fault));
        }
        let policy = self
            .rules
            .admission
            .get(domain)
            .ok_or(NoLimits::NoPolicy(domain))?;
        let delivered = match &policy.profile.policy_command {
            None => None,
            Some(_) => {
                let delivered = self.delivered(domain).ok_or(NoLimits::PolicyNotAnswered)?;
                let fault = delivered
                    .fault
                    .as_deref()
                    .unwrap_or("the policy command returned no profile");
                Some(delivered.profile.as_ref().ok_or(NoLimits::Command(fault))?)
            }
        };
        // A request without causality has no lineage to ask about.
        if policy.profile.lineage_command.is_some() && task.causality.is_some() {
            match &self.lookups.reported {
                Some(Ok(_)) => {}
                Some(Err(NoLineage(fault))) => return Err(NoLimits::Command(fault)),
                None => return Err(NoLimits::LineageNotAnswered),
            }
        }
        Ok(Limits {
            file: &policy.profile,
            delivered,
        })
    }

    pub(super) fn delivered(&self, domain: &Domain) -> Option<&Delivered> {
        let policy = self.rules.admission.get(domain)?;
        kept(
            policy,
            self.state.admission.policies.get(&domain.to_string())?,
            self.now,
        )
    }

    fn leases_in_hour(&self, source: &Principal, domain: &Domain) -> u64 {
        self.in_hour(self.leases(source, domain))
    }

    /// Returns the times of a sender's leases without causality in a domain, oldest first.
    fn leases(&self, source: &Principal, domain: &Domain) -> Option<&VecDeque<Time>> {
        let leases = self.state.admission.leases.get(source)?;
        leases.get(&domain.to_string())
    }

    fn recent(&self, times: Option<&VecDeque<Time>>) -> impl Iterator<Item = Time> {
        let now = self.now;
        let times = times.into_iter().flatten().copied();
        times.filter(move |at| now.since_ms(*at) < HOUR_MS)
    }

    fn in_hour(&self, times: Option<&VecDeque<Time>>) -> u64 {
        u64::try_from(self.recent(times).count()).unwrap_or(u64::MAX)
    }

    /// Settles a task, and returns the settlement with the tree as it was before.
    ///
    /// # Errors
    /// Returns the [`Refusal`] of a sender that may not settle the task, or not like this.
    pub(super) fn settlement(
        &self,
        source: &Principal,
        settle: &Settle,
    ) -> Result<(Settled, &Tree), Refusal> {
        // A stranger does not learn whether there is such a receipt.
        let found = self.lookups.task.as_ref();
        let found = found.and_then(|task| Some((task, self.right(source, task)?)));
        let Some((task, right)) = found else {
            let what = format!(
                "`{}` is not the receipt of a task that `{source}` requested or may settle",
                settle.receipt_id
            );
            return Err(unsettled(Code::NotPermitted, &what, BY_SETTLERS));
        };
        let settled = task.settle(settle.spent, right).map_err(|error| {
            let (code, remedy) = match error {
                SettleError::Final(_) => (Code::StateConflict, "that is final: send nothing"),
                SettleError::Beyond => (Code::StateConflict, "a person has to look at the tree"),
                SettleError::Less(_) | SettleError::TooOften => (Code::NotPermitted, BY_SETTLERS),
            };
            unsettled(code, &error.to_string(), remedy)
        })?;
        Ok((settled, &task.tree))
    }

    /// Returns the right by which a principal settles a task.
    fn right(&self, source: &Principal, task: &settle::Task) -> Option<Right> {
        let policy = self.bound_to(&task.tree).map(|(_, policy)| policy);
        if policy.is_some_and(|policy| policy.profile.settlers.contains(source)) {
            return Some(Right::Settler);
        }
        (task.by.as_ref() == Some(source)).then_some(Right::Own)
    }

    /// Returns the profile that a tree is bound to, as long as it exists.
    fn bound_to(&self, tree: &Tree) -> Option<(&Domain, &Policy)> {
        let bound = &tree.binding.as_ref()?.profile;
        let mut policies = self.rules.admission.iter();
        policies.find(|(domain, _)| domain.to_string() == *bound)
    }

    /// Returns the whole seconds until a tree is too old; `None` if its profile does not limit its
    /// age.
    pub(super) fn seconds_left(&self, tree: &Tree) -> Option<i64> {
        let since = tree.binding.as_ref()?.since;
        let (domain, policy) = self.bound_to(tree)?;
        let delivered = self.delivered(domain).and_then(|it| it.profile.as_ref());
        let profiles = [Some(&policy.profile), delivered];
        let ages = profiles.into_iter().flatten();
        let max_s = ages.filter_map(|profile| profile.max_tree_age_s).min()?;
        Some(seconds_left(since, self.now, max_s.get()))
    }
}

/// Whether `admission.cache_clear` (`which` is `None`) or `admission.cache_invalidate` of this
/// sender covers a domain: a person may clear every domain, other principals their own.
pub(super) fn is_forgotten(
    rules: &Rulebook,
    source: &Principal,
    which: Option<&InvalidatePolicy>,
    domain: &str,
) -> bool {
    let own = rules
        .principals
        .get(source)
        .and_then(|rule| rule.admission.as_ref());
    let may = rules.role(source) == Some(Role::Human)
        || own.is_some_and(|grant| grant.domains.iter().any(|own| own.to_string() == domain));
    may && which
        .is_none_or(|which| domain.rsplit('/').next() == Some(which.policy_profile_id.as_str()))
}

/// Returns what a policy command delivered, while it is valid: the command was run for this very
/// policy file, and the result is not too old. A failure is kept for one second: a flood cannot
/// start a broken command for every request, and a brief failure does not last.
pub fn kept<'a>(policy: &Policy, delivered: &'a Delivered, now: Time) -> Option<&'a Delivered> {
    let ttl_s = policy
        .profile
        .cache_ttl_seconds
        .map_or(CACHE_TTL_S, |ttl| ttl.get());
    let kept_s = if delivered.profile.is_some() {
        ttl_s
    } else {
        ttl_s.min(FAULT_KEPT_S)
    };
    let age_ms = now.since_ms(delivered.at);
    let is_fresh = (0..i64::from(kept_s).saturating_mul(1000)).contains(&age_ms);
    Some(delivered).filter(|delivered| is_fresh && delivered.policy == policy.sha256)
}
