//! Rebuilds a request from its ledger line, so that it can be decided again.

use super::actions::{self, Body, Lane, Rate, Row};
use super::approvals;
use super::decide::{ANSWER_LOST, Lookups, MEMBER_BYTES_MAX, PRUNED_WITH, Untold};
use super::gateway;
use super::prepare::{Authentic, Origin, Prepared, Refusal, Unverified, read_body};
use super::proposals;
use super::record::{Decision, MESSAGE, Response, Status};
use super::services;
use super::state::Change;
use super::storage::Scarce;
use serde_json::value::RawValue;
use spoolgate_wire::council::SubmitVerdict;

use spoolgate_outgoing::OpenAction;
use spoolgate_wire::approvals::HoldId;
use spoolgate_wire::code::Code;
use spoolgate_wire::envelope::Envelope;
use spoolgate_wire::ids::{Principal, RequestId};
use spoolgate_wire::repair::{Place, Repair};
use spoolgate_wire::signing::sha256_hex;
use spoolgate_wire::time::Time;

/// Why a decision cannot be recomputed from the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NotAgain {
    /// It has no good signature, so it is nobody's request.
    NoSignature,
    /// It was sent again, and the line only repeats an earlier answer.
    Repeated,
    /// Another request has used its id.
    IdTaken,
    /// It was refused before its payload counted: its key had ended, the spool was not its
    /// sender's, or it was too large to keep.
    NotKept,
    /// Its payload is in a blob that is missing or damaged.
    BlobLost,
    /// Its line does not hold what was signed: it carries causality, which the line has only in
    /// part.
    NotWhole,
    /// It ends a hold that was not granted: an approver or the deadline decided, not the rules.
    HoldEnded,
    /// The gate could not carry it out, whatever the rules say.
    Internal,
    /// It read a sealed field whose disclosure is gone: redacted, unless `audit verify` reports
    /// otherwise.
    Redacted,
}

impl NotAgain {
    /// A description for messages.
    pub fn as_str(self) -> &'static str {
        match self {
            NotAgain::NoSignature => "no good signature",
            NotAgain::Repeated => "sent again, and answered with the earlier answer",
            NotAgain::IdTaken => "its id was used before",
            NotAgain::NotKept => "refused before its payload counted",
            NotAgain::BlobLost => "the blob of its payload is lost",
            NotAgain::NotWhole => "the ledger has only a part of its causality",
            NotAgain::HoldEnded => "a hold that was not granted",
            NotAgain::Internal => "the gate could not carry it out",
            NotAgain::Redacted => "it read a redacted field",
        }
    }
}

/// Returns why this decision cannot be re-evaluated, if that is clear without its payload.
pub fn hindered(decision: &Decision) -> Option<NotAgain> {
    if decision.hold.is_some() && decision.key_id.is_none() {
        return Some(NotAgain::HoldEnded);
    }
    if decision.key_id.is_none() {
        return Some(NotAgain::NoSignature);
    }
    if decision.metadata.replay_of.is_some() {
        return Some(NotAgain::Repeated);
    }
    match decision.metadata.code {
        Some(Code::RequestIdConflict) => Some(NotAgain::IdTaken),
        Some(Code::Internal | Code::Pruned) => Some(NotAgain::Internal),
        _ if decision.payload.is_none() && decision.payload_blob.is_none() => {
            Some(NotAgain::NotKept)
        }
        _ => None,
    }
}

/// Rebuilds the authenticated request of a decision.
///
/// # Errors
/// Returns the reason why it cannot be decided again.
pub fn request(decision: &Decision, payload: Option<String>) -> Result<Prepared, NotAgain> {
    if let Some(why) = hindered(decision) {
        return Err(why);
    }
    let payload = payload.ok_or(NotAgain::BlobLost)?;
    let authentic = authentic(decision, payload).ok_or(NotAgain::NotWhole)?;
    let origin = Origin::from_label(&decision.spool).ok_or(NotAgain::NotWhole)?;
    let (file, file_sha256, file_bytes) = (
        decision.file.clone(),
        decision.file_sha256.clone(),
        decision.file_bytes,
    );
    Ok(Prepared {
        origin,
        file,
        file_sha256,
        file_bytes,
        request: Ok(authentic),
    })
}

