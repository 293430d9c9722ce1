//! `rules/safety.yaml`: the limits that no agent and no rule can change.

use serde::{Deserialize, Serialize};

use super::bounds::{
    AtLeast, Bounded, Count, Fraction, ONE, Positive, ProperFraction, Share, Slippage,
};
use super::hours::{self, Window};
use super::rulebook::RulebookError;
use super::yaml;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{Currency, Symbol};

/// Longest duplicate window, seconds. The book remembers accepted entries for this long.
pub const DUPLICATE_WINDOW_S_MAX: u32 = 600;

/// Largest `max_executions`: the book remembers this many executions per strategy.
pub const EXECUTIONS_MAX: u32 = 1000;

/// Longest window in which executions are counted, seconds.
pub const EXECUTIONS_WINDOW_S_MAX: u32 = 86_400;

/// Longest wait after a stop-out, seconds.
const COOLDOWN_S_MAX: u32 = 604_800;

/// Longest time that an agent may be silent before the dead man's switch trips, seconds.
const DEAD_MAN_TIMEOUT_S_MAX: u32 = 604_800;

/// Largest `exit_age_max_s`, seconds. Somebody who withholds request files for longer than a day
/// must not be able to release them afterwards.
const EXIT_AGE_S_MAX: u32 = 86_400;

/// Largest `control_age_max_s`, seconds.
const CONTROL_AGE_S_MAX: u32 = 86_400;

/// Largest `control_changes_per_hour`: the state remembers this many changes per concern.
const CONTROL_CHANGES_MAX: u32 = 100;

/// Longest `control_dwell_s`, seconds: changes are remembered for an hour.
const CONTROL_DWELL_S_MAX: u32 = 3600;

/// Longest time that a hold may wait for an approver, seconds.
const HOLD_S_MAX: u32 = 31 * 86_400;

/// Longest time that a working entry may stay, seconds: a year.
const ORDER_AGE_S_MAX: u32 = 31_536_000;

/// Longest time without prices before entries at a venue are pulled, seconds.
const BLIND_S_MAX: u32 = 86_400;

/// The least room that may be taken in advance, bytes.
const RESERVE_BYTES_MIN: u64 = 4 << 20;
/// Largest bounds on free space, bytes.
const STORAGE_BYTES_MAX: u64 = 1 << 40;

