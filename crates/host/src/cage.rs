//! The cage: what a program of the rules may do. The gate starts itself again as `spoolgate cage`;
//! that process gives up its rights, reports what is enforced, and becomes the program. The report
//! comes before anything that the program writes, so the program cannot forge it.

mod child;
mod filter;
mod removal;
mod ways;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use removal::remove;

use super::sandbox::{self, DEVICES, READ, SYSTEM};
use spoolgate_gate::record::Cage;
use spoolgate_rules::command::{CommandRule, FOLDERS_OF_THE_GATE, Network, NetworkWord, Place};
use spoolgate_rules::safety::CageLevel;

pub use child::run as run_child;
pub(super) use ways::{Decoys, WORD, tried};
pub use ways::{Outcome, Tried};

/// The only argument of the program that makes a cage.
pub const ARGUMENT: &str = "cage";
/// Largest frame that the gate writes, bytes.
pub const FRAME_BYTES_MAX: usize = 64 * 1024;
/// Largest report that the gate reads, bytes.
const REPORT_BYTES_MAX: usize = 4096;
/// Bytes of the length before a frame.
const LENGTH_BYTES: usize = 4;
/// Version of both frames.
const VERSION: u32 = 1;
/// Oldest Landlock that restricts every right over files.
pub(super) const ABI_FILES: i32 = 3;
/// Oldest Landlock that restricts TCP.
pub(super) const ABI_TCP: i32 = 4;
/// Oldest Landlock that restricts signals and abstract sockets.
pub(super) const ABI_SIGNALS: i32 = 6;
/// Any version of Landlock that a kernel may have.
pub const ANY_LANDLOCK: i32 = i32::MAX;
/// Port of name servers, which a program with a network may ask.
const DNS: u16 = 53;
/// Exit code of a child that could not become the program.
pub(super) const NOT_RUN: i32 = 127;
/// Folder below the home with a folder for each running program.
pub const SCRATCH: &str = "scratch";
/// How long removing such a folder may take.
const REMOVED_WITHIN: Duration = Duration::from_secs(10);
/// Folders of the home of which a program cannot read even a file that its arguments name.
const WITHHELD: [&str; 4] = ["audit", "state", "spool", SCRATCH];
/// Ports of protocols, for services without a port.
const PORTS: [(&str, u16); 7] = [
    ("https", 443),
    ("caldav", 443),
    ("http", 80),
    ("smtp", 465),
    ("smtps", 465),
    ("imap", 993),
    ("imaps", 993),
];

static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Sets the program that makes cages, once per process. `spoolgate` names itself, by the link to
/// the running file, which stays right when the file is replaced.
pub fn set_program(path: PathBuf) {
    // A second call is a test that names the same program.
    let _ = PROGRAM.set(path);
}

/// The program that makes cages; `None` in a process that named none.
pub fn program() -> Option<&'static Path> {
    PROGRAM.get().map(PathBuf::as_path)
}

/// The sockets that a program may make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sockets {
    inet: bool,
    unix: bool,
}

/// What the process `spoolgate cage` is to do.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Frame {
    v: u32,
    /// Path of the program; empty: only report.
    program: PathBuf,
    /// Its name in its own arguments.
    name: String,
    args: Vec<String>,
    dir: PathBuf,
    read: Vec<PathBuf>,
    write: Vec<PathBuf>,
    tcp: Vec<u16>,
    sockets: Sockets,
    env: BTreeMap<String, String>,
    limits: Limits,
    /// The process that started it.
    parent: u32,
    level: CageLevel,
    /// Newest Landlock to use.
    landlock_max: i32,
}

/// Limits that have a value of their own.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Limits {
    memory_bytes: u64,
}

/// What the process `spoolgate cage` reports: first the cage or an error, and a second frame if it
/// could not become the program.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Report {
    v: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cage: Option<Cage>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// The system's number of the error of becoming the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    errno: Option<i32>,
}

