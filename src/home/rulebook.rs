//! The rulebook in force: loaded all or nothing at a batch boundary, kept content-addressed, and the last
//! good one for exits while the files on disk cannot be used.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::open::{Home, HomeError};
use crate::gate::events;
use crate::gate::record::Record;
use crate::host::disk::{self, Disk, Mode};
use crate::rules::load::{HALT_FILE, RuleSource};
use crate::rules::rates::Rates;
use crate::rules::{Bundle, Rulebook, RulebookError};
use crate::trading::absent::left_behind;
use crate::wire::ids::Principal;
use crate::wire::signing::sha256_hex;
use crate::wire::time::Time;

/// How long rule files must not have changed before they are taken: a git checkout is not atomic.
const SETTLE_MS: u64 = 1000;

/// Longest text of a fault of the rule files, in characters.
const FAULT_CHARS_MAX: usize = 1000;

/// Largest kept rulebook, bytes.
const BUNDLE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// What was last read of the rule files.
#[derive(Debug, Default)]
pub struct Watched {
    /// Hash of the bundle, or the fault of reading it.
    last: Option<Result<String, String>>,
    /// When that was first read.
    since_ms: u64,
    /// When the files were last looked at.
    looked_ms: Option<u64>,
    /// Whether somebody wants them taken as they are now, settled or not.
    wanted: bool,
    /// The same, set from outside.
    wanted_by: Option<Arc<AtomicBool>>,
}

impl Watched {
    /// Has the next batch take the files as they are then.
    pub(super) fn want(&mut self) {
        self.wanted = true;
    }

    fn is_wanted(&mut self) -> bool {
        let by = self.wanted_by.as_ref().is_some_and(|flag| flag.swap(false, Ordering::SeqCst));
        std::mem::take(&mut self.wanted) || by
    }

    /// Why the files could not be used.
    pub(super) fn fault(&self) -> Option<&str> {
        self.last.as_ref()?.as_ref().err().map(String::as_str)
    }
}

fn kept_path(hash: &str) -> PathBuf {
    Path::new("audit/rulebooks").join(format!("{hash}.json"))
}

/// Keeps a bundle under its hash, durably, before any line names it.
///
/// # Errors
/// What the disk says.
pub fn keep(disk: &dyn Disk, bundle: &Bundle) -> Result<(), HomeError> {
    let path = kept_path(&bundle.hash());
    let stat = disk.stat(&path).map_err(|source| HomeError::disk(&path, source))?;
    if stat.is_some_and(|stat| usize::try_from(stat.size) == Ok(bundle.to_bytes().len())) {
        // It was synced before it got its name, but the process may have died before it synced that.
        let folder = path.parent().unwrap_or(Path::new(""));
        return disk.sync_dir(folder).map_err(|source| HomeError::disk(folder, source));
    }
    disk::replace(disk, &path, &bundle.to_bytes(), Mode::Shared, true)
        .map_err(|source| HomeError::disk(&path, source))
}

/// The files kept under this hash.
///
/// # Errors
/// [`HomeError`] if they are missing or damaged.
pub(super) fn kept_bundle(disk: &dyn Disk, hash: &str) -> Result<Bundle, HomeError> {
    let path = kept_path(hash);
    let file = disk.read(&path, BUNDLE_BYTES_MAX).map_err(|source| HomeError::disk(&path, source))?;
    if sha256_hex(&file.bytes) != hash {
        return Err(HomeError::Record(format!("`{}` does not hash to its name", path.display())));
    }
    Bundle::from_bytes(&file.bytes).map_err(HomeError::Record)
}

/// The rulebook kept under this hash.
///
/// # Errors
/// [`HomeError`] if it is missing, damaged, or no longer compiles.
pub fn kept(disk: &dyn Disk, hash: &str) -> Result<Rulebook, HomeError> {
    Ok(Rulebook::compile(&kept_bundle(disk, hash)?)?)
}

/// The rulebook kept under this hash; where it was lost, the rule files as they are now: exits must not
/// wait for a copy that may never come back. If they differ, the next batch says so.
///
/// # Errors
/// Why there is neither: what is wrong with the kept one.
pub(super) fn kept_or_present(
    disk: &dyn Disk,
    hash: &str,
    rules: &dyn RuleSource,
) -> Result<Rulebook, HomeError> {
    kept(disk, hash).or_else(|lost| {
        let Ok(bundle) = rules.load() else { return Err(lost) };
        let Ok(book) = Rulebook::compile(&bundle) else { return Err(lost) };
        keep(disk, &bundle)?;
        Ok(book)
    })
}

