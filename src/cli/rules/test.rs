//! `spoolgate rules test`: runs golden cases, and measures how much of the rules they cover.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use serde::Serialize;
use spoolgate_gate::actions;
use spoolgate_gate::prepare::Authentic;
use spoolgate_rules::golden::{self, Case, Covered, Report, Tried, name_of};
use spoolgate_rules::mutants::{self, Change};
use spoolgate_rules::rule::file::line_of_condition;
use spoolgate_rules::rule::{Fact, Reading, RuleSet};
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
        'select(.faults!=[]).name'\n  spoolgate rules test --mutate\n\nWith --mutate, each \
        rule is changed in one place at a time: another operator, a threshold moved by one step, a \
        condition\ndropped. Changes that no passing case notices are listed, unless they are \
        proved to change nothing; `rules cases`\nmakes cases that notice them. Needs the files \
        only: no ledger, no gate. Exit codes: 0 every case passes, the coverage\nis reached, and \
        every change is noticed; 1 otherwise; 2 the rules or the cases cannot be read."
)]
pub(crate) struct Args {
    /// A home, or a folder that is its `rules`; default: the home.
    dir: Option<PathBuf>,
    /// Exit with 1 if less than this percentage of the rules and conditions is covered.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=100))]
    coverage: Option<u32>,
    /// List changes of the rules that no case notices; exit with 1 if there are any.
    #[arg(long)]
    mutate: bool,
}

/// A change of a rule that no case notices, as JSON output.
#[derive(Serialize)]
struct MutantView<'a> {
    mutant: &'a RuleId,
    file: &'a str,
    line: Option<usize>,
    change: Change,
    /// The condition, and what it becomes; absent if it is dropped.
    was: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    becomes: Option<String>,
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
    let percent = report.percent();
    let failed = report
        .tried
        .iter()
        .filter(|tried| !tried.faults.is_empty())
        .count();
    let is_short = args.coverage.filter(|least| percent < *least);
    if failed > 0 || is_short.is_some() {
        output.decided(Exit::Refused);
    }
    print(&folder, &report, output)?;
    let is_mutant_left = args.mutate && mutate(&folder, &read.rules, &report, output)?;
    if report.tried.is_empty() {
        output.remark("rules/tests has no cases");
    }
    if let Some(least) = is_short {
        output.remark(&format!("{percent} % covered, {least} % required"));
    }
    Ok(if failed == 0 && is_short.is_none() && !is_mutant_left {
        Exit::Success
    } else {
        Exit::Refused
    })
}

/// Lists the mutants that no passing case notices; returns whether there are any.
fn mutate(folder: &Folder, rules: &RuleSet, report: &Report, output: &Output) -> Result<bool> {
    let (mut made, mut left) = (0_usize, 0_usize);
    for rule in rules.rules.values() {
        for mutant in mutants::mutants(rules, rule) {
            made = made.saturating_add(1);
            if mutant.is_noticed(rules, &report.passed) {
                continue;
            }
            left = left.saturating_add(1);
            let line = line_of_condition(&rule.text, mutant.nth, &mutant.was.field);
            let message = format!("no case notices that {mutant}");
            let at = folder.shown(RulebookError::new(&rule.path, line, message));
            match output.is_json() {
                false => output.line(&plain(&at.to_string()))?,
                true => output.json(&MutantView {
                    mutant: &mutant.rule,
                    file: &at.file,
                    line,
                    change: mutant.change,
                    was: mutant.was.to_string(),
                    becomes: mutant.is.as_ref().map(ToString::to_string),
                })?,
            }
        }
    }
    output.remark(&format!("{made} mutants, {left} not noticed"));
    Ok(left > 0)
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
        is_given.then_some(fact)
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
