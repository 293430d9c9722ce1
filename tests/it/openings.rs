//! `doctor --why`: whether strategies can enter is what the gate would decide.

use std::fs;

use crate::kit::{Scratch, show, spoolgate, succeed};
use serde_json::Value;

/// The openings of a home as JSON, with the exit code.
fn why(scratch: &Scratch) -> (i32, Value) {
    let done = spoolgate(&scratch.home(), &["--format", "json", "doctor", "--why"]);
    let told = serde_json::from_slice(&done.stdout).unwrap_or_else(|_| panic!("{}", show(&done)));
    (done.status.code().unwrap(), told)
}

fn leg<'t>(told: &'t Value, strategy: &str, direction: &str) -> &'t Value {
    let mut legs = told["openings"].as_array().unwrap().iter();
    legs.find(|it| it["strategy"] == strategy && it["direction"] == direction)
        .unwrap_or_else(|| panic!("{told:#}"))
}

#[test]
fn what_is_open_is_what_an_order_would_get() {
    let scratch = Scratch::with_prices();
    let home = scratch.home();
    let (_, told) = why(&scratch);
    let long = leg(&told, "trend", "long");
    assert_eq!(long["entries"], "open", "{told:#}");
    assert!(long["cause"].is_null());
    assert_ne!(told["entries"], "closed");
    // A halt closes all of them, and names itself.
    succeed(&home, &["halt", "set", "--reason", "a look"]);
    let (code, told) = why(&scratch);
    assert_eq!((code, &told["entries"]), (1, &"closed".into()));
    let cause = &leg(&told, "trend", "long")["cause"];
    assert_eq!(cause["check"], "manual_halt", "{told:#}");
    succeed(&home, &["halt", "clear", "--reason", "seen"]);
    // So does the file of a strategy, for its own.
    let file = home.join("rules/strategies/trend.yaml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("status: active", "status: paused")).unwrap();
    succeed(&home, &["run", "--until-idle"]);
    let (code, told) = why(&scratch);
    assert_eq!(code, 1);
    let cause = &leg(&told, "trend", "long")["cause"];
    assert_eq!(cause["check"], "strategy_active", "{told:#}");
    let table = spoolgate(&home, &["doctor", "--why"]);
    assert!(
        show(&table).contains("no gate is running"),
        "{}",
        show(&table)
    );
    // Nothing was carried out.
    assert!(!succeed(&home, &["orders"]).contains("trend"));
}

#[test]
fn old_prices_are_the_cause_and_not_what_follows_from_them() {
    let scratch = Scratch::new();
    let (code, told) = why(&scratch);
    assert_eq!((code, &told["entries"]), (1, &"closed".into()));
    for leg in told["openings"].as_array().unwrap() {
        assert_eq!(leg["cause"]["check"], "market_data", "{told:#}");
    }
}
