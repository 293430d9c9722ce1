//! The rule files of a folder, for commands that need no gate.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use spoolgate_home::enforced::approvals;
use spoolgate_home::sandbox::programs;
use spoolgate_host::cage;
use spoolgate_host::real_disk::RealDisk;
use spoolgate_host::rule_folder::{self, CASES, FoundFile};
use spoolgate_ledger::segment;
use spoolgate_rules::admit;
use spoolgate_rules::lint::{self, File, Read};
use spoolgate_rules::{Bundle, Rulebook, RulebookError};

/// The files in a folder of rules.
pub(crate) struct Folder {
    /// The home, if the folder is one.
    home: Option<PathBuf>,
    /// Texts of the files, by path below a home.
    pub texts: BTreeMap<String, String>,
    /// The name of each file to show to people, by path.
    shown: BTreeMap<String, String>,
    /// Files that cannot be read, or do not have the name of a rule file.
    pub unread: Vec<RulebookError>,
}

impl Folder {
    /// Reads `dir`, or the home if `dir` is `None`.
    pub(crate) fn read(home: &Path, dir: Option<&PathBuf>) -> Result<Folder> {
        let dir = dir.map_or(home, PathBuf::as_path).to_owned();
        let (mut texts, mut shown, mut unread) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        for FoundFile {
            path,
            shown: told,
            text,
        } in rule_folder::rule_files(&dir)?
        {
            shown.insert(path.clone(), told);
            match text {
                Ok(text) => {
                    texts.insert(path, text);
                }
                Err(fault) => unread.push(fault),
            }
        }
        let home = Some(dir.clone()).filter(|dir| dir.join("rules").is_dir());
        Ok(Folder {
            home,
            texts,
            shown,
            unread,
        })
    }

    /// Reads the rules and sets, with all their faults.
    pub(crate) fn rules(&self) -> Read {
        let files: Vec<File<'_>> = self
            .texts
            .iter()
            .map(|(path, text)| File { path, text })
            .collect();
        lint::read(&files)
    }

    /// Reads the rules and sets, which must have no fault.
    ///
    /// # Errors
    /// Returns the first fault.
    pub(crate) fn sound_rules(&self) -> Result<Read> {
        if let Some(fault) = self.unread.first() {
            bail!(fault.clone());
        }
        let read = self.rules();
        if let Some(fault) = read.faults.first() {
            bail!(self.shown(fault.clone()));
        }
        match self.not_admitted(&read).into_iter().next() {
            Some(fault) => bail!(self.shown(fault)),
            None => Ok(read),
        }
    }

    /// Returns path and text of the golden cases.
    pub(crate) fn cases(&self) -> impl Iterator<Item = (&str, &str)> {
        let below = |path: &str| {
            path.strip_prefix(CASES)
                .is_some_and(|rest| rest.starts_with('/'))
        };
        self.texts
            .iter()
            .filter(move |(path, _)| below(path))
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// Compiles the whole rulebook; `None` if there is no `rules/safety.yaml`.
    pub(crate) fn rulebook(&self) -> Option<Result<Rulebook, RulebookError>> {
        self.texts
            .contains_key("rules/safety.yaml")
            .then(|| self.compiled())
    }

    /// Compiles the whole rulebook if the folder should have one. A policy that is meant to be
    /// copied has no limits, and gives `None`; a home without limits refuses every entry, so there
    /// it is a fault.
    pub(crate) fn meant_rulebook(&self) -> Option<Result<Rulebook, RulebookError>> {
        let is_home = || {
            let audit = self.home.as_ref().map(|home| home.join(segment::AUDIT_DIR));
            audit.is_some_and(|audit| segment::is_log(&audit))
        };
        self.rulebook()
            .or_else(|| is_home().then(|| self.compiled()))
    }

    /// Returns what no rulebook that comes into force may say, such as names that no file has. Without
    /// the other files, the names cannot be checked.
    pub(crate) fn not_admitted(&self, read: &Read) -> Vec<RulebookError> {
        let faults = match self.meant_rulebook() {
            Some(Ok(book)) => book.admit(),
            Some(Err(_)) | None => read.rules.rules.values().flat_map(admit::written).collect(),
        };
        faults.into_iter().map(RulebookError::from).collect()
    }

    /// Finds the paths of commands that lead to what programs of this home may not use.
    pub(crate) fn refused_paths(&self, book: &Rulebook) -> Vec<RulebookError> {
        let Some(home) = &self.home else {
            return Vec::new();
        };
        let refused = programs(book).into_iter().flat_map(|(by, command)| {
            let all = cage::refused_paths(home, command).into_iter();
            all.map(move |(path, why)| self.fault_at(&by, &path, why))
        });
        refused.collect()
    }

    /// A fault with the line that has this path, in a file or a folder.
    fn fault_at(&self, by: &str, path: &str, why: String) -> RulebookError {
        let is_end = |letter: char| letter.is_whitespace() || "'\",]".contains(letter);
        let has = |line: &str| {
            line.split(is_end)
                .any(|word| word.trim_start_matches('[') == path)
        };
        let texts = self.texts.iter().filter(|(file, _)| file.starts_with(by));
        let at = texts.into_iter().find_map(|(file, text)| {
            let line = text.lines().position(has)?;
            Some((file.clone(), line.saturating_add(1)))
        });
        let (file, line) = at.map_or((by.to_owned(), None), |(file, line)| (file, Some(line)));
        self.shown(RulebookError::new(file, line, why))
    }

    fn compiled(&self) -> Result<Rulebook, RulebookError> {
        Rulebook::compile(&self.bundle()?)
    }

    /// Returns the files of the rulebook, with the theses if the folder is a home.
    ///
    /// # Errors
    /// Returns [`RulebookError`] if one of them cannot be read.
    pub(crate) fn bundle(&self) -> Result<Bundle, RulebookError> {
        Ok(match &self.home {
            Some(home) => rule_folder::load(home)?,
            None => {
                let files = self
                    .texts
                    .iter()
                    .filter(|(path, _)| !path.starts_with(&format!("{CASES}/")));
                Bundle {
                    files: files
                        .map(|(path, text)| (path.clone(), text.clone()))
                        .collect(),
                }
            }
        })
    }

    /// Returns the statements and signatures of a home, by path below it.
    ///
    /// # Errors
    /// Returns the error of the disk.
    pub(crate) fn approvals(&self) -> Result<BTreeMap<String, Vec<u8>>> {
        let Some(home) = &self.home else {
            return Ok(BTreeMap::new());
        };
        Ok(approvals(&RealDisk::open(home)?))
    }

    /// Returns the fault with its file named as people find it.
    pub(crate) fn shown(&self, fault: RulebookError) -> RulebookError {
        let file = self.shown.get(&fault.file).cloned().unwrap_or(fault.file);
        RulebookError { file, ..fault }
    }
}
