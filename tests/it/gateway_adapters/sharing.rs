//! Principals that share the adapters.

use super::*;

/// Makes a home with the principals `core` and `other`, whose adapter hangs if the subject says so.
/// It records what begins.
fn two_principals(more: Value) -> (GatewayHome, SignKey) {
    const SCRIPT: &str = r#"t=$(cat); case "$t" in *hang*) echo x >>begun; sleep 300;; esac; echo '{"success":true}'"#;
    let gateway = GatewayHome::with(SERVICES, &rules("sh", &["-c", SCRIPT], 600, 1000, more));
    let key = SignKey::Hmac([8; 32]);
    gateway.edit("rules/principals.yaml", |text| {
        format!("{text}  - name: other\n    role: agent\n    actions: [email.send, email.fetch]\n")
    });
    let keyring = SqliteKeyring::open(gateway.place.root.path(), false).unwrap();
    keyring.insert(&key.verify_key()).unwrap();
    let id = key_id(&key.verify_key());
    let payload =
        json!({"principal": "other", "key_id": id, "algorithm": "hmac-sha256"}).to_string();
    let mut home = gateway.open();
    assert_eq!(
        code(&gateway.one_as_owner(&mut home, "key-other", "keys.add", &payload)),
        ""
    );
    drop(home);
    (gateway, key)
}

const HANGING: &str = r#"{"to":["ann@example.com"],"subject":"hang","body":""}"#;

const QUICK: &str = r#"{"to":["ann@example.com"],"subject":"quick","body":""}"#;

/// Runs rounds until there is an answer.
fn until_answered(gateway: &GatewayHome, home: &mut Home, id: &str) -> String {
    let answer = find(&format!("`{id}` is answered"), || {
        home.round(false).unwrap();
        gateway.answer(id)
    });
    code(&answer)
}

#[test]
fn a_flood_delays_neither_other_principals_nor_decisions() {
    let (gateway, other) = two_principals(json!({"workers": 3, "open_max": 40}));
    let mut home = gateway.open();
    for n in 0..29 {
        gateway.ask(&format!("hang-{n}"), "email.send", HANGING);
    }
    while home.round(false).unwrap().more {}
    assert_eq!(home.state().actions.open.len(), 29);
    // One of the three places stays free for the other principal, again and again.
    for n in 0..3 {
        let id = format!("other-{n}");
        gateway.place.ask(&other, "other", &id, "email.send", QUICK);
        assert_eq!(until_answered(&gateway, &mut home, &id), "");
    }
    let begun = || {
        fs::read_to_string(gateway.path("begun"))
            .unwrap_or_default()
            .lines()
            .count()
    };
    until("two of them hang", || begun() >= 2);
    assert_eq!(begun(), 2, "of three places, one is kept");
    assert_eq!(home.state().actions.open.len(), 29);
    // Now all three hang, and the gate still decides.
    gateway
        .place
        .ask(&other, "other", "other-hangs", "email.send", HANGING);
    gateway
        .place
        .ask_as_owner("halt", "halt.set", r#"{"reason":"a test"}"#);
    assert_eq!(until_answered(&gateway, &mut home, "halt"), "");
    gateway.ask("after-the-halt", "email.send", QUICK);
    assert_eq!(
        until_answered(&gateway, &mut home, "after-the-halt"),
        "CHECKS_FAILED"
    );
    let message = gateway
        .answer("after-the-halt")
        .unwrap()
        .error
        .unwrap()
        .message;
    assert!(message.contains("manual_halt"), "{message}");
    // When the gate ends, they all end soon.
    let dropped = Instant::now();
    drop(home);
    assert!(
        dropped.elapsed() < Duration::from_secs(60),
        "{:?}",
        dropped.elapsed()
    );
}

#[test]
fn one_principal_cannot_take_all_that_may_be_open() {
    let (gateway, other) = two_principals(json!({"workers": 1, "open_max": 8}));
    let mut home = gateway.open();
    for n in 0..8 {
        gateway.ask(&format!("hang-{n}"), "email.send", HANGING);
        while home.round(false).unwrap().more {}
    }
    assert_eq!(home.state().actions.open.len(), 6);
    for id in ["hang-6", "hang-7"] {
        let answer = gateway.answer(id).unwrap();
        assert_eq!(code(&answer), "ACTIONS_FULL");
        let message = answer.error.unwrap().message;
        assert!(
            message.contains("`core` already has 6 of 8 open actions"),
            "{message}"
        );
    }
    for (id, refused) in [("other-0", false), ("other-1", false), ("other-2", true)] {
        gateway
            .place
            .ask(&other, "other", id, "email.send", HANGING);
        while home.round(false).unwrap().more {}
        assert_eq!(
            gateway
                .answer(id)
                .map(|answer| code(&answer))
                .unwrap_or_default(),
            if refused { "ACTIONS_FULL" } else { "" }
        );
    }
    let message = gateway.answer("other-2").unwrap().error.unwrap().message;
    assert!(message.contains("8 actions are already open"), "{message}");
}

#[test]
fn no_more_run_at_once_than_allowed() {
    const SCRIPT: &str = r#"cat >/dev/null; mkdir -p at; touch at/$$; ls at | wc -l >>seen; while ! test -e go; do sleep 0.02; done; rm at/$$; echo '{"success":true}'"#;
    for (workers, at_once, most) in [(2, 4, 2), (8, 3, 3), (1, 1, 1)] {
        let text = rules("sh", &["-c", SCRIPT], 60, 1000, json!({"workers": workers}));
        let gateway = GatewayHome::with(
            SERVICES,
            &text.replace("\"at_once\":4", &format!("\"at_once\":{at_once}")),
        );
        let mut home = gateway.open();
        for n in 0..12 {
            gateway.ask(&format!("n-{n}"), FETCH, "{}");
        }
        let seen = || -> Vec<usize> {
            let seen = fs::read_to_string(gateway.path("seen")).unwrap_or_default();
            seen.lines()
                .map(|count| count.trim().parse().unwrap())
                .collect()
        };
        // None of them ends before the file `go` is there, so the last to begin sees all others.
        find("as many run as may", || {
            while home.round(false).unwrap().more {}
            (seen().len() >= most).then_some(())
        });
        fs::write(gateway.path("go"), "").unwrap();
        settle(&mut home);
        assert_eq!(
            gateway
                .responses()
                .values()
                .filter(|line| line.status == Status::Success)
                .count(),
            12
        );
        let seen = seen();
        assert!(
            seen.len() == 12 && seen.iter().max() == Some(&most),
            "{workers} {at_once}: {seen:?}"
        );
    }
}
