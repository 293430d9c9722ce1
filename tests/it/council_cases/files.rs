//! Five verdict files in every order, with all kinds of files between them that are not verdicts.

use serde_json::json;
use spoolgate_home::batch::Outcome;
use spoolgate_wire::code::Code;
use spoolgate_wire::signing::SignKey;

use crate::kit::Dice;
use crate::kit::court::{Court, SEATS, decision_bytes, opinion, request, speaker, verdict};

const CASE: &str = "req_1";
const OUT: &str = "spool/out/req_1.decision.json";

/// Returns all orders of `n` elements.
fn orders(n: usize) -> Vec<Vec<usize>> {
    if n == 0 {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for shorter in orders(n - 1) {
        for at in 0..n {
            let mut order = shorter.clone();
            order.insert(at, n - 1);
            all.push(order);
        }
    }
    all
}

fn code(outcome: &Outcome) -> Option<Code> {
    outcome.answer.error.as_ref().map(|error| error.code)
}

fn stance(role: &str) -> &'static str {
    match role {
        "Risk Officer" => "REJECT",
        "Integration Engineer" => "NEEDS_MORE_INFO",
        _ => "APPROVE",
    }
}

/// Makes a home with an open case. Returns the payload that opened it.
fn opened(change: &str) -> (Court, String) {
    let court = Court::new();
    let mut home = court.open();
    let asked = court.propose(&mut home, CASE, change);
    home.finish("the case is open").unwrap();
    drop(home);
    (court, asked)
}

/// Drops a file that is not a verdict. Returns how it must be refused.
fn noise(court: &Court, kind: u64, n: usize, asked: &str) -> (String, Code) {
    let id = format!("noise-{n}-{kind}");
    let good = verdict(CASE, asked, &opinion("Code Auditor", "APPROVE"));
    let (source, payload, code) = match kind {
        0 => {
            let forged = SignKey::Hmac([99; 32]);
            court
                .place
                .ask(&forged, "code-auditor", &id, "council.verdict", &good);
            return (id, Code::SignatureInvalid);
        }
        1 => {
            let other = request(CASE, "FREEZE_SPEC");
            (
                "code-auditor",
                verdict(CASE, &other, &opinion("Code Auditor", "REJECT")),
                Code::StateConflict,
            )
        }
        2 => (
            "code-auditor",
            good.replace("checklist_results", "check_list"),
            Code::MalformedPayload,
        ),
        3 => (
            "research-bot",
            verdict(CASE, asked, &opinion("Risk Officer", "APPROVE")),
            Code::NotPermitted,
        ),
        4 => (
            "code-auditor",
            verdict(CASE, asked, &opinion("Risk Officer", "APPROVE")),
            Code::NotPermitted,
        ),
        5 => ("code-auditor", good.replace(CASE, "req_2"), Code::NotFound),
        6 => ("trend-bot", good, Code::NotPermitted),
        _ => (
            "code-auditor",
            json!({"request_id": CASE}).to_string(),
            Code::MalformedPayload,
        ),
    };
    court.send(source, &id, "council.verdict", &payload);
    (id, code)
}

/// Sends a verdict and, after it, the same file again.
fn send_vote(court: &Court, n: usize, role: &str, asked: &str) {
    let payload = verdict(CASE, asked, &opinion(role, stance(role)));
    court.send(
        speaker(role),
        &format!("vote-{n}"),
        "council.verdict",
        &payload,
    );
}

