//! Inspects the machine for `spoolgate doctor`: owners and modes, users and their groups, file
//! systems, limits, and the holder of the lock. Everything here is read-only.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{StatVfsMountFlags, getxattr_query, statfs, statvfs};
use rustix::process::{Resource, getegid, geteuid, getrlimit};

/// Magic numbers of remote file systems, which report no events for changes by other machines, and
/// whose locks and syncs promise less (statfs(2)): NFS, SMB, CIFS, SMB2, 9P, FUSE, AFS, Ceph.
const REMOTE: [(i64, &str); 8] = [
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB2"),
    (0x0102_1997, "9P"),
    (0x6573_5546, "FUSE"),
    (0x5346_414f, "AFS"),
    (0x00c3_6400, "Ceph"),
];

/// Mode bits that let the group or everybody write.
pub const WRITABLE_BY_OTHERS: u32 = 0o022;
/// Mode bit of a folder in which only the owner of an entry, or of the folder, may remove the
/// entry.
pub const STICKY: u32 = 0o1000;

/// Owner and mode of a file or folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owned {
    /// User id of its owner.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Its permissions, with set-id and sticky bits.
    pub mode: u32,
    /// Its device.
    pub device: u64,
    /// Its inode.
    pub inode: u64,
    /// Its type.
    pub kind: fs::FileType,
}

/// Inspects a path without following a link in the last component.
///
/// # Errors
/// Returns the system's error.
pub fn owned(path: &Path) -> io::Result<Owned> {
    let found = fs::symlink_metadata(path)?;
    Ok(Owned {
        uid: found.uid(),
        gid: found.gid(),
        mode: found.mode() & 0o7777,
        device: found.dev(),
        inode: found.ino(),
        kind: found.file_type(),
    })
}

/// Whether a path has an access control list in addition to its mode.
pub fn has_acl(path: &Path) -> bool {
    getxattr_query(path, "system.posix_acl_access").is_ok()
}

/// The path without links, if it exists.
pub fn real(path: &Path) -> Option<PathBuf> {
    fs::canonicalize(path).ok()
}

/// Paths of the entries of a folder, sorted.
///
/// # Errors
/// Returns the system's error.
pub fn names(folder: &Path) -> io::Result<BTreeSet<PathBuf>> {
    fs::read_dir(folder)?
        .map(|entry| Ok(entry?.path()))
        .collect()
}

/// Everything accessible below a folder; links are not followed.
pub fn below(folder: &Path, depth_max: usize) -> impl Iterator<Item = PathBuf> {
    let all = walkdir::WalkDir::new(folder)
        .min_depth(1)
        .max_depth(depth_max)
        .sort_by_file_name();
    all.into_iter().flatten().map(walkdir::DirEntry::into_path)
}

/// A user and all of the user's groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The user name.
    pub name: String,
    /// The user id.
    pub uid: u32,
    /// The ids of all groups.
    pub gids: BTreeSet<u32>,
}

impl User {
    /// Whether the mode of a file or folder allows this user everything in `bits` (4 read, 2 write,
    /// 1 enter).
    pub fn may(&self, found: &Owned, bits: u32) -> bool {
        let class = if self.uid == found.uid {
            found.mode >> 6
        } else if self.gids.contains(&found.gid) {
            found.mode >> 3
        } else {
            found.mode
        };
        self.uid == 0 || class & bits == bits
    }

    /// Whether this user can reach a path and has these permissions there. False if the path does
    /// not exist.
    pub fn can(&self, path: &Path, bits: u32) -> bool {
        let Some(path) = real(path) else { return false };
        let enters = |folder: &Path| owned(folder).is_ok_and(|found| self.may(&found, 1));
        path.ancestors().skip(1).all(enters)
            && owned(&path).is_ok_and(|found| self.may(&found, bits))
    }

    /// The first folder on the way to a path, from the path up, in which this user could replace
    /// the next component.
    pub fn can_move(&self, path: &Path) -> Option<PathBuf> {
        let path = real(path)?;
        let on_the_way = path.ancestors().zip(path.ancestors().skip(1));
        on_the_way
            .filter(|(inner, folder)| {
                let (Ok(inner), Ok(found)) = (owned(inner), owned(folder)) else {
                    return false;
                };
                // The owner of a folder can give it any mode.
                let owns = self.uid == found.uid || self.uid == inner.uid;
                owns || self.can(folder, 3) && (found.mode & STICKY == 0)
            })
            .map(|(_, folder)| folder.to_owned())
            .next()
    }
}

