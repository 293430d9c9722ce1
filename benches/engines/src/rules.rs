//! The twenty rules, as a trading desk would write them.

use spoolgate_rules::rule::{Guard, Program, RuleSet};

use crate::Result;

macro_rules! files {
    ($($id:literal),* $(,)?) => {
        &[$((concat!("rules/core/", $id, ".yaml"),
            include_str!(concat!("../rules/", $id, ".yaml")))),*]
    };
}

/// Path and text of each; bit `n` of every answer is the `n`th.
pub const FILES: &[(&str, &str)] = files![
    "max-size",
    "max-notional",
    "dust",
    "known-symbols",
    "no-alt-shorts",
    "wide-spread",
    "volatile-and-large",
    "crowded-long",
    "crowded-short",
    "bad-regime",
    "bear-longs",
    "weekend-size",
    "overnight",
    "funding-minutes",
    "equity-floor",
    "max-positions",
    "target-needed",
    "scout-limits-only",
    "thin-volume",
    "penny-price",
];

/// The action that they are about.
pub const ACTION: &str = "order.submit";

/// Compiles rule files and takes the program of orders.
///
/// # Errors
/// What is wrong with a rule.
pub fn program(files: &[(&str, &str)]) -> Result<Program> {
    let book = RuleSet::compile(files.iter().copied(), []).map_err(|error| error.to_string())?;
    Ok(book
        .programs
        .get(ACTION)
        .cloned()
        .ok_or("no rule is about orders")?)
}

/// The bit of each rule by its id.
pub fn bit(guards: &[Guard], id: &str) -> u32 {
    let place = guards.iter().position(|guard| guard.id.as_str() == id);
    place.map_or(0, |place| 1 << place)
}
