//! The peers: the same system calls without parsing, hashing, checking or an index. The loop makes
//! exactly the calls of a physical limit that was written down before the gate was: open without
//! following links, stat, read 600 bytes, append 800, one fdatasync a group, answer 700 by tmp +
//! rename, remove the input.

use std::ffi::CString;
use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, fdatasync, fstat, inotify, mkdirat, open, openat, renameat, syncfs,
    unlinkat,
};
use rustix::io::{read, write};

use crate::child::thread_seconds;

/// Bytes of a request, a record and an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// Read.
    pub request: usize,
    /// Appended.
    pub record: usize,
    /// Answered.
    pub answer: usize,
}

/// Those of the limit.
pub(crate) const LIMIT: Sizes = Sizes {
    request: 600,
    record: 800,
    answer: 700,
};

const OWNER: Mode = Mode::RUSR.union(Mode::WUSR);

/// A folder with a backlog for the loop.
pub(crate) struct Loop {
    root: PathBuf,
    input: OwnedFd,
    output: OwnedFd,
    log: OwnedFd,
    sizes: Sizes,
}

fn folder(path: &Path) -> Result<OwnedFd> {
    mkdirat(CWD, path, Mode::RWXU)?;
    Ok(open(
        path,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?)
}

fn put(dir: &OwnedFd, name: &CString, body: &[u8]) -> Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = openat(dir, name, flags, OWNER)?;
    ensure!(write(&file, body)? == body.len(), "a short write");
    Ok(())
}

fn open_log(root: &Path) -> Result<OwnedFd> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND | OFlags::CLOEXEC;
    Ok(open(root.join("log"), flags, OWNER)?)
}

fn names(format: impl Fn(usize) -> String, n: usize) -> Result<Vec<CString>> {
    (0..n).map(|i| Ok(CString::new(format(i))?)).collect()
}

impl Loop {
    /// Makes the folders.
    pub(crate) fn new(root: &Path, sizes: Sizes) -> Result<Loop> {
        fs::create_dir_all(root)?;
        let (input, output) = (folder(&root.join("in"))?, folder(&root.join("out"))?);
        Ok(Loop {
            root: root.to_owned(),
            input,
            output,
            log: open_log(root)?,
            sizes,
        })
    }

    /// Puts `n` requests there and drains them in groups. Seconds and processor seconds of the
    /// draining.
    pub(crate) fn drain(&self, n: usize, group: usize) -> Result<(f64, f64)> {
        let names = names(|i| format!("{i:08}.json"), n)?;
        let temporary = self::names(|i| format!(".tmp-{i:06}"), group)?;
        let body = vec![b'x'; self.sizes.request];
        for name in &names {
            put(&self.input, name, &body)?;
        }
        syncfs(&self.input)?;
        let record = vec![b'y'; self.sizes.record];
        let answer = vec![b'z'; self.sizes.answer];
        let mut buffer = vec![0; 64 * 1024];
        let (started, cpu) = (Instant::now(), thread_seconds());
        for group in names.chunks(group) {
            for name in group {
                ensure!(
                    self.take(name, &mut buffer)? == self.sizes.request,
                    "a short read"
                );
                ensure!(write(&self.log, &record)? == record.len(), "a short write");
            }
            fdatasync(&self.log)?;
            for (temporary, name) in temporary.iter().zip(group) {
                put(&self.output, temporary, &answer)?;
                renameat(&self.output, temporary, &self.output, name)?;
            }
            for name in group {
                unlinkat(&self.input, name, AtFlags::empty())?;
            }
        }
        Ok((started.elapsed().as_secs_f64(), thread_seconds() - cpu))
    }

    /// Reads a request; how many bytes it has.
    fn take(&self, name: &CString, buffer: &mut [u8]) -> Result<usize> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(&self.input, name, flags, Mode::empty())?;
        let stat = fstat(&file)?;
        ensure!(stat.st_nlink == 1, "a linked file");
        Ok(read(&file, buffer)?)
    }

    /// Answers that were written, and requests that are left.
    pub(crate) fn counted(&self) -> Result<(usize, usize)> {
        let count =
            |name: &str| Ok::<_, anyhow::Error>(fs::read_dir(self.root.join(name))?.count());
        Ok((count("out")?, count("in")?))
    }
}

/// A server that waits for files with inotify and answers each durably, one at a time. Runs until
/// it is ended.
pub(crate) fn serve(root: &Path) -> Result<()> {
    let server = Loop::new(root, LIMIT)?;
    let events = inotify::init(inotify::CreateFlags::CLOEXEC)?;
    inotify::add_watch(&events, root.join("in"), inotify::WatchFlags::MOVED_TO)?;
    let mut space = [MaybeUninit::uninit(); 4096];
    let mut events = inotify::Reader::new(events, &mut space);
    let (record, answer) = (vec![b'y'; LIMIT.record], vec![b'z'; LIMIT.answer]);
    let temporary = CString::new(".tmp")?;
    let mut buffer = vec![0; 64 * 1024];
    fs::write(root.join("ready"), "")?;
    loop {
        let event = events.next()?;
        let Some(name) = event.file_name() else {
            continue;
        };
        let name = name.to_owned();
        ensure!(server.take(&name, &mut buffer)? > 0, "an empty request");
        ensure!(
            write(&server.log, &record)? == record.len(),
            "a short write"
        );
        fdatasync(&server.log)?;
        put(&server.output, &temporary, &answer)?;
        renameat(&server.output, &temporary, &server.output, &name)?;
        unlinkat(&server.input, &name, AtFlags::empty())?;
    }
}

/// A command that reads a file and appends to a log, durably.
#[derive(Parser)]
struct Append {
    /// The log.
    #[arg(long)]
    log: PathBuf,
    /// The file.
    file: PathBuf,
}

/// Plays that command.
pub(crate) fn append_once(arguments: &[String]) -> Result<()> {
    let given =
        Append::parse_from(std::iter::once("append").chain(arguments.iter().map(String::as_str)));
    let request = fs::read(&given.file).context("the request")?;
    ensure!(!request.is_empty(), "an empty request");
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND | OFlags::CLOEXEC;
    let log = open(&given.log, flags, OWNER)?;
    ensure!(
        write(&log, &[b'y'; LIMIT.record])? == LIMIT.record,
        "a short write"
    );
    fdatasync(&log)?;
    Ok(())
}
