//! Deadlines to the millisecond, many at once, and wrong clocks.

use std::collections::BTreeMap;

use spoolgate_gate::record::ClosedBy;
use spoolgate_wire::code::Code;
use spoolgate_wire::council::Stance;

use crate::kit::court::{Court, SEATS, decision_bytes, edit_roles};

const DAY_MS: i64 = 86_400_000;

fn pass_ms(court: &Court, ms: i64) {
    court
        .place
        .clock
        .set(court.place.seams().clock.now().plus_ms(ms));
}

#[test]
fn before_at_and_after_by_one_millisecond() {
    for (ms, in_time) in [(-1, true), (0, false), (1, false)] {
        // The last verdict that the case waits for; and a verdict while another is missing.
        for has_other in [true, false] {
            let court = Court::new();
            let mut home = court.open();
            let asked = court.propose(&mut home, "req_1", "CODE_REFACTOR");
            if has_other {
                court.vote(
                    &mut home,
                    "first",
                    "req_1",
                    &asked,
                    "Code Auditor",
                    "APPROVE",
                );
            }
            pass_ms(&court, DAY_MS + ms);
            let done = court.vote(
                &mut home,
                "last",
                "req_1",
                &asked,
                "Integration Engineer",
                "APPROVE",
            );
            let code = done.answer.error.as_ref().map(|error| error.code);
            assert_eq!(
                code,
                (!in_time).then_some(Code::StateConflict),
                "{ms} {:?}",
                done.answer.error
            );
            pass_ms(&court, 1);
            home.write_news().unwrap();
            drop(home);
            let told = court.told();
            let (_, ruling) = told.ruling("req_1");
            let by = if in_time && has_other {
                ClosedBy::Seats
            } else {
                ClosedBy::Deadline
            };
            let outcome = if in_time && has_other {
                Stance::Approve
            } else {
                Stance::NeedsMoreInfo
            };
            assert_eq!(
                (ruling.closed_by, ruling.outcome),
                (by, outcome),
                "{ms} {has_other}"
            );
            court
                .files_stand(&["Code Auditor", "Integration Engineer"])
                .unwrap();
            court.agrees("req_1");
        }
    }
}

/// More cases are due than one batch decides: none is forgotten, none is decided twice, and no
/// verdict enters a case whose turn has not come yet.
#[test]
fn many_due_at_once() {
    const CASES: usize = 150;
    let court = Court::new();
    let mut home = court.open();
    let mut asked = String::new();
    for n in 0..CASES {
        asked = crate::kit::court::request(&format!("req_{n:03}"), "CODE_REFACTOR");
        court.send(
            "research-bot",
            &format!("open-{n}"),
            "council.request",
            &asked,
        );
    }
    court.drain(&mut home);
    assert_eq!(home.state().council.open, CASES as u64);
    pass_ms(&court, 1);
    let last = format!("req_{:03}", CASES - 1);
    court.vote(&mut home, "v1", &last, &asked, "Code Auditor", "APPROVE");
    pass_ms(&court, DAY_MS - 1);
    let payload = crate::kit::court::verdict(
        &last,
        &asked,
        &crate::kit::court::opinion("Integration Engineer", "APPROVE"),
    );
    court.send("integration-engineer", "v2", "council.verdict", &payload);
    let late = home.round(false).unwrap();
    assert_eq!(
        late.outcomes[0]
            .answer
            .error
            .as_ref()
            .map(|error| error.code),
        Some(Code::StateConflict)
    );
    assert!(late.more, "the rest are due still");
    // Eight per batch: an exit waits for no more than that.
    assert_eq!(home.state().council.open, CASES as u64 - 8);
    court.drain(&mut home);
    assert_eq!(home.state().council.open, 0);
    drop(home);
    let told = court.told();
    assert_eq!(told.rulings.len(), CASES);
    for n in 0..CASES {
        let (_, ruling) = told.ruling(&format!("req_{n:03}"));
        assert_eq!(
            (ruling.closed_by, ruling.outcome),
            (ClosedBy::Deadline, Stance::NeedsMoreInfo)
        );
    }
    court
        .files_stand(&["Code Auditor", "Integration Engineer"])
        .unwrap();
    court.agrees(&last);
}

