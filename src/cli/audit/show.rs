//! `audit show`: prints whole lines, indented.

use std::path::Path;

use anyhow::{Result, bail};
use spoolgate_wire::code::Exit;

use super::lines::lines;
use crate::cli::output::{self, Output};

/// Which line to show.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Number of the line (an answer's auditRef), or id of a request.
    what: String,
}

/// Indents valid JSON without white space; keys keep the order of the ledger.
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
            '{' | '['
                if characters
                    .peek()
                    .is_some_and(|next| matches!(next, '}' | ']')) =>
            {
                out.push(c)
            }
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

/// Prints the lines.
pub(super) fn run(home: &Path, args: &Args, output: &Output) -> Result<Exit> {
    let found = lines(home, &args.what)?;
    if found.is_empty() {
        bail!(
            "the ledger has no line and no request `{}`; `spoolgate audit tail` shows the newest \
                lines",
            output::plain(&args.what)
        );
    }
    for line in found {
        if output.is_json() {
            output.line(&line.text)?;
            continue;
        }
        output.line(&output::plain_lines(&indented(&line.text)))?;
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
        let (before, after): (serde_json::Value, serde_json::Value) = (
            serde_json::from_str(text).unwrap(),
            serde_json::from_str(&shown).unwrap(),
        );
        assert_eq!(before, after);
        assert!(shown.find("\"b\"") < shown.find("\"c\""));
    }
}
