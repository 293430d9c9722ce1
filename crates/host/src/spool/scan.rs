//! Finds the files in the spool. Only a scan counts; events are just hints to scan. Folders are
//! read as open streams to their end and then again from the start, so that no name starves, and
//! only as many names as fit into a batch are held at a time. The spools take turns by deficit
//! round robin in bytes; see docs/spool.md.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use super::claim::{self, Claimed, Looked};
use super::name::is_ignored;
use super::peek::{self, Judge, Peeked, Room};
use super::quota::Bucket;
use super::source::{QUANTUM, Source};
use spoolgate_gate::prepare::Origin;
use spoolgate_ledger::disk::{Disk, Kind, Stat};
use spoolgate_rules::rates::Quota;
use spoolgate_wire::envelope::REQUEST_BYTES_MAX;
use spoolgate_wire::ids::Principal;

/// Default maximum number of requests in a batch.
pub const BATCH_ENTRIES_MAX: usize = 256;
/// Largest value to which that maximum can be set.
const BATCH_ENTRIES_LIMIT: usize = 1024;
/// A batch is closed when its requests have this many bytes.
pub const BATCH_REQUEST_BYTES: usize = 1024 * 1024;
/// Minimum cost of a file in bytes: opening a file is work, however small it is.
const FILE_COST: u64 = 1024;
/// Maximum number of names per turn: names that are ignored or still unfinished cost no bytes.
const NAMES_TURN: usize = 1024;
/// Maximum number of names per round.
const NAMES_ROUND: usize = 4096;
/// Maximum number of files read per round; the maximum of a batch applies if it is larger.
const READ_ROUND: usize = 256;
/// Maximum number of folders kept open between turns. Each takes a descriptor, and a process may
/// have 1,024 of them.
const OPEN_MAX: usize = 256;
/// How long a file that does not parse may still be half-written, in milliseconds since it was
/// first seen.
pub const PATIENCE_MS: u64 = 2000;
/// Maximum number of unfinished files that are remembered. Further ones are read again and again,
/// but never refused early.
const UNFINISHED_MAX: usize = 4096;

/// Folder of a spool below the home.
pub fn folder(origin: &Origin) -> PathBuf {
    match origin {
        Origin::Local => PathBuf::from("spool/local/in"),
        Origin::Flat => PathBuf::from("spool/in"),
        Origin::Agent(name) => Path::new("spool/in").join(name.as_str()).join("new"),
        // Never scanned: requests that come through the socket are not files.
        Origin::Socket(_) => PathBuf::from("spool/socket"),
    }
}

/// Result of a round of scanning.
#[derive(Debug, Default)]
pub struct Found {
    /// Claimed files, at most one batch.
    pub claimed: Vec<Claimed>,
    /// Whether there may be more right away.
    pub more: bool,
    /// Messages about quotas.
    pub news: Vec<String>,
}

/// A file that did not parse yet.
struct Unfinished {
    since_ms: u64,
    version: Option<Version>,
}

/// Size, hard links and time of change. If one of them changes, the file may parse by now.
type Version = (u64, u64, i128);

fn version(stat: Stat) -> Version {
    (stat.size, stat.links, stat.modified_ns)
}

/// The current version of a file. `None` if it does not exist or cannot be inspected.
fn version_now(disk: &dyn Disk, path: &Path) -> Option<Version> {
    disk.stat(path).ok().flatten().map(version)
}

/// Inputs and results of one round.
struct Round<'a> {
    disk: &'a dyn Disk,
    judge: &'a dyn Judge,
    now_ms: u64,
    batch: u64,
    found: Found,
    bytes: usize,
    names: usize,
    read: usize,
}

/// Why a turn ended.
enum End {
    /// The batch or the work of a round is full; the turn continues in the next round.
    Full,
    /// The folder was read to its end.
    Done,
    /// The next file is larger than the deficit, or enough names were looked at.
    Spent,
}

/// Result of looking at one file.
enum Step {
    /// Go on to the next file.
    Next,
    /// The deficit is too small for it.
    Unpaid,
}

/// The scanner over all spool folders.
pub struct Scanner {
    sources: Vec<Source>,
    turn: usize,
    /// Whether the spool at `turn` is in the middle of its turn.
    in_turn: bool,
    /// Whether all spools must be looked at again.
    afresh: bool,
    unfinished: BTreeMap<(Origin, OsString), Unfinished>,
    room: Room,
    batch_max: usize,
}

