//! Snapshots of a venue: what a bridge says that its venue holds and works, compared with the book.
//!
//! A bridge takes a snapshot only after its reports were answered, so whatever differs is a fact that
//! one of the two does not know. Instructions may be under way, so an order that the venue has not
//! confirmed may be missing there, and any version that was instructed since may be the one that works.

use std::collections::{BTreeMap, BTreeSet};

use crate::book::{Book, Doubt};
use crate::change::Change;
use crate::order::{AtVenue, Order, Stated, Works};
use spoolgate_rules::Rulebook;
use spoolgate_rules::instruments::Instrument;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{OrderId, Principal, Symbol};
use spoolgate_wire::orders::{OrderType, Side};
use spoolgate_wire::time::Time;
use spoolgate_wire::venue::{Snapshot, VenueOrder};

/// Maximum number of symbols that one snapshot closes, so that the line fits; the next closes more.
const DOUBTED_MAX: usize = 100;

/// Maximum number of differences that are told in words.
const TOLD_MAX: usize = 100;

/// Why a snapshot says nothing about the book of now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stale {
    /// The bridge has given no sign of life yet, or runs anew.
    #[error(
        "the snapshot is of run `{stated}`, and the bridge's sign of life is of {}; write `.alive` \
            with the id of the run first",
        known.as_ref().map_or_else(|| "none".to_owned(), |run| format!("run `{run}`"))
    )]
    Run {
        /// The run that the snapshot states.
        stated: String,
        /// The run that is known.
        known: Option<String>,
    },
    /// It was taken before the bridge's newest report was booked, or after one that was not.
    #[error("the newest booked report of the bridge is `{booked}`, the snapshot states {stated}")]
    Exec {
        /// The newest report that was booked.
        booked: String,
        /// What the snapshot states.
        stated: String,
    },
    /// It is too old, or its time is in the future.
    #[error(
        "the snapshot was taken at {taken_at}, more than {} s away from {now}; take another one, and \
            set the clock of the bridge",
        AGE_MAX_MS / 1000
    )]
    Age {
        /// When it was taken, as it states.
        taken_at: Time,
        /// The time of the gate.
        now: Time,
    },
}

/// How old a snapshot may be, and how far its time may be ahead, milliseconds.
const AGE_MAX_MS: i64 = 60_000;

/// What a comparison found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compared {
    /// The changes: that it took place, and a doubt for each symbol that differs.
    pub changes: Vec<Change>,
    /// What differs, in words, up to a bound.
    pub differences: Vec<String>,
}

/// A difference between book and venue.
struct Difference {
    symbols: Vec<Symbol>,
    order_id: Option<OrderId>,
    what: String,
}

/// Compares a snapshot with the book.
///
/// # Errors
/// Returns [`Stale`] if the snapshot says nothing about the book of now.
pub fn compare(
    book: &Book,
    rules: &Rulebook,
    snapshot: &Snapshot,
    bridge: &Principal,
    now: Time,
) -> Result<Compared, Stale> {
    let known = book.bridges.get(bridge);
    if known.is_none_or(|known| known.run != snapshot.run) {
        return Err(Stale::Run {
            stated: snapshot.run.clone(),
            known: known.map(|known| known.run.clone()),
        });
    }
    let taken_at = snapshot.taken_at;
    if now.since_ms(taken_at).saturating_abs() > AGE_MAX_MS {
        return Err(Stale::Age { taken_at, now });
    }
    let booked = known.and_then(|known| known.booked.as_ref());
    // Logs of earlier versions do not tell which report was the last.
    if let Some(booked) = booked.filter(|booked| snapshot.after_exec.as_ref() != Some(booked)) {
        let stated = snapshot.after_exec.as_ref();
        return Err(Stale::Exec {
            booked: booked.to_string(),
            stated: stated.map_or_else(|| "null".to_owned(), |id| format!("`{id}`")),
        });
    }
    let at = Comparing {
        book,
        rules,
        snapshot,
        bridge,
        now,
    };
    let mut found = at.orders();
    found.extend(at.foreign());
    found.extend(at.positions());
    found.extend(at.balances());
    let mut closed: BTreeSet<Symbol> = book.doubted_symbols.keys().cloned().collect();
    let mut changes = vec![Change::Reconciled {
        bridge: bridge.clone(),
        at: now,
        run: snapshot.run.clone(),
        differences: u64::try_from(found.len()).unwrap_or(u64::MAX),
    }];
    for difference in &found {
        for symbol in &difference.symbols {
            if changes.len() <= DOUBTED_MAX && closed.insert(symbol.clone()) {
                let (order_id, what) = (difference.order_id, difference.what.clone());
                changes.push(Change::SymbolDoubted {
                    symbol: symbol.clone(),
                    doubt: Doubt {
                        order_id,
                        what,
                        at: now,
                    },
                });
            }
        }
    }
    let told = found.into_iter().take(TOLD_MAX);
    Ok(Compared {
        changes,
        differences: told.map(|difference| difference.what).collect(),
    })
}

