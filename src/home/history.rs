//! What was decided, with the state that each decision was made on: the ledger folded line by line, from the first on.
//! Lines are read, checked and parsed on a thread of their own.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

use super::cases;
use super::decided::earlier;
use super::open::{HomeError, Seams, read_genesis};
use super::read::{each_sealed_line, identity_of};
use super::rulebook;
use super::sealed;
use crate::admission::lineage::Reported;
use crate::gate::again::{self, NotAgain};
use crate::gate::approvals::Granted;
use crate::gate::decide::{FILLS_MAX, Lookups, decide_granted, needs};
use crate::gate::record::{AdmissionInput, AskedFor, Decision};
use crate::gate::sealing::NO_DIGEST;
use crate::gate::state::RulebookState;
use crate::gate::{Decided, Prepared, Record, State, council, decide};
use crate::host::disk::Disk;
use crate::ledger::line;
use crate::ledger::log::{self, Location, Position};
use crate::ledger::scan::SealedLine;
use crate::rules::Rulebook;
use crate::state::{Store, fold_known};
use crate::wire::ids::{Principal, RequestId};

/// Lines that are handed over at once.
const LINES_AT_ONCE: usize = 64;
/// Hand-overs that may wait. With the largest lines there are, 2 x 64 MiB.
const WAITING_MAX: usize = 2;
/// Most bytes of lines that are handed over at once.
const BYTES_AT_ONCE: u64 = 4 * 1024 * 1024;
/// Rulebooks kept compiled.
const RULEBOOKS_MAX: usize = 16;

/// A decision line, and the request that it is on.
#[derive(Debug)]
pub struct Line {
    /// Its number.
    pub seq: u64,
    /// What it says.
    pub decision: Box<Decision>,
    /// Its request; or why that cannot be made again.
    pub request: Result<Prepared, NotAgain>,
}

/// A line on its way from the reader.
struct Parsed {
    seq: u64,
    location: Location,
    record: Record,
    request: Option<Result<Prepared, NotAgain>>,
}

/// What was known before a decision.
pub struct Past {
    /// The state.
    pub state: State,
    store: Store,
    disk: Arc<dyn Disk>,
    /// Market lines of the decision that follows: it was made before they were folded.
    held: Vec<(u64, Record)>,
    rulebooks: BTreeMap<String, Option<Arc<Rulebook>>>,
    /// What lineage commands said, by who asked, id, and digest of the file.
    reported: BTreeMap<(Principal, RequestId, String), Result<Reported, String>>,
}

/// Reads a ledger from its first line on and shows `visit` each decision before it is folded. `progress` hears how many
/// bytes of lines were read. Takes no lock and changes nothing.
///
/// # Errors
/// [`HomeError`]: of the ledger, or what `visit` says.
pub fn each_decision(
    root: &Path,
    seams: &Seams,
    progress: &mut dyn FnMut(u64),
    visit: &mut dyn FnMut(&mut Past, &Line) -> Result<(), HomeError>,
) -> Result<(), HomeError> {
    let disk = Arc::clone(&seams.disk);
    let identity = identity_of(read_genesis(root, disk.as_ref())?)?;
    let (sender, receiver) = sync_channel::<Vec<Parsed>>(WAITING_MAX);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let sender = sender;
            let mut reading = Reading { disk: disk.as_ref(), sender, parsed: Vec::new(), bytes: 0 };
            let mut take = |line: &SealedLine| reading.line(line);
            let read = each_sealed_line(disk.as_ref(), &identity, Position::start(), &mut take);
            reading.hand_over().and(read.map(drop))
        });
        let folded = fold_all(Past::new(Arc::clone(&disk))?, receiver.into_iter().flatten(), progress, visit);
        // What the reader met comes first: the lines before it were good.
        let read = reader.join().unwrap_or_else(|_| Err(HomeError::Record("the reader ended".to_owned())));
        match (folded, read) {
            (Err(error), _) => Err(error),
            (Ok(()), read) => read,
        }
    })
}

fn fold_all(
    mut past: Past,
    lines: impl Iterator<Item = Parsed>,
    progress: &mut dyn FnMut(u64),
    visit: &mut dyn FnMut(&mut Past, &Line) -> Result<(), HomeError>,
) -> Result<(), HomeError> {
    let mut bytes: u64 = 0;
    past.store.begin()?;
    for Parsed { seq, location, record, request } in lines {
        bytes = bytes.saturating_add(location.length).saturating_add(1);
        match (record, request) {
            (record @ Record::Market(_), _) => past.held.push((seq, record)),
            (Record::Decision(decision), Some(request)) => {
                let line = Line { seq, decision, request };
                visit(&mut past, &line)?;
                past.fold(seq, location, &Record::Decision(line.decision))?;
                progress(bytes);
            }
            (record, _) => past.fold(seq, location, &record)?,
        }
    }
    Ok(())
}

/// The reader's end.
struct Reading<'a> {
    disk: &'a dyn Disk,
    sender: SyncSender<Vec<Parsed>>,
    parsed: Vec<Parsed>,
    bytes: u64,
}

