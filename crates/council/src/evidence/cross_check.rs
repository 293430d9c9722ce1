//! The Realism Checker's checks of the headline figures against the simulation and the returns sent
//! with them.

use super::artifacts::Simulated;
use super::inputs::Inputs;
use super::metrics::Figure;
use super::realism::check;
use super::row::{Check, Row, number, rounded};
use super::stats::{series, sharpe, units};
use spoolgate_wire::council::{Axis, Severity};

static RC_08: Check = check(
    "RC-08",
    "Does the Monte Carlo simulation agree with the headline?",
    Severity::Major,
    Axis::RealisticNewness,
    "headline within 5 % and 95 %; sd of the Sharpe ratio against 1/sqrt(y)",
    "Re-run the Monte Carlo simulation over resampled data.",
);
static RC_09: Check = check(
    "RC-09",
    "Does the Sharpe ratio survive the autocorrelation of the returns?",
    Severity::Minor,
    Axis::Assumptions,
    "Ljung and Box 1978; AR(1) annualisation, Lo 2002",
    "State the Sharpe ratio adjusted for autocorrelation.",
);
static RC_10: Check = check(
    "RC-10",
    "Do the returns give the reported figures?",
    Severity::Blocker,
    Axis::CodeCorrectness,
    "recomputed: S = mean/sd sqrt(q), sd with n - 1; compounded return and drawdown",
    "Re-run backtest.",
);

pub(super) fn monte_carlo(inputs: &Inputs<'_>) -> Row {
    let mut row = Row::of(&RC_08);
    let simulated = match &inputs.monte_carlo {
        None => {
            row.miss("monte_carlo_stats");
            return row;
        }
        Some(Err(why)) => {
            row.miss("monte_carlo_stats");
            row.cannot_use(why.to_string());
            return row;
        }
        Some(Ok(simulated)) => simulated,
    };
    let mut compared = false;
    for (name, quantity) in [
        ("sharpe", simulated.sharpe),
        ("total_return", simulated.total_return),
    ] {
        let Some((low, high)) = quantity.p5.zip(quantity.p95) else {
            continue;
        };
        let Some(figure) = inputs.metrics.get(name) else {
            row.miss(name);
            continue;
        };
        compared = true;
        within(&mut row, name, figure, (low, high), quantity);
    }
    if !compared {
        row.miss("monte_carlo_stats");
        row.say("It states p5 and p95 of neither `sharpe` nor `total_return`.");
    }
    spread(inputs, &mut row, simulated.sharpe);
    row
}

fn within(row: &mut Row, name: &str, figure: &Figure, ends: (f64, f64), quantity: Simulated) {
    let (low, high, value) = (
        rounded(ends.0, 6),
        rounded(ends.1, 6),
        rounded(figure.value, 6),
    );
    let (low_shown, high_shown) = (low.normalized(), high.normalized());
    row.say(format!(
        "Simulated `{name}` lies within {low_shown} and {high_shown}; the headline is {}.",
        figure.text
    ));
    let mean_outside = quantity
        .mean
        .is_some_and(|mean| rounded(mean, 6) < low || rounded(mean, 6) > high);
    if !row.failed() {
        row.compared(value, format!("{low_shown} to {high_shown}"));
    }
    if low > high || mean_outside {
        row.fail(
            Severity::Major,
            format!("The simulated quantiles of `{name}` contradict each other."),
        );
    } else if value < low || value > high {
        row.fail(
            Severity::Major,
            format!(
                "The reported `{name}` of {} is outside of its own Monte Carlo range.",
                figure.text
            ),
        );
    } else {
        row.pass();
    }
}

fn spread(inputs: &Inputs<'_>, row: &mut Row, simulated: Simulated) {
    let Some(sd) = simulated.sd else {
        row.miss("monte_carlo_stats");
        row.say("It states no sd of `sharpe`.");
        return;
    };
    let Some(expected) = inputs.years(row).and_then(units::sampling_error) else {
        return;
    };
    let (sd, expected) = (rounded(sd, 4), rounded(expected, 4));
    let Some(least) = expected.checked_mul(*inputs.policy.monte_carlo_sd_share) else {
        return;
    };
    row.say(format!(
        "Simulated Sharpe ratios spread by {sd}; sampling alone spreads them by {expected}."
    ));
    if sd < least {
        if !row.failed() {
            row.compared(sd, least);
        }
        row.fail(
            Severity::Minor,
            "The Monte Carlo simulation varies too little: seeds, not data.".to_owned(),
        );
    }
}

