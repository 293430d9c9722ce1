//! Payload of `market.update`: a few rows of one symbol, inline, and the market regime that the
//! feed reports.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::amount::{self, Amount};
use super::ids::{Regime, Symbol};
use super::payload::PayloadError;
use super::time::Time;

/// Maximum number of rows per request, bars and quotes together: what one decision can fill without
/// producing large lines. Use an import for more.
pub const ROWS_MAX: usize = 256;

/// Longest bar, in seconds: 31 days.
const INTERVAL_S_MAX: u32 = 31 * 86_400;

/// `market.update`. Bars and quotes are each ordered by the time at which they are known.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UpdateMarket {
    /// Instrument.
    pub symbol: Symbol,
    /// Trade bars.
    #[serde(default, deserialize_with = "objects")]
    #[schemars(length(max = ROWS_MAX))]
    pub bars: Vec<BarRow>,
    /// Quotes.
    #[serde(default, deserialize_with = "objects")]
    #[schemars(length(max = ROWS_MAX))]
    pub quotes: Vec<QuoteRow>,
    /// The state of the market in the feed's own words; valid until the feed reports another one.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Regime")]
    pub regime: Option<Regime>,
}

/// A trade bar.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BarRow {
    /// Time at which the bar opens.
    pub open_time: Time,
    /// Duration of the bar, seconds; the bar is known at its end.
    #[schemars(schema_with = "crate::schema::whole::<1, INTERVAL_S_MAX>")]
    pub interval_s: u32,
    /// First price, account currency per unit.
    #[serde(deserialize_with = "amount::wire::required")]
    #[schemars(schema_with = "crate::schema::amount")]
    pub open: Amount,
    /// Highest price, account currency per unit.
    #[serde(deserialize_with = "amount::wire::required")]
    #[schemars(schema_with = "crate::schema::amount")]
    pub high: Amount,
    /// Lowest price, account currency per unit.
    #[serde(deserialize_with = "amount::wire::required")]
    #[schemars(schema_with = "crate::schema::amount")]
    pub low: Amount,
    /// Last price, account currency per unit.
    #[serde(deserialize_with = "amount::wire::required")]
    #[schemars(schema_with = "crate::schema::amount")]
    pub close: Amount,
    /// Traded volume, units of the instrument.
    #[serde(default, deserialize_with = "amount::wire::optional")]
    #[schemars(schema_with = "crate::schema::amount")]
    pub volume: Option<Amount>,
}

/// A two-sided quote.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QuoteRow {
    /// Time at which the quote was valid and known.
    pub time: Time,
    /// Highest price that a buyer bids, account currency per unit.
    #[serde(deserialize_with = "amount::wire::required")]
    #[schemars(schema_with = "crate::schema::amount")]
    pub bid: Amount,
    /// Lowest price that a seller asks, account currency per unit.
    #[serde(deserialize_with = "amount::wire::required")]
    #[schemars(schema_with = "crate::schema::amount")]
    pub ask: Amount,
    /// Size at the bid, units of the instrument.
    #[serde(default, deserialize_with = "amount::wire::optional")]
    #[schemars(schema_with = "crate::schema::amount")]
    pub bid_size: Option<Amount>,
    /// Size at the ask, units of the instrument.
    #[serde(default, deserialize_with = "amount::wire::optional")]
    #[schemars(schema_with = "crate::schema::amount")]
    pub ask_size: Option<Amount>,
}

/// Why a market update is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MarketError {
    /// It contains nothing.
    #[error("the payload has no `bars`, no `quotes` and no `regime`")]
    Empty,
    /// It has too many rows.
    #[error("the payload has {found} rows; one request has at most {ROWS_MAX}")]
    TooManyRows {
        /// How many it has.
        found: usize,
    },
    /// A bar has an invalid length.
    #[error("`interval_s` is {found}; a bar lasts 1 to {INTERVAL_S_MAX} seconds")]
    Interval {
        /// The length in seconds.
        found: u32,
    },
}

