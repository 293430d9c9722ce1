//! Limits that never refuse anything because another limit always refuses first, and limits that
//! let nothing pass. Compares the configured figures in pairs, at the largest possible capital
//! base: a smaller base makes its fractions smaller still, so a limit that they never reach stays
//! out of reach.

use std::collections::BTreeMap;

use serde::Serialize;

use spoolgate_rules::Rulebook;
use spoolgate_rules::instruments::{Instrument, MarketSource};
use spoolgate_rules::strategies::{Strategy, StrategyStatus};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::Symbol;

/// A limit without effect, or one that leaves room for nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NeverBinds {
    /// The limit, as its file names it.
    pub limit: String,
    /// Its value.
    pub value: Amount,
    /// The limit that is always reached first, with its figures.
    pub because: String,
    /// Whether nothing at all can pass.
    pub nothing_passes: bool,
}

struct Found(Vec<NeverBinds>);

impl Found {
    fn never(&mut self, limit: impl Into<String>, value: Amount, because: String) {
        self.0.push(NeverBinds {
            limit: limit.into(),
            value,
            because,
            nothing_passes: false,
        });
    }

    fn nothing(&mut self, limit: impl Into<String>, value: Amount, because: String) {
        self.0.push(NeverBinds {
            limit: limit.into(),
            value,
            because,
            nothing_passes: true,
        });
    }
}

/// All findings at these prices.
pub(super) fn find(rules: &Rulebook, prices: &BTreeMap<Symbol, Amount>) -> Vec<NeverBinds> {
    let mut found = Found(Vec::new());
    exposures(rules, &mut found);
    risks(rules, &mut found);
    losses(rules, &mut found);
    counts(rules, &mut found);
    for instrument in rules.instruments.values() {
        filters(
            rules,
            instrument,
            prices.get(&instrument.symbol).copied(),
            &mut found,
        );
    }
    for strategy in rules
        .strategies
        .values()
        .filter(|strategy| strategy.status != StrategyStatus::Paused)
    {
        of_strategy(rules, strategy, prices, &mut found);
    }
    found.0
}

fn whole(count: usize) -> Amount {
    Amount::from_i64(i64::try_from(count).unwrap_or(i64::MAX))
}

fn plain(amount: Amount) -> Amount {
    amount.normalized()
}

/// Compares fractions of the capital base with one another and with the number of instruments.
fn exposures(rules: &Rulebook, found: &mut Found) {
    let safety = &rules.safety;
    let (single, total) = (*safety.max_single_position, *safety.max_total_exposure);
    let count = rules.instruments.len();
    let Some(all) = single.checked_mul(whole(count)) else {
        return;
    };
    let of_all = || {
        format!(
            "{count} instruments at max_single_position {single} come to {}",
            plain(all)
        )
    };
    if single > total {
        found.never(
            "max_single_position",
            single,
            format!("max_total_exposure is {total}"),
        );
    } else if total > all {
        found.never("max_total_exposure", total, of_all());
    }
    let direction = safety.same_direction();
    if direction >= total && safety.max_same_direction_exposure.is_some() {
        let because = format!("max_total_exposure, which counts both directions, is {total}");
        found.never("max_same_direction_exposure", direction, because);
    } else if safety.max_same_direction_exposure.is_some() && direction > all {
        found.never("max_same_direction_exposure", direction, of_all());
    }
    let Some(group) = safety.max_correlated_group else {
        return;
    };
    let mut sizes: BTreeMap<&str, usize> = BTreeMap::new();
    for name in rules
        .instruments
        .values()
        .filter_map(|instrument| instrument.group.as_deref())
    {
        let size = sizes.entry(name).or_default();
        *size = size.saturating_add(1);
    }
    let most = sizes.values().copied().max().unwrap_or(0);
    let Some(of_group) = single.checked_mul(whole(most)) else {
        return;
    };
    if most == 0 {
        found.never(
            "max_correlated_group",
            *group,
            "no instrument has a `group`".to_owned(),
        );
    } else if *group >= total {
        found.never(
            "max_correlated_group",
            *group,
            format!("max_total_exposure is {total}"),
        );
    } else if *group > of_group {
        let because = format!(
            "the largest group has {most} instruments, which at max_single_position {single} come \
                to {}",
            plain(of_group)
        );
        found.never("max_correlated_group", *group, because);
    }
}

