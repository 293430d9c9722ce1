//! What approvers sign: a statement that names both sides of a change and cannot be used twice.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{Judgement, Verdict};
use crate::Rulebook;
use crate::approval::{Approval, Area, TouchError};
use spoolgate_wire::signing::sha256_hex;
use spoolgate_wire::sshsig::{SignatureError, Signed};
use spoolgate_wire::time::Time;

/// Folder below a home or repository in which each statement has a folder, named after its SHA-256.
pub const APPROVALS: &str = "proposals/approvals";
/// Name of the statement in its folder; the signatures beside it end in `.sig`.
pub const STATEMENT: &str = "statement.json";
/// Largest statement, bytes.
pub const STATEMENT_BYTES_MAX: usize = 1024 * 1024;
/// Most signatures of one statement.
pub const SIGNATURES_MAX: usize = 64;
/// Length of a nonce, bytes.
const NONCE_BYTES: usize = 16;

/// A change of a rulebook, as approvers sign it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// Root commits of the repository, hex; empty for folders.
    pub roots: BTreeSet<String>,
    /// The newest first-parent commit of the base that changed a judged file, hex. Reverting a
    /// change moves it, so that no signature counts again.
    pub rules_base: Option<String>,
    /// Hash of the rulebook before the change.
    pub from: String,
    /// Hash of the rulebook after the change.
    pub to: String,
    /// How they relate.
    pub verdict: Verdict,
    /// Areas whose approvers must sign.
    pub areas: Vec<String>,
    /// Changed files, by path.
    pub files: BTreeMap<String, Digests>,
    /// Random bytes, hex. A gate takes each statement once.
    pub nonce: String,
}

/// SHA-256 of a file on both sides, hex; `None` where it does not exist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Digests {
    /// Before the change.
    pub from: Option<String>,
    /// After the change.
    pub to: Option<String>,
}

/// Returns the digests of the files at which two maps differ.
pub fn digests<T: AsRef<[u8]>>(
    old: &BTreeMap<String, T>,
    new: &BTreeMap<String, T>,
) -> BTreeMap<String, Digests> {
    let digest = |side: &BTreeMap<String, T>, path: &str| {
        side.get(path).map(|text| sha256_hex(text.as_ref()))
    };
    let paths: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let both = paths.into_iter().map(|path| {
        let (from, to) = (digest(old, path), digest(new, path));
        (path.clone(), Digests { from, to })
    });
    both.filter(|(_, both)| both.from != both.to).collect()
}

/// Why the text of a statement does not count.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StatementError {
    /// The text is not a statement.
    #[error("it is not a statement as `rules review --statement` writes it: {0}")]
    Form(String),
    /// It is about another change than the judged one.
    #[error("its `{0}` is not that of this change; it was made for another one")]
    Other(&'static str),
}

impl Statement {
    /// Reads the text that approvers signed.
    ///
    /// # Errors
    /// [`StatementError::Form`] if it is not the JSON of a statement.
    pub fn read(text: &[u8]) -> Result<Statement, StatementError> {
        let form = |why: String| StatementError::Form(why);
        if text.len() > STATEMENT_BYTES_MAX {
            return Err(form(format!("longer than {STATEMENT_BYTES_MAX} bytes")));
        }
        let read: Statement =
            serde_json::from_slice(text).map_err(|error| form(error.to_string()))?;
        let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if read.nonce.len() != 2 * NONCE_BYTES || !read.nonce.bytes().all(is_hex) {
            return Err(form(format!("`nonce` is not {NONCE_BYTES} bytes in hex")));
        }
        Ok(read)
    }

