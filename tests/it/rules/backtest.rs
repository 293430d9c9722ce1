//! `rules backtest`: under their own rules, all decisions come out as recorded in the ledger; under
//! other rules, some flip.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use crate::kit::desk::{Desk, order};
use crate::kit::{PROGRAM, spoolgate, succeed};
use serde_json::Value;
use spoolgate_gate::fired::{Fate, Tally};
use spoolgate_home::Home;
use spoolgate_host::rule_folder::load;
use spoolgate_replay::backtest::{Flip, Options, Report, backtest};
use spoolgate_rules::Rulebook;
use spoolgate_wire::ids::RuleId;

fn rule(desk: &Desk, id: &str, status: &str, when: &str, then: &str) {
    fs::create_dir_all(desk.place.root.path().join("rules/core")).unwrap();
    let text = format!(
        "id: {id}\nstatus: {status}\napplies_to: {{action: order.submit}}\nwhen: [{when}]\nthen: \
            {then}\nmessage: no\n"
    );
    desk.edit(&format!("rules/core/{id}.yaml"), |_| text.clone());
}

fn buy(desk: &Desk, home: &mut Home, id: &str, size: &str, thesis: &str) -> Fate {
    let outcome = desk.one(
        home,
        "trend-bot",
        id,
        "order.submit",
        &order("trend", "buy", size, None, thesis),
    );
    Fate::of(&outcome.decision)
}

fn over(desk: &Desk, options: &Options) -> Report {
    backtest(
        desk.place.root.path(),
        &desk.place.seams(),
        options,
        &mut |_| {},
    )
    .unwrap()
}

/// Checks that under the rules of the time no byte differs.
fn nothing_differs(desk: &Desk) -> Report {
    let report = over(
        desk,
        &Options {
            flips: 10,
            ..Options::default()
        },
    );
    assert_eq!(
        (report.flipped(), &report.other_bytes),
        (0, &Vec::new()),
        "{:?}",
        report.flips
    );
    assert_eq!(report.same, report.again);
    assert_eq!(report.recorded, report.backtest);
    report
}

/// Runs a backtest under the rules that are in the desk's folder now.
fn under_present(desk: &Desk) -> Report {
    let bundle = load(desk.place.root.path()).unwrap();
    let rules = Some(Arc::new(Rulebook::compile(&bundle).unwrap()));
    over(
        desk,
        &Options {
            rules,
            flips: 10,
            ..Options::default()
        },
    )
}

fn flips(report: &Report) -> Vec<(String, Flip)> {
    report
        .flips
        .iter()
        .map(|flip| (flip.request_id.clone().unwrap(), flip.flip))
        .collect()
}

const BIG: &str = "{field: order.size, op: gt, value: 0.004}";

#[test]
fn the_demo_has_no_difference() {
    let folder = crate::kit::folder();
    let home = folder.path().join("home");
    let done = Command::new(PROGRAM)
        .args(["--format", "json", "demo"])
        .arg(&home)
        .output()
        .unwrap();
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    let told = succeed(&home, &["--format", "json", "rules", "backtest"]);
    let report: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(report["same"], report["again"], "{told}");
    assert_eq!(report["other_bytes"], serde_json::json!([]), "{told}");
    assert!(report["again"].as_u64().unwrap() > 50, "{told}");
    let not_again: BTreeMap<String, u64> =
        serde_json::from_value(report["not_again"].clone()).unwrap();
    // Lines that are not decisions under rules are named, and no other line is left out.
    let allowed = [
        "no good signature",
        "sent again, and answered with the earlier answer",
        "its id was used before",
    ];
    assert!(
        not_again.keys().all(|why| allowed.contains(&why.as_str())),
        "{not_again:?}"
    );
    let left_out: u64 = not_again.values().sum();
    assert_eq!(
        report["decisions"].as_u64().unwrap(),
        report["again"].as_u64().unwrap() + left_out
    );
    // Rules that refuse every order refuse all accepted orders, and nothing else.
    let draft = folder.path().join("draft");
    for part in ["rules", "proposals", "council"] {
        copy(&home.join(part), &draft.join(part));
    }
    // The rule that an agent proposes during the day is not there yet.
    fs::remove_file(draft.join("rules/active/limit-entries-only.yaml")).unwrap();
    let accepted: u64 = report["recorded"]["accepted"].as_u64().unwrap();
    let safety = fs::read_to_string(draft.join("rules/safety.yaml")).unwrap();
    let (head, tail) = safety.split_once("max_order_value:").unwrap();
    let (_, tail) = tail.split_once('\n').unwrap();
    fs::write(
        draft.join("rules/safety.yaml"),
        format!("{head}max_order_value: 0.01\n{tail}"),
    )
    .unwrap();
    let told = succeed(
        &home,
        &[
            "--format",
            "json",
            "rules",
            "backtest",
            "--rules",
            draft.to_str().unwrap(),
        ],
    );
    let tight: Value = serde_json::from_str(&told).unwrap();
    let newly = tight["newly_refused"].as_u64().unwrap();
    assert!(newly > 0 && newly < accepted, "{told}");
    assert_eq!(tight["newly_accepted"], 0, "{told}");
    for flip in tight["flips"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|flip| flip["flip"] == "newly_refused")
    {
        assert_eq!(flip["action"], "order.submit");
        assert_eq!(flip["before"]["failed"], serde_json::json!([]));
        assert_eq!(
            flip["after"]["failed"][0]["name"], "max_order_value",
            "{flip}"
        );
    }
    // As a table, and with a faulty folder.
    let table = succeed(
        &home,
        &[
            "rules",
            "backtest",
            "--rules",
            draft.to_str().unwrap(),
            "--flips",
            "1",
        ],
    );
    assert!(
        table.contains("newly refused") && table.contains("max_order_value"),
        "{table}"
    );
    fs::write(draft.join("rules/safety.yaml"), "nonsense: 1\n").unwrap();
    let refused = spoolgate(
        &home,
        &["rules", "backtest", "--rules", draft.to_str().unwrap()],
    );
    assert_eq!(refused.status.code(), Some(2));
}

