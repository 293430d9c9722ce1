//! Decisions over time and the reasons for refusals, counted in bounded memory.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use spoolgate_gate::actions::Lane;
use spoolgate_gate::fired::{Fate, is_of_rule};
use spoolgate_gate::record::{Metadata, Status};
use spoolgate_wire::checks::CheckRow;
use spoolgate_wire::time::{DAY_MS, Time};

/// Maximum number of periods that are shown.
pub(super) const STRETCHES_MAX: usize = 96;
/// Maximum number of periods that are counted separately before they are merged.
const COUNTED_MAX: usize = 4096;
/// One hour in milliseconds.
const HOUR_MS: i64 = 3_600_000;
/// Weeks begin on Monday; the epoch was a Thursday.
const MONDAY_MS: i64 = 4 * DAY_MS;

/// The members of a decision line that are counted.
#[derive(Debug, Deserialize)]
pub(super) struct CountedLine {
    timestamp: Time,
    status: Status,
    lane: Lane,
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    checks: Vec<CheckRow>,
}

/// Numbers of decisions by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Executed or begun.
    pub accepted: u64,
    /// Refused.
    pub refused: u64,
    /// Held for an approver.
    pub held: u64,
}

impl Tally {
    fn count(&mut self, fate: Fate) {
        let counter = match fate {
            Fate::Accepted => &mut self.accepted,
            Fate::Refused => &mut self.refused,
            Fate::Held => &mut self.held,
        };
        *counter = counter.saturating_add(1);
    }

    fn add(&mut self, other: &Tally) {
        self.accepted = self.accepted.saturating_add(other.accepted);
        self.refused = self.refused.saturating_add(other.refused);
        self.held = self.held.saturating_add(other.held);
    }

    /// Returns the number of all decisions.
    pub fn all(&self) -> u64 {
        self.accepted
            .saturating_add(self.refused)
            .saturating_add(self.held)
    }
}

/// Decisions of one period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Stretch {
    /// Start of the period.
    pub start: Time,
    /// The decisions in it.
    #[serde(flatten)]
    pub tally: Tally,
}

/// The kind of reason that a refusal names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// A check of the program.
    Check,
    /// A rule of the home.
    Rule,
    /// A code: the request was refused before any check.
    Code,
}

/// How many requests one check, rule or code refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// Kind of the reason.
    pub by: By,
    /// Its name.
    pub name: String,
    /// Refused requests that failed it.
    pub requests: u64,
    /// The requests among them that failed nothing else.
    pub alone: u64,
}

/// Decisions and refusals.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Decisions {
    /// All decisions that were counted.
    pub total: Tally,
    /// Accepted deliveries of market data; they are in no other number.
    pub deliveries: u64,
    /// Resent requests that got their stored answer; they are in no other number.
    pub repeated: u64,
    /// Length of a period, milliseconds.
    pub stretch_ms: i64,
    /// Periods with decisions, oldest first.
    pub stretches: Vec<Stretch>,
    /// The reasons for refusals, most frequent first.
    pub refusals: Vec<Refusal>,
}

/// The state of counting.
#[derive(Debug)]
pub(super) struct Counting {
    total: Tally,
    deliveries: u64,
    repeated: u64,
    width_ms: i64,
    stretches: BTreeMap<i64, Tally>,
    refusals: BTreeMap<(By, String), (u64, u64)>,
}

impl Default for Counting {
    fn default() -> Counting {
        Counting {
            total: Tally::default(),
            deliveries: 0,
            repeated: 0,
            width_ms: HOUR_MS,
            stretches: BTreeMap::new(),
            refusals: BTreeMap::new(),
        }
    }
}

