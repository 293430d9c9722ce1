//! `rules/safety.yaml`: the limits that no agent and no rule can change.

use serde::Deserialize;

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
    /// A day's loss at which entries stop.
    #[serde(deserialize_with = "amount::yaml::required")]
    pub max_daily_loss: Amount,
    /// Drawdown from the peak at which entries stop until a person clears it, fraction of the peak.
    #[serde(deserialize_with = "amount::yaml::required")]
    pub max_drawdown: Amount,
    /// Largest notional of one order.
    #[serde(deserialize_with = "amount::yaml::required")]
    pub max_order_value: Amount,
    /// Distance of a limit price or trigger from the market on the aggressive side, fraction.
    #[serde(deserialize_with = "amount::yaml::required")]
    pub price_collar: Amount,
    /// The same on the passive side.
    #[serde(deserialize_with = "amount::yaml::required")]
    pub price_collar_passive: Amount,
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

fn half() -> Amount {
    Amount::parse_wire("0.5").unwrap_or(Amount::ONE)
}

fn nothing() -> Amount {
    Amount::ZERO
}
