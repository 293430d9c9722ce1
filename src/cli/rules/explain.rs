//! `spoolgate rules explain`: shows for each rule which conditions hold, and what would have to
//! change.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde_json::{Map, Value as Json};
use spoolgate_gate::actions::Lane;
use spoolgate_gate::handle::Turn;
use spoolgate_gate::record::Decision;
use spoolgate_gate::{Record, facts as gate_facts};
use spoolgate_home::dry_run::Trial;
use spoolgate_home::read::real_seams;
use spoolgate_rules::Rulebook;
use spoolgate_rules::golden::{name_of, show};
use spoolgate_rules::rule::{
    Around, Fact, Guard, Program, Reading, RuleStatus, Then, Truth, Value,
};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::code::Exit;
use spoolgate_wire::ids::Principal;

use super::{change, facts};
use crate::cli::output::{Output, plain};
use crate::cli::{explain, handle, look};

/// Show for each rule which conditions hold of a request, and what would have to change.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  spoolgate rules explain my-request-id\n  spoolgate rules explain \
        42\n  spoolgate rules explain r1.json\n  spoolgate rules explain order.json --as \
        trend-bot --action order.submit\n\nFor a request in the ledger, the facts are those of \
        its line, and the rules those of that time (sets include values\napproved since); for a \
        file, the facts and rules are those of now. Nothing is written; a gate may be running."
)]
pub(crate) struct Args {
    /// A file with a request, signed or not; or the id of a request, or the number of a line.
    what: String,
    /// The principal that would sign it; default: the one that the file names.
    #[arg(long = "as", value_name = "PRINCIPAL", value_parser = Principal::parse)]
    source: Option<Principal>,
    /// The action, if the file holds only the payload.
    #[arg(long)]
    action: Option<String>,
    /// For a file: use the rules in this folder.
    #[arg(long, value_name = "DIR")]
    rules: Option<PathBuf>,
}

/// The rules of a request as JSON output.
#[derive(Serialize)]
struct ExplainedView {
    line: Option<u64>,
    action: String,
    facts: Json,
    rules: Vec<RuleView>,
}

/// A rule as JSON output.
#[derive(Serialize)]
struct RuleView {
    rule: String,
    status: RuleStatus,
    then: Then,
    /// Whether the rule acts, or would act if it were in force.
    acts: bool,
    conditions: Vec<ConditionView>,
    /// Changes of which each alone would stop the rule from acting.
    change: Vec<String>,
}

/// A condition as JSON output.
#[derive(Serialize)]
struct ConditionView {
    condition: String,
    value: Json,
    /// `yes`, `no` or `unknown`.
    holds: &'static str,
    #[serde(skip)]
    shown: String,
}

/// The request to explain, with its facts.
struct Found {
    line: Option<u64>,
    action: String,
    facts: Vec<Fact<'static>>,
}

/// Runs the command.
pub(super) fn run(home: &Path, args: &Args, output: &Output) -> Result<Exit> {
    let file = Path::new(&args.what);
    if args.what == "-" || file.is_file() {
        return of_file(home, args, file, output);
    }
    if args.source.is_some() || args.action.is_some() || args.rules.is_some() {
        bail!(
            "file `{}` does not exist; --as, --action and --rules are for files",
            plain(&args.what)
        );
    }
    of_ledger(home, &args.what, output)
}