impl Counting {
    /// Counts one decision line.
    pub(super) fn count(&mut self, told: &CountedLine) {
        let fate = Fate::of_status(told.status);
        if told.metadata.replay_of.is_some() {
            self.repeated = self.repeated.saturating_add(1);
            return;
        }
        if told.lane == Lane::Feed && fate == Fate::Accepted {
            self.deliveries = self.deliveries.saturating_add(1);
            return;
        }
        self.total.count(fate);
        let start = start_of(told.timestamp.ms(), self.width_ms);
        self.stretches.entry(start).or_default().count(fate);
        if self.stretches.len() > COUNTED_MAX {
            self.widen();
        }
        if fate == Fate::Refused {
            self.refused(told);
        }
    }

    fn refused(&mut self, told: &CountedLine) {
        let failed = told.checks.iter().filter(|row| row.is_root());
        let mut names: BTreeSet<(By, String)> = failed
            .map(|row| {
                (
                    if is_of_rule(row) { By::Rule } else { By::Check },
                    row.name.to_string(),
                )
            })
            .collect();
        if names.is_empty() {
            let code = told
                .metadata
                .code
                .map_or_else(|| "none".to_owned(), |code| code.to_string());
            names.insert((By::Code, code));
        }
        let is_alone = u64::from(names.len() == 1);
        for name in names {
            let (requests, alone) = self.refusals.entry(name).or_default();
            *requests = requests.saturating_add(1);
            *alone = alone.saturating_add(is_alone);
        }
    }

    fn widen(&mut self) {
        self.width_ms = wider(self.width_ms);
        for (start, tally) in std::mem::take(&mut self.stretches) {
            self.stretches
                .entry(start_of(start, self.width_ms))
                .or_default()
                .add(&tally);
        }
    }

    /// Returns the counts, in periods long enough that there are at most [`STRETCHES_MAX`] from the
    /// first to the last.
    pub(super) fn finish(mut self) -> Decisions {
        let span = |counting: &Counting| {
            let first = counting
                .stretches
                .first_key_value()
                .map_or(0, |(start, _)| *start);
            let last = counting
                .stretches
                .last_key_value()
                .map_or(0, |(start, _)| *start);
            last.saturating_sub(first).div_euclid(counting.width_ms)
        };
        while span(&self) >= i64::try_from(STRETCHES_MAX).unwrap_or(i64::MAX) {
            self.widen();
        }
        let mut refusals: Vec<Refusal> = self
            .refusals
            .into_iter()
            .map(|((by, name), (requests, alone))| Refusal {
                by,
                name,
                requests,
                alone,
            })
            .collect();
        refusals.sort_by(|a, b| {
            b.requests
                .cmp(&a.requests)
                .then_with(|| a.name.cmp(&b.name))
        });
        let stretches = self.stretches.into_iter().filter_map(|(start, tally)| {
            let start = Time::from_ms(start).ok()?;
            Some(Stretch { start, tally })
        });
        Decisions {
            total: self.total,
            deliveries: self.deliveries,
            repeated: self.repeated,
            stretch_ms: self.width_ms,
            stretches: stretches.collect(),
            refusals,
        }
    }
}

/// Returns the next longer period: an hour, a day, a week, then doubled each time.
fn wider(width_ms: i64) -> i64 {
    match width_ms {
        HOUR_MS => DAY_MS,
        DAY_MS => DAY_MS.saturating_mul(7),
        weeks => weeks.saturating_mul(2),
    }
}

