//! Proposals of a home: what deciding on them looks up, the rulebook that an applied one makes, and files: of rules in
//! `rules/active`, of proposals below `proposals`. Both are derived from ledger lines and made again after a crash,
//! before the rule files are looked at: otherwise the old ones would silently undo what was applied.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::batch::Pending;
use super::open::{Home, HomeError};
use super::rulebook;
use crate::gate::decide::{Lookups, Needs};
use crate::gate::proposals::{Change as Step, Ended, Proposed, pending_file, result_file};
use crate::gate::record::Record;
use crate::gate::{Change, events};
use crate::rules::services;
use crate::rules::yaml::RULE_FILE_BYTES_MAX;
use crate::spool::publish::Published as Put;
use crate::state::StoreError;
use crate::state::proposals::Standing;
use crate::wire::ids::ProposalId;
use crate::wire::time::Time;

/// Folder of what is proposed, below the home.
pub const PROPOSALS_DIR: &str = "proposals";
/// Folder of the rules that proposals change, below the home.
const ACTIVE_DIR: &str = "rules/active";
/// Where a person's edit of a rule's file goes that something applied meanwhile stands against, below the home.
const EDITED_DIR: &str = "proposals/edited";

/// The steps of proposals among changes.
fn steps(changes: &[Change]) -> impl Iterator<Item = &Step> {
    changes.iter().filter_map(|change| match change {
        Change::Proposal(step) => Some(step),
        _ => None,
    })
}

/// What was applied by changes.
fn applied(changes: &[Change]) -> impl Iterator<Item = (&Proposed, &str)> {
    steps(changes).filter_map(|step| match step {
        Step::Applied { proposed, rulebook, .. } => Some((proposed.as_ref(), rulebook.as_str())),
        _ => None,
    })
}

impl Home {
    /// Fills in what deciding on a proposal reads.
    ///
    /// # Errors
    /// [`HomeError`].
    pub(super) fn look_up_proposal(
        &self,
        pending: &Pending,
        needs: &Needs,
        lookups: &mut Lookups,
    ) -> Result<(), HomeError> {
        let mut path = needs.rule_file.clone();
        if let Some(id) = needs.proposal {
            lookups.only_signatures_approve = self.has_approvers();
            lookups.proposal = self.last_step(pending, id)?;
            path = match &lookups.proposal {
                Some(Step::Pended { proposed, .. } | Step::Applied { proposed, .. }) => {
                    Some(proposed.path.clone())
                }
                _ => path,
            };
        }
        if let Some(path) = path {
            let in_force = self.rulebook.files.files.get(&path).map(String::as_str);
            // What lines of this batch change is written behind their seal.
            let ahead = pending.records.iter().flat_map(|record| applied(record.changes()));
            let ahead = ahead.filter(|(proposed, _)| proposed.path == path);
            let mut known: Vec<Option<&str>> = ahead.map(|(proposed, _)| proposed.old.as_deref()).collect();
            let before = if path == services::PATH { self.services_before(pending)? } else { Vec::new() };
            known.extend(before.iter().map(Option::as_deref));
            known.push(in_force);
            lookups.rule_file_differs = !self.holds_any(Path::new(&path), &known);
        }
        for seq in &needs.evidence {
            let is_decision = matches!(self.line_of(pending, *seq)?, Some(Record::Decision(_)));
            lookups.evidence_found = lookups.evidence_found.saturating_add(usize::from(is_decision));
        }
        if let Some(id) = &needs.citation
            && let Some(docket) = self.store.docket(id)?
        {
            let request = self.said(pending, &docket)?.request;
            lookups.citation = Some((docket, request));
        }
        Ok(())
    }

    /// A line that the index knows, or that is still on its way into the ledger; none if there is none.
    fn line_of(&self, pending: &Pending, seq: u64) -> Result<Option<Record>, HomeError> {
        let ahead = seq.checked_sub(self.ledger.position().seq);
        if let Some(index) = ahead.and_then(|index| usize::try_from(index).ok()) {
            return Ok(pending.records.get(index).cloned());
        }
        if self.store.line(seq)?.is_none() {
            return Ok(None);
        }
        self.record(seq).map(|(_, record)| Some(record))
    }

    /// The last step of a proposal.
    pub(super) fn last_step(&self, pending: &Pending, id: ProposalId) -> Result<Option<Step>, HomeError> {
        let Some(row) = self.store.proposal(id)? else { return Ok(None) };
        let line = if row.standing == Standing::Reverted { row.record } else { Some(row.seq) };
        self.step_of(pending, id, line)
    }

    fn step_of(
        &self,
        pending: &Pending,
        id: ProposalId,
        line: Option<u64>,
    ) -> Result<Option<Step>, HomeError> {
        let Some(line) = line else { return Ok(None) };
        let record = self.line_of(pending, line)?.ok_or_else(|| {
            StoreError::Damaged(format!("line {line} of proposal {id} is not where the index has it"))
        })?;
        Ok(steps(record.changes()).find(|step| step.proposal_id() == id).cloned())
    }

