//! In what a venue trades an instrument: the coin that its sizes count, the step between sizes, and the
//! smallest size of an order. Orders and positions at a venue keep it, so that a report is booked and a
//! remainder is recognised even if no rulebook contains the instrument any more.

use serde::{Deserialize, Serialize};

use super::order::{Order, Position};
use spoolgate_rules::instruments::Instrument;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::Currency;

/// The units of an instrument, as of the acceptance of an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Units {
    /// The coin that sizes count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<Currency>,
    /// Sizes are multiples of this; 0 if any size is possible.
    pub lot: Amount,
    /// Smallest size of an order, of orders that open a position at least as much as is worth the
    /// smallest notional at their stop or, if that is lower, at their price.
    pub min_size: Amount,
}

impl Units {
    /// The units of this instrument.
    pub fn of(instrument: &Instrument) -> Units {
        Units {
            base: instrument.base.clone(),
            lot: *instrument.lot,
            min_size: *instrument.min_size,
        }
    }

    /// The units of this instrument for an order that opens a position which is worth the least at this
    /// price: a smaller stop than its smallest notional allows would be refused.
    pub fn at(instrument: &Instrument, price: Amount) -> Units {
        let units = Units::of(instrument);
        let least = least_size(instrument, price);
        Units {
            min_size: units.min_size.max(least.unwrap_or(units.min_size)),
            ..units
        }
    }

    /// Returns the largest size, at most this one, that the venue takes: a multiple of the lot.
    pub fn whole(&self, size: Amount) -> Amount {
        match size.is_multiple_of(self.lot) {
            Some(false) => size
                .round_down_to(self.lot)
                .map_or(size, Amount::normalized),
            Some(true) | None => size,
        }
    }

    /// Whether no order can sell or buy this size: it is less than the lot or than the smallest order.
    pub fn is_dust(&self, size: Amount) -> bool {
        size < self.lot || size < self.min_size
    }
}

/// The smallest multiple of the lot that is worth the smallest notional at this price; of the tenth
/// decimal if there is no lot. `None` if it cannot be computed.
fn least_size(instrument: &Instrument, price: Amount) -> Option<Amount> {
    let step = match *instrument.lot {
        lot if lot.is_zero() => Amount::parse_exact("0.0000000001").ok()?,
        lot => lot,
    };
    let worth = price
        .checked_mul(*instrument.multiplier)?
        .checked_mul(step)?;
    let count = instrument.min_notional.div_floor_count(worth)?;
    let count = Amount::from_i64(i64::try_from(count).ok()?);
    let is_short = count.checked_mul(worth)? < *instrument.min_notional;
    let least = count.checked_mul(step)?;
    let least = if is_short {
        least.checked_add(step)?
    } else {
        least
    };
    Some(least.normalized())
}

impl Order {
    /// Returns the largest size, at most this one, that its venue takes. On paper, and for orders of
    /// earlier versions, that is this size.
    pub(super) fn whole(&self, size: Amount) -> Amount {
        let units = self.at_venue.as_ref().and_then(|it| it.units.as_ref());
        units.map_or(size, |units| units.whole(size))
    }

    /// Whether its venue takes no order of this size. On paper, and for orders of earlier versions,
    /// that is no size.
    pub(super) fn is_dust(&self, size: Amount) -> bool {
        let units = self.at_venue.as_ref().and_then(|it| it.units.as_ref());
        units.is_some_and(|units| units.is_dust(size))
    }

    /// Returns the smallest size that its venue takes; 0 on paper, and for orders of earlier versions.
    pub(super) fn least(&self) -> Amount {
        let units = self.at_venue.as_ref().and_then(|it| it.units.as_ref());
        units.map_or(Amount::ZERO, |units| units.min_size.max(units.lot))
    }
}

impl Position {
    fn units(&self) -> Option<&Units> {
        self.held_at.as_ref()?.units.as_deref()
    }

    /// Returns the largest part of it that its venue takes, without a sign. On paper, and for positions of
    /// earlier versions, that is all of it.
    pub fn whole(&self) -> Amount {
        let size = self.size.abs();
        self.units().map_or(size, |units| units.whole(size))
    }

    /// Whether it is dust: no order at its venue can close any of it. It is at risk, and it is not an open
    /// position.
    pub fn is_dust(&self) -> bool {
        self.units()
            .is_some_and(|units| units.is_dust(self.size.abs()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::*;

    #[test]
    fn sizes_are_whole_lots_and_less_than_an_order_is_dust() {
        let units = |lot: &str, min_size: &str| Units {
            base: None,
            lot: a(lot),
            min_size: a(min_size),
        };
        for (lot, min_size, size, whole, is_dust) in [
            ("0.001", "0.002", "0.0019", "0.001", true),
            ("0.001", "0.002", "0.002", "0.002", false),
            ("0.001", "0.002", "0.01998", "0.019", false),
            ("0.001", "0", "0.0009", "0", true),
            ("0.001", "0", "0.001", "0.001", false),
            ("0", "0.002", "0.0019", "0.0019", true),
            ("0", "0", "0.0000000001", "0.0000000001", false),
        ] {
            let units = units(lot, min_size);
            assert_eq!(units.whole(a(size)), a(whole), "{size} by {lot}");
            assert_eq!(
                units.is_dust(a(size)),
                is_dust,
                "{size} of {lot}, {min_size}"
            );
        }
    }
}
