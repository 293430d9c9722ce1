//! The demo's case before the council: a strategy whose figures are too good, and the five roles
//! that judge it. `{sha256:ID}` is replaced by the payload hash of request ID.

use super::demo_script::{Act, Step, step};
use spoolgate_wire::action_name::ActionName;

/// The case.
pub(super) const CASE: &str = "trend-v2-1-passes";

/// The steps of the case, at times of the same day.
pub(super) const COUNCIL: &[Step] = &[
    step(
        "22:00:00",
        "a strategy goes before the council",
        Act::Request(
            "research-bot",
            "case",
            ActionName::CouncilRequest,
            r##"{"request_id":"trend-v2-1-passes","timestamp":"2018-04-05T21:59:00Z","proposer":"QuantResearchAgent_v1","change_type":"DECLARE_PASS","context":{"summary":"Declaring that Strategy v2.1 has passed validation based on new OOS tests.","files_changed":["notes/strategy_evaluation_checklist.md"],"key_metrics":{"total_return":15.4,"sharpe":5.0,"max_dd":-4.5,"oos_win_rate":39.0}},"artifacts":{"spec_content":"# Strategy v2.1\nBuys dips within the range of the day.","validation_report":"| metric | value |\n|---|---|\n| total return | 15.4 % |\n| Sharpe | 5.0 |\n| max drawdown | -4.5 % |\n| OOS win rate | 39.0 % |","monte_carlo_stats":"{\"sharpe\":{\"p5\":3.9,\"p50\":5.0,\"p95\":6.1}}"}}"##,
        ),
    ),
    step(
        "22:10:00",
        "the Risk Officer approves",
        Act::Request(
            "risk-officer",
            "verdict-risk",
            ActionName::CouncilVerdict,
            r##"{"request_id":"trend-v2-1-passes","request_sha256":"{sha256:case}","verdict":{"role":"Risk Officer","verdict":"APPROVE","confidence_score":0.9,"checklist_results":[{"question":"Does it hold over weekend?","answer":"No","pass":true},{"question":"Max DD < limit?","answer":"Yes, 4.5% vs 10%","pass":true}],"concerns":["Leverage seems high for this volatility regime."],"required_actions":["Run stress test with 2x volatility."]}}"##,
        ),
    ),
    step(
        "22:11:00",
        "the proposer speaks for a role",
        Act::Request(
            "research-bot",
            "verdict-own",
            ActionName::CouncilVerdict,
            r##"{"request_id":"trend-v2-1-passes","request_sha256":"{sha256:case}","verdict":{"role":"Code Auditor","verdict":"APPROVE","confidence_score":1.0,"checklist_results":[{"question":"Is it good?","answer":"Yes","pass":true}],"concerns":[],"required_actions":[]}}"##,
        ),
    ),
    step(
        "22:12:00",
        "the Code Auditor approves",
        Act::Request(
            "code-auditor",
            "verdict-code",
            ActionName::CouncilVerdict,
            r##"{"request_id":"trend-v2-1-passes","request_sha256":"{sha256:case}","verdict":{"role":"Code Auditor","verdict":"APPROVE","confidence_score":0.85,"checklist_results":[{"question":"Does the change do what it says?","answer":"Yes","pass":true}],"concerns":["The loader has no test of its own."],"required_actions":[]}}"##,
        ),
    ),
    step(
        "22:15:00",
        "the Quant Researcher rejects",
        Act::Request(
            "quant-researcher",
            "verdict-quant",
            ActionName::CouncilVerdict,
            r##"{"request_id":"trend-v2-1-passes","request_sha256":"{sha256:case}","verdict":{"role":"Quant Researcher","verdict":"REJECT","confidence_score":0.95,"checklist_results":[{"question":"Is there an explicit Train/Test separation?","answer":"No","pass":false}],"concerns":["In-Sample data leakage"],"required_actions":["Refactor validation script to enforce strict Train/Test split.","Re-run backtest."]}}"##,
        ),
    ),
    step(
        "22:20:00",
        "the Integration Engineer approves",
        Act::Request(
            "integration-engineer",
            "verdict-integration",
            ActionName::CouncilVerdict,
            r##"{"request_id":"trend-v2-1-passes","request_sha256":"{sha256:case}","verdict":{"role":"Integration Engineer","verdict":"APPROVE","confidence_score":0.8,"checklist_results":[{"question":"Can it be undone?","answer":"Yes, one flag","pass":true}],"concerns":["The nightly report reads the old file.","Two dashboards have to move.","Nobody owns the rollback."],"required_actions":["Name an owner of the rollback."]}}"##,
        ),
    ),
    step(
        "22:25:00",
        "the Realism Checker approves; the gate computes otherwise",
        Act::Request(
            "realism-checker",
            "verdict-realism",
            ActionName::CouncilVerdict,
            r##"{"request_id":"trend-v2-1-passes","request_sha256":"{sha256:case}","verdict":{"role":"Realism Checker","verdict":"APPROVE","confidence_score":0.99,"checklist_results":[{"question":"Is it plausible?","answer":"It looks great","pass":true}],"concerns":[],"required_actions":[]}}"##,
        ),
    ),
    step(
        "22:30:00",
        "a verdict after the decision",
        Act::Request(
            "risk-officer",
            "verdict-late",
            ActionName::CouncilVerdict,
            r##"{"request_id":"trend-v2-1-passes","request_sha256":"{sha256:case}","verdict":{"role":"Risk Officer","verdict":"REJECT","confidence_score":0.9,"checklist_results":[],"concerns":[],"required_actions":[]}}"##,
        ),
    ),
];
