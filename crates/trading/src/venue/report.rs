//! Reports of a bridge on orders at its venue. What a venue did is a fact and is booked as
//! reported; stops, targets and everything else follow by the same code as on paper.

use std::fmt;

use super::VenueError;
use super::outbox::IDLE_EXITS_MAX;
use super::paper::Run;
use crate::book::{Book, Doubt};
use crate::change::Change;
use crate::conduct::disabling;
use crate::order::{AtVenue, Fill, Liquidity, Order, OrderEnd, OrderRole};
use spoolgate_rules::Rulebook;
use spoolgate_rules::bounds::{Bounded, OutOfBounds, Within};
use spoolgate_rules::instruments::{Instrument, MarketSource, Venue};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::code::Code;
use spoolgate_wire::ids::{Leg, OrderId, Principal, Symbol};
use spoolgate_wire::orders::OrderType;
use spoolgate_wire::time::Time;
use spoolgate_wire::venue::{ExecEvent, Gone, TradeLiquidity, VenueReport};

/// Maximum number of symbols that a trade on an unknown order closes, so that the line fits.
const DOUBTED_MAX: usize = 128;

/// A report that the gate did not book.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// One of the `REPORT_` codes.
    pub code: Code,
    /// The reason, in words.
    pub what: String,
    /// Changes that apply nevertheless: if book and venue differ, symbols are closed to entries.
    pub changes: Vec<Change>,
}

/// The sender of a report, the time, and what the gate knows about the report besides the book.
#[derive(Clone, Copy, Debug)]
pub struct Reporting<'a> {
    /// The bridge that signed the report.
    pub bridge: &'a Principal,
    /// The line that booked this `exec_id` of the bridge before.
    pub booked_in: Option<u64>,
    /// The gate's clock.
    pub now: Time,
    /// The ledger line of this report; it names the market orders that the report causes.
    pub seq: u64,
}

/// Books a report. Returns the changes before they are handed over to the outbox.
///
/// # Errors
/// Returns [`Refused`] if the report is not booked.
pub fn on_report(
    book: &Book,
    rules: &Rulebook,
    report: &VenueReport,
    by: &Reporting<'_>,
) -> Result<Vec<Change>, Refused> {
    let (order_id, exec_id, cum_qty) = (report.order_id, &report.exec_id, report.cum_qty);
    let refuse = |code: Code, what: String| Refused {
        code,
        what,
        changes: Vec::new(),
    };
    if let Some(line) = by.booked_in {
        let what = format!("report `{exec_id}` was already booked in ledger line {line}");
        return Err(refuse(Code::ReportDuplicate, what));
    }
    let known = book
        .orders
        .get(&order_id)
        .and_then(|order| Some((order, order.at_venue.as_ref()?)));
    let Some((order, venue)) = known.filter(|(_, venue)| venue.bridge == *by.bridge) else {
        let mut refused = refuse(
            Code::ReportUnknown,
            format!("order `{order_id}` is not open at `{}`", by.bridge),
        );
        if matches!(report.event, ExecEvent::Trade { .. }) {
            let doubt = Doubt {
                order_id,
                what: format!(
                    "`{}` reports a trade of `{order_id}`, which is not open there",
                    by.bridge
                ),
                at: by.now,
            };
            refused.changes = symbols_of(book, rules, by.bridge)
                .map(|symbol| Change::SymbolDoubted {
                    symbol,
                    doubt: doubt.clone(),
                })
                .collect();
        }
        return Err(refused);
    };
    let differs = |code: Code, what: String| {
        let symbol = order.symbol.clone();
        let doubt = Doubt {
            order_id,
            what: what.clone(),
            at: by.now,
        };
        let is_new = !book.doubted_symbols.contains_key(&symbol);
        let changes = is_new
            .then_some(Change::SymbolDoubted { symbol, doubt })
            .into_iter()
            .collect();
        Refused {
            code,
            what,
            changes,
        }
    };
    if let Some(what) = of_earlier(order_id, venue, report) {
        return Err(refuse(Code::ReportUnknown, what));
    }
    if let Some(what) = impossible(order, venue, report) {
        return Err(differs(Code::ReportImpossible, what));
    }
    let last = if let ExecEvent::Trade { last_qty, .. } = report.event {
        last_qty
    } else {
        Amount::ZERO
    };
    if order.filled.checked_add(last) != Some(cum_qty) {
        let what = format!(
            "`{order_id}` has filled {} in the book, which with this report is not {cum_qty}",
            order.filled
        );
        return Err(differs(Code::ReportOutOfOrder, what));
    }
    let unbooked = |error: &dyn fmt::Display| {
        let what = format!("report `{exec_id}` on `{order_id}` cannot be booked: {error}");
        differs(Code::ReportImpossible, what)
    };
    let instrument = stand_in(order, venue)
        .map_err(|error| unbooked(&format_args!("its multiplier {error}")))?;
    let booked = Booking::new(book, rules, &instrument, order, by).book(report);
    booked.map_err(|error| unbooked(&error))
}

