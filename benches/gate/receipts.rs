//! Receipts in a large log: the first one, which hashes every line, and those after it, out of the
//! cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use ed25519_dalek::SigningKey;
use sha2::{Digest, Sha256};
use spoolgate_gate::record::{Genesis, Record};
use spoolgate_host::real_disk::RealDisk;
use spoolgate_ledger::Ledger;
use spoolgate_ledger::disk::{Access, Disk, read_exact_at};
use spoolgate_ledger::leaves::FILES;
use spoolgate_ledger::log::LogSigner;
use spoolgate_ledger::note::SignerKey;
use spoolgate_ledger::prove::{Head, Prover};
use spoolgate_wire::signing::hex;
use spoolgate_wire::time::Time;

use crate::Bench;
use crate::child::{self, PROGRAM};
use crate::figures::{Figure, Goal, Report, Unit};
use crate::homes::{self, FastDisk};

const ORIGIN: &str = "spoolgate.invalid/receipts";

/// Lines of a batch, without its seal.
const BATCH: u64 = 255;

/// Receipts of one round.
const PROOFS: u64 = 200;

fn signer() -> Result<LogSigner> {
    let log = SignerKey::from_seed(ORIGIN, &[1; 32])?;
    Ok(LogSigner {
        origin: ORIGIN.to_owned(),
        log,
        seal: SigningKey::from_bytes(&[2; 32]),
    })
}

