//! Compares answer files on disk with the answers in the ledger.

use std::collections::BTreeMap;

use serde::Serialize;

use spoolgate_wire::signing::sha256_hex;

/// Maximum number of names in a list.
const NAMES_MAX: usize = 20;

/// Files of a folder of answers: SHA-256 of their bytes (hex) by path below the folder.
#[derive(Clone, Debug, Default)]
pub struct AnswerFiles {
    files: BTreeMap<String, String>,
}

/// Result of the comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AnswersReport {
    /// Files that are byte for byte the newest answer under their name.
    pub same: u64,
    /// Files that differ from it.
    pub changed: u64,
    /// The first files that differ.
    pub changed_files: Vec<String>,
    /// Lines without an answer file: it was removed, or a later answer replaced it.
    pub missing: u64,
    /// Files that are not an answer of this ledger.
    pub unknown: u64,
    /// The first files that are not.
    pub unknown_files: Vec<String>,
}

/// The answers of one range of lines.
#[derive(Clone, Debug, Default)]
pub(super) struct Answered {
    /// By the name of an existing file: the newest line, and whether the file is its answer.
    newest: BTreeMap<String, (u64, bool)>,
    missing: u64,
}

impl AnswerFiles {
    /// Adds a file. Hidden files are still being written and are skipped.
    pub fn insert(&mut self, name: &str, bytes: &[u8]) {
        let is_hidden = name
            .rsplit('/')
            .next()
            .is_some_and(|last| last.starts_with('.'));
        if !is_hidden {
            self.files.insert(name.to_owned(), sha256_hex(bytes));
        }
    }

    /// Notes the answer of line `seq` at `answer`, a path below the spool.
    pub(super) fn note(&self, noted: &mut Answered, seq: u64, answer: &str, bytes: &[u8]) {
        // Commands remove their answers at once.
        let Some(name) = answer.strip_prefix("out/") else {
            return;
        };
        match self.files.get_key_value(name) {
            Some((name, digest)) => {
                noted
                    .newest
                    .insert(name.clone(), (seq, *digest == sha256_hex(bytes)));
            }
            None => noted.missing = noted.missing.saturating_add(1),
        }
    }

    pub(super) fn report(&self, answered: &Answered) -> AnswersReport {
        let mut report = AnswersReport {
            missing: answered.missing,
            ..AnswersReport::default()
        };
        for name in self.files.keys() {
            let (count, names) = match answered.newest.get(name) {
                Some((_, true)) => {
                    report.same = report.same.saturating_add(1);
                    continue;
                }
                Some((seq, false)) => {
                    let changed = format!("{name}, of line {seq}");
                    (&mut report.changed, (&mut report.changed_files, changed))
                }
                None => (
                    &mut report.unknown,
                    (&mut report.unknown_files, name.clone()),
                ),
            };
            *count = count.saturating_add(1);
            let (list, name) = names;
            if list.len() < NAMES_MAX {
                list.push(name);
            }
        }
        report
    }
}

impl Answered {
    /// Adds the answers of other lines.
    pub(super) fn merge(&mut self, other: Answered) {
        self.missing = self.missing.saturating_add(other.missing);
        for (name, (seq, is_same)) in other.newest {
            let known = self.newest.entry(name).or_insert((seq, is_same));
            if seq >= known.0 {
                *known = (seq, is_same);
            }
        }
    }
}