/// Rebuilds the envelope from the line, without causality.
fn envelope(decision: &Decision, payload: String) -> Option<Envelope> {
    let timestamp_text = decision.requested_at.clone()?;
    Some(Envelope {
        id: RequestId::parse(decision.request_id.as_deref()?).ok()?,
        timestamp: Time::parse(&timestamp_text).ok()?,
        timestamp_text,
        action: decision.action.clone()?,
        payload,
        source: Principal::parse(decision.source.as_deref()?).ok()?,
        signature: decision.signature.clone()?,
        causality: None,
    })
}

fn authentic(decision: &Decision, payload: String) -> Option<Authentic> {
    let mut envelope = envelope(decision, payload)?;
    let payload_hash = envelope.payload_hash();
    let wanted = decision.request_hash.as_deref()?;
    let is_it = |envelope: &Envelope| {
        sha256_hex(envelope.signing_string_of(&payload_hash).as_bytes()) == wanted
    };
    if !is_it(&envelope) {
        let spelt = causality(decision).into_iter();
        let mut fitting = spelt.map(|causality| Envelope {
            causality: Some(causality),
            ..envelope.clone()
        });
        envelope = fitting.find(is_it)?;
    }
    let bytes = usize::try_from(decision.file_bytes?).ok()?;
    let body = read_body(&envelope, bytes, &|pointer| {
        recorded_place(decision, pointer)
    });
    let (key_id, request_hash) = (decision.key_id.clone()?, wanted.to_owned());
    Some(Authentic {
        envelope,
        key_id,
        payload_hash,
        request_hash,
        body,
    })
}

/// How much of a request its line holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// The whole request.
    Whole,
    /// Everything that its decision read: the request was refused before the missing part counted.
    Enough,
    /// Only that it was refused: it was not signed, or its signature cannot be checked any more.
    Refusal,
    /// Everything but its causality, which the decision may have read.
    NotCausality,
    /// Everything but its payload, which the decision has read: a large payload is not kept if the
    /// request may be sent again.
    NotPayload,
}

/// Why no request, or no result of an action, can have made a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImpossibleLine {
    /// The text is not the name of a spool.
    #[error("`spool` is `{0}`, which is not the name of a spool")]
    Spool(String),
    /// A verified request without all of its envelope.
    #[error("it names a key and lacks a part of the envelope that the key verified")]
    NoEnvelope,
    /// A verified request without its hashes.
    #[error("it names a key and lacks the payload hash or the request hash")]
    NoHash,
    /// A verified request without the size of its file.
    #[error("it names a key and lacks the size of its file")]
    NoSize,
    /// The payload in the line is another one.
    #[error("`payload_hash` is not the hash of its payload")]
    PayloadHash,
    /// The decision read a payload that is not kept.
    #[error("the decision read its payload, and the line does not keep it")]
    PayloadNotKept,
    /// Bytes without a signature are always refused.
    #[error("no key verified it, and it is not a refusal")]
    NotRefused,
    /// The code is for verified requests.
    #[error("no key verified it, and {0} is a code for verified requests only")]
    VerifiedOnly(Code),
    /// The envelope is there although bytes refused with this code have none, or the other way
    /// round.
    #[error("it is refused as {code} and {what} an envelope")]
    Envelope {
        /// The code.
        code: Code,
        /// Whether it lacks an envelope or has one.
        what: &'static str,
    },
    /// The message is not one that the gate writes.
    #[error("its message is not a message of the gate for {0}")]
    Message(Code),
    /// The hashes are there although a line with this code has none, or the other way round.
    #[error("it is refused as {0}, and a line with this code has other hashes")]
    Hashes(Code),
    /// The code is not one of the results of an action.
    #[error("{0} is not a result of an action")]
    Ending(Code),
    /// A sealed member does not hold its digest, or one that must be sealed is not.
    #[error("`sealed` does not name what is sealed in it")]
    Sealed,
    /// Only a refused action has a complaint.
    #[error("an action that was carried out has no complaint")]
    Complaint,
}

