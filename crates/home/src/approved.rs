//! Approval in git: an approver moves a pending file to `proposals/approved` and puts a signature
//! beside it.
//!
//! The signature must be by a key in `rules/approvers` and cover exactly the bytes that the gate
//! wrote.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::batch::Pending;
use super::core::Core;
use super::error::HomeError;
use super::lookup::last_step;
use super::open::Home;
use super::rule_files::holds_any;
use spoolgate_gate::events;
use spoolgate_gate::prepare::escaped;
use spoolgate_gate::proposals::{Approver, Change as Step, approve};
use spoolgate_gate::record::{EventKind, Record};
use spoolgate_rules::approval::{APPROVERS_PATH, TouchError};
use spoolgate_rules::review::statement::SIGNATURES_MAX;
use spoolgate_wire::ids::ProposalId;
use spoolgate_wire::signing::sha256_hex;
use spoolgate_wire::sshsig::{SIGNATURE_BYTES_MAX, SignatureError};
use spoolgate_wire::time::Time;

/// Folder of approved files, below the home.
const APPROVED_DIR: &str = "proposals/approved";
/// Largest file of a proposal, bytes.
const FILE_BYTES_MAX: usize = 128 * 1024;
/// Interval between checks of the folder, milliseconds.
const LOOK_MS: u64 = 1000;

/// Why the file of an approved proposal does not count.
#[derive(Debug, thiserror::Error)]
enum NotCounted {
    #[error("it is not a readable plain file of 1 to {FILE_BYTES_MAX} bytes")]
    NotAFile,
    #[error("it differs from the pending file that the gate wrote last")]
    Edited,
    #[error("the rule files cannot be used; it is applied when they can")]
    RulesFault,
    #[error("its ledger line cannot be read")]
    NoLine,
    #[error("`{0}` is being edited; it is applied when the edit is in force")]
    BeingEdited(String),
    #[error("{0}")]
    Refused(String),
    #[error(
        "{APPROVERS_PATH} does not exist; approve with `spoolgate proposals approve`, or list the \
            keys of approvers there"
    )]
    NoApprovers,
    #[error("`{}` does not exist or cannot be read", .0.display())]
    Unreadable(PathBuf),
    #[error("{identity} is not an approver of area {area}")]
    OtherArea { identity: String, area: String },
    #[error("area {area} needs {need} approvers, has {have}")]
    TooFew {
        area: String,
        need: u32,
        have: usize,
    },
    #[error("`{}`: {source}", path.display())]
    Signature {
        path: PathBuf,
        source: SignatureError,
    },
    #[error("`{}`: {source}", path.display())]
    Touch { path: PathBuf, source: TouchError },
}

impl Home {
    /// Applies the proposals that were approved by a signature since the last check.
    ///
    /// # Errors
    /// Returns [`HomeError`] if a line cannot be written or the index cannot be read.
    pub(super) fn push_approved(
        &mut self,
        pending: &mut Pending,
        now: Time,
    ) -> Result<(), HomeError> {
        let monotonic_ms = self.core.seams.clock.monotonic_ms();
        let is_early = self
            .news
            .approved_looked_ms
            .is_some_and(|at| monotonic_ms.saturating_sub(at) < LOOK_MS);
        if self.core.state.proposals.pending.is_empty() || is_early {
            return Ok(());
        }
        self.news.approved_looked_ms = Some(monotonic_ms);
        let ids: Vec<ProposalId> = self.core.state.proposals.pending.keys().copied().collect();
        for id in ids {
            let path = Path::new(APPROVED_DIR).join(format!("{id}.yaml"));
            if matches!(self.core.seams.disk.stat(&path), Ok(None)) {
                continue;
            }
            let counted = match self.core.small_file(&path, FILE_BYTES_MAX) {
                Some(bytes) => self.push_one_approved(pending, id, &path, &bytes, now)?,
                None => Err(NotCounted::NotAFile),
            };
            if let Err(why) = counted.map_err(|error| error.to_string())
                && self.news.approved_told.get(&id) != Some(&why)
            {
                self.news.tell(
                    &self.core,
                    escaped(&format!("`{}` does not count: {why}", path.display())),
                );
                self.news.approved_told.insert(id, why);
            }
        }
        Ok(())
    }

