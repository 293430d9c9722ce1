//! A disk that fails while the ledger is written, and an index that does not belong to the ledger.
//! Elsewhere such faults broke programs that retry an fsync that failed once and succeeds the
//! second time (Rebello et al., ATC'20), that release answers before their line is durable, that
//! decide a batch twice after a failed write, or that do not notice a changed digit in a snapshot.

use std::fs;

use crate::kit::ledger_files::{Files, Opened};
use crate::kit::memory_disk::Faults;
use crate::kit::place::{ORDER, Place, drain};
use rusqlite::Connection;
use spoolgate_gate::State;
use spoolgate_home::rollback::Given;
use spoolgate_home::{Home, HomeError, read};
use spoolgate_ledger::LedgerError;
use spoolgate_wire::code::{Code, Exit};
use spoolgate_wire::ids::Principal;
use spoolgate_wire::signing::SignKey;

fn agent() -> SignKey {
    SignKey::Hmac([7; 32])
}

/// Makes a home in order, with an agent.
fn ready(seed: u64) -> Place {
    let place = Place::new(seed);
    place.ask_for_agent_key("k1");
    let mut home = place.open().unwrap();
    drain(&mut home).unwrap();
    home.finish("ready").unwrap();
    drop(home);
    place
}

fn decisions_of(place: &Place, id: &str) -> usize {
    let Opened::Clean(lines) = Files::of(place).open() else {
        panic!("the ledger is not clean")
    };
    let named = format!("\"request_id\":\"{id}\"");
    lines
        .iter()
        .filter(|line| line.contains(" decision ") && line.contains(&named))
        .count()
}

/// Folds state and index from the whole ledger.
fn from_the_first_line(place: &Place) -> (State, Vec<String>) {
    let place = place.fork();
    place.forget_state();
    let home = place.open().unwrap();
    (home.state().clone(), home.store().dump().unwrap())
}

fn check_sound(place: &Place, what: &str) {
    let report = Files::of(place).verify(true).unwrap();
    assert!(report.ok, "{what}: {:?}", report.problems);
    let (_, same) = Home::rebuild(place.root.path(), place.seams()).unwrap();
    assert!(same, "{what}: a rebuild gives another state");
}

/// Two requests wait, and a fault happens while their batch is written. Nothing is released, the
/// process can write nothing more, and the next process decides each request once.
fn check_fault(base: &Place, what: &str, arm: impl Fn(&mut Faults)) {
    check_fault_behind(base, what, &[], arm);
}

