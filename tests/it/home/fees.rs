//! Fees that a venue takes in coins, and `position.adjust`: a person brings the book in line with a venue.

use super::halts::replays;
use super::outbox_lines::Desk;
use crate::kit::place::{Place, drain};
use serde_json::{Value, json};
use spoolgate_gate as gate;
use spoolgate_home::Home;
use spoolgate_trading as trading;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::code::Code;

/// A desk whose BTC is a coin, in lots of 0.0001.
fn desk() -> Desk {
    let desk = Desk::at("    base: BTC\n    quote: USD\n");
    let path = desk.place.root.path().join("rules/instruments.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    let (from, to) = ("    lot: 0.00000001\n", "    lot: 0.0001\n");
    assert!(text.contains(from));
    std::fs::write(&path, text.replace(from, to)).unwrap();
    desk
}

fn report(desk: &Desk, home: &mut Home, exec: &str, more: &Value) -> Option<(Code, String)> {
    let mut payload = json!({"exec_id": exec, "exec_type": "trade", "last_px": "6790",
        "transact_time": "2026-03-02T12:00:00Z", "liquidity": "taker"});
    let members = payload.as_object_mut().unwrap();
    members.extend(more.as_object().unwrap().clone());
    let (key, payload) = (&desk.bridge, payload.to_string());
    // A refused report comes again in a request of its own.
    let id = format!("{exec}-{}", home.position().seq);
    desk.place
        .ask(key, "exchange", &id, "venue.report", &payload);
    refusal(home)
}

fn refusal(home: &mut Home) -> Option<(Code, String)> {
    let done = drain(home).unwrap().remove(0).answer;
    done.error.map(|error| (error.code, error.message))
}

fn adjust(place: &Place, home: &mut Home, nth: u32, more: &Value) -> Option<(Code, String)> {
    let mut payload = json!({"strategy": "trend", "symbol": "BTC-USD", "size": "-0.0001",
        "price": "6795", "reason": "snapshot"});
    let members = payload.as_object_mut().unwrap();
    members.extend(more.as_object().unwrap().clone());
    place.ask_as_owner(&format!("a-{nth}"), "position.adjust", &payload.to_string());
    refusal(home)
}

/// The position and the sizes of the open orders.
fn held(home: &Home) -> (String, Vec<String>) {
    let book = &home.state().book;
    let position = book.positions.values().next();
    let size = position.map_or(Amount::ZERO, |held| held.size);
    let orders = book.orders.values();
    let orders =
        orders.map(|order| format!("{:?} {}", order.order_id.leg, order.size.normalized()));
    (size.normalized().to_string(), orders.collect())
}

#[test]
fn a_fee_in_coins_makes_position_and_stop_smaller() {
    let desk = desk();
    let mut home = desk.open();
    home.write_news().unwrap();
    let entry = desk.order(&mut home, "r1", "buy", "0.02", json!({}));
    let trade = json!({"order_id": entry, "last_qty": "0.02", "cum_qty": "0.02", "fee": "0.00002"});
    let with = |currency: &str| {
        let mut trade = trade.clone();
        trade["fee_currency"] = currency.into();
        trade
    };
    let (code, says) = report(&desk, &mut home, "T1", &with("BNB")).unwrap();
    assert_eq!(code, Code::MalformedPayload);
    assert!(says.contains("state `fee_value`"), "{says}");
    // The same report, repaired, under the same id.
    assert_eq!(report(&desk, &mut home, "T1", &with("BTC")), None);
    assert_eq!(
        held(&home),
        ("0.01998".to_owned(), vec!["Stop 0.0199".to_owned()])
    );
    let account = &home.state().book.account;
    // 5000 - 0.02 x 6790, and 0.00002 x 6790.
    assert_eq!(account.cash.normalized().to_string(), "4864.2");
    assert_eq!(account.fees.normalized().to_string(), "0.1358");
    let lines = (0..home.position().seq).filter_map(|seq| home.record(seq).ok());
    let changes = lines.flat_map(|(_, line)| line.changes().to_vec());
    let mut paid = changes.filter_map(|change| match change {
        gate::Change::Book(trading::Change::OrderFilled(fill)) => fill.fee_paid,
        _ => None,
    });
    let paid = paid.next();
    assert_eq!(
        json!(paid),
        json!({"currency": "BTC", "amount": "0.00002", "from_size": true})
    );
    // The stop leaves dust, which cannot be closed.
    let stop = format!("{entry}-stop");
    let works = json!({"order_id": stop, "exec_id": "N1", "exec_type": "new", "version": 1,
        "transact_time": "2026-03-02T12:00:00Z", "cum_qty": 0});
    desk.place.ask(
        &desk.bridge,
        "exchange",
        "N1",
        "venue.report",
        &works.to_string(),
    );
    assert_eq!(refusal(&mut home), None);
    let sold = json!({"order_id": stop, "last_qty": "0.0199", "cum_qty": "0.0199", "fee": 0});
    assert_eq!(report(&desk, &mut home, "T2", &sold), None);
    assert_eq!(held(&home), ("0.00008".to_owned(), vec![]));
    let close = json!({"strategy": "trend", "symbol": "BTC-USD", "reason": "r"}).to_string();
    desk.place.ask_as_owner("c", "position.close", &close);
    let (code, says) = refusal(&mut home).unwrap();
    assert_eq!(code, Code::StateConflict);
    assert!(says.contains("which is dust"), "{says}");
    // A halt that closes positions has nothing to do about it.
    let halt = json!({"flatten": true, "reason": "r"}).to_string();
    desk.place.ask_as_owner("h", "halt.set", &halt);
    assert_eq!(refusal(&mut home), None);
    assert_eq!(held(&home), ("0.00008".to_owned(), vec![]));
    // A person books it away.
    let gone = json!({"size": "-0.00008"});
    assert_eq!(adjust(&desk.place, &mut home, 1, &gone), None);
    assert!(home.state().book.positions.is_empty());
    replays(&desk.place, home);
}

#[test]
fn a_person_brings_the_book_in_line_with_the_venue() {
    let desk = desk();
    let mut home = desk.open();
    home.write_news().unwrap();
    let entry = desk.order(
        &mut home,
        "r1",
        "buy",
        "0.02",
        json!({"target_price": "7000"}),
    );
    desk.trade(&mut home, "T1", &entry, "0.02", "0.02");
    let before = home.state().book.clone();
    let (malformed, conflict) = (Code::MalformedPayload, Code::StateConflict);
    for (nth, more, code, says) in [
        (1, json!({"size": 0}), malformed, "must not be 0"),
        (2, json!({"price": 0}), malformed, "above 0"),
        (3, json!({"price": -1}), malformed, "above 0"),
        (4, json!({"reason": " "}), malformed, "reason"),
        (5, json!({"size": null}), malformed, "null"),
        (6, json!({"fee": 1}), malformed, "unknown field"),
        (7, json!({"strategy": "nobody"}), Code::NotFound, "`nobody`"),
        (
            8,
            json!({"symbol": "DOGE-USD"}),
            Code::NotFound,
            "`DOGE-USD`",
        ),
        (
            9,
            json!({"size": "99999999999.9999999999", "price": "99999999999.9999999999"}),
            conflict,
            "28 digits",
        ),
    ] {
        let (found, message) = adjust(&desk.place, &mut home, nth, &more).unwrap();
        assert_eq!(found, code, "{nth}: {message}");
        assert!(message.contains(says), "{nth}: {message}");
        assert_eq!(home.state().book, before, "{nth}");
    }
    let payload =
        json!({"strategy": "trend", "symbol": "BTC-USD", "size": 1, "price": 1, "reason": "r"});
    let (bot, payload) = (&desk.bot, payload.to_string());
    desk.place
        .ask(bot, "trend-bot", "own", "position.adjust", &payload);
    assert_eq!(refusal(&mut home).unwrap().0, Code::NotPermitted);
    // Down: stop and target follow.
    assert_eq!(
        adjust(&desk.place, &mut home, 20, &json!({"size": "-0.0051"})),
        None
    );
    let sizes = |size: &str| {
        ["Stop", "Target"]
            .map(|leg| format!("{leg} {size}"))
            .to_vec()
    };
    assert_eq!(held(&home), ("0.0149".to_owned(), sizes("0.0149")));
    assert!(home.state().book.doubted_symbols.is_empty());
    // Up: the stop grows by whole lots.
    assert_eq!(
        adjust(&desk.place, &mut home, 21, &json!({"size": "0.00213"})),
        None
    );
    assert_eq!(held(&home), ("0.01703".to_owned(), sizes("0.017")));
    let last = home.state().book.account.clone();
    let cost = home.state().book.positions.values().next().unwrap().cost;
    let assets = last.cash.checked_add(cost).unwrap();
    let earned = last.net_deposits.checked_add(last.realised).unwrap();
    assert_eq!(assets, earned.checked_sub(last.fees).unwrap());
    replays(&desk.place, home);
}

#[test]
fn what_is_added_without_a_stop_closes_the_symbol() {
    let desk = desk();
    let mut home = desk.open();
    home.write_news().unwrap();
    assert_eq!(
        adjust(&desk.place, &mut home, 1, &json!({"size": "0.01"})),
        None
    );
    let book = &home.state().book;
    let doubt = book.doubted_symbols.values().next().unwrap();
    assert!(doubt.what.contains("no stop protects"), "{}", doubt.what);
    // It is held at the bridge of the instrument, which closes it.
    let close = json!({"strategy": "trend", "symbol": "BTC-USD", "reason": "r"}).to_string();
    desk.place.ask_as_owner("c", "position.close", &close);
    assert_eq!(refusal(&mut home), None);
    assert!(
        desk.told()[0].contains("-flatten.1 place"),
        "{:?}",
        desk.told()
    );
    replays(&desk.place, home);
}

#[test]
fn on_paper_the_book_is_the_venue() {
    let place = Place::new(1);
    let mut home = place.open().unwrap();
    home.write_news().unwrap();
    let (code, says) = adjust(&place, &mut home, 1, &json!({})).unwrap();
    assert_eq!(code, Code::StateConflict);
    assert!(says.contains("is traded on paper"), "{says}");
    replays(&place, home);
}
