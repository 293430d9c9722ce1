//! Sealed fields of a home: their disclosures below `audit/blobs`, and payloads put together again with them. Whoever
//! wants the payload of a line asks here.

use std::borrow::Cow;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::batch::{BLOB_BYTES_MAX, BLOBS_DIR, Pending, blob};
use super::cases::text;
use super::open::{Home, HomeError};
use crate::gate::again::{self, NotAgain};
use crate::gate::sealing::{self, DIGESTS, Digests, FILE, Sealing};
use crate::gate::{Decision, Lookups, Prepared, Record, Seen};
use crate::host::disk::Disk;
use crate::host::entropy::{Entropy, EntropyError};
use crate::ledger::LedgerError;
use crate::wire::sealed::{self, Disclosure, DisclosureError, Field, Opened, Salt};

/// What is known of a disclosure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is there, as it was committed to.
    Disclosed(Opened),
    /// There is no such file.
    Missing,
    /// There is one with other bytes.
    Damaged(DisclosureError),
}

/// The file of the disclosure with this digest, below the home.
pub fn path_of(digest: &str) -> PathBuf {
    Path::new(BLOBS_DIR).join(sealing::blob_name(digest))
}

/// Looks for the disclosure of a field.
///
/// # Errors
/// What the disk says.
pub fn disclosure(disk: &dyn Disk, field: &Field) -> Result<Standing, HomeError> {
    // What stands in a line is a file name only if it can be a digest.
    if !sealed::is_digest(&field.sd) {
        return Ok(Standing::Missing);
    }
    let path = path_of(&field.sd);
    let file = match disk.read(&path, BLOB_BYTES_MAX) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Standing::Missing),
        Err(source) => return Err(HomeError::disk(&path, source)),
    };
    let opened = match std::str::from_utf8(&file.bytes) {
        Ok(text) => Disclosure::open(text, &field.sd),
        Err(_) => Err(DisclosureError::Digest),
    };
    Ok(match opened {
        Ok(opened) => Standing::Disclosed(opened),
        Err(error) => Standing::Damaged(error),
    })
}

/// Whether the file of this name in `audit/blobs` is there with what its name says.
///
/// # Errors
/// What the disk says.
pub(super) fn is_kept(disk: &dyn Disk, name: &str) -> Result<bool, HomeError> {
    Ok(match sealing::digest_of(name) {
        Some(digest) => {
            let field = Field { field: String::new(), sd: digest.to_owned() };
            matches!(disclosure(disk, &field)?, Standing::Disclosed(_))
        }
        None => blob(disk, name)?.is_some(),
    })
}

/// The disclosure's own text.
pub fn text_of(opened: &Opened) -> String {
    Disclosure::new(opened.salt, &opened.name, &opened.value).text
}

fn opened(disk: &dyn Disk, field: &Field) -> Result<Option<Opened>, HomeError> {
    Ok(match disclosure(disk, field)? {
        Standing::Disclosed(opened) => Some(opened),
        Standing::Missing | Standing::Damaged(_) => None,
    })
}

/// Whether a sealed field is a member of the payload.
pub fn is_of_payload(field: &Field) -> bool {
    field.field.is_empty() || field.field.starts_with('/')
}

/// The payload of a decision, byte for byte as it was sent without insignificant white space; none: the line does not keep
/// it, its blob is missing or damaged, or one of its disclosures is.
///
/// # Errors
/// What the disk says.
pub fn payload(disk: &dyn Disk, decision: &Decision) -> Result<Option<String>, HomeError> {
    match payload_left(disk, decision)? {
        Some((text, true)) => Ok(Some(text)),
        _ => Ok(None),
    }
}

/// The same with what is not disclosed any more left cut, and whether it is whole.
///
/// # Errors
/// What the disk says.
pub fn payload_left(disk: &dyn Disk, decision: &Decision) -> Result<Option<(String, bool)>, HomeError> {
    let text = text(disk, decision.payload.as_deref(), decision.payload_blob.as_deref())?;
    if decision.sealed.is_empty() {
        return Ok(text.map(|text| (text, true)));
    }
    let Some(text) = text else { return Ok(None) };
    let mut values = Vec::new();
    for field in decision.sealed.iter().filter(|field| is_of_payload(field)) {
        values.push((field, opened(disk, field)?.map(|opened| opened.value)));
    }
    let is_whole = values.iter().all(|(_, value)| value.is_some());
    let values: Vec<(&Field, Option<&str>)> =
        values.iter().map(|(field, value)| (*field, value.as_deref())).collect();
    Ok(sealed::put_back(&text, &values).map(|text| (text, is_whole)))
}

fn digests(disk: &dyn Disk, decision: &Decision) -> Result<Option<Digests>, HomeError> {
    let Some(field) = decision.sealed.iter().find(|field| field.field == DIGESTS) else { return Ok(None) };
    Ok(opened(disk, field)?.and_then(|opened| serde_json::from_str(&opened.value).ok()))
}

/// Payload hash of a line's request as it was signed, where that has sealed members and is disclosed.
///
/// # Errors
/// What the disk says.
pub fn signed_hash(disk: &dyn Disk, record: Option<&Record>) -> Result<Option<String>, HomeError> {
    match record {
        Some(Record::Decision(decision)) => Ok(digests(disk, decision)?.map(|digests| digests.payload_hash)),
        _ => Ok(None),
    }
}

/// The payload of a line with sealed members, and the line with the hashes that it was made with; none: they are not
/// disclosed any more.
///
/// # Errors
/// What the disk says.
pub(super) fn disclosed(
    disk: &dyn Disk,
    decision: &Decision,
) -> Result<Option<(String, Decision)>, HomeError> {
    let told = payload(disk, decision)?.zip(digests(disk, decision)?);
    Ok(told.map(|(payload, digests)| (payload, sealing::revealed(decision, digests))))
}