/// Returns why the end of an order is not news: it is known, or the order was placed again since.
fn of_earlier(id: OrderId, venue: &AtVenue, report: &VenueReport) -> Option<String> {
    let ExecEvent::Gone { version, .. } = report.event else {
        return None;
    };
    if venue.gone {
        return Some(format!("`{id}` is known to be gone from the venue"));
    }
    let (version, again) = (version?, venue.again?);
    (version < again).then(|| format!("`{id}` was placed again as version {again} since"))
}

/// Returns why a report contradicts the instructions.
fn impossible(order: &Order, venue: &AtVenue, report: &VenueReport) -> Option<String> {
    let id = order.order_id;
    if !venue.is_out() {
        return Some(format!("no bridge was instructed to place `{id}` yet"));
    }
    match report.event {
        ExecEvent::Working { version } if version > venue.version => Some(format!(
            "version {version} of `{id}` was never instructed; {} is the newest",
            venue.version
        )),
        ExecEvent::Working { version }
            if venue.sizes.last().is_none_or(|(last, _)| version > *last) =>
        {
            Some(format!(
                "version {version} of `{id}` is its cancel: the venue cannot work that"
            ))
        }
        ExecEvent::Gone {
            version: Some(version),
            ..
        } if version > venue.version => Some(format!(
            "version {version} of `{id}` was never instructed; {} is the newest",
            venue.version
        )),
        ExecEvent::Gone { version: None, .. } if venue.again.is_some() => Some(format!(
            "`{id}` was placed more than once, so its end must state `version`: the newest that was \
                carried out"
        )),
        // A version that is smaller than what had filled by then is over, and its end says no more.
        _ if report.cum_qty > venue.most().max(order.filled) => Some(format!(
            "`{id}` has a size of {} at most: {} cannot have filled",
            venue.most(),
            report.cum_qty
        )),
        _ => None,
    }
}

/// Returns the symbols that a bridge can have traded: the symbols of its instruments and of orders
/// open there, without those that a doubt has already closed.
fn symbols_of<'a>(
    book: &'a Book,
    rules: &'a Rulebook,
    bridge: &'a Principal,
) -> impl Iterator<Item = Symbol> + 'a {
    let configured = rules
        .instruments
        .values()
        .filter(|it| it.bridge.as_ref() == Some(bridge));
    let open = book
        .orders
        .values()
        .filter(|order| order.at_venue.as_ref().is_some_and(|v| v.bridge == *bridge));
    let symbols = configured
        .map(|it| it.symbol.clone())
        .chain(open.map(|order| order.symbol.clone()));
    let symbols: std::collections::BTreeSet<Symbol> = symbols.collect();
    symbols
        .into_iter()
        .filter(|symbol| !book.doubted_symbols.contains_key(symbol))
        .take(DOUBTED_MAX)
}

