//! Predicts what the gate would decide on a request now, without writing anything.
//!
//! The same function decides, over the state up to the last sealed batch. It needs no lock and
//! works beside a running gate. It writes no line, no answer and no file, and uses up no id.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::path::Path;

use serde_json::value::RawValue;

use super::batch::blob;
use super::error::HomeError;
use super::lookup::{Lookup, Secret, fill};
use super::open::Seams;
use super::read::{self, View};
use super::rule_files::holds_any;
use super::rulebook::halt_file;
use super::sealed::recognise;
use crate::index::decisions::UsedId;
use crate::index::fold::{Outstanding, fold};
use crate::index::proposals::{self, ProposalRow};
use crate::index::{Store, StoreError};
use spoolgate_admission::lineage::{Lineage, Query};
use spoolgate_admission::settle::Task;
use spoolgate_council::case::Docket;
use spoolgate_gate::decide::{CASES_MAX, FILLS_MAX};
use spoolgate_gate::history::{self, History};
use spoolgate_gate::prepare::{Authentic, Origin, Unverified};
use spoolgate_gate::record::{Decision, Event, EventKind, Record, Status};
use spoolgate_gate::sealing::is_sealed;
use spoolgate_gate::{Change, Delivery, Lookups, Prepared, Seen, decide, events, prepare};
use spoolgate_host::keyring::{CachedKeyring, SqliteKeyring};
use spoolgate_ledger::disk::Disk;
use spoolgate_rules::Rulebook;
use spoolgate_trading::order::Fill;
use spoolgate_trading::requests::ClosedOrder;
use spoolgate_trading::venue::paper;
use spoolgate_wire::answer::{Answer, AnswerStatus};
use spoolgate_wire::envelope::Envelope;
use spoolgate_wire::ids::{ControlId, ExecId, OrderId, Principal, ProposalId, RequestId};
use spoolgate_wire::time::Time;

/// File name under which the request is shown.
const FILE: &str = "dry-run.json";

