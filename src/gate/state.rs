//! What the gate knows: a fold of the changes in ledger lines, bounded by what is open, not by history.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::approvals::{self, Approvals};
use super::dead_man::{self, DeadMan};
use super::proposals::{self, ProposalsState};
use super::rates::Rates;
use super::services::{self, CredentialRecord};
use crate::actions::{self, ActionsState};
use crate::admission::lineage as admission;
use crate::control::{self, ControlState};
use crate::council::case as council;
use crate::rules::rule::Entries;
use crate::trading::{self, Book};
use crate::wire::admin::Algorithm;
use crate::wire::heads::{GivenUp, Head};
use crate::wire::ids::{Principal, ServiceName};
use crate::wire::time::Time;

/// Everything decisions read that is not in the rulebook, the request or a lookup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// Money.
    pub book: Book,
    /// Keys by key id. Ended ones stay: a line is checked with the key valid at its time.
    pub keys: BTreeMap<String, KeyRecord>,
    /// Who may not enter.
    pub halts: Halts,
    /// The ledger's clock.
    pub clock: Clock,
    /// Which rulebook is in force.
    pub rulebook: RulebookState,
    /// Council cases.
    pub council: CouncilState,
    /// Admission, as far as it is bounded.
    pub admission: AdmissionState,
    /// What controllers decided.
    pub control: ControlState,
    /// What is on its way out.
    #[serde(default)]
    pub actions: ActionsState,
    /// Credentials in force, by service; their secrets are in the keyring.
    #[serde(default)]
    pub credentials: BTreeMap<ServiceName, CredentialRecord>,
    /// What agents have sent within a minute.
    pub rates: Rates,
    /// Who is not heard of.
    pub dead_man: DeadMan,
    /// Held requests.
    pub approvals: Approvals,
    /// Proposals that wait for people.
    pub proposals: ProposalsState,
    /// Entries of sets that came in while the gate ran: approved or granted.
    pub entries: Entries,
    /// Heads of this log that people gave up: an older copy of it was gone on with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub given_up: Vec<Head>,
    /// Version of the program that writes the lines.
    #[serde(default)]
    pub program: String,
}

/// What is kept of admission in memory; the trees are in the index.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdmissionState {
    /// When each principal opened roots within the last hour: as many as its key may.
    pub roots: BTreeMap<Principal, VecDeque<Time>>,
    /// What policy commands delivered, by domain.
    pub policies: BTreeMap<String, admission::Delivered>,
}

/// What is kept of council cases in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CouncilState {
    /// How many are open.
    pub open: u64,
}

/// A key as the ledger knows it; its secret is in the keyring.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyRecord {
    /// Its name.
    pub key_id: String,
    /// Whose it is.
    pub principal: Principal,
    /// Its kind.
    pub algorithm: Algorithm,
    /// Since when.
    pub added_at: Time,
    /// Until when, by rotation.
    pub ends_at: Option<Time>,
    /// When a person revoked it: final, whatever the clock does afterwards.
    pub revoked_at: Option<Time>,
}

/// Halts set by people, agents and the halt file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Halts {
    /// Whether `rules/HALT` exists, or cannot be looked for.
    pub file: bool,
    /// A halt of everybody.
    pub all: Option<Halt>,
    /// Halts of single principals.
    pub principals: BTreeMap<Principal, Halt>,
}

/// One halt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Halt {
    /// Who set it.
    pub by: Principal,
    /// When.
    pub at: Time,
    /// Why.
    pub reason: String,
}

/// The ledger's clock and whether it can be trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clock {
    /// The latest time written. Lines never go back.
    pub last: Option<Time>,
    /// A step that closed entries until a person accepts it.
    pub fault: Option<ClockFault>,
    /// A person accepted the machine's clock: the next batch takes its time, even if that is earlier.
    pub accepted: bool,
}

/// A clock step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClockFault {
    /// Where the ledger was.
    pub from: Time,
    /// Where the machine's clock was.
    pub to: Time,
}

