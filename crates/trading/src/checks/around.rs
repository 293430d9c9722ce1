//! The open positions and orders around an order that limits count. Each value is computed when a
//! check first needs it and is the same for every size.

use std::cell::OnceCell;

use super::halts::left_to_lose;
use super::order::NOT_EXACT;
use super::{CheckRow, INSTRUMENTS, OrderFacts, SAFETY, Subject};
use crate::book::Book;
use crate::order::{Order, OrderRole};
use crate::pricing::{self, Terms};
use crate::risk;
use crate::valuation::{TwoSided, is_fresh};
use spoolgate_rules::instruments::Instrument;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{StrategyName, Symbol};
use spoolgate_wire::orders::Side;

/// The row of a value that cannot be computed. It is an error on the way up, so it is boxed:
/// results stay small where the value is known.
pub(super) type Unknown = Box<CheckRow>;

/// Values that do not depend on the size of the order, cached on first use.
#[derive(Clone, Debug, Default)]
pub struct Around {
    pending: OnceCell<Vec<Pending>>,
    risks: OnceCell<Option<Vec<Amount>>>,
    open_risk: OnceCell<Result<Amount, Unknown>>,
    own: OnceCell<Option<Open>>,
    own_of_strategy: OnceCell<Option<Open>>,
    others: OnceCell<Others>,
    others_of_strategy: OnceCell<Result<Amount, Unknown>>,
    free: OnceCell<Result<Amount, Unknown>>,
    left_to_lose: OnceCell<Result<Amount, &'static str>>,
}

/// A working entry of the book, as limits count it.
#[derive(Clone, Debug)]
struct Pending {
    /// Whether the checked order adds to this entry: same symbol, strategy and side.
    is_added_to: bool,
    /// Why its market is unknown; then the values below are unknown too.
    unknown: Option<Unknown>,
    /// Possible loss down to its stop, account currency. `None` if it is not exact.
    risk: Option<Amount>,
    /// Cash that it needs, account currency. `None` if it is not exact.
    cost: Option<Amount>,
}

/// Totals over all symbols except the order's own, account currency.
#[derive(Clone, Debug)]
pub(super) struct Others {
    /// Totals over all these symbols.
    pub all: Result<Sides, Unknown>,
    /// Sum of the worst cases of the symbols in the group of the order's instrument.
    pub group: Result<Amount, Unknown>,
}

/// Sums of worst cases.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sides {
    /// Sum of the worse side of each symbol.
    pub worst: Amount,
    /// Sum of what could be held long.
    pub long: Amount,
    /// Sum of what could be held short.
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

impl Around {
    /// Returns the risk of the position and of each pending entry that the order adds to, one by
    /// one. Callers add them up in the same order for every size, so that exactness does not depend
    /// on the caller. `None` if one of them is not exact.
    pub(super) fn risks(
        &self,
        subject: &Subject,
        facts: &OrderFacts,
        instrument: &Instrument,
    ) -> Option<&[Amount]> {
        self.risks
            .get_or_init(|| other_risks(subject, facts, instrument))
            .as_deref()
    }

    /// Returns the risk of every position down to its stops plus the risk of every pending entry,
    /// account currency.
    pub(super) fn open_risk(
        &self,
        subject: &Subject,
        facts: &OrderFacts,
    ) -> Result<Amount, Unknown> {
        self.open_risk
            .get_or_init(|| open_risk(subject, facts))
            .clone()
    }

    /// Returns every working entry, by order id.
    fn pending(&self, subject: &Subject, facts: &OrderFacts) -> &[Pending] {
        self.pending.get_or_init(|| pending(subject, facts))
    }

    /// Returns what is open in the order's own symbol, over all strategies.
    pub(super) fn own(&self, subject: &Subject, instrument: &Instrument) -> Option<&Open> {
        self.own
            .get_or_init(|| Open::of(subject.book, &instrument.symbol, None))
            .as_ref()
    }

    /// Returns what is open in the order's own symbol for its strategy alone.
    pub(super) fn own_of_strategy(&self, subject: &Subject, facts: &OrderFacts) -> Option<&Open> {
        let of = || Open::of(subject.book, facts.symbol(), Some(&facts.order.strategy));
        self.own_of_strategy.get_or_init(of).as_ref()
    }

    /// Returns the totals of every other symbol, over all strategies.
    pub(super) fn others(&self, subject: &Subject, facts: &OrderFacts) -> &Others {
        self.others.get_or_init(|| others(subject, facts))
    }

