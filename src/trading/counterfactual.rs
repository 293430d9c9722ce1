//! What would have come of an entry: it alone in a book of its own, filled by the paper venue on the rows that came
//! after it, until its stop, its target or a time stop has closed it.

use serde::Serialize;

use super::book::Book;
use super::cancel::close;
use super::change::Change;
use super::order::{Order, OrderEnd, OrderRole};
use super::submit::{Sent, entry_on_paper};
use super::venue::{VenueError, on_rows};
use crate::rules::Rulebook;
use crate::rules::instruments::MarketSource;
use crate::trading::market::Row;
use crate::wire::amount::Amount;
use crate::wire::ids::{OrderId, Principal, Symbol};
use crate::wire::orders::SubmitOrder;
use crate::wire::time::Time;

/// An entry as it was sent.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// The order.
    pub order: &'a SubmitOrder,
    /// Who sent it.
    pub source: &'a Principal,
    /// The id that it would have had.
    pub order_id: OrderId,
    /// When it was decided.
    pub at: Time,
}

/// What closed a trade.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// Its planned stop.
    Stop,
    /// Its target.
    Target,
    /// It had been held for as long as the time stop lets it.
    TimeStop,
    /// The venue would not have its stop, and took it back.
    TakenBack,
}

/// A trade that was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trade {
    /// Profit or loss after fees, account currency. Funding is not in it.
    pub net: Amount,
    /// What closed the last of it.
    pub way: Way,
}

/// How far an entry has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It waits to fill, or is held.
    Open,
    /// It ended without filling.
    NeverFilled,
    /// It was filled and closed.
    Closed(Trade),
}

/// An entry under way.
#[derive(Clone, Debug)]
pub struct Replay {
    book: Book,
    symbol: Symbol,
    entry: OrderId,
    sent_at: Time,
    time_stop_ms: i64,
    /// When the row was known that first filled it.
    opened_at: Option<Time>,
    /// What closed last.
    way: Option<Way>,
    has_timed_out: bool,
}

impl Replay {
    /// The entry as it stands after its decision; of `known` its market counts. Held longer than `time_stop_ms` it is
    /// closed at the market, and unfilled for as long it ends.
    ///
    /// # Errors
    /// [`VenueError`] if the book does not take its orders.
    pub fn new(entry: &Entry<'_>, known: &Book, time_stop_ms: i64) -> Result<Replay, VenueError> {
        let Entry { order, source, order_id, at: now } = *entry;
        let mut book = Book::default();
        let symbol = order.symbol.clone();
        if let Some(market) = known.markets.get(&symbol) {
            book.markets.insert(symbol.clone(), market.clone());
        }
        for order in entry_on_paper(order, &Sent { source, order_id, now }) {
            book.apply(&Change::OrderPlaced(order))?;
        }
        let (opened_at, way, has_timed_out) = (None, None, false);
        Ok(Replay {
            book,
            symbol,
            entry: order_id,
            sent_at: now,
            time_stop_ms,
            opened_at,
            way,
            has_timed_out,
        })
    }

    /// Its instrument.
    pub fn symbol(&self) -> &Symbol {
        &self.symbol
    }

    /// Takes one row of its symbol through the paper venue; `now` is when the gate took it.
    ///
    /// # Errors
    /// [`VenueError`]: it comes no further then.
    pub fn row(&mut self, rules: &Rulebook, row: &Row, now: Time) -> Result<Progress, VenueError> {
        let (begins_ms, source) = match *row {
            Row::Bar { open_ms, .. } => (open_ms, MarketSource::Bars),
            Row::Quote { time_ms, .. } => (time_ms, MarketSource::Quotes),
        };
        let fills = rules.instruments.get(&self.symbol).is_some_and(|it| it.fills_from == source);
        if fills && !self.has_timed_out {
            self.time_out(begins_ms, now)?;
        }
        for step in on_rows(&self.book, rules, &self.symbol, std::slice::from_ref(row), now)? {
            for change in step.changes {
                self.book.apply(&change)?;
                if let Change::OrderFilled(fill) = change {
                    self.opened_at.get_or_insert(fill.market_time);
                    self.way = match fill.role {
                        OrderRole::Entry => self.way,
                        OrderRole::Protective => Some(Way::Stop),
                        OrderRole::Target => Some(Way::Target),
                        OrderRole::Exit if self.has_timed_out => Some(Way::TimeStop),
                        OrderRole::Exit => Some(Way::TakenBack),
                    };
                }
            }
        }
        Ok(self.progress())
    }

    /// Ends what waits, and sends what is held to the market, if the row begins when its time is over.
    fn time_out(&mut self, begins_ms: i64, now: Time) -> Result<(), VenueError> {
        let due = self.opened_at.unwrap_or(self.sent_at).plus_ms(self.time_stop_ms);
        if begins_ms < due.ms() {
            return Ok(());
        }
        self.has_timed_out = true;
        let entry = self.book.orders.get(&self.entry).cloned();
        let ended = entry.as_ref().map(|entry| close(&self.book, entry, OrderEnd::Expired, now));
        for change in ended.into_iter().flatten() {
            self.book.apply(&change)?;
        }
        let held = self.book.positions.values().next();
        let model = entry.or_else(|| self.book.orders.get(&self.entry.stop()).cloned());
        let taken_back = self.book.orders.contains_key(&self.entry.flatten());
        if let (Some(held), Some(model), false) = (held, model, taken_back) {
            // Not by the id of an exit that was sent: the venue's filters would have it wait for ever.
            let exit: Order = model.leaving(self.entry.flatten(), held.closing_side(), held.size.abs(), due);
            self.book.apply(&Change::OrderPlaced(exit))?;
        }
        Ok(())
    }

    /// How far it has come.
    pub fn progress(&self) -> Progress {
        let waits = self.book.orders.contains_key(&self.entry);
        match (self.opened_at, self.way) {
            _ if waits || !self.book.positions.is_empty() => Progress::Open,
            (None, _) => Progress::NeverFilled,
            (Some(_), way) => {
                let account = &self.book.account;
                match account.realised.checked_sub(account.fees) {
                    Some(net) => Progress::Closed(Trade { net, way: way.unwrap_or(Way::TakenBack) }),
                    // What cannot be told exactly counts as open.
                    None => Progress::Open,
                }
            }
        }
    }
}
