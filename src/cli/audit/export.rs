//! `audit export`: writes lines for other programs, as CSV or unchanged.

use std::fs;
use std::io::{BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use spoolgate_home::HomeError;
use spoolgate_ledger::batches::Line;
use spoolgate_replay::query::Entry;
use spoolgate_wire::code::Exit;

use super::filter::{Filters, Place, tell_missing};
use super::receipts::replaceable;
use crate::cli::output::{self, Format, Output};
use crate::cli::progress::Progress;

/// Bytes that are gathered before a write.
const GATHERED_BYTES: usize = 64 * 1024;

/// Names of the columns. They are fixed: append new ones at the end.
pub(super) const HEADER: [&str; 18] = [
    "line",
    "time",
    "kind",
    "request_id",
    "action",
    "source",
    "status",
    "decision",
    "code",
    "message",
    "strategy",
    "symbol",
    "side",
    "size",
    "order_id",
    "failed_checks",
    "rulebook",
    "leaf",
];

/// Which lines, from which ledger, and where to write them.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
    /// CSV with a header, or JSON lines exactly as in the ledger (`json` is the same).
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "csv",
        hide_possible_values = true,
        value_parser = clap::builder::EnumValueParser::<Format>::new())]
    format: Format,
    /// Write to this file, as a whole or not at all; default: standard output.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Replace the file if it exists.
    #[arg(long, requires = "out")]
    force: bool,
    /// Only this many of the newest lines.
    #[arg(short = 'n', long, value_name = "N")]
    recent: Option<usize>,
    #[command(flatten)]
    filters: Filters,
}

/// Where the export goes.
enum Sink<'a> {
    /// Standard output, with the bytes that are not written yet, and whether it is a terminal.
    Stdout(&'a Output, Vec<u8>, bool),
    /// A file that does not have its final name yet.
    File(Hidden),
}

/// A file under a temporary name until it is complete.
struct Hidden {
    file: BufWriter<fs::File>,
    path: PathBuf,
    target: PathBuf,
    force: bool,
    done: bool,
}