/// Why a frame or a report cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// It could not be read to its end.
    #[error("it cannot be read: {0}")]
    Read(#[from] io::Error),
    /// It is too long, or empty.
    #[error("its length is {0}")]
    Length(u32),
    /// It is not what it should be.
    #[error("it is malformed: {0}")]
    Json(#[from] serde_json::Error),
    /// It has another version.
    #[error("its version is {0}, not {VERSION}")]
    Version(u32),
}

/// Renders a value with its length before it.
fn framed(value: &impl Serialize, bytes_max: usize) -> io::Result<Zeroizing<Vec<u8>>> {
    // Allocated once, so that no copy of a secret stays behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(bytes_max + LENGTH_BYTES));
    bytes.extend([0; LENGTH_BYTES]);
    serde_json::to_writer(&mut *bytes, value)?;
    let length = bytes.len() - LENGTH_BYTES;
    match u32::try_from(length) {
        Ok(shown) if length <= bytes_max => {
            for (byte, of_length) in bytes.iter_mut().zip(shown.to_be_bytes()) {
                *byte = of_length;
            }
            Ok(bytes)
        }
        _ => Err(io::Error::other(format!(
            "its cage takes {length} bytes to describe, at most {bytes_max} fit: shorten its \
                arguments or paths"
        ))),
    }
}

/// Reads a value with its length before it, and nothing behind it.
fn unframed<T: for<'a> Deserialize<'a>>(
    from: &mut impl Read,
    bytes_max: usize,
) -> Result<T, FrameError> {
    let mut length = [0; LENGTH_BYTES];
    from.read_exact(&mut length)?;
    let length = length_of(length, bytes_max)?;
    let mut bytes = Zeroizing::new(vec![0; length]);
    from.read_exact(&mut bytes)?;
    Ok(serde_json::from_slice(&bytes)?)
}

fn length_of(bytes: [u8; LENGTH_BYTES], bytes_max: usize) -> Result<usize, FrameError> {
    let length = u32::from_be_bytes(bytes);
    usize::try_from(length)
        .ok()
        .filter(|length| (1..=bytes_max).contains(length))
        .ok_or(FrameError::Length(length))
}

/// Reads a frame as the process in the cage does; for tests of hostile frames.
///
/// # Errors
/// Returns [`FrameError`] for anything that is not a frame.
pub fn check_frame(mut bytes: &[u8]) -> Result<(), FrameError> {
    read_frame(&mut bytes).map(drop)
}

fn read_frame(from: &mut impl Read) -> Result<Frame, FrameError> {
    let frame: Frame = unframed(from, FRAME_BYTES_MAX)?;
    if frame.v == VERSION {
        Ok(frame)
    } else {
        Err(FrameError::Version(frame.v))
    }
}

/// What the kernel lacks for the cage that a policy demands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lack {
    /// System calls cannot be filtered.
    #[error("system calls cannot be filtered here; use a kernel and a container with seccomp")]
    Calls,
    /// Landlock is missing.
    #[error("this kernel has no Landlock; boot Linux 6.2 or newer with `landlock` in `lsm=`")]
    Landlock,
    /// The ledger could be truncated.
    #[error("Landlock {0}: truncating audit/ is open; take Linux 6.2")]
    Files(i32),
    /// Ports cannot be restricted.
    #[error("Landlock {0}: every TCP port is open to a program with a network; take Linux 6.7")]
    Tcp(i32),
}

/// Checks that what is enforced is enough for a program with or without a network.
///
/// # Errors
/// Returns [`Lack`] with what is missing.
pub fn judge(level: CageLevel, has_network: bool, cage: &Cage) -> Result<(), Lack> {
    if level != CageLevel::Require {
        return Ok(());
    }
    match cage.landlock {
        _ if !cage.calls => Err(Lack::Calls),
        ..1 => Err(Lack::Landlock),
        abi @ 1..ABI_FILES => Err(Lack::Files(abi)),
        abi @ ABI_FILES..ABI_TCP if has_network => Err(Lack::Tcp(abi)),
        _ => Ok(()),
    }
}

/// What a program may do, from its rule.
#[derive(Clone, Debug)]
pub(super) struct Rights {
    level: CageLevel,
    read: Vec<PathBuf>,
    write: Vec<PathBuf>,
    tcp: Vec<u16>,
    unix: bool,
    memory_bytes: u64,
    landlock_max: i32,
}

