//! The quota of one spool and what waits because of it. All owners of the flat spool share one.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::quota::Bucket;
use spoolgate_rules::rates::Quota;

/// A file that exceeds the quota and is claimed next when there is room: of those met, a file of
/// the owner that has waited longest for a claim, and of its files the one that has waited longest.
struct Held {
    owner: Option<u32>,
    name: OsString,
    bytes: u64,
    /// Number of the last claim of its owner, then when the file was first met.
    rank: (u64, u64),
    /// Whether it was met since the folder was last opened; if not, it is gone.
    met: bool,
}

/// A spool's quota.
pub(super) struct Allowance {
    dir: PathBuf,
    bucket: Bucket,
    held: Option<Held>,
    /// Whether a message was issued that files wait here over the quota.
    told: bool,
    claims: u64,
}

impl Allowance {
    /// A full quota of the spool in this folder.
    pub(super) fn full(dir: &Path, quota: Quota) -> Allowance {
        Allowance {
            dir: dir.to_owned(),
            bucket: Bucket::full(quota),
            held: None,
            told: false,
            claims: 0,
        }
    }

    /// Changes the quota; what was used stays used.
    pub(super) fn under(self, quota: Quota) -> Allowance {
        Allowance {
            bucket: self.bucket.under(quota),
            held: None,
            ..self
        }
    }

    /// Whether files are waiting over the quota, or were recently.
    pub(super) fn is_over(&self) -> bool {
        self.told
    }

    /// Adds what accrued since the last call.
    pub(super) fn fill(&mut self, monotonic_ms: u64) {
        self.bucket.fill(monotonic_ms);
    }

    /// Takes the waiting file that is claimed next, if it is this owner's and there is room for it.
    pub(super) fn take_held(&mut self, owner: Option<u32>) -> Option<OsString> {
        let bucket = &self.bucket;
        let held = self
            .held
            .take_if(|held| held.owner == owner && bucket.affords(held.bytes));
        held.map(|held| held.name)
    }

    /// Whether a file of `bytes` bytes is within the quota and no file that waits longer comes
    /// first.
    pub(super) fn affords(&self, bytes: u64) -> bool {
        self.held.is_none() && self.bucket.affords(bytes)
    }

    /// Records that a file of this owner, whose last claim has number `last`, exceeds the quota.
    /// Returns a message if it is the first.
    pub(super) fn hold(
        &mut self,
        (owner, last): (Option<u32>, u64),
        name: &OsStr,
        bytes: u64,
        since_ms: u64,
    ) -> Option<String> {
        let rank = (last, since_ms);
        let is_next = self
            .held
            .as_ref()
            .is_none_or(|held| (held.owner == owner && held.name == name) || rank < held.rank);
        if is_next {
            self.held = Some(Held {
                owner,
                name: name.to_owned(),
                bytes,
                rank,
                met: true,
            });
        }
        if self.told {
            return None;
        }
        let quota = self.bucket.quota();
        self.told = true;
        Some(format!(
            "`{}` is over its quota of {} requests and {} bytes a minute: what waits there stays \
                unclaimed until there is room; exits, cancels, tightens, halts and people go on",
            self.dir.display(),
            quota.requests_per_minute,
            quota.bytes_per_minute
        ))
    }

    /// Deducts a claimed file and returns the number of the claim.
    pub(super) fn pay(&mut self, bytes: u64) -> u64 {
        self.bucket.pay(bytes);
        self.claims = self.claims.saturating_add(1);
        self.claims
    }

    /// Deducts a file that was claimed regardless of the quota.
    pub(super) fn owe(&mut self, bytes: u64) {
        self.bucket.owe(bytes);
    }

    /// Forgets the waiting file of an owner if it was not met in a whole pass over that owner's
    /// files. Returns a message if nothing is waiting any more.
    pub(super) fn end_pass(&mut self, owner: Option<u32>) -> Option<String> {
        self.held
            .take_if(|held| held.owner == owner && !std::mem::take(&mut held.met));
        let is_back = self.told && self.held.is_none() && self.bucket.is_half_full();
        is_back.then(|| {
            self.told = false;
            format!(
                "`{}` is within its quota again: nothing waits",
                self.dir.display()
            )
        })
    }

    /// Forgets the waiting file of an owner that has no place any more.
    pub(super) fn forget(&mut self, owner: Option<u32>) {
        self.held.take_if(|held| held.owner == owner);
    }
}
