//! The invariants right after every recovery, and at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use spoolgate_gate::prepare::Origin;
use spoolgate_gate::record::Decision;
use spoolgate_home::Home;
use spoolgate_home::index::Store;
use spoolgate_host::spool::name::{ClaimName, FileName};
use spoolgate_ledger::verify;
use spoolgate_wire::code::Code;
use spoolgate_wire::signing::sha256_hex;

use super::agents::Sent;
use super::disk::Medium;
use super::life::Life;

macro_rules! ensure {
    ($good:expr, $($why:tt)*) => {
        if !$good {
            return Err(format!($($why)*));
        }
    };
}

pub(super) use ensure;

impl Life {
    /// The six invariants of the spool, right after a recovery.
    pub(super) fn check_recovered(&mut self, home: &Home) -> Result<(), String> {
        self.reader.read_on(&self.disk)?;
        self.seen_answers_are_sealed()?;
        self.nothing_is_decided_twice()?;
        self.everything_is_somewhere()?;
        // On a full disk, answers that the power cut took wait for room, and what could not be
        // written is tried again by the next recovery.
        let was_full = self.disk.was_full();
        if !was_full {
            self.answers_stand()?;
        }
        self.actions_stand(home)?;
        self.cases_stand()?;
        self.trees_stand()?;
        self.control_stands(home)?;
        for (path, bytes) in &self.reader.named {
            ensure!(
                self.disk.holds(path, bytes),
                "{} is no longer what lines name",
                path.display()
            );
        }
        if self.dice.one_in(40) && !was_full {
            self.recovery_is_idempotent()?;
        }
        if self.dice.one_in(80) {
            self.state_follows_from_the_ledger(home)?;
        }
        Ok(())
    }

    /// (1) Every answer that a client may have read has its line, and equals the answer of that
    /// line.
    pub(super) fn seen_answers_are_sealed(&self) -> Result<(), String> {
        for (path, versions) in &self.seen {
            for (bytes, seq) in versions {
                let line = seq
                    .parse()
                    .ok()
                    .and_then(|seq: u64| self.reader.answers.get(&seq));
                ensure!(
                    line == Some(bytes),
                    "{path} was seen as the answer of line {seq}, {}, whose answer is {:?}",
                    String::from_utf8_lossy(bytes),
                    line.map(|line| String::from_utf8_lossy(line).into_owned())
                );
            }
        }
        Ok(())
    }

    /// (2) No request is decided twice.
    pub(super) fn nothing_is_decided_twice(&self) -> Result<(), String> {
        let mut first: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        for (seq, decision) in &self.reader.decisions {
            let stands_aside = matches!(
                decision.metadata.code,
                Some(
                    Code::RequestIdConflict
                        | Code::WrongSpool
                        | Code::SignatureInvalid
                        | Code::RateLimited
                        | Code::StorageLow
                        | Code::ActionsFull
                )
            );
            let (Some(source), Some(id), Some(_)) =
                (&decision.source, &decision.request_id, &decision.key_id)
            else {
                continue;
            };
            if let Some(original) = decision.metadata.replay_of {
                let known = first.get(&(source, id));
                ensure!(
                    known == Some(&original),
                    "line {seq} replays {original}, {source} {id} is {known:?}"
                );
            } else if !stands_aside
                && let Some(before) = first.insert((source, id), *seq)
                // A request whose shape was refused may be repaired under its id.
                && !(decision.attempt > 0 && self.reader.decisions[&before].leaves_id_open())
            {
                return Err(format!(
                    "{source} {id} is decided in lines {before} and {seq}"
                ));
            }
        }
        Ok(())
    }

    pub(super) fn is_line_of(decision: &Decision, sent: &Sent, known_as: &str) -> bool {
        decision.file == known_as && decision.spool == sent.origin.label()
    }

