//! What stands open around an order, as far as limits count it: found when a check first asks for it, then the
//! same for every size.

use std::cell::OnceCell;

use super::halts::left_to_lose;
use super::order::NOT_EXACT;
use super::{Finding, INSTRUMENTS, OrderFacts, SAFETY, Subject};
use crate::rules::instruments::Instrument;
use crate::trading::book::Book;
use crate::trading::order::{Order, OrderRole};
use crate::trading::pricing::{self, Terms};
use crate::trading::risk;
use crate::trading::valuation::{TwoSided, is_fresh};
use crate::wire::amount::Amount;
use crate::wire::ids::{StrategyName, Symbol};
use crate::wire::orders::Side;

/// What does not depend on the size of the order, kept from its first use on.
#[derive(Clone, Debug, Default)]
pub struct Around {
    pending: OnceCell<Vec<Pending>>,
    risks: OnceCell<Option<Vec<Amount>>>,
    open_risk: OnceCell<Result<Amount, Finding>>,
    own: OnceCell<Option<Open>>,
    own_of_strategy: OnceCell<Option<Open>>,
    others: OnceCell<Others>,
    others_of_strategy: OnceCell<Result<Amount, Finding>>,
    free: OnceCell<Result<Amount, Finding>>,
    left_to_lose: OnceCell<Result<Amount, &'static str>>,
}

/// A working entry of the book, as limits count it.
#[derive(Clone, Debug)]
struct Pending {
    /// Whether this order adds to it: same symbol, strategy and side.
    is_added_to: bool,
    /// What nobody knows of its market; nothing below is known then.
    unknown: Option<Finding>,
    /// What it could lose down to its stop, account currency. None if not exact.
    risk: Option<Amount>,
    /// What it takes of the cash, account currency. None if not exact.
    cost: Option<Amount>,
}

/// What all symbols but the order's add up to, account currency.
#[derive(Clone, Debug)]
pub(super) struct Others {
    /// Over all of them.
    pub all: Result<Sides, Finding>,
    /// The worst cases of those in the group of the order's instrument.
    pub group: Result<Amount, Finding>,
}

/// Sums of worst cases.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sides {
    /// Whichever side is worse, symbol by symbol.
    pub worst: Amount,
    /// Of what could be held long.
    pub long: Amount,
    /// Of what could be held short.
    pub short: Amount,
}

impl Sides {
    const NONE: Sides = Sides { worst: Amount::ZERO, long: Amount::ZERO, short: Amount::ZERO };

    fn plus(self, other: Sides) -> Option<Sides> {
        Some(Sides {
            worst: self.worst.checked_add(other.worst)?,
            long: self.long.checked_add(other.long)?,
            short: self.short.checked_add(other.short)?,
        })
    }
}

impl Around {
    /// Risk of the position and of each pending entry that the order adds to, one by one: they are added up in
    /// one order with every size, so that what is exact does not depend on who asks. None if one is not exact.
    pub(super) fn risks(
        &self,
        subject: &Subject,
        facts: &OrderFacts,
        instrument: &Instrument,
    ) -> Option<&[Amount]> {
        self.risks.get_or_init(|| other_risks(subject, facts, instrument)).as_deref()
    }

    /// Risk of every position down to its stops and of every pending entry, account currency.
    pub(super) fn open_risk(&self, subject: &Subject, facts: &OrderFacts) -> Result<Amount, Finding> {
        self.open_risk.get_or_init(|| open_risk(subject, facts)).clone()
    }

    /// Every working entry, by order id.
    fn pending(&self, subject: &Subject, facts: &OrderFacts) -> &[Pending] {
        self.pending.get_or_init(|| pending(subject, facts))
    }

    /// The order's own symbol, over all strategies.
    pub(super) fn own(&self, subject: &Subject, instrument: &Instrument) -> Option<&Open> {
        self.own.get_or_init(|| Open::of(subject.book, &instrument.symbol, None)).as_ref()
    }

