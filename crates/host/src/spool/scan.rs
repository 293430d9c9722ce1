//! Finds the files in the spool. Only a scan counts; events are just hints to scan. Folders are
//! read as open streams to their end and then again from the start, so that no name starves, and
//! only as many names as fit into a batch are held at a time. The spools take turns by deficit
//! round robin in bytes; see docs/spool.md. In the flat spool each owner of files takes turns of its
//! own, see `owners.rs`.

mod owners;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use super::allowance::Allowance;
use super::claim::{self, Claimed, Looked};
use super::name::is_ignored;
use super::peek::{self, Judge, Peeked, Room};
use super::source::{Next, QUANTUM, Source};
use owners::Look;
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
/// Maximum number of folders kept open between turns, the look at the flat spool included. Each
/// takes a descriptor, and a process may have 1,024 of them.
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
    /// Why an entry could not be read, if its sender may not be to blame.
    pub failure: Option<io::Error>,
}

/// An unfinished file: its spool, its owner in the flat spool, and its name.
type UnfinishedKey = (Origin, Option<u32>, OsString);

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
    gate: Gate,
    judge: &'a dyn Judge,
    now_ms: u64,
    batch: u64,
    found: Found,
    bytes: usize,
    names: usize,
    read: usize,
    /// Entries that were answered in this round although they stay.
    stuck: BTreeSet<(Origin, OsString)>,
}

/// The spool whose turn it is, and what it shares with others.
struct Turn<'a> {
    source: &'a mut Source,
    allowance: Option<&'a mut Allowance>,
    unfinished: &'a mut BTreeMap<UnfinishedKey, Unfinished>,
    room: &'a mut Room,
    /// Whether a file of this user in the flat spool belongs to this turn.
    is_mine: &'a dyn Fn(Option<u32>) -> bool,
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
    quotas: BTreeMap<Origin, Allowance>,
    /// Names of the folders of agents' own spools.
    agents: BTreeSet<OsString>,
    look: Look,
    turn: usize,
    /// Whether the spool at `turn` is in the middle of its turn.
    in_turn: bool,
    /// Whether all spools must be looked at again.
    afresh: bool,
    unfinished: BTreeMap<UnfinishedKey, Unfinished>,
    room: Room,
    batch_max: usize,
}

impl Default for Scanner {
    /// A scanner over the spool of commands and the flat spool, without quotas.
    fn default() -> Scanner {
        let mut scanner = Scanner {
            sources: Vec::new(),
            quotas: BTreeMap::new(),
            agents: BTreeSet::new(),
            look: Look::default(),
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
        self.agents = agents.keys().map(|name| name.as_str().into()).collect();
        let own = agents
            .into_iter()
            .map(|(name, quota)| (Origin::Agent(name.clone()), quota));
        let wanted = [(Origin::Local, None), (Origin::Flat, flat)]
            .into_iter()
            .chain(own);
        let mut quotas = std::mem::take(&mut self.quotas);
        let mut before: BTreeMap<(Origin, Option<u32>), Source> = std::mem::take(&mut self.sources)
            .into_iter()
            .map(|source| ((source.origin.clone(), source.owner), source))
            .collect();
        for (origin, quota) in wanted {
            if let Some(quota) = quota {
                let allowance = match quotas.remove(&origin) {
                    None => Allowance::full(&folder(&origin), quota),
                    Some(before) => before.under(quota),
                };
                self.quotas.insert(origin.clone(), allowance);
            }
            let key = (origin, None);
            self.sources.push(match before.remove(&key) {
                None => Source::new(key.0, None),
                Some(old) => old.again(&mut self.room),
            });
        }
        let (owners, gone): (Vec<Source>, Vec<Source>) = before
            .into_values()
            .partition(|source| source.owner.is_some());
        gone.into_iter()
            .for_each(|mut gone| gone.clear(&mut self.room));
        for owner in owners {
            self.sources.push(owner.again(&mut self.room));
        }
        self.look.begin_again(&self.sources);
        self.forget_unfinished();
        self.turn = 0;
        self.in_turn = false;
        self.afresh = true;
    }

    /// Forgets unfinished files of spools that are gone.
    fn forget_unfinished(&mut self) {
        let kept: BTreeSet<(&Origin, Option<u32>)> = self
            .sources
            .iter()
            .map(|source| (&source.origin, source.owner))
            .collect();
        self.unfinished
            .retain(|(origin, owner, _), _| kept.contains(&(origin, *owner)));
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
        self.quotas.values().any(Allowance::is_over)
    }

    /// Number of entries per spool that are left because they cannot be moved away. Spools without
    /// one are left out.
    pub fn left(&self) -> BTreeMap<String, usize> {
        let mut left = BTreeMap::new();
        for source in self.sources.iter().filter(|source| source.left() > 0) {
            let count: &mut usize = left.entry(source.origin.label()).or_default();
            *count = count.saturating_add(source.left());
        }
        left
    }

    /// Claims up to a batch of files for batch number `batch`. `only_local` takes only what
    /// commands handed over; `judge` decides what passes regardless of a quota, and on a full disk
    /// what is claimed at all.
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
            gate: Gate::of(disk)?,
            judge,
            now_ms,
            batch,
            found,
            bytes: 0,
            names: 0,
            read: 0,
            stuck: BTreeSet::new(),
        };
        if !only_local {
            self.look_ahead((disk, round.gate), now_ms)?;
        }
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
        round.found.more |= !only_local && self.look.is_going_on();
        self.look.claimed(round.found.claimed.len());
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
        if held + 1 < OPEN_MAX || self.sources.get(self.turn).is_some_and(Source::is_open) {
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
            quotas,
            agents,
            look,
            turn,
            unfinished,
            room,
            batch_max,
            ..
        } = self;
        let Some(source) = sources.get_mut(*turn) else {
            return Ok(End::Done);
        };
        let is_mine = |uid| look.place(uid) == *turn;
        let mut turn = Turn {
            allowance: quotas.get_mut(&source.origin),
            source,
            unfinished,
            room,
            is_mine: &is_mine,
        };
        turn.source
            .begin_turn(turn.allowance.as_deref_mut(), round.now_ms);
        let mut names = 0;
        loop {
            if round.is_full(*batch_max) {
                return Ok(End::Full);
            }
            if names >= NAMES_TURN {
                return Ok(End::Spent);
            }
            if turn.rests(round.now_ms) {
                return Ok(End::Done);
            }
            let (name, kind) = match turn
                .source
                .next_name((round.disk, round.gate), round.now_ms)?
            {
                Next::Name(name, kind) => (name, kind),
                Next::Later => return Ok(End::Done),
                Next::End => {
                    round.found.news.extend(turn.end_pass());
                    return Ok(End::Done);
                }
            };
            names += 1;
            round.names += 1;
            if is_ignored(&name)
                || turn.source.origin == Origin::Flat
                    && is_agents_folder((round.disk, round.gate), agents, &name, kind)?
            {
                continue;
            }
            match round.consider(&mut turn, &name)? {
                Step::Next => {}
                Step::Unpaid => {
                    turn.source.put_back(name, kind);
                    return Ok(End::Spent);
                }
            }
        }
    }
}

