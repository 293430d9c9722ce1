//! Any text as a rule file. Compiling never panics and is bounded; what compiles has no key that
//! nobody knows, has limits that make sense, and is the same rulebook under the same hash when it
//! is read from where it is kept.

use serde_yaml::Value;
use spoolgate_rules::{Bundle, Rulebook, gateway};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::council::ChangeType;

use super::rulebook;

/// Every key that may stand anywhere in each of [`rulebook::FILES`].
const KEYS: [&[&str]; 12] = [
    &[
        "max_total_capital",
        "max_single_position",
        "max_single_trade_risk",
        "max_total_exposure",
        "max_daily_loss",
        "max_weekly_loss",
        "max_same_direction_exposure",
        "max_correlated_group",
        "max_portfolio_risk",
        "max_volume_share",
        "max_open_positions",
        "max_open_orders",
        "max_entries_per_minute",
        "max_entries_per_minute_all",
        "max_messages_per_minute",
        "max_messages_per_minute_all",
        "max_protected_per_minute",
        "dead_man",
        "timeout_s",
        "action",
        "restricted_instruments",
        "max_executions",
        "executions_window_s",
        "max_losing_trades",
        "cooldown_s",
        "restricted",
        "from",
        "to",
        "slippage_to_plan",
        "max_drawdown",
        "max_order_value",
        "price_collar",
        "price_collar_passive",
        "max_spread",
        "max_mid_deviation",
        "quote_age_floor_s",
        "entry_slippage",
        "stop_slippage",
        "duplicate_window_s",
        "request_age_max_s",
        "request_ahead_max_s",
        "exit_age_max_s",
        "clock_gap_max_s",
        "reduced_risk_factor",
        "control_confidence_min",
        "hold_expires_s",
    ],
    &[
        "principals",
        "name",
        "role",
        "strategies",
        "spool",
        "request_age_max_s",
        "council_roles",
        "control",
        "concerns",
        "override",
        "admission",
        "domains",
        "tenant",
        "surface",
        "profile",
        "roots_per_hour",
        "required",
        "actions",
    ],
    &[
        "instruments",
        "symbol",
        "multiplier",
        "tick",
        "lot",
        "min_size",
        "max_size",
        "min_notional",
        "min_stop_ticks",
        "quotes_from",
        "fills_from",
        "half_spread",
        "slippage",
        "maker_fee",
        "taker_fee",
        "volume_share",
        "max_gap",
        "percent_price",
        "group",
        "max_gap",
        "bar_s",
        "venue",
        "bridge",
        "imitate",
        "latency_s",
        "reserves",
        "base_fee",
        "reject_every",
        "silent",
        "until",
    ],
    &[
        "name",
        "strategy_id",
        "account",
        "market",
        "status",
        "risk_mode",
        "degraded",
        "instruments",
        "directions",
        "allocation",
        "restricted",
        "from",
        "to",
        "stop_distance",
        "min",
        "max",
    ],
    &[
        "slug",
        "strategy",
        "symbol",
        "direction",
        "expires",
        "invalid_below",
        "invalid_above",
    ],
    &[
        "roles",
        "name",
        "aliases",
        "primary_axes",
        "concern_axis",
        "computed",
        "command",
        "program",
        "args",
        "time_limit_s",
        "output_bytes_max",
        "confidence_floor",
        "checklist",
        "weights",
        "start",
        "reject",
        "unsure",
        "deduct",
        "cap",
        "failed_check",
        "failed_minor",
        "concern",
        "per_role_max",
        "absent_cap",
        "not_assessed_cap",
        "axis_floor",
        "reject_below",
        "unsure_below",
        "text",
        "chars_max",
        "significant_below",
        "material_below",
        "sound_from",
        "placeholders",
        "whole",
        "line_starts",
        "changes",
        "DECLARE_PASS",
        "FREEZE_SPEC",
        "UPDATE_CONFIG",
        "CODE_REFACTOR",
        "required_roles",
        "veto_roles",
        "required_artifacts",
        "required_metrics",
        "deadline_s",
        "floors",
        "axis",
        "evidence",
        "computed_for",
        "optional_inputs",
        "assumed_years",
        "assumed_periods_per_year",
        "assumed_skew",
        "assumed_kurtosis",
        "sharpe_prior_mean",
        "sharpe_prior_sd",
        "implausible_p",
        "doubtful_p",
        "agreement_slack",
        "vol_drag_max",
        "growth_slack",
        "drawdown_p",
        "interval_alpha",
        "break_even",
        "cost_multiple",
        "monte_carlo_sd_share",
        "smoothing_p",
        "smoothing_share",
        "recompute_slack",
        "t_reject",
        "t_hurdle",
        "psr_min",
        "dsr_reject",
        "dsr_min",
        "track_record_alpha",
        "benchmark_sharpe",
        "haircut_min",
        "pbo_reject",
        "pbo_max",
        "drop_reject_p",
        "drop_p",
        "bootstrap_quantile",
        "smoothing_lags",
        "pbo_blocks",
        "trades_reject",
        "trades_min",
        "bootstrap_samples",
        "bootstrap_seed",
    ],
    &[
        "policy_version",
        "max_spawn_depth",
        "max_total_descendants",
        "max_repeats_per_capability",
        "max_repeats_in_ancestor_window",
        "ancestor_window_size",
        "recursion_budget",
        "capability_allowlist",
        "capability_denylist",
        "allowed_targets",
        "can_spawn",
        "max_artifact_size_bytes",
        "policy_command",
        "cache_ttl_seconds",
        "lineage_command",
        "program",
        "args",
        "time_limit_s",
        "output_bytes_max",
    ],
    &[
        "id",
        "status",
        "applies_to",
        "action",
        "strategy",
        "principal",
        "when",
        "field",
        "op",
        "value",
        "min",
        "max",
        "window_s",
        "of",
        "provenance",
        "then",
        "message",
        "created",
        "created_from",
        "hypothesis",
        "metric",
        "population",
        "baseline_value",
        "baseline_sample",
        "review_after_n",
        "lesson",
    ],
    &[
        "name",
        "kind",
        "grows",
        "entries",
        "value",
        "provenance",
        "expires",
        "note",
    ],
    &[
        "command",
        "program",
        "args",
        "time_limit_s",
        "output_bytes_max",
    ],
    &[
        "services",
        "service",
        "host",
        "port",
        "protocol",
        "methods",
        "actions",
        "added_at",
        "added_by",
        "is_active",
    ],
    &[
        "adapters",
        "actions",
        "services",
        "adapter",
        "command",
        "program",
        "args",
        "time_limit_s",
        "output_bytes_max",
        "at_once",
        "workers",
        "open_max",
        "rates",
        "per_hour",
        "all_per_hour",
        "anomalies",
        "burst_max",
        "burst_window_s",
        "payload_bytes_max",
        "email.fetch",
        "email.send",
        "email.draft",
        "calendar.fetch",
        "calendar.create",
        "calendar.update",
        "finance.fetch_transactions",
        "health.fetch",
        "service.api_call",
    ],
];

