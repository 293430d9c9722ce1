//! `enforce: gate`: changed rule files come into force only if they tighten or are approved.

use std::fs;
use std::path::PathBuf;

use crate::kit::approvers::Keys;
use crate::kit::{Scratch, lines, show, spoolgate, succeed};
use serde_json::{Value, json};
use spoolgate_gate::record::{EventKind, Record};

/// A home whose rules change only with approvals.
struct Strict {
    scratch: Scratch,
    keys: Keys,
}

const SAFETY: &str = "rules/safety.yaml";

impl Strict {
    /// `None` if there is no ssh-keygen.
    fn new() -> Option<Strict> {
        let keys = Keys::of(&["ann", "ben"])?;
        let scratch = Scratch::with_prices();
        let strict = Strict { scratch, keys };
        let approvers = ["ann", "ben"].map(|name| strict.keys.line(&format!("{name}@x"), name));
        strict.write("rules/approvers", &approvers.concat());
        strict.write(
            "rules/approval.yaml",
            "enforce: gate\nareas:\n  - {name: limits, files: [rules/safety.yaml], approvers: [ann@x, \
                ben@x], need: 2}\n  - {name: rest, files: [\"\"], approvers: [ann@x], need: 1}\n",
        );
        strict.run();
        Some(strict)
    }

    fn path(&self, path: &str) -> PathBuf {
        self.scratch.home().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        fs::write(self.path(path), text).unwrap();
    }

    fn edit(&self, path: &str, from: &str, to: &str) {
        let text = fs::read_to_string(self.path(path)).unwrap();
        assert!(text.contains(from), "{path} has no {from}");
        self.write(path, &text.replacen(from, to, 1));
    }

    fn run(&self) {
        succeed(&self.scratch.home(), &["run", "--until-idle"]);
    }

    /// The changes of all `rulebook` lines, in order.
    fn changes(&self) -> Vec<Value> {
        let all = lines(&self.scratch.home()).unwrap().into_iter();
        all.filter_map(|(_, _, record)| match record {
            Some(Record::Event(EventKind::Rulebook, event)) => Some(event),
            _ => None,
        })
        .flat_map(|event| event.changes)
        .map(|change| serde_json::to_value(change).unwrap())
        .collect()
    }

    /// Runs the gate and returns the last change of the rulebook.
    fn change(&self) -> Value {
        self.run();
        self.changes().pop().unwrap()
    }

    fn statement(&self, old: &std::path::Path) -> Vec<u8> {
        let file = self.scratch.beside("change.json");
        let (old, new) = (old.to_str().unwrap(), self.scratch.home());
        let args = ["rules", "review", old, new.to_str().unwrap(), "--statement"];
        let done = spoolgate(&new, &[&args[..], &[file.to_str().unwrap()]].concat());
        assert_eq!(done.status.code(), Some(3), "{}", show(&done));
        fs::read(&file).unwrap()
    }

    /// A copy of the rules as they are now.
    fn copy(&self, name: &str) -> PathBuf {
        let copy = self.scratch.beside(name);
        for tree in ["rules", "proposals", "council"] {
            crate::proposals::gate::copy_tree(&self.path(tree), &copy.join(tree));
        }
        copy
    }

    fn replays(&self) {
        let done = succeed(
            &self.scratch.home(),
            &["--format", "json", "audit", "replay"],
        );
        let told: Value = serde_json::from_str(done.lines().last().unwrap()).unwrap();
        assert_eq!(told["different"].as_u64().unwrap_or(0), 0, "{told:#}");
    }
}

const LOOSER: (&str, &str) = ("max_daily_loss: 250", "max_daily_loss: 333");

