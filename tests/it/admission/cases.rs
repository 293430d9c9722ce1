//! Admission case by case: `tests/data/admission_cases.jsonl` has one case per line, and each runs
//! through prepare, look-ups, decide and fold over an index in memory.
//!
//! The first line of the file names principals and policies. A case has `policy` (of the domain
//! t/s/p; null: no file), `before` (that policy during the setup, if it was another), `setup` (earlier
//! requests), `ask` (the request under test) and `expect`.
//! A request is a task as in [`crate::kit::tasks::Task`], or an object with it as `task` and
//! further members: `from`, `do`, `in`, `kind`, `payload`, `bytes` (size of the payload), `depth`,
//! `budget`, `cause` (`@id`: the receipt of that request), `forward`, `set` and `drop` (JSON
//! pointers into the body), `replace` (of the body's text), `carries` (causality of the envelope),
//! `wait_ms`, `fault` (of the rule files), `expect`. The expectation is `ALLOW`, `DENY <reason>`,
//! `REPLAY` or `REFUSED <code>`, then `reserved` and `forwarded` if that applies, counters as
//! `depth=1`, and all failed rows as `failed=a,b`.

use std::collections::BTreeMap;

use crate::kit::tasks::{Gate, Task, check_receipt, reserved};
use serde::Deserialize;
use serde_json::{Value, json};
use spoolgate_gate::Decision;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    principals: String,
    policies: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    case: String,
    policy: Option<String>,
    before: Option<String>,
    #[serde(default)]
    setup: Vec<Value>,
    ask: Value,
    expect: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    task: String,
    #[serde(default = "bot")]
    from: String,
    #[serde(default = "admit", rename = "do")]
    action: String,
    #[serde(default = "usual", rename = "in")]
    domain: String,
    #[serde(default = "task")]
    kind: String,
    payload: Option<Value>,
    bytes: Option<usize>,
    depth: Option<Value>,
    budget: Option<Value>,
    cause: Option<Value>,
    forward: Option<bool>,
    #[serde(default)]
    set: BTreeMap<String, Value>,
    #[serde(default)]
    drop: Vec<String>,
    #[serde(default)]
    replace: Vec<(String, String)>,
    carries: Option<Value>,
    #[serde(default)]
    wait_ms: i64,
    fault: Option<String>,
    expect: Option<String>,
}

fn bot() -> String {
    "bot".to_owned()
}

fn admit() -> String {
    "admit".to_owned()
}

fn usual() -> String {
    "t/s/p".to_owned()
}

fn task() -> String {
    "task".to_owned()
}

impl Request {
    fn read(value: &Value) -> Request {
        let value = if value.is_string() {
            json!({"task": value})
        } else {
            value.clone()
        };
        serde_json::from_value(value).unwrap()
    }
}

/// Returns the object that contains what the pointer names, and its key.
fn holder<'a>(
    body: &'a mut Value,
    pointer: &'a str,
) -> (&'a mut serde_json::Map<String, Value>, &'a str) {
    let (above, key) = pointer.rsplit_once('/').unwrap();
    (
        body.pointer_mut(above).unwrap().as_object_mut().unwrap(),
        key,
    )
}

struct Play {
    gate: Gate,
    /// The line of each request.
    lines: BTreeMap<String, u64>,
}

impl Play {
    fn ask(&mut self, value: &Value) -> Decision {
        let request = Request::read(value);
        self.gate.now = self.gate.now.plus_ms(request.wait_ms);
        self.gate.state.rulebook.fault = request.fault;
        let mut task = Task::parse(&request.task);
        (task.domain, task.kind) = (request.domain, request.kind);
        task.payload = request.payload.unwrap_or_else(|| json!({}));
        if let Some(bytes) = request.bytes {
            task.payload = json!({"p": "x".repeat(bytes - 8)});
            assert_eq!(task.payload.to_string().len(), bytes);
        }
        (task.depth, task.budget) = (request.depth, request.budget);
        task.cause = request.cause.map(|cause| {
            match cause.as_str().and_then(|text| text.strip_prefix('@')) {
                Some(id) => json!(format!("r-{}", self.lines[id])),
                None => cause,
            }
        });
        let mut body = task.body();
        if let Some(forward) = request.forward {
            body["forward"] = json!(forward);
        }
        for (pointer, value) in &request.set {
            let (object, key) = holder(&mut body, pointer);
            object.insert(key.to_owned(), value.clone());
        }
        for pointer in &request.drop {
            let (object, key) = holder(&mut body, pointer);
            object
                .remove(key)
                .unwrap_or_else(|| panic!("there is no {pointer}"));
        }
        let mut text = body.to_string();
        for (from, to) in &request.replace {
            assert!(text.contains(from), "{from} is not in {text}");
            text = text.replace(from, to);
        }
        self.lines.insert(task.id.clone(), self.gate.seq);
        let action = format!("admission.{}", request.action);
        let carries = request.carries.map(|causality| causality.to_string());
        let decision = self
            .gate
            .ask(&request.from, &task.id, &action, &text, carries.as_deref());
        check_receipt(&decision);
        if let Some(expect) = &request.expect {
            assert_eq!(&told(&decision, expect), expect, "{}", task.id);
        }
        decision
    }
}

