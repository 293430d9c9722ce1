//! What a policy command delivers, how long it is kept, and every way in which it can fail.

use std::fs;

use spoolgate_gate::Change;
use spoolgate_gate::record::AskedFor;
use spoolgate_host::clock::Clock;
use spoolgate_wire::signing::sha256_hex;

use super::desk::{COMMAND, Desk, POLICY, WIDE, child, data, drain, root, rounds, said};
use crate::kit::Sent;

fn with_command(policy: &str) -> Desk {
    Desk::new(&format!("{policy}{COMMAND}"))
}

#[test]
fn the_stricter_of_both_holds() {
    let desk = with_command(WIDE);
    let mut home = desk.open();
    desk.says("policy", r#"{"max_spawn_depth": 1, "policy_version": "x"}"#);
    let first = desk.root(&mut home, "r1");
    assert_eq!(said(&first), "ALLOW");
    let question = "{\"tenant_id\":\"research\",\"surface_id\":\"agents\",\"policy_profile_id\":\"default\"}\n";
    assert_eq!(desk.read("bin/policy.asked"), question);
    let (seq, input) = desk.inputs().remove(0);
    assert_eq!(
        seq + 1,
        desk.line_of("r1").0,
        "the answer is the line before the decision"
    );
    let text = input.payload.unwrap();
    let sha256 = first.receipt.unwrap().delivered_policy_hash.unwrap();
    assert_eq!(sha256, sha256_hex(text.as_bytes()));
    assert!(matches!(&input.about, AskedFor::Policy { domain, policy }
        if domain == "research/agents/default" && *policy
            == sha256_hex(desk.read(POLICY).as_bytes())));
    assert!(matches!(input.changes.as_slice(), [Change::Admission(_)]));
    desk.evaluate("research-bot", "c1", &child("r1", "r1", "reader"));
    drain(&mut home);
    assert!(
        said(&desk.decision("c1")).starts_with("depth_exceeded"),
        "{}",
        said(&desk.decision("c1"))
    );
    assert_eq!(desk.runs("policy"), 1);
    // If it is laxer than the file in every respect, nothing changes.
    desk.says("policy", "max_spawn_depth: 90\ncapability_denylist: []\n");
    desk.pass_s(301);
    desk.evaluate("research-bot", "s1", &root("s1", "shell"));
    drain(&mut home);
    assert!(
        said(&desk.decision("s1")).starts_with("capability_denied"),
        "{}",
        said(&desk.decision("s1"))
    );
    for (id, parent) in [("d1", "r1"), ("d2", "d1"), ("d3", "d2"), ("d4", "d3")] {
        desk.evaluate("research-bot", id, &child("r1", parent, "reader"));
        drain(&mut home);
        let expect = if id == "d4" {
            "depth_exceeded"
        } else {
            "ALLOW"
        };
        assert!(
            said(&desk.decision(id)).starts_with(expect),
            "{id}: {}",
            said(&desk.decision(id))
        );
    }
    assert_eq!(desk.runs("policy"), 2);
    drop(home);
    desk.is_settled();
}

#[test]
fn every_failure_denies_with_its_reason() {
    let command =
        "policy_command: {program: bin/policy, time_limit_s: 1, output_bytes_max: 200000}\n";
    let desk = Desk::new(&format!("{WIDE}{command}"));
    let mut home = desk.open();
    let names: Vec<String> = (0..6000).map(|n| format!("capability-{n}")).collect();
    let large = format!(
        "max_spawn_depth: 3\ncapability_allowlist: [{}]",
        names.join(", ")
    );
    let cases = [
        (
            "exit",
            "echo no idea >&2; exit 3".to_owned(),
            "exit code 3: no idea",
        ),
        ("hangs", "exec sleep 300".to_owned(), "took longer than 1 s"),
        ("garbage", "echo I allow it".to_owned(), "is not a profile"),
        ("bytes", "printf '\\377\\376'".to_owned(), "not UTF-8"),
        ("nothing", "exit 0".to_owned(), "is not a profile"),
        (
            "key",
            "echo 'max_spawn_depth: 3'; echo 'max_spawn_deph: 2'".to_owned(),
            "unknown field `max_spawn_deph`",
        ),
        (
            "twice",
            "echo 'max_spawn_depth: 3'; echo 'max_spawn_depth: 4'".to_owned(),
            "duplicate",
        ),
        (
            "commands",
            "echo '{max_spawn_depth: 3, lineage_command: {program: x, time_limit_s: 1, \
                output_bytes_max: 9}}'"
                .to_owned(),
            "may not name commands",
        ),
        ("floods", "yes".to_owned(), "wrote more than 200000 bytes"),
        ("dies", "kill -KILL $$".to_owned(), "signal 9"),
        ("large", super::desk::say(&large), "at most 65335 fit"),
        (
            "terminal",
            "printf '\\033[2J' >&2; exit 1".to_owned(),
            "exit code 1",
        ),
    ];
    for (n, (id, text, expect)) in cases.iter().enumerate() {
        desk.program("policy", text);
        let decision = desk.root(&mut home, id);
        let told = said(&decision);
        assert!(
            told.starts_with("policy_unavailable: `bin/policy`") && told.contains(expect),
            "{id}: {told}"
        );
        assert!(!told.chars().any(char::is_control), "{id}: {told:?}");
        let (_, input) = desk.inputs().pop().unwrap();
        assert!(
            input.payload.is_none() && input.payload_blob.is_none() && input.note.contains(expect),
            "{id}"
        );
        assert_eq!(desk.inputs().len(), n + 1);
        desk.pass_s(2);
    }
    fs::remove_file(desk.home().join("bin/policy")).unwrap();
    let told = said(&desk.root(&mut home, "missing"));
    assert!(told.contains("could not be run"), "{told}");
    drop(home);
    desk.is_settled();
}

/// A failure is not a policy: it counts for the requests that waited, and for one more second.
#[test]
fn a_failure_is_kept_for_a_second() {
    let desk = with_command(&format!("{WIDE}cache_ttl_seconds: 300\n"));
    let mut home = desk.open();
    desk.program("policy", "exit 1");
    for n in 0..5 {
        desk.evaluate(
            "research-bot",
            &format!("r{n}"),
            &root(&format!("r{n}"), "reader"),
        );
    }
    drain(&mut home);
    let told = said(&desk.root(&mut home, "later"));
    assert!(told.contains("exit code 1"), "{told}");
    assert_eq!(desk.runs("policy"), 1);
    desk.send("research-bot", "h1", "admission.health", "{}", None);
    drain(&mut home);
    let health = data(&desk.decision("h1"));
    assert!(health.to_string().contains("exit code 1"), "{health}");
    desk.says("policy", "max_spawn_depth: 3");
    desk.clock.set(desk.clock.now().plus_ms(999));
    assert!(said(&desk.root(&mut home, "in-time")).contains("exit code 1"));
    desk.clock.set(desk.clock.now().plus_ms(1));
    desk.send("research-bot", "h2", "admission.health", "{}", None);
    drain(&mut home);
    let health = data(&desk.decision("h2"));
    assert!(
        health.to_string().contains("no delivered policy is kept"),
        "{health}"
    );
    assert_eq!(said(&desk.root(&mut home, "after")), "ALLOW");
    desk.send("research-bot", "h3", "admission.health", "{}", None);
    drain(&mut home);
    let health = data(&desk.decision("h3"));
    assert!(
        health["AdmissionHealth"]["policies"][0]["error"].is_null(),
        "{health}"
    );
    assert_eq!(desk.runs("policy"), 2);
}

#[test]
fn a_policy_is_kept_for_its_time() {
    let desk = with_command(&format!("{WIDE}cache_ttl_seconds: 10\n"));
    let mut home = desk.open();
    desk.says("policy", "max_spawn_depth: 3");
    let mut n = 0;
    let mut ask = |home: &mut spoolgate_home::Home, runs: usize, what: &str| {
        n += 1;
        assert_eq!(said(&desk.root(home, &format!("r{n}"))), "ALLOW", "{what}");
        assert_eq!(desk.runs("policy"), runs, "{what}");
    };
    ask(&mut home, 1, "the first");
    ask(&mut home, 1, "the second");
    // After a kill, it is in the ledger.
    drop(home);
    let mut home = desk.open();
    ask(&mut home, 1, "after a restart");
    desk.clock.set(desk.clock.now().plus_ms(9_999));
    ask(&mut home, 1, "just before its time is over");
    desk.clock.set(desk.clock.now().plus_ms(1));
    ask(&mut home, 2, "its time is over");
    for (id, source, action, payload, forgets) in [
        ("f1", "research-bot", "admission.cache_clear", "{}", true),
        ("f2", "owner", "admission.cache_clear", "{}", true),
        (
            "f3",
            "research-bot",
            "admission.cache_invalidate",
            r#"{"policy_profile_id":"default"}"#,
            true,
        ),
        (
            "f4",
            "research-bot",
            "admission.cache_invalidate",
            r#"{"policy_profile_id":"other"}"#,
            false,
        ),
    ] {
        let runs = desk.runs("policy");
        desk.send(source, id, action, payload, None);
        drain(&mut home);
        ask(&mut home, runs + usize::from(forgets), id);
    }
    let runs = desk.runs("policy");
    drop(home);
    desk.write(POLICY, &format!("# another file\n{}", desk.read(POLICY)));
    let mut home = desk.open();
    ask(&mut home, runs + 1, "another policy file");
    // The clock was set back, and a person accepted it.
    desk.clock.set(desk.clock.now().plus_ms(-5_000));
    rounds(&mut home);
    desk.send(
        "owner",
        "k1",
        "clock.accept",
        r#"{"reason":"it was wrong"}"#,
        None,
    );
    drain(&mut home);
    assert_eq!(desk.decision("k1").metadata.code, None);
    ask(&mut home, runs + 2, "a clock that went back");
    drop(home);
    desk.is_settled();
}

#[test]
fn those_of_one_domain_share_a_run() {
    let desk = with_command(WIDE);
    let mut home = desk.open();
    desk.says_late("policy", "max_spawn_depth: 3");
    for (n, source) in ["research-bot", "trend-bot", "research-bot"]
        .into_iter()
        .enumerate()
    {
        desk.evaluate(source, &format!("r{n}"), &root(&format!("r{n}"), "reader"));
        assert!(rounds(&mut home).is_empty());
    }
    assert_eq!(desk.claims().len(), 3);
    desk.write("bin/go", "");
    drain(&mut home);
    for n in 0..3 {
        assert_eq!(said(&desk.decision(&format!("r{n}"))), "ALLOW");
    }
    assert_eq!((desk.runs("policy"), desk.inputs().len()), (1, 1));
    drop(home);
    desk.is_settled();
}

/// An answer that was requested before the policies were dropped may be one that was to be dropped.
#[test]
fn forgotten_while_the_command_runs() {
    let desk = with_command(WIDE);
    let mut home = desk.open();
    let text = "if [ -e bin/new ]; then echo 'max_spawn_depth: 3'; else cp /dev/null bin/begun; \
        until [ -e bin/go ]; do sleep 0.02; done; echo 'max_spawn_depth: 2'; fi";
    desk.program("policy", text);
    desk.evaluate("research-bot", "r1", &root("r1", "reader"));
    rounds(&mut home);
    crate::kit::process::until("the command runs", || desk.is_there("bin/begun"));
    desk.send("research-bot", "f1", "admission.cache_clear", "{}", None);
    rounds(&mut home);
    desk.decision("f1");
    desk.write("bin/new", "");
    desk.write("bin/go", "");
    drain(&mut home);
    assert_eq!(said(&desk.decision("r1")), "ALLOW");
    assert_eq!(desk.runs("policy"), 2);
    let inputs = desk.inputs();
    assert_eq!(
        inputs.len(),
        1,
        "what was forgotten is not taken down: {inputs:?}"
    );
    assert_eq!(inputs[0].1.payload.as_deref(), Some("max_spawn_depth: 3\n"));
    // If they are dropped again and again, the gate stops waiting.
    fs::remove_file(desk.home().join("bin/new")).unwrap();
    fs::remove_file(desk.home().join("bin/go")).unwrap();
    fs::remove_file(desk.home().join("bin/begun")).unwrap();
    desk.pass_s(301);
    desk.program(
        "policy",
        "echo $$ > bin/mine; mv bin/mine bin/begun; until [ -e bin/go ]; do sleep 0.02; done; rm \
        -f bin/go; echo 'max_spawn_depth: 3'",
    );
    desk.evaluate("research-bot", "r2", &root("r2", "reader"));
    rounds(&mut home);
    for (n, id) in ["f2", "f3"].into_iter().enumerate() {
        crate::kit::process::until("the command runs", || {
            rounds(&mut home);
            desk.runs("policy") == 3 + n && desk.is_there("bin/begun")
        });
        desk.send("owner", id, "admission.cache_clear", "{}", None);
        rounds(&mut home);
        fs::remove_file(desk.home().join("bin/begun")).unwrap();
        desk.write("bin/go", "");
        crate::kit::process::until("it ended", || !desk.is_there("bin/go"));
    }
    drain(&mut home);
    let told = said(&desk.decision("r2"));
    assert!(told.contains("forgotten twice"), "{told}");
    assert_eq!(desk.runs("policy"), 4);
}

/// A request that would be refused anyway, or that gets its stored answer, starts no command.
#[test]
fn a_request_that_needs_no_policy_starts_no_command() {
    let desk = with_command(&format!("{WIDE}cache_ttl_seconds: 10\n"));
    let mut home = desk.open();
    desk.says("policy", "max_spawn_depth: 3");
    let other = super::desk::body(&root("o1", "reader")).replace("\"agents\"", "\"elsewhere\"");
    desk.send("research-bot", "o1", "admission.evaluate", &other, None);
    desk.send("research-bot", "o2", "admission.evaluate", "{}", None);
    desk.send("trend-bot", "o3", "admission.health", "{}", None);
    let both = root("o4", "reader");
    desk.send(
        "research-bot",
        "o4",
        "admission.evaluate",
        &super::desk::body(&both),
        Some(&both),
    );
    let stale = desk.signed(
        "research-bot",
        "o5",
        "admission.evaluate",
        &super::desk::body(&root("o5", "reader")),
        None,
    );
    drain(&mut home);
    desk.pass_s(86_400);
    Sent::new("o5.json", stale).drop_into(&desk.home());
    drain(&mut home);
    assert_eq!(
        said(&desk.decision("o1")).split(':').next(),
        Some("domain_denied")
    );
    assert_eq!(desk.runs("policy"), 0);
    // It gets its stored answer.
    let bytes = desk.signed(
        "research-bot",
        "r1",
        "admission.evaluate",
        &super::desk::body(&root("r1", "reader")),
        None,
    );
    Sent::new("r1.json", bytes.clone()).drop_into(&desk.home());
    drain(&mut home);
    desk.pass_s(20);
    Sent::new("again.json", bytes).drop_into(&desk.home());
    drain(&mut home);
    assert_eq!(desk.decisions_on("r1").len(), 2);
    assert_eq!(desk.runs("policy"), 1);
}

#[test]
fn the_example_delivers_profiles_of_a_folder() {
    if std::process::Command::new("/usr/bin/python3")
        .arg("--version")
        .output()
        .is_err()
    {
        println!("skipped: there is no /usr/bin/python3");
        return;
    }
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/admission/policy.py");
    let command = format!(
        "policy_command: {{program: python3, args: [\"{example}\", profiles], time_limit_s: 60, \
            output_bytes_max: 4096}}\n"
    );
    let desk = Desk::new(&format!("{WIDE}{command}"));
    let mut home = desk.open();
    let told = said(&desk.root(&mut home, "r1"));
    assert!(
        told.contains("exit code 1: default.json: [Errno 2]"),
        "{told}"
    );
    desk.write(
        "profiles/research/agents/default.json",
        r#"{"max_spawn_depth": 3, "capability_denylist": ["reader"]}"#,
    );
    desk.pass_s(2);
    assert!(said(&desk.root(&mut home, "r2")).starts_with("capability_denied"));
}
