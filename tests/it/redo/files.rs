//! Derived files of every kind: they exist before the answer of their line does, they come back
//! after a crash, and those of an entry delay no exit.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::json;
use spoolgate_gate::Record;
use spoolgate_home::Home;
use spoolgate_wire::code::Code;

use crate::kit::venue::{PATIENT, alive, snapshot_of};
use crate::kit::world::{Draft, World, code_of};

/// The paths that were replaced or removed, in order.
type Log = Arc<Mutex<Vec<PathBuf>>>;

const BRIDGE: &str = "spool/outbox/exchange";
const REVIEWERS: [(&str, &str); 2] = [
    ("code-auditor", "Code Auditor"),
    ("integration-engineer", "Integration Engineer"),
];

/// A home with what was done to its files.
struct Kinds {
    world: World,
    log: Log,
    /// Whether no instruction can be written.
    is_blocked: Arc<AtomicBool>,
}

/// Makes a home whose requests create files of every kind: BTC-USD at a venue, a council,
/// admission, a rule that holds orders.
fn kinds(seed: u64) -> Kinds {
    let log = Log::default();
    let hear = Arc::clone(&log);
    let is_blocked = Arc::new(AtomicBool::new(false));
    let block = Arc::clone(&is_blocked);
    let meddle = move |verb: &str, path: &Path, to: Option<&Path>, is_after: bool| {
        let target = to.unwrap_or(path);
        let is_change = ["rename", "rename_new", "remove"].contains(&verb);
        if is_after && is_change {
            hear.lock().unwrap().push(target.to_owned());
        }
        let is_of_bridge = target.starts_with(BRIDGE) && !is_after && is_change;
        (is_of_bridge && block.load(Ordering::Relaxed))
            .then(|| io::Error::from(ErrorKind::NotADirectory))
    };
    let mut world = World::under(seed, Box::new(meddle), |root| {
        let append = |path: &str, more: &str| {
            let text = fs::read_to_string(root.join(path)).unwrap_or_default();
            fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            fs::write(root.join(path), text + more).unwrap();
        };
        append("rules/safety.yaml", PATIENT);
        append(
            "rules/instruments.yaml",
            "    venue: outbox\n    bridge: exchange\n",
        );
        append(
            "rules/principals.yaml",
            "  - {name: exchange, role: bridge}\n  - {name: code-auditor, role: agent, \
                council_roles: [Code Auditor]}
  - {name: integration-engineer, role: agent, council_roles: [Integration Engineer]}
  - name: research-bot
    role: agent
    admission: {domains: [{tenant: research, surface: agents, profile: default}], roots_per_hour: \
        20}\n",
        );
        append(
            "rules/admission/research/agents/default.yaml",
            "{max_spawn_depth: 4}\n",
        );
        append(
            "rules/core/look-first.yaml",
            "id: look-first\nstatus: active\napplies_to: {action: order.submit}
when: [{field: order.size, op: eq, value: \"0.003\"}]\nthen: hold\nmessage: look first\n",
        );
        append(
            "rules/services.yaml",
            include_str!("../../../rules/services.yaml"),
        );
    });
    let mut home = world.open();
    for name in [
        "research-bot",
        "code-auditor",
        "integration-engineer",
        "exchange",
    ] {
        world.add_key(&mut home, name);
    }
    fs::create_dir_all(world.root.join(BRIDGE)).unwrap();
    fs::write(world.root.join(BRIDGE).join(".alive"), alive(world.now())).unwrap();
    let snapshot = snapshot_of(&home.state().book, world.now()).to_string();
    world.ask_ok(&mut home, "exchange", "venue.snapshot", &snapshot);
    drop(home);
    Kinds {
        world,
        log,
        is_blocked,
    }
}

fn case() -> String {
    json!({
        "request_id": "req_1", "timestamp": "2026-02-21T12:00:00Z", "proposer": "research-bot",
        "change_type": "CODE_REFACTOR",
        "context": {
            "summary": "Simpler code.", "files_changed": ["a.rs"],
            "key_metrics": {"total_return": 15.4, "sharpe": 1.2, "max_dd": -4.5,
                "oos_win_rate": 55.0},
        },
        "artifacts": {
            "spec_content": "# Spec", "diff_content": "diff --git a b", "validation_report": "fine",
            "monte_carlo_stats": "{\"sharpe_p5\":0.4,\"sharpe_p95\":2.0}",
        },
    })
    .to_string()
}

fn verdict(role: &str) -> String {
    let sha256 = spoolgate_wire::signing::sha256_hex(case().as_bytes());
    json!({"request_id": "req_1", "request_sha256": sha256, "verdict": {
        "role": role, "verdict": "APPROVE", "confidence_score": 0.9,
        "checklist_results": [{"question": "Is it so?", "answer": "yes", "pass": true}],
        "concerns": [], "required_actions": [],
    }})
    .to_string()
}

fn rule(id: &str, principals: &str) -> String {
    let rule = json!({
        "id": id, "status": "active",
        "applies_to": {"action": "order.submit", "principal": [principals]},
        "when": [{"field": "order.size", "op": "gt", "value": "5"}], "then": "reject",
            "message": "too large",
    });
    let evidence = json!({"summary": "seen", "sample_size": 0, "ledger_seqs": []});
    json!({"Activate": {"rule": rule, "evidence": evidence}}).to_string()
}

/// Sends requests that together create files of every kind, each of them executed, held or
/// acknowledged.
fn send_everything(world: &mut World, home: &mut Home) {
    let task = json!({"envelope": {
        "tenant_id": "research", "surface_id": "agents", "policy_profile_id": "default",
            "payload_kind": "task",
        "payload": {}, "causality": {"root_task_id": "T", "parent_task_id": null,
            "capability_id": "c"},
    }});
    let bank = json!({"service": "bank", "host": "api.bank.example", "protocol": "https",
        "methods": ["GET"]});
    let drill = json!({"drill": true, "reason": "quarterly"}).to_string();
    let drafts = [
        world.entry("trend-bot", 0, "0.002"),
        world.entry("other-bot", 0, "0.003"),
        world.draft("research-bot", "admission.admit", &task.to_string()),
        world.draft("research-bot", "council.request", &case()),
        world.draft("trend-bot", "rule.propose", &rule("own", "trend-bot")),
        world.draft("trend-bot", "rule.propose", &rule("of-others", "other-bot")),
        world.draft("owner", "services.add", &bank.to_string()),
        world.draft("owner", "halt.set", &drill),
    ];
    drafts.iter().for_each(|draft| world.send(draft));
    let outcomes = world.drain(home);
    assert_eq!(outcomes.len(), drafts.len());
    for outcome in &outcomes {
        assert!(
            [None, Some(Code::Held)].contains(&code_of(outcome)),
            "{:?}",
            outcome.answer
        );
    }
    for (source, role) in REVIEWERS {
        let draft = world.draft(source, "council.verdict", &verdict(role));
        world.send(&draft);
    }
    for outcome in world.drain(home) {
        assert_eq!(code_of(&outcome), None, "{:?}", outcome.answer);
    }
}

/// Returns the lines from `first` on that the index has, with their batches.
fn lines(home: &Home, first: u64) -> Vec<(u64, u64, Record)> {
    let known = |seq| {
        home.record(seq)
            .ok()
            .map(|(batch, record)| (seq, batch, record))
    };
    (first..home.position().seq).filter_map(known).collect()
}

/// Returns the path of a line's answer below the home.
fn answer_of(record: &Record) -> Option<PathBuf> {
    let place = match record {
        Record::Decision(decision) => &decision.answer,
        Record::Council(line) => &line.answer,
        _ => return None,
    };
    Some(Path::new("spool").join(place))
}

fn index_of(log: &[PathBuf], path: &Path) -> usize {
    log.iter()
        .position(|done| done == path)
        .unwrap_or_else(|| panic!("{} was never put there", path.display()))
}

#[test]
fn files_of_every_kind_are_there_when_their_answer_is() {
    let Kinds { mut world, log, .. } = kinds(101);
    let mut home = world.open();
    let first = home.position().seq;
    log.lock().unwrap().clear();
    send_everything(&mut world, &mut home);
    let log = log.lock().unwrap().clone();
    let mut kinds = BTreeSet::new();
    let lines = lines(&home, first);
    for batch in lines.chunk_by(|(_, one, _), (_, other, _)| one == other) {
        let last = batch
            .iter()
            .rposition(|(_, _, record)| answer_of(record).is_some());
        for (index, (seq, _, record)) in batch.iter().enumerate() {
            let Some(answer) = answer_of(record) else {
                continue;
            };
            let answered = index_of(&log, &answer);
            // The last answer of a batch comes after the files of all its lines.
            let before = if last == Some(index) {
                batch
            } else {
                &batch[..=index]
            };
            for (line, _, _) in before {
                for (kind, file) in home.derived_files(*line).unwrap() {
                    kinds.insert(kind);
                    assert!(
                        index_of(&log, &file) < answered,
                        "line {seq} was answered before {} of line {line}",
                        file.display()
                    );
                }
            }
        }
    }
    let missing: Vec<_> = Home::derived_kinds()
        .filter(|kind| !kinds.contains(kind))
        .collect();
    assert!(
        missing.is_empty(),
        "no request here makes files of these kinds: {missing:?}"
    );
}

#[test]
fn files_of_every_kind_come_again_after_a_crash() {
    let Kinds {
        mut world,
        is_blocked,
        ..
    } = kinds(102);
    // As long as an instruction cannot be written, no line is marked as published.
    is_blocked.store(true, Ordering::Relaxed);
    let mut home = world.open();
    let first = home.position().seq;
    send_everything(&mut world, &mut home);
    home.mark_published().unwrap();
    let mut kinds = BTreeSet::new();
    let mut files: BTreeMap<PathBuf, Option<Vec<u8>>> = BTreeMap::new();
    for (seq, _, _) in lines(&home, first) {
        for (kind, file) in home.derived_files(seq).unwrap() {
            kinds.insert(kind);
            let bytes = fs::read(world.root.join(&file)).ok();
            assert_eq!(
                bytes.is_none(),
                file.starts_with(BRIDGE),
                "{}",
                file.display()
            );
            files.insert(file, bytes);
        }
    }
    assert_eq!(kinds, Home::derived_kinds().collect());
    drop(home);
    is_blocked.store(false, Ordering::Relaxed);
    for (n, path) in files
        .keys()
        .filter(|path| !path.starts_with(BRIDGE))
        .enumerate()
    {
        // What a power cut leaves: nothing, or a file without its bytes. An empty rule file would
        // count as a person's edit.
        match n % 2 {
            0 if !path.starts_with("rules") => fs::write(world.root.join(path), "").unwrap(),
            _ => fs::remove_file(world.root.join(path)).unwrap(),
        }
    }
    let mut home = world.open();
    for (path, bytes) in &files {
        let again = fs::read(world.root.join(path))
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(
            bytes.as_ref().is_none_or(|bytes| *bytes == again),
            "{}",
            path.display()
        );
    }
    assert!(!world.root.join("proposals/edited").exists());
    // After the mark they belong to their readers.
    home.mark_published().unwrap();
    drop(home);
    files
        .keys()
        .filter(|path| !path.starts_with("rules"))
        .for_each(|path| {
            fs::remove_file(world.root.join(path)).unwrap();
        });
    drop(world.open());
    assert!(
        files
            .keys()
            .all(|path| path.starts_with("rules") == world.root.join(path).exists())
    );
}

#[test]
fn files_of_an_entry_keep_no_exit_waiting() {
    let Kinds { mut world, log, .. } = kinds(103);
    let mut home = world.open();
    let resting = world.resting("trend-bot", 0, "0.002");
    let placed = world.decide(&mut home, &resting);
    assert_eq!(code_of(&placed), None, "{:?}", placed.answer);
    let order = placed.decision.order_id.unwrap();
    log.lock().unwrap().clear();
    let entry = world.entry("other-bot", 0, "0.002");
    let cancel = world.draft(
        "trend-bot",
        "order.cancel",
        &json!({"order_id": order}).to_string(),
    );
    [&entry, &cancel]
        .into_iter()
        .for_each(|draft| world.send(draft));
    let outcomes = world.drain(&mut home);
    assert!(
        outcomes.iter().all(|outcome| code_of(outcome).is_none()),
        "{outcomes:?}"
    );
    let log = log.lock().unwrap().clone();
    let answer = |draft: &Draft| index_of(&log, Path::new(&format!("spool/out/{}.json", draft.id)));
    let instruction = |name: String| index_of(&log, &Path::new(BRIDGE).join(name));
    let entered = outcomes
        .iter()
        .find_map(|outcome| outcome.decision.order_id.filter(|id| *id != order))
        .unwrap();
    let steps = [
        instruction(format!("{order}.2.json")),
        answer(&cancel),
        instruction(format!("{entered}.1.json")),
        answer(&entry),
    ];
    assert!(steps.is_sorted(), "{steps:?}");
}
