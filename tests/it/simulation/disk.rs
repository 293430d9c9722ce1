//! A disk that distinguishes what processes see from what is on the medium.
//!
//! Contents: processes see written bytes at once; the bytes are on the medium after a sync of their
//! file. A power cut keeps any part of the rest: nothing, everything, a prefix, single sectors, or
//! only the length with zeros in it. A failed sync drops the pages: they are still seen, are never
//! written again, and disappear when the cache is dropped (Rebello et al., ATC'20).
//!
//! Names: processes see links, renames and unlinks at once. On a [`Medium::Journal`] (ext4), the
//! sync of any file makes all earlier ones durable, and a power cut keeps a prefix of the rest. On
//! a [`Medium::Strict`], only a sync of a folder or of the file system does, and a power cut keeps
//! any subset that contains, with each operation, the operations that it needs.
//!
//! Every call is counted. The process can be made to die at any of them, before, in the middle of
//! or after what it does, and any call can be made to fail.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use spoolgate_host::clock::Clock;

use super::clock::SimClock;
use crate::kit::dice::Dice;

pub(super) const ENOENT: i32 = 2;
pub(super) const EIO: i32 = 5;
pub(super) const EEXIST: i32 = 17;
const ENOSPC: i32 = 28;

pub(super) fn error(code: i32) -> io::Error {
    io::Error::from_raw_os_error(code)
}

/// The effect of the sync of a file on names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Medium {
    /// Commits all earlier operations on names, as ext4 and XFS do.
    Journal,
    /// Nothing.
    Strict,
}

/// A promise that the disk breaks. The simulation must notice each; otherwise it would prove
/// nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lie {
    /// Syncing the log's data reports success and does nothing.
    SyncData,
    /// Syncing the file system reports success and does nothing.
    SyncFs,
    /// Syncing a new file reports success and does nothing.
    SyncFile,
    /// Dropping the cache does nothing, so that dropped pages are still seen.
    DropCache,
    /// Writing a torn rest again reports success and does nothing.
    WriteAgain,
}

/// Which calls fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// The number of the first failing call, counted from 1 since the process started.
    pub at: u64,
    /// The number of failing calls.
    pub count: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Inode {
    pub(super) directory: bool,
    /// What processes read.
    pub(super) seen: Vec<u8>,
    /// What a power cut leaves at least.
    medium: Vec<u8>,
    /// Parts of `seen` that a sync would write, with the number of operations on names before each.
    pub(super) dirty: Vec<(Range<usize>, u64)>,
    pub(super) modified: i128,
}

impl Inode {
    /// Writes the dirty parts to the medium.
    pub(super) fn flush(&mut self) {
        for (range, _) in std::mem::take(&mut self.dirty) {
            let end = range.end.min(self.seen.len());
            if self.medium.len() < end {
                self.medium.resize(end, 0);
            }
            self.medium[range.start..end].copy_from_slice(&self.seen[range.start..end]);
        }
    }

    /// Makes reads return what the medium has while the machine runs: its bytes, the dirty parts,
    /// and zeros where pages were dropped, because the length is still the one in memory.
    pub(super) fn drop_cache(&mut self, from: usize) {
        let mut now = self.medium.clone();
        now.resize(self.seen.len(), 0);
        let kept = from.min(now.len());
        now[..kept].copy_from_slice(&self.seen[..kept]);
        for (range, _) in &self.dirty {
            now[range.clone()].copy_from_slice(&self.seen[range.clone()]);
        }
        self.seen = now;
    }

