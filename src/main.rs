//! The `spoolgate` program: parses the command line and hands over to `cli`.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
