//! How a change folds into the book. Applying a change reads neither rules nor time, so the ledger
//! alone reproduces the book. A change applies completely or leaves the book unchanged.

use std::collections::VecDeque;

use rust_decimal::RoundingStrategy;

use super::book::{Book, Doubt, Held, Market, RecentEntry, Refuted, Traded, WINDOW};
use super::change::{Change, FundingCharge};
use super::order::{AtVenue, Dropped, Fill, HeldAt, Order, OrderRole, Position};
use spoolgate_rules::safety::DUPLICATE_WINDOW_S_MAX;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{Leg, OrderId, Symbol};
use spoolgate_wire::orders::Side;
use spoolgate_wire::time::Time;

/// Maximum number of accepted entries remembered for duplicates and rates.
pub const RECENT_ENTRIES_MAX: usize = 4096;

/// Decimals that the cost of a reduced part is rounded to.
const COST_PLACES: u32 = 8;

/// Why a change does not fit the book: the ledger contradicts itself, or a number exceeds the exact
/// range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// The change names an order that is not open.
    #[error("order `{order_id}` is not open, so it cannot be {verb}")]
    UnknownOrder {
        /// The order.
        order_id: OrderId,
        /// What was to be done with the order, as a participle.
        verb: &'static str,
    },
    /// The change is about an order at a venue, but market rows fill this order.
    #[error("order `{order_id}` is not at a venue, so it cannot be {verb} there")]
    NotAtVenue {
        /// The order.
        order_id: OrderId,
        /// What was to be done with the order, as a participle.
        verb: &'static str,
    },
    /// The change places an order whose id is already in use.
    #[error("order `{order_id}` is already open, so it cannot be placed again")]
    OrderExists {
        /// The order.
        order_id: OrderId,
    },
    /// A fill exceeds what was left of its order.
    #[error("the fill of order `{order_id}` is larger than what is left of it")]
    Overfilled {
        /// The order.
        order_id: OrderId,
    },
    /// A fill is larger than the opposite position that it reduces.
    #[error("the fill of order `{order_id}` would turn the position around; it must be two fills")]
    Flips {
        /// The order.
        order_id: OrderId,
    },
    /// A fill states another profit than the position gives.
    #[error(
        "the fill of order `{order_id}` states {stated} as realised, the position gives {computed}"
    )]
    RealisedDiffers {
        /// The order.
        order_id: OrderId,
        /// The profit that the fill states.
        stated: Amount,
        /// The profit that the position's cost gives.
        computed: Amount,
    },
    /// A fee in coins is not less than what was bought.
    #[error("the fee of the fill of order `{order_id}` takes all that was bought")]
    NothingLeft {
        /// The order.
        order_id: OrderId,
    },
    /// A number cannot be held exactly.
    #[error("{what} cannot be computed exactly; it needs more than 28 digits")]
    Arithmetic {
        /// Which number.
        what: &'static str,
    },
}

/// The effect of a fill on position and account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FillEffect {
    /// The position afterwards; `None` if flat.
    pub position: Option<Position>,
    /// Profit or loss realised, before fees.
    pub realised: Amount,
    /// Result of the trade, fees included, if this fill ends it.
    closed: Option<Amount>,
    /// Cash afterwards.
    cash: Amount,
    /// All profit realised afterwards.
    realised_total: Amount,
    /// All fees paid afterwards.
    fees: Amount,
    /// price x size x multiplier.
    notional: Amount,
}

fn exact(value: Option<Amount>, what: &'static str) -> Result<Amount, ApplyError> {
    value.ok_or(ApplyError::Arithmetic { what })
}

