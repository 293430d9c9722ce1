//! Checks of who sends the order, for what and why: duplicates, instrument, strategy, thesis.

use super::{
    CONTROL, CheckRow, INSTRUMENTS, Kind, OrderFacts, PRINCIPALS, SAFETY, Subject, strategy_file,
};
use crate::book::Book;
use crate::order::OrderRole;
use spoolgate_rules::Rulebook;
use spoolgate_rules::instruments::Instrument;
use spoolgate_rules::nearest::there_are;
use spoolgate_rules::strategies::{Direction, StrategyStatus};
use spoolgate_rules::theses::Thesis;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{StrategyName, Symbol, ThesisSlug};
use spoolgate_wire::orders::Side;
use spoolgate_wire::time::Time;

/// No entry with the same strategy, symbol, side, type, size and price was accepted within
/// `duplicate_window_s`; the end of the window counts.
pub(super) fn duplicate_order(subject: &Subject, facts: &OrderFacts) -> CheckRow {
    let window_ms = i64::from(*subject.rules.safety.duplicate_window_s).saturating_mul(1000);
    let order = facts.order;
    let duplicate = subject.book.recent_entries.iter().find(|entry| {
        subject.ctx.now.since_ms(entry.at).saturating_abs() <= window_ms
            && entry.strategy == order.strategy
            && entry.symbol == order.symbol
            && entry.side == order.side
            && entry.order_type == order.order_type
            && entry.size == facts.size
            && entry.price == facts.terms.own_price
    });
    let fault = duplicate.map(|entry| {
        format!(
            "the same entry was accepted at {}; wait or change it",
            entry.at
        )
    });
    CheckRow::yes_no(fault, SAFETY)
}

/// For entries: the instrument is configured and not restricted, the strategy lists the instrument
/// and the direction, and the strategy has nothing open in it at another venue.
pub(super) fn instrument_allowed(subject: &Subject, facts: &OrderFacts) -> CheckRow {
    let symbol = facts.symbol();
    let Some(instrument) = subject.instrument else {
        return CheckRow::yes_no(
            Some(format!(
                "instrument `{symbol}` is not in rules/instruments.yaml"
            )),
            INSTRUMENTS,
        );
    };
    let name = &facts.order.strategy;
    let source = strategy_file(name);
    if subject.kind != Kind::Entry {
        return CheckRow::yes_no(None, INSTRUMENTS);
    }
    if subject.rules.safety.restricted_instruments.contains(symbol) {
        return CheckRow::yes_no(
            Some(format!(
                "`{symbol}` is restricted: entries are not accepted"
            )),
            SAFETY,
        );
    }
    let Some(strategy) = subject.rules.strategies.get(name) else {
        return CheckRow::unknown(
            "bool",
            source,
            format!(
                "strategy `{name}` has no file in \
            rules/strategies"
            ),
        );
    };
    let direction = Direction::of_entry(facts.order.side);
    let fault = if !strategy.instruments.contains(symbol) {
        Some(format!("strategy `{name}` does not list `{symbol}`"))
    } else if !strategy.directions.contains(&direction) {
        Some(format!(
            "strategy `{name}` may not go {}",
            direction.as_str()
        ))
    } else if is_open_elsewhere(subject, facts, instrument) {
        Some(format!(
            "`{name}` has an open position or order in `{symbol}` at another venue; close it first"
        ))
    } else {
        None
    };
    CheckRow::yes_no(fault, source)
}

/// Whether a position or working entry that this order would add to is at another venue than the
/// instrument's, because a person has changed the venue since. Exits go to the venue of the
/// position.
fn is_open_elsewhere(subject: &Subject, facts: &OrderFacts, instrument: &Instrument) -> bool {
    let order = facts.order;
    let mut held = subject.book.positions.values();
    let mut entries = facts.around.sums.entries().iter().map(|entry| entry.order);
    held.any(|held| {
        held.symbol == order.symbol
            && held.strategy == order.strategy
            && !held.is_held_at_venue_of(instrument)
    }) || entries.any(|open| {
        open.at_venue.as_ref().map(|venue| &venue.bridge) != instrument.bridge.as_ref()
            && open.is_of(&order.strategy, &order.symbol)
    })
}