struct Comparing<'a> {
    book: &'a Book,
    rules: &'a Rulebook,
    snapshot: &'a Snapshot,
    bridge: &'a Principal,
    now: Time,
}

impl<'a> Comparing<'a> {
    /// The instruments that are traded at the bridge's venue.
    fn instruments(&self) -> impl Iterator<Item = &'a Instrument> {
        let bridge = self.bridge;
        let all = self.rules.instruments.values();
        all.filter(move |it| it.bridge.as_ref() == Some(bridge))
    }

    /// The orders of the book that are at the bridge's venue.
    fn known(&self) -> impl Iterator<Item = (&'a Order, &'a AtVenue)> {
        let bridge = self.bridge;
        let orders = self.book.orders.values();
        let at_venue = orders.filter_map(|order| Some((order, order.at_venue.as_ref()?)));
        at_venue.filter(move |(_, venue)| venue.bridge == *bridge)
    }

    /// Orders that only one side works, or works otherwise.
    fn orders(&self) -> Vec<Difference> {
        let mut found = Vec::new();
        let mut stated: BTreeMap<OrderId, &VenueOrder> = BTreeMap::new();
        let mut is_twice: BTreeSet<OrderId> = BTreeSet::new();
        for order in &self.snapshot.orders {
            if stated.insert(order.order_id, order).is_some() {
                is_twice.insert(order.order_id);
            }
        }
        for (order, venue) in self.known() {
            let what = match stated.remove(&order.order_id) {
                Some(_) if is_twice.contains(&order.order_id) => Some(format!(
                    "the venue works `{}` more than once",
                    order.order_id
                )),
                Some(theirs) => differs(order, venue, theirs),
                None => is_missing(venue, self.now).then(|| {
                    format!(
                        "`{}` works in the book, and not at the venue",
                        order.order_id
                    )
                }),
            };
            found.extend(what.map(|what| Difference {
                symbols: vec![order.symbol.clone()],
                order_id: Some(order.order_id),
                what,
            }));
        }
        found.extend(stated.into_values().map(|theirs| {
            Difference {
                // Which symbol it is about is unknown.
                symbols: self.instruments().map(|it| it.symbol.clone()).collect(),
                order_id: Some(theirs.order_id),
                what: format!(
                    "the venue works `{}`, which is not open in the book",
                    theirs.order_id
                ),
            }
        }));
        found
    }

    /// Orders that somebody else has placed in the account.
    fn foreign(&self) -> Vec<Difference> {
        let foreign = self.snapshot.foreign.iter();
        // A bridge says nothing about the instruments of another one.
        let is_own = |symbol: &Symbol| self.instruments().any(|it| it.symbol == *symbol);
        let found = foreign.map(|order| Difference {
            symbols: Some(order.symbol.clone())
                .filter(is_own)
                .into_iter()
                .collect(),
            order_id: None,
            what: format!(
                "the venue works a foreign order in {}: {} {} of `{}`",
                order.symbol,
                match order.side {
                    Side::Buy => "buy",
                    Side::Sell => "sell",
                },
                order.size,
                order.venue_id.escape_default()
            ),
        });
        found.collect()
    }

    /// Positions in derivatives that are not the sum of the legs.
    fn positions(&self) -> Vec<Difference> {
        let mut found = Vec::new();
        for instrument in self.instruments().filter(|it| it.base.is_none()) {
            let symbol = &instrument.symbol;
            let stated = self.snapshot.positions.iter();
            let stated = stated.filter(|position| position.symbol == *symbol);
            let theirs = sum(stated.map(|position| position.size));
            let ours = self.held(symbol);
            if theirs != ours {
                let what = format!(
                    "the book holds {} of {symbol}, and the venue {}; on spot, state `base` in \
                        instruments.yaml",
                    shown(ours),
                    shown(theirs)
                );
                found.push(Difference {
                    symbols: vec![symbol.clone()],
                    order_id: None,
                    what,
                });
            }
        }
        found
    }

    /// Balances below what the book holds: of a coin by a lot or more, of the account's currency by
    /// anything. More is no difference, because the account may hold what the gate does not trade.
    fn balances(&self) -> Vec<Difference> {
        let total = |currency: &str| {
            let balances = self.snapshot.balances.iter();
            sum(balances
                .filter(|balance| balance.currency.as_str() == currency)
                .map(|balance| balance.total))
        };
        let mut found = Vec::new();
        let mut coins: BTreeMap<&str, Vec<&Instrument>> = BTreeMap::new();
        for instrument in self.instruments() {
            if let Some(base) = &instrument.base {
                coins.entry(base.as_str()).or_default().push(instrument);
            }
        }
        for (base, instruments) in coins {
            let mut legs = instruments.iter().map(|it| self.held(&it.symbol));
            let held = legs.try_fold(Amount::ZERO, |sum, held| sum.checked_add(held?));
            let theirs = total(base);
            let lot = instruments.iter().map(|it| *it.lot).min();
            let short = held.and_then(|held| held.checked_sub(theirs?));
            if short.is_none_or(|short| short.is_positive() && Some(short) >= lot) {
                found.push(Difference {
                    symbols: instruments.iter().map(|it| it.symbol.clone()).collect(),
                    order_id: None,
                    what: format!(
                        "the book holds {} {base}, and the venue {}",
                        shown(held),
                        shown(theirs)
                    ),
                });
            }
        }
        let currency = self.rules.safety.currency.as_str();
        let all = self.rules.instruments.values();
        let is_alone = all
            .clone()
            .all(|it| it.bridge.as_ref() == Some(self.bridge));
        let has_coins = all.clone().any(|it| it.base.is_some());
        let (cash, theirs) = (self.book.account.cash, total(currency));
        // Of several venues, or of positions on paper, nobody knows whose cash it is.
        if is_alone && has_coins && theirs.is_none_or(|theirs| theirs < cash) {
            found.push(Difference {
                symbols: self.instruments().map(|it| it.symbol.clone()).collect(),
                order_id: None,
                what: format!(
                    "the book holds {cash} {currency}, and the venue {}",
                    shown(theirs)
                ),
            });
        }
        found
    }

    /// The sum of the legs of a symbol that are held at the bridge's venue.
    fn held(&self, symbol: &Symbol) -> Option<Amount> {
        let positions = self.book.positions.values();
        let here = positions.filter(|position| {
            position.symbol == *symbol
                && position
                    .held_at
                    .as_ref()
                    .is_some_and(|held_at| held_at.bridge == *self.bridge)
        });
        sum(here.map(|position| position.size))
    }
}

