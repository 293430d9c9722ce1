//! Finishes at start, from the ledger alone, what a crash may have left undone: derived files and
//! answers that differ from their lines, and claims whose decision is sealed. Idempotent.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::core::Core;
use super::derived::{Line, Source};
use super::error::HomeError;
use super::open::Home;
use super::parts::Intake;
use super::socket::is_through_socket;
use crate::index::fold::AnswerFor;
use spoolgate_gate::prepare::Origin;
use spoolgate_gate::record::{Decision, Record};
use spoolgate_host::spool::claim;
use spoolgate_host::spool::name::ClaimName;
use spoolgate_host::spool::retire::{self, Done, Keep};
use spoolgate_wire::gateway::ActionId;

/// What a sealed decision says about its claim.
struct Kept {
    batch: u64,
    place: Option<String>,
    sha256: Option<String>,
    /// The request line of the open action that the claim waits for.
    waits_for: Option<u64>,
}

/// What the lines after the last `published` line say.
#[derive(Default)]
struct Undone {
    lines: Vec<(u64, Record)>,
    /// Sealed decisions, by the spool and file of their claims.
    decided: BTreeMap<(String, String), Kept>,
    /// The last line that answers at each place.
    answers: BTreeMap<String, u64>,
}

impl Home {
    /// Finishes what a crash left undone. Files are published before answers here too.
    pub(super) fn redo(&mut self) -> Result<(), HomeError> {
        let work = Path::new(claim::WORK_DIR);
        let claims = claim::left_behind(self.core.seams.disk.as_ref())
            .map_err(|source| HomeError::disk(work, source))?;
        let undone = self.core.read_undone(!claims.is_empty())?;
        let lines: Vec<Line<'_>> = undone
            .lines
            .iter()
            .map(|(seq, record)| (*seq, record))
            .collect();
        let source = Source {
            core: &self.core,
            batch: &[],
            again: true,
        };
        self.derived
            .publish_files(&source, &mut self.news, &lines)?;
        let to_retire = self.intake.match_claims(claims, &undone.decided);
        // Without its claim, an answer to a command was already taken by that command.
        let undelivered = to_retire
            .iter()
            .map(|(claim, _)| format!("local/out/{}", claim.file))
            .collect();
        self.redo_answers(&undone.answers, &undelivered)?;
        let done: Vec<Done<'_>> = to_retire
            .iter()
            .map(|(claim, Kept { place, sha256, .. })| {
                let sha256 = sha256.as_deref();
                let keep = place.as_deref().map(|place| Keep {
                    place,
                    sha256,
                    bytes: None,
                });
                Done { claim, keep }
            })
            .collect();
        // Retire claims last: as long as a claim exists, the next start repeats all of this.
        let left = retire::retire(self.core.seams.disk.as_ref(), &done)
            .map_err(|source| HomeError::disk(work, source))?;
        if self.derived.owe_moves(left) {
            self.core.meet_full_disk()?;
        }
        Ok(())
    }

    /// Compares answers with their lines and writes those that differ.
    fn redo_answers(
        &mut self,
        answers: &BTreeMap<String, u64>,
        undelivered: &BTreeSet<String>,
    ) -> Result<(), HomeError> {
        for (place, seq) in answers {
            // A client of the socket resends its request.
            if is_through_socket(place) {
                continue;
            }
            // A command removes its answer; if the claim is gone, the command already did.
            if place.starts_with("local/out/") && !undelivered.contains(place) {
                continue;
            }
            match self.core.answer_bytes(*seq) {
                Ok(Some(bytes)) => self.put_answer(place, &bytes, true)?,
                // An open action is answered when it is closed.
                Ok(None) => {}
                // This answer cannot be restored, and the others must not wait for it.
                Err(HomeError::AnswerLost(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Core {
    /// Reads the lines that may have left something undone.
    fn read_undone(&self, has_claims: bool) -> Result<Undone, HomeError> {
        let mut undone = Undone::default();
        for (seq, whose) in &self.outstanding {
            // Without claims, commands have already taken their answers.
            if *whose == AnswerFor::Command && !has_claims {
                continue;
            }
            let (batch, record) = self.record(*seq)?;
            let is_kept = !self.is_past_keeping(&record);
            match &record {
                Record::Decision(decision) => {
                    if is_kept {
                        undone.answers.insert(decision.answer.clone(), *seq);
                    }
                    let name = (decision.spool.clone(), decision.file.clone());
                    undone
                        .decided
                        .insert(name, self.kept(*seq, batch, decision));
                }
                Record::Response(line) if is_kept => {
                    undone
                        .answers
                        .extend(line.answers().map(|answer| (answer.to_owned(), *seq)));
                }
                Record::Council(line) => {
                    undone
                        .answers
                        .extend(line.answers().map(|answer| (answer.to_owned(), *seq)));
                }
                _ => {}
            }
            undone.lines.push((*seq, record));
        }
        Ok(undone)
    }

    fn kept(&self, seq: u64, batch: u64, decision: &Decision) -> Kept {
        let line = decision.metadata.replay_of.unwrap_or(seq);
        let is_open = self.state.actions.open.contains_key(&ActionId(line));
        Kept {
            batch,
            place: decision.kept.clone(),
            sha256: decision.file_sha256.clone(),
            waits_for: is_open.then_some(line),
        }
    }
}

impl Intake {
    /// Sorts claims. Returns those of sealed decisions, to be retired; keeps those of commands that
    /// wait for an open action; leaves the others to the first batches.
    fn match_claims<'a>(
        &mut self,
        claims: Vec<ClaimName>,
        decided: &'a BTreeMap<(String, String), Kept>,
    ) -> Vec<(ClaimName, &'a Kept)> {
        let mut to_retire = Vec::new();
        for claim in claims {
            // Two claims of one name are never in work at the same time, except those set aside,
            // whose numbers no batch has. So a decision in the claim's batch or later is about this
            // claim, whatever the file contains by now.
            let key = (claim.origin.label(), claim.file.clone());
            match decided.get(&key).filter(|kept| kept.batch >= claim.batch) {
                Some(Kept {
                    waits_for: Some(line),
                    ..
                }) if claim.origin == Origin::Local => {
                    self.unanswered.entry(*line).or_default().push(claim);
                }
                Some(kept) => to_retire.push((claim, kept)),
                None => self.left_behind.push_back(claim),
            }
        }
        to_retire
    }
}
