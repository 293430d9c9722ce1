//! The paper venue and the accounts against a second, naive implementation in exact rationals, on a
//! real day and on random markets; and what no book, however unusual, may do to exits and headroom.

pub(crate) mod model;
pub(crate) mod rational;
pub(crate) mod sides;
mod world;

use std::collections::BTreeMap;
use std::fs;

use rational::Rat;
use spoolgate_market::{Options, Row, import};
use spoolgate_trading::Change;
use spoolgate_trading::book::Gap;
use spoolgate_trading::class;
use spoolgate_trading::order::OrderRole;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::Leg;
use spoolgate_wire::orders::{Side, SubmitOrder};
use spoolgate_wire::time::Time;
use world::{LISTED, Listed, World};

/// Adds up what the walks of several seeds saw.
fn gather(all: &mut BTreeMap<String, u64>, world: &World) {
    for (what, count) in &world.seen {
        *all.entry(what.clone()).or_default() += count;
    }
}

#[test]
fn rationals_round_as_they_should() {
    let check = |value: &str, floor: &str, ceil: &str, even: &str| {
        let (value, step) = (Rat::of(value), Rat::of("0.5"));
        assert_eq!(
            (
                value.floor_to(&step),
                value.ceil_to(&step),
                value.half_even_to(&step)
            ),
            (Rat::of(floor), Rat::of(ceil), Rat::of(even)),
            "{value:?}"
        );
    };
    check("1.2", "1", "1.5", "1");
    check("-1.2", "-1.5", "-1", "-1");
    check("0.25", "0", "0.5", "0");
    check("0.75", "0.5", "1", "1");
    check("-0.75", "-1", "-0.5", "-1");
    check("2", "2", "2", "2");
    assert_eq!(Rat::of("1").over(&Rat::of("-4")), Rat::of("-0.25"));
    assert_eq!(
        (Rat::of("-1.25").text(1), Rat::of("7.06").text(3)),
        ("-1.3".to_owned(), "7.060".to_owned())
    );
}

#[test]
fn random_markets_give_what_the_model_gives() {
    let mut seen = BTreeMap::new();
    for seed in 1..=40 {
        let mut world = World::new(seed, world::WIDE, "100000");
        for listed in &LISTED {
            world.random_rows(listed);
        }
        for _ in 0..120 {
            world.turn();
        }
        for (what, count) in [
            ("exits refused", world.model.refused),
            ("flattened", world.model.flattened),
            ("exits merged", world.model.merged),
            ("exits that gave way", world.model.gave_way),
            ("expired", world.model.expired),
            ("rows held", world.model.doubts[0]),
            ("rows believed later", world.model.doubts[1]),
            ("rows dropped", world.model.doubts[2]),
        ] {
            *seen.entry(what.to_owned()).or_default() += u64::try_from(count).unwrap();
        }
        gather(&mut seen, &world);
    }
    for what in ["Entry", "Exit"] {
        for kind in ["Market", "Limit", "Stop"] {
            for side in ["buy", "sell"] {
                let name = format!("{what} {kind} {side}");
                assert!(
                    seen.get(&name).is_some_and(|count| *count > 50),
                    "{name}: {seen:?}"
                );
            }
        }
    }
    for name in [
        "fill Entry Maker",
        "fill Entry Taker",
        "fill Exit Maker",
        "fill Exit Taker",
        "fill Protective Taker",
        "flip",
        "cancel",
        "tighten",
        "exits refused",
        "flattened",
        "exits merged",
        "exits that gave way",
        "expired",
        "gap",
        "rows held",
        "rows believed later",
        "rows dropped",
        "target",
        "funding",
        "fill Target Maker",
        "fill Target Taker",
    ] {
        assert!(
            seen.get(name).is_some_and(|count| *count > 50),
            "{name}: {seen:?}"
        );
    }
    let crossed = seen.get("crossed by an exit");
    assert!(
        crossed.is_some_and(|count| *count > 10),
        "an exit meets an own resting entry: {seen:?}"
    );
}

fn real_rows(kind: &str) -> Vec<Row> {
    let name = format!("lean-coinbase-minute-btcusd_20180405_{kind}.zip");
    let bytes = fs::read(format!(
        "{}/examples/market/{name}",
        env!("CARGO_MANIFEST_DIR")
    ))
    .unwrap();
    import(&name, &bytes, &Options::default()).unwrap().rows
}

