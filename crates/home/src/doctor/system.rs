//! What the machine gives a gate: kernel, limits, search path, volumes.

use std::path::Path;

use super::{Level, Looking, is_open, quoted};
use spoolgate_host::command;
use spoolgate_host::doctor as machine;
use spoolgate_host::rule_folder;
use spoolgate_host::sandbox::kernel_abi;
use spoolgate_rules::Rulebook;

/// Free-space thresholds in bytes: (error, warning).
const FREE_BYTES: (u64, u64) = (64 << 20, 1 << 30);
/// Free-inode thresholds: (error, warning).
const FREE_INODES: (u64, u64) = (1_000, 20_000);
/// Inotify limits of the kernel, each with the number below which a gate may run short.
const INOTIFY: [(&str, u64); 2] = [("max_user_watches", 1024), ("max_user_instances", 16)];
/// Files that a gate may have open at the same time; the folders of spools alone are up to 256.
const OPEN_FILES: u64 = 1024;

impl Looking {
    /// Checks the machine, whatever is in the home.
    pub(super) fn machine(&mut self) {
        match kernel_abi() {
            abi @ 0..=1 => self.note(
                "landlock",
                Path::new("kernel"),
                &format!(
                    "the Landlock of this kernel is too old for `watch --sandbox` (version \
                    {abi})"
                ),
                Some("boot Linux 6.2 or newer with `landlock` in `lsm=`".to_owned()),
            ),
            2 => self.note(
                "landlock",
                Path::new("kernel"),
                "Landlock 2: files outside can still be cut off, and `watch --sandbox require` \
                    does not start",
                Some("boot Linux 6.2 or newer".to_owned()),
            ),
            abi => self.ok(
                "landlock",
                Path::new("kernel"),
                &format!("Landlock {abi} or newer"),
            ),
        }
        for (name, least) in INOTIFY {
            let path = format!("/proc/sys/fs/inotify/{name}");
            let number = machine::kernel_number(&path);
            self.inotify(name, least, Path::new(&path), number);
        }
        match machine::open_files_max() {
            Some(most) if most < OPEN_FILES => self.warn(
                "open-files",
                Path::new("ulimit -n"),
                &format!("{most} open files, below {OPEN_FILES}"),
                Some(format!("ulimit -n {OPEN_FILES}")),
            ),
            most => {
                let most = most.map_or("any number of open files".to_owned(), |most| {
                    format!("{most} open files")
                });
                self.ok("open-files", Path::new("ulimit -n"), &most);
            }
        }
        for folder in
            command::folders().filter_map(|folder| Some((folder, machine::owned(folder).ok()?)))
        {
            let (folder, found) = folder;
            let by_agent = self
                .agent
                .as_ref()
                .is_some_and(|agent| agent.uid != 0 && agent.can(folder, 2));
            if by_agent || is_open(&found) {
                let remedy = Some(format!("chmod go-w {}", quoted(folder)));
                self.error(
                    "path",
                    folder,
                    "other users can put programs here that the gate runs by name",
                    remedy,
                );
            }
        }
    }

    /// Checks how much the kernel lets a gate watch.
    fn inotify(&mut self, name: &str, least: u64, path: &Path, number: Option<u64>) {
        match number {
            Some(number) if number < least => {
                let message = format!(
                    "{number}, below {least}: if events fail, the gate scans once per second \
                        instead"
                );
                self.warn(
                    "inotify",
                    path,
                    &message,
                    Some(format!("sysctl -w fs.inotify.{name}=8192")),
                );
            }
            Some(number) => self.ok("inotify", path, &number.to_string()),
            None => self.note("inotify", path, "cannot be read", None),
        }
    }

