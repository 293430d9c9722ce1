//! Keys of principals.

use std::fs;
use std::path::Path;

use serde_json::Value;
use spoolgate_wire::signing::{SignKey, unhex};

use super::succeed;

/// Adds a shared key for the principal, as an operator does, and writes its key file to `file`.
pub(crate) fn add_key(home: &Path, principal: &str, file: &Path) -> SignKey {
    let out = file.to_str().unwrap();
    succeed(home, &["keys", "add", principal, "--out", out]);
    let file: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    let secret = unhex(file["secret"].as_str().unwrap()).unwrap();
    SignKey::Hmac(secret.try_into().unwrap())
}
