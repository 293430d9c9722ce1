//! The gate's trading code and the oracle side by side through one random history.

use std::collections::{BTreeMap, BTreeSet};

use spoolgate_rules::Rulebook;
use spoolgate_rules::theses::Thesis;
use spoolgate_trading::market_row::Row;
use spoolgate_trading::order::OrderEnd;
use spoolgate_trading::requests::{ClosedOrder, Context, Messages, Verdict};
use spoolgate_trading::{self as trading, Book, Change, venue};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{OrderId, Principal, StrategyName, ThesisSlug};
use spoolgate_wire::orders::{CancelOrder, Side, SubmitOrder, TightenStop};
use spoolgate_wire::time::Time;

use crate::limits_model::draw;
use crate::limits_model::home::{Files, LISTED, Listed, STRATEGIES};
use crate::limits_model::memory::{Accepted, Memory};
use crate::limits_model::oracle::{self, Around, Class, Judge, Rows, owner_of, symbol, terms_of};
use crate::limits_model::paths;
use crate::limits_model::tally::Tally;
use crate::paper_model::model::{Id, ORDER, Print, Role, STOP, Working};
use crate::paper_model::rational::Rat;
use crate::paper_model::sides::{self, Random, a, lasts, order_id, print, r, spec, steps};

/// Rows of checks that the oracle does not know: `message_rate` and `dead_man` count requests and
/// heartbeats, which are not part of a book.
const LATER: [&str; 2] = ["message_rate", "dead_man"];

/// Checks whose outcome depends on the size, so that their unit is a lot.
const SIZED: [&str; 17] = [
    "size_lot",
    "min_notional",
    "max_order_value",
    "max_order_size",
    "stop_hostable",
    "max_single_trade_risk",
    "max_single_position",
    "max_total_exposure",
    "same_direction_exposure",
    "correlated_group",
    "strategy_allocation",
    "max_portfolio_risk",
    "loss_budget",
    "gap_budget",
    "buying_power",
    "liquidity_participation",
    "reduce_only",
];

/// The factor of risk mode `reduced`.
const REDUCED: &str = "0.5";

/// What is wrong, and what somebody has stopped.
#[derive(Clone, Debug, Default)]
pub(super) struct Faults {
    pub is_halted: bool,
    pub halted: BTreeSet<&'static str>,
    pub is_clock_wrong: bool,
    pub is_rulebook_wrong: bool,
    pub paused: BTreeSet<&'static str>,
    pub reduced: BTreeSet<&'static str>,
}

pub(super) struct World {
    pub seed: u64,
    pub turn: usize,
    pub random: Random,
    pub files: Files,
    theses: BTreeMap<ThesisSlug, Thesis>,
    pub rules: Rulebook,
    pub book: Book,
    pub memory: Memory,
    pub now: Time,
    pub seq: u64,
    pub faults: Faults,
    /// The owner of every order, open or ended.
    pub owners: BTreeMap<Id, String>,
    /// The middle price, in steps of each instrument.
    pub near: BTreeMap<&'static str, i64>,
    funded: BTreeSet<(&'static str, i64)>,
    pub tally: Tally,
}

fn source_of(strategy: &str) -> &'static str {
    STRATEGIES
        .iter()
        .find(|(name, _)| *name == strategy)
        .unwrap()
        .1
}

impl World {
    pub(super) fn new(seed: u64) -> World {
        let mut random = Random::of(seed);
        // The first numbers of neighbouring seeds are similar, so skip them.
        (0..20).for_each(|_| _ = random.one_in(2));
        let files = Files::draw(seed, &mut random);
        let begin = Time::parse("2018-04-06T20:30:00Z").unwrap();
        // Usually shortly before the restricted windows and midnight of one of four days.
        let hours = if random.one_in(4) {
            random.within(0, 72)
        } else {
            random.within(0, 3) * 24
        };
        let now = begin.plus_ms(hours * 3_600_000);
        let rules = files.compile(&now.plus_ms(1_200_000).to_string());
        let mut world = World {
            seed,
            turn: 0,
            random,
            files,
            theses: rules.theses.clone(),
            rules,
            book: Book::default(),
            memory: Memory::default(),
            now,
            seq: 0,
            faults: Faults::default(),
            owners: BTreeMap::new(),
            near: LISTED
                .iter()
                .map(|listed| (listed.symbol, listed.price))
                .collect(),
            funded: BTreeSet::new(),
            tally: Tally::default(),
        };
        world.reload();
        world.adjust("5000");
        for listed in &LISTED {
            world.rows(listed, false);
        }
        world
    }

