//! A log that cannot be read is not called damaged: every call of the disk fails in turn.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::kit::campaign;
use crate::kit::kept::Then;
use crate::kit::layered::Layered;
use crate::kit::users::{FILLER, as_user, missing};
use crate::kit::{PROGRAM, Scratch, show};
use spoolgate_gate::record::canonical;
use spoolgate_host::real_disk::RealDisk;
use spoolgate_ledger::disk::Disk;
use spoolgate_ledger::verify::{self, Options};

/// EIO, ENOMEM, EMFILE and EACCES.
const ERRORS: [i32; 4] = [5, 12, 24, 13];

#[test]
fn an_error_of_the_disk_is_never_a_problem_of_the_log() {
    for (name, threads) in [("full", 1), ("full", 2), ("pruned", 1)] {
        let kept = Then::V2.home(name);
        let plain: Arc<dyn Disk> = Arc::new(RealDisk::open(&kept.path("audit")).unwrap());
        let options = Options {
            strict: Some(canonical),
            threads,
            ..Options::default()
        };
        let verified = |disk: &Layered| verify::verify(disk, Path::new(""), &options, &|_| {});
        let calls = Arc::new(AtomicI64::new(0));
        let counts = Arc::clone(&calls);
        let counting = Layered::before(plain.clone(), move |_| {
            counts.fetch_add(1, Ordering::SeqCst);
            Ok(())
        })
        .with_reads();
        assert!(verified(&counting).unwrap().ok, "{name}");
        let calls = calls.load(Ordering::SeqCst);
        assert!(calls > 20, "{name}: {calls}");
        let mut failed = 0;
        for at in (0..calls).step_by(campaign(4, 1)) {
            for error in ERRORS {
                let left = AtomicI64::new(at);
                let failing = Layered::before(plain.clone(), move |_| {
                    if left.fetch_sub(1, Ordering::SeqCst) == 0 {
                        Err(io::Error::from_raw_os_error(error))
                    } else {
                        Ok(())
                    }
                })
                .with_reads();
                match verified(&failing) {
                    Ok(report) => assert!(
                        report.ok,
                        "{name}, call {at}, {error}: {:?}",
                        report.problems
                    ),
                    Err(_) => failed += 1,
                }
            }
        }
        assert!(failed > calls / 4, "{name}: {failed} of {calls} calls");
    }
}

#[test]
fn a_folder_that_may_not_be_read_is_no_mistake_on_the_command_line() {
    if let Some(what) = missing() {
        eprintln!("skipped: {what}");
        return;
    }
    let scratch = Scratch::new();
    let closed = scratch.beside("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(closed.parent().unwrap(), Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&closed, Permissions::from_mode(0o000)).unwrap();
    for (folder, exit) in [(closed, 6), (scratch.beside("missing"), 2)] {
        let verify = format!("exec {PROGRAM} audit verify {}", folder.display());
        let done = as_user(FILLER, &verify, Path::new("/")).output().unwrap();
        assert_eq!(done.status.code(), Some(exit), "{}", show(&done));
    }
}
