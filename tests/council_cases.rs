//! Council cases from the request to the decision: by files in every order, by one-shot commands, at their deadlines,
//! through crashes and by the thousand.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "figures and what was skipped")]

mod common;

#[path = "council_cases/burden.rs"]
mod burden;
#[path = "council_cases/chamber.rs"]
#[allow(dead_code, reason = "made for the tests of commands too")]
mod chamber;
#[path = "council_cases/court.rs"]
mod court;
#[path = "council_cases/crashes.rs"]
mod crashes;
#[path = "council_cases/deadlines.rs"]
mod deadlines;
#[path = "council_cases/files.rs"]
mod files;
#[path = "council_cases/redacted.rs"]
mod redacted;
#[path = "council_cases/shots.rs"]
mod shots;
#[path = "council_cases/watched.rs"]
mod watched;
