//! `spoolgate watch`: decides requests as they come.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Result, bail};
use spoolgate_home::Home;
use spoolgate_host::doctor;
use spoolgate_host::sandbox::{Boxed, Keep, SandboxError};
use spoolgate_host::socket::{Limits, Socket, SocketError};
use spoolgate_host::spool::watch::Hints;
use spoolgate_wire::code::Exit;

use super::output::{Output, plain_json};
use super::run as drain;

/// Decide requests as they come, until stopped.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  spoolgate watch\n  spoolgate watch --socket gate.sock\n  spoolgate \
        watch --sandbox require --allow-write /var/mail/gate\n  spoolgate --home /srv/gate \
        --format json watch | jq -c 'select(.status != \"success\")'\n\nSIGTERM and SIGINT stop \
        it between two batches, SIGHUP makes it load changed rule files at once. Exit code 7: \
        another gate is running over this home."
)]
pub(super) struct Args {
    /// Watch a home on a network file system anyway, by looking once per second.
    #[arg(long)]
    allow_remote_fs: bool,
    /// Take requests as frames on this Unix socket too; it is created, and removed at the end.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Give up access to the rest of the file system after the start: `auto` if the kernel supports
    /// it, `require` always, `off` never.
    #[arg(long, value_enum, default_value = "auto")]
    sandbox: Sandbox,
    /// A folder or file that programs of the rules read; it stays readable in the sandbox. May be
    /// repeated.
    #[arg(long, value_name = "PATH")]
    allow_read: Vec<PathBuf>,
    /// A folder that programs of the rules write to; it stays writable in the sandbox. May be
    /// repeated.
    #[arg(long, value_name = "DIR")]
    allow_write: Vec<PathBuf>,
    #[command(flatten)]
    batches: drain::Batches,
}

/// Whether the watcher uses and needs a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Sandbox {
    /// Use one if the kernel supports it.
    Auto,
    /// Do not start without one.
    Require,
    /// Use none.
    Off,
}

/// Runs the command.
pub(super) fn run(home: &Path, args: &Args, output: &Output) -> Result<Exit> {
    if let Some(name) = doctor::remote(home).filter(|_| !args.allow_remote_fs) {
        bail!(
            "`{}` is on {name}, where events, locks and syncs are less reliable; --allow-remote-fs \
                watches it all the same",
            home.display()
        );
    }
    let stop = drain::stop_on_signals()?;
    let mut open = drain::open(home, output)?;
    args.batches.limit(&mut open);
    let reload = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGHUP, Arc::clone(&reload))?;
    open.reload_on(reload);
    let format = output.format;
    let socket = match args
        .socket
        .as_ref()
        .map(|path| Socket::bind(path, Limits::default()))
    {
        Some(Err(error @ SocketError::InUse { .. })) => {
            output.remark(&error.to_string());
            return Ok(Exit::Busy);
        }
        bound => bound.transpose()?,
    };
    // Before any thread is started, because a running thread would keep its access.
    let told = give_up_the_rest(&mut open, args, output)?;
    let mut hints = Hints::start();
    if let (Some(mut socket), Some(path)) = (socket, &args.socket) {
        let waker = hints.waker();
        socket.serve(move || waker.wake())?;
        open.listen_on(socket);
        output.remark(&format!("listening on {}", path.display()));
    }
    hints.tell_warnings(Box::new(move |warning| Output::new(format).remark(warning)));
    output.remark(&format!("watching {}", home.join("spool/in").display()));
    told.iter().for_each(|told| output.remark(told));
    let mut printing = Ok(());
    open.watch(&mut hints, &stop, &mut |outcomes| {
        // The gate continues even if the reader of its output is gone.
        if printing.is_ok() {
            printing = drain::report(output, outcomes);
        }
    })?;
    Ok(Exit::Success)
}

/// Enters the sandbox as requested, and returns the remarks to print.
fn give_up_the_rest(open: &mut Home, args: &Args, output: &Output) -> Result<Vec<String>> {
    let insist = match args.sandbox {
        Sandbox::Off if args.allow_read.is_empty() && args.allow_write.is_empty() => {
            return Ok(Vec::new());
        }
        Sandbox::Off => {
            bail!("--allow-read and --allow-write need a sandbox; leave out --sandbox off");
        }
        Sandbox::Auto => false,
        Sandbox::Require => true,
    };
    let keep = Keep {
        read: args.allow_read.clone(),
        write: args.allow_write.clone(),
        named: Vec::new(),
        socket: args.socket.clone(),
    };
    match open.enter_sandbox(keep, insist) {
        Ok(boxed) if output.is_json() => Ok(vec![sandbox_as_json(boxed)]),
        Ok(boxed) => Ok(sandbox_in_words(boxed)),
        Err(SandboxError::Unsupported(abi)) if !insist => {
            let note = "no sandbox: this kernel lacks the Landlock support that the gate needs";
            let json = serde_json::json!({"sandbox": {"on": false, "abi": abi, "note": note}});
            Ok(vec![if output.is_json() {
                json.to_string()
            } else {
                format!("{note} (version {abi})")
            }])
        }
        Err(error) => Err(error.into()),
    }
}

fn sandbox_as_json(boxed: &Boxed) -> String {
    let told = serde_json::json!({"sandbox": {
        "on": true, "abi": boxed.abi, "writes": boxed.written, "reads": boxed.read,
        "not_taken": boxed.not_taken,
    }});
    // Escape here as JSON does: a remark would escape in its own way and break the JSON.
    plain_json(&told.to_string())
}

fn sandbox_in_words(boxed: &Boxed) -> Vec<String> {
    let list = |paths: &BTreeSet<PathBuf>| -> String {
        paths
            .iter()
            .map(|path| path.display().to_string())
            .collect::<Vec<_>>()
            .join(", ")
    };
    let reads = match list(&boxed.read) {
        paths if paths.is_empty() => String::new(),
        paths => format!(", reads {paths}"),
    };
    let mut told = vec![format!(
        "sandbox (Landlock {}): writes {}{reads}, runs the system's programs, and has no other \
            access",
        boxed.abi,
        list(&boxed.written)
    )];
    if !boxed.not_taken.is_empty() {
        told.push(format!(
            "this kernel cannot restrict: {}",
            boxed.not_taken.join("; ")
        ));
    }
    told
}
