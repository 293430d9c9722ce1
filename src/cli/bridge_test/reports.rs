//! What a bridge writes, read strictly: reports, snapshots and signs of life.

use std::collections::BTreeMap;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::orders::Side;
use spoolgate_wire::time::Time;
use spoolgate_wire::venue::{ExecEvent, Gone, VenueReport};

/// A report as the cases look at it.
#[derive(Clone)]
pub(super) struct Report {
    pub order_id: String,
    /// `working`, `trade`, `canceled`, `expired` or `rejected`.
    pub kind: &'static str,
    pub version: Option<u32>,
    pub text: Option<String>,
    pub cum_qty: Amount,
    /// Currency of the fee, if the report states one.
    pub fee_currency: Option<String>,
    pub report: VenueReport,
    /// The code with which the gate refused it.
    pub refused: Option<&'static str>,
}

/// Members of a trade that [`VenueReport`] does not read. They are taken out and checked here.
#[derive(Default)]
struct Fee {
    currency: Option<String>,
}

fn take_fee(payload: &str) -> serde_json::Result<(String, Fee)> {
    let mut members: BTreeMap<String, Box<RawValue>> = serde_json::from_str(payload)?;
    let mut fee = Fee::default();
    if let Some(currency) = members.remove("fee_currency") {
        fee.currency = Some(serde_json::from_str(currency.get())?);
    }
    if let Some(value) = members.remove("fee_value") {
        serde_json::from_str::<Amount>(value.get())?;
    }
    Ok((serde_json::to_string(&members)?, fee))
}

impl Report {
    /// Reads the payload of a `venue.report`.
    ///
    /// # Errors
    /// The parser's error if it is not one.
    pub(super) fn read(payload: &str) -> serde_json::Result<Report> {
        let (payload, fee) = take_fee(payload)?;
        let report: VenueReport = serde_json::from_str(&payload)?;
        let (kind, version, text) = match &report.event {
            ExecEvent::Working { version } => ("working", Some(*version), None),
            ExecEvent::Trade { .. } => ("trade", None, None),
            ExecEvent::Gone { how, version } => match how {
                Gone::Canceled => ("canceled", *version, None),
                Gone::Expired => ("expired", *version, None),
                Gone::Rejected { text } => ("rejected", *version, Some(text.clone())),
            },
        };
        Ok(Report {
            order_id: report.order_id.to_string(),
            kind,
            version,
            text,
            cum_qty: report.cum_qty,
            fee_currency: fee.currency,
            report,
            refused: None,
        })
    }

    /// `<order>.<version>` as far as the report says it.
    pub(super) fn label(&self) -> String {
        match self.version {
            Some(version) => format!("{}.{version}", self.order_id),
            None => self.order_id.clone(),
        }
    }
}

/// A member that may be null and must not be missing.
fn stated<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    Option::deserialize(from)
}

/// The payload of a `venue.snapshot`.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Snapshot {
    pub run: String,
    #[serde(rename = "taken_at")]
    _taken_at: Time,
    #[serde(deserialize_with = "stated")]
    pub after_exec: Option<String>,
    pub balances: Vec<Balance>,
    /// Empty: a spot exchange has none.
    pub positions: Vec<IgnoredAny>,
    pub orders: Vec<Working>,
    pub foreign: Vec<Foreign>,
}

/// What is held of a currency.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Balance {
    pub currency: String,
    pub total: Amount,
    pub available: Amount,
}

/// An order of the gate that the exchange works.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Working {
    pub order_id: String,
    pub version: u32,
    pub cum_qty: Amount,
    pub size: Amount,
    #[serde(deserialize_with = "stated")]
    pub price: Option<Amount>,
    #[serde(deserialize_with = "stated")]
    pub trigger: Option<Amount>,
}

/// An order that the bridge did not place.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Foreign {
    pub venue_id: String,
    pub symbol: String,
    pub side: Side,
    pub size: Amount,
}

/// The file `.alive`.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Alive {
    pub at: Time,
    pub run: String,
    pub venue: Reach,
    #[serde(deserialize_with = "stated")]
    pub nonce: Option<String>,
}

/// Whether the bridge reaches its exchange.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Reach {
    /// It does.
    Ok,
    /// It does not.
    Down,
}

impl Snapshot {
    /// What is held, in the order of names.
    pub(super) fn balances(&self) -> Vec<Balance> {
        let mut rows = self.balances.clone();
        rows.retain(|it| !it.total.is_zero());
        rows.sort();
        rows
    }

    /// The orders that work, in the order of names.
    pub(super) fn orders(&self) -> Vec<Working> {
        let mut rows = self.orders.clone();
        rows.sort();
        rows
    }
}
