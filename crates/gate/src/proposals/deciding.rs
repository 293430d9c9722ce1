//! Decides proposals: new ones, and an approver's decision on them.

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::judging::{Judged, Wanted, judged, wanted, wanted_again, why_people, with_rule};
use super::{
    Approver, Change, EDITED, Found, Kind, Note, ONLY_SIGNATURES, PENDING_MAX, PENDING_OF_ONE_MAX,
    Proposed, Shown, being_edited, pending_file, words,
};
use crate::enforced;
use crate::handle::{Judged as Answered, Outcome, Turn};
use crate::prepare::{Authentic, Refusal};
use spoolgate_rules::Rulebook;
use spoolgate_rules::proof::{STEPS_MAX, compare};
use spoolgate_wire::code::Code;
use spoolgate_wire::council::Stance;
use spoolgate_wire::ids::{Principal, ProposalId, RuleId};
use spoolgate_wire::proposals::{ApproveProposal, EndProposal, RuleProposal};
use spoolgate_wire::signing::sha256_hex;

/// Bodies of answers.
#[derive(Serialize, schemars::JsonSchema)]
pub enum Body<'a> {
    /// It waits for an approver, or its proof put it in force.
    #[serde(rename = "ProposalAcknowledged")]
    Acknowledged {
        /// Its name, as `p-12`.
        proposal_id: ProposalId,
        /// Whether it is proved to tighten and is already in force.
        auto_approved: bool,
        /// The rule.
        rule_id: &'a RuleId,
        /// How the rulebook with the change compares with the one without it, as proved.
        direction: Found,
        /// Why it waits for an approver.
        #[serde(skip_serializing_if = "Option::is_none")]
        waits_because: Option<&'a str>,
        /// A request that it would treat more leniently, in words.
        #[serde(skip_serializing_if = "Option::is_none")]
        would_allow: Option<&'a str>,
    },
    /// It is in force.
    #[serde(rename = "ProposalApplied")]
    Applied {
        /// Its name.
        proposal_id: ProposalId,
        /// The rule that it changes.
        rule_id: &'a RuleId,
        /// SHA-256 of the new rulebook, hex.
        rulebook: &'a str,
    },
    /// It is declined.
    #[serde(rename = "ProposalDeclined")]
    Declined {
        /// Its name.
        proposal_id: ProposalId,
    },
    /// The change was taken back.
    #[serde(rename = "ProposalReverted")]
    Reverted {
        /// The proposal that takes it back.
        proposal_id: ProposalId,
        /// The proposal that was taken back.
        reverted: ProposalId,
        /// SHA-256 of the new rulebook, hex.
        rulebook: &'a str,
    },
}

fn raw(body: &Body<'_>) -> Result<Option<Box<RawValue>>, Refusal> {
    to_raw_value(body).map(Some).map_err(internal)
}

fn internal(error: impl std::fmt::Display) -> Refusal {
    Refusal::new(
        Code::Internal,
        format!("the proposal cannot be written: {error}"),
    )
}

fn done(body: &Body<'_>, change: Change) -> Result<Outcome, Refusal> {
    let changes = vec![crate::Change::Proposal(change)];
    Ok(Outcome {
        data: raw(body)?,
        changes,
        ..Outcome::default()
    })
}

/// The outcome of an approval.
#[derive(Clone, Debug)]
pub enum Approved {
    /// The proposal is applied.
    Applied(Change),
    /// The rulebook has changed since: the proposal waits again, judged under the new rulebook.
    /// Holds the reason.
    Again(Refusal, Change),
}

