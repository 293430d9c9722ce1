//! Opening a home for deciding: lock, recovery, roll-forward, redo.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::core::Core;
use super::derived::Derived;
use super::error::HomeError;
use super::parts::{Intake, News, Outside};
use super::released;
use super::rollback;
use super::rotation::Pairs;
use super::rulebook;
use super::storage::StorageWatch;
use crate::index::fold::{FoldFailure, Outstanding, fold};
use crate::index::store::{Hold, STATE_FILE};
use crate::index::{Snapshot, Store, StoreError};
use spoolgate_gate::record::{Decision, Event, EventKind, Genesis, Record};
use spoolgate_gate::state::SEMANTICS;
use spoolgate_gate::{State, events};
use spoolgate_host::adapters::Credential;
use spoolgate_host::cage;
use spoolgate_host::clock::Clock;
use spoolgate_host::entropy::Entropy;
use spoolgate_host::keyring::{CachedKeyring, KEYRING_FILE, KeyringError, SqliteKeyring};
use spoolgate_host::lock::{self, HomeLock};
use spoolgate_host::rule_folder::{RuleFolder, RuleSource};
use spoolgate_ledger::disk::Disk;
use spoolgate_ledger::heads::{Heads, Remembered};
use spoolgate_ledger::log::{self, Position};
use spoolgate_ledger::recover::{self, Found};
use spoolgate_ledger::scan::SealedLine;
use spoolgate_ledger::{Ledger, LedgerError, line, segment};
use spoolgate_rules::Rulebook;
use spoolgate_rules::services::Service;
use spoolgate_wire::answer::Answer;
use spoolgate_wire::time::Time;

/// The interfaces to the outside, as the caller provides them.
#[derive(Clone)]
pub struct Seams {
    /// Files.
    pub disk: Arc<dyn Disk>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub entropy: Arc<dyn Entropy>,
}

impl From<FoldFailure> for HomeError {
    fn from(failure: FoldFailure) -> HomeError {
        match failure {
            FoldFailure::Store(error) => HomeError::Store(error),
            FoldFailure::State { .. } => HomeError::Record(failure.to_string()),
        }
    }
}

/// What a home is made of besides the files behind [`Seams`].
pub struct Parts {
    /// Its rule files.
    pub rules: Arc<dyn RuleSource>,
    /// Its keys.
    pub keyring: SqliteKeyring,
    /// Its index.
    pub store: Store,
    /// Its lock; `None` if no other process can open the home.
    pub lock: Option<HomeLock>,
}

/// Receives events: rule files that came into force or broke, the halt file, clock steps, quotas,
/// and obstacles in the place of answers.
pub type OnEvent = Box<dyn FnMut(&Event) + Send>;

/// An open home. Dropping it releases the lock.
pub struct Home {
    pub(super) core: Core,
    pub(super) intake: Intake,
    pub(super) outside: Outside,
    pub(super) derived: Derived,
    pub(super) news: News,
    /// What recovery found.
    pub found: Found,
    /// Whether state.db was damaged or referred to lines that this ledger does not have, and was
    /// rebuilt.
    pub index_was_elsewhere: bool,
    _lock: Option<HomeLock>,
}

/// Reads the genesis line of a log.
///
/// # Errors
/// Returns [`HomeError`] if there is no home, or its first line is missing or damaged.
pub fn read_genesis(root: &Path, disk: &dyn Disk) -> Result<Genesis, HomeError> {
    let path = segment::path(1);
    let checkpoint = Path::new(log::CHECKPOINT_FILE);
    let file =
        segment::open_head(disk, Path::new(segment::AUDIT_DIR), 1).map_err(
            |source| match source.kind() {
                // Do not suggest `init` here: a new home would hide that the old ledger is lost.
                io::ErrorKind::NotFound if matches!(disk.stat(checkpoint), Ok(Some(_))) => {
                    HomeError::Record(format!(
                        "`{}` is missing although `{}` exists: restore it from a copy",
                        path.display(),
                        checkpoint.display()
                    ))
                }
                io::ErrorKind::NotFound => HomeError::NotAHome(root.to_owned()),
                _ => HomeError::disk(&path, source),
            },
        )?;
    let mut reader = spoolgate_ledger::scan::LineReader::new(file.as_ref(), 0);
    let bytes = match reader
        .next_line()
        .map_err(|source| HomeError::disk(&path, source))?
    {
        spoolgate_ledger::scan::NextLine::Line(_, bytes) => bytes,
        _ => return Err(HomeError::Record("the first line is incomplete".to_owned())),
    };
    let line = line::parse(&bytes)
        .map_err(|error| HomeError::Record(format!("the first line: {error}")))?;
    match Record::parse(line.kind, &line.body()) {
        Ok(Some(Record::Genesis(genesis))) => Ok(genesis),
        Ok(_) => Err(HomeError::Record(
            "the first line is not a genesis line".to_owned(),
        )),
        Err(error) => Err(HomeError::Record(format!("the first line: {error}"))),
    }
}

