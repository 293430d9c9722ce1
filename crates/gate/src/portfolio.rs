//! `portfolio.get`: the book's view, with halts of entries and the risk modes that controllers
//! decided.

use super::state::State;
use super::{control, dead_man};
use spoolgate_rules::Rulebook;
use spoolgate_trading::usage::{LimitUse, Reduced};
use spoolgate_trading::views::{self, PortfolioState};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::time::Time;

/// The account, its positions, and how much of every limit is used.
pub fn portfolio(state: &State, rules: &Rulebook, now: Time) -> PortfolioState {
    // Where no gate runs, nobody has written yet that an override is over.
    let mut overrides = state.overrides.clone();
    overrides.retain(|_, set| !set.is_over(now));
    let rules = &*rules.under(&overrides);
    let mut reduced = Reduced::new();
    let mut closed = Vec::new();
    for name in rules.strategies.keys() {
        let (paused, factor) = control::of_entries(state, rules, name);
        reduced.extend(factor.map(|factor| (name.clone(), factor)));
        closed.extend(paused.map(|why| {
            shut(
                "strategy_active",
                format!("strategy {name}"),
                "control",
                why,
            )
        }));
    }
    closed.extend(
        state
            .clock_fault()
            .map(|why| shut("clock", "account".to_owned(), "state", why)),
    );
    let fault = state.rulebook.fault.clone();
    closed.extend(fault.map(|why| shut("rulebook", "account".to_owned(), "state", why)));
    closed.extend(halts(state, rules));
    let silent = state
        .dead_man
        .tripped
        .keys()
        .filter_map(|name| Some((name, state.dead_man.closes(name)?)));
    closed
        .extend(silent.map(|(name, why)| shut("dead_man", format!("agent {name}"), "state", why)));
    let mut view = views::portfolio(&state.book, rules, now, &reduced);
    view.limits.extend(closed);
    view.unheard = dead_man::unheard(state);
    view
}

/// The global halt once, or halts of single principals by name, and halts of strategies, symbols and
/// bridges.
fn halts(state: &State, rules: &Rulebook) -> Vec<LimitUse> {
    let row = |of: String, why: String| shut("manual_halt", of, "state", why);
    let mut halted = rules
        .principals
        .keys()
        .filter_map(|name| Some((name, state.halted(name)?)));
    let parts = state.halts.parts().map(|(on, halt)| {
        let why = format!("{}; a person must clear the halt", halt.told());
        row(on.to_string().replace('`', ""), why)
    });
    if state.halts.file || state.halts.all.is_some() {
        let of_all = halted.next().map(|(_, why)| row("account".to_owned(), why));
        return of_all.into_iter().chain(parts).collect();
    }
    halted
        .map(|(name, why)| row(format!("agent {name}"), why))
        .chain(parts)
        .collect()
}

/// A failed check as a row.
fn shut(check: &'static str, of: String, source: &'static str, why: String) -> LimitUse {
    LimitUse {
        check,
        of,
        used: None,
        limit: Some(Amount::ONE),
        left: None,
        unit: "bool".into(),
        source: source.into(),
        warning: false,
        closed: Some(why.into()),
    }
}
