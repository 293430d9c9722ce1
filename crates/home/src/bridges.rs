//! Bridges to venues: the files by which each side shows that it is there, and instructions that the
//! gate takes back.
//!
//! A bridge takes an instruction by renaming its file, and the gate takes one back by renaming it too,
//! so exactly one of them has it. A file whose instruction was written again after a crash proves
//! nothing, because the bridge may have taken the first one: its name ends in `.again.json`.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::batch::Pending;
use super::core::Core;
use super::derived::{File, Line, Projection, Source, Want, is_in_the_way};
use super::error::HomeError;
use super::open::Home;
use super::outbox::{EPOCH, OUTBOX_DIR};
use spoolgate_gate as gate;
use spoolgate_gate::bridges;
use spoolgate_gate::record::{EventKind, Record};
use spoolgate_host::spool::publish;
use spoolgate_ledger::disk::{Kind, Mode};
use spoolgate_trading::book::Bridge;
use spoolgate_trading::change::Change;
use spoolgate_trading::order::OrderRole;
use spoolgate_wire::ids::{OrderId, Principal};
use spoolgate_wire::time::Time;
use spoolgate_wire::venue::RUN_BYTES_MAX;

/// A bridge's sign of life, below its folder.
const ALIVE: &str = ".alive";
/// The gate's sign of life, below the folder of a bridge.
const GATE: &str = ".gate";
/// Where instructions lie that the gate has taken back, below the folder of a bridge.
const BACK_DIR: &str = ".back";
/// Largest sign of life that is read, bytes.
const ALIVE_BYTES_MAX: usize = 4096;
/// How long the gate's own sign of life counts, milliseconds.
const GATE_VALID_MS: i64 = 30_000;
/// How often it is written, milliseconds.
const GATE_EVERY_MS: u64 = 1_000;
/// How long after its time an entry that its bridge has not taken is taken back, milliseconds.
const LATE_MS: i64 = 5_000;
/// Maximum number of files of orders that are over that the gate takes back per look and bridge, and
/// the maximum number of files of `.back` that it settles. A bridge can make as many as it likes.
const BACK_MAX: usize = 64;

/// A bridge's sign of life.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Alive {
    at: Time,
    run: String,
    venue: Venue,
    nonce: Option<String>,
}

/// Whether the bridge reaches its venue.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Venue {
    Ok,
    Down,
}

/// The gate's sign of life.
#[derive(Serialize)]
struct Gate {
    at: Time,
    valid_until: Time,
    epoch: u32,
}

/// The ping of a drill.
#[derive(Serialize)]
struct Ping {
    ping: String,
    epoch: u32,
}

/// What a bridge shows of itself.
enum Sign {
    /// It is there, and reaches its venue.
    Alive(Alive),
    /// Nothing is to be expected of it.
    Silent { since: Time, why: String },
}

/// A file in the folder of a bridge.
enum Told {
    /// An instruction.
    Instruction {
        order_id: OrderId,
        version: u32,
        /// Whether it was written again after a crash.
        is_again: bool,
    },
    /// The ping of a drill, by its ledger line.
    Ping(u64),
}

/// The file of an instruction that was taken back, with its order and version.
type Back = (PathBuf, (OrderId, u32));

impl Told {
    fn parse(name: &OsStr) -> Option<Told> {
        let name = name.to_str()?.strip_suffix(".json")?;
        if let Some(line) = name.strip_prefix("ping.") {
            return line.parse().ok().map(Told::Ping);
        }
        let (name, is_again) = match name.strip_suffix(".again") {
            Some(name) => (name, true),
            None => (name, false),
        };
        let (order_id, version) = name.split_once('.')?;
        Some(Told::Instruction {
            order_id: OrderId::parse(order_id).ok()?,
            version: version.parse().ok()?,
            is_again,
        })
    }
}

/// Projection row of pings: a drill asks every bridge for an answer.
pub(super) struct Pings;

