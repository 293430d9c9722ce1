//! `spoolgate submit`: the agent's side, files into the spool and answers out of it.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use spoolgate::home::HomeError;
use spoolgate::spool::name::FileName;
use spoolgate::wire::answer::Answer;
use spoolgate::wire::code::Exit;
use spoolgate::wire::envelope::Envelope;
use spoolgate::wire::ids::Principal;

use super::audit;
use super::output::Output;

/// Drop signed files into the spool, as an agent does.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  spoolgate submit r1.json r2.json\n  spoolgate submit r1.json --wait\n  spoolgate submit r1.json --agent trend-bot --wait 5\n  spoolgate submit r1.json --proof=r1.tlog-proof\n\nWith --wait the answers are printed, one JSON line each; the exit code is that of the first that is not a success."
)]
pub struct Args {
    /// Signed requests; `-` for standard input.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Use this agent's own spool directory instead of the flat spool.
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Wait for the answers, at most so many seconds.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "60")]
    wait: Option<u64>,
    /// Wait, and write the receipt of each answer's ledger line, beside its request or to FILE. Needs the audit
    /// folder.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    proof: Option<Option<PathBuf>>,
}

/// Seconds to wait where nothing else is said.
const WAIT_S: u64 = 60;

/// Which version of a file stands somewhere.
type Version = Option<(u64, i64, i64)>;

fn version(path: &Path) -> Version {
    fs::metadata(path).ok().map(|meta| (meta.ino(), meta.mtime(), meta.mtime_nsec()))
}

/// Whether a folder is there, as far as it may be seen. That the disk does not say is another matter.
fn is_folder(path: &Path) -> Result<bool> {
    use std::io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    match fs::metadata(path) {
        Ok(meta) => Ok(meta.is_dir()),
        Err(error) if matches!(error.kind(), NotFound | NotADirectory | PermissionDenied) => Ok(false),
        Err(error) => Err(HomeError::disk(path, error).into()),
    }
}

/// A file on its way.
struct Sent {
    answers: Vec<(PathBuf, Version)>,
    shown: String,
    /// Where its receipt goes.
    receipt: Option<PathBuf>,
}

/// Where the receipts go, a file each; none where none is wanted.
fn receipt_files(args: &Args) -> Result<Vec<Option<PathBuf>>> {
    let Some(named) = &args.proof else { return Ok(vec![None; args.files.len()]) };
    if let Some(named) = named {
        if args.files.len() > 1 {
            bail!(
                "--proof=FILE is for one request; with --proof alone, each receipt is written beside its request"
            );
        }
        return Ok(vec![Some(named.clone())]);
    }
    let beside = |file: &PathBuf| {
        if file == Path::new("-") {
            bail!("a request from standard input has nothing beside it; name a file with --proof=FILE");
        }
        Ok(Some(file.with_extension("tlog-proof")))
    };
    args.files.iter().map(beside).collect()
}

/// Runs the command.
pub fn run(home: &Path, args: &Args, output: &Output) -> Result<Exit> {
    let receipts = receipt_files(args)?;
    let agent = args.agent.as_deref().map(Principal::parse).transpose()?;
    let (tmp, dropped, out) = match &agent {
        Some(name) => {
            let own = home.join("spool/in").join(name.as_str());
            (own.join("tmp"), own.join("new"), home.join("spool/out").join(name.as_str()))
        }
        None => (home.join("spool/in"), home.join("spool/in"), home.join("spool/out")),
    };
    let is_there = is_folder(&dropped)?;
    if let Some(name) = agent.as_ref().filter(|_| !is_there && home.join("spool/in").is_dir()) {
        bail!(
            "`{name}` has no spool of its own at `{}`: with `spool: {name}` in rules/principals.yaml the gate makes it at its next start or look at the rules",
            dropped.display()
        );
    }
    if !is_there {
        bail!(
            "there is no spool at `{}`; run `spoolgate init` first, or name the home with --home",
            dropped.display()
        );
    }
    let mut sent = Vec::new();
    for (file, receipt) in args.files.iter().zip(receipts) {
        sent.push(Sent { receipt, ..drop_file(file, &tmp, &dropped, &out)? });
    }
    let Some(seconds) = args.wait.or(args.proof.as_ref().map(|_| WAIT_S)) else {
        if !output.is_json() {
            sent.iter().try_for_each(|sent| {
                output.line(&format!("submitted {}", super::output::plain(&sent.shown)))
            })?;
        }
        return Ok(Exit::Success);
    };
    collect(home, &sent, Instant::now() + Duration::from_secs(seconds), output)
}

