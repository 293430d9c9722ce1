//! One seed: a home, its agents, and a gate that dies again and again, by a kill, a power cut or a
//! failing disk, while it works or recovers. After every recovery the invariants of the spool are
//! checked.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

use spoolgate_gate::prepare::Origin;
use spoolgate_gate::record::{EventKind, Ruling};
use spoolgate_home::index::Store;
use spoolgate_home::index::store::Hold;
use spoolgate_home::open::Parts;
use spoolgate_home::{Home, HomeError, Seams, layout};
use spoolgate_host::clock::Clock;
use spoolgate_host::entropy::SeededEntropy;
use spoolgate_host::keyring::{SqliteKeyring, key_id};
use spoolgate_host::rule_folder::{self, RuleSource};
use spoolgate_replay::backtest::{Options, backtest};
use spoolgate_replay::replay;
use spoolgate_rules::{Bundle, RulebookError};
use spoolgate_wire::answer::Answer;
use spoolgate_wire::code::Code;
use spoolgate_wire::council::CouncilDecision;
use spoolgate_wire::ids::Principal;
use spoolgate_wire::signing::SignKey;
use spoolgate_wire::time::Time;

use super::agents::{Agents, Keys, sign};
use super::check::ensure;
use super::clock::SimClock;
use super::disk::{Fault, Lie, Medium, SimDisk};
use super::ledger::Reader;
use super::outside::{self, Outside};
use crate::kit::dice::Dice;

pub(super) const ORIGIN: &str = "spoolgate.invalid/simulation";

/// Kinds of decisions that no rule can affect.
const NOT_DECIDED: [&str; 5] = [
    "no good signature",
    "sent again, and answered with the earlier answer",
    "its id was used before",
    "refused before its payload counted",
    "the gate could not carry it out",
];

/// What happened in all lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Recoveries after a crash that were completed; each was checked.
    pub recoveries: u64,
    /// Recoveries that a crash or a failing disk interrupted.
    pub crashed_recoveries: u64,
    /// Processes killed.
    pub kills: u64,
    /// Power cuts.
    pub power_cuts: u64,
    /// Processes that ended because the disk failed or was full.
    pub disk_failures: u64,
    /// Processes that ended in order.
    pub orderly: u64,
    /// Decisions.
    pub decisions: u64,
    /// Accepted orders.
    pub accepted: u64,
    /// Refused orders.
    pub refused: u64,
    /// Requests that got their stored answer.
    pub replays: u64,
    /// Requests given up at the third attempt.
    pub given_up: u64,
    /// Verdicts that were filed in cases.
    pub verdicts: u64,
    /// Cases that were decided.
    pub cases: u64,
    /// Outgoing actions that were begun.
    pub actions: u64,
    /// Outgoing actions whose outcome is unknown.
    pub unknown: u64,
    /// Torn batches.
    pub torn: u64,
    /// Lines.
    pub lines: u64,
    /// Calls of the disk.
    pub calls: u64,
    /// Differs if anything else happened.
    pub trace: u64,
}

impl Tally {
    /// Adds another tally.
    pub(super) fn add(&mut self, other: &Tally) {
        for (sum, n) in [
            (&mut self.recoveries, other.recoveries),
            (&mut self.crashed_recoveries, other.crashed_recoveries),
            (&mut self.kills, other.kills),
            (&mut self.power_cuts, other.power_cuts),
            (&mut self.disk_failures, other.disk_failures),
            (&mut self.orderly, other.orderly),
            (&mut self.decisions, other.decisions),
            (&mut self.accepted, other.accepted),
            (&mut self.refused, other.refused),
            (&mut self.replays, other.replays),
            (&mut self.given_up, other.given_up),
            (&mut self.verdicts, other.verdicts),
            (&mut self.cases, other.cases),
            (&mut self.actions, other.actions),
            (&mut self.unknown, other.unknown),
            (&mut self.torn, other.torn),
            (&mut self.lines, other.lines),
            (&mut self.calls, other.calls),
        ] {
            *sum += n;
        }
        self.trace ^= other.trace;
    }
}

/// Rule files that are sometimes edited, and sometimes broken.
struct SimRules {
    now: Mutex<Bundle>,
}

