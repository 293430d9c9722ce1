//! An older copy of the ledger is put back: the gate refuses it while anything remembers a later
//! head of the log, and continues only when a person accepts it, which the ledger records.

use std::fs;
use std::path::{Path, PathBuf};

use crate::kit::ledger_files::{Files, Opened};
use crate::kit::memory_disk::MemoryDisk;
use crate::kit::place::{ORIGIN, Place, drain};
use crate::kit::{Scratch, show, spoolgate, succeed};
use rusqlite::Connection;
use spoolgate_home::index::Store;
use spoolgate_home::rollback::{Accepted, Given};
use spoolgate_home::{Home, HomeError, layout};
use spoolgate_host::keyring::LogKeys;
use spoolgate_ledger::heads::Head;
use spoolgate_ledger::note::{self, Checkpoint};
use spoolgate_ledger::tree::Hash;
use spoolgate_ledger::verify::{self, Options, Reached, Report};
use spoolgate_wire::code::Exit;
use spoolgate_wire::ids::Principal;

fn owner() -> Principal {
    Principal::parse("owner").unwrap()
}

fn go_on(place: &Place, id: &str) {
    place.ask_as_owner(id, "halt.set", r#"{"reason":"a drill"}"#);
    let mut home = place.open().unwrap();
    drain(&mut home).unwrap();
    home.finish(id).unwrap();
}

fn head_of(place: &Place) -> Head {
    let home = place.fork().open().unwrap();
    let position = home.position();
    Head {
        size: position.seq - 1,
        root: position.root.to_string(),
    }
}

fn audit_of(place: &Place) -> Vec<(PathBuf, Vec<u8>)> {
    place.disk.files_below("audit")
}

/// Replaces the newer audit folder by the older one.
fn put_back(place: &Place, audit: &[(PathBuf, Vec<u8>)]) {
    for (path, _) in audit_of(place) {
        place.disk.drop_file(path);
    }
    for (path, bytes) in audit {
        place.disk.put(path, bytes);
    }
}

fn copy_state(from: &Path, to: &Path) {
    for ending in ["", "-wal", "-shm"] {
        let (from, to) = (
            from.join(format!("state/state.db{ending}")),
            to.join(format!("state/state.db{ending}")),
        );
        let _ = fs::remove_file(&to);
        let _ = fs::copy(from, to);
    }
}

/// Makes a home whose audit folder is older than the rest. Returns the lost head, the present head,
/// and the newer folder.
fn rolled_back(seed: u64) -> (Place, Head, Head, Vec<(PathBuf, Vec<u8>)>) {
    let place = Place::new(seed);
    place.ask_for_agent_key("k1");
    go_on(&place, "a1");
    let (older, there) = (audit_of(&place), head_of(&place));
    go_on(&place, "a2");
    let (newer, lost) = (audit_of(&place), head_of(&place));
    put_back(&place, &older);
    (place, lost, there, newer)
}

#[track_caller]
fn refusal(place: &Place) -> String {
    let error = place.open().err().expect("it opened");
    assert_eq!(error.exit(), Exit::LedgerCorrupt, "{error}");
    error.to_string()
}

fn accept(place: &Place, given: &Given) -> Result<Accepted, HomeError> {
    Home::accept_rollback(
        place.root.path(),
        place.seams(),
        &owner(),
        "the copy of Monday",
        given,
    )
}

fn checkpoint_in(audit: &[(PathBuf, Vec<u8>)]) -> String {
    let (_, bytes) = audit
        .iter()
        .find(|(path, _)| path.ends_with("checkpoint"))
        .unwrap();
    String::from_utf8(bytes.clone()).unwrap()
}

fn verify_with(place: &Place, head: &str) -> Report {
    let files = Files::of(place);
    let options = Options {
        heads: vec![("noted".to_owned(), head.to_owned())],
        strict: Some(spoolgate_gate::record::canonical),
        ..Options::default()
    };
    verify::verify(
        &MemoryDisk::with(&files.files),
        Path::new("audit"),
        &options,
        &|_| {},
    )
    .unwrap()
}

#[test]
fn an_older_folder_beside_a_newer_index() {
    let (place, lost, there, newer) = rolled_back(1);
    // Every attempt is refused, and `rebuild` too: it does not replace the index.
    for _ in 0..3 {
        let why = refusal(&place);
        for part in [&lost.root, &there.root, "accept-rollback", "state/state.db"] {
            assert!(why.contains(part), "`{part}` is not in: {why}");
        }
    }
    assert!(Home::rebuild(place.root.path(), place.seams()).is_err());
    refusal(&place);
    // The newer folder still opens.
    let whole = place.fork();
    put_back(&whole, &newer);
    go_on(&whole, "whole");
    // A person accepts the rollback.
    let before_accepting = place.fork();
    let accepted = accept(&place, &Given::State).unwrap();
    assert_eq!(
        (&accepted.given_up.heads, &accepted.given_up.resumed_from),
        (&vec![lost.clone()], &there)
    );
    // The index has the line without another start.
    let index = Store::open_read_only(place.root.path()).unwrap();
    assert!(index.line(accepted.line).unwrap().is_some());
    drop(index);
    assert!(place.open().unwrap().record(accepted.line).is_ok());
    go_on(&place, "a3");
    let report = verify_with(&place, &checkpoint_in(&newer));
    let told = format!("given up by line {}", accepted.line);
    assert!(
        !report.ok
            && report
                .problems
                .iter()
                .any(|problem| problem.what.contains(&told)),
        "{report:?}"
    );
    let Opened::Clean(lines) = Files::of(&place).open() else {
        panic!("not clean")
    };
    let admin = lines.iter().find(|line| line.contains(" admin ")).unwrap();
    for part in [
        "\"by\":\"owner\"",
        "the copy of Monday",
        &lost.root,
        &there.root,
    ] {
        assert!(admin.contains(part), "{admin}");
    }
    let (_, same) = Home::rebuild(place.root.path(), place.seams()).unwrap();
    assert!(same);
    // After a kill before the index was rebuilt, the line has all that is needed.
    copy_state(before_accepting.root.path(), place.root.path());
    let home = place.open().unwrap();
    assert!(home.index_was_elsewhere);
    drop(home);
    go_on(&place, "a4");
    // The same head cannot be given up twice.
    assert!(matches!(
        accept(&place, &Given::State),
        Err(HomeError::NotAllowed(_))
    ));
}

#[test]
fn an_index_that_cannot_prove_its_place_is_rebuilt() {
    let (base, ..) = rolled_back(2);
    let edit = |sql: &str| {
        let place = base.fork();
        let index = Connection::open(place.root.path().join("state/state.db")).unwrap();
        index.execute_batch(sql).unwrap();
        drop(index);
        place
    };
    for member in [
        "seal_sig",
        "before_seal",
        "root",
        "seq",
        "seal_key",
        "log_key",
    ] {
        let other = match member {
            "seq" => "1".to_owned(),
            _ => "''".to_owned(),
        };
        let sql = format!(
            "UPDATE tip SET position = json_set(position, '$.{member}', {other}); DELETE FROM \
                snapshot"
        );
        let place = edit(&sql);
        assert!(place.open().unwrap().index_was_elsewhere, "{member}");
    }
    // Each of the two places is enough.
    assert!(refusal(&edit("DELETE FROM snapshot")).contains("state/state.db"));
    assert!(refusal(&edit("DELETE FROM tip")).contains("state/state.db"));
    // Without an index, no head is remembered.
    let place = base.fork();
    place.forget_state();
    go_on(&place, "anew");
    // The index belongs to another log of the same name.
    let other = Place::new(77);
    go_on(&other, "b1");
    go_on(&other, "b2");
    let place = base.fork();
    copy_state(other.root.path(), place.root.path());
    assert!(place.open().unwrap().index_was_elsewhere);
}

/// Returns a receipt as another tool would write it: what is before the empty line does not matter
/// here.
fn receipt(checkpoint: &str) -> String {
    format!("c2sp.org/tlog-proof@v1\nindex 3\n\n{checkpoint}")
}

#[test]
fn receipts_beside_the_answers_remember() {
    let (base, lost, _, newer) = rolled_back(3);
    base.forget_state();
    let checkpoint = checkpoint_in(&newer);
    let with = |name: &str, text: &str| {
        let place = base.fork();
        place.disk.put(format!("spool/out/{name}"), text.as_bytes());
        place
    };
    let place = with("a2.tlog-proof", &receipt(&checkpoint));
    let why = refusal(&place);
    assert!(
        why.contains("spool/out/a2.tlog-proof") && why.contains(&lost.root),
        "{why}"
    );
    let given = Given::File("it".to_owned(), receipt(&checkpoint));
    assert_eq!(
        accept(&place, &given).unwrap().given_up.heads,
        std::slice::from_ref(&lost)
    );
    // The file is still there, and is known to be given up, also when everything is read from the
    // first line on.
    go_on(&place, "a3");
    place.forget_state();
    go_on(&place, "a4");
    // Heads that do not count.
    let root = Hash::from_hex(&lost.root).unwrap();
    let other = layout::log_signer(
        ORIGIN,
        &LogKeys {
            log_seed: [5; 32],
            seal_seed: [6; 32],
        },
    )
    .unwrap();
    let foreign =
        note::sign_checkpoint(&Checkpoint::new(ORIGIN, lost.size, root), &other.log).unwrap();
    for (name, text) in [
        ("a2.tlog-proof", receipt(&foreign)),
        (
            "a2.tlog-proof",
            "c2sp.org/tlog-proof@v1\nindex 3\n".to_owned(),
        ),
        ("a2.tlog-proof", String::new()),
        (".a2.tlog-proof", receipt(&checkpoint)),
        ("a2.json", receipt(&checkpoint)),
        (
            "big.tlog-proof",
            format!(
                "c2sp.org/tlog-proof@v1\n{}\n\n{checkpoint}",
                "x".repeat(1_200_000)
            ),
        ),
    ] {
        go_on(&with(name, &text), "on");
    }
}

#[test]
fn which_principals_may_accept_which_heads() {
    let (place, lost, there, newer) = rolled_back(4);
    let disk = audit_of(&place);
    let refused = |by: &str, reason: &str, given: &Given| {
        let by = Principal::parse(by).unwrap();
        let error = Home::accept_rollback(place.root.path(), place.seams(), &by, reason, given)
            .unwrap_err();
        assert_eq!(audit_of(&place), disk, "something was written");
        refusal(&place);
        error.to_string()
    };
    refused("trend-bot", "x", &Given::State);
    refused("owner", " ", &Given::State);
    let file = |text: &str| Given::File("it".to_owned(), text.to_owned());
    refused("owner", "x", &file("no head"));
    // A head that is on the log.
    let files = Files::of(&place);
    let on_log = String::from_utf8(files.checkpoint()).unwrap();
    let why = refused("owner", "x", &file(&on_log));
    assert!(
        why.contains(&lost.root),
        "the later head is an obstacle first: {why}"
    );
    // A head that nobody signed, and one over fewer lines than a remembered head.
    refused(
        "owner",
        "x",
        &file(&checkpoint_in(&newer).replacen('\n', ".\n", 1)),
    );
    let signer = files.signer();
    let between = Checkpoint::new(ORIGIN, there.size + 1, Hash::from_hex(&lost.root).unwrap());
    let between = note::sign_checkpoint(&between, &signer.log).unwrap();
    assert!(refused("owner", "x", &file(&between)).contains(&lost.root));
    assert_eq!(
        accept(&place, &file(&checkpoint_in(&newer)))
            .unwrap()
            .given_up
            .heads,
        [lost]
    );
    go_on(&place, "a3");
}

/// The tail was cut and the index is older still: only the checkpoint remembers, or nothing.
#[test]
fn an_older_index_is_no_obstacle() {
    let place = Place::new(5);
    place.ask_for_agent_key("k1");
    go_on(&place, "a1");
    let older = place.fork();
    go_on(&place, "a2");
    copy_state(older.root.path(), place.root.path());
    assert!(!place.open().unwrap().index_was_elsewhere);
    go_on(&place, "a3");
    // Everything, including checkpoint and index, is restored from one moment: nothing here
    // remembers, as documented.
    go_on(&older, "other");
}

#[test]
fn verify_lists_what_it_did_not_show() {
    let place = Place::new(6);
    go_on(&place, "a1");
    let files = Files::of(&place);
    let head = String::from_utf8(files.checkpoint()).unwrap();
    let key = files.signer().verifier().clone();
    let run = |options: Options| {
        verify::verify(
            &MemoryDisk::with(&files.files),
            Path::new("audit"),
            &options,
            &|_| {},
        )
        .unwrap()
    };
    let has = |report: &Report, part: &str| report.not_shown.iter().any(|what| what.contains(part));
    let plain = run(Options::default());
    assert_eq!(plain.reached, Reached::Seals);
    for part in ["--head", "holder of the log's keys", "--key", "--fast"] {
        assert!(has(&plain, part), "{part}: {:?}", plain.not_shown);
    }
    for noted in [head.clone(), receipt(&head)] {
        let heads = vec![("noted".to_owned(), noted)];
        let full = run(Options {
            heads,
            strict: Some(spoolgate_gate::record::canonical),
            key: Some(key.clone()),
            ..Options::default()
        });
        assert_eq!((full.ok, full.reached), (true, Reached::RememberedHead));
        assert!(
            !has(&full, "--head") && !has(&full, "--key") && !has(&full, "--fast"),
            "{:?}",
            full.not_shown
        );
        assert!(has(&full, "later head"), "{:?}", full.not_shown);
    }
    let json = serde_json::to_value(&plain).unwrap();
    assert!(
        json["not_shown"]
            .as_array()
            .is_some_and(|list| !list.is_empty())
            && json["keys"].is_array()
    );
}

#[test]
fn the_command() {
    let scratch = Scratch::new();
    let home = scratch.home();
    let log = home.join("audit/log-00000001.jsonl");
    let older = (
        fs::read(&log).unwrap(),
        fs::read(home.join("audit/checkpoint")).unwrap(),
    );
    succeed(&home, &["account", "deposit", "5", "--reason", "more"]);
    fs::copy(
        home.join("audit/checkpoint"),
        scratch.beside("noted.checkpoint"),
    )
    .unwrap();
    fs::write(&log, older.0).unwrap();
    fs::write(home.join("audit/checkpoint"), older.1).unwrap();
    let refused = spoolgate(&home, &["account", "deposit", "5", "--reason", "more"]);
    assert_eq!(refused.status.code(), Some(5), "{}", show(&refused));
    assert!(
        show(&refused).contains("accept-rollback"),
        "{}",
        show(&refused)
    );
    let told = succeed(
        &home,
        &[
            "audit",
            "accept-rollback",
            "--head",
            "state",
            "--reason",
            "a disk was lost",
        ],
    );
    assert!(told.contains("may get other decisions"), "{told}");
    succeed(&home, &["account", "deposit", "5", "--reason", "more"]);
    succeed(&home, &["audit", "verify"]);
    let noted = scratch.beside("noted.checkpoint");
    let given_up = spoolgate(
        &home,
        &["audit", "verify", "--head", noted.to_str().unwrap()],
    );
    assert_eq!(given_up.status.code(), Some(5), "{}", show(&given_up));
    assert!(
        show(&given_up).contains("given up by line"),
        "{}",
        show(&given_up)
    );
}
