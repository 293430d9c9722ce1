//! One spool in the scanner's ring: its folder as an open stream, the bytes it has saved up, and
//! its waiting files.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;

use super::claim;
use super::peek::{Remembered, Room};
use super::quota::Bucket;
use super::scan::folder;
use spoolgate_gate::prepare::Origin;
use spoolgate_ledger::disk::{DirStream, Disk, Kind};

/// Number of bytes that each turn adds to a spool's deficit.
pub(super) const QUANTUM: u64 = 64 * 1024;

/// A file that exceeds the quota and is claimed next when there is room: of those met, the one that
/// has waited longest.
struct Held {
    name: OsString,
    bytes: u64,
    since_ms: u64,
    /// Whether it was met since the folder was last opened; if not, it is gone.
    met: bool,
}

/// A spool in the scanner's ring.
pub(super) struct Source {
    /// The origin of its files.
    pub origin: Origin,
    /// Its folder below the home.
    pub dir: PathBuf,
    stream: Option<DirStream>,
    /// Number of names that this pass has read and that are still in the folder, as far as is
    /// known.
    passed: usize,
    /// A name that comes before the rest of the stream.
    head: Option<(OsString, Option<Kind>)>,
    /// Remembered unfinished files that were met since the stream was opened. A batch can fill up
    /// anywhere in a folder, so only a stream read to its end shows which files are gone.
    pub met: BTreeSet<OsString>,
    /// Number of bytes that may be read of this spool.
    pub deficit: u64,
    /// Whether it takes no more turns in this round, because its folder was read to its end.
    pub is_done: bool,
    /// Whether that already happened since all spools were last marked for a new look.
    pub was_done: bool,
    claimed_in_pass: bool,
    /// Its quota. `None` if there is no limit.
    pub bucket: Option<Bucket>,
    held: Option<Held>,
    /// Whether a message was issued that files wait here over the quota.
    told: bool,
    /// Files that were left because of the quota.
    pub remembered: Remembered,
    pass_began_ms: u64,
    rests_until_ms: u64,
}

impl Source {
    /// A spool that has not been scanned yet.
    pub(super) fn new(origin: Origin, bucket: Option<Bucket>) -> Source {
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

    /// Resets the spool after the rules were read again; without a quota nothing is held back any
    /// more.
    pub(super) fn again(mut self, bucket: Option<Bucket>, room: &mut Room) -> Source {
        self.remembered.clear(room);
        let told = self.told && bucket.is_some();
        Source {
            told,
            ..Source::new(self.origin, bucket)
        }
    }

    /// Begins a turn at this time.
    pub(super) fn begin_turn(&mut self, monotonic_ms: u64) {
        let Some(bucket) = &mut self.bucket else {
            return;
        };
        bucket.fill(monotonic_ms);
        if self.head.is_none() {
            let held = self.held.take_if(|held| bucket.affords(held.bytes));
            self.head = held.map(|held| (held.name, None));
        }
    }

    /// Whether files are waiting over the quota, or were recently.
    pub(super) fn is_over(&self) -> bool {
        self.told
    }

    /// Whether the folder was read so recently that it is not opened again yet: a sender with many
    /// files over the quota must not keep the gate busy with reading them.
    pub(super) fn rests(&self, monotonic_ms: u64) -> bool {
        self.told
            && self.passed == 0
            && self.stream.is_none()
            && self.head.is_none()
            && monotonic_ms < self.rests_until_ms
    }

    /// Whether a file of `bytes` bytes is within the quota and no file that waits longer comes
    /// first.
    pub(super) fn affords(&self, bytes: u64) -> bool {
        self.bucket
            .as_ref()
            .is_none_or(|bucket| self.held.is_none() && bucket.affords(bytes))
    }

    /// Records that this file exceeds the quota. Returns a message if it is the first.
    pub(super) fn hold(&mut self, name: &OsStr, bytes: u64, since_ms: u64) -> Option<String> {
        let is_next = self
            .held
            .as_ref()
            .is_none_or(|held| held.name == name || since_ms < held.since_ms);
        if is_next {
            self.held = Some(Held {
                name: name.to_owned(),
                bytes,
                since_ms,
                met: true,
            });
        }
        if self.told {
            return None;
        }
        let quota = self.bucket.as_ref()?.quota();
        self.told = true;
        Some(format!(
            "`{}` is over its quota of {} requests and {} bytes a minute: what waits there stays \
                unclaimed until there is room; exits, cancels, tightens, halts and people go on",
            self.dir.display(),
            quota.requests_per_minute,
            quota.bytes_per_minute
        ))
    }

    /// Records that a file was claimed.
    pub(super) fn claimed(&mut self) {
        self.claimed_in_pass = true;
        self.passed = self.passed.saturating_sub(1);
    }

    /// Whether its folder is open.
    pub(super) fn is_open(&self) -> bool {
        self.stream.is_some()
    }

    /// Closes the folder; when it is opened again, the pass continues at about the same place.
    pub(super) fn close(&mut self) {
        self.stream = None;
    }

    /// Puts a name back to the front, to wait until the spool has saved enough.
    pub(super) fn put_back(&mut self, name: OsString, kind: Option<Kind>) {
        self.head = Some((name, kind));
    }

    /// Ends its turns in this round. Returns 1 if this is the first time since all spools were
    /// marked for a new look, otherwise 0.
    pub(super) fn done(&mut self) -> usize {
        self.is_done = true;
        usize::from(!std::mem::replace(&mut self.was_done, true))
    }

    /// Ends a pass: the folder was read to its end. Returns a message if nothing is waiting any
    /// more.
    pub(super) fn end_pass(&mut self, monotonic_ms: u64, room: &mut Room) -> Option<String> {
        self.passed = 0;
        // A spool in which nothing is waiting must not save up bytes.
        self.deficit = if self.claimed_in_pass {
            self.deficit.min(QUANTUM)
        } else {
            0
        };
        self.claimed_in_pass = false;
        self.remembered.end_of_pass(room);
        self.held.take_if(|held| !std::mem::take(&mut held.met));
        self.rests_until_ms =
            monotonic_ms.saturating_add(monotonic_ms.saturating_sub(self.pass_began_ms));
        let is_back = self.told
            && self.held.is_none()
            && self.bucket.as_ref().is_none_or(Bucket::is_half_full);
        is_back.then(|| {
            self.told = false;
            format!(
                "`{}` is within its quota again: nothing waits",
                self.dir.display()
            )
        })
    }

    /// The next name of the folder. `None` at its end; the call after that starts again.
    pub(super) fn next_name(
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
                // Agents can remove or replace entries in the folders they own, and it is up to
                // them to repair that. The flat spool itself is not theirs.
                Err(error)
                    if self.origin != Origin::Flat
                        && (is_no_folder(&error) || claim::is_senders_doing(&error)) =>
                {
                    return Ok(None);
                }
                Err(error) => return Err(error),
            };
            // Skip what the pass has seen already; that is approximate if the order of the folder
            // has changed since.
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

/// Whether this is the error of opening a file, a link, or a folder without permission as a folder.
fn is_no_folder(error: &io::Error) -> bool {
    const ELOOP: i32 = 40;
    matches!(
        error.kind(),
        io::ErrorKind::NotADirectory | io::ErrorKind::PermissionDenied
    ) || error.raw_os_error() == Some(ELOOP)
}
