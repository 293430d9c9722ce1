//! What several test files share: scratch homes of the real program, signed requests made in this
//! process, the invariants of a home as one function, and a disk in memory that fails on demand,
//! with a home on it.

pub(crate) mod approvers;
pub(crate) mod chamber;
pub(crate) mod closed;
pub(crate) mod court;
pub(crate) mod desk;
pub(crate) mod dice;
pub(crate) mod gateway_home;
pub(crate) mod kept;
pub(crate) mod keys;
pub(crate) mod layered;
pub(crate) mod ledger_files;
pub(crate) mod place;
pub(crate) mod prepared;
pub(crate) mod prices;
pub(crate) mod process;
pub(crate) mod spools;
pub(crate) mod synthetic;
pub(crate) mod tasks;
pub(crate) mod unlimited;
pub(crate) mod users;
pub(crate) mod venue;
pub(crate) mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The fuzz targets also load the file `memory_disk.rs` of this folder.
pub(crate) use crate::fuzzed::bodies::memory_disk;
pub(crate) use dice::Dice;
use keys::add_key;
use spoolgate_gate::record::{Decision, Record, Ruling};
use spoolgate_gate::sealing::is_sealed;
use spoolgate_home::Home;
use spoolgate_home::read::real_seams;
use spoolgate_host::clock::{Clock, SystemClock};
use spoolgate_host::keyring::SqliteKeyring;
use spoolgate_host::spool::name::{ClaimName, FileName};
use spoolgate_ledger::line;
use spoolgate_wire::answer::Answer;
use spoolgate_wire::code::Code;
use spoolgate_wire::envelope::Envelope;
use spoolgate_wire::ids::{Principal, RequestId};
use spoolgate_wire::signing::{SignKey, sha256_hex};
use spoolgate_wire::time::Time;
use tempfile::TempDir;

/// The program under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_spoolgate");

/// Returns a number from the environment, such as a count or a seed.
pub(crate) fn setting(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().expect(name))
}

/// Returns how much of a campaign to run: a sample by default, all of it with `SPOOLGATE_WHOLE=1`.
pub(crate) fn campaign<T>(sample: T, whole: T) -> T {
    if std::env::var_os("SPOOLGATE_WHOLE").is_some() {
        whole
    } else {
        sample
    }
}

/// Runs the program over a home.
pub(crate) fn spoolgate(home: &Path, args: &[&str]) -> Output {
    command(home, args).output().unwrap()
}

/// Returns the command that runs the program over a home, as the user to whom the home belongs.
pub(crate) fn command(home: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.arg("--home").arg(home).args(args);
    let state = home.join("state");
    if let Ok(Some(owner)) = spoolgate_host::lock::owner_beside_root(&state) {
        command.uid(owner).gid(owner);
    }
    command
}

/// Runs the program and fails unless it succeeds.
#[track_caller]
pub(crate) fn succeed(home: &Path, args: &[&str]) -> String {
    let done = spoolgate(home, args);
    assert!(done.status.success(), "{args:?}: {}", show(&done));
    String::from_utf8(done.stdout).unwrap()
}

/// Describes how a process ended, for messages.
pub(crate) fn show(done: &Output) -> String {
    format!(
        "{}\nstandard output: {}\nstandard error: {}",
        done.status,
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr)
    )
}

/// Makes a folder for a test: in memory if there is room, where a sync costs nothing, so that the
/// cores do not wait for a disk. What survives a crash of the machine is tested with disks of the
/// tests' own.
pub(crate) fn folder() -> TempDir {
    // This process is a test program, so another one makes the cages of programs.
    spoolgate_host::cage::set_program(PROGRAM.into());
    let memory = Path::new("/dev/shm");
    let has_room = rustix::fs::statvfs(memory)
        .is_ok_and(|free| free.f_bavail.saturating_mul(free.f_frsize) >= 4 << 30);
    let beside = if has_room {
        memory
    } else {
        Path::new(env!("CARGO_TARGET_TMPDIR"))
    };
    tempfile::Builder::new()
        .prefix("spoolgate-")
        .tempdir_in(beside)
        .unwrap()
}

