//! Outgoing actions: the step of the pipeline that lets them begin, and what is written of how they ended. Adapters run
//! beside the gate; a decision only says that one may.

use serde_json::value::RawValue;

use super::decide::MEMBER_BYTES_MAX;
use super::handle::{Judged, Outcome, Turn, yes_no};
use super::prepare::{Authentic, Refusal, escaped};
use super::record::{Decision, Flow, Metadata, Response, Status};
use super::state::Change;
use crate::actions::allowlist;
use crate::actions::anomaly::Anomaly;
use crate::actions::open::{self, Destination, OpenAction, second_of};
use crate::rules::gateway::AdapterRule;
use crate::rules::services::Service;
use crate::wire::amount::Amount;
use crate::wire::code::Code;
use crate::wire::gateway::{ActionId, AdapterAnswer, GatewayCall};
use crate::wire::json;
use crate::wire::orders::CheckResult;
use crate::wire::signing::sha256_hex;
use crate::wire::time::Time;

/// Where the allowlist is.
const SERVICES: &str = "services.yaml";
/// Where rates, anomalies and adapters are.
const GATEWAY: &str = "gateway.yaml";
/// When to come again after so many were open that none fits. Nobody knows when one of them ends. Milliseconds.
pub(super) const FULL_RETRY_MS: i64 = 1000;
/// Bytes of an adapter's complaint that are kept.
const COMPLAINT_BYTES: usize = 300;

/// What is to be done once the request's line is durable.
#[derive(Clone, Debug)]
pub struct Begins {
    /// Its name.
    pub id: ActionId,
    /// What does it.
    pub adapter: AdapterRule,
    /// Where it goes.
    pub service: Service,
    /// The payload with defaults, JSON.
    pub payload: String,
}

/// How an adapter ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// By itself and well: what it wrote says what came of it.
    Answered,
    /// It has no effect outside, and says so.
    Stub,
    /// It was not begun: nothing was done.
    NotRun,
    /// It took too long and was ended.
    TimedOut,
    /// It wrote too much and was ended.
    Flooded,
    /// It ended by a signal, or with an exit code other than 0.
    Crashed,
    /// The gate ended before it did, in order or not.
    Lost,
    /// It gave away a credential: nothing of what it wrote is kept.
    Withheld,
}

/// What an adapter did, as far as the gate saw it.
#[derive(Clone, Debug)]
pub struct Ran {
    /// How it ended.
    pub ending: Ending,
    /// In words, for people.
    pub note: String,
    /// What it wrote, if it ended well.
    pub output: Option<Vec<u8>>,
    /// The beginning of what it complained of. It is for people: who asked for the action does not get it.
    pub complaint: Vec<u8>,
}

impl Ran {
    /// One that wrote nothing.
    pub fn new(ending: Ending, note: impl Into<String>) -> Ran {
        Ran { ending, note: note.into(), output: None, complaint: Vec::new() }
    }

    /// What it complained of, as far as it is kept.
    fn complained(&self) -> Option<String> {
        let complaint = self.complaint.get(..self.complaint.len().min(COMPLAINT_BYTES)).unwrap_or_default();
        let complaint = escaped(String::from_utf8_lossy(complaint).trim());
        Some(complaint).filter(|complaint| !complaint.is_empty())
    }
}

/// A count against its limit.
fn counted(
    check: &'static str,
    count: u32,
    most: u32,
    unit: &'static str,
    fault: Option<String>,
) -> CheckResult {
    CheckResult {
        check_name: check.into(),
        passed: fault.is_none(),
        value: Some(Amount::from_i64(i64::from(count))),
        limit: Some(Amount::from_i64(i64::from(most))),
        source: GATEWAY.into(),
        unit: unit.into(),
        reason: fault.map(Into::into),
    }
}

