//! Everything that is wrong with the shape of a request, for its sender to repair.

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::actions::examples::example_like;
use super::actions::{self, ErasedAction};
use super::prepare::Refusal;
use super::schemas;
use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::admission::{AdmissionAttempt, Causality};
use spoolgate_wire::code::Code;
use spoolgate_wire::control::ControlError;
use spoolgate_wire::envelope::{Envelope, EnvelopeError};
use spoolgate_wire::faults::{Faults, Instead, Subject, all, one};
use spoolgate_wire::json::JsonError;
use spoolgate_wire::payload::PayloadError;
use spoolgate_wire::repair::{Fault, Place};

/// Where a value is in the sender's file, by its JSON pointer. From a ledger line, as it was
/// recorded.
pub(super) type Locate<'a> = &'a dyn Fn(&str) -> Option<Place>;

/// Longest payload of which mended copies are read, bytes: each fault costs a reading.
const COPY_BYTES_MAX: usize = 64 * 1024;
/// JSON pointer of the payload within a request.
const PAYLOAD: &str = "/payload";

/// The schema of the envelope without those of the payloads, and a valid one.
static ENVELOPE: LazyLock<(Value, Value)> = LazyLock::new(|| {
    let mut schema = schemas::schema("request").unwrap_or_default();
    if let Value::Object(members) = &mut schema {
        members.remove("allOf");
        members.remove("$defs");
    }
    let example = json!({
        "id": "r-1",
        "timestamp": "2026-03-02T12:00:00Z",
        "action": "portfolio.get",
        "payload": {},
        "source": "trend-bot",
        "signature": "0".repeat(64),
        "causality": {"root_task_id": "task-1", "parent_task_id": "task-1",
            "caused_by_receipt_id": "r-12", "spawn_depth": 1, "capability_id": "search",
            "recursion_budget_remaining": 3},
    });
    (schema, example)
});

/// The schema of causality.
static CAUSALITY: LazyLock<Value> = LazyLock::new(|| {
    let schema = schemas::schema(ActionName::AdmissionEvaluate.as_str()).unwrap_or_default();
    let own = schema.pointer("/properties/envelope/properties/causality");
    let mut own = own.cloned().unwrap_or_default();
    // There it may also be null.
    if let Value::Object(members) = &mut own {
        members.insert("type".to_owned(), json!("object"));
    }
    own
});

/// What a reader says about a value that it refuses.
pub(super) struct Complaint {
    /// JSON pointer of the value below the payload.
    pointer: String,
    /// What is wrong with it.
    words: String,
    /// Whether these words are better than those that follow from the schema.
    is_specific: bool,
    /// What repairs it.
    instead: Instead,
}

impl Complaint {
    pub(super) fn of_payload(why: &PayloadError, payload: &str) -> Complaint {
        Complaint {
            pointer: why.pointer(payload),
            words: why.to_string(),
            is_specific: !why.is_of_shape(),
            instead: why.instead(payload),
        }
    }

    pub(super) fn of_decision(why: &ControlError, payload: &str) -> Complaint {
        if let ControlError::Malformed(why) = why {
            return Complaint::of_payload(why, payload);
        }
        Complaint {
            pointer: why
                .member()
                .map(|name| format!("/{name}"))
                .unwrap_or_default(),
            words: why.to_string(),
            is_specific: true,
            instead: Instead::Example,
        }
    }
}

/// Finds everything that is wrong with the payload of an action whose reader refuses it. Returns it
/// also in one sentence.
pub(super) fn in_payload(
    action: &'static dyn ErasedAction,
    payload: &str,
    why: Complaint,
    locate: Locate<'_>,
) -> (String, Faults) {
    let row = action.row();
    let schema = schemas::schema(row.name.as_str()).unwrap_or_default();
    let example = serde_json::from_str(example_like(row.name, payload)).unwrap_or_default();
    let subject = Subject {
        schema: &schema,
        example: &example,
        root: PAYLOAD,
        sealed: row.sealed,
        // Others can read the answers of the flat spool, and no vote before the decision.
        hides_values: !row.sealed.is_empty() || row.name == ActionName::CouncilVerdict,
    };
    let mut faults = all(&subject, payload);
    if faults.listed.is_empty() {
        let fault = one(&subject, payload, &why.pointer, &why.words, why.instead);
        faults.listed.push(fault);
    }
    besides(action, payload, &subject, &mut faults);
    let faults = located(faults, locate);
    let is_single = faults.listed.len() == 1 && faults.more == 0;
    let words = match is_single && why.is_specific {
        true => why.words,
        false => in_words(&faults),
    };
    (words, faults)
}

