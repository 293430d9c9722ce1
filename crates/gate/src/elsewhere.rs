//! Policies and lineage from commands: what a request waits for, and how a command's answer is
//! recorded. Commands run beside the gate; a decision only sees what an earlier line holds.

use serde::Serialize;

use super::admission::{is_forgotten, kept, needed};
use super::decide::{Lookups, MEMBER_BYTES_MAX, may_answer_by_id, may_do};
use super::handle::Turn;
use super::prepare::{Authentic, Prepared, escaped};
use super::record::{AdmissionInput, AskedFor, Cage};
use super::sealing::NO_DIGEST;
use super::state::{Change, State};
use spoolgate_admission::lineage::{self, Delivered, Reported};
use spoolgate_rules::Rulebook;
use spoolgate_rules::admission::{Policy, Profile, ProfileError};
use spoolgate_rules::command::CommandRule;
use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::admission::{Causality, Domain};
use spoolgate_wire::ids::{Capability, DomainPart, Principal, RequestId};
use spoolgate_wire::json;
use spoolgate_wire::signing::sha256_hex;
use spoolgate_wire::time::Time;

/// What a request waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// The policy of its domain.
    Policy(Domain),
    /// The lineage of its task.
    Lineage(Box<LineageAsk>),
}

/// A question about one task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineageAsk {
    /// The sender of the request.
    pub source: Principal,
    /// The command to run.
    pub command: CommandRule,
    /// Its input, JSON.
    pub question: String,
    domain: Domain,
    request_id: RequestId,
    file_sha256: String,
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandAnswer {
    /// How it ended, as a text for operators.
    pub note: String,
    /// Its output, if it ended well.
    pub output: Option<Vec<u8>>,
    /// What its cage enforced; `None` if it was not started, or without a cage.
    pub cage: Option<Cage>,
}

/// Why a command gave no lineage, as its line notes it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoLineage(pub String);