/// Lets programs of this home's rules write where they like, for tests in which they leave marks in
/// the home. What a cage closes is tested in `tests/it/cage.rs`.
pub(crate) fn uncaged(home: &Path) {
    prepared::edit(&home.join("rules/safety.yaml"), |text| {
        text.replace("cage: require", "cage: off")
    });
}

/// A home in a scratch folder.
pub(crate) struct Scratch {
    dir: TempDir,
    /// The key of its agent.
    pub bot: SignKey,
    /// The key of its person.
    pub owner: SignKey,
}

impl Scratch {
    /// Makes a home with an account, a key of `trend-bot` and no prices.
    pub(crate) fn new() -> Scratch {
        let dir = folder();
        let home = dir.path().join("home");
        succeed(&home, &["init", home.to_str().unwrap()]);
        let key_file = dir.path().join("bot.key");
        let bot = add_key(&home, "trend-bot", &key_file);
        succeed(
            &home,
            &["account", "deposit", "5000", "--reason", "opening balance"],
        );
        let listed = succeed(&home, &["--format", "json", "keys", "list"]);
        let keyring = SqliteKeyring::open(&home, false).unwrap();
        let owner = listed
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
            .find(|key| key["principal"] == "owner")
            .and_then(|key| keyring.sign_key(key["key_id"].as_str().unwrap()).unwrap())
            .unwrap();
        Scratch { dir, bot, owner }
    }

    /// Makes a home that also has a day of real prices that ends now.
    pub(crate) fn with_prices() -> Scratch {
        let scratch = Scratch::new();
        for kind in ["quote", "trade"] {
            let file = format!(
                "{}/examples/market/lean-coinbase-minute-btcusd_20180405_{kind}.zip",
                env!("CARGO_MANIFEST_DIR")
            );
            succeed(
                &scratch.home(),
                &[
                    "market",
                    "import",
                    &file,
                    "--symbol",
                    "BTC-USD",
                    "--end-now",
                ],
            );
        }
        scratch
    }

    /// Returns the home's folder.
    pub(crate) fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    /// Returns a path beside the home.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Returns the bytes of a signed request of the agent.
    pub(crate) fn request(&self, id: &str, action: &str, payload: &str) -> Vec<u8> {
        sign(&self.bot, "trend-bot", id, action, payload)
    }

    /// Returns a file with a harmless query.
    pub(crate) fn query(&self, id: &str) -> Sent {
        Sent::new(
            &format!("{id}.json"),
            self.request(id, "market.get", r#"{"symbol":"BTC-USD"}"#),
        )
    }
}

/// Returns a request that is not signed yet.
pub(crate) fn unsigned(source: &str, id: &str, action: &str, payload: &str, now: Time) -> Envelope {
    Envelope {
        id: RequestId::parse(id).unwrap(),
        timestamp_text: now.to_string(),
        timestamp: now,
        action: action.to_owned(),
        payload: payload.to_owned(),
        source: Principal::parse(source).unwrap(),
        signature: String::new(),
        causality: None,
    }
}

/// Returns a signed request.
pub(crate) fn signed(
    key: &SignKey,
    source: &str,
    id: &str,
    action: &str,
    payload: &str,
    now: Time,
) -> Envelope {
    let mut envelope = unsigned(source, id, action, payload, now);
    envelope.signature = key.sign(&envelope.signing_string());
    envelope
}

/// Returns the bytes of a request that is signed now.
pub(crate) fn sign(key: &SignKey, source: &str, id: &str, action: &str, payload: &str) -> Vec<u8> {
    signed(
        key,
        source,
        id,
        action,
        payload,
        SystemClock::default().now(),
    )
    .to_json()
    .into_bytes()
}

/// A file that was dropped into the flat spool. A name is used only once per home.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    /// Its name.
    pub name: OsString,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

impl Sent {
    /// Makes a file.
    pub(crate) fn new(name: &str, bytes: Vec<u8>) -> Sent {
        Sent {
            name: OsString::from(name),
            bytes,
        }
    }

