//! The commands about receipts, checkpoints and consistency proofs: what they make, what they
//! refuse, and `submit --proof` beside a running gate.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::kit::{Scratch, Sent, command, show, spoolgate, succeed};
use spoolgate_ledger::note::{Checkpoint, SignerKey, claimed, sign_checkpoint};
use spoolgate_ledger::tree::leaf_hash;

/// Makes a home, with a place for files beside it. Also returns its verifier key.
fn home() -> (Scratch, String) {
    let scratch = Scratch::new();
    let report = succeed(&scratch.home(), &["--format", "json", "audit", "verify"]);
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    (scratch, report["log_key"].as_str().unwrap().to_owned())
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

#[test]
fn the_commands_make_and_check_receipts() {
    let (scratch, key) = home();
    let home = scratch.home();
    let (old, receipt) = (scratch.beside("old"), scratch.beside("a.tlog-proof"));
    fs::write(&old, succeed(&home, &["audit", "checkpoint"])).unwrap();
    assert_eq!(
        fs::read(&old).unwrap(),
        fs::read(home.join("audit/checkpoint")).unwrap()
    );
    let request = scratch.beside("r.json");
    fs::write(&request, scratch.query("ask-1").bytes).unwrap();
    spoolgate(&home, &["handle", &text(&request)]);

    let by_id = succeed(&home, &["audit", "prove", "ask-1"]);
    fs::write(&receipt, &by_id).unwrap();
    let shown = succeed(
        &home,
        &["audit", "check-proof", &text(&receipt), "--key", &key],
    );
    for part in ["ask-1", "market.get", "decision", "success", &key] {
        assert!(shown.contains(part), "{shown}");
    }
    let json = succeed(
        &home,
        &[
            "--format",
            "json",
            "audit",
            "check-proof",
            &text(&receipt),
            "--key",
            &key,
        ],
    );
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let seq = json["seq"].as_u64().unwrap().to_string();
    assert_eq!(
        (json["ok"].as_bool(), json["request_id"].as_str()),
        (Some(true), Some("ask-1"))
    );
    assert_eq!(
        succeed(&home, &["audit", "show", &seq])
            .split_whitespace()
            .collect::<String>(),
        json["line"]
            .as_str()
            .unwrap()
            .split_whitespace()
            .collect::<String>()
    );

    // By number into a file, under the same head: the same bytes.
    let again = scratch.beside("again");
    succeed(&home, &["audit", "prove", &seq, "--out", &text(&again)]);
    assert_eq!(fs::read_to_string(&again).unwrap(), by_id);
    // Under an older head, only lines that existed then.
    succeed(
        &home,
        &[
            "audit",
            "prove",
            "0",
            "--checkpoint",
            &text(&old),
            "--out",
            &text(&again),
        ],
    );
    let early = spoolgate(
        &home,
        &["audit", "prove", &seq, "--checkpoint", &text(&old)],
    );
    assert_eq!(early.status.code(), Some(2), "{}", show(&early));
    for what in ["no-such-request", "4711", "../x", "-1"] {
        let none = spoolgate(&home, &["audit", "prove", "--", what]);
        assert_eq!(none.status.code(), Some(2), "{what}: {}", show(&none));
        assert!(none.stdout.is_empty());
    }

    // An auditor with nothing but a read-only folder.
    let copy = scratch.beside("evidence");
    crate::kit::prepared::copy(&home.join("audit"), &copy);
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o500)).unwrap();
    let theirs = succeed(
        Path::new("/nowhere"),
        &["audit", "prove", &seq, "--dir", &text(&copy)],
    );
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(theirs, by_id);
}

#[test]
fn the_commands_prove_that_a_head_continues_an_older_one() {
    let (scratch, key) = home();
    let home = scratch.home();
    let (old, proof) = (scratch.beside("old"), scratch.beside("day"));
    fs::write(&old, succeed(&home, &["audit", "checkpoint"])).unwrap();
    let request = scratch.beside("r.json");
    fs::write(&request, scratch.query("ask-1").bytes).unwrap();
    spoolgate(&home, &["handle", &text(&request)]);
    succeed(
        &home,
        &["audit", "consistency", &text(&old), "--out", &text(&proof)],
    );
    let check = |old: &Path, proof: &Path| {
        spoolgate(
            Path::new("/nowhere"),
            &[
                "audit",
                "consistency",
                &text(old),
                "--check",
                &text(proof),
                "--key",
                &key,
            ],
        )
    };
    assert!(
        check(&old, &proof).status.success(),
        "{}",
        show(&check(&old, &proof))
    );
    let newest = home.join("audit/checkpoint");
    assert_eq!(check(&newest, &proof).status.code(), Some(5));
    // In the wrong order.
    let back = spoolgate(
        &home,
        &["audit", "consistency", &text(&newest), &text(&old)],
    );
    assert_eq!(back.status.code(), Some(5), "{}", show(&back));
}