/// The strategy belongs to the sender, or a person acts for its owner, which never enters; for
/// entries its file exists, does not pause it, and control lets it run.
pub(super) fn strategy_active(subject: &Subject) -> CheckRow {
    if subject.is_of_person() && subject.kind != Kind::Entry {
        return CheckRow::yes_no(None, PRINCIPALS);
    }
    let Some(name) = subject.strategy else {
        let reason = "the order does not exist, so its strategy is unknown";
        return CheckRow::unknown("bool", PRINCIPALS, reason);
    };
    let source = subject.ctx.source;
    let is_owner = subject
        .rules
        .principals
        .get(source)
        .is_some_and(|rule| rule.strategies.contains(name));
    if !is_owner {
        let fault = format!("strategy `{name}` does not belong to `{source}`");
        return CheckRow::yes_no(Some(fault), PRINCIPALS);
    }
    if subject.kind != Kind::Entry {
        return CheckRow::yes_no(None, PRINCIPALS);
    }
    let strategy = subject.rules.strategies.get(name);
    let fault = match strategy.map(|strategy| (strategy.status, &strategy.concern)) {
        None => Some(format!("strategy `{name}` has no file in rules/strategies")),
        Some((StrategyStatus::Paused, _)) => {
            Some(format!("strategy `{name}` is paused; it may only reduce"))
        }
        Some((StrategyStatus::Standby, None)) => Some(format!(
            "strategy `{name}` is on standby and has no concern, so nothing can switch to it"
        )),
        Some(_) => match (subject.ctx.paused, subject.ctx.key_fault) {
            (Some(why), _) => {
                return CheckRow::yes_no(Some(format!("strategy `{name}` {why}")), CONTROL);
            }
            (None, why) => why.map(str::to_owned),
        },
    };
    CheckRow::yes_no(fault, strategy_file(name))
}

/// Why a thesis carries no entry while its instrument has no price.
const NO_PRICE: &str = "no price is known to compare the thesis with";

/// Returns why a thesis carries no entry of its strategy in its symbol and direction now; `None` if
/// it does.
pub(crate) fn thesis_fault(
    book: &Book,
    rules: &Rulebook,
    thesis: &Thesis,
    now: Time,
) -> Option<String> {
    let used = ThesisUse {
        slug: &thesis.slug,
        strategy: &thesis.strategy,
        symbol: &thesis.symbol,
        side: thesis.direction.entry_side(),
    };
    let instrument = rules.instruments.get(&thesis.symbol);
    let seen = instrument.and_then(|found| Seen::of(book, found));
    let fault = used.fault(book, rules, now, seen);
    let fault = fault.or_else(|| used_by(book, &thesis.slug));
    fault.or_else(|| seen.is_none().then(|| NO_PRICE.to_owned()))
}

/// The thesis exists, matches this order, has not expired, was never refuted by the market, is not
/// refuted by the last trade or the middle price, and no other open entry or position uses it.
pub(super) fn thesis_valid(subject: &Subject, facts: &OrderFacts) -> CheckRow {
    let (book, order) = (subject.book, facts.order);
    let slug = &order.thesis_slug;
    let source = ["theses/", slug.as_str(), ".md"].concat();
    let used = ThesisUse {
        slug,
        strategy: &order.strategy,
        symbol: &order.symbol,
        side: order.side,
    };
    let seen = subject.instrument.and_then(|found| Seen::of(book, found));
    let fault = used.fault(book, subject.rules, subject.ctx.now, seen);
    let fault = fault.or_else(|| used_by(book, slug).filter(|_| !subject.is_again));
    if fault.is_none() && seen.is_none() {
        return CheckRow::unknown("bool", source, NO_PRICE);
    }
    CheckRow::yes_no(fault, source)
}

