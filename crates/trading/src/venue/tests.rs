//! How the paper venue fills orders, and what protective stops do meanwhile.

use crate::change::Change;
use crate::market_row::Row;
use crate::order::{OrderEnd, OrderRole};
use crate::testing::*;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::OrderId;
use spoolgate_wire::orders::SubmitOrder;

/// Asserts what fills for one order and one bar of open, high, low, close.
fn check(order: &SubmitOrder, bar: [&str; 4], expect: &[&str]) {
    let mut world = World::new();
    world.accepted(order);
    let [open, high, low, close] = bar;
    assert_eq!(
        fills(&world.bar(open, high, low, close)),
        expect,
        "{order:?} {bar:?}"
    );
}

#[test]
fn entries_fill_on_bars() {
    // Market: open x 1.0005 x 1.001, rounded up to the tick; fee 0.1% of the notional.
    check(&buy("0.01"), ["6800"; 4], &["o-1 buy 0.01@6810.3 0.068103"]);
    check(
        &sell("0.01"),
        ["6800"; 4],
        &["o-1 sell 0.01@6789.8 0.067898"],
    );
    // Resting limit: at the limit as maker, only if the bar goes through it. A limit that is
    // marketable at the open pays half spread and slippage too, but never more than its price.
    check(
        &limit(buy("0.01"), "6790"),
        ["6789.9", "6800", "6780", "6800"],
        &["o-1 buy 0.01@6790 0.0679"],
    );
    check(
        &limit(buy("0.01"), "6790"),
        ["6750", "6800", "6750", "6800"],
        &["o-1 buy 0.01@6760.2 0.067602"],
    );
    check(
        &limit(buy("0.01"), "6790"),
        ["6800", "6800", "6789.9", "6800"],
        &["o-1 buy 0.01@6790 0.01358"],
    );
    check(
        &limit(buy("0.01"), "6790"),
        ["6800", "6800", "6790", "6800"],
        &[],
    );
    check(
        &limit(sell("0.01"), "6810"),
        ["6800", "6810.1", "6800", "6800"],
        &["o-1 sell 0.01@6810 0.01362"],
    );
    check(
        &limit(sell("0.01"), "6810"),
        ["6800", "6810", "6800", "6800"],
        &[],
    );
    check(
        &limit(sell("0.01"), "6810"),
        ["6811", "6811", "6800", "6800"],
        &["o-1 sell 0.01@6810 0.0681"],
    );
    check(
        &limit(sell("0.01"), "6810"),
        ["6850", "6850", "6800", "6800"],
        &["o-1 sell 0.01@6839.7 0.068397"],
    );
    // Stop: like a market order at the open if it gapped, otherwise at the trigger with slippage.
    check(
        &stop(buy("0.01"), "6820"),
        ["6800", "6820", "6800", "6800"],
        &["o-1 buy 0.01@6826.9 0.068269"],
    );
    check(
        &stop(buy("0.01"), "6820"),
        ["6830", "6840", "6830", "6830"],
        &["o-1 buy 0.01@6840.3 0.068403"],
    );
    check(
        &stop(buy("0.01"), "6820"),
        ["6800", "6819.9", "6800", "6800"],
        &[],
    );
    check(
        &stop(sell("0.01"), "6780"),
        ["6800", "6800", "6780", "6800"],
        &["o-1 sell 0.01@6773.2 0.067732"],
    );
}

#[test]
fn a_protective_stop_fills_at_the_gap_or_its_trigger_and_before_anything_favourable() {
    // A target at 6900 and the stop at 6700 in one bar: stopped.
    let mut world = World::holding("0.01");
    world.accepted(&limit(sell("0.01"), "6900"));
    let changes = world.bar("6800", "6950", "6650", "6900");
    assert_eq!(fills(&changes), ["o-1-stop sell 0.01@6693.3 0.066933"]);
    assert!(world.book.orders.is_empty() && world.book.positions.is_empty());
    let mut world = World::holding("0.01");
    assert_eq!(
        fills(&world.flat("6600")),
        ["o-1-stop sell 0.01@6590.1 0.065901"]
    );
    let mut world = World::holding("-0.01");
    assert_eq!(
        fills(&world.flat("7000")),
        ["o-1-stop buy 0.01@7010.6 0.070106"]
    );
}

