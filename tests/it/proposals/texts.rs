//! Texts that YAML, JSON or readers may understand differently: the proved text is the one in force
//! and the one that approvers see.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;
use spoolgate_rules::rule::{RuleFile, RuleSet};

use super::gate::{Gate, acknowledged, activate, own_rule, suspend};

/// Texts that YAML reads as another type if they are not quoted.
const TEXTS: &[&str] = &[
    "no",
    "yes",
    "on",
    "y",
    "~",
    "null",
    "true",
    "1e3",
    "0x10",
    "0o7",
    "1_000",
    ".5",
    "+1",
    "-",
    "- a",
    "? a",
    ": a",
    "a: b",
    "a #b",
    "#a",
    "&a",
    "*a",
    "!a",
    "!!str a",
    "|",
    ">",
    "%a",
    "@a",
    "`a",
    "[a",
    "{a",
    "a,b",
    "'",
    "\"",
    "''",
    "\\",
    "\\n",
    " a",
    "a ",
    "  ",
    "---",
    "...",
    "--- a",
    "<<",
    "=",
    "2026-01-01",
    "12:30",
    ".inf",
    ".nan",
    "a\nb",
    "a\n",
    "\na",
    "a\n\n",
    " \n",
    "\ta",
    "a\tb",
    "a\r\nb",
    "\u{85}",
    "\u{a0}",
    "\u{2028}",
    "\u{feff}",
    "\u{202e}",
    "\u{1f600}",
    "\u{0}",
    "\u{7f}",
    "0.1",
    "5",
    "-0.1234567890123456",
    "1234567890.123456789",
    "1e-400",
    "é",
    "ﬀ",
];

fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        5 => proptest::sample::select(TEXTS).prop_map(str::to_owned),
        2 => "[ -~]{0,12}",
        1 => "\\PC{0,6}",
        1 => proptest::collection::vec(any::<char>(),
            0..4).prop_map(|chars| chars.into_iter().collect::<String>()),
    ];
    vec(piece, 1..3).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None,
        ..ProptestConfig::default() })]

    /// A rule that is accepted, written and read again is the same rule when compiled, and is
    /// written the same again.
    #[test]
    fn a_proposal_reads_back_as_it_was_sent(
        (message, word, listed) in (text(), text(), vec(text(), 1..4)),
        (from, metric) in (text(), text()),
        (whole, cents) in (-9_999_999_i64..9_999_999, 0_u32..100),
        kind in 0..5,
    ) {
        let number = format!("{whole}.{cents:02}");
        let condition = match kind {
            0 => json!({"field": "order.symbol", "op": "in", "value": listed}),
            1 => json!({"field": "council.summary", "op": "eq", "value": word}),
            2 => json!({"field": "council.summary", "op": "matches", "value": word}),
            3 => json!({"field": "council.files_changed[]", "op": "not_in", "value": listed}),
            _ => json!({"field": "order.size", "op": "gt", "value": number, "min": number}),
        };
        let action = if matches!(kind, 0 | 4) { "order.submit" } else { "council.request" };
        let mut rule = own_rule("r", "5");
        rule["applies_to"]["action"] = json!(action);
        rule["when"] = json!([condition]);
        rule["message"] = json!(message);
        rule["created_from"] = json!(from);
        rule["hypothesis"] = json!({"metric": metric, "population": word, "baseline_value": number,
            "baseline_sample": 1, "review_after_n": 2});
        let path = "rules/active/r.yaml";
        let sent = rule.to_string();
        let Ok(file) = RuleFile::read("rule", &sent) else { return Ok(()) };
        let written = file.to_yaml().unwrap();
        let Ok(before) = RuleSet::compile([(path, sent.as_str())], []) else { return Ok(()) };
        // A text with a long number is refused if it is not quoted; nothing else may be refused.
        let after = match RuleSet::compile([(path, written.as_str())], []) {
            Err(error) if error.to_string().contains("digits") => return Ok(()),
            other => other.unwrap(),
        };
        prop_assert_eq!(&before.programs, &after.programs);
        let read = &after.rules.values().next().unwrap().file;
        prop_assert_eq!(&read.created_from, &file.created_from);
        prop_assert_eq!(&read.hypothesis, &file.hypothesis);
        prop_assert_eq!(&read.applies_to, &file.applies_to);
        prop_assert_eq!((read.status, read.then, &read.message), (file.status, file.then,
            &file.message));
        prop_assert_eq!(read.to_yaml().unwrap(), written);
    }
}

