//! The Realism Checker: is the result too good, or does it contradict itself?

use super::cross_check;
use super::inputs::Inputs;
use super::metrics::Figure;
use super::row::{Check, Row, number, rounded, vote};
use super::stats::{drawdown, plausibility, proportions, series, units};
use crate::finding::Evidence;
use spoolgate_rules::evidence::EvidencePolicy;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::council::{Axis, CouncilRequest, Severity};

/// The action that a failed check requires, unless the check has a more specific one.
const AGAIN: &str = "Re-run backtest.";

pub(super) const fn check(
    id: &'static str,
    question: &'static str,
    severity: Severity,
    axis: Axis,
    source: &'static str,
    action: &'static str,
) -> Check {
    Check {
        id,
        question,
        severity,
        axis,
        headline: false,
        source,
        action,
        grouped: false,
    }
}

static RC_01: Check = check(
    "RC-01",
    "Are the key metrics there, numbers, in range and in percent?",
    Severity::Blocker,
    Axis::Assumptions,
    "ranges of docs/council-evidence.md",
    "Correct the metrics that cannot be read.",
);
static RC_02: Check = Check {
    id: "RC-02",
    question: "Is the Sharpe ratio plausible?",
    severity: Severity::Major,
    axis: Axis::RealisticNewness,
    headline: true,
    source: "prior-predictive check, Box 1980: z = (S - m0)/sqrt(t0^2 + (1 + m0^2/2q)/y)",
    action: AGAIN,
    grouped: false,
};
static RC_03: Check = check(
    "RC-03",
    "Do the figures agree with each other and with the report?",
    Severity::Major,
    Axis::Assumptions,
    "signs; Calmar = CAGR/|drawdown|, CAGR = (1 + R)^(1/y) - 1; tables of the validation report",
    "Quote the figures that the validation report states.",
);
static RC_04: Check = check(
    "RC-04",
    "Are return, Sharpe ratio and drawdown possible together?",
    Severity::Major,
    Axis::RealisticNewness,
    "ln(1+R)/y <= S^2/2; law of the largest drawdown, Magdon-Ismail et al. 2004, at discrete marks",
    AGAIN,
);
static RC_05: Check = check(
    "RC-05",
    "Is the out-of-sample win rate above break-even?",
    Severity::Blocker,
    Axis::Overfitting,
    "break-even 1/(1 + payoff); Wilson's interval, Newcombe 1998",
    AGAIN,
);
static RC_06: Check = check(
    "RC-06",
    "Can the win rate come from so many trades?",
    Severity::Major,
    Axis::CodeCorrectness,
    "GRIM, Brown and Heathers 2017",
    AGAIN,
);
static RC_07: Check = check(
    "RC-07",
    "Are costs stated per trade, and is the edge well above them?",
    Severity::Major,
    Axis::Assumptions,
    "edge per trade against a multiple of its cost",
    AGAIN,
);
/// Computes the Realism Checker's vote.
pub fn realism_checker(request: &CouncilRequest, policy: &EvidencePolicy) -> Evidence {
    let inputs = Inputs::read(request, policy);
    let rows = vec![
        metrics_in_order(&inputs),
        plausible(&inputs),
        agreement(&inputs),
        jointly_possible(&inputs),
        win_rate(&inputs),
        integers(&inputs),
        costs(&inputs),
        cross_check::monte_carlo(&inputs),
        cross_check::smoothing(&inputs),
        cross_check::recomputed(&inputs),
    ];
    vote("Realism Checker", rows, policy)
}

fn metrics_in_order(inputs: &Inputs<'_>) -> Row {
    let mut row = Row::of(&RC_01);
    let metrics = &inputs.metrics;
    for fault in &metrics.faults {
        row.say(fault.clone());
    }
    if !metrics.unknown.is_empty() {
        row.say(format!("Not used: {}.", metrics.unknown.join(", ")));
    }
    let wanted = ["total_return", "sharpe", "max_dd", "oos_win_rate"];
    let absent = wanted
        .into_iter()
        .filter(|name| metrics.get(name).is_none());
    let absent: Vec<&'static str> = absent.collect();
    if let Some(first) = metrics.faults.first() {
        row.fail(
            Severity::Blocker,
            format!("A key metric cannot be used: {first}"),
        );
    } else if absent.is_empty() {
        row.say("All four are there and in range.");
        row.pass();
    }
    for name in absent {
        row.miss(name);
    }
    row
}

