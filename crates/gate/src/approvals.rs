//! Held requests: what holds them, how a hold ends, and what follows. A held request has changed
//! nothing. After a grant it is decided again as if it had just arrived, with exactly those rules
//! satisfied that held it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::decide::{self, Decided};
use super::handle::Turn;
use super::prepare::{Authentic, Prepared, Refusal};
use super::record::{Decision, Metadata, Status};
use super::state;
use spoolgate_outgoing::anomaly::Anomaly;
use spoolgate_rules::Rulebook;
use spoolgate_rules::rule::entries::{Entries, Entry};
use spoolgate_wire::admin::{REASON_BYTES_MAX, is_digest};
use spoolgate_wire::approvals::HoldId;
use spoolgate_wire::checks::CheckRow;
use spoolgate_wire::code::Code;
use spoolgate_wire::ids::{Principal, RequestId, RuleId, SetName, TaskName};
use spoolgate_wire::payload::PayloadError;
use spoolgate_wire::signing::sha256_hex;
use spoolgate_wire::time::Time;

/// Maximum number of held requests.
pub const HOLDS_MAX: usize = 500;
/// Maximum number of held requests per sender.
pub const HOLDS_OF_ONE_MAX: usize = 50;
/// Maximum number of rules that may hold one request; with more it is refused.
pub const RULES_MAX: usize = 50;
/// Maximum number of set entries added while the gate runs.
pub const ENTRIES_MAX: usize = 10_000;

/// A held request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hold {
    /// The name of the hold.
    pub id: HoldId,
    /// Id of the request.
    pub request_id: RequestId,
    /// The sender.
    pub source: Principal,
    /// Its action.
    pub action: String,
    /// Label of the spool that the request came through.
    pub spool: String,
    /// Path of the answer, below the spool.
    pub answer: String,
    /// SHA-256 of the signing string, hex, which a grant names. If the request has sealed members,
    /// it is computed over the payload as the line has it.
    pub request_sha256: String,
    /// SHA-256 of the file's bytes, hex; the bytes are a blob. If the request has sealed members,
    /// the name of the disclosure that holds them.
    pub file_sha256: String,
    /// Rules that hold it.
    pub rules: Vec<RuleId>,
    /// SHA-256 of the rules' file texts, hex, in the same order: a grant covers these versions
    /// only.
    pub rules_sha256: Vec<String>,
    /// The anomalies that hold it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub anomalies: Vec<Anomaly>,
    /// When it was held.
    pub held_at: Time,
    /// When the hold expires.
    pub expires_at: Time,
}

/// How a hold ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// An approver granted it.
    Granted,
    /// An approver denied it.
    Denied,
    /// It was neither granted nor denied in time.
    Expired,
}

/// A change to the held requests or to the entries of sets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Change {
    /// A request is held.
    Held(Hold),
    /// A hold ended.
    Ended {
        /// The hold.
        id: HoldId,
        /// How it ended.
        end: End,
        /// The approver, if there was one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Principal>,
    },
    /// A value was added to a set.
    EntryAdded {
        /// The set.
        set: SetName,
        /// The value, normalised.
        value: String,
        /// Why it was added.
        entry: Entry,
        /// When it was added.
        at: Time,
    },
    /// A value was removed from a set.
    EntryEnded {
        /// The set.
        set: SetName,
        /// The value, normalised.
        value: String,
        /// The task that it was added for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task: Option<TaskName>,
    },
}

/// Held requests by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Approvals(BTreeMap<HoldId, Hold>);

impl Approvals {
    /// Returns the hold with this name.
    pub fn get(&self, id: HoldId) -> Option<&Hold> {
        self.0.get(&id)
    }

    /// All holds, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Hold> {
        self.0.values()
    }

    /// Applies a change.
    pub(super) fn apply(&mut self, entries: &mut Entries, change: &Change) {
        match change {
            Change::Held(hold) => {
                self.0.insert(hold.id, hold.clone());
            }
            Change::Ended { id, .. } => {
                self.0.remove(id);
            }
            Change::EntryAdded {
                set,
                value,
                entry,
                at,
            } => {
                entries.insert(set.clone(), value.clone(), entry.clone(), *at);
            }
            Change::EntryEnded { set, value, task } => entries.remove(set, value, task.as_ref()),
        }
    }
}

