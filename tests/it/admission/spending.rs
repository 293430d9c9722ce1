//! Free leases, budgets of money and tokens, the age of trees, and settlements.

use std::fs;
use std::path::Path;
use std::process::Output;

use crate::kit::keys::add_key;
use crate::kit::tasks::{Gate, Task, check_receipt, reserved};
use crate::kit::{Scratch, spoolgate, succeed};
use serde_json::{Value, json};
use spoolgate_admission::lineage::{Admitted, Funds};
use spoolgate_gate::Decision;
use spoolgate_wire::admission::SPENT_TOKENS_MAX;
use spoolgate_wire::code::Code;
use spoolgate_wire::ids::{Capability, DomainPart, Principal, RequestId};

const PRINCIPALS: &str = "principals:
  - {name: owner, role: human}
  - {name: meter, role: agent, spool: meter}
  - {name: plain, role: agent}
  - {name: bot, role: agent, admission: {domains: [{tenant: t, surface: s, profile: p}, {tenant: \
      t, surface: s, profile: q}], roots_per_hour: 20}}
  - {name: peer, role: agent, admission: {domains: [{tenant: t, surface: s, profile: p}], \
      roots_per_hour: 20}}
  - {name: must, role: agent, admission: {domains: [{tenant: t, surface: s, profile: p}], \
      roots_per_hour: 20, required: true}}
";

const MONEY: &str =
    "max_spawn_depth: 9\nbudget_usd: 1.00\nreserve_usd: 0.30\nsettlers: [meter, owner]\n";

fn gate(policy: &str) -> Gate {
    Gate::new(
        PRINCIPALS,
        [("t/s/p", policy), ("t/s/q", "max_spawn_depth: 10")],
    )
}

/// Returns the reason of a DENY; `None` for an ALLOW.
fn reason(decision: &Decision) -> Option<&'static str> {
    check_receipt(decision);
    let receipt = decision.receipt.as_deref().unwrap();
    receipt.rejection_reason_code.map(|reason| reason.name())
}

fn admit(gate: &mut Gate, task: &str) -> Option<&'static str> {
    reason(&gate.admit("bot", &Task::parse(task)))
}

/// Sends free leases, and returns how often each came out.
fn free_leases(policy: &str, from: &str, count: u64) -> (usize, Vec<&'static str>) {
    let mut gate = gate(policy);
    let mut denied = Vec::new();
    for n in 0..count {
        let mut body = Task::parse("x").body();
        let envelope = body["envelope"].as_object_mut().unwrap();
        envelope.remove("causality");
        envelope.insert("payload_kind".to_owned(), json!("lease"));
        let id = format!("lease-{n}");
        let decision = gate.ask(from, &id, "admission.admit", &body.to_string(), None);
        denied.extend(reason(&decision));
    }
    let allowed = usize::try_from(count).unwrap() - denied.len();
    denied.dedup();
    (allowed, denied)
}

#[test]
fn sixty_free_leases() {
    let no_leases = "max_spawn_depth: 9\ncan_spawn: false\n";
    let five = format!("{no_leases}leases_per_hour: 5\n");
    let denied = vec!["leases_exceeded"];
    assert_eq!(free_leases(no_leases, "bot", 60), (0, denied.clone()));
    assert_eq!(free_leases(&five, "bot", 60), (5, denied));
    let required = vec!["missing_causality"];
    assert_eq!(free_leases(&five, "must", 60), (0, required));
}

#[test]
fn a_child_under_a_laxer_profile() {
    let mut gate = gate("max_spawn_depth: 2");
    assert_eq!(admit(&mut gate, "a"), None);
    assert_eq!(admit(&mut gate, "b<a"), None);
    let child = Task {
        domain: "t/s/q".to_owned(),
        ..Task::parse("c<b")
    };
    assert_eq!(reason(&gate.admit("bot", &child)), Some("profile_mismatch"));
    assert_eq!(admit(&mut gate, "d<b"), Some("depth_exceeded"));
}

