//! The project's own rule files, as bodies know them.

use spoolgate::rules::{Bundle, Rulebook};

/// Path and text of each.
pub const FILES: [(&str, &str); 7] = [
    ("rules/safety.yaml", include_str!("../../rules/safety.yaml")),
    ("rules/principals.yaml", include_str!("../../rules/principals.yaml")),
    ("rules/instruments.yaml", include_str!("../../rules/instruments.yaml")),
    ("rules/strategies/trend.yaml", include_str!("../../rules/strategies/trend.yaml")),
    ("proposals/theses/btc-range-long.md", include_str!("../../proposals/theses/btc-range-long.md")),
    ("council/roles.yaml", include_str!("../../council/roles.yaml")),
    (
        "rules/admission/research/agents/default.yaml",
        include_str!("../../rules/admission/research/agents/default.yaml"),
    ),
];

/// The other direction, and the strategy that stands by.
const MORE: [(&str, &str); 2] = [
    ("proposals/theses/btc-range-short.md", include_str!("../../proposals/theses/btc-range-short.md")),
    ("rules/strategies/range.yaml", include_str!("../../rules/strategies/range.yaml")),
];

/// All of them.
pub fn bundle() -> Bundle {
    let files = FILES.iter().chain(&MORE).map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
    Bundle { files: files.collect() }
}

/// Compiled.
pub fn compiled() -> Rulebook {
    Rulebook::compile(&bundle()).unwrap()
}
