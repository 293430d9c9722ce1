//! `rules ask`, as a process.

use super::*;

/// Runs `rules ask` on a checkout.
fn ask(checkout: &Checkout, more: &[&str]) -> Output {
    let dir = checkout.0.path().to_str().unwrap();
    let mut args = vec!["rules", "ask", "--rules", dir, "--action"];
    args.extend(more);
    spoolgate(Path::new("/nonexistent"), &args)
}

fn mail_rules() -> Checkout {
    let mail = |id: &str, then: &str, when: &str| {
        rule(id, then, when).replace("order.submit", "email.send")
    };
    let new = "  - {field: \"payload.recipients[]\", op: not_in, value: known}\n";
    let night = "  - {field: time.of_day, op: in, value: [\"22:00-06:00\"]}\n";
    let secrets = "  - {field: payload.body, op: matches, value: \"sk-[0-9]+\"}\n";
    Checkout::new(&[
        (
            "core/new-recipients.yaml",
            &mail("new-recipients", "hold", &format!("{new}{night}")),
        ),
        ("core/secrets.yaml", &mail("secrets", "reject", secrets)),
        (
            "sets/known.yaml",
            "name: known\nkind: address\nentries:\n  - {value: ann@x.example, provenance: user_established}\n  \
                - {value: bob@x.example, provenance: user_established, expires: 2026-06-01T00:00:00Z}\n",
        ),
    ])
}

#[test]
fn a_question_says_what_holds_whatever_else() {
    let checkout = mail_rules();
    let asked = |more: &[&str]| {
        let done = ask(&checkout, more);
        (done.status.code(), out(&done), err(&done))
    };
    let stranger = "payload.to[]=x@new.example";
    // The first line of what is said, its exit code, and what was asked.
    for (more, code, said) in [
        (
            &[
                "email.send",
                stranger,
                "time.of_day=23:00",
                "payload.body=hello",
            ][..],
            3,
            "held by new-recipients whatever else",
        ),
        (
            &["email.send", stranger, "time.of_day=23:00"],
            1,
            "at least held by new-recipients; depends on payload.body: refused by secrets if \
                payload.body matches sk-[0-9]+",
        ),
        (
            &[
                "email.send",
                "payload.to[]=ann@x.example",
                "time.of_day=23:00",
                "payload.body=hello",
            ],
            3,
            "depends on payload.recipients[]: held by new-recipients if payload.recipients[] \
                not_in known",
        ),
        (
            &[
                "email.send",
                "payload.to[]=ann@x.example",
                "time.of_day=23:00",
                "payload.body=hello",
                "--absent",
                "payload.cc[]",
            ],
            0,
            "accepted whatever else",
        ),
        (
            &["email.send", "payload.body=sk-1"],
            1,
            "refused by secrets whatever else",
        ),
        (
            &["email.send", "payload.body=sk-", "time.of_day=06:00"],
            0,
            "accepted whatever else",
        ),
        (&["email.draft"], 0, "accepted whatever else"),
    ] {
        let (found, told, fault) = asked(more);
        assert_eq!(
            (found, told.lines().next()),
            (Some(code), Some(said)),
            "{more:?} {fault}"
        );
    }
}

