//! Council cases at the gate: opens a case, files a verdict, and decides, at the end of a batch, the
//! cases whose time has come. That time is a function of the set of verdicts and never of their order,
//! and a verdict that comes later can only lower the outcome. Everything that a case rests on is in
//! ledger lines, so the decision can be recomputed from them.

mod answers;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use super::decide::MEMBER_BYTES_MAX;
use super::handle::data;
use super::handle::{Outcome, Turn};
use super::prepare::{Authentic, Refusal, escaped};
use super::record::{Cage, CaseDecision, ClosedBy, Input};
use super::state::{Change, SEMANTICS};
use spoolgate_council::aggregate::Deliberation;
use spoolgate_council::case::{self, Case, Docket, Vote};
use spoolgate_council::finding::Evidence;
use spoolgate_council::signers::{self, Filed, Speaker};
use spoolgate_council::{aggregate, evidence, seats};
use spoolgate_rules::Rulebook;
use spoolgate_rules::principals::{PrincipalRule, Role};
use spoolgate_rules::roles::{Computed, RoleRule, Roles};
use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::code::Code;
use spoolgate_wire::council::{
    Artifacts, ChangeType, Context, CouncilDecision, CouncilRequest, RoleVerdict, Stance,
    SubmitVerdict,
};
use spoolgate_wire::ids::{Principal, RequestId};
use spoolgate_wire::time::Time;
use spoolgate_wire::{json, signing};

pub use answers::{CaseOpened, CaseView, VerdictFiled, cases};

/// Maximum number of verdicts that one principal may file in a case. The decision reads all of them
/// and names them in one ledger line, so without a bound a role could make its case too large to
/// decide.
pub const VERDICTS_MAX: usize = 16;

/// The contents of a case, read back from its lines.
#[derive(Clone, Debug)]
pub struct Said {
    /// The request; `None` if its line or blob can no longer be read.
    pub request: Option<CouncilRequest>,
    /// Verdicts by line, in the order of the docket, without those that can no longer be read.
    pub verdicts: Vec<(u64, RoleVerdict)>,
}

/// The basis of a council decision, recorded beside it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseRecord {
    /// SHA-256 of every verdict that counted, in the order of their lines. Each is hashed as JSON
    /// with the contract's keys in the contract's order.
    pub verdicts_sha256: Vec<String>,
    /// Rules, seats, dissent.
    pub deliberation: Deliberation,
    /// Evidence that the gate computed.
    pub evidence: Vec<Evidence>,
    /// Who proposed it, which the briefs withhold; `None` in a decision on unsigned files and in one
    /// of an earlier version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposed_by: Option<ProposedBy>,
    /// The [`SEMANTICS`] by which it was decided; `None` as above. By others, the same verdicts may
    /// give another decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub semantics: Option<u32>,
}

/// Who signed a request, and who it says it is from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProposedBy {
    /// The principal whose key signed it.
    pub signer: Principal,
    /// Its member `proposer`; `None` if the request can no longer be read.
    pub claimed: Option<String>,
    /// Whether these two differ.
    pub differs: bool,
}

/// A decision and what it rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ruling {
    /// The contract's object.
    pub decision: CouncilDecision,
    /// What it rests on.
    pub record: CaseRecord,
}

/// A decided case with the contents that must be durable before its line.
#[derive(Clone, Debug)]
pub struct Closing {
    /// Its line.
    pub line: CaseDecision,
    /// Contents by digest.
    pub blobs: Vec<(String, Vec<u8>)>,
}

/// Returns a role's name in `council/roles.yaml` for any spelling of it. For an unknown role,
/// returns the letters and digits of `spelling`.
pub fn name_of(rules: &Rulebook, spelling: &str) -> String {
    rules
        .roles
        .resolve(spelling)
        .map_or_else(|| rules.roles.key(spelling), |role| role.name.clone())
}

/// Returns the role that a principal may fill under this name: the name in `council/roles.yaml`, or
/// the principal's own spelling if that file does not know it.
pub(super) fn granted(rules: &Rulebook, source: &Principal, role: &str) -> Option<String> {
    let rule = rules.principals.get(source)?;
    rules
        .roles
        .may_speak_for(rule, role)
        .then(|| name_of(rules, role))
}

/// Returns the operator of a principal, who may have left the rules since it voted.
fn operator<'a>(rules: &'a Rulebook, name: &'a Principal) -> &'a Principal {
    rules
        .principals
        .get(name)
        .map_or(name, PrincipalRule::operator)
}

