//! `audit replay`: every line of a home that has every kind of line is recomputed from the audit
//! folder alone; forgeries by the holder of the log's keys are detected and named; missing files
//! are named; the report is the same with any number of threads.

mod day;
mod forged;
mod histories;
mod honest;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::kit::memory_disk::MemoryDisk;
use crate::kit::place::copy_tree;
use crate::kit::{PROGRAM, Scratch, succeed};
use spoolgate_home::HomeError;
use spoolgate_replay::replay::{AnswerFiles, Class, Options, Report, replay};
use spoolgate_wire::code::Exit;

/// Answers by the names of their files.
type Named = BTreeMap<String, Vec<u8>>;

/// Files of an audit folder.
type Files = Vec<(PathBuf, Vec<u8>)>;

fn over(files: &Files, threads: usize) -> Result<Report, HomeError> {
    let disk = Arc::new(MemoryDisk::with(files));
    replay(
        disk,
        Path::new("audit"),
        &Options {
            threads,
            answers: None,
        },
        &mut |_| {},
    )
}

/// Replays with several numbers of threads, which must agree, and checks that every line is in one
/// row of the table.
#[track_caller]
fn replayed(files: &Files) -> Report {
    let report = over(files, 1).unwrap();
    for threads in [2, 3, 8] {
        assert_eq!(over(files, threads).unwrap(), report, "{threads} threads");
    }
    assert_eq!(
        report.rows.iter().map(|row| row.lines).sum::<u64>(),
        report.lines
    );
    report
}

fn table(report: &Report) -> BTreeMap<(Class, &str), u64> {
    report
        .rows
        .iter()
        .map(|row| ((row.class, row.what.as_str()), row.lines))
        .collect()
}

#[test]
fn a_home_with_every_kind_of_line_comes_out_the_same() {
    let files = day::audit();
    let report = replayed(&files);
    assert!(report.is_same(), "{report:#?}");
    let table = table(&report);
    let never = [Class::Differs, Class::Unreached];
    assert!(
        table.keys().all(|(class, _)| !never.contains(class)),
        "{table:#?}"
    );
    use Class::{NotAgain, Recomputed, Record};
    let wanted = [
        (Recomputed, "decision"),
        (Recomputed, "decision, an answer repeated"),
        (Recomputed, "decision, an id used before"),
        (Recomputed, "decision, refused before its payload counted"),
        (Recomputed, "decision, a hold granted"),
        (Recomputed, "decision, the end of a hold"),
        (Recomputed, "market"),
        (Recomputed, "tick"),
        (Recomputed, "dead_man"),
        (Recomputed, "council"),
        (Recomputed, "published"),
        (Recomputed, "rulebook"),
        (Recomputed, "seal"),
        (Record, "genesis"),
        (Record, "start"),
        (Record, "stop"),
        (Record, "rulebook"),
        (Record, "halt"),
        (Record, "clock_step"),
        (Record, "quota"),
        (Record, "storage"),
        (NotAgain, "no good signature: MALFORMED_JSON"),
        (NotAgain, "no good signature: MALFORMED_ENVELOPE"),
        (NotAgain, "no good signature: SIGNATURE_INVALID"),
        (NotAgain, "no good signature: BAD_FILE_NAME"),
        (NotAgain, "its payload is not kept: it was no payload"),
    ];
    let not_there: Vec<_> = wanted
        .iter()
        .filter(|row| !table.contains_key(row))
        .collect();
    assert!(not_there.is_empty(), "no {not_there:?} in {table:#?}");
    let decided: u64 = table
        .iter()
        .filter(|((_, what), _)| what.starts_with("decision"))
        .map(|(_, n)| n)
        .sum();
    assert!(report.answers >= decided, "{report:#?}");
}

