//! Scenarios that change the state: age, clock, halts, losses, open positions and recent activity.

use super::Plan;
use super::bench::{Ask, Bench, Scratch, amount, minutes_of_day};
use super::orders::resting;
use spoolgate_control::registry::ConcernState;
use spoolgate_gate::dead_man::Tripped;
use spoolgate_gate::rates::Bucket;
use spoolgate_gate::state::{ClockFault, Halt};
use spoolgate_rules::safety::DeadManAction;
use spoolgate_rules::strategies::StrategyStatus;
use spoolgate_trading::book::{Gap, RecentEntry};
use spoolgate_trading::conduct::Conduct;
use spoolgate_trading::fold::RECENT_ENTRIES_MAX;
use spoolgate_trading::order::{OrderRole, Position};
use spoolgate_trading::pricing::{self, Terms};
use spoolgate_trading::sums::notional;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{ControlId, OrderId, Principal, StrategyName};
use spoolgate_wire::orders::OrderType;
use spoolgate_wire::time::Time;

/// The only change under which exits are refused too: a position of another principal cannot be
/// closed.
pub(super) const FOREIGN: &str = "a strategy of somebody else";

/// Maximum number of positions or orders to make up; no gate holds more.
const OPEN_MAX: u32 = 20_000;

/// Maximum number of messages per minute to make up; no gate decides more.
const MESSAGES_MAX: u32 = 1_000_000;

fn one(bench: &Bench<'_>, what: &'static str, trips: Scratch) -> Option<Plan> {
    Some(Plan::Try(Box::new(bench.base.clone()), vec![(what, trips)]))
}

fn ms(seconds: u32) -> i64 {
    i64::from(seconds).saturating_mul(1000)
}

pub(super) fn request_freshness(bench: &Bench<'_>) -> Option<Plan> {
    let safety = &bench.rules().safety;
    let own = bench
        .rules()
        .principals
        .get(&bench.case.source)
        .and_then(|rule| rule.request_age_max_s);
    let age = ms(own.map_or(safety.request_age_max_s, |own| own.get()));
    let ahead = ms(safety.request_ahead_max_s);
    let signed = |ago_ms: i64| {
        bench.with(|scratch| scratch.signed_at = scratch.now.plus_ms(ago_ms.saturating_neg()))
    };
    let trips = vec![
        (
            "a request a millisecond too old",
            signed(age.saturating_add(1)),
        ),
        (
            "a request signed a millisecond too far ahead",
            signed(ahead.saturating_add(1).saturating_neg()),
        ),
    ];
    Some(Plan::Try(Box::new(signed(age)), trips))
}

pub(super) fn clock(bench: &Bench<'_>) -> Option<Plan> {
    let trips = bench.with(|scratch| {
        scratch.state.clock.fault = Some(ClockFault {
            from: scratch.now,
            to: scratch.now.plus_ms(-3000),
        });
    });
    one(bench, "a clock that stepped back", trips)
}

pub(super) fn rulebook(bench: &Bench<'_>) -> Option<Plan> {
    let fault = "rules/safety.yaml:1: cannot be read".to_owned();
    one(
        bench,
        "a rule file at fault",
        bench.with(|scratch| scratch.state.rulebook.fault = Some(fault)),
    )
}

fn earlier(bench: &Bench<'_>, at: Time, source: Principal) -> RecentEntry {
    let order = &bench.order;
    RecentEntry {
        at,
        source,
        strategy: order.strategy.clone(),
        symbol: order.symbol.clone(),
        side: order.side,
        order_type: order.order_type,
        size: order.size,
        price: order.price,
    }
}

pub(super) fn duplicate_order(bench: &Bench<'_>) -> Option<Plan> {
    let window = ms(*bench.rules().safety.duplicate_window_s);
    let after = |ago_ms: i64| {
        bench.with(|scratch| {
            let at = scratch.now.plus_ms(ago_ms.saturating_neg());
            scratch.state.book.recent_entries.push_back(earlier(
                bench,
                at,
                bench.case.source.clone(),
            ));
        })
    };
    let trips = vec![("the same entry at the end of the window", after(window))];
    Some(Plan::Try(Box::new(after(window.saturating_add(1))), trips))
}

