//! Outgoing actions with crashes, copies and forgers: a request sent twice is answered twice and
//! carried out once, a changed line is detected, and the answers can be rebuilt from the ledger
//! alone. tests/it/simulation/outside.rs kills the gate at each of its steps, and
//! tests/it/gateway_kill.rs kills it with SIGKILL.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::kit::closed::{archive_all, cut};
use crate::kit::gateway_home::{GatewayHome, SERVICES, code, exec, gateway, settle};
use crate::kit::ledger_files::{Files, Forger, forge, lines_of};
use crate::kit::memory_disk::{Faults, MemoryDisk};
use crate::kit::place::drain;
use serde_json::json;
use spoolgate_gate::gateway::{Ending, Ran};
use spoolgate_home::pruning::UpTo;
use spoolgate_home::{Home, HomeError};
use spoolgate_host::adapters::{Adapters, Task};
use spoolgate_outgoing::open::ALSO_MAX;
use spoolgate_replay::replay::{self, AnswerFiles, Class, Report};
use spoolgate_rules::gateway::{ACTIONS, AdapterRule};
use spoolgate_wire::answer::Answer;
use spoolgate_wire::sealed::blob_name;

const MAIL: (&str, &str) = (
    "email.send",
    r#"{"to":["ann@example.com"],"subject":"hello","body":"a word"}"#,
);

/// Records the actions that it carries out, and waits on request.
#[derive(Debug, Default)]
struct Double {
    waits: AtomicBool,
    served: Mutex<Vec<String>>,
}

impl Adapters for Double {
    fn execute(&self, _: &AdapterRule, task: &Task<'_>, stop: &AtomicBool) -> Ran {
        self.served
            .lock()
            .unwrap()
            .push(task.request_id.to_string());
        while self.waits.load(Ordering::SeqCst) && !stop.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let id = task.request_id.as_str();
        let output = match id {
            _ if id.starts_with("fails") => {
                r#"{"success":false,"error":{"code":"NO","message":"not today"}}"#.to_owned()
            }
            _ if id.starts_with("garbage") => "?".to_owned(),
            _ if id.starts_with("large") => {
                json!({"success": true, "data": "x".repeat(9000)}).to_string()
            }
            _ => json!({"success": true, "data": {"of": id}}).to_string(),
        };
        let ending = if id.starts_with("slow") {
            Ending::TimedOut
        } else {
            Ending::Answered
        };
        Ran {
            cage: None,
            ending,
            note: "the double".to_owned(),
            complaint: Vec::new(),
            output: Some(output.into_bytes()),
        }
    }
}

struct Desk {
    home: GatewayHome,
    double: Arc<Double>,
}

impl Desk {
    fn new() -> Desk {
        Desk::of(GatewayHome::with(
            SERVICES,
            &gateway(&[exec(&ACTIONS, "exit 9", 10)]),
        ))
    }

    fn of(home: GatewayHome) -> Desk {
        Desk {
            home,
            double: Arc::new(Double::default()),
        }
    }

    fn open(&self) -> Home {
        let mut home = self.home.open();
        home.use_adapters(self.double.clone());
        home
    }

    fn waits(&self, waits: bool) {
        self.double.waits.store(waits, Ordering::SeqCst);
    }

    fn served(&self, id: &str) -> usize {
        self.double
            .served
            .lock()
            .unwrap()
            .iter()
            .filter(|served| *served == id)
            .count()
    }

    fn bytes(&self, id: &str) -> Vec<u8> {
        self.home
            .envelope(id, MAIL.0, MAIL.1)
            .to_json()
            .into_bytes()
    }

    /// Hands a request over as `spoolgate handle` does.
    fn hand(&self, name: &str, bytes: &[u8]) {
        self.home
            .place
            .disk
            .put(format!("spool/local/in/{name}.json"), bytes);
    }

    fn told(&self, name: &str) -> Option<Vec<u8>> {
        self.home
            .place
            .disk
            .get(format!("spool/local/out/{name}.json"))
    }

