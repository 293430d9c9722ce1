//! The smallest entry that the filters of an instrument and the distances of a strategy allow.

use super::book::Book;
use super::pricing::{self, Terms};
use super::valuation::TwoSided;
use spoolgate_rules::Rulebook;
use spoolgate_rules::instruments::Instrument;
use spoolgate_rules::strategies::Strategy;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{StrategyName, Symbol, ThesisSlug};
use spoolgate_wire::orders::{OrderType, Side, SubmitOrder, TimeInForce};

/// The step of prices and sizes if no tick or lot is configured.
const STEP: &str = "0.00000001";

/// Returns the step of prices or sizes: the configured tick or lot, or `STEP` if that is 0.
pub fn step_of(configured: Amount) -> Option<Amount> {
    if configured.is_positive() {
        Some(configured)
    } else {
        Amount::parse_exact(STEP).ok()
    }
}

/// Returns a limit order at the near side of the market, with a stop at twice the smallest distance
/// and the smallest size that lot, smallest size and smallest notional allow. The newest price
/// counts, fresh or not. `None` if no price is known, the rules lack a name, or a product is not
/// exact.
pub fn entry(
    book: &Book,
    rules: &Rulebook,
    (strategy, symbol, side): (&StrategyName, &Symbol, Side),
    thesis: &ThesisSlug,
) -> Option<SubmitOrder> {
    let instrument = rules.instruments.get(symbol)?;
    let tick = step_of(*instrument.tick)?;
    let market = book.two_sided(instrument)?;
    let own = match side {
        Side::Buy => market.ask.round_up_to(tick)?,
        Side::Sell => market.bid.round_down_to(tick)?,
    };
    let mut order = SubmitOrder {
        strategy: strategy.clone(),
        symbol: symbol.clone(),
        side,
        size: Amount::ZERO,
        order_type: OrderType::Limit,
        price: Some(own),
        stop_price: None,
        thesis_slug: thesis.clone(),
        planned_entry: own,
        planned_stop: own,
        target_price: None,
        time_in_force: TimeInForce::Gtc,
    };
    let worst = worst(book, rules, &order, instrument)?;
    order.planned_entry = worst;
    order.planned_stop = stop(
        rules.strategies.get(strategy)?,
        side,
        instrument,
        &market,
        worst,
    )?;
    order.stop_price = Some(order.planned_stop);
    order.size = size(instrument, own.min(order.planned_stop))?;
    Some(order)
}

/// Returns the worst price that this order may get, as the checks compute it.
pub fn worst(
    book: &Book,
    rules: &Rulebook,
    order: &SubmitOrder,
    instrument: &Instrument,
) -> Option<Amount> {
    let market = book.two_sided(instrument)?;
    let terms = Terms {
        side: order.side,
        order_type: order.order_type,
        own_price: order.price,
    };
    pricing::worst_entry(&terms, &market, *rules.safety.entry_slippage)
}

/// A stop beyond the market, at twice the smallest distance and at most the largest.
fn stop(
    strategy: &Strategy,
    side: Side,
    instrument: &Instrument,
    market: &TwoSided,
    worst: Amount,
) -> Option<Amount> {
    let tick = step_of(*instrument.tick)?;
    let bounds = &strategy.stop_distance;
    let nearest = worst.checked_mul(*bounds.min)?;
    let ticks = Amount::from(instrument.min_stop_ticks.saturating_add(3)).checked_mul(tick)?;
    let beyond = market.ask.checked_sub(market.bid)?.checked_add(ticks)?;
    let wanted = nearest
        .checked_add(nearest)?
        .max(beyond)
        .round_up_to(tick)?;
    let most = worst.checked_mul(*bounds.max)?;
    let distance = wanted.min(most);
    match side {
        Side::Buy => worst.checked_sub(distance)?.round_up_to(tick),
        Side::Sell => worst.checked_add(distance)?.round_down_to(tick),
    }
}

/// The smallest size that the lot, the smallest size and the smallest notional allow at this price.
fn size(instrument: &Instrument, price: Amount) -> Option<Amount> {
    let lot = step_of(*instrument.lot)?;
    let size = lot.max(*instrument.min_size).round_up_to(lot)?;
    let each = price
        .checked_mul(lot)?
        .checked_mul(*instrument.multiplier)?;
    let mut lots = instrument.min_notional.div_floor_count(each)?;
    if each.checked_mul(Amount::from_i64(i64::try_from(lots).ok()?))? < *instrument.min_notional {
        lots = lots.checked_add(1)?;
    }
    Some(size.max(lot.checked_mul(Amount::from_i64(i64::try_from(lots).ok()?))?))
}