    /// Any part of what is dirty survives, but only if it was written before operation `until` on
    /// names: a journal commits the new length of a file after everything that was done before.
    fn power_cut(&mut self, dice: &mut Dice, until: u64) {
        for (range, after) in std::mem::take(&mut self.dirty) {
            if range.is_empty() || after > until {
                continue;
            }
            let bytes = self.seen[range.clone()].to_vec();
            let (length, keep): (usize, Vec<(usize, usize)>) = match dice.below(6) {
                0 | 1 => continue,
                2 => (bytes.len(), Vec::from([(0, bytes.len())])),
                3 => {
                    let end = dice.up_to(bytes.len());
                    (end, Vec::from([(0, end)]))
                }
                4 => (bytes.len(), Vec::new()),
                _ => {
                    // These are sectors of the file, not of the write.
                    let mut kept = Vec::new();
                    let mut at = 0;
                    while at < bytes.len() {
                        let end =
                            (((range.start + at) / 512 + 1) * 512 - range.start).min(bytes.len());
                        if dice.one_in(2) {
                            kept.push((at, end));
                        }
                        at = end;
                    }
                    (bytes.len(), kept)
                }
            };
            if self.medium.len() < range.start + length {
                self.medium.resize(range.start + length, 0);
            }
            for (from, to) in keep {
                self.medium[range.start + from..range.start + to].copy_from_slice(&bytes[from..to]);
            }
        }
        self.seen = self.medium.clone();
    }
}

/// An operation on names that is not on the medium yet.
#[derive(Clone, Debug)]
pub(super) enum NameOp {
    Link {
        path: PathBuf,
        inode: u64,
    },
    Unlink {
        path: PathBuf,
        inode: u64,
    },
    Rename {
        from: PathBuf,
        to: PathBuf,
        inode: u64,
    },
}

impl NameOp {
    fn apply(&self, names: &mut BTreeMap<PathBuf, u64>) {
        match self {
            NameOp::Link { path, inode } => {
                names.insert(path.clone(), *inode);
            }
            NameOp::Unlink { path, .. } => {
                names.remove(path);
            }
            NameOp::Rename { from, to, inode } => {
                names.remove(from);
                names.insert(to.clone(), *inode);
            }
        }
    }

    fn paths(&self) -> Vec<&Path> {
        match self {
            NameOp::Link { path, .. } | NameOp::Unlink { path, .. } => vec![path],
            NameOp::Rename { from, to, .. } => vec![from, to],
        }
    }

    fn inode(&self) -> u64 {
        match self {
            NameOp::Link { inode, .. }
            | NameOp::Unlink { inode, .. }
            | NameOp::Rename { inode, .. } => *inode,
        }
    }

    pub(super) fn is_in(&self, dir: &Path) -> bool {
        self.paths().iter().any(|path| path.parent() == Some(dir))
    }

    /// Whether this operation cannot be on the medium without `earlier`.
    fn needs(&self, earlier: &NameOp) -> bool {
        let made = match earlier {
            NameOp::Link { path, .. } => Some(path.as_path()),
            _ => None,
        };
        self.inode() == earlier.inode()
            || self.paths().iter().any(|path| {
                earlier.paths().contains(path)
                    || made.is_some_and(|made| path.parent() == Some(made))
            })
    }
}

/// What happens to the next call of a verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The call fails.
    Fails,
    /// The process dies before it does anything.
    Dies,
}

/// How a process ends at a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dying {
    Before,
    After,
}

#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) medium_kind: Medium,
    pub(super) lie: Option<Lie>,
    pub(super) dice: Dice,
    pub(super) inodes: BTreeMap<u64, Inode>,
    last_inode: u64,
    pub(super) names: BTreeMap<PathBuf, u64>,
    medium: BTreeMap<PathBuf, u64>,
    pending: Vec<NameOp>,
    /// The number of operations on names so far.
    pub(super) ops: u64,
    /// The number of calls since the process started.
    calls: u64,
    dies_at: Option<u64>,
    dead: bool,
    fault: Option<Fault>,
    /// What happens to the next such call.
    next: Option<(&'static str, PathBuf, Next)>,
    fails_now: bool,
    has_failed: bool,
    /// Bytes until the disk is full.
    room: Option<usize>,
    /// Whether this process was told that it is.
    was_full: bool,
    /// A hash of all calls, which tells two runs apart.
    trace: u64,
    /// All calls in words, if requested.
    story: Option<Vec<String>>,
    changes: i128,
    clock: Arc<SimClock>,
}

