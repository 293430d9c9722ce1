//! Reports of a bridge on orders at its venue. What a venue did is a fact and is booked as
//! reported; stops, targets and everything else follow by the same code as on paper.

use std::fmt;

use super::VenueError;
use super::outbox::IDLE_EXITS_MAX;
use super::paper::Run;
use crate::book::{Book, Doubt};
use crate::change::Change;
use crate::conduct::disabling;
use crate::fold::ApplyError;
use crate::order::{
    AtVenue, FeePaid, Fill, Liquidity, Order, OrderEnd, OrderRole, Position, Stated,
};
use spoolgate_rules::Rulebook;
use spoolgate_rules::bounds::{Bounded, OutOfBounds, Within};
use spoolgate_rules::instruments::{Instrument, MarketSource, Venue};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::code::Code;
use spoolgate_wire::ids::{Currency, Leg, OrderId, Principal, Symbol};
use spoolgate_wire::orders::{OrderType, Side};
use spoolgate_wire::time::Time;
use spoolgate_wire::venue::{EXPIRED, ExecEvent, Gone, TradeLiquidity, VenueReport};

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
                order_id: Some(order_id),
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
            order_id: Some(order_id),
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
    let fee = fee_of(order, venue, rules, &report.event).map_err(|fault| match fault {
        FeeFault::NoValue(_) => refuse(Code::MalformedPayload, fault.to_string()),
        FeeFault::TooLarge { .. } | FeeFault::Digits => unbooked(&fault),
    })?;
    let booked = Booking::new(book, rules, &instrument, order, by).book(report, &fee);
    booked.map_err(|error| unbooked(&error))
}

/// Returns the changes that follow where a version of an order reached nobody, because the gate took
/// its file back: an order that shall end, and an entry, is over if the venue can work no other
/// version of it; anything else is instructed again. Empty if the version may have reached somebody.
///
/// # Errors
/// Returns [`VenueError`] if the book contradicts itself.
pub fn taken_back(
    book: &Book,
    rules: &Rulebook,
    order_id: OrderId,
    version: u32,
    now: Time,
) -> Result<Vec<Change>, VenueError> {
    let order = book.orders.get(&order_id);
    let Some((order, venue)) = order.and_then(|order| Some((order, order.at_venue.as_ref()?)))
    else {
        return Ok(Vec::new());
    };
    if !venue.can_take_back(version) {
        return Ok(Vec::new());
    }
    let instrument = stand_in(order, venue).map_err(|_| {
        let what = "the multiplier of the order";
        VenueError::Book(ApplyError::Arithmetic { what })
    })?;
    let by = Reporting {
        bridge: &venue.bridge,
        booked_in: None,
        now,
        seq: 0,
    };
    let mut booking = Booking::new(book, rules, &instrument, order, &by);
    booking.not_sent(version)?;
    Ok(booking.changes())
}

/// Returns the version that a report says was not sent, because its time had passed.
fn not_sent(report: &VenueReport) -> Option<u32> {
    match &report.event {
        ExecEvent::Gone {
            how: Gone::Rejected { text },
            version,
        } if text == EXPIRED => *version,
        _ => None,
    }
}

/// The fee of a trade.
struct Fee {
    /// Account currency.
    value: Amount,
    /// In what it was paid, if not in account currency.
    paid: Option<FeePaid>,
    /// Whether it was paid in the coin that the trade bought.
    is_in_bought: bool,
}

/// Why the fee of a trade cannot be booked.
#[derive(Debug, thiserror::Error)]
enum FeeFault {
    #[error(
        "the fee is in {0}, which is neither the currency of the account nor the `base` of the \
            instrument: state `fee_value`, the fee in account currency"
    )]
    NoValue(Currency),
    #[error("its fee or rebate of {fee} {base} is not smaller than its size {size}")]
    TooLarge {
        fee: Amount,
        base: Currency,
        size: Amount,
    },
    #[error("its fee cannot be valued exactly; it needs more than 28 digits")]
    Digits,
}

