//! Ledger files as bytes: taking them apart, forging, opening and verifying them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ed25519_dalek::SigningKey;
use spoolgate_home::layout;
use spoolgate_host::keyring::LogKeys;
use spoolgate_ledger::log::LogSigner;
use spoolgate_ledger::recover::{self, Found};
use spoolgate_ledger::seal::Seal;
use spoolgate_ledger::tree::{Frontier, Hash, leaf_hash};
use spoolgate_ledger::verify::{self, Options, Report};
use spoolgate_ledger::{LedgerError, segment};

use super::memory_disk::MemoryDisk;
use super::place::{ORDER, ORIGIN, Place, drain};

/// The files of an undamaged ledger.
#[derive(Clone)]
pub(crate) struct Files {
    /// Path below the home and bytes of every segment and of the checkpoint.
    pub files: Vec<(PathBuf, Vec<u8>)>,
    /// The keys that the ledger is written with.
    pub keys: LogKeys,
}

/// The result of opening a ledger for writing.
#[derive(PartialEq, Eq)]
pub(crate) enum Opened {
    /// The ledger was clean, with these lines.
    Clean(Vec<String>),
    /// The ledger was torn, with these lines before the torn rest.
    Torn(Vec<String>),
    /// The ledger was refused.
    Corrupt(String),
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Opened::Clean(lines) => write!(f, "clean, {} lines", lines.len()),
            Opened::Torn(lines) => write!(f, "torn behind {} lines", lines.len()),
            Opened::Corrupt(why) => write!(f, "{why}"),
        }
    }
}

impl Files {
    /// Reads the files of a home.
    pub(crate) fn of(place: &Place) -> Files {
        let mut all = place.disk.files_below("audit");
        all.retain(|(path, _)| !path.ends_with(".reserve"));
        let mine = |path: &Path| path.parent() == Some(Path::new("audit"));
        let files = all.into_iter().filter(|(path, _)| mine(path)).collect();
        Files {
            files,
            keys: place.log_keys(),
        }
    }

    /// Returns a segment's bytes.
    pub(crate) fn segment(&self, number: u32) -> &[u8] {
        let path = segment::path(number);
        &self.files.iter().find(|(name, _)| *name == path).unwrap().1
    }

    /// Replaces the bytes of a segment.
    pub(crate) fn with_segment(&self, number: u32, bytes: Vec<u8>) -> Files {
        self.with(&segment::path(number), Some(bytes))
    }

    /// Replaces the bytes of a file, or removes it.
    pub(crate) fn with(&self, path: &Path, bytes: Option<Vec<u8>>) -> Files {
        let mut changed = self.clone();
        changed.files.retain(|(name, _)| name != path);
        changed
            .files
            .extend(bytes.map(|bytes| (path.to_owned(), bytes)));
        changed.files.sort();
        changed
    }

    /// Removes the checkpoint.
    pub(crate) fn without_checkpoint(&self) -> Files {
        self.with(Path::new("audit/checkpoint"), None)
    }

    /// Replaces the checkpoint.
    pub(crate) fn with_checkpoint(&self, bytes: &[u8]) -> Files {
        self.with(Path::new("audit/checkpoint"), Some(bytes.to_vec()))
    }

    /// Returns the checkpoint.
    pub(crate) fn checkpoint(&self) -> Vec<u8> {
        self.files
            .iter()
            .find(|(name, _)| name.ends_with("checkpoint"))
            .unwrap()
            .1
            .clone()
    }

    /// Returns the keys that sign the ledger.
    pub(crate) fn signer(&self) -> LogSigner {
        layout::log_signer(ORIGIN, &self.keys).unwrap()
    }

    /// Opens a copy for writing, from the first line on.
    pub(crate) fn open(&self) -> Opened {
        self.open_on(&Arc::new(MemoryDisk::with(&self.files)))
    }

    /// Opens a copy on a disk whose files the test can examine afterwards.
    pub(crate) fn open_on(&self, disk: &Arc<MemoryDisk>) -> Opened {
        let mut lines = Vec::new();
        let opened = recover::open(disk.clone(), self.signer(), None, &mut |line| {
            lines.push(format!("{} {} {}", line.seq, line.kind, line.body));
            Ok(())
        });
        match opened {
            Ok((_, Found::Clean)) => Opened::Clean(lines),
            Ok((_, Found::Torn(_))) => Opened::Torn(lines),
            Err(LedgerError::Corrupt(corruption)) => Opened::Corrupt(corruption.to_string()),
            Err(other) => panic!("neither clean, torn nor corrupt: {other}"),
        }
    }

    /// Verifies a copy.
    pub(crate) fn verify(&self, strict: bool) -> Result<Report, String> {
        self.verify_on_threads(strict, 1)
    }

    /// Verifies a copy with this number of threads.
    pub(crate) fn verify_on_threads(&self, strict: bool, threads: usize) -> Result<Report, String> {
        let disk = MemoryDisk::with(&self.files);
        let options = Options {
            strict: strict.then_some(spoolgate_gate::record::canonical),
            threads,
            ..Options::default()
        };
        verify::verify(&disk, Path::new("audit"), &options, &|_| {})
            .map_err(|error| error.to_string())
    }