#[test]
fn a_long_number_below_0_counts_in_quotes() {
    let rule = |value: &str| {
        let mut rule = own_rule("r", "5");
        rule["when"] = json!([{"field": "market.funding_rate", "op": "lt", "value": value}]);
        RuleFile::read("rule", &rule.to_string())
            .unwrap()
            .to_yaml()
            .unwrap()
    };
    let written = rule("-0.1234567890123456");
    assert_eq!(
        RuleFile::read("rule", &written).unwrap().to_yaml().unwrap(),
        written
    );
    assert!(
        RuleFile::read("rule", &written.replace('\'', "")).is_err(),
        "bare, it would lose digits"
    );
}

/// Writers of JSON that use only ASCII write characters beyond 16 bits as two escapes.
#[test]
fn a_message_in_the_escapes_of_json() {
    let gate = Gate::new();
    let mut home = gate.open();
    let text = activate(own_rule("r", "5")).to_string();
    let sent = text.replace("too large", r"\ud83d\ude00 \\ud83d\\ude00 \u00e9\u0416");
    let id = gate.drop_in(&gate.bot, "trend-bot", "rule.propose", &sent);
    let outcome = crate::kit::place::drain(&mut home).unwrap().pop().unwrap();
    assert!(acknowledged(&outcome).1, "{id}");
    let rule = RuleFile::read("rule", &gate.read("rules/active/r.yaml")).unwrap();
    assert_eq!(rule.message, "\u{1f600} \\ud83d\\ude00 é\u{416}");
}

/// Approvers sign the pending file, so it must hide nothing from them.
#[test]
fn invisible_characters_are_escaped_in_a_pending_file() {
    let gate = Gate::new();
    let mut home = gate.open();
    let mut rule = own_rule("cap", "5");
    rule["created_from"] = json!("a\u{202e}b\u{200b}");
    acknowledged(&gate.propose(&mut home, &activate(rule)));
    let mut proposal = suspend("cap");
    proposal["Suspend"]["reason"] = json!("x\u{2066}y\nstatus: approved");
    proposal["Suspend"]["evidence"]["summary"] = json!("p\u{202e}q\u{e0041}");
    let (id, auto) = acknowledged(&gate.propose(&mut home, &proposal));
    assert!(!auto);
    let file = gate.read(&format!("proposals/pending/{id}.yaml"));
    let hidden = |c: char| c != '\n' && !spoolgate_wire::text::is_printable(c);
    assert!(!file.contains(hidden), "{file}");
    for shown in [r"x\u{2066}y", r"p\u{202e}q\u{e0041}"] {
        assert!(file.contains(shown), "{file}");
    }
    let read: serde_yaml::Value = serde_yaml::from_str(&file).unwrap();
    assert_eq!(read["status"], "pending");
}

/// The files of pending proposals come first, however many others there are.
#[test]
fn all_that_wait_are_listed() {
    let gate = Gate::new();
    let mut home = gate.open();
    acknowledged(&gate.propose(&mut home, &activate(own_rule("cap", "5"))));
    let (waits, _) = acknowledged(&gate.propose(&mut home, &suspend("cap")));
    for n in 0..3 {
        assert!(
            acknowledged(&gate.propose(&mut home, &activate(own_rule(&format!("r{n}"), "5")))).1
        );
    }
    home.finish("done").unwrap();
    drop(home);
    let list = |args: &[&str]| {
        let mut command = std::process::Command::new(crate::kit::PROGRAM);
        command
            .arg("--home")
            .arg(gate.root.path())
            .args(["proposals", "list"])
            .args(args);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    assert!(!list(&["-n", "2"]).contains("proposed"));
    let pending = list(&["--pending", "-n", "2"]);
    assert!(
        pending.contains(&waits) && pending.lines().count() == 2,
        "{pending}"
    );
}
