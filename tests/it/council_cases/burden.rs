//! Thousands of open cases: the memory that they need, and the time of a verdict. The measured test
//! is `cargo test --release --test it council_cases::burden::measured -- --ignored --nocapture`.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::kit::chamber::Chamber;
use crate::kit::court::{opinion, request, speaker, verdict};
use crate::kit::process::{Running, until_durable};
use crate::kit::{Sent, names, succeed};

/// The memory that the watcher may use, in KiB.
const BUDGET_KIB: u64 = 64 * 1024;

/// Drops the files, has a watcher decide them and returns its peak memory in KiB.
fn decided(what: &str, home: &Path, files: Vec<Sent>) -> u64 {
    let count = files.len();
    files
        .iter()
        .for_each(|file| fs::write(home.join("spool/in").join(&file.name), &file.bytes).unwrap());
    let begun = Instant::now();
    let mut watcher = Running::watch(home);
    while !names(&home.join("spool/in")).is_empty() || !names(&home.join("spool/work")).is_empty() {
        assert!(watcher.is_running(), "{what}: the watcher ended");
        assert!(
            begun.elapsed() < Duration::from_secs(1200),
            "{what}: 20 minutes are over"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    let time = begun.elapsed();
    until_durable(home);
    let peak = watcher.memory_kib().0;
    let each = time.as_micros() / count as u128;
    println!(
        "{what}: {count} files, {:.1} s, {each} us each, peak {} KiB",
        time.as_secs_f64(),
        peak
    );
    watcher.stop();
    peak
}

fn open_cases(count: usize) {
    let chamber = Chamber::new();
    let home = chamber.home();
    let case = |n: usize| format!("req_{n:05}");
    let file = |source: &str, id: String, action: &str, payload: &str| {
        Sent::new(
            &format!("{id}.json"),
            chamber.signed(source, &id, action, payload),
        )
    };
    let asked: Vec<String> = (0..count)
        .map(|n| request(&case(n), "CODE_REFACTOR"))
        .collect();
    let requests = asked.iter().enumerate();
    let requests =
        requests.map(|(n, text)| file("research-bot", format!("o{n}"), "council.request", text));
    let peak = decided("opening", &home, requests.collect());
    assert!(peak <= BUDGET_KIB, "peak {peak} KiB of {BUDGET_KIB} KiB");
    for (name, role) in [
        ("first verdicts", "Code Auditor"),
        ("closing verdicts", "Integration Engineer"),
    ] {
        let votes = asked.iter().enumerate().map(|(n, asked)| {
            let payload = verdict(&case(n), asked, &opinion(role, "APPROVE"));
            file(
                speaker(role),
                format!("{}-{n}", speaker(role)),
                "council.verdict",
                &payload,
            )
        });
        let peak = decided(name, &home, votes.collect());
        assert!(peak <= BUDGET_KIB, "peak {peak} KiB of {BUDGET_KIB} KiB");
        if role == "Code Auditor" {
            let begun = Instant::now();
            let listed = succeed(
                &home,
                &[
                    "--format", "json", "council", "list", "--open", "-n", "1000000",
                ],
            );
            println!(
                "council list of all: {:.2} s",
                begun.elapsed().as_secs_f64()
            );
            assert_eq!(listed.lines().count(), count);
        }
    }
    let told = chamber.told();
    assert_eq!(told.rulings.len(), count);
    for n in [0, count / 2, count - 1] {
        assert_eq!(
            chamber.wait_for_decision(&case(n))["final_outcome"],
            "APPROVE"
        );
        assert_eq!(chamber.shown(&case(n))["recomputes"], true);
    }
}

#[test]
fn sixty_open_cases() {
    open_cases(60);
}

#[test]
#[ignore = "measured for docs/testing.md"]
fn measured_10_000_open_cases() {
    open_cases(10_000);
}
