//! Held requests: what holds them, who ends that, and what comes of it. A held request has changed nothing; a grant has
//! it decided again, as if it came that moment, with exactly the rules satisfied that held it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::decide::{self, Decided};
use super::handle::{AnswerBody, Outcome, Turn, data};
use super::prepare::{Authentic, Prepared, Refusal, escaped};
use super::record::{CheckRow, Decision, Metadata, Status};
use super::state;
use crate::actions::anomaly::Anomaly;
use crate::rules::Rulebook;
use crate::rules::rule::entries::{Entries, Entry};
use crate::rules::rule::set::Grows;
use crate::wire::approvals::{AddGrant, DenyApproval, EndGrant, GrantApproval, HoldId};
use crate::wire::code::Code;
use crate::wire::ids::{Principal, RequestId, RuleId, SetName, TaskName};
use crate::wire::signing::sha256_hex;
use crate::wire::time::Time;

/// Most held requests.
pub const HOLDS_MAX: usize = 500;
/// Most held requests of one sender.
pub const HOLDS_OF_ONE_MAX: usize = 50;
/// Most rules that may hold one request; beyond them it is refused.
pub const RULES_MAX: usize = 50;
/// Most entries that come into sets while the gate runs.
pub const ENTRIES_MAX: usize = 10_000;

/// A held request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hold {
    /// Its name.
    pub id: HoldId,
    /// Id of the request.
    pub request_id: RequestId,
    /// Who signed it.
    pub source: Principal,
    /// Its action.
    pub action: String,
    /// Spool it came through, as lines name it.
    pub spool: String,
    /// Where its answer is, below the spool.
    pub answer: String,
    /// SHA-256 of its signing string, hex: what a grant names. Where it has sealed members, over the payload of its line.
    pub request_sha256: String,
    /// SHA-256 of its file's bytes, hex: they are a blob. Where it has sealed members, the name of their disclosure.
    pub file_sha256: String,
    /// Rules that hold it.
    pub rules: Vec<RuleId>,
    /// SHA-256 of their files' texts, hex, in the same order: a grant is of what they said then.
    pub rules_sha256: Vec<String>,
    /// What else holds it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub anomalies: Vec<Anomaly>,
    /// Since when.
    pub held_at: Time,
    /// Until when somebody may grant it.
    pub expires_at: Time,
}

/// How a hold ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// A person granted it.
    Granted,
    /// A person denied it.
    Denied,
    /// Nobody did either in time.
    Expired,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Change {
    /// A request is held.
    Held(Hold),
    /// One is not any more.
    Ended {
        /// Which.
        id: HoldId,
        /// How.
        end: End,
        /// By whom.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Principal>,
    },
    /// A value came into a set.
    EntryAdded {
        /// The set.
        set: SetName,
        /// The value, normalised.
        value: String,
        /// Why it is there.
        entry: Entry,
        /// When.
        at: Time,
    },
    /// It is out of it again.
    EntryEnded {
        /// The set.
        set: SetName,
        /// The value, normalised.
        value: String,
        /// The task it was there for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task: Option<TaskName>,
    },
}

/// Held requests by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Approvals(BTreeMap<HoldId, Hold>);

impl Approvals {
    /// The hold of this name.
    pub fn get(&self, id: HoldId) -> Option<&Hold> {
        self.0.get(&id)
    }

    /// All, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Hold> {
        self.0.values()
    }

    /// Applies a step.
    pub(super) fn apply(&mut self, entries: &mut Entries, change: &Change) {
        match change {
            Change::Held(hold) => {
                self.0.insert(hold.id, hold.clone());
            }
            Change::Ended { id, .. } => {
                self.0.remove(id);
            }
            Change::EntryAdded { set, value, entry, at } => {
                entries.insert(set.clone(), value.clone(), entry.clone(), *at);
            }
            Change::EntryEnded { set, value, task } => entries.remove(set, value, task.as_ref()),
        }
    }
}

/// What a decision says is to become of a held request, in the same batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolution {
    /// Which.
    pub hold: HoldId,
    /// By whom.
    pub by: Principal,
    /// What.
    pub verdict: Verdict,
}

