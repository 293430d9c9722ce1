//! The program is killed, or its call fails, at every system call that it makes: strace injects the
//! faults, so SQLite's calls are included.
//!
//! `cargo test` tries a sample. For every call, with figures: `cargo test --release --test it
//! syscalls:: -- --ignored --nocapture`. `SPOOLGATE_SEED` draws the files and the sample;
//! `SPOOLGATE_POINTS` limits the points of each script; `SPOOLGATE_SCRIPT` selects scripts by a
//! part of their name.

mod auditing;
mod script;
mod strace;

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crate::kit::prepared::Base;
use crate::kit::spools::{Ended, Settled, answers_in, check_now, check_settled};
use crate::kit::{PROGRAM, decisions, setting, show};
use script::{Script, recover};
use spoolgate_wire::answer::Answer;
use spoolgate_wire::code::Code;
use strace::{Blow, Point, Struck, calls, calls_on, missing, strike};

/// The number of homes that are worked on at the same time.
const THREADS: usize = 2;

/// The results of points.
#[derive(Debug, Default)]
struct Tally {
    /// By fault and call: how many calls were hit, and how many of these runs succeeded all the
    /// same.
    by_call: BTreeMap<(Blow, String), (u64, u64)>,
    /// Points that a run did not reach.
    missed: u64,
    settled: Settled,
    /// Messages of runs that gave up, with their counts.
    said: BTreeMap<String, u64>,
    failures: Vec<String>,
}

/// Checks how a disturbed run ended: killed, successfully, or with the code of a failed disk and a
/// message that names what and where.
fn ended_well(point: &Point, struck: &Struck) -> Result<(), String> {
    let Some(status) = struck.status else {
        return Err("still running after 20 s".to_owned());
    };
    if status.success() || (point.blow == Blow::Kill && status.signal() == Some(9)) {
        return Ok(());
    }
    let said = struck.stderr.lines().last().unwrap_or_default();
    // If a rule or halt file could not be looked at, entries are closed: an answer like any other.
    if status.code() == refused(&struck.stdout) {
        return Ok(());
    }
    // The standard library panics if closing a folder fails, which walkdir leaves to it.
    if point.call == "close" && struck.stderr.contains("unexpected error during closedir") {
        return Ok(());
    }
    // The same call writes to standard error.
    let is_mute = point.call == "write" && matches!(point.blow, Blow::FromThenOn(_));
    if is_mute && status.code() == Some(6) {
        return Ok(());
    }
    // The file that was named on the command line belongs to the caller.
    if status.code() == Some(2)
        && ["`r.json`", "`bars.csv`"]
            .iter()
            .any(|file| said.contains(file))
    {
        return Ok(());
    }
    if status.code() != Some(6) {
        return Err(format!("{status}: {}", struck.stderr));
    }
    let error: serde_json::Value = serde_json::from_str(said)
        .map_err(|error| format!("standard error ends in `{said}`: {error}"))?;
    let message = error["error"]["message"].as_str().unwrap_or_default();
    let names_it = ["`", "state.db", "keyring", "standard output", "sandbox"]
        .iter()
        .any(|place| message.contains(place));
    if !names_it || error["error"]["exit"] != 6 {
        return Err(format!("this tells nobody what failed where: {said}"));
    }
    Ok(())
}

/// Returns the exit code of the last answer that a command printed. `None` if it printed none.
fn refused(stdout: &[u8]) -> Option<i32> {
    let answer: Answer = serde_json::from_slice(answers_in(stdout).last()?).unwrap();
    Some(answer.exit() as i32)
}

/// Runs one point: the disturbed run, a check, the next run without a fault, and, for a command,
/// the command again.
fn one(script: &Script, dir: &Path, point: &Point) -> Result<(Struck, Settled), String> {
    let struck = strike(script, dir, point);
    ended_well(point, &struck)?;
    let home = dir.join("home");
    let mut seen = answers_in(&struck.stdout);
    check_now(&home, &script.dropped, &seen, Ended::Itself)?;
    let done = recover(dir).output().unwrap();
    if !done.status.success() {
        return Err(format!("the run after it: {}", show(&done)));
    }
    seen.extend(answers_in(&done.stdout));
    if script.is_repeated {
        let _ = std::fs::remove_file(dir.join("p.key"));
        let done = Command::new(PROGRAM)
            .args(&script.args)
            .current_dir(dir)
            .output()
            .unwrap();
        if !done.status.success() && done.status.code() != refused(&done.stdout) {
            return Err(format!("the same command again: {}", show(&done)));
        }
        seen.extend(answers_in(&done.stdout));
        // A gate must decide what it submitted.
        let done = recover(dir).output().unwrap();
        if !done.status.success() {
            return Err(format!(
                "the run after the same command again: {}",
                show(&done)
            ));
        }
    }
    for (seq, decision) in decisions(&home)? {
        if decision.metadata.code == Some(Code::SignatureInvalid)
            && !decision.file.contains("forged")
        {
            return Err(format!(
                "line {seq} calls a good request forged: {}",
                decision.file
            ));
        }
    }
    let settled = check_settled(&home, &script.dropped, &seen)?;
    Ok((struck, settled))
}

