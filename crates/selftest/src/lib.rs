//! The self-test: trips every check on a scratch copy of the rules in force, through the gate's own
//! decision function, and finds limits that can never bind. A breaker that is wired to nothing
//! looks like one that has not had to trip yet.
//!
//! It reads only the rules and last prices of a home and writes nothing: book, market, thesis,
//! clock and halts are made up here.

mod bench;
mod never;
mod orders;
mod scenarios;
mod sizes;
mod standings;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;

use bench::{Bench, Scratch};
use spoolgate_rules::Rulebook;
use spoolgate_rules::overrides::Overrides;
use spoolgate_trading::checks;
use spoolgate_trading::requests::Verdict;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::checks::CheckRow;
use spoolgate_wire::ids::{StrategyName, Symbol};
use spoolgate_wire::orders::Side;

pub use never::NeverBinds;

/// How a scenario tries a check.
enum Plan {
    /// A request that must pass, and requests that must be refused, each with a description.
    Try(Box<Scratch>, Vec<(&'static str, Scratch)>),
    /// Its limit is not configured.
    NotSet(&'static str),
    /// No order in any possible state would trip it.
    Cannot(String),
}

/// The result for a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It passed what it must pass and refused what it must refuse.
    Tripped,
    /// Its limit is not configured, so there is nothing to trip.
    NotSet,
    /// It refuses even what should pass, so nothing can be entered.
    RefusesAll,
    /// It lets everything pass: it is wired to nothing.
    CannotTrip,
    /// The change that trips it also keeps a position from being closed.
    BlocksExits,
}

impl Outcome {
    /// A description for reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Outcome::Tripped => "tripped",
            Outcome::NotSet => "not set",
            Outcome::RefusesAll => "REFUSES ALL",
            Outcome::CannotTrip => "CANNOT TRIP",
            Outcome::BlocksExits => "BLOCKS EXITS",
        }
    }
}

/// One check, tried for one strategy, instrument and side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Tried {
    /// The check.
    pub check: &'static str,
    /// The result.
    pub outcome: Outcome,
    /// The value that tripped it.
    pub value: Option<Amount>,
    /// The limit.
    pub limit: Option<Amount>,
    /// Unit of value and limit.
    pub unit: Cow<'static, str>,
    /// Where the limit comes from.
    pub source: Cow<'static, str>,
    /// Other checks that the same change tripped.
    pub also: Vec<String>,
    /// Why it did not trip, if it did not.
    pub why: Option<String>,
    /// The strategy.
    pub strategy: StrategyName,
    /// The instrument.
    pub symbol: Symbol,
    /// The side.
    pub side: Side,
}

/// What the self-test found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Whether every check trips, and something passes all of them.
    pub ok: bool,
    /// Every check for every case, in the order of the table of checks.
    pub checks: Vec<Tried>,
    /// Checks without a scenario, which is a fault of the program.
    pub untested: Vec<&'static str>,
    /// Limits that never decide.
    pub never_binds: Vec<NeverBinds>,
    /// What could not be tried, and why.
    pub skipped: Vec<String>,
}

/// Runs the self-test over a copy of these rules. `prices` are the last known ones; an instrument
/// without one gets a price that suits its filters.
pub fn run(rules: &Rulebook, prices: &BTreeMap<Symbol, Amount>) -> Report {
    run_with(rules, prices, &Scratch::decide)
}

/// How a scratch gate decides. Tests pass broken functions here.
type Decide<'a> = &'a dyn Fn(&Scratch) -> Option<Verdict>;

fn run_with(rules: &Rulebook, prices: &BTreeMap<Symbol, Amount>, decide: Decide<'_>) -> Report {
    // The limits of the file are tried: overrides pass.
    let rules = &*rules.under(&Overrides::new());
    let (cases, mut skipped) = bench::cases(rules);
    let mut benches = Vec::new();
    for case in cases {
        let what = format!(
            "{} {} of `{}`",
            case.side.as_str(),
            case.symbol,
            case.strategy
        );
        match Bench::new(rules, case, prices, decide) {
            Some(bench) => benches.push(bench),
            None => skipped.push(format!("{what}: its figures cannot be computed exactly")),
        }
    }
    let scenario = |name: &str| {
        scenarios::SCENARIOS
            .iter()
            .find(|(check, _)| *check == name)
    };
    let untested: Vec<&'static str> = checks::names()
        .filter(|name| scenario(name).is_none())
        .collect();
    let mut tried = Vec::new();
    for (check, plan) in checks::names().filter_map(scenario) {
        tried.extend(
            benches
                .iter()
                .map(|bench| try_it(check, plan(bench), bench, decide)),
        );
    }
    let used: BTreeMap<Symbol, Amount> = benches
        .iter()
        .map(|bench| (bench.case.symbol.clone(), bench.price))
        .collect();
    if benches.is_empty() {
        skipped.push("no strategy can enter a position, so no check could be tested".to_owned());
    }
    let is_fine = |tried: &Tried| matches!(tried.outcome, Outcome::Tripped | Outcome::NotSet);
    let ok = untested.is_empty() && !benches.is_empty() && tried.iter().all(is_fine);
    Report {
        ok,
        checks: tried,
        untested,
        never_binds: never::find(rules, &used),
        skipped,
    }
}