/// Returns the signer of a vote, as the council counts signers.
fn speaker(rules: &Rulebook, vote: &Vote) -> Speaker {
    let Some(by) = &vote.by else {
        let family = rules
            .roles
            .resolve(&vote.role)
            .and_then(|role| role.family.as_ref());
        return Speaker {
            signer: format!("command:{}", vote.role),
            family: family.map(ToString::to_string),
        };
    };
    let rule = rules.principals.get(by);
    let family = match rule {
        // No family has a name with a colon.
        Some(rule) if rule.role == Role::Human => Some(format!("person:{by}")),
        Some(rule) => rule.family.as_ref().map(ToString::to_string),
        None => None,
    };
    Speaker {
        signer: operator(rules, by).to_string(),
        family,
    }
}

/// Whether a command or a principal may fill a role that the proposer's operator does not run.
fn has_speaker(rules: &Rulebook, role: &str, proposer: &Principal) -> bool {
    rules
        .roles
        .resolve(role)
        .is_some_and(|role| role.command.is_some())
        || rules.principals.keys().any(|name| {
            operator(rules, name) != operator(rules, proposer)
                && granted(rules, name, role).is_some()
        })
}

/// Required roles whose verdict a case waits for: those without one, and those whose signers are too
/// few for a signer of its own in each seat. What the verdicts say does not matter, so a case never
/// shows by being decided early that somebody objects.
pub fn waits_for<'a>(rules: &'a Rulebook, docket: &Docket) -> Vec<&'a str> {
    let change = docket.case.change_type;
    let mut waiting = unfilled(rules, docket);
    if rules.roles.change(change).distinct_signers {
        let (filled, signers): (Vec<&RoleRule>, Vec<BTreeSet<String>>) = rules
            .roles
            .required(change)
            .filter(|role| {
                docket.has_vote(&role.name) && computed(&rules.roles, role, change).is_none()
            })
            .map(|role| (role, signers_of(rules, docket, &role.name)))
            .unzip();
        let short = signers::short_of(&signers);
        let short = short.iter().filter_map(|place| filled.get(*place));
        waiting.extend(short.map(|role| role.name.as_str()));
    }
    waiting
}

fn signers_of(rules: &Rulebook, docket: &Docket, role: &str) -> BTreeSet<String> {
    let votes = docket.votes.iter().filter(|(_, vote)| vote.role == role);
    votes.map(|(_, vote)| speaker(rules, vote).signer).collect()
}

/// Required roles without a verdict. That includes a computed role that a principal may also fill:
/// the verdict can only worsen the seat.
fn unfilled<'a>(rules: &'a Rulebook, docket: &Docket) -> Vec<&'a str> {
    let Case {
        change_type,
        proposer,
        ..
    } = &docket.case;
    rules
        .roles
        .required(*change_type)
        .filter(|role| !docket.has_vote(&role.name) && !docket.silent.contains(&role.name))
        .filter(|role| {
            computed(&rules.roles, role, *change_type).is_none()
                || has_speaker(rules, &role.name, proposer)
        })
        .map(|role| role.name.as_str())
        .collect()
}

/// Required roles whose command has not run yet.
pub fn commands_due<'a>(rules: &'a Rulebook, docket: &Docket) -> Vec<&'a str> {
    let waiting = unfilled(rules, docket).into_iter();
    waiting
        .filter(|role| {
            rules
                .roles
                .resolve(role)
                .is_some_and(|role| role.command.is_some())
        })
        .collect()
}

/// The computation that fills a role for this type of change, if there is one.
fn computed(roles: &Roles, role: &RoleRule, change: ChangeType) -> Option<Computed> {
    role.computed.filter(|_| roles.evidence.computes(change))
}