#[test]
fn the_bar_that_opens_a_position_may_stop_it_out() {
    let mut world = World::new();
    world.accepted(&buy("0.01"));
    let changes = world.bar("6800", "6800", "6699", "6750");
    assert_eq!(
        fills(&changes),
        [
            "o-1 buy 0.01@6810.3 0.068103",
            "o-1-stop sell 0.01@6693.3 0.066933"
        ]
    );
    assert!(world.book.orders.is_empty() && world.book.positions.is_empty());
    // -117.0 x 0.01
    assert_eq!(world.book.account.realised, a("-1.17"));
}

#[test]
fn an_order_uses_only_bars_that_open_after_it_and_rows_count_once() {
    let mut world = World::new();
    let open_ms = world.now.ms();
    world.wait(1);
    world.accepted(&buy("0.01"));
    world.wait(60_000);
    let bar = |open_ms| Row::Bar {
        open_ms,
        interval_ms: 60_000,
        open: a("6800"),
        high: a("6800"),
        low: a("6800"),
        close: a("6800"),
        volume: None,
    };
    assert!(fills(&world.rows(&btc(), &[bar(open_ms)]).remove(0).changes).is_empty());
    world.wait(60_000);
    let next = [bar(open_ms + 60_000)];
    assert_eq!(world.rows(&btc(), &next).remove(0).changes.len(), 4);
    assert!(world.rows(&btc(), &next).is_empty(), "the same rows again");
    assert!(world.rows(&btc(), &[bar(open_ms)]).is_empty(), "older rows");
}

#[test]
fn quotes_fill_at_the_other_side() {
    for (order, quotes, expect) in [
        (
            market_order("trend", "ETH-USD", "buy", "0.1", "197", 0),
            vec![("200", "200.2")],
            "0.1@200.41 0.020041",
        ),
        (
            market_order("trend", "ETH-USD", "sell", "0.1", "203", 0),
            vec![("200", "200.2")],
            "0.1@199.8 0.01998",
        ),
        (
            eth_limit("buy", "200"),
            vec![("199.9", "200.1"), ("199.8", "199.9")],
            "0.1@200 0.004",
        ),
        (
            eth_limit("buy", "200"),
            vec![("199.8", "199.9")],
            "0.1@199.9 0.01999",
        ),
        (eth_limit("buy", "200"), vec![("199.9", "200.01")], ""),
        (
            eth_limit("sell", "200.4"),
            vec![("200.5", "200.6")],
            "0.1@200.5 0.02005",
        ),
        (eth_limit("sell", "200.4"), vec![("200.39", "200.6")], ""),
    ] {
        let mut world = World::new();
        world.accepted(&order);
        let mut told = Vec::new();
        for (bid, ask) in &quotes {
            world.wait(1000);
            told.extend(fills(&world.quote(bid, ask)));
        }
        let expect: Vec<String> = (!expect.is_empty())
            .then(|| format!("o-1 {} {expect}", order.side.as_str()))
            .into_iter()
            .collect();
        assert_eq!(told, expect, "{order:?} {quotes:?}");
    }
    let mut world = World::new();
    world.accepted(&market_order("trend", "ETH-USD", "buy", "0.1", "197", 0));
    world.wait(1000);
    world.quote("200", "200.2");
    world.wait(1000);
    assert!(fills(&world.quote("197.01", "197.1")).is_empty());
    world.wait(1000);
    assert_eq!(
        fills(&world.quote("196.9", "197.1")),
        ["o-1-stop sell 0.1@196.7 0.01967"]
    );
}

fn eth_limit(side: &str, price: &str) -> SubmitOrder {
    let stop = if side == "buy" { "197" } else { "203" };
    limit(
        market_order("trend", "ETH-USD", side, "0.1", stop, 0),
        price,
    )
}