    /// Applies one proposal, or returns why its file does not count.
    fn push_one_approved(
        &mut self,
        pending: &mut Pending,
        id: ProposalId,
        path: &Path,
        bytes: &[u8],
        now: Time,
    ) -> Result<Result<(), NotCounted>, HomeError> {
        let sha256 = sha256_hex(bytes);
        let waits = self.core.state.proposals.pending.get(&id);
        if waits.is_none_or(|waits| waits.file_sha256 != sha256) {
            return Ok(Err(NotCounted::Edited));
        }
        if self.core.state.rulebook.fault.is_some() {
            return Ok(Err(NotCounted::RulesFault));
        }
        let Some(Step::Pended { proposed, .. }) = last_step(&self.live(pending, now), id)? else {
            return Ok(Err(NotCounted::NoLine));
        };
        let by = match self.core.signed(path, bytes, &proposed.path, now) {
            Ok(by) => by,
            Err(why) => return Ok(Err(why)),
        };
        let in_force = self
            .core
            .rulebook
            .files
            .files
            .get(&proposed.path)
            .map(String::as_str);
        if !holds_any(
            self.core.seams.disk.as_ref(),
            Path::new(&proposed.path),
            &[in_force],
        ) {
            return Ok(Err(NotCounted::BeingEdited(proposed.path)));
        }
        let event = match approve(&self.core.rulebook, &proposed, by.clone(), sha256) {
            Ok(made) => events::approved(id, made, &by, now),
            Err(refusal) => return Ok(Err(NotCounted::Refused(refusal.message))),
        };
        let line = self.core.next_seq(pending);
        self.push_event(pending, Record::Event(EventKind::Proposal, event))?;
        self.put_applied_in_force(pending, line, now)?;
        Ok(Ok(()))
    }
}

impl Core {
    /// Returns who approved a file of a proposal that changes `rule`: as many approvers of its area
    /// as that needs, by the rulebook in force.
    fn signed(
        &self,
        path: &Path,
        bytes: &[u8],
        rule: &str,
        now: Time,
    ) -> Result<Approver, NotCounted> {
        let signers = self.rulebook.approvers.as_ref();
        let signers = signers.ok_or(NotCounted::NoApprovers)?;
        let approval = &self.rulebook.approval;
        let area = approval.area_of(rule);
        let (mut by, mut last) = (BTreeMap::new(), None);
        let signatures = self.signatures(path);
        if signatures.is_empty() {
            let mut name = path.as_os_str().to_owned();
            name.push(".sig");
            return Err(NotCounted::Unreadable(name.into()));
        }
        for path in signatures {
            let text = self.small_file(&path, SIGNATURE_BYTES_MAX);
            let Some(armored) = text.and_then(|bytes| String::from_utf8(bytes).ok()) else {
                last = Some(NotCounted::Unreadable(path));
                continue;
            };
            match signers.verify(bytes, &armored, now) {
                Err(source) => last = Some(NotCounted::Signature { path, source }),
                Ok(signed) => match approval.touch.check(signed.token) {
                    Err(source) => last = Some(NotCounted::Touch { path, source }),
                    Ok(()) if area.approvers.contains(&signed.identity) => {
                        by.insert(signed.identity, signed.key);
                    }
                    Ok(()) => {
                        last = Some(NotCounted::OtherArea {
                            identity: signed.identity,
                            area: area.name.to_string(),
                        });
                    }
                },
            }
        }
        let have = by.len();
        if usize::try_from(area.need).is_ok_and(|need| have >= need) {
            let (identities, keys): (Vec<String>, Vec<String>) = by.into_iter().unzip();
            return Ok(Approver::Signature {
                identity: identities.join(", "),
                key: keys.join(", "),
            });
        }
        Err(last.filter(|_| have == 0).unwrap_or(NotCounted::TooFew {
            area: area.name.to_string(),
            need: area.need,
            have,
        }))
    }

    /// Returns the signatures beside a file: it may have several, as `p-42.yaml.ann.sig`.
    fn signatures(&self, path: &Path) -> Vec<PathBuf> {
        let own = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        let own = format!("{}.", own.unwrap_or_default());
        let entries = self.seams.disk.read_dir(Path::new(APPROVED_DIR));
        let mut names: Vec<String> = entries
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| entry.name.into_string().ok())
            .filter(|name| name.starts_with(&own) && name.ends_with(".sig"))
            .collect();
        names.sort();
        names.truncate(SIGNATURES_MAX);
        names
            .iter()
            .map(|name| Path::new(APPROVED_DIR).join(name))
            .collect()
    }

    /// Returns a file's bytes; `None` if it is missing, empty, too large or not a file.
    fn small_file(&self, path: &Path, limit: usize) -> Option<Vec<u8>> {
        let read: io::Result<_> = self.seams.disk.read(path, limit);
        read.ok()
            .map(|file| file.bytes)
            .filter(|bytes| !bytes.is_empty() && bytes.len() <= limit)
    }
}
