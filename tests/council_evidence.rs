//! The computed votes of the Realism Checker and the Quant Researcher: rows, limits, missing and hostile input.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::float_arithmetic,
    clippy::print_stdout,
    reason = "tests"
)]

use serde_json::{Value, json};
use spoolgate::council::evidence::{quant_researcher, realism_checker};
use spoolgate::council::finding::{Evidence, Finding};
use spoolgate::rules::evidence::EvidencePolicy;
use spoolgate::wire::amount::Amount;
use spoolgate::wire::council::{CouncilRequest, Severity, Stance};

#[path = "common/dice.rs"]
mod dice;

fn request(metrics: Value) -> CouncilRequest {
    from(json!({"context": {"summary": "s", "key_metrics": metrics}}))
}

/// A request with these members beside the usual ones.
fn from(members: Value) -> CouncilRequest {
    let mut whole = json!({
        "request_id": "req_1", "timestamp": "2025-12-09T12:00:00Z", "proposer": "p", "change_type": "DECLARE_PASS",
        "context": {"summary": "s"}
    });
    for (name, member) in members.as_object().unwrap() {
        whole[name] = member.clone();
    }
    serde_json::from_str(&whole.to_string()).unwrap()
}

fn realism(request: &CouncilRequest) -> Evidence {
    realism_checker(request, &EvidencePolicy::default())
}

fn quant(request: &CouncilRequest) -> Evidence {
    quant_researcher(request, &EvidencePolicy::default(), 0)
}

fn row<'a>(evidence: &'a Evidence, id: &str) -> &'a Finding {
    evidence.findings.iter().find(|finding| finding.check_id == id).unwrap()
}

fn seed() -> CouncilRequest {
    let text = r#"{"request_id":"req_123456789","timestamp":"2025-12-09T12:00:00Z","proposer":"QuantResearchAgent_v1",
        "change_type":"DECLARE_PASS","context":{"summary":"Declaring that Strategy v2.1 has passed validation based on new OOS tests.",
        "files_changed":["notes/strategy_evaluation_checklist.md"],"key_metrics":
        {"total_return":15.4,"sharpe":1.2,"max_dd":-4.5,"oos_win_rate":55.0}},"artifacts":{"spec_content":"... markdown string ...",
        "diff_content":"... git diff string ...","validation_report":"... markdown table string ...","monte_carlo_stats":"... json string ..."}}"#;
    serde_json::from_str(text).unwrap()
}

#[test]
fn the_seeds_request_is_neither_approved_nor_rejected() {
    for evidence in [realism(&seed()), quant(&seed())] {
        assert_eq!(evidence.verdict, Stance::NeedsMoreInfo, "{evidence:?}");
    }
}

#[test]
fn the_seeds_request_is_told_what_its_figures_would_take() {
    let (realism, quant) = (realism(&seed()), quant(&seed()));
    let told = [
        (&realism, "RC-02", "probability 0.287770"),
        (&realism, "RC-04", "consistent with a horizon above about 0.6 years"),
        (&realism, "RC-04", "Over one year so small a drawdown has probability 0.018."),
        (&realism, "RC-04", "Over two years so small a drawdown has probability 0.24"),
        (&realism, "RC-05", "It takes 385 trades to clear break-even at this rate."),
        (&realism, "RC-08", "`monte_carlo_stats` is no JSON object of numbers"),
        (&quant, "QR-01", "reaches t = 3 after 6.25 years"),
        (&quant, "QR-04", "which is 1.94 years"),
        (&quant, "QR-05", "Over 1.00 years the best of 6 worthless tries is expected to show 1.20."),
    ];
    for (evidence, id, text) in told {
        let answer = &row(evidence, id).answer;
        assert!(answer.contains(text), "{id}: {answer}");
    }
    assert!(realism.findings.iter().all(|row| row.severity != Severity::Major || row.pass != Some(false)));
    assert!(quant.findings.iter().all(|row| row.pass.is_none()));
}