/// The state folded from the lines that were read so far.
pub(super) struct Folded {
    pub(super) state: State,
    outstanding: Outstanding,
    /// Why a line could not be folded.
    pub(super) failure: Option<HomeError>,
    lines: u64,
}

impl Folded {
    /// Starts from a state, with no lines read.
    pub(super) fn from(state: State, outstanding: Outstanding) -> Folded {
        Folded {
            state,
            outstanding,
            failure: None,
            lines: 0,
        }
    }

    pub(super) fn line(&mut self, store: &Store, line: &SealedLine) -> io::Result<()> {
        self.lines += 1;
        if let Err(error) = self.try_line(store, line) {
            // The scan can return only an `io::Error`; keep the reason here.
            self.failure = Some(error);
            return Err(io::Error::other("a line cannot be folded"));
        }
        Ok(())
    }

    fn try_line(&mut self, store: &Store, line: &SealedLine) -> Result<(), HomeError> {
        let record = Record::parse(&line.kind, &line.body)
            .map_err(|error| HomeError::Record(format!("line {}: {error}", line.seq)))?;
        let Some(record) = record else { return Ok(()) };
        fold(
            &mut self.state,
            store,
            &mut self.outstanding,
            line.seq,
            &record,
        )?;
        if record.is_indexed() {
            store.insert_line(line.seq, line.location(), &record)?;
        }
        Ok(())
    }
}

impl Home {
    /// Opens a home: takes the lock, recovers the ledger, rolls the state forward and redoes what a
    /// crash left undone.
    ///
    /// Nothing is published or appended before the ledger is known to be sound.
    ///
    /// # Errors
    /// Returns [`HomeError`] if the home cannot be opened.
    pub fn open(root: &Path, seams: Seams) -> Result<Home, HomeError> {
        Home::open_for(root, seams, Hold::Long, &mut |_| {})
    }

