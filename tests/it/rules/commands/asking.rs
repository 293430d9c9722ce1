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
