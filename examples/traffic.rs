//! Agent-attack traffic through the gate: `cargo run --release --example traffic [-- --data DIR]
//! [--policy DIR] [--format json]`. DIR holds requests.jsonl and environment.json. The sets of the
//! policy are made from environment.json alone.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it reads files and prints a table"
)]

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

#[path = "traffic/mod.rs"]
mod traffic;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("traffic: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<()> {
    let project = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let (mut data, mut policy) = (
        project.join("examples/traffic/data"),
        project.join("examples/assistant"),
    );
    let mut is_json = false;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || {
            args.next()
                .with_context(|| format!("`{arg}` needs a value"))
        };
        match arg.as_str() {
            "--data" => data = PathBuf::from(value()?),
            "--policy" => policy = PathBuf::from(value()?),
            "--format" => match value()?.as_str() {
                "json" => is_json = true,
                "text" => is_json = false,
                other => bail!("format `{other}` is neither text nor json"),
            },
            other => bail!(
                "`{other}` is not an option; use --data DIR, --policy DIR or --format text|json"
            ),
        }
    }
    let report = traffic::report::Report::of(&data, &policy)?;
    if is_json {
        println!("{}", report.json());
    } else {
        print!("{}", report.text());
    }
    Ok(())
}