fn plausible(inputs: &Inputs<'_>) -> Row {
    let (mut row, policy) = (Row::of(&RC_02), inputs.policy);
    let Some(figure) = inputs.metrics.get("sharpe") else {
        row.miss("sharpe");
        return row;
    };
    let years = inputs.years_or_assumed(&mut row);
    let periods = inputs.periods(&mut row);
    let (mean, sd) = (policy.sharpe_prior_mean, policy.sharpe_prior_sd);
    let found =
        plausibility::sharpe_plausibility(figure.value, years, periods, number(*mean), number(*sd));
    let Some(found) = found else {
        row.cannot_use("The years allow no comparison.");
        return row;
    };
    let p = rounded(found.p, 6);
    row.say(format!(
        "A ratio of at least {} over {} years has probability {p} where true ratios are {mean} on \
            average with deviation {sd}; shrunk to that it is {}. Below {} it is implausible, \
            below {} doubtful.",
        figure.text,
        rounded(years, 2),
        rounded(found.posterior_mean, 2),
        policy.implausible_p,
        policy.doubtful_p
    ));
    if p < *policy.implausible_p {
        row.compared(p, policy.implausible_p);
        row.fail(
            Severity::Major,
            format!(
                "The reported Sharpe of {} is statistically implausible.",
                figure.text
            ),
        );
    } else if p < *policy.doubtful_p {
        row.compared(p, policy.doubtful_p);
        row.fail(
            Severity::Minor,
            format!(
                "The reported Sharpe of {} is statistically doubtful.",
                figure.text
            ),
        );
    } else {
        row.compared(p, policy.doubtful_p);
        row.pass();
    }
    row
}

fn agreement(inputs: &Inputs<'_>) -> Row {
    let mut row = Row::of(&RC_03);
    let metrics = &inputs.metrics;
    let (total, ratio) = (metrics.get("total_return"), metrics.get("sharpe"));
    for (name, figure) in [("total_return", total), ("sharpe", ratio)] {
        if figure.is_none() {
            row.miss(name);
        }
    }
    let years = inputs.years(&mut row);
    let mut conflicts = Vec::new();
    if let Some((total, ratio)) = total.zip(ratio) {
        conflicts.extend(sign_conflict(inputs, years, total, ratio));
    }
    if let Some((total, years)) = total.zip(years) {
        conflicts.extend(derived_conflicts(inputs, total.value, years));
    }
    conflicts.extend(span_conflict(inputs));
    let compared = compare_with_report(inputs, &mut row, &mut conflicts);
    if let Some(first) = conflicts.first() {
        let message = format!("The quoted figures contradict each other: {first}");
        for conflict in &conflicts {
            row.say(conflict.clone());
        }
        row.fail(Severity::Major, message);
    } else if total.is_some() && ratio.is_some() && years.is_some() && compared {
        row.say("They agree.");
        row.pass();
    }
    row
}

fn sign_conflict(
    inputs: &Inputs<'_>,
    years: Option<f64>,
    total: &Figure,
    ratio: &Figure,
) -> Option<String> {
    let policy = inputs.policy;
    let opposite = total.value > 0.0 && ratio.value < 0.0 || total.value < 0.0 && ratio.value > 0.0;
    if !opposite {
        return None;
    }
    let years = years.unwrap_or_else(|| number(*policy.assumed_years));
    let growth = plausibility::log_growth(total.value, years);
    let drag = growth.and_then(|growth| drawdown::implied_volatility(ratio.value, growth));
    if ratio.value > 0.0
        && drag.is_some_and(|volatility| rounded(volatility, 4) <= *policy.vol_drag_max)
    {
        return None;
    }
    Some(format!(
        "the total return is {} % and the Sharpe ratio {}.",
        total.text, ratio.text
    ))
}

