//! Opening a home for deciding: lock, recovery, roll-forward, redo.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::absence::Absence;
use super::actions::Actions;
use super::asking::Asking;
use super::elsewhere::Elsewhere;
use super::notify::Notifying;
use super::rollback;
use super::rotation::Pairs;
use super::rulebook::{self, Watched};
use super::socket::{Door, is_through_socket};
use crate::gate::council::RoleAnswer;
use crate::gate::prepare::Origin;
use crate::gate::record::{Event, Genesis, Record};
use crate::gate::{State, events, outbox};
use crate::host::clock::Clock;
use crate::host::disk::Disk;
use crate::host::entropy::{Entropy, EntropyError};
use crate::host::keyring::{CachedKeyring, KEYRING_FILE, KeyringError, SqliteKeyring};
use crate::host::lock::{self, HomeLock};
use crate::host::sandbox::Boxed;
use crate::ledger::heads::{Heads, Remembered};
use crate::ledger::log::{self, Position};
use crate::ledger::recover::{self, Found};
use crate::ledger::scan::SealedLine;
use crate::ledger::{Ledger, LedgerError, line, segment};
use crate::rules::load::{RuleFolder, RuleSource};
use crate::rules::{Rulebook, RulebookError};
use crate::spool::claim;
use crate::spool::name::ClaimName;
use crate::spool::publish;
use crate::spool::retire::{self, Done, Keep};
use crate::spool::scan::Scanner;
use crate::spool::watch::Waker;
use crate::state::fold::{AnswerFor, FoldFailure, Outstanding, fold};
use crate::state::store::{Hold, STATE_FILE};
use crate::state::{Snapshot, Store, StoreError};
use crate::wire::code::{Code, Exit};
use crate::wire::gateway::ActionId;
use crate::wire::ids::{Principal, ProposalId};
use crate::wire::time::Time;

/// The outside, as handed in.
#[derive(Clone)]
pub struct Seams {
    /// Files.
    pub disk: Arc<dyn Disk>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub entropy: Arc<dyn Entropy>,
}

/// Why a home cannot be opened or go on.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// Another gate holds the lock.
    #[error(
        "another gate is running over `{0}`; stop it, or hand requests to it with `spoolgate handle` or `submit`"
    )]
    Busy(PathBuf),
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The index.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The keyring.
    #[error(transparent)]
    Keyring(#[from] KeyringError),
    /// A key that cannot be one.
    #[error(transparent)]
    Key(#[from] crate::ledger::note::KeyError),
    /// The rule files, where there is no last good rulebook.
    #[error("rule file {0}")]
    Rulebook(#[from] RulebookError),
    /// No randomness.
    #[error(transparent)]
    Entropy(#[from] EntropyError),
    /// A ledger line that this program cannot fold.
    #[error("ledger: {0}")]
    Record(String),
    /// An answer that cannot be made again.
    #[error("a stored answer cannot be made again: {0}")]
    AnswerLost(String),
    /// The disk, outside the ledger.
    #[error("`{path}`: {source}{}", way_out(source))]
    Disk {
        /// Where.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Something else lies where a folder of the home belongs.
    #[error(
        "`{0}` is a file or a link, or lies below one, and must be a folder of the home itself; move it away, then start again"
    )]
    NoFolder(PathBuf),
    /// What is asked cannot be told until a gate has run.
    #[error("{0}")]
    Unsettled(String),
    /// Who asked may not, or not so.
    #[error("{0}")]
    NotAllowed(String),
    /// There is no home here.
    #[error("`{0}` is not a home; run `spoolgate init` first, or name the home with --home")]
    NotAHome(PathBuf),
    /// The first person is not in the rules.
    #[error(
        "`{0}` is not a principal with `role: human` in rules/principals.yaml; add it there first, or name another with --person"
    )]
    NoPerson(Principal),
}

/// What to do about what the disk says, where that can be told.
fn way_out(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "; make room there, then do it again",
        io::ErrorKind::ReadOnlyFilesystem => "; mount it for writing, then do it again",
        io::ErrorKind::PermissionDenied => "; do it as the user whom it belongs to",
        _ => "",
    }
}

