//! Council cases at the gate: opening one, filing a verdict, deciding when every seat that can be filled is, or when
//! the deadline has passed. What a case rests on stands in ledger lines, so the decision can be recomputed from them.

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use super::decide::MEMBER_BYTES_MAX;
use super::handle::{Outcome, Turn};
use super::prepare::{Authentic, Refusal, escaped};
use super::record::{CaseDecision, ClosedBy, Input};
use super::state::Change;
use crate::council::aggregate::Deliberation;
use crate::council::case::{self, Case, Docket, Vote};
use crate::council::finding::Evidence;
use crate::council::{aggregate, evidence, seats};
use crate::rules::Rulebook;
use crate::rules::roles::{Computed, RoleRule, Roles};
use crate::wire::code::Code;
use crate::wire::council::{
    Artifacts, ChangeType, Context, CouncilDecision, CouncilRequest, RoleVerdict, Stance, SubmitVerdict,
};
use crate::wire::ids::{Principal, RequestId};
use crate::wire::time::Time;
use crate::wire::{json, signing};

/// Verdicts that one principal may file in a case. All of them are read to decide it and named in one ledger line, so
/// without a bound a role could make its case too large to be decided.
pub const VERDICTS_MAX: usize = 16;

/// What was said in a case, read back from its lines.
#[derive(Clone, Debug)]
pub struct Said {
    /// The request; none: its line or blob can no longer be read.
    pub request: Option<CouncilRequest>,
    /// Verdicts by line, in the order of the docket; what can no longer be read is left out.
    pub verdicts: Vec<(u64, RoleVerdict)>,
}

/// What a decision rests on; it stands beside it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseRecord {
    /// SHA-256 of every verdict that counted, as JSON with the contract's keys in the contract's order, in the order of
    /// their lines.
    pub verdicts_sha256: Vec<String>,
    /// Rules, seats, dissent.
    pub deliberation: Deliberation,
    /// What the gate computed itself.
    pub evidence: Vec<Evidence>,
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
    /// The contract's object.
    pub decision: CouncilDecision,
    /// Its line.
    pub line: CaseDecision,
    /// Contents by digest.
    pub blobs: Vec<(String, Vec<u8>)>,
}

#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct CaseOpened<'a> {
    /// The case.
    case: &'a RequestId,
    /// Roles that must answer.
    roles: &'a [&'a str],
    /// Until when.
    deadline: Time,
    /// What a verdict must name: the hash of the request, hex.
    request_sha256: &'a str,
    /// Required roles that nobody may speak for in this case: it can only wait for its deadline.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unstaffed: Vec<&'a str>,
}

#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct VerdictFiled<'a> {
    /// The case.
    case: &'a RequestId,
    /// The role, by its name in the roster.
    role: &'a str,
    /// What the verdict counts as, which can be less than it says.
    counts_as: Stance,
    /// Why it counts as less.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    notes: &'a [String],
    /// Roles still waited for.
    waiting_for: Vec<&'a str>,
    /// The decision, where this verdict was the last one waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    decision: Option<&'a CouncilDecision>,
}

fn data<T: Serialize>(body: &T) -> Result<Box<RawValue>, Refusal> {
    to_raw_value(body)
        .map_err(|error| Refusal::new(Code::Internal, format!("the answer cannot be written: {error}")))
}

/// A role's name in `council/roles.yaml`, whatever its spelling; of a role that is not there the letters and digits.
pub fn name_of(rules: &Rulebook, spelling: &str) -> String {
    rules.roles.resolve(spelling).map_or_else(|| rules.roles.key(spelling), |role| role.name.clone())
}

/// The role a principal may speak for under this name: the name in `council/roles.yaml`, or its own where that file
/// does not know it.
pub(super) fn granted(rules: &Rulebook, source: &Principal, role: &str) -> Option<String> {
    let rule = rules.principals.get(source)?;
    rules.roles.may_speak_for(rule, role).then(|| name_of(rules, role))
}

/// Whether anybody but the proposer may speak for a role, or a command does.
fn has_speaker(rules: &Rulebook, role: &str, proposer: &Principal) -> bool {
    rules.roles.resolve(role).is_some_and(|role| role.command.is_some())
        || rules.principals.keys().any(|name| name != proposer && granted(rules, name, role).is_some())
}

