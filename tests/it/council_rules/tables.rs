//! Each threshold one unit below, at and above it, and each sentence of the text.

mod texts;

use spoolgate_council::aggregate::{Rule, Ruling};

use super::decide;
use spoolgate_council::finding::{Evidence, Finding};
use spoolgate_rules::roles::{PATH, Roles, SHIPPED};
use spoolgate_wire::council::{
    Axis, ChecklistItem, CouncilDecision, CouncilRequest, RoleVerdict, Severity, Stance,
};

use super::random::json;

/// A case that is approved with 10.0 on every axis that its roles cover.
struct Case {
    roles: Roles,
    request: CouncilRequest,
    votes: Vec<RoleVerdict>,
    evidence: Vec<Evidence>,
}

const NO: &str = "REJECT";
const OPEN: &str = "NEEDS_MORE_INFO";
const YES: &str = "APPROVE";

const QR: usize = 0;
const RO: usize = 1;
const CA: usize = 2;
const RC: usize = 3;
const IE: usize = 4;

fn vote(role: &str) -> RoleVerdict {
    RoleVerdict {
        role: role.to_owned(),
        verdict: YES.to_owned(),
        confidence_score: Some(json("0.9")),
        checklist_results: vec![item(None, "Is it sound?", Some(true))],
        concerns: Vec::new(),
        required_actions: Vec::new(),
    }
}

fn item(check_id: Option<&str>, question: &str, pass: Option<bool>) -> ChecklistItem {
    let (check_id, question) = (check_id.map(str::to_owned), question.to_owned());
    ChecklistItem {
        check_id,
        question,
        answer: "Seen.".to_owned(),
        pass,
    }
}

fn row(check_id: &str, severity: Severity, axis: Axis, pass: Option<bool>) -> Finding {
    Finding {
        check_id: check_id.to_owned(),
        question: format!("{check_id}?"),
        answer: "computed".to_owned(),
        pass,
        severity,
        axis,
        headline: false,
        message: None,
        value: None,
        threshold: None,
        source: "key_metrics".to_owned(),
    }
}

impl Case {
    fn with(change: &str, roles: Roles) -> Case {
        let mut request = super::example::request();
        request.change_type = serde_json::from_str(&format!("\"{change}\"")).unwrap();
        let votes = roles
            .required(request.change_type)
            .map(|role| vote(&role.name))
            .collect();
        Case {
            roles,
            request,
            votes,
            evidence: Vec::new(),
        }
    }

    fn of(change: &str) -> Case {
        Case::with(change, Roles::shipped().unwrap())
    }

    fn pass() -> Case {
        Case::of("DECLARE_PASS")
    }

    fn decide(&self) -> Ruling {
        decide(&self.request, &self.votes, &self.evidence, &self.roles)
    }

    fn outcome(&self) -> &'static str {
        self.decide().decision.final_outcome.as_str()
    }

    fn score(&self, axis: Axis) -> u8 {
        self.decide().decision.axis_scores.get(axis).tenths()
    }

    fn worry(&mut self, role: usize, concerns: usize) {
        self.votes[role].concerns = (0..concerns)
            .map(|number| format!("worry {number}"))
            .collect();
    }

    fn compute(&mut self, role: &str, rows: Vec<Finding>) {
        let mut findings = vec![row("00", Severity::Minor, Axis::Assumptions, Some(true))];
        findings.extend(rows);
        let (role, verdict) = (role.to_owned(), Stance::Approve);
        self.evidence.push(Evidence {
            role,
            verdict,
            findings,
            required_actions: Vec::new(),
        });
    }
}

fn shipped_but(from: &str, to: &str) -> Roles {
    assert!(SHIPPED.contains(from));
    Roles::read(PATH, &SHIPPED.replacen(from, to, 1)).unwrap()
}

#[test]
fn a_sound_case_is_approved_and_uncovered_axes_say_so() {
    for (change, not_assessed) in [
        ("DECLARE_PASS", vec![]),
        (
            "FREEZE_SPEC",
            vec![Axis::RealisticNewness, Axis::Implications],
        ),
        (
            "UPDATE_CONFIG",
            vec![Axis::RealisticNewness, Axis::Overfitting],
        ),
        (
            "CODE_REFACTOR",
            vec![
                Axis::Assumptions,
                Axis::Applicability,
                Axis::RealisticNewness,
                Axis::Overfitting,
            ],
        ),
    ] {
        let ruling = Case::of(change).decide();
        assert_eq!(ruling.decision.final_outcome.as_str(), YES, "{change}");
        for axis in Axis::ALL {
            let expect = if not_assessed.contains(&axis) {
                50
            } else {
                100
            };
            assert_eq!(
                ruling.decision.axis_scores.get(axis).tenths(),
                expect,
                "{change} {axis:?}"
            );
        }
        assert_eq!(ruling.deliberation.not_assessed, not_assessed, "{change}");
        assert!(
            ruling.deliberation.dissent.is_empty() && ruling.decision.blocking_issues.is_empty()
        );
    }
}

