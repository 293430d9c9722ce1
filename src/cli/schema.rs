//! `spoolgate schema`: JSON Schemas of requests, answers and rule files.

use anyhow::{Result, bail};
use spoolgate::gate::schemas;
use spoolgate::wire::code::Exit;

use super::output::Output;

/// JSON Schemas of requests, answers and rule files.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  spoolgate schema order.submit")]
pub struct Args {
    /// Which one.
    name: String,
}

/// Runs the command.
pub fn run(args: &Args, output: &Output) -> Result<Exit> {
    let Some(schema) = schemas::schema(&args.name) else {
        bail!("there is no schema `{}`; there are {}", args.name, schemas::names().join(", "))
    };
    output.line(&serde_json::to_string_pretty(&schema)?)?;
    Ok(Exit::Success)
}
