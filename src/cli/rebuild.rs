//! `spoolgate rebuild`: rebuilds the state from the ledger, and compares it.

use std::path::Path;

use anyhow::Result;
use spoolgate_home::Home;
use spoolgate_home::read::real_seams;
use spoolgate_ledger::segment;
use spoolgate_wire::code::Exit;

use super::output::Output;
use super::progress::{Progress, log_bytes};

/// Runs the command.
pub(super) fn run(home: &Path, output: &Output) -> Result<Exit> {
    let progress = Progress::bytes(output, "folding", log_bytes(&home.join(segment::AUDIT_DIR)));
    let (mut again, same) =
        Home::rebuild_telling(home, real_seams(home)?, &mut |done| progress.at(done))?;
    drop(progress);
    again.save_snapshot()?;
    let position = again.position();
    if output.is_json() {
        let told = serde_json::json!({"lines": position.seq, "batches": position.batch,
            "same_as_before": same});
        output.json(&told)?;
        return Ok(Exit::Success);
    }
    let verdict = if same {
        "the same as before"
    } else {
        "different: state.db was missing, damaged or stale"
    };
    output.line(&format!(
        "state.db was rebuilt from {} lines; it is {verdict}",
        position.seq
    ))?;
    Ok(Exit::Success)
}
