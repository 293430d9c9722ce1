//! `spoolgate market`: records files of prices and funding rates in the ledger by signed requests,
//! and shows what is known.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use spoolgate_home::batch::keep_blob;
use spoolgate_home::open::read_genesis;
use spoolgate_home::read::real_seams;
use spoolgate_host::clock::{Clock, SystemClock};
use spoolgate_market::{self as market, Edge, Options, Report, Row};
use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::code::Exit;
use spoolgate_wire::ids::{Principal, Symbol};
use spoolgate_wire::signing::sha256_hex;
use spoolgate_wire::time::Time;

use super::output::Output;
use super::progress::Progress;
use super::{funding, handover, market_show};

/// Rows per request: as many as one decision can take without its lines getting too large.
pub(super) const ROWS_PER_REQUEST: usize = 2000;

/// Size of the largest readable file, in bytes.
const FILE_BYTES_MAX: u64 = 512 * 1024 * 1024;

/// The commands.
#[derive(clap::Subcommand)]
pub(super) enum Command {
    /// Import bars or quotes from a file.
    #[command(after_help = "Examples:\n  spoolgate market import \
        examples/market/lean-coinbase-minute-btcusd_20180405_trade.zip --symbol BTC-USD \
        --end-now\n  spoolgate market import bars.csv --symbol BTC-USD --interval 1m --at-end-of \
        close\n\nFormats: Lean zips, CSV with a header, Binance klines. Nothing is dropped \
        silently: see the report.")]
    Import(Args),
    /// Show prices and the market facts that rules may read.
    #[command(
        after_help = "Examples:\n  spoolgate market show\n  spoolgate --format json market show \
            BTC-USD | jq .facts\n\nA dash, or null, marks a value that cannot be computed or is \
            old."
    )]
    Show(market_show::Args),
    /// Charge the due rate of a file of funding rates.
    #[command(
        after_help = "Examples:\n  spoolgate market funding rates.csv --symbol BTC-USD \
            --dry-run\n  spoolgate market funding rates.csv --symbol BTC-USD --as \
            prices\n\nFormats: CSV of time and rate, with a header or without. Only the rate that \
            was due last (00:00, 08:00, 16:00 UTC) is\ncharged, once, on the positions held when \
            it is decided; the report shows the other rates. Exit code 1: the file has no\nrate \
            for that time."
    )]
    Funding(funding::FileArgs),
    /// Charge one funding rate.
    #[command(
        after_help = "Examples:\n  spoolgate market rate 0.0001 --symbol BTC-USD\n  spoolgate \
            market rate -0.00004 --symbol BTC-USD --time 2026-01-05T08:00:00Z"
    )]
    Rate(funding::RateArgs),
}

/// What the time column of bars means.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum EdgeArg {
    /// When the bar begins.
    Open,
    /// When the bar ends.
    Close,
}

/// Imports a file.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The file.
    file: PathBuf,
    /// The instrument, as in rules/instruments.yaml.
    #[arg(long)]
    symbol: String,
    /// Length of a bar, such as 1m, 1h, 1d; default: from the file.
    #[arg(long)]
    interval: Option<String>,
    /// What the file's time column means for bars.
    #[arg(long, value_enum, value_name = "EDGE")]
    at_end_of: Option<EdgeArg>,
    /// Take only rows with this value in the file's symbol column.
    #[arg(long, value_name = "NAME")]
    symbol_in_file: Option<String>,
    /// Take only rows known before this time, RFC 3339 UTC.
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Shift all times so that the last row is known now; for experiments with old prices, not for
    /// history.
    #[arg(long)]
    end_now: bool,
    /// Check the file and print the report; import nothing.
    #[arg(long)]
    dry_run: bool,
    /// The principal that imports: a person or feed with a key in the keyring.
    #[arg(long = "as", default_value = "owner", value_name = "PRINCIPAL")]
    principal: String,
}

/// Runs a command.
pub(super) fn run(home: &Path, command: &Command, output: &Output) -> Result<Exit> {
    match command {
        Command::Import(args) => import(home, args, output),
        Command::Show(args) => market_show::run(home, args, output),
        Command::Funding(args) => funding::from_file(home, args, output),
        Command::Rate(args) => funding::one(home, args, output),
    }
}

/// Reads a file of rows up to a limit, because the path may be a device that never ends.
pub(super) fn read_file(path: &Path) -> Result<Vec<u8>> {
    let shown = || format!("file `{}`; name a file of prices or rates", path.display());
    let mut bytes = Vec::new();
    let file = File::open(path).with_context(shown)?;
    file.take(FILE_BYTES_MAX.saturating_add(1))
        .read_to_end(&mut bytes)
        .with_context(shown)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > FILE_BYTES_MAX {
        bail!(
            "file `{}` has more than {FILE_BYTES_MAX} bytes; split it",
            path.display()
        );
    }
    Ok(bytes)
}

