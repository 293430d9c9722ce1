//! Answers about the book, as serialised. Amounts are strings; unknown values are null.

use serde::Serialize;

use super::book::{Baseline, Book};
use super::facts::{Facts, facts};
use super::order::{Order, Position};
use super::risk;
use super::sums::Sums;
use super::usage::{LimitUse, Reduced, usage};
use super::valuation::{capital_base, is_fresh};
use crate::checks::thesis_fault;
use spoolgate_rules::Rulebook;
use spoolgate_rules::instruments::Instrument;
use spoolgate_rules::strategies::{Direction, Strategy};
use spoolgate_rules::theses::Thesis;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{OrderId, Principal, StrategyName, Symbol, ThesisSlug};
use spoolgate_wire::time::Time;

/// Decimals of displayed averages.
const AVERAGE_PLACES: u32 = 8;

/// The account and its positions. Money is in the account's currency.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct PortfolioState {
    /// The gate's clock.
    pub time: Time,
    /// Equity; null if a price of an open position is missing or stale.
    pub equity: Option<Amount>,
    /// The amount that fractional limits refer to; null if equity is null.
    pub capital_base: Option<Amount>,
    /// Cash.
    pub cash: Amount,
    /// Deposits minus withdrawals.
    pub net_deposits: Amount,
    /// Realised profit and loss before fees.
    pub realised: Amount,
    /// Equity - cash - cost of the open positions; null if equity is null.
    pub unrealised: Option<Amount>,
    /// Fees paid.
    pub fees: Amount,
    /// Funding paid minus funding received.
    pub funding: Amount,
    /// Profit and loss of the UTC day; null if equity is null.
    pub day_pnl: Option<Amount>,
    /// Profit and loss of the week, from Monday UTC; null if equity is null.
    pub week_pnl: Option<Amount>,
    /// Highest equity, adjusted for later deposits and withdrawals.
    pub peak_equity: Option<Amount>,
    /// Since when the drawdown stops entries.
    pub drawdown_since: Option<Time>,
    /// Worst-case notional of all symbols; null if a price is missing or stale.
    pub exposure: Option<Amount>,
    /// Possible loss of everything open down to its stops, working entries included: equity less what
    /// is left if every entry fills at its worst price and every position leaves at its stops; null
    /// if a price is missing or stale.
    pub open_risk: Option<Amount>,
    /// Sum of |size| x mark x multiplier over the positions; null if a price is missing or stale.
    pub gross: Option<Amount>,
    /// Positions by symbol, then strategy.
    pub positions: Vec<PositionView>,
    /// Agents whose entries the dead man's switch has closed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unheard: Vec<UnheardView>,
    /// Every limit, and how much of it is used.
    pub limits: Vec<LimitUse>,
}

/// An agent that is closed by the dead man's switch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct UnheardView {
    /// The agent.
    pub principal: Principal,
    /// When the switch tripped.
    pub since: Time,
    /// `close_new_only` or `liquidate_all`.
    pub action: &'static str,
}

/// One position.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct PositionView {
    /// Strategy that owns the position.
    pub strategy: StrategyName,
    /// Instrument.
    pub symbol: Symbol,
    /// `long` or `short`.
    pub direction: &'static str,
    /// Signed size.
    pub size: Amount,
    /// Whether it is dust: less than its venue takes in one order. It is at risk, and not an open
    /// position.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dust: bool,
    /// Cost / (size x multiplier), 8 decimals, for display; null if it cannot be computed.
    pub average_price: Option<String>,
    /// The price it is valued at; null if missing or stale.
    pub mark: Option<Amount>,
    /// size x mark x multiplier - cost; null if the mark is null.
    pub unrealised: Option<Amount>,
    /// Its working protective stops, oldest first.
    pub stops: Vec<StopView>,
}

/// One protective stop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct StopView {
    /// Its id.
    pub order_id: OrderId,
    /// The size it still protects.
    pub size: Amount,
    /// How much of that its venue has confirmed to work; on paper all of it. The rest protects nothing
    /// yet.
    pub confirmed: Amount,
    /// Its trigger price.
    pub trigger: Option<Amount>,
}

/// One open order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct OrderView {
    /// The order.
    #[serde(flatten)]
    pub order: Order,
    /// Size still to fill.
    pub leaves: Amount,
}

/// One market.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct MarketState {
    /// Instrument.
    pub symbol: Symbol,
    /// Bid as the checks see it.
    pub bid: Option<Amount>,
    /// Ask as the checks see it.
    pub ask: Option<Amount>,
    /// Last trade.
    pub last: Option<Amount>,
    /// Time of the last trade.
    pub last_time: Option<Time>,
    /// Time of the newest quote.
    pub quote_time: Option<Time>,
    /// Whether bid and ask are missing or too old for entries.
    pub stale: bool,
    /// The facts that rules may read about it.
    pub facts: Facts,
}

