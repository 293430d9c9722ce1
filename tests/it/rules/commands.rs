//! `rules fields`, `lint`, `test` and `explain`, and `handle --dry-run`, as processes: their output
//! for good and bad files, their exit codes, and that they leave nothing behind.

mod asking;
mod dry_runs;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::kit::{Scratch, command, show, spoolgate, succeed};
use serde_json::Value;
use tempfile::TempDir;

/// A folder of rules that is not a home.
struct Checkout(TempDir);

impl Checkout {
    fn new(files: &[(&str, &str)]) -> Checkout {
        let checkout = Checkout(crate::kit::folder());
        fs::create_dir_all(checkout.0.path().join("rules/core")).unwrap();
        files
            .iter()
            .for_each(|(path, text)| checkout.write(path, text));
        checkout
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.path().join("rules").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Runs `rules <what> <this folder>` with more arguments.
    fn run(&self, what: &str, more: &[&str]) -> Output {
        let dir = self.0.path().to_str().unwrap();
        let mut args = vec!["rules", what, dir];
        args.extend(more);
        // The folder is not a home, because these commands need no ledger.
        spoolgate(Path::new("/nonexistent"), &args)
    }
}

fn rule(id: &str, then: &str, when: &str) -> String {
    format!(
        "id: {id}\nstatus: active\napplies_to: {{action: order.submit}}\nwhen:\n{when}then: \
            {then}\nmessage: no\n"
    )
}

fn out(done: &Output) -> String {
    String::from_utf8_lossy(&done.stdout).into_owned()
}

fn err(done: &Output) -> String {
    String::from_utf8_lossy(&done.stderr).into_owned()
}

#[track_caller]
fn ends(done: &Output, exit: i32) {
    assert_eq!(done.status.code(), Some(exit), "{}", show(done));
}

/// The shipped roles stay in force if `roles.yaml` has another name, so lint must say that nothing
/// reads this one.
#[test]
fn a_file_of_the_council_under_a_wrong_name_is_told() {
    let checkout = Checkout::new(&[]);
    let council = checkout.0.path().join("council");
    fs::create_dir_all(council.join("cases")).unwrap();
    fs::write(council.join("README.md"), "words").unwrap();
    fs::write(council.join("cases/x.yaml"), "words").unwrap();
    ends(&checkout.run("lint", &[]), 0);
    fs::write(council.join("role.yaml"), "roles: []").unwrap();
    let done = checkout.run("lint", &[]);
    ends(&done, 2);
    assert!(out(&done).contains("role.yaml"), "{}", show(&done));
}

#[test]
fn fields_are_listed_by_action() {
    let home = Path::new("/nonexistent");
    let all = succeed(home, &["rules", "fields"]);
    let of_orders = succeed(home, &["rules", "fields", "--action", "order.submit"]);
    for field in [
        "order.size",
        "market.funding_rate_zscore",
        "time.of_day",
        "history.count",
    ] {
        assert!(
            of_orders.lines().any(|line| line.starts_with(field)),
            "{field}\n{of_orders}"
        );
    }
    assert!(all.contains("council.change_type") && !of_orders.contains("council.change_type"));
    let json = succeed(
        home,
        &[
            "--format",
            "json",
            "rules",
            "fields",
            "--action",
            "order.submit",
        ],
    );
    let side: Value = json
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .find(|field| field["field"] == "order.side")
        .unwrap();
    assert_eq!(
        (&side["kind"], &side["one_of"][1], &side["missing"]),
        (&"word".into(), &"sell".into(), &"never".into())
    );
    let done = spoolgate(home, &["rules", "fields", "--action", "order.cancel"]);
    ends(&done, 2);
    assert!(
        err(&done).contains("rules do not apply to `order.cancel`"),
        "{}",
        err(&done)
    );
}

#[test]
fn the_rules_of_this_project_are_without_fault() {
    let root = env!("CARGO_MANIFEST_DIR");
    let done = spoolgate(Path::new(root), &["rules", "lint", "--strict"]);
    ends(&done, 0);
    assert_eq!(out(&done), "");
    let done = spoolgate(Path::new(root), &["rules", "test", "--coverage", "100"]);
    ends(&done, 0);
    assert!(
        out(&done).contains("0 failed; 100 % covered"),
        "{}",
        out(&done)
    );
}

#[test]
fn every_fault_is_reported_with_its_line() {
    let checkout = Checkout::new(&[
        (
            "core/two.yaml",
            &rule(
                "two",
                "reject",
                "  - {field: order.siez, op: gt, value: 5}\n  - {field: order.side, op: eq, value: \
                    long}\n  - {field: order.size, op: gt, value: 1}\n",
            ),
        ),
        ("core/key.yaml", "id: key\nstatus: active\nwhat: 1\n"),
        (
            "core/other.yaml",
            &rule(
                "another",
                "reject",
                "  - {field: order.size, op: gt, value: 5}\n",
            ),
        ),
        (
            "active/two.yaml",
            &rule(
                "two",
                "reject",
                "  - {field: order.size, op: gt, value: 7}\n",
            ),
        ),
        (
            "core/lost.yaml",
            &rule(
                "lost",
                "reject",
                "  - {field: order.symbol, op: in, value: nowhere}\n",
            ),
        ),
        (
            "sets/bad.yaml",
            "name: bad\nkind: host\nentries:\n  - {value: a.example, provenance: \
                user_established}\n  - {value: not a host, provenance: seen}\n  - {value: \
                A.example, provenance: approved}\n",
        ),
        ("core/readme.txt", "hello"),
    ]);
    let done = checkout.run("lint", &[]);
    ends(&done, 2);
    let told = out(&done);
    for (place, what) in [
        ("core/two.yaml:5:", "order.siez"),
        ("core/two.yaml:6:", "`long` is none of"),
        ("core/key.yaml:3:", "unknown field `what`"),
        ("core/other.yaml:1:", "says it is `another`"),
        ("core/two.yaml:1:", "is in `rules/active/two.yaml` too"),
        ("core/lost.yaml:5:", "there is no rules/sets/nowhere.yaml"),
        ("sets/bad.yaml:5:", "`not a host`"),
        ("sets/bad.yaml:6:", "`A.example` appears twice"),
        ("core/readme.txt:", "end in .yaml"),
    ] {
        assert!(
            told.lines()
                .any(|line| line.contains(place) && line.contains(what)),
            "no {place} {what} in\n{told}"
        );
    }
    assert!(err(&done).contains("9 faults"), "{}", err(&done));
    let json = checkout.run("lint", &["--format", "json"]);
    let first: Value = serde_json::from_str(out(&json).lines().next().unwrap()).unwrap();
    assert_eq!(first["kind"], "fault");
    // Nothing is tested with rules that cannot be read, and the first fault is named.
    let done = checkout.run("test", &[]);
    ends(&done, 2);
    assert!(err(&done).contains(".yaml"), "{}", err(&done));
}

#[test]
fn lint_refuses_names_and_values_that_do_nothing() {
    let ours = |path: &str| {
        let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("rules");
        fs::read_to_string(rules.join(path)).unwrap()
    };
    let files = [
        "safety.yaml",
        "principals.yaml",
        "instruments.yaml",
        "strategies/trend.yaml",
        "strategies/range.yaml",
    ]
    .map(|path| (path, ours(path)));
    let checkout = Checkout::new(&files.each_ref().map(|(path, text)| (*path, text.as_str())));
    ends(&checkout.run("lint", &[]), 0);
    for (when, fault) in [
        (
            "  - {field: history.sum, of: order.price, window_s: 60, op: gt, value: 1}\n",
            "core/cap.yaml:5: fault: condition on `history.sum`: no history is kept of \
                `order.price`",
        ),
        (
            "  - {field: order.symbol, op: eq, value: btc-usd}\n",
            "core/cap.yaml:5: fault: condition on `order.symbol`: there is no instrument \
                `btc-usd`; did you mean `BTC-USD`?",
        ),
        (
            "  - {field: strategy.name, op: eq, value: nope}\n",
            "there is no strategy `nope`",
        ),
    ] {
        checkout.write("core/cap.yaml", &rule("cap", "reject", when));
        let done = checkout.run("lint", &[]);
        ends(&done, 2);
        assert!(out(&done).contains(fault), "{}", out(&done));
    }
    // Without the other files, only what a rule says alone is checked.
    let alone = Checkout::new(&[(
        "core/cap.yaml",
        &rule(
            "cap",
            "reject",
            "  - {field: order.symbol, op: eq, value: btc-usd}\n  - {field: order.price, op: gt, \
                value: 1e3}\n",
        ),
    )]);
    let done = alone.run("lint", &[]);
    ends(&done, 2);
    assert!(
        out(&done).contains("core/cap.yaml:6: fault: `1e3`"),
        "{}",
        out(&done)
    );
    assert!(!out(&done).contains("btc-usd`;"), "{}", out(&done));
}

#[test]
fn a_folder_that_is_not_a_rule_folder_is_refused() {
    let empty = crate::kit::folder();
    let dir = empty.path().to_str().unwrap();
    for what in ["lint", "test"] {
        for dir in [dir, "/nonexistent"] {
            let done = spoolgate(empty.path(), &["rules", what, dir]);
            ends(&done, 2);
            assert!(
                err(&done).contains("holds no folder `rules`"),
                "{}",
                err(&done)
            );
        }
    }
}

/// Returns a condition on the size.
fn size(op: &str, value: &str) -> String {
    format!("  - {{field: order.size, op: {op}, value: {value}}}\n")
}

/// One warning each, and the exit code that requests them.
#[test]
fn rules_without_effect_are_reported() {
    let acts = |name: &str, then: &str, when: &str| (name.to_owned(), rule(name, then, when));
    let rejects = |when: &str| vec![acts("a", "reject", when)];
    let edited = |from: &str, to: &str| {
        vec![(
            "a".to_owned(),
            rule("a", "reject", &size("gt", "3")).replace(from, to),
        )]
    };
    let no_day = "  - {field: time.weekday, op: not_in, value: [mon, tue, wed, thu, fri, sat, \
        sun]}\n";
    let no_price = "  - {field: market.price, op: gt, value: 5}\n  - {field: market.price, op: \
        lt, value: 3}\n";
    let any_side = "  - {field: order.side, op: in, value: [buy, sell]}\n";
    let larger = acts("a", "reject", &size("gt", "3"));
    let cases = [
        ("never_acts", rejects(&(size("gt", "5") + &size("lt", "3")))),
        ("never_acts", rejects(no_day)),
        ("only_unknown", rejects(no_price)),
        (
            "says_nothing",
            rejects(&(size("gt", "5") + &size("gt", "3"))),
        ),
        ("refuses_all", rejects(any_side)),
        (
            "shadowed",
            vec![larger.clone(), acts("b", "hold", &size("gt", "5"))],
        ),
        (
            "contradict",
            vec![larger, acts("b", "hold", &size("lte", "3"))],
        ),
        (
            "message",
            edited("message: no", "message: \"{order.siez}\""),
        ),
        (
            "message",
            edited("message: no", "message: \"{order.side}\""),
        ),
        ("hypothesis", edited("status: active", "status: shadow")),
    ];
    for (what, rules) in cases {
        let checkout = Checkout::new(&[]);
        for (name, text) in &rules {
            checkout.write(&format!("core/{name}.yaml"), text);
        }
        let done = checkout.run("lint", &["--format", "json"]);
        ends(&done, 0);
        let found: Vec<Value> = out(&done)
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let kinds: Vec<&Value> = found.iter().map(|found| &found["what"]).collect();
        assert_eq!(kinds, [what], "{rules:?}: {}", show(&done));
        assert!(found[0]["line"].is_number(), "{found:?}");
        ends(&checkout.run("lint", &["--strict"]), 1);
    }
}

#[test]
fn conditions_that_differ_in_their_values_are_not_warned_of() {
    let checkout = Checkout::new(&[
        ("core/a.yaml", &rule("a", "reject", &size("gt", "5"))),
        ("core/b.yaml", &rule("b", "hold", &size("gt", "3"))),
        ("core/c.yaml", &rule("c", "warn", &size("lt", "1"))),
    ]);
    let done = checkout.run("lint", &["--strict"]);
    ends(&done, 0);
    assert_eq!(out(&done), "");
}

#[test]
fn unused_sets_and_expired_entries_are_reported() {
    let checkout = Checkout::new(&[
        (
            "core/a.yaml",
            &rule(
                "a",
                "reject",
                "  - {field: order.symbol, op: not_in, value: used}\n",
            ),
        ),
        (
            "sets/used.yaml",
            "name: used\nkind: word\nentries:\n  - {value: BTC-USD, provenance: user_established, \
                expires: 2026-01-01T00:00:00Z}\n  - {value: ETH-USD, provenance: \
                user_established}\n",
        ),
        ("sets/idle.yaml", "name: idle\nkind: word\nentries: []\n"),
    ]);
    let lint = |at: &str| {
        let done = checkout.run("lint", &["--strict", "--at", at]);
        (done.status.code().unwrap(), out(&done))
    };
    let (exit, told) = lint("2026-01-01T00:00:00Z");
    assert_eq!(exit, 1);
    assert!(
        told.contains("used.yaml:4: warning: `BTC-USD` expired"),
        "{told}"
    );
    assert!(
        told.contains("idle.yaml:1: warning: no rule names the set"),
        "{told}"
    );
    let (_, told) = lint("2025-12-31T23:59:59Z");
    assert!(!told.contains("expired") && told.contains("idle"), "{told}");
}

const BIG: &str =
    "  - {field: order.size, op: gt, value: 5}\n  - {field: order.side, op: eq, value: buy}\n";

fn case(name: &str, rest: &str) -> String {
    format!("  - name: {name}\n    action: order.submit\n{rest}")
}

#[test]
fn cases_are_tried_and_counted() {
    let checkout = Checkout::new(&[("core/big.yaml", &rule("big", "reject", BIG))]);
    let cases =
        |cases: &[String]| checkout.write("tests/big.yaml", &format!("cases:\n{}", cases.concat()));
    let acts = case(
        "acts",
        "    facts: {order.size: 6, order.side: buy}\n    expect: reject\n    rules: [big]\n",
    );
    let side = case(
        "sells",
        "    facts: {order.size: 6, order.side: sell}\n    expect: accept\n    rules: []\n",
    );
    let small = case(
        "small",
        "    facts: {order.size: 5, order.side: buy}\n    expect: accept\n    rules: []\n",
    );
    cases(std::slice::from_ref(&acts));
    let done = checkout.run("test", &[]);
    ends(&done, 0);
    // Three of six: the rule acted, and both conditions were true.
    assert!(
        out(&done).contains("1 cases, 0 failed; 50 % covered"),
        "{}",
        out(&done)
    );
    let done = checkout.run("test", &["--coverage", "51"]);
    ends(&done, 1);
    assert!(
        err(&done).contains("50 % covered, 51 % required"),
        "{}",
        err(&done)
    );
    cases(&[acts.clone(), side.clone(), small]);
    ends(&checkout.run("test", &["--coverage", "100"]), 0);
    let json = checkout.run("test", &["--format", "json"]);
    let last: Value = serde_json::from_str(out(&json).lines().last().unwrap()).unwrap();
    assert_eq!(
        last,
        serde_json::json!({"cases": 3, "failed": 0, "coverage": 100})
    );
    // The cases are not part of the rulebook: in a home, such a file is not an unknown rule file.
    let home = Scratch::new();
    fs::create_dir_all(home.home().join("rules/tests")).unwrap();
    fs::write(home.home().join("rules/tests/notes.txt"), "anything").unwrap();
    succeed(&home.home(), &["run", "--until-idle"]);
    assert!(!succeed(&home.home(), &["portfolio"]).contains("rule file"));
}

#[test]
fn cases_that_do_not_hold_say_why() {
    let checkout = Checkout::new(&[
        ("core/big.yaml", &rule("big", "reject", BIG)),
        (
            "core/dear.yaml",
            &rule(
                "dear",
                "hold",
                "  - {field: market.price, op: gt, value: 100}\n",
            ),
        ),
    ]);
    let try_one = |rest: &str| {
        checkout.write(
            "tests/x.yaml",
            &format!("cases:\n{}", case("the case", rest)),
        );
        let done = checkout.run("test", &[]);
        (done.status.code().unwrap(), out(&done) + &err(&done))
    };
    let big = |side: &str, then: &str, rules: &str| {
        let facts = format!("{{order.size: 6, {side}market.price: 90}}");
        format!("    facts: {facts}\n    expect: {then}\n    rules: [{rules}]\n")
    };
    let (sells, buys) = ("order.side: sell, ", "order.side: buy, ");
    let accepts = |given: &str| format!("    {given}\n    expect: accept\n    rules: []\n");
    let small = "    facts: {order.size: 1}\n";
    let held = "    expect: hold\n    rules: [dear]\n";
    for (rest, exit, what) in [
        (
            big(sells, "reject", "big"),
            1,
            "expected reject, got accept",
        ),
        (big(sells, "reject", "big"), 1, "`order.side` is \"sell\""),
        (
            big(buys, "accept", ""),
            1,
            "rule `big` acts and is not named",
        ),
        (
            big("", "accept", ""),
            1,
            "reads `order.side`, which the case does not give",
        ),
        (
            format!("{small}    unknown: [market.price]\n{held}"),
            0,
            "0 failed",
        ),
        (
            format!("{small}{held}"),
            1,
            "`market.price`, which the case does not give",
        ),
        (accepts("facts: {order.siez: 1}"), 1, "no such field"),
        (accepts("facts: {order.size: big}"), 1, "fact `order.size`"),
        (
            accepts("facts: {order.side: long}"),
            1,
            "not one of buy, sell",
        ),
        (accepts("unknown: [order.size]"), 1, "it is always known"),
        (accepts("absent: [market.price]"), 1, "cannot leave it out"),
        (
            "    expect: accept\n    rules: []\n    why: because\n".to_owned(),
            2,
            "x.yaml:6: cases[0]: unknown field `why`",
        ),
        (
            "    expect: refuse\n    rules: []\n".to_owned(),
            2,
            "unknown variant `refuse`",
        ),
        (
            "    expect: accept\n    rules: [big]\n".to_owned(),
            2,
            "x.yaml:2: `the case`: `expect: accept` goes with `rules: []`",
        ),
    ] {
        let (got, told) = try_one(&rest);
        assert_eq!(got, exit, "{rest}: {told}");
        assert!(told.contains(what), "{rest}: no {what} in\n{told}");
    }
    let two = [
        case("twice", "    expect: reject\n    rules: [big]\n"),
        case("twice", "    expect: reject\n    rules: [big]\n"),
    ];
    checkout.write("tests/x.yaml", &format!("cases:\n{}", two.concat()));
    let done = checkout.run("test", &[]);
    ends(&done, 2);
    assert!(
        err(&done).contains("x.yaml:6: `twice`: an earlier case has the same name"),
        "{}",
        err(&done)
    );
}

#[test]
fn a_request_gives_its_own_facts_and_no_others() {
    let checkout = Checkout::new(&[("core/big.yaml", &rule("big", "reject", BIG))]);
    let request = "    request:\n      {strategy: trend, symbol: BTC-USD, side: buy, size: \"6\", \
        order_type: limit, price: \"6700\", stop_price: \"6600\",\n       thesis_slug: \
        btc-range-long, planned_entry: \"6700\", planned_stop: \"6600\"}\n";
    let try_one = |rest: &str| {
        checkout.write(
            "tests/x.yaml",
            &format!("cases:\n{}", case("the case", &format!("{request}{rest}"))),
        );
        let done = checkout.run("test", &[]);
        (done.status.code().unwrap(), out(&done) + &err(&done))
    };
    let (exit, told) = try_one("    expect: reject\n    rules: [big]\n");
    assert_eq!(exit, 0, "{told}");
    let (exit, told) =
        try_one("    facts: {order.size: 1}\n    expect: reject\n    rules: [big]\n");
    assert!(exit == 1 && told.contains("comes from `request`"), "{told}");
    checkout.write(
        "core/held.yaml",
        &rule(
            "held",
            "reject",
            "  - {field: portfolio.open_positions, op: lt, value: 1}\n",
        ),
    );
    let (exit, told) = try_one("    expect: reject\n    rules: [big]\n");
    assert!(
        exit == 1 && told.contains("`portfolio.open_positions`, which the case does not give"),
        "{told}"
    );
}

fn order(size: &str) -> String {
    serde_json::json!({
        "strategy": "trend", "symbol": "BTC-USD", "side": "buy", "size": size,
            "order_type": "limit", "price": "6700",
        "stop_price": "6600", "thesis_slug": "btc-range-long", "planned_entry": "6700",
            "planned_stop": "6600",
    })
    .to_string()
}

fn dry(scratch: &Scratch, args: &[&str]) -> (i32, Value) {
    let mut all = vec!["handle", "--dry-run"];
    all.extend(args);
    let done = spoolgate(&scratch.home(), &all);
    let answer = serde_json::from_slice(&done.stdout).unwrap_or_else(|_| panic!("{}", show(&done)));
    (done.status.code().unwrap(), answer)
}

#[test]
fn a_decision_of_the_ledger_is_explained_rule_by_rule() {
    let scratch = Scratch::with_prices();
    fs::create_dir_all(scratch.home().join("rules/core")).unwrap();
    let small = rule(
        "small",
        "reject",
        "  - {field: order.size, op: gt, value: 0.01}\n  - {field: order.side, op: eq, value: \
            buy}\n",
    );
    let near = rule(
        "near",
        "warn",
        "  - {field: order.target_price, op: present}\n",
    );
    fs::write(scratch.home().join("rules/core/small.yaml"), small).unwrap();
    fs::write(scratch.home().join("rules/core/near.yaml"), near).unwrap();
    succeed(&scratch.home(), &["run", "--until-idle"]);
    let file = scratch.beside("r.json");
    fs::write(
        &file,
        scratch.request("first", "order.submit", &order("0.02")),
    )
    .unwrap();
    ends(
        &spoolgate(&scratch.home(), &["handle", file.to_str().unwrap()]),
        1,
    );
    let json = succeed(
        &scratch.home(),
        &["--format", "json", "rules", "explain", "first"],
    );
    let told: Value = serde_json::from_str(&json).unwrap();
    let (near, small) = (&told["rules"][0], &told["rules"][1]);
    assert_eq!(
        (
            &near["rule"],
            &near["acts"],
            &near["conditions"][0]["holds"]
        ),
        (&"near".into(), &false.into(), &"no".into())
    );
    assert_eq!(small["acts"], true);
    assert_eq!(
        small["change"],
        serde_json::json!([
            "`order.size` 0.01 or less",
            "`order.side` other than \"buy\""
        ])
    );
    let words = succeed(&scratch.home(), &["rules", "explain", "first"]);
    for part in [
        "near: does not act",
        "small: acts: reject",
        "it would not act with `order.size` 0.01 or less; or",
    ] {
        assert!(words.contains(part), "no {part} in\n{words}");
    }
    // The size that the message names passes.
    fs::write(
        &file,
        scratch.request("second", "order.submit", &order("0.01")),
    )
    .unwrap();
    assert_eq!(dry(&scratch, &[file.to_str().unwrap()]).0, 0);
    let done = spoolgate(&scratch.home(), &["rules", "explain", "nobody"]);
    ends(&done, 2);
    assert!(
        err(&done).contains("file, request or decision line"),
        "{}",
        err(&done)
    );
}