impl RuleSource for SimRules {
    fn load(&self) -> Result<Bundle, RulebookError> {
        Ok(self.now.lock().unwrap().clone())
    }
}

const SAFETY: &str = "rules/safety.yaml";

/// This project's own rules, and an agent with a spool of its own.
fn rules() -> &'static Bundle {
    static RULES: OnceLock<Bundle> = OnceLock::new();
    RULES.get_or_init(|| {
        let mut bundle = rule_folder::load(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap();
        let principals = bundle.files.get_mut("rules/principals.yaml").unwrap();
        principals.push_str("  - name: solo\n    role: agent\n    spool: solo\n");
        principals.push_str(outside::PRINCIPAL);
        bundle.files.insert(
            "rules/services.yaml".to_owned(),
            outside::SERVICES.to_owned(),
        );
        bundle
            .files
            .insert("rules/gateway.yaml".to_owned(), outside::GATEWAY.to_owned());
        // Short enough that many cases reach their deadline.
        let roles = bundle.files.get_mut("council/roles.yaml").unwrap();
        *roles = roles.replace("deadline_s: 86400", "deadline_s: 20");
        bundle
    })
}

/// The world of a seed.
pub(super) struct Life {
    pub(super) dice: Dice,
    pub(super) medium: Medium,
    pub(super) disk: Arc<SimDisk>,
    clock: Arc<SimClock>,
    rules: Arc<SimRules>,
    root: tempfile::TempDir,
    pub(super) agents: Agents,
    pub(super) outside: Arc<Outside>,
    pub(super) reader: Reader,
    /// Answers that a client may have read, by path below the spool, with the line that each names.
    pub(super) seen: BTreeMap<String, BTreeMap<Vec<u8>, String>>,
    /// Council decisions that somebody may have read, by path below the spool.
    pub(super) seen_rulings: BTreeSet<(String, Vec<u8>)>,
    /// Older states of the index, which a power cut can bring back.
    images: Vec<Option<Vec<u8>>>,
    /// Answers that commands took.
    pub(super) collected: BTreeSet<String>,
    /// Whether only power cuts and kills have happened, so that no request's attempts were used up
    /// by another.
    pub(super) power_was_cut: bool,
    /// Whether there was one since the last completed recovery.
    has_crashed: bool,
    tally: Tally,
}

/// How a process ended.
#[derive(Debug)]
enum End {
    Orderly,
    Died,
    DiskFailed,
}

/// Runs one seed through at least `recoveries` recoveries.
///
/// The first invariant that does not hold.
pub(super) fn live(seed: u64, recoveries: u64, lie: Option<Lie>) -> Result<Tally, String> {
    Life::new(seed, lie).whole(recoveries)
}

/// Runs one seed and also returns the last calls of the disk in words.
pub(super) fn tell(seed: u64, recoveries: u64) -> (Result<Tally, String>, Vec<String>) {
    let life = Life::new(seed, None);
    life.disk.tell_story();
    let disk = Arc::clone(&life.disk);
    let outcome = life.whole(recoveries);
    (outcome, disk.story())
}

