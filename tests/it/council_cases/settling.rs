//! When a case is decided: at a time that no vote chooses, over all votes until then; and what still
//! counts afterwards.

use spoolgate_gate::record::{CaseDecision, ClosedBy};
use spoolgate_home::Home;
use spoolgate_rules::lint::council::warnings;
use spoolgate_rules::lint::meaning::What;
use spoolgate_wire::code::Code;
use spoolgate_wire::council::Stance;

use crate::home::halts::replays;
use crate::kit::campaign;
use crate::kit::court::{Court, decision_bytes, edit_roles, opinion, verdict};
use crate::kit::dice::Dice;
use std::fs;
use std::path::Path;

/// A second principal for the role with a veto, and one without a role in the roster.
fn more_speakers(home: &Path) {
    let path = home.join("rules/principals.yaml");
    let text = fs::read_to_string(&path).unwrap();
    let more = "principals:\n  \
        - {name: trend-bot-2, role: agent, council_roles: [Code Auditor]}\n  \
        - {name: compliance, role: agent, council_roles: [Compliance], spool: compliance}\n";
    assert!(text.contains("principals:\n"));
    fs::write(&path, text.replacen("principals:\n", more, 1)).unwrap();
}

fn settling(home: &Path) {
    more_speakers(home);
    let deadline = "    deadline_s: 86400\n";
    let settles = format!("{deadline}    settle_s: 60\n");
    edit_roles(home, |text| text.replace(deadline, &settles));
}

const AUDITOR: &str = "Code Auditor";
const ENGINEER: &str = "Integration Engineer";

/// Sends a verdict into the spool of its sender.
fn send(court: &Court, source: &str, id: &str, payload: &str) {
    let folder = match source {
        "compliance" => "spool/in/compliance/new",
        _ => "spool/in",
    };
    court.send_in(folder, source, id, "council.verdict", payload);
}

/// Sends verdicts of one batch under these file names.
fn batch(court: &Court, home: &mut Home, asked: &str, votes: &[(&str, &str, &str, &str)]) {
    for (file, source, role, stance) in votes {
        let payload = verdict("req_1", asked, &opinion(role, stance));
        send(court, source, file, &payload);
    }
    for outcome in court.drain(home) {
        assert!(outcome.answer.error.is_none(), "{:?}", outcome.answer.error);
    }
}

/// Opens a case, and has both of its seats and a role without a seat approve in one batch.
fn approved(court: &Court) -> (Home, String) {
    let mut home = court.open();
    let asked = court.propose(&mut home, "req_1", "CODE_REFACTOR");
    let approvals = [
        ("a", "code-auditor", AUDITOR, "APPROVE"),
        ("b", "integration-engineer", ENGINEER, "APPROVE"),
        ("c", "compliance", "Compliance", "APPROVE"),
    ];
    batch(court, &mut home, &asked, &approvals);
    (home, asked)
}

fn decided(court: &Court) -> (Vec<CaseDecision>, Stance) {
    let told = court.told();
    let rulings: Vec<CaseDecision> = told.rulings.into_values().collect();
    let outcome = rulings.last().unwrap().outcome;
    (rulings, outcome)
}

fn pass_ms(court: &Court, ms: i64) {
    let clock = &court.place.clock;
    clock.set(court.place.seams().clock.now().plus_ms(ms));
}

#[test]
fn no_file_name_decides_a_case() {
    let objections = [
        ("trend-bot-2", AUDITOR, "REJECT", Stance::Reject),
        ("code-auditor", AUDITOR, "REJECT", Stance::Reject),
        (
            "compliance",
            "Compliance",
            "NEEDS_MORE_INFO",
            Stance::NeedsMoreInfo,
        ),
    ];
    for (source, role, stance, expected) in objections {
        for (approval, objection) in [("a0", "b0"), ("b0", "a0")] {
            let court = Court::with(&["trend-bot-2", "compliance"], more_speakers);
            let mut home = court.open();
            let asked = court.propose(&mut home, "req_1", "CODE_REFACTOR");
            let engineer = ("e", "integration-engineer", ENGINEER, "APPROVE");
            batch(&court, &mut home, &asked, &[engineer]);
            let approves = (approval, "code-auditor", AUDITOR, "APPROVE");
            batch(
                &court,
                &mut home,
                &asked,
                &[approves, (objection, source, role, stance)],
            );
            let (rulings, outcome) = decided(&court);
            assert_eq!(
                (rulings.len(), outcome),
                (1, expected),
                "{source} {approval}"
            );
            replays(&court.place, home);
        }
    }
}

