//! Overrides of limits: what they allow, what they refuse, what is pulled at their end, and that a
//! replay writes the same lines.

use super::halts::replays;
use crate::kit::desk::{Desk, failed, order};
use crate::kit::ledger_files::lines_of;
use serde_json::{Value, json};
use spoolgate_gate::portfolio::portfolio;
use spoolgate_home::Home;
use spoolgate_home::batch::Outcome;
use spoolgate_host::clock::Clock;
use spoolgate_trading::usage::LimitUse;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::code::Code;
use spoolgate_wire::ids::OrderId;
use spoolgate_wire::limits::LimitName;

fn a(text: &str) -> Amount {
    Amount::parse_exact(text).unwrap()
}

fn lines(desk: &Desk, kind: &str) -> Vec<Value> {
    let log = desk.place.disk.get("audit/log-00000001.jsonl").unwrap();
    let lines = lines_of(&log).into_iter();
    let lines = lines.map(|line| serde_json::from_slice::<Value>(&line).unwrap());
    lines.filter(|line| line["kind"] == kind).collect()
}

/// The lines of overrides that ended.
fn ends(desk: &Desk) -> Vec<Value> {
    let is_end = |line: &Value| line["note"].as_str().unwrap().contains("override");
    lines(desk, "tick").into_iter().filter(is_end).collect()
}

/// The payload of an override of `max_single_position` that lasts this long.
fn payload(desk: &Desk, value: &str, lasts_ms: i64) -> String {
    let until = desk.place.clock.now().plus_ms(lasts_ms);
    json!({"limit": "max_single_position", "value": value, "until": until, "reason": "the roll"})
        .to_string()
}

fn set(desk: &Desk, home: &mut Home, id: &str, value: &str, lasts_ms: i64) -> Outcome {
    let payload = payload(desk, value, lasts_ms);
    desk.one_as_owner(home, id, "limits.override", &payload)
}

fn refusal(outcome: &Outcome) -> (Code, String) {
    let error = outcome.answer.error.as_ref().unwrap();
    (error.code, error.message.clone())
}

/// The row of `max_single_position` as `portfolio` shows it.
fn shown(desk: &Desk, home: &Home) -> LimitUse {
    let now = desk.place.clock.now();
    let limits = portfolio(home.state(), home.rulebook(), now).limits;
    let mut rows = limits.into_iter();
    rows.find(|row| row.check == "max_single_position" && row.of == "BTC-USD")
        .unwrap()
}

fn enter(desk: &Desk, home: &mut Home, id: &str, size: &str, thesis: &str) -> Outcome {
    let order = order("trend", "buy", size, Some("6750"), thesis);
    desk.one(home, "trend-bot", id, "order.submit", &order)
}

fn pass_ms(desk: &Desk, ms: i64) {
    let clock = &desk.place.clock;
    clock.set(clock.now().plus_ms(ms));
}

fn works(home: &Home, outcome: &Outcome) -> bool {
    let id: OrderId = outcome.decision.order_id.unwrap();
    home.state().book.orders.contains_key(&id)
}

/// The file has 0.05, so 250 of 5000; an order of 0.03 BTC is worth about 204, two of them 408.
const LIMITS: &str = "max_single_position: 0.05\nmax_order_value: 1000\nmax_spread: 0.5\n\
    max_single_trade_risk: 0.02\nmax_same_direction_exposure: 0.5\nmax_correlated_group: 0.5\n\
    duplicate_window_s: 0";