#[test]
fn every_order_of_five_files_gives_the_same_decision() {
    let (base, asked) = opened("DECLARE_PASS");
    let mut decision: Option<Vec<u8>> = None;
    for (number, order) in orders(5).into_iter().enumerate() {
        let court = base.fork();
        let mut dice = Dice::apart(number as u64);
        let mut home = court.open();
        // One at a time, several in a batch, all in one.
        let together = 1 + number % 5;
        let mut expected = Vec::new();
        for (n, place) in order.iter().enumerate() {
            assert!(
                court.file(OUT).is_none(),
                "{order:?}: decided before vote {n}"
            );
            expected.push(noise(&court, dice.below(8), n, &asked));
            send_vote(&court, n, SEATS[*place].1, &asked);
            if n % together == together - 1 || n == 4 {
                for outcome in court.drain(&mut home) {
                    let id = outcome.decision.request_id.clone().unwrap();
                    let refused = expected
                        .iter()
                        .find(|(noise, _)| *noise == id)
                        .map(|(_, code)| *code);
                    // A file after the last verdict of its batch meets a decided case.
                    let late =
                        code(&outcome) == Some(Code::StateConflict) && refused.is_some() && n == 4;
                    assert!(
                        code(&outcome) == refused || late,
                        "{order:?} {id}: {:?}",
                        outcome.answer.error
                    );
                }
            }
        }
        // The first file once more; and the same role once more, with a change of mind that comes
        // too late.
        send_vote(&court, 0, SEATS[order[0]].1, &asked);
        let again = court.drain(&mut home).remove(0);
        assert!(again.decision.metadata.replay_of.is_some() && code(&again).is_none());
        let role = SEATS[order[0]].1;
        let late = court.vote(&mut home, "late", CASE, &asked, role, "APPROVE");
        assert_eq!(code(&late), Some(Code::StateConflict));
        home.finish("the case is decided").unwrap();
        drop(home);
        let told = court.told();
        let (_, ruling) = told.ruling(CASE);
        let bytes = decision_bytes(ruling);
        assert_eq!(
            decision.get_or_insert_with(|| bytes.clone()),
            &bytes,
            "{order:?}"
        );
        assert_eq!(ruling.verdict_lines.len(), 5);
        assert_eq!(court.file(OUT), Some(bytes));
        let roles: Vec<&str> = SEATS.iter().map(|(_, role)| *role).collect();
        court.files_stand(&roles).unwrap();
        if number % 12 == 0 {
            court.agrees(CASE);
        }
    }
    let decision: serde_json::Value = serde_json::from_slice(&decision.unwrap()).unwrap();
    assert_eq!(
        decision["final_outcome"], "REJECT",
        "the Risk Officer has a veto"
    );
    let keys: Vec<&str> = decision
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    let mut contract = [
        "request_id",
        "final_outcome",
        "axis_scores",
        "summary_reasoning",
        "blocking_issues",
        "next_steps",
    ];
    contract.sort_unstable();
    assert_eq!(keys, contract);
}

/// Verdicts may come twice and be corrected: the worst of each role counts, whichever came first.
#[test]
fn corrections_and_copies_in_every_order() {
    let (base, asked) = opened("UPDATE_CONFIG");
    // The first four belong to one role; the last verdict decides, and belongs to another role.
    let says = |n: usize| match n {
        0 => opinion("Risk Officer", "APPROVE"),
        1 => opinion("risk officer", "NEEDS_MORE_INFO"),
        2 => opinion("RO", "REJECT"),
        3 => opinion("Code Auditor", "APPROVE"),
        _ => opinion("Integration Engineer", "APPROVE"),
    };
    let by = [
        "risk-officer",
        "risk-officer",
        "risk-officer",
        "code-auditor",
        "integration-engineer",
    ];
    let mut decisions = std::collections::BTreeSet::new();
    let mut tried = 0;
    for (number, order) in orders(5).into_iter().enumerate() {
        if order[4] < 3 {
            continue;
        }
        tried += 1;
        let court = base.fork();
        let mut home = court.open();
        for (n, place) in order.iter().enumerate() {
            let payload = verdict(CASE, &asked, &says(*place));
            let done = court.ask(
                &mut home,
                by[*place],
                &format!("v{n}"),
                "council.verdict",
                &payload,
            );
            assert_eq!(code(&done), None, "{order:?}: {:?}", done.answer.error);
            if *place < 3 {
                // The same verdict under another id is another line, but not another vote.
                let done = court.ask(
                    &mut home,
                    by[*place],
                    &format!("w{n}"),
                    "council.verdict",
                    &payload,
                );
                assert_eq!(code(&done), None, "{order:?}: {:?}", done.answer.error);
            }
        }
        let told = court.told();
        let (_, ruling) = told.ruling(CASE);
        assert_eq!(ruling.verdict_lines.len(), 8);
        decisions.insert(decision_bytes(ruling));
        drop(home);
        court
            .files_stand(&["Risk Officer", "Code Auditor", "Integration Engineer"])
            .unwrap();
        if number % 20 == 0 {
            court.agrees(CASE);
        }
    }
    assert_eq!((tried, decisions.len()), (48, 1));
    let decision = String::from_utf8(decisions.pop_first().unwrap()).unwrap();
    assert!(
        decision.contains("\"final_outcome\":\"REJECT\""),
        "{decision}"
    );
}