#[test]
fn a_complete_case_takes_verdicts_until_it_closes() {
    for (ms, counts) in [(59_999, true), (60_000, true), (60_001, false)] {
        let court = Court::with(&["trend-bot-2", "compliance"], settling);
        let (mut home, asked) = approved(&court);
        pass_ms(&court, 30_000);
        // Another vote does not move the time.
        let again = ("c", "integration-engineer", ENGINEER, "APPROVE");
        batch(&court, &mut home, &asked, &[again]);
        assert!(court.told().rulings.is_empty(), "the case still settles");
        pass_ms(&court, ms - 30_000);
        let payload = verdict("req_1", &asked, &opinion(AUDITOR, "REJECT"));
        court.send("trend-bot-2", "d", "council.verdict", &payload);
        court.drain(&mut home);
        pass_ms(&court, 60_001 - ms.min(60_000));
        home.write_news().unwrap();
        let (rulings, outcome) = decided(&court);
        // What comes later is an objection, or waits for the decision and is refused.
        let expected = if counts {
            Stance::Reject
        } else {
            Stance::Approve
        };
        assert_eq!((rulings.len(), outcome), (1, expected), "{ms}");
        assert_eq!(rulings[0].closed_by, ClosedBy::Seats);
        replays(&court.place, home);
    }
}

#[test]
fn an_objection_after_the_decision_only_lowers_it() {
    let court = Court::with(&["trend-bot-2", "compliance"], more_speakers);
    let (mut home, asked) = approved(&court);
    assert_eq!(decided(&court).1, Stance::Approve);
    let ask = |home: &mut Home, id: &str, source: &str, role: &str, stance: &str| {
        let payload = verdict("req_1", &asked, &opinion(role, stance));
        send(&court, source, id, &payload);
        let done = court.drain(home).remove(0);
        done.answer.error.map(|error| (error.code, error.message))
    };
    // An approval comes too late, and says until when an objection is taken.
    let late = ask(&mut home, "d", "trend-bot-2", AUDITOR, "APPROVE").unwrap();
    assert_eq!(late.0, Code::StateConflict);
    assert!(late.1.contains("only an objection is taken"), "{}", late.1);
    assert_eq!(
        ask(
            &mut home,
            "e",
            "compliance",
            "Compliance",
            "NEEDS_MORE_INFO"
        ),
        None
    );
    let (rulings, outcome) = decided(&court);
    assert_eq!((rulings.len(), outcome), (2, Stance::NeedsMoreInfo));
    assert_eq!(rulings[1].closed_by, ClosedBy::Objection);
    let told = court.told();
    let first = told.rulings.keys().next().copied();
    assert_eq!(rulings[1].revises, first);
    for ruling in &rulings {
        assert_eq!(ruling.copies, ["out/compliance/req_1.decision.json"]);
    }
    for place in [
        "out/req_1.decision.json",
        "out/compliance/req_1.decision.json",
    ] {
        let file = court.file(Path::new("spool").join(place)).unwrap();
        assert_eq!(file, decision_bytes(&rulings[1]), "{place}");
    }
    // A veto lowers it to the end.
    assert_eq!(ask(&mut home, "f", "trend-bot-2", AUDITOR, "REJECT"), None);
    assert_eq!(decided(&court).1, Stance::Reject);
    let late = ask(&mut home, "g", "compliance", "Compliance", "REJECT").unwrap();
    assert!(late.1.contains("was decided REJECT"), "{}", late.1);
    replays(&court.place, home);
}

