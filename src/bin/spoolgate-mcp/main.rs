//! `spoolgate-mcp`: the agent's side of the gate as tools of a model, on standard input and output.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(2)
}