#[test]
fn weaknesses_of_an_approval() {
    let weak = |change: &dyn Fn(&mut RoleVerdict)| {
        let mut case = Case::pass();
        change(&mut case.votes[CA]);
        let ruling = case.decide();
        (
            ruling.decision.final_outcome.as_str(),
            ruling.deliberation.seats[CA].notes.len(),
        )
    };
    for (confidence, expect) in [
        ("0.59", (OPEN, 1)),
        ("0.5999999999999999999999", (OPEN, 1)),
        ("0.6", (YES, 0)),
        ("0.61", (YES, 0)),
        ("1", (YES, 0)),
        ("1.0000000000000000000001", (OPEN, 1)),
        ("-0.6", (OPEN, 1)),
        ("\"0.9\"", (OPEN, 1)),
    ] {
        assert_eq!(
            weak(&|vote| vote.confidence_score = Some(json(confidence))),
            expect,
            "{confidence}"
        );
    }
    assert_eq!(weak(&|vote| vote.confidence_score = None), (OPEN, 1));
    assert_eq!(weak(&|vote| vote.checklist_results.clear()), (OPEN, 1));
    for (pass, expect) in [
        (Some(true), (YES, 0)),
        (None, (YES, 0)),
        (Some(false), (OPEN, 1)),
    ] {
        assert_eq!(
            weak(&|vote| vote.checklist_results.push(item(None, "Another?", pass))),
            expect,
            "{pass:?}"
        );
    }
    for word in [
        "approve",
        "APPROVE ",
        "APPROVED",
        "",
        "ABSTAIN",
        "\u{202e}APPROVE",
    ] {
        assert_eq!(
            weak(&|vote| vote.verdict = word.to_owned()),
            (OPEN, 1),
            "{word:?}"
        );
    }
    // A rejection is never weakened.
    let mut case = Case::pass();
    case.votes[QR] = RoleVerdict {
        verdict: NO.to_owned(),
        confidence_score: None,
        ..vote("Quant Researcher")
    };
    assert_eq!(case.outcome(), NO);
}

#[test]
fn a_role_s_own_floor_of_confidence() {
    let roles = shipped_but(
        "  - name: Code Auditor\n",
        "  - name: Code Auditor\n    confidence_floor: 0.85\n",
    );
    for (confidence, expect) in [("0.84", OPEN), ("0.85", YES), ("0.86", YES)] {
        let mut case = Case::with("CODE_REFACTOR", roles.clone());
        case.votes[0].confidence_score = Some(json(confidence));
        assert_eq!(case.outcome(), expect, "{confidence}");
        case.votes[0].confidence_score = Some(json("0.9"));
        case.votes[1].confidence_score = Some(json("0.6"));
        assert_eq!(case.outcome(), YES, "the other role keeps the common one");
    }
}

#[test]
fn vetoes_and_seats() {
    // Which role alone rejects: the outcome by change type and seat.
    for (change, expect) in [
        ("DECLARE_PASS", vec![NO, NO, OPEN, NO, OPEN]),
        ("FREEZE_SPEC", vec![OPEN, NO, OPEN]),
        ("UPDATE_CONFIG", vec![NO, OPEN, OPEN]),
        ("CODE_REFACTOR", vec![NO, OPEN]),
    ] {
        for (seat, expect) in expect.into_iter().enumerate() {
            let mut case = Case::of(change);
            case.votes[seat].verdict = NO.to_owned();
            assert_eq!(case.outcome(), expect, "{change}, seat {seat}");
        }
    }
    let mut case = Case::pass();
    for (seat, expect) in [(CA, OPEN), (IE, NO)] {
        case.votes[seat].verdict = NO.to_owned();
        assert_eq!(case.outcome(), expect, "{seat}");
    }
    let mut unsure = Case::pass();
    unsure.votes[QR].verdict = OPEN.to_owned();
    assert_eq!(unsure.outcome(), OPEN, "to be unsure is no veto");
}

