//! Folders in memory under a scanner alone: a file is only a size, its content is made when it is
//! read, and every name and read is counted. Nothing is decided; claims are listed in their order.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use spoolgate_gate::exempt::Standing;
use spoolgate_gate::prepare::{Delivery, Origin};
use spoolgate_gate::safer::Waiting;
use spoolgate_host::spool::peek::Judge;
use spoolgate_host::spool::scan::{Found, Scanner, folder};
use spoolgate_ledger::disk::{
    Access, DirStream, Disk, Entry, FileId, Kind, LogFile, Mode, ReadFile, Stat,
};
use spoolgate_rules::rates::Quota;
use spoolgate_wire::ids::Principal;

/// A file: its size, and whether it is complete.
#[derive(Clone, Copy)]
struct File {
    size: u64,
    inode: u64,
    whole: bool,
    uid: u32,
}

/// The folders, and what was done to them.
#[derive(Default)]
pub(super) struct Tree {
    folders: Mutex<BTreeMap<PathBuf, BTreeMap<OsString, File>>>,
    /// The number of names that were handed out.
    pub names: Arc<AtomicU64>,
    /// The number of files that were read.
    pub reads: AtomicU64,
    /// The number of open folders, and its maximum.
    pub open: Arc<(AtomicU64, AtomicU64)>,
    inodes: AtomicU64,
}

impl Tree {
    /// Adds a file.
    pub(super) fn put(&self, origin: &Origin, name: &str, size: u64, whole: bool) {
        self.put_of(0, origin, name, size, whole);
    }

    /// Adds a file of this user.
    pub(super) fn put_of(&self, uid: u32, origin: &Origin, name: &str, size: u64, whole: bool) {
        let file = File {
            size,
            inode: self.inodes.fetch_add(1, SeqCst),
            whole,
            uid,
        };
        let mut folders = self.folders.lock().unwrap();
        folders
            .entry(folder(origin))
            .or_default()
            .insert(name.into(), file);
    }

    /// Removes a file.
    pub(super) fn remove(&self, origin: &Origin, name: &str) {
        self.folders
            .lock()
            .unwrap()
            .get_mut(&folder(origin))
            .unwrap()
            .remove(OsStr::new(name))
            .unwrap();
    }

    /// Returns the number of files in a spool.
    pub(super) fn left(&self, origin: &Origin) -> usize {
        self.folders
            .lock()
            .unwrap()
            .get(&folder(origin))
            .map_or(0, BTreeMap::len)
    }

    fn file(&self, path: &Path) -> Option<File> {
        let folders = self.folders.lock().unwrap();
        folders.get(path.parent()?)?.get(path.file_name()?).copied()
    }
}

/// A folder that counts as open while this exists.
struct Opened(Arc<(AtomicU64, AtomicU64)>);

impl Opened {
    fn count(open: &Arc<(AtomicU64, AtomicU64)>) -> Opened {
        let now = open.0.fetch_add(1, SeqCst) + 1;
        open.1.fetch_max(now, SeqCst);
        Opened(Arc::clone(open))
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, SeqCst);
    }
}

fn stat_of(file: File) -> Stat {
    let id = FileId {
        device: 1,
        inode: file.inode,
    };
    Stat {
        kind: Kind::File,
        id,
        uid: file.uid,
        links: 1,
        size: file.size,
        modified_ns: 0,
        changed_ns: 0,
    }
}