#[test]
fn volume_caps_and_what_is_left_stays() {
    let mut world = World::new();
    world.accepted(&buy("0.01"));
    let changes = world.bar_of("6800", "6800", "6800", "6800", Some("0.0455"));
    assert_eq!(fills(&changes), ["o-1 buy 0.004@6810.3 0.0272412"]);
    assert_eq!(
        world.book.orders[&OrderId::of_line(1).stop()].leaves(),
        a("0.004")
    );
    assert!(fills(&world.bar_of("6800", "6800", "6800", "6800", Some("0"))).is_empty());
    // The stop triggers, ends its entry, and sells as much as the volume allows; the rest sells at
    // the next open.
    let changes = world.bar_of("6800", "6800", "6690", "6700", Some("0.03"));
    let closed = |change: &Change| match change {
        Change::OrderClosed { order_id, end, .. } => Some((*order_id, *end)),
        _ => None,
    };
    assert_eq!(
        fills(&changes),
        ["o-1 buy 0.003@6810.3 0.0204309"],
        "the entry came first"
    );
    assert_eq!(
        changes.iter().find_map(closed),
        Some((OrderId::of_line(1), OrderEnd::Retired))
    );
    let changes = world.bar_of("6720", "6720", "6720", "6720", Some("0.05"));
    assert_eq!(fills(&changes), ["o-1-stop sell 0.005@6709.9 0.0335495"]);
    assert_eq!(
        fills(&world.flat("6720")),
        ["o-1-stop sell 0.002@6709.9 0.0134198"]
    );
    assert!(world.book.orders.is_empty() && world.book.positions.is_empty());
}

#[test]
fn a_resting_exit_is_clamped_to_the_position_it_finds() {
    let mut world = World::holding("0.01");
    world.accepted(&limit(sell("0.008"), "6900"));
    let order = limit(sell("0.002"), "6900");
    world.accepted(&order);
    // The market exit was classified before; force one through to shrink the position below the
    // others.
    let mut exit = world.book.orders[&OrderId::of_line(2)].clone();
    exit.order_id = OrderId::of_line(50);
    exit.order_type = spoolgate_wire::orders::OrderType::Market;
    exit.size = a("0.007");
    world.apply(&[Change::OrderPlaced(Box::new(exit))]);
    world.flat("6800");
    assert_eq!(world.position(), a("0.003"));
    assert_eq!(
        world.book.orders[&OrderId::of_line(1).stop()].leaves(),
        a("0.003")
    );
    let changes = world.flat("6950");
    assert_eq!(fills(&changes), ["o-2 sell 0.003@6939.5 0.0208185"]);
    assert!(world.book.orders.is_empty() && world.book.positions.is_empty());
}

#[test]
fn exits_shrink_the_oldest_stop_first() {
    let mut world = World::holding("0.01");
    world.accepted(&market_order("trend", "BTC-USD", "buy", "0.02", "6690", 1));
    world.flat("6800");
    world.accepted(&sell("0.015"));
    world.flat("6800");
    let stops: Vec<_> = world
        .book
        .orders
        .values()
        .map(|order| (order.order_id.seq, order.leaves()))
        .collect();
    assert_eq!(stops, [(2, a("0.015"))]);
}

#[test]
fn an_unfilled_entry_keeps_its_stop_when_the_position_goes_flat() {
    let mut world = World::holding("0.01");
    let id = world.accepted(&limit(
        market_order("trend", "BTC-USD", "buy", "0.02", "6690", 1),
        "6750",
    ));
    world.accepted(&sell("0.01"));
    world.flat("6800");
    let left: Vec<_> = world.book.orders.keys().copied().collect();
    assert_eq!(left, [id, id.stop()]);
    world.bar("6760", "6760", "6740", "6760");
    assert_eq!(world.book.orders[&id.stop()].leaves(), a("0.02"));
}

#[test]
fn an_entry_against_a_later_position_closes_it_first_and_opens_with_the_rest() {
    let mut world = World::new();
    let short = world.accepted(&limit(sell("0.03"), "6850"));
    world.accepted(&buy("0.01"));
    world.flat("6800");
    let changes = world.bar("6850", "6860", "6850", "6850");
    assert_eq!(
        fills(&changes),
        ["o-1 sell 0.01@6850 0.0685", "o-1 sell 0.02@6850 0.137"]
    );
    assert_eq!(world.position(), a("-0.02"));
    let left: Vec<_> = world
        .book
        .orders
        .values()
        .map(|order| (order.order_id, order.leaves()))
        .collect();
    assert_eq!(left, [(short.stop(), a("0.02"))]);
}