fn risks(rules: &Rulebook, found: &mut Found) {
    let safety = &rules.safety;
    let (trade, all) = (safety.max_single_trade_risk, safety.max_portfolio_risk);
    if trade > all {
        found.never(
            "max_single_trade_risk",
            *trade,
            format!("max_portfolio_risk is {all}"),
        );
    }
    let capital = safety.max_total_capital;
    for (name, loss) in [
        ("max_daily_loss", safety.max_daily_loss),
        ("max_weekly_loss", safety.max_weekly_loss),
    ] {
        if capital.checked_mul(*trade).is_some_and(|risk| risk > *loss) {
            let because = format!(
                "one trade may risk {} of {capital}; loss_budget refuses it at {name} of {loss}",
                plain(*trade)
            );
            found.never(
                "max_single_trade_risk",
                *trade,
                format!("{because}, while the capital base is whole"),
            );
        }
    }
    let value = safety.max_order_value;
    if let Some(position) = capital
        .checked_mul(*safety.max_single_position)
        .filter(|most| *value > *most)
    {
        let because = format!(
            "max_single_position {} of {capital} is {}",
            safety.max_single_position,
            plain(position)
        );
        found.never("max_order_value", *value, because);
    }
}

fn losses(rules: &Rulebook, found: &mut Found) {
    let safety = &rules.safety;
    let capital = safety.max_total_capital;
    for (name, loss) in [
        ("max_daily_loss", safety.max_daily_loss),
        ("max_weekly_loss", safety.max_weekly_loss),
    ] {
        if loss >= capital {
            found.never(
                name,
                *loss,
                format!("max_total_capital is {capital}: all of it is lost before"),
            );
        }
    }
    if *safety.max_drawdown >= Amount::ONE {
        let because = "the whole peak is lost before".to_owned();
        found.never("max_drawdown", *safety.max_drawdown, because);
    }
    let week = safety.max_daily_loss.checked_mul(Amount::from_i64(7));
    if let Some(week) = week.filter(|week| *safety.max_weekly_loss > *week) {
        let because = format!(
            "seven days at max_daily_loss {} come to {}",
            safety.max_daily_loss,
            plain(week)
        );
        found.never("max_weekly_loss", *safety.max_weekly_loss, because);
    }
}