/// What a person said of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may be done.
    Granted {
        /// Whether its values come into sets that grow on approval.
        remember: bool,
    },
    /// It may not.
    Denied {
        /// Why.
        reason: Option<String>,
    },
}

/// A held request that is decided again.
#[derive(Clone, Copy, Debug)]
pub struct Granted<'a> {
    /// What held it.
    pub hold: &'a Hold,
    /// Who granted it.
    pub by: &'a Principal,
    /// Whether its values come into sets that grow on approval.
    pub remember: bool,
}

/// The hold that somebody may end now who looked at a request of this hash.
///
/// # Errors
/// [`Refusal`]: it is not held, not any more, or is another request.
pub fn pending<'a>(
    state: &'a state::State,
    id: HoldId,
    request_sha256: &str,
    now: Time,
) -> Result<&'a Hold, Refusal> {
    let hold = state.approvals.get(id).ok_or_else(|| {
        Refusal::new(Code::NotFound, format!("no request is held as {id}, or not any more"))
    })?;
    if hold.request_sha256 != request_sha256 {
        let what = format!("{id} holds the request with SHA-256 {}, not this one", hold.request_sha256);
        return Err(Refusal::new(Code::StateConflict, what));
    }
    if now >= hold.expires_at {
        return Err(Refusal::new(
            Code::StateConflict,
            format!("{id} could be decided until {}", hold.expires_at),
        ));
    }
    Ok(hold)
}

impl Turn<'_> {
    pub(super) fn grant_approval(&self, by: &Principal, grant: &GrantApproval) -> Result<Outcome, Refusal> {
        let hold = pending(self.state, grant.id, &grant.request_sha256, self.now)?;
        let verdict = Verdict::Granted { remember: grant.remember };
        let resolves = Some(Resolution { hold: hold.id, by: by.clone(), verdict });
        let (id, request_id) = (hold.id, &hold.request_id);
        Ok(Outcome {
            data: data(&AnswerBody::ApprovalGranted { id, request_id })?,
            resolves,
            ..Outcome::default()
        })
    }

    pub(super) fn deny_approval(&self, by: &Principal, deny: &DenyApproval) -> Result<Outcome, Refusal> {
        let hold = pending(self.state, deny.id, &deny.request_sha256, self.now)?;
        let verdict = Verdict::Denied { reason: deny.reason.clone() };
        let resolves = Some(Resolution { hold: hold.id, by: by.clone(), verdict });
        let (id, request_id) = (hold.id, &hold.request_id);
        Ok(Outcome {
            data: data(&AnswerBody::ApprovalDenied { id, request_id })?,
            resolves,
            ..Outcome::default()
        })
    }

    pub(super) fn add_grant(&self, by: &Principal, add: &AddGrant) -> Result<Outcome, Refusal> {
        let conflict = |what: String| Refusal::new(Code::StateConflict, what);
        let AddGrant { set: name, value, task, expires_at } = add;
        let set = self.rules.ruleset.sets.get(name);
        let set =
            set.ok_or_else(|| Refusal::new(Code::NotFound, format!("there is no rules/sets/{name}.yaml")))?;
        if set.grows != Grows::OnApproval {
            return Err(conflict(format!(
                "set `{name}` does not grow: its file does not say `grows: on_approval`"
            )));
        }
        if *expires_at <= self.now {
            return Err(conflict(format!("`expires_at` {expires_at} has passed")));
        }
        if self.state.entries.iter().count() >= ENTRIES_MAX {
            return Err(conflict(format!("{ENTRIES_MAX} entries came into sets already; end some first")));
        }
        let folded = set.kind.kind().entry(value);
        let folded = folded.ok_or_else(|| {
            conflict(format!("`{}` cannot be compared with what is in set `{name}`", escaped(value)))
        })?;
        let entry = Entry { by: by.clone(), until: Some(*expires_at), task: Some(task.clone()) };
        let value = folded.into_owned();
        let data = data(&AnswerBody::GrantAdded { set: name, value: &value, task })?;
        let added = Change::EntryAdded { set: name.clone(), value, entry, at: self.now };
        Ok(Outcome { data, changes: vec![state::Change::Approvals(added)], ..Outcome::default() })
    }

    pub(super) fn end_grant(&self, end: &EndGrant) -> Result<Outcome, Refusal> {
        let EndGrant { set: name, value, task } = end;
        let kind = self.rules.ruleset.sets.get(name).map(|set| set.kind.kind());
        let folded =
            kind.and_then(|kind| kind.entry(value)).map_or_else(|| value.clone(), |value| value.into_owned());
        // Under another kind of the set it may have come in in another form.
        let there = self.state.entries.iter().find_map(|(set, other, entry)| {
            let is_it = set == name && (other == folded || other == value) && entry.task == *task;
            is_it.then(|| other.to_owned())
        });
        let Some(value) = there else {
            let what = format!("`{}` did not come into set `{name}` that way", escaped(value));
            return Err(Refusal::new(Code::NotFound, what));
        };
        let data = data(&AnswerBody::GrantEnded { set: name, value: &value, task: task.as_ref() })?;
        let ended = Change::EntryEnded { set: name.clone(), value, task: task.clone() };
        Ok(Outcome { data, changes: vec![state::Change::Approvals(ended)], ..Outcome::default() })
    }
}