/// Builds an instrument with just the values that booking needs: the venue has filters of its own,
/// and what it did is booked even if a person has removed the instrument from the rules since.
fn stand_in(order: &Order, venue: &AtVenue) -> Result<Instrument, OutOfBounds> {
    Ok(Instrument {
        symbol: order.symbol.clone(),
        multiplier: venue.multiplier.try_into()?,
        tick: Within::least(),
        lot: Within::least(),
        min_size: Within::least(),
        max_size: Within::least(),
        min_notional: Within::least(),
        min_stop_ticks: 0,
        quotes_from: MarketSource::Quotes,
        fills_from: MarketSource::Quotes,
        half_spread: Within::least(),
        slippage: Within::least(),
        maker_fee: Within::least(),
        taker_fee: Within::least(),
        volume_share: Within::least(),
        group: None,
        max_gap: None,
        percent_price: None,
        bar_s: Bounded::least(),
        venue: Venue::Outbox,
        bridge: Some(venue.bridge.clone()),
        reduce_only: venue.reduce_only,
    })
}

/// One report being booked.
struct Booking<'a> {
    /// The book before the report.
    before: &'a Book,
    run: Run<'a>,
    /// The order before the report.
    order: Order,
    by: &'a Reporting<'a>,
}

/// The data of a reported trade.
struct Trade {
    price: Amount,
    fee: Amount,
    liquidity: Liquidity,
    time: Time,
}