fn copy(from: &Path, to: &Path) {
    let Ok(entries) = fs::read_dir(from) else {
        return;
    };
    fs::create_dir_all(to).unwrap();
    for entry in entries {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to.join(entry.file_name())),
            false => drop(fs::copy(entry.path(), to.join(entry.file_name())).unwrap()),
        }
    }
}

#[test]
fn rules_that_come_and_go_flip_what_they_say_and_nothing_else() {
    let desk = Desk::with_limits("");
    let mut home = desk.open();
    assert_eq!(
        buy(&desk, &mut home, "a", "0.005", "btc-range-long"),
        Fate::Accepted
    );
    drop(home);
    rule(&desk, "no-big", "active", BIG, "reject");
    // It is not a duplicate of the first.
    desk.place.pass_s(40);
    let mut home = desk.open();
    assert_eq!(
        buy(&desk, &mut home, "b", "0.005", "btc-dip-long"),
        Fate::Refused
    );
    assert_eq!(
        buy(&desk, &mut home, "c", "0.003", "btc-dip-long"),
        Fate::Accepted
    );
    // It also exceeds a limit, so both refuse it.
    assert_eq!(
        buy(&desk, &mut home, "d", "9", "btc-dip-long"),
        Fate::Refused
    );
    drop(home);
    let own = nothing_differs(&desk);
    let id = RuleId::parse("no-big").unwrap();
    assert_eq!(
        own.recorded.rules[&id],
        Tally {
            fired: 2,
            sole: 1,
            joint: 1,
            ..Tally::default()
        }
    );

    // The present rules, over the whole ledger: `a` would have been refused as well.
    let present = under_present(&desk);
    assert_eq!(flips(&present), [("a".to_owned(), Flip::NewlyRefused)]);
    let flip = &present.flips[0];
    assert_eq!(
        (flip.before.fate, flip.before.failed.len()),
        (Fate::Accepted, 0)
    );
    assert_eq!(
        (&*flip.after.failed[0].name, flip.after.code),
        ("no-big", Some("RULE_REFUSED"))
    );
    assert_eq!(
        present.backtest.rules[&id],
        Tally {
            fired: 3,
            sole: 2,
            joint: 1,
            ..Tally::default()
        }
    );

    // Without the rule `b` is accepted, and `d` is refused for one reason less.
    rule(&desk, "no-big", "suspended", BIG, "reject");
    let without = under_present(&desk);
    let expect = [
        ("b".to_owned(), Flip::NewlyAccepted),
        ("d".to_owned(), Flip::ReasonChanged),
    ];
    assert_eq!(flips(&without), expect);
    assert_eq!(without.flips[0].before.failed[0].name, "no-big");
    assert_eq!(
        [
            without.newly_accepted,
            without.reason_changed,
            without.newly_refused
        ],
        [1, 1, 0]
    );
    assert_eq!(without.backtest.rules.get(&id), None);

    // In shadow, the rule reports in the same form what it would do.
    rule(&desk, "no-big", "shadow", BIG, "reject");
    let shadow = under_present(&desk);
    let tally = Tally {
        fired: 3,
        shadow_sole: 2,
        shadow_joint: 1,
        ..Tally::default()
    };
    assert_eq!(shadow.backtest.rules[&id], tally);

    // Times select decisions; only as many flips as requested are listed, and all are counted.
    let rules = Some(Arc::new(
        Rulebook::compile(&load(desk.place.root.path()).unwrap()).unwrap(),
    ));
    let part = |from, to, flips| {
        let rules = rules.clone();
        over(
            &desk,
            &Options {
                rules,
                from,
                to,
                flips,
            },
        )
    };
    let border = Some(present.flips[0].time.plus_ms(1));
    let (late, early) = (part(border, None, 10), part(None, border, 10));
    assert_eq!(late.decisions + early.decisions, shadow.decisions);
    let none = part(None, None, 0);
    assert_eq!((none.flips.len(), none.flipped()), (0, shadow.flipped()));
}

