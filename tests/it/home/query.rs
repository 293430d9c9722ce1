//! Lines looked up, exported, followed: the same with the index, without it and by a naive reading;
//! nothing that was not sealed; nothing that a terminal or a spreadsheet would obey.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::kit::desk::Desk;
use crate::kit::place::drain;
use crate::kit::prepared::copy;
use crate::kit::{Dice, PROGRAM, Scratch, campaign, command, show, spoolgate, succeed};
use ed25519_dalek::SigningKey;
use rusqlite::{Connection, OpenFlags};
use spoolgate_gate::Record;
use spoolgate_gate::record::{AskedFor, Decision, Ruling, Status};
use spoolgate_home::HomeError;
use spoolgate_home::read::real_seams;
use spoolgate_host::real_disk::RealDisk;
use spoolgate_ledger::line::{self, LINE_BYTES_MAX};
use spoolgate_ledger::seal::Seal;
use spoolgate_ledger::tree::{Hash, leaf_hash};
use spoolgate_replay::follow::Follower;
use spoolgate_replay::query::{Books, Filter, Outcome};
use spoolgate_wire::ids::OrderId;
use spoolgate_wire::time::Time;
use tempfile::TempDir;

const HOSTILE: &str = "=cmd|' /C calc'!A1\u{1b}[31m\u{202e}\u{7}\r\n\t;=1,\"+2\"";

fn shelf() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// The demo's home: orders, refusals, a council, admission, control. Nobody changes it.
fn demo() -> &'static Path {
    static DEMO: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let (_, home) = DEMO.get_or_init(|| {
        let dir = shelf();
        let home = dir.path().join("demo");
        let done = Command::new(PROGRAM)
            .arg("demo")
            .arg(&home)
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", show(&done));
        (dir, home)
    });
    home
}

// A naive reading of the same conditions.

fn words(decision: &Decision) -> Vec<&'static str> {
    let mut words = match decision.status {
        Status::Success => vec!["success"],
        Status::Held => vec!["held", "requires_approval"],
        Status::Pending => vec!["pending"],
        Status::Error => vec!["error"],
        Status::RateLimited => vec!["rejected", "rate_limited"],
        Status::Rejected => vec!["rejected", "error"],
    };
    words.extend(decision.decision.map(|ruling| match ruling {
        Ruling::Accepted => "accepted",
        Ruling::Rejected => "rejected",
    }));
    if let Some(receipt) = &decision.receipt {
        let word = serde_json::to_value(receipt.decision).unwrap();
        words.push(if word.as_str().unwrap().eq_ignore_ascii_case("allow") {
            "allow"
        } else {
            "deny"
        });
    }
    words
}

fn asked(record: &Record) -> (Option<String>, Option<String>) {
    match record {
        Record::Decision(decision) => (decision.request_id.clone(), decision.source.clone()),
        Record::Council(council) => (Some(council.request_id.to_string()), None),
        Record::Input(input) => (Some(input.request_id.to_string()), None),
        Record::AdmissionInput(input) => match &input.about {
            AskedFor::Lineage {
                source, request_id, ..
            } => (Some(request_id.to_string()), Some(source.to_string())),
            AskedFor::Policy { .. } => (None, None),
        },
        _ => (None, None),
    }
}

fn any<T>(wanted: &[T], is: impl Fn(&T) -> bool) -> bool {
    wanted.is_empty() || wanted.iter().any(is)
}

fn naively(filter: &Filter, kind: &str, record: Option<&Record>) -> bool {
    let own = matches!(kind, "seal" | "segment" | "published");
    let of_kind = match filter.kinds.is_empty() {
        true => filter.own_kinds || !own,
        false => filter.kinds.iter().any(|wanted| wanted == kind),
    };
    if !of_kind {
        return false;
    }
    let decision = match record {
        Some(Record::Decision(decision)) => Some(decision),
        _ => None,
    };
    let (id, source) = record.map(asked).unwrap_or_default();
    let time = record.map(Record::timestamp);
    let said: Vec<&str> = match record {
        Some(Record::Decision(decision)) => words(decision),
        Some(Record::Council(council)) => match council.outcome.as_str() {
            "APPROVE" => vec!["approve"],
            "REJECT" => vec!["reject"],
            _ => vec!["needs_more_info"],
        },
        _ => Vec::new(),
    };
    let symbol = match record {
        Some(Record::Market(rows)) => Some(rows.symbol.clone()),
        _ => decision.and_then(|decision| decision.symbol.clone()),
    };
    let changes = record
        .map(|record| serde_json::to_string(record.changes()).unwrap())
        .unwrap_or_default();
    let checks = |failed: bool| -> Vec<&str> {
        let rows = decision
            .map(|decision| decision.checks.iter())
            .into_iter()
            .flatten();
        rows.filter(|row| !failed || !row.passed)
            .map(|row| row.name.as_ref())
            .collect()
    };
    any(&filter.request_ids, |wanted| id.as_ref() == Some(wanted))
        && any(&filter.sources, |wanted| source.as_ref() == Some(wanted))
        && filter
            .from
            .is_none_or(|from| time.is_some_and(|time| time >= from))
        && filter
            .to
            .is_none_or(|to| time.is_some_and(|time| time < to))
        && any(&filter.actions, |wanted| {
            decision
                .and_then(|decision| decision.action.as_deref())
                .is_some_and(|action| {
                    wanted
                        .strip_suffix('*')
                        .map_or(action == wanted, |start| action.starts_with(start))
                })
        })
        && any(&filter.outcomes, |wanted| said.contains(&wanted.as_str()))
        && any(&filter.codes, |wanted| {
            decision.and_then(|decision| decision.metadata.code) == Some(*wanted)
        })
        && any(&filter.checks, |wanted| {
            checks(false).contains(&wanted.as_str())
        })
        && any(&filter.failed_checks, |wanted| {
            checks(true).contains(&wanted.as_str())
        })
        && any(&filter.symbols, |wanted| symbol.as_ref() == Some(wanted))
        && any(&filter.strategies, |wanted| {
            decision.and_then(|decision| decision.strategy.as_ref()) == Some(wanted)
        })
        && any(&filter.orders, |wanted| {
            decision.and_then(|decision| decision.order_id) == Some(*wanted)
                || changes.contains(&format!("\"{wanted}\""))
        })
}

