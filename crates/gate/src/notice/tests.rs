//! The notices of lines.

use serde_json::{Value, json};

use super::*;

const AT: &str = "2026-03-02T12:00:00Z";

/// Returns the notices of a line of this kind, which must be one that a ledger can hold.
fn notices(kind: &str, body: &Value) -> Vec<Notice> {
    let record = Record::parse(kind, &body.to_string()).unwrap().unwrap();
    of(&record)
}

/// Returns the only notice of an event with these changes.
fn one(kind: &str, changes: Value) -> Notice {
    let body = json!({"timestamp": AT, "note": "a note", "changes": changes});
    let mut notices = notices(kind, &body);
    assert_eq!(notices.len(), 1, "{notices:?}");
    notices.remove(0)
}

#[test]
fn changes_have_their_kinds_and_levels() {
    let doubt = json!({"order_id": "o-12", "what": "unknown", "at": AT});
    let gap = json!({"previous": "10", "open": "20", "time": AT});
    let halt = json!({"by": "owner", "at": AT, "reason": "trouble"});
    let of_bot = json!({"principal": "bot", "halt": halt});
    let of_symbol = json!({"on": {"symbol": "BTC-USD"}, "halt": halt});
    let key = json!({"key_id": "k", "principal": "bot", "algorithm": "hmac-sha256",
        "added_at": AT, "ends_at": null, "revoked_at": null});
    let tripped = json!({"principal": "bot",
        "tripped": {"at": AT, "unheard_ms": 60_000, "action": "close_new_only"}});
    let destination = json!({"host": "smtp.example.com", "added_at": AT});
    // Lines, changes, and the kinds, levels and names of their notices.
    let cases = json!([
        ["halt", {"HaltFile": {"present": true}}, "halt", "alarm", ""],
        ["halt", {"HaltFile": {"present": false}}, "halt_cleared", "info", ""],
        ["tick", {"HaltSet": {"halt": halt}}, "halt", "alarm", ""],
        ["tick", {"HaltSet": of_bot}, "halt", "alarm", "bot"],
        ["tick", {"HaltSet": of_symbol}, "halt", "alarm", "symbol `BTC-USD`"],
        ["tick", {"HaltCleared": {}}, "halt_cleared", "info", ""],
        ["dead_man", {"DeadMan": {"Tripped": tripped}}, "dead_man", "alarm", "bot"],
        ["tick", {"Book": {"DrawdownLatched": {"at": AT, "equity": "4500"}}},
            "loss_stop", "alarm", "drawdown_halt"],
        ["tick", {"Book": {"SymbolDoubted": {"symbol": "BTC-USD", "doubt": doubt}}},
            "symbol_closed", "alarm", "BTC-USD"],
        ["tick", {"Book": {"SymbolHalted": {"symbol": "BTC-USD", "gap": gap}}},
            "symbol_closed", "alarm", "BTC-USD"],
        ["tick", {"Book": {"StrategyDisabled": {"strategy": "trend", "at": AT}}},
            "entries_closed", "alarm", "trend"],
        ["rulebook", {"RulebookFaulted": {"fault": "rules/safety.yaml:3: no"}},
            "rules_fault", "alarm", ""],
        ["clock_step", {"ClockFaulted": {"from": AT, "to": AT}}, "clock", "alarm", ""],
        ["tick", {"ClockAccepted": {}}, "clock", "info", ""],
        ["tick", {"KeyAdded": key}, "key", "info", "k"],
        ["tick", {"KeyRevoked": {"key_id": "k", "at": AT}}, "key", "info", "k"],
        ["tick", {"KeyEnds": {"key_id": "k", "at": AT}}, "key", "info", "k"],
        ["storage", {"StorageLevel": {"level": "reserve"}}, "storage_low", "alarm", ""],
        ["storage", {"StorageLevel": {"level": "normal"}}, "storage_low", "info", ""],
        ["tick", {"Approvals": {"ended": {"id": "h-9", "end": "expired"}}},
            "hold_expired", "info", "h-9"],
        ["tick", {"Council": {"CaseClosed": {"case": "c1", "outcome": "REJECT"}}},
            "case", "info", "c1"],
        ["tick", {"Actions": {"first_use": {"service": "mail", "destination": destination}}},
            "first_use", "info", "mail"],
    ]);
    for case in cases.as_array().unwrap() {
        let notice = one(case[0].as_str().unwrap(), json!([case[1]]));
        assert_eq!(case[2], notice.kind.as_str(), "{case}");
        assert_eq!(case[3], json!(notice.level), "{case}");
        assert_eq!(case[4], notice.about.unwrap_or_default(), "{case}");
        assert!(!notice.title.is_empty(), "{case}");
    }
}