impl Book {
    /// Folds one change in.
    ///
    /// # Errors
    /// Returns [`ApplyError`] if the change does not fit; the book is then unchanged.
    pub fn apply(&mut self, change: &Change) -> Result<(), ApplyError> {
        match change {
            Change::OrderPlaced(order) => self.place(order)?,
            Change::OrderFilled(fill) => self.fill(fill)?,
            Change::OrderTriggered { order_id } => {
                self.open_order(*order_id, "triggered")?.triggered = true;
            }
            Change::StopResized { order_id, size } => {
                self.open_order(*order_id, "resized")?.size = *size;
            }
            Change::OrderReleased { order_id } => {
                let venue = self.open_order(*order_id, "released")?.at_venue.as_mut();
                venue.into_iter().for_each(|venue| venue.released = true);
            }
            Change::StopMoved { order_id, trigger } => {
                self.open_order(*order_id, "moved")?.trigger = Some(*trigger);
            }
            Change::OrderClosed { order_id, at, .. } => self.close(*order_id, *at)?,
            Change::OrderRefused {
                order_id,
                reason,
                at,
            } => self.refuse(*order_id, reason, *at)?,
            Change::OrderEnding {
                order_id, end, why, ..
            } => {
                self.order_at_venue(*order_id, "ended")?
                    .end(*end, why.as_ref());
            }
            Change::Instructed(_)
            | Change::VenueReported { .. }
            | Change::TakenBack { .. }
            | Change::TradedUntold { .. }
            | Change::Unanswered { .. } => self.apply_at_venue(change)?,
            Change::BridgeSilent { .. }
            | Change::BridgeHeard { .. }
            | Change::Reconciled { .. }
            | Change::PingAnswered { .. } => self.apply_to_bridge(change),
            Change::SymbolDoubted { symbol, doubt } => self.doubt(symbol, doubt),
            Change::MarketMoved { symbol, .. } => {
                trade(self.market(symbol), change);
                self.pass_stops(symbol);
            }
            Change::RowHeld {
                symbol,
                row,
                previous,
            } => {
                let (row, previous) = (*row, *previous);
                self.market(symbol).held = Some(Held { row, previous });
            }
            Change::RowDropped { symbol } => self.market(symbol).held = None,
            Change::RegimeGiven { symbol, given } => {
                self.market(symbol).regime = Some(given.clone());
            }
            Change::SymbolHalted { symbol, gap } => {
                // Keep the first gap: it shows what to look at.
                self.halted_symbols
                    .entry(symbol.clone())
                    .or_insert_with(|| gap.clone());
            }
            Change::SymbolCleared { symbol } => self.clear(symbol),
            Change::ThesisRefuted { slug, at, price } => {
                // Keep the first crossing: it shows when the thesis was refuted.
                let refuted = Refuted {
                    at: *at,
                    price: *price,
                };
                self.refuted.entry(slug.clone()).or_insert(refuted);
            }
            Change::FundingCharged {
                symbol,
                rate,
                time,
                charges,
            } => {
                self.charge(charges)?;
                let market = self.market(symbol);
                keep(&mut market.rates, *rate);
                market.funded = Some(*time);
            }
            Change::AccountAdjusted { amount } => self.adjust(*amount)?,
            Change::DayOpened(day) => {
                (self.account.day, self.account.turnover) = (Some(day.clone()), Amount::ZERO);
            }
            Change::WeekOpened(week) => self.account.week = Some(week.clone()),
            Change::PeakRaised { equity } => self.account.peak_equity = Some(*equity),
            Change::DrawdownLatched { at, .. } => {
                // Keep the first latch: it shows since when entries are closed.
                self.account.drawdown_since.get_or_insert(*at);
            }
            Change::StrategyDisabled { strategy, at } => {
                let conduct = self.conduct.entry(strategy.clone()).or_default();
                conduct.disabled_since.get_or_insert(*at);
            }
            Change::StrategyCleared { strategy } => {
                self.conduct.entry(strategy.clone()).or_default().clear();
            }
            Change::DrawdownCleared { peak } => {
                (self.account.drawdown_since, self.account.peak_equity) = (None, Some(*peak));
            }
            Change::ExitMerged(merged) => self.open_order(merged.order_id, "merged")?.merge(merged),
        }
        Ok(())
    }

    fn market(&mut self, symbol: &Symbol) -> &mut Market {
        self.markets.entry(symbol.clone()).or_default()
    }

    /// Keeps the first doubt about a symbol, except that a doubt about an exit at the market
    /// replaces it, because it is more urgent.
    fn doubt(&mut self, symbol: &Symbol, doubt: &Doubt) {
        let kept = self
            .doubted_symbols
            .entry(symbol.clone())
            .or_insert_with(|| doubt.clone());
        if doubt.order_id.is_some_and(|id| id.leg == Leg::Flatten) {
            *kept = doubt.clone();
        }
    }

    /// Whether turnover and refusals by venues are counted.
    fn counts(&self) -> bool {
        self.account.day.as_ref().is_some_and(|day| day.counts)
    }

    /// Ends an order that its venue refused, and counts that.
    fn refuse(&mut self, order_id: OrderId, reason: &str, at: Time) -> Result<(), ApplyError> {
        let order = self.open_order(order_id, "refused")?;
        let strategy = order.strategy.clone();
        self.close(order_id, at)?;
        if self.counts() {
            let conduct = self.conduct.entry(strategy).or_default();
            conduct.refused(reason, at);
        }
        Ok(())
    }