/// Returns the fee of a reported trade in account currency. One in the coin that the instrument trades
/// is valued at the price of the trade.
fn fee_of(
    order: &Order,
    venue: &AtVenue,
    rules: &Rulebook,
    event: &ExecEvent,
) -> Result<Fee, FeeFault> {
    let in_account = |value: Amount| Fee {
        value,
        paid: None,
        is_in_bought: false,
    };
    let ExecEvent::Trade {
        last_qty: size,
        last_px,
        fee,
        fee_currency,
        fee_value,
        ..
    } = event
    else {
        return Ok(in_account(Amount::ZERO));
    };
    let other = fee_currency.as_ref();
    let Some(currency) = other.filter(|name| **name != rules.safety.currency) else {
        return Ok(in_account(*fee));
    };
    let paid = Some(FeePaid {
        currency: currency.clone(),
        amount: *fee,
        from_size: false,
    });
    let kept = venue.units.as_ref().and_then(|units| units.base.as_ref());
    let configured = || rules.instruments.get(&order.symbol)?.base.as_ref();
    if kept.or_else(configured) != Some(currency) {
        let value = fee_value.ok_or_else(|| FeeFault::NoValue(currency.clone()))?;
        return Ok(Fee {
            value,
            paid,
            is_in_bought: false,
        });
    }
    if fee.abs() >= *size {
        return Err(FeeFault::TooLarge {
            fee: *fee,
            base: currency.clone(),
            size: *size,
        });
    }
    let value = fee
        .checked_mul(*last_px)
        .and_then(|value| value.checked_mul(venue.multiplier));
    Ok(Fee {
        value: value.ok_or(FeeFault::Digits)?,
        paid,
        is_in_bought: order.side == Side::Buy,
    })
}

/// Returns why the end of an order is not news: it is known, or the order was placed again since.
fn of_earlier(id: OrderId, venue: &AtVenue, report: &VenueReport) -> Option<String> {
    if !matches!(report.event, ExecEvent::Gone { .. }) {
        return None;
    }
    if venue.gone {
        return Some(format!("`{id}` is known to be gone from the venue"));
    }
    if let Some(version) = not_sent(report) {
        let is_known = version > venue.version || venue.can_take_back(version);
        return (!is_known).then(|| format!("version {version} of `{id}` is out of date"));
    }
    let again = venue.again?;
    let is_known = ended(venue, report).is_some_and(|version| !venue.knows_up_to(version));
    is_known.then(|| format!("`{id}` was placed again as version {again} since"))
}

