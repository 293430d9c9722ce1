//! Why an input of a check is missing.

use std::borrow::Cow;

use spoolgate_wire::checks::CheckRow;

/// The check that fails if there is no fresh price, and says how old the newest is.
pub(crate) const PRICES: &str = "market_data";

/// What a check lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lack {
    /// In words.
    pub reason: &'static str,
    /// The check that fails for the same cause, if there is one.
    pub follows: Option<&'static str>,
}

/// A sum or product has no exact decimal.
pub(crate) const NOT_EXACT: Lack = Lack::of("it cannot be computed exactly; use fewer digits");
/// There is no fresh bid and ask.
pub(crate) const NO_MARKET: Lack = Lack {
    reason: "no fresh bid and ask, so it cannot be computed",
    follows: Some(PRICES),
};
/// The instrument has no filters.
pub(crate) const NO_INSTRUMENT: Lack = Lack {
    reason: "the instrument is not in rules/instruments.yaml",
    follows: Some("instrument_allowed"),
};
/// An open position cannot be valued.
pub(crate) const NO_EQUITY: Lack = Lack {
    reason: "equity is unknown: a price of an open position is missing or stale",
    follows: Some(PRICES),
};

impl Lack {
    /// Something that no other check says.
    pub(crate) const fn of(reason: &'static str) -> Lack {
        Lack {
            reason,
            follows: None,
        }
    }

    /// Returns the failed row of a check that lacks this.
    pub(crate) fn row(self, unit: &'static str, source: impl Into<Cow<'static, str>>) -> CheckRow {
        CheckRow {
            follows_from: self.follows.map(Cow::Borrowed),
            ..CheckRow::unknown(unit, source, self.reason)
        }
    }
}