    /// Counts what venues dropped from zero again, because it is demanded anew that positions are flat.
    pub fn forget_dropped(&mut self) {
        let positions = self.positions.values_mut();
        positions.for_each(|position| position.dropped = None);
    }

    fn clear(&mut self, symbol: &Symbol) {
        self.halted_symbols.remove(symbol);
        self.doubted_symbols.remove(symbol);
        let orders = self
            .orders
            .values_mut()
            .filter(|order| order.symbol == *symbol);
        let venues = orders.filter_map(|order| order.at_venue.as_mut());
        venues.for_each(|venue| venue.passed_at = None);
        let positions = self.positions.values_mut();
        positions
            .filter(|position| position.symbol == *symbol)
            .for_each(|position| position.dropped = None);
    }

    fn close(&mut self, order_id: OrderId, at: Time) -> Result<(), ApplyError> {
        self.open_order(order_id, "closed")?;
        if let Some(order) = self.orders.remove(&order_id) {
            self.note_dropped(&order, at);
        }
        Ok(())
    }

    /// Counts an order that was to close a position and that its venue ended before it had, unasked.
    fn note_dropped(&mut self, order: &Order, at: Time) {
        let key = (order.symbol.clone(), order.strategy.clone());
        let is_unasked = order.at_venue.is_some() && order.ending().is_none();
        let is_dropped =
            order.order_id.leg == Leg::Flatten && order.leaves().is_positive() && is_unasked;
        if let Some(position) = self.positions.get_mut(&key).filter(|_| is_dropped) {
            let times = position.dropped.map_or(0, |dropped| dropped.times);
            position.dropped = Some(Dropped {
                order_id: order.order_id,
                times: times.saturating_add(1),
                at,
            });
        }
    }

    /// Takes all charges from cash, or none.
    fn charge(&mut self, charges: &[FundingCharge]) -> Result<(), ApplyError> {
        let (mut cash, mut funding) = (self.account.cash, self.account.funding);
        for charge in charges {
            cash = exact(cash.checked_sub(charge.amount), "cash")?;
            funding = exact(funding.checked_add(charge.amount), "funding")?;
        }
        (self.account.cash, self.account.funding) = (cash, funding);
        Ok(())
    }

    /// Returns the order, for a change that needs it open.
    pub(super) fn open_order(
        &mut self,
        order_id: OrderId,
        verb: &'static str,
    ) -> Result<&mut Order, ApplyError> {
        self.orders
            .get_mut(&order_id)
            .ok_or(ApplyError::UnknownOrder { order_id, verb })
    }

    /// Returns the venue state of the order, for a change that needs an order at a venue.
    pub(super) fn order_at_venue(
        &mut self,
        order_id: OrderId,
        verb: &'static str,
    ) -> Result<&mut AtVenue, ApplyError> {
        let order = self.open_order(order_id, verb)?;
        order
            .at_venue
            .as_mut()
            .ok_or(ApplyError::NotAtVenue { order_id, verb })
    }

    fn place(&mut self, order: &Order) -> Result<(), ApplyError> {
        if self.orders.contains_key(&order.order_id) {
            return Err(ApplyError::OrderExists {
                order_id: order.order_id,
            });
        }
        self.orders.insert(order.order_id, order.clone());
        if order.role == OrderRole::Entry {
            self.recent_entries.push_back(RecentEntry {
                at: order.accepted_at,
                source: order.source.clone(),
                strategy: order.strategy.clone(),
                symbol: order.symbol.clone(),
                side: order.side,
                order_type: order.order_type,
                size: order.size,
                price: order.price.or(order.trigger),
            });
            self.forget_old_entries();
        }
        Ok(())
    }

    /// Bounds the memory for duplicates and rates in time and number.
    fn forget_old_entries(&mut self) {
        let Some(newest) = self.recent_entries.back().map(|entry| entry.at) else {
            return;
        };
        let window_ms = i64::from(DUPLICATE_WINDOW_S_MAX).saturating_mul(1000);
        while let Some(oldest) = self.recent_entries.front() {
            if newest.since_ms(oldest.at).saturating_abs() <= window_ms
                && self.recent_entries.len() <= RECENT_ENTRIES_MAX
            {
                break;
            }
            self.recent_entries.pop_front();
        }
    }

