//! Sealed fields of a home: their disclosures in `audit/blobs`, and payloads restored from them.
//! Every reader of a line's payload goes through here.

use std::borrow::Cow;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::batch::{BLOB_BYTES_MAX, BLOBS_DIR, Pending, blob};
use super::cases::text;
use super::core::Core;
use super::error::HomeError;
use spoolgate_gate::again::{self, NotAgain};
use spoolgate_gate::record::Response;
use spoolgate_gate::sealing::{self, DIGESTS, Digests, FILE, Sealing};
use spoolgate_gate::{Decision, Lookups, Prepared, Record, Seen};
use spoolgate_host::entropy::{Entropy, EntropyError};
use spoolgate_ledger::LedgerError;
use spoolgate_ledger::disk::Disk;
use spoolgate_wire::sealed::{
    self, Disclosure, DisclosureError, Field, Opened, Salt, blob_name, digest_of_blob,
};

/// Availability of a disclosure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The disclosure is there and matches its digest.
    Disclosed(Opened),
    /// There is no such file.
    Missing,
    /// There is a file with other bytes.
    Damaged(DisclosureError),
}

/// Returns the path of the disclosure with this digest, below the home.
pub fn path_of(digest: &str) -> PathBuf {
    Path::new(BLOBS_DIR).join(blob_name(digest))
}

