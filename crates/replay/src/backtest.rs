//! `rules backtest`: decides every request of the ledger again, under another rulebook or its own.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;

use crate::history::{Line, each_decision};
use crate::replay::OTHER_SEMANTICS;
use crate::replay_state::Past;
use spoolgate_gate::Decision;
use spoolgate_gate::fired::{Effects, Fate};
use spoolgate_gate::state::SEMANTICS;
use spoolgate_home::error::HomeError;
use spoolgate_home::open::Seams;
use spoolgate_rules::Rulebook;
use spoolgate_wire::checks::CheckRow;
use spoolgate_wire::time::Time;

/// Which decisions to repeat, and under which rulebook.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The rulebook; `None` for each decision's own, as it was kept.
    pub rules: Option<Arc<Rulebook>>,
    /// Only decisions at or after this time.
    pub from: Option<Time>,
    /// Only decisions before this time.
    pub to: Option<Time>,
    /// Maximum number of flips listed; all are counted.
    pub flips: usize,
}

/// How a repeated decision differs from the recorded one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Flip {
    /// It was accepted or held, and is refused.
    NewlyRefused,
    /// It was refused or held, and is accepted.
    NewlyAccepted,
    /// It was accepted or refused, and is held.
    NewlyHeld,
    /// Same outcome, but another code or other failed checks.
    ReasonChanged,
}

impl Flip {
    /// Returns the flip in words.
    pub fn as_str(self) -> &'static str {
        match self {
            Flip::NewlyRefused => "newly refused",
            Flip::NewlyAccepted => "newly accepted",
            Flip::NewlyHeld => "newly held",
            Flip::ReasonChanged => "reason changed",
        }
    }
}

/// One side of a flip.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Side {
    /// Outcome of the request.
    pub fate: Fate,
    /// Code of a refusal.
    pub code: Option<&'static str>,
    /// Message of the decision.
    pub message: Option<String>,
    /// Rows of its check vector that failed.
    pub failed: Vec<CheckRow>,
}

/// A decision that comes out differently.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Flipped {
    /// Number of its line.
    pub line: u64,
    /// When it was decided.
    pub time: Time,
    /// Id of the request.
    pub request_id: Option<String>,
    /// Action of the request.
    pub action: Option<String>,
    /// Sender of the request.
    pub source: Option<String>,
    /// How it differs.
    pub flip: Flip,
    /// The recorded decision.
    pub before: Side,
    /// The repeated decision.
    pub after: Side,
}

/// Result of a backtest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Hash of the rulebook; `None` if each decision was repeated under its own.
    pub rulebook: Option<String>,
    /// Decisions in the requested time range.
    pub decisions: u64,
    /// Decisions that were repeated.
    pub again: u64,
    /// Repeated decisions that came out the same.
    pub same: u64,
    /// Newly refused.
    pub newly_refused: u64,
    /// Newly accepted.
    pub newly_accepted: u64,
    /// Newly held.
    pub newly_held: u64,
    /// Refused or held for another reason.
    pub reason_changed: u64,
    /// Lines whose bytes differ when repeated under their own rulebook: the first few, by number.
    pub other_bytes: Vec<u64>,
    /// Number of decisions that cannot be repeated, by reason.
    pub not_again: BTreeMap<&'static str, u64>,
    /// What rules did in the repeated decisions, as the ledger recorded it.
    pub recorded: Effects,
    /// What rules did when the decisions were repeated.
    pub backtest: Effects,
    /// The first flips, at most as many as requested.
    pub flips: Vec<Flipped>,
}

/// Maximum number of lines in `other_bytes`.
const OTHER_BYTES_MAX: usize = 20;

/// Reason why a decision cannot be repeated under its own rulebook.
const RULEBOOK_LOST: &str = "its rulebook is lost";

