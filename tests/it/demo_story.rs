//! The demo's story: the answer to each request. A new check that refuses more must not change it
//! unnoticed.

use std::process::Command;

use serde_json::Value;

const STORY: &str = include_str!("../data/demo_story.txt");

#[test]
fn every_request_of_the_demo_has_the_answer_of_the_story() {
    let folder = crate::kit::folder();
    let done = Command::new(env!("CARGO_BIN_EXE_spoolgate"))
        .args(["--format", "json", "demo"])
        .arg(folder.path().join("home"))
        .output()
        .unwrap();
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    let told: Value = serde_json::from_slice(&done.stdout).unwrap();
    let text = |value: &Value| {
        value
            .as_str()
            .filter(|text| !text.is_empty())
            .unwrap_or("-")
            .to_owned()
    };
    let found: Vec<String> = told["decisions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|answer| {
            let check = &answer["data"]["Rejected"]["checks_failed"][0]["check_name"];
            let code = text(if check.is_null() {
                &answer["error"]["code"]
            } else {
                check
            });
            format!(
                "{} {} {code}",
                text(&answer["requestId"]),
                text(&answer["status"])
            )
        })
        .collect();
    assert_eq!(found, STORY.lines().collect::<Vec<_>>());
}