pub(super) fn strategy_active(bench: &Bench<'_>) -> Option<Plan> {
    let name = &bench.case.strategy;
    let paused = bench.with(|scratch| {
        if let Some(strategy) = scratch.rules.strategies.get_mut(name) {
            strategy.status = StrategyStatus::Paused;
        }
    });
    let foreign = bench.with(|scratch| {
        if let Some(rule) = scratch.rules.principals.get_mut(&bench.case.source) {
            rule.strategies.retain(|own| own != name);
        }
    });
    let mut trips = vec![
        ("a strategy paused by its file", paused),
        (FOREIGN, foreign),
    ];
    let strategy = bench.strategy()?;
    if let Some(concern) = &strategy.concern {
        let current = ControlId::parse(strategy.id()).ok();
        let state = ConcernState {
            current,
            paused: true,
            ..ConcernState::default()
        };
        let by_control = bench.with(|scratch| {
            drop(
                scratch
                    .state
                    .control
                    .concerns
                    .insert(concern.clone(), state),
            )
        });
        trips.push(("a strategy paused by control", by_control));
    }
    Some(Plan::Try(Box::new(bench.base.clone()), trips))
}

pub(super) fn daily_loss_halt(bench: &Bench<'_>) -> Option<Plan> {
    loss_halt(
        bench,
        "max_daily_loss",
        *bench.rules().safety.max_daily_loss,
        true,
    )
}

pub(super) fn weekly_loss_halt(bench: &Bench<'_>) -> Option<Plan> {
    loss_halt(
        bench,
        "max_weekly_loss",
        *bench.rules().safety.max_weekly_loss,
        false,
    )
}

/// A loss of the period equal to the limit trips; one unit less passes.
fn loss_halt(bench: &Bench<'_>, name: &str, most: Amount, is_day: bool) -> Option<Plan> {
    let capital = bench.rules().safety.max_total_capital;
    if most >= *capital {
        return Some(Plan::Cannot(format!(
            "{name} of {most} is not less than max_total_capital of {capital}: all of it is lost \
                before"
        )));
    }
    let begun_at = capital.checked_add(most)?;
    let just_before = begun_at.checked_sub(amount("0.00000001")?)?;
    let lost = |equity: Amount| {
        bench.with(|scratch| {
            let account = &mut scratch.state.book.account;
            let period = if is_day {
                &mut account.day
            } else {
                &mut account.week
            };
            period.iter_mut().for_each(|period| period.equity = equity);
        })
    };
    Some(Plan::Try(
        Box::new(lost(just_before)),
        vec![("a loss of the limit", lost(begun_at))],
    ))
}

/// A loss since the peak equal to the limit trips, and so does the latch; one unit less passes.
pub(super) fn drawdown_halt(bench: &Bench<'_>) -> Option<Plan> {
    let (capital, most) = (
        bench.rules().safety.max_total_capital,
        bench.rules().safety.max_drawdown,
    );
    if *most >= Amount::ONE {
        return Some(Plan::Cannot(format!(
            "max_drawdown of {most} is reached when nothing is left"
        )));
    }
    let at_limit = capital.checked_sub(capital.checked_mul(*most)?)?;
    let holding = |cash: Amount| {
        bench.with(|scratch| {
            let account = &mut scratch.state.book.account;
            account.cash = cash;
            let periods = account.day.iter_mut().chain(&mut account.week);
            periods.for_each(|period| period.equity = cash);
        })
    };
    let passes = holding(at_limit.checked_add(amount("0.00000001")?)?);
    let latched =
        bench.with(|scratch| scratch.state.book.account.drawdown_since = Some(scratch.now));
    let trips = vec![
        ("a drawdown of the limit", holding(at_limit)),
        ("a drawdown latched before", latched),
    ];
    Some(Plan::Try(Box::new(passes), trips))
}