/// How a decision ends a held request, in the same batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolution {
    /// The hold.
    pub hold: HoldId,
    /// The approver.
    pub by: Principal,
    /// Granted or denied.
    pub verdict: Verdict,
}

/// An approver's decision on a held request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The request may be carried out.
    Granted {
        /// Whether its values are added to sets that grow on approval.
        remember: bool,
    },
    /// The request is refused.
    Denied {
        /// The approver's reason.
        reason: Option<String>,
    },
}

/// A held request that is decided again.
#[derive(Clone, Copy, Debug)]
pub struct Granted<'a> {
    /// The hold that was granted.
    pub hold: &'a Hold,
    /// The approver.
    pub by: &'a Principal,
    /// Whether its values are added to sets that grow on approval.
    pub remember: bool,
}

/// Returns a hold that can be ended now, by an approver who has seen a request with this hash.
///
/// # Errors
/// Returns a [`Refusal`] if the request is not held, its hold has expired, or its hash differs.
pub fn pending<'a>(
    state: &'a state::State,
    id: HoldId,
    request_sha256: &str,
    now: Time,
) -> Result<&'a Hold, Refusal> {
    let hold = state.approvals.get(id).ok_or_else(|| {
        Refusal::new(
            Code::NotFound,
            format!("hold `{id}` does not exist or has ended"),
        )
    })?;
    if hold.request_sha256 != request_sha256 {
        let what = format!(
            "hold `{id}` is for the request with SHA-256 {}, not for this one",
            hold.request_sha256
        );
        return Err(Refusal::new(Code::StateConflict, what));
    }
    if now >= hold.expires_at {
        return Err(Refusal::new(
            Code::StateConflict,
            format!("hold `{id}` expired at {}", hold.expires_at),
        ));
    }
    Ok(hold)
}

/// Checks the fields of a grant or denial.
pub(super) fn check_answer(request_sha256: &str, reason: Option<&str>) -> Result<(), PayloadError> {
    if !is_digest(request_sha256) {
        let rule = "must be 64 lower-case hex digits";
        return Err(PayloadError::form("request_sha256", rule));
    }
    if reason.is_some_and(|text| text.trim().is_empty() || text.len() > REASON_BYTES_MAX) {
        return Err(PayloadError::OptionalLength {
            field: "reason",
            most: REASON_BYTES_MAX,
        });
    }
    Ok(())
}

impl Hold {
    /// Names of the rules that hold it and of the check rows of its anomalies.
    pub fn held_by(&self) -> Vec<&str> {
        let anomalies = self.anomalies.iter().map(|anomaly| anomaly.check_name());
        self.rules
            .iter()
            .map(RuleId::as_str)
            .chain(anomalies)
            .collect()
    }
}

impl Granted<'_> {
    /// The rules that the grant satisfies: those that held the request and have not changed since.
    /// The grant does not cover a rule that was changed in the meantime.
    pub(super) fn satisfied(&self, rules: &Rulebook) -> Vec<RuleId> {
        let Hold {
            rules: held,
            rules_sha256,
            ..
        } = self.hold;
        let held = held.iter().zip(rules_sha256);
        held.filter(|(id, sha256)| text_sha256(rules, id) == **sha256)
            .map(|(id, _)| id.clone())
            .collect()
    }
}

/// SHA-256 of the text of a rule's file; empty if there is no such rule.
fn text_sha256(rules: &Rulebook, id: &RuleId) -> String {
    let rule = rules.ruleset.rules.get(id);
    rule.map_or_else(String::new, |rule| sha256_hex(rule.text.as_bytes()))
}

/// The anomalies of a hold, as the names of their check rows with the reasons in `checks`.
pub fn told_anomalies<'a>(
    hold: &'a Hold,
    checks: &'a [CheckRow],
) -> impl Iterator<Item = (&'static str, &'a str)> {
    hold.anomalies.iter().map(|anomaly| {
        let name = anomaly.check_name();
        let row = checks.iter().find(|row| row.name == name);
        (
            name,
            row.and_then(|row| row.reason.as_deref())
                .unwrap_or_default(),
        )
    })
}

