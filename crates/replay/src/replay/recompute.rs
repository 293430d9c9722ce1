//! Recomputes the lines of a range, each on the state of the lines before it, and reports the
//! result for each.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::answers::{AnswerFiles, Answered};
use super::difference::{Difference, apart};
use super::scout::{Item, Known, Range};
use super::{Class, Counts};
use spoolgate_gate::again::NotAgain;
use spoolgate_gate::approvals::Resolution;
use spoolgate_gate::record::{Event, EventKind, Record};
use spoolgate_gate::state::{SEMANTICS, may_have_written};
use spoolgate_gate::{Change, State, events, outbox, services};
use spoolgate_home::error::HomeError;
use spoolgate_home::index::fold::fold_state;
use spoolgate_ledger::disk::Disk;
use spoolgate_ledger::segment::Segment;
use spoolgate_rules::Rulebook;
use spoolgate_rules::services::PATH;
use spoolgate_wire::time::Time;

/// Why a line cannot be recomputed without its rulebook.
pub(super) const RULEBOOK_LOST: &str = "its rulebook is lost";
/// Why a line cannot be recomputed without a blob that its decision read.
pub(super) const BLOB_LOST: &str = "a blob that it depends on is lost";

/// Result for a range.
#[derive(Debug, Default)]
pub(super) struct RangeReport {
    pub counts: Counts,
    pub first: Option<Difference>,
    /// Number of decision lines, and of those whose answer was restored.
    pub decisions: u64,
    pub answers: u64,
    pub answered: Answered,
    /// Blobs and rulebooks that are missing.
    pub missing: BTreeSet<String>,
    /// Lines whose answer cannot be restored.
    pub unanswered: BTreeSet<u64>,
    /// Number of lines of other semantics.
    pub of_other_semantics: u64,
    /// Bytes of its lines.
    pub bytes: u64,
    /// Version of the program, by the first line that it wrote.
    pub programs: BTreeMap<u64, String>,
}

/// A line that must come next.
pub(super) enum Expected {
    /// Exactly this line.
    Line {
        kind: &'static str,
        body: String,
        what: &'static str,
    },
    /// A line with these changes, completed by the outbox when its turn comes; no line if no change
    /// is left.
    Part {
        kind: EventKind,
        note: String,
        changes: Vec<Change>,
        /// The rulebook in force.
        rules: Arc<Rulebook>,
    },
    /// The end of a hold.
    End(Resolution),
}

/// What a line should be.
pub(super) enum Should {
    /// A line with this body.
    Be {
        body: String,
        class: Class,
        what: Cow<'static, str>,
    },
    /// It should not be there, for this reason.
    NotBe(String),
    /// Unknown, for this reason.
    Unknown(Cow<'static, str>),
}

/// Why a line of another [`SEMANTICS`] is not recomputed.
pub(crate) const OTHER_SEMANTICS: &str = "decided by a version of the program with other semantics";

pub(super) struct Recompute<'a> {
    pub state: State,
    pub report: RangeReport,
    pub disk: &'a dyn Disk,
    pub answers: Option<&'a AnswerFiles>,
    pub expected: VecDeque<Expected>,
    /// Whether only market lines of this batch have come so far.
    pub is_first: bool,
    /// Market lines whose decision follows.
    held: Vec<&'a Item>,
}

/// Recomputes a range.
///
/// # Errors
/// Returns the disk's error, or [`HomeError::Record`] if the state differs from the one folded
/// ahead.
pub(super) fn recompute(
    range: &Range,
    disk: &dyn Disk,
    answers: Option<&AnswerFiles>,
) -> Result<RangeReport, HomeError> {
    let mut own = Recompute {
        state: State::clone(&range.before),
        report: RangeReport::default(),
        disk,
        answers,
        expected: VecDeque::new(),
        is_first: true,
        held: Vec::new(),
    };
    for item in &range.items {
        own.item(item)?;
        own.report.bytes = own
            .report
            .bytes
            .saturating_add(item.location.length)
            .saturating_add(1);
    }
    if let Some(behind) = &range.behind
        && own.state != **behind
    {
        let seq = range.items.last().map_or(0, |item| item.seq);
        return Err(HomeError::Record(format!(
            "the state after line {seq} can be computed in two ways"
        )));
    }
    Ok(own.report)
}

