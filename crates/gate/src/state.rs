//! The gate's state: a fold of the changes in ledger lines, bounded by what is open, not by
//! history.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};

use super::approvals::{self, Approvals};
use super::dead_man::{self, DeadMan};
use super::enforced::{Agreement, Unapproved};
use super::halts;
use super::proposals::{self, ProposalsState};
use super::rates::Rates;
use super::services::{self, CredentialRecord};
use super::storage::Level;
use spoolgate_admission::lineage as admission;
use spoolgate_control::{self as control, ControlState};
use spoolgate_council::case as council;
use spoolgate_outgoing::{self as actions, ActionsState, OpenError};
use spoolgate_rules::Rulebook;
use spoolgate_rules::overrides::{Override, Overrides};
use spoolgate_rules::rule::Entries;
use spoolgate_trading::{self as trading, Book};
use spoolgate_wire::admin::Algorithm;
use spoolgate_wire::heads::{GivenUp, Head};
use spoolgate_wire::ids::{Principal, ServiceName};
use spoolgate_wire::limits::LimitName;
use spoolgate_wire::time::Time;

pub use super::halts::{Halt, Halts, On};

/// Everything that decisions read apart from the rulebook, the request and the look-ups.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// Cash, positions, orders and markets.
    pub book: Book,
    /// Keys by key id. Ended keys stay: a line is checked with the key that was valid at its time.
    pub keys: BTreeMap<String, KeyRecord>,
    /// Halts of entries.
    pub halts: Halts,
    /// The ledger's clock.
    pub clock: Clock,
    /// The rulebook in force.
    pub rulebook: RulebookState,
    /// Council cases.
    pub council: CouncilState,
    /// The bounded part of admission.
    pub admission: AdmissionState,
    /// Decisions of controllers.
    pub control: ControlState,
    /// Outgoing actions.
    #[serde(default)]
    pub actions: ActionsState,
    /// Credentials in force, by service; their secrets are in the keyring.
    #[serde(default)]
    pub credentials: BTreeMap<ServiceName, CredentialRecord>,
    /// Messages that agents have sent within a minute.
    pub rates: Rates,
    /// Silent agents.
    pub dead_man: DeadMan,
    /// Held requests.
    pub approvals: Approvals,
    /// Proposals that wait for an approver.
    pub proposals: ProposalsState,
    /// Set entries added while the gate ran, by approvals and grants.
    pub entries: Entries,
    /// Limits that people have overridden, until their lines of an end.
    #[serde(default, skip_serializing_if = "Overrides::is_empty")]
    pub overrides: Overrides,
    /// How much the gate serves, as the newest `storage` line tells.
    #[serde(default, skip_serializing_if = "Level::is_normal")]
    pub storage: Level,
    /// When a person last drilled the kill switch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drilled_at: Option<Time>,
    /// Heads of this log that were given up when a person continued an older copy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub given_up: Vec<Head>,
    /// Name of the log, which tells this gate from others; empty in a state that has none yet.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub log: String,
    /// Version of the program that writes the lines.
    #[serde(default)]
    pub program: String,
    /// The [`SEMANTICS`] of that version; `None` until a line names one other than the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub semantics: Option<u32>,
}

/// The part of admission that is kept in memory; the trees are in the index.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdmissionState {
    /// When each principal opened root tasks within the last hour; bounded by its own limit.
    pub roots: BTreeMap<Principal, VecDeque<Time>>,
    /// When each principal had leases without causality admitted within the last hour, by domain;
    /// bounded by the domains' limits.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub leases: BTreeMap<Principal, BTreeMap<String, VecDeque<Time>>>,
    /// Profiles that policy commands delivered, by domain.
    pub policies: BTreeMap<String, admission::Delivered>,
}

/// The part of the council cases that is kept in memory.
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
    /// The key id.
    pub key_id: String,
    /// Its principal.
    pub principal: Principal,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// When it was added.
    pub added_at: Time,
    /// When it ends, after a rotation.
    pub ends_at: Option<Time>,
    /// When a person revoked it: final, whatever the clock does afterwards.
    pub revoked_at: Option<Time>,
}

