//! The Quant Researcher: is the result good enough, given luck and the number of trials?

use super::inputs::Inputs;
use super::row::{Check, Row, number, rounded, vote};
use super::stats::{
    bootstrap, multiple, overfitting, plausibility, proportions, series, sharpe, units,
};
use crate::finding::Evidence;
use spoolgate_rules::evidence::EvidencePolicy;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::council::{Axis, CouncilRequest, Severity};

/// Maximum number of worthless trials that the search considers.
const TRIES_MAX: u64 = 1_000_000_000;

const fn check(
    id: &'static str,
    question: &'static str,
    severity: Severity,
    source: &'static str,
) -> Check {
    let action = "Extend the track record or count the trials honestly, then ask again.";
    Check {
        id,
        question,
        severity,
        axis: Axis::Overfitting,
        headline: false,
        source,
        action,
        grouped: true,
    }
}

const fn alone(
    id: &'static str,
    question: &'static str,
    severity: Severity,
    source: &'static str,
    action: &'static str,
) -> Check {
    Check {
        action,
        grouped: false,
        ..check(id, question, severity, source)
    }
}

static QR_01: Check = check(
    "QR-01",
    "Is the t-statistic of the Sharpe ratio beyond the hurdle?",
    Severity::Blocker,
    "t = S sqrt(y); Harvey, Liu and Zhu 2016",
);
static QR_02: Check = check(
    "QR-02",
    "Is the Sharpe ratio above 0 with the required probability?",
    Severity::Major,
    "probabilistic Sharpe ratio, Bailey and Lopez de Prado 2012, variance at the observed ratio",
);
static QR_03: Check = check(
    "QR-03",
    "Is it above what the best of all trials shows by luck?",
    Severity::Blocker,
    "deflated Sharpe ratio, Bailey and Lopez de Prado 2014",
);
static QR_04: Check = check(
    "QR-04",
    "Is the track record long enough?",
    Severity::Major,
    "minimum track record length, Bailey and Lopez de Prado 2012",
);
static QR_05: Check = check(
    "QR-05",
    "Is the backtest long enough for the number of trials?",
    Severity::Major,
    "minimum backtest length, Bailey, Borwein, Lopez de Prado and Zhu 2014",
);
static QR_06: Check = check(
    "QR-06",
    "What is left of the Sharpe ratio after the haircut?",
    Severity::Minor,
    "haircut for independent tests, Harvey and Liu 2015",
);
static QR_07: Check = alone(
    "QR-07",
    "Does the best configuration in sample stay good out of sample?",
    Severity::Blocker,
    "probability of backtest overfitting by CSCV, Bailey, Borwein, Lopez de Prado and Zhu 2017",
    "Select the configuration by a procedure whose choice holds out of sample.",
);
static QR_08: Check = alone(
    "QR-08",
    "Is the drop from in sample to out of sample within chance?",
    Severity::Blocker,
    "pooled two-proportion z of win counts; (S_is - S_oos)/sqrt(1/y_is + 1/y_oos)",
    "Explain the drop out of sample, or withdraw the in-sample result.",
);
static QR_09: Check = alone(
    "QR-09",
    "Are there enough out-of-sample trades?",
    Severity::Blocker,
    "count, against policy",
    "Collect more out-of-sample trades.",
);
static QR_10: Check = alone(
    "QR-10",
    "Is the Sharpe ratio above 0 in nearly all resampled histories?",
    Severity::Major,
    "stationary bootstrap, Politis and Romano 1994; block by Politis and White 2004, Patton et al. \
        2009; SplitMix64",
    "Extend the track record or count the trials honestly, then ask again.",
);
static QR_11: Check = alone(
    "QR-11",
    "Are training and test periods apart?",
    Severity::Blocker,
    "declared dates",
    "Enforce a strict train/test split with an embargo.",
);

/// Computes the Quant Researcher's vote. `trials_at_least` is the number of trials of this strategy
/// that the gate knows of.
pub fn quant_researcher(
    request: &CouncilRequest,
    policy: &EvidencePolicy,
    trials_at_least: u32,
) -> Evidence {
    let inputs = Inputs::read(request, policy);
    let rows = vec![
        t_statistic(&inputs),
        probabilistic(&inputs),
        deflated(&inputs, trials_at_least),
        track_record(&inputs),
        backtest_length(&inputs, trials_at_least),
        haircut(&inputs, trials_at_least),
        overfitting_probability(&inputs),
        drop_out_of_sample(&inputs),
        trades(&inputs),
        resampled(&inputs),
        periods_apart(&inputs),
    ];
    vote("Quant Researcher", rows, policy)
}