    fn fill(&mut self, fill: &Fill) -> Result<(), ApplyError> {
        let order_id = fill.order_id;
        let effect = self.fill_effect(fill)?;
        if effect.realised != fill.realised {
            let (stated, computed) = (fill.realised, effect.realised);
            return Err(ApplyError::RealisedDiffers {
                order_id,
                stated,
                computed,
            });
        }
        let order = self.open_order(order_id, "filled")?;
        let filled = exact(order.filled.checked_add(fill.size), "the filled size")?;
        if filled > order.size {
            return Err(ApplyError::Overfilled { order_id });
        }
        let (is_first, accepted_at) = (order.filled.is_zero(), order.accepted_at);
        order.filled = filled;
        if let Some(venue) = &mut order.at_venue {
            venue.passed_at = None;
        }
        let key = (fill.symbol.clone(), fill.strategy.clone());
        match effect.position {
            Some(position) => self.positions.insert(key, position),
            None => self.positions.remove(&key),
        };
        let conduct = self.conduct.entry(fill.strategy.clone()).or_default();
        conduct.fill(fill, is_first, effect.closed);
        if fill.role == OrderRole::Entry {
            conduct.taken(accepted_at);
            if self.counts() {
                self.account.turnover = turned_over(self.account.turnover, effect.notional);
            }
        }
        self.account.cash = effect.cash;
        self.account.realised = effect.realised_total;
        self.account.fees = effect.fees;
        Ok(())
    }

    /// Computes what a fill would do, ignoring its own `realised`.
    ///
    /// Let `flow` be the signed money of the fill (a sale brings it in). Opening changes the cost
    /// by -flow. Reducing removes the share `cost x size / |position|` and realises `flow - share`.
    /// So cash + sum of cost = net deposits + realised - fees - funding holds to the last digit. A fee
    /// that was taken from what was bought counts as paid in cash, for the same money less of cost.
    pub(crate) fn fill_effect(&self, fill: &Fill) -> Result<FillEffect, ApplyError> {
        let order_id = fill.order_id;
        let order = self.orders.get(&order_id).ok_or(ApplyError::UnknownOrder {
            order_id,
            verb: "filled",
        })?;
        let moved = exact(fill.moved(), "the size of the fill less its fee")?;
        if fill.size.is_positive() && !moved.is_positive() {
            return Err(ApplyError::NothingLeft { order_id });
        }
        let notional = fill
            .price
            .checked_mul(moved)
            .and_then(|value| value.checked_mul(fill.multiplier));
        let notional = exact(notional, "the notional of the fill")?;
        let (flow, delta) = match fill.side {
            Side::Buy => (-notional, moved),
            Side::Sell => (notional, -moved),
        };
        let key = (fill.symbol.clone(), fill.strategy.clone());
        let held = self.positions.get(&key);
        let units = order.at_venue.as_ref().and_then(|it| it.units.clone());
        let (mut position, realised) = match held {
            Some(held) if held.size.is_positive() != delta.is_positive() => {
                reduce(held, fill.order_id, moved, flow)?
            }
            _ => (Some(grow(held, fill, order, delta, flow)?), Amount::ZERO),
        };
        let before = held.map_or(Amount::ZERO, |held| held.result);
        let result = before
            .checked_add(realised)
            .and_then(|result| result.checked_sub(fill.fee));
        let result = exact(result, "the result of the trade")?;
        let closed = position.is_none().then_some(result);
        if let Some(position) = &mut position {
            position.result = result;
            if let Some(held_at) = &mut position.held_at {
                // As of the newest order that traded.
                held_at.units = units.or_else(|| held_at.units.take());
            }
        }
        let account = &self.account;
        let cash = account
            .cash
            .checked_add(flow)
            .and_then(|cash| cash.checked_sub(fill.fee));
        Ok(FillEffect {
            position,
            realised,
            closed,
            cash: exact(cash, "cash")?,
            realised_total: exact(account.realised.checked_add(realised), "realised profit")?,
            fees: exact(account.fees.checked_add(fill.fee), "fees")?,
            notional,
        })
    }

    /// Money that a person moves is neither profit nor drawdown, so the peak moves with it.
    fn adjust(&mut self, amount: Amount) -> Result<(), ApplyError> {
        let cash = exact(self.account.cash.checked_add(amount), "cash")?;
        let net_deposits = exact(
            self.account.net_deposits.checked_add(amount),
            "net deposits",
        )?;
        let peak = match self.account.peak_equity {
            Some(peak) => Some(exact(peak.checked_add(amount), "peak equity")?),
            None => None,
        };
        self.account.cash = cash;
        self.account.net_deposits = net_deposits;
        self.account.peak_equity = peak;
        Ok(())
    }
}