#[test]
fn an_inexact_amount_leaves_the_order_open_and_is_reported() {
    let mut world = World::new();
    world.accepted(&buy("0.01"));
    let instrument = world.rules.instruments.get_mut(&btc()).unwrap();
    instrument.multiplier = a("999999999999.9999999999").try_into().unwrap();
    instrument.taker_fee = a("0.1234567891").try_into().unwrap();
    let row = Row::Bar {
        open_ms: world.now.ms(),
        interval_ms: 60_000,
        open: a("6800"),
        high: a("6800"),
        low: a("6800"),
        close: a("6800"),
        volume: None,
    };
    let step = world.rows(&btc(), &[row]).remove(0);
    assert_eq!(step.left_open.len(), 1);
    assert!(
        step.left_open[0]
            .reason
            .contains("cannot be computed exactly")
    );
    assert_eq!(world.book.orders.len(), 2);
}

#[test]
fn steps_stay_below_their_size_and_cover_every_row() {
    let mut world = World::new();
    world.accepted(&buy("0.01"));
    let template = world.book.orders[&OrderId::of_line(1)].clone();
    for seq in 100..300 {
        let mut order = template.clone();
        order.order_id = OrderId::of_line(seq);
        world.apply(&[Change::OrderPlaced(Box::new(order))]);
    }
    let rows: Vec<Row> = (0..5)
        .map(|n| Row::Bar {
            open_ms: world.now.ms() + n * 60_000,
            interval_ms: 60_000,
            open: a("6800"),
            high: a("6900"),
            low: a("6700.1"),
            close: a("6800"),
            volume: None,
        })
        .collect();
    world.wait(300_000);
    let steps = world.rows(&btc(), &rows);
    assert!(steps.len() > 1);
    assert_eq!(steps.iter().map(|step| step.row_count).sum::<usize>(), 5);
    let mut next = 0;
    for step in &steps {
        assert_eq!(step.first_row, next);
        next += step.row_count;
    }
}

#[test]
fn rows_that_are_no_market_are_errors() {
    let world = World::new();
    let quote = |bid: &str, ask: &str| Row::Quote {
        time_ms: world.now.ms() + 1,
        bid: a(bid),
        ask: a(ask),
        bid_size: None,
        ask_size: None,
    };
    for row in [quote("0", "1"), quote("2", "1")] {
        let told = super::on_rows(
            &world.book,
            &world.rules,
            &eth(),
            &[row],
            None,
            world.now,
            0,
        );
        assert!(matches!(told, Err(super::VenueError::Row { row: 0, .. })));
    }
    let unknown = spoolgate_wire::ids::Symbol::parse("DOGE").unwrap();
    assert!(super::on_rows(&world.book, &world.rules, &unknown, &[], None, world.now, 0).is_err());
}

#[test]
fn an_import_opens_the_day_before_anything_moves() {
    let mut world = World::holding("0.01");
    let before = world.book.equity_last_known(&world.rules).unwrap();
    world.wait(24 * 3_600_000);
    let changes = world.flat("6750");
    assert!(matches!(changes.first(), Some(Change::DayOpened(day)) if day.equity == before));
    let roles: Vec<_> = world.book.orders.values().map(|order| order.role).collect();
    assert_eq!(roles, [OrderRole::Protective]);
    assert_ne!(
        world.book.equity_last_known(&world.rules),
        Some(Amount::ZERO)
    );
}

