//! `rules/safety.yaml`: the limits that no agent and no rule can change.

use serde::{Deserialize, Serialize};

use super::hours::Window;
use super::rulebook::{
    COOLDOWN_S_MAX, DEAD_MAN_TIMEOUT_S_MAX, DUPLICATE_WINDOW_S_MAX, EXECUTIONS_MAX,
    EXECUTIONS_WINDOW_S_MAX, EXIT_AGE_S_MAX, HOLD_S_MAX,
};
use super::yaml;
use spoolgate_wire::amount::{self, Amount};
use spoolgate_wire::ids::Symbol;

/// Every limit of a home. Fractions refer to the capital base or to a price (0.05 is 5%), money is
/// in the account's currency, and durations are in seconds.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Safety {
    /// Upper bound of the capital base, however much the account holds.
    #[serde(deserialize_with = "amount::yaml::required")]
    #[schemars(schema_with = "spoolgate_wire::schema::amount_above_0")]
    pub max_total_capital: Amount,
    /// Worst-case notional of one symbol, fraction of the capital base.
    #[serde(deserialize_with = "amount::yaml::required")]
    #[schemars(schema_with = "spoolgate_wire::schema::amount_above_0_to_1")]
    pub max_single_position: Amount,
    /// Risk of one trade to its stop, fraction of the capital base.
    #[serde(deserialize_with = "amount::yaml::required")]
    #[schemars(schema_with = "spoolgate_wire::schema::amount_above_0_to_1")]
    pub max_single_trade_risk: Amount,
    /// Worst-case notional of all symbols, fraction of the capital base.
    #[serde(deserialize_with = "amount::yaml::required")]
    #[schemars(schema_with = "spoolgate_wire::schema::amount_above_0")]
    pub max_total_exposure: Amount,
    /// Worst-case notional in one direction, fraction of the capital base; if absent,
    /// `max_total_exposure`.
    #[serde(default, deserialize_with = "amount::yaml::optional")]
    #[schemars(schema_with = "spoolgate_wire::schema::amount_above_0")]
    pub max_same_direction_exposure: Option<Amount>,
    /// Worst-case notional of the instruments of one `group`, fraction of the capital base; if
    /// absent, `max_total_exposure`.
    #[serde(default, deserialize_with = "amount::yaml::optional")]
    #[schemars(schema_with = "spoolgate_wire::schema::amount_above_0")]
    pub max_correlated_group: Option<Amount>,
    /// Largest risk of everything that is open, down to its stops, fraction of the capital base.
    #[serde(
        default = "portfolio_risk",
        deserialize_with = "amount::yaml::required"
    )]
    #[schemars(schema_with = "spoolgate_wire::schema::amount_above_0_to_1")]
    pub max_portfolio_risk: Amount,
    /// Loss within a UTC day at which entries stop.
    #[serde(deserialize_with = "amount::yaml::required")]
    #[schemars(schema_with = "spoolgate_wire::schema::amount_above_0")]
    pub max_daily_loss: Amount,
    /// Loss within a week, from Monday UTC, at which entries stop.
    #[serde(default = "weekly", deserialize_with = "amount::yaml::required")]
    #[schemars(schema_with = "spoolgate_wire::schema::amount_above_0")]
    pub max_weekly_loss: Amount,
    /// Drawdown from the peak at which entries stop until a person clears it, fraction of the peak.
    #[serde(deserialize_with = "amount::yaml::required")]
    #[schemars(schema_with = "spoolgate_wire::schema::amount_above_0_to_1")]
    pub max_drawdown: Amount,
    /// Largest notional of one order.
    #[serde(deserialize_with = "amount::yaml::required")]
    #[schemars(schema_with = "spoolgate_wire::schema::amount_above_0")]
    pub max_order_value: Amount,
    /// Largest share of the last bar's volume that one order may have; if absent, there is
    /// no such check.
    #[serde(default, deserialize_with = "amount::yaml::optional")]
    #[schemars(schema_with = "spoolgate_wire::schema::amount_above_0_to_1")]
    pub max_volume_share: Option<Amount>,
    /// Most pairs of symbol and strategy that may have a position or a working entry.
    #[serde(default = "positions")]
    pub max_open_positions: u32,
    /// Most open orders, not counting protective stops.
    #[serde(default = "orders")]
    pub max_open_orders: u32,
    /// Most entries that one agent may place within a minute.
    #[serde(default = "entries")]
    pub max_entries_per_minute: u32,
    /// Most entries that all agents together may place within a minute. The gate
    /// remembers at most 4096.
    #[serde(default = "entries_of_all")]
    pub max_entries_per_minute_all: u32,
    /// Most messages that one agent may send within a minute. Exits, cancels, tightens, halts,
    /// heartbeats and control decisions that only make things safer do not count.
    #[serde(default = "messages")]
    #[schemars(schema_with = "spoolgate_wire::schema::whole::<1, { u32::MAX }>")]
    pub max_messages_per_minute: u32,
    /// Most messages that all agents together may send within a minute.
    #[serde(default = "messages_of_all")]
    #[schemars(schema_with = "spoolgate_wire::schema::whole::<1, { u32::MAX }>")]
    pub max_messages_per_minute_all: u32,
    /// Number of exits, cancels and tightens of one agent within a minute above which their check
    /// row says so. None is ever refused for it.
    #[serde(default = "protected_messages")]
    pub max_protected_per_minute: u32,
    /// What happens when the gate has not heard from an agent for a while; if absent, nothing.
    #[serde(default, deserialize_with = "yaml::present")]
    #[schemars(with = "DeadMan")]
    pub dead_man: Option<DeadMan>,
    /// Instruments that no strategy may enter, even if its file lists them.
    #[serde(default)]
    pub restricted_instruments: Vec<Symbol>,
    /// Number of executed entries of one strategy within `executions_window_s` that closes the
    /// strategy to entries until a person clears it.
    #[serde(default = "executions")]
    #[schemars(schema_with = "spoolgate_wire::schema::whole::<1, EXECUTIONS_MAX>")]
    pub max_executions: u32,
    /// The window of `max_executions`. Seconds.
    #[serde(default = "hour")]
    #[schemars(schema_with = "spoolgate_wire::schema::whole::<1, EXECUTIONS_WINDOW_S_MAX>")]
    pub executions_window_s: u32,
    /// Number of consecutive losing trades that closes a strategy to entries until a
    /// person clears it.
    #[serde(default = "losing")]
    #[schemars(schema_with = "spoolgate_wire::schema::whole::<1, { u32::MAX }>")]
    pub max_losing_trades: u32,
    /// Time after a strategy's last stop-out during which it may not enter. Seconds.
    #[serde(default = "cooldown")]
    #[schemars(schema_with = "spoolgate_wire::schema::whole::<0, COOLDOWN_S_MAX>")]
    pub cooldown_s: u32,
    /// Times of day at which no strategy may enter.
    #[serde(default)]
    pub restricted: Vec<Window>,
    /// Largest distance of a limit price or trigger from the market on the aggressive
    /// side, fraction.
    #[serde(deserialize_with = "amount::yaml::required")]
    #[schemars(schema_with = "spoolgate_wire::schema::amount_above_0_to_1")]
    pub price_collar: Amount,
    /// Largest distance of a limit price or trigger from the market on the passive side, fraction.
    #[serde(deserialize_with = "amount::yaml::required")]
    #[schemars(schema_with = "spoolgate_wire::schema::amount_above_0_to_1")]
    pub price_collar_passive: Amount,
    /// Largest distance of the worst entry price from the planned one, in either direction,
    /// fraction of the planned price.
    #[serde(default = "to_plan", deserialize_with = "amount::yaml::required")]
    #[schemars(schema_with = "spoolgate_wire::schema::amount_above_0_to_1")]
    pub slippage_to_plan: Amount,
    /// Largest spread, fraction of the middle price.
    #[serde(deserialize_with = "amount::yaml::required")]
    #[schemars(schema_with = "spoolgate_wire::schema::amount_above_0_to_1")]
    pub max_spread: Amount,
    /// Largest distance of the middle price from the last trade, fraction of the last trade.
    #[serde(deserialize_with = "amount::yaml::required")]
    #[schemars(schema_with = "spoolgate_wire::schema::amount_above_0_to_1")]
    pub max_mid_deviation: Amount,
    /// Age that a quote may always have, even if two bars are shorter. Seconds.
    pub quote_age_floor_s: u32,
    /// Assumed slippage of a market entry, fraction.
    #[serde(deserialize_with = "amount::yaml::required")]
    #[schemars(schema_with = "spoolgate_wire::schema::amount_from_0_below_1")]
    pub entry_slippage: Amount,
    /// Assumed slippage of a protective stop, fraction of the stop price.
    #[serde(deserialize_with = "amount::yaml::required")]
    #[schemars(schema_with = "spoolgate_wire::schema::amount_from_0_below_1")]
    pub stop_slippage: Amount,
    /// Time within which a second entry with the same strategy, symbol, side, type, size and price
    /// is refused. Seconds.
    #[schemars(schema_with = "spoolgate_wire::schema::whole::<0, DUPLICATE_WINDOW_S_MAX>")]
    pub duplicate_window_s: u32,
    /// Age above which requests are stale, unless the principal has its own bound. Seconds.
    pub request_age_max_s: u32,
    /// How far a request's timestamp may be ahead of the gate's clock. Seconds.
    pub request_ahead_max_s: u32,
    /// Age above which exits, cancels and tightens are stale. Seconds.
    #[schemars(schema_with = "spoolgate_wire::schema::whole::<0, EXIT_AGE_S_MAX>")]
    pub exit_age_max_s: u32,
    /// Largest forward step of the clock between two runs; a larger one closes entries. Seconds.
    pub clock_gap_max_s: u32,
    /// Factor for limits on size and risk in risk mode `reduced`. Above 0 and below 1.
    #[serde(default = "half", deserialize_with = "amount::yaml::required")]
    #[schemars(schema_with = "spoolgate_wire::schema::amount_above_0_below_1")]
    pub reduced_risk_factor: Amount,
    /// Smallest confidence of a control decision that makes things riskier. From 0 to 1.
    #[serde(default = "nothing", deserialize_with = "amount::yaml::required")]
    #[schemars(schema_with = "spoolgate_wire::schema::amount_0_to_1")]
    pub control_confidence_min: Amount,
    /// How long an approver may grant a hold. Seconds.
    #[serde(default = "a_day_s")]
    #[schemars(schema_with = "spoolgate_wire::schema::whole::<1, HOLD_S_MAX>")]
    pub hold_expires_s: u32,
}

