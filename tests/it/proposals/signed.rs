//! Approval by SSH signatures: the format, the list of signers, and files moved in git.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;
use spoolgate_gate::proposals::{Approver, Change as Step};
use spoolgate_wire::code::Code;
use spoolgate_wire::sshsig::{Signed, Signers};
use spoolgate_wire::time::Time;

use super::gate::{Gate, acknowledged, activate, code, ledger, own_rule};
use crate::kit::{self, Scratch, Sent, show, spoolgate, succeed};

fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/sshsig")
        .join(name);
    fs::read_to_string(path).unwrap()
}

fn now() -> Time {
    Time::parse("2026-03-02T12:00:00Z").unwrap()
}

/// Verifies the fixture's signature `file` over `message` under a list that says `line` about its
/// key.
fn verify(line: &str, message: &str, file: &str) -> Result<Signed, String> {
    let key = fixture("key.pub");
    let line = line.replace("KEY", key.trim_end());
    let signers = Signers::read(&line).map_err(|error| error.to_string())?;
    signers
        .verify(message.as_bytes(), &fixture(file), now())
        .map_err(|error| error.to_string())
}

#[test]
fn signatures_made_by_ssh_keygen() {
    let message = fixture("file.yaml");
    let signed = verify("# who\n\na@x KEY\n", &message, "file.sig").unwrap();
    assert_eq!(signed.identity, "a@x");
    assert!(
        fixture("fingerprint.txt").contains(&signed.key),
        "{}",
        signed.key
    );
    for (line, good) in [
        ("a KEY", true),
        ("a@x namespaces=\"git,spoolgate\" KEY", true),
        ("a,b@x KEY", false),
        ("*@x KEY", false),
        ("!a,* KEY", false),
        ("\"a\" KEY", false),
        ("\u{feff}a KEY", false),
        ("a namespaces=spoolgate KEY", false),
        ("a namespaces=\"spool*\" KEY", true),
        ("a namespaces=\"spool?\" KEY", false),
        ("a namespaces=\"git\" KEY", false),
        ("a namespaces=\"*,!spoolgate\" KEY", false),
        ("a namespaces=\"!spool*,spoolgate\" KEY", false),
        ("a namespaces=\"!git,*\" KEY", true),
        ("a namespaces=\"git\",namespaces=\"spoolgate\" KEY", false),
        (
            "a valid-before=\"20260302\",Valid-Before=\"20270302\" KEY",
            false,
        ),
        (
            "a valid-after=\"20260302\",valid-before=20260303 KEY",
            false,
        ),
        (
            "a valid-after=\"20260302\",valid-before=\"20260303\" KEY",
            true,
        ),
        ("a valid-before=\"20260302115959\" KEY", false),
        ("a valid-before=\"20260302120000\" KEY", true),
        ("a valid-after=\"202603021200Z\" KEY", true),
        ("a valid-after=\"20260302120001\" KEY", false),
        ("a valid-before=\"20260302\" KEY", false),
        ("a valid-before=\"20260302\" KEY\na KEY", true),
        ("a valid-before=\"20260302\" KEY\nb KEY", false),
        ("a cert-authority KEY", false),
        ("a no-such-option KEY", false),
        ("a valid-after=2026 KEY", false),
        ("a valid-after=20261302 KEY", false),
        ("# a KEY", false),
        ("a", false),
        ("a ssh-ed25519", false),
        ("a ssh-rsa AAAA\nb KEY", true),
        ("a namespaces=\"spoolgate KEY", false),
    ] {
        assert_eq!(verify(line, &message, "file.sig").is_ok(), good, "{line}");
    }
    assert!(verify("a KEY", &message, "sha256.sig").is_ok());
    for (message, file, why) in [
        (
            message.replace("p-1", "p-2"),
            "file.sig",
            "does not fit this file",
        ),
        (message.clone() + "\n", "file.sig", "does not fit this file"),
        (message.clone(), "other-namespace.sig", "-n spoolgate"),
        (message.clone(), "rsa.sig", "Ed25519"),
        (message.clone(), "key.pub", "not an SSH signature"),
    ] {
        let told = verify("a KEY", &message, file).unwrap_err();
        assert!(told.contains(why), "{file}: {told}");
    }
    let list = Signers::read(&format!("a {}", fixture("key.pub").trim_end())).unwrap();
    for end in ["\r\n", "\n\n"] {
        let armored = fixture("file.sig").replacen('\n', end, 1);
        let verified = list.verify(message.as_bytes(), &armored, now());
        assert_eq!(verified.is_ok(), end == "\n\n", "{end:?}");
    }
}

