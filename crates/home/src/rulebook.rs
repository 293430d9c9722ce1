//! The rulebook in force: loaded all or nothing at a batch boundary and kept under its hash. While
//! the files on disk cannot be used, the last good one remains for exits.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::core::Core;
use super::enforced::Judged;
use super::error::HomeError;
use super::open::Home;
use spoolgate_gate::enforced::Ruling;
use spoolgate_gate::events;
use spoolgate_gate::record::{EventKind, Record};
use spoolgate_host::rule_folder::{HALT_FILE, RuleSource};
use spoolgate_ledger::disk::{self, Disk, Mode};
use spoolgate_rules::rates::Rates;
use spoolgate_rules::{Bundle, Rulebook, RulebookError};
use spoolgate_trading::absent::left_behind;
use spoolgate_wire::ids::Principal;
use spoolgate_wire::signing::sha256_hex;
use spoolgate_wire::time::Time;

/// How long rule files must be unchanged before they are loaded, because a git checkout is not
/// atomic.
const SETTLE_MS: u64 = 1000;

/// Maximum length of a fault of the rule files, characters.
const FAULT_CHARS_MAX: usize = 1000;

/// Maximum size of a kept rulebook, bytes.
const BUNDLE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// What a read of the rule files gave.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    /// The hash of a rulebook.
    Good(String),
    /// Why the files could not be used.
    Fault(String),
}

/// Result of the last read of the rule files.
#[derive(Debug, Default)]
pub struct Watched {
    last: Option<Seen>,
    /// When this result was first seen.
    since_ms: u64,
    /// When the files were last read.
    looked_ms: Option<u64>,
    /// Whether a reload was requested that skips the settling time.
    wanted: bool,
    /// The same flag, set from outside.
    wanted_by: Option<Arc<AtomicBool>>,
    /// The judgement of the last change that needed one.
    judged: Judged,
}

impl Watched {
    /// Makes the next batch load the files as they are then.
    pub(super) fn want(&mut self) {
        self.wanted = true;
    }

    fn is_wanted(&mut self) -> bool {
        let by = self
            .wanted_by
            .as_ref()
            .is_some_and(|flag| flag.swap(false, Ordering::SeqCst));
        std::mem::take(&mut self.wanted) || by
    }

    /// Returns why the files could not be used.
    pub(super) fn fault(&self) -> Option<&str> {
        match self.last.as_ref()? {
            Seen::Good(_) => None,
            Seen::Fault(fault) => Some(fault),
        }
    }
}

fn kept_path(hash: &str) -> PathBuf {
    Path::new("audit/rulebooks").join(format!("{hash}.json"))
}

/// Keeps a bundle under its hash, durably, before any line names it.
///
/// # Errors
/// Returns the disk's error.
pub fn keep(disk: &dyn Disk, bundle: &Bundle) -> Result<(), HomeError> {
    let path = kept_path(&bundle.hash());
    let stat = disk
        .stat(&path)
        .map_err(|source| HomeError::disk(&path, source))?;
    if stat.is_some_and(|stat| usize::try_from(stat.size) == Ok(bundle.to_bytes().len())) {
        // The file was synced before it got its name, but the process may have died before it
        // synced the folder.
        let folder = path.parent().unwrap_or(Path::new(""));
        return disk
            .sync_dir(folder)
            .map_err(|source| HomeError::disk(folder, source));
    }
    disk::replace(disk, &path, &bundle.to_bytes(), Mode::Shared, true)
        .map_err(|source| HomeError::disk(&path, source))
}

/// Returns the files kept under this hash.
///
/// # Errors
/// [`HomeError`] if they are missing or damaged.
pub(super) fn kept_bundle(disk: &dyn Disk, hash: &str) -> Result<Bundle, HomeError> {
    let path = kept_path(hash);
    let file = disk
        .read(&path, BUNDLE_BYTES_MAX)
        .map_err(|source| HomeError::disk(&path, source))?;
    if sha256_hex(&file.bytes) != hash {
        return Err(HomeError::Record(format!(
            "`{}` does not hash to its name",
            path.display()
        )));
    }
    Bundle::from_bytes(&file.bytes).map_err(|error| HomeError::Record(error.to_string()))
}

/// Returns the rulebook kept under this hash.
///
/// # Errors
/// [`HomeError`] if it is missing, damaged, or no longer compiles.
pub fn kept(disk: &dyn Disk, hash: &str) -> Result<Rulebook, HomeError> {
    Ok(Rulebook::compile(&kept_bundle(disk, hash)?)?)
}

/// Returns the rulebook kept under this hash. If it was lost, compiles the present rule files and
/// keeps them: exits must not wait for a copy that may never come back. If they differ, entries are
/// closed until the copy is back.
///
/// # Errors
/// Returns what is wrong with the kept rulebook if the present files cannot be used either.
pub(super) fn kept_or_present(
    disk: &dyn Disk,
    hash: &str,
    rules: &dyn RuleSource,
) -> Result<Rulebook, HomeError> {
    let (book, present) = kept_or_read(disk, hash, rules)?;
    match present.map_or(Ok(()), |bundle| keep(disk, &bundle)) {
        // Nor must they wait for room to keep another.
        Err(error) if !error.is_full() => Err(error),
        _ => Ok(book),
    }
}

