//! What limits count over everything open, whatever order is checked: worst cases, risk down to the
//! stops, free cash. Each value is computed when it is first needed.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use super::book::Book;
use super::order::{Order, OrderRole};
use super::pricing::{self, Terms};
use super::reach::Reach;
use super::risk;
use super::valuation::{TwoSided, capital_base, is_fresh};
use crate::lack::{NOT_EXACT, PRICES};
use spoolgate_rules::Rulebook;
use spoolgate_rules::instruments::Instrument;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::checks::CheckRow;
use spoolgate_wire::ids::{OrderId, StrategyName, Symbol};
use spoolgate_wire::orders::Side;
use spoolgate_wire::time::Time;

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
    open: OnceCell<Rc<OpenOrders<'a>>>,
    legs: OnceCell<Vec<Leg<'a>>>,
    symbols: OnceCell<Vec<Open<'a>>>,
    open_risk: OnceCell<Result<Amount, Unknown>>,
    taken: OnceCell<Result<Amount, Unknown>>,
    free: OnceCell<Result<Amount, Unknown>>,
    turnover: OnceCell<Result<Amount, Unknown>>,
}

/// The open orders. Clones of sums share them.
#[derive(Debug)]
struct OpenOrders<'a> {
    /// The working entries, by order id.
    entries: Vec<Entry<'a>>,
    /// How many orders are open, without protective stops.
    count: usize,
}

/// A working entry.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    /// The order.
    pub order: &'a Order,
    /// Possible loss down to its stop, account currency.
    pub risk: Result<Amount, Unknown>,
    /// What it may still turn over, account currency.
    pub notional: Result<Amount, Unknown>,
    /// Cash that it takes: `notional` and its fee, account currency.
    pub cost: Result<Amount, Unknown>,
}

/// The part of one strategy in one symbol, where anything is open.
#[derive(Clone, Copy, Debug)]
pub struct Leg<'a> {
    /// The symbol.
    pub symbol: &'a Symbol,
    /// The strategy.
    pub strategy: &'a StrategyName,
    /// What it may come to hold. `None` if it is not exact.
    pub reach: Option<Reach>,
    /// Whether it counts as open: it has a position that is not dust, or a working entry.
    pub is_open: bool,
}

