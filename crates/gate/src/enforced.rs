//! Changes of a rulebook whose `rules/approval.yaml` has `enforce: gate`: without proof that they
//! tighten they need the approvals that the rulebook in force demands.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use super::prepare::{Refusal, escaped};
use spoolgate_rules::Rulebook;
use spoolgate_rules::approval::Enforce;
use spoolgate_rules::proof::STEPS_MAX;
use spoolgate_rules::review::statement::{self, Change, Need, Place, Statement, Weighed};
use spoolgate_rules::review::{self, Judgement, Verdict};
use spoolgate_wire::code::Code;
use spoolgate_wire::time::Time;

/// A rulebook that does not come into force because approvals of its change are missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unapproved {
    /// Its hash.
    pub hash: String,
    /// How it relates to the rulebook in force.
    pub verdict: Verdict,
    /// The areas that need approvals, with how many there are.
    pub areas: Vec<Missing>,
    /// Why statements of the change do not count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
}

/// Approvals of an area.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Missing {
    /// Its name.
    pub area: String,
    /// How many approvers must sign.
    pub need: u32,
    /// How many have signed.
    pub have: u32,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Missing { area, need, have } = self;
        write!(f, "area {area} needs {need}, has {have}")
    }
}

impl Unapproved {
    /// Says in words what is missing.
    pub fn in_words(&self) -> String {
        let areas: Vec<String> = self.areas.iter().map(ToString::to_string).collect();
        let faults = self.faults.iter().map(|fault| format!("; {fault}"));
        format!(
            "the rule files were changed, and the change lacks approvals ({}): {}{}; the rules before \
                it stay in force",
            self.verdict.as_str(),
            areas.join(", "),
            faults.collect::<String>()
        )
    }
}

/// The statement by which people approved a rulebook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Agreement {
    /// How the rulebook relates to the one before it.
    pub verdict: Verdict,
    /// SHA-256 of the statement, hex.
    pub statement: String,
    /// Its nonce.
    pub nonce: String,
    /// Who signed, with the fingerprints of their keys.
    pub by: BTreeMap<String, String>,
}

/// What becomes of a changed rulebook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// It needs no approval.
    Free,
    /// People approved it.
    Approved(Agreement),
    /// Approvals are missing.
    Refused(Unapproved),
}

/// Returns the judgement of a change that needs one to come into force; `None` if the rulebook in
/// force lets its files change freely.
pub fn judged(in_force: &Rulebook, new: &Rulebook) -> Option<Judgement> {
    let is_enforced = in_force.approval.enforce == Enforce::Gate && in_force.hash != new.hash;
    is_enforced.then(|| review::judge(in_force, new, STEPS_MAX))
}

/// Rules on a change from its judgement and the files below `proposals/approvals`, by path. A
/// statement whose nonce is among `used` does not count.
pub fn ruling(
    (in_force, new): (&Rulebook, &Rulebook),
    judgement: &Judgement,
    approvals: &BTreeMap<String, Vec<u8>>,
    used: &BTreeSet<String>,
    now: Time,
) -> Ruling {
    if judgement.may_apply_itself() {
        return Ruling::Free;
    }
    let own = Statement {
        roots: BTreeSet::new(),
        rules_base: None,
        from: in_force.hash.clone(),
        to: new.hash.clone(),
        verdict: judgement.verdict,
        areas: Vec::new(),
        files: statement::digests(&in_force.files.files, &new.files.files),
        nonce: String::new(),
    };
    let change = Change {
        old: in_force,
        judgement,
        others: &BTreeSet::new(),
        own: &own,
        place: Place::Gate,
    };
    let mut faults = Vec::new();
    let (mut most, mut best) = (0, change.needs(&[]));
    for found in statement::found(approvals) {
        let Weighed {
            folder,
            sha256,
            nonce,
            needs,
            faults: own,
        } = change.weigh(&found, now);
        let Some(nonce) = nonce else {
            // It is about another change, such as one that is in force already.
            continue;
        };
        if used.contains(&nonce) {
            let code = Code::StatementUsed;
            faults.push(escaped(&format!("{folder}: {code}: it was used before")));
            continue;
        }
        if needs.iter().all(Need::is_met) {
            let by = needs.into_iter().flat_map(|need| need.have).collect();
            return Ruling::Approved(Agreement {
                verdict: judgement.verdict,
                statement: sha256,
                nonce,
                by,
            });
        }
        let own = own.into_iter();
        faults.extend(own.map(|fault| escaped(&format!("{folder}: {fault}"))));
        let have = needs.iter().map(|need| need.have.len()).sum();
        if have > most {
            (most, best) = (have, needs);
        }
    }
    faults.truncate(FAULTS_MAX);
    Ruling::Refused(Unapproved {
        hash: new.hash.clone(),
        verdict: judgement.verdict,
        areas: best.into_iter().map(Missing::from).collect(),
        faults,
    })
}

/// Most faults of statements that a line names.
const FAULTS_MAX: usize = 16;

impl From<Need> for Missing {
    fn from(need: Need) -> Missing {
        Missing {
            area: need.area,
            need: need.need,
            have: u32::try_from(need.have.len()).unwrap_or(u32::MAX),
        }
    }
}

/// Checks that a person's request may change the rulebook to this one without signatures.
pub(super) fn check_person(in_force: &Rulebook, new: &Rulebook) -> Result<(), Refusal> {
    match judged(in_force, new) {
        Some(judgement) if !judgement.may_apply_itself() => {
            let verdict = judgement.verdict.as_str();
            check_loosening(in_force, &format!("this change of rules ({verdict})"))
        }
        Some(_) | None => Ok(()),
    }
}

/// Checks that a person's request may loosen something without signatures.
pub(super) fn check_loosening(in_force: &Rulebook, what: &str) -> Result<(), Refusal> {
    match in_force.approval.enforce {
        Enforce::Review => Ok(()),
        Enforce::Gate => Err(Refusal::new(
            Code::ApprovalRequired,
            format!(
                "rules/approval.yaml has `enforce: gate`, so {what} needs signatures: edit the rule \
                    files, and let approvers sign what `spoolgate rules review OLD NEW --statement \
                    FILE` writes"
            ),
        )),
    }
}
