//! `spoolgate watch`: decide requests as they come.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Result, bail};
use rustix::fs::statfs;
use spoolgate::host::socket::{Limits, Socket, SocketError};
use spoolgate::spool::watch::Hints;
use spoolgate::wire::code::Exit;

use super::output::Output;
use super::run as drain;

/// Decide requests as they come, until stopped.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  spoolgate watch\n  spoolgate watch --socket gate.sock\n  spoolgate --home /srv/gate --format json watch | jq -c 'select(.status != \"success\")'\n\nSIGTERM and SIGINT stop it between two batches, SIGHUP has it take changed rule files at once. Exit code 7: another gate is running over this home."
)]
pub struct Args {
    /// Watch a home on a network file system all the same, by looking once a second.
    #[arg(long)]
    allow_remote_fs: bool,
    /// Take requests as frames through this Unix socket too; it is made, and removed at the end.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Give up the rest of the file system after the start: where that can be had, by all means, or not at all.
    #[arg(long, value_enum, default_value = "auto")]
    #[allow(dead_code, reason = "filled next")]
    sandbox: Sandbox,
    #[command(flatten)]
    batches: drain::Batches,
}

/// How far the watcher insists on its sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Sandbox {
    /// Where the kernel has one.
    Auto,
    /// No start without.
    Require,
    /// None.
    Off,
}

/// Magic numbers of file systems that have no events for what others do, and whose locks and syncs promise
/// less (statfs(2)): NFS, SMB, CIFS, SMB2, 9P, FUSE, AFS, Ceph.
const REMOTE: [(i64, &str); 8] = [
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB2"),
    (0x0102_1997, "9P"),
    (0x6573_5546, "FUSE"),
    (0x5346_414f, "AFS"),
    (0x00c3_6400, "Ceph"),
];

/// Runs the command.
pub fn run(home: &Path, args: &Args, output: &Output) -> Result<Exit> {
    let magic = statfs(home).map(|found| found.f_type & 0xffff_ffff);
    let remote = REMOTE.iter().find(|(number, _)| magic == Ok(*number));
    if let Some((_, name)) = remote.filter(|_| !args.allow_remote_fs) {
        bail!(
            "`{}` is on {name}: events, locks and syncs promise less there; --allow-remote-fs watches it all the same",
            home.display()
        );
    }
    let stop = drain::stop_on_signals()?;
    let mut open = drain::open(home, output)?;
    args.batches.limit(&mut open);
    let reload = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGHUP, Arc::clone(&reload))?;
    open.reload_on(reload);
    let mut hints = Hints::start();
    let format = output.format;
    if let Some(path) = &args.socket {
        let mut socket = match Socket::bind(path, Limits::default()) {
            Ok(socket) => socket,
            Err(error @ SocketError::InUse { .. }) => {
                output.remark(&error.to_string());
                return Ok(Exit::Busy);
            }
            Err(error) => return Err(error.into()),
        };
        let waker = hints.waker();
        socket.serve(move || waker.wake())?;
        open.listen_on(socket);
        output.remark(&format!("listening on {}", path.display()));
    }
    hints.tell_warnings(Box::new(move |warning| Output::new(format).remark(warning)));
    output.remark(&format!("watching {}", home.join("spool/in").display()));
    let mut printing = Ok(());
    open.watch(&mut hints, &stop, &mut |outcomes| {
        // The gate goes on without whoever read its output.
        if printing.is_ok() {
            printing = drain::report(output, outcomes);
        }
    })?;
    Ok(Exit::Success)
}
