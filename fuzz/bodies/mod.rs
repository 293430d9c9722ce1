//! What is fuzzed: one body a target, a plain function of bytes that panics where a promise does
//! not hold. `fuzz_targets/` runs them under libFuzzer, `tests/it/fuzzed.rs` over the kept corpora
//! and generated inputs on a stable compiler.

#![allow(
    unreachable_pub,
    reason = "the fuzz targets use these; the tests include them as a private module"
)]

pub mod amount;
pub mod decide;
pub mod envelope;
pub(crate) mod input;
pub mod json;
pub mod ledger_line;
pub mod market_file;
pub mod note;
pub mod payload;
pub mod recovery;
pub(crate) mod rulebook;
pub mod seeds;
pub mod signing_string;
pub mod yaml_rules;

#[allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    reason = "shared with the tests of the ledger"
)]
#[path = "../../tests/it/kit/memory_disk.rs"]
pub mod memory_disk;

/// A body.
pub type Body = fn(&[u8]);

/// Every target by its name, in the order of importance.
pub const TARGETS: [(&str, Body); 11] = [
    ("recovery", recovery::body),
    ("ledger_line", ledger_line::body),
    ("json", json::body),
    ("envelope", envelope::body),
    ("yaml_rules", yaml_rules::body),
    ("payload", payload::body),
    ("decide", decide::body),
    ("amount", amount::body),
    ("market_file", market_file::body),
    ("note", note::body),
    ("signing_string", signing_string::body),
];
