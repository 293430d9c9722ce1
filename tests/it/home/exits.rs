//! An agent that floods the protected lane with exits, cancels and tightens: all are answered, none
//! that changes something is refused, and the book stays small.

use std::collections::BTreeMap;

use super::halts::replays;
use crate::kit::desk::{Desk, failed, order};
use crate::kit::place::drain;
use serde_json::{Value, json};
use spoolgate_home::Home;
use spoolgate_home::batch::Outcome;
use spoolgate_trading::exits::WORKING_MAX;
use spoolgate_trading::order::{Order, OrderRole};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::code::Code;
use spoolgate_wire::ids::{Leg, OrderId};
use spoolgate_wire::orders::OrderType;

const LIMITS: &str = "max_total_capital: 1000000\nmax_single_position: 1\nmax_portfolio_risk: 1\n\
    max_single_trade_risk: 1\nmax_total_exposure: 100\nmax_same_direction_exposure: 100\n\
    max_correlated_group: 100\nmax_order_value: 1000000\nmax_daily_loss: 1000\n\
    max_weekly_loss: 1000\nmax_protected_per_minute: 600";

/// Decides everything that was sent, in as many batches as it takes.
fn decided(home: &mut Home) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    loop {
        let batch = drain(home).unwrap();
        if batch.is_empty() {
            return outcomes;
        }
        outcomes.extend(batch);
    }
}

fn bought(desk: &Desk, home: &mut Home, size: &str) -> OrderId {
    let more = r#"{"amount":"20000","reason":"start"}"#;
    desk.one_as_owner(home, "more", "account.adjust", more);
    let entry = order("trend", "buy", size, None, "btc-range-long");
    let bought = desk.one(home, "trend-bot", "entry", "order.submit", &entry);
    assert_eq!(failed(&bought), [""; 0]);
    desk.bar(home, "6800", "6800");
    bought.decision.order_id.unwrap()
}

fn held(home: &Home) -> Amount {
    let mut positions = home.state().book.positions.values();
    positions.next().map_or(Amount::ZERO, |held| held.size)
}

fn exits(home: &Home) -> Vec<&Order> {
    let orders = home.state().book.orders.values();
    let exits = orders.filter(|order| order.role == OrderRole::Exit);
    exits
        .filter(|exit| exit.order_id.leg == Leg::Order)
        .collect()
}

/// 2,000 exits of one lot: a third at the market, the others resting, and the market moves between.
#[test]
fn two_thousand_exits_of_one_lot_are_accepted_and_few_work() {
    let desk = Desk::with_limits(LIMITS);
    let mut home = desk.open();
    bought(&desk, &mut home, "1");
    let lot = "0.001";
    let prices = [None, Some("6900"), Some("6850")];
    let mut named: BTreeMap<OrderId, usize> = BTreeMap::new();
    for round in 0..20 {
        for n in 0..100 {
            let exit = order("trend", "sell", lot, prices[n % 3], "btc-range-long");
            desk.ask(
                "trend-bot",
                &format!("x{round:02}-{n:03}"),
                "order.submit",
                &exit,
            );
        }
        let outcomes = decided(&mut home);
        assert_eq!(outcomes.len(), 100);
        for outcome in outcomes {
            assert!(outcome.answer.error.is_none(), "round {round}: {outcome:?}");
            let id = outcome.decision.order_id.unwrap();
            *named.entry(id).or_default() += 1;
            let body: Value =
                serde_json::from_str(outcome.answer.data.as_ref().unwrap().get()).unwrap();
            assert_eq!(body["Accepted"]["order_id"], json!(id.to_string()));
        }
        let working = exits(&home);
        assert_eq!(working.len(), WORKING_MAX, "round {round}");
        let at_market = working
            .iter()
            .filter(|exit| exit.order_type == OrderType::Market);
        assert_eq!(at_market.count(), 2, "one in flight, and one that waits");
        assert!(working.iter().all(|exit| exit.leaves() <= held(&home)));
        if round % 4 == 3 {
            let before = held(&home);
            desk.bar(&mut home, "6800", "6800");
            assert!(held(&home) < before && !held(&home).is_negative());
            let at_market = exits(&home)
                .into_iter()
                .filter(|exit| exit.order_type == OrderType::Market);
            assert_eq!(at_market.count(), 0, "both filled");
        }
    }
    // Of each four rounds 136 are at the market: one goes out and the others are one order.
    assert!(
        named.values().any(|&count| count > 100),
        "answers name what they merged into"
    );
    for price in ["6850", "6900"] {
        desk.bar(&mut home, price, price);
    }
    let rest = held(&home).to_string();
    let whole = order("trend", "sell", &rest, None, "btc-range-long");
    let whole = desk.one(&mut home, "trend-bot", "whole", "order.submit", &whole);
    assert!(whole.answer.error.is_none(), "{whole:?}");
    desk.bar(&mut home, "6800", "6800");
    let book = &home.state().book;
    assert!(book.positions.is_empty() && book.orders.is_empty());
    replays(&desk.place, home);
}