/// A request rebuilt from its line, whatever was decided about it.
#[derive(Clone, Debug)]
pub struct Retold {
    /// The request.
    pub request: Prepared,
    /// Facts from the line that cannot be computed from the rebuilt request.
    pub untold: Untold,
    /// How much of the request the line holds.
    pub held: Held,
}

/// Rebuilds the request of any decision line. `payload` is its text: from the line, from its blob,
/// or from the line that it repeats.
///
/// # Errors
/// Describes the part of the line that no request can have.
pub fn retold(decision: &Decision, payload: Option<String>) -> Result<Retold, ImpossibleLine> {
    let origin = Origin::from_label(&decision.spool)
        .ok_or_else(|| ImpossibleLine::Spool(decision.spool.clone()))?;
    let (request, untold, held) = if decision.key_id.is_some() {
        let whole = payload
            .as_ref()
            .and_then(|text| authentic(decision, text.clone()));
        match whole {
            Some(authentic) => (Ok(authentic), Untold::default(), Held::Whole),
            None => {
                let has_no_payload = payload.is_none();
                let (authentic, lane) = in_part(decision, payload)?;
                let is_kept = decision.payload.is_some() || decision.payload_blob.is_some();
                let held = match decision.metadata.code {
                    _ if is_kept && decision.receipt.is_some() => Held::NotCausality,
                    Some(Code::MalformedPayload) if !is_kept => Held::Refusal,
                    Some(code) if code.is_for_later() && !decision.checks.is_empty() => {
                        Held::NotPayload
                    }
                    _ => Held::Enough,
                };
                (
                    Ok(authentic),
                    Untold {
                        lane,
                        hashes: None,
                        has_no_payload,
                    },
                    held,
                )
            }
        }
    } else {
        let (unverified, hashes) = unverified(decision)?;
        (
            Err(Box::new(unverified)),
            Untold {
                hashes,
                ..Untold::default()
            },
            Held::Refusal,
        )
    };
    let (file, file_sha256, file_bytes) = (
        decision.file.clone(),
        decision.file_sha256.clone(),
        decision.file_bytes,
    );
    Ok(Retold {
        request: Prepared {
            origin,
            file,
            file_sha256,
            file_bytes,
            request,
        },
        untold,
        held,
    })
}

/// Rebuilds a verified request that lacks its payload or its causality. Also returns the lane,
/// where it depends on the payload.
fn in_part(
    decision: &Decision,
    payload: Option<String>,
) -> Result<(Authentic, Option<Lane>), ImpossibleLine> {
    let is_there = payload.is_some();
    let envelope =
        envelope(decision, payload.unwrap_or_default()).ok_or(ImpossibleLine::NoEnvelope)?;
    let missing = ImpossibleLine::NoHash;
    let (payload_hash, request_hash) =
        (decision.payload_hash.clone(), decision.request_hash.clone());
    let (payload_hash, request_hash) = (
        payload_hash.ok_or(missing.clone())?,
        request_hash.ok_or(missing)?,
    );
    let key_id = decision.key_id.clone().unwrap_or_default();
    if is_there && envelope.payload_hash() != payload_hash {
        return Err(ImpossibleLine::PayloadHash);
    }
    let bytes = decision
        .file_bytes
        .and_then(|bytes| usize::try_from(bytes).ok());
    let bytes = bytes.ok_or(ImpossibleLine::NoSize)?;
    let (body, lane) = match actions::find(&envelope.action) {
        Some(rule) if !is_there && bytes <= rule.bytes_max => unread(decision, rule, bytes)?,
        // Either the payload is there, or the request is refused without reading it.
        _ => {
            let locate = |pointer: &str| recorded_place(decision, pointer);
            (read_body(&envelope, bytes, &locate), None)
        }
    };
    Ok((
        Authentic {
            envelope,
            key_id,
            payload_hash,
            request_hash,
            body,
        },
        lane,
    ))
}