impl Life {
    pub(super) fn new(seed: u64, lie: Option<Lie>) -> Life {
        let mut dice = Dice::apart(seed);
        let medium = if dice.one_in(2) {
            Medium::Journal
        } else {
            Medium::Strict
        };
        let clock = Arc::new(SimClock::at(Time::parse("2026-03-02T12:00:00Z").unwrap()));
        let disk = Arc::new(SimDisk::new(dice.roll(), medium, lie, clock.clone()));
        let root = crate::kit::folder();
        fs::create_dir(root.path().join("state")).unwrap();
        let seams = Seams {
            disk: disk.clone(),
            clock: clock.clone(),
            entropy: Arc::new(SeededEntropy::new(dice.roll())),
        };
        let keyring = SqliteKeyring::open(root.path(), true).unwrap();
        let person = Principal::parse("owner").unwrap();
        let (owner, _) = layout::found_with(&seams, &keyring, rules(), ORIGIN, &person).unwrap();
        let keys = Keys {
            owner: keyring.sign_key(&owner).unwrap().unwrap(),
            bot: SignKey::Hmac([7; 32]),
            solo: SignKey::Hmac([8; 32]),
            council: [
                ("research-bot", "Code Auditor", SignKey::Hmac([17; 32])),
                ("code-auditor", "Code Auditor", SignKey::Hmac([18; 32])),
                (
                    "integration-engineer",
                    "Integration Engineer",
                    SignKey::Hmac([19; 32]),
                ),
            ],
            hermes: SignKey::Hmac([20; 32]),
            core: SignKey::Hmac([21; 32]),
        };
        let now = clock.now();
        let mut first = Vec::new();
        let council = keys.council.iter().map(|(name, _, key)| (*name, key));
        let others = [
            ("trend-bot", &keys.bot),
            ("solo", &keys.solo),
            ("hermes", &keys.hermes),
            ("core", &keys.core),
        ];
        for (name, key) in others.into_iter().chain(council) {
            keyring.insert(&key.verify_key()).unwrap();
            let payload = format!(
                r#"{{"principal":"{name}","key_id":"{}","algorithm":"hmac-sha256"}}"#,
                key_id(&key.verify_key())
            );
            let id = format!("key-{name}");
            first.push((
                format!("{id}.json"),
                sign(&keys.owner, "owner", &id, "keys.add", &payload, now),
            ));
        }
        let deposit = r#"{"amount":"5000","reason":"to begin with"}"#;
        first.push((
            "deposit.json".to_owned(),
            sign(
                &keys.owner,
                "owner",
                "deposit",
                "account.adjust",
                deposit,
                now,
            ),
        ));
        // The tests of `init` cover crashes while a home is made.
        disk.settle();
        let mut agents = Agents::new(keys, Dice::apart(dice.roll()));
        for (name, bytes) in first {
            agents.drop_file(&disk, Origin::Flat, &name, bytes, true);
        }
        let mut life = Life {
            dice,
            medium,
            outside: Arc::new(Outside::over(disk.clone())),
            disk,
            clock,
            rules: Arc::new(SimRules {
                now: Mutex::new(rules().clone()),
            }),
            root,
            agents,
            reader: Reader::default(),
            seen: BTreeMap::new(),
            seen_rulings: BTreeSet::new(),
            images: Vec::new(),
            collected: BTreeSet::new(),
            power_was_cut: false,
            has_crashed: false,
            tally: Tally::default(),
        };
        life.agents.import_prices(&life.disk, life.clock.now());
        life
    }

    fn whole(mut self, recoveries: u64) -> Result<Tally, String> {
        while self.tally.recoveries < recoveries {
            self.one_process()
                .map_err(|why| format!("after {} recoveries: {why}", self.tally.recoveries))?;
        }
        self.end().map_err(|why| {
            format!(
                "at the end, after {} recoveries: {why}",
                self.tally.recoveries
            )
        })?;
        let mut tally = self.tally;
        tally.decisions = self.reader.decisions.len() as u64;
        tally.lines = self.reader.lines;
        tally.torn = self.reader.torn;
        tally.cases = self.reader.rulings.len() as u64;
        tally.verdicts = self
            .reader
            .rulings
            .values()
            .map(|ruling| ruling.verdict_lines.len() as u64)
            .sum();
        tally.actions = self.reader.responses.len() as u64;
        let codes = self
            .reader
            .responses
            .values()
            .map(|(_, response)| response.metadata.code);
        tally.unknown = codes
            .filter(|code| *code == Some(Code::UnknownOutcome))
            .count() as u64;
        for decision in self.reader.decisions.values() {
            tally.replays += u64::from(decision.metadata.replay_of.is_some());
            tally.given_up += u64::from(decision.metadata.code == Some(Code::Internal));
            tally.accepted += u64::from(decision.decision == Some(Ruling::Accepted));
            tally.refused += u64::from(decision.decision == Some(Ruling::Rejected));
        }
        Ok(tally)
    }

    pub(super) fn open_on(&self, disk: &Arc<SimDisk>, store: Store) -> Result<Home, HomeError> {
        let seams = Seams {
            disk: disk.clone(),
            clock: self.clock.clone(),
            entropy: Arc::new(SeededEntropy::new(0)),
        };
        let keyring = SqliteKeyring::open(self.root.path(), false)?;
        let parts = Parts {
            rules: self.rules.clone(),
            keyring,
            store,
            lock: None,
        };
        let mut home = Home::assemble(self.root.path(), seams, parts, ORIGIN)?;
        home.use_adapters(self.outside.clone());
        Ok(home)
    }