#[test]
fn objections_are_taken_for_a_week() {
    const WEEK_MS: i64 = 604_800_000;
    for (ms, counts) in [(-1, true), (0, true), (1, false)] {
        let court = Court::with(&["trend-bot-2", "compliance"], more_speakers);
        let (mut home, asked) = approved(&court);
        let at = decided(&court).0[0].timestamp;
        court.place.clock.set(at.plus_ms(WEEK_MS + ms));
        let payload = verdict("req_1", &asked, &opinion(AUDITOR, "REJECT"));
        let done = court.ask(&mut home, "trend-bot-2", "c", "council.verdict", &payload);
        assert_eq!(done.answer.error.is_none(), counts, "{ms}");
        let expected = if counts {
            Stance::Reject
        } else {
            Stance::Approve
        };
        assert_eq!(decided(&court).1, expected, "{ms}");
    }
}

/// A vote: who files it, for which role, and its stance.
type Filed = (&'static str, &'static str, &'static str);

/// A home with an open case and the request that opened it.
fn with_a_case(edit: impl Fn(&Path)) -> (Court, String) {
    let court = Court::with(&["trend-bot-2", "compliance"], edit);
    let mut home = court.open();
    let asked = court.propose(&mut home, "req_1", "CODE_REFACTOR");
    home.finish("a case is open").unwrap();
    drop(home);
    (court, asked)
}

/// Random votes that fill both seats.
fn random_votes(dice: &mut Dice) -> Vec<Filed> {
    let speakers = [
        ("code-auditor", AUDITOR),
        ("trend-bot-2", AUDITOR),
        ("integration-engineer", ENGINEER),
        ("compliance", "Compliance"),
    ];
    let mut votes = Vec::new();
    for (source, role) in speakers {
        for _ in 0..=dice.below(2) {
            let stance = ["APPROVE", "APPROVE", "APPROVE", "NEEDS_MORE_INFO", "REJECT"]
                [usize::try_from(dice.below(5)).unwrap()];
            votes.push((source, role, stance));
        }
    }
    votes
}

fn shuffle(votes: &mut [Filed], dice: &mut Dice) {
    for n in (1..votes.len()).rev() {
        votes.swap(n, dice.up_to(n));
    }
}

/// Files votes in random batches, a second apart, and lets a minute and a millisecond pass. Returns the
/// decisions, of which there is none if the case still waits.
fn file_all(
    court: &Court,
    home: &mut Home,
    asked: &str,
    votes: &[Filed],
    dice: &mut Dice,
) -> Vec<CaseDecision> {
    let mut rest = votes;
    let mut number = 0;
    while !rest.is_empty() {
        let (first, others) = rest.split_at(1 + dice.up_to(rest.len() - 1));
        for (source, role, stance) in first {
            number += 1;
            let payload = verdict("req_1", asked, &opinion(role, stance));
            send(court, source, &format!("v{number}"), &payload);
        }
        court.drain(home);
        pass_ms(court, 1_000);
        rest = others;
    }
    pass_ms(court, 60_001);
    home.write_news().unwrap();
    court.told().rulings.into_values().collect()
}

/// One set of votes in any order and in any batches gives one decision, byte for byte, whether the case
/// takes votes for a minute more or is decided behind the batch that completes it. If it is decided
/// before all of them are there, the others lower the outcome to the same.
#[test]
fn the_order_of_votes_and_their_batches_do_not_matter() {
    let (settles, asked) = with_a_case(settling);
    let (at_once, asked_at_once) = with_a_case(more_speakers);
    let (sets, orders) = campaign((12, 5), (10_000, 20));
    let (mut whole, mut revised) = (0, 0);
    for seed in 0..sets {
        let mut dice = Dice::apart(seed);
        let mut votes = random_votes(&mut dice);
        let mut first: Option<(Vec<u8>, Stance)> = None;
        for _ in 0..orders {
            shuffle(&mut votes, &mut dice);
            let court = settles.fork();
            let rulings = file_all(&court, &mut court.open(), &asked, &votes, &mut dice);
            assert_eq!(rulings.len(), 1, "seed {seed}: {votes:?}");
            let found = (decision_bytes(&rulings[0]), rulings[0].outcome);
            let (bytes, outcome) = first.get_or_insert_with(|| found.clone());
            assert_eq!(
                (&found.0, &found.1),
                (&*bytes, &*outcome),
                "seed {seed}: {votes:?}"
            );
            let court = at_once.fork();
            let rulings = file_all(&court, &mut court.open(), &asked_at_once, &votes, &mut dice);
            let last = rulings.last().unwrap();
            assert_eq!(last.outcome, *outcome, "seed {seed}: {votes:?}");
            if rulings.len() == 1 && last.verdict_lines.len() == votes.len() {
                whole += 1;
                assert_eq!(decision_bytes(last), *bytes, "seed {seed}: {votes:?}");
            }
            revised += usize::from(rulings.len() > 1);
        }
    }
    assert!(
        whole > 0 && revised > 0,
        "{whole} decided over all votes, {revised} revised"
    );
}

/// A vote that comes after the case was decided gives the outcome that it would have given before.
#[test]
fn a_vote_moved_behind_the_decision_gives_the_same_outcome() {
    let (settles, asked) = with_a_case(settling);
    let mut lowered = 0;
    for seed in 0..campaign(30, 10_000) {
        let mut dice = Dice::apart(seed);
        let mut votes = random_votes(&mut dice);
        shuffle(&mut votes, &mut dice);
        let court = settles.fork();
        let all = file_all(&court, &mut court.open(), &asked, &votes, &mut dice);
        let moved = votes.pop().unwrap();
        let court = settles.fork();
        let mut home = court.open();
        let without = file_all(&court, &mut home, &asked, &votes, &mut dice);
        let Some(before) = without.last() else {
            // It completes the case.
            continue;
        };
        let (source, role, stance) = moved;
        let payload = verdict("req_1", &asked, &opinion(role, stance));
        send(&court, source, "moved", &payload);
        court.drain(&mut home);
        let outcome = decided(&court).1;
        assert_eq!(
            outcome, all[0].outcome,
            "seed {seed}: {moved:?} after {votes:?}"
        );
        lowered += usize::from(outcome < before.outcome);
    }
    assert!(lowered > 0, "no objection lowered an outcome");
}

#[test]
fn one_signer_does_not_fill_two_seats() {
    let alone = |home: &Path| {
        let path = home.join("rules/principals.yaml");
        let text = fs::read_to_string(&path).unwrap();
        let all = format!(
            "principals:\n  - {{name: boss, role: agent, council_roles: [{AUDITOR}, {ENGINEER}]}}\n"
        );
        fs::write(&path, text.replacen("principals:\n", &all, 1)).unwrap();
    };
    let court = Court::with(&["boss"], alone);
    let mut home = court.open();
    let warned = warnings(home.rulebook());
    let of_boss = warned.iter().filter(|one| one.what == What::OneSigner);
    assert_eq!(of_boss.count(), warned.len());
    let named = warned.iter().any(|one| {
        let message = &one.at.message;
        message.contains("`boss` may fill 2 required seats of CODE_REFACTOR")
    });
    assert!(named, "{warned:?}");
    let shipped = Court::new();
    assert_eq!(warnings(shipped.open().rulebook()), []);
    let asked = court.propose(&mut home, "req_1", "CODE_REFACTOR");
    let approvals = [
        ("a", "boss", AUDITOR, "APPROVE"),
        ("b", "boss", ENGINEER, "APPROVE"),
    ];
    batch(&court, &mut home, &asked, &approvals);
    assert!(
        court.told().rulings.is_empty(),
        "it waits for a second signer"
    );
    pass_ms(&court, 86_400_000);
    home.write_news().unwrap();
    let (rulings, outcome) = decided(&court);
    assert_eq!(outcome, Stance::NeedsMoreInfo);
    let text = String::from_utf8(decision_bytes(&rulings[0])).unwrap();
    let why = "Code Auditor and Integration Engineer have 1 signer between them";
    assert!(text.contains(why), "{text}");
    replays(&court.place, home);
    // With a second signer for one of the seats the case is complete.
    let court = Court::with(&["boss"], alone);
    let mut home = court.open();
    let asked = court.propose(&mut home, "req_1", "CODE_REFACTOR");
    batch(&court, &mut home, &asked, &approvals);
    let second = ("c", "code-auditor", AUDITOR, "APPROVE");
    batch(&court, &mut home, &asked, &[second]);
    assert_eq!(decided(&court).1, Stance::Approve);
}

/// Adds these members to the entries of the two principals that judge refactorings, and of the
/// proposer.
fn with_members(home: &Path, auditor: &str, engineer: &str, proposer: &str) {
    let path = home.join("rules/principals.yaml");
    let mut text = fs::read_to_string(&path).unwrap();
    for (name, more) in [
        ("code-auditor", auditor),
        ("integration-engineer", engineer),
        ("research-bot", proposer),
    ] {
        let entry = format!("  - name: {name}\n");
        assert!(text.contains(&entry), "{name}");
        text = text.replace(&entry, &format!("{entry}{more}"));
    }
    fs::write(&path, text).unwrap();
}

#[test]
fn principals_of_one_operator_are_one_signer() {
    let acme = "    operator: acme\n";
    let court = Court::with(&[], |home| with_members(home, acme, acme, ""));
    let mut home = court.open();
    let asked = court.propose(&mut home, "req_1", "CODE_REFACTOR");
    let approvals = [
        ("a", "code-auditor", AUDITOR, "APPROVE"),
        ("b", "integration-engineer", ENGINEER, "APPROVE"),
    ];
    batch(&court, &mut home, &asked, &approvals);
    assert!(court.told().rulings.is_empty(), "one signer for two seats");
    // No principal of the proposer's operator judges the case.
    let court = Court::with(&[], |home| with_members(home, acme, "", acme));
    let mut home = court.open();
    let asked = court.propose(&mut home, "req_1", "CODE_REFACTOR");
    let payload = verdict("req_1", &asked, &opinion(AUDITOR, "APPROVE"));
    let done = court.ask(&mut home, "code-auditor", "a", "council.verdict", &payload);
    let error = done.answer.error.unwrap();
    assert_eq!(error.code, Code::NotPermitted);
    let why = "the operator of `code-auditor` proposed case `req_1`";
    assert!(error.message.starts_with(why), "{}", error.message);
}

#[test]
fn signers_are_of_as_many_families_as_the_change_demands() {
    let (a, b) = ("    family: model-a\n", "    family: model-b\n");
    for (auditor, engineer, wanted, approves) in [
        ("", "", 1, true),
        (a, a, 1, true),
        ("", "", 2, false),
        (a, a, 2, false),
        (a, "", 2, true),
        (a, b, 2, true),
        (a, b, 3, false),
    ] {
        let court = Court::with(&[], |home| {
            with_members(home, auditor, engineer, "");
            let deadline = "    deadline_s: 86400\n";
            let demands = format!("{deadline}    families_min: {wanted}\n");
            edit_roles(home, |text| text.replace(deadline, &demands));
        });
        let mut home = court.open();
        let asked = court.propose(&mut home, "req_1", "CODE_REFACTOR");
        let approvals = [
            ("a", "code-auditor", AUDITOR, "APPROVE"),
            ("b", "integration-engineer", ENGINEER, "APPROVE"),
        ];
        batch(&court, &mut home, &asked, &approvals);
        let (_, outcome) = decided(&court);
        let expected = if approves {
            Stance::Approve
        } else {
            Stance::NeedsMoreInfo
        };
        assert_eq!(outcome, expected, "{auditor:?} {engineer:?} {wanted}");
    }
}
