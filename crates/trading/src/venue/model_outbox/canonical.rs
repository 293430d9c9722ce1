//! Makes states comparable: what only counts up, and what no step depends on, is taken out.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem::discriminant;

use super::state::{OLD_MS, State, Valid};
use crate::book::Account;
use crate::order::{AtVenue, Order, Position, Verb, Works};
use spoolgate_wire::ids::OrderId;
use spoolgate_wire::time::Time;

impl State {
    /// Forgets what no later step can depend on, sets the clock back to `base`, and numbers the orders
    /// anew in the same order. Whatever was said at `now` stays fresh; everything else is old.
    pub(super) fn canonical(mut self, account: &Account, base: Time, now: Time) -> State {
        self.forget();
        self.rename();
        let old = base.plus_ms(-OLD_MS);
        let rest = |at: &mut Time| *at = if *at >= now { base } else { old };
        self.book.account = account.clone();
        self.book.recent_entries.clear();
        self.book.conduct.clear();
        self.book.heard.clear();
        for doubt in self.book.doubted_symbols.values_mut() {
            (doubt.what, doubt.order_id, doubt.at) = (String::new(), None, base);
        }
        for held in self.book.positions.values_mut() {
            (held.increased_at, held.dropped) = (old, None);
            held.result = spoolgate_wire::amount::Amount::ZERO;
            held.unfilled_at.iter_mut().for_each(rest);
        }
        for order in self.book.orders.values_mut() {
            order.accepted_at = old;
            let Some(venue) = &mut order.at_venue else {
                continue;
            };
            (venue.why, venue.alarmed_at) = (None, None);
            // Whether one of these is old is asked only after time has passed, when all of them are.
            venue.unconfirmed_since = venue.unconfirmed_since.map(|_| old);
            venue.works.iter_mut().for_each(|works| works.at = old);
            match &mut venue.told_at {
                Some(told_at) if venue.lost => rest(told_at),
                told_at => *told_at = told_at.map(|_| old),
            }
        }
        for order in self.orders.values_mut() {
            order.told.valid = Valid::Forever;
            if !order.is_open {
                (order.told.price, order.told.trigger) = (None, None);
                if self.bridge_crashes == 0 || self.crashes == 0 {
                    (order.told.verb, order.told.version) = (Verb::Place, 0);
                }
            }
        }
        self
    }

    /// Forgets orders that are over on both sides, and versions that nobody can meet again.
    fn forget(&mut self) {
        if self.gate_crashes == 0 || self.crashes == 0 {
            self.newest.clear();
        }
        let book = &self.book.orders;
        self.newest.retain(|id, _| book.contains_key(id));
        let mut known: BTreeSet<OrderId> = book.keys().copied().collect();
        known.extend(self.files.keys().map(|(id, ..)| *id));
        known.extend(self.told.keys());
        known.extend(self.mail.iter().map(|report| report.id));
        known.extend(self.again.iter().map(|report| report.id));
        let open = self.orders.iter().filter(|(_, order)| order.is_open);
        known.extend(open.map(|(id, _)| *id));
        self.orders.retain(|id, _| known.contains(id));
        let (files, told, newest) = (&self.files, &self.told, &self.newest);
        self.done.retain(|id, done| {
            let is_older = |version: u32| version <= *done;
            files
                .keys()
                .any(|(of, version, _)| of == id && is_older(*version))
                || newest.get(id).is_some_and(|told| is_older(told.version))
        });
        let is_met = |(id, version): &(OrderId, u32)| {
            [false, true].map(|again| files.contains_key(&(*id, *version, again))) != [false; 2]
                || [told, newest]
                    .into_iter()
                    .any(|all| all.get(id).is_some_and(|told| told.version == *version))
        };
        self.sent.retain(is_met);
        self.back.retain(is_met);
    }

    fn rename(&mut self) {
        let mut seqs: BTreeSet<u64> = self.book.orders.keys().map(|id| id.seq).collect();
        seqs.extend(self.files.keys().map(|(id, ..)| id.seq));
        seqs.extend(self.told.keys().map(|id| id.seq));
        seqs.extend(self.done.keys().map(|id| id.seq));
        seqs.extend(self.orders.keys().map(|id| id.seq));
        seqs.extend(self.mail.iter().map(|report| report.id.seq));
        seqs.extend(self.again.iter().map(|report| report.id.seq));
        let places: BTreeMap<u64, u64> = seqs.into_iter().zip(1..).collect();
        self.seq = u64::try_from(places.len()).unwrap();
        if places.iter().all(|(seq, place)| seq == place) {
            return;
        }
        let name = |id: OrderId| OrderId {
            seq: places[&id.seq],
            ..id
        };
        let orders = std::mem::take(&mut self.book.orders);
        self.book.orders = orders
            .into_values()
            .map(|mut order| {
                order.order_id = name(order.order_id);
                (order.order_id, order)
            })
            .collect();
        self.files = std::mem::take(&mut self.files)
            .into_iter()
            .map(|((id, version, again), told)| ((name(id), version, again), told))
            .collect();
        self.told = renamed(&mut self.told, name);
        self.newest = renamed(&mut self.newest, name);
        self.done = renamed(&mut self.done, name);
        self.orders = renamed(&mut self.orders, name);
        for set in [&mut self.sent, &mut self.back] {
            let all = std::mem::take(set).into_iter();
            *set = all.map(|(id, version)| (name(id), version)).collect();
        }
        let reports = self.mail.iter_mut().chain(&mut self.again);
        reports.for_each(|report| report.id = name(report.id));
    }

