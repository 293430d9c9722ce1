//! The imitated exchange, one feature after the other.

mod property;

use super::imitated::answers;
use super::outbox::{hand_over, owed};
use super::tests_outbox::{oid, told};
use crate::book::Book;
use crate::change::Change;
use crate::market_row::Row;
use crate::risk;
use crate::testing::*;
use crate::venue::on_rows;
use spoolgate_rules::instruments::{IMITATED, Imitate, MarketSource, Silent, Venue};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{Currency, Principal};
use spoolgate_wire::orders::{SubmitOrder, TimeInForce};
use spoolgate_wire::time::Time;

/// A world where BTC trades at the imitated exchange, on quotes.
struct Desk {
    world: World,
    /// The number of the next line of a row or an answer.
    line: u64,
}

impl Desk {
    fn new() -> Desk {
        Desk::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut Imitate)) -> Desk {
        let mut world = World::new();
        // It has no bridge that could be heard of.
        world.is_heard = false;
        let mut imitate = Imitate::default();
        change(&mut imitate);
        let btc = world.rules.instruments.get_mut(&btc()).unwrap();
        (btc.venue, btc.imitate) = (Venue::Imitated, Some(imitate));
        btc.bridge = Some(Principal::parse(IMITATED).unwrap());
        (btc.quotes_from, btc.fills_from) = (MarketSource::Quotes, MarketSource::Quotes);
        btc.slippage = a("0").try_into().unwrap();
        let mut desk = Desk { world, line: 100 };
        desk.quote("6800", "6800.1");
        desk
    }

    fn instrument(&mut self) -> &mut spoolgate_rules::instruments::Instrument {
        self.world.rules.instruments.get_mut(&btc()).unwrap()
    }

    /// A desk that holds this much, with its stop at 6700 confirmed: entry `o-1`.
    fn holding(size: &str, change: impl FnOnce(&mut Imitate)) -> Desk {
        let mut desk = Desk::with(change);
        desk.submit(&buy(size));
        desk.after(1000, "6800", "6800.1");
        desk.world.wait(1000);
        desk.tick();
        desk
    }

    /// Applies the changes of a line as the gate does.
    fn line(&mut self, changes: Vec<Change>) -> Vec<String> {
        let limits = self.world.rules.safety.bridges.clone();
        let changes = hand_over(&self.world.book, &limits, changes, self.world.now);
        self.world.apply(&changes);
        let book = &self.world.book;
        assert_eq!(owed(book, &limits, self.world.now), [], "something is owed");
        let json = serde_json::to_string(book).unwrap();
        assert_eq!(&serde_json::from_str::<Book>(&json).unwrap(), book);
        let account = &book.account;
        let mut costs = book.positions.values().map(|held| held.cost);
        let costs = costs.try_fold(Amount::ZERO, Amount::checked_add).unwrap();
        let assets = account.cash.checked_add(costs).unwrap();
        let profit = account.realised.checked_sub(account.fees).unwrap();
        assert_eq!(assets, account.net_deposits.checked_add(profit).unwrap());
        told(&changes)
    }

    fn submit(&mut self, order: &SubmitOrder) -> Vec<String> {
        let verdict = self.world.ask(order);
        assert!(verdict.accepted, "{:#?}", failed(&verdict));
        self.line(verdict.changes)
    }

    fn cancel(&mut self, id: &str) -> Vec<String> {
        let before = self.world.book.clone();
        let verdict = self.world.cancel(oid(id));
        assert!(verdict.accepted, "{:#?}", failed(&verdict));
        self.world.book = before;
        self.line(verdict.changes)
    }

    /// Lets the exchange answer what is due by the gate's clock.
    fn tick(&mut self) -> Vec<String> {
        let mut all = Vec::new();
        loop {
            let World {
                book, rules, now, ..
            } = &self.world;
            let changes = answers(book, rules, *now, self.line).unwrap();
            if changes.is_empty() {
                return all;
            }
            self.line += 1;
            all.extend(self.line(changes));
        }
    }

    fn row(&mut self, row: Row) -> Vec<String> {
        let World {
            book, rules, now, ..
        } = &self.world;
        let steps = on_rows(book, rules, &btc(), &[row], None, *now, self.line).unwrap();
        let mut all = Vec::new();
        for step in steps {
            assert_eq!(step.left_open, []);
            self.line += 1;
            all.extend(self.line(step.changes));
        }
        all
    }

    /// A quote now.
    fn quote(&mut self, bid: &str, ask: &str) -> Vec<String> {
        self.sized(bid, ask, None)
    }

    fn sized(&mut self, bid: &str, ask: &str, size: Option<&str>) -> Vec<String> {
        self.row(Row::Quote {
            time_ms: self.world.now.ms(),
            bid: a(bid),
            ask: a(ask),
            bid_size: size.map(a),
            ask_size: size.map(a),
        })
    }

    /// A quote some milliseconds later.
    fn after(&mut self, ms: i64, bid: &str, ask: &str) -> Vec<String> {
        self.world.wait(ms);
        self.quote(bid, ask)
    }

    fn works(&self, id: &str) -> Option<(u32, Amount)> {
        let order = self.world.book.orders.get(&oid(id))?;
        let works = order.at_venue.as_ref()?.works?;
        Some((works.version, works.size))
    }
}

