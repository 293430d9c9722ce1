//! Folds the recorded lines ahead of recomputing, looks up what recomputing each line reads, and
//! cuts the lines into ranges that start from a copy of the state. Recomputing a range needs
//! neither the ledger before it nor an index.

use std::sync::Arc;

use serde_json::value::RawValue;

use crate::replay_state::Past;
use spoolgate_council::case::Docket;
use spoolgate_gate::again::{self, ImpossibleLine, NotAgain, Retold};
use spoolgate_gate::approvals::{Change as Approval, End};
use spoolgate_gate::council::Said;
use spoolgate_gate::prepare::{Keyring, Origin, Prepared, prepare};
use spoolgate_gate::proposals::Change as Step;
use spoolgate_gate::record::{Decision, Event, Response};
use spoolgate_gate::sealing;
use spoolgate_gate::{Change, Delivery, EventKind, Lookups, Record, State};
use spoolgate_home::batch::BLOBS_DIR;
use spoolgate_home::cases;
use spoolgate_home::error::HomeError;
use spoolgate_home::sealed::Revealed;
use spoolgate_ledger::disk::Disk;
use spoolgate_ledger::log::Location;
use spoolgate_ledger::scan::SealedLine;
use spoolgate_ledger::segment::{self, Previous};
use spoolgate_rules::Rulebook;
use spoolgate_wire::code::Code;
use spoolgate_wire::ids::RequestId;
use spoolgate_wire::signing::VerifyKey;

/// A range ends with the batch in which it reaches this many lines,
const RANGE_LINES: usize = 256;
/// or this many bytes. A batch may be larger.
const RANGE_BYTES: u64 = 1024 * 1024;

/// A line as it was read.
pub(super) struct Parsed {
    pub location: Location,
    pub seq: u64,
    pub kind: String,
    pub body: String,
    /// `None` for a line that the ledger itself writes.
    pub record: Option<Record>,
    /// The text that belongs to it, from the line or its blob.
    pub payload: Option<String>,
    /// The path of that blob, if it is lost.
    pub lost: Option<String>,
}

impl Parsed {
    pub(super) fn new(disk: &dyn Disk, line: &SealedLine) -> Result<Parsed, HomeError> {
        let record = Record::parse(&line.kind, &line.body)
            .map_err(|error| HomeError::Record(format!("line {}: {error}", line.seq)))?;
        let (member, digest) = match &record {
            Some(Record::Decision(line)) => (&line.payload, &line.payload_blob),
            Some(Record::Input(line)) => (&line.payload, &line.payload_blob),
            Some(Record::AdmissionInput(line)) => (&line.payload, &line.payload_blob),
            _ => (&None, &None),
        };
        let payload = cases::text(disk, member.as_deref(), digest.as_deref())?;
        let lost = digest
            .as_ref()
            .filter(|_| payload.is_none())
            .map(|digest| format!("{BLOBS_DIR}/{digest}"));
        let (kind, body) = (line.kind.clone(), line.body.clone());
        Ok(Parsed {
            location: line.location(),
            seq: line.seq,
            kind,
            body,
            record,
            payload,
            lost,
        })
    }
}

/// What was looked up for a line.
pub(super) enum Known {
    Nothing,
    Decision(Box<OfDecision>),
    /// For a decided case: the case, the statements made in it, and the case that was due.
    Case {
        docket: Option<Docket>,
        said: Option<Box<Said>>,
        due: Option<RequestId>,
    },
    /// For the answer of a role's command: the case.
    Role {
        docket: Option<Docket>,
    },
    /// For an approved proposal: its last step.
    Proposal(Option<Step>),
    /// For the result of an outgoing action: the content of its blob, and the line with its sealed
    /// members put back.
    Response(Option<Box<RawValue>>, Box<Revealed>),
    /// For a segment: how the previous one ended.
    Segment(Option<Previous>),
    /// For a published mark: the last line whose answer was not known to be durable.
    Published(Option<u64>),
}

