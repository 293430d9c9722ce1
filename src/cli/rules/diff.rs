//! `spoolgate rules diff`: compares two rulebooks, and shows a request that proves the difference.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde_json::Value as Json;
use spoolgate_host::rule_folder::CASES;
use spoolgate_rules::Rulebook;
use spoolgate_rules::golden::{name_of, show};
use spoolgate_rules::lint::{is_rule, is_set};
use spoolgate_rules::proof::{self, Direction, STEPS_MAX, Witness};
use spoolgate_rules::rule::RuleSet;
use spoolgate_wire::code::Exit;

use super::facts;
use super::folder::Folder;
use super::witness::{self, Made, Prices, Verdict};
use crate::cli::look;
use crate::cli::output::Output;

/// Compare two rulebooks: is the new one tighter, looser, or neither?
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  spoolgate rules diff main-checkout my-checkout\n  spoolgate rules \
        diff main-checkout . --witness w.json; spoolgate handle --dry-run w.json\n  spoolgate \
        --format json rules diff old new | jq -r .direction\n\nFor every direction that is not \
        excluded, a witness is shown: facts that the two treat differently, run through \
        both.\n--witness writes one as a request for `handle --dry-run --rules OLD` and `--rules \
        NEW`: the one that the new rulebook treats\nmore leniently or, if there is none, the other. \
        Exit codes: 0 the same or tighter, 1 looser, neither, or not\nproved, 2 a fault of the \
        rule files."
)]
pub(crate) struct Args {
    /// The old rules: a home, or a folder that is its `rules`.
    old: PathBuf,
    /// The new rules, in the same form.
    new: PathBuf,
    /// Where to write the witness, as an unsigned request.
    #[arg(long, value_name = "FILE")]
    witness: Option<PathBuf>,
}

/// The comparison as JSON output.
#[derive(Serialize)]
struct DiffView {
    direction: &'static str,
    loosens: Option<WitnessView>,
    tightens: Option<WitnessView>,
    changed_rules: Vec<ChangedView>,
    changed_sets: Vec<ChangedView>,
    not_compared: Vec<String>,
    steps: u64,
}

/// What happened to a file.
#[derive(Serialize)]
struct ChangedView {
    name: String,
    change: &'static str,
}

/// A witness as JSON output.
#[derive(Serialize)]
struct WitnessView {
    action: String,
    facts: Json,
    approved: Vec<(String, String)>,
    at: String,
    old: VerdictView,
    new: VerdictView,
    feasible: bool,
    request: Option<Json>,
    outside_request: Vec<String>,
}

/// What a rulebook does to a witness.
#[derive(Serialize)]
struct VerdictView {
    verdict: &'static str,
    rules: Vec<String>,
}

fn word(direction: Direction) -> &'static str {
    match direction {
        Direction::Same => "same",
        Direction::Tightening => "tightening",
        Direction::Loosening => "loosening",
        Direction::Incomparable => "incomparable",
        Direction::Unproved => "not proved",
    }
}

/// Runs the command.
pub(super) fn run(home: &Path, args: &Args, output: &Output) -> Result<Exit> {
    let (old, new) = (
        Folder::read(home, Some(&args.old))?,
        Folder::read(home, Some(&args.new))?,
    );
    let (before, after) = (old.sound_rules()?.rules, new.sound_rules()?.rules);
    let compared = proof::compare(&before, &after, STEPS_MAX);
    let rulebook = match new.rulebook() {
        Some(Ok(rulebook)) => rulebook,
        Some(Err(fault)) => bail!(new.shown(fault)),
        None => facts::shipped()?,
    };
    let prices = prices(home);
    let plainer = |found: Option<Witness>| {
        found.map(|witness| witness::plainer(&rulebook, &before, &after, &witness))
    };
    let (loosens, tightens) = (plainer(compared.loosens), plainer(compared.tightens));
    let view_of = |witness: &Option<Witness>| {
        witness
            .as_ref()
            .map(|witness| view(&rulebook, &prices, &before, &after, witness))
    };
    let view = DiffView {
        direction: word(compared.direction),
        loosens: view_of(&loosens),
        tightens: view_of(&tightens),
        changed_rules: changed(&old, &new, is_rule),
        changed_sets: changed(&old, &new, is_set),
        not_compared: not_compared(&old, &new),
        steps: compared.steps,
    };
    match output.is_json() {
        true => output.json(&view)?,
        false => print(&view, &loosens, &tightens, output)?,
    }
    if let Some(path) = &args.witness {
        write_witness(
            path,
            view.loosens.as_ref().or(view.tightens.as_ref()),
            output,
        )?;
    }
    let is_proved = matches!(compared.direction, Direction::Same | Direction::Tightening);
    Ok(if is_proved {
        Exit::Success
    } else {
        Exit::Refused
    })
}

/// Returns the paths of files that differ, or exist on one side only.
fn differing<'a>(old: &'a Folder, new: &'a Folder) -> impl Iterator<Item = &'a String> {
    let all: BTreeSet<&String> = old.texts.keys().chain(new.texts.keys()).collect();
    all.into_iter()
        .filter(|path| old.texts.get(*path) != new.texts.get(*path))
}