/// Fails as a blocker below `reject` and as a major below `least`; passes otherwise.
fn at_least(row: &mut Row, value: Amount, reject: Option<Amount>, least: Amount, message: String) {
    row.compared(value, least);
    if reject.is_some_and(|reject| value < reject) {
        row.fail(Severity::Blocker, message);
    } else if value < least {
        row.fail(Severity::Major, message);
    } else {
        row.pass();
    }
}

fn t_statistic(inputs: &Inputs<'_>) -> Row {
    let (mut row, policy) = (Row::of(&QR_01), inputs.policy);
    let (annual, years) = (inputs.figure(&mut row, "sharpe"), inputs.years(&mut row));
    let Some(annual) = annual else { return row };
    let Some(t) = years.and_then(|years| sharpe::t_statistic(annual, years)) else {
        if let Some(needed) = units::years_to_reach(number(*policy.t_hurdle), annual) {
            row.say(format!(
                "A Sharpe ratio of {} reaches t = {} after {} years.",
                rounded(annual, 2),
                policy.t_hurdle,
                rounded(needed, 2)
            ));
        }
        return row;
    };
    let t = rounded(t, 2);
    row.say(format!(
        "t is {t}; the hurdle is {}, and below {} it counts as luck.",
        policy.t_hurdle, policy.t_reject
    ));
    let message = format!("The t-statistic of the Sharpe ratio is only {t}.");
    at_least(
        &mut row,
        t,
        Some(*policy.t_reject),
        *policy.t_hurdle,
        message,
    );
    row
}

/// Sharpe ratio per period, number of returns, skew and kurtosis; missing inputs are recorded.
struct Observed {
    years: f64,
    periods: f64,
    sr: f64,
    n: f64,
    skew: f64,
    kurtosis: f64,
}

fn observed(inputs: &Inputs<'_>, row: &mut Row) -> Option<Observed> {
    let (annual, years) = (inputs.figure(row, "sharpe"), inputs.years(row));
    let (annual, years) = (annual?, years?);
    let periods = inputs.periods(row);
    let (skew, kurtosis) = inputs.shape(row);
    let (sr, n) = (
        units::per_period(annual, periods)?,
        inputs.count(years, periods),
    );
    Some(Observed {
        years,
        periods,
        sr,
        n,
        skew,
        kurtosis,
    })
}

fn probabilistic(inputs: &Inputs<'_>) -> Row {
    let (mut row, least) = (Row::of(&QR_02), inputs.policy.psr_min);
    let Some(o) = observed(inputs, &mut row) else {
        return row;
    };
    let Some(psr) = sharpe::psr(o.sr, 0.0, o.n, o.skew, o.kurtosis) else {
        row.cannot_use("The number of returns and their moments allow no probability.");
        return row;
    };
    let psr = rounded(psr, 4);
    row.say(format!(
        "The probability of a true Sharpe ratio above 0 is {psr}; {least} is required."
    ));
    let message = format!("The probabilistic Sharpe ratio is only {psr}.");
    at_least(&mut row, psr, None, *least, message);
    row
}

fn deflated(inputs: &Inputs<'_>, known: u32) -> Row {
    let (mut row, policy) = (Row::of(&QR_03), inputs.policy);
    let trials = inputs.trials(&mut row, known);
    let o = observed(inputs, &mut row);
    let Some((o, trials)) = o.zip(trials) else {
        return row;
    };
    let Some(variance) = inputs.trial_variance(&mut row, o.years, o.periods) else {
        return row;
    };
    let luck = sharpe::expected_max_sharpe(trials, variance);
    let per_period = units::ratio(variance, o.periods);
    let dsr = per_period.and_then(|v| sharpe::dsr(o.sr, o.n, o.skew, o.kurtosis, trials, v));
    let Some((dsr, luck)) = dsr.zip(luck) else {
        row.cannot_use("The number of returns, their moments and the trials allow no probability.");
        return row;
    };
    let (dsr, luck) = (rounded(dsr, 4), rounded(luck, 4));
    row.say(format!(
        "The best of {trials} worthless trials is expected to show {luck}; the probability of a \
            true Sharpe ratio above it is {dsr}, {} is required.",
        policy.dsr_min
    ));
    let message = format!("The deflated Sharpe ratio over {trials} trials is only {dsr}.");
    at_least(
        &mut row,
        dsr,
        Some(*policy.dsr_reject),
        *policy.dsr_min,
        message,
    );
    row
}

