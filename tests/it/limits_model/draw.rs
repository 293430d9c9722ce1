//! Draws what happens next: rows, requests near the market and the limits, persons, time.

use spoolgate_trading::market_row::Row;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::orders::{OrderType, Side, SubmitOrder};

use crate::limits_model::home::{LISTED, Listed, STRATEGIES, THESES, thesis};
use crate::limits_model::memory::Accepted;
use crate::limits_model::oracle::{Around, Judge, span};
use crate::limits_model::sums::Sums;
use crate::limits_model::world::World;
use crate::paper_model::model::{Id, Kind, Role};
use crate::paper_model::rational::Rat;
use crate::paper_model::sides::{a, r, steps};

/// Decimals of prices, more than any tick has.
const PLACES: u32 = 4;

/// Moves a value by one step to either side, or not at all: below the limit, at it, above it.
fn beside(world: &mut World, value: &Rat, step: &Rat) -> Rat {
    let count = world.random.within(-1, 1).to_string();
    value.plus(&step.times(&Rat::of(&count)))
}

/// Draws a bar and, for an instrument with quotes, a quote.
pub(super) fn rows(world: &mut World, listed: &Listed, is_wild: bool) -> Vec<Row> {
    let near = world.near[listed.symbol];
    let reach = near / 300;
    let gap = if is_wild { near / 40 } else { reach / 3 };
    let price = |number: i64| steps(number, listed.price_step);
    let random = &mut world.random;
    let open = near + random.within(-gap, gap);
    let close = open + random.within(-reach, reach);
    // Prices return to the range for which theses and limits were drawn.
    let close = close + (listed.price - close) / 40;
    let high = open.max(close) + random.within(0, reach / 2);
    let low = open.min(close) - random.within(0, reach / 2);
    let volume = match random.within(0, 5) {
        0 => None,
        1 => Some(steps(random.within(0, 30), listed.size_step)),
        _ => Some(steps(random.within(100, 9000), listed.size_step)),
    };
    let open_ms = world.now.ms();
    let bar = Row::Bar {
        open_ms,
        interval_ms: 60_000,
        open: price(open),
        high: price(high),
        low: price(low),
        close: price(close),
        volume,
    };
    // Wild rows are often wrong, and the market then goes on where it was.
    if !is_wild || open % 2 == 0 {
        world.near.insert(listed.symbol, close);
    }
    if listed.symbol == "ALPHA" {
        return vec![bar];
    }
    let safety = world.rules.safety.clone();
    let mut half = world.random.within(0, reach / 12);
    let mut mid = close;
    let whole = |value: Rat| {
        value
            .text(1)
            .split_once('.')
            .unwrap()
            .0
            .parse::<i64>()
            .unwrap()
    };
    match world.random.within(0, 9) {
        0 => {
            half = whole(
                Rat::of(&close.to_string())
                    .times(&r(*safety.max_spread))
                    .over(&Rat::of("2")),
            ) % reach
        }
        1 | 2 => {
            let by = whole(Rat::of(&close.to_string()).times(&r(*safety.max_mid_deviation)))
                % (2 * reach);
            let by = by + world.random.within(-1, 1);
            mid = if world.random.one_in(2) {
                close + by
            } else {
                close - by
            };
        }
        _ => {}
    }
    // The spread may be an odd number of steps.
    let odd = world.random.within(0, 1);
    let random = &mut world.random;
    let mut size = || {
        random
            .one_in(3)
            .then(|| steps(random.within(0, 60), listed.size_step))
    };
    let (bid_size, ask_size) = (size(), size());
    let (bid, ask) = (price(mid - half), price(mid + half + odd));
    let quote = Row::Quote {
        time_ms: open_ms + 60_000,
        bid,
        ask,
        bid_size,
        ask_size,
    };
    // Sometimes nothing was traded.
    if world.random.one_in(4) {
        vec![quote]
    } else {
        vec![bar, quote]
    }
}

