//! A gate that is killed at every call of the disk while a case opens, is voted on and is decided; and files of cases
//! that somebody removes, empties or replaces.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use spoolgate::home::Seams;
use spoolgate::host::disk::{Access, DirStream, Disk, LogFile, Mode, ReadFile, Stat};

use super::common::memory_disk::MemoryDisk;
use super::common::place::drain;
use super::court::{Court, SEATS, decision_bytes, opinion, request, speaker, verdict};

const ROLES: [&str; 3] = ["Risk Officer", "Code Auditor", "Integration Engineer"];

/// Counts calls down; at the last one the process dies, before or after it is done.
pub(super) struct Fuse {
    pub(super) calls: AtomicI64,
    after: bool,
}

impl Fuse {
    fn burn<T>(&self, what: &str, run: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let dies = self.calls.fetch_sub(1, Ordering::SeqCst) == 1;
        assert!(!dies || self.after, "killed before {what}");
        let done = run();
        assert!(!dies, "killed after {what}");
        done
    }
}

struct MortalDisk {
    disk: Arc<MemoryDisk>,
    fuse: Arc<Fuse>,
}

struct MortalLog {
    file: Box<dyn LogFile>,
    fuse: Arc<Fuse>,
}

impl LogFile for MortalLog {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        self.fuse.burn("append", || self.file.append(bytes))
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(offset, buffer)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.fuse.burn("sync_data", || self.file.sync_data())
    }
    fn drop_cache(&self, from: u64) -> io::Result<()> {
        self.file.drop_cache(from)
    }
}

impl Disk for MortalDisk {
    fn read_dir(&self, dir: &Path) -> io::Result<DirStream> {
        self.disk.read_dir(dir)
    }
    fn stat(&self, path: &Path) -> io::Result<Option<Stat>> {
        self.disk.stat(path)
    }
    fn read(&self, path: &Path, limit: usize) -> io::Result<ReadFile> {
        self.disk.read(path, limit)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.fuse.burn("rename", || self.disk.rename(from, to))
    }
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.fuse.burn("rename_new", || self.disk.rename_new(from, to))
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.fuse.burn("remove", || self.disk.remove(path))
    }
    fn write(&self, path: &Path, bytes: &[u8], mode: Mode, durable: bool) -> io::Result<()> {
        self.fuse.burn("write", || self.disk.write(path, bytes, mode, durable))
    }
    fn write_again(&self, path: &Path, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.fuse.burn("write_again", || self.disk.write_again(path, offset, bytes))
    }
    fn create_dir(&self, path: &Path, mode: Mode) -> io::Result<()> {
        self.disk.create_dir(path, mode)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.sync_dir(dir)
    }
    fn sync_fs(&self, dir: &Path) -> io::Result<()> {
        self.fuse.burn("sync_fs", || self.disk.sync_fs(dir))
    }
    fn open_log(&self, path: &Path, access: Access) -> io::Result<Box<dyn LogFile>> {
        Ok(Box::new(MortalLog { file: self.disk.open_log(path, access)?, fuse: Arc::clone(&self.fuse) }))
    }
}

pub(super) fn mortal(court: &Court, calls: i64, after: bool) -> (Seams, Arc<Fuse>) {
    let fuse = Arc::new(Fuse { calls: AtomicI64::new(calls), after });
    let disk = Arc::new(MortalDisk { disk: Arc::clone(&court.place.disk), fuse: Arc::clone(&fuse) });
    (Seams { disk, ..court.place.seams() }, fuse)
}

/// Everything for one case, in the spool at once; and in spools of commands, one of the verdicts.
fn drop_all(court: &Court) -> String {
    let asked = request("req_1", "UPDATE_CONFIG");
    court.send("research-bot", "a-open", "council.request", &asked);
    for (n, role) in ROLES.iter().enumerate() {
        let says = if n == 1 { "REJECT" } else { "APPROVE" };
        let payload = verdict("req_1", &asked, &opinion(role, says));
        court.send(speaker(role), &format!("b-{n}"), "council.verdict", &payload);
        if n == 0 {
            court.send(
                speaker(role),
                &format!("b-{n}-worse"),
                "council.verdict",
                &verdict("req_1", &asked, &opinion(role, "NEEDS_MORE_INFO")),
            );
        }
    }
    asked
}

