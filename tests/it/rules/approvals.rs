//! Held requests in a home: granted, denied, expired; decided again in the current state; answered
//! once more and never done twice, whatever is killed in between.

use std::fs;

use crate::kit::desk::{Desk, failed, order};
use crate::kit::ledger_files::Files;
use crate::kit::memory_disk::Faults;
use crate::kit::place::drain;
use serde_json::{Value, json};
use spoolgate_gate::approvals::{HOLDS_OF_ONE_MAX, Hold};
use spoolgate_gate::record::Status;
use spoolgate_home::Home;
use spoolgate_home::batch::Outcome;
use spoolgate_host::clock::Clock;
use spoolgate_wire::answer::AnswerStatus;
use spoolgate_wire::code::{Code, Exit};

/// Makes a desk with a rule that holds its buys, and with these lines in safety.yaml.
fn desk(limits: &str) -> Desk {
    let desk = Desk::with_limits(limits);
    put_rule(
        &desk,
        "look-first",
        "[{field: order.side, op: eq, value: buy}]",
        "hold",
    );
    desk
}

fn put_rule(desk: &Desk, id: &str, when: &str, then: &str) {
    fs::create_dir_all(desk.place.root.path().join("rules/core")).unwrap();
    let text = format!(
        "id: {id}\nstatus: active\napplies_to: {{action: order.submit}}\nwhen: {when}\nthen: \
            {then}\nmessage: \"{id}: {{order.size}}\"\n"
    );
    desk.edit(&format!("rules/core/{id}.yaml"), |_| text.clone());
}

fn code(outcome: &Outcome) -> Option<Code> {
    outcome.answer.error.as_ref().map(|error| error.code)
}

fn answer(desk: &Desk, id: &str) -> Value {
    serde_json::from_slice(&desk.place.disk.get(format!("spool/out/{id}.json")).unwrap()).unwrap()
}

fn buy(desk: &Desk, home: &mut Home, id: &str) -> Outcome {
    desk.one(
        home,
        "trend-bot",
        id,
        "order.submit",
        &order("trend", "buy", "0.01", None, "btc-range-long"),
    )
}

fn held(home: &Home) -> Hold {
    let holds: Vec<&Hold> = home.state().approvals.iter().collect();
    assert_eq!(holds.len(), 1);
    holds[0].clone()
}

fn say(desk: &Desk, home: &mut Home, id: &str, action: &str, hold: &Hold) -> Vec<Outcome> {
    let payload = json!({"id": hold.id, "request_sha256": hold.request_sha256}).to_string();
    desk.place.ask_as_owner(id, action, &payload);
    drain(home).unwrap()
}

fn orders(home: &Home) -> usize {
    home.state().book.orders.len()
}

