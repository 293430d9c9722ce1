//! Council cases as the report shows them: what was decided, who said what, and how each axis stood.

use serde::Serialize;
use serde_json::value::RawValue;

use crate::council::case::Docket;
use crate::gate::council::{CaseRecord, waits_for};
use crate::gate::record::{CaseDecision, ClosedBy, Record};
use crate::home::HomeError;
use crate::home::read::View;
use crate::ledger::LedgerError;
use crate::wire::council::{Axis, CouncilDecision, CouncilRequest, Stance, Tenths};
use crate::wire::time::Time;

/// One axis of a decided case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AxisRow {
    /// The axis.
    pub axis: Axis,
    /// Its score.
    pub score: Tenths,
    /// Below this, in tenths, the case is rejected; none: the rulebook of the decision is lost.
    pub reject_below: Option<u8>,
    /// Below this, in tenths, it is not approved.
    pub unsure_below: Option<u8>,
    /// Whether a required role answers for it; what nobody answers for is a cap and no judgement.
    pub assessed: bool,
}

/// One seat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SeatRow {
    /// The role.
    pub role: String,
    /// What it counts as; none: it is empty.
    pub verdict: Option<Stance>,
    /// Whether the gate's own arithmetic is in it.
    pub computed: bool,
    /// Whether the case does not require it.
    pub foreign: bool,
    /// Whether it is not the outcome.
    pub dissents: bool,
    /// Why it counts for less than it says.
    pub notes: Vec<String>,
}

/// How a case was decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Decided {
    /// The line.
    pub line: u64,
    /// When.
    pub at: Time,
    /// `seats` or `deadline`.
    pub closed_by: &'static str,
    /// The scores.
    pub axes: Vec<AxisRow>,
    /// The seats.
    pub seats: Vec<SeatRow>,
    /// Why, in the decision's words.
    pub reasoning: String,
    /// What stands in the way.
    pub blocking: Vec<String>,
    /// What comes next.
    pub next_steps: Vec<String>,
}

/// A case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Case {
    /// Its name.
    pub case: String,
    /// What kind of change.
    pub change_type: &'static str,
    /// Who signed it.
    pub proposer: String,
    /// When it was opened.
    pub opened_at: Time,
    /// When it is decided at the latest.
    pub deadline: Time,
    /// What it is about, in the proposer's words; none: that cannot be read any more.
    pub summary: Option<String>,
    /// The outcome; none: it is open.
    pub outcome: Option<Stance>,
    /// Roles that an open case waits for.
    pub waiting_for: Vec<String>,
    /// How it was decided; none: it is open, or what the decision says cannot be read any more.
    pub decided: Option<Decided>,
}

/// A case as the ledger has it.
pub(super) fn case(view: &View, docket: &Docket) -> Result<Case, HomeError> {
    let of = &docket.case;
    let payload = unless_pruned(view.payload(docket.request))?.flatten();
    let request: Option<CouncilRequest> = payload.and_then(|payload| serde_json::from_str(&payload).ok());
    let waiting_for = match docket.closed {
        None => waits_for(&view.rulebook, docket).into_iter().map(str::to_owned).collect(),
        Some(_) => Vec::new(),
    };
    Ok(Case {
        case: of.id.to_string(),
        change_type: of.change_type.as_str(),
        proposer: of.proposer.to_string(),
        opened_at: of.opened_at,
        deadline: of.deadline,
        summary: request.map(|request| request.context.summary),
        outcome: docket.closed.map(|(_, outcome)| outcome),
        waiting_for,
        decided: match docket.closed {
            Some((line, _)) => unless_pruned(decided(view, docket, line))?.flatten(),
            None => None,
        },
    })
}

/// What stands in a segment that was pruned is no error of the ledger: it is not here.
fn unless_pruned<T>(found: Result<T, HomeError>) -> Result<Option<T>, HomeError> {
    match found {
        Err(HomeError::Ledger(LedgerError::Pruned(_))) => Ok(None),
        other => other.map(Some),
    }
}

fn decided(view: &View, docket: &Docket, line: u64) -> Result<Option<Decided>, HomeError> {
    let Some(Record::Council(told)) = view.record(line)? else { return Ok(None) };
    let CaseDecision { decision, decision_blob, record, record_blob, .. } = told.as_ref();
    let decision = view.text(decision.as_deref().map(RawValue::get), decision_blob.as_deref())?;
    let record = view.text(record.as_deref().map(RawValue::get), record_blob.as_deref())?;
    let decision: Option<CouncilDecision> = decision.and_then(|text| serde_json::from_str(&text).ok());
    let record: Option<CaseRecord> = record.and_then(|text| serde_json::from_str(&text).ok());
    let (Some(decision), Some(record)) = (decision, record) else { return Ok(None) };
    let roles = view.rulebook_of(&told.rulebook).ok().map(|rules| rules.roles);
    let axes = Axis::ALL.map(|axis| {
        let floor = roles.as_ref().map(|roles| roles.floor(docket.case.change_type, axis));
        AxisRow {
            axis,
            score: decision.axis_scores.get(axis),
            reject_below: floor.map(|floor| floor.reject_below),
            unsure_below: floor.map(|floor| floor.unsure_below),
            assessed: !record.deliberation.not_assessed.contains(&axis),
        }
    });
    Ok(Some(Decided {
        line,
        at: told.timestamp,
        closed_by: match told.closed_by {
            ClosedBy::Seats => "seats",
            ClosedBy::Deadline => "deadline",
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
    let row = |seat: &crate::council::seats::Seat, foreign: bool| SeatRow {
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
    required.chain(empty).chain(deliberation.foreign.iter().map(|seat| row(seat, true))).collect()
}
