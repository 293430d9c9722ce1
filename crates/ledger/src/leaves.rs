//! The input of proofs: the leaf hashes of a log, and the roots of every 256, 65,536 and 16,777,216
//! of them, so that a proof in a log of any size needs a few hundred hashes.
//!
//! They are stored in `audit/leaves`, `.8`, `.16` and `.24`, 32 bytes each, in the order of the
//! log. The files are only a cache. If they are missing, too short or not writable, the missing
//! hashes are computed from the lines; what they contain is used only if it leads to a signed root.
//! Every process that makes a proof extends them in place. The lines of a sealed batch never
//! change, so any number of processes may do that at once: they write the same bytes to the same
//! offsets.

use std::path::PathBuf;

use super::LedgerError;
use super::find::Finder;
use super::tree::{Frontier, Hash, empty_root, node_hash};
use crate::disk::{self, Access, LogFile, Mode};

/// Names of the files. A hash in file number `n` is the root of 256 to the power of `n` lines.
pub const FILES: [&str; LEVELS] = ["leaves", "leaves.8", "leaves.16", "leaves.24"];

const LEVELS: usize = 4;

/// Number of hashes of a file that one hash of the next file covers.
const GROUP: u64 = 256;

/// [`GROUP`] as an exponent of two.
const GROUP_LOG: u32 = 8;

/// Bytes per hash in a file.
const HASH_BYTES: u64 = 32;

/// Smallest number of lines by which the files are extended: hashing fewer lines again costs less
/// than a write.
const EXTEND_LINES_MIN: u64 = 1024;

/// Number of leaf hashes that are written at a time.
const WRITE_HASHES: usize = 65_536;

/// One of the files, and the hashes that are missing from it.
#[derive(Default)]
struct Level {
    file: Option<Box<dyn LogFile>>,
    /// Number of hashes of the file that are used.
    in_file: u64,
    /// The hashes after those; always empty for leaves.
    tail: Vec<Hash>,
}

/// The hashes of the first lines of a log.
///
/// ```
/// use std::path::Path;
///
/// use spoolgate_ledger::{find::Finder, folder::Folder, leaves::Leaves, note};
///
/// let folder = Folder::open("testdata/log")?;
/// let checkpoint = std::fs::read_to_string("testdata/log/checkpoint")?;
/// let head = note::claimed(&checkpoint).ok_or("it is not a checkpoint")?;
/// let finder = Finder::open(&folder, Path::new(""))?;
/// let mut leaves = Leaves::open(finder, head.size)?.ok_or("the log is shorter")?;
/// assert_eq!(leaves.root(head.size)?, Some(head.root));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Leaves<'a> {
    finder: Finder<'a>,
    size: u64,
    levels: [Level; LEVELS],
    /// The last group of leaves that was computed from lines, and the number of its first leaf.
    group: (u64, Vec<Hash>),
    from_cache: bool,
}

