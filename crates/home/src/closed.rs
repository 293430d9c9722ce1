//! Explains to the operator why entries are closed.

use std::collections::BTreeSet;

use spoolgate_gate::State;
use spoolgate_gate::portfolio::portfolio;
use spoolgate_rules::Rulebook;
use spoolgate_wire::time::Time;

/// Checks whose rows say what closes entries. The other reasons are in the state.
const TOLD_BY_ROWS: [&str; 6] = [
    "daily_loss_halt",
    "weekly_loss_halt",
    "loss_streak",
    "reject_streak",
    "cooldown",
    "time_window",
];

/// The check of venues; several symbols may have one.
const VENUE_ALIVE: &str = "venue_alive";

/// Returns why the rule files cannot be used; `None` if they can.
pub fn rules_fault(state: &State) -> Option<String> {
    let fault = state.rulebook.fault.as_ref()?;
    Some(format!(
        "rule file {fault}: entries are refused, exits are still allowed"
    ))
}

/// Says which bridges, and silences of the imitated exchange, close entries, once each.
pub fn silent_venues(state: &State, rules: &Rulebook, now: Time) -> BTreeSet<String> {
    let limits = portfolio(state, rules, now).limits.into_iter();
    let silent = limits.filter(|row| row.check == VENUE_ALIVE);
    silent
        .filter_map(|row| Some(row.closed?.into_owned()))
        .collect()
}

/// Lists what closes entries now and depends on the rules and the time: losses, pauses, cooldowns,
/// restricted times and silent venues.
pub fn closed_for_now(state: &State, rules: &Rulebook, now: Time) -> Vec<String> {
    let concerns = state.control.concerns.iter();
    let paused = concerns.filter(|(_, decided)| decided.paused);
    let paused = paused.map(|(concern, decided)| {
        let by = match &decided.held_by.paused {
            Some(hold) => format!(
                "{} (line {}), and only a person resumes it",
                hold.principal, hold.line
            ),
            None => "a control decision".to_owned(),
        };
        format!("`{concern}` is paused by {by}: its strategy may only reduce")
    });
    let limits = portfolio(state, rules, now).limits.into_iter();
    let shut = limits
        .filter(|row| TOLD_BY_ROWS.contains(&row.check))
        .filter_map(|row| Some(format!("{}: `{}`: {}", row.of, row.check, row.closed?)));
    let silent = silent_venues(state, rules, now).into_iter();
    let silent = silent.map(|why| format!("`{VENUE_ALIVE}`: {why}"));
    paused.chain(shut).chain(silent).collect()
}

/// Lists every reason why entries of some principal, strategy or symbol are closed until something
/// is done about it.
pub fn why_closed(state: &State) -> Vec<String> {
    let mut reasons: Vec<String> = rules_fault(state).into_iter().collect();
    if state.halts.file {
        let flat = if state.halts.file_flattens {
            ", and positions are closed at the market"
        } else {
            ""
        };
        reasons.push(format!(
            "rules/HALT exists: entries are halted until it is removed{flat}"
        ));
    }
    reasons.extend(
        state
            .halts
            .all
            .as_ref()
            .map(|halt| format!("entries of all principals are {}", halt.told())),
    );
    let principals = state.halts.principals.iter();
    reasons
        .extend(principals.map(|(name, halt)| format!("entries of `{name}` are {}", halt.told())));
    for (on, halt) in state.halts.parts() {
        let clear = on.option();
        reasons.push(format!(
            "entries of {on} are {}; `spoolgate halt clear {clear}` opens them again",
            halt.told()
        ));
    }
    for (name, tripped) in &state.dead_man.tripped {
        reasons.push(format!(
            "`{name}` has been silent since before {}: its entries are refused until its \
                heartbeat, or `spoolgate heartbeat {name}`",
            tripped.at
        ));
    }
    if let Some(since) = state.book.account.drawdown_since {
        reasons.push(format!(
            "the drawdown limit was reached at {since}: entries are refused until `spoolgate halt \
                clear --drawdown`"
        ));
    }
    for (name, conduct) in &state.book.conduct {
        if let Some(since) = conduct.disabled_since {
            reasons.push(format!(
                "strategy `{name}` executed too often at {since}: its entries are refused until \
                    `spoolgate halt clear --strategy {name}`"
            ));
        }
    }
    let gaps = state.book.halted_symbols.iter();
    reasons.extend(gaps.map(|(symbol, gap)| {
        format!(
            "`{symbol}` opened at {} after {} at {}: entries are refused until `spoolgate halt \
                clear --symbol {symbol}`",
            gap.open, gap.previous, gap.time
        )
    }));
    for (symbol, market) in &state.book.markets {
        if let Some(held) = &market.held {
            reasons.push(format!(
                "`{symbol}`: {held}: entries are refused until its next row"
            ));
        }
    }
    let doubts = state.book.doubted_symbols.iter();
    reasons.extend(doubts.map(|(symbol, doubt)| {
        format!(
            "book and venue may differ in `{symbol}` since {}: {}; entries are refused until \
                `spoolgate halt clear --symbol {symbol}`",
            doubt.at, doubt.what
        )
    }));
    if let Some(fault) = &state.clock.fault {
        reasons.push(format!(
            "the machine's clock stepped from {} to {}: entries are refused until `spoolgate clock \
                accept`",
            fault.from, fault.to
        ));
    }
    reasons
}
