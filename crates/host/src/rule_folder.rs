//! Reads the rule files from disk into a bundle, with `walkdir`.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use walkdir::WalkDir;

use spoolgate_rules::approval::APPROVERS_PATH;
use spoolgate_rules::bundle::Bundle;
use spoolgate_rules::rulebook::RulebookError;
use spoolgate_rules::yaml::RULE_FILE_BYTES_MAX;

/// Folder of the theses.
pub const THESES: &str = "proposals/theses";

/// Folders and files below a home that make up the rulebook.
const ROOTS: [(&str, &[&str]); 3] = [
    ("rules", &["yaml"]),
    ("council/roles.yaml", &["yaml"]),
    (THESES, &["md"]),
];

/// Folder of golden cases, which test the rules and are not part of them.
pub const CASES: &str = "rules/tests";

/// A folder of rules contains at least one of these.
const SIGNS: [&str; 5] = ["core", "active", "sets", "tests", "safety.yaml"];

/// Whether a file may be kept beside the rules without being part of them.
fn is_ignored(name: &str) -> bool {
    name.starts_with('.') || name == "README.md" || name == HALT_FILE
}

/// If `rules/HALT` exists, every entry is halted, whatever the file contains.
pub const HALT_FILE: &str = "HALT";

/// A source of rule files.
pub trait RuleSource: Send + Sync {
    /// Reads all rule files as they are now.
    ///
    /// # Errors
    /// Returns [`RulebookError`] if one of them cannot be read.
    fn load(&self) -> Result<Bundle, RulebookError>;
}

/// The rule files of a home.
#[derive(Debug)]
pub struct RuleFolder {
    home: PathBuf,
}

impl RuleFolder {
    /// The rule files below this folder.
    pub fn of(home: &Path) -> RuleFolder {
        RuleFolder {
            home: home.to_owned(),
        }
    }
}

impl RuleSource for RuleFolder {
    fn load(&self) -> Result<Bundle, RulebookError> {
        load(&self.home)
    }
}

/// Reads every rule file below `home`.
///
/// # Errors
/// Returns [`RulebookError`] for anything but a readable, regular UTF-8 file with a known
/// extension: a rule file with a wrong extension must not be skipped.
pub fn load(home: &Path) -> Result<Bundle, RulebookError> {
    load_roots(home, |_| true)
}

/// As [`load`], without the theses.
///
/// # Errors
/// As [`load`].
pub fn load_without_theses(home: &Path) -> Result<Bundle, RulebookError> {
    load_roots(home, |root| root != THESES)
}

/// Reads the theses below `path`, or `path` itself if it is a file, in the order of their names.
///
/// # Errors
/// Returns [`RulebookError`] if `path` cannot be listed.
pub fn thesis_files(path: &Path) -> Result<Vec<ThesisFile>, RulebookError> {
    let mut found = Vec::new();
    for entry in WalkDir::new(path).follow_links(false).sort_by_file_name() {
        let entry = entry.map_err(|error| {
            let at = error.path().unwrap_or(path).display().to_string();
            RulebookError::new(at, None, format!("cannot be read: {error}"))
        })?;
        if entry.file_type().is_dir() || is_ignored(&entry.file_name().to_string_lossy()) {
            continue;
        }
        let shown = entry.path().display().to_string();
        let ends_well = entry
            .path()
            .extension()
            .is_some_and(|ending| ending == "md");
        let text = if !entry.file_type().is_file() {
            Err(RulebookError::new(
                &shown,
                None,
                "not a regular file; links are not followed",
            ))
        } else if !ends_well {
            Err(RulebookError::new(&shown, None, "rule files end in .md"))
        } else if entry.depth() > 1 {
            Err(RulebookError::new(
                &shown,
                None,
                "theses lie in one folder, not below it",
            ))
        } else {
            read_text(entry.path(), &shown)
        };
        found.push(ThesisFile {
            path: entry.into_path(),
            shown,
            text,
        });
    }
    Ok(found)
}

/// A file that should be a thesis.
#[derive(Debug)]
pub struct ThesisFile {
    /// Path of the file.
    pub path: PathBuf,
    /// The path as shown in messages.
    pub shown: String,
    /// Its text, or why it cannot be read.
    pub text: Result<String, RulebookError>,
}