    /// Returns the sum of the worst cases of every other symbol for the order's strategy alone.
    pub(super) fn others_of_strategy(
        &self,
        subject: &Subject,
        facts: &OrderFacts,
    ) -> Result<Amount, Unknown> {
        self.others_of_strategy
            .get_or_init(|| others_of_strategy(subject, facts))
            .clone()
    }

    /// Returns what may be lost before a halt, account currency, or why it is unknown.
    pub(super) fn left_to_lose(
        &self,
        subject: &Subject,
        facts: &OrderFacts,
    ) -> Result<Amount, &'static str> {
        *self
            .left_to_lose
            .get_or_init(|| left_to_lose(subject, facts))
    }

    /// Returns the cash that neither shorts nor working entries need, account currency.
    pub(super) fn free(&self, subject: &Subject, facts: &OrderFacts) -> Result<Amount, Unknown> {
        self.free.get_or_init(|| free(subject, facts)).clone()
    }
}

/// An instrument with its fresh market, or the row that says what is missing.
type Known<'a> = Result<(&'a Instrument, TwoSided), Unknown>;

/// Computes the risk and cost of each working entry of the book. All entries of one symbol use the
/// same market.
fn pending(subject: &Subject, facts: &OrderFacts) -> Vec<Pending> {
    let (book, asked) = (subject.book, facts.order);
    let mut seen: Option<(&Symbol, Known)> = None;
    let mut entries = Vec::new();
    for order in book
        .orders
        .values()
        .filter(|order| order.role == OrderRole::Entry)
    {
        let known = match &seen {
            Some((symbol, known)) if **symbol == order.symbol => known,
            _ => {
                let instrument = configured(subject, &order.symbol);
                let known: Known =
                    instrument.and_then(|found| Ok((found, fresh_market(subject, found)?)));
                &seen.insert((&order.symbol, known)).1
            }
        };
        let is_added_to = order.side == asked.side && order.is_of(&asked.strategy, &asked.symbol);
        entries.push(match known {
            Ok((instrument, market)) => {
                let safety = &subject.rules.safety;
                let terms = Terms::of_open(order);
                let entry = pricing::worst_entry(&terms, market, *safety.entry_slippage);
                let risk = entry
                    .and_then(|entry| risk::of_pending(book, order, entry, instrument, safety));
                let price = pricing::cost_price(&terms, market, entry);
                let cost = price.and_then(|price| cost(price, order.leaves(), instrument));
                Pending {
                    is_added_to,
                    unknown: None,
                    risk,
                    cost,
                }
            }
            Err(unknown) => Pending {
                is_added_to,
                unknown: Some(unknown.clone()),
                risk: None,
                cost: None,
            },
        });
    }
    entries
}

fn other_risks(
    subject: &Subject,
    facts: &OrderFacts,
    instrument: &Instrument,
) -> Option<Vec<Amount>> {
    let (book, safety, order) = (subject.book, &subject.rules.safety, facts.order);
    let mut risks = Vec::new();
    let key = (order.symbol.clone(), order.strategy.clone());
    if let Some(position) = book
        .positions
        .get(&key)
        .filter(|held| held.closing_side() != order.side)
    {
        let (mark, _) = book.mark(instrument, position.size.is_positive())?;
        risks.push(risk::of_position(book, position, mark, instrument, safety)?);
    }
    for entry in facts
        .around
        .pending(subject, facts)
        .iter()
        .filter(|entry| entry.is_added_to)
    {
        risks.push(entry.risk?);
    }
    Some(risks)
}

fn open_risk(subject: &Subject, facts: &OrderFacts) -> Result<Amount, Unknown> {
    let (book, rules) = (subject.book, subject.rules);
    let mut sum = Amount::ZERO;
    for position in book.positions.values() {
        let instrument = configured(subject, &position.symbol)?;
        let mark = book.fresh_mark(
            instrument,
            position.size.is_positive(),
            rules,
            subject.ctx.now,
        );
        let mark = mark.ok_or_else(|| no_price(&position.symbol))?;
        let risk = risk::of_position(book, position, mark, instrument, &rules.safety);
        sum = exactly(risk.and_then(|risk| sum.checked_add(risk)))?;
    }
    for entry in facts.around.pending(subject, facts) {
        entry.unknown.clone().map_or(Ok(()), Err)?;
        sum = exactly(entry.risk.and_then(|risk| sum.checked_add(risk)))?;
    }
    Ok(sum)
}

fn configured<'a>(subject: &Subject<'a>, symbol: &Symbol) -> Result<&'a Instrument, Unknown> {
    subject.rules.instruments.get(symbol).ok_or_else(|| {
        let reason = format!(
            "`{symbol}` has an open position or order and is not in \
            rules/instruments.yaml"
        );
        Box::new(CheckRow::unknown("usd", INSTRUMENTS, reason))
    })
}

