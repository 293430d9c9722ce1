//! `spoolgate bridge test`: plays a gate and an exchange against a bridge, and says what it does
//! wrong.

mod cases;
mod exchange;
mod gate;
mod reports;
mod rig;
mod trace;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use spoolgate_client::random_name;
use spoolgate_wire::code::Exit;

use super::output::{Output, plain};
use cases::{CASES, Case};
use rig::Rig;
use trace::Failure;

/// Programs between the gate and an exchange.
#[derive(clap::Subcommand)]
pub(super) enum Command {
    /// Test a bridge against an imitated gate and exchange.
    Test(Args),
}

/// Test a bridge against an imitated gate and exchange.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  spoolgate bridge test --list\n  spoolgate bridge test python3 \
        my_bridge.py\n  spoolgate bridge test --only sigkill --only base-fee --patience 20 \
        ./my-bridge --verbose\n  spoolgate --format json bridge test ./my-bridge | jq -r \
        'select(.ok|not).case'\n\nEach case starts `CMD --home H --key K --state S --venue \
        mock:SOCKET` in a scratch home. It needs no network,\nno running gate and no home. \
        Options of the suite go before CMD. What a failed case has written is kept.\n\nExit \
        codes: 0 every case passes, 1 one fails, 2 CMD does not start or a name is unknown."
)]
pub(super) struct Args {
    /// Play this case only; may be given several times.
    #[arg(long, value_name = "CASE")]
    only: Vec<String>,
    /// List the cases and what is due in each.
    #[arg(long)]
    list: bool,
    /// Number of cases that are played at a time.
    #[arg(long, value_name = "N", default_value_t = 2,
        value_parser = clap::value_parser!(u8).range(1..=64))]
    jobs: u8,
    /// How long the bridge may take for each step of a case, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 10,
        value_parser = clap::value_parser!(u64).range(1..=3600))]
    patience: u64,
    /// The bridge and its own arguments.
    #[arg(value_name = "CMD", required_unless_present = "list", trailing_var_arg = true,
        allow_hyphen_values = true, value_hint = clap::ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

/// How a case ended.
struct Played {
    /// Its place in the table.
    at: usize,
    case: &'static Case,
    failure: Option<Failure>,
    folder: PathBuf,
    took: Duration,
}

/// Runs the command.
pub(super) fn run(command: &Command, output: &Output) -> Result<Exit> {
    let Command::Test(args) = command;
    if args.list {
        return list(output);
    }
    let unknown = |name: &&String| CASES.iter().all(|case| case.name != name.as_str());
    if let Some(name) = args.only.iter().find(unknown) {
        bail!("there is no case `{name}`; `spoolgate bridge test --list` lists them");
    }
    let is_meant =
        |case: &&Case| args.only.is_empty() || args.only.iter().any(|name| name == case.name);
    let meant: Vec<&'static Case> = CASES.iter().filter(is_meant).collect();
    let is_stopped = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        flag::register(signal, Arc::clone(&is_stopped))?;
    }
    let name: String = random_name()?.chars().take(8).collect();
    // Socket paths are short.
    let scratch = std::env::temp_dir().join(format!("bridge-test-{name}"));
    fs::create_dir(&scratch).with_context(|| format!("`{}`", scratch.display()))?;
    try_start(args, &scratch, &is_stopped)?;
    let failed = play(args, &meant, &scratch, &is_stopped, output)?;
    // Kept while it holds what a case has left.
    let _ = fs::remove_dir(&scratch);
    if is_stopped.load(Ordering::Relaxed) {
        bail!("stopped by a signal");
    }
    if !output.is_json() {
        output.line(&format!("\n{} cases, {failed} failed", meant.len()))?;
    }
    Ok(match failed {
        0 => Exit::Success,
        _ => Exit::Refused,
    })
}

fn list(output: &Output) -> Result<Exit> {
    if output.is_json() {
        for case in &CASES {
            output.json(&json!({"case": case.name, "due": case.due}))?;
        }
        return Ok(Exit::Success);
    }
    let rows: Vec<Vec<String>> = CASES
        .iter()
        .map(|case| vec![case.name.to_owned(), case.due.to_owned()])
        .collect();
    output.table(&["case", "due"], &[], &rows)?;
    Ok(Exit::Success)
}

