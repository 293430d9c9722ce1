//! The paper venue: fills the open orders of one symbol from rows.
//!
//! Within a row, orders are processed in these groups, by order id within each group:
//! 1. orders that leave at the market: exits of type market, and stops triggered by an earlier row;
//! 2. entries, so that a position may be stopped out by the bar that opened it;
//! 3. stops of positions: protective stops and exits of type stop;
//! 4. resting limit exits and targets, so that a bar that touches stop and target counts as
//!    stopped.
//!
//! An entry that fills in a bar fills somewhere within it, so the same bar closes it only at prices
//! that certainly came later: its protective stop starts from the entry's price if that is worse
//! than the open, and exits reduce only what was held before.
//!
//! An order uses only bars that open, or quotes that are known, at or after its acceptance. Bars
//! fill at most `volume_share` of their volume over all orders, quotes at most the size on each
//! side, rounded down to the lot; rows without volume or sizes set no cap. The unfilled part stays
//! open; a triggered stop continues to fill like a market order.

use std::collections::BTreeMap;

use super::VenueError;
use super::filters;
use super::levels::Levels;
use super::quoting::{Answer, Offer, Tape, answer};
use super::room::Room;
use super::steps::{Step, Steps};
use super::watching::is_short;
use crate::book::{Baseline, Book, Last, Quote};
use crate::cancel;
use crate::change::Change;
use crate::conduct::disabling;
use crate::exits;
use crate::fold::ApplyError;
use crate::guard::{self, Impose};
use crate::market_row::Row;
use crate::order::{Fill, Liquidity, Order, OrderEnd, OrderRole};
use crate::reach::entries;
use spoolgate_rules::Rulebook;
use spoolgate_rules::instruments::{Instrument, MarketSource, Venue};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{Leg, OrderId, StrategyName, Symbol};
use spoolgate_wire::orders::{OrderType, Side, TimeInForce};
use spoolgate_wire::time::Time;

/// Decimals to which fees are rounded up.
const FEE_PLACES: u32 = 8;

/// Returns new baselines of day and week if the book lacks those of `now` (UTC): equity by the last
/// known marks. Empty if both exist, or if equity cannot be computed.
pub fn open_periods(book: &Book, rules: &Rulebook, now: Time) -> Vec<Change> {
    let account = &book.account;
    // A later day counts as another day too: a person may have accepted a clock that was set back.
    let is_missing =
        |known: &Option<Baseline>, start: Time| known.as_ref().is_none_or(|it| it.start != start);
    let (day, week) = (now.day_start(), now.week_start());
    let (no_day, no_week) = (
        is_missing(&account.day, day),
        is_missing(&account.week, week),
    );
    if !no_day && !no_week {
        return Vec::new();
    }
    let Some(equity) = book.equity_last_known(rules) else {
        return Vec::new();
    };
    let since = |start: Time| Baseline {
        start,
        equity,
        net_deposits: account.net_deposits,
        counts: true,
    };
    let day = no_day.then(|| Change::DayOpened(since(day)));
    let week = no_week.then(|| Change::WeekOpened(since(week)));
    day.into_iter().chain(week).collect()
}

/// Returns the end of day orders of any UTC day other than the day of `now`. That includes later
/// days: a person may have accepted a clock that was set back.
pub fn end_day(book: &Book, now: Time) -> Vec<Change> {
    let over = book.orders.values().filter(|order| {
        order.time_in_force == TimeInForce::Day && order.accepted_at.day_start() != now.day_start()
    });
    over.flat_map(|order| cancel::close(book, order, OrderEnd::Expired, now))
        .collect()
}