#[test]
fn a_held_request_waits_and_is_done_once_when_it_is_granted() {
    let desk = desk("");
    let mut home = desk.open();
    let interim = buy(&desk, &mut home, "a");
    assert_eq!(
        (interim.answer.status, code(&interim)),
        (AnswerStatus::RequiresApproval, Some(Code::Held))
    );
    assert_eq!(interim.answer.exit(), Exit::NeedsApproval);
    assert_eq!(
        (interim.decision.status, failed(&interim)),
        (Status::Held, vec!["look-first".to_owned()])
    );
    assert_eq!(orders(&home), 0);
    let hold = held(&home);
    let told = &answer(&desk, "a")["data"]["Held"];
    assert_eq!(
        (&told["hold_id"], &told["rules"]),
        (&json!(hold.id), &json!(["look-first"]))
    );
    assert_eq!(told["request_sha256"], json!(hold.request_sha256));
    let file = String::from_utf8(
        desk.place
            .disk
            .get(format!("proposals/pending/{}.yaml", hold.id))
            .unwrap(),
    )
    .unwrap();
    assert!(
        file.contains("action: \"order.submit\"") && file.contains("look-first: 0.01"),
        "{file}"
    );
    // The same request gets the interim answer, another request under its id gets none, and neither
    // is a second request.
    let again = buy(&desk, &mut home, "a");
    assert_eq!(again.decision.metadata.replay_of, Some(interim.seq));
    assert_eq!(again.answer.to_bytes(), interim.answer.to_bytes());
    assert_eq!(home.state().approvals.iter().count(), 1);
    let granted = say(&desk, &mut home, "grant", "approval.grant", &hold);
    assert_eq!(granted.len(), 2, "{granted:?}");
    assert_eq!(code(&granted[0]), None);
    let last = &granted[1];
    assert_eq!(
        (last.decision.status, last.decision.hold),
        (Status::Success, Some(hold.id))
    );
    assert_eq!(last.decision.request_id.as_deref(), Some("a"));
    let row = last
        .decision
        .checks
        .iter()
        .find(|row| row.name == "look-first")
        .unwrap();
    assert_eq!(
        (row.passed, row.reason.as_deref()),
        (true, Some("approved: look-first: 0.01"))
    );
    assert_eq!(orders(&home), 2, "the entry and its stop");
    assert_eq!(answer(&desk, "a")["status"], "success");
    assert_eq!(answer(&desk, "a")["auditRef"], last.seq.to_string());
    assert!(
        desk.place
            .disk
            .get(format!("proposals/pending/{}.yaml", hold.id))
            .is_none()
    );
    // Now the same request gets the final answer, and nothing is done again.
    let replayed = buy(&desk, &mut home, "a");
    assert_eq!(replayed.decision.metadata.replay_of, Some(last.seq));
    assert_eq!(orders(&home), 2);
    let twice = say(&desk, &mut home, "twice", "approval.grant", &hold);
    assert_eq!((twice.len(), code(&twice[0])), (1, Some(Code::NotFound)));
    // A rebuild gives the same state.
    home.finish("done").unwrap();
    drop(home);
    let (home, same) = Home::rebuild(desk.place.root.path(), desk.place.seams()).unwrap();
    assert!(same && orders(&home) == 2);
    drop(home);
    let mut home = desk.open();
    assert_eq!(
        buy(&desk, &mut home, "a").decision.metadata.replay_of,
        Some(last.seq)
    );
}

#[test]
fn a_grant_covers_exactly_what_a_person_saw() {
    let desk = desk("");
    let mut home = desk.open();
    buy(&desk, &mut home, "a");
    let mut hold = held(&home);
    let payload = json!({"id": hold.id, "request_sha256": hold.request_sha256}).to_string();
    let own = desk.one(&mut home, "trend-bot", "own", "approval.grant", &payload);
    assert_eq!(code(&own), Some(Code::NotPermitted));
    hold.request_sha256 = "0".repeat(64);
    let other = say(&desk, &mut home, "other", "approval.grant", &hold);
    assert_eq!(
        (other.len(), code(&other[0])),
        (1, Some(Code::StateConflict))
    );
    assert_eq!(
        (orders(&home), home.state().approvals.iter().count()),
        (0, 1)
    );
}