fn of_file(home: &Path, args: &Args, file: &Path, output: &Output) -> Result<Exit> {
    let bytes = handle::read_input(file)?;
    let seams = real_seams(home)?;
    let mut trial = Trial::of(home, &seams)?;
    match &args.rules {
        Some(dir) => trial.under(handle::rules_of(dir, &trial.view.rulebook)?),
        None => look::rules_apart(home, &trial.view)
            .iter()
            .for_each(|apart| output.remark(apart)),
    }
    let asked = handle::read_asked(
        &bytes,
        args.source.as_ref(),
        args.action.as_deref(),
        trial.now,
    )?;
    let prepared = trial.prepare(&asked)?;
    let authentic = match &prepared.request {
        Ok(authentic) => authentic,
        Err(unverified) => bail!("{}", unverified.refusal.message),
    };
    if let Err(refusal) = &authentic.body {
        bail!("{}", refusal.message);
    }
    let lookups = trial.look_up(&prepared)?;
    if prepared.lane(&trial.view.state) == Lane::Protected {
        output.remark("it only reduces a position: rules do not apply, whatever they show here");
    }
    let action = authentic.envelope.action.clone();
    let none = Program::default();
    let (state, rules) = (&trial.view.state, &trial.view.rulebook);
    let program = rules.ruleset.programs.get(&action).unwrap_or(&none);
    let (now, seq) = (trial.now, trial.view.position.seq);
    let turn = Turn {
        state,
        rules,
        lookups: &lookups,
        now,
        seq,
        granted: None,
    };
    let facts = gate_facts::facts(&turn, authentic, &program.readings);
    let facts = facts.into_iter().map(Fact::into_owned).collect();
    let around = Around {
        now: trial.now,
        entries: &state.entries,
        task: None,
    };
    tell(
        rules,
        program,
        &Found {
            line: None,
            action,
            facts,
        },
        &around,
        output,
    )
}

fn of_ledger(home: &Path, what: &str, output: &Output) -> Result<Exit> {
    let (view, _) = look::view(home)?;
    let decisions: Vec<(u64, Box<Decision>)> = explain::find(home, &view, what)?
        .into_iter()
        .filter_map(|(line, record)| match record {
            Record::Decision(decision) => Some((line, decision)),
            _ => None,
        })
        .collect();
    if decisions.is_empty() {
        bail!(
            "file, request or decision line `{}` does not exist; `spoolgate audit tail` shows the \
                newest lines",
            plain(what)
        );
    }
    for (line, decision) in decisions {
        let line = decision.metadata.replay_of.unwrap_or(line);
        let decision = match view.record(line)? {
            Some(Record::Decision(first)) => first,
            _ => decision,
        };
        let action = decision.action.clone().unwrap_or_default();
        let member = decision.facts.as_ref().map(|raw| raw.get());
        let Some(text) = view.text(member, decision.facts_blob.as_deref())? else {
            output.line(&format!(
                "line {line}: no rules were applied to this request"
            ))?;
            continue;
        };
        let noted: Map<String, Json> =
            serde_json::from_str(&text).with_context(|| format!("the facts of line {line}"))?;
        let rules = view.rulebook_of(&decision.rulebook)?;
        let none = Program::default();
        let program = rules.ruleset.programs.get(&action).unwrap_or(&none);
        let facts = program
            .readings
            .iter()
            .map(|reading| noted_fact(reading, noted.get(&reading.to_string())));
        let found = Found {
            line: Some(line),
            action,
            facts: facts.collect(),
        };
        let around = Around {
            now: decision.timestamp,
            entries: &view.state.entries,
            task: None,
        };
        tell(&rules, program, &found, &around, output)?;
    }
    Ok(Exit::Success)
}

/// Returns a fact as a ledger line recorded it.
fn noted_fact(reading: &Reading, noted: Option<&Json>) -> Fact<'static> {
    let one = |value: &Json| match value {
        Json::String(text) if reading.kind().is_number() => {
            Amount::parse_wire(text).ok().map(Value::Number)
        }
        Json::String(text) => Some(Value::Text(text.clone().into())),
        Json::Bool(flag) => Some(Value::Flag(*flag)),
        _ => None,
    };
    let lost = || Fact::Unknown("the line contains only its hash".into());
    match noted {
        None => Fact::Unknown("the line does not contain it".into()),
        Some(Json::Null) => Fact::Absent,
        Some(Json::Array(values)) => values
            .iter()
            .map(one)
            .collect::<Option<_>>()
            .map_or_else(lost, Fact::Many),
        Some(Json::Object(members)) => match members.get("unknown").and_then(Json::as_str) {
            Some(why) => Fact::Unknown(why.to_owned().into()),
            None => lost(),
        },
        Some(value) => one(value).map_or_else(lost, Fact::Known),
    }
}

