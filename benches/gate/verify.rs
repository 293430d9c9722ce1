//! `audit verify`, with and without the root, beside plain SHA-256 of the same bytes, by openssl,
//! by coreutils and by the crate that the gate uses.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use sha2::{Digest, Sha256};

use crate::Bench;
use crate::child::{self, PROGRAM};
use crate::figures::{Figure, Goal, Report, Unit};
use crate::homes::{self, Fill};

/// Seconds of hashing files by the crate, without openssl's process.
fn crate_seconds(files: &[PathBuf]) -> Result<f64> {
    let started = Instant::now();
    let mut buffer = vec![0; 1024 * 1024];
    for path in files {
        let mut file = File::open(path)?;
        let mut hash = Sha256::new();
        loop {
            let got = file.read(&mut buffer)?;
            if got == 0 {
                break;
            }
            hash.update(buffer.get(..got).context("what was read")?);
        }
        std::hint::black_box(hash.finalize());
    }
    Ok(started.elapsed().as_secs_f64())
}

/// How the gate is limited to this number of threads: by its own option, or by the cores it may
/// use.
enum Threads {
    Option,
    Cores,
    All,
}

fn threads() -> Result<Threads> {
    let help = std::process::Command::new(PROGRAM)
        .args(["audit", "verify", "--help"])
        .output()?;
    if String::from_utf8_lossy(&help.stdout).contains("--threads") {
        return Ok(Threads::Option);
    }
    Ok(if child::has("taskset", "--version") {
        Threads::Cores
    } else {
        Threads::All
    })
}

/// What is verified: everything, or the links alone.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    Root,
    Chain,
}

fn command(how: &Threads, audit: &Path, count: usize, depth: Depth) -> (String, Vec<String>) {
    let chain = (depth == Depth::Chain).then_some("--chain");
    let audit = audit.display().to_string();
    let verify = ["audit", "verify", &audit]
        .into_iter()
        .chain(chain)
        .map(str::to_owned);
    match how {
        Threads::Option => (
            PROGRAM.to_owned(),
            verify
                .chain(["--threads".to_owned(), count.to_string()])
                .collect(),
        ),
        Threads::Cores => {
            let cores = if count == 1 {
                "0".to_owned()
            } else {
                format!("0-{}", count - 1)
            };
            let taskset = ["-c".to_owned(), cores, PROGRAM.to_owned()];
            (
                "taskset".to_owned(),
                taskset.into_iter().chain(verify).collect(),
            )
        }
        Threads::All => (PROGRAM.to_owned(), verify.collect()),
    }
}

/// Seconds that a command needs for hashing the files.
fn command_seconds(program: &str, arguments: &[&str], files: &[PathBuf]) -> Result<f64> {
    let started = Instant::now();
    let status = std::process::Command::new(program)
        .args(arguments)
        .args(files)
        .stdout(Stdio::null())
        .status()?;
    ensure!(status.success(), "{program} ended with {status}");
    Ok(started.elapsed().as_secs_f64())
}

/// Verifies and hashes by turns.
pub(crate) fn measure(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let say = |text: &str| bench.args.say(text);
    let place = homes::filled(
        &bench.args.kept_homes(),
        Fill::Bytes(bench.args.ledger_bytes()),
        &say,
    )?;
    let files = homes::segments(&place.home)?;
    let bytes = homes::log_bytes(&place.home)? as f64;
    let audit = place.home.join("audit");
    // All of them read the page cache, not the disk.
    crate_seconds(&files)?;
    let how = threads()?;
    let has_openssl = child::has("openssl", "version");
    let has_coreutils = child::has("sha256sum", "--version");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let counts: Vec<usize> = match how {
        Threads::All => vec![cores],
        _ => [1, 2].into_iter().filter(|count| *count <= cores).collect(),
    };
    let runs: Vec<(usize, Depth)> = counts
        .iter()
        .flat_map(|count| [Depth::Root, Depth::Chain].map(|depth| (*count, depth)))
        .collect();
    let rate = |seconds: f64| bytes / 1e6 / seconds;
    let mut ours = vec![Vec::new(); runs.len()];
    let mut peaks = vec![0.0_f64; runs.len()];
    let (mut openssl, mut coreutils, mut of_crate) = (Vec::new(), Vec::new(), Vec::new());
    for round in 1..=bench.args.rounds() {
        bench.args.say(&format!("verify: round {round}"));
        if has_openssl {
            openssl.push(rate(command_seconds(
                "openssl",
                &["dgst", "-sha256"],
                &files,
            )?));
        }
        if has_coreutils {
            coreutils.push(rate(command_seconds("sha256sum", &[], &files)?));
        }
        of_crate.push(rate(crate_seconds(&files)?));
        for (at, (count, depth)) in runs.iter().enumerate() {
            let (program, arguments) = command(&how, &audit, *count, *depth);
            // It ends with success only if everything verifies.
            let usage = child::measured(bench.scratch, &program, &arguments)?;
            ours[at].push(rate(usage.wall));
            peaks[at] = peaks[at].max(usage.peak_mib);
        }
    }
    let mut figures = Vec::new();
    for (((count, depth), ours), peak) in runs.iter().zip(&ours).zip(&peaks) {
        let mib = bytes / 1024.0 / 1024.0;
        let what = if *depth == Depth::Root {
            "audit verify"
        } else {
            "audit verify --chain"
        };
        let alone = Figure::alone(
            format!("{what}, {mib:.0} MiB, threads {count}"),
            Unit::MegabytesPerSecond,
            ours,
        );
        if has_openssl {
            let beside = alone.clone().beside("openssl dgst -sha256", ours, &openssl);
            let goal = *count == 2 && *depth == Depth::Root;
            figures.push(if goal {
                beside.aim(Goal::AtLeast(1.5))
            } else {
                beside
            });
        }
        if has_coreutils {
            figures.push(alone.clone().beside("sha256sum", ours, &coreutils));
        }
        figures.push(alone.beside("the sha2 crate", ours, &of_crate));
        figures.push(Figure::alone(
            format!("its peak memory, threads {count}"),
            Unit::Mebibytes,
            &[*peak],
        ));
    }
    for (missing, what) in [(!has_openssl, "openssl"), (!has_coreutils, "sha256sum")] {
        if missing {
            report.note(format!("verify: skipped {what}: it is not on this machine"));
        }
    }
    report.note(match how {
        Threads::Option => {
            "verify: every run said that all lines, seals and the root hold; threads by --threads"
        }
        Threads::Cores => {
            "verify: every run said that all lines, seals and the root hold; threads by the cores \
                it was given"
        }
        Threads::All => {
            "verify: every run said that all lines, seals and the root hold; skipped fewer \
                threads: no taskset here"
        }
    });
    report.section("The whole ledger verified", figures);
    Ok(())
}
