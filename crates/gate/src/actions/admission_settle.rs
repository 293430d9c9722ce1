//! `admission.settle`: what a task has spent.

use super::prelude::*;
use spoolgate_admission::lineage;
use spoolgate_wire::admission::{Settle, Spent, receipt_line};
use spoolgate_wire::amount::Amount;

/// Reports what an admitted task has spent.
pub struct AdmissionSettle;

/// The answer.
#[derive(Serialize, JsonSchema)]
pub struct Answer<'a> {
    /// The receipt of the task's ALLOW.
    receipt_id: &'a str,
    /// What the task counts as having spent now.
    spent: Spent,
    /// The rest of its tree's budgets.
    tree: TreeLeft,
}

/// The rest of a tree's budgets. A member is null where no budget limits it.
#[derive(Serialize, JsonSchema)]
pub struct TreeLeft {
    /// Tasks.
    tasks_left: Option<i64>,
    /// Money, USD.
    usd_left: Option<Amount>,
    /// Tokens.
    tokens_left: Option<i64>,
    /// Whole seconds until the tree is too old; below 0 if it is.
    seconds_left: Option<i64>,
}

impl Action for AdmissionSettle {
    type Payload = Settle;
    type Answer = Answer<'static>;
    const ABOUT: &'static str = "Reports what an admitted task has spent.";
    const CONDITIONS: &'static [Condition] = &[DIGITS, WHOLE, LINE];
    const ROW: Row = Row::new(
        ActionName::AdmissionSettle,
        "SettleTask",
        "receipt_id, spent",
        SPEAKERS,
    )
    .rate(Rate::Protected)
    .tool(
        "interrogate_settle",
        "Admission: settle",
        "Report what an admitted task has spent so far, all in all. Your own task can only report \
            more than it has reserved.",
    );

    fn check(settle: &Settle) -> Result<(), PayloadError> {
        settle.check()
    }

    fn needs(_: &Rulebook, _: &Authentic, settle: &Settle, needs: &mut Needs) {
        needs.task = receipt_line(&settle.receipt_id);
    }

    fn execute(turn: &Turn<'_>, sender: &Authentic, settle: &Settle) -> Result<Outcome, Refusal> {
        let (settled, tree) = turn.settlement(&sender.envelope.source, settle)?;
        let tree = TreeLeft {
            tasks_left: tree.budget,
            usd_left: settled.left.usd,
            tokens_left: settled.left.tokens,
            seconds_left: turn.seconds_left(tree),
        };
        Ok(Outcome {
            data: data(&Answer {
                receipt_id: &settle.receipt_id,
                spent: settle.spent,
                tree,
            })?,
            changes: vec![Change::Admission(lineage::Change::Settled(Box::new(
                settled,
            )))],
            ..Outcome::default()
        })
    }
}