    fn open_for(&self, hold: Hold) -> Result<Home, HomeError> {
        self.open_on(&self.disk, Store::open(self.root.path(), hold)?)
    }

    pub(super) fn open(&self) -> Result<Home, HomeError> {
        self.open_for(Hold::Long)
    }

    /// Runs one process from start to end, together with what happens around it.
    fn one_process(&mut self) -> Result<(), String> {
        self.world_moves();
        let dies_at = match self.dice.below(16) {
            0 => None,
            1 | 2 => Some(1 + self.dice.below(60)),
            _ => Some(40 + self.dice.below(130)),
        };
        let fault = self.dice.one_in(6).then(|| Fault {
            at: 1 + self.dice.below(200),
            count: if self.dice.one_in(2) { 1 } else { u64::MAX },
        });
        let room = self.dice.one_in(12).then(|| self.dice.up_to(60_000));
        self.disk.start_process(dies_at, fault, room);
        let hold = if self.dice.one_in(3) {
            Hold::Brief
        } else {
            Hold::Long
        };
        let opened = self.open_for(hold);
        let end = match opened {
            Ok(home) => {
                self.tally.recoveries += u64::from(std::mem::take(&mut self.has_crashed));
                if !self.disk.is_dead() {
                    self.check_recovered(&home)?;
                }
                self.work(home)?
            }
            Err(error) => {
                self.tally.crashed_recoveries += u64::from(self.has_crashed);
                self.judge(error)?
            }
        };
        self.tally.calls += self.disk.calls();
        self.clients_look()?;
        self.keep_image();
        self.has_crashed |= !matches!(end, End::Orderly);
        match end {
            End::Orderly => self.tally.orderly += 1,
            End::Died => self.tally.kills += 1,
            End::DiskFailed => self.tally.disk_failures += 1,
        }
        if matches!(end, End::Died) && self.dice.one_in(2) || self.dice.one_in(16) {
            self.tally.power_cuts += 1;
            self.has_crashed = true;
            self.power_cut();
            self.bring_back_an_image();
        }
        Ok(())
    }

    /// Returns the time of the wall clock.
    pub(super) fn now(&self) -> Time {
        self.clock.now()
    }

    /// Cuts the power for everybody.
    pub(super) fn power_cut(&mut self) {
        self.power_was_cut = true;
        self.disk.power_cut(&mut self.dice);
        self.clock.restart();
        self.agents.power_cut();
    }

    /// What happens while no gate runs, and between its rounds.
    fn world_moves(&mut self) {
        self.clock.pass(self.dice.below(3000));
        match self.dice.below(80) {
            0 => self
                .clock
                .jump(-10_000 - i64::try_from(self.dice.below(7_200_000)).unwrap()),
            1 => {
                self.clock
                    .jump(10_000 + i64::try_from(self.dice.below(10 * 86_400_000)).unwrap());
                // Answers to commands count as abandoned when they are an hour old by the wall
                // clock.
                self.collected
                    .extend(self.agents.sent.iter().map(|sent| sent.name.clone()));
            }
            2 => self.edit_rules("# looked at\n"),
            3 => self.edit_rules("no_such_limit: 1\n"),
            4..=12 => {
                self.rules
                    .now
                    .lock()
                    .unwrap()
                    .files
                    .insert(SAFETY.to_owned(), rules().files[SAFETY].clone());
            }
            13 => self.disk.put(Path::new("rules/HALT"), b"", true),
            14..=19 => {
                self.disk.take(Path::new("rules/HALT"));
            }
            20..=35 => self.agents.import_prices(&self.disk, self.clock.now()),
            36..=45 => self.agents.command(&self.disk, self.clock.now()),
            _ => {}
        }
        for _ in 0..self.dice.below(4) {
            self.agents.one(&self.disk, self.clock.now());
        }
        self.agents.write_on(&self.disk);
    }

    pub(super) fn edit_rules(&self, line: &str) {
        let mut rules = self.rules.now.lock().unwrap();
        let safety = rules.files.get_mut(SAFETY).unwrap();
        if !safety.contains(line) {
            safety.push_str(line);
        }
    }