/// The request of a line, so that it can be decided again.
///
/// # Errors
/// What the disk says. Within it, why it cannot be made again.
pub fn request(disk: &dyn Disk, decision: &Decision) -> Result<Result<Prepared, NotAgain>, HomeError> {
    if let Some(why) = again::hindered(decision) {
        return Ok(Err(why));
    }
    if decision.sealed.is_empty() {
        return Ok(again::request(decision, payload(disk, decision)?));
    }
    Ok(match disclosed(disk, decision)? {
        Some((payload, revealed)) => again::request(&revealed, Some(payload)),
        None => Err(NotAgain::Redacted),
    })
}

/// The sealing of a line's request under the salts it had; none: nothing of it is sealed, or what is is not disclosed.
///
/// # Errors
/// What the disk says.
pub fn sealing(
    disk: &dyn Disk,
    decision: &Decision,
    request: &Prepared,
) -> Result<Option<Sealing>, HomeError> {
    let (mut salts, mut file) = (Vec::new(), None);
    for field in &decision.sealed {
        let Some(Opened { salt, value, .. }) = opened(disk, field)? else { return Ok(None) };
        salts.push(salt);
        if field.field == FILE {
            file = serde_json::from_str::<String>(&value).ok();
        }
    }
    let mut salts = salts.into_iter();
    let again = sealing::seal(request, file.as_deref().map(str::as_bytes), &mut || salts.next().ok_or(()));
    Ok(again.ok().flatten())
}

/// The bytes that a hold names, whether or not they are sealed.
///
/// # Errors
/// What the disk says.
pub(super) fn held_bytes(disk: &dyn Disk, name: &str) -> Result<Option<Vec<u8>>, HomeError> {
    let Some(digest) = name.strip_prefix(sealing::BLOB_PREFIX) else { return blob(disk, name) };
    let field = Field { field: FILE.to_owned(), sd: digest.to_owned() };
    let text = opened(disk, &field)?.and_then(|opened| serde_json::from_str::<String>(&opened.value).ok());
    Ok(text.map(String::into_bytes))
}

/// Has an earlier request of which `record` tells compared by the hash of what was signed, where this one has it.
///
/// # Errors
/// What the disk says.
pub(super) fn recognise(
    disk: &dyn Disk,
    seen: &mut Seen,
    request_hash: &str,
    record: Option<&Record>,
) -> Result<(), HomeError> {
    if let Some(Record::Decision(decision)) = record
        && digests(disk, decision)?.is_some_and(|digests| digests.request_hash == request_hash)
    {
        seen.request_hash = request_hash.to_owned();
    }
    Ok(())
}

/// A fresh salt.
fn salt(entropy: &dyn Entropy) -> Result<Salt, EntropyError> {
    let mut salt = Salt::default();
    for (to, from) in salt.iter_mut().zip(entropy.bytes32()?) {
        *to = from;
    }
    Ok(salt)
}

impl Home {
    /// Cuts the sealed members out of a request, under fresh salts; `bytes` are its file's.
    pub(super) fn seal(
        &self,
        request: &Prepared,
        bytes: Option<&[u8]>,
    ) -> Result<Option<Sealing>, HomeError> {
        Ok(sealing::seal(request, bytes, &mut || salt(self.seams.entropy.as_ref()))?)
    }

    /// Has earlier requests under the id of this one, which has sealed members, compared by what was signed: lines tell
    /// another hash of them.
    pub(super) fn recognise_seen(
        &self,
        pending: &Pending,
        request: &Prepared,
        lookups: &mut Lookups,
    ) -> Result<(), HomeError> {
        let Ok(authentic) = &request.request else { return Ok(()) };
        lookups.seen_as = lookups.seen.as_ref().map(|seen| seen.request_hash.clone());
        for seen in [&mut lookups.seen, &mut lookups.seen_in_spool].into_iter().flatten() {
            let record = match self.record_with(pending, seen.seq) {
                // Nobody can tell any more whether it is the same.
                Err(HomeError::Ledger(LedgerError::Pruned(missing))) => {
                    seen.request_hash.clone_from(&authentic.request_hash);
                    lookups.pruned.get_or_insert_with(|| missing.files());
                    continue;
                }
                other => other?,
            };
            recognise(self.seams.disk.as_ref(), seen, &authentic.request_hash, record.as_deref())?;
        }
        Ok(())
    }

    /// A line that may still be on its way into the ledger.
    pub(super) fn record_with<'a>(
        &self,
        pending: &'a Pending,
        seq: u64,
    ) -> Result<Option<Cow<'a, Record>>, HomeError> {
        let ahead = seq.checked_sub(self.ledger.position().seq);
        match ahead.and_then(|index| usize::try_from(index).ok()) {
            Some(index) => Ok(pending.records.get(index).map(Cow::Borrowed)),
            None => Ok(Some(Cow::Owned(self.record(seq)?.1))),
        }
    }

    /// The sealing of a request that line `held` holds: the same salts, as it is the same request.
    pub(super) fn sealing_again(
        &self,
        pending: &Pending,
        held: u64,
        request: &Prepared,
        bytes: Option<&[u8]>,
    ) -> Result<Option<Sealing>, HomeError> {
        let again = match self.record_with(pending, held)?.as_deref() {
            Some(Record::Decision(line)) => sealing(self.seams.disk.as_ref(), line, request)?,
            _ => None,
        };
        if again.is_some() { Ok(again) } else { self.seal(request, bytes) }
    }
}