/// Which rulebook is in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RulebookState {
    /// Hash of the last good one.
    pub hash: String,
    /// Why the files on disk cannot be used, with file and line.
    pub fault: Option<String>,
}

/// One step of the state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Change {
    /// Of the book.
    Book(trading::Change),
    /// Of a council case: the index keeps them, the state only how many are open.
    Council(council::Change),
    /// Of admission: the index keeps trees and tasks.
    Admission(admission::Change),
    /// Of a control decision.
    Control(control::Change),
    /// Of an outgoing action.
    Actions(actions::Change),
    /// Of the allowlist, or of a credential.
    Services(services::Change),
    /// Of the dead man's switch.
    DeadMan(dead_man::Change),
    /// Of a held request, or of what came into a set.
    Approvals(approvals::Change),
    /// In a proposal.
    Proposal(proposals::Change),
    /// A key was added.
    KeyAdded(KeyRecord),
    /// A key ends by rotation.
    KeyEnds {
        /// The key.
        key_id: String,
        /// When; never later than before.
        at: Time,
    },
    /// A key was revoked.
    KeyRevoked {
        /// The key.
        key_id: String,
        /// When.
        at: Time,
    },
    /// The halt file appeared or went.
    HaltFile {
        /// Whether it is there.
        present: bool,
    },
    /// Entries of everybody (principal absent) or one principal are halted.
    HaltSet {
        /// Whose; absent: everybody's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        principal: Option<Principal>,
        /// By whom, when, why.
        halt: Halt,
    },
    /// The halt is over.
    HaltCleared {
        /// Whose; absent: everybody's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        principal: Option<Principal>,
    },
    /// The clock stepped.
    ClockFaulted(ClockFault),
    /// A person accepted the clock.
    ClockAccepted {},
    /// A rulebook came into force.
    RulebookLoaded {
        /// Its hash.
        hash: String,
    },
    /// The rule files cannot be used; the last good rulebook stays for exits.
    RulebookFaulted {
        /// File, line and what is wrong.
        fault: String,
    },
    /// A person went on with an older copy of the log.
    HeadsGivenUp(GivenUp),
    /// From here on another version of the program writes.
    ProgramChanged {
        /// Which.
        version: String,
    },
}

/// A ledger line that does not fit the state before it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FoldError {
    /// In the book.
    #[error("{0}")]
    Book(#[from] trading::fold::ApplyError),
    /// A key that the state does not know.
    #[error("key `{0}` is not known")]
    UnknownKey(String),
    /// An outgoing action that cannot begin or end so.
    #[error("{0}")]
    Action(String),
}

