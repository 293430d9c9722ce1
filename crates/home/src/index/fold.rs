//! Folds one ledger line into the state and the index.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::store::{Store, StoreError};
use spoolgate_admission::lineage;
use spoolgate_gate::history;
use spoolgate_gate::outbox;
use spoolgate_gate::prepare::Origin;
use spoolgate_gate::record::{Decision, Status};
use spoolgate_gate::state::FoldError;
use spoolgate_gate::{Change, EventKind, Record, Seen, State};
use spoolgate_outgoing as actions;
use spoolgate_outgoing::open::STARTS_COUNT_FROM;
use spoolgate_trading as trading;
use spoolgate_trading::requests::ClosedOrder;

/// The recipient of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerFor {
    /// An agent, which finds the answer in the spool whenever it looks.
    Agent,
    /// A command, which takes the answer as soon as it is there.
    Command,
}

/// Lines of decisions, council decisions included, whose answers are not known to be durable.
pub type Outstanding = BTreeMap<u64, AnswerFor>;

/// Why a line cannot be folded.
#[derive(Debug, thiserror::Error)]
pub enum FoldFailure {
    /// The line does not fit the state before it.
    #[error("line {seq} does not fit the lines before it: {source}")]
    State {
        /// The number of the line.
        seq: u64,
        /// The reason.
        source: FoldError,
    },
    /// The index failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Applies line `seq` to the state and the index, and tracks answers that are not known to be
/// durable.
pub fn fold(
    state: &mut State,
    store: &Store,
    outstanding: &mut Outstanding,
    seq: u64,
    record: &Record,
) -> Result<(), FoldFailure> {
    fold_known(state, store, seq, record)?;
    match record {
        Record::Decision(decision) => {
            let to_command = Origin::from_label(&decision.spool) == Some(Origin::Local);
            // Files of cases, rules, proposals, forwarded requests and instructions are for others,
            // even if a command sent the request.
            let is_taken = to_command
                && !decision.opens_a_case()
                && decision.of_approvals().next().is_none()
                && decision.forwarded_to().is_none()
                && !outbox::instructs(&decision.changes)
                && !decision.changes_rules();
            outstanding.insert(
                seq,
                if is_taken {
                    AnswerFor::Command
                } else {
                    AnswerFor::Agent
                },
            );
            store.insert_sealed(seq, &decision.sealed)?;
            if let Some((id, seen)) = consumed_id(decision, seq) {
                if decision.hold.is_some() {
                    store.replace_request(id, &decision.spool, &seen)?;
                } else if decision.metadata.replay_of.is_some() {
                    store.copy_request(id, &decision.spool, &seen)?;
                } else if decision.attempt > 0 {
                    store.repair_request(id, &decision.spool, &seen)?;
                } else {
                    store.insert_request(id, &decision.spool, &seen)?;
                }
            }
        }
        Record::Council(_) | Record::Input(_) | Record::Event(EventKind::Proposal, _) => {
            outstanding.insert(seq, AnswerFor::Agent);
        }
        Record::Response(line) => {
            store.insert_response(line.request_line, seq)?;
            store.insert_sealed(seq, &line.sealed)?;
            outstanding.insert(seq, AnswerFor::Agent);
        }
        Record::Redact(line) => {
            store.redact(seq, line)?;
            outstanding.insert(seq, AnswerFor::Agent);
        }
        Record::Published(published) => {
            *outstanding = outstanding.split_off(&published.up_to.saturating_add(1))
        }
        other if other.instructs() => {
            outstanding.insert(seq, AnswerFor::Agent);
        }
        _ => {}
    }
    Ok(())
}

/// Applies line `seq` to the state, and to the index except for the ids that requests use up. A
/// decision on a request that is not resent can read nothing else.
pub fn fold_known(
    state: &mut State,
    store: &Store,
    seq: u64,
    record: &Record,
) -> Result<(), FoldFailure> {
    fits(seq, record)?;
    let mut ordinal = 0;
    for change in record.changes() {
        match change {
            Change::Book(trading::Change::OrderFilled(fill)) => {
                store.insert_fill(seq, ordinal, fill)?;
                ordinal += 1;
            }
            Change::Book(trading::Change::VenueReported {
                bridge, exec_id, ..
            }) => {
                store.insert_report(seq, bridge, exec_id)?;
            }
            Change::Book(change) => {
                let ended = change.ended();
                if let Some((order_id, end, order)) =
                    ended.and_then(|(id, end)| Some((id, end, state.book.orders.get(&id)?)))
                {
                    let strategy = order.strategy.clone();
                    let at_venue = order.at_venue.as_ref();
                    // What fills or is refused before the venue pulls it was not ended by a check.
                    let why = change.why().or_else(|| at_venue?.why.as_deref());
                    let why = why
                        .filter(|_| end == trading::order::OrderEnd::Pulled)
                        .cloned();
                    store.insert_closed_order(&ClosedOrder {
                        order_id,
                        strategy,
                        end,
                        why,
                    })?;
                }
            }
            Change::Control(change) => store.apply_to_decisions(seq, change)?,
            Change::Council(change) => store.apply_to_cases(seq, change)?,
            Change::Proposal(change) => store.apply_to_proposals(seq, change)?,
            Change::Admission(lineage::Change::Admitted(task)) => store.insert_task(seq, task)?,
            Change::Admission(lineage::Change::Settled(settled)) => store.settle_task(settled)?,
            _ => {}
        }
        state
            .apply(change)
            .map_err(|source| FoldFailure::State { seq, source })?;
    }
    note_line(state, record);
    if let Record::Decision(decision) = record
        && let Some(of_line) = history::of_line(decision)
    {
        store.insert_history(seq, decision.timestamp, of_line)?;
    }
    Ok(())
}

/// Applies line `seq` to the state alone.
pub fn fold_state(state: &mut State, seq: u64, record: &Record) -> Result<(), FoldFailure> {
    fits(seq, record)?;
    for change in record.changes() {
        state
            .apply(change)
            .map_err(|source| FoldFailure::State { seq, source })?;
    }
    note_line(state, record);
    Ok(())
}

/// Checks that a line begins and ends the outgoing actions that its kind may: a request line begins
/// the action of its own number, a response ends the action of the line it names, and other lines
/// do neither.
fn fits(seq: u64, record: &Record) -> Result<(), FoldFailure> {
    let steps = record.changes().iter().filter_map(|change| match change {
        Change::Actions(step) => Some(step),
        _ => None,
    });
    let (mut begins, mut ends) = (Vec::new(), Vec::new());
    for step in steps {
        match step {
            actions::Change::Opened(action) => begins.push(action.id.0),
            actions::Change::Closed { id } => ends.push(id.0),
            actions::Change::FirstUse { .. } | actions::Change::AlsoAnswer { .. } => {}
        }
    }
    let (may_begin, may_end) = match record {
        Record::Decision(line) if line.status == Status::Pending => (Some(seq), None),
        Record::Response(line) => (None, Some(line.request_line)),
        _ => (None, None),
    };
    let is_pair = |found: &[u64], wanted: Option<u64>| found.iter().copied().eq(wanted);
    if is_pair(&begins, may_begin) && is_pair(&ends, may_end) {
        return Ok(());
    }
    Err(FoldFailure::State {
        seq,
        source: FoldError::Kind,
    })
}

/// Applies what a line does to the state besides its changes.
fn note_line(state: &mut State, record: &Record) {
    state.tick(record.timestamp());
    match record {
        Record::Event(EventKind::Start, line) if state.semantics() >= STARTS_COUNT_FROM => {
            state.actions.started_at = Some(line.timestamp);
        }
        Record::Genesis(genesis) => {
            state.log.clone_from(&genesis.origin);
            state.is_written_by(&genesis.program, genesis.semantics);
        }
        Record::Decision(decision) => {
            if let (Some(bucket), Some(source)) = (decision.rate, &decision.source) {
                state.rates.count(source, bucket, decision.timestamp);
            }
            if let Some(source) = decision.is_sign_of_life_of() {
                state.dead_man.hear(source);
            }
        }
        _ => {}
    }
}

/// Returns the id that this decision used up in its spool. A request that is answered again in
/// another spool uses up its id there too; otherwise a request of another sender could replace that
/// answer.
fn consumed_id(decision: &Decision, seq: u64) -> Option<(&str, Seen)> {
    if !decision.uses_up_its_id() && decision.hold.is_none() {
        return None;
    }
    let seq = decision.metadata.replay_of.unwrap_or(seq);
    let seen = Seen {
        source: decision.source.clone()?,
        request_hash: decision.request_hash.clone()?,
        seq,
        attempt: decision.attempt,
        is_open: decision.leaves_id_open(),
    };
    Some((decision.request_id.as_deref()?, seen))
}
