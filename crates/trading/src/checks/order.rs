//! Checks of the order itself: digits, tick, lot, notional, size, and what it may reduce.

use super::{
    CONTRACT, CheckRow, INSTRUMENTS, INSTRUMENTS_REDUCED, Kind, OrderFacts, SAFETY, SAFETY_REDUCED,
    STATE, Subject,
};
use crate::class::Class;
use crate::lack::{Lack, NO_INSTRUMENT, NO_MARKET, NOT_EXACT};
use crate::order::Position;
use crate::pricing::notional_price;
use crate::units::Units;
use spoolgate_wire::amount::Amount;

/// price x size x multiplier is exact, and so is the cash after it. The last known price is enough,
/// fresh or not, because only the digits matter.
pub(super) fn arithmetic_range(subject: &Subject, facts: &OrderFacts) -> CheckRow {
    let Some(instrument) = subject.instrument else {
        return NO_INSTRUMENT.row("bool", CONTRACT);
    };
    let known = subject
        .book
        .two_sided(instrument)
        .map(|market| notional_price(&facts.terms, &market));
    let Some(price) = known.or(facts.terms.own_price) else {
        return NO_MARKET.row("bool", CONTRACT);
    };
    let product = price
        .checked_mul(facts.size)
        .and_then(|value| value.checked_mul(*instrument.multiplier));
    let cash = subject.book.account.cash;
    let fault = match product {
        None => Some("price x size x multiplier has more than 28 digits; use fewer"),
        Some(product) => (cash.checked_sub(product).is_none()
            || cash.checked_add(product).is_none())
        .then_some("the cash after it would have more than 28 digits; use fewer"),
    };
    CheckRow::yes_no(fault.map(str::to_owned), CONTRACT)
}

/// Every price of the request is a multiple of the tick; 0 disables the check. An exit of an
/// instrument that is no longer configured passes, because there is no tick to compare with.
pub(super) fn price_tick(subject: &Subject) -> CheckRow {
    let Some(instrument) = subject.instrument else {
        return without_filters(subject.kind);
    };
    let tick = instrument.tick;
    let off = subject
        .prices
        .iter()
        .find(|(_, price)| !(tick.is_zero() || price.is_multiple_of(*tick) == Some(true)));
    let fault =
        off.map(|(field, price)| format!("`{field}` {price} is not a multiple of the tick {tick}"));
    CheckRow::yes_no(fault, INSTRUMENTS)
}

fn without_filters(kind: Kind) -> CheckRow {
    match kind {
        Kind::Entry | Kind::Cancel => NO_INSTRUMENT.row("bool", INSTRUMENTS),
        Kind::Exit | Kind::Flip | Kind::Tighten => {
            let remark = format!("{}: no tick or lot to compare with", NO_INSTRUMENT.reason);
            CheckRow::yes_no(None, INSTRUMENTS).remarked(remark)
        }
    }
}

/// Returns the position at a venue that the order is against.
fn reduced_at_venue<'a>(subject: &Subject<'a>, facts: &OrderFacts) -> Option<&'a Position> {
    let key = (facts.order.symbol.clone(), facts.order.strategy.clone());
    let held = subject.book.positions.get(&key)?;
    let is_against = held.held_at.is_some() && held.closing_side() == facts.order.side;
    is_against.then_some(held)
}

fn is_dust(held: &Position) -> String {
    let size = held.size.abs();
    format!("{size} is held, which is dust: less than the venue takes in one order")
}