fn counts(rules: &Rulebook, found: &mut Found) {
    let safety = &rules.safety;
    for (name, most) in [
        ("max_open_positions", safety.max_open_positions),
        ("max_open_orders", safety.max_open_orders),
        ("max_entries_per_minute", safety.max_entries_per_minute),
        (
            "max_entries_per_minute_all",
            safety.max_entries_per_minute_all,
        ),
        ("max_messages_per_minute", *safety.max_messages_per_minute),
        (
            "max_messages_per_minute_all",
            *safety.max_messages_per_minute_all,
        ),
    ] {
        if most == 0 {
            found.nothing(name, Amount::ZERO, "no entry is within it".to_owned());
        }
    }
    let pairs: usize = rules
        .strategies
        .values()
        .map(|strategy| strategy.instruments.len())
        .sum();
    if usize::try_from(safety.max_open_positions).is_ok_and(|most| most >= pairs) {
        let because = format!("the strategies list {pairs} instruments together");
        found.never(
            "max_open_positions",
            Amount::from(safety.max_open_positions),
            because,
        );
    }
    let (own, all) = (
        safety.max_entries_per_minute,
        safety.max_entries_per_minute_all,
    );
    let agents = rules
        .principals
        .values()
        .filter(|rule| !rule.strategies.is_empty())
        .count();
    let together = usize::try_from(own)
        .unwrap_or(usize::MAX)
        .saturating_mul(agents);
    if own > all {
        found.never(
            "max_entries_per_minute",
            Amount::from(own),
            format!("max_entries_per_minute_all is {all}"),
        );
    } else if usize::try_from(all).is_ok_and(|all| all >= together) {
        let because = format!("{agents} agents at max_entries_per_minute {own} come to {together}");
        found.never("max_entries_per_minute_all", Amount::from(all), because);
    }
    let (messages, of_all) = (
        safety.max_messages_per_minute,
        safety.max_messages_per_minute_all,
    );
    if messages > of_all {
        let because = format!("max_messages_per_minute_all is {of_all}");
        found.never("max_messages_per_minute", Amount::from(*messages), because);
    }
    // Every entry is a message.
    if own > *messages {
        let because = format!("max_messages_per_minute is {messages}");
        found.never("max_entries_per_minute", Amount::from(own), because);
    }
    let minutes = u64::from(*safety.executions_window_s)
        .div_ceil(60)
        .saturating_add(1);
    let within = minutes.saturating_mul(u64::from(own.min(all)));
    if u64::from(*safety.max_executions) > within {
        let because = format!(
            "{own} entries a minute come to {within} within {} s",
            safety.executions_window_s
        );
        found.never(
            "max_executions",
            Amount::from(*safety.max_executions),
            because,
        );
    }
    let two_bars = rules
        .instruments
        .values()
        .map(|instrument| instrument.bar_s.saturating_mul(2))
        .min();
    if let Some(bars) = two_bars.filter(|bars| *bars > safety.quote_age_floor_s) {
        let because = format!("two bars of every instrument are at least {bars} s");
        found.never(
            "quote_age_floor_s",
            Amount::from(safety.quote_age_floor_s),
            because,
        );
    }
}

/// Compares the filters of an instrument with the limits, at a price.
fn filters(rules: &Rulebook, instrument: &Instrument, price: Option<Amount>, found: &mut Found) {
    let (safety, symbol) = (&rules.safety, &instrument.symbol);
    let named = |field: &str| format!("{symbol}: {field}");
    let position = safety
        .max_total_capital
        .checked_mul(*safety.max_single_position);
    let most_money = position.map(|position| position.min(*safety.max_order_value));
    let least = instrument.min_size.max(instrument.lot).get();
    let most = *instrument.max_size;
    if least > most {
        found.nothing(named("min_size"), least, format!("max_size is {most}"));
    }
    if let Some(money) = most_money.filter(|money| *instrument.min_notional > *money) {
        let because = format!(
            "max_order_value is {}, max_single_position {} of {}",
            safety.max_order_value, safety.max_single_position, safety.max_total_capital
        );
        found.nothing(
            named("min_notional"),
            *instrument.min_notional,
            format!("{because}: at most {}", plain(money)),
        );
    }
    let double = instrument.half_spread.checked_add(*instrument.half_spread);
    if instrument.quotes_from == MarketSource::Bars
        && let Some(spread) = double.filter(|spread| *spread > *safety.max_spread)
    {
        let because = format!(
            "max_spread is {}, twice the half_spread {}",
            safety.max_spread,
            plain(spread)
        );
        found.nothing(named("half_spread"), *instrument.half_spread, because);
    }
    let each = price.and_then(|price| price.checked_mul(*instrument.multiplier));
    let (Some(each), Some(money), Some(price)) = (each, most_money, price) else {
        return;
    };
    if least.checked_mul(each).is_some_and(|value| value > money) {
        let because = format!(
            "at {price} it is worth more than the {} that an order may be",
            plain(money)
        );
        found.nothing(named("min_size"), least, because);
    } else if let Some(value) = most.checked_mul(each).filter(|value| *value > money) {
        let because = format!(
            "at {price} it is worth {}, and an order may be worth {}",
            plain(value),
            plain(money)
        );
        found.never(named("max_size"), most, because);
    }
    if least
        .checked_mul(each)
        .is_some_and(|value| value > *instrument.min_notional)
        && instrument.min_notional.is_positive()
    {
        let because = format!("at {price} the smallest size of {least} is worth more");
        found.never(named("min_notional"), *instrument.min_notional, because);
    }
}

