//! The rule files of a history: three instruments, three strategies of two agents, and limits of
//! which some bind.

use std::collections::BTreeMap;

use spoolgate_rules::{Bundle, Rulebook};

use crate::paper_model::sides::Random;

/// Which principal signs for which strategy.
pub(super) const STRATEGIES: [(&str, &str); 3] =
    [("trend", "alice"), ("mean", "alice"), ("swing", "bob")];

/// Theses per strategy, symbol and direction: the first can be refuted, the second expires early.
pub(super) const THESES: i64 = 8;

/// An instrument and the market that is drawn for it.
pub(super) struct Listed {
    pub symbol: &'static str,
    /// The step in which prices and sizes are drawn.
    pub price_step: &'static str,
    pub size_step: &'static str,
    /// Its first price, in steps.
    pub price: i64,
    rule: &'static str,
}

/// One has bars only; one has quotes and a multiplier below 1; one has quotes for checks and bars
/// for fills, and neither tick nor lot.
pub(super) const LISTED: [Listed; 3] = [
    Listed {
        symbol: "ALPHA",
        price_step: "0.1",
        size_step: "0.001",
        price: 68_000,
        rule: "multiplier: 1, quotes_from: bars, fills_from: bars, half_spread: 0.0005, slippage: \
            0.001,
          maker_fee: 0.0002, taker_fee: 0.00123, volume_share: 0.5, bar_s: 60, max_gap: 0.015, \
              group: coins",
    },
    Listed {
        symbol: "BETA",
        price_step: "0.01",
        size_step: "0.01",
        price: 20_000,
        rule:
            "multiplier: 0.5, quotes_from: quotes, fills_from: quotes, half_spread: 0, slippage: \
            0.0007,
          maker_fee: 0.0003, taker_fee: 0.001, volume_share: 1, bar_s: 60, max_gap: 0.012, group: \
              coins",
    },
    Listed {
        symbol: "GAMMA",
        price_step: "0.07",
        size_step: "0.001",
        price: 10_000,
        rule: "multiplier: 10, quotes_from: quotes, fills_from: bars, half_spread: 0.0003, \
            slippage: 0.0005,
          maker_fee: 0, taker_fee: 0.0017, volume_share: 0.4, bar_s: 60, max_gap: 0.014",
    },
];

/// A limit, with a value that hardly binds and values that do.
struct Knob {
    name: &'static str,
    loose: &'static str,
    tight: &'static [&'static str],
}

const fn knob(name: &'static str, loose: &'static str, tight: &'static [&'static str]) -> Knob {
    Knob { name, loose, tight }
}

/// The file does not contain it.
const ABSENT: &str = "";

