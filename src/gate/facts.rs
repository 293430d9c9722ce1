//! Facts of a request, as rules read them.

use std::borrow::Cow;

use super::handle::Turn;
use super::prepare::{Authentic, Payload};
use crate::rules::rule::field::{Id, Reading, WEEKDAYS};
use crate::rules::rule::{Fact, field};
use crate::wire::amount::Amount;

/// The facts that `readings` name, in their order.
pub fn facts<'a>(turn: &Turn<'a>, authentic: &'a Authentic, readings: &[Reading]) -> Vec<Fact<'a>> {
    let payload = authentic.body.as_ref().ok().map(|body| &body.payload);
    readings.iter().map(|reading| fact(turn, authentic, payload, reading)).collect()
}

fn fact<'a>(
    turn: &Turn<'a>,
    authentic: &'a Authentic,
    payload: Option<&'a Payload>,
    reading: &Reading,
) -> Fact<'a> {
    let unknown = || Fact::Unknown(Cow::Borrowed("not computed"));
    let Reading::Field(field::Field { id, .. }) = reading else { return unknown() };
    let minutes = turn.now.since_ms(turn.now.day_start()) / 60_000;
    match (id, payload) {
        (Id::OrderSide, Some(Payload::Submit(order))) => Fact::text(order.side.as_str()),
        (Id::OrderSymbol, Some(Payload::Submit(order))) => Fact::text(order.symbol.as_str()),
        (Id::OrderSize, Some(Payload::Submit(order))) => Fact::number(order.size),
        (Id::OrderPrice, Some(Payload::Submit(order))) => Fact::number_or_absent(order.price),
        (Id::StrategyName, Some(Payload::Submit(order))) => Fact::text(order.strategy.as_str()),
        (Id::TimeOfDay, _) => Fact::number(Amount::from_i64(minutes)),
        (Id::TimeWeekday, _) => {
            let day = usize::try_from((turn.now.ms().div_euclid(86_400_000) + 3).rem_euclid(7)).unwrap_or(0);
            WEEKDAYS.get(day).map_or_else(unknown, |day| Fact::text(*day))
        }
        (Id::RequestSource, _) => Fact::text(authentic.envelope.source.as_str()),
        _ => unknown(),
    }
}