/// Runs rows of one symbol against the book. `imposed` says what else closes working entries, which
/// are asked again at each row's open, before anything fills, and after the row; without it they are
/// not asked. `seq` is the number of the first line that the steps become; it names what reports of the
/// imitated exchange place. Rows that are not newer than what the book knows are
/// skipped, so the same rows may come twice. Applying the changes of the steps in order to `book`
/// gives the book after the rows.
///
/// # Errors
/// Returns [`VenueError`] for an instrument that is not configured, rows that are not market data,
/// or a book that contradicts itself.
pub fn on_rows(
    book: &Book,
    rules: &Rulebook,
    symbol: &Symbol,
    rows: &[Row],
    imposed: Option<&dyn Impose>,
    now: Time,
    seq: u64,
) -> Result<Vec<Step>, VenueError> {
    let mut run = Run::new(book, rules, symbol, now)?;
    (run.imposed, run.seq) = (imposed, seq);
    let ahead_ms = i64::from(rules.safety.request_ahead_max_s).saturating_mul(1000);
    let possible_ms = now.ms().saturating_add(ahead_ms);
    let is_new = |book: &Book, row: &Row| is_new(book, symbol, row, possible_ms);
    let mut rows = rows.iter().enumerate().peekable();
    // The day opens before anything moves, but an import without new rows opens none.
    while let Some((_, row)) = rows.peek()
        && !is_new(&run.book, row)
    {
        run.steps.row_done();
        rows.next();
    }
    if rows.peek().is_some() {
        for opened in open_periods(&run.book, rules, now) {
            run.emit(opened)?;
        }
    }
    for (index, row) in rows {
        if is_new(&run.book, row) {
            run.row(index, row)?;
        }
        run.steps.row_done();
    }
    Ok(run.steps.finish())
}

/// Counts the rows, which must be in order, that [`on_rows`] will not skip.
pub fn count_new(book: &Book, rules: &Rulebook, symbol: &Symbol, rows: &[Row], now: Time) -> usize {
    let ahead_ms = i64::from(rules.safety.request_ahead_max_s).saturating_mul(1000);
    let possible_ms = now.ms().saturating_add(ahead_ms);
    rows.iter()
        .filter(|row| is_new(book, symbol, row, possible_ms))
        .count()
}

/// Whether a row is newer than what the book knows. Data that the book knows from later than
/// `possible_ms` date from before the clock was set back, and are ignored; otherwise no row would
/// be new for that long.
fn is_new(book: &Book, symbol: &Symbol, row: &Row, possible_ms: i64) -> bool {
    let Some(market) = book.markets.get(symbol) else {
        return true;
    };
    let used = match row {
        Row::Bar { .. } => market.last.as_ref().map(|last| last.time.ms()),
        Row::Quote { .. } => market.quote.as_ref().map(|quote| quote.time.ms()),
    };
    // The same row once more does not agree with itself.
    let held = market.held.as_ref().map(|held| held.row);
    let held = held.filter(|held| held.kind() == row.kind());
    let is_later = |known: i64| row.known_ms() > known || known > possible_ms;
    used.is_none_or(is_later) && held.is_none_or(|held| is_later(held.known_ms()))
}

/// One run of the venue.
pub(super) struct Run<'a> {
    /// The working copy of the book.
    pub(super) book: Book,
    pub(super) rules: &'a Rulebook,
    pub(super) instrument: &'a Instrument,
    /// The gate's clock.
    pub(super) now: Time,
    /// The number of the line that the first step becomes.
    pub(super) seq: u64,
    pub(super) steps: Steps,
    /// When the current row was known.
    pub(super) row_time: Time,
    /// Start of the current row, if orders can use it and the venue must know which of them are new
    /// to it.
    pub(super) reached: Option<Time>,
    /// What closes working entries besides book and rules; `None` if they are not asked again.
    imposed: Option<&'a dyn Impose>,
    /// How much the current row can still fill.
    pub(super) room: Room,
    /// Levels of theses that the rows of this symbol have not crossed yet.
    pub(super) levels: Levels<'a>,
    /// What this bar has opened and no stop has closed yet, by the line of the entry. Empty for
    /// quotes, which are a single instant.
    opened: BTreeMap<u64, Opened>,
}

/// What an entry opened in the current bar.
struct Opened {
    strategy: StrategyName,
    price: Amount,
    size: Amount,
}

/// The four groups of orders within a row.
pub(super) const GROUPS: [fn(&Order) -> bool; 4] = [
    |order| {
        order.role != OrderRole::Entry && (order.order_type == OrderType::Market || order.triggered)
    },
    |order| order.role == OrderRole::Entry,
    |order| {
        order.role != OrderRole::Entry && order.order_type == OrderType::Stop && !order.triggered
    },
    |order| {
        matches!(order.role, OrderRole::Exit | OrderRole::Target)
            && order.order_type == OrderType::Limit
    },
];