fn silent(from: Time, from_ms: i64, until_ms: i64) -> Vec<Silent> {
    vec![Silent {
        from: from.plus_ms(from_ms),
        until: from.plus_ms(until_ms),
    }]
}

/// When the desks begin: after the bar of the world.
fn begins() -> Time {
    Time::parse(NOON).unwrap().plus_ms(60_000)
}

const NOTHING: [&str; 0] = [];

#[test]
fn an_order_reaches_the_exchange_after_the_latency() {
    for (latency_s, after_ms, is_there) in [
        (1_u64, 999, false),
        (1, 1000, true),
        (1, 1001, true),
        (3, 2999, false),
        (3, 3000, true),
        (0, 1, true),
    ] {
        let imitate = |it: &mut Imitate| it.latency_s = latency_s.try_into().unwrap();
        // By the clock.
        let mut desk = Desk::with(imitate);
        assert_eq!(desk.submit(&buy("0.02")), ["place o-1.1 buy 0.02"]);
        desk.world.wait(after_ms);
        desk.tick();
        let expected = is_there.then(|| (1, a("0.02")));
        assert_eq!(desk.works("o-1"), expected, "{latency_s} {after_ms}");
        // By a row alone, which then trades what has just come.
        let mut desk = Desk::with(imitate);
        desk.submit(&buy("0.02"));
        let done = desk.after(after_ms, "6800", "6801");
        let fills = [
            "filled o-1 buy 0.02@6801",
            "closed o-1 filled",
            "place o-1-stop.1 sell 0.02 at 6700",
        ];
        let expected = if is_there { &fills[..] } else { &[] };
        assert_eq!(done, expected, "{latency_s} {after_ms}");
    }
}

#[test]
fn a_late_row_does_not_trade_what_came_after_it() {
    for (late_ms, fills) in [(0, true), (1, false)] {
        let mut desk = Desk::new();
        desk.submit(&buy("0.02"));
        desk.world.wait(1000);
        desk.tick();
        assert_eq!(desk.works("o-1"), Some((1, a("0.02"))));
        let row = Row::Quote {
            time_ms: desk.world.now.ms() - late_ms,
            bid: a("6800"),
            ask: a("6801"),
            bid_size: None,
            ask_size: None,
        };
        desk.world.wait(500);
        assert_eq!(!desk.row(row).is_empty(), fills, "{late_ms}");
    }
}

#[test]
fn a_bar_trades_what_worked_when_it_opened() {
    for (after_ms, fills) in [(999, false), (1000, true), (1001, true)] {
        let mut desk = Desk::new();
        desk.instrument().fills_from = MarketSource::Bars;
        desk.submit(&buy("0.02"));
        let row = Row::Bar {
            open_ms: desk.world.now.ms() + after_ms,
            interval_ms: 60_000,
            open: a("6800"),
            high: a("6801"),
            low: a("6799"),
            close: a("6800"),
            volume: None,
        };
        desk.world.wait(after_ms + 60_000);
        let done = desk.row(row);
        assert_eq!(!done.is_empty(), fills, "{after_ms}: {done:?}");
        // It is answered either way.
        let works = (!fills).then(|| (1, a("0.02")));
        assert_eq!(desk.works("o-1"), works);
    }
}

#[test]
fn a_resting_limit_trades_at_its_price_and_volume_caps_it() {
    let mut desk = Desk::new();
    desk.submit(&limit(buy("0.02"), "6790"));
    assert_eq!(desk.after(1000, "6800", "6801"), NOTHING);
    desk.world.wait(1000);
    assert_eq!(
        desk.sized("6780", "6785", Some("0.015")),
        [
            "filled o-1 buy 0.015@6790",
            "place o-1-stop.1 sell 0.015 at 6700"
        ]
    );
    desk.world.wait(1000);
    assert_eq!(
        desk.sized("6780", "6785", Some("1")),
        [
            "filled o-1 buy 0.005@6790",
            "closed o-1 filled",
            "place o-1-stop.2 sell 0.02 at 6700"
        ]
    );
}

