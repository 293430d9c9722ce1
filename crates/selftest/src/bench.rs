//! A scratch gate with one order that should pass every check: the smallest that the filters allow,
//! at the market.

use std::collections::BTreeMap;

use super::Decide;
use spoolgate_gate::State;
use spoolgate_gate::actions::Body;
use spoolgate_gate::actions::order_cancel::OrderCancel;
use spoolgate_gate::actions::order_submit::OrderSubmit;
use spoolgate_gate::actions::order_tighten_stop::OrderTightenStop;
use spoolgate_gate::decide::Lookups;
use spoolgate_gate::handle::Turn;
use spoolgate_gate::prepare::Authentic;
use spoolgate_gate::pulls;
use spoolgate_rules::Rulebook;
use spoolgate_rules::instruments::Instrument;
use spoolgate_rules::strategies::{Direction, Strategy, StrategyStatus};
use spoolgate_rules::theses::Thesis;
use spoolgate_trading::book::{Baseline, Bridge, Last, Market, Quote};
use spoolgate_trading::guard::Pull;
use spoolgate_trading::requests::Verdict;
use spoolgate_trading::smallest::{self, step_of};
use spoolgate_trading::valuation::TwoSided;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::checks::CheckRow;
use spoolgate_wire::control::RiskMode;
use spoolgate_wire::envelope::Envelope;
use spoolgate_wire::ids::{Principal, RequestId, StrategyName, Symbol, ThesisSlug};
use spoolgate_wire::orders::{CancelOrder, Side, SubmitOrder, TightenStop};
use spoolgate_wire::time::Time;

/// A Wednesday, so that the day and the week have begun.
const NOON: &str = "2026-01-07T12:00:00Z";
/// Number of the line that the order under test would have.
const SEQ: u64 = 1000;
/// A market volume with room for everything.
pub(super) const VOLUME: &str = "1000000000";
/// Prices to try if no price is known, in ticks, highest first.
const TICKS: [&str; 6] = ["1000000", "100000", "10000", "1000", "100", "20"];

/// The strategy, instrument and side that checks are tried for.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub source: Principal,
    pub strategy: StrategyName,
    pub symbol: Symbol,
    pub side: Side,
}

/// Every side of every instrument of every strategy that may run, and what was skipped.
pub(super) fn cases(rules: &Rulebook) -> (Vec<Case>, Vec<String>) {
    let (mut cases, mut skipped) = (Vec::new(), Vec::new());
    for strategy in rules.strategies.values() {
        let name = &strategy.name;
        let owner = rules
            .principals
            .values()
            .find(|rule| rule.strategies.contains(name));
        let Some(owner) = owner else {
            skipped.push(format!(
                "strategy `{name}`: no principal owns it, so no agent can send its orders"
            ));
            continue;
        };
        if strategy.status == StrategyStatus::Paused || strategy.risk_mode == RiskMode::ExitsOnly {
            skipped.push(format!("strategy `{name}`: its file lets it only reduce"));
            continue;
        }
        for (symbol, direction) in strategy
            .instruments
            .iter()
            .flat_map(|symbol| strategy.directions.iter().map(move |d| (symbol, d)))
        {
            let side = if *direction == Direction::Long {
                Side::Buy
            } else {
                Side::Sell
            };
            let source = owner.name.clone();
            cases.push(Case {
                source,
                strategy: name.clone(),
                symbol: symbol.clone(),
                side,
            });
        }
    }
    (cases, skipped)
}

/// The order request under test.
#[derive(Clone, Debug)]
pub(super) enum Ask {
    Submit(SubmitOrder),
    Cancel(CancelOrder),
    Tighten(TightenStop),
    /// Working entries are asked again.
    Again,
}

/// All inputs of one decision.
#[derive(Clone, Debug)]
pub(super) struct Scratch {
    pub state: State,
    pub rules: Rulebook,
    pub lookups: Lookups,
    pub now: Time,
    pub signed_at: Time,
    pub source: Principal,
    pub ask: Ask,
}

