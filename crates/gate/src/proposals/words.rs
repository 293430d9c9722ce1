//! Proposal files, for approvers and for signatures; the same line makes the same bytes.

use serde::Serialize;

use super::judging::name_of;
use super::{Approver, Found, Kind, Note, Proposed, Shown, diff};
use crate::prepare::escaped;
use spoolgate_rules::proof::Witness;
use spoolgate_rules::rule::fact::{Fact, Value};
use spoolgate_rules::rule::file::Then;
use spoolgate_wire::ids::{Principal, ProposalId, RuleId};
use spoolgate_wire::text::is_printable;
use spoolgate_wire::time::Time;

/// Longest description of a witness, in characters.
const WITNESS_CHARS_MAX: usize = 1000;

/// `proposals/pending/<id>.yaml`, and later the file with its result.
#[derive(Serialize)]
struct ProposalFile<'a> {
    proposal: ProposalId,
    status: &'static str,
    rule: &'a RuleId,
    file: &'a str,
    proposed: String,
    proposed_by: &'a Principal,
    proposed_at: Time,
    payload_sha256: &'a str,
    base_rulebook: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    claims_to_tighten: Option<bool>,
    direction: Found,
    #[serde(skip_serializing_if = "Option::is_none")]
    witness: Option<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    notes: &'a [Note],
    #[serde(skip_serializing_if = "Option::is_none")]
    why_people: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    evidence: Option<Shown>,
    diff: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    decided: Option<Decided<'a>>,
}

/// How a proposal ended.
pub enum Ended<'a> {
    /// It was applied.
    Applied {
        /// How it was approved.
        by: &'a Approver,
        /// The ledger line.
        line: u64,
        /// Hash of the rulebook afterwards.
        rulebook: &'a str,
    },
    /// It was declined.
    Declined {
        /// The person.
        by: &'a Principal,
        /// The ledger line.
        line: u64,
        /// The reason.
        reason: &'a str,
    },
}

/// The end of a proposal as its file shows it.
#[derive(Serialize)]
struct Decided<'a> {
    decided_by: String,
    ledger_line: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    rulebook: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

impl<'a> Decided<'a> {
    fn of(ended: &Ended<'a>) -> Decided<'a> {
        match ended {
            Ended::Applied { by, line, rulebook } => {
                let decided_by = match by {
                    Approver::Proof => "the proof that it tightens".to_owned(),
                    Approver::Person(person) => person.to_string(),
                    Approver::Signature { identity, key } => format!("{identity} with {key}"),
                };
                Decided {
                    decided_by,
                    ledger_line: *line,
                    rulebook: Some(rulebook),
                    reason: None,
                }
            }
            Ended::Declined { by, line, reason } => Decided {
                decided_by: by.to_string(),
                ledger_line: *line,
                rulebook: None,
                reason: Some(reason),
            },
        }
    }
}

impl Kind {
    /// A description for messages and files.
    pub fn in_words(&self) -> String {
        match self {
            Kind::Activate => "activate the rule".to_owned(),
            Kind::Suspend { reason } => format!("suspend the rule: {reason}"),
            Kind::ModifyParameter {
                parameter,
                old_value,
                new_value,
            } => {
                format!("{parameter} from {old_value} to {new_value}")
            }
            Kind::Revert { of, reason } => format!("take {of} back: {reason}"),
        }
    }
}

/// Escapes invisible characters and characters that change the direction of writing, except for
/// line ends: a person must see everything that they sign.
fn seen(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if c == '\n' || is_printable(c) {
            out.push(c)
        } else {
            out.extend(c.escape_unicode())
        }
    }
    out
}

fn file(
    proposed: &Proposed,
    status: &'static str,
    decided: Option<&Ended<'_>>,
) -> Result<String, serde_yaml::Error> {
    let Proposed { path, old, new, .. } = proposed;
    let file = ProposalFile {
        proposal: proposed.proposal_id,
        status,
        rule: &proposed.rule_id,
        file: path,
        proposed: seen(&proposed.kind.in_words()),
        proposed_by: &proposed.by,
        proposed_at: proposed.at,
        payload_sha256: &proposed.payload_hash,
        base_rulebook: &proposed.base,
        claims_to_tighten: proposed.claims_to_tighten,
        direction: proposed.direction,
        witness: proposed.witness.as_deref(),
        notes: &proposed.notes,
        why_people: proposed.why_people.as_deref(),
        evidence: proposed.evidence.as_ref().map(|shown| Shown {
            summary: seen(&shown.summary),
            ..shown.clone()
        }),
        diff: seen(&diff::unified(path, old.as_deref(), new.as_deref())),
        decided: decided.map(Decided::of),
    };
    serde_yaml::to_string(&file)
}

/// The text of the file that an approver decides on.
///
/// # Errors
/// Returns the message of the YAML writer.
pub fn pending_file(proposed: &Proposed) -> Result<String, serde_yaml::Error> {
    file(proposed, "pending", None)
}

/// The text of the file that shows how the proposal ended.
///
/// # Errors
/// Returns the message of the YAML writer.
pub fn result_file(proposed: &Proposed, ended: &Ended<'_>) -> Result<String, serde_yaml::Error> {
    let status = match ended {
        Ended::Applied { .. } => "applied",
        Ended::Declined { .. } => "declined",
    };
    file(proposed, status, Some(ended))
}

/// A request that two rulebooks treat differently, in words.
pub(super) fn witness(witness: &Witness) -> String {
    let done = |then: Option<Then>| match then {
        None => "accepted",
        Some(Then::Warn) => "accepted with a warning",
        Some(Then::Hold) => "held",
        Some(Then::Reject) => "refused",
    };
    let facts: Vec<String> = witness
        .facts
        .iter()
        .map(|(reading, fact)| format!("{} {}", name_of(reading), said(fact)))
        .collect();
    let with = if facts.is_empty() {
        "any request".to_owned()
    } else {
        facts.join(", ")
    };
    let (before, after) = (done(witness.before), done(witness.after));
    let whether = if witness.feasible {
        ""
    } else {
        " (fields that hang together may rule this out)"
    };
    let text = format!(
        "{}: {with}: {before} before, {after} after{whether}",
        witness.action
    );
    escaped(&text).chars().take(WITNESS_CHARS_MAX).collect()
}

fn said(fact: &Fact<'_>) -> String {
    let value = |value: &Value<'_>| match value {
        Value::Number(number) => number.normalized().to_string(),
        Value::Text(text) => format!("`{text}`"),
        Value::Flag(flag) => if *flag { "yes" } else { "no" }.to_owned(),
    };
    match fact {
        Fact::Known(one) => format!("= {}", value(one)),
        Fact::Many(values) => format!(
            "= [{}]",
            values.iter().map(value).collect::<Vec<_>>().join(", ")
        ),
        Fact::Absent => "left out".to_owned(),
        Fact::Unknown(_) => "not known".to_owned(),
    }
}
