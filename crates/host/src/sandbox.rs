//! The sandbox: after its start, `spoolgate watch` gives up access to the rest of the file system
//! (Landlock). Programs that it starts inherit the sandbox, so everything they need stays
//! accessible: the system's programs and libraries, and the folders of the files that the rules
//! name. docs/deploy.md explains what stays accessible and why.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::io::ErrorKind::{NotFound, PermissionDenied};
use std::path::{Path, PathBuf};
use std::time::Duration;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, LandlockStatus,
    PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError,
    RulesetStatus, Scope, make_bitflags,
};
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};

use super::command;

/// System folders from which programs are run and read.
pub(crate) const SYSTEM: [&str; 10] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/gnu/store",
    "/run/current-system",
];

/// System files that programs read to start, to resolve hosts, users and time zones, and to check
/// certificates. None of them is secret: `/etc/ssl/private` and `/etc/shadow` are not listed.
pub(crate) const READ: [&str; 27] = [
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/ld.so.preload",
    "/etc/alternatives",
    "/etc/nsswitch.conf",
    "/etc/resolv.conf",
    "/run/systemd/resolve",
    "/run/resolvconf",
    "/etc/hosts",
    "/etc/host.conf",
    "/etc/gai.conf",
    "/etc/services",
    "/etc/protocols",
    "/etc/passwd",
    "/etc/group",
    "/etc/localtime",
    "/etc/timezone",
    "/etc/mime.types",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/ca-certificates",
    "/etc/pki/tls/certs",
    "/etc/pki/ca-trust",
    "/etc/crypto-policies",
    // Needed to find processes that programs leave behind. The kernel does not let a sandboxed
    // process read other processes' memory there.
    "/proc",
    "/sys/devices/system/cpu",
];

/// Devices that programs read, and whether they may write to them.
pub(crate) const DEVICES: [(&str, bool); 5] = [
    ("/dev/null", true),
    ("/dev/zero", false),
    ("/dev/full", true),
    ("/dev/random", false),
    ("/dev/urandom", false),
];

/// Folders of a home that may be links to other places; the targets stay accessible.
const OF_HOME: [&str; 6] = ["rules", "proposals", "council", "spool", "audit", "state"];

/// Oldest usable version: before it, Landlock does not allow moving files between folders, which
/// the gate depends on.
const ABI_MIN: i32 = 2;
/// First version that restricts every right over files.
const ABI_FULL: i32 = 3;

/// Rights that older versions of Landlock cannot restrict, with the first version that can.
const NOT_TAKEN: [(i32, &str); 3] = [
    (3, "truncating files"),
    (5, "commands to devices"),
    (6, "signals to other processes, and their abstract sockets"),
];

/// Why the sandbox could not be entered.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The kernel has no usable Landlock.
    #[error(
        "this kernel lacks the Landlock support that the gate needs (version {0}); boot Linux 6.2 \
            or newer with `landlock` among its security modules (`lsm=` on its command line), or \
            start with --sandbox off"
    )]
    Unsupported(i32),
    /// Landlock cannot restrict all rights over files.
    #[error(
        "the Landlock of this kernel (version {0}) cannot restrict every right over files; boot \
            Linux 6.2 or newer, or start with --sandbox auto, which restricts what it can"
    )]
    Incomplete(i32),
    /// Other threads are running, and they would keep their rights.
    #[error(
        "{0} threads are already running and would keep their access, which is a fault of the \
            program; report it, and start with --sandbox off"
    )]
    Threads(usize),
    /// A folder that should stay accessible cannot be opened.
    #[error("`{path}`, which must stay accessible: {source}")]
    Path {
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A folder that should stay accessible is the whole file system.
    #[error(
        "`{0}` is the whole file system; name the folders that are needed, or start with --sandbox \
            off"
    )]
    Everything(PathBuf),
    /// Landlock reports an error.
    #[error("the sandbox cannot be set up: {0}")]
    Landlock(#[from] RulesetError),
    /// The system failed, so it is not known whether the sandbox would hold.
    #[error("the sandbox cannot be set up: {call}: {source}")]
    Call {
        /// What was called.
        call: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The sandbox was set up but has no effect.
    #[error(
        "the sandbox has no effect: `/` can still be listed; start with --sandbox off, which is as \
            safe"
    )]
    DoesNotHold,
}

