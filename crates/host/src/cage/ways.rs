//! Ways out of a cage, tried by this program in the cage of a program that needs nothing. Each does
//! no harm if it is open: it opens, lists or sets to what is, or has a decoy for its aim.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, test_kill_process};
use serde::{Deserialize, Serialize};

use super::{ABI_FILES, ABI_SIGNALS, Scratch};
use crate::entropy::{Entropy as _, SystemEntropy};
use spoolgate_gate::record::Cage;
use spoolgate_ledger::segment;
use spoolgate_wire::signing::hex;

/// The word behind the one for the cage: try the ways out.
pub(crate) const WORD: &str = "ways-out";
/// A port at which nothing listens: to be refused by it is to have reached it.
const NOBODY: u16 = 1;
/// Any address and port of this machine.
const ANY: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 0);

/// What the ways out lead to.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Aims {
    home: PathBuf,
    /// The newest segment of the ledger.
    segment: PathBuf,
    /// The folder for temporary files.
    temporary: PathBuf,
    /// A file that may be read.
    readable: PathBuf,
    /// A file that may not.
    closed: PathBuf,
    /// A socket at which somebody listens.
    socket: PathBuf,
    /// The process that started the cage.
    gate: i32,
    /// Its limit of core files: the present one and the highest.
    core: (Option<u64>, Option<u64>),
}

/// Decoys for ways out that change something.
pub(crate) struct Decoys {
    folder: Scratch,
    _listener: UnixListener,
}

impl Decoys {
    pub(crate) fn make() -> io::Result<Decoys> {
        // A name that nobody can take before, and that two threads do not share.
        let name = SystemEntropy.bytes32().map_err(io::Error::other)?;
        let name = format!("spoolgate-{}", hex(&name));
        let folder = std::env::temp_dir().join(name.get(..26).unwrap_or(&name));
        fs::DirBuilder::new().mode(0o700).create(&folder)?;
        let folder = Scratch(folder);
        for name in ["readable", "closed"] {
            fs::write(folder.path().join(name), "decoy")?;
        }
        Ok(Decoys {
            _listener: UnixListener::bind(folder.path().join("socket"))?,
            folder,
        })
    }

    pub(crate) fn aims(&self, home: &Path) -> io::Result<Aims> {
        let folder = fs::canonicalize(self.folder.path())?;
        let audit = home.join(segment::AUDIT_DIR);
        let names = fs::read_dir(&audit).into_iter().flatten().flatten();
        let newest = names
            .filter_map(|entry| segment::number_of(entry.file_name().to_str()?))
            .max();
        let core = getrlimit(Resource::Core);
        Ok(Aims {
            home: home.to_owned(),
            segment: audit.join(segment::file_name(newest.unwrap_or(1))),
            temporary: folder.parent().unwrap_or(&folder).to_owned(),
            readable: folder.join("readable"),
            closed: folder.join("closed"),
            socket: folder.join("socket"),
            gate: rustix::process::getpid().as_raw_nonzero().get(),
            core: (core.current, core.maximum),
        })
    }
}

impl Aims {
    pub(crate) fn readable(&self) -> &Path {
        &self.readable
    }

    fn gate(&self) -> io::Result<Pid> {
        Pid::from_raw(self.gate).ok_or_else(|| io::ErrorKind::InvalidInput.into())
    }
}

/// What closes a way out: a version of Landlock, or the filter of system calls.
#[derive(Clone, Copy, Debug)]
struct Way {
    name: &'static str,
    landlock: Option<i32>,
    is_filtered: bool,
    attempt: fn(&Aims) -> io::Result<()>,
}

const fn file(name: &'static str, landlock: i32, attempt: fn(&Aims) -> io::Result<()>) -> Way {
    Way {
        name,
        landlock: Some(landlock),
        is_filtered: false,
        attempt,
    }
}

const fn call(
    name: &'static str,
    landlock: Option<i32>,
    attempt: fn(&Aims) -> io::Result<()>,
) -> Way {
    Way {
        name,
        landlock,
        is_filtered: true,
        attempt,
    }
}

