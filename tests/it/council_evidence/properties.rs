//! What holds for every request: a worse or missing figure never improves anything.

use super::*;

/// Makes some of the figures bad at random. Returns the changed figures.
fn bad(dice: &mut crate::kit::Dice) -> Vec<(&'static str, Value)> {
    let menu: [(&'static str, Value); 14] = [
        ("sharpe", json!(4.9)),
        ("sharpe", json!(0.7)),
        ("total_return", json!(-12.0)),
        ("max_dd", json!(-0.2)),
        ("oos_win_rate", json!(39.0)),
        ("oos_trades", json!(41)),
        ("n_trials", json!(400_000)),
        ("payoff_ratio", json!(0.4)),
        ("cost_per_trade", json!(0.2)),
        ("is_sharpe", json!(5.5)),
        ("embargo", json!(0)),
        ("test_start", json!("2023-01-01")),
        ("trial_returns", noise(6)),
        (
            "monte_carlo_stats",
            json!("{\"sharpe\":{\"p5\":2.5,\"p95\":3.5,\"sd\":0.1}}"),
        ),
    ];
    (0..=dice.below(2))
        .map(|_| menu[usize::try_from(dice.below(14)).unwrap()].clone())
        .collect()
}

#[test]
fn leaving_an_input_out_never_makes_an_approval() {
    let whole = good();
    let mut dice = crate::kit::Dice::new(40);
    for round in 0..crate::kit::campaign(8, 20) {
        let mut changes = if round % 10 == 0 { Vec::new() } else { fast() };
        changes.extend(bad(&mut dice));
        let before = [realism_of(&changes).verdict, quant_of(&changes).verdict];
        for name in inputs_of(&whole) {
            // One in three; the others have their turn in other rounds.
            if !dice.one_in(3) {
                continue;
            }
            let mut without = changes.clone();
            without.push((Box::leak(name.clone().into_boxed_str()), Value::Null));
            let after = [realism_of(&without), quant_of(&without)];
            for (before, after) in before.iter().zip(&after) {
                assert!(
                    *before == Stance::Approve || after.verdict != Stance::Approve,
                    "without {name} of {changes:?}: {}",
                    shown(after)
                );
            }
        }
    }
}

#[test]
fn each_input_of_a_good_request_is_needed() {
    // For some missing figures, the row says how they follow from others.
    let follows = ["years", "periods_per_year"];
    for name in inputs_of(&good())
        .iter()
        .filter(|name| !follows.contains(&name.as_str()))
    {
        let without = [(name.as_str(), Value::Null)];
        let both = [realism_of(&without).verdict, quant_of(&without).verdict];
        assert!(
            both.contains(&Stance::NeedsMoreInfo) && !both.contains(&Stance::Reject),
            "without {name}: {both:?}"
        );
    }
}

#[test]
fn an_optional_input_may_be_missing_and_an_unusable_one_may_not() {
    let mut policy = EvidencePolicy::default();
    let without = [
        ("trial_returns", Value::Null),
        ("trial_sharpes", json!([0.1, 0.4, 2.0, 0.6])),
    ];
    assert_eq!(
        quant_researcher(&changed(&without), &policy, 0).verdict,
        Stance::NeedsMoreInfo
    );
    policy.optional_inputs = vec!["trial_returns".to_owned()];
    let found = quant_researcher(&changed(&without), &policy, 0);
    assert_eq!(found.verdict, Stance::Approve, "{}", shown(&found));
    for unusable in [
        json!([]),
        json!([[1, 2], [1]]),
        json!("a;b"),
        json!([["x"]]),
        json!({}),
    ] {
        let sent = [
            ("trial_returns", unusable),
            ("trial_sharpes", json!([0.1, 0.4, 2.0, 0.6])),
        ];
        let found = quant_researcher(&changed(&sent), &policy, 0);
        assert_eq!(found.verdict, Stance::NeedsMoreInfo, "{}", shown(&found));
    }
    policy.optional_inputs = EvidencePolicy::INPUTS
        .iter()
        .map(|name| (*name).to_owned())
        .collect();
    let nothing = request(json!({}));
    assert_eq!(
        quant_researcher(&nothing, &policy, 0).verdict,
        Stance::NeedsMoreInfo,
        "nothing was computed"
    );
}

/// One figure is worse and the others are unchanged: neither the row nor the vote improves.
#[test]
fn a_worse_figure_never_makes_a_better_vote() {
    let ladders: [(&str, &str, Vec<Value>); 9] = [
        (
            "RC-02",
            "sharpe",
            [2.0, 3.0, 3.6, 4.2, 5.0, 9.0, 99.0]
                .map(|v| json!(v))
                .to_vec(),
        ),
        (
            "RC-07",
            "cost_per_trade",
            [0.01, 0.05, 0.1, 0.2, 1.0, 90.0].map(|v| json!(v)).to_vec(),
        ),
        (
            "QR-09",
            "oos_trades",
            [4000, 400, 100, 99, 30, 29, 1, 0]
                .map(|v| json!(v))
                .to_vec(),
        ),
        (
            "QR-03",
            "n_trials",
            [4, 5, 50, 5_000, 500_000, 500_000_000]
                .map(|v: i64| json!(v))
                .to_vec(),
        ),
        (
            "QR-05",
            "n_trials",
            [4, 5, 50, 5_000, 500_000, 500_000_000]
                .map(|v: i64| json!(v))
                .to_vec(),
        ),
        (
            "QR-08",
            "is_sharpe",
            [1.95, 2.2, 3.0, 4.0, 6.0, 50.0].map(|v| json!(v)).to_vec(),
        ),
        (
            "RC-05",
            "payoff_ratio",
            [9.0, 2.0, 1.1, 0.9, 0.75, 0.5, 0.1]
                .map(|v| json!(v))
                .to_vec(),
        ),
        (
            "RC-04",
            "max_dd",
            [-30.0, -12.0, -6.0, -3.0, -1.0, -0.1, 0.0]
                .map(|v| json!(v))
                .to_vec(),
        ),
        (
            "QR-11",
            "test_start",
            [
                "2024-03-01",
                "2024-01-08",
                "2023-12-30",
                "2023-12-29",
                "2020-01-01",
            ]
            .map(|v| json!(v))
            .to_vec(),
        ),
    ];
    let rank = |outcome: &str| {
        ["blocker", "major", "minor", "null", "pass"]
            .iter()
            .position(|o| *o == outcome)
            .unwrap()
    };
    for (id, name, ladder) in ladders {
        let mut last = usize::MAX;
        for value in ladder {
            let mut changes = fast();
            changes.push((name, value.clone()));
            let found = with(&EvidencePolicy::default(), &changes, id);
            let now = rank(outcome(&found, id));
            assert!(
                now <= last,
                "{id}: {name} of {value}: {}",
                row(&found, id).answer
            );
            last = now;
        }
        assert!(last < 2, "{id} never failed");
    }
}