#[test]
fn the_decision_of_the_contracts_example() {
    let request = request(json!({"total_return": 15.4, "sharpe": 5.0, "max_dd": -4.5, "oos_win_rate": 39.0}));
    let evidence = realism(&request);
    assert_eq!(evidence.verdict, Stance::Reject);
    assert_eq!(evidence.role, "Realism Checker");
    let failed: Vec<(&str, Severity, bool, &str)> = evidence
        .findings
        .iter()
        .filter(|row| row.pass == Some(false))
        .map(|row| (row.check_id.as_str(), row.severity, row.headline, row.message.as_deref().unwrap()))
        .collect();
    let expected = [
        ("RC-02", Severity::Major, true, "The reported Sharpe of 5.0 is statistically implausible."),
        ("RC-05", Severity::Blocker, false, "OOS win rate is only 39%."),
        ("RC-07", Severity::Minor, false, "Costs are not stated per trade."),
    ];
    assert_eq!(failed, expected);
    assert_eq!(evidence.required_actions, ["Re-run backtest."]);
    // The metrics the request really states do not come out so.
    assert_eq!(realism_of(&[]).verdict, Stance::Approve);
    assert_ne!(self::realism(&seed()).verdict, Stance::Reject);
}

/// Returns whose Sharpe ratio, total return and drawdown are known by construction, with hardly any autocorrelation.
fn returns(n: usize, mean: f64, sd: f64, seed: u64) -> Vec<f64> {
    let mut dice = dice::Dice::new(seed);
    let mut uniform = || f64::from(u32::try_from(dice.below(1 << 24)).unwrap()) / f64::from(1 << 24);
    let raw: Vec<f64> = (0..n).map(|_| (0..12).map(|_| uniform()).sum::<f64>() - 6.0).collect();
    let count = f64::from(u32::try_from(n).unwrap());
    let m = raw.iter().sum::<f64>() / count;
    let s = (raw.iter().map(|x| (x - m) * (x - m)).sum::<f64>() / (count - 1.0)).sqrt();
    raw.iter().map(|x| (((x - m) / s * sd + mean) * 1e8).round() / 1e8).collect()
}

/// A request that both roles approve: six years of daily returns, an honest Sharpe ratio of 2, four trials.
fn good() -> Value {
    let best = returns(1512, 0.00126, 0.01, 3);
    let (mut equity, mut peak, mut deepest) = (1.0_f64, 1.0_f64, 0.0_f64);
    for r in &best {
        equity *= 1.0 + r;
        peak = peak.max(equity);
        deepest = deepest.min(equity / peak - 1.0);
    }
    let total = format!("{:.2}", (equity - 1.0) * 100.0);
    let deepest = format!("{:.2}", deepest * 100.0);
    let others: Vec<Vec<f64>> =
        (0..3_u32).map(|k| returns(1512, 0.0002 * f64::from(k), 0.01, 10 + u64::from(k))).collect();
    let matrix: Vec<Vec<f64>> = (0..1512)
        .map(|t| std::iter::once(best[t]).chain(others.iter().map(|other| other[t])).collect())
        .collect();
    let report = format!(
        "| Metric | Value |\n|---|---|\n| Total return | {total}% |\n| Sharpe | 2.00 |\n| Max DD | {deepest}% |\n| OOS win rate | 58.0% |\n"
    );
    let mut whole = json!({
        "context": {"summary": "s", "key_metrics": {
            "sharpe": 2.00, "oos_win_rate": 58.0, "years": 6, "periods_per_year": 252, "n_obs": 1512,
            "payoff_ratio": 1.1, "oos_trades": 400, "is_win_rate": 60.0, "is_trades": 800, "n_trials": 4,
            "cost_per_trade": 0.05, "edge_per_trade": 0.2, "is_sharpe": 2.2, "oos_sharpe": 1.9, "is_years": 4,
            "oos_years": 2, "train_end": "2023-12-29", "test_start": "2024-01-15", "embargo": 10
        }},
        "artifacts": {"validation_report": report, "monte_carlo_stats":
            "{\"sharpe\":{\"p5\":1.2,\"p95\":2.8,\"mean\":2.0,\"sd\":0.42},\"total_return\":{\"p5\":200,\"p95\":1500}}"},
        "returns": best, "trial_returns": matrix
    });
    whole["context"]["key_metrics"]["total_return"] = serde_json::from_str(&total).unwrap();
    whole["context"]["key_metrics"]["max_dd"] = serde_json::from_str(&deepest).unwrap();
    whole
}

/// The good request with other members; a null one is left out. Names with a slash are those of members.
fn changed(changes: &[(&str, Value)]) -> CouncilRequest {
    let mut whole = good();
    for (name, value) in changes {
        let holder = match *name {
            "returns" | "trial_returns" => &mut whole,
            "validation_report" | "monte_carlo_stats" => &mut whole["artifacts"],
            _ => &mut whole["context"]["key_metrics"],
        };
        if value.is_null() {
            holder.as_object_mut().unwrap().remove(*name);
        } else {
            holder[*name] = value.clone();
        }
    }
    from(whole)
}

