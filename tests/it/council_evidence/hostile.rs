//! Figures, artifacts and series made to break readers.

use super::*;

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
            assert_in_order(&changed(&[
                (name, json!(artifact)),
                ("trial_returns", Value::Null),
            ]));
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
        assert_in_order(&changed(&[
            ("returns", value.clone()),
            ("trial_returns", json!([value, [0.1]])),
        ]));
    }
    let constant = changed(&[
        ("returns", json!(vec![0.001; 500])),
        ("trial_returns", json!(vec![vec![0.001; 4]; 100])),
    ]);
    assert_in_order(&constant);
    assert_eq!(outcome(&quant(&constant), "QR-10"), "null");
}

/// Returns the good request's figures without series, with a place for one more.
fn from_fast() -> String {
    let mut whole = serde_json::to_value(changed(&[
        ("returns", Value::Null),
        ("trial_returns", Value::Null),
    ]))
    .unwrap();
    whole["context"]["key_metrics"] = json!({"luck_of_this_place": 1});
    whole.to_string()
}

/// Checks that all rows are there, in order, that nothing is approved, and that everything is
/// printable.
fn assert_in_order(request: &CouncilRequest) {
    let (realism, quant) = (realism(request), quant(request));
    for (evidence, prefix, rows) in [(&realism, "RC", 10), (&quant, "QR", 11)] {
        let ids: Vec<String> = evidence
            .findings
            .iter()
            .map(|row| row.check_id.clone())
            .collect();
        let expected: Vec<String> = (1..=rows).map(|k| format!("{prefix}-{k:02}")).collect();
        assert_eq!(ids, expected);
        for row in &evidence.findings {
            assert!(
                !row.answer.is_empty() && row.answer.chars().all(|c| !c.is_control()),
                "{row:?}"
            );
            assert!(
                !row.answer.contains("NaN") && !row.answer.contains("inf "),
                "{row:?}"
            );
            assert!(
                row.message.is_some() == (row.pass == Some(false)),
                "{row:?}"
            );
        }
    }
    assert!(
        realism.verdict != Stance::Approve || quant.verdict != Stance::Approve,
        "{}",
        shown(&quant)
    );
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
