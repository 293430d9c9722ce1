//! What lines name by digest is durable before they are, by one sync a batch.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::common::gateway_home::{DONE, GOOD, GatewayHome, settle};
use crate::common::memory_disk::MemoryDisk;
use spoolgate::home::{Home, Seams};
use spoolgate::host::disk::{Access, DirStream, Disk, LogFile, Mode, ReadFile, Stat};

/// A disk that fails a sync of the file system when told to.
struct Watched {
    disk: Arc<MemoryDisk>,
    fails: Mutex<bool>,
}

/// A log of it.
struct WatchedLog {
    file: Box<dyn LogFile>,
    of: Arc<Mutex<Vec<String>>>,
}

/// The disk that a home gets: what is done below `audit/blobs` and to logs is noted, in order.
struct Seen(Arc<Watched>, Arc<Mutex<Vec<String>>>);

impl Seen {
    fn note(&self, what: &str, path: &Path) {
        if path.starts_with("audit/blobs") {
            self.1.lock().unwrap().push(what.to_owned());
        }
    }
}

impl Disk for Seen {
    fn read_dir(&self, dir: &Path) -> io::Result<DirStream> {
        self.0.disk.read_dir(dir)
    }

    fn stat(&self, path: &Path) -> io::Result<Option<Stat>> {
        self.0.disk.stat(path)
    }

    fn read(&self, path: &Path, limit: usize) -> io::Result<ReadFile> {
        self.0.disk.read(path, limit)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.note("rename", to);
        self.0.disk.rename(from, to)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.disk.rename_new(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.disk.remove(path)
    }

    fn write(&self, path: &Path, bytes: &[u8], mode: Mode, durable: bool) -> io::Result<()> {
        self.note(if durable { "write and sync" } else { "write" }, path);
        self.0.disk.write(path, bytes, mode, durable)
    }

    fn write_again(&self, path: &Path, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.note("sync file", path);
        self.0.disk.write_again(path, offset, bytes)
    }

    fn create_dir(&self, path: &Path, mode: Mode) -> io::Result<()> {
        self.0.disk.create_dir(path, mode)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.note("sync folder", dir);
        self.0.disk.sync_dir(dir)
    }

    fn sync_fs(&self, dir: &Path) -> io::Result<()> {
        self.note("sync all", dir);
        if *self.0.fails.lock().unwrap() && dir.starts_with("audit/blobs") {
            return Err(io::Error::other("the medium fails"));
        }
        self.0.disk.sync_fs(dir)
    }

    fn open_log(&self, path: &Path, access: Access) -> io::Result<Box<dyn LogFile>> {
        Ok(Box::new(WatchedLog { file: self.0.disk.open_log(path, access)?, of: Arc::clone(&self.1) }))
    }
}

impl LogFile for WatchedLog {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        self.of.lock().unwrap().push("append".to_owned());
        self.file.append(bytes)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(offset, buffer)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn drop_cache(&self, from: u64) -> io::Result<()> {
        self.file.drop_cache(from)
    }
}

fn watched(home: &GatewayHome) -> (Home, Arc<Watched>, Arc<Mutex<Vec<String>>>) {
    let disk = Arc::new(Watched { disk: home.place.disk.clone(), fails: Mutex::default() });
    let noted = Arc::new(Mutex::default());
    let seen = Seen(Arc::clone(&disk), Arc::clone(&noted));
    let gate = home.place.open_with(Seams { disk: Arc::new(seen), ..home.place.seams() }).unwrap();
    (gate, disk, noted)
}

/// What was done up to the first append since the last look.
fn until_append(noted: &Mutex<Vec<String>>) -> Vec<String> {
    let done = std::mem::take(&mut *noted.lock().unwrap());
    done.into_iter().take_while(|what| what != "append").collect()
}

#[test]
fn a_batch_syncs_once_whatever_it_seals() {
    let home = GatewayHome::new(DONE);
    let (mut gate, _, noted) = watched(&home);
    until_append(&noted);
    for count in [1, 5] {
        for nth in 0..count {
            home.ask(&format!("r{count}-{nth}"), "email.send", GOOD[1].1);
        }
        settle(&mut gate);
        let done = until_append(&noted);
        // Subject, text and hashes: three a mail, each written and put in place.
        assert_eq!(done.iter().filter(|what| *what == "rename").count(), 3 * count, "{done:?}");
        assert_eq!(done.last().map(String::as_str), Some("sync all"), "{done:?}");
        assert_eq!(done.iter().filter(|what| what.contains("sync")).count(), 1, "{done:?}");
    }
}

#[test]
fn one_content_alone_is_synced_alone() {
    // Nothing of the request is sealed, and the answer is too large for its line.
    let large = r#"cat >/dev/null; printf '{"success":true,"data":"'; head -c 30000 /dev/zero | tr '\0' x; printf '"}'"#;
    let home = GatewayHome::new(large);
    let (mut gate, _, noted) = watched(&home);
    until_append(&noted);
    home.ask("r1", "email.fetch", "{}");
    settle(&mut gate);
    assert!(home.responses().into_values().next().unwrap().data_blob.is_some());
    let done = std::mem::take(&mut *noted.lock().unwrap());
    assert_eq!(done, ["append", "write", "rename", "sync file", "sync folder", "append"]);
}

#[test]
fn a_sync_that_fails_keeps_the_lines_back() {
    let home = GatewayHome::new(DONE);
    let (mut gate, disk, _) = watched(&home);
    let before = home.log();
    home.ask("r1", "email.send", GOOD[1].1);
    *disk.fails.lock().unwrap() = true;
    let error = gate.round(false).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("audit/blobs"), "{error}");
    assert_eq!(home.log(), before, "a line names what may not be there");
    assert!(home.answer("r1").is_none() && home.responses().is_empty());
    drop(gate);
    // The next gate decides it once.
    let mut gate = home.open();
    settle(&mut gate);
    assert!(home.answer("r1").is_some_and(|answer| answer.error.is_none()));
    assert_eq!(home.responses().len(), 1);
}