impl Default for Scanner {
    /// A scanner over the spool of commands and the flat spool, without quotas.
    fn default() -> Scanner {
        let mut scanner = Scanner {
            sources: Vec::new(),
            turn: 0,
            in_turn: false,
            afresh: true,
            unfinished: BTreeMap::new(),
            room: Room::default(),
            batch_max: BATCH_ENTRIES_MAX,
        };
        scanner.set_spools(None, std::iter::empty());
        scanner
    }
}

impl Scanner {
    /// Sets the spools after the rules were read: these agents have spools of their own, with these
    /// quotas. Closes open streams, and the next round starts anew; what was used of a quota stays
    /// used.
    pub fn set_spools<'a>(
        &mut self,
        flat: Option<Quota>,
        agents: impl Iterator<Item = (&'a Principal, Option<Quota>)>,
    ) {
        // Two principals may share a folder; it is read once.
        let agents: BTreeMap<&Principal, Option<Quota>> = agents.collect();
        let own = agents
            .into_iter()
            .map(|(name, quota)| (Origin::Agent(name.clone()), quota));
        let wanted = [(Origin::Local, None), (Origin::Flat, flat)]
            .into_iter()
            .chain(own);
        let mut before: BTreeMap<Origin, Source> = std::mem::take(&mut self.sources)
            .into_iter()
            .map(|s| (s.origin.clone(), s))
            .collect();
        for (origin, quota) in wanted {
            self.sources.push(match (before.remove(&origin), quota) {
                (None, quota) => Source::new(origin, quota.map(Bucket::full)),
                (Some(mut old), Some(quota)) => {
                    let bucket = old.bucket.take().map(|bucket| bucket.under(quota));
                    old.again(bucket.or_else(|| Some(Bucket::full(quota))), &mut self.room)
                }
                (Some(old), None) => old.again(None, &mut self.room),
            });
        }
        before
            .into_values()
            .for_each(|mut gone| gone.remembered.clear(&mut self.room));
        let kept: BTreeSet<&Origin> = self.sources.iter().map(|source| &source.origin).collect();
        self.unfinished
            .retain(|(origin, _), _| kept.contains(origin));
        self.turn = 0;
        self.in_turn = false;
        self.afresh = true;
    }

    /// Maximum number of requests that a batch takes from files; the same number applies to frames.
    pub fn batch_max(&self) -> usize {
        self.batch_max
    }

    /// Sets the maximum number of requests in a batch, from 1 to 1,024.
    pub fn set_batch_max(&mut self, requests: usize) {
        self.batch_max = requests.clamp(1, BATCH_ENTRIES_LIMIT);
    }

    /// All spool folders and their parent folders, to be watched. The parent shows when a folder is
    /// replaced, so that the first file in the new folder does not wait for a heartbeat.
    pub fn folders(&self) -> BTreeSet<PathBuf> {
        let own = self.sources.iter().map(|source| source.dir.as_path());
        own.flat_map(|dir| [Some(dir), dir.parent()])
            .flatten()
            .map(Path::to_owned)
            .collect()
    }

    /// Whether files are waiting that do not parse yet.
    pub fn has_unfinished(&self) -> bool {
        !self.unfinished.is_empty()
    }

    /// Whether files are waiting over a quota, or were recently.
    pub fn has_waiting(&self) -> bool {
        self.sources.iter().any(Source::is_over)
    }

    /// Claims up to a batch of files for batch number `batch`. `only_local` takes only what
    /// commands handed over; `judge` decides what passes regardless of a quota.
    ///
    /// # Errors
    /// Returns the disk's error. A folder that is missing or cannot be opened counts as empty.
    pub fn round(
        &mut self,
        disk: &dyn Disk,
        judge: &dyn Judge,
        now_ms: u64,
        batch: u64,
        only_local: bool,
    ) -> io::Result<Found> {
        let found = Found::default();
        let mut round = Round {
            disk,
            judge,
            now_ms,
            batch,
            found,
            bytes: 0,
            names: 0,
            read: 0,
        };
        for (index, source) in self.sources.iter_mut().enumerate() {
            source.is_done = only_local && index > 0;
            if self.afresh || only_local {
                source.was_done = source.is_done;
            }
        }
        self.afresh = only_local;
        // The round ends when every spool was read to its end once. Spools that are done still get
        // their turns: a flood of files that are not claimed must not make them wait until all of
        // it was read.
        let mut open = self
            .sources
            .iter()
            .filter(|source| !source.was_done)
            .count();
        while open > 0 {
            self.next_turn();
            match self.take_turn(&mut round)? {
                End::Full => {
                    round.found.more = true;
                    break;
                }
                End::Done => open -= self.sources.get_mut(self.turn).map_or(0, Source::done),
                End::Spent => {}
            }
            self.in_turn = false;
        }
        // Files that arrived meanwhile are found by the next batch, or by the next scan if this one
        // found nothing.
        self.afresh |= open == 0 || !round.found.claimed.is_empty();
        Ok(round.found)
    }

