//! Persons change the allowlist with signed requests: what the gate writes, what it refuses, and
//! credentials of services.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::kit::spoolgate;
use crate::proposals::gate::{Gate, code, ledger};
use serde_json::{Value, json};
use spoolgate_gate::{Change, EventKind, Record};
use spoolgate_home::Home;
use spoolgate_home::batch::Outcome;
use spoolgate_host::adapters::Credential;
use spoolgate_host::keyring::SqliteKeyring;
use spoolgate_rules::services::PATH;
use spoolgate_wire::code::Code;
use spoolgate_wire::ids::ServiceName;

const ONE: &str = "11111111111111111111111111111111";
const TWO: &str = "22222222222222222222222222222222";

fn bank() -> Value {
    json!({"service": "bank", "host": "API.bank.example", "protocol": "https", "methods": ["GET",
        "POST"]})
}

fn name(name: &str) -> Value {
    json!({"service": name})
}

#[track_caller]
fn is_refused(outcome: &Outcome, expect: Code, words: &str) {
    let message = outcome
        .decision
        .metadata
        .message
        .clone()
        .unwrap_or_default();
    assert_eq!(code(outcome), Some(expect), "{message}");
    assert!(message.contains(words), "{message}");
    assert!(
        !outcome
            .decision
            .changes
            .iter()
            .any(|change| matches!(change, Change::Services(_)))
    );
}

#[track_caller]
fn is_done(outcome: &Outcome) {
    assert_eq!(code(outcome), None, "{:?}", outcome.answer);
}

#[test]
fn a_service_is_added_removed_and_deactivated_by_signed_requests() {
    let gate = Gate::new();
    let mut home = gate.open();
    let head = gate.read(PATH).replace("services: []\n", "");
    let added = gate.owner_asks(&mut home, "services.add", &bank());
    is_done(&added);
    let at = added.decision.timestamp;
    let line = format!(
        "  - {{service: \"bank\", host: \"api.bank.example\", protocol: \"https\", methods: [GET, \
            POST], actions: [], added_at: \"{at}\", added_by: \"owner\", is_active: true}}\n"
    );
    assert_eq!(gate.read(PATH), format!("{head}services:\n{line}"));
    // In force with the next line, which says so.
    let hash = home.rulebook().hash.clone();
    assert_eq!(ledger(&gate).1.last(), Some(&hash));
    let lines = crate::kit::lines(gate.root.path()).unwrap();
    let note = lines.iter().find_map(|(seq, _, record)| match record {
        Some(Record::Event(EventKind::Rulebook, event)) if *seq == added.seq + 1 => {
            Some(event.note.clone())
        }
        _ => None,
    });
    let expect =
        format!("rulebook {hash} is in force: `rules/services.yaml` by services.add of `bank`");
    assert_eq!(note, Some(expect));
    let data = added.answer.data.as_ref().unwrap().get();
    assert_eq!(
        serde_json::from_str::<Value>(data).unwrap(),
        json!({"ServicesChanged": {"service": "bank", "change": "added", "rulebook": hash}})
    );
    is_refused(
        &gate.owner_asks(&mut home, "services.add", &bank()),
        Code::StateConflict,
        "`bank` already",
    );
    is_refused(
        &gate.owner_asks(&mut home, "services.activate", &name("bank")),
        Code::StateConflict,
        "is already active",
    );
    is_done(&gate.owner_asks(&mut home, "services.deactivate", &name("bank")));
    assert_eq!(
        gate.read(PATH),
        format!(
            "{head}services:\n{}",
            line.replace("active: true", "active: false")
        )
    );
    assert!(!home.rulebook().services.named("bank").unwrap().is_active);
    is_done(&gate.owner_asks(&mut home, "services.activate", &name("bank")));
    assert_eq!(gate.read(PATH), format!("{head}services:\n{line}"));
    is_done(&gate.owner_asks(&mut home, "services.remove", &name("bank")));
    assert_eq!(gate.read(PATH), format!("{head}services: []\n"));
    for action in [
        "services.remove",
        "services.deactivate",
        "services.activate",
    ] {
        let words = "`rules/services.yaml` has no service `bank`";
        is_refused(
            &gate.owner_asks(&mut home, action, &name("bank")),
            Code::NotFound,
            words,
        );
    }
    // No agent decides where it may go.
    is_refused(
        &gate.bot_asks(&mut home, "services.add", &bank()),
        Code::NotPermitted,
        "",
    );
    // The files have what is in force, so nothing is loaded again.
    let loaded = ledger(&gate).1.len();
    gate.settle(&mut home);
    assert_eq!((ledger(&gate).1.len(), home.rules_fault()), (loaded, None));
}