    /// What the gate does while it runs.
    fn work(&mut self, mut home: Home) -> Result<End, String> {
        let only_local = self.dice.one_in(5);
        if !only_local && self.dice.one_in(2) {
            home.note(EventKind::Start, "the watcher started");
        }
        for _ in 0..1 + self.dice.below(5) {
            let round = match home.round(only_local) {
                Ok(round) => round,
                Err(error) => return self.judge(error),
            };
            self.outside.keep_waiting(self.dice.one_in(3));
            if !self.outside.is_waiting() {
                home.until_actions_end();
            }
            for outcome in &round.outcomes {
                if outcome.decision.decision == Some(Ruling::Accepted) {
                    self.agents.accepted.push(outcome.seq);
                }
            }
            if round.more {
                continue;
            }
            self.commands_look();
            if !only_local
                && home.has_outstanding()
                && self.dice.one_in(2)
                && let Err(error) = home.mark_published()
            {
                return self.judge(error);
            }
            self.world_moves();
        }
        self.outside.keep_waiting(false);
        let ended = if only_local {
            home.settle()
        } else {
            home.finish("the watcher stopped in order")
        };
        match ended {
            Ok(()) => Ok(End::Orderly),
            Err(error) => self.judge(error),
        }
    }

    /// Checks that a gate may end like this: only because of what was done to it, and never because
    /// it reports a sound ledger as corrupt.
    fn judge(&self, error: HomeError) -> Result<End, String> {
        match error {
            HomeError::Disk { .. } => {}
            HomeError::Ledger(spoolgate_ledger::LedgerError::Disk { .. }) => {}
            other => return Err(format!("the gate ended with: {other}")),
        }
        Ok(if self.disk.is_dead() {
            End::Died
        } else {
            End::DiskFailed
        })
    }

    /// A client may have read every answer that is there now.
    pub(super) fn clients_look(&mut self) -> Result<(), String> {
        let may_be_half = self.power_was_cut || self.disk.has_failed();
        let mut bad = None;
        for dir in ["out", "out/solo"] {
            self.disk
                .each_in(&Path::new("spool").join(dir), |name, bytes| {
                    if name.starts_with('.') {
                        return;
                    }
                    let path = format!("{dir}/{name}");
                    if self
                        .seen
                        .get(&path)
                        .is_some_and(|versions| versions.contains_key(bytes))
                    {
                        return;
                    }
                    if name.ends_with(".decision.json") {
                        let is_whole = serde_json::from_slice::<CouncilDecision>(bytes).is_ok();
                        match is_whole && bytes.ends_with(b"\n") {
                            true => drop(self.seen_rulings.insert((path, bytes.to_vec()))),
                            false if may_be_half => {}
                            false => {
                                bad = Some(format!(
                                    "{path} is half a decision though the power never went"
                                ))
                            }
                        }
                        return;
                    }
                    // An answer that is empty, does not end with a line feed or does not parse does
                    // not count yet.
                    match serde_json::from_slice::<Answer>(bytes) {
                        Ok(answer) if bytes.ends_with(b"\n") => {
                            self.seen
                                .entry(path)
                                .or_default()
                                .insert(bytes.to_vec(), answer.audit_ref);
                        }
                        // Half an answer is seen only after a power cut or a failed sync.
                        _ if may_be_half => {}
                        _ => {
                            bad = Some(format!(
                                "{path} is half an answer though the power never went"
                            ))
                        }
                    }
                });
        }
        bad.map_or(Ok(()), Err)
    }

    /// Commands fetch their answers.
    fn commands_look(&mut self) {
        for name in self.disk.names_in("spool/local/out") {
            if !name.starts_with('.') && self.dice.one_in(2) {
                self.disk.take(&Path::new("spool/local/out").join(&name));
                self.collected.insert(name);
            }
        }
    }

    fn state_file(&self) -> PathBuf {
        self.root.path().join("state/state.db")
    }

    fn keep_image(&mut self) {
        if self.images.is_empty() || self.dice.one_in(8) {
            self.images.push(fs::read(self.state_file()).ok());
            if self.images.len() > 4 {
                self.images.remove(0);
            }
        }
    }

