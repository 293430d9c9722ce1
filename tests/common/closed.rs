//! Homes with closed segments, and a disk that dies at a chosen step.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use spoolgate::home::layout;
use spoolgate::host::disk::{Access, DirStream, Disk, LogFile, Mode, ReadFile, Stat};
use spoolgate::ledger::archive;
use spoolgate::ledger::recover;
use spoolgate::ledger::segment::AUDIT_DIR;
use spoolgate::wire::signing::SignKey;

use super::memory_disk::MemoryDisk;
use super::place::{ORIGIN, Place, drain};

/// A home of four segments: one that ends cleanly, one with a torn rest, one of several frames, and the last. The key is
/// the agent's; its requests `l1` to `l3` are one in each closed segment.
pub fn four_segments(seed: u64) -> (Place, SignKey) {
    let place = Place::new(seed);
    let bot = place.ask_for_agent_key("k1");
    drain(&mut place.open().unwrap()).unwrap();
    ask(&place, &bot, "l1");
    drain(&mut place.open().unwrap()).unwrap();
    cut(&place);
    ask(&place, &bot, "l2");
    drain(&mut place.open().unwrap()).unwrap();
    ask(&place, &bot, "torn");
    let mut home = place.open().unwrap();
    place.disk.faults.lock().unwrap().append_room = Some(700);
    drain(&mut home).unwrap_err();
    drop(home);
    let mut home = place.open().unwrap();
    assert!(matches!(home.found, recover::Found::Torn(_)), "{:?}", home.found);
    drain(&mut home).unwrap();
    ask(&place, &bot, "l3");
    for number in 0..300 {
        ask(&place, &bot, &format!("many{number}"));
    }
    drain(&mut home).unwrap();
    drop(home);
    cut(&place);
    (place, bot)
}

/// Has the agent ask for its orders.
pub fn ask(place: &Place, key: &SignKey, id: &str) {
    place.ask(key, "trend-bot", id, "orders.list", "{}");
}

/// Begins a new segment, as a full one makes the gate do.
pub fn cut(place: &Place) {
    let signer = layout::log_signer(ORIGIN, &place.log_keys()).unwrap();
    let disk: Arc<dyn Disk> = place.disk.clone();
    let (mut ledger, _) = recover::open(disk, signer, None, &mut |_| Ok(())).unwrap();
    ledger.cut(None).unwrap();
    ledger.publish_head().unwrap();
}

/// Archives every closed segment but the newest `keep`.
pub fn archive_all(disk: &dyn Disk, keep: usize) -> Result<usize, spoolgate::ledger::LedgerError> {
    let dir = Path::new(AUDIT_DIR);
    let due = archive::due(&recover::kept(disk, dir)?, keep);
    for number in &due {
        archive::archive(disk, dir, *number, &mut |_| {})?;
    }
    archive::list_all(disk, dir)?;
    Ok(due.len())
}

/// A disk that changes so many things and is then gone; the last write leaves half of its bytes.
pub struct DyingDisk {
    /// What it changes.
    pub under: Arc<MemoryDisk>,
    left: AtomicUsize,
}

impl DyingDisk {
    /// Over `under`, for `changes` changes.
    pub fn over(under: Arc<MemoryDisk>, changes: usize) -> DyingDisk {
        DyingDisk { under, left: AtomicUsize::new(changes) }
    }

    fn change(&self) -> io::Result<()> {
        let left = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        left.map(|_| ()).map_err(|_| io::Error::from_raw_os_error(5))
    }
}

impl Disk for DyingDisk {
    fn read_dir(&self, dir: &Path) -> io::Result<DirStream> {
        self.under.read_dir(dir)
    }

    fn stat(&self, path: &Path) -> io::Result<Option<Stat>> {
        self.under.stat(path)
    }

    fn read(&self, path: &Path, limit: usize) -> io::Result<ReadFile> {
        self.under.read(path, limit)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.change()?;
        self.under.rename(from, to)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.change()?;
        self.under.rename_new(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.change()?;
        self.under.remove(path)
    }

    fn write(&self, path: &Path, bytes: &[u8], mode: Mode, durable: bool) -> io::Result<()> {
        if let Err(error) = self.change() {
            self.under.put(path, &bytes[..bytes.len() / 2]);
            return Err(error);
        }
        self.under.write(path, bytes, mode, durable)
    }

    fn write_again(&self, path: &Path, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.change()?;
        self.under.write_again(path, offset, bytes)
    }

    fn create_dir(&self, path: &Path, mode: Mode) -> io::Result<()> {
        self.under.create_dir(path, mode)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.change()?;
        self.under.sync_dir(dir)
    }

    fn sync_fs(&self, dir: &Path) -> io::Result<()> {
        self.change()?;
        self.under.sync_fs(dir)
    }

    fn open_log(&self, path: &Path, access: Access) -> io::Result<Box<dyn LogFile>> {
        self.under.open_log(path, access)
    }
}