    /// Drops the file into the spool as agents should: under a name that the gate ignores, then by
    /// rename.
    pub(crate) fn drop_into(&self, home: &Path) {
        let folder = home.join("spool/in");
        let mut hidden = OsString::from(".");
        hidden.push(&self.name);
        fs::write(folder.join(&hidden), &self.bytes).unwrap();
        fs::rename(folder.join(&hidden), folder.join(&self.name)).unwrap();
    }
}

/// Lists the names in a folder, except for the folders of commands.
pub(crate) fn names(folder: &Path) -> BTreeSet<OsString> {
    let entries =
        fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    entries.map(|entry| entry.unwrap().file_name()).collect()
}

/// Reads the files of a folder, except for the folders of commands.
pub(crate) fn contents(folder: &Path) -> BTreeMap<OsString, Vec<u8>> {
    let mut names = names(folder);
    names.retain(|name| name != ".reserve");
    names
        .into_iter()
        .map(|name| (name.clone(), fs::read(folder.join(name)).unwrap()))
        .collect()
}

/// Returns the files of the log, in order.
pub(crate) fn segments(home: &Path) -> Vec<PathBuf> {
    let audit = home.join("audit");
    let logs = names(&audit)
        .into_iter()
        .filter(|name| name.as_bytes().starts_with(b"log-"));
    logs.map(|name| audit.join(name)).collect()
}

/// Returns the log's bytes, segment by segment.
pub(crate) fn log_bytes(home: &Path) -> Vec<Vec<u8>> {
    segments(home)
        .iter()
        .map(|path| fs::read(path).unwrap())
        .collect()
}

/// Returns number, kind and record of every line up to the last seal.
pub(crate) fn lines(home: &Path) -> Result<Vec<(u64, String, Option<Record>)>, String> {
    let mut found = Vec::new();
    for bytes in log_bytes(home) {
        // Bytes after the last whole seal of a file are a torn rest, which does not count.
        let mut batch = Vec::new();
        for text in bytes.split_inclusive(|byte| *byte == b'\n') {
            let Some(text) = text.strip_suffix(b"\n") else {
                break;
            };
            let Ok(line) = line::parse(text) else { break };
            let record =
                Record::parse(line.kind, &line.body()).map_err(|error| error.to_string())?;
            batch.push((line.seq, line.kind.to_owned(), record));
            if line.kind == "seal" {
                found.append(&mut batch);
            }
        }
    }
    Ok(found)
}

/// Returns the decisions in the log, by line.
pub(crate) fn decisions(home: &Path) -> Result<BTreeMap<u64, Decision>, String> {
    Ok(lines(home)?
        .into_iter()
        .filter_map(|(seq, _, record)| match record {
            Some(Record::Decision(decision)) => Some((seq, *decision)),
            _ => None,
        })
        .collect())
}

/// What [`check_home`] counted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counted {
    /// The number of decision lines.
    pub decisions: usize,
    /// Accepted orders.
    pub accepted: usize,
    /// Refused requests, whatever the reason.
    pub refused: usize,
    /// Requests that got their stored answer.
    pub replays: usize,
    /// Requests given up at the third attempt.
    pub given_up: usize,
    /// Torn batches.
    pub torn: usize,
}

macro_rules! ensure {
    ($good:expr, $($why:tt)*) => {
        if !$good {
            return Err(format!($($why)*));
        }
    };
}

/// Checks what holds at any moment, even right after a kill: every visible answer has its sealed
/// line, and no file that was sent is lost.
pub(crate) fn check_killed(home: &Path, sent: &[Sent]) -> Result<(), String> {
    let decided = decisions(home)?;
    for (name, bytes) in contents(&home.join("spool/out")) {
        if name.as_bytes().starts_with(b".") {
            continue;
        }
        let answer: Answer =
            serde_json::from_slice(&bytes).map_err(|error| format!("answer {name:?}: {error}"))?;
        let line = answer
            .audit_ref
            .parse()
            .ok()
            .and_then(|seq: u64| decided.get(&seq));
        let line =
            line.ok_or_else(|| format!("answer {name:?} was released before its line was sealed"))?;
        ensure!(
            line.timestamp == answer.timestamp,
            "answer {name:?} is not that of line {}",
            answer.audit_ref
        );
    }
    let waiting = names(&home.join("spool/in"));
    let begun: BTreeSet<String> = names(&home.join("spool/work"))
        .iter()
        .filter_map(|name| ClaimName::parse(name))
        .map(|claim| claim.file)
        .collect();
    let lined: BTreeSet<&str> = decided
        .values()
        .map(|decision| decision.file.as_str())
        .collect();
    for file in sent {
        let known_as = FileName::of(&file.name).known_as;
        let places = [begun.contains(&known_as) || lined.contains(known_as.as_str())];
        let places =
            places.iter().filter(|is| **is).count() + usize::from(waiting.contains(&file.name));
        ensure!(
            places == 1,
            "{:?} is in {places} of in, work-or-ledger",
            file.name
        );
    }
    Ok(())
}

