//! Every way in which open entries may fill and legs may leave, compared with the limits: the entries
//! of each subset fill at their worst prices, the others do not fill, then the legs of each subset
//! leave, or every stop is hit.

use std::collections::BTreeMap;

use spoolgate_rules::Rulebook;

use crate::limits_model::memory::Memory;
use crate::limits_model::oracle::{Judge, owner_of};
use crate::limits_model::sums::{Sums, Terms, larger, smaller, worse};
use crate::paper_model::model::{Owner, Role, STOP, Working};
use crate::paper_model::rational::Rat;
use crate::paper_model::sides::r;

/// What a trade in one direction is called. An entry adds nothing to a trade of its leg in the other
/// direction: that is judged by the limit that was in force when its own entry was accepted.
fn trade(owner: &Owner, is_long: bool) -> String {
    let direction = if is_long { "long" } else { "short" };
    format!("trade {} {} {direction}", owner.0, owner.1)
}

/// With more open entries than this, not every subset is tried.
const SUBSETS_OF_MAX: usize = 7;

/// The largest value over all paths, by what a limit is about.
pub(super) type Worst = BTreeMap<String, Rat>;

/// A world in which some entries have filled.
struct Path<'a> {
    /// The minimum price at which units of a symbol count, so that two worlds differ only in their
    /// units.
    floor: &'a Option<(String, Rat)>,
    sums: Sums<'a>,
    held: BTreeMap<Owner, Rat>,
    filled: Vec<&'a Working>,
    cash: Rat,
}

/// Returns the worst values over all paths from here. `None` if the price of anything open is
/// unknown.
pub(super) fn worst(
    memory: &Memory,
    rules: &Rulebook,
    now_ms: i64,
    floor: &Option<(String, Rat)>,
) -> Option<Worst> {
    let sums = Sums {
        memory,
        rules,
        now_ms,
    };
    let open: Vec<&Working> = sums.entries().collect();
    let mut all = Worst::new();
    for chosen in subsets(&open) {
        for (what, value) in Path::of(sums, chosen, floor)?.measures()? {
            let most = all.entry(what).or_insert_with(|| value.clone());
            *most = larger(most, &value);
        }
    }
    Some(all)
}

fn subsets<'a>(open: &[&'a Working]) -> Vec<Vec<&'a Working>> {
    let of = |keep: &dyn Fn(usize, &Working) -> bool| -> Vec<&'a Working> {
        open.iter()
            .enumerate()
            .filter(|(nth, order)| keep(*nth, order))
            .map(|(_, order)| *order)
            .collect()
    };
    if open.len() <= SUBSETS_OF_MAX {
        return (0..1_usize << open.len())
            .map(|mask| of(&|nth, _| mask & (1 << nth) != 0))
            .collect();
    }
    let mut some = vec![
        of(&|_, _| false),
        of(&|_, _| true),
        of(&|_, it| it.buys),
        of(&|_, it| !it.buys),
    ];
    // One side of each symbol at a time, whatever happens in the others.
    for symbol in open.iter().map(|order| &order.owner.0) {
        some.push(of(&|_, it| it.buys || it.owner.0 != *symbol));
        some.push(of(&|_, it| !it.buys || it.owner.0 != *symbol));
    }
    some
}