#[test]
fn the_audit_folder_alone_is_enough_and_nothing_else_is_read() {
    let scratch = Scratch::with_prices();
    scratch.query("q1").drop_into(&scratch.home());
    succeed(&scratch.home(), &["run", "--until-idle"]);
    let alone = scratch.beside("alone");
    copy_tree(&scratch.home().join("audit"), &alone);
    let elsewhere = scratch.beside("nothing");
    std::fs::create_dir(&elsewhere).unwrap();
    let told = |threads: &str| {
        let done = std::process::Command::new(PROGRAM)
            .args([
                "--home",
                elsewhere.to_str().unwrap(),
                "--format",
                "json",
                "audit",
                "replay",
            ])
            .args([alone.to_str().unwrap(), "--threads", threads])
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", crate::kit::show(&done));
        String::from_utf8(done.stdout).unwrap()
    };
    let one = told("1");
    assert_eq!([told("2"), told("3")], [one.clone(), one.clone()]);
    let report: serde_json::Value = serde_json::from_str(&one).unwrap();
    assert_eq!(
        (&report["differences"], &report["missing"]),
        (&0.into(), &0.into())
    );
}

#[test]
fn the_demo_is_the_same_with_its_answers() {
    let dir = crate::kit::folder();
    let home = dir.path().join("demo");
    succeed(dir.path(), &["demo", home.to_str().unwrap()]);
    let out = home.join("spool/out");
    let told = succeed(
        &home,
        &[
            "--format",
            "json",
            "audit",
            "replay",
            "--answers",
            out.to_str().unwrap(),
        ],
    );
    let report: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!(
        (&report["differences"], &report["missing"]),
        (&0.into(), &0.into()),
        "{told}"
    );
    assert!(
        report["decisions"].as_u64().unwrap() > 100
            && report["files"]["same"].as_u64().unwrap() > 100
    );
    // Artifacts of the council's case are redacted: they are counted by name, and every answer is
    // unchanged.
    let same = report["files"]["same"].clone();
    let asked = succeed(
        &home,
        &[
            "--format",
            "json",
            "audit",
            "query",
            "--action",
            "council.request",
        ],
    );
    let asked: serde_json::Value = serde_json::from_str(&asked).unwrap();
    let line = asked["seq"].as_u64().unwrap().to_string();
    succeed(
        &home,
        &["audit", "redact", &line, "--reason", "a secret", "--yes"],
    );
    let told = succeed(
        &home,
        &[
            "--format",
            "json",
            "audit",
            "replay",
            "--answers",
            out.to_str().unwrap(),
        ],
    );
    let report: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!(
        (&report["differences"], &report["missing"]),
        (&0.into(), &0.into()),
        "{told}"
    );
    assert_eq!(
        (&report["files"]["same"], &report["files"]["unknown"]),
        (&same, &0.into()),
        "{told}"
    );
    let named = |row: &&serde_json::Value| row["what"] == "it read a redacted field";
    assert_eq!(
        report["rows"]
            .as_array()
            .unwrap()
            .iter()
            .filter(named)
            .count(),
        1,
        "{told}"
    );
}

#[test]
fn answers_on_disk_are_compared_with_those_of_the_ledger() {
    let files = day::home();
    let answers = |change: fn(&mut Named)| {
        let mut found: Named = files
            .iter()
            .filter_map(|(path, bytes)| {
                let name = path.strip_prefix("spool/out").ok()?.to_str()?.to_owned();
                Some((name, bytes.clone()))
            })
            .collect();
        change(&mut found);
        let mut files_there = AnswerFiles::default();
        found
            .iter()
            .for_each(|(name, bytes)| files_there.insert(name, bytes));
        let disk = Arc::new(MemoryDisk::with(&files));
        let options = Options {
            threads: 2,
            answers: Some(files_there),
        };
        replay(disk, Path::new("audit"), &options, &mut |_| {}).unwrap()
    };
    let report = answers(|_| {});
    let told = report.files.clone().unwrap();
    assert!(
        report.is_same() && told.same > 20 && told.changed == 0 && told.unknown == 0,
        "{report:#?}"
    );
    let before = told.missing;
    let changed = answers(|files| {
        let name = "buy-1.json".to_owned();
        let text = String::from_utf8(files[&name].clone()).unwrap();
        files.insert(name, text.replace("success", "SUCCESS").into_bytes());
    });
    let told = changed.files.clone().unwrap();
    assert!(!changed.is_same() && told.changed == 1, "{told:?}");
    assert!(
        told.changed_files[0].starts_with("buy-1.json, of line "),
        "{told:?}"
    );
    let fewer = answers(|files| {
        files.remove("buy-1.json").unwrap();
    });
    let told = fewer.files.clone().unwrap();
    assert!(fewer.is_same() && told.missing > before, "{told:?}");
    let planted = answers(|files| {
        files.insert("planted.json".to_owned(), b"{}\n".to_vec());
    });
    assert_eq!(
        (planted.is_same(), planted.files.unwrap().unknown_files),
        (false, vec!["planted.json".to_owned()])
    );
}

