//! Control decisions in a home: racing decisions in a batch, a rebuilt index, their effect on a
//! strategy's orders, and which of them pass a quota.

use super::decision;
use crate::kit::desk::{Desk, failed, order};
use crate::kit::place::drain;
use serde_json::{Value, json};
use spoolgate_gate::exempt::Standing;
use spoolgate_gate::prepare::{Keyring, Origin};
use spoolgate_gate::storage::Level;
use spoolgate_gate::{Delivery, Record, prepare};
use spoolgate_home::Home;
use spoolgate_home::batch::Outcome;
use spoolgate_host::clock::Clock;
use spoolgate_host::keyring::key_id;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::code::Code;
use spoolgate_wire::envelope::Envelope;
use spoolgate_wire::ids::Leg;
use spoolgate_wire::signing::{SignKey, VerifyKey};
use spoolgate_wire::time::Time;

impl Keyring for Desk {
    fn verify_key(&self, id: &str) -> Option<VerifyKey> {
        self.keys
            .values()
            .map(SignKey::verify_key)
            .find(|key| key_id(key) == id)
    }
}

fn data(outcome: &Outcome) -> Value {
    serde_json::from_str(
        outcome
            .answer
            .data
            .as_ref()
            .expect("a contract answer")
            .get(),
    )
    .unwrap()
}

#[test]
fn the_second_of_a_batch_sees_the_first() {
    let desk = Desk::with_limits("");
    let mut home = desk.place.open().unwrap();
    let believes = json!({"expected_active_strategy_id": "trend"});
    let switch = json!({"action": "switch", "target_strategy_id": "range",
        "expected_active_strategy_id": "trend"});
    desk.ask("hermes", "r1", "control.apply", &decision("d1", switch));
    desk.ask("hermes", "r2", "control.apply", &decision("d2", believes));
    // The same decision under other request ids, and other bytes under its id.
    desk.ask("hermes", "r3", "control.apply", &decision("d3", json!({})));
    desk.ask("hermes", "r4", "control.apply", &decision("d3", json!({})));
    desk.ask(
        "hermes",
        "r5",
        "control.apply",
        &decision("d3", json!({"reason": "another"})),
    );
    let outcomes = drain(&mut home).unwrap();
    let batches: Vec<u64> = outcomes
        .iter()
        .map(|outcome| home.record(outcome.seq).unwrap().0)
        .collect();
    assert!(
        batches.len() == 5 && batches.iter().all(|batch| *batch == batches[0]),
        "{batches:?}"
    );
    let told: Vec<(Value, Value)> = outcomes
        .iter()
        .map(data)
        .map(|data| (data["status"].clone(), data["errors"].clone()))
        .collect();
    assert_eq!(told[0], (json!("applied"), json!([])));
    assert_eq!(told[1], (json!("rejected"), json!(["expectation_failed"])));
    assert_eq!(told[2], (json!("applied"), json!([])));
    assert_eq!(
        told[4],
        (json!("rejected"), json!(["decision_id_conflict"]))
    );
    assert_eq!(
        outcomes[3].answer.data.as_ref().unwrap().get(),
        outcomes[2].answer.data.as_ref().unwrap().get()
    );
    assert!(
        outcomes[3].decision.changes.is_empty(),
        "nothing is done twice"
    );
    let state = |home: &Home| serde_json::to_value(&home.state().control).unwrap();
    let switched_at = desk.place.clock.now();
    let expect = json!({"concerns": {"paper:btc-usd": {"current": "range", "paused": true,
        "risk_mode": "normal", "recent": {"riskier": [switched_at]}}}});
    assert_eq!(state(&home), expect);
    let (index, before) = (home.store().dump().unwrap(), state(&home));
    assert_eq!(
        index
            .iter()
            .filter(|row| row.starts_with("control "))
            .count(),
        3
    );
    drop(home);
    // The same from the ledger alone, and again after a lost index.
    let (_, same) = Home::rebuild(desk.place.root.path(), desk.place.seams()).unwrap();
    assert!(same);
    desk.place.forget_state();
    let mut home = desk.place.open().unwrap();
    assert_eq!(
        (home.store().dump().unwrap(), state(&home)),
        (index, before)
    );
    // Although it was sealed long ago, the first answer is returned again.
    desk.place.pass_s(3600);
    let again = desk.one(
        &mut home,
        "hermes",
        "r6",
        "control.apply",
        &decision("d3", json!({})),
    );
    assert_eq!(
        again.answer.data.as_ref().unwrap().get(),
        outcomes[2].answer.data.as_ref().unwrap().get()
    );
    assert_eq!(again.answer.request_id, "r6");
    let rejected = decision("d2", json!({"expected_active_strategy_id": "trend"}));
    let again = desk.one(&mut home, "hermes", "r7", "control.apply", &rejected);
    assert_eq!(again.answer.error, outcomes[1].answer.error);
}

