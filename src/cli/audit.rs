//! `spoolgate audit`: verifying and reading the ledger. Needs nothing but the audit folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use spoolgate::gate::record::{AskedFor, Event};
use spoolgate::gate::{Change, Record};
use spoolgate::home::HomeError;
use spoolgate::home::open::read_genesis;
use spoolgate::home::read::real_seams;
use spoolgate::host::disk::{Access, Disk};
use spoolgate::host::real_disk::RealDisk;
use spoolgate::ledger::scan::{LineReader, NextLine};
use spoolgate::ledger::verify::{self, Options, Reached, Report};
use spoolgate::ledger::{line, recover, segment};
use spoolgate::wire::code::Exit;

use super::output::Output;

/// The commands.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Verify the whole ledger.
    #[command(
        after_help = "Examples:\n  spoolgate audit verify\n  spoolgate audit verify /evidence/audit --strict --key 'example.org/log+1a2b3c4d+AZ...'\n  spoolgate audit verify --head yesterday.checkpoint\n\nExit code 5 if anything does not verify."
    )]
    Verify(VerifyArgs),
    /// Show the last lines.
    #[command(
        after_help = "Examples:\n  spoolgate audit tail\n  spoolgate --format json audit tail -n 100 | jq 'select(.kind==\"decision\")'"
    )]
    Tail(TailArgs),
    /// Show one line, or the lines of a request.
    #[command(after_help = "Examples:\n  spoolgate audit show 42\n  spoolgate audit show my-request-id")]
    Show(ShowArgs),
}

/// Verify.
#[derive(clap::Args)]
pub struct VerifyArgs {
    /// The audit folder; absent: that of the home.
    dir: Option<PathBuf>,
    /// Parse every line, write it again and demand the same bytes.
    #[arg(long)]
    strict: bool,
    /// A checkpoint noted earlier; must lie on this log.
    #[arg(long, value_name = "FILE")]
    head: Vec<PathBuf>,
    /// The log's verifier key noted earlier; the log must have it.
    #[arg(long, value_name = "VKEY")]
    key: Option<String>,
    /// How many threads look at lines; absent: one a core, at most 8. The outcome is the same with any number.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    threads: Option<u16>,
}

/// Show the last lines.
#[derive(clap::Args)]
pub struct TailArgs {
    /// How many.
    #[arg(short = 'n', long, default_value_t = 20)]
    lines: usize,
    /// Also seals and other lines that decide nothing.
    #[arg(long)]
    all: bool,
}

/// Show one line.
#[derive(clap::Args)]
pub struct ShowArgs {
    /// Number of the line (an answer's auditRef), or id of a request.
    what: String,
}

/// Runs a command.
pub fn run(home: &Path, command: &Command, output: &Output) -> Result<Exit> {
    match command {
        Command::Verify(args) => verify(home, args, output),
        Command::Tail(args) => tail(home, args, output),
        Command::Show(args) => show(home, args, output),
    }
}

/// Most threads that verifying takes unasked.
const THREADS_DEFAULT_MAX: usize = 8;

/// How often a ledger that does not verify is looked at again.
const LIVE_TRIES: usize = 2;

/// Verifies a ledger and prints what was found.
fn verify(home: &Path, args: &VerifyArgs, output: &Output) -> Result<Exit> {
    let dir = args.dir.clone().unwrap_or_else(|| home.join(segment::AUDIT_DIR));
    let mut options = Options {
        strict: args.strict,
        key: args.key.as_deref().map(str::parse).transpose().context("--key")?,
        heads: Vec::new(),
        threads: match args.threads {
            Some(threads) => usize::from(threads),
            None => std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_DEFAULT_MAX),
        },
    };
    for head in &args.head {
        let text = fs::read_to_string(head).with_context(|| format!("head `{}`", head.display()))?;
        options.heads.push((head.display().to_string(), text));
    }
    let mut report = verify_folder(&dir, &options, true)?;
    // Beside a running gate the last batch may be met half-written; damage stays.
    for _ in 0..LIVE_TRIES {
        if report.ok {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
        report = verify_folder(&dir, &options, true)?;
    }
    print_report(&report, output)?;
    Ok(if report.ok { Exit::Success } else { Exit::LedgerCorrupt })
}