    fn out(&self, name: &str) -> Option<Vec<u8>> {
        self.home.place.disk.get(format!("spool/out/{name}.json"))
    }

    fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        self.home.place.disk.files_below("audit")
    }

    /// Checks that the ledger alone gives everything again: state, index, every line, and the
    /// existing answers.
    fn comes_out_the_same(&self) -> Report {
        let (again, same) =
            Home::rebuild(self.home.place.root.path(), self.home.place.seams()).unwrap();
        assert!(same);
        drop(again);
        let mut answers = AnswerFiles::default();
        for (path, bytes) in self.home.place.disk.files_below("spool/out") {
            answers.insert(
                path.strip_prefix("spool/out").unwrap().to_str().unwrap(),
                &bytes,
            );
        }
        let report = replayed(self.files(), Some(answers));
        assert!(report.is_same(), "{report:#?}");
        report
    }
}

fn replayed(files: Vec<(PathBuf, Vec<u8>)>, answers: Option<AnswerFiles>) -> Report {
    let disk = Arc::new(MemoryDisk::with(&files));
    let options = replay::Options {
        threads: 1,
        answers,
    };
    replay::replay(disk, Path::new("audit"), &options, &mut |_| {}).unwrap()
}

fn answer(bytes: &[u8]) -> Answer {
    serde_json::from_slice(bytes).unwrap()
}

#[test]
fn copies_of_what_is_open_are_answered_with_it_and_nothing_is_done_twice() {
    let desk = Desk::new();
    let mut home = desk.open();
    desk.waits(true);
    let bytes = desk.bytes("one");
    desk.home.put("one", &bytes);
    // In the batch of the request line, with another name and through another door.
    desk.home.put("one-again", &bytes);
    desk.hand("c1", &bytes);
    drain(&mut home).unwrap();
    // After it.
    desk.home.put("one", &bytes);
    desk.hand("c2", &bytes);
    drain(&mut home).unwrap();
    assert_eq!(home.state().actions.open.len(), 1);
    assert!(desk.out("one").is_none() && desk.told("c1").is_none() && desk.told("c2").is_none());
    // Other bytes under the same id are another request.
    let other = desk
        .home
        .envelope("one", MAIL.0, &MAIL.1.replace("word", "lie"));
    desk.home.put("other", other.to_json().as_bytes());
    drain(&mut home).unwrap();
    let refused = desk
        .home
        .place
        .disk
        .files_below("spool/out")
        .into_iter()
        .find(|(path, _)| path.ends_with("other.json.error.json"));
    assert_eq!(code(&answer(&refused.unwrap().1)), "REQUEST_ID_CONFLICT");
    desk.waits(false);
    home.until_actions_end();
    // In the batch of the response, and after it.
    desk.hand("c3", &bytes);
    settle(&mut home);
    desk.hand("c4", &bytes);
    settle(&mut home);
    let own = desk.out("one").unwrap();
    assert_eq!(code(&answer(&own)), "");
    for name in ["c1", "c2", "c3", "c4"] {
        assert_eq!(desk.told(name).as_ref(), Some(&own), "{name}");
    }
    home.finish("stop").unwrap();
    drop(home);
    // After a start.
    let mut home = desk.open();
    desk.hand("c5", &bytes);
    settle(&mut home);
    assert_eq!(desk.told("c5").as_ref(), Some(&own));
    assert!(desk.home.place.disk.files_below("spool/work").is_empty());
    assert_eq!((desk.served("one"), desk.home.responses().len()), (1, 1));
    drop(home);
    desk.comes_out_the_same();
}