    pub(super) fn context(&self) -> String {
        format!("seed {} turn {} at {}", self.seed, self.turn, self.now)
    }

    /// Brings the current rule files into force.
    pub(super) fn reload(&mut self) {
        self.rules = self.files.compile("");
        self.rules.theses = self.theses.clone();
        for listed in &LISTED {
            self.memory
                .paper
                .specs
                .insert(listed.symbol.to_owned(), spec(&self.rules, listed.symbol));
        }
    }

    pub(super) fn adjust(&mut self, amount: &str) {
        self.apply(&[Change::AccountAdjusted { amount: a(amount) }]);
        self.memory.adjust(&Rat::of(amount));
    }

    pub(super) fn apply(&mut self, changes: &[Change]) {
        changes
            .iter()
            .for_each(|change| self.book.apply(change).unwrap());
    }

    /// Returns the circumstances of a request of this strategy that its own agent signed just now.
    pub(super) fn around(&self, strategy: &str) -> Around {
        let source = source_of(strategy);
        let is_reduced = self.faults.reduced.contains(strategy);
        Around {
            now_ms: self.now.ms(),
            asked_ms: self.now.ms(),
            source: source.to_owned(),
            is_halted: self.faults.is_halted || self.faults.halted.contains(source),
            is_clock_wrong: self.faults.is_clock_wrong,
            is_rulebook_wrong: self.faults.is_rulebook_wrong,
            is_paused: self.faults.paused.contains(strategy),
            factor: Rat::of(if is_reduced { REDUCED } else { "1" }),
        }
    }

    fn with_context<T>(
        &self,
        around: &Around,
        closed: Option<&ClosedOrder>,
        run: impl FnOnce(&Context) -> T,
    ) -> T {
        let source = Principal::parse(&around.source).unwrap();
        let is_whole = around.factor == Rat::one();
        let ctx = Context {
            now: Time::from_ms(around.now_ms).unwrap(),
            requested_at: Time::from_ms(around.asked_ms).unwrap(),
            source: &source,
            order_id: OrderId::of_line(self.seq),
            halted: around.is_halted.then_some("halted"),
            unheard: None,
            messages: Messages::default(),
            clock_fault: around.is_clock_wrong.then_some("clock"),
            rulebook_fault: around.is_rulebook_wrong.then_some("rules"),
            closed_order: closed,
            key_id: None,
            key_fault: None,
            paused: around.is_paused.then_some("paused"),
            limit_factor: (!is_whole).then(|| a(REDUCED)),
        };
        run(&ctx)
    }

    pub(super) fn ask(&self, order: &SubmitOrder, around: &Around) -> Verdict {
        self.with_context(around, None, |ctx| {
            trading::submit(&self.book, &self.rules, order, ctx)
        })
    }

    pub(super) fn ask_cancel(&self, id: Id, around: &Around) -> Verdict {
        let request = CancelOrder {
            reason: None,
            order_id: order_id(id),
        };
        let closed = self
            .owners
            .get(&id)
            .filter(|_| self.memory.paper.find(id).is_none());
        let closed = closed.map(|strategy| ClosedOrder {
            order_id: order_id(id),
            strategy: StrategyName::parse(strategy).unwrap(),
            end: OrderEnd::Filled,
            why: None,
        });
        self.with_context(around, closed.as_ref(), |ctx| {
            trading::cancel(&self.book, &self.rules, &request, ctx)
        })
    }

    pub(super) fn ask_tighten(&self, id: Id, new_stop: Amount, around: &Around) -> Verdict {
        let request = TightenStop {
            order_id: order_id(id),
            new_stop,
        };
        self.with_context(around, None, |ctx| {
            trading::tighten(&self.book, &self.rules, &request, ctx)
        })
    }

