//! `admission.evaluate`, `admission.admit` and `admission.check`: whether a task may be created.

use super::prelude::*;
use crate::admission::Way;
use crate::record::AdmissionAnswer;
use spoolgate_wire::admission::AdmissionAttempt;

/// Decides on a task and reserves its place.
pub struct AdmissionEvaluate;

impl Action for AdmissionEvaluate {
    type Payload = AdmissionAttempt;
    type Answer = AdmissionAnswer<'static>;
    const ABOUT: &'static str = "Judges a task without admitting it.";
    const CONDITIONS: &'static [Condition] = &[WHOLE, LINE];
    const ROW: Row = Row::new(
        ActionName::AdmissionEvaluate,
        "Admission",
        "envelope, forward?",
        SPEAKERS,
    )
    .rules_apply(Rules::Refuses)
    .tool(
        "interrogate_evaluate",
        "Admission: evaluate",
        "Decide whether this task may start. An ALLOW reserves its place in its tree.",
    );

    fn execute(
        turn: &Turn<'_>,
        sender: &Authentic,
        attempt: &AdmissionAttempt,
    ) -> Result<Outcome, Refusal> {
        Ok(turn.admission(sender, Way::Evaluate, attempt))
    }
}

/// Decides on a task, reserves its place and forwards it.
pub struct AdmissionAdmit;

impl Action for AdmissionAdmit {
    type Payload = AdmissionAttempt;
    type Answer = AdmissionAnswer<'static>;
    const ABOUT: &'static str = "Admits a task: it counts, and an ALLOW may be forwarded.";
    const CONDITIONS: &'static [Condition] = &[WHOLE, LINE];
    const ROW: Row = Row::new(
        ActionName::AdmissionAdmit,
        "Admission",
        "envelope, forward?",
        SPEAKERS,
    )
    .rules_apply(Rules::Refuses)
    .tool(
        "interrogate_admit",
        "Admission: admit",
        "Decide whether this task may start. An ALLOW reserves its place and forwards the task.",
    );

    fn execute(
        turn: &Turn<'_>,
        sender: &Authentic,
        attempt: &AdmissionAttempt,
    ) -> Result<Outcome, Refusal> {
        Ok(turn.admission(sender, Way::Admit, attempt))
    }
}

/// Shows the decision on a task without reserving anything.
pub struct AdmissionCheck;

impl Action for AdmissionCheck {
    type Payload = AdmissionAttempt;
    type Answer = AdmissionAnswer<'static>;
    const ABOUT: &'static str = "Reports whether a task would be admitted; nothing counts.";
    const CONDITIONS: &'static [Condition] = &[WHOLE, LINE];
    const ROW: Row = Row::new(
        ActionName::AdmissionCheck,
        "AdmissionCheck",
        "envelope, forward?",
        SPEAKERS,
    )
    .query(
        "interrogate_check",
        "Admission: check",
        "Check whether this task would be admitted. Reserves nothing.",
    );

    fn execute(
        turn: &Turn<'_>,
        sender: &Authentic,
        attempt: &AdmissionAttempt,
    ) -> Result<Outcome, Refusal> {
        Ok(turn.admission(sender, Way::Check, attempt))
    }
}
