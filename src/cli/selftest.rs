//! `spoolgate selftest`: trips every check on a scratch copy of the rules in force. Takes no lock
//! and writes nothing.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use spoolgate_selftest::{NeverBinds, Outcome, Report, Tried};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::code::Exit;
use spoolgate_wire::ids::Symbol;

use super::look;
use super::output::{Output, short};

/// Trip every check on a scratch copy of the rules.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  spoolgate selftest\n  spoolgate selftest --strict\n  spoolgate \
        --format json selftest | jq '.checks[]|select(.outcome==\"cannot_trip\")'\n\nExit codes: \
        0 every check trips, 1 a check lets everything pass or nothing, or the rule files are not \
        those in\nforce (with --strict also: a limit can never bind). Nothing in the home is \
        written; a gate may be running."
)]
pub(super) struct Args {
    /// Also exit with 1 if a limit can never bind.
    #[arg(long)]
    strict: bool,
}

/// Longest note in the table, in characters.
const NOTE_CHARS: usize = 110;

/// Runs the command on the rules in force, at the last known prices.
pub(super) fn run(home: &Path, args: &Args, output: &Output) -> Result<Exit> {
    let (view, _) = look::view(home)?;
    let markets = view.state.book.markets.iter();
    let prices: BTreeMap<Symbol, Amount> = markets
        .filter_map(|(symbol, market)| {
            let quoted = market.quote.as_ref().map(|quote| quote.bid);
            Some((
                symbol.clone(),
                market.last.as_ref().map(|last| last.price).or(quoted)?,
            ))
        })
        .collect();
    let report = spoolgate_selftest::run(&view.rulebook, &prices);
    let (fault, apart) = (
        look::rules_fault(&view.state),
        look::rules_apart(home, &view),
    );
    // The rules that were tried are not the ones in the files.
    let is_apart = fault.is_some() || apart.is_some();
    let is_bad = !report.ok || is_apart || (args.strict && !report.never_binds.is_empty());
    let exit = output.decided(if is_bad { Exit::Refused } else { Exit::Success });
    match output.is_json() {
        true => output.json(&report)?,
        false => print(&report, output)?,
    }
    if let Some(fault) = &fault {
        output.remark(&format!("{fault}; the last good rules were tested"));
    }
    if let Some(apart) = &apart {
        output.remark(&format!("{apart}; those in force were tested"));
    }
    Ok(exit)
}

fn or_dash(amount: Option<Amount>) -> String {
    amount.map_or_else(|| "-".to_owned(), |amount| amount.normalized().to_string())
}

/// Returns one row per check and outcome: the first case with that outcome represents all of them.
fn rows(tried: &[Tried]) -> Vec<Vec<String>> {
    let mut rows: Vec<(&Tried, usize)> = Vec::new();
    for one in tried {
        match rows
            .iter_mut()
            .find(|(first, _)| first.check == one.check && first.outcome == one.outcome)
        {
            Some((_, count)) => *count = count.saturating_add(1),
            None => rows.push((one, 1)),
        }
    }
    rows.into_iter()
        .map(|(first, count)| row(first, count))
        .collect()
}

fn row(tried: &Tried, count: usize) -> Vec<String> {
    let is_bool = tried.unit == "bool";
    let amounts = if is_bool {
        [None; 2]
    } else {
        [tried.value, tried.limit]
    };
    let [value, limit] = amounts.map(or_dash);
    let note = match &tried.why {
        Some(why) => why.clone(),
        None if tried.also.is_empty() => String::new(),
        None => format!("also: {}", tried.also.join(", ")),
    };
    let what = format!(
        "{} {} of {}",
        tried.side.as_str(),
        tried.symbol,
        tried.strategy
    );
    let what = if matches!(tried.outcome, Outcome::Tripped | Outcome::NotSet) {
        String::new()
    } else {
        what
    };
    let note = if what.is_empty() {
        note
    } else {
        format!("{what}: {note}")
    };
    let unit = if is_bool {
        String::new()
    } else {
        tried.unit.to_string()
    };
    vec![
        tried.check.to_owned(),
        tried.outcome.as_str().to_owned(),
        count.to_string(),
        value,
        limit,
        unit,
        tried.source.to_string(),
        short(&note, NOTE_CHARS),
    ]
}

fn print(report: &Report, output: &Output) -> Result<()> {
    let header = [
        "check", "result", "cases", "value", "limit", "unit", "source", "note",
    ];
    output.table(&header, &["cases", "value", "limit"], &rows(&report.checks))?;
    for name in &report.untested {
        output.line(&format!(
            "`{name}` has no scenario, which is a fault of the program; report it"
        ))?;
    }
    let (nothing, never): (Vec<&NeverBinds>, Vec<&NeverBinds>) = report
        .never_binds
        .iter()
        .partition(|found| found.nothing_passes);
    let told = |found: &&NeverBinds| {
        vec![
            found.limit.clone(),
            found.value.normalized().to_string(),
            found.because.clone(),
        ]
    };
    if !nothing.is_empty() {
        output.heading("Limits that let nothing pass")?;
        output.table(
            &["limit", "is", "because"],
            &["is"],
            &nothing.iter().map(told).collect::<Vec<_>>(),
        )?;
    }
    if !never.is_empty() {
        output.heading("Limits that can never bind: another one always refuses first")?;
        output.table(
            &["limit", "is", "because"],
            &["is"],
            &never.iter().map(told).collect::<Vec<_>>(),
        )?;
    }
    for skipped in &report.skipped {
        output.line(&format!("skipped: {skipped}"))?;
    }
    let verdict = if report.ok {
        "every check trips"
    } else {
        "NOT every check does what its limit says"
    };
    output.line(&format!("\n{verdict}"))
}