    /// The index is written without syncs: a power cut can bring back any earlier state of it, or
    /// none.
    fn bring_back_an_image(&mut self) {
        if self.dice.one_in(2) {
            return;
        }
        let pick = self.dice.up_to(self.images.len() - 1);
        for ending in ["-wal", "-shm"] {
            let _ = fs::remove_file(self.root.path().join(format!("state/state.db{ending}")));
        }
        match self.images[pick].as_ref().filter(|_| !self.dice.one_in(8)) {
            Some(image) => fs::write(self.state_file(), image).unwrap(),
            None => {
                let _ = fs::remove_file(self.state_file());
            }
        }
    }

    /// Runs a last process without trouble: everything is decided, answered and kept.
    pub(super) fn end(&mut self) -> Result<(), String> {
        self.agents.write_on(&self.disk);
        self.rules
            .now
            .lock()
            .unwrap()
            .files
            .insert(SAFETY.to_owned(), rules().files[SAFETY].clone());
        self.disk.start_process(None, None, None);
        let mut home = self
            .open()
            .map_err(|error| format!("the last start: {error}"))?;
        self.check_recovered(&home)?;
        self.outside.keep_waiting(false);
        let mut idle = 0;
        while idle < 3 {
            let round = home.round(false).map_err(|error| error.to_string())?;
            home.until_actions_end();
            idle = if round.more { 0 } else { idle + 1 };
            if !round.more {
                self.clock.pass(2500);
            }
        }
        home.finish("the end").map_err(|error| error.to_string())?;
        self.check_recovered(&home)?;
        let thorough = self.dice.one_in(4);
        if thorough {
            self.state_follows_from_the_ledger(&home)?;
        }
        drop(home);
        if thorough {
            self.recovery_is_idempotent()?;
        }
        for dir in [
            "spool/in",
            "spool/in/solo/new",
            "spool/local/in",
            "spool/work",
        ] {
            let left = self.disk.names_in(dir);
            ensure!(left.is_empty(), "{dir} still holds {left:?}");
        }
        self.everything_is_answered_once()?;
        self.actions_are_over()?;
        self.refused_bytes_are_kept()?;
        let before: Vec<u64> = self.reader.decisions.keys().copied().collect();
        let mut again = self
            .open()
            .map_err(|error| format!("one more start: {error}"))?;
        again.round(false).map_err(|error| error.to_string())?;
        self.reader.read_on(&self.disk)?;
        ensure!(
            self.reader.decisions.keys().copied().eq(before),
            "something was decided out of nothing"
        );
        drop(again);
        // Below, two threads read in an unpredictable order.
        self.tally.trace = self.disk.trace();
        self.recomputed_it_is_the_same()?;
        self.decided_again_it_is_the_same()
    }

    /// Every request is decided again on the state of its time, with the same bytes of its line.
    fn decided_again_it_is_the_same(&self) -> Result<(), String> {
        let options = Options {
            flips: 3,
            ..Options::default()
        };
        let (disk, clock) = (self.disk.clone(), self.clock.clone());
        let seams = Seams {
            disk,
            clock,
            entropy: Arc::new(SeededEntropy::new(0)),
        };
        let report = backtest(self.root.path(), &seams, &options, &mut |_| {})
            .map_err(|error| format!("deciding again: {error}"))?;
        ensure!(
            report.flipped() == 0 && report.other_bytes.is_empty() && report.again > 0,
            "decided again: lines {:?} differ, flips {:?}",
            report.other_bytes,
            report.flips
        );
        let unsure: Vec<_> = report
            .not_again
            .keys()
            .filter(|why| !NOT_DECIDED.contains(why))
            .collect();
        ensure!(unsure.is_empty(), "not decided again: {unsure:?}");
        Ok(())
    }

    /// Every line is recomputed from the audit folder alone, with the same bytes, and every line is
    /// accounted for.
    fn recomputed_it_is_the_same(&self) -> Result<(), String> {
        let options = replay::Options {
            threads: 3,
            ..replay::Options::default()
        };
        let report = replay::replay(self.disk.clone(), Path::new("audit"), &options, &mut |_| {})
            .map_err(|error| format!("replaying: {error}"))?;
        ensure!(report.is_same(), "replaying: {report:#?}");
        let counted: u64 = report.rows.iter().map(|row| row.lines).sum();
        ensure!(
            counted == report.lines,
            "of {} lines {counted} are counted",
            report.lines
        );
        Ok(())
    }
}
