//! The hint that something came in. An event carries no information but that a scan is worth while;
//! overflow, lost events, a dead watcher or none at all only cost up to a heartbeat.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

use crate::host::disk::{Disk, FileId, Kind};

/// How long a scan is waited for without any event.
pub const HEARTBEAT: Duration = Duration::from_secs(1);

/// What can mean that a file came in, can be read by now, or that a folder was replaced. Nothing that the gate does
/// itself: reading a folder, opening a file and claiming it would wake it again and again.
const HINTS: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR)
    .union(WatchFlags::DONT_FOLLOW);

/// Bytes of events that are taken, and thrown away, with one call, and how often: as many as a queue holds.
const TAKEN_AT_ONCE: usize = 64 * 1024;
/// See [`TAKEN_AT_ONCE`].
const TAKES_MAX: usize = 64;

/// Watches the spool folders.
pub struct Hints {
    events: Option<OwnedFd>,
    /// The folders, which they are, and the number of their watch.
    watched: BTreeMap<PathBuf, (FileId, i32)>,
    /// Why events do not work, if they do not; the heartbeat serves.
    pub warning: Option<String>,
    tell: Option<OnWarning>,
}

/// Hears why events stopped working.
pub type OnWarning = Box<dyn FnMut(&str) + Send>;

impl Hints {
    /// Starts watching; failure is a warning.
    pub fn start() -> Hints {
        let (events, warning) = match inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK) {
            Ok(events) => (Some(events), None),
            Err(error) => (None, Some(format!("no file events ({error}); looking once a second instead"))),
        };
        Hints { events, watched: BTreeMap::new(), warning, tell: None }
    }

    /// Has `tell` told of the warning there is, and of each that comes after a time without one.
    pub fn tell_warnings(&mut self, mut tell: OnWarning) {
        self.warning.iter().for_each(|warning| tell(warning));
        self.tell = Some(tell);
    }

    /// Watches exactly these folders, below `home`; folders that were replaced are watched anew. Returns
    /// whether anything changed, so that a scan is due.
    pub fn arm(&mut self, home: &Path, disk: &dyn Disk, folders: impl Iterator<Item = PathBuf>) -> bool {
        let Some(events) = &self.events else { return false };
        let wanted: BTreeMap<PathBuf, FileId> = folders
            .filter_map(|folder| {
                // A link in a folder's place would have us woken by somebody else's folder.
                let stat = disk.stat(&folder).ok().flatten().filter(|stat| stat.kind == Kind::Directory)?;
                Some((folder, stat.id))
            })
            .collect();
        let is_wanted = |(folder, (id, _)): (&PathBuf, &(FileId, i32))| wanted.get(folder) == Some(id);
        if wanted.len() == self.watched.len() && self.watched.iter().all(is_wanted) {
            return false;
        }
        for (_, (_, watch)) in self.watched.iter().filter(|watched| !is_wanted(*watched)) {
            // A folder that is gone has lost its watch already.
            let _ = inotify::remove_watch(events, *watch);
        }
        let mut now_watched = BTreeMap::new();
        let mut warning = None;
        for (folder, id) in wanted {
            let watch = match self.watched.get(&folder) {
                Some((known, watch)) if *known == id => *watch,
                _ => match inotify::add_watch(events, home.join(&folder), HINTS) {
                    Ok(watch) => watch,
                    Err(error) => {
                        let folder = folder.display();
                        let what = format!("no file events for `{folder}` ({error}); looking once a second");
                        warning = warning.or(Some(what));
                        continue;
                    }
                },
            };
            now_watched.insert(folder, (id, watch));
        }
        self.watched = now_watched;
        if let (None, Some(what), Some(tell)) = (&self.warning, &warning, &mut self.tell) {
            tell(what);
        }
        self.warning = warning;
        true
    }

    /// Waits for a hint, and says whether there was one; for this long at most, or until a signal.
    pub fn wait(&self, at_most: Duration) -> bool {
        let Some(events) = &self.events else {
            std::thread::sleep(at_most);
            return false;
        };
        let limit = Timespec::try_from(at_most).ok();
        match poll(&mut [PollFd::new(events, PollFlags::IN)], limit.as_ref()) {
            Ok(0) | Err(rustix::io::Errno::INTR) => false,
            Ok(_) if take_all(events) => true,
            // Nobody is there to give hints, which must not make us look without rest.
            _ => {
                std::thread::sleep(at_most);
                false
            }
        }
    }
}

/// Takes the events that there are and throws them away; false if there were none.
fn take_all(events: &OwnedFd) -> bool {
    let mut space = vec![0; TAKEN_AT_ONCE];
    let mut take = || rustix::io::read(events, space.as_mut_slice()).is_ok_and(|bytes| bytes > 0);
    (0..TAKES_MAX).take_while(|_| take()).count() > 0
}
