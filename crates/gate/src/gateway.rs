//! Outgoing actions: the step that lets them begin, and the lines about how they ended. Adapters
//! run beside the gate; a decision only states that one may run.

use serde_json::value::RawValue;

use super::handle::{Judged, Outcome, Turn};
use super::prepare::{Authentic, Refusal, escaped};
use super::record::{Blob, Cage, Decision, Flow, Metadata, Response, Status};
use super::state::Change;
use spoolgate_outgoing::allowlist;
use spoolgate_outgoing::anomaly::Anomaly;
use spoolgate_outgoing::open::{self, Destination, OpenAction, second_of};
use spoolgate_rules::gateway::AdapterRule;
use spoolgate_rules::services::Service;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::answer::Removed;
use spoolgate_wire::checks::CheckRow;
use spoolgate_wire::code::Code;
use spoolgate_wire::envelope::Envelope;
use spoolgate_wire::gateway::{ActionId, AdapterAnswer, GatewayCall};
use spoolgate_wire::ids::{Principal, ServiceName};
use spoolgate_wire::json;
use spoolgate_wire::sealed::Salt;
use spoolgate_wire::time::Time;

/// File of the allowlist, below `rules/`.
const SERVICES: &str = "services.yaml";
/// File of rates, anomalies and adapters, below `rules/`.
const GATEWAY: &str = "gateway.yaml";
/// How long to wait when the maximum number of actions is open: when one ends is not known.
/// Milliseconds.
pub(super) const FULL_RETRY_MS: i64 = 1000;
/// Maximum bytes kept of an adapter's complaint.
const COMPLAINT_BYTES: usize = 300;

/// An action to start once its request's line is durable.
#[derive(Clone, Debug)]
pub struct Begins {
    /// The name of the action.
    pub id: ActionId,
    /// The adapter that carries it out.
    pub adapter: AdapterRule,
    /// The service that it goes to.
    pub service: Service,
    /// The payload with defaults, JSON.
    pub payload: String,
}

/// How an adapter ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It ended well, and its output states the result.
    Answered,
    /// It was a stub, which has no effect outside.
    Stub,
    /// It was not started, so nothing was done.
    NotRun,
    /// It took too long and was killed.
    TimedOut,
    /// It wrote too much and was killed.
    Flooded,
    /// It ended by a signal, or with an exit code other than 0.
    Crashed,
    /// The gate ended, in order or not, before the adapter did.
    Lost,
    /// It disclosed a credential; nothing of its output is kept.
    Withheld,
}

/// What an adapter did, as far as the gate saw it.
#[derive(Clone, Debug)]
pub struct Ran {
    /// How it ended.
    pub ending: Ending,
    /// How it ended, as a text for operators.
    pub note: String,
    /// Its output, if it ended well.
    pub output: Option<Vec<u8>>,
    /// The first bytes of its complaint, for operators only: the sender does not get it.
    pub complaint: Vec<u8>,
    /// What its cage enforced; `None` if it was not started, or without a cage.
    pub cage: Option<Cage>,
}

impl Ran {
    /// A run without output.
    pub fn new(ending: Ending, note: impl Into<String>) -> Ran {
        Ran {
            ending,
            note: note.into(),
            output: None,
            complaint: Vec::new(),
            cage: None,
        }
    }

    /// The complaint, as far as it is kept.
    fn complained(&self) -> Option<String> {
        let complaint = self
            .complaint
            .get(..self.complaint.len().min(COMPLAINT_BYTES))
            .unwrap_or_default();
        let complaint = escaped(String::from_utf8_lossy(complaint).trim());
        Some(complaint).filter(|complaint| !complaint.is_empty())
    }
}

/// The row that compares a count with its limit.
fn counted(
    check: &'static str,
    count: u32,
    most: u32,
    unit: &'static str,
    fault: Option<String>,
) -> CheckRow {
    CheckRow::compared(Amount::from(count), Amount::from(most), unit, GATEWAY)
        .unless_fault(fault)
        .named(check)
}