    /// Whether the rows of the gate match those of the oracle in name, order and outcome.
    fn agree(&mut self, rows: &Rows, verdict: &Verdict, is_exact: bool, what: &str) {
        let context = self.context();
        let seen = verdict
            .checks
            .iter()
            .filter(|row| !LATER.contains(&&*row.name));
        let seen: Vec<(&str, bool, bool)> = seen
            .map(|row| {
                let is_told = row
                    .reason
                    .as_ref()
                    .is_some_and(|reason| reason.starts_with("exempt: "));
                (&*row.name, row.passed, is_told)
            })
            .collect();
        let expected: Vec<(&str, bool, bool)> = rows
            .iter()
            .map(|(name, said)| (*name, said.passed, said.is_told))
            .collect();
        if seen != expected && is_exact {
            let differ: Vec<_> = verdict
                .checks
                .iter()
                .filter(|row| {
                    !expected.iter().any(|(name, passed, is_told)| {
                        let shown = row
                            .reason
                            .as_ref()
                            .is_some_and(|reason| reason.starts_with("exempt: "));
                        *name == row.name && *passed == row.passed && *is_told == shown
                    })
                })
                .collect();
            let names = |rows: &[(&str, bool, bool)]| {
                rows.iter().map(|row| row.0.to_owned()).collect::<Vec<_>>()
            };
            let missing: Vec<_> = expected
                .iter()
                .filter(|row| !seen.iter().any(|it| it.0 == row.0))
                .collect();
            assert!(
                names(&seen) == names(&expected) || !missing.is_empty() || !differ.is_empty(),
                "{context}: order of rows"
            );
            panic!(
                "{context}: the gate says otherwise\n{what}\ngate: {differ:#?}\nmissing: \
                    {missing:?}"
            );
        }
        if !is_exact {
            // What exceeds exact arithmetic must be refused; the oracle does not say by which
            // checks.
            let lax = seen
                .iter()
                .filter(|row| row.1)
                .filter(|row| expected.iter().any(|other| other.0 == row.0 && !other.1));
            assert_eq!(
                lax.collect::<Vec<_>>(),
                Vec::<&(&str, bool, bool)>::new(),
                "{context}: {what}"
            );
        }
        let refused = rows.iter().find(|(_, said)| !said.passed);
        let agrees = verdict.accepted == refused.is_none() || (!is_exact && !verdict.accepted);
        assert!(agrees, "{context}: {what}");
        for (name, said) in rows {
            let count = self.tally.check(name);
            if said.passed {
                count.passed += 1
            } else {
                count.failed += 1
            }
            count.near += u64::from(said.is_near);
        }
        if let Some((name, _)) = refused {
            self.tally.check(name).decided += 1;
        }
    }

    /// Submits an order to both. The oracle says what the outcome must be.
    pub(super) fn submit(&mut self, order: &SubmitOrder, around: &Around) {
        self.seq += 1;
        let context = self.context();
        let verdict = self.ask(order, around);
        let judge = Judge::of(&self.memory, &self.rules, around, order);
        let (rows, class) = (judge.rows(), judge.class());
        let (crossed, is_exact, floor) = (judge.crossed(), judge.is_short(), judge.floor());
        let is_sampled = self.seq.is_multiple_of(2);
        let mut nearer = Vec::new();
        if class == Class::Entry && is_sampled {
            nearer = self.near_by_size(order, &rows, around);
        }
        let figures = (class == Class::Entry && is_exact).then(|| judge.figures());
        for (name, value, limit) in figures.into_iter().flatten() {
            let row = verdict.checks.iter().find(|row| row.name == name).unwrap();
            if let (Some(value), Some(limit)) = (value, limit) {
                assert_eq!(
                    row.value.map(r),
                    Some(value),
                    "{context}: {name} of {order:?}"
                );
                assert_eq!(
                    row.limit.map(r),
                    Some(limit),
                    "{context}: limit of {name} of {order:?}"
                );
            }
        }
        self.tally.count(format!("{class:?}"));
        self.agree(&rows, &verdict, is_exact, &format!("{order:?} {around:?}"));
        for name in nearer {
            self.tally.check(name).near += 1;
        }
        if !verdict.accepted {
            if class == Class::Entry && self.seq.is_multiple_of(3) {
                self.headroom_is_true(order, &verdict, around);
            }
            return;
        }
        let is_entry = class == Class::Entry;
        let before =
            is_entry.then(|| paths::worst(&self.memory, &self.rules, around.now_ms, &floor));
        self.apply(&verdict.changes);
        self.tally.count(format!("accepted {class:?}"));
        let id = (self.seq, ORDER);
        self.memory.sent.insert(
            self.seq,
            (around.source.clone(), order.thesis_slug.to_string()),
        );
        let (terms, owner) = (terms_of(order), owner_of(order));
        for own in crossed.iter().filter(|own| own.role == Role::Entry) {
            assert!(!is_entry, "{context}: an entry crosses its own");
            self.memory.paper.cancel(own.id);
            self.tally.count("crossed by an exit");
        }
        if is_entry {
            self.memory.accepted.push(Accepted {
                at_ms: around.now_ms,
                source: around.source.clone(),
                owner: owner.clone(),
                buys: terms.buys,
                kind: terms.kind,
                size: r(order.size),
                own: terms.own.clone(),
            });
        }
        let working = Working {
            id,
            owner,
            buys: terms.buys,
            role: if is_entry { Role::Entry } else { Role::Exit },
            kind: terms.kind,
            size: r(order.size),
            filled: Rat::zero(),
            price: order.price.map(r),
            trigger: terms
                .own
                .filter(|_| terms.kind == crate::paper_model::model::Kind::Stop),
            hit: false,
            at_ms: around.now_ms,
            lasts: lasts(order.time_in_force),
        };
        let target = order.target_price.filter(|_| is_entry).map(r);
        self.memory
            .paper
            .place(working, is_entry.then(|| r(order.planned_stop)), target);
        self.compare();
        if let Some(before) = before {
            let judge = Judge::of(&self.memory, &self.rules, around, order);
            paths::hold(&judge, &before, &context);
        }
    }

