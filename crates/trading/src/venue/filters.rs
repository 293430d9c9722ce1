//! The venue's own filters. They use instruments.yaml as it is when a row comes, which a person may
//! have changed since the gate checked the order.

use super::VenueError;
use super::paper::Run;
use crate::book::Book;
use crate::change::Change;
use crate::order::{Order, OrderRole};
use spoolgate_rules::instruments::{Instrument, MarketSource};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{Leg, OrderId};
use spoolgate_wire::time::Time;

impl Run<'_> {
    /// Refuses entries and exits that reach the venue with this row at a price too far from the
    /// last price known before it. Only new orders are tested: a market that moves away later does
    /// not end an order that rests.
    pub(super) fn refuse_far(&mut self, start_ms: i64) -> Result<(), VenueError> {
        if self.instrument.percent_price.is_none() {
            return Ok(());
        }
        let Ok(start) = Time::from_ms(start_ms) else {
            return Ok(());
        };
        self.reached = Some(start);
        let before = self
            .book
            .markets
            .get(&self.instrument.symbol)
            .and_then(|market| market.reached);
        let is_new = |order: &&Order| {
            let of_person = matches!(order.role, OrderRole::Entry | OrderRole::Exit);
            let came = order.accepted_at <= start
                && before.is_none_or(|before| order.accepted_at > before);
            let begun = !order.filled.is_zero() || order.triggered;
            order.symbol == self.instrument.symbol
                && order.at_venue.is_none()
                && of_person
                && order.order_id.leg == Leg::Order
                && came
                && !begun
        };
        let far = self
            .book
            .orders
            .values()
            .filter(is_new)
            .filter_map(|order| {
                let reason = too_far(order.price.or(order.trigger)?, &self.book, self.instrument)?;
                Some((order.order_id, reason))
            });
        for (order_id, reason) in far.collect::<Vec<(OrderId, String)>>() {
            let at = self.now;
            self.emit(Change::OrderRefused {
                order_id,
                reason,
                at,
            })?;
            self.retire(order_id.stop())?;
            self.retire(order_id.target())?;
        }
        Ok(())
    }
}

/// Returns why the venue refuses a limit or trigger price: |price - last| > percent_price x last.
/// The last price comes from the rows that fill orders: the last close, or the middle of the last
/// quote. Before there is a last price, every price is accepted.
pub(crate) fn too_far(price: Amount, book: &Book, instrument: &Instrument) -> Option<String> {
    let most = instrument.percent_price?;
    let market = book.markets.get(&instrument.symbol)?;
    // Doubled, so that a middle price needs no division.
    let (one, other) = match instrument.fills_from {
        MarketSource::Bars => market.last.as_ref().map(|last| (last.price, last.price))?,
        MarketSource::Quotes => market.quote.as_ref().map(|quote| (quote.bid, quote.ask))?,
    };
    let compared = one.checked_add(other).and_then(|last| {
        let distance = price.checked_add(price)?.checked_sub(last)?.abs();
        Some((last, distance <= last.checked_mul(*most)?))
    });
    match compared {
        Some((_, true)) => None,
        Some((last, false)) => Some(format!(
            "its price {price} is further from the last price than {most} of that price (twice the \
                last price is {last})"
        )),
        None => Some(format!(
            "its price {price} cannot be compared exactly with the last price"
        )),
    }
}

/// Returns why the venue refuses the protective stop of an entry of size `whole`: tick, lot,
/// smallest size and notional, and the distance from the last price. Sizes are tested with `whole`,
/// which the stop protects once the entry has filled, so that the stop of a partial fill is never
/// refused for being small.
pub(super) fn refuses_stop(
    stop: &Order,
    whole: Amount,
    book: &Book,
    instrument: &Instrument,
) -> Option<String> {
    let Some(trigger) = stop.trigger else {
        return Some("the stop has no price".to_owned());
    };
    let notional = trigger
        .checked_mul(whole)
        .and_then(|value| value.checked_mul(*instrument.multiplier));
    let small = notional.is_none_or(|notional| notional < *instrument.min_notional);
    off_tick(trigger, instrument)
        .or_else(|| off_lot(whole, instrument))
        .or_else(|| {
            (whole < *instrument.min_size).then(|| {
                format!(
                    "its size {whole} is below the smallest size {}",
                    instrument.min_size
                )
            })
        })
        .or_else(|| {
            small.then(|| {
                format!(
                    "it is worth less than the smallest notional {}",
                    instrument.min_notional
                )
            })
        })
        .or_else(|| too_far(trigger, book, instrument))
}

/// Returns why the venue refuses an exit from a position of size `held`: tick and lot. An exit that
/// closes everything held may be off the lot, and no exit is too small, so that no size traps a
/// position.
pub(super) fn refuses_exit(exit: &Order, held: Amount, instrument: &Instrument) -> Option<String> {
    let own = exit.price.or(exit.trigger);
    own.and_then(|price| off_tick(price, instrument))
        .or_else(|| {
            let is_whole = exit.size >= held;
            off_lot(exit.size, instrument).filter(|_| !is_whole)
        })
}

/// Returns why the venue refuses a target: tick, and distance from the last price.
pub(super) fn refuses_target(
    target: &Order,
    book: &Book,
    instrument: &Instrument,
) -> Option<String> {
    let price = target.price?;
    off_tick(price, instrument).or_else(|| too_far(price, book, instrument))
}

fn off_tick(price: Amount, instrument: &Instrument) -> Option<String> {
    let tick = instrument.tick;
    let is_on = tick.is_zero() || price.is_multiple_of(*tick) == Some(true);
    (!is_on).then(|| format!("its price {price} is not a multiple of the tick {tick}"))
}

fn off_lot(size: Amount, instrument: &Instrument) -> Option<String> {
    let lot = instrument.lot;
    let is_on = lot.is_zero() || size.is_multiple_of(*lot) == Some(true);
    (!is_on).then(|| format!("its size {size} is not a multiple of the lot {lot}"))
}