/// A clock that stepped back delays deadlines and decides nothing; one that jumped ahead between
/// two runs can only end cases without an approval. In both cases each is decided once.
#[test]
fn a_clock_that_is_wrong() {
    for step_ms in [-3_600_000, 9 * DAY_MS] {
        let court = Court::new();
        let mut home = court.open();
        let asked = court.propose(&mut home, "req_1", "CODE_REFACTOR");
        court.vote(&mut home, "v1", "req_1", &asked, "Code Auditor", "APPROVE");
        home.finish("closed for the night").unwrap();
        drop(home);
        pass_ms(&court, step_ms);
        let mut home = court.open();
        home.write_news().unwrap();
        assert!(home.state().clock.fault.is_some(), "{step_ms}");
        // Until a person accepts the clock, no deadline has passed.
        assert_eq!(home.state().council.open, 1);
        court
            .place
            .ask_as_owner("accept", "clock.accept", r#"{"reason":"looked at it"}"#);
        court.drain(&mut home);
        assert!(home.state().clock.fault.is_none());
        let done = court.vote(
            &mut home,
            "v2",
            "req_1",
            &asked,
            "Integration Engineer",
            "APPROVE",
        );
        assert_eq!(
            done.answer.error.is_none(),
            step_ms < 0,
            "{:?}",
            done.answer.error
        );
        drop(home);
        let outcome = court.told().ruling("req_1").1.outcome;
        assert_eq!(
            outcome,
            if step_ms < 0 {
                Stance::Approve
            } else {
                Stance::NeedsMoreInfo
            }
        );
        court.agrees("req_1");
    }
}

/// The rules at the moment of the decision apply, and its line names them.
#[test]
fn rules_that_change_meanwhile() {
    let court = Court::new();
    let mut home = court.open();
    let asked = court.propose(&mut home, "req_1", "CODE_REFACTOR");
    court.vote(&mut home, "v1", "req_1", &asked, "Code Auditor", "APPROVE");
    let before = home.rulebook().hash.clone();
    edit_roles(court.place.root.path(), |text| {
        text.replace(
            "    required_roles: [Code Auditor, Integration Engineer]\n",
            "    required_roles: [Code Auditor, Risk Officer]\n",
        )
    });
    for _ in 0..3 {
        pass_ms(&court, 1100);
        home.write_news().unwrap();
    }
    assert_ne!(home.rulebook().hash, before);
    court.vote(
        &mut home,
        "v2",
        "req_1",
        &asked,
        "Integration Engineer",
        "APPROVE",
    );
    assert_eq!(
        home.state().council.open,
        1,
        "it waits for the other role now"
    );
    court.vote(&mut home, "v3", "req_1", &asked, "Risk Officer", "APPROVE");
    drop(home);
    let told = court.told();
    let (_, ruling) = told.ruling("req_1");
    assert_eq!(
        (ruling.outcome, ruling.closed_by),
        (Stance::Approve, ClosedBy::Seats)
    );
    assert_ne!(ruling.rulebook, before);
    court.agrees("req_1");
}

/// Only the proposer may speak for a role: the case waits for its deadline and is not approved.
#[test]
fn no_principal_may_give_a_verdict() {
    let court = Court::under(|root| {
        let path = root.join("rules/principals.yaml");
        let text = std::fs::read_to_string(&path).unwrap();
        let text = text.replace(
            "  - name: research-bot\n    role: agent\n",
            "  - name: research-bot\n    role: agent\n    council_roles: [Code Auditor]\n",
        );
        let text = text.replacen(
            "    council_roles: [Code Auditor]\n  - name: realism",
            "  - name: realism",
            1,
        );
        std::fs::write(path, text).unwrap();
    });
    let mut home = court.open();
    let payload = crate::kit::court::request("req_1", "CODE_REFACTOR");
    let done = court.ask(
        &mut home,
        "research-bot",
        "open",
        "council.request",
        &payload,
    );
    let data: BTreeMap<String, serde_json::Value> =
        serde_json::from_str(done.answer.data.as_ref().unwrap().get()).unwrap();
    assert_eq!(data["unstaffed"], serde_json::json!(["Code Auditor"]));
    let own = crate::kit::court::verdict(
        "req_1",
        &payload,
        &crate::kit::court::opinion("Code Auditor", "APPROVE"),
    );
    let done = court.ask(&mut home, "research-bot", "own", "council.verdict", &own);
    assert_eq!(
        done.answer.error.map(|error| error.code),
        Some(Code::NotPermitted)
    );
    court.vote(
        &mut home,
        "v1",
        "req_1",
        &payload,
        "Integration Engineer",
        "APPROVE",
    );
    assert_eq!(home.state().council.open, 1);
    pass_ms(&court, DAY_MS);
    home.write_news().unwrap();
    drop(home);
    let told = court.told();
    let (_, ruling) = told.ruling("req_1");
    assert_eq!(ruling.outcome, Stance::NeedsMoreInfo);
    assert_eq!(
        court.file("spool/out/req_1.decision.json"),
        Some(decision_bytes(ruling))
    );
    assert_eq!(SEATS.len(), 5);
}

/// Verdicts that would decide more cases in one batch than allowed are filed all the same; the next
/// batches decide the cases that they complete, by their seats.
#[test]
fn many_filled_at_once() {
    const CASES: usize = 30;
    let court = Court::new();
    let mut home = court.open();
    let asked: Vec<String> = (0..CASES)
        .map(|n| crate::kit::court::request(&format!("req_{n:03}"), "CODE_REFACTOR"))
        .collect();
    for (n, asked) in asked.iter().enumerate() {
        court.send(
            "research-bot",
            &format!("open-{n}"),
            "council.request",
            asked,
        );
    }
    court.drain(&mut home);
    for role in ["Code Auditor", "Integration Engineer"] {
        for (n, asked) in asked.iter().enumerate() {
            let opinion = crate::kit::court::opinion(role, "APPROVE");
            let payload = crate::kit::court::verdict(&format!("req_{n:03}"), asked, &opinion);
            let id = format!("v-{}-{n}", crate::kit::court::speaker(role));
            court.send(
                crate::kit::court::speaker(role),
                &id,
                "council.verdict",
                &payload,
            );
        }
        if role == "Code Auditor" {
            court.drain(&mut home);
        }
    }
    let round = home.round(false).unwrap();
    assert_eq!(round.outcomes.len(), CASES);
    assert!(
        round
            .outcomes
            .iter()
            .all(|outcome| outcome.answer.error.is_none())
    );
    assert_eq!(home.state().council.open, CASES as u64 - 8);
    assert!(round.more, "the rest are full");
    court.drain(&mut home);
    assert_eq!(home.state().council.open, 0);
    drop(home);
    let told = court.told();
    for n in 0..CASES {
        let (_, ruling) = told.ruling(&format!("req_{n:03}"));
        assert_eq!(
            (ruling.closed_by, ruling.outcome),
            (ClosedBy::Seats, Stance::Approve)
        );
    }
    court
        .files_stand(&["Code Auditor", "Integration Engineer"])
        .unwrap();
    court.agrees("req_029");
}

/// The verdict of a role's command counts until the deadline and not at it, whichever comes first
/// in a batch.
#[test]
fn a_command_before_and_at_the_deadline() {
    use spoolgate_gate::council::{RoleAnswer, hear};
    use spoolgate_wire::ids::RequestId;

    let court = Court::new();
    let mut home = court.open();
    court.propose(&mut home, "req_1", "CODE_REFACTOR");
    let case = RequestId::parse("req_1").unwrap();
    let docket = home.store().docket(&case).unwrap().unwrap();
    let output = serde_json::to_vec(&crate::kit::court::opinion("Code Auditor", "REJECT")).unwrap();
    let answer = RoleAnswer {
        cage: None,
        case,
        role: "Code Auditor".to_owned(),
        note: "it ended".to_owned(),
        output: Some(output),
    };
    for (step_ms, counts) in [(-1, true), (0, false), (1, false)] {
        let heard = hear(
            home.rulebook(),
            &docket,
            &answer,
            docket.case.deadline.plus_ms(step_ms),
        );
        let note = &heard.input.note;
        assert_eq!(heard.input.payload.is_some(), counts, "{step_ms}: {note}");
        assert_eq!(heard.input.changes.len(), usize::from(counts), "{step_ms}");
    }
}