/// Required roles whose verdict a case waits for. A computed role is waited for where somebody may speak for it too:
/// what they say can only worsen the seat.
pub fn waits_for<'a>(rules: &'a Rulebook, docket: &Docket) -> Vec<&'a str> {
    let Case { change_type, proposer, .. } = &docket.case;
    rules
        .roles
        .required(*change_type)
        .filter(|role| !docket.has_vote(&role.name) && !docket.silent.contains(&role.name))
        .filter(|role| {
            computed(&rules.roles, role, *change_type).is_none() || has_speaker(rules, &role.name, proposer)
        })
        .map(|role| role.name.as_str())
        .collect()
}

/// Required roles whose command is still to be run.
pub fn commands_due<'a>(rules: &'a Rulebook, docket: &Docket) -> Vec<&'a str> {
    let waiting = waits_for(rules, docket).into_iter();
    waiting.filter(|role| rules.roles.resolve(role).is_some_and(|role| role.command.is_some())).collect()
}

/// The computation that votes for a role on this type of change.
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
            let what =
                format!("case `{}` was opened before (ledger line {})", request.request_id, docket.request);
            return Err(Refusal::new(Code::StateConflict, what));
        }
        let envelope = &authentic.envelope;
        let deadline_s = self.rules.roles.change(request.change_type).deadline_s;
        let required: Vec<&RoleRule> = self.rules.roles.required(request.change_type).collect();
        let roles: Vec<&str> = required.iter().map(|role| role.name.as_str()).collect();
        let spool = self.rules.principals.get(&envelope.source).and_then(|rule| rule.spool.as_ref());
        let folder = spool.map_or_else(|| "out".to_owned(), |name| format!("out/{name}"));
        let case = Case {
            id: request.request_id.clone(),
            change_type: request.change_type,
            proposer: envelope.source.clone(),
            request_sha256: self.payload_hash(authentic),
            answer: format!("{folder}/{}.decision.json", request.request_id),
            opened_at: self.now,
            deadline: self.now.plus_ms(i64::from(deadline_s).saturating_mul(1000)),
        };
        let speaks = |role: &RoleRule| {
            computed(&self.rules.roles, role, case.change_type).is_some()
                || has_speaker(self.rules, &role.name, &case.proposer)
        };
        let data = data(&CaseOpened {
            case: &case.id,
            roles: &roles,
            deadline: case.deadline,
            request_sha256: &case.request_sha256,
            unstaffed: required.iter().filter(|role| !speaks(role)).map(|role| role.name.as_str()).collect(),
        })?;
        let docket = Docket { case, request: self.seq, votes: Vec::new(), silent: Vec::new(), closed: None };
        let is_full = waits_for(self.rules, &docket).is_empty();
        let closing = (is_full && !self.lookups.no_more_cases).then(|| {
            let said = Said { request: Some(request.clone()), verdicts: Vec::new() };
            close(self.rules, &docket, &said, self.now, ClosedBy::Seats)
        });
        let case = docket.case.id.clone();
        let mut changes = vec![Change::Council(case::Change::CaseOpened(docket.case))];
        if is_full && closing.is_none() {
            changes.push(Change::Council(case::Change::CaseFull { case }));
        }
        Ok(Outcome { data: Some(data), changes, closing: closing.transpose()?, ..Outcome::default() })
    }

    /// Files a verdict, and decides the case if it was the last one waited for.
    pub(super) fn file_verdict(
        &self,
        source: &Principal,
        submit: &SubmitVerdict,
    ) -> Result<Outcome, Refusal> {
        let id = &submit.request_id;
        let conflict = |what: String| Err(Refusal::new(Code::StateConflict, what));
        let Some(docket) = &self.lookups.docket else {
            return Err(Refusal::new(Code::NotFound, format!("there is no case `{id}`")));
        };
        let is_as_signed = self.lookups.signed_case.as_ref() == Some(&submit.request_sha256);
        if submit.request_sha256 != docket.case.request_sha256 && !is_as_signed {
            return conflict(format!(
                "the verdict is on request {}, case `{id}` is about {}",
                submit.request_sha256, docket.case.request_sha256
            ));
        }
        if let Some((line, outcome)) = docket.closed {
            return conflict(format!("case `{id}` was decided {} in ledger line {line}", outcome.as_str()));
        }
        if self.now >= docket.case.deadline {
            return conflict(format!(
                "the deadline of case `{id}` passed at {}, before it could be decided",
                docket.case.deadline
            ));
        }
        if *source == docket.case.proposer {
            let what = format!("`{source}` proposed case `{id}` and may not speak for a role in it");
            return Err(Refusal::new(Code::NotPermitted, what));
        }
        let Some(role) = granted(self.rules, source, &submit.verdict.role) else {
            let what = format!("`{source}` may not speak for the role `{}`", submit.verdict.role);
            return Err(Refusal::new(Code::NotPermitted, what));
        };
        let filed = docket.votes.iter().filter(|(_, vote)| vote.by.as_ref() == Some(source)).count();
        if filed >= VERDICTS_MAX {
            return conflict(format!("`{source}` filed {filed} verdicts in case `{id}`, which is the most"));
        }
        let vote = Vote { case: id.clone(), role: role.clone(), by: Some(source.clone()) };
        let mut after = docket.clone();
        after.votes.push((self.seq, vote.clone()));
        let waiting_for = waits_for(self.rules, &after);
        let is_full = waiting_for.is_empty();
        let closing = match &self.lookups.said {
            Some(said) if is_full => {
                let mut said = said.clone();
                said.verdicts.push((self.seq, submit.verdict.clone()));
                Some(close(self.rules, &after, &said, self.now, ClosedBy::Seats)?)
            }
            _ => None,
        };
        let seat = seats::reading(docket.case.change_type, &submit.verdict, &self.rules.roles);
        let (counts_as, notes) =
            seat.map_or((Stance::NeedsMoreInfo, Vec::new()), |seat| (seat.verdict, seat.notes));
        let data = data(&VerdictFiled {
            case: id,
            role: &role,
            counts_as,
            notes: &notes,
            waiting_for,
            decision: closing.as_ref().map(|closing| &closing.decision),
        })?;
        let mut changes = vec![Change::Council(case::Change::VoteFiled(vote))];
        if is_full && closing.is_none() {
            changes.push(Change::Council(case::Change::CaseFull { case: id.clone() }));
        }
        Ok(Outcome { data: Some(data), changes, closing, ..Outcome::default() })
    }
}