/// Settles the task of a line, and returns the tree in the answer, or the code of the refusal.
fn settle(gate: &mut Gate, from: &str, line: u64, usd: &str, tokens: i64) -> Result<Value, Code> {
    let body = json!({"receipt_id": format!("r-{line}"), "spent": {"usd": usd, "tokens": tokens}});
    let id = format!("s-{}", gate.seq);
    let decision = gate.ask(from, &id, "admission.settle", &body.to_string(), None);
    if let Some(code) = decision.metadata.code {
        assert!(decision.changes.is_empty());
        return Err(code);
    }
    let data: Value = serde_json::from_str(decision.data.as_ref().unwrap().get()).unwrap();
    assert_eq!(data["receipt_id"], body["receipt_id"]);
    assert_eq!(data["spent"], body["spent"]);
    assert_eq!(data.as_object().unwrap().len(), 3);
    Ok(data["tree"].clone())
}

#[test]
fn three_tasks_of_thirty_cents_and_one_more_once_a_settler_has_reported() {
    let mut gate = gate(MONEY);
    let first = gate.seq;
    assert_eq!(admit(&mut gate, "a"), None);
    assert_eq!(admit(&mut gate, "b<a"), None);
    assert_eq!(admit(&mut gate, "c<a"), None);
    assert_eq!(admit(&mut gate, "d<a"), Some("money_exhausted"));
    assert_eq!(
        settle(&mut gate, "bot", first, "0.10", 0),
        Err(Code::NotPermitted)
    );
    let tree = settle(&mut gate, "meter", first, "0.10", 0).unwrap();
    let left = json!({"tasks_left": null, "usd_left": "0.30", "tokens_left": null,
        "seconds_left": null});
    assert_eq!(tree, left);
    assert_eq!(admit(&mut gate, "e<a"), None);
    assert_eq!(admit(&mut gate, "f<a"), Some("money_exhausted"));
}

#[test]
fn a_tree_expires_after_ten_seconds() {
    let mut gate = gate("max_spawn_depth: 9\nmax_tree_age_s: 10\nsettlers: [meter]\n");
    let first = gate.seq;
    assert_eq!(admit(&mut gate, "a"), None);
    gate.now = gate.now.plus_ms(10_000);
    assert_eq!(admit(&mut gate, "b<a"), None);
    gate.now = gate.now.plus_ms(1);
    assert_eq!(admit(&mut gate, "c<a"), Some("tree_expired"));
    // The money is spent, whatever the tree's age.
    let tree = settle(&mut gate, "meter", first, "0", 5).unwrap();
    assert_eq!(tree["seconds_left"], json!(-1));
}

#[test]
fn the_tasks_own_key_raises_eight_times() {
    let mut gate = gate(MONEY);
    let first = gate.seq;
    assert_eq!(admit(&mut gate, "a"), None);
    assert_eq!(
        settle(&mut gate, "bot", first, "0.29", 9),
        Err(Code::NotPermitted)
    );
    assert_eq!(
        settle(&mut gate, "peer", first, "0.40", 9),
        Err(Code::NotPermitted)
    );
    for (raise, usd) in [
        "0.30", "0.31", "0.32", "0.33", "0.34", "0.35", "0.36", "0.37",
    ]
    .iter()
    .enumerate()
    {
        let tokens = i64::try_from(raise).unwrap();
        assert!(
            settle(&mut gate, "bot", first, usd, tokens).is_ok(),
            "{usd}"
        );
    }
    // Less of one, more of the other.
    assert_eq!(
        settle(&mut gate, "bot", first, "0.36", 9),
        Err(Code::NotPermitted)
    );
    assert_eq!(
        settle(&mut gate, "bot", first, "0.38", 6),
        Err(Code::NotPermitted)
    );
    assert_eq!(
        settle(&mut gate, "bot", first, "0.38", 7),
        Err(Code::NotPermitted)
    );
    // A settler may report less than the key did, and then it is final for both.
    let tree = settle(&mut gate, "owner", first, "0.05", 1).unwrap();
    assert_eq!(tree["usd_left"], "0.95");
    for by in ["owner", "meter", "bot"] {
        assert_eq!(
            settle(&mut gate, by, first, "0.50", 9),
            Err(Code::StateConflict)
        );
    }
}