/// Returns the start of the period of an instant, within the calendar.
fn start_of(ms: i64, width_ms: i64) -> i64 {
    let anchor = if width_ms > DAY_MS { MONDAY_MS } else { 0 };
    let into = ms.saturating_sub(anchor).rem_euclid(width_ms);
    let earliest = Time::EPOCH.plus_ms(i64::MIN).ms();
    ms.saturating_sub(into).max(earliest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use spoolgate_wire::code::Code;

    fn told(time: &str, status: Status, checks: &[&str]) -> CountedLine {
        let row = |name: &&str| {
            let source = if name.starts_with("no-") {
                format!("rules/{name}.yaml")
            } else {
                "safety.yaml".into()
            };
            serde_json::json!({"name": name, "passed": false, "value": null, "limit": null,
                "source": source, "unit": "usd"})
        };
        let rows: Vec<_> = checks.iter().map(row).collect();
        CountedLine {
            timestamp: Time::parse(time).unwrap(),
            status,
            lane: Lane::Ordinary,
            metadata: Metadata {
                code: (status == Status::Rejected).then_some(Code::ChecksFailed),
                ..Metadata::default()
            },
            checks: serde_json::from_value(rows.into()).unwrap(),
        }
    }

    #[test]
    fn stretches_follow_the_span() {
        let cases = [
            (
                vec![
                    "2026-03-02T00:10:00Z",
                    "2026-03-02T00:50:00Z",
                    "2026-03-02T05:00:00Z",
                ],
                HOUR_MS,
                2,
            ),
            (
                vec!["2026-03-02T00:10:00Z", "2026-03-05T23:50:00Z"],
                HOUR_MS,
                2,
            ),
            (
                vec!["2026-03-02T00:10:00Z", "2026-03-06T00:10:00Z"],
                DAY_MS,
                2,
            ),
            (
                vec![
                    "2026-03-02T00:10:00Z",
                    "2026-05-02T00:10:00Z",
                    "2026-05-02T20:10:00Z",
                ],
                DAY_MS,
                2,
            ),
            (
                vec!["2025-03-02T00:10:00Z", "2026-03-02T00:10:00Z"],
                7 * DAY_MS,
                2,
            ),
            (
                vec!["1999-03-02T00:10:00Z", "2026-03-02T00:10:00Z"],
                7 * 16 * DAY_MS,
                2,
            ),
            (vec![], HOUR_MS, 0),
        ];
        for (times, width, stretches) in cases {
            let mut counting = Counting::default();
            times
                .iter()
                .for_each(|time| counting.count(&told(time, Status::Success, &[])));
            let found = counting.finish();
            assert_eq!(
                (found.stretch_ms, found.stretches.len()),
                (width, stretches),
                "{times:?}"
            );
            assert_eq!(found.total.accepted, times.len() as u64);
            let counted: u64 = found
                .stretches
                .iter()
                .map(|stretch| stretch.tally.all())
                .sum();
            assert_eq!(counted, times.len() as u64);
        }
    }

    #[test]
    fn weeks_begin_on_monday() {
        let monday = Time::parse("2026-03-02T00:00:00Z").unwrap();
        let sunday = Time::parse("2026-03-08T23:59:59Z").unwrap();
        assert_eq!(start_of(sunday.ms(), 7 * DAY_MS), monday.ms());
    }

    #[test]
    fn a_refusal_counts_once_for_everything_that_it_failed() {
        let mut counting = Counting::default();
        let at = "2026-03-02T00:10:00Z";
        counting.count(&told(
            at,
            Status::Rejected,
            &["max_order_value", "max_order_value", "no-mondays"],
        ));
        counting.count(&told(at, Status::Rejected, &["max_order_value"]));
        counting.count(&told(at, Status::Rejected, &[]));
        counting.count(&told(at, Status::Held, &["no-mondays"]));
        let mut repeated = told(at, Status::Rejected, &[]);
        repeated.metadata.replay_of = Some(3);
        counting.count(&repeated);
        let mut feed = told(at, Status::Success, &[]);
        feed.lane = Lane::Feed;
        counting.count(&feed);
        let found = counting.finish();
        assert_eq!(
            found.total,
            Tally {
                accepted: 0,
                refused: 3,
                held: 1
            }
        );
        assert_eq!((found.repeated, found.deliveries), (1, 1));
        let rows: Vec<_> = found
            .refusals
            .iter()
            .map(|row| (row.by, row.name.as_str(), row.requests, row.alone))
            .collect();
        assert_eq!(
            rows,
            [
                (By::Check, "max_order_value", 2, 1),
                (By::Code, "CHECKS_FAILED", 1, 1),
                (By::Rule, "no-mondays", 1, 0)
            ]
        );
    }
}
