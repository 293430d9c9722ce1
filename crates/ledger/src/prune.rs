//! Prunes archived segments: the content leaves the home, a stub remains. The content is removed
//! only after the stub was read back from the medium. If pruning is interrupted at any point, the
//! home has the archive, the stub, or both.

use std::fmt;
use std::io;
use std::path::Path;

use super::LedgerError;
use super::archive;
use super::closed;
use super::segment::{self, Kept};
use super::stub::Stub;
use super::sums;
use crate::disk::{self, Access, Disk, Mode};

/// Segments whose content is needed but was pruned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing(pub Vec<MissingSegment>);

/// One pruned segment that is needed.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct MissingSegment {
    /// The plain file's name.
    pub file: String,
    /// SHA-256 of its plain bytes, hex. `None` if the stub cannot be read either.
    pub sha256: Option<String>,
}

impl Missing {
    /// Describes these segments of the log in `dir`.
    pub fn of(disk: &dyn Disk, dir: &Path, numbers: &[u32]) -> Missing {
        let one = |number: &u32| MissingSegment {
            file: segment::file_name(*number),
            sha256: Stub::read(disk, dir, *number)
                .ok()
                .map(|stub| stub.header.sha256),
        };
        Missing(numbers.iter().map(one).collect())
    }
}

impl Missing {
    /// The names of the segments.
    pub fn files(&self) -> String {
        let names: Vec<String> = self
            .0
            .iter()
            .map(|missing| format!("`{}`", missing.file))
            .collect();
        names.join(", ")
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let segments = if self.0.len() == 1 {
            "a segment that is"
        } else {
            "segments that are"
        };
        write!(
            f,
            "the content of {segments} needed was pruned; restore to the audit folder"
        )?;
        for (at, missing) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(f, "{comma} `{file}.zst` or `{file}`", file = missing.file)?;
            match &missing.sha256 {
                Some(sum) => write!(f, " (SHA-256 of its plain bytes {sum})")?,
                None => write!(f, " (its stub is damaged)")?,
            }
        }
        Ok(())
    }
}

/// The segments to prune, up to and including `last`; never the last segment of the log.
pub fn due(kept: &[(u32, Kept)], last: u32) -> Vec<u32> {
    let (_, closed) = kept
        .split_last()
        .map_or((None, [].as_slice()), |(last, closed)| (Some(last), closed));
    let due = closed
        .iter()
        .filter(|(number, kept)| *number <= last && !kept.is_pruned());
    due.map(|(number, _)| *number).collect()
}

/// Checks that a segment of the log in `dir` may be pruned: it is archived, the archive is intact,
/// and, if the folder `copies` is given, a copy of the segment is in it. Changes nothing. Returns
/// the stub that would remain.
///
/// # Errors
/// Returns [`LedgerError::Disk`] with the reason why the segment may not be pruned.
pub fn check(
    disk: &dyn Disk,
    dir: &Path,
    (number, kept): (u32, Kept),
    copies: Option<&dyn Disk>,
) -> Result<Stub, LedgerError> {
    let path = dir.join(segment::archive_name(number));
    let fail = |source| LedgerError::Disk {
        path: path.clone(),
        source,
    };
    let refuse = |what: &str| Err(fail(io::Error::other(what.to_owned())));
    if kept.plain {
        return refuse("it is not archived; run `spoolgate audit archive` first");
    }
    let archive = segment::open_archive(disk, dir, number).map_err(fail)?;
    let stub = closed::look_at(disk, dir, number, archive.as_ref()).map_err(fail)?;
    let Some(copies) = copies else {
        return Ok(stub);
    };
    let here = disk.stat(&path).map_err(fail)?.map(|stat| stat.id);
    let mut found = false;
    for name in [segment::archive_name(number), segment::file_name(number)] {
        let stat = copies.stat(Path::new(&name)).map_err(fail)?;
        found = found || stat.is_some();
        if stat.is_some_and(|stat| Some(stat.id) == here) {
            return refuse("its copy is this same file");
        }
    }
    if !found {
        return refuse("the named folder has no copy of it");
    }
    let copy = segment::open(copies, Path::new(""), number).map_err(fail)?;
    match sums::sum_of(copy.as_ref()) {
        Ok(sum) if sum.to_string() == stub.header.sha256 => Ok(stub),
        Ok(sum) => refuse(&format!(
            "its copy has SHA-256 {sum}, its own plain bytes have {}",
            stub.header.sha256
        )),
        Err(error) => Err(fail(io::Error::new(
            error.kind(),
            format!("its copy: {error}"),
        ))),
    }
}

/// Prunes a segment that passed [`check`]: its stub replaces its archive.
///
/// ```
/// # use std::{path::Path, sync::Arc};
/// # use spoolgate_ledger::memory::Memory;
/// use spoolgate_ledger::{archive, find::Finder, prune, recover, verify};
/// # mod setup { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/setup.rs")); }
/// # let disk = Arc::new(Memory::default());
/// # let mut ledger = setup::create(&disk);
///
/// ledger.append(&[("note", r#"{"text":"long ago"}"#.to_owned())])?;
/// ledger.cut(None)?;
/// let dir = Path::new("audit");
/// archive::archive(&*disk, dir, 1, &mut |_| ())?;
/// let first = recover::kept(&*disk, dir)?.remove(0);
/// let stub = prune::check(&*disk, dir, first, None)?;
/// prune::prune(&*disk, dir, 1, &stub)?;
/// // The hashes that the chain needs are left; the lines are gone.
/// assert!(verify::verify(&*disk, dir, &verify::Options::default(), &|_| ())?.ok);
/// assert!(Finder::open(&*disk, dir)?.line(2).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns [`LedgerError`]; the archive is then still there.
pub fn prune(disk: &dyn Disk, dir: &Path, number: u32, stub: &Stub) -> Result<(), LedgerError> {
    let path = dir.join(segment::stub_name(number));
    let fail = |source| LedgerError::Disk {
        path: path.clone(),
        source,
    };
    archive::list(disk, dir, number, stub).map_err(fail)?;
    let bytes = stub.to_bytes().map_err(fail)?;
    disk::replace(disk, &path, &bytes, Mode::Shared, true).map_err(fail)?;
    let file = disk.open_log(&path, Access::Read).map_err(fail)?;
    file.drop_cache(0).map_err(fail)?;
    if Stub::read(disk, dir, number).map_err(fail)? != *stub {
        let what = "it reads back differently than it was written; the medium or memory is faulty";
        return Err(fail(io::Error::other(what)));
    }
    let archive = dir.join(segment::archive_name(number));
    disk.remove(&archive).map_err(fail)?;
    disk.sync_dir(dir).map_err(fail)
}