#[test]
fn a_copy_beyond_the_limit_is_refused_and_uses_up_nothing() {
    let desk = Desk::new();
    let mut home = desk.open();
    desk.waits(true);
    let bytes = desk.bytes("one");
    desk.home.put("one", &bytes);
    drain(&mut home).unwrap();
    for n in 0..=ALSO_MAX {
        desk.hand(&format!("c{n:03}"), &bytes);
    }
    drain(&mut home).unwrap();
    let full = answer(&desk.told(&format!("c{ALSO_MAX:03}")).unwrap());
    assert_eq!(
        (code(&full), full.status),
        (
            "ACTIONS_FULL".to_owned(),
            spoolgate_wire::answer::AnswerStatus::RateLimited
        )
    );
    assert!(desk.told("c000").is_none());
    // A copy at a place that waits already needs no further place.
    desk.home.put("one", &bytes);
    drain(&mut home).unwrap();
    desk.waits(false);
    settle(&mut home);
    let own = desk.out("one").unwrap();
    assert!((0..ALSO_MAX).all(|n| desk.told(&format!("c{n:03}")).as_ref() == Some(&own)));
    desk.hand("later", &bytes);
    settle(&mut home);
    assert_eq!(desk.told("later").as_ref(), Some(&own));
    assert_eq!(desk.served("one"), 1);
    drop(home);
    desk.comes_out_the_same();
}

#[test]
fn a_held_request_that_is_granted_ends_with_what_came_of_it() {
    let rule = "id: gateway\nstatus: active\napplies_to: {action: email.send}\nthen: \
        hold\nmessage: a person looks\n\
        when:\n- {field: payload.subject, op: present}\n";
    let home = GatewayHome::with_rules(SERVICES, &gateway(&[exec(&ACTIONS, "exit 9", 10)]), rule);
    let desk = Desk::of(home);
    let mut home = desk.open();
    let bytes = desk.bytes("one");
    desk.home.put("one", &bytes);
    settle(&mut home);
    let interim = desk.out("one").unwrap();
    let hold = home.state().approvals.iter().next().unwrap().clone();
    desk.hand("early", &bytes);
    settle(&mut home);
    assert_eq!(
        desk.told("early").as_ref(),
        Some(&interim),
        "a copy of what is held"
    );
    desk.waits(true);
    let payload = json!({"id": hold.id, "request_sha256": hold.request_sha256}).to_string();
    desk.home
        .place
        .ask_as_owner("grant", "approval.grant", &payload);
    drain(&mut home).unwrap();
    assert_eq!(home.state().actions.open.len(), 1);
    assert_eq!(
        desk.out("one").as_ref(),
        Some(&interim),
        "until the outcome is known"
    );
    desk.hand("meanwhile", &bytes);
    drain(&mut home).unwrap();
    assert!(desk.told("meanwhile").is_none());
    // The gate dies, and the next one closes it.
    drop(home);
    desk.waits(false);
    let mut home = desk.open();
    assert_eq!(home.left_open().len(), 1);
    assert!(
        home.left_open()[0].contains("email.send of core"),
        "{:?}",
        home.left_open()
    );
    assert_eq!(desk.out("one").as_ref(), Some(&interim));
    settle(&mut home);
    let own = desk.out("one").unwrap();
    assert_eq!(code(&answer(&own)), "UNKNOWN_OUTCOME");
    assert_eq!(desk.told("meanwhile").as_ref(), Some(&own));
    desk.hand("late", &bytes);
    settle(&mut home);
    assert_eq!(desk.told("late").as_ref(), Some(&own), "the latest");
    assert_eq!(desk.served("one"), 1);
    assert!(desk.home.place.disk.files_below("spool/work").is_empty());
    drop(home);
    desk.comes_out_the_same();
}

#[test]
fn an_action_whose_line_is_not_durable_never_begins() {
    for faults in [
        Faults {
            append_room: Some(300),
            ..Faults::default()
        },
        Faults {
            sync_failures: 1,
            ..Faults::default()
        },
        Faults {
            append_flip: Some((400, 2)),
            ..Faults::default()
        },
        Faults {
            read_back_flip: true,
            ..Faults::default()
        },
    ] {
        let desk = Desk::new();
        let mut home = desk.open();
        desk.home.put("one", &desk.bytes("one"));
        let what = format!("{faults:?}");
        *desk.home.place.disk.faults.lock().unwrap() = faults;
        assert!(drain(&mut home).is_err(), "{what}");
        drop(home);
        assert_eq!(desk.served("one"), 0, "{what}");
        let mut home = desk.open();
        settle(&mut home);
        // A line whose sync failed can be there all the same: then the outcome is unknown, and
        // nothing begins.
        let is_there = code(&answer(&desk.out("one").unwrap())) == "UNKNOWN_OUTCOME";
        assert_eq!(desk.served("one"), usize::from(!is_there), "{what}");
    }
}

