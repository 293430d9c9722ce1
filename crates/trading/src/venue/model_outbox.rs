//! A model of gate, bridge and venue around one leg, explored breadth-first until no new state is
//! found: an entry with its stop and target, an exit at the market and one that rests, and every loss,
//! repetition, refusal, delay and crash within bounds. The code under test takes the gate's steps; the
//! bridge and the venue do what the last instruction says and enforce nothing.

mod canonical;
mod state;

use std::collections::{HashSet, VecDeque};
use std::fmt::Write;

use self::state::{Carry, End, Kind, OLD_MS, State, Told, lots};
use super::tests_outbox::{Desk, unprotected};
use crate::book::Account;
use crate::order::{AtVenue, OrderRole};
use crate::risk;
use crate::testing::*;
use spoolgate_rules::Rulebook;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{OrderId, Principal};
use spoolgate_wire::time::Time;

/// One step of the gate, its agent, the bridge, the venue or time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Deliver,
    Repeat,
    CarryOut(OrderId, Carry),
    Take(OrderId, u32, bool),
    TakeBack,
    Fill(OrderId, i64),
    End(OrderId, End),
    ComeBack(OrderId),
    LoseFile(OrderId, u32, bool),
    LoseReport,
    GateCrash,
    BridgeCrash(OrderId),
    Exit(i64),
    Rest(i64),
    Cancel(OrderId),
    Tighten,
    Release(OrderId),
    Age,
}

/// A mistake that the model must notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutation {
    /// A file that was written again after a crash counts as proof when it is taken back.
    AgainIsProof,
    /// No bridge sends snapshots.
    NoSnapshots,
}

/// How far the model goes.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    reduce_only: bool,
    lots: i64,
    versions: u32,
    faults: u8,
    /// Of the gate, of the bridge, and of both together.
    crashes: (u8, u8, u8),
    /// What the agent does besides its entry.
    agent: Agent,
}

/// What the agent may do, each at any time and at most once.
#[derive(Clone, Copy, Debug)]
struct Agent {
    target: bool,
    exit: bool,
    rest: bool,
    cancel: bool,
    tighten: bool,
}

/// What stays the same in all states.
struct Model {
    bounds: Bounds,
    mutation: Option<Mutation>,
    rules: Rulebook,
    account: Account,
    agent: Principal,
    bridge: Principal,
    now: Time,
}

impl Model {
    fn new(bounds: Bounds, mutation: Option<Mutation>) -> (Model, State) {
        let mut desk = Desk::at(bounds.reduce_only);
        let btc = desk.world.rules.instruments.get_mut(&btc()).unwrap();
        (btc.lot, btc.min_size) = (
            a("0.002").try_into().unwrap(),
            a("0.002").try_into().unwrap(),
        );
        let size = state::amount(bounds.lots).to_string();
        let mut entry = market_order("trend", "BTC-USD", "buy", &size, "6700", 0);
        entry.target_price = bounds.agent.target.then(|| a("6900"));
        let verdict = desk.world.ask(&entry);
        assert!(verdict.accepted, "{:#?}", failed(&verdict));
        let world = desk.world;
        let mut book = world.book;
        // Neither the pace of instructions nor signs of life are part of this.
        book.bridges.clear();
        let model = Model {
            bounds,
            mutation,
            rules: world.rules,
            account: book.account.clone(),
            agent: world.source,
            bridge: Principal::parse("exchange").unwrap(),
            now: world.now,
        };
        let (gate_crashes, bridge_crashes, crashes) = bounds.crashes;
        let mut start = State {
            book,
            seq: world.seq,
            files: Default::default(),
            told: Default::default(),
            newest: Default::default(),
            done: Default::default(),
            sent: Default::default(),
            back: Default::default(),
            orders: Default::default(),
            mail: VecDeque::new(),
            again: None,
            position: 0,
            faults: bounds.faults,
            crashes,
            gate_crashes,
            bridge_crashes,
            can_exit: bounds.agent.exit,
            can_rest: bounds.agent.rest,
            has_lost: false,
            asked: false,
        };
        start.line(&model, verdict.changes, model.now).unwrap();
        let start = start.canonical(&model.account, model.now, model.now);
        (model, start)
    }
}