fn changed(old: &Folder, new: &Folder, is_wanted: fn(&str) -> bool) -> Vec<ChangedView> {
    let wanted = differing(old, new).filter(|path| is_wanted(path));
    let views = wanted.map(|path| ChangedView {
        name: path
            .rsplit('/')
            .next()
            .unwrap_or(path)
            .trim_end_matches(".yaml")
            .to_owned(),
        change: match (old.texts.contains_key(path), new.texts.contains_key(path)) {
            (true, true) => "changed",
            (true, false) => "removed",
            _ => "added",
        },
    });
    views.collect()
}

/// Returns the differing files that are neither rules, sets nor cases; the comparison ignores them.
fn not_compared(old: &Folder, new: &Folder) -> Vec<String> {
    let others = differing(old, new).filter(|path| !is_rule(path) && !is_set(path));
    others
        .filter(|path| !path.starts_with(&format!("{CASES}/")))
        .cloned()
        .collect()
}

/// Returns the last prices of the home, if it is one. A witness near them is a realistic request.
fn prices(home: &Path) -> Prices {
    let Ok((view, _)) = look::view(home) else {
        return Prices::new();
    };
    let markets = view.state.book.markets.iter();
    markets
        .filter_map(|(symbol, market)| Some((symbol.clone(), market.last.as_ref()?.price)))
        .collect()
}

fn view(
    rulebook: &Rulebook,
    prices: &Prices,
    before: &RuleSet,
    after: &RuleSet,
    witness: &Witness,
) -> WitnessView {
    let verdict = |rules: &RuleSet| {
        let verdict = Verdict::of(rules, witness);
        VerdictView {
            verdict: verdict.word(),
            rules: verdict.rules,
        }
    };
    let Made { request, outside } = witness::request(rulebook, prices, witness);
    WitnessView {
        action: witness.action.clone(),
        facts: facts::views(witness.facts.iter().map(|(reading, fact)| (reading, fact))),
        approved: witness
            .approved
            .iter()
            .map(|(set, value)| (set.to_string(), value.clone()))
            .collect(),
        at: witness.now.to_string(),
        old: verdict(before),
        new: verdict(after),
        feasible: witness.feasible,
        request,
        outside_request: outside,
    }
}

fn print(
    view: &DiffView,
    loosens: &Option<Witness>,
    tightens: &Option<Witness>,
    output: &Output,
) -> Result<()> {
    output.line(view.direction)?;
    let changed = view
        .changed_rules
        .iter()
        .map(|it| ("rule", it))
        .chain(view.changed_sets.iter().map(|it| ("set", it)));
    let rows: Vec<Vec<String>> = changed
        .map(|(what, it)| vec![what.to_owned(), it.name.clone(), it.change.to_owned()])
        .collect();
    if !rows.is_empty() {
        output.line("")?;
        output.table(&["what", "name", "change"], &[], &rows)?;
    }
    let told = [
        ("looser", loosens, &view.loosens),
        ("tighter", tightens, &view.tightens),
    ];
    for (how, witness, view) in told {
        if let (Some(witness), Some(view)) = (witness, view) {
            print_witness(how, witness, view, output)?;
        }
    }
    if view.direction == "not proved" {
        output.line(&format!(
            "\nnothing is proved after {} steps: a person has to decide",
            view.steps
        ))?;
    }
    for path in &view.not_compared {
        output.line(&format!("not compared: {path} differs"))?;
    }
    Ok(())
}

fn print_witness(how: &str, witness: &Witness, view: &WitnessView, output: &Output) -> Result<()> {
    output.heading(&format!("{how}: for example {} with", view.action))?;
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (reading, fact) in &witness.facts {
        let outside = view.outside_request.contains(&name_of(reading)) && view.request.is_some();
        let note = if outside { "not part of a request" } else { "" };
        rows.push(vec![name_of(reading), show(reading, fact), note.to_owned()]);
    }
    for (set, value) in &view.approved {
        rows.push(vec![
            format!("set {set}"),
            format!("somebody approved \"{value}\""),
            String::new(),
        ]);
    }
    rows.push(vec!["at".to_owned(), view.at.clone(), String::new()]);
    output.table(&["fact", "value", ""], &[], &rows)?;
    let told = |verdict: &VerdictView| match verdict.rules.is_empty() {
        true => verdict.verdict.to_owned(),
        false => format!("{} by {}", verdict.verdict, verdict.rules.join(", ")),
    };
    output.line(&format!(
        "old: {}\nnew: {}",
        told(&view.old),
        told(&view.new)
    ))?;
    if !view.feasible {
        output.line(
            "perhaps no request has all these facts: the proof assumes that they are independent",
        )?;
    }
    match &view.request {
        Some(request) => output.line(&format!("request: {request}")),
        None => output.line("no request can have these facts"),
    }
}

fn write_witness(path: &Path, witness: Option<&WitnessView>, output: &Output) -> Result<()> {
    match witness.and_then(|witness| witness.request.as_ref()) {
        Some(request) => std::fs::write(path, format!("{request}\n"))
            .with_context(|| format!("file `{}`", path.display())),
        None => {
            output.remark("no witness can be written as a request; no file was written");
            Ok(())
        }
    }
}