fn failed(call: &'static str) -> impl Fn(io::Error) -> SandboxError {
    move |source| SandboxError::Call { call, source }
}

/// Paths that stay accessible in addition to those that every home needs.
#[derive(Clone, Debug, Default)]
pub struct Keep {
    /// Folders and files to read, and to run programs from.
    pub read: Vec<PathBuf>,
    /// Folders that may also be written to.
    pub write: Vec<PathBuf>,
    /// Files that rules name; their folders stay accessible too, except for wide ones.
    pub named: Vec<PathBuf>,
    /// Path of the socket.
    pub socket: Option<PathBuf>,
}

/// The sandbox that this process is in.
#[derive(Clone, Debug)]
pub struct Boxed {
    /// The kernel's version of Landlock.
    pub abi: i32,
    /// The rights that this kernel cannot restrict, as text.
    pub not_taken: Vec<&'static str>,
    /// Paths that can be read and run, not counting the system's own.
    pub read: BTreeSet<PathBuf>,
    /// Paths that can also be written.
    pub written: BTreeSet<PathBuf>,
}

impl Boxed {
    /// Whether a path can be read inside the sandbox.
    pub fn is_in_reach(&self, path: &Path) -> bool {
        // A path that does not exist is not the sandbox's concern.
        let Ok(path) = fs::canonicalize(path) else {
            return true;
        };
        let own = self.read.iter().chain(&self.written).cloned();
        let systems = SYSTEM
            .iter()
            .chain(&READ)
            .filter_map(|kept| fs::canonicalize(kept).ok());
        own.chain(systems).any(|kept| path.starts_with(kept))
    }
}

/// The newest version of Landlock that the kernel supports, up to the newest that this program uses
/// (6); 0 if there is no Landlock.
pub fn kernel_abi() -> i32 {
    ask_abi().unwrap_or(0)
}

/// Does the same as [`kernel_abi`].
///
/// # Errors
/// Returns [`SandboxError::Call`] if the kernel cannot be asked.
pub(crate) fn ask_abi() -> Result<i32, SandboxError> {
    let Some(rules) = begin()? else {
        return Ok(0);
    };
    let mut rules = rules.set_compatibility(CompatLevel::HardRequirement);
    let knows_files =
        |rules: &mut Ruleset, abi| rules.handle_access(AccessFs::from_all(abi)).is_ok();
    let known = [
        knows_files(&mut rules, ABI::V1),
        knows_files(&mut rules, ABI::V2),
        knows_files(&mut rules, ABI::V3),
        (&mut rules)
            .handle_access(AccessNet::from_all(ABI::V4))
            .is_ok(),
        knows_files(&mut rules, ABI::V5),
        (&mut rules).scope(Scope::from_all(ABI::V6)).is_ok(),
    ];
    Ok((1..)
        .zip(known)
        .take_while(|(_, is_known)| *is_known)
        .last()
        .map_or(0, |(abi, _)| abi))
}

/// Begins a ruleset. `None` if the kernel has no Landlock. The library takes every error of its call
/// for that; this function returns those that say nothing about Landlock.
fn begin() -> Result<Option<Ruleset>, SandboxError> {
    let mut rules = Ruleset::default();
    let error = io::Error::last_os_error();
    let strict = (&mut rules).set_compatibility(CompatLevel::HardRequirement);
    if strict.handle_access(AccessFs::from_all(ABI::V1)).is_ok() {
        return Ok(Some(rules.set_compatibility(CompatLevel::BestEffort)));
    }
    match Errno::from_io_error(&error) {
        Some(Errno::NOSYS | Errno::OPNOTSUPP | Errno::PERM | Errno::ACCESS) => Ok(None),
        _ => Err(failed("`landlock_create_ruleset`")(error)),
    }
}

