//! A principal's own copy of its key: one JSON file, mode 0600, written once.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use ed25519_dalek::SigningKey;
use serde::{Deserialize, Serialize};

use crate::wire::admin::Algorithm;
use crate::wire::ids::Principal;
use crate::wire::signing::{SignKey, unhex};

/// A key file has some 200 bytes; what is much larger is something else.
const KEY_FILE_BYTES_MAX: u64 = 4096;

/// Permissions of others than the owner.
const OTHERS: u32 = 0o077;

/// Why a key file gives no key. No message holds anything of the file but line and column.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// It is not there, or may not be read.
    #[error("key file `{}`: {source}", path.display())]
    Read {
        /// Where.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It could not be written.
    #[error("key file `{}`: {source}; it is written once, to a new file", path.display())]
    Create {
        /// Where.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It was begun and could not be finished; nothing of it is left.
    #[error("key file `{}`: {source}", path.display())]
    Write {
        /// Where.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It is something else.
    #[error(
        "`{}` is no key file (line {line}, column {column}): take one that `spoolgate keys add NAME --out FILE` wrote",
        path.display()
    )]
    Form {
        /// Where.
        path: PathBuf,
        /// Line of the fault.
        line: usize,
        /// Column of the fault.
        column: usize,
    },
    /// Others than its owner may read or change it.
    #[error("key file `{}` has mode {mode:04o}: others may use it; `chmod 600` it", path.display())]
    Open {
        /// Where.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// It is of somebody else.
    #[error("key file `{}` is of `{holds}`, not of `{wanted}`", path.display())]
    Whose {
        /// Where.
        path: PathBuf,
        /// Whose key it is.
        holds: Principal,
        /// Who wants to sign.
        wanted: Principal,
    },
    /// The secret is cut or changed.
    #[error("the key file's secret is not 64 hex digits")]
    Secret,
}

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
    /// Reads the key file of who signs.
    ///
    /// # Errors
    /// [`KeyFileError`], also where the file is of somebody else.
    pub fn read(path: &Path, principal: &Principal) -> Result<KeyFile, KeyFileError> {
        KeyFile::read_from(open(path)?, path, principal)
    }

    /// The same, of a file that nobody but its owner may read: for programs that hold the key as long as they run.
    ///
    /// # Errors
    /// As [`KeyFile::read`], and [`KeyFileError::Open`].
    pub fn read_private(path: &Path, principal: &Principal) -> Result<KeyFile, KeyFileError> {
        let file = open(path)?;
        let meta = file.metadata().map_err(|source| KeyFileError::Read { path: path.to_owned(), source })?;
        if meta.mode() & OTHERS != 0 {
            return Err(KeyFileError::Open { path: path.to_owned(), mode: meta.mode() & 0o7777 });
        }
        KeyFile::read_from(file, path, principal)
    }

    fn read_from(file: File, path: &Path, principal: &Principal) -> Result<KeyFile, KeyFileError> {
        let mut bytes = Vec::new();
        file.take(KEY_FILE_BYTES_MAX)
            .read_to_end(&mut bytes)
            .map_err(|source| KeyFileError::Read { path: path.to_owned(), source })?;
        // What the reader says of a wrong file may repeat a secret: only the place is told.
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

    /// Writes it where nothing is yet, durably: the key is to hold next.
    ///
    /// # Errors
    /// [`KeyFileError::Create`] or [`KeyFileError::Write`].
    pub fn write(&self, path: &Path) -> Result<(), KeyFileError> {
        let mut file = OpenOptions::new()
            .create_new(true)
            .write(true)
            .mode(0o600)
            .open(path)
            .map_err(|source| KeyFileError::Create { path: path.to_owned(), source })?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        serde_json::to_string(self)
            .map_err(io::Error::from)
            .and_then(|text| writeln!(file, "{text}"))
            .and_then(|()| file.sync_all())
            .and_then(|()| File::open(folder)?.sync_all())
            .map_err(|source| {
                // A part of a key is of no use to anybody, and would be in the way.
                let _ = fs::remove_file(path);
                KeyFileError::Write { path: path.to_owned(), source }
            })
    }

    /// What signs with it.
    ///
    /// # Errors
    /// [`KeyFileError::Secret`].
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
    File::open(path).map_err(|source| KeyFileError::Read { path: path.to_owned(), source })
}
