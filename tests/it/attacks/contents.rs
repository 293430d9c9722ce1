//! Attacks in the content of a request: depth, numbers, forged times, replays. Duplicate keys,
//! arrays for objects, lone surrogates, byte order marks and trailing data are in
//! `a_thousand_files` of `tests/it/hostile.rs`.

use spoolgate_wire::code::Code;
use spoolgate_wire::envelope::Envelope;
use spoolgate_wire::signing::{SignKey, signing_string};

use crate::attacks::siege::{Siege, about};
use crate::kit::world::{Draft, code_of, message_of};

/// At most 64 containers may be open, wherever they are; deeper documents are refused equally fast,
/// and no stack can overflow.
#[test]
fn deep_json() {
    let mut siege = Siege::new(141);
    let mut home = siege.world.open();
    // The envelope is one level and its payload is another.
    for (inner, code) in [
        (62, Code::MalformedPayload),
        (63, Code::MalformedJson),
        (200, Code::MalformedJson),
        (100_000, Code::MalformedJson),
        (4_000_000, Code::MalformedJson),
    ] {
        for (what, open, close) in [("list", "[", "]"), ("object", r#"{"a":"#, "}")] {
            let core = if what == "object" { "0" } else { "" };
            let deep = format!("{}{core}{}", open.repeat(inner), close.repeat(inner));
            if deep.len() > 9_900_000 {
                continue;
            }
            let payload = format!(r#"{{"deep":{deep}}}"#);
            let draft = siege.world.draft("trend-bot", "orders.list", &payload);
            let name = format!("{}.json", draft.id);
            siege.world.drop_file("", &name, siege.world.sign(&draft));
            let outcomes = siege.world.drain(&mut home);
            let outcome = about(&outcomes, &name);
            assert_eq!(
                code_of(outcome),
                Some(code),
                "{what} {inner}: {}",
                message_of(outcome)
            );
            // The containers are never closed.
            let name = format!("open-{what}-{inner}.json");
            siege
                .world
                .drop_file("", &name, format!(r#"{{"id":{}"#, open.repeat(inner)));
            let outcomes = siege.world.drain(&mut home);
            assert_eq!(
                code_of(about(&outcomes, &name)),
                Some(Code::MalformedJson),
                "{name}"
            );
            siege.one_each(&[("", name.as_bytes(), Some(Code::MalformedJson))]);
        }
    }
    siege.stands(home);
}

/// Signed numbers and texts that break readers elsewhere: each is refused, or accepted as the text
/// that it is.
#[test]
fn numbers_and_texts_that_break_readers() {
    let mut siege = Siege::new(142);
    let mut home = siege.world.open();
    let payload = |size: &str| {
        format!(
            r#"{{"strategy":"trend","symbol":"BTC-USD","side":"buy","size":{size},"order_type":"market","stop_price":"6700","thesis_slug":"trend-0","planned_entry":"6800","planned_stop":"6700"}}"#
        )
    };
    let long = "9".repeat(50_000);
    for size in [
        "1e999999",
        "-1e999999",
        "1e-999999",
        "1E+2",
        long.as_str(),
        &format!("0.{long}"),
        "-0",
        "\"1e999999\"",
        "\"NaN\"",
        "\"Infinity\"",
        "\"0x10\"",
        "\"1_000\"",
        "\" 1\"",
        "\"1\\u0000\"",
        "\"\\u0661\"",
        "true",
        "{}",
        "[1]",
    ] {
        let draft = siege
            .world
            .draft("trend-bot", "order.submit", &payload(size));
        let outcome = siege.world.decide(&mut home, &draft);
        let shown = &size[..size.len().min(20)];
        assert_eq!(
            code_of(&outcome),
            Some(Code::MalformedPayload),
            "{shown}: {}",
            message_of(&outcome)
        );
        siege.one_each(&[(
            "",
            format!("{}.json", draft.id).as_bytes(),
            Some(Code::MalformedPayload),
        )]);
    }
    // In a text that may contain anything, a NUL is kept as it was written, escaped.
    let halt = r#"{"reason":"a\u0000b"}"#;
    siege.world.ask_ok(&mut home, "trend-bot", "halt.set", halt);
    let ledger = siege.world.ledger();
    let payload = |line: &serde_json::Value| line["payload"].as_str().map(str::to_owned);
    assert!(
        ledger
            .iter()
            .any(|line| payload(line).as_deref() == Some(halt)),
        "{:?}",
        ledger.last()
    );
    siege.stands(home);
}

/// A request's own timestamp counts only within the bounds and in the one form, and never moves the
/// gate's clock.
#[test]
fn forged_timestamps() {
    let mut siege = Siege::new(143);
    let mut home = siege.world.open();
    let key = SignKey::Hmac(siege.world.keys["trend-bot"].1);
    let now = siege.world.now();
    let stale = Some(Code::TimestampStale);
    let shape = Some(Code::MalformedEnvelope);
    let cases = [
        ("0000-01-01T00:00:00Z", stale),
        ("1969-12-31T23:59:59Z", stale),
        ("1970-01-01T00:00:00Z", stale),
        ("2025-02-21T12:00:00Z", stale),
        ("2026-02-21T11:54:59Z", stale),
        ("2026-02-21T12:00:32Z", stale),
        ("2027-02-21T12:00:00Z", stale),
        ("9999-12-30T21:59:59.999Z", stale),
        ("9999-12-31T23:59:60Z", shape),
        ("10000-01-01T00:00:00Z", shape),
        ("+010000-01-01T00:00:00Z", shape),
        ("-000001-01-01T00:00:00Z", shape),
        // The leap second of 2016, and one that never was.
        ("2016-12-31T23:59:60Z", shape),
        ("2026-02-21T11:59:60Z", shape),
        ("2026-02-21T12:00:00+00:00", shape),
        ("2026-02-21T12:00:00-00:00", shape),
        ("2026-02-21T14:00:00+02:00", shape),
        ("2026-02-21T12:00:00", shape),
        ("2026-02-21t12:00:00z", shape),
        ("2026-02-21 12:00:00Z", shape),
        ("2026-02-21T12:00:00,5Z", shape),
        ("2026-02-21T24:00:00Z", shape),
        ("2026-02-29T12:00:00Z", shape),
        ("2026-W08-6T12:00:00Z", shape),
        ("2026-052T12:00:00Z", shape),
        ("1771675200", shape),
        ("2026-02-21T12:00:00.123456789Z", None),
    ];
    for (n, (timestamp, code)) in cases.into_iter().enumerate() {
        let id = format!("time-{n}");
        let signature = key.sign(&signing_string(&id, timestamp, "orders.list", "{}", None));
        let text = format!(
            r#"{{"id":"{id}","timestamp":"{timestamp}","action":"orders.list","payload":{{}},"source":"trend-bot","signature":"{signature}"}}"#
        );
        let name = format!("{id}.json");
        siege.world.drop_file("", &name, text);
        let outcomes = siege.world.drain(&mut home);
        let outcome = about(&outcomes, &name);
        assert_eq!(
            code_of(outcome),
            code,
            "{timestamp}: {}",
            message_of(outcome)
        );
        assert!(
            outcome.decision.timestamp.since_ms(now) < 3000,
            "{timestamp} moved the gate's clock"
        );
        siege.one_each(&[("", name.as_bytes(), code)]);
    }
    assert!(home.state().clock.fault.is_none());
    siege.stands(home);
}

/// Causality is part of the request: under a used id it can be neither changed, nor added, nor left
/// out.
#[test]
fn another_causality_under_a_used_id() {
    let mut siege = Siege::new(145);
    let mut home = siege.world.open();
    let objects = [
        None,
        Some("{}"),
        Some(r#"{"spawn_depth":0}"#),
        Some(r#"{"spawn_depth":0.0}"#),
    ];
    for (first, causality) in objects.into_iter().enumerate() {
        let draft = siege.world.draft("trend-bot", "orders.list", "{}");
        let plain = Envelope::parse(siege.world.sign(&draft).as_bytes()).unwrap();
        let key = SignKey::Hmac(siege.world.keys["trend-bot"].1);
        let with = |causality: Option<&str>| {
            let mut envelope = Envelope {
                causality: causality.map(str::to_owned),
                ..plain.clone()
            };
            envelope.signature = key.sign(&envelope.signing_string());
            envelope.to_json()
        };
        let name = format!("{}.json", draft.id);
        siege.world.drop_file("", &name, with(causality));
        let outcomes = siege.world.drain(&mut home);
        let conflict = Some(Code::RequestIdConflict);
        assert_ne!(code_of(about(&outcomes, &name)), conflict);
        let answer = std::fs::read(siege.world.answer_path("", &name)).unwrap();
        for (n, other) in objects.into_iter().enumerate() {
            let name = format!("again-{first}-{n}.json");
            siege.world.drop_file("", &name, with(other));
            let outcomes = siege.world.drain(&mut home);
            let is_conflict = code_of(about(&outcomes, &name)) == conflict;
            assert_eq!(is_conflict, n != first, "{causality:?}, then {other:?}");
        }
        let after = std::fs::read(siege.world.answer_path("", &name)).unwrap();
        assert_eq!(
            after, answer,
            "{causality:?}: the stored answer, byte for byte"
        );
    }
    siege.stands(home);
}

/// One signed file is sent again and again: under its own name, under other names, through other
/// spools, after a restart, after its time. It is executed once.
#[test]
fn replays_of_a_signed_file() {
    let mut siege = Siege::new(144);
    let mut home = siege.world.open();
    let order = siege.world.resting("alpha-bot", 0, "0.002");
    let name = format!("{}.json", order.id);
    let text = siege.world.sign(&order);
    siege.world.drop_file("alpha-dir", &name, &text);
    siege.world.drain(&mut home);
    let answer = siege.world.answer_path("alpha-dir", &name);
    let first = std::fs::read(&answer).unwrap();
    siege.one_each(&[("alpha-dir", name.as_bytes(), None)]);
    for (n, (spool, name, code)) in [
        ("alpha-dir", name.as_str(), None),
        ("alpha-dir", "other-name.json", None),
        ("beta-dir", "lifted.json", Some(Code::WrongSpool)),
        ("", "lifted.json", Some(Code::WrongSpool)),
        ("", name.as_str(), Some(Code::WrongSpool)),
        ("alpha-dir", "after-restart.json", None),
        ("alpha-dir", "after-its-time.json", None),
    ]
    .into_iter()
    .enumerate()
    {
        match n {
            5 => {
                drop(home);
                home = siege.world.open();
            }
            6 => siege.world.pass_ms(3_600_000),
            _ => {}
        }
        siege.world.drop_file(spool, name, &text);
        let outcomes = siege.world.drain(&mut home);
        assert_eq!(code_of(about(&outcomes, name)), code, "{name} in `{spool}`");
        assert_eq!(
            std::fs::read(&answer).unwrap(),
            first,
            "{name}: the stored answer, byte for byte"
        );
    }
    // Signed again by another source, it is that source's own request, and alpha's book is not
    // available to it.
    let other = Draft {
        source: "beta-bot".to_owned(),
        ..order.clone()
    };
    siege
        .world
        .drop_file("beta-dir", "mine-now.json", siege.world.sign(&other));
    siege.world.drain(&mut home);
    let accepted = siege
        .world
        .ledger()
        .iter()
        .filter(|line| line["action"] == "order.submit" && line["decision"] == "ACCEPTED")
        .filter(|line| line["metadata"]["replay_of"].is_null())
        .count();
    assert_eq!(accepted, 1);
    siege.stands(home);
}
