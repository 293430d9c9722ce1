//! The interface to the clock.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use spoolgate_wire::time::Time;

/// A source of time that can also wait.
pub trait Clock: Send + Sync {
    /// The machine's wall clock.
    fn now(&self) -> Time;
    /// Milliseconds since some fixed moment; never goes back. For measuring waits, not for dates.
    fn monotonic_ms(&self) -> u64;
    /// Waits for this long.
    fn sleep(&self, duration: Duration);
}

/// The real clock.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock {
            start: Instant::now(),
        }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Time {
        // A clock before 1970 or after 9999 reads as 1970. The ledger's clock never goes back, so
        // this counts as a clock step, which closes entries.
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        i64::try_from(since.as_millis())
            .ok()
            .and_then(|ms| Time::from_ms(ms).ok())
            .unwrap_or(Time::EPOCH)
    }

    fn monotonic_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn sleep(&self, duration: Duration) {
        std::thread::sleep(duration);
    }
}

/// A clock that moves only on request or by waiting. For the demo, replays and tests.
#[derive(Debug)]
pub struct ManualClock {
    now_ms: AtomicI64,
    start_ms: i64,
}

impl ManualClock {
    /// A clock that shows `now`.
    pub fn at(now: Time) -> ManualClock {
        ManualClock {
            now_ms: AtomicI64::new(now.ms()),
            start_ms: now.ms(),
        }
    }

    /// Moves it to `now`.
    pub fn set(&self, now: Time) {
        self.now_ms.store(now.ms(), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Time {
        Time::from_ms(self.now_ms.load(Ordering::SeqCst)).unwrap_or(Time::EPOCH)
    }

    fn monotonic_ms(&self) -> u64 {
        let since = self
            .now_ms
            .load(Ordering::SeqCst)
            .saturating_sub(self.start_ms);
        u64::try_from(since).unwrap_or(0)
    }

    fn sleep(&self, duration: Duration) {
        let ms = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        self.now_ms.fetch_add(ms, Ordering::SeqCst);
    }
}
