//! `handle FILE` as a command of its own, on a small and a large home, beside a command that does
//! no more than start, parse its command line and append durably.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Result, ensure};

use crate::Bench;
use crate::child::{self, PROGRAM};
use crate::figures::{Figure, Goal, Report, Unit, number, quantile, sorted};
use crate::homes::{self, Fill, Place};
use crate::requests::Fate;
use crate::watch;

/// What the command is called in the report.
const APPEND: &str = "a command that appends once, durably";
/// Lines of the small home, unless that is more than the large one has.
const SMALL: u64 = 1000;

/// Milliseconds of a command, and the code it ended with.
fn timed(command: &mut Command) -> Result<(f64, Option<i32>)> {
    let command = command.stdout(Stdio::null()).stderr(Stdio::null());
    let started = Instant::now();
    let status = command.status()?;
    Ok((started.elapsed().as_secs_f64() * 1e3, status.code()))
}

/// Lines of a home by its newest checkpoint.
fn size(home: &Path) -> Result<u64> {
    let text = fs::read_to_string(home.join("audit/checkpoint"))?;
    Ok(text.lines().nth(1).unwrap_or_default().parse()?)
}

/// Milliseconds of each run of the commands: on the small home, on the large home, of the peer.
type Taken = [Vec<f64>; 3];

/// Runs the commands by turns.
pub(crate) fn measure(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let say = |text: &str| bench.args.say(text);
    let kept = bench.args.kept_homes();
    let started = Instant::now();
    let large = homes::filled(&kept, Fill::Lines(bench.args.lines()), &say)?;
    let making = started.elapsed().as_secs();
    let small = homes::filled(&kept, Fill::Lines(SMALL.min(bench.args.lines())), &say)?;
    // Ids are used once per home, and large homes are kept.
    let run = std::time::UNIX_EPOCH.elapsed()?.as_millis();
    let before = [size(&small.home)?, size(&large.home)?];
    let taken = by_turns(bench, [&small, &large], run)?;
    let after = [size(&small.home)?, size(&large.home)?];
    let asked = u64::try_from(bench.args.starts())? + 1;
    for (before, after) in before.iter().zip(after) {
        let lines = after - before;
        ensure!(lines >= 2 * asked, "{asked} commands left {lines} lines");
    }
    let mut figures = durations(&taken, before);
    figures.extend(memory(bench, &large, run, before[1])?);
    report.note(format!(
        "oneshot: {} commands on each home, each with an answer and its lines in the ledger \
         ({making} s went into the large home, {} MiB, unless an earlier run had made it)",
        bench.args.starts(),
        homes::log_bytes(&large.home)? / 1024 / 1024
    ));
    report.section("One command", figures);
    Ok(())
}

fn by_turns(bench: &Bench<'_>, places: [&Place; 2], run: u128) -> Result<Taken> {
    let file = bench.scratch.join("request.json");
    let log = bench.scratch.join("appended");
    let starts = bench.args.starts();
    let mut taken = Taken::default();
    for n in 0..=starts {
        bench.args.say(&format!("oneshot: {n} of {starts}"));
        let mut once = [0.0; 3];
        for (at, place) in places.iter().enumerate() {
            write_request(place, &file, &format!("one-{run}-{n}"), n)?;
            if at == 0 {
                let (ms, code) = timed(&mut child::bare_append(&log, &file)?)?;
                ensure!(code == Some(0), "the bare command ended with {code:?}");
                once[2] = ms;
            }
            let named = file.display().to_string();
            let (ms, code) = timed(&mut child::gate(&place.home, &["handle", &named]))?;
            // Refused, as it should be.
            ensure!(code == Some(1), "handle ended with {code:?}");
            once[at] = ms;
        }
        // The first of each warms the page cache and does not count.
        if n > 0 {
            taken
                .iter_mut()
                .zip(once)
                .for_each(|(all, ms)| all.push(ms));
        }
    }
    Ok(taken)
}

/// The durations on both homes, which have this many lines, beside the peer's.
fn durations(taken: &Taken, lines: [u64; 2]) -> Vec<Figure> {
    let mut figures = Vec::new();
    let [small, large, bare] = taken.each_ref().map(|all| sorted(all));
    for (ours, lines) in [(&small, lines[0]), (&large, lines[1])] {
        for (name, share) in [("p50", 0.5), ("p90", 0.9)] {
            let (ours, bare) = ([quantile(ours, share)], [quantile(&bare, share)]);
            let lines = number(lines as f64);
            let what = format!("handle, {name}, {lines} lines in the ledger");
            let mut alone = Figure::alone(what, Unit::Milliseconds, &ours);
            if name == "p50" {
                alone = alone.aim(Goal::AtMost(3.0));
            }
            figures.push(alone.beside(APPEND, &ours, &bare));
        }
    }
    let [small, large] = [small, large].map(|all| [quantile(&all, 0.5)]);
    let what = "the large home beside the small one, p50";
    let alone = Figure::alone(what, Unit::Milliseconds, &large);
    figures.push(alone.beside("the small home", &large, &small));
    figures
}

/// The peak memory of a command and of a watcher on the large home.
fn memory(bench: &Bench<'_>, large: &Place, run: u128, lines: u64) -> Result<[Figure; 2]> {
    let home = large.home.display().to_string();
    let arguments = ["--home", &home, "audit", "tail", "-n", "1"].map(str::to_owned);
    let usage = child::measured(bench.scratch, PROGRAM, &arguments)?;
    let what = "peak memory of `audit tail` on the large home";
    let tail = Figure::alone(what, Unit::Mebibytes, &[usage.peak_mib]);
    let asked = large
        .agent
        .order(&format!("watched-{run}"), 1, Fate::StopTooFar)?;
    let peak = watch::peak_over(&large.home, &asked)?;
    let lines = number(lines as f64);
    let what = format!("peak memory of a watcher, {lines} lines in the ledger");
    let watcher = Figure::alone(what, Unit::Mebibytes, &[peak]).aim(Goal::AtMost(64.0));
    Ok([tail, watcher])
}

fn write_request(place: &Place, file: &Path, id: &str, n: usize) -> Result<()> {
    let sent = place.agent.order(id, n, Fate::StopTooFar)?;
    Ok(fs::write(file, sent.bytes)?)
}