/// Verifies the ledger in a folder.
pub fn verify_folder(dir: &Path, options: &Options, progress: bool) -> Result<Report> {
    let disk = RealDisk::open(dir).with_context(|| {
        format!("audit folder `{}`; name a home with --home, or its audit folder", dir.display())
    })?;
    let total: u64 = fs::read_dir(dir)?
        .filter_map(|entry| entry.ok()?.metadata().ok())
        .filter(fs::Metadata::is_file)
        .map(|meta| meta.len())
        .sum();
    // Drawn on a terminal only, and not for what takes no time.
    let bar =
        if progress && total > 32 * 1024 * 1024 { ProgressBar::new(total) } else { ProgressBar::hidden() };
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {percent}% {bytes_per_sec}") {
        bar.set_style(style);
    }
    let report = verify::verify(&disk, Path::new(""), options, &|done| bar.set_position(done));
    bar.finish_and_clear();
    report.map_err(|error| anyhow::anyhow!(HomeError::Record(error)))
}

/// Prints a report.
pub fn print_report(report: &Report, output: &Output) -> Result<()> {
    if output.is_json() {
        return output.json(report);
    }
    let reached = match report.reached {
        Reached::Chain => "chain: every line names the one before it",
        Reached::Seals => {
            "chain and seals: a cut tail would show only with --head, a checkpoint noted elsewhere"
        }
        Reached::RememberedHead => "chain, seals, and a head noted elsewhere",
    };
    let mut rows = vec![
        vec!["log".to_owned(), report.origin.clone()],
        vec!["log key".to_owned(), report.log_key.clone()],
        vec![
            "lines".to_owned(),
            format!("{} in {} sealed batches, {} segments", report.lines, report.batches, report.segments),
        ],
        vec!["root".to_owned(), report.root.clone()],
        vec!["head".to_owned(), report.head.clone()],
        vec!["verified".to_owned(), if report.ok { reached.to_owned() } else { "NO".to_owned() }],
    ];
    rows.extend(report.heads.iter().map(|head| vec!["noted head".to_owned(), head.clone()]));
    let checkpoint = report.checkpoint.clone().unwrap_or_else(|| "none that lies on the log".to_owned());
    rows.push(vec!["checkpoint".to_owned(), checkpoint]);
    if report.torn > 0 {
        rows.push(vec![
            "torn".to_owned(),
            format!("{} unanswered batches, frozen and accounted for", report.torn),
        ]);
    }
    output.table(&["ledger", ""], &[], &rows)?;
    for problem in &report.problems {
        // An auditor's terminal must not obey the ledger it looks at.
        let told = format!("PROBLEM  {} at byte {}: {}", problem.file, problem.offset, problem.what);
        output.line(&super::output::plain(&told))?;
    }
    Ok(())
}

/// A line as it is shown.
struct Shown {
    seq: u64,
    kind: String,
    text: String,
    record: Option<Record>,
}

/// The segments of a home's ledger.
fn segments_of(home: &Path) -> Result<(Arc<dyn Disk>, Vec<u32>)> {
    let disk = real_seams(home)?.disk;
    // Says whether there is a ledger at all.
    read_genesis(home, disk.as_ref())?;
    let numbers =
        recover::segments(disk.as_ref(), Path::new(segment::AUDIT_DIR)).map_err(HomeError::Ledger)?;
    Ok((disk, numbers))
}

