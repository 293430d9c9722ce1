//! Long work shows on a terminal how far it is, and nothing of it anywhere else. A terminal is made by `script`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![allow(clippy::print_stdout, reason = "what was skipped")]

mod common;

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{PROGRAM, Scratch, Sent, show, spoolgate};

/// Work of so long shows something for certain: it draws from 300 ms on.
const LONG: Duration = Duration::from_millis(700);
/// Clears the line that a bar stood on.
const CLEARS: &str = "\u{1b}[2K";

/// What the program writes to a terminal, standard output apart, and how long it took.
fn on_terminal(scratch: &Scratch, settings: &[&str], args: &[&str]) -> (String, Duration) {
    let words: Vec<String> = [PROGRAM, "--home", scratch.home().to_str().unwrap()]
        .iter()
        .chain(args)
        .map(|word| format!("'{word}'"))
        .collect();
    let out = scratch.beside("out");
    let line = format!("exec env {} {} > '{}'", settings.join(" "), words.join(" "), out.display());
    let begun = Instant::now();
    let mut script = Command::new("script");
    script
        .args(["-qec", &line, "/dev/null"])
        .env("TERM", "xterm")
        .env_remove("NO_COLOR")
        .stdin(Stdio::null());
    let done = script.output().unwrap();
    let took = begun.elapsed();
    assert!(done.status.success(), "{args:?}: {}", show(&done));
    (String::from_utf8_lossy(&done.stdout).into_owned(), took)
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
    for round in 0..6 {
        fill(&scratch, round, 150 << round);
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
    // The same in a pipe: its lines, and on standard error nothing.
    fill(&scratch, 9, 150);
    let done = spoolgate(&home, &["run", "--until-idle", "--batch", "4"]);
    assert!(done.status.success() && done.stderr.is_empty(), "{}", show(&done));
    assert_eq!(done.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count(), 150);

    for (args, word) in [
        (&["audit", "replay", "--threads", "1"][..], "replaying"),
        (&["rules", "backtest"][..], "deciding again"),
    ] {
        let (told, took) = on_terminal(&scratch, &[], args);
        if took < LONG {
            println!("skipped: {args:?} took {took:?}");
            continue;
        }
        assert!(told.contains(word) && told.contains('%'), "{args:?}: {told:?}");
        assert!(told.trim_end().ends_with(CLEARS), "{args:?}: the bar stays: {told:?}");
        let (told, _) = on_terminal(&scratch, &["NO_COLOR=1"], args);
        assert!(told.contains(word), "{args:?}: {told:?}");
        // Moving about and clearing is no colour; SGR, which ends in an m, would be.
        let colours = told.split('\u{1b}').skip(1).filter(|rest| {
            rest.trim_start_matches(|c: char| c == '[' || c == ';' || c.is_ascii_digit()).starts_with('m')
        });
        assert_eq!(colours.count(), 0, "{args:?}: {told:?}");
        for (settings, format) in
            [(&["TERM=dumb"][..], "table"), (&["-u", "TERM"][..], "table"), (&[][..], "json")]
        {
            let all: Vec<&str> = ["--format", format].iter().chain(args).copied().collect();
            let (told, _) = on_terminal(&scratch, settings, &all);
            assert_eq!(told, "", "{settings:?} {all:?}");
        }
        let done = spoolgate(&home, args);
        assert!(done.status.success() && done.stderr.is_empty(), "{}", show(&done));
    }
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
