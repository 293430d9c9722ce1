//! `rules review` of commits: whose signatures a change needs, and changes that try to come in
//! without them.

use std::fs;
use std::path::Path;

use crate::kit::approvers::{Keys, git};
use crate::kit::{folder, show, spoolgate};
use serde_json::Value;
use tempfile::TempDir;

/// A repository with the rules of a home on `main`, and approvers.
struct Desk {
    keys: Keys,
    repo: TempDir,
}

const CAP: &str = "rules/active/cap.yaml";

fn cap(most: &str) -> String {
    format!(
        "id: cap\nstatus: active\napplies_to: {{action: \
            order.submit}}\nwhen:\n  - {{field: order.size, op: gt, value: {most}}}\nthen: \
            reject\nmessage: no\n"
    )
}

const AREAS: &str = "areas:
  - {name: limits, files: [rules/safety.yaml, tools], approvers: [ann@x, ben@x], need: 2}
  - {name: rest, files: [\"\"], approvers: [ann@x, ben@x], need: 1}
";

impl Desk {
    /// `None` if there is no ssh-keygen.
    fn new() -> Option<Desk> {
        let keys = Keys::of(&["ann", "ben", "ben2", "mallory"])?;
        let repo = folder();
        let project = Path::new(env!("CARGO_MANIFEST_DIR"));
        for tree in ["rules", "proposals", "council"] {
            crate::proposals::gate::copy_tree(&project.join(tree), &repo.path().join(tree));
        }
        let desk = Desk { keys, repo };
        let approvers = [("ann@x", "ann"), ("ben@x", "ben"), ("ben@x", "ben2")];
        let lines = approvers.map(|(who, key)| desk.keys.line(who, key));
        desk.write("rules/approvers", &lines.concat());
        desk.write("rules/approval.yaml", AREAS);
        desk.write(CAP, &cap("5"));
        desk.git(&["init", "-q", "-b", "main"]);
        desk.commit("base");
        Some(desk)
    }

    fn path(&self) -> &Path {
        self.repo.path()
    }

    #[track_caller]
    fn git(&self, args: &[&str]) {
        git(self.path(), args);
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn edit(&self, path: &str, from: &str, to: &str) {
        let text = fs::read_to_string(self.path().join(path)).unwrap();
        assert!(text.contains(from), "{path}: {text}");
        self.write(path, &text.replacen(from, to, 1));
    }

    fn commit(&self, message: &str) {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", message]);
    }

    /// Begins a branch of `main`.
    fn branch(&self, name: &str) {
        self.git(&["checkout", "-q", "-B", name, "main"]);
    }

    /// Merges a branch into `main`.
    fn merge(&self, name: &str) {
        self.git(&["checkout", "-q", "main"]);
        self.git(&["merge", "-q", "--no-ff", "-m", name, name]);
    }

    fn run(&self, args: &[&str]) -> (i32, Value) {
        let repo = self.path().to_str().unwrap();
        let all = [
            &[
                "--format", "json", "rules", "review", "main", "HEAD", "--repo", repo,
            ],
            args,
        ]
        .concat();
        let done = spoolgate(Path::new("/nonexistent"), &all);
        let told = serde_json::from_slice(&done.stdout).unwrap_or_else(|_| show(&done).into());
        (done.status.code().unwrap(), told)
    }

    #[track_caller]
    fn expect(&self, code: i32, what: &str) -> Value {
        let (got, told) = self.run(&[]);
        assert_eq!(got, code, "{what}: {told:#}");
        told
    }

    /// Expects that the only statement was used before.
    #[track_caller]
    fn expect_used(&self, what: &str) {
        let told = self.expect(3, what);
        let fault = told["statements"][0]["faults"][0].as_str().unwrap();
        assert!(fault.starts_with("STATEMENT_USED"), "{what}: {told:#}");
    }

    /// Commits a statement of the change, signed with these keys, and returns its bytes.
    fn approve(&self, names: &[&str]) -> Vec<u8> {
        let file = self.keys.path().join("change.json");
        self.run(&["--statement", file.to_str().unwrap()]);
        let statement = fs::read(&file).unwrap();
        self.keys.approve(self.path(), &statement, names);
        self.commit("approval");
        statement
    }
}

#[test]
fn a_change_passes_if_it_tightens_or_is_signed() {
    let Some(desk) = Desk::new() else { return };
    desk.expect(0, "no change");
    desk.branch("tighten");
    desk.write(CAP, &cap("4"));
    desk.edit(
        "rules/safety.yaml",
        "max_drawdown: 0.15",
        "max_drawdown: 0.14",
    );
    desk.commit("tighten");
    assert_eq!(desk.expect(0, "tightens")["verdict"], "tightening");
    desk.branch("loosen");
    desk.write(CAP, &cap("6"));
    desk.commit("loosen");
    let told = desk.expect(3, "unsigned");
    assert_eq!(told["verdict"], "loosening");
    assert_eq!(told["areas"][0]["area"], "rest");
    assert_eq!(told["areas"][0]["files"], serde_json::json!([CAP]));
    desk.approve(&["mallory"]);
    let told = desk.expect(3, "signed by a stranger");
    assert!(
        told["statements"][0]["faults"][0]
            .as_str()
            .unwrap()
            .contains("mallory.sig"),
        "{told:#}"
    );
    desk.approve(&["ann"]);
    let told = desk.expect(0, "signed");
    assert!(
        told["areas"][0]["have"]["ann@x"]
            .as_str()
            .unwrap()
            .starts_with("SHA256:")
    );
    desk.write(CAP, &cap("7"));
    desk.commit("one more");
    desk.expect(3, "changed after it was signed");
    desk.branch("comment");
    desk.edit("rules/safety.yaml", "currency: USD", "currency: USD # ours");
    desk.commit("comment");
    assert_eq!(desk.expect(0, "comment")["verdict"], "same");
    for (path, text) in [
        (CAP, "id: ["),
        ("rules/cap.txt", "x"),
        ("rules/approvers", "ann@x ssh-ed25519 A\n"),
    ] {
        desk.branch("broken");
        desk.write(path, text);
        desk.commit("broken");
        desk.expect(2, path);
    }
}

/// Acceptance 16: who approves what.
#[test]
fn limits_need_two_people_and_a_change_brings_no_approver() {
    let Some(desk) = Desk::new() else { return };
    desk.branch("limits");
    desk.edit(
        "rules/safety.yaml",
        "max_drawdown: 0.15",
        "max_drawdown: 0.5",
    );
    desk.commit("limits");
    let told = desk.expect(3, "unsigned");
    assert_eq!(told["moves"][0]["what"], "max_drawdown 0.15 -> 0.5");
    desk.git(&["tag", "limits-unsigned"]);
    for (names, code) in [
        (&["ann"][..], 3),
        (&["ben", "ben2"], 3),
        (&["ann", "mallory"], 3),
        (&["ann", "ben2"], 0),
    ] {
        desk.git(&["checkout", "-q", "-B", "limits", "limits-unsigned"]);
        desk.approve(names);
        desk.expect(code, &format!("{names:?}"));
    }
    // Signatures of two statements of one change do not add up.
    desk.git(&["checkout", "-q", "-B", "limits", "limits-unsigned"]);
    desk.approve(&["ann"]);
    desk.approve(&["ben"]);
    desk.expect(3, "two statements");
    // The side in force says who approves.
    for (path, from, to) in [
        ("rules/approval.yaml", "need: 2", "need: 1"),
        (
            "rules/approval.yaml",
            "[ann@x, ben@x], need: 1",
            "[ann@x, ben@x, m@x], need: 1",
        ),
    ] {
        desk.branch("own-approver");
        let all = fs::read_to_string(desk.path().join("rules/approvers")).unwrap();
        desk.write(
            "rules/approvers",
            &(all + &desk.keys.line("m@x", "mallory")),
        );
        desk.edit(path, from, to);
        desk.edit(
            "rules/safety.yaml",
            "max_drawdown: 0.15",
            "max_drawdown: 0.5",
        );
        desk.commit("own approver");
        desk.approve(&["mallory", "ben"]);
        desk.expect(3, to);
    }
    // A file that an area names needs its signatures, whatever it is.
    desk.branch("program");
    desk.write("tools/adapter", "#!/bin/sh\n");
    desk.commit("program");
    let told = desk.expect(3, "a named file");
    assert_eq!(
        told["areas"][0]["files"],
        serde_json::json!(["tools/adapter"])
    );
    desk.approve(&["ann", "ben"]);
    desk.expect(0, "a named file, signed");
    desk.branch("other");
    desk.write("README.md", "hello\n");
    desk.commit("other");
    desk.expect(0, "a file that no area names");
}

/// Acceptance 13: what git would show otherwise is judged by the bytes of the commits.
#[test]
fn neither_renames_nor_attributes_nor_replaced_objects_hide_a_change() {
    let Some(desk) = Desk::new() else { return };
    for (from, to) in [
        ("rules/approvers", "rules/tests/approvers.yaml"),
        (CAP, "rules/tests/cap.yaml"),
    ] {
        desk.branch("rename");
        desk.git(&["mv", from, to]);
        if from == "rules/approvers" {
            desk.git(&["rm", "-q", "rules/approval.yaml"]);
        }
        desk.commit("rename");
        desk.expect(3, from);
    }
    // The archive of this commit has another rule than its blob.
    desk.branch("subst");
    let rule = cap("5000").replace("message: no", "message: \"$Format:%x27$\"");
    desk.write(CAP, &rule);
    desk.write(".gitattributes", "rules/active/cap.yaml export-subst\n");
    desk.commit("subst");
    desk.expect(3, "export-subst");
    // An attribute that changes nothing yet, and then the removal that it would hide.
    desk.branch("ignore");
    desk.write(".gitattributes", "rules/active/cap*.yaml export-ignore\n");
    desk.commit("ignore");
    desk.expect(0, "an attribute");
    desk.merge("ignore");
    desk.branch("remove");
    desk.git(&["rm", "-q", CAP]);
    desk.commit("remove");
    desk.expect(3, "export-ignore");
    // The old rule in place of the new one, for everybody who looks with git.
    desk.branch("replace");
    desk.write(CAP, &cap("6"));
    desk.commit("loosen");
    desk.git(&[
        "replace",
        "HEAD:rules/active/cap.yaml",
        "main:rules/active/cap.yaml",
    ]);
    desk.expect(3, "replace refs");
    desk.git(&["replace", "HEAD", "main"]);
    desk.expect(3, "replaced commits");
    desk.branch("link");
    fs::remove_file(desk.path().join(CAP)).unwrap();
    std::os::unix::fs::symlink("../core/worth-the-risk.yaml", desk.path().join(CAP)).unwrap();
    desk.commit("link");
    desk.expect(2, "a link");
}

/// Acceptance 14: what is judged is what will be merged.
#[test]
fn two_changes_that_are_each_the_same_are_not_both() {
    let Some(desk) = Desk::new() else { return };
    desk.write(
        "rules/active/cap-2.yaml",
        &cap("5").replace("id: cap", "id: cap-2"),
    );
    desk.commit("two rules that cover each other");
    for name in ["cap", "cap-2"] {
        desk.branch(name);
        desk.git(&["rm", "-q", &format!("rules/active/{name}.yaml")]);
        desk.commit(name);
        assert_eq!(desk.expect(0, name)["verdict"], "same");
    }
    desk.merge("cap");
    desk.git(&["checkout", "-q", "cap-2"]);
    desk.expect(1, "main is not contained");
    desk.git(&["merge", "-q", "--no-edit", "main"]);
    desk.expect(3, "the merge has no cap");
}

/// Acceptance 15: a signature does not count again after a revert.
#[test]
fn a_signature_ends_with_the_revert_of_its_change() {
    let Some(desk) = Desk::new() else { return };
    desk.branch("loosen");
    desk.write(CAP, &cap("6"));
    desk.commit("loosen");
    let statement = desk.approve(&["ann"]);
    desk.expect(0, "signed");
    // A commit that concerns no rules costs no signature.
    desk.git(&["checkout", "-q", "main"]);
    desk.write("README.md", "hello\n");
    desk.commit("unrelated");
    desk.git(&["checkout", "-q", "loosen"]);
    desk.git(&["merge", "-q", "--no-edit", "main"]);
    desk.expect(0, "signed, after an unrelated commit");
    desk.merge("loosen");
    desk.write(CAP, &cap("5"));
    desk.commit("revert");
    desk.branch("again");
    desk.write(CAP, &cap("6"));
    desk.commit("again");
    desk.expect_used("the old signature");
    desk.keys.approve(desk.path(), &statement, &["ann"]);
    desk.expect(3, "the old statement, signed again");
    desk.approve(&["ben"]);
    desk.expect(0, "a new statement");
}

/// A reader that has read enough changes nothing.
#[test]
fn a_closed_pipe_is_no_approval() {
    let Some(desk) = Desk::new() else { return };
    desk.branch("loosen");
    desk.write(CAP, &cap("500"));
    desk.commit("loosen");
    let file = desk.keys.path().join("change.json");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let done = std::process::Command::new(env!("CARGO_BIN_EXE_spoolgate"))
        .args(["rules", "review", "main", "HEAD", "--statement"])
        .arg(&file)
        .current_dir(desk.path())
        .stdout(writer)
        .status()
        .unwrap();
    assert_eq!(done.code(), Some(3));
    assert!(file.exists());
}

/// Who is reviewed chooses names of folders, tags and branches; none of them may take the place of
/// the commits that are meant.
#[test]
fn names_that_mean_two_things_are_refused() {
    let Some(desk) = Desk::new() else { return };
    let review = |base: &str, head: &str| {
        let done = std::process::Command::new(env!("CARGO_BIN_EXE_spoolgate"))
            .args(["rules", "review", base, head])
            .current_dir(desk.path())
            .output()
            .unwrap();
        (done.status.code(), show(&done))
    };
    desk.git(&["update-ref", "refs/remotes/origin/main", "main"]);
    desk.branch("loosen");
    desk.write(CAP, &cap("500"));
    desk.commit("loosen");
    assert_eq!(review("origin/main", "HEAD").0, Some(3));
    for name in ["tag", "branch"] {
        desk.git(&[name, "origin/main", "HEAD"]);
        let (code, told) = review("origin/main", "HEAD");
        assert_eq!(code, Some(2), "{told}");
        assert!(told.contains("several references"), "{told}");
        desk.git(&[name, "-d", "origin/main"].map(|it| {
            if it == "-d" && name == "branch" {
                "-D"
            } else {
                it
            }
        }));
    }
    assert_eq!(review("origin/main", "HEAD").0, Some(3));
    std::os::unix::fs::symlink(".", desk.path().join("HEAD")).unwrap();
    fs::create_dir(desk.path().join("origin")).unwrap();
    std::os::unix::fs::symlink("..", desk.path().join("origin/main")).unwrap();
    desk.commit("folders with the names of commits");
    let (code, told) = review("origin/main", "HEAD");
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("is a folder and a commit"), "{told}");
    assert_eq!(
        review("./origin/main", "./HEAD").0,
        Some(0),
        "the same folder"
    );
}

/// A line of first parents from before the revert, to which `main` is fast-forwarded, does not have
/// it; a statement that was removed is still in the history.
#[test]
fn a_signature_does_not_count_again_by_another_way_through_the_history() {
    let Some(desk) = Desk::new() else { return };
    desk.branch("loosen");
    desk.write(CAP, &cap("6"));
    desk.commit("loosen");
    let statement = desk.approve(&["ann"]);
    desk.git(&["branch", "old", "main"]);
    desk.merge("loosen");
    desk.write(CAP, &cap("5"));
    desk.git(&["rm", "-q", "-r", "proposals/approvals"]);
    desk.commit("revert, and no statement left");
    desk.git(&["checkout", "-q", "old"]);
    desk.git(&["merge", "-q", "--no-ff", "-m", "main", "main"]);
    desk.expect(0, "old has what main has");
    desk.git(&["checkout", "-q", "main"]);
    desk.git(&["merge", "-q", "--ff-only", "old"]);
    desk.branch("again");
    desk.write(CAP, &cap("6"));
    desk.commit("again");
    desk.keys.approve(desk.path(), &statement, &["ann"]);
    desk.commit("the old statement");
    desk.expect_used("the old statement again");
}
