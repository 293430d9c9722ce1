//! `rules review` of folders as a process: directions, witnesses that show what they claim, and requests that
//! can be tried.

use std::fs;
use std::path::{Path, PathBuf};

use crate::kit::{Scratch, show, spoolgate};
use serde_json::Value;
use tempfile::TempDir;

/// Two folders of rules.
struct Pair(TempDir);

impl Pair {
    fn new(old: &[(&str, &str)], new: &[(&str, &str)]) -> Pair {
        let pair = Pair(crate::kit::folder());
        for (name, files) in [("old", old), ("new", new)] {
            fs::create_dir_all(pair.path(name).join("rules/core")).unwrap();
            for (path, text) in files {
                let path = pair.path(name).join("rules").join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
        }
        pair
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Returns the exit code and the comparison.
    fn review(&self) -> (i32, Value) {
        let (old, new) = (self.path("old"), self.path("new"));
        let args = [
            "--format",
            "json",
            "rules",
            "review",
            old.to_str().unwrap(),
            new.to_str().unwrap(),
        ];
        let done = spoolgate(Path::new("/nonexistent"), &args);
        (
            done.status.code().unwrap(),
            serde_json::from_slice(&done.stdout).unwrap_or_else(|_| panic!("{}", show(&done))),
        )
    }
}

fn rule(id: &str, then: &str, when: &str) -> String {
    format!(
        "id: {id}\nstatus: active\napplies_to: {{action: order.submit}}\nwhen:\n{when}then: \
            {then}\nmessage: no\n"
    )
}

fn size(op: &str, value: &str) -> String {
    format!("  - {{field: order.size, op: {op}, value: {value}}}\n")
}

#[test]
fn directions_and_their_exit_codes() {
    let three = rule("a", "reject", &size("gt", "3"));
    let five = rule("a", "reject", &size("gt", "5"));
    let hold = rule("a", "hold", &size("gt", "3"));
    let below = rule("a", "reject", &size("lt", "3"));
    let buys = rule(
        "a",
        "reject",
        &(size("gt", "3") + "  - {field: order.side, op: eq, value: buy}\n"),
    );
    let sells = rule(
        "b",
        "reject",
        &(size("gt", "3") + "  - {field: order.side, op: eq, value: sell}\n"),
    );
    for (old, new, direction, exit) in [
        (vec![&three], vec![&three], "same", 0),
        (vec![&five], vec![&three], "tightening", 0),
        (vec![&three], vec![&five], "loosening", 3),
        (vec![&three], vec![&hold], "loosening", 3),
        (vec![&hold], vec![&three], "tightening", 0),
        (vec![&three], vec![&below], "incomparable", 3),
        (vec![&three], vec![], "loosening", 3),
        (vec![], vec![&three], "tightening", 0),
        // One rule split into two.
        (vec![&three], vec![&buys, &sells], "same", 0),
    ] {
        fn files<'a>(rules: &[&'a String]) -> Vec<(&'static str, &'a str)> {
            ["core/a.yaml", "core/b.yaml"]
                .into_iter()
                .zip(rules.iter().map(|text| text.as_str()))
                .collect()
        }
        let pair = Pair::new(&files(&old), &files(&new));
        let (code, told) = pair.review();
        assert_eq!(
            (&told["verdict"], code),
            (&direction.into(), exit),
            "{told}"
        );
        assert_eq!(told["loosens"].is_null(), exit == 0, "{told}");
        assert_eq!(
            told["tightens"].is_null(),
            !matches!(direction, "tightening" | "incomparable"),
            "{told}"
        );
        // The witness was evaluated, and differs as it claims.
        let rank = |side: &Value| {
            ["accept", "warn", "hold", "reject"]
                .iter()
                .position(|word| side["verdict"] == *word)
                .unwrap()
        };
        for (witness, is_softer) in [(&told["loosens"], true), (&told["tightens"], false)] {
            if !witness.is_null() {
                assert_eq!(
                    rank(&witness["new"]) < rank(&witness["old"]),
                    is_softer,
                    "{witness}"
                );
                assert_eq!(witness["feasible"], true);
                assert_eq!(
                    witness["request"]["payload"]["size"], witness["facts"]["order.size"],
                    "{witness}"
                );
            }
        }
    }
}

#[test]
fn changed_files_are_named() {
    let set = |value: &str| {
        format!(
            "name: s\nkind: word\nentries:\n  - {{value: {value}, provenance: user_established}}\n"
        )
    };
    let uses = rule(
        "uses",
        "reject",
        "  - {field: order.symbol, op: not_in, value: s}\n",
    );
    let pair = Pair::new(
        &[
            ("core/uses.yaml", &uses),
            ("core/gone.yaml", &rule("gone", "warn", &size("gt", "1"))),
            ("sets/s.yaml", &set("BTC-USD")),
            ("tests/x.yaml", "cases: []\n"),
            (
                "rates.yaml",
                "spool: {requests_per_minute: 60, bytes_per_minute: 100000}\n",
            ),
        ],
        &[
            ("core/uses.yaml", &uses),
            ("active/come.yaml", &rule("come", "warn", &size("gt", "1"))),
            ("sets/s.yaml", &set("ETH-USD")),
            (
                "rates.yaml",
                "spool: {requests_per_minute: 61, bytes_per_minute: 100000}\n",
            ),
        ],
    );
    let (exit, told) = pair.review();
    assert_eq!(
        (exit, &told["verdict"]),
        (3, &"incomparable".into()),
        "{told}"
    );
    assert_eq!(
        told["rule_files"],
        serde_json::json!([
            "rules/active/come.yaml",
            "rules/core/gone.yaml",
            "rules/sets/s.yaml"
        ])
    );
    assert_eq!(
        told["moves"],
        serde_json::json!([{"file": "rules/rates.yaml", "what": "spool changes", "way": "open"}])
    );
    assert_eq!(told["loosens"]["facts"]["order.symbol"], "ETH-USD");
    assert_eq!(told["tightens"]["facts"]["order.symbol"], "BTC-USD");
    // The same as text.
    let (old, new) = (pair.path("old"), pair.path("new"));
    let done = spoolgate(
        Path::new("."),
        &[
            "rules",
            "review",
            old.to_str().unwrap(),
            new.to_str().unwrap(),
        ],
    );
    let words = String::from_utf8(done.stdout).unwrap();
    for part in [
        "incomparable, not approved",
        "looser: for example order.submit with",
        "old: reject by uses\nnew: accept",
        "for people  rules/rates.yaml        spool changes",
        "area rest needs 1, has 0",
    ] {
        assert!(words.contains(part), "no {part} in\n{words}");
    }
}

