//! What would become of a request now: decided by the same function over the state up to the last sealed batch, without
//! the lock, also beside a running gate. Nothing is written: no line, no answer, no file, and no id is used up.

use std::path::Path;

use serde_json::value::RawValue;

use super::batch::blob;
use super::decided::earlier;
use super::open::{HomeError, Seams};
use super::read::{self, View};
use super::sealed::recognise;
use crate::admission::lineage::{Lineage, Query};
use crate::gate::decide::{FILLS_MAX, needs};
use crate::gate::prepare::{Authentic, Keyring as _, Origin, Unverified};
use crate::gate::record::{Decision, Event, Record, Status};
use crate::gate::sealing::is_sealed;
use crate::gate::{Change, Delivery, Lookups, Prepared, council, decide, prepare};
use crate::host::keyring::{CachedKeyring, SqliteKeyring};
use crate::ledger::log::Position;
use crate::rules::Rulebook;
use crate::rules::load::HALT_FILE;
use crate::state::fold::{Outstanding, fold};
use crate::trading::venue::paper;
use crate::wire::answer::{Answer, AnswerStatus};
use crate::wire::envelope::Envelope;
use crate::wire::time::Time;

/// Name that the request is shown under.
const FILE: &str = "dry-run.json";

/// What is to be tried.
#[derive(Clone, Debug)]
pub enum Asked<'a> {
    /// A signed request, as a file's bytes. An id that was used is answered as it was then.
    Signed(&'a [u8]),
    /// A request that nobody signed; its signature is not looked at.
    Unsigned(Envelope),
}

/// What would become of it.
#[derive(Clone, Debug)]
pub struct Tried {
    /// The line that would be written, under the number that is next.
    pub decision: Decision,
    /// The answer that would be given.
    pub answer: Answer,
    /// What stands in the way of saying more, for people.
    pub remarks: Vec<String>,
}