#[test]
fn what_an_override_of_a_minute_allows_is_pulled_at_its_end() {
    for is_ended_by_hand in [false, true] {
        let desk = Desk::with_limits(LIMITS);
        let mut home = desk.open();
        let first = enter(&desk, &mut home, "first", "0.03", "btc-dip-long");
        assert_eq!(failed(&first), [""; 0]);
        let second = enter(&desk, &mut home, "second", "0.02", "btc-range-long");
        assert_eq!(failed(&second), ["max_single_position"]);
        desk.place.pass_s(40);
        let done = set(&desk, &mut home, "set", "0.1", 60_000);
        assert!(done.answer.error.is_none(), "{done:?}");
        let row = shown(&desk, &home);
        assert_eq!(row.limit.map(Amount::normalized), Some(a("500")));
        let until = desk.place.clock.now().plus_ms(60_000).clock();
        let line = done.seq;
        let source = format!("safety.yaml (override until {until}, line {line})");
        assert_eq!(row.source, source);
        let second = enter(&desk, &mut home, "again", "0.02", "btc-range-long");
        assert_eq!(failed(&second), [""; 0]);
        let own = |outcome: &Outcome| {
            let rows = &outcome.decision.checks;
            let mut rows = rows.iter().filter(|row| row.name == "max_single_position");
            rows.next().unwrap().source.to_string()
        };
        assert_eq!(own(&second), source);
        assert!(works(&home, &second));
        if is_ended_by_hand {
            let end = r#"{"limit":"max_single_position"}"#;
            desk.one_as_owner(&mut home, "end", "limits.end", end);
            assert_eq!(ends(&desk), [] as [Value; 0]);
        } else {
            // A millisecond before its end everything stays.
            pass_ms(&desk, 59_999);
            home.write_news().unwrap();
            assert_eq!(ends(&desk), [] as [Value; 0]);
            assert!(works(&home, &second));
            pass_ms(&desk, 1);
            home.write_news().unwrap();
            let ends = ends(&desk);
            assert_eq!(ends.len(), 1);
            let note = "the override of `max_single_position` ended: 0.05 of safety.yaml applies \
                again";
            assert_eq!(ends[0]["note"], note);
        }
        assert!(
            works(&home, &first) && !works(&home, &second),
            "without a margin"
        );
        assert_eq!(lines(&desk, "pull").len(), 1);
        let row = shown(&desk, &home);
        assert_eq!((row.limit, &*row.source), (Some(a("250")), "safety.yaml"));
        assert!(home.state().overrides.is_empty());
        let rules = home.rulebook();
        assert_eq!(rules.limits_of_file(), &rules.safety);
        replays(&desk.place, home);
    }
}

#[test]
fn an_override_has_bounds_and_only_people_set_one() {
    let desk = Desk::with_limits(LIMITS);
    let mut home = desk.open();
    const DAY_MS: i64 = 86_400_000;
    for (nth, (value, lasts_ms, why)) in [
        ("0.15", 60_000, Some("above 0.1, which is 2 times the 0.05")),
        ("0.1000000001", 60_000, Some("above 0.1")),
        ("0.1", 60_000, None),
        ("0.0000000001", 60_000, None),
        ("0.06", 25 * 3_600_000, Some("more than 24 h ahead")),
        ("0.06", DAY_MS + 1, Some("more than 24 h ahead")),
        ("0.06", DAY_MS, None),
        ("0.06", 0, Some("has passed")),
        ("0.06", -1, Some("has passed")),
        ("0.06", 1, None),
    ]
    .into_iter()
    .enumerate()
    {
        let done = set(&desk, &mut home, &format!("set-{nth}"), value, lasts_ms);
        match why {
            Some(why) => {
                let (code, message) = refusal(&done);
                assert_eq!(code, Code::StateConflict, "{value} {lasts_ms}");
                assert!(message.contains(why), "{message}");
            }
            None => assert!(done.answer.error.is_none(), "{done:?}"),
        }
    }
    for (nth, wrong) in ["0", "-0.01"].into_iter().enumerate() {
        let done = set(&desk, &mut home, &format!("wrong-{nth}"), wrong, 60_000);
        assert_eq!(refusal(&done).0, Code::MalformedPayload);
    }
    let until = desk.place.clock.now().plus_ms(60_000);
    for (nth, name) in ["max_drawdown", "max_order_value", "nothing"]
        .into_iter()
        .enumerate()
    {
        let payload = json!({"limit": name, "value": "0.1", "until": until, "reason": "r"});
        let id = format!("name-{nth}");
        let done = desk.one_as_owner(&mut home, &id, "limits.override", &payload.to_string());
        assert_eq!(refusal(&done).0, Code::MalformedPayload, "{name}");
    }
    // An agent's key.
    desk.place.pass_s(1);
    home.write_news().unwrap();
    assert!(home.state().overrides.is_empty(), "the last one is over");
    let own = payload(&desk, "0.06", 60_000);
    let done = desk.one(&mut home, "trend-bot", "agent", "limits.override", &own);
    assert_eq!(refusal(&done).0, Code::NotPermitted);
    let end = r#"{"limit":"max_single_position"}"#;
    let done = desk.one(&mut home, "trend-bot", "agent-end", "limits.end", end);
    assert_eq!(refusal(&done).0, Code::NotPermitted);
    let done = desk.one_as_owner(&mut home, "end", "limits.end", end);
    assert_eq!(refusal(&done).0, Code::NotFound);
    assert_eq!(*home.rulebook().safety.max_single_position, a("0.05"));
    replays(&desk.place, home);
}