#[test]
fn entries_of_sets_expire_and_json_has_the_same_answer() {
    let checkout = mail_rules();
    let asked = |more: &[&str]| {
        let done = ask(&checkout, more);
        (done.status.code(), out(&done), err(&done))
    };
    let stranger = "payload.to[]=x@new.example";
    let bob = [
        "email.send",
        "payload.to[]=bob@x.example",
        "time.of_day=23:00",
        "payload.body=a",
    ];
    let at = |time: &str| {
        let mut more = bob.to_vec();
        more.extend(["--absent", "payload.cc[]", "--at", time]);
        asked(&more).0
    };
    assert_eq!(at("2026-05-31T23:59:59.999Z"), Some(0));
    assert_eq!(at("2026-06-01T00:00:00Z"), Some(3), "his entry has expired");
    let dir = checkout.0.path().to_str().unwrap();
    let json = spoolgate(
        Path::new("/nonexistent"),
        &[
            "--format",
            "json",
            "rules",
            "ask",
            "--rules",
            dir,
            "--action",
            "email.send",
            stranger,
            "time.of_day=23:00",
        ],
    );
    ends(&json, 1);
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(
        (&json["softest"], &json["hardest"]),
        (&"held".into(), &"refused".into())
    );
    assert_eq!(json["depends_on"], serde_json::json!(["payload.body"]));
    assert_eq!(
        json["open"][0]["if"],
        serde_json::json!(["payload.body matches sk-[0-9]+"])
    );
    assert_eq!(
        json["acting"],
        serde_json::json!([{"rule": "new-recipients", "then": "hold"}])
    );
}

#[test]
fn a_question_about_what_does_not_exist_is_told_the_nearest() {
    let checkout = mail_rules();
    for (more, said) in [
        (&["email.sned"][..], "did you mean `email.send`?"),
        (
            &["email.send", "payload.bdy=x"],
            "did you mean `payload.body`?",
        ),
        (
            &["email.send", "payload.to=x@y.example"],
            "did you mean `payload.to[]`?",
        ),
        (&["email.send", "time.weekday=fry"], "did you mean `fri`?"),
        (
            &["email.send", "time.of_day=9:00"],
            "a time of day is written as",
        ),
        (&["email.send", "payload.body"], "is not NAME=VALUE"),
        (
            &["email.send", "payload.body=a", "payload.body=b"],
            "is given twice",
        ),
        (
            &["email.send", "request.action=email.draft"],
            "comes from `--action`",
        ),
        (
            &["email.send", "--unknown", "payload.body"],
            "it is always known",
        ),
        (
            &["email.send", "--absent", "payload.body"],
            "cannot leave it out",
        ),
    ] {
        let done = ask(&checkout, more);
        ends(&done, 2);
        assert!(err(&done).contains(said), "{more:?}: {}", err(&done));
    }
    // With the other files, names are checked, too.
    let scratch = Scratch::new();
    let home = scratch.home();
    let done = spoolgate(
        &home,
        &[
            "rules",
            "ask",
            "--action",
            "order.submit",
            "order.symbol=btc-usd",
        ],
    );
    ends(&done, 2);
    assert!(
        err(&done).contains("did you mean `BTC-USD`?"),
        "{}",
        err(&done)
    );
    let done = spoolgate(
        &home,
        &[
            "rules",
            "ask",
            "--action",
            "order.submit",
            "--as",
            "trend-bto",
        ],
    );
    ends(&done, 2);
    assert!(
        err(&done).contains("did you mean `trend-bot`?"),
        "{}",
        err(&done)
    );
}

