//! What an entry would have led to: the entry runs alone in a book of its own and the paper venue
//! fills it on the rows that came after it, until its stop, its target or a time stop has closed
//! it.

use serde::Serialize;

use super::book::Book;
use super::cancel::close;
use super::change::Change;
use super::order::{Order, OrderEnd, OrderRole};
use super::submit::{Sent, entry_on_paper};
use super::venue::{VenueError, on_rows};
use crate::market_row::Row;
use spoolgate_rules::Rulebook;
use spoolgate_rules::instruments::MarketSource;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{OrderId, Principal, Symbol};
use spoolgate_wire::orders::SubmitOrder;
use spoolgate_wire::time::Time;

/// An entry as it was sent.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// The order.
    pub order: &'a SubmitOrder,
    /// The principal that sent it.
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
    /// The time stop: it had been held for as long as allowed.
    TimeStop,
    /// The venue refused its stop, so what had filled was closed again.
    TakenBack,
}

/// A trade that was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trade {
    /// Profit or loss after fees, account currency. Funding is not in it.
    pub net: Amount,
    /// What closed the last part of it.
    pub way: Way,
}

/// The state of a replayed entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It waits to fill, or its position is open.
    Open,
    /// It ended without filling.
    NeverFilled,
    /// It was filled and closed.
    Closed(Trade),
}

/// A replay of one entry.
#[derive(Clone, Debug)]
pub struct Replay {
    book: Book,
    symbol: Symbol,
    entry: OrderId,
    sent_at: Time,
    time_stop_ms: i64,
    /// When the row that first filled it became known.
    opened_at: Option<Time>,
    /// The way of the last fill that closed something.
    way: Option<Way>,
    has_timed_out: bool,
}

