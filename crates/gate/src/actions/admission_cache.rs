//! `admission.cache_clear` and `admission.cache_invalidate`: the gate drops the policies that
//! commands delivered.

use super::prelude::*;
use crate::admission::is_forgotten;
use spoolgate_admission::lineage;
use spoolgate_wire::admission::InvalidatePolicy;

/// Drops all delivered policies.
pub struct AdmissionCacheClear;

/// Drops the delivered policies of one profile.
pub struct AdmissionCacheInvalidate;

/// The answer of both.
#[derive(Serialize, JsonSchema)]
pub enum Answer<'a> {
    /// The answer to `admission.cache_clear` and `admission.cache_invalidate`.
    PoliciesForgotten {
        /// The domains whose policies were dropped, as `tenant/surface/profile`.
        domains: &'a [String],
    },
}

impl Action for AdmissionCacheClear {
    type Payload = Empty;
    type Answer = Answer<'static>;
    const ABOUT: &'static str = "Forgets delivered policies of all domains.";
    const ROW: Row = Row::new(
        ActionName::AdmissionCacheClear,
        "ClearPolicyCache",
        "(none)",
        SPEAKERS,
    )
    .tool(
        "interrogate_cache_clear",
        "Admission: forget policies",
        "Delivered policies are requested again.",
    );

    fn execute(turn: &Turn<'_>, sender: &Authentic, _: &Empty) -> Result<Outcome, Refusal> {
        forget(turn, sender, None)
    }
}

impl Action for AdmissionCacheInvalidate {
    type Payload = InvalidatePolicy;
    type Answer = Answer<'static>;
    const ABOUT: &'static str = "Forgets delivered policies of one profile.";
    const ROW: Row = Row::new(
        ActionName::AdmissionCacheInvalidate,
        "InvalidatePolicy",
        "policy_profile_id",
        SPEAKERS,
    )
    .tool(
        "interrogate_cache_invalidate",
        "Admission: forget one policy",
        "The policy of one profile is requested again.",
    );

    fn execute(
        turn: &Turn<'_>,
        sender: &Authentic,
        which: &InvalidatePolicy,
    ) -> Result<Outcome, Refusal> {
        forget(turn, sender, Some(which))
    }
}

fn forget(
    turn: &Turn<'_>,
    sender: &Authentic,
    which: Option<&InvalidatePolicy>,
) -> Result<Outcome, Refusal> {
    let kept = turn.state.admission.policies.keys();
    let is_meant =
        |domain: &&String| is_forgotten(turn.rules, &sender.envelope.source, which, domain);
    let domains: Vec<String> = kept.filter(is_meant).cloned().collect();
    Ok(Outcome {
        data: data(&Answer::PoliciesForgotten { domains: &domains })?,
        changes: vec![Change::Admission(lineage::Change::PoliciesForgotten {
            domains: domains.clone(),
        })],
        ..Outcome::default()
    })
}