/// Every step that may be possible in a state.
fn events(state: &State, agent: Agent) -> Vec<Event> {
    let mut events = vec![Event::TakeBack, Event::Age];
    events.extend(agent.tighten.then_some(Event::Tighten));
    if !state.mail.is_empty() {
        events.push(Event::Deliver);
    }
    for &(id, version, is_again) in state.files.keys() {
        events.push(Event::Take(id, version, is_again));
    }
    for &id in state.told.keys() {
        events.push(Event::CarryOut(id, Carry::Plain));
    }
    for (&id, worked) in &state.orders {
        events.extend((1..=worked.left()).map(|size| Event::Fill(id, size)));
        events.push(Event::ComeBack(id));
    }
    if state.crashes > 0 {
        events.push(Event::GateCrash);
        let orders = state.orders.keys();
        events.extend(orders.map(|id| Event::BridgeCrash(*id)));
    }
    if state.faults > 0 {
        events.extend([Event::Repeat, Event::LoseReport]);
        for (&id, worked) in &state.orders {
            if worked.is_open {
                events.push(Event::End(id, End::Canceled));
                events.push(Event::End(id, End::Rejected));
            }
        }
        for &id in state.told.keys() {
            events.push(Event::CarryOut(id, Carry::Refused));
            events.push(Event::CarryOut(id, Carry::TooLate));
        }
        for &(id, version, is_again) in state.files.keys() {
            events.push(Event::LoseFile(id, version, is_again));
        }
    }
    let held = held(state);
    if state.can_exit {
        events.extend((1..=held).map(Event::Exit));
    }
    if state.can_rest {
        events.extend((1..=held).map(Event::Rest));
    }
    for order in state.book.orders.values() {
        let id = order.order_id;
        if agent.cancel && order.role != OrderRole::Protective && order.ending().is_none() {
            events.push(Event::Cancel(id));
        }
        if order.is_held() {
            events.push(Event::Release(id));
        }
    }
    events
}

/// The position in the book, lots.
fn held(state: &State) -> i64 {
    let held = state.book.positions.get(&(btc(), trend()));
    held.map_or(0, |held| lots(held.size))
}

/// What of the position at the venue neither a stop there covers nor an order that leaves.
fn gap(state: &State) -> i64 {
    let covers = |told: &Told| {
        let is_closing = told.is_sale == (state.position > 0);
        is_closing && matches!(told.kind, Kind::Stop | Kind::Market | Kind::Ioc)
    };
    let orders = state.orders.values().filter(|order| covers(&order.told));
    state.position.abs() - orders.map(state::Worked::left).sum::<i64>()
}

fn is_doubted(state: &State) -> bool {
    !state.book.doubted_symbols.is_empty()
}

fn reduces(state: &State, id: &OrderId) -> bool {
    let order = state.book.orders.get(id);
    order.is_some_and(|order| order.role != OrderRole::Entry)
}

/// An exit that the agent may cancel.
fn resting(state: &State) -> Option<OrderId> {
    let mut exits =
        state.book.orders.values().filter(|order| {
            order.role == OrderRole::Exit && order.rests() && order.ending().is_none()
        });
    exits.next().map(|order| order.order_id)
}