/// Returns the version of the program, and its semantics, that write from this line on, if the line
/// names them.
fn named_program(record: &Record) -> Option<(&str, u32)> {
    if let Record::Genesis(genesis) = record {
        return Some((&genesis.program, genesis.semantics));
    }
    record.changes().iter().find_map(|change| match change {
        Change::ProgramChanged { version, semantics } => Some((version.as_str(), *semantics)),
        _ => None,
    })
}

fn impossible((version, semantics): (&str, u32)) -> Option<String> {
    let why = || format!("version {version} did not write lines with semantics {semantics}");
    (!may_have_written(version, semantics)).then(why)
}

impl<'a> Recompute<'a> {
    fn item(&mut self, item: &'a Item) -> Result<(), HomeError> {
        let named = item.record.as_deref().and_then(named_program);
        let semantics = match (item.record.as_deref(), named) {
            (Some(Record::Genesis(_)), Some((_, semantics))) => semantics,
            _ => self.state.semantics(),
        };
        if let Some(why) = named.and_then(impossible) {
            self.note(item, Should::NotBe(why));
        } else if item.record.is_some() && semantics != SEMANTICS {
            self.of_other_semantics(item)?;
        } else if !self.check(item)? {
            return Ok(());
        }
        self.fold(item);
        self.is_first = item.kind == "seal";
        if let Some((version, _)) = named {
            self.report.programs.insert(item.seq, version.to_owned());
        }
        Ok(())
    }

    /// Counts a line of other semantics, and restores its answer from the line alone.
    fn of_other_semantics(&mut self, item: &Item) -> Result<(), HomeError> {
        self.report.counts.add(Class::NotAgain, OTHER_SEMANTICS);
        self.report.of_other_semantics = self.report.of_other_semantics.saturating_add(1);
        match (item.record.as_deref(), &item.known) {
            (Some(Record::Decision(decision)), Known::Decision(known)) => {
                self.report.decisions = self.report.decisions.saturating_add(1);
                self.recorded_answer(item, decision, known)
            }
            (Some(Record::Council(line)), _) => self.case_answer(item, line),
            (Some(Record::Response(line)), _) => self.response_answer(item, line, line.answers()),
            _ => Ok(()),
        }
    }

    /// Compares a line with what this program makes of it. Returns false for a market line, which
    /// is compared and folded together with the decision that brought it.
    fn check(&mut self, item: &'a Item) -> Result<bool, HomeError> {
        match item.record.as_deref() {
            Some(Record::Market(_)) => {
                self.held.push(item);
                return Ok(false);
            }
            Some(Record::Decision(decision)) => {
                let held = std::mem::take(&mut self.held);
                self.decision(item, decision, &held)?;
                held.into_iter().for_each(|rows| self.fold(rows));
            }
            record => {
                // The decision of these market lines does not follow.
                for rows in std::mem::take(&mut self.held) {
                    self.note(
                        rows,
                        Should::NotBe("no decision that brought these rows follows".to_owned()),
                    );
                    self.fold(rows);
                }
                let should = match record {
                    Some(record) => self.event(item, record)?,
                    None => self.own_line(item),
                };
                let is_same = self.note(item, should);
                if let Some(Record::Council(line)) = record.filter(|_| is_same || item.concealed) {
                    self.case_answer(item, line)?;
                }
                if let Some(Record::Response(line)) = record.filter(|_| is_same) {
                    self.response_answer(item, line, line.answers())?;
                }
            }
        }
        Ok(true)
    }