/// Checks compound growth and Calmar ratio, if they are quoted.
fn derived_conflicts(inputs: &Inputs<'_>, total: f64, years: f64) -> Vec<String> {
    let metrics = &inputs.metrics;
    let slack = number(*inputs.policy.agreement_slack);
    let mut conflicts = Vec::new();
    let Some(growth) = plausibility::cagr_pct(total, years) else {
        return conflicts;
    };
    let mut compare = |name: &str, computed: f64, what: &str| {
        let Some(quoted) = metrics.get(name) else {
            return;
        };
        if !series::same_within(computed, quoted.value, quoted.places(), slack) {
            conflicts.push(format!(
                "{what} is quoted as {} and follows as {}.",
                quoted.text,
                rounded(computed, 2)
            ));
        }
    };
    compare("cagr", growth, "CAGR in percent");
    if let Some(ratio) = metrics
        .value("max_dd")
        .and_then(|drawdown| plausibility::calmar(growth, drawdown))
    {
        compare("calmar", ratio, "the Calmar ratio");
    }
    conflicts
}

fn span_conflict(inputs: &Inputs<'_>) -> Option<String> {
    let metrics = &inputs.metrics;
    let (years, n, periods) = (
        metrics.value("years")?,
        inputs.observations()?,
        metrics.value("periods_per_year")?,
    );
    let follows = units::ratio(n, periods)?;
    let slack = number(*inputs.policy.agreement_slack);
    let places = metrics.get("years").map_or(0, Figure::places);
    (!series::same_within(follows, years, places, slack)).then(|| {
        format!(
            "{n} returns at {periods} a year are {} years, not {years}.",
            rounded(follows, 2)
        )
    })
}

/// Returns whether a table had something to compare. A quoted figure must equal one of those that
/// the report states for it.
fn compare_with_report(inputs: &Inputs<'_>, row: &mut Row, conflicts: &mut Vec<String>) -> bool {
    let Some(report) = &inputs.report else {
        row.miss("validation_report");
        return false;
    };
    let mut compared = false;
    for (name, stated) in report {
        let Some(quoted) = inputs.metrics.get(name) else {
            continue;
        };
        compared = true;
        // A drawdown is written with or without its sign.
        let size = |value: f64| {
            if name.ends_with("max_dd") {
                value.abs()
            } else {
                value
            }
        };
        let equal = |figure: &Figure| {
            let places = quoted.places().min(figure.places());
            series::same_within(size(quoted.value), size(figure.value), places, 0.0)
        };
        if !stated.iter().any(equal) {
            let shown: Vec<&str> = stated
                .iter()
                .take(3)
                .map(|figure| figure.text.as_str())
                .collect();
            conflicts.push(format!(
                "`{name}` is quoted as {}, the report states {}.",
                quoted.text,
                shown.join(", ")
            ));
        }
    }
    if !compared {
        row.miss("validation_report");
        row.say("No table of the validation report states a quoted metric.");
    }
    compared
}

/// Horizons to try if none is stated, in tenths of a year.
const HORIZONS: std::ops::RangeInclusive<i64> = 1..=300;

