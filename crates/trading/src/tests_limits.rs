//! Limits with positions, pending orders and losses: the cases that a single clean order does not
//! show.

use super::change::Change;
use super::checks;
use super::testing::*;
use spoolgate_wire::amount::Amount;

#[test]
fn growing_a_position_renews_its_age() {
    let mut world = World::holding("0.01");
    let opened_at = world.now;
    world.accepted(&market_order("trend", "BTC-USD", "buy", "0.01", "6700", 1));
    world.flat("6800");
    let held = world.book.positions.values().next().unwrap();
    assert_eq!((held.increased_at, held.theses.len()), (world.now, 2));
    world.wait(61_000);
    world.requested_at = Some(opened_at.plus_ms(1));
    assert_eq!(
        world.refused(&sell("0.01")),
        ["request_freshness"],
        "signed before the position grew"
    );
}

#[test]
fn a_reduction_leaves_the_age_of_a_position() {
    let mut world = World::holding("0.01");
    let opened_at = world.now;
    world.accepted(&sell("0.004"));
    world.flat("6800");
    assert_eq!(
        world.book.positions.values().next().unwrap().increased_at,
        opened_at
    );
}

#[test]
fn a_drawdown_of_exactly_its_limit_halts_without_the_latch() {
    for (peak, passes) in [
        ("5882.35", true),
        ("5882.352941176470588235294118", false),
        ("5882.36", false),
    ] {
        let mut world = World::new();
        world.book.account.peak_equity = Some(a(peak));
        assert_eq!(
            world.row_of(&buy("0.01"), "drawdown_halt").passed,
            passes,
            "{peak}"
        );
    }
    let mut world = World::new();
    world.book.account.peak_equity = Some(a("4000"));
    world.book.account.cash = a("3400");
    assert!(!world.row_of(&buy("0.01"), "drawdown_halt").passed);
    world.book.account.cash = a("3400.00000001");
    assert!(world.row_of(&buy("0.01"), "drawdown_halt").passed);
}

#[test]
fn pending_entries_count_at_their_own_higher_price() {
    let mut world = World::new();
    world.accepted(&stop(buy("0.01"), "6900"));
    let second = market_order("mean", "BTC-USD", "buy", "0.01", "6700", 0);
    assert_eq!(
        world.row_of(&second, "max_single_position").value,
        Some(a("138"))
    );
    assert_eq!(
        world.row_of(&second, "max_total_exposure").value,
        Some(a("138"))
    );
}

#[test]
fn profit_to_a_stop_does_not_make_up_for_risk_elsewhere() {
    let mut world = World::holding("0.01");
    world.tighten(spoolgate_wire::ids::OrderId::of_line(1), "6790");
    // The market falls below the stop while the quote is still fresh, but no row has filled the
    // stop yet.
    let last = super::book::Last {
        price: a("6780"),
        volume: None,
        time: world.now,
    };
    world.apply(&[Change::MarketMoved {
        symbol: btc(),
        earlier: Vec::new(),
        last: Some(last),
        quote: None,
        reached: None,
    }]);
    let view = super::views::portfolio(&world.book, &world.rules, world.now, &Default::default());
    // The stop fills at the market, so the risk is slippage and fee alone: (0.001 + 0.001) x 6780 x
    // 0.01.
    assert_eq!(view.open_risk, Some(a("0.1356")));
}

#[test]
fn entries_of_an_instrument_that_is_gone_stop_new_ones() {
    let mut world = World::new();
    world.accepted(&limit(
        market_order("trend", "ETH-USD", "buy", "0.1", "197", 0),
        "199",
    ));
    world.rules.instruments.remove(&eth());
    assert_eq!(
        world.refused(&buy("0.01")),
        [
            "max_total_exposure",
            "same_direction_exposure",
            "max_portfolio_risk",
            "loss_budget",
            "gap_budget",
            "daily_turnover",
            "buying_power"
        ]
    );
}

#[test]
fn nothing_left_is_a_capital_base_of_nothing() {
    for cash in ["0", "-100"] {
        let mut world = World::new();
        world.book.account.cash = a(cash);
        let verdict = world.ask(&buy("0.01"));
        for name in [
            "max_single_trade_risk",
            "max_single_position",
            "max_total_exposure",
        ] {
            let row = row(&verdict, name);
            assert_eq!(
                (row.passed, row.limit),
                (false, Some(Amount::ZERO)),
                "{name} {cash}"
            );
        }
        let view =
            super::views::portfolio(&world.book, &world.rules, world.now, &Default::default());
        assert_eq!(view.capital_base, Some(Amount::ZERO));
    }
    // Even an entry that leaves the worst case unchanged is refused.
    let mut world = World::holding("0.1");
    world.book.account.cash = a("-9000");
    let against = market_order("mean", "BTC-USD", "sell", "0.01", "6900", 0);
    assert!(!world.row_of(&against, "max_single_position").passed);
}

#[test]
fn a_book_carried_over_its_limit_takes_what_does_not_add_to_the_worst_case() {
    let mut world = World::holding("0.1");
    world.rules.safety.max_single_position = a("0.1").try_into().unwrap();
    world.rules.safety.max_total_exposure = a("0.1").try_into().unwrap();
    world.rules.safety.max_same_direction_exposure = Some(Amount::ONE.try_into().unwrap());
    let against = market_order("mean", "BTC-USD", "sell", "0.1", "6900", 0);
    let verdict = world.ask(&against);
    assert!(verdict.accepted, "{:?}", failed(&verdict));
    let with = market_order("mean", "BTC-USD", "buy", "0.002", "6700", 0);
    assert_eq!(
        world.refused(&with),
        ["max_single_position", "max_total_exposure"]
    );
}

