//! `venue.report`: what happened to an order at a venue behind a bridge. Names follow FIX
//! ExecutionReport.

use serde::{Deserialize, Deserializer, Serialize, de};

use super::amount::{self, Amount};
use super::ids::{Currency, ExecId, OrderId, Symbol};
use super::orders::Side;
use super::payload::PayloadError;
use super::time::Time;

/// How the ids of reports begin that the gate makes itself of what a person states.
pub const ASSUMED: &str = "by-";

/// The text of a `rejected` report of a bridge that did nothing about a version: its time had passed.
pub const EXPIRED: &str = "expired";

/// Longest text of a rejection, in bytes.
pub const TEXT_BYTES_MAX: usize = 500;

/// A checked report: it has exactly the fields that its event needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VenueReport {
    /// The order.
    pub order_id: OrderId,
    /// The venue's id of this report; booked once.
    pub exec_id: ExecId,
    /// When the event happened, by the venue's clock.
    pub transact_time: Time,
    /// Total filled size of the order, this trade included (FIX CumQty). Not below 0.
    pub cum_qty: Amount,
    /// What happened.
    pub event: ExecEvent,
}

/// What happened to an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExecEvent {
    /// The venue works this version of the order: `new` or `replaced`.
    Working {
        /// Version of the instruction, from 1.
        version: u32,
    },
    /// `trade`: the order was filled, completely or in part.
    Trade {
        /// Size of the trade, above 0.
        last_qty: Amount,
        /// Price of the trade, above 0.
        last_px: Amount,
        /// Fee of the trade; a negative fee is a rebate.
        fee: Amount,
        /// Currency of the fee; `None` if it is the account's.
        fee_currency: Option<Currency>,
        /// The fee in account currency, if the report states it.
        fee_value: Option<Amount>,
        /// Whether the order added or removed liquidity.
        liquidity: TradeLiquidity,
    },
    /// The order is closed at the venue.
    Gone {
        /// How.
        how: Gone,
        /// The newest version of the order that the bridge had carried out by then.
        version: Option<u32>,
    },
}

/// Why an order is closed at the venue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gone {
    /// `canceled`.
    Canceled,
    /// `expired`.
    Expired,
    /// `rejected`: the venue refused it, or a replacement of it.
    Rejected {
        /// The reason in the venue's words.
        text: String,
    },
}

/// Whether a trade added or removed liquidity (FIX LastLiquidityInd).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TradeLiquidity {
    /// The order rested in the book first.
    Maker,
    /// The order met a resting one.
    Taker,
}

/// Kind of a report (FIX ExecType).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ExecType {
    /// The venue works the order: with `version`.
    New,
    /// The venue works another version of the order: with `version`.
    Replaced,
    /// The order was filled: with `last_qty`, `last_px`, `fee` and `liquidity`, and if the fee is not in
    /// account currency with `fee_currency` and perhaps `fee_value`.
    Trade,
    /// The order was cancelled.
    Canceled,
    /// The order expired.
    Expired,
    /// The venue refused the order or a replacement of it: with `text`.
    Rejected,
}

