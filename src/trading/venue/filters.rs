//! What the venue itself refuses: its filters are those of instruments.yaml as it stands when a row comes,
//! which a person may have changed since the gate checked the order.

use crate::rules::instruments::Instrument;
use crate::trading::order::Order;
use crate::wire::amount::Amount;

/// Why the venue does not take the protective stop of an entry of `whole` size: tick, lot, smallest size and
/// notional, all counted at what it protects once the entry has filled, so that a part of it is never refused
/// for being small.
pub(super) fn refuses_stop(stop: &Order, whole: Amount, instrument: &Instrument) -> Option<String> {
    let Some(trigger) = stop.trigger else { return Some("the stop has no price".to_owned()) };
    let notional = trigger.checked_mul(whole).and_then(|value| value.checked_mul(instrument.multiplier));
    let small = notional.is_none_or(|notional| notional < instrument.min_notional);
    off_tick(trigger, instrument)
        .or_else(|| off_lot(whole, instrument))
        .or_else(|| {
            (whole < instrument.min_size)
                .then(|| format!("its size {whole} is below the smallest size {}", instrument.min_size))
        })
        .or_else(|| {
            small.then(|| format!("it is worth less than the smallest notional {}", instrument.min_notional))
        })
}

/// Why the venue does not take an exit from a position of `held`: tick and lot. What closes all that is held
/// may be off the lot, and no exit is too small: nobody is kept in a position for its size.
pub(super) fn refuses_exit(exit: &Order, held: Amount, instrument: &Instrument) -> Option<String> {
    let own = exit.price.or(exit.trigger);
    own.and_then(|price| off_tick(price, instrument)).or_else(|| {
        let is_whole = exit.size >= held;
        off_lot(exit.size, instrument).filter(|_| !is_whole)
    })
}

/// Why the venue does not take a target: the tick.
pub(super) fn refuses_target(target: &Order, instrument: &Instrument) -> Option<String> {
    target.price.and_then(|price| off_tick(price, instrument))
}

fn off_tick(price: Amount, instrument: &Instrument) -> Option<String> {
    let tick = instrument.tick;
    let is_on = tick.is_zero() || price.is_multiple_of(tick) == Some(true);
    (!is_on).then(|| format!("its price {price} is not a multiple of the tick {tick}"))
}

fn off_lot(size: Amount, instrument: &Instrument) -> Option<String> {
    let lot = instrument.lot;
    let is_on = lot.is_zero() || size.is_multiple_of(lot) == Some(true);
    (!is_on).then(|| format!("its size {size} is not a multiple of the lot {lot}"))
}
