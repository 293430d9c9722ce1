//! The texts of a decision.

use super::*;

fn said(change: &dyn Fn(&mut Case)) -> CouncilDecision {
    let mut case = Case::pass();
    change(&mut case);
    case.decide().decision
}

#[test]
fn messages() {
    let approved = said(&|case| {
        case.worry(IE, 1);
        case.votes[IE].required_actions = vec!["Tell the desk.".to_owned()];
        case.votes[RO].required_actions = vec!["tell the desk".to_owned(), "Watch it.".to_owned()];
    });
    assert_eq!(
        approved.summary_reasoning,
        "The council APPROVES this proposal. All 5 required roles approve; the lowest axis is \
            implications (Axis 6 score: 9.0)."
    );
    assert_eq!(
        approved.next_steps,
        ["tell the desk", "Watch it."],
        "conditions, in roster order, each once"
    );

    let open = said(&|case| {
        case.votes.remove(RO);
        case.request.artifacts.monte_carlo_stats = None;
        case.request.context.key_metrics.remove("sharpe");
        case.votes[1].verdict = OPEN.to_owned();
        case.votes[1].concerns = vec!["Is it tested?".to_owned()];
    });
    assert_eq!(
        open.summary_reasoning,
        "The council NEEDS MORE INFORMATION on this proposal. The lowest axis is assumptions \
            (Axis 1 score: 5.0). Missing: the verdict of the Risk Officer, the artifact \
            monte_carlo_stats, the metric sharpe. Open questions: Code Auditor."
    );
    assert_eq!(
        open.blocking_issues,
        [
            "The verdict of the Risk Officer is missing.",
            "The artifact monte_carlo_stats is missing.",
            "The metric sharpe is missing.",
            "Code Auditor: Is it tested?",
        ]
    );
    assert_eq!(
        open.next_steps,
        [
            "Obtain the verdict of the Risk Officer.",
            "Supply the artifact monte_carlo_stats.",
            "Supply the metric sharpe."
        ]
    );
}

#[test]
fn objections_to_a_proposal() {
    let rejected = said(&|case| {
        for seat in [QR, RO, CA] {
            case.votes[seat].verdict = NO.to_owned();
        }
        case.votes[QR].concerns = vec![
            "Quant  researcher saw leakage".to_owned(),
            "Too few trades!".to_owned(),
        ];
        case.votes[QR].required_actions = vec!["Split the data.".to_owned()];
        case.votes[IE].required_actions = vec!["Not asked.".to_owned()];
    });
    assert_eq!(
        rejected.summary_reasoning,
        "The council REJECTS this proposal. The Risk Officer flagged material applicability risks \
            (Axis 2 score: 4.0)."
    );
    assert_eq!(
        rejected.blocking_issues,
        [
            "Quant researcher saw leakage",
            "Too few trades detected by Quant Researcher."
        ]
    );
    assert_eq!(rejected.next_steps, ["Split the data."]);

    let silent = said(&|case| case.votes[QR].verdict = NO.to_owned());
    assert_eq!(
        silent.summary_reasoning,
        "The council REJECTS this proposal. While the code is correct and applicable, the Quant \
            Researcher flagged material overfitting risks (Axis 5 score: 4.0)."
    );
    assert_eq!(
        silent.blocking_issues,
        ["Quant Researcher rejects and has a veto."]
    );

    let unsure = said(&|case| case.votes[RC].confidence_score = Some(json("0.5")));
    assert_eq!(
        unsure.summary_reasoning,
        "The council NEEDS MORE INFORMATION on this proposal. While the code is correct and \
            applicable, the Realism Checker left minor realism risks open (Axis 4 score: 6.0). \
            Open questions: Realism Checker."
    );
    assert_eq!(
        unsure.blocking_issues,
        ["Realism Checker: approves with a confidence below 0.6: it counts as NEEDS_MORE_INFO"]
    );

    let objected = said(&|case| {
        case.votes.push(RoleVerdict {
            verdict: NO.to_owned(),
            ..vote("Compliance")
        })
    });
    assert_eq!(
        objected.blocking_issues,
        ["Compliance, which has no seat here, does not approve."]
    );
}

#[test]
fn the_size_of_a_risk_and_what_is_sound() {
    let fine = shipped_but("failed_minor: 10", "failed_minor: 1");
    let said = |axis: Axis, minors: usize| {
        let mut case = Case::with("DECLARE_PASS", fine.clone());
        let rows = (0..minors)
            .map(|number| row(&format!("M{number}"), Severity::Minor, axis, Some(false)));
        case.compute("Realism Checker", rows.collect());
        case.votes[QR].verdict = NO.to_owned();
        case.decide().decision.summary_reasoning
    };
    for (minors, expect) in [
        (60, "material overfitting risks (Axis 5 score: 4.0)"),
        (61, "minor"),
        (62, "minor"),
    ] {
        let text = said(Axis::Implications, minors);
        let expect = if minors == 60 {
            expect
        } else {
            "significant implication risks (Axis 6 score: 3"
        };
        assert!(text.contains(expect), "{minors}: {text}");
    }
    for (minors, expect) in [
        (10, "While the code is correct and applicable, the"),
        (11, "While the code is applicable, the"),
    ] {
        assert!(
            said(Axis::CodeCorrectness, minors).contains(expect),
            "{minors}"
        );
    }
    for (minors, expect) in [
        (10, "While the code is correct and applicable, the"),
        (11, "While the code is correct, the"),
    ] {
        assert!(
            said(Axis::Applicability, minors).contains(expect),
            "{minors}"
        );
    }
    let unsure = |minors: usize| {
        let mut case = Case::with("DECLARE_PASS", fine.clone());
        let rows = (0..minors).map(|number| {
            row(
                &format!("M{number}"),
                Severity::Minor,
                Axis::Implications,
                Some(false),
            )
        });
        case.compute("Realism Checker", rows.collect());
        case.votes[QR].verdict = OPEN.to_owned();
        case.decide().decision.summary_reasoning
    };
    assert!(
        unsure(40).contains("minor overfitting risks open (Axis 5 score: 6.0)"),
        "{}",
        unsure(40)
    );
    assert!(
        unsure(41).contains("flagged material implication risks (Axis 6 score: 5.9)"),
        "{}",
        unsure(41)
    );
}

#[test]
fn text_is_cut_and_cleaned() {
    for (chars, expect) in [(399, 399), (400, 400), (401, 400)] {
        let mut case = Case::pass();
        case.votes[QR].verdict = NO.to_owned();
        case.votes[QR].required_actions = vec!["é".repeat(chars)];
        assert_eq!(case.decide().decision.next_steps[0].chars().count(), expect);
    }
    let mut case = Case::pass();
    case.votes[QR].verdict = NO.to_owned();
    case.votes[QR].concerns = vec![
        "\u{1b}[2J\u{202e}a\r\n\tb\u{200b}c\u{0} ".to_owned(),
        "???".to_owned(),
    ];
    let issues = case.decide().decision.blocking_issues;
    assert_eq!(
        issues,
        [
            "[2J a b c detected by Quant Researcher.",
            "??? detected by Quant Researcher."
        ]
    );
}