/// Position and exits are of the same size: what gives way is the only room.
#[test]
fn exits_of_a_small_position_never_turn_it_around() {
    let desk = Desk::with_limits(LIMITS);
    let mut home = desk.open();
    bought(&desk, &mut home, "0.008");
    for round in 0..10 {
        for n in 0..20 {
            let exit = order("trend", "sell", "0.001", Some("6900"), "btc-range-long");
            desk.ask(
                "trend-bot",
                &format!("x{round}-{n:02}"),
                "order.submit",
                &exit,
            );
        }
        let outcomes = decided(&mut home);
        let refused = outcomes.iter().find(|it| it.answer.error.is_some());
        assert!(refused.is_none(), "{refused:?}");
        assert_eq!(exits(&home).len(), WORKING_MAX);
    }
    desk.bar(&mut home, "6950", "6950");
    let book = &home.state().book;
    assert!(book.positions.is_empty() && book.orders.is_empty());
    replays(&desk.place, home);
}

/// 700 cancels and 700 tightens in a second: what changes something is done, what changes nothing is
/// `RATE_LIMITED` from the 601st on, and an exit after all of it is accepted.
#[test]
fn cancels_and_tightens_that_change_nothing_are_limited_and_nothing_else() {
    let desk = Desk::with_limits(LIMITS);
    let mut home = desk.open();
    let entry = bought(&desk, &mut home, "0.1");
    let rest = order("trend", "buy", "0.01", Some("6700"), "btc-dip-long");
    let rest = desk.one(&mut home, "trend-bot", "rest", "order.submit", &rest);
    let rest = rest.decision.order_id.unwrap();
    let cancel = json!({"order_id": rest}).to_string();
    for n in 0..700 {
        // Every seventh one tightens by a tick, the others repeat it.
        let level = format!("{}.{}", 6610 + n / 70, n / 7 % 10);
        let tighten = json!({"order_id": entry.stop(), "new_stop": level}).to_string();
        desk.ask("trend-bot", &format!("a{n:03}-c"), "order.cancel", &cancel);
        desk.ask(
            "trend-bot",
            &format!("a{n:03}-t"),
            "order.tighten_stop",
            &tighten,
        );
    }
    let exit = order("trend", "sell", "0.1", None, "btc-range-long");
    desk.ask("trend-bot", "z-exit", "order.submit", &exit);
    let outcomes = decided(&mut home);
    assert_eq!(outcomes.len(), 1401, "all are answered");
    let (mut limited, mut moved) = (0, 0);
    for (nth, outcome) in outcomes.iter().enumerate() {
        let changes = &outcome.decision.changes;
        moved += usize::from(
            outcome.decision.action.as_deref() == Some("order.tighten_stop") && !changes.is_empty(),
        );
        match outcome.decision.metadata.code {
            None => assert!(nth < 600 || !changes.is_empty(), "{nth}: {outcome:?}"),
            Some(code) => {
                assert_eq!(code, Code::RateLimited, "{outcome:?}");
                assert!(changes.is_empty() && outcome.decision.rate.is_none());
                let message = outcome.decision.metadata.message.as_deref().unwrap();
                assert!(message.contains("this one changes nothing: "), "{message}");
                limited += 1;
            }
        }
    }
    assert_eq!(moved, 100, "no tighten that changes something is refused");
    assert!(limited > 600, "{limited}");
    let stop = &home.state().book.orders[&entry.stop()];
    assert_eq!(stop.trigger, Amount::parse_exact("6619.9").ok());
    desk.bar(&mut home, "6800", "6800");
    assert!(home.state().book.positions.is_empty());
    replays(&desk.place, home);
}
