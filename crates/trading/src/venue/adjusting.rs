//! Adjustments: a person books a difference between the book and a venue behind a bridge, as a fill of an
//! order that is over in the same line. Stops and targets follow.

use super::VenueError;
use super::paper::Run;
use super::report::stand_in;
use crate::book::{Book, Doubt};
use crate::change::Change;
use crate::fold::ApplyError;
use crate::order::{AtVenue, Fill, Liquidity, Order, OrderEnd, OrderRole, Position};
use crate::submit::at_venue_of;
use spoolgate_rules::Rulebook;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{OrderId, Principal, StrategyName, Symbol};
use spoolgate_wire::orders::{AdjustPosition, OrderType, Side, TimeInForce};
use spoolgate_wire::time::Time;

/// Why a position is not adjusted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdjustError {
    /// Neither the rules nor a position know the strategy.
    #[error(
        "strategy `{0}` has no file and no position; `spoolgate strategies` lists the strategies"
    )]
    UnknownStrategy(StrategyName),
    /// Neither the rules nor a position know the symbol.
    #[error("`{0}` is not in rules/instruments.yaml, and no position is held in it")]
    UnknownSymbol(Symbol),
    /// Market rows fill the orders of this leg, so there is no other side to agree with.
    #[error(
        "`{symbol}` of `{strategy}` is traded on paper, where the book is the venue: only a position at a \
            venue behind a bridge can differ from it"
    )]
    OnPaper {
        /// The strategy.
        strategy: StrategyName,
        /// The symbol.
        symbol: Symbol,
    },
    /// An order of the leg is at another venue.
    #[error(
        "`{0}` is at another venue than the instrument; wait until it is over, or cancel it first"
    )]
    Elsewhere(OrderId),
    /// The adjustment changes nothing.
    #[error("an adjustment of 0 changes nothing")]
    Nothing,
    /// The book does not take it.
    #[error("the adjustment cannot be booked: {0}")]
    Venue(#[from] VenueError),
}

/// Who adjusts, when, and in which ledger line.
#[derive(Clone, Copy, Debug)]
pub struct Adjusting<'a> {
    /// The person.
    pub source: &'a Principal,
    /// The gate's clock.
    pub now: Time,
    /// The ledger line; it names the order.
    pub seq: u64,
}

/// Books an adjustment. Returns the changes before they are handed over to the outbox.
///
/// # Errors
/// Returns [`AdjustError`] if the leg is not at a venue behind a bridge, or a number cannot be held.
pub fn on_adjust(
    book: &Book,
    rules: &Rulebook,
    adjust: &AdjustPosition,
    by: &Adjusting<'_>,
) -> Result<Vec<Change>, AdjustError> {
    if adjust.size.is_zero() {
        return Err(AdjustError::Nothing);
    }
    let at_venue = venue_of(book, rules, adjust)?;
    let order = Order {
        order_id: OrderId::of_line(by.seq),
        source: by.source.clone(),
        strategy: adjust.strategy.clone(),
        symbol: adjust.symbol.clone(),
        side: if adjust.size.is_positive() {
            Side::Buy
        } else {
            Side::Sell
        },
        role: OrderRole::Adjust,
        order_type: OrderType::Market,
        size: adjust.size.abs(),
        filled: Amount::ZERO,
        price: None,
        trigger: None,
        triggered: false,
        thesis_slug: None,
        accepted_at: by.now,
        time_in_force: TimeInForce::Gtc,
        at_venue: Some(at_venue.clone()),
        key_id: None,
    };
    let no_multiplier = |_| {
        let what = "its multiplier";
        AdjustError::Venue(VenueError::Book(ApplyError::Arithmetic { what }))
    };
    let instrument = stand_in(&order, &at_venue).map_err(no_multiplier)?;
    // Orders that are about to end count as gone.
    let mut ahead = book.clone();
    ahead.orders.retain(|_, other| other.ending().is_none());
    let run = Run::over(ahead, rules, &instrument, by.now);
    let changes = Adjustment { run, order }.book(adjust.price)?;
    Ok(changes)
}