const WAYS: [Way; 15] = [
    file("reading the keyring", 1, |aims| {
        File::open(aims.home.join(crate::keyring::KEYRING_FILE)).map(drop)
    }),
    file("listing the rules", 1, |aims| {
        fs::read_dir(aims.home.join("rules")).map(drop)
    }),
    file("listing temporary files", 1, |aims| {
        fs::read_dir(&aims.temporary).map(drop)
    }),
    file("writing into spool/in", 1, |aims| {
        // Without a name the file is gone when it is closed.
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        rustix::fs::open(aims.home.join("spool/in"), flags, mode)?;
        Ok(())
    }),
    file("appending to the ledger", 1, |aims| {
        OpenOptions::new()
            .append(true)
            .open(&aims.segment)
            .map(drop)
    }),
    file("truncating files", ABI_FILES, |aims| {
        // The right to write is none of those that this takes.
        let flags = OFlags::RDONLY | OFlags::TRUNC | OFlags::CLOEXEC;
        rustix::fs::open(&aims.readable, flags, Mode::empty())?;
        Ok(())
    }),
    file("opening the gate's memory", 1, |aims| {
        File::open(format!("/proc/{}/mem", aims.gate)).map(drop)
    }),
    call("setting the gate's limits", None, |aims| {
        let (current, maximum) = aims.core;
        let same = Rlimit { current, maximum };
        prlimit(Some(aims.gate()?), Resource::Core, same)?;
        Ok(())
    }),
    file("signalling the gate", ABI_SIGNALS, |aims| {
        Ok(test_kill_process(aims.gate()?)?)
    }),
    call("a Unix socket by its path", None, |aims| {
        UnixStream::connect(&aims.socket).map(drop)
    }),
    call("UDP", None, |_| UdpSocket::bind(ANY).map(drop)),
    call("TCP", Some(super::ABI_TCP), |_| {
        match TcpStream::connect((Ipv4Addr::LOCALHOST, NOBODY)) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
            other => other.map(drop),
        }
    }),
    call("listening at a port", Some(super::ABI_TCP), |_| {
        TcpListener::bind(ANY).map(drop)
    }),
    call("chmod", None, |aims| {
        fs::set_permissions(&aims.closed, Permissions::from_mode(0o600))
    }),
    call("making a set-user-ID file", None, |aims| {
        // By the open file, whose mode a program may change otherwise. Nobody can run the decoy.
        File::open(&aims.readable)?.set_permissions(Permissions::from_mode(0o4600))
    }),
];

/// What became of trying a way out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// It was refused.
    Closed,
    /// It led out.
    Open,
    /// It failed for another reason, so nobody knows.
    Unclear(String),
}

/// A way out that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    /// What was tried.
    pub name: &'static str,
    /// What became of it.
    pub outcome: Outcome,
    /// The version of Landlock that closes it, if the filter of system calls does not.
    landlock: Option<i32>,
    is_filtered: bool,
}

impl Tried {
    /// Whether this machine has what closes it.
    pub fn can_be_closed(&self, cage: &Cage) -> bool {
        self.is_filtered && cage.calls || self.landlock.is_some_and(|abi| abi <= cage.landlock)
    }

    /// What closes it.
    pub fn closed_by(&self) -> String {
        match self.landlock {
            Some(abi) if !self.is_filtered => format!("Landlock {abi} closes it"),
            _ => "seccomp closes it".to_owned(),
        }
    }
}

/// Tries every way out: reads the aims from standard input and writes the outcomes to standard
/// output. Returns the exit code.
pub(super) fn run() -> i32 {
    let outcomes = serde_json::from_reader::<_, Aims>(io::stdin()).map(|aims| {
        WAYS.map(|way| match (way.attempt)(&aims) {
            Ok(()) => Outcome::Open,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Outcome::Closed,
            Err(error) => Outcome::Unclear(error.to_string()),
        })
    });
    let told = outcomes.and_then(|outcomes| serde_json::to_writer(io::stdout(), &outcomes));
    i32::from(told.is_err())
}

/// Reads what the process in the cage wrote.
pub(crate) fn tried(output: &[u8]) -> io::Result<Vec<Tried>> {
    let outcomes: [Outcome; WAYS.len()] = serde_json::from_slice(output)?;
    let tried = WAYS.into_iter().zip(outcomes).map(|(way, outcome)| Tried {
        name: way.name,
        outcome,
        landlock: way.landlock,
        is_filtered: way.is_filtered,
    });
    Ok(tried.collect())
}