    /// The order's own symbol, its strategy alone.
    pub(super) fn own_of_strategy(&self, subject: &Subject, facts: &OrderFacts) -> Option<&Open> {
        let of = || Open::of(subject.book, facts.symbol(), Some(&facts.order.strategy));
        self.own_of_strategy.get_or_init(of).as_ref()
    }

    /// Every other symbol, over all strategies.
    pub(super) fn others(&self, subject: &Subject, facts: &OrderFacts) -> &Others {
        self.others.get_or_init(|| others(subject, facts))
    }

    /// The worst cases of every other symbol, the order's strategy alone.
    pub(super) fn others_of_strategy(
        &self,
        subject: &Subject,
        facts: &OrderFacts,
    ) -> Result<Amount, Finding> {
        self.others_of_strategy.get_or_init(|| others_of_strategy(subject, facts)).clone()
    }

    /// What may be lost before a halt, account currency, or why nobody knows.
    pub(super) fn left_to_lose(&self, subject: &Subject, facts: &OrderFacts) -> Result<Amount, &'static str> {
        *self.left_to_lose.get_or_init(|| left_to_lose(subject, facts))
    }

    /// Cash that neither shorts nor working entries need, account currency.
    pub(super) fn free(&self, subject: &Subject, facts: &OrderFacts) -> Result<Amount, Finding> {
        self.free.get_or_init(|| free(subject, facts)).clone()
    }
}

/// An instrument and its fresh market, or why there are none.
type Known<'a> = Result<(&'a Instrument, TwoSided), Finding>;

/// What each working entry of the book comes to. Those of one symbol see one market.
fn pending(subject: &Subject, facts: &OrderFacts) -> Vec<Pending> {
    let (book, asked) = (subject.book, facts.order);
    let mut seen: Option<(&Symbol, Known)> = None;
    let mut entries = Vec::new();
    for order in book.orders.values().filter(|order| order.role == OrderRole::Entry) {
        let known = match &seen {
            Some((symbol, known)) if **symbol == order.symbol => known,
            _ => {
                let instrument = configured(subject, &order.symbol);
                let known: Known = instrument.and_then(|found| Ok((found, fresh_market(subject, found)?)));
                &seen.insert((&order.symbol, known)).1
            }
        };
        let is_added_to = order.side == asked.side && order.is_of(&asked.strategy, &asked.symbol);
        entries.push(match known {
            Ok((instrument, market)) => {
                let safety = &subject.rules.safety;
                let terms = Terms::of_open(order);
                let entry = pricing::worst_entry(&terms, market, safety.entry_slippage);
                let risk = entry.and_then(|entry| risk::of_pending(book, order, entry, instrument, safety));
                let price = pricing::cost_price(&terms, market, entry);
                let cost = price.and_then(|price| cost(price, order.leaves(), instrument));
                Pending { is_added_to, unknown: None, risk, cost }
            }
            Err(unknown) => Pending { is_added_to, unknown: Some(unknown.clone()), risk: None, cost: None },
        });
    }
    entries
}

fn other_risks(subject: &Subject, facts: &OrderFacts, instrument: &Instrument) -> Option<Vec<Amount>> {
    let (book, safety, order) = (subject.book, &subject.rules.safety, facts.order);
    let mut risks = Vec::new();
    let key = (order.symbol.clone(), order.strategy.clone());
    if let Some(position) = book.positions.get(&key).filter(|held| held.closing_side() != order.side) {
        let (mark, _) = book.mark(instrument, position.size.is_positive())?;
        risks.push(risk::of_position(book, position, mark, instrument, safety)?);
    }
    for entry in facts.around.pending(subject, facts).iter().filter(|entry| entry.is_added_to) {
        risks.push(entry.risk?);
    }
    Some(risks)
}

fn open_risk(subject: &Subject, facts: &OrderFacts) -> Result<Amount, Finding> {
    let (book, rules) = (subject.book, subject.rules);
    let mut sum = Amount::ZERO;
    for position in book.positions.values() {
        let instrument = configured(subject, &position.symbol)?;
        let mark = book.fresh_mark(instrument, position.size.is_positive(), rules, subject.ctx.now);
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

fn configured<'a>(subject: &Subject<'a>, symbol: &Symbol) -> Result<&'a Instrument, Finding> {
    subject.rules.instruments.get(symbol).ok_or_else(|| {
        Finding::unknown("usd", INSTRUMENTS, format!("`{symbol}` has something open and is not configured"))
    })
}

