//! `spoolgate schema`: JSON Schemas of requests, answers and rule files.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};
use spoolgate::gate::schemas;
use spoolgate::wire::code::Exit;

use super::output::Output;

/// Most names that are proposed for one that there is not.
const NEAR_MAX: usize = 5;

/// JSON Schemas of requests, answers and rule files.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  spoolgate schema order.submit\n  spoolgate schema --list\n  spoolgate schema --all --out schemas\n\nA payload has the name of its action, the data of its answer the same with `.answer` behind it; `request` and `answer`\nare what lies in the spool, `rules.safety`, `council.roles` and so on are the files of a home."
)]
pub struct Args {
    /// Which one.
    #[arg(required_unless_present_any = ["all", "list"])]
    name: Option<String>,
    /// All of them: one object by name, or with --out a file each.
    #[arg(long, conflicts_with_all = ["name", "list"])]
    all: bool,
    /// Only their names.
    #[arg(long, conflicts_with = "name")]
    list: bool,
    /// The folder that --all writes `<name>.json` into; it is made where it is missing.
    #[arg(long, requires = "all", value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: &Args, output: &Output) -> Result<Exit> {
    match &args.name {
        Some(name) => match schemas::schema(name) {
            Some(schema) => print(&schema, output)?,
            None => bail!("there is no schema `{name}`; {}", near(name)),
        },
        None if args.list => list(output)?,
        None => match &args.out {
            Some(out) => write_all(out, output)?,
            None => {
                let all: Map<String, Value> = all().map(|(name, schema)| (name.to_owned(), schema)).collect();
                print(&Value::Object(all), output)?;
            }
        },
    }
    Ok(Exit::Success)
}

/// For people over many lines, for programs one value a line as everywhere.
fn print(schema: &Value, output: &Output) -> Result<()> {
    if output.is_json() {
        return output.json(schema);
    }
    output.line(text(schema)?.trim_end())
}

fn list(output: &Output) -> Result<()> {
    if output.is_json() {
        return output.json(&schemas::names());
    }
    for name in schemas::names() {
        output.line(name)?;
    }
    Ok(())
}

fn all() -> impl Iterator<Item = (&'static str, Value)> {
    schemas::names().into_iter().filter_map(|name| Some((name, schemas::schema(name)?)))
}

/// The file's text: the same for the same schema.
pub fn text(schema: &Value) -> Result<String> {
    Ok(format!("{}\n", serde_json::to_string_pretty(schema)?))
}

/// Writes every schema into a folder, as they lie in `examples/schemas`.
fn write_all(out: &Path, output: &Output) -> Result<()> {
    fs::create_dir_all(out).with_context(|| format!("folder `{}`", out.display()))?;
    let mut written = 0_usize;
    for (name, schema) in all() {
        let path = out.join(format!("{name}.json"));
        fs::write(&path, text(&schema)?).with_context(|| format!("file `{}`", path.display()))?;
        written = written.saturating_add(1);
    }
    if output.is_json() {
        return output.json(&serde_json::json!({"folder": out, "schemas": written}));
    }
    output.line(&format!("{written} schemas written to {}", out.display()))
}

/// What may have been meant.
fn near(name: &str) -> String {
    let wanted = name.trim_end_matches(".json").to_lowercase();
    let mut by_distance: Vec<(usize, &str)> = schemas::names()
        .into_iter()
        .map(|known| {
            let holds = known.contains(&wanted)
                || known.split('.').any(|part| part.len() > 2 && wanted.contains(part));
            (distance(&wanted, known).saturating_sub(if holds { wanted.len() } else { 0 }), known)
        })
        .filter(|(distance, _)| *distance <= wanted.len().min(8) / 2)
        .collect();
    by_distance.sort_unstable();
    let names: Vec<String> =
        by_distance.iter().take(NEAR_MAX).map(|(_, known)| format!("`{known}`")).collect();
    match names.as_slice() {
        [] => "`spoolgate schema --list` has all names".to_owned(),
        names => format!("near it are {}; `spoolgate schema --list` has all names", names.join(", ")),
    }
}

/// How many letters must be put in, taken out or changed (Levenshtein).
pub fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in (1..).zip(a.chars().take(64)) {
        let mut above_left = std::mem::replace(row.first_mut().unwrap_or(&mut 0), i);
        let mut left = i;
        for (cell, y) in row.iter_mut().skip(1).zip(&b) {
            let changed = above_left.saturating_add(usize::from(x != *y));
            above_left = *cell;
            left = changed.min(left.saturating_add(1)).min(cell.saturating_add(1));
            *cell = left;
        }
    }
    row.last().copied().unwrap_or_default()
}