/// Every byte of a signature counts.
#[test]
fn a_damaged_signature_counts_for_nothing() {
    let message = fixture("file.yaml");
    let armored = fixture("file.sig");
    let list = Signers::read(&format!("a {}", fixture("key.pub").trim_end())).unwrap();
    for at in 0..armored.len() {
        for byte in [b'A', b'/', b'\n', b'-', b'='] {
            let mut bytes = armored.clone().into_bytes();
            if bytes[at] == byte || bytes[at] == b'\n' && byte == b'\n' {
                continue;
            }
            bytes[at] = byte;
            let text = String::from_utf8(bytes).unwrap();
            let same = |text: &str| text.split_ascii_whitespace().collect::<String>();
            if same(&text) != same(&armored) {
                assert!(
                    list.verify(message.as_bytes(), &text, now()).is_err(),
                    "{at} {byte}"
                );
            }
        }
    }
    for end in 0..armored.len() - 1 {
        assert!(
            list.verify(message.as_bytes(), &armored[..end], now())
                .is_err(),
            "{end}"
        );
    }
}

/// Returns a key made by the real ssh-keygen. `None` if the program is not installed.
fn key(folder: &Path, name: &str) -> Option<String> {
    let path = folder.join(name);
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-C", name, "-f"])
        .arg(&path)
        .stdin(Stdio::null())
        .status();
    if !made.is_ok_and(|status| status.success()) {
        println!("skipped: no ssh-keygen");
        return None;
    }
    Some(fs::read_to_string(path.with_extension("pub")).unwrap())
}

fn sign(folder: &Path, name: &str, file: &Path) {
    let status = Command::new("ssh-keygen")
        .args(["-q", "-Y", "sign", "-n", "spoolgate", "-f"])
        .arg(folder.join(name))
        .arg(file)
        .status();
    assert!(status.unwrap().success());
}

type Notes = std::sync::Arc<std::sync::Mutex<Vec<String>>>;

/// Records the gate's events.
fn listen(home: &mut spoolgate_home::Home, notes: &Notes) {
    let notes = notes.clone();
    home.tell_events(Box::new(move |event| {
        notes.lock().unwrap().push(event.note.clone())
    }));
}

/// Lets the gate load the rule files while the approved file is not there.
fn put_rules_in_force(gate: &Gate, home: &mut spoolgate_home::Home, approved: &Path) {
    fs::rename(approved, gate.path("aside")).unwrap();
    gate.settle(home);
    gate.settle(home);
    fs::rename(gate.path("aside"), approved).unwrap();
}