impl<'a> Booking<'a> {
    fn new(
        before: &'a Book,
        rules: &'a Rulebook,
        instrument: &'a Instrument,
        order: &Order,
        by: &'a Reporting<'a>,
    ) -> Booking<'a> {
        let mut book = before.clone();
        // Orders that are about to end count as gone for everything that follows the report.
        book.orders
            .retain(|id, other| *id == order.order_id || other.ending().is_none());
        let order = order.clone();
        Booking {
            before,
            run: Run::over(book, rules, instrument, by.now),
            order,
            by,
        }
    }

    fn book(mut self, report: &VenueReport) -> Result<Vec<Change>, VenueError> {
        let (working, gone) = match &report.event {
            ExecEvent::Working { version } => (Some(*version), None),
            ExecEvent::Trade { .. } => (None, None),
            ExecEvent::Gone { how, .. } => (None, Some(how)),
        };
        self.run.emit(Change::VenueReported {
            order_id: report.order_id,
            bridge: self.by.bridge.clone(),
            exec_id: report.exec_id.clone(),
            working,
            gone: gone.is_some() || self.is_spent(report.cum_qty),
            at: Some(self.by.now),
        })?;
        if let Some(gone) = gone {
            self.gone(gone)?;
        }
        if let ExecEvent::Trade {
            last_qty,
            last_px,
            fee,
            liquidity,
        } = report.event
        {
            let liquidity = match liquidity {
                TradeLiquidity::Maker => Liquidity::Maker,
                TradeLiquidity::Taker => Liquidity::Taker,
            };
            // A venue's clock ahead of the gate's must not put a fill into the future.
            let time = report.transact_time.min(self.by.now);
            self.trade(
                last_qty,
                report.cum_qty,
                Trade {
                    price: last_px,
                    fee,
                    liquidity,
                    time,
                },
            )?;
            self.run.watch_equity()?;
        }
        Ok(self.changes())
    }

    /// Returns the changes with at most as many closed idle exits as fit a line; later lines end
    /// the rest.
    fn changes(self) -> Vec<Change> {
        let Booking { run, before, .. } = self;
        let mut room = IDLE_EXITS_MAX;
        let steps = run.steps.finish().into_iter().flat_map(|step| step.changes);
        let is_kept = |change: &Change| {
            let Change::OrderClosed {
                order_id,
                end: OrderEnd::Retired,
                ..
            } = change
            else {
                return true;
            };
            if before
                .orders
                .get(order_id)
                .is_none_or(|order| order.role != OrderRole::Exit)
            {
                return true;
            }
            let has_room = room > 0;
            room = room.saturating_sub(1);
            has_room
        };
        steps.filter(is_kept).collect()
    }

    /// Books a trade: first the part that closes, then the part that opens. Only an entry is meant
    /// to open; what another order opens is closed at the market at once.
    fn trade(&mut self, last_qty: Amount, cum_qty: Amount, trade: Trade) -> Result<(), VenueError> {
        let order_id = self.order.order_id;
        if cum_qty > self.order.size {
            // The venue filled it when the order was larger.
            self.run.emit(Change::StopResized {
                order_id,
                size: cum_qty,
            })?;
        }
        if self.order.order_type == OrderType::Stop && !self.order.triggered {
            self.run.emit(Change::OrderTriggered { order_id })?;
        }
        if self.order.role == OrderRole::Protective {
            self.run.end_entry_of(&self.order)?;
            self.run.retire(order_id.target())?;
        }
        let key = (self.order.symbol.clone(), self.order.strategy.clone());
        let held = self
            .run
            .book
            .positions
            .get(&key)
            .filter(|held| held.closing_side() == self.order.side);
        let closes = held.map_or(Amount::ZERO, |held| held.size.abs().min(last_qty));
        let opens = last_qty.checked_sub(closes).unwrap_or(Amount::ZERO);
        if closes.is_positive() {
            self.fill(closes, &trade, trade.fee)?;
            let now = self.run.book.orders.get(&order_id).cloned();
            self.run.settle(&self.order.clone(), Amount::ZERO, closes)?;
            // The position is flat in between, so other orders that could reduce it end; this order
            // has more to fill.
            if let Some(order) = now.filter(|_| opens.is_positive()) {
                self.run.book.orders.entry(order_id).or_insert(order);
            }
        }
        if opens.is_positive() {
            let fee = if closes.is_positive() {
                Amount::ZERO
            } else {
                trade.fee
            };
            self.fill(opens, &trade, fee)?;
            self.opened(opens)?;
        }
        Ok(())
    }

    fn fill(&mut self, size: Amount, trade: &Trade, fee: Amount) -> Result<(), VenueError> {
        let order = &self.order;
        let mut fill = Fill {
            order_id: order.order_id,
            strategy: order.strategy.clone(),
            symbol: order.symbol.clone(),
            side: order.side,
            role: order.role,
            price: trade.price,
            size,
            multiplier: *self.run.instrument.multiplier,
            fee,
            liquidity: trade.liquidity,
            realised: Amount::ZERO,
            market_time: trade.time,
            recorded_at: self.run.now,
        };
        fill.realised = self.run.book.fill_effect(&fill)?.realised;
        self.run.emit(Change::OrderFilled(fill))?;
        let strategy = self.order.strategy.clone();
        match disabling(&self.run.book, self.run.rules, &strategy, trade.time) {
            Some(disabled) => self.run.emit(disabled),
            None => Ok(()),
        }
    }

    /// Runs after something was opened: the stop of the entry grows to cover it. If no stop can
    /// cover it, it is closed at the market.
    fn opened(&mut self, size: Amount) -> Result<(), VenueError> {
        let order = self.order.clone();
        let order_id = order.order_id;
        let stop = self.run.book.orders.get(&order_id.stop());
        let is_covered = order.role == OrderRole::Entry && stop.is_some_and(|stop| !stop.triggered);
        if is_covered {
            return self.run.settle(&order, size, Amount::ZERO);
        }
        self.leave(size)?;
        let now = self.run.book.orders.get(&order_id);
        if now.is_some_and(|now| now.leaves().is_zero()) {
            self.run.close(order_id, OrderEnd::Filled)?;
        } else if order.role == OrderRole::Entry {
            self.run.retire(order_id)?;
        }
        Ok(())
    }

    /// Books that the order is gone at the venue.
    fn gone(&mut self, gone: &Gone) -> Result<(), VenueError> {
        let order = self.order.clone();
        let (order_id, asked, at) = (order.order_id, order.ending(), self.run.now);
        if self.is_back(gone) {
            return self.run.retire_idle(&order);
        }
        match (gone, asked) {
            (Gone::Rejected { text }, None) => {
                let reason = text
                    .chars()
                    .map(|c| if c.is_control() { ' ' } else { c })
                    .collect();
                self.run.emit(Change::OrderRefused {
                    order_id,
                    reason,
                    at,
                })?;
            }
            (_, Some(end)) => self.run.close(order_id, end)?,
            (Gone::Expired, None) => self.run.close(order_id, OrderEnd::Expired)?,
            (Gone::Canceled, None) => self.run.close(order_id, OrderEnd::Cancelled)?,
        }
        let is_lost = asked.is_none() && order.leaves().is_positive();
        if is_lost && order.role == OrderRole::Protective {
            self.run.end_entry_of(&order)?;
            self.run.retire(order_id.target())?;
            let key = (order.symbol.clone(), order.strategy.clone());
            let held = self
                .run
                .book
                .positions
                .get(&key)
                .filter(|held| held.closing_side() == order.side);
            let size = held.map_or(Amount::ZERO, |held| held.size.abs().min(order.leaves()));
            if size.is_positive() {
                self.leave(size)?;
            }
        }
        if is_lost && order_id.leg == Leg::Flatten && self.is_bare() {
            let symbol = order.symbol.clone();
            let what = format!(
                "`{order_id}` was to close a position that no stop protects, and the venue has \
                    dropped it"
            );
            self.run.emit(Change::SymbolDoubted {
                symbol,
                doubt: Doubt { order_id, what, at },
            })?;
        }
        self.run.retire_idle(&order)?;
        self.run.match_targets(&order)
    }

    /// Whether the venue has filled all of an order that was let go, which has grown since: it is over
    /// there, and goes on at the gate.
    fn is_spent(&self, cum_qty: Amount) -> bool {
        let venue = self.order.at_venue.as_ref();
        let is_whole = |venue: &AtVenue| venue.released && cum_qty >= venue.most();
        cum_qty < self.order.size && self.order.rests() && venue.is_some_and(is_whole)
    }

    /// Whether the order goes on at the gate: the venue was asked to take it out of the market for a
    /// while, or it was let go and has not filled whole.
    fn is_back(&self, gone: &Gone) -> bool {
        let Some(venue) = &self.order.at_venue else {
            return false;
        };
        let is_unfilled = venue.released
            && self.order.rests()
            && self.order.leaves().is_positive()
            && !matches!(gone, Gone::Rejected { .. });
        venue.ending.is_none() && (venue.is_parking() || is_unfilled)
    }

    /// Whether working stops cover less than the whole position that the order is about.
    fn is_bare(&self) -> bool {
        let (book, order) = (&self.run.book, &self.order);
        let key = (order.symbol.clone(), order.strategy.clone());
        let Some(held) = book.positions.get(&key) else {
            return false;
        };
        let mut bare = Some(held.size.abs());
        for stop in book.orders.values() {
            let works = stop.role == OrderRole::Protective && stop.ending().is_none();
            if works && stop.is_of(&order.strategy, &order.symbol) {
                bare = bare.and_then(|bare| bare.checked_sub(stop.leaves()));
            }
        }
        bare.is_none_or(|bare| bare.is_positive())
    }

    /// Places a market order that closes this size at once.
    fn leave(&mut self, size: Amount) -> Result<(), VenueError> {
        let key = (self.order.symbol.clone(), self.order.strategy.clone());
        let Some(held) = self.run.book.positions.get(&key) else {
            return Ok(());
        };
        let (order_id, side) = (OrderId::of_line(self.by.seq).flatten(), held.closing_side());
        let leaving = self.order.leaving(order_id, side, size, self.run.now);
        self.run.emit(Change::OrderPlaced(leaving))
    }
}