/// A real day in minutes, trades and quotes as they became known, with random trading all day.
#[test]
fn a_real_day_gives_what_the_model_gives() {
    let mut rows = real_rows("trade");
    rows.extend(real_rows("quote"));
    rows.sort_by_key(Row::known_ms);
    assert!(rows.len() > 2500, "{}", rows.len());
    let listed = Listed {
        price_step: "0.01",
        size_step: "0.00100001",
        ..LISTED[2]
    };
    for (seed, rule) in [
        (
            1,
            "tick: 0.01, lot: 0.00000001, quotes_from: quotes, fills_from: bars",
        ),
        (
            2,
            "tick: 0.01, lot: 0.00000001, quotes_from: quotes, fills_from: quotes",
        ),
        (
            3,
            "tick: 0.01, lot: 0.00000001, quotes_from: bars, fills_from: bars",
        ),
    ] {
        let mut world = World::new(seed, world::WIDE, "100000");
        world.relist(
            listed.symbol,
            &format!(
                "{{symbol: MIXED, multiplier: 1, min_size: 0.001, max_size: 10, min_notional: 10, \
                    min_stop_ticks: 5,
                  {rule}, half_spread: 0.0001, slippage: 0.0005, maker_fee: 0.001, taker_fee: 0.002,
                  volume_share: 0.1, bar_s: 60}}"
            ),
        );
        world.now = Time::from_ms(rows[0].known_ms()).unwrap();
        for row in &rows {
            // The gate's clock never goes back, although bar and quote of a minute are known at the
            // same time.
            world.now = world.now.max(Time::from_ms(row.known_ms()).unwrap());
            world.row(listed.symbol, row);
            let close = match row {
                Row::Bar { close, .. } => *close,
                Row::Quote { bid, .. } => *bid,
            };
            let cents = close.div_floor_count(world::a("0.01")).unwrap();
            world
                .near
                .insert(listed.symbol, i64::try_from(cents).unwrap());
            if world.random.one_in(4) {
                world.requests(&listed);
            }
        }
        let seen = &world.seen;
        for name in [
            "fill Entry Taker",
            "fill Entry Maker",
            "fill Exit Taker",
            "fill Protective Taker",
        ] {
            assert!(
                seen.get(name).is_some_and(|count| *count > 10),
                "seed {seed}: {name}: {seen:?}"
            );
        }
    }
}

/// Whether an order of this size would pass.
fn passes(world: &mut World, order: &SubmitOrder, size: Amount) -> bool {
    let mut other = order.clone();
    other.size = size;
    world.ask(&other).accepted
}

/// Compares the largest size of a refusal with every possible size, lot by lot.
#[test]
fn headroom_is_the_largest_size_that_passes() {
    let mut seen: BTreeMap<String, u64> = BTreeMap::new();
    for seed in 1..=20 {
        let mut world = World::new(seed, world::TIGHT, "5000");
        // Each limit has its turn to bind.
        let safety = &mut world.rules.safety;
        match seed % 4 {
            0 => safety.max_single_trade_risk = world::a("0.0005").try_into().unwrap(),
            1 => safety.max_order_value = world::a("1000").try_into().unwrap(),
            2 => {
                safety.max_single_position = Amount::ONE.try_into().unwrap();
                safety.max_single_trade_risk = Amount::ONE.try_into().unwrap();
                safety.max_order_value = world::a("1000").try_into().unwrap();
            }
            _ => {}
        }
        for listed in &LISTED {
            world.random_rows(listed);
        }
        for turn in 0..40 {
            world.turn();
            if turn % 4 != 0 {
                continue;
            }
            // Not the instrument without lots, because not all of its sizes can be tried.
            let listed = &LISTED[usize::try_from(world.random.within(0, 1)).unwrap()];
            let mut order = world.draw(listed);
            if world.random.one_in(2) {
                order.size = world::steps(world.random.within(50, 90), listed.size_step);
            }
            let Some(headroom) = world.ask(&order).headroom else {
                continue;
            };
            let context = format!("seed {seed} turn {turn}: {order:?}: {headroom:?}");
            *seen.entry(headroom.binding_check.clone()).or_default() += 1;
            // Another size would not be a duplicate, but it is not offered as a way round the
            // check.
            if headroom.binding_check == "duplicate_order" {
                assert!(headroom.max_size.is_zero(), "{context}");
                continue;
            }
            if headroom.max_size.is_positive() {
                assert!(passes(&mut world, &order, headroom.max_size), "{context}");
            }
            for lots in 1..=62 {
                let size = world::steps(lots, listed.size_step);
                if size > headroom.max_size {
                    assert!(
                        !passes(&mut world, &order, size),
                        "{context}: {size} passes"
                    );
                }
            }
        }
    }
    let sized = [
        "max_order_value",
        "max_single_trade_risk",
        "max_single_position",
        "max_total_exposure",
    ];
    for name in sized.into_iter().chain(["reduce_only"]) {
        assert!(
            seen.get(name).is_some_and(|count| *count >= 2),
            "{name}: {seen:?}"
        );
    }
}