impl HomeError {
    /// A disk error at a path.
    pub fn disk(path: &Path, source: io::Error) -> HomeError {
        HomeError::Disk { path: path.to_owned(), source }
    }

    /// The exit code of a command that ends with this.
    pub fn exit(&self) -> Exit {
        match self {
            HomeError::Busy(_) | HomeError::Unsettled(_) => Exit::Busy,
            HomeError::Ledger(LedgerError::Corrupt(_)) | HomeError::Record(_) => Exit::LedgerCorrupt,
            HomeError::Rulebook(_)
            | HomeError::NoPerson(_)
            | HomeError::NotAllowed(_)
            | HomeError::Key(_)
            | HomeError::NotAHome(_) => Exit::Malformed,
            _ => Exit::Storage,
        }
    }

    /// The stable code of the same, where it has one: mistakes of the command line have none.
    pub fn code(&self) -> Option<Code> {
        match (self, self.exit()) {
            (HomeError::Rulebook(_), _) => Some(Code::RulebookInvalid),
            (_, Exit::Busy) => Some(Code::Busy),
            (_, Exit::LedgerCorrupt) => Some(Code::LedgerCorrupt),
            (_, Exit::Malformed) => None,
            _ => Some(Code::Storage),
        }
    }
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
    /// Its lock; none where nobody else can be there.
    pub lock: Option<HomeLock>,
}

/// Hears of events: rule files that came into force or broke, the halt file, clock steps, quotas, obstacles
/// where answers go.
pub type OnEvent = Box<dyn FnMut(&Event) + Send>;

/// An open home. Dropping it releases the lock.
pub struct Home {
    pub(super) root: PathBuf,
    pub(super) seams: Seams,
    pub(super) keyring: CachedKeyring,
    pub(super) ledger: Ledger,
    pub(super) store: Store,
    pub(super) state: State,
    pub(super) rulebook: Rulebook,
    pub(super) watched: Watched,
    pub(super) scanner: Scanner,
    /// Decision lines whose answers are not known to be durable.
    pub(super) outstanding: Outstanding,
    /// Claims of commands that wait for what comes of an outgoing action, by its request line.
    pub(super) unanswered: BTreeMap<u64, Vec<ClaimName>>,
    /// What an earlier gate left open and this one closes, in words.
    pub(super) left_open: Vec<String>,
    /// Claims of an earlier process that are not decided yet.
    pub(super) left_behind: VecDeque<ClaimName>,
    /// Lines that go in front of the next batch.
    pub(super) events: Vec<Record>,
    /// What roles' commands answered, on its way into the next batch.
    pub(super) role_answers: Vec<RoleAnswer>,
    /// Roles that commands answer; none: nobody asks them.
    pub(super) asking: Option<Asking>,
    /// Requests that wait for a command of admission; none: nobody ever did.
    pub(super) elsewhere: Option<Elsewhere>,
    /// Who has not been heard of for how long.
    /// What is being done outside.
    pub(super) actions: Actions,
    /// Where requests come as frames; none: nowhere.
    pub(super) door: Option<Door>,
    pub(super) absence: Absence,
    /// Ends the wait of a watcher.
    pub(super) waker: Option<Waker>,
    /// Cases decided in this batch.
    pub(super) cases_decided: usize,
    /// Whether cases are due that the last batch left to the next.
    pub(super) more_cases_due: bool,
    /// Whether case files were written that are not known to be durable.
    pub(super) case_files_outstanding: bool,
    /// Whether files of held requests were written that are not known to be durable.
    pub(super) hold_files_outstanding: bool,
    /// Whether tasks were forwarded that are not known to be durable.
    pub(super) forwarded_outstanding: bool,
    /// Whether instructions were written that are not known to be durable.
    pub(super) instructions_outstanding: bool,
    /// Instructions that something stood in the way of: until they are there nothing is marked as published.
    pub(super) instructions_blocked: BTreeMap<PathBuf, Vec<u8>>,
    /// Whether files of rules were written that are not known to be durable.
    pub(super) rules_written: bool,
    /// Whether files of proposals were.
    pub(super) proposals_outstanding: bool,
    /// Files of rules that something stood in the way of, with the line that changed them: until they are there, the
    /// files are not what is in force, and nothing is marked as published.
    pub(super) rules_blocked: BTreeMap<PathBuf, u64>,
    /// People being told of proposals.
    pub(super) notifying: Notifying,
    /// When approved files were last looked for.
    pub(super) approved_looked_ms: Option<u64>,
    /// What was said of approved files that do not count: said once.
    pub(super) approved_told: BTreeMap<ProposalId, String>,
    /// Lines since the last snapshot.
    pub(super) lines_since_snapshot: u64,
    /// What recovery found.
    pub found: Found,
    /// Whether state.db spoke of lines that this ledger does not have, or was damaged, and was made again.
    pub index_was_elsewhere: bool,
    /// Hears of events once they are durable.
    pub(super) on_event: Option<OnEvent>,
    /// What nobody was there to hear of.
    pub(super) untold: Vec<Event>,
    /// What is left of the file system; none: all of it.
    pub(super) sandbox: Option<Boxed>,
    pub(super) rules: Arc<dyn RuleSource>,
    _lock: Option<HomeLock>,
}

