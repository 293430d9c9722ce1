//! One spool in the scanner's ring: its folder as an open stream or the names that were listed for
//! it, and the bytes it has saved up.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use super::allowance::Allowance;
use super::claim;
use super::peek::{Remembered, Room};
use super::scan::{Gate, folder};
use super::stuck::Stuck;
use spoolgate_gate::prepare::Origin;
use spoolgate_ledger::disk::{DirStream, Disk, Kind};

/// Number of bytes that each turn adds to a spool's deficit.
pub(super) const QUANTUM: u64 = 64 * 1024;

/// Where the names of a spool come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Names {
    /// The spool reads its folder itself.
    Folder,
    /// A look at the flat spool lists names; the latest one has not ended yet.
    SomeListed,
    /// The same; the latest look has listed all names of this owner.
    AllListed,
}

/// What a spool has next.
pub(super) enum Next {
    /// This name.
    Name(OsString, Option<Kind>),
    /// The end of a pass over its names.
    End,
    /// Nothing before the flat spool is looked at again.
    Later,
}

/// A spool in the scanner's ring: the spool of commands, an agent's own, or the files of one owner
/// in the flat spool.
pub(super) struct Source {
    /// The origin of its files.
    pub origin: Origin,
    /// The owner of its files in the flat spool. `None` for other spools, and for all owners that
    /// have no place of their own.
    pub owner: Option<u32>,
    /// Its folder below the home.
    pub dir: PathBuf,
    names: Names,
    /// Names that a look at the flat spool has listed.
    listed: VecDeque<(OsString, Option<Kind>)>,
    /// Whether the look at the flat spool that began last lists names here.
    lists: bool,
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
    /// Number of its last claim under the quota.
    last_claim: u64,
    /// Files that were left because of the quota.
    pub remembered: Remembered,
    /// Entries that cannot be moved away.
    pub stuck: Stuck,
    /// Whether its folder belongs to another user, so that it is not read.
    is_foreign: bool,
    pass_began_ms: u64,
    rests_until_ms: u64,
}

impl Source {
    /// A spool that has not been scanned yet.
    pub(super) fn new(origin: Origin, owner: Option<u32>) -> Source {
        Source {
            dir: folder(&origin),
            names: match origin {
                Origin::Flat => Names::SomeListed,
                _ => Names::Folder,
            },
            origin,
            owner,
            listed: VecDeque::new(),
            lists: false,
            stream: None,
            passed: 0,
            head: None,
            met: BTreeSet::new(),
            deficit: 0,
            is_done: false,
            was_done: false,
            claimed_in_pass: false,
            last_claim: 0,
            remembered: Remembered::default(),
            stuck: Stuck::default(),
            is_foreign: false,
            pass_began_ms: 0,
            rests_until_ms: 0,
        }
    }

    /// Resets the spool after the rules were read again.
    pub(super) fn again(mut self, room: &mut Room) -> Source {
        self.remembered.clear(room);
        Source {
            last_claim: self.last_claim,
            stuck: self.stuck,
            ..Source::new(self.origin, self.owner)
        }
    }

    /// Forgets what is remembered of a spool that is gone.
    pub(super) fn clear(&mut self, room: &mut Room) {
        self.remembered.clear(room);
        self.stuck.clear(room);
    }

    /// Begins a turn at this time.
    pub(super) fn begin_turn(&mut self, allowance: Option<&mut Allowance>, monotonic_ms: u64) {
        let Some(allowance) = allowance else {
            return;
        };
        allowance.fill(monotonic_ms);
        if self.head.is_none() {
            self.head = allowance.take_held(self.owner).map(|name| (name, None));
        }
    }

    /// Whether the folder was read so recently that it is not opened again yet: a sender with many
    /// files over the quota must not keep the gate busy with reading them.
    pub(super) fn rests(&self, is_over: bool, monotonic_ms: u64) -> bool {
        is_over
            && self.names == Names::Folder
            && self.passed == 0
            && self.stream.is_none()
            && self.head.is_none()
            && self.listed.is_empty()
            && monotonic_ms < self.rests_until_ms
    }

    /// Records that a file exceeds the quota. Returns a message if it is the first.
    pub(super) fn hold(
        &self,
        allowance: &mut Allowance,
        name: &OsStr,
        bytes: u64,
        since_ms: u64,
    ) -> Option<String> {
        allowance.hold((self.owner, self.last_claim), name, bytes, since_ms)
    }

    /// Deducts a claimed file from the quota.
    pub(super) fn pay(&mut self, allowance: Option<&mut Allowance>, bytes: u64) {
        if let Some(allowance) = allowance {
            self.last_claim = allowance.pay(bytes);
        }
    }

    /// Number of names that were listed and not looked at yet.
    pub(super) fn listed(&self) -> usize {
        self.listed.len()
    }

