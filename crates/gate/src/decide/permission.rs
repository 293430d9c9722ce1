//! The checks between authentication and the action's own checks: whether the answer may go under
//! the request's id, and whether the sender may do this now.

use super::{ANSWER_LOST, PRUNED_WITH, Seen};
use crate::actions::{Body, Freshness};
use crate::handle::Turn;
use crate::prepare::{Authentic, Origin, Prepared, Refusal};
use crate::rates;
use spoolgate_wire::code::Code;
use spoolgate_wire::gateway::GatewayCall;

/// Checks that the answer may go under the request's id: the key is still valid, the spool is the
/// sender's own, and the id is free or was used by the same request.
pub(crate) fn may_answer_by_id(
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
    let rule = turn.rules.principals.get(&envelope.source);
    let own_spool = rule.and_then(|rule| rule.spool.as_ref());
    let own_user = rule.and_then(|rule| rule.unix_user.as_ref());
    if !request.origin.is_for(own_spool, own_user) {
        let what = format!(
            "file `{}`: `{}` is not bound to this spool directory",
            request.file, envelope.source
        );
        return Err(Refusal::new(Code::WrongSpool, what));
    }
    let is_repaired =
        |seen: &Seen| seen.is_open_to(envelope.source.as_str(), &authentic.request_hash);
    if let Some(seen) = turn
        .lookups
        .seen
        .as_ref()
        .filter(|seen| turn.lookups.answer_is_lost && !is_repaired(seen))
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
        .filter(|seen| !is_repaired(seen))
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
                    "file `{}`: the decision in ledger line {} stands, but its answer {PRUNED_WITH}\
                        {files}",
                    request.file, seen.seq
                ),
                None => format!(
                    "file `{}`: what the request refers to {PRUNED_WITH}{files}",
                    request.file
                ),
            };
            Err(Refusal::new(Code::Pruned, what))
        }
        None => Ok(()),
    }
}

/// The checks between the schema and the action's own: permission, freshness and message rate.
pub(crate) fn may_do(turn: &Turn<'_>, authentic: &Authentic, body: &Body) -> Result<(), Refusal> {
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
    let freshness = body.rule.freshness;
    match freshness {
        // Checked in a row of the check vector, where entries and exits differ, or not at all.
        Freshness::Exit => return rates::idle_refusal(turn, authentic, body).map_or(Ok(()), Err),
        Freshness::ByClass | Freshness::Never => return Ok(()),
        Freshness::Halt | Freshness::Request => {}
    }
    let Some(age_max_s) = turn.age_max_s(freshness, Some(rule), false) else {
        return Ok(());
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
    let refusal = rates::refusal(turn, authentic, body.rule.lane);
    let refusal = refusal.or_else(|| rates::idle_refusal(turn, authentic, body));
    refusal.map_or(Ok(()), Err)
}
