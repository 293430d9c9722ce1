//! What auditors run, and a watcher: at every system call, ENOMEM, EMFILE and EIO. No command calls an honest ledger
//! corrupt because of an error of the system, and none panics.
//!
//! A sample by default; `SPOOLGATE_WHOLE=1` tries every call, and `SPOOLGATE_SCRIPT` selects
//! commands by a part of their words. Memory that cannot be had at all
//! (`mmap`, `brk`) ends any Rust program and is not tried.

use std::fs;
use std::path::Path;

use super::script::Script;
use super::strace::{Blow, Point, calls, strike};
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
    let scratch = Scratch::new();
    succeed(&scratch.home(), &["run", "--until-idle"]);
    let shelf = crate::kit::folder();
    copy(&scratch.home(), &shelf.path().join("home"));
    let script = Script::over(shelf.path(), WATCH);
    for (call, error, code) in [
        ("landlock_add_rule", "ENOMEM", 6),
        ("landlock_restrict_self", "ENOMEM", 6),
        ("landlock_restrict_self", "EPERM", 2),
    ] {
        let point = Point {
            call: call.to_owned(),
            nth: 1,
            blow: Blow::Once(error),
        };
        let struck = strike(&script, &shelf.path().join("w"), &point);
        let ended = struck.status.and_then(|status| status.code());
        assert_eq!(ended, Some(code), "{point}: {}", struck.stderr);
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
        (
            &["audit", "redact", "m1", "--reason", "asked", "--yes"],
            true,
        ),
        (WATCH, true),
    ] {
        if !args.join(" ").contains(&wanted) {
            continue;
        }
        let mut script = Script::over(&golden, args);
        if args == WATCH {
            fs::write(script.home().join("spool/in/q4.json"), &request).unwrap();
            script.stop_after = Some("home/spool/out/q4.json");
        }
        let dir = shelf.path().join("w");
        let points: Vec<Point> = calls(&script, &dir)
            .into_iter()
            .flat_map(|(call, (first, last))| {
                (first..=last).flat_map(move |nth| {
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