#[test]
fn a_stop_trades_at_the_exchange_and_a_cancel_may_come_too_late() {
    let mut desk = Desk::holding("0.02", |_| {});
    assert_eq!(desk.works("o-1-stop"), Some((1, a("0.02"))));
    assert_eq!(
        desk.after(1000, "6690", "6691"),
        [
            "triggered o-1-stop",
            "filled o-1-stop sell 0.02@6690",
            "closed o-1-stop filled"
        ]
    );
    for (after_ms, fills) in [(999, true), (1000, false)] {
        let mut desk = Desk::new();
        desk.submit(&limit(buy("0.02"), "6790"));
        desk.after(1000, "6800", "6801");
        let asked = [
            "ending o-1 cancelled",
            "closed o-1-stop retired",
            "cancel o-1.2 buy 0.02 at 6790",
        ];
        assert_eq!(desk.cancel("o-1"), asked);
        let done = desk.after(after_ms, "6780", "6785");
        let is_filled = done.iter().any(|told| told.starts_with("filled o-1 buy"));
        assert_eq!(is_filled, fills, "{after_ms}: {done:?}");
        // What it filled is left at once.
        let is_left = done
            .iter()
            .any(|told| told == "place o-102-flatten.1 sell 0.02");
        assert_eq!(is_left, fills, "{after_ms}: {done:?}");
    }
}

#[test]
fn an_ioc_entry_is_over_after_one_row() {
    let mut desk = Desk::new();
    let mut order = limit(buy("0.02"), "6790");
    order.time_in_force = TimeInForce::Ioc;
    desk.submit(&order);
    assert_eq!(
        desk.after(1000, "6800", "6801"),
        ["closed o-1 expired", "closed o-1-stop retired"]
    );
}

#[test]
fn an_entry_whose_time_passed_in_a_silence_is_not_carried_out() {
    // It would arrive after 10 s, which is `entry_valid_s`, or a millisecond later.
    for (until_ms, is_there) in [(9_999, true), (10_000, true), (10_001, false)] {
        let mut desk = Desk::with(|it| it.silent = silent(begins(), 500, until_ms));
        desk.submit(&buy("0.02"));
        desk.world.wait(until_ms - 1);
        assert_eq!(desk.tick(), NOTHING);
        desk.world.wait(1);
        let done = desk.tick();
        assert_eq!(desk.works("o-1").is_some(), is_there, "{until_ms}");
        let expired = ["closed o-1 expired", "closed o-1-stop retired"];
        assert_eq!(done == expired, !is_there, "{done:?}");
    }
}

#[test]
fn coins_that_another_order_has_locked_are_not_sold_twice() {
    let short =
        |strategy: &str, size: &str| market_order(strategy, "BTC-USD", "sell", size, "6900", 0);
    // All that `trend` holds is locked by its stop; without coins nothing can be sold.
    for (reserves, reduce_only, is_refused) in [
        (true, false, true),
        (false, false, false),
        (true, true, false),
    ] {
        let mut desk = Desk::with(|it| it.reserves = reserves);
        desk.instrument().reduce_only = reduce_only;
        desk.submit(&buy("0.02"));
        desk.after(1000, "6800", "6800.1");
        desk.world.wait(1000);
        desk.tick();
        desk.submit(&short("mean", "0.01"));
        desk.world.wait(1000);
        let done = desk.tick();
        let refused = done
            .iter()
            .any(|told| told.contains("insufficient balance"));
        assert_eq!(refused, is_refused, "{reserves} {reduce_only}: {done:?}");
    }
    // What no order has locked is free, to the last lot: the stop makes room for the exit first.
    for (size, is_refused) in [("0.005", false), ("0.006", true)] {
        let mut desk = Desk::holding("0.02", |_| {});
        assert_eq!(
            desk.submit(&sell("0.005")),
            ["place o-1-stop.2 sell 0.015 at 6700"]
        );
        desk.world.wait(500);
        desk.submit(&short("mean", size));
        desk.world.wait(500);
        desk.tick();
        assert_eq!(desk.works("o-1-stop"), Some((2, a("0.015"))));
        desk.world.wait(500);
        let done = desk.tick();
        let refused = done
            .iter()
            .any(|told| told.contains("insufficient balance"));
        assert_eq!(refused, is_refused, "{size}: {done:?}");
    }
}

