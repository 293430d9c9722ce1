//! How much a row can fill.

use crate::market_row::Row;
use spoolgate_rules::instruments::Instrument;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::orders::Side;

/// How much a row can still fill; `None` if there is no cap, because the data have no volume or
/// sizes.
#[derive(Clone, Debug, Default)]
pub(super) struct Room {
    buys: Option<Amount>,
    sells: Option<Amount>,
    /// Whether both sides share one cap: a bar's volume counts for both sides; a quote has a size
    /// for each.
    is_shared: bool,
}

impl Room {
    /// Computes the caps of a row. Bars: `volume_share` of the volume. Quotes: the size at the ask
    /// for buys, the size at the bid for sells.
    pub(super) fn of(row: &Row, instrument: &Instrument) -> Room {
        match *row {
            Row::Bar { volume, .. } => {
                // A product that is not exact caps at 0 instead of not capping at all.
                let share = volume.map(|v| {
                    v.checked_mul(*instrument.volume_share)
                        .unwrap_or(Amount::ZERO)
                });
                Room {
                    buys: share,
                    sells: share,
                    is_shared: true,
                }
            }
            Row::Quote {
                bid_size, ask_size, ..
            } => Room {
                buys: ask_size,
                sells: bid_size,
                is_shared: false,
            },
        }
    }

    /// Returns `wanted`, or what is left of the cap in whole lots if that is less. `None` if it
    /// cannot be computed.
    pub(super) fn within(&self, side: Side, wanted: Amount, lot: Amount) -> Option<Amount> {
        let left = match side {
            Side::Buy => self.buys,
            Side::Sell => self.sells,
        };
        let Some(left) = left.filter(|left| *left < wanted) else {
            return Some(wanted);
        };
        if lot.is_zero() {
            Some(left)
        } else {
            left.round_down_to(lot)
        }
    }

    /// Subtracts a filled size.
    pub(super) fn take(&mut self, side: Side, size: Amount) {
        let less =
            |left: Option<Amount>| left.map(|left| left.checked_sub(size).unwrap_or(Amount::ZERO));
        if self.is_shared || side == Side::Buy {
            self.buys = less(self.buys);
        }
        if self.is_shared || side == Side::Sell {
            self.sells = less(self.sells);
        }
    }
}
