//! The six scores. They are never averaged: an average hides an overfitting of 2.0.

use super::seats::{Seat, Seating};
use spoolgate_rules::roles::{RoleRule, Roles};
use spoolgate_wire::council::{Axis, AxisScores, ChangeType, Severity, Stance, Tenths};

/// Computes all six scores.
pub(super) fn scores(change: ChangeType, seating: &Seating, roles: &Roles) -> AxisScores {
    let of = |axis| score(change, axis, seating, roles);
    AxisScores {
        assumptions: of(Axis::Assumptions),
        applicability: of(Axis::Applicability),
        code_correctness: of(Axis::CodeCorrectness),
        realistic_newness: of(Axis::RealisticNewness),
        overfitting: of(Axis::Overfitting),
        implications: of(Axis::Implications),
    }
}

/// Computes one score: the smaller of the cap and what the deductions leave.
fn score(change: ChangeType, axis: Axis, seating: &Seating, roles: &Roles) -> Tenths {
    let weights = &roles.weights;
    let mut deducted = 0_u32;
    let mut cap = *weights.start;
    if !roles.covers(change, axis) {
        cap = cap.min(*weights.not_assessed_cap);
    }
    for role in roles.required(change) {
        let Some(seat) = seating.of(role) else {
            if role.primary_axes.contains(&axis) {
                cap = cap.min(*weights.absent_cap);
            }
            continue;
        };
        let vote = match seat.verdict {
            Stance::Reject => Some(weights.reject),
            Stance::NeedsMoreInfo => Some(weights.unsure),
            Stance::Approve => None,
        };
        if let Some(vote) = vote.filter(|_| role.fail_axis() == axis) {
            deducted += u32::from(*vote.deduct);
            cap = cap.min(*vote.cap);
        }
        deducted += checks(axis, seat, roles) + concerns(axis, role, seat, roles);
    }
    let left = u32::from(*weights.start).saturating_sub(deducted);
    Tenths::new(cap.min(u8::try_from(left).unwrap_or(u8::MAX)))
}

fn checks(axis: Axis, seat: &Seat, roles: &Roles) -> u32 {
    let failed = seat.failed_checks.iter().filter(|check| check.axis == axis);
    failed
        .map(|check| match check.severity {
            Severity::Minor => u32::from(*roles.weights.failed_minor),
            Severity::Major | Severity::Blocker => u32::from(*roles.weights.failed_check),
        })
        .sum()
}

fn concerns(axis: Axis, role: &RoleRule, seat: &Seat, roles: &Roles) -> u32 {
    if role.concern_axis != axis {
        return 0;
    }
    let weight = roles.weights.concern;
    let counted = seat.concerns.len().min(usize::from(*weight.per_role_max));
    u32::try_from(counted)
        .unwrap_or(u32::MAX)
        .saturating_mul(u32::from(*weight.deduct))
}