/// Every limit of a home. Fractions refer to the capital base or to a price (0.05 is 5%), money is
/// in the account's currency, and durations are in seconds.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Safety {
    /// The currency of the account: cash, limits, prices and fees are in it.
    #[serde(default = "Currency::usd")]
    pub currency: Currency,
    /// Upper bound of the capital base, however much the account holds.
    pub max_total_capital: Positive,
    /// Worst-case notional of one symbol, fraction of the capital base.
    pub max_single_position: Fraction,
    /// Risk of one trade to its stop, fraction of the capital base.
    pub max_single_trade_risk: Fraction,
    /// Worst-case notional of all symbols, fraction of the capital base.
    pub max_total_exposure: Positive,
    /// Worst-case notional in one direction, fraction of the capital base; if absent,
    /// `max_total_exposure`.
    #[serde(default, deserialize_with = "yaml::present")]
    #[schemars(with = "Positive")]
    pub max_same_direction_exposure: Option<Positive>,
    /// Worst-case notional of the instruments of one `group`, fraction of the capital base; if
    /// absent, `max_total_exposure`.
    #[serde(default, deserialize_with = "yaml::present")]
    #[schemars(with = "Positive")]
    pub max_correlated_group: Option<Positive>,
    /// Largest risk of everything that is open, down to its stops, fraction of the capital base.
    #[serde(default = "portfolio_risk")]
    pub max_portfolio_risk: Fraction,
    /// Loss within a UTC day at which entries stop.
    pub max_daily_loss: Positive,
    /// Loss within a week, from Monday UTC, at which entries stop.
    #[serde(default = "weekly")]
    pub max_weekly_loss: Positive,
    /// Notional of the day's entry fills, the working entries and an order, as a multiple of the
    /// capital base. The day is the UTC day.
    #[serde(default = "ten")]
    pub max_daily_turnover: Positive,
    /// A jump of the prices past every stop that the account must survive: that fraction of the
    /// worst case of all symbols is at most what may still be lost this week.
    #[serde(default = "tenth")]
    pub stress_gap: Fraction,
    /// How far above its limit a sum may drift before the newest working entries that add to it are
    /// pulled, fraction of the limit. New orders are refused at the limit itself.
    #[serde(default = "tenth")]
    pub pull_margin: Fraction,
    /// Time after which working entries at a venue are pulled if a sum that counts them has no
    /// price, because they can fill there unseen. Seconds.
    #[serde(default = "Bounded::<1, BLIND_S_MAX>::usual::<600>")]
    pub blind_s: Bounded<1, BLIND_S_MAX>,
    /// Age above which a working entry is pulled. Seconds.
    #[serde(default = "Bounded::<1, ORDER_AGE_S_MAX>::usual::<86_400>")]
    pub max_order_age_s: Bounded<1, ORDER_AGE_S_MAX>,
    /// Part of a limit from which on its use is a warning, which refuses nothing. Above 0 and at
    /// most 1.
    #[serde(default = "four_fifths")]
    pub warn_at: Fraction,
    /// Drawdown from the peak at which entries stop until a person clears it, fraction of the peak.
    pub max_drawdown: Fraction,
    /// Largest notional of one order.
    pub max_order_value: Positive,
    /// Largest share of the last bar's volume that one order may have; if absent, there is
    /// no such check.
    #[serde(default, deserialize_with = "yaml::present")]
    #[schemars(with = "Fraction")]
    pub max_volume_share: Option<Fraction>,
    /// Most pairs of symbol and strategy that may have a position or a working entry.
    #[serde(default = "whole::<10>")]
    pub max_open_positions: u32,
    /// Most open orders, not counting protective stops.
    #[serde(default = "whole::<50>")]
    pub max_open_orders: u32,
    /// Most entries that one agent may place within a minute.
    #[serde(default = "whole::<10>")]
    pub max_entries_per_minute: u32,
    /// Most entries that all agents together may place within a minute. The gate
    /// remembers at most 4096.
    #[serde(default = "whole::<30>")]
    pub max_entries_per_minute_all: u32,
    /// Most messages that one agent may send within a minute. Exits, cancels, tightens, halts,
    /// heartbeats and control decisions that only make things safer do not count.
    #[serde(default = "AtLeast::<1>::usual::<600>")]
    pub max_messages_per_minute: AtLeast<1>,
    /// Most messages that all agents together may send within a minute.
    #[serde(default = "AtLeast::<1>::usual::<3000>")]
    pub max_messages_per_minute_all: AtLeast<1>,
    /// Number of exits, cancels and tightens of one agent within a minute above which their check
    /// row says so. Only what changes nothing is then refused.
    #[serde(default = "whole::<600>")]
    pub max_protected_per_minute: u32,
    /// What happens when the gate has not heard from an agent for a while; if absent, nothing.
    #[serde(default, deserialize_with = "yaml::present")]
    #[schemars(with = "DeadMan")]
    pub dead_man: Option<DeadMan>,
    /// Instruments that no strategy may enter, even if its file lists them.
    #[serde(default)]
    #[schemars(extend("uniqueItems" = true))]
    pub restricted_instruments: Vec<Symbol>,
    /// Number of executed entries of one strategy within `executions_window_s` that closes the
    /// strategy to entries until a person clears it.
    #[serde(default = "Bounded::<1, EXECUTIONS_MAX>::usual::<50>")]
    pub max_executions: Bounded<1, EXECUTIONS_MAX>,
    /// The window of `max_executions`. Seconds.
    #[serde(default = "Bounded::<1, EXECUTIONS_WINDOW_S_MAX>::usual::<3600>")]
    pub executions_window_s: Bounded<1, EXECUTIONS_WINDOW_S_MAX>,
    /// Number of consecutive losing trades that closes a strategy to entries until a
    /// person clears it.
    #[serde(default = "AtLeast::<1>::usual::<3>")]
    pub max_losing_trades: AtLeast<1>,
    /// Number of consecutive refusals of a strategy's orders by their venues that closes the strategy
    /// to entries until a person clears it.
    #[serde(default = "AtLeast::<1>::usual::<5>")]
    pub max_rejects: AtLeast<1>,
    /// Time after a strategy's last stop-out during which it may not enter. Seconds.
    #[serde(default = "Bounded::<0, COOLDOWN_S_MAX>::usual::<300>")]
    pub cooldown_s: Bounded<0, COOLDOWN_S_MAX>,
    /// Times of day at which no strategy may enter.
    #[serde(default)]
    pub restricted: Vec<Window>,
    /// Largest distance of a limit price or trigger from the market on the aggressive
    /// side, fraction.
    pub price_collar: Fraction,
    /// Largest distance of a limit price or trigger from the market on the passive side, fraction.
    pub price_collar_passive: Fraction,
    /// Largest distance of the worst entry price from the planned one, in either direction,
    /// fraction of the planned price.
    #[serde(default = "to_plan")]
    pub slippage_to_plan: Fraction,
    /// Largest spread, fraction of the middle price.
    pub max_spread: Fraction,
    /// Largest distance of the middle price from the last trade, fraction of the last trade.
    pub max_mid_deviation: Fraction,
    /// Age that a quote may always have, even if two bars are shorter. Seconds.
    pub quote_age_floor_s: u32,
    /// Assumed slippage of a market entry, fraction.
    pub entry_slippage: Slippage,
    /// Assumed slippage of a protective stop, fraction of the stop price.
    pub stop_slippage: Slippage,
    /// Time within which a second entry with the same strategy, symbol, side, type, size and price
    /// is refused. Seconds.
    pub duplicate_window_s: Bounded<0, DUPLICATE_WINDOW_S_MAX>,
    /// Age above which requests are stale, unless the principal has its own bound. Seconds.
    pub request_age_max_s: u32,
    /// How far a request's timestamp may be ahead of the gate's clock. Seconds.
    pub request_ahead_max_s: u32,
    /// Age above which exits, cancels and tightens are stale. Seconds.
    pub exit_age_max_s: Bounded<0, EXIT_AGE_S_MAX>,
    /// Largest forward step of the clock between two runs; a larger one closes entries. Seconds.
    pub clock_gap_max_s: u32,
    /// Factor for limits on size and risk in risk mode `reduced`. Above 0 and below 1.
    #[serde(default = "half")]
    pub reduced_risk_factor: ProperFraction,
    /// Smallest confidence of a control decision that makes things riskier. From 0 to 1.
    #[serde(default = "nothing")]
    pub control_confidence_min: Share,
    /// Age of `requested_at` above which a control decision that makes things riskier is stale.
    /// Seconds.
    #[serde(default = "Bounded::<1, CONTROL_AGE_S_MAX>::usual::<900>")]
    pub control_age_max_s: Bounded<1, CONTROL_AGE_S_MAX>,
    /// Most control decisions of agents that are applied to one concern within an hour and make
    /// things riskier.
    #[serde(default = "Bounded::<1, CONTROL_CHANGES_MAX>::usual::<6>")]
    pub control_changes_per_hour: Bounded<1, CONTROL_CHANGES_MAX>,
    /// Time after such a decision during which agents may not make another one on the concern.
    /// Seconds.
    #[serde(default = "Bounded::<0, CONTROL_DWELL_S_MAX>::usual::<60>")]
    pub control_dwell_s: Bounded<0, CONTROL_DWELL_S_MAX>,
    /// How long an approver may grant a hold. Seconds.
    #[serde(default = "Bounded::<1, HOLD_S_MAX>::usual::<86_400>")]
    pub hold_expires_s: Bounded<1, HOLD_S_MAX>,
    /// How much of the cage this machine must enforce for a program to start in it.
    #[serde(default = "require")]
    pub cage: CageLevel,
    /// What the gate does before its disk is full.
    #[serde(default)]
    pub storage: StorageLimits,
    /// How the gate works with the bridges to venues.
    #[serde(default)]
    pub bridges: BridgeLimits,
}