    /// Puts a rulebook in force that an applied proposal made: kept before any line names it, and known to the next
    /// decision of the batch.
    ///
    /// # Errors
    /// [`HomeError`].
    pub(super) fn put_applied_in_force(
        &mut self,
        pending: &mut Pending,
        line: u64,
        now: Time,
    ) -> Result<(), HomeError> {
        let index = line.checked_sub(self.ledger.position().seq).and_then(|at| usize::try_from(at).ok());
        let record = index.and_then(|index| pending.records.get(index));
        let made: Vec<(ProposalId, String, Option<String>, String)> = record
            .iter()
            .flat_map(|record| events::applied(record.changes()))
            .map(|(id, path, new, hash)| (id, path.to_owned(), new.map(str::to_owned), hash.to_owned()))
            .collect();
        for (id, path, text, hash) in made {
            let book = self.rulebook.with_rule(&path, text.as_deref())?;
            if book.hash != hash {
                return Err(HomeError::Record(format!("line {line}: {id} does not make rulebook {hash}")));
            }
            rulebook::keep(self.seams.disk.as_ref(), &book.files)?;
            self.rulebook = book;
            self.tell_out_of_reach();
            let event = events::rulebook_loaded(&hash, Some((&path, &id.to_string())), now);
            self.push_event(pending, Record::Rulebook(event))?;
        }
        Ok(())
    }

    /// Whether a rule's file holds one of these texts; none: there is no file.
    pub(super) fn holds_any(&self, path: &Path, known: &[Option<&str>]) -> bool {
        let there = self.rule_file(path);
        known.iter().any(|text| there.as_deref() == text.map(str::as_bytes))
    }