#[test]
fn a_tree_below_zero_admits_nothing() {
    let mut gate = gate(MONEY);
    let first = gate.seq;
    assert_eq!(admit(&mut gate, "a"), None);
    let tree = settle(&mut gate, "bot", first, "999999999999", 0).unwrap();
    assert_eq!(tree["usd_left"], "-999999999998.00");
    // A profile without a budget says nothing of money any more, and the tree is still below 0.
    gate.rules = self::gate("max_spawn_depth: 9").rules;
    assert_eq!(admit(&mut gate, "b<a"), Some("money_exhausted"));
}

#[test]
fn tokens_are_settled_exactly_up_to_the_bound() {
    let policy = "max_spawn_depth: 9\nbudget_tokens: 10\nreserve_tokens: 1\nsettlers: [meter]\n";
    let mut gate = gate(policy);
    let lines = [gate.seq, gate.seq + 1];
    assert_eq!(admit(&mut gate, "a"), None);
    assert_eq!(admit(&mut gate, "b<a"), None);
    for tokens in [i64::MAX, SPENT_TOKENS_MAX + 1, -1] {
        let refused = settle(&mut gate, "bot", lines[0], "0", tokens);
        assert_eq!(refused, Err(Code::MalformedPayload), "{tokens}");
    }
    for (line, tasks) in lines.into_iter().zip(1..) {
        let tree = settle(&mut gate, "bot", line, "0", SPENT_TOKENS_MAX).unwrap();
        let left = 8 + tasks - tasks * SPENT_TOKENS_MAX;
        assert_eq!(tree["tokens_left"], json!(left));
    }
    // What a settler gives back is what was taken, so nothing comes of the detour.
    let tree = settle(&mut gate, "meter", lines[0], "0", 5).unwrap();
    assert_eq!(tree["tokens_left"], json!(5 - SPENT_TOKENS_MAX));
    let tree = settle(&mut gate, "meter", lines[1], "0", 5).unwrap();
    assert_eq!(tree["tokens_left"], json!(0));
    assert_eq!(admit(&mut gate, "c<a"), Some("tokens_exhausted"));
    let negative = settle(&mut gate, "meter", lines[0], "-0.01", 0);
    assert_eq!(negative, Err(Code::MalformedPayload));
}

#[test]
fn a_task_from_before_the_budget_is_neither_credited_nor_debited() {
    let mut gate = gate("max_spawn_depth: 9\nsettlers: [meter]\n");
    let lines = [gate.seq, gate.seq + 1];
    assert_eq!(admit(&mut gate, "a"), None);
    assert_eq!(admit(&mut gate, "b<a"), None);
    let tree = settle(&mut gate, "bot", lines[0], "5", 0).unwrap();
    assert_eq!(tree["usd_left"], Value::Null);
    gate.rules = self::gate(MONEY).rules;
    assert_eq!(admit(&mut gate, "c<a"), None);
    for (line, usd) in lines.into_iter().zip(["0", "0.40"]) {
        let tree = settle(&mut gate, "meter", line, usd, 0).unwrap();
        assert_eq!(tree["usd_left"], "0.70");
    }
}