    /// Like [`Home::open`], but after each batch that the index does not know yet calls `progress`
    /// with the number of bytes of lines read.
    ///
    /// # Errors
    /// Returns [`HomeError`] if the home cannot be opened.
    pub fn open_telling(
        root: &Path,
        seams: Seams,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Home, HomeError> {
        Home::open_for(root, seams, Hold::Long, progress)
    }

    /// Like [`Home::open`], for a command that decides one request and ends.
    ///
    /// # Errors
    /// Returns [`HomeError`] if the home cannot be opened.
    pub fn open_briefly(root: &Path, seams: Seams) -> Result<Home, HomeError> {
        Home::open_for(root, seams, Hold::Brief, &mut |_| {})
    }

    fn open_for(
        root: &Path,
        seams: Seams,
        hold: Hold,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Home, HomeError> {
        let (lock, genesis) = Home::lock(root, &seams)?;
        super::pruning::demand_state(root, seams.disk.as_ref())?;
        Home::assemble_telling(
            root,
            seams,
            Home::parts(root, lock, hold)?,
            &genesis.origin,
            progress,
        )
    }

    /// Takes the lock and makes the folders that are missing.
    pub(super) fn lock(
        root: &Path,
        seams: &Seams,
    ) -> Result<(Option<HomeLock>, Genesis), HomeError> {
        let is_log = || segment::is_log(&root.join(segment::AUDIT_DIR));
        let lock = lock::try_lock(root)
            .map_err(|source| match source.kind() {
                // Do not suggest `init` where there is a ledger, because it refuses to create a
                // home twice.
                io::ErrorKind::NotFound if is_log() => HomeError::disk(
                    &root.join(KEYRING_FILE),
                    io::Error::other(
                        "is missing, and with it the keys of the log; restore it from a copy",
                    ),
                ),
                io::ErrorKind::NotADirectory if is_log() => HomeError::NoFolder(root.join("state")),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                    HomeError::NotAHome(root.to_owned())
                }
                _ => HomeError::disk(&root.join(lock::LOCK_FILE), source),
            })?
            .ok_or_else(|| HomeError::Busy(root.to_owned()))?;
        let genesis = read_genesis(root, seams.disk.as_ref())?;
        super::layout::make_folders(root, seams.disk.as_ref())?;
        Ok((Some(lock), genesis))
    }

    /// Opens the parts of a home on disk.
    pub(super) fn parts(
        root: &Path,
        lock: Option<HomeLock>,
        hold: Hold,
    ) -> Result<Parts, HomeError> {
        Ok(Parts {
            rules: Arc::new(RuleFolder::of(root)),
            keyring: SqliteKeyring::open_under_lock(root)?,
            store: Store::open(root, hold)?,
            lock,
        })
    }

    /// Opens a home from parts that need not be on disk, for simulations: everything else goes
    /// through `seams`.
    ///
    /// # Errors
    /// Returns [`HomeError`] if the home cannot be opened.
    pub fn assemble(
        root: &Path,
        seams: Seams,
        parts: Parts,
        origin: &str,
    ) -> Result<Home, HomeError> {
        Home::assemble_telling(root, seams, parts, origin, &mut |_| {})
    }

    fn assemble_telling(
        root: &Path,
        seams: Seams,
        parts: Parts,
        origin: &str,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Home, HomeError> {
        let Parts {
            rules,
            keyring,
            store,
            lock,
        } = parts;
        let pairs = Pairs::of(&keyring)?;
        let mut heads = rollback::beside_index(seams.disk.as_ref(), &store)?;
        let mut home = match roll_forward(
            (&seams, &store),
            origin,
            &pairs,
            heads.clone(),
            true,
            progress,
        ) {
            // Lines that do not fit the snapshot are blamed on the ledger only if they do not fit
            // each other either, so try again without the snapshot.
            Err(
                HomeError::Ledger(LedgerError::NotOnLog)
                | HomeError::Store(StoreError::Damaged(_))
                | HomeError::Record(_),
            ) => {
                super::pruning::demand_contents(seams.disk.as_ref())?;
                // If the index was at a head that this log does not have, the index must not be
                // rebuilt over it.
                heads.extend(rollback::of_index(&store));
                let forward =
                    roll_forward((&seams, &store), origin, &pairs, heads, false, progress)?;
                let mut home = Home::over(
                    root,
                    seams,
                    Parts {
                        rules,
                        keyring,
                        store,
                        lock,
                    },
                    forward,
                )?;
                home.index_was_elsewhere = true;
                home
            }
            forward => Home::over(
                root,
                seams,
                Parts {
                    rules,
                    keyring,
                    store,
                    lock,
                },
                forward?,
            )?,
        };
        home.check_clock_at_start();
        match home.redo() {
            // The index names lines that are not where it says. Either the index is wrong and is
            // rebuilt, or the ledger is, and reading all of it shows where.
            Err(HomeError::Store(StoreError::Damaged(_))) => {
                let Home {
                    core,
                    news,
                    found,
                    _lock: lock,
                    ..
                } = home;
                let Core {
                    root,
                    seams,
                    keyring,
                    store,
                    rules,
                    ..
                } = core;
                super::pruning::demand_contents(seams.disk.as_ref())?;
                let heads = rollback::of_index(&store);
                let forward =
                    roll_forward((&seams, &store), origin, &pairs, heads, false, progress)?;
                let parts = Parts {
                    rules,
                    keyring: keyring.into_inner(),
                    store,
                    lock,
                };
                home = Home::over(&root, seams, parts, forward)?;
                home.news.events = news.events;
                home.found = found;
                home.index_was_elsewhere = true;
                home.redo()?;
            }
            other => other?,
        }
        pairs.settle(home.keyring(), &home.core.ledger)?;
        let now = home.core.ledger_now();
        home.outside.close_left_open(&home.core);
        home.check_program_at_start(now);
        let rules = home.look_at_rules_if_room(now, true)?;
        home.news.events.extend(rules);
        Ok(home)
    }

    pub(super) fn over(
        root: &Path,
        seams: Seams,
        parts: Parts,
        (ledger, found, folded): (Ledger, Found, Folded),
    ) -> Result<Home, HomeError> {
        let Parts {
            rules,
            keyring,
            store,
            lock,
        } = parts;
        let rulebook = rulebook::kept_or_present(
            seams.disk.as_ref(),
            &folded.state.rulebook.hash,
            rules.as_ref(),
        )?;
        let core = Core {
            root: root.to_owned(),
            seams,
            keyring: CachedKeyring::new(keyring),
            ledger,
            store,
            state: folded.state,
            rulebook,
            rules,
            outstanding: folded.outstanding,
            storage: StorageWatch::default(),
            lines_since_snapshot: folded.lines,
        };
        let mut home = Home {
            core,
            intake: Intake::default(),
            outside: Outside::default(),
            derived: Derived::default(),
            news: News::default(),
            found,
            index_was_elsewhere: false,
            _lock: lock,
        };
        if home.core.store.is_kept_open() {
            home.core.meet_full_disk()?;
        }
        home.open_agent_spools()?;
        // The programs that an earlier gate started ended with it. What they started in turn may run
        // on, without its folder.
        cage::sweep(root);
        Ok(home)
    }

    /// Returns the outgoing actions that an earlier gate left open, in words. The next batch closes
    /// them.
    pub fn left_open(&self) -> &[String] {
        &self.outside.left_open
    }

    /// Returns in words what was in the place of the checkpoint, and is kept under another name.
    pub fn moved_aside(&self) -> impl Iterator<Item = String> {
        self.core.ledger.aside().iter().map(|aside| {
            format!(
                "`{}` could not be read or replaced and is kept as `{}`; if it is a file, see \
                    with `audit verify --head` that the ledger contains its head",
                log::CHECKPOINT_FILE,
                aside.display()
            )
        })
    }

    /// The state.
    pub fn state(&self) -> &State {
        &self.core.state
    }

    /// The rulebook in force, or the last good one.
    pub fn rulebook(&self) -> &Rulebook {
        &self.core.rulebook
    }

    /// Passes every event from now on to `hear`, and those noticed while opening.
    pub fn tell_events(&mut self, mut hear: OnEvent) {
        std::mem::take(&mut self.news.untold)
            .iter()
            .for_each(&mut hear);
        self.news.on_event = Some(hear);
    }

    /// Returns why the rule files on disk could not be used when they were last read. The state
    /// records this from the next batch on.
    pub fn rules_fault(&self) -> Option<&str> {
        self.news.watched.fault()
    }

    /// The keyring.
    pub fn keyring(&self) -> &SqliteKeyring {
        self.core.keyring.inner()
    }

    /// The index.
    pub fn store(&self) -> &Store {
        &self.core.store
    }

    /// Where the ledger ends.
    pub fn position(&self) -> &Position {
        self.core.ledger.position()
    }

    /// Returns the batch number and record of a line that the index knows.
    ///
    /// # Errors
    /// Returns [`HomeError`] if there is no such line, or it cannot be read.
    pub fn record(&self, seq: u64) -> Result<(u64, Record), HomeError> {
        self.core.record(seq)
    }

    /// Returns the batch number and decision of a line.
    ///
    /// # Errors
    /// Returns [`HomeError`] if there is no such decision, or it cannot be read.
    pub fn decision(&self, seq: u64) -> Result<(u64, Decision), HomeError> {
        self.core.decision(seq)
    }

    /// Rebuilds the answer of line `seq` from the ledger.
    ///
    /// # Errors
    /// Returns [`HomeError`] if the answer is lost, or its outgoing action is still open.
    pub fn answer(&self, seq: u64) -> Result<Answer, HomeError> {
        self.core.answer(seq)
    }

    /// Returns the credential in force for a service at its host.
    ///
    /// # Errors
    /// Returns [`KeyringError`] if the keyring cannot be read or has lost the credential.
    pub fn credential(&self, service: &Service) -> Result<Option<Credential>, KeyringError> {
        self.core.credential(service)
    }

    /// Reports whether there are answers that are not known to be durable.
    pub fn has_outstanding(&self) -> bool {
        self.core.has_outstanding()
    }

    /// Saves a snapshot of the state, so that the next start reads little of the ledger.
    ///
    /// # Errors
    /// Returns [`HomeError`] if the index cannot be written.
    pub fn save_snapshot(&mut self) -> Result<(), HomeError> {
        self.core.save_snapshot()
    }

    /// Records a change of the program's version or semantics: a replay recomputes only lines of
    /// its own semantics, and a mismatch can be traced to an upgrade.
    fn check_program_at_start(&mut self, now: Time) {
        let (before, version) = (&self.core.state.program, spoolgate_wire::VERSION);
        if before == version && self.core.state.semantics() == SEMANTICS {
            return;
        }
        let changed = events::program_changed(before, version, SEMANTICS, now);
        self.news
            .events
            .push(Record::Event(EventKind::Start, changed));
    }

    /// Notices a step of the clock, before anything else: it is measured against the time of the
    /// last line, and any line that this start writes, also one that names this program, has the
    /// new time.
    fn check_clock_at_start(&mut self) {
        let step = self.core.clock_step(true);
        self.news.events.extend(step);
    }
}

/// Opens the ledger and folds what the snapshot does not hold yet.
fn roll_forward(
    (seams, store): (&Seams, &Store),
    origin: &str,
    pairs: &Pairs,
    remembered: Vec<Remembered>,
    use_snapshot: bool,
    progress: &mut dyn FnMut(u64),
) -> Result<(Ledger, Found, Folded), HomeError> {
    // Read within the transaction too: each read outside of one locks and unlocks the index again.
    store.begin()?;
    let heads = remembered.clone();
    let done = roll_forward_within((seams, store), origin, pairs, heads, use_snapshot, progress);
    if done.is_err() {
        store.roll_back()?;
        return done;
    }
    match store.commit() {
        Err(error) if error.is_full() => {
            // Once it is kept open, a commit does nothing.
            store.keep_open()?;
            roll_forward(
                (seams, store),
                origin,
                pairs,
                remembered,
                use_snapshot,
                progress,
            )
        }
        other => {
            other?;
            done
        }
    }
}

/// Makes the index anew, in memory, after the disk had no room for what the last batches added to it
/// and SQLite rolled that back.
///
/// # Errors
/// Returns [`HomeError`] if the ledger or the index reports an error.
pub(super) fn forward_again(core: &mut Core) -> Result<(), HomeError> {
    core.store.roll_back()?;
    core.store.keep_open()?;
    let origin = core.ledger.signer().origin.clone();
    let pairs = Pairs::of(core.keyring.inner())?;
    let (ledger, _, folded) = roll_forward(
        (&core.seams, &core.store),
        &origin,
        &pairs,
        Vec::new(),
        true,
        &mut |_| {},
    )?;
    core.ledger = ledger;
    core.state = folded.state;
    core.outstanding = folded.outstanding;
    Ok(())
}

/// Does what [`roll_forward`] does, within a transaction of the caller.
fn roll_forward_within(
    (seams, store): (&Seams, &Store),
    origin: &str,
    pairs: &Pairs,
    mut remembered: Vec<Remembered>,
    use_snapshot: bool,
    progress: &mut dyn FnMut(u64),
) -> Result<(Ledger, Found, Folded), HomeError> {
    if !use_snapshot {
        store.clear_within()?;
    }
    let snapshot = if use_snapshot {
        store.snapshot()?
    } else {
        None
    };
    let tip = store.tip()?;
    let anchored = snapshot.as_ref().map(|snapshot| &snapshot.position);
    // The scan itself checks the position of the snapshot.
    if let Some(tip) = tip
        .as_ref()
        .filter(|tip| use_snapshot && Some(*tip) != anchored)
    {
        // The index can know lines after the snapshot that a restored, older ledger does not have.
        let tip = Position::from_stored(tip).ok_or_else(|| {
            StoreError::Damaged("the index's position contradicts itself".to_owned())
        })?;
        recover::check_anchor(seams.disk.as_ref(), &tip)?;
    }
    let (anchor, mut state, outstanding) = match snapshot {
        Some(Snapshot {
            position,
            state,
            outstanding,
        }) => {
            let position = Position::from_stored(&position).ok_or_else(|| {
                StoreError::Damaged("the snapshot's position contradicts itself".to_owned())
            })?;
            (Some(position), state, outstanding)
        }
        None => (None, State::default(), Outstanding::new()),
    };
    // A snapshot of an earlier version lacks it.
    origin.clone_into(&mut state.log);
    if released::must_look(seams.disk.as_ref(), store, tip.as_ref())? {
        let disk = seams.disk.as_ref();
        remembered.extend(released::newest(disk, state.clock.last, seams.clock.now())?);
    }
    let known = pairs.known(
        origin,
        Heads {
            remembered,
            given_up: state.given_up.clone(),
        },
    )?;
    let mut folded = Folded::from(state, outstanding);
    let mut bytes: u64 = 0;
    let opened = recover::open(Arc::clone(&seams.disk), known, anchor, &mut |line| {
        bytes = bytes.saturating_add(line.length).saturating_add(1);
        if line.kind == "seal" {
            progress(bytes);
        }
        folded.line(store, line)
    });
    let (ledger, found) = match opened {
        Ok(opened) => opened,
        Err(error) => return Err(folded.failure.take().unwrap_or(HomeError::Ledger(error))),
    };
    let position = ledger.position().to_stored();
    if tip.as_ref() != Some(&position) {
        store.save_tip(&position)?;
    }
    Ok((ledger, found, folded))
}

impl Home {
    /// Rebuilds the state from the first line, and returns whether it is the same as before.
    ///
    /// # Errors
    /// Returns [`HomeError`] if the ledger was pruned or the home cannot be opened.
    pub fn rebuild(root: &Path, seams: Seams) -> Result<(Home, bool), HomeError> {
        Home::rebuild_telling(root, seams, &mut |_| {})
    }

    /// Like [`Home::rebuild`], but after each batch calls `progress` with the number of bytes of
    /// lines read.
    ///
    /// # Errors
    /// Returns [`HomeError`] if the ledger was pruned or the home cannot be opened.
    pub fn rebuild_telling(
        root: &Path,
        seams: Seams,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(Home, bool), HomeError> {
        let path = root.join(STATE_FILE);
        // Hold one lock throughout: a gate that started in between would go on with an index that
        // is removed under it.
        let (lock, genesis) = Home::lock(root, &seams)?;
        super::pruning::demand_contents(seams.disk.as_ref())?;
        let before = if path.exists() {
            let opened = Home::parts(root, None, Hold::Long)
                .and_then(|parts| Home::assemble(root, seams.clone(), parts, &genesis.origin));
            // Close it again here, so that no two indexes are open while the files change under
            // them.
            match opened {
                Ok(home) => Some((
                    home.core.state.clone(),
                    home.core.outstanding.clone(),
                    home.core.store.dump()?,
                )),
                // An unusable state.db is what this command is for.
                Err(HomeError::Store(_)) => None,
                Err(error) => return Err(error),
            }
        } else {
            None
        };
        Store::remove(root).map_err(|source| HomeError::disk(&path, source))?;
        let parts = Home::parts(root, lock, Hold::Long)?;
        let again = Home::assemble_telling(root, seams, parts, &genesis.origin, progress)?;
        let Core {
            state,
            outstanding,
            store,
            ..
        } = &again.core;
        let after = (state.clone(), outstanding.clone(), store.dump()?);
        let same = before.is_some_and(|before| before == after);
        Ok((again, same))
    }
}