/// What deciding reads besides state and rules.
pub(super) struct OfDecision {
    /// The request; or which part of the line no request can have.
    pub retold: Result<Retold, ImpossibleLine>,
    pub lookups: Lookups,
    /// The line whose answer it repeats.
    pub original: Option<Decision>,
    /// The result of that line's action, if it was known by then.
    pub response: Option<Response>,
    /// Why the ledger does not contain what the decision read, if that has sealed members.
    pub untold: Option<&'static str>,
    /// The held request, prepared from its bytes, if it was granted when its signature no longer
    /// verified.
    pub unverified: Option<Prepared>,
}

/// A line that is to be recomputed.
pub(super) struct Item {
    pub seq: u64,
    pub location: Location,
    pub kind: String,
    pub body: String,
    pub record: Option<Arc<Record>>,
    /// The rulebook in force; `None` if it is lost.
    pub rules: Option<Arc<Rulebook>>,
    pub known: Known,
    /// The text of a line that is not a decision.
    pub payload: Option<String>,
    /// Blobs and rulebooks that were looked up and are missing.
    pub lost: Vec<String>,
    /// Whether the line read something that is no longer disclosed.
    pub concealed: bool,
}

/// Whole batches, with the state before and after them.
pub(super) struct Range {
    pub before: Arc<State>,
    pub items: Vec<Item>,
    /// `None` if the last line does not fit the lines before it.
    pub behind: Option<Arc<State>>,
}

/// Folds lines ahead of recomputing.
pub(super) struct Scout {
    past: Past,
    items: Vec<Item>,
    bytes: u64,
    before: Arc<State>,
    /// The segment being read: number, lines, end, and its last line.
    segment: (u32, u64, u64, Option<Location>),
    broken: Option<String>,
}

/// Reason for a request that was refused because of its payload: the line keeps only digests.
pub(super) const NOT_KEPT: &str = "its payload is not kept: it was no payload";
/// Reason for a line whose decision did not depend on what the request wants, and whose hashes are
/// sealed.
const CONCEALED: &str =
    "an answer repeated, or refused before its payload counted: its hashes are sealed";

/// A keyring without keys: the line records what was verified when it was decided.
struct NoKeys;

impl Keyring for NoKeys {
    fn verify_key(&self, _: &str) -> Option<VerifyKey> {
        None
    }
}

impl Scout {
    pub(super) fn new(disk: Arc<dyn Disk>) -> Result<Scout, HomeError> {
        let past = Past::new(disk, true)?;
        let before = Arc::new(past.state.clone());
        let segment = (1, 0, 0, None);
        Ok(Scout {
            past,
            items: Vec::new(),
            bytes: 0,
            before,
            segment,
            broken: None,
        })
    }

    /// Returns why the lines after the last one taken cannot be followed.
    pub(super) fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    /// Takes a line, and returns a range once it is complete. Must not be called once
    /// [`Scout::broken`] returns a reason.
    pub(super) fn line(&mut self, parsed: Parsed) -> Result<Option<Range>, HomeError> {
        let Parsed {
            location,
            seq,
            kind,
            body,
            record,
            mut payload,
            lost: own_lost,
        } = parsed;
        let record = record.map(Arc::new);
        let hash = match record.as_deref() {
            Some(Record::Genesis(genesis)) => genesis.rulebook.clone(),
            _ => self.past.state.rulebook.hash.clone(),
        };
        let rules = if record.is_some() {
            self.past.rulebook(&hash)?
        } else {
            None
        };
        let known = self.known(
            &location,
            &kind,
            record.as_deref(),
            rules.as_deref(),
            &mut payload,
        )?;
        let concealed = self.past.take_concealed();
        let mut lost = self.past.take_lost();
        lost.extend(own_lost);
        if record.is_some() && rules.is_none() {
            lost.push(format!("audit/rulebooks/{hash}.json"));
        }
        let is_seal = kind == "seal";
        match &record {
            Some(record) if matches!(record.as_ref(), Record::Market(_)) => {
                self.past.hold(seq, Arc::clone(record));
            }
            Some(record) => self.follow(|past| past.fold(seq, location, record))?,
            None if is_seal => self.follow(Past::seal)?,
            None => {}
        }
        let end = location
            .offset
            .saturating_add(location.length)
            .saturating_add(1);
        let lines = if self.segment.0 == location.segment {
            self.segment.1
        } else {
            0
        };
        self.segment = (
            location.segment,
            lines.saturating_add(1),
            end,
            Some(location),
        );
        self.bytes = self.bytes.saturating_add(location.length).saturating_add(1);
        self.items.push(Item {
            seq,
            location,
            kind,
            body,
            record,
            rules,
            known,
            payload,
            lost,
            concealed,
        });
        let is_full = self.items.len() >= RANGE_LINES || self.bytes >= RANGE_BYTES;
        Ok(if self.broken.is_some() || (is_seal && is_full) {
            Some(self.cut())
        } else {
            None
        })
    }