fn track_record(inputs: &Inputs<'_>) -> Row {
    let (mut row, policy) = (Row::of(&QR_04), inputs.policy);
    let Some(annual) = inputs.figure(&mut row, "sharpe") else {
        return row;
    };
    let years = inputs.years(&mut row);
    let periods = inputs.periods(&mut row);
    let (skew, kurtosis) = inputs.shape(&mut row);
    let benchmark = number(*policy.benchmark_sharpe);
    let needed = units::per_period(annual, periods)
        .zip(units::per_period(benchmark, periods))
        .and_then(|(sr, benchmark)| {
            sharpe::min_track_record(
                sr,
                benchmark,
                skew,
                kurtosis,
                number(*policy.track_record_alpha),
            )
        });
    let Some(needed) = needed else {
        row.cannot_use("The moments allow no minimum track record length.");
        return row;
    };
    let in_years = units::ratio(needed, periods).map(|years| rounded(years, 2));
    row.say(match in_years {
        Some(years) => format!(
            "Against {} it takes {} returns, which is {years} years.",
            policy.benchmark_sharpe,
            rounded(needed, 1)
        ),
        None => format!(
            "No track record is long enough: the Sharpe ratio does not exceed {}.",
            policy.benchmark_sharpe
        ),
    });
    let Some(years) = years else { return row };
    let (n, needed_shown) = (rounded(inputs.count(years, periods), 1), rounded(needed, 1));
    row.say(format!("There are {n}."));
    row.compared(
        n,
        if in_years.is_some() {
            needed_shown.to_string()
        } else {
            "no length".to_owned()
        },
    );
    if needed.is_finite() && n >= needed_shown {
        row.pass();
    } else {
        row.fail(
            Severity::Major,
            "The track record is too short for the reported Sharpe ratio.".to_owned(),
        );
    }
    row
}

fn backtest_length(inputs: &Inputs<'_>, known: u32) -> Row {
    let mut row = Row::of(&QR_05);
    let trials = inputs.trials(&mut row, known);
    let Some(annual) = inputs.figure(&mut row, "sharpe") else {
        return row;
    };
    let years = inputs.years(&mut row);
    let span = years.unwrap_or_else(|| number(*inputs.policy.assumed_years));
    let tries =
        sharpe::trials_expected_to_show(annual, span, TRIES_MAX).filter(|tries| *tries < TRIES_MAX);
    if let Some(tries) = tries {
        let tries = tries.saturating_add(1);
        row.say(format!(
            "Over {} years the best of {tries} worthless tries is expected to show {}.",
            rounded(span, 2),
            rounded(annual, 2)
        ));
    }
    let Some((years, trials)) = years.zip(trials) else {
        return row;
    };
    let needed = sharpe::min_backtest_years(trials, annual).map(|years| rounded(years, 2));
    let years = rounded(years, 2);
    let shown = needed.map_or("no length".to_owned(), |needed| needed.to_string());
    row.say(format!(
        "{trials} trials take {shown} years; there are {years}."
    ));
    row.compared(years, shown);
    if needed.is_some_and(|needed| years >= needed) {
        row.pass();
    } else {
        row.fail(
            Severity::Major,
            format!("The backtest is too short for {trials} trials."),
        );
    }
    row
}

fn haircut(inputs: &Inputs<'_>, known: u32) -> Row {
    let (mut row, least) = (Row::of(&QR_06), inputs.policy.haircut_min);
    let trials = inputs.trials(&mut row, known);
    let (annual, years) = (inputs.figure(&mut row, "sharpe"), inputs.years(&mut row));
    let Some(((annual, years), trials)) = annual.zip(years).zip(trials) else {
        return row;
    };
    let Some(cut) = multiple::haircut(annual, years, trials) else {
        row.cannot_use("The years and trials allow no haircut.");
        return row;
    };
    let left = rounded(cut.sharpe_independent, 4);
    row.say(format!(
        "After {trials} trials a Sharpe ratio of {left} is left; {least} is asked for."
    ));
    row.compared(left, least);
    if left < *least {
        row.fail(
            Severity::Minor,
            format!("After the haircut for {trials} trials a Sharpe ratio of {left} is left."),
        );
    } else {
        row.pass();
    }
    row
}

