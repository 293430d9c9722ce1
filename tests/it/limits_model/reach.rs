//! The worst cases of random books, found by trying every future, against the formulas of the gate.
//!
//! A leg may leave at any moment, and each of its entries may fill once or not at all, in any
//! order: every state that a leg can so come to is visited, and the legs of a symbol are combined
//! in all ways. What is left of equity is the least over every choice of entries that fill at their
//! worst price and then leave at their stops, and of legs that leave at their stops. All of it is
//! arithmetic of whole numbers and exact rationals.

use std::collections::{BTreeMap, BTreeSet};

use spoolgate_rules::Rulebook;
use spoolgate_trading::Book;
use spoolgate_trading::book::{Last, Market, Quote};
use spoolgate_trading::order::{AtVenue, Order, OrderEnd, OrderRole, Position, Stated};
use spoolgate_trading::sums::Sums as Gate;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{OrderId, Principal, StrategyName, Symbol};
use spoolgate_wire::orders::{OrderType, Side, TimeInForce};
use spoolgate_wire::time::Time;

use crate::kit::{campaign, setting};
use crate::limits_model::home::{Files, LISTED, Listed, STRATEGIES};
use crate::limits_model::oracle::symbol;
use crate::limits_model::sums::{Seen, Terms, larger, smaller, worse};
use crate::paper_model::model::Kind;
use crate::paper_model::rational::Rat;
use crate::paper_model::sides::{Random, a, r, steps};

/// Legs of a book, and entries over all of them.
const LEGS: usize = 6;
const ENTRIES: i64 = 10;

/// Entries of one leg, so that all their orders can be tried.
const ENTRIES_OF_LEG: usize = 5;

/// Whole numbers are in units of this many decimals.
const PLACES: u32 = 18;

const NOW_MS: i64 = 1_772_000_000_000;

/// How much was tried.
#[derive(Debug, Default)]
struct Tried {
    books: u64,
    positions: u64,
    entries: u64,
    /// Entries that a venue may fill although they are ending, or were larger before.
    beyond: u64,
    /// Positions and entries without a stop that counts.
    naked: u64,
    /// States of legs, combinations of the legs of a symbol, and futures of equity.
    states: u64,
    combinations: u64,
    futures: u64,
    /// Symbols that may come to be held long and that may come to be held short.
    two_sided: u64,
}

struct Drawn<'a> {
    random: Random,
    rules: &'a Rulebook,
    book: Book,
    seq: u64,
    /// The legs, and the entries of each.
    legs: Vec<(&'static Listed, &'static str, Vec<OrderId>)>,
}

fn whole(value: &Rat) -> i128 {
    let text = value.text(PLACES);
    assert!(*value == Rat::of(&text), "{text} is not all of it");
    let (before, after) = text.split_once('.').unwrap_or((&text, ""));
    let digits = format!("{before}{after:0<18}");
    digits.parse().unwrap()
}

fn amount(value: Amount) -> i128 {
    let decimal = value.decimal();
    decimal.mantissa() * 10_i128.pow(PLACES - decimal.scale())
}