#[test]
fn the_effect_of_votes_on_scores() {
    let cost = |verdict: &str| {
        let mut case = Case::pass();
        case.votes[CA].verdict = verdict.to_owned();
        case.score(Axis::CodeCorrectness)
    };
    assert_eq!((cost(YES), cost(OPEN), cost(NO)), (100, 60, 40));
    let mut absent = Case::pass();
    absent.votes.remove(RO);
    assert_eq!(
        (
            absent.score(Axis::Applicability),
            absent.score(Axis::Assumptions)
        ),
        (50, 50)
    );
    assert_eq!(
        (absent.score(Axis::CodeCorrectness), absent.outcome()),
        (100, OPEN)
    );
    // If more is subtracted than the cap allows, the smaller value counts.
    for (failed, expect) in [(0, 40), (1, 40), (2, 30), (3, 10), (4, 0), (5, 0)] {
        let mut case = Case::pass();
        case.votes[CA].verdict = NO.to_owned();
        let questions =
            (0..failed).map(|number| item(None, &format!("Check {number}?"), Some(false)));
        case.votes[CA].checklist_results.extend(questions);
        assert_eq!(
            case.score(Axis::CodeCorrectness),
            expect,
            "{failed} failed checks"
        );
    }
}

#[test]
fn the_lowest_of_several_caps_counts() {
    let shared = |from: &str, to: &str, away: usize, voting: usize, verdict: &str, axis: Axis| {
        let mut case = Case::with("DECLARE_PASS", shipped_but(from, to));
        case.votes[voting].verdict = verdict.to_owned();
        case.votes.remove(away);
        case.score(axis)
    };
    for (verdict, expect) in [(NO, 40), (OPEN, 50), (YES, 50)] {
        let (auditor, engineer) = ("[code_correctness]", "[implications]");
        let both = "[code_correctness, implications]";
        assert_eq!(
            shared(auditor, both, CA, IE, verdict, Axis::Implications),
            expect,
            "absent before {verdict}"
        );
        let both = "[implications, code_correctness]";
        assert_eq!(
            shared(engineer, both, IE, CA, verdict, Axis::CodeCorrectness),
            expect,
            "{verdict} before absent"
        );
    }
}

#[test]
fn the_effect_of_concerns_on_scores() {
    for (concerns, expect) in [(0, 100), (1, 90), (2, 80), (3, 70), (4, 70), (9, 70)] {
        let mut case = Case::pass();
        case.worry(IE, concerns);
        assert_eq!(
            (case.score(Axis::Implications), case.outcome()),
            (expect, YES),
            "{concerns}"
        );
        // Those of Risk Officer and Realism Checker both count on the assumptions.
        let mut case = Case::pass();
        case.worry(RO, concerns);
        assert_eq!(
            (
                case.score(Axis::Assumptions),
                case.score(Axis::Applicability)
            ),
            (expect, 100),
            "{concerns}"
        );
        case.worry(RC, 1);
        assert_eq!(
            (
                case.score(Axis::Assumptions),
                case.score(Axis::RealisticNewness)
            ),
            (expect - 10, 100),
            "{concerns}"
        );
    }
    let mut same = Case::pass();
    same.votes[IE].concerns = [
        "No rollback.",
        "no ROLLBACK",
        " no\nrollback!",
        "",
        "\u{200b}",
    ]
    .map(str::to_owned)
    .to_vec();
    assert_eq!(
        same.score(Axis::Implications),
        90,
        "one concern in three spellings"
    );
}

#[test]
fn the_floor_of_an_axis() {
    // Tenths are whole weights here, so that every score can be reached.
    let fine = shipped_but("failed_minor: 10", "failed_minor: 1");
    let score = |roles: &Roles, minors: usize| {
        let mut case = Case::with("DECLARE_PASS", roles.clone());
        let rows = (0..minors).map(|number| {
            row(
                &format!("M{number}"),
                Severity::Minor,
                Axis::Implications,
                Some(false),
            )
        });
        case.compute("Realism Checker", rows.collect());
        let ruling = case.decide();
        let rule = ruling
            .deliberation
            .rules
            .iter()
            .find(|rule| rule.rule == Rule::AxisFloor)
            .unwrap();
        (
            ruling.decision.axis_scores.implications.tenths(),
            rule.result.as_str(),
            ruling.decision.final_outcome.as_str(),
        )
    };
    for (minors, tenths, expect) in [
        (39, 61, YES),
        (40, 60, YES),
        (41, 59, OPEN),
        (69, 31, OPEN),
        (70, 30, OPEN),
        (71, 29, NO),
    ] {
        assert_eq!(score(&fine, minors), (tenths, expect, expect), "{minors}");
    }
    let floors =
        "deadline_s: 86400\n    floors: [{axis: implications, reject_below: 50, unsure_below: 80}]";
    let text = SHIPPED
        .replacen("failed_minor: 10", "failed_minor: 1", 1)
        .replacen("deadline_s: 86400", floors, 1);
    let own = Roles::read(PATH, &text).unwrap();
    for (minors, tenths, expect) in [
        (19, 81, YES),
        (20, 80, YES),
        (21, 79, OPEN),
        (50, 50, OPEN),
        (51, 49, NO),
    ] {
        assert_eq!(
            score(&own, minors),
            (tenths, expect, expect),
            "own floor, {minors}"
        );
    }
    // An axis that no role covers has no floor.
    let mut case = Case::of("CODE_REFACTOR");
    case.votes[0].concerns = Vec::new();
    assert_eq!((case.score(Axis::Overfitting), case.outcome()), (50, YES));
}