#[test]
fn changed_rules_cut_an_override_to_twice_their_value_and_a_smaller_one_pulls_at_once() {
    let desk = Desk::with_limits(LIMITS);
    let mut home = desk.open();
    set(&desk, &mut home, "set", "0.09", 3_600_000);
    let first = enter(&desk, &mut home, "first", "0.03", "btc-dip-long");
    desk.place.pass_s(1);
    let second = enter(&desk, &mut home, "second", "0.03", "btc-range-long");
    assert_eq!((failed(&first), failed(&second)), (vec![], vec![]));
    let load = |home: &mut Home| {
        for _ in 0..3 {
            desk.place.pass_s(2);
            home.write_news().unwrap();
        }
    };
    let in_force = |home: &Home| home.rulebook().safety.limit(LimitName::SinglePosition);
    // 408 of 450 are used; twice 0.04 is 400.
    desk.edit("rules/safety.yaml", |text| {
        text.replace("max_single_position: 0.05", "max_single_position: 0.04")
    });
    load(&mut home);
    assert_eq!(in_force(&home).normalized(), a("0.08"));
    assert!(works(&home, &first) && !works(&home, &second));
    // Back: it is what was set, as long as it lasts.
    desk.edit("rules/safety.yaml", |text| {
        text.replace("max_single_position: 0.04", "max_single_position: 0.05")
    });
    load(&mut home);
    assert_eq!(in_force(&home), a("0.09"));
    // A smaller value than the file's is a tighter limit.
    set(&desk, &mut home, "less", "0.01", 3_600_000);
    assert!(!works(&home, &first));
    assert_eq!(lines(&desk, "pull").len(), 2);
    // A restart keeps it.
    home.finish("done").unwrap();
    drop(home);
    let mut home = desk.open();
    assert_eq!(
        shown(&desk, &home).limit.map(Amount::normalized),
        Some(a("50"))
    );
    let third = enter(&desk, &mut home, "third", "0.01", "btc-dip-long");
    assert_eq!(failed(&third), ["max_single_position"]);
    replays(&desk.place, home);
}

#[test]
fn a_loss_limit_that_is_overridden_halts_and_opens() {
    let desk = Desk::with_limits(&format!("{LIMITS}\nmax_daily_loss: 250"));
    let mut home = desk.open();
    let buy = order("trend", "buy", "0.03", None, "btc-dip-long");
    let bought = desk.one(&mut home, "trend-bot", "buy", "order.submit", &buy);
    assert_eq!(failed(&bought), [""; 0]);
    desk.bar(&mut home, "6800", "6800");
    desk.bar(&mut home, "6760", "6760");
    let lost = |home: &Home| {
        let now = desk.place.clock.now();
        let day = portfolio(home.state(), home.rulebook(), now).day_pnl;
        -day.unwrap()
    };
    let loss = lost(&home);
    assert!(loss.is_positive(), "{loss}");
    let until = desk.place.clock.now().plus_ms(3_600_000);
    let set = |home: &mut Home, id: &str, value: &str| {
        let limit = "max_daily_loss";
        let payload = json!({"limit": limit, "value": value, "until": until, "reason": "r"});
        let done = desk.one_as_owner(home, id, "limits.override", &payload.to_string());
        assert!(done.answer.error.is_none(), "{done:?}");
    };
    let unit = a("0.0000000001");
    // Equality halts.
    let exact = loss.to_string();
    set(&mut home, "at", &exact);
    let asked = enter(&desk, &mut home, "e-1", "0.002", "btc-range-long");
    assert!(
        failed(&asked)
            .iter()
            .any(|check| check == "daily_loss_halt")
    );
    let row = asked.decision.checks.iter();
    let mut row = row.filter(|row| row.name == "daily_loss_halt");
    assert!(row.next().unwrap().source.contains("(override until "));
    let more = loss.checked_add(unit).unwrap_or(loss);
    set(&mut home, "above", &more.to_string());
    let asked = enter(&desk, &mut home, "e-2", "0.002", "btc-range-long");
    assert!(
        failed(&asked)
            .iter()
            .all(|check| check != "daily_loss_halt")
    );
    replays(&desk.place, home);
}