impl<'a> Drawn<'a> {
    fn new(seed: u64, rules: &'a Rulebook) -> Drawn<'a> {
        let mut drawn = Drawn {
            random: Random::of(seed),
            rules,
            book: Book::default(),
            seq: 0,
            legs: Vec::new(),
        };
        // Three symbols of two strategies, or two symbols of three.
        let (symbols, strategies) = *drawn.random.pick(&[(3, 2), (2, 3)]);
        for listed in &LISTED[..symbols] {
            drawn.market(listed);
            for (strategy, _) in &STRATEGIES[..strategies] {
                drawn.legs.push((listed, strategy, Vec::new()));
            }
        }
        assert_eq!(drawn.legs.len(), LEGS);
        drawn.book.account.cash = steps(drawn.random.within(-1000, 100_000), "0.01");
        for nth in 0..LEGS {
            if !drawn.random.one_in(4) {
                drawn.position(nth);
            }
        }
        for _ in 0..drawn.random.within(0, ENTRIES) {
            let nth = usize::try_from(drawn.random.within(0, 5)).unwrap();
            if drawn.legs[nth].2.len() < ENTRIES_OF_LEG {
                drawn.entry(nth);
            }
        }
        drawn
    }

    fn market(&mut self, listed: &Listed) {
        let time = Time::from_ms(NOW_MS).unwrap();
        let near = listed.price + self.random.within(-2000, 2000);
        let (price, volume) = (steps(near, listed.price_step), None);
        let bid = steps(near - self.random.within(0, 30), listed.price_step);
        let market = Market {
            last: Some(Last {
                price,
                volume,
                time,
            }),
            quote: Some(Quote {
                bid,
                ask: price,
                time,
            }),
            ..Market::default()
        };
        self.book.markets.insert(symbol(listed.symbol), market);
    }

    /// A price near the market of this symbol, or far from it.
    fn price(&mut self, listed: &Listed) -> Amount {
        let reach = *self.random.pick(&[listed.price / 100, listed.price / 4]);
        let away = self.random.within(-reach, reach);
        steps(listed.price + away, listed.price_step)
    }

    fn next(&mut self) -> OrderId {
        self.seq += 1;
        OrderId::of_line(self.seq)
    }

    fn position(&mut self, nth: usize) {
        let (listed, strategy, _) = &self.legs[nth];
        let (listed, strategy) = (*listed, *strategy);
        let size = steps(self.random.within(1, 90), listed.size_step);
        let is_long = self.random.one_in(2);
        let position = Position {
            strategy: StrategyName::parse(strategy).unwrap(),
            symbol: symbol(listed.symbol),
            size: if is_long { size } else { -size },
            cost: Amount::ZERO,
            result: Amount::ZERO,
            increased_at: Time::from_ms(NOW_MS).unwrap(),
            theses: BTreeSet::new(),
            held_at: None,
            dropped: None,
            unfilled_at: None,
        };
        let key = (position.symbol.clone(), position.strategy.clone());
        self.book.positions.insert(key, position);
        // Of entries that are done. Some cover more than is held, some have been passed.
        for _ in 0..self.random.within(0, 3) {
            let id = self.next().stop();
            let side = if is_long { Side::Sell } else { Side::Buy };
            let size = steps(self.random.within(1, 60), listed.size_step);
            let trigger = self.price(listed);
            let mut stop = self.order(nth, id, side, OrderRole::Protective, size);
            (stop.order_type, stop.trigger) = (OrderType::Stop, Some(trigger));
            self.some_at_venue(&mut stop);
            self.book.orders.insert(id, stop);
        }
    }

    fn entry(&mut self, nth: usize) {
        let listed = self.legs[nth].0;
        let id = self.next();
        let side = *self.random.pick(&[Side::Buy, Side::Sell]);
        let size = steps(self.random.within(2, 60), listed.size_step);
        let mut entry = self.order(nth, id, side, OrderRole::Entry, size);
        let own = self.price(listed);
        match self.random.within(0, 2) {
            0 => (entry.order_type, entry.price) = (OrderType::Limit, Some(own)),
            1 => {
                (entry.order_type, entry.trigger) = (OrderType::Stop, Some(own));
                entry.triggered = self.random.one_in(4);
            }
            _ => {}
        }
        if self.random.one_in(4) {
            entry.filled = steps(1, listed.size_step);
        }
        self.some_at_venue(&mut entry);
        let seen = self.seen(listed);
        let slip = r(*self.rules.safety.entry_slippage);
        let worst = terms_of(&entry).worst_entry(&seen, &slip);
        // The stop is on the losing side of the worst entry.
        let away = r(steps(self.random.within(1, 900), listed.price_step));
        let step = r(a(listed.price_step));
        let trigger = if side == Side::Buy {
            worst.minus(&away).floor_to(&step)
        } else {
            worst.plus(&away).ceil_to(&step)
        };
        let covers = entry.filled;
        let mut stop = self.order(
            nth,
            id.stop(),
            side.opposite(),
            OrderRole::Protective,
            covers,
        );
        stop.order_type = OrderType::Stop;
        stop.trigger = Some(a(&trigger.text(6)));
        if self.random.one_in(8) {
            self.some_at_venue(&mut stop);
        }
        if !self.random.one_in(10) {
            self.book.orders.insert(stop.order_id, stop);
        }
        self.book.orders.insert(id, entry);
        self.legs[nth].2.push(id);
    }

    fn order(&self, nth: usize, id: OrderId, side: Side, role: OrderRole, size: Amount) -> Order {
        let (listed, strategy, _) = &self.legs[nth];
        Order {
            order_id: id,
            source: Principal::parse("alice").unwrap(),
            strategy: StrategyName::parse(strategy).unwrap(),
            symbol: symbol(listed.symbol),
            side,
            role,
            order_type: OrderType::Market,
            size,
            filled: Amount::ZERO,
            price: None,
            trigger: None,
            triggered: false,
            thesis_slug: None,
            accepted_at: Time::from_ms(NOW_MS).unwrap(),
            time_in_force: TimeInForce::Gtc,
            at_venue: None,
            key_id: None,
        }
    }

    /// A venue may work an order at an earlier size, and an order that is ending.
    fn some_at_venue(&mut self, order: &mut Order) {
        if !self.random.one_in(3) {
            return;
        }
        let mut venue = AtVenue::new(Principal::parse("exchange").unwrap(), Amount::ONE, true);
        let more = steps(self.random.within(0, 20), "0.01");
        venue.version = 2;
        venue.sizes = vec![
            Stated(1, order.size.checked_add(more).unwrap(), None),
            Stated(2, order.size, None),
        ];
        venue.ending = Some(OrderEnd::Cancelled).filter(|_| self.random.one_in(3));
        order.at_venue = Some(venue);
    }

    fn rule(&self, listed: &Listed) -> &'a spoolgate_rules::instruments::Instrument {
        &self.rules.instruments[&symbol(listed.symbol)]
    }