#[test]
fn an_invalid_service_is_refused_with_a_reason() {
    let gate = Gate::new();
    let mut home = gate.open();
    let text = gate.read(PATH);
    for (key, value, words) in [
        (
            "host",
            json!("*.google.com"),
            "`*.google.com` is a wildcard; there are none",
        ),
        (
            "host",
            json!("https://bank.example/"),
            "is not a host alone",
        ),
        ("host", json!("0.0.0.0"), "is the address of no single host"),
        ("port", json!(0), "`port` is 0"),
        ("protocol", json!("HTTPS"), "`protocol` is 1 to 16"),
        ("methods", json!([]), "neither methods nor actions"),
        ("methods", json!(["GET", "GET"]), "GET appears twice"),
        ("actions", json!(["order.submit"]), "is none of"),
        ("service", json!(""), "service"),
        ("is_active", json!(true), "is_active"),
    ] {
        let mut payload = bank();
        payload[key] = value;
        is_refused(
            &gate.owner_asks(&mut home, "services.add", &payload),
            Code::MalformedPayload,
            words,
        );
    }
    is_done(&gate.owner_asks(&mut home, "services.add", &bank()));
    let mut other = bank();
    other["service"] = json!("other");
    let words = "services `bank` and `other` are active with the same host and port";
    is_refused(
        &gate.owner_asks(&mut home, "services.add", &other),
        Code::StateConflict,
        words,
    );
    is_done(&gate.owner_asks(&mut home, "services.remove", &name("bank")));
    assert_eq!(gate.read(PATH), text);
}

#[test]
fn a_service_that_an_adapter_names_stays_until_it_does_not() {
    let named = "services: [bank]";
    let gate = Gate::under(|root| {
        let adapter = format!(
            "adapters: [{{actions: [email.fetch, service.api_call], {named}, adapter: stub}}]\n"
        );
        fs::write(root.join("rules/gateway.yaml"), adapter).unwrap();
        let entry = "services: [{service: bank, host: api.bank.example, protocol: https, methods: \
            [GET], added_at: 2026-01-01T00:00:00Z, added_by: owner, is_active: true}]\n";
        fs::write(root.join(PATH), entry).unwrap();
    });
    let mut home = gate.open();
    let text = gate.read(PATH);
    let words = "the adapter of email.fetch, service.api_call in `rules/gateway.yaml` names \
        service `bank`; remove it there first, or run `spoolgate services deactivate bank`";
    is_refused(
        &gate.owner_asks(&mut home, "services.remove", &name("bank")),
        Code::StateConflict,
        words,
    );
    assert_eq!((gate.read(PATH), home.rules_fault()), (text, None));
    is_done(&gate.owner_asks(&mut home, "services.deactivate", &name("bank")));
    is_done(&gate.owner_asks(&mut home, "services.activate", &name("bank")));
    is_done(&gate.owner_asks(&mut home, "services.deactivate", &name("bank")));
    // Once the adapter no longer names it, it can be removed.
    let rules = gate
        .read("rules/gateway.yaml")
        .replace(&format!("{named}, "), "");
    fs::write(gate.root.path().join("rules/gateway.yaml"), rules).unwrap();
    gate.settle(&mut home);
    is_done(&gate.owner_asks(&mut home, "services.remove", &name("bank")));
    assert_eq!(
        (gate.read(PATH), home.rules_fault()),
        ("services: []\n".to_owned(), None)
    );
}

