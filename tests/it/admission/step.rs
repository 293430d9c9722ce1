//! Admission as a step in the pipelines of other requests: those that carry causality, or must.

use crate::kit::tasks::{Gate, Task, check_receipt, reserved};
use serde_json::{Value, json};
use spoolgate_admission::receipt::Reason;
use spoolgate_gate::Decision;
use spoolgate_gate::decide::needs;
use spoolgate_gate::record::Ruling;
use spoolgate_market::{Row, write_blob};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::checks::CheckRow;
use spoolgate_wire::code::Code;
use spoolgate_wire::signing::sha256_hex;

const PRINCIPALS: &str = "principals:
  - {name: owner, role: human, admission: {domains: [{tenant: t, surface: s, profile: p}], \
      roots_per_hour: 20, required: true}}
  - {name: prices, role: feed}
  - {name: bot, role: agent, strategies: [trend], admission: {domains: [{tenant: t, surface: s, \
      profile: p}, {tenant: u, surface: s, profile: p}], roots_per_hour: 20}}
  - {name: must, role: agent, strategies: [trend], admission: {domains: [{tenant: t, surface: s, \
      profile: p}], roots_per_hour: 20, required: true}}
  - {name: plain, role: agent, strategies: [trend]}
";
const POLICY: &str = "max_spawn_depth: 3\nrecursion_budget: 5\n";

/// Makes a gate with money and a market.
fn market() -> Gate {
    let mut gate = Gate::new(
        PRINCIPALS,
        [("t/s/p", POLICY), ("u/s/p", "max_spawn_depth: 1\n")],
    );
    let done = gate.ask(
        "owner",
        "money",
        "account.adjust",
        r#"{"amount":"5000","reason":"r"}"#,
        None,
    );
    assert!(done.metadata.code.is_none(), "{done:?}");
    minute(&mut gate, "m1");
    gate
}

/// Sends a minute of market data at 6,800.
fn minute(gate: &mut Gate, id: &str) {
    let amount = |text: &str| Amount::parse_exact(text).unwrap();
    let (open_ms, interval_ms) = (gate.now.ms(), 60_000);
    gate.now = gate.now.plus_ms(interval_ms);
    let (open, high, low, close) = (
        amount("6800"),
        amount("6801"),
        amount("6799"),
        amount("6800"),
    );
    let volume = Some(amount("50"));
    let (bid, ask) = (amount("6799.99"), amount("6800.01"));
    let rows = [
        Row::Bar {
            open_ms,
            interval_ms,
            open,
            high,
            low,
            close,
            volume,
        },
        Row::Quote {
            time_ms: gate.now.ms(),
            bid,
            ask,
            bid_size: None,
            ask_size: None,
        },
    ];
    let blob = write_blob(&rows).into_bytes();
    let digest = sha256_hex(&blob);
    gate.blobs.insert(digest.clone(), blob);
    let payload = json!({"symbol": "BTC-USD", "rows_sha256": digest, "row_count": 2,
        "file_sha256": digest, "file_name": "f"});
    let done = gate.ask("prices", id, "market.import", &payload.to_string(), None);
    assert!(done.metadata.code.is_none(), "{done:?}");
}

/// Returns an entry of this size far enough below the market to rest.
fn entry(size: &str) -> String {
    json!({
        "strategy": "trend", "symbol": "BTC-USD", "side": "buy", "size": size,
            "order_type": "limit", "price": "6740",
        "stop_price": "6600", "thesis_slug": "btc-range-long", "planned_entry": "6740",
            "planned_stop": "6600",
    })
    .to_string()
}

/// Returns an entry that the next minute fills.
fn buys() -> String {
    json!({
        "strategy": "trend", "symbol": "BTC-USD", "side": "buy", "size": "0.01",
            "order_type": "market",
        "stop_price": "6600", "thesis_slug": "btc-range-long", "planned_entry": "6800",
            "planned_stop": "6600",
    })
    .to_string()
}