    /// Bid and ask.
    fn seen(&self, listed: &Listed) -> Seen {
        let market = &self.book.markets[&symbol(listed.symbol)];
        let (last, quote) = (
            market.last.as_ref().unwrap(),
            market.quote.as_ref().unwrap(),
        );
        if listed.symbol != "ALPHA" {
            let (bid, ask) = (r(quote.bid), r(quote.ask));
            return Seen {
                bid,
                ask,
                ms: NOW_MS,
            };
        }
        let (price, half) = (r(last.price), r(*self.rule(listed).half_spread));
        Seen {
            bid: price.times(&Rat::one().minus(&half)),
            ask: price.times(&Rat::one().plus(&half)),
            ms: NOW_MS,
        }
    }

    fn mark(&self, listed: &Listed, is_long: bool) -> Rat {
        let seen = self.seen(listed);
        let market = &self.book.markets[&symbol(listed.symbol)];
        match (listed.symbol, is_long) {
            ("ALPHA", _) => r(market.last.as_ref().unwrap().price),
            (_, true) => seen.bid,
            (_, false) => seen.ask,
        }
    }

    fn held(&self, nth: usize) -> Rat {
        let (listed, strategy, _) = &self.legs[nth];
        let key = (
            symbol(listed.symbol),
            StrategyName::parse(strategy).unwrap(),
        );
        let held = self.book.positions.get(&key);
        held.map_or_else(Rat::zero, |held| r(held.size))
    }
}

fn terms_of(order: &Order) -> Terms {
    Terms {
        buys: order.side == Side::Buy,
        kind: match order.order_type {
            OrderType::Stop if order.triggered => Kind::Market,
            OrderType::Stop => Kind::Stop,
            OrderType::Limit => Kind::Limit,
            OrderType::Market => Kind::Market,
        },
        own: order.price.or(order.trigger).map(r),
    }
}

