//! Proposals: what becomes of a rule that somebody wants changed. What is proved to tighten, and concerns nobody but its
//! proposer, is applied by itself; everything else waits for a person. Nothing else ever changes a rule here.

mod deciding;
pub mod diff;
mod judging;
mod words;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::rules::proof::Direction;
use crate::wire::amount::Amount;
use crate::wire::ids::{Principal, ProposalId, RequestId, RuleId};
use crate::wire::time::Time;

pub(super) use deciding::Body as Answered;
pub use deciding::{Approved, approve};
pub use judging::path_of;
pub use words::{Ended, pending_file, result_file};

/// Most proposals of one principal that wait for people.
pub const PENDING_OF_ONE_MAX: usize = 16;
/// Most proposals that wait for people.
pub const PENDING_MAX: usize = 256;
/// Largest rule file that a proposal makes or changes, bytes: with its former text it fits a ledger line.
pub const RULE_BYTES_MAX: usize = 8 * 1024;
/// Most rules of one principal that apply themselves: every entry is decided under all of them.
pub const OWN_RULES_MAX: usize = 64;
/// Most conditions of them that search texts or look back: each may take a millisecond of every decision, for every size
/// that is tried.
pub const OWN_SEARCHES_MAX: usize = 16;

/// What is said of a rule's file that is not what the rulebook in force holds.
pub(in crate::gate) const EDITED: &str = "is being edited: it is not what the rulebook in force holds";
/// What is said where a request does not approve, because only signatures do.
pub(super) const ONLY_SIGNATURES: &str = "rules/approvers is there";

/// Why a person decides while a rule's file is not what the rulebook in force holds.
pub(super) fn being_edited(path: &str) -> String {
    format!("`{path}` is being edited")
}

/// What is proposed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Kind {
    /// A rule comes into force, or replaces that of its id.
    Activate,
    /// A rule is put out of force.
    Suspend {
        /// Why.
        reason: String,
    },
    /// A threshold moves.
    ModifyParameter {
        /// The field of the condition.
        parameter: String,
        /// From this value.
        old_value: Amount,
        /// To this one.
        new_value: Amount,
    },
    /// A person takes an applied proposal back.
    Revert {
        /// Which one.
        of: ProposalId,
        /// Why.
        reason: String,
    },
}

/// Where the rulebook with the change stands to that without, as proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Found {
    /// Every request is treated alike.
    Same,
    /// None more kindly, some less.
    Tightening,
    /// Some more kindly, none less.
    Loosening,
    /// Some more and some less.
    Incomparable,
    /// Nothing is known: the proof would take too long.
    Unproved,
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

impl Found {
    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Found::Same => "same",
            Found::Tightening => "tightening",
            Found::Loosening => "loosening",
            Found::Incomparable => "incomparable",
            Found::Unproved => "unproved",
        }
    }
}

/// What is wrong with a proposal without refusing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Note {
    /// It says it tightens, and does not; or the other way round.
    ClaimFalse,
    /// The ledger does not hold as many decisions as it names.
    EvidenceDiffers,
}

/// What a proposal rests on, and what the ledger says of that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shown {
    /// In the proposer's words.
    pub summary: String,
    /// How many decisions it says it was seen in.
    pub sample_size: u32,
    /// Lines that it names.
    pub ledger_seqs: Vec<u64>,
    /// How many of those are decisions.
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
    /// What is proposed.
    pub kind: Kind,
    /// Who asks.
    pub by: Principal,
    /// When it was asked.
    pub at: Time,
    /// SHA-256 of the payload, hex.
    pub payload_hash: String,
    /// The rule's file, below the home.
    pub path: String,
    /// What the file holds; none: there is none.
    pub old: Option<String>,
    /// What it shall hold; none: there shall be none.
    pub new: Option<String>,
    /// The rulebook that it was judged under.
    pub base: String,
    /// What the proposer says of the direction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claims_to_tighten: Option<bool>,
    /// The direction.
    pub direction: Found,
    /// A request that is treated more kindly, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub witness: Option<String>,
    /// What is wrong with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Note>,
    /// Why it does not apply itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_people: Option<String>,
    /// What it rests on; none: a person's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Shown>,
}

/// Who had a change made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Approver {
    /// Nobody: it was proved, and concerns its proposer alone.
    Proof,
    /// A person, by a signed request.
    Person(Principal),
    /// A key of `rules/approvers`, by a signature over the pending file.
    Signature {
        /// Whose, as `rules/approvers` says.
        identity: String,
        /// The key's SHA256 fingerprint.
        key: String,
    },
}

impl Approver {
    /// In words.
    pub fn in_words(&self) -> String {
        match self {
            Approver::Proof => "proof".to_owned(),
            Approver::Person(name) => name.to_string(),
            Approver::Signature { identity, key } => format!("{identity} with {key}"),
        }
    }
}

/// A step of a proposal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Change {
    /// It waits for a person, for the first time or again.
    Pended {
        /// The proposal.
        proposed: Box<Proposed>,
        /// SHA-256 of its pending file, hex: what is approved.
        file_sha256: String,
    },
    /// It was applied.
    Applied {
        /// The proposal.
        proposed: Box<Proposed>,
        /// Who had it made.
        by: Approver,
        /// SHA-256 of the pending file that was approved, hex.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        file_sha256: Option<String>,
        /// Hash of the rulebook with it.
        rulebook: String,
    },
    /// A person declined it.
    Declined {
        /// The proposal.
        proposal_id: ProposalId,
        /// Who.
        by: Principal,
        /// Why.
        reason: String,
    },
}

/// What is kept of a proposal that waits; the rest stands in its line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PendingProposal {
    /// Who asks.
    pub by: Principal,
    /// The rule.
    pub rule_id: RuleId,
    /// SHA-256 of path and text that it shall hold, hex.
    pub change_sha256: String,
    /// SHA-256 of its pending file, hex.
    pub file_sha256: String,
}

/// Proposals that wait for people.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProposalsState {
    /// By id.
    pub pending: BTreeMap<ProposalId, PendingProposal>,
}

impl ProposalsState {
    /// Applies a step.
    pub(super) fn apply(&mut self, change: &Change) {
        match change {
            Change::Pended { proposed, file_sha256 } => {
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
    /// Which proposal it is about.
    pub fn proposal_id(&self) -> ProposalId {
        match self {
            Change::Pended { proposed, .. } | Change::Applied { proposed, .. } => proposed.proposal_id,
            Change::Declined { proposal_id, .. } => *proposal_id,
        }
    }
}