fn found(books: &Books, filter: &Filter, newest: Option<usize>) -> Vec<u64> {
    let mut found = Vec::new();
    books
        .find(filter, newest, &mut |line| -> Result<(), HomeError> {
            found.push(line.seq);
            Ok(())
        })
        .unwrap();
    found
}

type Lines = [(u64, String, Option<Record>)];

fn pick(dice: &mut Dice, n: usize) -> usize {
    usize::try_from(dice.below(u64::try_from(n).unwrap())).unwrap()
}

/// A filter of values that lines have, and of some that none has.
fn random_filter(dice: &mut Dice, lines: &Lines) -> Filter {
    let mut filter = Filter::default();
    let records: Vec<&Record> = lines
        .iter()
        .filter_map(|(_, _, record)| record.as_ref())
        .collect();
    let decisions: Vec<&Decision> = records
        .iter()
        .filter_map(|record| match record {
            Record::Decision(decision) => Some(decision.as_ref()),
            _ => None,
        })
        .collect();
    for _ in 0..=dice.up_to(3) {
        let record = records[pick(dice, records.len())];
        let decision = decisions[pick(dice, decisions.len())];
        match dice.below(14) {
            0 => filter.request_ids.extend(asked(record).0),
            1 => filter.request_ids.push("nobody".to_owned()),
            2 => filter.sources.extend(asked(record).1),
            3 => filter.actions.extend(decision.action.clone()),
            4 => filter
                .actions
                .push(["order.*", "*", "market.i*", "nothing.*"][pick(dice, 4)].to_owned()),
            5 => filter
                .outcomes
                .push(Outcome::ALL[pick(dice, Outcome::ALL.len())]),
            6 => filter.codes.extend(decision.metadata.code),
            7 => filter
                .checks
                .extend(decision.checks.first().map(|row| row.name.to_string())),
            8 => filter.failed_checks.extend(
                decision
                    .checks
                    .iter()
                    .find(|row| !row.passed)
                    .map(|row| row.name.to_string()),
            ),
            9 => filter
                .symbols
                .push(["BTC-USD", "DOGE-USD"][pick(dice, 2)].to_owned()),
            10 => filter.strategies.extend(decision.strategy.clone()),
            11 => filter.orders.extend(
                decision
                    .order_id
                    .map(|id| if dice.one_in(2) { id } else { id.stop() }),
            ),
            12 => {
                filter.kinds.push(
                    ["decision", "market", "seal", "stop", "council", "input"][pick(dice, 6)]
                        .to_owned(),
                );
            }
            _ => filter.own_kinds = dice.one_in(2),
        }
    }
    if dice.one_in(3) {
        filter.from = Some(records[pick(dice, records.len())].timestamp());
    }
    if dice.one_in(3) {
        filter.to = Some(records[pick(dice, records.len())].timestamp());
    }
    filter
}

/// Compares what is found with, without and beside an index with a naive reading.
fn check(books: &[(&str, Books)], lines: &Lines, seed: u64, rounds: usize) -> usize {
    let mut dice = Dice::new(seed);
    let mut hits = 0;
    for round in 0..rounds {
        let filter = random_filter(&mut dice, lines);
        let expected: Vec<u64> = lines
            .iter()
            .filter(|(_, kind, record)| naively(&filter, kind, record.as_ref()))
            .map(|(seq, ..)| *seq)
            .collect();
        let most = dice.up_to(30);
        for (name, books) in books {
            let all = found(books, &filter, None);
            assert_eq!(
                all, expected,
                "{name}, seed {seed}, round {round}: {filter:?}"
            );
            let newest = found(books, &filter, Some(most));
            let from = expected.len().saturating_sub(most);
            assert_eq!(
                newest,
                expected[from..],
                "{name}, newest {most}, seed {seed}, round {round}: {filter:?}"
            );
        }
        hits += usize::from(!expected.is_empty());
    }
    hits
}

