//! `request.check`: what would become of a request, asked by whoever may not read the home. Decided by the same function as
//! the request itself, over the same state; nothing of it is done.

use serde::Serialize;
use serde_json::value::RawValue;

use super::decide::{Lookups, decide};
use super::handle::{Outcome, Turn};
use super::prepare::{Authentic, Origin, Prepared, Refusal};
use super::record::Status;
use crate::rules::gateway;
use crate::wire::answer::{AnswerError, AnswerStatus};
use crate::wire::code::Code;
use crate::wire::envelope::Envelope;
use crate::wire::requests::CheckRequest;

/// Orders that may be asked about; the others are the actions that leave the machine. `control.apply` and admission have
/// dry runs of their own.
const ORDERS: [&str; 3] = ["order.submit", "order.cancel", "order.tighten_stop"];

/// Name that the request has as a file, where a refusal names one.
const FILE: &str = "check.json";

/// Whether requests of this action may be asked about.
pub fn is_checked(action: &str) -> bool {
    ORDERS.contains(&action) || gateway::ACTIONS.contains(&action)
}

/// Every action that may be asked about.
pub fn checked() -> impl Iterator<Item = &'static str> {
    ORDERS.into_iter().chain(gateway::ACTIONS)
}

/// The schema of the answer's body.
pub(super) fn answer_schema() -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "properties": {
            "would_be": {
                "type": "object",
                "description": "The answer that the request would have now.",
                "properties": {
                    "status": {
                        "type": "string",
                        "enum": ["success", "error", "requires_approval", "rate_limited", "pending"],
                        "description": "Its status; `pending` where an adapter would be asked to do it, and its answer be the answer.",
                    },
                    "data": {"description": "Its `data`, as in the schema of the action's answer. Orders and holds named in it do not exist."},
                    "error": {
                        "type": "object",
                        "description": "Why it would not be done.",
                        "properties": {
                            "code": {"type": "string", "description": "Stable code."},
                            "message": {"type": "string", "description": "What, where, and what to do."},
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

/// How the answer would begin.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum WouldBe {
    Success,
    Error,
    RequiresApproval,
    RateLimited,
    /// An adapter would be asked to do it, and its answer be the answer.
    Pending,
}

/// The answer that would be given.
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
struct Checked {
    would_be: Told,
}

/// The request that is asked about, as if its asker had signed it now. Causality is left out: a check is no task, and
/// `admission.check` asks about those.
pub(super) fn asked_about(asking: &Authentic, asked: &CheckRequest) -> Prepared {
    let envelope = Envelope {
        action: asked.action.clone(),
        payload: asked.payload.get().to_owned(),
        causality: None,
        ..asking.envelope.clone()
    };
    let request = Authentic { key_id: asking.key_id.clone(), ..Authentic::unsigned(envelope) };
    Prepared {
        origin: Origin::Local,
        file: FILE.to_owned(),
        file_sha256: None,
        file_bytes: None,
        request: Ok(request),
    }
}

impl Turn<'_> {
    /// Decides what is asked about and tells the answer. Names of orders and holds in it are made of the line of the
    /// question, so that nothing ever exists under them.
    pub(super) fn check(&self, asking: &Authentic, asked: &CheckRequest) -> Result<Outcome, Refusal> {
        let internal =
            |what: String| Refusal::new(Code::Internal, format!("the answer cannot be told: {what}"));
        let request = asked_about(asking, asked);
        let lookups = Lookups {
            closed_order: self.lookups.closed_order.clone(),
            history: self.lookups.history.clone(),
            ..Lookups::default()
        };
        let mut decided = decide(self.state, self.rules, &request, &lookups, self.now, self.seq);
        let told = if decided.decision.status == Status::Pending {
            Told { status: WouldBe::Pending, data: None, error: None }
        } else {
            let digest = decided.decision.data_blob.clone();
            let at = decided.blobs.iter().position(|(of, _)| Some(of) == digest.as_ref());
            let bytes = at.map(|at| decided.blobs.swap_remove(at).1);
            let answer = decided.decision.answer(bytes.as_deref()).map_err(internal)?;
            let status = match answer.status {
                AnswerStatus::Success => WouldBe::Success,
                AnswerStatus::Error => WouldBe::Error,
                AnswerStatus::RequiresApproval => WouldBe::RequiresApproval,
                AnswerStatus::RateLimited => WouldBe::RateLimited,
            };
            Told { status, data: answer.data, error: answer.error }
        };
        let data = serde_json::value::to_raw_value(&Checked { would_be: told })
            .map_err(|error| internal(error.to_string()))?;
        Ok(Outcome { data: Some(data), ..Outcome::default() })
    }
}
