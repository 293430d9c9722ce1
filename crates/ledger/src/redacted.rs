//! Sealed fields in `audit verify`: for each field that a line committed to, whether its disclosure
//! is present, was redacted by a later line, or is missing without a reason.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::Path;

use super::verify::{Problem, VerifyError, is_damage};
use crate::disk::Disk;
use spoolgate_wire::sealed::{Disclosure, DisclosureError, Field, blob_name, is_digest};

/// Name of the folder of disclosures in the ledger's folder.
const BLOBS_NAME: &str = "blobs";
/// Largest disclosure that is read, in bytes.
const DISCLOSURE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Number of sealed fields, by the status of their disclosures.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Sealed {
    /// All sealed fields.
    pub fields: u64,
    /// Fields whose disclosure is present and matches the commitment.
    pub disclosed: u64,
    /// Fields whose disclosure was deleted, as a line says.
    pub redacted: u64,
    /// Fields that a line redacts and whose disclosure still exists: its deletion did not finish.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unfinished: Vec<Problem>,
    /// Whether the disclosures were not checked because the folder has no `blobs`.
    pub not_seen: bool,
}

/// What lines state about sealed fields.
#[derive(Default)]
pub struct Redactions {
    committed: BTreeMap<String, (u64, String)>,
    redacted: BTreeSet<String>,
}

impl Redactions {
    /// Records the fields that line `seq` commits to.
    pub fn commit(&mut self, seq: u64, fields: &[Field]) {
        for Field { field, sd } in fields {
            // The line that ends a hold commits to the same fields as the decision that began it;
            // the first line counts.
            self.committed
                .entry(sd.clone())
                .or_insert_with(|| (seq, field.clone()));
        }
    }

    /// Records the fields that a line redacts.
    pub fn redact(&mut self, fields: &[Field]) {
        self.redacted
            .extend(fields.iter().map(|field| field.sd.clone()));
    }

    /// Checks the disclosures below `dir`.
    ///
    /// # Errors
    /// Returns [`VerifyError::Disk`] if a disclosure cannot be read.
    pub fn check(
        &self,
        disk: &dyn Disk,
        dir: &Path,
    ) -> Result<(Sealed, Vec<Problem>), VerifyError> {
        let fields = u64::try_from(self.committed.len()).unwrap_or(u64::MAX);
        let mut sealed = Sealed {
            fields,
            ..Sealed::default()
        };
        let mut problems = Vec::new();
        let blobs = dir.join(BLOBS_NAME);
        let has_blobs = || disk.stat(&blobs).map(|stat| stat.is_some());
        if fields > 0
            && !has_blobs().map_err(|source| VerifyError::Disk {
                path: blobs.clone(),
                source,
            })?
        {
            sealed.not_seen = true;
            return Ok((sealed, problems));
        }
        for (digest, (seq, field)) in &self.committed {
            let name = blob_name(digest);
            let standing = if is_digest(digest) {
                match look(disk, &blobs.join(&name), digest) {
                    Err(Unusable::Disk(source)) if !is_damage(&source) => {
                        let path = blobs.join(&name);
                        return Err(VerifyError::Disk { path, source });
                    }
                    found => found,
                }
            } else {
                Ok(false)
            };
            let (list, what) = match (standing, self.redacted.contains(digest)) {
                (Ok(true), false) => {
                    sealed.disclosed += 1;
                    continue;
                }
                (Ok(false), true) => {
                    sealed.redacted += 1;
                    continue;
                }
                (Ok(true), true) => (
                    &mut sealed.unfinished,
                    "was redacted, but its disclosure still exists and can be read: start the gate \
                        once, which deletes it, or delete the file"
                        .to_owned(),
                ),
                (Ok(false), false) => (
                    &mut problems,
                    "has no disclosure, and no line records its redaction".to_owned(),
                ),
                (Err(why), _) => (
                    &mut problems,
                    format!("has a disclosure that cannot be used: {why}"),
                ),
            };
            let file = format!("{BLOBS_NAME}/{name}");
            let shown = if field.is_empty() {
                "the payload"
            } else {
                field.as_str()
            };
            list.push(Problem {
                file,
                offset: 0,
                what: format!("`{shown}` of line {seq} {what}"),
            });
        }
        Ok((sealed, problems))
    }
}

/// Why a disclosure cannot be used.
#[derive(Debug, thiserror::Error)]
enum Unusable {
    #[error(transparent)]
    Disk(#[from] io::Error),
    #[error("it is not text")]
    NotText(#[from] std::str::Utf8Error),
    #[error(transparent)]
    Disclosure(#[from] DisclosureError),
}

/// Returns whether the disclosure exists, or what is wrong with an existing one.
fn look(disk: &dyn Disk, path: &Path, digest: &str) -> Result<bool, Unusable> {
    let file = match disk.read(path, DISCLOSURE_BYTES_MAX) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    Disclosure::open(std::str::from_utf8(&file.bytes)?, digest)?;
    Ok(true)
}
