//! Reports what is wrong with a home and its machine, with a remedy for each finding.
//!
//! It only looks: it takes no lock and changes nothing. It works beside a running gate, as any
//! user, and in a directory that is not a home. It reports what it may not look at.

mod access;
mod contents;
mod opening;
mod system;

use std::path::{Path, PathBuf};

use serde::Serialize;

use spoolgate_host::doctor::{self as machine, Owned, User, WRITABLE_BY_OTHERS};
use spoolgate_host::keyring::KEYRING_FILE;
use spoolgate_ledger::segment;

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Ok,
    /// Worth knowing.
    Note,
    /// Causes trouble later, or may cause it.
    Warning,
    /// Causes trouble now, or gives other users access.
    Error,
}

/// One result of the examination.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Severity.
    pub level: Level,
    /// What was examined, as one word that never changes.
    pub what: &'static str,
    /// Path or other place.
    pub place: String,
    /// What was found.
    pub message: String,
    /// What to do, as a command where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// Quotes a path as a single word of a shell.
pub fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    let is_safe = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+,:@=".contains(&byte);
    if !text.is_empty() && !text.starts_with('-') && text.bytes().all(is_safe) {
        return text.into_owned();
    }
    let dashed = if text.starts_with('-') { "./" } else { "" };
    format!("'{dashed}{}'", text.replace('\'', r"'\''"))
}

struct Looking {
    home: PathBuf,
    /// The user that the gate runs as: the owner of its state.
    gate: Option<u32>,
    agent: Option<User>,
    found: Vec<Finding>,
}

/// Examines a home and its machine; `agent` is a user who must not be able to do what the gate can.
pub fn examine(home: &Path, agent: Option<User>) -> Vec<Finding> {
    let home = machine::real(home).unwrap_or_else(|| home.to_owned());
    let gate = machine::owned(&home.join("state"))
        .or_else(|_| machine::owned(&home))
        .ok()
        .map(|found| found.uid);
    let mut looking = Looking {
        home,
        gate,
        agent,
        found: Vec::new(),
    };
    looking.machine();
    // Below a folder that may not be entered, existing files cannot be told from missing ones, so a
    // home with an unreadable `audit` counts as a home.
    let audit = looking.home.join(segment::AUDIT_DIR);
    let is_home = segment::is_log(&audit)
        || machine::owned(&audit).is_ok() && machine::names(&audit).is_err();
    if !is_home {
        let place = looking.home.clone();
        // `init` refuses where keys exist, because it would hide that a ledger was lost.
        let (message, remedy) = if machine::owned(&place.join(KEYRING_FILE)).is_ok() {
            let audit = quoted(&place.join(segment::AUDIT_DIR));
            (
                "the ledger is gone, but its keys exist",
                format!("restore {audit} from a copy"),
            )
        } else {
            (
                "this is not a home: it has no ledger",
                format!("spoolgate init {}", quoted(&place)),
            )
        };
        looking.error("home", &place, message, Some(remedy));
        return looking.found;
    }
    looking.modes();
    looking.users();
    looking.key_files();
    looking.volumes();
    looking.holder();
    looking.left_behind();
    looking.contents();
    looking.note(
        "backup",
        Path::new("audit/checkpoint"),
        "this check cannot see whether a head of the log is noted on another machine",
        Some("spoolgate audit checkpoint".to_owned()),
    );
    looking.found
}

impl Looking {
    fn say(
        &mut self,
        level: Level,
        what: &'static str,
        place: &Path,
        message: &str,
        remedy: Option<String>,
    ) {
        let place = place.strip_prefix(&self.home).unwrap_or(place);
        let place = if place.as_os_str().is_empty() {
            Path::new(".")
        } else {
            place
        };
        let (place, message) = (place.display().to_string(), message.to_owned());
        self.found.push(Finding {
            level,
            what,
            place,
            message,
            remedy,
        });
    }

    fn ok(&mut self, what: &'static str, place: &Path, message: &str) {
        self.say(Level::Ok, what, place, message, None);
    }

    fn note(&mut self, what: &'static str, place: &Path, message: &str, remedy: Option<String>) {
        self.say(Level::Note, what, place, message, remedy);
    }

    fn warn(&mut self, what: &'static str, place: &Path, message: &str, remedy: Option<String>) {
        self.say(Level::Warning, what, place, message, remedy);
    }

    fn error(&mut self, what: &'static str, place: &Path, message: &str, remedy: Option<String>) {
        self.say(Level::Error, what, place, message, remedy);
    }

    fn command(&self, words: &str) -> String {
        format!("spoolgate --home {} {words}", quoted(&self.home))
    }

    fn owner(&self) -> String {
        self.gate.map_or("root".to_owned(), machine::user_name)
    }
}

/// Reports whether users other than the owner can write it.
fn is_open(found: &Owned) -> bool {
    !found.kind.is_symlink() && found.mode & WRITABLE_BY_OTHERS != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_single_words() {
        for (path, word) in [
            ("/srv/gate", "/srv/gate"),
            ("/srv/my gate", "'/srv/my gate'"),
            ("a'b$(x)`y`", r"'a'\''b$(x)`y`'"),
            ("-rf", "'./-rf'"),
            ("", "''"),
        ] {
            assert_eq!(quoted(Path::new(path)), word);
        }
    }
}
