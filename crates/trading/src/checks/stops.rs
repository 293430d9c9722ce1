//! Checks of the protective stop that an entry must have, and of the target that it may have.

use super::{CONTRACT, CheckRow, INSTRUMENTS, Kind, OrderFacts, Subject, strategy_file};
use crate::lack::{NO_INSTRUMENT, NO_MARKET, NOT_EXACT};
use crate::venue::too_far;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::orders::{OrderType, Side};

/// The stop is present, positive, and on the losing side of both the worst entry and the market, so
/// that it neither locks in a profit nor triggers at once. Limit and market entries repeat it as
/// `stop_price`.
pub(super) fn stop_required(_: &Subject, facts: &OrderFacts) -> CheckRow {
    let order = facts.order;
    let stop = order.planned_stop;
    let (Some(worst), Some(market)) = (facts.worst_entry, facts.market) else {
        return NO_MARKET.row("price", CONTRACT);
    };
    let row = CheckRow::compared(stop, worst, "price", CONTRACT);
    if !stop.is_positive() {
        return row.unless(false, || "`planned_stop` must be above 0".to_owned());
    }
    if order.order_type != OrderType::Stop {
        match order.stop_price {
            None => {
                return row.unless(false, || {
                    "`stop_price` is missing; repeat `planned_stop`".to_owned()
                });
            }
            Some(price) if price != stop => {
                return row.unless(false, || {
                    format!("`stop_price` {price} differs from `planned_stop` {stop}")
                });
            }
            Some(_) => {}
        }
    }
    let (entry_ok, market_ok, side, near) = match order.side {
        Side::Buy => (stop < worst, stop < market.bid, "below", market.bid),
        Side::Sell => (stop > worst, stop > market.ask, "above", market.ask),
    };
    if !entry_ok {
        return row.unless(false, || {
            format!(
                "the stop of a {} must lie {side} its entry",
                order.side.as_str()
            )
        });
    }
    let row = if market_ok {
        row
    } else {
        CheckRow::compared(stop, near, "price", CONTRACT)
    };
    row.unless(market_ok, || {
        format!("the stop must lie {side} the market, or it triggers at once")
    })
}

/// The stop order itself meets the filters: tick, smallest size, smallest notional, at least
/// `min_stop_ticks` between worst entry and stop, and within `percent_price` of the last price.
pub(super) fn stop_hostable(subject: &Subject, facts: &OrderFacts) -> CheckRow {
    let Some(instrument) = subject.instrument else {
        return NO_INSTRUMENT.row("price", INSTRUMENTS);
    };
    let stop = facts.order.planned_stop;
    let Some(worst) = facts.worst_entry else {
        return NO_MARKET.row("price", INSTRUMENTS);
    };
    let ticks = Amount::from_i64(i64::from(instrument.min_stop_ticks));
    let notional = stop
        .checked_mul(facts.size)
        .and_then(|value| value.checked_mul(*instrument.multiplier));
    let distance = worst.checked_sub(stop).map(Amount::abs);
    let (Some(notional), Some(distance), Some(least)) =
        (notional, distance, ticks.checked_mul(*instrument.tick))
    else {
        return NOT_EXACT.row("price", INSTRUMENTS);
    };
    let tick = instrument.tick;
    let fault = if !tick.is_zero() && stop.is_multiple_of(*tick) != Some(true) {
        Some(format!("the stop is not a multiple of the tick {tick}"))
    } else if facts.size < *instrument.min_size {
        Some("the stop would be below the smallest size".to_owned())
    } else if notional < *instrument.min_notional {
        Some(format!(
            "the stop would be worth {notional}, less than {}",
            instrument.min_notional
        ))
    } else if distance < least {
        Some("the stop is closer to the worst entry than the instrument allows".to_owned())
    } else {
        too_far(stop, subject.book, instrument)
            .map(|reason| format!("the venue would refuse the stop: {reason}"))
    };
    let row = CheckRow::compared(distance, least, "price", INSTRUMENTS);
    row.unless(fault.is_none(), || fault.unwrap_or_default())
}

/// min x worst entry <= |worst entry - stop| <= max x worst entry, and never 0: a stop at the entry
/// would make the risk 0 in every other check.
pub(super) fn stop_distance(subject: &Subject, facts: &OrderFacts) -> CheckRow {
    let name = &facts.order.strategy;
    let source = strategy_file(name);
    let Some(strategy) = subject.rules.strategies.get(name) else {
        return CheckRow::unknown(
            "price",
            source,
            format!(
                "strategy `{name}` has no file in \
            rules/strategies"
            ),
        );
    };
    let Some(worst) = facts.worst_entry else {
        return NO_MARKET.row("price", source);
    };
    let bounds = &strategy.stop_distance;
    let distance = worst.checked_sub(facts.order.planned_stop).map(Amount::abs);
    let (Some(distance), Some(least), Some(most)) = (
        distance,
        worst.checked_mul(*bounds.min),
        worst.checked_mul(*bounds.max),
    ) else {
        return NOT_EXACT.row("price", source);
    };
    if distance < least || distance.is_zero() {
        return CheckRow::compared(distance, least, "price", source).unless(false, || {
            "the stop is closer to the worst entry than the strategy allows".to_owned()
        });
    }
    CheckRow::compared(distance, most, "price", source).unless(distance <= most, || {
        "the stop is further from the worst entry than the strategy allows".to_owned()
    })
}

/// The target of an entry is on the winning side of both the worst entry and the market, on the
/// tick, and within `percent_price` of the last price. An exit has no target.
pub(super) fn target_valid(subject: &Subject, facts: &OrderFacts) -> Option<CheckRow> {
    let target = facts.order.target_price?;
    if subject.kind != Kind::Entry {
        return Some(CheckRow::yes_no(
            Some("an exit has no target: `target_price` is ignored".to_owned()),
            CONTRACT,
        ));
    }
    let Some(instrument) = subject.instrument else {
        return Some(NO_INSTRUMENT.row("price", INSTRUMENTS));
    };
    let tick = instrument.tick;
    if !tick.is_zero() && target.is_multiple_of(*tick) != Some(true) {
        let row = CheckRow::compared(target, *tick, "price", INSTRUMENTS);
        return Some(row.unless(false, || {
            format!("`target_price` is not a multiple of the tick {tick}")
        }));
    }
    if let Some(reason) = too_far(target, subject.book, instrument) {
        return Some(CheckRow::yes_no(
            Some(format!("the venue would refuse the target: {reason}")),
            INSTRUMENTS,
        ));
    }
    let (Some(worst), Some(market)) = (facts.worst_entry, facts.market) else {
        return Some(NO_MARKET.row("price", CONTRACT));
    };
    let (limit, is_won, side) = match facts.order.side {
        Side::Buy => (
            worst.max(market.ask),
            target > worst.max(market.ask),
            "above",
        ),
        Side::Sell => (
            worst.min(market.bid),
            target < worst.min(market.bid),
            "below",
        ),
    };
    let row = CheckRow::compared(target, limit, "price", CONTRACT);
    Some(row.unless(is_won, || {
        format!("the target must lie {side} the worst entry and the market")
    }))
}