/// Moves the time to where something ends or begins, a millisecond before or after it, or by hours.
pub(super) fn pass_time(world: &mut World) {
    let now_ms = world.now.ms();
    let safety = world.rules.safety.clone();
    let accepted = &world.memory.accepted;
    let since_accepted = |s: u32| {
        accepted
            .iter()
            .map(move |entry| entry.at_ms + i64::from(s) * 1000)
            .collect()
    };
    let sums = Sums {
        memory: &world.memory,
        rules: &world.rules,
        now_ms,
    };
    let quoted = LISTED.iter().filter_map(|listed| {
        Some(sums.quoted(listed.symbol)?.ms + sums.age_max_ms(listed.symbol)?)
    });
    let (mut out, mut executed) = (Vec::new(), Vec::new());
    for doing in world.memory.doing.values() {
        out.extend(
            doing
                .stopped_out_ms
                .map(|ms| ms + i64::from(*safety.cooldown_s) * 1000),
        );
        executed.extend(
            doing
                .executed_ms
                .iter()
                .map(|ms| ms + i64::from(*safety.executions_window_s) * 1000),
        );
    }
    let mut edges = Vec::new();
    let strategies = world
        .rules
        .strategies
        .values()
        .flat_map(|strategy| &strategy.restricted);
    for window in safety.restricted.iter().chain(strategies) {
        let day_ms = now_ms - now_ms.rem_euclid(86_400_000);
        let (from, to) = span(&window.to_string());
        edges.extend([from, to, from + 86_400_000].map(|ms| day_ms + ms));
    }
    let expires = world
        .rules
        .theses
        .values()
        .map(|thesis| thesis.expires.ms());
    let mut kinds: Vec<Vec<i64>> = vec![
        since_accepted(60),
        since_accepted(*safety.duplicate_window_s),
        quoted.collect(),
        out,
        executed,
        edges,
        expires.collect(),
    ];
    kinds
        .iter_mut()
        .for_each(|marks| marks.retain(|mark| (now_ms + 2..now_ms + 10_800_000).contains(mark)));
    kinds.retain(|marks| !marks.is_empty());
    let marks = if kinds.is_empty() {
        Vec::new()
    } else {
        world.random.pick(&kinds).clone()
    };
    let to_ms = if world.random.one_in(4) || marks.is_empty() {
        let hours = world.random.within(0, 5);
        now_ms + hours * 3_600_000 + world.random.within(0, 3_600_000)
    } else {
        let mark = *world.random.pick(&marks);
        mark + world.random.within(-1, 1)
    };
    world.now = world.now.plus_ms(to_ms - now_ms);
}

/// Draws an action of a person, or a fault.
pub(super) fn event(world: &mut World) {
    let strategy = world.random.pick(&STRATEGIES).0;
    let agent = *world.random.pick(&["alice", "bob"]);
    let on = world.random.one_in(4);
    let toggle = |set: &mut std::collections::BTreeSet<&'static str>, name: &'static str| {
        if on {
            set.insert(name)
        } else {
            set.remove(name)
        }
    };
    match world.random.within(0, 19) {
        0 => world.faults.is_halted = on,
        1 => _ = toggle(&mut world.faults.halted, agent),
        2 => world.faults.is_clock_wrong = on,
        3 => world.faults.is_rulebook_wrong = on,
        4 => _ = toggle(&mut world.faults.paused, strategy),
        5 | 6 => {
            let on = world.random.one_in(2);
            let reduced = &mut world.faults.reduced;
            _ = if on {
                reduced.insert(strategy)
            } else {
                reduced.remove(strategy)
            };
        }
        7 | 8 => {
            let cash = world.book.account.cash;
            let amount = match world.random.within(0, 9) {
                // All of the cash, or nearly all.
                0 => -cash,
                1 => a("5000"),
                _ => steps(world.random.within(-40_000, 50_000), "0.01"),
            };
            let left = cash.checked_add(amount).unwrap();
            if !amount.is_zero() && !left.is_negative() {
                world.adjust(&amount.to_string());
            }
        }
        9 => clear_strategy(world, strategy),
        10 => clear_drawdown(world),
        11..=13 => calm(world),
        14 | 15 => {
            let mut files = world.files.clone();
            files.redraw(&mut world.random);
            world.files = files;
            world.reload();
            world.tally.count("reload");
        }
        _ => aim(world),
    }
    if let Some(name) = world
        .memory
        .paper
        .halted
        .first()
        .cloned()
        .filter(|_| world.random.one_in(3))
    {
        let symbol = crate::limits_model::oracle::symbol(&name);
        world.apply(&[spoolgate_trading::Change::SymbolCleared { symbol }]);
        world.memory.paper.halted.remove(&name);
        world.tally.count("gap");
    }
    world.compare();
}