#[test]
fn lines_that_cannot_be_decided_again_are_counted_and_named() {
    let desk = Desk::with_limits("");
    let mut home = desk.open();
    assert_eq!(
        buy(&desk, &mut home, "a", "0.005", "btc-range-long"),
        Fate::Accepted
    );
    // The same file again, and another request under its id.
    let again = order("trend", "buy", "0.005", None, "btc-range-long");
    desk.one(&mut home, "trend-bot", "a", "order.submit", &again);
    desk.one(&mut home, "trend-bot", "a", "portfolio.get", "{}");
    desk.place.disk.put("spool/in/x.json", b"{}");
    crate::kit::place::drain(&mut home).unwrap();
    // A payload too large for its line.
    let reason = "x".repeat(9000);
    desk.one_as_owner(
        &mut home,
        "large",
        "halt.set",
        &format!(r#"{{"reason":"{reason}"}}"#),
    );
    let long = "y".repeat(400);
    desk.one(
        &mut home,
        "trend-bot",
        "f",
        "fills.list",
        &format!(r#"{{"since":"{long}"}}"#),
    );
    drop(home);
    let report = nothing_differs(&desk);
    let count = |why: &str| report.not_again.get(why).copied().unwrap_or(0);
    assert_eq!(count("no good signature"), 1);
    assert_eq!(count("sent again, and answered with the earlier answer"), 1);
    assert_eq!(count("its id was used before"), 1);
    assert_eq!(
        report.decisions,
        report.again + report.not_again.values().sum::<u64>()
    );
    // If a rulebook is lost, its decisions cannot be made again, and the report says so; under
    // other rules they can.
    let kept = desk.place.disk.files_below("audit/rulebooks");
    assert_eq!(kept.len(), 2);
    for (path, _) in &kept {
        desk.place.disk.put(path.display().to_string(), b"{}\n");
    }
    let lost = over(&desk, &Options::default());
    assert_eq!(
        (lost.again, lost.not_again["its rulebook is lost"]),
        (0, report.again)
    );
    assert_eq!(under_present(&desk).again, report.again);
}

#[test]
fn held_requests_and_what_was_accepted_before_come_out_as_they_were() {
    let desk = Desk::with_limits("");
    let held = "{field: order.size, op: eq, value: 0.005}";
    rule(&desk, "look-first", "active", held, "hold");
    rule(
        &desk,
        "not-so-many",
        "active",
        "{field: history.count, window_s: 3600, op: gte, value: 2}",
        "reject",
    );
    let mut home = desk.open();
    let thesis = |n: i32| {
        if n % 2 == 0 {
            "btc-range-long"
        } else {
            "btc-dip-long"
        }
    };
    let mut fates = Vec::new();
    for (n, (size, action)) in [
        ("0.005", Some("approval.deny")),
        ("0.005", Some("approval.grant")),
        ("0.003", None),
        ("0.004", None),
        ("0.005", None),
    ]
    .into_iter()
    .enumerate()
    {
        fates.push(buy(
            &desk,
            &mut home,
            &format!("r{n}"),
            size,
            thesis(i32::try_from(n).unwrap()),
        ));
        let hold = home.state().approvals.iter().next().cloned();
        if let (Some(hold), Some(action)) = (hold, action) {
            let payload = serde_json::json!({"id": hold.id, "request_sha256": hold.request_sha256})
                .to_string();
            desk.place
                .ask_as_owner(&format!("say{n}"), action, &payload);
            crate::kit::place::drain(&mut home).unwrap();
        }
        desk.place.pass_s(40);
        desk.bar(&mut home, "6800", "6800");
    }
    // Granted and accepted: there are 2 orders by then, so the fourth and fifth are one too many.
    assert_eq!(
        fates,
        [
            Fate::Held,
            Fate::Held,
            Fate::Accepted,
            Fate::Refused,
            Fate::Refused
        ]
    );
    drop(home);
    let own = nothing_differs(&desk);
    assert_eq!(
        own.not_again,
        BTreeMap::from([("a hold that was not granted", 1)])
    );
    let hold = RuleId::parse("look-first").unwrap();
    assert_eq!((own.recorded.held, own.recorded.rules[&hold].joint), (2, 1));
    // Without the rule that holds, both are accepted at once; the ends of the holds are the
    // requests again, and are accepted too.
    rule(&desk, "look-first", "suspended", held, "hold");
    let without = under_present(&desk);
    let newly: Vec<_> = flips(&without)
        .into_iter()
        .filter(|(_, flip)| *flip == Flip::NewlyAccepted)
        .collect();
    assert_eq!(
        newly,
        [
            ("r0".to_owned(), Flip::NewlyAccepted),
            ("r1".to_owned(), Flip::NewlyAccepted)
        ]
    );
    // If everything large is held, orders that were accepted are held.
    rule(
        &desk,
        "look-first",
        "active",
        "{field: order.size, op: lt, value: 0.004}",
        "hold",
    );
    let more = under_present(&desk);
    assert!(
        flips(&more).contains(&("r2".to_owned(), Flip::NewlyHeld)),
        "{:?}",
        flips(&more)
    );
}
