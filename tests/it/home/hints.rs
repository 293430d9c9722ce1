//! Folders that are replaced under the watcher: the gate watches the new folder before a file is
//! put into it, so that the first file does not wait for a heartbeat.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use spoolgate_host::real_disk::RealDisk;
use spoolgate_host::spool::scan::Scanner;
use spoolgate_host::spool::watch::Hints;
use spoolgate_wire::ids::Principal;

/// Much longer than an event takes on a busy machine.
const LONG: Duration = Duration::from_secs(20);
/// How long nothing must happen before it counts as quiet.
const QUIET: Duration = Duration::from_millis(200);

struct Watching {
    root: tempfile::TempDir,
    disk: RealDisk,
    scanner: Scanner,
    hints: Hints,
}

impl Watching {
    fn new() -> Watching {
        let root = crate::kit::folder();
        for folder in ["in/bot/new", "local/in"] {
            fs::create_dir_all(root.path().join("spool").join(folder)).unwrap();
        }
        let disk = RealDisk::open(root.path()).unwrap();
        let mut scanner = Scanner::default();
        scanner.set_spools(
            None,
            [(&Principal::parse("bot").unwrap(), None)].into_iter(),
        );
        Watching {
            root,
            disk,
            scanner,
            hints: Hints::start(),
        }
    }

    fn spool(&self) -> std::path::PathBuf {
        self.root.path().join("spool")
    }

    /// Does what the loop does between two waits, until no more events come.
    fn settle(&mut self) {
        for _ in 0..1000 {
            while self.hints.arm(
                self.root.path(),
                &self.disk,
                self.scanner.folders().into_iter(),
            ) {}
            let start = Instant::now();
            self.hints.wait(QUIET);
            if start.elapsed() >= QUIET {
                return;
            }
        }
        panic!("the watcher wakes itself");
    }

    fn assert_wakes(&mut self, what: &str) {
        let start = Instant::now();
        self.hints.wait(LONG);
        assert!(
            start.elapsed() < LONG / 2,
            "{what} waited for the heartbeat"
        );
        self.settle();
    }
}

fn replaced(moved: &str, made: &[&str], into: &str) {
    let mut watching = Watching::new();
    if let Some(warning) = &watching.hints.warning {
        eprintln!("skipped: {warning}");
        return;
    }
    watching.settle();
    let spool = watching.spool();
    fs::rename(spool.join(moved), spool.join("away")).unwrap();
    // The loop may run once while nothing is there.
    watching.settle();
    for folder in made {
        fs::create_dir(spool.join(folder)).unwrap();
        watching.assert_wakes(&format!("the new {folder}"));
    }
    let file = |dir: &Path| fs::write(dir.join("r.json"), "{}").unwrap();
    file(&spool.join(into));
    watching.assert_wakes(&format!("the first file in {into}"));
}

#[test]
fn the_flat_spool_is_replaced() {
    replaced("in", &["in"], "in");
}

#[test]
fn the_flat_spool_is_replaced_with_an_agents_in_it() {
    replaced("in", &["in", "in/bot", "in/bot/new"], "in/bot/new");
}

#[test]
fn an_agents_spool_is_replaced() {
    replaced("in/bot", &["in/bot", "in/bot/new"], "in/bot/new");
    replaced("in/bot/new", &["in/bot/new"], "in/bot/new");
}

#[test]
fn the_folder_of_commands_is_replaced() {
    replaced("local/in", &["local/in"], "local/in");
}
