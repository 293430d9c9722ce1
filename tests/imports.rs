//! The direction of imports, and the purity of everything that decides. Without them replay, simulation
//! and backtests could not be trusted: a clock read in `decide` would never show in a test of one day.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};

/// Rooms from the inside out; a room imports only what stands in a ring before its own, or beside it.
const RINGS: [&[&str]; 8] = [
    &["wire"],
    &["rules"],
    CONTRACTS,
    &["gate"],
    &["ledger", "state", "spool", "host"],
    &["home"],
    &["agent", "report"],
    &["cli", "bin"],
];

/// Rooms of one contract each: what crosses between them goes through the state.
const CONTRACTS: &[&str] = &["trading", "council", "control", "admission", "actions"];

/// Rooms that read no clock, no file, no environment and no randomness.
const PURE: [&str; 8] = ["wire", "rules", "trading", "council", "control", "admission", "actions", "gate"];

/// What purity forbids.
const OUTSIDE: [&str; 12] = [
    "std::fs",
    "std::net",
    "std::env",
    "std::process",
    "std::thread",
    "std::time",
    "SystemTime",
    "Instant::now",
    "Timestamp::now",
    "getrandom",
    "rusqlite",
    "rustix",
];

fn ring(room: &str) -> usize {
    RINGS
        .iter()
        .position(|rooms| rooms.contains(&room))
        .unwrap_or_else(|| panic!("room `{room}` is not on the map"))
}

fn files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

/// Every source file below a room, with the lines that are program and neither comment nor test.
fn sources() -> Vec<(String, PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    files(&root, &mut found);
    found
        .into_iter()
        .filter_map(|path| {
            let below = path.strip_prefix(&root).unwrap().to_owned();
            let room = below.components().next()?.as_os_str().to_str()?.to_owned();
            if below.components().count() < 2 {
                return None;
            }
            let text = fs::read_to_string(&path).unwrap();
            let program = text.split("#[cfg(test)]").next().unwrap_or_default();
            let lines: Vec<&str> =
                program.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
            Some((room, below, lines.join("\n")))
        })
        .collect()
}

/// Rooms named after `crate::` or `spoolgate::`.
fn imported(program: &str) -> Vec<String> {
    ["crate::", "spoolgate::"]
        .iter()
        .flat_map(|prefix| program.split(prefix).skip(1))
        .map(|rest| rest.chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect())
        .filter(|room: &String| !room.is_empty())
        .collect()
}

#[test]
fn imports_run_one_way() {
    let sources = sources();
    assert!(sources.len() > 50, "only {} files were read", sources.len());
    for (room, path, program) in &sources {
        for other in imported(program) {
            assert!(
                ring(&other) <= ring(room),
                "{} imports `{other}`, which stands outside `{room}`",
                path.display()
            );
            let both = CONTRACTS.contains(&other.as_str()) && CONTRACTS.contains(&room.as_str());
            assert!(!both || other == *room, "{} imports the contract `{other}`", path.display());
        }
    }
}

#[test]
fn what_decides_is_pure() {
    for (room, path, program) in sources() {
        // The one door of the rulebook: it reads the folder, and decides nothing.
        if !PURE.contains(&room.as_str()) || path == Path::new("rules/load.rs") {
            continue;
        }
        for outside in OUTSIDE {
            assert!(!program.contains(outside), "{} uses {outside}", path.display());
        }
    }
}

#[test]
fn only_cli_prints_and_only_host_opens() {
    for (room, path, program) in sources() {
        let prints = ["println!", "eprintln!", "io::stdout", "io::stderr"];
        // The programs in `bin` are clients of a gate, as `cli` is: their standard streams are their own.
        let may_print = ["cli", "bin"].contains(&room.as_str());
        assert!(may_print || !prints.iter().any(|p| program.contains(p)), "{} prints", path.display());
        // rules/load.rs walks the rule folder; state/store.rs removes state.db, which is not behind the seam. The agent's
        // side runs without a gate's lock and on nothing that is the gate's own.
        let may_open = ["host", "agent", "cli", "bin"].contains(&room.as_str())
            || path == Path::new("rules/load.rs")
            || path == Path::new("state/store.rs");
        assert!(may_open || !program.contains("std::fs"), "{} opens files past the seam", path.display());
    }
}
