//! What a task reserves of its tree's budgets of money and tokens, and the tree's age.

use std::collections::BTreeMap;
use std::fmt::Display;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::evaluate::{Question, Rows, least};
use super::lineage::Funds;
use super::receipt::Reason;
use spoolgate_rules::admission::Profile;
use spoolgate_wire::amount::{self, Amount};
use spoolgate_wire::checks::CheckRow;
use spoolgate_wire::sealed::value_at;
use spoolgate_wire::time::Time;

/// The budgets of a tree around one task.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Budgets {
    /// The rest before the task.
    pub(crate) before: Funds,
    /// What the task reserves.
    pub(crate) reserved: Funds,
    /// The rest once the task is admitted.
    pub(crate) after: Funds,
    /// Whole seconds until the tree is too old.
    pub(crate) seconds_left: Option<i64>,
}

/// A member of `payload.budget`, or why that cannot be read.
type Declared<T> = Result<Option<T>, &'static str>;

/// Checks the tree's age and its budgets, in the order of [`Reason`].
pub(crate) fn check(
    rows: &mut Rows,
    question: &Question<'_>,
    is_root: bool,
    limits: &[&Profile],
    path: &str,
) -> Budgets {
    let seconds_left = age(rows, question, is_root, limits, path);
    let tree = question.lineage.tree.as_ref();
    let held = tree.map(|tree| tree.left).unwrap_or_default();
    let before = Funds {
        usd: held.usd.or_else(|| {
            let issued = limits.iter().filter_map(|profile| profile.budget_usd);
            issued.min().map(|budget| budget.get())
        }),
        tokens: held.tokens.or_else(|| {
            let issued = least(limits, |profile| profile.budget_tokens.map(|n| n.get()));
            i64::try_from(issued?).ok()
        }),
    };
    let (mut reserved, mut after) = (Funds::default(), Funds::default());
    let declared = declared(question.payload);
    if let Some(left) = before.usd {
        let most = limits
            .iter()
            .filter_map(|profile| profile.reserve_usd)
            .max();
        let most = most.map_or(Amount::ZERO, |reserve| reserve.get());
        let declared = declared.map(|it| it.usd);
        let taken = take(left, most, declared, Amount::checked_sub);
        (reserved.usd, after.usd) = (taken.reserved, taken.after);
        let row = CheckRow::measured(reserved.usd, Some(left), "usd", path.to_owned());
        rows.push(Reason::MoneyExhausted, row.unless_fault(taken.fault));
    }
    if let Some(left) = before.tokens {
        let most = limits.iter().filter_map(|profile| profile.reserve_tokens);
        let most = most.max().map_or(0, |reserve| reserve.get());
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let declared = declared.map(|it| it.tokens);
        let taken = take(left, most, declared, i64::checked_sub);
        (reserved.tokens, after.tokens) = (taken.reserved, taken.after);
        let value = reserved.tokens.map(Amount::from_i64);
        let limit = Some(Amount::from_i64(left));
        let row = CheckRow::measured(value, limit, "tokens", path.to_owned());
        rows.push(Reason::TokensExhausted, row.unless_fault(taken.fault));
    }
    Budgets {
        before,
        reserved,
        after,
        seconds_left,
    }
}

/// What a task takes from one budget.
struct Taken<T> {
    reserved: Option<T>,
    after: Option<T>,
    /// Why the budget does not allow it.
    fault: Option<String>,
}

/// Reserves the larger of what the profile demands and what the payload declares.
fn take<T: Copy + Ord + Display>(
    left: T,
    demanded: T,
    declared: Declared<T>,
    minus: impl Fn(T, T) -> Option<T>,
) -> Taken<T> {
    let reserved = declared.map(|declared| declared.map_or(demanded, |own| own.max(demanded)));
    let after = reserved.ok().filter(|reserved| *reserved <= left);
    let after = after.and_then(|reserved| minus(left, reserved));
    let fault = match (reserved, after) {
        (_, Some(_)) => None,
        (Ok(reserved), None) => Some(format!(
            "the task reserves {reserved}, and {left} is left of the tree's budget"
        )),
        (Err(fault), None) => Some(fault.to_owned()),
    };
    Taken {
        reserved: reserved.ok(),
        after,
        fault,
    }
}

/// Returns `payload.budget`.
fn declared(payload: &str) -> Result<Funds, &'static str> {
    #[derive(Deserialize)]
    struct Usd(#[serde(deserialize_with = "amount::wire::required")] Amount);

    let mut declared = Funds::default();
    let Some(budget) = value_at(payload, "/budget") else {
        return Ok(declared);
    };
    let members: BTreeMap<String, &RawValue> =
        serde_json::from_str(budget).map_err(|_| "`payload.budget` is not an object")?;
    for (name, value) in members {
        match name.as_str() {
            "usd" => {
                let usd = serde_json::from_str(value.get()).ok().map(|Usd(usd)| usd);
                declared.usd = Some(
                    usd.filter(|usd| !usd.is_negative())
                        .ok_or("`payload.budget.usd` is not an amount that is not below 0")?,
                );
            }
            "tokens" => {
                let tokens: Option<i64> = serde_json::from_str(value.get()).ok();
                declared.tokens =
                    Some(tokens.filter(|tokens| *tokens >= 0).ok_or(
                        "`payload.budget.tokens` is not a whole number that is not below 0",
                    )?);
            }
            _ => return Err("`payload.budget` has a member besides `usd` and `tokens`"),
        }
    }
    Ok(declared)
}

/// Checks how old the tree is, and returns the whole seconds that it has left.
fn age(
    rows: &mut Rows,
    question: &Question<'_>,
    is_root: bool,
    limits: &[&Profile],
    path: &str,
) -> Option<i64> {
    let max_s = limits.iter().filter_map(|profile| profile.max_tree_age_s);
    let max_s = max_s.map(|max| max.get()).min()?;
    let since = match (is_root, &question.lineage.tree) {
        (true, _) => Some(question.now),
        (false, None) => None,
        (false, Some(tree)) => {
            let since = tree.binding.as_ref().map(|binding| binding.since);
            Some(since.unwrap_or(question.now))
        }
    };
    let (age_ms, max_ms) = (
        since.map(|since| age_ms(since, question.now)),
        max_ms(max_s),
    );
    let fault = match age_ms {
        Some(age) if age <= max_ms => None,
        Some(age) => Some(format!("{age} ms since the root; at most {max_ms}")),
        None => Some("cannot be computed: the tree is unknown".to_owned()),
    };
    let (value, limit) = (age_ms.map(Amount::from_i64), Amount::from_i64(max_ms));
    let row = CheckRow::measured(value, Some(limit), "ms", path.to_owned());
    rows.push(Reason::TreeExpired, row.unless_fault(fault));
    since.map(|since| seconds_left(since, question.now, max_s))
}

fn max_ms(max_s: u32) -> i64 {
    i64::from(max_s).saturating_mul(1000)
}

/// A clock that was set back makes no tree younger than its root.
fn age_ms(since: Time, now: Time) -> i64 {
    now.since_ms(since).max(0)
}

/// Returns the whole seconds until a tree is too old; below 0 if it is.
pub fn seconds_left(since: Time, now: Time, max_s: u32) -> i64 {
    let left_ms = max_ms(max_s).saturating_sub(age_ms(since, now));
    left_ms.div_euclid(1000)
}