/// Returns the exit that closes it.
fn sells() -> String {
    json!({
        "strategy": "trend", "symbol": "BTC-USD", "side": "sell", "size": "0.01",
            "order_type": "market",
        "thesis_slug": "btc-range-long", "planned_entry": "6800", "planned_stop": "6900",
            "stop_price": "6900",
    })
    .to_string()
}

fn council_request(id: &str) -> String {
    json!({
        "request_id": id, "timestamp": "2026-03-02T11:59:00Z", "proposer": "A",
            "change_type": "CODE_REFACTOR",
        "context": {"summary": "s", "files_changed": [], "key_metrics": {}},
    })
    .to_string()
}

fn causality(task: &str) -> Value {
    Task::parse(task).causality()
}

fn claiming(task: &str, key: &str, value: Value) -> Value {
    let mut causality = causality(task);
    causality[key] = value;
    causality
}

#[track_caller]
fn ask(
    gate: &mut Gate,
    from: &str,
    id: &str,
    action: &str,
    payload: &str,
    causality: &Value,
) -> Decision {
    let decision = gate.ask(from, id, action, payload, Some(&causality.to_string()));
    check_receipt(&decision);
    decision
}

fn row(decision: &Decision) -> &CheckRow {
    let rows: Vec<_> = decision
        .checks
        .iter()
        .filter(|row| row.name == "admission")
        .collect();
    assert_eq!(rows.len(), 1, "{decision:?}");
    assert_eq!(decision.checks[0].name, "admission", "it comes first");
    rows[0]
}

fn reason(decision: &Decision) -> Option<Reason> {
    decision
        .receipt
        .as_ref()
        .expect("a receipt")
        .rejection_reason_code
}

fn is_accepted(decision: &Decision) -> bool {
    decision.decision == Some(Ruling::Accepted)
}

#[test]
fn an_accepted_entry_is_a_task() {
    let mut gate = market();
    let root = ask(
        &mut gate,
        "bot",
        "e1",
        "order.submit",
        &entry("0.002"),
        &causality("e1"),
    );
    assert!(is_accepted(&root), "{:?}", root.metadata);
    assert!(row(&root).passed && row(&root).reason.is_none());
    let task = reserved(&root).unwrap();
    assert_eq!(
        (task.root.as_str(), task.depth, task.budget),
        ("T", 0, Some(4))
    );
    assert_eq!(
        root.receipt.as_ref().unwrap().payload_kind.as_deref(),
        Some("task")
    );
    assert!(root.forwarded_to().is_none(), "a step forwards nothing");
    let cause = root.receipt.as_ref().unwrap().receipt_id.clone();
    let causality = claiming("e2<e1", "caused_by_receipt_id", json!(cause));
    let child = ask(
        &mut gate,
        "bot",
        "e2",
        "order.submit",
        &entry("0.0021").replace("range", "dip"),
        &causality,
    );
    assert!(is_accepted(&child), "{:?}", child.metadata);
    assert_eq!(reserved(&child).unwrap().depth, 1);
    // Orders and envelopes belong to the same trees.
    let admitted = gate.admit("bot", &Task::parse("a<e2"));
    assert_eq!(
        admitted.receipt.unwrap().effective_counters.spawn_depth,
        Some(2)
    );
}

