//! Proposals: changes of rules on request. A change applies itself if it is proved to tighten and
//! concerns only its proposer; everything else waits for an approver. Nothing else changes rules
//! here.

mod alone;
mod deciding;
pub mod diff;
mod judging;
mod words;

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

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

/// Maximum number of proposals per proposer that are kept after they have ended.
pub const ENDED_MAX: usize = 16;
/// The [`SEMANTICS`](crate::state::SEMANTICS) from which on they are kept.
const ENDED_SINCE: u32 = 8;

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
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
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

spoolgate_wire::named! {
    /// The standing of a proposal.
    #[derive(
        Clone,
        Copy,
        Debug,
        PartialEq,
        Eq,
        PartialOrd,
        Ord,
        Serialize,
        Deserialize,
        schemars::JsonSchema,
    )]
    pub enum Standing {
        /// It waits for an approver.
        Pending = "pending",
        /// It was applied.
        Applied = "applied",
        /// It was declined.
        Declined = "declined",
        /// It was applied and reverted.
        Reverted = "reverted",
    }
}

impl Standing {
    /// Returns the standing of this name.
    pub fn parse(text: &str) -> Option<Standing> {
        [
            Standing::Pending,
            Standing::Applied,
            Standing::Declined,
            Standing::Reverted,
        ]
        .into_iter()
        .find(|standing| standing.as_str() == text)
    }
}

/// A proposal that waits no more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndedProposal {
    /// Its id.
    pub proposal_id: ProposalId,
    /// The rule.
    pub rule_id: RuleId,
    /// What became of it.
    pub standing: Standing,
    /// How it was approved, or who declined it.
    pub by: String,
    /// Why it was declined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Proposals that wait for an approver, and the newest of the others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProposalsState {
    /// By id.
    pub pending: BTreeMap<ProposalId, PendingProposal>,
    /// The last [`ENDED_MAX`] proposals of each proposer that wait no more, newest last. Lines of
    /// semantics before `ENDED_SINCE` add none, so that a state which an earlier version kept goes on
    /// in the same way.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ended: BTreeMap<Principal, VecDeque<EndedProposal>>,
}

impl ProposalsState {
    /// Applies a change in a line of these semantics.
    pub(super) fn apply(&mut self, change: &Change, semantics: u32) {
        if semantics >= ENDED_SINCE {
            self.end(change);
        }
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

impl ProposalsState {
    /// Keeps what becomes of a proposal with this change.
    fn end(&mut self, change: &Change) {
        let (proposer, ended) = match change {
            Change::Pended { .. } => return,
            Change::Applied { proposed, by, .. } => {
                if let Kind::Revert { of, .. } = &proposed.kind {
                    let mut all = self.ended.values_mut().flatten();
                    if let Some(reverted) = all.find(|other| other.proposal_id == *of) {
                        reverted.standing = Standing::Reverted;
                    }
                }
                let ended = EndedProposal {
                    proposal_id: proposed.proposal_id,
                    rule_id: proposed.rule_id.clone(),
                    standing: Standing::Applied,
                    by: by.in_words(),
                    reason: None,
                };
                (proposed.by.clone(), ended)
            }
            Change::Declined {
                proposal_id,
                by,
                reason,
            } => {
                let Some(waits) = self.pending.get(proposal_id) else {
                    return;
                };
                let ended = EndedProposal {
                    proposal_id: *proposal_id,
                    rule_id: waits.rule_id.clone(),
                    standing: Standing::Declined,
                    by: by.to_string(),
                    reason: Some(reason.clone()),
                };
                (waits.by.clone(), ended)
            }
        };
        let own = self.ended.entry(proposer).or_default();
        own.push_back(ended);
        if own.len() > ENDED_MAX {
            own.pop_front();
        }
    }
}

/// A proposal as its proposer sees it.
#[derive(Serialize, schemars::JsonSchema)]
pub struct ProposalView<'a> {
    /// Its name, as `p-12`.
    proposal_id: ProposalId,
    /// The proposer.
    proposed_by: &'a Principal,
    /// The rule.
    rule_id: &'a RuleId,
    /// What became of it.
    standing: Standing,
    /// How it was approved, or who declined it; absent while it waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    decided_by: Option<&'a str>,
    /// Why it was declined.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

/// Returns the proposals of a proposer, or of all, newest first.
pub fn views<'a>(state: &'a ProposalsState, own: Option<&Principal>) -> Vec<ProposalView<'a>> {
    let pending = state.pending.iter().map(|(id, waits)| ProposalView {
        proposal_id: *id,
        proposed_by: &waits.by,
        rule_id: &waits.rule_id,
        standing: Standing::Pending,
        decided_by: None,
        reason: None,
    });
    let ended = state.ended.iter().flat_map(|(proposer, ended)| {
        ended.iter().map(move |ended| ProposalView {
            proposal_id: ended.proposal_id,
            proposed_by: proposer,
            rule_id: &ended.rule_id,
            standing: ended.standing,
            decided_by: Some(&ended.by),
            reason: ended.reason.as_deref(),
        })
    });
    let is_shown = |view: &ProposalView<'_>| own.is_none_or(|own| own == view.proposed_by);
    let mut views: Vec<ProposalView<'a>> = pending.chain(ended).filter(is_shown).collect();
    views.sort_by_key(|view| Reverse(view.proposal_id));
    views
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

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn proposed(id: u64, by: &str, kind: &Value) -> Value {
        json!({
            "proposal_id": format!("p-{id}"), "rule_id": "cap", "kind": kind, "by": by,
            "at": "2026-02-20T00:00:00Z", "payload_hash": "", "path": "rules/own/cap.yaml",
            "old": null, "new": null, "base": "", "direction": "tightening",
        })
    }