/// Where a faulty value was in the sender's file, which the ledger does not hold.
fn recorded_place(decision: &Decision, pointer: &str) -> Option<Place> {
    let repair = decision.metadata.repair.as_deref()?;
    let fault = repair
        .faults
        .iter()
        .find(|fault| fault.pointer == pointer)?;
    fault.at
}

/// The refusal as the line has it, where the bytes that were refused are not kept.
fn recorded_refusal(decision: &Decision, code: Code) -> Refusal {
    let message = decision.metadata.message.clone().unwrap_or_default();
    let refusal = Refusal::recorded(code, message);
    match &decision.metadata.repair {
        Some(repair) => Refusal {
            repair: Repair::clone(repair),
            ..refusal
        },
        None => refusal,
    }
}

/// The body and the lane for a payload that the ledger does not hold: the request was refused
/// before its payload counted, or because of its payload.
fn unread(
    decision: &Decision,
    rule: &'static Row,
    bytes: usize,
) -> Result<(Result<Body, Refusal>, Option<Lane>), ImpossibleLine> {
    let refusal = recorded_refusal(
        decision,
        decision.metadata.code.unwrap_or(Code::MalformedPayload),
    );
    let is_large = bytes > MEMBER_BYTES_MAX;
    Ok(match refusal.code {
        // The rate limit and the room on the disk are checked before the payload.
        Code::RateLimited | Code::StorageLow if is_large => {
            (Ok(Body::unread(rule)), Some(rule.lane))
        }
        Code::SignatureInvalid
        | Code::WrongSpool
        | Code::RequestIdConflict
        | Code::ActionsFull
        | Code::Pruned
        | Code::Internal => {
            let by_class = rule.rate == Rate::ByClass && decision.lane == Lane::Protected;
            let may_be = by_class || decision.lane == rule.lane || decision.lane == Lane::Ordinary;
            (
                Err(refusal),
                Some(if may_be { decision.lane } else { rule.lane }),
            )
        }
        // The line that it repeats has the payload; if that line has none either, the payload was
        // malformed.
        _ if decision.metadata.replay_of.is_some() || decision.payload_blob.is_some() => {
            (Err(refusal), None)
        }
        Code::MalformedPayload if is_large => (Err(refusal), None),
        _ => return Err(ImpossibleLine::PayloadNotKept),
    })
}

/// Rebuilds bytes that are not a verified request, and the hashes of the envelope that may be in
/// them.
fn unverified(
    decision: &Decision,
) -> Result<(Unverified, Option<(String, String)>), ImpossibleLine> {
    let (code, message) = match (decision.metadata.code, &decision.metadata.message) {
        (Some(code), Some(message)) => (code, message),
        _ => return Err(ImpossibleLine::NotRefused),
    };
    let of_envelope = code == Code::SignatureInvalid;
    let before_reading = matches!(
        code,
        Code::BadFileName
            | Code::NotAFile
            | Code::LinkedFile
            | Code::Unreadable
            | Code::TooLarge
            | Code::FrameIncomplete
            | Code::MalformedJson
            | Code::MalformedEnvelope
            | Code::Internal
    );
    if !of_envelope && !before_reading {
        return Err(ImpossibleLine::VerifiedOnly(code));
    }
    let envelope = envelope(decision, String::new());
    if envelope.is_some() != of_envelope {
        let what = if of_envelope {
            "lacks a part of"
        } else {
            "contains"
        };
        return Err(ImpossibleLine::Envelope { code, what });
    }
    if let Some(envelope) = &envelope {
        let end = format!(
            "`: no current key of `{}` made this signature over the request",
            envelope.source
        );
        if !(message.starts_with("file `") && message.ends_with(&Refusal::new(code, end).message)) {
            return Err(ImpossibleLine::Message(code));
        }
    }
    let hashes = decision
        .payload_hash
        .clone()
        .zip(decision.request_hash.clone());
    if hashes.is_some() != of_envelope {
        return Err(ImpossibleLine::Hashes(code));
    }
    Ok((
        Unverified {
            envelope,
            refusal: Refusal {
                stays: decision.kept.is_none() && decision.file_bytes.is_none(),
                ..recorded_refusal(decision, code)
            },
        },
        hashes,
    ))
}