/// Everything that may be wrong at once, by its bit.
const FAULTS: [&str; 12] = [
    "manual_halt",
    "clock",
    "rulebook",
    "market_data missing",
    "market_data stale",
    "drawdown_halt",
    "daily_loss_halt",
    "max_single_trade_risk",
    "thesis_valid",
    "instrument_allowed",
    "strategy_active",
    "symbol_halt",
];

/// Causes the faults of `mask`. Returns the names of the checks that must refuse entries.
fn break_things(world: &mut World, mask: u64, order: &SubmitOrder) -> Vec<&'static str> {
    let mut refusing = Vec::new();
    for (bit, fault) in FAULTS.iter().enumerate() {
        if mask & (1 << bit) == 0 {
            continue;
        }
        refusing.push(fault.split(' ').next().unwrap());
        match *fault {
            "manual_halt" => world.faults.halted = true,
            "clock" => world.faults.clock = true,
            "rulebook" => world.faults.rulebook = true,
            "market_data missing" => world.book.markets.clear(),
            "market_data stale" => world.now = world.now.plus_ms(10_000_000_001),
            "drawdown_halt" => world.book.account.drawdown_since = Some(world.now),
            "daily_loss_halt" => {
                let day = world.book.account.day.as_mut().unwrap();
                day.equity = day.equity.checked_add(world::a("300000000")).unwrap();
            }
            "max_single_trade_risk" => world.book.account.cash = world::a("-900000000"),
            "thesis_valid" => world.rules.theses.clear(),
            "symbol_halt" => {
                let (price, time) = (Amount::ONE, world.now);
                let gap = Gap {
                    previous: price,
                    open: price,
                    time,
                };
                world.book.halted_symbols.insert(order.symbol.clone(), gap);
            }
            "instrument_allowed" => {
                world.rules.instruments.remove(&order.symbol);
            }
            _ => {
                let strategy = world.rules.strategies.get_mut(&order.strategy).unwrap();
                strategy.status = spoolgate_rules::strategies::StrategyStatus::Paused;
            }
        }
    }
    refusing
}

/// Whatever is wrong, positions can be reduced, entries cancelled and stops tightened, and nothing
/// opens.
#[test]
fn no_fault_keeps_anybody_in_a_position() {
    let mut seen: BTreeMap<String, u64> = BTreeMap::new();
    for seed in 1..=25 {
        let mut world = World::new(seed, world::WIDE, "100000");
        for listed in &LISTED {
            world.random_rows(listed);
        }
        for turn in 0..40 {
            world.turn();
            let mask = match turn {
                0..=11 => 1 << turn,
                _ => u64::try_from(world.random.within(1, (1 << FAULTS.len()) - 1)).unwrap(),
            };
            let context = format!("seed {seed} turn {turn} faults {mask:b}");
            let listed = &LISTED[usize::try_from(world.random.within(0, 2)).unwrap()];
            let order = world.draw(listed);
            let kept = (world.book.clone(), world.rules.clone(), world.now);
            let refusing = break_things(&mut world, mask, &order);
            entries_are_refused(&mut world, &order, &refusing, &context, &mut seen);
            exits_pass(&mut world, &context, &mut seen);
            cancels_and_tightens_pass(&mut world, &context, &mut seen);
            (world.book, world.rules, world.now) = kept;
            world.faults = world::Faults::default();
        }
    }
    for name in ["exit", "cancel", "tighten", "entry"] {
        assert!(seen.get(name).is_some_and(|count| *count > 100), "{seen:?}");
    }
}

