//! Requests over which the gate has died twice: a process of its own tries each before it is decided
//! again. Deaths by a kill, a power cut or a full disk prove nothing about a request; the end of
//! that process does.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::dry_run::{Asked, Trial, Tried};
use super::error::HomeError;
use super::open::{Home, Seams};
use super::parts::Outside;
use super::read;
use crate::index::fold::{Outstanding, fold};
use crate::index::{Store, StoreError};
use spoolgate_gate::record::Record;
use spoolgate_host::command::{self, Ended, Program, Run};
use spoolgate_host::keyring::SqliteKeyring;
use spoolgate_host::spool::claim::{self, Looked};
use spoolgate_host::spool::name::ClaimName;
use spoolgate_ledger::disk::Disk;
use spoolgate_ledger::{recover, segment};

/// The program itself, also if its file was replaced since it was started.
const SELF: &str = "/proc/self/exe";
/// How long a trial may take.
pub const TRIAL_TIME_MAX: Duration = Duration::from_secs(10);
/// From this attempt on, after eight deaths, a request that cannot be tried is refused.
const REFUSED_UNTRIED_FROM: u32 = 9;
/// How much of what a trial says last gets into the line, characters.
const WORDS_CHARS_MAX: usize = 300;
/// Length of a log that a trial reads from its first line, bytes.
const LOG_BYTES_SHORT: u64 = 16 * 1024 * 1024;
/// The exit code of a program that panicked.
const PANICKED: i32 = 101;

/// Result of a trial.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It ended by itself: the request is decided as any other.
    Survived,
    /// It died like this: the request is refused.
    Died(String),
    /// There was no trial, for this reason.
    Untried(String),
}

/// Tries a claim.
pub type Trier = Box<dyn Fn(&ClaimName) -> Verdict + Send>;

impl Home {
    /// Tries requests over which the gate has died twice before it decides them again. Without this,
    /// they are refused.
    pub fn try_suspects_with(&mut self, trier: Trier) {
        self.outside.trier = Some(trier);
    }
}

impl Outside {
    /// Tries a claim, and returns why it must be refused, if it must.
    pub(super) fn try_suspect(&self, claim: &ClaimName) -> Option<String> {
        let verdict = match &self.trier {
            Some(trier) => trier(claim),
            None => return Some("it cannot be tried".to_owned()),
        };
        match verdict {
            Verdict::Survived => None,
            Verdict::Died(how) => Some(format!("a trial of it {how}")),
            Verdict::Untried(why) => (claim.attempt >= REFUSED_UNTRIED_FROM)
                .then(|| format!("it could not be tried: {why}")),
        }
    }
}

/// Tries claims by `spoolgate suspect`, run from this program.
pub fn by_command(home: &Path) -> Trier {
    by_program(home.to_owned(), PathBuf::from(SELF))
}

/// Tries claims by running `program --home . suspect CLAIM` in the home.
pub fn by_program(home: PathBuf, program: PathBuf) -> Trier {
    Box::new(move |claim| {
        let args = ["--home", ".", "suspect", &claim.to_name()].map(str::to_owned);
        let program = Program {
            program: &program,
            args: &args,
            dir: &home,
            time_max: TRIAL_TIME_MAX,
            output_bytes_max: 4096,
        };
        verdict_of(command::run(&program, &[], &AtomicBool::new(false)))
    })
}

fn verdict_of(run: Run) -> Verdict {
    let Run {
        ended, complaint, ..
    } = run;
    let how = match ended {
        Ended::Exited(PANICKED) => "panicked".to_owned(),
        Ended::Exited(_) => return Verdict::Survived,
        Ended::Killed(signal) => format!("ended with signal {signal}"),
        Ended::TimedOut => format!("took more than {} s", TRIAL_TIME_MAX.as_secs()),
        Ended::Flooded | Ended::Stopped => return Verdict::Untried("it was stopped".to_owned()),
        Ended::NotStarted(error) | Ended::Failed(error) => {
            return Verdict::Untried(error.to_string());
        }
    };
    let words = words_of(&complaint);
    Verdict::Died(if words.is_empty() {
        how
    } else {
        format!("{how}: {words}")
    })
}

/// Returns the end of what a trial said, in printable characters on one line.
fn words_of(complaint: &[u8]) -> String {
    let text = String::from_utf8_lossy(complaint);
    let words: Vec<&str> = text.split_whitespace().collect();
    let words = words.join(" ");
    let skipped = words.chars().count().saturating_sub(WORDS_CHARS_MAX);
    let is_plain = |c: &char| matches!(c, ' '..='~');
    words.chars().skip(skipped).filter(is_plain).collect()
}