impl World {
    /// Counts a call. An error means that the call fails without doing anything.
    pub(super) fn call(&mut self, verb: &str, path: &Path) -> io::Result<Option<Dying>> {
        if self.dead {
            return Err(error(EIO));
        }
        self.calls += 1;
        for byte in verb
            .bytes()
            .chain(path.as_os_str().as_encoded_bytes().iter().copied())
        {
            self.trace = (self.trace ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        if let Some(story) = &mut self.story {
            story.push(format!("{:4} {verb} {}", self.calls, path.display()));
        }
        self.fails_now = false;
        if let Some((.., next)) = self
            .next
            .take_if(|(next, at, _)| *next == verb && path.starts_with(at))
        {
            self.fails_now = next == Next::Fails;
            self.dead = next == Next::Dies;
            if self.dead {
                return Err(error(EIO));
            }
        }
        if self.dies_at == Some(self.calls) {
            self.dead = true;
            let dying = if self.dice.one_in(2) {
                Dying::Before
            } else {
                Dying::After
            };
            self.tell(|| format!("     the process dies {dying:?}"));
            return if dying == Dying::Before {
                Err(error(EIO))
            } else {
                Ok(Some(dying))
            };
        }
        Ok(None)
    }

    pub(super) fn fails(&mut self) -> bool {
        let fails = self.fails_now
            || self
                .fault
                .is_some_and(|fault| self.calls >= fault.at && self.calls - fault.at < fault.count);
        if fails {
            self.has_failed = true;
            self.tell(|| "     which fails".to_owned());
        }
        fails
    }

    fn failure(&mut self) -> io::Error {
        match self.dice.one_in(2) {
            true => error(EIO),
            false => self.full(),
        }
    }

    fn full(&mut self) -> io::Error {
        self.was_full = true;
        error(ENOSPC)
    }

    /// Returns nanoseconds that differ for any two changes.
    fn now(&self) -> i128 {
        i128::from(self.clock.now().ms()) * 1_000_000 + self.changes % 1_000_000
    }

    fn tell(&mut self, what: impl FnOnce() -> String) {
        if let Some(story) = &mut self.story {
            story.push(what());
        }
    }

    /// Counts a call that only reads.
    pub(super) fn reads(&mut self, verb: &str, path: &Path) -> io::Result<()> {
        match self.call(verb, path)? {
            Some(_) => Err(error(EIO)),
            None if self.fails() => Err(error(EIO)),
            None => Ok(()),
        }
    }

    /// Counts a call that changes names; `change` does the change.
    pub(super) fn changes_names(
        &mut self,
        verb: &str,
        path: &Path,
        change: impl FnOnce(&mut World) -> io::Result<()>,
    ) -> io::Result<()> {
        let dying = self.call(verb, path)?;
        if self.fails() {
            return Err(self.failure());
        }
        change(self)?;
        if dying.is_some() {
            Err(error(EIO))
        } else {
            Ok(())
        }
    }

    pub(super) fn push(&mut self, op: NameOp) {
        op.apply(&mut self.names);
        self.pending.push(op);
        self.ops += 1;
    }

    pub(super) fn inode_of(&self, path: &Path) -> io::Result<u64> {
        self.names.get(path).copied().ok_or_else(|| error(ENOENT))
    }

    pub(super) fn inode(&self, number: u64) -> &Inode {
        &self.inodes[&number]
    }

    pub(super) fn inode_mut(&mut self, number: u64) -> &mut Inode {
        self.inodes.get_mut(&number).unwrap()
    }

    pub(super) fn make(&mut self, directory: bool) -> u64 {
        self.last_inode += 1;
        let inode = Inode {
            directory,
            seen: Vec::new(),
            medium: Vec::new(),
            dirty: Vec::new(),
            modified: self.now(),
        };
        self.inodes.insert(self.last_inode, inode);
        self.last_inode
    }

    /// Appends what fits, or a part of it if the process dies or the call fails meanwhile.
    pub(super) fn append(
        &mut self,
        verb: &str,
        path: &Path,
        number: u64,
        bytes: &[u8],
    ) -> io::Result<()> {
        let dying = self.call(verb, path)?;
        let failing = self.fails();
        let mut length = bytes.len();
        if dying.is_some() || failing {
            length = self.dice.up_to(bytes.len());
        }
        let full = self.room.is_some_and(|room| room < length);
        if let Some(room) = &mut self.room {
            length = length.min(*room);
            *room -= length;
        }
        self.changes += 1;
        let (now, ops) = (self.now(), self.ops);
        let inode = self.inode_mut(number);
        let start = inode.seen.len();
        inode.seen.extend_from_slice(&bytes[..length]);
        inode.dirty.push((start..start + length, ops));
        inode.modified = now;
        match (dying, failing, full) {
            (Some(_), ..) => Err(error(EIO)),
            (None, true, _) => Err(self.failure()),
            (None, false, true) => Err(self.full()),
            (None, false, false) => Ok(()),
        }
    }

    pub(super) fn sync(
        &mut self,
        verb: &str,
        path: &Path,
        number: u64,
        lie: Lie,
    ) -> io::Result<()> {
        let dying = self.call(verb, path)?;
        if self.fails() {
            // From now on the pages count as clean, but the medium does not have them.
            self.inode_mut(number).dirty.clear();
            return Err(error(EIO));
        }
        if self.lie != Some(lie) {
            self.inode_mut(number).flush();
            if self.medium_kind == Medium::Journal {
                self.commit_names(|_| true);
            }
        }
        if dying.is_some() {
            Err(error(EIO))
        } else {
            Ok(())
        }
    }

    /// Makes these operations durable, and all operations that they need.
    pub(super) fn commit_names(&mut self, chosen: impl Fn(&NameOp) -> bool) {
        let pending = std::mem::take(&mut self.pending);
        let mut wanted: Vec<bool> = pending.iter().map(chosen).collect();
        for later in (0..pending.len()).rev() {
            if wanted[later] {
                for earlier in 0..later {
                    wanted[earlier] |= pending[later].needs(&pending[earlier]);
                }
            }
        }
        for (op, wanted) in pending.into_iter().zip(wanted) {
            if wanted {
                op.apply(&mut self.medium);
            } else {
                self.pending.push(op);
            }
        }
    }

    fn power_cut(&mut self, dice: &mut Dice) {
        self.tell(|| "---- the power is cut".to_owned());
        let pending = std::mem::take(&mut self.pending);
        let count = pending.len();
        let choice = match self.medium_kind {
            Medium::Journal => dice.below(3),
            Medium::Strict => dice.below(5),
        };
        let kept = match choice {
            0 => 0,
            2 => dice.up_to(count),
            _ => count,
        };
        let until = match self.medium_kind {
            Medium::Journal => self.ops - count as u64 + kept as u64,
            Medium::Strict => u64::MAX,
        };
        let mut dropped: Vec<NameOp> = Vec::new();
        let mut closed_dirs: BTreeSet<PathBuf> = BTreeSet::new();
        for (n, op) in pending.into_iter().enumerate() {
            let dirs: Vec<PathBuf> = op
                .paths()
                .iter()
                .map(|path| path.parent().unwrap_or(Path::new("")).to_owned())
                .collect();
            let keep = match choice {
                0 => false,
                1 => true,
                2 => n < kept,
                // Each folder keeps a prefix of its operations.
                3 => !dirs.iter().any(|dir| closed_dirs.contains(dir)) && !dice.one_in(4),
                _ => dice.one_in(2),
            };
            if keep && !dropped.iter().any(|earlier| op.needs(earlier)) {
                op.apply(&mut self.medium);
            } else {
                self.tell(|| format!("     lost: {op:?}"));
                closed_dirs.extend(dirs);
                dropped.push(op);
            }
        }
        self.names = self.medium.clone();
        let there: BTreeSet<u64> = self.names.values().copied().collect();
        self.inodes.retain(|number, _| there.contains(number));
        for inode in self.inodes.values_mut() {
            inode.power_cut(dice, until);
        }
    }
}

/// The disk.
#[derive(Debug)]
pub(super) struct SimDisk {
    pub(super) world: Arc<Mutex<World>>,
}

impl SimDisk {
    /// Makes an empty disk.
    pub(super) fn new(
        seed: u64,
        medium_kind: Medium,
        lie: Option<Lie>,
        clock: Arc<SimClock>,
    ) -> SimDisk {
        let world = World {
            medium_kind,
            lie,
            dice: Dice::apart(seed),
            inodes: BTreeMap::new(),
            last_inode: 0,
            names: BTreeMap::new(),
            medium: BTreeMap::new(),
            pending: Vec::new(),
            ops: 0,
            calls: 0,
            dies_at: None,
            dead: false,
            fault: None,
            next: None,
            fails_now: false,
            has_failed: false,
            room: None,
            was_full: false,
            trace: 0xcbf2_9ce4_8422_2325,
            story: None,
            changes: 0,
            clock,
        };
        SimDisk {
            world: Arc::new(Mutex::new(world)),
        }
    }

    /// Records every call from now on in words.
    pub(super) fn tell_story(&self) {
        self.world().story = Some(Vec::new());
    }

    /// Returns the recorded story and stops recording.
    pub(super) fn story(&self) -> Vec<String> {
        self.world().story.take().unwrap_or_default()
    }

    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }

    /// Returns a copy of this disk on which nothing fails.
    pub(super) fn fork(&self) -> SimDisk {
        let mut world = self.world().clone();
        (world.dies_at, world.dead, world.fault, world.room) = (None, false, None, None);
        SimDisk {
            world: Arc::new(Mutex::new(world)),
        }
    }

    /// Starts a process. It dies at call number `dies_at`, and calls fail as `fault` says.
    pub(super) fn start_process(
        &self,
        dies_at: Option<u64>,
        fault: Option<Fault>,
        room: Option<usize>,
    ) {
        let mut world = self.world();
        // No process has a file open that has no name, now or after a power cut.
        let pending = world.pending.iter().map(NameOp::inode);
        let there: BTreeSet<u64> = world
            .names
            .values()
            .chain(world.medium.values())
            .copied()
            .chain(pending)
            .collect();
        world.inodes.retain(|number, _| there.contains(number));
        (world.calls, world.dead, world.was_full) = (0, false, false);
        world.tell(|| {
            format!("---- a process starts: dies at {dies_at:?}, {fault:?}, room {room:?}")
        });
        (world.dies_at, world.fault, world.room) = (dies_at, fault, room);
    }

    /// Sets what happens to the next call of a verb at or below a path.
    pub(super) fn next(&self, verb: &'static str, path: &str, next: Next) {
        self.world().next = Some((verb, path.into(), next));
    }

    /// Whether this process was told that the disk is full.
    pub(super) fn was_full(&self) -> bool {
        self.world().was_full
    }

    /// Whether the process died.
    pub(super) fn is_dead(&self) -> bool {
        self.world().dead
    }

    /// Whether any call has failed.
    pub(super) fn has_failed(&self) -> bool {
        self.world().has_failed
    }

    /// Returns the number of calls since the process started.
    pub(super) fn calls(&self) -> u64 {
        self.world().calls
    }

    /// Returns a number that differs if any other call was made.
    pub(super) fn trace(&self) -> u64 {
        self.world().trace
    }

    /// Cuts the power.
    pub(super) fn power_cut(&self, dice: &mut Dice) {
        self.world().power_cut(dice);
    }

    /// Makes everything on the disk durable.
    pub(super) fn settle(&self) {
        let mut world = self.world();
        world.inodes.values_mut().for_each(Inode::flush);
        world.commit_names(|_| true);
    }

    /// Acts as another process that creates a file by rename; with `durable`, as if it had synced
    /// file and folder.
    pub(super) fn put(&self, path: &Path, bytes: &[u8], durable: bool) {
        let mut world = self.world();
        world.changes += 1;
        world.tell(|| format!("     {} is dropped, durable {durable}", path.display()));
        let number = world.make(false);
        let inode = world.inode_mut(number);
        inode.seen = bytes.to_vec();
        inode.dirty = vec![(0..bytes.len(), 0)];
        if durable {
            inode.flush();
        }
        world.push(NameOp::Link {
            path: path.to_owned(),
            inode: number,
        });
        if durable {
            let journal = world.medium_kind == Medium::Journal;
            world.commit_names(|op| journal || op.inode() == number);
        }
    }

    /// Acts as another process that removes a file, if it exists.
    pub(super) fn take(&self, path: &Path) -> Option<Vec<u8>> {
        let mut world = self.world();
        let number = world.inode_of(path).ok()?;
        let bytes = world.inode(number).seen.clone();
        world.push(NameOp::Unlink {
            path: path.to_owned(),
            inode: number,
        });
        Some(bytes)
    }

    /// Returns the number of the file with this name.
    pub(super) fn number(&self, path: &Path) -> Option<u64> {
        self.world().inode_of(path).ok()
    }

    /// Acts as another process that appends to a file that it has open, whatever name the file has
    /// now.
    pub(super) fn write_on(&self, number: u64, bytes: &[u8]) {
        let mut world = self.world();
        world.changes += 1;
        let (now, ops) = (world.now(), world.ops);
        let Some(inode) = world.inodes.get_mut(&number) else {
            return;
        };
        let start = inode.seen.len();
        inode.seen.extend_from_slice(bytes);
        inode.dirty.push((start..start + bytes.len(), ops));
        inode.modified = now;
    }

    /// Returns a file's bytes as processes see them.
    pub(super) fn get(&self, path: &Path) -> Option<Vec<u8>> {
        let world = self.world();
        let number = world.inode_of(path).ok()?;
        Some(world.inode(number).seen.clone())
    }

    /// Returns a file's bytes on the medium: those that every power cut leaves.
    pub(super) fn on_medium(&self, path: &Path) -> Option<Vec<u8>> {
        let world = self.world();
        let number = world.medium.get(path)?;
        Some(world.inodes.get(number)?.medium.clone())
    }

    /// Whether a file has exactly these bytes.
    pub(super) fn holds(&self, path: &Path, bytes: &[u8]) -> bool {
        let world = self.world();
        world
            .inode_of(path)
            .is_ok_and(|number| world.inode(number).seen == bytes)
    }

    /// Calls `see` for each file directly below a folder.
    pub(super) fn each_in(&self, dir: &Path, mut see: impl FnMut(&str, &[u8])) {
        let world = self.world();
        for (path, number) in world.names.range(dir.to_owned()..) {
            if !path.starts_with(dir) {
                break;
            }
            let inode = world.inode(*number);
            if path.parent() == Some(dir) && !inode.directory {
                see(path.file_name().unwrap().to_str().unwrap(), &inode.seen);
            }
        }
    }

    /// Returns the names of the files directly below a folder.
    pub(super) fn names_in(&self, dir: &str) -> Vec<String> {
        let mut names = Vec::new();
        self.each_in(Path::new(dir), |name, _| names.push(name.to_owned()));
        names
    }

    /// Returns all files as processes see them.
    pub(super) fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let world = self.world();
        let files = world
            .names
            .iter()
            .filter(|(_, number)| !world.inode(**number).directory);
        files
            .map(|(path, number)| (path.clone(), world.inode(*number).seen.clone()))
            .collect()
    }
}
