//! `decide`: the pure function from the gate's state and one request to its ledger lines.

mod line;
mod lookups;
mod permission;
mod retry;

use super::actions::{Body, Lane};
use super::admission;
use super::approvals::{self, Granted, Resolution};
use super::gateway::{self, Begins};
use super::handle::{Judged, Outcome, Turn};
use super::history;
use super::prepare::{Authentic, Origin, Prepared, Refusal, Unverified};
use super::rates;
use super::record::{Decision, MarketRows, Status};
use super::rules;
use super::sealing;
use super::state::State;
use super::storage;
use line::{blank, drop_large, fill_in, finish, refuse};
use spoolgate_admission::receipt::Phase;
use spoolgate_rules::Rulebook;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::code::Code;
use spoolgate_wire::ids::{DomainPart, RequestId, TaskName};
use spoolgate_wire::orders::{Headroom, SubmitOrder};
use spoolgate_wire::time::Time;

pub(crate) use line::{refusal_of, refused};
pub use lookups::{CASES_MAX, FILLS_MAX, Lookups, Needs, REPAIRS_MAX, Seen};
pub(crate) use permission::{may_answer_by_id, may_do};

/// Members larger than this go to `audit/blobs` and are named by digest. Bytes.
pub const MEMBER_BYTES_MAX: usize = 8 * 1024;

/// Part of the message used when a blob of an earlier answer is missing.
pub(super) const ANSWER_LOST: &str = "cannot be rebuilt";
/// Precedes the names of pruned segments in the message of a refusal.
pub(super) const PRUNED_WITH: &str = "was pruned with ";

/// The lines and effects of a decision.
#[derive(Clone, Debug)]
pub struct Decided {
    /// `market` lines that come before the decision's own.
    pub market: Vec<MarketRows>,
    /// The decision's line.
    pub decision: Decision,
    /// Blobs by digest that must be durable before the lines.
    pub blobs: Vec<(String, Vec<u8>)>,
    /// The outgoing action to start once the lines are durable.
    pub begins: Option<Box<Begins>>,
    /// The hold that this decision ends, in the same batch.
    pub resolves: Option<Resolution>,
}

/// Returns what must be looked up before a request can be decided. Nothing if its sender may not
/// request the action: otherwise anybody could make the gate read large blobs over and over.
pub fn needs(request: &Prepared, rules: &Rulebook) -> Needs {
    let Ok(authentic) = &request.request else {
        return Needs::default();
    };
    let Authentic {
        envelope,
        body: Ok(body),
        ..
    } = authentic
    else {
        return Needs::default();
    };
    let rule = body.rule;
    if !rules
        .role(&envelope.source)
        .is_some_and(|role| rule.senders.contains(&role))
    {
        return Needs::default();
    }
    let mut needs = Needs {
        lineage: admission::query(rules, authentic, body),
        ..Needs::default()
    };
    if let Some(program) = rules.ruleset.programs.get(rule.name.as_str()) {
        needs.history = history::query(
            program,
            &envelope.source,
            rule.name.as_str(),
            &envelope.payload,
        );
    }
    body.needs(rules, authentic, &mut needs);
    needs
}

/// Decides one request. `seq` is the number of the first line it will write; `rules` is the
/// rulebook in force, or the last good one while the state holds a fault of the rule files.
pub fn decide(
    state: &State,
    rules: &Rulebook,
    request: &Prepared,
    lookups: &Lookups,
    now: Time,
    seq: u64,
) -> Decided {
    decide_turn(
        Turn {
            state,
            rules,
            lookups,
            now,
            seq,
            granted: None,
        },
        request,
    )
}

/// Decides a held request again after a grant. Freshness, replay and the message rate were checked
/// when the request arrived; everything else is checked against the present state.
pub fn decide_granted(
    state: &State,
    rules: &Rulebook,
    request: &Prepared,
    lookups: &Lookups,
    granted: Granted<'_>,
    now: Time,
    seq: u64,
) -> Decided {
    let turn = Turn {
        state,
        rules,
        lookups,
        now,
        seq,
        granted: Some(granted),
    };
    let mut decided = decide_turn(turn, request);
    approvals::close(&mut decided.decision, granted);
    decided
}

