//! What is wrong with a home and the machine under it, each with its remedy. Only looks: no lock, no change, beside a
//! running gate, as any user, in a directory that is no home. What may not be looked at is said.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::layout::FOLDERS;
use super::read::{self, View, real_seams};
use super::sandbox::programs;
use crate::host::clock::{Clock, SystemClock};
use crate::host::command;
use crate::host::disk::Mode;
use crate::host::doctor::{self as machine, Owned, STICKY, User, WRITABLE_BY_OTHERS};
use crate::host::keyring::{KEYRING_FILE, KeyringError, SqliteKeyring};
use crate::host::lock::LOCK_FILE;
use crate::host::sandbox::{files_of, kernel_abi};
use crate::ledger::segment;
use crate::rules::{Rulebook, load};
use crate::state::Store;
use crate::state::store::STATE_FILE;

/// Less room than this is an error, and than that a warning. Bytes.
const FREE_BYTES: (u64, u64) = (64 << 20, 1 << 30);
/// The same, in files.
const FREE_INODES: (u64, u64) = (1_000, 20_000);
/// Folders that a gate may watch, and watchers it may have, before it is scarce.
const INOTIFY: [(&str, u64); 2] = [("max_user_watches", 1024), ("max_user_instances", 16)];
/// Files that a gate may have open at a time: folders of spools alone are up to 256.
const OPEN_FILES: u64 = 1024;
/// Steps of the clock that the gate itself takes no notice of, milliseconds.
const CLOCK_SLACK_MS: i64 = 2000;
/// How deep key files are looked for.
const KEY_FILE_DEPTH: usize = 3;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Ok,
    /// Worth knowing.
    Note,
    /// Will be trouble, or may be.
    Warning,
    /// Is trouble, or lets others in.
    Error,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad.
    pub level: Level,
    /// What was looked at, one word that stays.
    pub what: &'static str,
    /// Where.
    pub place: String,
    /// What is the case.
    pub message: String,
    /// What to do: a command where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// A path as a word of a shell, whatever it holds.
pub fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    let is_safe = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+,:@=".contains(&byte);
    if !text.is_empty() && !text.starts_with('-') && text.bytes().all(is_safe) {
        return text.into_owned();
    }
    let dashed = if text.starts_with('-') { "./" } else { "" };
    format!("'{dashed}{}'", text.replace('\'', r"'\''"))
}

struct Looking {
    home: PathBuf,
    /// Who the gate runs as: whoever owns its state.
    gate: Option<u32>,
    agent: Option<User>,
    found: Vec<Finding>,
}

/// Looks at a home and its machine; `agent` is a user that shall not be able to do what the gate may.
pub fn examine(home: &Path, agent: Option<User>) -> Vec<Finding> {
    let home = machine::real(home).unwrap_or_else(|| home.to_owned());
    let gate =
        machine::owned(&home.join("state")).or_else(|_| machine::owned(&home)).ok().map(|found| found.uid);
    let mut looking = Looking { home, gate, agent, found: Vec::new() };
    looking.machine();
    // Below a folder that may not be entered nothing can be told from what is not there.
    let audit = looking.home.join(segment::AUDIT_DIR);
    let is_home =
        segment::is_log(&audit) || machine::owned(&audit).is_ok() && machine::names(&audit).is_err();
    if !is_home {
        let place = looking.home.clone();
        // Where keys are, `init` makes nothing: it would bury the trace of the ledger that was there.
        let (message, remedy) = if machine::owned(&place.join(KEYRING_FILE)).is_ok() {
            let audit = quoted(&place.join(segment::AUDIT_DIR));
            ("the ledger is gone, and its keys are here", format!("bring {audit} back from a copy"))
        } else {
            ("there is no ledger here: this is no home", format!("spoolgate init {}", quoted(&place)))
        };
        looking.error("home", &place, message, Some(remedy));
        return looking.found;
    }
    looking.modes();
    looking.users();
    looking.key_files();
    looking.volumes();
    looking.holder();
    looking.left_behind();
    looking.contents();
    looking.note(
        "backup",
        Path::new("audit/checkpoint"),
        "whether a head of the log is noted on another machine cannot be seen from here",
        Some("spoolgate audit checkpoint".to_owned()),
    );
    looking.found
}

