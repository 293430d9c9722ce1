//! `rules/instruments.yaml`: what may be traded, with exchange filters and fees.

use serde::Deserialize;

use super::bounds::{AtLeast, Fraction, NotNegative, ONE, Positive, Slippage};
use super::yaml;
use spoolgate_wire::ids::{Principal, Symbol};

/// An hour in seconds; bars of this length and more may gap further by default.
const HOUR_S: u32 = 3600;

/// Which market rows a value is taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MarketSource {
    /// Trade bars. Bid and ask are the last close minus and plus `half_spread`.
    Bars,
    /// Two-sided quotes.
    Quotes,
}

/// Where an instrument's orders go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Venue {
    /// The paper venue: market rows fill the orders.
    #[default]
    Paper,
    /// A real venue behind a bridge: instructions go out as files, reports come back signed.
    Outbox,
}

/// One instrument. Filters follow the exchange filters PRICE_FILTER, LOT_SIZE, NOTIONAL and
/// PERCENT_PRICE.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Instrument {
    /// Its name in requests.
    pub symbol: Symbol,
    /// Account currency per unit and price point; 1 for spot.
    pub multiplier: Positive,
    /// Prices are multiples of this; 0 disables the check.
    pub tick: NotNegative,
    /// Sizes are multiples of this; 0 disables the check.
    pub lot: NotNegative,
    /// Smallest size of an order.
    pub min_size: NotNegative,
    /// Largest size of an order.
    pub max_size: Positive,
    /// Smallest notional of an order, account currency.
    pub min_notional: NotNegative,
    /// Smallest distance of a protective stop from the worst entry, in ticks.
    pub min_stop_ticks: u32,
    /// Where bid and ask come from.
    pub quotes_from: MarketSource,
    /// Which rows fill paper orders.
    pub fills_from: MarketSource,
    /// Half of the spread that is assumed if there are only bars, fraction of the price.
    pub half_spread: Slippage,
    /// Slippage of paper market and stop orders, fraction of the price.
    pub slippage: Slippage,
    /// Fee on resting limit fills, fraction of notional.
    pub maker_fee: NotNegative,
    /// Fee on all other fills, fraction of notional.
    pub taker_fee: NotNegative,
    /// Largest share of a bar's volume that paper orders may take.
    pub volume_share: Fraction,
    /// Group of instruments that move together; they share `max_correlated_group`.
    #[serde(default)]
    #[schemars(schema_with = "spoolgate_wire::schema::said_or_null")]
    pub group: Option<String>,
    /// Largest plausible distance of an open from the last price, fraction of that price; if
    /// absent, 0.10, or 0.25 where `bar_s` is 3600 or more. A row of less than an hour that opens
    /// further away is held until the next row agrees with it, and a gap that is believed halts
    /// entries in the symbol until a person clears it. With a distance that no price reaches, such
    /// as 1000000, every row is believed.
    #[serde(default, deserialize_with = "yaml::present")]
    #[schemars(with = "Positive")]
    pub max_gap: Option<Positive>,
    /// Largest distance of a limit price or trigger from the last price when it reaches the venue,
    /// fraction of that price; if absent, any distance. The exchange filter PERCENT_PRICE.
    #[serde(default, deserialize_with = "yaml::present")]
    #[schemars(with = "Positive")]
    pub percent_price: Option<Positive>,
    /// Length of a bar, seconds. Market data are stale after two bars.
    pub bar_s: AtLeast<1>,
    /// Where its orders go.
    #[serde(default)]
    pub venue: Venue,
    /// The bridge that carries out its orders and reports on them; required with `venue: outbox`,
    /// and only then allowed.
    #[serde(default, deserialize_with = "yaml::present")]
    #[schemars(with = "Principal")]
    pub bridge: Option<Principal>,
    /// Whether the venue itself keeps orders that reduce from selling more than is held, as most
    /// derivative venues do and spot venues do not. Without it the gate never has more at the venue,
    /// stops included, than the position.
    #[serde(default)]
    pub reduce_only: bool,
}

impl Instrument {
    /// Returns the largest plausible distance of an open from the last price, fraction of that
    /// price: `max_gap`, or its default.
    pub fn gap_max(&self) -> Positive {
        let usual = if *self.bar_s >= HOUR_S {
            Positive::usual::<{ ONE / 4 }>()
        } else {
            Positive::usual::<{ ONE / 10 }>()
        };
        self.max_gap.unwrap_or(usual)
    }
}

/// The file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InstrumentsFile {
    /// All instruments.
    pub instruments: Vec<Instrument>,
}
