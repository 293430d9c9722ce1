//! The imitated exchange: `venue: imitated`. Orders of its instruments are orders at a venue in every
//! respect; this module is the venue and its bridge. It says nothing but reports, which are booked by
//! [`on_report`], so everything that follows from them is the code of real venues.
//!
//! It has two inputs. With time it answers instructions, which reach it after the latency. With market
//! rows it trades what it works, at the prices that the paper venue gives. A bar trades what worked
//! when the bar opened; a stop triggers with its first trade.
//!
//! What it has follows from the book: the size, the trigger and the version that each order's report
//! confirmed, and the positions, which are its balances. [`Imitated`] has the rest.

use std::collections::BTreeSet;

use super::VenueError;
use super::outbox::hand_over;
use super::paper::{GROUPS, Read, Run};
use super::quoting::{Answer, Offer, answer};
use super::report::{Reporting, on_report};
use super::room::Room;
use crate::book::Book;
use crate::change::Change;
use crate::imitated::{Imitated, Sent, UNTOLD_MAX, Untold};
use crate::order::{AtVenue, Liquidity, Order, OrderRole, Stated, Verb};
use spoolgate_rules::Rulebook;
use spoolgate_rules::instruments::{Imitate, is_imitated};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{ExecId, OrderId, Symbol};
use spoolgate_wire::orders::{OrderType, Side, TimeInForce};
use spoolgate_wire::time::Time;
use spoolgate_wire::venue::{EXPIRED, ExecEvent, Gone, TradeLiquidity, VenueReport};

/// Returns the changes of the next line with which the imitated exchange answers what has reached it by
/// now. Empty once nothing is due. `seq` is the line's number.
///
/// # Errors
/// Returns [`VenueError`] if the book contradicts itself.
pub fn answers(
    book: &Book,
    rules: &Rulebook,
    now: Time,
    seq: u64,
) -> Result<Vec<Change>, VenueError> {
    let orders = book.orders.values().filter(|order| state(order).is_some());
    let symbols: BTreeSet<&Symbol> = orders.map(|order| &order.symbol).collect();
    for symbol in symbols {
        let is_due = |order: &Order| order.symbol == *symbol && is_due(order, rules, now);
        if !book.orders.values().any(is_due) {
            continue;
        }
        let mut run = Run::new(book, rules, symbol, now)?;
        run.seq = seq;
        run.answer_imitated(now)?;
        if let Some(step) = run.steps.finish().into_iter().next() {
            return Ok(step.changes);
        }
    }
    Ok(Vec::new())
}

/// Whether the exchange counts this report as that of a new entry that reached it.
pub(crate) fn is_of_new_entry(order: &Order, exec_id: &ExecId) -> bool {
    let name = |what: &str| format!("{what}-{}.1", order.order_id);
    let is_entry = order.role == OrderRole::Entry && state(order).is_some();
    is_entry && ["n", "r"].iter().any(|what| name(what) == exec_id.as_str())
}

/// Returns the state of an order at the imitated exchange; `None` if it is elsewhere, or was not sent.
fn state(order: &Order) -> Option<(&AtVenue, &Imitated)> {
    let venue = order.at_venue.as_ref()?;
    let is_there = is_imitated(&venue.bridge);
    Some((venue, venue.imitated.as_deref().filter(|_| is_there)?))
}

fn imitate(rules: &Rulebook, symbol: &Symbol) -> Option<Imitate> {
    let instrument = rules.instruments.get(symbol)?;
    Some(instrument.imitate.clone().unwrap_or_default())
}

/// Whether the exchange has anything to say of the order.
fn is_due(order: &Order, rules: &Rulebook, now: Time) -> bool {
    let (Some((_, state)), Some(imitate)) = (state(order), imitate(rules, &order.symbol)) else {
        return false;
    };
    let is_here = |sent: &Sent| has_arrived(&imitate, sent.at, now, now);
    let is_any = !state.untold.is_empty() || state.sent.iter().any(is_here);
    is_any && imitate.silence_at(now).is_none()
}