impl Model {
    /// What holds in every state, except where it leads.
    fn check(&self, state: &State) -> Result<(), String> {
        let open = || state.orders.iter().filter(|(_, order)| order.is_open);
        if !self.bounds.reduce_only {
            let sales = open().filter(|(_, order)| order.told.is_sale);
            let sales: i64 = sales.map(|(_, order)| order.left()).sum();
            if sales > state.position {
                return Err(format!(
                    "(a) {sales} are for sale, and {} held",
                    state.position
                ));
            }
        }
        if state.mail.is_empty() && held(state) != state.position {
            return Err(format!("(d) {} in the book", held(state)));
        }
        let is_bare = unprotected(&state.book) != Amount::ZERO;
        if is_bare && !is_doubted(state) {
            return Err("(c) a part of the position in the book is bare".to_owned());
        }
        for (id, worked) in open() {
            let order = state.book.orders.get(id);
            let Some((order, venue)) = order.and_then(|it| Some((it, it.at_venue.as_ref()?)))
            else {
                return Err(format!("{id} works at the venue, not in the book"));
            };
            if worked.told.size > lots(venue.most()) {
                return Err(format!("{id} is larger at the venue than {}", venue.most()));
            }
            let is_whole = matches!(order.role, OrderRole::Entry | OrderRole::Exit);
            if is_whole && worked.left() > lots(order.leaves()) {
                return Err(format!("{id} may fill more than it reserves"));
            }
        }
        self.check_cover(state)?;
        self.check_gap(state)
    }

    /// What the book takes for protection once it is no longer fresh is at the venue, unless a newer
    /// version of that stop is not answered.
    fn check_cover(&self, state: &State) -> Result<(), String> {
        if !state.mail.is_empty() || state.has_lost || is_doubted(state) {
            return Ok(());
        }
        let grace_ms = risk::grace_ms(&self.rules.safety);
        for order in state.book.orders.values() {
            if order.role != OrderRole::Protective || order.ending().is_some() {
                continue;
            }
            let covers = lots(order.cover(self.now.plus_ms(OLD_MS), grace_ms).0);
            let there = state.orders.get(&order.order_id).map_or(0, |it| it.left());
            let venue = order.at_venue.as_ref();
            let is_answered = venue.is_none_or(|venue| venue.unanswered_since().is_none());
            if covers > there && is_answered {
                return Err(format!("(c) {} covers {there}", order.order_id));
            }
        }
        Ok(())
    }

    /// Where the position is not covered, something closes the gap, or people are told.
    fn check_gap(&self, state: &State) -> Result<(), String> {
        if gap(state) <= 0 || is_doubted(state) || !state.mail.is_empty() {
            return Ok(());
        }
        let is_under_way = |state: &State| {
            let files = state.files.keys().map(|(id, ..)| id);
            let mut all = files.chain(state.told.keys());
            all.any(|id| reduces(state, id))
        };
        if is_under_way(state) {
            return Ok(());
        }
        let later = state.step(self, Event::Age)?.unwrap();
        if later.is_told(self)? || is_under_way(&later) {
            return Ok(());
        }
        Err(format!("(c) {} is naked, and nobody is told", gap(state)))
    }
}

/// Where a state leads if everything is delivered, time passes, and nothing more goes wrong.
enum Towards {
    /// To this state next.
    State(Box<State>),
    /// The leg is flat.
    Flat,
}

impl Model {
    /// The next step towards a quiet state in which the leg is flat.
    fn towards(&self, state: &State) -> Result<Towards, String> {
        let is_unwanted = state
            .files
            .iter()
            .any(|((id, version, _), told)| state.is_unwanted(*id, *version, told.valid));
        let venue = state.orders.iter().filter(|(_, order)| order.is_open);
        let fills = |(id, order): (&OrderId, &state::Worked)| match order.told.kind {
            Kind::Market => Some(Event::Fill(*id, order.left())),
            Kind::Ioc => Some(Event::ComeBack(*id)),
            Kind::Entry | Kind::Stop | Kind::Resting => None,
        };
        let next = if !state.mail.is_empty() {
            Some(Event::Deliver)
        } else if let Some(id) = state.told.keys().next() {
            Some(Event::CarryOut(*id, Carry::Plain))
        } else if is_unwanted {
            Some(Event::TakeBack)
        } else if let Some((id, version, is_again)) = state.files.keys().next() {
            Some(Event::Take(*id, *version, *is_again))
        } else {
            venue.into_iter().find_map(fills)
        };
        if let Some(event) = next {
            let next = state.step(self, event)?;
            let next = next.ok_or_else(|| format!("(e) {event:?} is not possible"))?;
            return Ok(Towards::State(Box::new(next)));
        }
        let later = state.step(self, Event::Age)?.unwrap();
        if later.key() != state.key() {
            return Ok(Towards::State(Box::new(later)));
        }
        self.quiet(state)
    }