/// What an order may still fill: of the largest size that anybody was told, also while it is
/// ending.
fn open(order: &Order) -> Rat {
    let told = order.at_venue.iter().flat_map(|venue| &venue.sizes);
    let sizes = told.map(|Stated(_, size, _)| r(*size));
    let most = sizes.fold(r(order.size), |most, size| larger(&most, &size));
    larger(&most.minus(&r(order.filled)), &Rat::zero())
}

/// Returns every size that a leg can come to hold: its entries fill in any order, and it leaves
/// whenever it likes.
fn states(held: i128, entries: &[i128], tried: &mut Tried) -> BTreeSet<i128> {
    let mut seen = BTreeSet::from([(0_usize, held)]);
    let mut next = vec![(0_usize, held)];
    while let Some((filled, size)) = next.pop() {
        let left = std::iter::once((filled, 0));
        let fills = entries.iter().enumerate();
        let fills = fills.filter(|(nth, _)| filled & (1 << nth) == 0);
        let fills = fills.map(|(nth, by)| (filled | (1 << nth), size + by));
        for state in left.chain(fills) {
            if seen.insert(state) {
                next.push(state);
            }
        }
    }
    tried.states += seen.len() as u64;
    seen.into_iter().map(|(_, size)| size).collect()
}

/// Returns the most that legs can hold together, long and short, over all combinations of states.
fn most(legs: &[BTreeSet<i128>], tried: &mut Tried) -> [i128; 2] {
    fn go(legs: &[BTreeSet<i128>], sum: i128, most: &mut [i128; 2], tried: &mut Tried) {
        let Some((first, rest)) = legs.split_first() else {
            tried.combinations += 1;
            *most = [most[0].max(sum), most[1].max(-sum)];
            return;
        };
        for size in first {
            go(rest, sum + size, most, tried);
        }
    }
    let mut most = [0, 0];
    go(legs, 0, &mut most, tried);
    most
}

/// Returns the least sum over every choice of these steps from `start`, by changing one step at a
/// time.
fn least(start: i128, steps: &[i128], tried: &mut Tried) -> i128 {
    let (mut now, mut least) = (start, start);
    let mut taken = vec![false; steps.len()];
    for count in 1..1_u32 << steps.len() {
        let nth = usize::try_from(count.trailing_zeros()).unwrap();
        now += if taken[nth] { -steps[nth] } else { steps[nth] };
        taken[nth] = !taken[nth];
        least = least.min(now);
    }
    tried.futures += 1 << steps.len();
    least
}