/// The causality in a receipt, in the usual spellings: absent members left out or written as null,
/// in two orders. The hash of what was signed shows which spelling was sent, if any.
fn causality(decision: &Decision) -> Vec<String> {
    let Some(receipt) = decision.receipt.as_deref() else {
        return Vec::new();
    };
    let claimed = receipt.claimed_counters;
    let members = [
        ("root_task_id", serde_json::to_string(&receipt.root_task_id)),
        (
            "parent_task_id",
            serde_json::to_string(&receipt.parent_task_id),
        ),
        (
            "caused_by_receipt_id",
            serde_json::to_string(&receipt.caused_by_receipt_id),
        ),
        ("spawn_depth", serde_json::to_string(&claimed.spawn_depth)),
        (
            "capability_id",
            serde_json::to_string(&receipt.capability_id),
        ),
        (
            "recursion_budget_remaining",
            serde_json::to_string(&claimed.recursion_budget_remaining),
        ),
    ];
    let spelt = |leave_out: bool, by_name: bool| {
        let mut told: Vec<String> = members
            .iter()
            .filter_map(|(name, value)| Some((name, value.as_deref().ok()?)))
            .filter(|(name, value)| !leave_out || **name == "parent_task_id" || *value != "null")
            .map(|(name, value)| format!("\"{name}\":{value}"))
            .collect();
        if by_name {
            told.sort();
        }
        format!("{{{}}}", told.join(","))
    };
    vec![
        spelt(true, false),
        spelt(false, false),
        spelt(true, true),
        spelt(false, true),
    ]
}

/// Writes the response line of an open action again, from what the given line reports about the
/// adapter. `data` is the content of the line's blob, if it has one. What is sealed in the line is
/// taken as it is there.
///
/// # Errors
/// Describes what no response line can contain.
pub fn response(
    open: &OpenAction,
    line: &Response,
    data: Option<Box<RawValue>>,
    rulebook: &str,
    seq: u64,
) -> Result<Response, ImpossibleLine> {
    let is_sealed = !line.sealed.is_empty();
    if is_sealed && !line.is_sealed_as_named() {
        return Err(ImpossibleLine::Sealed);
    }
    let mut made = heard_again(open, line, data, rulebook, seq)?;
    made.sealed.clone_from(&line.sealed);
    // Older lines have nothing sealed, and large data in a blob.
    let large = made
        .data
        .take_if(|data| !is_sealed && data.get().len() > MEMBER_BYTES_MAX);
    made.data_blob = large.map(|large| sha256_hex(large.get().as_bytes()));
    Ok(made)
}

/// Writes the response line of an open action again, before it is sealed. `line` is the line with
/// its sealed members put back.
///
/// # Errors
/// Describes what no response line can contain.
pub fn revealed(
    open: &OpenAction,
    line: &Response,
    rulebook: &str,
    seq: u64,
) -> Result<Response, ImpossibleLine> {
    let line = Response {
        sealed: Vec::new(),
        ..line.clone()
    };
    heard_again(open, &line, None, rulebook, seq)
}