pub(super) fn smoothing(inputs: &Inputs<'_>) -> Row {
    let (mut row, policy) = (Row::of(&RC_09), inputs.policy);
    let Some(returns) = sent_returns(inputs, &mut row) else {
        return row;
    };
    let periods = inputs.periods(&mut row);
    let lags = usize::try_from(*policy.smoothing_lags).unwrap_or(1);
    let first = series::autocorrelations(returns, 1).and_then(|rho| rho.first().copied());
    let Some(((_, p), rho)) = series::ljung_box(returns, lags).zip(first) else {
        row.cannot_use("`returns` is too short for the lags, or all are the same.");
        return row;
    };
    let (p, rho_shown) = (rounded(p, 6), rounded(rho, 4));
    row.say(format!(
        "Ljung-Box over {lags} lags has p = {p}, the first autocorrelation is {rho_shown}."
    ));
    if p >= *policy.smoothing_p || !rho_shown.is_positive() {
        row.compared(p, policy.smoothing_p);
        row.pass();
        return row;
    }
    let share =
        sharpe::lo_factor_ar1(periods, rho).and_then(|factor| units::per_period(factor, periods));
    let Some(share) = share.map(|share| rounded(share, 4)) else {
        row.cannot_use("The autocorrelation allows no adjustment.");
        return row;
    };
    row.say(format!(
        "Adjusted for it the Sharpe ratio is {share} of the plain one; {} is asked for.",
        policy.smoothing_share
    ));
    row.compared(share, policy.smoothing_share);
    if share < *policy.smoothing_share {
        row.fail(
            Severity::Minor,
            "The Sharpe ratio is inflated by autocorrelated returns.".to_owned(),
        );
    } else {
        row.pass();
    }
    row
}

fn sent_returns<'a>(inputs: &'a Inputs<'_>, row: &mut Row) -> Option<&'a [f64]> {
    match &inputs.returns {
        None => {
            row.miss("returns");
            None
        }
        Some(Err(why)) => {
            row.miss("returns");
            row.cannot_use(why.to_string());
            None
        }
        Some(Ok(returns)) => Some(returns),
    }
}

pub(super) fn recomputed(inputs: &Inputs<'_>) -> Row {
    let mut row = Row::of(&RC_10);
    let Some(returns) = sent_returns(inputs, &mut row) else {
        return row;
    };
    let periods = inputs.periods(&mut row);
    let compare = |row: &mut Row, name: &'static str, computed: Option<f64>| {
        let Some(quoted) = inputs.metrics.get(name) else {
            if name != "n_obs" {
                row.miss(name);
            }
            return;
        };
        let Some(computed) = computed else {
            row.cannot_use(format!("`{name}` cannot be computed from `returns`."));
            return;
        };
        let size = |value: f64| if name == "max_dd" { value.abs() } else { value };
        let slack = number(*inputs.policy.recompute_slack);
        let shown = rounded(size(computed), 4);
        row.say(format!(
            "`{name}` is {shown} from the returns and {} as reported.",
            quoted.text
        ));
        if series::same_within(size(computed), size(quoted.value), quoted.places(), slack) {
            row.pass();
        } else {
            if !row.failed() {
                row.compared(shown, &quoted.text);
            }
            let message = format!(
                "The reported `{name}` of {} does not follow from the returns.",
                quoted.text
            );
            row.fail(Severity::Blocker, message);
        }
    };
    let compounded = series::compound(returns);
    compare(
        &mut row,
        "sharpe",
        inputs
            .moments
            .map(|moments| units::annual(moments.sharpe(), periods)),
    );
    compare(
        &mut row,
        "total_return",
        compounded.map(|(total, _)| units::percent(total)),
    );
    compare(
        &mut row,
        "max_dd",
        compounded.map(|(_, deepest)| units::percent(deepest)),
    );
    compare(&mut row, "n_obs", Some(units::length(returns.len())));
    row
}
