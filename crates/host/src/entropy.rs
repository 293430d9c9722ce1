//! Randomness for keys, nonces and ids that commands generate. No decision reads it.

/// The operating system has no random bytes.
#[derive(Debug, thiserror::Error)]
#[error("the operating system gave no random bytes: {0}")]
pub struct EntropyError(String);

/// A source of random bytes.
pub trait Entropy: Send + Sync {
    /// 32 random bytes.
    ///
    /// # Errors
    /// Returns [`EntropyError`] if there are none.
    fn bytes32(&self) -> Result<[u8; 32], EntropyError>;
}

/// The operating system's random bytes.
#[derive(Debug, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn bytes32(&self) -> Result<[u8; 32], EntropyError> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(|error| EntropyError(error.to_string()))?;
        Ok(bytes)
    }
}

/// Deterministic bytes from a seed, for the demo and tests, where the same inputs must give the
/// same ledger bytes. Never for a home that guards anything.
#[derive(Debug)]
pub struct SeededEntropy {
    seed: u64,
    drawn: std::sync::atomic::AtomicU64,
}

impl SeededEntropy {
    /// Starts the sequence of a seed.
    pub fn new(seed: u64) -> SeededEntropy {
        SeededEntropy {
            seed,
            drawn: std::sync::atomic::AtomicU64::new(0),
        }
    }
}

impl Entropy for SeededEntropy {
    fn bytes32(&self) -> Result<[u8; 32], EntropyError> {
        use sha2::{Digest, Sha256};
        let n = self.drawn.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        Ok(Sha256::digest(format!("spoolgate seeded entropy {} {n}", self.seed)).into())
    }
}