/// How the machine and the home bound a program.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Which cage is enough.
    pub level: CageLevel,
    /// The port of the service of an adapter's action; `None` for other programs.
    pub service_port: Option<u16>,
    /// Newest version of Landlock to use: [`ANY_LANDLOCK`], or less to simulate an older kernel.
    pub landlock_max: i32,
}

impl Bounds {
    /// The bounds of a program that has no service.
    pub fn at(level: CageLevel) -> Bounds {
        Bounds {
            level,
            service_port: None,
            landlock_max: ANY_LANDLOCK,
        }
    }
}

/// The port of a service: its own, or the usual one of its protocol.
pub fn port_of(port: Option<u16>, protocol: &str) -> Option<u16> {
    let usual = PORTS.iter().find(|(name, _)| *name == protocol);
    port.or(usual.map(|(_, port)| *port))
}

/// The folders of a home that programs may not use, with their real places.
pub(super) struct Closed {
    home: PathBuf,
    folders: Vec<PathBuf>,
    withheld: Vec<PathBuf>,
}

impl Closed {
    pub(super) fn of(home: &Path) -> io::Result<Closed> {
        let home = fs::canonicalize(home)?;
        // A folder of the home may be a link to another place, and both are closed.
        let places = |names: &[&str]| {
            names
                .iter()
                .map(|name| home.join(name))
                .flat_map(|path| [fs::canonicalize(&path).ok(), Some(path)])
                .flatten()
                .collect()
        };
        Ok(Closed {
            folders: places(&FOLDERS_OF_THE_GATE),
            withheld: places(&WITHHELD),
            home,
        })
    }

    /// Whether a real path is, holds, or lies in what is closed.
    pub(super) fn has(&self, path: &Path) -> bool {
        self.home.starts_with(path)
            || self
                .folders
                .iter()
                .any(|closed| path.starts_with(closed) || closed.starts_with(path))
    }

    /// Whether a program may not even read this file because an argument names it.
    pub(super) fn withholds(&self, file: &Path) -> bool {
        self.withheld.iter().any(|closed| file.starts_with(closed))
    }

    /// What a program may read because its rule names it: the files, and the folder of each.
    fn named(&self, rule: &CommandRule) -> Vec<PathBuf> {
        let files = sandbox::files_of(&self.home, &rule.program, &rule.args);
        let files = files.into_iter().filter(|file| !self.withholds(file));
        let with_folder = files.flat_map(|file| {
            let folder = file
                .parent()
                .filter(|folder| !sandbox::is_wide(folder, &self.home) && !self.has(folder))
                .map(Path::to_owned);
            [Some(file), folder]
        });
        with_folder.flatten().collect()
    }

    /// The real places of paths of a rule.
    fn places(&self, key: &str, paths: &[Place]) -> io::Result<Vec<PathBuf>> {
        let place = |path: &Place| {
            let path = path.as_str();
            let real = fs::canonicalize(self.home.join(path))
                .map_err(|error| io::Error::other(format!("`{key}: {path}`: {error}")))?;
            self.refusal(key, path, &real)
                .map_or(Ok(real), |why| Err(io::Error::other(why)))
        };
        paths.iter().map(place).collect()
    }

    /// Why a program may not use a path that leads here.
    fn refusal(&self, key: &str, path: &str, real: &Path) -> Option<String> {
        let is_wide = ["/", "/proc", "/sys", "/dev"]
            .iter()
            .any(|wide| real == Path::new(wide));
        let to = real.display();
        (is_wide || self.has(real)).then(|| {
            format!(
                "`{key}: {path}` leads to `{to}`, which programs may not use; name another path"
            )
        })
    }
}

impl Rights {
    /// The rights of a program that needs nothing.
    fn none(level: CageLevel) -> Rights {
        Rights {
            level,
            read: Vec::new(),
            write: Vec::new(),
            tcp: Vec::new(),
            unix: false,
            memory_bytes: u64::from(u32::MAX),
            landlock_max: ANY_LANDLOCK,
        }
    }

    /// Returns the rights of a program that needs nothing, and the frame of a cage for no program,
    /// which only reports.
    pub(super) fn of_probe(level: CageLevel) -> io::Result<(Rights, Zeroizing<Vec<u8>>)> {
        let rights = Rights::none(level);
        let frame = rights.frame(
            Path::new(""),
            "",
            &[],
            Path::new("/"),
            None,
            BTreeMap::new(),
        )?;
        Ok((rights, frame))
    }