impl Turn<'_> {
    /// Opens a case.
    pub(super) fn open_case(
        &self,
        authentic: &Authentic,
        request: &CouncilRequest,
    ) -> Result<Outcome, Refusal> {
        if let Some(docket) = &self.lookups.docket {
            let what = format!(
                "case `{}` already exists (ledger line {})",
                request.request_id, docket.request
            );
            return Err(Refusal::new(Code::StateConflict, what));
        }
        let envelope = &authentic.envelope;
        let deadline_s = self.rules.roles.change(request.change_type).deadline_s;
        let required: Vec<&RoleRule> = self.rules.roles.required(request.change_type).collect();
        let roles: Vec<&str> = required.iter().map(|role| role.name.as_str()).collect();
        let request_sha256 = self.payload_hash(authentic);
        let alias = RequestId::alias_of(&request_sha256);
        let case = Case {
            id: request.request_id.clone(),
            alias: Some(alias.clone()),
            change_type: request.change_type,
            proposer: envelope.source.clone(),
            request_sha256,
            answer: decision_path(self.rules, &envelope.source, &request.request_id),
            opened_at: self.now,
            deadline: self
                .now
                .plus_ms(i64::from(*deadline_s).saturating_mul(1000)),
        };
        let speaks = |role: &RoleRule| {
            computed(&self.rules.roles, role, case.change_type).is_some()
                || has_speaker(self.rules, &role.name, &case.proposer)
        };
        let data = data(&CaseOpened {
            case: &case.id,
            alias: &alias,
            roles: &roles,
            deadline: case.deadline,
            request_sha256: &case.request_sha256,
            unstaffed: required
                .iter()
                .filter(|role| !speaks(role))
                .map(|role| role.name.as_str())
                .collect(),
        })?;
        let docket = Docket {
            case,
            request: self.seq,
            votes: Vec::new(),
            silent: Vec::new(),
            closes_at: None,
            closed: None,
        };
        let full = is_full(self.rules, &docket, self.now);
        let opened = case::Change::CaseOpened(docket.case);
        let changes = [opened].into_iter().chain(full);
        Ok(Outcome {
            data,
            changes: changes.map(Change::Council).collect(),
            ..Outcome::default()
        })
    }

    /// Files a verdict. The case is decided at the end of a batch.
    pub(super) fn file_verdict(
        &self,
        source: &Principal,
        submit: &SubmitVerdict,
    ) -> Result<Outcome, Refusal> {
        let id = &submit.request_id;
        let conflict = |what: String| Err(Refusal::new(Code::StateConflict, what));
        let Some(docket) = &self.lookups.docket else {
            let list = ActionName::CasesList;
            let what = format!("case `{id}` does not exist; `{list}` lists yours");
            return Err(Refusal::new(Code::NotFound, what));
        };
        let is_as_signed = self.lookups.signed_case.as_ref() == Some(&submit.request_sha256);
        if submit.request_sha256 != docket.case.request_sha256 && !is_as_signed {
            return conflict(format!(
                "the verdict names request {}, but case `{id}` is about request {}",
                submit.request_sha256, docket.case.request_sha256
            ));
        }
        if let Some(why) = self.too_late(docket, submit) {
            return conflict(why);
        }
        let proposer = &docket.case.proposer;
        if operator(self.rules, source) == operator(self.rules, proposer) {
            // Nobody learns here who else works for this operator.
            let whose = if source == proposer {
                format!("`{source}` proposed case `{id}`")
            } else {
                format!("the operator of `{source}` proposed case `{id}`")
            };
            // No grant helps, so the remedy of the code would be wrong.
            let what = format!(
                "{whose} and may not speak for a role in it; another principal that may speak for \
                    the role must vote"
            );
            return Err(Refusal::recorded(Code::NotPermitted, what));
        }
        let Some(role) = granted(self.rules, source, &submit.verdict.role) else {
            let what = format!(
                "`{source}` may not speak for the role `{}`",
                submit.verdict.role
            );
            return Err(Refusal::new(Code::NotPermitted, what));
        };
        let filed = docket
            .votes
            .iter()
            .filter(|(_, vote)| vote.by.as_ref() == Some(source))
            .count();
        if filed >= VERDICTS_MAX {
            return conflict(format!(
                "`{source}` has filed {filed} verdicts in case `{id}`, the maximum for one \
                    principal"
            ));
        }
        let case = docket.case.id.clone();
        let vote = Vote {
            case: case.clone(),
            role: role.clone(),
            by: Some(source.clone()),
        };
        let filed = case::Change::VoteFiled(vote);
        let after = docket.clone().after(self.seq, [&filed]);
        let then = match &docket.closed {
            Some(_) => Some(case::Change::CaseReopened { case }),
            None => is_full(self.rules, &after, self.now),
        };
        let closes_at = match &then {
            Some(case::Change::CaseFull { closes_at, .. }) => Some(closes_at.unwrap_or(self.now)),
            _ => docket.closes_at,
        };
        let is_alone = self
            .rules
            .principals
            .get(source)
            .is_some_and(|rule| rule.spool.is_some());
        let seat = seats::reading(docket.case.change_type, &submit.verdict, &self.rules.roles)
            .filter(|_| is_alone);
        let data = data(&VerdictFiled {
            case: id,
            role: &role,
            closes_at,
            counts_as: seat.as_ref().map(|seat| seat.verdict),
            notes: seat.as_ref().map_or(&[], |seat| &seat.notes),
            waits_for: match docket.closed {
                None if is_alone => waits_for(self.rules, &after),
                _ => Vec::new(),
            },
        })?;
        let changes = [filed].into_iter().chain(then);
        Ok(Outcome {
            data,
            changes: changes.map(Change::Council).collect(),
            ..Outcome::default()
        })
    }

    /// Says why a verdict comes too late to count, if it does. After the decision, only what lowers an
    /// outcome counts.
    fn too_late(&self, docket: &Docket, submit: &SubmitVerdict) -> Option<String> {
        let id = &submit.request_id;
        if let Some(closed) = &docket.closed {
            let decided = format!(
                "case `{id}` was decided {} in ledger line {}",
                closed.outcome.as_str(),
                closed.line
            );
            let until = closed.objections_until.filter(|until| self.now <= *until);
            return match until {
                None => Some(decided),
                Some(until) if Stance::parse(&submit.verdict.verdict) == Some(Stance::Approve) => {
                    Some(format!(
                        "{decided}; until {until} only an objection is taken, a verdict that is not \
                            APPROVE"
                    ))
                }
                Some(_) => None,
            };
        }
        if let Some(at) = docket.closes_at.filter(|at| self.now > *at) {
            return Some(format!(
                "case `{id}` took verdicts until {at}, and waits for its decision"
            ));
        }
        (self.now >= docket.case.deadline).then(|| {
            format!(
                "the deadline of case `{id}` passed at {}, before it could be decided",
                docket.case.deadline
            )
        })
    }
}