/// Hands the lines of the segments from `first` on to `visit`, as they stand, sealed or not.
fn each_line(home: &Path, first: u32, visit: &mut dyn FnMut(Shown)) -> Result<()> {
    let (disk, numbers) = segments_of(home)?;
    for number in numbers.into_iter().filter(|number| *number >= first) {
        let file = disk.open_log(&segment::path(number), Access::Read)?;
        let mut reader = LineReader::new(file.as_ref(), 0);
        while let NextLine::Line(_, bytes) = reader.next_line()? {
            let line = line::parse(&bytes).map_err(|error| {
                HomeError::Record(format!(
                    "`{}`: {error}; run `spoolgate audit verify`",
                    segment::file_name(number)
                ))
            })?;
            let record = Record::parse(line.kind, &line.body()).ok().flatten();
            let text = String::from_utf8_lossy(&bytes).into_owned();
            visit(Shown { seq: line.seq, kind: line.kind.to_owned(), text, record });
        }
    }
    Ok(())
}

/// Lines that a request of this id, or of this number, is in: read from the first line on.
pub(super) fn records(home: &Path, id: &str) -> Result<Vec<(u64, Record)>> {
    let seq: Option<u64> = id.parse().ok();
    let mut found = Vec::new();
    each_line(home, 1, &mut |shown| {
        let by_request = matches!(&shown.record, Some(Record::Decision(decision))
            if decision.request_id.as_deref() == Some(id));
        if by_request || seq == Some(shown.seq) {
            found.extend(shown.record.map(|record| (shown.seq, record)));
        }
    })?;
    Ok(found)
}

fn tail(home: &Path, args: &TailArgs, output: &Output) -> Result<Exit> {
    let (_, numbers) = segments_of(home)?;
    let mut last: std::collections::VecDeque<Shown> = std::collections::VecDeque::new();
    // From the newest segment backwards until there are enough.
    for number in numbers.into_iter().rev() {
        last.clear();
        each_line(home, number, &mut |shown| {
            let decides = !matches!(shown.kind.as_str(), "seal" | "segment" | "published");
            if args.all || decides {
                last.push_back(shown);
            }
            if last.len() > args.lines {
                last.pop_front();
            }
        })?;
        if last.len() >= args.lines {
            break;
        }
    }
    if output.is_json() {
        last.iter().try_for_each(|shown| output.line(&shown.text))?;
        return Ok(Exit::Success);
    }
    let rows: Vec<Vec<String>> = last.iter().map(describe).collect();
    output.table(&["line", "time", "kind", "who", "what", "outcome"], &["line"], &rows)?;
    Ok(Exit::Success)
}

/// What is wrong with rule files, by an event that says so.
fn fault_of(event: &Event) -> String {
    let fault = event.changes.iter().find_map(|change| match change {
        Change::RulebookFaulted { fault } => Some(fault.clone()),
        _ => None,
    });
    fault.unwrap_or_default()
}