    /// What people do in a quiet state: they answer for orders of which the venue says nothing, and then
    /// the agent leaves at the market, once.
    fn quiet(&self, state: &State) -> Result<Towards, String> {
        let is_told = state.is_told(self)?;
        if gap(state) > 0 && !is_told {
            return Err(format!(
                "(c) {} stays naked, and nobody is told",
                gap(state)
            ));
        }
        let unanswered = state.book.orders.values().find(|order| {
            let venue = order.at_venue.as_ref();
            venue.is_some_and(|venue| venue.unanswered_since().is_some())
        });
        if let Some(order) = unanswered.filter(|_| !state.has_lost) {
            return Err(format!(
                "(e) {} waits for ever, and nothing was lost",
                order.order_id
            ));
        }
        if state.position == 0 {
            return Ok(Towards::Flat);
        }
        let mut next = state.clone();
        let is_silent = |id: &OrderId, venue: &AtVenue| {
            let is_there = state.orders.get(id).is_some_and(|order| order.is_open);
            venue.is_out() && (!is_there || venue.unanswered_since().is_some())
        };
        let reducing = state.book.orders.values();
        let mut reducing = reducing.filter(|order| order.role != OrderRole::Entry);
        let silent = reducing.find(|order| {
            let venue = order.at_venue.as_ref();
            venue.is_some_and(|venue| is_silent(&order.order_id, venue))
        });
        if let Some(order) = silent {
            if !is_told {
                return Err(format!(
                    "(e) {} is silent, and nobody is told",
                    order.order_id
                ));
            }
            next.assume_gone(self, order.order_id)?;
        } else if let Some(id) = resting(state) {
            // It has reserved what it would close.
            return Ok(Towards::State(Box::new(
                state
                    .step(self, Event::Cancel(id))?
                    .ok_or_else(|| format!("(e) {id} cannot be cancelled"))?,
            )));
        } else {
            if state.asked {
                return Err("(e) an exit has not left the position flat".to_owned());
            }
            next.asked = true;
            if !next.exit(self, state.position)? {
                return Err("(e) no exit is accepted".to_owned());
            }
        }
        let next = next.canonical(&self.account, self.now, self.now);
        Ok(Towards::State(Box::new(next)))
    }

    /// Follows a state until it is flat, or reaches what was followed before.
    fn follow(&self, state: &State, good: &mut HashSet<u128>) -> Result<(), String> {
        let mut way = HashSet::new();
        let mut state = state.clone();
        loop {
            let key = state.key();
            if good.contains(&key) {
                break;
            }
            if !way.insert(key) {
                return Err(format!("(e) it never becomes quiet\n{}", shown(&state)));
            }
            match self.towards(&state) {
                Ok(Towards::Flat) => break,
                Ok(Towards::State(next)) => state = *next,
                Err(what) => return Err(format!("{what}\n{}", shown(&state))),
            }
        }
        good.extend(way);
        Ok(())
    }
}

/// What an exploration found.
#[derive(Debug, Default)]
struct Explored {
    states: usize,
    transitions: usize,
    /// States with a version beyond the bound, where it did not go on.
    cut: usize,
    depth: usize,
}