#[test]
fn the_stop_of_a_partly_filled_entry_protects_nothing_when_flat_and_the_next_fill_again() {
    let mut world = World::new();
    let entry = world.accepted(&buy("0.01"));
    world.bar_of("6800", "6800", "6800", "6800", Some("0.04"));
    world.accepted(&sell("0.004"));
    // The exit uses the bar's volume first; the entry gets the rest.
    world.bar_of("6800", "6800", "6800", "6800", Some("0.04"));
    assert_eq!(world.position(), Amount::ZERO);
    assert_eq!(world.book.orders[&entry.stop()].leaves(), Amount::ZERO);
    world.flat("6800");
    assert_eq!(world.position(), a("0.006"));
    assert_eq!(world.book.orders[&entry.stop()].leaves(), a("0.006"));
}

#[test]
fn rounding_to_a_tick_that_was_changed_never_passes_the_limit() {
    let mut world = World::new();
    world.accepted(&limit(buy("0.01"), "6790.1"));
    world.rules.instruments.get_mut(&btc()).unwrap().tick = a("1").try_into().unwrap();
    assert_eq!(
        fills(&world.bar("6790.05", "6800", "6780", "6800")),
        ["o-1 buy 0.01@6790.1 0.067901"]
    );
}

#[test]
fn a_stop_tightened_past_a_resting_limit_cannot_sell_above_what_the_bar_fell_to() {
    // The limit fills at 6750 on the way down; 6790 had passed before there was anything to sell.
    for (order, tight, bar, expect) in [
        (
            limit(buy("0.01"), "6750"),
            "6790",
            ["6800", "6800", "6740", "6745"],
            [
                "o-1 buy 0.01@6750 0.0135",
                "o-1-stop sell 0.01@6739.8 0.067398",
            ],
        ),
        (
            limit(sell("0.01"), "6850"),
            "6810",
            ["6800", "6860", "6800", "6855"],
            [
                "o-1 sell 0.01@6850 0.0137",
                "o-1-stop buy 0.01@6860.3 0.068603",
            ],
        ),
    ] {
        let mut world = World::new();
        let id = world.accepted(&order);
        assert!(world.tighten(id, tight).accepted);
        let [open, high, low, close] = bar;
        assert_eq!(fills(&world.bar(open, high, low, close)), expect);
        assert!(world.book.account.realised.is_negative());
        assert!(world.book.orders.is_empty() && world.book.positions.is_empty());
    }
}

#[test]
fn an_exit_reduces_nothing_that_the_same_bar_opened() {
    let mut world = World::holding("0.01");
    world.accepted(&market_order("trend", "BTC-USD", "buy", "0.01", "6600", 1));
    world.flat("6800");
    let exit = world.accepted(&limit(sell("0.02"), "6900"));
    // The first stop leaves half of what the exit was meant to close.
    assert_eq!(
        fills(&world.bar("6750", "6750", "6690", "6700")),
        ["o-1-stop sell 0.01@6693.3 0.066933"]
    );
    world.flat("6880");
    world.accepted(&limit(
        market_order("trend", "BTC-USD", "buy", "0.01", "6600", 2),
        "6850",
    ));
    // At the open of 6905 (6898.1 with costs) there was 0.01 to sell; what was bought at 6850 came
    // later.
    let changes = world.bar("6905", "6905", "6840", "6845");
    assert_eq!(
        fills(&changes),
        ["o-4 buy 0.01@6850 0.0137", "o-3 sell 0.01@6900 0.069"]
    );
    assert_eq!(world.book.orders[&exit].leaves(), a("0.01"));
    assert_eq!(fills(&world.flat("6905")), ["o-3 sell 0.01@6900 0.069"]);
    assert!(world.book.orders.is_empty() && world.book.positions.is_empty());
}

#[test]
fn a_stop_that_the_same_bar_left_nothing_to_protect_does_not_end_its_entry() {
    let mut world = World::holding("0.01");
    world.accepted(&stop(sell("0.01"), "6730"));
    let entry = world.accepted(&limit(
        market_order("trend", "BTC-USD", "buy", "0.01", "6690", 1),
        "6750",
    ));
    // Half of the entry fills, so that its stop protects 0.005; then all stops move up together.
    world.bar_of("6790", "6800", "6740", "6800", Some("0.05"));
    assert!(world.tighten(OrderId::of_line(1), "6795").accepted);
    assert!(world.tighten(entry, "6790").accepted);
    world
        .book
        .orders
        .get_mut(&OrderId::of_line(2))
        .unwrap()
        .trigger = Some(a("6795"));
    let changes = world.bar("6800", "6800", "6760", "6765");
    let sold = [
        "o-1-stop sell 0.01@6788.2 0.067882",
        "o-2 sell 0.005@6788.2 0.033941",
    ];
    assert_eq!(fills(&changes), sold);
    let left: Vec<_> = world
        .book
        .orders
        .values()
        .map(|order| (order.order_id, order.triggered))
        .collect();
    assert_eq!(left, [(entry, false), (entry.stop(), false)]);
}

