//! Compares the published JSON Schemas with those that the types give. With `UPDATE_DOCS=1` it
//! writes them instead.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests: a panic is a failure; this one reads and writes files of the repository"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, fs};

use spoolgate_gate::schemas;

/// How the list of names in the source begins.
const LIST: &str = "published! {\n";

#[test]
fn the_published_schemas_are_those_of_the_types() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = package.join("../../examples/schemas");
    let list = package.join("src/schemas/published.rs");

    let mut wanted: BTreeMap<PathBuf, String> = BTreeMap::new();
    let source = fs::read_to_string(&list).unwrap();
    let (about, _) = source.split_once(LIST).unwrap();
    let mut names = String::new();
    for (name, text) in schemas::derived() {
        names.push_str(&format!("    \"{name}\",\n"));
        wanted.insert(folder.join(format!("{name}.json")), text);
    }
    wanted.insert(list, format!("{about}{LIST}{names}}}\n"));

    let updates = env::var_os("UPDATE_DOCS").is_some();
    for (path, text) in &wanted {
        if updates {
            fs::write(path, text).unwrap();
        }
        let found = fs::read_to_string(path).unwrap_or_default();
        assert!(
            found == *text,
            "{} is stale: UPDATE_DOCS=1 writes it",
            path.display()
        );
    }
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if wanted.contains_key(&path) {
            continue;
        }
        assert!(
            updates,
            "{} is a schema of nothing; remove it",
            path.display()
        );
        fs::remove_file(path).unwrap();
    }
}
