//! `decide`: the pure function from the gate's state and one request to its ledger lines.

use serde_json::value::RawValue;

use super::actions::{Body, Freshness, Lane};
use super::admission;
use super::approvals::{self, Granted, Resolution};
use super::council::{Closing, Said};
use super::elsewhere::NoLineage;
use super::gateway::{self, Begins};
use super::handle::{Judged, Outcome, Turn};
use super::history::{self, History};
use super::outbox;
use super::prepare::{Authentic, Origin, Prepared, Refusal, Unverified};
use super::proposals;
use super::rates;
use super::record::{CaseDecision, Decision, MarketRows, Ruling, Status};
use super::rules;
use super::sealing::{self, Sealing};
use super::state::{Change, State};
use spoolgate_admission::lineage::{Lineage, Query, Reported};
use spoolgate_admission::receipt::Phase;
use spoolgate_control::Earlier;
use spoolgate_council::case::Docket;
use spoolgate_rules::Rulebook;
use spoolgate_trading::order::Fill;
use spoolgate_trading::requests::ClosedOrder;
use spoolgate_wire::admission::receipt_id;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::checks::CheckRow;
use spoolgate_wire::code::Code;
use spoolgate_wire::council::CouncilRequest;
use spoolgate_wire::envelope::Envelope;
use spoolgate_wire::gateway::GatewayCall;
use spoolgate_wire::ids::{
    ControlId, DomainPart, ExecId, OrderId, Principal, ProposalId, RequestId, ServiceName, TaskName,
};
use spoolgate_wire::orders::{Headroom, SubmitOrder};
use spoolgate_wire::signing;
use spoolgate_wire::time::Time;

/// Members larger than this go to `audit/blobs` and are named by digest. Bytes.
pub const MEMBER_BYTES_MAX: usize = 8 * 1024;

/// An earlier request under the same id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The sender.
    pub source: String,
    /// SHA-256 of its signing string, hex.
    pub request_hash: String,
    /// The line that answered it.
    pub seq: u64,
}

/// The unbounded facts that a decision needs; the host looks them up and fills [`Lookups`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// An order that may be closed.
    pub closed_order: Option<OrderId>,
    /// Fills recorded since this time.
    pub fills_since: Option<Time>,
    /// A blob of market rows, by digest.
    pub rows: Option<String>,
    /// Whether the keyring holds this key.
    pub key: Option<String>,
    /// Whether the keyring holds the credential of a service under this name.
    pub credential: Option<(ServiceName, String)>,
    /// A council case. With a role: also the contents of the case, if one more verdict for this
    /// role decides it.
    pub case: Option<(RequestId, Option<String>)>,
    /// The lineage of a task that asks for admission.
    pub lineage: Option<Query>,
    /// The control decision of this sender under this `decision_id`.
    pub control: Option<(Principal, ControlId)>,
    /// The line that booked this report of this bridge.
    pub report: Option<(Principal, ExecId)>,
    /// The accepted requests of the sender, as far as rules read them.
    pub history: Option<history::Query>,
    /// A proposal whose last step is needed.
    pub proposal: Option<ProposalId>,
    /// A rule file to compare with the rulebook in force, for a request that makes a proposal or
    /// edits a file. The file of [`Needs::proposal`] is compared anyway.
    pub rule_file: Option<String>,
    /// Ledger lines, to count how many of them are decisions.
    pub evidence: Vec<u64>,
    /// A council case and its request.
    pub citation: Option<RequestId>,
}

