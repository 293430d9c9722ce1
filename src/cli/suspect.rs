//! `spoolgate suspect`: tries a claim over which the gate has died. The gate runs it.

use std::ffi::OsStr;
use std::path::Path;

use anyhow::{Result, bail};
use spoolgate_home::read::real_seams;
use spoolgate_home::suspect;
use spoolgate_host::sandbox;
use spoolgate_host::spool::name::ClaimName;
use spoolgate_wire::code::Exit;

use super::output::Output;

/// Try a claim over which the gate has died: decide it in this process, and write nothing.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  spoolgate suspect 3~120~flat~r1.json\n\nThe gate runs this before \
        it decides a request over which it has ended twice. It can read `state`, `rules`, `audit` \
        and the\nclaim, and reaches no network. The exit code says only whether the claim could be \
        decided; a request that ends this\nprocess by a signal or a panic is refused."
)]
pub(super) struct Args {
    /// The name of the claim in spool/work.
    claim: String,
}

/// Runs the command.
pub(super) fn run(home: &Path, args: &Args, output: &Output) -> Result<Exit> {
    let Some(claim) = ClaimName::parse(OsStr::new(&args.claim)) else {
        bail!("`{}` is not the name of a claim in spool/work", args.claim);
    };
    // What a panic says may contain parts of the request or of the state; its place does not.
    let format = output.format;
    std::panic::set_hook(Box::new(move |panic| {
        if let Some(place) = panic.location() {
            Output::new(format).remark(&format!("panicked at {place}"));
        }
    }));
    sandbox::end_after(suspect::TRIAL_TIME_MAX)?;
    let seams = real_seams(home)?;
    sandbox::enter_to_read(&suspect::reads(home, &claim))?;
    let tried = suspect::decide_alone(home, &seams, claim)?;
    let told = match &tried {
        Some(tried) => format!("it can be decided: {:?}", tried.answer.status),
        None => "there is no such claim".to_owned(),
    };
    output.line(&told)?;
    Ok(Exit::Success)
}
