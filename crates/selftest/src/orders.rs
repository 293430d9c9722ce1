//! Scenarios that change the order: prices, stops, targets, thesis and resting orders.

use super::Plan;
use super::bench::{Ask, Bench, Scratch, amount};
use spoolgate_rules::bounds::AnyAmount;
use spoolgate_trading::book::Held;
use spoolgate_trading::market_row::Row;
use spoolgate_trading::order::{Order, OrderRole, Position};
use spoolgate_trading::submit::at_venue_of;
use spoolgate_trading::valuation::age_max_ms;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::OrderId;
use spoolgate_wire::orders::{CancelOrder, OrderType, Side, SubmitOrder, TightenStop, TimeInForce};

fn one(bench: &Bench<'_>, what: &'static str, trips: Scratch) -> Option<Plan> {
    Some(Plan::Try(Box::new(bench.base.clone()), vec![(what, trips)]))
}

/// An open order of the case's strategy.
pub(super) fn resting(bench: &Bench<'_>, order_id: OrderId, role: OrderRole, side: Side) -> Order {
    Order {
        order_id,
        source: bench.case.source.clone(),
        strategy: bench.case.strategy.clone(),
        symbol: bench.case.symbol.clone(),
        side,
        role,
        order_type: OrderType::Market,
        size: bench.order.size,
        filled: Amount::ZERO,
        price: None,
        trigger: None,
        triggered: false,
        thesis_slug: None,
        accepted_at: bench.base.now,
        time_in_force: TimeInForce::Gtc,
        at_venue: at_venue_of(bench.instrument(), bench.order.planned_stop),
        key_id: None,
    }
}

/// The base after the order has filled, with its stop resting.
pub(super) fn held(bench: &Bench<'_>) -> Option<Scratch> {
    held_in(bench, &bench.base)
}

/// This state with the position of the base's order, and a request signed now to close all of it.
pub(super) fn exit_within(bench: &Bench<'_>, world: &Scratch) -> Option<Scratch> {
    let mut scratch = held_in(bench, world)?;
    scratch.ask = Ask::Submit(exit(bench, bench.order.size));
    scratch.signed_at = scratch.now;
    Some(scratch)
}

/// An exit of this size at the market.
pub(super) fn exit(bench: &Bench<'_>, size: Amount) -> SubmitOrder {
    let mut order = bench.order.clone();
    (order.side, order.order_type) = (order.side.opposite(), OrderType::Market);
    (order.size, order.price, order.stop_price) = (size, None, None);
    order
}

fn held_in(bench: &Bench<'_>, world: &Scratch) -> Option<Scratch> {
    let (order, case) = (&bench.order, &bench.case);
    let size = if order.side == Side::Buy {
        order.size
    } else {
        -order.size
    };
    let cost = size
        .checked_mul(bench.price)?
        .checked_mul(*bench.instrument()?.multiplier)?;
    let entry_id = OrderId::of_line(1);
    let mut stop = resting(
        bench,
        entry_id.stop(),
        OrderRole::Protective,
        order.side.opposite(),
    );
    (stop.order_type, stop.trigger) = (OrderType::Stop, Some(order.planned_stop));
    let position = Position {
        strategy: case.strategy.clone(),
        symbol: case.symbol.clone(),
        size,
        cost,
        result: Amount::ZERO,
        increased_at: bench.base.now.plus_ms(-1),
        theses: std::iter::once(order.thesis_slug.clone()).collect(),
        held_at: None,
        dropped: None,
        unfilled_at: None,
    };
    let mut scratch = world.clone();
    let book = &mut scratch.state.book;
    book.account.cash = book.account.cash.checked_sub(cost)?;
    book.orders.insert(stop.order_id, stop);
    book.positions
        .insert((case.symbol.clone(), case.strategy.clone()), position);
    Some(scratch)
}