/// The longest times that the gate may wait for a bridge, seconds.
const BRIDGE_S_MAX: u32 = 3600;
/// The highest rate of instructions to a bridge, per second.
const INSTRUCTIONS_PER_S_MAX: u32 = 100;

/// How the gate works with the bridges to venues.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BridgeLimits {
    /// Age of a bridge's last sign of life from which entries of its instruments are refused and
    /// pulled. Seconds.
    #[serde(default = "Bounded::<1, BRIDGE_S_MAX>::usual::<15>")]
    pub timeout_s: Bounded<1, BRIDGE_S_MAX>,
    /// How long a bridge may send an entry after the gate has instructed it. Seconds.
    #[serde(default = "Bounded::<1, BRIDGE_S_MAX>::usual::<10>")]
    pub entry_valid_s: Bounded<1, BRIDGE_S_MAX>,
    /// How long a protective stop counts as protection before its venue has confirmed it, or after
    /// the market has passed its trigger. Seconds.
    #[serde(default = "Bounded::<1, BRIDGE_S_MAX>::usual::<15>")]
    pub stop_confirm_s: Bounded<1, BRIDGE_S_MAX>,
    /// Instructions per second that one bridge gets at most, besides exits, pulls and flattens; four
    /// times as many at once.
    #[serde(default = "Bounded::<1, INSTRUCTIONS_PER_S_MAX>::usual::<5>")]
    pub instructions_per_s: Bounded<1, INSTRUCTIONS_PER_S_MAX>,
}

