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
    /// then.
    ///
    /// # Errors
    /// Returns [`SettleError`] if the task is settled finally, or if its own key may not report
    /// this.
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
        // A sum that cannot be represented is far beyond every budget already, and stays.
        let usd = self.tree.left.usd.map(|left| {
            let more = spent.usd.checked_sub(counted.usd);
            more.and_then(|more| left.checked_sub(more)).unwrap_or(left)
        });
        let tokens = self.tree.left.tokens.map(|left| {
            // Neither is below 0, so the difference fits.
            left.saturating_sub(spent.tokens.saturating_sub(counted.tokens))
        });
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