/// Looks up a user by name or number in /etc/passwd and /etc/group. `None` if the user is not
/// there, for example because only a directory service knows it.
pub fn user(name: &str) -> Option<User> {
    let users = fs::read_to_string("/etc/passwd").ok()?;
    let groups = fs::read_to_string("/etc/group").unwrap_or_default();
    user_in(name, &users, &groups)
}

fn user_in(name: &str, users: &str, groups: &str) -> Option<User> {
    let field = |line: &str, at| line.split(':').nth(at).map(str::to_owned);
    let line = users.lines().find(|line| {
        field(line, 0).as_deref() == Some(name) || field(line, 2).as_deref() == Some(name)
    })?;
    let own = field(line, 0)?;
    let uid = field(line, 2)?.parse().ok()?;
    let mut gids = BTreeSet::from([field(line, 3)?.parse().ok()?]);
    let has = |line: &&str| {
        field(line, 3).is_some_and(|members| members.split(',').any(|one| one == own))
    };
    gids.extend(
        groups
            .lines()
            .filter(has)
            .filter_map(|line| field(line, 2)?.parse::<u32>().ok()),
    );
    Some(User {
        name: own,
        uid,
        gids,
    })
}

/// The name of a user, or the number if the name is unknown.
pub fn user_name(uid: u32) -> String {
    user(&uid.to_string()).map_or_else(|| uid.to_string(), |user| user.name)
}

/// User id and group id of this process.
pub fn own_ids() -> (u32, u32) {
    (geteuid().as_raw(), getegid().as_raw())
}

/// State of a file system.
#[derive(Clone, Copy, Debug)]
pub struct Volume {
    /// Bytes that are free for unprivileged users.
    pub free_bytes: u64,
    /// Number of files that can still be created. `None` if the file system has no such limit.
    pub free_inodes: Option<u64>,
    /// Whether it is mounted read-only.
    pub is_read_only: bool,
    /// Its name, if it is a remote file system or similar.
    pub remote: Option<&'static str>,
}

/// Name of a path's file system, if it is a remote one.
pub fn remote(path: &Path) -> Option<&'static str> {
    let magic = statfs(path).ok()?.f_type & 0xffff_ffff;
    REMOTE
        .iter()
        .find(|(number, _)| *number == magic)
        .map(|(_, name)| *name)
}

/// Inspects the file system of a path.
///
/// # Errors
/// Returns the system's error.
pub fn volume(path: &Path) -> io::Result<Volume> {
    let found = statvfs(path)?;
    Ok(Volume {
        free_bytes: found.f_bavail.saturating_mul(found.f_frsize),
        free_inodes: (found.f_files > 0).then_some(found.f_favail),
        is_read_only: found.f_flag.contains(StatVfsMountFlags::RDONLY),
        remote: remote(path),
    })
}