/// A person corrects everything.
fn calm(world: &mut World) {
    world.faults = crate::limits_model::world::Faults::default();
    clear_drawdown(world);
    for (strategy, _) in STRATEGIES {
        clear_strategy(world, strategy);
    }
}

fn clear_strategy(world: &mut World, strategy: &str) {
    let name = spoolgate_wire::ids::StrategyName::parse(strategy).unwrap();
    world.apply(&[spoolgate_trading::Change::StrategyCleared { strategy: name }]);
    world.memory.clear_strategy(strategy);
}

fn clear_drawdown(world: &mut World) {
    let Some(peak) = world.book.equity_last_known(&world.rules) else {
        return;
    };
    world.apply(&[spoolgate_trading::Change::DrawdownCleared { peak }]);
    world.memory.clear_drawdown();
}

/// Sets a halt for one order to exactly what was lost, or a little above or below.
fn aim(world: &mut World) {
    let sums = Sums {
        memory: &world.memory,
        rules: &world.rules,
        now_ms: world.now.ms(),
    };
    let Some(equity) = sums.equity() else { return };
    let (memory, which) = (&world.memory, world.random.within(0, 2));
    let lost = match which {
        0 => memory
            .day
            .as_ref()
            .map(|began| memory.profit(began, &equity).negated()),
        1 => memory
            .week
            .as_ref()
            .map(|began| memory.profit(began, &equity).negated()),
        _ => memory
            .peak
            .as_ref()
            .map(|peak| peak.minus(&equity).over(peak)),
    };
    let (name, step, places) = [
        ("max_daily_loss", "0.0001", 8),
        ("max_weekly_loss", "0.0001", 8),
        ("max_drawdown", "0.0000001", 10),
    ][usize::try_from(which).unwrap()];
    let most = Rat::of(if which == 2 { "0.9" } else { "1000000" });
    let Some(lost) = lost.filter(|lost| *lost > Rat::of("0.00001") && *lost < most) else {
        return;
    };
    let text = beside(world, &lost, &Rat::of(step)).text(places);
    if Rat::of(&text).is_positive() {
        let kept = world.files.clone();
        world.files.set(name, &text);
        world.reload();
        world.tally.count("aimed");
        submit(world);
        world.files = kept;
        world.reload();
    }
}

/// What the agent requests, before anything is changed.
struct Plan {
    strategy: &'static str,
    symbol: &'static str,
    buys: bool,
    kind: &'static str,
    own: Rat,
    stop: Rat,
    planned: Rat,
    target: Option<Rat>,
    thesis: String,
    size: Amount,
    ends: &'static str,
}

