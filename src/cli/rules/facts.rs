//! Requests and their facts outside the gate, and facts as JSON output.

use anyhow::Result;
use serde_json::{Value as Json, json};
use spoolgate_gate::handle::Turn;
use spoolgate_gate::prepare::Authentic;
use spoolgate_gate::{Lookups, State, facts};
use spoolgate_rules::golden::name_of;
use spoolgate_rules::rule::field::Kind;
use spoolgate_rules::rule::{Fact, Reading, Value};
use spoolgate_rules::{Bundle, Rulebook, RulebookError, golden};
use spoolgate_wire::time::Time;

use crate::cli::init::TEMPLATE;

/// Fields, or prefixes of fields, that the gate looks up or computes.
const ELSEWHERE: [&str; 17] = [
    "market.",
    "portfolio.",
    "position.",
    "time.",
    "strategy.",
    "order.worst_entry",
    "order.notional",
    "order.stop_distance",
    "order.risk",
    "order.reward_ratio",
    "order.plan_slippage",
    "council.open_cases",
    "control.current",
    "control.is_paused",
    "payload.minutes_",
    "request.age_ms",
    "request.role",
];

/// Returns whether the request alone determines this fact.
pub(super) fn is_of_request(reading: &Reading) -> bool {
    let name = reading.to_string();
    let is_elsewhere = ELSEWHERE.iter().any(|start| name.starts_with(start));
    matches!(reading, Reading::Field(_)) && (name == "strategy.name" || !is_elsewhere)
}

/// Returns whether the time of the decision determines this fact.
pub(super) fn is_of_time(reading: &Reading) -> bool {
    let name = reading.to_string();
    name.starts_with("time.")
        || name.starts_with("payload.minutes_")
        || name == "market.minutes_since_open"
}

/// Returns the facts of a request for an account that holds nothing.
pub(super) fn alone(
    rulebook: &Rulebook,
    authentic: &Authentic,
    now: Time,
    readings: &[Reading],
) -> Vec<Fact<'static>> {
    let (state, lookups) = (State::default(), Lookups::default());
    let turn = Turn {
        state: &state,
        rules: rulebook,
        lookups: &lookups,
        now,
        seq: 0,
        granted: None,
    };
    facts::facts(&turn, authentic, readings)
        .into_iter()
        .map(Fact::into_owned)
        .collect()
}

/// Returns the shipped rulebook, for reading requests if a folder holds only rules.
pub(super) fn shipped() -> Result<Rulebook, RulebookError> {
    let files = TEMPLATE
        .iter()
        .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
    Rulebook::compile(&Bundle {
        files: files.collect(),
    })
}

/// Converts a fact to JSON output: amounts as strings, and null for what the request leaves out.
pub(super) fn view(reading: &Reading, fact: &Fact<'_>) -> Json {
    let one = |value: &Value<'_>| match (reading.kind(), value) {
        (Kind::TimeOfDay, Value::Number(minutes)) => json!(golden::time_of_day(*minutes)),
        (_, Value::Number(number)) => json!(number.normalized().to_string()),
        (_, Value::Text(text)) => json!(text),
        (_, Value::Flag(flag)) => json!(flag),
    };
    match fact {
        Fact::Known(value) => one(value),
        Fact::Many(values) => values.iter().map(one).collect(),
        Fact::Absent => Json::Null,
        Fact::Unknown(why) => json!({ "unknown": why }),
    }
}

/// Converts facts to a JSON object, by name.
pub(super) fn views<'a>(facts: impl IntoIterator<Item = (&'a Reading, &'a Fact<'a>)>) -> Json {
    facts
        .into_iter()
        .map(|(reading, fact)| (name_of(reading), view(reading, fact)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}
