//! `spoolgate theses`: shows theses and their status, and finds everything that is wrong with their
//! files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::Serialize;
use spoolgate_host::clock::{Clock, SystemClock};
use spoolgate_host::rule_folder::{self, ThesisFile};
use spoolgate_rules::theses::Thesis;
use spoolgate_rules::theses::lint::{self, Fault, Linted};
use spoolgate_rules::{Rulebook, RulebookError};
use spoolgate_trading::Book;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::code::Exit;
use spoolgate_wire::ids::ThesisSlug;
use spoolgate_wire::time::Time;

use super::look;
use super::output::{Output, plain};

/// The commands.
#[derive(clap::Subcommand)]
pub(super) enum Command {
    /// Show all theses and their status.
    #[command(
        after_help = "Examples:\n  spoolgate theses list\n  spoolgate --format json theses list | \
            jq -r 'select(.status==\"stands\").slug'"
    )]
    List,
    /// Find everything that is wrong with thesis files; exit with 1 if there is a fault.
    #[command(
        after_help = "Examples:\n  spoolgate theses lint\n  spoolgate theses lint \
            proposals/theses/btc-dip-long.md\n  spoolgate --format json theses lint | jq -r \
            .message"
    )]
    Lint(LintArgs),
}

/// Checks thesis files; needs rule files but no ledger.
#[derive(clap::Args)]
pub(super) struct LintArgs {
    /// Files, or folders of them; default: the home's proposals/theses.
    paths: Vec<PathBuf>,
    /// As of this time, RFC 3339 UTC; default: now.
    #[arg(long, value_name = "TIME")]
    at: Option<String>,
}

/// A fault as JSON output.
#[derive(Serialize)]
struct FaultView<'a> {
    file: &'a str,
    line: Option<usize>,
    message: &'a str,
}

/// A thesis as JSON output.
#[derive(Serialize)]
struct ThesisView<'a> {
    slug: &'a ThesisSlug,
    strategy: &'a str,
    symbol: &'a str,
    direction: &'static str,
    since: Option<Time>,
    expires: Time,
    invalid_below: Option<Amount>,
    invalid_above: Option<Amount>,
    /// `stands`, `open`, `expired` or `refuted`.
    status: &'static str,
    refuted_at: Option<Time>,
    refuted_by: Option<Amount>,
}

/// Runs a command.
pub(super) fn run(home: &Path, command: &Command, output: &Output) -> Result<Exit> {
    match command {
        Command::List => list(home, output),
        Command::Lint(args) => lint_files(home, args, output),
    }
}

fn view_of<'a>(book: &'a Book, thesis: &'a Thesis, now: Time) -> ThesisView<'a> {
    let slug = &thesis.slug;
    let refuted = book.refuted.get(slug);
    let is_open = book
        .orders
        .values()
        .any(|order| order.thesis_slug.as_ref() == Some(slug))
        || book
            .positions
            .values()
            .any(|position| position.theses.contains(slug));
    let status = match refuted {
        Some(_) => "refuted",
        None if now >= thesis.expires => "expired",
        None if is_open => "open",
        None => "stands",
    };
    ThesisView {
        slug,
        strategy: thesis.strategy.as_str(),
        symbol: thesis.symbol.as_str(),
        direction: thesis.direction.as_str(),
        since: thesis.since,
        expires: thesis.expires,
        invalid_below: thesis.invalid_below.map(|bound| bound.get()),
        invalid_above: thesis.invalid_above.map(|bound| bound.get()),
        status,
        refuted_at: refuted.map(|refuted| refuted.at),
        refuted_by: refuted.map(|refuted| refuted.price),
    }
}

fn list(home: &Path, output: &Output) -> Result<Exit> {
    let (view, now) = look::view(home)?;
    let theses = view
        .rulebook
        .theses
        .values()
        .map(|thesis| view_of(&view.state.book, thesis, now));
    if output.is_json() {
        theses
            .into_iter()
            .try_for_each(|thesis| output.json(&thesis))?;
        return Ok(Exit::Success);
    }
    let or_dash = |level: Option<Amount>| {
        level.map_or_else(|| "-".to_owned(), |it| it.normalized().to_string())
    };
    let rows: Vec<Vec<String>> = theses
        .map(|thesis| {
            let status = match (thesis.refuted_at, thesis.refuted_by) {
                (Some(at), Some(price)) => format!("refuted at {at} by {}", price.normalized()),
                _ => thesis.status.to_owned(),
            };
            vec![
                thesis.slug.to_string(),
                thesis.strategy.to_owned(),
                thesis.symbol.to_owned(),
                thesis.direction.to_owned(),
                thesis.expires.to_string(),
                or_dash(thesis.invalid_below),
                or_dash(thesis.invalid_above),
                status,
            ]
        })
        .collect();
    if rows.is_empty() {
        output.line("no theses")?;
        return Ok(Exit::Success);
    }
    let header = [
        "thesis",
        "strategy",
        "symbol",
        "direction",
        "expires",
        "below",
        "above",
        "status",
    ];
    output.table(&header, &["below", "above"], &rows)?;
    Ok(Exit::Success)
}

