//! What a person does with their own hands: cancels orders, tightens stops and closes positions,
//! while agents are halted and keyless, rules are broken and prices are old.

use crate::kit::desk::{Desk, failed, order};
use crate::kit::ledger_files::lines_of;
use serde_json::{Value, json};
use spoolgate_home::Home;
use spoolgate_home::batch::Outcome;
use spoolgate_host::clock::Clock;
use spoolgate_wire::code::Code;
use spoolgate_wire::ids::{OrderId, Principal};

/// A desk whose agent holds 0.02 BTC with a stop and has a resting entry; ids of both entries.
fn holding() -> (Desk, Home, OrderId, OrderId) {
    let desk = Desk::with_limits("");
    let mut home = desk.open();
    let buy = order("trend", "buy", "0.02", None, "btc-range-long");
    let buy = desk.one(&mut home, "trend-bot", "buy", "order.submit", &buy);
    desk.bar(&mut home, "6800", "6800");
    let rest = order("trend", "buy", "0.002", Some("6700"), "btc-dip-long");
    let rest = desk.one(&mut home, "trend-bot", "rest", "order.submit", &rest);
    assert_eq!(home.state().book.positions.len(), 1);
    let (buy, rest) = (
        buy.decision.order_id.unwrap(),
        rest.decision.order_id.unwrap(),
    );
    (desk, home, buy, rest)
}

fn cancel(order_id: impl ToString) -> String {
    json!({"order_id": order_id.to_string(), "reason": "by hand"}).to_string()
}

fn close(more: Value) -> String {
    let mut close = json!({"strategy": "trend", "symbol": "BTC-USD", "reason": "by hand"});
    let members = close.as_object_mut().unwrap();
    members.extend(more.as_object().unwrap().clone());
    close.to_string()
}

fn refusal(outcome: &Outcome) -> (Code, String) {
    let error = outcome.answer.error.as_ref().unwrap();
    (error.code, error.message.clone())
}

#[test]
fn a_person_cancels_any_order_but_a_protective_stop_and_tightens_stops() {
    let (desk, mut home, buy, rest) = holding();
    let gone = desk.one_as_owner(&mut home, "c1", "order.cancel", &cancel(rest));
    assert_eq!(failed(&gone), [""; 0]);
    assert!(!home.state().book.orders.contains_key(&rest));
    let again = desk.one_as_owner(&mut home, "c2", "order.cancel", &cancel(rest));
    assert_eq!(failed(&again), [""; 0], "a closed order is a no-op");
    let stop = buy.stop();
    for (id, order_id, expect) in [
        ("c3", stop.to_string(), "exit the position"),
        ("c4", "o-999".to_owned(), "spoolgate orders"),
    ] {
        let no = desk.one_as_owner(&mut home, id, "order.cancel", &cancel(order_id));
        assert_eq!(failed(&no), ["cancel_ok"]);
        let told = no.answer.to_bytes();
        let told = String::from_utf8_lossy(&told);
        assert!(told.contains(expect), "{told}");
    }
    let tighter = json!({"order_id": stop, "new_stop": "6650"}).to_string();
    let tight = desk.one_as_owner(&mut home, "t1", "order.tighten_stop", &tighter);
    assert_eq!(failed(&tight), [""; 0]);
    let looser = json!({"order_id": stop, "new_stop": "6649"}).to_string();
    let loose = desk.one_as_owner(&mut home, "t2", "order.tighten_stop", &looser);
    assert_eq!(failed(&loose), ["tighten_ok"]);
    let trigger = home.state().book.orders[&stop].trigger.unwrap();
    assert_eq!(trigger.to_string(), "6650");
    // An order that closes for a person is not the agent's to cancel.
    let closing = desk.one_as_owner(&mut home, "p1", "position.close", &close(json!({})));
    assert!(closing.answer.error.is_none(), "{closing:?}");
    let (flatten, _) = home.state().book.orders.last_key_value().unwrap();
    let flatten = *flatten;
    let no = desk.one(
        &mut home,
        "trend-bot",
        "c5",
        "order.cancel",
        &cancel(flatten),
    );
    assert_eq!(failed(&no), ["cancel_ok"]);
    let done = desk.one_as_owner(&mut home, "c6", "order.cancel", &cancel(flatten));
    assert_eq!(failed(&done), [""; 0]);
    assert!(!home.state().book.orders.contains_key(&flatten));
}