/// Returns how many threads this process has; 1 where `/proc` cannot be read.
fn threads() -> io::Result<usize> {
    match fs::read_dir("/proc/self/task") {
        Err(error) if matches!(error.kind(), NotFound | PermissionDenied) => Ok(1),
        tasks => tasks?.try_fold(0_usize, |count, task| task.map(|_| count.saturating_add(1))),
    }
}

/// Whether this version of Landlock is sufficient. With `insist`, it must restrict every right over
/// files.
fn is_enough(abi: i32, insist: bool) -> Result<(), SandboxError> {
    match abi {
        abi if abi < ABI_MIN => Err(SandboxError::Unsupported(abi)),
        abi if insist && abi < ABI_FULL => Err(SandboxError::Incomplete(abi)),
        _ => Ok(()),
    }
}

/// Existing files that a program of the rules consists of: the program itself, where it would be
/// found, and the files that its arguments name.
pub fn files_of(home: &Path, program: &str, args: &[String]) -> Vec<PathBuf> {
    let named = args.iter().map(|arg| home.join(arg));
    command::find(home, program)
        .into_iter()
        .chain(named)
        .filter_map(|path| {
            let path = fs::canonicalize(path).ok()?;
            path.is_file().then_some(path)
        })
        .collect()
}

/// Links in the rules of a home that lead out of the home, with their targets.
pub fn links_out(home: &Path) -> Vec<(PathBuf, PathBuf)> {
    let Ok(inside) = fs::canonicalize(home) else {
        return Vec::new();
    };
    let below = ["rules", "council", "proposals/theses"].map(|folder| home.join(folder));
    let entries = below
        .into_iter()
        .flat_map(|folder| walkdir::WalkDir::new(folder).max_depth(8))
        .flatten();
    let links = entries
        .filter(|entry| entry.path_is_symlink())
        .map(walkdir::DirEntry::into_path);
    links
        .filter_map(|link| Some((fs::canonicalize(&link).ok()?, link)))
        .filter(|(to, _)| !to.starts_with(&inside))
        .map(|(to, link)| (link, to))
        .collect()
}

/// Whether a folder contains so much that it must not stay accessible just because a rule names a
/// file in it.
pub(crate) fn is_wide(folder: &Path, home: &Path) -> bool {
    let depth = folder.components().count().saturating_sub(1);
    let of_people = ["/home", "/var", "/root"]
        .iter()
        .any(|wide| folder.parent() == Some(Path::new(wide)));
    depth < 2 || of_people || home.starts_with(folder)
}