/// The faults of the files, in their order.
struct Report {
    faults: Vec<(String, Fault)>,
    files: usize,
}

fn lint_files(home: &Path, args: &LintArgs, output: &Output) -> Result<Exit> {
    let now = match &args.at {
        Some(text) => Time::parse(text)?,
        None => SystemClock::default().now(),
    };
    let report = report(home, &args.paths, now)?;
    for (file, fault) in &report.faults {
        let Fault { line, message } = fault;
        if output.is_json() {
            output.json(&FaultView {
                file,
                line: *line,
                message,
            })?;
        } else {
            let error = RulebookError {
                file: file.clone(),
                line: *line,
                message: message.clone(),
            };
            output.line(&plain(&error.to_string()))?;
        }
    }
    let (files, faults) = (report.files, report.faults.len());
    output.remark(&format!("{files} theses, {faults} faults"));
    Ok(if faults == 0 {
        Exit::Success
    } else {
        Exit::Refused
    })
}

fn report(home: &Path, paths: &[PathBuf], now: Time) -> Result<Report> {
    let mut faults = Vec::new();
    let rules = match rule_folder::load_without_theses(home)
        .and_then(|bundle| Rulebook::compile(&bundle))
    {
        Ok(rules) => Some(rules),
        Err(RulebookError {
            file,
            line,
            message,
        }) => {
            let message =
                format!("{message}; no thesis is compared with the rules until they load");
            faults.push((file, Fault { line, message }));
            None
        }
    };
    let own = home.join(rule_folder::THESES);
    let own_files = if own.exists() {
        rule_folder::thesis_files(&own)?
    } else {
        Vec::new()
    };
    let linted = |file: &ThesisFile| {
        let text = file.text.as_ref().ok()?;
        let stem = file
            .path
            .file_stem()
            .map(|stem| stem.to_string_lossy().into_owned())
            .unwrap_or_default();
        Some(lint::lint(&file.shown, &stem, text, rules.as_ref(), now))
    };
    // Collect the files of each slug, from the home and the command line, each file once.
    let mut by_slug: BTreeMap<ThesisSlug, BTreeMap<PathBuf, String>> = BTreeMap::new();
    let mut owns = |file: &ThesisFile, linted: &Linted| {
        if let Some((slug, _)) = &linted.slug {
            let place = file
                .path
                .canonicalize()
                .unwrap_or_else(|_| file.path.clone());
            by_slug
                .entry(slug.clone())
                .or_default()
                .insert(place, file.shown.clone());
        }
    };
    let named: Vec<ThesisFile> = if paths.is_empty() {
        own_files
    } else {
        own_files
            .iter()
            .for_each(|file| linted(file).iter().for_each(|linted| owns(file, linted)));
        let mut named = Vec::new();
        for path in paths {
            named.extend(rule_folder::thesis_files(path)?);
        }
        named
    };
    let all: Vec<(&ThesisFile, Option<Linted>)> =
        named.iter().map(|file| (file, linted(file))).collect();
    all.iter()
        .for_each(|(file, linted)| linted.iter().for_each(|linted| owns(file, linted)));
    for (file, linted) in &all {
        let shown = || file.shown.clone();
        if let Err(error) = &file.text {
            faults.push((
                shown(),
                Fault {
                    line: error.line,
                    message: error.message.clone(),
                },
            ));
        }
        let Some(linted) = linted else { continue };
        faults.extend(linted.faults.iter().map(|fault| (shown(), fault.clone())));
        if let Some((slug, line)) = &linted.slug {
            let place = file
                .path
                .canonicalize()
                .unwrap_or_else(|_| file.path.clone());
            let others = by_slug
                .get(slug)
                .into_iter()
                .flatten()
                .filter(|(other, _)| **other != place);
            faults.extend(others.map(|(_, other)| (shown(), lint::same_slug(slug, *line, other))));
        }
    }
    Ok(Report {
        faults,
        files: named.len(),
    })
}