fn entries_are_refused(
    world: &mut World,
    order: &SubmitOrder,
    refusing: &[&str],
    context: &str,
    seen: &mut BTreeMap<String, u64>,
) {
    let owner = (order.symbol.to_string(), order.strategy.to_string());
    // An order against the strategy's own position is not an entry, even if working exits leave
    // nothing to reduce.
    if world.model.holds_against(&owner, order.side == Side::Buy) {
        return;
    }
    let verdict = world.ask(order);
    assert!(
        !verdict.accepted && verdict.changes.is_empty(),
        "{context}: {order:?}"
    );
    for name in refusing {
        let row = verdict.checks.iter().find(|row| row.name == *name).unwrap();
        assert!(
            !row.passed && row.reason.is_some(),
            "{context}: {name} passed {order:?}"
        );
    }
    *seen.entry("entry".to_owned()).or_default() += 1;
}

fn exits_pass(world: &mut World, context: &str, seen: &mut BTreeMap<String, u64>) {
    let held: Vec<_> = world.book.positions.values().cloned().collect();
    for position in held {
        let listed = LISTED
            .iter()
            .find(|listed| listed.symbol == position.symbol.as_str())
            .unwrap();
        let side = position.closing_side();
        let left = class::capacity(
            &world.book,
            &position.strategy,
            &position.symbol,
            side,
            spoolgate_wire::orders::OrderType::Market,
        )
        .unwrap();
        if !left.is_positive() {
            continue;
        }
        let lots =
            i64::try_from(left.div_floor_count(world::a(listed.size_step)).unwrap()).unwrap();
        // All of it, whatever the lot; or some lots above the smallest size.
        let some = (lots > 2).then(|| world::steps(world.random.within(2, lots), listed.size_step));
        for size in [Some(left), some].into_iter().flatten() {
            let (kind, buys) = (
                *world.random.pick(&["market", "limit", "stop"]),
                side == Side::Buy,
            );
            let (own, strategy) = (
                world.random.within(1, listed.price * 3),
                position.strategy.as_str(),
            );
            let exit = world.order(listed, strategy, buys, kind, own, 1, size);
            let verdict = world.ask(&exit);
            assert!(
                verdict.accepted,
                "{context}: {exit:?}: {:#?}",
                verdict.checks
            );
            let (last, before) = verdict.changes.split_last().unwrap();
            assert!(
                matches!(last, Change::OrderPlaced(_) | Change::ExitMerged(_)),
                "{context}"
            );
            assert!(
                before
                    .iter()
                    .all(|change| matches!(change, Change::OrderClosed { .. })),
                "{context}"
            );
            *seen.entry("exit".to_owned()).or_default() += 1;
        }
    }
}

fn cancels_and_tightens_pass(world: &mut World, context: &str, seen: &mut BTreeMap<String, u64>) {
    let orders: Vec<_> = world.book.orders.values().cloned().collect();
    for order in orders {
        if order.order_id.leg == Leg::Flatten {
            assert!(
                !world.ask_cancel(order.order_id).accepted,
                "{context}: {order:?}"
            );
            continue;
        }
        if order.role != OrderRole::Protective {
            assert!(
                world.ask_cancel(order.order_id).accepted,
                "{context}: {order:?}"
            );
            *seen.entry("cancel".to_owned()).or_default() += 1;
            continue;
        }
        let listed = LISTED
            .iter()
            .find(|listed| listed.symbol == order.symbol.as_str())
            .unwrap();
        let old = order.trigger.unwrap();
        let step = world::steps(1, listed.price_step);
        let tighter = if order.side == Side::Sell {
            old.checked_add(step)
        } else {
            old.checked_sub(step)
        };
        let (tighter, is_long) = (tighter.unwrap(), order.side == Side::Sell);
        let mark = world
            .rules
            .instruments
            .get(&order.symbol)
            .and_then(|instrument| {
                world
                    .book
                    .fresh_mark(instrument, is_long, &world.rules, world.now)
            });
        let is_clear = mark.is_none_or(|mark| {
            if is_long {
                tighter < mark
            } else {
                tighter > mark
            }
        });
        let verdict = world.ask_tighten(order.order_id, tighter);
        let expected = is_clear && !order.triggered;
        assert_eq!(
            verdict.accepted, expected,
            "{context}: {order:?} to {tighter}: {:#?}",
            verdict.checks
        );
        if expected {
            *seen.entry("tighten".to_owned()).or_default() += 1;
        }
        let looser = if is_long {
            old.checked_sub(step)
        } else {
            old.checked_add(step)
        };
        assert!(
            !world.ask_tighten(order.order_id, looser.unwrap()).accepted,
            "{context}: {order:?}"
        );
    }
}