/// The body of an answer that says when to come again.
pub(super) fn retry_after(ms: i64) -> Option<Box<RawValue>> {
    RawValue::from_string(format!(r#"{{"retryAfterMs":{ms}}}"#)).ok()
}

/// Makes the line of an action that may begin its request line.
pub(super) fn begin(turn: &Turn<'_>, decision: &mut Decision) {
    decision.status = Status::Pending;
    decision.direction = Flow::Request;
    let (spool, answer) = match turn.granted {
        Some(granted) => (granted.hold.spool.clone(), granted.hold.answer.clone()),
        None => (decision.spool.clone(), decision.answer.clone()),
    };
    let (payload_hash, signature) = (decision.payload_hash.clone(), decision.signature.clone());
    for change in &mut decision.changes {
        if let Change::Actions(open::Change::Opened(opened)) = change {
            opened.spool.clone_from(&spool);
            opened.answer.clone_from(&answer);
            opened.payload_hash.clone_from(&payload_hash);
            opened.signature.clone_from(&signature);
        }
    }
}

impl Turn<'_> {
    /// Where the answer of an action that is open goes besides, now that a copy of its request came.
    pub(super) fn also_answered(&self, line: u64, answer: &str) -> Option<Change> {
        let open = self.state.actions.open.get(&ActionId(line))?;
        let (id, is_known) = (open.id, open.answers(answer));
        (!is_known).then(|| Change::Actions(open::Change::AlsoAnswer { id, answer: answer.to_owned() }))
    }

    /// Refuses a copy whose answer would go nowhere: more places wait for that of its original than it can go to.
    pub(super) fn has_room_for_copy(&self, line: u64, answer: &str) -> Result<(), Refusal> {
        let id = ActionId(line);
        if !self.state.actions.is_full_of_copies(id, answer) {
            return Ok(());
        }
        let most = open::ALSO_MAX;
        let what = format!("{id} is on its way, and {most} other places wait for its answer already");
        Err(Refusal::new(Code::ActionsFull, what))
    }

    /// The row of a rate. A person who granted a request wanted just this one to be done, and it has an id that no other
    /// request can have any more: then it is only told.
    fn limited(&self, check: &'static str, count: u32, most: u32, fault: Option<String>) -> CheckResult {
        let mut row = counted(check, count, most, "actions", fault);
        if let Some(why) = row.reason.as_mut().filter(|_| self.granted.is_some()) {
            *why = format!("warn: {why}").into();
            row.passed = true;
        }
        row
    }

    /// Decides whether an outgoing action may begin.
    pub(super) fn begin_action(&self, authentic: &Authentic, call: &GatewayCall) -> Result<Outcome, Refusal> {
        let envelope = &authentic.envelope;
        let (source, action) = (&envelope.source, envelope.action.as_str());
        let (state, rules) = (&self.state.actions, &self.rules.gateway);
        let destination = allowlist::destination(&self.rules.services, action, call);
        let mut rows = vec![
            yes_no("rulebook", self.state.rulebook.fault.clone(), false, "state"),
            yes_no("clock", self.state.clock_fault(), false, "state"),
            yes_no("manual_halt", self.state.halted(source), false, "state"),
            yes_no("allowlist", destination.as_ref().err().cloned(), false, SERVICES),
        ];
        let second = second_of(self.now);
        let own = state.hours.get(source).and_then(|hours| hours.get(action));
        let own_count = own.map_or(0, |hour| hour.within(second)).saturating_add(1);
        let (own_max, all_max) = (rules.rates.of(action), rules.rates.all_per_hour);
        let over = (own_count > own_max)
            .then(|| format!("`{source}` may begin {own_max} of `{action}` within an hour"));
        rows.push(self.limited("action_rate", own_count, own_max, over));
        let all_count = state.all.within(second).saturating_add(1);
        let over =
            (all_count > all_max).then(|| format!("all together may begin {all_max} actions within an hour"));
        rows.push(self.limited("gateway_rate", all_count, all_max, over));
        let open_count = u32::try_from(state.open.len()).unwrap_or(u32::MAX).saturating_add(1);
        let payload = call.to_json().map_err(|why| Refusal::new(Code::Internal, why))?;
        let payload_bytes = u64::try_from(payload.len()).unwrap_or(u64::MAX);
        let mut others = self.rules.principals.values().filter(|other| other.name != *source);
        let has_others = others.any(|other| !other.actions.is_empty());
        let over = state.without_room(source, payload_bytes, rules.open_max, has_others);
        rows.push(self.limited("open_actions", open_count, rules.open_max, over));
        let mut anomalies = Vec::new();
        let is_approved =
            |anomaly: Anomaly| self.granted.is_some_and(|granted| granted.hold.anomalies.contains(&anomaly));
        let mut flag = |anomaly: Anomaly, count: u32, most: u32, unit: &'static str, what: String| {
            let fault = (count > most).then_some(what);
            let mut row = counted(anomaly.check_name(), count, most, unit, fault);
            if !row.passed && is_approved(anomaly) {
                row.passed = true;
                row.reason = row.reason.map(|why| format!("approved: {why}").into());
            } else if !row.passed {
                anomalies.push(anomaly);
            }
            rows.push(row);
        };
        let window_ms = i64::from(rules.anomalies.burst_window_s).saturating_mul(1000);
        let signed_ms = envelope.timestamp.ms();
        let burst = state.signed.get(source).map_or(1, |signed| signed.densest(signed_ms, window_ms));
        let most = rules.anomalies.burst_max;
        let what = format!(
            "more than {most} actions of `{source}` were signed within {} s",
            rules.anomalies.burst_window_s
        );
        flag(Anomaly::Burst, burst, most, "actions", what);
        let bytes = u32::try_from(envelope.payload.len()).unwrap_or(u32::MAX);
        let most = rules.anomalies.payload_bytes_max;
        flag(Anomaly::Payload, bytes, most, "bytes", format!("the payload is larger than {most} bytes"));
        let first = destination.as_ref().ok().and_then(|service| {
            let destination = Destination { host: service.host.clone(), added_at: service.added_at };
            let is_known = state.destinations.get(&service.service) == Some(&destination);
            (!is_known).then(|| (service.service.clone(), destination))
        });
        let news = first.as_ref().map(|(service, destination)| {
            let Destination { host, added_at } = destination;
            format!("warn: nothing went to `{host}` since `{service}` was allowed at {added_at}")
        });
        rows.push(yes_no("anomaly_destination", news, true, SERVICES));
        let adapter =
            destination.as_ref().ok().and_then(|service| rules.adapter(action, service.service.as_str()));
        let fault =
            adapter.is_none().then(|| format!("rules/gateway.yaml has no adapter for `{action}` there"));
        rows.push(yes_no("adapter", fault, false, GATEWAY));
        let is_of_anomaly =
            |row: &&CheckResult| anomalies.iter().any(|anomaly| anomaly.check_name() == row.check_name);
        let failed = rows.iter().find(|row| !row.passed && !is_of_anomaly(row));
        let refusal = failed.map(super::decide::refusal_of);
        let (Ok(service), Some(adapter), None) = (&destination, adapter, &refusal) else {
            let after_ms = match refusal.as_ref().map(|refusal| refusal.code) {
                Some(Code::RateLimited) => {
                    let own_ms = own.map_or(0, |hour| hour.room_at_ms(second, own_max));
                    let at_ms = own_ms.max(state.all.room_at_ms(second, all_max));
                    Some(at_ms.saturating_sub(self.now.ms()).max(0))
                }
                Some(Code::ActionsFull) => Some(FULL_RETRY_MS),
                _ => None,
            };
            let data = after_ms.and_then(retry_after);
            return Ok(Outcome { data, judged: Some(Judged { rows, refusal }), ..Outcome::default() });
        };
        let id = ActionId(self.seq);
        let opened = OpenAction {
            id,
            request_id: envelope.id.clone(),
            source: source.clone(),
            action: action.to_owned(),
            service: service.service.clone(),
            host: service.host.clone(),
            adapter: adapter.adapter.as_str().to_owned(),
            payload_hash: None,
            signature: None,
            spool: String::new(),
            answer: String::new(),
            also: Vec::new(),
            payload_bytes,
            signed_at: envelope.timestamp,
            begun_at: self.now,
        };
        let begins = Begins { id, adapter: adapter.clone(), service: (*service).clone(), payload };
        let first = first.map(|(service, destination)| open::Change::FirstUse { service, destination });
        let changes = first.into_iter().chain([open::Change::Opened(Box::new(opened))]);
        Ok(Outcome {
            changes: changes.map(Change::Actions).collect(),
            begins: Some(Box::new(begins)),
            anomalies,
            judged: Some(Judged { rows, refusal: None }),
            ..Outcome::default()
        })
    }
}