/// Facts about a request that the ledger has, although it does not hold all of the request's bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Untold {
    /// The lane, if it depends on a payload that is not kept.
    pub lane: Option<Lane>,
    /// The hashes of payload and request, if no key verified them.
    pub hashes: Option<(String, String)>,
    /// Whether the payload is not kept, so that the line has none.
    pub has_no_payload: bool,
}

/// Decides a request again that the ledger holds only in part, like [`decide`] or
/// [`decide_granted`].
pub fn decide_untold(turn: Turn<'_>, request: &Prepared, untold: &Untold) -> Decided {
    let granted = turn.granted;
    let mut decided = decide_as_told(turn, request, untold);
    if let Some(granted) = granted {
        approvals::close(&mut decided.decision, granted);
    }
    decided
}

fn decide_turn(turn: Turn<'_>, request: &Prepared) -> Decided {
    decide_as_told(turn, request, &Untold::default())
}

fn decide_as_told(turn: Turn<'_>, request: &Prepared, untold: &Untold) -> Decided {
    let rules = turn.state.in_force(turn.rules);
    let turn = Turn {
        rules: &rules,
        ..turn
    };
    let lane = untold.lane.unwrap_or_else(|| request.lane(turn.state));
    match &request.request {
        Err(unverified) => {
            let Unverified { envelope, refusal } = unverified.as_ref();
            let of_envelope = || {
                envelope
                    .as_ref()
                    .map(|e| (e.payload_hash(), e.request_hash()))
            };
            let hashes = untold.hashes.clone().or_else(of_envelope);
            let mut decision = blank(&turn, request, lane, envelope.as_ref(), hashes);
            if envelope
                .as_ref()
                .is_some_and(|envelope| sealing::is_sealed(&envelope.action))
            {
                sealing::conceal(&mut decision);
            }
            // Nothing is kept of a frame that was never complete, or of a file that stays.
            let is_frame = request.origin.is_socket() && request.file_bytes.is_none();
            let is_nothing = is_frame || refusal.stays;
            decision.kept = Some(kept(&turn, request)).filter(|_| !is_nothing);
            refuse(&mut decision, refusal);
            finish(&turn, decision, Vec::new(), Vec::new())
        }
        Ok(authentic) => decide_authentic(&turn, request, authentic, lane, untold.has_no_payload),
    }
}