    /// Returns the last range, which may be incomplete.
    pub(super) fn rest(&mut self) -> Option<Range> {
        if self.items.is_empty() {
            None
        } else {
            Some(self.cut())
        }
    }

    /// Folds a line. If it does not fit the lines before it, following ends there with the reason.
    fn follow(
        &mut self,
        fold: impl FnOnce(&mut Past) -> Result<(), HomeError>,
    ) -> Result<(), HomeError> {
        match fold(&mut self.past) {
            Err(HomeError::Record(why)) => {
                self.broken = Some(why);
                Ok(())
            }
            other => other,
        }
    }

    fn cut(&mut self) -> Range {
        self.bytes = 0;
        let behind = Arc::new(self.past.state.clone());
        let before = std::mem::replace(&mut self.before, Arc::clone(&behind));
        let behind = Some(behind).filter(|_| self.broken.is_none());
        Range {
            before,
            items: std::mem::take(&mut self.items),
            behind,
        }
    }

    fn known(
        &self,
        location: &Location,
        kind: &str,
        record: Option<&Record>,
        rules: Option<&Rulebook>,
        payload: &mut Option<String>,
    ) -> Result<Known, HomeError> {
        Ok(match record {
            None if kind == "segment" => Known::Segment(self.previous(location)),
            Some(Record::Decision(decision)) => {
                let Some(rules) = rules else {
                    return Ok(Known::Nothing);
                };
                Known::Decision(Box::new(self.of_decision(
                    rules,
                    decision,
                    payload.take(),
                )?))
            }
            Some(Record::Council(line)) => {
                let docket = self.past.docket(&line.request_id)?;
                let said = docket
                    .as_ref()
                    .map(|docket| self.past.said(docket).map(Box::new))
                    .transpose()?;
                Known::Case {
                    docket,
                    said,
                    due: self.past.due_case(line.timestamp)?,
                }
            }
            Some(Record::Input(line)) => {
                let docket = self.past.docket(&line.request_id)?;
                Known::Role { docket }
            }
            Some(Record::Event(EventKind::Proposal, Event { changes, .. })) => {
                let mut steps = changes.iter().filter_map(|change| match change {
                    Change::Proposal(step) => Some(step.proposal_id()),
                    _ => None,
                });
                Known::Proposal(
                    steps
                        .next()
                        .map(|id| self.past.last_step(id))
                        .transpose()?
                        .flatten(),
                )
            }
            Some(Record::Response(line)) => {
                let blob = line
                    .data_blob
                    .as_deref()
                    .map(|digest| self.past.text(None, Some(digest)));
                let text = blob.transpose()?.flatten();
                let data = text.and_then(|text| RawValue::from_string(text).ok());
                Known::Response(data, Box::new(self.past.revealed(line)?))
            }
            Some(Record::Published(_)) => Known::Published(self.past.last_outstanding()),
            _ => Known::Nothing,
        })
    }