/// A file that should be a rule file, a set or golden cases.
#[derive(Debug)]
pub struct FoundFile {
    /// Path below a home, such as `rules/core/x.yaml`.
    pub path: String,
    /// The path as shown in messages.
    pub shown: String,
    /// Its text, or why it cannot be read.
    pub text: Result<String, RulebookError>,
}

/// Reads every file below `dir/rules`, or below `dir` if that is a folder of rules itself, golden
/// cases included. For a home, the `.yaml` files of `council` are included too. A file that cannot be read is
/// in the result, with the reason.
///
/// # Errors
/// Returns [`RulebookError`] if `dir` contains no rules or cannot be listed.
pub fn rule_files(dir: &Path) -> Result<Vec<FoundFile>, RulebookError> {
    let shown = |path: &Path| path.display().to_string();
    let below = dir.join("rules");
    let (folder, is_home) = if below.is_dir() {
        (below, true)
    } else {
        (dir.to_owned(), false)
    };
    if !is_home && !SIGNS.iter().any(|sign| folder.join(sign).exists()) {
        let what = "holds no folder `rules`, and is none: there is no core, active, sets, tests or \
            safety.yaml in it";
        return Err(RulebookError::new(shown(dir), None, what));
    }
    let mut found = Vec::new();
    for entry in WalkDir::new(&folder)
        .follow_links(false)
        .sort_by_file_name()
    {
        let entry = entry.map_err(|error| {
            let at = error.path().unwrap_or(&folder);
            RulebookError::new(shown(at), None, format!("cannot be read: {error}"))
        })?;
        let name = entry.file_name().to_string_lossy();
        if entry.file_type().is_dir() || is_ignored(&name) {
            continue;
        }
        let shown = shown(entry.path());
        let path = format!("rules/{}", relative(&folder, entry.path()));
        let text = if !entry.file_type().is_file() {
            Err(RulebookError::new(
                &shown,
                None,
                "not a regular file; links are not followed",
            ))
        } else if !name.ends_with(".yaml") && path != APPROVERS_PATH {
            Err(RulebookError::new(&shown, None, "rule files end in .yaml"))
        } else {
            read_text(entry.path(), &shown)
        };
        found.push(FoundFile { path, shown, text });
    }
    // All of them: a wrong name, such as `role.yaml`, would leave the shipped roles in force in
    // silence.
    let council = WalkDir::new(dir.join("council"))
        .follow_links(false)
        .max_depth(1)
        .sort_by_file_name();
    for entry in council.into_iter().filter(|_| is_home).flatten() {
        let name = entry.file_name().to_string_lossy();
        if entry.file_type().is_file() && name.ends_with(".yaml") {
            let shown = shown(entry.path());
            let text = if name == "roles.yaml" {
                read_text(entry.path(), &shown)
            } else {
                let what = "no rule file of the council has this name; it is `roles.yaml`";
                Err(RulebookError::new(&shown, None, what))
            };
            found.push(FoundFile {
                path: format!("council/{name}"),
                shown,
                text,
            });
        }
    }
    Ok(found)
}

fn load_roots(home: &Path, is_wanted: impl Fn(&str) -> bool) -> Result<Bundle, RulebookError> {
    let mut bundle = Bundle::default();
    for (root, endings) in ROOTS.into_iter().filter(|(root, _)| is_wanted(root)) {
        let top = home.join(root);
        if root != "rules" && fs::symlink_metadata(&top).is_err() {
            continue;
        }
        let entries = WalkDir::new(&top)
            .follow_links(false)
            .sort_by_file_name()
            .into_iter();
        for entry in entries.filter_entry(|entry| entry.path() != home.join(CASES)) {
            let entry = entry.map_err(|error| {
                let path = error.path().unwrap_or(&top);
                RulebookError::new(
                    relative(home, path),
                    None,
                    format!("cannot be read: {error}"),
                )
            })?;
            let path = relative(home, entry.path());
            if entry.file_type().is_dir() || !is_part(&path, endings)? {
                continue;
            }
            if !entry.file_type().is_file() {
                return Err(RulebookError::new(
                    path,
                    None,
                    "not a regular file; links are not followed",
                ));
            }
            let text = read_text(entry.path(), &path)?;
            bundle.files.insert(path, text);
        }
    }
    Ok(bundle)
}