fn points(script: &Script, dir: &Path, blows: &[Blow], most: usize, seed: u64) -> Vec<Point> {
    let calls = calls(script, dir);
    let points: Vec<Point> = blows
        .iter()
        .flat_map(|blow| {
            calls.iter().flat_map(|(call, (first, last))| {
                // If no lock can be obtained any more, SQLite tries again for 5 s or 10 s.
                let is_slow = matches!(blow, Blow::FromThenOn(_)) && call == "fcntl";
                (*first..=*last)
                    .step_by(if is_slow { 15 } else { 1 })
                    .map(|nth| Point {
                        call: call.clone(),
                        nth,
                        blow: *blow,
                    })
            })
        })
        .collect();
    let every = points.len().div_ceil(most.max(1)).max(1);
    let skip = usize::try_from(seed).unwrap() % every;
    points.into_iter().skip(skip).step_by(every).collect()
}

fn try_all(scripts: &[(Script, Vec<Blow>)], most: usize, seed: u64) -> Tally {
    let shelf = crate::kit::folder();
    let mut work: Vec<(&Script, Point)> = Vec::new();
    let wanted = std::env::var("SPOOLGATE_SCRIPT").unwrap_or_default();
    for (script, blows) in scripts
        .iter()
        .filter(|(script, _)| script.name.contains(&wanted))
    {
        let points = points(script, &shelf.path().join("golden"), blows, most, seed);
        println!("{}: {} points", script.name, points.len());
        work.extend(points.into_iter().map(|point| (script, point)));
    }
    let tally = Mutex::new(Tally::default());
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for worker in 0..THREADS {
            let (dir, work, tally, next) = (
                shelf.path().join(format!("w{worker}")),
                &work,
                &tally,
                &next,
            );
            scope.spawn(move || {
                while let Some((script, point)) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = one(script, &dir, point);
                    tally.lock().unwrap().add(script, point, outcome);
                }
            });
        }
    });
    tally.into_inner().unwrap()
}

impl Tally {
    fn add(&mut self, script: &Script, point: &Point, outcome: Result<(Struck, Settled), String>) {
        let (struck, settled) = match outcome {
            Ok(outcome) => outcome,
            Err(why) => {
                let failure = format!("{}, {point}: {why}", script.name);
                println!("FAILED {failure}");
                return self.failures.push(failure);
            }
        };
        if struck.hit.is_none() {
            self.missed += 1;
            return;
        }
        let counts = self
            .by_call
            .entry((point.blow, point.call.clone()))
            .or_default();
        counts.0 += 1;
        if struck.status.is_some_and(|status| status.success()) {
            counts.1 += 1;
        } else if point.blow != Blow::Kill {
            let said = struck.stderr.lines().last().unwrap_or_default();
            let said: String = said
                .chars()
                .map(|c| if c.is_ascii_digit() { '0' } else { c })
                .collect();
            *self.said.entry(said).or_default() += 1;
        }
        self.settled.decisions += settled.decisions;
        self.settled.given_up += settled.given_up;
        self.settled.torn += settled.torn;
    }

    fn hit(&self, blow: Blow) -> u64 {
        self.by_call
            .iter()
            .filter(|((b, _), _)| *b == blow)
            .map(|(_, (hit, _))| hit)
            .sum()
    }

