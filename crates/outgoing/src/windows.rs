//! Counts within a span of seconds. They are kept per second of the time in ledger lines, so they
//! are the same after a restart.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// Counts per second, oldest first. An event counts for the rest of its second and `LENGTH_S` more
/// seconds, so that every span of this length is covered. There are at most `LENGTH_S` + 1 entries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window<const LENGTH_S: i64> {
    counts: VecDeque<(i64, u32)>,
    total: u32,
}

/// A window of one hour.
pub type Hour = Window<3600>;

impl<const LENGTH_S: i64> Window<LENGTH_S> {
    /// Counts one event.
    pub fn count(&mut self, second: i64) {
        if self
            .counts
            .back()
            .is_some_and(|(newest, _)| *newest > second)
        {
            // The clock was set back, and a person has accepted it.
            *self = Window::default();
        }
        while let Some((at, count)) = self.counts.front().copied()
            && second.saturating_sub(at) > LENGTH_S
        {
            self.total = self.total.saturating_sub(count);
            self.counts.pop_front();
        }
        match self.counts.back_mut() {
            Some((at, count)) if *at == second => *count = count.saturating_add(1),
            _ => self.counts.push_back((second, 1)),
        }
        self.total = self.total.saturating_add(1);
    }

    /// Returns the number of events in the span that ends with `second`, inclusive.
    pub fn within(&self, second: i64) -> u32 {
        if self
            .counts
            .back()
            .is_some_and(|(newest, _)| *newest > second)
        {
            return 0;
        }
        let is_old = |(at, _): &&(i64, u32)| second.saturating_sub(*at) > LENGTH_S;
        self.counts
            .iter()
            .take_while(is_old)
            .fold(self.total, |left, (_, old)| left.saturating_sub(*old))
    }

    /// Returns when fewer than `most` of the present events will count, milliseconds since the
    /// epoch. `most` must not be 0.
    pub fn room_at_ms(&self, second: i64, most: u32) -> i64 {
        let mut left = self.within(second);
        let mut at = second;
        for (counted, count) in self
            .counts
            .iter()
            .filter(|(at, _)| second.saturating_sub(*at) <= LENGTH_S)
        {
            if left < most {
                break;
            }
            left = left.saturating_sub(*count);
            at = counted.saturating_add(LENGTH_S).saturating_add(1);
        }
        at.saturating_mul(1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same counts, computed from a list of all times.
    #[derive(Default)]
    struct Naive(Vec<i64>);

    impl Naive {
        fn count(&mut self, second: i64) {
            if self.0.last().is_some_and(|newest| *newest > second) {
                self.0.clear();
            }
            self.0.push(second);
        }

        fn within(&self, second: i64) -> usize {
            if self.0.last().is_some_and(|newest| *newest > second) {
                return 0;
            }
            self.0.iter().filter(|at| second - **at <= 3600).count()
        }

        /// Finds the second by trying one after the other.
        fn room_at(&self, second: i64, most: usize) -> i64 {
            (second..).find(|at| self.within(*at) < most).unwrap()
        }
    }

    fn next(seed: &mut u64) -> u64 {
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        *seed
    }

    fn pick(seed: &mut u64, below: u64) -> i64 {
        i64::try_from(next(seed) % below).unwrap()
    }

    #[test]
    fn an_hour_is_what_a_list_of_all_times_says() {
        for run in 1..=20_u64 {
            let mut seed = run.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let (mut hour, mut naive) = (Hour::default(), Naive::default());
            let mut now = 1_772_000_000_i64;
            for _ in 0..400 {
                let step = [0, 0, 0, 1, 17, 600, 3599, 3600, 3601, 9000, -1, -4000]
                    [usize::try_from(pick(&mut seed, 12)).unwrap()];
                // Set back only rarely.
                now += if step < 0 && pick(&mut seed, 20) > 0 {
                    3
                } else {
                    step
                };
                assert_eq!(
                    usize::try_from(hour.within(now)).unwrap(),
                    naive.within(now)
                );
                let most = u32::try_from(pick(&mut seed, 12) + 1).unwrap();
                let room = naive.room_at(now, usize::try_from(most).unwrap());
                assert_eq!(hour.room_at_ms(now, most), room * 1000, "{most} at {now}");
                if pick(&mut seed, 3) > 0 {
                    hour.count(now);
                    naive.count(now);
                }
            }
        }
    }

    #[test]
    fn an_event_counts_for_its_window_and_less_than_a_second_more() {
        let mut hour = Hour::default();
        hour.count(100);
        for (second, expect) in [(100, 1), (3699, 1), (3700, 1), (3701, 0), (99, 0)] {
            assert_eq!(hour.within(second), expect, "{second}");
        }
        let mut minute = Window::<60>::default();
        minute.count(100);
        assert_eq!((minute.within(160), minute.within(161)), (1, 0));
    }

    #[test]
    fn no_more_is_kept_than_a_span_of_seconds() {
        let mut hour = Hour::default();
        (0..20_000).for_each(|second| (0..3).for_each(|_| hour.count(second)));
        assert_eq!((hour.counts.len(), hour.total), (3601, 3 * 3601));
        assert_eq!(hour.within(19_999), 3 * 3601);
        hour.count(50_000);
        assert_eq!((hour.counts.len(), hour.total), (1, 1));
    }

    #[test]
    fn after_the_clock_was_set_back_it_counts_anew() {
        let mut hour = Hour::default();
        (0..5).for_each(|_| hour.count(10_000));
        assert_eq!(
            (hour.within(9_000), hour.room_at_ms(9_000, 1)),
            (0, 9_000_000)
        );
        hour.count(9_000);
        assert_eq!((hour.within(9_000), hour.counts.len()), (1, 1));
    }
}