/// Adds what no schema expresses. A reader stops at the first fault, so it reads copies in which the
/// faults that are known so far are mended. Where a value was put in place of another one, only a value
/// that is wrong by itself counts: another may be wrong only beside what was put there.
fn besides(
    action: &'static dyn ErasedAction,
    payload: &str,
    subject: &Subject<'_>,
    faults: &mut Faults,
) {
    if payload.len() > COPY_BYTES_MAX {
        return;
    }
    let Ok(mut copy) = serde_json::from_str::<Value>(payload) else {
        return;
    };
    let mut mended = 0;
    let mut is_only_shorter = true;
    while faults.more == 0 {
        let known = faults.listed.len();
        let fresh = faults.listed.get(mended..).unwrap_or_default();
        if fresh.is_empty() || !fresh.iter().all(|fault| mend(&mut copy, fault)) {
            return;
        }
        is_only_shorter &= fresh.iter().all(|fault| fault.example.is_none());
        mended = known;
        let text = copy.to_string();
        let Some(why) = complaint(action, &text) else {
            return;
        };
        if is_only_shorter || is_wrong_alone(action, subject.example, &copy, &why) {
            faults.add([one(subject, &text, &why.pointer, &why.words, why.instead)]);
        }
    }
}

/// Whether a reader refuses a value within the example too.
fn is_wrong_alone(
    action: &'static dyn ErasedAction,
    example: &Value,
    payload: &Value,
    why: &Complaint,
) -> bool {
    let mut example = example.clone();
    let places = (
        example.pointer_mut(&why.pointer),
        payload.pointer(&why.pointer),
    );
    let (Some(place), Some(value), Instead::Example) = (places.0, places.1, &why.instead) else {
        return false;
    };
    *place = value.clone();
    complaint(action, &example.to_string()).is_some_and(|again| again.pointer == why.pointer)
}

/// What the reader of an action says about a payload; `None` if it takes it.
fn complaint(action: &'static dyn ErasedAction, payload: &str) -> Option<Complaint> {
    match action.read(payload) {
        Ok(body) => body.complaint(payload),
        Err(why) => Some(Complaint::of_payload(&why, payload)),
    }
}

/// Mends a payload as a fault says. Returns whether the fault says how.
fn mend(payload: &mut Value, fault: &Fault) -> bool {
    let Some(below) = fault.pointer.strip_prefix(PAYLOAD) else {
        return false;
    };
    let Some((above, name)) = below.rsplit_once('/') else {
        return match &fault.example {
            Some(example) => {
                *payload = example.clone();
                true
            }
            None => false,
        };
    };
    let name = name.replace("~1", "/").replace("~0", "~");
    match (payload.pointer_mut(above), &fault.example) {
        (Some(Value::Object(members)), Some(example)) => {
            members.insert(name, example.clone());
            true
        }
        (Some(Value::Object(members)), None) => {
            !fault.is_unnamed() && members.remove(&name).is_some()
        }
        (Some(Value::Array(items)), Some(example)) => {
            let item = name.parse().ok().and_then(|at: usize| items.get_mut(at));
            item.is_some_and(|item| {
                *item = example.clone();
                true
            })
        }
        _ => false,
    }
}

/// What is wrong with a payload that its action would refuse, as its sender would be told, in one
/// sentence and one by one. `place` finds a value in the sender's file by its pointer within a
/// request; without a request around it, the payload is at `/payload`.
pub fn of_payload(
    action: ActionName,
    payload: &str,
    place: &dyn Fn(&str) -> Option<Place>,
) -> Option<(String, Vec<Fault>)> {
    let action = actions::named(action.as_str())?;
    let why = action.read(payload).err()?;
    let why = Complaint::of_payload(&why, payload);
    let (words, faults) = in_payload(action, payload, why, place);
    Some((words, faults.listed))
}

/// Finds everything that is wrong with the causality of a request. Returns it also in one sentence;
/// without positions, because not every line of such a request records them. `None` if nothing is.
pub(super) fn in_causality(text: &str, locate: Locate<'_>) -> Option<(String, Faults)> {
    let why = Causality::read(text).err()?;
    let (_, example) = &*ENVELOPE;
    let subject = Subject {
        schema: &CAUSALITY,
        example: example.get("causality").unwrap_or(&Value::Null),
        root: "/causality",
        sealed: &[],
        hides_values: false,
    };
    let mut faults = all(&subject, text);
    if faults.listed.is_empty() {
        let fault = one(&subject, text, "", &why.to_string(), Instead::Example);
        faults.listed.push(fault);
    }
    let words = in_words(&faults);
    Some((words, located(faults, locate)))
}