impl Looking {
    fn say(&mut self, level: Level, what: &'static str, place: &Path, message: &str, remedy: Option<String>) {
        let place = place.strip_prefix(&self.home).unwrap_or(place);
        let place = if place.as_os_str().is_empty() { Path::new(".") } else { place };
        let (place, message) = (place.display().to_string(), message.to_owned());
        self.found.push(Finding { level, what, place, message, remedy });
    }

    fn ok(&mut self, what: &'static str, place: &Path, message: &str) {
        self.say(Level::Ok, what, place, message, None);
    }

    fn note(&mut self, what: &'static str, place: &Path, message: &str, remedy: Option<String>) {
        self.say(Level::Note, what, place, message, remedy);
    }

    fn warn(&mut self, what: &'static str, place: &Path, message: &str, remedy: Option<String>) {
        self.say(Level::Warning, what, place, message, remedy);
    }

    fn error(&mut self, what: &'static str, place: &Path, message: &str, remedy: Option<String>) {
        self.say(Level::Error, what, place, message, remedy);
    }

    fn command(&self, words: &str) -> String {
        format!("spoolgate --home {} {words}", quoted(&self.home))
    }

    /// The machine, whatever is in the home.
    fn machine(&mut self) {
        match kernel_abi() {
            abi @ 0..=1 => self.note(
                "landlock",
                Path::new("kernel"),
                &format!("no Landlock that `watch --sandbox` can work in (version {abi})"),
                Some("boot Linux 6.2 or newer with `landlock` in `lsm=`".to_owned()),
            ),
            2 => self.note(
                "landlock",
                Path::new("kernel"),
                "Landlock 2: files outside can still be cut off, and `watch --sandbox require` does not start",
                Some("boot Linux 6.2 or newer".to_owned()),
            ),
            abi => self.ok("landlock", Path::new("kernel"), &format!("Landlock {abi} or newer")),
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
                let most =
                    most.map_or("any number of open files".to_owned(), |most| format!("{most} open files"));
                self.ok("open-files", Path::new("ulimit -n"), &most);
            }
        }
        for folder in command::folders().filter_map(|folder| Some((folder, machine::owned(folder).ok()?))) {
            let (folder, found) = folder;
            let by_agent = self.agent.as_ref().is_some_and(|agent| agent.uid != 0 && agent.can(folder, 2));
            if by_agent || is_open(&found) {
                let remedy = Some(format!("chmod go-w {}", quoted(folder)));
                self.error("path", folder, "others can put programs here that the gate runs by name", remedy);
            }
        }
    }

    /// How much the kernel lets a gate watch.
    fn inotify(&mut self, name: &str, least: u64, path: &Path, number: Option<u64>) {
        match number {
            Some(number) if number < least => {
                let message = format!(
                    "{number}, below {least}: where events fail the gate looks once a second instead"
                );
                self.warn("inotify", path, &message, Some(format!("sysctl -w fs.inotify.{name}=8192")));
            }
            Some(number) => self.ok("inotify", path, &number.to_string()),
            None => self.note("inotify", path, "cannot be read", None),
        }
    }

    /// Modes and owners of everything the gate lives by.
    fn modes(&mut self) {
        let home = self.home.clone();
        self.mode_of(&home, Mode::Shared);
        for (folder, mode) in FOLDERS {
            let is_door = *folder == "spool/in";
            let path = home.join(folder);
            if !self.is_folder(&path) {
                continue;
            }
            if is_door { self.door(&path) } else { self.mode_of(&path, *mode) }
        }
        // The gate does not work in these: root runs what is in the one, editors believe what is in the other.
        for folder in ["deploy", "schemas"] {
            self.mode_of(&home.join(folder), Mode::Shared);
        }
        let keyring = home.join(KEYRING_FILE);
        self.mode_of(&keyring, Mode::Private);
        for folder in ["rules", "council", "proposals/approved", "deploy"] {
            for path in machine::below(&home.join(folder), 8).collect::<Vec<_>>() {
                // Cases are written by the gate, and looked at as a folder.
                let is_known = FOLDERS.iter().any(|(known, _)| home.join(known) == path)
                    || path.starts_with(home.join("council/cases"));
                if !is_known {
                    self.mode_of(&path, Mode::Shared);
                }
            }
        }
        for path in machine::names(&home.join(segment::AUDIT_DIR)).unwrap_or_default() {
            if !path.is_dir() {
                self.mode_of(&path, Mode::Shared);
            }
        }
        self.files_of_root();
    }

    /// Whether one of the gate's folders is a folder. It starts over no link and no file in the place of one.
    fn is_folder(&mut self, path: &Path) -> bool {
        let found = match machine::owned(path) {
            Ok(found) if found.kind.is_dir() => return true,
            Ok(found) => found,
            // Without a state there are no keys, and below a file nothing is: both are said of those.
            Err(error) if error.kind() == ErrorKind::NotFound && !path.ends_with("state") => {
                let remedy = Some(self.command("run --until-idle"));
                self.note("home", path, "is not there: the next start makes it", remedy);
                return false;
            }
            Err(error) => return error.kind() == ErrorKind::PermissionDenied,
        };
        let place = quoted(path);
        if found.kind.is_symlink() {
            let back = machine::real(path).map(|to| format!(" && mv {} {place}", quoted(&to)));
            let remedy = Some(format!("rm {place}{}", back.unwrap_or_default()));
            self.error(
                "link",
                path,
                "is a link, over which no gate starts: put the folder itself here",
                remedy,
            );
        } else {
            let aside = quoted(&path.with_extension("aside"));
            let message = "is no folder, and no gate starts: the folder belongs here";
            self.error("home", path, message, Some(format!("mv {place} {aside}")));
        }
        false
    }

    /// What a command left that root ran in the home of another user: the gate can neither write nor replace it.
    fn files_of_root(&mut self) {
        let Some(gate) = self.gate.filter(|gate| *gate != 0) else { return };
        for folder in ["state", segment::AUDIT_DIR] {
            let folder = self.home.join(folder);
            let is_roots = |path: &PathBuf| {
                machine::owned(path).is_ok_and(|found| found.uid == 0 && !found.kind.is_dir())
                    && *path != self.home.join(KEYRING_FILE)
            };
            let names = machine::names(&folder).unwrap_or_default();
            let Some(first) = names.iter().find(|path| is_roots(path)) else { continue };
            let name = machine::user_name(gate);
            let remedy = Some(format!("chown -hR {name} {}", quoted(&folder)));
            let first = first.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let message =
                format!("`{first}` in it belongs to root: {name}, as whom the gate runs, cannot use it");
            self.error("owner", &folder, &message, remedy);
        }
    }

    /// The mode, owner and access list of one path.
    fn mode_of(&mut self, path: &Path, mode: Mode) {
        let found = match machine::owned(path) {
            Ok(found) => found,
            // What a file in the place of its folder means is said of that one.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return,
            Err(error) => {
                let user = self.gate.map_or("root".to_owned(), machine::user_name);
                let remedy = Some(format!("sudo -u {user} {}", self.command("doctor")));
                return self.note("unseen", path, &format!("may not be looked at: {error}"), remedy);
            }
        };
        if found.kind.is_symlink() {
            return self.note("link", path, "is a link: what it leads to is not looked at here", None);
        }
        let shown = format!("mode {:o}", found.mode);
        if mode == Mode::Private && found.mode & 0o077 != 0 {
            let bits = if found.kind.is_dir() { "0700" } else { "0600" };
            let remedy = Some(format!("chmod {bits} {}", quoted(path)));
            self.error("mode", path, &format!("{shown}: others than the gate's user can get in"), remedy);
        } else if found.mode & WRITABLE_BY_OTHERS != 0 {
            let remedy = Some(format!("chmod go-w {}", quoted(path)));
            self.error("mode", path, &format!("{shown}: others can write it"), remedy);
        }
        if let Some(gate) = self.gate.filter(|gate| *gate != found.uid && found.uid != 0) {
            let (owner, gate) = (machine::user_name(found.uid), machine::user_name(gate));
            let remedy = Some(format!("chown -h {gate} {}", quoted(path)));
            // People may keep the rules themselves; then only they can change them, and no proposal is applied.
            let is_peoples = ["rules", "council", "proposals", "deploy"]
                .iter()
                .any(|of| path.starts_with(self.home.join(of)));
            let level = if is_peoples { Level::Warning } else { Level::Error };
            self.say(level, "owner", path, &format!("belongs to {owner}, the gate to {gate}"), remedy);
        } else if self.gate.is_some_and(|gate| gate != found.uid) && mode == Mode::Private {
            let gate = machine::user_name(self.gate.unwrap_or_default());
            let remedy = Some(format!("chown -h {gate} {}", quoted(path)));
            self.error(
                "owner",
                path,
                &format!("belongs to root: {gate}, as whom the gate runs, cannot use it"),
                remedy,
            );
        }
        if machine::has_acl(path) {
            let remedy = Some(format!("getfacl {}", quoted(path)));
            self.warn("acl", path, "has an access list, which is not looked into here", remedy);
        }
    }

    /// Where requests come in: others may write there, as long as nobody can take away what is another's.
    fn door(&mut self, path: &Path) {
        let Ok(found) = machine::owned(path) else { return };
        if found.mode & WRITABLE_BY_OTHERS != 0 && found.mode & STICKY == 0 {
            let remedy = Some(format!("chmod +t {}", quoted(path)));
            self.warn(
                "mode",
                path,
                &format!("mode {:o}: agents can take away each other's requests", found.mode),
                remedy,
            );
        }
        if let Some(gate) = self.gate.filter(|gate| *gate != found.uid) {
            let remedy = Some(format!("chown -h {} {}", machine::user_name(gate), quoted(path)));
            self.error("owner", path, &format!("belongs to {}", machine::user_name(found.uid)), remedy);
        }
    }

    /// Who the gate is, and what an agent's user could do.
    fn users(&mut self) {
        let home = self.home.clone();
        let Some(gate) = self.gate else { return };
        let name = machine::user_name(gate);
        if gate == 0 {
            let remedy = Some(format!("sh {}", quoted(&home.join("deploy/users.sh"))));
            self.warn("user", &home, "the gate runs as root: give it a user of its own", remedy);
        }
        let Some(agent) = self.agent.clone() else {
            let message = format!(
                "the gate runs as {name}: an agent of the same user can do all that the gate can; name the agent's user \
                 to have that looked at"
            );
            return self.note("user", &home, &message, Some(self.command("doctor --agent-user NAME")));
        };
        if agent.uid == gate || agent.uid == 0 {
            let message =
                format!("{} is the gate's own user or root: nothing separates agent and gate", agent.name);
            let remedy = Some(format!("sh {}", quoted(&home.join("deploy/users.sh"))));
            return self.error("agent", &home, &message, remedy);
        }
        self.agent_cannot(&home, &agent);
        self.agent_can(&home, &agent);
    }

    /// What an agent must not be able to do.
    fn agent_cannot(&mut self, home: &Path, agent: &User) {
        if let Some(folder) = agent.can_move(home) {
            let remedy = Some(format!("chmod go-w {0} && chown root {0}", quoted(&folder)));
            let message = format!("{} can put another home in the place of this one", agent.name);
            self.error("agent", &folder, &message, remedy);
        }
        let folders = FOLDERS.iter().map(|(folder, _)| *folder).filter(|folder| *folder != "spool/in");
        let written =
            folders.chain(["", KEYRING_FILE, STATE_FILE, "rules/principals.yaml", "rules/safety.yaml"]);
        for path in written.map(|below| home.join(below)) {
            if agent.can(&path, 2) {
                let remedy = Some(format!("chmod go-w {0} && chown {1} {0}", quoted(&path), self.owner()));
                self.error("agent", &path, &format!("{} can write it", agent.name), remedy);
            }
        }
        if agent.can(&home.join(KEYRING_FILE), 4) {
            let path = home.join(KEYRING_FILE);
            let remedy = Some(format!("chmod 0600 {0} && chown {1} {0}", quoted(&path), self.owner()));
            self.error("agent", &path, &format!("{} can read the keys of the log", agent.name), remedy);
        }
    }

    /// What an agent must be able to do.
    fn agent_can(&mut self, home: &Path, agent: &User) {
        let door = home.join("spool/in");
        let own = machine::below(&door, 2).filter(|path| path.ends_with("new"));
        let doors: Vec<PathBuf> = std::iter::once(door.clone()).chain(own).collect();
        if !doors.iter().any(|door| agent.can(door, 3)) {
            let remedy = format!("sh {}", quoted(&home.join("deploy/users.sh")));
            self.warn(
                "agent",
                &door,
                &format!("{} cannot drop a request anywhere", agent.name),
                Some(remedy),
            );
        }
        let out = home.join("spool/out");
        if !agent.can(&out, 5) {
            let remedy =
                format!("chmod 0755 {} {} {}", quoted(home), quoted(&home.join("spool")), quoted(&out));
            self.warn("agent", &out, &format!("{} cannot read answers", agent.name), Some(remedy));
        }
    }

    fn owner(&self) -> String {
        self.gate.map_or("root".to_owned(), machine::user_name)
    }

    /// Keys that lie about in the home.
    fn key_files(&mut self) {
        let home = self.home.clone();
        for path in
            machine::below(&home, KEY_FILE_DEPTH).filter(|path| path.extension().is_some_and(|e| e == "key"))
        {
            let Ok(found) = machine::owned(&path) else { continue };
            if !found.kind.is_file() {
                continue;
            }
            let agent = self.agent.as_ref().filter(|agent| Some(agent.uid) != self.gate && agent.uid != 0);
            if found.mode & 0o077 != 0 {
                let remedy = Some(format!("chmod 0600 {}", quoted(&path)));
                self.error(
                    "key-file",
                    &path,
                    &format!("mode {:o}: others can read this key", found.mode),
                    remedy,
                );
            } else if agent.is_some_and(|agent| agent.can(&path, 4)) {
                let message = "the agent can read it here: give it a place of its own outside of the home";
                self.note("key-file", &path, message, None);
            } else {
                self.note("key-file", &path, "a key belongs to who signs with it, not into the home", None);
            }
        }
    }

    /// Room, mounts and file systems.
    fn volumes(&mut self) {
        let home = self.home.clone();
        let volume = match machine::volume(&home) {
            Ok(volume) => volume,
            Err(error) => return self.note("unseen", &home, &format!("its file system: {error}"), None),
        };
        if volume.is_read_only {
            self.error(
                "read-only",
                &home,
                "is mounted for reading only",
                Some(format!("mount -o remount,rw \"$(stat -c %m {})\"", quoted(&home))),
            );
        }
        if let Some(name) = volume.remote {
            let remedy = Some("move the home to a local disk, or start `watch --allow-remote-fs`".to_owned());
            self.warn(
                "file-system",
                &home,
                &format!("{name}: events, locks and syncs promise less there"),
                remedy,
            );
        }
        let by_archive = self.command("audit archive");
        let mebibytes = volume.free_bytes >> 20;
        let said = scarcity(volume.free_bytes, FREE_BYTES);
        let remedy = |said| (said > Level::Ok).then(|| by_archive.clone());
        self.say(said, "disk", &home, &format!("{mebibytes} MiB free"), remedy(said));
        if let Some(free) = volume.free_inodes {
            let said = scarcity(free, FREE_INODES);
            self.say(said, "inodes", &home, &format!("room for {free} files"), remedy(said));
        }
        let device = machine::owned(&home).map(|found| found.device).ok();
        for folder in [
            "spool",
            "spool/in",
            "spool/out",
            "spool/work",
            "spool/rejected",
            "spool/local",
            "state",
            "audit",
        ] {
            let path = home.join(folder);
            // Through a link too: what counts is where the files are.
            let found = machine::real(&path).and_then(|path| machine::owned(&path).ok());
            if found.is_some_and(|found| Some(found.device) != device) {
                let message = "is on another file system than the home: files are moved in and out by rename";
                let remedy = Some(format!("umount {0}, and put its files into {0}", quoted(&path)));
                self.error("file-system", &path, message, remedy);
            }
        }
    }

    /// Who holds the lock.
    fn holder(&mut self) {
        let path = self.home.join(LOCK_FILE);
        match machine::holders(&path).as_slice() {
            [] => self.ok("lock", &path, "no gate is running over this home, as far as can be seen"),
            [(pid, name)] if name.starts_with("spoolgate") => {
                self.ok("lock", &path, &format!("a gate is running: process {pid}"));
            }
            holders => {
                let names: Vec<String> =
                    holders.iter().map(|(pid, name)| format!("{name} ({pid})")).collect();
                let remedy = holders.first().map(|(pid, _)| format!("ps -fp {pid}"));
                self.warn(
                    "lock",
                    &path,
                    &format!("is held by {}, which is no gate", names.join(", ")),
                    remedy,
                );
            }
        }
    }

    /// What earlier runs left.
    fn left_behind(&mut self) {
        let home = self.home.clone();
        let runs = !machine::holders(&home.join(LOCK_FILE)).is_empty();
        let sockets = machine::below(&home, 2).filter(|path| {
            let pid =
                path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_prefix(".s"));
            let pid = pid
                .and_then(|rest| rest.split_once('.'))
                .and_then(|(pid, _)| u32::from_str_radix(pid, 16).ok());
            pid.is_some_and(|pid| machine::process_name(pid).is_none())
        });
        for path in sockets.collect::<Vec<_>>() {
            let remedy = Some(format!("rm {}", quoted(&path)));
            self.note("leftover", &path, "a socket that a gate left when it was killed", remedy);
        }
        let work = home.join("spool/work");
        let claims = machine::names(&work).map_or(0, |claims| claims.len());
        if claims > 0 && !runs {
            let message =
                format!("{claims} requests that were begun and not ended; the next start decides them");
            self.note("leftover", &work, &message, Some(self.command("run --until-idle")));
        }
    }

    /// What can only be told from the ledger, the index, the keyring and the rules.
    fn contents(&mut self) {
        let home = self.home.clone();
        self.log_keys(&home);
        let index = home.join(STATE_FILE);
        // Reading an index that nobody has open would make files beside it.
        let runs = !machine::holders(&home.join(LOCK_FILE)).is_empty();
        let opened = if runs { Store::open_read_only(&home).map(Some) } else { Store::open_untouched(&home) };
        let opened = opened.and_then(|store| {
            store.as_ref().map_or(Ok(None), Store::snapshot)?;
            Ok(store)
        });
        let store = match opened {
            Ok(store) => store,
            Err(why) => {
                if machine::owned(&index).is_ok() {
                    let message = format!("cannot be read, and is a cache of the ledger: {why}");
                    self.warn("state", &index, &message, Some(self.command("rebuild")));
                }
                None
            }
        };
        match load::load(&home).and_then(|bundle| Rulebook::compile(&bundle)) {
            Ok(book) => self.programs(&book),
            Err(fault) => {
                let remedy = Some(self.command("rules lint"));
                self.error(
                    "rules",
                    Path::new("rules"),
                    &format!("cannot be used, so entries are closed: {fault}"),
                    remedy,
                );
            }
        }
        let view = real_seams(&home).and_then(|seams| read::read_with(&home, &seams, store));
        match view {
            Ok(view) => {
                self.clock(&view);
                self.version(view.state.program.as_str());
                self.credentials(&view);
            }
            Err(error) if machine::names(&home.join(segment::AUDIT_DIR)).is_err() => {
                let remedy = Some(format!("sudo -u {} {}", self.owner(), self.command("doctor")));
                self.note(
                    "unseen",
                    Path::new("audit"),
                    &format!("the ledger may not be read: {error}"),
                    remedy,
                );
            }
            // That no ledger is read through a link is said of the link.
            Err(_) if machine::owned(&home.join(segment::AUDIT_DIR)).is_ok_and(|it| it.kind.is_symlink()) => {
            }
            Err(error) => {
                let remedy = Some(self.command("audit verify"));
                self.error("ledger", Path::new("audit"), &format!("cannot be read: {error}"), remedy);
            }
        }
    }

    fn log_keys(&mut self, home: &Path) {
        let path = home.join(KEYRING_FILE);
        match SqliteKeyring::open_read_only(home).and_then(|keyring| keyring.log_keys()) {
            Ok(_) => self.ok("log-keys", &path, "the log's keys are there"),
            Err(KeyringError::File { source, .. }) if source.kind() == ErrorKind::PermissionDenied => {
                let remedy = Some(format!("sudo -u {} {}", self.owner(), self.command("doctor")));
                self.note("unseen", &path, "the keyring may not be read", remedy);
            }
            Err(error) => {
                let remedy = Some(format!("bring {} back from a copy", quoted(&path)));
                self.error("log-keys", &path, &error.to_string(), remedy);
            }
        }
    }

    /// Programs of the rules: there, and nobody else's to change.
    fn programs(&mut self, book: &Rulebook) {
        let home = self.home.clone();
        for (by, spec) in programs(book) {
            if command::find(&home, &spec.program).is_none() {
                let message = format!("`{}`, which {by} names, is not there", spec.program);
                self.warn(
                    "program",
                    Path::new(&spec.program),
                    &message,
                    Some(format!("install it, or change {by}")),
                );
                continue;
            }
            for path in files_of(&home, &spec.program, &spec.args) {
                let on_the_way = path.ancestors().take_while(|path| *path != home);
                let open = on_the_way.filter_map(|path| Some((path, machine::owned(path).ok()?)));
                let others = open.filter(|(at, found)| {
                    let is_shared = *at != path && found.mode & STICKY != 0;
                    is_open(found) && !is_shared
                });
                let others: Vec<PathBuf> = others.map(|(path, _)| path.to_owned()).collect();
                for at in others {
                    let remedy = Some(format!("chmod go-w {}", quoted(&at)));
                    let message =
                        format!("others can change `{}`, which {by} has the gate run", path.display());
                    self.error("program", &at, &message, remedy);
                }
                let agent =
                    self.agent.as_ref().filter(|agent| agent.uid != 0 && Some(agent.uid) != self.gate);
                if agent.is_some_and(|agent| agent.can(&path, 2) || agent.can_move(&path).is_some()) {
                    let remedy = Some(format!("chown root {0} && chmod go-w {0}", quoted(&path)));
                    let message = format!("the agent can change this, which {by} has the gate run");
                    self.error("program", &path, &message, remedy);
                }
            }
        }
    }

    fn clock(&mut self, view: &View) {
        let place = Path::new("clock");
        let accept = self.command("clock accept --reason \"looked at it\"");
        if let Some(why) = view.state.clock_fault() {
            return self.warn("clock", place, &why, Some(accept));
        }
        let (Some(last), now) = (view.state.clock.last, SystemClock::default().now()) else { return };
        if last.since_ms(now) > CLOCK_SLACK_MS {
            let message = format!(
                "the ledger's last line is of {last}, and the machine says {now}: entries will be closed; set the clock \
                 if it is wrong, accept it if it is right"
            );
            self.warn("clock", place, &message, Some(accept));
        } else {
            self.ok("clock", place, &format!("{now}; the ledger's last line is of {last}"));
        }
    }

    fn version(&mut self, theirs: &str) {
        let ours = crate::VERSION;
        if theirs.is_empty() || theirs == ours {
            self.ok("version", Path::new("audit"), ours);
        } else {
            let message = format!("the newest lines are by version {theirs}, this is {ours}");
            self.note("version", Path::new("audit"), &message, Some("spoolgate --version".to_owned()));
        }
    }

    fn credentials(&mut self, view: &View) {
        let place = Path::new("rules/services.yaml");
        for (name, record) in &view.state.credentials {
            let service = view.rulebook.services.services.iter().find(|service| service.service == *name);
            let remove = Some(self.command(&format!("services credential remove {name}")));
            match service {
                None => self.warn(
                    "credential",
                    place,
                    &format!("a credential of `{name}`, which is no service"),
                    remove,
                ),
                Some(service) if service.host != record.host => {
                    let message = format!(
                        "the credential of `{name}` is for `{}`, the service is at `{}`",
                        record.host, service.host
                    );
                    let remedy = self.command(&format!("services credential set {name} --from FILE"));
                    self.warn("credential", place, &message, Some(remedy));
                }
                Some(_) => {}
            }
        }
        let calls = |action: &str, name| {
            view.rulebook.gateway.adapter(action, name).is_some_and(|adapter| adapter.command.is_some())
        };
        for service in view.rulebook.services.services.iter().filter(|service| service.is_active) {
            let name = &service.service;
            let is_served = calls("service.api_call", name.as_str())
                || service.actions.iter().any(|action| calls(action, name.as_str()));
            if is_served && !view.state.credentials.contains_key(name) {
                let message =
                    format!("`{name}` has an adapter and no credential; right only if none is needed");
                let remedy = self.command(&format!("services credential set {name} --from FILE"));
                self.note("credential", place, &message, Some(remedy));
            }
        }
    }
}