fn no_price(symbol: &Symbol) -> Finding {
    Finding::unknown("usd", SAFETY, format!("no fresh price of `{symbol}`, which has something open"))
}

fn fresh_market(subject: &Subject, instrument: &Instrument) -> Result<TwoSided, Finding> {
    let seen = subject.book.two_sided(instrument);
    let is_current =
        |seen: &TwoSided| is_fresh(seen.time, subject.ctx.now, instrument, &subject.rules.safety);
    seen.filter(is_current).ok_or_else(|| no_price(&instrument.symbol))
}

/// Open entries of a symbol.
fn pending_entries<'a>(book: &'a Book, symbol: &'a Symbol) -> impl Iterator<Item = &'a Order> {
    book.orders.values().filter(move |order| order.role == OrderRole::Entry && order.symbol == *symbol)
}

/// What is open in one symbol, exits and stops left out.
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
    /// Over all strategies, or of one. None if a sum is not exact.
    fn of(book: &Book, symbol: &Symbol, strategy: Option<&StrategyName>) -> Option<Open> {
        let is_counted = |owner: &StrategyName| strategy.is_none_or(|strategy| owner == strategy);
        let held =
            book.positions.values().filter(|held| held.symbol == *symbol && is_counted(&held.strategy));
        let mut net = Amount::ZERO;
        for position in held {
            net = net.checked_add(position.size)?;
        }
        let mut open = Open { long: net, short: net, highest: None };
        for order in pending_entries(book, symbol).filter(|order| is_counted(&order.strategy)) {
            match order.side {
                Side::Buy => open.long = open.long.checked_add(order.leaves())?,
                Side::Sell => open.short = open.short.checked_sub(order.leaves())?,
            }
            open.highest = open.highest.max(Some(order.price.or(order.trigger).unwrap_or(Amount::ZERO)));
        }
        Some(open)
    }

    /// With a new order on top.
    pub fn with(&self, side: Side, size: Amount) -> Option<Open> {
        let mut open = self.clone();
        match side {
            Side::Buy => open.long = open.long.checked_add(size)?,
            Side::Sell => open.short = open.short.checked_sub(size)?,
        }
        Some(open)
    }

    /// max(|net + open buys|, |net - open sells|), units.
    pub fn units(&self) -> Amount {
        self.long.abs().max(self.short.abs())
    }

    /// What could be held in the direction that `side` opens, units, at least 0.
    pub fn units_on(&self, side: Side) -> Amount {
        match side {
            Side::Buy => self.long.max(Amount::ZERO),
            Side::Sell => (-self.short).max(Amount::ZERO),
        }
    }

    /// units x price x multiplier, account currency: at `price`, or at the highest price of pending entries
    /// where that is higher.
    pub fn money(&self, units: Amount, instrument: &Instrument, price: Amount) -> Option<Amount> {
        let price = self.highest.map_or(price, |highest| price.max(highest));
        units.checked_mul(price)?.checked_mul(instrument.multiplier)
    }
}

/// The worst case of a symbol, as money in account currency: at the ask, or at the highest price of pending
/// entries where that is higher.
pub(crate) fn open_notional(book: &Book, instrument: &Instrument, ask: Amount) -> Option<Amount> {
    let open = Open::of(book, &instrument.symbol, None)?;
    open.money(open.units(), instrument, ask)
}

