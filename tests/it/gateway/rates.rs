//! How many outgoing actions may begin within an hour: what counts, which request waits and exactly
//! how long, and what is still known after a restart, a rebuild and a clock that was set back.

use std::fs;
use std::path::Path;

use crate::kit::gateway_home::{GOOD, GatewayHome, SERVICES, code, exec, settle, stub};
use serde_json::{Value, json};
use spoolgate_gate::record::Status;
use spoolgate_home::Home;
use spoolgate_host::clock::Clock;
use spoolgate_replay::replay::{Class, Options, replay};
use spoolgate_rules::gateway::ACTIONS;
use spoolgate_wire::answer::{Answer, AnswerStatus};
use spoolgate_wire::code::{Code, Exit};

/// Makes a home of stubs with these rates, in which nothing is a burst.
fn home_with(rates: &Value) -> GatewayHome {
    let rules =
        json!({"adapters": [stub(&ACTIONS)], "rates": rates, "anomalies": {"burst_max": 100_000}});
    GatewayHome::with(SERVICES, &rules.to_string())
}

fn good(action: &str) -> &'static str {
    GOOD.iter().find(|(name, _)| *name == action).unwrap().1
}

/// Sends this number of requests in one batch. Returns how many began, and how long each of the
/// others must wait.
fn batch(
    home: &GatewayHome,
    opened: &mut Home,
    action: &str,
    stem: &str,
    count: usize,
) -> (usize, Vec<u64>) {
    let ids: Vec<String> = (0..count).map(|n| format!("{stem}-{n:03}")).collect();
    ids.iter().for_each(|id| home.ask(id, action, good(action)));
    settle(opened);
    let answers: Vec<Answer> = ids.iter().map(|id| home.answer(id).unwrap()).collect();
    let waits: Vec<u64> = answers.iter().filter_map(retry_after_ms).collect();
    let begun = answers
        .iter()
        .filter(|answer| code(answer) == "STUB_ADAPTER")
        .count();
    assert_eq!(begun + waits.len(), count, "{answers:?}");
    (begun, waits)
}

fn data(answer: &Answer) -> Value {
    serde_json::from_str(answer.data.as_ref().unwrap().get()).unwrap()
}

/// Returns how long a rate-limited request has to wait. `None` if it is not limited.
fn retry_after_ms(answer: &Answer) -> Option<u64> {
    if answer.status != AnswerStatus::RateLimited {
        return None;
    }
    assert_eq!(
        (code(answer).as_str(), answer.exit()),
        ("RATE_LIMITED", Exit::RateLimited)
    );
    Some(data(answer)["retryAfterMs"].as_u64().unwrap())
}

fn pass_ms(home: &GatewayHome, ms: i64) {
    home.place.clock.set(home.place.clock.now().plus_ms(ms));
}

#[test]
fn each_action_has_the_contracts_limit_and_the_next_request_waits() {
    let home = home_with(&json!({"all_per_hour": 10_000}));
    let mut opened = home.open();
    for (action, most) in [
        ("email.fetch", 60),
        ("email.send", 20),
        ("email.draft", 60),
        ("calendar.fetch", 60),
        ("calendar.create", 30),
        ("calendar.update", 60),
        ("finance.fetch_transactions", 60),
        ("health.fetch", 60),
        ("service.api_call", 100),
    ] {
        let (begun, waits) = batch(&home, &mut opened, action, action, most + 2);
        assert_eq!(
            (begun, waits),
            (most, vec![3_601_000, 3_601_000]),
            "{action}"
        );
    }
}

#[test]
fn all_principals_together_have_a_limit() {
    let home = home_with(&json!({}));
    let mut opened = home.open();
    let mut begun = 0;
    for action in ACTIONS {
        let (more, waits) = batch(
            &home,
            &mut opened,
            action,
            action,
            if action == "email.send" { 19 } else { 30 },
        );
        begun += more;
        assert!(waits.is_empty(), "{action}");
    }
    let (more, _) = batch(&home, &mut opened, "service.api_call", "a", 70);
    let (most, _) = batch(&home, &mut opened, "health.fetch", "h", 30);
    let (rest, _) = batch(&home, &mut opened, "email.fetch", "f", 30);
    let (last, _) = batch(&home, &mut opened, "email.draft", "d", 30);
    begun += more + most + rest + last;
    assert_eq!(begun, 259 + 70 + 90);
    let (last, _) = batch(&home, &mut opened, "calendar.fetch", "c", 30);
    let (over, waits) = batch(&home, &mut opened, "calendar.update", "u", 30);
    begun += last + over;
    assert_eq!(begun, 479);
    assert!(waits.is_empty());
    let (begun, waits) = batch(&home, &mut opened, "finance.fetch_transactions", "z", 22);
    assert_eq!((begun, waits.len()), (21, 1), "the 501st of the hour");
    let line = home.decision("z-021").unwrap();
    let failed: Vec<&str> = line
        .checks
        .iter()
        .filter(|row| !row.passed)
        .map(|row| &*row.name)
        .collect();
    assert_eq!(failed, ["gateway_rate"]);
}

