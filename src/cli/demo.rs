//! x
use super::output::Output;
use anyhow::Result;
use spoolgate::wire::code::Exit;
/// x
#[derive(clap::Args)]
pub struct Args {}
/// x
pub fn run(_: &Args, _: &Output) -> Result<Exit> {
    Ok(Exit::Success)
}