impl Projection for Pings {
    fn name(&self) -> &'static str {
        "pings"
    }

    fn folders(&self) -> &'static [&'static str] {
        &[OUTBOX_DIR]
    }

    fn files(&self, source: &Source<'_>, (seq, record): Line<'_>) -> Result<Vec<File>, HomeError> {
        let is_drill = |change: &gate::Change| matches!(change, gate::Change::Drilled { .. });
        if !record.changes().iter().any(is_drill) {
            return Ok(Vec::new());
        }
        let Core {
            state, rulebook, ..
        } = source.core;
        let ping = Ping {
            ping: seq.to_string(),
            epoch: EPOCH,
        };
        let mut bytes =
            serde_json::to_vec(&ping).map_err(|error| HomeError::Record(error.to_string()))?;
        bytes.push(b'\n');
        let file = |bridge: &Principal| File {
            path: folder_of(bridge).join(format!("ping.{seq}.json")),
            line: seq,
            want: Want::Bytes(bytes.clone()),
        };
        Ok(bridges::used(state, rulebook)
            .into_iter()
            .map(file)
            .collect())
    }
}

impl Home {
    /// Writes the lines about bridges: which of them fell silent or are heard again, which have
    /// answered a ping, which instructions were taken back, and what the imitated exchange answers.
    pub(super) fn push_bridges(
        &mut self,
        pending: &mut Pending,
        now: Time,
    ) -> Result<(), HomeError> {
        let used = bridges::used(&self.core.state, &self.core.rulebook);
        let used: Vec<Principal> = used.into_iter().cloned().collect();
        for bridge in &used {
            let sign = self.core.sign_of(bridge, now)?;
            let known = self.core.state.book.bridges.get(bridge);
            for change in changes(bridge, known, sign, now) {
                if let Some(event) = bridges::noticed(change, now) {
                    self.push_event(pending, Record::Event(EventKind::Bridge, event))?;
                }
            }
        }
        self.push_taken_back(pending, now)?;
        loop {
            let seq = self.core.next_seq(pending);
            let Core {
                state, rulebook, ..
            } = &self.core;
            let Some(event) = bridges::imitated(state, rulebook, seq, now) else {
                break;
            };
            self.push_event(pending, Record::Event(EventKind::Bridge, event))?;
        }
        while let Some(event) = bridges::missing(&self.core.state, &self.core.rulebook, now) {
            self.push_event(pending, Record::Event(EventKind::Bridge, event))?;
        }
        Ok(())
    }

    /// Takes back what bridges shall no longer carry out and have not taken, and writes the lines of
    /// what thereby reached nobody.
    pub(super) fn push_taken_back(
        &mut self,
        pending: &mut Pending,
        now: Time,
    ) -> Result<(), HomeError> {
        let used = bridges::used(&self.core.state, &self.core.rulebook);
        let used: Vec<Principal> = used.into_iter().cloned().collect();
        for bridge in &used {
            self.core.take_back(bridge, now)?;
            loop {
                let back = self.core.back(bridge)?;
                let files: Vec<(OrderId, u32)> = back.iter().map(|(_, file)| *file).collect();
                let Core {
                    state, rulebook, ..
                } = &self.core;
                let Some(event) = bridges::taken_back(state, rulebook, &files, now) else {
                    // Nothing more follows from these files: their lines are durable, or there are none.
                    self.core.forget_back(back, pending)?;
                    break;
                };
                self.push_event(pending, Record::Event(EventKind::Bridge, event))?;
            }
        }
        Ok(())
    }

    /// Shows the bridges that the gate is there, if it watches.
    pub(super) fn show_gate(&mut self, now: Time) -> Result<(), HomeError> {
        let monotonic_ms = self.core.seams.clock.monotonic_ms();
        let is_due = self.news.gate_shown_ms.is_none_or(|shown_ms| {
            monotonic_ms.saturating_sub(shown_ms) >= GATE_EVERY_MS || monotonic_ms < shown_ms
        });
        if !is_due || !self.news.is_watching() || self.core.storage.is_full() {
            return Ok(());
        }
        self.news.gate_shown_ms = Some(monotonic_ms);
        let sign = Gate {
            at: now,
            valid_until: now.plus_ms(GATE_VALID_MS),
            epoch: EPOCH,
        };
        let mut bytes =
            serde_json::to_vec(&sign).map_err(|error| HomeError::Record(error.to_string()))?;
        bytes.push(b'\n');
        for bridge in bridges::used(&self.core.state, &self.core.rulebook) {
            // A bridge that cannot read it places no entries, and stops and exits need none.
            let _blocked = self.core.try_derived(
                &folder_of(bridge).join(GATE),
                &bytes,
                Mode::Shared,
                false,
            )?;
        }
        Ok(())
    }
}