/// The ledger's clock and whether it can be trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clock {
    /// The latest time written. It never decreases, except after `clock.accept`.
    pub last: Option<Time>,
    /// A step that closes entries until a person accepts it.
    pub fault: Option<ClockFault>,
    /// Whether a person accepted the machine's clock: the next batch takes its time, even if it is
    /// earlier.
    pub accepted: bool,
}

/// A clock step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClockFault {
    /// The ledger's time.
    pub from: Time,
    /// The machine's time.
    pub to: Time,
}

/// The rulebook in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RulebookState {
    /// Hash of the last valid rulebook.
    pub hash: String,
    /// Why the files on disk cannot be used, with file and line.
    pub fault: Option<String>,
    /// The rulebook of the files on disk, if it lacks approvals and so is not in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<Unapproved>,
    /// A rulebook that may come into force without approvals, by its hash, when the files are next
    /// looked at: the owner of the machine said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub freed: Option<String>,
    /// Nonces of the statements that were used. People sign each of them.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub nonces: BTreeSet<String>,
}

/// Counts the versions of what this program decides and writes. A release that makes a recorded
/// line or answer come out otherwise than before raises it by one; the `genesis` line of a new log
/// names it, and in an older log the first `start` line. A replay recomputes only lines of its own
/// semantics: it folds and verifies all others and reports them as not recomputed.
pub const SEMANTICS: u32 = 8;

/// The semantics of each earlier version, oldest first.
const EARLIER: &[(&str, u32)] = &[("0.1.0", 1), ("0.2.0", 2)];

/// Whether a version of this program can have written lines with these semantics, as far as this
/// version knows. Before its release, a version may have had several.
pub fn may_have_written(version: &str, semantics: u32) -> bool {
    if version == spoolgate_wire::VERSION {
        let newest = EARLIER.last().map_or(0, |(_, semantics)| *semantics);
        return newest < semantics && semantics <= SEMANTICS;
    }
    let mut earlier = EARLIER.iter();
    earlier.all(|(known, own)| *known != version || *own == semantics)
}

/// The semantics of logs that name none.
const FIRST_SEMANTICS: u32 = 1;

pub(crate) fn first_semantics() -> u32 {
    FIRST_SEMANTICS
}

pub(crate) fn is_first_semantics(semantics: &u32) -> bool {
    *semantics == FIRST_SEMANTICS
}

/// A change of the state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Change {
    /// A change of the book.
    Book(trading::Change),
    /// A change of a council case: the index keeps cases, the state only the number of open ones.
    Council(council::Change),
    /// A change of admission: the index keeps trees and tasks.
    Admission(admission::Change),
    /// A control decision.
    Control(control::Change),
    /// A change of an outgoing action.
    Actions(actions::Change),
    /// A change of the allowlist or of a credential.
    Services(services::Change),
    /// A change of the dead man's switch.
    DeadMan(dead_man::Change),
    /// A change of a held request, or of a set's entries.
    Approvals(approvals::Change),
    /// A change of a proposal.
    Proposal(proposals::Change),
    /// A key was added.
    KeyAdded(KeyRecord),
    /// A key ends by rotation.
    KeyEnds {
        /// The key.
        key_id: String,
        /// When; never later than a time set before.
        at: Time,
    },
    /// A key was revoked.
    KeyRevoked {
        /// The key.
        key_id: String,
        /// When.
        at: Time,
    },
    /// The halt file appeared or disappeared.
    HaltFile {
        /// Whether it exists.
        present: bool,
        /// Whether its first line is `flatten`.
        #[serde(default, skip_serializing_if = "halts::is_false")]
        flatten: bool,
    },
    /// Entries of one principal, or of all, are halted.
    HaltSet {
        /// The principal; absent for all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        principal: Option<Principal>,
        /// The part of the account, if it is not about principals.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        on: Option<On>,
        /// Who set it, when and why.
        halt: Halt,
    },
    /// A person drilled the kill switch; nothing was halted.
    Drilled {
        /// When.
        at: Time,
    },
    /// A halt ended.
    HaltCleared {
        /// The principal; absent for all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        principal: Option<Principal>,
        /// The part of the account, if it is not about principals.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        on: Option<On>,
    },
    /// The clock stepped.
    ClockFaulted(ClockFault),
    /// A person accepted the clock.
    ClockAccepted {},
    /// A rulebook came into force.
    RulebookLoaded {
        /// Its hash.
        hash: String,
        /// The statement that approves it, if it needed one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        approved: Option<Box<Agreement>>,
    },
    /// The rule files can be used, and approvals of their change are missing; the rulebook in force
    /// stays.
    RulebookRefused(Box<Unapproved>),
    /// The owner of the machine lets a rulebook come into force without approvals.
    RulebookFreed {
        /// Its hash.
        hash: String,
    },
    /// The rule files cannot be used; the last good rulebook stays for exits.
    RulebookFaulted {
        /// File, line and what is wrong.
        fault: String,
    },
    /// A person set another value of a limit.
    LimitOverridden {
        /// The limit.
        limit: LimitName,
        /// The value, and until when it applies.
        set: Override,
    },
    /// An override ended: the limit has the value of the file again.
    OverrideEnded {
        /// The limit.
        limit: LimitName,
    },
    /// The disk has so little room that the gate serves less, or room again.
    StorageLevel {
        /// How much it serves.
        level: Level,
    },
    /// A person continued an older copy of the log.
    HeadsGivenUp(GivenUp),
    /// Another version of the program writes from here on.
    ProgramChanged {
        /// The version.
        version: String,
        /// What the version decides and writes, as [`SEMANTICS`] counts it.
        #[serde(
            default = "first_semantics",
            skip_serializing_if = "is_first_semantics"
        )]
        semantics: u32,
    },
}