/// Turns a decision that only rules and anomalies keep from being carried out into a hold, or
/// refuses it if there is no room.
pub(super) fn hold(
    turn: &Turn<'_>,
    request: &Prepared,
    authentic: &Authentic,
    decision: &mut Decision,
    rules: Vec<RuleId>,
    anomalies: Vec<Anomaly>,
) {
    let source = &authentic.envelope.source;
    // A request that is decided again does not count: its old hold ends.
    let others = || {
        turn.state
            .approvals
            .iter()
            .filter(|hold| turn.granted.is_none_or(|own| own.hold.id != hold.id))
    };
    let of_one = others().filter(|hold| hold.source == *source).count();
    let full = if rules.len() > RULES_MAX {
        Some(format!(
            "{} rules hold the request, and at most {RULES_MAX} may",
            rules.len()
        ))
    } else if of_one >= HOLDS_OF_ONE_MAX {
        Some(format!(
            "`{source}` already has {HOLDS_OF_ONE_MAX} held requests, the maximum for one principal"
        ))
    } else if others().count() >= HOLDS_MAX {
        Some(format!(
            "{HOLDS_MAX} requests are already held, the maximum for all principals"
        ))
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
            let expires_ms = i64::from(*turn.rules.safety.hold_expires_s).saturating_mul(1000);
            let hold = Hold {
                id: HoldId(turn.seq),
                request_id: authentic.envelope.id.clone(),
                source: source.clone(),
                action: authentic.envelope.action.clone(),
                spool: request.origin.label(),
                answer: turn
                    .granted
                    .map_or_else(|| decision.answer.clone(), |own| own.hold.answer.clone()),
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
            let names: Vec<String> = hold
                .rules
                .iter()
                .map(RuleId::to_string)
                .chain(anomalies)
                .collect();
            let what = format!(
                "held as {} until {} by {}",
                hold.id,
                hold.expires_at,
                names.join(", ")
            );
            decision.status = Status::Held;
            decision.decision = None;
            decision.headroom = None;
            decision.changes = vec![state::Change::Approvals(Change::Held(hold))];
            Refusal::new(Code::Held, what)
        }
    };
    decision.metadata = Metadata::of(refusal);
}

/// Makes the line of a request that was decided again end its hold.
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
    let ended = Change::Ended {
        id: hold.id,
        end: End::Granted,
        by: Some(by.clone()),
    };
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
    let change = Change::Ended {
        id: hold.id,
        end,
        by: by.cloned(),
    };
    let decision = Decision {
        request_id: Some(hold.request_id.to_string()),
        action: Some(hold.action.clone()),
        source: Some(hold.source.to_string()),
        request_hash: Some(hold.request_sha256.clone()),
        spool: hold.spool.clone(),
        file: hold.id.to_string(),
        file_sha256: Some(hold.file_sha256.clone())
            .filter(|_| !super::sealing::is_sealed(&hold.action)),
        metadata: Metadata::of(refusal),
        answer: hold.answer.clone(),
        hold: Some(hold.id),
        changes: vec![state::Change::Approvals(change)],
        ..decide::refused(now, seq, rulebook)
    };
    Decided {
        market: Vec::new(),
        decision,
        blobs: Vec::new(),
        begins: None,
        resolves: None,
    }
}

/// The refusal of a request that an approver denied.
pub fn denial(by: &Principal, reason: Option<&str>) -> Refusal {
    let why = reason
        .map(|reason| format!(": {reason}"))
        .unwrap_or_default();
    Refusal::new(Code::ApprovalDenied, format!("`{by}` denied it{why}"))
}

/// The refusal of a request that was neither granted nor denied in time.
pub fn expiry(hold: &Hold) -> Refusal {
    Refusal::new(
        Code::ApprovalExpired,
        format!("nobody granted {} before {}", hold.id, hold.expires_at),
    )
}

/// The refusal of a granted request whose bytes were lost.
pub fn bytes_lost(hold: &Hold) -> Refusal {
    Refusal::new(
        Code::Internal,
        format!("`audit/blobs` no longer has the bytes of {}", hold.id),
    )
}

/// Holds that have expired at `now`; none while the clock is at fault.
pub fn expired(state: &state::State, now: Time) -> Vec<Hold> {
    if state.clock.fault.is_some() {
        return Vec::new();
    }
    state
        .approvals
        .iter()
        .filter(|hold| hold.expires_at <= now)
        .cloned()
        .collect()
}