#[test]
fn a_clock_that_was_set_back_leaves_stops_and_the_daily_loss_at_work() {
    let day_ms = 86_400_000;
    let mut world = World::new();
    world.wait(3 * day_ms);
    world.flat("6800");
    world.accepted(&buy("0.01"));
    world.flat("6800");
    assert_eq!(world.position(), a("0.01"));
    // A person accepts that the clock was three days ahead; orders, prices and the baseline date
    // from then.
    world.wait(-3 * day_ms);
    let fills = fills(&world.bar("6800", "6800", "6600", "6650"));
    assert_eq!(fills.len(), 1, "{fills:?}");
    assert_eq!(world.position(), Amount::ZERO);
    assert_eq!(
        world.book.account.day.as_ref().map(|day| day.start),
        Some(world.now.day_start())
    );
    // An order accepted in that future is not a duplicate now.
    world.flat("6800");
    assert!(world.row_of(&buy("0.01"), "duplicate_order").passed);
    world.accepted(&buy("0.01"));
    assert!(!world.row_of(&buy("0.01"), "duplicate_order").passed);
}

#[test]
fn a_quote_fills_at_most_the_size_it_shows_on_that_side() {
    let mut world = World::new();
    let sized = |world: &mut World, bid_size: Option<&str>, ask_size: Option<&str>| {
        world.wait(1000);
        let (bid, ask, time_ms) = (a("200"), a("200.2"), world.now.ms());
        let row = Row::Quote {
            time_ms,
            bid,
            ask,
            bid_size: bid_size.map(a),
            ask_size: ask_size.map(a),
        };
        let steps = world.rows(&eth(), &[row]);
        fills(
            &steps
                .into_iter()
                .flat_map(|step| step.changes)
                .collect::<Vec<_>>(),
        )
    };
    world.accepted(&market_order("trend", "ETH-USD", "buy", "0.1", "197", 0));
    world.accepted(&market_order("mean", "ETH-USD", "buy", "0.1", "197", 0));
    // 0.125 in whole lots, the older order first; the bid's size is for sells only.
    let told = sized(&mut world, Some("0"), Some("0.125"));
    assert_eq!(
        told,
        [
            "o-1 buy 0.1@200.41 0.020041",
            "o-2 buy 0.02@200.41 0.0040082"
        ]
    );
    assert!(sized(&mut world, None, Some("0.009")).is_empty());
    world.accepted(&market_order("trend", "ETH-USD", "sell", "0.1", "1", 0));
    // Each side has its own size.
    let told = sized(&mut world, Some("0.03"), Some("0.05"));
    assert_eq!(
        told,
        [
            "o-3 sell 0.03@199.8 0.005994",
            "o-2 buy 0.05@200.41 0.0100205"
        ]
    );
    let told = sized(&mut world, None, None);
    assert_eq!(
        told,
        [
            "o-3 sell 0.07@199.8 0.013986",
            "o-2 buy 0.03@200.41 0.0060123"
        ]
    );
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

/// Filters that a person may change between the gate's check and the first fill.
#[test]
fn a_refused_stop_takes_its_entry_back() {
    type Edit = fn(&mut spoolgate_rules::instruments::Instrument);
    let edits: [(Edit, &str); 4] = [
        (
            |rule| rule.tick = a("0.7").try_into().unwrap(),
            "o-1-stop: its price 6700 is not a multiple of the tick 0.7",
        ),
        (
            |rule| rule.lot = a("0.004").try_into().unwrap(),
            "o-1-stop: its size 0.01 is not a multiple of the lot 0.004",
        ),
        (
            |rule| rule.min_size = a("0.02").try_into().unwrap(),
            "o-1-stop: its size 0.01 is below the smallest size 0.02",
        ),
        (
            |rule| rule.min_notional = a("68").try_into().unwrap(),
            "o-1-stop: it is worth less than the smallest notional 68",
        ),
    ];
    for (edit, reason) in edits {
        let mut world = World::new();
        let entry = world.accepted(&buy("0.01"));
        edit(world.rules.instruments.get_mut(&btc()).unwrap());
        // Part of the entry fills; no more of it may fill, and the part leaves at the next open.
        let changes = world.bar_of("6800", "6800", "6800", "6800", Some("0.045"));
        assert_eq!(fills(&changes).len(), 1, "{reason}");
        assert_eq!(refusals(&changes), [reason]);
        let left: Vec<_> = world
            .book
            .orders
            .values()
            .map(|order| (order.order_id, order.leaves()))
            .collect();
        assert_eq!(left, [(entry.flatten(), world.position())]);
        assert!(
            !world.cancel(entry.flatten()).accepted,
            "what closes the unprotected is not cancelled"
        );
        let changes = world.flat("6790");
        assert_eq!(fills(&changes).len(), 1);
        assert!(
            world.book.orders.is_empty() && world.book.positions.is_empty(),
            "{reason}"
        );
    }
}

/// Orders that the bars of one import cause must not wait for the next import.
#[test]
fn the_exit_in_place_of_a_refused_stop_uses_the_very_next_bar() {
    let mut world = World::new();
    world.accepted(&buy("0.01"));
    world.rules.instruments.get_mut(&btc()).unwrap().tick = a("0.7").try_into().unwrap();
    let bars: Vec<Row> = (0..3)
        .map(|n| Row::Bar {
            open_ms: world.now.ms() + n * 60_000,
            interval_ms: 60_000,
            open: a("6800"),
            high: a("6800"),
            low: a("6800"),
            close: a("6800"),
            volume: None,
        })
        .collect();
    world.wait(180_000);
    let steps = world.rows(&btc(), &bars);
    let changes: Vec<Change> = steps.into_iter().flat_map(|step| step.changes).collect();
    let told = fills(&changes);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[1].starts_with("o-1-flatten sell 0.01@"), "{told:?}");
    let times: Vec<i64> = changes
        .iter()
        .filter_map(|change| match change {
            Change::OrderFilled(fill) => Some(fill.market_time.ms()),
            _ => None,
        })
        .collect();
    assert_eq!(times[1] - times[0], 60_000);
}