pub(super) fn manual_halt(bench: &Bench<'_>) -> Option<Plan> {
    let source = bench.case.source.clone();
    let halt = Halt {
        keep_orders: false,
        flatten: false,
        by: source.clone(),
        at: bench.base.now,
        reason: "self-test".to_owned(),
    };
    let (of_agent, of_all) = (halt.clone(), halt);
    let trips = vec![
        (
            "a halt of everybody",
            bench.with(|scratch| scratch.state.halts.all = Some(of_all)),
        ),
        (
            "a halt of the agent",
            bench.with(|scratch| drop(scratch.state.halts.principals.insert(source, of_agent))),
        ),
        (
            "rules/HALT",
            bench.with(|scratch| scratch.state.halts.file = true),
        ),
    ];
    Some(Plan::Try(Box::new(bench.base.clone()), trips))
}

pub(super) fn dead_man(bench: &Bench<'_>) -> Option<Plan> {
    let tripped = Tripped {
        at: bench.base.now,
        unheard_ms: 1,
        action: DeadManAction::CloseNewOnly,
    };
    let source = bench.case.source.clone();
    let trips = bench.with(|scratch| {
        scratch.state.dead_man.tripped.insert(source, tripped);
    });
    one(bench, "a switch that has tripped for the agent", trips)
}

/// A bridge that has never given a sign of life.
pub(super) fn venue_alive(bench: &Bench<'_>) -> Option<Plan> {
    if bench.instrument()?.bridge.is_none() {
        return Some(Plan::NotSet("the instrument is traded on paper"));
    }
    let trips = bench.with(|scratch| scratch.state.book.bridges.clear());
    one(bench, "a bridge without a sign of life", trips)
}

/// The maximum number of open positions, each of a made-up strategy and worth next to nothing.
pub(super) fn max_open_positions(bench: &Bench<'_>) -> Option<Plan> {
    let most = bench.rules().safety.max_open_positions;
    if most > OPEN_MAX {
        return Some(Plan::Cannot(format!("no gate holds {most} positions")));
    }
    let size = amount("0.0000000001")?;
    let open = |count: u32| -> Option<Scratch> {
        let mut scratch = bench.base.clone();
        for n in 0..count {
            let strategy = StrategyName::parse(&format!("selftest-{n}")).ok()?;
            let position = Position {
                strategy: strategy.clone(),
                symbol: bench.case.symbol.clone(),
                size,
                cost: Amount::ZERO,
                result: Amount::ZERO,
                increased_at: scratch.now,
                theses: Default::default(),
                held_at: None,
                dropped: None,
                unfilled_at: None,
            };
            scratch
                .state
                .book
                .positions
                .insert((bench.case.symbol.clone(), strategy), position);
        }
        Some(scratch)
    };
    let trips = vec![("as many positions as may be open", open(most)?)];
    Some(Plan::Try(Box::new(open(most.saturating_sub(1))?), trips))
}

/// The maximum number of open orders; all are exits, so that no other check counts them.
pub(super) fn max_open_orders(bench: &Bench<'_>) -> Option<Plan> {
    let most = bench.rules().safety.max_open_orders;
    if most > OPEN_MAX {
        return Some(Plan::Cannot(format!("no gate holds {most} orders")));
    }
    let open = |count: u32| {
        bench.with(|scratch| {
            for n in 0..u64::from(count) {
                let order = resting(bench, OrderId::of_line(n), OrderRole::Exit, bench.case.side);
                scratch.state.book.orders.insert(order.order_id, order);
            }
        })
    };
    let trips = vec![("as many orders as may be open", open(most))];
    Some(Plan::Try(Box::new(open(most.saturating_sub(1))), trips))
}

pub(super) fn time_window(bench: &Bench<'_>) -> Option<Plan> {
    let own = &bench.strategy()?.restricted;
    let windows: Vec<_> = bench.rules().safety.restricted.iter().chain(own).collect();
    if windows.is_empty() {
        return Some(Plan::NotSet("no restricted window"));
    }
    let mut trips = Vec::new();
    for window in windows {
        let begins = minutes_of_day(bench.base.now).find(|minute| window.holds(*minute))?;
        trips.push(("a minute of a restricted window", bench.at(begins)?));
    }
    Some(Plan::Try(Box::new(bench.base.clone()), trips))
}