/// Makes a home with a line of each kind: done, failed, garbage, large, too slow, left open,
/// refused, held.
fn day() -> Desk {
    let rule = "id: gateway\nstatus: active\napplies_to: {action: email.draft}\nthen: \
        hold\nmessage: a person looks\n\
        when:\n- {field: payload.subject, op: present}\n";
    let desk = Desk::of(GatewayHome::with_rules(
        SERVICES,
        &gateway(&[exec(&ACTIONS, "exit 9", 10)]),
        rule,
    ));
    let mut home = desk.open();
    for id in ["done", "fails", "garbage", "large", "slow"] {
        desk.home.put(id, &desk.bytes(id));
        settle(&mut home);
    }
    desk.home.ask("held", "email.draft", MAIL.1);
    desk.home.ask(
        "refused",
        "service.api_call",
        r#"{"service":"nobody","endpoint":"/","method":"GET"}"#,
    );
    settle(&mut home);
    desk.waits(true);
    desk.home.put("lost", &desk.bytes("lost"));
    drain(&mut home).unwrap();
    drop(home);
    desk.waits(false);
    let mut home = desk.open();
    settle(&mut home);
    home.finish("stop").unwrap();
    drop(home);
    let codes: Vec<_> = desk
        .home
        .responses()
        .into_values()
        .map(|line| {
            line.metadata
                .code
                .map(|code| code.to_string())
                .unwrap_or_default()
        })
        .collect();
    assert_eq!(
        codes,
        [
            "",
            "ADAPTER_FAILED",
            "ADAPTER_OUTPUT",
            "",
            "ADAPTER_TIMED_OUT",
            "UNKNOWN_OUTCOME"
        ]
    );
    desk
}

#[test]
fn every_line_and_every_answer_is_recomputed() {
    let desk = day();
    let report = desk.comes_out_the_same();
    let of = |what: &str| {
        report
            .rows
            .iter()
            .filter(|row| row.what == what)
            .map(|row| row.lines)
            .sum::<u64>()
    };
    assert_eq!(of("response"), 6, "{report:#?}");
    let files = report.files.unwrap();
    assert_eq!((files.changed, files.unknown), (0, 0), "{files:?}");
    // Answers that do not follow from the ledger are reported.
    let mut answers = AnswerFiles::default();
    answers.insert("done.json", b"{}\n");
    let report = replayed(desk.files(), Some(answers));
    assert!(!report.is_same());
    // What is no longer disclosed is not recomputed, and all else of the line is.
    let mut lines = desk.home.responses().into_values();
    let large = lines.find(|line| line.request_id == "large");
    let large = large.unwrap();
    let blob = blob_name(&large.sealed[0].sd);
    let files = desk
        .files()
        .into_iter()
        .filter(|(path, _)| !path.ends_with(&blob))
        .collect();
    let report = replayed(files, None);
    assert!(report.is_same(), "{report:#?}");
    let mut redacted = report.rows.iter();
    let redacted = redacted.find(|row| row.what.contains("redacted")).unwrap();
    assert_eq!((redacted.class, redacted.lines), (Class::NotAgain, 1));
}