/// The payload as sent.
#[derive(Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sent {
    /// The order.
    order_id: OrderId,
    /// Kind of the event. Each kind has the members that its description names, and no others.
    #[serde(deserialize_with = "super::word")]
    exec_type: ExecType,
    /// The venue's id of this report; booked once.
    exec_id: ExecId,
    /// When the event happened, by the venue's clock.
    transact_time: Time,
    /// Total filled size of the order, this trade included, units of the instrument; not below 0.
    #[serde(deserialize_with = "amount::wire::required")]
    #[schemars(schema_with = "crate::schema::amount_from_0")]
    cum_qty: Amount,
    /// Version of the instruction, from 1: of `new` and `replaced` the one that the venue works now, of
    /// the end of an order the newest that the bridge has carried out. Not for `trade`.
    #[serde(default, deserialize_with = "present")]
    #[schemars(schema_with = "crate::schema::whole::<1, { u32::MAX }>")]
    version: Option<u32>,
    /// Size of the trade, units of the instrument, above 0; only for `trade`.
    #[serde(default, deserialize_with = "amount::wire::optional")]
    #[schemars(schema_with = "crate::schema::amount_above_0")]
    last_qty: Option<Amount>,
    /// Price of the trade, above 0; only for `trade`.
    #[serde(default, deserialize_with = "amount::wire::optional")]
    #[schemars(schema_with = "crate::schema::amount_above_0")]
    last_px: Option<Amount>,
    /// Fee of the trade, in `fee_currency`; a negative fee is a rebate; only for `trade`.
    #[serde(default, deserialize_with = "amount::wire::optional")]
    #[schemars(schema_with = "crate::schema::amount")]
    fee: Option<Amount>,
    /// Currency of the fee; if absent, the account's; only for `trade`.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Currency")]
    fee_currency: Option<Currency>,
    /// The fee in account currency; needed if `fee_currency` is neither the account's nor the `base` of
    /// the instrument, and not used otherwise; only for `trade`, and only with `fee_currency`.
    #[serde(default, deserialize_with = "amount::wire::optional")]
    #[schemars(schema_with = "crate::schema::amount")]
    fee_value: Option<Amount>,
    /// Whether the order added (`maker`) or removed (`taker`) liquidity; only for `trade`.
    #[serde(default, deserialize_with = "word_if_given")]
    #[schemars(with = "TradeLiquidity")]
    liquidity: Option<TradeLiquidity>,
    /// The reason in the venue's words, 1 to 500 bytes; only for `rejected`.
    #[serde(default, deserialize_with = "present")]
    #[schemars(schema_with = "crate::schema::said::<TEXT_BYTES_MAX>")]
    text: Option<String>,
}

/// Maximum number of orders in a snapshot.
pub const SNAPSHOT_ORDERS_MAX: usize = 1000;
/// Maximum number of balances, positions and foreign orders in a snapshot, each.
pub const SNAPSHOT_ROWS_MAX: usize = 100;
/// Longest id of a run of a bridge, bytes.
pub const RUN_BYTES_MAX: usize = 64;
/// Longest id that a venue gives an order, bytes.
pub const VENUE_ID_BYTES_MAX: usize = 100;

/// `venue.snapshot`: what a venue holds and works, as its bridge sees it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    /// The id of the bridge's run, as in its `.alive`.
    #[schemars(schema_with = "crate::schema::filled::<RUN_BYTES_MAX>")]
    pub run: String,
    /// When it was taken, at most 60 s away from the clock of the gate.
    pub taken_at: Time,
    /// The `exec_id` of the newest report of the bridge that was booked before it was taken; null if
    /// there was none.
    #[serde(deserialize_with = "required_or_null")]
    #[schemars(schema_with = "crate::schema::or_null::<ExecId>")]
    pub after_exec: Option<ExecId>,
    /// What the account holds.
    #[schemars(extend("maxItems" = SNAPSHOT_ROWS_MAX))]
    pub balances: Vec<Balance>,
    /// Positions in derivatives; empty on spot.
    #[schemars(extend("maxItems" = SNAPSHOT_ROWS_MAX))]
    pub positions: Vec<VenuePosition>,
    /// The orders of this gate that the venue works.
    #[schemars(extend("maxItems" = SNAPSHOT_ORDERS_MAX))]
    pub orders: Vec<VenueOrder>,
    /// Open orders at the venue that this bridge did not place.
    #[schemars(extend("maxItems" = SNAPSHOT_ROWS_MAX))]
    pub foreign: Vec<ForeignOrder>,
}

/// What an account holds of a currency.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Balance {
    /// The currency or coin.
    pub currency: Currency,
    /// All of it.
    #[serde(deserialize_with = "amount::wire::required")]
    #[schemars(schema_with = "crate::schema::amount")]
    pub total: Amount,
    /// What no order locks.
    #[serde(deserialize_with = "amount::wire::required")]
    #[schemars(schema_with = "crate::schema::amount")]
    pub available: Amount,
}

/// A position in a derivative.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VenuePosition {
    /// Instrument.
    pub symbol: Symbol,
    /// Signed size, units.
    #[serde(deserialize_with = "amount::wire::required")]
    #[schemars(schema_with = "crate::schema::amount")]
    pub size: Amount,
}

