//! The invariants of council cases right after every recovery.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use spoolgate_gate::Decision;
use spoolgate_home as home;
use spoolgate_wire::council::Stance;
use spoolgate_wire::sealed::{self, Disclosure};

use super::check::ensure;
use super::life::Life;

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
        let mut opened: BTreeMap<String, u64> = BTreeMap::new();
        let mut accepted: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        for (seq, decision) in self
            .reader
            .decisions
            .iter()
            .filter(|(_, decision)| decision.is_on_a_case())
        {
            // Includes what is sealed, because roles need all of it.
            let payload = self
                .whole_payload(decision)
                .map_err(|error| format!("line {seq}: {error}"))?;
            let said: Value =
                serde_json::from_str(&payload).map_err(|error| format!("line {seq}: {error}"))?;
            let case = said["request_id"].as_str().unwrap_or_default().to_owned();
            let dir = Path::new("council/cases").join(&case);
            let path = if decision.opens_a_case() {
                let before = opened.insert(case.clone(), *seq);
                ensure!(
                    before.is_none(),
                    "{case} is opened in lines {before:?} and {seq}"
                );
                dir.join("request.json")
            } else {
                ensure!(
                    opened.contains_key(&case),
                    "line {seq} is a verdict in {case}, which nobody opened"
                );
                accepted.entry(case).or_default().push(*seq);
                let role = said["verdict"]["role"].as_str().unwrap_or_default();
                let role = spoolgate_home::cases::file_name_of(role);
                dir.join("verdicts").join(format!("{seq}-{role}.json"))
            };
            ensure!(
                self.disk.holds(&path, &line_of(&payload)),
                "{} is not that of line {seq}",
                path.display()
            );
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
            ensure!(
                opened.get(case) == Some(&ruling.request_line),
                "line {seq} decides {case}, which is not open"
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
            let dir = Path::new("council/cases").join(case);
            let later = self.reader.rulings.range(seq + 1..);
            if later
                .into_iter()
                .any(|(_, other)| other.revises == Some(*seq))
            {
                continue;
            }
            for (path, bytes) in [
                (Path::new("spool").join(&ruling.answer), &decision),
                (dir.join("decision.json"), &decision),
                (dir.join("record.json"), &record),
            ] {
                ensure!(
                    self.disk.holds(&path, bytes),
                    "{} is not that of line {seq}",
                    path.display()
                );
            }
        }
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
