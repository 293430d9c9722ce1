//! The demo's day: what agents, the owner, the council, a controller and a stranger do on 5 April
//! 2018, one step per line of `demo_day.jsonl`. The prices are real; each request is made up to
//! show one thing.

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::value::RawValue;

/// The case that comes before the council: a strategy whose figures are too good.
pub(super) const CASE: &str = "trend-v2-1-passes";

/// The end of the day, when the last prices, and so all stop-outs and fills, are known.
pub(super) const CLOSE: &str = "23:59:00";

/// One step of the day.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Step<'a> {
    /// Time of day, UTC.
    pub at: &'a str,
    /// The description in the day's table.
    pub story: &'a str,
    /// The act.
    #[serde(borrow)]
    pub act: Act<'a>,
}

/// An act within a step.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Act<'a> {
    /// A signed request.
    #[serde(borrow)]
    Request(Request<'a>),
    /// The file of an earlier request once more, under another name.
    Again { id: &'a str, file: &'a str },
    /// A file that is not a request.
    File { name: &'a str, text: String },
    /// A symbolic link to this place below the home.
    Link { name: &'a str, target: &'a str },
}

/// A signed request. Its action need not exist.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request<'a> {
    /// The sender.
    pub from: &'a str,
    pub id: &'a str,
    pub action: &'a str,
    /// `{order:ID}` in it is replaced by the order that request ID made, `{sha256:ID}` by the
    /// payload hash in the answer to request ID.
    #[serde(borrow)]
    pub payload: &'a RawValue,
    /// How long ago it was signed.
    #[serde(default)]
    pub minutes_ago: i64,
    /// Whether a stranger's key signs it.
    #[serde(default)]
    pub forged: bool,
}

/// Returns the steps of the day, in order.
pub(super) fn steps() -> Result<Vec<Step<'static>>> {
    include_str!("demo_day.jsonl")
        .lines()
        .map(|line| {
            serde_json::from_str(line).with_context(|| format!("a step of the demo: {line}"))
        })
        .collect()
}
