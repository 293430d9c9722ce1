//! A reader of the ledger that uses nothing of the gate's own scanning: lines, hashes, seals. It
//! continues where it stopped and checks that what it read before is still there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use spoolgate_gate::Change;
use spoolgate_gate::record::{CaseDecision, Decision, EventKind, Record, Response, Status};
use spoolgate_home::sealed;
use spoolgate_wire::signing::{hex, sha256_hex};

use super::disk::SimDisk;

/// What was read so far, up to the last seal.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// Bytes of each segment up to its last seal.
    segments: Vec<Vec<u8>>,
    head: String,
    /// The number of lines.
    pub lines: u64,
    batch: u64,
    /// Decisions by line.
    pub decisions: BTreeMap<u64, Decision>,
    /// The outcomes of outgoing actions by their request lines, with the number of the response
    /// line.
    pub responses: BTreeMap<u64, (u64, Response)>,
    /// The council's decisions by line.
    pub rulings: BTreeMap<u64, CaseDecision>,
    /// Answers by line. A request line has no answer, and neither have its copies while the action
    /// is open.
    pub answers: BTreeMap<u64, Vec<u8>>,
    /// All answers up to this line are reported as durable.
    pub published: Option<u64>,
    /// Files that lines name by digest, with their contents.
    pub named: BTreeMap<PathBuf, Vec<u8>>,
    /// Torn batches that were left behind.
    pub torn: u64,
}

fn leaf(line: &[u8]) -> String {
    hex(&Sha256::new()
        .chain_update([0])
        .chain_update(line)
        .finalize())
}

struct Read {
    kind: String,
    body: String,
}

impl Reader {
    /// Reads the new lines.
    ///
    /// The first fault.
    pub(super) fn read_on(&mut self, disk: &SimDisk) -> Result<(), String> {
        let mut files: Vec<(String, Vec<u8>)> = Vec::new();
        disk.each_in(Path::new("audit"), |name, bytes| {
            if name.starts_with("log-") && name.ends_with(".jsonl") {
                files.push((name.to_owned(), bytes.to_vec()));
            }
        });
        files.sort();
        if self.head.is_empty() {
            self.head = "0".repeat(64);
        }
        for (n, (name, bytes)) in files.iter().enumerate() {
            if *name != format!("log-{:08}.jsonl", n + 1) {
                return Err(format!("segment {} is called {name}", n + 1));
            }
            if self.segments.len() == n {
                self.segments.push(Vec::new());
                self.torn += u64::from(n > 0);
            }
            let known = self.segments[n].len();
            if bytes.get(..known) != Some(&self.segments[n][..]) {
                return Err(format!(
                    "{name}: sealed lines are no longer there or were changed"
                ));
            }
            let sealed = self
                .segment(disk, &bytes[known..])
                .map_err(|why| format!("{name}: {why}"))?;
            if sealed > 0 && n + 1 < self.segments.len() {
                return Err(format!("{name} grew though there is a later segment"));
            }
            self.segments[n].extend_from_slice(&bytes[known..known + sealed]);
        }
        if files.len() < self.segments.len() {
            return Err("a segment is gone".to_owned());
        }
        Ok(())
    }

    /// Reads the sealed batches at the start of `bytes` and returns their length. Bytes after them
    /// do not count.
    fn segment(&mut self, disk: &SimDisk, bytes: &[u8]) -> Result<usize, String> {
        let mut sealed = 0;
        let mut at = 0;
        let mut batch: Vec<Read> = Vec::new();
        let mut head = self.head.clone();
        while let Some(end) = bytes[at..].iter().position(|byte| *byte == b'\n') {
            let line = &bytes[at..at + end];
            at += end + 1;
            let start = format!(
                "{{\"prev\":\"{head}\",\"seq\":{},\"batch\":{},\"kind\":\"",
                self.lines + batch.len() as u64,
                self.batch
            );
            let Some(rest) = std::str::from_utf8(line)
                .ok()
                .and_then(|text| text.strip_prefix(start.as_str()))
            else {
                break;
            };
            let Some((kind, rest)) = rest.split_once("\",") else {
                break;
            };
            head = leaf(line);
            batch.push(Read {
                kind: kind.to_owned(),
                body: format!("{{{rest}"),
            });
            if kind == "seal" {
                for read in batch.drain(..) {
                    self.line(disk, &read)?;
                }
                self.batch += 1;
                self.head.clone_from(&head);
                sealed = at;
            }
        }
        Ok(sealed)
    }