/// A request of which nothing can be read any more: no evidence, so nothing to approve.
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

/// The ruling on a case as it stands: what was filed and what is computed.
pub fn rule_on(rules: &Rulebook, docket: &Docket, said: &Said) -> Ruling {
    let Case { id, change_type, opened_at, .. } = &docket.case;
    let request = said.request.clone().unwrap_or_else(|| unreadable(id, *change_type, *opened_at));
    let verdicts: Vec<RoleVerdict> = said.verdicts.iter().map(|(_, verdict)| verdict.clone()).collect();
    calculate(&rules.roles, &request, &verdicts)
}

/// The ruling over these verdicts and what is computed from the request.
pub fn calculate(roles: &Roles, request: &CouncilRequest, verdicts: &[RoleVerdict]) -> Ruling {
    let evidence: Vec<_> = roles
        .required(request.change_type)
        .filter_map(|role| match computed(roles, role, request.change_type)? {
            Computed::RealismChecker => Some(evidence::realism_checker(request, &roles.evidence)),
            Computed::QuantResearcher => Some(evidence::quant_researcher(request, &roles.evidence, 1)),
        })
        .collect();
    let aggregate::Ruling { decision, deliberation } = aggregate::decide(request, verdicts, &evidence, roles);
    let digest = |verdict| signing::sha256_hex(&serde_json::to_vec(verdict).unwrap_or_default());
    let verdicts_sha256 = verdicts.iter().map(digest).collect();
    Ruling { decision, record: CaseRecord { verdicts_sha256, deliberation, evidence } }
}

