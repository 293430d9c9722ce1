//! Long work shows on a terminal how far it is, and nothing of it anywhere else. `script` makes the terminal.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![allow(clippy::print_stdout, reason = "what was skipped")]

mod common;

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{PROGRAM, Scratch, Sent, show, spoolgate};

/// Work of so long shows something for certain: it draws from 300 ms on.
const LONG: Duration = Duration::from_millis(600);
/// Clears the line that a bar stood on.
const CLEARS: &str = "\u{1b}[2K";

/// What the program writes to a terminal, standard output apart, and how long it took.
fn on_terminal(scratch: &Scratch, settings: &[&str], args: &[&str]) -> (String, Duration) {
    let (told, took, code) = on_terminals(scratch, settings, args, true);
    assert_eq!(code, Some(0), "{args:?}: {told}");
    (told, took)
}

/// The same with the exit code, and with standard output on the terminal too unless it is `apart`.
fn on_terminals(
    scratch: &Scratch,
    settings: &[&str],
    args: &[&str],
    apart: bool,
) -> (String, Duration, Option<i32>) {
    let words: Vec<String> = [PROGRAM, "--home", scratch.home().to_str().unwrap()]
        .iter()
        .chain(args)
        .map(|word| format!("'{word}'"))
        .collect();
    let out = scratch.beside("out");
    let to = if apart { format!("> '{}'", out.display()) } else { String::new() };
    let line = format!("exec env {} {} {to}", settings.join(" "), words.join(" "));
    let begun = Instant::now();
    let mut script = Command::new("script");
    script
        .args(["-qec", &line, "/dev/null"])
        .env("TERM", "xterm")
        .env_remove("NO_COLOR")
        .stdin(Stdio::null());
    let done = script.output().unwrap();
    let took = begun.elapsed();
    (String::from_utf8_lossy(&done.stdout).into_owned(), took, done.status.code())
}

fn has_script() -> bool {
    let there = Command::new("script").arg("--version").output().is_ok_and(|done| done.status.success());
    if !there {
        println!("skipped: no script");
    }
    there
}

/// Puts so many queries into the spool.
fn fill(scratch: &Scratch, round: usize, count: usize) {
    for n in 0..count {
        let id = format!("q{round}-{n}");
        let bytes = scratch.request(&id, "portfolio.get", "{}");
        Sent::new(&format!("{id}.json"), bytes).drop_into(&scratch.home());
    }
}

#[test]
fn long_work_shows_on_a_terminal_how_far_it_is_and_nowhere_else() {
    if !has_script() {
        return;
    }
    let scratch = Scratch::new();
    let home = scratch.home();
    let safety = home.join("rules/safety.yaml");
    let text = fs::read_to_string(&safety).unwrap().replace("_per_minute: 600", "_per_minute: 1000000");
    fs::write(&safety, text.replace("_per_minute_all: 3000", "_per_minute_all: 1000000")).unwrap();
    // More and more, until this machine takes its time over it.
    let mut shown = None;
    let mut count = 0;
    for round in 0..6 {
        count = 450 << round;
        fill(&scratch, round, count);
        let (told, took) = on_terminal(&scratch, &[], &["run", "--until-idle", "--batch", "4"]);
        if took >= LONG {
            shown = Some(told);
            break;
        }
    }
    let Some(told) = shown else {
        println!("skipped: this machine decides thousands of requests at once");
        return;
    };
    assert!(told.contains("requests decided: "), "{told:?}");
    assert!(told.trim_end().ends_with(CLEARS), "the counter stays: {told:?}");
    // With its lines on the same terminal: none stands behind what the counter says.
    fill(&scratch, 8, count);
    let (told, ..) = on_terminals(&scratch, &[], &["run", "--until-idle", "--batch", "4"], false);
    let mixed = |piece: &&str| piece.contains("requests decided: ") && piece.contains("portfolio.get");
    assert_eq!(told.split('\n').flat_map(|row| row.split(CLEARS)).find(mixed), None);
    assert_eq!(told.matches("portfolio.get").count(), count);
    // The same in a pipe: its lines, and on standard error nothing.
    fill(&scratch, 9, 150);
    let done = spoolgate(&home, &["run", "--until-idle", "--batch", "4"]);
    assert!(done.status.success() && done.stderr.is_empty(), "{}", show(&done));
    assert_eq!(done.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count(), 150);

    let replay = ["audit", "replay", "--threads", "1"];
    let (told, took) = on_terminal(&scratch, &["NO_COLOR=1"], &replay);
    if took < LONG {
        println!("skipped: {replay:?} took {took:?}");
        return;
    }
    assert!(told.contains("replaying") && told.contains('%'), "{told:?}");
    assert!(told.trim_end().ends_with(CLEARS), "the bar stays: {told:?}");
    // Moving about and clearing is no colour; SGR, which ends in an m, would be.
    let is_colour = |rest: &&str| {
        rest.trim_start_matches(|c: char| c == '[' || c == ';' || c.is_ascii_digit()).starts_with('m')
    };
    assert_eq!(told.split('\u{1b}').skip(1).find(is_colour), None);
    for (settings, format) in [(&["TERM=dumb"][..], "table"), (&[][..], "json")] {
        let args = [&["--format", format], &replay[..]].concat();
        let (told, _) = on_terminal(&scratch, settings, &args);
        assert_eq!(told, "", "{settings:?} {args:?}");
    }
    an_error_stands_by_itself(&scratch);
}

/// What fails half-way leaves no bar behind.
fn an_error_stands_by_itself(scratch: &Scratch) {
    let log = scratch.home().join("audit/log-00000001.jsonl");
    let mut bytes = fs::read(&log).unwrap();
    let at = bytes.len() / 10 * 9;
    bytes[at] ^= 1;
    fs::write(&log, bytes).unwrap();
    let (told, took, code) = on_terminals(scratch, &[], &["rules", "backtest"], true);
    assert_eq!(code, Some(5), "{told}");
    if took < LONG {
        println!("skipped: it failed within {took:?}");
        return;
    }
    let (bar, error) = told.rsplit_once(CLEARS).unwrap_or_else(|| panic!("no bar: {told:?}"));
    assert!(bar.contains("deciding again"), "{told:?}");
    assert!(error.trim_start_matches('\r').starts_with("spoolgate: LEDGER_CORRUPT"), "{told:?}");
}

#[test]
fn what_is_over_at_once_shows_nothing() {
    if !has_script() {
        return;
    }
    let scratch = Scratch::new();
    for args in [&["audit", "verify"][..], &["audit", "export"][..], &["rules", "backtest"][..]] {
        let (told, took) = on_terminal(&scratch, &[], args);
        assert!(told.is_empty() || took >= Duration::from_millis(300), "{args:?} in {took:?}: {told:?}");
    }
    // A remark stands there by itself.
    let (told, _) = on_terminal(&scratch, &[], &["rules", "efficacy"]);
    assert_eq!(told, "no rule has fired, and none is in a rulebook of the time\r\n");
}