#[test]
fn only_unanimous_approval_approves() {
    let roles = ["Risk Officer", "Code Auditor", "Integration Engineer"];
    let (base, asked) = opened("UPDATE_CONFIG");
    for missing in [None, Some(0), Some(1), Some(2)] {
        let court = base.fork();
        let mut home = court.open();
        for (n, role) in roles
            .iter()
            .enumerate()
            .filter(|(n, _)| Some(*n) != missing)
        {
            court.vote(&mut home, &format!("v{n}"), CASE, &asked, role, "APPROVE");
        }
        assert_eq!(court.file(OUT).is_some(), missing.is_none());
        court.place.pass_s(86_400);
        home.write_news().unwrap();
        let outcome = court.told().ruling(CASE).1.outcome.as_str();
        assert_eq!(
            outcome,
            if missing.is_none() {
                "APPROVE"
            } else {
                "NEEDS_MORE_INFO"
            },
            "{missing:?}"
        );
        drop(home);
        court.agrees(CASE);
    }
}

/// A role that this change does not require: its approval has no effect, its objection has, and the
/// case does not wait for it.
#[test]
fn a_role_that_is_not_asked() {
    let (base, asked) = opened("UPDATE_CONFIG");
    for (says, outcome) in [("APPROVE", "APPROVE"), ("REJECT", "NEEDS_MORE_INFO")] {
        let court = base.fork();
        let mut home = court.open();
        for (n, role) in [
            "Quant Researcher",
            "Risk Officer",
            "Code Auditor",
            "Integration Engineer",
        ]
        .iter()
        .enumerate()
        {
            assert!(court.file(OUT).is_none());
            let stance = if n == 0 { says } else { "APPROVE" };
            let done = court.vote(&mut home, &format!("v{n}"), CASE, &asked, role, stance);
            assert_eq!(code(&done), None);
        }
        assert_eq!(court.told().ruling(CASE).1.outcome.as_str(), outcome);
        drop(home);
        court.agrees(CASE);
    }
}

/// A role cannot write so much that its case no longer fits the line of its decision.
#[test]
fn one_role_cannot_fill_a_case() {
    let (court, asked) = opened("UPDATE_CONFIG");
    let mut home = court.open();
    let most = spoolgate_gate::council::VERDICTS_MAX;
    for n in 0..most + 10 {
        let mut says = opinion("Code Auditor", "APPROVE");
        says["concerns"] = json!(
            (0..1200)
                .map(|k| format!("worry {n}/{k} {}", "x".repeat(20)))
                .collect::<Vec<_>>()
        );
        let payload = verdict(CASE, &asked, &says);
        let done = court.ask(
            &mut home,
            "code-auditor",
            &format!("v{n}"),
            "council.verdict",
            &payload,
        );
        assert_eq!(
            code(&done),
            (n >= most).then_some(Code::StateConflict),
            "{n}: {:?}",
            done.answer.error
        );
    }
    court.vote(&mut home, "ro", CASE, &asked, "Risk Officer", "APPROVE");
    let last = court.vote(
        &mut home,
        "ie",
        CASE,
        &asked,
        "Integration Engineer",
        "APPROVE",
    );
    assert_eq!(code(&last), None, "{:?}", last.answer.error);
    let told = court.told();
    let (_, ruling) = told.ruling(CASE);
    assert!(court.file(OUT).is_some() && ruling.verdict_lines.len() == most + 2);
    // The record is too large for a line, and is kept beside it all the same.
    assert!(ruling.record.is_none() && ruling.record_blob.is_some());
    let record = told.folder(CASE).join("record.json");
    assert!(court.file(record).unwrap().len() > 500_000);
}

/// A case name is used once, whichever sender it is, and a case creates its own proposer's folder.
#[test]
fn a_case_is_opened_once() {
    let (court, _) = opened("UPDATE_CONFIG");
    let mut home = court.open();
    for (source, change) in [
        ("research-bot", "UPDATE_CONFIG"),
        ("trend-bot", "CODE_REFACTOR"),
    ] {
        let id = format!("again-{source}");
        let done = court.ask(
            &mut home,
            source,
            &id,
            "council.request",
            &request(CASE, change),
        );
        assert_eq!(code(&done), Some(Code::StateConflict));
    }
    for id in ["../x", ".x", "x.decision", "x/y", "", &"x".repeat(129)] {
        let done = court.ask(
            &mut home,
            "research-bot",
            &format!("bad-{}", id.len()),
            "council.request",
            &request(id, "UPDATE_CONFIG"),
        );
        assert_eq!(code(&done), Some(Code::MalformedPayload), "{id}");
        court
            .place
            .disk
            .drop_file(format!("spool/in/bad-{}.json", id.len()));
    }
    assert_eq!(home.state().council.open, 1);
}