/// Whether what was given at this time has arrived by `by`. A time later than now dates from before the
/// clock was set back.
fn has_arrived(imitate: &Imitate, given: Time, by: Time, now: Time) -> bool {
    given > now || imitate.arrives(given) <= by
}

/// Returns the order as the exchange works it; `None` if it does not.
fn worked(order: &Order) -> Option<Order> {
    let (venue, state) = state(order)?;
    let works = venue.works.filter(|_| venue.is_out())?;
    let is_let_go = venue.released && order.rests();
    let is_at_market = is_let_go && order.order_type == OrderType::Stop;
    let mut worked = order.clone();
    worked.size = works.size;
    worked.filled = order.filled.checked_add(state.untold_size())?;
    worked.trigger = works.trigger;
    worked.triggered |= order.order_type == OrderType::Stop && !state.untold.is_empty();
    if is_at_market {
        worked.order_type = OrderType::Market;
    }
    if is_let_go {
        worked.time_in_force = TimeInForce::Ioc;
    }
    Some(worked)
}

impl Run<'_> {
    /// What a row does at the imitated exchange.
    pub(super) fn row_at_imitated(&mut self, read: &Read<'_>) -> Result<(), VenueError> {
        let symbol = &self.instrument.symbol;
        let is_here = |order: &Order| order.symbol == *symbol && state(order).is_some();
        if !self.book.orders.values().any(is_here) {
            return Ok(());
        }
        self.answer_imitated(read.time)?;
        if self.instrument.fills_from != read.source {
            return Ok(());
        }
        self.room = Room::of(read.row, self.instrument);
        for group in GROUPS {
            for order_id in self.worked_since(read.start_ms, group) {
                self.trade_imitated(order_id, read)?;
            }
        }
        if self.is_silent(read.time) {
            return Ok(());
        }
        let is_over = |order: &Order| order.time_in_force == TimeInForce::Ioc;
        for order_id in self.worked_since(read.start_ms, is_over) {
            self.end_imitated(order_id, "e", Gone::Expired, read.time)?;
        }
        Ok(())
    }

    fn imitate(&self) -> Imitate {
        self.instrument.imitate.clone().unwrap_or_default()
    }

    /// Whether the exchange is silent at this time, or on the gate's clock.
    fn is_silent(&self, at: Time) -> bool {
        let imitate = self.imitate();
        [at, self.now]
            .iter()
            .any(|at| imitate.silence_at(*at).is_some())
    }

    /// Returns the orders of a group that the exchange has worked since a row began.
    fn worked_since(&self, start_ms: i64, group: fn(&Order) -> bool) -> Vec<OrderId> {
        let (imitate, symbol) = (self.imitate(), &self.instrument.symbol);
        let start = Time::from_ms(start_ms).ok();
        let orders = self.book.orders.values().filter(|order| {
            let since = state(order).and_then(|(_, state)| state.since);
            let is_in_time = since
                .zip(start)
                .is_some_and(|(since, start)| has_arrived(&imitate, since, start, self.now));
            // A silence may have begun before the exchange said that it is gone.
            let has_ended = |sent: &Sent| {
                let is_cancel = sent.instruction == Verb::Cancel;
                is_cancel && start.is_some_and(|at| has_arrived(&imitate, sent.at, at, self.now))
            };
            let has_ended = state(order).is_some_and(|(_, it)| it.sent.iter().any(has_ended));
            let is_working =
                |worked: Order| !has_ended && worked.leaves().is_positive() && group(&worked);
            order.symbol == *symbol && is_in_time && worked(order).is_some_and(is_working)
        });
        orders.map(|order| order.order_id).collect()
    }

    /// Tells what was held back, and answers what has arrived by this time.
    pub(super) fn answer_imitated(&mut self, by: Time) -> Result<(), VenueError> {
        if self.is_silent(by) {
            return Ok(());
        }
        let symbol = &self.instrument.symbol;
        let own = self
            .book
            .orders
            .values()
            .filter(|order| order.symbol == *symbol);
        let own: Vec<OrderId> = own.map(|order| order.order_id).collect();
        for order_id in &own {
            let untold = self.book.orders.get(order_id).and_then(state);
            let untold = untold.map_or_else(Vec::new, |(_, state)| state.untold.clone());
            for traded in untold {
                self.tell(*order_id, &traded)?;
            }
        }
        for order_id in own {
            // A version that came too late leaves an earlier one to be answered.
            while self.answer_next(order_id, by)? {}
        }
        Ok(())
    }

    /// Answers the newest instruction about an order that has arrived. Returns whether it was told.
    fn answer_next(&mut self, order_id: OrderId, by: Time) -> Result<bool, VenueError> {
        let imitate = self.imitate();
        let Some(order) = self.book.orders.get(&order_id) else {
            return Ok(false);
        };
        let Some((venue, state)) = state(order) else {
            return Ok(false);
        };
        let is_known = |sent: &Sent| {
            let mut sizes = venue.sizes.iter();
            sent.instruction == Verb::Cancel || sizes.any(|Stated(it, ..)| *it == sent.version)
        };
        let mut newest_first = state.sent.iter().rev();
        let next = newest_first
            .find(|sent| has_arrived(&imitate, sent.at, by, self.now) && is_known(sent));
        let Some(next) = next.copied() else {
            return Ok(false);
        };
        let version = next.version;
        let rejected = |text: &str| ExecEvent::Gone {
            how: Gone::Rejected {
                text: text.to_owned(),
            },
            version: Some(version),
        };
        let is_late = next
            .valid_until
            .is_some_and(|until| imitate.arrives(next.at) > until);
        let (what, event) = if is_late {
            ("x", rejected(EXPIRED))
        } else if let Some(text) = self.refusal(order, venue, state, &next) {
            ("r", rejected(text))
        } else if next.instruction == Verb::Cancel || next.size <= filled(order, state) {
            let how = Gone::Canceled;
            let version = Some(version);
            ("c", ExecEvent::Gone { how, version })
        } else {
            ("n", ExecEvent::Working { version })
        };
        let cum_qty = order.filled;
        let exec_id = ExecId::parse(&format!("{what}-{order_id}.{version}"));
        let Ok(exec_id) = exec_id else {
            return Ok(false);
        };
        self.report(VenueReport {
            order_id,
            exec_id,
            transact_time: by,
            cum_qty,
            event,
        })
    }

    /// Returns why the exchange refuses an instruction.
    fn refusal(
        &self,
        order: &Order,
        venue: &AtVenue,
        state: &Imitated,
        next: &Sent,
    ) -> Option<&'static str> {
        if next.instruction == Verb::Cancel {
            return None;
        }
        let imitate = self.imitate();
        if order.role == OrderRole::Entry && next.version == 1 {
            let before = self.book.imitated_entries.get(&order.symbol).copied();
            let nth = before.unwrap_or(0).saturating_add(1);
            let every = u64::from(imitate.reject_every);
            if nth.checked_rem(every) == Some(0) {
                return Some("venue: every so many entries are refused (`reject_every`)");
            }
        }
        let filled = filled(order, state);
        let is_over = |size: Amount| size <= filled && next.size > size;
        if next.instruction == Verb::Replace && venue.works.is_some_and(|it| is_over(it.size)) {
            return Some("venue: the order is over");
        }
        let is_locked = imitate.reserves && !venue.reduce_only && order.side == Side::Sell;
        let more = next.size.checked_sub(filled).unwrap_or(next.size);
        (is_locked && more > self.free_coins(order)).then_some("venue: insufficient balance")
    }

    /// Returns how much of the coin the exchange holds that no other order has locked.
    fn free_coins(&self, order: &Order) -> Amount {
        let (book, symbol) = (&self.book, &order.symbol);
        let held = book.positions.values().filter(|held| {
            let is_there = held
                .held_at
                .as_ref()
                .is_some_and(|at| is_imitated(&at.bridge));
            held.symbol == *symbol && is_there
        });
        let held = held.map(|held| held.size);
        let others = book.orders.values().filter(|other| {
            let is_other = other.order_id != order.order_id;
            is_other && other.symbol == *symbol && other.side == Side::Sell
        });
        let locked = others.filter_map(|other| Some(-worked(other)?.leaves()));
        let untold = book.orders.values().filter(|other| other.symbol == *symbol);
        let untold = untold.filter_map(|other| {
            let size = state(other)?.1.untold_size();
            Some(if other.side == Side::Buy { size } else { -size })
        });
        let mut all = held.chain(locked).chain(untold);
        // Sums that cannot be held leave nothing free.
        let free = all.try_fold(Amount::ZERO, Amount::checked_add);
        free.unwrap_or(Amount::ZERO)
    }

    /// Trades an order against a row, as far as price, volume and position allow.
    fn trade_imitated(&mut self, order_id: OrderId, read: &Read<'_>) -> Result<(), VenueError> {
        let Some(order) = self.book.orders.get(&order_id).cloned() else {
            return Ok(());
        };
        let (Some(worked), Some((venue, state))) = (worked(&order), state(&order)) else {
            return Ok(());
        };
        let is_silent = self.is_silent(read.time);
        let is_full = state.untold.len() >= UNTOLD_MAX;
        // What is not over at once trades when the silence is over.
        if is_silent && (is_full || worked.time_in_force == TimeInForce::Ioc) {
            return Ok(());
        }
        let quote = self.book.markets.get(&order.symbol);
        let quote = quote.and_then(|market| market.quote.as_ref());
        let since = state.since.map(|since| self.imitate().arrives(since));
        let rested = quote
            .zip(since)
            .is_some_and(|(quote, since)| quote.time >= since);
        let offer = match answer(&worked, &read.tape, rested, self.instrument) {
            Answer::NotReached => return Ok(()),
            Answer::NoPrice => None,
            Answer::Fills(offer) => Some(offer),
        };
        let wanted = if venue.reduce_only && order.role != OrderRole::Entry {
            worked.leaves().min(self.reducible(&order))
        } else {
            worked.leaves()
        };
        let size = self.room.within(order.side, wanted, *self.instrument.lot);
        let Some(size) = size.filter(|size| size.is_positive()) else {
            return Ok(());
        };
        let traded = offer.and_then(|offer| self.traded(&worked, venue, &offer, size, read.time));
        let Some(traded) = traded else {
            let why = "its price or fee cannot be computed exactly".to_owned();
            self.steps.left_open(order_id, why);
            return Ok(());
        };
        self.room.take(order.side, size);
        if is_silent {
            let traded = Box::new(traded);
            return self.emit(Change::TradedUntold { order_id, traded });
        }
        self.tell(order_id, &traded)?;
        Ok(())
    }

    /// Returns how much of its leg an order can reduce.
    fn reducible(&self, order: &Order) -> Amount {
        let key = (order.symbol.clone(), order.strategy.clone());
        let held = self.book.positions.get(&key);
        let held = held.filter(|held| held.closing_side() == order.side);
        let orders = self.book.orders.values();
        let untold = orders.filter(|other| {
            other.role != OrderRole::Entry && other.is_of(&order.strategy, &order.symbol)
        });
        let mut untold = untold.filter_map(|other| Some(state(other)?.1.untold_size()));
        let held = held.map_or(Amount::ZERO, |held| held.size.abs());
        let left = untold.try_fold(held, Amount::checked_sub);
        left.unwrap_or(Amount::ZERO).max(Amount::ZERO)
    }

    /// Returns a trade of this size, with its fee. `None` if it cannot be computed exactly.
    fn traded(
        &self,
        worked: &Order,
        venue: &AtVenue,
        offer: &Offer,
        size: Amount,
        at: Time,
    ) -> Option<Untold> {
        let Offer { price, liquidity } = *offer;
        let value = price.checked_mul(size)?.checked_mul(venue.multiplier)?;
        let kept = venue.units.as_ref().and_then(|units| units.base.clone());
        let base = kept.or_else(|| self.instrument.base.clone());
        let is_in_base = worked.side == Side::Buy && self.imitate().base_fee;
        let in_base = self.fee_on(size, liquidity)?;
        // A fee cannot take all that was bought.
        let base = base.filter(|_| is_in_base && in_base < size);
        let fee = match base {
            Some(_) => in_base,
            None => self.fee_on(value, liquidity)?,
        };
        let cum_qty = worked.filled.checked_add(size)?;
        let exec_id = format!("t-{}.{}", worked.order_id, cum_qty.normalized());
        Some(Untold {
            exec_id: ExecId::parse(&exec_id).ok()?,
            at,
            cum_qty,
            size,
            price,
            fee,
            fee_currency: base,
            liquidity,
        })
    }

    fn tell(&mut self, order_id: OrderId, traded: &Untold) -> Result<bool, VenueError> {
        let liquidity = match traded.liquidity {
            Liquidity::Maker => TradeLiquidity::Maker,
            Liquidity::Taker => TradeLiquidity::Taker,
        };
        self.report(VenueReport {
            order_id,
            exec_id: traded.exec_id.clone(),
            transact_time: traded.at,
            cum_qty: traded.cum_qty,
            event: ExecEvent::Trade {
                last_qty: traded.size,
                last_px: traded.price,
                fee: traded.fee,
                fee_currency: traded.fee_currency.clone(),
                fee_value: None,
                liquidity,
            },
        })
    }

    /// Reports the end of an order that the exchange works.
    fn end_imitated(
        &mut self,
        order_id: OrderId,
        what: &str,
        how: Gone,
        at: Time,
    ) -> Result<(), VenueError> {
        let order = self.book.orders.get(&order_id);
        let order = order.and_then(|order| Some((order, state(order)?.0.works?.version)));
        let Some((order, version)) = order else {
            return Ok(());
        };
        let Ok(exec_id) = ExecId::parse(&format!("{what}-{order_id}.{version}")) else {
            return Ok(());
        };
        let cum_qty = order.filled;
        let version = Some(version);
        self.report(VenueReport {
            order_id,
            exec_id,
            transact_time: at,
            cum_qty,
            event: ExecEvent::Gone { how, version },
        })?;
        Ok(())
    }

    /// Returns changes handed over to the outbox, as the line that holds them would do.
    pub(super) fn handed_over(&self, changes: Vec<Change>) -> Vec<Change> {
        let limits = &self.rules.safety.bridges;
        hand_over(&self.book, limits, changes, self.now)
    }

    /// Books a report of the exchange, with everything that follows from it, in one line. Returns
    /// whether it was booked.
    fn report(&mut self, report: VenueReport) -> Result<bool, VenueError> {
        let order = self.book.orders.get(&report.order_id);
        let Some(venue) = order.and_then(|order| order.at_venue.as_ref()) else {
            return Ok(false);
        };
        let bridge = venue.bridge.clone();
        self.steps.make_room();
        let by = Reporting {
            bridge: &bridge,
            booked_in: None,
            now: self.now,
            seq: self.seq.saturating_add(self.steps.lines()),
        };
        let (raw, is_booked) = match on_report(&self.book, self.rules, &report, &by) {
            Ok(changes) => (changes, true),
            Err(refused) => {
                self.steps.left_open(report.order_id, refused.what);
                (refused.changes, false)
            }
        };
        // An order that shall end goes on working until its cancel arrives.
        let changes = self.handed_over(raw);
        // The line gives what it places its name.
        let places = |change: &Change| matches!(change, Change::OrderPlaced(_));
        let is_named = changes.iter().any(places);
        for change in changes {
            match change {
                Change::PeakRaised { equity } => {
                    self.book.apply(&Change::PeakRaised { equity })?;
                    self.steps.peak(equity);
                }
                Change::DrawdownLatched { .. } => {
                    self.book.apply(&change)?;
                    self.steps.latched(change);
                }
                change => self.emit(change)?,
            }
        }
        if is_named {
            self.steps.cut();
        }
        Ok(is_booked)
    }
}

/// Returns what an order has filled, whether the gate knows it or not.
fn filled(order: &Order, state: &Imitated) -> Amount {
    let all = order.filled.checked_add(state.untold_size());
    all.unwrap_or(order.filled)
}