/// A head before a rotation and one after it: each counts only under its own key, and a proof needs
/// both.
#[test]
fn a_proof_across_a_rotation_needs_both_keys() {
    let (scratch, old_key) = home();
    let home = scratch.home();
    let (old, new, proof) = (
        scratch.beside("old"),
        scratch.beside("new"),
        scratch.beside("proof"),
    );
    fs::write(&old, succeed(&home, &["audit", "checkpoint"])).unwrap();
    let early = scratch.beside("early.tlog-proof");
    fs::write(&early, succeed(&home, &["audit", "prove", "0"])).unwrap();
    succeed(&home, &["audit", "rotate", "--reason", "yearly"]);
    let report: serde_json::Value =
        serde_json::from_str(&succeed(&home, &["--format", "json", "audit", "verify"])).unwrap();
    let new_key = report["log_key"].as_str().unwrap().to_owned();
    assert_ne!(old_key, new_key);
    fs::write(&new, succeed(&home, &["audit", "checkpoint"])).unwrap();
    succeed(
        &home,
        &["audit", "consistency", &text(&old), "--out", &text(&proof)],
    );

    let nowhere = Path::new("/nowhere");
    let check = |heads: &[&Path], keys: &[&str]| {
        let mut args = vec!["audit".to_owned(), "consistency".to_owned()];
        args.extend(heads.iter().map(|head| text(head)));
        args.extend(["--check".to_owned(), text(&proof)]);
        args.extend(
            keys.iter()
                .flat_map(|key| ["--key".to_owned(), (*key).to_owned()]),
        );
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        spoolgate(nowhere, &args)
    };
    let name = old_key.split('+').next().unwrap();
    let stranger = SignerKey::from_seed(name, &[9; 32])
        .unwrap()
        .verifier()
        .to_string();
    for keys in [[&old_key, &new_key], [&new_key, &old_key]] {
        let keys = keys.map(String::as_str);
        for heads in [vec![old.as_path()], vec![&old, &new]] {
            let shown = check(&heads, &keys);
            assert!(shown.status.success(), "{}", show(&shown));
        }
    }
    for keys in [
        vec![&old_key],
        vec![&new_key],
        vec![&stranger],
        vec![&old_key, &stranger],
        vec![&stranger, &new_key],
    ] {
        let keys: Vec<&str> = keys.into_iter().map(String::as_str).collect();
        let refused = check(&[&old], &keys);
        assert_eq!(
            refused.status.code(),
            Some(5),
            "{keys:?}: {}",
            show(&refused)
        );
    }
    // A key of another log signs only for that log.
    let other = SignerKey::from_seed("example.org/other", &[8; 32]).unwrap();
    let claimed = claimed(&fs::read_to_string(&old).unwrap()).unwrap();
    let elsewhere = Checkpoint::new("example.org/other", claimed.size, leaf_hash(b"elsewhere"));
    let elsewhere_note = scratch.beside("elsewhere");
    fs::write(
        &elsewhere_note,
        sign_checkpoint(&elsewhere, &other).unwrap(),
    )
    .unwrap();
    let other_key = other.verifier().to_string();
    let refused = check(&[&old, &elsewhere_note], &[&old_key, &other_key]);
    assert_eq!(refused.status.code(), Some(5), "{}", show(&refused));
    assert!(
        !show(&refused).contains("FORK"),
        "two logs are no fork: {}",
        show(&refused)
    );

    // Receipts: of the old line under the old head, and made again under the new one.
    let receipt = |path: &Path, key: &str| {
        spoolgate(
            nowhere,
            &["audit", "check-proof", &text(path), "--key", key],
        )
        .status
        .code()
    };
    assert_eq!(
        (receipt(&early, &old_key), receipt(&early, &new_key)),
        (Some(0), Some(5))
    );
    let again = scratch.beside("again.tlog-proof");
    fs::write(&again, succeed(&home, &["audit", "prove", "0"])).unwrap();
    assert_eq!(
        (receipt(&again, &old_key), receipt(&again, &new_key)),
        (Some(5), Some(0))
    );
    let under_old = succeed(&home, &["audit", "prove", "0", "--checkpoint", &text(&old)]);
    assert_eq!(under_old, fs::read_to_string(&early).unwrap());
}

