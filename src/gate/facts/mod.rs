//! Facts of a request, as rules read them: one arm a field. What nobody asks for is not computed, what is known
//! costs no copy.

mod body;
mod control;
mod order;
mod payload;
#[cfg(test)]
mod tests;
mod whom;

use std::cell::OnceCell;

use self::order::OrderView;
use self::payload::PayloadView;
use super::handle::Turn;
use super::history;
use super::prepare::{Authentic, Payload};
use crate::actions::allowlist;
use crate::rules::rule::field::{Id, Kind, Missing, WEEKDAYS};
use crate::rules::rule::{Fact, Field, Reading, Value};
use crate::trading::facts::minutes_since_open;
use crate::wire::admission::{AdmissionBody, AdmissionEnvelope, Causality};
use crate::wire::amount::Amount;
use crate::wire::council::{Artifacts, CouncilRequest};
use crate::wire::time::{DAY_MS, Time};

/// Facts of one request, each found when it is asked for.
pub struct Source<'a> {
    turn: Turn<'a>,
    authentic: &'a Authentic,
    order: Option<OrderView<'a>>,
    payload: OnceCell<PayloadView<'a>>,
}

/// The facts that these readings name, in their order.
pub fn facts<'a>(turn: &Turn<'a>, authentic: &'a Authentic, readings: &[Reading]) -> Vec<Fact<'a>> {
    Source::new(turn, authentic).facts(readings)
}

/// Whether the fact depends on the size of an order: [`Source::resize`] changes no other.
pub fn is_by_size(reading: &Reading) -> bool {
    let is_sized = |field: &Field| {
        matches!(
            field.id,
            Id::OrderSize
                | Id::OrderNotional
                | Id::OrderNotionalFraction
                | Id::OrderRisk
                | Id::OrderRiskFraction
        )
    };
    match reading {
        Reading::Field(field) | Reading::FirstSeen(field) => is_sized(field),
        Reading::Sum { of, .. } | Reading::Distinct { of, .. } => is_sized(of),
        Reading::Count { .. } => false,
    }
}

const UNREADABLE: &str = "the payload cannot be read";
const NO_VALUE: &str = "it is no value that the field can have";
const NOWHERE: &str = "rules/services.yaml lets it go nowhere";
const NO_SUCH: &str = "the request has no such field";

impl<'a> Source<'a> {
    /// Of a request.
    pub fn new(turn: &Turn<'a>, authentic: &'a Authentic) -> Source<'a> {
        let order = match authentic.body.as_ref().map(|body| &body.payload) {
            Ok(Payload::Submit(order)) => Some(OrderView::of(turn, order)),
            _ => None,
        };
        Source { turn: *turn, authentic, order, payload: OnceCell::new() }
    }

    /// Makes it the same request with another size of its order: only facts that [`is_by_size`] names change.
    pub fn resize(&mut self, size: Amount) {
        if let Some(order) = &mut self.order {
            order.size = size;
        }
    }

    /// The facts that these readings name, in their order.
    pub fn facts(&self, readings: &[Reading]) -> Vec<Fact<'a>> {
        readings.iter().map(|reading| self.fact(reading)).collect()
    }

    /// The fact that a reading names.
    pub fn fact(&self, reading: &Reading) -> Fact<'a> {
        match reading {
            Reading::Field(field) => self.field(field),
            past => {
                let Source { turn, authentic, .. } = self;
                let own = |field| self.field(field);
                history::fact(turn.lookups.history.as_ref(), &authentic.envelope.action, past, own, turn.now)
            }
        }
    }

    fn field(&self, field: &Field) -> Fact<'a> {
        let Source { turn, authentic, .. } = self;
        match field.id {
            Id::TimeOfDay => whole(minutes_since_open(turn.now)),
            Id::TimeWeekday => Fact::text(weekday(turn.now)),
            Id::TimeDayOfMonth => whole(i64::from(turn.now.day_of_month())),
            Id::RequestSource => Fact::text(authentic.envelope.source.as_str()),
            Id::RequestRole => match turn.rules.role(&authentic.envelope.source) {
                Some(role) => Fact::text(role.as_str()),
                None => unknown("the sender is not in rules/principals.yaml"),
            },
            Id::RequestAction => Fact::text(authentic.envelope.action.as_str()),
            Id::RequestHasCausality => Fact::flag(authentic.envelope.causality.is_some()),
            Id::RequestAgeMs => whole(turn.now.since_ms(turn.signed_at(authentic.envelope.timestamp))),
            id => match self.of_action(id) {
                // Whoever leaves out what must be there must not have conditions on it come out false.
                Fact::Absent if field.missing != Missing::Absent => unknown(UNREADABLE),
                fact => of_kind(field.kind, fact),
            },
        }
    }

    fn of_action(&self, id: Id) -> Fact<'a> {
        if let Some(order) = &self.order {
            return order.fact(id);
        }
        match self.authentic.body.as_ref().map(|body| &body.payload) {
            Ok(Payload::Council(request)) => self.of_case(id, request),
            Ok(Payload::Control(attempt)) => match &attempt.decision {
                Ok(decision) => self.of_control(id, decision),
                Err(_) => unknown(UNREADABLE),
            },
            Ok(Payload::Admission(_, attempt)) => match &attempt.body {
                Ok(body) => of_task(id, body),
                Err(_) => unknown(UNREADABLE),
            },
            Ok(Payload::Gateway(call)) if id == Id::PayloadHost => {
                let action = self.authentic.envelope.action.as_str();
                let service = allowlist::destination(&self.turn.rules.services, action, call);
                service.map_or(unknown(NOWHERE), |service| Fact::text(service.host.as_str()))
            }
            _ => {
                let payload = self.payload.get_or_init(|| PayloadView::of(&self.authentic.envelope));
                payload.fact(id, self.turn.now)
            }
        }
    }

    fn of_case(&self, id: Id, request: &'a CouncilRequest) -> Fact<'a> {
        match id {
            Id::CouncilChangeType => Fact::text(request.change_type.as_str()),
            Id::CouncilProposer => Fact::text(request.proposer.as_str()),
            Id::CouncilSummary => Fact::text(request.context.summary.as_str()),
            Id::CouncilFilesChanged => many(request.context.files_changed.iter().map(String::as_str)),
            Id::CouncilMetrics => many(request.context.key_metrics.keys().map(String::as_str)),
            Id::CouncilArtifacts => {
                many(Artifacts::NAMES.into_iter().filter(|name| request.artifacts.get(name).is_some()))
            }
            Id::CouncilDiff => text_or_absent(request.artifacts.diff_content.as_deref()),
            Id::CouncilHasReturns => Fact::flag(request.returns.is_some()),
            Id::CouncilOpenCases => count(self.turn.state.council.open),
            _ => unknown(NO_SUCH),
        }
    }
}

