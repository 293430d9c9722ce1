//! The seal that ends every batch: the signed size and root of the tree so far.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};

use super::tree::Hash;

/// Body of a seal line. It contains no time: every byte is determined by the sealed lines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seal {
    /// Number of lines before the seal; equals the seal's own `seq`.
    pub size: u64,
    /// Root of the tree over those lines, hex.
    pub root: String,
    /// Ed25519 signature of the seal key, base64.
    pub sig: String,
}

/// The text that is signed: domain, origin, size, root and prev, one per line.
fn message(origin: &str, size: u64, root: &Hash, prev: &Hash) -> String {
    format!("spoolgate-seal/v1\n{origin}\n{size}\n{root}\n{prev}\n")
}

impl Seal {
    /// Seals `size` lines with this root; `prev` is the leaf hash of the last of them.
    ///
    /// ```
    /// use ed25519_dalek::SigningKey;
    /// use spoolgate_ledger::{seal::Seal, tree::leaf_hash};
    ///
    /// let key = SigningKey::from_bytes(&[1; 32]);
    /// let only = leaf_hash(b"the only line");
    /// let seal = Seal::sign(&key, "example.org/log", 1, &only, &only);
    /// assert!(seal.verifies(&key.verifying_key(), "example.org/log", &only, &only));
    /// // The seal of one log does not hold in another.
    /// assert!(!seal.verifies(&key.verifying_key(), "example.org/other", &only, &only));
    /// ```
    pub fn sign(key: &SigningKey, origin: &str, size: u64, root: &Hash, prev: &Hash) -> Seal {
        let signature = key.sign(message(origin, size, root, prev).as_bytes());
        Seal {
            size,
            root: root.to_string(),
            sig: STANDARD.encode(signature.to_bytes()),
        }
    }

    /// Whether `key` signed this seal for this place in the log.
    pub fn verifies(&self, key: &VerifyingKey, origin: &str, root: &Hash, prev: &Hash) -> bool {
        let Ok(bytes) = STANDARD.decode(&self.sig) else {
            return false;
        };
        let Ok(signature) = Signature::from_slice(&bytes) else {
            return false;
        };
        self.root == root.to_string()
            && key
                .verify_strict(
                    message(origin, self.size, root, prev).as_bytes(),
                    &signature,
                )
                .is_ok()
    }

    /// The body as JSON, with the members in their only allowed order.
    pub fn body(&self) -> String {
        format!(
            "{{\"size\":{},\"root\":\"{}\",\"sig\":\"{}\"}}",
            self.size, self.root, self.sig
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_holds_only_at_its_place() {
        let key = SigningKey::from_bytes(&[1; 32]);
        let (root, prev) = (
            super::super::tree::leaf_hash(b"r"),
            super::super::tree::leaf_hash(b"p"),
        );
        let seal = Seal::sign(&key, "example.org/log", 7, &root, &prev);
        let public = key.verifying_key();
        assert!(seal.verifies(&public, "example.org/log", &root, &prev));
        assert!(!seal.verifies(&public, "example.org/other", &root, &prev));
        assert!(!seal.verifies(&public, "example.org/log", &prev, &prev));
        assert!(!seal.verifies(&public, "example.org/log", &root, &root));
        assert!(
            !Seal {
                size: 8,
                ..seal.clone()
            }
            .verifies(&public, "example.org/log", &root, &prev)
        );
        assert!(!seal.verifies(
            &SigningKey::from_bytes(&[2; 32]).verifying_key(),
            "example.org/log",
            &root,
            &prev
        ));
        assert_eq!(serde_json::from_str::<Seal>(&seal.body()).unwrap(), seal);
    }
}