/// One instrument: its filters, its price, and who may enter it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct InstrumentView<'a> {
    /// Its name in orders.
    pub symbol: &'a Symbol,
    /// Strategies of the sender that may enter it.
    pub strategies: Vec<&'a StrategyName>,
    /// Prices are multiples of this; 0 if any price will do.
    pub tick: Amount,
    /// Sizes are multiples of this; 0 if any size will do.
    pub lot: Amount,
    /// Smallest size of an order.
    pub min_size: Amount,
    /// Largest size of an order.
    pub max_size: Amount,
    /// Smallest notional of an order, account currency.
    pub min_notional: Amount,
    /// Account currency per unit and price point.
    pub multiplier: Amount,
    /// Bid as the checks see it; null if there is none.
    pub bid: Option<Amount>,
    /// Ask as the checks see it; null if there is none.
    pub ask: Option<Amount>,
    /// Age of bid and ask, milliseconds; null if there are none.
    pub age_ms: Option<i64>,
    /// Whether bid and ask are missing or too old for entries.
    pub stale: bool,
}

/// One thesis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct ThesisView<'a> {
    /// Its name in orders.
    pub slug: &'a ThesisSlug,
    /// The strategy that may trade it.
    pub strategy: &'a StrategyName,
    /// The instrument.
    pub symbol: &'a Symbol,
    /// `long` or `short`.
    pub direction: &'static str,
    /// When it expires.
    pub expires: Time,
    /// It is refuted once the market trades at or below this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invalid_below: Option<Amount>,
    /// It is refuted once the market trades at or above this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invalid_above: Option<Amount>,
    /// Smallest distance of the stop of its strategy, fraction of the worst entry price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_min: Option<Amount>,
    /// Largest distance of the stop of its strategy, fraction of the worst entry price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_max: Option<Amount>,
    /// Whether it carries an entry now.
    pub valid: bool,
    /// Why it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Returns the answer of `instruments.list`, with the strategies that `is_own` accepts.
pub fn instruments<'a>(
    book: &Book,
    rules: &'a Rulebook,
    now: Time,
    is_own: impl Fn(&StrategyName) -> bool,
) -> Vec<InstrumentView<'a>> {
    let own: Vec<&Strategy> = rules
        .strategies
        .values()
        .filter(|strategy| is_own(&strategy.name))
        .collect();
    let view = |instrument: &'a Instrument| {
        let seen = book.two_sided(instrument);
        let enters = |strategy: &&&'a Strategy| strategy.instruments.contains(&instrument.symbol);
        InstrumentView {
            symbol: &instrument.symbol,
            strategies: own.iter().filter(enters).map(|found| &found.name).collect(),
            tick: *instrument.tick,
            lot: *instrument.lot,
            min_size: *instrument.min_size,
            max_size: *instrument.max_size,
            min_notional: *instrument.min_notional,
            multiplier: *instrument.multiplier,
            bid: seen.map(|seen| seen.bid),
            ask: seen.map(|seen| seen.ask),
            age_ms: seen.map(|seen| now.since_ms(seen.time)),
            stale: !seen.is_some_and(|seen| is_fresh(seen.time, now, instrument, &rules.safety)),
        }
    };
    rules.instruments.values().map(view).collect()
}

/// Returns the answer of `theses.list`: the theses of the strategies that `is_own` accepts.
pub fn theses<'a>(
    book: &Book,
    rules: &'a Rulebook,
    now: Time,
    is_own: impl Fn(&StrategyName) -> bool,
) -> Vec<ThesisView<'a>> {
    let own = rules.theses.values();
    let own = own.filter(|thesis| is_own(&thesis.strategy));
    let view = |thesis: &'a Thesis| {
        let why = thesis_fault(book, rules, thesis, now);
        let strategy = rules.strategies.get(&thesis.strategy);
        let stop = strategy.map(|strategy| &strategy.stop_distance);
        ThesisView {
            slug: &thesis.slug,
            strategy: &thesis.strategy,
            symbol: &thesis.symbol,
            direction: thesis.direction.as_str(),
            expires: thesis.expires,
            invalid_below: thesis.invalid_below.map(|level| level.get()),
            invalid_above: thesis.invalid_above.map(|level| level.get()),
            stop_min: stop.map(|stop| *stop.min),
            stop_max: stop.map(|stop| *stop.max),
            valid: why.is_none(),
            why,
        }
    };
    own.map(view).collect()
}

