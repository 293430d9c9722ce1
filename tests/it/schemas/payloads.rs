//! Payloads of requests: schemas and readers accept and refuse the same.

use super::*;

#[test]
fn every_accepted_payload_is_valid() {
    let taken = taken();
    for rule in rows() {
        let judge = judge(rule.name.as_str());
        let payloads = taken
            .get(rule.name.as_str())
            .unwrap_or_else(|| panic!("no payload of `{}` is taken", rule.name));
        for payload in payloads {
            let faults: Vec<String> = judge
                .iter_errors(payload)
                .map(|error| error.to_string())
                .collect();
            assert!(faults.is_empty(), "{}: {payload}: {faults:?}", rule.name);
        }
    }
}

/// Returns payloads that no change in one place makes: each is valid except for a condition over
/// several members.
fn crossed() -> Vec<(&'static str, Value)> {
    let people = vec!["ann@example.com"; 150];
    let mail = json!({"to": people, "cc": people, "subject": "s", "body": "b"});
    let event = json!({"title": "t", "startTime": "2018-04-06T00:00:00Z",
        "endTime": "2018-04-05T00:00:00Z"});
    let bar = json!({"open_time": "2018-04-05T00:00:00Z", "interval_s": 60, "open": 1, "high": 1,
        "low": 1, "close": 1});
    let quote = json!({"time": "2018-04-05T00:00:00Z", "bid": 1, "ask": 2});
    vec![
        ("email.send", json!({"to": [], "subject": "s", "body": "b"})),
        ("email.send", mail.clone()),
        ("email.draft", mail),
        (
            "calendar.fetch",
            json!({"startDate": "2018-04-06T00:00:00Z", "endDate": "2018-04-05T00:00:00Z"}),
        ),
        ("calendar.create", event.clone()),
        ("calendar.update", event),
        ("market.update", json!({"symbol": "S"})),
        (
            "halt.set",
            json!({"strategy": "s", "symbol": "S", "reason": "r"}),
        ),
        (
            "market.update",
            json!({"symbol": "S", "bars": vec![bar; 200], "quotes": vec![quote; 200]}),
        ),
        // 60 characters of 120 bytes.
        (
            "venue.snapshot",
            json!({"run": "é".repeat(60), "taken_at": "2018-04-05T00:00:00Z", "after_exec": null,
                "balances": [], "positions": [], "orders": [], "foreign": []}),
        ),
    ]
}

#[test]
fn schemas_refuse_nothing_that_is_taken_and_name_what_they_let_pass() {
    let mut seen = BTreeSet::new();
    let mut faults = BTreeSet::new();
    let mut tried = 0;
    for (action, payloads) in taken() {
        let judge = judge(action);
        for payload in payloads.iter().rev().take(6) {
            for mutant in mutants(payload) {
                tried += 1;
                let text = mutant.to_string();
                match (judge.is_valid(&mutant), reader(action, &text)) {
                    (true, Ok(())) | (false, Err(_)) => {}
                    (false, Ok(())) => {
                        let why: Vec<String> = judge
                            .iter_errors(&mutant)
                            .map(|error| error.to_string())
                            .collect();
                        let text: String = text.chars().take(300).collect();
                        faults.insert(format!("{action}: taken, but not valid: {text}: {why:?}"));
                    }
                    (true, Err(why)) => match condition(action, &why) {
                        Some(condition) => drop(seen.insert((action, condition))),
                        None => {
                            let end: String = why
                                .chars()
                                .skip(why.chars().count().saturating_sub(300))
                                .collect();
                            faults.insert(format!("{action}: valid, but {end}"));
                        }
                    },
                }
            }
        }
    }
    for (action, payload) in crossed() {
        assert!(judge(action).is_valid(&payload), "{action}: {payload}");
        let why = reader(action, &payload.to_string()).unwrap_err();
        let condition =
            condition(action, &why).unwrap_or_else(|| panic!("{action}: valid, but {why}"));
        seen.insert((action, condition));
    }
    assert!(
        faults.is_empty(),
        "{} faults:\n{}",
        faults.len(),
        faults.into_iter().collect::<Vec<_>>().join("\n")
    );
    assert!(tried > 20_000, "only {tried} payloads were tried");
    // A condition for which nothing is ever refused would be an empty promise.
    let named = ActionName::ALL
        .into_iter()
        .map(ActionName::as_str)
        .flat_map(|action| {
            schemas::conditions(action)
                .iter()
                .map(move |condition| (action, condition.name))
        });
    // The reader does not know the sender's role.
    seen.insert(("heartbeat", "person"));
    let unsaid: Vec<(&str, &str)> = named.filter(|named| !seen.contains(named)).collect();
    assert!(unsaid.is_empty(), "never said: {unsaid:?}");
}