impl Home {
    /// Has rule files be taken as they are, settled or not, whenever this is set.
    pub fn reload_on(&mut self, flag: Arc<AtomicBool>) {
        self.watched.wanted_by = Some(flag);
    }

    /// Agents that have spool directories of their own.
    pub fn spool_agents(&self) -> impl Iterator<Item = &Principal> {
        self.rulebook.principals.values().filter_map(|rule| rule.spool.as_ref())
    }

    /// Makes and scans the spools of the agents that the rulebook names.
    pub(super) fn open_agent_spools(&mut self) -> Result<(), HomeError> {
        let agents: Vec<Principal> = self.spool_agents().cloned().collect();
        super::layout::make_agent_spools(self.seams.disk.as_ref(), agents.iter())
            .map_err(|source| HomeError::disk(Path::new("spool"), source))?;
        let rates = self.rulebook.rates.as_ref();
        let quotas = agents.iter().map(|agent| (agent, rates.map(|rates| rates.of_spool(agent))));
        self.scanner.set_spools(rates.map(Rates::of_flat), quotas);
        Ok(())
    }

    /// Looks at the rule files if it is time to, and returns the event lines of what changed. `at_once`
    /// skips the settling time: at start there is nothing to compare with.
    ///
    /// # Errors
    /// What the disk says while keeping a new rulebook.
    pub(super) fn look_at_rules(&mut self, now: Time, at_once: bool) -> Result<Vec<Record>, HomeError> {
        let at_once = self.watched.is_wanted() || at_once;
        let monotonic_ms = self.seams.clock.monotonic_ms();
        let looked_lately =
            self.watched.looked_ms.is_some_and(|at| monotonic_ms.saturating_sub(at) < SETTLE_MS);
        if looked_lately && !at_once {
            return Ok(Vec::new());
        }
        self.watched.looked_ms = Some(monotonic_ms);
        // Files that are not what was applied would undo it.
        let files = match self.rules_blocked() {
            Some(why) => Err(RulebookError::new("rules", None, why)),
            None => self.rules.load(),
        };
        let loaded = files
            .and_then(|bundle| {
                let in_force = bundle.hash() == self.rulebook.hash;
                // The same files compile to the same book.
                let book = if in_force { self.rulebook.clone() } else { Rulebook::compile(&bundle)? };
                // Nobody could close what is open under rules that do not know it.
                match left_behind(&self.state.book, &book).filter(|_| !in_force) {
                    Some(fault) => Err(fault),
                    None => Ok((bundle, book)),
                }
            })
            // It stands in ledger lines, which have a length; a fault can quote a whole file.
            .map_err(|fault| fault.to_string().chars().take(FAULT_CHARS_MAX).collect::<String>());
        let seen = match &loaded {
            Ok((_, book)) => Ok(book.hash.clone()),
            Err(fault) => Err(fault.clone()),
        };
        if self.watched.last.as_ref() != Some(&seen) {
            self.watched.last = Some(seen);
            self.watched.since_ms = monotonic_ms;
            if !at_once {
                return Ok(Vec::new());
            }
        }
        if !at_once && monotonic_ms.saturating_sub(self.watched.since_ms) < SETTLE_MS {
            return Ok(Vec::new());
        }
        let event = match loaded {
            Ok((_, book)) if book.hash == self.state.rulebook.hash && self.state.rulebook.fault.is_none() => {
                return Ok(Vec::new());
            }
            Ok((bundle, book)) => {
                keep(self.seams.disk.as_ref(), &bundle)?;
                let hash = book.hash.clone();
                self.rulebook = book;
                self.open_agent_spools()?;
                self.ask_again()?;
                events::rulebook_loaded(&hash, None, now)
            }
            Err(fault) if self.state.rulebook.fault.as_ref() == Some(&fault) => return Ok(Vec::new()),
            Err(fault) => events::rulebook_faulted(&fault, now),
        };
        self.tell_out_of_reach();
        Ok(vec![Record::Rulebook(event)])
    }

    /// The event line of the halt file, if that changed. A file that cannot be looked for counts as there.
    pub(super) fn look_for_halt_file(&self, now: Time) -> Option<Record> {
        let path = Path::new("rules").join(HALT_FILE);
        let present = !matches!(self.seams.disk.stat(&path), Ok(None));
        if present == self.state.halts.file {
            return None;
        }
        Some(Record::Halt(events::halt_file(present, now)))
    }
}