    /// Whether verifying finds nothing wrong.
    pub(crate) fn verifies(&self) -> bool {
        self.verify(false).is_ok_and(|report| report.ok)
    }

    /// Returns the offset after every seal of a segment.
    pub(crate) fn seal_ends(&self, number: u32) -> Vec<usize> {
        let mut ends = Vec::new();
        let mut at = 0;
        for line in self.segment(number).split_inclusive(|byte| *byte == b'\n') {
            at += line.len();
            if is_seal(line) && line.ends_with(b"\n") {
                ends.push(at);
            }
        }
        ends
    }
}

/// Whether a line is a seal, judged by its start.
pub(crate) fn is_seal(line: &[u8]) -> bool {
    let text = String::from_utf8_lossy(line);
    text.split(',').nth(3) == Some("\"kind\":\"seal\"")
}

/// What a forger can do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Forger {
    /// Recomputes every hash; signatures stay as they were.
    Keyless,
    /// Also signs every seal: the holder of the seal key, or a writer with a bug.
    HoldsSealKey,
}

/// Writes the lines (without LF) again so that every `prev`, line number, batch number, size and
/// root is right.
pub(crate) fn forge(lines: &[Vec<u8>], keys: &LogKeys, forger: Forger) -> Vec<u8> {
    let seal_key = SigningKey::from_bytes(&keys.seal_seed);
    let mut out = Vec::new();
    let mut head = Hash::ZERO;
    let mut frontier = Frontier::new();
    let mut batch = 0;
    for line in lines {
        let text = String::from_utf8(line.clone()).unwrap();
        let kind = text.find(",\"kind\":").unwrap();
        let seq = frontier.size();
        let mut text = format!(
            "{{\"prev\":\"{head}\",\"seq\":{seq},\"batch\":{batch}{}",
            &text[kind..]
        );
        if is_seal(line) {
            let start = text.find("\"size\":").unwrap();
            let old: Seal = serde_json::from_str(&format!("{{{}", &text[start..])).unwrap();
            let root = frontier.root();
            let size = frontier.size();
            let mut seal = Seal::sign(&seal_key, ORIGIN, size, &root, &head);
            if forger == Forger::Keyless {
                seal.sig = old.sig;
            }
            text = format!("{}{}", &text[..start], &seal.body()[1..]);
            batch += 1;
        }
        head = leaf_hash(text.as_bytes());
        frontier.push(head);
        out.extend_from_slice(text.as_bytes());
        out.push(b'\n');
    }
    out
}

/// Returns the lines of a file, without LF.
pub(crate) fn lines_of(bytes: &[u8]) -> Vec<Vec<u8>> {
    let text = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    text.split(|byte| *byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect()
}

/// Text that would begin a line of a later batch if it were not inside a JSON string.
pub(crate) const HOSTILE: &str = r#"J{\"prev\":\"0000000000000000000000000000000000000000000000000000000000000000\",\"seq\":99,\"batch\":99,\"kind\":\"seal\","#;

/// Makes a ledger of four batches: genesis, a key, an order with its check vector, a halt and a
/// query of the orders. Also returns the checkpoint of the last batch but one.
pub(crate) fn small() -> (Place, Files, Vec<u8>) {
    let place = Place::new(1);
    let bot = place.ask_for_agent_key("k1");
    let mut home = place.open().unwrap();
    drain(&mut home).unwrap();
    place.ask(&bot, "trend-bot", "o1", "order.submit", ORDER);
    drain(&mut home).unwrap();
    let older = place.disk.get("audit/checkpoint").unwrap();
    place.ask_as_owner("h1", "halt.set", &format!(r#"{{"reason":"{HOSTILE}"}}"#));
    place.ask(&bot, "trend-bot", "l1", "orders.list", "{}");
    drain(&mut home).unwrap();
    drop(home);
    let files = Files::of(&place);
    (place, files, older)
}

/// Makes a ledger of three segments, of which the first two end in a torn rest.
pub(crate) fn three_segments() -> Files {
    let place = Place::new(2);
    let bot = place.ask_for_agent_key("k1");
    drain(&mut place.open().unwrap()).unwrap();
    for (round, room) in [(1, 700), (2, 1100)] {
        place.ask(&bot, "trend-bot", &format!("l{round}"), "orders.list", "{}");
        let mut home = place.open().unwrap();
        place.disk.faults.lock().unwrap().append_room = Some(room);
        drain(&mut home).unwrap_err();
        drop(home);
        let mut home = place.open().unwrap();
        assert!(
            matches!(home.found, recover::Found::Torn(_)),
            "{:?}",
            home.found
        );
        drain(&mut home).unwrap();
        place.ask_as_owner(&format!("h{round}"), "halt.set", r#"{"reason":"x"}"#);
        drain(&mut home).unwrap();
    }
    Files::of(&place)
}