impl Drop for Hidden {
    fn drop(&mut self) {
        if !self.done {
            // Half an export is useless.
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Hidden {
    fn create(target: &Path, force: bool, ledger: &Path) -> Result<Hidden> {
        let named = || format!("file `{}`", target.display());
        let name = target.file_name().with_context(named)?;
        let folder = match target.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        let is_ledger = folder.canonicalize().with_context(named)? == ledger.canonicalize()?;
        if is_ledger {
            bail!(
                "`{}` is in the ledger's own folder; name another place with --out",
                target.display()
            );
        }
        if !force && target.symlink_metadata().is_ok() {
            bail!("`{}` already exists; --force replaces it", target.display());
        }
        replaceable(target)?;
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}.tmp", std::process::id()));
        let path = folder.join(hidden);
        let file = fs::File::create_new(&path).map_err(|source| HomeError::disk(&path, source))?;
        let file = BufWriter::with_capacity(GATHERED_BYTES, file);
        Ok(Hidden {
            file,
            path,
            target: target.to_owned(),
            force,
            done: false,
        })
    }

    fn finish(mut self) -> Result<()> {
        let fail = |source| HomeError::disk(&self.target, source);
        self.file
            .flush()
            .and_then(|()| self.file.get_ref().sync_all())
            .map_err(fail)?;
        if self.force {
            fs::rename(&self.path, &self.target).map_err(fail)?;
        } else {
            let renamed = renameat_with(CWD, &self.path, CWD, &self.target, RenameFlags::NOREPLACE);
            renamed.map_err(|errno| fail(errno.into()))?;
        }
        self.done = true;
        Ok(())
    }
}

impl Sink<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        match self {
            Sink::File(hidden) => {
                hidden
                    .file
                    .write_all(bytes)
                    .map_err(|source| HomeError::disk(&hidden.target, source))?;
            }
            Sink::Stdout(output, gathered, _) => {
                gathered.extend_from_slice(bytes);
                if gathered.len() >= GATHERED_BYTES {
                    output.exact(gathered)?;
                    gathered.clear();
                }
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<()> {
        match self {
            Sink::File(hidden) => hidden.finish(),
            Sink::Stdout(output, gathered, _) => output.exact(&gathered),
        }
    }

    /// Returns whether the output is a terminal, which would obey control characters that agents
    /// wrote.
    fn is_terminal(&self) -> bool {
        matches!(self, Sink::Stdout(_, _, true))
    }
}

/// Writes the lines, newest last.
pub(super) fn run(home: &Path, args: &Args, output: &Output) -> Result<Exit> {
    let books = args.place.books(home)?;
    tell_missing(&books, output)?;
    let mut sink = match &args.out {
        Some(path) => Sink::File(Hidden::create(path, args.force, &args.place.folder(home))?),
        None => Sink::Stdout(output, Vec::new(), std::io::stdout().is_terminal()),
    };
    let is_shown = matches!(&sink, Sink::Stdout(..)) && std::io::stdout().is_terminal();
    let is_csv = matches!(args.format, Format::Csv | Format::Table);
    if is_csv {
        sink.write(format!("{}\r\n", HEADER.join(",")).as_bytes())?;
    }
    let progress = Progress::count(output, "lines");
    let mut lines: u64 = 0;
    books.find(
        &args.filters.filter(),
        args.recent,
        &mut |line| -> Result<()> {
            lines = lines.saturating_add(1);
            // On a terminal the lines themselves show the progress.
            if !is_shown {
                progress.at(lines);
            }
            if is_csv {
                return sink.write(row(line)?.as_bytes());
            }
            let text = if sink.is_terminal() {
                output::plain_json(&line.text)
            } else {
                line.text.clone()
            };
            sink.write(format!("{text}\n").as_bytes())
        },
    )?;
    drop(progress);
    sink.finish()?;
    if let Some(path) = &args.out {
        output.remark(&format!("{lines} lines are in `{}`", path.display()));
    }
    Ok(Exit::Success)
}

/// Formats a line as a row of CSV (RFC 4180).
fn row(line: &Line) -> Result<String> {
    let body = line.body();
    let entry = Entry::read(line, &body)?;
    let failed: Vec<&str> = entry
        .checks
        .iter()
        .filter(|check| !check.passed)
        .map(|check| check.name.as_ref())
        .collect();
    let message = entry.metadata.message.as_deref().or(entry.note.as_deref());
    // The gate makes these values from digits and letters: unquoted, so that numbers stay numbers.
    let own = |value: Option<String>| value.unwrap_or_default();
    let cells = [
        line.seq.to_string(),
        own(entry.timestamp.map(|time| time.to_string())),
        text(Some(&line.kind)),
        text(entry.request_id.as_deref()),
        text(entry.action.as_deref()),
        text(entry.source.as_deref()),
        own(entry.status_word().map(str::to_owned)),
        own(entry.verdict().map(str::to_owned)),
        own(entry.metadata.code.map(|code| code.name().to_owned())),
        text(message),
        text(entry.strategy.as_deref()),
        text(entry.symbol.as_deref()),
        text(entry.side.as_deref()),
        own(entry.size.map(|size| size.to_string())),
        own(entry.order_id.map(|order| order.to_string())),
        text(Some(&failed.join(";"))),
        text(entry.rulebook.as_deref()),
        line.location.leaf.to_string(),
    ];
    Ok(format!("{}\r\n", cells.join(",")))
}

/// Returns whether a spreadsheet reads a cell that begins with this character as a formula. Some
/// fold full-width forms.
fn begins_formula(c: char) -> bool {
    matches!(
        c,
        '=' | '+' | '-' | '@' | '\t' | '\r' | '＝' | '＋' | '－' | '＠'
    )
}

/// Quotes a text that an agent may have chosen, without control characters. The cell never starts a
/// formula in a spreadsheet, whichever character the spreadsheet treats as a separator.
fn text(value: Option<&str>) -> String {
    let Some(value) = value.filter(|value| !value.is_empty()) else {
        return String::new();
    };
    let mut cell = String::with_capacity(value.len().saturating_add(2));
    let mut begins = true;
    for c in output::plain(value).chars() {
        if begins && begins_formula(c) {
            cell.push('\'');
        }
        begins = matches!(c, ',' | ';' | '|' | '"' | '\'') || (begins && c == ' ');
        if c == '"' {
            cell.push('"');
        }
        cell.push(c);
    }
    format!("\"{cell}\"")
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn text_of_agents_is_not_a_formula() {
        for (value, cell) in [
            ("", ""),
            ("plain", "\"plain\""),
            ("=1+1", "\"'=1+1\""),
            ("+1", "\"'+1\""),
            ("-1", "\"'-1\""),
            ("@SUM(A1)", "\"'@SUM(A1)\""),
            ("  =1", "\"  '=1\""),
            ("\t=1", "\"\\t=1\""),
            ("\r=1", "\"\\r=1\""),
            ("a\nb", "\"a\\nb\""),
            ("＝1", "\"'＝1\""),
            ("x;=1", "\"x;'=1\""),
            ("x,@y", "\"x,'@y\""),
            ("x\"=1", "\"x\"\"'=1\""),
            ("'=1", "\"''=1\""),
            ("\u{202e}=1", "\"\\u{202e}=1\""),
            ("limit is -3", "\"limit is -3\""),
            ("a-b", "\"a-b\""),
        ] {
            assert_eq!(text(Some(value)), cell, "{value:?}");
        }
    }
}