/// What is written of how an action ended: its line, and the contents by digest that must be durable before it.
pub fn respond(
    open: &OpenAction,
    ran: &Ran,
    rulebook: &str,
    now: Time,
    seq: u64,
) -> (Response, Vec<(String, Vec<u8>)>) {
    let (mut response, blobs) = written(open, heard(open, ran), rulebook, now, seq);
    if response.status != Status::Success {
        response.complaint = ran.complained();
    }
    (response, blobs)
}

/// The answer's body, why it is an error, and how the adapter ended, in words.
pub(super) type Heard = (Option<Box<RawValue>>, Option<Refusal>, String);

/// The line of what was heard.
pub(super) fn written(
    open: &OpenAction,
    (data, refusal, note): Heard,
    rulebook: &str,
    now: Time,
    seq: u64,
) -> (Response, Vec<(String, Vec<u8>)>) {
    let mut blobs = Vec::new();
    let (mut data, mut data_blob) = (data, None);
    if let Some(large) = data.take_if(|data| data.get().len() > MEMBER_BYTES_MAX) {
        let digest = sha256_hex(large.get().as_bytes());
        blobs.push((digest.clone(), large.get().as_bytes().to_vec()));
        data_blob = Some(digest);
    }
    let response = Response {
        timestamp: now,
        id: seq.to_string(),
        request_id: open.request_id.to_string(),
        action: open.action.clone(),
        source: open.source.to_string(),
        direction: Flow::Response,
        status: if refusal.is_none() { Status::Success } else { Status::Error },
        payload_hash: open.payload_hash.clone(),
        signature: open.signature.clone(),
        request_line: open.id.0,
        adapter: open.adapter.clone(),
        note,
        complaint: None,
        data,
        data_blob,
        metadata: Metadata {
            code: refusal.as_ref().map(|refusal| refusal.code),
            message: refusal.map(|refusal| refusal.message),
            replay_of: None,
        },
        spool: open.spool.clone(),
        answer: open.answer.clone(),
        also: open.also.clone(),
        rulebook: rulebook.to_owned(),
        changes: vec![Change::Actions(open::Change::Closed { id: open.id })],
    };
    (response, blobs)
}