impl Drawn<'_> {
    /// What a leg loses from its mark if it leaves at its stops.
    fn leaves(&self, nth: usize, tried: &mut Tried) -> Rat {
        let (listed, strategy, _) = &self.legs[nth];
        let (held, rule) = (self.held(nth), self.rule(listed));
        let is_long = held.is_positive();
        let (mark, slip) = (
            self.mark(listed, is_long),
            r(*self.rules.safety.stop_slippage),
        );
        let of_leg = |order: &&Order| {
            order.role == OrderRole::Protective
                && order.symbol == symbol(listed.symbol)
                && order.strategy.as_str() == *strategy
                && (order.side == Side::Sell) == is_long
                && order.ending().is_none()
        };
        let (mut bare, mut cash) = (held.abs(), Rat::zero());
        for stop in self.book.orders.values().filter(of_leg) {
            let leaves = larger(&r(stop.size).minus(&r(stop.filled)), &Rat::zero());
            let units = smaller(&leaves, &bare);
            bare = bare.minus(&units);
            let trigger = r(stop.trigger.unwrap());
            let at = if is_long {
                smaller(&trigger, &mark)
            } else {
                larger(&trigger, &mark)
            };
            let fee = at.times(&r(*rule.taker_fee)).times(&units);
            let traded = worse(&at, !is_long, &slip).times(&units);
            cash = if is_long {
                cash.plus(&traded)
            } else {
                cash.minus(&traded)
            }
            .minus(&fee);
        }
        if bare.is_positive() {
            tried.naked += 1;
        }
        // What no stop covers: a long becomes worthless, a short costs twice the mark.
        let rest = if is_long {
            Rat::zero()
        } else {
            bare.times(&mark).times(&Rat::of("-2"))
        };
        let worth = held.times(&mark);
        cash.plus(&rest).minus(&worth).times(&r(*rule.multiplier))
    }

    /// What an entry costs that fills at its worst price and leaves at its stop.
    fn fills(&self, listed: &Listed, id: OrderId, tried: &mut Tried) -> Rat {
        let (entry, rule) = (&self.book.orders[&id], self.rule(listed));
        let safety = &self.rules.safety;
        let (buys, units) = (entry.side == Side::Buy, open(entry));
        let worst = terms_of(entry).worst_entry(&self.seen(listed), &r(*safety.entry_slippage));
        let stop = self.book.orders.get(&id.stop());
        let stop = stop.filter(|stop| stop.ending().is_none());
        let each = match stop.and_then(|stop| stop.trigger).map(r) {
            // Nothing is left of what it was bought for; a short is bought back at twice that.
            None => {
                tried.naked += 1;
                worst.negated()
            }
            Some(trigger) => {
                let out = worse(&trigger, !buys, &r(*safety.stop_slippage));
                let gained = if buys {
                    out.minus(&worst)
                } else {
                    worst.minus(&out)
                };
                gained.minus(&worst.plus(&trigger).times(&r(*rule.taker_fee)))
            }
        };
        each.times(&units).times(&r(*rule.multiplier))
    }

    /// Compares what futures bring with what the gate computes.
    fn judge(&self, tried: &mut Tried, context: &str) {
        let now = Time::from_ms(NOW_MS).unwrap();
        let gate = Gate::new(&self.book, self.rules, now);
        let mut legs: BTreeMap<&str, Vec<(BTreeSet<i128>, &str)>> = BTreeMap::new();
        let (mut equity, mut steps) = (r(self.book.account.cash), Vec::new());
        for (nth, (listed, strategy, entries)) in self.legs.iter().enumerate() {
            let held = self.held(nth);
            if !held.is_zero() {
                tried.positions += 1;
                let mark = self.mark(listed, held.is_positive());
                let value = held.times(&mark).times(&r(*self.rule(listed).multiplier));
                equity = equity.plus(&value);
                steps.push(whole(&self.leaves(nth, tried)));
            }
            let mut signed = Vec::new();
            for id in entries {
                let order = &self.book.orders[id];
                let size = whole(&open(order));
                tried.beyond +=
                    u64::from(size > amount(order.leaves()) || order.ending().is_some());
                signed.push(if order.side == Side::Buy { size } else { -size });
                steps.push(whole(&self.fills(listed, *id, tried)));
            }
            tried.entries += entries.len() as u64;
            let states = states(whole(&held), &signed, tried);
            let leg = StrategyName::parse(strategy).unwrap();
            let leg = gate.leg(&symbol(listed.symbol), &leg).unwrap();
            let [long, short] = most(std::slice::from_ref(&states), &mut Tried::default());
            assert_eq!(
                (amount(leg.long), amount(leg.short)),
                (long, short),
                "{context}: L and H"
            );
            legs.entry(listed.symbol)
                .or_default()
                .push((states, strategy));
        }
        let equity = whole(&equity);
        assert_eq!(amount(gate.equity().unwrap()), equity, "{context}: equity");
        let floor = equity - amount(gate.open_risk().unwrap());
        assert_eq!(floor, least(equity, &steps, tried), "{context}: F");
        self.judge_symbols(&gate, &legs, tried, context);
    }

    fn judge_symbols(
        &self,
        gate: &Gate<'_>,
        legs: &BTreeMap<&str, Vec<(BTreeSet<i128>, &str)>>,
        tried: &mut Tried,
        context: &str,
    ) {
        let mut of_strategy: BTreeMap<&str, Rat> = BTreeMap::new();
        for listed in LISTED
            .iter()
            .filter(|listed| legs.contains_key(listed.symbol))
        {
            let rule = self.rule(listed);
            let orders = self.book.orders.values();
            let entries = orders.filter(|order| {
                order.role == OrderRole::Entry && order.symbol == symbol(listed.symbol)
            });
            let own = entries.filter_map(|order| terms_of(order).own);
            let price = own.fold(self.seen(listed).ask, |most, own| larger(&most, &own));
            let each = price.times(&r(*rule.multiplier));
            let money = |units: i128| Rat::of(&units.to_string()).times(&each);
            // Units are whole numbers of 18 decimals.
            let is_of = |value: Amount, units: i128| {
                let scale = Rat::of(&10_i128.pow(PLACES).to_string());
                r(value).times(&scale) == money(units)
            };
            let states: Vec<BTreeSet<i128>> = legs[listed.symbol]
                .iter()
                .map(|(states, _)| states.clone())
                .collect();
            let [long, short] = most(&states, tried);
            let mut open = gate.symbols().iter();
            let open = open.find(|open| open.symbol.as_str() == listed.symbol);
            let Some(open) = open else {
                assert_eq!((long, short), (0, 0), "{context}: {}", listed.symbol);
                continue;
            };
            let reach = open.reach.unwrap();
            assert_eq!(
                (amount(reach.long), amount(reach.short)),
                (long, short),
                "{context}"
            );
            let sides = open.sides.clone().unwrap();
            assert!(
                is_of(sides.worst, long.max(short)),
                "{context}: W of {}",
                listed.symbol
            );
            assert!(
                is_of(sides.long, long) && is_of(sides.short, short),
                "{context}"
            );
            tried.two_sided += u64::from(long > 0 && short > 0);
            for (states, strategy) in &legs[listed.symbol] {
                let [long, short] = most(std::slice::from_ref(states), &mut Tried::default());
                let sum = of_strategy.entry(*strategy).or_insert_with(Rat::zero);
                *sum = sum.plus(&money(long.max(short)));
            }
        }
        let scale = Rat::of(&10_i128.pow(PLACES).to_string());
        for (strategy, sum) in of_strategy {
            let name = StrategyName::parse(strategy).unwrap();
            let whole = gate.of_strategy(&name, |_: &Symbol| true).unwrap();
            assert!(r(whole).times(&scale) == sum, "{context}: W of {strategy}");
        }
    }
}