impl Hold {
    /// Names of the rules and of the rows of anomalies that hold it.
    pub fn held_by(&self) -> Vec<&str> {
        let anomalies = self.anomalies.iter().map(|anomaly| anomaly.check_name());
        self.rules.iter().map(RuleId::as_str).chain(anomalies).collect()
    }
}

impl Granted<'_> {
    /// The rules that are satisfied: those that held it and say now what they said then. One that was changed meanwhile
    /// is another, which nobody has approved anything under.
    pub(super) fn satisfied(&self, rules: &Rulebook) -> Vec<RuleId> {
        let Hold { rules: held, rules_sha256, .. } = self.hold;
        let held = held.iter().zip(rules_sha256);
        held.filter(|(id, sha256)| text_sha256(rules, id) == **sha256).map(|(id, _)| id.clone()).collect()
    }
}

/// SHA-256 of the text of a rule's file; nothing of one that is not there.
fn text_sha256(rules: &Rulebook, id: &RuleId) -> String {
    let rule = rules.ruleset.rules.get(id);
    rule.map_or_else(String::new, |rule| sha256_hex(rule.text.as_bytes()))
}

/// The names of the rows of what holds a request besides rules, and the words of its check vector.
pub fn told_anomalies<'a>(
    hold: &'a Hold,
    checks: &'a [CheckRow],
) -> impl Iterator<Item = (&'static str, &'a str)> {
    hold.anomalies.iter().map(|anomaly| {
        let name = anomaly.check_name();
        let row = checks.iter().find(|row| row.name == name);
        (name, row.and_then(|row| row.reason.as_deref()).unwrap_or_default())
    })
}

/// Makes the line of a request that nothing but rules and anomalies hold up one that holds it, if there is room.
pub(super) fn hold(
    turn: &Turn<'_>,
    request: &Prepared,
    authentic: &Authentic,
    decision: &mut Decision,
    rules: Vec<RuleId>,
    anomalies: Vec<Anomaly>,
) {
    let source = &authentic.envelope.source;
    // The one that is decided again gives its place up.
    let others =
        || turn.state.approvals.iter().filter(|hold| turn.granted.is_none_or(|own| own.hold.id != hold.id));
    let of_one = others().filter(|hold| hold.source == *source).count();
    let full = if rules.len() > RULES_MAX {
        Some(format!("{} rules hold it, more than {RULES_MAX}", rules.len()))
    } else if of_one >= HOLDS_OF_ONE_MAX {
        Some(format!("{HOLDS_OF_ONE_MAX} requests of `{source}` are held already"))
    } else if others().count() >= HOLDS_MAX {
        Some(format!("{HOLDS_MAX} requests are held already"))
    } else {
        None
    };
    let file_sha256 = match &turn.lookups.sealing {
        Some(sealing) => sealing.file_name(),
        None => request.file_sha256.clone(),
    };
    let file_sha256 = file_sha256.unwrap_or_default();
    let refusal = match full {
        Some(why) => Refusal::new(Code::HoldsFull, why),
        None => {
            let expires_ms = i64::from(turn.rules.safety.hold_expires_s).saturating_mul(1000);
            let hold = Hold {
                id: HoldId(turn.seq),
                request_id: authentic.envelope.id.clone(),
                source: source.clone(),
                action: authentic.envelope.action.clone(),
                spool: request.origin.label(),
                answer: turn.granted.map_or_else(|| decision.answer.clone(), |own| own.hold.answer.clone()),
                request_sha256: turn.request_hash(authentic),
                file_sha256,
                rules_sha256: rules.iter().map(|id| text_sha256(turn.rules, id)).collect(),
                rules,
                anomalies,
                held_at: turn.now,
                expires_at: turn.now.plus_ms(expires_ms),
            };
            let told = told_anomalies(&hold, &decision.checks);
            let anomalies = told.map(|(name, why)| format!("{name} ({why})"));
            let names: Vec<String> = hold.rules.iter().map(RuleId::to_string).chain(anomalies).collect();
            let what = format!("held as {} until {} by {}", hold.id, hold.expires_at, names.join(", "));
            decision.status = Status::Held;
            decision.decision = None;
            decision.headroom = None;
            decision.changes = vec![state::Change::Approvals(Change::Held(hold))];
            Refusal::new(Code::Held, what)
        }
    };
    decision.metadata.code = Some(refusal.code);
    decision.metadata.message = Some(refusal.message);
}

