//! `admission.settle`: what a task has spent replaces what it had reserved.
//!
//! A settler's word is final and gives back what was not spent. The key that requested the task may
//! only report more than what counts already, so that nobody gains by reporting less than the truth.

use super::lineage::{Funds, Settled, Tree};
use spoolgate_wire::admission::Spent;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{DomainPart, Principal, RequestId};

/// How often the key that requested a task may settle it.
pub const RAISES_MAX: u32 = 8;

/// An admitted task, as the ledger has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// The tenant that owns its tree.
    pub tenant: DomainPart,
    /// The name of its tree.
    pub root: RequestId,
    /// Its id.
    pub task: RequestId,
    /// Who requested it; `None` if the ledger does not say.
    pub by: Option<Principal>,
    /// What it has reserved.
    pub reserved: Funds,
    /// Its last settlement.
    pub settlement: Option<Settlement>,
    /// Its tree.
    pub tree: Tree,
}

/// The last settlement of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// What it has spent.
    pub spent: Spent,
    /// Whether a settler said so.
    pub is_final: bool,
    /// How often the task's own key has settled it.
    pub raises: u32,
}

/// The right by which a principal settles a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// The profile of its tree names the principal.
    Settler,
    /// The principal requested the task.
    Own,
}

/// Why a settlement is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettleError {
    /// A settler has settled it.
    #[error(
        "the task is settled: a settler has reported {usd} USD and {tokens} tokens",
        usd = .0.usd, tokens = .0.tokens
    )]
    Final(Spent),
    /// The task's own key reports less than what counts.
    #[error(
        "the task counts as {usd} USD and {tokens} tokens; its own key may only report more, and \
            a settler of the profile less",
        usd = .0.usd, tokens = .0.tokens
    )]
    Less(Spent),
    /// The task's own key has settled it as often as it may.
    #[error(
        "the task's own key has settled it {RAISES_MAX} times; only a settler of the profile may \
            settle it now"
    )]
    TooOften,
    /// What would be left of the tree's budget cannot be represented.
    #[error("what would be left of the tree's budget cannot be represented; nothing is settled")]
    Beyond,
}

impl Task {
    /// Returns what counts as spent: the last settlement, or what the task has reserved.
    pub fn counts_as(&self) -> Spent {
        self.settlement.map_or(
            Spent {
                usd: self.reserved.usd.unwrap_or(Amount::ZERO),
                tokens: self.reserved.tokens.unwrap_or(0),
            },
            |settlement| settlement.spent,
        )
    }

    /// Settles the task. No budget refuses it: a tree that has spent more than it had is below 0
    /// then. A budget that the tree got after the task was admitted does not concern the task.
    ///
    /// # Errors
    /// Returns [`SettleError`] if the task is settled finally, if its own key may not report
    /// this, or if the rest of a budget would not be exact.
    pub fn settle(&self, spent: Spent, right: Right) -> Result<Settled, SettleError> {
        let counted = self.counts_as();
        let raises = self.settlement.map_or(0, |settlement| settlement.raises);
        if self
            .settlement
            .is_some_and(|settlement| settlement.is_final)
        {
            return Err(SettleError::Final(counted));
        }
        let raises = match right {
            Right::Settler => raises,
            Right::Own if spent.usd < counted.usd || spent.tokens < counted.tokens => {
                return Err(SettleError::Less(counted));
            }
            Right::Own if raises >= RAISES_MAX => return Err(SettleError::TooOften),
            Right::Own => raises.saturating_add(1),
        };
        let Funds { usd, tokens } = self.tree.left;
        let usd = rest(usd, self.reserved.usd, |left| {
            left.checked_sub(spent.usd.checked_sub(counted.usd)?)
        })?;
        let tokens = rest(tokens, self.reserved.tokens, |left| {
            left.checked_sub(spent.tokens.checked_sub(counted.tokens)?)
        })?;
        Ok(Settled {
            tenant: self.tenant.clone(),
            root: self.root.clone(),
            task: self.task.clone(),
            usd: spent.usd,
            tokens: spent.tokens,
            is_final: right == Right::Settler,
            raises,
            left: Funds { usd, tokens },
        })
    }
}

/// Returns what is left of a budget after a settlement. A task that reserved nothing of the budget was
/// admitted before the tree had it, so its settlement leaves the budget alone.
fn rest<T>(
    left: Option<T>,
    reserved: Option<T>,
    settle: impl FnOnce(T) -> Option<T>,
) -> Result<Option<T>, SettleError> {
    match (left, reserved) {
        (Some(left), Some(_)) => settle(left).map(Some).ok_or(SettleError::Beyond),
        (left, _) => Ok(left),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(left: Funds, reserved: Funds) -> Task {
        let id = |text| RequestId::parse(text).unwrap();
        Task {
            tenant: DomainPart::parse("t").unwrap(),
            root: id("T"),
            task: id("a"),
            by: None,
            reserved,
            settlement: None,
            tree: Tree {
                task: id("a"),
                budget: None,
                descendants: 0,
                binding: None,
                left,
            },
        }
    }

    fn funds(usd: &str, tokens: i64) -> Funds {
        Funds {
            usd: Some(Amount::parse_exact(usd).unwrap()),
            tokens: Some(tokens),
        }
    }

    fn spent(usd: &str, tokens: i64) -> Spent {
        let usd = Amount::parse_exact(usd).unwrap();
        Spent { usd, tokens }
    }

    #[test]
    fn a_rest_is_exact_or_the_settlement_is_refused() {
        for (left, settles) in [(i64::MIN + 4, true), (i64::MIN + 3, false)] {
            let settled = task(funds("1", left), funds("0", 1)).settle(spent("0", 5), Right::Own);
            let left = settled.map(|settled| settled.left.tokens);
            let expected = if settles {
                Ok(Some(i64::MIN))
            } else {
                Err(SettleError::Beyond)
            };
            assert_eq!(left, expected);
        }
    }

    #[test]
    fn a_task_from_before_a_budget_neither_gives_nor_takes() {
        let left = funds("0.70", 7);
        let before = task(left, Funds::default());
        for (usd, tokens) in [("0", 0), ("0.40", 4), ("5", 50)] {
            let settled = before.settle(spent(usd, tokens), Right::Settler).unwrap();
            assert_eq!(settled.left, left);
        }
        // Also after its own key has reported more than nothing.
        let settlement = Some(Settlement {
            spent: spent("5", 50),
            is_final: false,
            raises: 1,
        });
        let raised = Task {
            settlement,
            ..before
        };
        let settled = raised.settle(spent("0", 0), Right::Settler).unwrap();
        assert_eq!(settled.left, left);
        // Each budget by itself.
        let reserved = Funds {
            usd: None,
            tokens: Some(1),
        };
        let half = task(left, reserved).settle(spent("0.40", 4), Right::Settler);
        assert_eq!(half.unwrap().left, funds("0.70", 4));
    }
}