#[test]
fn a_file_that_a_person_edits_is_not_overwritten() {
    let gate = Gate::new();
    let mut home = gate.open();
    is_done(&gate.owner_asks(&mut home, "services.add", &bank()));
    let edited = gate
        .read(PATH)
        .replace("methods: [GET, POST]", "methods: [GET]");
    // It has not settled yet: the file is not the one in force.
    gate.pass_s(61);
    let id = gate.drop_in(
        &gate.owner,
        "owner",
        "services.deactivate",
        &name("bank").to_string(),
    );
    fs::write(gate.path(PATH), &edited).unwrap();
    let outcomes = crate::kit::place::drain(&mut home).unwrap();
    assert_eq!(outcomes[0].decision.request_id, Some(id));
    is_refused(
        &outcomes[0],
        Code::StateConflict,
        "`rules/services.yaml` is being edited",
    );
    assert_eq!(gate.read(PATH), edited);
    gate.settle(&mut home);
    is_done(&gate.owner_asks(&mut home, "services.deactivate", &name("bank")));
    let commented = gate
        .read(PATH)
        .replace("services:\n", "services:\n  # ours\n");
    fs::write(gate.path(PATH), &commented).unwrap();
    gate.settle(&mut home);
    let outcome = gate.owner_asks(&mut home, "services.activate", &name("bank"));
    is_refused(
        &outcome,
        Code::StateConflict,
        "a comment among the entries would be lost",
    );
    assert_eq!(gate.read(PATH), commented);
    // An older home lacks this file: the first service creates it.
    fs::remove_file(gate.path(PATH)).unwrap();
    gate.settle(&mut home);
    is_done(&gate.owner_asks(&mut home, "services.add", &bank()));
    assert!(
        gate.read(PATH)
            .starts_with("services:\n  - {service: \"bank\"")
    );
    fs::write(gate.path("rules/safety.yaml"), "nonsense").unwrap();
    gate.settle(&mut home);
    let outcome = gate.owner_asks(&mut home, "services.remove", &name("bank"));
    is_refused(
        &outcome,
        Code::StateConflict,
        "the rule files cannot be used",
    );
}

#[test]
fn changes_of_one_batch_build_on_each_other() {
    let gate = Gate::new();
    let mut home = gate.open();
    gate.pass_s(61);
    let mut other = bank();
    (other["service"], other["host"]) = (json!("other"), json!("other.example"));
    for (action, payload) in [
        ("services.add", bank()),
        ("services.add", other),
        ("services.deactivate", name("bank")),
    ] {
        gate.drop_in(&gate.owner, "owner", action, &payload.to_string());
    }
    let outcomes = crate::kit::place::drain(&mut home).unwrap();
    assert_eq!(outcomes.len(), 3);
    outcomes.iter().for_each(is_done);
    let services = &home.rulebook().services;
    let known: Vec<(&str, bool)> = services
        .services
        .iter()
        .map(|service| (service.service.as_str(), service.is_active))
        .collect();
    assert_eq!(known, [("bank", false), ("other", true)]);
    assert_eq!(home.rulebook().files.files[PATH], gate.read(PATH));
    // Adapters that name a service prevent its removal.
    let adapters = "adapters: [{actions: [service.api_call], services: [other], adapter: stub}]\n";
    fs::write(gate.path("rules/gateway.yaml"), adapters).unwrap();
    gate.settle(&mut home);
    let outcome = gate.owner_asks(&mut home, "services.remove", &name("other"));
    is_refused(
        &outcome,
        Code::StateConflict,
        "the adapter of service.api_call in `rules/gateway.yaml` names service `other`",
    );
    home.finish("done").unwrap();
    drop(home);
    // Every line can be rebuilt from the ledger, and so can the state.
    let replayed = spoolgate(gate.root.path(), &["audit", "replay"]);
    assert!(replayed.status.success(), "{replayed:?}");
    assert!(spoolgate(gate.root.path(), &["rebuild"]).status.success());
    assert!(gate.open().rulebook().services.named("other").is_some());
}

