//! `audit show`: whole lines, indented.

use std::path::Path;

use anyhow::{Result, bail};
use spoolgate::gate::Record;
use spoolgate::wire::code::Exit;

use super::lines::each_line;
use crate::cli::output::{self, Output};

/// Which line.
#[derive(clap::Args)]
pub struct Args {
    /// Number of the line (an answer's auditRef), or id of a request.
    what: String,
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

/// Prints the lines.
pub fn run(home: &Path, args: &Args, output: &Output) -> Result<Exit> {
    let seq: Option<u64> = args.what.parse().ok();
    let mut found = Vec::new();
    let pruned = each_line(home, 1, &mut |shown| {
        let by_request = matches!(&shown.record, Some(Record::Decision(decision))
            if decision.request_id.as_deref() == Some(args.what.as_str()));
        if by_request || seq == Some(shown.seq) {
            found.push(shown);
        }
    })?;
    if !pruned.is_empty() {
        output.remark(&format!("not looked into, their contents were pruned: {}", pruned.join(", ")));
    }
    if found.is_empty() {
        bail!("there is no line and no request `{}` in this ledger", output::plain(&args.what));
    }
    for shown in found {
        if output.is_json() {
            output.line(&shown.text)?;
            continue;
        }
        output.line(&output::plain_lines(&indented(&shown.text)))?;
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