/// Checks the invariants of a home whose last run ended in order, over all files that were sent to
/// it since it was made, each under a name of its own.
///
/// The first invariant that does not hold, and for what.
pub(crate) fn check_home(home: &Path, sent: &[Sent]) -> Result<Counted, String> {
    for folder in ["spool/in", "spool/work"] {
        let left = names(&home.join(folder));
        ensure!(left.is_empty(), "{folder} still holds {left:?}");
    }
    let decided = decisions(home)?;
    let flat: BTreeMap<u64, &Decision> = decided
        .iter()
        .filter(|(_, d)| d.spool == "flat")
        .map(|(seq, d)| (*seq, d))
        .collect();
    no_id_is_decided_twice(&decided)?;
    every_file_has_one_line(&flat, sent)?;
    answers_are_those_of_their_lines(home, &flat)?;
    refused_bytes_are_kept(home, &decided, sent)?;
    the_ledger_verifies(home)?;
    opening_again_changes_nothing(home)?;
    let (_, same) = Home::rebuild(home, real_seams(home).map_err(|e| e.to_string())?)
        .map_err(|error| format!("rebuild: {error}"))?;
    ensure!(same, "the state made again from the ledger is another one");
    let count = |what: &dyn Fn(&Decision) -> bool| flat.values().filter(|d| what(d)).count();
    Ok(Counted {
        decisions: flat.len(),
        accepted: count(&|d| {
            d.decision == Some(Ruling::Accepted) && d.action.as_deref() == Some("order.submit")
        }),
        refused: count(&|d| d.metadata.code.is_some()),
        replays: count(&|d| d.metadata.replay_of.is_some()),
        given_up: count(&|d| d.metadata.code == Some(Code::Internal)),
        torn: segments(home).len() - 1,
    })
}

