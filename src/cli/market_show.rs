//! `spoolgate market show`: prices and facts as checks and rules see them. Takes no lock.

use std::path::Path;

use anyhow::{Result, bail};
use spoolgate_trading::views::{self, MarketState};
use spoolgate_wire::code::Exit;
use spoolgate_wire::ids::Symbol;

use super::look;
use super::output::Output;

/// Shows what is known about markets.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The instrument; default: all of rules/instruments.yaml.
    #[arg(value_parser = Symbol::parse)]
    symbol: Option<Symbol>,
}

/// Runs the command.
pub(super) fn run(home: &Path, args: &Args, output: &Output) -> Result<Exit> {
    let (view, now) = look::view(home)?;
    let symbols: Vec<&Symbol> = match &args.symbol {
        Some(symbol) => vec![symbol],
        None => view.rulebook.instruments.keys().collect(),
    };
    for symbol in symbols {
        match views::market(&view.state.book, &view.rulebook, symbol, now) {
            Some(market) if output.is_json() => output.json(&market)?,
            Some(market) => print(&market, output)?,
            None => {
                bail!(
                    "`{symbol}` is not in rules/instruments.yaml; `spoolgate market show` lists \
                        what is"
                )
            }
        }
    }
    Ok(Exit::Success)
}

fn print(market: &MarketState, output: &Output) -> Result<()> {
    let facts = &market.facts;
    let unknown = || "-".to_owned();
    let number = |amount: Option<spoolgate_wire::amount::Amount>| {
        amount.map_or_else(unknown, |amount| amount.normalized().to_string())
    };
    let time = |time: Option<spoolgate_wire::time::Time>| {
        time.map_or_else(unknown, |time| time.to_string())
    };
    let regime = match (&facts.regime, facts.regime_since) {
        (Some(regime), Some(since)) => format!("{regime} since {since}"),
        _ => unknown(),
    };
    let rows = [
        (
            "last trade",
            format!("{} at {}", number(market.last), time(market.last_time)),
        ),
        (
            "quote",
            format!(
                "{} / {} at {}",
                number(market.bid),
                number(market.ask),
                time(market.quote_time)
            ),
        ),
        (
            "closed to entries as stale",
            if market.stale { "yes" } else { "no" }.to_owned(),
        ),
        ("price", number(facts.price)),
        ("spread", number(facts.spread_pct)),
        ("volume_ratio", number(facts.volume_ratio)),
        ("volatility", number(facts.volatility)),
        ("funding_rate", number(facts.funding_rate)),
        ("funding_rate_zscore", number(facts.funding_rate_zscore)),
        ("regime", regime),
        ("minutes_since_open", facts.minutes_since_open.to_string()),
    ];
    let rows: Vec<Vec<String>> = rows
        .into_iter()
        .map(|(name, value)| vec![name.to_owned(), value])
        .collect();
    output.table(&[market.symbol.as_str(), ""], &[], &rows)
}