/// A ledger line that does not fit the state before it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FoldError {
    /// The change does not fit the book.
    #[error("{0}")]
    Book(#[from] trading::fold::ApplyError),
    /// The state does not know this key.
    #[error("key `{0}` is not known")]
    UnknownKey(String),
    /// An outgoing action cannot begin or end like this.
    #[error(transparent)]
    Action(#[from] OpenError),
    /// A line of this kind does not begin or end these outgoing actions.
    #[error("its kind and the actions that it begins and ends do not go together")]
    Kind,
}

impl State {
    /// The [`SEMANTICS`] under which the next line is written, as the log tells so far.
    pub fn semantics(&self) -> u32 {
        self.semantics.unwrap_or(FIRST_SEMANTICS)
    }

    /// Notes which version of the program writes from here on, and its semantics.
    pub fn is_written_by(&mut self, version: &str, semantics: u32) {
        version.clone_into(&mut self.program);
        self.semantics = Some(semantics).filter(|semantics| !is_first_semantics(semantics));
    }

    /// Applies one change.
    ///
    /// # Errors
    /// Returns [`FoldError`] if the change does not fit: this program did not write such a ledger.
    pub fn apply(&mut self, change: &Change) -> Result<(), FoldError> {
        match change {
            Change::Book(change) => self.book.apply(change)?,
            Change::Council(
                council::Change::CaseOpened(_) | council::Change::CaseReopened { .. },
            ) => self.council.open = self.council.open.saturating_add(1),
            Change::Council(council::Change::CaseClosed { .. }) => {
                self.council.open = self.council.open.saturating_sub(1);
            }
            Change::Council(_) => {}
            Change::Admission(change) => self.admission.apply(change),
            Change::Control(change) => self.control.apply(change),
            Change::Actions(change) => {
                self.actions.fits(change)?;
                self.actions.apply(change);
            }
            Change::Services(change) => services::apply(&mut self.credentials, change),
            Change::DeadMan(change) => self.dead_man.apply(change),
            Change::Approvals(change) => self.approvals.apply(&mut self.entries, change),
            Change::Proposal(change) => self.proposals.apply(change, self.semantics()),
            Change::HeadsGivenUp(given_up) => self.given_up.extend(given_up.heads.iter().cloned()),
            Change::KeyAdded(record) => {
                self.keys.insert(record.key_id.clone(), record.clone());
            }
            Change::KeyEnds { key_id, at } => {
                let key = self
                    .keys
                    .get_mut(key_id)
                    .ok_or_else(|| FoldError::UnknownKey(key_id.clone()))?;
                key.ends_at = Some(key.ends_at.map_or(*at, |end| end.min(*at)));
            }
            Change::KeyRevoked { key_id, at } => {
                let key = self
                    .keys
                    .get_mut(key_id)
                    .ok_or_else(|| FoldError::UnknownKey(key_id.clone()))?;
                key.revoked_at = Some(*at);
            }
            Change::HaltFile { present, flatten } => {
                (self.halts.file, self.halts.file_flattens) = (*present, *flatten);
                if *flatten {
                    self.book.forget_dropped();
                }
            }
            Change::LimitOverridden { limit, set } => {
                self.overrides.insert(*limit, set.clone());
            }
            Change::OverrideEnded { limit } => {
                self.overrides.remove(limit);
            }
            Change::StorageLevel { level } => self.storage = *level,
            Change::HaltSet {
                principal,
                on,
                halt,
            } => {
                self.halts.set(principal.as_ref(), on.as_ref(), halt);
                if halt.flatten {
                    self.book.forget_dropped();
                }
            }
            Change::Drilled { at } => self.drilled_at = Some(*at),
            Change::HaltCleared { principal, on } => {
                self.halts.clear(principal.as_ref(), on.as_ref());
            }
            Change::ClockFaulted(fault) => self.clock.fault = Some(fault.clone()),
            Change::ClockAccepted {} => {
                self.clock.fault = None;
                self.clock.accepted = true;
            }
            Change::RulebookLoaded { hash, approved } => {
                let mut nonces = std::mem::take(&mut self.rulebook.nonces);
                nonces.extend(approved.iter().map(|approved| approved.nonce.clone()));
                self.rulebook = RulebookState {
                    hash: hash.clone(),
                    nonces,
                    ..RulebookState::default()
                };
            }
            Change::RulebookRefused(refused) => {
                self.rulebook.fault = None;
                self.rulebook.refused = Some(refused.as_ref().clone());
                self.rulebook.freed = None;
            }
            Change::RulebookFreed { hash } => self.rulebook.freed = Some(hash.clone()),
            Change::RulebookFaulted { fault } => {
                self.rulebook.fault = Some(fault.clone());
                self.rulebook.refused = None;
                self.rulebook.freed = None;
            }
            Change::ProgramChanged { version, semantics } => {
                self.is_written_by(version, *semantics);
            }
        }
        Ok(())
    }

    /// Notes the time of a line. Time goes back once, after a person accepted the machine's clock;
    /// the lines of the batch with that decision still have the old time.
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

    /// Returns the rulebook with its limits as they are in force: under the overrides of this state and
    /// no others. Whatever decides by limits begins here; a host that keeps the result asks cheaply.
    pub fn in_force<'a>(&self, rules: &'a Rulebook) -> Cow<'a, Rulebook> {
        rules.under(&self.overrides)
    }

    /// Ids of the keys of `principal` that are valid at `now`.
    pub fn active_keys<'a>(
        &'a self,
        principal: &'a Principal,
        now: Time,
    ) -> impl Iterator<Item = &'a str> {
        self.keys
            .values()
            .filter(move |key| &key.principal == principal && key.is_active(now))
            .map(|key| key.key_id.as_str())
    }

    /// Returns why the clock closes entries, if it does.
    pub fn clock_fault(&self) -> Option<String> {
        self.clock.fault.as_ref().map(|fault| {
            format!(
                "the machine's clock stepped from {} to {}; a person must check it and run \
                    `spoolgate clock accept`",
                fault.from, fault.to
            )
        })
    }
}

/// Adds a time and forgets those that are an hour older.
fn note(times: &mut VecDeque<Time>, at: Time) {
    times.retain(|before| at.since_ms(*before) < super::admission::HOUR_MS);
    times.push_back(at);
}

impl AdmissionState {
    fn apply(&mut self, change: &admission::Change) {
        match change {
            admission::Change::Admitted(admitted) => {
                if let Some(principal) = &admitted.opened_by {
                    note(
                        self.roots.entry(principal.clone()).or_default(),
                        admitted.at,
                    );
                }
            }
            admission::Change::Leased(leased) => {
                let domains = self.leases.entry(leased.by.clone()).or_default();
                note(domains.entry(leased.domain.clone()).or_default(), leased.at);
            }
            admission::Change::Settled(_) => {}
            admission::Change::PolicyDelivered { domain, delivered } => {
                self.policies.insert(domain.clone(), (**delivered).clone());
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
    /// Whether the key is valid at `now`.
    pub fn is_active(&self, now: Time) -> bool {
        self.revoked_at.is_none() && self.ends_at.is_none_or(|end| now < end)
    }
}