/// Returns the version whose end a report states, where the order was placed again since.
fn ended(venue: &AtVenue, report: &VenueReport) -> Option<u32> {
    let ExecEvent::Gone { version, .. } = report.event else {
        return None;
    };
    let is_news = not_sent(report).is_none();
    version.filter(|version| is_news && venue.again.is_some_and(|again| *version < again))
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
            if venue
                .sizes
                .last()
                .is_none_or(|Stated(last, ..)| version > *last) =>
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
pub(super) fn stand_in(order: &Order, venue: &AtVenue) -> Result<Instrument, OutOfBounds> {
    Ok(Instrument {
        symbol: order.symbol.clone(),
        base: None,
        quote: None,
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
        imitate: None,
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
struct Trade<'f> {
    price: Amount,
    fee: &'f Fee,
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

    fn book(mut self, report: &VenueReport, fee: &Fee) -> Result<Vec<Change>, VenueError> {
        let not_sent = not_sent(report);
        let venue = self.order.at_venue.as_ref();
        let ended = venue.and_then(|venue| ended(venue, report));
        let is_whole = not_sent.is_none() && ended.is_none();
        let (working, gone) = match &report.event {
            ExecEvent::Working { version } => (Some(*version), None),
            ExecEvent::Trade { .. } => (None, None),
            ExecEvent::Gone { how, .. } => (None, Some(how).filter(|_| is_whole)),
        };
        self.run.emit(Change::VenueReported {
            order_id: report.order_id,
            bridge: self.by.bridge.clone(),
            exec_id: report.exec_id.clone(),
            working,
            ended,
            gone: gone.is_some() || self.is_spent(report.cum_qty),
            at: Some(self.by.now),
        })?;
        if let Some(version) = not_sent {
            self.not_sent(version)?;
        }
        if ended.is_some() {
            self.close_if_gone()?;
        }
        if let Some(gone) = gone {
            self.gone(gone)?;
        }
        if let ExecEvent::Trade {
            last_qty,
            last_px,
            liquidity,
            ..
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
                &Trade {
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
    /// to open; what another order opens is closed at the market at once. The fee belongs to the first
    /// part, unless it is taken from the coins that the second one buys.
    fn trade(
        &mut self,
        last_qty: Amount,
        cum_qty: Amount,
        trade: &Trade<'_>,
    ) -> Result<(), VenueError> {
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
        let coins = trade.fee.paid.as_ref().filter(|_| trade.fee.is_in_bought);
        let is_from_size = coins.is_some_and(|paid| paid.amount.abs() < opens);
        if closes.is_positive() {
            self.fill(closes, trade, !is_from_size)?;
            let now = self.run.book.orders.get(&order_id).cloned();
            self.run.settle(&self.order.clone(), Amount::ZERO, closes)?;
            // The position is flat in between, so other orders that could reduce it end; this order
            // has more to fill.
            if let Some(order) = now.filter(|_| opens.is_positive()) {
                self.run.book.orders.entry(order_id).or_insert(order);
            }
        }
        if opens.is_positive() {
            let moved = self.fill(opens, trade, closes.is_zero() || is_from_size)?;
            self.opened(moved)?;
        }
        Ok(())
    }

    /// Books a part of a trade, with or without its fee. Returns by how much the position moved.
    fn fill(&mut self, size: Amount, trade: &Trade<'_>, pays: bool) -> Result<Amount, VenueError> {
        let order = &self.order;
        let is_new = |held: &Position| held.closing_side() != order.side;
        let key = (order.symbol.clone(), order.strategy.clone());
        let adds = self.run.book.positions.get(&key).is_none_or(is_new);
        let fee = Some(trade.fee).filter(|_| pays);
        let paid = fee.and_then(|fee| fee.paid.clone());
        let fee_paid = paid.map(|paid| FeePaid {
            from_size: adds && trade.fee.is_in_bought,
            ..paid
        });
        let mut fill = Fill {
            order_id: order.order_id,
            strategy: order.strategy.clone(),
            symbol: order.symbol.clone(),
            side: order.side,
            role: order.role,
            price: trade.price,
            size,
            multiplier: *self.run.instrument.multiplier,
            fee: fee.map_or(Amount::ZERO, |fee| fee.value),
            fee_paid: fee_paid.map(Box::new),
            liquidity: trade.liquidity,
            realised: Amount::ZERO,
            market_time: trade.time,
            recorded_at: self.run.now,
        };
        fill.realised = self.run.book.fill_effect(&fill)?.realised;
        let moved = fill.moved().unwrap_or(size);
        self.run.emit(Change::OrderFilled(fill))?;
        let strategy = self.order.strategy.clone();
        if let Some(disabled) = disabling(&self.run.book, self.run.rules, &strategy, trade.time) {
            self.run.emit(disabled)?;
        }
        Ok(moved)
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
        let size = self.run.protectable(&order, size)?;
        self.leave(size)?;
        let now = self.run.book.orders.get(&order_id);
        if now.is_some_and(|now| now.leaves().is_zero()) {
            self.run.close(order_id, OrderEnd::Filled)?;
        } else if order.role == OrderRole::Entry {
            self.run.retire(order_id)?;
        }
        Ok(())
    }

    /// Books that a version of the order reached nobody.
    fn not_sent(&mut self, version: u32) -> Result<(), VenueError> {
        let order_id = self.order.order_id;
        self.run.emit(Change::TakenBack { order_id, version })?;
        self.close_if_gone()
    }

    /// Closes an entry, and an order that shall end, if no version of it is left. Anything else is
    /// instructed again.
    fn close_if_gone(&mut self) -> Result<(), VenueError> {
        let order_id = self.order.order_id;
        let now = self.run.book.orders.get(&order_id);
        let is_gone = now
            .and_then(|order| order.at_venue.as_ref())
            .is_some_and(|venue| venue.gone);
        let end = match self.order.ending() {
            None if self.order.role == OrderRole::Entry => OrderEnd::Expired,
            None => return Ok(()),
            Some(end) => end,
        };
        if is_gone {
            self.run.close(order_id, end)?;
            self.run.retire_idle(&self.order)?;
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
                doubt: Doubt {
                    order_id: Some(order_id),
                    what,
                    at,
                },
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
        let Some(held) = book.positions.get(&key).filter(|held| !held.is_dust()) else {
            return false;
        };
        let mut bare = Some(held.whole());
        for stop in book.orders.values() {
            let works = stop.role == OrderRole::Protective && stop.ending().is_none();
            if works && stop.is_of(&order.strategy, &order.symbol) {
                bare = bare.and_then(|bare| bare.checked_sub(stop.leaves()));
            }
        }
        bare.is_none_or(|bare| bare.is_positive())
    }

    /// Places a market order that closes this size at once, as far as the venue takes it.
    fn leave(&mut self, size: Amount) -> Result<(), VenueError> {
        let key = (self.order.symbol.clone(), self.order.strategy.clone());
        let size = self.order.whole(size);
        let held = self.run.book.positions.get(&key);
        let Some(held) = held.filter(|held| size.is_positive() && !held.is_dust()) else {
            return Ok(());
        };
        let (order_id, side) = (OrderId::of_line(self.by.seq).flatten(), held.closing_side());
        let leaving = self.order.leaving(order_id, side, size, self.run.now);
        self.run.emit(Change::OrderPlaced(Box::new(leaving)))
    }
}