/// Repeats the decisions of a ledger.
///
/// Each request is decided on the state as it was recorded: what a flip would have changed for
/// later requests is not followed. Calls `progress` with the number of bytes of lines read so far.
///
/// # Errors
/// Returns [`HomeError`] if the ledger or a blob cannot be read.
pub fn backtest(
    root: &Path,
    seams: &Seams,
    options: &Options,
    progress: &mut dyn FnMut(u64),
) -> Result<Report, HomeError> {
    let rulebook = options.rules.as_ref().map(|rules| rules.hash.clone());
    let mut report = Report {
        rulebook,
        ..Report::default()
    };
    each_decision(root, seams, progress, &mut |past, line| {
        let time = line.decision.timestamp;
        let is_asked_for =
            options.from.is_none_or(|from| from <= time) && options.to.is_none_or(|to| time < to);
        if is_asked_for {
            report.decision(past, line, options)
        } else {
            Ok(())
        }
    })?;
    Ok(report)
}

impl Report {
    fn decision(
        &mut self,
        past: &mut Past,
        line: &Line,
        options: &Options,
    ) -> Result<(), HomeError> {
        self.decisions = self.decisions.saturating_add(1);
        let request = match &line.request {
            Ok(request) => request,
            Err(why) => return self.not_again(why.as_str()),
        };
        let after = match &options.rules {
            None if past.state.semantics() != SEMANTICS => return self.not_again(OTHER_SEMANTICS),
            None => {
                let Some(rules) = past.rulebook(&line.decision.rulebook)? else {
                    return self.not_again(RULEBOOK_LOST);
                };
                past.decide_again(&rules, line, request)?.decision
            }
            Some(rules) => past.decide_under(rules, line, request)?.decision,
        };
        self.again = self.again.saturating_add(1);
        if options.rules.is_none() && self.other_bytes.len() < OTHER_BYTES_MAX {
            let body = |of: &Decision| {
                of.body()
                    .map_err(|error| HomeError::Record(error.to_string()))
            };
            let is_same = body(&after)? == body(&line.decision)?;
            self.other_bytes.extend((!is_same).then_some(line.seq));
        }
        self.recorded.count(&line.decision);
        self.backtest.count(&after);
        let Some(flip) = compare(&line.decision, &after) else {
            self.same = self.same.saturating_add(1);
            return Ok(());
        };
        let counter = match flip {
            Flip::NewlyRefused => &mut self.newly_refused,
            Flip::NewlyAccepted => &mut self.newly_accepted,
            Flip::NewlyHeld => &mut self.newly_held,
            Flip::ReasonChanged => &mut self.reason_changed,
        };
        *counter = counter.saturating_add(1);
        if self.flips.len() < options.flips {
            self.flips.push(Flipped {
                line: line.seq,
                time: line.decision.timestamp,
                request_id: line.decision.request_id.clone(),
                action: line.decision.action.clone(),
                source: line.decision.source.clone(),
                flip,
                before: Side::of(&line.decision),
                after: Side::of(&after),
            });
        }
        Ok(())
    }

    fn not_again(&mut self, why: &'static str) -> Result<(), HomeError> {
        let counter = self.not_again.entry(why).or_default();
        *counter = counter.saturating_add(1);
        Ok(())
    }

    /// Number of decisions that come out differently.
    pub fn flipped(&self) -> u64 {
        [
            self.newly_refused,
            self.newly_accepted,
            self.newly_held,
            self.reason_changed,
        ]
        .into_iter()
        .fold(0, u64::saturating_add)
    }
}

impl Side {
    fn of(decision: &Decision) -> Side {
        Side {
            fate: Fate::of(decision),
            code: decision.metadata.code.map(|code| code.name()),
            message: decision.metadata.message.clone(),
            failed: decision
                .checks
                .iter()
                .filter(|row| !row.passed)
                .cloned()
                .collect(),
        }
    }
}

/// Returns how two decisions differ, if they do: in outcome, in code, or in the checks that failed.
/// Other values or limits of checks alone do not count.
pub(super) fn compare(before: &Decision, after: &Decision) -> Option<Flip> {
    let (was, is) = (Fate::of(before), Fate::of(after));
    if was != is {
        return Some(match is {
            Fate::Accepted => Flip::NewlyAccepted,
            Fate::Held => Flip::NewlyHeld,
            Fate::Refused => Flip::NewlyRefused,
        });
    }
    let failed = |decision: &Decision| {
        let rows = decision.checks.iter().filter(|row| !row.passed);
        rows.map(|row| row.name.clone()).collect::<Vec<_>>()
    };
    let is_same = before.metadata.code == after.metadata.code && failed(before) == failed(after);
    (!is_same).then_some(Flip::ReasonChanged)
}
