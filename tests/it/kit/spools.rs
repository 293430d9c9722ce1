//! The invariants of a home over all its spools: the flat one, those of agents and that of
//! commands. They are checked in this process, so that a minute is enough for thousands of homes.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use spoolgate_gate::Change;
use spoolgate_gate::prepare::{Keyring, Origin};
use spoolgate_gate::record::{Decision, Record};
use spoolgate_gate::sealing;
use spoolgate_home::Home;
use spoolgate_home::read::real_seams;
use spoolgate_host::keyring::{CachedKeyring, SqliteKeyring};
use spoolgate_host::real_disk::RealDisk;
use spoolgate_host::spool::name::{ClaimName, FileName};
use spoolgate_host::spool::scan;
use spoolgate_ledger::verify::{self, Options};
use spoolgate_wire::answer::Answer;
use spoolgate_wire::code::Code;
use spoolgate_wire::signing::sha256_hex;

use super::{Sent, contents, decisions, lines, log_bytes, names, no_id_is_decided_twice, segments};

macro_rules! ensure {
    ($good:expr, $($why:tt)*) => {
        if !$good {
            return Err(format!($($why)*));
        }
    };
}

/// A file for one of the spools. A name is used only once per spool and home.
#[derive(Clone, Debug)]
pub(crate) struct Dropped {
    /// The spool.
    pub spool: Origin,
    /// The file.
    pub sent: Sent,
    /// Whether the file was durable before the power cut; then it must not be lost.
    pub is_durable: bool,
}

impl Dropped {
    fn path(&self, home: &Path) -> PathBuf {
        home.join(scan::folder(&self.spool)).join(&self.sent.name)
    }

    /// Renames the file into the spool, as agents should.
    pub(crate) fn drop_into(&self, home: &Path) {
        let folder = home.join(scan::folder(&self.spool));
        let mut hidden = OsString::from(".");
        hidden.push(&self.sent.name);
        fs::write(folder.join(&hidden), &self.sent.bytes).unwrap();
        fs::rename(folder.join(&hidden), self.path(home)).unwrap();
    }
}

/// How the run before this check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// It was killed or gave up: everything that it wrote is there.
    Itself,
    /// The power was cut: what was not synced may be there completely, in part or not at all.
    PowerCut,
}

fn open(home: &Path) -> Result<Home, String> {
    let opened = real_seams(home).and_then(|seams| Home::open(home, seams));
    opened.map_err(|error| error.to_string())
}

/// Returns the answers that are in a home: path below `spool`, and bytes.
fn answers_there(home: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec!["out".to_owned(), "local/out".to_owned()];
    while let Some(folder) = folders.pop() {
        let path = home.join("spool").join(&folder);
        for name in names(&path) {
            let below = format!("{folder}/{}", name.to_string_lossy());
            match path.join(&name).is_dir() {
                // Room for answers, which holds none.
                true if name == ".reserve" => {}
                true => folders.push(below),
                false => drop(found.insert(below, fs::read(path.join(&name)).unwrap())),
            }
        }
    }
    found
}

fn is_hidden(path: &str) -> bool {
    path.rsplit('/')
        .next()
        .is_some_and(|name| name.starts_with('.'))
}

/// Returns the answers in the output of a program or in what a client read: whole lines that parse.
pub(crate) fn answers_in(bytes: &[u8]) -> Vec<Vec<u8>> {
    let whole = bytes
        .split_inclusive(|byte| *byte == b'\n')
        .filter(|line| line.ends_with(b"\n"));
    whole
        .filter(|line| serde_json::from_slice::<Answer>(line).is_ok())
        .map(<[u8]>::to_vec)
        .collect()
}

fn is_sealed(decided: &BTreeMap<u64, Decision>, what: &str, bytes: &[u8]) -> Result<(), String> {
    let answer: Answer = serde_json::from_slice(bytes).map_err(|error| {
        format!(
            "{what} is no answer: {error}: {}",
            String::from_utf8_lossy(bytes)
        )
    })?;
    let line = answer
        .audit_ref
        .parse()
        .ok()
        .and_then(|seq: u64| decided.get(&seq));
    let line = line.ok_or_else(|| {
        format!(
            "{what} was released, its line {} is not sealed",
            answer.audit_ref
        )
    })?;
    ensure!(
        line.timestamp == answer.timestamp,
        "{what} is not that of line {}",
        answer.audit_ref
    );
    Ok(())
}

