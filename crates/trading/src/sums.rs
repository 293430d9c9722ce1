//! What limits count over everything open, whatever order is checked: worst cases, risk down to the
//! stops, free cash. Each value is computed when it is first needed.

use std::cell::OnceCell;
use std::collections::BTreeSet;

use super::book::Book;
use super::order::Order;
use super::pricing::{self, Terms};
use super::reach::{Reach, entries_and_stops};
use super::risk;
use super::valuation::{TwoSided, capital_base, is_fresh};
use spoolgate_rules::Rulebook;
use spoolgate_rules::instruments::Instrument;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::checks::CheckRow;
use spoolgate_wire::ids::{OrderId, StrategyName, Symbol};
use spoolgate_wire::orders::Side;
use spoolgate_wire::time::Time;

/// Message used when a product or sum has too many digits.
pub const NOT_EXACT: &str = "it cannot be computed exactly; use fewer digits";

/// Source of limits in `rules/safety.yaml`.
const SAFETY: &str = "safety.yaml";

/// The row of a value that cannot be computed. It is an error on the way up, so it is boxed:
/// results stay small where the value is known.
pub type Unknown = Box<CheckRow>;

/// The sums over one book, under one rulebook, at one instant.
#[derive(Clone, Debug)]
pub struct Sums<'a> {
    /// The book.
    pub book: &'a Book,
    /// The rulebook.
    pub rules: &'a Rulebook,
    /// The gate's clock.
    pub now: Time,
    /// Working entries that do not count.
    left_out: BTreeSet<OrderId>,
    equity: OnceCell<Option<Amount>>,
    entries: OnceCell<Vec<Entry<'a>>>,
    symbols: OnceCell<Vec<Open<'a>>>,
    open_risk: OnceCell<Result<Amount, Unknown>>,
    taken: OnceCell<Result<Amount, Unknown>>,
    free: OnceCell<Result<Amount, Unknown>>,
}

/// A working entry.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    /// The order.
    pub order: &'a Order,
    /// Possible loss down to its stop, account currency.
    pub risk: Result<Amount, Unknown>,
    /// Cash that it takes, account currency.
    pub cost: Result<Amount, Unknown>,
}

/// A symbol that has anything open.
#[derive(Clone, Debug)]
pub struct Open<'a> {
    /// The symbol.
    pub symbol: &'a Symbol,
    /// What its legs may come to hold.
    pub reach: Option<Reach>,
    /// Its instrument and the ask, which must be fresh.
    pub market: Result<(&'a Instrument, Amount), Unknown>,
    /// Its worst cases, account currency.
    pub sides: Result<Sides, Unknown>,
}

/// Worst cases, or sums of them, account currency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sides {
    /// The worse side of each symbol.
    pub worst: Amount,
    /// What may come to be held long.
    pub long: Amount,
    /// What may come to be held short.
    pub short: Amount,
}

impl Sides {
    const NONE: Sides = Sides {
        worst: Amount::ZERO,
        long: Amount::ZERO,
        short: Amount::ZERO,
    };

    fn plus(self, other: Sides) -> Option<Sides> {
        Some(Sides {
            worst: self.worst.checked_add(other.worst)?,
            long: self.long.checked_add(other.long)?,
            short: self.short.checked_add(other.short)?,
        })
    }
}

/// Returns a value that is exact, or the row that says that it is not.
pub fn exactly<T>(value: Option<T>) -> Result<T, Unknown> {
    value.ok_or_else(|| Box::new(CheckRow::unknown("usd", SAFETY, NOT_EXACT)))
}

