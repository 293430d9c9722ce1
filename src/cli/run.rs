//! `spoolgate run`: decides what is in the spool, then ends. For cron.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use clap::builder::RangedU64ValueParser;
use spoolgate_gate::EventKind;
use spoolgate_gate::record::Status;
use spoolgate_home::Home;
use spoolgate_home::batch::Outcome;
use spoolgate_home::read::real_seams;
use spoolgate_home::suspect;
use spoolgate_host::sandbox;
use spoolgate_host::spool::scan::BATCH_ENTRIES_MAX;
use spoolgate_ledger::recover::Found;
use spoolgate_wire::code::{Code, Exit};

use super::look;
use super::output::{Output, plain};
use super::progress::Progress;

/// Decide what is in the spool, then end.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  spoolgate run --until-idle\n  */5 * * * * spoolgate --home \
        /srv/gate run --until-idle\n\nEnds with exit code 7 if another gate is running over this \
        home."
)]
pub(super) struct Args {
    /// End when nothing is left to decide. This is the only mode of `run`; to keep going, use
    /// `watch`.
    #[arg(long, required = true)]
    until_idle: bool,
    #[command(flatten)]
    batches: Batches,
}

/// The size of batches. Batches of 1 cost one disk sync per request; large ones delay answers.
#[derive(clap::Args)]
pub(super) struct Batches {
    /// Maximum number of requests that share one disk sync, 1 to 1024.
    #[arg(long, value_name = "N", default_value_t = BATCH_ENTRIES_MAX,
        value_parser = RangedU64ValueParser::<usize>::new().range(1..=1024))]
    batch: usize,
}

impl Batches {
    /// Sets the limit for the gate.
    pub(super) fn limit(&self, home: &mut Home) {
        home.limit_batches(self.batch);
    }
}

/// Sets the returned flag on SIGTERM and SIGINT; the gate stops between two batches.
pub(super) fn stop_on_signals() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// Opens a home and reports what recovery found.
pub(super) fn open(home: &Path, output: &Output) -> Result<Home> {
    // Before a secret is read: other programs of this user cannot look into this process then.
    sandbox::close_memory().context("`prctl`, which closes the memory of this process")?;
    let progress = Progress::count_bytes(output, "catching up with the ledger");
    let mut open = Home::open_telling(home, real_seams(home)?, &mut |done| progress.at(done))?;
    drop(progress);
    if open.index_was_elsewhere {
        output.remark(
            "state.db was damaged, or named lines that this ledger does not have, and was rebuilt \
                from the ledger; if you did not restore an older copy, compare with a head noted \
                elsewhere (`audit verify --head`)",
        );
    }
    if let Found::Torn(rest) = &open.found {
        output.remark(&format!(
            "the last run ended inside a batch: {} bytes at offset {} were never sealed and are \
                kept unchanged; their requests are decided again",
            rest.length, rest.offset
        ));
    }
    open.moved_aside().for_each(|told| output.remark(&told));
    open.left_open().iter().for_each(|told| output.remark(told));
    // A new fault is reported later, with its line.
    let is_known = open.state().rulebook.fault.as_deref() == open.rules_fault();
    for reason in look::why_closed(open.state()) {
        if is_known || Some(&reason) != look::rules_fault(open.state()).as_ref() {
            output.remark(&reason);
        }
    }
    let format = output.format;
    open.tell_events(Box::new(move |event| {
        Output::new(format).remark(&look::told(event))
    }));
    open.try_suspects_with(suspect::by_command(home));
    open.let_roles_answer()?;
    Ok(open)
}

/// Prints one line for each outcome of a round, in one write.
pub(super) fn report(output: &Output, outcomes: &[Outcome]) -> Result<()> {
    if outcomes.is_empty() {
        return Ok(());
    }
    if output.is_json() {
        let answers = outcomes.iter().map(|outcome| outcome.answer.to_bytes());
        return output.raw(&answers.collect::<Vec<_>>().concat());
    }
    let lines = outcomes.iter().map(|outcome| plain(&told(outcome)));
    output.line(&lines.collect::<Vec<_>>().join("\n"))
}

/// The codes whose messages may be an adapter's own.
const SEALED: [Code; 2] = [Code::AdapterFailed, Code::AdapterOutput];

/// Describes an outcome.
fn told(outcome: &Outcome) -> String {
    let decision = &outcome.decision;
    let said = match (&decision.metadata.code, decision.metadata.replay_of) {
        _ if decision.status == Status::Pending => match &outcome.answer.error {
            // The words of an adapter are sealed in the ledger; a journal would keep them.
            Some(error) if SEALED.contains(&error.code) => {
                format!("{}: read the answer", error.code)
            }
            Some(error) => format!("{}: {}", error.code, error.message),
            None => format!("done, begun in line {}", decision.id),
        },
        (Some(code), _) => format!(
            "{code}: {}",
            decision.metadata.message.as_deref().unwrap_or_default()
        ),
        (None, Some(original)) => format!("answered again as in line {original}"),
        (None, None) => "done".to_owned(),
    };
    let who = decision.source.as_deref().unwrap_or("-");
    let what = decision.action.as_deref().unwrap_or("-");
    format!(
        "{:>8}  {who}  {what}  {}  {said}",
        outcome.seq, decision.file
    )
}

/// Runs the command.
pub(super) fn run(home: &Path, args: &Args, output: &Output) -> Result<Exit> {
    debug_assert!(args.until_idle, "clap requires it");
    let stop = stop_on_signals()?;
    let mut open = open(home, output)?;
    args.batches.limit(&mut open);
    open.note(EventKind::Start, "a run started");
    let mut failed = Ok(());
    let progress = Progress::count(output, "requests decided");
    let drained = open.until_idle(false, &stop, &mut |outcomes| {
        progress.more(outcomes.len());
        if failed.is_ok() {
            failed = report(output, outcomes);
        }
    });
    drop(progress);
    drained?;
    open.finish_within("the run ended in order", &stop)?;
    failed?;
    Ok(Exit::Success)
}
