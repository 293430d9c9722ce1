//! Printing: aligned tables or JSON on standard output, messages on standard error, and nothing
//! that would control a terminal.

use std::borrow::Cow;
use std::cell::Cell;
use std::io::{self, IsTerminal, Write};

use anyhow::{Context, Result};
use clap::ValueEnum;
use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use rustix::io::Errno;
use serde::Serialize;
use spoolgate_wire::code::{Code, Exit};

use super::progress::{aside, aside_of_output};

/// How the message of a failed write to standard output begins.
const STDOUT: &str = "standard output; the command may have taken effect all the same";

/// How to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// For people.
    Table,
    /// For programs: one JSON value per line.
    Json,
    /// For spreadsheets; only `audit export` accepts it.
    #[value(hide = true)]
    Csv,
    /// The same as `json`; only `audit export` accepts this name.
    #[value(hide = true)]
    Jsonl,
}

/// The output of a command, in one format.
pub(super) struct Output {
    /// How to print.
    pub format: Format,
    /// The exit code if the reader goes away.
    decided: Cell<Exit>,
}

/// Returns whether the reader of the output went away. That is not an error: the reader has enough.
pub(super) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io_errors = error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>());
    io_errors
        .into_iter()
        .any(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Says what went wrong, without causes that an outer error already names.
pub(super) fn causes(error: &anyhow::Error) -> String {
    let mut message = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if !message.contains(&cause) {
            let colon = if message.is_empty() { "" } else { ": " };
            message = format!("{message}{colon}{cause}");
        }
    }
    message
}

/// Returns whether standard output could not be written. The command may have taken effect all the
/// same.
pub(super) fn is_unwritten(error: &anyhow::Error) -> bool {
    error.to_string() == STDOUT
}

/// Returns whether the machine failed, and not what the caller named: no memory, no descriptors, no
/// room, or a failing device. Trying again later may succeed.
pub(super) fn is_of_machine(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .filter_map(Errno::from_io_error)
        .any(|errno| {
            matches!(
                errno,
                Errno::NOMEM
                    | Errno::NFILE
                    | Errno::MFILE
                    | Errno::IO
                    | Errno::AGAIN
                    | Errno::NOBUFS
                    | Errno::NOSPC
                    | Errno::DQUOT
            )
        })
}

/// Returns whether a terminal obeys this character: control characters, and those that change the
/// writing direction.
fn is_obeyed(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Escapes text so that a terminal prints it and does not obey it.
pub(super) fn plain(text: &str) -> String {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return text.to_owned();
    }
    let mut out = String::new();
    for c in text.chars() {
        if is_obeyed(c) {
            out.extend(c.escape_default())
        } else {
            out.push(c)
        }
    }
    out
}

/// Escapes JSON so that a terminal does not obey it, without changing its value: escapes the
/// characters that JSON allows inside strings.
pub(super) fn plain_json(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        // These are white space between values; inside strings they are escaped already.
        if is_obeyed(c) && !matches!(c, '\n' | '\r' | '\t') {
            out.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            out.push(c);
        }
    }
    out
}

/// Returns the first `most` characters, with an ellipsis if there were more.
pub(super) fn short(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((cut, _)) => format!("{}…", text.get(..cut).unwrap_or(text)),
        None => text.to_owned(),
    }
}

/// Works like [`plain`], for the program's own texts of several lines.
pub(super) fn plain_lines(text: &str) -> String {
    text.split('\n').map(plain).collect::<Vec<_>>().join("\n")
}

impl Output {
    /// Creates an output in this format.
    pub(super) fn new(format: Format) -> Output {
        Output {
            format,
            decided: Cell::new(Exit::Success),
        }
    }

    /// Notes the result of the command before it is printed, so that a reader who has read enough
    /// does not turn a refusal into success.
    pub(super) fn decided(&self, exit: Exit) -> Exit {
        self.decided.set(exit);
        exit
    }

    /// Returns the exit code of a command whose reader went away.
    pub(super) fn exit(&self) -> Exit {
        self.decided.get()
    }

    /// Returns whether programs read the output.
    pub(super) fn is_json(&self) -> bool {
        matches!(self.format, Format::Json | Format::Jsonl)
    }

    /// Prints a line on standard output.
    pub(super) fn line(&self, text: &str) -> Result<()> {
        let text = if self.is_json() {
            Cow::Owned(plain_json(text))
        } else {
            Cow::Borrowed(text)
        };
        // One write for both: a line-buffered stream would otherwise write the text and the line
        // feed separately.
        aside_of_output(|| io::stdout().write_all(format!("{text}\n").as_bytes())).context(STDOUT)
    }

    /// Prints an answer on standard output, with the characters escaped that a terminal would obey.
    pub(super) fn raw(&self, bytes: &[u8]) -> Result<()> {
        let text = std::str::from_utf8(bytes).map(plain_json);
        self.exact(text.as_deref().map_or(bytes, str::as_bytes))
    }

    /// Prints bytes unchanged on standard output, for other programs.
    pub(super) fn exact(&self, bytes: &[u8]) -> Result<()> {
        let mut out = io::stdout();
        aside_of_output(|| out.write_all(bytes).and_then(|()| out.flush())).context(STDOUT)
    }

    /// Prints a JSON value on its own line.
    pub(super) fn json(&self, value: &impl Serialize) -> Result<()> {
        self.line(&serde_json::to_string(value)?)
    }

    /// Prints a line for people on standard error: progress and remarks, not results.
    pub(super) fn remark(&self, text: &str) {
        // If standard error is closed, nobody reads it.
        let _ = aside(|| writeln!(io::stderr(), "{}", plain(text)));
    }

    /// Prints an error: in words, or as JSON for programs.
    pub(super) fn error(&self, error: &anyhow::Error, code: Option<Code>, exit: Exit) {
        let message = plain(&causes(error));
        let _ = match self.format {
            Format::Table | Format::Csv => match code {
                Some(code) => writeln!(io::stderr(), "spoolgate: {code}: {message}"),
                None => writeln!(io::stderr(), "spoolgate: {message}"),
            },
            Format::Json | Format::Jsonl => {
                let body = serde_json::json!({"error": {"code": code, "message": message,
                    "exit": exit as u8}});
                writeln!(io::stderr(), "{body}")
            }
        };
    }

    /// Prints an aligned table; columns named in `right` are aligned to the right.
    pub(super) fn table(
        &self,
        header: &[&str],
        right: &[&str],
        rows: &[Vec<String>],
    ) -> Result<()> {
        let mut table = Table::new();
        table
            .load_style(NOTHING)
            .set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(header.iter().map(|name| name.to_uppercase()));
        for row in rows {
            table.add_row(row.iter().map(|cell| plain(cell)));
        }
        for (column, name) in table.column_iter_mut().zip(header) {
            column.set_padding((0, 2));
            if right.contains(name) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let text: Vec<String> = table
            .lines()
            .map(|line| line.trim_end().to_owned())
            .collect();
        self.line(&text.join("\n"))
    }

    /// Prints a heading between tables.
    pub(super) fn heading(&self, text: &str) -> Result<()> {
        if io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none() {
            return self.line(&format!("\n\u{1b}[1m{text}\u{1b}[0m"));
        }
        self.line(&format!("\n{text}"))
    }
}