    /// Returns the text to be signed.
    pub fn to_text(&self) -> String {
        // Maps and texts always serialise.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }

    /// Checks that this statement is about the change that `own` describes, whose nonce is ignored.
    /// A gate has only the rulebooks, so it compares neither what a statement says of a repository
    /// nor files that are in none of the two.
    ///
    /// # Errors
    /// [`StatementError::Other`] with the first member that differs.
    fn check(&self, own: &Statement, place: Place) -> Result<(), StatementError> {
        let Statement {
            roots,
            rules_base,
            from,
            to,
            verdict,
            areas,
            files,
            nonce: _,
        } = self;
        let is_known = |path: &String| place == Place::Repository || own.files.contains_key(path);
        let is_other = [
            ("from", *from != own.from),
            ("to", *to != own.to),
            ("roots", place == Place::Repository && *roots != own.roots),
            (
                "rules_base",
                place == Place::Repository && *rules_base != own.rules_base,
            ),
            (
                "files",
                !files
                    .iter()
                    .filter(|(path, _)| is_known(path))
                    .eq(own.files.iter()),
            ),
            ("verdict", *verdict != own.verdict),
            ("areas", place == Place::Repository && *areas != own.areas),
        ];
        match is_other.into_iter().find(|(_, is_other)| *is_other) {
            Some((member, _)) => Err(StatementError::Other(member)),
            None => Ok(()),
        }
    }
}

/// Where a statement is weighed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Between two commits or folders.
    Repository,
    /// At a gate, which has both rulebooks and no repository.
    Gate,
}

/// An area in which a change needs approvals.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Need {
    /// Its name.
    pub area: String,
    /// How many approvers must sign.
    pub need: u32,
    /// Who has signed, with the fingerprints of their keys.
    pub have: BTreeMap<String, String>,
    /// The files of the area whose change is not proved to tighten.
    pub files: Vec<String>,
    /// Who may sign.
    pub approvers: BTreeSet<String>,
}

impl Need {
    /// Whether enough approvers have signed.
    pub fn is_met(&self) -> bool {
        usize::try_from(self.need).is_ok_and(|need| self.have.len() >= need)
    }
}

/// A statement in its folder, with the signatures beside it.
#[derive(Clone, Debug)]
pub struct Found<'a> {
    /// Name of the folder, which should be the SHA-256 of the statement.
    pub folder: &'a str,
    /// The statement as it was signed; empty if there are only signatures.
    pub text: &'a [u8],
    /// Names and texts of the signatures.
    pub signatures: Vec<(&'a str, &'a [u8])>,
}

/// Finds the statements among files below [`APPROVALS`], given by path below a home.
pub fn found(files: &BTreeMap<String, Vec<u8>>) -> Vec<Found<'_>> {
    let mut folders: BTreeMap<&str, Found<'_>> = BTreeMap::new();
    let below = files.iter().filter_map(|(path, text)| {
        let below = path.strip_prefix(APPROVALS)?.strip_prefix('/')?;
        let (folder, name) = below.split_once('/')?;
        Some((folder, name, text.as_slice()))
    });
    for (folder, name, text) in below {
        let entry = folders.entry(folder).or_insert(Found {
            folder,
            text: &[],
            signatures: Vec::new(),
        });
        if name == STATEMENT {
            entry.text = text;
        } else if name.ends_with(".sig") && !name.contains('/') {
            entry.signatures.push((name, text));
        }
    }
    folders
        .into_values()
        .filter(|found| !found.text.is_empty() || !found.signatures.is_empty())
        .collect()
}

/// A change that is judged, with what a statement of it would say.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// The rulebook in force. It says who approves, so that a change cannot bring its own approver.
    pub old: &'a Rulebook,
    /// The judgement of the change.
    pub judgement: &'a Judgement,
    /// Changed files that are not part of a rulebook.
    pub others: &'a BTreeSet<String>,
    /// What a statement of the change says.
    pub own: &'a Statement,
    /// Where it is judged.
    pub place: Place,
}

/// What a statement and its signatures prove.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Weighed {
    /// Name of its folder.
    pub folder: String,
    /// SHA-256 of the statement, hex.
    pub sha256: String,
    /// Its nonce; `None` if it is not a statement.
    pub nonce: Option<String>,
    /// The areas of the change, with those who have signed this statement.
    pub needs: Vec<Need>,
    /// Why it, or signatures of it, do not count.
    pub faults: Vec<String>,
}

