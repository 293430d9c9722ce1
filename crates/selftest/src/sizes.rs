//! Scenarios that change the size: one lot less passes.

use super::Plan;
use super::bench::{Ask, Bench, Scratch};
use super::orders::held;
use spoolgate_wire::amount::Amount;

/// Largest size that a request can write.
const SIZE_MAX: &str = "999999999999";

fn sized(bench: &Bench<'_>, size: Amount) -> Scratch {
    bench.with_order(|order| order.size = size)
}

/// The check's result for a size: whether it refuses, and the figures that it compared.
#[derive(Clone, Copy)]
struct Said {
    refused: bool,
    value: Amount,
    limit: Amount,
}

/// `None` if the check cannot be computed: it then refuses whatever its limit is.
fn ask(bench: &Bench<'_>, check: &str, size: Amount) -> Option<Said> {
    let rows = (bench.decide)(&sized(bench, size))?.checks;
    let row = rows.iter().find(|row| row.name == check)?;
    Some(Said {
        refused: !row.passed,
        value: row.value?,
        limit: row.limit?,
    })
}

/// The smallest size that the check refuses, against one lot less.
pub(super) fn too_large(bench: &Bench<'_>, check: &str) -> Option<Plan> {
    let lot = bench.lot()?;
    let size_of = |lots: u64| lot.checked_mul(Amount::from_i64(i64::try_from(lots).ok()?));
    let ask = |lots: u64| size_of(lots).and_then(|size| ask(bench, check, size));
    let refuses = |lots: u64| ask(lots).is_some_and(|said| said.refused);
    let mut passing = bench.order.size.div_floor_count(lot)?;
    if refuses(passing) {
        return Some(Plan::Try(Box::new(bench.base.clone()), Vec::new()));
    }
    let counted = super::bench::amount(SIZE_MAX)?
        .div_floor_count(lot)
        .unwrap_or(u64::MAX);
    let most = counted.min(i64::MAX.unsigned_abs());
    let mut failing = passing;
    loop {
        if failing >= most {
            return Some(Plan::Cannot(format!(
                "an order of {SIZE_MAX}, the most that can be written, passes it"
            )));
        }
        failing = failing.saturating_mul(2).min(most);
        if refuses(failing) {
            break;
        }
        passing = failing;
    }
    // The figures of checks grow linearly with the size, so the first guess is nearly always right.
    let guess = ask(passing).zip(ask(failing)).and_then(|(low, high)| {
        let room = low
            .limit
            .checked_sub(low.value)?
            .checked_mul(whole(failing.saturating_sub(passing))?)?;
        room.div_floor_count(high.value.checked_sub(low.value)?)
            .map(|lots| lots.saturating_add(passing))
    });
    for lots in guess
        .into_iter()
        .flat_map(|lots| [lots, lots.saturating_add(1)])
    {
        if lots > passing && lots < failing {
            if refuses(lots) {
                failing = lots
            } else {
                passing = lots
            }
        }
    }
    while failing.saturating_sub(passing) > 1 {
        let middle = passing.saturating_add(failing.saturating_sub(passing) / 2);
        if refuses(middle) {
            failing = middle
        } else {
            passing = middle
        }
    }
    let (passes, trips) = (
        sized(bench, size_of(passing)?),
        sized(bench, size_of(failing)?),
    );
    Some(Plan::Try(Box::new(passes), vec![("one lot more", trips)]))
}

fn whole(count: u64) -> Option<Amount> {
    i64::try_from(count).ok().map(Amount::from_i64)
}

/// A size with half a lot, and one below the smallest size.
pub(super) fn size_lot(bench: &Bench<'_>) -> Option<Plan> {
    let instrument = bench.instrument()?;
    let half = super::bench::amount("0.5")?;
    let mut trips = Vec::new();
    if instrument.lot.is_positive() {
        let size = bench
            .order
            .size
            .checked_add(instrument.lot.checked_mul(half)?)?;
        trips.push(("half a lot more", sized(bench, size)));
    }
    if instrument.min_size.is_positive() {
        let lot = bench.lot()?;
        let below = instrument.min_size.checked_sub(lot)?;
        let below = if below.is_positive() {
            below
        } else {
            instrument.min_size.checked_mul(half)?
        };
        trips.push(("less than the smallest size", sized(bench, below)));
    }
    if trips.is_empty() {
        return Some(Plan::NotSet("neither a lot nor a smallest size"));
    }
    Some(Plan::Try(Box::new(bench.base.clone()), trips))
}

/// A size below the smallest notional.
pub(super) fn min_notional(bench: &Bench<'_>) -> Option<Plan> {
    let instrument = bench.instrument()?;
    if instrument.min_notional.is_zero() {
        return Some(Plan::NotSet("no smallest notional"));
    }
    let lot = bench.lot()?;
    let price = bench.order.price?.max(bench.market()?.ask);
    let each = price
        .checked_mul(lot)?
        .checked_mul(*instrument.multiplier)?;
    let lots = instrument.min_notional.div_floor_count(each)?;
    let mut size = lot.checked_mul(Amount::from_i64(i64::try_from(lots).ok()?))?;
    if size
        .checked_mul(price)?
        .checked_mul(*instrument.multiplier)?
        >= *instrument.min_notional
    {
        size = size.checked_sub(lot)?;
    }
    // If one lot is worth more than the smallest notional, use part of a lot.
    let part = super::bench::amount("0.0000000001")?;
    let size = if size.is_positive() { size } else { part };
    Some(Plan::Try(
        Box::new(bench.base.clone()),
        vec![("one lot less than it takes", sized(bench, size))],
    ))
}

pub(super) fn correlated_group(bench: &Bench<'_>) -> Option<Plan> {
    match bench.instrument()?.group {
        None => Some(Plan::NotSet("the instrument is in no group")),
        Some(_) => too_large(bench, "correlated_group"),
    }
}

pub(super) fn strategy_allocation(bench: &Bench<'_>) -> Option<Plan> {
    match bench.strategy()?.allocation {
        None => Some(Plan::NotSet("the strategy has no allocation")),
        Some(_) => too_large(bench, "strategy_allocation"),
    }
}

pub(super) fn liquidity_participation(bench: &Bench<'_>) -> Option<Plan> {
    match bench.rules().safety.max_volume_share {
        None => Some(Plan::NotSet("safety.yaml sets no max_volume_share")),
        Some(_) => too_large(bench, "liquidity_participation"),
    }
}

/// An exit one lot larger than the position, which would reverse it.
pub(super) fn reduce_only(bench: &Bench<'_>) -> Option<Plan> {
    let size = bench.order.size;
    let exit = |size: Amount| -> Option<Scratch> {
        Some(Scratch {
            ask: Ask::Submit(super::orders::exit(bench, size)),
            ..held(bench)?
        })
    };
    let larger = exit(size.checked_add(bench.lot()?)?)?;
    Some(Plan::Try(
        Box::new(exit(size)?),
        vec![("an exit one lot larger than the position", larger)],
    ))
}