impl UpdateMarket {
    /// Checks what the types cannot express: the update contains something, but not too much, and
    /// bars have a valid length.
    ///
    /// # Errors
    /// Returns a [`PayloadError`] with a [`MarketError`].
    pub fn validate(&self) -> Result<(), PayloadError> {
        let rows = self.bars.len().saturating_add(self.quotes.len());
        if rows == 0 && self.regime.is_none() {
            return Err(MarketError::Empty.into());
        }
        if rows > ROWS_MAX {
            return Err(MarketError::TooManyRows { found: rows }.into());
        }
        match self
            .bars
            .iter()
            .find(|bar| bar.interval_s == 0 || bar.interval_s > INTERVAL_S_MAX)
        {
            Some(bar) => Err(MarketError::Interval {
                found: bar.interval_s,
            }
            .into()),
            None => Ok(()),
        }
    }
}

/// Reads an optional field that must not be null.
fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}

/// Reads a list of objects. Serde would also accept a row as the list of its values, a second
/// spelling.
fn objects<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct List<T>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>> Visitor<'de> for List<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of objects")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
            let mut rows = Vec::new();
            while let Some(Object(row)) = list.next_element()? {
                rows.push(row);
            }
            Ok(rows)
        }
    }
    deserializer.deserialize_seq(List(PhantomData))
}

struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Object<T>, D::Error> {
        struct Fields<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }
        deserializer.deserialize_map(Fields(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BAR: &str = r#"{"open_time":"2018-04-05T12:00:00Z","interval_s":60,"open":1,"high":"2.50","low":1,"close":2}"#;
    const QUOTE: &str = r#"{"time":"2018-04-05T12:01:00Z","bid":1,"ask":"1.01","bid_size":3}"#;

    fn read(text: &str) -> Result<UpdateMarket, String> {
        let update: UpdateMarket = serde_json::from_str(text).map_err(|error| error.to_string())?;
        update.validate().map_err(|error| error.to_string())?;
        Ok(update)
    }

    #[test]
    fn rows_are_read_from_their_text() {
        let text =
            format!(r#"{{"symbol":"BTC-USD","bars":[{BAR}],"quotes":[{QUOTE}],"regime":"calm"}}"#);
        let update = read(&text).unwrap();
        assert_eq!(update.bars[0].high.to_string(), "2.50");
        assert_eq!(
            update.quotes[0]
                .bid_size
                .map(|size| size.to_string())
                .as_deref(),
            Some("3")
        );
        assert_eq!(update.regime.as_ref().map(Regime::as_str), Some("calm"));
    }

    #[test]
    fn anything_else_is_refused() {
        let many = vec![QUOTE; ROWS_MAX + 1].join(",");
        for (fields, expect) in [
            (String::new(), "has no `bars`"),
            (r#","bars":[]"#.to_owned(), "has no `bars`"),
            (r#","bars":null"#.to_owned(), "a list of objects"),
            (r#","quotes":{}"#.to_owned(), "a list of objects"),
            (r#","quotes":[null]"#.to_owned(), "an object"),
            (
                r#","quotes":[["2018-04-05T12:01:00Z",1,1]]"#.to_owned(),
                "an object",
            ),
            (r#","regime":null"#.to_owned(), "null"),
            (r#","regime":"Very calm"#.to_owned() + "\"", "regime"),
            (r#","rows":[]"#.to_owned(), "unknown field `rows`"),
            (
                format!(r#","bars":[{}]"#, BAR.replace("\"open\":1,", "")),
                "missing field `open`",
            ),
            (
                format!(r#","bars":[{}]"#, BAR.replace("}", ",\"vwap\":1}")),
                "unknown field `vwap`",
            ),
            (
                format!(r#","bars":[{}]"#, BAR.replace("}", ",\"volume\":null}")),
                "is not an amount",
            ),
            (
                format!(r#","bars":[{}]"#, BAR.replace("60", "0")),
                "1 to 2678400 seconds",
            ),
            (
                format!(r#","bars":[{}]"#, BAR.replace("60", "2678401")),
                "1 to 2678400 seconds",
            ),
            (
                format!(r#","quotes":[{}]"#, QUOTE.replace("\"1.01\"", "1e3")),
                "is not an amount",
            ),
            (format!(r#","quotes":[{many}]"#), "at most 256"),
        ] {
            let error = read(&format!(r#"{{"symbol":"BTC-USD"{fields}}}"#)).unwrap_err();
            assert!(error.contains(expect), "{fields}: {error}");
        }
    }
}
