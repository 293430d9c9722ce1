//! Ledgers forged by the holder of the keys: every hash, root and seal is right, but a line records
//! something that was not decided.

use std::path::Path;

use super::day::{audit_with_keys, line_with};
use super::{Files, replayed};
use crate::kit::ledger_files::{Forger, forge, lines_of};
use spoolgate_gate::state::SEMANTICS;
use spoolgate_host::keyring::LogKeys;
use spoolgate_replay::replay::{Class, Difference};

const LOG: &str = "audit/log-00000001.jsonl";

/// Returns the day with its lines changed by `change`, sealed again.
fn forged(files: &Files, keys: &LogKeys, change: impl FnOnce(&mut Vec<Vec<u8>>)) -> Files {
    let mut forged = files.clone();
    forged.retain(|(path, _)| path != Path::new("audit/checkpoint"));
    let log = forged
        .iter_mut()
        .find(|(path, _)| path == Path::new(LOG))
        .unwrap();
    let mut lines = lines_of(&log.1);
    change(&mut lines);
    log.1 = forge(&lines, keys, Forger::HoldsSealKey);
    forged
}

fn replace(line: &mut Vec<u8>, from: &str, to: &str) {
    let text = String::from_utf8(line.clone()).unwrap();
    assert!(text.contains(from), "{from} in {text}");
    *line = text.replacen(from, to, 1).into_bytes();
}

/// In the first line that contains these parts, changes one text to another and replays. The replay
/// must find the forgery in this line first; returns what it found.
fn found(
    files: &Files,
    keys: &LogKeys,
    parts: &[&str],
    from: &str,
    to: &str,
) -> Result<Difference, String> {
    let mut at = 0;
    let forged = forged(files, keys, |lines| {
        at = line_with(lines, parts);
        replace(&mut lines[at], from, to);
    });
    let report = replayed(&forged);
    let Some(first) = report.first.clone() else {
        return Err(format!("{from} -> {to} went unnoticed"));
    };
    if first.line != at as u64 || report.is_same() || report.differences == 0 {
        return Err(format!("{from} -> {to} in line {at}: {report:#?}"));
    }
    // The byte at the reported place differs.
    if let Some(offset) = first.offset {
        let log = &forged
            .iter()
            .find(|(path, _)| path == Path::new(LOG))
            .unwrap()
            .1;
        let line = &lines_of(log)[at];
        let offset = usize::try_from(offset).unwrap();
        let part = String::from_utf8_lossy(&line[offset.saturating_sub(40)..]).into_owned();
        if !part.contains(to.chars().next().unwrap()) {
            return Err(format!("{from} -> {to}: {first:?} is at {part}"));
        }
    }
    Ok(first)
}