#[test]
fn the_fee_of_a_purchase_is_taken_in_coins() {
    for (base, base_fee, position) in [
        (Some("BTC"), true, "0.01998"),
        (Some("BTC"), false, "0.02"),
        (None, true, "0.02"),
    ] {
        let mut desk = Desk::with(|it| it.base_fee = base_fee);
        desk.instrument().base = base.map(|name| Currency::parse(name).unwrap());
        desk.instrument().lot = a("0.00001").try_into().unwrap();
        desk.submit(&buy("0.02"));
        let done = desk.after(1000, "6799", "6800");
        assert_eq!(desk.world.position(), a(position), "{base:?} {base_fee}");
        let stop = format!("place o-1-stop.1 sell {position} at 6700");
        assert!(done.contains(&stop), "{done:?}");
        // 0.00002 BTC or 0.1% of the value, which is the same at 6800.
        assert_eq!(desk.world.book.account.fees, a("0.136"));
        // The sale pays in account currency, and leaves nothing.
        desk.world.wait(1000);
        desk.tick();
        desk.after(1000, "6690", "6691");
        assert_eq!(desk.world.position(), Amount::ZERO);
    }
}

#[test]
fn every_so_many_new_entries_are_refused() {
    for (every, refused) in [
        (0, [false; 5]),
        (1, [true; 5]),
        (2, [false, true, false, true, false]),
        (3, [false, false, true, false, false]),
    ] {
        let mut desk = Desk::with(|it| it.reject_every = every);
        for (nth, expected) in (0_i64..).zip(refused) {
            let thesis = u8::try_from(nth % 4).unwrap();
            let strategy = if nth < 4 { "trend" } else { "mean" };
            let order = market_order(strategy, "BTC-USD", "buy", "0.002", "6700", thesis);
            let order = limit(order, &format!("{}", 6790 - nth));
            desk.world.wait(60_000);
            desk.quote("6800", "6800.1");
            desk.submit(&order);
            desk.world.wait(1000);
            let done = desk.tick();
            let is_refused = done.iter().any(|told| told.contains("reject_every"));
            assert_eq!(is_refused, expected, "{every} {nth}: {done:?}");
        }
        let count = desk.world.book.imitated_entries.get(&btc());
        assert_eq!(count, Some(&5));
    }
    // What was cancelled on its way was never there.
    let mut desk = Desk::with(|it| it.reject_every = 1);
    desk.submit(&limit(buy("0.002"), "6790"));
    desk.cancel("o-1");
    desk.world.wait(1000);
    assert_eq!(desk.tick(), ["closed o-1 cancelled"]);
    assert!(desk.world.book.imitated_entries.is_empty());
}

#[test]
fn in_a_silence_nothing_is_told_and_afterwards_everything() {
    let mut desk = Desk::with(|it| it.silent = silent(begins(), 10_000, 60_000));
    desk.submit(&limit(buy("0.02"), "6790"));
    desk.after(1000, "6800", "6801");
    let entry = market_order("mean", "BTC-USD", "buy", "0.002", "6700", 0);
    desk.world.wait(8_999);
    assert!(desk.world.ask(&entry).accepted);
    desk.world.wait(1);
    assert_eq!(
        desk.world.refused(&entry),
        ["venue_alive"],
        "the silence begins"
    );
    // The order fills in two rows, and nobody hears of it.
    assert_eq!(desk.after(1000, "6780", "6785"), NOTHING);
    assert_eq!(desk.world.position(), Amount::ZERO);
    let order = &desk.world.book.orders[&oid("o-1")];
    let untold = &order
        .at_venue
        .as_ref()
        .unwrap()
        .imitated
        .as_ref()
        .unwrap()
        .untold;
    assert_eq!(untold.len(), 1);
    let shown = crate::views::orders(&desk.world.book, |_| true);
    let shown = serde_json::to_string(&shown).unwrap();
    assert!(!shown.contains("untold"), "{shown}");
    assert_eq!(desk.after(1000, "6780", "6785"), NOTHING);
    // A cancel waits.
    desk.cancel("o-1");
    assert_eq!(desk.after(47_999, "6800", "6801"), NOTHING);
    assert_eq!(desk.world.refused(&entry), ["venue_alive"]);
    desk.world.wait(1);
    assert_eq!(failed(&desk.world.ask(&entry)), []);
    let done = desk.quote("6800", "6801");
    assert_eq!(
        done[..2],
        ["filled o-1 buy 0.02@6790", "closed o-1 filled"],
        "{done:?}"
    );
    let order = desk.world.book.orders.get(&oid("o-1"));
    assert!(order.is_none());
}