fn books(seed: u64, count: u64) -> Tried {
    let rules = Files::draw(0, &mut Random::of(1)).compile("");
    let mut tried = Tried::default();
    for nth in seed..seed + count {
        let drawn = Drawn::new(nth, &rules);
        drawn.judge(&mut tried, &format!("book {nth}"));
        tried.books += 1;
    }
    tried
}

/// Checks that nothing was left out.
fn nothing_is_idle(tried: &Tried) {
    let Tried {
        positions,
        entries,
        beyond,
        naked,
        combinations,
        two_sided,
        ..
    } = tried;
    for count in [positions, entries, beyond, naked, combinations, two_sided] {
        assert!(*count > tried.books / 4, "{tried:?}");
    }
}

#[test]
fn the_worst_case_of_every_future_is_what_limits_count() {
    let tried = books(1, campaign(1500, 6000));
    nothing_is_idle(&tried);
}

/// `SPOOLGATE_SEED` is the first book, `SPOOLGATE_BOOKS` their number.
#[test]
#[ignore = "minutes"]
fn many_books() {
    let seed = setting("SPOOLGATE_SEED", 1);
    let tried = books(seed, setting("SPOOLGATE_BOOKS", 200_000));
    println!("from seed {seed}: {tried:#?}");
    nothing_is_idle(&tried);
}