fn at(home: &Path) -> Books {
    Books::of_home(home, &real_seams(home).unwrap()).unwrap()
}

fn in_folder(home: &Path) -> Books {
    Books::of_folder(
        Arc::new(RealDisk::open(&home.join("audit")).unwrap()),
        Path::new(""),
    )
}

#[test]
fn the_same_is_found_with_and_without_the_index() {
    let home = demo();
    let lines = crate::kit::lines(home).unwrap();
    let books = [
        ("index", at(home)),
        ("no index", at(home).without_index()),
        ("folder", in_folder(home)),
    ];
    assert!(books[0].1.has_index() && !books[1].1.has_index());
    let rounds = campaign(50, 150);
    let hits = check(&books, &lines, 7, rounds);
    assert!(hits > rounds / 5, "{hits} of {rounds}");
}

#[test]
fn an_index_that_is_behind_damaged_or_of_another_log_changes_nothing() {
    let dir = shelf();
    let home = dir.path().join("home");
    copy(demo(), &home);
    let database = |sql: &str| {
        Connection::open(home.join("state/state.db"))
            .unwrap()
            .execute(sql, [])
            .unwrap();
    };
    let old = dir.path().join("old");
    copy(&home.join("state"), &old);
    for n in 1..4 {
        succeed(
            &home,
            &["account", "deposit", &n.to_string(), "--reason", "more"],
        );
    }
    let lines = crate::kit::lines(&home).unwrap();
    // What a killed gate left behind: nothing of it was ever sealed.
    let mut log = fs::OpenOptions::new()
        .append(true)
        .open(home.join("audit/log-00000001.jsonl"))
        .unwrap();
    log.write_all(b"{\"prev\":\"00").unwrap();
    let compare = |what: &str, has_index: bool| {
        let books = [("damaged", at(&home)), ("folder", in_folder(&home))];
        assert_eq!(books[0].1.has_index(), has_index, "{what}");
        check(&books, &lines, 11, 20);
    };
    compare("whole", true);
    for ending in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(home.join(format!("state/state.db{ending}")));
    }
    fs::copy(old.join("state.db"), home.join("state/state.db")).unwrap();
    compare("behind", true);
    database("UPDATE lines SET leaf = replace(leaf, '1', '2') WHERE seq > 150 AND seq < 300");
    compare("other hashes", true);
    database("UPDATE lines SET leaf = 'x', segment = 9 WHERE seq > 100");
    compare("no hashes", true);
    database("UPDATE tip SET position = replace(position, '\"head\":\"', '\"head\":\"0')");
    compare("another log", false);
    fs::write(home.join("state/state.db"), b"no database").unwrap();
    compare("none", false);
}

// Ledgers by hand: chained and sealed, with a seal that nobody vouches for, which looking things up
// does not ask.

struct Hand {
    seq: u64,
    batch: u64,
    head: Hash,
}

impl Hand {
    fn new() -> Hand {
        Hand {
            seq: 0,
            batch: 0,
            head: Hash::ZERO,
        }
    }

    fn line(&mut self, kind: &str, body: &str) -> Vec<u8> {
        let mut text = line::render(&self.head, self.seq, self.batch, kind, body)
            .unwrap()
            .into_bytes();
        assert!(text.len() <= LINE_BYTES_MAX);
        self.head = leaf_hash(&text);
        self.seq += 1;
        text.push(b'\n');
        text
    }

    fn batch(&mut self, lines: &[(&str, String)]) -> Vec<u8> {
        let mut bytes: Vec<u8> = lines
            .iter()
            .flat_map(|(kind, body)| self.line(kind, body))
            .collect();
        let seal = Seal::sign(
            &SigningKey::from_bytes(&[1; 32]),
            "by.hand",
            self.seq,
            &Hash::ZERO,
            &self.head,
        );
        bytes.extend(self.line("seal", &seal.body()));
        self.batch += 1;
        bytes
    }
}

fn note(text: &str) -> (&'static str, String) {
    (
        "start",
        serde_json::json!({"timestamp": "2026-03-02T12:00:00.000Z", "note": text, "changes": []})
            .to_string(),
    )
}

fn hostile_decision(id: &str) -> (&'static str, String) {
    let body = serde_json::json!({
        "timestamp": "2026-03-02T12:00:01.000Z", "id": "1", "request_id": id, "action": HOSTILE, "source": HOSTILE,
        "direction": "response", "status": "rejected", "spool": "flat", "file": HOSTILE, "lane": "ordinary",
        "strategy": HOSTILE, "symbol": HOSTILE, "side": HOSTILE, "size": "-12.50",
        "payload": format!("{{\"price\":{}}}", serde_json::Value::from(HOSTILE)),
        "checks": [{"name": HOSTILE, "passed": false, "value": "-3", "limit": "2", "source": HOSTILE, "unit": HOSTILE}],
        "decision": "REJECTED", "metadata": {"code": "CHECKS_FAILED", "message": HOSTILE},
        "answer": "out/x.json", "rulebook": HOSTILE, "changes": [],
    });
    ("decision", body.to_string())
}