/// Checks what holds at any moment: every answer that is visible now or was visible before (`seen`)
/// has its sealed line, and no file that was dropped is lost.
///
/// The first check that does not hold.
pub(crate) fn check_now(
    home: &Path,
    dropped: &[Dropped],
    seen: &[Vec<u8>],
    ended: Ended,
) -> Result<(), String> {
    let decided = decisions(home)?;
    for (path, bytes) in answers_there(home) {
        let is_whole = serde_json::from_slice::<Answer>(&bytes).is_ok();
        if !is_hidden(&path) && (is_whole || ended == Ended::Itself) {
            is_sealed(&decided, &format!("spool/{path}"), &bytes)?;
        }
    }
    for bytes in seen {
        is_sealed(&decided, "an answer that was seen", bytes)?;
    }
    files_named_by_lines_exist(home)?;
    let begun: BTreeSet<(String, String)> = names(&home.join("spool/work"))
        .iter()
        .filter_map(|name| ClaimName::parse(name))
        .map(|claim| (claim.origin.label(), claim.file))
        .collect();
    let lined: BTreeSet<(String, String)> = decided
        .values()
        .map(|decision| (decision.spool.clone(), decision.file.clone()))
        .collect();
    for file in dropped.iter().filter(|file| file.is_durable) {
        let key = (file.spool.label(), FileName::of(&file.sent.name).known_as);
        let taken = begun.contains(&key) || lined.contains(&key);
        let waits = fs::symlink_metadata(file.path(home)).is_ok();
        ensure!(taken || waits, "{key:?} is lost");
        ensure!(!(taken && waits), "{key:?} waits and is taken");
    }
    Ok(())
}

