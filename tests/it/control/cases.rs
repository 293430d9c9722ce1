//! The truth table of control decisions: `tests/data/control_cases.jsonl` has one case per line,
//! and each runs through the gate's own preparing, deciding and folding. A failure names the line.
//!
//! A case has `name`, `source`, `edit` (texts replaced in the rule files), `setup` (earlier steps),
//! `send` (members that differ from a pause of `paper:btc-usd`, as written), `drop` (members left
//! out) or `raw` (the whole payload), and `expect`: the members that the answer must have. What
//! holds for every answer is in `Bench::check_always`.

mod codes;

use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use spoolgate_control::Earlier;
use spoolgate_gate::decide::needs;
use spoolgate_gate::prepare::{Keyring, Origin};
use spoolgate_gate::record::{Decision, Record};
use spoolgate_gate::state::{ClockFault, Halt, KeyRecord};
use spoolgate_gate::{Change, Delivery, Lookups, State, decide, prepare, pulls};
use spoolgate_home::index::{Outstanding, Store, fold};
use spoolgate_rules::{Bundle, Rulebook};
use spoolgate_trading as trading;
use spoolgate_wire::admin::Algorithm;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::code::Code;
use spoolgate_wire::control::{ControlAttempt, ControlFault, ControlResponse, ControlStatus};
use spoolgate_wire::envelope::Envelope;
use spoolgate_wire::ids::{ConcernId, ControlId, OrderId, Principal};
use spoolgate_wire::signing::{SignKey, VerifyKey};
use spoolgate_wire::time::Time;

const NOW: &str = "2026-03-02T12:00:00Z";
const CASES: &str = include_str!("../../data/control_cases.jsonl");

/// Controllers with and without the right to override, owners of strategies, persons with and
/// without grants.
const PRINCIPALS: &str = "principals:
  - {name: owner, role: human}
  - {name: boss, role: human, control: {concerns: ['paper:btc-usd'], override: true}}
  - {name: hermes, role: agent, control: {concerns: ['paper:btc-usd'], override: false}}
  - {name: chief, role: agent, control: {concerns: ['paper:btc-usd'], override: true}}
  - {name: elsewhere, role: agent, control: {concerns: ['paper:eth-usd'], override: true}}
  - {name: trend-bot, role: agent, strategies: [trend]}
  - {name: range-bot, role: agent, strategies: [range]}
  - {name: other-bot, role: agent, strategies: [other, uuid, loner]}
  - {name: prices, role: feed}
";

fn strategy(name: &str, rest: &str) -> (String, String) {
    let text = format!(
        "name: {name}\n{rest}instruments: [BTC-USD]\ndirections: [long, short]\nstop_distance: \
            {{min: 0.001, max: 0.1}}\n"
    );
    (format!("rules/strategies/{name}.yaml"), text)
}

fn rules(edit: &Value) -> Rulebook {
    let mut files = BTreeMap::from([
        (
            "rules/safety.yaml".to_owned(),
            include_str!("../../../rules/safety.yaml").to_owned(),
        ),
        (
            "rules/instruments.yaml".to_owned(),
            include_str!("../../../rules/instruments.yaml").to_owned(),
        ),
        ("rules/principals.yaml".to_owned(), PRINCIPALS.to_owned()),
        strategy("trend", "account: paper\nmarket: btc-usd\nstatus: active\n"),
        strategy(
            "range",
            "account: paper\nmarket: btc-usd\nstatus: standby\n",
        ),
        strategy("other", "account: paper\nmarket: eth-usd\nstatus: active\n"),
        strategy(
            "uuid",
            "strategy_id: 0c555fee-e4c8-4543-ae70-c132517017e1\naccount: paper\nmarket: \
                btc-usd\nstatus: standby\n",
        ),
        strategy("loner", "status: active\n"),
    ]);
    for name in ["trend", "range", "other", "uuid", "loner"] {
        let thesis = format!(
            "---\nslug: of-{name}\nstrategy: {name}\nsymbol: BTC-USD\ndirection: long\n\
                expires: 2027-01-01T00:00:00Z\ninvalid_below: 100\n---\nWhy.\n"
        );
        files.insert(format!("proposals/theses/of-{name}.md"), thesis);
    }
    for replaced in edit.as_array().into_iter().flatten() {
        let [file, from, to] = [0, 1, 2].map(|n| replaced[n].as_str().unwrap());
        let text = files
            .get_mut(file)
            .unwrap_or_else(|| panic!("no rule file {file}"));
        assert!(text.contains(from), "{file} has no {from:?}");
        *text = text.replace(from, to);
    }
    let mut rules = Rulebook::compile(&Bundle { files }).unwrap();
    // Two entries fit, and one fits a reduced strategy.
    let most = Amount::parse_exact("0.09").unwrap();
    rules.safety.max_single_position = most.try_into().unwrap();
    rules
}