/// A line in a row for people.
fn describe(shown: &Shown) -> Vec<String> {
    let (time, who, what, outcome) = match &shown.record {
        Some(Record::Decision(decision)) => {
            let outcome = match (decision.metadata.code, decision.metadata.replay_of) {
                (Some(code), _) => {
                    format!("{code}: {}", decision.metadata.message.as_deref().unwrap_or_default())
                }
                (None, Some(original)) => format!("answered again as in line {original}"),
                (None, None) => {
                    decision.order_id.map_or_else(|| "success".to_owned(), |id| format!("success, {id}"))
                }
            };
            let who = decision.source.clone().unwrap_or_default();
            let what = decision.action.clone().unwrap_or_else(|| decision.file.clone());
            (decision.timestamp.to_string(), who, what, outcome)
        }
        Some(Record::Council(line)) => {
            let what = format!("council decides case {}", line.request_id);
            (line.timestamp.to_string(), String::new(), what, line.outcome.as_str().to_owned())
        }
        Some(Record::Input(input)) => {
            let what = format!("{} on case {}", input.role, input.request_id);
            (input.timestamp.to_string(), "command".to_owned(), what, input.note.clone())
        }
        Some(Record::AdmissionInput(input)) => {
            let what = match &input.about {
                AskedFor::Policy { domain, .. } => format!("policy of {domain}"),
                AskedFor::Lineage { source, request_id, .. } => {
                    format!("lineage of `{request_id}` of {source}")
                }
            };
            (input.timestamp.to_string(), "command".to_owned(), what, input.note.clone())
        }
        Some(Record::Market(rows)) => {
            let what = format!("{} rows of {}", rows.row_count, rows.symbol);
            (
                rows.timestamp.to_string(),
                rows.file_name.clone().unwrap_or_default(),
                what,
                format!("{} changes", rows.changes.len()),
            )
        }
        Some(Record::Genesis(genesis)) => (
            genesis.timestamp.to_string(),
            String::new(),
            "the log begins".to_owned(),
            genesis.origin.clone(),
        ),
        Some(Record::Published(published)) => (
            published.timestamp.to_string(),
            String::new(),
            format!("answers up to {} are durable", published.up_to),
            String::new(),
        ),
        Some(
            Record::Start(event)
            | Record::Stop(event)
            | Record::Rulebook(event)
            | Record::Tick(event)
            | Record::Halt(event)
            | Record::ClockStep(event)
            | Record::DeadMan(event)
            | Record::Quota(event)
            | Record::Proposal(event),
        ) => (event.timestamp.to_string(), String::new(), event.note.clone(), fault_of(event)),
        None => (String::new(), String::new(), String::new(), String::new()),
    };
    let outcome = super::output::short(&outcome, 120);
    vec![shown.seq.to_string(), time, shown.kind.clone(), who, what, outcome]
}

/// Valid JSON without white space, indented; keys stay in the order of the ledger.
fn indented(text: &str) -> String {
    let mut out = String::with_capacity(text.len().saturating_mul(2));
    let mut depth = 0_usize;
    let (mut in_string, mut escaped) = (false, false);
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        if in_string {
            out.push(c);
            in_string = escaped || c != '"';
            escaped = !escaped && c == '\\';
            continue;
        }
        let break_line = |out: &mut String, depth: usize| {
            out.push('\n');
            out.push_str(&"  ".repeat(depth));
        };
        match c {
            '{' | '[' if characters.peek().is_some_and(|next| matches!(next, '}' | ']')) => out.push(c),
            '{' | '[' => {
                depth += 1;
                out.push(c);
                break_line(&mut out, depth);
            }
            '}' | ']' => {
                if !out.ends_with(['{', '[']) {
                    depth = depth.saturating_sub(1);
                    break_line(&mut out, depth);
                }
                out.push(c);
            }
            ',' => {
                out.push(c);
                break_line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            _ => {
                in_string = c == '"';
                out.push(c);
            }
        }
    }
    out
}

fn show(home: &Path, args: &ShowArgs, output: &Output) -> Result<Exit> {
    let seq: Option<u64> = args.what.parse().ok();
    let mut found = Vec::new();
    each_line(home, 1, &mut |shown| {
        let by_request = matches!(&shown.record, Some(Record::Decision(decision))
            if decision.request_id.as_deref() == Some(args.what.as_str()));
        if by_request || seq == Some(shown.seq) {
            found.push(shown);
        }
    })?;
    if found.is_empty() {
        bail!("there is no line and no request `{}` in this ledger", super::output::plain(&args.what));
    }
    for shown in found {
        if output.is_json() {
            output.line(&shown.text)?;
            continue;
        }
        output.line(&super::output::plain_lines(&indented(&shown.text)))?;
    }
    Ok(Exit::Success)
}

#[cfg(test)]
mod tests {
    use super::indented;

    #[test]
    fn indenting_changes_white_space_only() {
        let text = r#"{"b":[1,{"a":"x\\\",:{}[]"},[],{}],"c":null}"#;
        let shown = indented(text);
        assert!(shown.lines().count() > 8, "{shown}");
        let (before, after): (serde_json::Value, serde_json::Value) =
            (serde_json::from_str(text).unwrap(), serde_json::from_str(&shown).unwrap());
        assert_eq!(before, after);
        assert!(shown.find("\"b\"") < shown.find("\"c\""));
    }
}