    /// Lets everything that the bridge was given come too late, except cancels.
    pub(super) fn late(&mut self) {
        let all = self.files.values_mut().chain(self.told.values_mut());
        for told in all.chain(self.newest.values_mut()) {
            if told.valid == Valid::Fresh {
                told.valid = Valid::Late;
            }
        }
    }

    /// A hash of all of a canonical state. Of the book every member is named, so that a new one cannot
    /// be forgotten here.
    pub(super) fn key(&self) -> u128 {
        let half = |salt: u8| {
            let mut hasher = DefaultHasher::new();
            salt.hash(&mut hasher);
            self.feed(&mut hasher);
            u128::from(hasher.finish())
        };
        half(1) << 64 | half(2)
    }

    fn feed(&self, hasher: &mut DefaultHasher) {
        let State {
            book,
            seq: _,
            files,
            told,
            newest,
            done,
            sent,
            back,
            orders,
            mail,
            again,
            position,
            faults,
            crashes,
            gate_crashes,
            bridge_crashes,
            can_exit,
            can_rest,
            has_lost,
            asked,
        } = self;
        (files, told, newest, done, sent, back).hash(hasher);
        (orders, mail, again, position, faults).hash(hasher);
        (crashes, gate_crashes, bridge_crashes).hash(hasher);
        (can_exit, can_rest, has_lost, asked).hash(hasher);
        book.doubted_symbols.len().hash(hasher);
        book.positions.values().for_each(|held| feed(held, hasher));
        let orders = book.orders.values();
        orders.for_each(|order| feed_order(order, hasher));
    }
}

fn renamed<T>(
    map: &mut BTreeMap<OrderId, T>,
    name: impl Fn(OrderId) -> OrderId,
) -> BTreeMap<OrderId, T> {
    let all = std::mem::take(map).into_iter();
    all.map(|(id, value)| (name(id), value)).collect()
}

fn feed(held: &Position, hasher: &mut DefaultHasher) {
    let Position {
        strategy: _,
        symbol: _,
        size,
        cost,
        result: _,
        increased_at: _,
        theses: _,
        held_at,
        dropped: _,
        unfilled_at,
    } = held;
    (size, cost, held_at.is_some(), unfilled_at).hash(hasher);
}

fn feed_order(order: &Order, hasher: &mut DefaultHasher) {
    let Order {
        order_id,
        source: _,
        strategy: _,
        symbol: _,
        side,
        role,
        order_type,
        size,
        filled,
        price,
        trigger,
        triggered,
        thesis_slug: _,
        accepted_at: _,
        time_in_force,
        at_venue,
        key_id: _,
    } = order;
    (order_id, size, filled, price, trigger, triggered).hash(hasher);
    (discriminant(side), discriminant(role)).hash(hasher);
    (discriminant(order_type), discriminant(time_in_force)).hash(hasher);
    let Some(AtVenue {
        bridge: _,
        multiplier: _,
        units: _,
        version,
        told,
        sizes,
        merged,
        told_at,
        lost,
        works,
        unconfirmed_since,
        passed_at,
        alarmed_at,
        ending,
        why: _,
        gone,
        reduce_only,
        released,
        again,
        imitated: _,
    }) = at_venue
    else {
        return;
    };
    (version, merged, told_at, lost, unconfirmed_since, passed_at).hash(hasher);
    (alarmed_at, gone, reduce_only, released, again).hash(hasher);
    told.map(|told| (told.size, told.trigger)).hash(hasher);
    ending.map(|end| discriminant(&end)).hash(hasher);
    let works = works.as_ref();
    let works = works.map(
        |Works {
             version,
             size,
             trigger,
             at,
         }| (version, size, trigger, at),
    );
    works.hash(hasher);
    sizes.len().hash(hasher);
    for stated in sizes {
        (stated.0, stated.1, stated.2).hash(hasher);
    }
}
