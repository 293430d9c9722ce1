//! The `spoolgate` program: parses the command line and hands over to `cli`.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the program does input and output"
)]

mod cli;

use std::process::ExitCode;

use spoolgate_host::cage;

fn main() -> ExitCode {
    // The gate starts this for every program, before anything else is read or opened.
    if std::env::args_os()
        .nth(1)
        .is_some_and(|word| word == cage::ARGUMENT)
    {
        return ExitCode::from(u8::try_from(cage::run_child()).unwrap_or(u8::MAX));
    }
    cage::set_program("/proc/self/exe".into());
    cli::run()
}
