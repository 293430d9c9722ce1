//! Checks whether the market is known, and whether the order's price is close to it.

use super::{CheckRow, INSTRUMENTS, OrderFacts, SAFETY, STATE, Subject};
use crate::lack::{NO_INSTRUMENT, NO_MARKET, NOT_EXACT};
use crate::valuation::{TwoSided, age_max_ms, is_fresh};
use crate::venue::too_far;
use spoolgate_rules::instruments::{Instrument, MarketSource, Venue};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::Symbol;
use spoolgate_wire::orders::{OrderType, Side};

/// |own price - reference| <= collar x reference; the reference is the ask for buys and the bid for
/// sells. `price_collar` applies on the side that pays more than the market, `price_collar_passive`
/// on the other. Market orders have no price of their own. An order that the venue would refuse
/// because its price is further than `percent_price` from the last price is refused here too.
pub(super) fn price_collar(subject: &Subject, facts: &OrderFacts) -> CheckRow {
    let Some(market) = facts.market else {
        return NO_MARKET.row("price", SAFETY);
    };
    let reference = match facts.order.side {
        Side::Buy => market.ask,
        Side::Sell => market.bid,
    };
    let own = match (facts.order.order_type, facts.terms.own_price) {
        (OrderType::Market, _) => reference,
        (_, Some(own)) => own,
        (_, None) => return CheckRow::unknown("price", SAFETY, "the order has no price"),
    };
    let is_aggressive = match facts.order.side {
        Side::Buy => own > reference,
        Side::Sell => own < reference,
    };
    let safety = &subject.rules.safety;
    let collar = if is_aggressive {
        safety.price_collar
    } else {
        safety.price_collar_passive
    };
    let distance = own.checked_sub(reference).map(Amount::abs);
    let (Some(distance), Some(limit)) = (distance, reference.checked_mul(*collar)) else {
        return NOT_EXACT.row("price", SAFETY);
    };
    let row = CheckRow::compared(distance, limit, "price", SAFETY);
    if distance > limit {
        return row.unless(false, || {
            format!("{own} is too far from the market at {reference}")
        });
    }
    let stated = facts.terms.own_price.zip(subject.instrument);
    match stated.and_then(|(own, instrument)| too_far(own, subject.book, instrument)) {
        Some(reason) => CheckRow::yes_no(
            Some(format!("the venue would refuse the order: {reason}")),
            INSTRUMENTS,
        ),
        None => row,
    }
}

/// |worst entry - planned entry| <= slippage_to_plan x planned entry. A price that is too far in
/// the order's favour fails as well: the plan is stale.
pub(super) fn slippage_to_plan(subject: &Subject, facts: &OrderFacts) -> CheckRow {
    let Some(worst) = facts.worst_entry else {
        return NO_MARKET.row("price", SAFETY);
    };
    let planned = facts.order.planned_entry;
    let distance = worst.checked_sub(planned).map(Amount::abs);
    let limit = planned.checked_mul(*subject.rules.safety.slippage_to_plan);
    let (Some(distance), Some(limit)) = (distance, limit) else {
        return NOT_EXACT.row("price", SAFETY);
    };
    CheckRow::compared(distance, limit, "price", SAFETY).unless(distance <= limit, || {
        format!("the worst entry of {worst} is too far from the planned {planned}; plan again")
    })
}

/// Says how old the newest price of a symbol is, and what to do about it.
pub(super) fn age(
    symbol: &Symbol,
    instrument: &Instrument,
    subject: &Subject,
    seen: &TwoSided,
) -> String {
    let age_s = subject.ctx.now.since_ms(seen.time) / 1000;
    let most_s = age_max_ms(instrument, &subject.rules.safety) / 1000;
    format!(
        "the newest price of `{symbol}` is {age_s} s old, and {most_s} s are allowed; import or feed \
            prices"
    )
}