/// The first byte says which file, the rest is its text.
pub fn body(data: &[u8]) {
    let Some((which, text)) = data.split_first() else {
        return;
    };
    let which = usize::from(*which) % rulebook::FILES.len();
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    let path = rulebook::FILES[which].0;
    let mut bundle = rulebook::bundle();
    bundle.files.insert(path.to_owned(), text.to_owned());
    let compiled = match Rulebook::compile(&bundle) {
        Ok(compiled) => compiled,
        Err(error) => {
            assert!(
                bundle.files.contains_key(&error.file),
                "blames `{}`",
                error.file
            );
            assert!(
                error.message.chars().count() <= 500,
                "{} characters",
                error.message.chars().count()
            );
            // YAML knows more line ends than editors do.
            let lines = text
                .matches(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}'])
                .count()
                + 1;
            assert!(
                error.line.is_none_or(|line| line <= lines + 1),
                "line {:?} of {lines}",
                error.line
            );
            return;
        }
    };
    assert_eq!(compiled.hash, bundle.hash());
    let kept = Bundle::from_bytes(&bundle.to_bytes()).expect("kept and not read back");
    assert_eq!(kept, bundle);
    assert_eq!(
        Rulebook::compile(&kept).as_ref(),
        Ok(&compiled),
        "compiles to another rulebook"
    );
    let front = if which == 4 {
        text.split("\n---").next().unwrap_or(text)
    } else {
        text
    };
    if let Ok(value) = serde_yaml::from_str::<Value>(front) {
        check_keys(&value, KEYS[which]);
    }
    check_limits(&compiled);
}

fn check_keys(value: &Value, known: &[&str]) {
    match value {
        Value::Mapping(entries) => {
            for (key, inner) in entries {
                let key = key.as_str().expect("a key that is no text");
                assert!(
                    known.contains(&key),
                    "an unknown key was let through: {key}"
                );
                check_keys(inner, known);
            }
        }
        Value::Sequence(items) => items.iter().for_each(|item| check_keys(item, known)),
        _ => {}
    }
}

