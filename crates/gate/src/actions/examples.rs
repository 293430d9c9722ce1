//! One valid payload per action: faults of a payload show its values as examples.

use std::collections::BTreeMap;

use serde::de::IgnoredAny;
use spoolgate_wire::action_name::ActionName;

/// Valid payloads of the other variants of `rule.propose`.
const OTHER_PROPOSALS: [&str; 2] = [
    r#"{"Activate":{"rule":{"id":"no-large","status":"active","applies_to":{"action":"order.submit"},"when":[{"field":"order.size","op":"gt","value":"0.02"}],"then":"reject","message":"more than 0.02"},"evidence":{"summary":"fewer losses","sample_size":30,"ledger_seqs":[12,14],"council_request_id":"case-1"}}}"#,
    r#"{"Suspend":{"rule_id":"max-cap","reason":"it refuses too much","evidence":{"summary":"more losses","sample_size":30,"ledger_seqs":[12,14],"council_request_id":"case-1"}}}"#,
];

/// Returns the valid payload that is most like this one: of the same variant, if it has one.
pub fn example_like(name: ActionName, payload: &str) -> &'static str {
    if name != ActionName::RulePropose {
        return example(name);
    }
    let members: BTreeMap<String, IgnoredAny> = serde_json::from_str(payload).unwrap_or_default();
    let is_named = |other: &&&str| {
        let mut names = members.keys();
        names.any(|name| other.starts_with(&format!("{{\"{name}\":")))
    };
    OTHER_PROPOSALS
        .iter()
        .find(is_named)
        .copied()
        .unwrap_or_else(|| example(name))
}