/// Returns the venue of the leg: that of its position, or else of the instrument.
fn venue_of(
    book: &Book,
    rules: &Rulebook,
    adjust: &AdjustPosition,
) -> Result<AtVenue, AdjustError> {
    let AdjustPosition {
        strategy, symbol, ..
    } = adjust;
    let held = book.positions.get(&(symbol.clone(), strategy.clone()));
    if held.is_none() && !rules.strategies.contains_key(strategy) {
        return Err(AdjustError::UnknownStrategy(strategy.clone()));
    }
    let instrument = rules.instruments.get(symbol);
    let at_venue = match held {
        Some(held) => held.exit_at_venue(),
        None if instrument.is_none() => return Err(AdjustError::UnknownSymbol(symbol.clone())),
        None => at_venue_of(instrument, adjust.price),
    };
    let Some(at_venue) = at_venue else {
        let (strategy, symbol) = (strategy.clone(), symbol.clone());
        return Err(AdjustError::OnPaper { strategy, symbol });
    };
    let bridge = |order: &Order| order.at_venue.as_ref().map(|it| it.bridge.clone());
    let mut of_leg = book.orders.values();
    let elsewhere = of_leg.find(|order| {
        order.is_of(strategy, symbol) && bridge(order).as_ref() != Some(&at_venue.bridge)
    });
    match elsewhere {
        Some(order) => Err(AdjustError::Elsewhere(order.order_id)),
        None => Ok(at_venue),
    }
}

/// One adjustment being booked.
struct Adjustment<'a> {
    run: Run<'a>,
    order: Order,
}

impl Adjustment<'_> {
    fn held(&self) -> Option<&Position> {
        let key = (self.order.symbol.clone(), self.order.strategy.clone());
        self.run.book.positions.get(&key)
    }

    /// Books it like a trade: first the part that closes, then the part that opens.
    fn book(mut self, price: Amount) -> Result<Vec<Change>, VenueError> {
        self.run
            .emit(Change::OrderPlaced(Box::new(self.order.clone())))?;
        let held = self.held();
        let closing = held.filter(|held| held.closing_side() == self.order.side);
        let closes = closing.map_or(Amount::ZERO, |held| held.size.abs().min(self.order.size));
        let opens = self.order.size.checked_sub(closes).unwrap_or(Amount::ZERO);
        let order = self.order.clone();
        if closes.is_positive() {
            self.fill(closes, price)?;
            self.run.settle(&order, Amount::ZERO, closes)?;
        }
        if opens.is_positive() {
            self.fill(opens, price)?;
            self.run.close(order.order_id, OrderEnd::Filled)?;
            self.protect(opens)?;
            self.run.match_targets(&order)?;
        }
        self.run.watch_equity()?;
        let steps = self.run.steps.finish().into_iter();
        Ok(steps.flat_map(|step| step.changes).collect())
    }

    fn fill(&mut self, size: Amount, price: Amount) -> Result<(), VenueError> {
        let order = &self.order;
        let mut fill = Fill {
            order_id: order.order_id,
            strategy: order.strategy.clone(),
            symbol: order.symbol.clone(),
            side: order.side,
            role: order.role,
            price,
            size,
            multiplier: *self.run.instrument.multiplier,
            fee: Amount::ZERO,
            fee_paid: None,
            liquidity: Liquidity::Taker,
            realised: Amount::ZERO,
            market_time: self.run.now,
            recorded_at: self.run.now,
        };
        fill.realised = self.run.book.fill_effect(&fill)?.realised;
        self.run.emit(Change::OrderFilled(fill))
    }

    /// The newest working stop of the leg grows with the position. Without one the symbol is doubted:
    /// nobody said at which price the position shall be left.
    fn protect(&mut self, opened: Amount) -> Result<(), VenueError> {
        let order = &self.order;
        let more = self.run.protectable(order, opened)?;
        if !more.is_positive() {
            return Ok(());
        }
        let mut stops = self.run.book.orders.values().rev();
        let stop = stops.find(|stop| {
            stop.role == OrderRole::Protective
                && stop.side != order.side
                && !stop.triggered
                && stop.is_of(&order.strategy, &order.symbol)
        });
        let Some(stop) = stop else {
            let (order_id, at) = (order.order_id, self.run.now);
            let what = format!(
                "`{order_id}` added {opened} to the position of `{}`, and no stop protects that: close \
                    it, or watch it yourself",
                order.strategy
            );
            let doubt = Doubt {
                order_id: Some(order_id),
                what,
                at,
            };
            let symbol = order.symbol.clone();
            return self.run.emit(Change::SymbolDoubted { symbol, doubt });
        };
        let size = stop.size.checked_add(more).ok_or(ApplyError::Arithmetic {
            what: "the size of a protective stop",
        })?;
        let order_id = stop.order_id;
        self.run.emit(Change::StopResized { order_id, size })
    }
}
