//! Admission at the gate: `admission.*` requests, and the step of any request that carries causality.

use serde::Serialize;

use super::actions::{self, Lane};
use super::handle::{self, AnswerBody, Judged, Outcome, Turn};
use super::prepare::{Authentic, Body, Payload, Refusal};
use super::state::{Change, State};
use crate::admission::evaluate::{self, Limits, Question};
use crate::admission::lineage::{Delivered, Query};
use crate::admission::receipt::{Claimed, Counters, Phase, Reason, Receipt, Verdict};
use crate::admission::{Evaluation, lineage};
use crate::control;
use crate::rules::Rulebook;
use crate::rules::admission::{CACHE_TTL_S, Policy};
use crate::rules::principals::Role;
use crate::wire::admission::{
    AdmissionAttempt, AdmissionBody, Causality, Domain, Echo, InvalidatePolicy, TASK, receipt_id,
    receipt_line,
};
use crate::wire::code::Code;
use crate::wire::ids::Principal;
use crate::wire::orders::CheckResult;
use crate::wire::time::Time;

/// The window in which roots are counted, ms.
pub const ROOTS_WINDOW_MS: i64 = 3_600_000;

/// How long the failure of a policy command is kept, seconds.
const FAULT_KEPT_S: u32 = 1;

/// How a body is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Decides and reserves; forwards where the body says so.
    Evaluate,
    /// The same, and forwards.
    Admit,
    /// Changes nothing.
    Check,
}

/// What a task is, as far as it could be read.
pub struct Asked<'a> {
    echo: Echo,
    task: Result<Task<'a>, Unasked>,
}

/// Why there is nothing to evaluate.
#[derive(Clone, Debug)]
enum Unasked {
    /// It cannot be read.
    Malformed(String),
    /// Its key has no domain.
    Homeless,
}

struct Task<'a> {
    domain: &'a Domain,
    payload_kind: &'a str,
    payload_bytes: usize,
    target: Option<&'a str>,
    artifact_size_bytes: Option<u64>,
    causality: Option<Causality>,
    forward: Option<bool>,
}

impl<'a> Asked<'a> {
    fn of_body(authentic: &Authentic, way: Way, attempt: &'a AdmissionAttempt) -> Asked<'a> {
        let mut task = attempt.body.as_ref().map_err(|fault| Unasked::Malformed(fault.clone())).map(
            |AdmissionBody { envelope, forward }| Task {
                domain: &envelope.domain,
                payload_kind: &envelope.payload_kind,
                payload_bytes: envelope.payload.len(),
                target: envelope.target.as_deref(),
                artifact_size_bytes: envelope.artifact_size_bytes,
                causality: envelope.causality.clone(),
                forward: *forward,
            },
        );
        if authentic.envelope.causality.is_some() {
            let fault = "the causality of the body counts; beside it the request carries another";
            task = Err(Unasked::Malformed(fault.to_owned()));
        }
        if way == Way::Admit && task.as_ref().is_ok_and(|task| task.forward == Some(false)) {
            let fault =
                "`forward` is false: admission.admit forwards, admission.evaluate may leave it".to_owned();
            task = Err(Unasked::Malformed(fault));
        }
        Asked { echo: attempt.echo.clone(), task }
    }

    /// Of a request that carries causality, or has to: its domain is the first of its key's.
    fn of_step(rules: &'a Rulebook, authentic: &Authentic) -> Asked<'a> {
        let text = authentic.envelope.causality.as_deref();
        let mut echo = Echo::of_causality(text.unwrap_or_default());
        let grant = rules.principals.get(&authentic.envelope.source).and_then(|rule| rule.admission.as_ref());
        let domain = grant.and_then(|grant| grant.domains.first());
        echo.tenant_id = domain.map(|domain| domain.tenant.to_string());
        echo.surface_id = domain.map(|domain| domain.surface.to_string());
        echo.policy_profile_id = domain.map(|domain| domain.profile.to_string());
        echo.payload_kind = Some(TASK.to_owned());
        let read = text.map(Causality::read).transpose();
        let task = match (read, domain) {
            (Err(fault), _) => Err(Unasked::Malformed(fault)),
            (Ok(_), None) => Err(Unasked::Homeless),
            (Ok(causality), Some(domain)) => Ok(Task {
                domain,
                payload_kind: TASK,
                payload_bytes: authentic.envelope.payload.len(),
                target: None,
                artifact_size_bytes: None,
                causality,
                forward: None,
            }),
        };
        Asked { echo, task }
    }
}

/// What a request asks admission, if anything.
fn asked<'a>(rules: &'a Rulebook, authentic: &'a Authentic, body: &'a Body) -> Option<Asked<'a>> {
    match &body.payload {
        Payload::Admission(way, attempt) => Some(Asked::of_body(authentic, *way, attempt)),
        _ if authentic.envelope.causality.is_some() => Some(Asked::of_step(rules, authentic)),
        _ => None,
    }
}