/// What a sign of life changes about what is known of a bridge.
fn changes(bridge: &Principal, known: Option<&Bridge>, sign: Sign, now: Time) -> Vec<Change> {
    let bridge = bridge.clone();
    let alive = match sign {
        Sign::Alive(alive) => alive,
        Sign::Silent { since, why } => {
            // One that was never there is not missed.
            let is_news = known.is_some_and(|known| known.silent.is_none());
            return is_news
                .then_some(Change::BridgeSilent { bridge, since, why })
                .into_iter()
                .collect();
        }
    };
    let is_known = known.is_some_and(|known| known.silent.is_none() && known.run == alive.run);
    let heard = (!is_known).then(|| Change::BridgeHeard {
        bridge: bridge.clone(),
        run: alive.run,
        at: now,
    });
    let answered = known.and_then(|known| known.pinged);
    let nonce = alive.nonce.and_then(|nonce| nonce.parse::<u64>().ok());
    let pinged = nonce.filter(|line| answered.is_none_or(|answered| answered < *line));
    let pinged = pinged.map(|line| Change::PingAnswered {
        bridge,
        line,
        at: now,
    });
    heard.into_iter().chain(pinged).collect()
}

fn folder_of(bridge: &Principal) -> PathBuf {
    Path::new(OUTBOX_DIR).join(bridge.as_str())
}

impl Core {
    /// Reads a bridge's sign of life.
    fn sign_of(&self, bridge: &Principal, now: Time) -> Result<Sign, HomeError> {
        let path = folder_of(bridge).join(ALIVE);
        let silent = |since: Time, why: String| Sign::Silent { since, why };
        let file = match self.seams.disk.read(&path, ALIVE_BYTES_MAX) {
            Ok(file) => file,
            Err(error) if is_in_the_way(&error) => {
                return Ok(silent(now, format!("it writes no `{}`", path.display())));
            }
            Err(source) => return Err(HomeError::disk(&path, source)),
        };
        let alive: Option<Alive> = Some(file.bytes)
            .filter(|bytes| file.stat.kind == Kind::File && bytes.len() <= ALIVE_BYTES_MAX)
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .filter(|alive: &Alive| (1..=RUN_BYTES_MAX).contains(&alive.run.len()));
        let Some(alive) = alive else {
            let why = format!("`{}` is not a sign of life", path.display());
            return Ok(silent(now, why));
        };
        let timeout_ms = i64::from(*self.rulebook.safety.bridges.timeout_s).saturating_mul(1000);
        let age_ms = now.since_ms(alive.at);
        Ok(if age_ms >= timeout_ms {
            silent(alive.at, "its last sign of life is too old".to_owned())
        } else if age_ms <= timeout_ms.saturating_neg() {
            silent(now, format!("its clock is ahead: it says {}", alive.at))
        } else if alive.venue == Venue::Down {
            silent(now, "it does not reach its venue".to_owned())
        } else {
            Sign::Alive(alive)
        })
    }

