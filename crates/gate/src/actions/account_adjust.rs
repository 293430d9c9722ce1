//! `account.adjust`.

use super::prelude::*;
use spoolgate_trading as trading;
use spoolgate_wire::admin::AdjustAccount;
use spoolgate_wire::amount::Amount;

/// Books a deposit or a withdrawal.
pub struct AccountAdjust;

/// The answer.
#[derive(Serialize, JsonSchema)]
pub enum Answer {
    /// The answer to `account.adjust`.
    AccountAdjusted {
        /// Cash afterwards, account currency.
        cash: Amount,
    },
}

impl Action for AccountAdjust {
    type Payload = AdjustAccount;
    type Answer = Answer;
    const ABOUT: &'static str = "Books a deposit or withdrawal.";
    const CONDITIONS: &'static [Condition] = &[DIGITS, BYTES];
    const ROW: Row = Row::new(
        ActionName::AccountAdjust,
        "AdjustAccount",
        "amount, reason",
        HUMAN,
    )
    .lane(Lane::Control);

    fn check(adjust: &AdjustAccount) -> Result<(), PayloadError> {
        check_reason(&adjust.reason)
    }

    fn execute(turn: &Turn<'_>, _: &Authentic, adjust: &AdjustAccount) -> Result<Outcome, Refusal> {
        let conflict = |what: String| Refusal::new(Code::StateConflict, what);
        let account = &turn.state.book.account;
        if adjust.amount.is_zero() {
            return Err(conflict("an adjustment of 0 changes nothing".to_owned()));
        }
        let cash = account
            .cash
            .checked_add(adjust.amount)
            .filter(|cash| !cash.is_negative())
            .ok_or_else(|| {
                conflict(format!(
                    "the account holds {}; an adjustment of {} would leave less than 0",
                    account.cash, adjust.amount
                ))
            })?;
        let free = match &adjust.amount {
            amount if amount.is_negative() => turn.free_cash().map_err(conflict)?,
            _ => account.cash,
        };
        if free
            .checked_add(adjust.amount)
            .is_none_or(Amount::is_negative)
        {
            return Err(conflict(format!(
                "{free} of the account's {} are free; shorts and working entries need the rest",
                account.cash
            )));
        }
        let data = data(&Answer::AccountAdjusted { cash })?;
        let change = trading::Change::AccountAdjusted {
            amount: adjust.amount,
        };
        // Net deposits and the peak move too, and must be held as exactly as cash.
        turn.state
            .book
            .clone()
            .apply(&change)
            .map_err(|error| conflict(error.to_string()))?;
        Ok(Outcome {
            data,
            changes: vec![Change::Book(change)],
            ..Outcome::default()
        })
    }
}

impl Turn<'_> {
    /// Returns the cash that neither shorts nor working entries need, or why it is unknown.
    fn free_cash(&self) -> Result<Amount, String> {
        let sums = trading::sums::Sums::new(&self.state.book, self.rules, self.now);
        sums.free().map_err(|row| {
            let why = row.reason.as_deref().unwrap_or("it cannot be computed");
            format!("the free cash is unknown: {why}")
        })
    }
}
