//! How much of each limit is used. The checks themselves run on an order of size 0, so that what is
//! shown and what is refused cannot disagree.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;

use super::book::Book;
use super::checks::{self, Subject};
use super::requests::{Context, Messages};
use super::sums::Sums;
use super::valuation::is_fresh;
use spoolgate_rules::Rulebook;
use spoolgate_rules::instruments::Instrument;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::checks::{CheckRow, is_near};
use spoolgate_wire::ids::{OrderId, Principal, StrategyName, Symbol, ThesisSlug};
use spoolgate_wire::orders::{OrderType, Side, SubmitOrder, TimeInForce};
use spoolgate_wire::time::Time;

/// A limit, and how much of it is used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct LimitUse {
    /// The check that enforces it.
    pub check: &'static str,
    /// What the limit applies to: `account`, a direction, a symbol, a group, a strategy or an
    /// agent.
    pub of: String,
    /// The used amount; null if it cannot be computed.
    pub used: Option<Amount>,
    /// The limit.
    pub limit: Option<Amount>,
    /// limit - used; below 0 if a move of prices pushed the book over the limit.
    pub left: Option<Amount>,
    /// Unit of `used`, `limit` and `left`.
    pub unit: Cow<'static, str>,
    /// Source of the limit.
    pub source: Cow<'static, str>,
    /// Whether at least `warn_at` of the limit is used.
    pub warning: bool,
    /// Why nothing is left, or why the value is unknown; null if something is left.
    pub closed: Option<Cow<'static, str>>,
}

const NOTHING_LEFT: &str = "nothing is left";
const COUNT: &str = "count";
const SAFETY: &str = "safety.yaml";

/// The limit factor of each strategy in risk mode `reduced`.
pub type Reduced = BTreeMap<StrategyName, Amount>;

/// Returns every limit, in the order of the table of checks within each thing it applies to.
pub fn usage(book: &Book, rules: &Rulebook, now: Time, reduced: &Reduced) -> Vec<LimitUse> {
    let probe = Probe { book, rules, now };
    let mut rows = Vec::new();
    rows.extend(probe.account());
    rows.extend(probe.sums(None, ""));
    for (strategy, factor) in reduced {
        rows.extend(probe.sums(Some(*factor), &format!(", for `{strategy}` (reduced)")));
    }
    rows.extend(probe.counts());
    for name in rules.strategies.keys() {
        rows.extend(probe.strategy(name, reduced.get(name).copied()));
    }
    for row in &mut rows {
        row.warning = is_near(row.used, row.limit, *rules.safety.warn_at);
    }
    rows
}

struct Probe<'a> {
    book: &'a Book,
    rules: &'a Rulebook,
    now: Time,
}

/// The order that a check is asked about.
#[derive(Clone, Copy)]
struct About<'a> {
    symbol: &'a Symbol,
    side: Side,
    strategy: &'a StrategyName,
    factor: Option<Amount>,
}

impl<'a> Probe<'a> {
    /// Runs the check on an order of size 0.
    fn ask(&self, check: &'static str, about: About<'_>) -> Option<CheckRow> {
        let price = self
            .rules
            .instruments
            .get(about.symbol)
            .and_then(|found| self.book.two_sided(found));
        let price = price.map_or(Amount::ONE, |seen| seen.bid);
        let order = SubmitOrder {
            strategy: about.strategy.clone(),
            symbol: about.symbol.clone(),
            side: about.side,
            size: Amount::ZERO,
            order_type: OrderType::Market,
            price: None,
            stop_price: Some(price),
            thesis_slug: ThesisSlug::parse("none").ok()?,
            planned_entry: price,
            planned_stop: price,
            target_price: None,
            time_in_force: TimeInForce::Gtc,
        };
        let source = Principal::parse("nobody").ok()?;
        let context = Context {
            now: self.now,
            requested_at: self.now,
            source: &source,
            order_id: OrderId::of_line(0),
            halted: None,
            unheard: None,
            messages: Messages::default(),
            clock_fault: None,
            rulebook_fault: None,
            closed_order: None,
            key_id: None,
            key_fault: None,
            paused: None,
            limit_factor: about.factor,
        };
        checks::found(
            check,
            &Subject::of_order(self.book, self.rules, &order, &context),
        )
    }

    fn is_fresh(&self, instrument: &Instrument) -> bool {
        self.book
            .two_sided(instrument)
            .is_some_and(|seen| is_fresh(seen.time, self.now, instrument, &self.rules.safety))
    }