#[test]
fn the_smallest_change_that_passes_is_named_and_passes() {
    let size = |value: &str| format!("  - {{field: order.size, op: gt, value: {value}}}\n");
    let checkout = Checkout::new(&[
        ("core/cap.yaml", &rule("cap", "reject", &size("0.005"))),
        (
            "core/market.yaml",
            &rule(
                "market",
                "hold",
                &format!(
                    "  - {{field: order.order_type, op: eq, value: market}}\n{}",
                    size("0.001")
                ),
            ),
        ),
        (
            "core/sum.yaml",
            &rule(
                "sum",
                "reject",
                "  - {field: history.sum, of: order.size, window_s: 60, op: gt, value: 9}\n",
            ),
        ),
    ]);
    let asked = |facts: &[&str]| {
        let mut more = vec!["order.submit", "--nearest"];
        more.extend(facts);
        let done = ask(&checkout, &more);
        out(&done).lines().last().unwrap().to_owned()
    };
    let known = "history.sum(order.size, 60s)=1";
    for (facts, said) in [
        // The sum with the order is not known after a change of its size.
        (
            &["order.size=0.006", "order.order_type=limit", known][..],
            "order.size 0.006 -> 0.005 passes, unless refused by sum if history.sum(order.size, 60s) \
                gt 9 or is not known",
        ),
        (
            &["order.size=0.004", "order.order_type=market", known],
            "order.order_type \"market\" -> \"limit\" passes",
        ),
    ] {
        assert!(
            asked(facts).starts_with(said),
            "{facts:?}: {}",
            asked(facts)
        );
    }
    fs::remove_file(checkout.0.path().join("rules/core/sum.yaml")).unwrap();
    for (facts, said) in [
        (
            &["order.size=0.006", "order.order_type=limit"][..],
            "order.size 0.006 -> 0.005 passes",
        ),
        (
            &["order.size=0.006", "order.order_type=market"],
            "order.size 0.006 -> 0.001 passes",
        ),
        (&["order.size=0.006"], "order.size 0.006 -> 0.001 passes"),
        (
            &["order.order_type=market"],
            "no change of these facts was found with which it passes",
        ),
        (&["order.size=0.001"], "accepted whatever else"),
    ] {
        assert_eq!(asked(facts), said, "{facts:?}");
    }
}

#[test]
fn made_cases_are_written_once_the_same_and_leave_no_mutant() {
    let size = "  - {field: order.size, op: gt, value: 0.005}\n";
    let checkout = Checkout::new(&[
        ("core/cap.yaml", &rule("cap", "reject", size)),
        (
            "tests/own.yaml",
            "cases:\n  - {name: large, action: order.submit, facts: {order.size: 1}, expect: reject, rules: [cap]}\n",
        ),
    ]);
    let done = checkout.run("test", &["--mutate"]);
    ends(&done, 1);
    let told = out(&done);
    assert!(
        told.contains(
            "cap.yaml:5: no case notices that `order.size gt 0.005` becomes `order.size gte 0.005`"
        ),
        "{told}"
    );
    let dir = checkout.0.path().to_str().unwrap();
    let json = spoolgate(
        Path::new("/nonexistent"),
        &["--format", "json", "rules", "test", dir, "--mutate"],
    );
    ends(&json, 1);
    let living = out(&json);
    let living: Vec<Value> = living
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|line: &Value| line.get("mutant").is_some())
        .collect();
    assert_eq!(living[0]["change"], "operator", "{living:?}");
    assert!(
        living
            .iter()
            .any(|it| it["change"] == "dropped" && it.get("becomes").is_none())
    );
    let made = checkout.0.path().join("rules/tests/made.yaml");
    let make = |more: &[&str]| {
        let mut args = vec!["rules", "cases", "--rules", dir];
        args.extend(more);
        spoolgate(Path::new("/nonexistent"), &args)
    };
    let made = made.to_str().unwrap();
    ends(&make(&["--write", made]), 0);
    let first = fs::read(made).unwrap();
    ends(&make(&["cap", "--write", made]), 0);
    assert_eq!(
        fs::read(made).unwrap(),
        first,
        "the same for the same rules"
    );
    ends(&checkout.run("test", &["--mutate", "--coverage", "100"]), 0);
    let own = checkout.0.path().join("rules/tests/own.yaml");
    let done = make(&["--write", own.to_str().unwrap()]);
    ends(&done, 2);
    assert!(
        err(&done).contains("was not made by this command"),
        "{}",
        err(&done)
    );
    let misplaced = checkout.0.path().join("rules/core/made.yaml");
    let done = make(&["--write", misplaced.to_str().unwrap()]);
    ends(&done, 2);
    let told = err(&done);
    assert!(told.contains("would be a fault of the rules"), "{told}");
    assert!(!misplaced.exists());
    let done = make(&["cop"]);
    ends(&done, 2);
    assert!(err(&done).contains("did you mean `cap`?"), "{}", err(&done));
}