/// Why an action is answered as an error, where nothing but how it ended says so.
pub(super) fn ended_badly(open: &OpenAction, code: Code, note: &str) -> Refusal {
    Refusal::new(code, format!("{}: {note}", open.id))
}

/// Body and reason of the answer of a stub.
pub(super) fn of_stub(open: &OpenAction) -> (Option<Box<RawValue>>, Refusal) {
    let data = RawValue::from_string(r#"{"stub":true}"#.to_owned()).ok();
    (data, Refusal::new(Code::StubAdapter, format!("{}: nothing was done", open.id)))
}

fn heard(open: &OpenAction, ran: &Ran) -> Heard {
    let note = escaped(&ran.note);
    let refusal = |code: Code, what: &str| Some(Refusal::new(code, format!("{}: {what}", open.id)));
    let failed = |code: Code| (None, Some(ended_badly(open, code, &note)), note.clone());
    match ran.ending {
        Ending::Stub => {
            let (data, refusal) = of_stub(open);
            (data, Some(refusal), note)
        }
        Ending::NotRun => failed(Code::AdapterNotRun),
        Ending::TimedOut => failed(Code::AdapterTimedOut),
        Ending::Flooded | Ending::Withheld => failed(Code::AdapterOutput),
        Ending::Crashed => failed(Code::AdapterCrashed),
        Ending::Lost => failed(Code::UnknownOutcome),
        Ending::Answered => match read(ran.output.as_deref().unwrap_or_default()) {
            Ok(AdapterAnswer { data, error: None, .. }) => (data, None, note),
            Ok(AdapterAnswer { data, error: Some(error), .. }) => {
                (data, refusal(Code::AdapterFailed, &format!("{}: {}", error.code, error.message)), note)
            }
            Err(why) => (None, refusal(Code::AdapterOutput, &format!("{}; {why}", ran.note)), note),
        },
    }
}

fn read(output: &[u8]) -> Result<AdapterAnswer, String> {
    let text = json::check_object(output).map_err(|error| format!("its output is no answer: {error}"))?;
    let text = json::minify(text);
    let mut answer: AdapterAnswer =
        serde_json::from_str(&text).map_err(|error| format!("its output is no answer: {error}"))?;
    // A line does not tell a null from nothing.
    answer.data.take_if(|data| data.get() == "null");
    match (answer.success, &answer.error) {
        (true, Some(_)) => Err("its output says both success and an error".to_owned()),
        (false, None) => Err("its output says neither success nor an error".to_owned()),
        _ => Ok(answer),
    }
}
