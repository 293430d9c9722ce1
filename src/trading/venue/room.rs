//! How much a row lets fill.

use crate::rules::instruments::Instrument;
use crate::trading::market::Row;
use crate::wire::amount::Amount;
use crate::wire::orders::Side;

/// What a row still lets fill; none: no cap, because the data do not say.
#[derive(Clone, Debug, Default)]
pub(super) struct Room {
    buys: Option<Amount>,
    sells: Option<Amount>,
    /// A bar's volume is one for both sides; a quote has a size for each.
    is_shared: bool,
}

impl Room {
    /// Bars: `volume_share` of the volume. Quotes: buys the size at the ask, sales the size at the bid.
    pub(super) fn of(row: &Row, instrument: &Instrument) -> Room {
        match *row {
            Row::Bar { volume, .. } => {
                // A product that is not exact caps at nothing rather than at everything.
                let share = volume.map(|v| v.checked_mul(instrument.volume_share).unwrap_or(Amount::ZERO));
                Room { buys: share, sells: share, is_shared: true }
            }
            Row::Quote { bid_size, ask_size, .. } => {
                Room { buys: ask_size, sells: bid_size, is_shared: false }
            }
        }
    }

    /// `wanted`, or what is left of the room in whole lots. None if that cannot be computed.
    pub(super) fn within(&self, side: Side, wanted: Amount, lot: Amount) -> Option<Amount> {
        let left = match side {
            Side::Buy => self.buys,
            Side::Sell => self.sells,
        };
        let Some(left) = left.filter(|left| *left < wanted) else { return Some(wanted) };
        if lot.is_zero() { Some(left) } else { left.round_down_to(lot) }
    }

    /// Takes what has filled.
    pub(super) fn take(&mut self, side: Side, size: Amount) {
        let less = |left: Option<Amount>| left.map(|left| left.checked_sub(size).unwrap_or(Amount::ZERO));
        if self.is_shared || side == Side::Buy {
            self.buys = less(self.buys);
        }
        if self.is_shared || side == Side::Sell {
            self.sells = less(self.sells);
        }
    }
}