#[test]
fn denied_and_expired_requests_end_with_their_codes() {
    let desk = desk("hold_expires_s: 600");
    let mut home = desk.open();
    buy(&desk, &mut home, "a");
    let hold = held(&home);
    let denied = say(&desk, &mut home, "deny", "approval.deny", &hold);
    assert_eq!(
        (denied.len(), code(&denied[1])),
        (2, Some(Code::ApprovalDenied))
    );
    assert_eq!(answer(&desk, "a")["error"]["code"], "APPROVAL_DENIED");
    let late = say(&desk, &mut home, "late", "approval.grant", &hold);
    assert_eq!(code(&late[0]), Some(Code::NotFound));
    let again = buy(&desk, &mut home, "a");
    assert_eq!(again.decision.metadata.replay_of, Some(denied[1].seq));
    // A grant in the last millisecond counts; one a millisecond later finds no hold.
    for (ms, expect) in [
        (599_999, Code::ChecksFailed),
        (600_000, Code::ApprovalExpired),
    ] {
        let id = format!("e-{ms}");
        assert_eq!(code(&buy(&desk, &mut home, &id)), Some(Code::Held));
        let hold = held(&home);
        desk.place.clock.set(hold.held_at.plus_ms(ms));
        let outcomes = say(
            &desk,
            &mut home,
            &format!("g-{ms}"),
            "approval.grant",
            &hold,
        );
        assert_eq!(home.state().approvals.iter().count(), 0);
        assert_eq!(
            answer(&desk, &id)["error"]["code"],
            expect.name(),
            "{outcomes:?}"
        );
        desk.bar(&mut home, "6800", "6800");
    }
    assert_eq!(orders(&home), 0);
    // Their lines have no key, no signature and no payload, but are still written in the form of
    // their kind.
    let report = Files::of(&desk.place).verify(true).unwrap();
    assert!(report.ok, "{:?}", report.problems);
}

#[test]
fn a_grant_satisfies_what_held_it_and_nothing_else() {
    // The current market, which is stale by now.
    let desk = desk("");
    let mut home = desk.open();
    buy(&desk, &mut home, "a");
    let hold = held(&home);
    desk.place.pass_s(3600);
    let done = say(&desk, &mut home, "g", "approval.grant", &hold);
    assert_eq!(code(&done[1]), Some(Code::ChecksFailed));
    assert!(
        failed(&done[1]).contains(&"market_data".to_owned()),
        "{:?}",
        failed(&done[1])
    );
    assert!(!failed(&done[1]).contains(&"request_freshness".to_owned()));
    assert_eq!(answer(&desk, "a")["status"], "error");
    // A rule that was added meanwhile refuses; another holds again.
    for (then, expect) in [("reject", Code::RuleRefused), ("hold", Code::Held)] {
        let desk = self::desk("");
        let mut home = desk.open();
        buy(&desk, &mut home, "a");
        let hold = held(&home);
        drop(home);
        put_rule(&desk, "newer", "[]", then);
        let mut home = desk.open();
        let done = say(&desk, &mut home, "g", "approval.grant", &hold);
        assert_eq!(
            (code(&done[1]), failed(&done[1])),
            (Some(expect), vec!["newer".to_owned()])
        );
        assert_eq!(orders(&home), 0);
        if expect == Code::Held {
            let next = held(&home);
            assert!(next.id != hold.id && next.answer == hold.answer);
            let rules: Vec<String> = next.rules.iter().map(ToString::to_string).collect();
            assert_eq!(rules, ["newer"]);
            assert_eq!(
                answer(&desk, "a")["data"]["Held"]["hold_id"],
                json!(next.id)
            );
            assert!(
                desk.place
                    .disk
                    .get(format!("proposals/pending/{}.yaml", next.id))
                    .is_some()
            );
        }
    }
    // A sender that lost its permission is refused.
    let desk = self::desk("");
    let mut home = desk.open();
    buy(&desk, &mut home, "a");
    let hold = held(&home);
    let key_id = home
        .state()
        .keys
        .values()
        .find(|key| key.principal.as_str() == "trend-bot")
        .unwrap()
        .key_id
        .clone();
    desk.one_as_owner(
        &mut home,
        "revoke",
        "keys.revoke",
        &json!({"key_id": key_id, "reason": "r"}).to_string(),
    );
    let done = say(&desk, &mut home, "g", "approval.grant", &hold);
    assert_eq!(code(&done[1]), Some(Code::SignatureInvalid));
    assert_eq!(
        (orders(&home), answer(&desk, "a")["error"]["code"].clone()),
        (0, json!("SIGNATURE_INVALID"))
    );
}