#[test]
fn events_have_their_kinds() {
    for (line, kind) in [
        ("start", Kind::Start),
        ("stop", Kind::Stop),
        ("quota", Kind::Quota),
        ("pull", Kind::Pull),
        ("not_told", Kind::NotTold),
    ] {
        let notice = one(line, json!([]));
        assert_eq!((notice.kind, notice.text.as_str()), (kind, "a note"));
    }
    for line in ["tick", "rulebook", "proposal"] {
        let body = json!({"timestamp": AT, "note": "a note", "changes": []});
        assert_eq!(notices(line, &body), [], "{line}");
    }
}

#[test]
fn only_an_unknown_outcome_of_an_action_is_told() {
    let response = |metadata: Value| {
        let body = json!({"timestamp": AT, "id": "9", "request_id": "r1", "action": "email.send",
            "source": "bot", "direction": "response", "status": "error", "payload_hash": null,
            "signature": null, "request_line": 8, "adapter": "mail", "note": "ended",
            "metadata": metadata, "spool": "flat", "answer": "out/r1.json", "rulebook": "00",
            "changes": []});
        notices("response", &body)
    };
    let told = response(json!({"code": "UNKNOWN_OUTCOME", "message": "killed"}));
    assert_eq!(told.len(), 1);
    assert_eq!(
        (told[0].kind, told[0].level),
        (Kind::ActionUnknown, Level::Act)
    );
    assert_eq!(told[0].about.as_deref(), Some("r1"));
    // The table of codes says of each of these that it is unknown whether the action was done.
    for code in ["ADAPTER_CRASHED", "ADAPTER_TIMED_OUT", "ADAPTER_OUTPUT"] {
        let told = response(json!({"code": code, "message": "gone"}));
        assert_eq!(told.len(), 1, "{code}");
        assert_eq!(told[0].kind, Kind::ActionUnknown, "{code}");
    }
    assert_eq!(
        response(json!({"code": "ADAPTER_NOT_RUN", "message": "no"})),
        []
    );
    assert_eq!(response(json!({})), []);
}

#[test]
fn a_granted_hold_and_a_heartbeat_are_silent() {
    for change in [
        json!({"Approvals": {"ended": {"id": "h-9", "end": "granted", "by": "owner"}}}),
        json!({"DeadMan": {"Beat": {"principal": "bot"}}}),
        json!({"RulebookLoaded": {"hash": "00"}}),
    ] {
        let body = json!({"timestamp": AT, "note": "a note", "changes": [change]});
        assert_eq!(notices("tick", &body), [], "{change}");
    }
}

/// An accepted or refused entry with one check row.
fn entry(is_accepted: bool, check: &str, value: &str, limit: &str) -> Vec<Notice> {
    let row = json!({"name": check, "passed": is_accepted, "value": value, "limit": limit,
        "source": "safety.yaml", "unit": "usd"});
    entry_with(is_accepted, row)
}

fn entry_with(is_accepted: bool, row: Value) -> Vec<Notice> {
    let decision = Decision {
        timestamp: Time::parse(AT).unwrap(),
        status: if is_accepted {
            Status::Success
        } else {
            Status::Rejected
        },
        strategy: Some("trend".to_owned()),
        decision: Some(if is_accepted {
            Ruling::Accepted
        } else {
            Ruling::Rejected
        }),
        checks: vec![serde_json::from_value(row).unwrap()],
        ..Decision::default()
    };
    of(&Record::Decision(Box::new(decision)))
}