fn sum(amounts: impl Iterator<Item = Amount>) -> Option<Amount> {
    let mut amounts = amounts;
    amounts.try_fold(Amount::ZERO, Amount::checked_add)
}

fn shown(amount: Option<Amount>) -> String {
    amount.map_or_else(
        || "an amount that cannot be computed".to_owned(),
        |amount| amount.normalized().to_string(),
    )
}

/// How long the end of an order that was let go as `ioc` may be on its way after the venue confirmed the
/// order, milliseconds.
const LET_GO_MS: i64 = 15_000;

/// Whether an order that is not at the venue should be there: the venue has confirmed it as it was last
/// instructed, and it is not to end. Bridges change an order by a cancel and a new one, so one with an
/// instruction under way may be missing between the two. An order that was let go ends by itself, and
/// its report comes soon; if it is lost, the order holds up what waits for its room.
fn is_missing(venue: &AtVenue, now: Time) -> bool {
    // A time later than now dates from before the clock was set back.
    let is_recent = |at: Time| (0..LET_GO_MS).contains(&now.since_ms(at));
    let is_due =
        |works: Works| works.version == venue.version && (!venue.released || !is_recent(works.at));
    venue.ending.is_none() && venue.told.is_some() && venue.works.is_some_and(is_due)
}

/// Returns how an order that both sides work differs.
fn differs(order: &Order, venue: &AtVenue, theirs: &VenueOrder) -> Option<String> {
    let id = order.order_id;
    if theirs.cum_qty != order.filled {
        return Some(format!(
            "`{id}` has filled {} in the book, and {} at the venue",
            order.filled, theirs.cum_qty
        ));
    }
    let stated = venue
        .sizes
        .iter()
        .find(|Stated(version, ..)| *version == theirs.version);
    let Some(Stated(version, size, trigger)) = stated else {
        return Some(format!(
            "the venue works version {} of `{id}`, which it should not",
            theirs.version
        ));
    };
    let is_told = order.trigger.is_none() || theirs.trigger == *trigger;
    // A stop with a price is a stop-limit order, which may not trade. An order at the market may show
    // the price at which it trades.
    let is_at_market = order.order_type == OrderType::Market;
    let is_priced = theirs.price == order.price || is_at_market;
    let is_same = theirs.size == *size && is_told && is_priced;
    (!is_same).then(|| {
        format!("the venue works version {version} of `{id}` with another size, price or trigger")
    })
}