#[test]
fn a_loosening_waits_for_two_people_and_a_statement_counts_once() {
    let Some(strict) = Strict::new() else { return };
    let old = strict.copy("old");
    strict.edit(SAFETY, LOOSER.0, LOOSER.1);
    let refused = strict.change();
    assert_eq!(
        refused["RulebookRefused"]["verdict"], "loosening",
        "{refused:#}"
    );
    assert_eq!(
        refused["RulebookRefused"]["areas"],
        json!([{"area": "limits", "need": 2, "have": 0}])
    );
    // The rules before it stay in force, entries go on, and nothing is written twice.
    let count = strict.changes().len();
    strict.run();
    assert_eq!(strict.changes().len(), count);
    let said = succeed(&strict.scratch.home(), &["limits", "list"]);
    assert!(!said.contains("333"), "{said}");
    let doctor = spoolgate(&strict.scratch.home(), &["doctor"]);
    let said = show(&doctor);
    assert!(said.contains("area limits needs 2, has 0"), "{said}");
    // One of two is too few.
    let statement = strict.statement(&old);
    let folder = strict
        .keys
        .approve(&strict.scratch.home(), &statement, &["ann"]);
    assert_eq!(strict.change()["RulebookRefused"]["areas"][0]["have"], 1);
    strict
        .keys
        .approve(&strict.scratch.home(), &statement, &["ann", "ben"]);
    let loaded = strict.change();
    let approved = &loaded["RulebookLoaded"]["approved"];
    assert_eq!(approved["verdict"], "loosening", "{loaded:#}");
    assert_eq!(
        approved["by"]
            .as_object()
            .unwrap()
            .keys()
            .collect::<Vec<_>>(),
        ["ann@x", "ben@x"]
    );
    assert_eq!(
        approved["statement"],
        folder.file_name().unwrap().to_str().unwrap()
    );
    let said = succeed(&strict.scratch.home(), &["limits", "list"]);
    assert!(said.contains("333"), "{said}");
    // Back is tighter and needs nobody; forth again needs a new statement.
    strict.edit(SAFETY, LOOSER.1, LOOSER.0);
    assert!(strict.change()["RulebookLoaded"]["approved"].is_null());
    strict.edit(SAFETY, LOOSER.0, LOOSER.1);
    let refused = strict.change();
    let fault = refused["RulebookRefused"]["faults"][0].as_str().unwrap();
    assert!(fault.contains("STATEMENT_USED"), "{refused:#}");
    // The same files as those in force end the refusal.
    strict.edit(SAFETY, LOOSER.1, LOOSER.0);
    assert!(strict.change()["RulebookLoaded"].is_object());
    strict.replays();
}

#[test]
fn people_loosen_nothing_by_request_alone() {
    let Some(strict) = Strict::new() else { return };
    let home = strict.scratch.home();
    let loosening: [&[&str]; 2] = [
        &["services", "add", "bank", "bank.example", "--method", "GET"],
        &[
            "limits",
            "override",
            "max_daily_loss",
            "300",
            "--until",
            "1h",
            "--reason",
            "a large one",
        ],
    ];
    for args in loosening {
        let done = spoolgate(&home, args);
        assert!(show(&done).contains("APPROVAL_REQUIRED"), "{}", show(&done));
        assert_eq!(done.status.code(), Some(3), "{}", show(&done));
    }
    let tighter = [
        "limits",
        "override",
        "max_daily_loss",
        "200",
        "--until",
        "1h",
        "--reason",
        "less",
    ];
    succeed(&home, &tighter);
    strict.replays();
}

/// Nobody can judge a change without the rulebook that it changes.
#[test]
fn a_lost_copy_of_the_rules_in_force_lets_no_change_in() {
    let Some(strict) = Strict::new() else { return };
    let home = strict.scratch.home();
    let in_force = strict.changes().pop().unwrap()["RulebookLoaded"]["hash"].clone();
    let copy = strict.path(&format!(
        "audit/rulebooks/{}.json",
        in_force.as_str().unwrap()
    ));
    let kept = fs::read(&copy).unwrap();
    for damage in ["removed", "empty", "changed"] {
        match damage {
            "removed" => fs::remove_file(&copy).unwrap(),
            "empty" => fs::write(&copy, b"").unwrap(),
            _ => fs::write(&copy, [b"x", &kept[..]].concat()).unwrap(),
        }
        strict.edit(SAFETY, LOOSER.0, LOOSER.1);
        let change = strict.change();
        let fault = change["RulebookFaulted"]["fault"]
            .as_str()
            .unwrap_or_default();
        assert!(fault.contains("audit/rulebooks"), "{damage}: {change:#}");
        let done = spoolgate(&home, &["status"]);
        assert!(show(&done).contains("audit/rulebooks"), "{}", show(&done));
        // The copy comes back, and the change is judged; then the file comes back.
        fs::write(&copy, &kept).unwrap();
        let refused = strict.change();
        assert_eq!(
            refused["RulebookRefused"]["verdict"], "loosening",
            "{refused:#}"
        );
        strict.edit(SAFETY, LOOSER.1, LOOSER.0);
        assert!(strict.change()["RulebookLoaded"].is_object());
    }
    // The files as the ledger names them need no copy.
    fs::remove_file(&copy).unwrap();
    let count = strict.changes().len();
    strict.run();
    assert_eq!(strict.changes().len(), count);
    strict.replays();
}

