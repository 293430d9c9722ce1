//! What was known before a decision: the state, and everything that deciding looks up, folded from the lines before it.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::batch::BLOBS_DIR;
use super::cases::{self, CASES_PER_BATCH};
use super::decided::earlier;
use super::history::Line;
use super::open::HomeError;
use super::rulebook;
use super::sealed;
use crate::admission::lineage::Reported;
use crate::council::case::Docket;
use crate::gate::again;
use crate::gate::approvals::Granted;
use crate::gate::council::Said;
use crate::gate::decide::{FILLS_MAX, Lookups, Needs, decide_granted, needs};
use crate::gate::prepare::Origin;
use crate::gate::proposals::Change as Step;
use crate::gate::record::{AdmissionInput, AskedFor, Decision, Response};
use crate::gate::sealing::NO_DIGEST;
use crate::gate::state::RulebookState;
use crate::gate::{Change, Decided, Prepared, Record, State, council, decide};
use crate::host::disk::Disk;
use crate::ledger::line;
use crate::ledger::log::{self, Location};
use crate::rules::Rulebook;
use crate::state::fold::{Outstanding, fold};
use crate::state::proposals::Standing;
use crate::state::{Store, fold_known};
use crate::wire::ids::{Principal, ProposalId, RequestId};
use crate::wire::time::Time;

/// Rulebooks kept compiled.
const RULEBOOKS_MAX: usize = 16;

/// What inputs about a decision's request name its file by.
fn file_of(decision: &Decision) -> &str {
    decision.file_sha256.as_deref().unwrap_or(NO_DIGEST)
}

/// What was known before a decision.
pub struct Past {
    /// The state.
    pub state: State,
    store: Store,
    disk: Arc<dyn Disk>,
    /// Decision lines whose answers were not known to be durable; none where nobody asks for ids that were used up.
    outstanding: Option<Outstanding>,
    /// Market lines of the decision that follows: it was made before they were folded.
    held: VecDeque<(u64, Arc<Record>)>,
    rulebooks: BTreeMap<String, Option<Arc<Rulebook>>>,
    /// What lineage commands said, by who asked, id, and digest of the file.
    reported: BTreeMap<(Principal, RequestId, String), Result<Reported, String>>,
    /// Cases decided in this batch, and at the time of the last of them.
    cases_in_batch: usize,
    cases_at: (Time, usize),
    /// Blobs and rulebooks that were looked for and are not there.
    lost: RefCell<Vec<String>>,
    /// Whether a payload was looked for of which a sealed member is not disclosed any more.
    concealed: Cell<bool>,
}