/// The request to try.
#[derive(Clone, Debug)]
pub enum Asked<'a> {
    /// A signed request, as the bytes of its file. An id that was used gets the answer that it got
    /// then.
    Signed(&'a [u8]),
    /// A claimed file, which gets the decision that its claim would get.
    Claimed(&'a Delivery),
    /// An unsigned request; its signature member is ignored.
    Unsigned(Envelope),
}

/// The predicted result.
#[derive(Clone, Debug)]
pub struct Tried {
    /// The line that would be written, with the next line number.
    pub decision: Decision,
    /// The answer that would be given.
    pub answer: Answer,
    /// Remarks for the operator on what limits the prediction.
    pub remarks: Vec<String>,
}

/// Returns a placeholder for the answer of a request that would start an outgoing action, because
/// its outcome is unknown.
fn begun(decision: &Decision) -> Answer {
    Answer {
        request_id: decision.request_id.clone().unwrap_or_default(),
        timestamp: decision.timestamp,
        status: AnswerStatus::Success,
        data: RawValue::from_string(r#"{"would_be":"pending"}"#.to_owned()).ok(),
        removed: None,
        redacted: false,
        error: None,
        audit_ref: decision.id.clone(),
    }
}

/// A home as its next batch would find it.
pub struct Trial {
    /// The home as it was read.
    pub view: View,
    /// The instant of the trial.
    pub now: Time,
    keyring: CachedKeyring,
    remarks: Vec<String>,
}

impl Trial {
    /// Reads a home and applies what the next batch would begin with.
    ///
    /// # Errors
    /// Returns [`HomeError`] if the home cannot be read.
    pub fn of(root: &Path, seams: &Seams) -> Result<Trial, HomeError> {
        let view = read::read(root, seams)?;
        let keyring = SqliteKeyring::open(root, false)?;
        Trial::over(view, keyring, seams)
    }

    /// Applies to a home that was read what the next batch would begin with.
    ///
    /// # Errors
    /// Returns [`HomeError`] if the home cannot be read.
    pub(super) fn over(
        view: View,
        keyring: SqliteKeyring,
        seams: &Seams,
    ) -> Result<Trial, HomeError> {
        let machine = seams.clock.now();
        let last = view.state.clock.last;
        let now = if view.state.clock.accepted {
            machine
        } else {
            last.map_or(machine, |last| last.max(machine))
        };
        let mut trial = Trial {
            view,
            now,
            keyring: CachedKeyring::new(keyring),
            remarks: Vec::new(),
        };
        trial.begin(seams, machine)?;
        Ok(trial)
    }

    fn begin(&mut self, seams: &Seams, machine: Time) -> Result<(), HomeError> {
        let View {
            state,
            rulebook,
            newest,
            position,
            ..
        } = &mut self.view;
        let gap_max_ms = i64::from(rulebook.safety.clock_gap_max_s).saturating_mul(1000);
        if let Some(last) = state
            .clock
            .last
            .filter(|_| !state.clock.accepted && state.clock.fault.is_none())
            && (machine.since_ms(last) > gap_max_ms || machine.since_ms(last) < -2000)
        {
            self.remarks.push(format!(
                "the last line was written at {last}, and the machine's clock shows {machine}: a \
                    gate that starts now refuses all entries until a person accepts the clock"
            ));
        }
        let halts = &state.halts;
        let (present, flatten) = halt_file(seams.disk.as_ref(), halts.file_flattens);
        let mut changes = Vec::new();
        if (present, flatten) != (halts.file, halts.file_flattens) {
            changes.push(Change::HaltFile { present, flatten });
        }
        changes.extend(
            events::overrides_end(state, rulebook, self.now)
                .into_iter()
                .flat_map(|event| event.changes),
        );
        changes.extend(
            paper::end_day(&state.book, self.now)
                .into_iter()
                .map(Change::Book),
        );
        changes.extend(
            paper::open_periods(&state.book, rulebook, self.now)
                .into_iter()
                .map(Change::Book),
        );
        let event = Event {
            timestamp: self.now,
            note: String::new(),
            changes,
            cage: None,
        };
        fold(
            state,
            newest,
            &mut Outstanding::new(),
            position.seq,
            &Record::Event(EventKind::Tick, event),
        )?;
        Ok(())
    }

    /// Replaces the rules in force. A fault in the rule files of the home then no longer matters.
    pub fn under(&mut self, rules: Rulebook) {
        self.view.state.rulebook.fault = None;
        self.view.rulebook = rules;
    }

    /// Reads the request as the gate would.
    pub fn prepare(&self, asked: &Asked<'_>) -> Result<Prepared, HomeError> {
        let View { state, .. } = &self.view;
        let prepared = match asked {
            Asked::Signed(bytes) => {
                let content = Ok(bytes.to_vec());
                let delivery = Delivery {
                    origin: Origin::Local,
                    file: FILE.to_owned(),
                    shown: FILE.to_owned(),
                    content,
                };
                prepare(&delivery, state, &self.keyring, self.now)
            }
            Asked::Claimed(delivery) => prepare(*delivery, state, &self.keyring, self.now),
            Asked::Unsigned(envelope) => {
                let key_id = state
                    .active_keys(&envelope.source, self.now)
                    .next()
                    .map(str::to_owned);
                let authentic = Authentic::unsigned(envelope.clone());
                let request = match key_id {
                    Some(key_id) => Ok(Authentic {
                        key_id,
                        ..authentic
                    }),
                    None => {
                        let what = format!(
                            "`{}` has no current key, so it cannot sign",
                            envelope.source
                        );
                        let refusal = spoolgate_gate::prepare::Refusal::new(
                            spoolgate_wire::code::Code::SignatureInvalid,
                            what,
                        );
                        Err(Box::new(Unverified {
                            envelope: Some(envelope.clone()),
                            refusal,
                        }))
                    }
                };
                let (file_sha256, file_bytes) = (None, None);
                Prepared {
                    origin: Origin::Local,
                    file: FILE.to_owned(),
                    file_sha256,
                    file_bytes,
                    request,
                }
            }
        };
        self.keyring.check()?;
        Ok(prepared)
    }

    /// Decides the request.
    ///
    /// # Errors
    /// Returns [`HomeError`] if a look-up fails or a stored answer is lost.
    pub fn decide(&self, asked: &Asked<'_>) -> Result<Tried, HomeError> {
        let prepared = self.prepare(asked)?;
        let mut remarks = self.remarks.clone();
        let lookups = self.look_up(&prepared)?;
        let View {
            state,
            rulebook,
            position,
            disk,
            ..
        } = &self.view;
        let mut decided = decide(state, rulebook, &prepared, &lookups, self.now, position.seq);
        let lost = |what: String| HomeError::AnswerLost(what);
        let answer = match decided.decision.metadata.replay_of {
            Some(seq) => {
                remarks.push(format!("decided already: line {seq}; this is its answer"));
                match self.view.record(seq)? {
                    Some(Record::Decision(decision)) => {
                        let digest = decision.data_blob.as_deref();
                        let kept = digest
                            .map(|digest| blob(disk.as_ref(), digest))
                            .transpose()?
                            .flatten();
                        decision
                            .answer(kept.as_deref())
                            .map_err(|error| lost(error.to_string()))?
                    }
                    _ => return Err(lost(format!("line {seq} is not a decision"))),
                }
            }
            None if decided.decision.status == Status::Pending => {
                remarks.push(
                    "an adapter would carry it out, and its answer would be the answer".to_owned(),
                );
                begun(&decided.decision)
            }
            None => {
                let digest = decided.decision.data_blob.clone();
                let at = decided
                    .blobs
                    .iter()
                    .position(|(of, _)| Some(of) == digest.as_ref());
                let bytes = at.map(|at| decided.blobs.swap_remove(at).1);
                decided
                    .decision
                    .answer(bytes.as_deref())
                    .map_err(|error| lost(error.to_string()))?
            }
        };
        Ok(Tried {
            decision: decided.decision,
            answer,
            remarks,
        })
    }

    /// Looks up what the decision needs besides the state.
    ///
    /// # Errors
    /// Returns [`HomeError`] if the ledger, the index, the keyring or a blob cannot be read.
    pub fn look_up(&self, request: &Prepared) -> Result<Lookups, HomeError> {
        let mut lookups = Lookups::default();
        fill(&mut lookups, request, self)?;
        if let (Ok(authentic), Some(seen)) = (&request.request, &mut lookups.seen)
            && is_sealed(&authentic.envelope.action)
        {
            let earlier = self.view.record(seen.seq)?;
            recognise(
                self.view.disk.as_ref(),
                seen,
                &authentic.request_hash,
                earlier.as_ref(),
            )?;
        }
        Ok(lookups)
    }
}

impl Lookup for Trial {
    fn rules(&self) -> &Rulebook {
        &self.view.rulebook
    }

    fn disk(&self) -> &dyn Disk {
        self.view.disk.as_ref()
    }

    fn store(&self) -> &Store {
        &self.view.newest
    }

    fn now(&self) -> Time {
        self.now
    }

    fn record(&self, seq: u64) -> Result<Option<Cow<'_, Record>>, HomeError> {
        Ok(self.view.record(seq)?.map(Cow::Owned))
    }

    fn is_held(&self, secret: &Secret<'_>) -> Result<Option<bool>, HomeError> {
        secret.is_in(&self.keyring).map(Some)
    }

    fn only_signatures_approve(&self) -> Option<bool> {
        Some(self.view.rulebook.approvers.is_some())
    }

    fn rule_file_differs(&self, path: &str) -> Result<Option<bool>, HomeError> {
        let in_force = self.view.rulebook.files.files.get(path).map(String::as_str);
        Ok(Some(!holds_any(self.disk(), Path::new(path), &[in_force])))
    }

    // Lines after the snapshot are in an index of their own, so these look-ups read several
    // indexes.

    fn seen(&self, source: &str, id: &str) -> Result<Option<Seen>, StoreError> {
        self.view.first(|store| store.seen(source, id))
    }

    fn closed_order(&self, id: OrderId) -> Result<Option<ClosedOrder>, StoreError> {
        self.view.closed_order(id)
    }

    fn fills_since(&self, since: Time) -> Result<Vec<Fill>, StoreError> {
        let mut fills = self.view.fills_since(since)?;
        fills.truncate(FILLS_MAX.saturating_add(1));
        Ok(fills)
    }

    fn lineage(&self, query: &Query) -> Result<Lineage, HomeError> {
        let index = self
            .view
            .index_of(query.tenant.as_str(), query.root.as_str())?;
        Ok(index.lineage(query)?)
    }

    fn task_of_line(&self, line: u64) -> Result<Option<Task>, HomeError> {
        match self.view.first(|store| store.tree_of_line(line))? {
            Some((tenant, root)) => Ok(self.view.index_of(&tenant, &root)?.task_of_line(line)?),
            None => Ok(None),
        }
    }

    fn history(&self, query: &history::Query) -> Result<History, StoreError> {
        let mut known = History::default();
        for store in self.view.stores() {
            known = known.with(store.history(query, self.now)?);
        }
        Ok(known)
    }

    fn booked_in(&self, bridge: &Principal, exec_id: &ExecId) -> Result<Option<u64>, StoreError> {
        self.view.first(|store| store.booked_in(bridge, exec_id))
    }

    fn used_id(&self, source: &Principal, id: &ControlId) -> Result<Option<UsedId>, StoreError> {
        let newest_first = self.view.stores().into_iter().rev();
        newest_first
            .map(|store| store.used_id(source, id))
            .find_map(Result::transpose)
            .transpose()
    }

    fn proposal(&self, id: ProposalId) -> Result<Option<ProposalRow>, StoreError> {
        proposals::proposal(&self.view.stores(), id)
    }

    fn docket(&self, id: &RequestId) -> Result<Option<Docket>, StoreError> {
        self.view.docket(id)
    }

    fn dockets(&self) -> Result<Vec<Docket>, StoreError> {
        let mut found = self.view.dockets(usize::MAX, true)?;
        let newer = found.len().saturating_sub(CASES_MAX);
        found.drain(..newer);
        found.extend(self.view.dockets(CASES_MAX, false)?);
        found.sort_by_key(|docket| Reverse(docket.request));
        found.dedup_by_key(|docket| docket.request);
        Ok(found)
    }
}

/// Decides one request over the home at `root`, under `rules` if there are any.
///
/// # Errors
/// Returns [`HomeError`] if the home cannot be read or a stored answer is lost.
pub fn dry_run(
    root: &Path,
    seams: &Seams,
    rules: Option<Rulebook>,
    asked: &Asked<'_>,
) -> Result<Tried, HomeError> {
    let mut trial = Trial::of(root, seams)?;
    if let Some(rules) = rules {
        trial.under(rules);
    }
    trial.decide(asked)
}