#[test]
fn a_malformed_decision_is_answered_and_recorded() {
    let desk = Desk::with_limits("");
    let mut home = desk.place.open().unwrap();
    for (n, (payload, errors)) in [
        (
            r#"{"decision_id":["x"],"action":"keep","confidence":"high"}"#,
            json!(["action_not_supported"]),
        ),
        (
            r#"{"decision_id":7,"action":"pause","confidence":true}"#,
            json!(["confidence_out_of_range"]),
        ),
        ("{}", json!(["malformed"])),
    ]
    .into_iter()
    .enumerate()
    {
        let outcome = desk.one(
            &mut home,
            "hermes",
            &format!("r{n}"),
            "control.apply",
            payload,
        );
        let said = data(&outcome);
        assert_eq!(
            (&said["status"], &said["errors"], &said["decision_id"]),
            (&json!("rejected"), &errors, &Value::Null)
        );
        assert_eq!(outcome.decision.metadata.code, Some(Code::MalformedPayload));
        let Record::Decision(line) = home.record(outcome.seq).unwrap().1 else {
            panic!("no decision")
        };
        assert_eq!(line.payload.as_deref(), Some(payload));
        assert_eq!(line.request_type.as_deref(), Some("ControlDecision"));
        assert!(
            desk.place
                .disk
                .get(format!("spool/out/r{n}.json"))
                .is_some()
        );
    }
    assert!(home.state().control.concerns.is_empty());
}

/// A home that trades BTC-USD under control decisions of `hermes`.
struct Floor<'a> {
    desk: &'a Desk,
    home: Home,
}

impl Floor<'_> {
    fn trade(&mut self, id: &str, payload: &str) -> Outcome {
        self.desk
            .one(&mut self.home, "trend-bot", id, "order.submit", payload)
    }

    /// Submits an entry of this size that rests below the market.
    fn entry(&mut self, id: &str, strategy: &str, size: &str) -> Outcome {
        self.trade(
            id,
            &order(strategy, "buy", size, Some("6700"), "btc-dip-long"),
        )
    }

    fn control(&mut self, id: &str, members: Value) -> Outcome {
        let payload = decision(id, members);
        self.desk
            .one(&mut self.home, "hermes", id, "control.apply", &payload)
    }

    fn is_inactive(outcome: &Outcome) -> bool {
        failed(outcome).contains(&"strategy_active".to_owned())
    }
}

