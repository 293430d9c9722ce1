//! `market.import`.

use super::prelude::*;
use crate::market::{RowSource, Run};
use spoolgate_trading::market_row as row;
use spoolgate_trading::venue::LeftOpen;
use spoolgate_wire::admin::{ImportMarket, is_digest};

/// Takes in market rows from a stored file.
pub struct MarketImport;

/// The answer.
#[derive(Serialize, JsonSchema)]
pub enum Answer {
    /// The answer to `market.import`.
    MarketImported {
        /// The instrument.
        symbol: String,
        /// Number of rows.
        rows: usize,
        /// Number of `market` lines before the decision's own line.
        lines: usize,
        /// Number of executions.
        fills: usize,
        /// Every order that the market reached and the venue could not fill.
        left_open: Vec<LeftOpen>,
    },
}

impl Action for MarketImport {
    type Payload = ImportMarket;
    type Answer = Answer;
    const ABOUT: &'static str = "Imports market rows that a command has stored.";
    const CONDITIONS: &'static [Condition] = &[WHOLE, BYTES];
    const ROW: Row = Row::new(
        ActionName::MarketImport,
        "ImportMarket",
        "symbol, rows_sha256, row_count, file_sha256, file_name",
        FEEDS,
    )
    .lane(Lane::Feed);

    fn check(import: &ImportMarket) -> Result<(), PayloadError> {
        if !is_digest(&import.rows_sha256) || !is_digest(&import.file_sha256) {
            return Err(PayloadError::Forms {
                fields: ["rows_sha256", "file_sha256"],
                rule: "must be 64 lower-case hex digits",
            });
        }
        let (field, most) = ("file_name", 255);
        if import.file_name.len() > most {
            return Err(PayloadError::TooLong { field, most });
        }
        Ok(())
    }

    fn needs(_: &Rulebook, _: &Authentic, import: &ImportMarket, needs: &mut Needs) {
        needs.rows = Some(import.rows_sha256.clone());
    }

    fn execute(turn: &Turn<'_>, _: &Authentic, import: &ImportMarket) -> Result<Outcome, Refusal> {
        let refuse = |what: String| Refusal::new(Code::MarketRefused, what);
        let bytes = turn.lookups.rows.as_ref().ok_or_else(|| {
            refuse(format!(
                "audit/blobs has no intact rows `{}`",
                import.rows_sha256
            ))
        })?;
        let rows = row::parse_blob(bytes)
            .map_err(|error| refuse(format!("rows `{}`: {error}", import.rows_sha256)))?;
        if u32::try_from(rows.len()) != Ok(import.row_count) {
            return Err(refuse(format!(
                "the request names {} rows, but the blob holds {}",
                import.row_count,
                rows.len()
            )));
        }
        let Run {
            steps,
            fills,
            left_open,
        } = turn.run(&import.symbol, &rows)?;
        let source = RowSource::Blob {
            file_name: import.file_name.clone(),
            file_sha256: import.file_sha256.clone(),
            rows_sha256: import.rows_sha256.clone(),
        };
        let market = turn.market_lines(&import.symbol, &source, steps);
        let symbol = import.symbol.to_string();
        let (rows, lines) = (rows.len(), market.len());
        let data = data(&Answer::MarketImported {
            symbol,
            rows,
            lines,
            fills,
            left_open,
        })?;
        Ok(Outcome {
            data,
            market,
            ..Outcome::default()
        })
    }
}