impl Default for BridgeLimits {
    fn default() -> BridgeLimits {
        BridgeLimits {
            timeout_s: Bounded::usual::<15>(),
            entry_valid_s: Bounded::usual::<10>(),
            stop_confirm_s: Bounded::usual::<15>(),
            instructions_per_s: Bounded::usual::<5>(),
        }
    }
}

/// Room on the gate's disk.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StorageLimits {
    /// Room that is taken in advance, for exits, cancels, tightens and halts on a full disk. Bytes.
    #[serde(default = "reserve")]
    pub reserve_bytes: Count<RESERVE_BYTES_MIN, STORAGE_BYTES_MAX>,
    /// Free space below which the gate only serves what makes things safer, and queries. Bytes.
    #[serde(default = "floor")]
    pub floor_bytes: Count<0, STORAGE_BYTES_MAX>,
}

impl Default for StorageLimits {
    fn default() -> StorageLimits {
        StorageLimits {
            reserve_bytes: reserve(),
            floor_bytes: floor(),
        }
    }
}

spoolgate_wire::named! {
    /// Which cage is enough for the programs that the gate starts.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
    pub enum CageLevel {
        /// No program starts if the kernel cannot close its files, calls and ports.
        Require = "require",
        /// Programs start with as much of the cage as the kernel has.
        Auto = "auto",
        /// Programs start without a cage.
        Off = "off",
    }
}

/// The dead man's switch.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeadMan {
    /// How long the gate must have watched without a request from the agent. Seconds.
    pub timeout_s: Bounded<1, DEAD_MAN_TIMEOUT_S_MAX>,
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
    /// Reads the file.
    ///
    /// # Errors
    /// Returns [`RulebookError`] for unknown keys and limits out of range.
    pub(crate) fn read(path: &str, text: &str) -> Result<Safety, RulebookError> {
        let safety: Safety = yaml::read(path, text)?;
        hours::check(path, &safety.restricted)?;
        Ok(safety)
    }

    /// Returns the limit on exposure in one direction.
    pub fn same_direction(&self) -> Amount {
        self.max_same_direction_exposure
            .unwrap_or(self.max_total_exposure)
            .get()
    }

    /// Returns the limit on exposure of one group.
    pub fn correlated_group(&self) -> Amount {
        self.max_correlated_group
            .unwrap_or(self.max_total_exposure)
            .get()
    }
}

/// Returns a default value.
fn whole<const VALUE: u32>() -> u32 {
    VALUE
}

fn half() -> ProperFraction {
    ProperFraction::usual::<{ ONE / 2 }>()
}

fn to_plan() -> Fraction {
    Fraction::usual::<{ ONE / 200 }>()
}

fn portfolio_risk() -> Fraction {
    Fraction::usual::<{ 6 * ONE / 100 }>()
}

fn tenth() -> Fraction {
    Fraction::usual::<{ ONE / 10 }>()
}

fn four_fifths() -> Fraction {
    Fraction::usual::<{ 8 * ONE / 10 }>()
}

fn ten() -> Positive {
    Positive::usual::<{ 10 * ONE }>()
}

fn weekly() -> Positive {
    Positive::usual::<{ 500 * ONE }>()
}

fn require() -> CageLevel {
    CageLevel::Require
}

fn reserve() -> Count<RESERVE_BYTES_MIN, STORAGE_BYTES_MAX> {
    Count::usual::<{ 16 << 20 }>()
}

