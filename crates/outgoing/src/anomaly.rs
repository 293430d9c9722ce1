//! Anomalies. Bursts are measured by the times at which requests were signed, so that working off a
//! backlog does not count as a burst, and by the times at which actions began, except for the
//! backlog: a sender chooses the times that it signs.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// Most signing times that are kept per principal; more than begin within the longest window at any
/// sensible rate.
const KEPT_MAX: usize = 1024;

/// Why a request is held until a person grants it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Anomaly {
    /// Too many actions within a few seconds.
    Burst,
    /// A large payload.
    Payload,
}

impl Anomaly {
    /// Returns the name of its row in the check vector.
    pub fn check_name(self) -> &'static str {
        match self {
            Anomaly::Burst => "anomaly_burst",
            Anomaly::Payload => "anomaly_payload",
        }
    }
}

/// Times of the actions that one principal has begun, in milliseconds, in the order in which the
/// actions began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signed {
    /// When they were signed.
    times: VecDeque<i64>,
    /// When the newest began.
    begun: i64,
    /// When those began that were signed while the gate ran.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    live: VecDeque<i64>,
}

impl Signed {
    /// Records an action that was signed at `signed_ms` and begins at `begun_ms`. `is_live` says
    /// whether it was signed while the gate ran.
    pub fn note(&mut self, signed_ms: i64, begun_ms: i64, is_live: bool) {
        if begun_ms < self.begun {
            // The clock was set back, and a person has accepted it.
            self.times.clear();
            self.live.clear();
        }
        self.begun = begun_ms;
        self.times.push_back(signed_ms);
        if is_live {
            self.live.push_back(begun_ms);
        }
        for times in [&mut self.times, &mut self.live] {
            if times.len() > KEPT_MAX {
                times.pop_front();
            }
        }
    }

    /// Returns the largest number of actions that were signed in any window of this length that
    /// contains `ms`, counting one more action at `ms`. Two actions that are a whole window apart
    /// do not share a window.
    pub fn densest(&self, ms: i64, window_ms: i64) -> u32 {
        densest(&self.times, ms, window_ms)
    }

    /// Like [`Signed::densest`], for the actions that were signed while the gate ran, by the times
    /// at which they began.
    pub fn densest_begun(&self, ms: i64, window_ms: i64) -> u32 {
        densest(&self.live, ms, window_ms)
    }
}

fn densest(times: &VecDeque<i64>, ms: i64, window_ms: i64) -> u32 {
    let is_near = |other: &i64| ms.saturating_sub(*other).saturating_abs() < window_ms;
    let mut near: Vec<i64> = times.iter().copied().filter(is_near).chain([ms]).collect();
    near.sort_unstable();
    let before = |end: i64| near.partition_point(|other| *other < end);
    let starts = near.iter().copied().filter(|start| *start <= ms);
    let most = starts
        .map(|start| before(start.saturating_add(window_ms)).saturating_sub(before(start)))
        .max();
    u32::try_from(most.unwrap_or(1)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signed(times: &[i64]) -> Signed {
        let mut signed = Signed::default();
        times.iter().for_each(|ms| signed.note(*ms, 0, false));
        signed
    }

    #[test]
    fn the_densest_window_with_one_more_is_told_whatever_order_they_came_in() {
        for (times, ms, expect) in [
            (&[][..], 7, 1),
            (&[7, 7, 7], 7, 4),
            (&[0, 1000, 2000], 4999, 4),
            (&[0, 1000, 2000], 5000, 3),
            (&[2000, 0, 1000], 4999, 4),
            // Signed later than the others, or earlier.
            (&[90_000, 1000, 2000], 3000, 3),
            (&[9000, 9500], 5000, 3),
            (&[9000, 9500, 10_000], 5000, 3),
            (&[9000, 9500, 10_000], 5001, 4),
            // Two groups that do not share a window: the larger one counts, with the new action.
            (&[0, 0, 0, 8000, 8000], 4000, 4),
            (&[0, 0, 8000, 8000, 8000], 4000, 4),
            (&[i64::MIN, i64::MAX], 0, 1),
        ] {
            assert_eq!(signed(times).densest(ms, 5000), expect, "{times:?} {ms}");
        }
    }

    #[test]
    fn the_densest_window_is_what_trying_all_of_them_says() {
        let mut seed = 88_172_645_463_325_252_u64;
        let mut pick = |below: u64| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            i64::try_from(seed % below).unwrap()
        };
        for _ in 0..3000 {
            let count = pick(14);
            let times: Vec<i64> = (0..count).map(|_| pick(60)).collect();
            let (ms, window) = (pick(60), pick(20) + 1);
            let all: Vec<i64> = times.iter().copied().chain([ms]).collect();
            // Every window of that length that contains the new action, by its first instant.
            let starts = ms - window + 1..=ms;
            let most = starts
                .map(|from| {
                    all.iter()
                        .filter(|at| (from..from + window).contains(at))
                        .count()
                })
                .max();
            let expect = u32::try_from(most.unwrap()).unwrap();
            assert_eq!(
                signed(&times).densest(ms, window),
                expect,
                "{times:?} {ms} {window}"
            );
        }
    }

    #[test]
    fn memory_is_bounded_and_new_times_are_kept() {
        let mut signed = Signed::default();
        (0..5000).for_each(|n| signed.note(n * 1000, n, true));
        assert_eq!(
            (signed.times.len(), signed.live.len()),
            (KEPT_MAX, KEPT_MAX)
        );
        // New times are kept, even if they are old.
        (0..11).for_each(|_| signed.note(3, 5000, true));
        assert_eq!(
            (signed.times.len(), signed.densest(3, 5000)),
            (KEPT_MAX, 12)
        );
    }

    #[test]
    fn after_the_clock_was_set_back_it_counts_anew() {
        let mut signed = Signed::default();
        (0..9).for_each(|_| signed.note(10_000, 10_000, true));
        signed.note(10_000, 9_999, true);
        assert_eq!(signed.densest(10_000, 5000), 2);
        assert_eq!(signed.densest_begun(10_000, 5000), 2);
    }

    #[test]
    fn only_what_was_signed_while_the_gate_ran_counts_by_when_it_began() {
        let mut signed = Signed::default();
        (0..9).for_each(|n| signed.note(n * 100_000, 1000 + n, false));
        assert_eq!(signed.densest_begun(2000, 5000), 1);
        (0..9).for_each(|n| signed.note(n * 100_000, 2000 + n, true));
        for (now, expect) in [(2008, 10), (6999, 10), (7000, 9), (7008, 1)] {
            assert_eq!(signed.densest_begun(now, 5000), expect, "{now}");
            assert_eq!(signed.densest(50_000, 5000), 1);
        }
    }
}
