//! What needs a blob waits while the disk has no room for it, and ends no gate; exits, cancels,
//! tightens and halts never need one.

use std::fs;

use serde_json::{Value, json};
use spoolgate_gate::decide::MEMBER_BYTES_MAX;
use spoolgate_home::Home;
use spoolgate_ledger::disk::Disk as _;
use spoolgate_wire::code::Code;

use super::low::{code, desk};
use crate::kit::desk::{Desk, order};
use crate::kit::gateway_home::{self, ECHO, GatewayHome};
use crate::kit::place::drain;
use crate::kit::process::find;

const MAIL: &str = r#"{"to":["ann@example.com"],"subject":"hello","body":"a word"}"#;
const HALT: &str = r#"{"reason":"drill"}"#;

fn is_waiting(desk: &Desk, id: &str) -> bool {
    desk.place.disk.get(format!("spool/in/{id}.json")).is_some()
}

/// Gives the disk room, and lets the gate notice.
fn give_room(desk: &Desk, home: &mut Home) {
    desk.place.disk.leave(None);
    desk.place.pass_s(120);
    home.write_news().unwrap();
}

/// The blob is the first write that finds no room, with little room before or with enough.
#[test]
fn a_request_that_needs_a_blob_waits_in_its_spool() {
    let large = json!({"x": "y".repeat(MEMBER_BYTES_MAX)}).to_string();
    for (action, payload, expected) in [
        ("email.send", r#"{"b":"x"}"#, Code::MalformedPayload),
        ("email.sned", MAIL, Code::UnknownAction),
        ("email.send", MAIL, Code::NotPermitted),
        ("council.request", large.as_str(), Code::MalformedPayload),
    ] {
        for before in [Some(2 << 20), None] {
            let (desk, mut home, ..) = desk();
            desk.place.disk.leave(before);
            home.write_news().unwrap();
            // The files stood in the spool when the disk filled up.
            desk.ask("trend-bot", "bad", action, payload);
            desk.ask("trend-bot", "halt", "halt.set", HALT);
            desk.place.disk.leave(Some(0));
            let outcomes = drain(&mut home).unwrap();
            let codes: Vec<_> = outcomes
                .iter()
                .map(|it| (it.answer.request_id.as_str(), code(it)))
                .collect();
            assert_eq!(codes, [("halt", None)], "{action}");
            assert!(is_waiting(&desk, "bad") && home.is_disk_full());
            // A gate that starts on the full disk leaves it too.
            drop(home);
            let mut home = desk.place.open().unwrap();
            assert!(drain(&mut home).unwrap().is_empty());
            assert!(is_waiting(&desk, "bad"));
            give_room(&desk, &mut home);
            let outcomes = drain(&mut home).unwrap();
            let codes: Vec<_> = outcomes.iter().map(code).collect();
            assert_eq!(codes, [Some(expected)], "{action}: {outcomes:?}");
        }
    }
}

#[test]
fn a_query_with_much_data_waits() {
    let desk = Desk::with_limits("storage: {floor_bytes: 0}");
    let text = fs::read_to_string("rules/strategies/range.yaml").unwrap();
    for n in 0..62 {
        let name = format!("other-{n}");
        let text = text.replace("name: range", &format!("name: {name}"));
        desk.edit(&format!("rules/strategies/{name}.yaml"), |_| text.clone());
    }
    let mut home = desk.open();
    home.write_news().unwrap();
    desk.ask("trend-bot", "list", "strategies.list", "{}");
    desk.ask("trend-bot", "halt", "halt.set", HALT);
    desk.place.disk.leave(Some(0));
    let outcomes = drain(&mut home).unwrap();
    assert_eq!(outcomes.len(), 1, "{outcomes:?}");
    assert_eq!(outcomes[0].answer.request_id, "halt");
    assert!(is_waiting(&desk, "list"));
    give_room(&desk, &mut home);
    let listed = drain(&mut home).unwrap().pop().unwrap();
    assert_eq!(code(&listed), None);
    assert!(listed.decision.data_blob.is_some(), "it needed a blob");
}

/// An adapter has sent a mail, and the disk has no room for its result.
fn sent() -> (GatewayHome, Home) {
    let script = format!("until [ -e go ]; do sleep 0.02; done; {ECHO}");
    let gateway = GatewayHome::new(&script);
    let mut home = gateway.open();
    gateway.ask("mail", "email.send", MAIL);
    // The line of the request is durable before the adapter runs.
    while home.round(false).unwrap().more {}
    gateway.place.disk.leave(Some(0));
    fs::write(gateway.path("go"), "").unwrap();
    find("the result finds no room", || {
        home.round(false).unwrap();
        home.is_disk_full().then_some(())
    });
    assert!(gateway.responses().is_empty());
    assert_eq!(home.state().actions.open.len(), 1);
    (gateway, home)
}

#[test]
fn the_result_of_an_adapter_is_recorded_once_there_is_room() {
    let (gateway, mut home) = sent();
    for _ in 0..3 {
        home.round(false).unwrap();
    }
    gateway.place.disk.leave(None);
    gateway.place.pass_s(120);
    gateway_home::settle(&mut home);
    let answer = gateway.answer("mail").unwrap();
    assert_eq!(gateway_home::code(&answer), "", "{answer:?}");
    assert_eq!(gateway.responses().len(), 1);
}

#[test]
fn the_result_that_a_killed_gate_held_is_unknown() {
    let (gateway, home) = sent();
    drop(home);
    gateway.place.disk.leave(None);
    let mut home = gateway.open();
    gateway_home::settle(&mut home);
    let answer = gateway.answer("mail").unwrap();
    assert_eq!(gateway_home::code(&answer), "UNKNOWN_OUTCOME");
}

/// Returns an object with every character of its keys and texts as an escape.
fn spelled(payload: &Value) -> String {
    let text = |text: &str| {
        let escaped = text.bytes().map(|byte| format!("\\u{byte:04x}"));
        format!("\"{}\"", escaped.collect::<String>())
    };
    let members: Vec<String> = payload
        .as_object()
        .unwrap()
        .iter()
        .map(|(key, value)| format!("{}:{}", text(key), text(value.as_str().unwrap())))
        .collect();
    format!("{{{}}}", members.join(","))
}

/// The longest forms of what is served on a full disk stay below the size from which a member of a
/// line needs a blob.
#[test]
fn no_brake_is_as_long_as_a_blob() {
    let (name, symbol) = ("n".repeat(64), "S".repeat(32));
    let amount = "1".repeat(32);
    let order = json!({
        "strategy": name, "symbol": symbol, "side": "sell", "size": amount,
        "order_type": "market", "price": amount, "stop_price": amount, "thesis_slug": name,
        "planned_entry": amount, "planned_stop": amount, "target_price": amount,
        "time_in_force": "immediate_or_cancel",
    });
    let order_id = format!("o-{}.stop", u64::MAX);
    let halt = json!({"principal": name, "reason": "r".repeat(500)});
    for payload in [
        order,
        json!({"order_id": order_id}),
        json!({"order_id": order_id, "new_stop": amount}),
        halt,
    ] {
        let bytes = spelled(&payload).len();
        assert!(bytes < MEMBER_BYTES_MAX / 2, "{bytes}: {payload}");
    }
}

/// Renames files in the spool whose names begin so, which needs no room.
fn rename_all(desk: &Desk, start: &str, to: &str) {
    for (path, _) in desk.place.disk.files_below("spool/in") {
        let name = path.file_name().unwrap().to_str().unwrap();
        if name.starts_with(start) {
            let renamed = desk.place.disk.rename(&path, &path.with_extension(to));
            renamed.unwrap();
        }
    }
}

/// Each is decided on a full disk, in its longest form, whether the gate knows already that it is full
/// or not.
#[test]
fn exits_cancels_tightens_and_halts_need_no_blob() {
    for is_known in [false, true] {
        let (desk, mut home, resting, stop) = desk();
        let reason = "r".repeat(500);
        let exit = |more: &[(&str, &str)]| {
            let exit = order("trend", "sell", "0.0010000000", None, "btc-range-long");
            let mut exit: Value = serde_json::from_str(&exit).unwrap();
            for (key, value) in more {
                exit[*key] = json!(value);
            }
            exit
        };
        let limit = [("order_type", "limit"), ("price", "6900.0000000000")];
        let on_stop = [("order_type", "stop"), ("stop_price", "6700.0000000000")];
        let brakes = [
            ("order.cancel", json!({"order_id": resting})),
            ("order.submit", exit(&[])),
            ("order.submit", exit(&limit)),
            ("order.submit", exit(&on_stop)),
            (
                "order.tighten_stop",
                json!({"order_id": stop, "new_stop": "6650.0000000000"}),
            ),
            ("halt.set", json!({"reason": reason})),
            (
                "halt.set",
                json!({"principal": "research-bot", "reason": reason}),
            ),
        ];
        for (n, (action, payload)) in brakes.iter().enumerate() {
            let kind = action.split('.').next().unwrap();
            let sender = payload["principal"].as_str().unwrap_or("trend-bot");
            desk.ask(sender, &format!("{kind}-{n}"), action, &spelled(payload));
        }
        for (id, payload) in [
            ("halt-all", json!({"reason": reason})),
            ("halt-one", json!({"principal": "hermes", "reason": reason})),
        ] {
            desk.place.ask_as_owner(id, "halt.set", &spelled(&payload));
        }
        rename_all(&desk, "", "tmp");
        let blobs = desk.place.disk.files_below("audit/blobs");
        if is_known {
            desk.ask("trend-bot", "bad", "email.sned", MAIL);
        }
        desk.place.disk.leave(Some(0));
        assert!(drain(&mut home).unwrap().is_empty());
        assert_eq!(home.is_disk_full(), is_known);
        let mut outcomes = Vec::new();
        // Halts are decided first, and an entry that rests does not outlive one.
        for kind in ["order", "halt"] {
            rename_all(&desk, kind, "json");
            outcomes.extend(drain(&mut home).unwrap());
        }
        assert_eq!(outcomes.len(), 9, "{outcomes:?}");
        for outcome in &outcomes {
            assert_eq!(code(outcome), None, "{outcome:?}");
        }
        assert_eq!(desk.place.disk.files_below("audit/blobs"), blobs);
    }
}
