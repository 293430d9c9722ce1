//! The rule files as one value, which is hashed, kept in `audit/rulebooks/` and compiled.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Files of a rulebook by path relative to the home, with `/` as separator.
///
/// The hash is SHA-256 over [`Bundle::to_bytes`]. Each file in `audit/rulebooks/` therefore holds
/// exactly the rules that decisions were made under, and its name proves it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bundle {
    /// Rule file texts by path.
    pub files: BTreeMap<String, String>,
}

impl Bundle {
    /// Returns the stored form: JSON on one line, keys sorted.
    pub fn to_bytes(&self) -> Vec<u8> {
        // A map of strings always serialises; an empty result would still change the hash.
        let mut bytes = serde_json::to_vec(self).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }

    /// Reads the stored form back.
    ///
    /// # Errors
    /// Returns the JSON error if the bytes are not a bundle.
    pub fn from_bytes(bytes: &[u8]) -> Result<Bundle, serde_json::Error> {
        serde_json::from_slice(bytes)
    }

    /// Returns the lower-case hex SHA-256 of the stored form, which identifies the rulebook.
    pub fn hash(&self) -> String {
        spoolgate_wire::signing::hex(&Sha256::digest(self.to_bytes()))
    }
}