impl Reading<'_> {
    fn line(&mut self, line: &SealedLine) -> Result<(), HomeError> {
        let record = Record::parse(&line.kind, &line.body)
            .map_err(|error| HomeError::Record(format!("line {}: {error}", line.seq)))?;
        let Some(record) = record else { return Ok(()) };
        let request = match &record {
            Record::Decision(decision) => Some(sealed::request(self.disk, decision)?),
            _ => None,
        };
        self.bytes = self.bytes.saturating_add(line.length);
        self.parsed.push(Parsed { seq: line.seq, location: line.location(), record, request });
        if self.parsed.len() >= LINES_AT_ONCE || self.bytes >= BYTES_AT_ONCE {
            return self.hand_over();
        }
        Ok(())
    }

    fn hand_over(&mut self) -> Result<(), HomeError> {
        self.bytes = 0;
        let sent = self.sender.send(std::mem::take(&mut self.parsed));
        sent.map_err(|_| HomeError::Record("reading was given up".to_owned()))
    }
}

/// What inputs about a decision's request name its file by.
fn file_of(decision: &Decision) -> &str {
    decision.file_sha256.as_deref().unwrap_or(NO_DIGEST)
}

impl Past {
    fn new(disk: Arc<dyn Disk>) -> Result<Past, HomeError> {
        Ok(Past {
            state: State::default(),
            store: Store::temporary()?,
            disk,
            held: Vec::new(),
            rulebooks: BTreeMap::new(),
            reported: BTreeMap::new(),
        })
    }

    /// Folds a line, behind the market lines that were held back for it.
    fn fold(&mut self, seq: u64, location: Location, record: &Record) -> Result<(), HomeError> {
        for (seq, record) in std::mem::take(&mut self.held) {
            fold_known(&mut self.state, &self.store, seq, &record)?;
        }
        fold_known(&mut self.state, &self.store, seq, record)?;
        // What later decisions read back: what was said in cases, and what controllers decided.
        let is_read_back = match record {
            Record::Decision(decision) => {
                decision.is_on_a_case() || decision.request_type.as_deref() == Some("ControlDecision")
            }
            Record::Input(_) => true,
            _ => false,
        };
        if is_read_back {
            self.store.insert_line(seq, location)?;
        }
        match record {
            Record::AdmissionInput(input) => self.hear(input)?,
            Record::Decision(decision) => self.forget_heard(decision),
            _ => {}
        }
        Ok(())
    }

    fn hear(&mut self, input: &AdmissionInput) -> Result<(), HomeError> {
        let AskedFor::Lineage { source, request_id, file_sha256, .. } = &input.about else { return Ok(()) };
        let text = cases::text(self.disk.as_ref(), input.payload.as_deref(), input.payload_blob.as_deref())?;
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
    fn first_line(&self, line: &Line) -> u64 {
        self.held.first().map_or(line.seq, |(seq, _)| *seq)
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
        self.rulebooks.insert(hash.to_owned(), book.clone());
        book
    }

    /// Rows that are stored under this digest; none: they are lost.
    ///
    /// # Errors
    /// What the disk says.
    pub fn blob(&self, digest: &str) -> Result<Option<Vec<u8>>, HomeError> {
        super::batch::blob(self.disk.as_ref(), digest)
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
        let lookups = self.look_up(rules, line, request)?;
        let (now, seq) = (line.decision.timestamp, self.first_line(line));
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

    fn look_up(&self, rules: &Rulebook, line: &Line, request: &Prepared) -> Result<Lookups, HomeError> {
        let mut lookups = again::recorded(&line.decision);
        if !line.decision.sealed.is_empty() {
            lookups.sealing = sealed::sealing(self.disk.as_ref(), &line.decision, request)?;
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
            lookups.reported = request.request.as_ref().ok().and_then(|authentic| {
                let (envelope, file) = (&authentic.envelope, file_of(&line.decision).to_owned());
                self.reported.get(&(envelope.source.clone(), envelope.id.clone(), file)).cloned()
            });
        }
        if let Some(query) = &needs.history {
            lookups.history = Some(self.store.history(query, line.decision.timestamp)?);
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
        if let Some((id, role)) = needs.case {
            lookups.docket = self.store.docket(&id)?;
            if let Some(docket) = &lookups.docket {
                let signed = sealed::signed_hash(self.disk.as_ref(), self.record(docket.request)?.as_ref())?;
                lookups.signed_case = signed.or_else(|| again::named_case(&line.decision, request));
            }
            if let (Some(docket), Some(role)) = (&lookups.docket, role) {
                let others = council::waits_for(rules, docket).into_iter().any(|other| other != role);
                if docket.closed.is_none() && !others && !lookups.no_more_cases {
                    lookups.said = Some(cases::said(docket, |seq| match self.record(seq)? {
                        Some(record) => cases::payload(self.disk.as_ref(), &record),
                        None => Ok(None),
                    })?);
                }
            }
        }
        Ok(lookups)
    }

    /// A line that was read before.
    fn record(&self, seq: u64) -> Result<Option<Record>, HomeError> {
        let Some(location) = self.store.line(seq)? else { return Ok(None) };
        let bytes = log::read_line(self.disk.as_ref(), location)?;
        let fail = |error: String| HomeError::Record(format!("line {seq}: {error}"));
        let line = line::parse(&bytes).map_err(|error| fail(error.to_string()))?;
        Record::parse(line.kind, &line.body()).map_err(fail)
    }
}