const KNOBS: &[Knob] = &[
    knob("max_total_capital", "5000", &["3000", "1234.56"]),
    knob("max_single_position", "1", &["0.03", "0.1", "0.25"]),
    knob("max_single_trade_risk", "1", &["0.001", "0.0004", "0.004"]),
    knob("max_total_exposure", "5", &["0.1", "0.3"]),
    knob("max_same_direction_exposure", ABSENT, &["0.08", "0.25"]),
    knob("max_correlated_group", ABSENT, &["0.06", "0.2"]),
    knob("max_portfolio_risk", "1", &["0.002", "0.0006"]),
    knob("max_daily_loss", "100000", &["3", "9"]),
    knob("max_daily_turnover", "1000", &["0.05", "0.2"]),
    knob("max_order_age_s", "31536000", &["300", "900"]),
    knob("max_rejects", "1000", &["1", "2"]),
    knob("max_weekly_loss", "100000", &["4", "12"]),
    knob("max_drawdown", "1", &["0.001", "0.004"]),
    knob("max_order_value", "100000", &["60", "150", "400"]),
    knob("max_volume_share", ABSENT, &["0.02", "0.1"]),
    knob("max_open_positions", "1000", &["1", "2", "4"]),
    knob("max_open_orders", "1000", &["1", "2", "4"]),
    knob("max_entries_per_minute", "1000", &["1", "2"]),
    knob("max_entries_per_minute_all", "1000", &["1", "3"]),
    knob("max_executions", "1000", &["1", "2", "4"]),
    knob("executions_window_s", "3600", &["120", "600"]),
    knob("max_losing_trades", "1000", &["1", "2"]),
    knob("cooldown_s", "0", &["61", "300"]),
    knob(
        "restricted",
        "[]",
        &[
            "[{from: \"21:00\", to: \"21:20\"}]",
            "[{from: \"23:50\", to: \"00:10\"}]",
        ],
    ),
    knob("price_collar", "0.5", &["0.001", "0.003"]),
    knob("price_collar_passive", "0.5", &["0.002", "0.004"]),
    knob("slippage_to_plan", "1", &["0.0005", "0.002"]),
    knob("max_spread", "0.5", &["0.0009", "0.0012"]),
    knob("max_mid_deviation", "0.5", &["0.001", "0.002"]),
    knob("quote_age_floor_s", "7200", &["60", "121"]),
    knob("duplicate_window_s", "0", &["2", "30", "200"]),
    knob("request_age_max_s", "60", &["2"]),
    knob("request_ahead_max_s", "5", &["1"]),
    knob("exit_age_max_s", "86400", &["90"]),
    knob("stress_gap", "0.0001", &["0.01", "0.3"]),
    // Limits of instruments.
    knob("tick", "fine", &["coarse"]),
    knob("lot", "fine", &["coarse"]),
    knob("min_size", "2", &["5"]),
    knob("max_size", "3000", &["12", "40"]),
    knob("min_notional", "5", &["30"]),
    knob("min_stop_ticks", "5", &["60"]),
    // Limits of strategies.
    knob("allocation", ABSENT, &["0.05", "0.15"]),
    knob(
        "stop_distance",
        "{min: 0.0001, max: 0.5}",
        &["{min: 0.002, max: 0.006}"],
    ),
    knob("own_window", "[]", &["[{from: \"21:10\", to: \"21:30\"}]"]),
    knob(
        "instruments",
        "[ALPHA, BETA, GAMMA]",
        &["[BETA]", "[ALPHA, GAMMA]"],
    ),
    knob("directions", "[long, short]", &["[long]"]),
    knob("status", "active", &["paused"]),
];

/// Limits in files other than safety.yaml.
const ELSEWHERE: usize = 12;

/// What the rule files say at the moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Files(BTreeMap<&'static str, String>);

impl Files {
    /// Draws files in which most limits are loose and a few, which depend on the seed, are tight.
    pub(super) fn draw(seed: u64, random: &mut Random) -> Files {
        let mut files = Files(
            KNOBS
                .iter()
                .map(|knob| (knob.name, knob.loose.to_owned()))
                .collect(),
        );
        let own = &KNOBS[usize::try_from(seed).unwrap() % KNOBS.len()];
        let to = *random.pick(own.tight);
        files.set(own.name, to);
        for _ in 0..random.within(0, 3) {
            files.tighten(random);
        }
        files
    }

    /// A person changes a few limits, in either direction.
    pub(super) fn redraw(&mut self, random: &mut Random) {
        for _ in 0..random.within(1, 3) {
            if random.one_in(3) {
                self.tighten(random)
            } else {
                self.loosen(random)
            }
        }
    }

    fn tighten(&mut self, random: &mut Random) {
        let knob = random.pick(KNOBS);
        let to = *random.pick(knob.tight);
        self.set(knob.name, to);
    }

    fn loosen(&mut self, random: &mut Random) {
        let tight: Vec<&Knob> = KNOBS
            .iter()
            .filter(|knob| self.0[knob.name] != knob.loose)
            .collect();
        if !tight.is_empty() {
            let knob = *random.pick(&tight);
            self.set(knob.name, knob.loose);
        }
    }

    pub(super) fn set(&mut self, name: &'static str, to: &str) {
        self.0.insert(name, to.to_owned());
    }

    fn get(&self, name: &str) -> &str {
        &self.0[name]
    }

