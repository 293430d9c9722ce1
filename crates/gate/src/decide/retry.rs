//! When a request that was refused for now may come again.

use super::REPAIRS_MAX;
use crate::actions::{self, Freshness, Lane};
use crate::handle::Turn;
use crate::record::Decision;
use spoolgate_rules::principals::PrincipalRule;
use spoolgate_wire::code::{Code, Retry};
use spoolgate_wire::ids::Principal;
use spoolgate_wire::time::Time;

impl Turn<'_> {
    /// Returns the maximum age of a request, seconds; `None` if it may have any. `is_exit` is
    /// whether an order only reduces a position.
    pub(super) fn age_max_s(
        &self,
        freshness: Freshness,
        rule: Option<&PrincipalRule>,
        is_exit: bool,
    ) -> Option<u32> {
        let safety = &self.rules.safety;
        let own = rule.and_then(|rule| rule.request_age_max_s);
        let own = own.map_or(safety.request_age_max_s, |own| own.get());
        match freshness {
            Freshness::Never => None,
            Freshness::Exit => Some(*safety.exit_age_max_s),
            Freshness::Halt => Some((*safety.exit_age_max_s).max(own)),
            Freshness::ByClass if is_exit => Some(*safety.exit_age_max_s),
            Freshness::Request | Freshness::ByClass => Some(own),
        }
    }

    /// Returns for how many milliseconds more a refused request is not too old; `None` for ever.
    fn fresh_for_ms(&self, decision: &Decision) -> Option<i64> {
        let row = actions::find(decision.action.as_deref()?)?;
        let source = Principal::parse(decision.source.as_deref()?).ok()?;
        let rule = self.rules.principals.get(&source);
        let is_exit = decision.lane == Lane::Protected;
        let most_s = self.age_max_s(row.freshness, rule, is_exit)?;
        let signed = Time::parse(decision.requested_at.as_deref()?).ok()?;
        let age_ms = self.now.since_ms(self.signed_at(signed));
        Some(
            i64::from(most_s)
                .saturating_mul(1000)
                .saturating_sub(age_ms),
        )
    }
}

/// Completes what a refusal for now says: the time to wait, and whether the request would be too
/// old by then, so that only a new one helps.
pub(super) fn complete(turn: &Turn<'_>, decision: &mut Decision) {
    let fresh_for_ms = turn.fresh_for_ms(decision);
    let waits_ms = decision.waits_ms();
    let is_last = decision.attempt >= REPAIRS_MAX;
    let metadata = &mut decision.metadata;
    let (Some(code), Some(repair)) = (metadata.code, &mut metadata.repair) else {
        return;
    };
    repair.retry_after_ms = repair.retry_after_ms.or(waits_ms);
    let wait_ms = repair.retry_after_ms.and_then(|ms| i64::try_from(ms).ok());
    if repair.retry == Retry::SameId && is_last {
        repair.retry = Retry::NewId;
    }
    if repair.retry != Retry::After {
        return;
    }
    let is_stale = fresh_for_ms.is_some_and(|left| wait_ms.unwrap_or(0) > left);
    // The id of a request that was held before is used up.
    if is_stale || turn.granted.is_some() {
        repair.retry = Retry::NewId;
    }
    let is_timed = matches!(code, Code::RateLimited | Code::ActionsFull);
    let what = metadata
        .message
        .as_deref()
        .and_then(|message| message.strip_suffix(code.remedy())?.strip_suffix("; "));
    let (Some(wait_ms), Some(what), true) = (wait_ms, what, is_timed) else {
        return;
    };
    let at = turn.now.plus_ms(wait_ms);
    metadata.message = Some(match repair.retry {
        Retry::After => format!(
            "{what}; send the same file again at {at}, in {wait_ms} ms: its id is not used up"
        ),
        Retry::SameId | Retry::NewId | Retry::Never => format!(
            "{what}; send a new request at {at}, in {wait_ms} ms: this one would be too old by then"
        ),
    });
}
