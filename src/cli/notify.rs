//! `spoolgate notify`: tries the programs that tell people what happens.

use std::io;
use std::path::Path;

use anyhow::{Result, bail};
use serde_json::json;
use spoolgate_home::HomeError;
use spoolgate_home::notify::try_receiver;
use spoolgate_home::read::real_seams;
use spoolgate_host::lock::owner_beside_root;
use spoolgate_host::rule_folder;
use spoolgate_ledger::segment;
use spoolgate_rules::Rulebook;
use spoolgate_rules::notify::{PATH, Receiver};
use spoolgate_wire::code::Exit;

use super::output::{Output, plain};

/// Characters of an answer that are shown.
const ANSWER_CHARS_MAX: usize = 300;

/// Programs that tell people what happens.
#[derive(clap::Subcommand)]
pub(super) enum Command {
    /// Send a test notice, and show what the program answered.
    #[command(
        after_help = "Examples:\n  spoolgate notify test\n  spoolgate notify test phone\n\nIt reads \
            rules/notify.yaml as it is now, needs no gate, and runs each program in its cage as\na \
            gate does. Nothing is written to the ledger.\n\nExit codes: 0 every program answered; 1 \
            one failed, or the file names no receiver; 2 no\nreceiver has this name, or the rule \
            files cannot be used; 6 root tries those of another user."
    )]
    Test {
        /// The receiver; default: all of them.
        name: Option<String>,
    },
}

/// Runs the command.
pub(super) fn run(home: &Path, command: &Command, output: &Output) -> Result<Exit> {
    let Command::Test { name } = command;
    if !segment::is_log(&home.join(segment::AUDIT_DIR)) {
        return Err(HomeError::NotAHome(home.to_owned()).into());
    }
    if let Some(owner) = owner_beside_root(&home.join("state"))? {
        // Whoever may write the rules of another user's gate would otherwise run programs as root.
        let what = format!(
            "this home belongs to user {owner}, whose programs do not run as root; use `sudo -u \
                '#{owner}' spoolgate ...`"
        );
        let error = io::Error::new(io::ErrorKind::PermissionDenied, what);
        return Err(HomeError::disk(home, error).into());
    }
    let seams = real_seams(home)?;
    let root = std::fs::canonicalize(home)?;
    let book = Rulebook::compile(&rule_folder::load(home)?)?;
    let is_meant = |receiver: &&Receiver| {
        name.as_ref()
            .is_none_or(|name| receiver.name.as_str() == name)
    };
    let receivers: Vec<&Receiver> = book.notify.to.iter().filter(is_meant).collect();
    match name {
        Some(name) if receivers.is_empty() => {
            let names = book.notify.to.iter().map(|receiver| receiver.name.as_str());
            let names: Vec<&str> = names.collect();
            bail!(
                "{PATH} names no receiver `{name}`; it names: {}",
                names.join(", ")
            );
        }
        _ => {}
    }
    let (mut exit, mut rows) = (Exit::Success, Vec::new());
    for receiver in receivers {
        let answer = try_receiver(&root, receiver, book.safety.cage, seams.clock.now())?;
        let (note, said) =
            answer.map_or_else(Default::default, |answer| (answer.note, answer.output));
        let is_told = said.is_some();
        let said = String::from_utf8_lossy(&said.unwrap_or_default()).into_owned();
        let said: String = said.trim().chars().take(ANSWER_CHARS_MAX).collect();
        if !is_told {
            exit = Exit::Refused;
        }
        rows.push((receiver.name.to_string(), is_told, note, said));
    }
    if rows.is_empty() {
        exit = Exit::Refused;
    }
    if output.is_json() {
        let list: Vec<_> = rows
            .iter()
            .map(|(name, told, note, answer)| {
                json!({"receiver": name, "told": told, "note": note, "answer": answer})
            })
            .collect();
        output.json(&json!({"receivers": list}))?;
        return Ok(exit);
    }
    if rows.is_empty() {
        output.line(&format!("{PATH} names no receiver, so nobody is told"))?;
    }
    for (name, is_told, note, said) in rows {
        let word = if is_told { "told" } else { "not told" };
        output.line(&plain(&format!("{word}  {name}: {note}")))?;
        if !said.is_empty() {
            output.line(&plain(&format!("  {said}")))?;
        }
    }
    Ok(exit)
}