#[test]
fn a_limit_that_a_row_warns_of_is_told_once_a_day_where_the_entry_is_accepted() {
    let check = "max_single_position";
    let row = |warning: bool| {
        let mut row = json!({"name": check, "passed": true, "value": "800", "limit": "1000",
            "source": "safety.yaml", "unit": "usd"});
        if warning {
            row["warning"] = true.into();
        }
        row
    };
    assert_eq!(entry_with(true, row(false)), []);
    assert_eq!(
        entry_with(false, row(true)),
        [],
        "a refused entry fills nothing"
    );
    let notices = entry_with(true, row(true));
    assert_eq!(notices.len(), 1);
    let found = (notices[0].kind, notices[0].level);
    assert_eq!(found, (Kind::LimitNear, Level::Alarm));
    let once = "max_single_position 2026-03-02T00:00:00.000Z";
    assert_eq!(notices[0].once.as_deref(), Some(once));
}

#[test]
fn a_strategy_that_a_row_of_losses_or_refusals_closes_is_told() {
    for check in ["loss_streak", "reject_streak"] {
        let row = json!({"name": check, "passed": false, "value": "5", "limit": "5",
            "source": "safety.yaml", "unit": "count"});
        let notices = entry_with(false, row);
        assert_eq!(notices.len(), 1, "{check}");
        let found = (notices[0].kind, notices[0].level);
        assert_eq!(found, (Kind::EntriesClosed, Level::Alarm));
    }
}

#[test]
fn an_override_and_its_end_are_told() {
    let set = json!({"value": "0.08", "until": AT, "by": "owner", "at": AT, "line": 7,
        "reason": "the roll"});
    let change = json!({"LimitOverridden": {"limit": "max_single_position", "set": set}});
    let notice = one("tick", json!([change]));
    assert_eq!(
        (notice.kind, notice.level),
        (Kind::LimitOverridden, Level::Info)
    );
    assert_eq!(notice.text, "by owner: the roll");
    assert_eq!(notice.remedy, "spoolgate limits end max_single_position");
    let change = json!({"OverrideEnded": {"limit": "max_single_position"}});
    let notice = one("tick", json!([change]));
    assert_eq!(notice.kind, Kind::LimitOverridden);
}

#[test]
fn a_loss_that_refuses_entries_is_told_once_a_day() {
    let notices = entry(false, "daily_loss_halt", "-501", "-500");
    assert_eq!(notices.len(), 1);
    assert_eq!(
        (notices[0].kind, notices[0].level),
        (Kind::LossStop, Level::Alarm)
    );
    let once = "daily_loss_halt 2026-03-02T00:00:00.000Z";
    assert_eq!(notices[0].once.as_deref(), Some(once));
    assert_eq!(entry(true, "daily_loss_halt", "-499", "-500"), []);
}

#[test]
fn a_program_reads_one_line_without_characters_that_a_terminal_obeys() {
    let halt =
        json!({"by": "owner", "at": AT, "reason": format!("a\n\u{1b}[2J{}", "x".repeat(2000))});
    let notice = one("tick", json!([{"HaltSet": {"halt": halt}}]));
    let line = notice
        .to_line("n-418-0", Time::parse(AT).unwrap(), 418)
        .unwrap();
    assert_eq!(line.matches('\n').count(), 1);
    let read: Value = serde_json::from_str(&line).unwrap();
    let keys: Vec<&String> = read.as_object().unwrap().keys().collect();
    assert_eq!(
        keys.len(),
        9,
        "{keys:?}: `ref` is absent where a notice names nothing"
    );
    assert_eq!(read["version"], 1);
    assert_eq!(
        (&read["id"], &read["kind"]),
        (&json!("n-418-0"), &json!("halt"))
    );
    assert_eq!(
        (&read["level"], &read["line"]),
        (&json!("alarm"), &json!(418))
    );
    assert_eq!(read["at"], "2026-03-02T12:00:00.000Z");
    let text = read["text"].as_str().unwrap();
    assert!(!text.contains(|c: char| c.is_control()), "{text}");
    assert!(text.chars().count() <= QUOTED_CHARS_MAX + 3, "{text}");
}

