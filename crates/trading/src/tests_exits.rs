//! However many exits an agent sends: each is accepted, and a leg keeps few of them.

use super::absent;
use super::change::Change;
use super::class::capacity;
use super::exits::{WORKING_MAX, longer};
use super::order::{Merged, Order, OrderRole};
use super::testing::*;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{Leg, OrderId, Principal};
use spoolgate_wire::orders::{OrderType, Side, TimeInForce};

fn of_agents(world: &World) -> Vec<&Order> {
    let orders = world.book.orders.values();
    let is_sent =
        |order: &&Order| order.role == OrderRole::Exit && order.order_id.leg == Leg::Order;
    orders.filter(is_sent).collect()
}

fn ids(world: &World) -> Vec<u64> {
    let sent = of_agents(world).into_iter();
    sent.map(|order| order.order_id.seq).collect()
}

fn left(world: &World, order_type: OrderType) -> Amount {
    capacity(&world.book, &trend(), &btc(), Side::Sell, order_type).unwrap()
}

/// A world with this number of exits of 0.002 that rest at 6900, the first of them `o-4`.
fn resting(held: &str, count: u64) -> World {
    let mut world = World::holding(held);
    let first = world.seq + 1;
    for n in 0..count {
        let id = world.accepted(&limit(sell("0.002"), "6900"));
        assert_eq!(id.seq, first + n);
    }
    world
}

#[test]
fn the_newest_resting_exit_gives_way_to_a_ninth() {
    let mut world = resting("0.05", 7);
    let first = ids(&world)[0];
    world.accepted(&limit(sell("0.002"), "6900"));
    assert_eq!(ids(&world), (first..first + 8).collect::<Vec<u64>>());
    for n in 8..12 {
        let verdict = world.submit(&stop(sell("0.002"), "6750"));
        let gone = OrderId::of_line(first + n - 1);
        let said = serde_json::to_string(&verdict.changes[0]).unwrap();
        assert!(
            said.contains(&format!("\"{gone}\"")) && said.contains("\"retired\""),
            "{said}"
        );
        let kept: Vec<u64> = (first..first + 7).chain([first + n]).collect();
        assert_eq!(ids(&world), kept);
    }
    // A market exit needs a place as well, and does not give it up again.
    for n in 12..14 {
        world.submit(&sell("0.002"));
        assert_eq!(*ids(&world).last().unwrap(), first + n);
        assert_eq!(of_agents(&world).len(), WORKING_MAX);
    }
    let at_market = |order: &&Order| order.order_type == OrderType::Market;
    assert_eq!(of_agents(&world).into_iter().filter(at_market).count(), 2);
    world.accepted(&limit(sell("0.002"), "6900"));
    assert_eq!(of_agents(&world).into_iter().filter(at_market).count(), 2);
    assert_eq!(of_agents(&world).len(), WORKING_MAX);
}

#[test]
fn what_gives_way_is_free_for_the_new_exit_and_no_more() {
    let mut world = resting("0.016", 7);
    assert_eq!(left(&world, OrderType::Limit), a("0.002"));
    world.accepted(&limit(sell("0.002"), "6900"));
    assert_eq!(left(&world, OrderType::Limit), a("0.002"));
    assert_eq!(
        world.refused(&limit(sell("0.003"), "6900")),
        ["reduce_only"]
    );
    for _ in 0..20 {
        world.accepted(&limit(sell("0.002"), "6900"));
        assert_eq!(of_agents(&world).len(), WORKING_MAX);
    }
    // One market exit is in flight and one waits; a third has no place to take.
    world.accepted(&sell("0.002"));
    world.accepted(&sell("0.002"));
    assert_eq!(left(&world, OrderType::Market), Amount::ZERO);
    assert_eq!(world.refused(&sell("0.002")), ["reduce_only"]);
    assert_eq!(left(&world, OrderType::Limit), a("0.002"));
}