#[test]
fn computed_rows() {
    use Severity::{Blocker, Major, Minor};
    for (severity, pass, tenths, expect) in [
        (Minor, Some(false), 90, YES),
        (Minor, None, 100, YES),
        (Major, Some(true), 100, YES),
        (Major, None, 100, YES),
        (Major, Some(false), 80, OPEN),
        (Blocker, Some(true), 100, YES),
        (Blocker, Some(false), 80, NO),
    ] {
        let mut case = Case::pass();
        case.compute(
            "Realism Checker",
            vec![row("RC-05", severity, Axis::CodeCorrectness, pass)],
        );
        assert_eq!(
            (case.score(Axis::CodeCorrectness), case.outcome()),
            (tenths, expect),
            "{severity:?} {pass:?}"
        );
    }
    // Evidence alone fills its seat, and a filed approval does not raise it.
    let mut case = Case::pass();
    case.votes.remove(RC);
    assert_eq!(case.outcome(), OPEN);
    case.compute("Realism Checker", Vec::new());
    assert_eq!(case.outcome(), YES);
    case.evidence[0].verdict = Stance::NeedsMoreInfo;
    case.votes.push(vote("rc"));
    assert_eq!(case.outcome(), OPEN);
    case.evidence[0].verdict = Stance::Approve;
    case.evidence[0].findings.clear();
    assert_eq!(case.outcome(), OPEN, "nothing was computed");
}

#[test]
fn one_check_counts_once_an_axis_and_in_its_worst_form() {
    use Severity::{Blocker, Major, Minor};
    let scores = |rows: Vec<Finding>, filed: &[&str]| {
        let mut case = Case::pass();
        case.compute("Realism Checker", rows);
        case.votes[RC]
            .checklist_results
            .extend(filed.iter().map(|id| item(Some(id), "Again?", Some(false))));
        let ruling = case.decide();
        let worst = ruling.deliberation.seats[RC]
            .failed_checks
            .iter()
            .map(|check| check.severity)
            .max();
        (
            ruling.decision.axis_scores.realistic_newness.tenths(),
            ruling.decision.axis_scores.overfitting.tenths(),
            worst,
        )
    };
    let on = |axis, severity| row("RC-05", severity, axis, Some(false));
    let (newness, fit) = (Axis::RealisticNewness, Axis::Overfitting);
    // One minor failure weakens nothing.
    assert_eq!(
        scores(vec![on(newness, Minor)], &[]),
        (90, 100, Some(Minor))
    );
    assert_eq!(
        scores(vec![on(newness, Minor), on(newness, Minor)], &[]),
        (90, 100, Some(Minor))
    );
    // The same check on another axis also counts there; it does not move.
    assert_eq!(
        scores(vec![on(newness, Minor), on(fit, Minor)], &[]),
        (90, 90, Some(Minor))
    );
    // An item that is filed under the check's name is major, on the role's own axis, and weakens
    // the vote: -20, -10, cap 60.
    assert_eq!(
        scores(vec![on(newness, Minor)], &["rc05"]),
        (60, 100, Some(Major))
    );
    assert_eq!(
        scores(vec![on(fit, Minor)], &["RC 05"]),
        (60, 90, Some(Major))
    );
    assert_eq!(
        scores(vec![on(fit, Blocker)], &["RC-05"]),
        (40, 80, Some(Blocker))
    );
    // A passing blocker does not give its severity to a filed copy.
    let passed = row("RC-05", Blocker, newness, Some(true));
    assert_eq!(
        scores(vec![passed.clone()], &["RC-05"]),
        (60, 100, Some(Major))
    );
    assert_eq!(
        scores(vec![passed, on(newness, Minor)], &[]),
        (90, 100, Some(Minor))
    );
}