/// What the owner lets come into force is what the next start finds, or nothing.
#[test]
fn a_reset_ends_with_the_next_start() {
    let Some(strict) = Strict::new() else { return };
    strict.edit(SAFETY, LOOSER.0, LOOSER.1);
    let reset = [
        "rules",
        "approval-reset",
        "--reason",
        "try",
        "--as",
        "owner",
    ];
    succeed(&strict.scratch.home(), &reset);
    strict.edit(SAFETY, LOOSER.1, LOOSER.0);
    assert!(strict.change()["RulebookLoaded"]["approved"].is_null());
    strict.edit(SAFETY, LOOSER.0, LOOSER.1);
    assert_eq!(strict.change()["RulebookRefused"]["verdict"], "loosening");
    let status = succeed(&strict.scratch.home(), &["status"]);
    assert!(status.contains("area limits needs 2, has 0"), "{status}");
    strict.replays();
}

/// An override that was lower than the file is not above it after the file was tightened.
#[test]
fn an_override_is_not_above_a_file_that_was_tightened() {
    let Some(strict) = Strict::new() else { return };
    let home = strict.scratch.home();
    let set = [
        "limits",
        "override",
        "max_daily_loss",
        "240",
        "--until",
        "1h",
        "--reason",
        "less",
    ];
    succeed(&home, &set);
    strict.edit(SAFETY, LOOSER.0, "max_daily_loss: 200");
    assert!(strict.change()["RulebookLoaded"].is_object());
    let listed = succeed(&home, &["--format", "json", "limits", "list"]);
    let row = listed
        .lines()
        .find(|line| line.contains("max_daily_loss"))
        .unwrap();
    let row: Value = serde_json::from_str(row).unwrap();
    assert!(
        row.to_string().contains("\"200\"") && !row.to_string().contains("\"240\",\"in"),
        "{row:#}"
    );
    strict.replays();
}

#[test]
fn nobody_turns_the_enforcement_off_and_the_owner_resets_it_openly() {
    let Some(strict) = Strict::new() else { return };
    let home = strict.scratch.home();
    let before = fs::read_to_string(strict.path("rules/approval.yaml")).unwrap();
    strict.edit("rules/approval.yaml", "enforce: gate", "enforce: review");
    assert_eq!(strict.change()["RulebookRefused"]["verdict"], "loosening");
    fs::remove_file(strict.path("rules/approval.yaml")).unwrap();
    fs::remove_file(strict.path("rules/approvers")).unwrap();
    assert!(strict.change()["RulebookRefused"].is_object());
    let reset = [
        "rules",
        "approval-reset",
        "--reason",
        "both keys are lost",
        "--as",
        "owner",
    ];
    succeed(&home, &reset);
    assert!(strict.change()["RulebookLoaded"]["approved"].is_null());
    // It was for that rulebook.
    strict.write("rules/approval.yaml", &before);
    let done = spoolgate(&home, &["rules", "lint"]);
    assert!(
        show(&done).contains("nobody could approve"),
        "{}",
        show(&done)
    );
    fs::remove_file(strict.path("rules/approval.yaml")).unwrap();
    let done = spoolgate(&home, &reset);
    assert_eq!(done.status.code(), Some(2), "{}", show(&done));
    strict.replays();
}
