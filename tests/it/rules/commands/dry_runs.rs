//! Dry runs of requests.

use super::*;

/// Returns every file of a home with its bytes, except for the files that SQLite keeps beside its
/// databases.
fn bytes_of(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut left = vec![root.to_owned()];
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.to_str().unwrap();
            if path.is_dir() {
                left.push(path);
            } else if !name.ends_with("-shm") && !name.ends_with("-wal") {
                found.insert(path.clone(), fs::read(&path).unwrap());
            }
        }
    }
    found
}

#[test]
fn a_dry_run_is_answered_as_the_request_would_be_and_leaves_nothing() {
    let scratch = Scratch::with_prices();
    succeed(&scratch.home(), &["run", "--until-idle"]);
    let file = scratch.beside("r.json");
    let path = file.to_str().unwrap();
    for (id, size, exit) in [("fits", "0.02", 0), ("big", "9", 1)] {
        fs::write(&file, scratch.request(id, "order.submit", &order(size))).unwrap();
        let before = bytes_of(&scratch.home());
        let (dry_exit, dry) = dry(&scratch, &[path]);
        assert_eq!(
            bytes_of(&scratch.home()),
            before,
            "a dry run wrote something"
        );
        assert_eq!(
            (dry_exit, &dry["dry_run"]),
            (exit, &Value::Bool(true)),
            "{dry}"
        );
        // Twice, so no id is used up; then for real, with the same answer.
        let done = spoolgate(&scratch.home(), &["handle", path]);
        ends(&done, exit);
        let real: Value = serde_json::from_slice(&done.stdout).unwrap();
        assert_eq!(
            (&dry["status"], &dry["auditRef"]),
            (&real["status"], &real["auditRef"]),
            "{dry} {real}"
        );
        assert_eq!(dry["error"]["code"], real["error"]["code"]);
        let kind = if exit == 0 { "Accepted" } else { "Rejected" };
        assert!(dry["data"][kind].is_object(), "{dry}");
        assert_eq!(
            dry["data"][kind]["headroom"],
            real["data"][kind]["headroom"]
        );
    }
    // A decided request gets its stored answer.
    let (exit, dry) = dry(&scratch, &[path]);
    assert_eq!((exit, &dry["requestId"]), (1, &"big".into()));
}

/// It was reported as a storage failure, because an action that begins has no answer yet.
#[test]
fn a_dry_run_of_an_outgoing_action_says_that_it_would_begin_and_has_nothing_done() {
    let scratch = Scratch::new();
    let home = scratch.home();
    let principals = fs::read_to_string(home.join("rules/principals.yaml")).unwrap();
    let granted = principals.replacen(
        "name: trend-bot",
        "name: trend-bot\n    actions: [email.send]",
        1,
    );
    fs::write(home.join("rules/principals.yaml"), granted).unwrap();
    let adapters = "adapters:\n  - {actions: [email.send], adapter: exec, command: {program: \
        touch, args: [ran], time_limit_s: 9, output_bytes_max: 9}}\n";
    fs::write(home.join("rules/gateway.yaml"), adapters).unwrap();
    succeed(
        &home,
        &[
            "services",
            "add",
            "mail",
            "smtp.example.com",
            "--protocol",
            "smtp",
            "--action",
            "email.send",
        ],
    );
    succeed(&home, &["run", "--until-idle"]);
    let file = scratch.beside("r.json");
    let mail = r#"{"to":["ann@example.com"],"subject":"s","body":"b"}"#;
    fs::write(&file, scratch.request("mail", "email.send", mail)).unwrap();
    let (exit, told) = dry(&scratch, &[file.to_str().unwrap()]);
    assert_eq!(
        (exit, &told["status"], &told["data"]["would_be"]),
        (0, &"success".into(), &"pending".into())
    );
    assert!(!home.join("ran").exists(), "an adapter ran");
}