fn held(home: &Home, service: &str) -> Option<String> {
    let service = home.rulebook().services.named(service).unwrap();
    let secret = home.credential(service).unwrap();
    secret.map(|credential| {
        let Credential(text) = &credential;
        text.clone()
    })
}

/// Whether these bytes are in any file below the home.
fn is_anywhere(folder: &std::path::Path, secret: &str) -> bool {
    fs::read_dir(folder)
        .unwrap()
        .map(Result::unwrap)
        .any(|entry| {
            if entry.file_type().unwrap().is_dir() {
                return is_anywhere(&entry.path(), secret);
            }
            let bytes = fs::read(entry.path()).unwrap();
            bytes
                .windows(secret.len())
                .any(|part| part == secret.as_bytes())
        })
}

#[test]
fn a_credential_is_in_force_by_its_name_and_wiped_when_another_is() {
    let gate = Gate::new();
    let mut home = gate.open();
    let keyring = SqliteKeyring::open(gate.root.path(), false).unwrap();
    let bank_name = ServiceName::parse("bank").unwrap();
    let set = |id: Value| json!({"service": "bank", "credential_id": id});
    let no_service = gate.owner_asks(&mut home, "services.credential", &set(json!(ONE)));
    is_refused(&no_service, Code::NotFound, "has no service `bank`");
    is_done(&gate.owner_asks(&mut home, "services.add", &bank()));
    let not_held = gate.owner_asks(&mut home, "services.credential", &set(json!(ONE)));
    is_refused(&not_held, Code::NotFound, "does not hold credential");
    is_refused(
        &gate.owner_asks(&mut home, "services.credential", &set(json!("short"))),
        Code::MalformedPayload,
        "32 lower-case hex digits",
    );
    is_refused(
        &gate.owner_asks(&mut home, "services.credential", &name("bank")),
        Code::NotFound,
        "no credential",
    );
    keyring
        .insert_credential(&bank_name, ONE, "secret-number-one")
        .unwrap();
    is_refused(
        &gate.bot_asks(&mut home, "services.credential", &set(json!(ONE))),
        Code::NotPermitted,
        "",
    );
    assert_eq!(held(&home, "bank"), None);
    is_done(&gate.owner_asks(&mut home, "services.credential", &set(json!(ONE))));
    assert_eq!(held(&home, "bank").as_deref(), Some("secret-number-one"));
    keyring
        .insert_credential(&bank_name, TWO, "secret-number-two")
        .unwrap();
    is_done(&gate.owner_asks(&mut home, "services.credential", &set(json!(TWO))));
    assert_eq!(held(&home, "bank").as_deref(), Some("secret-number-two"));
    assert!(!is_anywhere(gate.root.path(), "secret-number-one"));
    // At another host, no adapter gets it.
    let text = gate.read(PATH);
    fs::write(
        gate.path(PATH),
        text.replace("api.bank.example", "evil.example"),
    )
    .unwrap();
    gate.settle(&mut home);
    assert_eq!(held(&home, "bank"), None);
    fs::write(gate.path(PATH), text).unwrap();
    gate.settle(&mut home);
    assert_eq!(held(&home, "bank").as_deref(), Some("secret-number-two"));
    // The next service with its name is another one.
    is_done(&gate.owner_asks(&mut home, "services.remove", &name("bank")));
    is_done(&gate.owner_asks(&mut home, "services.add", &bank()));
    assert_eq!(held(&home, "bank"), None);
    assert!(!is_anywhere(gate.root.path(), "secret-number"));
    keyring
        .insert_credential(&bank_name, ONE, "secret-number-one")
        .unwrap();
    is_done(&gate.owner_asks(&mut home, "services.credential", &set(json!(ONE))));
    // The credential is lost, but not forgotten: an action that needs it must not run without it.
    keyring.remove_credential(ONE).unwrap();
    let service = home.rulebook().services.named("bank").unwrap();
    assert!(
        home.credential(service)
            .unwrap_err()
            .to_string()
            .contains("set its credential again")
    );
    is_done(&gate.owner_asks(&mut home, "services.credential", &set(Value::Null)));
    assert_eq!(held(&home, "bank"), None);
    home.finish("done").unwrap();
    drop(home);
    let replayed = spoolgate(gate.root.path(), &["audit", "replay"]);
    assert!(replayed.status.success(), "{replayed:?}");
}