impl<'a> Path<'a> {
    fn of(
        sums: Sums<'a>,
        filled: Vec<&'a Working>,
        floor: &'a Option<(String, Rat)>,
    ) -> Option<Path<'a>> {
        let paper = &sums.memory.paper;
        let mut held: BTreeMap<Owner, Rat> = paper
            .held
            .iter()
            .map(|(owner, (size, _))| (owner.clone(), size.clone()))
            .collect();
        let mut cash = paper.cash();
        for order in &filled {
            let worst = Self::entered_at(&sums, order)?;
            let value = worst
                .times(&order.leaves())
                .times(&sums.multiplier(&order.owner.0)?);
            let fee = value.times(&r(*sums.rule(&order.owner.0)?.taker_fee));
            cash = if order.buys {
                cash.minus(&value)
            } else {
                cash.plus(&value)
            }
            .minus(&fee);
            let size = held.entry(order.owner.clone()).or_insert_with(Rat::zero);
            *size = if order.buys {
                size.plus(&order.leaves())
            } else {
                size.minus(&order.leaves())
            };
        }
        Some(Path {
            floor,
            sums,
            held,
            filled,
            cash,
        })
    }

    /// Returns the worst price at which an entry may fill.
    fn entered_at(sums: &Sums, order: &Working) -> Option<Rat> {
        let seen = sums.fresh(&order.owner.0)?;
        Some(Terms::of(order).worst_entry(&seen, &r(*sums.rules.safety.entry_slippage)))
    }

    fn measures(&self) -> Option<Vec<(String, Rat)>> {
        let mut all = vec![
            ("cash short".to_owned(), self.cash_short()?),
            ("loss".to_owned(), self.loss(None)?),
        ];
        let (mut total, mut long, mut short) = (Rat::zero(), Rat::zero(), Rat::zero());
        let mut groups: BTreeMap<String, Rat> = BTreeMap::new();
        for (symbol, [most_long, most_short]) in self.after_any_leaves(None) {
            let each = self.price(&symbol)?;
            long = long.plus(&most_long.times(&each));
            short = short.plus(&most_short.times(&each));
            let value = larger(&most_long, &most_short).times(&each);
            total = total.plus(&value);
            if let Some(group) = &self.sums.rule(&symbol)?.group {
                let sum = groups
                    .entry(format!("group {group}"))
                    .or_insert_with(Rat::zero);
                *sum = sum.plus(&value);
            }
            all.push((format!("position {symbol}"), value));
        }
        let gap = total.times(&r(*self.sums.rules.safety.stress_gap));
        all.extend([
            ("gap".to_owned(), gap),
            ("total".to_owned(), total),
            ("long".to_owned(), long),
            ("short".to_owned(), short),
        ]);
        all.extend(groups);
        for strategy in self.held.keys().map(|owner| owner.1.as_str()) {
            let legs = self.after_any_leaves(Some(strategy)).into_iter();
            let sum = legs
                .into_iter()
                .try_fold(Rat::zero(), |sum, (symbol, [long, short])| {
                    Some(sum.plus(&larger(&long, &short).times(&self.price(&symbol)?)))
                });
            all.push((format!("of {strategy}"), sum?));
        }
        for (owner, size) in &self.held {
            if !size.is_zero() && self.is_one_trade(owner) {
                all.push((trade(owner, size.is_positive()), self.loss(Some(owner))?));
            }
        }
        let count = self.held.values().filter(|size| !size.is_zero()).count();
        all.push(("positions".to_owned(), Rat::of(&count.to_string())));
        Some(all)
    }

    /// Whether no fill of the owner went against the rest; that would belong to the next trade.
    fn is_one_trade(&self, owner: &Owner) -> bool {
        let held = self
            .sums
            .memory
            .paper
            .held
            .get(owner)
            .map(|(size, _)| size.is_positive());
        let filled = self
            .filled
            .iter()
            .filter(|order| order.owner == *owner)
            .map(|order| order.buys);
        let sides: Vec<bool> = held.into_iter().chain(filled).collect();
        sides.windows(2).all(|pair| pair[0] == pair[1])
    }

    /// Returns, by symbol, the most that is held long and the most that is held short in any future
    /// in which some of the legs have left and the others have not, net over the legs that stay.
    fn after_any_leaves(&self, strategy: Option<&str>) -> BTreeMap<String, [Rat; 2]> {
        let mut legs: BTreeMap<String, Vec<&Rat>> = BTreeMap::new();
        for (owner, size) in &self.held {
            if strategy.is_none_or(|name| owner.1 == name) {
                legs.entry(owner.0.clone()).or_default().push(size);
            }
        }
        let most = |legs: &[&Rat]| {
            let mut most = [Rat::zero(), Rat::zero()];
            for stay in 0..1_usize << legs.len() {
                let stays = |(nth, _): &(usize, &&Rat)| stay & (1 << nth) != 0;
                let staying = legs.iter().enumerate().filter(stays);
                let net = staying.fold(Rat::zero(), |sum, (_, size)| sum.plus(size));
                most = [larger(&most[0], &net), larger(&most[1], &net.negated())];
            }
            most
        };
        let all = legs.into_iter();
        all.map(|(symbol, legs)| (symbol, most(&legs))).collect()
    }

    /// Returns the money of one unit: at the ask, or at the highest price at which a part of the
    /// symbol filled.
    fn price(&self, symbol: &str) -> Option<Rat> {
        let filled = self.filled.iter().filter(|order| order.owner.0 == symbol);
        let own = filled.filter_map(|order| Terms::of(order).own);
        let floor = self.floor.iter().filter(|(of, _)| of == symbol);
        let price = own
            .chain(floor.map(|(_, price)| price.clone()))
            .fold(self.sums.fresh(symbol)?.ask, |price, own| {
                larger(&price, &own)
            });
        Some(price.times(&self.sums.multiplier(symbol)?))
    }

    /// Returns how far buying back what was sold exceeds the cash.
    fn cash_short(&self) -> Option<Rat> {
        let shorts = self.held.iter().filter(|(_, size)| size.is_negative());
        shorts
            .into_iter()
            .try_fold(self.cash.negated(), |short, (owner, size)| {
                let back = self.sums.fresh(&owner.0)?.ask.times(&size.abs());
                Some(short.plus(&back.times(&self.sums.multiplier(&owner.0)?)))
            })
    }

    /// Returns how much equity falls if every stop, of all owners or of one, is hit now, with
    /// slippage and fees; a position without a stop is lost completely.
    fn loss(&self, of: Option<&Owner>) -> Option<Rat> {
        let (sums, paper) = (&self.sums, &self.sums.memory.paper);
        let mut loss = Rat::zero();
        for (owner, (size, _)) in paper
            .held
            .iter()
            .filter(|(owner, _)| of.is_none_or(|of| *owner == of))
        {
            let (is_long, mark) = (size.is_positive(), sums.mark(&owner.0, size.is_positive())?);
            let stops = paper
                .orders
                .iter()
                .filter(|it| it.role == Role::Stop && it.owner == *owner);
            let mut bare = size.abs();
            for stop in stops.filter(|it| it.buys != is_long) {
                let covered = smaller(&stop.leaves(), &bare);
                bare = bare.minus(&covered);
                let trigger = stop.trigger.as_ref()?;
                // A stop that the market has passed is hit at the market.
                let out = if is_long {
                    smaller(trigger, &mark)
                } else {
                    larger(trigger, &mark)
                };
                loss = loss.plus(&self.leave(&owner.0, &mark, &out, &covered, is_long)?);
            }
            loss = loss.plus(&bare.times(&mark).times(&sums.multiplier(&owner.0)?));
        }
        for order in self
            .filled
            .iter()
            .filter(|order| of.is_none_or(|of| order.owner == *of))
        {
            let worst = Self::entered_at(sums, order)?;
            let trigger = paper.find((order.id.0, STOP))?.trigger.clone()?;
            let fee = worst
                .times(&order.leaves())
                .times(&sums.multiplier(&order.owner.0)?);
            let fee = fee.times(&r(*sums.rule(&order.owner.0)?.taker_fee));
            let out = self.leave(
                &order.owner.0,
                &worst,
                &trigger,
                &order.leaves(),
                order.buys,
            )?;
            loss = loss.plus(&out).plus(&fee);
        }
        Some(loss)
    }

    fn leave(
        &self,
        symbol: &str,
        from: &Rat,
        stop: &Rat,
        size: &Rat,
        is_long: bool,
    ) -> Option<Rat> {
        let slipped = worse(stop, !is_long, &r(*self.sums.rules.safety.stop_slippage));
        let lost = if is_long {
            from.minus(&slipped)
        } else {
            slipped.minus(from)
        };
        let fee = stop.times(&r(*self.sums.rule(symbol)?.taker_fee));
        Some(
            lost.plus(&fee)
                .times(size)
                .times(&self.sums.multiplier(symbol)?),
        )
    }
}