    /// The entries of a folder that may be files; none if it is not there. Everything else is not the
    /// gate's.
    fn names_in(&self, folder: &Path) -> Result<Vec<PathBuf>, HomeError> {
        let entries = match self.seams.disk.read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if is_in_the_way(&error) => return Ok(Vec::new()),
            Err(source) => return Err(HomeError::disk(folder, source)),
        };
        let names = entries
            .filter(|entry| {
                let kind = entry.as_ref().map_or(None, |entry| entry.kind);
                kind.is_none_or(|kind| kind == Kind::File)
            })
            .map(|entry| entry.map(|entry| PathBuf::from(entry.name)));
        let names: io::Result<Vec<PathBuf>> = names.collect();
        let mut names = names.map_err(|source| HomeError::disk(folder, source))?;
        names.sort_unstable();
        Ok(names)
    }

    /// Renames the instructions that a bridge has not taken and shall no longer carry out into the
    /// folder for what was taken back. Durable when it returns, because a line that says so follows.
    fn take_back(&self, bridge: &Principal, now: Time) -> Result<(), HomeError> {
        let folder = folder_of(bridge);
        let names = self.names_in(&folder)?;
        let told = names
            .iter()
            .filter_map(|name| Some((name, Told::parse(name.as_os_str())?)));
        let told: Vec<(&PathBuf, Told)> = told.collect();
        let newest_ping = told.iter().filter_map(|(_, told)| match told {
            Told::Ping(line) => Some(*line),
            Told::Instruction { .. } => None,
        });
        let newest_ping = newest_ping.max();
        let (disk, back) = (self.seams.disk.as_ref(), folder.join(BACK_DIR));
        let (mut is_any, mut left) = (false, BACK_MAX);
        for (name, told) in told {
            let from = folder.join(name);
            match told {
                Told::Ping(line) if Some(line) < newest_ping => {
                    self.remove_derived(&from)?;
                }
                Told::Instruction {
                    order_id,
                    version,
                    is_again,
                } if self.is_obsolete(order_id, version, now) => {
                    if !self.state.book.orders.contains_key(&order_id) {
                        // Nothing waits for these, and the bridge can make any number of them.
                        let Some(fewer) = left.checked_sub(1) else {
                            continue;
                        };
                        left = fewer;
                    }
                    if is_again {
                        self.remove_derived(&from)?;
                        continue;
                    }
                    let made = disk.create_dir(&back, Mode::Private);
                    let to = back.join(name);
                    let moved = made.and_then(|()| publish::rename_over(disk, &from, &to));
                    match moved {
                        Ok(()) => is_any = true,
                        // Its bridge was faster, or is in the way: the order waits for it.
                        Err(error) if is_in_the_way(&error) => {}
                        Err(source) => return Err(HomeError::disk(&from, source)),
                    }
                }
                Told::Ping(_) | Told::Instruction { .. } => {}
            }
        }
        if is_any {
            for folder in [&back, &folder] {
                // Without it a power cut could bring back what a line says is gone.
                disk.sync_dir(folder)
                    .map_err(|source| HomeError::disk(folder, source))?;
            }
        }
        Ok(())
    }

    /// Whether an instruction no longer says what the gate wants: its order is over, a newer one
    /// replaces it, or it is an entry whose time is up.
    fn is_obsolete(&self, order_id: OrderId, version: u32, now: Time) -> bool {
        let order = self.state.book.orders.get(&order_id);
        let Some((order, venue)) = order.and_then(|order| Some((order, order.at_venue.as_ref()?)))
        else {
            return true;
        };
        let valid_ms = i64::from(*self.rulebook.safety.bridges.entry_valid_s).saturating_mul(1000);
        let is_late = |told_at: Time| now.since_ms(told_at) > valid_ms.saturating_add(LATE_MS);
        let is_late = order.role == OrderRole::Entry
            && venue.told.is_some()
            && venue.told_at.is_some_and(is_late);
        version < venue.version || version == venue.version && (venue.gone || is_late)
    }

    /// The instructions of a bridge that were taken back, each with its file.
    fn back(&self, bridge: &Principal) -> Result<Vec<Back>, HomeError> {
        let folder = folder_of(bridge).join(BACK_DIR);
        let names = self.names_in(&folder)?.into_iter();
        // Those of orders that wait for this come first: the rest can be of any number.
        let waits = |(_, (order_id, _)): &Back| self.state.book.orders.contains_key(order_id);
        let files = names.filter_map(|name| match Told::parse(name.as_os_str())? {
            Told::Instruction {
                order_id, version, ..
            } => Some((folder.join(name), (order_id, version))),
            Told::Ping(_) => None,
        });
        let (mut files, rest): (Vec<Back>, Vec<Back>) = files.partition(waits);
        files.extend(rest.into_iter().take(BACK_MAX));
        Ok(files)
    }

    /// Removes files of `.back` from which nothing more follows, unless a line of this batch follows
    /// from them: if it is lost, the next start writes it again.
    fn forget_back(&self, back: Vec<Back>, pending: &Pending) -> Result<(), HomeError> {
        let lines = pending.records.iter();
        let told: Vec<(OrderId, u32)> = lines
            .flat_map(|record| bridges::taken_back_by(record.changes()))
            .collect();
        for (path, file) in back {
            if !told.contains(&file) {
                self.remove_derived(&path)?;
            }
        }
        Ok(())
    }
}