/// Explores a model to closure. Returns the shortest way to what is wrong.
fn explore(bounds: Bounds, mutation: Option<Mutation>) -> Result<Explored, String> {
    let (model, start) = Model::new(bounds, mutation);
    let mut found = Explored::default();
    let mut seen = HashSet::from([start.key()]);
    let mut good = HashSet::new();
    let mut from: Vec<(u32, Event)> = vec![(0, Event::Age)];
    let mut next = VecDeque::from([(0_u32, 0_usize, start.clone())]);
    while let Some((at, depth, state)) = next.pop_front() {
        found.depth = depth;
        for event in events(&state, bounds.agent) {
            let told = |what: String| traced(&model, &start, &from, at, event, &what);
            let Some(after) = state.step(&model, event).map_err(told)? else {
                continue;
            };
            found.transitions += 1;
            if !seen.insert(after.key()) {
                continue;
            }
            model.check(&after).map_err(told)?;
            model.follow(&after, &mut good).map_err(told)?;
            let is_beyond = |venue: &AtVenue| venue.version > bounds.versions;
            let mut venues = after
                .book
                .orders
                .values()
                .filter_map(|it| it.at_venue.as_ref());
            if venues.any(is_beyond) {
                found.cut += 1;
                continue;
            }
            let index = u32::try_from(from.len()).unwrap();
            from.push((at, event));
            next.push_back((index, depth + 1, after));
        }
    }
    found.states = seen.len();
    Ok(found)
}

/// The way to a state, in words.
fn traced(
    model: &Model,
    start: &State,
    from: &[(u32, Event)],
    at: u32,
    last: Event,
    what: &str,
) -> String {
    let mut way = vec![last];
    let mut at = at as usize;
    while at > 0 {
        let (before, event) = from[at];
        way.push(event);
        at = before as usize;
    }
    let mut text = format!("{what}\n\n{}", shown(start));
    let mut state = start.clone();
    for event in way.into_iter().rev() {
        let _ = writeln!(text, "== {event:?}");
        match state.step(model, event) {
            Ok(Some(next)) => state = next,
            Ok(None) => break,
            Err(what) => {
                text.push_str(&what);
                break;
            }
        }
        text.push_str(&shown(&state));
    }
    text
}

fn shown(state: &State) -> String {
    let mut text = format!("position {} ({} in the book)", state.position, held(state));
    if is_doubted(state) {
        text.push_str(", doubted");
    }
    let told = |told: &Told| format!("{:?} {} {:?}", told.verb, told.size, told.valid);
    for order in state.book.orders.values() {
        let (id, size, filled) = (order.order_id, lots(order.size), lots(order.filled));
        let _ = write!(text, "\n  book  {id} {size}/{filled}");
        if let Some(venue) = &order.at_venue {
            let sizes: Vec<(u32, i64)> = venue.sizes.iter().map(|it| (it.0, lots(it.1))).collect();
            let works = venue.works.map(|works| works.version);
            let _ = write!(
                text,
                " v{} {sizes:?} works {works:?} {:?} gone {} lost {} released {} again {:?}",
                venue.version, venue.ending, venue.gone, venue.lost, venue.released, venue.again
            );
        }
    }
    for (id, order) in &state.orders {
        let (version, size) = (order.told.version, order.told.size);
        let (filled, is_open) = (order.filled, order.is_open);
        let _ = write!(
            text,
            "\n  venue {id} v{version} {size}/{filled} open {is_open}"
        );
    }
    for ((id, version, again), it) in &state.files {
        let _ = write!(text, "\n  file  {id}.{version} again {again} {}", told(it));
    }
    for (id, it) in &state.told {
        let _ = write!(text, "\n  told  {id}.{} {}", it.version, told(it));
    }
    for report in &state.mail {
        let _ = write!(text, "\n  mail  {report:?}");
    }
    text.push('\n');
    text
}

const NOTHING: Agent = Agent {
    target: false,
    exit: false,
    rest: false,
    cancel: false,
    tighten: false,
};

const EXIT: Agent = Agent {
    exit: true,
    ..NOTHING
};

const REST: Agent = Agent {
    rest: true,
    ..NOTHING
};

const TARGET: Agent = Agent {
    target: true,
    ..NOTHING
};