/// An audit folder with these files.
fn folder(files: &[(u32, Vec<u8>)]) -> TempDir {
    let dir = shelf();
    for (number, bytes) in files {
        fs::write(dir.path().join(format!("log-{number:08}.jsonl")), bytes).unwrap();
    }
    dir
}

fn over(dir: &TempDir, args: &[&str]) -> std::process::Output {
    Command::new(PROGRAM)
        .args(args)
        .arg(dir.path())
        .output()
        .unwrap()
}

fn harmless(what: &str, bytes: &[u8]) {
    let text = std::str::from_utf8(bytes).unwrap();
    let bad = text
        .chars()
        .find(|c| (c.is_control() && !"\r\n".contains(*c)) || *c == '\u{202e}');
    assert_eq!(bad, None, "{what}: {text}");
}

#[test]
fn nothing_that_agents_wrote_is_obeyed_by_a_terminal() {
    let mut hand = Hand::new();
    let dir = folder(&[(
        1,
        hand.batch(&[note("begins"), hostile_decision(HOSTILE), note(HOSTILE)]),
    )]);
    for args in [
        &["audit", "query"][..],
        &["audit", "tail"],
        &["--format", "json", "audit", "query"],
        &["audit", "export", "--format", "csv"],
    ] {
        let done = over(&dir, args);
        assert!(done.status.success(), "{args:?}: {}", show(&done));
        harmless(&format!("{args:?}"), &done.stdout);
        harmless(&format!("{args:?}"), &done.stderr);
        assert!(
            done.stdout.windows(4).any(|part| part == b"calc"),
            "{}",
            show(&done)
        );
    }
    // Colours are ours, and only where they are asked for.
    let done = over(&dir, &["audit", "query", "--color", "always"]);
    assert!(
        done.stdout.windows(5).any(|part| part == b"\x1b[31m"),
        "{}",
        show(&done)
    );
    assert_eq!(
        String::from_utf8(done.stdout)
            .unwrap()
            .matches('\u{1b}')
            .count(),
        8
    );
}

/// Rows of CSV by RFC 4180.
fn csv(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut cell, mut quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '"' if quoted && rest.peek() == Some(&'"') => cell.extend(rest.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut cell)),
            '\r' if !quoted && rest.peek() == Some(&'\n') => {
                rest.next();
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            c => cell.push(c),
        }
    }
    assert!(
        !quoted && cell.is_empty() && row.is_empty(),
        "the last row ends with CRLF"
    );
    rows
}

#[test]
fn csv_has_a_fixed_header_numbers_that_are_numbers_and_no_formulas() {
    let mut hand = Hand::new();
    let dir = folder(&[(1, hand.batch(&[note("begins"), hostile_decision("=id")]))]);
    let done = over(
        &dir,
        &["audit", "export", "--format", "csv", "--kind", "decision"],
    );
    let rows = csv(std::str::from_utf8(&done.stdout).unwrap());
    assert_eq!(
        rows[0].join(","),
        "line,time,kind,request_id,action,source,status,decision,code,message,strategy,symbol,side,size,order_id,failed_checks,rulebook,leaf"
    );
    assert_eq!((rows.len(), rows[1].len()), (2, 18));
    let cell = |name: &str| &rows[1][rows[0].iter().position(|column| column == name).unwrap()];
    assert_eq!(
        [
            cell("line"),
            cell("size"),
            cell("status"),
            cell("decision"),
            cell("code"),
            cell("request_id")
        ],
        [
            "1",
            "-12.50",
            "rejected",
            "REJECTED",
            "CHECKS_FAILED",
            "'=id"
        ]
    );
    for name in [
        "action",
        "source",
        "message",
        "strategy",
        "symbol",
        "side",
        "failed_checks",
        "rulebook",
    ] {
        assert_eq!(
            cell(name),
            "'=cmd|' /C calc'!A1\\u{1b}[31m\\u{202e}\\u{7}\\r\\n\\t;'=1,\"'+2\"",
            "{name}"
        );
    }
    // Every line and its leaf hash, of a real ledger.
    let log = fs::read_to_string(demo().join("audit/log-00000001.jsonl")).unwrap();
    let rows = csv(&succeed(
        demo(),
        &["audit", "export", "--format", "csv", "--all"],
    ));
    assert_eq!(rows.len(), log.lines().count() + 1);
    for (row, line) in rows[1..].iter().zip(log.lines()) {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(row[0], value["seq"].to_string());
        assert_eq!(row[17], leaf_hash(line.as_bytes()).to_string());
        if value["kind"] == "decision" {
            assert_eq!(row[3], value["request_id"].as_str().unwrap_or_default());
            assert_eq!(row[13], value["size"].as_str().unwrap_or_default());
        }
    }
}