fn tell(
    rules: &Rulebook,
    program: &Program,
    found: &Found,
    around: &Around<'_>,
    output: &Output,
) -> Result<Exit> {
    let views: Vec<RuleView> = program
        .guards
        .iter()
        .map(|guard| rule_view(rules, program, guard, found, around))
        .collect();
    if output.is_json() {
        output.json(&ExplainedView {
            line: found.line,
            action: found.action.clone(),
            facts: facts::views(program.readings.iter().zip(&found.facts)),
            rules: views,
        })?;
        return Ok(Exit::Success);
    }
    let place = found
        .line
        .map_or_else(|| "now".to_owned(), |line| format!("line {line}"));
    output.line(&format!("{place}: {}", plain(&found.action)))?;
    if views.is_empty() {
        output.line("no rule is for this action")?;
    }
    for view in &views {
        print(view, output)?;
    }
    Ok(Exit::Success)
}

fn rule_view(
    rules: &Rulebook,
    program: &Program,
    guard: &Guard,
    found: &Found,
    around: &Around<'_>,
) -> RuleView {
    let written = rules
        .ruleset
        .rules
        .get(&guard.id)
        .map(|rule| rule.file.when.as_slice())
        .unwrap_or_default();
    let scope = guard.conditions.len().saturating_sub(written.len());
    let mut conditions = Vec::new();
    let mut change = Vec::new();
    let acts = guard.truth(&found.facts, around) != Truth::False;
    for (at, condition) in guard.conditions.iter().enumerate() {
        let (Some(reading), Some(fact)) = (
            program.readings.get(condition.slot),
            found.facts.get(condition.slot),
        ) else {
            continue;
        };
        let truth = condition.test.of(fact, around);
        let text = at
            .checked_sub(scope)
            .and_then(|at| written.get(at))
            .map(ToString::to_string);
        conditions.push(ConditionView {
            condition: text.unwrap_or_else(|| format!("applies to this {}", name_of(reading))),
            value: facts::view(reading, fact),
            holds: match truth {
                Truth::True => "yes",
                Truth::False => "no",
                Truth::Unknown => "unknown",
            },
            shown: format!("{} is {}", name_of(reading), show(reading, fact)),
        });
        if acts {
            change.extend(change::to_stop(reading, &condition.test, fact));
        }
    }
    RuleView {
        rule: guard.id.to_string(),
        status: guard.status,
        then: guard.then,
        acts,
        conditions,
        change,
    }
}

fn print(view: &RuleView, output: &Output) -> Result<()> {
    let then = match view.then {
        Then::Warn => "warn",
        Then::Hold => "hold",
        Then::Reject => "reject",
    };
    let does = match (view.acts, view.status) {
        (true, RuleStatus::Active) => format!("acts: {then}"),
        (true, _) => format!("would act, in shadow: {then}"),
        (false, _) => "does not act".to_owned(),
    };
    output.heading(&format!("{}: {does}", view.rule))?;
    let rows: Vec<Vec<String>> = view
        .conditions
        .iter()
        .map(|each| {
            vec![
                each.holds.to_owned(),
                each.condition.clone(),
                each.shown.clone(),
            ]
        })
        .collect();
    if !rows.is_empty() {
        output.table(&["holds", "condition", "fact"], &[], &rows)?;
    }
    if view.acts {
        match view.change.is_empty() {
            true => output.line("it acts on every such request")?,
            false => output.line(&plain(&format!(
                "it would not act with {}",
                view.change.join("; or ")
            )))?,
        }
    }
    Ok(())
}
