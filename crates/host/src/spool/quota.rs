//! The quota of a spool: a token bucket that holds a minute's worth and fills evenly. It decides
//! only when a file is claimed, which is an input like the order of arrival. No decision and no
//! ledger state depends on it, and it starts full.

use spoolgate_rules::rates::Quota;

/// A minute in milliseconds. Levels are counted in sixty-thousandths, so that filling is exact.
const MINUTE_MS: i128 = 60_000;

/// The bucket of one spool.
#[derive(Clone, Debug)]
pub struct Bucket {
    quota: Quota,
    /// Number of requests that may be claimed, times [`MINUTE_MS`].
    requests: i128,
    /// Number of bytes that may be claimed, times [`MINUTE_MS`]; negative after a file larger than
    /// a minute's worth.
    bytes: i128,
    at_ms: Option<u64>,
}

impl Bucket {
    /// A full bucket.
    pub fn full(quota: Quota) -> Bucket {
        let mut bucket = Bucket {
            quota,
            requests: 0,
            bytes: 0,
            at_ms: None,
        };
        (bucket.requests, bucket.bytes) = bucket.capacity();
        bucket
    }

    /// Changes the quota; what was used stays used.
    pub fn under(mut self, quota: Quota) -> Bucket {
        let (requests, bytes) = self.capacity();
        let (used_requests, used_bytes) = (requests - self.requests, bytes - self.bytes);
        self.quota = quota;
        let (requests, bytes) = self.capacity();
        self.requests = requests - used_requests;
        self.bytes = bytes - used_bytes;
        self
    }

    /// The quota.
    pub fn quota(&self) -> Quota {
        self.quota
    }

    fn capacity(&self) -> (i128, i128) {
        let requests = i128::from(self.quota.requests_per_minute.get());
        let bytes = i128::from(self.quota.bytes_per_minute.get());
        (requests * MINUTE_MS, bytes * MINUTE_MS)
    }

    /// Adds what accrued since the last call. `monotonic_ms` never goes back.
    pub fn fill(&mut self, monotonic_ms: u64) {
        let past = self
            .at_ms
            .replace(monotonic_ms)
            .map_or(0, |at| monotonic_ms.saturating_sub(at));
        let past = i128::from(past);
        let (requests, bytes) = self.capacity();
        // A minute's worth is both the capacity and the inflow per minute.
        self.requests = requests.min(self.requests + past * requests / MINUTE_MS);
        self.bytes = bytes.min(self.bytes + past * bytes / MINUTE_MS);
    }

    /// Whether a file of `bytes` bytes may be claimed. A file larger than a minute's worth needs a
    /// full bucket; otherwise it could never be claimed.
    pub fn affords(&self, bytes: u64) -> bool {
        let (_, full) = self.capacity();
        self.requests >= MINUTE_MS && self.bytes >= full.min(i128::from(bytes) * MINUTE_MS)
    }

    /// Deducts a claimed file.
    pub fn pay(&mut self, bytes: u64) {
        self.requests -= MINUTE_MS;
        self.bytes -= i128::from(bytes) * MINUTE_MS;
    }

    /// Deducts a file that was claimed regardless of the quota. Such files lead to a debt of at
    /// most a minute's worth.
    pub fn owe(&mut self, bytes: u64) {
        let (least_requests, least_bytes) = self.capacity();
        let before = (self.requests, self.bytes);
        self.pay(bytes);
        self.requests = self.requests.max(before.0.min(-least_requests));
        self.bytes = self.bytes.max(before.1.min(-least_bytes));
    }

    /// Whether the bucket holds at least half of a minute's worth.
    pub fn is_half_full(&self) -> bool {
        let (requests, bytes) = self.capacity();
        self.requests * 2 >= requests && self.bytes * 2 >= bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(requests: u32, bytes: u64) -> Bucket {
        let requests_per_minute = u64::from(requests).try_into().unwrap();
        let bytes_per_minute = bytes.try_into().unwrap();
        let mut bucket = Bucket::full(Quota {
            requests_per_minute,
            bytes_per_minute,
        });
        bucket.fill(0);
        bucket
    }

    /// Returns how many files of this size pass at once.
    fn passing(bucket: &mut Bucket, bytes: u64, tries: usize) -> usize {
        (0..tries)
            .take_while(|_| bucket.affords(bytes).then(|| bucket.pay(bytes)).is_some())
            .count()
    }

    #[test]
    fn a_minutes_worth_passes_and_not_one_more() {
        for tries in [9, 10, 11] {
            assert_eq!(
                passing(&mut bucket(10, 1_000_000), 1, tries),
                tries.min(10),
                "requests, {tries}"
            );
            assert_eq!(
                passing(&mut bucket(1000, 1000), 100, tries),
                tries.min(10),
                "bytes, {tries}"
            );
        }
        for (size, passes) in [(999, true), (1000, true), (1001, true)] {
            assert_eq!(
                bucket(10, 1000).affords(size),
                passes,
                "{size}: a full bucket takes any file"
            );
        }
        let mut used = bucket(10, 1000);
        used.pay(1);
        for (size, passes) in [(998, true), (999, true), (1000, false), (1001, false)] {
            assert_eq!(used.affords(size), passes, "{size} of 999");
        }
    }

    #[test]
    fn it_fills_evenly_and_to_the_millisecond() {
        let mut bucket = bucket(10, 1_000_000);
        assert_eq!(passing(&mut bucket, 1, 20), 10);
        for (at_ms, more) in [
            (5_999, 0),
            (6_000, 1),
            (11_999, 0),
            (12_001, 1),
            (17_999, 0),
            (18_000, 1),
        ] {
            bucket.fill(at_ms);
            assert_eq!(passing(&mut bucket, 1, 20), more, "at {at_ms} ms");
        }
        bucket.fill(10_000_000);
        assert_eq!(
            passing(&mut bucket, 1, 20),
            10,
            "never more than a minute's worth"
        );
    }

    #[test]
    fn a_file_larger_than_a_minutes_worth_is_paid_for_later() {
        let mut bucket = bucket(10, 1000);
        bucket.pay(10_000);
        for (minutes, passes) in [(9, false), (10, true)] {
            bucket.fill(minutes * 60_000);
            assert_eq!(
                bucket.affords(1000),
                minutes == 10,
                "{passes}: after {minutes} minutes"
            );
        }
    }

    #[test]
    fn exempt_requests_leave_at_most_a_minutes_debt() {
        let mut bucket = bucket(10, 1000);
        (0..1000).for_each(|_| bucket.owe(100));
        for (at_ms, passes) in [(65_999, false), (66_000, true)] {
            bucket.fill(at_ms);
            assert_eq!(bucket.affords(1), passes, "at {at_ms} ms");
        }
        // The limit does not reduce the debt of a large file.
        bucket.pay(10_000);
        bucket.owe(100);
        bucket.fill(66_000 + 8 * 60_000);
        assert!(!bucket.affords(1));
    }

    #[test]
    fn a_changed_quota_forgives_nothing() {
        let mut old = bucket(10, 1000);
        assert_eq!(passing(&mut old, 1, 20), 10);
        let quota = bucket(20, 1000).quota();
        assert_eq!(passing(&mut old.under(quota), 1, 20), 10);
    }
}
