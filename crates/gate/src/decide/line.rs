//! Writes a decision into its line.

use serde_json::value::RawValue;

use super::{Decided, MEMBER_BYTES_MAX, retry};
use crate::actions::Lane;
use crate::handle::{Judged, Outcome, Turn};
use crate::outbox;
use crate::prepare::{Authentic, Origin, Prepared, Refusal};
use crate::record::{Decision, MarketRows, Metadata, Ruling, Status};
use crate::rules;
use crate::sealing;
use crate::state::Change;
use spoolgate_wire::admission::receipt_id;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::checks::CheckRow;
use spoolgate_wire::code::Code;
use spoolgate_wire::envelope::Envelope;
use spoolgate_wire::orders::SubmitOrder;
use spoolgate_wire::signing;
use spoolgate_wire::time::Time;

/// A decision line with everything that does not depend on the outcome. `hashes` are the hashes of
/// payload and request.
pub(super) fn blank(
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
pub(crate) fn refused(now: Time, seq: u64, rulebook: &str) -> Decision {
    Decision {
        timestamp: now,
        id: seq.to_string(),
        rulebook: rulebook.to_owned(),
        ..Decision::default()
    }
}

pub(super) fn refuse(decision: &mut Decision, refusal: &Refusal) {
    decision.status = if refusal.code.is_for_later() {
        Status::RateLimited
    } else {
        Status::Rejected
    };
    decision.metadata = Metadata::of(refusal.clone());
}

/// Writes an outcome into its line. Returns the market lines that come before it.
pub(super) fn fill_in(
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
            .find(|row| row.is_root())
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
pub(crate) fn refusal_of(row: &CheckRow) -> Refusal {
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
        return (market, outbox::of_line(book, turn.rules, changes, turn.now));
    }
    let mut book = book.clone();
    let mut follow = |changes: Vec<Change>| {
        let changes = outbox::of_line(&book, turn.rules, changes, turn.now);
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
pub(super) fn finish(
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
    retry::complete(turn, &mut decision);
    let before = u64::try_from(market.len()).unwrap_or(u64::MAX);
    let seq = turn.seq.saturating_add(before);
    decision.id = seq.to_string();
    if let Some(receipt) = &mut decision.receipt {
        receipt.receipt_id = receipt_id(seq);
    }
    Decided {
        market,
        decision,
        blobs,
        begins: None,
        resolves: None,
    }
}

/// A rate-limited request may be sent again under the same id, so the line keeps nothing large of
/// it; otherwise a flood fills the ledger.
pub(super) fn drop_large(
    turn: &Turn<'_>,
    decision: &mut Decision,
    blobs: &mut Vec<(String, Vec<u8>)>,
) {
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
