//! The process that makes its own cage and becomes the program.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, LandlockStatus, NetPort, PathBeneath, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
    make_bitflags,
};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::process::{
    Resource, Rlimit, Signal, getppid, getrlimit, set_parent_process_death_signal, setrlimit,
};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

use super::{
    ABI_FILES, ABI_SIGNALS, ABI_TCP, Frame, FrameError, Lack, NOT_RUN, REPORT_BYTES_MAX, Report,
    VERSION, WORD, filter, framed, judge, read_frame, ways,
};
use crate::sandbox::{DEVICES, READ, SYSTEM, SandboxError, ask_abi};
use spoolgate_gate::record::Cage;

/// Largest file that a program may write, bytes.
const FILE_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Most files that it may have open.
const FILES_MAX: u64 = 1024;
/// Most processes and threads of the gate's user at which it may start another.
const PROCESSES_MAX: u64 = 512;

/// Why the cage could not be made.
#[derive(Debug, thiserror::Error)]
enum CageError {
    #[error("the frame of its cage: {0}")]
    Frame(#[from] FrameError),
    #[error("the process that started it is gone")]
    Parent,
    #[error("{0}: {1}")]
    System(&'static str, #[source] io::Error),
    #[error("`{0}`: {1}")]
    Path(String, #[source] io::Error),
    #[error("Landlock: {0}")]
    Landlock(#[from] RulesetError),
    #[error("Landlock has no effect here")]
    NoEffect,
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error(transparent)]
    Lack(#[from] Lack),
}

fn system(what: &'static str) -> impl Fn(rustix::io::Errno) -> CageError {
    move |errno| CageError::System(what, errno.into())
}

/// Reads the frame from standard input, enters the cage, reports and becomes the program. Returns
/// the exit code if it does not. If the arguments say so, it tries the ways out of the cage that it
/// is in instead.
pub fn run() -> i32 {
    if std::env::args_os().nth(2).is_some_and(|word| word == WORD) {
        return ways::run();
    }
    let (entered, tell) = match entered() {
        Ok(entered) => entered,
        // Without its pipes nobody can be told.
        Err(_) => return NOT_RUN,
    };
    let (frame, cage) = match entered {
        Ok(entered) => entered,
        Err(error) => {
            let _ = report(tell, None, Some(error.to_string()), None);
            return NOT_RUN;
        }
    };
    let Ok(tell) = report(tell, Some(cage), None, None) else {
        return NOT_RUN;
    };
    if frame.program.as_os_str().is_empty() {
        return 0;
    }
    let error = Command::new(&frame.program)
        .arg0(&frame.name)
        .args(&frame.args)
        .current_dir(&frame.dir)
        .env_clear()
        .envs(&frame.env)
        .exec();
    let _ = report(tell, None, None, Some(error.raw_os_error().unwrap_or(0)));
    NOT_RUN
}

type Entered = Result<(Frame, Cage), CageError>;

/// Standard input and output are copied, because the standard library would read ahead.
fn entered() -> io::Result<(Entered, File)> {
    let mut hear = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let tell = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let entered = read_frame(&mut hear)
        .map_err(CageError::from)
        .and_then(|frame| Ok((enter(&frame)?, frame)))
        .map(|(cage, frame)| (frame, cage));
    Ok((entered, tell))
}

fn report(
    mut tell: File,
    cage: Option<Cage>,
    error: Option<String>,
    errno: Option<i32>,
) -> io::Result<File> {
    let report = Report {
        v: VERSION,
        cage,
        error,
        errno,
    };
    tell.write_all(&framed(&report, REPORT_BYTES_MAX)?)?;
    Ok(tell)
}

fn enter(frame: &Frame) -> Result<Cage, CageError> {
    // The gate's thread waits for this process, so the signal comes when the gate is killed.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(system("PR_SET_PDEATHSIG"))?;
    let parent = getppid().map(|parent| parent.as_raw_nonzero().get());
    if parent != i32::try_from(frame.parent).ok() {
        return Err(CageError::Parent);
    }
    limit(frame)?;
    close_fds::set_fds_cloexec(3, &[]);
    // Root keeps no more than other users: its capabilities would read the memory of the gate, and
    // the program cannot gain them again under `no_new_privs`, which both of the following set.
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, none).map_err(system("capset"))?;
    let landlock = restrict(frame)?;
    // Last, because making the cage takes calls that the filter refuses.
    let calls = filter::apply(frame.sockets).is_ok();
    let has_network = frame.sockets.inet;
    let is_closed = calls && !has_network;
    let cage = Cage {
        landlock,
        files: landlock >= ABI_FILES,
        tcp: (landlock >= ABI_TCP || is_closed).then(|| frame.tcp.clone()),
        signals: landlock >= ABI_SIGNALS,
        calls,
    };
    judge(frame.level, has_network, &cage)?;
    Ok(cage)
}

fn limit(frame: &Frame) -> Result<(), CageError> {
    let limits = [
        (Resource::Core, 0),
        (Resource::Nofile, FILES_MAX),
        (Resource::Fsize, FILE_BYTES_MAX),
        (Resource::Nproc, PROCESSES_MAX),
        (Resource::Data, frame.limits.memory_bytes),
    ];
    for (resource, most) in limits {
        // A limit that this process has already may be lower, and stays.
        let before = getrlimit(resource);
        let most = Some(before.maximum.map_or(most, |before| before.min(most)));
        let limit = Rlimit {
            current: most,
            maximum: most,
        };
        setrlimit(resource, limit).map_err(system("setrlimit"))?;
    }
    Ok(())
}

/// Gives up all files but those of the frame. Returns the version of Landlock, 0 without it.
fn restrict(frame: &Frame) -> Result<i32, CageError> {
    let abi = ask_abi()?.min(frame.landlock_max);
    if abi < 1 {
        return Ok(0);
    }
    let files = AccessFs::from_all(ABI::from(abi.min(5)));
    let mut rules = Ruleset::default().handle_access(files)?;
    if abi >= ABI_TCP {
        rules = rules.handle_access(AccessNet::from_all(ABI::V4))?;
    }
    if abi >= ABI_SIGNALS {
        rules = rules.scope(Scope::from_all(ABI::V6))?;
    }
    let mut rules = rules.create()?;
    let reading = AccessFs::from_read(ABI::from(abi.min(5)));
    let looking = make_bitflags!(AccessFs::{ReadFile | ReadDir});
    let making_devices = make_bitflags!(AccessFs::{IoctlDev | MakeChar | MakeBlock});
    let asked = [
        (&frame.read, reading),
        (&frame.write, files & !making_devices),
    ];
    for (paths, access) in asked {
        for path in paths {
            let fd =
                opened(path).map_err(|error| CageError::Path(path.display().to_string(), error))?;
            rules = allow(rules, &fd, access)?;
        }
    }
    let system = SYSTEM.iter().map(|path| (*path, reading));
    let files_to_read = READ.iter().map(|path| (*path, looking));
    let devices = DEVICES.iter().map(|(path, is_written)| {
        let more = if *is_written {
            make_bitflags!(AccessFs::{WriteFile})
        } else {
            BitFlags::EMPTY
        };
        (*path, make_bitflags!(AccessFs::{ReadFile}) | more)
    });
    for (path, access) in system.chain(files_to_read).chain(devices) {
        if let Ok(fd) = landlock::PathFd::new(path) {
            rules = allow(rules, &fd, access)?;
        }
    }
    if abi >= ABI_TCP {
        for port in &frame.tcp {
            rules = rules.add_rule(NetPort::new(*port, AccessNet::ConnectTcp))?;
        }
    }
    let status = rules.restrict_self()?;
    match (status.ruleset, status.landlock) {
        (RulesetStatus::NotEnforced, _) => Err(CageError::NoEffect),
        (
            _,
            LandlockStatus::Available {
                effective_abi,
                kernel_abi,
            },
        ) => Ok(kernel_abi
            .unwrap_or(effective_abi as i32)
            .min(frame.landlock_max)),
        _ => Err(CageError::NoEffect),
    }
}

/// Opens a path that the gate found to be real. A link that was put in its place since is refused.
fn opened(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let fd = openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
    Ok(fd)
}

fn allow(
    rules: RulesetCreated,
    fd: &impl AsFd,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, CageError> {
    let found = rustix::fs::fstat(fd).map_err(system("fstat"))?;
    let is_folder = rustix::fs::FileType::from_raw_mode(found.st_mode).is_dir();
    let access = if is_folder {
        access
    } else {
        access & AccessFs::from_file(ABI::V5)
    };
    Ok(rules.add_rule(PathBeneath::new(fd, access))?)
}