/// Checks that a request of one signer and id has one decision, and that all others are replays
/// that name it.
pub(crate) fn no_id_is_decided_twice(decided: &BTreeMap<u64, Decision>) -> Result<(), String> {
    let mut first: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for (seq, decision) in decided {
        let stands_aside = matches!(
            decision.metadata.code,
            Some(
                Code::RequestIdConflict
                    | Code::WrongSpool
                    | Code::SignatureInvalid
                    | Code::RateLimited
                    | Code::StorageLow
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
            && !(decision.attempt > 0 && decided[&before].leaves_id_open())
        {
            return Err(format!(
                "{source} {id} is decided in lines {before} and {seq}"
            ));
        }
    }
    Ok(())
}

fn every_file_has_one_line(flat: &BTreeMap<u64, &Decision>, sent: &[Sent]) -> Result<(), String> {
    let mut by_file: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for (seq, decision) in flat {
        by_file.entry(&decision.file).or_default().push(*seq);
    }
    for file in sent {
        let name = FileName::of(&file.name);
        let seqs = by_file.remove(name.known_as.as_str()).unwrap_or_default();
        let [seq] = seqs.as_slice() else {
            return Err(format!("{:?} has lines {seqs:?}", file.name));
        };
        let decision = flat[seq];
        // A file that was refused unread has no hash.
        let unread = !name.is_good || decision.metadata.code == Some(Code::Internal);
        // With a hash, somebody could guess sealed members.
        let unread = unread || decision.action.as_deref().is_some_and(is_sealed);
        let hash = sha256_hex(&file.bytes);
        ensure!(
            decision.file_sha256.as_ref() == Some(&hash)
                || (unread && decision.file_sha256.is_none()),
            "{:?}: line {seq} is about other bytes",
            file.name
        );
    }
    ensure!(
        by_file.is_empty(),
        "lines of files that were never sent: {by_file:?}"
    );
    Ok(())
}

fn answers_are_those_of_their_lines(
    home: &Path,
    flat: &BTreeMap<u64, &Decision>,
) -> Result<(), String> {
    let newest: BTreeMap<&str, u64> = flat
        .iter()
        .map(|(seq, d)| (d.answer.as_str(), *seq))
        .collect();
    let found = contents(&home.join("spool/out"));
    let expected: BTreeSet<OsString> = newest
        .keys()
        .map(|answer| OsString::from(answer.trim_start_matches("out/")))
        .collect();
    let there: BTreeSet<OsString> = found.keys().cloned().collect();
    ensure!(
        there == expected,
        "spool/out: missing {:?}, too many {:?}",
        expected.difference(&there).collect::<Vec<_>>(),
        there.difference(&expected).collect::<Vec<_>>()
    );
    let open = Home::open(home, real_seams(home).map_err(|e| e.to_string())?)
        .map_err(|e| e.to_string())?;
    for (answer, seq) in newest {
        let rebuilt = open
            .answer(seq)
            .map_err(|error| format!("line {seq}: {error}"))?
            .to_bytes();
        let name = answer.trim_start_matches("out/");
        ensure!(
            found[OsStr::new(name)] == rebuilt,
            "{answer} is not the answer of line {seq}"
        );
        let by_id = flat[&seq]
            .request_id
            .as_ref()
            .map(|id| format!("{id}.json"));
        let by_file = format!("{}.error.json", flat[&seq].file.trim_start_matches('='));
        ensure!(
            by_id.as_deref() == Some(name) || by_file == name,
            "line {seq} is answered as {name}"
        );
    }
    Ok(())
}

fn refused_bytes_are_kept(
    home: &Path,
    decided: &BTreeMap<u64, Decision>,
    sent: &[Sent],
) -> Result<(), String> {
    let mut kept = contents(&home.join("spool/rejected"));
    let by_name: BTreeMap<String, &Sent> = sent
        .iter()
        .map(|sent| (FileName::of(&sent.name).known_as, sent))
        .collect();
    for (seq, decision) in decided {
        ensure!(
            decision.kept.is_some() == decision.key_id.is_none(),
            "line {seq}: the bytes of what has no good signature are kept, no others"
        );
        let Some(path) = &decision.kept else { continue };
        let bytes = kept
            .remove(OsStr::new(path.trim_start_matches("rejected/")))
            .ok_or_else(|| format!("{path} is missing"))?;
        // A file that a command handed over is known only by its hash.
        let is_it = match by_name.get(&decision.file) {
            Some(sent) => bytes == sent.bytes,
            None => decision.file_sha256 == Some(sha256_hex(&bytes)),
        };
        ensure!(is_it, "{path} is not what was sent");
    }
    ensure!(
        kept.is_empty(),
        "spool/rejected also holds {:?}",
        kept.keys()
    );
    Ok(())
}

fn the_ledger_verifies(home: &Path) -> Result<(), String> {
    let verified = spoolgate(home, &["audit", "verify"]);
    ensure!(
        verified.status.success(),
        "audit verify --strict: {}",
        show(&verified)
    );
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/verify_ledger.py");
    match Command::new("python3")
        .arg(script)
        .arg(home.join("audit"))
        .output()
    {
        Ok(done) => ensure!(done.status.success(), "verify_ledger.py: {}", show(&done)),
        Err(error) => eprintln!("skipped verify_ledger.py: python3: {error}"),
    }
    Ok(())
}

/// Checks that opening writes nothing, and that a run writes only that it ran.
fn opening_again_changes_nothing(home: &Path) -> Result<(), String> {
    let look = || {
        (
            log_bytes(home),
            contents(&home.join("spool/out")),
            contents(&home.join("spool/rejected")),
        )
    };
    let before = look();
    let opened = Home::open(home, real_seams(home).map_err(|e| e.to_string())?)
        .map_err(|e| e.to_string())?;
    drop(opened);
    ensure!(look() == before, "opening changed the ledger or the spool");
    let seqs = lines(home)?.len();
    let done = spoolgate(home, &["run", "--until-idle"]);
    ensure!(done.status.success(), "running again: {}", show(&done));
    spools::only_news(home, seqs, &before, &look())?;
    Ok(())
}