#[test]
fn a_fork_is_named_on_the_command_line() {
    let (scratch, key) = home();
    let home = scratch.home();
    let keyring = spoolgate_host::keyring::SqliteKeyring::open(&home, false).unwrap();
    let head = fs::read_to_string(home.join("audit/checkpoint")).unwrap();
    let origin = head.lines().next().unwrap();
    let signer = spoolgate_home::layout::log_signer(origin, &keyring.log_keys().unwrap()).unwrap();
    let head = Checkpoint::parse(&head[..head.find("\n\n").unwrap() + 1]).unwrap();
    let other = Checkpoint {
        root: leaf_hash(b"other"),
        ..head.clone()
    };
    let forked = scratch.beside("forked");
    fs::write(&forked, sign_checkpoint(&other, &signer.log).unwrap()).unwrap();
    let newest = home.join("audit/checkpoint");
    let proof = scratch.beside("proof");
    succeed(
        &home,
        &[
            "audit",
            "consistency",
            &text(&newest),
            "--out",
            &text(&proof),
        ],
    );
    let made = spoolgate(&home, &["audit", "consistency", &text(&forked)]);
    let both = ["audit", "consistency", &text(&forked), &text(&newest)];
    let checked = spoolgate(
        &home,
        &[&both[..], &["--check", &text(&proof), "--key", &key]].concat(),
    );
    let swapped = spoolgate(
        &home,
        &[
            "audit",
            "consistency",
            &text(&newest),
            &text(&forked),
            "--check",
            &text(&proof),
            "--key",
            &key,
        ],
    );
    let proved = spoolgate(
        &home,
        &["audit", "prove", "0", "--checkpoint", &text(&forked)],
    );
    for done in [made, spoolgate(&home, &both), checked, swapped, proved] {
        assert_eq!(done.status.code(), Some(5), "{}", show(&done));
        let said = show(&done);
        let roots = [head.root.to_string(), other.root.to_string()];
        assert!(
            said.contains("FORK") && roots.iter().all(|root| said.contains(root)),
            "{said}"
        );
    }
}

#[test]
fn hostile_files_are_refused_quickly_and_say_nothing() {
    let (scratch, key) = home();
    let home = scratch.home();
    let file = scratch.beside("hostile");
    succeed(&home, &["audit", "prove", "0", "--out", &text(&file)]);
    let good = fs::read(&file).unwrap();
    let check = |code: i32| {
        let done = spoolgate(
            Path::new("/nowhere"),
            &["audit", "check-proof", &text(&file), "--key", &key],
        );
        assert_eq!(done.status.code(), Some(code), "{}", show(&done));
        assert!(!show(&done).contains("genesis"), "{}", show(&done));
    };
    for bytes in [
        Vec::new(),
        good[..good.len() / 2].to_vec(),
        good[..good.len() - 1].to_vec(),
        [&good[..], b"x"].concat(),
        vec![0; 5000],
        [&good[..30], &[0], &good[30..]].concat(),
        [b"\xef\xbb\xbf", &good[..]].concat(),
        String::from_utf8(good.clone())
            .unwrap()
            .replace('\n', "\r\n")
            .into_bytes(),
    ] {
        fs::write(&file, bytes).unwrap();
        check(5);
    }
    // Larger than any proof: it is not read to its end.
    fs::remove_file(&file).unwrap();
    fs::File::create(&file).unwrap().set_len(1 << 40).unwrap();
    check(2);
    fs::remove_file(&file).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &file,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    check(2);
    // A reader that waits for the writer of a FIFO, or for the end of a device, waits for ever.
    for path in [text(&file), "/dev/zero".to_owned()] {
        for given in [
            vec!["audit", "verify", "--head", &path],
            vec!["audit", "accept-rollback", "--head", &path, "--reason", "r"],
        ] {
            let done = spoolgate(&home, &given);
            assert_eq!(done.status.code(), Some(2), "{}", show(&done));
            assert!(
                show(&done).contains(&format!("`{path}` is not a regular file")),
                "{}",
                show(&done)
            );
        }
    }
    fs::remove_file(&file).unwrap();
    check(2);
    fs::create_dir(&file).unwrap();
    check(2);
    // A path that is not a regular file is not replaced.
    fs::remove_dir(&file).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &file,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    for given in [
        vec!["audit", "prove", "0"],
        vec!["audit", "export", "--force"],
    ] {
        let done = spoolgate(&home, &[&given[..], &["--out", &text(&file)]].concat());
        assert_eq!(done.status.code(), Some(2), "{}", show(&done));
        assert!(
            show(&done).contains("is not a regular file"),
            "{}",
            show(&done)
        );
    }
    // Standard input works like a file.
    let mut child = Command::new(crate::kit::PROGRAM)
        .args(["audit", "check-proof", "-", "--key", &key])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    io::Write::write_all(&mut child.stdin.take().unwrap(), &good).unwrap();
    assert!(child.wait().unwrap().success());
}