#[test]
fn in_a_silence_exits_are_accepted_and_stops_count_for_their_time() {
    let mut desk = Desk::with(|it| it.silent = silent(begins(), 1_500, 60_000));
    desk.submit(&buy("0.02"));
    desk.after(1000, "6800", "6801");
    // The stop was told, and is not confirmed.
    let unconfirmed = |desk: &Desk| {
        let World {
            book, rules, now, ..
        } = &desk.world;
        let position = book.positions.values().next().unwrap();
        risk::unconfirmed(book, position, &rules.safety, *now).is_some()
    };
    desk.world.wait(14_999);
    desk.tick();
    assert!(!unconfirmed(&desk));
    desk.world.wait(1);
    desk.tick();
    assert!(unconfirmed(&desk));
    let exit = desk.submit(&sell("0.02"));
    assert_eq!(exit, ["cancel o-1-stop.2 sell 0.02 at 6700"]);
    // It waits until the stop is out of the way.
    desk.world.wait(43_999);
    assert_eq!(desk.tick(), NOTHING);
    desk.world.wait(1);
    assert_eq!(desk.tick(), ["place o-2.1 sell 0.02"]);
    let done = desk.after(1000, "6790", "6791");
    assert_eq!(done[..1], ["filled o-2 sell 0.02@6790"], "{done:?}");
    assert_eq!(desk.world.position(), Amount::ZERO);
}

/// Acceptance 14.
#[test]
fn a_stop_makes_room_for_an_exit_and_takes_it_back() {
    let mut desk = Desk::holding("0.02", |_| {});
    let exit = limit(sell("0.02"), "6800");
    assert_eq!(
        desk.submit(&exit),
        ["cancel o-1-stop.2 sell 0.02 at 6700"],
        "the market is there"
    );
    desk.world.wait(1000);
    assert_eq!(desk.tick(), ["place o-2.1 sell 0.02 at 6800"]);
    // The market is gone when it arrives: it comes back, and so does the stop.
    let back = desk.after(1000, "6790", "6791");
    assert_eq!(back, ["place o-1-stop.3 sell 0.02 at 6700"]);
    desk.world.wait(1000);
    desk.tick();
    assert_eq!(desk.works("o-1-stop"), Some((3, a("0.02"))));
    assert!(desk.world.book.orders.contains_key(&oid("o-2")));
}

#[test]
fn two_trades_of_a_row_that_leave_at_once_have_their_own_lines() {
    let mut desk = Desk::new();
    for strategy in ["trend", "mean"] {
        let order = market_order(strategy, "BTC-USD", "buy", "0.02", "6700", 0);
        desk.submit(&limit(order, "6790"));
    }
    desk.after(1000, "6800", "6801");
    desk.cancel("o-1");
    desk.cancel("o-2");
    let done = desk.after(500, "6780", "6785");
    let left = done.iter().filter(|told| told.contains("-flatten.1"));
    let left: Vec<&str> = left.map(String::as_str).collect();
    assert_eq!(
        left,
        [
            "place o-102-flatten.1 sell 0.02",
            "place o-103-flatten.1 sell 0.02"
        ]
    );
    assert_eq!(desk.line, 105);
}

#[test]
fn a_clock_that_was_set_back_holds_nothing_up() {
    let mut desk = Desk::new();
    desk.submit(&limit(buy("0.02"), "6790"));
    desk.world.wait(-5000);
    desk.tick();
    assert_eq!(desk.works("o-1"), Some((1, a("0.02"))));
}

#[test]
fn many_versions_on_their_way_end_with_the_newest() {
    let mut desk = Desk::holding("0.02", |_| {});
    for nth in 1..=20 {
        desk.world.wait(10);
        let before = desk.world.book.clone();
        let verdict = desk.world.tighten(oid("o-1"), &format!("{}", 6700 + nth));
        assert!(verdict.accepted, "{:?}", failed(&verdict));
        desk.world.book = before;
        desk.line(verdict.changes);
    }
    desk.world.wait(999);
    desk.tick();
    assert_ne!(desk.works("o-1-stop").unwrap().0, 21);
    desk.world.wait(1);
    desk.tick();
    assert_eq!(desk.works("o-1-stop"), Some((21, a("0.02"))));
    let done = desk.after(1000, "6719.9", "6721");
    assert!(
        done.contains(&"closed o-1-stop filled".to_owned()),
        "{done:?}"
    );
}