fn realism_of(changes: &[(&str, Value)]) -> Evidence {
    realism(&changed(changes))
}

fn quant_of(changes: &[(&str, Value)]) -> Evidence {
    quant(&changed(changes))
}

fn shown(evidence: &Evidence) -> String {
    let rows = evidence
        .findings
        .iter()
        .map(|f| format!("{} {:?} {:?} {}", f.check_id, f.pass, f.severity, f.answer));
    format!("{:?}\n{}", evidence.verdict, rows.collect::<Vec<_>>().join("\n"))
}

#[test]
fn a_request_with_all_of_it_in_order_is_approved() {
    for evidence in [realism_of(&[]), quant_of(&[])] {
        assert_eq!(evidence.verdict, Stance::Approve, "{}", shown(&evidence));
        assert!(evidence.findings.iter().all(|row| row.pass == Some(true)), "{}", shown(&evidence));
        assert!(evidence.required_actions.is_empty());
        assert!(
            evidence.findings.iter().all(|row| row.value.is_some()
                || row.check_id == "RC-01"
                || row.check_id == "RC-03"
                || row.check_id == "RC-06"
                || row.check_id == "RC-10"),
            "{}",
            shown(&evidence)
        );
    }
}

/// `pass`, `null`, or how badly it failed.
fn outcome(evidence: &Evidence, id: &str) -> &'static str {
    let row = row(evidence, id);
    match (row.pass, row.severity) {
        (Some(true), _) => "pass",
        (None, _) => "null",
        (Some(false), Severity::Minor) => "minor",
        (Some(false), Severity::Major) => "major",
        (Some(false), Severity::Blocker) => "blocker",
    }
}

fn with(policy: &EvidencePolicy, changes: &[(&str, Value)], id: &str) -> Evidence {
    let request = changed(changes);
    if id.starts_with("RC") {
        realism_checker(&request, policy)
    } else {
        quant_researcher(&request, policy, 0)
    }
}

fn amount(text: &str) -> Amount {
    Amount::parse_exact(text).unwrap()
}

type Set = fn(&mut EvidencePolicy, Amount);

/// A threshold is put one unit below the computed value, on it, and one above: what comes out of the row.
fn around(id: &str, changes: &[(&str, Value)], set: Set, expected: [&str; 3]) {
    let computed = with(&EvidencePolicy::default(), changes, id);
    let value =
        amount(row(&computed, id).value.as_deref().unwrap_or_else(|| panic!("{id}: {}", shown(&computed))));
    let unit = amount(&format!(
        "{:.1$}",
        0.1_f64.powi(i32::try_from(value.scale()).unwrap()),
        usize::try_from(value.scale()).unwrap()
    ));
    let limits = [value.checked_sub(unit).unwrap(), value, value.checked_add(unit).unwrap()];
    let found = limits.map(|limit| {
        let mut policy = EvidencePolicy::default();
        set(&mut policy, limit);
        outcome(&with(&policy, changes, id), id)
    });
    assert_eq!(found, expected, "{id} around {value}: {}", row(&computed, id).answer);
}

