//! Commands that decide one request and end, on a disk with little room or none.

use std::fs;
use std::sync::atomic::AtomicBool;

use crate::kit::place::Place;
use crate::kit::signed;
use spoolgate_home::Home;
use spoolgate_home::batch::Outcome;
use spoolgate_home::index::Store;
use spoolgate_home::index::store::Hold;
use spoolgate_host::clock::Clock;

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