impl Replay {
    /// Creates the replay of an entry as it was after its decision; from `known` it takes only the
    /// market of the symbol. An entry held longer than `time_stop_ms` is closed at the market; an
    /// entry still unfilled after that time is ended.
    ///
    /// # Errors
    /// Returns [`VenueError`] if the book does not take its orders.
    pub fn new(entry: &Entry<'_>, known: &Book, time_stop_ms: i64) -> Result<Replay, VenueError> {
        let Entry {
            order,
            source,
            order_id,
            at: now,
        } = *entry;
        let mut book = Book::default();
        let symbol = order.symbol.clone();
        if let Some(market) = known.markets.get(&symbol) {
            book.markets.insert(symbol.clone(), market.clone());
        }
        for order in entry_on_paper(
            order,
            &Sent {
                source,
                order_id,
                now,
                key_id: None,
            },
        ) {
            book.apply(&Change::OrderPlaced(Box::new(order)))?;
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

    /// Returns the symbol of the entry.
    pub fn symbol(&self) -> &Symbol {
        &self.symbol
    }

    /// Runs one row of the symbol through the paper venue; `now` is when the gate took the row. A
    /// row that begins before the entry was decided fills nothing, however late it came.
    ///
    /// # Errors
    /// Returns [`VenueError`] if the venue cannot use the row; the replay cannot go on then.
    pub fn row(&mut self, rules: &Rulebook, row: &Row, now: Time) -> Result<Progress, VenueError> {
        // The clock may have been set back since. The venue lets an order of a later time than now use
        // every row, which would be foresight here.
        let now = now.max(self.sent_at);
        let (begins_ms, source) = match *row {
            Row::Bar { open_ms, .. } => (open_ms, MarketSource::Bars),
            Row::Quote { time_ms, .. } => (time_ms, MarketSource::Quotes),
        };
        let fills = rules
            .instruments
            .get(&self.symbol)
            .is_some_and(|it| it.fills_from == source);
        if fills && !self.has_timed_out {
            self.time_out(begins_ms, now)?;
        }
        for step in on_rows(
            &self.book,
            rules,
            &self.symbol,
            std::slice::from_ref(row),
            None,
            now,
            0,
        )? {
            for change in step.changes {
                self.book.apply(&change)?;
                if let Change::OrderFilled(fill) = change {
                    self.opened_at.get_or_insert(fill.market_time);
                    self.way = match fill.role {
                        OrderRole::Entry | OrderRole::Adjust => self.way,
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

    /// Ends a working entry and closes an open position at the market if the row begins at or after
    /// the time stop.
    fn time_out(&mut self, begins_ms: i64, now: Time) -> Result<(), VenueError> {
        let due = self
            .opened_at
            .unwrap_or(self.sent_at)
            .plus_ms(self.time_stop_ms);
        if begins_ms < due.ms() {
            return Ok(());
        }
        self.has_timed_out = true;
        let entry = self.book.orders.get(&self.entry).cloned();
        let ended = entry
            .as_ref()
            .map(|entry| close(&self.book, entry, OrderEnd::Expired, now));
        for change in ended.into_iter().flatten() {
            self.book.apply(&change)?;
        }
        let held = self.book.positions.values().next();
        let model = entry.or_else(|| self.book.orders.get(&self.entry.stop()).cloned());
        let taken_back = self.book.orders.contains_key(&self.entry.flatten());
        if let (Some(held), Some(model), false) = (held, model, taken_back) {
            // Do not use the id of an exit that an agent sends: the venue's filters could then
            // refuse the exit, and the position would stay open for ever.
            let exit: Order = model.leaving(
                self.entry.flatten(),
                held.closing_side(),
                held.size.abs(),
                due,
            );
            self.book.apply(&Change::OrderPlaced(Box::new(exit)))?;
        }
        Ok(())
    }

    /// Returns the state of the entry.
    pub fn progress(&self) -> Progress {
        let waits = self.book.orders.contains_key(&self.entry);
        match (self.opened_at, self.way) {
            _ if waits || !self.book.positions.is_empty() => Progress::Open,
            (None, _) => Progress::NeverFilled,
            (Some(_), way) => {
                let account = &self.book.account;
                match account.realised.checked_sub(account.fees) {
                    Some(net) => Progress::Closed(Trade {
                        net,
                        way: way.unwrap_or(Way::TakenBack),
                    }),
                    // A result that cannot be computed exactly counts as open.
                    None => Progress::Open,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{World, a, buy};

    fn bar(open: Time, [first, high, low, last]: [&str; 4]) -> Row {
        Row::Bar {
            open_ms: open.ms(),
            interval_ms: 60_000,
            open: a(first),
            high: a(high),
            low: a(low),
            close: a(last),
            volume: None,
        }
    }

    /// Follows a buy at 6800 with its stop at 6600 and a target at 7000, decided at the world's time,
    /// through bars that come when the gate's clock shows `now`.
    fn followed(world: &World, now: Time, bars: &[Row]) -> Progress {
        let mut order = buy("0.01");
        order.target_price = Some(a("7000"));
        let source = Principal::parse("trend-bot").unwrap();
        let entry = Entry {
            order: &order,
            source: &source,
            order_id: OrderId::of_line(7),
            at: world.now,
        };
        let mut replay = Replay::new(&entry, &world.book, 86_400_000).unwrap();
        let mut progress = Progress::Open;
        for bar in bars {
            progress = replay.row(&world.rules, bar, now).unwrap();
            if progress != Progress::Open {
                break;
            }
        }
        progress
    }

    #[test]
    fn rows_from_before_the_decision_fill_nothing_however_late_they_come() {
        let mut world = World::new();
        world.flat("6800");
        let at = world.now;
        // A feed that lags brings the way to the target after the decision, though it was before it.
        let gain = ["6800", "7050", "6790", "7050"];
        let loss = ["6800", "6810", "6590", "6600"];
        let late = [
            bar(at.plus_ms(-1), gain),
            bar(at.plus_ms(60_000), gain),
            bar(at.plus_ms(120_000), loss),
        ];
        let early = [bar(at.plus_ms(-1), gain), bar(at.plus_ms(60_000), loss)];
        let way = |progress| match progress {
            Progress::Closed(trade) => Some(trade.way),
            Progress::Open | Progress::NeverFilled => None,
        };
        // The clock as it was, and set back by a day since: a day later than the rows.
        for now in [at.plus_ms(180_000), at.plus_ms(-86_400_000)] {
            assert_eq!(way(followed(&world, now, &early)), Some(Way::Stop), "{now}");
            assert_eq!(way(followed(&world, now, &late)), Some(Way::Stop), "{now}");
        }
        // At the instant of the decision a bar counts, a millisecond before it does not.
        let now = at.plus_ms(60_000);
        let filled = |offset: i64| followed(&world, now, &[bar(at.plus_ms(offset), loss)]);
        assert_eq!(way(filled(0)), Some(Way::Stop));
        assert_eq!(way(filled(1)), Some(Way::Stop));
        assert_eq!(way(filled(-1)), None);
    }
}
