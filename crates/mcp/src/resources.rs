//! What a model may read: the rules and the ledger's checkpoint, which are files of the home, and
//! the schemas of what its tools send. No other file of a home can be named, no link is followed,
//! and a file that the process may not read stays unread.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};

use super::schema;

/// The prefix of every resource URI.
const SCHEME: &str = "spoolgate:///";
/// The signed checkpoint of the ledger.
const CHECKPOINT: &str = "audit/checkpoint";
/// Where the schemas are, below the prefix.
const SCHEMAS: &str = "schemas/";
/// The folder of the rules.
const RULES: &str = "rules";
/// Maximum number of files that are listed.
const FILES_MAX: usize = 2000;
/// Maximum depth of folders below the rules.
const DEPTH_MAX: usize = 6;
/// Size of the largest readable file, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Why a resource cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ShelfError {
    /// No resource has this URI.
    #[error(
        "resource `{0}` does not exist; resources are below `spoolgate:///rules/` and \
            `spoolgate:///schemas/`, and `spoolgate:///audit/checkpoint`"
    )]
    None(String),
    /// The file could not be opened or read.
    #[error("`{path}` cannot be read by this process: {source}")]
    Disk {
        /// Path below the home.
        path: String,
        /// The operating system's error.
        source: io::Error,
    },
    /// The file is too large, or not text.
    #[error("`{path}` is not shown: {why}")]
    Content {
        /// Path below the home.
        path: String,
        /// The reason.
        why: &'static str,
    },
}

/// A resource.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Item {
    /// The URI of the resource.
    pub uri: String,
    /// Path of the file below the home; for a schema what follows the prefix.
    pub path: String,
}

/// The readable files of a home.
pub(crate) struct Shelf<'a> {
    home: &'a Path,
}

fn is_plain(path: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && part
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
    };
    path.split('/').all(is_part)
}

impl Shelf<'_> {
    /// Creates the shelf of this home.
    pub(crate) fn of(home: &Path) -> Shelf<'_> {
        Shelf { home }
    }

    /// Lists the schemas, the checkpoint, and the rule files of every folder that the process can
    /// list. A listed file may still be unreadable.
    pub(crate) fn list(&self) -> Vec<Item> {
        let mut paths = Vec::new();
        collect(&self.home.join(RULES), RULES, DEPTH_MAX, &mut paths);
        paths.sort();
        if self.home.join(CHECKPOINT).is_file() {
            paths.push(CHECKPOINT.to_owned());
        }
        paths.extend(schema::published().map(|name| format!("{SCHEMAS}{name}")));
        paths
            .into_iter()
            .map(|path| Item {
                uri: format!("{SCHEME}{path}"),
                path,
            })
            .collect()
    }

    /// Reads the text of a resource.
    ///
    /// # Errors
    /// Returns [`ShelfError`] if there is no such resource, or if its file cannot be read or shown.
    pub(crate) fn read(&self, uri: &str) -> Result<String, ShelfError> {
        let schema = uri
            .strip_prefix(SCHEME)
            .and_then(|path| path.strip_prefix(SCHEMAS));
        if let Some(text) = schema.and_then(schema::text) {
            return Ok(text);
        }
        let below_rules = |path: &&str| {
            path.strip_prefix(RULES)
                .is_some_and(|rest| rest.starts_with('/'))
        };
        let path = uri
            .strip_prefix(SCHEME)
            .filter(|path| is_plain(path) && (*path == CHECKPOINT || below_rules(path)))
            .ok_or_else(|| ShelfError::None(uri.escape_debug().take(200).collect()))?;
        let disk = |source: io::Error| ShelfError::Disk {
            path: path.to_owned(),
            source,
        };
        let file = self.open(path).map_err(disk)?;
        let meta = file.metadata().map_err(disk)?;
        let content = |why| ShelfError::Content {
            path: path.to_owned(),
            why,
        };
        if !meta.is_file() {
            return Err(content("it is not a regular file"));
        }
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX.saturating_add(1))
            .read_to_end(&mut bytes)
            .map_err(disk)?;
        if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > FILE_BYTES_MAX {
            return Err(content("it is larger than 1 MiB"));
        }
        String::from_utf8(bytes).map_err(|_| content("it is not UTF-8"))
    }

    /// Opens a file below the home. It follows no link on the way and does not block on a pipe.
    fn open(&self, path: &str) -> io::Result<File> {
        let folder = openat(
            CWD,
            self.home,
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        Ok(File::from(openat2(
            folder,
            path,
            flags,
            Mode::empty(),
            resolve,
        )?))
    }
}

fn collect(folder: &PathBuf, below: &str, depth: usize, paths: &mut Vec<String>) {
    // An unreadable folder lists nothing.
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let Some(name) = entry
            .file_name()
            .to_str()
            .map(str::to_owned)
            .filter(|name| is_plain(name))
        else {
            continue;
        };
        let path = format!("{below}/{name}");
        // Links are neither folders nor files here, and are skipped.
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && depth > 0 => {
                collect(&entry.path(), &path, depth.saturating_sub(1), paths)
            }
            Ok(kind) if kind.is_file() && paths.len() < FILES_MAX => paths.push(path),
            _ => {}
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_rules_and_the_checkpoint_can_be_read() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path();
        for (path, text) in [
            ("rules/safety.yaml", "a: 1\n"),
            ("rules/core/x.yaml", "b: 2\n"),
            ("rules/.hidden", "no"),
            ("audit/checkpoint", "head"),
            ("audit/log-00000001.jsonl", "no"),
            ("state/keyring.db", "no"),
        ] {
            let path = home.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        symlink(home.join("state"), home.join("rules/way")).unwrap();
        symlink(home.join("state/keyring.db"), home.join("rules/key.yaml")).unwrap();
        let shelf = Shelf::of(home);
        let (schemas, items): (Vec<Item>, Vec<Item>) = shelf
            .list()
            .into_iter()
            .partition(|item| item.path.starts_with(SCHEMAS));
        assert_eq!(schemas.len(), schema::published().count());
        for item in schemas {
            assert!(
                shelf.read(&item.uri).unwrap().starts_with('{'),
                "{}",
                item.uri
            );
        }
        let paths: Vec<String> = items.into_iter().map(|item| item.path).collect();
        assert_eq!(
            paths,
            ["rules/core/x.yaml", "rules/safety.yaml", "audit/checkpoint"]
        );
        assert_eq!(
            shelf.read("spoolgate:///rules/core/x.yaml").unwrap(),
            "b: 2\n"
        );
        assert_eq!(shelf.read("spoolgate:///audit/checkpoint").unwrap(), "head");
        for uri in [
            "spoolgate:///state/keyring.db",
            "spoolgate:///audit/log-00000001.jsonl",
            "spoolgate:///rules/../state/keyring.db",
            "spoolgate:///rules/way/keyring.db",
            "spoolgate:///rules/key.yaml",
            "spoolgate:///rules/.hidden",
            "spoolgate:///rules//safety.yaml",
            "spoolgate:///rules",
            "spoolgate:///rules/core",
            "spoolgate:///rules/none.yaml",
            "spoolgate:///schemas/halt.clear",
            "spoolgate:///schemas/../state/keyring.db",
            "file:///etc/passwd",
            "",
        ] {
            assert!(shelf.read(uri).is_err(), "{uri}");
        }
    }
}