/// An order of this gate that a venue works.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VenueOrder {
    /// The order.
    pub order_id: OrderId,
    /// The version of the instruction that the venue works.
    #[schemars(schema_with = "crate::schema::whole::<1, { u32::MAX }>")]
    pub version: u32,
    /// What it has filled in all versions, units.
    #[serde(deserialize_with = "amount::wire::required")]
    #[schemars(schema_with = "crate::schema::amount_from_0")]
    pub cum_qty: Amount,
    /// Its whole size, as that version states it, units.
    #[serde(deserialize_with = "amount::wire::required")]
    #[schemars(schema_with = "crate::schema::amount_above_0")]
    pub size: Amount,
    /// Limit price; null if it has none.
    #[serde(deserialize_with = "amount::wire::nullable")]
    #[schemars(schema_with = "crate::schema::amount_or_null")]
    pub price: Option<Amount>,
    /// Trigger; null if it has none.
    #[serde(deserialize_with = "amount::wire::nullable")]
    #[schemars(schema_with = "crate::schema::amount_or_null")]
    pub trigger: Option<Amount>,
}

/// An open order at a venue that its bridge did not place.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ForeignOrder {
    /// The id that the venue gave it.
    #[schemars(schema_with = "crate::schema::filled::<VENUE_ID_BYTES_MAX>")]
    pub venue_id: String,
    /// Instrument.
    pub symbol: Symbol,
    /// Buy or sell.
    #[serde(deserialize_with = "super::word")]
    pub side: Side,
    /// Its size, units.
    #[serde(deserialize_with = "amount::wire::required")]
    #[schemars(schema_with = "crate::schema::amount_above_0")]
    pub size: Amount,
}

impl Snapshot {
    /// Checks what its types cannot.
    ///
    /// # Errors
    /// Returns [`PayloadError`] for a text or a list that is too long, and for an amount out of range.
    pub fn check(&self) -> Result<(), PayloadError> {
        let short = |field: &'static str, text: &str, most: usize| {
            if (1..=most).contains(&text.len()) {
                return Ok(());
            }
            Err(PayloadError::Length {
                field,
                found: text.len(),
                demand: "give it",
                most,
            })
        };
        let few = |field: &'static str, found: usize, most: usize| match found <= most {
            true => Ok(()),
            false => Err(PayloadError::TooMany {
                field,
                found,
                unit: "entries",
                most,
            }),
        };
        short("run", &self.run, RUN_BYTES_MAX)?;
        few("balances", self.balances.len(), SNAPSHOT_ROWS_MAX)?;
        few("positions", self.positions.len(), SNAPSHOT_ROWS_MAX)?;
        few("orders", self.orders.len(), SNAPSHOT_ORDERS_MAX)?;
        few("foreign", self.foreign.len(), SNAPSHOT_ROWS_MAX)?;
        for order in &self.foreign {
            short("venue_id", &order.venue_id, VENUE_ID_BYTES_MAX)?;
            if !order.size.is_positive() {
                return Err(PayloadError::Range {
                    field: "size",
                    found: order.size,
                    rule: "it must be above 0",
                });
            }
        }
        for order in &self.orders {
            let range = |field, found, rule| Err(PayloadError::Range { field, found, rule });
            if order.version == 0 {
                return range("version", Amount::ZERO, "it must be at least 1");
            }
            if order.cum_qty.is_negative() {
                return range("cum_qty", order.cum_qty, "it must not be below 0");
            }
            if !order.size.is_positive() {
                return range("size", order.size, "it must be above 0");
            }
        }
        Ok(())
    }
}

/// `venue.assume`: a person states what became of an order at a venue that does not answer.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AssumeOrder {
    /// The order.
    pub order_id: OrderId,
    /// What it is.
    #[serde(deserialize_with = "super::word")]
    pub state: AssumedState,
    /// Total filled size of an order that is gone, units of the instrument; if absent, what the book
    /// has.
    #[serde(default, deserialize_with = "amount::wire::optional")]
    #[schemars(schema_with = "crate::schema::amount_from_0")]
    pub filled: Option<Amount>,
    /// Price of what it filled besides what the book has, above 0.
    #[serde(default, deserialize_with = "amount::wire::optional")]
    #[schemars(schema_with = "crate::schema::amount_above_0")]
    pub px: Option<Amount>,
    /// Fee of that, account currency; if absent, 0; a negative fee is a rebate.
    #[serde(default, deserialize_with = "amount::wire::optional")]
    #[schemars(schema_with = "crate::schema::amount")]
    pub fee: Option<Amount>,
    /// The reason.
    #[schemars(schema_with = "crate::schema::said::<{ crate::admin::REASON_BYTES_MAX }>")]
    pub reason: String,
}

