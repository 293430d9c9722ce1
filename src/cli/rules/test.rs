//! `spoolgate rules test`: runs golden cases, and measures how much of the rules they cover.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use serde::Serialize;
use spoolgate_gate::actions;
use spoolgate_gate::prepare::Authentic;
use spoolgate_rules::golden::{self, Case, Covered, Report, Tried, name_of};
use spoolgate_rules::rule::{Fact, Reading};
use spoolgate_rules::{Rulebook, RulebookError};
use spoolgate_wire::code::Exit;
use spoolgate_wire::envelope::Envelope;
use spoolgate_wire::ids::{Principal, RequestId, RuleId};
use spoolgate_wire::time::Time;

use super::facts;
use super::folder::Folder;
use crate::cli::output::{Output, plain};

/// Run the golden cases in rules/tests.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  spoolgate rules test\n  spoolgate rules test my-checkout \
        --coverage 100\n  spoolgate --format json rules test | jq -r \
        'select(.faults!=[]).name'\n\nNeeds the files only: no ledger, no gate. Exit codes: 0 \
        every case holds and the coverage is reached, 1 one\ndoes not, 2 the rules or the cases \
        cannot be read."
)]
pub(crate) struct Args {
    /// A home, or a folder that is its `rules`; default: the home.
    dir: Option<PathBuf>,
    /// Exit with 1 if less than this percentage of the rules and conditions is covered.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=100))]
    coverage: Option<u32>,
}

/// The coverage of a rule as JSON output.
#[derive(Serialize)]
struct CoverageView<'a> {
    rule: &'a RuleId,
    #[serde(flatten)]
    covered: &'a Covered,
    seen: u32,
    of: u32,
}

/// The totals as JSON output.
#[derive(Serialize)]
struct SumView {
    cases: usize,
    failed: usize,
    coverage: u32,
}

/// Runs the command.
pub(super) fn run(home: &Path, args: &Args, output: &Output) -> Result<Exit> {
    let folder = Folder::read(home, args.dir.as_ref())?;
    let read = folder.sound_rules()?;
    let rulebook = match folder.rulebook() {
        Some(Ok(rulebook)) => rulebook,
        Some(Err(fault)) => bail!(folder.shown(fault)),
        None => facts::shipped()?,
    };
    let mut files = Vec::new();
    let mut faults = Vec::new();
    for (path, text) in folder.cases() {
        match golden::read(path, text) {
            Ok(file) => files.push(((path, text), file)),
            Err(found) => faults.extend(found),
        }
    }
    if !faults.is_empty() {
        for fault in faults {
            output.remark(&folder.shown(fault).to_string());
        }
        return Ok(Exit::Malformed);
    }
    let mut report = Report {
        coverage: golden::nothing_seen(&read.rules),
        ..Report::default()
    };
    let computed = |case: &Case, readings: &[Reading]| computed(&rulebook, case, readings);
    for (at, file) in &files {
        golden::try_file(&read.rules, *at, file, &computed, &mut report);
    }
    print(&folder, &report, output)?;
    let percent = report.percent();
    let failed = report
        .tried
        .iter()
        .filter(|tried| !tried.faults.is_empty())
        .count();
    if report.tried.is_empty() {
        output.remark("rules/tests has no cases");
    }
    let is_short = args.coverage.filter(|least| percent < *least);
    if let Some(least) = is_short {
        output.remark(&format!("{percent} % covered, {least} % required"));
    }
    Ok(if failed == 0 && is_short.is_none() {
        Exit::Success
    } else {
        Exit::Refused
    })
}

/// Computes the facts that a case's request determines by itself, without those that the gate would
/// look up.
fn computed(
    rulebook: &Rulebook,
    case: &Case,
    readings: &[Reading],
) -> Result<Vec<Option<Fact<'static>>>> {
    let now = case.at.unwrap_or(Time::EPOCH);
    let source = match &case.source {
        Some(source) => source.clone(),
        None => Principal::parse("nobody")?,
    };
    let payload = case
        .request
        .as_ref()
        .map_or_else(|| "{}".to_owned(), ToString::to_string);
    let envelope = Envelope {
        id: RequestId::parse("case")?,
        timestamp_text: now.to_string(),
        timestamp: now,
        action: case.action.clone(),
        payload,
        source,
        signature: String::new(),
        causality: None,
    };
    let authentic = Authentic::unsigned(envelope);
    // Rules may be written for actions that the gate does not know yet.
    if case.request.is_some()
        && actions::find(&case.action).is_some()
        && let Err(refusal) = &authentic.body
    {
        bail!("{}", refusal.message);
    }
    let found = facts::alone(rulebook, &authentic, now, readings);
    let facts = readings.iter().zip(found).map(|(reading, fact)| {
        let is_given = match name_of(reading).as_str() {
            "request.source" => case.source.is_some(),
            "request.action" => true,
            _ if facts::is_of_time(reading) => case.at.is_some(),
            _ => case.request.is_some() && facts::is_of_request(reading),
        };
        (is_given && !matches!(fact, Fact::Unknown(_))).then_some(fact)
    });
    Ok(facts.collect())
}

fn print(folder: &Folder, report: &Report, output: &Output) -> Result<()> {
    let failed: Vec<&Tried> = report
        .tried
        .iter()
        .filter(|tried| !tried.faults.is_empty())
        .collect();
    if output.is_json() {
        report
            .tried
            .iter()
            .try_for_each(|tried| output.json(tried))?;
        for (rule, covered) in &report.coverage {
            let (seen, of) = covered.seen();
            output.json(&CoverageView {
                rule,
                covered,
                seen,
                of,
            })?;
        }
        let sum = SumView {
            cases: report.tried.len(),
            failed: failed.len(),
            coverage: report.percent(),
        };
        return output.json(&sum);
    }
    for tried in &failed {
        for fault in &tried.faults {
            let message = format!("`{}`: {fault}", tried.name);
            let at = RulebookError::new(&tried.file, tried.line, message);
            output.line(&plain(&folder.shown(at).to_string()))?;
        }
    }
    if !failed.is_empty() && !report.coverage.is_empty() {
        output.line("")?;
    }
    let mut rows = Vec::new();
    for (rule, covered) in &report.coverage {
        let never = |count: u32| {
            if count == 0 {
                "never".to_owned()
            } else {
                count.to_string()
            }
        };
        let name = rule.to_string();
        rows.push(vec![
            name,
            String::new(),
            never(covered.acts),
            never(covered.lets_pass),
        ]);
        for each in &covered.conditions {
            let row = vec![
                String::new(),
                each.condition.clone(),
                never(each.held),
                never(each.did_not),
            ];
            rows.push(row);
        }
    }
    if !rows.is_empty() {
        let header = ["rule", "condition", "acts/holds", "does not"];
        output.table(&header, &["acts/holds", "does not"], &rows)?;
    }
    let (cases, percent) = (report.tried.len(), report.percent());
    output.line(&format!(
        "\n{cases} cases, {} failed; {percent} % covered",
        failed.len()
    ))
}