impl<'a> Leaves<'a> {
    /// Reads the hashes of the first `size` lines from the files, computes the rest, and adds them
    /// to the files if they are writable. All of these lines must be sealed. `None` if files and
    /// log do not yield that many.
    ///
    /// # Errors
    /// Returns [`LedgerError`] if the log's own files cannot be read.
    pub fn open(finder: Finder<'a>, size: u64) -> Result<Option<Leaves<'a>>, LedgerError> {
        let mut leaves = Leaves::without_files(finder, size);
        leaves.load();
        Ok(leaves.extend()?.then_some(leaves))
    }

    /// Computes the hashes from the lines alone and writes the files anew. `None` if the log has
    /// fewer lines.
    ///
    /// # Errors
    /// Returns [`LedgerError`] if the log's own files cannot be read.
    pub fn rebuild(finder: Finder<'a>, size: u64) -> Result<Option<Leaves<'a>>, LedgerError> {
        let (disk, dir) = finder.place();
        let mut may_write = true;
        for name in FILES {
            let path = dir.join(name);
            let gone =
                disk.remove(&path).is_ok() || disk.stat(&path).is_ok_and(|stat| stat.is_none());
            may_write &= gone;
        }
        let mut leaves = Leaves::without_files(finder, size);
        Ok(leaves.extend_with(may_write)?.then_some(leaves))
    }

    fn without_files(finder: Finder<'a>, size: u64) -> Leaves<'a> {
        Leaves {
            finder,
            size,
            levels: Default::default(),
            group: (0, Vec::new()),
            from_cache: false,
        }
    }

    /// Whether any hash was read from the files instead of computed from lines.
    pub fn is_from_cache(&self) -> bool {
        self.from_cache
    }

    fn path(&self, level: usize) -> PathBuf {
        self.finder
            .place()
            .1
            .join(FILES.get(level).copied().unwrap_or_default())
    }

    /// Opens the files as far as they are consistent with each other.
    fn load(&mut self) {
        let disk = self.finder.place().0;
        let mut most = u64::MAX;
        for index in 0..LEVELS {
            let path = self.path(index);
            let Some(level) = self.levels.get_mut(index) else {
                break;
            };
            // A cache that cannot be read counts as missing.
            level.file = disk.open_log(&path, Access::Read).ok();
            let length = level
                .file
                .as_ref()
                .and_then(|file| file.len().ok())
                .unwrap_or(0);
            level.in_file = (length / HASH_BYTES).min(most);
            if index == 0 {
                level.in_file = level.in_file.min(self.size);
                self.from_cache = level.in_file > 0;
                most = level.in_file;
            }
            most /= GROUP;
        }
    }

    /// Computes the hashes that the files lack. Returns whether files and log yielded all of them.
    fn extend(&mut self) -> Result<bool, LedgerError> {
        let without_leaf = self.size.saturating_sub(self.cached());
        let whole = |level: u32| self.cached() >> (GROUP_LOG * level);
        let is_worth_it = without_leaf >= EXTEND_LINES_MIN
            || whole(1).saturating_sub(self.held(1)) >= EXTEND_LINES_MIN / GROUP
            || whole(2) > self.held(2)
            || whole(3) > self.held(3);
        self.extend_with(is_worth_it)
    }

    fn cached(&self) -> u64 {
        self.levels.first().map_or(0, |leaves| leaves.in_file)
    }

    fn extend_with(&mut self, may_write: bool) -> Result<bool, LedgerError> {
        let cached = self.cached();
        // Complete the higher files from the leaves in the file.
        for level in 1..LEVELS {
            let whole = cached >> (GROUP_LOG * u32::try_from(level).unwrap_or(u32::MAX));
            for group in self.held(level)..whole {
                let Some(root) = self.root_of_group(level, group)? else {
                    return Ok(false);
                };
                self.push(level, root);
            }
        }
        let mut writer = Writer {
            may_write,
            at: cached,
            waiting: Vec::new(),
        };
        // The last, incomplete group of leaves in the file.
        let Some(mut group) = self.hashes(0, cached - cached % GROUP, cached % GROUP)? else {
            return Ok(false);
        };
        let mut at = cached;
        while at < self.size {
            let to = at.saturating_add(WRITE_HASHES as u64).min(self.size);
            let mut found = Vec::with_capacity(WRITE_HASHES);
            self.finder
                .each_leaf(at, to, &mut |leaf| found.push(leaf))?;
            for leaf in &found {
                group.push(*leaf);
                if group.len() as u64 == GROUP {
                    self.push(1, root_of(&group));
                    group.clear();
                    self.fold_up()?;
                }
            }
            let count = found.len() as u64;
            writer.waiting = found;
            self.write_leaves(&mut writer);
            at = at.saturating_add(count);
            if count == 0 {
                return Ok(false);
            }
        }
        if writer.may_write {
            self.write_roots();
        }
        Ok(true)
    }

    /// Number of hashes that a level has.
    fn held(&self, level: usize) -> u64 {
        self.levels.get(level).map_or(0, |level| {
            level.in_file.saturating_add(level.tail.len() as u64)
        })
    }

    fn push(&mut self, level: usize, root: Hash) {
        if let Some(level) = self.levels.get_mut(level) {
            level.tail.push(root);
        }
    }

    /// Computes the roots of complete groups of roots.
    fn fold_up(&mut self) -> Result<(), LedgerError> {
        for level in 2..LEVELS {
            let group = self.held(level);
            if self.held(level - 1) < group.saturating_add(1).saturating_mul(GROUP) {
                break;
            }
            if let Some(root) = self.root_of_group(level, group)? {
                self.push(level, root);
            }
        }
        Ok(())
    }

    /// Root of the group of hashes, one level below, that hash `number` of `level` covers.
    fn root_of_group(&mut self, level: usize, number: u64) -> Result<Option<Hash>, LedgerError> {
        let below = self.hashes(level.saturating_sub(1), number.saturating_mul(GROUP), GROUP)?;
        Ok(below.map(|below| root_of(&below)))
    }

    /// Writes leaves after those in the file.
    fn write_leaves(&mut self, writer: &mut Writer) {
        if writer.may_write {
            let (disk, _) = self.finder.place();
            let path = self.path(0);
            let count = writer.waiting.len() as u64;
            let offset = writer.at.saturating_mul(HASH_BYTES);
            let written = disk.write_at(&path, offset, &bytes_of(&writer.waiting), Mode::Shared);
            let file = written.and_then(|()| disk.open_log(&path, Access::Read));
            // If that fails, the leaves are computed from the lines again when they are needed.
            match (file, self.levels.first_mut()) {
                (Ok(file), Some(level)) => {
                    level.file = Some(file);
                    level.in_file = level.in_file.saturating_add(count);
                    writer.at = writer.at.saturating_add(count);
                }
                _ => writer.may_write = false,
            }
        }
        writer.waiting.clear();
    }

    /// Writes roots after those in their files.
    fn write_roots(&self) {
        let (disk, _) = self.finder.place();
        for (index, level) in self
            .levels
            .iter()
            .enumerate()
            .skip(1)
            .filter(|(_, level)| !level.tail.is_empty())
        {
            let offset = level.in_file.saturating_mul(HASH_BYTES);
            // Roots that could not be written are computed from the leaves next time.
            let _ = disk.write_at(
                &self.path(index),
                offset,
                &bytes_of(&level.tail),
                Mode::Shared,
            );
        }
    }

    /// Returns `count` hashes of a level from `start` on. `None` if there are fewer.
    fn hashes(
        &mut self,
        level: usize,
        start: u64,
        count: u64,
    ) -> Result<Option<Vec<Hash>>, LedgerError> {
        let Some(held) = self.levels.get(level) else {
            return Ok(None);
        };
        let end = start.saturating_add(count);
        let in_file = end.min(held.in_file).saturating_sub(start);
        let mut found = Vec::with_capacity(usize::try_from(count).unwrap_or(0));
        if let Some(file) = held.file.as_deref().filter(|_| in_file > 0) {
            let length = usize::try_from(in_file.saturating_mul(HASH_BYTES)).unwrap_or(usize::MAX);
            match disk::read_exact_at(file, start.saturating_mul(HASH_BYTES), length) {
                Ok(bytes) => found.extend(
                    bytes
                        .as_chunks::<32>()
                        .0
                        .iter()
                        .map(|hash| Hash::from_bytes(*hash)),
                ),
                // The file became shorter meanwhile, or cannot be read.
                Err(_) => return Ok(None),
            }
        }
        let behind = start.max(held.in_file);
        if behind < end {
            if level == 0 {
                return self.leaves_of_lines(found, behind, end);
            }
            let from = usize::try_from(behind.saturating_sub(held.in_file)).unwrap_or(usize::MAX);
            let to = usize::try_from(end.saturating_sub(held.in_file)).unwrap_or(usize::MAX);
            let Some(tail) = held.tail.get(from..to) else {
                return Ok(None);
            };
            found.extend_from_slice(tail);
        }
        Ok(Some(found))
    }

    /// Adds leaves computed from lines, one group at a time.
    fn leaves_of_lines(
        &mut self,
        mut found: Vec<Hash>,
        start: u64,
        end: u64,
    ) -> Result<Option<Vec<Hash>>, LedgerError> {
        let mut at = start;
        while at < end {
            let first = at - at % GROUP;
            let to = first.saturating_add(GROUP).min(self.size);
            if self.group.0 != first || self.group.1.is_empty() {
                let mut group = Vec::new();
                self.finder
                    .each_leaf(first, to, &mut |leaf| group.push(leaf))?;
                self.group = (first, group);
            }
            let upto = end.min(to);
            let within =
                |number: u64| usize::try_from(number.saturating_sub(first)).unwrap_or(usize::MAX);
            let Some(part) = self.group.1.get(within(at)..within(upto)) else {
                return Ok(None);
            };
            found.extend_from_slice(part);
            at = upto;
        }
        Ok(Some(found))
    }

    /// Root of the tree over the lines in `from..to`. `None` if their hashes are not available.
    fn subtree(&mut self, from: u64, to: u64) -> Result<Option<Hash>, LedgerError> {
        let count = to.saturating_sub(from);
        if count == 0 {
            return Ok(Some(empty_root()));
        }
        if count.is_power_of_two() && from.is_multiple_of(count) {
            let level = (count.trailing_zeros() / GROUP_LOG).min(3);
            let shift = level * GROUP_LOG;
            let hashes = self.hashes(level as usize, from >> shift, count >> shift)?;
            return Ok(hashes.map(|hashes| root_of(&hashes)));
        }
        let middle = from.saturating_add(largest_below(count));
        let (left, right) = (self.subtree(from, middle)?, self.subtree(middle, to)?);
        Ok(left
            .zip(right)
            .map(|(left, right)| node_hash(&left, &right)))
    }

    /// Root of the first `size` lines. `None` if there are fewer.
    ///
    /// # Errors
    /// Returns [`LedgerError`] if the log's own files cannot be read.
    pub fn root(&mut self, size: u64) -> Result<Option<Hash>, LedgerError> {
        if size > self.size {
            return Ok(None);
        }
        self.subtree(0, size)
    }

    /// The inclusion proof of line `index` in the tree of the first `size` lines (RFC 6962, section
    /// 2.1.1). `None` if there is no such line.
    ///
    /// # Errors
    /// Returns [`LedgerError`] if the log's own files cannot be read.
    pub fn inclusion(&mut self, index: u64, size: u64) -> Result<Option<Vec<Hash>>, LedgerError> {
        if index >= size || size > self.size {
            return Ok(None);
        }
        let (mut from, mut to) = (0_u64, size);
        let mut path = Vec::new();
        while to.saturating_sub(from) > 1 {
            let middle = from.saturating_add(largest_below(to.saturating_sub(from)));
            let sibling = if index < middle {
                (middle, to)
            } else {
                (from, middle)
            };
            let Some(root) = self.subtree(sibling.0, sibling.1)? else {
                return Ok(None);
            };
            path.push(root);
            (from, to) = if index < middle {
                (from, middle)
            } else {
                (middle, to)
            };
        }
        path.reverse();
        Ok(Some(path))
    }

    /// The consistency proof from the first `old` lines to the first `size` (RFC 6962, section
    /// 2.1.2). `None` if `old` is zero or more than `size`.
    ///
    /// # Errors
    /// Returns [`LedgerError`] if the log's own files cannot be read.
    pub fn consistency(&mut self, old: u64, size: u64) -> Result<Option<Vec<Hash>>, LedgerError> {
        if old == 0 || old > size || size > self.size {
            return Ok(None);
        }
        let (mut from, mut to) = (0_u64, size);
        let mut path = Vec::new();
        while old < to {
            let middle = from.saturating_add(largest_below(to.saturating_sub(from)));
            let sibling = if old <= middle {
                (middle, to)
            } else {
                (from, middle)
            };
            let Some(root) = self.subtree(sibling.0, sibling.1)? else {
                return Ok(None);
            };
            path.push(root);
            (from, to) = if old <= middle {
                (from, middle)
            } else {
                (middle, to)
            };
        }
        // The verifier knows the root of the old tree. If that is not a complete subtree, the proof
        // needs its last part.
        if from > 0 {
            let Some(root) = self.subtree(from, to)? else {
                return Ok(None);
            };
            path.push(root);
        }
        path.reverse();
        Ok(Some(path))
    }
}

/// State of writing the file of leaves.
struct Writer {
    may_write: bool,
    /// Number of leaves in the file.
    at: u64,
    waiting: Vec<Hash>,
}

fn root_of(hashes: &[Hash]) -> Hash {
    hashes.iter().copied().collect::<Frontier>().root()
}

/// The largest power of two below a number greater than one.
fn largest_below(count: u64) -> u64 {
    1_u64 << (u64::BITS - 1 - count.saturating_sub(1).max(1).leading_zeros())
}

fn bytes_of(hashes: &[Hash]) -> Vec<u8> {
    hashes
        .iter()
        .flat_map(|hash| hash.as_bytes().iter().copied())
        .collect()
}
