//! Runs market rows through the venue, whether they come from a stored file (`market.import`) or
//! from the request (`market.update`).

use std::collections::BTreeMap;

use super::handle::Turn;
use super::prepare::Refusal;
use super::pulls::Doors;
use super::record::MarketRows;
use super::state::Change;
use spoolgate_trading as trading;
use spoolgate_trading::market_row::{Row, RowFlaw};
use spoolgate_trading::venue::{LeftOpen, Step, paper};
use spoolgate_wire::code::Code;
use spoolgate_wire::ids::{OrderId, Symbol};
use spoolgate_wire::market::{BarRow, QuoteRow, UpdateMarket};
use spoolgate_wire::time::Time;

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
    /// In the payload of the decision that follows the lines.
    Payload,
}

/// Why rows of a request are not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RowError {
    /// A row cannot be market data.
    #[error("`{list}[{index}]`: {flaw}")]
    Flaw {
        /// The list of the payload.
        list: &'static str,
        /// The index of the row.
        index: usize,
        /// What is wrong with it.
        flaw: RowFlaw,
    },
    /// A row is not later than the row before it.
    #[error("`{list}[{index}]` is not later than the row before it")]
    Order {
        /// The list of the payload.
        list: &'static str,
        /// The index of the row.
        index: usize,
    },
}

/// The effects of rows.
pub(super) struct Run {
    /// The changes, in steps that fit lines.
    pub(super) steps: Vec<Step>,
    /// How many executions they include.
    pub(super) fills: usize,
    /// Orders that the market reached and the venue could not fill, with the reason.
    pub(super) left_open: Vec<LeftOpen>,
}

impl Turn<'_> {
    /// Runs valid, ordered rows of one symbol through the venue.
    ///
    /// # Errors
    /// Returns a [`Refusal`] if rows are ahead of the gate's clock or the instrument is not
    /// configured.
    pub(super) fn run(&self, symbol: &Symbol, rows: &[Row]) -> Result<Run, Refusal> {
        let refuse = |what: String| Refusal::new(Code::MarketRefused, what);
        let ahead_ms = i64::from(self.rules.safety.request_ahead_max_s).saturating_mul(1000);
        if let Some(row) = rows
            .iter()
            .find(|row| row.known_ms() > self.now.ms().saturating_add(ahead_ms))
        {
            let known = Time::from_ms(row.known_ms())
                .map_or_else(|e| e.to_string(), |time| time.to_string());
            return Err(refuse(format!(
                "a row is known only from {known} on, and the gate's clock is at {}",
                self.now
            )));
        }
        if !self.rules.instruments.contains_key(symbol) {
            return Err(refuse(format!(
                "`{symbol}` is not in rules/instruments.yaml"
            )));
        }
        let book = &self.state.book;
        let doors = Doors {
            state: self.state,
            rules: self.rules,
        };
        let (now, seq) = (self.now, self.seq);
        let mut steps = paper::on_rows(book, self.rules, symbol, rows, Some(&doors), now, seq)
            .map_err(|error| Refusal::new(Code::Internal, error.to_string()))?;
        let mut fills = 0_usize;
        let mut left_open: BTreeMap<OrderId, LeftOpen> = BTreeMap::new();
        for step in &mut steps {
            let left = std::mem::take(&mut step.left_open);
            left_open.extend(left.into_iter().map(|left| (left.order_id, left)));
            let filled = step
                .changes
                .iter()
                .filter(|change| matches!(change, trading::Change::OrderFilled(_)));
            fills = fills.saturating_add(filled.count());
        }
        Ok(Run {
            steps,
            fills,
            left_open: left_open.into_values().collect(),
        })
    }

    /// One `market` line per step.
    pub(super) fn market_lines(
        &self,
        symbol: &Symbol,
        source: &RowSource,
        steps: Vec<Step>,
    ) -> Vec<MarketRows> {
        let (file_name, file_sha256, rows_sha256) = match source {
            RowSource::Blob {
                file_name,
                file_sha256,
                rows_sha256,
            } => (Some(file_name), Some(file_sha256), Some(rows_sha256)),
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
}

/// The rows of an update in the order in which they became known, bars before quotes of the same
/// instant. They are valid, and each kind is in strict order of time, like the rows of a stored
/// blob.
///
/// # Errors
/// Names the row that cannot be market data or is out of order.
pub fn rows(update: &UpdateMarket) -> Result<Vec<Row>, RowError> {
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

fn checked(list: &'static str, rows: Vec<Row>) -> Result<Vec<Row>, RowError> {
    for (index, row) in rows.iter().enumerate() {
        row.check()
            .map_err(|flaw| RowError::Flaw { list, index, flaw })?;
    }
    let later = rows
        .iter()
        .skip(1)
        .zip(&rows)
        .position(|(next, row)| next.known_ms() <= row.known_ms());
    match later {
        Some(index) => Err(RowError::Order {
            list,
            index: index.saturating_add(1),
        }),
        None => Ok(rows),
    }
}
