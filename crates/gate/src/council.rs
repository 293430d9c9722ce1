//! Council cases at the gate: opens a case, files a verdict, and decides when every seat that can
//! be filled is filled or the deadline has passed. Everything that a case rests on is in ledger
//! lines, so the decision can be recomputed from them.

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use super::decide::MEMBER_BYTES_MAX;
use super::handle::data;
use super::handle::{Outcome, Turn};
use super::prepare::{Authentic, Refusal, escaped};
use super::record::{Cage, CaseDecision, ClosedBy, Input};
use super::state::Change;
use spoolgate_council::aggregate::Deliberation;
use spoolgate_council::case::{self, Case, Docket, Vote};
use spoolgate_council::finding::Evidence;
use spoolgate_council::{aggregate, evidence, seats};
use spoolgate_rules::Rulebook;
use spoolgate_rules::roles::{Computed, RoleRule, Roles};
use spoolgate_wire::code::Code;
use spoolgate_wire::council::{
    Artifacts, ChangeType, Context, CouncilDecision, CouncilRequest, RoleVerdict, Stance,
    SubmitVerdict,
};
use spoolgate_wire::ids::{Principal, RequestId};
use spoolgate_wire::time::Time;
use spoolgate_wire::{json, signing};

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

/// The answer to `council.request`.
#[derive(Serialize, schemars::JsonSchema)]
pub struct CaseOpened<'a> {
    /// The case.
    case: &'a RequestId,
    /// Roles that must answer.
    roles: &'a [&'a str],
    /// When the case must be decided.
    deadline: Time,
    /// SHA-256 of the request, hex; a verdict must name it.
    request_sha256: &'a str,
    /// Required roles that no principal may fill in this case: it can only wait for its deadline.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unstaffed: Vec<&'a str>,
}

/// The answer to `council.verdict`.
#[derive(Serialize, schemars::JsonSchema)]
pub struct VerdictFiled<'a> {
    /// The case.
    case: &'a RequestId,
    /// The role, by its name in the roster.
    role: &'a str,
    /// The stance that the verdict counts as, which can be weaker than the one it states.
    counts_as: Stance,
    /// Why it counts as less.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    notes: &'a [String],
    /// Roles that the case still waits for.
    waiting_for: Vec<&'a str>,
    /// The decision, if this was the last verdict that the case waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    decision: Option<&'a CouncilDecision>,
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

/// Whether a command or a principal other than the proposer may fill a role.
fn has_speaker(rules: &Rulebook, role: &str, proposer: &Principal) -> bool {
    rules
        .roles
        .resolve(role)
        .is_some_and(|role| role.command.is_some())
        || rules
            .principals
            .keys()
            .any(|name| name != proposer && granted(rules, name, role).is_some())
}

