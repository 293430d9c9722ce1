//! What must hold of council cases right after every recovery.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;
use spoolgate::home::sealed;

use super::check::ensure;
use super::life::Life;

fn line_of(text: &str) -> Vec<u8> {
    format!("{text}\n").into_bytes()
}

impl Life {
    /// No case is decided twice, every accepted verdict counts in its case, and all files of cases are what their lines
    /// say.
    pub(super) fn cases_stand(&self) -> Result<(), String> {
        let mut opened: BTreeMap<String, u64> = BTreeMap::new();
        let mut accepted: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        for (seq, decision) in self.reader.decisions.iter().filter(|(_, decision)| decision.is_on_a_case()) {
            // With what is sealed in it: roles need all of it.
            let payload = sealed::payload(self.disk.as_ref(), decision)
                .map_err(|error| format!("line {seq}: {error}"))?
                .ok_or_else(|| format!("line {seq}: its payload is not disclosed"))?;
            let said: Value =
                serde_json::from_str(&payload).map_err(|error| format!("line {seq}: {error}"))?;
            let case = said["request_id"].as_str().unwrap_or_default().to_owned();
            let dir = Path::new("council/cases").join(&case);
            let path = if decision.opens_a_case() {
                let before = opened.insert(case.clone(), *seq);
                ensure!(before.is_none(), "{case} is opened in lines {before:?} and {seq}");
                dir.join("request.json")
            } else {
                ensure!(opened.contains_key(&case), "line {seq} is a verdict in {case}, which nobody opened");
                accepted.entry(case).or_default().push(*seq);
                let role = said["verdict"]["role"].as_str().unwrap_or_default();
                let role = spoolgate::home::cases::file_name_of(role);
                dir.join("verdicts").join(format!("{seq}-{role}.json"))
            };
            ensure!(
                self.disk.holds(&path, &line_of(&payload)),
                "{} is not that of line {seq}",
                path.display()
            );
        }
        let mut decided: BTreeSet<&str> = BTreeSet::new();
        for (seq, ruling) in &self.reader.rulings {
            let case = ruling.request_id.as_str();
            ensure!(decided.insert(case), "{case} is decided twice, the second time in line {seq}");
            ensure!(
                opened.get(case) == Some(&ruling.request_line),
                "line {seq} decides {case}, which is not open"
            );
            let votes = accepted.remove(case).unwrap_or_default();
            ensure!(
                ruling.verdict_lines == votes,
                "line {seq}: {:?} count in {case}, {votes:?} were accepted",
                ruling.verdict_lines
            );
            let decision = line_of(ruling.decision.as_ref().map_or("", |raw| raw.get()));
            let record = line_of(ruling.record.as_ref().map_or("", |raw| raw.get()));
            let dir = Path::new("council/cases").join(case);
            for (path, bytes) in [
                (Path::new("spool").join(&ruling.answer), &decision),
                (dir.join("decision.json"), &decision),
                (dir.join("record.json"), &record),
            ] {
                ensure!(self.disk.holds(&path, bytes), "{} is not that of line {seq}", path.display());
            }
        }
        for (path, bytes) in &self.seen_rulings {
            let of_line = self.reader.rulings.values().find(|ruling| ruling.answer == *path);
            let decision = of_line.and_then(|ruling| ruling.decision.as_ref()).map(|raw| line_of(raw.get()));
            ensure!(decision.as_ref() == Some(bytes), "{path} was seen, and no line says so");
        }
        Ok(())
    }
}