impl<'a> Run<'a> {
    pub(super) fn new(
        book: &Book,
        rules: &'a Rulebook,
        symbol: &Symbol,
        now: Time,
    ) -> Result<Run<'a>, VenueError> {
        let unknown = || VenueError::UnknownInstrument {
            symbol: symbol.clone(),
        };
        let instrument = rules.instruments.get(symbol).ok_or_else(unknown)?;
        Ok(Run::over(book.clone(), rules, instrument, now))
    }

    /// Creates a run over this working copy.
    pub(super) fn over(
        book: Book,
        rules: &'a Rulebook,
        instrument: &'a Instrument,
        now: Time,
    ) -> Run<'a> {
        let steps = Steps::new(instrument.symbol.clone());
        let (room, opened) = (Room::default(), BTreeMap::new());
        let levels = Levels::of(&book, rules, &instrument.symbol);
        Run {
            book,
            rules,
            instrument,
            now,
            seq: 0,
            steps,
            row_time: now,
            reached: None,
            imposed: None,
            room,
            levels,
            opened,
        }
    }
}

impl Run<'_> {
    /// Applies a change to the working copy and adds it to the steps.
    pub(super) fn emit(&mut self, change: Change) -> Result<(), VenueError> {
        self.book.apply(&change)?;
        self.steps.push(change);
        Ok(())
    }

    /// Takes a row: holds it if it is not plausible, otherwise uses it. A row that was held before
    /// is settled first: used if this one agrees with it, otherwise dropped.
    fn row(&mut self, index: usize, row: &Row) -> Result<(), VenueError> {
        let read = Read::of(index, row)?;
        if let Some(held) = self.held() {
            if self.agrees(row, &held) {
                self.use_row(&Read::of(index, &held.row)?)?;
                return self.use_row(&read);
            }
            let symbol = self.instrument.symbol.clone();
            self.emit(Change::RowDropped { symbol })?;
        }
        match self.gap(&read) {
            Some(gap) if is_short(row) => self.hold(*row, gap.previous),
            Some(_) => self.use_row(&read),
            None => self.use_plausible(&read),
        }
    }

    /// Uses a row that is believed; a gap before it halts the symbol, and exits and stops continue.
    fn use_row(&mut self, read: &Read<'_>) -> Result<(), VenueError> {
        if let Some(gap) = self.gap(read) {
            self.halt(gap)?;
        }
        self.use_plausible(read)
    }

    fn use_plausible(&mut self, read: &Read<'_>) -> Result<(), VenueError> {
        let Read {
            row,
            tape,
            start_ms,
            source,
            time,
        } = *read;
        self.row_time = time;
        self.row_at_imitated(read)?;
        if self.instrument.fills_from == source {
            self.room = Room::of(row, self.instrument);
            self.opened.clear();
            self.expire_of_earlier_days(start_ms)?;
            self.refuse_exits(start_ms)?;
            self.refuse_far(start_ms)?;
            self.ask_again(Some(row))?;
            for group in GROUPS {
                for order_id in self.reached(group, start_ms) {
                    self.try_fill(order_id, &tape, time)?;
                }
            }
            for order_id in self.reached(|order| order.time_in_force == TimeInForce::Ioc, start_ms)
            {
                self.expire(order_id)?;
            }
        }
        self.refute_theses(row, time)?;
        self.market_moved(row, time)?;
        self.watch_equity()?;
        self.release()?;
        self.ask_again(None)
    }

    /// Lets the exits and targets go that rest at the gate where the market is now.
    fn release(&mut self) -> Result<(), VenueError> {
        let symbol = &self.instrument.symbol;
        let own = self
            .book
            .orders
            .values()
            .filter(|order| order.symbol == *symbol);
        let reached = own.filter(|order| {
            order.is_held()
                && order.leaves().is_positive()
                && order.ending().is_none()
                && exits::is_reached(&self.book, self.rules, order, self.now)
        });
        let reached: Vec<OrderId> = reached.map(|order| order.order_id).collect();
        for order_id in reached {
            self.emit(Change::OrderReleased { order_id })?;
        }
        Ok(())
    }

    /// Pulls the working entries that are no longer allowed: with the market at the open of a row, or
    /// as it is.
    fn ask_again(&mut self, at_open_of: Option<&Row>) -> Result<(), VenueError> {
        let Some(imposed) = self
            .imposed
            .filter(|_| entries(&self.book).next().is_some())
        else {
            return Ok(());
        };
        let (symbol, time) = (&self.instrument.symbol, self.row_time);
        let before = self.book.markets.get(symbol).cloned();
        if let Some(row) = at_open_of {
            let market = self.book.markets.entry(symbol.clone()).or_default();
            match *row {
                Row::Bar { open, .. } => {
                    let volume = None;
                    market.last = Some(Last {
                        price: open,
                        volume,
                        time,
                    });
                }
                Row::Quote { bid, ask, .. } => market.quote = Some(Quote { bid, ask, time }),
            }
        }
        let margin = *self.rules.safety.pull_margin;
        let pulls = guard::pulls(&self.book, self.rules, imposed, self.now, margin);
        let pulls: Vec<Change> = pulls
            .iter()
            .flat_map(|pull| pull.changes(&self.book, self.now))
            .collect();
        if at_open_of.is_some() {
            match before {
                Some(before) => self.book.markets.insert(symbol.clone(), before),
                None => self.book.markets.remove(symbol),
            };
        }
        let pulls = match self.instrument.venue {
            Venue::Imitated => self.handed_over(pulls),
            Venue::Paper | Venue::Outbox => pulls,
        };
        pulls.into_iter().try_for_each(|change| self.emit(change))
    }

    /// Ends day orders that were accepted on a day before the day of the row.
    fn expire_of_earlier_days(&mut self, start_ms: i64) -> Result<(), VenueError> {
        let symbol = &self.instrument.symbol;
        let Ok(start) = Time::from_ms(start_ms) else {
            return Ok(());
        };
        let over = self.book.orders.values().filter(|order| {
            order.time_in_force == TimeInForce::Day
                && order.symbol == *symbol
                && order.at_venue.is_none()
                && order.accepted_at.day_start() < start.day_start()
        });
        let over: Vec<OrderId> = over.map(|order| order.order_id).collect();
        over.into_iter()
            .try_for_each(|order_id| self.expire(order_id))
    }

    /// Ends an order whose time in force is over.
    fn expire(&mut self, order_id: OrderId) -> Result<(), VenueError> {
        let Some(order) = self.book.orders.get(&order_id) else {
            return Ok(());
        };
        let changes = cancel::close(&self.book, order, OrderEnd::Expired, self.now);
        changes.into_iter().try_for_each(|change| self.emit(change))
    }

    /// Refuses exits that have not started to fill and do not meet the venue's filters.
    fn refuse_exits(&mut self, start_ms: i64) -> Result<(), VenueError> {
        let is_new = |order: &Order| {
            let sent = order.role == OrderRole::Exit && order.order_id.leg == Leg::Order;
            sent && order.filled.is_zero() && !order.triggered
        };
        for order_id in self.reached(is_new, start_ms) {
            let Some(order) = self.book.orders.get(&order_id) else {
                continue;
            };
            let key = (order.symbol.clone(), order.strategy.clone());
            let held = self
                .book
                .positions
                .get(&key)
                .map_or(Amount::ZERO, |held| held.size.abs());
            if let Some(reason) = filters::refuses_exit(order, held, self.instrument) {
                let at = self.now;
                self.emit(Change::OrderRefused {
                    order_id,
                    reason,
                    at,
                })?;
            }
        }
        Ok(())
    }

    /// Returns the orders of a group that may use a row that starts at `start_ms`.
    fn reached(&self, group: fn(&Order) -> bool, start_ms: i64) -> Vec<OrderId> {
        let symbol = &self.instrument.symbol;
        let orders = self.book.orders.values().filter(|order| {
            order.symbol == *symbol
                && order.at_venue.is_none()
                // An order accepted later than now was accepted before the clock was set back, so
                // before every row.
                && (order.accepted_at.ms() <= start_ms || order.accepted_at > self.now)
                && order.leaves().is_positive()
                && group(order)
        });
        orders.map(|order| order.order_id).collect()
    }

    fn try_fill(&mut self, order_id: OrderId, tape: &Tape, time: Time) -> Result<(), VenueError> {
        // An earlier fill of the row may have closed the order, or left a stop without anything to
        // protect. Such a stop must not trigger: that would end the entry it waits for.
        let open = self
            .book
            .orders
            .get(&order_id)
            .filter(|order| order.leaves().is_positive());
        let Some(order) = open.cloned() else {
            return Ok(());
        };
        if order.role == OrderRole::Entry && self.book.halted_symbols.contains_key(&order.symbol) {
            return Ok(());
        }
        let quote = self
            .book
            .markets
            .get(&order.symbol)
            .and_then(|market| market.quote.as_ref());
        // A quote of the exact instant of acceptance was known before the order.
        let rested = quote.is_some_and(|quote| quote.time > order.accepted_at);
        let tape = self.tape_since_entry(&order, tape);
        let offer = match answer(&order, &tape, rested, self.instrument) {
            Answer::NotReached => return Ok(()),
            Answer::NoPrice => {
                self.steps
                    .left_open(order_id, "its price cannot be computed exactly".to_owned());
                return Ok(());
            }
            Answer::Fills(offer) => offer,
        };
        if order.order_type == OrderType::Stop && !order.triggered {
            self.emit(Change::OrderTriggered { order_id })?;
            if order.role == OrderRole::Protective {
                self.end_entry_of(&order)?;
                self.retire(order.order_id.target())?;
            }
        }
        let is_bar = matches!(tape, Tape::Bar { .. });
        // An entry against an opposite position fills in two parts: one closes, the other opens.
        for _ in 0..2 {
            let Some(order) = self.book.orders.get(&order_id).cloned() else {
                return Ok(());
            };
            if !self.fill_part(&order, &offer, is_bar, time)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Fills as much as position and volume allow without reversing a position. Returns whether
    /// anything filled.
    fn fill_part(
        &mut self,
        order: &Order,
        offer: &Offer,
        is_bar: bool,
        time: Time,
    ) -> Result<bool, VenueError> {
        let key = (order.symbol.clone(), order.strategy.clone());
        let opposite = self
            .book
            .positions
            .get(&key)
            .filter(|held| held.closing_side() == order.side);
        let reducible = opposite.map(|held| held.size.abs());
        let wanted = match (reducible, order.role) {
            (Some(reducible), OrderRole::Exit) => order
                .leaves()
                .min(self.held_before(&order.strategy, reducible)),
            (Some(reducible), OrderRole::Target) => {
                let own = self
                    .opened
                    .get(&order.order_id.seq)
                    .map_or(Amount::ZERO, |opened| opened.size);
                let before = order.leaves().checked_sub(own).unwrap_or(Amount::ZERO);
                before.min(self.held_before(&order.strategy, reducible))
            }
            (Some(reducible), OrderRole::Entry | OrderRole::Protective) => {
                order.leaves().min(reducible)
            }
            (None, OrderRole::Entry) => order.leaves(),
            // Reduce-only: without a position there is nothing to reduce.
            (None, OrderRole::Exit | OrderRole::Protective | OrderRole::Target) => Amount::ZERO,
            // Over in the line that places it.
            (_, OrderRole::Adjust) => Amount::ZERO,
        };
        let size = self.room.within(order.side, wanted, *self.instrument.lot);
        let Some(size) = size.filter(|size| size.is_positive()) else {
            return Ok(false);
        };
        let fill = match self.fill_of(order, offer, size, time) {
            Ok(fill) => fill,
            Err(error @ ApplyError::Arithmetic { .. }) => {
                self.steps.left_open(order.order_id, error.to_string());
                return Ok(false);
            }
            Err(error) => return Err(error.into()),
        };
        self.emit(Change::OrderFilled(fill))?;
        if let Some(disabled) = disabling(&self.book, self.rules, &order.strategy, time) {
            self.emit(disabled)?;
        }
        self.room.take(order.side, size);
        let (opened, reduced) = if reducible.is_some() {
            (Amount::ZERO, size)
        } else {
            (size, Amount::ZERO)
        };
        if is_bar {
            self.remember(order, offer.price, size, opened);
        }
        self.settle(order, opened, reduced)?;
        Ok(true)
    }

    /// Returns the bar as the protective stop of an entry filled in it may use it: starting at the
    /// entry's price, if that is worse than the open. Otherwise a stop tightened past a resting
    /// limit would sell above the price to which the bar had to fall first.
    fn tape_since_entry(&self, order: &Order, tape: &Tape) -> Tape {
        let opened = self
            .opened
            .get(&order.order_id.seq)
            .filter(|_| order.role == OrderRole::Protective);
        match (*tape, opened) {
            (Tape::Bar { open, high, low }, Some(opened)) => {
                let open = match order.side {
                    Side::Buy => open.max(opened.price),
                    Side::Sell => open.min(opened.price),
                };
                Tape::Bar { open, high, low }
            }
            (tape, _) => tape,
        }
    }

    /// Returns how much of `held` the strategy had before this bar opened more.
    fn held_before(&self, strategy: &StrategyName, held: Amount) -> Amount {
        let opened = self
            .opened
            .values()
            .filter(|opened| opened.strategy == *strategy);
        let left = opened
            .map(|opened| opened.size)
            .try_fold(held, Amount::checked_sub);
        // A size that cannot be computed exactly waits for the next row.
        left.filter(|left| left.is_positive())
            .unwrap_or(Amount::ZERO)
    }

    /// Records what this bar opened, less what the entry's own stop has closed again.
    fn remember(&mut self, order: &Order, price: Amount, size: Amount, opened: Amount) {
        let seq = order.order_id.seq;
        if opened.is_positive() {
            let strategy = order.strategy.clone();
            self.opened.insert(
                seq,
                Opened {
                    strategy,
                    price,
                    size: opened,
                },
            );
        } else if order.role == OrderRole::Protective
            && let Some(entry) = self.opened.get_mut(&seq)
        {
            let left = entry
                .size
                .checked_sub(size)
                .filter(|left| left.is_positive());
            entry.size = left.unwrap_or(Amount::ZERO);
        }
    }

    /// Returns the fee on a notional or a size, in its unit. `None` if it cannot be computed exactly.
    pub(super) fn fee_on(&self, whole: Amount, liquidity: Liquidity) -> Option<Amount> {
        let rate = match liquidity {
            Liquidity::Maker => self.instrument.maker_fee,
            Liquidity::Taker => self.instrument.taker_fee,
        };
        Some(whole.checked_mul(*rate)?.round_dp_up(FEE_PLACES))
    }

    fn fill_of(
        &self,
        order: &Order,
        offer: &Offer,
        size: Amount,
        time: Time,
    ) -> Result<Fill, ApplyError> {
        let notional = offer
            .price
            .checked_mul(size)
            .and_then(|v| v.checked_mul(*self.instrument.multiplier));
        let fee = notional.and_then(|notional| self.fee_on(notional, offer.liquidity));
        let fee = fee.ok_or(ApplyError::Arithmetic {
            what: "the fee of the fill",
        })?;
        let mut fill = Fill {
            order_id: order.order_id,
            strategy: order.strategy.clone(),
            symbol: order.symbol.clone(),
            side: order.side,
            role: order.role,
            price: offer.price,
            size,
            multiplier: *self.instrument.multiplier,
            fee,
            fee_paid: None,
            liquidity: offer.liquidity,
            realised: Amount::ZERO,
            market_time: time,
            recorded_at: self.now,
        };
        fill.realised = self.book.fill_effect(&fill)?.realised;
        Ok(fill)
    }
}

/// A row with what the venue reads from it.
#[derive(Clone, Copy)]
pub(super) struct Read<'a> {
    pub(super) row: &'a Row,
    /// The row in the form that orders use.
    pub(super) tape: Tape,
    pub(super) start_ms: i64,
    pub(super) source: MarketSource,
    /// When the row was known.
    pub(super) time: Time,
}