    /// Folds a line. Ignores a line that does not fit: the scout reports it and ends the range
    /// there.
    fn fold(&mut self, item: &Item) {
        if let Some(record) = item.record.as_deref() {
            let _ = fold_state(&mut self.state, item.seq, record);
        }
    }

    /// Returns the next line that must come, and skips parts without changes.
    pub(super) fn next_expected(&mut self, now: Option<Time>) -> Option<Expected> {
        while let Some(expected) = self.expected.pop_front() {
            match expected {
                Expected::Part {
                    kind,
                    note,
                    changes,
                    rules,
                } => {
                    // At the end of a batch it only matters whether any change is left, which does
                    // not depend on the time.
                    let at = now.or(self.state.clock.last).unwrap_or(Time::EPOCH);
                    let changes = outbox::of_line(&self.state.book, &rules, changes, at);
                    if !changes.is_empty() {
                        return Some(Expected::Part {
                            kind,
                            note,
                            changes,
                            rules,
                        });
                    }
                }
                other => return Some(other),
            }
        }
        None
    }

    /// Checks a line that the ledger itself writes. Its hashes, size, root and signature were
    /// checked when it was read.
    fn own_line(&mut self, item: &Item) -> Should {
        if let Some(expected) = self.next_expected(None) {
            self.expected.clear();
            let why = format!("{} should precede it, and does not", expected.what());
            return Should::NotBe(why);
        }
        let Known::Segment(previous) = &item.known else {
            return Should::Be {
                body: item.body.clone(),
                class: Class::Recomputed,
                what: "seal".into(),
            };
        };
        let (Some(previous), Ok(read)) = (previous, serde_json::from_str::<Segment>(&item.body))
        else {
            return Should::NotBe(
                "it is not the first line of a segment after another segment".to_owned(),
            );
        };
        let segment = Segment {
            previous: previous.clone(),
            rest: read.rest,
        };
        match serde_json::to_string(&segment) {
            Ok(body) => Should::Be {
                body,
                class: Class::Recomputed,
                what: "segment".into(),
            },
            Err(error) => Should::NotBe(error.to_string()),
        }
    }

    /// Checks a line that is not about a request.
    fn event(&mut self, item: &Item, record: &Record) -> Result<Should, HomeError> {
        let now = record.timestamp();
        match self.next_expected(Some(now)) {
            Some(Expected::Line { kind, body, what }) if kind == item.kind => {
                return Ok(Should::Be {
                    body,
                    class: Class::Recomputed,
                    what: what.into(),
                });
            }
            Some(Expected::Part {
                kind,
                note,
                changes,
                ..
            }) => {
                if kind.name() == item.kind {
                    let made = Record::Event(
                        kind,
                        Event {
                            timestamp: now,
                            note,
                            changes,
                            cage: None,
                        },
                    );
                    return Ok(be(&made, Class::Recomputed, kind.name()));
                }
                self.expected.clear();
                return Ok(Should::NotBe(format!(
                    "a `{}` line should be here",
                    kind.name()
                )));
            }
            Some(other) => {
                self.expected.clear();
                return Ok(Should::NotBe(format!("{} should be here", other.what())));
            }
            None => {}
        }
        let Some(rules) = item.rules.clone() else {
            self.report.missing.extend(item.lost.iter().cloned());
            return Ok(Should::Unknown(RULEBOOK_LOST.into()));
        };
        super::inputs::should_be(self, item, record, &rules)
    }

