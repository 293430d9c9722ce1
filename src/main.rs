//! The `spoolgate` program: parses the command line and hands over to `cli`.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the program does input and output"
)]

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