/// Why the output of a command is not an answer.
#[derive(Debug, thiserror::Error)]
enum OutputError {
    #[error("it is not UTF-8")]
    NotText,
    #[error(transparent)]
    Json(#[from] json::JsonError),
    #[error(transparent)]
    Lineage(#[from] serde_json::Error),
    #[error(transparent)]
    Profile(#[from] ProfileError),
}

/// A recorded answer.
#[derive(Clone, Debug)]
pub struct Heard {
    /// Its line.
    pub input: AdmissionInput,
    /// Contents by digest that must be durable before the line.
    pub blobs: Vec<(String, Vec<u8>)>,
}

#[derive(Serialize)]
struct PolicyQuestion<'a> {
    tenant_id: &'a DomainPart,
    surface_id: &'a DomainPart,
    policy_profile_id: &'a DomainPart,
}

#[derive(Serialize)]
struct LineageQuestion<'a> {
    tenant_id: &'a DomainPart,
    root_task_id: &'a RequestId,
    parent_task_id: Option<&'a RequestId>,
    capability_id: &'a Capability,
    task_id: &'a RequestId,
    spawn_depth: Option<i64>,
}

/// Whether any policy names a command: without one no request can wait.
pub fn is_used(rules: &Rulebook) -> bool {
    let names = |policy: &Policy| {
        policy.profile.policy_command.is_some() || policy.profile.lineage_command.is_some()
    };
    rules.admission.values().any(names)
}

/// Returns what a request must wait for before it is decided; nothing if it would be refused
/// anyway, or if admission can only warn. `has_lineage` is whether its lineage was already asked
/// for. Lineage comes first, because an answer about a domain expires and an answer about a task
/// does not.
pub fn waits_for(
    state: &State,
    rules: &Rulebook,
    request: &Prepared,
    has_lineage: bool,
    now: Time,
) -> Option<Ask> {
    let Ok(authentic) = &request.request else {
        return None;
    };
    let Authentic {
        envelope,
        body: Ok(body),
        ..
    } = authentic
    else {
        return None;
    };
    let (domain, causality) = needed(state, rules, authentic, body, request.lane(state))?;
    let turn = Turn {
        state,
        rules,
        lookups: &Lookups::default(),
        now,
        seq: 0,
        granted: None,
    };
    if may_answer_by_id(&turn, request, authentic).is_err()
        || may_do(&turn, authentic, body).is_err()
    {
        return None;
    }
    let policy = rules
        .admission
        .get(domain)
        .filter(|_| state.rulebook.fault.is_none())?;
    let delivered = state.admission.policies.get(&domain.to_string());
    let delivered = delivered.and_then(|delivered| kept(policy, delivered, now));
    if delivered.is_some_and(|delivered| delivered.profile.is_none()) {
        return None;
    }
    let lineage = policy
        .profile
        .lineage_command
        .as_ref()
        .zip(causality)
        .filter(|_| !has_lineage);
    if let Some((command, causality)) = lineage {
        return Some(Ask::Lineage(Box::new(LineageAsk {
            source: envelope.source.clone(),
            command: command.clone(),
            question: lineage_question(domain, &envelope.id, &causality)?,
            domain: domain.clone(),
            request_id: envelope.id.clone(),
            file_sha256: match body.rule.sealed {
                [] => request.file_sha256.clone()?,
                _ => NO_DIGEST.to_owned(),
            },
        })));
    }
    let is_missing = policy.profile.policy_command.is_some() && delivered.is_none();
    is_missing.then(|| Ask::Policy(domain.clone()))
}

/// The input of a policy command.
pub fn policy_question(domain: &Domain) -> Option<String> {
    let Domain {
        tenant,
        surface,
        profile,
    } = domain;
    let question = PolicyQuestion {
        tenant_id: tenant,
        surface_id: surface,
        policy_profile_id: profile,
    };
    serde_json::to_string(&question).ok()
}

fn lineage_question(domain: &Domain, task: &RequestId, causality: &Causality) -> Option<String> {
    let question = LineageQuestion {
        tenant_id: &domain.tenant,
        root_task_id: &causality.root_task_id,
        parent_task_id: causality.parent_task_id.as_ref(),
        capability_id: &causality.capability_id,
        task_id: task,
        spawn_depth: causality.spawn_depth,
    };
    serde_json::to_string(&question).ok()
}

/// Whether a request, if carried out, clears the cached policy of a domain.
pub fn forgets(rules: &Rulebook, request: &Prepared, domain: &Domain) -> bool {
    let Ok(Authentic {
        envelope,
        body: Ok(body),
        ..
    }) = &request.request
    else {
        return false;
    };
    let which = body.payload();
    let forgets = which.is_some() || body.rule.name == ActionName::AdmissionCacheClear;
    forgets && is_forgotten(rules, &envelope.source, which, &domain.to_string())
}

/// Records the answer of a domain's policy command: a profile, or why there is none.
pub fn hear_policy(
    rules: &Rulebook,
    domain: &Domain,
    policy: &Policy,
    answer: &CommandAnswer,
    now: Time,
) -> Heard {
    let written = answer.output.as_deref().unwrap_or_default();
    let read = read(answer, "profile", |text| {
        Ok((text.to_owned(), Profile::delivered(text)?))
    });
    let (note, text, profile) = match read {
        Ok((text, profile)) => (answer.note.clone(), Some(text), Some(profile)),
        Err(NotRead(why)) => (why, None, None),
    };
    let delivered = Delivered {
        fault: profile.is_none().then(|| note.clone()),
        profile,
        sha256: sha256_hex(written),
        policy: policy.sha256.clone(),
        at: now,
    };
    let domain = domain.to_string();
    let about = AskedFor::Policy {
        domain: domain.clone(),
        policy: policy.sha256.clone(),
    };
    let changes = vec![Change::Admission(lineage::Change::PolicyDelivered {
        domain,
        delivered: Box::new(delivered),
    })];
    let cage = answer.cage.clone();
    taken_down(rules, about, note, text, changes, cage, now)
}

/// Records the answer of a lineage command: counts, or why there are none.
pub fn hear_lineage(
    rules: &Rulebook,
    ask: &LineageAsk,
    answer: &CommandAnswer,
    now: Time,
) -> (Heard, Result<Reported, NoLineage>) {
    let read = read(answer, "lineage", |text| {
        let text = json::minify(json::check_object(text.as_bytes())?).into_owned();
        let reported: Reported = serde_json::from_str(&text)?;
        Ok((text, reported))
    });
    let (note, text, reported) = match read {
        Ok((text, reported)) => (answer.note.clone(), Some(text), Ok(reported)),
        Err(NotRead(why)) => (why.clone(), None, Err(NoLineage(why))),
    };
    let LineageAsk {
        source,
        domain,
        request_id,
        file_sha256,
        ..
    } = ask.clone();
    let about = AskedFor::Lineage {
        domain: domain.to_string(),
        source,
        request_id,
        file_sha256,
    };
    (
        taken_down(
            rules,
            about,
            note,
            text,
            Vec::new(),
            answer.cage.clone(),
            now,
        ),
        reported,
    )
}

/// Why there is nothing to read in an answer, as its line notes it.
struct NotRead(String);

fn read<T>(
    answer: &CommandAnswer,
    what: &str,
    parse: impl Fn(&str) -> Result<T, OutputError>,
) -> Result<T, NotRead> {
    let Some(output) = &answer.output else {
        return Err(NotRead(answer.note.clone()));
    };
    let text = std::str::from_utf8(output).map_err(|_| OutputError::NotText);
    text.and_then(parse).map_err(|why| {
        NotRead(escaped(&format!(
            "{}; its output is not a {what}: {why}",
            answer.note
        )))
    })
}

fn taken_down(
    rules: &Rulebook,
    about: AskedFor,
    note: String,
    text: Option<String>,
    changes: Vec<Change>,
    cage: Option<Cage>,
    now: Time,
) -> Heard {
    let mut blobs = Vec::new();
    let mut payload = text;
    let large = payload.take_if(|text| text.len() > MEMBER_BYTES_MAX);
    let payload_blob = large.map(|text| {
        let digest = sha256_hex(text.as_bytes());
        blobs.push((digest.clone(), text.into_bytes()));
        digest
    });
    let rulebook = rules.hash.clone();
    let input = AdmissionInput {
        timestamp: now,
        about,
        note,
        payload,
        payload_blob,
        cage,
        rulebook,
        changes,
    };
    Heard { input, blobs }
}