#[test]
fn the_venue_refuses_exits_off_its_tick_or_lot_and_never_for_being_small() {
    let mut world = World::holding("0.01");
    let rule = |world: &mut World| world.rules.instruments.get_mut(&btc()).unwrap().clone();
    let kept = rule(&mut world);
    let resting = world.accepted(&limit(sell("0.003"), "6900"));
    let market = world.accepted(&sell("0.003"));
    let instrument = world.rules.instruments.get_mut(&btc()).unwrap();
    instrument.tick = a("0.7").try_into().unwrap();
    instrument.lot = a("0.002").try_into().unwrap();
    let changes = world.flat("6800");
    assert_eq!(
        refusals(&changes),
        [
            format!("{resting}: its price 6900 is not a multiple of the tick 0.7"),
            format!("{market}: its size 0.003 is not a multiple of the lot 0.002"),
        ]
    );
    assert!(fills(&changes).is_empty());
    // An exit of everything left passes, whatever the lot and the smallest notional.
    *world.rules.instruments.get_mut(&btc()).unwrap() = kept;
    world.accepted(&sell("0.01"));
    let instrument = world.rules.instruments.get_mut(&btc()).unwrap();
    instrument.lot = a("0.004").try_into().unwrap();
    instrument.min_size = a("1").try_into().unwrap();
    instrument.min_notional = a("100000").try_into().unwrap();
    assert_eq!(fills(&world.flat("6800")).len(), 1);
    assert!(world.book.positions.is_empty());
}