fn no_price(symbol: &Symbol) -> Unknown {
    let reason = format!("`{symbol}` has an open position or order and no fresh price");
    Box::new(CheckRow::unknown("usd", SAFETY, reason))
}

fn fresh_market(subject: &Subject, instrument: &Instrument) -> Result<TwoSided, Unknown> {
    let seen = subject.book.two_sided(instrument);
    let is_current = |seen: &TwoSided| {
        is_fresh(
            seen.time,
            subject.ctx.now,
            instrument,
            &subject.rules.safety,
        )
    };
    seen.filter(is_current)
        .ok_or_else(|| no_price(&instrument.symbol))
}

/// Returns the open entries of a symbol.
fn pending_entries<'a>(book: &'a Book, symbol: &'a Symbol) -> impl Iterator<Item = &'a Order> {
    book.orders
        .values()
        .filter(move |order| order.role == OrderRole::Entry && order.symbol == *symbol)
}

/// What is open in one symbol, without exits and stops.
#[derive(Clone, Debug)]
pub(super) struct Open {
    /// net + open buys, units.
    pub long: Amount,
    /// net - open sells, units.
    pub short: Amount,
    /// The highest price among pending entries.
    highest: Option<Amount>,
}

impl Open {
    /// Computes it over all strategies, or for one. `None` if a sum is not exact.
    fn of(book: &Book, symbol: &Symbol, strategy: Option<&StrategyName>) -> Option<Open> {
        let is_counted = |owner: &StrategyName| strategy.is_none_or(|strategy| owner == strategy);
        let held = book
            .positions
            .values()
            .filter(|held| held.symbol == *symbol && is_counted(&held.strategy));
        let mut net = Amount::ZERO;
        for position in held {
            net = net.checked_add(position.size)?;
        }
        let mut open = Open {
            long: net,
            short: net,
            highest: None,
        };
        for order in pending_entries(book, symbol).filter(|order| is_counted(&order.strategy)) {
            match order.side {
                Side::Buy => open.long = open.long.checked_add(order.leaves())?,
                Side::Sell => open.short = open.short.checked_sub(order.leaves())?,
            }
            open.highest = open
                .highest
                .max(Some(order.price.or(order.trigger).unwrap_or(Amount::ZERO)));
        }
        Some(open)
    }

    /// Returns what would be open with a new order added.
    pub(super) fn with(&self, side: Side, size: Amount) -> Option<Open> {
        let mut open = self.clone();
        match side {
            Side::Buy => open.long = open.long.checked_add(size)?,
            Side::Sell => open.short = open.short.checked_sub(size)?,
        }
        Some(open)
    }

    /// max(|net + open buys|, |net - open sells|), units.
    pub(super) fn units(&self) -> Amount {
        self.long.abs().max(self.short.abs())
    }

    /// Returns what could be held in the direction that `side` opens, units, at least 0.
    pub(super) fn units_on(&self, side: Side) -> Amount {
        match side {
            Side::Buy => self.long.max(Amount::ZERO),
            Side::Sell => (-self.short).max(Amount::ZERO),
        }
    }

    /// Returns units x price x multiplier, account currency: at `price`, or at the highest price of
    /// pending entries if that is higher.
    pub(super) fn money(
        &self,
        units: Amount,
        instrument: &Instrument,
        price: Amount,
    ) -> Option<Amount> {
        let price = self.highest.map_or(price, |highest| price.max(highest));
        units
            .checked_mul(price)?
            .checked_mul(*instrument.multiplier)
    }
}

/// Returns the worst case of a symbol in account currency: at the ask, or at the highest price of
/// pending entries if that is higher.
pub(crate) fn open_notional(book: &Book, instrument: &Instrument, ask: Amount) -> Option<Amount> {
    let open = Open::of(book, &instrument.symbol, None)?;
    open.money(open.units(), instrument, ask)
}