/// As [`kept_or_present`], but keeps nothing. Returns also the present rule files, if the rulebook
/// is of them.
///
/// # Errors
/// As [`kept_or_present`].
pub(super) fn kept_or_read(
    disk: &dyn Disk,
    hash: &str,
    rules: &dyn RuleSource,
) -> Result<(Rulebook, Option<Bundle>), HomeError> {
    let lost = match kept(disk, hash) {
        Ok(book) => return Ok((book, None)),
        Err(lost) => lost,
    };
    let Ok(bundle) = rules.load() else {
        return Err(lost);
    };
    match Rulebook::compile(&bundle) {
        Ok(book) => Ok((book, Some(bundle))),
        Err(_) => Err(lost),
    }
}

/// Returns whether the halt file exists, and whether it demands that positions are closed: it is a
/// regular file whose first line is `flatten`. If it cannot be read, it demands what it did before.
pub fn halt_file(disk: &dyn Disk, flattened: bool) -> (bool, bool) {
    let path = Path::new("rules").join(HALT_FILE);
    if matches!(disk.stat(&path), Ok(None)) {
        return (false, false);
    }
    match disk.read(&path, HALT_BYTES_READ) {
        Ok(file) => (true, flattens(&file.bytes)),
        Err(_) => (true, flattened),
    }
}

/// Whether a halt file with this text demands that positions are closed.
pub fn flattens(text: &[u8]) -> bool {
    let line = text.split(|byte| *byte == b'\n').next();
    line.is_some_and(|line| line.trim_ascii() == FLATTEN)
}

/// How much of the halt file is read, bytes.
const HALT_BYTES_READ: usize = 64;

/// The first line of a halt file that demands that positions are closed.
pub const FLATTEN: &[u8] = b"flatten";

impl Home {
    /// Makes the gate load the rule files without settling time whenever this flag is set.
    pub fn reload_on(&mut self, flag: Arc<AtomicBool>) {
        self.news.watched.wanted_by = Some(flag);
    }

    /// Returns the agents that have spool directories of their own.
    pub fn spool_agents(&self) -> impl Iterator<Item = &Principal> {
        self.core
            .rulebook
            .principals
            .values()
            .filter_map(|rule| rule.spool.as_ref())
    }

    /// Creates and scans the spools of the agents that the rulebook names.
    pub(super) fn open_agent_spools(&mut self) -> Result<(), HomeError> {
        let agents: Vec<Principal> = self.spool_agents().cloned().collect();
        super::layout::make_agent_spools(self.core.seams.disk.as_ref(), agents.iter())
            .map_err(|source| HomeError::disk(Path::new("spool"), source))?;
        let rates = self.core.rulebook.rates.as_ref();
        let quotas = agents
            .iter()
            .map(|agent| (agent, rates.map(|rates| rates.of_spool(agent))));
        self.intake
            .scanner
            .set_spools(rates.map(Rates::of_flat), quotas);
        Ok(())
    }

    /// As [`Home::look_at_rules`]; on a disk that is too full to keep new rules, those in force stay
    /// until there is room.
    ///
    /// # Errors
    /// Returns the disk's error if a new rulebook cannot be kept for another reason.
    pub(super) fn look_at_rules_if_room(
        &mut self,
        now: Time,
        at_once: bool,
    ) -> Result<Vec<Record>, HomeError> {
        if self.core.storage.is_full() {
            return Ok(Vec::new());
        }
        match self.look_at_rules(now, at_once) {
            Err(error) if error.is_full() => {
                self.core.meet_full_disk()?;
                self.news.watched.want();
                Ok(Vec::new())
            }
            other => other,
        }
    }