    fn previous(&self, location: &Location) -> Option<Previous> {
        let (number, lines, length, last) = &self.segment;
        if location.segment != number.saturating_add(1) || location.offset != 0 {
            return None;
        }
        let head = last.as_ref()?.leaf.to_string();
        Some(Previous {
            file: segment::file_name(*number),
            length: *length,
            lines: *lines,
            head,
        })
    }

    fn of_decision(
        &self,
        rules: &Rulebook,
        decision: &Decision,
        payload: Option<String>,
    ) -> Result<OfDecision, HomeError> {
        let mut original = None;
        let mut response = None;
        let mut payload = payload;
        if let Some(seq) = decision.metadata.replay_of
            && let Some(Record::Decision(earlier)) = self.past.record(seq)?
        {
            payload = self.payload_of(&earlier)?;
            response = self.past.response_to(seq)?;
            original = Some(*earlier);
        }
        let mut untold = None;
        let retold = if decision.sealed.is_empty() {
            let is_concealed = decision.action.as_deref().is_some_and(sealing::is_sealed)
                && decision.signature.is_none()
                && decision.hold.is_none();
            untold = is_concealed.then_some(CONCEALED);
            again::retold(decision, payload)
        } else {
            match self.past.disclosed(decision)? {
                Some((payload, revealed)) => again::retold(&revealed, Some(payload)),
                None => {
                    let is_kept = decision.payload.is_some() || decision.payload_blob.is_some();
                    untold = Some(if is_kept {
                        NotAgain::Redacted.as_str()
                    } else {
                        NOT_KEPT
                    });
                    again::retold(decision, None)
                }
            }
        };
        let lookups = match &retold {
            Ok(retold) => self.past.look_up(rules, decision, &retold.request)?,
            Err(_) => Lookups::default(),
        };
        let unverified = if was_granted_unverified(decision) {
            self.unverified(decision)?
        } else {
            None
        };
        Ok(OfDecision {
            retold,
            lookups,
            original,
            response,
            untold,
            unverified,
        })
    }

    /// Returns the payload of an earlier line; if that line ended a hold, the payload of the line
    /// that began the hold.
    fn payload_of(&self, earlier: &Decision) -> Result<Option<String>, HomeError> {
        let own = self
            .past
            .text(earlier.payload.as_deref(), earlier.payload_blob.as_deref())?;
        match (own, earlier.hold) {
            (None, Some(hold)) => match self.past.record(hold.0)? {
                Some(Record::Decision(held)) => self
                    .past
                    .text(held.payload.as_deref(), held.payload_blob.as_deref()),
                _ => Ok(None),
            },
            (own, _) => Ok(own),
        }
    }

    fn unverified(&self, decision: &Decision) -> Result<Option<Prepared>, HomeError> {
        let hold = decision
            .hold
            .and_then(|hold| self.past.state.approvals.get(hold));
        let (Some(hold), Some(origin)) = (hold, Origin::from_label(&decision.spool)) else {
            return Ok(None);
        };
        let Some(bytes) = self.past.held_bytes(&hold.file_sha256)? else {
            return Ok(None);
        };
        let name = decision.file.clone();
        let delivery = Delivery {
            origin,
            file: name.clone(),
            shown: name,
            content: Ok(bytes),
        };
        Ok(Some(prepare(
            &delivery,
            &State::default(),
            &NoKeys,
            decision.timestamp,
        )))
    }
}

/// Returns whether this line ends a hold that was granted after its key had ended.
fn was_granted_unverified(decision: &Decision) -> bool {
    let granted = |change: &Approval| {
        matches!(
            change,
            Approval::Ended {
                end: End::Granted,
                ..
            }
        )
    };
    decision.hold.is_some()
        && decision.key_id.is_none()
        && decision.metadata.code == Some(Code::SignatureInvalid)
        && decision.of_approvals().any(granted)
}
