//! One spool in the scanner's ring: its folder as an open stream, what it has saved, and what waits in it.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;

use super::claim;
use super::peek::{Remembered, Room};
use super::quota::Bucket;
use super::scan::folder;
use crate::gate::prepare::Origin;
use crate::host::disk::{DirStream, Disk, Kind};

/// Bytes that a turn adds to what a spool may have read.
pub const QUANTUM: u64 = 64 * 1024;

/// A file that cannot be paid yet, and is the next when it can: of those met, the one that waits longest.
struct Held {
    name: OsString,
    bytes: u64,
    since_ms: u64,
    /// Whether it was met since the folder was last opened: else it is gone.
    met: bool,
}

/// One spool.
pub struct Source {
    /// Which one.
    pub origin: Origin,
    /// Its folder below the home.
    pub dir: PathBuf,
    stream: Option<DirStream>,
    /// Names of this pass that are behind the stream and still in the folder, as far as is known.
    passed: usize,
    /// The name that comes before the rest of the stream.
    head: Option<(OsString, Option<Kind>)>,
    /// Remembered unfinished files met since the stream was opened. A batch can fill up anywhere in a
    /// folder, so only a stream read to its end tells which are gone.
    pub met: BTreeSet<OsString>,
    /// Bytes that it may have read.
    pub deficit: u64,
    /// Whether it takes no more turns in this round: its folder was read to its end.
    pub is_done: bool,
    /// Whether that was so in an earlier round, since all spools were last looked at afresh.
    pub was_done: bool,
    claimed_in_pass: bool,
    /// Its quota; none: no limit.
    pub bucket: Option<Bucket>,
    held: Option<Held>,
    /// Whether it was told that files wait here over the quota.
    told: bool,
    /// Files that were left over quota.
    pub remembered: Remembered,
    pass_began_ms: u64,
    rests_until_ms: u64,
}

impl Source {
    /// A spool that was not looked at yet.
    pub fn new(origin: Origin, bucket: Option<Bucket>) -> Source {
        Source {
            dir: folder(&origin),
            origin,
            stream: None,
            passed: 0,
            head: None,
            met: BTreeSet::new(),
            deficit: 0,
            is_done: false,
            was_done: false,
            claimed_in_pass: false,
            bucket,
            held: None,
            told: false,
            remembered: Remembered::default(),
            pass_began_ms: 0,
            rests_until_ms: 0,
        }
    }

    /// The same spool after the rules were read again; a quota that is gone holds nothing back.
    pub fn again(mut self, bucket: Option<Bucket>, room: &mut Room) -> Source {
        self.remembered.clear(room);
        let told = self.told && bucket.is_some();
        Source { told, ..Source::new(self.origin, bucket) }
    }

    /// Begins a turn at this time.
    pub fn begin_turn(&mut self, monotonic_ms: u64) {
        let Some(bucket) = &mut self.bucket else { return };
        bucket.fill(monotonic_ms);
        if self.head.is_none() {
            let held = self.held.take_if(|held| bucket.affords(held.bytes));
            self.head = held.map(|held| (held.name, None));
        }
    }

    /// Whether files wait over the quota, or did lately.
    pub fn is_over(&self) -> bool {
        self.told
    }

    /// Whether its folder was gone through so lately that it is not yet opened again: who leaves many files
    /// over the quota must not keep the gate at going through them.
    pub fn rests(&self, monotonic_ms: u64) -> bool {
        self.told
            && self.passed == 0
            && self.stream.is_none()
            && self.head.is_none()
            && monotonic_ms < self.rests_until_ms
    }

    /// Whether a file of so many bytes can be paid, and none that waits longer comes first.
    pub fn affords(&self, bytes: u64) -> bool {
        self.bucket.as_ref().is_none_or(|bucket| self.held.is_none() && bucket.affords(bytes))
    }

