//! Hints that something came in. An event means only that a scan is worthwhile. Overflow, lost
//! events, or a watcher that is dead or missing only delay a scan by up to a heartbeat.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};

use spoolgate_ledger::disk::{Disk, FileId, Kind};

/// Maximum time between two scans without events.
pub const HEARTBEAT: Duration = Duration::from_secs(1);

/// Watches the spool folders.
pub struct Hints {
    watcher: Option<RecommendedWatcher>,
    sender: SyncSender<()>,
    receiver: Receiver<()>,
    watched: BTreeMap<PathBuf, FileId>,
    /// Why events do not work, if they do not; scans then happen at every heartbeat.
    pub warning: Option<String>,
    tell: Option<OnWarning>,
}

/// Ends the wait for a hint: there is something to look at that causes no file event.
#[derive(Clone, Debug)]
pub struct Waker(SyncSender<()>);

impl Waker {
    /// Ends the current wait or the next one.
    pub fn wake(&self) {
        // A full channel means that a wake-up is already pending.
        let _ = self.0.try_send(());
    }
}

/// Receives the reason when events stop working.
pub type OnWarning = Box<dyn FnMut(&str) + Send>;

/// Whether an event can mean that a file came in. Reading a folder causes events itself (notify
/// subscribes to opens as well); a gate that scanned on those would wake itself for ever.
fn is_hint(event: &notify::Result<Event>) -> bool {
    match event {
        Ok(event) => event.need_rescan() || !matches!(event.kind, EventKind::Access(_)),
        Err(_) => true,
    }
}

/// Calls the watcher. `notify` panics if its thread could not be started, has ended or cannot be
/// woken; the watcher is given up then.
fn ask(
    watcher: &mut Option<RecommendedWatcher>,
    call: impl FnOnce(&mut RecommendedWatcher) -> notify::Result<()>,
) -> Result<(), String> {
    let lived = watcher
        .as_mut()
        .map(|live| catch_unwind(AssertUnwindSafe(|| call(live))));
    match lived {
        Some(Ok(done)) => done.map_err(|error| error.to_string()),
        _ => {
            give_up(watcher);
            Err("the thread that reads them does not answer".to_owned())
        }
    }
}

/// Drops the watcher, which may panic as well.
fn give_up(watcher: &mut Option<RecommendedWatcher>) {
    let watcher = watcher.take();
    let _ = catch_unwind(AssertUnwindSafe(|| drop(watcher)));
}

impl Drop for Hints {
    fn drop(&mut self) {
        give_up(&mut self.watcher);
    }
}

impl Hints {
    /// Starts watching. A failure becomes a warning.
    pub fn start() -> Hints {
        let (sender, receiver) = sync_channel(1);
        let waker = Waker(sender.clone());
        let made = notify::recommended_watcher(move |event: notify::Result<Event>| {
            if is_hint(&event) {
                waker.wake();
            }
        });
        let (watcher, warning) = match made {
            Ok(watcher) => (Some(watcher), None),
            Err(error) => (
                None,
                Some(format!(
                    "no file events ({error}); scanning once per second instead"
                )),
            ),
        };
        Hints {
            watcher,
            sender,
            receiver,
            watched: BTreeMap::new(),
            warning,
            tell: None,
        }
    }

    /// Passes the current warning to `tell`, and later each new one that comes after a time without
    /// warnings.
    pub fn tell_warnings(&mut self, mut tell: OnWarning) {
        self.warning.iter().for_each(|warning| tell(warning));
        self.tell = Some(tell);
    }

    /// Watches exactly these folders below `home`; a folder that was replaced is watched anew.
    /// Returns whether anything changed, in which case a scan is due.
    pub fn arm(
        &mut self,
        home: &Path,
        disk: &dyn Disk,
        folders: impl Iterator<Item = PathBuf>,
    ) -> bool {
        if self.watcher.is_none() {
            return false;
        }
        let wanted: BTreeMap<PathBuf, FileId> = folders
            .filter_map(|folder| {
                // If the folder was replaced by a link, somebody else's folder would wake us.
                let stat = disk
                    .stat(&folder)
                    .ok()
                    .flatten()
                    .filter(|stat| stat.kind == Kind::Directory)?;
                Some((folder, stat.id))
            })
            .collect();
        if wanted == self.watched {
            return false;
        }
        for (folder, _) in self
            .watched
            .iter()
            .filter(|(folder, id)| wanted.get(*folder) != Some(id))
        {
            // A folder that is gone has already lost its watch.
            let _ = ask(&mut self.watcher, |watcher| {
                watcher.unwatch(&home.join(folder))
            });
        }
        let mut now_watched = BTreeMap::new();
        let mut warning = None;
        for (folder, id) in wanted {
            let is_new = self.watched.get(&folder) != Some(&id);
            if is_new
                && let Err(error) = ask(&mut self.watcher, |watcher| {
                    watcher.watch(&home.join(&folder), RecursiveMode::NonRecursive)
                })
            {
                let what = format!(
                    "no file events for `{}` ({error}); scanning once per second",
                    folder.display()
                );
                warning = warning.or(Some(what));
                continue;
            }
            now_watched.insert(folder, id);
        }
        if self.watcher.is_none() {
            let gone = || "no file events; scanning once per second instead".to_owned();
            warning.get_or_insert_with(gone);
        }
        self.watched = now_watched;
        if let (None, Some(what), Some(tell)) = (&self.warning, &warning, &mut self.tell) {
            tell(what);
        }
        self.warning = warning;
        true
    }

    /// Returns a handle that ends a wait from elsewhere in the process.
    pub fn waker(&self) -> Waker {
        Waker(self.sender.clone())
    }

    /// Waits for a hint, at most this long. Returns whether there was one.
    pub fn wait(&self, at_most: Duration) -> bool {
        self.receiver.recv_timeout(at_most).is_ok()
    }
}
