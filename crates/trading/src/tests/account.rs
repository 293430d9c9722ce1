//! Losses, drawdown and prices of the whole account.

use super::*;

#[test]
fn the_daily_loss_counts_what_is_not_realised_and_equality_halts() {
    for (close, passes) in [("4400.1", true), ("4400", false), ("4399.9", false)] {
        let mut world = World::holding("0.1");
        world.book.orders.clear();
        let day = world.book.account.day.as_mut().unwrap();
        // At 4400 the loss is exactly 250.
        day.equity = world
            .book
            .account
            .cash
            .checked_add(a("440"))
            .unwrap()
            .checked_add(a("250"))
            .unwrap();
        world.bar("6800", "6800", close, close);
        let order = market_order("mean", "BTC-USD", "buy", "0.002", "4300", 0);
        assert_eq!(
            world.row_of(&order, "daily_loss_halt").passed,
            passes,
            "{close}"
        );
    }
}

#[test]
fn the_day_needs_todays_baseline() {
    let mut world = World::new();
    world.wait(12 * 3_600_000);
    assert_eq!(world.row_of(&buy("0.01"), "daily_loss_halt").value, None);
    world.apply(&crate::venue::open_periods(
        &world.book,
        &world.rules,
        world.now,
    ));
    assert!(world.row_of(&buy("0.01"), "daily_loss_halt").passed);
    assert_eq!(
        crate::venue::open_periods(&world.book, &world.rules, world.now),
        []
    );
}

#[test]
fn deposits_are_neither_profit_nor_drawdown() {
    let mut world = World::holding("0.01");
    let pnl = |world: &mut World| world.row_of(&buy("0.02"), "daily_loss_halt").value;
    let drawdown = |world: &mut World| world.row_of(&buy("0.02"), "drawdown_halt").value;
    let before = (pnl(&mut world), drawdown(&mut world));
    for amount in ["100000", "-103000"] {
        world.apply(&[Change::AccountAdjusted { amount: a(amount) }]);
        assert_eq!((pnl(&mut world), drawdown(&mut world)), before, "{amount}");
    }
}

#[test]
fn a_drawdown_latches_at_its_limit_even_inside_a_step_and_only_a_person_clears_it() {
    for (low_close, latched) in [("1500.1", false), ("1500", true)] {
        let mut world = World::holding("0.1");
        world.book.orders.clear();
        let peak = world.book.account.cash.checked_add(a("150")).unwrap();
        // peak - (cash + 0.1 x 1500) = 0.15 x peak, with cash = 0.85 x peak - 150.
        world.book.account.peak_equity = Some(a("5000"));
        world.book.account.cash = world
            .book
            .account
            .cash
            .checked_add(a("4250").checked_sub(peak).unwrap())
            .unwrap();
        let bar = |n: i64, open: &str, close: &str| crate::market_row::Row::Bar {
            open_ms: world.now.ms() + n * 60_000,
            interval_ms: 60_000,
            open: a(open),
            high: a("6800"),
            low: a(low_close),
            close: a(close),
            volume: None,
        };
        let rows = [bar(0, "6800", low_close), bar(1, low_close, "6800")];
        world.wait(120_000);
        let steps = world.rows(&btc(), &rows);
        assert_eq!(steps.len(), 1);
        assert_eq!(
            world.book.account.drawdown_since.is_some(),
            latched,
            "{low_close}"
        );
        assert_eq!(
            world.row_of(&buy("0.002"), "drawdown_halt").passed,
            !latched
        );
        world.apply(&[Change::DrawdownCleared { peak: a("4000") }]);
        assert!(world.row_of(&buy("0.002"), "drawdown_halt").passed);
    }
}

#[test]
fn a_missing_price_of_another_position_stops_entries_everywhere() {
    let mut world = World::holding("0.01");
    world.wait(121_000);
    world.quote("200", "200.2");
    let order = market_order("trend", "ETH-USD", "buy", "0.1", "197", 0);
    let failed = world.refused(&order);
    for name in [
        "max_single_trade_risk",
        "max_single_position",
        "max_total_exposure",
        "daily_loss_halt",
        "drawdown_halt",
    ] {
        assert!(failed.contains(&name.to_owned()), "{name} in {failed:?}");
    }
}

#[test]
fn adding_counts_the_whole_position_and_what_is_pending() {
    let mut world = World::holding("0.01");
    // Held: (6800 - 6700 + 6.7 + 6.7) x 0.01 = 1.134.
    let more = market_order("trend", "BTC-USD", "buy", "0.01", "6700", 1);
    assert_eq!(
        world.row_of(&more, "max_single_trade_risk").value,
        Some(a("2.438136034"))
    );
    world.accepted(&more);
    let third = market_order("trend", "BTC-USD", "buy", "0.02", "6700", 2);
    assert_eq!(
        world.row_of(&third, "max_single_trade_risk").value,
        Some(a("5.046408102"))
    );
    world.book.orders.clear();
    // Unprotected: the whole notional.
    assert_eq!(
        world.row_of(&third, "max_single_trade_risk").value,
        Some(a("70.608272068"))
    );
}