/// A rule of the same id with other content is another rule: it may exist to stop what was approved
/// under the first.
#[test]
fn a_grant_is_of_what_the_rule_said_when_it_held() {
    let desk = desk("");
    let mut home = desk.open();
    buy(&desk, &mut home, "a");
    let hold = held(&home);
    drop(home);
    put_rule(
        &desk,
        "look-first",
        "[{field: order.size, op: gte, value: 0.01}]",
        "hold",
    );
    let mut home = desk.open();
    let done = say(&desk, &mut home, "g", "approval.grant", &hold);
    assert_eq!(
        (code(&done[1]), failed(&done[1])),
        (Some(Code::Held), vec!["look-first".to_owned()])
    );
    assert_eq!(orders(&home), 0);
    let next = held(&home);
    assert!(
        next.id != hold.id && next.rules == hold.rules && next.rules_sha256 != hold.rules_sha256
    );
    let done = say(&desk, &mut home, "g-2", "approval.grant", &next);
    assert_eq!((code(&done[1]), orders(&home)), (None, 2));
}

#[test]
fn nothing_is_held_that_something_else_refuses() {
    let desk = desk("");
    put_rule(&desk, "never", "[]", "reject");
    let mut home = desk.open();
    let refused = buy(&desk, &mut home, "a");
    assert_eq!(code(&refused), Some(Code::RuleRefused));
    assert_eq!(
        (
            failed(&refused).len(),
            home.state().approvals.iter().count()
        ),
        (2, 0)
    );
    let unknown = order("trend", "buy", "0.01", None, "no-such-thesis");
    assert_eq!(
        code(&desk.one(&mut home, "trend-bot", "b", "order.submit", &unknown)),
        Some(Code::ChecksFailed)
    );
    assert_eq!(home.state().approvals.iter().count(), 0);
}

#[test]
fn there_is_room_for_so_many() {
    let desk = desk("max_entries_per_minute: 1000\nmax_entries_per_minute_all: 1000");
    let mut home = desk.open();
    for n in 0..HOLDS_OF_ONE_MAX {
        assert_eq!(
            code(&buy(&desk, &mut home, &format!("n-{n}"))),
            Some(Code::Held),
            "{n}"
        );
    }
    let full = buy(&desk, &mut home, "full");
    assert_eq!(
        (code(&full), full.decision.status),
        (Some(Code::HoldsFull), Status::Rejected)
    );
    let first = home.state().approvals.iter().next().unwrap().clone();
    say(&desk, &mut home, "deny", "approval.deny", &first);
    assert_eq!(code(&buy(&desk, &mut home, "room")), Some(Code::Held));
}

/// The faults that may happen while a batch is written.
fn faults() -> Vec<(&'static str, Faults)> {
    let write = |path: &str| Faults {
        write_fails_for: Some(path.to_owned()),
        ..Faults::default()
    };
    vec![
        ("nothing", Faults::default()),
        ("the blob", write("audit/blobs")),
        (
            "the append",
            Faults {
                append_room: Some(100),
                ..Faults::default()
            },
        ),
        (
            "the sync",
            Faults {
                sync_failures: 1,
                ..Faults::default()
            },
        ),
        ("the answer", write("spool/out/.a")),
        ("the answer to the grant", write("spool/local/out")),
        ("the checkpoint", write("audit/.checkpoint")),
        ("the file of the hold", write("proposals/pending")),
    ]
}