/// Two strategies that build opposite legs in turn never held more than they may, net; then one of
/// them leaves, which nothing may refuse.
#[test]
fn opposite_legs_are_not_netted() {
    let mut world = World::new();
    world.rules.safety.max_single_position = a("0.05").try_into().unwrap();
    world.accepted(&market_order("trend", "BTC-USD", "buy", "0.025", "6700", 0));
    world.flat("6800");
    world.accepted(&market_order("mean", "BTC-USD", "sell", "0.025", "6900", 0));
    world.flat("6800");
    let more = market_order("trend", "BTC-USD", "buy", "0.025", "6700", 1);
    assert_eq!(world.refused(&more), ["max_single_position"]);
    let headroom = world.ask(&more).headroom.unwrap();
    // The limit is 5% of what is left of 5000; 0.036 x 6803.4 is the most that fits.
    assert_eq!(headroom.max_size, a("0.011"));
    world.accepted(&market_order("mean", "BTC-USD", "buy", "0.025", "6700", 0));
    world.flat("6800");
    assert_eq!(
        world.row_of(&more, "max_single_position").value,
        Some(a("340.17"))
    );
}

#[test]
fn headroom_steps_past_a_duplicate() {
    let mut world = World::new();
    let large = market_order("trend", "BTC-USD", "buy", "5", "6700", 1);
    let fits = world.ask(&large).headroom.unwrap().max_size;
    let id = world.accepted(&market_order(
        "trend",
        "BTC-USD",
        "buy",
        &fits.to_string(),
        "6700",
        0,
    ));
    world.cancel(id);
    let headroom = world.ask(&large).headroom.unwrap();
    assert_eq!(headroom.max_size, fits.checked_sub(a("0.001")).unwrap());
}

#[test]
fn a_stale_price_keeps_the_digits_check_and_names_the_market() {
    let mut world = World::new();
    world.wait(121_000);
    let failed = world.refused(&buy("0.01"));
    assert!(failed.contains(&"market_data".to_owned()));
    assert!(!failed.contains(&"arithmetic_range".to_owned()));
    let verdict = world.ask(&buy("0.01"));
    assert_eq!(verdict.headroom.unwrap().binding_check, "market_data");
    let failed = verdict.checks.iter().filter(|row| !row.passed);
    let (roots, follow): (Vec<_>, Vec<_>) = failed.partition(|row| row.is_root());
    assert_eq!(checks::first_failed(&verdict.checks), Some("market_data"));
    let reason = roots[0].reason.as_deref().unwrap();
    assert!(
        reason.contains("is 121 s old, and 120 s are allowed"),
        "{reason}"
    );
    assert_eq!(roots.len(), 1, "{roots:?}");
    assert!(follow.len() > 10, "{follow:?}");
    assert!(
        follow
            .iter()
            .all(|row| row.follows_from.as_deref() == Some("market_data"))
    );
}

#[test]
fn equity_without_a_price_names_the_position_that_lacks_it() {
    let mut world = World::new();
    world.accepted(&market_order("mean", "ETH-USD", "buy", "0.1", "197", 0));
    world.wait(1000);
    world.quote("200", "200.2");
    world.wait(121_000);
    world.flat("6800");
    let verdict = world.ask(&buy("0.01"));
    let failed: Vec<_> = verdict.checks.iter().filter(|row| !row.passed).collect();
    assert!(failed.iter().all(|row| row.is_root()), "{failed:?}");
    let first = failed[0].reason.as_deref().unwrap();
    assert!(
        first.starts_with("equity is unknown: the newest price of `ETH-USD` is "),
        "{failed:?}"
    );
}

#[test]
fn an_unknown_symbol_is_the_cause_of_what_it_leaves_out() {
    let mut world = World::new();
    let order = market_order("trend", "NO-USD", "buy", "0.01", "6700", 0);
    let verdict = world.ask(&order);
    assert_eq!(
        checks::first_failed(&verdict.checks),
        Some("instrument_allowed")
    );
    assert_eq!(
        verdict.headroom.unwrap().binding_check,
        "instrument_allowed"
    );
}

#[test]
fn digits_past_the_exact_range_fail_by_name() {
    let mut world = World::new();
    world.rules.instruments.get_mut(&btc()).unwrap().multiplier =
        a("123456789012.1234567891").try_into().unwrap();
    let failed = world.refused(&buy("0.0123456789"));
    assert_eq!(failed.first().unwrap(), "arithmetic_range");
}

#[test]
fn the_same_size_at_another_price_is_no_duplicate() {
    let mut world = World::new();
    world.accepted(&limit(buy("0.01"), "6790"));
    let again = market_order("trend", "BTC-USD", "buy", "0.01", "6700", 1);
    assert!(world.ask(&limit(again.clone(), "6789.9")).accepted);
    assert_eq!(world.refused(&limit(again, "6790.0")), ["duplicate_order"]);
}

#[test]
fn an_exit_signed_ahead_passes_within_a_day_so_that_a_clock_set_back_cannot_block_it() {
    for (ahead_ms, passes) in [(5_001, true), (86_400_000, true), (86_400_001, false)] {
        let mut world = World::holding("0.01");
        world.requested_at = Some(world.now.plus_ms(ahead_ms));
        assert_eq!(world.ask(&sell("0.01")).accepted, passes, "{ahead_ms}");
    }
}

#[test]
fn a_price_from_the_future_is_no_price() {
    for (ahead_ms, passes) in [(120_000, true), (120_001, false)] {
        let mut world = World::new();
        world.now = world.now.plus_ms(-ahead_ms);
        assert_eq!(
            world.row_of(&buy("0.01"), "market_data").passed,
            passes,
            "{ahead_ms}"
        );
    }
}
