//! The effect of a rule in R, by the UTC day on which its events opened: the interval of the total,
//! and the verdict. One R is the risk of the blocked order (the field `order.risk`).
//!
//! Effects are whole numbers of 10^-8 R, so sums and intervals are exact.

use std::collections::BTreeMap;

use rust_decimal::prelude::ToPrimitive;
use rust_decimal::{Decimal, RoundingStrategy};
use serde::Serialize;

use spoolgate_council::evidence::stats::draws::SplitMix64;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::RuleId;
use spoolgate_wire::signing::sha256_hex;
use spoolgate_wire::time::Time;

/// Minimum number of closed events for a verdict, unless the rule's hypothesis sets another.
pub const SAMPLE_MIN: u64 = 30;
/// Minimum number of UTC days on which these events opened.
pub const DAYS_MIN: u64 = 20;
/// An effect is at most this many R, and at least minus this many.
const EFFECT_MAX: i64 = 10;
/// Decimals of an effect, rounded half to even.
const PLACES: u32 = 8;
/// One R in units of an effect.
const R: i64 = 100_000_000;
/// How often the days are resampled.
const SAMPLES: usize = 10_000;
/// Indices of the ends of the interval among the sorted totals: the 250th and the 9,751st.
const ENDS: (usize, usize) = (249, 9_750);

spoolgate_wire::named! {
    /// The verdict on a rule.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    pub enum Verdict {
        /// What it blocks loses money.
        Validated = "VALIDATED",
        /// Too few events, or too close.
        Inconclusive = "INCONCLUSIVE",
        /// What it blocked lost money, and what it blocks now does not.
        Degrading = "DEGRADING",
        /// What it blocks makes money.
        Harmful = "HARMFUL",
    }
}

/// The effect of one event, in units of 10^-8 R.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Effect(i64);

impl Effect {
    /// Computes `(instead - blocked) / risk`, at most 10 and at least -10. `None` if the risk is not
    /// above 0, or the difference of the results cannot be held exactly.
    pub fn of(blocked: Amount, instead: Amount, risk: Amount) -> Option<Effect> {
        let difference = instead.checked_sub(blocked)?;
        if !risk.is_positive() {
            return None;
        }
        let most = risk.checked_mul(Amount::from_i64(EFFECT_MAX));
        if most.is_some_and(|most| difference.abs() >= most) {
            let most = EFFECT_MAX.checked_mul(R)?;
            let is_gain = difference.is_positive();
            return Some(Effect(if is_gain { most } else { most.checked_neg()? }));
        }
        let share = difference.decimal().checked_div(risk.decimal())?;
        let share = share.round_dp_with_strategy(PLACES, RoundingStrategy::MidpointNearestEven);
        let units = share.checked_mul(Decimal::from(R))?;
        units.to_i64().map(Effect)
    }
}

/// Effects of the events that opened on one day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Day {
    closed: u64,
    /// Sum of the effects, in their units.
    sum: i128,
}

/// Effects by the UTC day on which their events opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Days(BTreeMap<Time, Day>);

impl Days {
    /// Adds the effect of an event that opened at this time.
    pub fn add(&mut self, opened: Time, effect: Effect) {
        let day = self.0.entry(opened.day_start()).or_default();
        day.closed = day.closed.saturating_add(1);
        day.sum = day.sum.saturating_add(i128::from(effect.0));
    }

    /// Adds all effects of another one.
    pub fn add_all(&mut self, other: &Days) {
        for (time, more) in &other.0 {
            let day = self.0.entry(*time).or_default();
            day.closed = day.closed.saturating_add(more.closed);
            day.sum = day.sum.saturating_add(more.sum);
        }
    }

    /// Returns the number of days.
    pub fn count(&self) -> u64 {
        u64::try_from(self.0.len()).unwrap_or(u64::MAX)
    }

    /// Returns the sum of the effects, R. `None` without events.
    pub fn effect(&self) -> Option<Amount> {
        amount(total(&self.days())).filter(|_| !self.0.is_empty())
    }

    /// Returns the interval of the sum at 95%, R: the days are drawn 10,000 times, each time as many
    /// as there are, with replacement. The rule's id seeds the draws. `None` without events.
    pub fn interval(&self, rule: &RuleId) -> Option<(Amount, Amount)> {
        let (low, high) = interval(&self.days(), rule)?;
        Some((amount(low)?, amount(high)?))
    }

    /// Returns the verdict on the rule. `sample_min` is the minimum number of closed events.
    pub fn verdict(&self, rule: &RuleId, sample_min: u64) -> Verdict {
        let days = self.days();
        let all = judged(&days, rule, sample_min);
        let (older, newer) = days.split_at(days.len() / 2);
        match all {
            Verdict::Harmful => Verdict::Harmful,
            _ if total(newer) < 0 && judged(older, rule, sample_min) == Verdict::Validated => {
                Verdict::Degrading
            }
            verdict => verdict,
        }
    }

    /// Returns the days in order of time.
    fn days(&self) -> Vec<Day> {
        self.0.values().copied().collect()
    }
}

/// Returns the verdict on these days as a whole.
fn judged(days: &[Day], rule: &RuleId, sample_min: u64) -> Verdict {
    let closed = days
        .iter()
        .fold(0_u64, |sum, day| sum.saturating_add(day.closed));
    let has_days = u64::try_from(days.len()).is_ok_and(|count| count >= DAYS_MIN);
    if closed < sample_min || !has_days {
        return Verdict::Inconclusive;
    }
    match interval(days, rule) {
        Some((low, _)) if low > 0 => Verdict::Validated,
        Some((_, high)) if high < 0 => Verdict::Harmful,
        Some(_) | None => Verdict::Inconclusive,
    }
}

fn total(days: &[Day]) -> i128 {
    days.iter()
        .fold(0, |sum: i128, day| sum.saturating_add(day.sum))
}

fn interval(days: &[Day], rule: &RuleId) -> Option<(i128, i128)> {
    let mut draws = draws_of(rule);
    let mut totals: Vec<i128> = (0..SAMPLES)
        .map(|_| {
            (0..days.len()).fold(0, |sum: i128, _| {
                let drawn = days.get(draws.below(days.len()));
                sum.saturating_add(drawn.map_or(0, |day| day.sum))
            })
        })
        .collect();
    totals.sort_unstable();
    let (low, high) = ENDS;
    Some((*totals.get(low)?, *totals.get(high)?)).filter(|_| !days.is_empty())
}

/// Returns units of 10^-8 R as R.
fn amount(units: i128) -> Option<Amount> {
    let number = Decimal::try_from_i128_with_scale(units, PLACES).ok()?;
    Amount::parse_exact(&number.normalize().to_string()).ok()
}

/// Returns the draws of a rule, from the first 8 bytes of the SHA-256 of its id, the highest byte
/// first.
fn draws_of(rule: &RuleId) -> SplitMix64 {
    let digest = sha256_hex(rule.as_str().as_bytes());
    let first = digest
        .get(..16)
        .and_then(|hex| u64::from_str_radix(hex, 16).ok());
    SplitMix64::seeded(first.unwrap_or(0))
}

#[cfg(test)]
mod tests;
