//! `spoolgate bridge test`: the Python bridge of this repository passes, each deliberate fault in it
//! fails the cases that are about it and no others, and no process is left behind.
//!
//! `BRIDGE_SUITE=all` plays every case against every fault, which takes a quarter of an hour.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::kit::process::{is_alive, until};
use crate::kit::{PROGRAM, folder};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const FAULTY: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/it/bridge_suite/faulty.py"
);
/// Cases without a fault in them, which are played with the others.
const CONTROLS: [&str; 3] = ["fill-before-ack", "stop-refused", "base-fee"];

/// The faults of `faulty.py`, and the cases that notice each.
const FAULTS: &str = "\
read_before_rename: take-by-rename
taken_is_forgotten: sigkill
file_twice: file-twice
lower_versions: versions-out-of-order
whole_size: place-again snapshot
ignore_valid_until: valid-until-past clock-off
ignore_epoch: epoch-too-low
forget_epoch: epoch-too-low gate-silent
fills_before_ack: fill-before-ack partial-fills base-fee stop-refused balance-locked rate-limit gate-silent
end_before_trades: fill-during-cancel polls-out-of-order sigkill
cursor: polls-out-of-order clock-off
trades_by_place: repeated-trades
no_fee_currency: base-fee
no_version: versions-out-of-order place-again valid-until-past epoch-too-low fill-during-cancel partial-fills polls-out-of-order clock-off lost-answer-worked lost-answer-not-worked replace-refused stop-refused balance-locked sigkill gate-silent foreign-order timer-while-flat key-refused
own_words: replace-refused stop-refused balance-locked
resend: lost-answer-not-worked sigkill
lost_is_refused: lost-answer-worked lost-answer-not-worked
old_stays: place-again replace-refused balance-locked gate-silent snapshot foreign-order key-refused
entries_first: rate-limit
limit_is_refusal: rate-limit
send_at_once: partial-fills
new_bytes: partial-fills sigkill not-booked
send_once: partial-fills not-booked
forget_state: file-twice epoch-too-low repeated-trades sigkill snapshot key-refused
ignore_gate: gate-silent foreign-order
stops_end_when_silent: gate-silent key-refused
no_alive: alive-and-ping venue-down
one_alive: alive-and-ping venue-down
no_nonce: alive-and-ping
always_up: venue-down
no_snapshot: alive-and-ping snapshot foreign-order
one_snapshot: snapshot
hide_foreign: foreign-order
cancel_foreign: foreign-order
always_armed: timer-while-flat
never_armed: timer-while-flat
again_is_dropped: file-twice
stop_limit: replace-refused stop-refused balance-locked gate-silent snapshot timer-while-flat key-refused
cancel_is_sure: lost-answer-not-worked
floats: partial-fills base-fee
exponents: base-fee
no_rebates: base-fee
refused_is_answered: not-booked
refused_id_again: not-booked
refused_is_another: not-booked
limited_is_answered: not-booked
key_for_ever: key-refused
entries_stay_at_the_end: key-refused
size_at_venue: snapshot
alive_in_loop: venue-down";

/// Cases that a fault fails or not, by how its requests happen to meet.
const SOMETIMES: &[(&str, &[&str])] = &[
    ("resend", &["lost-answer-worked"]),
    (
        "send_at_once",
        &[
            "base-fee",
            "balance-locked",
            "fill-before-ack",
            "file-twice",
            "fill-during-cancel",
            "gate-silent",
            "key-refused",
            "lost-answer-not-worked",
            "not-booked",
            "polls-out-of-order",
            "rate-limit",
            "sigkill",
            "snapshot",
            "stop-refused",
            "venue-down",
        ],
    ),
];

fn faults() -> Vec<(&'static str, BTreeSet<&'static str>)> {
    let rows = FAULTS.lines().map(|row| row.split_once(": ").unwrap());
    rows.map(|(fault, cases)| (fault, cases.split(' ').collect()))
        .collect()
}

/// Runs the suite in a folder for its scratch homes.
fn suite(scratch: &Path, args: &[&str]) -> Output {
    Command::new(PROGRAM)
        .args(["--format", "json", "bridge", "test"])
        .args(args)
        .env("TMPDIR", scratch)
        .output()
        .unwrap()
}

/// The cases of an output and why they fail.
fn played(output: &Output) -> BTreeMap<String, Option<String>> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let cases = text.lines().map(|line| {
        let row: Value = serde_json::from_str(line).unwrap();
        let why = || format!("due {}, seen {}", row["due"], row["seen"]);
        let failed = row["ok"] == false;
        (row["case"].as_str().unwrap().to_owned(), failed.then(why))
    });
    cases.collect()
}

fn has_python() -> bool {
    let found = Command::new("python3").arg("--version").output().is_ok();
    if !found {
        eprintln!("skipped: there is no python3");
    }
    found
}