    /// Begins a look at the flat spool. Names that are still listed are looked at first, and a
    /// spool that reads the folder itself goes on with that, so that no name starves.
    pub(super) fn begin_list(&mut self) {
        self.lists = self.names != Names::Folder && self.listed.is_empty();
        if self.lists {
            self.names = Names::SomeListed;
        }
    }

    /// Lists a name if there is room. Without room, the spool reads the folder itself once what is
    /// listed was looked at.
    pub(super) fn list(&mut self, name: OsString, kind: Option<Kind>, has_room: bool) -> bool {
        if self.lists && has_room {
            self.listed.push_back((name, kind));
            return true;
        }
        if self.lists {
            self.lists = false;
            self.names = Names::Folder;
        }
        false
    }

    /// Ends a look at the flat spool.
    pub(super) fn end_list(&mut self) {
        if std::mem::take(&mut self.lists) {
            self.names = Names::AllListed;
        }
    }

    /// Number of entries that are left because they cannot be moved away, at the end of the last
    /// pass. A folder that is not read because it belongs to another user counts as one.
    pub(super) fn left(&self) -> usize {
        self.stuck
            .counted()
            .saturating_add(usize::from(self.is_foreign))
    }

    /// Whether no file of this owner is known, so that another owner may have its place.
    pub(super) fn is_idle(&self) -> bool {
        self.names != Names::Folder
            && self.listed.is_empty()
            && self.head.is_none()
            && self.stuck.is_empty()
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

    /// Ends a pass: all names were looked at. Returns a message if nothing is waiting any more.
    pub(super) fn end_pass(
        &mut self,
        allowance: Option<&mut Allowance>,
        room: &mut Room,
    ) -> Option<String> {
        self.passed = 0;
        // A spool in which nothing is waiting must not save up bytes.
        self.deficit = if self.claimed_in_pass {
            self.deficit.min(QUANTUM)
        } else {
            0
        };
        self.claimed_in_pass = false;
        self.remembered.end_of_pass(room);
        self.stuck.end_pass(room);
        allowance?.end_pass(self.owner)
    }

    /// The next name. After the end of a pass, the next call starts again.
    pub(super) fn next_name(
        &mut self,
        (disk, gate): (&dyn Disk, Gate),
        monotonic_ms: u64,
    ) -> io::Result<Next> {
        if let Some((name, kind)) = self.head.take().or_else(|| self.listed.pop_front()) {
            return Ok(Next::Name(name, kind));
        }
        match self.names {
            Names::Folder => {}
            Names::SomeListed => return Ok(Next::Later),
            Names::AllListed => {
                self.names = Names::SomeListed;
                return Ok(Next::End);
            }
        }
        if self.stream.is_none() {
            if self.passed == 0 {
                self.pass_began_ms = monotonic_ms;
            }
            self.is_foreign = self.is_foreign(disk, gate);
            if self.is_foreign {
                return Ok(self.end_of_folder(monotonic_ms));
            }
            self.stream = match disk.read_dir(&self.dir) {
                Ok(stream) => Some(stream),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Ok(self.end_of_folder(monotonic_ms));
                }
                // Agents can remove or replace entries in the folders they own, and it is up to
                // them to repair that. The flat spool itself is not theirs.
                Err(error) if self.is_theirs(&error) => {
                    return Ok(self.end_of_folder(monotonic_ms));
                }
                Err(error) => return Err(error),
            };
            // Skip what the pass has seen already; that is approximate if the order of the folder
            // has changed since.
            let seen = self.stream.as_mut().into_iter().flatten().take(self.passed);
            seen.for_each(drop);
        }
        match self.stream.as_mut().and_then(Iterator::next) {
            Some(Err(error)) if self.is_theirs(&error) => Ok(self.end_of_folder(monotonic_ms)),
            Some(entry) => {
                self.passed = self.passed.saturating_add(1);
                entry.map(|entry| Next::Name(entry.name, entry.kind))
            }
            None => Ok(self.end_of_folder(monotonic_ms)),
        }
    }

    /// Whether this error on the folder concerns this agent alone.
    fn is_theirs(&self, error: &io::Error) -> bool {
        self.origin != Origin::Flat && claim::concerns_entry(&self.origin, error)
    }

    /// Whether another user than the gate's owns this agent's spool, which is not read then.
    fn is_foreign(&self, disk: &dyn Disk, gate: Gate) -> bool {
        let is_foreign = |folder: &Path| {
            let stat = disk.stat(folder).ok().flatten();
            stat.is_some_and(|stat| !gate.made(stat))
        };
        matches!(self.origin, Origin::Agent(_))
            && (is_foreign(&self.dir) || self.dir.parent().is_some_and(is_foreign))
    }

    fn end_of_folder(&mut self, monotonic_ms: u64) -> Next {
        self.stream = None;
        self.rests_until_ms =
            monotonic_ms.saturating_add(monotonic_ms.saturating_sub(self.pass_began_ms));
        if self.origin == Origin::Flat {
            self.names = Names::SomeListed;
        }
        Next::End
    }
}