#[test]
fn a_failure_leaves_either_the_hold_or_its_end() {
    let mut struck = 0;
    for (what, faults) in faults() {
        let desk = desk("");
        desk.ask(
            "trend-bot",
            "a",
            "order.submit",
            &order("trend", "buy", "0.01", None, "btc-range-long"),
        );
        let mut home = desk.open();
        *desk.place.disk.faults.lock().unwrap() = faults.clone();
        struck += usize::from(drain(&mut home).is_err());
        drop(home);
        *desk.place.disk.faults.lock().unwrap() = Faults::default();
        let mut home = desk.open();
        drain(&mut home).unwrap();
        let hold = held(&home);
        assert_eq!(
            (orders(&home), answer(&desk, "a")["status"].clone()),
            (0, json!("requires_approval")),
            "{what}"
        );
        assert!(
            desk.place
                .disk
                .get(format!("proposals/pending/{}.yaml", hold.id))
                .is_some(),
            "{what}"
        );
        let payload = json!({"id": hold.id, "request_sha256": hold.request_sha256}).to_string();
        desk.place.ask_as_owner("g", "approval.grant", &payload);
        *desk.place.disk.faults.lock().unwrap() = faults;
        struck += usize::from(drain(&mut home).is_err());
        drop(home);
        *desk.place.disk.faults.lock().unwrap() = Faults::default();
        let mut home = desk.open();
        drain(&mut home).unwrap();
        assert_eq!(
            (orders(&home), home.state().approvals.iter().count()),
            (2, 0),
            "{what}"
        );
        assert_eq!(answer(&desk, "a")["status"], "success", "{what}");
        assert!(
            desk.place
                .disk
                .get(format!("proposals/pending/{}.yaml", hold.id))
                .is_none(),
            "{what}"
        );
        drop(home);
        let (_, same) = Home::rebuild(desk.place.root.path(), desk.place.seams()).unwrap();
        assert!(same, "{what}");
    }
    assert!(struck >= 7, "{struck}");
}

fn put_set(desk: &Desk, name: &str, kind: &str, grows: &str) {
    fs::create_dir_all(desk.place.root.path().join("rules/sets")).unwrap();
    let text = format!("name: {name}\nkind: {kind}\ngrows: {grows}\nentries: []\n");
    desk.edit(&format!("rules/sets/{name}.yaml"), |_| text.clone());
}

#[test]
fn remembered_values_are_in_the_set_until_they_are_ended() {
    let desk = Desk::with_limits("");
    put_set(&desk, "symbols", "word", "on_approval");
    put_rule(
        &desk,
        "new-symbol",
        "[{field: order.symbol, op: not_in, value: symbols}]",
        "hold",
    );
    let mut home = desk.open();
    for (id, remember) in [("a", false), ("b", true)] {
        assert_eq!(code(&buy(&desk, &mut home, id)), Some(Code::Held), "{id}");
        let hold = held(&home);
        let payload =
            json!({"id": hold.id, "request_sha256": hold.request_sha256, "remember": remember});
        desk.place
            .ask_as_owner(&format!("g-{id}"), "approval.grant", &payload.to_string());
        let done = drain(&mut home).unwrap();
        assert_eq!(
            (code(&done[1]), home.state().entries.iter().count()),
            (None, usize::from(remember))
        );
        desk.bar(&mut home, "6800", "6800");
        let sell = order("trend", "sell", "0.01", None, "btc-range-long");
        assert_eq!(
            code(&desk.one(
                &mut home,
                "trend-bot",
                &format!("s-{id}"),
                "order.submit",
                &sell
            )),
            None
        );
        desk.bar(&mut home, "6800", "6800");
    }
    let (set, value, entry) = home.state().entries.iter().next().unwrap();
    assert_eq!(
        (set.as_str(), value, entry.by.as_str(), &entry.task),
        ("symbols", "BTC-USD", "owner", &None)
    );
    desk.place.pass_s(301);
    desk.bar(&mut home, "6800", "6800");
    let free = buy(&desk, &mut home, "c");
    assert_eq!((code(&free), failed(&free)), (None, vec![]));
    // The same after a restart and a rebuild.
    drop(home);
    let (home, same) = Home::rebuild(desk.place.root.path(), desk.place.seams()).unwrap();
    assert!(same);
    drop(home);
    let mut home = desk.open();
    let end = json!({"set": "symbols", "value": "BTC-USD"}).to_string();
    assert_eq!(
        code(&desk.one_as_owner(&mut home, "end", "grant.end", &end)),
        None
    );
    assert_eq!(
        code(&desk.one_as_owner(&mut home, "end-2", "grant.end", &end)),
        Some(Code::NotFound)
    );
    assert_eq!(home.state().entries.iter().count(), 0);
}