/// Where a principal finds the decision on a case, below the spool.
fn decision_path(rules: &Rulebook, reader: &Principal, case: &RequestId) -> String {
    let spool = rules
        .principals
        .get(reader)
        .and_then(|rule| rule.spool.as_ref());
    let folder = spool.map_or_else(|| "out".to_owned(), |name| format!("out/{name}"));
    format!("{folder}/{}.decision.json", case.file_stem())
}

/// The change of a case that waits for nobody; `None` if it waits, or if the time of its
/// decision is set already.
fn is_full(rules: &Rulebook, docket: &Docket, now: Time) -> Option<case::Change> {
    if docket.closes_at.is_some() || !waits_for(rules, docket).is_empty() {
        return None;
    }
    let Case {
        id,
        change_type,
        deadline,
        ..
    } = &docket.case;
    let settle_s = *rules.roles.change(*change_type).settle_s;
    let closes_at = now
        .plus_ms(i64::from(settle_s).saturating_mul(1000))
        .min(deadline.plus_ms(-1));
    Some(case::Change::CaseFull {
        case: id.clone(),
        closes_at: (settle_s > 0).then_some(closes_at),
    })
}

/// A placeholder for a request that can no longer be read: it has no evidence, so there is nothing
/// to approve.
fn unreadable(id: &RequestId, change_type: ChangeType, opened_at: Time) -> CouncilRequest {
    CouncilRequest {
        request_id: id.clone(),
        timestamp: opened_at,
        proposer: "unknown".to_owned(),
        change_type,
        context: Context {
            summary: "the request can no longer be read".to_owned(),
            files_changed: Vec::new(),
            key_metrics: Default::default(),
        },
        artifacts: Artifacts::default(),
        returns: None,
        trial_returns: None,
    }
}

/// The ruling on a case, from filed verdicts and computed evidence. `earlier` is the outcome of the
/// decision that it would replace.
pub fn rule_on(rules: &Rulebook, docket: &Docket, said: &Said, earlier: Option<Stance>) -> Ruling {
    let Case {
        id,
        change_type,
        proposer,
        opened_at,
        ..
    } = &docket.case;
    let request = said
        .request
        .clone()
        .unwrap_or_else(|| unreadable(id, *change_type, *opened_at));
    let filed = |(line, verdict): &(u64, RoleVerdict)| {
        let vote = docket.votes.iter().find(|(seq, _)| seq == line);
        Some(Filed {
            verdict: verdict.clone(),
            by: speaker(rules, &vote?.1),
        })
    };
    let verdicts: Vec<Filed> = said.verdicts.iter().filter_map(filed).collect();
    let mut ruling = calculate(&rules.roles, &request, &verdicts, earlier);
    let claimed = said
        .request
        .as_ref()
        .map(|request| request.proposer.clone());
    ruling.record.semantics = Some(SEMANTICS);
    ruling.record.proposed_by = Some(ProposedBy {
        signer: proposer.clone(),
        differs: claimed.as_deref() != Some(proposer.as_str()),
        claimed,
    });
    ruling
}