struct OneKey;

impl Keyring for OneKey {
    fn verify_key(&self, key_id: &str) -> Option<VerifyKey> {
        key_id
            .starts_with("00000000")
            .then_some(VerifyKey::Hmac([7; 32]))
    }
}

fn principal(name: &str) -> Principal {
    Principal::parse(name).unwrap()
}

/// Returns a payload: a pause with these differences.
fn payload(case: &BTreeMap<String, Box<RawValue>>) -> String {
    let read = |name: &str| case.get(name).map(|raw| raw.get());
    if let Some(raw) = read("raw") {
        return serde_json::from_str(raw).unwrap();
    }
    let mut members: BTreeMap<String, String> = [
        ("decision_id", r#""d1""#),
        ("concern_id", r#""paper:btc-usd""#),
        ("account_id", r#""paper""#),
        ("market_symbol", r#""btc-usd""#),
        ("action", r#""pause""#),
        ("reason", r#""why""#),
        ("confidence", "0.9"),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .collect();
    if let Some(send) = read("send") {
        let send: BTreeMap<String, Box<RawValue>> = serde_json::from_str(send).unwrap();
        members.extend(
            send.into_iter()
                .map(|(name, value)| (name, value.get().to_owned())),
        );
    }
    for name in read("drop")
        .map(|text| serde_json::from_str::<Vec<String>>(text).unwrap())
        .unwrap_or_default()
    {
        assert!(members.remove(&name).is_some(), "nothing to drop: {name}");
    }
    let texts: Vec<String> = members
        .iter()
        .map(|(name, value)| format!("\"{name}\":{value}"))
        .collect();
    format!("{{{}}}", texts.join(","))
}

/// A gate without a home.
struct Bench {
    rules: Rulebook,
    state: State,
    store: Store,
    outstanding: Outstanding,
    decisions: BTreeMap<u64, Decision>,
    blobs: BTreeMap<String, Vec<u8>>,
    now: Time,
    seq: u64,
}

impl Bench {
    fn new(rules: Rulebook) -> Bench {
        let now = Time::parse(NOW).unwrap();
        let mut bench = Bench {
            rules,
            state: State::default(),
            store: Store::in_memory().unwrap(),
            outstanding: Outstanding::new(),
            decisions: BTreeMap::new(),
            blobs: BTreeMap::new(),
            now,
            seq: 100,
        };
        for (n, name) in bench.rules.principals.keys().cloned().enumerate() {
            let key = KeyRecord {
                key_id: format!("{n:016x}"),
                principal: name,
                algorithm: Algorithm::HmacSha256,
                added_at: Time::EPOCH,
                ends_at: None,
                revoked_at: None,
            };
            bench.state.apply(&Change::KeyAdded(key)).unwrap();
        }
        bench.book(json!({"AccountAdjusted": {"amount": "5000"}}));
        bench.prices();
        bench
    }

    fn book(&mut self, change: Value) {
        let change: trading::Change = serde_json::from_value(change).unwrap();
        self.state.apply(&Change::Book(change)).unwrap();
    }

    fn prices(&mut self) {
        let time = self.now;
        let quote = json!({"bid": "6800", "ask": "6801", "time": time});
        let last = json!({"price": "6800", "volume": null, "time": time});
        self.book(json!({"MarketMoved": {"symbol": "BTC-USD", "last": last, "quote": quote}}));
    }

    /// Enters 0.03 with a stop; this much of it fills.
    fn entry(&mut self, strategy: &str, filled: &str) -> u64 {
        self.seq += 1;
        let (id, at) = (self.seq, self.now);
        let thesis = format!("of-{strategy}");
        let source = match strategy {
            "trend" | "range" => format!("{strategy}-bot"),
            _ => "other-bot".to_owned(),
        };
        let order = |id: String, role: &str, side: &str, kind: &str, size: &str| {
            let (price, trigger) = if kind == "limit" {
                (json!("6800"), Value::Null)
            } else {
                (Value::Null, json!("6700"))
            };
            json!({"OrderPlaced": {"order_id": id, "source": source, "strategy": strategy,
                "symbol": "BTC-USD",
                "side": side, "role": role, "order_type": kind, "size": size, "filled": "0",
                    "price": price,
                "trigger": trigger, "triggered": false, "thesis_slug": thesis, "accepted_at": at}})
        };
        self.book(order(format!("o-{id}"), "entry", "buy", "limit", "0.03"));
        self.book(order(
            format!("o-{id}-stop"),
            "protective",
            "sell",
            "stop",
            "0",
        ));
        if filled != "0" {
            self.book(
                json!({"OrderFilled": {"order_id": format!("o-{id}"), "strategy": strategy,
                "symbol": "BTC-USD",
                "side": "buy", "role": "entry", "price": "6800", "size": filled, "multiplier": "1",
                    "fee": "0",
                "liquidity": "maker", "realised": "0", "market_time": at, "recorded_at": at}}),
            );
            self.book(json!({"StopResized": {"order_id": format!("o-{id}-stop"), "size": filled}}));
        }
        if filled == "0.03" {
            self.book(
                json!({"OrderClosed": {"order_id": format!("o-{id}"), "end": "filled", "at": at}}),
            );
        }
        id
    }

    fn step(&mut self, step: &RawValue) {
        let read: Value = serde_json::from_str(step.get()).unwrap();
        let named = read["strategy"].as_str().unwrap_or("trend").to_owned();
        let halt = || Halt {
            keep_orders: false,
            flatten: false,
            by: principal("owner"),
            at: Time::EPOCH,
            reason: "drill".to_owned(),
        };
        let change = match read["do"].as_str().unwrap() {
            "decide" => {
                let members: BTreeMap<String, Box<RawValue>> =
                    serde_json::from_str(step.get()).unwrap();
                let source = read["source"].as_str().unwrap_or("hermes");
                let decision = self.send(source, &payload(&members)).unwrap();
                let wanted = read["status"].as_str().unwrap_or("applied");
                assert_eq!(
                    response(&decision).unwrap().status.as_str(),
                    wanted,
                    "setup: {:?}",
                    decision.metadata
                );
                return;
            }
            "position" => {
                self.entry(&named, "0.03");
                return;
            }
            "entry" => {
                self.entry(&named, "0");
                return;
            }
            "half_entry" => {
                self.entry(&named, "0.01");
                return;
            }
            "uncovered" => {
                let id = self.entry(&named, "0.03");
                let at = self.now;
                return self.book(json!({"OrderClosed": {"order_id": format!("o-{id}-stop"),
                    "end": "cancelled", "at": at}}));
            }
            // An order under another id than its own, which no line of the gate creates.
            "broken_book" => {
                let id = OrderId::of_line(self.entry(&named, "0"));
                let order = self.state.book.orders.remove(&id).unwrap();
                return drop(
                    self.state
                        .book
                        .orders
                        .insert(OrderId::of_line(9_999), order),
                );
            }
            "mended_book" => {
                let order = self
                    .state
                    .book
                    .orders
                    .remove(&OrderId::of_line(9_999))
                    .unwrap();
                return drop(self.state.book.orders.insert(order.order_id, order));
            }
            "wait_s" => {
                self.now = self.now.plus_ms(read["s"].as_i64().unwrap() * 1000);
                return;
            }
            "prices" => return self.prices(),
            "rules" => {
                self.rules = rules(&read["edit"]);
                return;
            }
            "halt" => Change::HaltSet {
                principal: read["principal"].as_str().map(principal),
                on: None,
                halt: halt(),
            },
            "halt_file" => Change::HaltFile {
                present: true,
                flatten: false,
            },
            "drawdown" => {
                return self.book(json!({"DrawdownLatched": {"at": self.now, "equity": "4000"}}));
            }
            "clock_fault" => Change::ClockFaulted(ClockFault {
                from: self.now,
                to: self.now.plus_ms(-9000),
            }),
            "rulebook_fault" => Change::RulebookFaulted {
                fault: "rules/safety.yaml:1: a typo".to_owned(),
            },
            other => panic!("no step {other}"),
        };
        self.state.apply(&change).unwrap();
    }

    /// Signs, prepares, looks up, decides and folds. Returns the code of the answer if the request
    /// is not authentic.
    fn send(&mut self, source: &str, payload: &str) -> Result<Decision, Code> {
        self.seq += 1;
        let envelope = format!(
            r#"{{"id":"r{}","timestamp":"{}","action":"control.apply","payload":{payload},"source":"{source}","signature":"{}"}}"#,
            self.seq,
            self.now,
            "0".repeat(64)
        );
        let content = match Envelope::parse(envelope.as_bytes()) {
            Ok(mut envelope) => {
                envelope.signature = SignKey::Hmac([7; 32]).sign(&envelope.signing_string());
                envelope.to_json().into_bytes()
            }
            Err(_) => envelope.into_bytes(),
        };
        let file = "r.json".to_owned();
        let delivery = Delivery {
            origin: Origin::Flat,
            shown: file.clone(),
            file,
            content: Ok(content),
        };
        let prepared = prepare(&delivery, &self.state, &OneKey, self.now);
        if let Err(unverified) = &prepared.request {
            return Err(unverified.refusal.code);
        }
        let wanted = needs(&prepared, &self.rules);
        let decided = wanted
            .control
            .and_then(|(source, id)| self.earlier(&source, &id));
        let lookups = Lookups {
            decided,
            ..Lookups::default()
        };
        let decided = decide(
            &self.state,
            &self.rules,
            &prepared,
            &lookups,
            self.now,
            self.seq,
        );
        self.blobs.extend(decided.blobs);
        let record = Record::Decision(Box::new(decided.decision.clone()));
        let body = record.body().unwrap();
        assert_eq!(
            Record::parse("decision", &body)
                .unwrap()
                .unwrap()
                .body()
                .unwrap(),
            body
        );
        fold(
            &mut self.state,
            &self.store,
            &mut self.outstanding,
            self.seq,
            &record,
        )
        .unwrap();
        // What the decision no longer allows is pulled, as by the gate; a broken book is left alone.
        let orders = &self.state.book.orders;
        if orders.iter().any(|(id, order)| *id != order.order_id) {
            self.decisions.insert(self.seq, decided.decision.clone());
            return Ok(decided.decision);
        }
        let margin = pulls::margin(record.changes(), &self.rules);
        while let Some(line) = pulls::next(&self.state, &self.rules, margin, self.now) {
            for change in &line.changes {
                self.state.apply(change).unwrap();
            }
        }
        self.decisions.insert(self.seq, decided.decision.clone());
        Ok(decided.decision)
    }

    fn earlier(&self, source: &Principal, id: &ControlId) -> Option<Earlier> {
        let used = self.store.used_id(source, id).unwrap()?;
        let line = &self.decisions[&used.seq];
        let blob = |digest: &Option<String>| {
            digest
                .as_ref()
                .map(|digest| String::from_utf8(self.blobs[digest].clone()).unwrap())
        };
        Some(Earlier {
            seq: used.seq,
            payload_hash: used.payload_hash,
            status: used.status,
            payload: line.payload.clone().or_else(|| blob(&line.payload_blob)),
            data: line
                .data
                .as_ref()
                .map(|data| data.get().to_owned())
                .or_else(|| blob(&line.data_blob)),
            message: line.metadata.message.clone(),
        })
    }

    /// Checks what holds for every answer.
    fn check_always(
        &self,
        before: &State,
        used: Option<(u64, ControlStatus)>,
        payload: &str,
        decision: &Decision,
        is_again: bool,
    ) {
        let response = response(decision).expect("a contract answer");
        let would = response.result.would_be.unwrap_or(response.status);
        let is_malformed = decision.metadata.code == Some(Code::MalformedPayload);
        let is_conflict = response.errors.contains(&ControlFault::DecisionIdConflict);
        assert_eq!(response.ok, would.is_ok());
        let expect_code = match response.status {
            _ if is_malformed => Some(Code::MalformedPayload),
            ControlStatus::Applied | ControlStatus::Noop => None,
            ControlStatus::Rejected => Some(Code::ControlRejected),
            ControlStatus::Failed => Some(Code::ControlFailed),
        };
        assert_eq!(decision.metadata.code, expect_code);
        assert_eq!(decision.metadata.message.is_some(), expect_code.is_some());
        let blob = decision
            .payload_blob
            .as_ref()
            .map(|digest| self.blobs[digest].as_slice());
        let kept = decision.payload.as_ref().map(String::as_bytes).or(blob);
        assert_eq!(
            kept,
            Some(payload.as_bytes()),
            "the payload is in the ledger"
        );
        if !is_malformed && !is_again && response.result.would_be.is_none() {
            assert_eq!(response.errors.is_empty(), would.is_ok());
            let failed = decision.checks.iter().filter(|row| !row.passed).count();
            assert_eq!(failed, response.errors.len(), "{:?}", decision.checks);
        }
        if response.status != ControlStatus::Applied {
            let mut after = self.state.clone();
            (after.clock, after.rates) = (before.clock.clone(), before.rates.clone());
            assert!(after == *before, "the state changed");
        }
        if let (Some(id), Some(source)) = (&response.decision_id, &decision.source) {
            let now_used = self
                .store
                .used_id(&principal(source), id)
                .unwrap()
                .map(|used| (used.seq, used.status));
            let takes = !is_malformed && !is_conflict && response.result.would_be.is_none();
            let first = used.is_none_or(|(_, status)| status == ControlStatus::Failed);
            let expect = if takes && first {
                Some((self.seq, response.status))
            } else {
                used
            };
            assert_eq!(now_used, expect, "the decision_id in the index");
        }
    }
}

fn response(decision: &Decision) -> Option<ControlResponse> {
    decision
        .data
        .as_ref()
        .map(|data| serde_json::from_str(data.get()).expect("exactly the contract's members"))
}

/// Checks that `found` has everything that `wanted` names.
fn check_subset(wanted: &Value, found: &Value, path: &str) {
    match (wanted, found) {
        (Value::Object(wanted), Value::Object(found)) => {
            for (name, value) in wanted {
                let found = found.get(name).unwrap_or(&Value::Null);
                check_subset(value, found, &format!("{path}.{name}"));
            }
        }
        _ => assert_eq!(found, wanted, "{path}"),
    }
}

/// Returns the bench after the setup of a case.
fn prepared(case: &BTreeMap<String, Box<RawValue>>, edit: &Value) -> Bench {
    let mut bench = Bench::new(rules(edit));
    let steps: Vec<Box<RawValue>> = case
        .get("setup")
        .map(|raw| serde_json::from_str(raw.get()).unwrap())
        .unwrap_or_default();
    steps.iter().for_each(|step| bench.step(step));
    bench
}

fn run(line: &str) {
    let case: BTreeMap<String, Box<RawValue>> = serde_json::from_str(line).unwrap();
    // Member by member, because it contains numbers that no float can hold.
    let value = |name: &str| -> Value {
        case.get(name)
            .map_or(Value::Null, |raw| serde_json::from_str(raw.get()).unwrap())
    };
    for name in case.keys() {
        let known = [
            "name", "source", "edit", "setup", "send", "drop", "raw", "expect",
        ];
        assert!(known.contains(&name.as_str()), "unknown member {name}");
    }
    let mut bench = prepared(&case, &value("edit"));
    let (source, payload) = (value("source"), payload(&case));
    let source = source.as_str().unwrap_or("hermes");
    let before = bench.state.clone();
    let last = bench.decisions.keys().next_back().copied();
    let expect = value("expect");
    let named = ControlAttempt::read(&payload).echo.decision_id;
    let used = named.and_then(|id| bench.store.used_id(&principal(source), &id).unwrap());
    let decision = match bench.send(source, &payload) {
        Ok(decision) => decision,
        Err(code) => return assert_eq!(Some(code.name()), expect["code"].as_str()),
    };
    if let Some(code) = expect["code"].as_str() {
        assert_eq!(decision.metadata.code.map(Code::name), Some(code));
    }
    let Some(answer) = decision
        .data
        .as_ref()
        .map(|data| serde_json::from_str::<Value>(data.get()).unwrap())
    else {
        assert!(
            expect["status"].is_null(),
            "no contract answer: {:?}",
            decision.metadata
        );
        return;
    };
    assert_eq!(
        answer["status"], expect["status"],
        "{:?}: {answer}",
        decision.metadata
    );
    let empty = json!([]);
    assert_eq!(
        answer["errors"],
        *expect.get("errors").unwrap_or(&empty),
        "errors"
    );
    check_subset(
        expect.get("answer").unwrap_or(&json!({})),
        &answer,
        "answer",
    );
    bench.check_always(
        &before,
        used.map(|used| (used.seq, used.status)),
        &payload,
        &decision,
        expect["again"] == true,
    );
    check_expected(&bench, &expect, &answer, &decision);
    if expect["again"] == true {
        let original = &bench.decisions[&last.unwrap()];
        assert_eq!(
            original.data.as_ref().unwrap().get(),
            decision.data.as_ref().unwrap().get()
        );
        assert_eq!(
            original.metadata, decision.metadata,
            "as it was answered first"
        );
        assert!(decision.changes.is_empty());
    }
}

/// Compares answer, rows and state with what the case expects.
fn check_expected(bench: &Bench, expect: &Value, answer: &Value, decision: &Decision) {
    if let Some(count) = expect["warnings"].as_u64() {
        assert_eq!(
            answer["warnings"].as_array().unwrap().len() as u64,
            count,
            "warnings"
        );
    }
    if let Some(lifted) = expect["lifted"].as_str() {
        let row = decision
            .checks
            .iter()
            .find(|row| row.name == lifted)
            .expect("the row that is lifted");
        assert!(
            row.passed
                && row
                    .reason
                    .as_ref()
                    .is_some_and(|why| why.starts_with("lifted by override"))
        );
    }
    if let Some(state) = expect.get("state") {
        let concern = ConcernId::parse("paper:btc-usd").unwrap();
        let found = bench.state.control.of(&bench.rules, &concern);
        check_subset(state, &serde_json::to_value(found).unwrap(), "state");
    }
    if let Some(orders) = expect.get("orders") {
        let left: Vec<String> = bench
            .state
            .book
            .orders
            .keys()
            .map(ToString::to_string)
            .collect();
        assert_eq!(json!(left), *orders, "orders left");
    }
    // A decision on one concern leaves the others alone.
    assert_eq!(
        bench
            .state
            .control
            .concerns
            .keys()
            .filter(|id| id.as_str() == "paper:eth-usd")
            .count(),
        0
    );
}

#[test]
fn every_line_of_the_table_holds() {
    let mut failed = Vec::new();
    let mut names = std::collections::BTreeSet::new();
    for (number, line) in CASES.lines().enumerate() {
        let case: BTreeMap<String, Box<RawValue>> = serde_json::from_str(line).unwrap();
        let name = case["name"].get().to_owned();
        assert!(
            names.insert(name.clone()),
            "line {}: {name} appears twice",
            number + 1
        );
        if catch_unwind(AssertUnwindSafe(|| run(line))).is_err() {
            failed.push(format!("line {}: {name}", number + 1));
        }
    }
    assert!(names.len() >= 90, "only {} cases", names.len());
    assert!(
        failed.is_empty(),
        "tests/data/control_cases.jsonl:\n{}",
        failed.join("\n")
    );
}

/// The table contains every code with which a decision can be refused.
#[test]
fn every_code_occurs() {
    for fault in ControlFault::ALL {
        let quoted = format!("\"{}\"", fault.as_str());
        assert!(CASES.contains(&quoted), "no case of {quoted}");
    }
}

/// The shipped rules: `hermes` may decide on `trend`, and may not override.
#[test]
fn the_shipped_rules_have_a_concern_and_a_controller() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let rules = Rulebook::compile(&spoolgate_host::rule_folder::load(root).unwrap()).unwrap();
    let concern = ConcernId::parse("paper:btc-usd").unwrap();
    let names: Vec<&str> = rules
        .strategies_of(&concern)
        .map(|strategy| strategy.name.as_str())
        .collect();
    assert_eq!(names, ["range", "trend"]);
    let right = &rules.principals[&principal("hermes")].control;
    assert!(right.concerns == [concern] && !right.overrides);
    assert!(
        fs::read_to_string(root.join("rules/safety.yaml"))
            .unwrap()
            .contains("\nreduced_risk_factor: 0.5")
    );
    assert_eq!(
        rules.safety.reduced_risk_factor,
        Amount::parse_exact("0.5").unwrap().try_into().unwrap()
    );
}