#[test]
fn a_denied_entry_is_refused_by_the_row_and_changes_nothing() {
    let mut gate = market();
    let before = gate.state.clone();
    for (n, (causality, expect)) in [
        (
            claiming("x", "spawn_depth", json!(1)),
            Reason::DepthMismatch,
        ),
        (
            claiming("x", "recursion_budget_remaining", json!(0)),
            Reason::BudgetExhausted,
        ),
        (causality("x<nobody"), Reason::UnknownParent),
        (
            claiming("x", "caused_by_receipt_id", json!("r-1")),
            Reason::UnknownReceipt,
        ),
        (json!({}), Reason::MissingFields),
        (
            json!({"root_task_id": "T", "capability_id": "c"}),
            Reason::MissingFields,
        ),
        (claiming("x", "more", json!(1)), Reason::MissingFields),
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("e{n}");
        let decision = ask(
            &mut gate,
            "bot",
            &id,
            "order.submit",
            &entry("0.002"),
            &causality,
        );
        assert!(!is_accepted(&decision), "{causality}");
        assert_eq!(reason(&decision), Some(expect), "{causality}");
        assert_eq!(decision.metadata.code, Some(Code::ChecksFailed));
        let told = row(&decision).reason.as_deref().unwrap();
        assert!(
            !row(&decision).passed && told.starts_with(&format!("{}: ", expect.name())),
            "{told}"
        );
        assert!(
            decision.order_id.is_none() && decision.changes.is_empty(),
            "{decision:?}"
        );
        assert_eq!(decision.headroom.as_ref().unwrap().max_size, Amount::ZERO);
        assert_eq!(
            decision.headroom.as_ref().unwrap().binding_check,
            "admission"
        );
        let failed = decision.checks.iter().filter(|row| !row.passed).count();
        assert_eq!(failed, 1, "the other rows are computed and pass");
        // The order would have passed without it.
        assert!(decision.checks.len() > 5);
    }
    let mut after = gate.state.clone();
    (after.clock, after.rates) = (before.clock.clone(), before.rates.clone());
    assert_eq!(after, before);
    let tree = gate.admit("bot", &Task::parse("fresh"));
    assert_eq!(reason(&tree), None, "nothing of the tree was opened");
}

#[test]
fn a_request_that_another_check_refuses_reserves_nothing() {
    let mut gate = market();
    let first = ask(
        &mut gate,
        "bot",
        "e1",
        "order.submit",
        &entry("3"),
        &causality("e1"),
    );
    assert!(!is_accepted(&first));
    assert!(row(&first).passed, "admission had nothing against it");
    assert_eq!(reason(&first), Some(Reason::RequestRefused));
    assert!(reserved(&first).is_none());
    let receipt = first.receipt.as_ref().unwrap();
    let counters = receipt.effective_counters;
    assert_eq!(
        (counters.spawn_depth, counters.recursion_budget_remaining),
        (Some(0), Some(5))
    );
    assert!(
        receipt
            .rejection_detail
            .as_ref()
            .unwrap()
            .contains("check `"),
        "{receipt:?}"
    );
    // The tree is not open, no root was counted, and nothing can follow from it.
    let child = ask(
        &mut gate,
        "bot",
        "e2",
        "order.submit",
        &entry("0.002"),
        &causality("e2<e1"),
    );
    assert_eq!(reason(&child), Some(Reason::UnknownParent));
    assert!(gate.state.admission.roots.is_empty());
    // Refused for both reasons: the receipt contains admission's own.
    let both = ask(
        &mut gate,
        "bot",
        "e3",
        "order.submit",
        &entry("3"),
        &causality("e3<e1"),
    );
    assert_eq!(reason(&both), Some(Reason::UnknownParent));
    assert!(both.checks.iter().filter(|row| !row.passed).count() > 1);
    let again = ask(
        &mut gate,
        "bot",
        "e4",
        "order.submit",
        &entry("0.002"),
        &causality("e4"),
    );
    assert_eq!(reserved(&again).unwrap().budget, Some(4));
}

