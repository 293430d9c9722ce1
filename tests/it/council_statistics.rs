//! The council's statistics against reference values of the standard packages, against the examples
//! that the papers print, and against another library's distribution functions.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use spoolgate_council::evidence::stats::multiple::{Adjustment, adjust};
use spoolgate_council::evidence::stats::{
    bootstrap, drawdown, multiple, overfitting, plausibility, proportions, revision, series,
    sharpe, special,
};
use statrs::distribution::{Beta, ChiSquared, ContinuousCDF, Normal, StudentsT};

use crate::kit::dice::Dice;

const REFERENCE: &str = include_str!("../data/council/reference_public.json");

/// Smaller differences do not count, as the file says.
const ABSOLUTE: f64 = 1e-12;

/// The families this file knows. A new one must be added here and in [`compute`].
const FAMILIES: [&str; 16] = [
    "bootstrap_sharpe",
    "drawdown_bm",
    "dsr_moments",
    "grim",
    "haircut_single",
    "is_oos_drop",
    "metric_consistency",
    "minbtl",
    "mintrl",
    "multiple_testing",
    "pbo",
    "psr_moments",
    "returns_series",
    "sharpe_plausibility",
    "sr_inference_2025",
    "win_rate",
];

/// The inputs of one case.
struct Inputs<'a> {
    inputs: &'a Value,
    all: &'a [Value],
}

impl Inputs<'_> {
    fn f(&self, name: &str) -> f64 {
        self.inputs[name]
            .as_f64()
            .unwrap_or_else(|| panic!("input `{name}` is not a number"))
    }

    fn u(&self, name: &str) -> u64 {
        self.inputs[name]
            .as_u64()
            .unwrap_or_else(|| panic!("input `{name}` is no count"))
    }

    fn list(&self, name: &str) -> Vec<f64> {
        floats(&self.inputs[name])
    }

    /// The returns of the case that this one names.
    fn returns_from(&self) -> Vec<f64> {
        let id = self.inputs["returns_from"].as_str().unwrap();
        let other = self.all.iter().find(|case| case["id"] == id).unwrap();
        floats(&other["inputs"]["returns"])
    }
}

fn floats(value: &Value) -> Vec<f64> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|value| value.as_f64().unwrap())
        .collect()
}

type Computed = BTreeMap<&'static str, Vec<f64>>;

