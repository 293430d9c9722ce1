//! Gate, bridge and venue, and every step that one of them can take.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{Event, Model, Mutation};
use crate::book::Book;
use crate::change::Change;
use crate::order::{Instruction, OrderRole, Verb};
use crate::requests::{Context, Messages, Verdict};
use crate::testing::{a, btc, limit, market_order, trend};
use crate::venue::outbox::{hand_over, owed};
use crate::venue::report::{Reporting, on_report, taken_back};
use crate::venue::snapshot;
use crate::{cancel, exits, risk, submit, tighten};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::code::Code;
use spoolgate_wire::ids::OrderId;
use spoolgate_wire::orders::{CancelOrder, OrderType, Side, SubmitOrder, TightenStop, TimeInForce};
use spoolgate_wire::time::Time;
use spoolgate_wire::venue::{Snapshot, VenueReport};

/// How far time passes at once: beyond every limit on time.
pub(super) const OLD_MS: i64 = 3_600_000;

/// Whether an instruction may still be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Valid {
    Forever,
    Fresh,
    Late,
}

/// An instruction, as far as the bridge needs it. Sizes are in lots.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Told {
    pub(super) version: u32,
    pub(super) verb: Verb,
    pub(super) is_sale: bool,
    pub(super) kind: Kind,
    pub(super) size: i64,
    pub(super) price: Option<Amount>,
    pub(super) trigger: Option<Amount>,
    pub(super) valid: Valid,
}

/// What an order does at the venue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// It opens.
    Entry,
    /// It protects.
    Stop,
    /// It fills at once: it is at the market.
    Market,
    /// It fills at once or comes back.
    Ioc,
    /// It waits for its price.
    Resting,
}

/// An order that the venue works or has worked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Worked {
    pub(super) told: Told,
    pub(super) filled: i64,
    pub(super) is_open: bool,
}

impl Worked {
    pub(super) fn left(&self) -> i64 {
        if self.is_open {
            self.told.size - self.filled
        } else {
            0
        }
    }
}

/// A report on its way to the gate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Report {
    pub(super) id: OrderId,
    filled: i64,
    what: Said,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Said {
    New(u32),
    Replaced(u32),
    Trade(i64),
    Canceled(u32),
    Expired(u32),
    Rejected(u32),
    /// Refused by the bridge, because the time of this version is over.
    TooLate(u32),
}

/// How an order ends at the venue that nobody asked to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Canceled,
    Rejected,
}

/// All that the next steps depend on.
#[derive(Clone)]
pub(super) struct State {
    pub(super) book: Book,
    pub(super) seq: u64,
    /// Files that the bridge has not taken; `true` if written again after a crash.
    pub(super) files: BTreeMap<(OrderId, u32, bool), Told>,
    /// The newest instruction of each order that the bridge has taken and not carried out.
    pub(super) told: BTreeMap<OrderId, Told>,
    /// The newest instruction of each order that the gate has given.
    pub(super) newest: BTreeMap<OrderId, Told>,
    /// The newest version of each order that the bridge has carried out or refused.
    pub(super) done: BTreeMap<OrderId, u32>,
    /// What the venue was asked, and what the gate has taken back.
    pub(super) sent: BTreeSet<(OrderId, u32)>,
    pub(super) back: BTreeSet<(OrderId, u32)>,
    pub(super) orders: BTreeMap<OrderId, Worked>,
    pub(super) mail: VecDeque<Report>,
    /// The report that the gate has just refused, if its answer can still be lost.
    pub(super) again: Option<Report>,
    /// The position at the venue, lots.
    pub(super) position: i64,
    pub(super) faults: u8,
    pub(super) crashes: u8,
    pub(super) gate_crashes: u8,
    pub(super) bridge_crashes: u8,
    /// Whether the agent has not sent its exit at the market, and the one with a price, yet.
    pub(super) can_exit: bool,
    pub(super) can_rest: bool,
    /// Whether an instruction or a report was lost for good. No trade is: the bridge's journal has those.
    pub(super) has_lost: bool,
    /// Whether the exit was sent with which a leg must become flat.
    pub(super) asked: bool,
}

pub(super) fn amount(lots: i64) -> Amount {
    Amount::from_i64(lots).checked_mul(a("0.002")).unwrap()
}

