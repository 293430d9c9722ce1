//! Control decisions.

mod cases;
mod commands;
mod home;

use serde_json::{Value, json};

/// Returns a decision on the shipped concern.
fn decision(id: &str, more: Value) -> String {
    let mut body = json!({
        "decision_id": id, "concern_id": "paper:btc-usd", "account_id": "paper",
            "market_symbol": "btc-usd",
        "action": "pause", "reason": "why", "confidence": 0.9,
    });
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    body.to_string()
}