impl Leg<'_> {
    /// Whether it is the leg of this strategy and symbol.
    pub fn is_of(&self, strategy: &StrategyName, symbol: &Symbol) -> bool {
        self.strategy == strategy && self.symbol == symbol
    }
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
    value.ok_or_else(|| Box::new(NOT_EXACT.row("usd", SAFETY)))
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
            open: OnceCell::new(),
            legs: OnceCell::new(),
            symbols: OnceCell::new(),
            open_risk: OnceCell::new(),
            taken: OnceCell::new(),
            free: OnceCell::new(),
            turnover: OnceCell::new(),
        }
    }

    /// Returns sums over the same book in which every entry counts. What does not depend on that is
    /// computed once for both.
    pub(super) fn anew<'b>(&self) -> Sums<'b>
    where
        'a: 'b,
    {
        let open: Rc<OpenOrders<'b>> = Rc::clone(self.open());
        Sums {
            equity: OnceCell::from(self.equity()),
            open: OnceCell::from(open),
            ..Sums::new(self.book, self.rules, self.now)
        }
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
        self.legs = OnceCell::new();
        self.symbols = OnceCell::new();
        self.open_risk = OnceCell::new();
        self.taken = OnceCell::new();
        self.free = OnceCell::new();
        self.turnover = OnceCell::new();
    }

    /// Returns the working entries that count, by order id.
    pub fn counted(&self) -> impl DoubleEndedIterator<Item = &Entry<'a>> {
        let all = self.entries().iter();
        all.filter(|entry| !self.left_out.contains(&entry.order.order_id))
    }

    /// Returns how many open orders count, without protective stops.
    pub fn open_orders(&self) -> usize {
        self.open().count.saturating_sub(self.left_out.len())
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
        risk::of_position(
            self.book,
            position,
            mark,
            instrument,
            &self.rules.safety,
            self.now,
        )
    }

    /// Returns what the leg of a strategy in a symbol may come to hold, at the symbol's price.
    /// `None` if it is not exact.
    pub fn leg(&self, symbol: &Symbol, strategy: &StrategyName) -> Option<Reach> {
        let mut of_symbol = self.legs().iter().filter(|leg| leg.symbol == symbol);
        of_symbol.try_fold(Reach::NOTHING, |sum, leg| {
            let reach = leg.reach?;
            if leg.strategy == strategy {
                sum.and(reach)
            } else {
                Some(sum.priced(reach))
            }
        })
    }

    /// Returns all working entries, by order id.
    pub fn entries(&self) -> &[Entry<'a>] {
        &self.open().entries
    }

    fn open(&self) -> &Rc<OpenOrders<'a>> {
        self.open.get_or_init(|| Rc::new(self.all_open()))
    }

    /// Returns every leg that has anything open, by symbol and strategy.
    pub fn legs(&self) -> &[Leg<'a>] {
        self.legs.get_or_init(|| self.all_legs())
    }

    /// Returns how many legs count as open.
    pub fn open_legs(&self) -> usize {
        self.legs().iter().filter(|leg| leg.is_open).count()
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

    /// Returns the notional of the day's entry fills and of every working entry, account currency. An
    /// entry counts at the price of its cost.
    ///
    /// # Errors
    /// Returns the row that says which price is missing or which sum is not exact.
    pub fn turnover(&self) -> Result<Amount, Unknown> {
        let sum = || {
            let filled = self.book.account.turnover;
            self.counted().try_fold(filled, |sum, entry| {
                exactly(sum.checked_add(entry.notional.clone()?))
            })
        };
        self.turnover.get_or_init(sum).clone()
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

    /// All entries of one symbol use the same market. The orders of a line lie side by side, the stop
    /// behind its entry, so it is found without a search.
    fn all_open(&self) -> OpenOrders<'a> {
        let mut seen: Option<(&Symbol, Known)> = None;
        let (mut entries, mut count) = (Vec::new(), 0_usize);
        let mut orders = self.book.orders.values().peekable();
        while let Some(order) = orders.next() {
            count = count.saturating_add(usize::from(order.role != OrderRole::Protective));
            if order.role != OrderRole::Entry {
                continue;
            }
            let known = match &seen {
                Some((symbol, known)) if **symbol == order.symbol => known,
                _ => {
                    let instrument = self.configured(&order.symbol);
                    let known = instrument.and_then(|found| Ok((found, self.fresh_market(found)?)));
                    &seen.insert((&order.symbol, known)).1
                }
            };
            let stop_id = order.order_id.stop();
            let stop = orders.peek().filter(|stop| stop.order_id == stop_id);
            entries.push(self.entry(order, stop.copied(), known));
        }
        OpenOrders { entries, count }
    }

    fn entry(&self, order: &'a Order, stop: Option<&Order>, known: &Known<'a>) -> Entry<'a> {
        let (instrument, market) = match known {
            Ok((instrument, market)) => (*instrument, market),
            Err(unknown) => {
                return Entry {
                    order,
                    risk: Err(unknown.clone()),
                    notional: Err(unknown.clone()),
                    cost: Err(unknown.clone()),
                };
            }
        };
        let safety = &self.rules.safety;
        let terms = Terms::of_open(order);
        let entry = pricing::worst_entry(&terms, market, *safety.entry_slippage);
        let risk = entry.and_then(|entry| risk::of_pending(order, stop, entry, instrument, safety));
        let price = pricing::cost_price(&terms, market, entry);
        let notional = price.and_then(|price| notional(price, order.open(), instrument));
        let cost = notional.and_then(|notional| with_fee(notional, instrument));
        Entry {
            order,
            risk: exactly(risk),
            notional: exactly(notional),
            cost: exactly(cost),
        }
    }

    fn all_legs(&self) -> Vec<Leg<'a>> {
        let held = self.book.positions.values();
        let mut legs: Vec<Leg> = held
            .map(|held| Leg {
                symbol: &held.symbol,
                strategy: &held.strategy,
                reach: Reach::NOTHING.holding(held.size),
                is_open: !held.is_dust(),
            })
            .collect();
        for Entry { order, .. } in self.counted() {
            let mut known = legs.iter_mut();
            match known.find(|leg| leg.is_of(&order.strategy, &order.symbol)) {
                Some(leg) => {
                    leg.reach = leg.reach.and_then(|reach| reach.working(order));
                    leg.is_open = true;
                }
                None => legs.push(Leg {
                    symbol: &order.symbol,
                    strategy: &order.strategy,
                    reach: Reach::NOTHING.working(order),
                    is_open: true,
                }),
            }
        }
        legs.sort_unstable_by_key(|leg| (leg.symbol, leg.strategy));
        legs
    }

    fn all_symbols(&self) -> Vec<Open<'a>> {
        let of_symbols = self.legs().chunk_by(|one, next| one.symbol == next.symbol);
        let of_symbol = |legs: &[Leg<'a>]| {
            let mut reaches = legs.iter().map(|leg| leg.reach);
            let sum = reaches.try_fold(Reach::NOTHING, |sum, reach| sum.and(reach?));
            Some(self.at_market(legs.first()?.symbol, sum))
        };
        of_symbols.filter_map(of_symbol).collect()
    }

    fn at_market(&self, symbol: &'a Symbol, reach: Option<Reach>) -> Open<'a> {
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
            let risk = risk::of_position(
                self.book,
                position,
                mark,
                instrument,
                &self.rules.safety,
                self.now,
            );
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
    Box::new(CheckRow {
        follows_from: Some(PRICES.into()),
        ..CheckRow::unknown("usd", SAFETY, reason)
    })
}

/// Returns the cash that an entry takes: price x size x multiplier x (1 + taker_fee).
pub fn cost(price: Amount, size: Amount, instrument: &Instrument) -> Option<Amount> {
    with_fee(notional(price, size, instrument)?, instrument)
}

/// Returns price x size x multiplier.
pub fn notional(price: Amount, size: Amount, instrument: &Instrument) -> Option<Amount> {
    price.checked_mul(size)?.checked_mul(*instrument.multiplier)
}

fn with_fee(notional: Amount, instrument: &Instrument) -> Option<Amount> {
    notional.checked_add(notional.checked_mul(*instrument.taker_fee)?)
}