#[test]
fn control_closes_entries_and_nothing_else() {
    // The controller tries one decision right after the other.
    let desk = Desk::with_limits("control_dwell_s: 0");
    let home = desk.place.open().unwrap();
    let mut floor = Floor { desk: &desk, home };
    let at_market = |side: &str, size: &str| order("trend", side, size, None, "btc-range-long");
    let bought = floor.trade("buy-1", &at_market("buy", "0.02"));
    assert_eq!(failed(&bought), [""; 0]);
    desk.bar(&mut floor.home, "6800", "6800");
    let resting = floor.entry("buy-2", "trend", "0.002");
    let paused = floor.control("d1", json!({}));
    let said = data(&paused);
    assert_eq!(
        said["result"]["cancelled_orders"],
        json!([resting.decision.order_id.unwrap()])
    );
    assert_eq!(
        said["result"]["positions_kept"],
        json!([{"strategy": "trend", "symbol": "BTC-USD"}])
    );
    assert_eq!(
        failed(&floor.entry("buy-3", "trend", "0.003")),
        ["strategy_active"]
    );
    assert_eq!(
        failed(&floor.trade("sell-1", &at_market("sell", "0.01"))),
        [""; 0]
    );
    let orders = &floor.home.state().book.orders;
    let stop = *orders.keys().find(|id| id.leg == Leg::Stop).unwrap();
    let tighter = json!({"order_id": stop, "new_stop": "6650"}).to_string();
    let action = "order.tighten_stop";
    let tightened = desk.one(&mut floor.home, "trend-bot", "tighten", action, &tighter);
    assert_eq!(failed(&tightened), [""; 0]);
    desk.bar(&mut floor.home, "6790", "6790");
    // Resumed in mode reduced: half of the usual limit.
    floor.control(
        "d2",
        json!({"action": "set_risk_mode", "risk_mode": "reduced"}),
    );
    let resumed = floor.control("d3", json!({"action": "resume", "risk_mode": "reduced"}));
    let metadata = &resumed.decision.metadata;
    assert_eq!(data(&resumed)["status"], "applied", "{metadata:?}");
    let reduced = floor.entry("buy-4", "trend", "0.004");
    let mut rows = reduced.decision.checks.iter();
    let row = rows.find(|row| row.name == "max_order_value").unwrap();
    assert_eq!(
        (row.limit, row.source.as_ref()),
        (Amount::parse_exact("500").ok(), "safety.yaml (reduced)")
    );
    floor.control(
        "d4",
        json!({"action": "set_risk_mode", "risk_mode": "exits_only"}),
    );
    assert!(Floor::is_inactive(&floor.entry("buy-5", "trend", "0.005")));
    // Switched away: it is on standby, and the other one is active.
    floor.control(
        "d5",
        json!({"action": "set_risk_mode", "risk_mode": "normal"}),
    );
    assert!(Floor::is_inactive(&floor.entry("buy-6", "range", "0.006")));
    floor.control(
        "d6",
        json!({"action": "switch", "target_strategy_id": "range"}),
    );
    assert!(!Floor::is_inactive(&floor.entry("buy-7", "range", "0.007")));
    assert_eq!(
        failed(&floor.entry("buy-8", "trend", "0.008")),
        ["strategy_active"]
    );
    assert_eq!(
        failed(&floor.trade("sell-2", &at_market("sell", "0.01"))),
        [""; 0]
    );
}

/// What a person holds, and what agents did lately, is the same from the ledger alone.
#[test]
fn one_of_forty_switches_is_applied_and_the_owner_s_pause_stays() {
    let desk = Desk::with_limits("");
    let mut home = desk.place.open().unwrap();
    for n in 0..40 {
        let target = if n == 0 { "range" } else { "trend" };
        let switch = json!({"action": "switch", "target_strategy_id": target});
        let id = format!("s{n:02}");
        desk.ask("hermes", &id, "control.apply", &decision(&id, switch));
    }
    let outcomes = drain(&mut home).unwrap();
    let told: Vec<Value> = outcomes.iter().map(data).collect();
    assert_eq!(told[0]["status"], "applied");
    assert_eq!(told.len(), 40);
    for late in &told[1..] {
        assert_eq!(late["errors"], json!(["too_soon"]));
        assert_eq!(late["result"]["retry_after_ms"], 60_000);
    }
    let pause = decision("p", json!({"reason": "EMERGENCY"}));
    desk.place.ask_as_owner("p", "control.apply", &pause);
    drain(&mut home).unwrap();
    desk.place.pass_s(60);
    desk.bar(&mut home, "6800", "6800");
    let resume = decision("r", json!({"action": "resume"}));
    let refused = desk.one(&mut home, "hermes", "r", "control.apply", &resume);
    assert_eq!(data(&refused)["errors"], json!(["held_by_person"]));
    let before = home.state().control.clone();
    drop(home);
    let (_, same) = Home::rebuild(desk.place.root.path(), desk.place.seams()).unwrap();
    assert!(same);
    desk.place.forget_state();
    let mut home = desk.place.open().unwrap();
    assert_eq!(home.state().control, before);
    let held = &before.concerns.values().next().unwrap().held_by.paused;
    assert_eq!(held.as_ref().unwrap().principal.as_str(), "owner");
    desk.place.ask_as_owner("again", "control.apply", &resume);
    let outcomes = drain(&mut home).unwrap();
    assert_eq!(data(outcomes.last().unwrap())["status"], "applied");
}