/// Starts the bridge once, so that a program that is not a bridge does not fail case by case.
fn try_start(args: &Args, scratch: &Path, is_stopped: &AtomicBool) -> Result<()> {
    let root = scratch.join("start");
    let mut rig = Rig::make(
        &args.command,
        &root,
        Duration::from_secs(args.patience),
        is_stopped,
    )?;
    let started = rig.start().and_then(|()| rig.first_sign());
    drop(rig);
    match started {
        Ok(()) => Ok(fs::remove_dir_all(root)?),
        Err(why) => {
            let words: Vec<_> = args.command.iter().map(|it| it.to_string_lossy()).collect();
            let (words, kept) = (words.join(" "), root.display());
            bail!("`{words}` does not start: {} ({kept} is kept)", why.seen)
        }
    }
}

/// Plays the cases, and prints each as soon as those before it are printed. Returns how many fail.
fn play(
    args: &Args,
    cases: &[&'static Case],
    scratch: &Path,
    is_stopped: &AtomicBool,
    output: &Output,
) -> Result<usize> {
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..args.jobs {
            let sender = sender.clone();
            scope.spawn(|| {
                let sender = sender;
                while !is_stopped.load(Ordering::Relaxed)
                    && let at = next.fetch_add(1, Ordering::Relaxed)
                    && let Some(case) = cases.get(at)
                {
                    let played = play_one(args, at, case, scratch, is_stopped);
                    if sender.send(played).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let (mut ready, mut printed, mut failed) = (Vec::new(), 0_usize, 0_usize);
        while let Ok(played) = receiver.recv() {
            // A case that was cut off has no result.
            if is_stopped.load(Ordering::Relaxed) {
                continue;
            }
            ready.push(played);
            while let Some(at) = ready.iter().position(|it: &Played| it.at == printed) {
                let played = ready.swap_remove(at);
                failed = failed.saturating_add(usize::from(played.failure.is_some()));
                printed = printed.saturating_add(1);
                if let Err(error) = print(&played, output) {
                    is_stopped.store(true, Ordering::Relaxed);
                    return Err(error);
                }
            }
        }
        Ok(failed)
    })
}

fn play_one(
    args: &Args,
    at: usize,
    case: &'static Case,
    scratch: &Path,
    is_stopped: &AtomicBool,
) -> Played {
    let (start, folder) = (Instant::now(), scratch.join(case.name));
    let patience = Duration::from_secs(args.patience);
    let outcome = match Rig::make(&args.command, &folder, patience, is_stopped) {
        Err(error) => Err(rig::failure(
            "the suite can make a scratch home",
            &error.to_string(),
        )),
        Ok(mut rig) => rig
            .start()
            .and_then(|()| (case.run)(&mut rig))
            .and_then(|()| rig.settle()),
    };
    if outcome.is_ok() || is_stopped.load(Ordering::Relaxed) {
        // What cannot be removed is only clutter.
        let _ = fs::remove_dir_all(&folder);
    }
    Played {
        at,
        case,
        failure: outcome.err(),
        folder,
        took: start.elapsed(),
    }
}

fn print(played: &Played, output: &Output) -> Result<()> {
    let (case, failure) = (played.case, played.failure.as_ref());
    if output.is_json() {
        return output.json(&json!({
            "case": case.name,
            "ok": failure.is_none(),
            "due": failure.map(|it| &it.due),
            "seen": failure.map(|it| &it.seen),
            "kept": failure.map(|_| &played.folder),
            "ms": played.took.as_millis(),
        }));
    }
    let widest = CASES.iter().map(|case| case.name.len()).max();
    let width = widest.unwrap_or_default();
    let (took, name) = (played.took, case.name);
    let (secs, tenths) = (took.as_secs(), took.subsec_millis() / 100);
    let word = if failure.is_some() { "FAIL" } else { "ok" };
    output.line(&format!("{word:<4}  {name:<width$}  {secs:>3}.{tenths} s"))?;
    if let Some(failure) = failure {
        output.line(&plain(&format!("        due   {}", failure.due)))?;
        output.line(&plain(&format!("        seen  {}", failure.seen)))?;
        let kept = played.folder.display();
        output.line(&plain(&format!("        kept  {kept}")))?;
    }
    Ok(())
}
