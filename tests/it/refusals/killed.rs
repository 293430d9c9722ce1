//! A gate that is killed between and during two repairs of one id: the last answer stands, no
//! repair is lost, and their number is kept.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::kit::desk::Desk;
use crate::kit::ledger_files::Files;
use crate::kit::memory_disk::MemoryDisk;
use crate::kit::place::{Place, drain, one};
use crate::kit::process::Running;
use crate::kit::unlimited::lift_message_rates;
use crate::kit::{
    Dice, Scratch, Sent, check_home, check_killed, decisions, setting, sign, signed, succeed,
};
use serde_json::Value;
use spoolgate_gate::{Decision, Record};
use spoolgate_home::Home;
use spoolgate_host::clock::Clock;
use spoolgate_replay::replay::{Options, replay};
use spoolgate_wire::code::Code;

/// How many requests may repair one id.
const REPAIRS_MAX: usize = 8;

/// A payload of the wrong shape, another one for each number.
fn wrong(n: usize) -> String {
    format!(r#"{{"since":{n}}}"#)
}

/// A home that has refused the first of these requests, which all have the same id.
fn refused() -> (Desk, Vec<Vec<u8>>) {
    let desk = Desk::with_limits("");
    let now = desk.place.clock.now();
    let requests: Vec<Vec<u8>> = (0..=REPAIRS_MAX + 1)
        .map(|n| {
            let key = &desk.keys["trend-bot"];
            let envelope = signed(key, "trend-bot", "idea-1", "fills.list", &wrong(n), now);
            envelope.to_json().into_bytes()
        })
        .collect();
    let mut home = desk.open();
    put(&desk.place, &requests, 0);
    let first = one(&mut home);
    assert_eq!(first.decision.metadata.code, Some(Code::MalformedPayload));
    drop(home);
    (desk, requests)
}

fn put(place: &Place, requests: &[Vec<u8>], n: usize) {
    let path = format!("spool/in/idea-1.{n}.json");
    place.disk.put(path, &requests[n]);
}

/// The decisions on the id, with their lines.
fn of_id(home: &Home, lines: u64) -> Vec<(u64, Decision)> {
    let decision = |seq| match home.record(seq) {
        Ok((_, Record::Decision(decision))) => Some((seq, *decision)),
        _ => None,
    };
    let mut all: Vec<(u64, Decision)> = (0..lines).filter_map(decision).collect();
    all.retain(|(_, decision)| decision.request_id.as_deref() == Some("idea-1"));
    all
}

#[track_caller]
fn stands(place: &Place, line: u64, what: &str) {
    let answer = place.disk.get("spool/out/idea-1.json").expect(what);
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!(answer["auditRef"], line.to_string(), "{what}");
}

/// Restarts after a kill: checks what stands, and repairs until no repair is left.
fn check_restart(place: &Place, requests: &[Vec<u8>], what: &str) {
    let mut home = place.open().unwrap();
    drain(&mut home).unwrap();
    let lines = |home: &Home| home.position().seq;
    for n in 1..=2 {
        let file = format!("idea-1.{n}.json");
        let known = of_id(&home, lines(&home));
        if known.iter().all(|(_, decision)| decision.file != file) {
            put(place, requests, n);
            drain(&mut home).unwrap();
        }
    }
    let known = of_id(&home, lines(&home));
    let attempts: Vec<u32> = known.iter().map(|(_, decision)| decision.attempt).collect();
    assert_eq!(attempts, [0, 1, 2], "{what}");
    let mut last = known[2].0;
    stands(place, last, what);
    for n in 3..=REPAIRS_MAX {
        put(place, requests, n);
        let repaired = one(&mut home);
        assert_eq!(
            repaired.decision.metadata.code,
            Some(Code::MalformedPayload),
            "{what}, repair {n}"
        );
        last = repaired.seq;
        stands(place, last, what);
    }
    put(place, requests, REPAIRS_MAX + 1);
    let beyond = one(&mut home);
    assert_eq!(
        beyond.decision.metadata.code,
        Some(Code::RequestIdConflict),
        "{what}"
    );
    stands(place, last, what);
    drop(home);
    let report = Files::of(place).verify(true).unwrap();
    assert!(report.ok, "{what}: {:?}", report.problems);
    let (_, same) = Home::rebuild(place.root.path(), place.seams()).unwrap();
    assert!(same, "{what}: a rebuild gives another state");
    let disk = Arc::new(MemoryDisk::with(&place.disk.files_below("audit")));
    let options = Options {
        threads: 1,
        answers: None,
    };
    let report = replay(disk, Path::new("audit"), &options, &mut |_| {}).unwrap();
    assert!(report.is_same(), "{what}: {report:#?}");
}

#[test]
fn a_kill_at_any_call_between_two_repairs_loses_nothing() {
    let (desk, requests) = refused();
    // Both in one batch, or each in its own.
    for together in [true, false] {
        let repair_twice = |place: &Place, calls: i64, after: bool| {
            let (seams, fuse) = place.mortal(i64::MAX, after);
            let mut home = place.open_with(seams).unwrap();
            fuse.set(calls);
            for n in 1..=2 {
                put(place, &requests, n);
                if n == 2 || !together {
                    drain(&mut home).unwrap();
                }
            }
            fuse.set(i64::MAX)
        };
        let calls = i64::MAX - repair_twice(&desk.place.fork(), i64::MAX, false);
        assert!(calls > 5, "{calls}");
        for at in 1..=calls {
            for after in [false, true] {
                let what = format!("together: {together}, call {at} of {calls}, after: {after}");
                let place = desk.place.fork();
                let died = catch_unwind(AssertUnwindSafe(|| repair_twice(&place, at, after)));
                assert!(died.is_err(), "{what}: it lived");
                check_restart(&place, &requests, &what);
            }
        }
    }
}

#[test]
fn killed_watchers_keep_the_last_answer() {
    let (kills, seed) = (setting("SPOOLGATE_KILLS", 12), setting("SPOOLGATE_SEED", 1));
    let scratch = Scratch::new();
    let home = scratch.home();
    lift_message_rates(&home);
    let mut dice = Dice::new(seed);
    let mut sent: Vec<Sent> = Vec::new();
    let drop_in = |sent: &mut Vec<Sent>, id: &str, n: usize| {
        let bytes = sign(&scratch.bot, "trend-bot", id, "fills.list", &wrong(n));
        let file = Sent::new(&format!("{id}.{n}.json"), bytes);
        file.drop_into(&home);
        sent.push(file);
    };
    let ids: Vec<String> = (0..kills).map(|kill| format!("idea-{kill}")).collect();
    for id in &ids {
        let mut watcher = Running::watching(&home);
        for n in 0..=2 {
            drop_in(&mut sent, id, n);
            std::thread::sleep(Duration::from_micros(dice.below(20_000)));
        }
        watcher.0.kill().unwrap();
        watcher.0.wait().unwrap();
        check_killed(&home, &sent).unwrap_or_else(|why| panic!("seed {seed}, {id}: {why}"));
    }
    succeed(&home, &["run", "--until-idle"]);
    for n in 3..=REPAIRS_MAX + 1 {
        drop_in(&mut sent, &ids[0], n);
        succeed(&home, &["run", "--until-idle"]);
    }
    check_home(&home, &sent).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    let decided = decisions(&home).unwrap();
    for id in &ids {
        let of_id = decided.iter().filter(|(_, decision)| {
            decision.request_id.as_ref() == Some(id)
                && decision.metadata.code != Some(Code::RequestIdConflict)
        });
        let lines: Vec<(u64, u32)> = of_id.map(|(seq, it)| (*seq, it.attempt)).collect();
        let repairs = if *id == ids[0] { REPAIRS_MAX } else { 2 };
        let attempts: Vec<usize> = lines.iter().map(|(_, n)| *n as usize).collect();
        assert_eq!(attempts, (0..=repairs).collect::<Vec<_>>(), "{id}");
        let answer = fs::read(home.join(format!("spool/out/{id}.json"))).unwrap();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert_eq!(answer["auditRef"], lines[repairs].0.to_string(), "{id}");
    }
    let refused = format!("{}.{}.json.error.json", ids[0], REPAIRS_MAX + 1);
    let refused = fs::read(home.join("spool/out").join(refused)).unwrap();
    let refused: Value = serde_json::from_slice(&refused).unwrap();
    assert_eq!(refused["error"]["code"], "REQUEST_ID_CONFLICT");
    succeed(&home, &["audit", "verify", "--strict"]);
    succeed(&home, &["audit", "replay"]);
}