#[test]
fn every_agent_may_read_the_strategies() {
    let desk = Desk::with_limits("");
    let home = desk.place.open().unwrap();
    let mut floor = Floor { desk: &desk, home };
    floor.control(
        "d1",
        json!({"action": "switch", "target_strategy_id": "range"}),
    );
    let mut look = |id: &str, action: &str, payload: &str| {
        desk.one(&mut floor.home, "research-bot", id, action, payload)
    };
    let listed = data(&look("list", "strategies.list", "{}"));
    let strategies = listed["Strategies"].as_array().unwrap();
    let told: Vec<_> = strategies
        .iter()
        .map(|one| (&one["strategy_id"], &one["status"]))
        .collect();
    assert_eq!(
        told,
        [
            (&json!("range"), &json!("active")),
            (&json!("trend"), &json!("standby"))
        ]
    );
    let one = look("get", "strategies.get", r#"{"strategy_id":"trend"}"#);
    assert_eq!(data(&one)["Strategy"]["file_status"], "active");
    let none = look("get-2", "strategies.get", r#"{"strategy_id":"nobody"}"#);
    assert_eq!(none.decision.metadata.code, Some(Code::NotFound));
}

#[test]
fn only_requests_that_make_things_safer_pass_a_quota() {
    let desk = Desk::with_limits("");
    let mut home = desk.place.open().unwrap();
    let passes = |home: &Home, who: &str, payload: &str| {
        let now = desk.place.clock.now();
        desk.ask(who, "probe", "control.apply", payload);
        let content = desk.place.disk.get("spool/in/probe.json").unwrap();
        desk.place.disk.drop_file("spool/in/probe.json");
        assert!(Envelope::parse(&content).is_ok());
        let file = "probe.json".to_owned();
        let delivery = Delivery {
            origin: Origin::Flat,
            shown: file.clone(),
            file,
            content: Ok(content),
        };
        let prepared = prepare(&delivery, home.state(), &desk, now);
        Standing::of(
            &prepared,
            home.state(),
            home.rulebook(),
            Level::Normal,
            Time::EPOCH,
        ) == Standing::Passes
    };
    let mode = |mode: &str| decision("d", json!({"action": "set_risk_mode", "risk_mode": mode}));
    let cases = [
        ("hermes", decision("d", json!({})), true),
        ("trend-bot", decision("d", json!({})), true),
        ("research-bot", decision("d", json!({})), false),
        ("hermes", mode("exits_only"), true),
        ("hermes", mode("normal"), false),
        ("trend-bot", mode("exits_only"), true),
        ("hermes", decision("d", json!({"dry_run": true})), false),
        ("hermes", decision("d", json!({"action": "resume"})), false),
        (
            "hermes",
            decision(
                "d",
                json!({"action": "switch", "target_strategy_id": "range"}),
            ),
            false,
        ),
        ("hermes", "{}".to_owned(), false),
    ];
    desk.one(
        &mut home,
        "hermes",
        "mode",
        "control.apply",
        &mode("reduced"),
    );
    for (who, payload, expect) in cases {
        assert_eq!(passes(&home, who, &payload), expect, "{who} {payload}");
    }
    assert_eq!(home.state().control.concerns.len(), 1);
}