/// With the gate running, an agent sends a request and has its receipt when the command ends.
#[test]
fn submit_gives_the_receipt_of_the_answer() {
    let (scratch, key) = home();
    let home = scratch.home();
    let mut gate = command(&home, &["watch"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let files: Vec<PathBuf> = (0..3)
        .map(|n| {
            let Sent { bytes, .. } = scratch.query(&format!("with-{n}"));
            let file = scratch.beside(&format!("with-{n}.json"));
            fs::write(&file, bytes).unwrap();
            file
        })
        .collect();
    let named: Vec<String> = files.iter().map(|file| text(file)).collect();
    let named: Vec<&str> = named.iter().map(String::as_str).collect();
    let two = spoolgate(&home, &["submit", named[0], named[1], "--proof"]);
    let out = scratch.beside("my.tlog-proof");
    let one = spoolgate(
        &home,
        &["submit", named[2], &format!("--proof={}", text(&out))],
    );
    let both = spoolgate(
        &home,
        &[
            "submit",
            named[0],
            named[1],
            &format!("--proof={}", text(&out)),
        ],
    );
    gate.kill().unwrap();
    gate.wait().unwrap();
    for done in [&two, &one] {
        assert_eq!(done.status.code(), Some(0), "{}", show(done));
    }
    assert_eq!(both.status.code(), Some(2), "{}", show(&both));
    let receipts = [
        files[0].with_extension("tlog-proof"),
        files[1].with_extension("tlog-proof"),
        out,
    ];
    for (n, receipt) in receipts.iter().enumerate() {
        let shown = succeed(
            &home,
            &["audit", "check-proof", &text(receipt), "--key", &key],
        );
        assert!(shown.contains(&format!("with-{n}")), "{shown}");
    }
}

/// An agent that may use the spool but not read the ledger.
#[test]
fn submit_without_the_audit_folder_prints_the_answer_and_says_what_to_do() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can become another user");
        return;
    }
    let (scratch, _) = home();
    let home = scratch.home();
    let request = scratch.beside("r.json");
    fs::write(&request, scratch.query("poor-1").bytes).unwrap();
    // A user that may not enter the folders above can read neither, so use a copy elsewhere.
    let open = crate::kit::folder();
    let program = open.path().join("spoolgate");
    fs::copy(crate::kit::PROGRAM, &program).unwrap();
    let there = open.path().join("home");
    crate::kit::prepared::copy(&home, &there);
    fs::copy(&request, open.path().join("r.json")).unwrap();
    for path in [open.path().to_owned(), there.clone()] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    for folder in ["spool/in", "spool"] {
        fs::set_permissions(there.join(folder), fs::Permissions::from_mode(0o777)).unwrap();
    }
    fs::set_permissions(there.join("audit"), fs::Permissions::from_mode(0o700)).unwrap();
    let mut gate = command(&there, &["watch"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let done = std::os::unix::process::CommandExt::uid(&mut Command::new(&program), 65534)
        .args([
            "--home",
            &text(&there),
            "submit",
            &text(&open.path().join("r.json")),
        ])
        .arg(format!(
            "--proof={}",
            text(&open.path().join("home/spool/in/.mine.tmp"))
        ))
        .output()
        .unwrap();
    gate.kill().unwrap();
    gate.wait().unwrap();
    let said = show(&done);
    assert_eq!(done.status.code(), Some(6), "{said}");
    assert!(
        said.contains("\"auditRef\"") && said.contains("spoolgate audit prove"),
        "{said}"
    );
    assert!(said.contains("ermission denied"), "{said}");
}