/// An entry's use of a thesis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThesisUse<'a> {
    /// The thesis.
    pub slug: &'a ThesisSlug,
    /// The strategy of the entry.
    pub strategy: &'a StrategyName,
    /// Its symbol.
    pub symbol: &'a Symbol,
    /// Its side.
    pub side: Side,
}

impl ThesisUse<'_> {
    /// Returns why the thesis does not carry such an entry, whatever else uses it. `None` if it does,
    /// as far as prices are known.
    pub(crate) fn fault(
        self,
        book: &Book,
        rules: &Rulebook,
        now: Time,
        seen: Option<Seen>,
    ) -> Option<String> {
        let slug = self.slug;
        let Some(thesis) = rules.theses.get(slug) else {
            let own = rules.theses.values();
            let own = own.filter(|thesis| thesis.strategy == *self.strategy);
            let own = own.map(|thesis| thesis.slug.as_str());
            let there = there_are(slug.as_str(), own, "thesis of this strategy");
            return Some(format!("thesis `{slug}` does not exist{there}"));
        };
        if thesis.strategy != *self.strategy {
            let strategy = &thesis.strategy;
            return Some(format!("thesis `{slug}` is for strategy `{strategy}`"));
        }
        if thesis.symbol != *self.symbol {
            return Some(format!("thesis `{slug}` is about `{}`", thesis.symbol));
        }
        if thesis.direction != Direction::of_entry(self.side) {
            return Some(format!("thesis `{slug}` is {}", thesis.direction.as_str()));
        }
        if now >= thesis.expires {
            return Some(format!("thesis `{slug}` expired at {}", thesis.expires));
        }
        if let Some(refuted) = book.refuted.get(slug) {
            let (at, price) = (refuted.at, refuted.price.normalized());
            return Some(format!(
                "thesis `{slug}` was refuted at {at}: the market reached {price}; write another one"
            ));
        }
        seen.is_some_and(|seen| seen.refutes(thesis))
            .then(|| format!("thesis `{slug}` is refuted: the market crossed its level"))
    }
}

/// The lowest and the highest price that a thesis is compared with, doubled: the middle price becomes
/// bid + ask, without a division.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    lowest: Amount,
    highest: Amount,
}

impl Seen {
    /// Returns the last and the middle price of an instrument. `None` if neither is known, or one is
    /// not exact.
    pub(crate) fn of(book: &Book, instrument: &Instrument) -> Option<Seen> {
        let market = book.markets.get(&instrument.symbol);
        let last = match market.and_then(|market| market.last.as_ref()) {
            Some(last) => Some(last.price.checked_add(last.price)?),
            None => None,
        };
        let middle = match book.two_sided(instrument) {
            Some(market) => Some(market.bid.checked_add(market.ask)?),
            None => None,
        };
        let (one, other) = (last.or(middle)?, middle.or(last)?);
        Some(Seen {
            lowest: one.min(other),
            highest: one.max(other),
        })
    }

    /// Whether a price has reached a level that refutes the thesis. A level that cannot be doubled
    /// counts as reached.
    fn refutes(self, thesis: &Thesis) -> bool {
        let twice = |level: Amount| level.checked_add(level);
        let below = thesis.invalid_below.map(|level| twice(level.get()));
        let above = thesis.invalid_above.map(|level| twice(level.get()));
        below.is_some_and(|level| level.is_none_or(|level| self.lowest <= level))
            || above.is_some_and(|level| level.is_none_or(|level| self.highest >= level))
    }
}

/// Returns which other open entry or position uses this thesis.
fn used_by(book: &Book, slug: &ThesisSlug) -> Option<String> {
    let is_same = |order: &&crate::order::Order| {
        order.role == OrderRole::Entry && order.thesis_slug.as_ref() == Some(slug)
    };
    if let Some(order) = book.orders.values().find(is_same) {
        return Some(format!(
            "thesis `{slug}` already carries the open entry `{}`",
            order.order_id
        ));
    }
    let position = book
        .positions
        .values()
        .find(|position| position.theses.contains(slug) && !position.is_dust())?;
    Some(format!(
        "thesis `{slug}` already carries the open position in `{}`",
        position.symbol
    ))
}