pub(super) fn lots(amount: Amount) -> i64 {
    let count = amount.abs().div_floor_count(a("0.002")).unwrap();
    let count = i64::try_from(count).unwrap();
    assert_eq!(amount.abs(), self::amount(count), "not in lots");
    if amount.is_negative() { -count } else { count }
}

impl Told {
    fn of(told: &Instruction) -> Told {
        let kind = match (told.order_type, told.time_in_force) {
            _ if !told.reduce_only => Kind::Entry,
            (OrderType::Market, _) => Kind::Market,
            (_, TimeInForce::Ioc) => Kind::Ioc,
            (OrderType::Stop, _) => Kind::Stop,
            (OrderType::Limit, _) => Kind::Resting,
        };
        Told {
            version: told.version,
            verb: told.instruction,
            is_sale: told.side == Side::Sell,
            kind,
            size: lots(told.size),
            price: told.price,
            trigger: told.trigger,
            valid: match told.valid_until {
                Some(_) => Valid::Fresh,
                None => Valid::Forever,
            },
        }
    }
}

/// What a step does: the next state, `None` if the step is not possible, or what is wrong.
pub(super) type Stepped = Result<Option<State>, String>;

impl State {
    /// Takes a step, and returns a canonical state.
    pub(super) fn step(&self, model: &Model, event: Event) -> Stepped {
        let mut next = self.clone();
        let mut now = model.now;
        let is_done = match event {
            Event::Deliver => next.deliver(model)?,
            Event::Repeat => next.repeat(model)?,
            Event::CarryOut(id, how) => next.carry_out(id, how)?,
            Event::Take(id, version, is_again) => next.take(id, version, is_again),
            Event::TakeBack => next.take_back(model)?,
            Event::Fill(id, size) => next.fill(id, size),
            Event::End(id, end) => next.end(id, end),
            Event::ComeBack(id) => next.come_back(id),
            Event::LoseFile(id, version, is_again) => {
                next.has_lost = true;
                next.files.remove(&(id, version, is_again)).is_some() && next.fault()
            }
            Event::LoseReport => next.lose_report(),
            Event::GateCrash => next.gate_crash(),
            Event::BridgeCrash(id) => next.bridge_crash(id),
            Event::Exit(size) => next.can_exit && next.exit(model, size)?,
            Event::Rest(size) => next.can_rest && next.rest(model, size)?,
            Event::Cancel(id) => next.cancel(model, id)?,
            Event::Tighten => next.tighten(model)?,
            Event::Release(id) => next.release(model, id)?,
            Event::Age => {
                now = now.plus_ms(OLD_MS);
                next.late();
                next.line(model, Vec::new(), now)?;
                true
            }
        };
        if !is_done {
            return Ok(None);
        }
        if next.again.is_some() && next.faults == 0 {
            next.again = None;
        }
        Ok(Some(next.canonical(&model.account, model.now, now)))
    }

    fn fault(&mut self) -> bool {
        let has_any = self.faults > 0;
        self.faults = self.faults.saturating_sub(1);
        has_any
    }

    /// Applies a line as the gate does, with what it owes afterwards.
    pub(super) fn line(
        &mut self,
        model: &Model,
        changes: Vec<Change>,
        now: Time,
    ) -> Result<(), String> {
        let limits = &model.rules.safety.bridges;
        let mut changes = hand_over(&self.book, limits, changes, now);
        let mut lines = 0;
        while !changes.is_empty() {
            lines += 1;
            if lines > 20 {
                return Err("something is owed for ever".to_owned());
            }
            for change in &changes {
                self.apply(change)?;
            }
            changes = owed(&self.book, limits, now);
        }
        Ok(())
    }

    fn apply(&mut self, change: &Change) -> Result<(), String> {
        let applied = self.book.apply(change);
        applied.map_err(|error| error.to_string())?;
        if let Change::Instructed(instruction) = change {
            let told = Told::of(instruction);
            let key = (instruction.order_id, told.version, false);
            self.newest.insert(instruction.order_id, told.clone());
            if told.kind == Kind::Entry && told.version > 1 && told.verb != Verb::Cancel {
                return Err(format!(
                    "(e) the entry {} is placed again",
                    instruction.order_id
                ));
            }
            if self.files.insert(key, told).is_some() {
                return Err(format!("{key:?} was written twice"));
            }
        }
        Ok(())
    }

