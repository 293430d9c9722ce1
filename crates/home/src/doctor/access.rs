//! Who can do what: modes and owners of files, users, key files.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::{Level, Looking, quoted};
use crate::approvals::PENDING_DIR;
use crate::cases::CASES_DIR;
use crate::index::store::STATE_FILE;
use crate::layout::FOLDERS;
use spoolgate_host::doctor::{self as machine, Owned, STICKY, User, WRITABLE_BY_OTHERS};
use spoolgate_host::keyring::{KEY_FILE, KEYRING_FILE};
use spoolgate_ledger::disk::Mode;
use spoolgate_ledger::segment;
use spoolgate_wire::approvals::HoldId;

/// How many folders deep the home is searched for key files.
const KEY_FILE_DEPTH: usize = 3;
/// How many folders of other users in the flat spool are shown.
const FOREIGN_SHOWN: usize = 8;
/// Bits of a folder's mode that let users outside of its group read or enter it.
const ENTERED_BY_EVERYBODY: u32 = 0o005;
/// Rights to list a folder for users other than its owner.
const LISTED_BY_OTHERS: u32 = 0o044;

impl Looking {
    /// Checks modes and owners of everything that the gate depends on.
    pub(super) fn modes(&mut self) {
        let home = self.home.clone();
        self.mode_of(&home, Mode::Shared);
        for (folder, mode) in FOLDERS {
            let is_door = *folder == "spool/in";
            let path = home.join(folder);
            if !self.is_folder(&path) {
                continue;
            }
            if is_door {
                self.door(&path)
            } else if *folder == CASES_DIR {
                self.mode_of(&path, Mode::Shared);
                self.cases(&path);
            } else {
                self.mode_of(&path, *mode)
            }
        }
        self.held();
        self.own_spools();
        // The gate does not work in these, but root runs scripts from one and editors trust the
        // other.
        for folder in ["deploy", "schemas"] {
            self.mode_of(&home.join(folder), Mode::Shared);
        }
        for file in [KEYRING_FILE, KEY_FILE] {
            self.mode_of(&home.join(file), Mode::Private);
        }
        for folder in ["rules", "council", "proposals/approved", "deploy"] {
            for path in machine::below(&home.join(folder), 8).collect::<Vec<_>>() {
                // The gate writes the cases, so only their folder is checked.
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

    /// Reports whether one of the gate's folders is a folder. A gate does not start if it is a link
    /// or a file.
    fn is_folder(&mut self, path: &Path) -> bool {
        let found = match machine::owned(path) {
            Ok(found) if found.kind.is_dir() => return true,
            Ok(found) => found,
            // A missing `state` is reported with its keys, and a path below a file with that file.
            Err(error) if error.kind() == ErrorKind::NotFound && !path.ends_with("state") => {
                let remedy = Some(self.command("run --until-idle"));
                self.note(
                    "home",
                    path,
                    "does not exist: the next start creates it",
                    remedy,
                );
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
                "is a link, so no gate starts: put the folder itself here",
                remedy,
            );
        } else {
            let aside = quoted(&path.with_extension("aside"));
            let message = "is not a folder, so no gate starts: put the folder here";
            self.error("home", path, message, Some(format!("mv {place} {aside}")));
        }
        false
    }

    /// Checks that the gate or root made the folders in the flat spool. An agent that may write
    /// there can make a folder under any name, which is not used as a spool. That is a warning and
    /// not an error: no agent decides whether doctor succeeds.
    fn own_spools(&mut self) {
        let Some(gate) = self.gate else { return };
        let names = machine::names(&self.home.join("spool/in")).unwrap_or_default();
        let folders = names
            .into_iter()
            .flat_map(|own| [own.clone(), own.join("tmp"), own.join("new")]);
        let foreign = |folder: PathBuf| {
            let found = machine::owned(&folder).ok()?;
            let is_foreign = found.kind.is_dir() && found.uid != gate && found.uid != 0;
            is_foreign.then_some((folder, found.uid))
        };
        let foreign: Vec<(PathBuf, u32)> = folders.filter_map(foreign).collect();
        for (folder, uid) in foreign.iter().take(FOREIGN_SHOWN) {
            let message = format!(
                "belongs to {}, so the gate does not use it as a spool: if an agent is to have this \
                    spool, move the folder away, and the next start of the gate makes it",
                machine::user_name(*uid)
            );
            let aside = quoted(&self.home.join("spool/rejected"));
            let remedy = Some(format!("mv {} {aside}", quoted(folder)));
            self.warn("agent", folder, &message, remedy);
        }
        if foreign.len() > FOREIGN_SHOWN {
            let message = format!(
                "{} folders in it belong to other users; {FOREIGN_SHOWN} of them are shown",
                foreign.len()
            );
            self.warn("agent", &self.home.join("spool/in"), &message, None);
        }
    }

    /// Checks for files that a command of root left in another user's home: the gate can neither
    /// write nor replace them.
    fn files_of_root(&mut self) {
        let Some(gate) = self.gate.filter(|gate| *gate != 0) else {
            return;
        };
        for folder in ["state", segment::AUDIT_DIR] {
            let folder = self.home.join(folder);
            let is_roots = |path: &PathBuf| {
                machine::owned(path).is_ok_and(|found| found.uid == 0 && !found.kind.is_dir())
                    && *path != self.home.join(KEYRING_FILE)
            };
            let names = machine::names(&folder).unwrap_or_default();
            let Some(first) = names.iter().find(|path| is_roots(path)) else {
                continue;
            };
            let name = machine::user_name(gate);
            let remedy = Some(format!("chown -hR {name} {}", quoted(&folder)));
            let first = first
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            let message = format!(
                "`{first}` in it belongs to root: the gate runs as {name} and cannot use it"
            );
            self.error("owner", &folder, &message, remedy);
        }
    }

    /// Checks the mode, owner and access list of one path.
    fn mode_of(&mut self, path: &Path, mode: Mode) {
        let found = match machine::owned(path) {
            Ok(found) => found,
            // A file in the place of a folder is reported for that folder.
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                return;
            }
            Err(error) => {
                let user = self.gate.map_or("root".to_owned(), machine::user_name);
                let remedy = Some(format!("sudo -u {user} {}", self.command("doctor")));
                return self.note(
                    "unseen",
                    path,
                    &format!("cannot be examined: {error}"),
                    remedy,
                );
            }
        };
        if found.kind.is_symlink() {
            return self.note("link", path, "is a link: its target is not examined", None);
        }
        let shown = format!("mode {:o}", found.mode);
        if mode == Mode::Private && found.mode & 0o077 != 0 {
            let bits = if found.kind.is_dir() { "0700" } else { "0600" };
            let remedy = Some(format!("chmod {bits} {}", quoted(path)));
            self.error(
                "mode",
                path,
                &format!("{shown}: users other than the gate's can enter"),
                remedy,
            );
        } else if found.mode & WRITABLE_BY_OTHERS != 0 {
            let remedy = Some(format!("chmod go-w {}", quoted(path)));
            self.error(
                "mode",
                path,
                &format!("{shown}: other users can write to it"),
                remedy,
            );
        }
        if let Some(gate) = self
            .gate
            .filter(|gate| *gate != found.uid && found.uid != 0)
        {
            let (owner, gate) = (machine::user_name(found.uid), machine::user_name(gate));
            let remedy = Some(format!("chown -h {gate} {}", quoted(path)));
            // An operator may own the rules: then only the operator can change them, and no
            // proposal is applied.
            let is_peoples = ["rules", "council", "proposals", "deploy"]
                .iter()
                .any(|of| path.starts_with(self.home.join(of)));
            let level = if is_peoples {
                Level::Warning
            } else {
                Level::Error
            };
            self.say(
                level,
                "owner",
                path,
                &format!("belongs to {owner}, but the gate's state to {gate}"),
                remedy,
            );
        } else if self.gate.is_some_and(|gate| gate != found.uid) && mode == Mode::Private {
            let gate = machine::user_name(self.gate.unwrap_or_default());
            let remedy = Some(format!("chown -h {gate} {}", quoted(path)));
            self.error(
                "owner",
                path,
                &format!("belongs to root: the gate runs as {gate} and cannot use it"),
                remedy,
            );
        }
        if machine::has_acl(path) {
            let remedy = Some(format!("getfacl {}", quoted(path)));
            self.warn(
                "acl",
                path,
                "has an access control list, which is not examined",
                remedy,
            );
        }
    }

    /// Checks the folder of council cases. An operator may open it for a group, because a role may
    /// be held by an agent of another user.
    fn cases(&mut self, path: &Path) {
        let Ok(found) = machine::owned(path) else {
            return;
        };
        if found.mode & ENTERED_BY_EVERYBODY != 0 {
            let remedy = Some(format!("chmod 0700 {}", quoted(path)));
            let message = format!(
                "mode {:o}: every user can read the artifacts of council cases, which the ledger \
                    holds sealed",
                found.mode
            );
            self.error("mode", path, &message, remedy);
        }
    }

    /// Checks the files of held requests, which older versions wrote for everybody to read.
    fn held(&mut self) {
        let folder = self.home.join(PENDING_DIR);
        let is_hold = |path: &Path| {
            let stem = path.file_stem().and_then(|stem| stem.to_str());
            stem.is_some_and(|stem| HoldId::parse(stem).is_some())
        };
        let names = machine::names(&folder).unwrap_or_default();
        let open = names.into_iter().filter(|path| {
            let is_open = |found: Owned| found.kind.is_file() && found.mode & 0o007 != 0;
            is_hold(path) && machine::owned(path).is_ok_and(is_open)
        });
        let open: Vec<String> = open.map(|path| quoted(&path)).collect();
        if open.is_empty() {
            return;
        }
        let message = format!(
            "every user can read {} held requests, with members that the ledger holds sealed",
            open.len()
        );
        let remedy = Some(format!("chmod 0600 {}", open.join(" ")));
        self.error("mode", &folder, &message, remedy);
    }

    /// Checks the folder where requests come in. Others may write there, as long as nobody can
    /// remove the requests of another user.
    fn door(&mut self, path: &Path) {
        let Ok(found) = machine::owned(path) else {
            return;
        };
        let is_door = found.mode & WRITABLE_BY_OTHERS != 0;
        for (is_open, change, can) in [
            (found.mode & STICKY == 0, "+t", "remove"),
            (found.mode & LISTED_BY_OTHERS != 0, "go-r", "list"),
        ] {
            if is_door && is_open {
                let remedy = Some(format!("chmod {change} {}", quoted(path)));
                let message = format!(
                    "mode {:o}: agents can {can} each other's requests",
                    found.mode
                );
                self.warn("mode", path, &message, remedy);
            }
        }
        if let Some(gate) = self.gate.filter(|gate| *gate != found.uid) {
            let remedy = Some(format!(
                "chown -h {} {}",
                machine::user_name(gate),
                quoted(path)
            ));
            self.error(
                "owner",
                path,
                &format!("belongs to {}", machine::user_name(found.uid)),
                remedy,
            );
        }
    }

    /// Says how to give agent and gate users of their own.
    fn separates(&self) -> String {
        let script = self.home.join("deploy/users.sh");
        if machine::owned(&script).is_ok() {
            return format!("sh {}", quoted(&script));
        }
        format!(
            "take deploy/users.sh of a new home (`spoolgate init DIR`), put {} in the place of its \
                path, and run it as root",
            quoted(&self.home)
        )
    }

    /// Checks which user the gate runs as, and what an agent's user could do.
    pub(super) fn users(&mut self) {
        let home = self.home.clone();
        let Some(gate) = self.gate else { return };
        let name = machine::user_name(gate);
        if gate == 0 {
            let remedy = Some(self.separates());
            self.warn(
                "user",
                &home,
                "the gate runs as root: give it its own user",
                remedy,
            );
        }
        let Some(agent) = self.agent.clone() else {
            let message = format!(
                "the gate runs as {name}: an agent that runs as the same user can do everything \
                    that the gate can; name the agent's user to check that"
            );
            return self.note(
                "user",
                &home,
                &message,
                Some(self.command("doctor --agent-user NAME")),
            );
        };
        if agent.uid == gate || agent.uid == 0 {
            let message = format!(
                "{} is the gate's own user or root: there is no boundary between agent and gate",
                agent.name
            );
            let remedy = Some(self.separates());
            return self.error("agent", &home, &message, remedy);
        }
        self.agent_cannot(&home, &agent);
        self.agent_can(&home, &agent);
    }

    /// Reports what an agent must not be able to do, but can.
    fn agent_cannot(&mut self, home: &Path, agent: &User) {
        if let Some(folder) = agent.can_move(home) {
            let remedy = Some(format!("chmod go-w {0} && chown root {0}", quoted(&folder)));
            let message = format!("{} can replace this home by another one", agent.name);
            self.error("agent", &folder, &message, remedy);
        }
        let folders = FOLDERS
            .iter()
            .map(|(folder, _)| *folder)
            .filter(|folder| *folder != "spool/in");
        let written = folders.chain([
            "",
            KEYRING_FILE,
            KEY_FILE,
            STATE_FILE,
            "rules/principals.yaml",
            "rules/safety.yaml",
        ]);
        for path in written.map(|below| home.join(below)) {
            if agent.can(&path, 2) {
                let remedy = Some(format!(
                    "chmod go-w {0} && chown {1} {0}",
                    quoted(&path),
                    self.owner()
                ));
                self.error(
                    "agent",
                    &path,
                    &format!("{} can write to it", agent.name),
                    remedy,
                );
            }
        }
        if agent.can(&home.join(KEYRING_FILE), 4) {
            let path = home.join(KEYRING_FILE);
            let remedy = Some(format!(
                "chmod 0600 {0} && chown {1} {0}",
                quoted(&path),
                self.owner()
            ));
            self.error(
                "agent",
                &path,
                &format!("{} can read the keys of the log", agent.name),
                remedy,
            );
        }
    }

    /// Reports what an agent must be able to do, but cannot.
    fn agent_can(&mut self, home: &Path, agent: &User) {
        let door = home.join("spool/in");
        let own = machine::below(&door, 2).filter(|path| path.ends_with("new"));
        let doors: Vec<PathBuf> = std::iter::once(door.clone()).chain(own).collect();
        if !doors.iter().any(|door| agent.can(door, 3)) {
            let remedy = self.separates();
            self.warn(
                "agent",
                &door,
                &format!("{} cannot drop a request anywhere", agent.name),
                Some(remedy),
            );
        }
        let out = home.join("spool/out");
        if !agent.can(&out, 5) {
            let remedy = format!(
                "chmod 0755 {} {} {}",
                quoted(home),
                quoted(&home.join("spool")),
                quoted(&out)
            );
            self.warn(
                "agent",
                &out,
                &format!("{} cannot read answers", agent.name),
                Some(remedy),
            );
        }
    }

    /// Checks for key files inside the home.
    pub(super) fn key_files(&mut self) {
        let home = self.home.clone();
        for path in machine::below(&home, KEY_FILE_DEPTH)
            .filter(|path| path.extension().is_some_and(|e| e == "key"))
            // The key to the keyring has a row of its own.
            .filter(|path| *path != home.join(KEY_FILE))
        {
            let Ok(found) = machine::owned(&path) else {
                continue;
            };
            if !found.kind.is_file() {
                continue;
            }
            let agent = self
                .agent
                .as_ref()
                .filter(|agent| Some(agent.uid) != self.gate && agent.uid != 0);
            if found.mode & 0o077 != 0 {
                let remedy = Some(format!("chmod 0600 {}", quoted(&path)));
                self.error(
                    "key-file",
                    &path,
                    &format!("mode {:o}: others can read this key", found.mode),
                    remedy,
                );
            } else if agent.is_some_and(|agent| agent.can(&path, 4)) {
                let message = "the agent can read it here: move it out of the home";
                self.note("key-file", &path, message, None);
            } else {
                self.note(
                    "key-file",
                    &path,
                    "a key belongs to the principal that signs with it: move it out of the home",
                    None,
                );
            }
        }
    }
}
