//! What auditors run, and a watcher: at every system call, ENOMEM, EMFILE and EIO. No command calls an honest ledger
//! corrupt because of an error of the system, and none panics.
//!
//! A sample by default; `SPOOLGATE_WHOLE=1` tries every call, and `SPOOLGATE_SCRIPT` selects
//! commands by a part of their words. Memory that cannot be had at all
//! (`mmap`, `brk`) ends any Rust program and is not tried.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use super::script::Script;
use super::strace::{Blow, Point, calls, calls_on, strike};
use super::{ended_well, skipped};
use crate::kit::gateway_home::{NOTED, exec, gateway, let_trend_bot_act};
use crate::kit::prepared::copy;
use crate::kit::{Scratch, Sent, campaign, names, setting, show, spoolgate, succeed};

const MAIL: &str = r#"{"to":["ann@example.com"],"subject":"hello","body":"a word"}"#;
const BLOWS: [Blow; 3] = [
    Blow::Once("ENOMEM"),
    Blow::Once("EMFILE"),
    Blow::Once("EIO"),
];

/// A watcher, which answers one request and is stopped.
const WATCH: &[&str] = &["watch"];

const REDACT: &[&str] = &["audit", "redact", "m1", "--reason", "asked", "--yes"];

/// A watcher over a home, with a request for it, and a folder to run it in.
fn watcher() -> (TempDir, Script, PathBuf) {
    let scratch = Scratch::new();
    succeed(&scratch.home(), &["run", "--until-idle"]);
    let shelf = crate::kit::folder();
    copy(&scratch.home(), &shelf.path().join("home"));
    let dir = shelf.path().join("w");
    let script = watching(shelf.path(), &scratch.request("q4", "orders.list", "{}"));
    (shelf, script, dir)
}

/// A watcher over a copy of the home in `golden` that is stopped once it has answered `request`.
fn watching(golden: &Path, request: &[u8]) -> Script {
    let mut script = Script::over(golden, WATCH);
    fs::write(script.home().join("spool/in/q4.json"), request).unwrap();
    script.stop_after = Some("home/spool/out/q4.json");
    script
}

/// A home with three segments, the first of which is archived, and copies of its archives in `vault`.
fn base(scratch: &Scratch) {
    let home = scratch.home();
    let_trend_bot_act(&home);
    let adapter = exec(&["email.send"], NOTED, 10);
    fs::write(home.join("rules/gateway.yaml"), gateway(&[adapter])).unwrap();
    succeed(&home, &["run", "--until-idle"]);
    for (id, action, payload) in [
        ("m1", "email.send", MAIL),
        ("q1", "orders.list", "{}"),
        ("q2", "no.such_action", "{}"),
    ] {
        let bytes = scratch.request(id, action, payload);
        Sent::new(&format!("{id}.json"), bytes).drop_into(&home);
    }
    succeed(&home, &["run", "--until-idle"]);
    succeed(&home, &["audit", "rotate", "--reason", "yearly"]);
    succeed(&home, &["audit", "archive"]);
    scratch.query("q3").drop_into(&home);
    succeed(&home, &["run", "--until-idle"]);
    succeed(&home, &["audit", "rotate", "--reason", "yearly"]);
    succeed(&home, &["run", "--until-idle"]);
    let vault = home.join("vault");
    fs::create_dir(&vault).unwrap();
    for name in names(&home.join("audit")) {
        if name.to_string_lossy().ends_with(".zst") {
            fs::copy(home.join("audit").join(&name), vault.join(&name)).unwrap();
        }
    }
}

/// The ledger is whole after a command that failed, and the gate starts.
fn is_whole(home: &Path) -> Result<(), String> {
    for args in [&["audit", "verify"][..], &["run", "--until-idle"]] {
        let done = spoolgate(home, args);
        if !done.status.success() {
            return Err(format!("{args:?} after it: {}", show(&done)));
        }
    }
    Ok(())
}

