//! The worst cases that limits on size count: what may come to be held in every future in which
//! nothing new is accepted.
//!
//! A leg is the part of one strategy in one symbol. With `q` as its signed position and `open(o)` as
//! what an order may still fill, a leg may come to hold
//!
//! - long at most `L = max(0, q) + sum open(entry buys)`,
//! - short at most `H = max(0, -q) + sum open(entry sells)`.
//!
//! Legs are never netted against each other, nor is a position against a pending entry of the other
//! side: each leg can leave alone, by its exit, stop or target, so the largest long holding of a
//! symbol is the sum of `L` over its legs, and it is reached when every short leaves and every buy
//! fills. Exits never turn a leg around.

use super::book::Book;
use super::order::{Order, OrderRole};
use spoolgate_rules::instruments::Instrument;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::orders::Side;

/// What the legs of one symbol may come to hold, units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// The sum of `L`: the most that may come to be held long.
    pub long: Amount,
    /// The sum of `H`: the most that may come to be held short.
    pub short: Amount,
    /// The highest price of a working entry of the symbol, if one has a price of its own.
    highest: Option<Amount>,
}

/// Returns the working entries of a book.
pub fn entries(book: &Book) -> impl Iterator<Item = &Order> {
    let orders = book.orders.values();
    orders.filter(|order| order.role == OrderRole::Entry)
}

impl Reach {
    /// What a symbol without positions and entries may come to hold.
    pub(super) const NOTHING: Reach = Reach {
        long: Amount::ZERO,
        short: Amount::ZERO,
        highest: None,
    };

    /// Returns it with a working entry of the book.
    pub(super) fn working(self, order: &Order) -> Option<Reach> {
        self.with(order.side, order.open(), order.price.or(order.trigger))
    }

    /// Returns it with what another leg may come to hold.
    pub(super) fn and(self, other: Reach) -> Option<Reach> {
        Some(Reach {
            long: self.long.checked_add(other.long)?,
            short: self.short.checked_add(other.short)?,
            ..self.priced(other)
        })
    }

    /// Returns it with the price of another leg alone.
    pub(super) fn priced(self, other: Reach) -> Reach {
        let highest = self.highest.max(other.highest);
        Reach { highest, ..self }
    }

    /// Returns it with the position of another leg, whose signed size is given.
    pub(super) fn holding(self, size: Amount) -> Option<Reach> {
        let side = if size.is_positive() {
            Side::Buy
        } else {
            Side::Sell
        };
        self.with(side, size.abs(), None)
    }

    /// Returns it with another entry, whose own price is its limit or trigger. `None` if the sum is
    /// not exact.
    pub fn with(self, side: Side, size: Amount, own_price: Option<Amount>) -> Option<Reach> {
        let (long, short) = match side {
            Side::Buy => (self.long.checked_add(size)?, self.short),
            Side::Sell => (self.long, self.short.checked_add(size)?),
        };
        Some(Reach {
            long,
            short,
            highest: self.highest.max(own_price),
        })
    }

    /// The worst case, max(long, short), units.
    pub fn worst(&self) -> Amount {
        self.long.max(self.short)
    }

    /// Returns what may come to be held in the direction that `side` opens, units.
    pub fn on(&self, side: Side) -> Amount {
        match side {
            Side::Buy => self.long,
            Side::Sell => self.short,
        }
    }

    /// Computes units x price x multiplier, account currency: at the ask, or at the highest price of
    /// a working entry if that is higher. `None` if it is not exact.
    pub fn money(&self, units: Amount, instrument: &Instrument, ask: Amount) -> Option<Amount> {
        let price = self.highest.map_or(ask, |highest| ask.max(highest));
        units
            .checked_mul(price)?
            .checked_mul(*instrument.multiplier)
    }
}
