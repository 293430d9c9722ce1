//! The percent-price filter: how far a price may be from the last one when it reaches the venue.

use crate::change::Change;
use crate::order::OrderEnd;
use crate::testing::*;

fn bound(world: &mut World, share: Option<&str>) {
    for symbol in [btc(), eth()] {
        world
            .rules
            .instruments
            .get_mut(&symbol)
            .unwrap()
            .percent_price = share.map(|share| a(share).try_into().unwrap());
    }
}

fn refusals(changes: &[Change]) -> Vec<String> {
    let told = |change: &Change| match change {
        Change::OrderRefused {
            order_id, reason, ..
        } => Some(format!("{order_id}: {reason}")),
        _ => None,
    };
    changes.iter().filter_map(told).collect()
}

fn open(world: &World) -> Vec<String> {
    world.book.orders.keys().map(ToString::to_string).collect()
}

/// The last price is 6800; 3% of it is 204.
#[test]
fn entries_and_exits_at_the_bound_are_taken_and_a_tick_beyond_are_not() {
    for (price, is_far) in [("6596", false), ("6595.9", true)] {
        let mut world = World::new();
        let mut entry = limit(buy("0.01"), price);
        (entry.planned_stop, entry.stop_price) = (a("6500"), Some(a("6500")));
        world.accepted(&entry);
        bound(&mut world, Some("0.03"));
        let changes = world.flat("6800");
        assert_eq!(refusals(&changes).len(), usize::from(is_far), "{price}");
        // A refused entry takes its stop along.
        let left = if is_far {
            Vec::new()
        } else {
            vec!["o-1".to_owned(), "o-1-stop".to_owned()]
        };
        assert_eq!(open(&world), left, "{price}");
    }
    for (price, is_far) in [("7004", false), ("7004.1", true)] {
        let mut world = World::holding("0.01");
        bound(&mut world, Some("0.03"));
        let exit = world.accepted(&limit(sell("0.006"), price));
        let changes = world.flat("6800");
        let expect = format!(
            "{exit}: its price {price} is further from the last price than 0.03 of that price \
                (twice the last price is 13600)"
        );
        assert_eq!(
            refusals(&changes),
            Vec::from_iter(is_far.then_some(expect)),
            "{price}"
        );
        // Refused or not, the agent can send another exit, and one at the market has no price to
        // refuse.
        assert_eq!(world.position(), a("0.01"));
        let at_market = world.accepted(&sell("0.004"));
        bound(&mut world, Some("0.0000000001"));
        let changes = world.flat("6800");
        assert!(refusals(&changes).is_empty());
        assert!(
            fills(&changes)[0].starts_with(&format!("{at_market} sell")),
            "{changes:?}"
        );
    }
}

#[test]
fn an_order_is_asked_once_and_rests_however_far_the_market_goes() {
    let mut world = World::holding("0.01");
    bound(&mut world, Some("0.03"));
    let exit = world.accepted(&limit(sell("0.006"), "6990"));
    for price in ["6790", "6780", "6770", "6760"] {
        assert!(refusals(&world.flat(price)).is_empty(), "{price}");
    }
    // An order that comes now is tested now, however small the moves of the rows.
    let late = world.accepted(&limit(sell("0.004"), "6970"));
    let changes = world.flat("6760");
    assert!(world.book.orders.contains_key(&exit));
    assert_eq!(
        changes.iter().filter_map(Change::ended).collect::<Vec<_>>(),
        [(late, OrderEnd::Refused)]
    );
    // Without the setting, neither the book nor the lines store anything for it.
    let mut world = World::new();
    let changes = world.flat("6800");
    assert!(!serde_json::to_string(&changes).unwrap().contains("reached"));
    assert_eq!(world.book.markets[&btc()].reached, None);
}

#[test]
fn a_stop_too_far_from_the_market_takes_its_entry_back_and_a_target_goes_alone() {
    let mut world = World::new();
    let mut entry = buy("0.01");
    entry.target_price = Some(a("6950"));
    let id = world.accepted(&entry);
    // 6700 is 1.47% away, 6950 2.2%.
    bound(&mut world, Some("0.02"));
    let changes = world.flat("6800");
    assert_eq!(refusals(&changes).len(), 1);
    assert!(
        refusals(&changes)[0].starts_with("o-1-target: its price 6950"),
        "{changes:?}"
    );
    assert_eq!(open(&world), ["o-1-stop"]);
    assert_eq!(world.position(), a("0.01"));

    let mut world = World::new();
    world.accepted(&buy("0.01"));
    bound(&mut world, Some("0.014"));
    let changes = world.flat("6800");
    assert!(
        refusals(&changes)[0].starts_with("o-1-stop: its price 6700"),
        "{changes:?}"
    );
    assert_eq!(open(&world), [id.flatten().to_string()]);
    assert_eq!(fills(&world.flat("6800")).len(), 1);
    assert!(world.book.positions.is_empty() && world.book.orders.is_empty());
}

#[test]
fn a_stop_at_work_is_tightened_whatever_the_distance() {
    let mut world = World::holding("0.01");
    bound(&mut world, Some("0.02"));
    world.flat("6860");
    // 6705 is further than 2% from 6860, and still nearer than 6700.
    assert!(
        world
            .tighten(spoolgate_wire::ids::OrderId::of_line(1).stop(), "6705")
            .accepted
    );
    assert!(refusals(&world.flat("6860")).is_empty());
}

#[test]
fn the_gate_refuses_what_the_venue_would_refuse() {
    let mut world = World::new();
    bound(&mut world, Some("0.014"));
    assert_eq!(world.refused(&buy("0.01")), ["stop_hostable"]);
    let mut entry = market_order("trend", "BTC-USD", "buy", "0.01", "6705", 0);
    assert!(world.ask(&entry).accepted);
    entry.target_price = Some(a("6895.2"));
    assert!(world.ask(&entry).accepted, "1.4% of 6800 is 95.2");
    entry.target_price = Some(a("6895.3"));
    assert_eq!(world.refused(&entry), ["target_valid"]);
    let far = limit(
        market_order("trend", "BTC-USD", "buy", "0.01", "6640", 0),
        "6700",
    );
    assert_eq!(world.refused(&far), ["stop_hostable", "price_collar"]);
    let row = world.row_of(&far, "price_collar");
    assert!(
        row.reason
            .unwrap()
            .starts_with("the venue would refuse the order: its price 6700")
    );
    // An exit only gets the reason.
    let mut world = World::holding("0.01");
    bound(&mut world, Some("0.014"));
    let exit = limit(sell("0.01"), "6900");
    assert!(world.ask(&exit).accepted);
    assert!(world.row_of(&exit, "price_collar").reason.is_some());
}

#[test]
fn where_quotes_fill_the_middle_of_the_last_one_is_the_price() {
    // The quote is 200 to 200.2; 1% of 200.1 is 2.001.
    for (price, is_far) in [("198.1", false), ("198.09", true)] {
        let mut world = World::new();
        let mut entry = limit(
            market_order("trend", "ETH-USD", "buy", "1", "195", 0),
            price,
        );
        (entry.planned_stop, entry.stop_price) = (a("195"), Some(a("195")));
        world.accepted(&entry);
        bound(&mut world, Some("0.01"));
        world.wait(1);
        let changes = world.quote("200", "200.2");
        assert_eq!(refusals(&changes).len(), usize::from(is_far), "{price}");
    }
}
