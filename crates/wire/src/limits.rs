//! Limits that a person may override for a while, and the payloads for it.

use serde::{Deserialize, Serialize};

use super::amount::{self, Amount};
use super::time::Time;

crate::named! {
    /// A sum or a loss that `rules/safety.yaml` limits.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize,
        schemars::JsonSchema)]
    pub enum LimitName {
        /// Worst-case notional of one symbol, fraction of the capital base.
        SinglePosition = "max_single_position",
        /// Risk of one trade to its stop, fraction of the capital base.
        SingleTradeRisk = "max_single_trade_risk",
        /// Worst-case notional of all symbols, fraction of the capital base.
        TotalExposure = "max_total_exposure",
        /// Worst-case notional in one direction, fraction of the capital base.
        SameDirectionExposure = "max_same_direction_exposure",
        /// Worst-case notional of a group, fraction of the capital base.
        CorrelatedGroup = "max_correlated_group",
        /// Risk of everything open, fraction of the capital base.
        PortfolioRisk = "max_portfolio_risk",
        /// Loss of a UTC day, account currency.
        DailyLoss = "max_daily_loss",
        /// Loss of a week, account currency.
        WeeklyLoss = "max_weekly_loss",
        /// Notional of a UTC day, as a multiple of the capital base.
        DailyTurnover = "max_daily_turnover",
    }
}

impl LimitName {
    /// All of them, in the order of the table of checks.
    pub const ALL: [LimitName; 9] = [
        LimitName::SinglePosition,
        LimitName::SingleTradeRisk,
        LimitName::TotalExposure,
        LimitName::SameDirectionExposure,
        LimitName::CorrelatedGroup,
        LimitName::PortfolioRisk,
        LimitName::DailyLoss,
        LimitName::WeeklyLoss,
        LimitName::DailyTurnover,
    ];
}

/// `limits.override`: for a while a person sets another value of a limit.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OverrideLimit {
    /// The limit.
    #[serde(deserialize_with = "super::word")]
    pub limit: LimitName,
    /// Its value until then, in the unit that `rules/safety.yaml` has it in: at most twice the value
    /// there.
    #[serde(deserialize_with = "amount::wire::required")]
    #[schemars(schema_with = "crate::schema::amount_above_0")]
    pub value: Amount,
    /// When it ends: at most 24 h ahead.
    pub until: Time,
    /// The reason.
    #[schemars(schema_with = "crate::schema::said::<{ crate::admin::REASON_BYTES_MAX }>")]
    pub reason: String,
}

/// `limits.end`: an override ends now.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EndOverride {
    /// The limit.
    #[serde(deserialize_with = "super::word")]
    pub limit: LimitName,
    /// The reason.
    #[serde(default, deserialize_with = "super::admin::present")]
    #[schemars(schema_with = "crate::schema::said::<{ crate::admin::REASON_BYTES_MAX }>")]
    pub reason: Option<String>,
}
