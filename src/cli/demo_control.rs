//! The decisions of the demo's controller late in the day: it pauses the strategy while the
//! strategy holds a position and wants more.

use super::demo_script::{Act, Step, step};
use spoolgate_wire::action_name::ActionName;

const AGENT: &str = "trend-bot";
const HERMES: &str = "hermes";

/// The controller's part of the day.
pub(super) const CONTROL: &[Step] = &[
    step(
        "22:35:00",
        "a second entry, small and far below",
        Act::Request(
            AGENT,
            "buy-8",
            ActionName::OrderSubmit,
            r#"{"strategy":"trend","symbol":"BTC-USD","side":"buy","size":0.002,"order_type":"limit","price":6400,"stop_price":6300,"thesis_slug":"btc-dip-long","planned_entry":6400,"planned_stop":6300}"#,
        ),
    ),
    step(
        "22:40:00",
        "the controller pauses the strategy",
        Act::Request(
            HERMES,
            "pause",
            ActionName::ControlApply,
            r#"{"decision_id":"dec-1","concern_id":"paper:btc-usd","account_id":"paper","market_symbol":"btc-usd","action":"pause","expected_active_strategy_id":"trend","reason":"the narrative no longer fits a trend","confidence":0.7}"#,
        ),
    ),
    step(
        "22:41:00",
        "its next entry is refused",
        Act::Request(
            AGENT,
            "buy-paused",
            ActionName::OrderSubmit,
            r#"{"strategy":"trend","symbol":"BTC-USD","side":"buy","size":0.002,"order_type":"limit","price":6500,"stop_price":6400,"thesis_slug":"btc-dip-long","planned_entry":6500,"planned_stop":6400}"#,
        ),
    ),
    step(
        "22:42:00",
        "its exit is not",
        Act::Request(
            AGENT,
            "exit-paused",
            ActionName::OrderSubmit,
            r#"{"strategy":"trend","symbol":"BTC-USD","side":"sell","size":0.01,"order_type":"market","thesis_slug":"btc-range-long","planned_entry":6700,"planned_stop":6600}"#,
        ),
    ),
    step(
        "22:50:00",
        "the controller believes it still runs",
        Act::Request(
            HERMES,
            "switch",
            ActionName::ControlApply,
            r#"{"decision_id":"dec-2","concern_id":"paper:btc-usd","account_id":"paper","market_symbol":"btc-usd","action":"switch","target_strategy_id":"range","expected_active_strategy_id":"trend","reason":"sideways until tomorrow","confidence":0.6}"#,
        ),
    ),
    step(
        "22:55:00",
        "the controller lets it go on",
        Act::Request(
            HERMES,
            "resume",
            ActionName::ControlApply,
            r#"{"decision_id":"dec-3","concern_id":"paper:btc-usd","account_id":"paper","market_symbol":"btc-usd","action":"resume","expected_active_strategy_id":null,"risk_mode":"normal","reason":"the trend is back","confidence":0.8}"#,
        ),
    ),
];