/// What the first line of a log says of it.
///
/// # Errors
/// [`HomeError`].
pub fn read_genesis(root: &Path, disk: &dyn Disk) -> Result<Genesis, HomeError> {
    let path = segment::path(1);
    let checkpoint = Path::new(log::CHECKPOINT_FILE);
    let file =
        segment::open_head(disk, Path::new(segment::AUDIT_DIR), 1).map_err(|source| match source.kind() {
            // Whoever made a new home here would bury the trace of the old one.
            io::ErrorKind::NotFound if matches!(disk.stat(checkpoint), Ok(Some(_))) => {
                HomeError::Record(format!(
                    "`{}` is gone while `{}` is there: bring it back from a copy",
                    path.display(),
                    checkpoint.display()
                ))
            }
            io::ErrorKind::NotFound => HomeError::NotAHome(root.to_owned()),
            _ => HomeError::disk(&path, source),
        })?;
    let mut reader = crate::ledger::scan::LineReader::new(file.as_ref(), 0);
    let bytes = match reader.next_line().map_err(|source| HomeError::disk(&path, source))? {
        crate::ledger::scan::NextLine::Line(_, bytes) => bytes,
        _ => return Err(HomeError::Record("the first line is not whole".to_owned())),
    };
    let line = line::parse(&bytes).map_err(|error| HomeError::Record(format!("the first line: {error}")))?;
    match Record::parse(line.kind, &line.body()) {
        Ok(Some(Record::Genesis(genesis))) => Ok(genesis),
        Ok(_) => Err(HomeError::Record("the first line is not a genesis line".to_owned())),
        Err(error) => Err(HomeError::Record(format!("the first line: {error}"))),
    }
}

/// What a sealed decision says of the claim it is about.
struct Kept {
    batch: u64,
    place: Option<String>,
    sha256: Option<String>,
    /// The request line of the action that is open and that it waits for.
    waits_for: Option<u64>,
}

/// The lines of a log folded, as far as they were read.
pub(super) struct Folded {
    state: State,
    outstanding: Outstanding,
    /// Why a line could not be folded.
    pub(super) failure: Option<HomeError>,
    lines: u64,
}

impl Folded {
    /// Nothing yet, on top of this.
    pub(super) fn from(state: State, outstanding: Outstanding) -> Folded {
        Folded { state, outstanding, failure: None, lines: 0 }
    }

    pub(super) fn line(&mut self, store: &Store, line: &SealedLine) -> io::Result<()> {
        self.lines += 1;
        if let Err(error) = self.try_line(store, line) {
            // The scan speaks io::Error; the reason itself is kept here.
            self.failure = Some(error);
            return Err(io::Error::other("a line cannot be folded"));
        }
        Ok(())
    }

    fn try_line(&mut self, store: &Store, line: &SealedLine) -> Result<(), HomeError> {
        let record = Record::parse(&line.kind, &line.body)
            .map_err(|error| HomeError::Record(format!("line {}: {error}", line.seq)))?;
        let Some(record) = record else { return Ok(()) };
        fold(&mut self.state, store, &mut self.outstanding, line.seq, &record)?;
        if record.is_indexed() {
            store.insert_line(line.seq, line.location(), &record)?;
        }
        Ok(())
    }
}