/// Required roles whose verdict a case waits for. That includes a computed role that a principal
/// may also fill: the verdict can only worsen the seat.
pub fn waits_for<'a>(rules: &'a Rulebook, docket: &Docket) -> Vec<&'a str> {
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
    let waiting = waits_for(rules, docket).into_iter();
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
        let spool = self
            .rules
            .principals
            .get(&envelope.source)
            .and_then(|rule| rule.spool.as_ref());
        let folder = spool.map_or_else(|| "out".to_owned(), |name| format!("out/{name}"));
        let case = Case {
            id: request.request_id.clone(),
            change_type: request.change_type,
            proposer: envelope.source.clone(),
            request_sha256: self.payload_hash(authentic),
            answer: format!("{folder}/{}.decision.json", request.request_id.file_stem()),
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
            closed: None,
        };
        let is_full = waits_for(self.rules, &docket).is_empty();
        let closing = (is_full && !self.lookups.no_more_cases).then(|| {
            let said = Said {
                request: Some(request.clone()),
                verdicts: Vec::new(),
            };
            close(self.rules, &docket, &said, self.now, ClosedBy::Seats)
        });
        let case = docket.case.id.clone();
        let mut changes = vec![Change::Council(case::Change::CaseOpened(docket.case))];
        if is_full && closing.is_none() {
            changes.push(Change::Council(case::Change::CaseFull { case }));
        }
        Ok(Outcome {
            data,
            changes,
            closing: closing.transpose()?,
            ..Outcome::default()
        })
    }

    /// Files a verdict, and decides the case if this was the last one it waited for.
    pub(super) fn file_verdict(
        &self,
        source: &Principal,
        submit: &SubmitVerdict,
    ) -> Result<Outcome, Refusal> {
        let id = &submit.request_id;
        let conflict = |what: String| Err(Refusal::new(Code::StateConflict, what));
        let Some(docket) = &self.lookups.docket else {
            return Err(Refusal::new(
                Code::NotFound,
                format!("case `{id}` does not exist"),
            ));
        };
        let is_as_signed = self.lookups.signed_case.as_ref() == Some(&submit.request_sha256);
        if submit.request_sha256 != docket.case.request_sha256 && !is_as_signed {
            return conflict(format!(
                "the verdict names request {}, but case `{id}` is about request {}",
                submit.request_sha256, docket.case.request_sha256
            ));
        }
        if let Some((line, outcome)) = docket.closed {
            return conflict(format!(
                "case `{id}` was decided {} in ledger line {line}",
                outcome.as_str()
            ));
        }
        if self.now >= docket.case.deadline {
            return conflict(format!(
                "the deadline of case `{id}` passed at {}, before it could be decided",
                docket.case.deadline
            ));
        }
        if *source == docket.case.proposer {
            let what =
                format!("`{source}` proposed case `{id}` and may not speak for a role in it");
            return Err(Refusal::new(Code::NotPermitted, what));
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
        let vote = Vote {
            case: id.clone(),
            role: role.clone(),
            by: Some(source.clone()),
        };
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
        let (counts_as, notes) = seat.map_or((Stance::NeedsMoreInfo, Vec::new()), |seat| {
            (seat.verdict, seat.notes)
        });
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
        Ok(Outcome {
            data,
            changes,
            closing,
            ..Outcome::default()
        })
    }
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

/// The ruling on a case in its present state, from filed verdicts and computed evidence.
pub fn rule_on(rules: &Rulebook, docket: &Docket, said: &Said) -> Ruling {
    let Case {
        id,
        change_type,
        opened_at,
        ..
    } = &docket.case;
    let request = said
        .request
        .clone()
        .unwrap_or_else(|| unreadable(id, *change_type, *opened_at));
    let verdicts: Vec<RoleVerdict> = said
        .verdicts
        .iter()
        .map(|(_, verdict)| verdict.clone())
        .collect();
    calculate(&rules.roles, &request, &verdicts)
}

/// The ruling from these verdicts and the evidence computed from the request.
pub fn calculate(roles: &Roles, request: &CouncilRequest, verdicts: &[RoleVerdict]) -> Ruling {
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
    } = aggregate::decide(request, verdicts, &evidence, roles);
    let digest = |verdict| signing::sha256_hex(&serde_json::to_vec(verdict).unwrap_or_default());
    let verdicts_sha256 = verdicts.iter().map(digest).collect();
    Ruling {
        decision,
        record: CaseRecord {
            verdicts_sha256,
            deliberation,
            evidence,
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
        changes: vec![Change::Council(case::Change::CaseClosed {
            case: case.id.clone(),
            outcome,
        })],
    };
    Ok(Closing {
        decision: ruling.decision,
        line,
        blobs,
    })
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
    /// The verdict, if the answer contains one.
    pub verdict: Option<RoleVerdict>,
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
    let (note, verdict) = match read {
        Ok((text, verdict)) => {
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
            (note.clone(), Some(verdict))
        }
        Err(why) => {
            if !late {
                let (case, role) = (case.clone(), role.clone());
                changes.push(Change::Council(case::Change::RoleSilent { case, role }));
            }
            (format!("{note}; {}", escaped(&why.to_string())), None)
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
    Heard {
        input,
        blobs,
        verdict,
    }
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

fn read_output(
    rules: &Rulebook,
    role: &str,
    bytes: &[u8],
) -> Result<(String, RoleVerdict), SeatError> {
    let text = json::check_object(bytes)?;
    let text = json::minify(text).into_owned();
    let verdict: RoleVerdict = serde_json::from_str(&text)?;
    let named = name_of(rules, &verdict.role);
    if named != role {
        return Err(SeatError::OtherRole(named));
    }
    Ok((text, verdict))
}
