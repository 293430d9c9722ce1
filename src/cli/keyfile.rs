//! A principal's own copy of its key: one JSON file, mode 0600, written once.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, Result, bail};
use ed25519_dalek::SigningKey;
use serde::{Deserialize, Serialize};
use spoolgate::home::HomeError;
use spoolgate::wire::admin::Algorithm;
use spoolgate::wire::ids::Principal;
use spoolgate::wire::signing::{SignKey, unhex};

/// The file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyFile {
    /// Whose key.
    pub principal: Principal,
    /// Its name.
    pub key_id: String,
    /// Its kind.
    pub algorithm: Algorithm,
    /// The 32 bytes of the shared key, or the seed of an own one, hex.
    pub secret: String,
}

impl KeyFile {
    /// Reads a key file.
    pub fn read(path: &Path) -> Result<KeyFile> {
        let text = fs::read_to_string(path).with_context(|| format!("key file `{}`", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("key file `{}`", path.display()))
    }

    /// Writes it where nothing is yet, durably: the key is to hold next.
    pub fn write(&self, path: &Path) -> Result<()> {
        let mut file =
            OpenOptions::new().create_new(true).write(true).mode(0o600).open(path).with_context(|| {
                format!("key file `{}`; it is written once, to a new file", path.display())
            })?;
        let text = serde_json::to_string(self)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        writeln!(file, "{text}")
            .and_then(|()| file.sync_all())
            .and_then(|()| File::open(folder)?.sync_all())
            .map_err(|source| {
                // A part of a key is of no use to anybody, and would be in the way.
                let _ = fs::remove_file(path);
                HomeError::disk(path, source).into()
            })
    }

    /// What signs with it.
    pub fn sign_key(&self) -> Result<SignKey> {
        let Some(secret) = unhex(&self.secret).and_then(|bytes| <[u8; 32]>::try_from(bytes).ok()) else {
            bail!("the key file's secret is not 64 hex digits");
        };
        Ok(match self.algorithm {
            Algorithm::HmacSha256 => SignKey::Hmac(secret),
            Algorithm::Ed25519 => SignKey::Ed25519(Box::new(SigningKey::from_bytes(&secret))),
        })
    }
}