pub(super) fn instrument_allowed(bench: &Bench<'_>) -> Option<Plan> {
    let strategy = &bench.case.strategy;
    let unlisted = bench.with(|scratch| {
        if let Some(strategy) = scratch.rules.strategies.get_mut(strategy) {
            strategy.instruments.clear();
        }
    });
    let other_way = bench.with(|scratch| {
        if let Some(strategy) = scratch.rules.strategies.get_mut(strategy) {
            strategy.directions.clear();
        }
    });
    let symbol = bench.case.symbol.clone();
    let restricted = bench.with(|scratch| scratch.rules.safety.restricted_instruments.push(symbol));
    let trips = vec![
        ("an instrument that is not listed", unlisted),
        ("a direction that is not", other_way),
        ("an instrument that is restricted", restricted),
    ];
    Some(Plan::Try(Box::new(bench.base.clone()), trips))
}

pub(super) fn thesis_valid(bench: &Bench<'_>) -> Option<Plan> {
    let slug = &bench.order.thesis_slug;
    let gone = bench.with(|scratch| drop(scratch.rules.theses.remove(slug)));
    // The base's thesis expires a millisecond later.
    let expired = bench.with(|scratch| {
        if let Some(thesis) = scratch.rules.theses.get_mut(slug) {
            thesis.expires = scratch.now;
        }
    });
    let last = Some(AnyAmount::try_from(bench.price).ok()?);
    let refuted = bench.with(|scratch| {
        if let Some(thesis) = scratch.rules.theses.get_mut(slug) {
            (thesis.invalid_below, thesis.invalid_above) = (last, last);
        }
    });
    let trips = vec![
        ("a thesis that has just expired", expired),
        ("a thesis at whose level the market is", refuted),
        ("no thesis", gone),
    ];
    Some(Plan::Try(Box::new(bench.base.clone()), trips))
}

pub(super) fn arithmetic_range(bench: &Bench<'_>) -> Option<Plan> {
    let long = amount("123456789012.1234567891")?;
    let trips = bench.with_order(|order| (order.size, order.price) = (long, Some(long)));
    one(bench, "price and size of 22 digits each", trips)
}

pub(super) fn price_tick(bench: &Bench<'_>) -> Option<Plan> {
    let tick = bench.instrument()?.tick;
    if tick.is_zero() {
        return Some(Plan::NotSet("the instrument has no tick"));
    }
    let half = tick.checked_mul(amount("0.5")?)?;
    let price = bench.order.price?.checked_add(half)?;
    let stop = bench.order.planned_stop.checked_add(half)?;
    let off = bench.with_order(|order| order.price = Some(price));
    let stop_off =
        bench.with_order(|order| (order.stop_price, order.planned_stop) = (Some(stop), stop));
    let trips = vec![
        ("a price half a tick off", off),
        ("a stop half a tick off", stop_off),
    ];
    Some(Plan::Try(Box::new(bench.base.clone()), trips))
}

pub(super) fn stop_required(bench: &Bench<'_>) -> Option<Plan> {
    let without = bench.with_order(|order| order.stop_price = None);
    // A stop at the market price has been reached already.
    let market = bench.market()?;
    let at_market = if bench.case.side == Side::Buy {
        market.bid
    } else {
        market.ask
    };
    let at_once = bench
        .with_order(|order| (order.stop_price, order.planned_stop) = (Some(at_market), at_market));
    let trips = vec![("no stop", without), ("a stop at the market", at_once)];
    Some(Plan::Try(Box::new(bench.base.clone()), trips))
}

/// The base with its stop at this distance from the worst entry, rounded towards the entry or away
/// from it.
fn stop_at(bench: &Bench<'_>, distance: Amount, is_nearer: bool) -> Option<Scratch> {
    let (worst, tick) = (bench.worst()?, bench.tick()?);
    let at = match bench.case.side {
        Side::Buy => worst.checked_sub(distance)?,
        Side::Sell => worst.checked_add(distance)?,
    };
    let is_up = (bench.case.side == Side::Buy) == is_nearer;
    let stop = if is_up {
        at.round_up_to(tick)?
    } else {
        at.round_down_to(tick)?
    };
    Some(bench.with_order(|order| (order.stop_price, order.planned_stop) = (Some(stop), stop)))
}