fn of_strategy(
    rules: &Rulebook,
    strategy: &Strategy,
    prices: &BTreeMap<Symbol, Amount>,
    found: &mut Found,
) {
    let (safety, bounds) = (&rules.safety, &strategy.stop_distance);
    let named = |field: &str| format!("{}: {field}", strategy.name);
    if let Some(allocation) = strategy.allocation {
        let count = strategy.instruments.len();
        let all = safety.max_single_position.checked_mul(whole(count));
        if allocation >= safety.max_total_exposure {
            let because = format!("max_total_exposure is {}", safety.max_total_exposure);
            found.never(named("allocation"), *allocation, because);
        } else if let Some(all) = all.filter(|all| *allocation > *all) {
            let because = format!(
                "its {count} instruments at max_single_position {} come to {}",
                safety.max_single_position,
                plain(all)
            );
            found.never(named("allocation"), *allocation, because);
        }
    }
    for instrument in strategy
        .instruments
        .iter()
        .filter_map(|symbol| rules.instruments.get(symbol))
    {
        if let Some(loss) = most_lost(rules, strategy, instrument)
            .filter(|loss| *loss < *safety.max_single_trade_risk)
        {
            let because = format!(
                "a new position of {} of max_single_position {} with its stop at most {} away \
                    loses {} at most",
                instrument.symbol,
                safety.max_single_position,
                plain(*bounds.max),
                plain(loss.round_dp_up(6))
            );
            found.never(
                named("max_single_trade_risk"),
                *safety.max_single_trade_risk,
                because,
            );
        }
        let Some(price) = prices.get(&instrument.symbol) else {
            continue;
        };
        let ticks = Amount::from(instrument.min_stop_ticks).checked_mul(*instrument.tick);
        let (Some(ticks), Some(least), Some(most)) = (
            ticks,
            price.checked_mul(*bounds.min),
            price.checked_mul(*bounds.max),
        ) else {
            continue;
        };
        if ticks > most {
            let because = format!(
                "{}: its smallest distance of {} ticks is {} at {price}, and {} is at most {}",
                instrument.symbol,
                instrument.min_stop_ticks,
                plain(ticks),
                bounds.max,
                plain(most)
            );
            found.nothing(named("stop_distance max"), *bounds.max, because);
        } else if ticks > least {
            let because = format!(
                "{}: its smallest distance of {} ticks is {} at {price}, more than {}",
                instrument.symbol,
                instrument.min_stop_ticks,
                plain(ticks),
                plain(least)
            );
            found.never(named("stop_distance min"), *bounds.min, because);
        }
    }
}

/// The most that a new position of the largest size can lose at its stop, as a fraction of the
/// capital base. Per unit of notional: slippage of the entry, the stop distance, fees on both sides
/// and slippage of the stop; the stop of a short is more expensive than its entry.
fn most_lost(rules: &Rulebook, strategy: &Strategy, instrument: &Instrument) -> Option<Amount> {
    let safety = &rules.safety;
    let entry = Amount::ONE.checked_add(*safety.entry_slippage)?;
    let distance = strategy.stop_distance.max;
    let stop = Amount::ONE.checked_add(*distance)?;
    let fees = Amount::ONE
        .checked_add(stop)?
        .checked_mul(*instrument.taker_fee)?;
    let slip = stop.checked_mul(*safety.stop_slippage)?;
    let each = distance
        .checked_add(fees)?
        .checked_add(slip)?
        .checked_mul(entry)?;
    each.checked_mul(*safety.max_single_position)
}
