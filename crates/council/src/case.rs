//! A case: one matter before the council, from its request to its decision. The gate keeps cases in
//! its index; their contents are in the ledger lines that the index names.

use serde::{Deserialize, Serialize};

use spoolgate_wire::council::{ChangeType, Stance};
use spoolgate_wire::ids::{Principal, RequestId};
use spoolgate_wire::time::Time;

/// An opened case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Its name, the request's `request_id`.
    pub id: RequestId,
    /// The name by which its judges know it and its folder is named; `None` in a line of an earlier
    /// version, whose folder has the case's own name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<RequestId>,
    /// The kind of change.
    pub change_type: ChangeType,
    /// The sender of the request; no key of theirs speaks for a role in this case.
    pub proposer: Principal,
    /// Hash of the request's payload as its line holds it, lower-case hex; verdicts name it. Sealed
    /// contents enter it as their salted digest.
    pub request_sha256: String,
    /// Path of its decision, below the spool.
    pub answer: String,
    /// When the case was opened, on the ledger's clock.
    pub opened_at: Time,
    /// The latest time of its decision.
    pub deadline: Time,
}

impl Case {
    /// The name that judges see.
    pub fn shown(&self) -> &RequestId {
        self.alias.as_ref().unwrap_or(&self.id)
    }
}

/// A filed verdict; its content is in its line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vote {
    /// The case.
    pub case: RequestId,
    /// The role as `council/roles.yaml` names it, or a foreign role's own name.
    pub role: String,
    /// The principal who spoke for the role; `None` if it was the role's command.
    pub by: Option<Principal>,
}

/// One step of a case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Change {
    /// A request opened it.
    CaseOpened(Case),
    /// A verdict was filed.
    VoteFiled(Vote),
    /// A role's command ended without a verdict; the gate does not ask it again.
    RoleSilent {
        /// The case.
        case: RequestId,
        /// The role.
        role: String,
    },
    /// No further verdict is awaited: nothing that is filed later moves the time of the decision.
    CaseFull {
        /// The case.
        case: RequestId,
        /// The last time at which a verdict still counts, on the ledger's clock; `None` if the case is
        /// decided behind this batch.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        closes_at: Option<Time>,
    },
    /// The case was decided.
    CaseClosed {
        /// The case.
        case: RequestId,
        /// The outcome.
        outcome: Stance,
        /// The last time at which an objection still lowers the outcome; `None` if nothing can.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        objections_until: Option<Time>,
    },
    /// A verdict that is not an approval came after the decision: the case is decided again, over all
    /// of its verdicts.
    CaseReopened {
        /// The case.
        case: RequestId,
    },
}

/// What the index knows about a case, by line numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Docket {
    /// The case.
    pub case: Case,
    /// Line of the request.
    pub request: u64,
    /// Lines of the verdicts, oldest first.
    pub votes: Vec<(u64, Vote)>,
    /// Roles whose command ended without a verdict.
    pub silent: Vec<String>,
    /// The last time at which a verdict still counts, if the case waits for nobody but is not decided
    /// at once.
    pub closes_at: Option<Time>,
    /// The newest decision.
    pub closed: Option<Closed>,
}

/// The decision on a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed {
    /// Its line.
    pub line: u64,
    /// Its outcome.
    pub outcome: Stance,
    /// The last time at which an objection still lowers the outcome; `None` if nothing can.
    pub objections_until: Option<Time>,
    /// Whether an objection waits for its decision.
    pub is_reopened: bool,
}

impl Docket {
    /// Returns the docket after line `seq` with these steps.
    pub fn after<'a>(mut self, seq: u64, steps: impl IntoIterator<Item = &'a Change>) -> Docket {
        for step in steps {
            match step {
                Change::VoteFiled(vote) => self.votes.push((seq, vote.clone())),
                Change::RoleSilent { role, .. } => self.silent.push(role.clone()),
                Change::CaseFull { closes_at, .. } => self.closes_at = *closes_at,
                Change::CaseClosed {
                    outcome,
                    objections_until,
                    ..
                } => {
                    self.closed = Some(Closed {
                        line: seq,
                        outcome: *outcome,
                        objections_until: *objections_until,
                        is_reopened: false,
                    });
                }
                Change::CaseReopened { .. } => {
                    if let Some(closed) = &mut self.closed {
                        closed.is_reopened = true;
                    }
                }
                Change::CaseOpened(_) => {}
            }
        }
        self
    }

    /// Whether a verdict was filed for this role.
    pub fn has_vote(&self, role: &str) -> bool {
        self.votes.iter().any(|(_, vote)| vote.role == role)
    }
}