impl Plan {
    fn order(&self) -> SubmitOrder {
        let (own, stop, planned) = (text(&self.own), text(&self.stop), text(&self.planned));
        let prices = match self.kind {
            "limit" => format!(r#""price":"{own}","stop_price":"{stop}""#),
            "stop" => format!(r#""stop_price":"{own}""#),
            _ => format!(r#""stop_price":"{stop}""#),
        };
        let target = self.target.as_ref().map_or(String::new(), |at| {
            format!(r#","target_price":"{}""#, text(at))
        });
        let side = if self.buys { "buy" } else { "sell" };
        let json = format!(
            r#"{{"strategy":"{}","symbol":"{}","side":"{side}","size":"{}","order_type":"{}",{prices},
               "thesis_slug":"{}","planned_entry":"{planned}","planned_stop":"{stop}","time_in_force":"{}"{target}}}"#,
            self.strategy, self.symbol, self.size, self.kind, self.thesis, self.ends
        );
        let order: SubmitOrder = serde_json::from_str(&json).unwrap();
        order
            .validate()
            .unwrap_or_else(|error| panic!("{error}: {json}"));
        order
    }
}

fn text(price: &Rat) -> String {
    let text = price.clone().max(Rat::of("0.01")).text(PLACES);
    a(&text).to_string()
}

/// Returns a price on the step at or beside this value.
fn stepped(world: &mut World, value: &Rat, step: &Rat) -> Rat {
    let on = value.half_even_to(step);
    beside(world, &on, step)
}

/// Draws a price at a collar, near the market, or where another order rests.
fn draw_price(world: &mut World, listed: &Listed, buys: bool, seen: &Rat) -> Rat {
    let safety = world.rules.safety.clone();
    let sign = |up: bool| if up { Rat::one() } else { Rat::one().negated() };
    let up = world.random.one_in(2);
    let collar = if up == buys {
        safety.price_collar
    } else {
        safety.price_collar_passive
    };
    let by = match world.random.within(0, 3) {
        0 if r(*collar) < Rat::of("0.02") => r(*collar),
        _ => Rat::of(&steps(world.random.within(0, 40), "0.0001").to_string()),
    };
    let mut own = seen.times(&Rat::one().plus(&by.times(&sign(up))));
    if world.random.one_in(6) {
        let resting = world
            .memory
            .paper
            .orders
            .iter()
            .filter(|order| order.owner.0 == listed.symbol);
        let resting: Vec<Rat> = resting.filter_map(|order| order.price.clone()).collect();
        if !resting.is_empty() {
            own = world.random.pick(&resting).clone();
        }
    }
    own
}

/// Draws an order near the market, often with prices next to a limit. The size is replaced later.
fn draw_plan(world: &mut World, listed: &'static Listed) -> Plan {
    let strategy = world.random.pick(&STRATEGIES).0;
    let owner = (listed.symbol.to_owned(), strategy.to_owned());
    let held = world.memory.paper.position(&owner);
    let buys = match world.random.within(0, 4) {
        0 | 1 if !held.is_zero() => held.is_negative(),
        turn => turn % 2 == 1,
    };
    let kind = *world
        .random
        .pick(&["market", "market", "limit", "limit", "stop"]);
    let tick = world.rules.instruments[&crate::limits_model::oracle::symbol(listed.symbol)].tick;
    let fine = Rat::of(listed.price_step);
    let step = if tick.is_zero() {
        fine.clone()
    } else {
        r(*tick)
    };
    let step = if world.random.one_in(25) { fine } else { step };
    let near = Rat::of(&steps(world.near[listed.symbol], listed.price_step).to_string());
    let sums = Sums {
        memory: &world.memory,
        rules: &world.rules,
        now_ms: world.now.ms(),
    };
    let seen = sums.quoted(listed.symbol);
    let seen = seen.map_or(near.clone(), |seen| if buys { seen.ask } else { seen.bid });
    let own = draw_price(world, listed, buys, &seen);
    let own = stepped(world, &own, &step);
    let ends = *world.random.pick(&["gtc", "gtc", "ioc", "day"]);
    let number = world.random.within(0, THESES - 1);
    let mut plan = Plan {
        strategy,
        symbol: listed.symbol,
        buys,
        kind,
        own: own.clone(),
        stop: own.clone(),
        planned: own,
        target: None,
        thesis: thesis(strategy, listed.symbol, buys, number),
        size: steps(world.random.within(2, 40), listed.size_step),
        ends,
    };
    if world.random.one_in(2) {
        // Usually a thesis that nothing uses yet.
        let free = (2..THESES).map(|number| thesis(strategy, listed.symbol, buys, number));
        if let Some(free) = free.into_iter().find(|slug| !world.memory.is_in_use(slug)) {
            plan.thesis = free;
        }
    }
    let trial = plan.order();
    let around = world.around(strategy);
    let worst = Judge::of(&world.memory, &world.rules, &around, &trial)
        .worst()
        .unwrap_or(near);
    let bounds = world.rules.strategies[&trial.strategy]
        .stop_distance
        .clone();
    let ticks = i64::from(world.rules.instruments[&trial.symbol].min_stop_ticks);
    let away = match world.random.within(0, 15) {
        0 => worst.times(&r(*bounds.min)),
        1 if r(*bounds.max) < Rat::of("0.1") => worst.times(&r(*bounds.max)),
        2 => step.times(&Rat::of(&ticks.to_string())),
        _ => worst.times(&Rat::of(
            &steps(world.random.within(20, 55), "0.0001").to_string(),
        )),
    };
    let stop = if buys {
        worst.minus(&away)
    } else {
        worst.plus(&away)
    };
    plan.stop = stepped(world, &stop, &step);
    if world.random.one_in(25) {
        // On neither side, or on the wrong one.
        plan.stop = stepped(world, &worst, &step);
    }
    let tolerance = r(*world.rules.safety.slippage_to_plan);
    let planned = match world.random.within(0, 7) {
        0 if tolerance < Rat::of("0.1") => worst.over(&Rat::one().plus(&tolerance)),
        1 if tolerance < Rat::of("0.1") => worst.over(&Rat::one().minus(&tolerance)),
        2 => worst.times(&Rat::of("1.0011")),
        _ => worst.clone(),
    };
    plan.planned = stepped(world, &planned, &Rat::of("0.01"));
    if world.random.one_in(4) {
        let by = worst.times(&Rat::of(
            &steps(world.random.within(0, 30), "0.0001").to_string(),
        ));
        let target = if buys {
            worst.plus(&by)
        } else {
            worst.minus(&by)
        };
        plan.target = Some(stepped(world, &target, &step));
    }
    plan
}

/// Draws a size at, just below or just above the maximum that the gate names, or a whole or odd
/// part of what is held.
fn draw_size(world: &mut World, plan: &Plan, around: &Around) -> Amount {
    let listed = LISTED
        .iter()
        .find(|listed| listed.symbol == plan.symbol)
        .unwrap();
    let side = if plan.buys { Side::Buy } else { Side::Sell };
    let lot = a(&world.lot(plan.symbol).text(8));
    let capacity = world.capacity(plan.strategy, listed, side, OrderType::Limit);
    let few = steps(world.random.within(4, 40), listed.size_step);
    let beside = |world: &mut World, size: Amount| match world.random.within(0, 3) {
        0 => size
            .checked_sub(lot)
            .filter(|size| size.is_positive())
            .unwrap_or(lot),
        1 => size.checked_add(lot).unwrap(),
        _ => size,
    };
    if capacity.is_positive() {
        return match world.random.within(0, 3) {
            0 => few,
            _ => beside(world, capacity),
        };
    }
    match world.random.within(0, 9) {
        0..=4 => {
            let mut order = plan.order();
            order.size = a("1000000");
            let most = world
                .ask(&order, around)
                .headroom
                .map_or(Amount::ZERO, |headroom| headroom.max_size);
            if most.is_positive() {
                beside(world, most)
            } else {
                few
            }
        }
        5 => {
            let rule = &world.rules.instruments[&crate::limits_model::oracle::symbol(plan.symbol)];
            let (least, each) = (rule.min_size, plan.own.times(&r(*rule.multiplier)));
            let least_worth = a(&r(*rule.min_notional).over(&each).ceil_to(&r(lot)).text(8));
            let size = if world.random.one_in(2) {
                least
            } else {
                least_worth.try_into().unwrap()
            };
            beside(world, *size)
        }
        7 if world.random.one_in(3) => few.checked_add(a("0.00001")).unwrap(),
        _ => few,
    }
}

/// Draws an order and its sender, and submits it.
pub(super) fn submit(world: &mut World) {
    let listed = world.random.pick(&LISTED);
    let mut plan = draw_plan(world, listed);
    let mut around = world.around(plan.strategy);
    plan.size = draw_size(world, &plan, &around);
    bend(world, &mut around);
    let mut order = plan.order();
    let window_ms = i64::from(*world.rules.safety.duplicate_window_s) * 1000;
    let same = world.memory.accepted.iter().rev().find(|it| {
        it.owner.1 == plan.strategy && (around.now_ms - it.at_ms - window_ms).abs() <= 1
    });
    let repeats = same.is_some() && world.random.one_in(2);
    match world.random.within(0, 99) {
        _ if repeats => again(same.unwrap(), &mut order),
        0 => order.symbol = crate::limits_model::oracle::symbol("OMEGA"),
        1 if order.stop_price.is_some() => order.planned_stop = plan_beside(&order),
        2 => order.planned_stop = Amount::ZERO,
        3 => order.thesis_slug = spoolgate_wire::ids::ThesisSlug::parse("nobody-wrote-it").unwrap(),
        4 | 5 => {
            let last = world
                .memory
                .accepted
                .iter()
                .rev()
                .find(|it| it.owner.1 == plan.strategy);
            last.into_iter().for_each(|last| again(last, &mut order));
        }
        8 if order.price.is_some() => {
            // More digits than fit.
            order.size = a("123456789012.0123456789");
            order.price = order
                .price
                .and_then(|price| price.checked_add(a("0.0123456789")));
        }
        _ => {}
    }
    world.submit(&order, &around);
}

/// Repeats an earlier entry: only the surrounding prices differ.
fn again(last: &Accepted, order: &mut SubmitOrder) {
    order.size = a(&last.size.text(10));
    order.symbol = crate::limits_model::oracle::symbol(&last.owner.0);
    order.side = if last.buys { Side::Buy } else { Side::Sell };
    let own = last.own.as_ref().map(|own| a(&own.text(10)));
    (order.order_type, order.price) = match last.kind {
        Kind::Market => (OrderType::Market, None),
        Kind::Limit => (OrderType::Limit, own),
        Kind::Stop => (OrderType::Stop, None),
    };
    if last.kind == Kind::Stop {
        order.stop_price = own;
    }
}

/// Returns another stop than `stop_price`.
fn plan_beside(order: &SubmitOrder) -> Amount {
    order.planned_stop.checked_add(Amount::ONE).unwrap()
}

/// Signs the request late, early, or by another principal.
fn bend(world: &mut World, around: &mut Around) {
    let safety = world.rules.safety.clone();
    if world.random.one_in(14) {
        let own = if around.source == "bob" {
            30
        } else {
            i64::from(safety.request_age_max_s)
        };
        let bounds = [
            own,
            i64::from(*safety.exit_age_max_s),
            -i64::from(safety.request_ahead_max_s),
            world.random.within(0, 4000),
        ];
        let bound = *world.random.pick(&bounds);
        around.asked_ms = around.now_ms - bound * 1000 + world.random.within(-1, 1);
        let grown: Vec<i64> = world
            .memory
            .stories
            .values()
            .map(|story| story.grown_ms)
            .collect();
        if !grown.is_empty() && world.random.one_in(4) {
            around.asked_ms = *world.random.pick(&grown) + world.random.within(-1, 1);
        }
    }
    if world.random.one_in(40) {
        around.source = if around.source == "bob" {
            "alice"
        } else {
            "bob"
        }
        .to_owned();
    }
}

fn any_order(world: &mut World, of: impl Fn(Role) -> bool) -> Option<(Id, String)> {
    let orders = world
        .memory
        .paper
        .orders
        .iter()
        .filter(|order| of(order.role));
    let orders: Vec<(Id, String)> = orders
        .map(|order| (order.id, order.owner.1.clone()))
        .collect();
    (!orders.is_empty()).then(|| world.random.pick(&orders).clone())
}

pub(super) fn cancel(world: &mut World) {
    let ended: Vec<(Id, String)> = world
        .owners
        .iter()
        .map(|(id, owner)| (*id, owner.clone()))
        .collect();
    let found = match world.random.within(0, 9) {
        0 => Some(((999_999, 0), "trend".to_owned())),
        1 if !ended.is_empty() => Some(world.random.pick(&ended).clone()),
        _ => any_order(world, |_| true),
    };
    let Some((id, strategy)) = found else { return };
    let mut around = world.around(&strategy);
    bend(world, &mut around);
    world.cancel(id, &around);
}

pub(super) fn tighten(world: &mut World) {
    let is_odd = world.random.one_in(20);
    let Some((id, strategy)) = any_order(world, |role| is_odd || role == Role::Stop) else {
        return;
    };
    let order = world.memory.paper.find(id).unwrap().clone();
    let listed = LISTED
        .iter()
        .find(|listed| listed.symbol == order.owner.0)
        .unwrap();
    let tick =
        r(*world.rules.instruments[&crate::limits_model::oracle::symbol(listed.symbol)].tick);
    let fine = Rat::of(listed.price_step);
    let step = if tick.is_zero() || world.random.one_in(15) {
        fine
    } else {
        tick
    };
    let old = order.trigger.or(order.price).unwrap_or(step.clone());
    let mark = world
        .memory
        .paper
        .mark(listed.symbol, !order.buys)
        .unwrap_or(old.clone());
    let to = match world.random.within(0, 4) {
        0 => mark,
        1 => old.clone(),
        _ => old.plus(&mark.minus(&old).times(&Rat::of(
            &steps(world.random.within(0, 9), "0.1").to_string(),
        ))),
    };
    let new = stepped(world, &to, &step);
    let new = if world.random.one_in(4) { old } else { new };
    let mut around = world.around(&strategy);
    bend(world, &mut around);
    world.tighten(id, a(&text(&new)), &around);
}
