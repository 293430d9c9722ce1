//! Contract 1, orders: the payloads that an agent may send, and the headroom of the answers. There
//! is no other operation: nothing here can loosen a stop, override a check or write a rule.

use serde::{Deserialize, Serialize};

use super::amount::{self, Amount};
use super::ids::{OrderId, StrategyName, Symbol, ThesisSlug};
use super::payload::PayloadError;
use super::time::Time;

crate::named! {
    /// Side of an order (FIX tag 54).
    #[derive(
        Clone,
        Copy,
        Debug,
        PartialEq,
        Eq,
        PartialOrd,
        Ord,
        Hash,
        Serialize,
        Deserialize,
        schemars::JsonSchema,
    )]
    pub enum Side {
        /// Buy.
        Buy = "buy",
        /// Sell.
        Sell = "sell",
    }
}

impl Side {
    /// The other side.
    pub fn opposite(self) -> Side {
        match self {
            Side::Buy => Side::Sell,
            Side::Sell => Side::Buy,
        }
    }
}

crate::named! {
    /// Type of an order (FIX tag 40).
    #[derive(
        Clone,
        Copy,
        Debug,
        PartialEq,
        Eq,
        PartialOrd,
        Ord,
        Hash,
        Serialize,
        Deserialize,
        schemars::JsonSchema,
    )]
    pub enum OrderType {
        /// At `price` or better.
        Limit = "limit",
        /// Immediately, at the market price.
        Market = "market",
        /// A market order once the market reaches `stop_price`.
        Stop = "stop",
    }
}

crate::named! {
    /// How long an order stays open (FIX tag 59).
    #[derive(
        Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
    )]
    pub enum TimeInForce {
        /// Until it is filled or cancelled.
        #[default]
        Gtc = "gtc",
        /// The part that the first usable row does not fill is cancelled.
        Ioc = "ioc",
        /// Until the end of the UTC day in which it was accepted.
        Day = "day",
    }
}

impl TimeInForce {
    /// Whether it is the default.
    pub fn is_gtc(&self) -> bool {
        *self == TimeInForce::Gtc
    }
}

/// `order.submit`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SubmitOrder {
    /// Strategy that owns the order.
    pub strategy: StrategyName,
    /// Instrument.
    pub symbol: Symbol,
    /// Buy or sell.
    #[serde(deserialize_with = "super::word")]
    pub side: Side,
    /// Size in units of the instrument, positive.
    #[serde(deserialize_with = "amount::wire::required")]
    #[schemars(schema_with = "crate::schema::amount_above_0")]
    pub size: Amount,
    /// Limit, market or stop.
    #[serde(deserialize_with = "super::word")]
    pub order_type: OrderType,
    /// Limit price, account currency per unit; required for limit orders, not allowed for others.
    #[serde(default, deserialize_with = "amount::wire::optional")]
    #[schemars(schema_with = "crate::schema::amount_above_0")]
    pub price: Option<Amount>,
    /// Account currency per unit. For limit and market entries the protective stop again (equals
    /// `planned_stop`); for stop orders the trigger.
    #[serde(default, deserialize_with = "amount::wire::optional")]
    #[schemars(schema_with = "crate::schema::amount_above_0")]
    pub stop_price: Option<Amount>,
    /// The thesis that this trade is based on.
    pub thesis_slug: ThesisSlug,
    /// The price at which the agent plans to enter, account currency per unit. A claim, used only
    /// to compute slippage against the plan.
    #[serde(deserialize_with = "amount::wire::required")]
    #[schemars(schema_with = "crate::schema::amount_above_0")]
    pub planned_entry: Amount,
    /// The protective stop of an entry, account currency per unit.
    #[serde(deserialize_with = "amount::wire::required")]
    #[schemars(schema_with = "crate::schema::amount")]
    pub planned_stop: Amount,
    /// A price at which to close the entry's position, account currency per unit.
    #[serde(default, deserialize_with = "amount::wire::optional")]
    #[schemars(schema_with = "crate::schema::amount_above_0")]
    pub target_price: Option<Amount>,
    /// How long the order stays open; if absent, until it is filled or cancelled.
    #[serde(default, deserialize_with = "super::word")]
    pub time_in_force: TimeInForce,
}