fn a_day_s() -> u32 {
    86_400
}

/// The dead man's switch.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeadMan {
    /// How long the gate must have watched without a request from the agent. Seconds.
    #[schemars(schema_with = "spoolgate_wire::schema::whole::<1, DEAD_MAN_TIMEOUT_S_MAX>")]
    pub timeout_s: u32,
    /// What the gate does then.
    pub action: DeadManAction,
}

spoolgate_wire::named! {
    /// What the dead man's switch does.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
    pub enum DeadManAction {
        /// Refuse the agent's entries and cancel its working ones.
        CloseNewOnly = "close_new_only",
        /// Also close its positions at the market.
        LiquidateAll = "liquidate_all",
    }
}

impl Safety {
    /// Returns the limit on exposure in one direction.
    pub fn same_direction(&self) -> Amount {
        self.max_same_direction_exposure
            .unwrap_or(self.max_total_exposure)
    }

    /// Returns the limit on exposure of one group.
    pub fn correlated_group(&self) -> Amount {
        self.max_correlated_group.unwrap_or(self.max_total_exposure)
    }
}

/// Parses a fractional default; every caller passes a valid literal.
fn fraction(text: &str) -> Amount {
    Amount::parse_wire(text).unwrap_or(Amount::ZERO)
}

fn positions() -> u32 {
    10
}