impl Home {
    /// Opens a home: takes the lock, recovers the ledger, rolls the state forward and redoes what a crash
    /// left undone. Nothing is published or appended before the ledger is known to be sound.
    ///
    /// # Errors
    /// [`HomeError`].
    pub fn open(root: &Path, seams: Seams) -> Result<Home, HomeError> {
        Home::open_for(root, seams, Hold::Long, &mut |_| {})
    }

    /// The same, and `progress` hears after each batch that the index does not know yet how many bytes of lines
    /// were read.
    ///
    /// # Errors
    /// [`HomeError`].
    pub fn open_telling(root: &Path, seams: Seams, progress: &mut dyn FnMut(u64)) -> Result<Home, HomeError> {
        Home::open_for(root, seams, Hold::Long, progress)
    }

    /// The same for a command that decides one request and ends.
    ///
    /// # Errors
    /// [`HomeError`].
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
        Home::assemble_telling(root, seams, Home::parts(root, lock, hold)?, &genesis.origin, progress)
    }

    /// Takes the lock and makes the folders that are missing.
    pub(super) fn lock(root: &Path, seams: &Seams) -> Result<(Option<HomeLock>, Genesis), HomeError> {
        let is_log = || segment::is_log(&root.join(segment::AUDIT_DIR));
        let lock = lock::try_lock(root)
            .map_err(|source| match source.kind() {
                // Where there is a ledger, `init` would be no way out: it makes no home twice.
                io::ErrorKind::NotFound if is_log() => HomeError::disk(
                    &root.join(KEYRING_FILE),
                    io::Error::other("is gone, and the keys of the log with it; bring it back from a copy"),
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

    /// The parts of a home on disk.
    pub(super) fn parts(root: &Path, lock: Option<HomeLock>, hold: Hold) -> Result<Parts, HomeError> {
        Ok(Parts {
            rules: Arc::new(RuleFolder::of(root)),
            keyring: SqliteKeyring::open(root, false)?,
            store: Store::open(root, hold)?,
            lock,
        })
    }

    /// The same from parts that need not be on disk, for simulations: everything else goes through `seams`.
    ///
    /// # Errors
    /// [`HomeError`].
    pub fn assemble(root: &Path, seams: Seams, parts: Parts, origin: &str) -> Result<Home, HomeError> {
        Home::assemble_telling(root, seams, parts, origin, &mut |_| {})
    }

    fn assemble_telling(
        root: &Path,
        seams: Seams,
        parts: Parts,
        origin: &str,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Home, HomeError> {
        let Parts { rules, keyring, store, lock } = parts;
        let pairs = Pairs::of(&keyring)?;
        let mut heads = rollback::beside_index(seams.disk.as_ref(), &store)?;
        let mut home = match roll_forward((&seams, &store), origin, &pairs, heads.clone(), true, progress) {
            // That lines do not fit the snapshot is told of the ledger only if they do not fit each other.
            Err(
                HomeError::Ledger(LedgerError::NotOnLog)
                | HomeError::Store(StoreError::Damaged(_))
                | HomeError::Record(_),
            ) => {
                super::pruning::demand_contents(seams.disk.as_ref())?;
                // An index that was at a head of this log which the log does not have is not made again over it.
                heads.extend(rollback::of_index(&store));
                let forward = roll_forward((&seams, &store), origin, &pairs, heads, false, progress)?;
                let mut home = Home::over(root, seams, Parts { rules, keyring, store, lock }, forward)?;
                home.index_was_elsewhere = true;
                home
            }
            forward => Home::over(root, seams, Parts { rules, keyring, store, lock }, forward?)?,
        };
        home.check_clock_at_start();
        match home.redo() {
            // The index names lines that are not where it says. Either it is wrong, and is made again, or the
            // ledger is, and reading all of it says where.
            Err(HomeError::Store(StoreError::Damaged(_))) => {
                let Home { root, seams, keyring, store, rules, events, found, _lock: lock, .. } = home;
                super::pruning::demand_contents(seams.disk.as_ref())?;
                let heads = rollback::of_index(&store);
                let forward = roll_forward((&seams, &store), origin, &pairs, heads, false, progress)?;
                let parts = Parts { rules, keyring: keyring.into_inner(), store, lock };
                home = Home::over(&root, seams, parts, forward)?;
                home.events = events;
                home.found = found;
                home.index_was_elsewhere = true;
                home.redo()?;
            }
            other => other?,
        }
        pairs.settle(home.keyring(), &home.ledger)?;
        let now = home.ledger_now();
        home.close_left_open();
        home.check_program_at_start(now);
        let rules = home.look_at_rules(now, true)?;
        home.events.extend(rules);
        Ok(home)
    }

    pub(super) fn over(
        root: &Path,
        seams: Seams,
        parts: Parts,
        (ledger, found, folded): (Ledger, Found, Folded),
    ) -> Result<Home, HomeError> {
        let Parts { rules, keyring, store, lock } = parts;
        let rulebook =
            rulebook::kept_or_present(seams.disk.as_ref(), &folded.state.rulebook.hash, rules.as_ref())?;
        let mut home = Home {
            root: root.to_owned(),
            keyring: CachedKeyring::new(keyring),
            ledger,
            store,
            state: folded.state,
            rulebook,
            watched: Watched::default(),
            scanner: Scanner::default(),
            outstanding: folded.outstanding,
            unanswered: BTreeMap::new(),
            left_open: Vec::new(),
            left_behind: VecDeque::new(),
            events: Vec::new(),
            role_answers: Vec::new(),
            asking: None,
            elsewhere: None,
            actions: Actions::default(),
            door: None,
            absence: Absence::default(),
            waker: None,
            cases_decided: 0,
            more_cases_due: false,
            case_files_outstanding: false,
            hold_files_outstanding: false,
            forwarded_outstanding: false,
            instructions_outstanding: false,
            instructions_blocked: BTreeMap::new(),
            rules_written: false,
            proposals_outstanding: false,
            rules_blocked: BTreeMap::new(),
            notifying: Notifying::default(),
            approved_looked_ms: None,
            approved_told: BTreeMap::new(),
            lines_since_snapshot: folded.lines,
            found,
            index_was_elsewhere: false,
            on_event: None,
            untold: Vec::new(),
            sandbox: None,
            seams,
            rules,
            _lock: lock,
        };
        home.open_agent_spools()?;
        Ok(home)
    }

    /// Outgoing actions that an earlier gate left open, each in words: they are closed with the next batch.
    pub fn left_open(&self) -> &[String] {
        &self.left_open
    }

    /// The state.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The rulebook in force, or the last good one.
    pub fn rulebook(&self) -> &Rulebook {
        &self.rulebook
    }

    /// Has `hear` told of every event from now on, those that opening noticed included.
    pub fn tell_events(&mut self, mut hear: OnEvent) {
        std::mem::take(&mut self.untold).iter().for_each(&mut hear);
        self.on_event = Some(hear);
    }

    /// Why the rule files on disk could not be used when they were last read. The state says so from the
    /// next batch on.
    pub fn rules_fault(&self) -> Option<&str> {
        self.watched.fault()
    }

    /// The keyring.
    pub fn keyring(&self) -> &SqliteKeyring {
        self.keyring.inner()
    }

    /// The index.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Where the ledger ends.
    pub fn position(&self) -> &Position {
        self.ledger.position()
    }

    /// The gate's clock: never before the last line, unless a person just accepted that it is.
    pub(super) fn ledger_now(&self) -> Time {
        let now = self.seams.clock.now();
        if self.state.clock.accepted {
            return now;
        }
        self.state.clock.last.map_or(now, |last| last.max(now))
    }

    /// A step back of more than 2 s, or a gap forward beyond the bound, closes entries until a person has
    /// looked: time windows, freshness and staleness all hang on the clock.
    pub(super) fn clock_step(&self, at_start: bool) -> Option<Record> {
        let last = self.state.clock.last?;
        let machine = self.seams.clock.now();
        let step_ms = machine.since_ms(last);
        let gap_max_ms = i64::from(self.rulebook.safety.clock_gap_max_s).saturating_mul(1000);
        let stepped = step_ms < -2000 || (at_start && step_ms > gap_max_ms);
        if !stepped || self.state.clock.fault.is_some() || self.state.clock.accepted {
            return None;
        }
        Some(Record::ClockStep(events::clock_step(last, machine)))
    }

    /// Who decides a line differently than it was decided has to know by which version that was.
    fn check_program_at_start(&mut self, now: Time) {
        let before = &self.state.program;
        if before == crate::VERSION {
            return;
        }
        self.events.push(Record::Start(events::program_changed(before, crate::VERSION, now)));
    }

    fn check_clock_at_start(&mut self) {
        let step = self.clock_step(true);
        self.events.extend(step);
    }

    /// What a crash can have left undone, from the ledger alone: answers that are not on disk as they were
    /// decided, and claims whose decision is sealed.
    fn redo(&mut self) -> Result<(), HomeError> {
        let disk = Arc::clone(&self.seams.disk);
        let work = Path::new(claim::WORK_DIR);
        let mut decided: BTreeMap<(String, String), Kept> = BTreeMap::new();
        let mut newest: BTreeMap<String, u64> = BTreeMap::new();
        let mut derived: Vec<(u64, Record)> = Vec::new();
        let claims = claim::left_behind(disk.as_ref()).map_err(|source| HomeError::disk(work, source))?;
        for (seq, whose) in &self.outstanding {
            // Without its claim, an answer to a command was taken long ago.
            if *whose == AnswerFor::Command && claims.is_empty() {
                continue;
            }
            let (batch, record) = self.record(*seq)?;
            let decision = match record {
                Record::Decision(decision) => *decision,
                Record::Response(line) => {
                    newest.extend(line.answers().map(|answer| (answer.to_owned(), *seq)));
                    continue;
                }
                record => {
                    derived.push((*seq, record));
                    continue;
                }
            };
            let instructs = outbox::instructs(&decision.changes);
            let holds = decision.of_approvals().next().is_some();
            if holds
                || decision.changes_rules()
                || decision.is_on_a_case()
                || decision.forwarded_to().is_some()
                || instructs
            {
                derived.push((*seq, Record::Decision(Box::new(decision.clone()))));
            }
            newest.insert(decision.answer, *seq);
            let line = decision.metadata.replay_of.unwrap_or(*seq);
            let is_open = self.state.actions.open.contains_key(&ActionId(line));
            let waits_for = is_open.then_some(line);
            let kept = Kept { batch, place: decision.kept, sha256: decision.file_sha256, waits_for };
            decided.insert((decision.spool, decision.file), kept);
        }
        let mut undelivered: BTreeSet<String> = BTreeSet::new();
        let mut to_retire = Vec::new();
        for claim in claims {
            // Claims of one name are never in work side by side, but for those set aside, whose numbers no batch
            // has; so a decision from the claim's batch on is its own, whatever the file holds by now.
            let key = (claim.origin.label(), claim.file.clone());
            match decided.get(&key).filter(|kept| kept.batch >= claim.batch) {
                Some(Kept { waits_for: Some(line), .. }) if claim.origin == Origin::Local => {
                    self.unanswered.entry(*line).or_default().push(claim);
                }
                Some(kept) => {
                    undelivered.insert(format!("local/out/{}", claim.file));
                    to_retire.push((claim, kept));
                }
                None => self.left_behind.push_back(claim),
            }
        }
        for (answer, seq) in newest {
            // Whoever asked through the socket asks again.
            if is_through_socket(&answer) {
                continue;
            }
            // An answer handed to a command is removed by it; where the claim is gone, that was before.
            if answer.starts_with("local/out/") && !undelivered.contains(&answer) {
                continue;
            }
            // What came of an action that is open is answered when it is closed.
            if self.answer_if_any(seq).is_ok_and(|answer| answer.is_none()) {
                continue;
            }
            let bytes = match self.answer_bytes(seq) {
                // It cannot be mended, and nobody else must wait for it.
                Err(HomeError::AnswerLost(_)) => continue,
                other => other?,
            };
            let path = publish::path_of(&answer);
            let put = publish::publish_again(disk.as_ref(), &path, &bytes)
                .map_err(|source| HomeError::disk(&path, source))?;
            self.tell_put(&path, &put);
        }
        self.redo_rules(&derived)?;
        self.redo_services(&derived)?;
        for (seq, record) in derived {
            self.publish_proposals_again(seq, record.changes())?;
            self.wipe_credentials(record.changes(), true)?;
            self.redo_case_files(seq, &record)?;
            self.redo_forwarded(&record)?;
            self.redo_holds(&record)?;
            self.publish_instructions(seq, record.changes(), true)?;
        }
        let done: Vec<Done<'_>> = to_retire
            .iter()
            .map(|(claim, Kept { place, sha256, .. })| {
                let sha256 = sha256.as_deref();
                let keep = place.as_deref().map(|place| Keep { place, sha256, bytes: None });
                Done { claim, keep }
            })
            .collect();
        retire::retire(disk.as_ref(), &done).map_err(|source| HomeError::disk(work, source))?;
        Ok(())
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
    // Reading is part of it: each read outside of a transaction locks and unlocks the index anew.
    store.begin()?;
    match roll_forward_within((seams, store), origin, pairs, remembered, use_snapshot, progress) {
        Ok(forward) => {
            store.commit()?;
            Ok(forward)
        }
        Err(error) => {
            store.roll_back()?;
            Err(error)
        }
    }
}

fn roll_forward_within(
    (seams, store): (&Seams, &Store),
    origin: &str,
    pairs: &Pairs,
    remembered: Vec<Remembered>,
    use_snapshot: bool,
    progress: &mut dyn FnMut(u64),
) -> Result<(Ledger, Found, Folded), HomeError> {
    if !use_snapshot {
        store.clear_within()?;
    }
    let snapshot = if use_snapshot { store.snapshot()? } else { None };
    let tip = store.tip()?;
    let anchored = snapshot.as_ref().map(|snapshot| &snapshot.position);
    // A snapshot's own place is looked for where the scan begins.
    if let Some(tip) = tip.as_ref().filter(|tip| use_snapshot && Some(*tip) != anchored) {
        // The index can know lines behind the snapshot that a restored, older ledger does not have.
        let tip = Position::from_stored(tip)
            .ok_or_else(|| StoreError::Damaged("the index's position contradicts itself".to_owned()))?;
        recover::check_anchor(seams.disk.as_ref(), &tip)?;
    }
    let (anchor, state, outstanding) = match snapshot {
        Some(Snapshot { position, state, outstanding }) => {
            let position = Position::from_stored(&position).ok_or_else(|| {
                StoreError::Damaged("the snapshot's position contradicts itself".to_owned())
            })?;
            (Some(position), state, outstanding)
        }
        None => (None, State::default(), Outstanding::new()),
    };
    let known = pairs.known(origin, Heads { remembered, given_up: state.given_up.clone() })?;
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
    /// Makes the state again from the first line on, and says whether it came out as it was.
    ///
    /// # Errors
    /// [`HomeError`].
    pub fn rebuild(root: &Path, seams: Seams) -> Result<(Home, bool), HomeError> {
        Home::rebuild_telling(root, seams, &mut |_| {})
    }

    /// The same, and `progress` hears after each batch how many bytes of lines were read.
    ///
    /// # Errors
    /// [`HomeError`].
    pub fn rebuild_telling(
        root: &Path,
        seams: Seams,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(Home, bool), HomeError> {
        let path = root.join(STATE_FILE);
        // One lock throughout: a gate that came in between would go on with an index that is removed under it.
        let (lock, genesis) = Home::lock(root, &seams)?;
        super::pruning::demand_contents(seams.disk.as_ref())?;
        let before = if path.exists() {
            let opened = Home::parts(root, None, Hold::Long)
                .and_then(|parts| Home::assemble(root, seams.clone(), parts, &genesis.origin));
            // Closed again within these lines: no two indexes are open while the files change under them.
            match opened {
                Ok(home) => Some((home.state.clone(), home.outstanding.clone(), home.store.dump()?)),
                // A state.db that cannot be used is what this is for.
                Err(HomeError::Store(_)) => None,
                Err(error) => return Err(error),
            }
        } else {
            None
        };
        Store::remove(root).map_err(|source| HomeError::disk(&path, source))?;
        let parts = Home::parts(root, lock, Hold::Long)?;
        let again = Home::assemble_telling(root, seams, parts, &genesis.origin, progress)?;
        let after = (again.state.clone(), again.outstanding.clone(), again.store.dump()?);
        let same = before.is_some_and(|before| before == after);
        Ok((again, same))
    }
}