pub(super) fn stop_hostable(bench: &Bench<'_>) -> Option<Plan> {
    let instrument = bench.instrument()?;
    let (tick, ticks) = (instrument.tick, Amount::from(instrument.min_stop_ticks));
    if tick.is_positive() && instrument.min_stop_ticks > 0 {
        let distance = ticks.checked_mul(*tick)?.checked_sub(*tick)?;
        return one(
            bench,
            "a stop one tick nearer than the instrument allows",
            stop_at(bench, distance, true)?,
        );
    }
    if instrument.min_size.is_positive() {
        let half = instrument.min_size.checked_mul(amount("0.5")?)?;
        return one(
            bench,
            "a stop the size is below the smallest size",
            bench.with_order(|order| order.size = half),
        );
    }
    if tick.is_positive() {
        let stop = bench
            .order
            .planned_stop
            .checked_add(tick.checked_mul(amount("0.5")?)?)?;
        let trips =
            bench.with_order(|order| (order.stop_price, order.planned_stop) = (Some(stop), stop));
        return one(bench, "a stop half a tick off", trips);
    }
    if instrument.min_notional.is_positive() {
        let trips = bench.with_order(|order| order.size = Amount::ZERO);
        return one(bench, "a stop worth less than the smallest notional", trips);
    }
    Some(Plan::NotSet("the instrument has no filters"))
}

pub(super) fn stop_distance(bench: &Bench<'_>) -> Option<Plan> {
    let bounds = &bench.strategy()?.stop_distance;
    let (worst, tick) = (bench.worst()?, bench.tick()?);
    let far = worst.checked_mul(*bounds.max)?.checked_add(tick)?;
    let near = worst
        .checked_mul(*bounds.min)?
        .checked_sub(tick)?
        .max(Amount::ZERO);
    let trips = vec![
        (
            "a stop one tick further than the strategy allows",
            stop_at(bench, far, false)?,
        ),
        (
            "a stop one tick nearer than the strategy allows",
            stop_at(bench, near, true)?,
        ),
    ];
    Some(Plan::Try(Box::new(bench.base.clone()), trips))
}

pub(super) fn target_valid(bench: &Bench<'_>) -> Option<Plan> {
    let (worst, tick, market) = (bench.worst()?, bench.tick()?, bench.market()?);
    let (at, won) = match bench.case.side {
        Side::Buy => {
            let at = worst.max(market.ask).round_down_to(tick)?;
            (at, at.checked_add(tick)?)
        }
        Side::Sell => {
            let at = worst.min(market.bid).round_up_to(tick)?;
            (at, at.checked_sub(tick)?)
        }
    };
    let passes = bench.with_order(|order| order.target_price = Some(won));
    let trips = bench.with_order(|order| order.target_price = Some(at));
    Some(Plan::Try(
        Box::new(passes),
        vec![("a target at the entry", trips)],
    ))
}

pub(super) fn price_collar(bench: &Bench<'_>) -> Option<Plan> {
    let (market, tick, safety) = (bench.market()?, bench.tick()?, &bench.rules().safety);
    let near = if bench.case.side == Side::Buy {
        market.ask
    } else {
        market.bid
    };
    let edge = |collar: Amount, is_aggressive: bool| -> Option<(Amount, Amount)> {
        let by = near.checked_mul(collar)?;
        let is_up = (bench.case.side == Side::Buy) == is_aggressive;
        if is_up {
            let last = near.checked_add(by)?.round_down_to(tick)?;
            Some((last, last.checked_add(tick)?))
        } else {
            let last = near.checked_sub(by)?.round_up_to(tick)?;
            Some((last, last.checked_sub(tick)?))
        }
    };
    let at = |price: Amount| bench.with_order(|order| order.price = Some(price));
    let (passes, past) = edge(*safety.price_collar, true)?;
    let (_, passive) = edge(*safety.price_collar_passive, false)?;
    let mut trips = vec![("a limit one tick past the collar", at(past))];
    if passive.is_positive() {
        trips.push(("a limit one tick past the passive collar", at(passive)));
    }
    Some(Plan::Try(Box::new(at(passes)), trips))
}