    /// Records the files that a line names, which must exist as soon as the line does.
    fn digests(&mut self, disk: &SimDisk, seq: u64, record: Option<&Record>) -> Result<(), String> {
        let mut paths: Vec<(PathBuf, &str)> = Vec::new();
        let mut rulebook = |hash| paths.push((format!("audit/rulebooks/{hash}.json").into(), hash));
        match record {
            Some(Record::Genesis(genesis)) => rulebook(genesis.rulebook.as_str()),
            Some(Record::Decision(decision)) => rulebook(decision.rulebook.as_str()),
            Some(Record::Response(response)) => rulebook(response.rulebook.as_str()),
            Some(Record::Council(ruling)) => rulebook(ruling.rulebook.as_str()),
            Some(Record::Event(EventKind::Rulebook, event)) => {
                for change in &event.changes {
                    if let Change::RulebookLoaded { hash, .. } = change {
                        rulebook(hash.as_str());
                    }
                }
            }
            _ => {}
        }
        let blob = |digest| (Path::new("audit/blobs").join(digest), digest);
        match record {
            Some(Record::Decision(decision)) => {
                paths.extend(decision.data_blob.as_deref().map(blob));
                paths.extend(decision.payload_blob.as_deref().map(blob));
            }
            Some(Record::Response(response)) => {
                paths.extend(response.data_blob.as_deref().map(blob))
            }
            Some(Record::Council(ruling)) => {
                paths.extend(ruling.decision_blob.as_deref().map(blob));
                paths.extend(ruling.record_blob.as_deref().map(blob));
            }
            Some(Record::Market(rows)) => paths.extend(rows.rows_sha256.as_deref().map(blob)),
            _ => {}
        }
        for (path, digest) in paths {
            if self.named.contains_key(&path) {
                continue;
            }
            let bytes = disk.get(&path).filter(|bytes| sha256_hex(bytes) == digest);
            let bytes = bytes.ok_or_else(|| {
                format!("line {seq} names {}, which is not there", path.display())
            })?;
            self.named.insert(path, bytes);
        }
        Ok(())
    }

    fn line(&mut self, disk: &SimDisk, read: &Read) -> Result<(), String> {
        let seq = self.lines;
        self.lines += 1;
        let record =
            Record::parse(&read.kind, &read.body).map_err(|why| format!("line {seq}: {why}"))?;
        self.digests(disk, seq, record.as_ref())?;
        match record {
            Some(Record::Decision(decision)) => {
                let blob_of = |digest: &String| disk.get(&Path::new("audit/blobs").join(digest));
                let is_begun = |line: &u64| {
                    self.decisions
                        .get(line)
                        .is_some_and(|decision| decision.status == Status::Pending)
                };
                let answer = match decision.metadata.replay_of {
                    Some(original) if is_begun(&original) => {
                        let ended = self.responses.get(&original);
                        ended
                            .and_then(|(response, _)| self.answers.get(response))
                            .cloned()
                    }
                    Some(original) => {
                        let answer = self.answers.get(&original).cloned();
                        Some(answer.ok_or(format!("line {seq} replays nothing"))?)
                    }
                    None if decision.status == Status::Pending => None,
                    None => {
                        let blob = decision.data_blob.as_ref().and_then(blob_of);
                        let answer = decision.answer(blob.as_deref());
                        Some(
                            answer
                                .map_err(|why| format!("line {seq}: {why}"))?
                                .to_bytes(),
                        )
                    }
                };
                self.answers.extend(answer.map(|answer| (seq, answer)));
                self.decisions.insert(seq, *decision);
            }
            Some(Record::Response(response)) => {
                // This reading is not the process's own, so it cannot die in it.
                let revealed = sealed::response(&disk.fork(), &response)
                    .map_err(|why| format!("line {seq}: {why}"))?;
                if !revealed.is_whole {
                    return Err(format!("line {seq} names a disclosure that is not there"));
                }
                let answer = revealed
                    .line
                    .answer(None)
                    .map_err(|why| format!("line {seq}: {why}"))?;
                self.answers.insert(seq, answer.to_bytes());
                let request = response.request_line;
                if let Some((before, _)) = self.responses.insert(request, (seq, *response)) {
                    return Err(format!(
                        "line {request} has responses in lines {before} and {seq}"
                    ));
                }
            }
            Some(Record::Council(ruling)) => {
                self.rulings.insert(seq, *ruling);
            }
            Some(Record::Published(published)) => self.published = Some(published.up_to),
            _ => {}
        }
        Ok(())
    }
}