/// The shipped unit does not start a gate again that ended with 2.
#[test]
fn a_machine_without_memory_is_not_a_wrong_command_line() {
    if skipped() || spoolgate_host::sandbox::kernel_abi() < 3 {
        return;
    }
    let (_shelf, script, dir) = watcher();
    let mut points = vec![
        ("landlock_add_rule", 1, "ENOMEM", 6),
        ("landlock_restrict_self", 1, "ENOMEM", 6),
        ("landlock_restrict_self", 1, "EPERM", 2),
    ];
    // The program also looks for its threads when it starts, before it opens its home.
    for (call, part, last) in [
        ("landlock_create_ruleset", "(", 3),
        ("getdents64", "/task>", 2),
        ("openat", "\"/proc/self/task\"", 1),
        ("openat", "\"/\"", 1),
        ("prctl", "PR_SET_DUMPABLE", 1),
    ] {
        let found = calls_on(&script, &dir, call, part);
        let skipped = found.len().checked_sub(last).unwrap();
        points.extend(found[skipped..].iter().map(|nth| (call, *nth, "ENOMEM", 6)));
    }
    for (call, nth, error, code) in points {
        let point = Point {
            call: call.to_owned(),
            nth,
            blow: Blow::Once(error),
        };
        let struck = strike(&script, &dir, &point);
        let ended = struck.status.and_then(|status| status.code());
        assert_eq!(ended, Some(code), "{point}: {}", struck.stderr);
        let named = ["the sandbox cannot be set up: ", "`prctl`"]
            .iter()
            .any(|place| struck.stderr.contains(place));
        assert!(named, "{point}: {}", struck.stderr);
    }
}

// `notify` panics if its thread could not be started or cannot be woken; the gate ended with 101.
#[test]
fn a_watcher_lives_on_without_events() {
    if skipped() {
        return;
    }
    let (_shelf, script, dir) = watcher();
    for (call, part) in [("clone3", "CLONE_THREAD"), ("write", "[eventfd]")] {
        let found = calls_on(&script, &dir, call, part);
        assert!(!found.is_empty(), "{call}");
        for nth in found {
            let point = Point {
                call: call.to_owned(),
                nth,
                blow: Blow::Once("EAGAIN"),
            };
            let struck = strike(&script, &dir, &point);
            let lived = struck.status.is_some_and(|status| status.success());
            assert!(lived, "{point}: {:?}, {}", struck.status, struck.stderr);
        }
    }
}

/// Returns what `audit verify` found of sealed fields: deleted, and redacted but not deleted.
fn redacted(home: &Path) -> (u64, usize) {
    let report = succeed(home, &["--format", "json", "audit", "verify"]);
    let report: Value = serde_json::from_str(&report).unwrap();
    let sealed = &report["sealed"];
    let unfinished = sealed["unfinished"].as_array();
    let unfinished = unfinished.map_or(&[][..], Vec::as_slice);
    for found in unfinished {
        let what = found["what"].as_str().unwrap();
        assert!(what.contains("can be read"), "{what}");
    }
    (sealed["redacted"].as_u64().unwrap(), unfinished.len())
}

// `audit verify` called the ledger corrupt in between.
#[test]
fn a_redaction_that_failed_halfway_is_unfinished_and_not_damage() {
    if skipped() {
        return;
    }
    let scratch = Scratch::new();
    base(&scratch);
    let shelf = crate::kit::folder();
    copy(&scratch.home(), &shelf.path().join("home"));
    let script = Script::over(shelf.path(), REDACT);
    let dir = shelf.path().join("w");
    let home = dir.join("home");
    for (call, nth, left) in [
        ("fdatasync", 1, (0, 3)),
        ("unlinkat", 1, (0, 3)),
        ("unlinkat", 3, (2, 1)),
    ] {
        for next in [REDACT, &["run", "--until-idle"]] {
            let point = Point {
                call: call.to_owned(),
                nth,
                blow: Blow::Once("EIO"),
            };
            let struck = strike(&script, &dir, &point);
            let ended = struck.status.and_then(|status| status.code());
            assert_eq!(ended, Some(6), "{point}: {}", struck.stderr);
            let is_told = struck.stderr.contains("the content may still be there");
            assert!(is_told, "{point}: {}", struck.stderr);
            assert_eq!(redacted(&home), left, "{point}");
            succeed(&home, &["audit", "replay"]);
            let table = succeed(&home, &["audit", "verify"]);
            let told = table.matches("UNFINISHED  blobs/sd-").count();
            assert_eq!(told, left.1, "{point}: {table}");
            let told = succeed(&home, next);
            if next == REDACT {
                assert!(told.contains("redacted already, in line"), "{told}");
            }
            assert_eq!(redacted(&home), (3, 0), "{point}, then {next:?}");
        }
    }
}