/// An agent may have proposed the rule, which only held the agent's own requests and so was applied by
/// itself: nothing that the agent chose is added to a set of the operator.
#[test]
fn only_rules_of_the_operator_add_remembered_values() {
    for (folder, added) in [("core", 1), ("active", 0)] {
        let desk = Desk::with_limits("");
        put_set(&desk, "symbols", "word", "on_approval");
        let rule = "id: new-symbol\nstatus: active\napplies_to: {action: order.submit}\nwhen: \
            [{field: order.symbol, op: not_in, value: symbols}]\nthen: hold\nmessage: m\n";
        fs::create_dir_all(desk.place.root.path().join("rules").join(folder)).unwrap();
        let path = desk
            .place
            .root
            .path()
            .join(format!("rules/{folder}/new-symbol.yaml"));
        fs::write(path, rule).unwrap();
        let mut home = desk.open();
        assert_eq!(code(&buy(&desk, &mut home, "a")), Some(Code::Held));
        let hold = held(&home);
        let payload =
            json!({"id": hold.id, "request_sha256": hold.request_sha256, "remember": true});
        desk.place
            .ask_as_owner("g", "approval.grant", &payload.to_string());
        let done = drain(&mut home).unwrap();
        assert_eq!(
            (code(&done[1]), home.state().entries.iter().count()),
            (None, added),
            "{folder}"
        );
    }
}

/// Granting the host would allow all of it where a person wrote one page of it.
#[test]
fn a_granted_entry_has_the_form_of_a_set_file() {
    let desk = Desk::with_limits("");
    put_set(&desk, "hosts", "host", "on_approval");
    let mut home = desk.open();
    let until = desk.place.clock.now().plus_ms(60_000).to_string();
    for (id, value, expect) in [
        ("page", "https://example.org/one", Some(Code::StateConflict)),
        ("host", "Example.org.", None),
    ] {
        let grant =
            json!({"set": "hosts", "value": value, "task": "research/t-1", "expires_at": until})
                .to_string();
        assert_eq!(
            code(&desk.one_as_owner(&mut home, id, "grant.add", &grant)),
            expect,
            "{value}"
        );
    }
    let values: Vec<&str> = home
        .state()
        .entries
        .iter()
        .map(|(_, value, _)| value)
        .collect();
    assert_eq!(values, ["example.org"]);
    // Whatever kind the set has now, a value that was added can be removed, in the form that it
    // has.
    drop(home);
    put_set(&desk, "hosts", "address", "on_approval");
    let mut home = desk.open();
    let end = json!({"set": "hosts", "value": "example.org", "task": "research/t-1"}).to_string();
    assert_eq!(
        code(&desk.one_as_owner(&mut home, "end", "grant.end", &end)),
        None
    );
    assert_eq!(home.state().entries.iter().count(), 0);
    // Folding turns the entry into another value.
    drop(home);
    put_set(&desk, "hosts", "word", "on_approval");
    let mut home = desk.open();
    let grant =
        json!({"set": "hosts", "value": "ABC", "task": "research/t-1", "expires_at": until})
            .to_string();
    assert_eq!(
        code(&desk.one_as_owner(&mut home, "word", "grant.add", &grant)),
        None
    );
    drop(home);
    put_set(&desk, "hosts", "text", "on_approval");
    let mut home = desk.open();
    let end = json!({"set": "hosts", "value": "ABC", "task": "research/t-1"}).to_string();
    assert_eq!(
        code(&desk.one_as_owner(&mut home, "end-2", "grant.end", &end)),
        None
    );
    assert_eq!(home.state().entries.iter().count(), 0);
}