/// Returns the answer of `portfolio.get` as far as book and rules determine it; the gate adds what
/// halts entries.
pub fn portfolio(book: &Book, rules: &Rulebook, now: Time, reduced: &Reduced) -> PortfolioState {
    let account = &book.account;
    let equity = book.equity(rules, now);
    let positions: Vec<PositionView> = book
        .positions
        .values()
        .map(|position| position_view(book, rules, position, now))
        .collect();
    let pnl = |then: Option<&Baseline>| book.profit_since(then?, equity?);
    PortfolioState {
        time: now,
        equity,
        capital_base: equity.map(|equity| capital_base(equity, &rules.safety)),
        cash: account.cash,
        net_deposits: account.net_deposits,
        realised: account.realised,
        unrealised: sum(positions.iter().map(|position| position.unrealised)),
        fees: account.fees,
        funding: account.funding,
        day_pnl: pnl(account.day.as_ref()),
        week_pnl: pnl(account.week.as_ref()),
        peak_equity: account.peak_equity,
        drawdown_since: account.drawdown_since,
        exposure: exposure(book, rules, now),
        open_risk: open_risk(book, rules, now),
        gross: gross(book, rules, now),
        positions,
        unheard: Vec::new(),
        limits: usage(book, rules, now, reduced),
    }
}

/// Returns the answer of `orders.list`: the open orders that `wanted` accepts, by id. What only the
/// imitated exchange knows is not shown: a real one would not have told it either.
pub fn orders(book: &Book, wanted: impl Fn(&Order) -> bool) -> Vec<OrderView> {
    let orders = book.orders.values().filter(|order| wanted(order));
    let view = |order: &Order| {
        let (mut order, leaves) = (order.clone(), order.leaves());
        if let Some(venue) = &mut order.at_venue {
            venue.imitated = None;
        }
        OrderView { order, leaves }
    };
    orders.map(view).collect()
}

/// Returns the answer of `market.get`; `None` if the instrument is not configured.
pub fn market(book: &Book, rules: &Rulebook, symbol: &Symbol, now: Time) -> Option<MarketState> {
    let instrument = rules.instruments.get(symbol)?;
    let market = book.markets.get(symbol);
    let last = market.and_then(|market| market.last.as_ref());
    let quote = market.and_then(|market| market.quote.as_ref());
    let seen = book.two_sided(instrument);
    Some(MarketState {
        symbol: symbol.clone(),
        bid: seen.map(|seen| seen.bid),
        ask: seen.map(|seen| seen.ask),
        last: last.map(|last| last.price),
        last_time: last.map(|last| last.time),
        quote_time: quote.map(|quote| quote.time),
        stale: !seen.is_some_and(|seen| is_fresh(seen.time, now, instrument, &rules.safety)),
        facts: facts(book, rules, symbol, now)?,
    })
}

fn sum(mut values: impl Iterator<Item = Option<Amount>>) -> Option<Amount> {
    values.try_fold(Amount::ZERO, |sum, value| sum.checked_add(value?))
}

fn position_view(book: &Book, rules: &Rulebook, position: &Position, now: Time) -> PositionView {
    let instrument = rules.instruments.get(&position.symbol);
    let is_long = position.size.is_positive();
    let mark = instrument.and_then(|instrument| book.fresh_mark(instrument, is_long, rules, now));
    let unrealised = instrument.zip(mark).and_then(|(instrument, mark)| {
        let value = position
            .size
            .checked_mul(mark)?
            .checked_mul(*instrument.multiplier)?;
        value.checked_sub(position.cost)
    });
    let average_price = instrument.and_then(|instrument| {
        let units = position.size.checked_mul(*instrument.multiplier)?;
        let average = position.cost.decimal().checked_div(units.decimal())?;
        Some(average.round_dp(AVERAGE_PLACES).normalize().to_string())
    });
    let stops = risk::stops_of(book, position).map(|stop| StopView {
        order_id: stop.order_id,
        size: stop.leaves(),
        confirmed: stop.confirmed(),
        trigger: stop.trigger,
    });
    let direction = if is_long {
        Direction::Long
    } else {
        Direction::Short
    };
    PositionView {
        strategy: position.strategy.clone(),
        symbol: position.symbol.clone(),
        direction: direction.as_str(),
        size: position.size,
        dust: position.is_dust(),
        average_price,
        mark,
        unrealised,
        stops: stops.collect(),
    }
}

/// Returns the possible loss of everything open down to its stops, account currency; `None` if a
/// price is missing or stale.
pub fn open_risk(book: &Book, rules: &Rulebook, now: Time) -> Option<Amount> {
    Sums::new(book, rules, now).open_risk().ok()
}

/// Returns the sum of the worst cases of every symbol that has anything open, account currency;
/// `None` if a price is missing or stale.
pub fn exposure(book: &Book, rules: &Rulebook, now: Time) -> Option<Amount> {
    let sides = Sums::new(book, rules, now).sides(|_| true).ok();
    sides.map(|sides| sides.worst)
}

/// Returns sum |size| x mark x multiplier over the positions, account currency; `None` if a price is
/// missing or stale.
fn gross(book: &Book, rules: &Rulebook, now: Time) -> Option<Amount> {
    sum(book.positions.values().map(|held| {
        let instrument = rules.instruments.get(&held.symbol)?;
        let mark = book.fresh_mark(instrument, held.size.is_positive(), rules, now)?;
        mark.checked_mul(held.size.abs())?
            .checked_mul(*instrument.multiplier)
    }))
}
