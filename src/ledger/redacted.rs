//! Sealed fields for `audit verify`: of each that a line committed to, whether its disclosure is there, was redacted by
//! a later line, or is missing without a word.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::Path;

use super::verify::Problem;
use crate::gate::sealing::blob_name;
use crate::host::disk::Disk;
use crate::wire::sealed::{Disclosure, Field, is_digest};

/// Folder of disclosures, below the ledger's.
const BLOBS_NAME: &str = "blobs";
/// Largest disclosure that is read, bytes.
const DISCLOSURE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Sealed fields, counted by their disclosures.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Sealed {
    /// How many there are.
    pub fields: u64,
    /// Whose disclosure is what was committed to.
    pub disclosed: u64,
    /// Whose disclosure was deleted, and a line says so.
    pub redacted: u64,
    /// Whether the disclosures were not looked at: the folder came without `blobs`.
    pub not_seen: bool,
}

/// What lines say of sealed fields.
#[derive(Default)]
pub struct Redactions {
    committed: BTreeMap<String, (u64, String)>,
    redacted: BTreeSet<String>,
}

impl Redactions {
    /// Takes in what line `seq` commits to.
    pub fn commit(&mut self, seq: u64, fields: &[Field]) {
        for Field { field, sd } in fields {
            // A request that was held commits to the same in the line that ends its hold.
            self.committed.entry(sd.clone()).or_insert_with(|| (seq, field.clone()));
        }
    }

    /// Takes in what a line redacts.
    pub fn redact(&mut self, fields: &[Field]) {
        self.redacted.extend(fields.iter().map(|field| field.sd.clone()));
    }

    /// Looks at the disclosures below `dir`.
    pub fn check(&self, disk: &dyn Disk, dir: &Path) -> (Sealed, Vec<Problem>) {
        let fields = u64::try_from(self.committed.len()).unwrap_or(u64::MAX);
        let mut sealed = Sealed { fields, ..Sealed::default() };
        let mut problems = Vec::new();
        let blobs = dir.join(BLOBS_NAME);
        if fields > 0 && !matches!(disk.stat(&blobs), Ok(Some(_))) {
            sealed.not_seen = true;
            return (sealed, problems);
        }
        for (digest, (seq, field)) in &self.committed {
            let name = blob_name(digest);
            let standing = if is_digest(digest) { look(disk, &blobs.join(&name), digest) } else { Ok(false) };
            let what = match (standing, self.redacted.contains(digest)) {
                (Ok(true), false) => {
                    sealed.disclosed += 1;
                    continue;
                }
                (Ok(false), true) => {
                    sealed.redacted += 1;
                    continue;
                }
                (Ok(true), true) => {
                    "was redacted and its disclosure is still there: start the gate once, or delete it"
                        .to_owned()
                }
                (Ok(false), false) => "has no disclosure, and no line says that it was redacted".to_owned(),
                (Err(why), _) => format!("has a disclosure that cannot be used: {why}"),
            };
            let file = format!("{BLOBS_NAME}/{name}");
            let shown = if field.is_empty() { "the payload" } else { field.as_str() };
            problems.push(Problem { file, offset: 0, what: format!("`{shown}` of line {seq} {what}") });
        }
        (sealed, problems)
    }
}

/// Whether the disclosure is there; what is wrong with one that is.
fn look(disk: &dyn Disk, path: &Path, digest: &str) -> Result<bool, String> {
    let file = match disk.read(path, DISCLOSURE_BYTES_MAX) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error.to_string()),
    };
    let text = std::str::from_utf8(&file.bytes).map_err(|_| "it is not text".to_owned())?;
    Disclosure::open(text, digest).map(|_| true).map_err(|error| error.to_string())
}