#[test]
fn a_person_closes_while_agents_are_halted_and_keyless_with_broken_rules_and_old_prices() {
    let (desk, mut home, ..) = holding();
    desk.one_as_owner(&mut home, "h1", "halt.set", r#"{"reason":"stop"}"#);
    let bot = Principal::parse("trend-bot").unwrap();
    let now = desk.place.clock.now();
    let key = home.state().active_keys(&bot, now).next().unwrap();
    let revoke = json!({"key_id": key, "reason": "stolen"}).to_string();
    desk.one_as_owner(&mut home, "k1", "keys.revoke", &revoke);
    desk.edit("rules/safety.yaml", |text| {
        format!("{text}\nno_such_key: 1\n")
    });
    for _ in 0..3 {
        desk.place.pass_s(86_400);
        home.write_news().unwrap();
    }
    assert!(home.rules_fault().is_some());
    let part = desk.one_as_owner(
        &mut home,
        "p1",
        "position.close",
        &close(json!({"size": "0.005"})),
    );
    assert!(part.answer.error.is_none(), "{part:?}");
    let rest = desk.one_as_owner(&mut home, "p2", "position.close", &close(json!({})));
    assert!(rest.answer.error.is_none(), "{rest:?}");
    let data = rest.answer.data.as_ref().unwrap().get();
    let data: Value = serde_json::from_str(data).unwrap();
    assert_eq!(data["PositionClosing"]["size"], "0.015");
    let more = desk.one_as_owner(&mut home, "p3", "position.close", &close(json!({})));
    assert_eq!(
        refusal(&more).0,
        Code::StateConflict,
        "all is closed already"
    );
    desk.bar(&mut home, "6790", "6790");
    assert!(home.state().book.positions.is_empty());
    assert!(home.state().book.orders.is_empty(), "its stop goes along");
    let log = desk.place.disk.get("audit/log-00000001.jsonl").unwrap();
    let reasons = lines_of(&log)
        .into_iter()
        .filter(|line| String::from_utf8_lossy(line).contains("by hand"));
    assert!(reasons.count() >= 2, "the ledger has the reason");
}

#[test]
fn a_close_that_cannot_be_carried_out_says_what_would_work() {
    let (desk, mut home, ..) = holding();
    for (n, (more, code, expect)) in [
        (json!({"size": "-1"}), Code::MalformedPayload, "above 0"),
        (json!({"size": "0"}), Code::MalformedPayload, "above 0"),
        (
            json!({"size": null}),
            Code::MalformedPayload,
            "`/payload/size` is null",
        ),
        (json!({"reason": " "}), Code::MalformedPayload, "reason"),
        (
            json!({"size": "0.021"}),
            Code::StateConflict,
            "0.02 of `BTC-USD`",
        ),
        (
            json!({"size": "0.000000001"}),
            Code::MalformedPayload,
            "lot",
        ),
        (
            json!({"strategy": "nobody"}),
            Code::NotFound,
            "spoolgate portfolio",
        ),
        (
            json!({"symbol": "ETH-USD"}),
            Code::NotFound,
            "spoolgate portfolio",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("p{n}");
        let no = desk.one_as_owner(&mut home, &id, "position.close", &close(more.clone()));
        let (found, message) = refusal(&no);
        assert_eq!(found, code, "{more}: {message}");
        assert!(message.contains(expect), "{more}: {message}");
    }
    let agent = desk.one(
        &mut home,
        "trend-bot",
        "a1",
        "position.close",
        &close(json!({})),
    );
    assert_eq!(refusal(&agent).0, Code::NotPermitted);
    let all = desk.one_as_owner(
        &mut home,
        "all",
        "position.close",
        &close(json!({"size": "0.02"})),
    );
    assert!(all.answer.error.is_none(), "exactly what is held: {all:?}");
}

/// An exit that the agent can cancel neither refuses nor shortens what a person closes.
#[test]
fn a_close_does_not_count_on_what_an_agent_can_cancel() {
    let (desk, mut home, ..) = holding();
    let exit = order("trend", "sell", "0.019", None, "btc-range-long");
    let exit = desk.one(&mut home, "trend-bot", "exit", "order.submit", &exit);
    assert_eq!(failed(&exit), [""; 0]);
    let exit = exit.decision.order_id.unwrap();
    let closing = desk.one_as_owner(&mut home, "p1", "position.close", &close(json!({})));
    let data = closing.answer.data.as_ref().unwrap().get();
    let data: Value = serde_json::from_str(data).unwrap();
    assert_eq!(data["PositionClosing"]["size"], "0.02");
    assert!(!home.state().book.orders.contains_key(&exit), "retired");
    desk.one(
        &mut home,
        "trend-bot",
        "undo",
        "order.cancel",
        &cancel(exit),
    );
    desk.bar(&mut home, "6790", "6790");
    assert!(home.state().book.positions.is_empty());
}
