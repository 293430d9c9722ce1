//! Random interleavings of instructions, fills and reports over a naive venue that follows the last
//! instruction. What the venue holds and what the book holds always agree, whatever crosses.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::prelude::*;

use super::outbox::{hand_over, owed};
use super::report::{Reporting, on_report, taken_back};
use super::tests_outbox::{Desk, unprotected};
use crate::change::Change;
use crate::order::{Instruction, Order, OrderEnd, OrderRole, Position, Verb};
use crate::testing::*;
use crate::{absent, cancel, exits};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{Currency, OrderId, Principal};
use spoolgate_wire::orders::Side;
use spoolgate_wire::time::Time;
use spoolgate_wire::venue::VenueReport;

/// An order that the venue works or has worked.
struct Worked {
    version: u32,
    side: Side,
    size: Amount,
    filled: Amount,
    is_open: bool,
}

/// The bridge and the venue behind it.
struct Naive {
    /// Files of instructions that the bridge has not taken yet; `true` if one was written again after
    /// a crash.
    files: BTreeMap<(OrderId, u32, bool), Instruction>,
    /// Instructions that it has taken and not carried out, by order; only the newest counts.
    told: BTreeMap<OrderId, Instruction>,
    /// The newest version of each order that it has carried out, or refused because its time was over.
    done: BTreeMap<OrderId, u32>,
    /// What it has carried out, and what the gate has taken back.
    sent: BTreeSet<(OrderId, u32)>,
    back: BTreeSet<(OrderId, u32)>,
    orders: BTreeMap<OrderId, Worked>,
    /// Reports on their way to the gate.
    mail: VecDeque<String>,
    /// The position at the venue.
    position: Amount,
    /// Which fees it takes.
    fees: u8,
    reports: u64,
    /// The last report, so that it can be sent again.
    last: Option<String>,
}

impl Naive {
    fn new(fees: u8) -> Naive {
        let (told, orders, mail) = (BTreeMap::new(), BTreeMap::new(), VecDeque::new());
        Naive {
            files: BTreeMap::new(),
            done: BTreeMap::new(),
            sent: BTreeSet::new(),
            back: BTreeSet::new(),
            told,
            orders,
            mail,
            position: Amount::ZERO,
            fees,
            reports: 0,
            last: None,
        }
    }

    fn report(&mut self, id: OrderId, rest: &str) {
        self.reports += 1;
        let filled = self
            .orders
            .get(&id)
            .map_or(Amount::ZERO, |order| order.filled);
        self.mail.push_back(format!(
            r#"{{"order_id":"{id}","exec_id":"E{}","transact_time":"2026-02-21T12:00:30Z","cum_qty":"{filled}",{rest}}}"#,
            self.reports
        ));
    }

    /// Takes the `nth` file.
    fn take(&mut self, nth: usize) {
        let count = self.files.len().max(1);
        let Some(key) = self.files.keys().nth(nth % count).copied() else {
            return;
        };
        let told = self.files.remove(&key).unwrap();
        let (id, version, _) = key;
        let newest = self.told.get(&id).map_or(0, |told| told.version);
        let newest = newest.max(self.done.get(&id).copied().unwrap_or(0));
        if version > newest {
            self.told.insert(id, told);
        }
    }