#[test]
fn no_error_of_the_system_accuses_the_ledger() {
    if skipped() {
        return;
    }
    let scratch = Scratch::new();
    base(&scratch);
    let shelf = crate::kit::folder();
    let golden = shelf.path().join("golden");
    fs::create_dir(&golden).unwrap();
    copy(&scratch.home(), &golden.join("home"));
    let seed = usize::try_from(setting("SPOOLGATE_SEED", 1)).unwrap();
    let most: usize = campaign(12, usize::MAX);
    let wanted = std::env::var("SPOOLGATE_SCRIPT").unwrap_or_default();
    let request = scratch.request("q4", "orders.list", "{}");
    let (mut tried, mut failures) = (0, Vec::new());
    for (args, changes) in [
        (&["audit", "verify"][..], false),
        (&["audit", "verify", "--fast"], false),
        (&["audit", "replay"], false),
        (&["audit", "query", "--action", "orders.*"], false),
        (&["audit", "tail", "-n", "3"], false),
        (&["audit", "archive"], true),
        (
            &[
                "audit",
                "prune",
                "--before",
                "2",
                "--copied-to",
                "home/vault",
                "--yes",
            ],
            true,
        ),
        (&["audit", "rotate", "--reason", "yearly"], true),
        (REDACT, true),
        (WATCH, true),
    ] {
        if !args.join(" ").contains(&wanted) {
            continue;
        }
        let script = match args {
            WATCH => watching(&golden, &request),
            _ => Script::over(&golden, args),
        };
        let dir = shelf.path().join("w");
        let points: Vec<Point> = calls(&script, &dir)
            .into_iter()
            .flat_map(|(call, (first, last))| {
                // A watcher makes the 256 files of its reserve alike: a few of them will do.
                let is_often = last - first > 250;
                let reserve = is_often.then(|| calls_on(&script, &dir, &call, "out/.reserve"));
                let alike: BTreeSet<u32> = reserve.into_iter().flatten().skip(24).collect();
                let nths = (first..=last).filter(move |nth| !alike.contains(nth));
                nths.flat_map(move |nth| {
                    let call = call.clone();
                    BLOWS.into_iter().map(move |blow| Point {
                        call: call.clone(),
                        nth,
                        blow,
                    })
                })
            })
            .collect();
        let every = points.len().div_ceil(most).max(1);
        println!("{args:?}: {} points, one in {every} tried", points.len());
        let before = tried;
        for point in points.iter().skip(seed % every).step_by(every) {
            let struck = strike(&script, &dir, point);
            let mut ended = ended_well(point, &struck);
            if changes && ended.is_ok() {
                ended = is_whole(&dir.join("home"));
            }
            tried += usize::from(struck.hit.is_some());
            if let Err(why) = ended {
                println!("FAILED {args:?}, {point}: {why}");
                failures.push(format!("{args:?}, {point}: {why}"));
            }
        }
        println!("{args:?}: {} calls were hit", tried - before);
    }
    assert!(
        failures.is_empty(),
        "{} of {tried}: {failures:#?}",
        failures.len()
    );
    assert!(
        tried > 60 || !wanted.is_empty(),
        "only {tried} calls were hit"
    );
}