#[test]
fn a_dry_run_accepts_unsigned_requests() {
    let scratch = Scratch::with_prices();
    let file = scratch.beside("order.json");
    let path = file.to_str().unwrap();
    fs::write(&file, order("0.02")).unwrap();
    let (exit, answer) = dry(
        &scratch,
        &[path, "--as", "trend-bot", "--action", "order.submit"],
    );
    assert_eq!(exit, 0, "{answer}");
    let done = spoolgate(&scratch.home(), &["handle", "--dry-run", path]);
    ends(&done, 2);
    assert!(
        err(&done).contains("name its action with --action"),
        "{}",
        err(&done)
    );
    let done = spoolgate(
        &scratch.home(),
        &["handle", "--dry-run", path, "--action", "order.submit"],
    );
    ends(&done, 2);
    assert!(err(&done).contains("--as"), "{}", err(&done));
    fs::write(
        &file,
        format!(
            r#"{{"action":"order.submit","source":"trend-bot","payload":{}}}"#,
            order("0.02")
        ),
    )
    .unwrap();
    assert_eq!(dry(&scratch, &[path]).0, 0);
    // A sender without a key cannot ask.
    let (exit, answer) = dry(&scratch, &[path, "--as", "hermes"]);
    assert_eq!(
        (exit, &answer["error"]["code"]),
        (1, &"SIGNATURE_INVALID".into()),
        "{answer}"
    );
    // Without --dry-run such a file is not accepted.
    ends(
        &spoolgate(&scratch.home(), &["handle", path, "--as", "trend-bot"]),
        2,
    );
    for (text, what) in [
        (
            r#"{"action":"order.submit","source":"trend-bot","payload":{},"more":1}"#,
            "unknown field `more`",
        ),
        ("[]", "object"),
        (
            r#"{"action":"order.submit","source":"../x","payload":{}}"#,
            "principal",
        ),
    ] {
        fs::write(&file, text).unwrap();
        let done = spoolgate(&scratch.home(), &["handle", "--dry-run", path]);
        ends(&done, 2);
        assert!(err(&done).contains(what), "{text}: {}", err(&done));
    }
}

#[test]
fn a_dry_run_works_beside_a_running_gate_and_under_other_rules() {
    let scratch = Scratch::with_prices();
    let mut gate = command(&scratch.home(), &["watch"])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let file = scratch.beside("r.json");
    let path = file.to_str().unwrap();
    fs::write(
        &file,
        scratch.request("first", "order.submit", &order("0.02")),
    )
    .unwrap();
    let checkout = Checkout::new(&[(
        "core/small.yaml",
        &rule(
            "small",
            "reject",
            "  - {field: order.size, op: gt, value: 0.01}\n",
        ),
    )]);
    let rules = checkout.0.path().to_str().unwrap();
    let (exit, plain) = dry(&scratch, &[path]);
    assert_eq!(exit, 0, "{plain}");
    let (exit, under) = dry(&scratch, &[path, "--rules", rules]);
    assert_eq!(exit, 1, "{under}");
    assert!(under.to_string().contains("small"), "{under}");
    // The same through `rules explain`, with the size that would pass.
    let args = [
        "--format", "json", "rules", "explain", path, "--rules", rules,
    ];
    let told: Value = serde_json::from_str(&succeed(&scratch.home(), &args)).unwrap();
    assert_eq!(told["facts"]["order.size"], "0.02");
    let small = &told["rules"][0];
    assert_eq!(
        (&small["acts"], &small["conditions"][0]["holds"]),
        (&true.into(), &"yes".into())
    );
    assert_eq!(small["change"][0], "`order.size` 0.01 or less");
    checkout.write("core/small.yaml", "id: small\n");
    let done = spoolgate(
        &scratch.home(),
        &["handle", "--dry-run", path, "--rules", rules],
    );
    ends(&done, 2);
    assert!(err(&done).contains("small.yaml"), "{}", err(&done));
    gate.kill().unwrap();
    gate.wait().unwrap();
}
