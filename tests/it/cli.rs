//! The command line as users meet it: help, exit codes, messages, and the display of events.

mod brake;
mod help;
mod homes;
mod kill;
mod limits;
mod status;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::kit::process::{Running, answered};
use crate::kit::{PROGRAM, Scratch, command, show, spoolgate, succeed};
use spoolgate_gate::Record;
use spoolgate_home::Home;
use spoolgate_home::read::real_seams;

fn out(done: &Output) -> String {
    String::from_utf8_lossy(&done.stdout).into_owned()
}

fn err(done: &Output) -> String {
    String::from_utf8_lossy(&done.stderr).into_owned()
}

#[test]
fn one_shots_leave_the_index_right_and_little_beside_it() {
    let scratch = Scratch::new();
    let home = scratch.home();
    let file = scratch.beside("r.json");
    let ask = |request: &[u8]| {
        fs::write(&file, request).unwrap();
        succeed(&home, &["handle", file.to_str().unwrap()])
    };
    let request = scratch.query("one-0").bytes;
    let first = ask(&request);
    let beside: Vec<u64> = (1..40)
        .map(|n| {
            ask(&scratch.query(&format!("one-{n}")).bytes);
            fs::metadata(home.join("state/state.db-wal")).unwrap().len()
        })
        .collect();
    // It grows over several commands, each of which would otherwise need syncs, and is merged from
    // time to time.
    assert!(beside.iter().any(|bytes| *bytes > 100_000), "{beside:?}");
    assert!(beside.iter().all(|bytes| *bytes < 300_000), "{beside:?}");
    assert!(!beside.is_sorted(), "{beside:?}");
    assert_eq!(ask(&request), first);
    let (_, same) = Home::rebuild(&home, real_seams(&home).unwrap()).unwrap();
    assert!(same, "a rebuild gives another state");
    assert_eq!(ask(&request), first);
}

/// One-shots leave rows beside state.db. Under them, an older state.db that was restored alone from
/// a copy made SQLite read both as one index, and a request that was decided long ago was decided
/// again.
#[test]
fn an_older_index_under_newer_rows_is_rebuilt() {
    let scratch = Scratch::new();
    let home = scratch.home();
    let file = scratch.beside("r.json");
    let index = home.join("state/state.db");
    let ask = |request: &[u8]| {
        fs::write(&file, request).unwrap();
        succeed(&home, &["handle", file.to_str().unwrap()])
    };
    let asked: Vec<(Vec<u8>, String)> = (0..100)
        .map(|n| {
            let request = scratch.query(&format!("one-{n}")).bytes;
            let answer = ask(&request);
            if n == 20 {
                fs::copy(&index, scratch.beside("copy.db")).unwrap();
            }
            (request, answer)
        })
        .collect();
    let index_bytes = fs::read(&index).unwrap();
    assert_ne!(
        index_bytes,
        fs::read(scratch.beside("copy.db")).unwrap(),
        "nothing was put into the index yet"
    );
    assert!(fs::metadata(home.join("state/state.db-wal")).unwrap().len() > 0);
    fs::copy(scratch.beside("copy.db"), &index).unwrap();
    for (request, answer) in &asked {
        assert_eq!(&ask(request), answer);
    }
    let (_, same) = Home::rebuild(&home, real_seams(&home).unwrap()).unwrap();
    assert!(same, "a rebuild gives another state");
}