impl Weighed {
    /// Whether enough approvers of every area have signed it.
    pub fn approves(&self) -> bool {
        self.nonce.is_some() && self.needs.iter().all(Need::is_met)
    }
}

impl Change<'_> {
    /// Returns the areas that the change needs approvals of, and who has signed.
    pub fn needs(&self, signed: &[Signed]) -> Vec<Need> {
        needs(&self.old.approval, self.judgement, self.others, signed)
    }

    /// Weighs a statement at this time.
    pub fn weigh(&self, found: &Found<'_>, now: Time) -> Weighed {
        let sha256 = sha256_hex(found.text);
        let mut faults = Vec::new();
        let read = Statement::read(found.text).and_then(|statement| {
            statement.check(self.own, self.place)?;
            Ok(statement)
        });
        let nonce = match read {
            _ if found.text.is_empty() => {
                faults.push(format!("there are signatures and no {STATEMENT}"));
                None
            }
            _ if sha256 != found.folder => {
                faults.push(format!("its folder is not named {sha256}"));
                None
            }
            Ok(statement) => Some(statement.nonce),
            Err(fault) => {
                faults.push(format!("{STATEMENT}: {fault}"));
                None
            }
        };
        let mut by = Vec::new();
        let signatures = found.signatures.iter().take(SIGNATURES_MAX);
        for (name, text) in signatures.filter(|_| nonce.is_some()) {
            match self.verified(found.text, text, now) {
                Ok(signed) => by.push(signed),
                Err(fault) => faults.push(format!("{name}: {fault}")),
            }
        }
        if found.signatures.len() > SIGNATURES_MAX {
            faults.push(format!(
                "only the first {SIGNATURES_MAX} signatures are read"
            ));
        }
        Weighed {
            folder: found.folder.to_owned(),
            sha256,
            nonce,
            needs: self.needs(&by),
            faults,
        }
    }

    fn verified(&self, text: &[u8], armored: &[u8], now: Time) -> Result<Signed, NotVerified> {
        let signers = self.old.approvers.as_ref();
        let signers = signers.ok_or(NotVerified::NoApprovers)?;
        let armored = std::str::from_utf8(armored).map_err(|_| SignatureError::Form)?;
        let signed = signers.verify(text, armored, now)?;
        self.old.approval.touch.check(signed.token)?;
        Ok(signed)
    }
}

/// Why a signature proves nothing.
#[derive(Debug, thiserror::Error)]
enum NotVerified {
    #[error("there is no {} on the side in force", crate::approval::APPROVERS_PATH)]
    NoApprovers,
    #[error(transparent)]
    Signature(#[from] SignatureError),
    #[error(transparent)]
    Touch(#[from] TouchError),
}

/// Returns the areas that the judged change needs approvals of, in the order of the file.
/// `others` are changed files that are not part of a rulebook. `signed` are
/// those who have signed it, as the side in force demands.
pub fn needs(
    approval: &Approval,
    judgement: &Judgement,
    others: &BTreeSet<String>,
    signed: &[Signed],
) -> Vec<Need> {
    let open = judgement.open_files();
    let named = others
        .iter()
        .map(String::as_str)
        .filter(|path| approval.area_of(path).names(path));
    let open: BTreeSet<&str> = open.into_iter().chain(named).collect();
    let of = |area: &Area| Need {
        area: area.name.to_string(),
        need: area.need,
        have: signed
            .iter()
            .filter(|signed| area.approvers.contains(&signed.identity))
            .map(|signed| (signed.identity.clone(), signed.key.clone()))
            .collect(),
        files: open
            .iter()
            .filter(|path| approval.area_of(path).name == area.name)
            .map(|path| (*path).to_owned())
            .collect(),
        approvers: area.approvers.clone(),
    };
    let needs = approval.areas().map(of);
    needs.filter(|need| !need.files.is_empty()).collect()
}