    fn print(&self) {
        for blow in Blow::ALL {
            let through: u64 = self
                .by_call
                .iter()
                .filter(|((b, _), _)| *b == blow)
                .map(|(_, (_, through))| through)
                .sum();
            let calls: Vec<String> = self
                .by_call
                .iter()
                .filter(|((b, _), _)| *b == blow)
                .map(|((_, call), (hit, through))| match blow {
                    Blow::Kill => format!("{call} {hit}"),
                    _ => format!("{call} {hit}({through})"),
                })
                .collect();
            println!(
                "{blow}: {} points, {through} came through: {}",
                self.hit(blow),
                calls.join(", ")
            );
        }
        println!(
            "{} points were not reached; after recovery: {:?}",
            self.missed, self.settled
        );
    }

    #[track_caller]
    fn demand(&self) {
        let shown: Vec<&String> = self.failures.iter().take(20).collect();
        assert!(
            self.failures.is_empty(),
            "{} points failed: {shown:#?}",
            self.failures.len()
        );
    }
}

/// Whether nothing can be tried here; prints the reason.
fn skipped() -> bool {
    let why = missing();
    why.iter().for_each(|why| eprintln!("skipped: {why}"));
    why.is_some()
}

#[test]
fn a_sample_of_calls() {
    if skipped() {
        return;
    }
    let seed = setting("SPOOLGATE_SEED", 1);
    let most = usize::try_from(setting("SPOOLGATE_POINTS", 12)).unwrap();
    let base = Base::new();
    let all = Blow::ALL.to_vec();
    let scripts = vec![
        (Script::run(&base, seed), all.clone()),
        (Script::handle(&base), all.clone()),
        (Script::run_after_a_torn_batch(&base, seed), all.clone()),
        (Script::run_after_publishing(&base, seed), vec![Blow::Kill]),
        (Script::import(&base), all.clone()),
        (Script::keys_add(&base), all),
    ];
    let tally = try_all(&scripts, most, seed);
    println!("SPOOLGATE_SEED={seed} SPOOLGATE_POINTS={most}");
    tally.print();
    tally.demand();
    let hit: u64 = tally.by_call.values().map(|(hit, _)| hit).sum();
    assert!(
        hit * 10 >= (hit + tally.missed) * 9,
        "{} points were not reached, {hit} were",
        tally.missed
    );
}

// A keyring that could not be read counted as empty, so good requests were refused as forged, for
// good.
#[test]
fn an_unreadable_keyring_makes_no_request_forged() {
    if skipped() {
        return;
    }
    let (base, shelf) = (Base::new(), crate::kit::folder());
    let script = Script::run(&base, 1);
    let dir = shelf.path().join("w");
    let mut tried = 0;
    for call in ["pread64", "fcntl"] {
        for nth in calls_on(&script, &dir, call, "keyring.db") {
            let point = Point {
                call: call.to_owned(),
                nth,
                blow: Blow::Once("EIO"),
            };
            one(&script, &dir, &point).unwrap_or_else(|why| panic!("{point}: {why}"));
            tried += 1;
        }
    }
    assert!(tried > 8, "only {tried} calls on the keyring");
}

#[test]
#[ignore = "takes many minutes: every call of every script"]
fn every_call() {
    if skipped() {
        return;
    }
    let seed = setting("SPOOLGATE_SEED", 1);
    let most = usize::try_from(setting("SPOOLGATE_POINTS", u64::from(u32::MAX))).unwrap();
    let began = Instant::now();
    let base = Base::new();
    let all = Blow::ALL.to_vec();
    let scripts = vec![
        (Script::run(&base, 0), all.clone()),
        (Script::run(&base, seed), vec![Blow::Kill]),
        (Script::run(&base, seed + 1), vec![Blow::Kill]),
        (Script::handle(&base), all.clone()),
        (Script::run_after_publishing(&base, seed), vec![Blow::Kill]),
        (Script::run_after_a_torn_batch(&base, seed), all.clone()),
        (
            Script::run_after_a_torn_batch(&base, seed + 1),
            vec![Blow::Kill],
        ),
        (
            Script::handle_after_a_torn_batch(&base, seed),
            vec![Blow::Kill],
        ),
        (Script::import(&base), all.clone()),
        (Script::halt(&base), vec![Blow::Kill]),
        (Script::keys_add(&base), all.clone()),
        (Script::submit(&base), all.clone()),
        (Script::rebuild(&base), all),
    ];
    let tally = try_all(&scripts, most, seed);
    tally.print();
    for (said, times) in &tally.said {
        println!("{times:>6}  {said}");
    }
    println!(
        "SPOOLGATE_SEED={seed}, {:.0} s",
        began.elapsed().as_secs_f32()
    );
    tally.demand();
}
