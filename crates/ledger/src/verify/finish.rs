//! The end of a verification: remembered heads compared with the log, and the report.

use std::io;

use super::super::fault::HeadFault;
use super::super::heads::{self, Head};
use super::super::note::{self, Checkpoint};
use super::super::redacted::Sealed;
use super::{CHECKPOINT_NAME, KeyReport, Problem, Reached, Report, VerifyError, Walk};
use crate::disk::{Disk, ReadFile};
use std::path::Path;

impl Walk<'_> {
    pub(super) fn finish(
        mut self,
        newest: io::Result<ReadFile>,
        disk: &dyn Disk,
        dir: &Path,
    ) -> Result<Report, VerifyError> {
        let (sealed, missing) = self.redactions.check(disk, dir)?;
        self.problems.extend(missing);
        let mut reached = if self.seals.is_empty() {
            Reached::Chain
        } else {
            Reached::Seals
        };
        let mut heads = Vec::new();
        let mut newest_head = None;
        let mut checkpoint = None;
        if let (Some(wanted), Some(last)) = (&self.options.key, self.keys.last())
            && !self
                .keys
                .all()
                .iter()
                .any(|from| from.keys.log_key == *wanted)
        {
            let what = format!(
                "the log's key is {}, and it never had {wanted}",
                last.log_key
            );
            self.problem(1, 0, what);
        }
        if self.keys.last().is_some() {
            let shown = |head: &Checkpoint| format!("{} lines, root {}", head.size, head.root);
            for (from, text) in &self.options.heads {
                match self.head_on_log(text) {
                    Ok(head) => {
                        reached = reached.max(Reached::RememberedHead);
                        newest_head = newest_head.max(Some(head.size));
                        heads.push(format!("{from}: {}", shown(&head)));
                    }
                    Err(fault) => self.note_head_problem(from, fault.to_string()),
                }
            }
            match newest.map(|file| self.head_on_log(&String::from_utf8_lossy(&file.bytes))) {
                Ok(Ok(head)) => checkpoint = Some(shown(&head)),
                Ok(Err(fault)) => self.note_head_problem(CHECKPOINT_NAME, fault.to_string()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => self.note_head_problem(CHECKPOINT_NAME, error.to_string()),
            }
        }
        if self.seals.is_empty() {
            reached = Reached::Chain;
        }
        let not_shown = self.not_shown(newest_head, &sealed);
        Ok(Report {
            ok: self.problems.is_empty(),
            reached,
            origin: self
                .keys
                .last()
                .map(|keys| keys.origin.clone())
                .unwrap_or_default(),
            log_key: self
                .keys
                .last()
                .map(|keys| keys.log_key.to_string())
                .unwrap_or_default(),
            keys: self
                .keys
                .all()
                .iter()
                .map(|from| KeyReport {
                    from_line: from.line,
                    log_key: from.keys.log_key.to_string(),
                })
                .collect(),
            segments: self.segments,
            lines: self.seq,
            batches: self.batch,
            bytes: self.bytes,
            root: if self.options.chain {
                String::new()
            } else {
                self.root.to_string()
            },
            head: self.head.to_string(),
            torn: self.torn,
            archived: self.archived,
            pruned: self.pruned,
            unseen_lines: self.unseen_lines,
            heads,
            checkpoint,
            not_shown,
            sealed,
            problems: self.problems,
        })
    }

    pub(super) fn note_head_problem(&mut self, from: &str, what: String) {
        self.problems.push(Problem {
            file: from.to_owned(),
            offset: 0,
            what,
        });
    }

    /// What this verification cannot show, given the newest head that was compared and what is
    /// known about sealed fields.
    fn not_shown(&self, newest_head: Option<u64>, sealed: &Sealed) -> Vec<String> {
        let mut not_shown = Vec::new();
        if self.options.chain {
            not_shown.push(
                "lines that were rewritten with every later hash: detected without --chain"
                    .to_owned(),
            );
        }
        not_shown.push(match newest_head {
            None => "an end cut off at a seal: detected only with --head, a checkpoint or receipt \
                    noted elsewhere"
                .to_owned(),
            Some(size) => {
                format!(
                    "an end cut off at a seal after line {size}: detected only with a later head"
                )
            }
        });
        not_shown.push(match newest_head {
            None => "a rewrite by the holder of the log's keys: detected only with a head from \
                before it"
                .to_owned(),
            Some(size) => format!(
                "a rewrite of the lines after line {size} by the holder of the log's keys: \
                    detected only with a later head"
            ),
        });
        if self.options.key.is_none() {
            not_shown.push(
                "whose log this is, because it names its own keys: --key compares them with a key \
                    that you were given"
                    .to_owned(),
            );
        }
        if self.options.strict.is_none() {
            not_shown.push(
                "lines that are not JSON, or not in the canonical form of their kind: not detected with --fast"
                    .to_owned(),
            );
        }
        if self.torn > 0 {
            not_shown.push(
                "whether a frozen batch was answered before the medium lost its seal: detected \
                    only with a head or receipt of that batch"
                    .to_owned(),
            );
        }
        if self.pruned > 0 {
            not_shown.push(format!(
                "the content of {} of {} lines: their segments were pruned and only their hashes \
                    remain; verified only with the archives",
                self.unseen_lines, self.seq
            ));
        }
        if sealed.not_seen {
            not_shown.push(format!(
                "the content of {} sealed fields: verified only with the folder `blobs`, which is \
                    missing",
                sealed.fields
            ));
        }
        if sealed.redacted > 0 {
            not_shown.push(format!(
                "the former content of {} sealed fields: they were redacted, and lines record by \
                    whom and why",
                sealed.redacted
            ));
        }
        not_shown
    }

    /// Checks that a remembered head is on the log: some seal must have its size and root.
    fn head_on_log(&self, text: &str) -> Result<Checkpoint, HeadFault> {
        let text = heads::checkpoint_of(text);
        let size = note::claimed(text).map_or(0, |head| head.size);
        let Some(keys) = self.keys.at(size) else {
            return Err(HeadFault::NoKey);
        };
        let head = note::open_checkpoint(text, &keys.log_key, &keys.origin)?;
        let named = Head {
            size: head.size,
            root: head.root.to_string(),
        };
        if let Some((_, line)) = self
            .given_up
            .iter()
            .find(|(given_up, _)| *given_up == named)
        {
            return Err(HeadFault::GivenUp {
                head: named,
                line: *line,
            });
        }
        match self
            .seals
            .binary_search_by_key(&head.size, |(size, _)| *size)
        {
            Ok(index)
                if self
                    .seals
                    .get(index)
                    .is_some_and(|(_, root)| *root == head.root) =>
            {
                Ok(head)
            }
            Ok(_) => Err(HeadFault::Root {
                size: head.size,
                root: head.root,
            }),
            Err(_) => Err(HeadFault::Size {
                size: head.size,
                root: head.root,
            }),
        }
    }
}