/// How bad it is that only so much is left.
fn scarcity(free: u64, (error, warning): (u64, u64)) -> Level {
    match free {
        free if free < error => Level::Error,
        free if free < warning => Level::Warning,
        _ => Level::Ok,
    }
}

/// Whether others than its owner can write it.
fn is_open(found: &Owned) -> bool {
    !found.kind.is_symlink() && found.mode & WRITABLE_BY_OTHERS != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_scarce_is_said_with_a_remedy() {
        for (free, level) in [
            (0, Level::Error),
            ((64 << 20) - 1, Level::Error),
            (64 << 20, Level::Warning),
            ((1 << 30) - 1, Level::Warning),
            (1 << 30, Level::Ok),
        ] {
            assert_eq!(scarcity(free, FREE_BYTES), level, "{free}");
        }
        let mut looking = Looking { home: PathBuf::from("/srv"), gate: None, agent: None, found: Vec::new() };
        for number in [Some(1023), Some(1024), None] {
            looking.inotify("max_user_watches", 1024, Path::new("/proc/x"), number);
        }
        looking.version("0.0.1");
        looking.version(crate::VERSION);
        let said: Vec<(Level, &str, Option<&str>)> =
            looking.found.iter().map(|found| (found.level, found.what, found.remedy.as_deref())).collect();
        let expected = [
            (Level::Warning, "inotify", Some("sysctl -w fs.inotify.max_user_watches=8192")),
            (Level::Ok, "inotify", None),
            (Level::Note, "inotify", None),
            (Level::Note, "version", Some("spoolgate --version")),
            (Level::Ok, "version", None),
        ];
        assert_eq!(said, expected);
    }

    #[test]
    fn paths_are_single_words() {
        for (path, word) in [
            ("/srv/gate", "/srv/gate"),
            ("/srv/my gate", "'/srv/my gate'"),
            ("a'b$(x)`y`", r"'a'\''b$(x)`y`'"),
            ("-rf", "'./-rf'"),
            ("", "''"),
        ] {
            assert_eq!(quoted(Path::new(path)), word);
        }
    }
}
