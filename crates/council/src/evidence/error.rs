//! Why figures of a request cannot be used. The texts are in ledger lines: a changed byte makes old
//! decisions differ.

use super::artifacts::ARTIFACT_BYTES_MAX;
use super::metrics::FIGURE_CHARS_MAX;
use super::stats::series::PERIODS_MAX;
use super::tables::{CELLS_MAX, RETURN_MAX};
use spoolgate_wire::json::JsonError;

/// Why a member of the request cannot be used: one sentence.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unusable {
    /// The member is a JSON string that cannot be read.
    #[error("`{0}` is not a text.")]
    NotText(&'static str),
    /// The series in the member is malformed.
    #[error("`{name}` cannot be used: {fault}.")]
    Series {
        /// The member.
        name: &'static str,
        /// What is wrong with it.
        fault: SeriesFault,
    },
    /// The configurations do not all have the same number of periods.
    #[error("`trial_returns` has rows of different length, or none.")]
    Ragged,
    /// The Monte Carlo statistics are too long.
    #[error("`monte_carlo_stats` is larger than {ARTIFACT_BYTES_MAX} bytes.")]
    TooLarge,
    /// The Monte Carlo statistics are not strict JSON.
    #[error("`monte_carlo_stats` is not a JSON object of numbers: {0}.")]
    NotJson(JsonError),
    /// A Monte Carlo statistic does not fit into a float.
    #[error("`monte_carlo_stats` is not a JSON object of numbers: a number is out of range.")]
    NumberOutOfRange,
}

/// What is wrong with a series of returns. Rows and lines are counted from 1.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SeriesFault {
    /// It is not strict JSON.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// It is JSON of another shape, in the parser's words without the place.
    #[error("{0}")]
    Shape(String),
    /// There is no row.
    #[error("it is empty")]
    Empty,
    /// A line of CSV has too few cells.
    #[error("line {0} is too short")]
    Short(usize),
    /// A line of CSV has a cell that is not a finite number.
    #[error("line {0} is not all numbers")]
    NotNumbers(usize),
    /// A row has a value that is not a possible return.
    #[error("row {0} is not a fraction within -1 and {RETURN_MAX}")]
    OutOfRange(usize),
    /// There are too many values.
    #[error(
        "more than {row} values in a row, or {PERIODS_MAX} periods, or {CELLS_MAX} in all; use \
            longer periods"
    )]
    TooMany {
        /// Maximum number of values in a row.
        row: usize,
    },
}

/// Why a metric cannot be used: the end of a sentence that begins with its name.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(super) enum MetricFault {
    /// The text has no length that a figure has.
    #[error("is empty or longer than {FIGURE_CHARS_MAX} characters")]
    Length,
    /// The text is not a number.
    #[error("is not a number")]
    NotNumber,
    /// The number does not fit into a float.
    #[error("is not finite")]
    NotFinite,
    /// The number cannot be a value of this metric.
    #[error("is not within {least} and {most}")]
    OutOfRange {
        /// The smallest possible value.
        least: f64,
        /// The largest possible value.
        most: f64,
    },
    /// The metric is a count.
    #[error("is not a whole number")]
    NotWhole,
    /// The metric is a percentage.
    #[error("looks like a fraction; percentages are in percent, such as 55.0")]
    Fraction,
}
