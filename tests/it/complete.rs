//! Cargo does not look for tests by itself here (`autotests = false`): a file that nobody names
//! would never run.

use std::fs;
use std::path::{Path, PathBuf};

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect()
}

fn is_source(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "rs")
}

/// Checks that each file of a folder is a module of `parent`, and so on below.
fn demand_modules(folder: &Path, parent: &Path) {
    let modules = fs::read_to_string(parent).unwrap();
    for path in entries(folder).into_iter().filter(|path| path != parent) {
        let name = path.file_stem().unwrap().to_str().unwrap();
        if is_source(&path) || path.join("mod.rs").exists() {
            let is_named = [" ", "::"]
                .iter()
                .any(|before| modules.contains(&format!("{before}{name};")));
            assert!(
                is_named,
                "{} is no module of {}",
                path.display(),
                parent.display()
            );
        }
        if path.is_dir() {
            let (inside, beside) = (path.join("mod.rs"), path.with_extension("rs"));
            demand_modules(&path, if inside.exists() { &inside } else { &beside });
        }
    }
}

#[test]
fn every_file_is_part_of_a_program() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR"));
    let tests = project.join("tests");
    demand_modules(&tests.join("it"), &tests.join("it/main.rs"));
    let manifest = fs::read_to_string(project.join("Cargo.toml")).unwrap();
    let roots = entries(&tests).into_iter().map(|path| {
        if path.is_dir() {
            path.join("main.rs")
        } else {
            path
        }
    });
    for path in roots.filter(|path| is_source(path) && path.exists()) {
        let name = path.strip_prefix(project).unwrap().to_str().unwrap();
        assert!(
            manifest.contains(&format!("path = \"{name}\"")),
            "{name} is no [[test]] of Cargo.toml"
        );
    }
}
