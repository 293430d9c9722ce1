//! Long work shows its progress on a terminal, and nowhere else. `script` makes the terminal.

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::kit::process::Running;
use crate::kit::{PROGRAM, Scratch, Sent, show, spoolgate};

/// Clears the line of a progress bar.
const CLEARS: &str = "\u{1b}[2K";

/// How fast a program may work.
#[derive(Clone, Copy)]
enum Pace {
    Full,
    /// It is stopped for about two seconds in total.
    Slow,
    /// It is stopped nearly all of the time until it has written this, so that its work takes long
    /// on any machine.
    SlowUntil(&'static str),
}

/// Returns what the program writes to a terminal, except for standard output, and how it ended.
fn on_terminal(
    scratch: &Scratch,
    settings: &[&str],
    args: &[&str],
    pace: Pace,
) -> (String, Option<i32>) {
    on_terminals(scratch, settings, args, pace, true)
}

/// The same with standard output on the terminal too unless it is `apart`.
fn on_terminals(
    scratch: &Scratch,
    settings: &[&str],
    args: &[&str],
    pace: Pace,
    apart: bool,
) -> (String, Option<i32>) {
    let words: Vec<String> = [PROGRAM, "--home", scratch.home().to_str().unwrap()]
        .iter()
        .chain(args)
        .map(|word| format!("'{word}'"))
        .collect();
    let (out, free) = (scratch.beside("out"), scratch.beside("free"));
    let to = if apart {
        format!("> '{}'", out.display())
    } else {
        String::new()
    };
    let (stops, awaited) = match pace {
        Pace::Full => (0, None),
        Pace::Slow => (40, None),
        Pace::SlowUntil(text) => (10_000, Some(text)),
    };
    let line = format!(
        "env {} {} {to} & p=$!; n=0; while [ $n -lt {stops} ] && [ ! -e '{}' ] && [ -e \
            /proc/$p/exe ]; do
            kill -STOP $p; sleep 0.05; kill -CONT $p; sleep 0.001; n=$((n+1))
        done 2>/dev/null; wait $p",
        settings.join(" "),
        words.join(" "),
        free.display()
    );
    let mut script = Command::new("script");
    script
        .args(["-qec", &line, "/dev/null"])
        .env("TERM", "xterm")
        .env("SHELL", "/bin/sh")
        .env_remove("NO_COLOR");
    script.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut running = Running::start(script);
    let (mut told, mut piece) = (Vec::new(), [0; 4096]);
    let mut terminal = running.0.stdout.take().unwrap();
    loop {
        let count = terminal.read(&mut piece).unwrap();
        told.extend(&piece[..count]);
        if count == 0 {
            break;
        }
        if awaited.is_some_and(|text| String::from_utf8_lossy(&told).contains(text)) {
            fs::write(&free, "").unwrap();
        }
    }
    let code = running.end().code();
    let _ = fs::remove_file(free);
    (String::from_utf8_lossy(&told).into_owned(), code)
}

fn has_script() -> bool {
    let there = Command::new("script")
        .arg("--version")
        .output()
        .is_ok_and(|done| done.status.success());
    if !there {
        println!("skipped: no script");
    }
    there
}

/// Puts this number of queries into the spool.
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
    let text = fs::read_to_string(&safety)
        .unwrap()
        .replace("_per_minute: 600", "_per_minute: 1000000");
    fs::write(
        &safety,
        text.replace("_per_minute_all: 3000", "_per_minute_all: 1000000"),
    )
    .unwrap();
    let run = ["run", "--until-idle", "--batch", "4"];
    fill(&scratch, 0, 450);
    let (told, code) = on_terminal(&scratch, &[], &run, Pace::SlowUntil("requests decided: "));
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("requests decided: "), "{told:?}");
    assert!(
        told.trim_end().ends_with(CLEARS),
        "the counter stays: {told:?}"
    );
    // With its lines on the same terminal: no line is after the counter's text.
    fill(&scratch, 1, 450);
    let (told, _) = on_terminals(
        &scratch,
        &[],
        &run,
        Pace::SlowUntil("requests decided: "),
        false,
    );
    let mixed =
        |piece: &&str| piece.contains("requests decided: ") && piece.contains("portfolio.get");
    assert_eq!(
        told.split('\n')
            .flat_map(|row| row.split(CLEARS))
            .find(mixed),
        None
    );
    assert_eq!(told.matches("portfolio.get").count(), 450);
    // The same in a pipe: its lines, and nothing on standard error.
    fill(&scratch, 2, 150);
    let done = spoolgate(&home, &run);
    assert!(
        done.status.success() && done.stderr.is_empty(),
        "{}",
        show(&done)
    );
    assert_eq!(
        done.stdout
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .count(),
        150
    );

    let replay = ["audit", "replay", "--threads", "1"];
    let (told, code) = on_terminal(
        &scratch,
        &["NO_COLOR=1"],
        &replay,
        Pace::SlowUntil("replaying"),
    );
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("replaying") && told.contains('%'), "{told:?}");
    assert!(told.trim_end().ends_with(CLEARS), "the bar stays: {told:?}");
    // Moving the cursor and clearing are not colours; SGR, which ends in an m, would be.
    let is_colour = |rest: &&str| {
        rest.trim_start_matches(|c: char| c == '[' || c == ';' || c.is_ascii_digit())
            .starts_with('m')
    };
    assert_eq!(told.split('\u{1b}').skip(1).find(is_colour), None);
    for (settings, format) in [(&["TERM=dumb"][..], "table"), (&[][..], "json")] {
        let args = [&["--format", format], &replay[..]].concat();
        let (told, _) = on_terminal(&scratch, settings, &args, Pace::Slow);
        assert_eq!(told, "", "{settings:?} {args:?}");
    }
    an_error_stands_by_itself(&scratch);
}

/// Work that fails half-way leaves no progress bar behind.
fn an_error_stands_by_itself(scratch: &Scratch) {
    let log = scratch.home().join("audit/log-00000001.jsonl");
    let mut bytes = fs::read(&log).unwrap();
    let at = bytes.len() / 10 * 9;
    bytes[at] ^= 1;
    fs::write(&log, bytes).unwrap();
    let (told, code) = on_terminal(
        scratch,
        &[],
        &["rules", "backtest"],
        Pace::SlowUntil("deciding again"),
    );
    assert_eq!(code, Some(5), "{told}");
    let (bar, error) = told
        .rsplit_once(CLEARS)
        .unwrap_or_else(|| panic!("no bar: {told:?}"));
    assert!(bar.contains("deciding again"), "{told:?}");
    assert!(
        error
            .trim_start_matches('\r')
            .starts_with("spoolgate: LEDGER_CORRUPT"),
        "{told:?}"
    );
}

#[test]
fn short_work_shows_no_progress() {
    if !has_script() {
        return;
    }
    let scratch = Scratch::new();
    for args in [
        &["audit", "verify"][..],
        &["audit", "export"][..],
        &["rules", "backtest"][..],
    ] {
        let begun = Instant::now();
        let (told, _) = on_terminal(&scratch, &[], args, Pace::Full);
        assert!(
            told.is_empty() || begun.elapsed() >= Duration::from_millis(300),
            "{args:?}: {told:?}"
        );
    }
    // A remark is on a line by itself.
    let (told, _) = on_terminal(&scratch, &[], &["rules", "efficacy"], Pace::Full);
    assert_eq!(
        told,
        "no rule has fired, and none is in a rulebook of the time\r\n"
    );
}