#[test]
fn a_limited_request_passes_after_exactly_the_stated_time_and_uses_up_no_id() {
    let home = home_with(&json!({"per_hour": {"email.send": 3}}));
    pass_ms(&home, 400);
    let mut opened = home.open();
    let began = home.place.clock.now();
    for id in ["a", "b", "c"] {
        assert_eq!(
            code(&home.one(&mut opened, id, "email.send", good("email.send"))),
            "STUB_ADAPTER"
        );
        pass_ms(&home, 10_250);
    }
    let limited = |opened: &mut Home| {
        let answer = home.one(opened, "late", "email.send", good("email.send"));
        let vector = data(&answer)["Rejected"].clone();
        assert_eq!(vector["checks_failed"][0]["check_name"], "action_rate");
        assert_eq!(
            (
                &vector["checks_failed"][0]["value"],
                &vector["checks_failed"][0]["limit"]
            ),
            (&json!("4"), &json!("3"))
        );
        assert!(
            vector["checks_passed"]
                .as_array()
                .unwrap()
                .iter()
                .any(|row| row["check_name"] == "adapter")
        );
        assert!(vector.get("headroom").is_none());
        retry_after_ms(&answer)
    };
    // 12:00:00.400 counts until 13:00:00.999, and it is 12:00:31.150 now.
    assert_eq!(limited(&mut opened), Some(3_569_850));
    pass_ms(&home, 3_569_849);
    assert_eq!(limited(&mut opened), Some(1));
    let line = home.decision("late").unwrap();
    assert_eq!(
        (line.metadata.code, line.rate),
        (Some(Code::RateLimited), None)
    );
    assert!(line.changes.is_empty());
    // After a restart or a rebuild the request is still limited, and its id is still unused.
    drop(opened);
    let (again, same) = Home::rebuild(home.place.root.path(), home.place.seams()).unwrap();
    assert!(same);
    drop(again);
    home.place.forget_state();
    let mut opened = home.open();
    assert_eq!(limited(&mut opened), Some(1));
    pass_ms(&home, 1);
    assert_eq!(home.place.clock.now().since_ms(began), 3_600_600);
    assert_eq!(
        code(&home.one(&mut opened, "late", "email.send", good("email.send"))),
        "STUB_ADAPTER"
    );
    // The second request frees the next place ten seconds later.
    let next = home.one(&mut opened, "next", "email.send", good("email.send"));
    assert_eq!(retry_after_ms(&next), Some(10_000));
    // Now its id is used up.
    let copy = home.one(&mut opened, "late", "email.send", good("email.send"));
    assert_eq!(code(&copy), "STUB_ADAPTER");
}

#[test]
fn actions_that_do_not_begin_do_not_count() {
    let home = home_with(&json!({"per_hour": {"email.send": 3, "service.api_call": 3}}));
    home.edit("rules/gateway.yaml", |text| {
        text.replace("\"burst_max\"", "\"payload_bytes_max\":2000,\"burst_max\"")
    });
    let mut opened = home.open();
    let call =
        |service: &str| json!({"service": service, "endpoint": "/", "method": "GET"}).to_string();
    for n in 0..8 {
        // A refused request.
        let refused = home.one(
            &mut opened,
            &format!("r-{n}"),
            "service.api_call",
            &call("elsewhere"),
        );
        assert_eq!(code(&refused), "NOT_ALLOWLISTED");
        // A payload that does not fit its action.
        home.ask(&format!("m-{n}"), "email.send", "{}");
        // A held request.
        let large = json!({"to": ["ann@example.com"], "subject": "s", "body": "x".repeat(2000)})
            .to_string();
        assert_eq!(
            code(&home.one(&mut opened, &format!("h-{n}"), "email.send", &large)),
            "HELD"
        );
    }
    settle(&mut opened);
    home.ask("a", "email.send", good("email.send"));
    let copy = home.place.disk.get("spool/in/a.json").unwrap();
    for _ in 0..8 {
        // A request that is sent again.
        home.put("a", &copy);
        settle(&mut opened);
    }
    assert!(home.decision("a").unwrap().metadata.replay_of.is_some());
    let (begun, waits) = batch(&home, &mut opened, "email.send", "b", 10);
    assert_eq!((begun, waits.len()), (2, 8));
    // Rate-limited requests did not count either.
    let (begun, waits) = batch(&home, &mut opened, "service.api_call", "c", 10);
    assert_eq!((begun, waits.len()), (3, 7));
    pass_ms(&home, 3_601_000);
    assert_eq!(batch(&home, &mut opened, "email.send", "d", 5).0, 3);
}

