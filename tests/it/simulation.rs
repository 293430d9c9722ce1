//! Thousands of crashes: the whole gate over a disk, a clock and agents that a seed controls.
//!
//! One seed again: `SPOOLGATE_SIM_SEED=7 cargo test --test it simulation::one_seed -- --nocapture`.
//! The long run: `cargo test --release --test it simulation:: -- --ignored --nocapture`, with
//! `SPOOLGATE_SIM_SEEDS`, `SPOOLGATE_SIM_RECOVERIES` and `SPOOLGATE_SIM_FIRST` to set it.

mod agents;
mod cases;
mod check;
mod clock;
mod device;
mod disk;
mod ledger;
mod life;
mod outside;
mod promises;
mod stories;
mod tasks;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::kit::{campaign, setting};
use disk::Lie;
use life::{Tally, live, tell};

/// Runs seeds on all cores and adds up what happened.
fn run(first: u64, seeds: u64, recoveries: u64) -> Tally {
    let began = Instant::now();
    let next = AtomicU64::new(first);
    let total = Mutex::new(Tally::default());
    let failures = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::SeqCst);
                    if seed >= first + seeds || failures.lock().unwrap().len() >= 10 {
                        break;
                    }
                    match live(seed, recoveries, None) {
                        Ok(tally) => {
                            let mut total = total.lock().unwrap();
                            total.add(&tally);
                            let done = seed - first + 1;
                            if done.is_multiple_of(500) {
                                eprintln!(
                                    "{done} seeds, {} recoveries, {:.0} s",
                                    total.recoveries,
                                    began.elapsed().as_secs_f32()
                                );
                            }
                        }
                        Err(why) => {
                            let again = format!(
                                "SPOOLGATE_SIM_SEED={seed} SPOOLGATE_SIM_RECOVERIES={recoveries}"
                            );
                            eprintln!("{again}: {why}");
                            failures.lock().unwrap().push(format!("{again}: {why}"));
                        }
                    }
                }
            });
        }
    });
    let total = total.into_inner().unwrap();
    println!(
        "{seeds} seeds from {first}, {:.0} s: {total:#?}",
        began.elapsed().as_secs_f32()
    );
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    total
}

#[test]
fn many_seeds() {
    let (seeds, recoveries) = (
        setting("SPOOLGATE_SIM_SEEDS", campaign(7, 8)),
        setting("SPOOLGATE_SIM_RECOVERIES", 30),
    );
    let total = run(6, seeds, recoveries);
    assert!(total.recoveries >= seeds * recoveries);
    for (what, n) in [
        ("orders accepted", total.accepted),
        ("orders refused", total.refused),
        ("replays", total.replays),
        ("recoveries that crashed", total.crashed_recoveries),
        ("power cuts", total.power_cuts),
        ("failing disks", total.disk_failures),
        ("torn batches", total.torn),
        ("requests given up", total.given_up),
        ("verdicts that counted", total.verdicts),
        ("cases that were decided", total.cases),
        ("outgoing actions that ended", total.actions - total.unknown),
        ("outgoing actions with unknown outcome", total.unknown),
    ] {
        assert!(n > 0, "the simulation saw no {what}: {total:#?}");
    }
}

#[test]
fn one_seed() {
    let seed = setting("SPOOLGATE_SIM_SEED", 1);
    let recoveries = setting("SPOOLGATE_SIM_RECOVERIES", 15);
    let first = live(seed, recoveries, None).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    let again = live(seed, recoveries, None).unwrap();
    assert_eq!(first, again, "the same seed is the same story");
}

/// A simulation that detects no broken promise of the disk would prove nothing. Only one story in
/// fifty shows some of the lies: the search begins with a seed that showed the lie before, and
/// tries others in case the gate's calls have changed since.
#[test]
fn every_broken_promise_is_noticed() {
    let lies = [
        (Lie::SyncData, 1),
        (Lie::SyncFs, 1),
        (Lie::SyncFile, 1),
        (Lie::DropCache, 205),
        (Lie::WriteAgain, 37),
    ];
    for (lie, known) in lies {
        let noticed = (known..known + 2000)
            .find_map(|seed| live(seed, 20, Some(lie)).err().map(|why| (seed, why)));
        let (seed, why) = noticed.unwrap_or_else(|| panic!("{lie:?} went unnoticed"));
        println!("{lie:?}: seed {seed}: {why}");
    }
}

#[test]
#[ignore = "prints every call of a seed that failed: set SPOOLGATE_SIM_SEED and \
    SPOOLGATE_SIM_RECOVERIES"]
fn the_story_of_a_seed() {
    let (outcome, story) = tell(
        setting("SPOOLGATE_SIM_SEED", 1),
        setting("SPOOLGATE_SIM_RECOVERIES", 40),
    );
    story.iter().for_each(|line| println!("{line}"));
    println!("{outcome:?}");
}

#[test]
#[ignore = "the long run: see above"]
fn a_million_recoveries() {
    let first = setting("SPOOLGATE_SIM_FIRST", 1000);
    run(
        first,
        setting("SPOOLGATE_SIM_SEEDS", 25_000),
        setting("SPOOLGATE_SIM_RECOVERIES", 20),
    );
}
