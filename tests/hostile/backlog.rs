//! A large backlog drains in batches, in memory that does not grow with it.

use std::fs;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use spoolgate::home::{Seams, layout};
use spoolgate::host::clock::{Clock, SystemClock};
use spoolgate::host::entropy::SeededEntropy;
use spoolgate::host::keyring::SqliteKeyring;
use spoolgate::host::real_disk::RealDisk;
use spoolgate::spool::scan::BATCH_ENTRIES_MAX;
use spoolgate::wire::code::Code;
use spoolgate::wire::ids::Principal;
use spoolgate::wire::signing::{SignKey, signing_string};

use crate::world::{World, code_of};

/// Half forged signatures, half good queries.
fn fill(count: usize, timestamp: &str, source: &str, key: &SignKey, mut put: impl FnMut(&str, &str)) {
    for n in 0..count {
        let id = format!("q{n:06}");
        let signature = match n % 2 {
            0 => key.sign(&signing_string(&id, timestamp, "orders.list", "{}")),
            _ => "0".repeat(64),
        };
        let text = format!(
            r#"{{"id":"{id}","timestamp":"{timestamp}","action":"orders.list","payload":{{}},"source":"{source}","signature":"{signature}"}}"#
        );
        put(&format!("{id}.json"), &text);
    }
}

#[test]
fn a_backlog_of_5_000_files() {
    let world = World::new(21);
    let mut home = world.open();
    let key = SignKey::Hmac(world.keys["trend-bot"].1);
    let now = world.now().to_string();
    fill(5000, &now, "trend-bot", &key, |name, text| world.drop_file("", name, text));
    let (mut good, mut forged) = (0, 0);
    loop {
        let round = home.round(false).unwrap();
        assert!(round.outcomes.len() <= BATCH_ENTRIES_MAX);
        for outcome in &round.outcomes {
            match code_of(outcome) {
                None => good += 1,
                Some(code) => {
                    assert_eq!(code, Code::SignatureInvalid);
                    forged += 1;
                }
            }
            assert!(world.root.join("spool").join(&outcome.decision.answer).is_file());
        }
        if !round.more {
            break;
        }
    }
    assert_eq!((good, forged), (2500, 2500));
    assert_eq!(fs::read_dir(world.root.join("spool/rejected")).unwrap().count(), 2500);
}

/// Peak resident memory so far, KiB.
fn peak_kib(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix("kB")?.trim().parse().ok())
}

/// Drains `count` files with the program itself; returns seconds and peak memory in MiB.
fn drain_with_the_program(count: usize) -> (f64, f64) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("home");
    fs::create_dir_all(root.join("rules")).unwrap();
    fs::write(root.join("rules/safety.yaml"), include_str!("../../rules/safety.yaml")).unwrap();
    fs::write(root.join("rules/principals.yaml"), "principals:\n  - {name: owner, role: human}\n").unwrap();
    let seams = Seams {
        disk: Arc::new(RealDisk::open(&root).unwrap()),
        clock: Arc::new(SystemClock::default()),
        entropy: Arc::new(SeededEntropy::new(22)),
    };
    let owner = Principal::parse("owner").unwrap();
    let (key_id, _) = layout::found(&root, &seams, "audit.example.org/backlog", &owner).unwrap();
    let key = SqliteKeyring::open(&root, false).unwrap().sign_key(&key_id).unwrap().unwrap();
    let now = SystemClock::default().now().to_string();
    let inbox = root.join("spool/in");
    fill(count, &now, "owner", &key, |name, text| fs::write(inbox.join(name), text).unwrap());

    let start = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_spoolgate"))
        .arg("--home")
        .arg(&root)
        .args(["run", "--until-idle"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut peak = 0;
    let status = loop {
        peak = peak_kib(child.id()).unwrap_or(0).max(peak);
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let seconds = start.elapsed().as_secs_f64();
    assert!(status.success(), "{status}");
    let count_in = |folder: &str, ending: &str| {
        let entries = fs::read_dir(root.join(folder)).unwrap();
        entries
            .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().ends_with(ending))
            .count()
    };
    assert_eq!(count_in("spool/out", ".error.json"), count / 2);
    assert_eq!(count_in("spool/out", ".json"), count);
    assert_eq!(count_in("spool/rejected", ".json"), count / 2);
    assert_eq!(count_in("spool/in", ".json"), 0);
    (seconds, f64::from(u32::try_from(peak).unwrap()) / 1024.0)
}

/// `cargo test --release --test hostile -- --ignored --nocapture`
#[test]
#[ignore = "half a minute, and only a release build says something"]
fn a_backlog_of_100_000_files() {
    let mut peaks = Vec::new();
    for count in [10_000, 100_000] {
        let (seconds, peak_mib) = drain_with_the_program(count);
        let per_second = f64::from(u32::try_from(count).unwrap()) / seconds;
        println!("{count} files: {seconds:.1} s, {per_second:.0} files/s, peak {peak_mib:.1} MiB");
        peaks.push(peak_mib);
    }
    assert!(peaks[1] < peaks[0] * 1.5 + 8.0, "memory grows with the backlog: {peaks:?} MiB");
}