    fn book_report(
        &mut self,
        model: &Model,
        report: &Report,
        booked_in: Option<u64>,
    ) -> Result<bool, String> {
        let (id, filled) = (report.id, amount(report.filled));
        let rest = match report.what {
            Said::New(version) => format!(r#""exec_type":"new","version":{version}"#),
            Said::Replaced(version) => format!(r#""exec_type":"replaced","version":{version}"#),
            Said::Trade(size) => format!(
                r#""exec_type":"trade","last_qty":"{}","last_px":"6800","fee":"0","liquidity":"taker""#,
                amount(size)
            ),
            Said::Canceled(version) => format!(r#""exec_type":"canceled","version":{version}"#),
            Said::Expired(version) => format!(r#""exec_type":"expired","version":{version}"#),
            Said::Rejected(version) => {
                format!(r#""exec_type":"rejected","text":"no","version":{version}"#)
            }
            Said::TooLate(version) => {
                format!(r#""exec_type":"rejected","text":"expired","version":{version}"#)
            }
        };
        let text = format!(
            r#"{{"order_id":"{id}","exec_id":"E","transact_time":"{}","cum_qty":"{filled}",{rest}}}"#,
            model.now
        );
        let parsed: VenueReport = serde_json::from_str(&text).unwrap();
        let by = Reporting {
            bridge: &model.bridge,
            booked_in,
            now: model.now,
            seq: self.seq + 1,
        };
        match on_report(&self.book, &model.rules, &parsed, &by) {
            Ok(changes) => {
                self.seq += 1;
                self.line(model, changes, model.now)?;
                Ok(true)
            }
            Err(refused) if booked_in.is_some() => {
                let is_right = refused.code == Code::ReportDuplicate && refused.changes.is_empty();
                is_right
                    .then_some(false)
                    .ok_or("a repetition changes something".to_owned())
            }
            Err(refused) => {
                let is_trade = matches!(report.what, Said::Trade(_));
                if !refused.changes.is_empty() || is_trade {
                    return Err(format!("{report:?} is refused: {}", refused.what));
                }
                Ok(false)
            }
        }
    }

    fn deliver(&mut self, model: &Model) -> Result<bool, String> {
        let Some(report) = self.mail.pop_front() else {
            return Ok(false);
        };
        self.again = None;
        if self.book_report(model, &report, None)? {
            // Its answer may be lost at any time: then it comes again.
            self.book_report(model, &report, Some(1))?;
        } else {
            self.again = Some(report);
        }
        Ok(true)
    }

    /// The answer to a refused report is lost, so the bridge sends it once more.
    fn repeat(&mut self, model: &Model) -> Result<bool, String> {
        let Some(report) = self.again.take() else {
            return Ok(false);
        };
        self.book_report(model, &report, None)?;
        Ok(self.fault())
    }

    fn say(&mut self, id: OrderId, what: Said) {
        let filled = self.orders.get(&id).map_or(0, |order| order.filled);
        self.mail.push_back(Report { id, filled, what });
    }

    /// Takes a file and journals it. A bridge that dies in between finds it in `taken/`, which is the
    /// same as taking it later: the gate cannot have it any more.
    fn take(&mut self, id: OrderId, version: u32, is_again: bool) -> bool {
        let Some(told) = self.files.remove(&(id, version, is_again)) else {
            return false;
        };
        let newest = self.told.get(&id).map_or(0, |told| told.version);
        if version > newest.max(self.done.get(&id).copied().unwrap_or(0)) {
            self.told.insert(id, told);
        }
        true
    }

    fn carry_out(&mut self, id: OrderId, how: Carry) -> Result<bool, String> {
        let Some(told) = self.told.remove(&id) else {
            return Ok(false);
        };
        let version = told.version;
        self.done.insert(id, version);
        let is_cancel = told.verb == Verb::Cancel;
        if how != Carry::Plain && (is_cancel || told.valid == Valid::Late || !self.fault()) {
            return Ok(false);
        }
        if told.valid == Valid::Late || how == Carry::TooLate {
            self.say(id, Said::TooLate(version));
            return Ok(true);
        }
        if self.back.contains(&(id, version)) {
            return Err(format!("(b) {id}.{version} was taken back, and is sent"));
        }
        self.sent.insert((id, version));
        let known = self.orders.get(&id).cloned();
        let (filled, size) = known
            .as_ref()
            .map_or((0, 0), |order| (order.filled, order.told.size));
        let is_open = known.as_ref().is_some_and(|order| order.is_open);
        let wanted = told.size;
        let mut works = |is_open: bool| {
            let worked = Worked {
                told: told.clone(),
                filled,
                is_open,
            };
            self.orders.insert(id, worked);
        };
        if is_cancel {
            works(false);
            self.say(id, Said::Canceled(version));
        } else if is_open || known.is_none() || told.verb == Verb::Place && filled < wanted {
            if how == Carry::Refused {
                // What the venue refuses to change, the bridge takes out of the market.
                works(false);
                self.say(id, Said::Rejected(version));
                return Ok(true);
            }
            works(filled < wanted);
            self.say(
                id,
                if is_open {
                    Said::Replaced(version)
                } else {
                    Said::New(version)
                },
            );
        } else if how == Carry::Refused {
            return Ok(false);
        } else if filled < wanted && filled >= size {
            // It filled at its old size, and cannot grow any more.
            self.orders
                .entry(id)
                .and_modify(|order| order.told.version = version);
            self.say(id, Said::Rejected(version));
        }
        // Otherwise the report of its end is on the way.
        Ok(true)
    }

    fn open(&mut self, id: OrderId) -> Option<&mut Worked> {
        self.orders.get_mut(&id).filter(|order| order.is_open)
    }

    fn fill(&mut self, id: OrderId, size: i64) -> bool {
        let Some(order) = self.open(id).filter(|order| order.left() >= size) else {
            return false;
        };
        order.filled += size;
        order.is_open = order.left() > 0;
        let signed = if order.told.is_sale { -size } else { size };
        self.position += signed;
        self.say(id, Said::Trade(size));
        true
    }

    fn end(&mut self, id: OrderId, end: End) -> bool {
        let Some(order) = self.open(id) else {
            return false;
        };
        order.is_open = false;
        let version = order.told.version;
        self.say(
            id,
            match end {
                End::Canceled => Said::Canceled(version),
                End::Rejected => Said::Rejected(version),
            },
        );
        self.fault()
    }

    fn come_back(&mut self, id: OrderId) -> bool {
        let Some(order) = self.open(id).filter(|order| order.told.kind == Kind::Ioc) else {
            return false;
        };
        order.is_open = false;
        let version = order.told.version;
        self.say(id, Said::Expired(version));
        true
    }

    fn lose_report(&mut self) -> bool {
        let lost = self.mail.pop_front();
        self.has_lost = true;
        lost.is_some_and(|lost| !matches!(lost.what, Said::Trade(_))) && self.fault()
    }

    fn crash(&mut self) -> bool {
        let has_any = self.crashes > 0;
        self.crashes = self.crashes.saturating_sub(1);
        has_any
    }

    /// The gate starts again, and cannot know which of its files were written.
    fn gate_crash(&mut self) -> bool {
        if self.gate_crashes == 0 || !self.crash() {
            return false;
        }
        self.gate_crashes -= 1;
        let count = self.files.len();
        for (id, told) in &self.newest {
            let order = self.book.orders.get(id);
            let venue = order.and_then(|order| order.at_venue.as_ref());
            let is_wanted = venue.is_some_and(|it| it.version == told.version && !it.gone);
            if is_wanted && !self.files.contains_key(&(*id, told.version, false)) {
                self.files.insert((*id, told.version, true), told.clone());
            }
        }
        // Without a file the crash has changed nothing.
        self.files.len() > count
    }

    /// The bridge starts again, and does not know whether the venue has answered its newest request: it
    /// asks, and reports what it finds once more.
    fn bridge_crash(&mut self, id: OrderId) -> bool {
        let Some(order) = self.orders.get(&id).cloned() else {
            return false;
        };
        if self.bridge_crashes == 0 || !self.crash() {
            return false;
        }
        self.bridge_crashes -= 1;
        let version = order.told.version;
        match (order.is_open, order.told.verb) {
            (true, _) => self.say(id, Said::New(version)),
            (false, Verb::Cancel) => self.say(id, Said::Canceled(version)),
            (false, _) if order.filled < order.told.size => self.say(id, Said::Expired(version)),
            (false, _) => return false,
        }
        true
    }

    /// Takes back the files that the gate does not want carried out any more.
    fn take_back(&mut self, model: &Model) -> Result<bool, String> {
        let files: Vec<(OrderId, u32, bool)> = self.files.keys().copied().collect();
        let mut is_any = false;
        for (id, version, is_again) in files {
            if !self.is_unwanted(id, version, self.files[&(id, version, is_again)].valid) {
                continue;
            }
            is_any = true;
            self.files.remove(&(id, version, is_again));
            if is_again && model.mutation != Some(Mutation::AgainIsProof) {
                continue;
            }
            if self.sent.contains(&(id, version)) {
                return Err(format!("(b) {id}.{version} was sent, and is taken back"));
            }
            self.back.insert((id, version));
            let changes = taken_back(&self.book, &model.rules, id, version, model.now);
            let changes = changes.map_err(|error| error.to_string())?;
            self.line(model, changes, model.now)?;
        }
        Ok(is_any)
    }

    pub(super) fn is_unwanted(&self, id: OrderId, version: u32, valid: Valid) -> bool {
        let order = self.book.orders.get(&id);
        let Some((order, venue)) = order.and_then(|it| Some((it, it.at_venue.as_ref()?))) else {
            return true;
        };
        let is_late = order.role == OrderRole::Entry && valid == Valid::Late;
        version < venue.version || venue.gone || is_late
    }

    fn context<'a>(&self, model: &'a Model) -> Context<'a> {
        Context {
            now: model.now,
            requested_at: model.now,
            source: &model.agent,
            order_id: OrderId::of_line(self.seq + 1),
            halted: None,
            unheard: None,
            messages: Messages::default(),
            clock_fault: None,
            rulebook_fault: None,
            closed_order: None,
            key_id: None,
            key_fault: None,
            paused: None,
            limit_factor: None,
        }
    }

    fn decided(&mut self, model: &Model, verdict: Verdict) -> Result<bool, String> {
        if !verdict.accepted || verdict.changes.is_empty() {
            return Ok(false);
        }
        self.seq += 1;
        self.line(model, verdict.changes, model.now)?;
        Ok(true)
    }

    fn submit(&mut self, model: &Model, order: &SubmitOrder) -> Result<bool, String> {
        let verdict = submit(&self.book, &model.rules, order, &self.context(model));
        self.decided(model, verdict)
    }

    /// An exit at the market from this signed size.
    pub(super) fn exit(&mut self, model: &Model, from: i64) -> Result<bool, String> {
        self.can_exit = false;
        let size = amount(from.abs()).to_string();
        let (side, stop) = if from > 0 {
            ("sell", "6900")
        } else {
            ("buy", "6700")
        };
        self.submit(
            model,
            &market_order("trend", "BTC-USD", side, &size, stop, 0),
        )
    }

    /// An exit that waits for its price.
    fn rest(&mut self, model: &Model, size: i64) -> Result<bool, String> {
        self.can_rest = false;
        let size = amount(size).to_string();
        let order = market_order("trend", "BTC-USD", "sell", &size, "6900", 0);
        self.submit(model, &limit(order, "6850"))
    }

    fn cancel(&mut self, model: &Model, order_id: OrderId) -> Result<bool, String> {
        let request = CancelOrder {
            order_id,
            reason: None,
        };
        let verdict = cancel(&self.book, &model.rules, &request, &self.context(model));
        self.decided(model, verdict)
    }

    fn tighten(&mut self, model: &Model) -> Result<bool, String> {
        let stops = self.book.orders.values();
        let Some(stop) = stops.clone().find(|it| it.role == OrderRole::Protective) else {
            return Ok(false);
        };
        let request = TightenStop {
            order_id: stop.order_id,
            new_stop: a("6750"),
        };
        let verdict = tighten(&self.book, &model.rules, &request, &self.context(model));
        self.decided(model, verdict)
    }

    /// The market reaches the price of an order that rests at the gate.
    fn release(&mut self, model: &Model, order_id: OrderId) -> Result<bool, String> {
        let Some(order) = self.book.orders.get(&order_id) else {
            return Ok(false);
        };
        let is_held = order.is_held() && order.leaves().is_positive() && order.ending().is_none();
        if !is_held {
            return Ok(false);
        }
        let mut book = self.book.clone();
        let last = book.markets.get_mut(&btc()).and_then(|it| it.last.as_mut());
        last.unwrap().price = a("6950");
        if !exits::is_reached(&book, &model.rules, order, model.now) {
            return Ok(false);
        }
        self.line(model, vec![Change::OrderReleased { order_id }], model.now)?;
        Ok(true)
    }

    /// Whether people are told once time has passed: that a stop is not confirmed, that a bridge does not
    /// answer about what reduces, or that a snapshot differs, which comes if no report is on its way.
    pub(super) fn is_told(&self, model: &Model) -> Result<bool, String> {
        let now = model.now.plus_ms(OLD_MS);
        let safety = &model.rules.safety;
        let held = self.book.positions.get(&(btc(), trend()));
        let is_bare =
            held.is_some_and(|held| risk::unconfirmed(&self.book, held, safety, now).is_some());
        let reducing = self.book.orders.values();
        let reducing = reducing.filter(|order| order.role != OrderRole::Entry);
        let mut venues = reducing.filter_map(|order| order.at_venue.as_ref());
        let is_unanswered = venues.any(|venue| venue.unanswered_since().is_some());
        let has_snapshot = self.mail.is_empty() && model.mutation != Some(Mutation::NoSnapshots);
        Ok(!self.book.doubted_symbols.is_empty()
            || is_bare
            || is_unanswered
            || has_snapshot && !self.compared(model, now).is_empty())
    }

    /// What a snapshot of the venue leads to.
    fn compared(&self, model: &Model, now: Time) -> Vec<Change> {
        let mut book = self.book.clone();
        let bridge = book.bridges.entry(model.bridge.clone()).or_default();
        bridge.run = "r".to_owned();
        let number = |amount: Option<Amount>| {
            amount.map_or("null".to_owned(), |amount| format!("\"{amount}\""))
        };
        let orders = self.orders.iter().filter(|(_, order)| order.is_open);
        let orders = orders.map(|(id, order)| {
            format!(
                r#"{{"order_id":"{id}","version":{},"cum_qty":"{}","size":"{}","price":{},"trigger":{}}}"#,
                order.told.version,
                amount(order.filled),
                amount(order.told.size),
                number(order.told.price),
                number(order.told.trigger),
            )
        });
        let orders: Vec<String> = orders.collect();
        let held = match self.position {
            0 => String::new(),
            size => format!(r#"{{"symbol":"BTC-USD","size":"{}"}}"#, amount(size)),
        };
        let snapshot: Snapshot = serde_json::from_str(&format!(
            r#"{{"run":"r","taken_at":"{now}","after_exec":null,"balances":[],"positions":[{held}],
                "orders":[{}],"foreign":[]}}"#,
            orders.join(",")
        ))
        .unwrap();
        let compared = snapshot::compare(&book, &model.rules, &snapshot, &model.bridge, now);
        let changes = compared.unwrap().changes.into_iter();
        let doubts = changes.filter(|it| matches!(it, Change::SymbolDoubted { .. }));
        doubts.collect()
    }

    /// A person has looked at the venue, and says of an order that it is gone.
    pub(super) fn assume_gone(&mut self, model: &Model, id: OrderId) -> Result<(), String> {
        let version = self.book.orders[&id].at_venue.as_ref().unwrap().version;
        let filled = lots(self.book.orders[&id].filled);
        let what = Said::Canceled(version);
        self.orders
            .entry(id)
            .and_modify(|order| order.is_open = false);
        if self.book_report(model, &Report { id, filled, what }, None)? {
            return Ok(());
        }
        Err(format!("a person cannot say that {id} is gone"))
    }
}

/// How the bridge carries an instruction out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carry {
    Plain,
    /// The venue refuses it.
    Refused,
    /// The clock of the bridge is ahead: it sends nothing.
    TooLate,
}