    /// Carries out the newest instruction of the `nth` order that has one.
    fn carry_out(&mut self, nth: usize, now: Time) {
        let count = self.told.len().max(1);
        let Some(id) = self.told.keys().nth(nth % count).copied() else {
            return;
        };
        let told = self.told.remove(&id).unwrap();
        self.done.insert(id, told.version);
        if told.valid_until.is_some_and(|until| until < now) {
            let version = told.version;
            return self.report(
                id,
                &format!(r#""exec_type":"rejected","text":"expired","version":{version}"#),
            );
        }
        assert!(
            !self.back.contains(&(id, told.version)),
            "{id}.{} was taken back, and sent",
            told.version
        );
        self.sent.insert((id, told.version));
        let known = self.orders.get_mut(&id);
        match (told.instruction, known) {
            (Verb::Cancel, None) => {
                let (side, size, filled) = (told.side, told.size, Amount::ZERO);
                let order = Worked {
                    version: told.version,
                    side,
                    size,
                    filled,
                    is_open: false,
                };
                self.orders.insert(id, order);
                self.report(
                    id,
                    &format!(r#""exec_type":"canceled","version":{}"#, told.version),
                );
            }
            (Verb::Cancel, Some(order)) => {
                (order.version, order.is_open) = (told.version, false);
                self.report(
                    id,
                    &format!(r#""exec_type":"canceled","version":{}"#, told.version),
                );
            }
            (_, None) => {
                let (side, size, filled) = (told.side, told.size, Amount::ZERO);
                let order = Worked {
                    version: told.version,
                    side,
                    size,
                    filled,
                    is_open: true,
                };
                self.orders.insert(id, order);
                self.report(
                    id,
                    &format!(r#""exec_type":"new","version":{}"#, told.version),
                );
            }
            // It was taken out of the market for a while.
            (Verb::Place, Some(order)) if !order.is_open && order.filled < told.size => {
                (order.version, order.size, order.is_open) = (told.version, told.size, true);
                self.report(
                    id,
                    &format!(r#""exec_type":"new","version":{}"#, told.version),
                );
            }
            (_, Some(order)) if order.is_open => {
                order.version = told.version;
                order.size = told.size;
                let is_over = order.filled >= order.size;
                order.is_open = !is_over;
                self.report(
                    id,
                    &format!(r#""exec_type":"replaced","version":{}"#, told.version),
                );
            }
            // It filled at its old size, or beyond its later smaller size, and cannot grow any
            // more.
            (_, Some(order)) if order.filled < told.size && order.filled >= order.size => {
                order.version = told.version;
                self.report(
                    id,
                    &format!(
                        r#""exec_type":"rejected","text":"too late","version":{}"#,
                        told.version
                    ),
                );
            }
            // It ended before; the report of its end is on the way.
            (_, Some(_)) => {}
        }
    }

    fn nth_open(&self, nth: usize) -> Option<OrderId> {
        let open: Vec<OrderId> = self
            .orders
            .iter()
            .filter(|(_, order)| order.is_open)
            .map(|(id, _)| *id)
            .collect();
        open.get(nth % open.len().max(1)).copied()
    }

    fn fill(&mut self, nth: usize, thousandths: i64) {
        let Some(id) = self.nth_open(nth) else { return };
        let order = self.orders.get_mut(&id).unwrap();
        let left = order.size.checked_sub(order.filled).unwrap();
        let size = Amount::from_i64(thousandths)
            .checked_mul(a("0.001"))
            .unwrap()
            .min(left);
        order.filled = order.filled.checked_add(size).unwrap();
        order.is_open = order.filled < order.size;
        let side = order.side;
        let signed = if side == Side::Buy { size } else { -size };
        let before = self.position;
        self.position = self.position.checked_add(signed).unwrap();
        let rest = format!(
            r#""exec_type":"trade","last_qty":"{size}","last_px":"6800","liquidity":"taker",{}"#,
            self.fee(side, size, before)
        );
        self.report(id, &rest);
    }

    /// Takes the fee of a trade: in account currency, in coins of what is bought, or in a third currency.
    /// What it takes in coins of what is sold comes from elsewhere.
    fn fee(&mut self, side: Side, size: Amount, before: Amount) -> String {
        let of = |rate: &str| size.checked_mul(a(rate)).unwrap().normalized();
        let (fee, rest) = match self.fees.wrapping_add(self.reports.to_le_bytes()[0]) % 5 {
            _ if self.fees == 0 => return r#""fee":"0.01""#.to_owned(),
            0 => (a("0.01"), r#","fee_currency":"USD""#),
            1 => (of("0.001"), r#","fee_currency":"BTC""#),
            2 => (of("0.25"), r#","fee_currency":"BTC""#),
            3 => (-of("0.001"), r#","fee_currency":"BTC""#),
            _ => (a("0.4"), r#","fee_currency":"BNB","fee_value":"0.07""#),
        };
        if rest.contains("BTC") && side == Side::Buy {
            // What buys a short back is valued, too.
            let opens = size.min(before.checked_add(size).unwrap());
            if fee.abs() < opens {
                self.position = self.position.checked_sub(fee).unwrap();
            }
        }
        format!(r#""fee":"{fee}"{rest}"#)
    }

    fn end(&mut self, nth: usize, how: u8) {
        let Some(id) = self.nth_open(nth) else { return };
        let order = self.orders.get_mut(&id).unwrap();
        order.is_open = false;
        let rest = match how % 3 {
            0 => r#""exec_type":"canceled""#,
            1 => r#""exec_type":"expired""#,
            _ => r#""exec_type":"rejected","text":"no""#,
        };
        let rest = format!(r#"{rest},"version":{}"#, order.version);
        self.report(id, &rest);
    }
}

struct Both {
    /// Whether the venue keeps orders that reduce within the position.
    reduce_only: bool,
    desk: Desk,
    naive: Naive,
    /// The position according to the reports booked so far.
    booked: Amount,
    /// The newest instruction of each order.
    newest: BTreeMap<OrderId, Instruction>,
}

impl Both {
    fn at(reduce_only: bool, fees: u8) -> Both {
        let mut desk = Desk::at(reduce_only);
        let btc = desk.world.rules.instruments.get_mut(&btc()).unwrap();
        btc.base = Some(Currency::parse("BTC").unwrap());
        Both {
            reduce_only,
            desk,
            naive: Naive::new(fees),
            booked: Amount::ZERO,
            newest: BTreeMap::new(),
        }
    }

    /// Takes back the files that no longer say what the gate wants.
    fn take_back(&mut self) {
        let now = self.desk.world.now;
        let files: Vec<(OrderId, u32, bool)> = self.naive.files.keys().copied().collect();
        for (id, version, is_again) in files {
            let order = self.desk.world.book.orders.get(&id);
            let venue = order.and_then(|order| order.at_venue.as_ref());
            let told = &self.naive.files[&(id, version, is_again)];
            let is_late = !told.reduce_only
                && told
                    .valid_until
                    .is_some_and(|until| now.since_ms(until) > 5_000);
            let is_wanted = venue.is_some_and(|venue| version == venue.version && !venue.gone);
            if is_wanted && !is_late {
                continue;
            }
            self.naive.files.remove(&(id, version, is_again));
            if is_again {
                continue;
            }
            assert!(
                !self.naive.sent.contains(&(id, version)),
                "{id}.{version} was sent, and taken back"
            );
            self.naive.back.insert((id, version));
            let (book, rules) = (&self.desk.world.book, &self.desk.world.rules);
            let changes = taken_back(book, rules, id, version, now).unwrap();
            self.line(changes);
        }
    }

    /// The gate starts again after a crash, and cannot know which of its files were written.
    fn start_again(&mut self) {
        for (id, told) in &self.newest {
            let order = self.desk.world.book.orders.get(id);
            let venue = order.and_then(|order| order.at_venue.as_ref());
            let is_wanted = venue.is_some_and(|venue| venue.version == told.version && !venue.gone);
            if is_wanted && !self.naive.files.contains_key(&(*id, told.version, false)) {
                let key = (*id, told.version, true);
                self.naive.files.insert(key, told.clone());
            }
        }
    }

    fn line(&mut self, changes: Vec<Change>) {
        let (book, now) = (&self.desk.world.book, self.desk.world.now);
        let mut changes = hand_over(book, &self.desk.world.rules.safety.bridges, changes, now);
        while !changes.is_empty() {
            self.desk.world.apply(&changes);
            for change in &changes {
                if let Change::Instructed(told) = change {
                    let key = (told.order_id, told.version, false);
                    assert!(self.naive.files.insert(key, told.clone()).is_none());
                    self.newest.insert(told.order_id, told.clone());
                }
            }
            changes = owed(
                &self.desk.world.book,
                &self.desk.world.rules.safety.bridges,
                now,
            );
        }
        self.check();
    }

    fn deliver(&mut self, text: &str, booked_in: Option<u64>) -> bool {
        let report: VenueReport = serde_json::from_str(text).unwrap();
        let world = &mut self.desk.world;
        world.seq += 1;
        let bridge = Principal::parse("exchange").unwrap();
        let by = Reporting {
            bridge: &bridge,
            booked_in,
            now: world.now,
            seq: world.seq,
        };
        match on_report(&world.book, &world.rules, &report, &by) {
            Ok(changes) => {
                for change in &changes {
                    if let Change::OrderFilled(fill) = change {
                        let moves = fill.moves().unwrap();
                        self.booked = self.booked.checked_add(moves).unwrap();
                    }
                }
                self.line(changes);
                true
            }
            Err(refused) => {
                // The venue ended an order that the gate knows to be over, or that the gate never
                // placed.
                let is_late = refused.changes.is_empty() && !text.contains("trade");
                assert!(booked_in.is_some() || is_late, "{refused:?}: {text}");
                false
            }
        }
    }

    fn deliver_next(&mut self) {
        if let Some(text) = self.naive.mail.pop_front() {
            self.deliver(&text, None);
            self.naive.last = Some(text);
        }
    }

    /// Where the venue enforces nothing, no order of the gate can sell more there than is held, whatever
    /// fills next and however late that is reported.
    fn check_bound(&self) {
        let orders = self.naive.orders.iter();
        let selling = orders.filter(|(_, order)| order.is_open && order.side == Side::Sell);
        let left = selling.fold(self.naive.position, |left, (_, order)| {
            let open = order.size.checked_sub(order.filled).unwrap();
            left.checked_sub(open).unwrap()
        });
        assert!(!left.is_negative(), "{left}: {:?}", self.desk.orders());
    }

    fn check(&self) {
        if !self.reduce_only {
            self.check_bound();
        }
        let book = &self.desk.world.book;
        assert_eq!(self.desk.world.position(), self.booked);
        if book.doubted_symbols.is_empty() {
            assert_eq!(unprotected(book), Amount::ZERO, "{:?}", self.desk.orders());
        }
        for (id, worked) in self
            .naive
            .orders
            .iter()
            .filter(|(_, worked)| worked.is_open)
        {
            let Some(order) = book.orders.get(id) else {
                panic!("{id} works at the venue, not in the book")
            };
            let most = order.at_venue.as_ref().unwrap().most();
            assert!(
                worked.size <= most,
                "{id}: {} at the venue, {most} in the book",
                worked.size
            );
            if matches!(order.role, OrderRole::Entry | OrderRole::Exit) {
                // The venue has already subtracted fills whose reports are still on the way.
                let left = worked.size.checked_sub(worked.filled).unwrap();
                assert!(left <= order.leaves(), "{id}");
            }
        }
    }

    fn ask(&mut self, order: &spoolgate_wire::orders::SubmitOrder) {
        // The bound is about orders that reduce. An entry that fills against the position is another
        // matter, and needs one that worked while the leg was flat.
        let is_short = order.side == Side::Sell && !self.desk.world.position().is_positive();
        if is_short && !self.reduce_only {
            return;
        }
        let verdict = self.desk.world.ask(order);
        if verdict.accepted {
            self.line(verdict.changes);
        }
    }

    fn of_order(&mut self, nth: usize, tighten: Option<&str>) {
        let open: Vec<OrderId> = self.desk.world.book.orders.keys().copied().collect();
        let Some(id) = open.get(nth % open.len().max(1)).copied() else {
            return;
        };
        let before = self.desk.world.book.clone();
        let verdict = match tighten {
            None => self.desk.world.cancel(id),
            Some(stop) => self.desk.world.tighten(id, stop),
        };
        self.desk.world.book = before;
        self.line(verdict.changes);
    }

    /// The market reaches the price of an order that rests at the gate.
    fn release(&mut self, nth: usize) {
        let orders = self.desk.world.book.orders.values();
        let held = orders.filter(|order| {
            order.is_held() && order.ending().is_none() && order.leaves().is_positive()
        });
        let held: Vec<OrderId> = held.map(|order| order.order_id).collect();
        if let Some(&order_id) = held.get(nth % held.len().max(1)) {
            self.line(vec![Change::OrderReleased { order_id }]);
        }
    }

    fn step(&mut self, (kind, nth, size): (u8, u8, u8)) {
        let n = usize::from(nth);
        let lots = i64::from(size % 12) + 2;
        let size_text = Amount::from_i64(lots)
            .checked_mul(a("0.001"))
            .unwrap()
            .to_string();
        self.desk.world.wait(1000);
        match kind % 24 {
            0 => self.ask(&market_order(
                "trend",
                "BTC-USD",
                "buy",
                &size_text,
                "6700",
                nth % 4,
            )),
            1 => {
                let mut entry = limit(
                    market_order("trend", "BTC-USD", "buy", &size_text, "6700", nth % 4),
                    "6750",
                );
                entry.target_price = Some(a("6900"));
                self.ask(&entry);
            }
            2 => self.ask(&market_order(
                "trend",
                "BTC-USD",
                "sell",
                &size_text,
                "6900",
                nth % 4,
            )),
            3 => self.ask(&limit(
                market_order("trend", "BTC-USD", "sell", &size_text, "6900", nth % 4),
                "6850",
            )),
            4 => self.of_order(n, None),
            5 => self.of_order(
                n,
                Some(if nth.is_multiple_of(2) {
                    "6750"
                } else {
                    "6850"
                }),
            ),
            6..=8 => self.naive.carry_out(n, self.desk.world.now),
            18..=20 => self.naive.take(n),
            21 => self.take_back(),
            22 => self.start_again(),
            23 => self.desk.world.wait(i64::from(size) * 500),
            9..=11 => self.naive.fill(n, lots / 2 + 1),
            12 => self.naive.end(n, size),
            16 | 17 => self.release(n),
            13 => {
                if let Some(text) = self.naive.last.clone() {
                    assert!(!self.deliver(&text, Some(1)));
                }
            }
            _ => self.deliver_next(),
        }
        self.check();
    }

    /// Delivers everything outstanding in both directions; then both sides must be equal.
    fn settle(&mut self) {
        loop {
            self.take_back();
            while !self.naive.files.is_empty() {
                self.naive.take(0);
            }
            while !self.naive.told.is_empty() || !self.naive.mail.is_empty() {
                self.naive.carry_out(0, self.desk.world.now);
                self.deliver_next();
            }
            // What came too late is given again after a while.
            self.desk.world.wait(6_000);
            self.line(Vec::new());
            if self.naive.files.is_empty() {
                break;
            }
        }
        assert_eq!(self.desk.world.position(), self.naive.position);
        if !self.reduce_only {
            return self.check_settled();
        }
        for (id, order) in &self.desk.world.book.orders {
            let worked = self.naive.orders.get(id);
            match worked.filter(|worked| worked.is_open) {
                Some(worked) => assert_eq!(
                    (worked.size, worked.filled),
                    (order.size, order.filled),
                    "{id}"
                ),
                // Waiting for the first fill of its entry, or for a market exit before it.
                None => {
                    let is_new = order.at_venue.as_ref().unwrap().version == 0;
                    let waits = exits::waits(order, self.desk.world.book.orders.values());
                    assert!((order.leaves().is_zero() || waits) && is_new, "{order:?}");
                }
            }
        }
    }
}

impl Both {
    /// The venue works what it was told: stops and exits for the whole position. If no exit is there, none
    /// that goes waits.
    fn check_settled(&self) {
        let (mut exits, mut waiting) = (0, Vec::new());
        let (mut there, mut let_go) = (Amount::ZERO, Amount::ZERO);
        for (id, order) in &self.desk.world.book.orders {
            let venue = order.at_venue.as_ref().unwrap();
            let worked = self.naive.orders.get(id).filter(|worked| worked.is_open);
            let may_fill = venue.may_fill(order.filled).is_positive();
            assert_eq!(worked.is_some(), may_fill, "{order:?}");
            let is_exit = matches!(order.role, OrderRole::Exit | OrderRole::Target);
            if let Some(worked) = worked {
                let told = venue.told.unwrap();
                assert_eq!((worked.size, worked.filled), (told.size, order.filled));
                exits += usize::from(is_exit);
                if order.role != OrderRole::Entry {
                    let open = worked.size.checked_sub(worked.filled).unwrap();
                    there = there.checked_add(open).unwrap();
                    // What was let go neither grows nor shrinks before it is back.
                    if venue.released {
                        let more = order.leaves().checked_sub(open).unwrap();
                        let_go = let_go.checked_add(more.max(Amount::ZERO)).unwrap();
                    }
                }
            } else if is_exit && !order.is_held() && order.leaves().is_positive() {
                waiting.push(order.order_id);
            }
        }
        if exits == 0 {
            assert_eq!(waiting, []);
        }
        // Nothing that could protect or leave is kept back, whatever else the venue still works.
        if self.desk.world.book.doubted_symbols.is_empty() {
            let key = (btc(), trend());
            let held = self.desk.world.book.positions.get(&key);
            let held = held.filter(|held| !held.is_dust());
            let whole = held.map_or(Amount::ZERO, Position::whole);
            let least = whole.checked_sub(let_go).unwrap();
            let orders = self.desk.orders();
            // Less than the smallest order can be neither protected nor closed.
            let units = held.and_then(|held| held.held_at.as_ref()?.units.as_ref());
            let bare = least.checked_sub(there).unwrap();
            let is_covered = !bare.is_positive() || units.is_some_and(|it| it.is_dust(bare));
            assert!(
                is_covered && there <= self.naive.position,
                "{there}: {orders:?}"
            );
        }
    }
}

impl Both {
    /// A person ends the entries and closes the position: nothing is left but dust.
    fn leave(&mut self) {
        for _ in 0..40 {
            let (book, now) = (&self.desk.world.book, self.desk.world.now);
            let entries = crate::reach::entries(book).filter(|entry| entry.ending().is_none());
            let mut changes: Vec<Change> = entries
                .flat_map(|entry| cancel::close(book, entry, OrderEnd::Cancelled, now))
                .collect();
            if let Some(held) = book.positions.values().next() {
                changes.extend(absent::retire(absent::sent_exits(book, held), now));
                let (by, seq) = (Principal::parse("alice").unwrap(), self.desk.world.seq + 1);
                changes.extend(absent::close_at_market(book, held, &by, seq, now));
            }
            self.desk.world.seq += 1;
            self.line(changes);
            self.settle();
            // What was let go comes back, and orders at the market fill.
            let orders = &self.desk.world.book.orders;
            let open = self.naive.orders.iter().filter(|(_, order)| order.is_open);
            let open: Vec<OrderId> = open.map(|(id, _)| *id).collect();
            let closes = |id: &OrderId| orders.get(id).map(absent::is_closing);
            let closes: Vec<Option<bool>> = open.iter().map(closes).collect();
            let is_let_go = |id: &OrderId| orders.get(id).is_some_and(Order::takes_room);
            let let_go: Vec<bool> = open.iter().map(is_let_go).collect();
            for nth in (0..open.len()).rev() {
                if closes[nth] == Some(true) {
                    self.naive.fill(nth, i64::from(u16::MAX));
                } else if let_go[nth] {
                    self.naive.end(nth, 1);
                }
            }
            self.settle();
        }
        let held = self.desk.world.book.positions.values().next();
        assert!(
            held.is_none_or(Position::is_dust),
            "{held:?}: {:?}",
            self.desk.orders()
        );
    }
}

fn interleaved(reduce_only: bool, fees: u8, ops: Vec<(u8, u8, u8)>) {
    let mut both = Both::at(reduce_only, fees);
    for op in ops {
        both.step(op);
    }
    both.settle();
    both.leave();
}

fn many(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(many(400))]

    #[test]
    fn book_and_venue_never_part(
        reduce_only in any::<bool>(),
        fees in 0_u8..6,
        ops in prop::collection::vec(any::<(u8, u8, u8)>(), 1..120),
    ) {
        interleaved(reduce_only, fees, ops);
    }
}

proptest! {
    #![proptest_config(many(40_000))]

    #[test]
    #[ignore = "takes two minutes"]
    fn they_never_part_in_40_000_cases(
        reduce_only in any::<bool>(),
        fees in 0_u8..6,
        ops in prop::collection::vec(any::<(u8, u8, u8)>(), 1..120),
    ) {
        interleaved(reduce_only, fees, ops);
    }
}

/// A stop that shrank below its fills and then grew again is over at the venue. The gate must
/// receive that report; otherwise it would count the rest as protected.
#[test]
fn a_stop_that_shrank_below_its_fills_and_grows_again() {
    let mut both = Both::at(true, 0);
    for kind_and_size in [
        (0, 185),
        (6, 0),
        (9, 252),
        (9, 14),
        (2, 14),
        (6, 0),
        (9, 4),
        (14, 0),
        (14, 0),
        (9, 0),
        (14, 0),
        (6, 0),
        (9, 108),
    ] {
        let nth = u8::from(kind_and_size == (9, 4)) * 43;
        while kind_and_size.0 == 6 && !both.naive.files.is_empty() {
            both.naive.take(0);
        }
        both.step((kind_and_size.0, nth, kind_and_size.1));
    }
    both.settle();
}