impl Past {
    /// Nothing yet. `has_ids` is whether requests that were sent twice are to be known as such.
    ///
    /// # Errors
    /// [`HomeError`].
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
            cases_in_batch: 0,
            cases_at: (Time::EPOCH, 0),
            lost: RefCell::new(Vec::new()),
            concealed: Cell::new(false),
        })
    }

    /// Keeps a market line until its decision comes.
    pub(super) fn hold(&mut self, seq: u64, record: Arc<Record>) {
        self.held.push_back((seq, record));
    }

    /// Notes that a batch ends.
    pub(super) fn seal(&mut self) -> Result<(), HomeError> {
        self.cases_in_batch = 0;
        self.fold_held()
    }

    fn fold_held(&mut self) -> Result<(), HomeError> {
        while self.fold_next_held()?.is_some() {}
        Ok(())
    }

    /// Folds the oldest market line that was held back, and gives it; none: there is none.
    pub(super) fn fold_next_held(&mut self) -> Result<Option<(u64, Arc<Record>)>, HomeError> {
        let Some((seq, record)) = self.held.pop_front() else { return Ok(None) };
        fold_known(&mut self.state, &self.store, seq, &record)?;
        Ok(Some((seq, record)))
    }

    /// Folds a line, behind the market lines that were held back for it.
    pub(super) fn fold(&mut self, seq: u64, location: Location, record: &Record) -> Result<(), HomeError> {
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
            Record::Council(line) => {
                self.cases_in_batch = self.cases_in_batch.saturating_add(1);
                let (at, count) = self.cases_at;
                let before = if at == line.timestamp { count } else { 0 };
                self.cases_at = (line.timestamp, before.saturating_add(1));
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether the gate had decided as many cases as one batch may: what the lines say of it, where they do; else as
    /// was recorded. Batches of one instant may have been of one turn of the gate, or of several.
    pub(super) fn no_more_cases(&self, at: Time, recorded: bool) -> bool {
        // Who does not ask for ids is not told where batches end.
        if self.outstanding.is_none() {
            return recorded;
        }
        let at_once = if self.cases_at.0 == at { self.cases_at.1 } else { 0 };
        self.cases_in_batch >= CASES_PER_BATCH || (recorded && at_once >= CASES_PER_BATCH)
    }

    /// The last line whose answer was not known to be durable.
    pub(super) fn last_outstanding(&self) -> Option<u64> {
        self.outstanding.as_ref()?.last_key_value().map(|(seq, _)| *seq)
    }

    /// What was looked for since this was last asked, and is not there.
    pub(super) fn take_lost(&self) -> Vec<String> {
        self.lost.take()
    }

    /// Whether since this was last asked something was read that is not disclosed any more.
    pub(super) fn take_concealed(&self) -> bool {
        self.concealed.take()
    }

    fn note_lost(&self, what: String) {
        self.lost.borrow_mut().push(what);
    }

    fn hear(&mut self, input: &AdmissionInput) -> Result<(), HomeError> {
        let AskedFor::Lineage { source, request_id, file_sha256, .. } = &input.about else { return Ok(()) };
        let text = self.text(input.payload.as_deref(), input.payload_blob.as_deref())?;
        let reported = match text.map(|text| serde_json::from_str(&text)) {
            Some(Ok(reported)) => Ok(reported),
            _ => Err(input.note.clone()),
        };
        self.reported.insert((source.clone(), request_id.clone(), file_sha256.clone()), reported);
        Ok(())
    }

    /// What was asked for a request serves that request.
    fn forget_heard(&mut self, decision: &Decision) {
        if self.reported.is_empty() {
            return;
        }
        self.reported.retain(|(_, request_id, file), _| {
            Some(request_id.as_str()) != decision.request_id.as_deref() || file != file_of(decision)
        });
    }

    /// The number of the first line that the decision of this line wrote.
    pub(super) fn first_line(&self, seq: u64) -> u64 {
        self.held.front().map_or(seq, |(first, _)| *first)
    }

    /// The rulebook that was kept under this hash; none: it was lost.
    pub fn rulebook(&mut self, hash: &str) -> Option<Arc<Rulebook>> {
        if let Some(known) = self.rulebooks.get(hash) {
            return known.clone();
        }
        if self.rulebooks.len() >= RULEBOOKS_MAX {
            self.rulebooks.clear();
        }
        let book = rulebook::kept(self.disk.as_ref(), hash).ok().map(Arc::new);
        if book.is_none() {
            self.note_lost(format!("audit/rulebooks/{hash}.json"));
        }
        self.rulebooks.insert(hash.to_owned(), book.clone());
        book
    }

    /// Rows that are stored under this digest; none: they are lost.
    ///
    /// # Errors
    /// What the disk says.
    pub fn blob(&self, digest: &str) -> Result<Option<Vec<u8>>, HomeError> {
        let blob = super::batch::blob(self.disk.as_ref(), digest)?;
        if blob.is_none() {
            self.note_lost(format!("{BLOBS_DIR}/{digest}"));
        }
        Ok(blob)
    }

    /// A text of a line, from its member or its blob; none if the blob is lost.
    pub(super) fn text(
        &self,
        member: Option<&str>,
        digest: Option<&str>,
    ) -> Result<Option<String>, HomeError> {
        match (member, digest) {
            (Some(text), _) => Ok(Some(text.to_owned())),
            (None, Some(digest)) => Ok(self.blob(digest)?.and_then(|bytes| String::from_utf8(bytes).ok())),
            (None, None) => Ok(None),
        }
    }

    fn payload(&self, record: &Record) -> Result<Option<String>, HomeError> {
        match record {
            Record::Decision(line) if !line.sealed.is_empty() => {
                let payload = sealed::payload(self.disk.as_ref(), line)?;
                self.concealed.set(self.concealed.get() || payload.is_none());
                Ok(payload)
            }
            Record::Decision(line) => self.text(line.payload.as_deref(), line.payload_blob.as_deref()),
            Record::Input(line) => self.text(line.payload.as_deref(), line.payload_blob.as_deref()),
            _ => Ok(None),
        }
    }

    /// The payload of a line with sealed members, and the line with the hashes that it was made with; none: they are not
    /// disclosed any more.
    pub(super) fn disclosed(&self, line: &Decision) -> Result<Option<(String, Decision)>, HomeError> {
        sealed::disclosed(self.disk.as_ref(), line)
    }

    /// What is known of a council case.
    pub(super) fn docket(&self, id: &RequestId) -> Result<Option<Docket>, HomeError> {
        Ok(self.store.docket(id)?)
    }

    /// The case that is decided next, if one is due at `now`.
    pub(super) fn due_case(&self, now: Time) -> Result<Option<RequestId>, HomeError> {
        Ok(self.store.due_cases(now, 1)?.pop())
    }

    /// What was said in a case so far.
    pub(super) fn said(&self, docket: &Docket) -> Result<Said, HomeError> {
        cases::said(docket, |seq| match self.record(seq)? {
            Some(record) => self.payload(&record),
            None => Ok(None),
        })
    }

    /// The last step of a proposal.
    pub(super) fn last_step(&self, id: ProposalId) -> Result<Option<Step>, HomeError> {
        let Some(row) = self.store.proposal(id)? else { return Ok(None) };
        let line = if row.standing == Standing::Reverted { row.record } else { Some(row.seq) };
        let record = line.map(|line| self.record(line)).transpose()?.flatten();
        let steps = record.iter().flat_map(|record| record.changes());
        let mut own = steps.filter_map(|change| match change {
            Change::Proposal(step) if step.proposal_id() == id => Some(step.clone()),
            _ => None,
        });
        Ok(own.next())
    }

    /// Decides the request of `line` again on what was known then, under `rules`.
    ///
    /// # Errors
    /// [`HomeError`].
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
            Some(Granted { hold: self.state.approvals.get(hold)?, by, remember })
        });
        Ok(match granted {
            Some(granted) => decide_granted(&self.state, rules, request, &lookups, granted, now, seq),
            None => decide(&self.state, rules, request, &lookups, now, seq),
        })
    }

    /// The same as if these rules were in force, and could be used, whatever the rule files were at the time.
    ///
    /// # Errors
    /// [`HomeError`].
    pub fn decide_under(
        &mut self,
        rules: &Rulebook,
        line: &Line,
        request: &Prepared,
    ) -> Result<Decided, HomeError> {
        let these = RulebookState { hash: rules.hash.clone(), fault: None };
        let then = std::mem::replace(&mut self.state.rulebook, these);
        let decided = self.decide_again(rules, line, request);
        self.state.rulebook = then;
        decided
    }

    /// What deciding the request of a decision line looked up.
    pub(super) fn look_up(
        &self,
        rules: &Rulebook,
        decision: &Decision,
        request: &Prepared,
    ) -> Result<Lookups, HomeError> {
        let mut lookups = again::recorded(decision);
        if !decision.sealed.is_empty() {
            lookups.sealing = sealed::sealing(self.disk.as_ref(), decision, request)?;
        }
        let Ok(authentic) = &request.request else { return Ok(Lookups::default()) };
        let (source, id) = (&authentic.envelope.source, &authentic.envelope.id);
        if self.outstanding.is_some() && decision.hold.is_none() {
            lookups.seen = self.store.seen(source.as_str(), id.as_str())?;
            if request.origin != Origin::Local {
                lookups.seen_in_spool = self.store.seen_in_spool(&request.origin.label(), id.as_str())?;
            }
        }
        let needs = needs(request, rules);
        if let Some(order_id) = needs.closed_order {
            lookups.closed_order = self.store.closed_order(order_id)?;
        }
        if let Some(since) = needs.fills_since {
            lookups.fills = self.store.fills_since(since, FILLS_MAX + 1)?;
        }
        if let Some(digest) = &needs.rows {
            lookups.rows = self.blob(digest)?;
        }
        if let Some(query) = &needs.lineage {
            lookups.lineage = self.store.lineage(query)?;
            let asked = (source.clone(), id.clone(), file_of(decision).to_owned());
            lookups.reported = self.reported.get(&asked).cloned();
        }
        if let Some(query) = &needs.history {
            lookups.history = Some(self.store.history(query, decision.timestamp)?);
        }
        if let Some((bridge, exec_id)) = &needs.report {
            lookups.booked_in = self.store.booked_in(bridge, exec_id)?;
        }
        if let Some((source, id)) = &needs.control
            && let Some(used) = self.store.used_id(source, id)?
        {
            let record = self.record(used.seq)?;
            lookups.decided = Some(earlier(self.disk.as_ref(), used, record.as_ref())?);
        }
        self.look_up_proposal(&needs, &mut lookups)?;
        if let Some((id, role)) = needs.case {
            lookups.no_more_cases = self.no_more_cases(decision.timestamp, lookups.no_more_cases);
            lookups.docket = self.store.docket(&id)?;
            if let Some(docket) = &lookups.docket {
                let signed = sealed::signed_hash(self.disk.as_ref(), self.record(docket.request)?.as_ref())?;
                lookups.signed_case = signed.or_else(|| again::named_case(decision, request));
            }
            if let (Some(docket), Some(role)) = (&lookups.docket, role) {
                let others = council::waits_for(rules, docket).into_iter().any(|other| other != role);
                if docket.closed.is_none() && !others && !lookups.no_more_cases {
                    lookups.said = Some(self.said(docket)?);
                }
            }
        }
        Ok(lookups)
    }

    fn look_up_proposal(&self, needs: &Needs, lookups: &mut Lookups) -> Result<(), HomeError> {
        if let Some(id) = needs.proposal {
            lookups.proposal = self.last_step(id)?;
        }
        for seq in &needs.evidence {
            let is_decision = matches!(self.record(*seq)?, Some(Record::Decision(_)));
            lookups.evidence_found = lookups.evidence_found.saturating_add(usize::from(is_decision));
        }
        if let Some(id) = &needs.citation
            && let Some(docket) = self.store.docket(id)?
        {
            let request = self.said(&docket)?.request;
            lookups.citation = Some((docket, request));
        }
        Ok(())
    }

    /// What came of the outgoing action that a line began; none: nothing yet, or it began none.
    pub(super) fn response_to(&self, line: u64) -> Result<Option<Response>, HomeError> {
        let response = self.store.response_to(line)?.map(|seq| self.record(seq)).transpose()?.flatten();
        Ok(match response {
            Some(Record::Response(response)) => Some(*response),
            _ => None,
        })
    }

    /// A line that was read before.
    pub(super) fn record(&self, seq: u64) -> Result<Option<Record>, HomeError> {
        let Some(location) = self.store.line(seq)? else { return Ok(None) };
        let bytes = log::read_line(self.disk.as_ref(), location)?;
        let fail = |error: String| HomeError::Record(format!("line {seq}: {error}"));
        let line = line::parse(&bytes).map_err(|error| fail(error.to_string()))?;
        Record::parse(line.kind, &line.body()).map_err(fail)
    }
}
