//! A disk of its own: an ext4 image in memory, mounted through a loop device, whose power can be
//! cut.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use crate::kit::show;

/// What the journal has when the power is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// Only what was committed.
    Plain,
    /// Every change of names and sizes, but not all data: files exist and are empty.
    NamesSurvive,
}

/// `EXT4_IOC_SHUTDOWN`: afterwards nothing reaches the disk. This crate may not use unsafe code, so
/// Python calls it.
const SHUTDOWN: &str = "
import fcntl, os, struct, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
print('ready', flush=True)
sys.stdin.readline()
fcntl.ioctl(fd, (2 << 30) | (4 << 16) | (ord('X') << 8) | 125, struct.pack('I', int(sys.argv[2])))
print('cut', flush=True)
";

fn run(program: &str, args: &[&str]) -> Result<(), String> {
    let done: Output = Command::new(program)
        .args(args)
        .output()
        .map_err(|error| format!("{program}: {error}"))?;
    if done.status.success() {
        Ok(())
    } else {
        Err(format!("{program} {args:?}: {}", show(&done)))
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A mounted image. Dropping it unmounts it, whatever happened; the kernel then frees the loop
/// device.
pub(super) struct Disk {
    image: PathBuf,
    at: PathBuf,
    is_mounted: bool,
}

impl Disk {
    /// Makes an empty file system in `folder`.
    ///
    /// Why there cannot be one here.
    pub(super) fn format(folder: &Path) -> Result<Disk, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("only root mounts images".to_owned());
        }
        run("python3", &["-c", "import fcntl"])?;
        let (image, at) = (folder.join("disk.img"), folder.join("disk"));
        File::create(&image)
            .and_then(|file| file.set_len(64 << 20))
            .map_err(|error| error.to_string())?;
        run(
            "mkfs.ext4",
            &["-q", "-F", "-E", "lazy_itable_init=1", text(&image)],
        )?;
        fs::create_dir(&at).map_err(|error| error.to_string())?;
        let mut disk = Disk {
            image,
            at,
            is_mounted: false,
        };
        disk.mount("defaults")?;
        Ok(disk)
    }

    /// Copies an unmounted image to `folder`.
    pub(super) fn copy_to(&self, folder: &Path) -> Disk {
        assert!(!self.is_mounted);
        let (image, at) = (folder.join("disk.img"), folder.join("disk"));
        run("cp", &["--sparse=always", text(&self.image), text(&image)]).unwrap();
        fs::create_dir_all(&at).unwrap();
        Disk {
            image,
            at,
            is_mounted: false,
        }
    }

    /// Returns the mount point.
    pub(super) fn path(&self) -> &Path {
        &self.at
    }

    /// Mounts the image, which replays its journal.
    ///
    /// The message of the system.
    pub(super) fn mount(&mut self, options: &str) -> Result<(), String> {
        run(
            "mount",
            &[
                "-t",
                "ext4",
                "-o",
                &format!("loop,{options}"),
                text(&self.image),
                text(&self.at),
            ],
        )?;
        self.is_mounted = true;
        Ok(())
    }

    /// Unmounts the image.
    pub(super) fn unmount(&mut self) {
        // A process that was killed may take a moment to release its files.
        for _ in 0..200 {
            if run("umount", &[text(&self.at)]).is_ok() {
                self.is_mounted = false;
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("{} cannot be unmounted", self.at.display());
    }

    /// Returns a switch for the power.
    pub(super) fn switch(&self, cut: Cut) -> Switch {
        let flag = match cut {
            Cut::NamesSurvive => "1",
            Cut::Plain => "2",
        };
        let mut child = Command::new("python3")
            .args(["-c", SHUTDOWN, text(&self.at), flag])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut says = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        says.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Switch { child, says }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.is_mounted {
            // Also if a process still uses it.
            let _ = run("umount", &["-l", text(&self.at)]);
        }
    }
}

/// Cuts the power on demand.
pub(super) struct Switch {
    child: Child,
    says: BufReader<std::process::ChildStdout>,
}

impl Switch {
    /// Cuts the power.
    pub(super) fn cut(mut self) {
        self.child.stdin.take().unwrap().write_all(b"\n").unwrap();
        let mut line = String::new();
        self.says.read_line(&mut line).unwrap();
        assert_eq!(line, "cut\n");
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