fn heard_again(
    open: &OpenAction,
    line: &Response,
    data: Option<Box<RawValue>>,
    rulebook: &str,
    seq: u64,
) -> Result<Response, ImpossibleLine> {
    let data = data.or_else(|| line.data.clone());
    let (data, refusal) = match line.metadata.code {
        None => (data, None),
        Some(Code::StubAdapter) => {
            let (data, refusal) = gateway::of_stub(open);
            (data, Some(refusal))
        }
        Some(
            code @ (Code::AdapterNotRun
            | Code::AdapterTimedOut
            | Code::AdapterCrashed
            | Code::UnknownOutcome),
        ) => (None, Some(gateway::ended_badly(open, code, &line.note))),
        // Only the line knows what the adapter wrote or what was wrong with its output.
        Some(code @ (Code::AdapterFailed | Code::AdapterOutput)) => {
            let message = line.metadata.message.clone().unwrap_or_default();
            let (start, end) = (format!("{}: ", open.id), format!("; {}", code.remedy()));
            if !(line.is_sealed(MESSAGE) || message.starts_with(&start) && message.ends_with(&end))
            {
                return Err(ImpossibleLine::Message(code));
            }
            (
                data.filter(|_| code == Code::AdapterFailed),
                Some(Refusal::recorded(code, message)),
            )
        }
        Some(other) => return Err(ImpossibleLine::Ending(other)),
    };
    let is_complaint = line.complaint.as_ref().is_none_or(|_| refusal.is_some());
    if !is_complaint {
        return Err(ImpossibleLine::Complaint);
    }
    let (removed, note) = (line.removed, line.note.clone());
    let heard = gateway::Heard {
        data,
        removed,
        refusal,
        note,
    };
    let mut made = gateway::written(open, heard, rulebook, line.timestamp, seq);
    made.complaint.clone_from(&line.complaint);
    made.cage.clone_from(&line.cage);
    Ok(made)
}

/// Reads back the look-ups that only the line itself records: whether a key was held, whether rule files were edited, whether an earlier answer was lost,
/// and which pruned segments had a line that was needed.
pub fn recorded(decision: &Decision) -> Lookups {
    let message = decision.metadata.message.as_deref().unwrap_or_default();
    let edited = |change: &Change| match change {
        Change::Proposal(proposals::Change::Pended { proposed, .. }) => proposed
            .why_people
            .as_ref()
            .is_some_and(|why| *why == proposals::being_edited(&proposed.path)),
        _ => false,
    };
    let was_held = |change: &Change| match change {
        Change::KeyAdded(_) => true,
        Change::Services(services::Change::Credential { credential, .. }) => credential.is_some(),
        _ => false,
    };
    let is_lost = decision.metadata.code == Some(Code::Internal) && message.contains(ANSWER_LOST);
    Lookups {
        key_is_held: decision.changes.iter().any(was_held),
        answer_is_lost: is_lost && decision.payload.is_none() && decision.payload_blob.is_none(),
        rule_file_differs: decision.changes.iter().any(edited)
            || message.contains(proposals::EDITED),
        pruned: pruned(decision.metadata.code, message),
        only_signatures_approve: message.starts_with(proposals::ONLY_SIGNATURES),
        scarce: (decision.metadata.code == Some(Code::StorageLow))
            .then(|| Scarce::of_message(message))
            .flatten(),
        ..Lookups::default()
    }
}

/// The pruned segments that a refusal names.
fn pruned(code: Option<Code>, message: &str) -> Option<String> {
    let (_, named) = message.rsplit_once(PRUNED_WITH)?;
    let files = named
        .strip_suffix(Code::Pruned.remedy())?
        .strip_suffix("; ")?;
    (code == Some(Code::Pruned)).then(|| files.to_owned())
}

/// The request hash that an accepted verdict names for its case. If the case's request was redacted
/// since, only the verdict's line has that hash.
pub fn named_case(decision: &Decision, request: &Prepared) -> Option<String> {
    let submit: &SubmitVerdict = request.request.as_ref().ok()?.payload()?;
    (decision.status == Status::Success).then(|| submit.request_sha256.clone())
}

/// Returns the hold that a granted request ended, its approver, and whether values were added to
/// sets.
pub fn granted(decision: &Decision) -> Option<(HoldId, &Principal, bool)> {
    let id = decision.hold?;
    let by = decision.of_approvals().find_map(|change| match change {
        approvals::Change::Ended { by, .. } => by.as_ref(),
        _ => None,
    });
    let remember = decision
        .of_approvals()
        .any(|change| matches!(change, approvals::Change::EntryAdded { .. }));
    Some((id, by?, remember))
}