/// The maximum number of entries within the minute, of the sender and of all agents.
pub(super) fn order_rate(bench: &Bench<'_>) -> Option<Plan> {
    let safety = &bench.rules().safety;
    let (own, all) = (
        safety.max_entries_per_minute,
        safety.max_entries_per_minute_all,
    );
    let remembered = u32::try_from(RECENT_ENTRIES_MAX).ok()?;
    if own.min(all) >= remembered {
        return Some(Plan::Cannot(format!(
            "the gate remembers {remembered} entries, and {own} may be placed"
        )));
    }
    let other = Principal::parse("selftest-other").ok()?;
    let size = bench.order.size.checked_add(bench.lot()?)?;
    let after = |count: u32, source: &Principal| {
        bench.with(|scratch| {
            for _ in 0..count {
                // In another size, because it would be a duplicate otherwise.
                let entry = RecentEntry {
                    size,
                    ..earlier(bench, scratch.now, source.clone())
                };
                scratch.state.book.recent_entries.push_back(entry);
            }
        })
    };
    let mut trips = vec![(
        "as many entries within the minute as may be",
        after(own.min(all), &bench.case.source),
    )];
    if all < remembered {
        trips.push(("as many entries of all agents", after(all, &other)));
    }
    Some(Plan::Try(
        Box::new(after(own.min(all).saturating_sub(1), &bench.case.source)),
        trips,
    ))
}

pub(super) fn message_rate(bench: &Bench<'_>) -> Option<Plan> {
    let safety = &bench.rules().safety;
    let (own, all) = (
        *safety.max_messages_per_minute,
        *safety.max_messages_per_minute_all,
    );
    if own.min(all) > MESSAGES_MAX {
        return Some(Plan::Cannot(format!(
            "no gate hears {} messages a minute",
            own.min(all)
        )));
    }
    let other = Principal::parse("selftest-other").ok()?;
    let after = |count: u32, source: &Principal| {
        bench.with(|scratch| {
            for _ in 0..count {
                scratch
                    .state
                    .rates
                    .count(source.as_str(), Bucket::Ordinary, scratch.now);
            }
        })
    };
    let most = own.min(all);
    let mut trips = vec![(
        "as many messages within the minute as may be",
        after(most, &bench.case.source),
    )];
    if all <= MESSAGES_MAX {
        trips.push(("as many messages of all agents", after(all, &other)));
    }
    Some(Plan::Try(
        Box::new(after(most.saturating_sub(1), &bench.case.source)),
        trips,
    ))
}

fn conducted(bench: &Bench<'_>, conduct: Conduct) -> Scratch {
    let name = bench.case.strategy.clone();
    bench.with(|scratch| drop(scratch.state.book.conduct.insert(name, conduct)))
}

pub(super) fn repeated_execution(bench: &Bench<'_>) -> Option<Plan> {
    let most = bench.rules().safety.max_executions;
    let now = bench.base.now;
    let executed = |count: u32| {
        let executions = (0..count).map(|_| now).collect();
        conducted(
            bench,
            Conduct {
                executions,
                ..Conduct::default()
            },
        )
    };
    let latched = conducted(
        bench,
        Conduct {
            disabled_since: Some(now),
            ..Conduct::default()
        },
    );
    let trips = vec![
        ("as many executions as close a strategy", executed(*most)),
        ("a strategy closed before", latched),
    ];
    Some(Plan::Try(Box::new(executed(most.saturating_sub(1))), trips))
}

pub(super) fn loss_streak(bench: &Bench<'_>) -> Option<Plan> {
    let most = bench.rules().safety.max_losing_trades;
    let lost = |losing: u32| {
        conducted(
            bench,
            Conduct {
                losing,
                ..Conduct::default()
            },
        )
    };
    let trips = vec![("as many losses in a row as close a strategy", lost(*most))];
    Some(Plan::Try(Box::new(lost(most.saturating_sub(1))), trips))
}

