//! What was known before a decision: the state and everything that deciding looks up, folded from
//! the lines before it.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::io::ErrorKind;
use std::sync::Arc;

use crate::history::Line;
use spoolgate_admission::lineage::Reported;
use spoolgate_council::case::Docket;
use spoolgate_gate::again;
use spoolgate_gate::approvals::Granted;
use spoolgate_gate::council::Said;
use spoolgate_gate::decide::{Lookups, decide_granted};
use spoolgate_gate::elsewhere::NoLineage;
use spoolgate_gate::proposals::Change as Step;
use spoolgate_gate::record::{AdmissionInput, AskedFor, Decision, Response};
use spoolgate_gate::sealing::NO_DIGEST;
use spoolgate_gate::state::RulebookState;
use spoolgate_gate::{Decided, Prepared, Record, Seen, State, decide};
use spoolgate_home::batch::BLOBS_DIR;
use spoolgate_home::cases;
use spoolgate_home::error::HomeError;
use spoolgate_home::index::fold::{Outstanding, fold};
use spoolgate_home::index::{Store, StoreError, fold_known};
use spoolgate_home::lookup::{self, Lookup, step_in};
use spoolgate_home::rulebook;
use spoolgate_home::sealed::{self, Revealed};
use spoolgate_ledger::disk::Disk;
use spoolgate_ledger::line;
use spoolgate_ledger::log::{self, Location};
use spoolgate_rules::Rulebook;
use spoolgate_wire::envelope::Envelope;
use spoolgate_wire::ids::{Principal, ProposalId, RequestId};
use spoolgate_wire::time::Time;

/// How many compiled rulebooks are kept.
const RULEBOOKS_MAX: usize = 16;

/// The name that inputs use for the file of a decision's request.
fn file_of(decision: &Decision) -> &str {
    decision.file_sha256.as_deref().unwrap_or(NO_DIGEST)
}

/// What was known before a decision.
pub struct Past {
    /// The state.
    pub state: State,
    store: Store,
    disk: Arc<dyn Disk>,
    /// Decision lines whose answers were not known to be durable; `None` if used-up ids are not
    /// needed.
    outstanding: Option<Outstanding>,
    /// Market lines of the next decision, which was made before they were folded.
    held: VecDeque<(u64, Arc<Record>)>,
    rulebooks: BTreeMap<String, Option<Arc<Rulebook>>>,
    /// Results of lineage commands, by sender, request id and digest of the file.
    reported: BTreeMap<(Principal, RequestId, String), Result<Reported, NoLineage>>,
    /// Blobs and rulebooks that were looked up and are missing.
    lost: RefCell<Vec<String>>,
    /// Whether a payload was looked up that has a sealed member which is no longer disclosed.
    concealed: Cell<bool>,
}

impl Past {
    /// Creates an empty past. `has_ids` is whether resent requests are to be recognised.
    pub(super) fn new(disk: Arc<dyn Disk>, has_ids: bool) -> Result<Past, HomeError> {
        let store = Store::temporary()?;
        store.begin()?;
        Ok(Past {
            state: State::default(),
            store,
            disk,
            outstanding: has_ids.then(Outstanding::new),
            held: VecDeque::new(),
            rulebooks: BTreeMap::new(),
            reported: BTreeMap::new(),
            lost: RefCell::new(Vec::new()),
            concealed: Cell::new(false),
        })
    }

    /// Keeps a market line until its decision comes.
    pub(super) fn hold(&mut self, seq: u64, record: Arc<Record>) {
        self.held.push_back((seq, record));
    }

    /// Notes the end of a batch.
    pub(super) fn seal(&mut self) -> Result<(), HomeError> {
        self.fold_held()
    }

    fn fold_held(&mut self) -> Result<(), HomeError> {
        while self.fold_next_held()?.is_some() {}
        Ok(())
    }

    /// Folds the oldest market line that was held back, and returns it; `None` if there is none.
    pub(super) fn fold_next_held(&mut self) -> Result<Option<(u64, Arc<Record>)>, HomeError> {
        let Some((seq, record)) = self.held.pop_front() else {
            return Ok(None);
        };
        fold_known(&mut self.state, &self.store, seq, &record)?;
        Ok(Some((seq, record)))
    }