/// Stands for the answer of a request that would begin something outside: what came of it nobody can say.
fn begun(decision: &Decision) -> Answer {
    Answer {
        request_id: decision.request_id.clone().unwrap_or_default(),
        timestamp: decision.timestamp,
        status: AnswerStatus::Success,
        data: RawValue::from_string(r#"{"would_be":"pending"}"#.to_owned()).ok(),
        error: None,
        audit_ref: decision.id.clone(),
    }
}

/// A home as its next batch would find it.
pub struct Trial {
    /// The home there.
    pub view: View,
    /// The instant of the trial.
    pub now: Time,
    keyring: CachedKeyring,
    remarks: Vec<String>,
}

impl Trial {
    /// Reads a home and does what the next batch would begin with.
    ///
    /// # Errors
    /// [`HomeError`].
    pub fn of(root: &Path, seams: &Seams) -> Result<Trial, HomeError> {
        let view = read::read(root, seams)?;
        let machine = seams.clock.now();
        let last = view.state.clock.last;
        let now =
            if view.state.clock.accepted { machine } else { last.map_or(machine, |last| last.max(machine)) };
        let keyring = CachedKeyring::new(SqliteKeyring::open(root, false)?);
        let mut trial = Trial { view, now, keyring, remarks: Vec::new() };
        trial.begin(seams, machine)?;
        Ok(trial)
    }

    fn begin(&mut self, seams: &Seams, machine: Time) -> Result<(), HomeError> {
        let View { state, rulebook, newest, position, .. } = &mut self.view;
        let gap_max_ms = i64::from(rulebook.safety.clock_gap_max_s).saturating_mul(1000);
        if let Some(last) = state.clock.last.filter(|_| !state.clock.accepted && state.clock.fault.is_none())
            && (machine.since_ms(last) > gap_max_ms || machine.since_ms(last) < -2000)
        {
            self.remarks.push(format!(
                "the last line is of {last}, the machine's clock says {machine}: a gate that starts now lets nobody enter until a person accepts the clock"
            ));
        }
        let is_halted = !matches!(seams.disk.stat(&Path::new("rules").join(HALT_FILE)), Ok(None));
        let mut changes = Vec::new();
        if is_halted != state.halts.file {
            changes.push(Change::HaltFile { present: is_halted });
        }
        changes.extend(paper::end_day(&state.book, self.now).into_iter().map(Change::Book));
        changes.extend(paper::open_periods(&state.book, rulebook, self.now).into_iter().map(Change::Book));
        let event = Event { timestamp: self.now, note: String::new(), changes };
        fold(state, newest, &mut Outstanding::new(), position.seq, &Record::Tick(event))?;
        Ok(())
    }

    /// Takes other rules for those in force. What is wrong with the files of the home is no hindrance then.
    pub fn under(&mut self, rules: Rulebook) {
        self.view.state.rulebook.fault = None;
        self.view.rulebook = rules;
    }

    /// The request as the gate would read it.
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
            Asked::Unsigned(envelope) => {
                let key_id = state.active_keys(&envelope.source, self.now).next().map(str::to_owned);
                let authentic = Authentic::unsigned(envelope.clone());
                let request = match key_id {
                    Some(key_id) => Ok(Authentic { key_id, ..authentic }),
                    None => {
                        let what =
                            format!("`{}` has no current key, so that it cannot sign", envelope.source);
                        let refusal = crate::gate::prepare::Refusal::new(
                            crate::wire::code::Code::SignatureInvalid,
                            what,
                        );
                        Err(Box::new(Unverified { envelope: Some(envelope.clone()), refusal }))
                    }
                };
                let (file_sha256, file_bytes) = (None, None);
                Prepared { origin: Origin::Local, file: FILE.to_owned(), file_sha256, file_bytes, request }
            }
        };
        self.keyring.check()?;
        Ok(prepared)
    }

    /// Decides it.
    ///
    /// # Errors
    /// [`HomeError`].
    pub fn decide(&self, asked: &Asked<'_>) -> Result<Tried, HomeError> {
        let prepared = self.prepare(asked)?;
        let mut remarks = self.remarks.clone();
        let lookups = self.look_up(&prepared)?;
        let View { state, rulebook, position, disk, .. } = &self.view;
        let mut decided = decide(state, rulebook, &prepared, &lookups, self.now, position.seq);
        let lost = |what: String| HomeError::AnswerLost(what);
        let answer = match decided.decision.metadata.replay_of {
            Some(seq) => {
                remarks.push(format!("decided already: line {seq}; this is its answer"));
                match self.view.record(seq)? {
                    Some(Record::Decision(decision)) => {
                        let digest = decision.data_blob.as_deref();
                        let kept = digest.map(|digest| blob(disk.as_ref(), digest)).transpose()?.flatten();
                        decision.answer(kept.as_deref()).map_err(lost)?
                    }
                    _ => return Err(lost(format!("line {seq} is no decision"))),
                }
            }
            None if decided.decision.status == Status::Pending => {
                remarks.push(
                    "an adapter would be asked to do it, and its answer would be the answer".to_owned(),
                );
                begun(&decided.decision)
            }
            None => {
                let digest = decided.decision.data_blob.clone();
                let at = decided.blobs.iter().position(|(of, _)| Some(of) == digest.as_ref());
                let bytes = at.map(|at| decided.blobs.swap_remove(at).1);
                decided.decision.answer(bytes.as_deref()).map_err(lost)?
            }
        };
        Ok(Tried { decision: decided.decision, answer, remarks })
    }

    /// What the decision wants to know besides the state.
    ///
    /// # Errors
    /// [`HomeError`].
    pub fn look_up(&self, request: &Prepared) -> Result<Lookups, HomeError> {
        let mut lookups = Lookups::default();
        let Ok(authentic) = &request.request else { return Ok(lookups) };
        let view = &self.view;
        let id = authentic.envelope.id.as_str();
        for store in view.stores() {
            let seen = store.seen(authentic.envelope.source.as_str(), id)?;
            lookups.seen = lookups.seen.or(seen);
        }
        if let Some(seen) = lookups.seen.as_mut().filter(|_| is_sealed(&authentic.envelope.action)) {
            let earlier = view.record(seen.seq)?;
            recognise(view.disk.as_ref(), seen, &authentic.request_hash, earlier.as_ref())?;
        }
        let needs = needs(request, &view.rulebook);
        if let Some(order_id) = needs.closed_order {
            lookups.closed_order = view.closed_order(order_id)?;
        }
        if let Some(since) = needs.fills_since {
            lookups.fills = view.fills_since(since)?;
            lookups.fills.truncate(FILLS_MAX.saturating_add(1));
        }
        if let Some(digest) = &needs.rows {
            lookups.rows = blob(view.disk.as_ref(), digest)?;
        }
        if let Some(key_id) = &needs.key {
            lookups.key_is_held = self.keyring.verify_key(key_id).is_some();
            self.keyring.check()?;
        }
        if let Some((service, id)) = &needs.credential {
            lookups.key_is_held = self.keyring.inner().credential(service, id)?.is_some();
        }
        if let Some(query) = &needs.lineage {
            lookups.lineage = self.lineage(query)?;
        }
        for store in view.stores() {
            if let Some(query) = &needs.history {
                let known = lookups.history.take().unwrap_or_default();
                lookups.history = Some(known.with(store.history(query, self.now)?));
            }
            if let Some((bridge, exec_id)) = &needs.report {
                lookups.booked_in = lookups.booked_in.or(store.booked_in(bridge, exec_id)?);
            }
            if let Some((source, id)) = &needs.control
                && let Some(used) = store.used_id(source, id)?
            {
                let record = view.record(used.seq)?;
                lookups.decided = Some(earlier(view.disk.as_ref(), used, record.as_ref())?);
            }
        }
        if let Some((id, role)) = needs.case {
            lookups.docket = view.docket(&id)?;
            if let (Some(docket), Some(role)) = (&lookups.docket, role) {
                let others =
                    council::waits_for(&view.rulebook, docket).into_iter().any(|other| other != role);
                if docket.closed.is_none() && !others {
                    lookups.said = Some(view.said(docket)?);
                }
            }
        }
        Ok(lookups)
    }

    /// Where a task stands. The index on disk knows it, but for what a gate that died has not put into it.
    fn lineage(&self, query: &Query) -> Result<Lineage, HomeError> {
        let View { on_disk, newest, position, .. } = &self.view;
        let Some(on_disk) = on_disk else { return Ok(newest.lineage(query)?) };
        let tip = on_disk.tip()?.and_then(|stored| Position::from_stored(&stored));
        let is_whole = tip.is_some_and(|tip| tip.seq >= position.seq);
        let (old, new) = (on_disk.lineage(query)?, newest.lineage(query)?);
        if is_whole || new == Lineage::default() {
            return Ok(old);
        }
        if old != Lineage::default() {
            let what =
                "the index is behind the ledger on this task's tree; `spoolgate run --until-idle` mends it";
            return Err(HomeError::Unsettled(what.to_owned()));
        }
        Ok(new)
    }
}

/// Decides one request over the home at `root`, under other rules if there are any.
///
/// # Errors
/// [`HomeError`].
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
