//! `spoolgate rules backtest`: decides logged requests again under other rules.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use spoolgate_gate::fired::Effects;
use spoolgate_home::read::real_seams;
use spoolgate_ledger::segment;
use spoolgate_replay::backtest::{Flipped, Options, Report, Side, backtest};
use spoolgate_wire::checks::CheckRow;
use spoolgate_wire::code::Exit;

use super::time;
use crate::cli::handle::rules_of;
use crate::cli::look;
use crate::cli::output::Output;
use crate::cli::progress::{Progress, log_bytes};

/// Decides every logged request again.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  spoolgate rules backtest --rules draft\n  spoolgate rules backtest \
        --rules draft --from 2026-01-01T00:00:00Z --flips 100\n  spoolgate rules \
            backtest                       \
        under the rules of the time: nothing may differ\n  spoolgate --format json rules backtest \
        --rules draft | jq .flips\n\nDIR holds rules/ as a home does, and council/ and \
        proposals/theses/ if they are to count. Each request is decided on the\nstate as it was: \
        later effects of a flip are not followed. Exit code 0 whatever flips; without --rules, 5 \
        if any decision\ncomes out differently."
)]
pub(crate) struct Args {
    /// Other rules: a home, or a folder that is its `rules`. What it leaves out (other files, theses)
    /// is as in force. Default: the stored rulebook of each decision.
    #[arg(long, value_name = "DIR")]
    rules: Option<PathBuf>,
    /// Only decisions at or after this time, RFC 3339 UTC.
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Only decisions before this time.
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// Maximum number of flips to list; all are counted.
    #[arg(long, value_name = "N", default_value_t = 20)]
    flips: usize,
}

/// Runs the command.
pub(super) fn run(home: &Path, args: &Args, output: &Output) -> Result<Exit> {
    let seams = real_seams(home)?;
    let rules = match &args.rules {
        Some(dir) => {
            let (view, _) = look::view(home)?;
            Some(Arc::new(rules_of(dir, &view.rulebook)?))
        }
        None => None,
    };
    let options = Options {
        rules,
        from: time("from", args.from.as_deref())?,
        to: time("to", args.to.as_deref())?,
        flips: args.flips,
    };
    let progress = Progress::bytes(
        output,
        "deciding again",
        log_bytes(&home.join(segment::AUDIT_DIR)),
    );
    let report = backtest(home, &seams, &options, &mut |done| progress.at(done));
    drop(progress);
    let report = report?;
    if output.is_json() {
        output.json(&report)?;
    } else {
        print(&report, output)?;
    }
    let is_apart =
        options.rules.is_none() && (report.flipped() > 0 || !report.other_bytes.is_empty());
    Ok(if is_apart {
        Exit::LedgerCorrupt
    } else {
        Exit::Success
    })
}

fn print(report: &Report, output: &Output) -> Result<()> {
    let under = report
        .rulebook
        .clone()
        .unwrap_or_else(|| "each decision's own".to_owned());
    let mut rows = vec![
        vec!["rulebook".to_owned(), under],
        vec!["decisions".to_owned(), report.decisions.to_string()],
        vec!["decided again".to_owned(), report.again.to_string()],
    ];
    rows.extend(
        report
            .not_again
            .iter()
            .map(|(why, count)| vec!["not again".to_owned(), format!("{count}: {why}")]),
    );
    let counts = [
        ("same", report.same),
        ("newly refused", report.newly_refused),
        ("newly accepted", report.newly_accepted),
        ("newly held", report.newly_held),
        ("reason changed", report.reason_changed),
    ];
    rows.extend(counts.map(|(name, count)| vec![name.to_owned(), count.to_string()]));
    if !report.other_bytes.is_empty() {
        rows.push(vec![
            "lines of other bytes".to_owned(),
            format!("{:?}", report.other_bytes),
        ]);
    }
    output.table(&["backtest", ""], &[], &rows)?;
    effects(
        output,
        &[
            ("recorded", &report.recorded),
            ("backtest", &report.backtest),
        ],
    )?;
    if !report.flips.is_empty() {
        output.heading(&format!(
            "{} of {} flips",
            report.flips.len(),
            report.flipped()
        ))?;
    }
    report
        .flips
        .iter()
        .try_for_each(|flipped| print_flip(flipped, output))?;
    if report.rulebook.is_some() && report.flipped() > 0 {
        output.remark(
            "each request was decided on the state as it was; later effects of a flip are not \
                followed",
        );
    }
    Ok(())
}

/// Prints what rules did, as one table over several counts.
pub(super) fn effects(output: &Output, of: &[(&str, &Effects)]) -> Result<()> {
    let mut rows = Vec::new();
    for (name, effects) in of {
        for (rule, tally) in &effects.rules {
            let counts = [
                tally.fired,
                tally.sole,
                tally.joint,
                tally.shadow_sole,
                tally.shadow_joint,
                tally.warned,
            ];
            let mut row = vec![rule.to_string(), (*name).to_owned()];
            row.extend(counts.map(|count| count.to_string()));
            rows.push(row);
        }
    }
    if rows.is_empty() {
        return Ok(());
    }
    rows.sort();
    let header = [
        "rule",
        "in",
        "fired",
        "sole",
        "joint",
        "shadow sole",
        "shadow joint",
        "warned",
    ];
    output.heading("rules that fired")?;
    output.table(&header, header.get(2..).unwrap_or_default(), &rows)
}

fn print_flip(flipped: &Flipped, output: &Output) -> Result<()> {
    let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    output.line(&super::super::output::plain(&format!(
        "line {}  {}  {} {} by {}: {}",
        flipped.line,
        flipped.time,
        text(&flipped.action),
        text(&flipped.request_id),
        text(&flipped.source),
        flipped.flip.as_str()
    )))?;
    for (name, side) in [("was", &flipped.before), ("is", &flipped.after)] {
        output.line(&super::super::output::plain(&format!(
            "  {name:4}{}",
            told(side)
        )))?;
        for row in &side.failed {
            output.line(&super::super::output::plain(&format!(
                "        {}",
                failed(row)
            )))?;
        }
    }
    Ok(())
}

fn told(side: &Side) -> String {
    let code = side
        .code
        .map_or_else(String::new, |code| format!(" {code}"));
    let message = side
        .message
        .as_ref()
        .map_or_else(String::new, |message| format!(": {message}"));
    format!("{}{code}{message}", side.fate.as_str())
}

fn failed(row: &CheckRow) -> String {
    let value = row.value.map_or_else(
        || "unknown".to_owned(),
        |value| value.normalized().to_string(),
    );
    let limit = row
        .limit
        .map_or_else(|| "none".to_owned(), |limit| limit.normalized().to_string());
    let reason = row
        .reason
        .as_ref()
        .map_or_else(String::new, |reason| format!(": {reason}"));
    format!(
        "{} {value} against {limit} ({}) in {}{reason}",
        row.name, row.unit, row.source
    )
}