fn others(subject: &Subject, facts: &OrderFacts) -> Others {
    // A position without an instrument already makes equity unknown; an entry without one does not.
    let mut entries = subject
        .book
        .orders
        .values()
        .filter(|order| order.role == OrderRole::Entry);
    if let Some(order) =
        entries.find(|order| !subject.rules.instruments.contains_key(&order.symbol))
    {
        let reason = format!(
            "`{}` has the open entry `{}` and is not in rules/instruments.yaml",
            order.symbol, order.order_id
        );
        let unknown = Box::new(CheckRow::unknown("usd", INSTRUMENTS, reason));
        return Others {
            all: Err(unknown.clone()),
            group: Err(unknown),
        };
    }
    let own_group = subject
        .instrument
        .and_then(|instrument| instrument.group.as_ref());
    let mut others = Others {
        all: Ok(Sides::NONE),
        group: Ok(Amount::ZERO),
    };
    for instrument in subject.rules.instruments.values() {
        if instrument.symbol == *facts.symbol() || !is_open(subject.book, &instrument.symbol) {
            continue;
        }
        let sides = sides_of(subject, instrument);
        if own_group.is_some() && instrument.group.as_ref() == own_group {
            others.group = others.group.and_then(|sum| {
                sides
                    .clone()
                    .and_then(|sides| exactly(sum.checked_add(sides.worst)))
            });
        }
        others.all = others
            .all
            .and_then(|sum| sides.and_then(|sides| exactly(sum.plus(sides))));
    }
    others
}

fn exactly<T>(value: Option<T>) -> Result<T, Unknown> {
    value.ok_or_else(|| Box::new(CheckRow::unknown("usd", SAFETY, NOT_EXACT)))
}

/// Returns the worst cases of a symbol other than the order's that has something open; this needs a
/// fresh price.
fn sides_of(subject: &Subject, instrument: &Instrument) -> Result<Sides, Unknown> {
    let ask = fresh_market(subject, instrument)?.ask;
    let open = exactly(Open::of(subject.book, &instrument.symbol, None))?;
    let money = |units: Amount| exactly(open.money(units, instrument, ask));
    Ok(Sides {
        worst: money(open.units())?,
        long: money(open.units_on(Side::Buy))?,
        short: money(open.units_on(Side::Sell))?,
    })
}

fn others_of_strategy(subject: &Subject, facts: &OrderFacts) -> Result<Amount, Unknown> {
    let (book, strategy) = (subject.book, &facts.order.strategy);
    let held = book
        .positions
        .keys()
        .filter(|(_, owner)| owner == strategy)
        .map(|(symbol, _)| symbol);
    let entries = book
        .orders
        .values()
        .filter(|order| order.role == OrderRole::Entry);
    let entered = entries
        .filter(|order| order.strategy == *strategy)
        .map(|order| &order.symbol);
    let mut symbols: Vec<&Symbol> = held
        .chain(entered)
        .filter(|symbol| *symbol != facts.symbol())
        .collect();
    symbols.sort();
    symbols.dedup();
    let mut sum = Amount::ZERO;
    for symbol in symbols {
        let instrument = configured(subject, symbol)?;
        let ask = fresh_market(subject, instrument)?.ask;
        let open = exactly(Open::of(book, symbol, Some(strategy)))?;
        let money = exactly(open.money(open.units(), instrument, ask))?;
        sum = exactly(sum.checked_add(money))?;
    }
    Ok(sum)
}

/// Whether anything open in the symbol counts towards exposure.
fn is_open(book: &Book, symbol: &Symbol) -> bool {
    book.positions.keys().any(|(held, _)| held == symbol)
        || pending_entries(book, symbol).next().is_some()
}

/// Computes cash - 2 x the cost of buying every short back at its mark - what every working entry
/// takes, fees included. The factor is 2 because the proceeds of a short sale are owed back, and
/// the same amount again is its collateral.
fn free(subject: &Subject, facts: &OrderFacts) -> Result<Amount, Unknown> {
    let (book, rules) = (subject.book, subject.rules);
    let mut left = book.account.cash;
    for position in book
        .positions
        .values()
        .filter(|held| held.size.is_negative())
    {
        let instrument = configured(subject, &position.symbol)?;
        let mark = book.fresh_mark(instrument, false, rules, subject.ctx.now);
        let mark = mark.ok_or_else(|| no_price(&position.symbol))?;
        let owed = mark
            .checked_mul(position.size.abs())
            .and_then(|v| v.checked_mul(*instrument.multiplier));
        let tied = owed.and_then(|owed| owed.checked_add(owed));
        left = exactly(tied.and_then(|tied| left.checked_sub(tied)))?;
    }
    for entry in facts.around.pending(subject, facts) {
        entry.unknown.clone().map_or(Ok(()), Err)?;
        left = exactly(entry.cost.and_then(|cost| left.checked_sub(cost)))?;
    }
    Ok(left)
}

/// Returns the cash that an entry takes: price x size x multiplier x (1 + taker_fee).
pub(super) fn cost(price: Amount, size: Amount, instrument: &Instrument) -> Option<Amount> {
    let notional = price
        .checked_mul(size)?
        .checked_mul(*instrument.multiplier)?;
    notional.checked_add(notional.checked_mul(*instrument.taker_fee)?)
}