/// Returns a payload that the action's reader accepts, with every member that it can have at the
/// same time.
#[expect(clippy::too_many_lines, reason = "a table")]
pub fn example(name: ActionName) -> &'static str {
    match name {
        ActionName::OrderSubmit => {
            r#"{"strategy":"trend","symbol":"BTC-USD","side":"buy","size":"0.01","order_type":"limit","price":"6800","thesis_slug":"breakout","planned_entry":"6800","planned_stop":"6700","target_price":"7000","time_in_force":"day"}"#
        }
        ActionName::OrderCancel => r#"{"order_id":"o-12","reason":"the idea is gone"}"#,
        ActionName::OrderTightenStop => r#"{"order_id":"o-12","new_stop":"6750"}"#,
        ActionName::PortfolioGet
        | ActionName::OrdersList
        | ActionName::AdmissionHealth
        | ActionName::AdmissionCacheClear
        | ActionName::StrategiesList
        | ActionName::InstrumentsList
        | ActionName::ThesesList
        | ActionName::CasesList
        | ActionName::ProposalsList
        | ActionName::RulesList => "{}",
        ActionName::AdmissionSettle => {
            r#"{"receipt_id":"r-12","spent":{"usd":"0.10","tokens":1200}}"#
        }
        ActionName::FillsList => r#"{"since":"2026-03-02T12:00:00Z"}"#,
        ActionName::MarketGet => r#"{"symbol":"BTC-USD"}"#,
        ActionName::RequestCheck => r#"{"action":"order.cancel","payload":{"order_id":"o-12"}}"#,
        ActionName::CouncilRequest => {
            r#"{"request_id":"case-1","timestamp":"2026-03-02T12:00:00Z","proposer":"Quant Team","change_type":"UPDATE_CONFIG","context":{"summary":"a lower limit","files_changed":["rules/safety.yaml"],"key_metrics":{"sharpe":1.5}},"artifacts":{"diff_content":"-max: 5\n+max: 4","monte_carlo_stats":"{}","spec_content":"why","validation_report":"| figure | 1 |"},"returns":[0.01],"trial_returns":"0.01,0.02"}"#
        }
        ActionName::CouncilVerdict => {
            r#"{"request_id":"case-1","request_sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","verdict":{"role":"Risk Officer","verdict":"APPROVE","confidence_score":0.8,"checklist_results":[{"check_id":"RC-01","question":"Is the loss bounded?","answer":"yes, by the stop","pass":true}],"concerns":["the sample is small"],"required_actions":["none"]}}"#
        }
        ActionName::AdmissionEvaluate | ActionName::AdmissionAdmit => {
            r#"{"envelope":{"tenant_id":"research","surface_id":"workers","policy_profile_id":"default","payload_kind":"task","payload":{"target":"worker-1","artifact_size_bytes":1024},"causality":{"root_task_id":"task-1","parent_task_id":"task-1","caused_by_receipt_id":"r-12","spawn_depth":1,"capability_id":"search","recursion_budget_remaining":3}},"forward":true}"#
        }
        ActionName::AdmissionCheck => {
            r#"{"envelope":{"tenant_id":"research","surface_id":"workers","policy_profile_id":"default","payload_kind":"task","payload":{"target":"worker-1","artifact_size_bytes":1024},"causality":{"root_task_id":"task-1","parent_task_id":"task-1","caused_by_receipt_id":"r-12","spawn_depth":1,"capability_id":"search","recursion_budget_remaining":3}},"forward":false}"#
        }
        ActionName::AdmissionCacheInvalidate => r#"{"policy_profile_id":"default"}"#,
        ActionName::ControlApply => {
            r#"{"decision_id":"d-1","concern_id":"main:BTC-USD","account_id":"main","market_symbol":"BTC-USD","action":"switch","target_strategy_id":"trend","expected_active_strategy_id":"carry","risk_mode":"reduced","reason":"the trend is back","confidence":0.8,"dry_run":true,"override":false,"requested_at":"2026-03-02T12:00:00Z"}"#
        }
        ActionName::StrategiesGet => r#"{"strategy_id":"trend"}"#,
        ActionName::RulePropose => {
            r#"{"ModifyParameter":{"rule_id":"max-cap","parameter":"order.notional","old_value":"500","new_value":"400","evidence":{"summary":"fewer losses","sample_size":30,"ledger_seqs":[12,14],"council_request_id":"case-1"},"is_tightening":true}}"#
        }
        ActionName::ProposalApprove => {
            r#"{"id":"p-12","sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}"#
        }
        ActionName::ProposalDecline => r#"{"id":"p-12","reason":"the sample is too small"}"#,
        ActionName::ProposalRevert => r#"{"id":"p-12","reason":"it refuses too much"}"#,
        ActionName::EmailFetch => r#"{"folder":"inbox","limit":10,"since":"2026-03-02T12:00:00Z"}"#,
        ActionName::EmailSend | ActionName::EmailDraft => {
            r#"{"to":["ann@example.com"],"cc":["bob@example.com"],"subject":"Report","body":"All is well.","replyToMessageId":"m-1"}"#
        }
        ActionName::CalendarFetch => {
            r#"{"calendarId":"team","startDate":"2026-03-02T00:00:00Z","endDate":"2026-03-03T00:00:00Z"}"#
        }
        ActionName::CalendarCreate | ActionName::CalendarUpdate => {
            r#"{"calendarId":"team","title":"Review","startTime":"2026-03-02T12:00:00Z","endTime":"2026-03-02T13:00:00Z","description":"The week","attendees":["ann@example.com"]}"#
        }
        ActionName::FinanceFetchTransactions => r#"{"accountId":"main","limit":10}"#,
        ActionName::HealthFetch => r#"{"dataType":"sleep","startDate":"2026-03-02T12:00:00Z"}"#,
        ActionName::ServiceApiCall => {
            r#"{"service":"bank","endpoint":"/v1/balance","method":"POST","headers":{"accept":"application/json"},"body":{"n":1}}"#
        }
        ActionName::MarketImport => {
            r#"{"file_name":"rows.csv","file_sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","row_count":1,"rows_sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","symbol":"BTC-USD"}"#
        }
        ActionName::MarketUpdate => {
            r#"{"symbol":"BTC-USD","bars":[{"open_time":"2026-03-02T12:00:00Z","interval_s":60,"open":"6800","high":"6810","low":"6790","close":"6805","volume":"1.5"}],"quotes":[{"time":"2026-03-02T12:01:00Z","bid":"6804","ask":"6806","bid_size":"1","ask_size":"2"}],"regime":"calm"}"#
        }
        ActionName::FundingUpdate => {
            r#"{"symbol":"BTC-PERP","time":"2026-03-02T12:00:00Z","rate":"0.0001"}"#
        }
        ActionName::VenueReport => {
            r#"{"order_id":"o-12","exec_type":"trade","exec_id":"e-1","transact_time":"2026-03-02T12:00:00Z","cum_qty":"0.01","last_qty":"0.01","last_px":"6800","fee":"0.1","fee_currency":"BNB","fee_value":"0.1","liquidity":"maker"}"#
        }
        ActionName::HaltSet => {
            r#"{"strategy":"trend","keep_orders":true,"reason":"the feed is down"}"#
        }
        ActionName::HaltClear => r#"{"scope":{"strategy":"trend"},"reason":"the feed is back"}"#,
        ActionName::Heartbeat => r#"{"principal":"trend-bot"}"#,
        ActionName::AccountAdjust => r#"{"amount":"100","reason":"a deposit"}"#,
        ActionName::ClockAccept => r#"{"reason":"the clock was set"}"#,
        ActionName::KeysAdd => {
            r#"{"principal":"trend-bot","key_id":"0123456789abcdef","algorithm":"ed25519"}"#
        }
        ActionName::KeysRotate => {
            r#"{"principal":"trend-bot","key_id":"0123456789abcdef","algorithm":"ed25519","others_end":"2026-03-02T12:00:00Z"}"#
        }
        ActionName::KeysRevoke => r#"{"key_id":"0123456789abcdef","reason":"it leaked"}"#,
        ActionName::ServicesAdd => {
            r#"{"service":"mail","host":"smtp.example.com","port":465,"protocol":"smtp","methods":["GET"],"actions":["email.send"]}"#
        }
        ActionName::ServicesRemove
        | ActionName::ServicesDeactivate
        | ActionName::ServicesActivate => r#"{"service":"mail"}"#,
        ActionName::ServicesCredential => {
            r#"{"service":"mail","credential_id":"0123456789abcdef0123456789abcdef"}"#
        }
        ActionName::ApprovalGrant => {
            r#"{"id":"h-12","request_sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","reason":"it is wanted","remember":true}"#
        }
        ActionName::ApprovalDeny => {
            r#"{"id":"h-12","request_sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","reason":"it is not wanted"}"#
        }
        ActionName::GrantAdd => {
            r#"{"set":"recipients","value":"ann@example.com","task":"research/task-1","expires_at":"2026-03-02T12:00:00Z"}"#
        }
        ActionName::GrantEnd => {
            r#"{"set":"recipients","value":"ann@example.com","task":"research/task-1"}"#
        }
        ActionName::PositionClose => {
            r#"{"strategy":"trend","symbol":"BTC-USD","size":"0.01","reason":"out"}"#
        }
        ActionName::VenueAssume => {
            r#"{"order_id":"o-12","state":"gone","filled":"0.01","px":"6800","fee":"0.1","reason":"the venue says so"}"#
        }
        ActionName::VenueSnapshot => {
            r#"{"run":"run-1","taken_at":"2026-03-02T12:00:00Z","after_exec":"e-1","balances":[{"currency":"BTC","total":"1","available":"1"}],"positions":[{"symbol":"BTC-USD","size":"1"}],"orders":[{"order_id":"o-12","version":1,"cum_qty":"0","size":"1","price":"6800","trigger":"6700"}],"foreign":[{"venue_id":"x-1","symbol":"BTC-USD","side":"buy","size":"1"}]}"#
        }
        ActionName::PositionAdjust => {
            r#"{"strategy":"trend","symbol":"BTC-USD","size":"0.01","price":"6800","reason":"a transfer"}"#
        }
        ActionName::LimitsOverride => {
            r#"{"limit":"max_daily_loss","value":"100","until":"2026-03-02T12:00:00Z","reason":"an unusual day"}"#
        }
        ActionName::LimitsEnd => r#"{"limit":"max_daily_loss","reason":"the day is over"}"#,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actions;
    use spoolgate_wire::admission::AdmissionAttempt;
    use spoolgate_wire::control::ControlAttempt;

    #[test]
    fn every_example_is_accepted() {
        for name in ActionName::ALL {
            let action = actions::named(name.as_str()).unwrap();
            let body = action.read(example(name));
            let body = body.unwrap_or_else(|why| panic!("{name}: {why}"));
            if let Some(attempt) = body.payload::<ControlAttempt>() {
                attempt.decision.as_ref().unwrap();
            }
            if let Some(attempt) = body.payload::<AdmissionAttempt>() {
                attempt.body.as_ref().unwrap();
            }
        }
    }
}