/// What the ledger is asked before a decision: nothing in the name of somebody who may not ask.
pub(super) fn query(rules: &Rulebook, authentic: &Authentic, body: &Body) -> Option<Query> {
    let task = asked(rules, authentic, body)?.task.ok()?;
    let grant = rules.principals.get(&authentic.envelope.source)?.admission.as_ref()?;
    let causality = task.causality.filter(|_| grant.domains.contains(task.domain))?;
    let window = rules.admission.get(task.domain).map_or(0, |policy| {
        if asks_elsewhere(policy) { crate::rules::admission::WINDOW_MAX } else { own_window(policy) }
    });
    Some(Query {
        tenant: task.domain.tenant.clone(),
        root: causality.root_task_id,
        task: authentic.envelope.id.clone(),
        parent: causality.parent_task_id,
        capability: causality.capability_id,
        cause: causality.caused_by_receipt_id.as_deref().and_then(receipt_line),
        window,
    })
}

/// Where and for what task a request asks, if it needs admission to be carried out. What admission can only warn of
/// never waits for a command.
pub(super) fn needed<'a>(
    state: &State,
    rules: &'a Rulebook,
    authentic: &'a Authentic,
    body: &'a Body,
    lane: Lane,
) -> Option<(&'a Domain, Option<Causality>)> {
    let grant = rules.principals.get(&authentic.envelope.source)?.admission.as_ref()?;
    let asked = match &body.payload {
        Payload::Admission(way, attempt) => Asked::of_body(authentic, *way, attempt),
        _ if !refuses(state, rules, body, lane) => return None,
        _ if authentic.envelope.causality.is_none() && !grant.required => return None,
        _ => Asked::of_step(rules, authentic),
    };
    let task = asked.task.ok().filter(|task| grant.domains.contains(task.domain))?;
    Some((task.domain, task.causality))
}

/// Whether a DENY refuses such a request. What makes things safer, brings news or belongs to people never is.
fn refuses(state: &State, rules: &Rulebook, body: &Body, lane: Lane) -> bool {
    match (body.rule.admission, &body.payload) {
        (actions::Admission::Warns, _) => false,
        (actions::Admission::Entries, _) => lane != Lane::Protected,
        (actions::Admission::Refuses, Payload::Control(attempt)) => {
            let decision = attempt.decision.as_ref();
            decision.is_ok_and(|decision| !control::registry::makes_safer(rules, &state.control, decision))
        }
        (actions::Admission::Refuses, _) => true,
    }
}

fn own_window(policy: &Policy) -> u32 {
    policy.profile.ancestor_window_size.map_or(0, |size| size.get())
}

/// Whether a command has a say: what it delivers may have a longer window than the file.
fn asks_elsewhere(policy: &Policy) -> bool {
    policy.profile.policy_command.is_some()
}