/// Gives up access to everything except what a home and `keep` need, for this process and
/// everything it starts from now on. This cannot be undone. With `insist`, either every right over
/// files is restricted or the call fails.
///
/// # Errors
/// Returns [`SandboxError`]. Except for [`SandboxError::DoesNotHold`] and [`SandboxError::Call`],
/// nothing was given up then.
pub fn enter(home: &Path, keep: &Keep, insist: bool) -> Result<Boxed, SandboxError> {
    is_enough(ask_abi()?, insist)?;
    // Landlock applies to a thread and to what that thread starts.
    let threads = threads().map_err(failed("listing `/proc/self/task`"))?;
    if threads != 1 {
        return Err(SandboxError::Threads(threads));
    }
    let (mut read, mut written) = (BTreeSet::new(), BTreeSet::new());
    let real = |path: &Path| {
        fs::canonicalize(path).map_err(|source| SandboxError::Path {
            path: path.to_owned(),
            source,
        })
    };
    let home = real(home)?;
    written.insert(home.clone());
    for folder in OF_HOME
        .iter()
        .filter_map(|folder| fs::canonicalize(home.join(folder)).ok())
    {
        written.insert(folder);
    }
    for (asked, into) in [(&keep.read, &mut read), (&keep.write, &mut written)] {
        for path in asked {
            let path = real(path)?;
            if path.parent().is_none() {
                return Err(SandboxError::Everything(path));
            }
            into.insert(path);
        }
    }
    for file in &keep.named {
        read.insert(file.clone());
        read.extend(
            file.parent()
                .filter(|folder| !is_wide(folder, &home))
                .map(Path::to_owned),
        );
    }
    // Leave out paths that stay accessible anyway.
    let systems: Vec<PathBuf> = SYSTEM
        .iter()
        .filter_map(|path| fs::canonicalize(path).ok())
        .collect();
    read.retain(|path| {
        !systems
            .iter()
            .chain(&written)
            .any(|kept| path.starts_with(kept))
    });
    let inner = |set: &BTreeSet<PathBuf>| -> BTreeSet<PathBuf> {
        let is_inner = |path: &&PathBuf| {
            !set.iter()
                .any(|other| other != *path && path.starts_with(other))
        };
        set.iter().filter(is_inner).cloned().collect()
    };
    let (read, written) = (inner(&read), inner(&written));
    let abi = restrict(&read, &written, keep.socket.as_deref())?;
    match fs::read_dir("/") {
        Ok(_) => return Err(SandboxError::DoesNotHold),
        Err(error) if error.kind() == PermissionDenied => {}
        Err(error) => return Err(failed("listing `/`")(error)),
    }
    let not_taken = NOT_TAKEN
        .iter()
        .filter(|(since, _)| abi < *since)
        .map(|(_, what)| *what)
        .collect();
    Ok(Boxed {
        abi,
        not_taken,
        read,
        written,
    })
}

/// Closes the memory and the files in `/proc` of this process to other processes of its user, and
/// has it dump no core. Programs that it starts are not affected.
///
/// # Errors
/// Returns the system's error.
pub fn close_memory() -> io::Result<()> {
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Ends this process by a signal once it has used this much time of a processor, for when the gate
/// that started it has died. Dumps no core.
///
/// # Errors
/// Returns the system's error.
pub fn end_after(time: Duration) -> io::Result<()> {
    let limit = |most: u64| Rlimit {
        current: Some(most),
        maximum: Some(most),
    };
    setrlimit(Resource::Core, limit(0))?;
    Ok(setrlimit(Resource::Cpu, limit(time.as_secs()))?)
}

/// Gives up, for this process, all access but reading below these paths, and all TCP. What the kernel
/// cannot restrict stays.
///
/// # Errors
/// Returns [`SandboxError`], unless the kernel has no Landlock.
pub fn enter_to_read(paths: &[PathBuf]) -> Result<(), SandboxError> {
    let Some(rules) = begin()? else {
        return Ok(());
    };
    let looking = make_bitflags!(AccessFs::{ReadFile | ReadDir});
    let mut rules = rules
        .handle_access(AccessFs::from_all(ABI::V5))?
        .handle_access(AccessNet::from_all(ABI::V4))?
        .scope(Scope::from_all(ABI::V6))?
        .create()?;
    for path in paths {
        rules = allow(rules, path, looking)?;
    }
    rules.restrict_self()?;
    Ok(())
}

/// Applies the Landlock rules to this thread. Returns the version of Landlock.
fn restrict(
    read: &BTreeSet<PathBuf>,
    written: &BTreeSet<PathBuf>,
    socket: Option<&Path>,
) -> Result<i32, SandboxError> {
    let reading = AccessFs::from_read(ABI::V5);
    // The gate and its programs control no devices. Landlock demands the right to make a device for
    // renaming one, too: an agent can make one without any privilege (a whiteout, `mknod x c 0 0`, since
    // Linux 5.8), and the gate moves it away. To make one that opens something takes a capability that
    // the gate does not have.
    let writing = AccessFs::from_all(ABI::V5) & !make_bitflags!(AccessFs::{IoctlDev});
    let looking = make_bitflags!(AccessFs::{ReadFile | ReadDir});
    let mut rules = begin()?
        .ok_or(SandboxError::Unsupported(0))?
        .handle_access(AccessFs::from_all(ABI::V5))?
        .scope(Scope::from_all(ABI::V6))?
        .create()?;
    for path in read {
        rules = allow(rules, path, reading)?;
    }
    for path in written {
        rules = allow(rules, path, writing)?;
    }
    let socket = socket.map(|path| match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    });
    if let Some(folder) = socket {
        // The socket is renamed to another name and removed at the end.
        rules = allow(
            rules,
            folder,
            make_bitflags!(AccessFs::{MakeSock | RemoveFile}),
        )?;
    }
    // Allow those of the following that exist.
    for (path, access) in SYSTEM
        .iter()
        .map(|path| (*path, reading))
        .chain(READ.iter().map(|path| (*path, looking)))
        .chain(DEVICES.iter().map(|(path, is_written)| {
            let more = if *is_written {
                make_bitflags!(AccessFs::{WriteFile})
            } else {
                BitFlags::EMPTY
            };
            (*path, make_bitflags!(AccessFs::{ReadFile}) | more)
        }))
    {
        if Path::new(path).exists() {
            rules = allow(rules, Path::new(path), access)?;
        }
    }
    let status = rules.restrict_self()?;
    match (status.ruleset, status.landlock) {
        (RulesetStatus::NotEnforced, _) => Err(SandboxError::DoesNotHold),
        (
            _,
            LandlockStatus::Available {
                effective_abi,
                kernel_abi,
            },
        ) => Ok(kernel_abi.unwrap_or(effective_abi as i32)),
        _ => Err(SandboxError::DoesNotHold),
    }
}

