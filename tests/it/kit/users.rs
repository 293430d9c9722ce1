//! A gate and agents that are other users, without making users on the machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Signal, geteuid, kill_process_group};
use spoolgate_host::clock::{Clock, SystemClock};
use spoolgate_host::sandbox::kernel_abi;

use super::prepared::edit;
use super::process::answered;
use super::{PROGRAM, Scratch, decisions, show, succeed};

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

/// A small file system that ends with its test: in memory, or on an image with `SPOOLGATE_DISK=ext4`.
pub(crate) struct Mount(pub PathBuf);

impl Mount {
    pub(crate) fn new(at: PathBuf, bytes: u64) -> Option<Mount> {
        let is_ext4 = std::env::var("SPOOLGATE_DISK").is_ok_and(|kind| kind == "ext4");
        Mount::of(at, bytes, is_ext4)
    }

    /// Mounts an ext4 image, or a file system in memory; `None` where that is not allowed.
    pub(crate) fn of(at: PathBuf, bytes: u64, is_ext4: bool) -> Option<Mount> {
        fs::create_dir(&at).unwrap();
        let script = match is_ext4 {
            true => {
                "truncate -s \"$2\" \"$1.img\"; mkfs.ext4 -q -F -m 0 \"$1.img\"
                 mount -o loop \"$1.img\" \"$1\"; rmdir \"$1/lost+found\"; chmod 0755 \"$1\""
            }
            false => "mount -t tmpfs -o \"size=$2,mode=0755\" tmpfs \"$1\"",
        };
        let done = Command::new("sh")
            .args(["-ec", script, "sh"])
            .arg(&at)
            .arg(bytes.to_string())
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
         chgrp {DOOR} spool/in; chmod 3730 spool/in"
    );
    sh(&modes, &[home]);
}

/// The file beside the disk of a home to which its watchers write what they say.
pub(crate) fn said_by_watchers(home: &Path) -> PathBuf {
    home.parent().unwrap().with_file_name("watchers")
}

/// Returns the command of a watcher as the unit starts it.
pub(crate) fn watch(home: &Path) -> Command {
    let mut said = fs::File::options();
    said.append(true).create(true);
    let said = said.open(said_by_watchers(home)).unwrap();
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
        .stderr(said);
    command
}

/// Gives the strategy a long position of 4 BTC, so that it can be sold in two thousand parts.
pub(crate) fn take_position(scratch: &Scratch) {
    let home = scratch.home();
    edit(&home.join("rules/safety.yaml"), |text| {
        let mut text = text.replace("quote_age_floor_s: 120 ", "quote_age_floor_s: 500000 ");
        for (key, value) in [
            ("max_total_capital", "1000000"),
            ("max_order_value", "100000"),
            ("max_daily_loss", "100000"),
            ("max_weekly_loss", "100000"),
        ] {
            let line = text
                .lines()
                .find(|line| line.starts_with(&format!("{key}:")))
                .unwrap()
                .to_owned();
            text = text.replace(&line, &format!("{key}: {value}"));
        }
        text
    });
    // Bars of a second fill the entry without waiting for a minute.
    edit(&home.join("rules/instruments.yaml"), |text| {
        text.replacen("bar_s: 60", "bar_s: 1", 1)
    });
    succeed(
        &home,
        &["account", "deposit", "1000000", "--reason", "chaos"],
    );
    let entry = r#"{"strategy":"trend","symbol":"BTC-USD","side":"buy","order_type":"market","planned_entry":"6790","planned_stop":"6600","stop_price":"6600","size":"4","thesis_slug":"btc-dip-long"}"#;
    fs::write(
        home.join("spool/in/entry.json"),
        scratch.request("entry", "order.submit", entry),
    )
    .unwrap();
    succeed(&home, &["run", "--until-idle"]);
    let entered = answered(&home, "entry.json");
    assert_eq!(entered["status"], "success", "{entered}");
    std::thread::sleep(Duration::from_millis(1100));
    let now = SystemClock::default().now();
    let bars = scratch.beside("bars.csv");
    let text = format!("time,open,high,low,close,volume\n{now},6784,6785,6783,6784,100\n");
    fs::write(&bars, text).unwrap();
    std::thread::sleep(Duration::from_millis(1100));
    let bars = bars.to_str().unwrap();
    let args = [
        "market",
        "import",
        bars,
        "--symbol",
        "BTC-USD",
        "--interval",
        "1s",
    ];
    let told = succeed(&home, &args);
    assert!(told.contains(" 1 fills"), "{told}");
}

/// Leaves an order of the strategy that does not fill, and returns its id.
pub(crate) fn rest_an_order(scratch: &Scratch) -> String {
    let home = scratch.home();
    let entry = r#"{"strategy":"trend","symbol":"BTC-USD","side":"buy","order_type":"limit","price":"6740","planned_entry":"6740","planned_stop":"6600","stop_price":"6600","size":"0.002","thesis_slug":"btc-range-long"}"#;
    let request = scratch.request("rest", "order.submit", entry);
    fs::write(home.join("spool/in/rest.json"), request).unwrap();
    succeed(&home, &["run", "--until-idle"]);
    let decided = decisions(&home).unwrap();
    let answer = answered(&home, "rest.json");
    assert_eq!(answer["status"], "success", "{answer}");
    let mut rests = decided
        .values()
        .filter(|line| line.request_id.as_deref() == Some("rest"));
    rests.next().unwrap().order_id.unwrap().to_string()
}