fn one<const N: usize>(pairs: [(&'static str, Option<f64>); N]) -> Computed {
    pairs
        .into_iter()
        .filter_map(|(name, value)| Some((name, vec![value?])))
        .collect()
}

fn flag(value: bool) -> Option<f64> {
    Some(f64::from(u8::from(value)))
}

#[expect(clippy::too_many_lines, reason = "one arm per family of figures")]
fn compute(family: &str, i: &Inputs<'_>) -> Computed {
    match family {
        "psr_moments" => {
            let (sr, benchmark, n) = (i.f("sr"), i.f("sr_benchmark"), i.f("n"));
            let (skew, kurt) = (i.f("skew"), i.f("kurt"));
            one([
                ("psr", sharpe::psr(sr, benchmark, n, skew, kurt)),
                ("z", sharpe::psr_z(sr, benchmark, n, skew, kurt)),
            ])
        }
        "dsr_moments" => {
            let q = i.f("periods_per_year");
            let (trials, variance) = (i.f("n_trials"), i.f("var_trials_sr_annual"));
            let sr0 = sharpe::expected_max_sharpe(trials, variance / q);
            let sr = i.f("sr_annual") / q.sqrt();
            one([
                ("emax_z", sharpe::expected_max_z(trials)),
                ("sr0", sr0),
                ("sr0_annual", sharpe::expected_max_sharpe(trials, variance)),
                (
                    "dsr",
                    sharpe::dsr(sr, i.f("n"), i.f("skew"), i.f("kurt"), trials, variance / q),
                ),
            ])
        }
        "mintrl" => {
            let q = i.f("periods_per_year");
            let (sr, benchmark) = (
                i.f("sr_annual") / q.sqrt(),
                i.f("benchmark_annual") / q.sqrt(),
            );
            let n = sharpe::min_track_record(sr, benchmark, i.f("skew"), i.f("kurt"), i.f("alpha"));
            one([
                ("n_obs_raw", n),
                ("n_obs_ceil", n.map(f64::ceil)),
                ("years", n.map(|n| n / q)),
            ])
        }
        "minbtl" => one([
            (
                "years",
                sharpe::min_backtest_years(i.f("n_trials"), i.f("target_sr_annual")),
            ),
            ("emax_z", sharpe::expected_max_z(i.f("n_trials"))),
        ]),
        "sr_inference_2025" => {
            let returns = revision::Returns {
                n: i.f("n"),
                skew: i.f("skew"),
                kurtosis: i.f("kurt"),
                rho: i.f("rho"),
            };
            let (level, prior) = (i.f("alpha"), i.f("p_h1"));
            let found =
                revision::inference(i.f("sr"), i.f("sr0"), i.f("sr1"), returns, level, prior)
                    .unwrap();
            one([
                ("sd_sr", Some(found.sd)),
                ("psr", Some(found.psr)),
                ("mintrl", Some(found.min_track_record)),
                ("sr_critical", Some(found.critical)),
                ("power", Some(found.power)),
                ("beta", Some(found.beta)),
                ("pfdr", Some(found.planned_fdr)),
                ("ofdr", Some(found.observed_fdr)),
            ])
        }
        "haircut_single" => haircut(i),
        "multiple_testing" => {
            let p = i.list("p_values");
            [
                ("bonferroni", Adjustment::Bonferroni),
                ("holm", Adjustment::Holm),
                ("sidak", Adjustment::Sidak),
                ("fdr_bh", Adjustment::BenjaminiHochberg),
                ("fdr_by", Adjustment::BenjaminiYekutieli),
                ("bhy_harvey_liu", Adjustment::HarveyLiu),
            ]
            .into_iter()
            .map(|(name, how)| (name, adjust(&p, how).unwrap()))
            .collect()
        }
        "win_rate" => win_rate(i),
        "is_oos_drop" => {
            let (a, b, c, d) = (i.u("is_wins"), i.u("is_n"), i.u("oos_wins"), i.u("oos_n"));
            let (z, p) = proportions::two_proportions(a, b, c, d).unwrap();
            one([
                ("z", Some(z)),
                ("p_one_sided", Some(p)),
                ("fisher_p_greater", proportions::fisher(a, b, c, d)),
            ])
        }
        "drawdown_bm" => {
            let (mu, sigma, years) = (i.f("mu"), i.f("sigma"), i.f("years"));
            one([
                (
                    "p_mdd_le_h",
                    drawdown::probability_at_most(i.f("h"), mu, sigma, years),
                ),
                ("expected_mdd", drawdown::expected(mu, sigma, years)),
            ])
        }
        "returns_series" => returns_series(i),
        "bootstrap_sharpe" => {
            let block = i.f("expected_block");
            let drawn = bootstrap::stationary_sharpes(&i.returns_from(), block, 20_000, 1).unwrap();
            one([
                ("se_sr", series::variance(&drawn).map(f64::sqrt)),
                ("q025", bootstrap::quantile(&drawn, 0.025)),
                ("q975", bootstrap::quantile(&drawn, 0.975)),
            ])
        }
        "pbo" => {
            let rows: Vec<Vec<f64>> = i.inputs["returns_config_by_time"]
                .as_array()
                .unwrap()
                .iter()
                .map(floats)
                .collect();
            let blocks = usize::try_from(i.u("n_splits")).unwrap();
            let found = overfitting::probability(&rows, blocks).unwrap();
            one([
                ("pbo_lt0", Some(found.below_median)),
                ("pbo_le0", Some(found.at_or_below_median)),
                (
                    "n_combos",
                    Some(f64::from(u32::try_from(found.choices).unwrap())),
                ),
                ("slope", found.slope),
                ("logit_mean", Some(found.logit_mean)),
                ("logit_median", Some(found.logit_median)),
                ("prob_oos_loss", Some(found.losing)),
            ])
        }
        "sharpe_plausibility" => {
            let (years, q) = (i.f("years"), i.f("periods_per_year"));
            let found = plausibility::sharpe_plausibility(
                i.f("sr_annual"),
                years,
                q,
                i.f("prior_mean"),
                i.f("prior_sd"),
            )
            .unwrap();
            one([
                ("z", Some(found.z)),
                ("p_prior_predictive", Some(found.p)),
                ("posterior_mean", Some(found.posterior_mean)),
                ("posterior_sd", Some(found.posterior_sd)),
            ])
        }
        "grim" => {
            let decimals = u32::try_from(i.u("decimals")).unwrap();
            let rate = i.f("win_rate_pct");
            let digits = format!("{rate:.*}", usize::try_from(decimals).unwrap()).replace('.', "");
            let wins = proportions::grim(digits.parse().unwrap(), decimals, i.u("n"));
            let shown = wins.map_or(-1.0, |wins| f64::from(u32::try_from(wins).unwrap()));
            one([("consistent", flag(wins.is_some())), ("wins", Some(shown))])
        }
        "metric_consistency" => metric_consistency(i),
        _ => panic!("family `{family}` is unknown here"),
    }
}

fn haircut(i: &Inputs<'_>) -> Computed {
    let (annual, n, q, tests) = (
        i.f("sr_annual"),
        i.f("n"),
        i.f("periods_per_year"),
        i.f("n_tests"),
    );
    let cut = multiple::haircut(annual, n / q, tests).unwrap();
    one([
        ("t_stat", Some(cut.t)),
        ("p_single_normal", Some(cut.p_single)),
        ("p_single_t", multiple::p_by_student(cut.t, n)),
        ("p_bonferroni", Some(cut.p_bonferroni)),
        ("hsr_bonferroni", Some(cut.sharpe_bonferroni)),
        (
            "haircut_bonferroni",
            Some(1.0 - cut.sharpe_bonferroni / annual),
        ),
        ("p_independent", Some(cut.p_independent)),
        ("hsr_independent", Some(cut.sharpe_independent)),
        (
            "haircut_independent",
            Some(1.0 - cut.sharpe_independent / annual),
        ),
        (
            "hsr_bonferroni_t",
            multiple::haircut_by_student(annual, n, q, tests),
        ),
    ])
}

fn win_rate(i: &Inputs<'_>) -> Computed {
    let (wins, n, alpha) = (i.u("wins"), i.u("n"), i.f("alpha"));
    let p = i.f("wins") / i.f("n");
    let wilson = proportions::wilson(p, i.f("n"), alpha).unwrap();
    let exact = proportions::clopper_pearson(wins, n, alpha).unwrap();
    let jeffreys = proportions::jeffreys(wins, n, alpha).unwrap();
    let (greater, less) = proportions::binomial_tails(wins, n, i.f("p0")).unwrap();
    one([
        ("wilson_lo", Some(wilson.0)),
        ("wilson_hi", Some(wilson.1)),
        ("cp_lo", Some(exact.0)),
        ("cp_hi", Some(exact.1)),
        ("jeffreys_lo", Some(jeffreys.0)),
        ("jeffreys_hi", Some(jeffreys.1)),
        ("binom_p_greater", Some(greater)),
        ("binom_p_less", Some(less)),
    ])
}

fn returns_series(i: &Inputs<'_>) -> Computed {
    let (returns, trials, q) = (
        i.list("returns"),
        i.list("trial_sharpes"),
        i.f("periods_per_year"),
    );
    let m = series::Moments::of(&returns).unwrap();
    let sr = m.sharpe();
    let (total, deepest) = series::compound(&returns).unwrap();
    let (skew, kurt) = (m.skew_corrected().unwrap(), m.kurtosis_corrected().unwrap());
    let acf1 = series::autocorrelations(&returns, 1).unwrap()[0];
    let eta = sharpe::lo_factor_ar1(q, acf1).unwrap();
    let (lb_q, lb_p) = series::ljung_box(&returns, 10).unwrap();
    let (stationary, circular) = series::optimal_block(&returns).unwrap();
    let n_trials = f64::from(u32::try_from(trials.len()).unwrap());
    let variance = series::variance(&trials).unwrap();
    one([
        ("mean", Some(m.mean)),
        ("sd_ddof1", Some(m.sd)),
        ("sr", Some(sr)),
        ("sr_annual_iid", Some(sr * q.sqrt())),
        ("skew_biased", Some(m.skew)),
        ("kurt_biased", Some(m.kurtosis)),
        ("max_drawdown_compound", Some(deepest)),
        ("total_return", Some(total)),
        (
            "psr0_skfolio",
            sharpe::psr(sr, 0.0, m.n, m.skew, m.kurtosis),
        ),
        (
            "psr0_purgedcv",
            sharpe::psr(m.mean / m.sd_biased, 0.0, m.n, skew, kurt),
        ),
        ("psr0_quantstats", sharpe::psr(sr, 0.0, m.n, skew, kurt)),
        (
            "dsr_skfolio",
            sharpe::dsr(sr, m.n, m.skew, m.kurtosis, n_trials, variance),
        ),
        ("sr_annual_quantstats", Some(sr * q.sqrt())),
        ("acf1", Some(acf1)),
        ("lo_eta_ar1", Some(eta)),
        ("sr_annual_lo_ar1", Some(sr * eta)),
        ("ljung_box_q10", Some(lb_q)),
        ("ljung_box_p10", Some(lb_p)),
        ("optimal_block_stationary", Some(stationary)),
        ("optimal_block_circular", Some(circular)),
        (
            "stationary_boot_var_sqrtn_mean_p10",
            series::stationary_variance(&returns, i.f("stationary_p")),
        ),
    ])
}

fn metric_consistency(i: &Inputs<'_>) -> Computed {
    let (total, s, dd) = (i.f("total_return_pct"), i.f("sharpe"), i.f("max_dd_pct"));
    let (years, q) = (i.f("years"), i.f("periods_per_year"));
    let g = plausibility::log_growth(total, years).unwrap();
    let h = plausibility::log_drawdown(dd).unwrap();
    let feasible = g <= drawdown::growth_bound(s);
    let vol = drawdown::implied_volatility(s, g);
    let shifted = vol.and_then(|vol| drawdown::monitored_continuously(h, vol, q));
    one([
        ("log_growth_per_year", Some(g)),
        ("kelly_growth_bound", Some(drawdown::growth_bound(s))),
        ("feasible", flag(feasible)),
        ("implied_vol", vol),
        ("t_stat", sharpe::t_statistic(s, years)),
        ("h_log", Some(h)),
        ("h_shifted", shifted),
        (
            "p_mdd_le_reported",
            vol.zip(shifted)
                .and_then(|(vol, h)| drawdown::probability_at_most(h, g, vol, years)),
        ),
        (
            "expected_mdd",
            vol.and_then(|vol| drawdown::expected(g, vol, years)),
        ),
        (
            "calmar",
            plausibility::cagr_pct(total, years).and_then(|cagr| plausibility::calmar(cagr, dd)),
        ),
    ])
}

fn expected(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(values) => values.iter().flat_map(expected).collect(),
        Value::String(text) if text == "inf" => vec![f64::INFINITY],
        Value::Bool(value) => vec![f64::from(u8::from(*value))],
        other => vec![
            other
                .as_f64()
                .unwrap_or_else(|| panic!("`{other}` is no expected value")),
        ],
    }
}

#[test]
fn every_reference_case_within_its_tolerance() {
    let document: Value = serde_json::from_str(REFERENCE).unwrap();
    let cases = document["cases"].as_array().unwrap();
    let (mut compared, mut families, mut wrong) = (0, BTreeSet::new(), Vec::new());
    for case in cases {
        let (id, family) = (
            case["id"].as_str().unwrap(),
            case["family"].as_str().unwrap(),
        );
        let tolerance = case["rel_tol"].as_f64().unwrap();
        let computed = compute(
            family,
            &Inputs {
                inputs: &case["inputs"],
                all: cases,
            },
        );
        for (name, value) in case["expected"].as_object().unwrap() {
            let want = expected(value);
            let got = computed
                .get(name.as_str())
                .unwrap_or_else(|| panic!("{id}: no `{name}` was computed"));
            assert_eq!(got.len(), want.len(), "{id} {name}");
            for (got, want) in got.iter().zip(&want) {
                let near = (got - want).abs() <= (tolerance * want.abs()).max(ABSOLUTE);
                if !(near || got == want) {
                    wrong.push(format!(
                        "{id} {name}: {got} for {want}, tolerance {tolerance}"
                    ));
                }
                compared += 1;
            }
        }
        families.insert(family);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(families, FAMILIES.into_iter().collect());
    assert_eq!(
        (cases.len(), compared),
        (63, 397),
        "cases or values were added or lost"
    );
}

/// Checks that a value is the one that a paper prints, to half a unit of its last decimal.
fn printed(what: &str, value: Option<f64>, text: &str) {
    let value = value.unwrap_or_else(|| panic!("{what} was not computed"));
    let decimals = text
        .split_once('.')
        .map_or(0, |(_, decimals)| decimals.len());
    let want: f64 = text.parse().unwrap();
    let half = 0.5 * 10_f64.powi(-i32::try_from(decimals).unwrap());
    assert!(
        (value - want).abs() <= half * 1.000_001,
        "{what}: {value} for {text}"
    );
}

#[test]
fn examples_of_the_sharpe_ratio_papers() {
    printed(
        "Harvey-Liu-Zhu, 316 tests",
        special::normal_upper_quantile(0.05 / 2.0 / 316.0),
        "3.78",
    );
    printed(
        "Lo 2002, n = 12",
        sharpe::lo_standard_error(1.0, 12.0),
        "0.354",
    );
    printed(
        "Lo 2002, n = 60",
        sharpe::lo_standard_error(1.0, 60.0),
        "0.158",
    );
    printed(
        "Lo 2002, q = 12, r = .2",
        sharpe::lo_factor_ar1(12.0, 0.2),
        "2.88",
    );
    let powers: Vec<f64> = (1..12).map(|k| 0.2_f64.powi(k)).collect();
    printed(
        "the same, lag by lag",
        sharpe::lo_factor(12, &powers),
        "2.88",
    );
    let sr = 0.036 / 0.079;
    printed(
        "PSR, hedge fund",
        sharpe::psr(sr, 0.0, 24.0, -2.448, 10.164),
        "0.913",
    );
    printed("PSR, normal", sharpe::psr(sr, 0.0, 24.0, 0.0, 3.0), "0.981");
    printed(
        "MinTRL, hedge fund",
        sharpe::min_track_record(sr, 0.0, -2.448, 10.164, 0.05),
        "34.8",
    );
    printed("E[max of 10]", sharpe::expected_max_z(10.0), "1.575");
    printed("E[max of 1]", sharpe::expected_max_z(1.0), "0.0");
    let dsr = |trials, skew, kurtosis| {
        let root = 250.0_f64.sqrt();
        sharpe::dsr(2.5 / root, 1250.0, skew, kurtosis, trials, 0.5 / 250.0)
    };
    printed("DSR, N = 100", dsr(100.0, -3.0, 10.0), "0.9004");
    printed("DSR, N = 46", dsr(46.0, -3.0, 10.0), "0.9505");
    printed("DSR, N = 88, normal", dsr(88.0, 0.0, 3.0), "0.9505");
    for (q, skew, kurtosis, years) in [
        (252.0_f64, 0.0, 3.0, "2.73"),
        (52.0, 0.0, 3.0, "2.83"),
        (12.0, 0.0, 3.0, "3.24"),
        (12.0, -0.72, 5.78, "4.99"),
    ] {
        let n = sharpe::min_track_record(2.0 / q.sqrt(), 1.0 / q.sqrt(), skew, kurtosis, 0.05);
        printed("MinTRL in years", n.map(|n| n / q), years);
    }
    printed(
        "MinBTL, 45 trials",
        sharpe::min_backtest_years(45.0, 1.0),
        "5",
    );
    assert_eq!(sharpe::trials_expected_to_show(1.0, 5.0, 1000), Some(45));
    let cut = multiple::haircut(0.75, 20.0, 200.0).unwrap();
    printed("Harvey-Liu, p", Some(cut.p_single), "0.0008");
    printed("Harvey-Liu, p of 200", Some(cut.p_independent), "0.15");
    printed(
        "Harvey-Liu, ratio left",
        Some(cut.sharpe_independent),
        "0.32",
    );
    let adjusted = adjust(
        &[0.005, 0.009, 0.0128, 0.0135, 0.045, 0.06],
        Adjustment::Bonferroni,
    )
    .unwrap();
    assert_eq!(
        adjusted.iter().filter(|p| **p <= 0.05).count(),
        1,
        "{adjusted:?}"
    );
}

#[test]
fn examples_of_the_revision_of_2025() {
    let sr = 0.036 / 0.079;
    let returns = revision::Returns {
        n: 24.0,
        skew: -2.448,
        kurtosis: 10.164,
        rho: 0.0,
    };
    let found = revision::inference(sr, 0.0, 0.5, returns, 0.05, 0.05).unwrap();
    printed("sd", Some(found.sd), "0.329");
    printed("MinTRL", Some(found.min_track_record), "13.029");
    printed("PSR(0)", Some(found.psr), "0.987");
    printed("beta", Some(found.beta), "0.315");
    printed("pFDR", Some(found.planned_fdr), "0.581");
    printed("oFDR", Some(found.observed_fdr), "0.306");
    let found = revision::inference(sr, 0.1, 0.5, returns, 0.05, 0.05).unwrap();
    printed("PSR(.1)", Some(found.psr), "0.939");
}

#[test]
fn examples_of_win_rates() {
    for (wins, n, low, high) in [
        (81.0, 263.0, "0.2553", "0.3662"),
        (15.0, 148.0, "0.0624", "0.1605"),
        (0.0, 20.0, "0.0000", "0.1611"),
        (1.0, 29.0, "0.0061", "0.1718"),
    ] {
        let interval = proportions::wilson(wins / n, n, 0.05).unwrap();
        printed("Newcombe 1998, low", Some(interval.0), low);
        printed("Newcombe 1998, high", Some(interval.1), high);
    }
    let (_, p) = proportions::two_proportions(124, 165, 16, 41).unwrap();
    printed(
        "in sample to out of sample, millionths",
        Some(p * 1e6),
        "4.6",
    );
    let exact = proportions::fisher(124, 165, 16, 41);
    printed(
        "the same by Fisher, hundred thousandths",
        exact.map(|p| p * 1e5),
        "1.8",
    );
    assert_eq!(proportions::grim(390, 1, 41), Some(16));
    assert_eq!(proportions::grim(390, 1, 40), None);
    assert_eq!(proportions::grim(752, 1, 165), Some(124));
    let needed = proportions::trades_to_clear(0.55, 0.5, 0.05).unwrap();
    assert!(
        (370..=400).contains(&needed),
        "about 400 trades, here {needed}"
    );
}

#[test]
fn examples_of_plausibility_and_drawdown() {
    let plausible =
        |annual, years| plausibility::sharpe_plausibility(annual, years, 252.0, 0.5, 0.75).unwrap();
    printed(
        "S = 5.34, hundred thousandths",
        Some(plausible(5.34, 1.28).p * 1e5),
        "1.5",
    );
    printed(
        "S = 5.34, shrunk",
        Some(plausible(5.34, 1.28).posterior_mean),
        "2.5",
    );
    printed(
        "S = 5, ten thousandths",
        Some(plausible(5.0, 1.0).p * 1e4),
        "1.6",
    );
    printed("S = 1.2", Some(plausible(1.2, 1.0).p), "0.29");
    for (years, limit) in [(1.0, 4.36), (3.0, 3.42), (10.0, 3.02)] {
        assert!(plausible(limit + 0.01, years).p < 0.001, "{years} years");
        assert!(plausible(limit - 0.01, years).p > 0.001, "{years} years");
    }
    printed("E of no drift", drawdown::expected(0.0, 1.0, 1.0), "1.2533");
    printed(
        "Q_p(.5)",
        drawdown::expected(1.0, 1.0, 1.0).map(|e| 0.5 * e),
        "0.462538",
    );
    let (mu, s, h) = (0.154, 0.154 / 1.2, 0.045);
    printed(
        "daily marks, as if continuous",
        drawdown::probability_at_most(h, mu, s, 1.0),
        "0.00106",
    );
    let shifted = drawdown::monitored_continuously(h, s, 252.0).unwrap();
    printed(
        "daily marks",
        drawdown::probability_at_most(shifted, mu, s, 1.0),
        "0.0139",
    );
    for (years, p) in [(1.0, "0.018"), (2.0, "0.24")] {
        let g = plausibility::log_growth(15.4, years).unwrap();
        let s = drawdown::implied_volatility(1.2, g).unwrap();
        let h =
            drawdown::monitored_continuously(plausibility::log_drawdown(-4.5).unwrap(), s, 252.0)
                .unwrap();
        printed(
            "the seed's request",
            drawdown::probability_at_most(h, g, s, years),
            p,
        );
    }
    assert_eq!(
        sharpe::trials_expected_to_show(1.2, 1.0, 1000),
        Some(5),
        "the sixth exceeds 1.2"
    );
    assert!(sharpe::expected_max_z(6.0).unwrap() > 1.2);
}

/// Returns the relative difference if the values are not both below the floor.
fn apart(a: f64, b: f64, floor: f64) -> f64 {
    (a - b).abs() / a.abs().max(b.abs()).max(floor)
}

#[test]
fn distribution_functions_agree_with_another_library() {
    let mut dice = Dice::new(20);
    let mut uniform =
        move || f64::from(u32::try_from(dice.below(1 << 30)).unwrap()) / f64::from(1 << 30);
    let normal = Normal::new(0.0, 1.0).unwrap();
    for _ in 0..2_000 {
        let p = 10_f64.powf(-12.0 * uniform()) * 0.999;
        let z = special::normal_quantile(p).unwrap();
        assert!(
            apart(z, normal.inverse_cdf(p), 1e-3) < 1e-11,
            "quantile of {p}"
        );
        assert!(
            apart(special::normal_cdf(z), p, 1e-300) < 1e-13,
            "round trip of {p}"
        );
        let (df, t) = (1.0 + 300.0 * uniform(), 12.0 * uniform() - 4.0);
        let student = StudentsT::new(0.0, 1.0, df).unwrap();
        assert!(
            apart(special::student_sf(t, df).unwrap(), student.sf(t), 1e-12) < 1e-9,
            "t {t}, df {df}"
        );
        let x = 3.0 * df * uniform();
        let chi = ChiSquared::new(df).unwrap();
        assert!(
            apart(special::chi_square_sf(x, df).unwrap(), chi.sf(x), 1e-9) < 1e-7,
            "x {x}, df {df}"
        );
        let (a, b) = (0.5 + 200.0 * uniform(), 0.5 + 200.0 * uniform());
        let beta = Beta::new(a, b).unwrap();
        let q = special::beta_quantile(a, b, p).unwrap();
        assert!(
            apart(beta.cdf(q), p, 1e-12) < 1e-8,
            "a {a}, b {b}, p {p}, x {q}"
        );
    }
}

/// Every function at the edge of its domain and far beyond it: `None` or a number, never NaN and
/// never a panic.
#[test]
fn no_function_returns_nan_outside_of_its_domain() {
    let hostile = [
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::MAX,
        f64::MIN,
        f64::MIN_POSITIVE,
        -0.0,
        0.0,
        1e-300,
        -1.0,
        0.5,
        1.0,
        2.0,
        1e9,
        1e300,
    ];
    let tame = |what: &str, value: Option<f64>| assert!(!value.is_some_and(f64::is_nan), "{what}");
    for a in hostile {
        tame("quantile", special::normal_quantile(a));
        tame("emax", sharpe::expected_max_z(a));
        tame("even", proportions::break_even(a));
        for b in hostile {
            tame("t", sharpe::t_statistic(a, b));
            tame("se", sharpe::lo_standard_error(a, b));
            tame("lo", sharpe::lo_factor_ar1(a, b));
            tame("minbtl", sharpe::min_backtest_years(a, b));
            tame("growth", plausibility::log_growth(a, b));
            tame("cagr", plausibility::cagr_pct(a, b));
            tame("calmar", plausibility::calmar(a, b));
            tame("vol", drawdown::implied_volatility(a, b));
            tame("student", special::student_sf(a, b));
            tame("student quantile", special::student_upper_quantile(a, b));
            tame("chi", special::chi_square_sf(a, b));
            tame("wilson", proportions::wilson(a, b, 0.05).map(|i| i.0 + i.1));
            for c in hostile {
                tame(
                    "haircut",
                    multiple::haircut(a, b, c).map(|h| h.sharpe_independent + h.sharpe_bonferroni),
                );
                tame("beta", special::beta_cdf(a, b, c));
                tame("beta quantile", special::beta_quantile(a, b, c));
                tame("psr", sharpe::psr(a, 0.0, b, c, 3.0));
                tame("mintrl", sharpe::min_track_record(a, b, c, 3.0, 0.05));
                tame(
                    "plausible",
                    plausibility::sharpe_plausibility(a, b, 252.0, 0.5, c)
                        .map(|p| p.p + p.posterior_sd),
                );
                tame("mdd", drawdown::expected(a, b, c));
                for h in [1e-300, 1e-3, 1.0, 1e300, f64::NAN] {
                    tame("mdd", drawdown::probability_at_most(h, a, b, c));
                }
            }
        }
    }
    for values in [
        vec![],
        vec![f64::NAN; 20],
        vec![f64::INFINITY; 20],
        [1e300, -1e300].repeat(10),
        vec![0.1; 20],
        vec![-2.0; 20],
        vec![1.0],
    ] {
        assert!(series::Moments::of(&values).is_none(), "{values:?}");
        assert!(series::ljung_box(&values, 3).is_none(), "{values:?}");
        assert!(series::optimal_block(&values).is_none(), "{values:?}");
        assert!(
            bootstrap::stationary_sharpes(&values, 3.0, 10, 1).is_none(),
            "{values:?}"
        );
        assert!(
            overfitting::probability(&[values.clone(), values.clone()], 4)
                .is_none_or(|found| found.below_median <= 1.0)
        );
        tame(
            "compound",
            series::compound(&values).map(|(total, deepest)| total + deepest),
        );
    }
    assert!(adjust(&[f64::NAN], Adjustment::Holm).is_none());
    assert!(adjust(&[], Adjustment::Holm).is_none());
}