impl<'a> Read<'a> {
    /// Reads the row with this index.
    fn of(index: usize, row: &'a Row) -> Result<Read<'a>, VenueError> {
        let fault = |what: &'static str| VenueError::Row { row: index, what };
        let time =
            Time::from_ms(row.known_ms()).map_err(|_| fault("its time is outside the calendar"))?;
        let (tape, start_ms, source) = tape(row).map_err(fault)?;
        Ok(Read {
            row,
            tape,
            start_ms,
            source,
            time,
        })
    }
}

/// Converts a row to the form that orders use, with its start time and its source. The error says
/// what is wrong with the row.
fn tape(row: &Row) -> Result<(Tape, i64, MarketSource), &'static str> {
    match *row {
        Row::Bar {
            open_ms,
            open,
            high,
            low,
            close,
            interval_ms,
            ..
        } => {
            if interval_ms <= 0 {
                return Err("its interval is not above 0");
            }
            if !low.is_positive() || low > open || low > close || high < open || high < close {
                return Err("it does not hold 0 < low <= open, close <= high");
            }
            Ok((Tape::Bar { open, high, low }, open_ms, MarketSource::Bars))
        }
        Row::Quote {
            time_ms, bid, ask, ..
        } => {
            if !bid.is_positive() || ask < bid {
                return Err("it does not hold 0 < bid <= ask");
            }
            Ok((Tape::Quote { bid, ask }, time_ms, MarketSource::Quotes))
        }
    }
}