/// Limits of the wrong sign, or a percentage for a fraction, must never load.
fn check_limits(rules: &Rulebook) {
    let safety = &rules.safety;
    for fraction in [
        *safety.max_single_position,
        *safety.max_single_trade_risk,
        *safety.max_drawdown,
        *safety.max_portfolio_risk,
        *safety.slippage_to_plan,
        *safety.price_collar,
        *safety.price_collar_passive,
        *safety.max_spread,
        *safety.max_mid_deviation,
    ] {
        assert!(
            fraction > Amount::ZERO && fraction <= Amount::ONE,
            "{fraction}"
        );
    }
    for money in [
        *safety.max_total_capital,
        *safety.max_total_exposure,
        safety.same_direction(),
        safety.correlated_group(),
        *safety.max_daily_loss,
        *safety.max_weekly_loss,
        *safety.max_order_value,
    ] {
        assert!(money > Amount::ZERO, "{money}");
    }
    assert!((1..=1000).contains(&*safety.max_executions) && *safety.max_losing_trades > 0);
    assert!((1..=86_400).contains(&*safety.executions_window_s) && *safety.cooldown_s <= 604_800);
    assert!(!safety.restricted.iter().any(|window| window.is_ambiguous()));
    assert!(*safety.max_messages_per_minute > 0 && *safety.max_messages_per_minute_all > 0);
    assert!(
        safety
            .dead_man
            .as_ref()
            .is_none_or(|it| (1..=604_800).contains(&*it.timeout_s))
    );
    assert!((1..=2_678_400).contains(&*safety.hold_expires_s));
    assert!(*safety.exit_age_max_s <= 86_400 && *safety.duplicate_window_s <= 600);
    check_names(rules);
    check_roles(rules);
    check_profiles(rules);
}

/// Instruments, strategies and principals stand under their own names and refer to others that
/// exist.
fn check_names(rules: &Rulebook) {
    for (symbol, instrument) in &rules.instruments {
        assert_eq!(symbol, &instrument.symbol);
        let positive = [
            *instrument.multiplier,
            *instrument.max_size,
            *instrument.volume_share,
        ];
        assert!(
            positive.into_iter().all(Amount::is_positive),
            "{instrument:?}"
        );
        assert!(
            *instrument.half_spread < Amount::ONE && *instrument.slippage < Amount::ONE,
            "{instrument:?}"
        );
    }
    for (name, strategy) in &rules.strategies {
        assert_eq!(name, &strategy.name);
        assert!(
            strategy
                .instruments
                .iter()
                .all(|symbol| rules.instruments.contains_key(symbol))
        );
        assert!(
            strategy.stop_distance.min.is_positive() && *strategy.stop_distance.max < Amount::ONE
        );
    }
    for (name, principal) in &rules.principals {
        assert_eq!(name, &principal.name);
        assert!(
            principal
                .actions
                .iter()
                .all(|action| gateway::ACTIONS.contains(&action.as_str()))
        );
        assert!(
            principal
                .strategies
                .iter()
                .all(|strategy| rules.strategies.contains_key(strategy))
        );
        if let Some(grant) = &principal.admission {
            assert!(
                !grant.domains.is_empty()
                    && grant
                        .roots_per_hour
                        .is_none_or(|roots| roots.get() <= 10_000)
            );
        }
    }
}

fn check_roles(rules: &Rulebook) {
    for change in ChangeType::ALL {
        let rule = rules.roles.change(change);
        assert!(
            !rule.required_roles.is_empty() && *rule.deadline_s > 0,
            "{rule:?}"
        );
        assert!(
            rule.veto_roles
                .iter()
                .all(|role| rule.required_roles.contains(role)),
            "{rule:?}"
        );
        assert_eq!(
            rules.roles.required(change).count(),
            rule.required_roles.len(),
            "{rule:?}"
        );
    }
    let weights = rules.roles.weights;
    let caps = [
        *weights.reject.cap,
        *weights.absent_cap,
        *weights.unsure.cap,
        100,
    ];
    assert!(
        caps.is_sorted() && weights.unsure.deduct <= weights.reject.deduct,
        "{weights:?}"
    );
}

fn check_profiles(rules: &Rulebook) {
    for policy in rules.admission.values() {
        let profile = &policy.profile;
        let window = profile.ancestor_window_size.map(|size| size.get());
        assert_eq!(
            window.is_some(),
            profile.max_repeats_in_ancestor_window.is_some(),
            "{profile:?}"
        );
        assert!(
            window.is_none_or(|size| (1..=64).contains(&size)),
            "{profile:?}"
        );
        // Ledger and index count with a sign.
        let counts = [
            profile.max_total_descendants.map(|n| n.get()),
            profile.max_repeats_per_capability.map(|n| n.get()),
            profile.recursion_budget.map(|n| n.get()),
            profile.max_artifact_size_bytes.map(|n| n.get()),
        ];
        assert!(
            counts
                .iter()
                .flatten()
                .all(|count| i64::try_from(*count).is_ok()),
            "{profile:?}"
        );
        assert!(
            profile.cache_ttl_seconds.is_none() || profile.policy_command.is_some(),
            "{profile:?}"
        );
    }
}
