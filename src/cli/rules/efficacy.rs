//! `spoolgate rules efficacy`: estimates what the rules saved.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use spoolgate_gate::efficacy::Against;
use spoolgate_gate::fired::Effects;
use spoolgate_home::read::real_seams;
use spoolgate_ledger::segment;
use spoolgate_replay::efficacy::{
    Derived, Options, Report, RuleReport, TIME_STOP_MINUTES, efficacy,
};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::code::Exit;
use spoolgate_wire::ids::RuleId;

use super::backtest::effects;
use super::time;
use crate::cli::output::Output;
use crate::cli::progress::{Progress, log_bytes};

/// Show what each rule has blocked, and how the blocked trades would have ended.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  spoolgate rules efficacy\n  spoolgate rules efficacy --rule \
        no-entries-high-funding\n  spoolgate rules efficacy --time-stop-minutes 240 --from \
        2026-01-01T00:00:00Z\n  spoolgate --format json rules efficacy | jq '.rules[] | {rule, \
        verdict, savings}'\n\nEach blocked entry is replayed by the paper venue on the rows after \
        it, and closed at its planned stop, its target or the\ntime stop. docs/rules.md explains \
        how figures and verdicts are computed."
)]
pub(crate) struct Args {
    /// Only this rule.
    #[arg(long, value_name = "ID")]
    rule: Option<String>,
    /// Only requests decided at or after this time, RFC 3339 UTC; later market rows are always
    /// used.
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Only requests decided before this time.
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// Maximum time that a trade waits to fill, and that it is held.
    #[arg(long, value_name = "MINUTES", default_value_t = TIME_STOP_MINUTES,
        value_parser = clap::value_parser!(u32).range(1..))]
    time_stop_minutes: u32,
}

/// Runs the command.
pub(super) fn run(home: &Path, args: &Args, output: &Output) -> Result<Exit> {
    let seams = real_seams(home)?;
    let options = Options {
        rule: args
            .rule
            .as_deref()
            .map(RuleId::parse)
            .transpose()
            .context("--rule")?,
        from: time("from", args.from.as_deref())?,
        to: time("to", args.to.as_deref())?,
        time_stop_minutes: args.time_stop_minutes,
    };
    let progress = Progress::bytes(
        output,
        "looking back",
        log_bytes(&home.join(segment::AUDIT_DIR)),
    );
    let report = efficacy(home, &seams, &options, &mut |done| progress.at(done));
    drop(progress);
    let report = report?;
    if let Some(rule) = args.rule.as_ref().filter(|_| report.rules.is_empty()) {
        bail!("rule `{rule}` does not exist: it is in no rulebook of that time");
    }
    if output.is_json() {
        output.json(&report)?;
    } else {
        print(&report, output)?;
    }
    Ok(Exit::Success)
}

fn print(report: &Report, output: &Output) -> Result<()> {
    if report.rules.is_empty() {
        output.remark("no rule has fired, and none is in a rulebook of the time");
    }
    let header = [
        "rule", "verdict", "blocked", "winners", "95%", "even at", "savings", "before", "after",
    ];
    let rows: Vec<Vec<String>> = report.rules.iter().flat_map(rows_of).collect();
    output.table(&header, header.get(2..).unwrap_or_default(), &rows)?;
    let tallies: BTreeMap<RuleId, _> = report
        .rules
        .iter()
        .filter(|rule| rule.all.figures.tally.fired > 0)
        .map(|rule| (rule.rule.clone(), rule.all.figures.tally))
        .collect();
    effects(
        output,
        &[(
            "recorded",
            &Effects {
                rules: tallies,
                ..Effects::default()
            },
        )],
    )?;
    for rule in &report.rules {
        for line in told_of(rule) {
            output.line(&crate::cli::output::plain(&line))?;
        }
    }
    if report.lost_entries > 0 {
        output.remark(&format!(
            "{} blocked entries cannot be replayed: their payload is not in the ledger",
            report.lost_entries
        ));
    }
    if report.lost_rows > 0 {
        output.remark(&format!(
            "the rows of {} deliveries are lost and are left out",
            report.lost_rows
        ));
    }
    Ok(())
}

fn number(amount: Option<Amount>) -> String {
    amount.map_or_else(|| "-".to_owned(), |amount| amount.normalized().to_string())
}

fn rows_of(rule: &RuleReport) -> Vec<Vec<String>> {
    let row = |name: String, verdict: &str, of: &Derived| {
        let blocked = of.figures.blocked;
        vec![
            name,
            verdict.to_owned(),
            blocked.closed.to_string(),
            blocked.winners.to_string(),
            of.interval.map_or_else(
                || "-".to_owned(),
                |(low, high)| format!("{low:.3} to {high:.3}"),
            ),
            number(of.break_even),
            number(of.savings),
            number(of.expectancy_before),
            number(of.expectancy_after),
        ]
    };
    let mut rows = vec![row(rule.rule.to_string(), rule.verdict.as_str(), &rule.all)];
    if rule.regimes.len() > 1 {
        rows.extend(
            rule.regimes
                .iter()
                .map(|(name, of)| row(format!("  in {name}"), "", of)),
        );
    }
    rows
}

fn told_of(rule: &RuleReport) -> Vec<String> {
    let mut lines = Vec::new();
    let blocked = rule.all.figures.blocked;
    if blocked.open > 0 || blocked.never_filled > 0 {
        lines.push(format!(
            "{}: of the entries it blocked, {} are still open where the rows end, {} never filled",
            rule.rule, blocked.open, blocked.never_filled
        ));
    }
    if blocked.closed < rule.sample_min && rule.all.figures.tally.fired > 0 {
        lines.push(format!(
            "{}: only it blocked {} closed trades; a verdict needs {}",
            rule.rule, blocked.closed, rule.sample_min
        ));
    }
    if let Some(tested) = &rule.hypothesis {
        let against = match tested.against {
            Against::Above => "above the baseline",
            Against::Below => "below the baseline",
            Against::Unclear => "not distinguishable from the baseline",
            Against::NotComputed => "not computed; only win_rate and expectancy are",
        };
        lines.push(format!(
            "{}: {} is {} over {} trades, against {} over {}: {against}",
            rule.rule,
            tested.hypothesis.metric,
            number(tested.value),
            tested.sample,
            tested.hypothesis.baseline_value,
            tested.hypothesis.baseline_sample
        ));
    }
    lines
}