/// The ruling from these verdicts and the evidence computed from the request. `earlier` is the outcome
/// that an objection may lower.
pub fn calculate(
    roles: &Roles,
    request: &CouncilRequest,
    verdicts: &[Filed],
    earlier: Option<Stance>,
) -> Ruling {
    let evidence: Vec<_> = roles
        .required(request.change_type)
        .filter_map(|role| match computed(roles, role, request.change_type)? {
            Computed::RealismChecker => Some(evidence::realism_checker(request, &roles.evidence)),
            Computed::QuantResearcher => {
                Some(evidence::quant_researcher(request, &roles.evidence, 1))
            }
        })
        .collect();
    let aggregate::Ruling {
        decision,
        deliberation,
    } = aggregate::decide(request, verdicts, &evidence, roles, earlier);
    let digest = |filed: &Filed| {
        signing::sha256_hex(&serde_json::to_vec(&filed.verdict).unwrap_or_default())
    };
    let verdicts_sha256 = verdicts.iter().map(digest).collect();
    Ruling {
        decision,
        record: CaseRecord {
            verdicts_sha256,
            deliberation,
            evidence,
            proposed_by: None,
            semantics: None,
        },
    }
}

/// Returns a member of a line, or its digest if it is too large for the line.
fn member(
    text: Result<Box<RawValue>, serde_json::Error>,
    blobs: &mut Vec<(String, Vec<u8>)>,
) -> Result<(Option<Box<RawValue>>, Option<String>), Refusal> {
    let raw = text.map_err(|error| {
        Refusal::new(
            Code::Internal,
            format!("the decision cannot be written: {error}"),
        )
    })?;
    if raw.get().len() <= MEMBER_BYTES_MAX {
        return Ok((Some(raw), None));
    }
    let digest = signing::sha256_hex(raw.get().as_bytes());
    blobs.push((digest.clone(), raw.get().as_bytes().to_vec()));
    Ok((None, Some(digest)))
}

/// Decides a case.
///
/// # Errors
/// Returns a refusal if the decision cannot be written as JSON.
pub fn close(
    rules: &Rulebook,
    docket: &Docket,
    said: &Said,
    now: Time,
) -> Result<Closing, Refusal> {
    let earlier = docket.closed.map(|closed| closed.outcome);
    let ruling = rule_on(rules, docket, said, earlier);
    let case = &docket.case;
    let is_full = waits_for(rules, docket).is_empty();
    let closed_by = match docket.closed {
        Some(_) => ClosedBy::Objection,
        None if is_full && (now < case.deadline || docket.closes_at.is_some()) => ClosedBy::Seats,
        None => ClosedBy::Deadline,
    };
    let mut blobs = Vec::new();
    let (decision, decision_blob) = member(to_raw_value(&ruling.decision), &mut blobs)?;
    let (record, record_blob) = member(to_raw_value(&ruling.record), &mut blobs)?;
    let outcome = ruling.decision.final_outcome;
    let objections_until = match &docket.closed {
        Some(earlier) => earlier.objections_until,
        None => {
            let objection_s = *rules.roles.change(case.change_type).objection_s;
            let until = now.plus_ms(i64::from(objection_s).saturating_mul(1000));
            (objection_s > 0).then_some(until)
        }
    };
    let signers = docket.votes.iter().filter_map(|(_, vote)| vote.by.as_ref());
    let mut copies: BTreeSet<String> = signers
        .map(|signer| decision_path(rules, signer, &case.id))
        .collect();
    copies.remove(&case.answer);
    let line = CaseDecision {
        timestamp: now,
        request_id: case.id.clone(),
        request_sha256: case.request_sha256.clone(),
        request_line: docket.request,
        verdict_lines: said.verdicts.iter().map(|(line, _)| *line).collect(),
        closed_by,
        revises: docket.closed.as_ref().map(|earlier| earlier.line),
        outcome,
        decision,
        decision_blob,
        record,
        record_blob,
        answer: case.answer.clone(),
        copies: copies.into_iter().collect(),
        rulebook: rules.hash.clone(),
        changes: vec![Change::Council(case::Change::CaseClosed {
            case: case.id.clone(),
            outcome,
            objections_until: objections_until.filter(|_| outcome != Stance::Reject),
        })],
    };
    Ok(Closing { line, blobs })
}