fn decide_authentic(
    turn: &Turn<'_>,
    request: &Prepared,
    authentic: &Authentic,
    lane: Lane,
    has_no_payload: bool,
) -> Decided {
    let hashes = (
        authentic.payload_hash.clone(),
        authentic.request_hash.clone(),
    );
    let mut decision = blank(turn, request, lane, Some(&authentic.envelope), Some(hashes));
    decision.key_id = Some(authentic.key_id.clone());
    if turn.lookups.sealing.is_some() {
        sealing::conceal(&mut decision);
    }
    let by_id = format!(
        "{}/{}.json",
        request.origin.answer_dir(),
        authentic.envelope.id.file_stem()
    );
    if let Err(refusal) = may_answer_by_id(turn, request, authentic) {
        if refusal.code == Code::SignatureInvalid {
            decision.kept = Some(kept(turn, request));
        }
        refuse(&mut decision, &refusal);
        return finish(turn, decision, Vec::new(), Vec::new());
    }
    if request.origin != Origin::Local {
        decision.answer = by_id;
    }
    if let Some(seen) = &turn.lookups.seen {
        decision.attempt = seen.attempt;
        if seen.request_hash == authentic.request_hash {
            return decide_copy(turn, seen, decision);
        }
        // Otherwise it repairs that request: `may_answer_by_id` has refused all others.
        decision.attempt = seen.attempt.saturating_add(1);
    }
    decision.rate = rates::counted(turn, authentic, lane);
    let mut blobs = Vec::new();
    // A payload that no action can read is kept only if it is small; the line has its hash anyway.
    let is_kept = sealing::is_kept(authentic);
    match &turn.lookups.sealing {
        Some(sealing) => blobs = sealing.put_into(&mut decision, is_kept),
        None => {
            let payload = authentic.envelope.payload.clone();
            decision.payload = Some(payload).filter(|_| is_kept && !has_no_payload);
        }
    }
    let outcome = match &authentic.body {
        Err(refusal) => Err(refusal.clone()),
        Ok(body) => {
            decision.request_type = Some(body.rule.request_type.to_owned());
            decision.lane = lane;
            let permitted = may_do(turn, authentic, body)
                .and_then(|()| storage::refusal(turn, authentic, body).map_or(Ok(()), Err));
            if let Some(refusal) = permitted
                .as_ref()
                .err()
                .filter(|refusal| refusal.code.is_for_later())
            {
                if refusal.code == Code::StorageLow {
                    // It counts, or refusals would take what room there is.
                    decision.data = gateway::retry_after(storage::RETRY_MS);
                } else {
                    decision.data = rates::retry_after(turn, authentic, lane);
                    // The request may be sent again, so it does not count as a message.
                    decision.rate = None;
                }
                drop_large(turn, &mut decision, &mut blobs);
            }
            permitted.and_then(|()| in_step(turn, authentic, body, lane))
        }
    };
    match outcome {
        Err(refusal) => {
            refuse(&mut decision, &refusal);
            finish(turn, decision, Vec::new(), blobs)
        }
        Ok(outcome) => decide_outcome(turn, request, authentic, decision, outcome, blobs),
    }
}

/// Decides a copy of an earlier request, which gets the same answer.
fn decide_copy(turn: &Turn<'_>, seen: &Seen, mut decision: Decision) -> Decided {
    if let Err(refusal) = turn.has_room_for_copy(seen.seq, &decision.answer) {
        refuse(&mut decision, &refusal);
        decision.data = gateway::retry_after(gateway::FULL_RETRY_MS);
        return finish(turn, decision, Vec::new(), Vec::new());
    }
    decision.status = Status::Success;
    decision.metadata.replay_of = Some(seen.seq);
    decision.request_hash = decision
        .request_hash
        .or_else(|| turn.lookups.seen_as.clone());
    decision
        .changes
        .extend(turn.also_answered(seen.seq, &decision.answer));
    finish(turn, decision, Vec::new(), Vec::new())
}

/// Writes the outcome of a request that was executed, held, or refused by its checks.
fn decide_outcome(
    turn: &Turn<'_>,
    request: &Prepared,
    authentic: &Authentic,
    mut decision: Decision,
    mut outcome: Outcome,
    mut blobs: Vec<(String, Vec<u8>)>,
) -> Decided {
    // Comes before the case and the market add blobs: only those of the request are dropped.
    if outcome
        .refusal()
        .is_some_and(|refusal| refusal.code.is_for_later())
    {
        drop_large(turn, &mut decision, &mut blobs);
        outcome.facts = outcome
            .facts
            .filter(|facts| facts.len() <= MEMBER_BYTES_MAX);
        // The request may be sent again, so it does not count as a message.
        decision.rate = None;
    }
    let resolves = outcome.resolves.take();
    let holds = std::mem::take(&mut outcome.holds);
    let anomalies = std::mem::take(&mut outcome.anomalies);
    let begins = outcome.begins.take();
    let is_order = outcome.verdict.is_some();
    let repair = outcome.repair.take();
    let market = fill_in(&mut decision, outcome, authentic, &mut blobs);
    if let Some(repair) = repair {
        decision.metadata.repair = Some(Box::new(repair));
    }
    if is_order
        && decision.metadata.code == Some(Code::RateLimited)
        && let Some(repair) = &mut decision.metadata.repair
    {
        let wait_ms = rates::room_in_ms(turn, authentic, decision.lane);
        repair.retry_after_ms = u64::try_from(wait_ms).ok();
    }
    if begins.is_some() {
        gateway::begin(turn, &mut decision);
    }
    // Comes after `fill_in`, which sets the status and the changes that a hold replaces.
    if !holds.is_empty() || !anomalies.is_empty() {
        approvals::hold(turn, request, authentic, &mut decision, holds, anomalies);
        if decision.status == Status::Held {
            let file = turn
                .lookups
                .sealing
                .as_ref()
                .map(|s| s.put_file_into(&mut decision));
            blobs.extend(file.flatten());
        }
    }
    Decided {
        resolves,
        begins,
        ..finish(turn, decision, market, blobs)
    }
}

