//! A backlog drained by `run --until-idle`, durable, beside the bare loop.

use std::fs;

use anyhow::{Result, ensure};

use crate::Bench;
use crate::bare::{LIMIT, Loop, Sizes};
use crate::child::{self, PROGRAM};
use crate::figures::{Figure, Goal, Report, Unit, number};
use crate::homes::{self, Drained};
use crate::requests::{Fate, MIX};

/// What the loop is called in the report.
const LOOP: &str = "bare loop, 600/800/700 B";
/// The batch that the goal is about.
const GOAL_BATCH: usize = 256;

/// Drains backlogs at every batch size.
pub(crate) fn measure(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let template = homes::new(&bench.scratch.join("template"))?;
    let mut figures = Vec::new();
    let mut last = Drained::default();
    for batch in &bench.args.batches {
        let (batch, n) = (*batch, bench.args.requests(*batch));
        let requests = template.agent.backlog("d", n)?;
        let mean = requests.iter().map(|sent| sent.bytes.len()).sum::<usize>() / n.max(1);
        let (mut ours, mut peer, mut as_large) = (Vec::new(), Vec::new(), Vec::new());
        let (mut cpu, mut bare_cpu, mut peak) = (Vec::new(), Vec::new(), Vec::new());
        for round in 1..=bench.args.rounds() {
            bench.args.say(&format!(
                "drain: {n} requests at batch {batch}, round {round}"
            ));
            let (wall, processor) = bare(bench, n, batch, LIMIT)?;
            peer.push(n as f64 / wall);
            bare_cpu.push(processor * 1e6 / n as f64);
            let home = bench.scratch.join("home");
            homes::copy(&template.home, &home)?;
            homes::drop_into(&home, &requests)?;
            rustix::fs::syncfs(fs::File::open(&home)?)?;
            let named = home.display().to_string();
            let size = batch.to_string();
            let run = ["--home", &named, "run", "--until-idle", "--batch", &size];
            let usage = child::measured(bench.scratch, PROGRAM, &run)?;
            last = homes::check(&home, n, Fate::accepted(n))?;
            fs::remove_dir_all(&home)?;
            ours.push(n as f64 / usage.wall);
            cpu.push(usage.cpu * 1e6 / n as f64);
            peak.push(usage.peak_mib);
            let sizes = Sizes {
                request: mean,
                record: last.line_bytes / n,
                answer: last.answer_bytes / n,
            };
            as_large.push(n as f64 / bare(bench, n, batch, sizes)?.0);
        }
        let figure = Figure::alone(
            format!("drain {n} at batch {batch}"),
            Unit::PerSecond,
            &ours,
        )
        .beside(LOOP, &ours, &peer);
        figures.push(if batch == GOAL_BATCH {
            figure.aim(Goal::AtLeast(0.8))
        } else {
            figure
        });
        let sizes = format!(
            "bare loop, {mean}/{}/{} B",
            last.line_bytes / n,
            last.answer_bytes / n
        );
        let what = format!("the same beside files as large as the gate's, batch {batch}");
        figures.push(Figure::alone(what, Unit::PerSecond, &ours).beside(&sizes, &ours, &as_large));
        figures.push(
            Figure::alone(
                format!("processor time a request, batch {batch}"),
                Unit::Microseconds,
                &cpu,
            )
            .beside(LOOP, &cpu, &bare_cpu),
        );
        figures.push(
            Figure::alone(
                format!("peak memory, batch {batch}"),
                Unit::Mebibytes,
                &peak,
            )
            .aim(Goal::AtMost(64.0)),
        );
        report.note(format!(
            "drain at batch {batch}: each of {} runs left {n} decision lines, {n} answers and \
                nothing else, under {} seals ({} requests a sync), and `audit verify` said yes",
            ours.len(),
            last.seals,
            number(n as f64 / last.seals.max(1) as f64)
        ));
    }
    report.note(format!(
        "drain: {MIX}; every order has {} rows of checks",
        last.checks
    ));
    report.section("A backlog, drained", figures);
    Ok(())
}

/// Seconds and processor seconds of the bare loop over as many requests.
fn bare(bench: &Bench<'_>, n: usize, group: usize, sizes: Sizes) -> Result<(f64, f64)> {
    let root = bench.scratch.join("bare");
    let bare = Loop::new(&root, sizes)?;
    let took = bare.drain(n, group)?;
    let (answers, left) = bare.counted()?;
    ensure!(
        (answers, left) == (n, 0),
        "the bare loop left {answers} answers and {left} requests of {n}"
    );
    fs::remove_dir_all(&root)?;
    Ok(took)
}
