//! The key that the secrets in the keyring are encrypted with, and encryption of one secret.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};
use spoolgate_wire::signing::{hex, unhex};
use zeroize::Zeroizing;

use super::KeyringError;

/// Path of the key below the home, unless another one is named.
pub const KEY_FILE: &str = "state/keyring.key";
/// Name of the key among the credentials that systemd hands to a unit.
const CREDENTIAL: &str = "spoolgate-keyring";
/// At most this much of a key file is read, bytes; a key is far shorter.
const KEY_FILE_BYTES_MAX: usize = 4096;
/// Bytes of a nonce, which precedes each ciphertext.
const NONCE_BYTES: usize = 24;

/// The file that `--keyring-key` names.
static NAMED: OnceLock<PathBuf> = OnceLock::new();

/// Names the key file of all keyrings that this process opens. Only the first call counts.
pub fn name_key_file(path: PathBuf) {
    let _ = NAMED.set(path);
}

/// Returns the path of the key file of a home: the named one, else systemd's credential, else the
/// one in the home.
pub fn key_file(home: &Path) -> PathBuf {
    if let Some(path) = NAMED.get() {
        return path.clone();
    }
    std::env::var_os("CREDENTIALS_DIRECTORY")
        .map(|folder| Path::new(&folder).join(CREDENTIAL))
        .filter(|path| path.exists())
        .unwrap_or_else(|| home.join(KEY_FILE))
}

/// What a ciphertext belongs to, so that it opens in its own place only: table, row, and the
/// service or algorithm.
pub(super) type Place<'a> = (&'static str, &'a str, &'a str);

fn associated((table, row, of): Place<'_>) -> Vec<u8> {
    format!("spoolgate keyring 2\0{table}\0{row}\0{of}").into_bytes()
}

/// A key in memory, which is overwritten when it is dropped.
pub(super) struct Key {
    cipher: XChaCha20Poly1305,
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(..)")
    }
}

impl Key {
    fn of(bytes: &[u8; 32]) -> Key {
        Key {
            cipher: XChaCha20Poly1305::new(bytes.into()),
        }
    }

    /// Returns a random key that is in no file.
    pub(super) fn random() -> Result<Key, KeyringError> {
        let mut bytes = Zeroizing::new([0; 32]);
        fill(&mut *bytes)?;
        Ok(Key::of(&bytes))
    }

    /// Reads a key file. `None` if there is no file.
    pub(super) fn read(path: &Path) -> Result<Option<Key>, KeyringError> {
        let fail = |what: &str| KeyringError::Key {
            path: path.to_owned(),
            what: what.to_owned(),
        };
        let found = match fs::metadata(path) {
            Ok(found) => found,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(fail(&error.to_string())),
        };
        // A device may have no end, or do something when it is opened.
        if !(found.is_file() || found.file_type().is_fifo()) {
            return Err(fail("is neither a regular file nor a pipe"));
        }
        // systemd guards its credentials by an access list, which the mode does not show.
        let is_credential = path.file_name().is_some_and(|name| name == CREDENTIAL);
        if !is_credential && found.permissions().mode() & 0o077 != 0 {
            return Err(fail("other users may read it; run chmod 600 on it"));
        }
        // No growing buffer leaves a copy of the key behind.
        let mut text = Zeroizing::new(Vec::with_capacity(KEY_FILE_BYTES_MAX));
        File::open(path)
            .and_then(|file| file.take(KEY_FILE_BYTES_MAX as u64).read_to_end(&mut text))
            .map_err(|error| fail(&error.to_string()))?;
        let digits = text.strip_suffix(b"\n").unwrap_or(&text);
        let bytes = std::str::from_utf8(digits)
            .ok()
            .and_then(unhex)
            .map(Zeroizing::new);
        let bytes = bytes
            .as_ref()
            .and_then(|bytes| bytes.as_slice().try_into().ok());
        bytes
            .map(|bytes: &[u8; 32]| Some(Key::of(bytes)))
            .ok_or_else(|| fail("is not a key: it must have 64 lower-case hex digits"))
    }

    /// Reads a key file, or makes a new one, durably.
    pub(super) fn read_or_make(path: &Path) -> Result<Key, KeyringError> {
        if let Some(key) = Key::read(path)? {
            return Ok(key);
        }
        let mut bytes = Zeroizing::new([0; 32]);
        fill(&mut *bytes)?;
        write(path, &Zeroizing::new(hex(&*bytes))).map_err(|source| KeyringError::File {
            path: path.to_owned(),
            source,
        })?;
        Ok(Key::of(&bytes))
    }

    /// Encrypts a secret for its place.
    pub(super) fn seal(&self, place: Place<'_>, clear: &[u8]) -> Result<Vec<u8>, KeyringError> {
        let mut nonce = [0; NONCE_BYTES];
        fill(&mut nonce)?;
        let payload = Payload {
            msg: clear,
            aad: &associated(place),
        };
        let sealed = self
            .cipher
            .encrypt(&XNonce::from(nonce), payload)
            .map_err(|_| KeyringError::Damaged(place.1.to_owned()))?;
        Ok([nonce.as_slice(), &sealed].concat())
    }

    /// Decrypts a secret in its place. `None` if it was made by another key or for another place,
    /// or is damaged.
    pub(super) fn open(&self, place: Place<'_>, sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let (nonce, sealed) = sealed.split_at_checked(NONCE_BYTES)?;
        let nonce: [u8; NONCE_BYTES] = nonce.try_into().ok()?;
        let payload = Payload {
            msg: sealed,
            aad: &associated(place),
        };
        let clear = self.cipher.decrypt(&XNonce::from(nonce), payload).ok()?;
        Some(Zeroizing::new(clear))
    }
}

fn fill(bytes: &mut [u8]) -> Result<(), KeyringError> {
    getrandom::fill(bytes).map_err(|error| KeyringError::NoRandomness(error.to_string()))
}

/// Writes a key file beside its place and moves it there, so that a crash leaves a whole file or
/// none.
fn write(path: &Path, digits: &str) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(&beside)?;
    file.write_all(digits.as_bytes())?;
    file.write_all(b"\n")?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    sync_folder_of(path)
}

/// Syncs the folder that a file is in.
pub(super) fn sync_folder_of(path: &Path) -> io::Result<()> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}
