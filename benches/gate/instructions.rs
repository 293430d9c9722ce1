//! Instructions and system calls of a request: numbers that other work on the machine changes
//! little.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::Bench;
use crate::child::{self, PROGRAM};
use crate::figures::{Figure, Report, Unit};
use crate::homes::{self, Place};
use crate::requests::Fate;

/// Requests of such a run: valgrind is slow.
const REQUESTS: usize = 512;

/// A copy of the home with so many requests in its spool.
fn prepared(bench: &Bench<'_>, place: &Place, n: usize) -> Result<std::path::PathBuf> {
    let home = bench.scratch.join("counted");
    if home.exists() {
        fs::remove_dir_all(&home)?;
    }
    homes::copy(&place.home, &home)?;
    homes::drop_into(&home, &place.agent.backlog("i", n)?)?;
    Ok(home)
}

/// Runs the gate under a tool, and demands that everything was decided.
fn run_under(bench: &Bench<'_>, place: &Place, tool: &[&str], n: usize) -> Result<String> {
    let home = prepared(bench, place, n)?;
    let (tool, arguments) = tool.split_first().context("no tool")?;
    let done = Command::new(tool)
        .args(arguments)
        .args([PROGRAM, "--home"])
        .arg(&home)
        .args(["run", "--until-idle"])
        .output()?;
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    ensure!(done.status.success(), "{tool}: {}: {said}", done.status);
    homes::check(&home, n, Fate::accepted(n))?;
    Ok(said)
}

/// What perf counted: `<count>,,instructions:u,…` a line.
fn counted_by_perf(said: &str) -> Option<f64> {
    let counts: Vec<f64> = said
        .lines()
        .filter(|line| line.contains("instructions"))
        .map(|line| line.split(',').next()?.parse().ok())
        .collect::<Option<_>>()?;
    (!counts.is_empty()).then(|| counts.iter().sum())
}

/// What callgrind counted: `==<pid>== Collected : <count>`.
fn counted_by_valgrind(said: &str) -> Option<f64> {
    said.lines()
        .find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok())
}

const PERF: [&str; 5] = ["perf", "stat", "-x,", "-e", "instructions"];
const VALGRIND: [&str; 4] = [
    "valgrind",
    "--tool=callgrind",
    "--callgrind-out-file=/dev/null",
    "--error-exitcode=0",
];

/// A tool that counts instructions.
struct Counter {
    tool: &'static [&'static str],
    read: fn(&str) -> Option<f64>,
    what: &'static str,
}

/// The one that works here.
fn counter() -> Option<Counter> {
    let tried = Command::new("perf")
        .args(["stat", "-x,", "-e", "instructions", "true"])
        .output();
    if tried.is_ok_and(|done| counted_by_perf(&String::from_utf8_lossy(&done.stderr)).is_some()) {
        return Some(Counter {
            tool: &PERF,
            read: counted_by_perf,
            what: "perf stat, user and kernel",
        });
    }
    let what = "valgrind, user only, without the SHA instructions of the processor, which it does \
        not know";
    let valgrind = Counter {
        tool: &VALGRIND,
        read: counted_by_valgrind,
        what,
    };
    child::has("valgrind", "--version").then_some(valgrind)
}

/// The calls of a table of `strace -c`, most frequent first, and their sum.
fn calls(table: &str) -> Vec<(String, f64)> {
    let mut found: Vec<(String, f64)> = table
        .lines()
        .filter_map(|line| {
            let cells: Vec<&str> = line.split_whitespace().collect();
            let share: f64 = cells.first()?.parse().ok()?;
            let count: f64 = cells.get(3)?.parse().ok()?;
            let name = cells.last()?;
            (share >= 0.0 && *name != "total").then(|| ((*name).to_owned(), count))
        })
        .collect();
    found.sort_by(|a, b| b.1.total_cmp(&a.1));
    found
}

fn traced(bench: &Bench<'_>, place: &Place, table: &Path, n: usize) -> Result<Vec<(String, f64)>> {
    let named = table.display().to_string();
    run_under(bench, place, &["strace", "-f", "-c", "-o", &named], n)?;
    Ok(calls(&fs::read_to_string(table)?))
}

/// Counts what one request adds: a run over many, less a run over none.
pub(crate) fn measure(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let n = if bench.args.quick { 64 } else { REQUESTS };
    let place = homes::new(&bench.scratch.join("counted-template"))?;
    let mut figures = Vec::new();
    match counter() {
        Some(Counter { tool, read, what }) => {
            bench.args.say(&format!("instructions: {}", tool[0]));
            let run = |n| {
                let said = run_under(bench, &place, tool, n)?;
                read(&said).with_context(|| format!("{} counted nothing: {said}", tool[0]))
            };
            let each = (run(n)? - run(0)?) / n as f64;
            figures.push(Figure::alone(
                "instructions a request",
                Unit::Count,
                &[each],
            ));
            report.note(format!("instructions: counted by {what}"));
        }
        None => report
            .note("instructions: skipped: neither perf's counters nor valgrind are to be had here"),
    }
    if child::has("strace", "-V") {
        bench.args.say("instructions: strace");
        let table = bench.scratch.join("calls");
        let (many, none) = (
            traced(bench, &place, &table, n)?,
            traced(bench, &place, &table, 0)?,
        );
        let base = |name: &str| {
            none.iter()
                .find(|(other, _)| other == name)
                .map_or(0.0, |(_, count)| *count)
        };
        let each: Vec<(String, f64)> = many
            .iter()
            .map(|(name, count)| (name.clone(), (count - base(name)) / n as f64))
            .collect();
        let sum = each.iter().map(|(_, count)| count).sum::<f64>();
        figures.push(Figure::alone("system calls a request", Unit::Count, &[sum]));
        let most = each
            .iter()
            .take(12)
            .map(|(name, count)| format!("{name} {count:.2}"));
        report.note(format!(
            "system calls a request, where the bare loop makes 10: {}",
            most.collect::<Vec<_>>().join(", ")
        ));
    } else {
        report.note("system calls: skipped: there is no strace on this machine");
    }
    report.note(format!(
        "instructions and calls: runs over {n} requests less a run over none; lines, answers and \
        ledger checked"
    ));
    report.section("Counted", figures);
    Ok(())
}