/// One lot, and so little that goes wrong that every run can try it.
const SMALL: Bounds = Bounds {
    reduce_only: false,
    lots: 1,
    versions: 3,
    faults: 1,
    crashes: (1, 1, 1),
    agent: EXIT,
};

/// Says how large a model is; shown with `--nocapture`.
#[allow(clippy::print_stdout)]
fn say(text: &str) {
    println!("{text}");
}

/// Explores a model and says how large it is.
fn explored(bounds: Bounds) {
    match explore(bounds, None) {
        Ok(found) => say(&format!("{bounds:?}\n{found:?}")),
        Err(what) => panic!("{bounds:?}\n{what}"),
    }
}

#[test]
fn an_exit_at_the_market_where_the_venue_enforces_nothing() {
    explored(SMALL);
}

#[test]
fn an_exit_that_rests_at_the_gate() {
    explored(Bounds {
        agent: REST,
        crashes: (0, 0, 0),
        ..SMALL
    });
}

#[test]
fn a_stop_that_is_tightened() {
    for reduce_only in [false, true] {
        explored(Bounds {
            reduce_only,
            agent: Agent {
                tighten: true,
                ..NOTHING
            },
            crashes: (0, 0, 0),
            ..SMALL
        });
    }
}

#[test]
fn one_exit_is_cancelled_for_another() {
    explored(Bounds {
        agent: Agent {
            rest: true,
            cancel: true,
            ..EXIT
        },
        faults: 0,
        crashes: (0, 0, 0),
        ..SMALL
    });
}

#[test]
fn an_exit_and_a_stop_that_cross() {
    explored(Bounds {
        reduce_only: true,
        crashes: (0, 0, 0),
        ..SMALL
    });
}

#[test]
fn a_target_beside_its_stop() {
    for reduce_only in [false, true] {
        explored(Bounds {
            reduce_only,
            agent: TARGET,
            faults: u8::from(!reduce_only),
            crashes: (0, 0, 0),
            ..SMALL
        });
    }
}

/// The model notices these mistakes.
#[test]
fn mistakes_are_found() {
    // That a venue drops a stop and its report is lost takes two faults.
    for (mutation, faults, crashes, expect) in [
        (Mutation::AgainIsProof, 1, (1, 0, 1), "(b) "),
        (Mutation::NoSnapshots, 2, (0, 0, 0), "(c) "),
    ] {
        let bounds = Bounds {
            faults,
            crashes,
            ..SMALL
        };
        let what = explore(bounds, Some(mutation)).unwrap_err();
        assert!(what.starts_with(expect), "{mutation:?}: {what}");
    }
}

/// The members of a list in the environment, or the usual ones.
#[allow(clippy::disallowed_methods)]
fn words(name: &str, usual: &str) -> Vec<String> {
    let text = std::env::var(name).unwrap_or(usual.to_owned());
    text.split(',').map(str::to_owned).collect()
}

#[test]
#[ignore = "takes hours for everything; docs/testing.md has the command"]
fn the_whole_model() {
    let number = |name: &str, usual: &str| words(name, usual)[0].parse::<u8>().unwrap();
    for agent in words(
        "SPOOLGATE_AGENT",
        "exit,rest,target,exit+tighten,exit+cancel,exit+rest",
    ) {
        for reduce_only in words("SPOOLGATE_REDUCE_ONLY", "false,true") {
            let crashes = number("SPOOLGATE_CRASHES", "1");
            explored(Bounds {
                reduce_only: reduce_only.parse().unwrap(),
                lots: i64::from(number("SPOOLGATE_LOTS", "2")),
                versions: 3,
                faults: number("SPOOLGATE_FAULTS", "2"),
                crashes: (crashes, crashes, 2 * crashes),
                agent: Agent {
                    target: agent.contains("target"),
                    exit: agent.contains("exit"),
                    rest: agent.contains("rest"),
                    cancel: agent.contains("cancel"),
                    tighten: agent.contains("tighten"),
                },
            });
        }
    }
}
