//! Facts of a request, as rules read them: one arm a field. What nobody asks for is not computed, what is known
//! costs no copy.

use std::cell::OnceCell;

use super::handle::Turn;
use super::prepare::{Authentic, Payload};
use crate::rules::rule::field::{Field, Id, WEEKDAYS};
use crate::rules::rule::{Fact, Reading};
use crate::trading::facts::{View, minutes_since_open};
use crate::trading::pricing::{Terms, notional_price};
use crate::wire::amount::Amount;
use crate::wire::orders::SubmitOrder;
use crate::wire::time::{DAY_MS, Time};

/// Facts of one request, each found when it is asked for.
pub struct Source<'a> {
    turn: Turn<'a>,
    authentic: &'a Authentic,
    /// The order, with the size that it is looked at with.
    order: Option<(&'a SubmitOrder, Amount)>,
    view: OnceCell<Option<View<'a>>>,
    equity: OnceCell<Option<Amount>>,
}

/// The facts that these readings name, in their order.
pub fn facts<'a>(turn: &Turn<'a>, authentic: &'a Authentic, readings: &[Reading]) -> Vec<Fact<'a>> {
    Source::new(turn, authentic).facts(readings)
}

/// Whether the fact depends on the size of an order.
pub fn is_by_size(reading: &Reading) -> bool {
    match reading {
        Reading::Field(field) => matches!(field.id, Id::OrderSize | Id::OrderNotional),
        Reading::Sum { of, .. } | Reading::Distinct { of, .. } => {
            matches!(of.id, Id::OrderSize | Id::OrderNotional)
        }
        Reading::FirstSeen(_) | Reading::Count { .. } => false,
    }
}

const NO_MARKET: &str = "no fresh market data";
const NO_INSTRUMENT: &str = "the instrument is not configured";
const NOT_EXACT: &str = "it cannot be computed exactly";
const NO_EQUITY: &str = "equity is unknown: a price of an open position is missing or stale";
const NO_SUCH: &str = "the request has no such field";

impl<'a> Source<'a> {
    /// Of a request.
    pub fn new(turn: &Turn<'a>, authentic: &'a Authentic) -> Source<'a> {
        let order = match authentic.body.as_ref().map(|body| &body.payload) {
            Ok(Payload::Submit(order)) => Some((order, order.size)),
            _ => None,
        };
        let (view, equity) = (OnceCell::new(), OnceCell::new());
        Source { turn: *turn, authentic, order, view, equity }
    }

    /// Makes it the same request with another size of its order: only facts that [`is_by_size`] names change.
    pub fn resize(&mut self, size: Amount) {
        if let Some((_, sized)) = &mut self.order {
            *sized = size;
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
            Reading::FirstSeen(_)
            | Reading::Count { .. }
            | Reading::Sum { .. }
            | Reading::Distinct { .. } => Fact::Unknown("history is not looked up".into()),
        }
    }

    fn field(&self, field: &Field) -> Fact<'a> {
        match field.id {
            Id::OrderSide => self.of_order(|order, _| Fact::text(order.side.as_str())),
            Id::OrderSymbol => self.of_order(|order, _| Fact::text(order.symbol.as_str())),
            Id::OrderOrderType => self.of_order(|order, _| Fact::text(order.order_type.as_str())),
            Id::OrderSize => self.of_order(|_, size| Fact::number(size)),
            Id::OrderNotional => self.of_order(|order, size| self.notional(order, size)),
            Id::OrderPrice => self.of_order(|order, _| Fact::number_or_absent(order.price)),
            Id::OrderPlannedEntry => self.of_order(|order, _| Fact::number(order.planned_entry)),
            Id::OrderPlannedStop => self.of_order(|order, _| Fact::number(order.planned_stop)),
            Id::OrderTargetPrice => self.of_order(|order, _| Fact::number_or_absent(order.target_price)),
            Id::MarketPrice => self.of_market(|view| view.price()),
            Id::MarketSpreadPct => self.of_market(|view| view.spread_pct()),
            Id::MarketVolumeRatio => self.of_market(|view| view.volume_ratio()),
            Id::MarketVolatility => self.of_market(|view| view.volatility()),
            Id::MarketFundingRate => self.of_market(|view| view.funding_rate()),
            Id::MarketFundingRateZscore => self.of_market(|view| view.funding_rate_zscore()),
            Id::MarketRegime => match self.view().and_then(|view| view.regime()) {
                Some(given) => Fact::text(given.regime.as_str()),
                None => Fact::Unknown("no feed has said".into()),
            },
            Id::MarketMinutesSinceOpen => Fact::number(Amount::from_i64(minutes_since_open(self.turn.now))),
            Id::StrategyName => self.of_order(|order, _| Fact::text(order.strategy.as_str())),
            Id::PortfolioEquity => Fact::number_or_unknown(self.equity(), NO_EQUITY),
            Id::PortfolioOpenPositions => count(self.turn.state.book.positions.len()),
            Id::TimeOfDay => Fact::number(Amount::from_i64(minutes_since_open(self.turn.now))),
            Id::TimeWeekday => Fact::text(weekday(self.turn.now)),
            Id::RequestSource => Fact::text(self.authentic.envelope.source.as_str()),
        }
    }

    fn of_order(&self, fact: impl FnOnce(&'a SubmitOrder, Amount) -> Fact<'a>) -> Fact<'a> {
        self.order.map_or(Fact::Unknown(NO_SUCH.into()), |(order, size)| fact(order, size))
    }

    fn of_market(&self, number: impl FnOnce(&View<'a>) -> Option<Amount>) -> Fact<'a> {
        Fact::number_or_unknown(self.view().and_then(number), NO_MARKET)
    }

    /// The market of the order.
    fn view(&self) -> Option<&View<'a>> {
        let Turn { state, rules, now, .. } = self.turn;
        let of = || View::of(&state.book, rules, &self.order?.0.symbol, now);
        self.view.get_or_init(of).as_ref()
    }

    fn equity(&self) -> Option<Amount> {
        *self.equity.get_or_init(|| self.turn.state.book.equity(self.turn.rules, self.turn.now))
    }

    fn notional(&self, order: &SubmitOrder, size: Amount) -> Fact<'a> {
        let Some(instrument) = self.turn.rules.instruments.get(&order.symbol) else {
            return Fact::Unknown(NO_INSTRUMENT.into());
        };
        let Some(seen) = self.view().and_then(|view| view.seen) else {
            return Fact::Unknown(NO_MARKET.into());
        };
        let price = notional_price(&Terms::asked(order), &seen);
        let notional = price.checked_mul(size).and_then(|each| each.checked_mul(instrument.multiplier));
        Fact::number_or_unknown(notional, NOT_EXACT)
    }
}

fn count<'a>(count: usize) -> Fact<'a> {
    Fact::number(Amount::from_i64(i64::try_from(count).unwrap_or(i64::MAX)))
}

fn weekday(now: Time) -> &'static str {
    let days = now.day_start().since_ms(now.week_start()) / DAY_MS;
    usize::try_from(days).ok().and_then(|day| WEEKDAYS.get(day)).copied().unwrap_or_default()
}