#[test]
fn facts_that_no_request_holds_are_named() {
    let zscore = |value: &str| {
        rule(
            "a",
            "reject",
            &format!("  - {{field: market.funding_rate_zscore, op: gt, value: {value}}}\n"),
        )
    };
    let pair = Pair::new(
        &[("core/a.yaml", &zscore("3"))],
        &[("core/a.yaml", &zscore("4"))],
    );
    let (exit, told) = pair.review();
    assert_eq!(exit, 3);
    assert_eq!(
        told["loosens"]["outside_request"],
        serde_json::json!(["market.funding_rate_zscore"])
    );
    assert!(told["loosens"]["request"].is_object());
}

#[test]
fn a_witness_goes_through_a_dry_run_under_both_rulebooks() {
    let scratch = Scratch::with_prices();
    let of = |most: &str| rule("small", "reject", &size("gt", most));
    let pair = Pair::new(
        &[("core/small.yaml", &of("0.001"))],
        &[("core/small.yaml", &of("0.002"))],
    );
    // The rest of the rulebook, including theses, because a witness names one.
    for name in ["old", "new"] {
        for path in [
            "rules/safety.yaml",
            "rules/principals.yaml",
            "rules/instruments.yaml",
            "rules/strategies/trend.yaml",
            "rules/strategies/range.yaml",
            "proposals/theses/btc-range-long.md",
            "council/roles.yaml",
        ] {
            let to = pair.path(name).join(path);
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(scratch.home().join(path), to).unwrap();
        }
    }
    let (old, new) = (pair.path("old"), pair.path("new"));
    let (old, new) = (old.to_str().unwrap(), new.to_str().unwrap());
    let file = scratch.beside("witness.json");
    let path = file.to_str().unwrap();
    let done = spoolgate(
        &scratch.home(),
        &["rules", "review", old, new, "--witness", path],
    );
    assert_eq!(done.status.code(), Some(3), "{}", show(&done));
    let request: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!(
        (&request["source"], &request["payload"]["thesis_slug"]),
        (&"trend-bot".into(), &"btc-range-long".into())
    );
    let refuses = |rules: &str| {
        let done = spoolgate(
            &scratch.home(),
            &["handle", "--dry-run", "--rules", rules, path],
        );
        let answer: Value =
            serde_json::from_slice(&done.stdout).unwrap_or_else(|_| panic!("{}", show(&done)));
        let failed = answer["data"]["Rejected"]["checks_failed"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        failed.iter().any(|row| row["check_name"] == "small")
    };
    assert!(refuses(old), "the old rules let the witness pass");
    assert!(!refuses(new), "the new rules refuse the witness");
    // Without a witness there is no file.
    let none = scratch.beside("none.json");
    let done = spoolgate(
        &scratch.home(),
        &[
            "rules",
            "review",
            old,
            old,
            "--witness",
            none.to_str().unwrap(),
        ],
    );
    assert_eq!(done.status.code(), Some(0), "{}", show(&done));
    assert!(!none.exists());
}

#[test]
fn a_faulty_rulebook_is_not_compared() {
    let good = rule("a", "reject", &size("gt", "3"));
    let pair = Pair::new(&[("core/a.yaml", &good)], &[("core/a.yaml", "id: a\n")]);
    let (old, new) = (pair.path("old"), pair.path("new"));
    let (old, new) = (old.to_str().unwrap(), new.to_str().unwrap());
    for args in [[old, new], [new, old], [old, "/nonexistent"]] {
        let done = spoolgate(
            Path::new("."),
            &["--format", "json", "rules", "review", args[0], args[1]],
        );
        assert_eq!(done.status.code(), Some(2), "{}", show(&done));
        assert!(done.stdout.is_empty() && !done.stderr.is_empty());
    }
}

/// A witness has what the rules read, which may be too little for a request of this action.
#[test]
fn a_witness_that_is_no_whole_request_is_not_called_impossible() {
    let body = |text: &str| {
        rule(
            "a",
            "reject",
            &format!("  - {{field: payload.body, op: eq, value: {text}}}\n"),
        )
        .replace("order.submit", "email.send")
    };
    let pair = Pair::new(
        &[("core/a.yaml", &body("foo"))],
        &[("core/a.yaml", &body("bar"))],
    );
    let (exit, told) = pair.review();
    assert_eq!(exit, 3, "{told}");
    assert_eq!(told["loosens"]["feasible"], true, "{told:#}");
    let (old, new) = (pair.path("old"), pair.path("new"));
    let args = [
        "rules",
        "review",
        old.to_str().unwrap(),
        new.to_str().unwrap(),
    ];
    let done = spoolgate(Path::new("."), &args);
    let words = String::from_utf8(done.stdout).unwrap();
    assert!(words.contains("write one that has them"), "{words}");
}