    pub(super) fn compile(&self, theses: &str) -> Rulebook {
        let mut bundle = Bundle::default();
        let mut file = |path: String, text: String| bundle.files.insert(path, text);
        let mut safety =
            "entry_slippage: 0.001\nstop_slippage: 0.002\nclock_gap_max_s: 604800\n".to_owned();
        for knob in KNOBS.iter().take(KNOBS.len() - ELSEWHERE) {
            let value = self.get(knob.name);
            if value != ABSENT {
                safety.push_str(&format!("{}: {value}\n", knob.name));
            }
        }
        file("rules/safety.yaml".into(), safety);
        let principals = "principals:\n  - {name: alice, role: agent, strategies: [trend, \
            mean]}\n  - {name: bob, role: agent, strategies: [swing], request_age_max_s: 30}\n";
        file("rules/principals.yaml".into(), principals.into());
        let list: Vec<String> = LISTED
            .iter()
            .map(|listed| self.instrument(listed))
            .collect();
        file(
            "rules/instruments.yaml".into(),
            format!("instruments:\n{}", list.concat()),
        );
        for (name, _) in STRATEGIES {
            // Only one of the strategies has unusual settings.
            let of = |knob: &'static str, loose: &'static str| {
                if name == "mean" {
                    self.get(knob).to_owned()
                } else {
                    loose.to_owned()
                }
            };
            let mut text = format!(
                "name: {name}\nstatus: {}\ninstruments: {}\ndirections: {}\nstop_distance: \
                    {}\nrestricted: {}\n",
                of("status", "active"),
                of("instruments", "[ALPHA, BETA, GAMMA]"),
                of("directions", "[long, short]"),
                self.get("stop_distance"),
                of("own_window", "[]"),
            );
            if self.get("allocation") != ABSENT {
                text.push_str(&format!("allocation: {}\n", self.get("allocation")));
            }
            file(format!("rules/strategies/{name}.yaml"), text);
        }
        if !theses.is_empty() {
            for (slug, text) in theses_from(theses) {
                file(format!("proposals/theses/{slug}.md"), text);
            }
        }
        Rulebook::compile(&bundle).unwrap()
    }

    fn instrument(&self, listed: &Listed) -> String {
        let has_none = listed.symbol == "GAMMA";
        let coarse = |knob: &str, step: &str| match (self.get(knob), has_none) {
            ("fine", true) => "0".to_owned(),
            ("fine", false) => step.to_owned(),
            _ => times(7, step),
        };
        let sized = |knob: &str| times(self.get(knob).parse().unwrap(), listed.size_step);
        format!(
            "  - {{symbol: {}, {}, tick: {}, lot: {}, min_size: {}, max_size: {}, min_notional: \
                {}, min_stop_ticks: {}}}\n",
            listed.symbol,
            listed.rule,
            coarse("tick", listed.price_step),
            coarse("lot", listed.size_step),
            sized("min_size"),
            sized("max_size"),
            self.get("min_notional"),
            self.get("min_stop_ticks"),
        )
    }
}

fn times(count: i64, step: &str) -> String {
    crate::paper_model::sides::steps(count, step).to_string()
}

pub(super) fn thesis(strategy: &str, symbol: &str, buys: bool, number: i64) -> String {
    let direction = if buys { "long" } else { "short" };
    format!("{strategy}-{}-{direction}-{number}", symbol.to_lowercase())
}

/// Returns all theses; the second of each kind expires `at`.
fn theses_from(at: &str) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for (strategy, _) in STRATEGIES {
        for listed in &LISTED {
            for (buys, number) in (0..THESES).flat_map(|number| [(true, number), (false, number)]) {
                let (symbol, slug) = (listed.symbol, thesis(strategy, listed.symbol, buys, number));
                let (direction, level) = if buys {
                    ("long", "below")
                } else {
                    ("short", "above")
                };
                let expires = if number == 1 {
                    at
                } else {
                    "2100-01-01T00:00:00Z"
                };
                let mut text = format!(
                    "---\nslug: {slug}\nstrategy: {strategy}\nsymbol: {symbol}\ndirection: \
                        {direction}\nexpires: {expires}\n"
                );
                if number == 0 {
                    text.push_str(&format!(
                        "invalid_{level}: {}\n",
                        times(listed.price, listed.price_step)
                    ));
                }
                all.push((slug, format!("{text}---\nWhy.\n")));
            }
        }
    }
    all
}