impl<'a> Sums<'a> {
    /// Sums over this book; nothing is computed yet.
    pub fn new(book: &'a Book, rules: &'a Rulebook, now: Time) -> Sums<'a> {
        Sums {
            book,
            rules,
            now,
            left_out: BTreeSet::new(),
            equity: OnceCell::new(),
            entries: OnceCell::new(),
            symbols: OnceCell::new(),
            open_risk: OnceCell::new(),
            taken: OnceCell::new(),
            free: OnceCell::new(),
        }
    }

    /// Sums over this book, whose equity is known already.
    pub(super) fn with_equity(
        book: &'a Book,
        rules: &'a Rulebook,
        now: Time,
        equity: Option<Amount>,
    ) -> Sums<'a> {
        let mut sums = Sums::new(book, rules, now);
        sums.equity = OnceCell::from(equity);
        sums
    }

    /// Returns the equity. `None` if it is unknown.
    pub fn equity(&self) -> Option<Amount> {
        *self
            .equity
            .get_or_init(|| self.book.equity(self.rules, self.now))
    }

    /// Returns the amount that fractional limits refer to. `None` if equity is unknown.
    pub fn capital_base(&self) -> Option<Amount> {
        let equity = self.equity()?;
        Some(capital_base(equity, &self.rules.safety))
    }

    /// Counts a working entry no longer, or again.
    pub fn leave_out(&mut self, order_id: OrderId, is_out: bool) {
        if is_out {
            self.left_out.insert(order_id);
        } else {
            self.left_out.remove(&order_id);
        }
        self.symbols = OnceCell::new();
        self.open_risk = OnceCell::new();
        self.taken = OnceCell::new();
        self.free = OnceCell::new();
    }

    /// Returns the working entries that count, by order id.
    pub fn counted(&self) -> impl DoubleEndedIterator<Item = &Entry<'a>> {
        let all = self.entries().iter();
        all.filter(|entry| !self.left_out.contains(&entry.order.order_id))
    }

    /// How many working entries do not count.
    pub fn left_out(&self) -> usize {
        self.left_out.len()
    }

    /// Whether a working entry counts.
    pub fn counts(&self, order_id: OrderId) -> bool {
        !self.left_out.contains(&order_id)
    }

    /// Returns the risk of the position that an entry on this side adds to, down to its stops at the
    /// last known mark. `None` if it cannot be computed.
    pub fn position_risk(
        &self,
        symbol: &Symbol,
        strategy: &StrategyName,
        side: Side,
    ) -> Option<Amount> {
        let held = self.book.positions.get(&(symbol.clone(), strategy.clone()));
        let Some(position) = held.filter(|held| held.closing_side() != side) else {
            return Some(Amount::ZERO);
        };
        let instrument = self.rules.instruments.get(symbol)?;
        let (mark, _) = self.book.mark(instrument, position.size.is_positive())?;
        risk::of_position(self.book, position, mark, instrument, &self.rules.safety)
    }

    /// Returns what the leg of a strategy in a symbol may come to hold, at the symbol's price.
    /// `None` if it is not exact.
    pub fn leg(&self, symbol: &Symbol, strategy: &StrategyName) -> Option<Reach> {
        let mut reach = Reach::NOTHING;
        let key = (symbol.clone(), strategy.clone());
        if let Some(held) = self.book.positions.get(&key) {
            reach = reach.holding(held.size)?;
        }
        for entry in self.counted().filter(|entry| entry.order.symbol == *symbol) {
            reach = if entry.order.strategy == *strategy {
                reach.working(entry.order)?
            } else {
                reach.priced(entry.order)
            };
        }
        Some(reach)
    }

    /// Returns all working entries, by order id.
    pub fn entries(&self) -> &[Entry<'a>] {
        self.entries.get_or_init(|| self.all_entries())
    }

    /// Returns every symbol that has anything open, by name.
    pub fn symbols(&self) -> &[Open<'a>] {
        self.symbols.get_or_init(|| self.all_symbols())
    }

    /// Returns the risk of every position down to its stops plus the risk of every working entry,
    /// account currency: equity less what is left if every entry fills at its worst price and every
    /// leg leaves at its stops.
    ///
    /// # Errors
    /// Returns the row that says which price is missing or which sum is not exact.
    pub fn open_risk(&self) -> Result<Amount, Unknown> {
        self.open_risk.get_or_init(|| self.all_risk()).clone()
    }

    /// Returns the cash that every working entry takes, fees included, account currency.
    ///
    /// # Errors
    /// Returns the row that says which price is missing or which sum is not exact.
    pub fn taken(&self) -> Result<Amount, Unknown> {
        let sum = || {
            self.counted().try_fold(Amount::ZERO, |sum, entry| {
                exactly(sum.checked_add(entry.cost.clone()?))
            })
        };
        self.taken.get_or_init(sum).clone()
    }

    /// Returns the cash that neither shorts nor working entries need, account currency: cash - 2 x
    /// the cost of buying every short back at its mark - what every working entry takes, fees
    /// included. The factor is 2 because the proceeds of a short sale are owed back, and the same
    /// amount again is its collateral.
    ///
    /// # Errors
    /// Returns the row that says which price is missing or which sum is not exact.
    pub fn free(&self) -> Result<Amount, Unknown> {
        self.free.get_or_init(|| self.free_cash()).clone()
    }

    /// Returns the sum of the worst cases of the symbols that count.
    ///
    /// # Errors
    /// Returns the row that says which price is missing or which sum is not exact.
    pub fn sides(&self, counts: impl Fn(&Open) -> bool) -> Result<Sides, Unknown> {
        let counted = self.symbols().iter().filter(|open| counts(open));
        counted.into_iter().try_fold(Sides::NONE, |sum, open| {
            exactly(sum.plus(open.sides.clone()?))
        })
    }

    /// Returns the sum of the worst cases of the legs of one strategy in the symbols that count.
    ///
    /// # Errors
    /// Returns the row that says which price is missing or which sum is not exact.
    pub fn of_strategy(
        &self,
        strategy: &StrategyName,
        counts: impl Fn(&Symbol) -> bool,
    ) -> Result<Amount, Unknown> {
        let counted = self.symbols().iter().filter(|open| counts(open.symbol));
        counted.into_iter().try_fold(Amount::ZERO, |sum, open| {
            let reach = exactly(self.leg(open.symbol, strategy))?;
            if reach.worst().is_zero() {
                return Ok(sum);
            }
            let (instrument, ask) = open.market.clone()?;
            let money = reach.money(reach.worst(), instrument, ask);
            exactly(money.and_then(|money| sum.checked_add(money)))
        })
    }

    fn configured(&self, symbol: &Symbol) -> Result<&'a Instrument, Unknown> {
        self.rules.instruments.get(symbol).ok_or_else(|| {
            let reason = format!(
                "`{symbol}` has an open position or order and is not in rules/instruments.yaml"
            );
            Box::new(CheckRow::unknown("usd", "instruments.yaml", reason))
        })
    }

    fn fresh_market(&self, instrument: &Instrument) -> Result<TwoSided, Unknown> {
        let seen = self.book.two_sided(instrument);
        let safety = &self.rules.safety;
        let is_current = |seen: &TwoSided| is_fresh(seen.time, self.now, instrument, safety);
        seen.filter(is_current)
            .ok_or_else(|| no_price(&instrument.symbol))
    }

    /// All entries of one symbol use the same market.
    fn all_entries(&self) -> Vec<Entry<'a>> {
        let mut seen: Option<(&Symbol, Known)> = None;
        let mut all = Vec::new();
        for (order, stop) in entries_and_stops(self.book) {
            let known = match &seen {
                Some((symbol, known)) if **symbol == order.symbol => known,
                _ => {
                    let instrument = self.configured(&order.symbol);
                    let known = instrument.and_then(|found| Ok((found, self.fresh_market(found)?)));
                    &seen.insert((&order.symbol, known)).1
                }
            };
            all.push(self.entry(order, stop, known));
        }
        all
    }

    fn entry(&self, order: &'a Order, stop: Option<&Order>, known: &Known<'a>) -> Entry<'a> {
        let (instrument, market) = match known {
            Ok((instrument, market)) => (*instrument, market),
            Err(unknown) => {
                return Entry {
                    order,
                    risk: Err(unknown.clone()),
                    cost: Err(unknown.clone()),
                };
            }
        };
        let safety = &self.rules.safety;
        let terms = Terms::of_open(order);
        let entry = pricing::worst_entry(&terms, market, *safety.entry_slippage);
        let risk = entry.and_then(|entry| risk::of_pending(order, stop, entry, instrument, safety));
        let price = pricing::cost_price(&terms, market, entry);
        let cost = price.and_then(|price| cost(price, order.open(), instrument));
        Entry {
            order,
            risk: exactly(risk),
            cost: exactly(cost),
        }
    }

    fn all_symbols(&self) -> Vec<Open<'a>> {
        let mut reaches: Vec<(&Symbol, Option<Reach>)> = Vec::new();
        let mut add = |symbol: &'a Symbol, add: &dyn Fn(Reach) -> Option<Reach>| {
            let nth = reaches.iter().position(|(known, _)| *known == symbol);
            let nth = nth.unwrap_or_else(|| {
                reaches.push((symbol, Some(Reach::NOTHING)));
                reaches.len().saturating_sub(1)
            });
            if let Some((_, reach)) = reaches.get_mut(nth) {
                *reach = reach.and_then(add);
            }
        };
        for held in self.book.positions.values() {
            add(&held.symbol, &|reach| reach.holding(held.size));
        }
        for entry in self.counted() {
            let order = entry.order;
            add(&order.symbol, &|reach| reach.working(order));
        }
        reaches.sort_unstable_by_key(|(symbol, _)| *symbol);
        let all = reaches.into_iter();
        all.map(|(symbol, reach)| self.open(symbol, reach))
            .collect()
    }

    fn open(&self, symbol: &'a Symbol, reach: Option<Reach>) -> Open<'a> {
        let market = self
            .configured(symbol)
            .and_then(|found| Ok((found, self.fresh_market(found)?.ask)));
        let sides = market.clone().and_then(|(instrument, ask)| {
            let reach = exactly(reach)?;
            let money = |units: Amount| exactly(reach.money(units, instrument, ask));
            let (long, short) = (money(reach.long)?, money(reach.short)?);
            Ok(Sides {
                worst: long.max(short),
                long,
                short,
            })
        });
        Open {
            symbol,
            reach,
            market,
            sides,
        }
    }

    fn all_risk(&self) -> Result<Amount, Unknown> {
        let mut sum = Amount::ZERO;
        for position in self.book.positions.values() {
            let instrument = self.configured(&position.symbol)?;
            let is_long = position.size.is_positive();
            let mark = self
                .book
                .fresh_mark(instrument, is_long, self.rules, self.now);
            let mark = mark.ok_or_else(|| no_price(&position.symbol))?;
            let risk = risk::of_position(self.book, position, mark, instrument, &self.rules.safety);
            sum = exactly(risk.and_then(|risk| sum.checked_add(risk)))?;
        }
        for entry in self.counted() {
            sum = exactly(sum.checked_add(entry.risk.clone()?))?;
        }
        Ok(sum)
    }

    fn free_cash(&self) -> Result<Amount, Unknown> {
        let mut left = self.book.account.cash;
        let held = self.book.positions.values();
        for position in held.filter(|held| held.size.is_negative()) {
            let instrument = self.configured(&position.symbol)?;
            let mark = self
                .book
                .fresh_mark(instrument, false, self.rules, self.now);
            let mark = mark.ok_or_else(|| no_price(&position.symbol))?;
            let owed = mark
                .checked_mul(position.size.abs())
                .and_then(|v| v.checked_mul(*instrument.multiplier));
            let tied = owed.and_then(|owed| owed.checked_add(owed));
            left = exactly(tied.and_then(|tied| left.checked_sub(tied)))?;
        }
        exactly(left.checked_sub(self.taken()?))
    }
}

/// An instrument with its fresh market, or the row that says what is missing.
type Known<'a> = Result<(&'a Instrument, TwoSided), Unknown>;

fn no_price(symbol: &Symbol) -> Unknown {
    let reason = format!("`{symbol}` has an open position or order and no fresh price");
    Box::new(CheckRow::unknown("usd", SAFETY, reason))
}

/// Returns the cash that an entry takes: price x size x multiplier x (1 + taker_fee).
pub fn cost(price: Amount, size: Amount, instrument: &Instrument) -> Option<Amount> {
    let notional = price
        .checked_mul(size)?
        .checked_mul(*instrument.multiplier)?;
    notional.checked_add(notional.checked_mul(*instrument.taker_fee)?)
}