/// After an accepted entry, whatever fills, each limit holds or the path is no worse than an
/// earlier one.
pub(super) fn hold(judge: &Judge, before: &Option<Worst>, context: &str) {
    let sums = judge.sums;
    let (rules, order) = (sums.rules, judge.order);
    let after = worst(sums.memory, rules, judge.around.now_ms, &judge.floor()).unwrap();
    let safety = &rules.safety;
    let base = sums.base().unwrap().times(&judge.around.factor);
    let of_base = |fraction| Some(base.times(&r(fraction)));
    let owner = owner_of(order);
    let rule = sums.rule(&owner.0).unwrap();
    let strategy = &rules.strategies[&order.strategy];
    let direction = if judge.buys() { "long" } else { "short" };
    let left = judge.left_to_lose().unwrap();
    let total = safety.max_total_exposure;
    let portfolio = of_base(*safety.max_portfolio_risk).unwrap();
    let limits = [
        (
            format!("position {}", owner.0),
            of_base(*safety.max_single_position),
        ),
        ("total".to_owned(), of_base(*total)),
        (
            direction.to_owned(),
            of_base(*safety.max_same_direction_exposure.unwrap_or(total)),
        ),
        (
            format!("group {}", rule.group.clone().unwrap_or_default()),
            rule.group
                .as_ref()
                .and_then(|_| of_base(*safety.max_correlated_group.unwrap_or(total))),
        ),
        (
            format!("of {}", owner.1),
            strategy.allocation.and_then(|share| of_base(*share)),
        ),
        (
            trade(&owner, judge.buys()),
            of_base(*safety.max_single_trade_risk),
        ),
        ("loss".to_owned(), Some(smaller(&portfolio, &left))),
        ("gap".to_owned(), judge.week_left()),
        ("cash short".to_owned(), Some(Rat::zero())),
        (
            "positions".to_owned(),
            Some(Rat::of(&safety.max_open_positions.to_string())),
        ),
    ];
    for (what, limit) in limits {
        let (Some(limit), Some(now)) = (limit, after.get(&what)) else {
            continue;
        };
        let then = before.as_ref().and_then(|before| before.get(&what));
        // A path with more risk is never accepted, whatever was there before.
        let may_stay =
            !matches!(what.as_str(), "loss" | "cash short") && !what.starts_with("trade ");
        let is_no_worse = may_stay && then.is_some_and(|then| now <= then);
        assert!(
            *now <= limit || is_no_worse,
            "{context}: {what} may come to {}, the limit is {}\n{order:?}\nopen: {:?}\nheld: \
                {:?}\nmarket {:?}",
            now.text(10),
            limit.text(10),
            sums.memory.paper.orders,
            sums.memory.paper.held,
            sums.fresh(&owner.0)
        );
    }
}