    /// Folds a line, after the market lines that were held back for it.
    pub(super) fn fold(
        &mut self,
        seq: u64,
        location: Location,
        record: &Record,
    ) -> Result<(), HomeError> {
        self.fold_held()?;
        match &mut self.outstanding {
            Some(outstanding) => fold(&mut self.state, &self.store, outstanding, seq, record)?,
            None => fold_known(&mut self.state, &self.store, seq, record)?,
        }
        if record.is_indexed() {
            self.store.insert_line(seq, location, record)?;
        }
        match record {
            Record::AdmissionInput(input) => self.hear(input)?,
            Record::Decision(decision) => self.forget_heard(decision),
            _ => {}
        }
        Ok(())
    }

    /// Returns the last line whose answer was not known to be durable.
    pub(super) fn last_outstanding(&self) -> Option<u64> {
        self.outstanding
            .as_ref()?
            .last_key_value()
            .map(|(seq, _)| *seq)
    }

    /// Returns what was looked up since the last call and is missing.
    pub(super) fn take_lost(&self) -> Vec<String> {
        self.lost.take()
    }

    /// Returns whether something that is no longer disclosed was read since the last call.
    pub(super) fn take_concealed(&self) -> bool {
        self.concealed.take()
    }

    fn note_lost(&self, what: String) {
        self.lost.borrow_mut().push(what);
    }

    fn hear(&mut self, input: &AdmissionInput) -> Result<(), HomeError> {
        let AskedFor::Lineage {
            source,
            request_id,
            file_sha256,
            ..
        } = &input.about
        else {
            return Ok(());
        };
        let text = self.text(input.payload.as_deref(), input.payload_blob.as_deref())?;
        let reported = match text.map(|text| serde_json::from_str(&text)) {
            Some(Ok(reported)) => Ok(reported),
            _ => Err(NoLineage(input.note.clone())),
        };
        self.reported.insert(
            (source.clone(), request_id.clone(), file_sha256.clone()),
            reported,
        );
        Ok(())
    }

    /// An answer that was obtained for a request serves only that request.
    fn forget_heard(&mut self, decision: &Decision) {
        if self.reported.is_empty() {
            return;
        }
        self.reported.retain(|(_, request_id, file), _| {
            Some(request_id.as_str()) != decision.request_id.as_deref() || file != file_of(decision)
        });
    }

    /// Returns the number of the first line that this decision wrote.
    pub(super) fn first_line(&self, seq: u64) -> u64 {
        self.held.front().map_or(seq, |(first, _)| *first)
    }

    /// Returns the rulebook that was kept under this hash; `None` if it was lost.
    ///
    /// # Errors
    /// Returns the disk's error: a rulebook that cannot be read is not lost.
    pub fn rulebook(&mut self, hash: &str) -> Result<Option<Arc<Rulebook>>, HomeError> {
        if let Some(known) = self.rulebooks.get(hash) {
            return Ok(known.clone());
        }
        if self.rulebooks.len() >= RULEBOOKS_MAX {
            self.rulebooks.clear();
        }
        let book = match rulebook::kept(self.disk.as_ref(), hash) {
            Ok(book) => Some(Arc::new(book)),
            Err(HomeError::Disk { path, source }) if source.kind() != ErrorKind::NotFound => {
                return Err(HomeError::Disk { path, source });
            }
            Err(_) => None,
        };
        if book.is_none() {
            self.note_lost(format!("audit/rulebooks/{hash}.json"));
        }
        self.rulebooks.insert(hash.to_owned(), book.clone());
        Ok(book)
    }

    /// Returns the blob of this digest; `None` if it was lost.
    ///
    /// # Errors
    /// Returns the disk's error.
    pub fn blob(&self, digest: &str) -> Result<Option<Vec<u8>>, HomeError> {
        let blob = spoolgate_home::batch::blob(self.disk.as_ref(), digest)?;
        if blob.is_none() {
            self.note_lost(format!("{BLOBS_DIR}/{digest}"));
        }
        Ok(blob)
    }

