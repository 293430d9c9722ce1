//! Lines are looked up, exported and followed: the result is the same with the index, without it
//! and by a naive reading; unsealed lines are never shown; and no output can control a terminal or
//! a spreadsheet.

mod follow;
mod output;

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

/// Returns the demo's home, which no test changes: orders, refusals, a council, admission, control.
fn demo() -> &'static Path {
    static DEMO: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let (_, home) = DEMO.get_or_init(|| {
        let dir = crate::kit::folder();
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

/// Draws a filter of values that lines have, and of some that no line has.
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

/// Compares the results with, without and beside an index with a naive reading.
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
    let dir = crate::kit::folder();
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
    // The unsealed lines that a killed gate left behind.
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

// Ledgers made by hand: chained and sealed with a seal that nobody signed, because look-ups do not
// check signatures.

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
        "timestamp": "2026-03-02T12:00:01.000Z", "id": "1", "request_id": id, "action": HOSTILE,
            "source": HOSTILE,
        "direction": "response", "status": "rejected", "spool": "flat", "file": HOSTILE,
            "lane": "ordinary",
        "strategy": HOSTILE, "symbol": HOSTILE, "side": HOSTILE, "size": "-12.50",
        "payload": format!("{{\"price\":{}}}", serde_json::Value::from(HOSTILE)),
        "checks": [{"name": HOSTILE, "passed": false, "value": "-3", "limit": "2",
            "source": HOSTILE, "unit": HOSTILE}],
        "decision": "REJECTED", "metadata": {"code": "CHECKS_FAILED", "message": HOSTILE},
        "answer": "out/x.json", "rulebook": HOSTILE, "changes": [],
    });
    ("decision", body.to_string())
}

/// Makes an audit folder with these files.
fn folder(files: &[(u32, Vec<u8>)]) -> TempDir {
    let dir = crate::kit::folder();
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

// SQL over the index.

/// Returns the blocks of SQL in the section of that name.
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
            // Other tests read the same file meanwhile, and the program does not wait by itself.
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
        "2018-04-05T00:38:00.000Z|o-44|entry|buy|0.03|6760",
    ] {
        assert!(
            all.iter().any(|found| found.contains(row)),
            "{row}\n{}",
            all.join("\n")
        );
    }
    // The views agree with the ledger.
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