    /// Reads the rule files if it is time to, and returns the event lines of what changed.
    /// `at_once` skips the settling time: at start there is nothing to compare with.
    ///
    /// # Errors
    /// Returns the disk's error if a new rulebook cannot be kept.
    pub(super) fn look_at_rules(
        &mut self,
        now: Time,
        at_once: bool,
    ) -> Result<Vec<Record>, HomeError> {
        let at_once = self.news.watched.is_wanted() || at_once;
        let monotonic_ms = self.core.seams.clock.monotonic_ms();
        let looked_lately = self
            .news
            .watched
            .looked_ms
            .is_some_and(|at| monotonic_ms.saturating_sub(at) < SETTLE_MS);
        if looked_lately && !at_once {
            return Ok(Vec::new());
        }
        self.news.watched.looked_ms = Some(monotonic_ms);
        self.keep_socket();
        // If the files differ from what was applied, loading them would undo it.
        let files = match self.derived.rules_blocked() {
            Some(why) => Err(RulebookError::new("rules", None, why)),
            None => self.core.rules.load(),
        };
        let loaded = files
            .and_then(|bundle| self.usable(bundle))
            // Ledger lines are limited in length, and a fault can quote a whole file.
            .map_err(|fault| {
                fault
                    .to_string()
                    .chars()
                    .take(FAULT_CHARS_MAX)
                    .collect::<String>()
            });
        let seen = match &loaded {
            Ok((_, book)) => Seen::Good(book.hash.clone()),
            Err(fault) => Seen::Fault(fault.clone()),
        };
        if self.news.watched.last.as_ref() != Some(&seen) {
            self.news.watched.last = Some(seen);
            self.news.watched.since_ms = monotonic_ms;
            if !at_once {
                return Ok(Vec::new());
            }
        }
        if !at_once && monotonic_ms.saturating_sub(self.news.watched.since_ms) < SETTLE_MS {
            return Ok(Vec::new());
        }
        let known = &self.core.state.rulebook;
        let event = match loaded {
            Ok((_, book))
                if book.hash == known.hash
                    && known.fault.is_none()
                    && known.refused.is_none()
                    && known.freed.is_none() =>
            {
                return Ok(Vec::new());
            }
            Ok((bundle, book)) => {
                let approved = match self.core.ruling(&mut self.news.watched.judged, &book, now) {
                    Ruling::Free => None,
                    Ruling::Approved(agreement) => Some(agreement),
                    Ruling::Refused(refused) if known.refused.as_ref() == Some(&refused) => {
                        return Ok(Vec::new());
                    }
                    Ruling::Refused(refused) => {
                        // Replay judges it again.
                        keep(self.core.seams.disk.as_ref(), &bundle)?;
                        let event = events::rulebook_refused(&refused, now);
                        return Ok(vec![Record::Event(EventKind::Rulebook, event)]);
                    }
                };
                keep(self.core.seams.disk.as_ref(), &bundle)?;
                let hash = book.hash.clone();
                self.core.rulebook = book;
                self.open_agent_spools()?;
                self.serve_users();
                self.outside.ask_again(&self.core)?;
                match approved {
                    Some(agreement) => events::rulebook_approved(&hash, &agreement, now),
                    None => events::rulebook_loaded(&hash, None, now),
                }
            }
            Err(fault) if self.core.state.rulebook.fault.as_ref() == Some(&fault) => {
                return Ok(Vec::new());
            }
            Err(fault) => events::rulebook_faulted(&fault, now),
        };
        self.outside.tell_out_of_reach(&self.core, &mut self.news);
        Ok(vec![Record::Event(EventKind::Rulebook, event)])
    }
}

impl Home {
    /// Compiles rule files, if they may come into force at all.
    fn usable(&self, bundle: Bundle) -> Result<(Bundle, Rulebook), RulebookError> {
        let in_force = bundle.hash() == self.core.rulebook.hash;
        // The same files compile to the same rulebook.
        let book = if in_force {
            self.core.rulebook.clone()
        } else {
            Rulebook::compile(&bundle)?
        };
        // An earlier version may have put them into force.
        if self.news.watched.last.as_ref() != Some(&Seen::Good(book.hash.clone()))
            && let Some(fault) = book.admit().into_iter().next()
        {
            return Err(fault.into());
        }
        if self.core.has_lost_rulebook(&book.hash) {
            let path = kept_path(&self.core.state.rulebook.hash);
            let what = "the copy of the rulebook in force cannot be read, so that a change of it \
                cannot be judged: restore it, or stop the gate and run `spoolgate rules \
                approval-reset`";
            return Err(RulebookError::new(path.to_string_lossy(), None, what));
        }
        // Open positions could not be closed under rules that do not know them.
        match left_behind(&self.core.state.book, &book).filter(|_| !in_force) {
            Some(fault) => Err(fault),
            None => Ok((bundle, book)),
        }
    }
}

impl Core {
    /// Whether the copy of the rulebook that the ledger names was lost, and these files are neither
    /// it nor what the owner of the machine lets come into force.
    fn has_lost_rulebook(&self, hash: &str) -> bool {
        let known = &self.state.rulebook;
        let is_lost = self.rulebook.hash != known.hash;
        is_lost && hash != known.hash && known.freed.as_deref() != Some(hash)
    }

    /// Returns the event line of the halt file if it appeared, disappeared, or demands otherwise than
    /// before that positions are closed. A file that cannot be looked up counts as present.
    pub(super) fn look_for_halt_file(&self, now: Time) -> Option<Record> {
        let disk = self.seams.disk.as_ref();
        let (present, flatten) = halt_file(disk, self.state.halts.file_flattens);
        if (present, flatten) == (self.state.halts.file, self.state.halts.file_flattens) {
            return None;
        }
        Some(Record::Event(
            EventKind::Halt,
            events::halt_file(present, flatten, now),
        ))
    }
}
