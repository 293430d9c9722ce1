//! The computed votes of the Realism Checker and the Quant Researcher: rows, limits, missing and
//! hostile input.

use serde_json::{Value, json};
use spoolgate_council::evidence::{quant_researcher, realism_checker};
use spoolgate_council::finding::{Evidence, Finding};
use spoolgate_rules::evidence::EvidencePolicy;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::council::{CouncilRequest, Severity, Stance};

mod hostile;
mod limits;
mod properties;

fn request(metrics: Value) -> CouncilRequest {
    from(json!({"context": {"summary": "s", "key_metrics": metrics}}))
}

/// Returns a request with these members beside the usual ones.
fn from(members: Value) -> CouncilRequest {
    let mut whole = json!({
        "request_id": "req_1", "timestamp": "2025-12-09T12:00:00Z", "proposer": "p",
            "change_type": "DECLARE_PASS",
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
    evidence
        .findings
        .iter()
        .find(|finding| finding.check_id == id)
        .unwrap()
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
fn the_seeds_request_learns_what_its_figures_would_need() {
    let (realism, quant) = (realism(&seed()), quant(&seed()));
    let told = [
        (&realism, "RC-02", "probability 0.287770"),
        (
            &realism,
            "RC-04",
            "consistent with a horizon above about 0.6 years",
        ),
        (
            &realism,
            "RC-04",
            "Over one year so small a drawdown has probability 0.018.",
        ),
        (
            &realism,
            "RC-04",
            "Over two years so small a drawdown has probability 0.24",
        ),
        (
            &realism,
            "RC-05",
            "It takes 385 trades to clear break-even at this rate.",
        ),
        (
            &realism,
            "RC-08",
            "`monte_carlo_stats` is not a JSON object of numbers",
        ),
        (&quant, "QR-01", "reaches t = 3 after 6.25 years"),
        (&quant, "QR-04", "which is 1.94 years"),
        (
            &quant,
            "QR-05",
            "Over 1.00 years the best of 6 worthless tries is expected to show 1.20.",
        ),
    ];
    for (evidence, id, text) in told {
        let answer = &row(evidence, id).answer;
        assert!(answer.contains(text), "{id}: {answer}");
    }
    assert!(
        realism
            .findings
            .iter()
            .all(|row| row.severity != Severity::Major || row.pass != Some(false))
    );
    assert!(quant.findings.iter().all(|row| row.pass.is_none()));
}

#[test]
fn the_decision_of_the_contracts_example() {
    let request =
        request(json!({"total_return": 15.4, "sharpe": 5.0, "max_dd": -4.5, "oos_win_rate": 39.0}));
    let evidence = realism(&request);
    assert_eq!(evidence.verdict, Stance::Reject);
    assert_eq!(evidence.role, "Realism Checker");
    let failed: Vec<(&str, Severity, bool, &str)> = evidence
        .findings
        .iter()
        .filter(|row| row.pass == Some(false))
        .map(|row| {
            (
                row.check_id.as_str(),
                row.severity,
                row.headline,
                row.message.as_deref().unwrap(),
            )
        })
        .collect();
    let expected = [
        (
            "RC-02",
            Severity::Major,
            true,
            "The reported Sharpe of 5.0 is statistically implausible.",
        ),
        (
            "RC-05",
            Severity::Blocker,
            false,
            "OOS win rate is only 39%.",
        ),
        (
            "RC-07",
            Severity::Minor,
            false,
            "Costs are not stated per trade.",
        ),
    ];
    assert_eq!(failed, expected);
    assert_eq!(evidence.required_actions, ["Re-run backtest."]);
    // The metrics that the request really states do not give this result.
    assert_eq!(realism_of(&[]).verdict, Stance::Approve);
    assert_ne!(self::realism(&seed()).verdict, Stance::Reject);
}

/// Returns whose Sharpe ratio, total return and drawdown are known by construction, with hardly any
/// autocorrelation.
fn returns(n: usize, mean: f64, sd: f64, seed: u64) -> Vec<f64> {
    let mut dice = crate::kit::Dice::new(seed);
    let mut uniform =
        || f64::from(u32::try_from(dice.below(1 << 24)).unwrap()) / f64::from(1 << 24);
    let raw: Vec<f64> = (0..n)
        .map(|_| (0..12).map(|_| uniform()).sum::<f64>() - 6.0)
        .collect();
    let count = f64::from(u32::try_from(n).unwrap());
    let m = raw.iter().sum::<f64>() / count;
    let s = (raw.iter().map(|x| (x - m) * (x - m)).sum::<f64>() / (count - 1.0)).sqrt();
    raw.iter()
        .map(|x| (((x - m) / s * sd + mean) * 1e8).round() / 1e8)
        .collect()
}

/// Returns a request that both roles approve: six years of daily returns, an honest Sharpe ratio of
/// 2, four trials.
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
    let others: Vec<Vec<f64>> = (0..3_u32)
        .map(|k| returns(1512, 0.0002 * f64::from(k), 0.01, 10 + u64::from(k)))
        .collect();
    let matrix: Vec<Vec<f64>> = (0..1512)
        .map(|t| {
            std::iter::once(best[t])
                .chain(others.iter().map(|other| other[t]))
                .collect()
        })
        .collect();
    let report = format!(
        "| Metric | Value |\n|---|---|\n| Total return | {total}% |\n| Sharpe | 2.00 |\n| Max DD | \
            {deepest}% |\n| OOS win rate | 58.0% |\n"
    );
    let mut whole = json!({
        "context": {"summary": "s", "key_metrics": {
            "sharpe": 2.00, "oos_win_rate": 58.0, "years": 6, "periods_per_year": 252,
                "n_obs": 1512,
            "payoff_ratio": 1.1, "oos_trades": 400, "is_win_rate": 60.0, "is_trades": 800,
                "n_trials": 4,
            "cost_per_trade": 0.05, "edge_per_trade": 0.2, "is_sharpe": 2.2, "oos_sharpe": 1.9,
                "is_years": 4,
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

/// Returns the good request with other members; a null member is left out. Names with a slash
/// denote members.
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
    format!(
        "{:?}\n{}",
        evidence.verdict,
        rows.collect::<Vec<_>>().join("\n")
    )
}

#[test]
fn a_request_with_all_of_it_in_order_is_approved() {
    for evidence in [realism_of(&[]), quant_of(&[])] {
        assert_eq!(evidence.verdict, Stance::Approve, "{}", shown(&evidence));
        assert!(
            evidence.findings.iter().all(|row| row.pass == Some(true)),
            "{}",
            shown(&evidence)
        );
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

/// Returns `pass`, `null`, or how badly the check failed.
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

/// A threshold is put one unit below the computed value, on it, and one above: what comes out of
/// the row.
fn around(id: &str, changes: &[(&str, Value)], set: Set, expected: [&str; 3]) {
    let computed = with(&EvidencePolicy::default(), changes, id);
    let value = amount(
        row(&computed, id)
            .value
            .as_deref()
            .unwrap_or_else(|| panic!("{id}: {}", shown(&computed))),
    );
    let unit = amount(&format!(
        "{:.1$}",
        0.1_f64.powi(i32::try_from(value.scale()).unwrap()),
        usize::try_from(value.scale()).unwrap()
    ));
    let limits = [
        value.checked_sub(unit).unwrap(),
        value,
        value.checked_add(unit).unwrap(),
    ];
    let found = limits.map(|limit| {
        let mut policy = EvidencePolicy::default();
        set(&mut policy, limit);
        outcome(&with(&policy, changes, id), id)
    });
    assert_eq!(
        found,
        expected,
        "{id} around {value}: {}",
        row(&computed, id).answer
    );
}

/// Returns with a first autocorrelation of about .4, and nothing else of the good request's series.
fn smoothed() -> [(&'static str, Value); 1] {
    let raw = returns(600, 0.001, 0.01, 8);
    let smooth: Vec<f64> = raw
        .windows(2)
        .map(|pair| (0.6 * pair[1] + 0.4 * pair[0]) * 1.0)
        .collect();
    [("returns", json!(smooth))]
}

/// A matrix of configurations that are hardly worth anything.
fn noise(columns: u64) -> Value {
    let all: Vec<Vec<f64>> = (0..columns)
        .map(|k| {
            returns(
                240,
                0.0002 * f64::from(u32::try_from(k % 3).unwrap()),
                0.01,
                100 + k,
            )
        })
        .collect();
    json!(
        (0..240)
            .map(|t| all.iter().map(|one| one[t]).collect())
            .collect::<Vec<Vec<f64>>>()
    )
}

/// Every metric, artifact and series of the good request.
fn inputs_of(whole: &Value) -> Vec<String> {
    let names = |value: &Value| {
        value
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    let mut all = names(&whole["context"]["key_metrics"]);
    all.extend(names(&whole["artifacts"]));
    all.extend(["returns".to_owned(), "trial_returns".to_owned()]);
    // The figures that stand for another one as well: n_obs is the length of the returns.
    all.retain(|name| name != "n_obs");
    all
}

/// The inputs of fast checks only: a short series, a small matrix.
fn fast() -> Vec<(&'static str, Value)> {
    vec![
        ("returns", json!(returns(300, 0.004, 0.01, 5))),
        ("trial_returns", noise(3)),
        ("n_obs", json!(300)),
    ]
}

#[test]
fn the_same_request_still_gives_the_same_bytes() {
    let cases = [
        ("seed", seed()),
        (
            "contract",
            request(
                json!({"total_return": 15.4, "sharpe": 5.0, "max_dd": -4.5, "oos_win_rate": 39.0}),
            ),
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
            text.push_str(&format!(
                "{name} {}\n",
                serde_json::to_string_pretty(&evidence).unwrap()
            ));
        }
    }
    if std::env::var_os("SPOOLGATE_WRITE_GOLDEN").is_some() {
        std::fs::write("tests/data/council/evidence.golden", &text).unwrap();
    }
    assert_eq!(
        text,
        include_str!("../data/council/evidence.golden"),
        "a changed formula or text needs a new golden file"
    );
}

/// The largest request that is worked on in full.
#[test]
#[ignore = "a measurement: cargo test --release --test it council_evidence:: -- --ignored \
    --nocapture"]
fn the_largest_request() {
    let long = returns(20_000, 0.0005, 0.01, 9);
    let matrix: Vec<Vec<f64>> = (0..2_000)
        .map(|t| {
            (0..1_000)
                .map(|k| long[(t * 7 + k * 13) % 20_000])
                .collect()
        })
        .collect();
    let request = changed(&[("returns", json!(long)), ("trial_returns", json!(matrix))]);
    let mut policy = EvidencePolicy::default();
    for samples in [1_000, 2_000] {
        policy.bootstrap_samples = samples.try_into().unwrap();
        let start = std::time::Instant::now();
        let realism = realism_checker(&request, &policy);
        let middle = start.elapsed();
        let quant = quant_researcher(&request, &policy, 0);
        println!(
            "{samples} samples: realism {middle:?}, both {:?}",
            start.elapsed()
        );
        assert_ne!(outcome(&quant, "QR-10"), "null", "{}", shown(&quant));
        assert_ne!(outcome(&quant, "QR-07"), "null", "{}", shown(&quant));
        assert_eq!(realism.findings.len(), 10);
    }
}
