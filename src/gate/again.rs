//! A request as its ledger line tells of it, so that it can be decided again.

use super::approvals;
use super::decide::Lookups;
use super::prepare::{Authentic, Origin, Payload, Prepared, read_body};
use super::record::{Decision, Status};
use super::state::Change;
use crate::council::case;
use crate::wire::approvals::HoldId;
use crate::wire::code::Code;
use crate::wire::envelope::Envelope;
use crate::wire::ids::{Principal, RequestId};
use crate::wire::signing::sha256_hex;
use crate::wire::time::Time;

/// Why a decision cannot be made again from the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NotAgain {
    /// No good signature: nobody asked for anything.
    NoSignature,
    /// Sent again: it only repeats an earlier answer.
    Repeated,
    /// Its id was used up by another request.
    IdTaken,
    /// Refused before its payload counted: its key had ended, its spool was not its own, or it was too large to keep.
    NotKept,
    /// Its payload lies in a blob that is missing or damaged.
    BlobLost,
    /// What its line holds is not what was signed: it carries causality that the line tells only in part.
    NotWhole,
    /// The end of a held request that nobody granted: a person or time decided, no rule.
    HoldEnded,
    /// The gate could not do it, whatever the rules say.
    Internal,
    /// It read a sealed field whose disclosure is gone: redacted, unless `audit verify` says otherwise.
    Redacted,
}

impl NotAgain {
    /// In words.
    pub fn as_str(self) -> &'static str {
        match self {
            NotAgain::NoSignature => "no good signature",
            NotAgain::Repeated => "sent again, the earlier answer repeated",
            NotAgain::IdTaken => "its id was used before",
            NotAgain::NotKept => "refused before its payload counted",
            NotAgain::BlobLost => "its payload's blob is lost",
            NotAgain::NotWhole => "its causality is not whole in the ledger",
            NotAgain::HoldEnded => "held before, and not granted",
            NotAgain::Internal => "the gate could not do it",
            NotAgain::Redacted => "it read what was redacted",
        }
    }
}

/// Why a decision is none of the rules' and needs no payload to know it; none: it may be made again.
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
        Some(Code::Internal) => Some(NotAgain::Internal),
        _ if decision.payload.is_none() && decision.payload_blob.is_none() => Some(NotAgain::NotKept),
        _ => None,
    }
}

/// The request of a decision, as it was authenticated.
///
/// # Errors
/// Why it cannot be made again.
pub fn request(decision: &Decision, payload: Option<String>) -> Result<Prepared, NotAgain> {
    if let Some(why) = hindered(decision) {
        return Err(why);
    }
    let payload = payload.ok_or(NotAgain::BlobLost)?;
    let authentic = authentic(decision, payload).ok_or(NotAgain::NotWhole)?;
    let origin = Origin::from_label(&decision.spool).ok_or(NotAgain::NotWhole)?;
    let (file, file_sha256, file_bytes) =
        (decision.file.clone(), decision.file_sha256.clone(), decision.file_bytes);
    Ok(Prepared { origin, file, file_sha256, file_bytes, request: Ok(authentic) })
}

fn authentic(decision: &Decision, payload: String) -> Option<Authentic> {
    let timestamp_text = decision.requested_at.clone()?;
    let mut envelope = Envelope {
        id: RequestId::parse(decision.request_id.as_deref()?).ok()?,
        timestamp: Time::parse(&timestamp_text).ok()?,
        timestamp_text,
        action: decision.action.clone()?,
        payload,
        source: Principal::parse(decision.source.as_deref()?).ok()?,
        signature: decision.signature.clone()?,
        causality: None,
    };
    let payload_hash = envelope.payload_hash();
    let wanted = decision.request_hash.as_deref()?;
    let is_it =
        |envelope: &Envelope| sha256_hex(envelope.signing_string_of(&payload_hash).as_bytes()) == wanted;
    if !is_it(&envelope) {
        let spelt = causality(decision).into_iter();
        let mut fitting = spelt.map(|causality| Envelope { causality: Some(causality), ..envelope.clone() });
        envelope = fitting.find(is_it)?;
    }
    let body = read_body(&envelope, usize::try_from(decision.file_bytes?).ok()?);
    let (key_id, request_hash) = (decision.key_id.clone()?, wanted.to_owned());
    Some(Authentic { envelope, key_id, payload_hash, request_hash, body })
}

/// Causality as its receipt tells of it, in the usual spellings: with what is not claimed left out, and with null for it.
/// The hash of what was signed says which of them was sent, if any.
fn causality(decision: &Decision) -> Vec<String> {
    let Some(receipt) = decision.receipt.as_deref() else { return Vec::new() };
    let claimed = receipt.claimed_counters;
    let members = [
        ("root_task_id", serde_json::to_string(&receipt.root_task_id)),
        ("parent_task_id", serde_json::to_string(&receipt.parent_task_id)),
        ("caused_by_receipt_id", serde_json::to_string(&receipt.caused_by_receipt_id)),
        ("spawn_depth", serde_json::to_string(&claimed.spawn_depth)),
        ("capability_id", serde_json::to_string(&receipt.capability_id)),
        ("recursion_budget_remaining", serde_json::to_string(&claimed.recursion_budget_remaining)),
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
    vec![spelt(true, false), spelt(false, false), spelt(true, true), spelt(false, true)]
}

/// What the line itself says of look-ups: whether the council had room for a case, and whether a key was held.
pub fn recorded(decision: &Decision) -> Lookups {
    let was_full = |change: &Change| matches!(change, Change::Council(case::Change::CaseFull { .. }));
    Lookups {
        no_more_cases: decision.changes.iter().any(was_full),
        key_is_held: decision.changes.iter().any(|change| matches!(change, Change::KeyAdded(_))),
        ..Lookups::default()
    }
}

/// What a verdict that was filed calls its case's request: where that was redacted since, only the verdict's own line says
/// that this was its hash.
pub fn named_case(decision: &Decision, request: &Prepared) -> Option<String> {
    let body = request.request.as_ref().ok()?.body.as_ref().ok()?;
    match &body.payload {
        Payload::Verdict(submit) if decision.status == Status::Success => Some(submit.request_sha256.clone()),
        _ => None,
    }
}

/// Who granted a held request of which this is the final answer, and whether its values came into sets.
pub fn granted(decision: &Decision) -> Option<(HoldId, &Principal, bool)> {
    let id = decision.hold?;
    let by = decision.of_approvals().find_map(|change| match change {
        approvals::Change::Ended { by, .. } => by.as_ref(),
        _ => None,
    });
    let remember =
        decision.of_approvals().any(|change| matches!(change, approvals::Change::EntryAdded { .. }));
    Some((id, by?, remember))
}