#[test]
fn an_export_is_whole_or_not_there_and_knows_both_orders_of_its_format() {
    let dir = shelf();
    let out = dir.path().join("lines");
    let path = out.to_str().unwrap();
    let log = fs::read(demo().join("audit/log-00000001.jsonl")).unwrap();
    for args in [
        &["audit", "export", "--format", "jsonl", "--all"][..],
        &["--format", "jsonl", "audit", "export", "--all"],
        &["--format", "json", "audit", "export", "--all"],
    ] {
        let done = command(demo(), args)
            .args(["--out", path])
            .output()
            .unwrap();
        assert!(done.status.success(), "{args:?}: {}", show(&done));
        assert_eq!(fs::read(&out).unwrap(), log, "{args:?}");
        let again = command(demo(), args)
            .args(["--out", path])
            .output()
            .unwrap();
        assert_eq!(again.status.code(), Some(2), "{}", show(&again));
        fs::remove_file(&out).unwrap();
        assert_eq!(spoolgate(demo(), args).stdout, log, "{args:?}");
    }
    let one = ["-n", "1", "--out", path];
    for args in [
        &["audit", "export", "--format", "csv"][..],
        &["--format", "csv", "audit", "export"],
        &["--format", "json", "audit", "export", "--format", "csv"],
        &["audit", "export"],
    ] {
        let done = command(demo(), args)
            .args(one)
            .arg("--force")
            .output()
            .unwrap();
        assert!(done.status.success(), "{args:?}: {}", show(&done));
        assert_eq!(csv(&fs::read_to_string(&out).unwrap()).len(), 2, "{args:?}");
    }
    for args in [
        &["--format", "csv", "portfolio"][..],
        &["audit", "query", "--format", "jsonl"],
    ] {
        assert_eq!(spoolgate(demo(), args).status.code(), Some(2), "{args:?}");
    }
    // A ledger that cannot be read to its end leaves what was there, and nothing beside it.
    let before = fs::read(&out).unwrap();
    let mut hand = Hand::new();
    let bytes = [
        hand.batch(&[note("a")]),
        b"junk\n".to_vec(),
        hand.batch(&[note("b")]),
        { hand.batch(&[note("c")]) },
    ]
    .concat();
    let damaged = folder(&[(1, bytes)]);
    let done = over(&damaged, &["audit", "export", "--out", path, "--force"]);
    assert_eq!(done.status.code(), Some(5), "{}", show(&done));
    assert_eq!(fs::read(&out).unwrap(), before);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    let inside = damaged.path().join("log-00000001.jsonl");
    let done = over(
        &damaged,
        &[
            "audit",
            "export",
            "--force",
            "--out",
            inside.to_str().unwrap(),
        ],
    );
    assert_eq!(done.status.code(), Some(2), "{}", show(&done));
}

#[test]
fn what_is_not_sealed_is_not_shown_and_what_is_cut_off_is_not_passed_over() {
    let seqs = |dir: &TempDir| {
        let done = over(dir, &["--format", "json", "audit", "query"]);
        let lines = String::from_utf8(done.stdout).unwrap();
        let seqs: Vec<u64> = lines
            .lines()
            .map(|line| {
                serde_json::from_str::<serde_json::Value>(line).unwrap()["seq"]
                    .as_u64()
                    .unwrap()
            })
            .collect();
        (done.status.code().unwrap(), seqs)
    };
    let mut hand = Hand::new();
    let first = hand.batch(&[note("a"), note("b")]);
    let second = hand.batch(&[note("c")]);
    let whole = [first.clone(), second.clone()].concat();
    for cut in (first.len()..whole.len())
        .step_by(31)
        .chain([whole.len() - 1])
    {
        assert_eq!(
            seqs(&folder(&[(1, whole[..cut].to_vec())])),
            (0, vec![0, 1]),
            "cut at {cut}"
        );
    }
    assert_eq!(seqs(&folder(&[(1, whole.clone())])), (0, vec![0, 1, 3]));
    // Pages of the torn batch that never reached the medium, with the seal behind them.
    let mut torn = whole.clone();
    let middle = first.len() + 120;
    torn[middle..middle + 20].fill(0);
    assert_eq!(seqs(&folder(&[(1, torn)])), (0, vec![0, 1]));

    // The next segment says where this one ended.
    let segment = |length: usize| {
        let body = serde_json::json!({
            "previous": {"file": "log-00000001.jsonl", "length": length, "lines": 5, "head": "00"}, "rest": null,
        });
        ("segment", body.to_string())
    };
    let next = hand.batch(&[segment(whole.len()), note("d")]);
    assert_eq!(
        seqs(&folder(&[(1, whole.clone()), (2, next.clone())])),
        (0, vec![0, 1, 3, 6])
    );
    assert_eq!(seqs(&folder(&[(1, first.clone()), (2, next.clone())])).0, 5);
    let flipped = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        bytes
    };
    for place in [10, 100, first.len() - 3] {
        assert_eq!(
            seqs(&folder(&[(1, flipped(place)), (2, next.clone())])).0,
            5,
            "{place}"
        );
        assert_eq!(seqs(&folder(&[(1, flipped(place))])).0, 5, "{place}");
    }
}