/// What a person says of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AssumedState {
    /// The venue works it no longer.
    Gone,
    /// The venue works it as last instructed.
    Working,
}

/// Why a report contradicts the kind of its event.
#[derive(Debug, thiserror::Error)]
enum ReportError {
    #[error("exec_type `{kind}` needs `{field}`")]
    Needs { kind: String, field: &'static str },
    #[error("exec_type `{kind}` takes no `{field}`")]
    TakesNo { kind: String, field: &'static str },
    #[error("a trade needs `last_qty`, `last_px`, `fee` and `liquidity`")]
    NoTrade,
    #[error("`fee_value` needs `fee_currency`; without it `fee` is in account currency")]
    ValueAlone,
    #[error("`fee` is {fee} and `fee_value` is {value}: both are paid, or both are received")]
    Signs { fee: Amount, value: Amount },
    #[error(transparent)]
    Field(#[from] PayloadError),
}

impl<'de> Deserialize<'de> for VenueReport {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<VenueReport, D::Error> {
        Sent::deserialize(deserializer)?
            .check()
            .map_err(de::Error::custom)
    }
}

impl Sent {
    /// Every field that only some reports have, whether it is present, and whether this kind needs it;
    /// what this kind may have or not is needed if it is present.
    fn own(&self) -> [(&'static str, bool, bool); 8] {
        let is = |kind: ExecType| self.exec_type == kind;
        let is_working = is(ExecType::New) || is(ExecType::Replaced);
        let is_trade = is(ExecType::Trade);
        let (version, currency) = (self.version.is_some(), self.fee_currency.is_some());
        let value = self.fee_value.is_some();
        [
            ("version", version, is_working || !is_trade && version),
            ("last_qty", self.last_qty.is_some(), is_trade),
            ("last_px", self.last_px.is_some(), is_trade),
            ("fee", self.fee.is_some(), is_trade),
            ("fee_currency", currency, is_trade && currency),
            ("fee_value", value, is_trade && value),
            ("liquidity", self.liquidity.is_some(), is_trade),
            ("text", self.text.is_some(), is(ExecType::Rejected)),
        ]
    }

    fn check(self) -> Result<VenueReport, ReportError> {
        let kind = || {
            let name = serde_json::to_string(&self.exec_type).unwrap_or_default();
            name.trim_matches('"').to_owned()
        };
        for (field, is_given, is_wanted) in self.own() {
            match (is_given, is_wanted) {
                (false, true) => {
                    let kind = kind();
                    return Err(ReportError::Needs { kind, field });
                }
                (true, false) => {
                    let kind = kind();
                    return Err(ReportError::TakesNo { kind, field });
                }
                _ => {}
            }
        }
        if self.cum_qty.is_negative() {
            return Err(ReportError::Field(PayloadError::Range {
                field: "cum_qty",
                found: self.cum_qty,
                rule: "it must not be below 0",
            }));
        }
        let version = self.version;
        if version == Some(0) {
            return Err(ReportError::Field(PayloadError::Range {
                field: "version",
                found: Amount::ZERO,
                rule: "versions of instructions count from 1",
            }));
        }
        let gone = |how: Gone| ExecEvent::Gone { how, version };
        let event = match (self.exec_type, version, self.text) {
            (ExecType::New | ExecType::Replaced, Some(version), _) => {
                ExecEvent::Working { version }
            }
            (ExecType::Rejected, _, Some(text)) => {
                PayloadError::check_said("text", &text, "say why in", TEXT_BYTES_MAX)
                    .map_err(ReportError::Field)?;
                gone(Gone::Rejected { text })
            }
            (ExecType::Canceled, _, _) => gone(Gone::Canceled),
            (ExecType::Expired, _, _) => gone(Gone::Expired),
            _ => trade(
                self.last_qty,
                self.last_px,
                (self.fee, self.fee_currency, self.fee_value),
                self.liquidity,
            )?,
        };
        let (order_id, exec_id) = (self.order_id, self.exec_id);
        Ok(VenueReport {
            order_id,
            exec_id,
            transact_time: self.transact_time,
            cum_qty: self.cum_qty,
            event,
        })
    }
}

fn trade(
    last_qty: Option<Amount>,
    last_px: Option<Amount>,
    (fee, fee_currency, fee_value): (Option<Amount>, Option<Currency>, Option<Amount>),
    liquidity: Option<TradeLiquidity>,
) -> Result<ExecEvent, ReportError> {
    let (Some(last_qty), Some(last_px), Some(fee), Some(liquidity)) =
        (last_qty, last_px, fee, liquidity)
    else {
        return Err(ReportError::NoTrade);
    };
    for (field, found) in [("last_qty", last_qty), ("last_px", last_px)] {
        if !found.is_positive() {
            return Err(ReportError::Field(PayloadError::Range {
                field,
                found,
                rule: "it must be above 0",
            }));
        }
    }
    if fee_currency.is_none() && fee_value.is_some() {
        return Err(ReportError::ValueAlone);
    }
    let is_against = |value: Amount| {
        fee.is_positive() && value.is_negative() || fee.is_negative() && value.is_positive()
    };
    if let Some(value) = fee_value.filter(|value| is_against(*value)) {
        return Err(ReportError::Signs { fee, value });
    }
    Ok(ExecEvent::Trade {
        last_qty,
        last_px,
        fee,
        fee_currency,
        fee_value,
        liquidity,
    })
}

/// Reads an optional field that must not be null.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// Reads a member that must be there, and may be null.
fn required_or_null<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    Option::deserialize(deserializer)
}

fn word_if_given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    super::word(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "\"order_id\":\"o-7-stop\",\"exec_id\":\"E/1\",\
        \"transact_time\":\"2026-02-21T12:00:00Z\",\"cum_qty\":\"0.2\"";
    const TRADE: &str = r#""last_qty":"0.2","last_px":"6800.10","fee":"-0.01","liquidity":"maker""#;

    fn read(rest: &str) -> Result<VenueReport, String> {
        serde_json::from_str(&format!("{{{HEAD},{rest}}}")).map_err(|error| error.to_string())
    }

    #[test]
    fn every_kind_has_exactly_its_fields() {
        let trade = TRADE;
        for kind in ["new", "replaced"] {
            let report = read(&format!(r#""exec_type":"{kind}","version":2"#)).unwrap();
            assert_eq!(report.event, ExecEvent::Working { version: 2 });
        }
        let report = read(&format!(r#""exec_type":"trade",{trade}"#)).unwrap();
        let ExecEvent::Trade {
            last_px, liquidity, ..
        } = report.event
        else {
            panic!("{report:?}")
        };
        assert_eq!(
            (last_px.to_string().as_str(), liquidity),
            ("6800.10", TradeLiquidity::Maker)
        );
        let text = "no".to_owned();
        for (kind, how) in [
            (r#""canceled""#, Gone::Canceled),
            (r#""expired""#, Gone::Expired),
            (r#""rejected","text":"no""#, Gone::Rejected { text }),
        ] {
            for (stated, version) in [("", None), (r#","version":7"#, Some(7))] {
                let report = read(&format!(r#""exec_type":{kind}{stated}"#)).unwrap();
                let how = how.clone();
                assert_eq!(report.event, ExecEvent::Gone { how, version });
            }
        }
    }

    #[test]
    fn a_fee_may_be_in_another_currency() {
        let fee = |more: &str| read(&format!(r#""exec_type":"trade",{TRADE}{more}"#));
        for (more, currency, value) in [
            ("", None, None),
            (r#","fee_currency":"BTC""#, Some("BTC"), None),
            (
                r#","fee_currency":"BNB","fee_value":"-0.4""#,
                Some("BNB"),
                Some("-0.4"),
            ),
            // Rounded away.
            (
                r#","fee_currency":"B","fee_value":"0""#,
                Some("B"),
                Some("0"),
            ),
            (
                r#","fee_currency":"1000SHIBxxxxxxxx","fee_value":"-1""#,
                Some("1000SHIBxxxxxxxx"),
                Some("-1"),
            ),
        ] {
            let ExecEvent::Trade {
                fee_currency,
                fee_value,
                ..
            } = fee(more).unwrap().event
            else {
                panic!("{more}")
            };
            assert_eq!(
                fee_currency,
                currency.map(|name| Currency::parse(name).unwrap()),
                "{more}"
            );
            assert_eq!(
                fee_value,
                value.map(|value| Amount::parse_exact(value).unwrap()),
                "{more}"
            );
        }
        for (more, expect) in [
            (r#","fee_currency":null"#, "invalid type: null"),
            (r#","fee_currency":"""#, "is not a currency"),
            (r#","fee_currency":"A B""#, "is not a currency"),
            (
                r#","fee_currency":"1000SHIBxxxxxxxxx""#,
                "is not a currency",
            ),
            (
                r#","fee_currency":"BNB","fee_value":null"#,
                "`null` is not an amount",
            ),
            (
                r#","fee_currency":"BNB","fee_value":"0.00000000001""#,
                "is not an amount",
            ),
            (
                r#","fee_currency":"BNB","fee_value":"0.4""#,
                "`fee_value` is 0.4",
            ),
            (r#","fee_value":"-0.4""#, "`fee_value` needs `fee_currency`"),
            (r#","fee_asset":"BNB""#, "unknown field `fee_asset`"),
        ] {
            let error = fee(more).unwrap_err();
            assert!(error.contains(expect), "{more}: {error}");
        }
        for field in [r#""fee_currency":"BTC""#, r#""fee_value":"1""#] {
            let error = read(&format!(r#""exec_type":"canceled",{field}"#)).unwrap_err();
            assert!(error.contains("`canceled` takes no `fee_"), "{error}");
        }
    }

    #[test]
    fn a_report_with_other_fields_is_refused_by_name() {
        let trade = TRADE;
        for (rest, expect) in [
            (r#""exec_type":"new""#.to_owned(), "needs `version`"),
            (
                r#""exec_type":"new","version":0"#.to_owned(),
                "count from 1",
            ),
            (
                r#""exec_type":"new","version":-1"#.to_owned(),
                "invalid value",
            ),
            (
                r#""exec_type":"new","version":null"#.to_owned(),
                "invalid type: null",
            ),
            (
                r#""exec_type":"new","version":1,"text":"x""#.to_owned(),
                "takes no `text`",
            ),
            (
                r#""exec_type":"canceled","version":0"#.to_owned(),
                "count from 1",
            ),
            (r#""exec_type":"rejected""#.to_owned(), "needs `text`"),
            (
                r#""exec_type":"rejected","text":" ""#.to_owned(),
                "1 to 500",
            ),
            (
                format!(
                    r#""exec_type":"trade",{}"#,
                    trade.replace(r#""fee":"-0.01","#, "")
                ),
                "needs `fee`",
            ),
            (
                format!(
                    r#""exec_type":"trade",{}"#,
                    trade.replace(r#""last_qty":"0.2""#, r#""last_qty":0"#)
                ),
                "`last_qty` is 0",
            ),
            (
                format!(r#""exec_type":"trade",{}"#, trade.replace("6800.10", "-1")),
                "`last_px` is -1",
            ),
            (
                format!(
                    r#""exec_type":"trade",{}"#,
                    trade.replace(r#""maker""#, "null")
                ),
                "invalid type: null",
            ),
            (
                format!(r#""exec_type":"trade",{trade},"version":1"#),
                "takes no `version`",
            ),
            (
                format!(r#""exec_type":"trade",{trade},"broker":"x""#),
                "unknown field `broker`",
            ),
            (
                r#""exec_type":"filled""#.to_owned(),
                "unknown variant `filled`",
            ),
            (
                r#""exec_type":{"new":null},"version":1"#.to_owned(),
                "expected a string",
            ),
        ] {
            let error = read(&rest).unwrap_err();
            assert!(error.contains(expect), "{rest}: {error}");
        }
        let negative = format!(
            "{{{},\"exec_type\":\"canceled\"}}",
            HEAD.replace("\"0.2\"", "-0.2")
        );
        assert!(
            serde_json::from_str::<VenueReport>(&negative)
                .unwrap_err()
                .to_string()
                .contains("below 0")
        );
    }
}
