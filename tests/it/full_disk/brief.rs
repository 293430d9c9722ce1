//! Commands that decide one request and end, on a disk with little room or none.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::low::storage_lines;
use crate::kit::place::Place;
use crate::kit::signed;
use spoolgate_home::Home;
use spoolgate_home::batch::Outcome;
use spoolgate_home::index::Store;
use spoolgate_home::index::store::Hold;
use spoolgate_host::clock::Clock;
use spoolgate_replay::replay::{Options, replay};

/// Decides a request of the first person as a command does, with this much room on the disk.
fn command(place: &Place, room: Option<u64>, id: &str, action: &str, payload: &str) -> Outcome {
    let now = place.clock.now();
    let request = signed(&place.owner, "owner", id, action, payload, now).to_json();
    let file = format!("spool/local/in/{id}.json");
    place.disk.put(file, request.as_bytes());
    place.disk.leave(room);
    let mut home = Home::open_briefly(place.root.path(), place.seams()).unwrap();
    let mut decided = Vec::new();
    home.until_idle(true, &AtomicBool::new(false), &mut |outcomes| {
        decided.extend_from_slice(outcomes);
    })
    .unwrap();
    home.settle().unwrap();
    drop(home);
    place.disk.leave(None);
    assert_eq!(decided.len(), 1);
    decided.remove(0)
}

/// Each command is a process of its own, and knows from the ledger what was told before.
#[test]
fn commands_tell_of_the_room_once_per_change() {
    const FLOOR: u64 = 4 << 20;
    let place = Place::at(5, "2026-03-02T12:00:00Z", |root| {
        let rules = root.join("rules/safety.yaml");
        let text = fs::read_to_string(&rules).unwrap();
        let low = text.replace("floor_bytes: 268435456", &format!("floor_bytes: {FLOOR}"));
        assert_ne!(text, low);
        fs::write(&rules, low).unwrap();
    });
    drop(place.settled());
    let mut told = 0;
    let mut halt = (0..).map(|n| format!("h{n}"));
    let mut again = |room: Option<u64>, lines: usize| {
        for _ in 0..2 {
            let outcome = command(
                &place,
                room,
                &halt.next().unwrap(),
                "halt.set",
                r#"{"reason":"drill"}"#,
            );
            assert_eq!(outcome.decision.metadata.code, None, "{outcome:?}");
        }
        told += lines;
        let notes = storage_lines(&place);
        assert_eq!(notes.len(), told, "{room:?}: {notes:?}");
    };
    // The first one has to take the reserve.
    again(None, 0);
    again(Some(FLOOR + 100_000), 0);
    again(Some(FLOOR - 1), 1);
    // Also over several processes, there is room again only a quarter above the floor.
    again(Some(FLOOR + FLOOR / 4 - 1), 0);
    again(Some(FLOOR + FLOOR / 4 + 100_000), 1);
    // The first command finds out within its batch that there is none at all.
    again(Some(0), 2);
    again(None, 1);
    let options = Options {
        threads: 1,
        answers: None,
    };
    let disk = Arc::clone(&place.disk);
    let replayed = replay(disk, Path::new("audit"), &options, &mut |_| {}).unwrap();
    assert!(replayed.is_same(), "{replayed:?}");
}

/// A command checkpoints the index's log once it is long. SQLite refuses that within a transaction,
/// and on a full disk one stays open.
#[test]
fn a_command_on_a_full_disk_leaves_the_log_of_the_index_as_it_is() {
    let place = Place::new(5);
    place.settled().save_snapshot().unwrap();
    let log = place.root.path().join("state/state.db-wal");
    let grow = || {
        let store = Store::open(place.root.path(), Hold::Brief).unwrap();
        let snapshot = store.snapshot().unwrap().unwrap();
        while fs::metadata(&log).unwrap().len() < 300_000 {
            store.save_snapshot(&snapshot).unwrap();
        }
    };
    let halt = r#"{"reason":"drill"}"#;
    grow();
    let outcome = command(&place, Some(0), "h1", "halt.set", halt);
    assert_eq!(outcome.decision.metadata.code, None, "{outcome:?}");
    assert!(fs::metadata(&log).unwrap().len() >= 300_000);
    // With room, the same command empties the log.
    command(&place, None, "h2", "halt.set", halt);
    assert!(fs::metadata(&log).unwrap().len() < 300_000);
}
