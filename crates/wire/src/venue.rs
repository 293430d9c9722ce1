//! `venue.report`: what happened to an order at a venue behind a bridge. Names follow FIX
//! ExecutionReport.

use serde::{Deserialize, Deserializer, Serialize, de};

use super::amount::{self, Amount};
use super::ids::{ExecId, OrderId};
use super::payload::PayloadError;
use super::time::Time;

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
        /// Fee of the trade, account currency; a negative fee is a rebate.
        fee: Amount,
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
    /// The order was filled: with `last_qty`, `last_px`, `fee` and `liquidity`.
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
    /// Fee of the trade, account currency; a negative fee is a rebate; only for `trade`.
    #[serde(default, deserialize_with = "amount::wire::optional")]
    #[schemars(schema_with = "crate::schema::amount")]
    fee: Option<Amount>,
    /// Whether the order added (`maker`) or removed (`taker`) liquidity; only for `trade`.
    #[serde(default, deserialize_with = "word_if_given")]
    #[schemars(with = "TradeLiquidity")]
    liquidity: Option<TradeLiquidity>,
    /// The reason in the venue's words, 1 to 500 bytes; only for `rejected`.
    #[serde(default, deserialize_with = "present")]
    #[schemars(schema_with = "crate::schema::said::<TEXT_BYTES_MAX>")]
    text: Option<String>,
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
    fn check(self) -> Result<VenueReport, ReportError> {
        let kind = || {
            let name = serde_json::to_string(&self.exec_type).unwrap_or_default();
            name.trim_matches('"').to_owned()
        };
        // Every field that only some reports have, whether it is present, and whether this kind
        // needs it.
        let given = [
            (
                "version",
                self.version.is_some(),
                match self.exec_type {
                    ExecType::New | ExecType::Replaced => true,
                    ExecType::Trade => false,
                    // Optional.
                    _ => self.version.is_some(),
                },
            ),
            (
                "last_qty",
                self.last_qty.is_some(),
                self.exec_type == ExecType::Trade,
            ),
            (
                "last_px",
                self.last_px.is_some(),
                self.exec_type == ExecType::Trade,
            ),
            ("fee", self.fee.is_some(), self.exec_type == ExecType::Trade),
            (
                "liquidity",
                self.liquidity.is_some(),
                self.exec_type == ExecType::Trade,
            ),
            (
                "text",
                self.text.is_some(),
                self.exec_type == ExecType::Rejected,
            ),
        ];
        for (field, is_given, is_wanted) in given {
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
                if text.trim().is_empty() || text.len() > TEXT_BYTES_MAX {
                    return Err(ReportError::Field(PayloadError::Length {
                        field: "text",
                        found: text.len(),
                        demand: "say why in",
                        most: TEXT_BYTES_MAX,
                    }));
                }
                gone(Gone::Rejected { text })
            }
            (ExecType::Canceled, _, _) => gone(Gone::Canceled),
            (ExecType::Expired, _, _) => gone(Gone::Expired),
            _ => trade(self.last_qty, self.last_px, self.fee, self.liquidity)?,
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
    fee: Option<Amount>,
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
    Ok(ExecEvent::Trade {
        last_qty,
        last_px,
        fee,
        liquidity,
    })
}

/// Reads an optional field that must not be null.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
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