/// The body of an answer that states how long to wait.
pub(super) fn retry_after(ms: i64) -> Option<Box<RawValue>> {
    RawValue::from_string(format!(r#"{{"retryAfterMs":{ms}}}"#)).ok()
}

/// Turns the decision of an action that may begin into its request line.
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
    /// Adds another place for the answer of an open action, after a copy of its request arrived.
    pub(super) fn also_answered(&self, line: u64, answer: &str) -> Option<Change> {
        let open = self.state.actions.open.get(&ActionId(line))?;
        let (id, is_known) = (open.id, open.answers(answer));
        (!is_known).then(|| {
            Change::Actions(open::Change::AlsoAnswer {
                id,
                answer: answer.to_owned(),
            })
        })
    }

    /// Refuses a copy if the maximum number of places already waits for the answer of the original.
    pub(super) fn has_room_for_copy(&self, line: u64, answer: &str) -> Result<(), Refusal> {
        let id = ActionId(line);
        if !self.state.actions.is_full_of_copies(id, answer) {
            return Ok(());
        }
        let most = open::ALSO_MAX;
        let what = format!(
            "{id} is running, and {most} other copies of its request already wait for the \
                answer"
        );
        Err(Refusal::new(Code::ActionsFull, what))
    }

    /// The row of a rate. After a grant it only warns: the approver wanted this very request, and
    /// no other request can have its id.
    fn limited(
        &self,
        check: &'static str,
        count: u32,
        most: u32,
        fault: Option<String>,
    ) -> CheckRow {
        let row = counted(check, count, most, "actions", fault);
        if self.granted.is_some() {
            row.lifted("warn")
        } else {
            row
        }
    }

    /// The rows about what is out of the ordinary of a request, and the anomalies that were not
    /// approved.
    fn flagged(&self, authentic: &Authentic) -> (Vec<CheckRow>, Vec<Anomaly>) {
        let (envelope, limits) = (&authentic.envelope, &self.rules.gateway.anomalies);
        let source = &envelope.source;
        let (mut rows, mut anomalies) = (Vec::new(), Vec::new());
        let is_approved = |anomaly: Anomaly| {
            self.granted
                .is_some_and(|granted| granted.hold.anomalies.contains(&anomaly))
        };
        let mut flag =
            |anomaly: Anomaly, count: u32, most: u32, unit: &'static str, what: String| {
                let fault = (count > most).then_some(what);
                let row = counted(anomaly.check_name(), count, most, unit, fault);
                let row = if is_approved(anomaly) {
                    row.lifted("approved")
                } else {
                    row
                };
                anomalies.extend((!row.passed).then_some(anomaly));
                rows.push(row);
            };
        let window_ms = i64::from(*limits.burst_window_s).saturating_mul(1000);
        let signed_ms = envelope.timestamp.ms();
        let actions = &self.state.actions;
        let is_live = actions.is_live(envelope.timestamp, self.now);
        let burst = actions.signed.get(source).map_or(1, |signed| {
            let begun = || signed.densest_begun(self.now.ms(), window_ms);
            let begun = is_live.then(begun).unwrap_or_default();
            signed.densest(signed_ms, window_ms).max(begun)
        });
        let most = limits.burst_max;
        let what = format!(
            "more than {most} actions of `{source}` were signed or began within {} s",
            limits.burst_window_s
        );
        flag(Anomaly::Burst, burst, *most, "actions", what);
        let bytes = u32::try_from(envelope.payload.len()).unwrap_or(u32::MAX);
        let most = limits.payload_bytes_max;
        flag(
            Anomaly::Payload,
            bytes,
            *most,
            "bytes",
            format!("the payload is larger than {most} bytes"),
        );
        (rows, anomalies)
    }

    /// Decides whether an outgoing action may begin.
    pub(super) fn begin_action(
        &self,
        authentic: &Authentic,
        call: &GatewayCall,
    ) -> Result<Outcome, Refusal> {
        let envelope = &authentic.envelope;
        let (source, action) = (&envelope.source, envelope.action.as_str());
        let (state, rules) = (&self.state.actions, &self.rules.gateway);
        let destination = allowlist::destination(&self.rules.services, action, call);
        let nowhere = destination.as_ref().err().map(ToString::to_string);
        let mut rows = vec![
            CheckRow::yes_no(self.state.rulebook.fault.clone(), "state").named("rulebook"),
            CheckRow::yes_no(self.state.clock_fault(), "state").named("clock"),
            CheckRow::yes_no(self.state.halted(source), "state").named("manual_halt"),
            CheckRow::yes_no(nowhere, SERVICES).named("allowlist"),
        ];
        let second = second_of(self.now);
        let own = state.hours.get(source).and_then(|hours| hours.get(action));
        let own_count = own.map_or(0, |hour| hour.within(second)).saturating_add(1);
        let (own_max, all_max) = (rules.rates.of(action), rules.rates.all_per_hour);
        let over = (own_count > own_max).then(|| {
            format!("`{source}` may begin `{action}` at most {own_max} times within an hour")
        });
        rows.push(self.limited("action_rate", own_count, own_max, over));
        let all_count = state.all.within(second).saturating_add(1);
        let over = (all_count > *all_max).then(|| {
            format!("all principals together may begin at most {all_max} actions within an hour")
        });
        rows.push(self.limited("gateway_rate", all_count, *all_max, over));
        let open_count = u32::try_from(state.open.len())
            .unwrap_or(u32::MAX)
            .saturating_add(1);
        let payload = call
            .to_json()
            .map_err(|why| Refusal::new(Code::Internal, why.to_string()))?;
        let mut others = self
            .rules
            .principals
            .values()
            .filter(|other| other.name != *source);
        let has_others = others.any(|other| !other.actions.is_empty());
        let over = state.without_room(source, bytes_of(&payload), *rules.open_max, has_others);
        rows.push(self.limited("open_actions", open_count, *rules.open_max, over));
        let (flagged, anomalies) = self.flagged(authentic);
        rows.extend(flagged);
        let first = destination
            .as_ref()
            .ok()
            .and_then(|service| self.first_use(service));
        let news = first.as_ref().map(|(service, destination)| {
            let Destination { host, added_at } = destination;
            format!("nothing was sent to `{host}` since `{service}` was allowed at {added_at}")
        });
        rows.push(
            CheckRow::yes_no(news, SERVICES)
                .named("anomaly_destination")
                .lifted("warn"),
        );
        let adapter = destination
            .as_ref()
            .ok()
            .and_then(|service| rules.adapter(action, service.service.as_str()));
        let fault = adapter
            .is_none()
            .then(|| format!("rules/gateway.yaml has no adapter for `{action}` to this service"));
        rows.push(CheckRow::yes_no(fault, GATEWAY).named("adapter"));
        let is_of_anomaly = |row: &&CheckRow| {
            anomalies
                .iter()
                .any(|anomaly| anomaly.check_name() == row.name)
        };
        let failed = rows.iter().find(|row| !row.passed && !is_of_anomaly(row));
        let refusal = failed.map(super::decide::refusal_of);
        let (Ok(service), Some(adapter), None) = (&destination, adapter, &refusal) else {
            let after_ms = match refusal.as_ref().map(|refusal| refusal.code) {
                Some(Code::RateLimited) => Some(self.rates_allow_in_ms(source, action)),
                Some(Code::ActionsFull) => Some(FULL_RETRY_MS),
                _ => None,
            };
            let data = after_ms.and_then(retry_after);
            return Ok(Outcome {
                data,
                judged: Some(Judged { rows, refusal }),
                ..Outcome::default()
            });
        };
        let mut outcome = self.opens(envelope, service, adapter, payload);
        if let Some((service, destination)) = first {
            // Comes before the action opens: changes are folded in this order.
            let first_use = open::Change::FirstUse {
                service,
                destination,
            };
            outcome.changes.insert(0, Change::Actions(first_use));
        }
        let refusal = None;
        Ok(Outcome {
            anomalies,
            judged: Some(Judged { rows, refusal }),
            ..outcome
        })
    }

    /// Returns the destination of a service if no action has used it yet.
    fn first_use(&self, service: &Service) -> Option<(ServiceName, Destination)> {
        let destination = Destination {
            host: service.host.clone(),
            added_at: service.added_at,
        };
        let is_known = self.state.actions.destinations.get(&service.service) == Some(&destination);
        (!is_known).then(|| (service.service.clone(), destination))
    }

    /// Returns after how many milliseconds both hourly rates allow this action again.
    fn rates_allow_in_ms(&self, source: &Principal, action: &str) -> i64 {
        let (state, rates) = (&self.state.actions, &self.rules.gateway.rates);
        let second = second_of(self.now);
        let own = state.hours.get(source).and_then(|hours| hours.get(action));
        let own_ms = own.map_or(0, |hour| hour.room_at_ms(second, rates.of(action)));
        let at_ms = own_ms.max(state.all.room_at_ms(second, *rates.all_per_hour));
        at_ms.saturating_sub(self.now.ms()).max(0)
    }

    /// The action that an accepted request opens, and how it begins.
    fn opens(
        &self,
        envelope: &Envelope,
        service: &Service,
        adapter: &AdapterRule,
        payload: String,
    ) -> Outcome {
        let id = ActionId(self.seq);
        let opened = OpenAction {
            id,
            request_id: envelope.id.clone(),
            source: envelope.source.clone(),
            action: envelope.action.clone(),
            service: service.service.clone(),
            host: service.host.clone(),
            adapter: adapter.adapter.as_str().to_owned(),
            payload_hash: None,
            signature: None,
            spool: String::new(),
            answer: String::new(),
            also: Vec::new(),
            payload_bytes: bytes_of(&payload),
            signed_at: envelope.timestamp,
            begun_at: self.now,
        };
        let begins = Begins {
            id,
            adapter: adapter.clone(),
            service: service.clone(),
            payload,
        };
        Outcome {
            changes: vec![Change::Actions(open::Change::Opened(Box::new(opened)))],
            begins: Some(Box::new(begins)),
            ..Outcome::default()
        }
    }
}