/// Prepares and decides a claim as the gate would, renders the lines and folds them, and writes
/// nothing. The caller's process ends if that ends it.
///
/// # Errors
/// Returns [`HomeError`] if the home or the claim cannot be read; that proves nothing about the
/// request.
pub fn decide_alone(
    root: &Path,
    seams: &Seams,
    claim: ClaimName,
) -> Result<Option<Tried>, HomeError> {
    let shown = claim.file.clone();
    let work = Path::new(claim::WORK_DIR);
    let disk = seams.disk.as_ref();
    let claimed =
        match claim::reread(disk, claim, shown).map_err(|source| HomeError::disk(work, source))? {
            Looked::Claimed(claimed) => claimed,
            _ => return Ok(None),
        };
    // The gate waits, so nobody writes the index.
    let has_snapshot = |store: &Store| store.snapshot().is_ok_and(|snapshot| snapshot.is_some());
    let store = Store::open_read_only(root)
        .ok()
        .filter(has_snapshot)
        .or_else(|| Store::open_untouched(root).ok().filter(has_snapshot));
    if store.is_none() && !is_short(disk)? {
        // Reading all lines from the first would take too long, and prove nothing.
        return Err(StoreError::Damaged("it has no snapshot".to_owned()).into());
    }
    let view = read::read_with(root, seams, store)?;
    let keyring = SqliteKeyring::open_read_only(root)?;
    let mut trial = Trial::over(view, keyring, seams)?;
    let tried = trial.decide(&Asked::Claimed(&claimed.delivery))?;
    // A line that cannot be written is refused, which is a decision too.
    let record = Record::Decision(Box::new(tried.decision.clone()));
    if record.body().is_ok() {
        let view = &mut trial.view;
        let mut outstanding = Outstanding::new();
        let seq = view.position.seq;
        fold(
            &mut view.state,
            &view.newest,
            &mut outstanding,
            seq,
            &record,
        )?;
    }
    let _ = tried.answer.to_bytes();
    Ok(Some(tried))
}

/// Returns whether the log is short enough to be read from its first line.
fn is_short(disk: &dyn Disk) -> Result<bool, HomeError> {
    let first = segment::path(1);
    let stat = disk
        .stat(&first)
        .map_err(|source| HomeError::disk(&first, source))?;
    let is_only = recover::segments(disk, Path::new(segment::AUDIT_DIR))?.len() == 1;
    Ok(is_only && stat.is_some_and(|stat| stat.size <= LOG_BYTES_SHORT))
}

/// Returns the paths that [`decide_alone`] reads.
pub fn reads(root: &Path, claim: &ClaimName) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = ["state", "rules", "audit"]
        .iter()
        .map(|folder| root.join(folder))
        .collect();
    paths.push(root.join(claim::WORK_DIR).join(claim.to_name()));
    paths.retain(|path| fs::symlink_metadata(path).is_ok());
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str) -> Verdict {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&path, executable).unwrap();
        let claim = ClaimName::parse("3~7~flat~r1.json".as_ref()).unwrap();
        by_program(folder.path().to_owned(), path)(&claim)
    }

    #[test]
    fn a_trial_dies_by_a_signal_or_a_panic() {
        let died = |how: &str| Verdict::Died(how.to_owned());
        assert_eq!(run("kill -ABRT $$"), died("ended with signal 6"));
        assert_eq!(run("kill -KILL $$"), died("ended with signal 9"));
        assert_eq!(
            run("printf 'at\\na\\033[1mplace\\377' >&2; exit 101"),
            died("panicked: at a[1mplace")
        );
        for code in [0, 1, 5, 6, 100, 102] {
            assert_eq!(run(&format!("exit {code}")), Verdict::Survived);
        }
        assert_eq!(
            run(r#"[ "$*" = "--home . suspect 3~7~flat~r1.json" ] && exit 101"#),
            died("panicked")
        );
        let nothing = by_program(PathBuf::from("/"), PathBuf::from("/no/program"));
        let claim = ClaimName::parse("3~7~flat~r1.json".as_ref()).unwrap();
        assert!(matches!(nothing(&claim), Verdict::Untried(_)));
    }

    #[test]
    fn the_last_words_are_the_end() {
        for (length, kept) in [(299, 299), (300, 300), (301, 300)] {
            let said = format!("{}z", "a".repeat(length - 1));
            let words = words_of(said.as_bytes());
            assert_eq!(
                (words.len(), words.ends_with('z')),
                (kept, true),
                "{length}"
            );
        }
    }

    #[test]
    fn what_cannot_be_tried_is_refused_after_eight_deaths() {
        for (attempt, is_refused) in [(3, false), (8, false), (9, true), (10, true)] {
            let claim = ClaimName::parse(format!("{attempt}~7~flat~r1.json").as_ref()).unwrap();
            let outside = Outside {
                trier: Some(Box::new(|_| Verdict::Untried("no room".to_owned()))),
                ..Outside::default()
            };
            assert_eq!(
                outside.try_suspect(&claim).is_some(),
                is_refused,
                "{attempt}"
            );
            let survives = Outside {
                trier: Some(Box::new(|_| Verdict::Survived)),
                ..Outside::default()
            };
            assert_eq!(survives.try_suspect(&claim), None, "{attempt}");
        }
    }
}
