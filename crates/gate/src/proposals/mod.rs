//! Proposals: changes of rules on request. A change applies itself if it is proved to tighten and
//! concerns only its proposer; everything else waits for an approver. Nothing else changes rules
//! here.

mod alone;
mod deciding;
pub mod diff;
mod judging;
mod words;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use spoolgate_rules::proof::Direction;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{Principal, ProposalId, RequestId, RuleId};
use spoolgate_wire::time::Time;

pub use alone::{Masked, masked};
pub use deciding::{Approved, Body as Answered, approve};
pub use judging::path_of;
pub use words::{Ended, pending_file, result_file};

/// Maximum number of waiting proposals per principal.
pub const PENDING_OF_ONE_MAX: usize = 16;
/// Maximum number of waiting proposals.
pub const PENDING_MAX: usize = 256;
/// Largest rule file that a proposal makes or changes, bytes: together with its former text it fits
/// a ledger line.
pub const RULE_BYTES_MAX: usize = 8 * 1024;
/// Maximum number of rules per principal that apply themselves: every entry is decided under all of
/// them.
pub const OWN_RULES_MAX: usize = 64;
/// Maximum number of their conditions that search texts or read the history: each may cost every
/// decision a millisecond, for every size that is tried.
pub const OWN_SEARCHES_MAX: usize = 16;

/// Part of the message about a rule file that differs from the rulebook in force.
pub(crate) const EDITED: &str = "is being edited: it differs from the rulebook in force";
/// The beginning of the message if a request cannot approve, because only signatures can.
pub(super) const ONLY_SIGNATURES: &str = "rules/approvers exists, so only a signature approves";

/// Why a proposal needs an approver while the rule's file differs from the rulebook in force.
pub(super) fn being_edited(path: &str) -> String {
    format!("`{path}` is being edited")
}

/// The kind of change that is proposed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Kind {
    /// Puts a rule in force, or replaces the rule with its id.
    Activate,
    /// Puts a rule out of force.
    Suspend {
        /// The reason.
        reason: String,
    },
    /// Changes a threshold.
    ModifyParameter {
        /// The field of the condition.
        parameter: String,
        /// The value before.
        old_value: Amount,
        /// The value after.
        new_value: Amount,
    },
    /// Takes an applied proposal back, on a person's request.
    Revert {
        /// The proposal.
        of: ProposalId,
        /// The reason.
        reason: String,
    },
}

spoolgate_wire::named! {
    /// How the rulebook with the change compares with the one without it, as proved.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub enum Found {
        /// Every request is treated the same.
        Same = "same",
        /// No request is treated more leniently, some are treated more strictly.
        Tightening = "tightening",
        /// Some requests are treated more leniently, none more strictly.
        Loosening = "loosening",
        /// Some requests are treated more leniently and some more strictly.
        Incomparable = "incomparable",
        /// Unknown: the proof would take too long.
        Unproved = "unproved",
    }
}

impl From<Direction> for Found {
    fn from(direction: Direction) -> Found {
        match direction {
            Direction::Same => Found::Same,
            Direction::Tightening => Found::Tightening,
            Direction::Loosening => Found::Loosening,
            Direction::Incomparable => Found::Incomparable,
            Direction::Unproved => Found::Unproved,
        }
    }
}

/// A fault of a proposal that does not refuse it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Note {
    /// It claims to tighten and does not, or the other way round.
    ClaimFalse,
    /// The ledger does not have as many decisions as it names.
    EvidenceDiffers,
}

/// The evidence of a proposal, and what the ledger has of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shown {
    /// The proposer's summary.
    pub summary: String,
    /// In how many decisions it claims to have seen its evidence.
    pub sample_size: u32,
    /// The ledger lines that it names.
    pub ledger_seqs: Vec<u64>,
    /// How many of these lines are decisions.
    pub found: usize,
    /// The council case that approved it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub council_request_id: Option<RequestId>,
}