#[test]
fn the_program_finds_by_request_time_verdict_check_and_number() {
    let home = demo();
    let json = |args: &[&str]| -> Vec<serde_json::Value> {
        let told = succeed(
            home,
            &[&["--format", "json", "audit", "query"], args].concat(),
        );
        told.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    let of = |lines: &[serde_json::Value], name: &str| -> Vec<String> {
        lines
            .iter()
            .map(|line| line[name].as_str().unwrap_or_default().to_owned())
            .collect()
    };
    assert_eq!(
        of(&json(&["--request", "buy-big"]), "request_id"),
        ["buy-big"]
    );
    let refused = json(&[
        "--action",
        "order.*",
        "--verdict",
        "REJECTED",
        "--code",
        "checks_failed",
    ]);
    assert!(
        refused.len() > 5 && refused.iter().all(|line| line["status"] == "rejected"),
        "{refused:?}"
    );
    let sizes = json(&["--check-failed", "max_single_position"]);
    assert!(!sizes.is_empty() && json(&["--check", "max_single_position"]).len() > sizes.len());
    let early = json(&[
        "--from",
        "2018-04-05T00:10:00Z",
        "--to",
        "2018-04-05T00:12:00Z",
        "--kind",
        "decision",
    ]);
    assert!(
        !early.is_empty()
            && of(&early, "timestamp")
                .iter()
                .all(|time| time.starts_with("2018-04-05T00:1"))
    );
    let last = json(&["-n", "3"]);
    assert_eq!(last.len(), 3);
    assert!(last[0]["seq"].as_u64() < last[2]["seq"].as_u64() && last[2]["kind"] == "stop");
    // An order: made, filled, stopped.
    let made = json(&["--action", "order.submit", "--verdict", "accepted"]);
    let order = made[0]["order_id"].as_str().unwrap();
    assert!(json(&["--order", order]).len() > 1);
    let table = succeed(home, &["audit", "query", "--request", "buy-big"]);
    for word in [
        "rejected",
        "trend-bot",
        "order.submit buy 0.1 BTC-USD @ 6750",
        "max_single_position",
        "(limit 250 usd)",
    ] {
        assert!(table.contains(word), "no {word:?} in\n{table}");
    }
    assert!(!table.contains('\u{1b}'), "{table}");
    assert_eq!(
        succeed(home, &["audit", "query", "--request", "nobody"]),
        "no such lines\n"
    );
    for wrong in [
        &["--from", "yesterday"][..],
        &["--verdict", "maybe"],
        &["--code", "NOTHING"],
        &["--order", "42"],
        &["--kind", "nothing"],
    ] {
        let done = spoolgate(home, &[&["audit", "query"], wrong].concat());
        assert_eq!(done.status.code(), Some(2), "{wrong:?}: {}", show(&done));
    }
    let nowhere = spoolgate(home, &["audit", "query", "/nonexistent"]);
    assert_eq!(nowhere.status.code(), Some(2), "{}", show(&nowhere));
    let times: Time = Time::parse("2018-04-05T00:00:00Z").unwrap();
    assert!(
        found(
            &at(home),
            &Filter {
                to: Some(times),
                ..Filter::default()
            },
            None
        )
        .is_empty()
    );
    assert!(OrderId::parse(order).is_ok());
}

// Following.

struct Followed {
    child: Child,
    lines: Receiver<String>,
}

impl Followed {
    fn over(home: &Path, args: &[&str]) -> Followed {
        let mut child = command(home, &["--format", "json", "audit", "tail", "-f"])
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (sender, lines) = channel();
        let out = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            out.lines()
                .map_while(Result::ok)
                .try_for_each(|line| sender.send(line))
        });
        Followed { child, lines }
    }

    /// The request of the next line.
    fn next(&self) -> Option<String> {
        let line = self.lines.recv_timeout(Duration::from_secs(30)).ok()?;
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        Some(
            line["request_id"]
                .as_str()
                .unwrap_or(line["kind"].as_str().unwrap())
                .to_owned(),
        )
    }

    fn end(mut self) -> Option<i32> {
        let pid = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-INT", &pid])
                .status()
                .unwrap()
                .success()
        );
        self.child.wait().unwrap().code()
    }
}

#[test]
fn what_comes_is_followed_over_a_killed_gate_and_a_new_segment() {
    let scratch = Scratch::new();
    let home = scratch.home();
    let ask = |id: &str| {
        let file = scratch.beside("r.json");
        fs::write(&file, scratch.query(id).bytes).unwrap();
        succeed(&home, &["handle", file.to_str().unwrap()]);
    };
    ask("before");
    let followed = Followed::over(&home, &["-n", "1", "--kind", "decision"]);
    assert_eq!(followed.next().as_deref(), Some("before"));
    ask("one");
    assert_eq!(followed.next().as_deref(), Some("one"));
    // A gate that was killed inside its batch: a whole line of it, and the start of another.
    let log = home.join("audit/log-00000001.jsonl");
    let bytes = fs::read(&log).unwrap();
    let last = bytes.split(|byte| *byte == b'\n').rev().nth(1).unwrap();
    let seal = line::parse(last).unwrap();
    let mut hand = Hand {
        seq: seal.seq + 1,
        batch: seal.batch + 1,
        head: leaf_hash(last),
    };
    let mut torn = hand.line("decision", &hostile_decision("never-sealed").1);
    torn.extend_from_slice(b"{\"prev\":\"12");
    fs::OpenOptions::new()
        .append(true)
        .open(&log)
        .unwrap()
        .write_all(&torn)
        .unwrap();
    std::thread::sleep(Duration::from_millis(600));
    ask("two");
    ask("three");
    assert!(
        home.join("audit/log-00000002.jsonl").exists(),
        "the next gate begins a new segment"
    );
    assert_eq!(followed.next().as_deref(), Some("two"));
    assert_eq!(followed.next().as_deref(), Some("three"));
    assert_eq!(followed.end(), Some(0));
}