impl Scratch {
    /// Decides as the gate does. `None` if the request is refused without a check vector.
    pub(crate) fn decide(&self) -> Option<Verdict> {
        let turn = Turn {
            state: &self.state,
            rules: &self.rules,
            lookups: &self.lookups,
            now: self.now,
            seq: SEQ,
            granted: None,
        };
        let body = match &self.ask {
            Ask::Submit(order) => Body::of::<OrderSubmit>(order.clone()),
            Ask::Cancel(cancel) => Body::of::<OrderCancel>(cancel.clone()),
            Ask::Tighten(tighten) => Body::of::<OrderTightenStop>(tighten.clone()),
            Ask::Again => return Some(self.asked_again()),
        };
        let envelope = Envelope {
            id: RequestId::parse("selftest").ok()?,
            timestamp_text: self.signed_at.to_string(),
            timestamp: self.signed_at,
            action: body.rule.name.to_string(),
            payload: String::new(),
            source: self.source.clone(),
            signature: String::new(),
            causality: None,
        };
        let authentic = Authentic {
            envelope,
            key_id: String::new(),
            payload_hash: String::new(),
            request_hash: String::new(),
            body: Ok(body.clone()),
        };
        body.execute(&turn, &authentic).ok()?.verdict
    }

    /// The rows of the checks that pull working entries, or that the oldest stays.
    fn asked_again(&self) -> Verdict {
        let pulls = pulls::due(&self.state, &self.rules, Amount::ZERO, self.now);
        let row = |pull: &Pull<'_>| CheckRow {
            name: pull.why.check.clone().into(),
            ..CheckRow::measured(pull.why.value, pull.why.limit, "ms", "safety.yaml")
                .unless_fault(Some("a working entry is pulled"))
        };
        let stays = pulls.is_empty().then(|| {
            let row = CheckRow::measured(None, None, "ms", "safety.yaml");
            row.named("order_age")
        });
        Verdict {
            checks: pulls.iter().map(row).chain(stays).collect(),
            accepted: pulls.is_empty(),
            headroom: None,
            changes: Vec::new(),
        }
    }

    /// The order, if the request submits one.
    pub(crate) fn order_mut(&mut self) -> Option<&mut SubmitOrder> {
        match &mut self.ask {
            Ask::Submit(order) => Some(order),
            _ => None,
        }
    }
}

/// A case with its base: an order that should pass, in a state that should let it.
pub(super) struct Bench<'a> {
    pub case: Case,
    pub price: Amount,
    pub base: Scratch,
    pub order: SubmitOrder,
    pub decide: Decide<'a>,
    live: &'a Rulebook,
}

impl<'a> Bench<'a> {
    /// Builds a bench at the last known price, otherwise at the first trial price that passes
    /// everything.
    pub(crate) fn new(
        live: &'a Rulebook,
        case: Case,
        prices: &BTreeMap<Symbol, Amount>,
        decide: Decide<'a>,
    ) -> Option<Bench<'a>> {
        let now = free_minute(live, &case)?;
        let at = |price: Amount| -> Option<Bench<'a>> {
            let (base, order) = build(live, &case, price, now)?;
            Some(Bench {
                case: case.clone(),
                price,
                base,
                order,
                decide,
                live,
            })
        };
        if let Some(price) = prices.get(&case.symbol).filter(|price| price.is_positive()) {
            return at(*price);
        }
        let tick = *live.instruments.get(&case.symbol)?.tick;
        let step = step_of(tick)?;
        let step = if tick.is_zero() {
            amount("0.01")?
        } else {
            step
        };
        let mut found: Vec<Bench<'a>> = Vec::new();
        for ticks in TICKS {
            let Some(bench) = amount(ticks)?.checked_mul(step).and_then(at) else {
                continue;
            };
            if bench.base.decide().is_some_and(|verdict| verdict.accepted) {
                return Some(bench);
            }
            found.push(bench);
        }
        // No price passes: report on the middle one.
        let middle = found.len() / 2;
        found.into_iter().nth(middle)
    }

    /// The base at another time.
    pub(crate) fn at(&self, now: Time) -> Option<Scratch> {
        build(self.live, &self.case, self.price, now).map(|(base, _)| base)
    }

    /// The instrument.
    pub(crate) fn instrument(&self) -> Option<&'a Instrument> {
        self.live.instruments.get(&self.case.symbol)
    }

    /// The strategy.
    pub(crate) fn strategy(&self) -> Option<&'a Strategy> {
        self.live.strategies.get(&self.case.strategy)
    }

    /// The rules in force.
    pub(crate) fn rules(&self) -> &'a Rulebook {
        self.live
    }

    /// The step of prices.
    pub(crate) fn tick(&self) -> Option<Amount> {
        step_of(*self.instrument()?.tick)
    }

    /// The step of sizes.
    pub(crate) fn lot(&self) -> Option<Amount> {
        step_of(*self.instrument()?.lot)
    }

    /// `price` moved by `by` in the direction that is worse for the order: up for buys.
    pub(crate) fn dearer(&self, price: Amount, by: Amount) -> Option<Amount> {
        match self.case.side {
            Side::Buy => price.checked_add(by),
            Side::Sell => price.checked_sub(by),
        }
    }

    /// The base with this change.
    pub(crate) fn with(&self, change: impl FnOnce(&mut Scratch)) -> Scratch {
        let mut scratch = self.base.clone();
        change(&mut scratch);
        scratch
    }

    /// The base with another order.
    pub(crate) fn with_order(&self, change: impl FnOnce(&mut SubmitOrder)) -> Scratch {
        self.with(|scratch| {
            if let Some(order) = scratch.order_mut() {
                change(order);
            }
        })
    }

    /// The worst price that this order may get, as the checks compute it.
    pub(crate) fn worst(&self) -> Option<Amount> {
        let (book, rules) = (&self.base.state.book, &self.base.rules);
        smallest::worst(book, rules, &self.order, self.instrument()?)
    }

    /// Bid and ask.
    pub(crate) fn market(&self) -> Option<TwoSided> {
        self.base.state.book.two_sided(self.instrument()?)
    }
}

