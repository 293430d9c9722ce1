//! Runs programs that rule files name, and describes how they ended.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use spoolgate_gate::elsewhere::CommandAnswer;
use spoolgate_gate::prepare::escaped;
use spoolgate_host::cage::Bounds;
use spoolgate_host::command::{self, Ended, Run};
use spoolgate_rules::command::CommandRule;
use spoolgate_rules::safety::CageLevel;

/// Bytes of a program's complaint that are reported.
const COMPLAINT_BYTES: usize = 300;

/// Runs a program in the home, in its cage, until it ends, reaches a limit or is stopped; `None` if
/// it was ended because the gate stops. `name` says what it is for.
pub(super) fn run(
    root: &Path,
    spec: &CommandRule,
    (cage, name): (CageLevel, &str),
    input: &[u8],
    stop: &AtomicBool,
) -> Option<CommandAnswer> {
    let run = command::run_rule(root, spec, &Bounds::at(cage), name, input, stop);
    told(spec, run)
}

fn told(spec: &CommandRule, run: Run) -> Option<CommandAnswer> {
    let Run {
        ended,
        output,
        complaint,
        cage,
    } = run;
    let program = &spec.program;
    let (note, is_well) = match ended {
        Ended::Stopped => return None,
        Ended::Exited(0) => (format!("`{program}` answered"), true),
        Ended::Exited(code) => (format!("`{program}` ended with exit code {code}"), false),
        Ended::Killed(signal) => (format!("`{program}` was ended by signal {signal}"), false),
        Ended::TimedOut => (
            format!("`{program}` took longer than {} s", spec.time_limit_s),
            false,
        ),
        Ended::Flooded => (
            format!(
                "`{program}` wrote more than {} bytes",
                spec.output_bytes_max
            ),
            false,
        ),
        Ended::NotStarted(error) | Ended::Failed(error) => {
            (format!("`{program}` could not be run: {error}"), false)
        }
    };
    let complaint = complaint
        .get(..complaint.len().min(COMPLAINT_BYTES))
        .unwrap_or_default();
    let complaint = String::from_utf8_lossy(complaint);
    let complaint = complaint.trim();
    let note = if is_well || complaint.is_empty() {
        note
    } else {
        format!("{note}: {complaint}")
    };
    Some(CommandAnswer {
        note: escaped(&note),
        output: is_well.then_some(output),
        cage,
    })
}
