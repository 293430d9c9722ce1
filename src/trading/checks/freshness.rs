//! The age of a request.

use super::{Finding, Kind, PRINCIPALS, SAFETY, Subject};
use crate::wire::amount::Amount;

/// Entries: not older than the principal's bound (or that of safety.yaml), not further ahead than
/// `request_ahead_max_s`. Exits, cancels and tightens: within the bound, or not older than
/// `exit_age_max_s`; an exit that old must also be younger than the last growth of its position, or
/// whoever withholds files could release an old order against a later position.
pub(super) fn request_freshness(subject: &Subject) -> Finding {
    let safety = &subject.rules.safety;
    let own_bound_s =
        subject.rules.principals.get(subject.ctx.source).and_then(|rule| rule.request_age_max_s);
    let (bound_s, source) = match own_bound_s {
        Some(bound_s) => (bound_s, PRINCIPALS),
        None => (safety.request_age_max_s, SAFETY),
    };
    let age_ms = subject.ctx.now.since_ms(subject.ctx.requested_at);
    let is_entry = subject.kind == Kind::Entry;
    let ahead_max_s = if is_entry { safety.request_ahead_max_s } else { safety.exit_age_max_s };
    if age_ms < 0 {
        let ahead_ms = age_ms.saturating_neg();
        let finding = Finding::compared(whole(ahead_ms), seconds(ahead_max_s), "ms", SAFETY);
        let passed = ahead_ms <= ms(ahead_max_s);
        return finding.unless(passed, || format!("signed {ahead_ms} ms ahead of the gate's clock"));
    }
    let stale = || format!("signed {age_ms} ms ago; sign it again with the current time");
    if is_entry || age_ms <= ms(bound_s) {
        let finding = Finding::compared(whole(age_ms), seconds(bound_s), "ms", source);
        return finding.unless(age_ms <= ms(bound_s), stale);
    }
    let limit_s = safety.exit_age_max_s.max(bound_s);
    let finding = Finding::compared(whole(age_ms), seconds(limit_s), "ms", SAFETY);
    if age_ms > ms(limit_s) {
        return finding.unless(false, stale);
    }
    finding.unless(is_position_older(subject), || {
        let grown = "the position has grown since";
        format!("signed {age_ms} ms ago, and {grown}; sign it again with the current time")
    })
}

/// Whether the position an exit reduces last grew before the request was signed. True for requests that
/// reduce no position: a cancel or tighten cannot be turned against a later one.
fn is_position_older(subject: &Subject) -> bool {
    let Some(facts) = &subject.order else { return true };
    let key = (facts.symbol().clone(), facts.order.strategy.clone());
    let position = subject.book.positions.get(&key);
    position.is_some_and(|position| position.increased_at < subject.ctx.requested_at)
}

fn ms(seconds: u32) -> i64 {
    i64::from(seconds).saturating_mul(1000)
}

fn seconds(seconds: u32) -> Amount {
    whole(ms(seconds))
}

fn whole(number: i64) -> Amount {
    Amount::from_i64(number)
}