/// Describes the outcome in the words of `expect`, as far as these go.
fn told(decision: &Decision, expect: &str) -> String {
    let mut words = Vec::new();
    match (&decision.receipt, &decision.metadata.code) {
        (Some(receipt), _) => match receipt.rejection_reason_code {
            Some(reason) => words.extend(["DENY".to_owned(), reason.name().to_owned()]),
            None => words.push("ALLOW".to_owned()),
        },
        (None, Some(code)) => words.extend([
            "REFUSED".to_owned(),
            json!(code).as_str().unwrap().to_owned(),
        ]),
        (None, None) => words.push("REPLAY".to_owned()),
    }
    words.extend(reserved(decision).map(|_| "reserved".to_owned()));
    words.extend(decision.forwarded_to().map(|_| "forwarded".to_owned()));
    for word in expect.split(' ').filter(|word| word.contains('=')) {
        let (name, _) = word.split_once('=').unwrap();
        let shown = |count: Option<i64>| count.map_or("-".to_owned(), |count| count.to_string());
        let count = |count: Option<u64>| shown(count.map(|count| count.try_into().unwrap()));
        let counters = decision
            .receipt
            .as_ref()
            .map(|receipt| receipt.effective_counters)
            .unwrap_or_default();
        let value = match name {
            "depth" => count(counters.spawn_depth),
            "below" => count(counters.total_descendants),
            "repeats" => count(counters.capability_repeats),
            "window" => count(counters.ancestor_repeats),
            "budget" => shown(counters.recursion_budget_remaining),
            "usd" => counters
                .usd_left
                .map_or("-".to_owned(), |usd| usd.to_string()),
            "tokens" => shown(counters.tokens_left),
            "seconds" => shown(counters.seconds_left),
            "failed" => {
                let failed = decision.checks.iter().filter(|row| !row.passed);
                failed
                    .map(|row| row.name.to_string())
                    .collect::<Vec<_>>()
                    .join(",")
            }
            other => panic!("`{other}` is no counter"),
        };
        words.push(format!("{name}={value}"));
    }
    words.join(" ")
}

#[test]
fn every_case_of_the_file() {
    let mut lines = include_str!("../../data/admission_cases.jsonl").lines();
    let head: Head = serde_json::from_str(lines.next().unwrap()).unwrap();
    let mut wrong = Vec::new();
    let mut names = std::collections::BTreeSet::new();
    for line in lines {
        let case: Case =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        assert!(
            names.insert(case.case.clone()),
            "`{}` appears twice",
            case.case
        );
        let gate = |policy: Option<String>| {
            let mut policies = head.policies.clone();
            policies.extend(policy.map(|text| (usual(), text)));
            let policies = policies.iter();
            let policies = policies.map(|(domain, text)| (domain.as_str(), text.as_str()));
            Gate::new(&head.principals, policies)
        };
        let played = std::panic::catch_unwind(|| {
            let mut play = Play {
                gate: gate(case.before.clone().or_else(|| case.policy.clone())),
                lines: BTreeMap::new(),
            };
            for request in &case.setup {
                let (decision, expects) = (play.ask(request), request.get("expect").is_some());
                assert!(
                    expects || reserved(&decision).is_some(),
                    "{request}: {}",
                    told(&decision, "")
                );
            }
            play.gate.rules = gate(case.policy.clone()).rules;
            let decision = play.ask(&case.ask);
            let again = told(&decision, &case.expect);
            (
                again,
                decision
                    .receipt
                    .and_then(|receipt| receipt.rejection_detail),
            )
        });
        match played {
            Ok((found, _)) if found == case.expect => {}
            Ok((found, detail)) => wrong.push(format!(
                "{}: {found}, not {}: {detail:?}",
                case.case, case.expect
            )),
            Err(_) => wrong.push(format!("{}: panicked, see above", case.case)),
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} cases:\n{}",
        wrong.len(),
        names.len(),
        wrong.join("\n")
    );
    assert!(names.len() >= 120, "only {} cases", names.len());
}