#[test]
fn a_ledger_is_waited_for_and_nobody_follows_for_a_reader_who_left() {
    let dir = shelf();
    let home = dir.path().join("later");
    let followed = Followed::over(&home, &[]);
    std::thread::sleep(Duration::from_millis(400));
    let done = Command::new(PROGRAM)
        .arg("init")
        .arg(&home)
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", show(&done));
    assert_eq!(followed.next().as_deref(), Some("genesis"));
    assert_eq!(followed.end(), Some(0));
    // It is there as well when its first segment is archived.
    for args in [
        &["audit", "rotate", "--reason", "r"][..],
        &["audit", "archive"],
    ] {
        let done = command(&home, args).output().unwrap();
        assert!(done.status.success(), "{}", show(&done));
    }
    let followed = Followed::over(&home, &[]);
    assert_eq!(followed.next().as_deref(), Some("genesis"));
    assert_eq!(followed.end(), Some(0));

    let mut child = command(&home, &["audit", "tail", "-f"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut heading = String::new();
    out.read_line(&mut heading).unwrap();
    assert!(heading.contains("OUTCOME"), "{heading}");
    drop(out);
    let started = Instant::now();
    let code = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status.code();
        }
        assert!(
            started.elapsed() < Duration::from_secs(20),
            "it goes on for nobody"
        );
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(code, Some(0));
}

#[test]
fn a_file_is_followed_when_it_is_removed_and_another_ledger_is_noticed() {
    let mut hand = Hand::new();
    let first = hand.batch(&[note("a")]);
    let dir = folder(&[(1, first.clone())]);
    let books = || Books::of_folder(Arc::new(RealDisk::open(dir.path()).unwrap()), Path::new(""));
    let end = books().end().unwrap();
    let mut follower = Follower::new(books(), end).unwrap();
    let mut seen: Vec<u64> = Vec::new();
    let mut poll = |follower: &mut Follower| {
        let mut visit = |line: &spoolgate_ledger::batches::Line| -> Result<(), HomeError> {
            seen.extend((line.kind != "seal").then_some(line.seq));
            Ok(())
        };
        let remarks = follower.poll(&mut visit).map_err(|error| error.to_string());
        (remarks, std::mem::take(&mut seen))
    };
    let nothing: (Result<Vec<String>, String>, Vec<u64>) = (Ok(Vec::new()), Vec::new());
    assert_eq!(poll(&mut follower), nothing);
    let log = dir.path().join("log-00000001.jsonl");
    let second = hand.batch(&[note("b"), note("c")]);
    let append = |bytes: &[u8]| {
        fs::OpenOptions::new()
            .append(true)
            .open(&log)
            .unwrap()
            .write_all(bytes)
            .unwrap()
    };
    // Bit by bit, as a reader may meet it.
    for part in second[..second.len() - 1].chunks(37) {
        append(part);
        assert_eq!(poll(&mut follower), nothing);
    }
    append(b"\n");
    assert_eq!(poll(&mut follower), (Ok(Vec::new()), vec![2, 3]));
    // Archived: the plain file goes away when there is a next one. What it still got is read from
    // what is held open.
    let third = hand.batch(&[note("d")]);
    append(&third);
    let length = first.len() + second.len() + third.len();
    fs::remove_file(&log).unwrap();
    let body = serde_json::json!({
        "previous": {"file": "log-00000001.jsonl", "length": length, "lines": 7, "head": "00"}, "rest": null,
    });
    let next = hand.batch(&[("segment", body.to_string()), note("e")]);
    fs::write(dir.path().join("log-00000002.jsonl"), &next).unwrap();
    assert_eq!(poll(&mut follower), (Ok(Vec::new()), vec![5, 7, 8]));
    // Somebody puts another file there.
    fs::write(dir.path().join("other"), &first).unwrap();
    fs::rename(
        dir.path().join("other"),
        dir.path().join("log-00000002.jsonl"),
    )
    .unwrap();
    let (told, _) = poll(&mut follower);
    assert!(told.unwrap_err().contains("not the file any more"));
}

// SQL over the index.

/// The blocks of SQL in the section of that name.
fn documented() -> Vec<String> {
    let text = include_str!("../../../docs/evidence.md");
    let section = text
        .split("## SQL over the index")
        .nth(1)
        .unwrap()
        .split("\n## ")
        .next()
        .unwrap();
    section
        .split("```sql\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap().trim().to_owned())
        .collect()
}

#[test]
fn every_documented_query_says_something_of_the_demo() {
    let path = demo().join("state/state.db");
    let database = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let queries = documented();
    assert!(queries.len() >= 8, "{}", queries.len());
    let program = Command::new("sqlite3").arg("--version").output().is_ok();
    if !program {
        println!("skipped: the sqlite3 program: it is not installed");
    }
    let mut said = Vec::new();
    for sql in &queries {
        let mut statement = database
            .prepare(sql)
            .unwrap_or_else(|error| panic!("{sql}: {error}"));
        let columns = statement.column_count();
        let rows: Vec<Vec<String>> = statement
            .query_map([], |row| {
                (0..columns)
                    .map(|column| {
                        Ok(match row.get_ref(column)? {
                            rusqlite::types::ValueRef::Null => String::new(),
                            rusqlite::types::ValueRef::Integer(n) => n.to_string(),
                            rusqlite::types::ValueRef::Real(n) => n.to_string(),
                            other => other.as_str()?.to_owned(),
                        })
                    })
                    .collect()
            })
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert!(!rows.is_empty(), "nothing: {sql}");
        if program {
            // Other tests read the same file meanwhile, and the program waits for nobody by itself.
            let patient = ["-readonly", "-json", "-cmd", ".timeout 20000"];
            let done = Command::new("sqlite3")
                .args(patient)
                .arg(&path)
                .arg(sql)
                .output()
                .unwrap();
            let told: Vec<serde_json::Value> = serde_json::from_slice(&done.stdout)
                .unwrap_or_else(|_| panic!("{sql}: {}", show(&done)));
            assert_eq!(told.len(), rows.len(), "{sql}");
        }
        said.push(rows);
    }
    let all: Vec<String> = said.iter().flatten().map(|row| row.join("|")).collect();
    for row in [
        "2018-04-05T00:10:00.000Z|trend-bot|order.submit|buy-big|CHECKS_FAILED",
        "2018-04-05T00:38:00.000Z|o-34|entry|buy|0.03|6760",
    ] {
        assert!(
            all.iter().any(|found| found.contains(row)),
            "{row}\n{}",
            all.join("\n")
        );
    }
    // What views say is what the ledger says.
    let counted: i64 = database
        .query_row("SELECT count(*) FROM decisions", [], |row| row.get(0))
        .unwrap();
    assert_eq!(
        counted,
        i64::try_from(crate::kit::decisions(demo()).unwrap().len()).unwrap()
    );
    let times = database
        .prepare("SELECT line, time FROM decisions UNION ALL SELECT line, time FROM events")
        .unwrap()
        .query_map([], |row| {
            Ok((u64::from(row.get::<_, u32>(0)?), row.get::<_, String>(1)?))
        })
        .unwrap()
        .collect::<Result<std::collections::BTreeMap<_, _>, _>>()
        .unwrap();
    for (seq, kind, record) in crate::kit::lines(demo()).unwrap() {
        let time = record
            .as_ref()
            .filter(|_| kind != "published")
            .map(|record| record.timestamp().to_string());
        assert_eq!(times.get(&seq), time.as_ref(), "line {seq}");
    }
}

#[test]
fn a_long_reader_neither_stops_the_gate_nor_leaves_the_file_beside_the_index_large() {
    let desk = Desk::with_limits("");
    let mut home = desk.open();
    let path = desk.place.root.path().join("state/state.db");
    let beside = || fs::metadata(format!("{}-wal", path.display())).map_or(0, |file| file.len());
    let ask = |home: &mut spoolgate_home::Home, name: &str| {
        for n in 0..150 {
            desk.ask(
                "hermes",
                &format!("{name}-{n}"),
                "market.get",
                r#"{"symbol":"BTC-USD"}"#,
            );
            assert_eq!(drain(home).unwrap().len(), 1);
        }
    };
    ask(&mut home, "alone");
    let alone = beside();
    let reader = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let count = |reader: &Connection| -> i64 {
        reader
            .query_row("SELECT count(*) FROM decisions", [], |row| row.get(0))
            .unwrap()
    };
    reader.execute_batch("BEGIN").unwrap();
    let before = count(&reader);
    ask(&mut home, "beside");
    let with_reader = beside();
    assert_eq!(
        count(&reader),
        before,
        "a reader sees what was there when it began"
    );
    reader.execute_batch("COMMIT").unwrap();
    assert_eq!(count(&reader), before + 150);
    ask(&mut home, "after");
    ask(&mut home, "later");
    let later = beside();
    println!(
        "file beside the index after 150 batches: {alone} bytes alone, {with_reader} beside a \
            reader, {later} 300 batches after it"
    );
    // What a batch adds is bounded; what is there when the reader is gone is used again.
    assert!(with_reader < alone + 150 * 100_000, "{alone} {with_reader}");
    assert!(
        later <= with_reader.max(alone) + 4_200_000,
        "{with_reader} {later}"
    );
}