/// Carries out a request after the admission step. A task is reserved only if the request is
/// accepted: a request that another check refuses does not create a task.
fn in_step(
    turn: &Turn<'_>,
    authentic: &Authentic,
    body: &Body,
    lane: Lane,
) -> Result<Outcome, Refusal> {
    let Some(mut step) = turn.admission_step(authentic, body, lane) else {
        return rules::carry_out(turn, authentic, body, lane, None);
    };
    let is_order = body.payload::<SubmitOrder>().is_some();
    let refusal = step.refusal.take();
    if refusal.is_some() && !is_order {
        let rows = step.rows;
        return Ok(Outcome {
            receipt: Some(step.receipt),
            judged: Some(Judged { rows, refusal }),
            ..Outcome::default()
        });
    }
    // Grants for a task apply only to requests that admission has assigned to that task.
    let is_accepted = step.receipt.phase == Phase::Accepted;
    let of = step
        .receipt
        .tenant_id
        .as_deref()
        .zip(step.receipt.root_task_id.as_deref());
    let task = of.filter(|_| is_accepted).and_then(|(tenant, root)| {
        Some(TaskName::of(
            &DomainPart::parse(tenant).ok()?,
            &RequestId::parse(root).ok()?,
        ))
    });
    let carried = rules::carry_out(turn, authentic, body, lane, task.as_ref());
    let mut outcome = carried.unwrap_or_else(Outcome::refused);
    if let Some(verdict) = &mut outcome.verdict {
        if let Some(refusal) = refusal {
            outcome.repair = Some(refusal.repair);
            let nothing = Headroom {
                max_size: Amount::ZERO,
                binding_check: step.row.name.to_string(),
            };
            verdict.accepted = false;
            verdict.headroom = Some(nothing);
            outcome.changes.clear();
            outcome.holds.clear();
        }
        verdict.checks.insert(0, step.row.clone());
    } else if outcome.data.is_some()
        || outcome
            .judged
            .as_ref()
            .is_some_and(|judged| !judged.rows.is_empty())
    {
        let judged = outcome.judged.get_or_insert(Judged {
            rows: Vec::new(),
            refusal: None,
        });
        judged.rows.insert(0, step.row.clone());
    }
    let refused = match (outcome.refusal(), &outcome.verdict) {
        (Some(refusal), _) => Some(refusal.message.clone()),
        (None, Some(verdict)) if !verdict.accepted => {
            let first = verdict.checks.iter().find(|row| row.is_root());
            Some(first.map_or_else(String::new, |row| format!("check `{}` failed", row.name)))
        }
        (None, _) => None,
    };
    if let Some(why) = refused.filter(|_| step.receipt.phase == Phase::Accepted) {
        step.withdraw(&why);
    }
    outcome.changes.extend(step.changes);
    outcome.receipt = Some(step.receipt);
    Ok(outcome)
}

/// The path, below the spool, that keeps the bytes of a request without a good signature.
fn kept(turn: &Turn<'_>, request: &Prepared) -> String {
    format!("rejected/{}~{}", turn.seq, request.file)
}
