//! What is fuzzed: one body a target, a plain function of bytes that panics where a promise does
//! not hold. `fuzz_targets/` runs them under libFuzzer, `tests/it/fuzzed.rs` over the kept corpora
//! and generated inputs on a stable compiler.

pub(crate) mod amount;
pub(crate) mod decide;
pub(crate) mod envelope;
pub(crate) mod input;
pub(crate) mod json;
pub(crate) mod ledger_line;
pub(crate) mod market_file;
pub(crate) mod note;
pub(crate) mod payload;
pub(crate) mod recovery;
pub(crate) mod rulebook;
pub(crate) mod seeds;
pub(crate) mod signing_string;
pub(crate) mod yaml_rules;

#[allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    reason = "shared with the tests of the ledger"
)]
#[path = "../../tests/it/kit/memory_disk.rs"]
pub mod memory_disk;

/// A body.
pub(crate) type Body = fn(&[u8]);

/// Every target by its name, in the order of importance.
pub(crate) const TARGETS: [(&str, Body); 11] = [
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
