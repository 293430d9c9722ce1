//! Reads files of a spool that is over its quota without claiming them first. Files that pass
//! regardless of the quota are claimed. The others stay where they are and are remembered, so that
//! they are not read again and again.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;

use sha2::{Digest, Sha256};

use super::claim::{self, Claimed, From, Looked, Read};
use super::name::FileName;
use spoolgate_gate::exempt::Standing;
use spoolgate_gate::prepare::Delivery;
use spoolgate_gate::safer::Waiting;
use spoolgate_ledger::disk::{Disk, Kind, Stat};

/// Largest file that is read this way: nothing that passes regardless of a quota may be larger.
pub const PEEK_BYTES_MAX: usize = 64 * 1024;
/// How long a file that was left is not read again, in milliseconds; its sender may get a key
/// meanwhile.
const REMEMBERED_MS: u64 = 60_000;

/// Decides whether a request passes regardless of the quota.
pub trait Judge {
    /// Whether files within the quota must pass too, because the disk has little room or none.
    fn judges_all(&self) -> bool {
        false
    }
    /// Judges a file as it would be claimed.
    fn standing(&self, delivery: Delivery) -> Standing;
    /// Judges a file that was left earlier.
    fn passes_now(&self, waiting: &Waiting) -> bool;
}

/// Result of reading such a file.
#[derive(Debug)]
pub enum Peeked {
    /// The file passes and was claimed.
    Claimed(Box<Claimed>),
    /// The file stays in the spool.
    Left(Option<Box<Waiting>>),
    /// The file is gone, or the gate may not move it.
    Gone,
}

/// Whether a file could pass, judged without opening it.
pub fn may_pass(name: &OsStr, stat: Option<Stat>) -> bool {
    let small = |stat: Stat| {
        stat.kind == Kind::File
            && usize::try_from(stat.size).is_ok_and(|size| size <= PEEK_BYTES_MAX)
    };
    FileName::of(name).is_good && stat.is_some_and(small)
}

/// Reads one file and claims it if it passes. The claim has exactly the bytes that were read.
///
/// # Errors
/// As [`claim::look`].
pub fn peek(
    disk: &dyn Disk,
    from: &From<'_>,
    name: &OsStr,
    judge: &dyn Judge,
) -> io::Result<Peeked> {
    let file = FileName::of(name);
    let path = from.dir.join(name);
    let read = claim::read(disk, &path, &file.shown, PEEK_BYTES_MAX, from.stat);
    let (read, opened) = match read {
        Err(error) if claim::concerns_entry(from.origin, &error) => {
            return Ok(Peeked::Left(None));
        }
        other => other?,
    };
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
    // The file was swapped between read and rename. The new file was not judged, so it goes back.
    match disk.rename_new(&claim::path_of_claim(&claimed.claim), &path) {
        Ok(()) => Ok(Peeked::Left(None)),
        // The name is taken again, or the folder is gone. The gate now has the file and decides it
        // like any other claim.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound
            ) || claim::is_senders_doing(&error) =>
        {
            match claim::reread(disk, claimed.claim, file.shown)? {
                Looked::Claimed(claimed) => Ok(Peeked::Claimed(claimed)),
                _ => Ok(Peeked::Gone),
            }
        }
        Err(error) => Err(error),
    }
}

/// Limits on the number of left files that are remembered, over all spools. Files beyond the limit
/// are read again on every pass over their folder, as far as the turns of their spool pay for it.
#[derive(Debug)]
pub struct Room {
    files: usize,
    waiting: usize,
    stuck: usize,
}

impl Room {
    /// Takes the room of an entry that cannot be moved away. Returns false if there is none.
    pub(super) fn take_stuck(&mut self) -> bool {
        let left = self.stuck.checked_sub(1);
        self.stuck = left.unwrap_or_default();
        left.is_some()
    }

    /// Gives that room back.
    pub(super) fn give_stuck(&mut self) {
        self.stuck = self.stuck.saturating_add(1);
    }
}

impl Default for Room {
    fn default() -> Room {
        Room {
            files: 65_536,
            waiting: 16_384,
            stuck: 8192,
        }
    }
}

/// Identifies a version of a file: the first half of a SHA-256, so that no sender can make two
/// versions look the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version([u8; 16]);

impl Version {
    /// The version of a file as it is now.
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
        half.iter_mut()
            .zip(digest)
            .for_each(|(to, from)| *to = from);
        Version(half)
    }
}

#[derive(Debug)]
struct Left {
    /// When the file was first met.
    since_ms: u64,
    /// When the file was last read.
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
    /// Whether this version was left recently and would be left again.
    pub fn stays(&mut self, version: &Version, monotonic_ms: u64, judge: &dyn Judge) -> bool {
        let Some(left) = self.files.get_mut(version) else {
            return false;
        };
        left.met = true;
        monotonic_ms.saturating_sub(left.at_ms) < REMEMBERED_MS
            && !left
                .waiting
                .as_ref()
                .is_some_and(|waiting| judge.passes_now(waiting))
    }

    /// Since when this version has been waiting, as far as is known.
    pub fn since_ms(&self, version: &Version) -> Option<u64> {
        self.files.get(version).map(|left| left.since_ms)
    }

    /// Remembers a version that was left, if there is room.
    pub fn insert(
        &mut self,
        version: Version,
        at_ms: u64,
        waiting: Option<Box<Waiting>>,
        room: &mut Room,
    ) {
        let since_ms = self.since_ms(&version).unwrap_or(at_ms);
        self.forget(&version, room);
        if room.files == 0 || (waiting.is_some() && room.waiting == 0) {
            return;
        }
        room.files -= 1;
        room.waiting -= usize::from(waiting.is_some());
        self.files.insert(
            version,
            Left {
                since_ms,
                at_ms,
                met: true,
                waiting,
            },
        );
    }

    /// Forgets a version.
    pub fn forget(&mut self, version: &Version, room: &mut Room) {
        if let Some(left) = self.files.remove(version) {
            room.files += 1;
            room.waiting += usize::from(left.waiting.is_some());
        }
    }

    /// Forgets files that were not met: the folder was read to its end, so they are gone.
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
        // The first pass clears all `met` marks, so the second one removes everything.
        self.end_of_pass(room);
        self.end_of_pass(room);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spoolgate_gate::actions::{Lane, rows};
    use spoolgate_wire::action_name::ActionName;

    /// An action whose largest file is too large to peek at would be held back over quota. That is
    /// acceptable for a case with all its evidence and for outgoing actions: they make nothing
    /// safer, and their senders wait like agents.
    #[test]
    fn whatever_passes_a_quota_is_small_enough_to_be_peeked_at() {
        let may_wait = |name: ActionName| name == ActionName::CouncilRequest || name.is_outgoing();
        let small = rows().filter(|rule| !may_wait(rule.name));
        for rule in small.filter(|rule| rule.lane != Lane::Feed) {
            assert!(rule.bytes_max <= PEEK_BYTES_MAX, "{}", rule.name);
        }
    }
}
