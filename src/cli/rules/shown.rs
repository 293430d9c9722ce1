//! The parts of a witness that commands show, and the request that it is.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::Value as Json;
use spoolgate_rules::Rulebook;
use spoolgate_rules::golden::{name_of, show};
use spoolgate_rules::proof::Witness;
use spoolgate_rules::rule::RuleSet;

use super::facts;
use super::witness::{self, Made, Prices, Verdict};
use crate::cli::look;
use crate::cli::output::Output;

/// A witness as JSON output.
#[derive(Serialize)]
pub(super) struct WitnessView {
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

/// Returns the last prices of the home, if it is one. A witness near them is a realistic request.
pub(super) fn prices(home: &Path) -> Prices {
    let Ok((view, _)) = look::view(home) else {
        return Prices::new();
    };
    let markets = view.state.book.markets.iter();
    markets
        .filter_map(|(symbol, market)| Some((symbol.clone(), market.last.as_ref()?.price)))
        .collect()
}

pub(super) fn view(
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

pub(super) fn print_witness(
    how: &str,
    witness: &Witness,
    view: &WitnessView,
    output: &Output,
) -> Result<()> {
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
        None if view.feasible => {
            output.line("no request was made of these facts: to try it, write one that has them")
        }
        None => output.line("no request can have these facts"),
    }
}

pub(super) fn write_witness(
    path: &Path,
    witness: Option<&WitnessView>,
    output: &Output,
) -> Result<()> {
    match witness.and_then(|witness| witness.request.as_ref()) {
        Some(request) => std::fs::write(path, format!("{request}\n"))
            .with_context(|| format!("file `{}`", path.display())),
        None => {
            output.remark("no witness can be written as a request; no file was written");
            Ok(())
        }
    }
}
