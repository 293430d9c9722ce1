//! The rows of the attack table that `tests/it/hostile.rs`, `tests/it/crash.rs` and
//! `tests/it/cli.rs` do not cover: a less trusted process attacks the spool. docs/testing.md names
//! the test of every row.
//!
//! Run the heavy tests with `cargo test --release --test it attacks:: -- --ignored --nocapture`.

mod answers;
mod contents;
mod events;
mod files;
mod floods;
mod folders;
mod names;
mod races;
mod siege;
mod users;

/// Every row of the table in docs/testing.md names tests that exist.
#[test]
fn the_table_of_the_documentation_names_tests() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(root.join("docs/testing.md")).unwrap();
    let section = text
        .split("## Attacks")
        .nth(1)
        .unwrap()
        .split("\n## ")
        .next()
        .unwrap();
    let mut sources = String::new();
    let mut folders = vec![root.join("tests")];
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
        {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                sources += &std::fs::read_to_string(path).unwrap();
            }
        }
    }
    let rows: Vec<&str> = section
        .lines()
        .filter(|line| line.starts_with("| "))
        .skip(1)
        .collect();
    assert!(rows.len() > 30, "{}", rows.len());
    for row in rows {
        let tests = row.trim_end_matches([' ', '|']).rsplit('|').next().unwrap();
        let names: Vec<&str> = tests
            .split('`')
            .skip(1)
            .step_by(2)
            .filter(|name| !name.contains('/'))
            .collect();
        assert!(!names.is_empty(), "no test: {row}");
        for name in names {
            assert!(
                sources.contains(&format!("fn {name}()")),
                "there is no test `{name}`: {row}"
            );
        }
    }
}