#[test]
fn aliases_fill_one_seat_and_the_worst_vote_holds_it() {
    let mut case = Case::pass();
    case.votes.push(RoleVerdict {
        verdict: OPEN.to_owned(),
        ..vote("r.o.")
    });
    case.votes.push(vote("RISK\u{200b} OFFICER"));
    let ruling = case.decide();
    assert_eq!(ruling.deliberation.seats.len(), 5);
    let seat = &ruling.deliberation.seats[RO];
    assert_eq!(
        (seat.role.as_str(), seat.verdict.as_str(), seat.votes),
        ("Risk Officer", OPEN, 3)
    );
    assert!(ruling.deliberation.foreign.is_empty());
}

#[test]
fn roles_without_a_seat() {
    for (role, verdict, expect) in [
        ("Compliance", YES, YES),
        ("Compliance", OPEN, OPEN),
        ("Compliance", NO, OPEN),
        ("Compliance", "MAYBE", OPEN),
        ("Quant Researcher", YES, YES),
        ("Quant Researcher", NO, OPEN),
        ("R\u{456}sk Officer", NO, OPEN),
        ("", NO, OPEN),
    ] {
        let mut case = Case::of("UPDATE_CONFIG");
        let mut stray = vote(role);
        stray.verdict = verdict.to_owned();
        stray.concerns = vec!["A worry.".to_owned()];
        case.votes.push(stray);
        let ruling = case.decide();
        assert_eq!(
            ruling.decision.final_outcome.as_str(),
            expect,
            "{role:?} {verdict}"
        );
        let scores = Case::of("UPDATE_CONFIG").decide().decision.axis_scores;
        assert_eq!(ruling.decision.axis_scores, scores, "{role:?} {verdict}");
        assert_eq!(ruling.deliberation.foreign.len(), 1, "{role:?}");
    }
    let mut alone = Case::of("CODE_REFACTOR");
    alone.votes = vec![vote("Code Auditor"), vote("Integration Engineers")];
    assert_eq!(alone.outcome(), OPEN, "a foreign approval fills no seat");
}

#[test]
fn the_votes_that_a_change_needs() {
    let without = |change: &str, artifact: &str| {
        let mut case = Case::of(change);
        let artifacts = &mut case.request.artifacts;
        match artifact {
            "spec_content" => artifacts.spec_content = None,
            "diff_content" => artifacts.diff_content = Some("[MISSING FILE: a.diff]".to_owned()),
            "validation_report" => artifacts.validation_report = Some(" \n".to_owned()),
            _ => artifacts.monte_carlo_stats = Some("TODO".to_owned()),
        }
        case.outcome()
    };
    for (change, needed) in [
        (
            "DECLARE_PASS",
            vec!["validation_report", "monte_carlo_stats"],
        ),
        ("FREEZE_SPEC", vec!["spec_content"]),
        ("UPDATE_CONFIG", vec!["diff_content"]),
        ("CODE_REFACTOR", vec!["diff_content"]),
    ] {
        for artifact in [
            "spec_content",
            "diff_content",
            "validation_report",
            "monte_carlo_stats",
        ] {
            let expect = if needed.contains(&artifact) {
                OPEN
            } else {
                YES
            };
            assert_eq!(
                without(change, artifact),
                expect,
                "{change} without {artifact}"
            );
        }
    }
    for metric in ["total_return", "sharpe", "max_dd", "oos_win_rate"] {
        for (value, expect) in [
            ("1.2", YES),
            ("-4.5", YES),
            ("\"55 %\"", YES),
            ("null", OPEN),
            ("\"\"", OPEN),
            ("\"n/a\"", OPEN),
            ("\"[MISSING]\"", OPEN),
            ("\"\\u0054BD\"", OPEN),
            ("[]", OPEN),
            ("{}", OPEN),
            ("true", OPEN),
        ] {
            let mut case = Case::pass();
            case.request
                .context
                .key_metrics
                .insert(metric.to_owned(), json(value));
            assert_eq!(case.outcome(), expect, "{metric}: {value}");
            case.request.context.key_metrics.remove(metric);
            assert_eq!(case.outcome(), OPEN, "{metric}");
        }
    }
    let mut config = Case::of("UPDATE_CONFIG");
    config.request.context.key_metrics.clear();
    assert_eq!(
        config.outcome(),
        YES,
        "figures are for a strategy that passed"
    );
}