    /// Returns the checks that pass and would not pass with one lot more or less.
    fn near_by_size(&self, order: &SubmitOrder, rows: &Rows, around: &Around) -> Vec<&'static str> {
        let judge = Judge::of(&self.memory, &self.rules, around, order);
        let lot = self.lot(order.symbol.as_str());
        let beside =
            [judge.size.plus(&lot), judge.size.minus(&lot)].map(|size| judge.sized(size).rows());
        let fails = |name: &str| {
            beside
                .iter()
                .flatten()
                .any(|(other, said)| *other == name && !said.passed)
        };
        let passed = rows
            .iter()
            .filter(|(name, said)| said.passed && SIZED.contains(name));
        passed
            .filter(|(name, _)| fails(name))
            .map(|(name, _)| *name)
            .collect()
    }

    pub(super) fn lot(&self, name: &str) -> Rat {
        match self.rules.instruments.get(&symbol(name)) {
            Some(rule) if !rule.lot.is_zero() => r(*rule.lot),
            _ => Rat::of("0.00000001"),
        }
    }

    /// The largest size that a refusal names passes; one lot more fails the check that it names, or
    /// is a duplicate of an entry and the size above it fails that check.
    fn headroom_is_true(&mut self, order: &SubmitOrder, verdict: &Verdict, around: &Around) {
        let context = format!("{}: {order:?} {:?}", self.context(), verdict.headroom);
        let headroom = verdict.headroom.as_ref().unwrap();
        let judge = Judge::of(&self.memory, &self.rules, around, order);
        let failed = |size: &Rat| -> Vec<&str> {
            let rows = judge.sized(size.clone()).rows();
            rows.iter()
                .filter(|(_, said)| !said.passed)
                .map(|(name, _)| *name)
                .collect()
        };
        let lot = self.lot(order.symbol.as_str());
        let max = r(headroom.max_size);
        let binding = headroom.binding_check.as_str();
        if max.is_zero() {
            // Either something else refuses every size, or even the smallest size fails.
            let least = self
                .rules
                .instruments
                .get(&order.symbol)
                .map_or(lot.clone(), |rule| r(*rule.min_size));
            let least = least.ceil_to(&lot);
            // Another size would not be a duplicate, but it is not offered as a way round the
            // check.
            let is_kept_back =
                binding == "duplicate_order" && failed(&judge.size).contains(&binding);
            assert!(
                is_kept_back || !failed(&least).is_empty(),
                "{context}: {least:?} passes"
            );
            self.tally.count("headroom of nothing");
            return;
        }
        assert_eq!(failed(&max), Vec::<&str>::new(), "{context}");
        // A size can be a duplicate of an entry although both its neighbours are not.
        let mut beyond = max.plus(&lot);
        let mut more = failed(&beyond);
        while more == ["duplicate_order"] && binding != "duplicate_order" {
            beyond = beyond.plus(&lot);
            more = failed(&beyond);
        }
        assert!(
            more.contains(&binding),
            "{context}: one lot more fails {more:?}"
        );
        self.tally.count("headroom");
    }

    pub(super) fn cancel(&mut self, id: Id, around: &Around) {
        self.seq += 1;
        let verdict = self.ask_cancel(id, around);
        let rows = oracle::cancel_rows(&self.memory, &self.rules, around, id, &self.owners);
        self.agree(&rows, &verdict, true, &format!("cancel {id:?} {around:?}"));
        self.apply(&verdict.changes);
        if verdict.accepted {
            self.memory.paper.cancel(id);
            self.tally.count("cancel");
        }
        self.compare();
    }

    pub(super) fn tighten(&mut self, id: Id, new: Amount, around: &Around) {
        self.seq += 1;
        let verdict = self.ask_tighten(id, new, around);
        let rows = oracle::tighten_rows(&self.memory, &self.rules, around, id, &r(new));
        self.agree(
            &rows,
            &verdict,
            true,
            &format!("tighten {id:?} to {new} {around:?}"),
        );
        self.apply(&verdict.changes);
        if verdict.accepted {
            let stop = if id.1 == ORDER { (id.0, STOP) } else { id };
            self.memory.paper.tighten(stop, r(new));
            self.tally.count("tighten");
        }
        self.compare();
    }

    /// The books must be equal after every step.
    pub(super) fn compare(&mut self) {
        let context = self.context();
        for order in &self.memory.paper.orders {
            self.owners.insert(order.id, order.owner.1.clone());
        }
        sides::compare(&self.book, &self.memory.paper, &self.rules, &context);
        let account = &self.book.account;
        assert_eq!(
            account.peak_equity.map(r),
            self.memory.peak,
            "{context}: peak"
        );
        assert_eq!(
            account.drawdown_since.is_some(),
            self.memory.is_drawn_down,
            "{context}: drawdown"
        );
    }

    /// Applies a row of a symbol to both.
    pub(super) fn row(&mut self, listed: &Listed, row: &Row) {
        let name = symbol(listed.symbol);
        let done = venue::on_rows(
            &self.book,
            &self.rules,
            &name,
            std::slice::from_ref(row),
            None,
            self.now,
            0,
        )
        .unwrap();
        for step in &done {
            self.apply(&step.changes);
        }
        let used = self.memory.paper.believed(listed.symbol, &print(row));
        if used.is_empty() {
            self.tally.count("held row");
        }
        for print in &used {
            let (low, high, known_ms) = match print {
                Print::Bar {
                    low,
                    high,
                    open_ms,
                    length_ms,
                    ..
                } => (low, high, open_ms + length_ms),
                Print::Quote { bid, ask, ms, .. } => (bid, ask, *ms),
            };
            for thesis in self
                .rules
                .theses
                .values()
                .filter(|thesis| thesis.symbol == name)
            {
                let is_reached = thesis.invalid_below.is_some_and(|level| *low <= r(*level))
                    || thesis.invalid_above.is_some_and(|level| *high >= r(*level));
                if is_reached && known_ms < thesis.expires.ms() {
                    self.memory.refuted.insert(thesis.slug.to_string());
                }
            }
        }
        let refuted: BTreeSet<String> = self.book.refuted.keys().map(ToString::to_string).collect();
        assert_eq!(
            refuted,
            self.memory.refuted,
            "{}: refuted theses",
            self.context()
        );
        self.memory.begin_periods(self.now.ms());
        let safety = &self.rules.safety;
        let executions = (
            *safety.max_executions,
            i64::from(*safety.executions_window_s),
        );
        let drawdown = r(*safety.max_drawdown);
        for print in used {
            let now_ms = self.now.ms();
            let fills = self
                .memory
                .row(listed.symbol, &print, now_ms, executions, &drawdown);
            for _ in 0..fills {
                self.tally.count("fill");
            }
        }
        self.compare();
    }

    /// Moves the market of an instrument by a minute.
    pub(super) fn rows(&mut self, listed: &Listed, is_wild: bool) {
        for row in draw::rows(self, listed, is_wild) {
            self.now = self.now.max(Time::from_ms(row.known_ms()).unwrap());
            self.row(listed, &row);
        }
    }

    pub(super) fn begin_batch(&mut self) {
        let changes = venue::end_day(&self.book, self.now);
        self.apply(&changes);
        let changes = venue::open_periods(&self.book, &self.rules, self.now);
        self.apply(&changes);
        self.memory.begin(self.now.ms());
        self.compare();
    }

    pub(super) fn fund(&mut self) {
        let listed = self.random.pick(&LISTED);
        let time = Time::from_ms(self.now.ms().div_euclid(28_800_000) * 28_800_000).unwrap();
        let rate = steps(self.random.within(-75, 75), "0.0000137");
        if !self.funded.insert((listed.symbol, time.ms())) {
            return;
        }
        let changes = venue::on_funding(
            &self.book,
            &self.rules,
            &symbol(listed.symbol),
            rate,
            time,
            self.now,
        );
        self.apply(&changes.unwrap());
        self.memory
            .fund(listed.symbol, &r(rate), &r(*self.rules.safety.max_drawdown));
        self.tally.count("funding");
        self.compare();
    }

    /// Returns the capacity in the gate's own view, for drawing sizes.
    pub(super) fn capacity(
        &self,
        strategy: &str,
        listed: &Listed,
        side: Side,
        order_type: spoolgate_wire::orders::OrderType,
    ) -> Amount {
        let name = StrategyName::parse(strategy).unwrap();
        trading::class::capacity(&self.book, &name, &symbol(listed.symbol), side, order_type)
            .unwrap_or(Amount::ZERO)
    }
}
