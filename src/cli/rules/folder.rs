//! Rule files of a folder, read for commands that need no gate.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use spoolgate::ledger::segment;
use spoolgate::rules::lint::{self, File, Read};
use spoolgate::rules::load::{self, CASES, FoundFile};
use spoolgate::rules::{Bundle, Rulebook, RulebookError};

/// What lies in a folder of rules.
pub struct Folder {
    /// The home, if it is one.
    home: Option<PathBuf>,
    /// Texts by path below a home.
    pub texts: BTreeMap<String, String>,
    /// How each is shown to people.
    shown: BTreeMap<String, String>,
    /// What cannot be read, or has no name of a rule file.
    pub unread: Vec<RulebookError>,
}

impl Folder {
    /// Reads `dir`; absent: the home.
    pub fn read(home: &Path, dir: Option<&PathBuf>) -> Result<Folder> {
        let dir = dir.map_or(home, PathBuf::as_path).to_owned();
        let (mut texts, mut shown, mut unread) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        for FoundFile { path, shown: told, text } in load::rule_files(&dir)? {
            shown.insert(path.clone(), told);
            match text {
                Ok(text) => {
                    texts.insert(path, text);
                }
                Err(fault) => unread.push(fault),
            }
        }
        let home = Some(dir.clone()).filter(|dir| dir.join("rules").is_dir());
        Ok(Folder { home, texts, shown, unread })
    }

    /// The rules and sets, with every fault of theirs.
    pub fn rules(&self) -> Read {
        let files: Vec<File<'_>> = self.texts.iter().map(|(path, text)| File { path, text }).collect();
        lint::read(&files)
    }

    /// The rules and sets where they are without fault.
    ///
    /// # Errors
    /// The first fault.
    pub fn sound_rules(&self) -> Result<Read> {
        if let Some(fault) = self.unread.first() {
            bail!(fault.clone());
        }
        let read = self.rules();
        match read.faults.first() {
            Some(fault) => bail!(self.shown(fault.clone())),
            None => Ok(read),
        }
    }

    /// The golden cases: path and text.
    pub fn cases(&self) -> impl Iterator<Item = (&str, &str)> {
        let below = |path: &str| path.strip_prefix(CASES).is_some_and(|rest| rest.starts_with('/'));
        self.texts
            .iter()
            .filter(move |(path, _)| below(path))
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The whole rulebook, where there is a `rules/safety.yaml`.
    pub fn rulebook(&self) -> Option<Result<Rulebook, RulebookError>> {
        self.texts.contains_key("rules/safety.yaml").then(|| self.compiled())
    }

    /// The whole rulebook, where the folder is meant to hold one: a policy to be copied has no limits. A home that lacks
    /// its limits refuses every entry, and is no home without fault.
    pub fn meant_rulebook(&self) -> Option<Result<Rulebook, RulebookError>> {
        let is_home = || {
            let audit = self.home.as_ref().map(|home| home.join(segment::AUDIT_DIR));
            audit.is_some_and(|audit| segment::is_log(&audit))
        };
        self.rulebook().or_else(|| is_home().then(|| self.compiled()))
    }

    fn compiled(&self) -> Result<Rulebook, RulebookError> {
        let bundle = match &self.home {
            Some(home) => load::load(home)?,
            None => {
                let files = self.texts.iter().filter(|(path, _)| !path.starts_with(&format!("{CASES}/")));
                Bundle { files: files.map(|(path, text)| (path.clone(), text.clone())).collect() }
            }
        };
        Rulebook::compile(&bundle)
    }

    /// The fault with its file as people find it.
    pub fn shown(&self, fault: RulebookError) -> RulebookError {
        let file = self.shown.get(&fault.file).cloned().unwrap_or(fault.file);
        RulebookError { file, ..fault }
    }
}