/// Adds a fill to the day's turnover. A fill is a fact, so where the sum needs too many digits both
/// are rounded up, to whole units of the currency.
fn turned_over(before: Amount, notional: Amount) -> Amount {
    before.checked_add(notional).unwrap_or_else(|| {
        let up = |amount: Amount| amount.round_up_to(Amount::ONE).unwrap_or(amount);
        let sum = up(before).checked_add(up(notional));
        sum.unwrap_or_else(|| before.max(notional))
    })
}

/// Moves a market: adds bars, the last of them with its time, and the newest quote. Whatever moves
/// it settles the row that was held.
fn trade(market: &mut Market, change: &Change) {
    let Change::MarketMoved {
        earlier,
        last,
        quote,
        reached,
        ..
    } = change
    else {
        return;
    };
    for bar in earlier {
        keep(&mut market.bars, bar.clone());
    }
    if let Some(last) = last {
        keep(&mut market.bars, Traded(last.price, last.volume));
        market.last = Some(last.clone());
    }
    market.quote = quote.clone().or_else(|| market.quote.take());
    market.reached = reached.or(market.reached);
    market.held = None;
}

/// Adds the newest element to a window and drops what exceeds it.
fn keep<T>(window: &mut VecDeque<T>, newest: T) {
    while window.len() > WINDOW {
        window.pop_front();
    }
    window.push_back(newest);
}

/// Returns the position after a fill that opens or adds.
fn grow(
    held: Option<&Position>,
    fill: &Fill,
    order: &Order,
    delta: Amount,
    flow: Amount,
) -> Result<Position, ApplyError> {
    let mut position = held.cloned().unwrap_or_else(|| Position {
        strategy: fill.strategy.clone(),
        symbol: fill.symbol.clone(),
        size: Amount::ZERO,
        cost: Amount::ZERO,
        result: Amount::ZERO,
        increased_at: fill.recorded_at,
        theses: std::collections::BTreeSet::new(),
        held_at: order.at_venue.as_ref().map(|venue| HeldAt {
            bridge: venue.bridge.clone(),
            multiplier: venue.multiplier,
            reduce_only: venue.reduce_only,
            units: venue.units.clone(),
        }),
        dropped: None,
        unfilled_at: None,
    });
    position.size = exact(position.size.checked_add(delta), "the position")?;
    position.cost = exact(position.cost.checked_sub(flow), "the cost of the position")?;
    position.increased_at = fill.recorded_at;
    position.theses.extend(order.thesis_slug.clone());
    Ok(position)
}

/// Returns the position after a fill that reduces it (`None` if flat), and the realised profit.
fn reduce(
    held: &Position,
    order_id: OrderId,
    size: Amount,
    flow: Amount,
) -> Result<(Option<Position>, Amount), ApplyError> {
    let open = held.size.abs();
    if size > open {
        return Err(ApplyError::Flips { order_id });
    }
    if size == open {
        // Remove the whole cost, so that no remainder of earlier rounding stays behind.
        let realised = exact(flow.checked_sub(held.cost), "realised profit")?;
        return Ok((None, realised));
    }
    let share = exact(
        cost_share(held.cost, size, open),
        "the cost of the reduced part",
    )?;
    let left = if held.size.is_positive() {
        open.checked_sub(size)
    } else {
        size.checked_sub(open)
    };
    let mut position = held.clone();
    position.size = exact(left, "the position")?;
    position.cost = exact(held.cost.checked_sub(share), "the cost of the position")?;
    let realised = exact(flow.checked_sub(share), "realised profit")?;
    Ok((Some(position), realised))
}

