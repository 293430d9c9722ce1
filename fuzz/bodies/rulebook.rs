//! The project's own rule files, as bodies know them.

use spoolgate_rules::{Bundle, Rulebook};

/// Path and text of each.
pub(crate) const FILES: [(&str, &str); 12] = [
    ("rules/safety.yaml", include_str!("../../rules/safety.yaml")),
    (
        "rules/principals.yaml",
        include_str!("../../rules/principals.yaml"),
    ),
    (
        "rules/instruments.yaml",
        include_str!("../../rules/instruments.yaml"),
    ),
    (
        "rules/strategies/trend.yaml",
        include_str!("../../rules/strategies/trend.yaml"),
    ),
    (
        "proposals/theses/btc-range-long.md",
        include_str!("../../proposals/theses/btc-range-long.md"),
    ),
    (
        "council/roles.yaml",
        include_str!("../../council/roles.yaml"),
    ),
    (
        "rules/admission/research/agents/default.yaml",
        include_str!("../../rules/admission/research/agents/default.yaml"),
    ),
    ("rules/core/wide-spread.yaml", RULE),
    ("rules/sets/payees.yaml", SET),
    (
        "rules/notify.yaml",
        include_str!("../../examples/notify/notify.yaml"),
    ),
    ("rules/services.yaml", SERVICES),
    ("rules/gateway.yaml", GATEWAY),
];

/// An allowlist with every key.
const SERVICES: &str = r"services:
  - {service: mail, host: smtp.example.com, port: 465, protocol: smtp, actions: [email.send, email.draft], added_at: 2026-01-01T00:00:00Z, added_by: owner, is_active: true}
  - {service: bank, host: api.bank.example, protocol: https, methods: [GET, POST], added_at: 2026-01-01T00:00:00Z, added_by: owner, is_active: false}
";

/// Adapters, rates and anomalies with every key.
const GATEWAY: &str = r"adapters:
  - actions: [email.send]
    services: [mail]
    adapter: exec
    command: {program: mail, args: [-x], time_limit_s: 5, output_bytes_max: 1000}
    at_once: 2
  - {actions: [service.api_call], adapter: stub}
workers: 4
open_max: 64
rates: {per_hour: {email.send: 5}, all_per_hour: 100}
anomalies: {burst_max: 10, burst_window_s: 5, payload_bytes_max: 1000000}
";

/// A rule with every key, which decides nothing.
const RULE: &str = r#"id: wide-spread
status: suspended
applies_to: {action: [order.submit], strategy: [trend], principal: [trend-bot]}
when:
  - {field: market.spread, op: gt, value: 0.01, min: 0.001, max: "0.1"}
  - {field: time.of_day, op: not_in, value: ["22:00-06:00", "12:00"]}
  - {field: history.sum, of: order.size, window_s: 60, op: gte, value: 3}
  - {field: order.symbol, op: matches, value: "^BTC"}
  - {field: order.thesis, op: not_in, value: payees, provenance: seen}
then: hold
message: "spread {market.spread}"
created: 2026-02-20T14:30:00Z
created_from: trade-1
hypothesis: {metric: win_rate, population: all, baseline_value: 0.22, baseline_sample: 18, review_after_n: 30}
"#;

/// A set with every key.
const SET: &str = r"name: payees
kind: word
grows: on_approval
entries:
  - {value: a, provenance: user_established}
  - {value: b, provenance: approved, expires: 2026-03-01T00:00:00Z, note: once}
  - {value: c, provenance: seen}
";

/// The other direction, and the strategy that stands by.
const MORE: [(&str, &str); 2] = [
    (
        "proposals/theses/btc-range-short.md",
        include_str!("../../proposals/theses/btc-range-short.md"),
    ),
    (
        "rules/strategies/range.yaml",
        include_str!("../../rules/strategies/range.yaml"),
    ),
];

/// All of them.
pub(crate) fn bundle() -> Bundle {
    let files = FILES
        .iter()
        .chain(&MORE)
        .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
    Bundle {
        files: files.collect(),
    }
}

/// Compiled.
pub(crate) fn compiled() -> Rulebook {
    Rulebook::compile(&bundle()).unwrap()
}