/// Allows access beneath a folder; for a file, only the rights that apply to files.
fn allow(
    rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, SandboxError> {
    let fail = |source| SandboxError::Path {
        path: path.to_owned(),
        source,
    };
    let is_folder = fs::metadata(path).map_err(fail)?.is_dir();
    let fd = PathFd::new(path).map_err(|error| fail(io::Error::other(error)))?;
    let access = if is_folder {
        access
    } else {
        access & AccessFs::from_file(ABI::V5)
    };
    Ok(rules.add_rule(PathBeneath::new(fd, access))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_version_decides() {
        let judged = |abi, insist| match is_enough(abi, insist) {
            Ok(()) => "goes",
            Err(SandboxError::Unsupported(_)) => "none",
            Err(_) => "incomplete",
        };
        for (abi, at_best, by_all_means) in [
            (0, "none", "none"),
            (1, "none", "none"),
            (2, "goes", "incomplete"),
            (3, "goes", "goes"),
            (9, "goes", "goes"),
        ] {
            assert_eq!(
                (judged(abi, false), judged(abi, true)),
                (at_best, by_all_means),
                "{abi}"
            );
        }
    }

    #[test]
    fn wide_folders_are_not_kept_for_a_file() {
        let home = Path::new("/srv/gates/one");
        for (folder, wide) in [
            ("/", true),
            ("/opt", true),
            ("/etc", true),
            ("/home/ann", true),
            ("/var/lib", true),
            ("/root/bin", true),
            ("/srv/gates", true),
            ("/srv/gates/one", true),
            ("/opt/mail", false),
            ("/home/ann/bin", false),
            ("/srv/gates/two", false),
        ] {
            assert_eq!(is_wide(Path::new(folder), home), wide, "{folder}");
        }
    }

    #[test]
    fn files_of_a_program_are_what_is_there() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("adapter.py"), "").unwrap();
        let args = ["adapter.py", "-c", "missing", "/", "rm -rf x"].map(str::to_owned);
        let files = files_of(home.path(), "sh", &args);
        assert_eq!(files.len(), 2, "{files:?}");
        assert!(
            files.iter().any(|file| file.ends_with("adapter.py")),
            "{files:?}"
        );
        assert!(files_of(home.path(), "bin/none", &[]).is_empty());
    }
}