    /// Goes on to the next spool that takes turns, unless the current one is in the middle of its
    /// turn.
    fn next_turn(&mut self) {
        if self.in_turn
            && self
                .sources
                .get(self.turn)
                .is_some_and(|source| !source.is_done)
        {
            return;
        }
        for _ in 0..self.sources.len() {
            self.turn = (self.turn + 1) % self.sources.len();
            if let Some(source) = self
                .sources
                .get_mut(self.turn)
                .filter(|source| !source.is_done)
            {
                source.deficit = source.deficit.saturating_add(QUANTUM);
                self.in_turn = true;
                self.close_one();
                return;
            }
        }
    }

    /// Makes room for the folder of this turn by closing the open folder whose turn was longest
    /// ago.
    fn close_one(&mut self) {
        let held = self
            .sources
            .iter()
            .filter(|source| source.is_open())
            .count();
        if held < OPEN_MAX || self.sources.get(self.turn).is_some_and(Source::is_open) {
            return;
        }
        let (before, after) = self.sources.split_at_mut(self.turn);
        let oldest = after
            .iter_mut()
            .chain(before)
            .find(|source| source.is_open());
        oldest.into_iter().for_each(Source::close);
    }

    fn take_turn(&mut self, round: &mut Round<'_>) -> io::Result<End> {
        let Scanner {
            sources,
            turn,
            unfinished,
            room,
            batch_max,
            ..
        } = self;
        let Some(source) = sources.get_mut(*turn) else {
            return Ok(End::Done);
        };
        source.begin_turn(round.now_ms);
        let mut names = 0;
        loop {
            if round.is_full(*batch_max) {
                return Ok(End::Full);
            }
            if names >= NAMES_TURN {
                return Ok(End::Spent);
            }
            if source.rests(round.now_ms) {
                return Ok(End::Done);
            }
            let Some((name, kind)) = source.next_name(round.disk, round.now_ms)? else {
                // The whole folder was read, so files that were not met are gone.
                let met = std::mem::take(&mut source.met);
                unfinished.retain(|(of, name), _| *of != source.origin || met.contains(name));
                round.found.news.extend(source.end_pass(round.now_ms, room));
                return Ok(End::Done);
            };
            names += 1;
            round.names += 1;
            if is_ignored(&name)
                || is_agents_folder(round.disk, &source.dir, &source.origin, &name, kind)?
            {
                continue;
            }
            match round.consider(source, unfinished, room, &name)? {
                Step::Next => {}
                Step::Unpaid => {
                    source.put_back(name, kind);
                    return Ok(End::Spent);
                }
            }
        }
    }
}