impl State {
    /// Applies one change.
    ///
    /// # Errors
    /// [`FoldError`] if the change does not fit: the ledger is then not one that this program wrote.
    pub fn apply(&mut self, change: &Change) -> Result<(), FoldError> {
        match change {
            Change::Book(change) => self.book.apply(change)?,
            Change::Council(council::Change::CaseOpened(_)) => {
                self.council.open = self.council.open.saturating_add(1)
            }
            Change::Council(council::Change::CaseClosed { .. }) => {
                self.council.open = self.council.open.saturating_sub(1);
            }
            Change::Council(_) => {}
            Change::Admission(change) => self.admission.apply(change),
            Change::Control(change) => self.control.apply(change),
            Change::Actions(change) => {
                self.actions.fits(change).map_err(FoldError::Action)?;
                self.actions.apply(change);
            }
            Change::Services(change) => services::apply(&mut self.credentials, change),
            Change::DeadMan(change) => self.dead_man.apply(change),
            Change::Approvals(change) => self.approvals.apply(&mut self.entries, change),
            Change::Proposal(change) => self.proposals.apply(change),
            Change::HeadsGivenUp(given_up) => self.given_up.extend(given_up.heads.iter().cloned()),
            Change::KeyAdded(record) => {
                self.keys.insert(record.key_id.clone(), record.clone());
            }
            Change::KeyEnds { key_id, at } => {
                let key = self.keys.get_mut(key_id).ok_or_else(|| FoldError::UnknownKey(key_id.clone()))?;
                key.ends_at = Some(key.ends_at.map_or(*at, |end| end.min(*at)));
            }
            Change::KeyRevoked { key_id, at } => {
                let key = self.keys.get_mut(key_id).ok_or_else(|| FoldError::UnknownKey(key_id.clone()))?;
                key.revoked_at = Some(*at);
            }
            Change::HaltFile { present } => self.halts.file = *present,
            Change::HaltSet { principal: None, halt } => self.halts.all = Some(halt.clone()),
            Change::HaltSet { principal: Some(principal), halt } => {
                self.halts.principals.insert(principal.clone(), halt.clone());
            }
            Change::HaltCleared { principal: None } => self.halts.all = None,
            Change::HaltCleared { principal: Some(principal) } => {
                self.halts.principals.remove(principal);
            }
            Change::ClockFaulted(fault) => self.clock.fault = Some(fault.clone()),
            Change::ClockAccepted {} => {
                self.clock.fault = None;
                self.clock.accepted = true;
            }
            Change::RulebookLoaded { hash } => {
                self.rulebook = RulebookState { hash: hash.clone(), fault: None };
            }
            Change::RulebookFaulted { fault } => self.rulebook.fault = Some(fault.clone()),
            Change::ProgramChanged { version } => self.program.clone_from(version),
        }
        Ok(())
    }

    /// Notes the time of a line. Time only goes back once after a person accepted the machine's clock; the
    /// lines of the batch in which that happened still have the old time.
    pub fn tick(&mut self, time: Time) {
        match self.clock.last {
            Some(last) if self.clock.accepted && time != last => {
                self.clock.accepted = false;
                self.clock.last = Some(time);
            }
            Some(last) => self.clock.last = Some(last.max(time)),
            None => self.clock.last = Some(time),
        }
    }

    /// Ids of the keys of `principal` that verify at `now`.
    pub fn active_keys<'a>(&'a self, principal: &'a Principal, now: Time) -> impl Iterator<Item = &'a str> {
        self.keys
            .values()
            .filter(move |key| &key.principal == principal && key.is_active(now))
            .map(|key| key.key_id.as_str())
    }

    /// Why `principal` may not enter, if it may not.
    pub fn halted(&self, principal: &Principal) -> Option<String> {
        if self.halts.file {
            return Some("the file rules/HALT is there; a person removes it".to_owned());
        }
        let told = |halt: &Halt| {
            format!("halted by `{}` at {}: {}; a person clears it", halt.by, halt.at, halt.reason)
        };
        self.halts.all.as_ref().or_else(|| self.halts.principals.get(principal)).map(told)
    }

    /// Why the clock closes entries, if it does.
    pub fn clock_fault(&self) -> Option<String> {
        self.clock.fault.as_ref().map(|fault| {
            format!(
                "the machine's clock stepped from {} to {}; a person looks and runs `spoolgate clock accept`",
                fault.from, fault.to
            )
        })
    }
}

impl AdmissionState {
    fn apply(&mut self, change: &admission::Change) {
        match change {
            admission::Change::Admitted(admitted) => {
                let Some(principal) = &admitted.opened_by else { return };
                let times = self.roots.entry(principal.clone()).or_default();
                times.retain(|at| admitted.at.since_ms(*at) < super::admission::ROOTS_WINDOW_MS);
                times.push_back(admitted.at);
            }
            admission::Change::PolicyDelivered { domain, delivered } => {
                self.policies.insert(domain.clone(), delivered.clone());
            }
            admission::Change::PoliciesForgotten { domains } => {
                domains.iter().for_each(|domain| {
                    self.policies.remove(domain);
                });
            }
        }
    }
}

impl KeyRecord {
    /// Whether the key verifies at `now`.
    pub fn is_active(&self, now: Time) -> bool {
        self.revoked_at.is_none() && self.ends_at.is_none_or(|end| now < end)
    }
}
