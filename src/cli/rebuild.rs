//! `spoolgate rebuild`: the state made again from the ledger, and compared.

use std::path::Path;

use anyhow::Result;
use spoolgate::home::Home;
use spoolgate::home::read::real_seams;
use spoolgate::wire::code::Exit;

use super::output::Output;

/// Runs the command.
pub fn run(home: &Path, output: &Output) -> Result<Exit> {
    let (mut again, same) = Home::rebuild(home, real_seams(home)?)?;
    again.save_snapshot()?;
    let position = again.position();
    if output.is_json() {
        let told =
            serde_json::json!({"lines": position.seq, "batches": position.batch, "same_as_before": same});
        output.json(&told)?;
        return Ok(Exit::Success);
    }
    let verdict =
        if same { "the same as before" } else { "not as before: state.db was missing, damaged or stale" };
    output.line(&format!("state.db was made again from {} lines; it is {verdict}", position.seq))?;
    Ok(Exit::Success)
}