/// What admission says of a request of another contract.
pub(super) struct Step {
    pub(super) receipt: Receipt,
    /// The row of an order's vector.
    pub(super) row: CheckResult,
    /// Whether a DENY only warns.
    pub(super) only_warns: bool,
    pub(super) changes: Vec<Change>,
    pub(super) rows: Vec<CheckResult>,
    /// The counts without this task.
    before: Counters,
}

impl Step {
    /// No task came of the request: another check refused it.
    pub(super) fn withdraw(&mut self, why: &str) {
        self.receipt.reject(Reason::RequestRefused, why);
        self.receipt.effective_counters = self.before;
        self.changes.clear();
    }

    pub(super) fn refuses(&self) -> bool {
        !self.only_warns && self.receipt.phase == Phase::Rejected
    }
}

/// What is said of a denied request.
pub(super) fn refusal_of(receipt: &Receipt) -> Refusal {
    let reason = receipt.rejection_reason_code.map_or("denied", Reason::name);
    let detail = receipt.rejection_detail.as_deref().unwrap_or_default();
    Refusal::new(Code::AdmissionDenied, format!("{reason}: {detail}"))
}

impl Turn<'_> {
    /// Decides an admission request.
    pub(super) fn admission(&self, authentic: &Authentic, way: Way, attempt: &AdmissionAttempt) -> Outcome {
        let asked = Asked::of_body(authentic, way, attempt);
        let is_wanted = match way {
            Way::Evaluate => asked.task.as_ref().is_ok_and(|task| task.forward == Some(true)),
            Way::Admit => true,
            Way::Check => false,
        };
        let (mut receipt, evaluation) = self.judge(authentic, asked);
        receipt.dry_run = way == Way::Check;
        let is_accepted = receipt.phase == Phase::Accepted;
        if is_accepted && is_wanted {
            let surface = receipt.surface_id.as_deref().unwrap_or_default();
            receipt.forwarded_to = Some(format!("forward/{surface}/{}.json", receipt.receipt_id));
        }
        let admitted = evaluation.admitted.filter(|_| is_accepted && !receipt.dry_run);
        let changes = admitted.into_iter().map(|task| Change::Admission(lineage::Change::Admitted(task)));
        Outcome {
            changes: changes.collect(),
            judged: Some(Judged {
                rows: evaluation.rows,
                refusal: (!is_accepted).then(|| refusal_of(&receipt)),
            }),
            receipt: Some(receipt),
            without_task: Some(evaluation.counters),
            ..Outcome::default()
        }
    }

    /// The step of a request of another contract: where it carries causality, or its key must.
    pub(super) fn admission_step(&self, authentic: &Authentic, body: &Body, lane: Lane) -> Option<Step> {
        let grant = self.rules.principals.get(&authentic.envelope.source)?.admission.as_ref();
        let only_warns = !refuses(self.state, self.rules, body, lane);
        let is_required = grant.is_some_and(|grant| grant.required) && !only_warns;
        let carries = authentic.envelope.causality.is_some();
        if matches!(body.payload, Payload::Admission(..)) || !(carries || is_required) {
            return None;
        }
        let (receipt, evaluation) = self.judge(authentic, Asked::of_step(self.rules, authentic));
        let reason = receipt.rejection_reason_code.map(|reason| {
            let detail = receipt.rejection_detail.as_deref().unwrap_or_default();
            let exempt = if only_warns { "exempt: " } else { "" };
            format!("{exempt}{}: {detail}", reason.name())
        });
        let row = handle::yes_no("admission", reason, only_warns, "rules/admission");
        let changes = evaluation.admitted.into_iter();
        let changes = changes.map(|task| Change::Admission(lineage::Change::Admitted(task))).collect();
        let before = evaluation.counters;
        Some(Step { receipt, row, only_warns, changes, rows: evaluation.rows, before })
    }

    fn judge(&self, authentic: &Authentic, asked: Asked<'_>) -> (Receipt, Evaluation) {
        let Asked { echo, task } = asked;
        let source = &authentic.envelope.source;
        let grant = self.rules.principals.get(source).and_then(|rule| rule.admission.as_ref());
        // What holds in a domain is told to those who may speak for it.
        let own = task.as_ref().ok().map(|task| task.domain);
        let own = own.filter(|domain| grant.is_some_and(|grant| grant.domains.contains(domain)));
        let policy = own.and_then(|domain| self.rules.admission.get(domain));
        let mut delivered_policy_hash = None;
        let evaluation = match &task {
            Err(Unasked::Malformed(fault)) => evaluate::unreadable(fault),
            Err(Unasked::Homeless) => evaluate::homeless(source),
            Ok(task) => {
                let limits = self.limits(task);
                delivered_policy_hash = self.delivered(task.domain).map(|delivered| delivered.sha256.clone());
                let reported = self.lookups.reported.as_ref().and_then(|reported| reported.as_ref().ok());
                evaluate::evaluate(&Question {
                    source,
                    task: &authentic.envelope.id,
                    domain: task.domain,
                    payload_kind: task.payload_kind,
                    payload_bytes: u64::try_from(task.payload_bytes).unwrap_or(u64::MAX),
                    target: task.target,
                    artifact_size_bytes: task.artifact_size_bytes,
                    causality: task.causality.as_ref(),
                    grant,
                    policy: limits,
                    lineage: &self.lookups.lineage,
                    reported,
                    roots_in_hour: self.roots_in_hour(source),
                    now: self.now,
                })
            }
        };
        let left = match &evaluation.admitted {
            Some(task) => task.budget,
            None => evaluation.counters.recursion_budget_remaining,
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
            effective_counters: Counters { recursion_budget_remaining: left, ..evaluation.counters },
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
            receipt.reject(*reason, &super::prepare::escaped(detail));
        }
        (receipt, evaluation)
    }

    /// The limits of a task, or why there are none.
    fn limits(&self, task: &Task<'_>) -> Result<Limits<'_>, String> {
        let domain = task.domain;
        if let Some(fault) = &self.state.rulebook.fault {
            return Err(format!("the rule files cannot be used: {fault}"));
        }
        let policy = self
            .rules
            .admission
            .get(domain)
            .ok_or_else(|| format!("there is no rules/admission/{domain}.yaml"))?;
        let delivered = match &policy.profile.policy_command {
            None => None,
            Some(_) => {
                let delivered = self.delivered(domain).ok_or("the policy command has not answered")?;
                let fault = delivered.fault.as_deref().unwrap_or("the policy command gave no profile");
                Some(delivered.profile.as_ref().ok_or(fault)?)
            }
        };
        // What carries no causality has no lineage to ask about.
        if policy.profile.lineage_command.is_some() && task.causality.is_some() {
            match &self.lookups.reported {
                Some(Ok(_)) => {}
                Some(Err(fault)) => return Err(fault.clone()),
                None => return Err("the lineage command has not answered".to_owned()),
            }
        }
        Ok(Limits { file: &policy.profile, delivered })
    }

    fn delivered(&self, domain: &Domain) -> Option<&Delivered> {
        let policy = self.rules.admission.get(domain)?;
        kept(policy, self.state.admission.policies.get(&domain.to_string())?, self.now)
    }

    fn roots_in_hour(&self, source: &Principal) -> u64 {
        let opened = self
            .state
            .admission
            .roots
            .get(source)
            .map(|times| times.iter().filter(|at| self.now.since_ms(**at) < ROOTS_WINDOW_MS).count());
        u64::try_from(opened.unwrap_or(0)).unwrap_or(u64::MAX)
    }

    /// `admission.health`: people see every policy, others those of their own domains.
    pub(super) fn admission_health(&self, source: &Principal) -> Result<Outcome, Refusal> {
        let is_human = self.rules.role(source) == Some(Role::Human);
        let own = self.rules.principals.get(source).and_then(|rule| rule.admission.as_ref());
        let sees = |domain: &Domain| is_human || own.is_some_and(|grant| grant.domains.contains(domain));
        let policies =
            self.rules.admission.iter().filter(|(domain, _)| sees(domain)).map(|(domain, policy)| {
                PolicyHealth {
                    domain,
                    policy_version: policy.profile.policy_version.as_deref(),
                    policy_hash: &policy.sha256,
                    max_spawn_depth: policy.profile.max_spawn_depth.get(),
                    error: self.health_fault(domain, policy),
                }
            });
        handle::answer(&AnswerBody::AdmissionHealth {
            rulebook: &self.rules.hash,
            rulebook_fault: self.state.rulebook.fault.as_deref(),
            policies: policies.collect(),
        })
    }

    fn health_fault(&self, domain: &Domain, policy: &Policy) -> Option<String> {
        policy.profile.policy_command.as_ref()?;
        match self.delivered(domain) {
            None => Some("nothing delivered is kept: the next request asks".to_owned()),
            Some(delivered) => delivered.fault.clone(),
        }
    }

    /// `admission.cache_clear` and `admission.cache_invalidate`.
    pub(super) fn forget_policies(
        &self,
        source: &Principal,
        which: Option<&InvalidatePolicy>,
    ) -> Result<Outcome, Refusal> {
        let kept = self.state.admission.policies.keys();
        let is_meant = |domain: &&String| is_forgotten(self.rules, source, which, domain);
        let domains: Vec<String> = kept.filter(is_meant).cloned().collect();
        Ok(Outcome {
            data: handle::data(&AnswerBody::PoliciesForgotten { domains: &domains })?,
            changes: vec![Change::Admission(lineage::Change::PoliciesForgotten { domains: domains.clone() })],
            ..Outcome::default()
        })
    }
}