    /// (3) Every request is in exactly one of spool, work and ledger.
    pub(super) fn everything_is_somewhere(&self) -> Result<(), String> {
        let mut claims: BTreeSet<(String, String)> = BTreeSet::new();
        for name in self.disk.names_in("spool/work") {
            if let Some(claim) = ClaimName::parse(OsStr::new(&name)) {
                let again = !claims.insert((claim.origin.label(), claim.file.clone()));
                ensure!(
                    !again,
                    "two claims of {} {}",
                    claim.origin.label(),
                    claim.file
                );
            }
        }
        let mut lines: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        for decision in self.reader.decisions.values() {
            *lines.entry((&decision.spool, &decision.file)).or_default() += 1;
        }
        // The claim of a command stays until the file that it waits for is answered.
        for decision in self
            .reader
            .decisions
            .values()
            .filter(|line| line.spool == Origin::Local.label())
        {
            let begun = decision.metadata.replay_of.or(decision.id.parse().ok());
            let waits = begun.is_some_and(|line| self.is_open(line));
            if waits && claims.contains(&(decision.spool.clone(), decision.file.clone())) {
                claims.remove(&(decision.spool.clone(), decision.file.clone()));
            }
        }
        for sent in &self.agents.sent {
            let known_as = FileName::of(OsStr::new(&sent.name)).known_as;
            let spool = sent.origin.label();
            let waits = self
                .disk
                .number(&spoolgate_host::spool::scan::folder(&sent.origin).join(&sent.name))
                .is_some();
            let lines = lines
                .get(&(spool.as_str(), known_as.as_str()))
                .copied()
                .unwrap_or(0);
            let begun = claims.contains(&(spool, known_as));
            let places = u64::from(waits) + u64::from(begun) + lines;
            ensure!(
                places > 0 || sent.may_be_lost,
                "{} {} is lost: nowhere in spool, work or ledger",
                sent.origin.label(),
                sent.name
            );
            // Where a sync of the log does not make a rename durable, a decided file can reappear
            // after a power cut, and is then answered again.
            let may_come_back = self.medium == Medium::Strict && sent.may_return;
            ensure!(
                places <= 1 || may_come_back,
                "{} {} is in {places} places: in the spool {waits}, begun {begun}, lines {lines}",
                sent.origin.label(),
                sent.name
            );
        }
        Ok(())
    }

    /// (4) Every decision has exactly its answer.
    pub(super) fn answers_stand(&self) -> Result<(), String> {
        let mut newest: BTreeMap<&str, u64> = BTreeMap::new();
        for (seq, decision) in &self.reader.decisions {
            newest.insert(&decision.answer, *seq);
        }
        for (seq, response) in self.reader.responses.values() {
            for place in response.answers() {
                let known = newest.entry(place).or_insert(*seq);
                *known = (*known).max(*seq);
            }
        }
        for (answer, seq) in newest {
            if answer.starts_with("local/") || !self.reader.answers.contains_key(&seq) {
                continue;
            }
            let path = Path::new("spool").join(answer);
            ensure!(
                self.disk.holds(&path, &self.reader.answers[&seq]),
                "{answer} is not the answer of line {seq} (answers are said to be durable up to \
                    {:?}): {:?}",
                self.reader.published,
                self.disk
                    .get(&path)
                    .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            );
        }
        // A command that still waits without an answer gets it now.
        let decided = self
            .reader
            .decisions
            .iter()
            .map(|(seq, decision)| (seq, decision.answer.as_str()));
        let ended = self.reader.responses.values();
        let ended =
            ended.flat_map(|(seq, response)| response.answers().map(move |place| (seq, place)));
        for (seq, place) in decided.chain(ended).filter(|_| !self.power_was_cut) {
            if let (Some(name), Some(answer)) = (
                place.strip_prefix("local/out/"),
                self.reader.answers.get(seq),
            ) && !self.collected.contains(name)
            {
                let path = Path::new("spool/local/out").join(name);
                ensure!(
                    self.disk.holds(&path, answer),
                    "the command that asked {name} hears nothing"
                );
            }
        }
        Ok(())
    }

