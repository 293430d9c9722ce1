//! Council cases as the report shows them: the outcome, the verdict of each role, and the score of
//! each axis.

use serde::Serialize;
use serde_json::value::RawValue;

use spoolgate_council::case::Docket;
use spoolgate_gate::council::{CaseRecord, waits_for};
use spoolgate_gate::record::{CaseDecision, ClosedBy, Record};
use spoolgate_home::HomeError;
use spoolgate_home::read::View;
use spoolgate_ledger::LedgerError;
use spoolgate_wire::council::{Axis, CouncilDecision, CouncilRequest, Stance, Tenths};
use spoolgate_wire::time::Time;

/// One axis of a decided case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AxisRow {
    /// The axis.
    pub axis: Axis,
    /// Its score.
    pub score: Tenths,
    /// Below this, in tenths, the case is rejected; `None` if the rulebook of the decision is lost.
    pub reject_below: Option<u8>,
    /// Below this, in tenths, the case is not approved.
    pub unsure_below: Option<u8>,
    /// Whether a required role assesses it. The score of an axis without such a role is a cap, not
    /// a judgement.
    pub assessed: bool,
}

/// One seat of a case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SeatRow {
    /// The role.
    pub role: String,
    /// The verdict that it counts as; `None` if the seat is empty.
    pub verdict: Option<Stance>,
    /// Whether the gate computed part of it.
    pub computed: bool,
    /// Whether the case does not require this role.
    pub foreign: bool,
    /// Whether its verdict differs from the outcome.
    pub dissents: bool,
    /// Why it counts for less than the verdict that was filed.
    pub notes: Vec<String>,
}

/// How a case was decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Decided {
    /// Number of the ledger line.
    pub line: u64,
    /// When it was decided.
    pub at: Time,
    /// `seats` or `deadline`.
    pub closed_by: &'static str,
    /// The scores.
    pub axes: Vec<AxisRow>,
    /// The seats.
    pub seats: Vec<SeatRow>,
    /// The reasoning in the decision.
    pub reasoning: String,
    /// Issues that block the change.
    pub blocking: Vec<String>,
    /// The next steps.
    pub next_steps: Vec<String>,
}

/// A council case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Case {
    /// Its id.
    pub case: String,
    /// The kind of change.
    pub change_type: &'static str,
    /// The sender of the request.
    pub proposer: String,
    /// When it was opened.
    pub opened_at: Time,
    /// When it is decided at the latest.
    pub deadline: Time,
    /// The proposer's summary; `None` if it can no longer be read.
    pub summary: Option<String>,
    /// The outcome; `None` if the case is open.
    pub outcome: Option<Stance>,
    /// Roles that an open case waits for.
    pub waiting_for: Vec<String>,
    /// How it was decided; `None` if the case is open or its decision can no longer be read.
    pub decided: Option<Decided>,
}

/// Reads a case from the ledger.
pub(super) fn case(view: &View, docket: &Docket) -> Result<Case, HomeError> {
    let of = &docket.case;
    let payload = unless_pruned(view.payload(docket.request))?.flatten();
    let request: Option<CouncilRequest> =
        payload.and_then(|payload| serde_json::from_str(&payload).ok());
    let waiting_for = match docket.closed {
        None => waits_for(&view.rulebook, docket)
            .into_iter()
            .map(str::to_owned)
            .collect(),
        Some(_) => Vec::new(),
    };
    Ok(Case {
        case: of.id.to_string(),
        change_type: of.change_type.as_str(),
        proposer: of.proposer.to_string(),
        opened_at: of.opened_at,
        deadline: of.deadline,
        summary: request.map(|request| request.context.summary),
        outcome: docket.closed.map(|closed| closed.outcome),
        waiting_for,
        decided: match docket.closed {
            Some(closed) => unless_pruned(decided(view, docket, closed.line))?.flatten(),
            None => None,
        },
    })
}

/// Returns `None` for content in a pruned segment, which is not an error of the ledger.
fn unless_pruned<T>(found: Result<T, HomeError>) -> Result<Option<T>, HomeError> {
    match found {
        Err(HomeError::Ledger(LedgerError::Pruned(_))) => Ok(None),
        other => other.map(Some),
    }
}

fn decided(view: &View, docket: &Docket, line: u64) -> Result<Option<Decided>, HomeError> {
    let Some(Record::Council(told)) = view.record(line)? else {
        return Ok(None);
    };
    let CaseDecision {
        decision,
        decision_blob,
        record,
        record_blob,
        ..
    } = told.as_ref();
    let decision = view.text(
        decision.as_deref().map(RawValue::get),
        decision_blob.as_deref(),
    )?;
    let record = view.text(record.as_deref().map(RawValue::get), record_blob.as_deref())?;
    let decision: Option<CouncilDecision> =
        decision.and_then(|text| serde_json::from_str(&text).ok());
    let record: Option<CaseRecord> = record.and_then(|text| serde_json::from_str(&text).ok());
    let (Some(decision), Some(record)) = (decision, record) else {
        return Ok(None);
    };
    let roles = view
        .rulebook_of(&told.rulebook)
        .ok()
        .map(|rules| rules.roles);
    let axes = Axis::ALL.map(|axis| {
        let floor = roles
            .as_ref()
            .map(|roles| roles.floor(docket.case.change_type, axis));
        AxisRow {
            axis,
            score: decision.axis_scores.get(axis),
            reject_below: floor.map(|floor| *floor.reject_below),
            unsure_below: floor.map(|floor| *floor.unsure_below),
            assessed: !record.deliberation.not_assessed.contains(&axis),
        }
    });
    Ok(Some(Decided {
        line,
        at: told.timestamp,
        closed_by: match told.closed_by {
            ClosedBy::Seats => "seats",
            ClosedBy::Deadline => "deadline",
            ClosedBy::Objection => "objection",
        },
        axes: axes.to_vec(),
        seats: seats(&record, decision.final_outcome),
        reasoning: decision.summary_reasoning,
        blocking: decision.blocking_issues,
        next_steps: decision.next_steps,
    }))
}

fn seats(record: &CaseRecord, outcome: Stance) -> Vec<SeatRow> {
    let deliberation = &record.deliberation;
    let row = |seat: &spoolgate_council::seats::Seat, foreign: bool| SeatRow {
        role: seat.role.clone(),
        verdict: Some(seat.verdict),
        computed: seat.computed,
        foreign,
        dissents: !foreign && seat.verdict != outcome,
        notes: seat.notes.clone(),
    };
    let empty = deliberation.missing.roles.iter().map(|role| SeatRow {
        role: role.clone(),
        verdict: None,
        computed: false,
        foreign: false,
        dissents: false,
        notes: Vec::new(),
    });
    let required = deliberation.seats.iter().map(|seat| row(seat, false));
    required
        .chain(empty)
        .chain(deliberation.foreign.iter().map(|seat| row(seat, true)))
        .collect()
}