/// Computes `cost x part / whole`, half to even at 8 decimals. What the decimal library rounds
/// before that (past 28 digits) is rounded the same way everywhere, and the difference stays in the
/// cost of the rest.
fn cost_share(cost: Amount, part: Amount, whole: Amount) -> Option<Amount> {
    let share = cost
        .decimal()
        .checked_mul(part.decimal())?
        .checked_div(whole.decimal())?;
    let share = share.round_dp_with_strategy(COST_PLACES, RoundingStrategy::MidpointNearestEven);
    if share.is_zero() {
        return Some(Amount::ZERO);
    }
    Amount::parse_exact(&share.to_string()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::{FeePaid, Liquidity};
    use crate::testing::*;
    use spoolgate_wire::ids::Currency;

    fn fill(world: &World, seq: u64, side: Side, size: &str, price: &str) -> Fill {
        Fill {
            order_id: OrderId::of_line(seq),
            strategy: trend(),
            symbol: btc(),
            side,
            role: OrderRole::Entry,
            price: a(price),
            size: a(size),
            multiplier: Amount::ONE,
            fee: a("0.01"),
            fee_paid: None,
            liquidity: Liquidity::Taker,
            realised: Amount::ZERO,
            market_time: world.now,
            recorded_at: world.now,
        }
    }

    #[test]
    fn an_event_that_does_not_fit_is_refused_and_leaves_the_book_unchanged() {
        let mut world = World::holding("0.01");
        world.accepted(&limit(
            market_order("trend", "BTC-USD", "buy", "0.02", "6690", 1),
            "6750",
        ));
        let before = world.book.clone();
        let mut wrong_profit = fill(&world, 2, Side::Sell, "0.01", "6800");
        wrong_profit.realised = a("5");
        let mut eaten = fill(&world, 2, Side::Buy, "0.01", "6800");
        eaten.fee_paid = Some(Box::new(FeePaid {
            currency: Currency::usd(),
            amount: a("0.01"),
            from_size: true,
        }));
        let placed = world.book.orders[&OrderId::of_line(2)].clone();
        for (change, expect) in [
            (
                Change::OrderFilled(fill(&world, 9, Side::Buy, "0.01", "6800")),
                "order `o-9` is not open",
            ),
            (
                Change::OrderFilled(fill(&world, 2, Side::Buy, "0.021", "6800")),
                "larger than what is left",
            ),
            (
                Change::OrderFilled(fill(&world, 2, Side::Sell, "0.011", "6800")),
                "turn the position around",
            ),
            (Change::OrderFilled(wrong_profit), "states 5 as realised"),
            (Change::OrderFilled(eaten), "takes all that was bought"),
            (
                Change::OrderFilled(fill(
                    &world,
                    2,
                    Side::Buy,
                    "0.01",
                    "79228162514264337593543950335",
                )),
                "exactly",
            ),
            (
                Change::AccountAdjusted {
                    amount: a("79228162514264337593543950335"),
                },
                "exactly",
            ),
            (Change::OrderPlaced(Box::new(placed)), "already open"),
            (
                Change::OrderTriggered {
                    order_id: OrderId::of_line(9),
                },
                "cannot be triggered",
            ),
        ] {
            let error = world.book.apply(&change).unwrap_err().to_string();
            assert!(error.contains(expect), "{error}");
            assert_eq!(world.book, before, "{expect}");
        }
    }

    #[test]
    fn reducing_takes_its_share_of_the_cost_and_closing_the_rest() {
        for (cost, part, whole, expect) in [
            ("100", "1", "3", "33.33333333"),
            ("-100", "1", "3", "-33.33333333"),
            ("200", "1", "3", "66.66666667"),
            ("0.00000001", "1", "2", "0"),
            ("0.00000003", "1", "2", "0.00000002"),
            ("-0.00000001", "1", "2", "0"),
        ] {
            assert_eq!(
                cost_share(a(cost), a(part), a(whole)),
                Some(a(expect)),
                "{cost} {part}/{whole}"
            );
        }
        let mut world = World::new();
        world.accepted(&buy("0.03"));
        world.apply(&[Change::OrderFilled(fill(
            &world,
            1,
            Side::Buy,
            "0.03",
            "6800.1",
        ))]);
        world.accepted(&sell("0.03"));
        for (expect_size, expect_realised) in [
            (Some("0.02"), "-0.001"),
            (Some("0.01"), "-0.002"),
            (None, "-0.003"),
        ] {
            let mut fill = fill(&world, 2, Side::Sell, "0.01", "6800");
            fill.realised = world.book.fill_effect(&fill).unwrap().realised;
            world.apply(&[Change::OrderFilled(fill)]);
            let held = world.book.positions.values().next();
            assert_eq!(held.map(|held| held.size), expect_size.map(a));
            assert_eq!(world.book.account.realised, a(expect_realised));
        }
        // 5000 - 0.003 - 4 x 0.01
        assert_eq!(world.book.account.cash, a("4999.957"));
    }

    #[test]
    fn a_latch_keeps_its_first_time() {
        let mut world = World::new();
        let first = world.now;
        for at in [first, first.plus_ms(1)] {
            world.apply(&[Change::DrawdownLatched {
                at,
                equity: Amount::ZERO,
            }]);
        }
        assert_eq!(world.book.account.drawdown_since, Some(first));
    }
}
