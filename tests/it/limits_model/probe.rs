//! Whatever is wrong, positions can be reduced, entries cancelled and stops tightened.

use spoolgate_trading::Change;
use spoolgate_trading::book::Gap;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::orders::{OrderType, SubmitOrder};

use crate::limits_model::home::{LISTED, thesis};
use crate::limits_model::oracle::{is_on, symbol};
use crate::limits_model::world::World;
use crate::paper_model::model::{FLATTEN, Role};
use crate::paper_model::rational::Rat;
use crate::paper_model::sides::{a, r};

/// What may be wrong in addition to the history, by its bit.
pub(super) const WRONG: [&str; 14] = [
    "halted",
    "clock",
    "rulebook",
    "paused",
    "no market data",
    "stale",
    "no cash",
    "drawn down",
    "day lost",
    "symbol halted",
    "instrument gone",
    "instrument not listed",
    "strategy gone",
    "theses gone",
];

/// Breaks the world, probes it, and restores it.
pub(super) fn probe(world: &mut World, mask: u32) {
    let kept = (
        world.book.clone(),
        world.rules.clone(),
        world.now,
        world.faults.clone(),
    );
    for (bit, what) in WRONG.iter().enumerate() {
        if mask & (1 << bit) != 0 {
            bring_about(world, what);
            world.tally.count(format!("wrong: {what}"));
        }
    }
    exits_pass(world, mask);
    others_pass(world, mask);
    (world.book, world.rules, world.now, world.faults) = kept;
}

fn bring_about(world: &mut World, what: &str) {
    match what {
        "halted" => world.faults.is_halted = true,
        "clock" => world.faults.is_clock_wrong = true,
        "rulebook" => world.faults.is_rulebook_wrong = true,
        "paused" => world.faults.paused.extend(["trend", "mean", "swing"]),
        "no market data" => world.book.markets.clear(),
        "stale" => world.now = world.now.plus_ms(100_000_000_000),
        "no cash" => {
            world.book.account.cash = if world.seq.is_multiple_of(2) {
                Amount::ZERO
            } else {
                a("-7777777")
            }
        }
        "drawn down" => world.book.account.drawdown_since = Some(world.now),
        "day lost" => {
            let day = world.book.account.day.as_mut().unwrap();
            day.equity = day.equity.checked_add(a("300000000")).unwrap();
        }
        "symbol halted" => {
            let gap = Gap {
                previous: Amount::ONE,
                open: Amount::ONE,
                time: world.now,
            };
            for listed in &LISTED {
                world
                    .book
                    .halted_symbols
                    .insert(symbol(listed.symbol), gap.clone());
            }
        }
        "instrument gone" => world.rules.instruments.clear(),
        "instrument not listed" => {
            for strategy in world.rules.strategies.values_mut() {
                strategy.instruments.clear();
                strategy.directions.clear();
            }
        }
        "strategy gone" => world.rules.strategies.clear(),
        _ => world.rules.theses.clear(),
    }
}

/// Tries every size up to what is left: all of it, and some sizes in lots from the smallest on.
fn exits_pass(world: &mut World, mask: u32) {
    let context = format!("{} wrong {mask:b}", world.context());
    let held: Vec<_> = world.book.positions.values().cloned().collect();
    for position in held {
        let listed = LISTED
            .iter()
            .find(|listed| listed.symbol == position.symbol.as_str())
            .unwrap();
        let (strategy, side) = (position.strategy.as_str(), position.closing_side());
        let left = world.capacity(strategy, listed, side, OrderType::Market);
        let mut sizes = vec![left];
        let (lot, least) = world
            .rules
            .instruments
            .get(&position.symbol)
            .map_or((Rat::zero(), Rat::zero()), |rule| {
                (r(*rule.lot), r(*rule.min_size))
            });
        let lot = if lot.is_zero() {
            Rat::of(listed.size_step)
        } else {
            lot
        };
        let smallest = least.max(lot.clone()).ceil_to(&lot);
        let part = r(left)
            .times(&Rat::of(&format!("0.{}", world.random.within(1, 9))))
            .floor_to(&lot);
        sizes.extend(
            [smallest.clone(), part.clone()]
                .iter()
                .map(|size| a(&size.text(8))),
        );
        for size in sizes {
            let is_whole = size == left || (r(size) >= smallest && is_on(&r(size), &lot));
            if !size.is_positive() || size > left || !is_whole {
                continue;
            }
            let exit = SubmitOrder {
                strategy: position.strategy.clone(),
                symbol: position.symbol.clone(),
                side,
                size,
                order_type: OrderType::Market,
                price: None,
                stop_price: None,
                thesis_slug: spoolgate_wire::ids::ThesisSlug::parse(&thesis(
                    strategy,
                    listed.symbol,
                    true,
                    0,
                ))
                .unwrap(),
                planned_entry: Amount::ONE,
                planned_stop: Amount::ONE,
                target_price: None,
                time_in_force: spoolgate_wire::orders::TimeInForce::Gtc,
            };
            exit.validate().unwrap();
            let around = world.around(strategy);
            let verdict = world.ask(&exit, &around);
            assert!(
                verdict.accepted,
                "{context}: {exit:?} of {left}: {:#?}",
                verdict.checks
            );
            let (last, before) = verdict.changes.split_last().unwrap();
            match last {
                Change::OrderPlaced(_) => {}
                // Into the market exit that waits for the one in flight.
                Change::ExitMerged(_) => world.tally.count("merged"),
                other => panic!("{context}: {other:?}"),
            }
            assert!(
                before
                    .iter()
                    .all(|change| matches!(change, Change::OrderClosed { .. })),
                "{context}"
            );
            world.tally.count("probed exit");
        }
    }
}

fn others_pass(world: &mut World, mask: u32) {
    let context = format!("{} wrong {mask:b}", world.context());
    let orders = world.memory.paper.orders.clone();
    for order in orders {
        let around = world.around(&order.owner.1);
        if order.role != Role::Stop {
            let verdict = world.ask_cancel(order.id, &around);
            assert_eq!(
                verdict.accepted,
                order.id.1 != FLATTEN,
                "{context}: cancel {order:?}"
            );
            world.tally.count("probed cancel");
            continue;
        }
        let (old, buys) = (order.trigger.clone().unwrap(), order.buys);
        let rule = world.rules.instruments.get(&symbol(&order.owner.0));
        let tick = rule.map_or(Rat::zero(), |rule| r(*rule.tick));
        let step = if tick.is_zero() {
            Rat::of("0.01")
        } else {
            tick
        };
        // One step to the safe side, on the current tick.
        let new = if buys {
            old.minus(&step).ceil_to(&step).minus(&step)
        } else {
            old.plus(&step).floor_to(&step).plus(&step)
        };
        if !new.is_positive() {
            // No request can express this.
            continue;
        }
        let mark = rule
            .and_then(|rule| world.book.fresh_mark(rule, !buys, &world.rules, world.now))
            .map(r);
        let is_clear = mark.is_none_or(|mark| if buys { new > mark } else { new < mark });
        let verdict = world.ask_tighten(order.id, a(&new.text(8)), &around);
        assert_eq!(
            verdict.accepted,
            is_clear && !order.hit,
            "{context}: tighten {order:?} to {new:?}: {:#?}",
            verdict.checks
        );
        world.tally.count("probed tighten");
    }
}
