//! The unbounded facts that a decision needs, and those that were found.

use crate::elsewhere::NoLineage;
use crate::history::{self, History};
use crate::proposals;
use crate::sealing::Sealing;
use crate::storage::Scarce;
use spoolgate_admission::lineage::{Lineage, Query, Reported};
use spoolgate_admission::settle;
use spoolgate_control::Earlier;
use spoolgate_council::case::Docket;
use spoolgate_trading::order::Fill;
use spoolgate_trading::requests::ClosedOrder;
use spoolgate_wire::council::CouncilRequest;
use spoolgate_wire::ids::{
    ControlId, ExecId, OrderId, Principal, ProposalId, RequestId, ServiceName,
};
use spoolgate_wire::time::Time;

/// Maximum number of fills in one answer.
pub const FILLS_MAX: usize = 1000;

/// Maximum number of open council cases, and of newest ones, that a list is made of.
pub const CASES_MAX: usize = 256;

/// An earlier request under the same id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The sender.
    pub source: String,
    /// SHA-256 of its signing string, hex.
    pub request_hash: String,
    /// The line that answered it.
    pub seq: u64,
    /// How many requests under this id it replaced.
    pub attempt: u32,
    /// Whether its shape was refused, so that a repaired request may replace it.
    pub is_open: bool,
}

/// How often a request may be repaired under its id: the last answer no longer leaves it open.
pub const REPAIRS_MAX: u32 = 8;

impl Seen {
    /// Whether a request of this sender, with this hash, is decided afresh and replaces this one.
    pub fn is_open_to(&self, source: &str, request_hash: &str) -> bool {
        self.is_open && self.source == source && self.request_hash != request_hash
    }
}

/// The unbounded facts that a decision needs; the host looks them up and fills [`Lookups`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// An order that may be closed.
    pub closed_order: Option<OrderId>,
    /// Fills recorded since this time.
    pub fills_since: Option<Time>,
    /// A blob of market rows, by digest.
    pub rows: Option<String>,
    /// Whether the keyring holds this key.
    pub key: Option<String>,
    /// Whether the keyring holds the credential of a service under this name.
    pub credential: Option<(ServiceName, String)>,
    /// The council cases that a sender may be concerned with.
    pub cases: bool,
    /// A council case.
    pub case: Option<RequestId>,
    /// The alias that a case would get if nothing of its request were sealed: two requests with one
    /// alias would share a folder, and the sender of both could have searched for them.
    pub case_of_alias: Option<RequestId>,
    /// The lineage of a task that asks for admission.
    pub lineage: Option<Query>,
    /// The task that this line admitted.
    pub task: Option<u64>,
    /// The control decision of this sender under this `decision_id`.
    pub control: Option<(Principal, ControlId)>,
    /// The line that booked this report of this bridge.
    pub report: Option<(Principal, ExecId)>,
    /// The accepted requests of the sender, as far as rules read them.
    pub history: Option<history::Query>,
    /// A proposal whose last step is needed.
    pub proposal: Option<ProposalId>,
    /// A rule file to compare with the rulebook in force, for a request that makes a proposal or
    /// edits a file. The file of [`Needs::proposal`] is compared anyway.
    pub rule_file: Option<String>,
    /// Ledger lines, to count how many of them are decisions.
    pub evidence: Vec<u64>,
    /// A council case and its request.
    pub citation: Option<RequestId>,
}

/// The facts that [`Needs`] names, and what the replay check reads.
#[derive(Clone, Debug, Default)]
pub struct Lookups {
    /// The request of the same source and id.
    pub seen: Option<Seen>,
    /// The request of any source under this id in this spool.
    pub seen_in_spool: Option<Seen>,
    /// The hash of that request as its line has it, if this request has sealed members.
    pub seen_as: Option<String>,
    /// This request without its sealed members, under the salts of its line; `None` if it has none.
    pub sealing: Option<Sealing>,
    /// Whether the stored answer of `seen` is lost because a blob is missing or damaged.
    pub answer_is_lost: bool,
    /// Names the pruned segments that hold lines this decision needs; the other look-ups may then
    /// be empty. `None` if nothing needed was pruned.
    pub pruned: Option<String>,
    /// What is scarce on the disk of the ledger; `None` if there is enough room for every request.
    pub scarce: Option<Scarce>,
    /// The closed order.
    pub closed_order: Option<ClosedOrder>,
    /// Fills since that time, oldest first, at most [`FILLS_MAX`] + 1.
    pub fills: Vec<Fill>,
    /// The rows' bytes; `None` if there is no such blob.
    pub rows: Option<Vec<u8>>,
    /// Whether the keyring holds the key, or the credential.
    pub key_is_held: bool,
    /// The oldest open and the newest council cases, at most [`CASES_MAX`] of each, newest first.
    pub cases: Vec<Docket>,
    /// The council case.
    pub docket: Option<Docket>,
    /// Payload hash of the case's request as it was signed, if sealed members make it differ from
    /// the hash in its line.
    pub signed_case: Option<String>,
    /// The task's tree, as the ledger has it.
    pub lineage: Lineage,
    /// The answer of a lineage command, or why there is none; `None` if no command was run.
    pub reported: Option<Result<Reported, NoLineage>>,
    /// The admitted task; `None` if the line admitted none.
    pub task: Option<settle::Task>,
    /// The sender's earlier decision under the same `decision_id`.
    pub decided: Option<Earlier>,
    /// The line that booked a report of the sender under the same exec_id.
    pub booked_in: Option<u64>,
    /// The sender's earlier accepted requests; `None` if no rule reads them.
    pub history: Option<History>,
    /// The last step of the proposal.
    pub proposal: Option<proposals::Change>,
    /// Whether the rule's file differs from the rulebook in force.
    pub rule_file_differs: bool,
    /// Whether only signatures approve proposals.
    pub only_signatures_approve: bool,
    /// How many of the lines are decisions.
    pub evidence_found: usize,
    /// The council case, and its request if that can be read.
    pub citation: Option<(Docket, Option<CouncilRequest>)>,
}