    /// Returns a text of a line, from its member or its blob; `None` if the blob is lost.
    pub(super) fn text(
        &self,
        member: Option<&str>,
        digest: Option<&str>,
    ) -> Result<Option<String>, HomeError> {
        match (member, digest) {
            (Some(text), _) => Ok(Some(text.to_owned())),
            (None, Some(digest)) => Ok(self
                .blob(digest)?
                .and_then(|bytes| String::from_utf8(bytes).ok())),
            (None, None) => Ok(None),
        }
    }

    fn payload(&self, record: &Record) -> Result<Option<String>, HomeError> {
        match record {
            Record::Decision(line) if !line.sealed.is_empty() => {
                let payload = sealed::payload(self.disk.as_ref(), line)?;
                self.concealed
                    .set(self.concealed.get() || payload.is_none());
                Ok(payload)
            }
            Record::Decision(line) => {
                self.text(line.payload.as_deref(), line.payload_blob.as_deref())
            }
            Record::Input(line) => self.text(line.payload.as_deref(), line.payload_blob.as_deref()),
            _ => Ok(None),
        }
    }

    /// Returns the payload of a line with sealed members, and the line with its original hashes;
    /// `None` if they are no longer disclosed.
    pub(super) fn disclosed(
        &self,
        line: &Decision,
    ) -> Result<Option<(String, Decision)>, HomeError> {
        sealed::disclosed(self.disk.as_ref(), line)
    }

    /// Returns a response line with its sealed members put back.
    pub(super) fn revealed(&self, line: &Response) -> Result<Revealed, HomeError> {
        sealed::response(self.disk.as_ref(), line)
    }

    /// Returns the bytes that a hold names, whether or not they are sealed.
    pub(super) fn held_bytes(&self, name: &str) -> Result<Option<Vec<u8>>, HomeError> {
        let bytes = sealed::held_bytes(self.disk.as_ref(), name)?;
        if bytes.is_none() {
            self.note_lost(format!("{BLOBS_DIR}/{name}"));
        }
        Ok(bytes)
    }

    /// Returns what is known of a council case.
    pub(super) fn docket(&self, id: &RequestId) -> Result<Option<Docket>, HomeError> {
        Ok(self.store.docket(id)?)
    }

    /// Returns the case that is decided next, if one is due at `now`.
    pub(super) fn due_case(&self, now: Time) -> Result<Option<RequestId>, HomeError> {
        Ok(self.store.due_cases(now, 1)?.pop())
    }

    /// Returns the statements made in a case so far.
    pub(super) fn said(&self, docket: &Docket) -> Result<Said, HomeError> {
        cases::said(docket, |seq| self.payload_of(seq))
    }

    fn payload_of(&self, seq: u64) -> Result<Option<String>, HomeError> {
        match self.record(seq)? {
            Some(record) => self.payload(&record),
            None => Ok(None),
        }
    }

    /// Decides the request of `line` again from what was known then, under `rules`.
    pub fn decide_again(
        &self,
        rules: &Rulebook,
        line: &Line,
        request: &Prepared,
    ) -> Result<Decided, HomeError> {
        let lookups = self.look_up(rules, &line.decision, request)?;
        let (now, seq) = (line.decision.timestamp, self.first_line(line.seq));
        let granted = again::granted(&line.decision);
        let granted = granted.and_then(|(hold, by, remember)| {
            Some(Granted {
                hold: self.state.approvals.get(hold)?,
                by,
                remember,
            })
        });
        Ok(match granted {
            Some(granted) => {
                decide_granted(&self.state, rules, request, &lookups, granted, now, seq)
            }
            None => decide(&self.state, rules, request, &lookups, now, seq),
        })
    }

    /// As [`Past::decide_again`], but as if these rules had been in force and valid, whatever the
    /// rule files were then.
    pub fn decide_under(
        &mut self,
        rules: &Rulebook,
        line: &Line,
        request: &Prepared,
    ) -> Result<Decided, HomeError> {
        let these = RulebookState {
            hash: rules.hash.clone(),
            ..RulebookState::default()
        };
        let then = std::mem::replace(&mut self.state.rulebook, these);
        let decided = self.decide_again(rules, line, request);
        self.state.rulebook = then;
        decided
    }

