//! A gate and agents that are other users, without making users on the machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Signal, geteuid, kill_process_group};
use spoolgate_host::sandbox::kernel_abi;

use super::{PROGRAM, show};

/// The gate's user and group, the group of all agents, and agents. No user of a machine has such
/// numbers.
pub(crate) const GATE: u32 = 64_900;
pub(crate) const DOOR: u32 = 64_910;
pub(crate) const TRADER: u32 = 64_901;
pub(crate) const FLOODER: u32 = 64_902;
pub(crate) const FILLER: u32 = 64_903;
pub(crate) const LINKER: u32 = 64_904;

/// What is needed and missing here, if anything.
pub(crate) fn missing() -> Option<&'static str> {
    let has_setpriv = Command::new("setpriv").arg("--version").output().is_ok();
    if !geteuid().is_root() {
        Some("only root can be several users")
    } else if kernel_abi() < 3 {
        Some("this kernel's Landlock is older than version 3")
    } else if !has_setpriv {
        Some("there is no setpriv")
    } else {
        None
    }
}

/// Returns how a user starts a shell script in a folder.
pub(crate) fn as_user(user: u32, script: &str, folder: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args([
        &format!("--reuid={user}"),
        &format!("--regid={user}"),
        &format!("--groups={DOOR}"),
        "sh",
        "-c",
        script,
    ]);
    command.current_dir(folder);
    command
}

/// A process group that does not outlive its test.
pub(crate) struct Group(pub Child);

impl Group {
    pub(crate) fn start(mut command: Command) -> Group {
        use std::os::unix::process::CommandExt;
        command.stdin(Stdio::null()).process_group(0);
        Group(command.spawn().unwrap())
    }

    fn kill(&self) {
        let id = rustix::process::Pid::from_child(&self.0);
        let _ = kill_process_group(id, Signal::KILL);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
        let _ = self.0.wait();
    }
}

/// A small file system in memory that ends with its test.
pub(crate) struct Mount(pub PathBuf);

impl Mount {
    pub(crate) fn new(at: PathBuf, bytes: u64) -> Option<Mount> {
        fs::create_dir(&at).unwrap();
        let size = format!("size={bytes},mode=0755");
        let done = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(&at)
            .output()
            .unwrap();
        if !done.status.success() {
            eprintln!("skipped: {}", show(&done));
            return None;
        }
        Some(Mount(at))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).output();
    }
}

/// Copies a home, and gives the copy the owners and modes of deploy/users.sh.
pub(crate) fn settle(from: &Path, home: &Path) {
    let sh = |script: &str, args: &[&Path]| {
        let done = Command::new("sh")
            .args(["-ec", script, "sh"])
            .args(args)
            .output()
            .unwrap();
        assert!(done.status.success(), "{script}: {}", show(&done));
    };
    sh("cp -a \"$1\" \"$2\"", &[from, home]);
    let modes = format!(
        "cd \"$1\"; chown -hR {GATE}:{GATE} .; chmod -R go-w .; chmod 0755 . rules spool spool/out
         chmod 0700 state audit spool/local spool/work spool/rejected
         chgrp {DOOR} spool/in; chmod 3770 spool/in"
    );
    sh(&modes, &[home]);
}

/// Returns the command of a watcher as the unit starts it.
pub(crate) fn watch(home: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command
        .args([
            &format!("--reuid={GATE}"),
            &format!("--regid={GATE}"),
            &format!("--groups={DOOR}"),
            "--no-new-privs",
            PROGRAM,
            "--home",
        ])
        .arg(home)
        .args(["watch", "--sandbox", "require"])
        .current_dir("/")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}
