//! `spoolgate schema`: prints JSON Schemas of requests, answers and rule files.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};
use spoolgate_gate::schemas;
use spoolgate_wire::code::Exit;

use super::output::Output;
use super::schema_of_home::of_home;

/// The schema of a rule.
const RULE: &str = "rules.rule";

/// Maximum number of names suggested for an unknown one.
const NEAR_MAX: usize = 5;

/// JSON Schemas of requests, answers and rule files.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  spoolgate schema order.submit\n  spoolgate schema --list\n  \
        spoolgate schema --all --out schemas\n  spoolgate schema rules.rule --of-home\n\nThe schema of a payload has the name of its \
        action; that of the answer's data has `.answer` appended. `request` and\n`answer` are the \
        files in the spool; `rules.safety`, `council.roles` and so on are files of a home."
)]
pub(super) struct Args {
    /// Name of the schema.
    #[arg(required_unless_present_any = ["all", "list"])]
    name: Option<String>,
    /// All schemas: one object by name, or with --out one file per schema.
    #[arg(long, conflicts_with_all = ["name", "list"])]
    all: bool,
    /// Only the names.
    #[arg(long, conflicts_with = "name")]
    list: bool,
    /// Of `rules.rule`: with the operators and values of each field, and the names of the home's files.
    #[arg(long, conflicts_with_all = ["all", "list"])]
    of_home: bool,
    /// The folder that --all writes `<name>.json` to; it is made if it does not exist.
    #[arg(long, requires = "all", value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Runs the command.
pub(super) fn run(home: &Path, args: &Args, output: &Output) -> Result<Exit> {
    if args.of_home {
        let name = args.name.as_deref().unwrap_or_default();
        let Some(schema) = schemas::schema(name).filter(|_| name == RULE) else {
            bail!("--of-home: only the schema `{RULE}` depends on a home, not `{name}`");
        };
        print(&format!("{:#}", of_home(home, schema)?), output)?;
        return Ok(Exit::Success);
    }
    match &args.name {
        Some(name) => match schemas::text(name) {
            Some(text) => print(text, output)?,
            None => bail!("schema `{name}` does not exist; {}", near(name)),
        },
        None if args.list => list(output)?,
        None => match &args.out {
            Some(out) => write_all(out, output)?,
            None => {
                let all: Map<String, Value> = schemas::names()
                    .filter_map(|name| Some((name.to_owned(), schemas::schema(name)?)))
                    .collect();
                print(&format!("{:#}", Value::Object(all)), output)?;
            }
        },
    }
    Ok(Exit::Success)
}

/// Prints a schema on many lines for people, or on a single line for programs.
fn print(schema: &str, output: &Output) -> Result<()> {
    if output.is_json() {
        return output.json(&serde_json::from_str::<Value>(schema)?);
    }
    output.line(schema.trim_end())
}

fn list(output: &Output) -> Result<()> {
    if output.is_json() {
        return output.json(&schemas::names().collect::<Vec<_>>());
    }
    for name in schemas::names() {
        output.line(name)?;
    }
    Ok(())
}

/// Writes every schema to a folder, with the same layout as `examples/schemas`.
fn write_all(out: &Path, output: &Output) -> Result<()> {
    fs::create_dir_all(out).with_context(|| format!("folder `{}`", out.display()))?;
    let mut written = 0_usize;
    for name in schemas::names() {
        let path = out.join(format!("{name}.json"));
        fs::write(&path, schemas::text(name).unwrap_or_default())
            .with_context(|| format!("file `{}`", path.display()))?;
        written = written.saturating_add(1);
    }
    if output.is_json() {
        return output.json(&serde_json::json!({"folder": out, "schemas": written}));
    }
    output.line(&format!("{written} schemas written to {}", out.display()))
}

/// Suggests names similar to an unknown one.
fn near(name: &str) -> String {
    let wanted = name.trim_end_matches(".json").to_lowercase();
    let mut by_distance: Vec<(usize, &str)> = schemas::names()
        .map(|known| {
            let holds = known.contains(&wanted)
                || known
                    .split('.')
                    .any(|part| part.len() > 2 && wanted.contains(part));
            (
                distance(&wanted, known).saturating_sub(if holds { wanted.len() } else { 0 }),
                known,
            )
        })
        .filter(|(distance, _)| *distance <= wanted.len().min(8) / 2)
        .collect();
    by_distance.sort_unstable();
    let names: Vec<String> = by_distance
        .iter()
        .take(NEAR_MAX)
        .map(|(_, known)| format!("`{known}`"))
        .collect();
    match names.as_slice() {
        [] => "`spoolgate schema --list` shows all names".to_owned(),
        names => format!(
            "similar names are {}; `spoolgate schema --list` shows all names",
            names.join(", ")
        ),
    }
}

/// Returns the number of letters to insert, remove or replace (Levenshtein distance).
pub(super) fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in (1..).zip(a.chars().take(64)) {
        let mut above_left = std::mem::replace(row.first_mut().unwrap_or(&mut 0), i);
        let mut left = i;
        for (cell, y) in row.iter_mut().skip(1).zip(&b) {
            let changed = above_left.saturating_add(usize::from(x != *y));
            above_left = *cell;
            left = changed
                .min(left.saturating_add(1))
                .min(cell.saturating_add(1));
            *cell = left;
        }
    }
    row.last().copied().unwrap_or_default()
}