/// A member of a line, or its digest where it is too large for one.
fn member(
    text: Result<Box<RawValue>, serde_json::Error>,
    blobs: &mut Vec<(String, Vec<u8>)>,
) -> Result<(Option<Box<RawValue>>, Option<String>), Refusal> {
    let raw = text
        .map_err(|error| Refusal::new(Code::Internal, format!("the decision cannot be written: {error}")))?;
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
/// A refusal if the decision cannot be written as JSON.
pub fn close(
    rules: &Rulebook,
    docket: &Docket,
    said: &Said,
    now: Time,
    closed_by: ClosedBy,
) -> Result<Closing, Refusal> {
    let ruling = rule_on(rules, docket, said);
    let case = &docket.case;
    let mut blobs = Vec::new();
    let (decision, decision_blob) = member(to_raw_value(&ruling.decision), &mut blobs)?;
    let (record, record_blob) = member(to_raw_value(&ruling.record), &mut blobs)?;
    let outcome = ruling.decision.final_outcome;
    let line = CaseDecision {
        timestamp: now,
        request_id: case.id.clone(),
        request_sha256: case.request_sha256.clone(),
        request_line: docket.request,
        verdict_lines: said.verdicts.iter().map(|(line, _)| *line).collect(),
        closed_by,
        outcome,
        decision,
        decision_blob,
        record,
        record_blob,
        answer: case.answer.clone(),
        rulebook: rules.hash.clone(),
        changes: vec![Change::Council(case::Change::CaseClosed { case: case.id.clone(), outcome })],
    };
    Ok(Closing { decision: ruling.decision, line, blobs })
}

/// What a role's command came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleAnswer {
    /// The case it was asked about.
    pub case: RequestId,
    /// The role.
    pub role: String,
    /// How it ended: a short text for people.
    pub note: String,
    /// What it wrote, if it ended well.
    pub output: Option<Vec<u8>>,
}

/// A role's answer, taken down.
#[derive(Clone, Debug)]
pub struct Heard {
    /// Its line.
    pub input: Input,
    /// Contents by digest that must be durable before the line.
    pub blobs: Vec<(String, Vec<u8>)>,
    /// The verdict, where it is one.
    pub verdict: Option<RoleVerdict>,
}

/// Takes down what a role's command answered: a verdict fills its seat, anything else leaves it empty.
pub fn hear(rules: &Rulebook, docket: &Docket, answer: &RoleAnswer, now: Time) -> Heard {
    let RoleAnswer { case, role, note, output } = answer;
    let is_heard = docket.votes.iter().any(|(_, vote)| vote.by.is_none() && vote.role == *role);
    // That somebody with a key was faster must not keep an objection out.
    let late =
        docket.closed.is_some() || now >= docket.case.deadline || is_heard || docket.silent.contains(role);
    let read = match output {
        _ if late => Err("it came after the command was heard, the case decided or its deadline".to_owned()),
        Some(bytes) => read_output(rules, role, bytes),
        None => Err("the seat stays empty".to_owned()),
    };
    let mut blobs = Vec::new();
    let (mut payload, mut payload_blob) = (None, None);
    let mut changes = Vec::new();
    let (note, verdict) = match read {
        Ok((text, verdict)) => {
            if text.len() > MEMBER_BYTES_MAX {
                let digest = signing::sha256_hex(text.as_bytes());
                blobs.push((digest.clone(), text.into_bytes()));
                payload_blob = Some(digest);
            } else {
                payload = Some(text);
            }
            let vote = Vote { case: case.clone(), role: role.clone(), by: None };
            changes.push(Change::Council(case::Change::VoteFiled(vote)));
            (note.clone(), Some(verdict))
        }
        Err(why) => {
            if !late {
                let (case, role) = (case.clone(), role.clone());
                changes.push(Change::Council(case::Change::RoleSilent { case, role }));
            }
            (format!("{note}; {}", escaped(&why)), None)
        }
    };
    let input = Input {
        timestamp: now,
        request_id: case.clone(),
        role: role.clone(),
        note,
        payload,
        payload_blob,
        rulebook: rules.hash.clone(),
        changes,
    };
    Heard { input, blobs, verdict }
}

fn read_output(rules: &Rulebook, role: &str, bytes: &[u8]) -> Result<(String, RoleVerdict), String> {
    let text = json::check_object(bytes).map_err(|error| format!("its output is no verdict: {error}"))?;
    let text = json::minify(text).into_owned();
    let verdict: RoleVerdict =
        serde_json::from_str(&text).map_err(|error| format!("its output is no verdict: {error}"))?;
    let named = name_of(rules, &verdict.role);
    if named != role {
        return Err(format!("its output speaks for `{named}`"));
    }
    Ok((text, verdict))
}