fn of_task<'a>(id: Id, body: &'a AdmissionBody) -> Fact<'a> {
    let AdmissionEnvelope { domain, payload_kind, payload, target, artifact_size_bytes, causality } =
        &body.envelope;
    let claimed = |number: fn(&Causality) -> Option<i64>| {
        causality.as_ref().and_then(number).map_or(Fact::Absent, whole)
    };
    match id {
        Id::AdmissionTenant => Fact::text(domain.tenant.as_str()),
        Id::AdmissionSurface => Fact::text(domain.surface.as_str()),
        Id::AdmissionProfile => Fact::text(domain.profile.as_str()),
        Id::AdmissionPayloadKind => Fact::text(payload_kind.as_str()),
        Id::AdmissionPayloadBytes => size(payload.len()),
        Id::AdmissionTarget => text_or_absent(target.as_deref()),
        Id::AdmissionArtifactSizeBytes => artifact_size_bytes.map_or(Fact::Absent, count),
        Id::AdmissionForward => Fact::flag(body.forward == Some(true)),
        Id::AdmissionHasCausality => Fact::flag(causality.is_some()),
        Id::AdmissionIsRoot => match causality {
            Some(causality) => Fact::flag(causality.parent_task_id.is_none()),
            None => Fact::Absent,
        },
        Id::AdmissionCapability => {
            text_or_absent(causality.as_ref().map(|causality| causality.capability_id.as_str()))
        }
        Id::AdmissionDepthClaimed => claimed(|causality| causality.spawn_depth),
        Id::AdmissionBudgetClaimed => claimed(|causality| causality.recursion_budget_remaining),
        _ => unknown(NO_SUCH),
    }
}

/// The fact, if all of it is of its field's kind. Proofs know no other values: what is none of a closed list, or out of
/// range, must not slip between two rules that together leave nothing out.
fn of_kind(kind: Kind, fact: Fact<'_>) -> Fact<'_> {
    let is_of_kind = |value: &Value<'_>| match (kind, value) {
        (Kind::Word(known), Value::Text(text)) => known.is_empty() || known.contains(&text.as_ref()),
        (Kind::Whole(from, to), Value::Number(number)) => {
            (Amount::from_i64(from)..=Amount::from_i64(to)).contains(number)
                && number.is_multiple_of(Amount::ONE) == Some(true)
        }
        _ => true,
    };
    let is_so = match &fact {
        Fact::Known(value) => is_of_kind(value),
        Fact::Many(values) => values.iter().all(is_of_kind),
        Fact::Absent | Fact::Unknown(_) => true,
    };
    if is_so { fact } else { unknown(NO_VALUE) }
}

fn unknown<'a>(why: &'static str) -> Fact<'a> {
    Fact::Unknown(why.into())
}

fn whole<'a>(number: i64) -> Fact<'a> {
    Fact::number(Amount::from_i64(number))
}

fn count<'a>(count: u64) -> Fact<'a> {
    whole(i64::try_from(count).unwrap_or(i64::MAX))
}

fn size<'a>(count: usize) -> Fact<'a> {
    whole(i64::try_from(count).unwrap_or(i64::MAX))
}

/// Whole minutes from `earlier` to `later`, rounded towards zero.
fn minutes(later: Time, earlier: Time) -> i64 {
    later.since_ms(earlier) / 60_000
}

fn text_or_absent(text: Option<&str>) -> Fact<'_> {
    text.map_or(Fact::Absent, Fact::text)
}

fn many<'a>(texts: impl Iterator<Item = &'a str>) -> Fact<'a> {
    Fact::Many(texts.map(|text| Value::Text(text.into())).collect())
}

fn weekday(now: Time) -> &'static str {
    let days = now.day_start().since_ms(now.week_start()) / DAY_MS;
    usize::try_from(days).ok().and_then(|day| WEEKDAYS.get(day)).copied().unwrap_or_default()
}
