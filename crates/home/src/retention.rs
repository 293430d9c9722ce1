//! Removes the files of answers that `rules/retention.yaml` no longer keeps. The ledger says how
//! old an answer is: the times of files can be changed by those who read them. Council decisions
//! (`.decision.json`) are no answers to actions, and no id of a request ends so.

use super::core::Core;
use super::error::HomeError;
use super::open::Home;
use super::socket::is_through_socket;
use spoolgate_gate::Record;
use spoolgate_gate::record::Status;
use spoolgate_host::spool::publish;
use spoolgate_ledger::LedgerError;
use spoolgate_rules::gateway::ACTIONS;
use spoolgate_wire::approvals::HoldId;

/// Answers that one round removes.
const REMOVED_AT_ONCE: usize = 64;

impl Core {
    /// Returns the time, in milliseconds, from which on answers to outgoing actions are kept; `None`
    /// if all are. While the clock is in doubt nothing counts as old.
    fn answers_kept_from(&self) -> Option<i64> {
        let kept_s = self.rulebook.retention?.outgoing_answers_s;
        if self.state.clock_fault().is_some() {
            return None;
        }
        let kept_ms = i64::from(*kept_s).saturating_mul(1000);
        Some(self.ledger_now().ms().saturating_sub(kept_ms))
    }

    /// Reports whether a line answers an outgoing action, and the answer is kept no longer.
    pub(super) fn is_past_keeping(&self, record: &Record) -> bool {
        let is_of_action = match record {
            Record::Response(_) => true,
            Record::Decision(line) => {
                let action = line.action.as_deref();
                action.is_some_and(|action| ACTIONS.contains(&action))
            }
            _ => false,
        };
        let kept_from = || self.answers_kept_from();
        is_of_action && kept_from().is_some_and(|from| record.timestamp().ms() < from)
    }

    /// Removes the files of the answer that a line gives.
    fn remove_answer(&self, seq: u64) -> Result<(), HomeError> {
        let places: Vec<String> = match self.record(seq) {
            Ok((_, Record::Response(line))) => line.answers().map(str::to_owned).collect(),
            // It says when the hold ends.
            Ok((_, Record::Decision(line)))
                if line.status == Status::Held
                    && self.state.approvals.get(HoldId(seq)).is_some() =>
            {
                Vec::new()
            }
            Ok((_, Record::Decision(line))) => vec![line.answer],
            Ok(_) | Err(HomeError::Ledger(LedgerError::Pruned(_))) => Vec::new(),
            Err(error) => return Err(error),
        };
        for place in places {
            if !is_through_socket(&place) {
                self.remove_derived(&publish::path_of(&place))?;
            }
        }
        Ok(())
    }
}

impl Home {
    /// Removes some of the answers that are kept no longer, and goes on there next time. A start
    /// begins with the first line again.
    ///
    /// # Errors
    /// Returns [`HomeError`] if the index, a line or the spool fails.
    pub(super) fn remove_old_answers(&mut self) -> Result<(), HomeError> {
        let Some(before) = self.core.answers_kept_from() else {
            return Ok(());
        };
        let from = self.outside.answers_removed_to;
        let (lines, next) = self
            .core
            .store
            .answers_before(from, before, REMOVED_AT_ONCE)?;
        for seq in lines {
            self.core.remove_answer(seq)?;
        }
        self.outside.answers_removed_to = next;
        Ok(())
    }
}