fn floor() -> Count<0, STORAGE_BYTES_MAX> {
    Count::usual::<{ 256 << 20 }>()
}

fn nothing() -> Share {
    Share::usual::<0>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bundle, Rulebook};

    const SHIPPED: &str = include_str!("../../../rules/safety.yaml");

    /// Limits that older homes do not have, with their defaults; empty if the default
    /// is not a number.
    const LATER: [(&str, &str); 33] = [
        ("currency", "USD"),
        ("max_weekly_loss", "500"),
        ("max_daily_turnover", "10"),
        ("stress_gap", "0.1"),
        ("pull_margin", "0.1"),
        ("blind_s", "600"),
        ("max_order_age_s", "86400"),
        ("warn_at", "0.8"),
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
        ("max_rejects", "5"),
        ("cooldown_s", "300"),
        ("restricted", ""),
        ("reduced_risk_factor", "0.5"),
        ("control_confidence_min", "0"),
        ("control_age_max_s", "900"),
        ("control_changes_per_hour", "6"),
        ("control_dwell_s", "60"),
        ("hold_expires_s", "86400"),
        (
            "storage",
            "{reserve_bytes: 16777216, floor_bytes: 268435456}",
        ),
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
            "the shipped file has all of them"
        );
        let older = read(&lines.join("\n")).unwrap();
        assert_eq!(older.same_direction(), *older.max_total_exposure);
        assert_eq!(older.correlated_group(), *older.max_total_exposure);
        let mut written = older.clone();
        written.max_same_direction_exposure = Some(Positive::usual::<{ 4 * ONE / 10 }>());
        written.max_correlated_group = Some(Positive::usual::<{ 2 * ONE / 10 }>());
        assert_eq!(
            read(SHIPPED).unwrap(),
            written,
            "the shipped file has the defaults"
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
            ("max_daily_turnover", "0"),
            ("max_daily_turnover", "-10"),
            ("stress_gap", "0"),
            ("stress_gap", "1.1"),
            ("pull_margin", "0"),
            ("pull_margin", "1.0000000001"),
            ("blind_s", "0"),
            ("blind_s", "86401"),
            ("max_rejects", "0"),
            ("max_rejects", "-1"),
            ("max_order_age_s", "0"),
            ("max_order_age_s", "31536001"),
            ("warn_at", "0"),
            ("warn_at", "1.0000000001"),
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
            ("storage", "{floor_bytes: -1}"),
            ("storage", "{floor_bytes: 1099511627777}"),
            ("storage", "{reserve_bytes: 4194303}"),
            ("storage", "{reserve_bytes: 1099511627777}"),
            ("storage", "{room: 4194304}"),
            ("restricted_instruments", "[BTC-UDS]"),
            ("restricted_instruments", "[BTC-USD, BTC-USD]"),
            ("restricted_instruments", "BTC-USD"),
            ("max_executions", "0"),
            ("max_executions", "1001"),
            ("executions_window_s", "0"),
            ("executions_window_s", "86401"),
            ("max_losing_trades", "0"),
            ("cooldown_s", "604801"),
            ("control_age_max_s", "0"),
            ("control_age_max_s", "86401"),
            ("control_changes_per_hour", "0"),
            ("control_changes_per_hour", "101"),
            ("control_dwell_s", "-1"),
            ("control_dwell_s", "3601"),
            ("restricted", "[{from: \"12:00\", to: \"12:00\"}]"),
            ("restricted", "[{from: \"12:00\", to: \"24:00\"}]"),
            ("restricted", "[{from: \"12:00\"}]"),
            ("restricted", "[{from: \"12:00\", to: \"12:30\", days: []}]"),
            ("max_volume_share", "0"),
            ("currency", "\"\""),
            ("currency", "US DOLLAR"),
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
    fn empty_groups_and_allocations_do_not_load() {
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
            Some(Positive::usual::<{ 3 * ONE / 10 }>())
        );
        for group in ["\"\"", "\" \""] {
            assert!(
                compile(SHIPPED, &grouped(group), strategy)
                    .unwrap_err()
                    .contains("`group` is empty")
            );
        }
        for (line, expect) in [
            ("allocation: 0", "allocation` is `0`"),
            ("allocation: -1", "allocation` is `-1`"),
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