#[test]
fn principals_are_counted_apart() {
    let home = home_with(&json!({"per_hour": {"email.send": 2}, "all_per_hour": 5}));
    home.edit("rules/principals.yaml", |text| {
        text.replacen(
            "  - name: owner\n",
            "  - name: owner\n    actions: [email.send, email.draft]\n",
            1,
        )
    });
    let mut opened = home.open();
    assert_eq!(batch(&home, &mut opened, "email.send", "a", 4).0, 2);
    for (id, action, expect) in [
        ("o-1", "email.send", "STUB_ADAPTER"),
        ("o-2", "email.send", "STUB_ADAPTER"),
        ("o-3", "email.send", "RATE_LIMITED"),
        ("o-4", "email.draft", "STUB_ADAPTER"),
        ("o-5", "email.draft", "RATE_LIMITED"),
    ] {
        assert_eq!(
            code(&home.one_as_owner(&mut opened, id, action, good(action))),
            expect,
            "{id}"
        );
    }
    assert_eq!(batch(&home, &mut opened, "health.fetch", "h", 1).0, 0);
}

#[test]
fn a_large_payload_that_is_to_come_again_is_not_kept() {
    let home = home_with(&json!({"per_hour": {"service.api_call": 1}}));
    let mut opened = home.open();
    let large =
        json!({"service": "bank", "endpoint": "/", "method": "POST", "body": "x".repeat(20_000)})
            .to_string();
    assert_eq!(
        code(&home.one(&mut opened, "a", "service.api_call", &large)),
        "STUB_ADAPTER"
    );
    let blobs = |home: &GatewayHome| home.place.disk.files_below("audit/blobs").len();
    let before = blobs(&home);
    for _ in 0..3 {
        assert!(retry_after_ms(&home.one(&mut opened, "b", "service.api_call", &large)).is_some());
        let line = home.decision("b").unwrap();
        assert_eq!(
            (line.payload, line.payload_blob, line.checks.is_empty()),
            (None, None, false)
        );
    }
    assert_eq!(blobs(&home), before);
    // Requests that therefore cannot be decided again are distinguished from requests that differ.
    let options = Options {
        threads: 1,
        answers: None,
    };
    let report = replay(
        home.place.disk.clone(),
        Path::new("audit"),
        &options,
        &mut |_| {},
    )
    .unwrap();
    assert!(
        report.rows.iter().all(|row| row.class != Class::Differs),
        "{report:?}"
    );
    // A small payload is kept.
    let small = good("service.api_call");
    assert!(retry_after_ms(&home.one(&mut opened, "c", "service.api_call", small)).is_some());
    opened.finish("done").unwrap();
    drop(opened);
    let (again, same) = Home::rebuild(home.place.root.path(), home.place.seams()).unwrap();
    assert!(same);
    drop(again);
}

#[test]
fn more_than_may_be_open_at_once_come_again() {
    let slow = exec(
        &ACTIONS,
        "cat >/dev/null; while [ ! -e go ]; do sleep 0.02; done; echo '{\"success\":true}'",
        60,
    );
    let rules = json!({"adapters": [slow], "open_max": 2, "workers": 2});
    let home = GatewayHome::with(SERVICES, &rules.to_string());
    let mut opened = home.open();
    ["a", "b", "c"]
        .iter()
        .for_each(|id| home.ask(id, "email.send", good("email.send")));
    while opened.round(false).unwrap().more {}
    assert_eq!(opened.state().actions.open.len(), 2);
    let full = home.answer("c").unwrap();
    assert_eq!(
        (full.status, code(&full).as_str()),
        (AnswerStatus::RateLimited, "ACTIONS_FULL")
    );
    assert_eq!(full.exit(), Exit::RateLimited);
    assert_eq!(data(&full)["retryAfterMs"], 1000);
    assert_eq!(
        data(&full)["Rejected"]["checks_failed"][0]["check_name"],
        "open_actions"
    );
    assert_eq!(
        (home.answer("a").is_none(), home.answer("b").is_none()),
        (true, true)
    );
    fs::write(home.path("go"), "").unwrap();
    settle(&mut opened);
    assert_eq!(
        code(&home.one(&mut opened, "c", "email.send", good("email.send"))),
        ""
    );
    assert_eq!(home.decision("c").unwrap().status, Status::Pending);
}

#[test]
fn after_a_person_accepted_a_clock_that_was_set_back_it_counts_anew() {
    let home = home_with(&json!({"per_hour": {"email.send": 2}}));
    let mut opened = home.open();
    assert_eq!(batch(&home, &mut opened, "email.send", "a", 3).0, 2);
    pass_ms(&home, -7_200_000);
    let closed = home.one(&mut opened, "closed", "email.send", good("email.send"));
    assert_eq!(code(&closed), "CHECKS_FAILED");
    assert!(
        closed
            .error
            .as_ref()
            .unwrap()
            .message
            .starts_with("check `clock` failed"),
        "{closed:?}"
    );
    home.one_as_owner(
        &mut opened,
        "accept",
        "clock.accept",
        r#"{"reason":"looked at"}"#,
    );
    pass_ms(&home, 1000);
    assert_eq!(
        batch(&home, &mut opened, "email.send", "b", 3),
        (2, vec![3_601_000])
    );
    drop(opened);
    let (_, same) = Home::rebuild(home.place.root.path(), home.place.seams()).unwrap();
    assert!(same);
}