fn drop_file(file: &Path, tmp: &Path, dropped: &Path, out: &Path) -> Result<Sent> {
    let bytes = super::handle::read_input(file)?;
    // What is no envelope goes in all the same, under its own name: the gate answers that too.
    // Names that no request may have, such as that of standard input, would leave nobody to answer to.
    let own_name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let own_stem = own_name.strip_suffix(".json").unwrap_or(&own_name).to_owned();
    let is_good = FileName::of(OsStr::new(&format!("{own_stem}.json"))).is_good;
    let own_stem = if is_good { own_stem } else { super::handover::random_name()? };
    let id = Envelope::parse(&bytes).ok().map(|envelope| envelope.id.to_string());
    let stem = id.clone().unwrap_or(own_stem);
    let hidden = tmp.join(format!(".{}.tmp", super::handover::random_name()?));
    let written = fs::File::create_new(&hidden).and_then(|mut copy| {
        copy.write_all(&bytes)?;
        // What is said to be submitted must survive a power cut, and not as an empty file.
        copy.sync_all()
    });
    written.map_err(|source| {
        // A part of a request is of no use to anybody.
        let _ = fs::remove_file(&hidden);
        HomeError::disk(&hidden, source)
    })?;
    let mut n = 0;
    loop {
        let name = if n == 0 { format!("{stem}.json") } else { format!("{stem}.{n}.json") };
        // The id's answer first: anybody can have junk under this file name refused.
        let by_id = id.as_ref().map(|id| out.join(format!("{id}.json")));
        let by_file = out.join(format!("{name}.error.json"));
        let answers = by_id.into_iter().chain([by_file]).map(|path| (path.clone(), version(&path))).collect();
        // A link fails where a rename would replace a request that waits under this name.
        match fs::hard_link(&hidden, dropped.join(&name)) {
            Ok(()) => {
                fs::remove_file(&hidden).map_err(|source| HomeError::disk(&hidden, source))?;
                sync_folder(dropped).map_err(|source| HomeError::disk(dropped, source))?;
                return Ok(Sent { answers, shown: name, receipt: None });
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => n += 1,
            Err(error) => {
                let _ = fs::remove_file(&hidden);
                return Err(HomeError::disk(&dropped.join(&name), error).into());
            }
        }
    }
}

/// Makes a name in a folder durable, where the folder may be read: one to drop into need not be.
fn sync_folder(folder: &Path) -> std::io::Result<()> {
    match fs::File::open(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Ok(()),
        other => other?.sync_all(),
    }
}

/// Waits for a new version of one of the answer files. Empty and half-written ones are not there yet.
fn collect(home: &Path, sent: &[Sent], deadline: Instant, output: &Output) -> Result<Exit> {
    let mut exit = Exit::Success;
    for sent in sent {
        let answer = loop {
            let fresh = sent.answers.iter().find(|(path, before)| {
                let now = version(path);
                now.is_some() && now != *before
            });
            let read = fresh.and_then(|(path, _)| fs::read(path).ok());
            if let Some(answer) = read.and_then(|bytes| serde_json::from_slice::<Answer>(&bytes).ok()) {
                break Some(answer);
            }
            if Instant::now() >= deadline {
                break None;
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let Some(answer) = answer else {
            output.remark(&format!(
                "no answer to `{}` in time; is a gate running? It may still be decided",
                sent.shown
            ));
            return Ok(Exit::WaitTimeout);
        };
        output.raw(&answer.to_bytes())?;
        let receipt = match &sent.receipt {
            Some(file) => audit::write_receipt(home, &answer.audit_ref, file, deadline, output),
            None => Exit::Success,
        };
        if exit == Exit::Success {
            exit = if answer.exit() == Exit::Success { receipt } else { answer.exit() };
        }
    }
    Ok(exit)
}