    /// Returns the first symbol with a fresh price: sums over all symbols need one symbol to ask
    /// about.
    fn first<'s>(
        &'s self,
        mut symbols: impl Iterator<Item = &'s Symbol> + Clone,
    ) -> Option<&'s Symbol> {
        let is_fresh = |symbol: &&Symbol| {
            self.rules
                .instruments
                .get(symbol)
                .is_some_and(|found| self.is_fresh(found))
        };
        symbols.clone().find(is_fresh).or_else(|| symbols.next())
    }

    fn about(&self, side: Side, factor: Option<Amount>) -> Option<About<'_>> {
        let symbol = self.first(self.rules.instruments.keys())?;
        Some(About {
            symbol,
            side,
            strategy: self.rules.strategies.keys().next()?,
            factor,
        })
    }

    /// Returns what closes the whole account to entries, whatever the size.
    fn account(&self) -> Vec<LimitUse> {
        let Some(about) = self.about(Side::Buy, None) else {
            return Vec::new();
        };
        let loss = |check: &'static str| self.ask(check, about).map(|row| of_loss(check, row));
        let drawdown = self
            .ask("drawdown_halt", about)
            .map(|row| of_row("drawdown_halt", "account", row));
        let windows = self
            .ask("time_window", about)
            .map(|row| of_halt("time_window", "account", row));
        let of_symbol = |check: &'static str, symbol: &Symbol| {
            let row = self.ask(check, About { symbol, ..about })?;
            Some(of_halt(check, symbol.as_str(), row))
        };
        let symbols = self.rules.instruments.keys();
        let halts = symbols.flat_map(|symbol| {
            let checks = ["symbol_halt", "venue_alive"];
            checks.map(|check| of_symbol(check, symbol))
        });
        let mut rows: Vec<LimitUse> = [loss("daily_loss_halt"), loss("weekly_loss_halt"), drawdown]
            .into_iter()
            .flatten()
            .collect();
        rows.extend(
            windows
                .into_iter()
                .chain(halts.flatten())
                .filter(|row| row.closed.is_some()),
        );
        rows
    }

    /// Returns the sums of money that an order adds to.
    fn sums(&self, factor: Option<Amount>, suffix: &str) -> Vec<LimitUse> {
        let (Some(buy), Some(sell)) = (
            self.about(Side::Buy, factor),
            self.about(Side::Sell, factor),
        ) else {
            return Vec::new();
        };
        let mut rows = Vec::new();
        let mut add = |check: &'static str, of: &str, about: About<'_>| {
            rows.extend(
                self.ask(check, about)
                    .map(|row| of_row(check, &format!("{of}{suffix}"), row)),
            );
        };
        for symbol in self.rules.instruments.keys() {
            add(
                "max_single_position",
                symbol.as_str(),
                About { symbol, ..buy },
            );
        }
        add("max_total_exposure", "account", buy);
        add("same_direction_exposure", "long", buy);
        add("same_direction_exposure", "short", sell);
        for (group, symbols) in self.groups() {
            if let Some(symbol) = self.first(symbols.iter().copied()) {
                add(
                    "correlated_group",
                    &format!("group {group}"),
                    About { symbol, ..buy },
                );
            }
        }
        add("max_portfolio_risk", "account", buy);
        add("loss_budget", "account", buy);
        add("gap_budget", "account", buy);
        for symbol in self.rules.instruments.keys() {
            add(
                "liquidity_participation",
                symbol.as_str(),
                About { symbol, ..buy },
            );
        }
        if factor.is_none() {
            let turnover = self.ask("daily_turnover", buy);
            rows.extend(turnover.map(|row| of_row("daily_turnover", "account", row)));
            rows.extend(self.ask("buying_power", buy).map(|row| self.of_cash(row)));
        }
        rows
    }

    fn groups(&self) -> BTreeMap<&'a str, Vec<&'a Symbol>> {
        let mut groups: BTreeMap<&str, Vec<&Symbol>> = BTreeMap::new();
        for instrument in self.rules.instruments.values() {
            if let Some(group) = &instrument.group {
                groups.entry(group).or_default().push(&instrument.symbol);
            }
        }
        groups
    }

    /// Converts the row of buying power: the check compares a price with the free cash; the cash
    /// that is not free is used.
    fn of_cash(&self, row: CheckRow) -> LimitUse {
        let (free, cash) = (row.limit, self.book.account.cash);
        let used = free.and_then(|free| cash.checked_sub(free));
        let row = CheckRow {
            value: used,
            limit: free.map(|_| cash),
            ..row
        };
        of_row("buying_power", "account", row)
    }

    fn counts(&self) -> Vec<LimitUse> {
        let safety = &self.rules.safety;
        let sums = Sums::new(self.book, self.rules, self.now);
        let mut rows = vec![
            count(
                "max_open_positions",
                "account",
                sums.open_legs(),
                safety.max_open_positions,
            ),
            count(
                "max_open_orders",
                "account",
                sums.open_orders(),
                safety.max_open_orders,
            ),
        ];
        let mut all = 0;
        for rule in self
            .rules
            .principals
            .values()
            .filter(|rule| !rule.strategies.is_empty())
        {
            let (own, of_all) = checks::recent_entries(self.book, &rule.name, self.now);
            all = of_all;
            let of = format!("agent {}, this minute", rule.name);
            rows.push(count("order_rate", &of, own, safety.max_entries_per_minute));
        }
        rows.push(count(
            "order_rate",
            "all agents, this minute",
            all,
            safety.max_entries_per_minute_all,
        ));
        rows
    }

    fn strategy(&self, name: &StrategyName, factor: Option<Amount>) -> Vec<LimitUse> {
        let Some(strategy) = self.rules.strategies.get(name) else {
            return Vec::new();
        };
        let Some(symbol) = self.first(strategy.instruments.iter()) else {
            return Vec::new();
        };
        let about = About {
            symbol,
            side: Side::Buy,
            strategy: name,
            factor,
        };
        let of = format!("strategy {name}");
        let plain = [
            "strategy_allocation",
            "repeated_execution",
            "loss_streak",
            "reject_streak",
        ];
        let plain = plain
            .iter()
            .filter_map(|check| Some(of_row(check, &of, self.ask(check, about)?)));
        let halts = ["cooldown", "time_window"];
        let halts = halts
            .iter()
            .filter_map(|check| Some(of_halt(check, &of, self.ask(check, about)?)));
        let windows_of_all = self
            .rules
            .safety
            .restricted
            .iter()
            .any(|window| window.holds(self.now));
        let is_news = |row: &LimitUse| {
            row.closed.is_some() && (row.check != "time_window" || !windows_of_all)
        };
        plain
            .chain(halts.filter(is_news))
            .map(|row| self.with_end(name, row))
            .collect()
    }

    /// Adds the end of a cooldown.
    fn with_end(&self, name: &StrategyName, mut row: LimitUse) -> LimitUse {
        let stopped_out_at = self
            .book
            .conduct
            .get(name)
            .and_then(|conduct| conduct.stopped_out_at);
        if let Some(at) = stopped_out_at.filter(|_| row.check == "cooldown") {
            let until = at.plus_ms(i64::from(*self.rules.safety.cooldown_s).saturating_mul(1000));
            row.closed = Some(
                format!(
                    "stopped out at {at}; entries are accepted again at \
                {until}"
                )
                .into(),
            );
        }
        row
    }
}

