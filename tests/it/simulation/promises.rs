//! What the simulated disk promises and what it does not.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use spoolgate_ledger::disk::{Access, Disk, LogFile, Mode};
use spoolgate_wire::time::Time;

use super::clock::SimClock;
use super::disk::{Fault, Medium, SimDisk};
use crate::kit::dice::Dice;

const LOG: &str = "log";

fn disk(kind: Medium, seed: u64) -> SimDisk {
    let clock = Arc::new(SimClock::at(Time::EPOCH));
    let disk = SimDisk::new(seed, kind, None, clock);
    disk.put(Path::new(LOG), b"old", true);
    disk
}

fn log(disk: &SimDisk) -> Box<dyn LogFile> {
    disk.open_log(Path::new(LOG), Access::Append).unwrap()
}

/// Returns the contents that a name can have after a power cut, over many seeds.
fn outcomes(kind: Medium, path: &str, act: impl Fn(&SimDisk)) -> BTreeSet<Option<Vec<u8>>> {
    let outcome = |seed| {
        let disk = disk(kind, seed);
        act(&disk);
        disk.power_cut(&mut Dice::apart(seed));
        disk.get(Path::new(path))
    };
    (0..400).map(outcome).collect()
}

#[test]
fn synced_bytes_stay_and_others_may_be_lost() {
    for kind in [Medium::Journal, Medium::Strict] {
        let synced = outcomes(kind, LOG, |disk| {
            log(disk).append(b"new").unwrap();
            log(disk).sync_data().unwrap();
        });
        assert_eq!(synced, BTreeSet::from([Some(b"oldnew".to_vec())]));
        let unsynced = outcomes(kind, LOG, |disk| log(disk).append(b"new").unwrap());
        for kept in [&b"old"[..], b"oldnew", b"oldn", b"old\0\0\0"] {
            assert!(
                unsynced.contains(&Some(kept.to_vec())),
                "{kept:?} of {unsynced:?}"
            );
        }
    }
}

#[test]
fn a_renamed_file_can_be_there_and_empty() {
    for kind in [Medium::Journal, Medium::Strict] {
        let found = outcomes(kind, "answer", |disk| {
            disk.write(Path::new(".tmp"), b"answer", Mode::Shared, false)
                .unwrap();
            disk.rename(Path::new(".tmp"), Path::new("answer")).unwrap();
        });
        for kept in [None, Some(Vec::new()), Some(b"answer".to_vec())] {
            assert!(found.contains(&kept), "{kept:?} of {found:?}");
        }
    }
}

#[test]
fn a_sync_of_the_log_commits_names_only_on_a_journal() {
    for (kind, both) in [(Medium::Journal, false), (Medium::Strict, true)] {
        let found = outcomes(kind, "claim", |disk| {
            disk.put(Path::new("request"), b"r", true);
            disk.rename(Path::new("request"), Path::new("claim"))
                .unwrap();
            log(disk).append(b"new").unwrap();
            log(disk).sync_data().unwrap();
        });
        assert!(found.contains(&Some(b"r".to_vec())));
        assert_eq!(found.contains(&None), both, "{kind:?}");
    }
}

#[test]
fn after_a_failed_sync_no_later_one_helps() {
    let disk = disk(Medium::Journal, 1);
    disk.start_process(None, Some(Fault { at: 3, count: 1 }), None);
    let log = log(&disk);
    log.append(b"new").unwrap();
    assert!(log.sync_data().is_err());
    assert!(log.sync_data().is_ok());
    assert!(
        disk.holds(Path::new(LOG), b"oldnew"),
        "the pages are still seen"
    );
    log.drop_cache(0).unwrap();
    assert!(
        disk.holds(Path::new(LOG), b"old\0\0\0"),
        "the medium has nothing under them"
    );
    disk.power_cut(&mut Dice::apart(1));
    assert!(disk.holds(Path::new(LOG), b"old"), "not even their length");
}

#[test]
fn a_rename_is_never_half_done() {
    let both = |seed| {
        let disk = disk(Medium::Strict, seed);
        disk.put(Path::new("request"), b"r", true);
        disk.rename(Path::new("request"), Path::new("claim"))
            .unwrap();
        disk.rename(Path::new("claim"), Path::new("kept")).unwrap();
        disk.power_cut(&mut Dice::apart(seed));
        disk.files().len()
    };
    assert!(
        (0..400).all(|seed| both(seed) == 2),
        "one of three names, and the log"
    );
}

#[test]
fn a_process_dies_once_and_does_nothing_after() {
    let disk = disk(Medium::Journal, 1);
    disk.start_process(Some(2), None, None);
    let log = log(&disk);
    assert!(log.append(b"new").is_err() && disk.is_dead());
    let then = disk.files();
    assert!(log.append(b"more").is_err() && disk.remove(Path::new(LOG)).is_err());
    assert_eq!(disk.files(), then);
}