pub(super) fn slippage_to_plan(bench: &Bench<'_>) -> Option<Plan> {
    let worst = bench.worst()?;
    // The limit is a fraction of the plan, and the plan is lower than the worst entry, so this
    // fraction of the worst entry exceeds it.
    let planned = worst.checked_sub(worst.checked_mul(*bench.rules().safety.slippage_to_plan)?)?;
    one(
        bench,
        "a plan too far below the worst entry",
        bench.with_order(|order| order.planned_entry = planned),
    )
}

pub(super) fn market_data(bench: &Bench<'_>) -> Option<Plan> {
    let old_ms = age_max_ms(bench.instrument()?, &bench.rules().safety);
    let aged = |ms: i64| {
        bench.with(|scratch| {
            let time = scratch.now.plus_ms(ms.saturating_neg());
            if let Some(market) = scratch.state.book.markets.get_mut(&bench.case.symbol) {
                market.last.iter_mut().for_each(|last| last.time = time);
                market.quote.iter_mut().for_each(|quote| quote.time = time);
            }
        })
    };
    let none = bench.with(|scratch| scratch.state.book.markets.clear());
    let held = bench.with(|scratch| {
        let (bid, ask, previous) = (bench.price, bench.price, bench.price);
        let time_ms = scratch.now.ms();
        let (bid_size, ask_size) = (None, None);
        let row = Row::Quote {
            time_ms,
            bid,
            ask,
            bid_size,
            ask_size,
        };
        if let Some(market) = scratch.state.book.markets.get_mut(&bench.case.symbol) {
            market.held = Some(Held { row, previous });
        }
    });
    let trips = vec![
        (
            "a price a millisecond too old",
            aged(old_ms.saturating_add(1)),
        ),
        ("no price", none),
        ("a row that is not believed yet", held),
    ];
    Some(Plan::Try(Box::new(aged(old_ms)), trips))
}

pub(super) fn self_cross(bench: &Bench<'_>) -> Option<Plan> {
    let mut other = resting(
        bench,
        OrderId::of_line(1),
        OrderRole::Exit,
        bench.case.side.opposite(),
    );
    (other.order_type, other.price) = (OrderType::Limit, bench.order.price);
    let trips = bench.with(|scratch| drop(scratch.state.book.orders.insert(other.order_id, other)));
    one(
        bench,
        "an own order on the other side at the same price",
        trips,
    )
}

pub(super) fn cancel_ok(bench: &Bench<'_>) -> Option<Plan> {
    let mut scratch = held(bench)?;
    let mut entry = resting(
        bench,
        OrderId::of_line(2),
        OrderRole::Entry,
        bench.case.side,
    );
    (entry.order_type, entry.price) = (OrderType::Limit, bench.order.price);
    scratch.state.book.orders.insert(entry.order_id, entry);
    let cancel = |order_id: OrderId| {
        let ask = Ask::Cancel(CancelOrder {
            order_id,
            reason: None,
        });
        Scratch {
            ask,
            ..scratch.clone()
        }
    };
    let trips = vec![
        (
            "cancelling a protective stop",
            cancel(OrderId::of_line(1).stop()),
        ),
        ("cancelling what is not there", cancel(OrderId::of_line(3))),
    ];
    Some(Plan::Try(Box::new(cancel(OrderId::of_line(2))), trips))
}

pub(super) fn tighten_ok(bench: &Bench<'_>) -> Option<Plan> {
    let scratch = held(bench)?;
    let (stop, tick) = (bench.order.planned_stop, bench.tick()?);
    let order_id = OrderId::of_line(1).stop();
    let to = |new_stop: Amount| {
        let ask = Ask::Tighten(TightenStop { order_id, new_stop });
        Scratch {
            ask,
            ..scratch.clone()
        }
    };
    let wider = bench.dearer(stop, -tick)?;
    let trips = vec![("a stop one tick further away", to(wider))];
    Some(Plan::Try(Box::new(to(bench.dearer(stop, tick)?)), trips))
}