/// Creates the use of a limit from the values of a check's row.
fn of_row(check: &'static str, of: &str, row: CheckRow) -> LimitUse {
    let CheckRow {
        passed,
        value: used,
        limit,
        source,
        unit,
        reason,
        ..
    } = row;
    let left = limit
        .zip(used)
        .and_then(|(limit, used)| limit.checked_sub(used));
    let is_empty = left.is_some_and(|left| !left.is_positive());
    let closed = match (passed, reason) {
        (false, reason) => Some(reason.unwrap_or(Cow::Borrowed(NOTHING_LEFT))),
        (true, _) => is_empty.then_some(Cow::Borrowed(NOTHING_LEFT)),
    };
    LimitUse {
        check,
        of: of.to_owned(),
        used,
        limit,
        left,
        unit,
        source,
        warning: false,
        closed,
    }
}

/// Like [`of_row`], for checks that are open or closed and use up no amount.
fn of_halt(check: &'static str, of: &str, row: CheckRow) -> LimitUse {
    let closed = if row.passed { None } else { row.reason.clone() };
    LimitUse {
        used: None,
        left: None,
        closed,
        ..of_row(check, of, row)
    }
}

/// Converts profit and loss and its limit: the loss is the used amount.
fn of_loss(check: &'static str, row: CheckRow) -> LimitUse {
    let (value, limit) = (row.value.map(|value| -value), row.limit.map(|limit| -limit));
    of_row(
        check,
        "account",
        CheckRow {
            value,
            limit,
            ..row
        },
    )
}

fn count(check: &'static str, of: &str, used: usize, limit: u32) -> LimitUse {
    let used = Amount::from_i64(i64::try_from(used).unwrap_or(i64::MAX));
    let row = CheckRow::compared(used, Amount::from(limit), COUNT, SAFETY);
    of_row(check, of, row)
}
