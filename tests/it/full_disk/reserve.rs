//! The ledger on a full disk: lines go on in room that was taken in advance.

use std::path::Path;
use std::sync::Arc;

use spoolgate_ledger::disk::{Access, Disk as _, is_full};
use spoolgate_ledger::memory::Memory;
use spoolgate_ledger::recover::{self, Found};
use spoolgate_ledger::segment::{self, AUDIT_DIR};
use spoolgate_ledger::{LedgerError, verify};

#[allow(
    unreachable_pub,
    reason = "examples in the documentation include it too"
)]
mod setup {
    include!("../../../crates/ledger/testdata/setup.rs");
}

const RESERVE: u64 = 4 << 20;

fn note(bytes: usize) -> (&'static str, String) {
    let text = "x".repeat(bytes);
    ("note", serde_json::json!({ "text": text }).to_string())
}

/// Leaves no byte on the disk.
fn fill(disk: &Memory) {
    disk.limit(Some(0));
}

fn is_sound(disk: &Memory) -> bool {
    let options = verify::Options::default();
    let report = verify::verify(disk, Path::new(AUDIT_DIR), &options, &|_| ()).unwrap();
    report.ok
}

#[test]
fn lines_go_on_until_the_reserve_is_used_up_and_the_next_says_so_unharmed() {
    let disk = Arc::new(Memory::default());
    let mut ledger = setup::create(&disk);
    assert!(ledger.make_room(RESERVE).unwrap());
    fill(&disk);
    let mut written: u64 = 0;
    loop {
        ledger.make_room(RESERVE).unwrap();
        match ledger.append(&[note(10_000)]) {
            Ok(_) => written += 10_000,
            Err(LedgerError::Disk { source, .. }) => break assert!(is_full(&source)),
            Err(error) => panic!("{error}"),
        }
        assert!(!ledger.publish_head().unwrap());
    }
    // All of the reserve, and what was left of the room in the segment before it.
    assert!(written > RESERVE, "{written}");
    assert_eq!(ledger.position().segment, 2);
    assert!(is_sound(&disk));
    disk.limit(None);
    assert!(ledger.make_room(RESERVE).unwrap());
    ledger.append(&[note(10)]).unwrap();
    assert!(is_sound(&disk));
}

#[test]
fn a_start_on_a_full_disk_freezes_a_torn_batch_and_goes_on_in_the_reserve() {
    let disk = Arc::new(Memory::default());
    let mut ledger = setup::create(&disk);
    assert!(ledger.make_room(RESERVE).unwrap());
    drop(ledger);
    let log = disk.open_log(&segment::path(1), Access::Append).unwrap();
    log.append(b"{\"prev\":\"").unwrap();
    fill(&disk);
    let opened = recover::open(disk.clone(), setup::signer(1), None, &mut |_| Ok(()));
    let (mut ledger, found) = opened.unwrap();
    assert!(matches!(found, Found::Torn(_)));
    assert!(disk.stat(Path::new("audit/.reserve")).unwrap().is_none());
    assert!(!ledger.make_room(RESERVE).unwrap(), "there is no reserve");
    for _ in 0..100 {
        ledger.append(&[note(10_000)]).unwrap();
        ledger.make_room(RESERVE).unwrap();
    }
    assert_eq!(ledger.position().segment, 2);
    assert!(is_sound(&disk));
}
