//! Market rows through the venue, whether they came from a stored file (`market.import`) or stand in the request
//! (`market.update`).

use std::collections::BTreeMap;

use super::handle::{AnswerBody, Outcome, Turn, data};
use super::prepare::Refusal;
use super::record::MarketRows;
use super::state::Change;
use crate::trading;
use crate::trading::book::Given;
use crate::trading::market::Row;
use crate::trading::venue::{self, LeftOpen, Step, paper};
use crate::wire::code::Code;
use crate::wire::ids::{OrderId, Symbol};
use crate::wire::market::{BarRow, QuoteRow, UpdateMarket};
use crate::wire::time::Time;

/// Where the rows of `market` lines are kept.
pub(super) enum RowSource {
    /// In `audit/blobs`.
    Blob {
        /// Name of the file they came from.
        file_name: String,
        /// Its SHA-256, hex.
        file_sha256: String,
        /// The rows' digest, hex.
        rows_sha256: String,
    },
    /// In the payload of the decision that the lines stand before.
    Payload,
}

/// What rows did.
pub(super) struct Run {
    /// The changes, as they fit lines.
    pub(super) steps: Vec<Step>,
    /// How many executions are among them.
    pub(super) fills: usize,
    /// Orders that the market reached and the venue could not fill, and why.
    pub(super) left_open: Vec<LeftOpen>,
}

impl Turn<'_> {
    /// Runs rows of one symbol, which are sound and in order, through the venue.
    ///
    /// # Errors
    /// A [`Refusal`] for rows from ahead of the gate's clock and instruments that are not configured.
    pub(super) fn run(&self, symbol: &Symbol, rows: &[Row]) -> Result<Run, Refusal> {
        let refuse = |what: String| Refusal::new(Code::MarketRefused, what);
        let ahead_ms = i64::from(self.rules.safety.request_ahead_max_s).saturating_mul(1000);
        if let Some(row) = rows.iter().find(|row| row.known_ms() > self.now.ms().saturating_add(ahead_ms)) {
            let known = Time::from_ms(row.known_ms()).map_or_else(|e| e.to_string(), |time| time.to_string());
            return Err(refuse(format!("a row is known only at {known}, the gate's clock is {}", self.now)));
        }
        if !self.rules.instruments.contains_key(symbol) {
            return Err(refuse(format!("`{symbol}` is not in rules/instruments.yaml")));
        }
        let book = &self.state.book;
        let mut steps = paper::on_rows(book, self.rules, symbol, rows, self.now)
            .map_err(|error| Refusal::new(Code::Internal, error.to_string()))?;
        let mut fills = 0_usize;
        let mut left_open: BTreeMap<OrderId, LeftOpen> = BTreeMap::new();
        for step in &mut steps {
            let left = std::mem::take(&mut step.left_open);
            left_open.extend(left.into_iter().map(|left| (left.order_id, left)));
            let filled =
                step.changes.iter().filter(|change| matches!(change, trading::Change::OrderFilled(_)));
            fills = fills.saturating_add(filled.count());
        }
        Ok(Run { steps, fills, left_open: left_open.into_values().collect() })
    }

    /// One `market` line a step.
    pub(super) fn market_lines(
        &self,
        symbol: &Symbol,
        source: &RowSource,
        steps: Vec<Step>,
    ) -> Vec<MarketRows> {
        let (file_name, file_sha256, rows_sha256) = match source {
            RowSource::Blob { file_name, file_sha256, rows_sha256 } => {
                (Some(file_name), Some(file_sha256), Some(rows_sha256))
            }
            RowSource::Payload => (None, None, None),
        };
        let line = |step: Step| MarketRows {
            timestamp: self.now,
            symbol: symbol.to_string(),
            file_name: file_name.cloned(),
            file_sha256: file_sha256.cloned(),
            rows_sha256: rows_sha256.cloned(),
            first_row: u64::try_from(step.first_row).unwrap_or(u64::MAX),
            row_count: u64::try_from(step.row_count).unwrap_or(u64::MAX),
            changes: step.changes.into_iter().map(Change::Book).collect(),
        };
        steps.into_iter().map(line).collect()
    }

    /// `market.update`. What rows do stands in the decision's own line; only what does not fit there gets lines of its
    /// own, as with an import.
    pub(super) fn update(&self, update: &UpdateMarket) -> Result<Outcome, Refusal> {
        let UpdateMarket { symbol, regime, .. } = update;
        let given = rows(update).map_err(|what| Refusal::new(Code::MarketRefused, what))?;
        let Run { mut steps, fills, left_open } = self.run(symbol, &given)?;
        let taken = venue::count_new(&self.state.book, self.rules, symbol, &given, self.now);
        let mut changes = Vec::new();
        if let [step] = steps.as_mut_slice() {
            changes.extend(std::mem::take(&mut step.changes).into_iter().map(Change::Book));
            steps.clear();
        }
        let market = self.market_lines(symbol, &RowSource::Payload, steps);
        changes.extend(regime.clone().map(|regime| {
            let given = Given { regime, at: self.now };
            Change::Book(trading::Change::RegimeGiven { symbol: symbol.clone(), given })
        }));
        let (rows, lines, regime) = (given.len(), market.len(), regime.as_ref());
        let body = AnswerBody::MarketUpdated { symbol, rows, taken, lines, fills, left_open, regime };
        Ok(Outcome { data: data(&body)?, market, changes, ..Outcome::default() })
    }
}

/// The rows of an update in the order that they were known in, bars before quotes of the same instant: sound, and each
/// kind in strict order of time, as rows of a stored blob are.
///
/// # Errors
/// Which row cannot be market data, or is out of order.
pub fn rows(update: &UpdateMarket) -> Result<Vec<Row>, String> {
    let bars = checked("bars", update.bars.iter().map(bar).collect())?;
    let quotes = checked("quotes", update.quotes.iter().map(quote).collect())?;
    let mut rows = [bars, quotes].concat();
    rows.sort_by_key(Row::known_ms);
    Ok(rows)
}

fn bar(bar: &BarRow) -> Row {
    Row::Bar {
        open_ms: bar.open_time.ms(),
        interval_ms: i64::from(bar.interval_s).saturating_mul(1000),
        open: bar.open,
        high: bar.high,
        low: bar.low,
        close: bar.close,
        volume: bar.volume,
    }
}

fn quote(quote: &QuoteRow) -> Row {
    Row::Quote {
        time_ms: quote.time.ms(),
        bid: quote.bid,
        ask: quote.ask,
        bid_size: quote.bid_size,
        ask_size: quote.ask_size,
    }
}

fn checked(name: &str, rows: Vec<Row>) -> Result<Vec<Row>, String> {
    for (index, row) in rows.iter().enumerate() {
        row.check().map_err(|flaw| format!("`{name}[{index}]`: {flaw}"))?;
    }
    let later = rows.iter().skip(1).zip(&rows).position(|(next, row)| next.known_ms() <= row.known_ms());
    match later {
        Some(index) => {
            let index = index.saturating_add(1);
            Err(format!("`{name}[{index}]` is not later than the one before it"))
        }
        None => Ok(rows),
    }
}