/// The same for a fault after the batch is durable and these answers of it are published.
fn check_fault_behind(base: &Place, what: &str, released: &[&str], arm: impl Fn(&mut Faults)) {
    let place = base.fork();
    let mut before = place.answers();
    before.extend(released.iter().map(|answer| (*answer).to_owned()));
    before.sort();
    let mut home = place.open().unwrap();
    place.ask(&agent(), "trend-bot", "l1", "orders.list", "{}");
    place.ask_as_owner("h1", "halt.set", r#"{"reason":"a drill"}"#);
    arm(&mut place.disk.faults.lock().unwrap());
    let error = drain(&mut home).map(|outcomes| outcomes.len()).unwrap_err();
    assert_eq!(
        (error.exit(), error.code()),
        (Exit::Storage, Some(Code::Storage)),
        "{what}: {error}"
    );
    assert_eq!(place.answers(), before, "{what}: an answer left");
    // The disk works again, but this process must not trust it.
    let log = place.disk.files_below("audit");
    place.ask(&agent(), "trend-bot", "l2", "orders.list", "{}");
    for _ in 0..2 {
        let again = home.round(false).map(|_| ()).unwrap_err();
        assert!(
            matches!(again, HomeError::Ledger(LedgerError::Poisoned)),
            "{what}: {again}"
        );
    }
    assert!(
        home.write_news().is_err() && home.finish("stop").is_err(),
        "{what}"
    );
    let _ = home.save_snapshot();
    assert_eq!(
        place.disk.files_below("audit"),
        log,
        "{what}: something was written"
    );
    assert_eq!(place.answers(), before, "{what}: an answer left later");
    drop(home);
    let mut home = place
        .open()
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    drain(&mut home).unwrap();
    home.finish("stop").unwrap();
    drop(home);
    for id in ["h1", "l1", "l2"] {
        assert_eq!(decisions_of(&place, id), 1, "{what}: decisions of {id}");
        assert!(
            place.answers().contains(&format!("{id}.json")),
            "{what}: no answer to {id}"
        );
    }
    assert!(
        place.disk.files_below("spool/work").is_empty(),
        "{what}: a claim is left"
    );
    check_sound(&place, what);
}

#[test]
fn a_sync_that_fails_once() {
    check_fault(&ready(1), "fdatasync", |faults| faults.sync_failures = 1);
}

#[test]
fn files_that_may_not_be_durable_are_synced_before_they_are_read() {
    let base = ready(4);
    let refuses = |place: &Place| {
        place.disk.faults.lock().unwrap().sync_failures = 1;
        let opened = place.open();
        place.disk.faults.lock().unwrap().sync_failures = 0;
        opened.is_err_and(|error| error.exit() == Exit::Storage)
    };
    // The snapshot is at the end of the log, and was made when all of that was durable.
    assert!(!refuses(&base.fork()));
    let place = base.fork();
    place.forget_state();
    assert!(refuses(&place), "without an index");
    let place = base.fork();
    place.ask(&agent(), "trend-bot", "l1", "orders.list", "{}");
    drain(&mut place.open().unwrap()).unwrap();
    assert!(refuses(&place), "a batch behind the snapshot");
    let place = base.fork();
    let mut log = place.disk.get("audit/log-00000001.jsonl").unwrap();
    log.extend(log[..100].to_vec());
    place.disk.put("audit/log-00000001.jsonl", &log);
    assert!(refuses(&place), "a torn batch behind the snapshot");
}

#[test]
fn a_disk_that_is_full_after_any_number_of_bytes() {
    let base = ready(2);
    let length = {
        let place = base.fork();
        let mut home = place.open().unwrap();
        let before = place.disk.get("audit/log-00000001.jsonl").unwrap().len();
        place.ask(&agent(), "trend-bot", "l1", "orders.list", "{}");
        place.ask_as_owner("h1", "halt.set", r#"{"reason":"a drill"}"#);
        drain(&mut home).unwrap();
        place.disk.get("audit/log-00000001.jsonl").unwrap().len() - before
    };
    assert!(length > 2000, "{length}");
    // `ledger_damage.rs` opens the log at every length. Here requests go the whole way, at both
    // ends and in between.
    let ends = [0, 1, 2, 63, length - 330, length - 2, length - 1, length];
    for room in (0..length).step_by(97).chain(ends) {
        check_fault(
            &base,
            &format!("full after {room} of {length} bytes"),
            |faults| {
                faults.append_room = Some(room);
            },
        );
    }
}

#[test]
fn lines_that_read_back_differently() {
    let base = ready(3);
    for at in [0, 80, 700, 1500] {
        check_fault(&base, &format!("byte {at} stored wrong"), |faults| {
            faults.append_flip = Some((at, 3))
        });
    }
    check_fault(&base, "read back wrong", |faults| {
        faults.read_back_flip = true
    });
}

/// The batch is durable and answered, but its checkpoint cannot be written: nothing more is
/// decided, and nothing twice.
#[test]
fn a_checkpoint_that_cannot_be_written() {
    check_fault_behind(&ready(4), "checkpoint", &["h1.json", "l1.json"], |faults| {
        faults.write_fails_for = Some("audit/.checkpoint".to_owned());
    });
}

/// The same for an answer: its decision is final, and the next start publishes it.
#[test]
fn an_answer_that_cannot_be_written() {
    let place = ready(5);
    let mut home = place.open().unwrap();
    place.ask(&agent(), "trend-bot", "l1", "orders.list", "{}");
    place.disk.faults.lock().unwrap().write_fails_for = Some("spool/out/".to_owned());
    let error = drain(&mut home).map(|_| ()).unwrap_err();
    assert_eq!(error.exit(), Exit::Storage, "{error}");
    assert!(!place.answers().contains(&"l1.json".to_owned()));
    drop(home);
    let mut home = place.open().unwrap();
    assert!(
        place.answers().contains(&"l1.json".to_owned()),
        "published at the next start"
    );
    drain(&mut home).unwrap();
    drop(home);
    assert_eq!(decisions_of(&place, "l1"), 1);
    check_sound(&place, "answer");
}

/// Opening fails at every step while the torn rest is being frozen; the next start does it.
#[test]
fn a_disk_that_fails_during_recovery() {
    let base = ready(6);
    let mut log = base.disk.get("audit/log-00000001.jsonl").unwrap();
    let torn = log[..100].to_vec();
    log.extend(torn);
    base.disk.put("audit/log-00000001.jsonl", &log);
    for (what, faults) in [
        (
            "settling",
            Faults {
                sync_failures: 1,
                ..Faults::default()
            },
        ),
        (
            "the new segment",
            Faults {
                // Neither the reserve takes it nor a file of its own.
                append_room: Some(10),
                write_fails_for: Some("log-00000002".to_owned()),
                ..Faults::default()
            },
        ),
    ] {
        let place = base.fork();
        *place.disk.faults.lock().unwrap() = faults;
        let error = place.open().map(|_| ()).unwrap_err();
        assert_eq!(error.exit(), Exit::Storage, "{what}: {error}");
        drop(place.open().unwrap());
        assert_eq!(
            place.disk.get("audit/log-00000001.jsonl").unwrap(),
            log,
            "{what}"
        );
        check_sound(&place, what);
    }
}

/// Makes a home with a snapshot, lines after it, and answers that are not known to be durable.
fn with_history(seed: u64) -> Place {
    let place = ready(seed);
    let mut home = place.open().unwrap();
    place.ask(&agent(), "trend-bot", "l1", "orders.list", "{}");
    place.ask_as_owner(
        "a1",
        "account.adjust",
        r#"{"amount":"1234.5","reason":"deposit"}"#,
    );
    drain(&mut home).unwrap();
    home.save_snapshot().unwrap();
    place.ask(&agent(), "trend-bot", "o1", "order.submit", ORDER);
    drain(&mut home).unwrap();
    place.ask_as_owner("h1", "halt.set", r#"{"reason":"a drill"}"#);
    drain(&mut home).unwrap();
    place
}

fn database(place: &Place) -> Connection {
    Connection::open(place.root.path().join("state/state.db")).unwrap()
}

fn change_snapshot(place: &Place, change: impl Fn(&str) -> String) {
    let database = database(place);
    let body: String = database
        .query_row("SELECT body FROM snapshot", [], |row| row.get(0))
        .unwrap();
    let changed = change(&body);
    assert_ne!(changed, body, "nothing was changed");
    database
        .execute("UPDATE snapshot SET body = ?1", [changed])
        .unwrap();
}

/// Whatever state.db contained: after opening, state and index match the ledger, reading without
/// the lock shows the same, and the ledger continues correctly.
fn check_rebuilt(place: &Place, what: &str) {
    let (state, index) = from_the_first_line(place);
    let view = read::read(place.root.path(), &place.seams())
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(view.state, state, "{what}: seen without the lock");
    let mut home = place
        .open()
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(home.state(), &state, "{what}");
    assert_eq!(home.store().dump().unwrap(), index, "{what}");
    // The next batch continues the tree, and an id that was used is recognised.
    place.ask(&agent(), "trend-bot", "l1", "orders.list", "{}");
    place.ask(&agent(), "trend-bot", "l9", "orders.list", "{}");
    let outcomes = drain(&mut home).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(outcomes.len(), 2, "{what}");
    drop(home);
    check_sound(place, what);
}

#[test]
fn an_index_that_is_missing_or_foreign() {
    let base = with_history(7);
    check_rebuilt(&base.fork(), "as it was");
    let deleted = base.fork();
    deleted.forget_state();
    check_rebuilt(&deleted, "deleted");
    let foreign = base.fork();
    let other = with_history(8);
    foreign.forget_state();
    fs::copy(
        other.root.path().join("state/state.db"),
        foreign.root.path().join("state/state.db"),
    )
    .unwrap();
    check_rebuilt(&foreign, "of another log");
    let old_version = base.fork();
    database(&old_version)
        .pragma_update(None, "user_version", 1)
        .unwrap();
    check_rebuilt(&old_version, "of an older version");
}

/// A ledger is restored from a backup with its checkpoint, under an index that has seen more.
/// Before the index stored its own position, a snapshot older than the backup hid that: the index
/// answered requests with lines that did not exist. Such a ledger is refused until a person accepts
/// it.
#[test]
fn an_index_ahead_of_its_ledger() {
    for snapshot_too in [false, true] {
        let place = with_history(9);
        let backup = place.disk.files_below("audit");
        let mut home = place.open().unwrap();
        place.ask(&agent(), "trend-bot", "l9", "orders.list", "{}");
        drain(&mut home).unwrap();
        place.ask(&agent(), "trend-bot", "l10", "orders.list", "{}");
        drain(&mut home).unwrap();
        if snapshot_too {
            home.save_snapshot().unwrap();
        }
        drop(home);
        for (path, bytes) in backup {
            place.disk.put(path, &bytes);
        }
        let what = if snapshot_too {
            "snapshot ahead"
        } else {
            "index ahead"
        };
        assert_eq!(
            place.open().err().unwrap().exit(),
            Exit::LedgerCorrupt,
            "{what}"
        );
        let owner = Principal::parse("owner").unwrap();
        Home::accept_rollback(
            place.root.path(),
            place.seams(),
            &owner,
            "a backup",
            &Given::State,
        )
        .unwrap();
        check_rebuilt(&place, what);
    }
}

/// Changes every field of the stored position, a digit of the state, and half of the text. A
/// changed tree edge at the log's end would make the next seal wrong and the log unreadable for
/// ever; a changed amount would be trusted for ever.
#[test]
fn a_snapshot_that_was_changed() {
    let base = with_history(10);
    let place = base.fork();
    place.open().unwrap().save_snapshot().unwrap();
    let at_the_end = place;
    let bump = |body: &str, field: &str| {
        let at = body.find(field).unwrap_or_else(|| panic!("{field}")) + field.len();
        let mut bytes = body.as_bytes().to_vec();
        bytes[at] = if bytes[at] == b'1' { b'2' } else { b'1' };
        String::from_utf8(bytes).unwrap()
    };
    for (where_, base) in [("behind", &base), ("at the end", &at_the_end)] {
        for field in [
            "\"segment\":",
            "\"offset\":",
            "\"lines\":",
            "\"seq\":",
            "\"batch\":",
            "\"head\":\"",
            "\"last_length\":",
            "\"root\":\"",
            "\"edge\":[\"",
            "\"cash\":\"",
        ] {
            let place = base.fork();
            change_snapshot(&place, |body| bump(body, field));
            check_rebuilt(&place, &format!("{where_}, {field} changed"));
        }
        let place = base.fork();
        change_snapshot(&place, |body| body[..body.len() / 2].to_owned());
        check_rebuilt(&place, &format!("{where_}, cut in half"));
    }
}

/// An index that SQLite cannot read at all is rebuilt like any other cache.
#[test]
fn an_index_that_is_not_a_database() {
    let place = with_history(11);
    place.forget_state();
    fs::write(place.root.path().join("state/state.db"), vec![b'x'; 8192]).unwrap();
    let (state, index) = from_the_first_line(&place);
    let home = place.open().unwrap();
    assert_eq!(
        (home.state(), home.store().dump().unwrap()),
        (&state, index)
    );
}

/// An index with lines at other places, or without them. Before, this was reported as a corrupt
/// ledger, and the `rebuild` that the message named failed for the same reason.
#[test]
fn an_index_that_points_elsewhere() {
    let base = with_history(17);
    for change in [
        "DELETE FROM lines",
        "UPDATE lines SET start = start + 1",
        "UPDATE lines SET start = start + length + 1",
        "UPDATE lines SET start = start + 1000000",
        "UPDATE lines SET segment = 7",
        "UPDATE lines SET leaf = upper(leaf)",
        "UPDATE lines SET length = length - 1",
    ] {
        let place = base.fork();
        assert!(database(&place).execute(change, []).unwrap() > 0);
        check_rebuilt(&place, change);
    }
}

/// A decision before the snapshot is read again for its answer: after a crash, or when a request is
/// sent twice. A flipped bit there that still parses must not give another answer.
#[test]
fn a_damaged_line_gives_no_answer() {
    let place = with_history(18);
    place.open().unwrap().save_snapshot().unwrap();
    let log = place.disk.get("audit/log-00000001.jsonl").unwrap();
    let text = String::from_utf8(log.clone()).unwrap();
    let at = text
        .find("\"AccountAdjusted\":{\"cash\":\"1234.5\"")
        .unwrap()
        + 27;
    let mut damaged = log;
    damaged[at] ^= 2;
    place.disk.put("audit/log-00000001.jsonl", &damaged);
    let answer = place.disk.get("spool/out/a1.json").unwrap();
    assert!(String::from_utf8_lossy(&answer).contains("1234.5"));
    let error = place.open().map(|_| ()).unwrap_err();
    assert_eq!(error.exit(), Exit::LedgerCorrupt, "{error}");
    assert_eq!(
        place.disk.get("spool/out/a1.json").unwrap(),
        answer,
        "another answer was published"
    );
}

/// For commands, damage anywhere ends in exit code 5: also in the first line, which is read before
/// the log is verified, and also before the place of a snapshot.
#[test]
fn damage_ends_in_exit_code_5() {
    let base = ready(12);
    base.forget_state();
    let log = base.disk.get("audit/log-00000001.jsonl").unwrap();
    let first_line = log.iter().position(|byte| *byte == b'\n').unwrap();
    let origin = String::from_utf8_lossy(&log)
        .find("spoolgate.invalid")
        .unwrap();
    let cases = (0..=first_line)
        .map(|at| (at, u8::try_from(at % 8).unwrap()))
        .chain((origin..origin + 24).flat_map(|at| (0..8).map(move |bit| (at, bit))))
        .chain((first_line..log.len()).step_by(41).map(|at| (at, 1)));
    let mut checked = 0;
    for (at, bit) in cases {
        let mut damaged = log.clone();
        damaged[at] ^= 1 << bit;
        base.disk.put("audit/log-00000001.jsonl", &damaged);
        let error = base.open().map(|_| ()).unwrap_err();
        assert_eq!(
            (error.exit(), error.code()),
            (Exit::LedgerCorrupt, Some(Code::LedgerCorrupt)),
            "byte {at}, bit {bit}: {error}"
        );
        checked += 1;
    }
    assert!(checked > 1000, "{checked}");
    // Every seal signs the log's name as the first line has it, and so does the seal at the place
    // of a snapshot.
    let place = with_history(13);
    place.open().unwrap().save_snapshot().unwrap();
    let log = place.disk.get("audit/log-00000001.jsonl").unwrap();
    let mut renamed = log.clone();
    renamed[origin] ^= 1;
    place.disk.put("audit/log-00000001.jsonl", &renamed);
    let error = place.open().map(|_| ()).unwrap_err();
    assert_eq!(
        error.exit(),
        Exit::LedgerCorrupt,
        "renamed under a snapshot: {error}"
    );
    assert_eq!(
        place.disk.get("audit/log-00000001.jsonl").unwrap(),
        renamed,
        "nothing was changed"
    );
}

/// A batch whose answers were lost with the last seal's damage counts as corrupt for a gate with a
/// snapshot, too.
#[test]
fn damage_after_a_snapshot() {
    let base = with_history(14);
    let log = base.disk.get("audit/log-00000001.jsonl").unwrap();
    let from: i64 = {
        let body: String = database(&base)
            .query_row("SELECT body FROM snapshot", [], |row| row.get(0))
            .unwrap();
        let value: serde_json::Value = serde_json::from_str(&body).unwrap();
        value["position"]["offset"].as_i64().unwrap()
    };
    let from = usize::try_from(from).unwrap();
    assert!(from < log.len());
    for at in (from..log.len()).step_by(23) {
        let mut damaged = log.clone();
        damaged[at] ^= 4;
        base.disk.put("audit/log-00000001.jsonl", &damaged);
        let error = base.open().map(|_| ()).unwrap_err();
        assert_eq!(error.exit(), Exit::LedgerCorrupt, "byte {at}: {error}");
        base.disk.put("audit/log-00000001.jsonl", &log[..at]);
        let error = base.open().map(|_| ()).unwrap_err();
        assert_eq!(error.exit(), Exit::LedgerCorrupt, "cut to {at}: {error}");
    }
    base.disk.put("audit/log-00000001.jsonl", &log);
    check_rebuilt(&base, "whole again");
}

/// The same inputs, keys and clock give the same bytes of log, checkpoint and answers.
#[test]
fn the_same_inputs_give_the_same_bytes() {
    let build = |seed: u64| {
        let place = with_history(seed);
        let mut home = place.open().unwrap();
        place.pass_s(86_400);
        place.ask(&agent(), "trend-bot", "o2", "order.submit", ORDER);
        drain(&mut home).unwrap();
        home.finish("stop").unwrap();
        drop(home);
        check_sound(&place, "built");
        let mut files = place.disk.files_below("audit");
        files.extend(place.disk.files_below("spool"));
        files
    };
    let first = build(15);
    assert!(first.len() > 8, "{}", first.len());
    assert_eq!(first, build(15));
    assert_ne!(first, build(16), "the seed is in the bytes");
}