/// The request, a part of its response line, and what a forger writes instead.
const FORGERIES: [(&str, &str, &str); 21] = [
    ("done", "\"status\":\"success\"", "\"status\":\"error\""),
    ("fails", "\"status\":\"error\"", "\"status\":\"success\""),
    ("slow", "ADAPTER_TIMED_OUT", "ADAPTER_NOT_RUN"),
    (
        "slow",
        "\"note\":\"the double\"",
        "\"note\":\"the trouble\"",
    ),
    (
        "slow",
        "\"metadata\":",
        "\"data\":{\"of\":\"slow\"},\"metadata\":",
    ),
    ("lost", "UNKNOWN_OUTCOME", "ADAPTER_NOT_RUN"),
    ("lost", "a-", "a-1"),
    (
        "fails",
        r#""code":"ADAPTER_FAILED","message":"{\"_sd\":\""#,
        r#""code":"ADAPTER_FAILED","message":"{\"_sd\":\"00"#,
    ),
    ("done", "\"request_line\":", "\"request_line\":1"),
    ("done", "\"id\":\"", "\"id\":\"1"),
    (
        "done",
        "\"request_id\":\"done\"",
        "\"request_id\":\"fails\"",
    ),
    (
        "done",
        "\"action\":\"email.send\"",
        "\"action\":\"email.draft\"",
    ),
    ("done", "\"source\":\"core\"", "\"source\":\"owner\""),
    (
        "done",
        "\"direction\":\"response\"",
        "\"direction\":\"request\"",
    ),
    ("done", "\"payload_hash\":\"", "\"payload_hash\":\"00"),
    ("done", "\"adapter\":\"exec\"", "\"adapter\":\"stub\""),
    ("done", "\"spool\":\"flat\"", "\"spool\":\"local\""),
    (
        "done",
        "\"answer\":\"out/done.json\"",
        "\"answer\":\"out/fails.json\"",
    ),
    ("done", "\"rulebook\":\"", "\"rulebook\":\"00"),
    ("large", r#""data":{"_sd":""#, r#""data":{"_sd":"00"#),
    ("large", r#""field":"data","#, r#""field":"message","#),
];

/// Replay finds the forgery of a holder of the keys who writes the whole log again.
#[test]
fn forged_responses_are_found() {
    let desk = day();
    let files = Files::of(&desk.home.place);
    let forged = |change: &dyn Fn(&mut Vec<Vec<u8>>)| {
        let mut lines = lines_of(files.segment(1));
        change(&mut lines);
        let log = forge(&lines, &files.keys, Forger::HoldsSealKey);
        let all = desk
            .files()
            .into_iter()
            .filter(|(path, _)| !path.ends_with("checkpoint"));
        let log_path = Path::new("audit/log-00000001.jsonl");
        let all = all.map(|(path, bytes)| {
            if path == log_path {
                (path, log.clone())
            } else {
                (path, bytes)
            }
        });
        replayed(all.collect(), None)
    };
    assert!(forged(&|_| {}).is_same());
    let at = |kind: &str, id: &str| {
        let parts = [
            format!("\"kind\":\"{kind}\""),
            format!("\"request_id\":\"{id}\""),
        ];
        let is_it = |line: &Vec<u8>| {
            parts
                .iter()
                .all(|part| String::from_utf8_lossy(line).contains(part.as_str()))
        };
        lines_of(files.segment(1)).iter().position(is_it).unwrap()
    };
    for (id, from, to) in FORGERIES {
        let line = at("response", id);
        let report = forged(&|lines| {
            let text = String::from_utf8(lines[line].clone()).unwrap();
            assert!(text.contains(from), "{from} in {text}");
            lines[line] = text.replacen(from, to, 1).into_bytes();
        });
        assert!(!report.is_same(), "{id}: {from} -> {to}: {report:#?}");
    }
    // A second response, a response to nothing, and a missing response do not fit the other lines.
    let line = at("response", "done");
    let twice = forged(&|lines| lines.insert(line + 1, lines[line].clone()));
    assert!(twice.broken.is_some() && !twice.is_same());
    let line = at("request", "done");
    let without = forged(&|lines| drop(lines.remove(line)));
    assert!(without.broken.is_some() && !without.is_same());
    let opens_none = forged(&|lines| {
        let text = String::from_utf8(lines[line].clone()).unwrap();
        let changes = text.find("\"changes\":[").unwrap();
        lines[line] = format!("{}\"changes\":[]}}", &text[..changes]).into_bytes();
    });
    assert!(opens_none.broken.is_some());
}

/// Returns the ranges of all JSON strings, numbers and literals of a line.
fn tokens(line: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < line.len() {
        let start = at;
        if line[at] == b'"' {
            at += 1;
            while line[at] != b'"' {
                at += if line[at] == b'\\' { 2 } else { 1 };
            }
            at += 1;
            found.push(start + 1..at - 1);
        } else if b"{}[]:,".contains(&line[at]) {
            at += 1;
        } else {
            while !b"{}[]:,".contains(&line[at]) {
                at += 1;
            }
            found.push(start..at);
        }
    }
    found.retain(|token| !token.is_empty());
    found
}

/// Changes every key and every value of a request line, a response line, a refusal and a hold:
/// verifying finds it, even if every later hash is recomputed.
#[test]
fn tampering_with_each_field_of_each_line_is_found() {
    let desk = day();
    let files = Files::of(&desk.home.place).without_checkpoint();
    assert!(files.verifies());
    let lines = lines_of(files.segment(1));
    let wanted = [
        ("request", "done"),
        ("response", "done"),
        ("response", "fails"),
        ("response", "lost"),
        ("decision", "refused"),
        ("decision", "held"),
    ];
    let mut tried = 0;
    for (kind, id) in wanted {
        let is_it = |line: &&Vec<u8>| {
            let text = String::from_utf8_lossy(line);
            text.contains(&format!("\"kind\":\"{kind}\""))
                && text.contains(&format!("\"request_id\":\"{id}\""))
        };
        let n = lines.iter().position(|line| is_it(&line)).unwrap();
        for token in tokens(&lines[n]) {
            let mut changed = lines.clone();
            let byte = &mut changed[n][token.start];
            *byte = if *byte == b'1' { b'2' } else { b'1' };
            let what = format!(
                "{kind} {id}: {}",
                String::from_utf8_lossy(&lines[n][token.clone()])
            );
            let plain = files.with_segment(1, [changed.join(&b'\n'), vec![b'\n']].concat());
            assert!(!plain.verifies(), "{what}");
            // The forger writes what comes before `kind`.
            let own = String::from_utf8_lossy(&lines[n])
                .find(",\"kind\":")
                .unwrap();
            if token.start > own + 8 {
                let again = files.with_segment(1, forge(&changed, &files.keys, Forger::Keyless));
                assert!(!again.verifies(), "{what}, hashes recomputed");
            }
            tried += 1;
        }
    }
    assert!(tried > 500, "{tried}");
}

#[test]
fn segments_that_an_open_action_needs_are_not_pruned() {
    let desk = Desk::new();
    let mut home = desk.open();
    let done = desk.bytes("done");
    desk.home.put("done", &done);
    settle(&mut home);
    desk.waits(true);
    let bytes = desk.bytes("one");
    desk.home.put("one", &bytes);
    drain(&mut home).unwrap();
    home.mark_published().unwrap();
    drop(home);
    desk.waits(false);
    cut(&desk.home.place);
    archive_all(desk.home.place.disk.as_ref(), 0).unwrap();
    let prune = || {
        let place = &desk.home.place;
        Home::prune(
            place.root.path(),
            place.seams(),
            UpTo::Before(2),
            None,
            false,
            &mut |_| {},
        )
    };
    match prune() {
        Err(HomeError::Unsettled(why)) => assert!(why.contains("outgoing action a-"), "{why}"),
        other => panic!("{other:?}"),
    }
    let mut home = desk.open();
    settle(&mut home);
    assert_eq!(code(&answer(&desk.out("one").unwrap())), "UNKNOWN_OUTCOME");
    drop(home);
    assert_eq!(prune().unwrap().len(), 1);
    // Its request line is gone, so there is nothing to compare a copy with.
    let mut home = desk.open();
    for (name, bytes) in [("c1", &bytes), ("c2", &done)] {
        desk.hand(name, bytes);
        settle(&mut home);
        assert_eq!(code(&answer(&desk.told(name).unwrap())), "PRUNED", "{name}");
    }
    assert_eq!((desk.served("one"), desk.served("done")), (1, 1));
}
