//! The demo's script: what the agent, the owner and a stranger do on 5 April 2018. The prices are
//! real; each request is made up to show one thing.

use spoolgate_wire::action_name::ActionName;

/// An act within a step.
pub(super) enum Act {
    /// A signed request: sender, id, action, payload. `{order:ID}` is replaced by the order that
    /// request ID made.
    Request(&'static str, &'static str, ActionName, &'static str),
    /// A signed request of an action that does not exist.
    Unknown(&'static str, &'static str, &'static str, &'static str),
    /// The file of an earlier request once more, under another name.
    Again(&'static str, &'static str),
    /// A request signed with a stranger's key in the agent's name.
    Forged(&'static str, ActionName, &'static str),
    /// A request that was signed this many minutes ago.
    Late(&'static str, ActionName, &'static str, i64),
    /// A file that is not a request.
    File(&'static str, &'static str),
    /// A symbolic link to this place below the home.
    Link(&'static str, &'static str),
}

/// One step of the day.
pub(super) struct Step {
    /// Time of day, UTC.
    pub at: &'static str,
    /// The description in the day's table.
    pub story: &'static str,
    /// The act.
    pub act: Act,
}

/// Creates a step.
pub(super) const fn step(at: &'static str, story: &'static str, act: Act) -> Step {
    Step { at, story, act }
}

const AGENT: &str = "trend-bot";
const OWNER: &str = "owner";

/// The first entry, which is sent again as a duplicate, a replay and a forgery.
const BUY: &str = r#"{"strategy":"trend","symbol":"BTC-USD","side":"buy","size":0.03,"order_type":"limit","price":6760,"stop_price":6560,"thesis_slug":"btc-range-long","planned_entry":6760,"planned_stop":6560}"#;

/// The steps of the day.
pub(super) const DAY: &[Step] = &[
    step(
        "00:02:00",
        "the owner funds the account",
        Act::Request(
            OWNER,
            "fund",
            ActionName::AccountAdjust,
            r#"{"amount":"5000","reason":"opening balance"}"#,
        ),
    ),
    step(
        "00:05:00",
        "an entry with its stop",
        Act::Request(AGENT, "buy-1", ActionName::OrderSubmit, BUY),
    ),
    step(
        "00:05:10",
        "the same entry under another id",
        Act::Request(AGENT, "buy-1b", ActionName::OrderSubmit, BUY),
    ),
    step(
        "00:10:00",
        "far too large",
        Act::Request(
            AGENT,
            "buy-big",
            ActionName::OrderSubmit,
            r#"{"strategy":"trend","symbol":"BTC-USD","side":"buy","size":0.1,"order_type":"limit","price":6750,"stop_price":6560,"thesis_slug":"btc-dip-long","planned_entry":6750,"planned_stop":6560}"#,
        ),
    ),
    step(
        "00:11:00",
        "the stop on the wrong side",
        Act::Request(
            AGENT,
            "buy-badstop",
            ActionName::OrderSubmit,
            r#"{"strategy":"trend","symbol":"BTC-USD","side":"buy","size":0.002,"order_type":"limit","price":6750,"stop_price":6900,"thesis_slug":"btc-dip-long","planned_entry":6750,"planned_stop":6900}"#,
        ),
    ),
    step(
        "00:12:00",
        "a price far from the market",
        Act::Request(
            AGENT,
            "buy-far",
            ActionName::OrderSubmit,
            r#"{"strategy":"trend","symbol":"BTC-USD","side":"buy","size":0.002,"order_type":"limit","price":7400,"stop_price":6700,"thesis_slug":"btc-dip-long","planned_entry":7400,"planned_stop":6700}"#,
        ),
    ),
    step(
        "00:13:00",
        "an operation that does not exist",
        Act::Unknown(
            AGENT,
            "loosen",
            "safety.modify",
            r#"{"max_daily_loss":100000}"#,
        ),
    ),
    step(
        "00:14:00",
        "a field that does not exist",
        Act::Request(
            AGENT,
            "override",
            ActionName::OrderCancel,
            r#"{"order_id":"o-1","override":true}"#,
        ),
    ),
    step(
        "00:15:00",
        "a file cut off in the middle",
        Act::File("half.json", r#"{"id":"half","timestamp":"2018-04-05T00:1"#),
    ),
    step(
        "00:16:00",
        "a stranger's signature",
        Act::Forged("forged", ActionName::OrderSubmit, BUY),
    ),
    step(
        "00:17:00",
        "a link to the gate's keys",
        Act::Link("keys.json", "state/keyring.db"),
    ),
    step(
        "00:50:00",
        "the stop is tightened",
        Act::Request(
            AGENT,
            "tighten-1",
            ActionName::OrderTightenStop,
            r#"{"order_id":"{order:buy-1}","new_stop":6620}"#,
        ),
    ),
    step(
        "00:51:00",
        "and may not be loosened",
        Act::Request(
            AGENT,
            "loosen-1",
            ActionName::OrderTightenStop,
            r#"{"order_id":"{order:buy-1}","new_stop":6500}"#,
        ),
    ),
    step(
        "01:55:00",
        "the first file again: the stored answer",
        Act::Again("buy-1", "buy-1-copy.json"),
    ),
    step(
        "03:55:00",
        "a market entry",
        Act::Request(
            AGENT,
            "buy-2",
            ActionName::OrderSubmit,
            r#"{"strategy":"trend","symbol":"BTC-USD","side":"buy","size":0.03,"order_type":"market","stop_price":6600,"thesis_slug":"btc-range-long","planned_entry":6745,"planned_stop":6600}"#,
        ),
    ),
    step(
        "04:30:00",
        "more of it: the thesis is in use",
        Act::Request(
            AGENT,
            "buy-3",
            ActionName::OrderSubmit,
            r#"{"strategy":"trend","symbol":"BTC-USD","side":"buy","size":0.002,"order_type":"limit","price":6700,"stop_price":6600,"thesis_slug":"btc-range-long","planned_entry":6700,"planned_stop":6600}"#,
        ),
    ),
    step(
        "08:40:00",
        "the owner halts all entries",
        Act::Request(
            OWNER,
            "halt",
            ActionName::HaltSet,
            r#"{"reason":"exchange maintenance"}"#,
        ),
    ),
    step(
        "08:45:00",
        "an entry during the halt",
        Act::Request(
            AGENT,
            "buy-halted",
            ActionName::OrderSubmit,
            r#"{"strategy":"trend","symbol":"BTC-USD","side":"buy","size":0.002,"order_type":"market","stop_price":6700,"thesis_slug":"btc-dip-long","planned_entry":6880,"planned_stop":6700}"#,
        ),
    ),
    step(
        "08:46:00",
        "an exit larger than the position",
        Act::Request(
            AGENT,
            "exit-too-big",
            ActionName::OrderSubmit,
            r#"{"strategy":"trend","symbol":"BTC-USD","side":"sell","size":0.05,"order_type":"market","thesis_slug":"btc-range-long","planned_entry":6880,"planned_stop":6600}"#,
        ),
    ),
    step(
        "08:50:00",
        "the exit: no halt holds it",
        Act::Request(
            AGENT,
            "exit-2",
            ActionName::OrderSubmit,
            r#"{"strategy":"trend","symbol":"BTC-USD","side":"sell","size":0.03,"order_type":"market","thesis_slug":"btc-range-long","planned_entry":6880,"planned_stop":6600}"#,
        ),
    ),
    step(
        "09:30:00",
        "the owner clears the halt",
        Act::Request(
            OWNER,
            "clear",
            ActionName::HaltClear,
            r#"{"scope":"all","reason":"maintenance is over"}"#,
        ),
    ),
    step(
        "10:00:00",
        "an entry that rests below the market",
        Act::Request(
            AGENT,
            "buy-4",
            ActionName::OrderSubmit,
            r#"{"strategy":"trend","symbol":"BTC-USD","side":"buy","size":0.03,"order_type":"limit","price":6650,"stop_price":6600,"thesis_slug":"btc-range-long","planned_entry":6650,"planned_stop":6600}"#,
        ),
    ),
    step(
        "11:30:00",
        "and is cancelled before it fills",
        Act::Request(
            AGENT,
            "cancel-4",
            ActionName::OrderCancel,
            r#"{"order_id":"{order:buy-4}"}"#,
        ),
    ),
    step(
        "12:00:00",
        "an entry that the market stops out",
        Act::Request(
            AGENT,
            "buy-5",
            ActionName::OrderSubmit,
            r#"{"strategy":"trend","symbol":"BTC-USD","side":"buy","size":0.03,"order_type":"limit","price":6700,"stop_price":6640,"thesis_slug":"btc-range-long","planned_entry":6700,"planned_stop":6640}"#,
        ),
    ),
    step(
        "14:30:00",
        "a short entry",
        Act::Request(
            AGENT,
            "sell-6",
            ActionName::OrderSubmit,
            r#"{"strategy":"trend","symbol":"BTC-USD","side":"sell","size":0.03,"order_type":"market","stop_price":7000,"thesis_slug":"btc-range-short","planned_entry":6850,"planned_stop":7000}"#,
        ),
    ),
    step(
        "15:30:00",
        "its stop is tightened",
        Act::Request(
            AGENT,
            "tighten-6",
            ActionName::OrderTightenStop,
            r#"{"order_id":"{order:sell-6}-stop","new_stop":6850}"#,
        ),
    ),
    step(
        "16:30:00",
        "the short is bought back",
        Act::Request(
            AGENT,
            "exit-6",
            ActionName::OrderSubmit,
            r#"{"strategy":"trend","symbol":"BTC-USD","side":"buy","size":0.03,"order_type":"market","thesis_slug":"btc-range-short","planned_entry":6700,"planned_stop":6850}"#,
        ),
    ),
    step(
        "18:00:00",
        "signed half an hour ago",
        Act::Late("late", ActionName::OrderSubmit, BUY, 30),
    ),
    step(
        "20:00:00",
        "an instrument nobody allowed",
        Act::Request(
            AGENT,
            "buy-doge",
            ActionName::OrderSubmit,
            r#"{"strategy":"trend","symbol":"DOGE-USD","side":"buy","size":100,"order_type":"limit","price":0.003,"stop_price":0.0029,"thesis_slug":"btc-range-long","planned_entry":0.003,"planned_stop":0.0029}"#,
        ),
    ),
    step(
        "21:00:00",
        "a last entry, held overnight with its stop",
        Act::Request(
            AGENT,
            "buy-7",
            ActionName::OrderSubmit,
            r#"{"strategy":"trend","symbol":"BTC-USD","side":"buy","size":0.03,"order_type":"limit","price":6700,"stop_price":6600,"thesis_slug":"btc-range-long","planned_entry":6700,"planned_stop":6600}"#,
        ),
    ),
    step(
        "23:50:00",
        "the agent asks for its portfolio",
        Act::Request(AGENT, "look", ActionName::PortfolioGet, "{}"),
    ),
];

/// The end of the day, when the last prices, and so all stop-outs and fills, are known.
pub(super) const CLOSE: &str = "23:59:00";
