//! `spoolgate market funding` and `market rate`: charge the due rate of a file of funding rates, or
//! one rate, by a signed request.

use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::Serialize;
use spoolgate_host::clock::{Clock, SystemClock};
use spoolgate_market::{self as market, Rate, RateReport};
use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::code::Exit;
use spoolgate_wire::ids::{Principal, Symbol};
use spoolgate_wire::time::Time;

use super::handover;
use super::market::read_file;
use super::output::{Output, plain};

/// Charges the due rate of a file of funding rates.
#[derive(clap::Args)]
pub(super) struct FileArgs {
    /// CSV of times and rates.
    file: PathBuf,
    #[command(flatten)]
    whose: Whose,
    /// Take only rows with this value in the file's symbol column.
    #[arg(long, value_name = "NAME")]
    symbol_in_file: Option<String>,
    /// Print what would happen to each rate; charge nothing.
    #[arg(long)]
    dry_run: bool,
}

/// Charges one funding rate.
#[derive(clap::Args)]
pub(super) struct RateArgs {
    /// Rate as a fraction of the value of positions; above 0, longs pay.
    #[arg(allow_hyphen_values = true, value_parser = Amount::parse_wire)]
    rate: Amount,
    #[command(flatten)]
    whose: Whose,
    /// When the rate was due, RFC 3339 UTC: 00:00, 08:00 or 16:00; default: the last of these.
    #[arg(long, value_parser = Time::parse)]
    time: Option<Time>,
}

/// The instrument, and the principal that charges.
#[derive(clap::Args)]
struct Whose {
    /// The instrument, as in rules/instruments.yaml.
    #[arg(long, value_parser = Symbol::parse)]
    symbol: Symbol,
    /// The principal that charges: a person or feed with a key in the keyring.
    #[arg(long = "as", default_value = "owner", value_name = "PRINCIPAL",
        value_parser = Principal::parse)]
    principal: Principal,
}

/// What happens to a rate.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Fate {
    /// Due before the last funding time: who held positions then is no longer known.
    PassedOver,
    /// Due at the last funding time: the gate is asked to charge it.
    Due,
    /// Not due yet.
    Ahead,
}

/// A rate and what happens to it.
#[derive(Serialize)]
struct Fated<'a> {
    #[serde(flatten)]
    rate: &'a Rate,
    fate: Fate,
}

#[derive(Serialize)]
struct FileReport<'a> {
    #[serde(flatten)]
    report: &'a RateReport,
    symbol: &'a Symbol,
    /// The last time at which funding was due.
    last_due: Time,
    rates: Vec<Fated<'a>>,
}

/// Runs `market funding`.
pub(super) fn from_file(home: &Path, args: &FileArgs, output: &Output) -> Result<Exit> {
    let bytes = read_file(&args.file)?;
    let name = args
        .file
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let (rates, report) = market::import_rates(&name, &bytes, args.symbol_in_file.as_deref())?;
    let last_due = market::last_due(SystemClock::default().now());
    let fated: Vec<Fated> = rates
        .iter()
        .map(|rate| Fated {
            rate,
            fate: fate(rate.time, last_due),
        })
        .collect();
    let due = fated
        .iter()
        .find(|fated| fated.fate == Fate::Due)
        .map(|fated| fated.rate);
    let told = FileReport {
        report: &report,
        symbol: &args.whose.symbol,
        last_due,
        rates: fated,
    };
    if output.is_json() {
        output.json(&told)?;
    } else {
        print_report(&told, output)?;
    }
    match due {
        _ if args.dry_run => Ok(Exit::Success),
        Some(due) => charge(home, &args.whose, due.rate, due.time, output),
        None => {
            output.remark(&format!(
                "the file has no rate for {last_due}, the last funding time: nothing is charged; \
                    fetch the file again, or give the rate with `spoolgate market rate`"
            ));
            Ok(Exit::Refused)
        }
    }
}

/// Runs `market rate`.
pub(super) fn one(home: &Path, args: &RateArgs, output: &Output) -> Result<Exit> {
    let time = args
        .time
        .unwrap_or_else(|| market::last_due(SystemClock::default().now()));
    charge(home, &args.whose, args.rate, time, output)
}

fn fate(time: Time, last_due: Time) -> Fate {
    match time.cmp(&last_due) {
        std::cmp::Ordering::Less => Fate::PassedOver,
        std::cmp::Ordering::Equal => Fate::Due,
        std::cmp::Ordering::Greater => Fate::Ahead,
    }
}

fn charge(home: &Path, whose: &Whose, rate: Amount, time: Time, output: &Output) -> Result<Exit> {
    let Whose { symbol, principal } = whose;
    let payload = serde_json::json!({ "symbol": symbol, "rate": rate, "time": time });
    handover::administer(
        home,
        principal,
        ActionName::FundingUpdate,
        &payload,
        output,
        |answer| {
            let told = |key| handover::value(answer, "FundingCharged", key);
            format!(
                "{rate} of {symbol} at {time}: {} charged to {} positions (ledger line {})",
                told("charged"),
                told("positions"),
                answer.audit_ref
            )
        },
    )
}

/// Prints what happens to every rate, and what is wrong with every dropped row.
fn print_report(told: &FileReport<'_>, output: &Output) -> Result<()> {
    let FileReport {
        report,
        rates,
        last_due,
        ..
    } = told;
    let mut rows = vec![
        vec!["rows in the file".to_owned(), report.rows_in.to_string()],
        vec!["rates".to_owned(), report.rows_out.to_string()],
    ];
    let what = [
        (
            Fate::PassedOver,
            "passed over, only the rate due last is charged",
        ),
        (Fate::Due, "due"),
        (Fate::Ahead, "not due yet"),
    ];
    for (fate, name) in what {
        let mut of_fate = rates
            .iter()
            .filter(|fated| fated.fate == fate)
            .map(|fated| fated.rate.time);
        let Some(first) = of_fate.next() else {
            continue;
        };
        let count = of_fate.clone().count().saturating_add(1);
        let last = of_fate.next_back().unwrap_or(first);
        let span = if first == last {
            format!("of {first}")
        } else {
            format!("of {first} to {last}")
        };
        rows.push(vec![name.to_owned(), format!("{count} {span}")]);
    }
    let counts = [
        ("of other symbols", report.other_symbols),
        ("duplicates dropped", report.duplicates),
        ("at a time without funding, dropped", report.off_time),
        ("impossible rates dropped", report.bad_rates),
        ("unreadable rows dropped", report.unreadable),
        ("values rounded to 10 decimals", report.rounded),
    ];
    let found = counts.iter().filter(|(_, count)| *count > 0);
    rows.extend(found.map(|(name, count)| vec![(*name).to_owned(), count.to_string()]));
    rows.push(vec!["last due".to_owned(), last_due.to_string()]);
    output.table(&["funding rates", ""], &[], &rows)?;
    report
        .problems
        .iter()
        .try_for_each(|problem| output.line(&plain(problem)))
}