fn overfitting_probability(inputs: &Inputs<'_>) -> Row {
    let (mut row, policy) = (Row::of(&QR_07), inputs.policy);
    let configurations = match &inputs.trial_returns {
        None => {
            row.miss("trial_returns");
            return row;
        }
        Some(Err(why)) => {
            row.miss("trial_returns");
            row.cannot_use(why.to_string());
            return row;
        }
        Some(Ok(configurations)) => configurations,
    };
    let columns = u64::try_from(configurations.len()).unwrap_or(u64::MAX);
    if inputs
        .metrics
        .count("n_trials")
        .is_some_and(|stated| stated > columns)
    {
        row.miss("trial_returns");
        row.say(format!(
            "There are {columns} configurations, fewer than the trials that are stated."
        ));
    }
    if columns == 1 {
        row.say("Not applicable: there is one configuration.");
        return row;
    }
    let periods = configurations.first().map_or(0, Vec::len);
    let wanted = usize::try_from(*policy.pbo_blocks).unwrap_or(overfitting::BLOCKS_MAX);
    let found = overfitting::blocks_for(configurations.len(), periods, wanted)
        .and_then(|blocks| Some((blocks, overfitting::probability(configurations, blocks)?)));
    let Some((blocks, found)) = found else {
        row.cannot_use("`trial_returns` has too few periods for two halves.");
        return row;
    };
    let (pbo, losing) = (rounded(found.below_median, 4), rounded(found.losing, 4));
    row.say(format!(
        "Over {} halvings of {blocks} blocks the best of {columns} in sample is below the median \
            out of sample with probability {pbo} and loses with {losing}; at most {} is accepted.",
        found.choices, policy.pbo_max
    ));
    row.compared(pbo, policy.pbo_max);
    let message = format!("The probability of backtest overfitting is {pbo}.");
    if pbo >= *policy.pbo_reject {
        row.fail(Severity::Blocker, message);
    } else if pbo > *policy.pbo_max {
        row.fail(Severity::Major, message);
    } else {
        row.pass();
    }
    row
}

fn drop_out_of_sample(inputs: &Inputs<'_>) -> Row {
    let mut row = Row::of(&QR_08);
    let metrics = &inputs.metrics;
    let rates = metrics
        .value("is_win_rate")
        .zip(metrics.value("oos_win_rate"));
    let counts = metrics.count("is_trades").zip(metrics.count("oos_trades"));
    if let Some(((rate_in, rate_out), (n_in, n_out))) = rates.zip(counts) {
        let wins = proportions::nearest_wins(units::fraction(rate_in), n_in)
            .zip(proportions::nearest_wins(units::fraction(rate_out), n_out));
        match wins {
            Some((wins_in, wins_out)) => {
                // Rates that are both 0 or both 1 do not differ.
                let p = proportions::two_proportions(wins_in, n_in, wins_out, n_out)
                    .map_or(0.5, |(_, p)| p);
                let what =
                    format!("The win rate goes from {wins_in} of {n_in} to {wins_out} of {n_out}");
                compare_drop(inputs, &mut row, p, &what, "win rate");
            }
            None => row.cannot_use("The numbers of trades allow no comparison."),
        }
    } else {
        row.miss("in_sample");
        if metrics.get("oos_win_rate").is_none() {
            row.miss("oos_win_rate");
        }
        if metrics.get("oos_trades").is_none() {
            row.miss("oos_trades");
        }
    }
    let sharpes = metrics.value("is_sharpe").zip(metrics.value("oos_sharpe"));
    let spans = metrics.value("is_years").zip(metrics.value("oos_years"));
    if let Some(((inside, outside), (years_in, years_out))) = sharpes.zip(spans) {
        if let Some((_, p)) = plausibility::sharpe_drop(inside, years_in, outside, years_out) {
            let what = format!(
                "The Sharpe ratio goes from {} to {}",
                rounded(inside, 2),
                rounded(outside, 2)
            );
            compare_drop(inputs, &mut row, p, &what, "Sharpe ratio");
        }
    } else {
        row.miss("in_sample_sharpe");
    }
    let same = |a: &str, b: &str| {
        metrics
            .get(a)
            .zip(metrics.get(b))
            .is_some_and(|(a, b)| a.text == b.text)
    };
    if same("is_sharpe", "oos_sharpe")
        || same("is_win_rate", "oos_win_rate") && same("is_trades", "oos_trades")
    {
        row.say("In-sample and out-of-sample figures are the same to the digit.");
        row.fail(
            Severity::Major,
            "In-sample and out-of-sample figures are the same numbers.".to_owned(),
        );
    }
    row
}