fn jointly_possible(inputs: &Inputs<'_>) -> Row {
    let mut row = Row::of(&RC_04);
    let metrics = &inputs.metrics;
    let names = ["total_return", "sharpe", "max_dd"];
    let [total, ratio, drawdown] = names.map(|name| metrics.get(name));
    for (name, figure) in names.into_iter().zip([total, ratio, drawdown]) {
        if figure.is_none() {
            row.miss(name);
        }
    }
    let years = inputs.years(&mut row);
    let periods = inputs.periods(&mut row);
    let Some(((total, ratio), deepest)) = total.zip(ratio).zip(drawdown) else {
        return row;
    };
    let figures = Joint {
        total,
        ratio,
        deepest,
        periods,
    };
    let Some(years) = years else {
        say_horizons(inputs, &mut row, &figures);
        return row;
    };
    let slack = number(*inputs.policy.growth_slack);
    let Some(growth) = plausibility::log_growth(total.value, years) else {
        row.cannot_use("A total return of -100 % allows no comparison.");
        return row;
    };
    let bound = drawdown::growth_bound(units::rounded_from(ratio.value, ratio.places()));
    let (growth_shown, bound_shown) = (
        rounded(growth, 6),
        rounded(units::with_slack(bound, slack), 6),
    );
    row.say(format!(
        "Log growth is {growth_shown} a year; the Sharpe ratio permits {bound_shown}."
    ));
    row.compared(growth_shown, bound_shown);
    if growth_shown > bound_shown {
        row.fail(
            Severity::Major,
            "The total return is more than the Sharpe ratio permits.".to_owned(),
        );
        return row;
    }
    row.pass();
    let Some(p) = figures.drawdown_probability(years) else {
        row.say("The drawdown is not compared: no volatility follows from these figures.");
        return row;
    };
    let (p, least) = (rounded(p, 6), inputs.policy.drawdown_p);
    row.say(format!(
        "A drawdown of at most {} % has probability {p}; below {least} it is too small.",
        deepest.text
    ));
    row.compared(p, least);
    if p < *least {
        row.fail(
            Severity::Major,
            "The drawdown is too small for the return and the Sharpe ratio.".to_owned(),
        );
    }
    row
}

/// The three figures that must be possible together.
struct Joint<'a> {
    total: &'a Figure,
    ratio: &'a Figure,
    deepest: &'a Figure,
    periods: f64,
}

impl Joint<'_> {
    /// Returns the probability of a drawdown no larger than the reported one; `None` if the figures
    /// imply no volatility or the strategy does not grow.
    fn drawdown_probability(&self, years: f64) -> Option<f64> {
        let growth =
            plausibility::log_growth(self.total.value, years).filter(|growth| *growth > 0.0)?;
        let volatility = drawdown::implied_volatility(self.ratio.value, growth)?;
        let h = plausibility::log_drawdown(self.deepest.value)?;
        let h = drawdown::monitored_continuously(h, volatility, self.periods)?;
        drawdown::probability_at_most(h, growth, volatility, years)
    }
}

fn say_horizons(inputs: &Inputs<'_>, row: &mut Row, figures: &Joint<'_>) {
    let tenths = |tenths: i64| units::ratio(number(Amount::from_i64(tenths)), 10.0);
    let least = inputs.policy.drawdown_p;
    let possible = |years: &f64| {
        figures
            .drawdown_probability(*years)
            .is_some_and(|p| rounded(p, 6) >= *least)
    };
    if let Some(years) = HORIZONS.filter_map(tenths).find(possible) {
        row.say(format!(
            "The figures are consistent with a horizon above about {} years.",
            rounded(years, 1)
        ));
    } else {
        row.say("The figures are consistent with no horizon up to 30 years.");
    }
    for (years, name) in [(1.0, "one year"), (2.0, "two years")] {
        if let Some(p) = figures.drawdown_probability(years) {
            row.say(format!(
                "Over {name} so small a drawdown has probability {}.",
                rounded(p, 3)
            ));
        }
    }
}