#[test]
fn a_line_names_the_receiver_that_was_not_told() {
    let note = not_told("phone", "n-418-0", Kind::Halt, 4);
    assert_eq!(receiver_of(&note), Some("phone"));
    let body = json!({"timestamp": AT, "note": note, "changes": []});
    let notices = notices("not_told", &body);
    assert_eq!(notices[0].not_to.as_deref(), Some("phone"));
}

/// What a person reads of a halt says what it covers, what it closes and how to end it.
#[test]
fn halts_of_parts_and_halts_that_close_positions_say_so() {
    let halt = json!({"by": "owner", "at": AT, "reason": "trouble", "flatten": true});
    let set = json!({"on": {"strategy": "trend"}, "halt": halt});
    let notice = one("tick", json!([{"HaltSet": set}]));
    let title = "entries of strategy `trend` are halted, and positions are closed at the market";
    assert_eq!(notice.title, title);
    let clear = "spoolgate halt clear --strategy trend --reason WHY";
    assert_eq!(notice.remedy, clear);
    let file = json!([{"HaltFile": {"present": true, "flatten": true}}]);
    let title = one("halt", file).title;
    assert!(
        title.ends_with("and positions are closed at the market"),
        "{title}"
    );
    let drilled = json!({"timestamp": AT, "note": "n", "changes": [{"Drilled": {"at": AT}}]});
    assert_eq!(notices("tick", &drilled), []);
}

/// Entries that a row of market data or a decision withdraws are told as well.
#[test]
fn pulls_in_other_lines_are_told() {
    let why = json!({"check": "thesis_valid"});
    let closed = json!({"OrderClosed": {"order_id": "o-1", "end": "pulled", "at": AT, "why": why}});
    let cancelled = json!({"OrderClosed": {"order_id": "o-2", "end": "cancelled", "at": AT}});
    let notice = one("tick", json!([{"Book": closed}, {"Book": cancelled}]));
    assert_eq!((notice.kind, notice.level), (Kind::Pull, Level::Act));
    assert_eq!(notice.text, "1 entries, the first by `thesis_valid`");
    let body = json!({"timestamp": AT, "note": "n", "changes": [{"Book": closed}]});
    assert_eq!(notices("pull", &body).len(), 1, "once");
}

/// Characters that change the direction of writing, end a line or are invisible are escaped, and
/// their neighbours are not.
#[test]
fn characters_that_mislead_a_reader_are_escaped() {
    let misleading = [
        "\u{61c}",
        "\u{200b}",
        "\u{200f}",
        "\u{2028}",
        "\u{202e}",
        "\u{2060}",
        "\u{2069}",
        "\u{feff}",
        "\u{e0000}",
        "\u{e007f}",
    ];
    for text in misleading {
        assert_eq!(quoted(text), text.escape_unicode().to_string());
    }
    for text in [
        "\u{61b}", "\u{61d}", "\u{200a}", "\u{2027}", "\u{202f}", "\u{205f}", "\u{fefe}",
    ] {
        assert_eq!(quoted(text), text);
    }
}

#[test]
fn losses_in_a_row_are_told_once_a_day() {
    let row = json!({"name": "loss_streak", "passed": false, "value": "3", "limit": "3",
        "source": "safety.yaml", "unit": "count"});
    let decision = Decision {
        timestamp: Time::parse(AT).unwrap(),
        status: Status::Rejected,
        decision: Some(Ruling::Rejected),
        strategy: Some("trend".to_owned()),
        checks: vec![serde_json::from_value(row).unwrap()],
        ..Decision::default()
    };
    let notices = of(&Record::Decision(Box::new(decision)));
    assert_eq!(notices.len(), 1);
    assert_eq!(notices[0].kind, Kind::EntriesClosed);
    let once = "loss_streak trend 2026-03-02T00:00:00.000Z";
    assert_eq!(notices[0].once.as_deref(), Some(once));
}