fn orders() -> u32 {
    50
}

fn entries() -> u32 {
    10
}

fn entries_of_all() -> u32 {
    30
}

fn messages() -> u32 {
    600
}

fn messages_of_all() -> u32 {
    3000
}

fn protected_messages() -> u32 {
    600
}

fn executions() -> u32 {
    50
}

fn hour() -> u32 {
    3600
}

fn losing() -> u32 {
    3
}

fn cooldown() -> u32 {
    300
}

fn half() -> Amount {
    fraction("0.5")
}

fn to_plan() -> Amount {
    fraction("0.005")
}

fn portfolio_risk() -> Amount {
    fraction("0.06")
}

fn weekly() -> Amount {
    Amount::from_i64(500)
}

fn nothing() -> Amount {
    Amount::ZERO
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bundle, Rulebook};

    const SHIPPED: &str = include_str!("../../../rules/safety.yaml");

    /// Limits that older homes do not have, with their defaults; empty if the default
    /// is not a number.
    const LATER: [(&str, &str); 21] = [
        ("max_weekly_loss", "500"),
        ("max_same_direction_exposure", ""),
        ("max_correlated_group", ""),
        ("max_portfolio_risk", "0.06"),
        ("slippage_to_plan", "0.005"),
        ("max_open_positions", "10"),
        ("max_open_orders", "50"),
        ("max_entries_per_minute", "10"),
        ("max_entries_per_minute_all", "30"),
        ("max_messages_per_minute", "600"),
        ("max_messages_per_minute_all", "3000"),
        ("max_protected_per_minute", "600"),
        ("restricted_instruments", ""),
        ("max_executions", "50"),
        ("executions_window_s", "3600"),
        ("max_losing_trades", "3"),
        ("cooldown_s", "300"),
        ("restricted", ""),
        ("reduced_risk_factor", "0.5"),
        ("control_confidence_min", "0"),
        ("hold_expires_s", "86400"),
    ];

    fn compile(safety: &str, instruments: &str, strategy: &str) -> Result<Rulebook, String> {
        let files = [
            ("rules/safety.yaml", safety.to_owned()),
            ("rules/instruments.yaml", instruments.to_owned()),
            ("rules/strategies/trend.yaml", strategy.to_owned()),
        ];
        let files = files.map(|(path, text)| (path.to_owned(), text));
        Rulebook::compile(&Bundle {
            files: files.into(),
        })
        .map_err(|error| error.to_string())
    }

    fn read(safety: &str) -> Result<Safety, String> {
        let instruments = include_str!("../../../rules/instruments.yaml");
        compile(
            safety,
            instruments,
            include_str!("../../../rules/strategies/trend.yaml"),
        )
        .map(|book| book.safety)
    }

    #[test]
    fn a_home_from_before_a_limit_loads_with_its_default() {
        let is_later = |line: &&str| {
            LATER
                .iter()
                .any(|(name, _)| line.starts_with(&format!("{name}:")))
        };
        let lines: Vec<&str> = SHIPPED.lines().filter(|line| !is_later(line)).collect();
        assert_eq!(
            lines.len() + LATER.len(),
            SHIPPED.lines().count(),
            "the shipped file says all of them"
        );
        let older = read(&lines.join("\n")).unwrap();
        assert_eq!(older.same_direction(), older.max_total_exposure);
        assert_eq!(older.correlated_group(), older.max_total_exposure);
        let mut told = older.clone();
        told.max_same_direction_exposure = Some(fraction("0.40"));
        told.max_correlated_group = Some(fraction("0.20"));
        assert_eq!(
            read(SHIPPED).unwrap(),
            told,
            "and nothing else stands there than the defaults"
        );
        let spelled: Vec<String> = LATER
            .iter()
            .filter(|(_, default)| !default.is_empty())
            .map(|(name, default)| format!("{name}: {default}"))
            .collect();
        assert_eq!(
            read(&format!("{}\n{}", lines.join("\n"), spelled.join("\n"))).unwrap(),
            older
        );
    }

    #[test]
    fn limits_that_make_no_sense_do_not_load() {
        for (name, wrong) in [
            ("max_weekly_loss", "0"),
            ("max_weekly_loss", "-500"),
            ("max_same_direction_exposure", "0"),
            ("max_correlated_group", "-0.1"),
            ("max_portfolio_risk", "6"),
            ("max_portfolio_risk", "0"),
            ("slippage_to_plan", "1.1"),
            ("slippage_to_plan", "0"),
            ("max_open_positions", "-1"),
            ("max_open_orders", "1.5"),
            ("max_messages_per_minute", "0"),
            ("max_messages_per_minute_all", "0"),
            ("max_protected_per_minute", "-1"),
            ("dead_man", "{timeout_s: 0, action: close_new_only}"),
            ("dead_man", "{timeout_s: 604801, action: close_new_only}"),
            ("dead_man", "{timeout_s: 1800, action: close}"),
            ("dead_man", "{timeout_s: 1800}"),
            (
                "dead_man",
                "{timeout_s: 1800, action: liquidate_all, after: 3}",
            ),
            ("dead_man", ""),
            ("restricted_instruments", "[BTC-UDS]"),
            ("restricted_instruments", "[BTC-USD, BTC-USD]"),
            ("restricted_instruments", "BTC-USD"),
            ("max_executions", "0"),
            ("max_executions", "1001"),
            ("executions_window_s", "0"),
            ("executions_window_s", "86401"),
            ("max_losing_trades", "0"),
            ("cooldown_s", "604801"),
            ("restricted", "[{from: \"12:00\", to: \"12:00\"}]"),
            ("restricted", "[{from: \"12:00\", to: \"24:00\"}]"),
            ("restricted", "[{from: \"12:00\"}]"),
            ("restricted", "[{from: \"12:00\", to: \"12:30\", days: []}]"),
            ("max_volume_share", "0"),
            ("max_volume_share", "1.1"),
        ] {
            let kept: Vec<&str> = SHIPPED
                .lines()
                .filter(|line| !line.starts_with(&format!("{name}:")))
                .collect();
            let error = read(&format!("{}\n{name}: {wrong}\n", kept.join("\n"))).unwrap_err();
            assert!(error.contains(name), "{name}: {wrong}: {error}");
        }
        for text in [
            "max_volume_share: 1",
            "max_volume_share: 0.0001",
            "dead_man: {timeout_s: 1, action: close_new_only}",
            "dead_man: {timeout_s: 604800, action: liquidate_all}",
        ] {
            assert!(read(&format!("{SHIPPED}\n{text}\n")).is_ok(), "{text}");
        }
    }

    #[test]
    fn groups_and_allocations_of_nothing_do_not_load() {
        let instruments = include_str!("../../../rules/instruments.yaml");
        let strategy = include_str!("../../../rules/strategies/trend.yaml");
        let grouped = |group: &str| format!("{}    group: {group}\n", instruments);
        let book = compile(
            SHIPPED,
            &grouped("coins"),
            &format!("{strategy}allocation: 0.3\n"),
        )
        .unwrap();
        assert_eq!(
            book.instruments.values().next().unwrap().group.as_deref(),
            Some("coins")
        );
        assert_eq!(
            book.strategies.values().next().unwrap().allocation,
            Some(fraction("0.3"))
        );
        for group in ["\"\"", "\" \""] {
            assert!(
                compile(SHIPPED, &grouped(group), strategy)
                    .unwrap_err()
                    .contains("`group` is empty")
            );
        }
        for (line, expect) in [
            ("allocation: 0", "`allocation` is 0"),
            ("allocation: -1", "`allocation` is -1"),
            (
                "restricted: [{from: \"01:00\", to: \"01:00\"}]",
                "`restricted` from 01:00",
            ),
        ] {
            let error = compile(SHIPPED, instruments, &format!("{strategy}{line}\n")).unwrap_err();
            assert!(
                error.starts_with("rules/strategies/trend.yaml") && error.contains(expect),
                "{error}"
            );
        }
    }
}