/// Returns a task of the tree `root`: its root, or a child of it.
fn task_of(root: &str, parent: Option<&str>) -> String {
    let depth = u32::from(parent.is_some());
    json!({"envelope": {
        "tenant_id": "research", "surface_id": "agents", "policy_profile_id": "default",
        "payload_kind": "work_order", "payload": {"n": 1},
        "causality": {
            "root_task_id": root, "parent_task_id": parent, "caused_by_receipt_id": null,
            "spawn_depth": depth, "capability_id": "reader",
            "recursion_budget_remaining": 3 - depth,
        },
    }})
    .to_string()
}

#[test]
fn a_value_granted_for_a_task_counts_for_that_task_alone_and_in_time() {
    let desk = Desk::with_limits("");
    put_set(&desk, "capabilities", "word", "on_approval");
    put_set(&desk, "closed", "word", "never");
    put_rule(
        &desk,
        "known",
        "[{field: admission.capability, op: not_in, value: capabilities}]",
        "reject",
    );
    desk.edit("rules/core/known.yaml", |text| {
        text.replace("order.submit", "admission.evaluate")
            .replace(": {order.size}", "")
    });
    let mut home = desk.open();
    let task = |desk: &Desk, home: &mut Home, root: &str| {
        desk.one(
            home,
            "research-bot",
            root,
            "admission.evaluate",
            &task_of(root, None),
        )
    };
    let refused = task(&desk, &mut home, "t-0");
    assert_eq!(
        (code(&refused), failed(&refused)),
        (Some(Code::RuleRefused), vec!["known".to_owned()])
    );
    assert!(refused.decision.changes.is_empty(), "no task came of it");
    let receipt = refused.decision.receipt.as_ref().unwrap();
    assert_eq!(
        receipt.rejection_reason_code.unwrap().name(),
        "request_refused"
    );
    let until = desk.place.clock.now().plus_ms(60_000);
    let grant = |set: &str, until: &str| {
        json!({"set": set, "value": "reader", "task": "research/t-1", "expires_at": until})
            .to_string()
    };
    let own = desk.one(
        &mut home,
        "research-bot",
        "own",
        "grant.add",
        &grant("capabilities", &until.to_string()),
    );
    assert_eq!(code(&own), Some(Code::NotPermitted));
    for (n, (set, until, expect)) in [
        ("nowhere", until.to_string(), Some(Code::NotFound)),
        ("closed", until.to_string(), Some(Code::StateConflict)),
        (
            "capabilities",
            desk.place.clock.now().to_string(),
            Some(Code::StateConflict),
        ),
        ("capabilities", until.to_string(), None),
    ]
    .into_iter()
    .enumerate()
    {
        let outcome = desk.one_as_owner(
            &mut home,
            &format!("add-{n}"),
            "grant.add",
            &grant(set, &until),
        );
        assert_eq!(code(&outcome), expect, "{set} {until}");
    }
    assert_eq!(
        code(&task(&desk, &mut home, "t-2")),
        Some(Code::RuleRefused),
        "another task"
    );
    // Anybody may give a root the same name as another tenant's root.
    let elsewhere =
        grant("capabilities", &until.to_string()).replace("research/t-1", "elsewhere/t-3");
    assert_eq!(
        code(&desk.one_as_owner(&mut home, "elsewhere", "grant.add", &elsewhere)),
        None
    );
    assert_eq!(
        code(&task(&desk, &mut home, "t-3")),
        Some(Code::RuleRefused),
        "another tenant's task"
    );
    let allowed = task(&desk, &mut home, "t-1");
    assert_eq!((code(&allowed), failed(&allowed)), (None, vec![]));
    // At exactly its end, it no longer counts.
    desk.place.clock.set(until);
    let child = task_of("t-1", Some("t-1"));
    let later = desk.one(
        &mut home,
        "research-bot",
        "child",
        "admission.evaluate",
        &child,
    );
    assert_eq!(code(&later), Some(Code::RuleRefused));
}