    /// This file cannot be paid. Returns what is to be told if it is the first.
    pub fn hold(&mut self, name: &OsStr, bytes: u64, since_ms: u64) -> Option<String> {
        let is_next = self.held.as_ref().is_none_or(|held| held.name == name || since_ms < held.since_ms);
        if is_next {
            self.held = Some(Held { name: name.to_owned(), bytes, since_ms, met: true });
        }
        if self.told {
            return None;
        }
        let quota = self.bucket.as_ref()?.quota();
        self.told = true;
        Some(format!(
            "`{}` is over its quota of {} requests and {} bytes a minute: what waits there stays unclaimed until there is room; exits, cancels, tightens, halts and people go on",
            self.dir.display(),
            quota.requests_per_minute,
            quota.bytes_per_minute
        ))
    }

    /// A file was claimed.
    pub fn claimed(&mut self) {
        self.claimed_in_pass = true;
        self.passed = self.passed.saturating_sub(1);
    }

    /// Whether its folder is held open.
    pub fn is_open(&self) -> bool {
        self.stream.is_some()
    }

    /// Gives back the folder; the pass goes on from about there when it is opened again.
    pub fn close(&mut self) {
        self.stream = None;
    }

    /// Puts a name back to the front: it waits until more is saved.
    pub fn put_back(&mut self, name: OsString, kind: Option<Kind>) {
        self.head = Some((name, kind));
    }

    /// No more turns in this round. Returns 1 for the first time since all spools were looked at afresh.
    pub fn done(&mut self) -> usize {
        self.is_done = true;
        usize::from(!std::mem::replace(&mut self.was_done, true))
    }

    /// The folder was read to its end. Returns what is to be told when nothing waits any more.
    pub fn end_pass(&mut self, monotonic_ms: u64, room: &mut Room) -> Option<String> {
        self.passed = 0;
        // Whoever has nothing waiting saves nothing.
        self.deficit = if self.claimed_in_pass { self.deficit.min(QUANTUM) } else { 0 };
        self.claimed_in_pass = false;
        self.remembered.end_of_pass(room);
        self.held.take_if(|held| !std::mem::take(&mut held.met));
        self.rests_until_ms = monotonic_ms.saturating_add(monotonic_ms.saturating_sub(self.pass_began_ms));
        let is_back =
            self.told && self.held.is_none() && self.bucket.as_ref().is_none_or(Bucket::is_half_full);
        is_back.then(|| {
            self.told = false;
            format!("`{}` is within its quota again: nothing waits", self.dir.display())
        })
    }

    /// The next name of the folder; none at its end, after which it starts again.
    pub fn next_name(
        &mut self,
        disk: &dyn Disk,
        monotonic_ms: u64,
    ) -> io::Result<Option<(OsString, Option<Kind>)>> {
        if let Some(head) = self.head.take() {
            return Ok(Some(head));
        }
        if self.stream.is_none() {
            if self.passed == 0 {
                self.pass_began_ms = monotonic_ms;
            }
            self.stream = match disk.read_dir(&self.dir) {
                Ok(stream) => Some(stream),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                // What lies in a folder of agents can be taken away or replaced by them, and is for them to mend;
                // the flat spool itself cannot.
                Err(error)
                    if self.origin != Origin::Flat
                        && (is_no_folder(&error) || claim::is_senders_doing(&error)) =>
                {
                    return Ok(None);
                }
                Err(error) => return Err(error),
            };
            // What the pass has seen already, as far as the order of the folder has not changed since.
            let seen = self.stream.as_mut().into_iter().flatten().take(self.passed);
            seen.for_each(drop);
        }
        match self.stream.as_mut().and_then(Iterator::next) {
            Some(entry) => {
                self.passed = self.passed.saturating_add(1);
                entry.map(|entry| Some((entry.name, entry.kind)))
            }
            None => {
                self.stream = None;
                Ok(None)
            }
        }
    }
}

/// Whether this is what opening a file, a link or a folder closed to the gate gives.
fn is_no_folder(error: &io::Error) -> bool {
    const ELOOP: i32 = 40;
    matches!(error.kind(), io::ErrorKind::NotADirectory | io::ErrorKind::PermissionDenied)
        || error.raw_os_error() == Some(ELOOP)
}
