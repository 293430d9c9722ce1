//! A principal's own copy of its key: one JSON file, mode 0600, written once.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use ed25519_dalek::SigningKey;
use serde::{Deserialize, Serialize};

use spoolgate_wire::admin::Algorithm;
use spoolgate_wire::ids::Principal;
use spoolgate_wire::signing::{SignKey, unhex};

/// A key file has about 200 bytes; anything much larger is not a key file.
const KEY_FILE_BYTES_MAX: u64 = 4096;

/// Permission bits of everybody but the owner.
const OTHERS: u32 = 0o077;

/// Why a key file yields no key. No message contains anything of the file except line and column.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// The file does not exist or cannot be read.
    #[error("key file `{}`: {source}", path.display())]
    Read {
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file could not be created.
    #[error("key file `{}`: {source}; it is written once, to a new file", path.display())]
    Create {
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file was created but could not be written completely; it was removed again.
    #[error("key file `{}`: {source}", path.display())]
    Write {
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file is not a key file.
    #[error(
        "`{}` is not a key file (line {line}, column {column}); use one that `spoolgate keys add \
            NAME --out FILE` wrote",
        path.display()
    )]
    Form {
        /// The path.
        path: PathBuf,
        /// Line of the fault.
        line: usize,
        /// Column of the fault.
        column: usize,
    },
    /// Other users than its owner may read or change the file.
    #[error("key file `{}` has mode {mode:04o}, so other users can read or change it; run `chmod \
        600` on it", path.display())]
    Open {
        /// The path.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// The key belongs to another principal.
    #[error("key file `{}` belongs to `{holds}`, not to `{wanted}`", path.display())]
    Whose {
        /// The path.
        path: PathBuf,
        /// The principal named in the file.
        holds: Principal,
        /// The principal who wants to sign.
        wanted: Principal,
    },
    /// The secret is truncated or was changed.
    #[error("the key file's secret is not 64 hex digits")]
    Secret,
}

/// The content of a key file.
///
/// ```
/// use spoolgate_client::KeyFile;
/// use spoolgate_wire::{admin::Algorithm, ids::Principal, signing::hex};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("trend-bot.key");
/// let bot = Principal::parse("trend-bot")?;
/// let (algorithm, secret) = (Algorithm::Ed25519, hex(&[7; 32]));
/// KeyFile { principal: bot.clone(), key_id: "k-1".to_owned(), algorithm, secret }.write(&path)?;
///
/// let key = KeyFile::read_private(&path, &bot)?.sign_key()?;
/// assert!(key.verify_key().verifies("a text", &key.sign("a text")));
/// // A key file serves only the principal that it names.
/// assert!(KeyFile::read(&path, &Principal::parse("other-bot")?).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyFile {
    /// The principal the key belongs to.
    pub principal: Principal,
    /// Id of the key.
    pub key_id: String,
    /// Algorithm of the key.
    pub algorithm: Algorithm,
    /// The 32 bytes of a shared key, or the seed of an Ed25519 key, hex.
    pub secret: String,
}

impl KeyFile {
    /// Reads the key file of `principal`.
    ///
    /// # Errors
    /// Returns [`KeyFileError`] if the file cannot be read or belongs to another principal.
    pub fn read(path: &Path, principal: &Principal) -> Result<KeyFile, KeyFileError> {
        KeyFile::read_from(open(path)?, path, principal)
    }

    /// As [`KeyFile::read`], for a file that only its owner may read. Meant for programs that hold
    /// the key as long as they run.
    ///
    /// # Errors
    /// As [`KeyFile::read`], and [`KeyFileError::Open`] if others have any permission on the file.
    pub fn read_private(path: &Path, principal: &Principal) -> Result<KeyFile, KeyFileError> {
        let file = open(path)?;
        let meta = file.metadata().map_err(|source| KeyFileError::Read {
            path: path.to_owned(),
            source,
        })?;
        if meta.mode() & OTHERS != 0 {
            return Err(KeyFileError::Open {
                path: path.to_owned(),
                mode: meta.mode() & 0o7777,
            });
        }
        KeyFile::read_from(file, path, principal)
    }

    fn read_from(file: File, path: &Path, principal: &Principal) -> Result<KeyFile, KeyFileError> {
        let mut bytes = Vec::new();
        file.take(KEY_FILE_BYTES_MAX)
            .read_to_end(&mut bytes)
            .map_err(|source| KeyFileError::Read {
                path: path.to_owned(),
                source,
            })?;
        // The parser's message could quote the secret, so keep only line and column.
        let file: KeyFile = serde_json::from_slice(&bytes).map_err(|error| KeyFileError::Form {
            path: path.to_owned(),
            line: error.line(),
            column: error.column(),
        })?;
        if file.principal != *principal {
            return Err(KeyFileError::Whose {
                path: path.to_owned(),
                holds: file.principal,
                wanted: principal.clone(),
            });
        }
        Ok(file)
    }

    /// Writes the file durably to a path where nothing exists yet: the key comes into force next.
    ///
    /// # Errors
    /// Returns [`KeyFileError::Create`] or [`KeyFileError::Write`].
    pub fn write(&self, path: &Path) -> Result<(), KeyFileError> {
        let mut file = OpenOptions::new()
            .create_new(true)
            .write(true)
            .mode(0o600)
            .open(path)
            .map_err(|source| KeyFileError::Create {
                path: path.to_owned(),
                source,
            })?;
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        serde_json::to_string(self)
            .map_err(io::Error::from)
            .and_then(|text| writeln!(file, "{text}"))
            .and_then(|()| file.sync_all())
            .and_then(|()| File::open(folder)?.sync_all())
            .map_err(|source| {
                // A partial key is useless and would block the next attempt.
                let _ = fs::remove_file(path);
                KeyFileError::Write {
                    path: path.to_owned(),
                    source,
                }
            })
    }

    /// Makes the signing key.
    ///
    /// # Errors
    /// Returns [`KeyFileError::Secret`] if the secret is not 64 hex digits.
    pub fn sign_key(&self) -> Result<SignKey, KeyFileError> {
        let secret = unhex(&self.secret).and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
        let secret = secret.ok_or(KeyFileError::Secret)?;
        Ok(match self.algorithm {
            Algorithm::HmacSha256 => SignKey::Hmac(secret),
            Algorithm::Ed25519 => SignKey::Ed25519(Box::new(SigningKey::from_bytes(&secret))),
        })
    }
}

fn open(path: &Path) -> Result<File, KeyFileError> {
    File::open(path).map_err(|source| KeyFileError::Read {
        path: path.to_owned(),
        source,
    })
}