fn compare_drop(inputs: &Inputs<'_>, row: &mut Row, p: f64, what: &str, name: &str) {
    let (policy, p) = (inputs.policy, rounded(p, 6));
    row.say(format!(
        "{what}: by chance with probability {p}; below {} it is none.",
        policy.drop_p
    ));
    if !row.failed() {
        row.compared(p, policy.drop_p);
    }
    let message = format!("The {name} drops out of sample beyond chance.");
    if p < *policy.drop_reject_p {
        row.compared(p, policy.drop_reject_p);
        row.fail(Severity::Blocker, message);
    } else if p < *policy.drop_p {
        row.fail(Severity::Major, message);
    } else {
        row.pass();
    }
}

fn trades(inputs: &Inputs<'_>) -> Row {
    let (mut row, policy) = (Row::of(&QR_09), inputs.policy);
    let Some(trades) = inputs.metrics.count("oos_trades") else {
        row.miss("oos_trades");
        return row;
    };
    row.say(format!(
        "{trades} out-of-sample trades; {} are asked for.",
        policy.trades_min
    ));
    row.compared(trades, policy.trades_min);
    let message = format!("There are only {trades} out-of-sample trades.");
    if trades < u64::from(*policy.trades_reject) {
        row.fail(Severity::Blocker, message);
    } else if trades < u64::from(*policy.trades_min) {
        row.fail(Severity::Minor, message);
    } else {
        row.pass();
    }
    row
}

fn resampled(inputs: &Inputs<'_>) -> Row {
    let (mut row, policy) = (Row::of(&QR_10), inputs.policy);
    let returns = match &inputs.returns {
        None => {
            row.miss("returns");
            return row;
        }
        Some(Err(why)) => {
            row.miss("returns");
            row.cannot_use(why.to_string());
            return row;
        }
        Some(Ok(returns)) => returns,
    };
    let periods = inputs.periods(&mut row);
    let block = series::optimal_block(returns).map(|(stationary, _)| stationary.max(1.0));
    let drawn = block.and_then(|block| {
        let (samples, seed) = (policy.bootstrap_samples, policy.bootstrap_seed);
        bootstrap::stationary_sharpes(returns, block, *samples, seed)
    });
    let low =
        drawn.and_then(|drawn| bootstrap::quantile(&drawn, number(*policy.bootstrap_quantile)));
    let Some((low, block)) = low.zip(block) else {
        row.cannot_use("`returns` has fewer than ten values, or all are the same.");
        return row;
    };
    let low = rounded(units::annual(low, periods), 4);
    row.say(format!(
        "Over {} samples of blocks of {} returns on average, the {} quantile of the annual Sharpe \
            ratio is {low}; it must be above 0.",
        policy.bootstrap_samples,
        rounded(block, 1),
        policy.bootstrap_quantile
    ));
    row.compared(low, 0);
    if low.is_positive() {
        row.pass();
    } else {
        row.fail(
            Severity::Major,
            "Resampled histories do not keep the Sharpe ratio above 0.".to_owned(),
        );
    }
    row
}

fn periods_apart(inputs: &Inputs<'_>) -> Row {
    let mut row = Row::of(&QR_11);
    let metrics = &inputs.metrics;
    let embargo = metrics.value("embargo");
    let Some((train_end, test_start)) = metrics.date("train_end").zip(metrics.date("test_start"))
    else {
        row.miss("dates");
        return row;
    };
    let days = test_start
        .since(train_end)
        .map_or(0, |span| i64::from(span.get_days()));
    row.say(format!(
        "Training ends on {train_end}, the test begins on {test_start}."
    ));
    if days <= 0 {
        row.compared(days, "1 day");
        row.fail(
            Severity::Blocker,
            "Training and test periods overlap.".to_owned(),
        );
        return row;
    }
    let Some(embargo) = embargo.map(|days| rounded(days, 0)) else {
        row.miss("dates");
        return row;
    };
    row.compared(days, format!("{embargo} days"));
    row.say(format!(
        "{days} days lie between them; the embargo is {embargo}."
    ));
    if !embargo.is_positive() {
        row.fail(
            Severity::Major,
            "There is no embargo between training and test.".to_owned(),
        );
    } else if Amount::from_i64(days) < embargo {
        row.fail(
            Severity::Major,
            "The declared embargo is longer than the gap between training and test.".to_owned(),
        );
    } else {
        row.pass();
    }
    row
}