fn bytes_of(payload: &str) -> u64 {
    u64::try_from(payload.len()).unwrap_or(u64::MAX)
}

/// The line about how an action ended, and the blobs by name that must be durable before it. What
/// the adapter wrote is sealed in it, with one of these salts for each member.
///
/// # Errors
/// Returns the error of `salt`.
pub fn respond<E>(
    open: &OpenAction,
    ran: &Ran,
    rulebook: &str,
    now: Time,
    seq: u64,
    salt: &mut dyn FnMut() -> Result<Salt, E>,
) -> Result<(Response, Vec<Blob>), E> {
    let mut response = written(open, heard(open, ran), rulebook, now, seq);
    if response.status != Status::Success {
        response.complaint = ran.complained();
    }
    response.cage.clone_from(&ran.cage);
    let blobs = response.seal(salt)?;
    Ok((response, blobs))
}

/// What the gate heard of an adapter that ended.
#[derive(Default)]
pub(super) struct Heard {
    /// The body of the answer.
    pub(super) data: Option<Box<RawValue>>,
    /// What was removed from its texts.
    pub(super) removed: Option<Removed>,
    /// Why the answer is an error.
    pub(super) refusal: Option<Refusal>,
    /// How the adapter ended.
    pub(super) note: String,
}

/// Writes the line from what the adapter reported.
pub(super) fn written(
    open: &OpenAction,
    heard: Heard,
    rulebook: &str,
    now: Time,
    seq: u64,
) -> Response {
    let Heard {
        data,
        removed,
        refusal,
        note,
    } = heard;
    Response {
        timestamp: now,
        id: seq.to_string(),
        request_id: open.request_id.to_string(),
        action: open.action.clone(),
        source: open.source.to_string(),
        direction: Flow::Response,
        status: if refusal.is_none() {
            Status::Success
        } else {
            Status::Error
        },
        payload_hash: open.payload_hash.clone(),
        signature: open.signature.clone(),
        request_line: open.id.0,
        adapter: open.adapter.clone(),
        note,
        complaint: None,
        cage: None,
        data,
        data_blob: None,
        sealed: Vec::new(),
        removed,
        metadata: refusal.map(Metadata::of).unwrap_or_default(),
        spool: open.spool.clone(),
        answer: open.answer.clone(),
        also: open.also.clone(),
        rulebook: rulebook.to_owned(),
        changes: vec![Change::Actions(open::Change::Closed { id: open.id })],
    }
}