impl Turn<'_> {
    fn rests(&self, now_ms: u64) -> bool {
        let is_over = self
            .allowance
            .as_ref()
            .is_some_and(|allowance| allowance.is_over());
        self.source.rests(is_over, now_ms)
    }

    /// Whether a file of `bytes` bytes is within the quota.
    fn affords(&self, bytes: u64) -> bool {
        self.allowance
            .as_ref()
            .is_none_or(|allowance| allowance.affords(bytes))
    }

    fn key(&self, name: &OsStr) -> UnfinishedKey {
        let source = &self.source;
        (source.origin.clone(), source.owner, name.to_owned())
    }

    /// Ends a pass over all names: files that were not met are gone. Returns a message about the
    /// quota.
    fn end_pass(&mut self) -> Option<String> {
        let met = std::mem::take(&mut self.source.met);
        let (origin, owner) = (&self.source.origin, self.source.owner);
        self.unfinished
            .retain(|(of, whose, name), _| (of, *whose) != (origin, owner) || met.contains(name));
        self.source
            .end_pass(self.allowance.as_deref_mut(), self.room)
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
    fn consider(&mut self, turn: &mut Turn<'_>, name: &OsStr) -> io::Result<Step> {
        let path = turn.source.dir.join(name);
        let stat = match self.disk.stat(&path) {
            Ok(Some(stat)) => Some(stat),
            Ok(None) => {
                turn.unfinished.remove(&turn.key(name));
                return Ok(Step::Next);
            }
            // A bad name is refused even if the gate may not inspect the file.
            Err(error) if claim::concerns_entry(&turn.source.origin, &error) => None,
            Err(error) => return Err(error),
        };
        let uid = stat.map(|stat| stat.uid);
        if turn.source.origin == Origin::Flat && !(turn.is_mine)(uid) {
            return Ok(Step::Next);
        }
        // No more than this is read.
        let limit = u64::try_from(REQUEST_BYTES_MAX)
            .unwrap_or(u64::MAX)
            .saturating_add(1);
        let bytes = stat
            .filter(|stat| stat.kind == Kind::File)
            .map_or(0, |stat| stat.size.min(limit));
        let key = turn.key(name);
        let known = (!turn.source.stuck.is_empty()).then(|| peek::Version::of(name, stat));
        if known.is_some_and(|version| turn.source.stuck.rests(&version, self.now_ms))
            || !self.stuck.is_empty() && self.stuck.contains(&(key.0.clone(), key.2.clone()))
        {
            return Ok(Step::Next);
        }
        let since = turn.unfinished.get(&key).map(|known| known.since_ms);
        let patience = since.is_none_or(|since| self.now_ms.saturating_sub(since) < PATIENCE_MS);
        // Commands rename complete files into their spool, so such a file is never half-written.
        let patience = patience && turn.source.origin != Origin::Local;
        let now = stat.map(version);
        if patience
            && turn
                .unfinished
                .get(&key)
                .is_some_and(|known| known.version.is_some() && known.version == now)
        {
            // This version did not parse, so reading it again would be a waste of time.
            turn.source.met.insert(key.2);
            return Ok(Step::Next);
        }
        if self.judge.judges_all() || !turn.affords(bytes) {
            return self.peek(turn, name, stat, bytes);
        }
        if !self.charge(turn.source, bytes) {
            return Ok(Step::Unpaid);
        }
        let origin = turn.source.origin.clone();
        let from = claim::From {
            origin: &origin,
            dir: &turn.source.dir,
            batch: self.batch,
            stat,
        };
        match claim::look(self.disk, &from, name, patience)? {
            Looked::Claimed(claimed) => {
                turn.unfinished.remove(&key);
                turn.source.pay(turn.allowance.as_deref_mut(), bytes);
                turn.source.claimed();
                if let Some(version) = known {
                    turn.source.stuck.forget(&version, turn.room);
                }
                self.found.claimed.push(*claimed);
            }
            Looked::Stuck(refused) => self.stay(turn, key, (name, stat), *refused, false),
            Looked::Unread(error) => {
                let refused = claim::unread(&from, name, &error);
                self.found.failure = Some(error);
                self.stay(turn, key, (name, stat), *refused, true);
            }
            Looked::Unfinished => {
                if since.is_none() && turn.unfinished.len() >= UNFINISHED_MAX {
                    return Ok(Step::Next);
                }
                turn.source.met.insert(name.to_owned());
                // If the file changed after it was read, it is read again when its patience is
                // over.
                let version = version_now(self.disk, &path);
                turn.unfinished.insert(
                    key,
                    Unfinished {
                        since_ms: since.unwrap_or(self.now_ms),
                        version,
                    },
                );
            }
            Looked::Skipped => {
                turn.unfinished.remove(&key);
            }
        }
        Ok(Step::Next)
    }

    /// Leaves an entry where it is, and answers it if it is time to.
    fn stay(
        &mut self,
        turn: &mut Turn<'_>,
        key: UnfinishedKey,
        (name, stat): (&OsStr, Option<Stat>),
        refused: Claimed,
        is_unread: bool,
    ) {
        turn.unfinished.remove(&key);
        let version = peek::Version::of(name, stat);
        let stuck = &mut turn.source.stuck;
        if stuck.stay(version, is_unread, self.now_ms, turn.room) {
            // A file that takes the place of this entry must not have the same claim.
            self.stuck.insert((key.0, key.2));
            self.found.claimed.push(refused);
        }
    }

    /// Looks at one file of a spool that is over its quota, or on a full disk.
    fn peek(
        &mut self,
        turn: &mut Turn<'_>,
        name: &OsStr,
        stat: Option<Stat>,
        bytes: u64,
    ) -> io::Result<Step> {
        let Turn {
            source,
            allowance,
            room,
            ..
        } = turn;
        let version = peek::Version::of(name, stat);
        let since_ms = source.remembered.since_ms(&version).unwrap_or(self.now_ms);
        if let Some(allowance) = allowance
            .as_deref_mut()
            .filter(|_| !self.judge.judges_all())
        {
            self.found
                .news
                .extend(source.hold(allowance, name, bytes, since_ms));
        }
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
                if let Some(allowance) = allowance {
                    allowance.owe(bytes);
                }
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

/// The user whose folders are taken for spools: the owner of the folder of all spools, where no
/// agent can put one. Root may make folders too.
#[derive(Clone, Copy)]
pub struct Gate(Option<u32>);

impl Gate {
    /// Looks the user up.
    ///
    /// # Errors
    /// Returns the disk's error.
    pub fn of(disk: &dyn Disk) -> io::Result<Gate> {
        let spool = disk.stat(Path::new("spool"))?;
        Ok(Gate(spool.map(|stat| stat.uid)))
    }

    /// Whether the gate or the operator made this folder. An agent that may write to the flat spool
    /// can make a folder under any name, and could exchange what others put into it.
    pub fn made(self, folder: Stat) -> bool {
        folder.uid == 0 || Some(folder.uid) == self.0
    }
}

/// Whether this is a directory in the flat spool that is, was, or may become an agent's own spool.
/// Its rule may be about to be written, or be missing for a moment; claiming the directory would
/// take away the requests in it. Under the name of a spool that the rules name, a directory stays
/// even if it is not used as one.
fn is_agents_folder(
    (disk, gate): (&dyn Disk, Gate),
    known: &BTreeSet<OsString>,
    name: &OsStr,
    kind: Option<Kind>,
) -> io::Result<bool> {
    let is_known = known.contains(name);
    let may_be_one = is_known
        || name
            .to_str()
            .is_some_and(|name| Principal::parse(name).is_ok());
    if !may_be_one || kind.is_some_and(|kind| kind != Kind::Directory) {
        return Ok(false);
    }
    let stat = disk.stat(&folder(&Origin::Flat).join(name))?;
    let folder = stat.filter(|stat| stat.kind == Kind::Directory);
    Ok(folder.is_some_and(|folder| is_known || gate.made(folder)))
}