/// Reads a number that the kernel provides in a file.
pub fn kernel_number(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Maximum number of open files of this process. `None` if there is no limit.
pub fn open_files_max() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// How often the list of locks is read before a file counts as not locked.
const LOCK_READINGS: usize = 8;

/// Process id and name of each process that holds a lock on a file, as far as the kernel shows
/// them.
pub fn holders(path: &Path) -> Vec<(u32, String)> {
    let Ok(found) = owned(path) else {
        return Vec::new();
    };
    // The kernel gives the list in pieces and counts lines between them: while other processes
    // release their locks, a reader can miss a line. So a lock counts as free only if several
    // readings miss it.
    let read = || {
        holders_in(
            &fs::read_to_string("/proc/locks").unwrap_or_default(),
            found.inode,
        )
    };
    let held = (0..LOCK_READINGS)
        .map(|_| read())
        .find(|pids| !pids.is_empty());
    held.unwrap_or_default()
        .into_iter()
        // An inode number is unique only per device, and /proc/locks has several notations for
        // devices. So check that the process has the file open.
        .filter(|pid| has_open(*pid, &found).unwrap_or(true))
        .map(|pid| (pid, process_name(pid).unwrap_or_default()))
        .collect()
}

fn holders_in(locks: &str, inode: u64) -> Vec<u32> {
    let of_inode = |line: &&str| {
        let mut fields = line.split_whitespace();
        fields.any(|field| {
            field.rsplit(':').next() == Some(&inode.to_string()) && field.matches(':').count() == 2
        })
    };
    let waits = |line: &&str| line.contains("->");
    locks
        .lines()
        .filter(|line| !waits(line))
        .filter(of_inode)
        .filter_map(|line| line.split_whitespace().nth(4)?.parse().ok())
        .collect()
}

/// Whether a process has a file open. `None` if that is not visible.
fn has_open(pid: u32, file: &Owned) -> Option<bool> {
    let open = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let found = open.flatten().filter_map(|fd| fs::metadata(fd.path()).ok());
    Some(
        found
            .into_iter()
            .any(|found| (found.dev(), found.ino()) == (file.device, file.inode)),
    )
}

/// The name of a process. `None` if there is no such process.
pub fn process_name(pid: u32) -> Option<String> {
    fs::read_to_string(format!("/proc/{pid}/comm"))
        .ok()
        .map(|name| name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_their_groups() {
        let users = "root:x:0:0::/root:/bin/sh\nbot:x:1001:1002::/:/bin/sh\nbroken\n";
        let groups = "root:x:0:\nagents:x:50:ann,bot\nbots:x:51:robot,bo\nbroken\n";
        let bot = user_in("bot", users, groups).unwrap();
        assert_eq!(
            (bot.uid, bot.gids.clone()),
            (1001, BTreeSet::from([50, 1002]))
        );
        assert_eq!(user_in("1001", users, groups), Some(bot));
        assert_eq!(user_in("robot", users, groups), None);
        assert_eq!(user_in("broken", users, groups), None);
    }

    #[test]
    fn modes_say_who_may_what() {
        let user = |uid, gids: &[u32]| User {
            name: String::new(),
            uid,
            gids: gids.iter().copied().collect(),
        };
        let of = |mode| {
            let kind = fs::symlink_metadata("/").unwrap().file_type();
            Owned {
                uid: 1,
                gid: 5,
                mode,
                device: 0,
                inode: 0,
                kind,
            }
        };
        for (who, mode, bits, may) in [
            (user(1, &[]), 0o600, 6, true),
            (user(1, &[5]), 0o077, 4, false),
            (user(2, &[5]), 0o720, 2, true),
            (user(2, &[5]), 0o707, 2, false),
            (user(2, &[6]), 0o702, 2, true),
            (user(2, &[6]), 0o770, 1, false),
            (user(0, &[]), 0o000, 7, true),
        ] {
            assert_eq!(who.may(&of(mode), bits), may, "{who:?} {mode:o} {bits}");
        }
    }

    #[test]
    fn a_lock_is_told_from_one_that_is_waited_for() {
        let locks = "1: FLOCK  ADVISORY  WRITE 711 fd:00:4242 0 EOF\n1: -> FLOCK  ADVISORY  WRITE \
            712 fd:00:4242 0 EOF\n\
            2: POSIX  ADVISORY  READ 713 fd:00:14242 128 128\n";
        assert_eq!(holders_in(locks, 4242), [711]);
        assert_eq!(holders_in(locks, 42), [0_u32; 0]);
    }
    #[test]
    fn a_held_lock_is_found_while_others_come_and_go() {
        let dir = tempfile::tempdir().unwrap();
        let open = |name: &str| fs::File::create(dir.path().join(name)).unwrap();
        let held = open("held");
        held.lock().unwrap();
        let others: Vec<_> = (0..300).map(|at| open(&at.to_string())).collect();
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    others.iter().for_each(|other| other.lock().unwrap());
                    others.iter().for_each(|other| other.unlock().unwrap());
                }
            });
            let missed = (0..500).filter(|_| holders(&dir.path().join("held")).is_empty());
            let missed = missed.count();
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            assert_eq!(missed, 0);
        });
    }
}