fn import(home: &Path, args: &Args, output: &Output) -> Result<Exit> {
    let symbol = Symbol::parse(&args.symbol)?;
    let principal = Principal::parse(&args.principal)?;
    let bytes = read_file(&args.file)?;
    let name = args
        .file
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let options = Options {
        interval_ms: args
            .interval
            .as_deref()
            .map(market::parse_interval)
            .transpose()?,
        at_end_of: args.at_end_of.map(|edge| match edge {
            EdgeArg::Open => Edge::Open,
            EdgeArg::Close => Edge::Close,
        }),
        symbol_in_file: args.symbol_in_file.clone(),
    };
    let imported = market::import(&name, &bytes, &options)?;
    let mut rows = imported.rows;
    if let Some(until) = &args.until {
        let until = Time::parse(until)?;
        rows.retain(|row| row.known_ms() < until.ms());
    }
    if args.end_now {
        end_at(&mut rows, SystemClock::default().now());
    }
    if args.dry_run {
        print_report(&imported.report, &rows, output)?;
        return Ok(Exit::Success);
    }
    let seams = real_seams(home)?;
    read_genesis(home, seams.disk.as_ref())?;
    handover::persons_key(home, &principal)?;
    print_report(&imported.report, &rows, output)?;
    if rows.is_empty() {
        bail!("no rows are left to import");
    }
    let file_sha256 = sha256_hex(&bytes);
    let file_name: String = name.chars().take(60).collect();
    let progress = Progress::of(
        output,
        "rows",
        u64::try_from(rows.len()).unwrap_or(u64::MAX),
    );
    for part in rows.chunks(ROWS_PER_REQUEST) {
        let blob = market::write_blob(part);
        let digest = sha256_hex(blob.as_bytes());
        keep_blob(seams.disk.as_ref(), &digest, blob.as_bytes())?;
        let payload = serde_json::json!({
            "symbol": symbol, "rows_sha256": digest, "row_count": part.len(),
            "file_sha256": file_sha256, "file_name": file_name,
        });
        let exit = handover::administer(
            home,
            &principal,
            ActionName::MarketImport,
            &payload,
            output,
            |answer| {
                let told = |key| handover::value(answer, "MarketImported", key);
                let news = match told("lines").as_str() {
                    "0" => ", none newer than what is known: nothing changed".to_owned(),
                    _ => format!(", {} fills", told("fills")),
                };
                let news = match told("left_open").as_str() {
                    "[]" => news,
                    left => format!("{news}, not filled: {left}"),
                };
                format!(
                    "{} rows of {symbol}{news} (ledger line {})",
                    told("rows"),
                    answer.audit_ref
                )
            },
        )?;
        if exit != Exit::Success {
            return Ok(exit);
        }
        progress.more(part.len());
    }
    Ok(Exit::Success)
}

/// Shifts rows so that the last one is known at `now`.
fn end_at(rows: &mut [Row], now: Time) {
    let Some(last) = rows.iter().map(Row::known_ms).max() else {
        return;
    };
    // Shift by whole minutes, so that a pair of files with bars and quotes shifts alike.
    let shift = now
        .ms()
        .saturating_sub(last)
        .div_euclid(60_000)
        .saturating_mul(60_000);
    for row in rows {
        match row {
            Row::Bar { open_ms, .. } => *open_ms = open_ms.saturating_add(shift),
            Row::Quote { time_ms, .. } => *time_ms = time_ms.saturating_add(shift),
        }
    }
}

/// Prints what a file holds, and which rows of it are taken, with their shifted times.
fn print_report(report: &Report, taken: &[Row], output: &Output) -> Result<()> {
    if output.is_json() {
        return output.json(report);
    }
    let time = |ms: Option<i64>| {
        ms.and_then(|ms| Time::from_ms(ms).ok())
            .map_or_else(|| "-".to_owned(), |time| time.to_string())
    };
    let known = || taken.iter().map(Row::known_ms);
    let mut rows: Vec<Vec<String>> = vec![
        vec!["read as".to_owned(), report.format.name().to_owned()],
        vec!["rows in the file".to_owned(), report.rows_in.to_string()],
        vec!["rows taken".to_owned(), taken.len().to_string()],
        vec!["first known".to_owned(), time(known().min())],
        vec!["last known".to_owned(), time(known().max())],
    ];
    let counts = [
        ("of other symbols", report.other_symbols),
        ("duplicates dropped", report.duplicates),
        ("out of order, sorted", report.out_of_order),
        ("gaps", report.gaps),
        ("overlapping bars", report.overlaps),
        ("crossed quotes dropped", report.crossed_quotes),
        ("impossible prices dropped", report.bad_prices),
        ("unreadable rows dropped", report.unreadable),
        ("values rounded to 10 decimals", report.rounded),
    ];
    rows.extend(
        counts
            .iter()
            .filter(|(_, n)| *n > 0)
            .map(|(name, n)| vec![(*name).to_owned(), n.to_string()]),
    );
    output.table(&["market file", ""], &[], &rows)?;
    report
        .problems
        .iter()
        .try_for_each(|problem| output.line(&super::output::plain(problem)))
}