fn try_it(check: &'static str, plan: Option<Plan>, bench: &Bench<'_>, decide: Decide<'_>) -> Tried {
    let blank = |outcome: Outcome, why: String| Tried {
        check,
        outcome,
        value: None,
        limit: None,
        unit: Cow::Borrowed(""),
        source: Cow::Borrowed(""),
        also: Vec::new(),
        why: Some(why),
        strategy: bench.case.strategy.clone(),
        symbol: bench.case.symbol.clone(),
        side: bench.case.side,
    };
    let (passes, trips) = match plan {
        None => {
            return blank(
                Outcome::CannotTrip,
                "its figures cannot be computed exactly".to_owned(),
            );
        }
        Some(Plan::NotSet(why)) => return blank(Outcome::NotSet, why.to_owned()),
        Some(Plan::Cannot(why)) => return blank(Outcome::CannotTrip, why),
        Some(Plan::Try(passes, trips)) => (passes, trips),
    };
    let before = decide(&passes)
        .map(|verdict| verdict.checks)
        .unwrap_or_default();
    let told = |row: &CheckRow, blank: Tried| Tried {
        value: row.value,
        limit: row.limit,
        unit: row.unit.clone(),
        source: row.source.clone(),
        ..blank
    };
    let of = |rows: &[CheckRow]| rows.iter().find(|row| row.name == check).cloned();
    if let Some(row) = of(&before).filter(|row| !row.passed) {
        let why = row.reason.clone().unwrap_or_default().into_owned();
        return told(&row, blank(Outcome::RefusesAll, why));
    }
    let had_failed = |name: &str| before.iter().any(|row| !row.passed && row.name == name);
    let mut first = None;
    for (what, trip) in &trips {
        let rows = decide(trip)
            .map(|verdict| verdict.checks)
            .unwrap_or_default();
        let Some(row) = of(&rows).filter(|row| !row.passed) else {
            let found = of(&rows);
            let blank = blank(Outcome::CannotTrip, format!("{what} does not trip it"));
            return found.map_or_else(|| blank.clone(), |row| told(&row, blank.clone()));
        };
        // Only the first change must trip the configured limit; later ones may trip another limit
        // of the same check.
        let limit = scenarios::configured(check, bench).filter(|_| first.is_none());
        let configured = limit.filter(|limit| row.limit != Some(*limit));
        if let Some(limit) = configured {
            let why = format!(
                "it compares with a figure other than the {} of the rules",
                limit.normalized()
            );
            return told(&row, blank(Outcome::CannotTrip, why));
        }
        if let Some(why) = held_back(check, what, trip, bench, decide) {
            return told(&row, blank(Outcome::BlocksExits, why));
        }
        let others = rows.iter().filter(|row| !row.passed && row.name != check);
        let also = others
            .map(|row| row.name.to_string())
            .filter(|name| !had_failed(name))
            .collect();
        first.get_or_insert_with(|| Tried {
            also,
            why: None,
            ..told(&row, blank(Outcome::Tripped, String::new()))
        });
    }
    first.unwrap_or_else(|| {
        blank(
            Outcome::CannotTrip,
            "no change was found that trips it".to_owned(),
        )
    })
}

/// Returns why an exit of the whole position is refused in the same state, if it is. Only ownership
/// and capacity may refuse it: in `self_cross` a resting order uses up capacity, and the scenarios
/// of the last three checks do not submit an entry.
fn held_back(
    check: &str,
    what: &str,
    trip: &Scratch,
    bench: &Bench<'_>,
    decide: Decide<'_>,
) -> Option<String> {
    if ["self_cross", "reduce_only", "cancel_ok", "tighten_ok"].contains(&check)
        || what == standings::FOREIGN
    {
        return None;
    }
    let refused_in = |world: &Scratch| -> Option<Vec<CheckRow>> {
        let rows = decide(&orders::exit_within(bench, world)?)?.checks;
        Some(rows.into_iter().filter(|row| !row.passed).collect())
    };
    // Exits that are refused even before anything trips are reported by that check's own row.
    let always = refused_in(&bench.base).unwrap_or_default();
    let is_news = |row: &CheckRow| always.iter().all(|other| other.name != row.name);
    let refused = refused_in(trip)?.into_iter().find(is_news)?;
    Some(format!(
        "with {what} an exit is refused by {}",
        refused.name
    ))
}