/// Checks that blobs, rulebooks and keys are durable before a line names them.
fn files_named_by_lines_exist(home: &Path) -> Result<(), String> {
    let keyring =
        CachedKeyring::new(SqliteKeyring::open(home, false).map_err(|error| error.to_string())?);
    let has = |path: String, hash: &str| {
        let bytes = fs::read(home.join(&path)).map_err(|error| format!("{path}: {error}"))?;
        ensure!(sha256_hex(&bytes) == hash, "{path} holds something else");
        Ok(())
    };
    for (seq, _, record) in lines(home)? {
        let Some(record) = record else { continue };
        let blobs = match &record {
            Record::Decision(decision) => {
                [decision.payload_blob.as_ref(), decision.data_blob.as_ref()]
            }
            Record::Market(rows) => [rows.rows_sha256.as_ref(), None],
            _ => [None, None],
        };
        for digest in blobs.into_iter().flatten() {
            has(format!("audit/blobs/{digest}"), digest)
                .map_err(|why| format!("line {seq}: {why}"))?;
        }
        for change in record.changes() {
            match change {
                Change::RulebookLoaded { hash, .. } => {
                    has(format!("audit/rulebooks/{hash}.json"), hash)
                        .map_err(|why| format!("line {seq}: {why}"))?;
                }
                Change::KeyAdded(key) => {
                    let held = keyring.verify_key(&key.key_id).is_some();
                    ensure!(
                        held,
                        "line {seq}: the keyring does not hold key {}",
                        key.key_id
                    );
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// What [`check_settled`] counted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Settled {
    /// The number of decision lines.
    pub decisions: usize,
    /// Requests given up at the third attempt.
    pub given_up: usize,
    /// Segments that were frozen with a torn batch in them.
    pub torn: usize,
}

/// Checks the invariants of a home whose last run ended in order.
///
/// The first check that does not hold.
pub(crate) fn check_settled(
    home: &Path,
    dropped: &[Dropped],
    seen: &[Vec<u8>],
) -> Result<Settled, String> {
    nothing_waits(home)?;
    let decided = decisions(home)?;
    no_id_is_decided_twice(&decided)?;
    every_file_has_its_line(&decided, dropped)?;
    answers_are_exact(home, &decided, seen)?;
    kept_bytes_are_exact(home, &decided)?;
    verifies(home)?;
    opening_again_changes_nothing(home)?;
    let (_, same) = real_seams(home)
        .and_then(|seams| Home::rebuild(home, seams))
        .map_err(|error| format!("rebuild: {error}"))?;
    ensure!(same, "the state made again from the ledger is another one");
    Ok(Settled {
        decisions: decided.len(),
        given_up: decided
            .values()
            .filter(|d| d.metadata.code == Some(Code::Internal))
            .count(),
        torn: segments(home).len() - 1,
    })
}

fn nothing_waits(home: &Path) -> Result<(), String> {
    let mut folders = vec![
        home.join("spool/in"),
        home.join("spool/work"),
        home.join("spool/local/in"),
    ];
    while let Some(folder) = folders.pop() {
        for name in names(&folder) {
            let path = folder.join(&name);
            if path.is_dir() && folder.ends_with("in")
                || path.ends_with("new")
                || path.ends_with("tmp")
            {
                folders.push(path);
            } else {
                // This is a part of a request that a command was still writing: nothing was
                // requested yet.
                let is_part = !folder.ends_with("work") && name.as_bytes().starts_with(b".");
                ensure!(is_part, "{} was left", path.display());
            }
        }
    }
    for folder in ["audit", "audit/rulebooks", "audit/blobs"] {
        for name in names(&home.join(folder)) {
            ensure!(
                !name.as_bytes().starts_with(b".") || name == ".reserve",
                "{folder}/{name:?} was left half-written"
            );
        }
    }
    Ok(())
}

fn every_file_has_its_line(
    decided: &BTreeMap<u64, Decision>,
    dropped: &[Dropped],
) -> Result<(), String> {
    let mut by_file: BTreeMap<(String, String), Vec<u64>> = BTreeMap::new();
    for (seq, decision) in decided {
        by_file
            .entry((decision.spool.clone(), decision.file.clone()))
            .or_default()
            .push(*seq);
    }
    for file in dropped {
        let name = FileName::of(&file.sent.name);
        let seqs = by_file
            .remove(&(file.spool.label(), name.known_as.clone()))
            .unwrap_or_default();
        // A sender without confirmation sends the file again, perhaps under the same name.
        if !file.is_durable {
            continue;
        }
        let [seq] = seqs.as_slice() else {
            return Err(format!("{:?} has lines {seqs:?}", file.sent.name));
        };
        let decision = &decided[seq];
        let unread = !name.is_good || decision.metadata.code == Some(Code::Internal);
        // With a hash, somebody could guess sealed members.
        let unread = unread || decision.action.as_deref().is_some_and(sealing::is_sealed);
        let is_it = decision.file_sha256.as_ref() == Some(&sha256_hex(&file.sent.bytes));
        ensure!(
            is_it || (unread && decision.file_sha256.is_none()),
            "line {seq} is not about {:?}",
            file.sent.name
        );
    }
    by_file.retain(|(spool, _), _| spool != "local");
    ensure!(
        by_file.is_empty(),
        "lines of files that were never dropped: {by_file:?}"
    );
    Ok(())
}

fn answers_are_exact(
    home: &Path,
    decided: &BTreeMap<u64, Decision>,
    seen: &[Vec<u8>],
) -> Result<(), String> {
    let newest: BTreeMap<&str, u64> = decided
        .iter()
        .map(|(seq, d)| (d.answer.as_str(), *seq))
        .collect();
    let mut there = answers_there(home);
    let open = open(home)?;
    let answer = |seq: u64| {
        Ok::<_, String>(
            open.answer(seq)
                .map_err(|e| format!("line {seq}: {e}"))?
                .to_bytes(),
        )
    };
    for (path, seq) in newest {
        match there.remove(path) {
            // After a power cut, a file that a command had fetched can be there again, empty.
            Some(bytes) if path.starts_with("local/") && answers_in(&bytes).is_empty() => {}
            Some(bytes) => ensure!(
                bytes == answer(seq)?,
                "spool/{path} is not the answer of line {seq}"
            ),
            // The command for which it was written removed it.
            None => ensure!(
                path.starts_with("local/"),
                "spool/{path}, the answer of line {seq}, is missing"
            ),
        }
    }
    ensure!(there.is_empty(), "answers of nothing: {:?}", there.keys());
    for bytes in seen {
        let told: Answer = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        let seq = told
            .audit_ref
            .parse()
            .map_err(|_| format!("line `{}`", told.audit_ref))?;
        ensure!(
            *bytes == answer(seq)?,
            "an answer that was seen is not that of its line {seq} any more"
        );
    }
    Ok(())
}

fn kept_bytes_are_exact(home: &Path, decided: &BTreeMap<u64, Decision>) -> Result<(), String> {
    let mut kept = contents(&home.join("spool/rejected"));
    for (seq, decision) in decided {
        let Some(path) = &decision.kept else { continue };
        let bytes = kept.remove(OsStr::new(path.trim_start_matches("rejected/")));
        let bytes = bytes.ok_or_else(|| format!("spool/{path} of line {seq} is missing"))?;
        let is_it = decision
            .file_sha256
            .as_ref()
            .is_none_or(|hash| *hash == sha256_hex(&bytes));
        ensure!(is_it, "spool/{path} is not what line {seq} is about");
    }
    ensure!(
        kept.is_empty(),
        "spool/rejected also holds {:?}",
        kept.keys()
    );
    Ok(())
}

fn verifies(home: &Path) -> Result<(), String> {
    let disk = RealDisk::open(home).map_err(|error| error.to_string())?;
    let options = Options {
        strict: Some(spoolgate_gate::record::canonical),
        threads: 1,
        ..Options::default()
    };
    let report = verify::verify(&disk, Path::new("audit"), &options, &|_| {})
        .map_err(|error| error.to_string())?;
    ensure!(
        report.ok && report.problems.is_empty(),
        "audit verify: {:?}",
        report.problems
    );
    Ok(())
}

/// Checks that opening writes nothing, and that a run writes only that it ran.
fn opening_again_changes_nothing(home: &Path) -> Result<(), String> {
    let look = || {
        (
            log_bytes(home),
            answers_there(home),
            contents(&home.join("spool/rejected")),
        )
    };
    let before = look();
    drop(open(home)?);
    ensure!(look() == before, "opening changed the ledger or the spool");
    let seqs = lines(home)?.len();
    let mut open = open(home)?;
    let nothing = std::sync::atomic::AtomicBool::new(false);
    open.until_idle(false, &nothing, &mut |_| {})
        .map_err(|error| format!("running again: {error}"))?;
    open.finish("the check ended")
        .map_err(|error| format!("running again: {error}"))?;
    drop(open);
    only_news(home, seqs, &before, &look())
}

/// The segments, the answers and the kept bytes of a home.
pub(crate) type Look<A> = (Vec<Vec<u8>>, A, BTreeMap<OsString, Vec<u8>>);

/// Checks that a run after line `seqs` wrote only that it ran.
pub(crate) fn only_news<A: PartialEq>(
    home: &Path,
    seqs: usize,
    before: &Look<A>,
    after: &Look<A>,
) -> Result<(), String> {
    ensure!(
        (&after.1, &after.2) == (&before.1, &before.2),
        "running again changed answers or kept bytes"
    );
    ensure!(
        after.0.len() == before.0.len(),
        "running again began a segment"
    );
    for (old, new) in before.0.iter().zip(&after.0) {
        ensure!(new.starts_with(old), "running again changed lines");
    }
    for (seq, kind, _) in &lines(home)?[seqs..] {
        // A new day may begin at any time.
        let is_news = matches!(
            kind.as_str(),
            "start" | "stop" | "published" | "seal" | "tick"
        );
        ensure!(is_news, "running again wrote line {seq} of kind {kind}");
    }
    Ok(())
}
