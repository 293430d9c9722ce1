//! A wall clock that can jump in both directions, and a monotonic clock that cannot.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use spoolgate_host::clock::Clock;
use spoolgate_wire::time::Time;

/// The clock. Only waiting and [`SimClock::pass`] move both clocks; [`SimClock::jump`] moves the
/// wall clock.
#[derive(Debug)]
pub(super) struct SimClock {
    wall_ms: AtomicI64,
    monotonic_ms: AtomicU64,
}

impl SimClock {
    /// Starts at `now`.
    pub(super) fn at(now: Time) -> SimClock {
        SimClock {
            wall_ms: AtomicI64::new(now.ms()),
            monotonic_ms: AtomicU64::new(0),
        }
    }

    /// Moves both clocks.
    pub(super) fn pass(&self, ms: u64) {
        self.wall_ms
            .fetch_add(i64::try_from(ms).unwrap(), Ordering::SeqCst);
        self.monotonic_ms.fetch_add(ms, Ordering::SeqCst);
    }

    /// Sets the wall clock.
    pub(super) fn jump(&self, ms: i64) {
        self.wall_ms.fetch_add(ms, Ordering::SeqCst);
    }

    /// The machine restarts: the monotonic clock starts from zero.
    pub(super) fn restart(&self) {
        self.monotonic_ms.store(0, Ordering::SeqCst);
    }
}

impl Clock for SimClock {
    fn now(&self) -> Time {
        Time::from_ms(self.wall_ms.load(Ordering::SeqCst)).unwrap_or(Time::EPOCH)
    }

    fn monotonic_ms(&self) -> u64 {
        self.monotonic_ms.load(Ordering::SeqCst)
    }

    fn sleep(&self, duration: Duration) {
        self.pass(u64::try_from(duration.as_millis()).unwrap());
    }
}