    /// (6) A second recovery changes nothing.
    pub(super) fn recovery_is_idempotent(&self) -> Result<(), String> {
        let fork = Arc::new(self.disk.fork());
        let before = fork.files();
        let store = Store::in_memory().map_err(|error| error.to_string())?;
        let again = self
            .open_on(&fork, store)
            .map_err(|error| format!("recovering again: {error}"))?;
        drop(again);
        let after = fork.files();
        for (path, bytes) in &before {
            ensure!(
                after.get(path) == Some(bytes),
                "recovering again changed {}",
                path.display()
            );
        }
        let more = after.keys().find(|path| !before.contains_key(*path));
        ensure!(more.is_none(), "recovering again made {more:?}");
        Ok(())
    }

    /// (5) The chain verifies, and the state equals the fold of the ledger.
    pub(super) fn state_follows_from_the_ledger(&self, home: &Home) -> Result<(), String> {
        let fork = Arc::new(self.disk.fork());
        let store = Store::in_memory().map_err(|error| error.to_string())?;
        let again = self
            .open_on(&fork, store)
            .map_err(|error| format!("from the first line: {error}"))?;
        ensure!(
            again.state() == home.state(),
            "the state is not what the ledger says"
        );
        let (there, made) = (home.store().dump(), again.store().dump());
        ensure!(
            there.map_err(|e| e.to_string())? == made.map_err(|e| e.to_string())?,
            "the index is not what the ledger says"
        );
        let options = verify::Options {
            strict: Some(spoolgate_gate::record::canonical),
            threads: 1,
            ..verify::Options::default()
        };
        let report = verify::verify(fork.as_ref(), Path::new("audit"), &options, &|_| ())
            .map_err(|error| error.to_string())?;
        ensure!(report.ok, "audit verify: {report:?}");
        Ok(())
    }

    pub(super) fn everything_is_answered_once(&self) -> Result<(), String> {
        for sent in &self.agents.sent {
            let known_as = FileName::of(OsStr::new(&sent.name)).known_as;
            let lines: Vec<(u64, &Decision)> = self
                .reader
                .decisions
                .iter()
                .filter(|(_, decision)| Life::is_line_of(decision, sent, &known_as))
                .map(|(seq, decision)| (*seq, decision))
                .collect();
            ensure!(
                !lines.is_empty() || sent.may_be_lost,
                "{} has no line",
                sent.name
            );
            let once = self.medium == Medium::Journal || !sent.may_return;
            ensure!(
                lines.len() <= 1 || !once,
                "{} has {} lines",
                sent.name,
                lines.len()
            );
            if sent.durable {
                let hash = sha256_hex(&sent.bytes);
                for (seq, decision) in lines {
                    // A file that was given up, or that has an invalid name, is not read.
                    ensure!(
                        decision.file_sha256.as_ref() == Some(&hash)
                            || decision.file_sha256.is_none(),
                        "line {seq} is about other bytes than {}",
                        sent.name
                    );
                }
            }
        }
        let rulings = self
            .reader
            .rulings
            .values()
            .map(|ruling| ruling.answer.as_str());
        let answers = self
            .reader
            .decisions
            .values()
            .map(|decision| decision.answer.as_str());
        let ended = self
            .reader
            .responses
            .values()
            .flat_map(|(_, response)| response.answers());
        let expected: BTreeSet<&str> = answers.chain(rulings).chain(ended).collect();
        for dir in ["out", "out/solo"] {
            for name in self.disk.names_in(&format!("spool/{dir}")) {
                let answer = format!("{dir}/{name}");
                ensure!(
                    expected.contains(answer.as_str()),
                    "spool/{answer} answers nothing"
                );
            }
        }
        Ok(())
    }

    pub(super) fn refused_bytes_are_kept(&self) -> Result<(), String> {
        for (seq, decision) in &self.reader.decisions {
            let Some(kept) = &decision.kept else { continue };
            let sent = self.agents.sent.iter().find(|sent| {
                Life::is_line_of(
                    decision,
                    sent,
                    &FileName::of(OsStr::new(&sent.name)).known_as,
                )
            });
            let Some(sent) = sent.filter(|sent| sent.durable) else {
                continue;
            };
            if self.medium == Medium::Strict && sent.may_return {
                continue;
            }
            ensure!(
                self.disk.holds(&Path::new("spool").join(kept), &sent.bytes),
                "line {seq}: {kept} is not what was sent as {}",
                sent.name
            );
        }
        Ok(())
    }
}