/// The size is a multiple of the lot (0 disables) and at least `min_size`. An exit that closes all
/// that is left is exempt from both, unless it is dust at a venue; otherwise a remainder could never be closed.
pub(super) fn size_lot(subject: &Subject, facts: &OrderFacts) -> CheckRow {
    let Some(instrument) = subject.instrument else {
        return without_filters(subject.kind);
    };
    let (size, lot) = (facts.size, instrument.lot);
    let row = CheckRow::compared(size, *instrument.min_size, "size", INSTRUMENTS);
    if !size.is_positive() {
        return row.unless(false, || "a size must be above 0");
    }
    let at_venue = reduced_at_venue(subject, facts);
    if let Some(dust) = at_venue.filter(|held| held.is_dust() && facts.class == Class::Exit) {
        return row.unless(false, || is_dust(dust));
    }
    if facts.class == Class::Exit && Some(size) == facts.capacity {
        let is_less = at_venue.is_some() && Units::of(instrument).whole(size).is_zero();
        return row.unless(!is_less, || {
            format!("{size} is left, less than the lot {lot} of the venue")
        });
    }
    if !lot.is_zero() && size.is_multiple_of(*lot) != Some(true) {
        let row = CheckRow::compared(size, *lot, "size", INSTRUMENTS);
        return row.unless(false, || {
            format!("the size is not a multiple of the lot {lot}")
        });
    }
    row.unless(
        size >= *instrument.min_size,
        || "the size is below the smallest size",
    )
}

/// The notional is at least `min_notional`; 0 disables the check.
pub(super) fn min_notional(subject: &Subject, facts: &OrderFacts) -> CheckRow {
    let Some(instrument) = subject.instrument else {
        return NO_INSTRUMENT.row("usd", INSTRUMENTS);
    };
    let Some(notional) = facts.notional(instrument) else {
        return no_notional(facts).row("usd", INSTRUMENTS);
    };
    let limit = instrument.min_notional;
    CheckRow::compared(notional, *limit, "usd", INSTRUMENTS).unless(
        notional >= *limit,
        || "the order is worth less than the smallest notional",
    )
}

/// The notional is at most `max_order_value`.
pub(super) fn max_order_value(subject: &Subject, facts: &OrderFacts) -> CheckRow {
    let source = if subject.ctx.limit_factor.is_some() {
        SAFETY_REDUCED
    } else {
        SAFETY
    };
    let Some(instrument) = subject.instrument else {
        return NO_INSTRUMENT.row("usd", source);
    };
    let Some(notional) = facts.notional(instrument) else {
        return no_notional(facts).row("usd", source);
    };
    let Some(limit) = subject.reduced(*subject.rules.safety.max_order_value) else {
        return NOT_EXACT.row("usd", source);
    };
    CheckRow::compared(notional, limit, "usd", source).unless(
        notional <= limit,
        || "the order is worth more than one order may be",
    )
}

fn no_notional(facts: &OrderFacts) -> Lack {
    if facts.notional_price.is_none() {
        NO_MARKET
    } else {
        NOT_EXACT
    }
}

/// The size is at most the instrument's `max_size`.
pub(super) fn max_order_size(subject: &Subject, facts: &OrderFacts) -> CheckRow {
    let source = if subject.ctx.limit_factor.is_some() {
        INSTRUMENTS_REDUCED
    } else {
        INSTRUMENTS
    };
    let Some(instrument) = subject.instrument else {
        return NO_INSTRUMENT.row("size", source);
    };
    let Some(limit) = subject.reduced(*instrument.max_size) else {
        return NOT_EXACT.row("size", source);
    };
    CheckRow::compared(facts.size, limit, "size", source).unless(
        facts.size <= limit,
        || "the order is larger than one order may be",
    )
}

/// An order against the strategy's position is at most what is left to reduce. When it fills, it is
/// clamped to the live position again.
pub(super) fn reduce_only(subject: &Subject, facts: &OrderFacts) -> CheckRow {
    let row = CheckRow::compared(
        facts.size,
        facts.capacity.unwrap_or(Amount::ZERO),
        "size",
        STATE,
    );
    let dust = reduced_at_venue(subject, facts).filter(|held| held.is_dust());
    match (facts.class, dust) {
        (Class::Flip { .. }, Some(dust)) => row.unless(false, || is_dust(dust)),
        (Class::Flip { reduce, .. }, None) if reduce.is_zero() => row.unless(false, || {
            "working exits already reduce the whole position; cancel one of them first".to_owned()
        }),
        (Class::Flip { reduce, increase }, None) => row.unless(false, || {
            format!("split into an exit of {reduce} and an entry of {increase}")
        }),
        (Class::Entry | Class::Exit, _) => row,
    }
}