#[test]
fn further_market_exits_merge_into_the_one_that_waits() {
    let mut world = World::holding("0.05");
    let first = world.accepted(&sell("0.002"));
    let second = world.accepted(&sell("0.003"));
    for n in 1..=10 {
        let verdict = world.submit(&sell("0.003"));
        let [Change::ExitMerged(Merged { order_id, size, .. })] = verdict.changes.as_slice() else {
            panic!("{verdict:?}")
        };
        assert_eq!(
            (*order_id, *size),
            (
                second,
                a("0.003").checked_mul(Amount::from_i64(n + 1)).unwrap()
            )
        );
    }
    assert_eq!(ids(&world), [first.seq, second.seq]);
    assert_eq!(left(&world, OrderType::Market), a("0.015"));
    let filled = world.flat("6800");
    let filled = fills(&filled);
    assert!(
        filled.len() == 2 && filled[0].starts_with(&format!("{first} sell 0.002@")),
        "{filled:?}"
    );
    assert!(
        filled[1].starts_with(&format!("{second} sell 0.033@")),
        "{filled:?}"
    );
    assert_eq!((world.position(), of_agents(&world).len()), (a("0.015"), 0));
    // Now there is none, so the next one is in flight again.
    let next = world.accepted(&sell("0.015"));
    assert_eq!(ids(&world), [next.seq]);
    world.flat("6800");
    assert_eq!(world.position(), Amount::ZERO);
}

/// Otherwise what is added would use a row from before it was sent, whose price is known.
#[test]
fn a_merged_exit_uses_no_row_from_before_it_was_sent() {
    let mut world = World::holding("0.05");
    world.accepted(&sell("0.002"));
    world.accepted(&sell("0.003"));
    let open_ms = world.now.ms();
    world.wait(30_000);
    world.submit(&sell("0.004"));
    world.wait(30_000);
    let bar = |open_ms: i64| crate::market_row::Row::Bar {
        open_ms,
        interval_ms: 60_000,
        open: a("6900"),
        high: a("6900"),
        low: a("6900"),
        close: a("6900"),
        volume: None,
    };
    world.rows(&btc(), &[bar(open_ms)]);
    assert_eq!(world.position(), a("0.048"), "only what was in flight");
    // What waited is in flight now, so that further exits do not make it wait again.
    let third = world.accepted(&sell("0.005"));
    assert_eq!(ids(&world).last(), Some(&third.seq));
    world.wait(60_000);
    world.rows(&btc(), &[bar(open_ms + 60_000)]);
    assert_eq!(world.position(), a("0.036"));
}

#[test]
fn a_merged_exit_stays_open_as_long_as_the_longest() {
    use TimeInForce::{Day, Gtc, Ioc};
    for (one, other, expect) in [
        (Ioc, Ioc, Ioc),
        (Ioc, Day, Day),
        (Day, Day, Day),
        (Gtc, Ioc, Gtc),
        (Gtc, Day, Gtc),
    ] {
        assert_eq!((longer(one, other), longer(other, one)), (expect, expect));
        let mut world = World::holding("0.05");
        world.accepted(&sell("0.002"));
        for time_in_force in [one, other] {
            let mut exit = sell("0.002");
            exit.time_in_force = time_in_force;
            world.submit(&exit);
        }
        assert_eq!(of_agents(&world)[1].time_in_force, expect);
    }
}

/// Stops, targets and market orders of people are no exits of an agent.
#[test]
fn what_agents_did_not_send_neither_counts_nor_gives_way() {
    let mut world = resting("0.05", 7);
    let alice = Principal::parse("alice").unwrap();
    let position = world.book.positions.values().next().unwrap().clone();
    for seq in 900..902 {
        let order = absent::market_exit(&position, a("0.002"), &alice, seq, world.now);
        world.apply(&[Change::OrderPlaced(Box::new(order))]);
    }
    let before: Vec<OrderId> = world.book.orders.keys().copied().collect();
    world.accepted(&sell("0.002"));
    assert_eq!(of_agents(&world).len(), WORKING_MAX);
    assert!(before.iter().all(|id| world.book.orders.contains_key(id)));
    // The first market exit of the agent is in flight whatever the orders of people do.
    let last = OrderId::of_line(*ids(&world).last().unwrap());
    assert_eq!(world.book.orders[&last].size, a("0.002"));
    let merged = world.submit(&sell("0.002"));
    assert!(
        merged
            .changes
            .iter()
            .any(|it| matches!(it, Change::OrderPlaced(_))),
        "{merged:?}"
    );
    // Their size is no longer free.
    assert_eq!(left(&world, OrderType::Market), a("0.030"));
}

/// A leg of one symbol neither counts nor delays the exits of another leg.
#[test]
fn legs_are_counted_apart() {
    let mut world = resting("0.02", 8);
    let other = market_order("mean", "BTC-USD", "buy", "0.02", "6600", 0);
    world.accepted(&other);
    world.flat("6800");
    let mut exit = sell("0.002");
    exit.strategy = spoolgate_wire::ids::StrategyName::parse("mean").unwrap();
    for _ in 0..3 {
        world.submit(&exit);
    }
    assert_eq!(of_agents(&world).len(), WORKING_MAX + 2);
}