impl Round<'_> {
    fn is_full(&self, batch_max: usize) -> bool {
        self.found.claimed.len() >= batch_max
            || self.bytes >= BATCH_REQUEST_BYTES
            || self.names >= NAMES_ROUND
            || self.read >= batch_max.max(READ_ROUND)
    }

    /// Deducts the bytes of a file from the deficit. Returns false if the deficit is too small.
    fn charge(&mut self, source: &mut Source, bytes: u64) -> bool {
        let Some(left) = source.deficit.checked_sub(bytes.max(FILE_COST)) else {
            return false;
        };
        source.deficit = left;
        self.read += 1;
        self.bytes = self
            .bytes
            .saturating_add(usize::try_from(bytes).unwrap_or(usize::MAX));
        true
    }

    /// Looks at one file if its spool can pay for it.
    fn consider(
        &mut self,
        source: &mut Source,
        unfinished: &mut BTreeMap<(Origin, OsString), Unfinished>,
        room: &mut Room,
        name: &OsStr,
    ) -> io::Result<Step> {
        let path = source.dir.join(name);
        let stat = match self.disk.stat(&path) {
            Ok(Some(stat)) => Some(stat),
            Ok(None) => {
                unfinished.remove(&(source.origin.clone(), name.to_owned()));
                return Ok(Step::Next);
            }
            // A bad name is refused even if the gate may not inspect the file.
            Err(error) if claim::is_senders_doing(&error) => None,
            Err(error) => return Err(error),
        };
        // No more than this is read.
        let limit = u64::try_from(REQUEST_BYTES_MAX)
            .unwrap_or(u64::MAX)
            .saturating_add(1);
        let bytes = stat
            .filter(|stat| stat.kind == Kind::File)
            .map_or(0, |stat| stat.size.min(limit));
        let key = (source.origin.clone(), name.to_owned());
        let since = unfinished.get(&key).map(|known| known.since_ms);
        let patience = since.is_none_or(|since| self.now_ms.saturating_sub(since) < PATIENCE_MS);
        // Commands rename complete files into their spool, so such a file is never half-written.
        let patience = patience && source.origin != Origin::Local;
        let now = stat.map(version);
        if patience
            && unfinished
                .get(&key)
                .is_some_and(|known| known.version.is_some() && known.version == now)
        {
            // This version did not parse, so reading it again would be a waste of time.
            source.met.insert(key.1);
            return Ok(Step::Next);
        }
        if !source.affords(bytes) {
            return self.peek(source, room, name, stat, bytes);
        }
        if !self.charge(source, bytes) {
            return Ok(Step::Unpaid);
        }
        let origin = source.origin.clone();
        let from = claim::From {
            origin: &origin,
            dir: &source.dir,
            batch: self.batch,
            stat,
        };
        match claim::look(self.disk, &from, name, patience)? {
            Looked::Claimed(claimed) => {
                unfinished.remove(&key);
                let bucket = source.bucket.as_mut();
                bucket.into_iter().for_each(|bucket| bucket.pay(bytes));
                source.claimed();
                self.found.claimed.push(*claimed);
            }
            Looked::Unfinished => {
                if since.is_none() && unfinished.len() >= UNFINISHED_MAX {
                    return Ok(Step::Next);
                }
                source.met.insert(name.to_owned());
                // If the file changed after it was read, it is read again when its patience is
                // over.
                let version = version_now(self.disk, &path);
                unfinished.insert(
                    key,
                    Unfinished {
                        since_ms: since.unwrap_or(self.now_ms),
                        version,
                    },
                );
            }
            Looked::Skipped => {
                unfinished.remove(&key);
            }
        }
        Ok(Step::Next)
    }

    /// Looks at one file of a spool that is over its quota.
    fn peek(
        &mut self,
        source: &mut Source,
        room: &mut Room,
        name: &OsStr,
        stat: Option<Stat>,
        bytes: u64,
    ) -> io::Result<Step> {
        let version = peek::Version::of(name, stat);
        let since_ms = source.remembered.since_ms(&version).unwrap_or(self.now_ms);
        self.found.news.extend(source.hold(name, bytes, since_ms));
        if source.remembered.stays(&version, self.now_ms, self.judge) {
            return Ok(Step::Next);
        }
        if !peek::may_pass(name, stat) {
            source.remembered.insert(version, self.now_ms, None, room);
            return Ok(Step::Next);
        }
        if !self.charge(source, bytes) {
            return Ok(Step::Unpaid);
        }
        let origin = source.origin.clone();
        let from = claim::From {
            origin: &origin,
            dir: &source.dir,
            batch: self.batch,
            stat,
        };
        match peek::peek(self.disk, &from, name, self.judge)? {
            Peeked::Claimed(claimed) => {
                source.remembered.forget(&version, room);
                let bucket = source.bucket.as_mut();
                bucket.into_iter().for_each(|bucket| bucket.owe(bytes));
                source.claimed();
                self.found.claimed.push(*claimed);
            }
            Peeked::Left(waiting) => source
                .remembered
                .insert(version, self.now_ms, waiting, room),
            Peeked::Gone => source.remembered.forget(&version, room),
        }
        Ok(Step::Next)
    }
}

/// Whether this is a directory in the flat spool that is, was, or may become an agent's own spool.
/// Its rule may be about to be written, or be missing for a moment; claiming the directory would
/// take away the requests in it.
fn is_agents_folder(
    disk: &dyn Disk,
    dir: &Path,
    origin: &Origin,
    name: &OsStr,
    kind: Option<Kind>,
) -> io::Result<bool> {
    if *origin != Origin::Flat
        || name
            .to_str()
            .is_none_or(|name| Principal::parse(name).is_err())
    {
        return Ok(false);
    }
    let kind = match kind {
        Some(kind) => Some(kind),
        None => disk.stat(&dir.join(name))?.map(|stat| stat.kind),
    };
    Ok(kind == Some(Kind::Directory))
}