    /// Returns the rights of this program itself, which are to read these files, and the frame of
    /// a cage for it.
    pub(super) fn of_own(
        bounds: &Bounds,
        read: [&Path; 2],
        args: &[String],
    ) -> io::Result<(Rights, Zeroizing<Vec<u8>>)> {
        let [program, _] = read;
        let rights = Rights {
            read: read.map(Path::to_owned).into(),
            landlock_max: bounds.landlock_max,
            ..Rights::none(bounds.level)
        };
        let none = BTreeMap::new();
        let frame = rights.frame(program, ARGUMENT, args, Path::new("/"), None, none)?;
        Ok((rights, frame))
    }

    /// Finds out what a program may do. Follows links now, so that none leads into a folder of the
    /// gate.
    pub(super) fn of(home: &Path, rule: &CommandRule, bounds: &Bounds) -> io::Result<Rights> {
        let closed = Closed::of(home)?;
        let mut read = closed.named(rule);
        read.extend(closed.places("read", &rule.read)?);
        let mut tcp = match &rule.network {
            Network::Word(NetworkWord::None) => Vec::new(),
            Network::Ports(ports) => ports.iter().map(|port| port.get()).collect(),
            Network::Word(NetworkWord::Service) => {
                let none = "`network: service`, but the service has no `port`, and its protocol is \
                    not a known one: set the port in rules/services.yaml";
                vec![bounds.service_port.ok_or_else(|| io::Error::other(none))?]
            }
        };
        tcp.extend((!tcp.is_empty()).then_some(DNS));
        tcp.sort_unstable();
        tcp.dedup();
        Ok(Rights {
            level: bounds.level,
            read,
            write: closed.places("write", &rule.write)?,
            tcp,
            unix: rule.unix_sockets,
            memory_bytes: rule.memory_bytes_max.get(),
            landlock_max: bounds.landlock_max,
        })
    }

    /// Renders the frame for a program, and the demand on the report.
    pub(super) fn frame(
        &self,
        program: &Path,
        name: &str,
        args: &[String],
        dir: &Path,
        scratch: Option<&Path>,
        env: BTreeMap<String, String>,
    ) -> io::Result<Zeroizing<Vec<u8>>> {
        let write = self.write.iter().map(PathBuf::as_path).chain(scratch);
        let frame = Frame {
            v: VERSION,
            program: program.to_owned(),
            name: name.to_owned(),
            args: args.to_vec(),
            dir: dir.to_owned(),
            read: self.read.clone(),
            write: write.map(Path::to_owned).collect(),
            tcp: self.tcp.clone(),
            sockets: Sockets {
                inet: !self.tcp.is_empty(),
                unix: self.unix,
            },
            env,
            limits: Limits {
                memory_bytes: self.memory_bytes,
            },
            parent: std::process::id(),
            level: self.level,
            landlock_max: self.landlock_max,
        };
        framed(&frame, FRAME_BYTES_MAX)
    }

    /// Reads the report of a cage and demands that it is enough.
    fn accept(&self, bytes: &[u8]) -> io::Result<Cage> {
        let report: Report = serde_json::from_slice(bytes)?;
        match report {
            Report {
                v: VERSION,
                cage: Some(cage),
                error: None,
                errno: None,
            } => {
                judge(self.level, !self.tcp.is_empty(), &cage).map_err(io::Error::other)?;
                Ok(cage)
            }
            Report {
                error: Some(error), ..
            } => Err(io::Error::other(error)),
            _ => Err(io::Error::other("the report of its cage is malformed")),
        }
    }
}

/// The report of a cage as it comes in, byte for byte: what follows it belongs to the program.
#[derive(Default)]
pub(super) struct Incoming {
    bytes: Vec<u8>,
}