/// A log of so many lines, about as long as those of small requests, from an earlier run or made
/// now without waiting for the disk.
fn filled(kept: &Path, lines: u64, say: &dyn Fn(&str)) -> Result<PathBuf> {
    let dir = kept.join(format!("v{}-log-{lines}", env!("CARGO_PKG_VERSION")));
    if dir.join("complete").is_file() {
        return Ok(dir);
    }
    if dir.exists() {
        fs::remove_dir_all(&dir)?;
    }
    fs::create_dir_all(dir.join("audit"))?;
    let disk = Arc::new(FastDisk::over(Arc::new(RealDisk::open(&dir)?)));
    let signer = signer()?;
    let genesis = Record::Genesis(Genesis {
        timestamp: Time::parse("2026-03-02T12:00:00Z")
            .map_err(|error| anyhow::anyhow!("{error}"))?,
        format: 1,
        origin: ORIGIN.to_owned(),
        log_key: signer.verifier().to_string(),
        seal_key: hex(signer.seal.verifying_key().as_bytes()),
        nonce: hex(&[3; 32]),
        rulebook: "0".repeat(64),
        program: "0".to_owned(),
        semantics: 1,
        changes: Vec::new(),
    });
    let first = genesis.body().map_err(anyhow::Error::msg)?;
    let mut ledger = Ledger::create(disk, signer, &[(genesis.kind(), first)])?;
    let text = "a line as long as many are; ".repeat(16);
    while ledger.position().seq < lines {
        ledger.make_room(16 << 20)?;
        let from = ledger.position().seq;
        let bodies: Vec<_> = (from..from + BATCH)
            .map(|n| ("stop", format!(r#"{{"note":"{n} {text}"}}"#)))
            .collect();
        ledger.append(&bodies)?;
        if ledger.position().batch.is_multiple_of(1000) {
            say(&format!("filling a log, kept for later runs: {from} lines"));
        }
    }
    ledger.publish_head()?;
    rustix::fs::syncfs(fs::File::open(&dir)?)?;
    fs::write(dir.join("complete"), "")?;
    Ok(dir)
}

/// Seconds of hashing the files by the crate, byte by byte as they stand.
fn bare_hashing(files: &[PathBuf]) -> Result<f64> {
    let started = Instant::now();
    for path in files {
        std::hint::black_box(Sha256::digest(fs::read(path)?));
    }
    Ok(started.elapsed().as_secs_f64())
}

/// Numbers that look random, the same in every run.
fn dice(below: u64) -> impl FnMut() -> u64 {
    let mut state = 1_u64;
    move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    }
}

/// Milliseconds of one receipt, everything opened anew for each.
fn warm(disk: &dyn Disk, size: u64) -> Result<f64> {
    let mut roll = dice(size);
    let started = Instant::now();
    for _ in 0..PROOFS {
        let prover = Prover::open(disk, Path::new("audit"))?;
        let head: Head = prover.newest()?;
        let receipt = prover.receipt(roll(), &head)?;
        ensure!(
            receipt.path.len() < 64,
            "a path of {} hashes",
            receipt.path.len()
        );
    }
    Ok(started.elapsed().as_secs_f64() * 1000.0 / PROOFS as f64)
}

/// Milliseconds of reading as many hashes as a receipt needs out of the same files, and no more.
fn bare_reading(disk: &dyn Disk, size: u64) -> Result<f64> {
    let mut roll = dice(size);
    let started = Instant::now();
    for _ in 0..PROOFS {
        let mut place = roll();
        for name in FILES {
            let Ok(file) = disk.open_log(&Path::new("audit").join(name), Access::Read) else {
                break;
            };
            let (length, group) = (file.len()?, 256 * 32);
            let from = (place / 256 * group).min(length.saturating_sub(group));
            let bytes = read_exact_at(file.as_ref(), from, usize::try_from(group.min(length))?)?;
            std::hint::black_box(bytes);
            place /= 256;
        }
    }
    Ok(started.elapsed().as_secs_f64() * 1000.0 / PROOFS as f64)
}

/// Milliseconds of the command, start and end of the process included.
fn command(dir: &Path, seq: u64, arguments: &[&str]) -> Result<f64> {
    let started = Instant::now();
    let mut child = std::process::Command::new(PROGRAM);
    child
        .arg("--home")
        .arg(dir)
        .args(arguments)
        .stdout(Stdio::null());
    ensure!(child.status()?.success(), "line {seq}: {arguments:?}");
    Ok(started.elapsed().as_secs_f64() * 1000.0)
}

/// Measures the first receipt and later ones.
pub(crate) fn measure(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let say = |text: &str| bench.args.say(text);
    let lines = bench.args.receipt_lines();
    let dir = filled(&bench.args.kept_homes(), lines, &say)?;
    let disk = RealDisk::open(&dir)?;
    let files = homes::segments(&dir)?;
    bare_hashing(&files)?;
    let size = Prover::open(&disk, Path::new("audit"))?
        .newest()?
        .checkpoint
        .size;
    let (mut cold, mut hashing, mut proofs, mut reading, mut started, mut bare) = (
        Vec::new(),
        Vec::new(),
        Vec::new(),
        Vec::new(),
        Vec::new(),
        Vec::new(),
    );
    let mut peak = Vec::new();
    for round in 0..bench.args.rounds() as u64 {
        for name in FILES {
            let path = dir.join("audit").join(name);
            if path.exists() {
                fs::remove_file(path)?;
            }
        }
        hashing.push(bare_hashing(&files)? * 1000.0);
        let seq = (size / 3 + round).to_string();
        let home = dir.display().to_string();
        let arguments = ["--home", &home, "audit", "prove", &seq].map(str::to_owned);
        let usage = child::measured(bench.scratch, PROGRAM, &arguments)?;
        cold.push(usage.wall * 1000.0);
        peak.push(usage.peak_mib);
        reading.push(bare_reading(&disk, size)?);
        proofs.push(warm(&disk, size)?);
        bare.push(command(&dir, 0, &["--version"])?);
        started.push(command(
            &dir,
            size / 2,
            &["audit", "prove", &(size / 2).to_string()],
        )?);
    }
    let leaves = fs::metadata(dir.join("audit").join(FILES[0]))
        .context("the cache that the first one made")?;
    let named = |what: &str| format!("{what}, {size} lines");
    let figures = vec![
        Figure::alone(
            named("receipt, in a running program"),
            Unit::Milliseconds,
            &proofs,
        )
        .beside("reading as many hashes", &proofs, &reading),
        Figure::alone(
            named("audit prove, cache there"),
            Unit::Milliseconds,
            &started,
        )
        .beside("starting and ending", &started, &bare),
        Figure::alone(
            named("audit prove, cache there, alone"),
            Unit::Milliseconds,
            &started,
        )
        .aim(Goal::AtMost(100.0)),
        Figure::alone(
            named("the first audit prove, no cache"),
            Unit::Milliseconds,
            &cold,
        )
        .beside("hashing the same files by the crate", &cold, &hashing),
        Figure::alone(named("its peak memory"), Unit::Mebibytes, &peak),
        Figure::alone(
            named("bytes of the cache of leaves"),
            Unit::Mebibytes,
            &[leaves.len() as f64 / 1024.0 / 1024.0],
        ),
    ];
    report.section("Receipts of a large log", figures);
    report.note(
        "receipts: every one was checked against the signed checkpoint before it was given out",
    );
    Ok(())
}
