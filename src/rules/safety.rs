//! `rules/safety.yaml`: the limits that no agent and no rule can change.

use serde::Deserialize;

use super::hours::Window;
use crate::wire::amount::{self, Amount};

/// Every limit of the home. Fractions are of the capital base or of a price (0.05 is 5%); money is in
/// the account's currency; durations are in seconds.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Safety {
    /// The capital base never exceeds this, whatever the account holds.
    #[serde(deserialize_with = "amount::yaml::required")]
    pub max_total_capital: Amount,
    /// Worst-case notional of one symbol, fraction of the capital base.
    #[serde(deserialize_with = "amount::yaml::required")]
    pub max_single_position: Amount,
    /// Risk of one trade to its stop, fraction of the capital base.
    #[serde(deserialize_with = "amount::yaml::required")]
    pub max_single_trade_risk: Amount,
    /// Worst-case notional of all symbols, fraction of the capital base.
    #[serde(deserialize_with = "amount::yaml::required")]
    pub max_total_exposure: Amount,
    /// Worst-case notional held in one direction, fraction of the capital base; absent: `max_total_exposure`.
    #[serde(default, deserialize_with = "amount::yaml::optional")]
    pub max_same_direction_exposure: Option<Amount>,
    /// Worst-case notional of the instruments of one `group`, fraction of the capital base; absent:
    /// `max_total_exposure`.
    #[serde(default, deserialize_with = "amount::yaml::optional")]
    pub max_correlated_group: Option<Amount>,
    /// Risk of everything open down to its stops, fraction of the capital base.
    #[serde(default = "portfolio_risk", deserialize_with = "amount::yaml::required")]
    pub max_portfolio_risk: Amount,
    /// A day's loss at which entries stop.
    #[serde(deserialize_with = "amount::yaml::required")]
    pub max_daily_loss: Amount,
    /// A week's loss, from Monday UTC, at which entries stop.
    #[serde(default = "weekly", deserialize_with = "amount::yaml::required")]
    pub max_weekly_loss: Amount,
    /// Drawdown from the peak at which entries stop until a person clears it, fraction of the peak.
    #[serde(deserialize_with = "amount::yaml::required")]
    pub max_drawdown: Amount,
    /// Largest notional of one order.
    #[serde(deserialize_with = "amount::yaml::required")]
    pub max_order_value: Amount,
    /// Largest share of the last bar's volume that one order may be; absent: there is no such check.
    #[serde(default, deserialize_with = "amount::yaml::optional")]
    pub max_volume_share: Option<Amount>,
    /// Most pairs of symbol and strategy with a position or a working entry.
    #[serde(default = "positions")]
    pub max_open_positions: u32,
    /// Most open orders, protective stops not counted.
    #[serde(default = "orders")]
    pub max_open_orders: u32,
    /// Most entries that one agent places within a minute.
    #[serde(default = "entries")]
    pub max_entries_per_minute: u32,
    /// Most entries that all agents place within a minute. What is remembered ends at 4096.
    #[serde(default = "entries_of_all")]
    pub max_entries_per_minute_all: u32,
    /// So many entries of a strategy executed within `executions_window_s` close it until a person clears it.
    #[serde(default = "executions")]
    pub max_executions: u32,
    /// The window of `max_executions`. Seconds.
    #[serde(default = "hour")]
    pub executions_window_s: u32,
    /// So many closed trades in a row that lose close their strategy until a person clears it.
    #[serde(default = "losing")]
    pub max_losing_trades: u32,
    /// No entry of a strategy within this of its last stop-out. Seconds.
    #[serde(default = "cooldown")]
    pub cooldown_s: u32,
    /// Times of day at which nobody enters.
    #[serde(default)]
    pub restricted: Vec<Window>,
    /// Distance of a limit price or trigger from the market on the aggressive side, fraction.
    #[serde(deserialize_with = "amount::yaml::required")]
    pub price_collar: Amount,
    /// The same on the passive side.
    #[serde(deserialize_with = "amount::yaml::required")]
    pub price_collar_passive: Amount,
    /// Distance of the worst entry price from the planned one, either way, fraction of the planned one.
    #[serde(default = "to_plan", deserialize_with = "amount::yaml::required")]
    pub slippage_to_plan: Amount,
    /// Largest spread, fraction of the middle price.
    #[serde(deserialize_with = "amount::yaml::required")]
    pub max_spread: Amount,
    /// Largest distance of the middle price from the last trade, fraction of the last trade.
    #[serde(deserialize_with = "amount::yaml::required")]
    pub max_mid_deviation: Amount,
    /// A quote may always be this old, even if two bars are shorter. Seconds.
    pub quote_age_floor_s: u32,
    /// Assumed slippage of a market entry, fraction.
    #[serde(deserialize_with = "amount::yaml::required")]
    pub entry_slippage: Amount,
    /// Assumed slippage of a protective stop, fraction of the stop price.
    #[serde(deserialize_with = "amount::yaml::required")]
    pub stop_slippage: Amount,
    /// No second entry with the same strategy, symbol, side, type, size and price within this. Seconds.
    pub duplicate_window_s: u32,
    /// Requests older than this are stale, unless the principal has its own bound. Seconds.
    pub request_age_max_s: u32,
    /// Requests further ahead of the gate's clock than this are stale. Seconds.
    pub request_ahead_max_s: u32,
    /// Exits, cancels and tightens older than this are stale. Seconds.
    pub exit_age_max_s: u32,
    /// A forward step of the clock between two runs beyond this closes entries. Seconds.
    pub clock_gap_max_s: u32,
    /// Limits on size and risk are multiplied by this in risk mode `reduced`. Above 0 and below 1.
    #[serde(default = "half", deserialize_with = "amount::yaml::required")]
    pub reduced_risk_factor: Amount,
    /// Control decisions that make things riskier need at least this confidence. From 0 to 1.
    #[serde(default = "nothing", deserialize_with = "amount::yaml::required")]
    pub control_confidence_min: Amount,
}

impl Safety {
    /// The limit on exposure in one direction.
    pub fn same_direction(&self) -> Amount {
        self.max_same_direction_exposure.unwrap_or(self.max_total_exposure)
    }

    /// The limit on exposure of one group.
    pub fn correlated_group(&self) -> Amount {
        self.max_correlated_group.unwrap_or(self.max_total_exposure)
    }
}

/// A default that is no whole number. The texts are constants that parse.
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
