//! Looking at files of a spool that is over its quota without claiming them: those that no quota holds back
//! are claimed, the others stay where they are and are remembered, so that they are not read again and again.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;

use sha2::{Digest, Sha256};

use super::claim::{self, Claimed, From, Looked, Read};
use super::name::FileName;
use crate::gate::exempt::{Standing, Waiting};
use crate::gate::prepare::Delivery;
use crate::host::disk::{Disk, Kind, Stat};

/// Largest file that is peeked at: nothing that passes a quota may be larger.
pub const PEEK_BYTES_MAX: usize = 64 * 1024;
/// How long a file that was left is not read again, milliseconds: meanwhile its sender may have got a key.
const REMEMBERED_MS: u64 = 60_000;

/// Who says whether a request passes a quota.
pub trait Judge {
    /// Of a file as it would be claimed.
    fn standing(&self, delivery: Delivery) -> Standing;
    /// Of one that was left.
    fn passes_now(&self, waiting: &Waiting) -> bool;
}

/// What became of a file that was peeked at.
#[derive(Debug)]
pub enum Peeked {
    /// It passes and is claimed.
    Claimed(Box<Claimed>),
    /// It stays.
    Left(Option<Box<Waiting>>),
    /// It is gone, or not for the gate to move.
    Gone,
}

/// Whether a file can be one that passes, as far as is known without opening it.
pub fn may_pass(name: &OsStr, stat: Option<Stat>) -> bool {
    let small = |stat: Stat| {
        stat.kind == Kind::File && usize::try_from(stat.size).is_ok_and(|size| size <= PEEK_BYTES_MAX)
    };
    FileName::of(name).is_good && stat.is_some_and(small)
}

/// Reads one file and claims it if it passes. What is claimed is what was read.
///
/// # Errors
/// What the disk says, as in [`claim::look`].
pub fn peek(disk: &dyn Disk, from: &From<'_>, name: &OsStr, judge: &dyn Judge) -> io::Result<Peeked> {
    let file = FileName::of(name);
    let path = from.dir.join(name);
    let (read, opened) = claim::read(disk, &path, &file.shown, PEEK_BYTES_MAX, from.stat)?;
    let bytes = match read {
        Read::Bytes(bytes) => bytes,
        Read::Refused(_) => return Ok(Peeked::Left(None)),
        Read::Gone => return Ok(Peeked::Gone),
    };
    let origin = from.origin.clone();
    let delivery = Delivery {
        origin,
        file: file.known_as.clone(),
        shown: file.shown.clone(),
        content: Ok(bytes.clone()),
    };
    if let Standing::Waits(waiting) = judge.standing(delivery) {
        return Ok(Peeked::Left(waiting));
    }
    let Looked::Claimed(claimed) = claim::take(disk, from, &path, &file, Ok(bytes))? else {
        return Ok(Peeked::Gone);
    };
    let moved = disk.stat(&claim::path_of_claim(&claimed.claim))?;
    if moved.map(|moved| moved.id) == opened.map(|opened| opened.stat.id) {
        return Ok(Peeked::Claimed(claimed));
    }
    // Another file was put in its place between the two; that one was not asked about, and goes back.
    match disk.rename_new(&claim::path_of_claim(&claimed.claim), &path) {
        Ok(()) => Ok(Peeked::Left(None)),
        // Its place is taken, or the folder gone: it is the gate's now and decided as any other claim.
        Err(error)
            if matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound)
                || claim::is_senders_doing(&error) =>
        {
            match claim::reread(disk, claimed.claim, file.shown)? {
                Looked::Claimed(claimed) => Ok(Peeked::Claimed(claimed)),
                _ => Ok(Peeked::Gone),
            }
        }
        Err(error) => Err(error),
    }
}

/// How many left files are remembered, over all spools. Beyond it further ones are read again each time their
/// folder is gone through, as far as the turns of their spool pay for it.
#[derive(Debug)]
pub struct Room {
    files: usize,
    waiting: usize,
}

