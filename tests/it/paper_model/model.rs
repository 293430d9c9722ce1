//! The paper venue and the accounts a second time, naively and in exact rationals, from what docs
//! and comments promise.
//!
//! Some rules are only in the code, and are followed here: fees are rounded up to 8 decimals;
//! without a tick prices are rounded to 8 decimals; a stop that triggers in a bar without volume
//! counts as triggered; a stop that protects nothing does not trigger; if the open is off the tick,
//! rounding does not carry a limit past its price; a stop that a bar reaches without opening past
//! it starts from its trigger without the half spread; the exit that replaces a refused stop is there for every row after the
//! one that opened.

mod exits;
mod prices;

use std::collections::BTreeMap;

use crate::paper_model::rational::Rat;

/// Symbol, and strategy within it.
pub(crate) type Owner = (String, String);

/// Sequence number, and which of its orders it is.
pub(crate) type Id = (u64, u8);

pub(crate) const ORDER: u8 = 0;
pub(crate) const STOP: u8 = 1;
pub(crate) const TARGET: u8 = 2;
pub(crate) const FLATTEN: u8 = 3;

#[derive(Clone, Debug)]
pub(crate) struct Spec {
    pub multiplier: Rat,
    pub tick: Rat,
    pub lot: Rat,
    pub half_spread: Rat,
    pub slippage: Rat,
    pub maker: Rat,
    pub taker: Rat,
    pub share: Rat,
    pub min_size: Rat,
    pub min_notional: Rat,
    pub max_gap: Rat,
    pub fills_from_bars: bool,
    pub quotes_from_bars: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Print {
    Bar {
        open_ms: i64,
        length_ms: i64,
        open: Rat,
        high: Rat,
        low: Rat,
        close: Rat,
        volume: Option<Rat>,
    },
    Quote {
        ms: i64,
        bid: Rat,
        ask: Rat,
        bid_size: Option<Rat>,
        ask_size: Option<Rat>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Entry,
    Exit,
    Stop,
    Target,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lasts {
    Forever,
    OneRow,
    OneDay,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Market,
    Limit,
    Stop,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Working {
    pub id: Id,
    pub owner: Owner,
    pub buys: bool,
    pub role: Role,
    pub kind: Kind,
    pub size: Rat,
    pub filled: Rat,
    pub price: Option<Rat>,
    pub trigger: Option<Rat>,
    pub hit: bool,
    pub at_ms: i64,
    pub lasts: Lasts,
}

impl Working {
    pub(crate) fn leaves(&self) -> Rat {
        let left = self.size.minus(&self.filled);
        if left.is_positive() {
            left
        } else {
            Rat::zero()
        }
    }

    fn phase(&self) -> u8 {
        match (self.role, self.kind) {
            (Role::Entry, _) => 2,
            (_, Kind::Market) => 1,
            (_, Kind::Stop) if self.hit => 1,
            (_, Kind::Stop) => 3,
            (_, Kind::Limit) => 4,
        }
    }
}

/// A row that the next one must agree with.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Waiting {
    pub print: Print,
    /// The price that it is too far from.
    pub before: Rat,
}

/// What was bought or sold short in the current row.
struct Fresh {
    entry: u64,
    owner: Owner,
    price: Rat,
    size: Rat,
}

/// One execution, for tests that look at more than positions and cash.
pub(crate) struct Filled {
    pub id: Id,
    pub owner: Owner,
    pub role: Role,
    /// Whether it was the order's first fill.
    pub is_first: bool,
    /// Whether it reduced the position, and whether it closed all of it.
    pub closes: bool,
    pub is_flat: bool,
    /// Realised profit or loss less the fee.
    pub result: Rat,
    /// Price x size x multiplier.
    pub notional: Rat,
    /// The market's clock.
    pub ms: i64,
}

#[derive(Default)]
pub(crate) struct Model {
    pub specs: BTreeMap<String, Spec>,
    pub orders: Vec<Working>,
    /// Signed size and signed cost.
    pub held: BTreeMap<Owner, (Rat, Rat)>,
    pub flows: Vec<Rat>,
    pub deposits: Option<Rat>,
    pub realised: Option<Rat>,
    pub fees: Option<Rat>,
    pub funding: Option<Rat>,
    pub last: BTreeMap<String, Rat>,
    pub quote: BTreeMap<String, (i64, Rat, Rat)>,
    /// Only for bars: a quote is one instant.
    fresh: Vec<Fresh>,
    is_bar: bool,
    known_ms: i64,
    /// The size left for buys, and for sales.
    budget: [Option<Rat>; 2],
    /// The number of exits that the venue refused, and of entries that it took back.
    pub refused: usize,
    pub flattened: usize,
    /// Symbols without entries until a person clears them.
    pub halted: std::collections::BTreeSet<String>,
    /// Rows that are not believed yet.
    pub waiting: BTreeMap<String, Waiting>,
    /// The number of rows that were held, believed later, and dropped.
    pub doubts: [usize; 3],
    /// The number of orders that ended because of their time in force.
    pub expired: usize,
    /// The number of market exits that were added to one that waited, and of resting exits that gave
    /// way.
    pub merged: usize,
    pub gave_way: usize,
    /// Every execution of the last row.
    pub fills: Vec<Filled>,
}

fn add(to: &mut Option<Rat>, what: &Rat) {
    *to = Some(to.take().unwrap_or_else(Rat::zero).plus(what));
}

fn day(ms: i64) -> i64 {
    ms.div_euclid(86_400_000)
}

fn is_on(value: &Rat, step: &Rat) -> bool {
    step.is_zero() || value.floor_to(step) == *value
}

/// Whether the venue accepts a stop for an entry of this size.
fn hosts(trigger: &Rat, size: &Rat, spec: &Spec) -> bool {
    is_on(trigger, &spec.tick)
        && is_on(size, &spec.lot)
        && *size >= spec.min_size
        && trigger.times(size).times(&spec.multiplier) >= spec.min_notional
}

fn mirrored(price: &Rat, buys: bool) -> Rat {
    if buys { price.clone() } else { price.negated() }
}

impl Model {
    pub(crate) fn deposit(&mut self, amount: &Rat) {
        add(&mut self.deposits, amount);
        self.flow(amount);
    }

    /// Cash is the sum of all flows.
    pub(crate) fn cash(&self) -> Rat {
        self.flows
            .iter()
            .fold(Rat::zero(), |sum, flow| sum.plus(flow))
    }

    fn flow(&mut self, amount: &Rat) {
        // One running sum is equally naive and stays fast.
        let sum = self.cash().plus(amount);
        self.flows = vec![sum];
    }

    pub(crate) fn position(&self, owner: &Owner) -> Rat {
        self.held
            .get(owner)
            .map_or_else(Rat::zero, |(size, _)| size.clone())
    }

    pub(crate) fn mark(&self, symbol: &str, is_long: bool) -> Option<Rat> {
        if self.specs[symbol].quotes_from_bars {
            return self.last.get(symbol).cloned();
        }
        self.quote
            .get(symbol)
            .map(|(_, bid, ask)| if is_long { bid.clone() } else { ask.clone() })
    }

    /// Returns size x mark x multiplier - cost over all positions.
    pub(crate) fn unrealised(&self) -> Option<Rat> {
        self.held
            .iter()
            .try_fold(Rat::zero(), |sum, (owner, (size, cost))| {
                let value = size
                    .times(&self.mark(&owner.0, size.is_positive())?)
                    .times(&self.specs[&owner.0].multiplier);
                Some(sum.plus(&value).minus(cost))
            })
    }

    /// Returns cash plus what closing everything at the marks would bring.
    pub(crate) fn equity(&self) -> Option<Rat> {
        self.held
            .iter()
            .try_fold(self.cash(), |sum, (owner, (size, _))| {
                let mark = self.mark(&owner.0, size.is_positive())?;
                Some(sum.plus(&size.times(&mark).times(&self.specs[&owner.0].multiplier)))
            })
    }

    /// Whether the owner holds a position that this side reduces.
    pub(crate) fn holds_against(&self, owner: &Owner, buys: bool) -> bool {
        let size = self.position(owner);
        !size.is_zero() && size.is_negative() == buys
    }

    /// Returns the limit orders of the one agent that an order would trade with: up to its limit,
    /// at the market up to the worst entry, for a stop from its trigger up to that. If the market
    /// is unknown, everything on the other side.
    pub(crate) fn crossed(
        &self,
        symbol: &str,
        buys: bool,
        kind: Kind,
        own: Option<&Rat>,
        slip: &Rat,
    ) -> Vec<Working> {
        // Sales are mirrored: prices below 0, and higher is worse for everybody.
        let seen = |price: &Rat| mirrored(price, buys);
        let near = if self.specs[symbol].quotes_from_bars {
            let half = &self.specs[symbol].half_spread;
            let half = if buys { half.clone() } else { half.negated() };
            self.last
                .get(symbol)
                .map(|last| last.times(&Rat::one().plus(&half)))
        } else {
            self.quote
                .get(symbol)
                .map(|(_, bid, ask)| if buys { ask.clone() } else { bid.clone() })
        };
        let own = own.map(seen);
        let near = near.as_ref().map(seen);
        let worse = |price: Rat| price.plus(&price.abs().times(slip));
        let (least, most) = match kind {
            Kind::Limit => (None, own),
            Kind::Market => (None, near.map(worse)),
            Kind::Stop => {
                let start = own
                    .clone()
                    .zip(near)
                    .map(|(own, near)| if own > near { own } else { near });
                (own, start.map(worse))
            }
        };
        let is_met = |order: &&Working| {
            let price = order.price.as_ref().map(seen);
            order.owner.0 == symbol
                && order.buys != buys
                && order.kind == Kind::Limit
                && price.is_some_and(|price| {
                    least.as_ref().is_none_or(|least| price >= *least)
                        && most.as_ref().is_none_or(|most| price <= *most)
                })
        };
        self.orders.iter().filter(is_met).cloned().collect()
    }

    /// Adds an accepted order; an entry brings its stop, and perhaps a target. An exit joins those of
    /// its leg.
    pub(crate) fn place(&mut self, order: Working, stop: Option<Rat>, target: Option<Rat>) {
        if self.joins(&order) {
            return;
        }
        if let Some(price) = target {
            self.orders.push(Working {
                id: (order.id.0, TARGET),
                buys: !order.buys,
                role: Role::Target,
                kind: Kind::Limit,
                size: Rat::zero(),
                price: Some(price),
                trigger: None,
                lasts: Lasts::Forever,
                ..order.clone()
            });
        }
        if let Some(trigger) = stop {
            self.orders.push(Working {
                id: (order.id.0, STOP),
                buys: !order.buys,
                role: Role::Stop,
                kind: Kind::Stop,
                size: Rat::zero(),
                price: None,
                trigger: Some(trigger),
                lasts: Lasts::Forever,
                ..order.clone()
            });
        }
        self.orders.push(order);
        self.orders.sort_by_key(|order| order.id);
    }

    pub(crate) fn find(&self, id: Id) -> Option<&Working> {
        self.orders.iter().find(|order| order.id == id)
    }

    fn change(&mut self, id: Id) -> Option<&mut Working> {
        self.orders.iter_mut().find(|order| order.id == id)
    }

    fn drop_order(&mut self, id: Id) {
        self.orders.retain(|order| order.id != id);
    }

    pub(crate) fn cancel(&mut self, id: Id) {
        self.drop_order(id);
        self.tidy();
    }

    pub(crate) fn tighten(&mut self, id: Id, trigger: Rat) {
        self.change(id).unwrap().trigger = Some(trigger);
    }

    /// A stop lives as long as it protects something or its entry may still fill.
    fn tidy(&mut self) {
        let open: Vec<u64> = self
            .orders
            .iter()
            .filter(|o| o.role == Role::Entry)
            .map(|order| order.id.0)
            .collect();
        self.orders
            .retain(|o| o.role != Role::Stop || o.leaves().is_positive() || open.contains(&o.id.0));
        let stops: BTreeMap<u64, Rat> = self
            .orders
            .iter()
            .filter(|o| o.role == Role::Stop)
            .map(|o| (o.id.0, o.leaves()))
            .collect();
        // A target covers what its stop covers.
        self.orders
            .retain(|o| o.role != Role::Target || stops.contains_key(&o.id.0));
        for target in self.orders.iter_mut().filter(|o| o.role == Role::Target) {
            target.size = target.filled.plus(&stops[&target.id.0]);
        }
    }

    /// Returns the rows that are used now that this one has come: itself; or none, because it is
    /// held; or one that was held before, and itself.
    pub(crate) fn believed(&mut self, symbol: &str, print: &Print) -> Vec<Print> {
        let most = self.specs[symbol].max_gap.clone();
        let is_far = |old: &Rat, new: &Rat| new.over(old).minus(&Rat::one()).abs() > most;
        if let Some(Waiting {
            print: held,
            before,
        }) = self.waiting.remove(symbol)
        {
            let between = |ends: &[&Rat], opens: &[&Rat]| {
                ends.iter()
                    .any(|end| opens.iter().any(|open| is_far(end, open)))
            };
            let is_other = match (&held, print) {
                (Print::Bar { open, close, .. }, Print::Bar { open: new, .. }) => {
                    between(&[open, close], &[new])
                }
                (Print::Bar { open, close, .. }, Print::Quote { bid, ask, .. }) => {
                    between(&[open, close], &[bid, ask])
                }
                (Print::Quote { bid, ask, .. }, Print::Bar { open, .. }) => {
                    between(&[bid, ask], &[open])
                }
                (
                    Print::Quote { bid, ask, .. },
                    Print::Quote {
                        bid: new_bid,
                        ask: new_ask,
                        ..
                    },
                ) => is_far(bid, new_bid) || is_far(ask, new_ask),
            };
            let is_far_from_before = match print {
                Print::Bar { open, .. } => is_far(&before, open),
                Print::Quote { bid, ask, .. } => is_far(&before, bid) || is_far(&before, ask),
            };
            if !is_other && is_far_from_before {
                self.doubts[1] += 1;
                return vec![held, print.clone()];
            }
            self.doubts[2] += 1;
        }
        let is_short = match print {
            Print::Bar { length_ms, .. } => *length_ms < 3_600_000,
            Print::Quote { .. } => true,
        };
        match self.gap(symbol, print) {
            Some(before) if is_short => {
                self.doubts[0] += 1;
                let print = print.clone();
                self.waiting
                    .insert(symbol.to_owned(), Waiting { print, before });
                Vec::new()
            }
            _ => vec![print.clone()],
        }
    }

    /// Uses a row that is believed.
    pub(crate) fn row(&mut self, symbol: &str, print: &Print) {
        self.fills.clear();
        if self.gap(symbol, print).is_some() {
            self.halted.insert(symbol.to_owned());
        }
        let spec = self.specs[symbol].clone();
        let (is_bar, start_ms) = match print {
            Print::Bar { open_ms, .. } => (true, *open_ms),
            Print::Quote { ms, .. } => (false, *ms),
        };
        self.known_ms = match print {
            Print::Bar {
                open_ms, length_ms, ..
            } => open_ms + length_ms,
            Print::Quote { ms, .. } => *ms,
        };
        if is_bar == spec.fills_from_bars {
            self.fresh.clear();
            self.is_bar = is_bar;
            self.budget = match print {
                Print::Bar { volume, .. } => {
                    let share = volume.as_ref().map(|volume| volume.times(&spec.share));
                    [share.clone(), share]
                }
                Print::Quote {
                    bid_size, ask_size, ..
                } => [ask_size.clone(), bid_size.clone()],
            };
            self.end(|o| {
                o.owner.0 == symbol && o.lasts == Lasts::OneDay && day(o.at_ms) < day(start_ms)
            });
            self.refuse_exits(symbol, start_ms, &spec);
            for phase in 1..=4 {
                let due: Vec<Id> = self
                    .orders
                    .iter()
                    .filter(|o| o.owner.0 == symbol && o.at_ms <= start_ms && o.phase() == phase)
                    .map(|order| order.id)
                    .collect();
                for id in due {
                    let waits = phase == 2 && self.halted.contains(symbol);
                    if !waits {
                        self.meet(id, print, &spec);
                    }
                }
            }
            self.end(|o| o.owner.0 == symbol && o.lasts == Lasts::OneRow && o.at_ms <= start_ms);
        }
        match print {
            Print::Bar { close, .. } => {
                self.last.insert(symbol.to_owned(), close.clone());
            }
            Print::Quote { ms, bid, ask, .. } => {
                self.quote
                    .insert(symbol.to_owned(), (*ms, bid.clone(), ask.clone()));
            }
        }
    }

    /// Every position in the symbol pays its share.
    pub(crate) fn fund(&mut self, symbol: &str, rate: &Rat) {
        let held = self.held.clone();
        for (owner, (size, _)) in held.iter().filter(|(owner, _)| owner.0 == symbol) {
            let mark = self.mark(&owner.0, size.is_positive()).unwrap();
            let value = size.times(&mark).times(&self.specs[symbol].multiplier);
            let charge = value.times(rate).ceil_to(&Rat::of("0.00000001"));
            self.flow(&charge.negated());
            add(&mut self.funding, &charge);
        }
    }

    fn end(&mut self, is_over: impl Fn(&Working) -> bool) {
        let before = self.orders.len();
        self.orders.retain(|order| !is_over(order));
        self.expired += before - self.orders.len();
        self.tidy();
    }

    /// Midnight by the gate's clock.
    pub(crate) fn end_day(&mut self, now_ms: i64) {
        self.end(|order| order.lasts == Lasts::OneDay && day(order.at_ms) != day(now_ms));
    }

    /// Returns the last price that a row opens too far from, if it does.
    fn gap(&self, symbol: &str, print: &Print) -> Option<Rat> {
        let most = &self.specs[symbol].max_gap;
        let is_far = |old: &Rat, new: &Rat| new.over(old).minus(&Rat::one()).abs() > *most;
        match print {
            Print::Bar { open, .. } => {
                let last = self.last.get(symbol)?;
                is_far(last, open).then(|| last.clone())
            }
            Print::Quote { bid, ask, .. } => {
                let (_, old_bid, old_ask) = self.quote.get(symbol)?;
                let ask = is_far(old_ask, ask).then(|| old_ask.clone());
                is_far(old_bid, bid).then(|| old_bid.clone()).or(ask)
            }
        }
    }

    fn meet(&mut self, id: Id, print: &Print, spec: &Spec) {
        let Some(order) = self
            .find(id)
            .filter(|order| order.leaves().is_positive())
            .cloned()
        else {
            return;
        };
        let Some((price, is_maker)) = self.price(&order, print, spec) else {
            return;
        };
        if order.kind == Kind::Stop && !order.hit {
            self.change(id).unwrap().hit = true;
            if order.role == Role::Stop {
                // The trade is over: nothing more of it is opened.
                self.drop_order((id.0, ORDER));
                self.drop_order((id.0, TARGET));
            }
        }
        while let Some(order) = self.find(id).cloned() {
            let size = self.fillable(&order, spec);
            if !size.is_positive() {
                break;
            }
            self.fill(&order, &size, &price, is_maker, spec);
        }
    }

    fn fill(&mut self, order: &Working, size: &Rat, price: &Rat, is_maker: bool, spec: &Spec) {
        let cents = Rat::of("0.00000001");
        let notional = price.times(size).times(&spec.multiplier);
        let rate = if is_maker { &spec.maker } else { &spec.taker };
        let fee = notional.times(rate).ceil_to(&cents);
        let flow = if order.buys {
            notional.negated()
        } else {
            notional.clone()
        };
        self.flow(&flow.minus(&fee));
        add(&mut self.fees, &fee);
        let (old, cost) = self
            .held
            .get(&order.owner)
            .cloned()
            .unwrap_or_else(|| (Rat::zero(), Rat::zero()));
        let new = if order.buys {
            old.plus(size)
        } else {
            old.minus(size)
        };
        let closes = !old.is_zero() && old.is_negative() == order.buys;
        assert!(
            !closes || new.is_zero() || new.is_negative() == old.is_negative(),
            "the model flipped"
        );
        let mut new_cost = cost.minus(&flow);
        let mut result = fee.negated();
        if closes {
            let share = cost.times(size).over(&old.abs()).half_even_to(&cents);
            let share = if new.is_zero() { cost.clone() } else { share };
            add(&mut self.realised, &flow.minus(&share));
            result = result.plus(&flow.minus(&share));
            new_cost = cost.minus(&share);
        }
        self.fills.push(Filled {
            id: order.id,
            owner: order.owner.clone(),
            role: order.role,
            is_first: order.filled.is_zero(),
            closes,
            is_flat: new.is_zero(),
            result,
            notional,
            ms: self.known_ms,
        });
        if new.is_zero() {
            self.held.remove(&order.owner);
        } else {
            self.held
                .insert(order.owner.clone(), (new.clone(), new_cost));
        }
        self.use_budget(order.buys, size);
        let own = self.change(order.id).unwrap();
        own.filled = own.filled.plus(size);
        let is_done = own.leaves().is_zero();
        for fresh in self
            .fresh
            .iter_mut()
            .filter(|f| order.role == Role::Stop && f.entry == order.id.0)
        {
            // What its own stop sold again is gone.
            fresh.size = fresh.size.minus(&size.clone().min(fresh.size.clone()));
        }
        if !closes && !self.protect(order, size, price, spec) {
            self.flatten(order, size);
            return;
        }
        if order.role == Role::Target {
            // The trade is over, and its stop is not needed for what is sold.
            self.drop_order((order.id.0, ORDER));
            let stop = self.change((order.id.0, STOP)).unwrap();
            stop.size = stop.size.minus(&size.clone().min(stop.leaves()));
        }
        if is_done {
            self.drop_order(order.id);
        }
        if closes {
            self.follow(&order.owner, &new);
        }
        self.tidy();
    }

    /// Adds what an entry opened to its stop, if the market takes one.
    fn protect(&mut self, order: &Working, size: &Rat, price: &Rat, spec: &Spec) -> bool {
        let (entry, owner) = (order.id.0, order.owner.clone());
        if self.is_bar {
            self.fresh.push(Fresh {
                entry,
                owner,
                price: price.clone(),
                size: size.clone(),
            });
        }
        let stop = self.find((entry, STOP)).unwrap();
        if !stop.leaves().is_positive() && !hosts(stop.trigger.as_ref().unwrap(), &order.size, spec)
        {
            return false;
        }
        let stop = self.change((entry, STOP)).unwrap();
        stop.size = stop.size.plus(size);
        if let Some(target) = self.find((entry, TARGET)).cloned()
            && !target.leaves().is_positive()
            && !is_on(target.price.as_ref().unwrap(), &spec.tick)
        {
            self.drop_order(target.id);
        }
        true
    }

    /// Without its stop an entry ends, and what it opened is closed at the market.
    fn flatten(&mut self, entry: &Working, size: &Rat) {
        self.drop_order((entry.id.0, STOP));
        self.drop_order((entry.id.0, TARGET));
        self.drop_order(entry.id);
        self.flattened += 1;
        let exit = Working {
            id: (entry.id.0, FLATTEN),
            buys: !entry.buys,
            role: Role::Exit,
            kind: Kind::Market,
            size: size.clone(),
            filled: Rat::zero(),
            price: None,
            trigger: None,
            hit: false,
            at_ms: self.known_ms,
            lasts: Lasts::Forever,
            ..entry.clone()
        };
        self.place(exit, None, None);
    }

    /// The venue checks by itself what it is asked to work on.
    fn refuse_exits(&mut self, symbol: &str, start_ms: i64, spec: &Spec) {
        let held = self.held.clone();
        let before = self.orders.len();
        self.orders.retain(|o| {
            let is_new = o.filled.is_zero() && !o.hit && o.at_ms <= start_ms && o.id.1 == ORDER;
            if o.owner.0 != symbol || o.role != Role::Exit || !is_new {
                return true;
            }
            let own = o.price.as_ref().or(o.trigger.as_ref());
            let all = held
                .get(&o.owner)
                .is_none_or(|(size, _)| o.size >= size.abs());
            own.is_none_or(|price| is_on(price, &spec.tick)) && (all || is_on(&o.size, &spec.lot))
        });
        self.refused += before - self.orders.len();
    }

    /// Stops protect what is held, and the oldest shrink first; exits end with the position.
    fn follow(&mut self, owner: &Owner, size: &Rat) {
        let mut stops: Vec<&mut Working> = self
            .orders
            .iter_mut()
            .filter(|o| o.role == Role::Stop && o.owner == *owner && o.buys == size.is_negative())
            .collect();
        let protected = stops
            .iter()
            .fold(Rat::zero(), |sum, stop| sum.plus(&stop.leaves()));
        let mut excess = protected.minus(&size.abs());
        for stop in &mut stops {
            let cut = stop.leaves().min(excess.clone());
            if cut.is_positive() {
                stop.size = stop.size.minus(&cut);
                excess = excess.minus(&cut);
            }
        }
        if size.is_zero() {
            for stop in self
                .orders
                .iter_mut()
                .filter(|o| o.role == Role::Stop && o.owner == *owner)
            {
                stop.size = stop.filled.clone();
            }
            self.orders
                .retain(|o| o.role != Role::Exit || o.owner != *owner);
        }
    }
}
