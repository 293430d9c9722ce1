//! A case: one matter before the council, from its request to its decision. The gate keeps cases in its index;
//! what was said lies in the ledger lines that the index names.

use serde::{Deserialize, Serialize};

use crate::wire::council::{ChangeType, Stance};
use crate::wire::ids::{Principal, RequestId};
use crate::wire::time::Time;

/// An opened case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Its name: the request's `request_id`.
    pub id: RequestId,
    /// What kind of change.
    pub change_type: ChangeType,
    /// Who signed the request; no key of theirs speaks for a role in it.
    pub proposer: Principal,
    /// Hash of the request's payload as its line holds it, lower-case hex: verdicts name it. What is sealed is in it by its
    /// salted digest.
    pub request_sha256: String,
    /// Where its decision goes, below the spool.
    pub answer: String,
    /// When it was opened, on the ledger's clock.
    pub opened_at: Time,
    /// When it is decided at the latest.
    pub deadline: Time,
}

/// A filed verdict; what it says is in its line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vote {
    /// The case.
    pub case: RequestId,
    /// The role as `council/roles.yaml` names it, or a foreign role's own name.
    pub role: String,
    /// Who spoke for it; none: the role's command.
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
    /// A role's command ended without a verdict; it is not asked again.
    RoleSilent {
        /// The case.
        case: RequestId,
        /// The role.
        role: String,
    },
    /// Nobody is waited for any more; it is decided with one of the next batches.
    CaseFull {
        /// The case.
        case: RequestId,
    },
    /// It was decided.
    CaseClosed {
        /// The case.
        case: RequestId,
        /// How.
        outcome: Stance,
    },
}

/// What the index knows of a case, by line numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Docket {
    /// The case.
    pub case: Case,
    /// Line of its request.
    pub request: u64,
    /// Lines of its verdicts, oldest first.
    pub votes: Vec<(u64, Vote)>,
    /// Roles whose command ended without a verdict.
    pub silent: Vec<String>,
    /// Line and outcome of its decision.
    pub closed: Option<(u64, Stance)>,
}

impl Docket {
    /// What it will be behind line `seq` with these steps.
    pub fn after<'a>(mut self, seq: u64, steps: impl IntoIterator<Item = &'a Change>) -> Docket {
        for step in steps {
            match step {
                Change::VoteFiled(vote) => self.votes.push((seq, vote.clone())),
                Change::RoleSilent { role, .. } => self.silent.push(role.clone()),
                Change::CaseClosed { outcome, .. } => self.closed = Some((seq, *outcome)),
                Change::CaseOpened(_) | Change::CaseFull { .. } => {}
            }
        }
        self
    }

    /// Whether somebody has spoken for this role.
    pub fn has_vote(&self, role: &str) -> bool {
        self.votes.iter().any(|(_, vote)| vote.role == role)
    }
}