impl Default for Room {
    fn default() -> Room {
        Room { files: 65_536, waiting: 16_384 }
    }
}

/// Which file in which version: the first half of a SHA-256, so that no sender can make two of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version([u8; 16]);

impl Version {
    /// Of a file as it stands.
    pub fn of(name: &OsStr, stat: Option<Stat>) -> Version {
        let mut hash = Sha256::new();
        hash.update(name.as_bytes());
        if let Some(stat) = stat {
            hash.update([0]);
            hash.update(stat.size.to_le_bytes());
            hash.update(stat.modified_ns.to_le_bytes());
            hash.update(stat.id.device.to_le_bytes());
            hash.update(stat.id.inode.to_le_bytes());
            hash.update(stat.links.to_le_bytes());
        }
        let digest: [u8; 32] = hash.finalize().into();
        let mut half = [0; 16];
        half.iter_mut().zip(digest).for_each(|(to, from)| *to = from);
        Version(half)
    }
}

#[derive(Debug)]
struct Left {
    /// When it was first met.
    since_ms: u64,
    /// When it was read.
    at_ms: u64,
    met: bool,
    waiting: Option<Box<Waiting>>,
}

/// The files of one spool that were left.
#[derive(Debug, Default)]
pub struct Remembered {
    files: BTreeMap<Version, Left>,
}

impl Remembered {
    /// Whether this version was left lately and would be left again.
    pub fn stays(&mut self, version: &Version, monotonic_ms: u64, judge: &dyn Judge) -> bool {
        let Some(left) = self.files.get_mut(version) else { return false };
        left.met = true;
        monotonic_ms.saturating_sub(left.at_ms) < REMEMBERED_MS
            && !left.waiting.as_ref().is_some_and(|waiting| judge.passes_now(waiting))
    }

    /// Since when this version waits, as far as is known.
    pub fn since_ms(&self, version: &Version) -> Option<u64> {
        self.files.get(version).map(|left| left.since_ms)
    }

    /// Remembers a version that was left, if there is room.
    pub fn insert(&mut self, version: Version, at_ms: u64, waiting: Option<Box<Waiting>>, room: &mut Room) {
        let since_ms = self.since_ms(&version).unwrap_or(at_ms);
        self.forget(&version, room);
        if room.files == 0 || (waiting.is_some() && room.waiting == 0) {
            return;
        }
        room.files -= 1;
        room.waiting -= usize::from(waiting.is_some());
        self.files.insert(version, Left { since_ms, at_ms, met: true, waiting });
    }

    /// Forgets a version.
    pub fn forget(&mut self, version: &Version, room: &mut Room) {
        if let Some(left) = self.files.remove(version) {
            room.files += 1;
            room.waiting += usize::from(left.waiting.is_some());
        }
    }

    /// The folder was read to its end: what was not met is not there any more.
    pub fn end_of_pass(&mut self, room: &mut Room) {
        self.files.retain(|_, left| {
            let met = std::mem::take(&mut left.met);
            if !met {
                room.files += 1;
                room.waiting += usize::from(left.waiting.is_some());
            }
            met
        });
    }

    /// Forgets everything.
    pub fn clear(&mut self, room: &mut Room) {
        // Nothing was met since the end of this pass, so the next one empties it.
        self.end_of_pass(room);
        self.end_of_pass(room);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::actions::{ACTIONS, Lane};
    use crate::rules::gateway;

    /// An action whose largest file is not peeked at would be held back over quota. A case with all its evidence
    /// can be, and so can what leaves the machine: they make nothing safer, and whoever brings them waits as agents do.
    #[test]
    fn whatever_passes_a_quota_is_small_enough_to_be_peeked_at() {
        let may_wait = |name: &str| name == "council.request" || gateway::ACTIONS.contains(&name);
        let small = ACTIONS.iter().filter(|rule| !may_wait(rule.name));
        for rule in small.filter(|rule| rule.lane != Lane::Feed) {
            assert!(rule.bytes_max <= PEEK_BYTES_MAX, "{}", rule.name);
        }
    }
}