#[test]
fn a_lost_rulebook_or_blob_is_named_and_no_success() {
    let files = day::audit();
    let without = |part: &str| -> (Files, String) {
        let (path, _) = files
            .iter()
            .find(|(path, _)| path.to_str().unwrap().contains(part))
            .unwrap();
        let kept = files
            .iter()
            .filter(|(other, _)| other != path)
            .cloned()
            .collect();
        (kept, path.to_str().unwrap().to_owned())
    };
    let (rest, name) = without("audit/rulebooks/");
    let report = replayed(&rest);
    assert!(
        !report.is_same() && report.missing_files.contains(&name),
        "{report:#?}"
    );
    assert!(
        table(&report).contains_key(&(Class::NotAgain, "its rulebook is lost")),
        "{report:#?}"
    );
    assert_eq!(report.differences, 0, "{report:#?}");
    let blobs: Vec<&(PathBuf, Vec<u8>)> = files
        .iter()
        .filter(|(path, _)| path.starts_with("audit/blobs"))
        .collect();
    assert!(blobs.len() > 3);
    let mut named = 0;
    for (path, _) in blobs {
        let rest: Files = files
            .iter()
            .filter(|(other, _)| other != path)
            .cloned()
            .collect();
        let report = over(&rest, 1).unwrap();
        assert_eq!(report.differences, 0, "{}: {report:#?}", path.display());
        // Nothing reads the bytes of a held request that was never granted.
        named += usize::from(
            report
                .missing_files
                .contains(&path.to_str().unwrap().to_owned()),
        );
        assert_eq!(report.is_same(), report.missing == 0);
        let changed: Files = files
            .iter()
            .map(|(other, bytes)| {
                (
                    other.clone(),
                    if other == path {
                        b"x".to_vec()
                    } else {
                        bytes.clone()
                    },
                )
            })
            .collect();
        assert_eq!(
            over(&changed, 1).unwrap().missing,
            report.missing,
            "{}",
            path.display()
        );
    }
    assert!(named >= 3, "{named}");
}

#[test]
fn a_log_that_does_not_verify_is_not_replayed() {
    let files = day::audit();
    let log = Path::new("audit/log-00000001.jsonl");
    let bytes = files
        .iter()
        .find(|(path, _)| path == log)
        .unwrap()
        .1
        .clone();
    for at in [200, bytes.len() / 3, bytes.len() / 2, bytes.len() - 300] {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        for with_checkpoint in [true, false] {
            let kept = |path: &Path| with_checkpoint || path != Path::new("audit/checkpoint");
            let damaged: Files = files
                .iter()
                .filter(|(path, _)| kept(path))
                .map(|(path, bytes)| {
                    (
                        path.clone(),
                        if path == log {
                            changed.clone()
                        } else {
                            bytes.clone()
                        },
                    )
                })
                .collect();
            for threads in [1, 2, 3] {
                let last_batch = at > bytes.len() - 1000;
                match over(&damaged, threads) {
                    Err(error) => assert_eq!(error.exit(), Exit::LedgerCorrupt, "{error}"),
                    // Without a head noted elsewhere, the last batch may have been torn.
                    Ok(_) => assert!(last_batch && !with_checkpoint, "byte {at}"),
                }
            }
        }
    }
}