/// The facts that [`Needs`] names, and what the replay check reads.
#[derive(Clone, Debug, Default)]
pub struct Lookups {
    /// The request of the same source and id.
    pub seen: Option<Seen>,
    /// The request of any source under this id in this spool.
    pub seen_in_spool: Option<Seen>,
    /// The hash of that request as its line has it, if this request has sealed members.
    pub seen_as: Option<String>,
    /// This request without its sealed members, under the salts of its line; `None` if it has none.
    pub sealing: Option<Sealing>,
    /// Whether the stored answer of `seen` is lost because a blob is missing or damaged.
    pub answer_is_lost: bool,
    /// Names the pruned segments that hold lines this decision needs; the other look-ups may then
    /// be empty. `None` if nothing needed was pruned.
    pub pruned: Option<String>,
    /// The closed order.
    pub closed_order: Option<ClosedOrder>,
    /// Fills since that time, oldest first, at most [`FILLS_MAX`] + 1.
    pub fills: Vec<Fill>,
    /// The rows' bytes; `None` if there is no such blob.
    pub rows: Option<Vec<u8>>,
    /// Whether the keyring holds the key, or the credential.
    pub key_is_held: bool,
    /// The council case.
    pub docket: Option<Docket>,
    /// Payload hash of the case's request as it was signed, if sealed members make it differ from
    /// the hash in its line.
    pub signed_case: Option<String>,
    /// The contents of the case.
    pub said: Option<Said>,
    /// Whether this batch has decided its maximum number of cases; a case that is complete is then
    /// decided in the next batch.
    pub no_more_cases: bool,
    /// The task's tree, as the ledger has it.
    pub lineage: Lineage,
    /// The answer of a lineage command, or why there is none; `None` if no command was run.
    pub reported: Option<Result<Reported, NoLineage>>,
    /// The sender's earlier decision under the same `decision_id`.
    pub decided: Option<Earlier>,
    /// The line that booked a report of the sender under the same exec_id.
    pub booked_in: Option<u64>,
    /// The sender's earlier accepted requests; `None` if no rule reads them.
    pub history: Option<History>,
    /// The last step of the proposal.
    pub proposal: Option<proposals::Change>,
    /// Whether the rule's file differs from the rulebook in force.
    pub rule_file_differs: bool,
    /// Whether only signatures approve proposals.
    pub only_signatures_approve: bool,
    /// How many of the lines are decisions.
    pub evidence_found: usize,
    /// The council case, and its request if that can be read.
    pub citation: Option<(Docket, Option<CouncilRequest>)>,
}

/// Part of the message used when a blob of an earlier answer is missing.
pub(super) const ANSWER_LOST: &str = "cannot be rebuilt";

/// Maximum number of fills in one answer.
pub const FILLS_MAX: usize = 1000;