impl Turn<'_> {
    /// Decides `rule.propose`.
    pub(crate) fn propose(
        &self,
        authentic: &Authentic,
        proposal: &RuleProposal,
    ) -> Result<Outcome, Refusal> {
        let by = &authentic.envelope.source;
        let wanted = wanted(self.rules, proposal)?;
        self.check_citation(authentic, proposal)?;
        let judged = judged(self.rules, &wanted)?;
        let evidence = proposal.evidence();
        let claims_to_tighten = match proposal {
            RuleProposal::ModifyParameter(modify) => Some(modify.is_tightening),
            _ => None,
        };
        let proposal_id = ProposalId(self.seq);
        let mut proposed = Proposed {
            proposal_id,
            rule_id: wanted.rule_id.clone(),
            kind: wanted.kind.clone(),
            by: by.clone(),
            at: self.now,
            payload_hash: authentic.payload_hash.clone(),
            path: wanted.path.clone(),
            old: wanted.old.as_ref().map(|rule| rule.text.clone()),
            new: None,
            base: self.rules.hash.clone(),
            claims_to_tighten,
            direction: Found::Unproved,
            witness: None,
            notes: Vec::new(),
            why_people: None,
            evidence: Some(Shown {
                summary: evidence.summary.clone(),
                sample_size: evidence.sample_size,
                ledger_seqs: evidence.ledger_seqs.clone(),
                found: self.lookups.evidence_found,
                council_request_id: evidence.council_request_id.clone(),
            }),
        };
        proposed.found_out(&judged);
        let is_tightening = judged.comparison.may_apply_itself();
        if claims_to_tighten.is_some_and(|claim| claim != is_tightening) {
            proposed.notes.push(Note::ClaimFalse);
        }
        let named = evidence.ledger_seqs.len();
        if self.lookups.evidence_found != named
            || usize::try_from(evidence.sample_size) != Ok(named)
        {
            proposed.notes.push(Note::EvidenceDiffers);
        }
        let why = self.why_people(by, &wanted, &judged);
        let data = raw(&Body::Acknowledged {
            proposal_id,
            auto_approved: why.is_none(),
            rule_id: &proposed.rule_id,
            direction: proposed.direction,
            waits_because: why.as_deref(),
            would_allow: proposed.witness.as_deref(),
        })?;
        let change = match &why {
            None => {
                let rulebook = judged.after.hash;
                let proposed = Box::new(proposed);
                Change::Applied {
                    proposed,
                    by: Approver::Proof,
                    file_sha256: None,
                    rulebook,
                }
            }
            Some(why) => {
                self.has_room_for(&proposed)?;
                pended(Proposed {
                    why_people: Some(why.clone()),
                    ..proposed
                })?
            }
        };
        Ok(Outcome {
            data,
            changes: vec![crate::Change::Proposal(change)],
            ..Outcome::default()
        })
    }

    fn why_people(&self, by: &Principal, wanted: &Wanted, judged: &Judged) -> Option<String> {
        if self.state.rulebook.fault.is_some() {
            return Some("the rule files cannot be used".to_owned());
        }
        if self.lookups.rule_file_differs {
            return Some(being_edited(&wanted.path));
        }
        why_people(self.rules, by, wanted, judged)
    }

    fn has_room_for(&self, proposed: &Proposed) -> Result<(), Refusal> {
        let pending = &self.state.proposals.pending;
        let change = proposed.change_sha256();
        if let Some((id, _)) = pending
            .iter()
            .find(|(_, other)| other.change_sha256 == change)
        {
            let what = format!("proposal `{id}` already asks for the same change");
            return Err(Refusal::new(Code::ProposalDuplicate, what));
        }
        let own = pending
            .values()
            .filter(|other| other.by == proposed.by)
            .count();
        if own >= PENDING_OF_ONE_MAX || pending.len() >= PENDING_MAX {
            let what = format!(
                "{own} proposals of `{}` are waiting, and {} of all principals",
                proposed.by,
                pending.len()
            );
            return Err(Refusal::new(Code::ProposalsFull, what));
        }
        Ok(())
    }

    /// Checks that a cited case approved this very payload: the payload's hash is in the case's
    /// `context.files_changed`.
    fn check_citation(
        &self,
        authentic: &Authentic,
        proposal: &RuleProposal,
    ) -> Result<(), Refusal> {
        let Some(id) = &proposal.evidence().council_request_id else {
            return Ok(());
        };
        let fail = |what: String| Err(Refusal::new(Code::CitationFalse, what));
        let Some((docket, request)) = &self.lookups.citation else {
            return fail(format!("council case `{id}` does not exist"));
        };
        match docket.closed {
            Some(closed) if closed.is_reopened => {
                return fail(format!("an objection to case `{id}` is not decided yet"));
            }
            Some(closed) if closed.outcome == Stance::Approve => {}
            Some(closed) => {
                let outcome = closed.outcome.as_str();
                return fail(format!("the outcome of case `{id}` is {outcome}"));
            }
            None => return fail(format!("case `{id}` is not decided")),
        }
        let named = format!("proposal:{}", authentic.payload_hash);
        let names = request
            .as_ref()
            .is_some_and(|request| request.context.files_changed.contains(&named));
        if names {
            Ok(())
        } else {
            fail(format!("case `{id}` does not name `{named}`"))
        }
    }

    /// Decides `proposal.approve`.
    pub(crate) fn approve_proposal(
        &self,
        source: &Principal,
        asked: &ApproveProposal,
    ) -> Result<Outcome, Refusal> {
        let proposed = self.pending(asked.id)?;
        if self.lookups.only_signatures_approve {
            let what = format!(
                "{ONLY_SIGNATURES}: put `{0}.yaml` into proposals/approved with `{0}.yaml.sig` \
                    beside it",
                asked.id
            );
            return Err(Refusal::new(Code::NotPermitted, what));
        }
        let pending = self.state.proposals.pending.get(&asked.id);
        if pending.is_none_or(|pending| pending.file_sha256 != asked.sha256) {
            let what = format!("the pending file of `{}` has another SHA-256", asked.id);
            return Err(Refusal::new(Code::StateConflict, what));
        }
        self.may_apply(proposed)?;
        let by = Approver::Person(source.clone());
        match approve(self.rules, proposed, by, asked.sha256.clone())? {
            Approved::Applied(change) => {
                let Change::Applied {
                    proposed, rulebook, ..
                } = &change
                else {
                    return Err(internal("it was not applied"));
                };
                let (proposal_id, rule_id) = (proposed.proposal_id, &proposed.rule_id.clone());
                let rulebook = &rulebook.clone();
                done(
                    &Body::Applied {
                        proposal_id,
                        rule_id,
                        rulebook,
                    },
                    change,
                )
            }
            Approved::Again(refusal, change) => {
                let changes = vec![crate::Change::Proposal(change)];
                let judged = Some(Answered {
                    rows: Vec::new(),
                    refusal: Some(refusal),
                });
                Ok(Outcome {
                    changes,
                    judged,
                    ..Outcome::default()
                })
            }
        }
    }

    /// Decides `proposal.decline`.
    pub(crate) fn decline_proposal(
        &self,
        source: &Principal,
        asked: &EndProposal,
    ) -> Result<Outcome, Refusal> {
        let proposal_id = self.pending(asked.id)?.proposal_id;
        let change = Change::Declined {
            proposal_id,
            by: source.clone(),
            reason: asked.reason.clone(),
        };
        done(&Body::Declined { proposal_id }, change)
    }

    /// Decides `proposal.revert`.
    pub(crate) fn revert_proposal(
        &self,
        authentic: &Authentic,
        asked: &EndProposal,
    ) -> Result<Outcome, Refusal> {
        let Some(Change::Applied {
            proposed: reverted, ..
        }) = &self.lookups.proposal
        else {
            let what = format!("proposal `{}` does not exist or was not applied", asked.id);
            return Err(Refusal::new(Code::NotFound, what));
        };
        self.may_apply(reverted)?;
        if self.rules.files.files.get(&reverted.path) != reverted.new.as_ref() {
            let what = format!(
                "`{}` was changed after `{}`; revert the later change first, or edit the file",
                reverted.path, asked.id
            );
            return Err(Refusal::new(Code::StateConflict, what));
        }
        let after = with_rule(self.rules, &reverted.path, reverted.old.as_deref())?;
        enforced::check_person(self.rules, &after)?;
        let comparison = compare(&self.rules.ruleset, &after.ruleset, STEPS_MAX);
        let (proposal_id, source) = (ProposalId(self.seq), &authentic.envelope.source);
        let rulebook = after.hash.clone();
        let mut proposed = Proposed {
            proposal_id,
            rule_id: reverted.rule_id.clone(),
            kind: Kind::Revert {
                of: asked.id,
                reason: asked.reason.clone(),
            },
            by: source.clone(),
            at: self.now,
            payload_hash: authentic.payload_hash.clone(),
            path: reverted.path.clone(),
            old: reverted.new.clone(),
            new: None,
            base: self.rules.hash.clone(),
            claims_to_tighten: None,
            direction: Found::Unproved,
            witness: None,
            notes: Vec::new(),
            why_people: None,
            evidence: None,
        };
        proposed.found_out(&Judged {
            new: reverted.old.clone(),
            after,
            comparison,
        });
        let body = Body::Reverted {
            proposal_id,
            reverted: asked.id,
            rulebook: &rulebook,
        };
        let by = Approver::Person(source.clone());
        let rulebook = rulebook.clone();
        let change = Change::Applied {
            proposed: Box::new(proposed),
            by,
            file_sha256: None,
            rulebook,
        };
        done(&body, change)
    }

    fn pending(&self, id: ProposalId) -> Result<&Proposed, Refusal> {
        match &self.lookups.proposal {
            Some(Change::Pended { proposed, .. }) => Ok(proposed),
            Some(Change::Applied { .. }) => Err(Refusal::new(
                Code::StateConflict,
                format!("proposal `{id}` was already applied"),
            )),
            Some(Change::Declined { reason, .. }) => Err(Refusal::new(
                Code::StateConflict,
                format!("proposal `{id}` was already declined: {reason}"),
            )),
            None => Err(Refusal::new(
                Code::NotFound,
                format!("proposal `{id}` does not exist"),
            )),
        }
    }

    fn may_apply(&self, proposed: &Proposed) -> Result<(), Refusal> {
        if let Some(fault) = &self.state.rulebook.fault {
            return Err(Refusal::new(
                Code::RulebookInvalid,
                format!("rule file {fault}"),
            ));
        }
        if self.lookups.rule_file_differs {
            let what = format!(
                "`{}` {EDITED}; wait until it is loaded, or undo it",
                proposed.path
            );
            return Err(Refusal::new(Code::StateConflict, what));
        }
        Ok(())
    }
}