/// The result of a role's command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleAnswer {
    /// The case that it was run for.
    pub case: RequestId,
    /// The role.
    pub role: String,
    /// How the command ended, as a short text.
    pub note: String,
    /// Its output, if it ended well.
    pub output: Option<Vec<u8>>,
    /// What its cage enforced.
    pub cage: Option<Cage>,
}

/// A role's recorded answer.
#[derive(Clone, Debug)]
pub struct Heard {
    /// Its line.
    pub input: Input,
    /// Contents by digest that must be durable before the line.
    pub blobs: Vec<(String, Vec<u8>)>,
}

/// Records the answer of a role's command: a verdict fills its seat, anything else leaves it empty.
pub fn hear(rules: &Rulebook, docket: &Docket, answer: &RoleAnswer, now: Time) -> Heard {
    let RoleAnswer {
        case,
        role,
        note,
        output,
        cage,
    } = answer;
    let is_heard = docket
        .votes
        .iter()
        .any(|(_, vote)| vote.by.is_none() && vote.role == *role);
    // An earlier verdict of a principal must not keep out the objection of a command.
    let late = docket.closed.is_some()
        || docket.closes_at.is_some_and(|at| now > at)
        || now >= docket.case.deadline
        || is_heard
        || docket.silent.contains(role);
    let read = match output {
        _ if late => Err(SeatError::Late),
        Some(bytes) => read_output(rules, role, bytes),
        None => Err(SeatError::NoOutput),
    };
    let mut blobs = Vec::new();
    let (mut payload, mut payload_blob) = (None, None);
    let mut changes = Vec::new();
    let note = match read {
        Ok(text) => {
            if text.len() > MEMBER_BYTES_MAX {
                let digest = signing::sha256_hex(text.as_bytes());
                blobs.push((digest.clone(), text.into_bytes()));
                payload_blob = Some(digest);
            } else {
                payload = Some(text);
            }
            let vote = Vote {
                case: case.clone(),
                role: role.clone(),
                by: None,
            };
            changes.push(Change::Council(case::Change::VoteFiled(vote)));
            note.clone()
        }
        Err(why) => {
            if !late {
                let (case, role) = (case.clone(), role.clone());
                changes.push(Change::Council(case::Change::RoleSilent { case, role }));
            }
            format!("{note}; {}", escaped(&why.to_string()))
        }
    };
    let input = Input {
        timestamp: now,
        request_id: case.clone(),
        role: role.clone(),
        note,
        payload,
        payload_blob,
        cage: cage.clone(),
        rulebook: rules.hash.clone(),
        changes,
    };
    Heard { input, blobs }
}

/// The change of a case that waits for nobody after line `seq` with the answer of a role's command.
pub fn fills(rules: &Rulebook, docket: Docket, seq: u64, heard: &Input) -> Option<case::Change> {
    let steps = heard.changes.iter().filter_map(|change| match change {
        Change::Council(step) => Some(step),
        _ => None,
    });
    let after = docket.after(seq, steps);
    is_full(rules, &after, heard.timestamp).filter(|_| !heard.changes.is_empty())
}

/// Why the answer of a command fills no seat.
#[derive(Debug, thiserror::Error)]
enum SeatError {
    #[error("its answer came after another answer, the council decision or the deadline")]
    Late,
    #[error("the seat stays empty")]
    NoOutput,
    #[error("its output is not a verdict: {0}")]
    Json(#[from] json::JsonError),
    #[error("its output is not a verdict: {0}")]
    Shape(#[from] serde_json::Error),
    #[error("its output speaks for `{0}`")]
    OtherRole(String),
}

fn read_output(rules: &Rulebook, role: &str, bytes: &[u8]) -> Result<String, SeatError> {
    let text = json::check_object(bytes)?;
    let text = json::minify(text).into_owned();
    let verdict: RoleVerdict = serde_json::from_str(&text)?;
    let named = name_of(rules, &verdict.role);
    if named != role {
        return Err(SeatError::OtherRole(named));
    }
    Ok(text)
}