pub(super) fn reject_streak(bench: &Bench<'_>) -> Option<Plan> {
    let most = bench.rules().safety.max_rejects;
    let refused = |rejects: u32| {
        conducted(
            bench,
            Conduct {
                rejects,
                ..Conduct::default()
            },
        )
    };
    let trips = vec![(
        "as many refusals in a row as close a strategy",
        refused(*most),
    )];
    Some(Plan::Try(Box::new(refused(most.saturating_sub(1))), trips))
}

/// A working entry of the greatest age stays, and goes a millisecond later.
pub(super) fn order_age(bench: &Bench<'_>) -> Option<Plan> {
    let most = ms(*bench.rules().safety.max_order_age_s);
    let working = |age_ms: i64| {
        bench.with(|scratch| {
            let (id, side) = (OrderId::of_line(2), bench.case.side);
            let mut entry = resting(bench, id, OrderRole::Entry, side);
            entry.order_type = OrderType::Limit;
            entry.price = bench.order.price;
            entry.thesis_slug = Some(bench.order.thesis_slug.clone());
            entry.accepted_at = scratch.now.plus_ms(age_ms.saturating_neg());
            let mut stop = resting(bench, id.stop(), OrderRole::Protective, side.opposite());
            (stop.order_type, stop.trigger) = (OrderType::Stop, Some(bench.order.planned_stop));
            stop.size = Amount::ZERO;
            let orders = [entry, stop].map(|order| (order.order_id, order));
            scratch.state.book.orders.extend(orders);
            scratch.ask = Ask::Again;
        })
    };
    let trips = vec![("a millisecond more", working(most.saturating_add(1)))];
    Some(Plan::Try(Box::new(working(most)), trips))
}

/// What has filled today leaves room for exactly the order, and for a unit less.
pub(super) fn daily_turnover(bench: &Bench<'_>) -> Option<Plan> {
    let (rules, instrument) = (bench.rules(), bench.instrument()?);
    let capital = *rules.safety.max_total_capital;
    let most = capital.checked_mul(*rules.safety.max_daily_turnover)?;
    let market = bench.market()?;
    let terms = Terms::asked(&bench.order);
    let price = pricing::cost_price(&terms, &market, bench.worst())?;
    let own = notional(price, bench.order.size, instrument)?;
    let filled =
        |turnover: Amount| bench.with(|scratch| scratch.state.book.account.turnover = turnover);
    let room = most.checked_sub(own)?;
    let beyond = room.checked_add(amount("0.00000001")?)?;
    let trips = vec![("a turnover that leaves too little", filled(beyond))];
    Some(Plan::Try(Box::new(filled(room)), trips))
}

pub(super) fn cooldown(bench: &Bench<'_>) -> Option<Plan> {
    let wait = ms(*bench.rules().safety.cooldown_s);
    if wait == 0 {
        return Some(Plan::NotSet("cooldown_s is 0"));
    }
    let after = |ago_ms: i64| {
        let stopped_out_at = Some(bench.base.now.plus_ms(ago_ms.saturating_neg()));
        conducted(
            bench,
            Conduct {
                stopped_out_at,
                ..Conduct::default()
            },
        )
    };
    let trips = vec![(
        "a stop-out a millisecond too recent",
        after(wait.saturating_sub(1)),
    )];
    Some(Plan::Try(Box::new(after(wait)), trips))
}

pub(super) fn symbol_halt(bench: &Bench<'_>) -> Option<Plan> {
    let price = bench.price;
    let trips = bench.with(|scratch| {
        let gap = Gap {
            previous: price,
            open: price,
            time: scratch.now,
        };
        scratch
            .state
            .book
            .halted_symbols
            .insert(bench.case.symbol.clone(), gap);
    });
    one(bench, "a gap that nobody has cleared", trips)
}