/// The refusal for an action that failed without an answer of its adapter.
pub(super) fn ended_badly(open: &OpenAction, code: Code, note: &str) -> Refusal {
    Refusal::new(code, format!("{}: {note}", open.id))
}

/// The body and the refusal of a stub's answer.
pub(super) fn of_stub(open: &OpenAction) -> (Option<Box<RawValue>>, Refusal) {
    let data = RawValue::from_string(r#"{"stub":true}"#.to_owned()).ok();
    (
        data,
        Refusal::new(Code::StubAdapter, format!("{}: nothing was done", open.id)),
    )
}

fn heard(open: &OpenAction, ran: &Ran) -> Heard {
    let note = escaped(&ran.note);
    let of = |data: Option<Box<RawValue>>, removed, refusal| Heard {
        data,
        removed,
        refusal,
        note: note.clone(),
    };
    let refusal = |code: Code, what: &str| Some(Refusal::new(code, format!("{}: {what}", open.id)));
    let failed = |code: Code| of(None, None, Some(ended_badly(open, code, &note)));
    match ran.ending {
        Ending::Stub => {
            let (data, refusal) = of_stub(open);
            of(data, None, Some(refusal))
        }
        Ending::NotRun => failed(Code::AdapterNotRun),
        Ending::TimedOut => failed(Code::AdapterTimedOut),
        Ending::Flooded | Ending::Withheld => failed(Code::AdapterOutput),
        Ending::Crashed => failed(Code::AdapterCrashed),
        Ending::Lost => failed(Code::UnknownOutcome),
        Ending::Answered => match read(ran.output.as_deref().unwrap_or_default()) {
            Ok((AdapterAnswer { data, error, .. }, removed)) => {
                let refusal = error.and_then(|error| {
                    let what = format!("{}: {}", error.code, error.message);
                    refusal(Code::AdapterFailed, &what)
                });
                of(data, removed, refusal)
            }
            Err(why) => {
                let what = format!("{}; {why}", ran.note);
                of(None, None, refusal(Code::AdapterOutput, &what))
            }
        },
    }
}

/// Why the output of an adapter is not an answer.
#[derive(Debug, thiserror::Error)]
enum OutputError {
    #[error("its output is not an answer: {0}")]
    Json(#[from] json::JsonError),
    #[error("its output is not an answer: {0}")]
    Shape(#[from] serde_json::Error),
    #[error("its output reports both success and an error")]
    Both,
    #[error("its output reports neither success nor an error")]
    Neither,
}

/// Reads the output of an adapter, without the hidden characters of its texts.
fn read(output: &[u8]) -> Result<(AdapterAnswer, Option<Removed>), OutputError> {
    let text = json::minify(json::check_object(output)?);
    let (text, invisible) = match json::without_hidden(&text) {
        Some((visible, invisible)) => {
            // The answer's own names are judged as they were written.
            let _: AdapterAnswer = serde_json::from_str(&text)?;
            // Two names may have become one.
            json::check_object(visible.as_bytes())?;
            (visible.into(), invisible)
        }
        None => (text, 0),
    };
    let mut answer: AdapterAnswer = serde_json::from_str(&text)?;
    // A line does not distinguish null from absent.
    answer.data.take_if(|data| data.get() == "null");
    match (answer.success, &answer.error) {
        (true, Some(_)) => Err(OutputError::Both),
        (false, None) => Err(OutputError::Neither),
        _ => Ok((answer, (invisible > 0).then_some(Removed { invisible }))),
    }
}
