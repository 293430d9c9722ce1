//! `rules/instruments.yaml`: what may be traded, with exchange filters and fees.

use serde::Deserialize;

use super::bounds::{AtLeast, Bounded, Fraction, NotNegative, ONE, Positive, Slippage};
use super::yaml;
use spoolgate_wire::ids::{Currency, Principal, Symbol};
use spoolgate_wire::time::Time;

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
    /// An exchange inside the gate that market rows feed. Orders take the path of orders at a real
    /// venue, with latency, locked balances, refusals and silence, and without files or a bridge.
    Imitated,
}

/// The name under which orders at the imitated exchange are kept, in place of a bridge. No bridge may
/// have it.
pub const IMITATED: &str = "imitated";

/// Whether this is the name of the imitated exchange.
pub fn is_imitated(bridge: &Principal) -> bool {
    bridge.as_str() == IMITATED
}

/// How the imitated exchange treats the orders of an instrument.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Imitate {
    /// How long after it was given an instruction reaches the exchange, seconds.
    pub latency_s: Bounded<0, 3600>,
    /// Whether a working sell order locks what it sells, so that the exchange refuses a further one for
    /// the same coins, as spot exchanges do. Without effect where `reduce_only` is true.
    pub reserves: bool,
    /// Whether the fee of a purchase is taken from the coins that were bought. Needs `base`; without it
    /// fees are paid in account currency.
    pub base_fee: bool,
    /// Every so many new entries, the exchange refuses one; 0 refuses none.
    pub reject_every: u32,
    /// When the exchange says nothing and takes no instruction.
    pub silent: Vec<Silent>,
}

impl Default for Imitate {
    fn default() -> Imitate {
        Imitate {
            latency_s: Bounded::usual::<1>(),
            reserves: true,
            base_fee: true,
            reject_every: 0,
            silent: Vec::new(),
        }
    }
}

impl Imitate {
    /// Returns the silence at this time, if there is one.
    pub fn silence_at(&self, at: Time) -> Option<&Silent> {
        let mut silent = self.silent.iter();
        silent.find(|silent| silent.from <= at && at < silent.until)
    }

    /// Returns when an instruction that was given at this time reaches the exchange: after the latency,
    /// and not during a silence.
    pub fn arrives(&self, given: Time) -> Time {
        let latency_ms = i64::from(*self.latency_s).saturating_mul(1000);
        let mut at = given.plus_ms(latency_ms);
        // Silences may follow one another; each pass leaves one behind.
        while let Some(silent) = self.silence_at(at) {
            at = silent.until;
        }
        at
    }
}

/// A time in which the imitated exchange is silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Silent {
    /// When it begins.
    pub from: Time,
    /// When it ends; later than `from`.
    pub until: Time,
}

/// One instrument. Filters follow the exchange filters PRICE_FILTER, LOT_SIZE, NOTIONAL and
/// PERCENT_PRICE.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Instrument {
    /// Its name in requests.
    pub symbol: Symbol,
    /// The coin that its sizes count, such as BTC. A venue may take the fee of a purchase in it; if
    /// absent, fees in it need a value in account currency.
    #[serde(default, deserialize_with = "yaml::present")]
    #[schemars(with = "Currency")]
    pub base: Option<Currency>,
    /// The currency that it is priced in: the `currency` of safety.yaml.
    #[serde(default, deserialize_with = "yaml::present")]
    #[schemars(with = "Currency")]
    pub quote: Option<Currency>,
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
    /// and only then allowed. With `venue: imitated` the gate sets it to [`IMITATED`] itself.
    #[serde(default, deserialize_with = "yaml::present")]
    #[schemars(with = "Principal")]
    pub bridge: Option<Principal>,
    /// How the imitated exchange treats its orders; only with `venue: imitated`.
    #[serde(default, deserialize_with = "yaml::present")]
    #[schemars(with = "Imitate")]
    pub imitate: Option<Imitate>,
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