/// A proposal with everything that was found out about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proposed {
    /// Its id.
    pub proposal_id: ProposalId,
    /// The rule.
    pub rule_id: RuleId,
    /// The kind of change.
    pub kind: Kind,
    /// The proposer.
    pub by: Principal,
    /// When it was proposed.
    pub at: Time,
    /// SHA-256 of the payload, hex.
    pub payload_hash: String,
    /// The rule's file, below the home.
    pub path: String,
    /// The file's text; `None` if there is no file.
    pub old: Option<String>,
    /// The file's new text; `None` if the file is to be removed.
    pub new: Option<String>,
    /// Hash of the rulebook that it was judged under.
    pub base: String,
    /// Whether the proposer claims that it tightens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claims_to_tighten: Option<bool>,
    /// The proved direction.
    pub direction: Found,
    /// A request that is treated more leniently, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub witness: Option<String>,
    /// Its faults.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Note>,
    /// Why it needs an approver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_people: Option<String>,
    /// Its evidence; `None` for a person's own proposal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Shown>,
}

/// How a change was approved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Approver {
    /// By its proof: it tightens and concerns only its proposer.
    Proof,
    /// By a person's signed request.
    Person(Principal),
    /// By a signature over the pending file, with a key of `rules/approvers`.
    Signature {
        /// The identity in `rules/approvers`.
        identity: String,
        /// The key's SHA256 fingerprint.
        key: String,
    },
}

impl Approver {
    /// A description for messages.
    pub fn in_words(&self) -> String {
        match self {
            Approver::Proof => "proof".to_owned(),
            Approver::Person(name) => name.to_string(),
            Approver::Signature { identity, key } => format!("{identity} with {key}"),
        }
    }
}

/// A change of a proposal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Change {
    /// It waits for an approver, for the first time or again.
    Pended {
        /// The proposal.
        proposed: Box<Proposed>,
        /// SHA-256 of its pending file, hex; an approval names it.
        file_sha256: String,
    },
    /// It was applied.
    Applied {
        /// The proposal.
        proposed: Box<Proposed>,
        /// How it was approved.
        by: Approver,
        /// SHA-256 of the pending file that was approved, hex.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        file_sha256: Option<String>,
        /// Hash of the rulebook afterwards.
        rulebook: String,
    },
    /// A person declined it.
    Declined {
        /// The proposal.
        proposal_id: ProposalId,
        /// The person.
        by: Principal,
        /// The reason.
        reason: String,
    },
}

/// The part of a waiting proposal that is kept; the rest is in its line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PendingProposal {
    /// The proposer.
    pub by: Principal,
    /// The rule.
    pub rule_id: RuleId,
    /// SHA-256 of the file's path and new text, hex.
    pub change_sha256: String,
    /// SHA-256 of its pending file, hex.
    pub file_sha256: String,
}

/// Proposals that wait for an approver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProposalsState {
    /// By id.
    pub pending: BTreeMap<ProposalId, PendingProposal>,
}

impl ProposalsState {
    /// Applies a change.
    pub(super) fn apply(&mut self, change: &Change) {
        match change {
            Change::Pended {
                proposed,
                file_sha256,
            } => {
                let pending = PendingProposal {
                    by: proposed.by.clone(),
                    rule_id: proposed.rule_id.clone(),
                    change_sha256: proposed.change_sha256(),
                    file_sha256: file_sha256.clone(),
                };
                self.pending.insert(proposed.proposal_id, pending);
            }
            Change::Applied { proposed, .. } => {
                self.pending.remove(&proposed.proposal_id);
            }
            Change::Declined { proposal_id, .. } => {
                self.pending.remove(proposal_id);
            }
        }
    }
}

impl Change {
    /// The proposal that changes.
    pub fn proposal_id(&self) -> ProposalId {
        match self {
            Change::Pended { proposed, .. } | Change::Applied { proposed, .. } => {
                proposed.proposal_id
            }
            Change::Declined { proposal_id, .. } => *proposal_id,
        }
    }
}