/// Reads the disclosure of a field.
///
/// # Errors
/// Returns the disk's error.
pub fn disclosure(disk: &dyn Disk, field: &Field) -> Result<Standing, HomeError> {
    // A value from a line is used as a file name only if it can be a digest.
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

/// Returns whether the file of this name in `audit/blobs` is there and matches its name.
///
/// # Errors
/// Returns the disk's error.
pub fn is_kept(disk: &dyn Disk, name: &str) -> Result<bool, HomeError> {
    Ok(match digest_of_blob(name) {
        Some(digest) => {
            let field = Field {
                field: String::new(),
                sd: digest.to_owned(),
            };
            matches!(disclosure(disk, &field)?, Standing::Disclosed(_))
        }
        None => blob(disk, name)?.is_some(),
    })
}

/// Returns the text of a disclosure.
pub fn text_of(opened: &Opened) -> String {
    Disclosure::new(opened.salt, &opened.name, &opened.value).text
}

fn opened(disk: &dyn Disk, field: &Field) -> Result<Option<Opened>, HomeError> {
    Ok(match disclosure(disk, field)? {
        Standing::Disclosed(opened) => Some(opened),
        Standing::Missing | Standing::Damaged(_) => None,
    })
}

/// Returns whether a sealed field is a member of the payload.
pub fn is_of_payload(field: &Field) -> bool {
    field.field.is_empty() || field.field.starts_with('/')
}

/// Returns the payload of a decision, byte for byte as it was sent except for insignificant white
/// space; `None` if the line does not keep it, or if its blob or one of its disclosures is missing
/// or damaged.
///
/// # Errors
/// Returns the disk's error.
pub fn payload(disk: &dyn Disk, decision: &Decision) -> Result<Option<String>, HomeError> {
    match payload_left(disk, decision)? {
        Some((text, true)) => Ok(Some(text)),
        _ => Ok(None),
    }
}

/// As [`payload`], but leaves out members that are no longer disclosed. Also returns whether the
/// payload is whole.
///
/// # Errors
/// Returns the disk's error.
pub fn payload_left(
    disk: &dyn Disk,
    decision: &Decision,
) -> Result<Option<(String, bool)>, HomeError> {
    let text = text(
        disk,
        decision.payload.as_deref(),
        decision.payload_blob.as_deref(),
    )?;
    if decision.sealed.is_empty() {
        return Ok(text.map(|text| (text, true)));
    }
    let Some(text) = text else { return Ok(None) };
    let mut values = Vec::new();
    for field in decision.sealed.iter().filter(|field| is_of_payload(field)) {
        values.push((field, opened(disk, field)?.map(|opened| opened.value)));
    }
    let is_whole = values.iter().all(|(_, value)| value.is_some());
    let values: Vec<(&Field, Option<&str>)> = values
        .iter()
        .map(|(field, value)| (*field, value.as_deref()))
        .collect();
    Ok(sealed::put_back(&text, &values).map(|text| (text, is_whole)))
}

/// A response line with its sealed members put back.
#[derive(Clone, Debug)]
pub struct Revealed {
    /// The line; members whose disclosure is gone are absent.
    pub line: Response,
    /// The salts of its sealed members.
    pub salts: Vec<Salt>,
    /// Whether every disclosure is there.
    pub is_whole: bool,
}

/// Puts the sealed members of a response line back.
///
/// # Errors
/// Returns the disk's error.
pub fn response(disk: &dyn Disk, line: &Response) -> Result<Revealed, HomeError> {
    let mut revealed = Revealed {
        line: line.clone(),
        salts: Vec::new(),
        is_whole: true,
    };
    for field in &line.sealed {
        let opened = opened(disk, field)?;
        let value = opened.as_ref().map(|opened| opened.value.as_str());
        revealed.line.reveal(&field.field, value);
        revealed.is_whole &= opened.is_some();
        revealed.salts.extend(opened.map(|opened| opened.salt));
    }
    Ok(revealed)
}

fn digests(disk: &dyn Disk, decision: &Decision) -> Result<Option<Digests>, HomeError> {
    let Some(field) = decision.sealed.iter().find(|field| field.field == DIGESTS) else {
        return Ok(None);
    };
    Ok(opened(disk, field)?.and_then(|opened| serde_json::from_str(&opened.value).ok()))
}

/// Returns the payload hash that was signed in a line's request; `None` unless the request has
/// sealed members and they are disclosed.
///
/// # Errors
/// Returns the disk's error.
pub fn signed_hash(disk: &dyn Disk, record: Option<&Record>) -> Result<Option<String>, HomeError> {
    match record {
        Some(Record::Decision(decision)) => {
            Ok(digests(disk, decision)?.map(|digests| digests.payload_hash))
        }
        _ => Ok(None),
    }
}

/// Returns the payload of a line with sealed members, and the line with its original hashes; `None`
/// if they are no longer disclosed.
///
/// # Errors
/// Returns the disk's error.
pub fn disclosed(
    disk: &dyn Disk,
    decision: &Decision,
) -> Result<Option<(String, Decision)>, HomeError> {
    let told = payload(disk, decision)?.zip(digests(disk, decision)?);
    Ok(told.map(|(payload, digests)| (payload, sealing::revealed(decision, digests))))
}

/// Returns the request of a line, so that it can be decided again.
///
/// # Errors
/// Returns the disk's error; within the result, why the request cannot be restored.
pub fn request(
    disk: &dyn Disk,
    decision: &Decision,
) -> Result<Result<Prepared, NotAgain>, HomeError> {
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

/// Returns the sealing of a line's request under its original salts; `None` if nothing of it is
/// sealed, or if a disclosure is missing.
///
/// # Errors
/// Returns the disk's error.
pub fn sealing(
    disk: &dyn Disk,
    decision: &Decision,
    request: &Prepared,
) -> Result<Option<Sealing>, HomeError> {
    let (mut salts, mut file) = (Vec::new(), None);
    for field in &decision.sealed {
        let Some(Opened { salt, value, .. }) = opened(disk, field)? else {
            return Ok(None);
        };
        salts.push(salt);
        if field.field == FILE {
            file = serde_json::from_str::<String>(&value).ok();
        }
    }
    let mut salts = salts.into_iter();
    let again = sealing::seal(request, file.as_deref().map(str::as_bytes), &mut || {
        salts.next().ok_or(())
    });
    // A request that was refused before its causality counted has none here.
    let is_whole = request
        .request
        .as_ref()
        .is_ok_and(|authentic| authentic.envelope.request_hash() == authentic.request_hash);
    let again = again.ok().flatten();
    Ok(if is_whole {
        again
    } else {
        again.map(|sealing| sealing.with_request_hash(decision))
    })
}

/// Returns the bytes that a hold names, whether or not they are sealed.
///
/// # Errors
/// Returns the disk's error.
pub fn held_bytes(disk: &dyn Disk, name: &str) -> Result<Option<Vec<u8>>, HomeError> {
    let Some(digest) = digest_of_blob(name) else {
        return blob(disk, name);
    };
    let field = Field {
        field: FILE.to_owned(),
        sd: digest.to_owned(),
    };
    let text =
        opened(disk, &field)?.and_then(|opened| serde_json::from_str::<String>(&opened.value).ok());
    Ok(text.map(String::into_bytes))
}

/// Compares an earlier request, decided in `record`, by the hash of what was signed, if that hash
/// equals `request_hash`.
///
/// # Errors
/// Returns the disk's error.
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

/// Returns a fresh salt.
pub(super) fn salt(entropy: &dyn Entropy) -> Result<Salt, EntropyError> {
    let mut salt = Salt::default();
    for (to, from) in salt.iter_mut().zip(entropy.bytes32()?) {
        *to = from;
    }
    Ok(salt)
}

impl Core {
    /// Cuts the sealed members out of a request, under fresh salts. `bytes` are the bytes of its
    /// file.
    pub(super) fn seal(
        &self,
        request: &Prepared,
        bytes: Option<&[u8]>,
    ) -> Result<Option<Sealing>, HomeError> {
        Ok(sealing::seal(request, bytes, &mut || {
            salt(self.seams.entropy.as_ref())
        })?)
    }

    /// Compares earlier requests under the id of this one by what was signed. This request has
    /// sealed members, and lines record another hash for those.
    pub(super) fn recognise_seen(
        &self,
        pending: &Pending,
        request: &Prepared,
        lookups: &mut Lookups,
    ) -> Result<(), HomeError> {
        let Ok(authentic) = &request.request else {
            return Ok(());
        };
        lookups.seen_as = lookups.seen.as_ref().map(|seen| seen.request_hash.clone());
        for seen in [&mut lookups.seen, &mut lookups.seen_in_spool]
            .into_iter()
            .flatten()
        {
            let record = match self.record_with(pending, seen.seq) {
                // Its disclosures cannot be looked up any more, so treat it as the same request.
                Err(HomeError::Ledger(LedgerError::Pruned(missing))) => {
                    seen.request_hash.clone_from(&authentic.request_hash);
                    lookups.pruned.get_or_insert_with(|| missing.files());
                    continue;
                }
                other => other?,
            };
            recognise(
                self.seams.disk.as_ref(),
                seen,
                &authentic.request_hash,
                record.as_deref(),
            )?;
        }
        Ok(())
    }

    /// Returns a line that may not be in the ledger yet.
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

    /// Returns the sealing of a request that line `held` holds. It is the same request, so it keeps
    /// its salts.
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
        if again.is_some() {
            Ok(again)
        } else {
            self.seal(request, bytes)
        }
    }
}