#[test]
fn thresholds_at_the_limit_and_one_unit_beside_it() {
    let weak = [("sharpe", json!(0.9))];
    around(
        "RC-02",
        &[("sharpe", json!(3.5))],
        |p, limit| p.implausible_p = limit,
        ["minor", "minor", "major"],
    );
    around(
        "RC-02",
        &[],
        |p, limit| (p.implausible_p, p.doubtful_p) = (Amount::ZERO, limit),
        ["pass", "pass", "minor"],
    );
    around("RC-04", &[("max_dd", json!(-7.0))], |p, limit| p.drawdown_p = limit, ["pass", "pass", "major"]);
    around("RC-09", &smoothed(), |p, limit| p.smoothing_share = limit, ["pass", "pass", "minor"]);
    around("QR-01", &weak, |p, limit| p.t_reject = limit, ["major", "major", "blocker"]);
    around(
        "QR-01",
        &weak,
        |p, limit| (p.t_reject, p.t_hurdle) = (Amount::ZERO, limit),
        ["pass", "pass", "major"],
    );
    around("QR-02", &weak, |p, limit| p.psr_min = limit, ["pass", "pass", "major"]);
    around("QR-03", &weak, |p, limit| p.dsr_reject = limit, ["major", "major", "blocker"]);
    around(
        "QR-03",
        &weak,
        |p, limit| (p.dsr_reject, p.dsr_min) = (Amount::ZERO, limit),
        ["pass", "pass", "major"],
    );
    around("QR-06", &weak, |p, limit| p.haircut_min = limit, ["pass", "pass", "minor"]);
    let noise = [("trial_returns", noise(12)), ("n_trials", json!(12))];
    around("QR-07", &noise, |p, limit| p.pbo_reject = limit, ["blocker", "blocker", "major"]);
    around(
        "QR-07",
        &noise,
        |p, limit| (p.pbo_max, p.pbo_reject) = (limit, Amount::from_i64(2)),
        ["major", "pass", "pass"],
    );
    let drop = [("is_win_rate", json!(64.0)), ("is_sharpe", Value::Null)];
    around(
        "QR-08",
        &drop,
        |p, limit| (p.drop_reject_p, p.drop_p) = (Amount::ZERO, limit),
        ["pass", "pass", "major"],
    );
    around(
        "QR-08",
        &drop,
        |p, limit| (p.drop_reject_p, p.drop_p) = (limit, limit),
        ["pass", "pass", "blocker"],
    );
    let drop = [("is_win_rate", Value::Null), ("is_sharpe", json!(3.0))];
    around(
        "QR-08",
        &drop,
        |p, limit| (p.drop_reject_p, p.drop_p) = (Amount::ZERO, limit),
        ["pass", "pass", "major"],
    );
}

