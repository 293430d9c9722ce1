//! The faults that the simulation found, each as the shortest story that shows it.

use std::path::Path;

use spoolgate_gate::prepare::Origin;

use super::disk::{Medium, Next};
use super::life::Life;
use crate::kit::place::drain;

/// Makes the life of a seed whose disk is of this kind.
fn life(medium: Medium, from: u64) -> Life {
    (from * 50..)
        .map(|seed| Life::new(seed, None))
        .find(|life| life.medium == medium)
        .unwrap()
}

/// A checkpoint is published without a sync. A power cut left it empty, and until the next batch
/// the ledger did not verify for auditors.
#[test]
fn an_emptied_checkpoint_is_renewed_by_recovery() {
    let mut life = life(Medium::Journal, 0);
    let mut home = life.open().unwrap();
    assert!(!drain(&mut home).unwrap().is_empty());
    drop(home);
    life.disk.put(Path::new("audit/checkpoint"), b"", true);
    let home = life.open().unwrap();
    life.check_recovered(&home).unwrap();
    life.state_follows_from_the_ledger(&home).unwrap();
}

/// The sync of a batch failed, and the machine continued to show the file with its full length.
/// Recovery recorded the length of the torn rest in the next segment; after the next power cut the
/// file was shorter, and a sound ledger counted as corrupt.
#[test]
fn a_torn_rest_of_a_failed_sync_survives_the_next_power_cut() {
    for seed in 0..40 {
        let mut life = life(Medium::Journal, seed);
        let mut home = life.open().unwrap();
        life.disk
            .next("sync_data", "audit/log-00000001.jsonl", Next::Fails);
        assert!(home.round(false).is_err());
        drop(home);
        drop(life.open().unwrap());
        life.power_cut();
        let home = life
            .open()
            .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        life.check_recovered(&home).unwrap();
        drop(home);
        life.end().unwrap();
    }
}

/// Syncing the answers failed and dropped some of their pages. The next start saw the answers in
/// memory, found nothing to do, synced without an error, and recorded in the ledger that they were
/// durable; after a power cut they were empty.
#[test]
fn answers_of_a_failed_sync_are_written_again() {
    for seed in 0..40 {
        let mut life = life(Medium::Strict, seed);
        let mut home = life.open().unwrap();
        assert!(!drain(&mut home).unwrap().is_empty());
        life.disk.next("sync_fs", "spool/out", Next::Fails);
        assert!(home.mark_published().is_err());
        drop(home);
        let mut home = life.open().unwrap();
        home.mark_published().unwrap();
        drop(home);
        life.power_cut();
        let home = life.open().unwrap();
        life.check_recovered(&home)
            .unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        drop(home);
        life.end().unwrap();
    }
}

/// A rulebook was written and renamed, and the gate was killed before it synced the folder. The
/// next start found it and sealed a line that names it. Where the log's sync does not make names
/// durable, a power cut removed the rulebook, and nothing decided under it could be decided again.
#[test]
fn a_kept_rulebook_is_durable_before_a_line_names_it() {
    for seed in 0..40 {
        let mut life = life(Medium::Strict, seed);
        let mut home = life.open().unwrap();
        drain(&mut home).unwrap();
        drop(home);
        life.edit_rules("# looked at\n");
        life.disk.start_process(None, None, None);
        life.disk.next("sync_dir", "audit/rulebooks", Next::Dies);
        assert!(life.open().is_err());
        life.disk.start_process(None, None, None);
        life.open().unwrap().write_news().unwrap();
        life.power_cut();
        let home = life.open().unwrap();
        life.check_recovered(&home)
            .unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
}

/// Syncing a kept copy failed and dropped its pages. The next start saw the copy in memory, synced
/// without an error and removed the claim; after a power cut no copy was left.
#[test]
fn kept_copies_of_a_failed_sync_are_written_again() {
    for seed in 0..40 {
        let mut life = life(Medium::Journal, seed);
        life.agents
            .drop_file(&life.disk, Origin::Flat, "junk.json", b"{}".to_vec(), true);
        let mut home = life.open().unwrap();
        life.disk.next("fsync", "spool/rejected", Next::Fails);
        assert!((0..4).any(|_| home.round(false).is_err()));
        drop(home);
        drop(life.open().unwrap());
        life.power_cut();
        life.end()
            .unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
}