#[test]
fn the_commands_say_what_they_did() {
    let gate = Gate::new();
    gate.open().finish("ready").unwrap();
    let run = |args: &[&str]| {
        let done = spoolgate(gate.root.path(), args);
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (
            done.status.code().unwrap(),
            text(done.stdout),
            text(done.stderr),
        )
    };
    let (exit, text, told) = run(&[
        "services",
        "add",
        "bank",
        "api.bank.example",
        "--method",
        "GET,POST",
    ]);
    assert_eq!(exit, 0, "{told}");
    assert!(
        text.starts_with("service bank at api.bank.example is allowed (ledger line "),
        "{text}"
    );
    let (exit, _, told) = run(&["services", "add", "all", "*.google.com", "--method", "GET"]);
    assert!(exit == 2 && told.contains("is a wildcard"), "{exit} {told}");
    let secret = gate.path("token.txt");
    fs::write(&secret, "a-long-secret\n").unwrap();
    let from = secret.to_str().unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o644)).unwrap();
    let (exit, _, told) = run(&["services", "credential", "set", "bank", "--from", from]);
    assert!(exit == 2 && told.contains("chmod 600"), "{exit} {told}");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(
        run(&["services", "credential", "set", "nobody", "--from", from]).0,
        1
    );
    assert_eq!(
        run(&["services", "credential", "set", "bank", "--from", from]).0,
        0
    );
    for (bytes, words) in [
        (b"\n".to_vec(), "is empty"),
        (vec![0xff], "is not UTF-8 text"),
        (vec![b'a'; 65_537], "is larger than 65536 bytes"),
    ] {
        fs::write(&secret, bytes).unwrap();
        let (exit, _, told) = run(&["services", "credential", "set", "bank", "--from", from]);
        assert!(exit == 2 && told.contains(words), "{exit} {told}");
    }
    fs::remove_file(&secret).unwrap();
    let home = gate.open();
    assert_eq!(held(&home, "bank").as_deref(), Some("a-long-secret"));
    drop(home);
    let (_, text, _) = run(&["--format", "json", "services", "list"]);
    let row: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&row["service"], &row["credential"]),
        (&json!("bank"), &json!(true))
    );
    assert_eq!(row["adapters"], json!({"service.api_call": null}));
    let (_, text, _) = run(&["services", "list"]);
    assert!(
        text.contains("service.api_call: no adapter") && !text.contains("a-long-secret"),
        "{text}"
    );
    for file in ["state/keyring.db", "state/keyring.key"] {
        let mode = fs::metadata(gate.path(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    assert!(!is_anywhere(gate.root.path(), "a-long-secret"));
    assert_eq!(run(&["services", "deactivate", "bank"]).0, 0);
    assert_eq!(run(&["services", "deactivate", "bank"]).0, 1);
    assert_eq!(run(&["services", "credential", "remove", "bank"]).0, 0);
    assert!(!is_anywhere(gate.root.path(), "a-long-secret"));
    assert_eq!(run(&["services", "remove", "bank"]).0, 0);
    // An edit that is not in force yet is reported beside results and refusals.
    let fault = "rules/gateway.yaml:1: ";
    fs::write(gate.path("rules/gateway.yaml"), "adapters: 7\n").unwrap();
    let copy = gate.path("nobody.key").display().to_string();
    let add = ["keys", "add", "nobody-yet", "--out", &copy];
    for args in [
        &["services", "list"][..],
        &add,
        &["services", "remove", "bank"],
    ] {
        let (_, _, told) = run(args);
        assert!(told.contains(fault), "{args:?}: {told}");
    }
}