/// One policy in the answer of `admission.health`.
#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct PolicyHealth<'a> {
    /// Where it holds.
    #[serde(flatten)]
    domain: &'a Domain,
    /// Its own version; null: it has none.
    policy_version: Option<&'a str>,
    /// SHA-256 of the file's bytes, hex.
    policy_hash: &'a str,
    /// Denied from this depth on.
    max_spawn_depth: u32,
    /// Why nothing is admitted under it just now.
    error: Option<String>,
}

/// Whether `admission.cache_clear` (`which` is none) or `admission.cache_invalidate` of this sender is about a domain:
/// people speak for all, others for their own.
pub(super) fn is_forgotten(
    rules: &Rulebook,
    source: &Principal,
    which: Option<&InvalidatePolicy>,
    domain: &str,
) -> bool {
    let own = rules.principals.get(source).and_then(|rule| rule.admission.as_ref());
    let may = rules.role(source) == Some(Role::Human)
        || own.is_some_and(|grant| grant.domains.iter().any(|own| own.to_string() == domain));
    may && which.is_none_or(|which| domain.rsplit('/').next() == Some(which.policy_profile_id.as_str()))
}

/// What a policy command delivered, while it holds: asked by this very file, and not too old. A failure holds for a
/// second, so that neither a flood starts a broken command for each request nor a moment's failure lasts.
pub fn kept<'a>(policy: &Policy, delivered: &'a Delivered, now: Time) -> Option<&'a Delivered> {
    let ttl_s = policy.profile.cache_ttl_seconds.map_or(CACHE_TTL_S, |ttl| ttl.get());
    let kept_s = if delivered.profile.is_some() { ttl_s } else { ttl_s.min(FAULT_KEPT_S) };
    let age_ms = now.since_ms(delivered.at);
    let is_fresh = (0..i64::from(kept_s).saturating_mul(1000)).contains(&age_ms);
    Some(delivered).filter(|delivered| is_fresh && delivered.policy == policy.sha256)
}