    /// What a rule's file holds; none if there is none. What cannot be read holds nothing that any rulebook has.
    fn rule_file(&self, path: &Path) -> Option<Vec<u8>> {
        match self.seams.disk.read(path, RULE_FILE_BYTES_MAX) {
            Ok(file) => Some(file.bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(_) => Some(vec![0]),
        }
    }

    /// Writes the files of a line's proposals.
    ///
    /// # Errors
    /// [`HomeError`].
    pub(super) fn publish_proposals(&mut self, seq: u64, changes: &[Change]) -> Result<(), HomeError> {
        for (proposed, _) in applied(changes) {
            let texts = [proposed.old.as_deref()];
            self.put_rule(Path::new(&proposed.path), proposed.new.as_deref(), &texts, seq)?;
        }
        for step in steps(changes) {
            self.put_proposal_files(seq, step, false)?;
            if let Step::Pended { proposed, .. } = step {
                self.notify(pending_file(proposed).map_err(HomeError::Record)?);
            }
        }
        Ok(())
    }

    /// The same after a crash, but for the rules' own files.
    ///
    /// # Errors
    /// [`HomeError`].
    pub(super) fn publish_proposals_again(&mut self, seq: u64, changes: &[Change]) -> Result<(), HomeError> {
        for step in steps(changes) {
            let pending = self.state.proposals.pending.get(&step.proposal_id());
            // What waited and does not any more has a later line.
            let is_over = match step {
                Step::Pended { file_sha256, .. } => {
                    pending.is_none_or(|pending| pending.file_sha256 != *file_sha256)
                }
                _ => false,
            };
            if !is_over {
                self.put_proposal_files(seq, step, true)?;
            }
        }
        Ok(())
    }

    /// Makes the files of rules again that lines since the last mark have changed, unless a person's later edit is in
    /// force.
    ///
    /// # Errors
    /// [`HomeError`].
    pub(super) fn redo_rules(&mut self, lines: &[(u64, Record)]) -> Result<(), HomeError> {
        let mut texts: BTreeMap<&str, Vec<Option<&str>>> = BTreeMap::new();
        let mut last: BTreeMap<&str, (u64, Option<&str>)> = BTreeMap::new();
        for (seq, record) in lines {
            for (proposed, _) in applied(record.changes()) {
                let known = texts.entry(&proposed.path).or_default();
                known.extend([proposed.old.as_deref(), proposed.new.as_deref()]);
                last.insert(&proposed.path, (*seq, proposed.new.as_deref()));
            }
        }
        for (path, (seq, new)) in last {
            if self.rulebook.files.files.get(path).map(String::as_str) == new {
                let known = texts.remove(path).unwrap_or_default();
                self.put_rule(Path::new(path), new, &known, seq)?;
            }
        }
        Ok(())
    }

    /// Puts a rule's file in its place. If it holds none of `known`, a person has just edited it: that is kept aside.
    pub(super) fn put_rule(
        &mut self,
        path: &Path,
        new: Option<&str>,
        known: &[Option<&str>],
        seq: u64,
    ) -> Result<(), HomeError> {
        self.rules_written = true;
        let there = self.rule_file(path);
        let is = |text: &Option<&str>| there.as_deref() == text.map(str::as_bytes);
        if is(&new) {
            return Ok(());
        }
        if there.is_some() && !known.iter().any(is) {
            self.keep_edit(path, seq)?;
        }
        let disk = Arc::clone(&self.seams.disk);
        let put = match new {
            Some(text) => self.try_derived(path, text.as_bytes(), false)?,
            None => match disk.remove(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Put::Blocked(error),
                _ => Put::Done,
            },
        };
        match put {
            Put::Blocked(error) => {
                self.tell(format!(
                    "`{}` cannot be made what ledger line {seq} says ({error}); entries are refused until it can: mend its folder",
                    path.display()
                ));
                self.rules_blocked.insert(path.to_owned(), seq);
            }
            put => {
                self.rules_blocked.remove(path);
                self.tell_put(path, &put);
            }
        }
        Ok(())
    }

    /// Moves a person's edit out of the way, and says so.
    fn keep_edit(&mut self, path: &Path, seq: u64) -> Result<(), HomeError> {
        let disk = Arc::clone(&self.seams.disk);
        let folder = Path::new(EDITED_DIR);
        disk.create_dir(folder, crate::host::disk::Mode::Shared)
            .map_err(|source| HomeError::disk(folder, source))?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let free = (0..u32::MAX).map(|n| match n {
            0 => folder.join(format!("{stem}.{seq}.yaml")),
            n => folder.join(format!("{stem}.{seq}.{n}.yaml")),
        });
        for aside in free {
            match disk.rename_new(path, &aside) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                // Then it is in the way, and that is told.
                Err(_) => return Ok(()),
                Ok(()) => {
                    self.tell(format!(
                        "`{}` was edited while ledger line {seq} changed it; the edit is `{}` now: make it again on what is in force",
                        path.display(),
                        aside.display()
                    ));
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Tries again to write what something stood in the way of.
    ///
    /// # Errors
    /// [`HomeError`].
    pub(super) fn retry_rules(&mut self) -> Result<(), HomeError> {
        let blocked: Vec<(PathBuf, u64)> = self.rules_blocked.clone().into_iter().collect();
        for (path, seq) in blocked {
            let text = self.rulebook.files.files.get(path.to_string_lossy().as_ref()).cloned();
            let there = self.rule_file(&path).and_then(|bytes| String::from_utf8(bytes).ok());
            self.put_rule(&path, text.as_deref(), &[there.as_deref()], seq)?;
        }
        Ok(())
    }

    /// Why the files of rules are not what is in force; none: they are, or a person is editing them.
    pub(super) fn rules_blocked(&self) -> Option<String> {
        let (path, seq) = self.rules_blocked.first_key_value()?;
        Some(format!("{}: cannot be made what ledger line {seq} says; mend its folder", path.display()))
    }

    fn put_proposal_files(&mut self, seq: u64, step: &Step, again: bool) -> Result<(), HomeError> {
        self.proposals_outstanding = true;
        let id = step.proposal_id();
        let place = |folder: &str| Path::new(PROPOSALS_DIR).join(folder).join(format!("{id}.yaml"));
        let (folder, text) = match step {
            Step::Pended { proposed, .. } => ("pending", pending_file(proposed)),
            Step::Applied { proposed, by, rulebook, .. } => {
                ("applied", result_file(proposed, &Ended::Applied { by, line: seq, rulebook }))
            }
            Step::Declined { by, reason, .. } => {
                let record = self.store.proposal(id)?.and_then(|row| row.record);
                let Some(Step::Pended { proposed, .. }) = self.step_of(&Pending::default(), id, record)?
                else {
                    return Ok(());
                };
                ("declined", result_file(&proposed, &Ended::Declined { by, line: seq, reason }))
            }
        };
        let text = text.map_err(HomeError::Record)?;
        self.put_derived(&place(folder), text.as_bytes(), again)?;
        if folder != "pending" {
            // It may have been moved to where approvals are looked for, or be gone.
            let _ = self.seams.disk.remove(&place("pending"));
        }
        Ok(())
    }

    /// Makes files of proposals and rules durable, if any were written.
    ///
    /// # Errors
    /// [`HomeError`].
    pub(super) fn sync_proposals(&mut self) -> Result<(), HomeError> {
        if std::mem::take(&mut self.proposals_outstanding) {
            self.sync_derived(Path::new(PROPOSALS_DIR))?;
            self.sync_derived(Path::new(ACTIVE_DIR))?;
            self.sync_derived(Path::new("rules"))?;
        }
        Ok(())
    }
}