    /// Queues the lines that put in force what a line applied.
    pub(super) fn expect_applied(
        &mut self,
        rules: &Arc<Rulebook>,
        changes: &[Change],
        now: Time,
    ) -> Result<(), HomeError> {
        let mut rules = Arc::clone(rules);
        for (id, path, text, hash) in events::applied(changes) {
            // An edit that does not make this rulebook was not written by this program.
            let Ok(book) = rules.with_rule(path, text) else {
                continue;
            };
            if book.hash != hash {
                continue;
            }
            rules = Arc::new(book);
            let record = Record::Event(
                EventKind::Rulebook,
                events::rulebook_loaded(hash, Some((path, &id.to_string())), now),
            );
            let body = record
                .body()
                .map_err(|error| HomeError::Record(error.to_string()))?;
            self.expected.push_back(Expected::Line {
                kind: "rulebook",
                body,
                what: "rulebook",
            });
        }
        for (edit, _, hash) in services::edits(changes) {
            let Some(book) = services::after(&rules, edit)
                .ok()
                .filter(|book| book.hash == hash)
            else {
                continue;
            };
            rules = Arc::new(book);
            let record = Record::Event(
                EventKind::Rulebook,
                events::rulebook_loaded(hash, Some((PATH, &edit.to_string())), now),
            );
            let body = record
                .body()
                .map_err(|error| HomeError::Record(error.to_string()))?;
            self.expected.push_back(Expected::Line {
                kind: "rulebook",
                body,
                what: "rulebook",
            });
        }
        Ok(())
    }

    /// Compares a line with what it should be, and counts it. Returns whether it is the same.
    pub(super) fn note(&mut self, item: &Item, should: Should) -> bool {
        match should {
            Should::Be { body, class, what } if body == item.body => {
                self.report.counts.add(class, what);
                return true;
            }
            // A council decision depends on its request, which may have been redacted.
            should
                if item.concealed
                    && (matches!(should, Should::Be { .. })
                        || (item.kind == "council" && matches!(should, Should::NotBe(_)))) =>
            {
                self.report
                    .counts
                    .add(Class::NotAgain, NotAgain::Redacted.as_str());
            }
            Should::Be { body, .. } => self.differs(item, Some(&body), None),
            Should::NotBe(why) => self.differs(item, None, Some(why)),
            Should::Unknown(why) => self.report.counts.add(Class::NotAgain, why),
        }
        false
    }

    fn differs(&mut self, item: &Item, body: Option<&str>, why: Option<String>) {
        self.report
            .counts
            .add(Class::Differs, Cow::Owned(item.kind.clone()));
        if self.report.first.is_some() {
            return;
        }
        let apart = body.and_then(|body| apart(&item.body, body));
        // Offsets count from the start of the line, in which the body comes after `kind`.
        let behind = item.location.length.saturating_add(1);
        let start = behind.saturating_sub(u64::try_from(item.body.len()).unwrap_or(u64::MAX));
        let (request_id, written_by) = match item.record.as_deref() {
            Some(Record::Decision(decision)) => (decision.request_id.clone(), &self.state.program),
            Some(Record::Genesis(genesis)) => (None, &genesis.program),
            _ => (None, &self.state.program),
        };
        let mut difference = Difference {
            line: item.seq,
            kind: item.kind.clone(),
            request_id,
            offset: None,
            member: None,
            recorded: None,
            recomputed: None,
            why,
            written_by: written_by.clone(),
            recomputed_by: spoolgate_wire::VERSION.to_owned(),
        };
        if let Some(apart) = apart {
            let offset = u64::try_from(apart.offset).unwrap_or(u64::MAX);
            difference.offset = Some(start.saturating_add(offset));
            difference.member = Some(apart.member);
            (difference.recorded, difference.recomputed) = (apart.recorded, apart.recomputed);
        }
        self.report.first = Some(difference);
    }
}

impl Expected {
    fn what(&self) -> String {
        match self {
            Expected::Line { kind, .. } => format!("a `{kind}` line"),
            Expected::Part { .. } => "the next part of the line before".to_owned(),
            Expected::End(resolution) => format!("the end of {}", resolution.hold),
        }
    }
}

/// Expects a record.
pub(super) fn be(record: &Record, class: Class, what: &'static str) -> Should {
    match record.body() {
        Ok(body) => Should::Be {
            body,
            class,
            what: what.into(),
        },
        Err(error) => Should::NotBe(error.to_string()),
    }
}