/// What users mistype, confuse and misplace: the message says what, where, and what to do, in one
/// line.
#[test]
fn messages_name_what_where_and_what_to_do() {
    let scratch = Scratch::new();
    let home = scratch.home();
    let write = |name: &str, text: &str| {
        let path = scratch.beside(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (key, empty, order) = (
        scratch.beside("a.key"),
        write("empty", ""),
        write("order", "{}"),
    );
    let key = key.to_str().unwrap();
    succeed(&home, &["keys", "add", "prices", "--out", key]);
    let by = ["--as", "prices", "--key", key, "--action"];
    let sign = |file: &str, action: &str| [&["sign", file][..], &by, &[action]].concat().join("\n");
    let cases: [(&str, i32, &[&str]); 13] = [
        (
            &format!("submit\n--wait\n{order}"),
            2,
            &["/order`", "put files before `--wait`", "--wait=60"],
        ),
        (
            &format!("submit\n{order}\n--wait\n0"),
            8,
            &["order.json", "spoolgate watch", "may still decide it"],
        ),
        (
            &sign(&empty, "order.submit"),
            2,
            &[&empty, "the document is empty", "one JSON object"],
        ),
        (&sign(key, "order.submit"), 2, &[key, "is a key file"]),
        (
            &sign(&order, "order.sumbit"),
            0,
            &["`order.sumbit`", "`order.submit` is similar"],
        ),
        (
            &sign("nowhere", "order.submit"),
            2,
            &["`nowhere`", "standard input"],
        ),
        (
            "council\nshow\nnobody",
            2,
            &["`nobody`", "spoolgate council list"],
        ),
        (
            "audit\nshow\nnobody",
            2,
            &["`nobody`", "spoolgate audit tail"],
        ),
        (
            "audit\nprove\nnobody",
            2,
            &["`nobody`", "spoolgate audit tail"],
        ),
        ("audit\nprove\n9999", 2, &["9999", "spoolgate audit tail"]),
        ("audit\nverify\n--key\nx", 2, &["--key", "spoolgate init"]),
        ("report\n--html\n-", 2, &["`-`", "report.html"]),
        (
            &format!("init\n{empty}"),
            2,
            &[&empty, "is a file", "name another"],
        ),
    ];
    for (words, exit, parts) in cases {
        let words: Vec<&str> = words.split('\n').collect();
        let done = spoolgate(&home, &words);
        assert_eq!(done.status.code(), Some(exit), "{words:?}: {}", show(&done));
        for part in parts {
            assert!(
                err(&done).contains(part),
                "{words:?} without `{part}`: {}",
                show(&done)
            );
        }
        // Nor does the message repeat the key.
        let secret = fs::read_to_string(key).unwrap();
        let secret = secret.split("\"secret\":\"").nth(1).map(|rest| &rest[..64]);
        assert!(
            !show(&done).contains(secret.unwrap()),
            "{words:?}: {}",
            show(&done)
        );
    }
}

#[test]
fn programs_read_one_value_per_line() {
    let scratch = Scratch::new();
    let home = scratch.home();
    let schema = succeed(&home, &["--format", "json", "schema", "order.submit"]);
    assert_eq!(schema.lines().count(), 1);
    let none = spoolgate(&home, &["--format", "json", "council", "show", "nobody"]);
    let said: serde_json::Value = serde_json::from_str(&err(&none)).unwrap();
    assert_eq!(said["error"]["exit"], 2);
}

/// Lines that were cut off are not found, and their absence would look like a result.
#[test]
fn a_search_in_a_ledger_without_its_end_says_so() {
    let scratch = Scratch::new();
    let home = scratch.home();
    succeed(&home, &["account", "deposit", "5", "--reason", "x"]);
    let dir = scratch.beside("audit");
    fs::create_dir(&dir).unwrap();
    let log = "log-00000001.jsonl";
    fs::copy(home.join("audit/checkpoint"), dir.join("checkpoint")).unwrap();
    let text = fs::read_to_string(home.join("audit").join(log)).unwrap();
    let dir = dir.to_str().unwrap();
    let said = |text: &str, args: &[&str]| {
        fs::write(Path::new(dir).join(log), text).unwrap();
        let done = spoolgate(&home, args);
        assert!(done.status.success(), "{args:?}: {}", show(&done));
        err(&done)
    };
    let ask: [&[&str]; 3] = [
        &["audit", "query", dir],
        &["audit", "export", dir],
        &["audit", "tail", dir],
    ];
    for args in ask {
        assert_eq!(said(&text, args), "", "{args:?}");
        let seals: Vec<usize> = text.match_indices("\n").map(|(at, _)| at + 1).collect();
        let cut = &text[..seals[seals.len() - 3]];
        assert!(
            said(cut, args).contains("the end was cut off"),
            "{args:?}: {}",
            said(cut, args)
        );
    }
}

/// Starts a watcher. Also returns a function that waits for the next line of its output that
/// contains a text.
fn watch(home: &Path) -> (Running, impl FnMut(&str) -> String) {
    let mut command = command(home, &["watch"]);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut watcher = Running::start(command);
    let mut lines = BufReader::new(watcher.0.stderr.take().unwrap()).lines();
    let until = move |part: &str| {
        lines
            .by_ref()
            .map(Result::unwrap)
            .find(|line| line.contains(part))
            .unwrap_or_default()
    };
    (watcher, until)
}

/// One row for each row of the README's table that this version can produce.
#[test]
fn exit_codes_are_those_of_the_readme() {
    let scratch = Scratch::new();
    let home = scratch.home();
    let request = |name: &str, action: &str, payload: &str| {
        let path = scratch.beside(name);
        fs::write(&path, scratch.request(name, action, payload)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let good = request("good", "portfolio.get", "{}");
    let refused = request(
        "refused",
        "account.adjust",
        r#"{"amount":1,"reason":"mine"}"#,
    );
    let unknown = request("unknown", "rules.edit", "{}");
    let nobody = scratch.beside("nobody");
    let nobody = nobody.to_str().unwrap();
    let cases: [(i32, &[&str]); 16] = [
        (0, &["handle", &good]),
        (0, &["portfolio"]),
        (0, &["audit", "verify"]),
        (1, &["handle", &refused]),
        (1, &["account", "withdraw", "999999", "--reason", "all"]),
        (1, &["keys", "add", "stranger", "--out", nobody]),
        (2, &["handle", &unknown]),
        (2, &["handle", nobody]),
        (2, &["nonsense"]),
        (2, &["account", "deposit", "-5", "--reason", "less"]),
        (2, &["--home", nobody, "portfolio"]),
        (2, &["--home", nobody, "audit", "tail"]),
        (2, &["--home", &good, "watch"]),
        (
            2,
            &[
                "--home", &good, "market", "import", &good, "--symbol", "BTC-USD",
            ],
        ),
        (2, &["audit", "show", "nonsense"]),
        (8, &["submit", &good, "--wait", "0"]),
    ];
    for (exit, args) in cases {
        let program = if args[0] == "--home" {
            Command::new(PROGRAM)
        } else {
            command(&home, &[])
        };
        let mut program = program;
        let done = program.args(args).output().unwrap();
        assert_eq!(done.status.code(), Some(exit), "{args:?}: {}", show(&done));
        for word in ["panicked", "HomeError", "Some(", "RUST_BACKTRACE"] {
            assert!(!err(&done).contains(word), "{args:?}: {}", show(&done));
        }
    }
    assert!(
        !Path::new(nobody).exists(),
        "a key file of a key that was not added"
    );

    let full = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let done = command(&home, &["portfolio"])
        .stdout(full)
        .output()
        .unwrap();
    assert_eq!(done.status.code(), Some(6), "{}", show(&done));
    assert!(err(&done).contains("standard output"), "{}", show(&done));

    {
        let (_watcher, mut until) = watch(&home);
        assert!(until("watching").contains("spool/in"));
        let done = spoolgate(&home, &["run", "--until-idle"]);
        assert_eq!(done.status.code(), Some(7), "{}", show(&done));
    }

    fs::remove_file(home.join("audit/log-00000001.jsonl")).unwrap();
    for args in [
        &["portfolio"][..],
        &["audit", "tail"],
        &["audit", "verify"],
        &["run", "--until-idle"],
    ] {
        let done = spoolgate(&home, args);
        assert_eq!(done.status.code(), Some(5), "{args:?}: {}", show(&done));
    }
}

#[test]
fn the_watcher_reports_rule_files_that_broke() {
    let scratch = Scratch::new();
    let home = scratch.home();
    let path = home.join("rules/safety.yaml");
    let good = fs::read_to_string(&path).unwrap();
    let (watcher, mut until) = watch(&home);
    until("watching");
    fs::write(
        &path,
        good.replace("max_daily_loss: 250", "max_daily_loss: 25O"),
    )
    .unwrap();
    assert!(until("cannot be used").contains("rules/safety.yaml:10: max_daily_loss"));
    for args in [&["portfolio"][..], &["audit", "tail"]] {
        assert!(
            succeed(&home, args).contains("rules/safety.yaml:10: max_daily_loss"),
            "{args:?}"
        );
    }
    fs::write(&path, &good).unwrap();
    assert!(until("is in force").contains("rulebook"));
    assert!(!succeed(&home, &["portfolio"]).contains("rule file"));
    fs::write(home.join("rules/HALT"), "").unwrap();
    assert!(until("HALT").contains("entries are refused"));
    let cleared = spoolgate(&home, &["halt", "clear", "--reason", "over"]);
    assert!(
        err(&cleared).contains("rules/HALT exists"),
        "{}",
        show(&cleared)
    );
    drop(watcher);

    fs::write(&path, "x: 1\n").unwrap();
    for _ in 0..2 {
        let done = spoolgate(&home, &["run", "--until-idle"]);
        assert_eq!(
            err(&done).matches("rules/safety.yaml:1").count(),
            1,
            "{}",
            show(&done)
        );
    }
}

#[test]
fn a_watcher_whose_output_cannot_be_written_lives_on() {
    let scratch = Scratch::new();
    let home = scratch.home();
    let full = || fs::File::options().write(true).open("/dev/full").unwrap();
    for terminal in ["full", "gone"] {
        let mut command = command(&home, &["watch"]);
        match terminal {
            "full" => command.stdout(full()).stderr(full()),
            _ => command.stdout(Stdio::piped()).stderr(Stdio::piped()),
        };
        let mut watcher = Running::start(command);
        drop((watcher.0.stdout.take(), watcher.0.stderr.take()));
        for n in 0..2 {
            let id = format!("{terminal}-{n}");
            scratch.query(&id).drop_into(&home);
            answered(&home, &format!("{id}.json"));
        }
        watcher.stop();
    }
}

#[test]
fn the_checkpoint_beside_the_log_is_not_a_head_noted_elsewhere() {
    let scratch = Scratch::new();
    let home = scratch.home();
    let noted = scratch.beside("noted");
    let old = fs::read(home.join("audit/checkpoint")).unwrap();
    let log = home.join("audit/log-00000001.jsonl");
    let short = fs::read(&log).unwrap();
    succeed(&home, &["account", "deposit", "1", "--reason", "more"]);
    fs::copy(home.join("audit/checkpoint"), &noted).unwrap();
    let reached = |args: &[&str]| {
        let done = command(&home, &["--format", "json", "audit", "verify"])
            .args(args)
            .output()
            .unwrap();
        let report: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
        (
            done.status.code(),
            report["reached"].as_str().unwrap().to_owned(),
        )
    };
    let head = ["--head", noted.to_str().unwrap()];
    assert_eq!(reached(&[]), (Some(0), "seals".to_owned()));
    assert_eq!(reached(&head), (Some(0), "remembered_head".to_owned()));
    // The tail is cut at a seal, and the checkpoint of that time is restored.
    fs::write(&log, short).unwrap();
    assert_eq!(reached(&[]).0, Some(5));
    fs::write(home.join("audit/checkpoint"), old).unwrap();
    assert_eq!(reached(&[]), (Some(0), "seals".to_owned()));
    assert_eq!(reached(&head).0, Some(5));
}

#[test]
fn files_with_any_name_are_submitted_and_answered() {
    let scratch = Scratch::new();
    let home = scratch.home();
    let (_watcher, mut until) = watch(&home);
    until("watching");
    for name in [".hidden", "a\u{1b}[31m", "-x", "x.tmp", "plain.json"] {
        let path = scratch.beside(name);
        fs::write(&path, "{}").unwrap();
        let done = spoolgate(&home, &["submit", path.to_str().unwrap(), "--wait", "20"]);
        assert_eq!(done.status.code(), Some(2), "{name}: {}", show(&done));
        assert!(
            out(&done).contains("MALFORMED_ENVELOPE"),
            "{name}: {}",
            show(&done)
        );
        assert!(!out(&done).contains('\u{1b}') && !err(&done).contains('\u{1b}'));
    }
}

#[test]
fn batches_are_not_larger_than_requested() {
    let scratch = Scratch::new();
    let home = scratch.home();
    for n in 0..5 {
        scratch.query(&format!("q{n}")).drop_into(&home);
    }
    succeed(&home, &["run", "--until-idle", "--batch", "2"]);
    let mut together = vec![0];
    for (_, kind, record) in crate::kit::lines(&home).unwrap() {
        match record {
            Some(Record::Decision(decision)) if decision.spool == "flat" => {
                *together.last_mut().unwrap() += 1
            }
            _ if kind == "seal" => together.push(0),
            _ => {}
        }
    }
    together.retain(|requests| *requests > 0);
    assert_eq!(together, [2, 2, 1]);
    for size in ["0", "1025", "many"] {
        let refused = spoolgate(&home, &["watch", "--batch", size]);
        assert_eq!(refused.status.code(), Some(2), "{size}: {}", show(&refused));
    }
}
