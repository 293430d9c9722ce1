//! Approval in git: a pending file that people move to `proposals/approved`, with a signature of one of
//! `rules/approvers` beside it. What counts is the signature over the very bytes that the gate wrote.

use std::io;
use std::path::{Path, PathBuf};

use super::batch::Pending;
use super::open::{Home, HomeError};
use crate::gate::events;
use crate::gate::prepare::escaped;
use crate::gate::proposals::{Approver, Change as Step, approve};
use crate::gate::record::Record;
use crate::wire::ids::ProposalId;
use crate::wire::signing::sha256_hex;
use crate::wire::sshsig::{SIGNATURE_BYTES_MAX, SIGNERS_BYTES_MAX, Signed, Signers};
use crate::wire::time::Time;

/// Who may approve, below the home.
pub const APPROVERS_FILE: &str = "rules/approvers";
/// Folder of approved files, below the home.
const APPROVED_DIR: &str = "proposals/approved";
/// Largest file of a proposal, bytes.
const FILE_BYTES_MAX: usize = 128 * 1024;
/// How often the folder is looked at, milliseconds.
const LOOK_MS: u64 = 1000;

impl Home {
    /// Whether only signatures approve: a list of signers is there, or something in its place.
    pub(super) fn has_approvers(&self) -> bool {
        !matches!(self.seams.disk.stat(Path::new(APPROVERS_FILE)), Ok(None))
    }

    /// Applies proposals that were approved by a signature since the last look.
    ///
    /// # Errors
    /// [`HomeError`].
    pub(super) fn push_approved(&mut self, pending: &mut Pending, now: Time) -> Result<(), HomeError> {
        let monotonic_ms = self.seams.clock.monotonic_ms();
        let is_early = self.approved_looked_ms.is_some_and(|at| monotonic_ms.saturating_sub(at) < LOOK_MS);
        if self.state.proposals.pending.is_empty() || is_early {
            return Ok(());
        }
        self.approved_looked_ms = Some(monotonic_ms);
        let ids: Vec<ProposalId> = self.state.proposals.pending.keys().copied().collect();
        for id in ids {
            let path = Path::new(APPROVED_DIR).join(format!("{id}.yaml"));
            if matches!(self.seams.disk.stat(&path), Ok(None)) {
                continue;
            }
            let counted = match self.small_file(&path, FILE_BYTES_MAX) {
                Some(bytes) => self.push_one_approved(pending, id, &path, &bytes, now)?,
                None => Err(format!("it is no plain file of 1 to {FILE_BYTES_MAX} bytes that can be read")),
            };
            if let Err(why) = counted
                && self.approved_told.get(&id) != Some(&why)
            {
                self.tell(escaped(&format!("`{}` does not count: {why}", path.display())));
                self.approved_told.insert(id, why);
            }
        }
        Ok(())
    }

    /// Applies one, or says why not.
    fn push_one_approved(
        &mut self,
        pending: &mut Pending,
        id: ProposalId,
        path: &Path,
        bytes: &[u8],
        now: Time,
    ) -> Result<Result<(), String>, HomeError> {
        let sha256 = sha256_hex(bytes);
        let waits = self.state.proposals.pending.get(&id);
        if waits.is_none_or(|waits| waits.file_sha256 != sha256) {
            return Ok(Err("it is not the pending file as the gate wrote it last".to_owned()));
        }
        let Signed { identity, key } = match self.signed(path, bytes, now) {
            Ok(signed) => signed,
            Err(why) => return Ok(Err(why)),
        };
        if self.state.rulebook.fault.is_some() {
            return Ok(Err("the rule files cannot be used; it is applied when they can".to_owned()));
        }
        let Some(Step::Pended { proposed, .. }) = self.last_step(pending, id)? else {
            return Ok(Err("its ledger line cannot be read".to_owned()));
        };
        let in_force = self.rulebook.files.files.get(&proposed.path).map(String::as_str);
        if !self.holds_any(Path::new(&proposed.path), &[in_force]) {
            return Ok(Err(format!(
                "`{}` is being edited; it is applied when that is in force",
                proposed.path
            )));
        }
        let by = Approver::Signature { identity, key };
        let event = match approve(&self.rulebook, &proposed, by.clone(), sha256) {
            Ok(made) => events::approved(id, made, &by, now),
            Err(why) => return Ok(Err(why.message)),
        };
        let line = self.next_seq(pending);
        self.push_event(pending, Record::Proposal(event))?;
        self.put_applied_in_force(pending, line, now)?;
        Ok(Ok(()))
    }

    /// Whose signature stands beside a file, or why none counts.
    fn signed(&self, path: &Path, bytes: &[u8], now: Time) -> Result<Signed, String> {
        if !self.has_approvers() {
            return Err(format!(
                "there is no {APPROVERS_FILE}; approve with `spoolgate proposals approve`, or list the keys of approvers there"
            ));
        }
        let text = |path: &Path, limit: usize| {
            let bytes = self.small_file(path, limit);
            let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
            text.ok_or_else(|| format!("`{}` is not there, or cannot be read", path.display()))
        };
        let signers = Signers::read(&text(Path::new(APPROVERS_FILE), SIGNERS_BYTES_MAX)?)
            .map_err(|why| format!("{APPROVERS_FILE}: {why}"))?;
        let mut name = path.as_os_str().to_owned();
        name.push(".sig");
        let signature = PathBuf::from(name);
        let armored = text(&signature, SIGNATURE_BYTES_MAX)?;
        signers.verify(bytes, &armored, now).map_err(|why| format!("`{}`: {why}", signature.display()))
    }

    /// A file's bytes; none if it is not there, too large, or no file.
    fn small_file(&self, path: &Path, limit: usize) -> Option<Vec<u8>> {
        let read: io::Result<_> = self.seams.disk.read(path, limit);
        read.ok().map(|file| file.bytes).filter(|bytes| !bytes.is_empty() && bytes.len() <= limit)
    }
}