/// Returns what is wrong with how the suite judges a fault.
fn misjudged(fault: &str, due: &BTreeSet<&str>) -> Option<String> {
    let scratch = folder();
    let sometimes = SOMETIMES.iter().find(|(of, _)| *of == fault);
    let sometimes = sometimes.map_or(&[][..], |(_, cases)| cases);
    let mut args = vec!["--patience", "10", "--jobs", "4"];
    if std::env::var_os("BRIDGE_SUITE").is_none() {
        let meant: BTreeSet<&str> = due.iter().copied().chain(CONTROLS).collect();
        args.extend(meant.iter().flat_map(|case| ["--only", case]));
    }
    args.extend(["python3", FAULTY, fault]);
    let done = suite(scratch.path(), &args);
    let played = played(&done);
    let failed = played.iter().filter(|(_, why)| why.is_some());
    let mut failed: BTreeSet<&str> = failed.map(|(case, _)| case.as_str()).collect();
    failed.retain(|case| due.contains(case) || !sometimes.contains(case));
    (failed != *due || done.status.code() != Some(1)).then(|| {
        let told = String::from_utf8_lossy(&done.stderr);
        format!(
            "{fault}: {due:?} should fail: {} {played:#?} {told}",
            done.status
        )
    })
}

#[test]
fn the_python_bridge_passes_every_case() {
    if !has_python() {
        return;
    }
    let scratch = folder();
    let done = suite(
        scratch.path(),
        &["--jobs", "4", "--patience", "30", "python3", FAULTY, "none"],
    );
    let played = played(&done);
    assert!(
        done.status.success() && played.len() == 28,
        "{} {played:#?} {}",
        done.status,
        String::from_utf8_lossy(&done.stderr)
    );
    let left: Vec<_> = fs::read_dir(scratch.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn each_fault_fails_the_cases_that_are_about_it() {
    if !has_python() {
        return;
    }
    let all = faults();
    let next = Mutex::new(all.iter());
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let Some((fault, due)) = next.lock().unwrap().next() else {
                        break;
                    };
                    let found = misjudged(fault, due);
                    wrong.lock().unwrap().extend(found);
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// A case that no fault fails shows nothing, and neither does a fault that is not tried.
#[test]
fn every_case_is_failed_by_a_fault_and_every_fault_is_tried() {
    let listed = suite(Path::new("/tmp"), &["--list"]);
    let listed: BTreeSet<String> = played(&listed).into_keys().collect();
    let failed = faults().into_iter().flat_map(|(_, cases)| cases);
    let failed: BTreeSet<String> = failed.map(str::to_owned).collect();
    assert_eq!(failed, listed);
    let text = fs::read_to_string(FAULTY).unwrap();
    let functions = text.lines().filter_map(|line| line.strip_suffix("():"));
    let functions: BTreeSet<&str> = functions.filter_map(|it| it.strip_prefix("def ")).collect();
    let tried = faults().into_iter().map(|(fault, _)| fault).chain(["none"]);
    assert_eq!(tried.collect::<BTreeSet<_>>(), functions);
}

#[test]
fn what_is_no_bridge_ends_the_suite_with_2() {
    for (args, expect) in [
        (
            vec!["false"],
            "`false` does not start: the bridge ended (exit status: 1)",
        ),
        (vec!["/no/such/bridge"], "does not start: No such file"),
        (
            vec!["--patience", "1", "sh", "-c", "sleep 100"],
            "does not start: not in 1 s",
        ),
        (
            vec!["--only", "no-such-case", "false"],
            "there is no case `no-such-case`",
        ),
        (vec![], "<CMD>"),
    ] {
        let scratch = folder();
        let done = suite(scratch.path(), &args);
        let told = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{args:?}: {told}");
        assert!(told.contains(expect), "{args:?}: {told}");
    }
}

/// The bridge starts a program of its own in its group; both must be gone.
#[test]
fn a_suite_that_is_stopped_leaves_no_process() {
    if !has_python() {
        return;
    }
    let scratch = folder();
    let pids = scratch.path().join("pids");
    let script = "sleep 1000 & echo $$ $! >> \"$0\"; exec \"$@\"";
    let mut running = Command::new(PROGRAM)
        .args(["bridge", "test", "--only", "sigkill", "sh", "-c", script])
        .arg(&pids)
        .args(["python3", FAULTY, "none"])
        .env("TMPDIR", scratch.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let named = || fs::read_to_string(&pids).unwrap_or_default();
    let end = Instant::now() + Duration::from_secs(60);
    // The trial start, and the case.
    while named().lines().count() < 3 {
        assert!(Instant::now() < end && running.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(5));
    }
    let id = rustix::process::Pid::from_child(&running);
    rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    assert_eq!(running.wait().unwrap().code(), Some(2));
    // A killed process dies when it next runs. None of these would end by itself in time.
    for pid in named().split_whitespace() {
        until(&format!("{pid} is gone"), || !is_alive(pid));
    }
}

/// With `UPDATE_DOCS=1` the test writes the table instead.
#[test]
fn the_table_of_cases_in_the_docs_is_that_of_the_program() {
    let listed = suite(Path::new("/tmp"), &["--list"]);
    let mut table = "| case | due |\n|---|---|\n".to_owned();
    for line in String::from_utf8(listed.stdout).unwrap().lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let (case, due) = (row["case"].as_str().unwrap(), row["due"].as_str().unwrap());
        table.push_str(&format!("| `{case}` | {due} |\n"));
    }
    let path = Path::new(ROOT).join("docs/howto/bridge.md");
    let docs = fs::read_to_string(&path).unwrap();
    let start = docs.find("| case | due |").unwrap();
    let end = start + docs[start..].find("\n\n").unwrap() + 1;
    let made = [&docs[..start], &table, &docs[end..]].concat();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        return fs::write(&path, &made).unwrap();
    }
    assert!(docs == made, "UPDATE_DOCS=1 writes this table:\n{table}");
}