    /// Checks free space, mounts and file systems.
    pub(super) fn volumes(&mut self) {
        let home = self.home.clone();
        let volume = match machine::volume(&home) {
            Ok(volume) => volume,
            Err(error) => {
                return self.note("unseen", &home, &format!("its file system: {error}"), None);
            }
        };
        if volume.is_read_only {
            self.error(
                "read-only",
                &home,
                "is mounted read-only",
                Some(format!(
                    "mount -o remount,rw \"$(stat -c %m {})\"",
                    quoted(&home)
                )),
            );
        }
        if let Some(name) = volume.remote {
            let remedy = Some(
                "move the home to a local disk, or start `watch --allow-remote-fs`".to_owned(),
            );
            self.warn(
                "file-system",
                &home,
                &format!("{name}: events, locks and syncs are less reliable there"),
                remedy,
            );
        }
        let by_archive = self.command("audit archive");
        let mebibytes = volume.free_bytes >> 20;
        // Below its floor a gate refuses most requests.
        let book = rule_folder::load(&home).and_then(|bundle| Rulebook::compile(&bundle));
        let floor = book.map_or(0, |book| book.safety.storage.floor_bytes.get());
        let (error, warning) = FREE_BYTES;
        let said = scarcity(volume.free_bytes, (error.max(floor), warning.max(floor)));
        let remedy = |said| (said > Level::Ok).then(|| by_archive.clone());
        self.say(
            said,
            "disk",
            &home,
            &format!("{mebibytes} MiB free"),
            remedy(said),
        );
        if let Some(free) = volume.free_inodes {
            let said = scarcity(free, FREE_INODES);
            self.say(
                said,
                "inodes",
                &home,
                &format!("room for {free} files"),
                remedy(said),
            );
        }
        // Follow links, because it matters where the files are.
        let device = |folder: &str| {
            let path = machine::real(&home.join(folder))?;
            machine::owned(&path).ok().map(|found| found.device)
        };
        // Requests are renamed within the spool, which may be a volume of its own.
        let [home_is_on, spool_is_on] = ["", "spool"].map(device);
        if self.agent.is_some() && home_is_on.is_some() && home_is_on == spool_is_on {
            let message = "agents can fill the disk of the ledger from here; then only exits, \
                cancels, tightens and halts are served";
            let remedy = Some("give `spool` a volume of its own, or the agents a quota".to_owned());
            self.note("disk", &home.join("spool/in"), message, remedy);
        }
        let elsewhere = [
            ("spool/in", spool_is_on),
            ("spool/out", spool_is_on),
            ("spool/work", spool_is_on),
            ("spool/rejected", spool_is_on),
            ("spool/local", spool_is_on),
            ("state", home_is_on),
            ("audit", home_is_on),
        ]
        .map(|(folder, beside)| (folder, device(folder).is_some_and(|on| Some(on) != beside)));
        for (folder, is_elsewhere) in elsewhere {
            let path = home.join(folder);
            if is_elsewhere {
                let message = "is on another file system than what is beside it, so files cannot \
                    be renamed into it or out of it";
                let remedy = Some(format!(
                    "umount {0}, and put its files into {0}",
                    quoted(&path)
                ));
                self.error("file-system", &path, message, remedy);
            }
        }
    }
}

/// Returns how severe it is that only `free` units are left, by the thresholds.
fn scarcity(free: u64, (error, warning): (u64, u64)) -> Level {
    match free {
        free if free < error => Level::Error,
        free if free < warning => Level::Warning,
        _ => Level::Ok,
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn scarce_resources_are_reported_with_a_remedy() {
        for (free, level) in [
            (0, Level::Error),
            ((64 << 20) - 1, Level::Error),
            (64 << 20, Level::Warning),
            ((1 << 30) - 1, Level::Warning),
            (1 << 30, Level::Ok),
        ] {
            assert_eq!(scarcity(free, FREE_BYTES), level, "{free}");
        }
        let mut looking = Looking {
            home: PathBuf::from("/srv"),
            gate: None,
            agent: None,
            found: Vec::new(),
        };
        for number in [Some(1023), Some(1024), None] {
            looking.inotify("max_user_watches", 1024, Path::new("/proc/x"), number);
        }
        looking.version("0.0.1");
        looking.version(spoolgate_wire::VERSION);
        let said: Vec<(Level, &str, Option<&str>)> = looking
            .found
            .iter()
            .map(|found| (found.level, found.what, found.remedy.as_deref()))
            .collect();
        let expected = [
            (
                Level::Warning,
                "inotify",
                Some("sysctl -w fs.inotify.max_user_watches=8192"),
            ),
            (Level::Ok, "inotify", None),
            (Level::Note, "inotify", None),
            (Level::Note, "version", Some("spoolgate --version")),
            (Level::Ok, "version", None),
        ];
        assert_eq!(said, expected);
    }
}
