// The log that examples in the documentation write to.

use std::sync::Arc;

use ed25519_dalek::SigningKey;
use spoolgate_ledger::Ledger;
use spoolgate_ledger::log::LogSigner;
use spoolgate_ledger::memory::Memory;
use spoolgate_ledger::note::SignerKey;

/// The keys of the log; another seed gives other keys.
pub fn signer(seed: u8) -> LogSigner {
    let origin = "example.org/log";
    LogSigner {
        origin: origin.to_owned(),
        log: SignerKey::from_seed(origin, &[seed; 32]).unwrap(),
        seal: SigningKey::from_bytes(&[seed + 1; 32]),
    }
}

/// A log with its genesis line and one seal.
pub fn create(disk: &Arc<Memory>) -> Ledger {
    let keys = signer(1).identity();
    let genesis = serde_json::json!({
        "origin": keys.origin, "log_key": keys.log_key.to_string(), "seal_key": keys.seal_key_hex(),
        "timestamp": "2026-03-02T12:00:00.000Z", "format": 1, "nonce": "", "rulebook": "",
        "program": "example", "changes": [],
    });
    Ledger::create(disk.clone(), signer(1), &[("genesis", genesis.to_string())]).unwrap()
}
