//! Answers: those of the demo fit their schemas.

use super::*;

#[test]
fn every_answer_of_the_demo_is_valid() {
    let scratch = crate::kit::folder();
    let home = scratch.path().join("home");
    let done = program(&["--format", "json", "demo", home.to_str().unwrap()]);
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    let told: Value = serde_json::from_slice(&done.stdout).unwrap();
    let mut answers = told["decisions"].as_array().unwrap().clone();
    for path in below(&home.join("spool")) {
        if path.components().any(|part| part.as_os_str() == "out")
            && let Ok(answer) = serde_json::from_slice::<Value>(&fs::read(&path).unwrap())
            && answer.get("auditRef").is_some()
        {
            answers.push(answer);
        }
    }
    let mut asked: BTreeMap<String, String> = BTreeMap::new();
    for path in below(&home.join("audit"))
        .iter()
        .filter(|path| path.extension().is_some_and(|it| it == "jsonl"))
    {
        for line in fs::read_to_string(path).unwrap().lines() {
            let Ok(line) = serde_json::from_str::<Value>(line) else {
                continue;
            };
            if let (Some(id), Some(action)) = (line["id"].as_str(), line["action"].as_str()) {
                asked.insert(id.to_owned(), action.to_owned());
            }
        }
    }
    let whole = judge("answer");
    let mut seen = BTreeSet::new();
    for answer in &answers {
        let faults: Vec<String> = whole
            .iter_errors(answer)
            .map(|error| error.to_string())
            .collect();
        assert!(faults.is_empty(), "{answer}: {faults:?}");
        let (Some(action), Some(data)) = (
            asked.get(answer["auditRef"].as_str().unwrap()),
            answer.get("data"),
        ) else {
            continue;
        };
        // An action that does not exist has no schema.
        if actions::named(action).is_none() {
            continue;
        }
        let judge = judge(&format!("{action}.answer"));
        let faults: Vec<String> = judge
            .iter_errors(data)
            .map(|error| error.to_string())
            .collect();
        assert!(faults.is_empty(), "{action}: {data}: {faults:?}");
        seen.insert(action.clone());
        // A schema that accepts everything would prove nothing.
        let mut other = data.clone();
        if let Some(members) = other.as_object_mut() {
            members.insert("zz_unknown".to_owned(), json!(1));
        }
        assert!(!judge.is_valid(&other), "{action}: {other}");
    }
    assert!(
        answers.len() > 55 && seen.len() >= 10,
        "{} answers to {seen:?}",
        answers.len()
    );
}
