//! Headroom: how much of a rejected order would pass, and which check limits it.

use super::checks::{self, Subject};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::checks::CheckRow;
use spoolgate_wire::orders::Headroom;

/// Step between sizes if the instrument has no lot.
const STEP_WITHOUT_LOT: &str = "0.00000001";

/// Checks that fail small sizes and pass larger ones; all others fail from some size on.
const MINIMUMS: [&str; 3] = ["size_lot", "min_notional", "stop_hostable"];

/// The only check that can refuse one size and pass both its neighbours.
const DUPLICATE: &str = "duplicate_order";

/// How many adjacent sizes may be duplicates of recent entries.
const DUPLICATES_MAX: u64 = 8;

/// Finds the largest size that passes every check, by bisection over whole lots up to `max_size`,
/// and the check that refuses one lot more. If a check fails that does not depend on the size, the
/// size is 0 and that check binds.
pub fn headroom(subject: &Subject, rows: &[CheckRow]) -> Headroom {
    let nothing = |check: &str| Headroom {
        max_size: Amount::ZERO,
        binding_check: check.to_owned(),
    };
    let unsized_failure = rows
        .iter()
        .find(|row| row.is_root() && !checks::is_by_size(&row.name));
    if let Some(row) = unsized_failure {
        return nothing(&row.name);
    }
    let first = checks::first_failed(rows).unwrap_or("none");
    match search(subject) {
        Some(Ok(found)) => found,
        Some(Err(check)) => nothing(check),
        None => nothing(first),
    }
}

/// Like [`headroom`], if something else may refuse sizes too: `refused` names what refuses a size.
/// A returned size above 0 passes both; the size is 0 if the search finds none, even if there is
/// one. `found` is the result of [`headroom`].
pub fn headroom_under(
    subject: &Subject,
    found: Headroom,
    refused: &mut dyn FnMut(Amount) -> Option<String>,
) -> Headroom {
    if found.max_size.is_zero() {
        return found;
    }
    let Some(mut binding) = refused(found.max_size) else {
        return found;
    };
    let nothing = |check: String| Headroom {
        max_size: Amount::ZERO,
        binding_check: check,
    };
    let Some(lot) = subject
        .instrument
        .and_then(|instrument| lot_of(*instrument.lot))
    else {
        return nothing(binding);
    };
    let size_of = |lots: u64| {
        i64::try_from(lots)
            .ok()
            .and_then(|lots| Amount::from_i64(lots).checked_mul(lot))
    };
    let mut refusal = |lots: u64| match size_of(lots) {
        Some(size) => refused(size),
        None => Some("arithmetic_range".to_owned()),
    };
    if let Some(first) = refusal(1) {
        return nothing(first);
    }
    // INVARIANT: `refused` accepts `passing` lots and refuses `failing` lots; `binding` names what
    // refuses those.
    let (mut passing, mut failing) = (1, found.max_size.div_floor_count(lot).unwrap_or(1).max(2));
    while failing.saturating_sub(passing) > 1 {
        let middle = passing.saturating_add(failing.saturating_sub(passing) / 2);
        match refusal(middle) {
            None => passing = middle,
            Some(name) => (failing, binding) = (middle, name),
        }
    }
    let mut trial = subject.clone();
    for lots in (passing.saturating_sub(DUPLICATES_MAX)..=passing)
        .rev()
        .filter(|lots| *lots > 0)
    {
        let Some(size) = size_of(lots) else { break };
        trial.resize(size);
        match checks::refusal(&trial) {
            None if refused(size).is_none() => {
                return Headroom {
                    max_size: size,
                    binding_check: binding,
                };
            }
            None | Some(DUPLICATE) => {}
            Some(check) => return nothing(check.to_owned()),
        }
    }
    nothing(binding)
}

/// Returns the step in which sizes are tried.
fn lot_of(lot: Amount) -> Option<Amount> {
    if lot.is_zero() {
        Amount::parse_exact(STEP_WITHOUT_LOT).ok()
    } else {
        Some(lot)
    }
}

/// Runs the search. `Err` names the check that refuses every size; `None` if sizes cannot be
/// counted.
fn search(subject: &Subject) -> Option<Result<Headroom, &'static str>> {
    let mut trial = subject.clone();
    let capacity = subject
        .order
        .as_ref()
        .and_then(|facts| facts.capacity)
        .unwrap_or(Amount::ZERO);
    if capacity.is_positive() {
        // Closing all that is left is exempt from lot and minimum; anything larger is a flip.
        trial.resize(capacity);
        let found = Headroom {
            max_size: capacity,
            binding_check: "reduce_only".to_owned(),
        };
        return Some(checks::refusal(&trial).map_or(Ok(found), Err));
    }
    let instrument = subject.instrument?;
    let lot = lot_of(*instrument.lot)?;
    let lots_max = instrument
        .max_size
        .div_floor_count(lot)
        .unwrap_or(u64::MAX)
        .min(i64::MAX.unsigned_abs());
    let size_of = |lots: u64| {
        i64::try_from(lots)
            .ok()
            .and_then(|lots| Amount::from_i64(lots).checked_mul(lot))
    };
    // The first check that refuses this many lots as too large.
    let mut refusal = |lots: u64| match size_of(lots) {
        Some(size) => {
            trial.resize(size);
            checks::refusal_by_size(&trial, &MINIMUMS)
        }
        None => Some("arithmetic_range"),
    };
    if let Some(check) = refusal(1) {
        return Some(Err(check));
    }
    // INVARIANT: `passing` lots pass the upper limits, `failing` lots do not or are past the end.
    let (mut passing, mut failing) = (1, lots_max.saturating_add(1));
    while failing.saturating_sub(passing) > 1 {
        let middle = passing.saturating_add(failing.saturating_sub(passing) / 2);
        if refusal(middle).is_none() {
            passing = middle;
        } else {
            failing = middle;
        }
    }
    let binding = refusal(passing.saturating_add(1)).unwrap_or("max_order_size");
    for lots in (passing.saturating_sub(DUPLICATES_MAX)..=passing)
        .rev()
        .filter(|lots| *lots > 0)
    {
        let size = size_of(lots)?;
        trial.resize(size);
        match checks::refusal(&trial) {
            None => {
                return Some(Ok(Headroom {
                    max_size: size,
                    binding_check: binding.to_owned(),
                }));
            }
            Some(DUPLICATE) => {}
            Some(check) => return Some(Err(check)),
        }
    }
    Some(Err(DUPLICATE))
}