/// Why the type of an order contradicts its other fields.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OrderError {
    /// A limit order has no price.
    #[error("a limit order needs `price`")]
    NoPrice,
    /// An order that is not a limit order has a price.
    #[error("a {} order takes no `price`", .0.as_str())]
    PriceGiven(OrderType),
    /// A stop order has no trigger.
    #[error("a stop order needs `stop_price`, its trigger")]
    NoTrigger,
}

impl SubmitOrder {
    /// Checks what the field types cannot express: positive numbers, a price for limit orders only,
    /// and a trigger for stop orders.
    ///
    /// # Errors
    /// Returns a [`PayloadError`] with the field and what to do.
    pub fn validate(&self) -> Result<(), PayloadError> {
        let positive = |field, value: Option<Amount>| match value {
            Some(found) if !found.is_positive() => Err(PayloadError::Range {
                field,
                found,
                rule: "it must be above 0",
            }),
            _ => Ok(()),
        };
        positive("size", Some(self.size))?;
        positive("price", self.price)?;
        positive("stop_price", self.stop_price)?;
        positive("planned_entry", Some(self.planned_entry))?;
        positive("target_price", self.target_price)?;
        match (self.order_type, self.price) {
            (OrderType::Limit, None) => Err(OrderError::NoPrice),
            (OrderType::Market | OrderType::Stop, Some(_)) => {
                Err(OrderError::PriceGiven(self.order_type))
            }
            _ => Ok(()),
        }?;
        if self.order_type == OrderType::Stop && self.stop_price.is_none() {
            return Err(OrderError::NoTrigger.into());
        }
        Ok(())
    }
}

/// `order.cancel`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelOrder {
    /// The order to cancel.
    pub order_id: OrderId,
    /// The reason, for the ledger.
    #[serde(default, deserialize_with = "crate::admin::present")]
    #[schemars(schema_with = "crate::schema::said::<{ crate::admin::REASON_BYTES_MAX }>")]
    pub reason: Option<String>,
}

/// `position.close`: a person closes a position at the market.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClosePosition {
    /// The strategy whose position it is.
    pub strategy: StrategyName,
    /// Instrument.
    pub symbol: Symbol,
    /// How much to close; if absent, all of it.
    #[serde(default, deserialize_with = "amount::wire::optional")]
    #[schemars(schema_with = "crate::schema::amount_above_0")]
    pub size: Option<Amount>,
    /// The reason.
    #[schemars(schema_with = "crate::schema::said::<{ crate::admin::REASON_BYTES_MAX }>")]
    pub reason: String,
}

/// `position.adjust`: a person books a difference between the book and a venue.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AdjustPosition {
    /// The strategy whose position it is.
    pub strategy: StrategyName,
    /// Instrument, traded at a venue behind a bridge.
    pub symbol: Symbol,
    /// What is added to the signed position: above 0 as a purchase, below 0 as a sale; not 0.
    #[serde(deserialize_with = "amount::wire::required")]
    #[schemars(schema_with = "crate::schema::amount_not_0")]
    pub size: Amount,
    /// The price at which it is booked, account currency per unit; above 0.
    #[serde(deserialize_with = "amount::wire::required")]
    #[schemars(schema_with = "crate::schema::amount_above_0")]
    pub price: Amount,
    /// The reason.
    #[schemars(schema_with = "crate::schema::said::<{ crate::admin::REASON_BYTES_MAX }>")]
    pub reason: String,
}

/// `order.tighten_stop`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TightenStop {
    /// The protective stop, or the entry that it was placed with.
    pub order_id: OrderId,
    /// The new, tighter stop price, account currency per unit; above 0.
    #[serde(deserialize_with = "amount::wire::required")]
    #[schemars(schema_with = "crate::schema::amount_above_0")]
    pub new_stop: Amount,
}