    /// Returns what deciding the request of a decision line looked up. What no line records is
    /// taken from the decision itself.
    pub(super) fn look_up(
        &self,
        rules: &Rulebook,
        decision: &Decision,
        request: &Prepared,
    ) -> Result<Lookups, HomeError> {
        let Ok(authentic) = &request.request else {
            return Ok(Lookups::default());
        };
        let mut lookups = again::recorded(decision);
        if !decision.sealed.is_empty() {
            lookups.sealing = sealed::sealing(self.disk.as_ref(), decision, request)?;
        }
        let Envelope { source, id, .. } = &authentic.envelope;
        lookups.reported = self
            .reported
            .get(&(source.clone(), id.clone(), file_of(decision).to_owned()))
            .cloned();
        lookup::fill(
            &mut lookups,
            request,
            &Then {
                past: self,
                rules,
                decision,
                request,
            },
        )?;
        Ok(lookups)
    }

    /// Returns the last step of a proposal.
    pub(super) fn last_step(&self, id: ProposalId) -> Result<Option<Step>, HomeError> {
        match self.store.proposal(id)? {
            Some(row) => step_in(&row, |line| Ok(self.record(line)?.map(Cow::Owned))),
            None => Ok(None),
        }
    }

    /// Returns the result of the outgoing action that a line began; `None` if it is open or the
    /// line began none.
    pub(super) fn response_to(&self, line: u64) -> Result<Option<Response>, HomeError> {
        let response = self
            .store
            .response_to(line)?
            .map(|seq| self.record(seq))
            .transpose()?
            .flatten();
        Ok(match response {
            Some(Record::Response(response)) => Some(*response),
            _ => None,
        })
    }

    /// Returns a line that was read earlier.
    pub(super) fn record(&self, seq: u64) -> Result<Option<Record>, HomeError> {
        let Some(location) = self.store.line(seq)? else {
            return Ok(None);
        };
        let bytes = log::read_line(self.disk.as_ref(), location)?;
        let fail = |error: String| HomeError::Record(format!("line {seq}: {error}"));
        let line = line::parse(&bytes).map_err(|error| fail(error.to_string()))?;
        Record::parse(line.kind, &line.body()).map_err(|error| fail(error.to_string()))
    }
}

/// What was known before one decision.
struct Then<'a> {
    past: &'a Past,
    rules: &'a Rulebook,
    decision: &'a Decision,
    request: &'a Prepared,
}

impl Lookup for Then<'_> {
    fn rules(&self) -> &Rulebook {
        self.rules
    }

    fn disk(&self) -> &dyn Disk {
        self.past.disk.as_ref()
    }

    fn store(&self) -> &Store {
        &self.past.store
    }

    fn now(&self) -> Time {
        self.decision.timestamp
    }

    fn record(&self, seq: u64) -> Result<Option<Cow<'_, Record>>, HomeError> {
        Ok(self.past.record(seq)?.map(Cow::Owned))
    }

    fn payload(&self, seq: u64) -> Result<Option<String>, HomeError> {
        self.past.payload_of(seq)
    }

    fn blob(&self, digest: &str) -> Result<Option<Vec<u8>>, HomeError> {
        self.past.blob(digest)
    }

    // A held request that is decided again has used up its id itself.
    fn seen(&self, source: &str, id: &str) -> Result<Option<Seen>, StoreError> {
        if self.has_ids() {
            self.past.store.seen(source, id)
        } else {
            Ok(self.repaired(source))
        }
    }

    fn seen_in_spool(&self, spool: &str, id: &str) -> Result<Option<Seen>, StoreError> {
        if self.has_ids() {
            self.past.store.seen_in_spool(spool, id)
        } else {
            Ok(None)
        }
    }

    fn signed_case(&self, docket: &Docket) -> Result<Option<String>, HomeError> {
        let signed = sealed::signed_hash(self.disk(), self.record(docket.request)?.as_deref())?;
        Ok(signed.or_else(|| again::named_case(self.decision, self.request)))
    }
}

impl Then<'_> {
    fn has_ids(&self) -> bool {
        self.past.outstanding.is_some() && self.decision.hold.is_none()
    }

    /// The refused request that this one repairs, as far as its line tells.
    fn repaired(&self, source: &str) -> Option<Seen> {
        let attempt = self.decision.attempt.checked_sub(1)?;
        Some(Seen {
            source: source.to_owned(),
            request_hash: String::new(),
            seq: 0,
            attempt,
            is_open: true,
        })
    }
}
