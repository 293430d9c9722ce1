//! Logs with meaningless lines, and with segments and batches of any length, beside the leaf hashes
//! that they must have.

use std::path::Path;
use std::sync::Arc;

use ed25519_dalek::SigningKey;
use spoolgate_gate::record::{Genesis, Record};
use spoolgate_ledger::disk::{Disk, read_exact_at};
use spoolgate_ledger::log::{CHECKPOINT_FILE, LogSigner};
use spoolgate_ledger::note::{NOTE_BYTES_MAX, SignerKey, VerifierKey};
use spoolgate_ledger::tree::{Hash, leaf_hash};
use spoolgate_ledger::{Ledger, Position, segment};
use spoolgate_wire::signing::hex;
use spoolgate_wire::time::Time;

/// The name of the log.
pub(crate) const ORIGIN: &str = "spoolgate.invalid/synthetic";

/// A log that is being written.
pub(crate) struct Synthetic {
    /// The disk that holds the log.
    pub disk: Arc<dyn Disk>,
    ledger: Ledger,
    /// The leaf hash of every line, from the bytes on disk.
    pub leaves: Vec<Hash>,
    /// The checkpoint after each batch.
    pub heads: Vec<String>,
}

/// Returns the keys that sign the log; another `seed` gives another log of the same name.
pub(crate) fn signer(seed: u8) -> LogSigner {
    let log = SignerKey::from_seed(ORIGIN, &[seed; 32]).unwrap();
    LogSigner {
        origin: ORIGIN.to_owned(),
        log,
        seal: SigningKey::from_bytes(&[seed + 100; 32]),
    }
}

/// Returns the key that verifies its checkpoints.
pub(crate) fn key(seed: u8) -> VerifierKey {
    signer(seed).verifier().clone()
}

impl Synthetic {
    /// Makes a log of one batch on an empty disk. `nonce` makes the genesis line differ.
    pub(crate) fn on(disk: Arc<dyn Disk>, nonce: u8) -> Synthetic {
        let signer = signer(1);
        let genesis = Record::Genesis(Genesis {
            timestamp: Time::parse("2026-03-02T12:00:00Z").unwrap(),
            format: 1,
            origin: ORIGIN.to_owned(),
            log_key: signer.verifier().to_string(),
            seal_key: hex(signer.seal.verifying_key().as_bytes()),
            nonce: hex(&[nonce; 32]),
            rulebook: "0".repeat(64),
            program: "0".to_owned(),
            semantics: 1,
            changes: Vec::new(),
        });
        let bodies = [(genesis.kind(), genesis.body().unwrap())];
        let ledger = Ledger::create(disk.clone(), signer, &bodies).unwrap();
        let mut log = Synthetic {
            disk,
            ledger,
            leaves: Vec::new(),
            heads: Vec::new(),
        };
        log.take_over(None);
        log
    }

    /// Continues with a ledger that was opened again.
    pub(crate) fn go_on(&mut self, ledger: Ledger) {
        let before = self.ledger.position().clone();
        self.ledger = ledger;
        if self.ledger.position() != &before {
            self.take_over(Some(&before));
        }
    }

    /// Reads the lines that were written after a position.
    fn take_over(&mut self, before: Option<&Position>) {
        let after = self.ledger.position().clone();
        let from = before
            .filter(|before| before.segment == after.segment)
            .map_or(0, |before| before.offset);
        let file = segment::open(
            self.disk.as_ref(),
            Path::new(segment::AUDIT_DIR),
            after.segment,
        )
        .unwrap();
        let length = usize::try_from(after.offset - from).unwrap();
        let bytes = read_exact_at(file.as_ref(), from, length).unwrap();
        let lines = bytes
            .strip_suffix(b"\n")
            .unwrap()
            .split(|byte| *byte == b'\n');
        self.leaves.extend(lines.map(leaf_hash));
        assert_eq!(self.leaves.len() as u64, after.seq);
        let head = self
            .disk
            .read(Path::new(CHECKPOINT_FILE), NOTE_BYTES_MAX)
            .unwrap();
        self.heads.push(String::from_utf8(head.bytes).unwrap());
    }

    /// Appends a batch of this number of lines and its seal.
    pub(crate) fn batch(&mut self, lines: usize, text: &str) {
        let before = self.ledger.position().clone();
        let bodies: Vec<_> = (0..lines)
            .map(|n| ("stop", format!(r#"{{"note":"{text}{n}"}}"#)))
            .collect();
        self.ledger.append(&bodies).unwrap();
        self.ledger.publish_head().unwrap();
        self.take_over(Some(&before));
    }

    /// Begins a new segment.
    pub(crate) fn cut(&mut self) {
        let before = self.ledger.position().clone();
        self.ledger.cut(None).unwrap();
        self.ledger.publish_head().unwrap();
        self.take_over(Some(&before));
    }

    /// Returns the number of lines that the newest checkpoint covers.
    pub(crate) fn size(&self) -> u64 {
        self.leaves.len() as u64 - 1
    }
}