/// Returns with a first autocorrelation of about .4, and nothing else of the good request's series.
fn smoothed() -> [(&'static str, Value); 1] {
    let raw = returns(600, 0.001, 0.01, 8);
    let smooth: Vec<f64> = raw.windows(2).map(|pair| (0.6 * pair[1] + 0.4 * pair[0]) * 1.0).collect();
    [("returns", json!(smooth))]
}

/// A matrix of configurations that are hardly worth anything.
fn noise(columns: u64) -> Value {
    let all: Vec<Vec<f64>> = (0..columns)
        .map(|k| returns(240, 0.0002 * f64::from(u32::try_from(k % 3).unwrap()), 0.01, 100 + k))
        .collect();
    json!((0..240).map(|t| all.iter().map(|one| one[t]).collect()).collect::<Vec<Vec<f64>>>())
}

#[test]
fn figures_at_the_limit_and_one_unit_beside_it() {
    let null = Value::Null;
    let cases: &[(&str, &[(&str, Value)], &str)] = &[
        ("RC-01", &[("oos_win_rate", json!(100.0))], "pass"),
        ("RC-01", &[("oos_win_rate", json!(100.1))], "blocker"),
        ("RC-01", &[("total_return", json!(-100.1))], "blocker"),
        ("RC-01", &[("sharpe", null.clone())], "null"),
        (
            "RC-05",
            &[("oos_win_rate", json!(50.0)), ("payoff_ratio", json!(1)), ("oos_trades", json!(400))],
            "major",
        ),
        ("RC-05", &[("oos_win_rate", json!(49.9)), ("payoff_ratio", json!(1))], "blocker"),
        (
            "RC-05",
            &[("oos_win_rate", json!(54.8)), ("payoff_ratio", json!(1)), ("oos_trades", json!(400))],
            "major",
        ),
        (
            "RC-05",
            &[("oos_win_rate", json!(55.0)), ("payoff_ratio", json!(1)), ("oos_trades", json!(400))],
            "pass",
        ),
        ("RC-05", &[("oos_win_rate", json!(55.0)), ("payoff_ratio", json!(0.8))], "blocker"),
        ("RC-06", &[("oos_win_rate", json!(39.0)), ("oos_trades", json!(41))], "pass"),
        ("RC-06", &[("oos_win_rate", json!(39.0)), ("oos_trades", json!(40))], "major"),
        ("RC-06", &[("oos_win_rate", json!(58.0)), ("oos_trades", json!(0))], "major"),
        ("RC-06", &[("is_win_rate", json!(75.2)), ("is_trades", json!(165))], "pass"),
        ("RC-06", &[("is_win_rate", json!(75.2)), ("is_trades", json!(166))], "major"),
        ("RC-07", &[("cost_per_trade", null.clone())], "minor"),
        ("RC-07", &[("cost_per_trade", json!(0))], "minor"),
        ("RC-07", &[("edge_per_trade", json!(0.099_999))], "major"),
        ("RC-07", &[("edge_per_trade", json!(0.1))], "major"),
        ("RC-07", &[("edge_per_trade", json!(0.100_001))], "pass"),
        ("RC-07", &[("edge_per_trade", null.clone())], "null"),
        ("RC-08", &[("monte_carlo_stats", json!("{\"sharpe\":{\"p5\":2.0,\"p95\":3,\"sd\":0.42}}"))], "pass"),
        (
            "RC-08",
            &[("monte_carlo_stats", json!("{\"sharpe\":{\"p5\":2.000001,\"p95\":3,\"sd\":0.42}}"))],
            "major",
        ),
        ("RC-08", &[("monte_carlo_stats", json!("{\"sharpe\":{\"p5\":1,\"p95\":2.0,\"sd\":0.42}}"))], "pass"),
        (
            "RC-08",
            &[("monte_carlo_stats", json!("{\"sharpe\":{\"p5\":1,\"p95\":1.999999,\"sd\":0.42}}"))],
            "major",
        ),
        ("RC-08", &[("monte_carlo_stats", json!("{\"sharpe\":{\"p5\":3,\"p95\":1,\"sd\":0.42}}"))], "major"),
        // Half of 1/sqrt(6) = 0.4082 is 0.2041.
        ("RC-08", &[("monte_carlo_stats", json!("{\"sharpe\":{\"p5\":1,\"p95\":3,\"sd\":0.2041}}"))], "pass"),
        (
            "RC-08",
            &[("monte_carlo_stats", json!("{\"sharpe\":{\"p5\":1,\"p95\":3,\"sd\":0.2040}}"))],
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
        ("QR-05", &[("n_trials", json!(10)), ("sharpe", json!(1)), ("years", json!(2.47))], "major"),
        ("QR-05", &[("n_trials", json!(10)), ("sharpe", json!(1)), ("years", json!(2.48))], "pass"),
        ("QR-05", &[("sharpe", json!(-1))], "major"),
        ("QR-07", &[("trial_returns", json!([[0.1], [0.2]])), ("n_trials", json!(1))], "null"),
        ("QR-07", &[("trial_returns", json!([[0.1, 0.2], [0.2, 0.1], [0.1, 0.3]]))], "null"),
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
        ("QR-10", &[("returns", json!(returns(300, 0.004, 0.01, 5)))], "pass"),
        ("QR-10", &[("returns", json!(returns(300, 0.0002, 0.01, 5)))], "major"),
        ("QR-11", &[("test_start", json!("2023-12-29"))], "blocker"),
        ("QR-11", &[("test_start", json!("2023-12-28"))], "blocker"),
        ("QR-11", &[("test_start", json!("2023-12-30")), ("embargo", json!(1))], "pass"),
        ("QR-11", &[("test_start", json!("2023-12-30")), ("embargo", json!(2))], "major"),
        ("QR-11", &[("embargo", json!(17))], "pass"),
        ("QR-11", &[("embargo", json!(18))], "major"),
        ("QR-11", &[("embargo", json!(0))], "major"),
        ("QR-11", &[("embargo", null.clone())], "null"),
    ];
    for (id, changes, expected) in cases {
        let found = with(&EvidencePolicy::default(), changes, id);
        assert_eq!(outcome(&found, id), *expected, "{changes:?}: {}", row(&found, id).answer);
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
        assert_eq!(outcome(&found, "RC-04"), expected, "{}", row(&found, "RC-04").answer);
    }
}

#[test]
fn figures_that_contradict_each_other_or_the_report() {
    let report = |rows: &str| json!(format!("| Metric | Value |\n|---|---|\n{rows}"));
    let cases: &[(&[(&str, Value)], &str, &str)] = &[
        (&[("sharpe", json!(-0.5))], "major", "the Sharpe ratio -0.5."),
        (&[("total_return", json!(-40.0)), ("sharpe", json!(2.0))], "major", "the total return is -40.0 %"),
        (&[("total_return", json!(-3.0)), ("sharpe", json!(0.1))], "major", "the report states"),
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
        (&[("years", json!(8))], "major", "1512 returns at 252 a year are 6.00 years, not 8."),
        (
            &[("validation_report", report("| Sharpe | 1.9 |"))],
            "major",
            "`sharpe` is quoted as 2.0, the report states 1.9.",
        ),
        (&[("validation_report", report("| Sharpe | 2 |"))], "pass", ""),
        (&[("validation_report", json!("no table"))], "null", "No table of the validation report"),
        (&[("validation_report", Value::Null)], "null", "supply `validation_report`"),
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
    // t between 2 and 3 is a major of QR-01; QR-02 to QR-05 fail with it and add nothing.
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
    // Two majors of different weaknesses do reject.
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
        row(&counted, "QR-05").answer.contains("4 trials are stated; 5000000 are known."),
        "{}",
        shown(&counted)
    );
    assert_ne!(counted.verdict, Stance::Approve);
}

/// Every metric, artifact and series of the good request.
fn inputs_of(whole: &Value) -> Vec<String> {
    let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let mut all = names(&whole["context"]["key_metrics"]);
    all.extend(names(&whole["artifacts"]));
    all.extend(["returns".to_owned(), "trial_returns".to_owned()]);
    // The figures that stand for another one as well: n_obs is the length of the returns.
    all.retain(|name| name != "n_obs");
    all
}

/// A request with some of the figures made bad at random, and the ones that were changed.
fn bad(dice: &mut dice::Dice) -> Vec<(&'static str, Value)> {
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
        ("monte_carlo_stats", json!("{\"sharpe\":{\"p5\":2.5,\"p95\":3.5,\"sd\":0.1}}")),
    ];
    (0..=dice.below(2)).map(|_| menu[usize::try_from(dice.below(14)).unwrap()].clone()).collect()
}

/// The inputs of fast checks only: a short series, a small matrix.
fn fast() -> Vec<(&'static str, Value)> {
    vec![("returns", json!(returns(300, 0.004, 0.01, 5))), ("trial_returns", noise(3)), ("n_obs", json!(300))]
}

#[test]
fn leaving_an_input_out_never_makes_an_approval() {
    let whole = good();
    let mut dice = dice::Dice::new(40);
    for round in 0..20 {
        let mut changes = if round % 10 == 0 { Vec::new() } else { fast() };
        changes.extend(bad(&mut dice));
        let before = [realism_of(&changes).verdict, quant_of(&changes).verdict];
        for name in inputs_of(&whole) {
            // One in three: the rest come up in other rounds.
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
    // What is left out says how the missing figure follows from the others.
    let follows = ["years", "periods_per_year"];
    for name in inputs_of(&good()).iter().filter(|name| !follows.contains(&name.as_str())) {
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
    let without = [("trial_returns", Value::Null), ("trial_sharpes", json!([0.1, 0.4, 2.0, 0.6]))];
    assert_eq!(quant_researcher(&changed(&without), &policy, 0).verdict, Stance::NeedsMoreInfo);
    policy.optional_inputs = vec!["trial_returns".to_owned()];
    let found = quant_researcher(&changed(&without), &policy, 0);
    assert_eq!(found.verdict, Stance::Approve, "{}", shown(&found));
    for unusable in [json!([]), json!([[1, 2], [1]]), json!("a;b"), json!([["x"]]), json!({})] {
        let sent = [("trial_returns", unusable), ("trial_sharpes", json!([0.1, 0.4, 2.0, 0.6]))];
        let found = quant_researcher(&changed(&sent), &policy, 0);
        assert_eq!(found.verdict, Stance::NeedsMoreInfo, "{}", shown(&found));
    }
    policy.optional_inputs = EvidencePolicy::INPUTS.iter().map(|name| (*name).to_owned()).collect();
    let nothing = request(json!({}));
    assert_eq!(quant_researcher(&nothing, &policy, 0).verdict, Stance::NeedsMoreInfo, "nothing was computed");
}

/// One figure made worse, the others kept: neither the row nor the vote gets better.
#[test]
fn a_worse_figure_never_makes_a_better_vote() {
    let ladders: [(&str, &str, Vec<Value>); 9] = [
        ("RC-02", "sharpe", [2.0, 3.0, 3.6, 4.2, 5.0, 9.0, 99.0].map(|v| json!(v)).to_vec()),
        ("RC-07", "cost_per_trade", [0.01, 0.05, 0.1, 0.2, 1.0, 90.0].map(|v| json!(v)).to_vec()),
        ("QR-09", "oos_trades", [4000, 400, 100, 99, 30, 29, 1, 0].map(|v| json!(v)).to_vec()),
        ("QR-03", "n_trials", [4, 5, 50, 5_000, 500_000, 500_000_000].map(|v: i64| json!(v)).to_vec()),
        ("QR-05", "n_trials", [4, 5, 50, 5_000, 500_000, 500_000_000].map(|v: i64| json!(v)).to_vec()),
        ("QR-08", "is_sharpe", [1.95, 2.2, 3.0, 4.0, 6.0, 50.0].map(|v| json!(v)).to_vec()),
        ("RC-05", "payoff_ratio", [9.0, 2.0, 1.1, 0.9, 0.75, 0.5, 0.1].map(|v| json!(v)).to_vec()),
        ("RC-04", "max_dd", [-30.0, -12.0, -6.0, -3.0, -1.0, -0.1, 0.0].map(|v| json!(v)).to_vec()),
        (
            "QR-11",
            "test_start",
            ["2024-03-01", "2024-01-08", "2023-12-30", "2023-12-29", "2020-01-01"].map(|v| json!(v)).to_vec(),
        ),
    ];
    let rank = |outcome: &str| {
        ["blocker", "major", "minor", "null", "pass"].iter().position(|o| *o == outcome).unwrap()
    };
    for (id, name, ladder) in ladders {
        let mut last = usize::MAX;
        for value in ladder {
            let mut changes = fast();
            changes.push((name, value.clone()));
            let found = with(&EvidencePolicy::default(), &changes, id);
            let now = rank(outcome(&found, id));
            assert!(now <= last, "{id}: {name} of {value}: {}", row(&found, id).answer);
            last = now;
        }
        assert!(last < 2, "{id} never failed");
    }
}

#[test]
fn hostile_figures_end_in_rows() {
    let texts = [
        "1e999",
        "-1e999",
        "\"NaN\"",
        "\"inf\"",
        "\"\"",
        "null",
        "true",
        "[]",
        "{}",
        "[[[[1]]]]",
        "{\"a\":{\"b\":[]}}",
        "1e-999",
        "-0",
        "0",
        "1e308",
        "-1e308",
        "5e-324",
        "99999999999999999999999999999999",
        "\"1_000\"",
        "\"0x10\"",
        "\"１\"",
        "\"12%%\"",
        "1e2",
    ];
    let names = inputs_of(&good());
    for text in texts {
        for name in names.iter().chain([
            &"n_obs".to_owned(),
            &"trial_sharpes".to_owned(),
            &"calmar".to_owned(),
            &"luck".to_owned(),
        ]) {
            let mut whole = from_fast();
            let member = format!("\"{name}\":{text}");
            whole = match name.as_str() {
                "returns" | "trial_returns" => {
                    whole.replace("\"request_id\"", &format!("{member},\"request_id\""))
                }
                "validation_report" | "monte_carlo_stats" => continue,
                _ => whole.replace("\"luck_of_this_place\":1", &member),
            };
            let request: CouncilRequest = serde_json::from_str(&whole).unwrap();
            assert_in_order(&request);
        }
    }
    for artifact in [
        "",
        " ",
        "{",
        "[1]",
        "NaN",
        "{\"sharpe\":1e400}",
        "|||\n|-|-|\n|sharpe|NaN|",
        "| a | b |\n|--|--|\n| sharpe | 1e999 |",
    ] {
        for name in ["validation_report", "monte_carlo_stats"] {
            assert_in_order(&changed(&[(name, json!(artifact)), ("trial_returns", Value::Null)]));
        }
    }
    let series = [
        "[0,0,0]",
        "[0.1]",
        "[-1,-1,-1,-1,-1,-1,-1,-1,-1,-1,-1]",
        "[10,10,-1,10,10,10,10,10,10,10,10,10]",
        "\"a\"",
        "\"\\n\\n\"",
    ];
    for text in series {
        let value: Value = serde_json::from_str(text).unwrap();
        assert_in_order(&changed(&[("returns", value.clone()), ("trial_returns", json!([value, [0.1]]))]));
    }
    let constant =
        changed(&[("returns", json!(vec![0.001; 500])), ("trial_returns", json!(vec![vec![0.001; 4]; 100]))]);
    assert_in_order(&constant);
    assert_eq!(outcome(&quant(&constant), "QR-10"), "null");
}

/// The good request's figures without series, with a place for one more.
fn from_fast() -> String {
    let mut whole =
        serde_json::to_value(changed(&[("returns", Value::Null), ("trial_returns", Value::Null)])).unwrap();
    whole["context"]["key_metrics"] = json!({"luck_of_this_place": 1});
    whole.to_string()
}

/// All rows, in order, no approval, nothing unprintable.
fn assert_in_order(request: &CouncilRequest) {
    let (realism, quant) = (realism(request), quant(request));
    for (evidence, prefix, rows) in [(&realism, "RC", 10), (&quant, "QR", 11)] {
        let ids: Vec<String> = evidence.findings.iter().map(|row| row.check_id.clone()).collect();
        let expected: Vec<String> = (1..=rows).map(|k| format!("{prefix}-{k:02}")).collect();
        assert_eq!(ids, expected);
        for row in &evidence.findings {
            assert!(!row.answer.is_empty() && row.answer.chars().all(|c| !c.is_control()), "{row:?}");
            assert!(!row.answer.contains("NaN") && !row.answer.contains("inf "), "{row:?}");
            assert!(row.message.is_some() == (row.pass == Some(false)), "{row:?}");
        }
    }
    assert!(realism.verdict != Stance::Approve || quant.verdict != Stance::Approve, "{}", shown(&quant));
}

#[test]
fn ten_megabytes_of_csv_and_of_json_end_soon() {
    let csv = format!("date,return\n{}", "2025-01-01,0.0012\n".repeat(550_000));
    assert!(csv.len() > 9_000_000);
    let array = format!("[{}0]", "0.0012,".repeat(1_400_000));
    for sent in [json!(csv), serde_json::from_str(&array).unwrap()] {
        let request = changed(&[("returns", sent.clone()), ("trial_returns", sent)]);
        let found = quant(&request);
        assert_eq!(outcome(&found, "QR-10"), "null", "{}", shown(&found));
        assert_eq!(outcome(&found, "QR-07"), "null", "{}", shown(&found));
        assert!(found.findings.iter().all(|row| row.answer.len() < 1000));
    }
}

#[test]
fn the_same_request_gives_the_same_bytes_as_ever() {
    let cases = [
        ("seed", seed()),
        (
            "contract",
            request(json!({"total_return": 15.4, "sharpe": 5.0, "max_dd": -4.5, "oos_win_rate": 39.0})),
        ),
        ("good", changed(&[])),
        (
            "overfit",
            changed(&[
                ("n_trials", json!(12)),
                ("trial_returns", noise(12)),
                ("is_win_rate", json!(75.2)),
                ("is_trades", json!(165)),
                ("oos_win_rate", json!(39.0)),
                ("oos_trades", json!(41)),
                ("sharpe", json!(5.34)),
                ("cost_per_trade", Value::Null),
            ]),
        ),
    ];
    let mut text = String::new();
    for (name, request) in cases {
        for evidence in [realism(&request), quant(&request)] {
            text.push_str(&format!("{name} {}\n", serde_json::to_string_pretty(&evidence).unwrap()));
        }
    }
    if std::env::var_os("SPOOLGATE_WRITE_GOLDEN").is_some() {
        std::fs::write("tests/data/council/evidence.golden", &text).unwrap();
    }
    assert_eq!(
        text,
        include_str!("data/council/evidence.golden"),
        "a changed formula or text needs a new golden file"
    );
}

/// The largest request that is worked on in full.
#[test]
#[ignore = "a measurement: cargo test --release --test council_evidence -- --ignored --nocapture"]
fn the_largest_request() {
    let long = returns(20_000, 0.0005, 0.01, 9);
    let matrix: Vec<Vec<f64>> =
        (0..2_000).map(|t| (0..1_000).map(|k| long[(t * 7 + k * 13) % 20_000]).collect()).collect();
    let request = changed(&[("returns", json!(long)), ("trial_returns", json!(matrix))]);
    let mut policy = EvidencePolicy::default();
    for samples in [1_000, 2_000] {
        policy.bootstrap_samples = samples;
        let start = std::time::Instant::now();
        let realism = realism_checker(&request, &policy);
        let middle = start.elapsed();
        let quant = quant_researcher(&request, &policy, 0);
        println!("{samples} samples: realism {middle:?}, both {:?}", start.elapsed());
        assert_ne!(outcome(&quant, "QR-10"), "null", "{}", shown(&quant));
        assert_ne!(outcome(&quant, "QR-07"), "null", "{}", shown(&quant));
        assert_eq!(realism.findings.len(), 10);
    }
}
