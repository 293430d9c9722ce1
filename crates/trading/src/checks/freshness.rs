//! The age of a request.

use super::{CheckRow, Kind, PRINCIPALS, SAFETY, Subject};
use spoolgate_wire::amount::Amount;

/// An entry is not older than the bound of its principal (or the bound of safety.yaml), and not
/// further ahead than `request_ahead_max_s`. An exit, cancel or tighten is within the bound, or not
/// older than `exit_age_max_s`. An exit older than the bound must also have been signed after its
/// position last grew; otherwise a client that withholds files could release an old exit against a
/// later position.
pub(super) fn request_freshness(subject: &Subject) -> CheckRow {
    let safety = &subject.rules.safety;
    let own_bound_s = subject
        .rules
        .principals
        .get(subject.ctx.source)
        .and_then(|rule| rule.request_age_max_s);
    let (bound_s, source) = match own_bound_s {
        Some(bound_s) => (*bound_s, PRINCIPALS),
        None => (safety.request_age_max_s, SAFETY),
    };
    let age_ms = subject.ctx.now.since_ms(subject.ctx.requested_at);
    let is_entry = subject.kind == Kind::Entry;
    let ahead_max_s = if is_entry {
        safety.request_ahead_max_s
    } else {
        *safety.exit_age_max_s
    };
    if age_ms < 0 {
        let ahead_ms = age_ms.saturating_neg();
        let row = CheckRow::compared(whole(ahead_ms), seconds(ahead_max_s), "ms", SAFETY);
        let passed = ahead_ms <= ms(ahead_max_s);
        return row.unless(passed, || {
            format!("signed {ahead_ms} ms ahead of the gate's clock")
        });
    }
    let stale = || format!("signed {age_ms} ms ago; sign it again with the current time");
    if is_entry || age_ms <= ms(bound_s) {
        let row = CheckRow::compared(whole(age_ms), seconds(bound_s), "ms", source);
        return row.unless(age_ms <= ms(bound_s), stale);
    }
    let limit_s = bound_s.max(*safety.exit_age_max_s);
    let row = CheckRow::compared(whole(age_ms), seconds(limit_s), "ms", SAFETY);
    if age_ms > ms(limit_s) {
        return row.unless(false, stale);
    }
    row.unless(is_position_older(subject), || {
        let grown = "the position has grown since";
        format!("signed {age_ms} ms ago, and {grown}; sign it again with the current time")
    })
}

/// Whether the position that an exit reduces last grew before the request was signed. True for
/// cancels and tightens: they reduce no position, so they cannot be turned against a later one.
fn is_position_older(subject: &Subject) -> bool {
    let Some(facts) = &subject.order else {
        return true;
    };
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