fn others(subject: &Subject, facts: &OrderFacts) -> Others {
    // Positions without an instrument make equity unknown already; entries do not.
    let mut entries = subject.book.orders.values().filter(|order| order.role == OrderRole::Entry);
    if let Some(order) = entries.find(|order| !subject.rules.instruments.contains_key(&order.symbol)) {
        let reason =
            format!("`{}` has the open entry `{}` and is not configured", order.symbol, order.order_id);
        let unknown = Finding::unknown("usd", INSTRUMENTS, reason);
        return Others { all: Err(unknown.clone()), group: Err(unknown) };
    }
    let own_group = subject.instrument.and_then(|instrument| instrument.group.as_ref());
    let mut others = Others { all: Ok(Sides::NONE), group: Ok(Amount::ZERO) };
    for instrument in subject.rules.instruments.values() {
        if instrument.symbol == *facts.symbol() || !is_open(subject.book, &instrument.symbol) {
            continue;
        }
        let sides = sides_of(subject, instrument);
        if own_group.is_some() && instrument.group.as_ref() == own_group {
            others.group = others
                .group
                .and_then(|sum| sides.clone().and_then(|sides| exactly(sum.checked_add(sides.worst))));
        }
        others.all = others.all.and_then(|sum| sides.and_then(|sides| exactly(sum.plus(sides))));
    }
    others
}

fn exactly<T>(value: Option<T>) -> Result<T, Finding> {
    value.ok_or_else(|| Finding::unknown("usd", SAFETY, NOT_EXACT))
}

/// Worst cases of a symbol that is not the order's and has something open: it needs a fresh price.
fn sides_of(subject: &Subject, instrument: &Instrument) -> Result<Sides, Finding> {
    let ask = fresh_market(subject, instrument)?.ask;
    let open = exactly(Open::of(subject.book, &instrument.symbol, None))?;
    let money = |units: Amount| exactly(open.money(units, instrument, ask));
    Ok(Sides {
        worst: money(open.units())?,
        long: money(open.units_on(Side::Buy))?,
        short: money(open.units_on(Side::Sell))?,
    })
}

fn others_of_strategy(subject: &Subject, facts: &OrderFacts) -> Result<Amount, Finding> {
    let (book, strategy) = (subject.book, &facts.order.strategy);
    let held = book.positions.keys().filter(|(_, owner)| owner == strategy).map(|(symbol, _)| symbol);
    let entries = book.orders.values().filter(|order| order.role == OrderRole::Entry);
    let entered = entries.filter(|order| order.strategy == *strategy).map(|order| &order.symbol);
    let mut symbols: Vec<&Symbol> = held.chain(entered).filter(|symbol| *symbol != facts.symbol()).collect();
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

/// Whether anything in the symbol counts towards exposure.
fn is_open(book: &Book, symbol: &Symbol) -> bool {
    book.positions.keys().any(|(held, _)| held == symbol) || pending_entries(book, symbol).next().is_some()
}

/// Cash - 2 x what it takes to buy every short back at its mark (what their sale brought in is not one's own, and
/// as much again is their collateral) - what every working entry takes, fees included.
fn free(subject: &Subject, facts: &OrderFacts) -> Result<Amount, Finding> {
    let (book, rules) = (subject.book, subject.rules);
    let mut left = book.account.cash;
    for position in book.positions.values().filter(|held| held.size.is_negative()) {
        let instrument = configured(subject, &position.symbol)?;
        let mark = book.fresh_mark(instrument, false, rules, subject.ctx.now);
        let mark = mark.ok_or_else(|| no_price(&position.symbol))?;
        let owed = mark.checked_mul(position.size.abs()).and_then(|v| v.checked_mul(instrument.multiplier));
        let tied = owed.and_then(|owed| owed.checked_add(owed));
        left = exactly(tied.and_then(|tied| left.checked_sub(tied)))?;
    }
    for entry in facts.around.pending(subject, facts) {
        entry.unknown.clone().map_or(Ok(()), Err)?;
        left = exactly(entry.cost.and_then(|cost| left.checked_sub(cost)))?;
    }
    Ok(left)
}

/// What an entry takes of the cash: price x size x multiplier x (1 + taker_fee).
pub(super) fn cost(price: Amount, size: Amount, instrument: &Instrument) -> Option<Amount> {
    let notional = price.checked_mul(size)?.checked_mul(instrument.multiplier)?;
    notional.checked_add(notional.checked_mul(instrument.taker_fee)?)
}
