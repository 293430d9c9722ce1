//! The invariants of council cases right after every recovery.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use spoolgate_gate::Decision;
use spoolgate_home as home;
use spoolgate_wire::council::Stance;
use spoolgate_wire::sealed::{self, Disclosure};

use super::check::ensure;
use super::life::Life;
use crate::kit::court;

fn line_of(text: &str) -> Vec<u8> {
    format!("{text}\n").into_bytes()
}

impl Life {
    /// Returns the payload of a line with its sealed members, as the disk has it; no fault hinders
    /// this check.
    fn whole_payload(&self, decision: &Decision) -> Result<String, String> {
        let text = decision.payload.as_deref().unwrap_or_default();
        let mut values = Vec::new();
        for field in decision
            .sealed
            .iter()
            .filter(|field| field.field.starts_with('/'))
        {
            let file = self.disk.get(&home::sealed::path_of(&field.sd));
            let disclosure = file
                .and_then(|bytes| String::from_utf8(bytes).ok())
                .unwrap_or_default();
            let opened = Disclosure::open(&disclosure, &field.sd)
                .map_err(|error| format!("the disclosure of {}: {error}", field.field))?;
            values.push((field, opened.value));
        }
        let values: Vec<_> = values
            .iter()
            .map(|(field, value)| (*field, Some(value.as_str())))
            .collect();
        sealed::put_back(text, &values).ok_or_else(|| "its sealed members have no place".to_owned())
    }

    /// Checks that no case is decided twice, that every accepted verdict counts in its case, and
    /// that all files of cases have the content that their lines imply.
    pub(super) fn cases_stand(&self) -> Result<(), String> {
        let mut opened: BTreeMap<String, (u64, PathBuf)> = BTreeMap::new();
        let mut accepted: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        // Files that show what was said, by the line of the request or verdict.
        let mut told: BTreeMap<u64, (PathBuf, Vec<u8>)> = BTreeMap::new();
        for (seq, decision) in self.reader.decisions.iter().filter(|(_, decision)| {
            court::opened(decision).is_some() || court::files_a_verdict(decision)
        }) {
            // Includes what is sealed, because roles need all of it.
            let payload = self
                .whole_payload(decision)
                .map_err(|error| format!("line {seq}: {error}"))?;
            let said: Value =
                serde_json::from_str(&payload).map_err(|error| format!("line {seq}: {error}"))?;
            let case = said["request_id"].as_str().unwrap_or_default().to_owned();
            let path = if let Some(own) = court::opened(decision) {
                let dir = home::cases::case_dir(own.shown());
                let path = dir.join("request.json");
                let before = opened.insert(case.clone(), (*seq, dir));
                ensure!(
                    before.is_none(),
                    "{case} is opened in lines {before:?} and {seq}"
                );
                path
            } else {
                let Some((_, dir)) = opened.get(&case) else {
                    return Err(format!(
                        "line {seq} is a verdict in {case}, which nobody opened"
                    ));
                };
                accepted.entry(case).or_default().push(*seq);
                let role = said["verdict"]["role"].as_str().unwrap_or_default();
                let role = home::cases::file_name_of(role);
                dir.join("verdicts").join(format!("{seq}-{role}.json"))
            };
            told.insert(*seq, (path, line_of(&payload)));
        }
        let mut decided: BTreeMap<&str, (u64, Stance)> = BTreeMap::new();
        for (seq, ruling) in &self.reader.rulings {
            let case = ruling.request_id.as_str();
            let before = decided.insert(case, (*seq, ruling.outcome));
            ensure!(
                before.map(|(line, _)| line) == ruling.revises,
                "{case} is decided in line {seq} after {before:?}"
            );
            ensure!(
                before.is_none_or(|(_, outcome)| ruling.outcome <= outcome),
                "an objection raises the outcome of {case} in line {seq}"
            );
            let Some((request, dir)) = opened.get(case) else {
                return Err(format!("line {seq} decides {case}, which is not open"));
            };
            ensure!(
                *request == ruling.request_line,
                "line {seq} decides {case} by another request"
            );
            let votes = accepted.get(case).into_iter().flatten();
            let votes: Vec<u64> = votes.copied().filter(|line| line < seq).collect();
            ensure!(
                ruling.verdict_lines == votes,
                "line {seq}: {:?} count in {case}, {votes:?} were accepted",
                ruling.verdict_lines
            );
            let decision = line_of(ruling.decision.as_ref().map_or("", |raw| raw.get()));
            let record = line_of(ruling.record.as_ref().map_or("", |raw| raw.get()));
            let later = self.reader.rulings.range(seq + 1..);
            if later
                .into_iter()
                .any(|(_, other)| other.revises == Some(*seq))
            {
                continue;
            }
            let said = ruling.verdict_lines.iter().chain([request]);
            let said: Vec<_> = said.filter_map(|line| told.remove(line)).collect();
            let said = said.iter().map(|(path, bytes)| (path.clone(), bytes));
            for (path, bytes) in said.chain([
                (Path::new("spool").join(&ruling.answer), &decision),
                (dir.join("decision.json"), &decision),
                (dir.join("record.json"), &record),
            ]) {
                ensure!(
                    self.disk.holds(&path, bytes),
                    "{} is not that of line {seq}",
                    path.display()
                );
            }
        }
        for (seq, (path, bytes)) in &told {
            ensure!(
                !self.disk.holds(path, bytes),
                "{} shows line {seq} before the decision",
                path.display()
            );
        }
        self.rulings_stand()
    }

    /// Checks that every decision that was seen in the spool is one of the ledger.
    fn rulings_stand(&self) -> Result<(), String> {
        for (path, bytes) in &self.seen_rulings {
            let of_path = self.reader.rulings.values();
            let mut decisions = of_path
                .filter(|ruling| ruling.answer == *path)
                .filter_map(|ruling| ruling.decision.as_ref());
            ensure!(
                decisions.any(|raw| line_of(raw.get()) == *bytes),
                "{path} was seen, and no line says so"
            );
        }
        Ok(())
    }
}