/// Makes the line of a request that was decided again the one that ends its hold.
pub(super) fn close(decision: &mut Decision, granted: Granted<'_>) {
    let Granted { hold, by, .. } = granted;
    decision.request_id = Some(hold.request_id.to_string());
    decision.source = Some(hold.source.to_string());
    decision.request_hash = Some(hold.request_sha256.clone());
    decision.answer = hold.answer.clone();
    decision.spool = hold.spool.clone();
    decision.file = hold.id.to_string();
    decision.hold = Some(hold.id);
    decision.kept = None;
    decision.rate = None;
    let ended = Change::Ended { id: hold.id, end: End::Granted, by: Some(by.clone()) };
    decision.changes.insert(0, state::Change::Approvals(ended));
}

/// The final answer to a held request that is not decided again.
pub fn ended(
    hold: &Hold,
    end: End,
    by: Option<&Principal>,
    refusal: Refusal,
    rulebook: &str,
    now: Time,
    seq: u64,
) -> Decided {
    let change = Change::Ended { id: hold.id, end, by: by.cloned() };
    let decision = Decision {
        request_id: Some(hold.request_id.to_string()),
        action: Some(hold.action.clone()),
        source: Some(hold.source.to_string()),
        request_hash: Some(hold.request_sha256.clone()),
        spool: hold.spool.clone(),
        file: hold.id.to_string(),
        file_sha256: Some(hold.file_sha256.clone()).filter(|_| !super::sealing::is_sealed(&hold.action)),
        metadata: Metadata { code: Some(refusal.code), message: Some(refusal.message), replay_of: None },
        answer: hold.answer.clone(),
        hold: Some(hold.id),
        changes: vec![state::Change::Approvals(change)],
        ..decide::refused(now, seq, rulebook)
    };
    Decided { market: Vec::new(), decision, council: None, blobs: Vec::new(), begins: None, resolves: None }
}

/// What is said of a denied request.
pub fn denial(by: &Principal, reason: Option<&str>) -> Refusal {
    let why = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
    Refusal::new(Code::ApprovalDenied, format!("`{by}` denied it{why}"))
}

/// What is said of one that nobody decided in time.
pub fn expiry(hold: &Hold) -> Refusal {
    Refusal::new(Code::ApprovalExpired, format!("nobody granted {} until {}", hold.id, hold.expires_at))
}

/// What is said of one that was granted after its bytes were lost.
pub fn bytes_lost(hold: &Hold) -> Refusal {
    Refusal::new(Code::Internal, format!("the bytes of {} are not in audit/blobs any more", hold.id))
}

/// Holds whose time has passed at `now`; none while the clock is not believed.
pub fn expired(state: &state::State, now: Time) -> Vec<Hold> {
    if state.clock.fault.is_some() {
        return Vec::new();
    }
    state.approvals.iter().filter(|hold| hold.expires_at <= now).cloned().collect()
}
