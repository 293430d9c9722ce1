//! What `override` lifts, and the contract's own example.

use super::*;

/// Every case that is refused, sent with `override` by a sender who may: what the table of codes
/// calls lifted is gone, and nothing else.
#[test]
fn override_lifts_what_the_table_of_codes_says() {
    let right = "concerns: ['paper:btc-usd'], override: ";
    let may_override = json!([
        "rules/principals.yaml",
        format!("name: hermes, role: agent, control: {{{right}false"),
        format!("name: hermes, role: agent, control: {{{right}true"),
    ]);
    let mut lifted = std::collections::BTreeSet::new();
    for line in CASES.lines() {
        let case: BTreeMap<String, Box<RawValue>> = serde_json::from_str(line).unwrap();
        let value = |name: &str| -> Value {
            case.get(name)
                .map_or(Value::Null, |raw| serde_json::from_str(raw.get()).unwrap())
        };
        let expect = value("expect");
        let payload = payload(&case);
        let is_malformed = !expect["code"].is_null() || case.contains_key("source");
        if is_malformed || expect["again"] == true || payload.contains("\"override\"") {
            continue;
        }
        let refused: Vec<ControlFault> =
            serde_json::from_value(expect.get("errors").unwrap_or(&json!([])).clone()).unwrap();
        let mut edit = value("edit").as_array().cloned().unwrap_or_default();
        edit.push(may_override.clone());
        let mut bench = prepared(&case, &json!(edit));
        let payload = payload.replacen('{', r#"{"override":true,"#, 1);
        let decision = bench.send("hermes", &payload).unwrap();
        let left: Vec<ControlFault> = refused
            .iter()
            .copied()
            .filter(|fault| !fault.is_lifted_by_override())
            .collect();
        let mut told = response(&decision).unwrap();
        // On a concern that nobody knows nobody may override.
        told.errors
            .retain(|fault| *fault != ControlFault::OverrideNotPermitted);
        if !told.errors.contains(&ControlFault::DecisionIdConflict) {
            assert_eq!(told.errors, left, "{}", case["name"].get());
        }
        lifted.extend(refused.iter().map(|fault| fault.as_str()));
    }
    assert!(lifted.len() >= 15, "{lifted:?}");
}

/// The contract's own request is answered with the contract's own response, and what `result` has
/// beside it, while it is fresh.
#[test]
fn the_contract_s_switch_is_applied_under_an_april_clock() {
    let concern = |id: &str| format!("strategy_id: {id}\naccount: qndd8o9ppop6\nmarket: xrpusd\n");
    let (from, to) = (
        "9cf29124-65a7-4950-ac18-65f938e0239b",
        "0c555fee-e4c8-4543-ae70-c132517017e1",
    );
    let here = "account: paper\nmarket: btc-usd\n";
    let edit = json!([
        ["rules/strategies/trend.yaml", here, concern(from)],
        [
            "rules/strategies/uuid.yaml",
            format!("strategy_id: {to}\n{here}"),
            concern(to)
        ],
        [
            "rules/principals.yaml",
            "['paper:btc-usd'], override: false",
            "['qndd8o9ppop6:xrpusd'], override: false"
        ],
    ]);
    let request = format!(
        r#"{{"decision_id":"dec_2026_04_16_001","concern_id":"qndd8o9ppop6:xrpusd","account_id":"qndd8o9ppop6","market_symbol":"xrpusd","action":"switch","target_strategy_id":"{to}","expected_active_strategy_id":"{from}","risk_mode":"normal","reason":"trend strategy still fits the directional narrative","confidence":0.83,"dry_run":false,"override":false,"requested_at":"2026-04-16T20:15:00Z"}}"#
    );
    let sent_at = |time: &str| {
        let mut bench = Bench::new(rules(&edit));
        bench.now = Time::parse(time).unwrap();
        bench.prices();
        bench.send("hermes", &request).unwrap()
    };
    let applied = sent_at("2026-04-16T20:15:01Z");
    assert_eq!(
        applied.data.unwrap().get(),
        format!(
            r#"{{"ok":true,"status":"applied","decision_id":"dec_2026_04_16_001","concern_id":"qndd8o9ppop6:xrpusd","action":"switch","from_strategy_id":"{from}","to_strategy_id":"{to}","risk_mode":"normal","dry_run":false,"validation":{{"concern_match":true,"account_match":true,"market_match":true,"expected_active_match":true,"target_exists":true,"target_runnable":true}},"warnings":[],"errors":[],"result":{{"mode_change":"applied","reconciled":true,"cancelled_orders":[],"positions_kept":[]}},"applied_at":"2026-04-16T20:15:01.000Z"}}"#
        )
    );
    let in_november = response(&sent_at("2026-11-16T20:15:01Z")).unwrap();
    assert_eq!(in_november.errors, [ControlFault::RequestedAtStale]);
}