/// Returns whether a file below one of [`ROOTS`] is part of the rulebook.
///
/// # Errors
/// Returns [`RulebookError`] for a name that is none of a rule file: it must not be skipped.
fn is_part(path: &str, endings: &[&str]) -> Result<bool, RulebookError> {
    let name = path.rsplit('/').next().unwrap_or(path);
    if is_ignored(name) {
        return Ok(false);
    }
    let ends_well = endings
        .iter()
        .any(|ending| name.ends_with(&format!(".{ending}")));
    if ends_well || path == APPROVERS_PATH {
        return Ok(true);
    }
    let wanted = endings.join(" or .");
    let message = format!("rule files end in .{wanted}");
    Err(RulebookError::new(path, None, message))
}

/// Folders and files below a home that [`bundle_of`] takes files from.
pub fn roots() -> impl Iterator<Item = &'static str> {
    ROOTS.into_iter().map(|(root, _)| root)
}

/// Returns the rulebook among files that are given by path below a home, as [`load`] would read it
/// from a disk.
///
/// # Errors
/// As [`load`].
pub fn bundle_of(files: &BTreeMap<String, Vec<u8>>) -> Result<Bundle, RulebookError> {
    let is_below = |path: &str, root: &str| {
        path.strip_prefix(root)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let mut bundle = Bundle::default();
    for (path, bytes) in files {
        let mut roots = ROOTS.into_iter().filter(|(root, _)| is_below(path, root));
        let Some((_, endings)) = roots.next().filter(|_| !is_below(path, CASES)) else {
            continue;
        };
        if is_part(path, endings)? {
            let text = text_of(bytes.clone(), path)?;
            bundle.files.insert(path.clone(), text);
        }
    }
    Ok(bundle)
}

/// The path relative to the home, with `/`.
fn relative(home: &Path, path: &Path) -> String {
    let below = path.strip_prefix(home).unwrap_or(path);
    below.to_string_lossy().replace('\\', "/")
}

fn read_text(path: &Path, shown: &str) -> Result<String, RulebookError> {
    let fail = |what: String| RulebookError::new(shown, None, what);
    let file = fs::File::open(path).map_err(|error| fail(format!("cannot be opened: {error}")))?;
    let cap = RULE_FILE_BYTES_MAX as u64;
    let told = file
        .metadata()
        .map_or(0, |metadata| metadata.len())
        .min(cap);
    let mut bytes = Vec::with_capacity(usize::try_from(told).unwrap_or(0).saturating_add(1));
    file.take(cap.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|error| fail(format!("cannot be read: {error}")))?;
    text_of(bytes, shown)
}

fn text_of(bytes: Vec<u8>, shown: &str) -> Result<String, RulebookError> {
    let fail = |what: String| RulebookError::new(shown, None, what);
    if bytes.len() > RULE_FILE_BYTES_MAX {
        return Err(fail(format!("larger than {RULE_FILE_BYTES_MAX} bytes")));
    }
    String::from_utf8(bytes).map_err(|_| fail("not UTF-8".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_approvers_is_the_only_file_without_an_ending() {
        let home = tempfile::tempdir().unwrap();
        let rules = home.path().join("rules");
        fs::create_dir_all(rules.join("core")).unwrap();
        fs::write(rules.join("approvers"), "ann\n").unwrap();
        let bundle = load(home.path()).unwrap();
        assert_eq!(bundle.files[APPROVERS_PATH], "ann\n");
        let found = rule_files(&rules).unwrap();
        assert_eq!((found.len(), found[0].path.as_str()), (1, APPROVERS_PATH));
        for other in ["core/approvers", "approver"] {
            fs::write(rules.join(other), "ann\n").unwrap();
            let error = load(home.path()).unwrap_err();
            assert_eq!(error.file, format!("rules/{other}"));
            fs::remove_file(rules.join(other)).unwrap();
        }
    }
}