/// `fills.list`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListFills {
    /// Return fills recorded at or after this time of the gate's clock.
    pub since: Time,
}

/// `market.get`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetMarket {
    /// Instrument.
    pub symbol: Symbol,
}

/// A payload without fields: `portfolio.get`, `orders.list`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Empty {}

/// The largest size that would pass, and the check that limits it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Headroom {
    /// Largest size of this order that would pass every check; 0 if none would.
    pub max_size: Amount,
    /// The check that refuses anything larger (or, at 0, anything at all).
    pub binding_check: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> Result<SubmitOrder, String> {
        let order: SubmitOrder = serde_json::from_str(json).map_err(|e| e.to_string())?;
        order.validate().map_err(|e| e.to_string())?;
        Ok(order)
    }

    const LIMIT: &str = r#"{"strategy":"trend","symbol":"BTC-USD","side":"buy","size":0.5,"order_type":"limit","price":"6800.10","stop_price":6700,"thesis_slug":"t","planned_entry":6800,"planned_stop":6700}"#;

    #[test]
    fn numbers_and_strings_keep_their_digits() {
        let order = parse(&LIMIT.replace("0.5", "0.1000000001")).unwrap();
        assert_eq!(order.size.to_string(), "0.1000000001");
        assert_eq!(order.price.unwrap().to_string(), "6800.10");
    }

    #[test]
    fn time_in_force_is_one_of_three_words() {
        assert_eq!(parse(LIMIT).unwrap().time_in_force, TimeInForce::Gtc);
        for (word, expect) in [
            ("gtc", TimeInForce::Gtc),
            ("ioc", TimeInForce::Ioc),
            ("day", TimeInForce::Day),
        ] {
            let json = LIMIT.replace(
                r#""planned_stop":6700"#,
                &format!(r#""planned_stop":6700,"time_in_force":"{word}""#),
            );
            assert_eq!(parse(&json).unwrap().time_in_force, expect);
        }
    }

    #[test]
    fn members_beyond_their_bounds_are_refused_by_name() {
        for (from, to, expect) in [
            ("0.5", "0", "`size` is 0"),
            ("0.5", "-1", "`size` is -1"),
            (r#""price":"6800.10","#, "", "needs `price`"),
            (r#""limit""#, r#""market""#, "takes no `price`"),
            (r#""price":"6800.10""#, r#""price":null"#, ""),
            (r#""side":"buy""#, r#""side":"hold""#, ""),
            (
                r#""side":"buy""#,
                r#""side":{"buy":null}"#,
                "expected a string",
            ),
            (r#""limit""#, r#"{"limit":null}"#, "expected a string"),
            (r#""size":0.5"#, r#""size":5e-1"#, ""),
            (
                r#""planned_stop":6700"#,
                r#""planned_stop":6700,"override":true"#,
                "unknown field `override`",
            ),
            (
                r#""planned_stop":6700"#,
                r#""planned_stop":6700,"target_price":0"#,
                "`target_price` is 0",
            ),
            (
                r#""planned_stop":6700"#,
                r#""planned_stop":6700,"target_price":null"#,
                "",
            ),
            (
                r#""planned_stop":6700"#,
                r#""planned_stop":6700,"time_in_force":"fok""#,
                "unknown variant `fok`",
            ),
            (
                r#""planned_stop":6700"#,
                r#""planned_stop":6700,"time_in_force":"IOC""#,
                "unknown variant `IOC`",
            ),
            (
                r#""planned_stop":6700"#,
                r#""planned_stop":6700,"time_in_force":null"#,
                "expected a string",
            ),
            (
                r#""planned_stop":6700"#,
                r#""planned_stop":6700,"time_in_force":{"ioc":null}"#,
                "expected a string",
            ),
        ] {
            let error = parse(&LIMIT.replace(from, to)).unwrap_err();
            assert!(error.contains(expect), "{to}: {error}");
        }
    }
}
