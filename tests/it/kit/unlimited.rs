//! Homes without limits on what agents may send; `tests/it/home/rates.rs` tests these limits.

use std::fs;
use std::path::Path;

/// Lifts the limits on messages. The rule files are read when a home is opened.
pub(crate) fn lift_message_rates(home: &Path) {
    let path = home.join("rules/safety.yaml");
    let text = fs::read_to_string(&path).unwrap();
    if text.contains("max_messages_per_minute: 1000000 ") {
        return;
    }
    let of_one = text.replace(
        "max_messages_per_minute: 600 ",
        "max_messages_per_minute: 1000000 ",
    );
    let of_all = of_one.replace(
        "max_messages_per_minute_all: 3000 ",
        "max_messages_per_minute_all: 1000000 ",
    );
    assert!(
        of_one != text && of_all != of_one,
        "the limits are spelled otherwise"
    );
    fs::write(&path, of_all).unwrap();
}