/// Finds what `admission.*` refuses although the payload has the right shape.
pub(super) fn beside_task(
    action: ActionName,
    attempt: &AdmissionAttempt,
    envelope: &Envelope,
    locate: Locate<'_>,
) -> Vec<Fault> {
    let fault = |pointer: &str, got: &str, expected: &str, example| Fault {
        pointer: pointer.to_owned(),
        at: locate(pointer),
        got: got.to_owned(),
        expected: expected.to_owned(),
        example,
    };
    let forward = attempt.body.as_ref().ok().and_then(|body| body.forward);
    let unforwarded = (action == ActionName::AdmissionAdmit && forward == Some(false)).then(|| {
        let expected = "true: `admission.admit` always forwards; `admission.evaluate` need not";
        fault(
            "/payload/forward",
            "false",
            expected,
            Some(Value::Bool(true)),
        )
    });
    let twice = envelope.causality.as_ref().map(|_| {
        let expected = "nothing: an admission request has its causality in the payload";
        fault("/causality", "an object", expected, None)
    });
    unforwarded.into_iter().chain(twice).collect()
}

/// Adds the positions of values.
fn located(mut faults: Faults, locate: Locate<'_>) -> Faults {
    for fault in &mut faults.listed {
        fault.at = locate(&fault.pointer);
    }
    faults
}

/// Says in one sentence what is wrong.
fn in_words(faults: &Faults) -> String {
    let Some(first) = faults.listed.first() else {
        return "its shape is wrong".to_owned();
    };
    let Fault {
        pointer,
        at,
        got,
        expected,
        ..
    } = first;
    let what = match got.as_str() {
        "nothing" => format!("missing field `{pointer}`: expected {expected}"),
        _ if first.is_unknown() => format!("unknown field `{pointer}`: {expected}"),
        _ if pointer.is_empty() => format!("it is {got}: expected {expected}"),
        _ => format!("`{pointer}` is {got}: expected {expected}"),
    };
    let place = at.map(|at| format!("at line {}, column {}: ", at.line, at.column));
    let place = place.unwrap_or_default();
    let count = u64::try_from(faults.listed.len()).unwrap_or(u64::MAX);
    match count.saturating_add(faults.more) {
        1 => format!("{place}{what}"),
        count => format!("{count} faults, the first {place}{what}"),
    }
}

impl Refusal {
    /// The refusal with these faults, for the sender to repair.
    pub(super) fn with_faults(mut self, faults: Faults) -> Refusal {
        self.repair.faults = faults.listed;
        self.repair.faults_more = faults.more;
        self
    }
}

/// The refusal of bytes that are not strict JSON.
pub(super) fn refused_json(shown: &str, why: &JsonError) -> Refusal {
    let JsonError {
        kind, line, column, ..
    } = why;
    let fault = Fault {
        pointer: String::new(),
        at: Some(Place {
            line: *line,
            column: *column,
        }),
        got: kind.to_string(),
        expected: kind.expected().to_owned(),
        example: None,
    };
    let faults = Faults {
        listed: vec![fault],
        more: 0,
    };
    Refusal::new(Code::MalformedJson, format!("file `{shown}`: {why}")).with_faults(faults)
}

/// The refusal of bytes that are not an envelope. Nothing that a stranger wrote is repeated: nobody
/// has signed it.
pub(super) fn refused_envelope(
    shown: &str,
    text: &str,
    why: &EnvelopeError,
    locate: Locate<'_>,
) -> Refusal {
    let (schema, example) = &*ENVELOPE;
    let subject = Subject {
        schema,
        example,
        root: "",
        sealed: &["/payload", "/causality"],
        hides_values: true,
    };
    let faults = located(all(&subject, text), locate);
    let is_single = faults.listed.len() == 1 && faults.more == 0;
    let is_specific = matches!(why, EnvelopeError::Form(_)) && is_single;
    let words = match is_specific || faults.listed.is_empty() {
        true => why.to_string(),
        false => in_words(&faults),
    };
    Refusal::new(Code::MalformedEnvelope, format!("file `{shown}`: {words}")).with_faults(faults)
}