#[test]
fn a_budget_in_the_payload_that_cannot_be_read_is_denied() {
    let unreadable = [
        r#""5.00""#,
        "5",
        "[5]",
        "true",
        "null",
        r#"{"usd":null}"#,
        r#"{"tokens":null}"#,
        r#"{"USD":"0.9"}"#,
        r#"{"money":9}"#,
        r#"{"usd":"0.1","tokens":"x"}"#,
        r#"{"usd":-0.1}"#,
        r#"{"tokens":1.5}"#,
    ];
    let tokens = "max_spawn_depth: 9\nbudget_tokens: 9\nreserve_tokens: 4\n";
    for (policy, reason_of) in [(MONEY, "money_exhausted"), (tokens, "tokens_exhausted")] {
        let mut gate = gate(policy);
        let mut ask = |budget: &str| {
            let mut body = Task::parse("a").body();
            body["envelope"]["payload"]["budget"] = serde_json::from_str(budget).unwrap();
            let id = format!("a-{}", gate.seq);
            let decision = gate.ask("bot", &id, "admission.check", &body.to_string(), None);
            reason(&decision)
        };
        for budget in unreadable {
            assert_eq!(ask(budget), Some(reason_of), "{budget}");
        }
        assert_eq!(ask("{}"), None);
        assert_eq!(ask(r#"{"usd":"0.4","tokens":5}"#), None);
    }
    // Without a budget nobody reads it.
    let mut gate = gate("max_spawn_depth: 9");
    let mut body = Task::parse("a").body();
    body["envelope"]["payload"]["budget"] = json!("5.00");
    let decision = gate.ask("bot", "a", "admission.check", &body.to_string(), None);
    assert_eq!(reason(&decision), None);
}

#[test]
fn a_stranger_does_not_learn_whether_a_receipt_exists() {
    let mut gate = gate(MONEY);
    let first = gate.seq;
    assert_eq!(admit(&mut gate, "a"), None);
    let denied = gate.seq;
    assert_eq!(admit(&mut gate, "x<zz"), Some("unknown_parent"));
    for line in [first, denied, 0, 999, u64::MAX] {
        let body = json!({"receipt_id": format!("r-{line}"), "spent": {"usd": 1, "tokens": 0}});
        let id = format!("s-{}", gate.seq);
        let decision = gate.ask("plain", &id, "admission.settle", &body.to_string(), None);
        let message = decision.metadata.message.unwrap();
        let expected =
            format!("`r-{line}` is not the receipt of a task that `plain` requested or may settle");
        assert_eq!(decision.metadata.code, Some(Code::NotPermitted));
        assert!(message.starts_with(&expected), "{message}");
    }
}

#[test]
fn a_settlement_is_never_refused_for_its_rate_unless_it_changes_nothing() {
    let mut gate = gate("max_spawn_depth: 9\nsettlers: [meter]\n");
    let most = gate.rules.safety.max_protected_per_minute;
    let lines: Vec<u64> = (0..most + 2).map(u64::from).map(|n| gate.seq + n).collect();
    for n in 0..lines.len() {
        let root = Task::parse(&format!("root-{n}@tree-{n}"));
        gate.now = gate.now.plus_ms(3_600_000);
        assert_eq!(reason(&gate.admit("bot", &root)), None);
    }
    for line in &lines {
        assert!(settle(&mut gate, "meter", *line, "0.01", 1).is_ok());
    }
    assert_eq!(
        settle(&mut gate, "meter", lines[0], "0.01", 1),
        Err(Code::RateLimited)
    );
    gate.now = gate.now.plus_ms(120_000);
    assert_eq!(
        settle(&mut gate, "meter", lines[0], "0.01", 1),
        Err(Code::StateConflict)
    );
}

#[test]
fn the_next_task_binds_an_older_tree() {
    let mut gate = gate("max_spawn_depth: 9");
    let older = Admitted {
        tenant: DomainPart::parse("t").unwrap(),
        root: RequestId::parse("T").unwrap(),
        task: RequestId::parse("a").unwrap(),
        parent: None,
        depth: 0,
        capability: Capability::parse("c").unwrap(),
        repeats: 1,
        descendants: 0,
        budget: None,
        left: Funds::default(),
        reserved: Funds::default(),
        profile: None,
        by: None,
        opened_by: Principal::parse("bot").ok(),
        at: gate.now,
    };
    gate.store.insert_task(gate.seq, &older).unwrap();
    let line = gate.seq;
    gate.seq += 1;
    assert_eq!(
        settle(&mut gate, "bot", line, "1", 1),
        Err(Code::NotPermitted)
    );
    let child = gate.admit("bot", &Task::parse("b<a"));
    assert_eq!(reserved(&child).unwrap().profile.as_deref(), Some("t/s/p"));
    let stray = Task {
        domain: "t/s/q".to_owned(),
        ..Task::parse("c<a")
    };
    assert_eq!(reason(&gate.admit("bot", &stray)), Some("profile_mismatch"));
}

#[test]
fn who_has_a_grant_in_the_domain_settles_nothing_there() {
    let compile = |settler: &str| {
        let policy = format!("max_spawn_depth: 9\nsettlers: [{settler}]\n");
        std::panic::catch_unwind(|| gate(&policy)).is_ok()
    };
    assert!(compile("meter") && compile("owner") && compile("plain"));
    assert!(!compile("bot") && !compile("nobody"));
}

/// The envelope of the contract, under a profile with nothing of this page.
#[test]
fn the_contracts_envelope_is_answered_as_before() {
    let principals = "principals:
  - {name: bot, role: agent, admission: {domains: [{tenant: tenant-123, surface: api-gateway, \
        profile: default-policy}], roots_per_hour: 20}}
";
    let policies = [(
        "tenant-123/api-gateway/default-policy",
        "max_spawn_depth: 10",
    )];
    let mut gate = Gate::new(principals, policies);
    let body = json!({"envelope": {"tenant_id": "tenant-123", "surface_id": "api-gateway",
        "policy_profile_id": "default-policy", "payload_kind": "work_order", "payload": {},
        "causality": {"root_task_id": "task-001", "parent_task_id": null,
            "caused_by_receipt_id": null, "spawn_depth": 0, "capability_id": "document-processor",
            "recursion_budget_remaining": 10}}, "forward": true});
    let decision = gate.ask(
        "bot",
        "task-001",
        "admission.evaluate",
        &body.to_string(),
        None,
    );
    check_receipt(&decision);
    let receipt = serde_json::to_value(decision.receipt.as_deref().unwrap()).unwrap();
    assert_eq!(receipt["decision"], "allow");
    let counters = json!({"spawn_depth": 0, "total_descendants": 0, "capability_repeats": 0,
        "ancestor_repeats": null, "recursion_budget_remaining": 9});
    assert_eq!(receipt["effective_counters"], counters);
    assert_eq!(receipt["forwarded_to"], "forward/api-gateway/r-1.json");
}

/// Writes the profile of the shipped domain.
fn write_profile(home: &Path, text: &str) {
    fs::write(
        home.join("rules/admission/research/agents/default.yaml"),
        text,
    )
    .unwrap();
}

/// Asks for a task of the shipped domain by command.
fn ask(scratch: &Scratch, key: &Path, id: &str, kind: &str, causality: &str) -> Output {
    let body = format!(
        r#"{{"envelope":{{"tenant_id":"research","surface_id":"agents","policy_profile_id":"default","payload_kind":"{kind}","payload":{{}}{causality}}}}}"#
    );
    let file = scratch.beside("task.json");
    fs::write(&file, body).unwrap();
    let (file, key) = (file.to_str().unwrap(), key.to_str().unwrap());
    let args = [
        "admit",
        "admit",
        file,
        "--as",
        "research-bot",
        "--key",
        key,
        "--id",
        id,
    ];
    spoolgate(&scratch.home(), &args)
}

#[test]
fn doctor_names_profiles_that_lived_on_free_leases_and_admit_tree_shows_sums() {
    let scratch = Scratch::new();
    let (home, key) = (scratch.home(), scratch.beside("bot.key2"));
    add_key(&home, "research-bot", &key);
    let told = || String::from_utf8(spoolgate(&home, &["doctor"]).stdout).unwrap();
    let finding = "leases without causality were admitted";
    write_profile(&home, "{max_spawn_depth: 4, leases_per_hour: 1}");
    assert!(ask(&scratch, &key, "l1", "lease", "").status.success());
    assert!(!told().contains(finding));
    let money = "{max_spawn_depth: 4, recursion_budget: 5, budget_usd: 1.00, reserve_usd: 0.30}";
    write_profile(&home, money);
    assert!(!ask(&scratch, &key, "l2", "lease", "").status.success());
    assert!(told().contains(finding), "{}", told());

    let root = r#","causality":{"root_task_id":"tree","parent_task_id":null,"capability_id":"c"}"#;
    assert!(ask(&scratch, &key, "root", "task", root).status.success());
    let shown = succeed(&home, &["admit", "tree", "tree"]);
    for part in [
        "research/tree: profile research/agents/default, opened by research-bot, since ",
        "1 tasks, 4 left, 1 not settled",
        "LEFT  RESERVED  SPENT  UNSETTLED",
        "0.7       0.3      0        0.3",
    ] {
        assert!(shown.contains(part), "{part} is not in\n{shown}");
    }
    assert_eq!(
        spoolgate(&home, &["admit", "tree", "other"]).status.code(),
        Some(1)
    );
}