pub(super) fn amount(text: &str) -> Option<Amount> {
    Amount::parse_exact(text).ok()
}

/// The first minute from noon on outside every restricted window; noon if there is none.
fn free_minute(rules: &Rulebook, case: &Case) -> Option<Time> {
    let noon = Time::parse(NOON).ok()?;
    let own = rules
        .strategies
        .get(&case.strategy)
        .map(|strategy| &strategy.restricted);
    let is_free = |now: &Time| {
        let windows = rules
            .safety
            .restricted
            .iter()
            .chain(own.into_iter().flatten());
        windows.into_iter().all(|window| !window.holds(*now))
    };
    minutes_of_day(noon).find(is_free).or(Some(noon))
}

/// Every minute of a day from this one on.
pub(super) fn minutes_of_day(from: Time) -> impl Iterator<Item = Time> {
    (0..24 * 60).map(move |minute: i64| from.plus_ms(minute.saturating_mul(60_000)))
}

fn build(live: &Rulebook, case: &Case, price: Amount, now: Time) -> Option<(Scratch, SubmitOrder)> {
    let mut rules = live.clone();
    run_it(&mut rules, case);
    let slug = ThesisSlug::parse("selftest").ok()?;
    let thesis = Thesis {
        slug: slug.clone(),
        strategy: case.strategy.clone(),
        symbol: case.symbol.clone(),
        direction: Direction::of_entry(case.side),
        since: None,
        expires: now.plus_ms(1),
        invalid_below: None,
        invalid_above: None,
    };
    rules.theses.insert(slug.clone(), thesis);
    let instrument = live.instruments.get(&case.symbol)?;
    let tick = step_of(*instrument.tick)?;
    let mut state = State::default();
    let capital = *live.safety.max_total_capital;
    let begun = |start: Time| {
        Some(Baseline {
            start,
            equity: capital,
            net_deposits: capital,
            counts: true,
        })
    };
    let account = &mut state.book.account;
    (account.cash, account.net_deposits, account.peak_equity) = (capital, capital, Some(capital));
    (account.day, account.week) = (begun(now.day_start()), begun(now.week_start()));
    let last = Last {
        price,
        volume: amount(VOLUME),
        time: now,
    };
    let quote = Quote {
        bid: price,
        ask: price.checked_add(tick)?,
        time: now,
    };
    if let Some(bridge) = &instrument.bridge {
        let alive = Bridge {
            reconciled_at: Some(now),
            ..Bridge::default()
        };
        state.book.bridges.insert(bridge.clone(), alive);
    }
    state.book.markets.insert(
        case.symbol.clone(),
        Market {
            last: Some(last),
            quote: Some(quote),
            ..Market::default()
        },
    );
    let leg = (&case.strategy, &case.symbol, case.side);
    let order = smallest::entry(&state.book, &rules, leg, &slug)?;
    let scratch = Scratch {
        state,
        rules,
        lookups: Lookups::default(),
        now,
        signed_at: now,
        source: case.source.clone(),
        ask: Ask::Submit(order.clone()),
    };
    Some((scratch, order))
}

/// Makes the strategy of the case the one that runs on its concern.
fn run_it(rules: &mut Rulebook, case: &Case) {
    let concern = rules
        .strategies
        .get(&case.strategy)
        .and_then(|strategy| strategy.concern.clone());
    for strategy in rules.strategies.values_mut() {
        if strategy.name == case.strategy {
            strategy.status = StrategyStatus::Active;
        } else if concern.is_some()
            && strategy.concern == concern
            && strategy.status == StrategyStatus::Active
        {
            strategy.status = StrategyStatus::Standby;
        }
    }
}
