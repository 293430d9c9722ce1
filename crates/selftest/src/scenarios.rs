//! One scenario per check: what it must pass, and the smallest change that it must refuse. A check
//! without a row here fails the self-test.

use super::bench::{Bench, VOLUME, amount};
use super::{Plan, orders, sizes, standings};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::control::RiskMode;

/// Builds the plan for a check on a bench; `None` if a figure is not exact.
pub(super) type Scenario = fn(&Bench<'_>) -> Option<Plan>;

/// Scenarios by check, in the order of the table of checks.
pub(super) const SCENARIOS: &[(&str, Scenario)] = &[
    ("request_freshness", standings::request_freshness),
    ("clock", standings::clock),
    ("rulebook", standings::rulebook),
    ("duplicate_order", standings::duplicate_order),
    ("instrument_allowed", orders::instrument_allowed),
    ("strategy_active", standings::strategy_active),
    ("thesis_valid", orders::thesis_valid),
    ("arithmetic_range", orders::arithmetic_range),
    ("price_tick", orders::price_tick),
    ("size_lot", sizes::size_lot),
    ("min_notional", sizes::min_notional),
    ("max_order_value", |bench| {
        sizes::too_large(bench, "max_order_value")
    }),
    ("max_order_size", |bench| {
        sizes::too_large(bench, "max_order_size")
    }),
    ("stop_required", orders::stop_required),
    ("stop_hostable", orders::stop_hostable),
    ("stop_distance", orders::stop_distance),
    ("target_valid", orders::target_valid),
    ("price_collar", orders::price_collar),
    ("slippage_to_plan", orders::slippage_to_plan),
    ("market_data", orders::market_data),
    ("max_single_trade_risk", |bench| {
        sizes::too_large(bench, "max_single_trade_risk")
    }),
    ("max_single_position", |bench| {
        sizes::too_large(bench, "max_single_position")
    }),
    ("max_total_exposure", |bench| {
        sizes::too_large(bench, "max_total_exposure")
    }),
    ("same_direction_exposure", |bench| {
        sizes::too_large(bench, "same_direction_exposure")
    }),
    ("correlated_group", sizes::correlated_group),
    ("strategy_allocation", sizes::strategy_allocation),
    ("max_portfolio_risk", |bench| {
        sizes::too_large(bench, "max_portfolio_risk")
    }),
    ("loss_budget", |bench| {
        sizes::too_large(bench, "loss_budget")
    }),
    ("gap_budget", |bench| sizes::too_large(bench, "gap_budget")),
    ("daily_turnover", standings::daily_turnover),
    ("daily_loss_halt", standings::daily_loss_halt),
    ("weekly_loss_halt", standings::weekly_loss_halt),
    ("drawdown_halt", standings::drawdown_halt),
    ("manual_halt", standings::manual_halt),
    ("dead_man", standings::dead_man),
    ("venue_alive", standings::venue_alive),
    ("max_open_positions", standings::max_open_positions),
    ("max_open_orders", standings::max_open_orders),
    ("buying_power", |bench| {
        sizes::too_large(bench, "buying_power")
    }),
    ("liquidity_participation", sizes::liquidity_participation),
    ("time_window", standings::time_window),
    ("order_rate", standings::order_rate),
    ("message_rate", standings::message_rate),
    ("repeated_execution", standings::repeated_execution),
    ("loss_streak", standings::loss_streak),
    ("reject_streak", standings::reject_streak),
    ("cooldown", standings::cooldown),
    ("order_age", standings::order_age),
    ("self_cross", orders::self_cross),
    ("symbol_halt", standings::symbol_halt),
    ("reduce_only", sizes::reduce_only),
    ("cancel_ok", orders::cancel_ok),
    ("tighten_ok", orders::tighten_ok),
];

/// The limit that the check must use according to the rule files, if it is a single figure: a check
/// that trips at another figure is wired to the wrong limit. `None` if it is not a single figure or
/// not exact.
pub(super) fn configured(check: &str, bench: &Bench<'_>) -> Option<Amount> {
    let (rules, instrument, strategy) = (bench.rules(), bench.instrument()?, bench.strategy()?);
    let safety = &rules.safety;
    let capital = *safety.max_total_capital;
    let of_capital = |fraction: Amount| capital.checked_mul(fraction);
    let whole = match check {
        "min_notional" => Some(*instrument.min_notional),
        "daily_loss_halt" => Some(-*safety.max_daily_loss),
        "weekly_loss_halt" => Some(-*safety.max_weekly_loss),
        "daily_turnover" => of_capital(*safety.max_daily_turnover),
        "drawdown_halt" => of_capital(*safety.max_drawdown),
        "max_open_positions" => Some(Amount::from(safety.max_open_positions)),
        "max_open_orders" => Some(Amount::from(safety.max_open_orders)),
        "buying_power" => Some(capital),
        "order_rate" => Some(Amount::from(
            safety
                .max_entries_per_minute
                .min(safety.max_entries_per_minute_all),
        )),
        "message_rate" => Some(Amount::from(
            *safety
                .max_messages_per_minute
                .min(safety.max_messages_per_minute_all),
        )),
        "repeated_execution" => Some(Amount::from(*safety.max_executions)),
        "loss_streak" => Some(Amount::from(*safety.max_losing_trades)),
        "reject_streak" => Some(Amount::from(*safety.max_rejects)),
        "order_age" => Some(Amount::from_i64(
            i64::from(*safety.max_order_age_s).checked_mul(1000)?,
        )),
        "cooldown" => Some(Amount::from_i64(
            i64::from(*safety.cooldown_s).checked_mul(1000)?,
        )),
        _ => None,
    };
    if whole.is_some() {
        return whole;
    }
    let full = match check {
        "max_order_value" => *safety.max_order_value,
        "max_order_size" => *instrument.max_size,
        "max_single_trade_risk" => of_capital(*safety.max_single_trade_risk)?,
        "max_single_position" => of_capital(*safety.max_single_position)?,
        "max_total_exposure" => of_capital(*safety.max_total_exposure)?,
        "same_direction_exposure" => of_capital(safety.same_direction())?,
        "correlated_group" => of_capital(safety.correlated_group())?,
        "strategy_allocation" => of_capital(*strategy.allocation?)?,
        "max_portfolio_risk" => of_capital(*safety.max_portfolio_risk)?,
        "loss_budget" => *safety.max_daily_loss.min(safety.max_weekly_loss),
        "gap_budget" => *safety.max_weekly_loss,
        "liquidity_participation" => amount(VOLUME)?.checked_mul(*safety.max_volume_share?)?,
        _ => return None,
    };
    let is_reduced = strategy.risk_mode == RiskMode::Reduced;
    if is_reduced {
        full.checked_mul(*safety.reduced_risk_factor)
    } else {
        Some(full)
    }
}