/// Bid and ask are known, fresh (two bars, at least `quote_age_floor_s`), bid > 0, ask >= bid,
/// ask - bid <= max_spread x middle, and |middle - last| <= max_mid_deviation x last if a fresh
/// last trade is known. If orders fill from bars, a fresh last trade is required. No row is held.
pub(super) fn market_data(subject: &Subject, facts: &OrderFacts) -> CheckRow {
    let Some(instrument) = subject.instrument else {
        return NO_INSTRUMENT.row("ms", SAFETY);
    };
    let market = subject.book.markets.get(facts.symbol());
    if let Some(held) = market.and_then(|market| market.held.as_ref()) {
        let reason = format!("{held}; it is held until the next row agrees with it or not");
        return CheckRow::unknown("price", STATE, reason);
    }
    let Some(seen) = subject.book.two_sided(instrument) else {
        let reason = format!("no price of `{}` is known", facts.symbol());
        return CheckRow::unknown("ms", STATE, reason);
    };
    let age_ms = subject.ctx.now.since_ms(seen.time);
    let bound_ms = age_max_ms(instrument, &subject.rules.safety);
    let row = CheckRow::compared(
        Amount::from_i64(age_ms),
        Amount::from_i64(bound_ms),
        "ms",
        SAFETY,
    );
    if !is_fresh(
        seen.time,
        subject.ctx.now,
        instrument,
        &subject.rules.safety,
    ) {
        return row.unless(false, || age(facts.symbol(), instrument, subject, &seen));
    }
    if !seen.bid.is_positive() || seen.ask < seen.bid {
        return row.unless(false, || {
            format!(
                "bid {} and ask {} are not a valid market",
                seen.bid, seen.ask
            )
        });
    }
    if let Some(fault) = stale_trade(subject, instrument) {
        return fault;
    }
    match shape(subject, instrument, &seen) {
        None => NOT_EXACT.row("price", SAFETY),
        Some(Some(fault)) => fault,
        Some(None) => row,
    }
}

/// Detects quotes that continue while the trades have stopped. If orders fill from bars, the last
/// trade must be fresh too; otherwise trades may be rare, and only a fresh one is compared.
fn stale_trade(subject: &Subject, instrument: &Instrument) -> Option<CheckRow> {
    let sources = (instrument.quotes_from, instrument.fills_from);
    // At a real venue, market rows fill nothing.
    if sources != (MarketSource::Quotes, MarketSource::Bars) || instrument.venue == Venue::Outbox {
        return None;
    }
    let safety = &subject.rules.safety;
    let last = subject
        .book
        .markets
        .get(&instrument.symbol)
        .and_then(|market| market.last.as_ref());
    let Some(last) = last else {
        let reason = format!(
            "no trade of `{}` is known, and its orders fill from bars",
            instrument.symbol
        );
        return Some(CheckRow::unknown("ms", STATE, reason));
    };
    if is_fresh(last.time, subject.ctx.now, instrument, safety) {
        return None;
    }
    let age = Amount::from_i64(subject.ctx.now.since_ms(last.time));
    let bound = Amount::from_i64(age_max_ms(instrument, safety));
    let reason = || {
        format!(
            "the newest trade is from {}; only quotes are newer",
            last.time
        )
    };
    Some(CheckRow::compared(age, bound, "ms", SAFETY).unless(false, reason))
}

/// Checks the spread and the distance from the last trade, doubled so that the middle needs no
/// division.
fn shape(subject: &Subject, instrument: &Instrument, seen: &TwoSided) -> Option<Option<CheckRow>> {
    let safety = &subject.rules.safety;
    let double_middle = seen.bid.checked_add(seen.ask)?;
    let spread = seen.ask.checked_sub(seen.bid)?;
    let limit = double_middle.checked_mul(*safety.max_spread)?;
    if spread.checked_add(spread)? > limit {
        let row = CheckRow::compared(spread.checked_add(spread)?, limit, "price", SAFETY);
        return Some(Some(row.unless(false, || {
            "twice the spread exceeds max_spread x (bid + ask)".to_owned()
        })));
    }
    let last = subject
        .book
        .markets
        .get(&instrument.symbol)
        .and_then(|market| market.last.as_ref());
    let Some(last) = last.filter(|last| is_fresh(last.time, subject.ctx.now, instrument, safety))
    else {
        return Some(None);
    };
    let double_last = last.price.checked_add(last.price)?;
    let deviation = double_middle.checked_sub(double_last)?.abs();
    let limit = double_last.checked_mul(*safety.max_mid_deviation)?;
    if deviation <= limit {
        return Some(None);
    }
    let row = CheckRow::compared(deviation, limit, "price", SAFETY);
    let reason = || {
        format!(
            "bid and ask lie too far from the last trade at {} (distances doubled)",
            last.price
        )
    };
    Some(Some(row.unless(false, reason)))
}