impl Disk for Tree {
    fn read_dir(&self, dir: &Path) -> io::Result<DirStream> {
        let folders = self.folders.lock().unwrap();
        let names: Vec<OsString> = folders
            .get(dir)
            .map_or(Vec::new(), |files| files.keys().cloned().collect());
        let counted = Arc::clone(&self.names);
        let opened = Opened::count(&self.open);
        Ok(Box::new(names.into_iter().map(move |name| {
            let _held = &opened;
            counted.fetch_add(1, SeqCst);
            Ok(Entry {
                name,
                kind: Some(Kind::File),
            })
        })))
    }
    fn stat(&self, path: &Path) -> io::Result<Option<Stat>> {
        Ok(self.file(path).map(stat_of))
    }
    fn read(&self, path: &Path, limit: usize) -> io::Result<ReadFile> {
        self.reads.fetch_add(1, SeqCst);
        let file = self.file(path).ok_or(io::ErrorKind::NotFound)?;
        let mut bytes = vec![b' '; usize::try_from(file.size).unwrap().min(limit + 1)];
        bytes[0] = b'{';
        if file.whole {
            *bytes.last_mut().unwrap() = b'}';
        }
        Ok(ReadFile {
            stat: stat_of(file),
            bytes,
        })
    }
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut folders = self.folders.lock().unwrap();
        let files = folders
            .get_mut(from.parent().unwrap())
            .ok_or(io::ErrorKind::NotFound)?;
        let file = files
            .remove(from.file_name().unwrap())
            .ok_or(io::ErrorKind::NotFound)?;
        folders
            .entry(to.parent().unwrap().to_owned())
            .or_default()
            .insert(to.file_name().unwrap().into(), file);
        Ok(())
    }
    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn remove(&self, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn write(&self, _: &Path, _: &[u8], _: Mode, _: bool) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn write_again(&self, _: &Path, _: u64, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn create_dir(&self, _: &Path, _: Mode) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn sync_fs(&self, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn open_log(&self, _: &Path, _: Access) -> io::Result<Box<dyn LogFile>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Lets files pass by name: those with `exit` in it.
pub(super) struct ByName;

impl Judge for ByName {
    fn standing(&self, delivery: Delivery) -> Standing {
        if delivery.file.contains("exit") {
            Standing::Passes
        } else {
            Standing::Waits(None)
        }
    }
    fn passes_now(&self, _: &Waiting) -> bool {
        false
    }
}

/// Returns agent number `n`.
pub(super) fn agent(n: usize) -> Origin {
    Origin::Agent(name_of(n))
}

fn name_of(n: usize) -> Principal {
    Principal::parse(&format!("agent-{n:04}")).unwrap()
}

/// Makes a scanner over this number of agents, each with this quota; the flat spool has it too.
pub(super) fn scanner(agents: usize, quota: Option<Quota>) -> Scanner {
    let names: Vec<Principal> = (0..agents).map(name_of).collect();
    let mut scanner = Scanner::default();
    scanner.set_spools(quota, names.iter().map(|name| (name, quota)));
    scanner
}

/// Makes a quota.
pub(super) fn quota(requests: u32, bytes: u64) -> Quota {
    let (requests_per_minute, bytes_per_minute) = (
        u64::from(requests).try_into().unwrap(),
        bytes.try_into().unwrap(),
    );
    Quota {
        requests_per_minute,
        bytes_per_minute,
    }
}

/// Runs one round.
pub(super) fn round(scanner: &mut Scanner, tree: &Tree, now_ms: u64) -> Found {
    scanner.round(tree, &ByName, now_ms, 1, false).unwrap()
}

/// Returns spool, name and size of what a round claimed.
pub(super) fn claims(found: &Found) -> Vec<(Origin, String, u64)> {
    let claims = found.claimed.iter().map(|claimed| {
        (
            claimed.claim.origin.clone(),
            claimed.claim.file.clone(),
            u64::try_from(claimed.weight).unwrap(),
        )
    });
    claims.collect()
}

/// Runs rounds until nothing more is found at this moment. Returns all claims and all reports.
pub(super) fn drain(
    scanner: &mut Scanner,
    tree: &Tree,
    now_ms: u64,
) -> (Vec<(Origin, String, u64)>, Vec<String>) {
    let (mut all, mut news) = (Vec::new(), Vec::new());
    for _ in 0..100_000 {
        let found = round(scanner, tree, now_ms);
        all.extend(claims(&found));
        news.extend(found.news.clone());
        if !found.more && found.claimed.is_empty() {
            return (all, news);
        }
    }
    panic!("the scanner never comes to rest");
}
