//! Every check at its limit, one unit below and one above.

use super::*;
use spoolgate_rules::bounds::Within;

/// A check, the changed members, and the outcome of its row.
type Case<'a> = (&'a str, &'a [(&'a str, Value)], &'a str);

/// The changed members, the outcome of RC-03, and what its answer says.
type Told<'a> = (&'a [(&'a str, Value)], &'a str, &'a str);

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn thresholds_at_the_limit_and_one_unit_beside_it() {
    let weak = [("sharpe", json!(0.9))];
    around(
        "RC-02",
        &[("sharpe", json!(3.5))],
        |p, limit| p.implausible_p = limit.try_into().unwrap(),
        ["minor", "minor", "major"],
    );
    around(
        "RC-02",
        &[],
        |p, limit| {
            p.implausible_p = Within::least();
            p.doubtful_p = limit.try_into().unwrap();
        },
        ["pass", "pass", "minor"],
    );
    around(
        "RC-04",
        &[("max_dd", json!(-7.0))],
        |p, limit| p.drawdown_p = limit.try_into().unwrap(),
        ["pass", "pass", "major"],
    );
    around(
        "RC-09",
        &smoothed(),
        |p, limit| p.smoothing_share = limit.try_into().unwrap(),
        ["pass", "pass", "minor"],
    );
    around(
        "QR-01",
        &weak,
        |p, limit| p.t_reject = limit.try_into().unwrap(),
        ["major", "major", "blocker"],
    );
    around(
        "QR-01",
        &weak,
        |p, limit| {
            p.t_reject = Within::least();
            p.t_hurdle = limit.try_into().unwrap();
        },
        ["pass", "pass", "major"],
    );
    around(
        "QR-02",
        &weak,
        |p, limit| p.psr_min = limit.try_into().unwrap(),
        ["pass", "pass", "major"],
    );
    around(
        "QR-03",
        &weak,
        |p, limit| p.dsr_reject = limit.try_into().unwrap(),
        ["major", "major", "blocker"],
    );
    around(
        "QR-03",
        &weak,
        |p, limit| {
            p.dsr_reject = Within::least();
            p.dsr_min = limit.try_into().unwrap();
        },
        ["pass", "pass", "major"],
    );
    around(
        "QR-06",
        &weak,
        |p, limit| p.haircut_min = limit.try_into().unwrap(),
        ["pass", "pass", "minor"],
    );
    let noise = [("trial_returns", noise(12)), ("n_trials", json!(12))];
    around(
        "QR-07",
        &noise,
        |p, limit| p.pbo_reject = limit.try_into().unwrap(),
        ["blocker", "blocker", "major"],
    );
    around(
        "QR-07",
        &noise,
        |p, limit| {
            p.pbo_max = limit.try_into().unwrap();
            p.pbo_reject = Amount::ONE.try_into().unwrap();
        },
        ["major", "pass", "pass"],
    );
    let drop = [("is_win_rate", json!(64.0)), ("is_sharpe", Value::Null)];
    around(
        "QR-08",
        &drop,
        |p, limit| {
            p.drop_reject_p = Within::least();
            p.drop_p = limit.try_into().unwrap();
        },
        ["pass", "pass", "major"],
    );
    around(
        "QR-08",
        &drop,
        |p, limit| {
            p.drop_reject_p = limit.try_into().unwrap();
            p.drop_p = limit.try_into().unwrap();
        },
        ["pass", "pass", "blocker"],
    );
    let drop = [("is_win_rate", Value::Null), ("is_sharpe", json!(3.0))];
    around(
        "QR-08",
        &drop,
        |p, limit| {
            p.drop_reject_p = Within::least();
            p.drop_p = limit.try_into().unwrap();
        },
        ["pass", "pass", "major"],
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn figures_at_the_limit_and_one_unit_beside_it() {
    let null = Value::Null;
    let cases: &[Case<'_>] = &[
        ("RC-01", &[("oos_win_rate", json!(100.0))], "pass"),
        ("RC-01", &[("oos_win_rate", json!(100.1))], "blocker"),
        ("RC-01", &[("total_return", json!(-100.1))], "blocker"),
        ("RC-01", &[("sharpe", null.clone())], "null"),
        (
            "RC-05",
            &[
                ("oos_win_rate", json!(50.0)),
                ("payoff_ratio", json!(1)),
                ("oos_trades", json!(400)),
            ],
            "major",
        ),
        (
            "RC-05",
            &[("oos_win_rate", json!(49.9)), ("payoff_ratio", json!(1))],
            "blocker",
        ),
        (
            "RC-05",
            &[
                ("oos_win_rate", json!(54.8)),
                ("payoff_ratio", json!(1)),
                ("oos_trades", json!(400)),
            ],
            "major",
        ),
        (
            "RC-05",
            &[
                ("oos_win_rate", json!(55.0)),
                ("payoff_ratio", json!(1)),
                ("oos_trades", json!(400)),
            ],
            "pass",
        ),
        (
            "RC-05",
            &[("oos_win_rate", json!(55.0)), ("payoff_ratio", json!(0.8))],
            "blocker",
        ),
        (
            "RC-06",
            &[("oos_win_rate", json!(39.0)), ("oos_trades", json!(41))],
            "pass",
        ),
        (
            "RC-06",
            &[("oos_win_rate", json!(39.0)), ("oos_trades", json!(40))],
            "major",
        ),
        (
            "RC-06",
            &[("oos_win_rate", json!(58.0)), ("oos_trades", json!(0))],
            "major",
        ),
        (
            "RC-06",
            &[("is_win_rate", json!(75.2)), ("is_trades", json!(165))],
            "pass",
        ),
        (
            "RC-06",
            &[("is_win_rate", json!(75.2)), ("is_trades", json!(166))],
            "major",
        ),
        ("RC-07", &[("cost_per_trade", null.clone())], "minor"),
        ("RC-07", &[("cost_per_trade", json!(0))], "minor"),
        ("RC-07", &[("edge_per_trade", json!(0.099_999))], "major"),
        ("RC-07", &[("edge_per_trade", json!(0.1))], "major"),
        ("RC-07", &[("edge_per_trade", json!(0.100_001))], "pass"),
        ("RC-07", &[("edge_per_trade", null.clone())], "null"),
        (
            "RC-08",
            &[(
                "monte_carlo_stats",
                json!("{\"sharpe\":{\"p5\":2.0,\"p95\":3,\"sd\":0.42}}"),
            )],
            "pass",
        ),
        (
            "RC-08",
            &[(
                "monte_carlo_stats",
                json!("{\"sharpe\":{\"p5\":2.000001,\"p95\":3,\"sd\":0.42}}"),
            )],
            "major",
        ),
        (
            "RC-08",
            &[(
                "monte_carlo_stats",
                json!("{\"sharpe\":{\"p5\":1,\"p95\":2.0,\"sd\":0.42}}"),
            )],
            "pass",
        ),
        (
            "RC-08",
            &[(
                "monte_carlo_stats",
                json!("{\"sharpe\":{\"p5\":1,\"p95\":1.999999,\"sd\":0.42}}"),
            )],
            "major",
        ),
        (
            "RC-08",
            &[(
                "monte_carlo_stats",
                json!("{\"sharpe\":{\"p5\":3,\"p95\":1,\"sd\":0.42}}"),
            )],
            "major",
        ),
        // Half of 1/sqrt(6) = 0.4082 is 0.2041.
        (
            "RC-08",
            &[(
                "monte_carlo_stats",
                json!("{\"sharpe\":{\"p5\":1,\"p95\":3,\"sd\":0.2041}}"),
            )],
            "pass",
        ),
        (
            "RC-08",
            &[(
                "monte_carlo_stats",
                json!("{\"sharpe\":{\"p5\":1,\"p95\":3,\"sd\":0.2040}}"),
            )],
            "minor",
        ),
        ("RC-10", &[("sharpe", json!(2.01))], "pass"),
        ("RC-10", &[("sharpe", json!(2.03))], "blocker"),
        ("RC-10", &[("n_obs", json!(1513))], "pass"),
        ("RC-10", &[("n_obs", json!(1600))], "blocker"),
        (
            "QR-04",
            &[
                ("returns", null.clone()),
                ("n_obs", json!(171)),
                ("sharpe", json!(2)),
                ("skew", json!(0)),
                ("kurtosis", json!(3)),
            ],
            "major",
        ),
        (
            "QR-04",
            &[
                ("returns", null.clone()),
                ("n_obs", json!(174)),
                ("sharpe", json!(2)),
                ("skew", json!(0)),
                ("kurtosis", json!(3)),
            ],
            "pass",
        ),
        ("QR-04", &[("sharpe", json!(0))], "major"),
        // Ten trials take 2.4794 years at 1.
        (
            "QR-05",
            &[
                ("n_trials", json!(10)),
                ("sharpe", json!(1)),
                ("years", json!(2.47)),
            ],
            "major",
        ),
        (
            "QR-05",
            &[
                ("n_trials", json!(10)),
                ("sharpe", json!(1)),
                ("years", json!(2.48)),
            ],
            "pass",
        ),
        ("QR-05", &[("sharpe", json!(-1))], "major"),
        (
            "QR-07",
            &[
                ("trial_returns", json!([[0.1], [0.2]])),
                ("n_trials", json!(1)),
            ],
            "null",
        ),
        (
            "QR-07",
            &[("trial_returns", json!([[0.1, 0.2], [0.2, 0.1], [0.1, 0.3]]))],
            "null",
        ),
        ("QR-08", &[("is_sharpe", json!(1.9))], "major"),
        (
            "QR-08",
            &[
                ("is_win_rate", json!(75.2)),
                ("is_trades", json!(165)),
                ("oos_win_rate", json!(39.0)),
                ("oos_trades", json!(41)),
            ],
            "blocker",
        ),
        ("QR-09", &[("oos_trades", json!(29))], "blocker"),
        ("QR-09", &[("oos_trades", json!(30))], "minor"),
        ("QR-09", &[("oos_trades", json!(99))], "minor"),
        ("QR-09", &[("oos_trades", json!(100))], "pass"),
        (
            "QR-10",
            &[("returns", json!(returns(300, 0.004, 0.01, 5)))],
            "pass",
        ),
        (
            "QR-10",
            &[("returns", json!(returns(300, 0.0002, 0.01, 5)))],
            "major",
        ),
        ("QR-11", &[("test_start", json!("2023-12-29"))], "blocker"),
        ("QR-11", &[("test_start", json!("2023-12-28"))], "blocker"),
        (
            "QR-11",
            &[("test_start", json!("2023-12-30")), ("embargo", json!(1))],
            "pass",
        ),
        (
            "QR-11",
            &[("test_start", json!("2023-12-30")), ("embargo", json!(2))],
            "major",
        ),
        ("QR-11", &[("embargo", json!(17))], "pass"),
        ("QR-11", &[("embargo", json!(18))], "major"),
        ("QR-11", &[("embargo", json!(0))], "major"),
        ("QR-11", &[("embargo", null.clone())], "null"),
    ];
    for (id, changes, expected) in cases {
        let found = with(&EvidencePolicy::default(), changes, id);
        assert_eq!(
            outcome(&found, id),
            *expected,
            "{changes:?}: {}",
            row(&found, id).answer
        );
    }
}

#[test]
fn growth_at_the_bound_and_a_millionth_beyond_it() {
    // (2.0 + half a unit)^2/2 = 2.10125, and a tenth more.
    for (growth, expected) in [(2.311_375_f64, "pass"), (2.311_376, "major")] {
        let total = (growth.exp() - 1.0) * 100.0;
        let found = realism_of(&[
            ("total_return", json!(total)),
            ("years", json!(1)),
            ("sharpe", json!(2.0)),
            ("max_dd", json!(-30)),
        ]);
        assert_eq!(
            outcome(&found, "RC-04"),
            expected,
            "{}",
            row(&found, "RC-04").answer
        );
    }
}

#[test]
fn figures_that_contradict_each_other_or_the_report() {
    let report = |rows: &str| json!(format!("| Metric | Value |\n|---|---|\n{rows}"));
    let cases: &[Told<'_>] = &[
        (
            &[("sharpe", json!(-0.5))],
            "major",
            "the Sharpe ratio -0.5.",
        ),
        (
            &[("total_return", json!(-40.0)), ("sharpe", json!(2.0))],
            "major",
            "the total return is -40.0 %",
        ),
        (
            &[("total_return", json!(-3.0)), ("sharpe", json!(0.1))],
            "major",
            "the report states",
        ),
        (
            &[
                ("total_return", json!(-3.0)),
                ("sharpe", json!(0.1)),
                ("validation_report", report("| Sharpe | 0.1 |")),
            ],
            "pass",
            "",
        ),
        (
            &[
                ("cagr", json!(36.0)),
                ("total_return", json!(530.0)),
                ("validation_report", report("| Sharpe | 2.0 |")),
            ],
            "pass",
            "",
        ),
        (&[("cagr", json!(50.0))], "major", "CAGR"),
        (&[("calmar", json!(77.0))], "major", "Calmar"),
        (
            &[("years", json!(8))],
            "major",
            "1512 returns at 252 a year are 6.00 years, not 8.",
        ),
        (
            &[("validation_report", report("| Sharpe | 1.9 |"))],
            "major",
            "`sharpe` is quoted as 2.0, the report states 1.9.",
        ),
        (
            &[("validation_report", report("| Sharpe | 2 |"))],
            "pass",
            "",
        ),
        (
            &[("validation_report", json!("no table"))],
            "null",
            "No table of the validation report",
        ),
        (
            &[("validation_report", Value::Null)],
            "null",
            "supply `validation_report`",
        ),
    ];
    for (changes, expected, told) in cases {
        let found = realism_of(changes);
        let answer = &row(&found, "RC-03").answer;
        assert_eq!(outcome(&found, "RC-03"), *expected, "{changes:?}: {answer}");
        assert!(answer.contains(told), "{changes:?}: {answer}");
    }
}

#[test]
fn the_group_of_sharpe_checks_counts_once_and_the_gate_s_count_of_trials_counts() {
    // A t between 2 and 3 is a major of QR-01; QR-02 to QR-05 fail with it and add nothing.
    let weak = quant_of(&[
        ("sharpe", json!(1.0)),
        ("n_trials", json!(40)),
        ("trial_returns", Value::Null),
        ("trial_sharpes", json!([0.9, 0.5, 0.1])),
    ]);
    let majors = ["QR-01", "QR-02", "QR-03", "QR-04", "QR-05"]
        .into_iter()
        .filter(|id| outcome(&weak, id) == "major")
        .count();
    assert!(majors >= 2, "{}", shown(&weak));
    assert_eq!(
        weak.findings
            .iter()
            .filter(|row| row.pass == Some(false) && row.severity == Severity::Blocker)
            .count(),
        0,
        "{}",
        shown(&weak)
    );
    assert_eq!(weak.verdict, Stance::NeedsMoreInfo);
    // Two majors of different weaknesses reject.
    let both = quant_of(&[
        ("sharpe", json!(1.0)),
        ("n_trials", json!(40)),
        ("trial_returns", Value::Null),
        ("trial_sharpes", json!([0.9, 0.5, 0.1])),
        ("embargo", json!(0)),
    ]);
    assert_eq!(both.verdict, Stance::Reject, "{}", shown(&both));
    let counted = quant_researcher(&changed(&[]), &EvidencePolicy::default(), 5_000_000);
    assert!(
        row(&counted, "QR-05")
            .answer
            .contains("4 trials are stated; 5000000 are known."),
        "{}",
        shown(&counted)
    );
    assert_ne!(counted.verdict, Stance::Approve);
}

/// A hundred copies of one trial must not make the best of a hundred look like skill.
#[test]
fn tries_without_any_spread_count_as_worthless_ones() {
    let tries = |sharpes: Value| {
        let sent = [
            ("trial_returns", Value::Null),
            ("n_trials", json!(100)),
            ("trial_sharpes", sharpes),
        ];
        let told = quant_of(&sent);
        row(&told, "QR-03").value.clone()
    };
    let none = tries(Value::Null);
    assert!(none.is_some());
    assert_eq!(tries(json!([0.5, 0.5, 0.5])), none);
    assert_ne!(tries(json!([0.5, 0.9, 0.1])), none);
}