impl Incoming {
    /// How many bytes to read at most now; 0 if the report is complete.
    pub(super) fn wants(&self) -> Result<usize, FrameError> {
        let Some((length, rest)) = self.bytes.split_first_chunk::<LENGTH_BYTES>() else {
            return Ok(LENGTH_BYTES.saturating_sub(self.bytes.len()));
        };
        Ok(length_of(*length, REPORT_BYTES_MAX)?.saturating_sub(rest.len()))
    }

    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
    }

    /// What the complete report says.
    pub(super) fn read(&self, rights: &Rights) -> io::Result<Cage> {
        rights.accept(self.bytes.get(LENGTH_BYTES..).unwrap_or_default())
    }
}

/// The paths of a rule that lead to what programs of this home may not use, each with why.
pub fn refused_paths(home: &Path, rule: &CommandRule) -> Vec<(String, String)> {
    let Ok(closed) = Closed::of(home) else {
        return Vec::new();
    };
    let keys = [("read", &rule.read), ("write", &rule.write)];
    let paths = keys
        .into_iter()
        .flat_map(|(key, paths)| paths.iter().map(move |path| (key, path.as_str())));
    let refused = paths.filter_map(|(key, path)| {
        let named = closed.home.join(path);
        let real = fs::canonicalize(&named).unwrap_or(named);
        Some((path.to_owned(), closed.refusal(key, path, &real)?))
    });
    refused.collect()
}

/// Whether no program of this home may use a real path.
pub fn is_closed(home: &Path, path: &Path) -> bool {
    Closed::of(home).is_ok_and(|closed| closed.has(path))
}

/// The files and folders that the arguments of a rule name, also behind a `=`, and that its cage
/// does not open.
pub fn withheld(home: &Path, rule: &CommandRule) -> Vec<PathBuf> {
    let Ok(closed) = Closed::of(home) else {
        return Vec::new();
    };
    let real = |path: &Path| fs::canonicalize(path).ok();
    let of_rule = rule.read.iter().chain(&rule.write);
    let of_system = SYSTEM.iter().chain(&READ).copied();
    let of_system = of_system.chain(DEVICES.iter().map(|(path, _)| *path));
    let open: Vec<PathBuf> = closed
        .named(rule)
        .into_iter()
        .chain(of_rule.filter_map(|path| real(&closed.home.join(path.as_str()))))
        .chain(of_system.filter_map(|path| real(Path::new(path))))
        .collect();
    let named = rule.args.iter().flat_map(|arg| {
        let value = arg.split_once('=').map(|(_, value)| value);
        [Some(arg.as_str()), value].into_iter().flatten()
    });
    let found: BTreeSet<PathBuf> = named
        .filter(|path| !path.is_empty())
        .filter_map(|path| real(&closed.home.join(path)))
        .filter(|path| !open.iter().any(|open| path.starts_with(open)))
        .collect();
    found.into_iter().collect()
}

/// Why the child did not become the program, if its output behind the report says so.
pub(super) fn not_become(output: &[u8]) -> Option<io::Error> {
    let mut output = output;
    let report: Report = unframed(&mut output, REPORT_BYTES_MAX).ok()?;
    let errno = report.errno.filter(|_| output.is_empty())?;
    Some(io::Error::from_raw_os_error(errno))
}

/// The folder of one run for a program's own files. It is removed with everything in it when this
/// is dropped.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    /// Makes the folder `scratch/<name>`, or one with a number behind the name.
    pub(super) fn make(home: &Path, name: &str) -> io::Result<Scratch> {
        use std::os::unix::fs::DirBuilderExt;
        let all = fs::canonicalize(home)?.join(SCRATCH);
        let mut private = fs::DirBuilder::new();
        private.mode(0o700);
        match private.create(&all) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        for number in 1..=u32::MAX {
            let folder = match number {
                1 => all.join(name),
                _ => all.join(format!("{name}-{number}")),
            };
            match private.create(&folder) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => return made.map(|()| Scratch(folder)),
            }
        }
        Err(io::Error::from(io::ErrorKind::AlreadyExists))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // No answer waits for a program that has left very much. What is left after that goes with
        // the next start.
        if !remove(&self.0, Duration::from_millis(200)) {
            let folder = self.0.clone();
            let _ = thread::Builder::new().spawn(move || remove(&folder, REMOVED_WITHIN));
        }
    }
}

/// Removes what programs of earlier gates left in their folders.
pub fn sweep(home: &Path) {
    remove(&home.join(SCRATCH), REMOVED_WITHIN);
}
