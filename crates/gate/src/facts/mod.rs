//! Facts of a request, as rules read them: one match arm per field. Only the fields that rules read
//! are computed, and known values are not copied.

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
use super::prepare::Authentic;
use spoolgate_outgoing::allowlist;
use spoolgate_rules::rule::field::{Id, Kind, Missing, WEEKDAYS};
use spoolgate_rules::rule::{Fact, Field, Reading, Value};
use spoolgate_trading::facts::minutes_since_open;
use spoolgate_wire::admission::AdmissionAttempt;
use spoolgate_wire::admission::{AdmissionBody, AdmissionEnvelope, Causality};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::control::ControlAttempt;
use spoolgate_wire::council::{Artifacts, CouncilRequest};
use spoolgate_wire::orders::SubmitOrder;
use spoolgate_wire::time::{DAY_MS, Time};

/// The facts of one request, each computed when it is read.
pub struct Source<'a> {
    turn: Turn<'a>,
    authentic: &'a Authentic,
    order: Option<OrderView<'a>>,
    payload: OnceCell<PayloadView<'a>>,
}

/// The facts of these readings, in the same order.
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
const NO_VALUE: &str = "the field cannot have this value";
const NOWHERE: &str = "rules/services.yaml allows no destination for it";
const NO_SUCH: &str = "the request has no such field";

impl<'a> Source<'a> {
    /// The facts of this request.
    pub fn new(turn: &Turn<'a>, authentic: &'a Authentic) -> Source<'a> {
        let order = authentic
            .payload()
            .map(|order: &SubmitOrder| OrderView::of(turn, order));
        Source {
            turn: *turn,
            authentic,
            order,
            payload: OnceCell::new(),
        }
    }

    /// Changes the size of the order: only facts for which [`is_by_size`] holds change.
    pub fn resize(&mut self, size: Amount) {
        if let Some(order) = &mut self.order {
            order.size = size;
        }
    }

    /// The facts of these readings, in the same order.
    pub fn facts(&self, readings: &[Reading]) -> Vec<Fact<'a>> {
        readings.iter().map(|reading| self.fact(reading)).collect()
    }

    /// The fact of a reading.
    pub fn fact(&self, reading: &Reading) -> Fact<'a> {
        match reading {
            Reading::Field(field) => self.field(field),
            past => {
                let Source {
                    turn, authentic, ..
                } = self;
                let own = |field| self.field(field);
                let fact = history::fact(
                    turn.lookups.history.as_ref(),
                    &authentic.envelope.action,
                    past,
                    own,
                    turn.now,
                );
                of_kind(past.kind(), fact)
            }
        }
    }

    fn field(&self, field: &Field) -> Fact<'a> {
        let Source {
            turn, authentic, ..
        } = self;
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
            Id::RequestAgeMs => whole(
                turn.now
                    .since_ms(turn.signed_at(authentic.envelope.timestamp)),
            ),
            id => match self.of_action(id) {
                // Leaving out a required member must not make a condition on it false.
                Fact::Absent if field.missing != Missing::Absent => unknown(UNREADABLE),
                fact => of_kind(field.kind, fact),
            },
        }
    }

    fn of_action(&self, id: Id) -> Fact<'a> {
        if let Some(order) = &self.order {
            return order.fact(id);
        }
        let authentic = self.authentic;
        if let Some(request) = authentic.payload::<CouncilRequest>() {
            return self.of_case(id, request);
        }
        if let Some(attempt) = authentic.payload::<ControlAttempt>() {
            return match &attempt.decision {
                Ok(decision) => self.of_control(id, decision),
                Err(_) => unknown(UNREADABLE),
            };
        }
        if let Some(attempt) = authentic.payload::<AdmissionAttempt>() {
            return match &attempt.body {
                Ok(body) => of_task(id, body),
                Err(_) => unknown(UNREADABLE),
            };
        }
        if let Some(call) = authentic.payload().filter(|_| id == Id::PayloadHost) {
            let action = authentic.envelope.action.as_str();
            let service = allowlist::destination(&self.turn.rules.services, action, call);
            return service.map_or(unknown(NOWHERE), |service| {
                Fact::text(service.host.as_str())
            });
        }
        let payload = self
            .payload
            .get_or_init(|| PayloadView::of(&authentic.envelope));
        payload.fact(id, self.turn.now)
    }

    fn of_case(&self, id: Id, request: &'a CouncilRequest) -> Fact<'a> {
        match id {
            Id::CouncilChangeType => Fact::text(request.change_type.as_str()),
            Id::CouncilProposer => Fact::text(request.proposer.as_str()),
            Id::CouncilSummary => Fact::text(request.context.summary.as_str()),
            Id::CouncilFilesChanged => {
                many(request.context.files_changed.iter().map(String::as_str))
            }
            Id::CouncilMetrics => many(request.context.key_metrics.keys().map(String::as_str)),
            Id::CouncilArtifacts => many(
                Artifacts::NAMES
                    .into_iter()
                    .filter(|name| request.artifacts.get(name).is_some()),
            ),
            Id::CouncilDiff => text_or_absent(request.artifacts.diff_content.as_deref()),
            Id::CouncilHasReturns => Fact::flag(request.returns.is_some()),
            Id::CouncilOpenCases => count(self.turn.state.council.open),
            _ => unknown(NO_SUCH),
        }
    }
}

fn of_task<'a>(id: Id, body: &'a AdmissionBody) -> Fact<'a> {
    let AdmissionEnvelope {
        domain,
        payload_kind,
        payload,
        target,
        artifact_size_bytes,
        causality,
    } = &body.envelope;
    let claimed = |number: fn(&Causality) -> Option<i64>| {
        causality
            .as_ref()
            .and_then(number)
            .map_or(Fact::Absent, whole)
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
        Id::AdmissionCapability => text_or_absent(
            causality
                .as_ref()
                .map(|causality| causality.capability_id.as_str()),
        ),
        Id::AdmissionDepthClaimed => claimed(|causality| causality.spawn_depth),
        Id::AdmissionBudgetClaimed => claimed(|causality| causality.recursion_budget_remaining),
        _ => unknown(NO_SUCH),
    }
}

/// Returns the fact if all of its values are of the field's kind. Proofs assume that: a value
/// outside a closed list or range must not slip between two rules that together cover every case.
fn of_kind(kind: Kind, fact: Fact<'_>) -> Fact<'_> {
    let is_of_kind = |value: &Value<'_>| match (kind, value) {
        (Kind::Word(known), Value::Text(text)) => known.contains(&text.as_ref()),
        (Kind::Number(..), Value::Number(number)) => kind.ends().holds(*number),
        (Kind::Whole(..), Value::Number(number)) => {
            kind.ends().holds(*number) && number.is_multiple_of(Amount::ONE) == Some(true)
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
    usize::try_from(days)
        .ok()
        .and_then(|day| WEEKDAYS.get(day))
        .copied()
        .unwrap_or_default()
}
