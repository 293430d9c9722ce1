//! Answers on disk beside those that the ledger stands for.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::wire::signing::sha256_hex;

/// Most names in a list.
const NAMES_MAX: usize = 20;

/// Files of a folder of answers, by their paths below it, with the SHA-256 of their bytes, hex.
#[derive(Clone, Debug, Default)]
pub struct AnswerFiles {
    files: BTreeMap<String, String>,
}

/// What became of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AnswersReport {
    /// Files that are byte for byte what the newest line of their name answers.
    pub same: u64,
    /// Files that are not.
    pub changed: u64,
    /// The first of those.
    pub changed_files: Vec<String>,
    /// Lines whose answer is not there: taken away, or replaced by that of a later line under another name.
    pub missing: u64,
    /// Files that answer nothing in this ledger.
    pub unknown: u64,
    /// The first of those.
    pub unknown_files: Vec<String>,
}

/// What lines say of answers, within one range of lines.
#[derive(Clone, Debug, Default)]
pub(super) struct Answered {
    /// By the name of a file that is there: the newest line, and whether the file is its answer.
    newest: BTreeMap<String, (u64, bool)>,
    missing: u64,
}

impl AnswerFiles {
    /// Takes a file in. Hidden ones are on their way.
    pub fn insert(&mut self, name: &str, bytes: &[u8]) {
        let is_hidden = name.rsplit('/').next().is_some_and(|last| last.starts_with('.'));
        if !is_hidden {
            self.files.insert(name.to_owned(), sha256_hex(bytes));
        }
    }

    /// Notes what line `seq` answers under `answer`, a path below the spool.
    pub(super) fn note(&self, noted: &mut Answered, seq: u64, answer: &str, bytes: &[u8]) {
        // What commands are answered is taken away at once.
        let Some(name) = answer.strip_prefix("out/") else { return };
        match self.files.get_key_value(name) {
            Some((name, digest)) => {
                noted.newest.insert(name.clone(), (seq, *digest == sha256_hex(bytes)));
            }
            None => noted.missing = noted.missing.saturating_add(1),
        }
    }

    pub(super) fn report(&self, answered: &Answered) -> AnswersReport {
        let mut report = AnswersReport { missing: answered.missing, ..AnswersReport::default() };
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
                None => (&mut report.unknown, (&mut report.unknown_files, name.clone())),
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
    /// Takes in what other lines say.
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