fn live(court: &Court, seams: Seams, one_by_one: bool) {
    let mut home = court.place.open_with(seams).unwrap();
    if one_by_one {
        home.limit_batches(1);
    }
    drain(&mut home).unwrap();
    home.finish("all is done").unwrap();
}

#[test]
fn killed_at_every_call_of_the_disk() {
    let base = Court::new();
    drop_all(&base);
    for one_by_one in [false, true] {
        let whole = base.fork();
        let (seams, fuse) = mortal(&whole, i64::MAX, false);
        live(&whole, seams, one_by_one);
        let calls = i64::MAX - fuse.calls.load(Ordering::SeqCst);
        let expected = decision_bytes(whole.told().ruling("req_1").1);
        whole.files_stand(&ROLES).unwrap();
        whole.agrees("req_1");
        assert!(calls > 40, "{calls}");
        // One by one there are many more calls, most of them alike.
        let step = if one_by_one { 3 } else { 1 };
        for at in (1..=calls).step_by(step) {
            for after in [false, true] {
                let what = format!("call {at} of {calls}, after: {after}, one by one: {one_by_one}");
                let court = base.fork();
                let (seams, _) = mortal(&court, at, after);
                let died = catch_unwind(AssertUnwindSafe(|| live(&court, seams, one_by_one)));
                assert!(died.is_err(), "{what}: it lived");
                let mut home = court.open();
                let begun = court.told();
                court
                    .files_stand(&ROLES)
                    .unwrap_or_else(|why| panic!("{what}, right after the start: {why}"));
                assert!(begun.rulings.len() <= 1, "{what}");
                drain(&mut home).unwrap();
                home.finish("mended").unwrap();
                drop(home);
                let told = court.told();
                court.files_stand(&ROLES).unwrap_or_else(|why| panic!("{what}: {why}"));
                let (_, ruling) = told.ruling("req_1");
                // Which of the files is left behind, and so comes last, is for the kill to say: the correction may
                // then meet a decided case, never the other votes.
                let votes = told.verdicts("req_1").len();
                assert!(votes == 4 || (votes == 3 && one_by_one), "{what}: {votes} votes");
                assert_eq!(ruling.verdict_lines.len(), votes, "{what}");
                if votes == 4 {
                    assert_eq!(decision_bytes(ruling), expected, "{what}");
                }
                assert_eq!(told.decisions.values().filter(|d| d.opens_a_case()).count(), 1, "{what}");
                for (seq, ..) in begun.verdicts("req_1") {
                    assert!(told.decisions.contains_key(&seq), "{what}: a vote is lost");
                }
                if at % 16 == 1 {
                    court.agrees("req_1");
                }
            }
        }
    }
}

/// Before the gate has said that its answers are durable, whatever a power cut made of the files of a case is mended;
/// of a case that a command brought, too.
#[test]
fn files_that_a_power_cut_took() {
    for by_command in [false, true] {
        let court = Court::new();
        drop_all(&court);
        if by_command {
            let files = court.place.disk.files_below("spool/in");
            for (path, bytes) in files {
                court.place.disk.drop_file(&path);
                court.place.disk.put(Path::new("spool/local/in").join(path.file_name().unwrap()), &bytes);
            }
        }
        let mut home = court.open();
        drain(&mut home).unwrap();
        drop(home);
        court.files_stand(&ROLES).unwrap();
        let files = court.place.disk.files_below("council/cases/req_1");
        assert_eq!(files.len(), 1 + 3 + 4 + 2);
        let out = Path::new("spool/out/req_1.decision.json").to_owned();
        for (path, bytes) in files.iter().chain([&(out.clone(), court.file(&out).unwrap())]) {
            for broken in [
                None,
                Some(Vec::new()),
                Some(bytes[..bytes.len() / 2].to_vec()),
                Some(vec![b'x'; bytes.len()]),
            ] {
                match &broken {
                    None => court.place.disk.drop_file(path),
                    Some(broken) => court.place.disk.put(path, broken),
                }
                drop(court.open());
                court.files_stand(&ROLES).unwrap_or_else(|why| panic!("{by_command} {broken:?}: {why}"));
            }
        }
        let mut home = court.open();
        home.mark_published().unwrap();
        drop(home);
        // From then on they are for their readers to keep.
        court.place.disk.drop_file("council/cases/req_1/request.json");
        drop(court.open());
        assert!(court.file("council/cases/req_1/request.json").is_none());
        assert_eq!(SEATS.len(), 5);
    }
}
