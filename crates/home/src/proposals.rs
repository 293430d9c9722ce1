//! Proposals of a home: the rulebook that an applied proposal makes, and the files below
//! `proposals`.

use std::path::Path;

use super::batch::Pending;
use super::derived::{File, Line, Projection, Source, Want};
use super::error::HomeError;
use super::open::Home;
use super::rulebook;
use spoolgate_gate::proposals::{Change as Step, Ended, Proposed, pending_file, result_file};
use spoolgate_gate::record::{EventKind, Record};
use spoolgate_gate::{Change, events};
use spoolgate_wire::ids::ProposalId;
use spoolgate_wire::time::Time;

/// Folder of proposals, below the home.
pub(crate) const PROPOSALS_DIR: &str = "proposals";

/// Returns the steps of proposals among changes.
pub(super) fn steps(changes: &[Change]) -> impl Iterator<Item = &Step> {
    changes.iter().filter_map(|change| match change {
        Change::Proposal(step) => Some(step),
        _ => None,
    })
}

/// Returns the proposals that changes applied, each with its new rulebook.
pub(super) fn applied(changes: &[Change]) -> impl Iterator<Item = (&Proposed, &str)> {
    steps(changes).filter_map(|step| match step {
        Step::Applied {
            proposed, rulebook, ..
        } => Some((proposed.as_ref(), rulebook.as_str())),
        _ => None,
    })
}

/// Projection row of proposals: a file in the folder for the proposal's standing.
pub(super) struct Proposals;

impl Projection for Proposals {
    fn name(&self) -> &'static str {
        "proposals"
    }

    fn folders(&self) -> &'static [&'static str] {
        &[PROPOSALS_DIR]
    }

    fn files(&self, source: &Source<'_>, (line, record): Line<'_>) -> Result<Vec<File>, HomeError> {
        let mut files = Vec::new();
        for step in steps(record.changes()) {
            let id = step.proposal_id();
            let place = |folder: &str| {
                Path::new(PROPOSALS_DIR)
                    .join(folder)
                    .join(format!("{id}.yaml"))
            };
            let (folder, text) = match step {
                Step::Pended { proposed, .. } => ("pending", pending_file(proposed)),
                Step::Applied {
                    proposed,
                    by,
                    rulebook,
                    ..
                } => (
                    "applied",
                    result_file(proposed, &Ended::Applied { by, line, rulebook }),
                ),
                Step::Declined { by, reason, .. } => match pended(source, id)? {
                    Some(proposed) => (
                        "declined",
                        result_file(&proposed, &Ended::Declined { by, line, reason }),
                    ),
                    None => continue,
                },
            };
            let text = text.map_err(|error| HomeError::Record(error.to_string()))?;
            let want = Want::Bytes(text.into_bytes());
            files.push(File {
                path: place(folder),
                line,
                want,
            });
            if folder != "pending" {
                files.push(File {
                    path: place("pending"),
                    line,
                    want: Want::Nothing,
                });
            }
        }
        Ok(files)
    }
}

/// Returns what a declined proposal proposed, from the line that made it pending.
fn pended(source: &Source<'_>, id: ProposalId) -> Result<Option<Proposed>, HomeError> {
    let Some(line) = source.core.store.proposal(id)?.and_then(|row| row.record) else {
        return Ok(None);
    };
    let record = source.record(line)?;
    let mut own = record.iter().flat_map(|record| steps(record.changes()));
    Ok(own.find_map(|step| match step {
        Step::Pended { proposed, .. } if proposed.proposal_id == id => {
            Some(proposed.as_ref().clone())
        }
        _ => None,
    }))
}

impl Home {
    /// Puts a rulebook in force that an applied proposal made. It is stored before any line names
    /// it, and the next decision of the batch uses it.
    ///
    /// # Errors
    /// Returns [`HomeError`] if the rulebook has another hash than the line says, or cannot be
    /// stored.
    pub(super) fn put_applied_in_force(
        &mut self,
        pending: &mut Pending,
        line: u64,
        now: Time,
    ) -> Result<(), HomeError> {
        let index = line
            .checked_sub(self.core.ledger.position().seq)
            .and_then(|at| usize::try_from(at).ok());
        let record = index.and_then(|index| pending.records.get(index));
        let made: Vec<(ProposalId, String, Option<String>, String)> = record
            .iter()
            .flat_map(|record| events::applied(record.changes()))
            .map(|(id, path, new, hash)| {
                (id, path.to_owned(), new.map(str::to_owned), hash.to_owned())
            })
            .collect();
        for (id, path, text, hash) in made {
            let book = self.core.rulebook.with_rule(&path, text.as_deref())?;
            if book.hash != hash {
                return Err(HomeError::Record(format!(
                    "line {line}: {id} does not make rulebook {hash}"
                )));
            }
            rulebook::keep(self.core.seams.disk.as_ref(), &book.files)?;
            self.core.rulebook = book;
            self.outside.tell_out_of_reach(&self.core, &mut self.news);
            let event = events::rulebook_loaded(&hash, Some((&path, &id.to_string())), now);
            self.push_event(pending, Record::Event(EventKind::Rulebook, event))?;
        }
        Ok(())
    }
}