/// Checks in which member each forgery is found: parts of the line, the change, and the member.
#[track_caller]
fn each_is_found(cases: &[(&[&str], &str, &str, Option<&str>)]) {
    let (files, keys) = audit_with_keys();
    let mut wrong = Vec::new();
    for (parts, from, to, member) in cases {
        match found(&files, &keys, parts, from, to) {
            Err(why) => wrong.push(why),
            Ok(first) if first.member.as_deref() != *member => {
                wrong.push(format!("{from} -> {to}: {first:?}"))
            }
            Ok(first) => assert!(
                first.member.is_none() || first.recorded != first.recomputed,
                "{first:?}"
            ),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn unchanged_lines_are_the_same() {
    let (files, keys) = audit_with_keys();
    let again = forged(&files, &keys, |_| {});
    let same = files
        .iter()
        .filter(|(path, _)| path != Path::new("audit/checkpoint"));
    assert!(same.eq(again.iter()), "the forger writes what was there");
    assert!(replayed(&again).is_same());
}

const MORE: &str = "\"changes\":[{\"HaltCleared\":{}}]}";

#[test]
fn forged_decisions_are_found() {
    each_is_found(&[
        (
            &["\"request_id\":\"not-mine\""],
            "\"status\":\"rejected\"",
            "\"status\":\"success\"",
            Some("status"),
        ),
        (
            &["\"request_id\":\"buy-1\"", "\"checks\":[{"],
            "\"passed\":true",
            "\"passed\":false",
            Some("checks[0].passed"),
        ),
        (
            &["\"request_id\":\"look\""],
            "\"changes\":[]}",
            MORE,
            Some("changes[0]"),
        ),
        (
            &["\"request_id\":\"orders\""],
            "\"data\":{\"Orders\":[",
            "\"data\":{\"Orders\":[1,",
            Some("data.Orders[0]"),
        ),
        (
            &["\"replay_of\":"],
            "\"replay_of\":",
            "\"replay_of\":1",
            Some("metadata.replay_of"),
        ),
        (
            &["REQUEST_ID_CONFLICT"],
            "(ledger line ",
            "(ledger line 1",
            Some("metadata.message"),
        ),
        (
            &["\"file\":\"junk.json\""],
            "\"changes\":[]}",
            MORE,
            Some("changes[0]"),
        ),
        (
            &["\"file\":\"junk.json\""],
            "\"code\":\"MALFORMED_JSON\"",
            "\"code\":\"CHECKS_FAILED\"",
            None,
        ),
        (
            &["\"request_id\":\"odd\""],
            "MALFORMED_PAYLOAD",
            "NOT_PERMITTED",
            Some("metadata.code"),
        ),
    ]);
}

#[test]
fn forged_ends_of_holds_are_found() {
    each_is_found(&[
        (
            &["\"request_id\":\"held-2\"", "\"end\":\"denied\""],
            "`owner` denied it",
            "`nobody` denied it",
            Some("metadata.message"),
        ),
        (
            &["\"request_id\":\"held-3\"", "\"end\":\"expired\""],
            "nobody granted",
            "somebody granted",
            Some("metadata.message"),
        ),
        (
            &["\"request_id\":\"held-1\"", "\"end\":\"granted\""],
            "\"status\":\"success\"",
            "\"status\":\"rejected\"",
            Some("status"),
        ),
    ]);
}

#[test]
fn forged_events_are_found() {
    each_is_found(&[
        (
            &["\"kind\":\"published\""],
            "\"up_to\":",
            "\"up_to\":1",
            Some("up_to"),
        ),
        (&["\"kind\":\"quota\""], "\"changes\":[]}", MORE, None),
        (
            &["\"kind\":\"storage\""],
            "\"level\":\"low\"",
            "\"level\":\"normal\"",
            None,
        ),
        (&["\"kind\":\"start\""], "\"changes\":[]}", MORE, None),
        (
            &["\"kind\":\"halt\"", "HALT exists"],
            "\"present\":true",
            "\"present\":false",
            None,
        ),
        (
            &["\"kind\":\"clock_step\""],
            "\"from\":\"2026",
            "\"from\":\"2025",
            Some("changes[0].ClockFaulted.from"),
        ),
        (
            &["\"kind\":\"tick\""],
            "a new day",
            "an old day",
            Some("note"),
        ),
        (
            &["\"kind\":\"dead_man\"", "\"Tripped\""],
            "liquidate_all",
            "close_new_only",
            Some("changes[0].DeadMan.Tripped.tripped.action"),
        ),
        (
            &["\"kind\":\"market\""],
            "\"row_count\":1",
            "\"row_count\":2",
            Some("row_count"),
        ),
        (
            &["\"kind\":\"council\""],
            "\"closed_by\":\"deadline\"",
            "\"closed_by\":\"seats\"",
            Some("closed_by"),
        ),
    ]);
}

/// Returns a harmless line with the time of another one, so that no later number changes.
fn harmless(line: &[u8]) -> Vec<u8> {
    let value: serde_json::Value = serde_json::from_slice(line).unwrap();
    let zeros = "0".repeat(64);
    let note = "files wait";
    format!(
        r#"{{"prev":"{zeros}","seq":0,"batch":0,"kind":"quota","timestamp":{},"note":"{note}","changes":[]}}"#,
        value["timestamp"]
    )
    .into_bytes()
}

#[test]
fn a_line_that_is_left_out_or_put_in_is_found() {
    let (files, keys) = audit_with_keys();
    let mut at = 0;
    // The end of a hold that an approver denied is removed.
    let without = forged(&files, &keys, |lines| {
        at = line_with(lines, &["\"request_id\":\"held-2\"", "\"end\":\"denied\""]);
        lines[at] = harmless(&lines[at]);
    });
    let report = replayed(&without);
    assert_eq!(
        report.first.as_ref().unwrap().line,
        at as u64,
        "{report:#?}"
    );
    // The end of an expired hold, and a new day, are removed: the next decision shows it.
    for parts in [
        ["\"request_id\":\"held-3\"", "\"end\":\"expired\""],
        ["\"kind\":\"tick\"", "a new day"],
    ] {
        let mut next = 0;
        let without = forged(&files, &keys, |lines| {
            at = line_with(lines, &parts);
            lines[at] = harmless(&lines[at]);
            next = at + line_with(&lines[at..], &["\"kind\":\"decision\""]);
        });
        let report = replayed(&without);
        let first = report
            .first
            .as_ref()
            .unwrap_or_else(|| panic!("{parts:?}: {report:#?}"));
        assert!(
            first.line >= at as u64 && first.line <= next as u64 + 40,
            "{parts:?} at {at}: {first:?}"
        );
    }
    // A rulebook line without a proposal or a file.
    let twice = forged(&files, &keys, |lines| {
        at = line_with(lines, &["\"kind\":\"rulebook\""]);
        let again = lines[at].clone();
        lines.insert(at + 1, again);
        at += 1;
    });
    let report = replayed(&twice);
    assert_eq!(
        report.first.as_ref().unwrap().line,
        at as u64,
        "{report:#?}"
    );
}

#[test]
fn a_line_that_does_not_fit_ends_the_replay_and_the_rest_is_counted() {
    let (files, keys) = audit_with_keys();
    let mut at = 0;
    let ends =
        "\"changes\":[{\"KeyEnds\":{\"key_id\":\"nobody\",\"at\":\"2026-03-02T12:00:00.000Z\"}}]}";
    let broken = forged(&files, &keys, |lines| {
        at = line_with(lines, &["\"request_id\":\"look\""]);
        replace(&mut lines[at], "\"changes\":[]}", ends);
    });
    let report = replayed(&broken);
    assert_eq!(report.first.as_ref().unwrap().line, at as u64);
    assert!(
        report
            .broken
            .as_ref()
            .unwrap()
            .contains(&format!("line {at}")),
        "{:?}",
        report.broken
    );
    let unreached: u64 = report
        .rows
        .iter()
        .filter(|row| row.class == Class::Unreached)
        .map(|row| row.lines)
        .sum();
    assert_eq!(unreached, report.lines - at as u64 - 1);
}

#[test]
fn another_version_of_the_program_is_named() {
    let (files, keys) = audit_with_keys();
    let version = format!("\"program\":\"{}\"", spoolgate_wire::VERSION);
    let mut at = 0;
    let older = forged(&files, &keys, |lines| {
        replace(&mut lines[0], &version, "\"program\":\"0.0.9\"");
        at = line_with(lines, &["\"request_id\":\"not-mine\""]);
        replace(
            &mut lines[at],
            "\"status\":\"rejected\"",
            "\"status\":\"success\"",
        );
    });
    let report = replayed(&older);
    let first = report.first.unwrap();
    assert_eq!(
        (first.line, first.written_by.as_str()),
        (at as u64, "0.0.9")
    );
    assert_eq!(
        (first.recomputed_by.as_str(), report.recomputed_by.as_str()),
        (spoolgate_wire::VERSION, spoolgate_wire::VERSION)
    );
    assert_eq!(report.written_by[0].program, "0.0.9");
}

/// Turns a line into one that says that this version writes from here on, with these semantics.
fn program_changes(line: &mut Vec<u8>, version: &str, semantics: u32) {
    let text = String::from_utf8(line.clone()).unwrap();
    let head = &text[..text.find(",\"kind\":").unwrap()];
    let at = text.find("\"timestamp\":\"").unwrap() + "\"timestamp\":\"".len();
    let time = &text[at..at + text[at..].find('"').unwrap()];
    let semantics = if semantics == 1 {
        String::new()
    } else {
        format!(",\"semantics\":{semantics}")
    };
    *line = format!(
        "{head},\"kind\":\"start\",\"timestamp\":\"{time}\",\"note\":\"spoolgate {version} continues \
            the log that {} \
                wrote\",\"changes\":[{{\"ProgramChanged\":{{\"version\":\"{version}\"{semantics}}}}}]}}",
        spoolgate_wire::VERSION
    )
    .into_bytes();
}

/// Puts a decision into another lane than the one in which it was decided.
fn other_lane(line: &mut Vec<u8>) {
    let lanes =
        ["ordinary", "feed", "protected", "control"].map(|lane| format!("\"lane\":\"{lane}\""));
    let text = String::from_utf8(line.clone()).unwrap();
    let from = lanes.iter().find(|lane| text.contains(*lane)).unwrap();
    let to = lanes.iter().find(|lane| *lane != from).unwrap();
    replace(line, from, to);
}

#[test]
fn lines_of_other_semantics_are_folded_and_not_recomputed() {
    let (files, keys) = audit_with_keys();
    let decision = &["\"kind\":\"decision\"", "\"status\":\"success\""];
    for (semantics, is_other) in [(SEMANTICS, false), (1, true), (0, true), (u32::MAX, true)] {
        let changed = |lines: &mut Vec<Vec<u8>>| {
            let at = line_with(lines, &["\"kind\":\"published\""]);
            program_changes(&mut lines[at], "9.0.0", semantics);
            at
        };
        let upgraded = forged(&files, &keys, |lines| _ = changed(lines));
        let report = replayed(&upgraded);
        assert!(report.is_same(), "{semantics}: {report:#?}");
        let of_others = report
            .rows
            .iter()
            .filter(|row| row.what.contains("other semantics"));
        let other: u64 = of_others.map(|row| row.lines).sum();
        assert_eq!(other > 0, is_other, "{semantics}: {report:#?}");
        // A program of other semantics cannot find a forgery after that line; one before it is
        // found.
        let behind = forged(&files, &keys, |lines| {
            let at = changed(lines);
            let place = at + line_with(&lines[at..], decision);
            other_lane(&mut lines[place]);
        });
        assert_eq!(replayed(&behind).is_same(), is_other, "{semantics}");
        let mut place = 0;
        let before = forged(&files, &keys, |lines| {
            let at = changed(lines);
            place = line_with(&lines[..at], decision);
            other_lane(&mut lines[place]);
        });
        assert_eq!(
            replayed(&before).first.unwrap().line,
            place as u64,
            "{semantics}"
        );
    }
}

/// Lines of other semantics are not recomputed, so a forger must not be able to name any.
#[test]
fn a_version_known_here_has_its_own_semantics_only() {
    let (files, keys) = audit_with_keys();
    let own = format!(",\"semantics\":{SEMANTICS}");
    for (from, to) in [
        (own.as_str(), ""),
        (&own, ",\"semantics\":9"),
        (&own, ",\"semantics\":0"),
    ] {
        let other = forged(&files, &keys, |lines| replace(&mut lines[0], from, to));
        let report = replayed(&other);
        assert_eq!(
            (report.first.clone().unwrap().line, report.is_same()),
            (0, false),
            "{to}"
        );
    }
    for (version, semantics) in [
        (spoolgate_wire::VERSION, SEMANTICS + 1),
        (spoolgate_wire::VERSION, 1),
        ("0.1.0", 2),
    ] {
        let mut at = 0;
        let other = forged(&files, &keys, |lines| {
            at = line_with(lines, &["\"kind\":\"published\""]);
            program_changes(&mut lines[at], version, semantics);
        });
        let first = replayed(&other).first.unwrap();
        assert_eq!(first.line, at as u64, "{version}, {semantics}");
        assert!(
            first
                .why
                .unwrap()
                .contains("did not write lines with semantics")
        );
    }
}