/// The lines and effects of a decision.
#[derive(Clone, Debug)]
pub struct Decided {
    /// `market` lines that come before the decision's own.
    pub market: Vec<MarketRows>,
    /// The decision's line.
    pub decision: Decision,
    /// The line after it, if the request decides a council case.
    pub council: Option<CaseDecision>,
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
            // Nothing is kept of a frame that was never complete.
            let is_nothing = request.origin == Origin::Socket && request.file_bytes.is_none();
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
        authentic.envelope.id
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
        return finish(turn, decision, Vec::new(), Vec::new());
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
            let permitted = may_do(turn, authentic, body);
            if permitted
                .as_ref()
                .is_err_and(|refusal| refusal.code == Code::RateLimited)
            {
                let after_ms = rates::retry_after_ms(turn, &authentic.envelope.source);
                decision.data =
                    RawValue::from_string(format!(r#"{{"retryAfterMs":{after_ms}}}"#)).ok();
                drop_large(turn, &mut decision, &mut blobs);
            }
            permitted.and_then(|()| in_step(turn, authentic, body, lane))
        }
    };
    let mut market = Vec::new();
    let mut case = None;
    let mut resolves = None;
    let mut begins = None;
    match outcome {
        Err(refusal) => refuse(&mut decision, &refusal),
        Ok(mut outcome) => {
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
            if let Some(Closing {
                line,
                blobs: of_case,
                ..
            }) = outcome.closing.take()
            {
                case = Some(line);
                blobs.extend(of_case);
            }
            resolves = outcome.resolves.take();
            let holds = std::mem::take(&mut outcome.holds);
            let anomalies = std::mem::take(&mut outcome.anomalies);
            begins = outcome.begins.take();
            market = fill_in(&mut decision, outcome, authentic, &mut blobs);
            if begins.is_some() {
                gateway::begin(turn, &mut decision);
            }
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
        }
    }
    Decided {
        council: case,
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
    if step.refuses() && !is_order {
        let (refusal, rows) = (Some(admission::refusal_of(&step.receipt)), step.rows);
        let judged = Some(Judged { rows, refusal });
        return Ok(Outcome {
            receipt: Some(step.receipt),
            judged,
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
        if step.refuses() {
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
            let first = verdict.checks.iter().find(|row| !row.passed);
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

/// A rate-limited request may be sent again under the same id, so the line keeps nothing large of
/// it; otherwise a flood fills the ledger.
fn drop_large(turn: &Turn<'_>, decision: &mut Decision, blobs: &mut Vec<(String, Vec<u8>)>) {
    decision.payload = decision
        .payload
        .take()
        .filter(|payload| payload.len() <= MEMBER_BYTES_MAX);
    if turn.lookups.sealing.is_some() {
        sealing::conceal(decision);
        decision.payload = None;
        decision.sealed.clear();
        blobs.clear();
    }
}

/// The path, below the spool, that keeps the bytes of a request without a good signature.
fn kept(turn: &Turn<'_>, request: &Prepared) -> String {
    format!("rejected/{}~{}", turn.seq, request.file)
}

/// Checks that the answer may go under the request's id: the key is still valid, the spool is the
/// sender's own, and the id is free or was used by the same request.
pub(super) fn may_answer_by_id(
    turn: &Turn<'_>,
    request: &Prepared,
    authentic: &Authentic,
) -> Result<(), Refusal> {
    let envelope = &authentic.envelope;
    let key_holds = turn
        .state
        .keys
        .get(&authentic.key_id)
        .is_some_and(|key| key.is_active(turn.now));
    if !key_holds {
        let what = format!(
            "file `{}`: key {} of `{}` has ended",
            request.file, authentic.key_id, envelope.source
        );
        return Err(Refusal::new(Code::SignatureInvalid, what));
    }
    let bound = turn
        .rules
        .principals
        .get(&envelope.source)
        .and_then(|rule| rule.spool.as_ref());
    if !request.origin.is_for(bound) {
        let what = format!(
            "file `{}`: `{}` is not bound to this spool directory",
            request.file, envelope.source
        );
        return Err(Refusal::new(Code::WrongSpool, what));
    }
    if let Some(seen) = turn
        .lookups
        .seen
        .as_ref()
        .filter(|_| turn.lookups.answer_is_lost)
    {
        let what = format!(
            "file `{}`: the answer stored in ledger line {} {ANSWER_LOST}: `audit/blobs` lacks a \
                part of it",
            request.file, seen.seq
        );
        return Err(Refusal::new(Code::Internal, what));
    }
    let other = [&turn.lookups.seen, &turn.lookups.seen_in_spool]
        .into_iter()
        .flatten()
        .find(|seen| {
            seen.source != envelope.source.as_str() || seen.request_hash != authentic.request_hash
        });
    match other {
        Some(seen)
            if request.origin == Origin::Local && seen.source != envelope.source.as_str() => {}
        Some(seen) => {
            let what = format!(
                "file `{}`: id `{}` was already used by another request (ledger line {}), whose \
                    answer stands",
                request.file, envelope.id, seen.seq
            );
            return Err(Refusal::new(Code::RequestIdConflict, what));
        }
        None => {}
    }
    match &turn.lookups.pruned {
        Some(files) => {
            let what = match &turn.lookups.seen {
                Some(seen) => format!(
                    "file `{}`: the decision in ledger line {} stands, but its answer was pruned \
                        with {files}",
                    request.file, seen.seq
                ),
                None => format!(
                    "file `{}`: what the request refers to was pruned with {files}",
                    request.file
                ),
            };
            Err(Refusal::new(Code::Pruned, what))
        }
        None => Ok(()),
    }
}

/// The checks between the schema and the action's own: permission, freshness and message rate.
pub(super) fn may_do(turn: &Turn<'_>, authentic: &Authentic, body: &Body) -> Result<(), Refusal> {
    let source = &authentic.envelope.source;
    let Some(rule) = turn.rules.principals.get(source) else {
        let what = format!("`{source}` is not in rules/principals.yaml");
        return Err(Refusal::new(Code::NotPermitted, what));
    };
    if !body.rule.senders.contains(&rule.role) {
        let what = format!(
            "`{source}` has the role `{}` and may not send `{}`",
            rule.role.as_str(),
            body.rule.name
        );
        return Err(Refusal::new(Code::NotPermitted, what));
    }
    if body.payload::<GatewayCall>().is_some()
        && !rule.actions.iter().any(|name| *name == body.rule.name)
    {
        let what = format!(
            "`{source}` does not have `{}` in its `actions`",
            body.rule.name
        );
        return Err(Refusal::new(Code::NotPermitted, what));
    }
    if turn.granted.is_some() {
        return Ok(());
    }
    let age_max_s = match body.rule.freshness {
        // Checked in a row of the check vector, where entries and exits differ, or not at all.
        Freshness::ByClass | Freshness::Exit | Freshness::Never => return Ok(()),
        Freshness::Request => rule
            .request_age_max_s
            .unwrap_or(turn.rules.safety.request_age_max_s),
    };
    let ahead_max_s = turn.rules.safety.request_ahead_max_s;
    let age_ms = turn
        .now
        .since_ms(turn.signed_at(authentic.envelope.timestamp));
    if age_ms > i64::from(age_max_s).saturating_mul(1000)
        || age_ms < i64::from(ahead_max_s).saturating_mul(-1000)
    {
        let what = format!(
            "signed at {}, and the gate's clock is at {}: the request is {} ms old; it may be \
                {age_max_s} s old at most, and {ahead_max_s} s ahead",
            authentic.envelope.timestamp_text, turn.now, age_ms
        );
        return Err(Refusal::new(Code::TimestampStale, what));
    }
    rates::refusal(turn, authentic, body.rule.lane).map_or(Ok(()), Err)
}

/// A decision line with everything that does not depend on the outcome. `hashes` are the hashes of
/// payload and request.
fn blank(
    turn: &Turn<'_>,
    request: &Prepared,
    lane: Lane,
    envelope: Option<&Envelope>,
    hashes: Option<(String, String)>,
) -> Decision {
    let (payload_hash, request_hash) = hashes.unzip();
    let answer = match request.origin {
        Origin::Local => format!("{}/{}", request.origin.answer_dir(), request.file),
        _ => format!(
            "{}/{}.error.json",
            request.origin.answer_dir(),
            request.file.trim_start_matches('=')
        ),
    };
    Decision {
        request_id: envelope.map(|e| e.id.to_string()),
        action: envelope.map(|e| e.action.clone()),
        source: envelope.map(|e| e.source.to_string()),
        payload_hash,
        signature: envelope.map(|e| e.signature.clone()),
        request_hash,
        requested_at: envelope.map(|e| e.timestamp_text.clone()),
        spool: request.origin.label(),
        file: request.file.clone(),
        file_sha256: request.file_sha256.clone(),
        file_bytes: request.file_bytes,
        lane,
        answer,
        ..refused(turn.now, turn.seq, &turn.rules.hash)
    }
}

/// A decision line that holds only when, and under which rules, something was refused.
pub(super) fn refused(now: Time, seq: u64, rulebook: &str) -> Decision {
    Decision {
        timestamp: now,
        id: seq.to_string(),
        rulebook: rulebook.to_owned(),
        ..Decision::default()
    }
}

fn refuse(decision: &mut Decision, refusal: &Refusal) {
    decision.status = if refusal.code.is_for_later() {
        Status::RateLimited
    } else {
        Status::Rejected
    };
    decision.metadata.code = Some(refusal.code);
    decision.metadata.message = Some(refusal.message.clone());
}

/// Writes an outcome into its line. Returns the market lines that come before it.
fn fill_in(
    decision: &mut Decision,
    outcome: Outcome,
    authentic: &Authentic,
    blobs: &mut Vec<(String, Vec<u8>)>,
) -> Vec<MarketRows> {
    let Outcome {
        verdict,
        order_id,
        data,
        changes,
        market,
        judged,
        receipt,
        facts,
        ..
    } = outcome;
    if let Some(order) = authentic.payload::<SubmitOrder>() {
        decision.strategy = Some(order.strategy.to_string());
        decision.symbol = Some(order.symbol.to_string());
        decision.side = Some(order.side.as_str().to_owned());
        decision.size = Some(order.size);
    }
    decision.status = Status::Success;
    decision.changes = changes;
    decision.order_id = order_id;
    decision.receipt = receipt.map(Box::new);
    if let Some(data) = data {
        let text = data.get();
        if text.len() > MEMBER_BYTES_MAX {
            let digest = signing::sha256_hex(text.as_bytes());
            blobs.push((digest.clone(), text.as_bytes().to_vec()));
            decision.data_blob = Some(digest);
        } else {
            decision.data = Some(data);
        }
    }
    if let Some(facts) = facts {
        if facts.len() > MEMBER_BYTES_MAX {
            let digest = signing::sha256_hex(facts.as_bytes());
            blobs.push((digest.clone(), facts.into_bytes()));
            decision.facts_blob = Some(digest);
        } else {
            decision.facts = RawValue::from_string(facts).ok();
        }
    }
    if let Some(Judged { rows, refusal }) = judged {
        let all = rows.iter().all(|row| row.passed) && refusal.is_none();
        let ruling = if all {
            Ruling::Accepted
        } else {
            Ruling::Rejected
        };
        decision.decision = Some(ruling).filter(|_| !rows.is_empty());
        decision.checks = rows;
        if let Some(refusal) = refusal {
            refuse(decision, &refusal);
        }
    }
    if let Some(verdict) = verdict {
        decision.decision = Some(if verdict.accepted {
            Ruling::Accepted
        } else {
            Ruling::Rejected
        });
        decision.headroom = verdict.headroom;
        let failed = verdict
            .checks
            .iter()
            .find(|row| !row.passed)
            .filter(|_| !verdict.accepted);
        if let Some(row) = failed {
            decision.order_id = None;
            refuse(decision, &refusal_of(row));
        }
        decision.checks = verdict.checks;
    }
    market
}

/// The refusal of a request whose first failed check is this row.
pub(super) fn refusal_of(row: &CheckRow) -> Refusal {
    let code = match &*row.name {
        _ if rules::is_of_rule(row) => Code::RuleRefused,
        "request_freshness" => Code::TimestampStale,
        "rulebook" => Code::RulebookInvalid,
        "message_rate" | "action_rate" | "gateway_rate" => Code::RateLimited,
        "open_actions" => Code::ActionsFull,
        "allowlist" => Code::NotAllowlisted,
        "adapter" => Code::NoAdapter,
        _ => Code::ChecksFailed,
    };
    let show = |value: Option<Amount>| {
        value.map_or_else(
            || "unknown".to_owned(),
            |value| value.normalized().to_string(),
        )
    };
    let reason = row.reason.clone().unwrap_or_else(|| {
        let (value, limit) = (show(row.value), show(row.limit));
        format!(
            "{value} against a limit of {limit} ({}) in {}",
            row.unit, row.source
        )
        .into()
    });
    Refusal::new(code, format!("check `{}` failed: {reason}", row.name))
}

/// The changes of a decision's lines, line by line, with orders at venues handed over to the
/// outbox.
fn handed_over(
    turn: &Turn<'_>,
    market: Vec<MarketRows>,
    changes: Vec<Change>,
) -> (Vec<MarketRows>, Vec<Change>) {
    let book = &turn.state.book;
    let has_venues = book.orders.values().any(|order| order.at_venue.is_some());
    if market.is_empty() || !has_venues {
        return (market, outbox::of_line(book, changes, turn.now));
    }
    let mut book = book.clone();
    let mut follow = |changes: Vec<Change>| {
        let changes = outbox::of_line(&book, changes, turn.now);
        for change in &changes {
            // A change that does not fit the book is found and reported when the line is folded.
            if let Change::Book(change) = change
                && book.apply(change).is_err()
            {
                break;
            }
        }
        changes
    };
    let market: Vec<MarketRows> = market
        .into_iter()
        .map(|rows| MarketRows {
            changes: follow(rows.changes.clone()),
            ..rows
        })
        .collect();
    let changes = follow(changes);
    (market, changes)
}

/// Moves large members into blobs, and numbers the decision after its market lines.
fn finish(
    turn: &Turn<'_>,
    mut decision: Decision,
    market: Vec<MarketRows>,
    mut blobs: Vec<(String, Vec<u8>)>,
) -> Decided {
    if let Some(payload) = decision
        .payload
        .take_if(|payload| payload.len() > MEMBER_BYTES_MAX)
    {
        let digest = signing::sha256_hex(payload.as_bytes());
        decision.payload_blob = Some(digest.clone());
        blobs.push((digest, payload.into_bytes()));
    }
    let (market, changes) = handed_over(turn, market, std::mem::take(&mut decision.changes));
    decision.changes = changes;
    let before = u64::try_from(market.len()).unwrap_or(u64::MAX);
    let seq = turn.seq.saturating_add(before);
    decision.id = seq.to_string();
    if let Some(receipt) = &mut decision.receipt {
        receipt.receipt_id = receipt_id(seq);
    }
    Decided {
        market,
        decision,
        council: None,
        blobs,
        begins: None,
        resolves: None,
    }
}