#[test]
fn a_file_moved_in_git_counts_with_a_signature_and_once() {
    let keys = crate::kit::folder();
    let (Some(alice), Some(_)) = (key(keys.path(), "alice"), key(keys.path(), "mallory")) else {
        return;
    };
    let gate = Gate::new();
    let mut home = gate.open();
    let told = Notes::default();
    listen(&mut home, &told);
    let mut rule = own_rule("all", "5");
    rule["applies_to"] = json!({"action": "order.submit"});
    let (id, _) = acknowledged(&gate.propose(&mut home, &activate(rule)));
    let pending = gate.read(&format!("proposals/pending/{id}.yaml"));
    let approved = gate.path(&format!("proposals/approved/{id}.yaml"));
    let signature = gate.path(&format!("proposals/approved/{id}.yaml.sig"));
    fs::rename(
        gate.path(&format!("proposals/pending/{id}.yaml")),
        &approved,
    )
    .unwrap();
    let says = |gate: &Gate, home: &mut spoolgate_home::Home, why: &str| {
        told.lock().unwrap().clear();
        gate.settle(home);
        gate.settle(home);
        let notes: Vec<String> = told
            .lock()
            .unwrap()
            .iter()
            .filter(|note| note.contains("count"))
            .cloned()
            .collect();
        assert!(
            notes.len() == 1 && notes[0].contains(why),
            "{why}: {notes:?}"
        );
        assert!(home.rulebook().ruleset.rules.is_empty(), "{why}");
    };
    says(&gate, &mut home, "rules/approvers does not exist");
    fs::rename(&approved, gate.path("aside")).unwrap();
    std::os::unix::fs::symlink(gate.path("aside"), &approved).unwrap();
    says(&gate, &mut home, "not a readable plain file");
    fs::remove_file(&approved).unwrap();
    fs::write(&approved, vec![b'a'; 200 * 1024]).unwrap();
    home.finish("done").unwrap();
    drop(home);
    let mut home = gate.open();
    listen(&mut home, &told);
    says(&gate, &mut home, "not a readable plain file");
    fs::rename(gate.path("aside"), &approved).unwrap();
    fs::write(
        gate.path("rules/approvers"),
        format!("alice@example.com {alice}"),
    )
    .unwrap();
    // What is in force counts, and not what lies there.
    put_rules_in_force(&gate, &mut home, &approved);
    says(&gate, &mut home, "does not exist");
    sign(keys.path(), "mallory", &approved);
    says(&gate, &mut home, "not among the signers");
    fs::remove_file(&signature).unwrap();
    sign(keys.path(), "alice", &approved);
    fs::write(&approved, pending.replace("order.size", "order.price")).unwrap();
    says(&gate, &mut home, "differs from the pending file");
    // The command alone no longer approves it.
    fs::write(&approved, &pending).unwrap();
    let sha256 = spoolgate_wire::signing::sha256_hex(pending.as_bytes());
    fs::rename(&signature, gate.path("aside")).unwrap();
    let asked = json!({"id": id, "sha256": sha256});
    let by_command = gate.owner_asks(&mut home, "proposal.approve", &asked);
    assert_eq!(code(&by_command), Some(Code::NotPermitted));
    fs::rename(gate.path("aside"), &signature).unwrap();
    gate.settle(&mut home);
    gate.settle(&mut home);
    let notes = told.lock().unwrap();
    assert_eq!(home.rulebook().ruleset.rules.len(), 1, "{notes:?}");
    drop(notes);
    home.finish("done").unwrap();
    drop(home);
    let mut home = gate.open();
    gate.settle(&mut home);
    let applied: Vec<Step> = ledger(&gate)
        .0
        .into_iter()
        .map(|(_, step)| step)
        .filter(|step| matches!(step, Step::Applied { .. }))
        .collect();
    let [
        Step::Applied {
            by: Approver::Signature { identity, key },
            file_sha256,
            ..
        },
    ] = &applied[..]
    else {
        panic!("{applied:?}")
    };
    assert_eq!(identity, "alice@example.com");
    assert!(key.starts_with("SHA256:"));
    assert_eq!(file_sha256.as_ref(), Some(&sha256));
    assert!(
        gate.read(&format!("proposals/applied/{id}.yaml"))
            .contains("decided_by: alice@example.com with SHA256:")
    );
}

/// The refusal itself, which is in the ledger, ends with the advice to grant a right.
#[test]
fn the_command_says_that_no_right_replaces_a_signature() {
    let scratch = Scratch::new();
    let home = scratch.home();
    let proposal = r#"{"Activate":{"rule":{"id":"no-large","status":"active","applies_to":{"action":"order.submit"},"when":[{"field":"order.size","op":"gt","value":"0.02"}],"then":"reject","message":"more than 0.02"},"evidence":{"summary":"s","sample_size":18,"ledger_seqs":[]}}}"#;
    let request = kit::sign(&scratch.bot, "trend-bot", "p", "rule.propose", proposal);
    Sent::new("p.json", request).drop_into(&home);
    succeed(&home, &["run", "--until-idle"]);
    let listed = succeed(&home, &["proposals", "list", "--pending"]);
    let id = listed
        .split_whitespace()
        .find(|word| word.starts_with("p-"))
        .unwrap();
    let approvers = format!("alice@example.com {}", fixture("key.pub"));
    fs::write(home.join("rules/approvers"), approvers).unwrap();
    let done = spoolgate(&home, &["proposals", "approve", id]);
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{}", show(&done));
    let advice = format!("no right in rules/principals.yaml approves {id}");
    assert!(
        said.contains("NOT_PERMITTED") && said.contains(&advice),
        "{said}"
    );
}