fn win_rate(inputs: &Inputs<'_>) -> Row {
    let (mut row, policy) = (Row::of(&RC_05), inputs.policy);
    let payoff = inputs.metrics.value("payoff_ratio");
    let even = payoff.and_then(proportions::break_even).unwrap_or_else(|| {
        row.miss("payoff_ratio");
        number(*policy.break_even)
    });
    let Some(figure) = inputs.metrics.get("oos_win_rate") else {
        row.miss("oos_win_rate");
        return row;
    };
    let share = units::fraction(figure.value);
    let (rate, even_shown) = (rounded(share, 6), rounded(even, 6));
    let percent = rounded(figure.value, 6).normalized();
    row.say(format!(
        "The win rate is {percent} %, break-even is {} %.",
        rounded(units::percent(even), 4).normalized()
    ));
    row.compared(rate, even_shown);
    if rate < even_shown {
        row.fail(
            Severity::Blocker,
            format!("OOS win rate is only {percent}%."),
        );
    }
    let alpha = number(*policy.interval_alpha);
    let trades = inputs.metrics.count("oos_trades");
    if trades.is_none() {
        row.miss("oos_trades");
        if let Some(needed) = proportions::trades_to_clear(share, even, alpha) {
            row.say(format!(
                "It takes {needed} trades to clear break-even at this rate."
            ));
        }
    }
    let Some(trades) =
        trades.and_then(|trades| inputs.metrics.value("oos_trades").map(|n| (trades, n)))
    else {
        return row;
    };
    let Some((low, high)) = proportions::wilson(share, trades.1, alpha) else {
        row.cannot_use("No trades allow no interval.");
        return row;
    };
    let (low, high) = (rounded(low, 6), rounded(high, 6));
    row.say(format!(
        "Over {} trades it lies within {low} and {high}.",
        trades.0
    ));
    if rate < even_shown {
        return row;
    }
    row.compared(low, even_shown);
    if low < even_shown {
        let message = format!(
            "OOS win rate of {percent}% over {} trades does not clear break-even.",
            trades.0
        );
        row.fail(Severity::Major, message);
    } else {
        row.pass();
    }
    row
}

fn integers(inputs: &Inputs<'_>) -> Row {
    let mut row = Row::of(&RC_06);
    let metrics = &inputs.metrics;
    for (rate, trades, mandatory) in [
        ("oos_win_rate", "oos_trades", true),
        ("is_win_rate", "is_trades", false),
    ] {
        let (figure, n) = (metrics.get(rate), metrics.count(trades));
        let Some((figure, n)) = figure.zip(n) else {
            if mandatory {
                if figure.is_none() {
                    row.miss("oos_win_rate");
                }
                if n.is_none() {
                    row.miss("oos_trades");
                }
            }
            continue;
        };
        let Some((units, decimals)) = figure.units() else {
            row.cannot_use(format!(
                "`{rate}` has an exponent, so its decimals are unknown."
            ));
            continue;
        };
        match proportions::grim(units, decimals, n) {
            Some(wins) => {
                row.say(format!("{} % of {n} trades are {wins}.", figure.text));
                row.pass();
            }
            None => {
                row.say(format!(
                    "No number of wins among {n} trades is {} %.",
                    figure.text
                ));
                row.fail(
                    Severity::Major,
                    format!(
                        "A win rate of {}% cannot come from {n} trades.",
                        figure.text
                    ),
                );
            }
        }
    }
    if metrics.get("is_win_rate").is_none() || metrics.get("is_trades").is_none() {
        row.miss("in_sample");
    }
    row
}

fn costs(inputs: &Inputs<'_>) -> Row {
    let (mut row, policy) = (Row::of(&RC_07), inputs.policy);
    let (cost, edge) = (
        inputs.metrics.value("cost_per_trade"),
        inputs.metrics.value("edge_per_trade"),
    );
    let cost = cost.map(|cost| rounded(cost, 6));
    if edge.is_none() {
        row.miss("edge_per_trade");
    }
    let Some(cost) = cost else {
        row.miss("cost_per_trade");
        row.say("No cost per trade is stated.");
        row.fail(
            Severity::Minor,
            "Costs are not stated per trade.".to_owned(),
        );
        return row;
    };
    if !cost.is_positive() {
        row.say("The stated cost per trade is nothing.");
        row.fail(
            Severity::Minor,
            "Trades are taken to cost nothing.".to_owned(),
        );
    }
    let Some(edge) = edge.map(|edge| rounded(edge, 6)) else {
        return row;
    };
    let Some(least) = cost.checked_mul(*policy.cost_multiple) else {
        row.cannot_use("The cost is out of range.");
        return row;
    };
    row.say(format!(
        "The edge per trade is {edge} %, its cost {cost} %; more than {least} % is asked for."
    ));
    row.compared(edge, least);
    if edge > least {
        row.pass();
    } else {
        row.fail(
            Severity::Major,
            "The edge per trade does not cover its costs with a margin.".to_owned(),
        );
    }
    row
}