    fn change(value: Value) -> Change {
        serde_json::from_value(value).unwrap()
    }

    fn applied(id: u64, by: &str, kind: &Value) -> Change {
        let proposed = proposed(id, by, kind);
        change(json!({"Applied": {"proposed": proposed, "by": "proof", "rulebook": ""}}))
    }

    fn standings(state: &ProposalsState, own: Option<&str>) -> Vec<(String, Standing)> {
        let own = own.map(|own| Principal::parse(own).unwrap());
        let views = views(state, own.as_ref());
        let each = |view: &ProposalView<'_>| (view.proposal_id.to_string(), view.standing);
        views.iter().map(each).collect()
    }

    #[test]
    fn what_became_of_a_proposal_is_listed_for_its_proposer() {
        let activate = json!("activate");
        let mut state = ProposalsState::default();
        let pended = |id, by| {
            let proposed = proposed(id, by, &activate);
            change(json!({"Pended": {"proposed": proposed, "file_sha256": ""}}))
        };
        for change in [
            applied(1, "bot", &activate),
            pended(2, "bot"),
            pended(3, "bot"),
            pended(4, "other"),
            change(json!({"Declined": {"proposal_id": "p-2", "by": "owner", "reason": "no"}})),
            applied(
                5,
                "owner",
                &json!({"revert": {"of": "p-1", "reason": "no"}}),
            ),
        ] {
            state.apply(&change, ENDED_SINCE);
        }
        let (pending, declined, reverted) =
            (Standing::Pending, Standing::Declined, Standing::Reverted);
        let own = [("p-3", pending), ("p-2", declined), ("p-1", reverted)];
        assert_eq!(
            standings(&state, Some("bot")),
            own.map(|(id, of)| (id.to_owned(), of))
        );
        assert_eq!(standings(&state, None).len(), 5);
        let views = views(&state, None);
        assert_eq!(
            (views[3].decided_by, views[3].reason),
            (Some("owner"), Some("no"))
        );
    }

    #[test]
    fn the_last_16_are_kept_and_none_of_an_earlier_version() {
        let mut state = ProposalsState::default();
        for many in 1..=ENDED_MAX + 1 {
            state.apply(
                &applied(many as u64, "bot", &json!("activate")),
                ENDED_SINCE,
            );
            let listed = standings(&state, Some("bot"));
            assert_eq!(listed.len(), many.min(ENDED_MAX));
            assert_eq!(listed[0].0, format!("p-{many}"));
        }
        let mut state = ProposalsState::default();
        state.apply(&applied(1, "bot", &json!("activate")), ENDED_SINCE - 1);
        assert_eq!(state, ProposalsState::default());
    }
}