/// Applies a waiting proposal, if it is still the change that the approver saw: the rule's file and
/// the direction are the same.
///
/// # Errors
/// Returns a [`Refusal`] if the change can no longer be made at all.
pub fn approve(
    rules: &Rulebook,
    proposed: &Proposed,
    by: Approver,
    file_sha256: String,
) -> Result<Approved, Refusal> {
    let wanted = wanted_again(rules, proposed)?;
    let judged = judged(rules, &wanted)?;
    let mut again = proposed.clone();
    again.path = wanted.path.clone();
    again.old = wanted.old.as_ref().map(|rule| rule.text.clone());
    again.base = rules.hash.clone();
    let rulebook = judged.after.hash.clone();
    again.found_out(&judged);
    let same = again.old == proposed.old
        && again.new == proposed.new
        && again.path == proposed.path
        && again.direction == proposed.direction;
    if same {
        let (proposed, file_sha256) = (Box::new(again), Some(file_sha256));
        return Ok(Approved::Applied(Change::Applied {
            proposed,
            by,
            file_sha256,
            rulebook,
        }));
    }
    let what = format!(
        "proposal `{}`: `{}` or the direction ({} then, {} now) has changed since the approver saw \
            it",
        proposed.proposal_id,
        again.path,
        proposed.direction.as_str(),
        again.direction.as_str()
    );
    Ok(Approved::Again(
        Refusal::new(Code::BaseMoved, what),
        pended(again)?,
    ))
}

fn pended(proposed: Proposed) -> Result<Change, Refusal> {
    let file_sha256 = sha256_hex(pending_file(&proposed).map_err(internal)?.as_bytes());
    Ok(Change::Pended {
        proposed: Box::new(proposed),
        file_sha256,
    })
}

impl Proposed {
    /// Records the result of judging the change.
    fn found_out(&mut self, judged: &Judged) {
        self.new = judged.new.clone();
        self.direction = judged.comparison.direction.into();
        self.witness = judged.comparison.loosens.as_ref().map(words::witness);
    }
}
