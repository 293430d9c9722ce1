//! `request.check`: tries out a request, for senders that may not read the home. It is decided by
//! the same function over the same state as the request itself, but nothing is carried out.

use serde_json::value::RawValue;
#[cfg(feature = "schema")]
use serde_json::{Value, json};

use super::prelude::*;
use crate::decide::{self, Lookups, decide};
use crate::prepare::{Origin, Prepared};
use crate::record::Status;
use spoolgate_wire::answer::{AnswerError, AnswerStatus};
use spoolgate_wire::envelope::Envelope;
use spoolgate_wire::requests::CheckRequest;

/// Shows what the decision on a request would be.
pub struct RequestCheck;

/// Orders that can be checked; the other actions are the outgoing ones. `control.apply` and
/// admission have dry runs of their own.
const ORDERS: [ActionName; 3] = [
    ActionName::OrderSubmit,
    ActionName::OrderCancel,
    ActionName::OrderTightenStop,
];

/// File name of the checked request, for refusals that name one.
const FILE: &str = "check.json";

/// Every action that can be checked.
pub fn checked() -> impl Iterator<Item = ActionName> {
    ORDERS.into_iter().chain(ActionName::OUTGOING)
}

fn names() -> Vec<&'static str> {
    checked().map(ActionName::as_str).collect()
}

/// The status that the answer would have.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum WouldBe {
    Success,
    Error,
    RequiresApproval,
    RateLimited,
    /// An adapter would be started, and its answer would follow.
    Pending,
}

/// The answer to the checked request.
#[derive(Serialize)]
struct Told {
    status: WouldBe,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<AnswerError>,
}

/// The body of the answer.
#[derive(Serialize)]
pub struct Checked {
    would_be: Told,
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Checked {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Checked".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> Schema {
        schemars::json_schema!({
            "type": "object",
            "properties": {
                "would_be": {
                    "type": "object",
                    "description": "The answer that the request would have now.",
                    "properties": {
                        "status": {
                            "type": "string",
                            "enum": ["success", "error", "requires_approval", "rate_limited",
                                "pending"],
                            "description": "Its status; `pending` if an adapter would carry it out \
                                and give the answer.",
                        },
                        "data": {"description": "Its `data`, as in the schema of the action's \
                            answer. Orders and holds named in it do not exist."},
                        "error": {
                            "type": "object",
                            "description": "Why it would be refused.",
                            "properties": {
                                "code": {"type": "string", "description": "Stable code."},
                                "message": {"type": "string", "description": "What happened, \
                                    where, and what to do."},
                            },
                            "required": ["code", "message"],
                            "additionalProperties": false,
                        },
                    },
                    "required": ["status"],
                    "additionalProperties": false,
                },
            },
            "required": ["would_be"],
            "additionalProperties": false,
        })
    }
}

/// The request to check, as if its sender had signed it now. Causality is left out: a check is not
/// a task, and `admission.check` covers tasks.
pub(super) fn asked_about(asking: &Authentic, asked: &CheckRequest) -> Prepared {
    let envelope = Envelope {
        action: asked.action.clone(),
        payload: asked.payload.get().to_owned(),
        causality: None,
        ..asking.envelope.clone()
    };
    let request = Authentic {
        key_id: asking.key_id.clone(),
        ..Authentic::unsigned(envelope)
    };
    Prepared {
        origin: Origin::Local,
        file: FILE.to_owned(),
        file_sha256: None,
        file_bytes: None,
        request: Ok(request),
    }
}

impl Action for RequestCheck {
    type Payload = CheckRequest;
    type Answer = Checked;
    const ABOUT: &'static str =
        "Returns the answer that a request would have, without carrying the request out.";
    /// Seals every member that any outgoing action seals.
    const ROW: Row = Row::new(
        ActionName::RequestCheck,
        "CheckRequest",
        "action, payload",
        SPEAKERS,
    )
    .sealed(&[
        "/payload/subject",
        "/payload/body",
        "/payload/title",
        "/payload/description",
        "/payload/headers",
    ]);

    /// The payload depends on the action, which this schema does not express; the answer does.
    #[cfg(feature = "schema")]
    fn schema() -> Schema {
        let mut schema = schemas::read::<CheckRequest>();
        schema.remove("title");
        if let Some(action) = schema
            .pointer_mut("/properties/action")
            .and_then(Value::as_object_mut)
        {
            action.insert("enum".to_owned(), json!(names()));
        }
        schema
    }

    fn check(asked: &CheckRequest) -> Result<(), PayloadError> {
        if !names().contains(&asked.action.as_str()) {
            return Err(PayloadError::NotChecked { known: names() });
        }
        if !asked.payload.get().starts_with('{') {
            let rule = "must be an object: the payload of the action to check";
            return Err(PayloadError::form("payload", rule));
        }
        Ok(())
    }

    fn needs(rules: &Rulebook, sender: &Authentic, asked: &CheckRequest, needs: &mut Needs) {
        let inner = decide::needs(&asked_about(sender, asked), rules);
        needs.closed_order = inner.closed_order;
        needs.history = inner.history;
    }

    /// Names of orders and holds in the answer are derived from this request's own line, so nothing
    /// ever exists under them.
    fn execute(
        turn: &Turn<'_>,
        sender: &Authentic,
        asked: &CheckRequest,
    ) -> Result<Outcome, Refusal> {
        let internal = |what: &dyn std::fmt::Display| {
            Refusal::new(Code::Internal, format!("the answer is unknown: {what}"))
        };
        let request = asked_about(sender, asked);
        let lookups = Lookups {
            closed_order: turn.lookups.closed_order.clone(),
            history: turn.lookups.history.clone(),
            ..Lookups::default()
        };
        let mut decided = decide(
            turn.state, turn.rules, &request, &lookups, turn.now, turn.seq,
        );
        let told = if decided.decision.status == Status::Pending {
            Told {
                status: WouldBe::Pending,
                data: None,
                error: None,
            }
        } else {
            let digest = decided.decision.data_blob.clone();
            let at = decided
                .blobs
                .iter()
                .position(|(of, _)| Some(of) == digest.as_ref());
            let bytes = at.map(|at| decided.blobs.swap_remove(at).1);
            let answer = decided
                .decision
                .answer(bytes.as_deref())
                .map_err(|error| internal(&error))?;
            let status = match answer.status {
                AnswerStatus::Success => WouldBe::Success,
                AnswerStatus::Error => WouldBe::Error,
                AnswerStatus::RequiresApproval => WouldBe::RequiresApproval,
                AnswerStatus::RateLimited => WouldBe::RateLimited,
            };
            Told {
                status,
                data: answer.data,
                error: answer.error,
            }
        };
        let data = serde_json::value::to_raw_value(&Checked { would_be: told })
            .map_err(|error| internal(&error))?;
        Ok(Outcome {
            data: Some(data),
            ..Outcome::default()
        })
    }
}
