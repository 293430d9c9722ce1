//! `cargo bench --bench gate`: what the gate costs, each figure with a peer that was run beside it
//! on the same disk in the same minute, one after the other by turns. `docs/performance.md` says
//! what the figures mean.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::float_arithmetic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program that measures and prints; it decides nothing"
)]

mod admission;
mod args;
mod bare;
mod child;
mod conditions;
mod council;
mod drain;
mod figures;
mod gateway;
mod homes;
mod instructions;
mod oneshot;
mod receipts;
mod replay;
mod requests;
mod rules;
mod stages;
mod verify;
mod watch;

use std::process::ExitCode;

use anyhow::{Context, Result};

use args::{Args, Form, Section};
use conditions::Conditions;
use figures::Report;

fn main() -> ExitCode {
    let ran = match child::other_role() {
        Some(ran) => ran,
        None => run(&args::read()),
    };
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<()> {
    std::fs::create_dir_all(&args.dir)
        .with_context(|| format!("--dir `{}`", args.dir.display()))?;
    let scratch = tempfile::Builder::new()
        .prefix("bench-")
        .tempdir_in(&args.dir)?;
    let mut conditions = Conditions::before(scratch.path());
    let bench = Bench {
        args,
        scratch: scratch.path(),
    };
    let mut report = Report::default();
    for section in Section::ALL.iter().filter(|section| args.wants(**section)) {
        args.say(&format!("{}: …", section.name()));
        let measured = match section {
            Section::Drain => drain::measure(&bench, &mut report),
            Section::Watch => watch::measure(&bench, &mut report),
            Section::Gateway => gateway::measure(&bench, &mut report),
            Section::Council => council::measure(&bench, &mut report),
            Section::Admission => admission::measure(&bench, &mut report),
            Section::Stages => stages::measure(&bench, &mut report),
            Section::Rules => rules::measure(&bench, &mut report),
            Section::Oneshot => oneshot::measure(&bench, &mut report),
            Section::Verify => verify::measure(&bench, &mut report),
            Section::Receipts => receipts::measure(&bench, &mut report),
            Section::Replay => replay::measure(&bench, &mut report),
            Section::Instructions => instructions::measure(&bench, &mut report),
        };
        measured.with_context(|| section.name())?;
    }
    args.say("");
    conditions.after();
    match args.form {
        Form::Json => println!("{}", report.json(&conditions)?),
        Form::Markdown => print!("{}", report.markdown(&conditions)),
        Form::Table => print!("{}", report.table(&conditions)),
    }
    Ok(())
}

/// What every section is handed.
struct Bench<'a> {
    args: &'a Args,
    /// A folder of this run, on the disk that is measured.
    scratch: &'a std::path::Path,
}
