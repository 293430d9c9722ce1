//! Flags that select lines, shared by `query`, `export` and `tail`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser as _;
use spoolgate_home::read::real_seams;
use spoolgate_replay::query::{Books, Filter, Outcome};
use spoolgate_wire::code::Code;
use spoolgate_wire::ids::OrderId;
use spoolgate_wire::time::Time;

use super::receipts::open_audit;
use crate::cli::output::Output;

/// Kinds of lines.
const KINDS: [&str; 25] = [
    "genesis",
    "start",
    "stop",
    "rulebook",
    "tick",
    "halt",
    "clock_step",
    "dead_man",
    "quota",
    "storage",
    "pull",
    "not_told",
    "rotate",
    "admin",
    "proposal",
    "market",
    "input",
    "council",
    "decision",
    "request",
    "response",
    "redact",
    "published",
    "segment",
    "seal",
];

/// Where to read.
#[derive(clap::Args)]
pub(super) struct Place {
    /// The audit folder; default: the home's.
    dir: Option<PathBuf>,
    /// Read only the ledger, without the index in state/state.db.
    #[arg(long)]
    no_index: bool,
}

impl Place {
    /// Opens the ledger.
    pub(super) fn books(&self, home: &Path) -> Result<Books> {
        let books = match &self.dir {
            Some(dir) => {
                let disk = open_audit(dir)?;
                Books::of_folder(Arc::new(disk), Path::new(""))
            }
            None => Books::of_home(home, &real_seams(home)?)?,
        };
        Ok(if self.no_index {
            books.without_index()
        } else {
            books
        })
    }

    /// Returns the folder to read.
    pub(super) fn folder(&self, home: &Path) -> PathBuf {
        self.dir
            .clone()
            .unwrap_or_else(|| home.join(spoolgate_ledger::segment::AUDIT_DIR))
    }
}

/// Prints a remark about lines that cannot be searched: pruned ones, and a cut-off end.
pub(super) fn tell_missing(books: &Books, output: &Output) -> Result<()> {
    // If the end cannot be read at all, the search reports it when it gets there.
    if let Ok(Some((known, here))) = books.cut() {
        output.remark(&format!(
            "`checkpoint` covers {known} lines, but only {here} exist: the end was cut off and \
                cannot be searched; run `spoolgate audit verify`"
        ));
    }
    let pruned = books.pruned()?;
    if let (Some(first), Some(last)) = (pruned.first(), pruned.last()) {
        output.remark(&format!(
            "the contents of {} segments from `{first}` to `{last}` were pruned: their lines \
                cannot be searched",
            pruned.len()
        ));
    }
    Ok(())
}

fn code(text: &str) -> Result<Code> {
    let name = text.to_ascii_uppercase();
    let found = Code::ALL.iter().copied().find(|code| code.name() == name);
    found.context("not a code of answers; docs/contracts.md lists them")
}

/// Conditions of several kinds must all hold. A flag given twice means either value.
#[derive(clap::Args)]
#[command(next_help_heading = "Which lines")]
pub(super) struct Filters {
    /// Of the request with this id, from any sender.
    #[arg(long, value_name = "ID")]
    request: Vec<String>,
    /// Recorded at this time or later (RFC 3339, UTC, with `Z`).
    #[arg(long, value_name = "TIME", value_parser = Time::parse)]
    from: Option<Time>,
    /// Recorded before this time.
    #[arg(long, value_name = "TIME", value_parser = Time::parse)]
    to: Option<Time>,
    /// Of requests for this action: `order.submit`, or `order.*`.
    #[arg(long, value_name = "ACTION")]
    action: Vec<String>,
    /// Of requests that this principal signed, or that name it as their source.
    #[arg(long, value_name = "NAME")]
    principal: Vec<String>,
    /// With this outcome, as answers and lines name it; `rejected` means every refusal.
    #[arg(long, value_name = "WORD", ignore_case = true,
        value_parser = PossibleValuesParser::new(Outcome::ALL.map(Outcome::as_str))
            .map(|word| outcome(&word)))]
    verdict: Vec<Outcome>,
    /// With this code, such as RULE_VIOLATION.
    #[arg(long, value_name = "CODE", value_parser = code)]
    code: Vec<Code>,
    /// With this check in the check vector.
    #[arg(long, value_name = "NAME")]
    check: Vec<String>,
    /// With this check in the check vector, failed.
    #[arg(long, value_name = "NAME")]
    check_failed: Vec<String>,
    /// About this symbol.
    #[arg(long, value_name = "SYMBOL")]
    symbol: Vec<String>,
    /// About an order of this strategy.
    #[arg(long, value_name = "NAME")]
    strategy: Vec<String>,
    /// About this order, or changing it, such as filling it.
    #[arg(long, value_name = "ORDER", value_parser = OrderId::parse)]
    order: Vec<OrderId>,
    /// Of this kind.
    #[arg(long, value_name = "KIND", value_parser = PossibleValuesParser::new(KINDS))]
    kind: Vec<String>,
    /// Also seals and other lines that the ledger writes about itself.
    #[arg(long)]
    all: bool,
}

/// Parses an outcome; clap passes only valid words.
fn outcome(word: &str) -> Outcome {
    let found = Outcome::ALL
        .into_iter()
        .find(|outcome| outcome.as_str().eq_ignore_ascii_case(word));
    found.unwrap_or(Outcome::Success)
}

impl Filters {
    /// Builds the filter from the flags.
    pub(super) fn filter(&self) -> Filter {
        Filter {
            request_ids: self.request.clone(),
            from: self.from,
            to: self.to,
            actions: self.action.clone(),
            sources: self.principal.clone(),
            outcomes: self.verdict.clone(),
            codes: self.code.clone(),
            checks: self.check.clone(),
            failed_checks: self.check_failed.clone(),
            symbols: self.symbol.clone(),
            strategies: self.strategy.clone(),
            orders: self.order.clone(),
            kinds: self.kind.clone(),
            own_kinds: self.all,
            ..Filter::default()
        }
    }
}
