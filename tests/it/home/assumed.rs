//! `venue.assume`: a person says what became of an order of which the venue says nothing.

use super::halts::replays;
use super::outbox_lines::Desk;
use crate::kit::place::drain;
use serde_json::{Value, json};
use spoolgate_home::Home;
use spoolgate_wire::code::Code;
use spoolgate_wire::signing::SignKey;

fn with(base: &Value, more: &Value) -> Value {
    let mut payload = base.clone();
    let members = payload.as_object_mut().unwrap();
    members.extend(more.as_object().unwrap().clone());
    payload
}

/// Sends a statement of the owner, or of the agent with this key. Returns the refusal.
fn assume(
    desk: &Desk,
    home: &mut Home,
    agent: Option<&SignKey>,
    nth: u32,
    stated: &Value,
) -> Option<(Code, String)> {
    let payload = with(stated, &json!({"reason": "its statement"})).to_string();
    let (id, action) = (format!("assume-{nth}"), "venue.assume");
    match agent {
        Some(key) => desk.place.ask(key, "trend-bot", &id, action, &payload),
        None => desk.place.ask_as_owner(&id, action, &payload),
    }
    let done = drain(home).unwrap().remove(0).answer;
    done.error.map(|error| (error.code, error.message))
}

#[test]
fn neither_an_agent_nor_a_slip_changes_anything() {
    let desk = Desk::new();
    let mut home = desk.open();
    let entry = desk.order(&mut home, "r1", "buy", "0.02", json!({}));
    let gone = json!({"order_id": entry, "state": "gone"});
    let before = home.state().book.clone();
    let (bot, malformed) = (Some(&desk.bot), Code::MalformedPayload);
    let other = |more: Value| with(&gone, &more);
    for (nth, agent, stated, code, says) in [
        (1, bot, gone.clone(), Code::NotPermitted, "role"),
        (
            2,
            None,
            other(json!({"order_id": "o-9999"})),
            Code::NotFound,
            "spoolgate orders",
        ),
        (
            3,
            None,
            other(json!({"filled": "0.01"})),
            Code::StateConflict,
            "px",
        ),
        (
            4,
            None,
            other(json!({"filled": "0.021", "px": 6700})),
            Code::ReportImpossible,
            "0.02",
        ),
        (5, None, other(json!({"filled": -1})), malformed, "below 0"),
        (6, None, other(json!({"px": 0})), malformed, "above 0"),
        (
            7,
            None,
            other(json!({"state": "working", "fee": 1})),
            malformed,
            "takes no",
        ),
        (8, None, other(json!({"state": "lost"})), malformed, "lost"),
    ] {
        let (found, message) = assume(&desk, &mut home, agent, nth, &stated).unwrap();
        assert_eq!(found, code, "{nth}: {message}");
        assert!(message.contains(says), "{nth}: {message}");
        assert_eq!(home.state().book, before, "{nth}");
    }
    replays(&desk.place, home);
}

#[test]
fn what_a_person_says_counts_as_a_report() {
    let desk = Desk::new();
    let mut home = desk.open();
    let entry = desk.order(&mut home, "r1", "buy", "0.02", json!({}));
    // It filled in part and is gone: the stop follows.
    let part = json!({"order_id": entry, "state": "gone", "filled": "0.01", "px": "6790",
        "fee": "1.2"});
    assert_eq!(assume(&desk, &mut home, None, 1, &part), None);
    let book = &home.state().book;
    assert!(!book.orders.keys().any(|id| id.to_string() == entry));
    let position = book.positions.values().next().unwrap();
    assert_eq!(position.size.to_string(), "0.01");
    assert_eq!(book.account.fees.to_string(), "1.2");
    let stop = format!("{entry}-stop");
    let placed = format!("{stop}.1 place");
    assert!(desk.told().contains(&placed), "{:?}", desk.told());
    // The stop is seen at the venue, and later it is not there any more: the position leaves.
    let working = json!({"order_id": stop, "state": "working"});
    assert_eq!(assume(&desk, &mut home, None, 2, &working), None);
    let less = json!({"order_id": stop, "state": "gone", "filled": "0.004", "px": "6700"});
    assert_eq!(assume(&desk, &mut home, None, 3, &less), None);
    let orders = home.state().book.orders.values();
    let left: Vec<String> = orders
        .map(|order| format!("{:?} {}", order.order_id.leg, order.size))
        .collect();
    assert_eq!(left, ["Flatten 0.006"]);
    // What the venue reports after all is a fact that does not fit.
    assert!(home.state().book.doubted_symbols.is_empty());
    let late = json!({"order_id": entry, "exec_id": "T9", "exec_type": "trade",
        "transact_time": "2026-03-02T12:00:00Z", "last_qty": "0.01", "last_px": "6790", "fee": 0,
        "liquidity": "taker", "cum_qty": "0.02"});
    let (key, late) = (&desk.bridge, late.to_string());
    desk.place.ask(key, "exchange", "T9", "venue.report", &late);
    let refused = drain(&mut home).unwrap().remove(0).answer.error.unwrap();
    assert_eq!(refused.code, Code::ReportUnknown);
    assert!(!home.state().book.doubted_symbols.is_empty());
    replays(&desk.place, home);
}