#[test]
fn requests_that_make_things_safer_only_get_a_warning() {
    let mut gate = market();
    let bought = gate.ask("bot", "buy", "order.submit", &buys(), None);
    assert!(is_accepted(&bought), "{:?}", bought.metadata);
    minute(&mut gate, "m2");
    assert_eq!(gate.state.book.positions.len(), 1, "the entry was filled");
    let resting = gate.ask(
        "bot",
        "rest",
        "order.submit",
        &entry("0.002").replace("range", "dip"),
        None,
    );
    assert!(is_accepted(&resting), "{:?}", resting.metadata);
    let stop = gate
        .state
        .book
        .orders
        .keys()
        .find(|id| id.to_string().ends_with("-stop"))
        .unwrap()
        .to_string();
    let bad = causality("x<nobody");
    let steps = [
        (
            "tighten",
            "order.tighten_stop",
            format!(r#"{{"order_id":"{stop}","new_stop":"6650"}}"#),
        ),
        (
            "cancel",
            "order.cancel",
            format!(r#"{{"order_id":"{}"}}"#, resting.order_id.unwrap()),
        ),
        ("exit", "order.submit", sells()),
    ];
    for (id, action, payload) in steps {
        let decision = ask(&mut gate, "bot", id, action, &payload, &bad);
        assert!(is_accepted(&decision), "{id}: {:?}", decision.metadata);
        assert!(row(&decision).passed, "{id}");
        let told = row(&decision).reason.as_deref().unwrap();
        assert!(told.starts_with("exempt: unknown_parent: "), "{told}");
        assert_eq!(reason(&decision), Some(Reason::UnknownParent), "{id}");
        assert!(
            reserved(&decision).is_none() && !decision.changes.is_empty(),
            "{id}"
        );
    }
    for (id, action, payload) in [
        ("query", "portfolio.get", "{}"),
        ("list", "orders.list", "{}"),
        ("halt", "halt.set", r#"{"reason":"r"}"#),
        ("health", "admission.health", "{}"),
        ("clear", "admission.cache_clear", "{}"),
    ] {
        let decision = ask(&mut gate, "bot", id, action, payload, &bad);
        assert!(
            decision.metadata.code.is_none(),
            "{id}: {:?}",
            decision.metadata
        );
        assert_eq!(reason(&decision), Some(Reason::UnknownParent), "{id}");
        assert!(reserved(&decision).is_none());
        let answer = decision.answer(None).unwrap().data.unwrap();
        assert!(
            !answer.get().contains("receipt"),
            "the contract's own answer: {answer}"
        );
    }
    assert_eq!(gate.state.halts.principals.len(), 1);
    // A halted principal still gets an answer, and an exit that admission accepts is a task like
    // any other.
    let query = ask(
        &mut gate,
        "bot",
        "q2",
        "portfolio.get",
        "{}",
        &causality("q2"),
    );
    assert_eq!(reason(&query), None);
    assert_eq!(reserved(&query).unwrap().task.as_str(), "q2");
    let owner = ask(
        &mut gate,
        "owner",
        "lift",
        "halt.clear",
        r#"{"scope":"all","reason":"r"}"#,
        &bad,
    );
    assert!(owner.metadata.code.is_none());
    assert_eq!(reason(&owner), Some(Reason::UnknownParent));
}

#[test]
fn a_refused_exit_is_not_a_task_either() {
    let mut gate = market();
    let decision = ask(
        &mut gate,
        "bot",
        "c1",
        "order.cancel",
        r#"{"order_id":"o-77"}"#,
        &causality("c1"),
    );
    assert!(!is_accepted(&decision));
    assert!(row(&decision).passed);
    assert_eq!(reason(&decision), Some(Reason::RequestRefused));
    assert!(reserved(&decision).is_none() && gate.state.admission.roots.is_empty());
    let absent = ask(
        &mut gate,
        "bot",
        "q1",
        "market.get",
        r#"{"symbol":"ETH-USD"}"#,
        &causality("q1"),
    );
    assert_eq!(absent.metadata.code, Some(Code::NotFound));
    assert_eq!(reason(&absent), Some(Reason::RequestRefused));
    let receipt = absent.receipt.unwrap();
    assert!(receipt.rejection_detail.unwrap().contains("ETH-USD"));
}

#[test]
fn a_council_request_is_refused_by_admission_alone() {
    let mut gate = market();
    let bad = ask(
        &mut gate,
        "bot",
        "c1",
        "council.request",
        &council_request("case-1"),
        &causality("c1<nobody"),
    );
    assert_eq!(bad.metadata.code, Some(Code::AdmissionDenied));
    assert!(
        bad.metadata
            .message
            .as_ref()
            .unwrap()
            .starts_with("unknown_parent: ")
    );
    assert!(bad.changes.is_empty() && gate.state.council.open == 0);
    let answer: Value =
        serde_json::from_str(bad.answer(None).unwrap().data.unwrap().get()).unwrap();
    assert_eq!(answer["receipt"]["rejection_reason_code"], "unknown_parent");
    assert_eq!(answer["decision"], "deny");
    let good = ask(
        &mut gate,
        "bot",
        "c2",
        "council.request",
        &council_request("case-1"),
        &causality("c2"),
    );
    assert!(good.metadata.code.is_none(), "{:?}", good.metadata);
    assert_eq!(
        (reserved(&good).unwrap().depth, gate.state.council.open),
        (0, 1)
    );
    // The case exists already.
    let twice = ask(
        &mut gate,
        "bot",
        "c3",
        "council.request",
        &council_request("case-1"),
        &causality("c3<c2"),
    );
    assert!(twice.metadata.code.is_some());
    assert_eq!(reason(&twice), Some(Reason::RequestRefused));
    assert!(reserved(&twice).is_none());
}

#[test]
fn required_causality_holds_up_entries_only() {
    let mut gate = market();
    let entry_without = gate.ask("must", "e1", "order.submit", &entry("0.002"), None);
    check_receipt(&entry_without);
    assert!(!is_accepted(&entry_without) && !row(&entry_without).passed);
    assert_eq!(reason(&entry_without), Some(Reason::MissingCausality));
    let case = gate.ask(
        "must",
        "c1",
        "council.request",
        &council_request("case-1"),
        None,
    );
    assert_eq!(
        (case.metadata.code, reason(&case)),
        (Some(Code::AdmissionDenied), Some(Reason::MissingCausality))
    );
    let with = ask(
        &mut gate,
        "must",
        "e2",
        "order.submit",
        &buys(),
        &causality("e2"),
    );
    assert!(is_accepted(&with), "{:?}", with.metadata);
    minute(&mut gate, "m2");
    for (id, action, payload) in [
        ("exit", "order.submit", sells()),
        ("query", "portfolio.get", "{}".to_owned()),
        ("halt", "halt.set", r#"{"reason":"r"}"#.to_owned()),
    ] {
        let decision = gate.ask("must", id, action, &payload, None);
        assert!(
            decision.metadata.code.is_none(),
            "{id}: {:?}",
            decision.metadata
        );
        assert!(
            decision.receipt.is_none(),
            "{id}: nothing was asked of admission"
        );
        assert!(
            decision.checks.iter().all(|row| row.name != "admission"),
            "{id}"
        );
    }
    // Persons with `required` are not held up: `market` deposits without causality.
}

#[test]
fn a_request_may_only_speak_in_its_keys_first_domain() {
    let mut gate = market();
    let first = ask(
        &mut gate,
        "bot",
        "e1",
        "order.submit",
        &entry("0.002"),
        &causality("e1"),
    );
    let receipt = first.receipt.as_ref().unwrap();
    let domain = (
        receipt.tenant_id.as_deref(),
        receipt.surface_id.as_deref(),
        receipt.policy_profile_id.as_deref(),
    );
    assert_eq!(domain, (Some("t"), Some("s"), Some("p")));
    let plain = ask(
        &mut gate,
        "plain",
        "e2",
        "order.submit",
        &entry("0.0021"),
        &causality("e2"),
    );
    assert!(!is_accepted(&plain));
    assert_eq!(reason(&plain), Some(Reason::DomainDenied));
    let query = ask(
        &mut gate,
        "plain",
        "q1",
        "portfolio.get",
        "{}",
        &causality("q1"),
    );
    assert!(query.metadata.code.is_none());
    assert_eq!(reason(&query), Some(Reason::DomainDenied));
    // If admission only warns, a row says so, whatever the request is.
    let row = query
        .checks
        .iter()
        .find(|row| row.name == "admission")
        .unwrap();
    assert!(
        row.passed
            && row
                .reason
                .as_deref()
                .unwrap()
                .starts_with("exempt: domain_denied"),
        "{row:?}"
    );
    // Rule files that cannot be used: entries are closed anyway, and admission also says why.
    gate.state.rulebook.fault = Some("rules/safety.yaml:1: broken".to_owned());
    let query = ask(
        &mut gate,
        "bot",
        "q2",
        "portfolio.get",
        "{}",
        &causality("q2"),
    );
    assert!(query.metadata.code.is_none());
    assert_eq!(reason(&query), Some(Reason::PolicyUnavailable));
}

// Limits and their hashes are shown only to principals that may speak there, and to persons.
#[test]
fn strangers_learn_nothing_of_a_policy() {
    let mut gate = market();
    let body = Task {
        domain: "u/s/p".to_owned(),
        ..Task::parse("x<a")
    }
    .body()
    .to_string();
    let denied = gate.ask("must", "x1", "admission.check", &body, None);
    assert_eq!(reason(&denied), Some(Reason::DomainDenied));
    assert_eq!(denied.receipt.as_ref().unwrap().policy_hash, None);
    let sees = |gate: &mut crate::kit::tasks::Gate, who: &str| {
        let told = gate.ask(
            who,
            &format!("health-{who}"),
            "admission.health",
            "{}",
            None,
        );
        told.data.unwrap().get().matches("policy_hash").count()
    };
    let all = gate.rules.admission.len();
    assert!(all > 1);
    assert_eq!(
        (
            sees(&mut gate, "owner"),
            sees(&mut gate, "must"),
            sees(&mut gate, "plain")
        ),
        (all, 1, 0)
    );
}

// The index is read only for principals that may send such requests.
#[test]
fn nothing_is_looked_up_for_strangers() {
    let gate = market();
    let asks = |from: &str, action: &str, domain: &str| {
        let task = Task {
            domain: domain.to_owned(),
            ..Task::parse("x<a")
        };
        let is_own = action.starts_with("admission.");
        let (payload, causality) = (task.body().to_string(), task.causality().to_string());
        let payload = if is_own { payload.as_str() } else { "{}" };
        let causality = Some(causality.as_str()).filter(|_| !is_own);
        needs(
            &gate.prepared(from, "x", action, payload, causality),
            &gate.rules,
        )
        .lineage
        .is_some()
    };
    for (from, action, domain, expect) in [
        ("bot", "admission.check", "t/s/p", true),
        ("bot", "admission.check", "u/s/p", true),
        ("bot", "portfolio.get", "t/s/p", true),
        ("must", "admission.check", "u/s/p", false),
        ("plain", "admission.check", "t/s/p", false),
        ("plain", "portfolio.get", "t/s/p", false),
        ("prices", "admission.check", "t/s/p", false),
    ] {
        assert_eq!(
            asks(from, action, domain),
            expect,
            "{from} {action} {domain}"
        );
    }
}

#[test]
fn a_replay_reserves_nothing_twice_and_other_causality_is_another_request() {
    let mut gate = market();
    let payload = entry("0.002");
    let first = ask(
        &mut gate,
        "bot",
        "e1",
        "order.submit",
        &payload,
        &causality("e1"),
    );
    assert_eq!(reserved(&first).unwrap().budget, Some(4));
    let index = gate.store.dump().unwrap();
    let roots = gate.state.admission.clone();
    let again = gate.ask(
        "bot",
        "e1",
        "order.submit",
        &payload,
        Some(&causality("e1").to_string()),
    );
    assert_eq!(
        again.metadata.replay_of.map(|seq| seq.to_string()),
        Some(first.id.clone())
    );
    assert!(again.changes.is_empty() && again.receipt.is_none());
    for other in [
        Some(causality("e1@U").to_string()),
        Some("{}".to_owned()),
        None,
    ] {
        let decision = gate.ask("bot", "e1", "order.submit", &payload, other.as_deref());
        assert_eq!(
            decision.metadata.code,
            Some(Code::RequestIdConflict),
            "{other:?}"
        );
        assert!(decision.changes.is_empty() && decision.receipt.is_none());
    }
    assert_eq!(gate.store.dump().unwrap(), index);
    assert_eq!(gate.state.admission, roots);
    // Stale requests never reach the step.
    let late = gate.prepared(
        "bot",
        "q9",
        "portfolio.get",
        "{}",
        Some(&causality("q9@V").to_string()),
    );
    gate.now = gate.now.plus_ms(86_400_000);
    let late = gate.decide(&late);
    assert_eq!(late.metadata.code, Some(Code::TimestampStale));
    assert!(late.receipt.is_none() && late.changes.is_empty());
}
