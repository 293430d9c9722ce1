//! `spoolgate council check`: what a verdict would count as. It reads what a judge may read, the
//! briefs of a case and the rules of the council, and needs neither a key nor the gate.

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Serialize;
use spoolgate_council::brief::Heading;
use spoolgate_council::seats;
use spoolgate_gate::faults;
use spoolgate_home::cases::case_dir;
use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::code::Exit;
use spoolgate_wire::council::{Stance, SubmitVerdict};
use spoolgate_wire::envelope::Envelope;
use spoolgate_wire::ids::RequestId;
use spoolgate_wire::json;
use spoolgate_wire::repair::Fault;

use super::super::handle::read_input;
use super::super::output::Output;
use super::decide::roles_of;
use super::{no_case, view};

/// What a verdict would count as.
#[derive(Default, Serialize)]
struct Checked<'a> {
    case: &'a str,
    role: &'a str,
    says: &'a str,
    /// `None` if the gate would refuse it.
    counts_as: Option<Stance>,
    /// Why it counts as less than it says.
    notes: Vec<String>,
    /// What is wrong with its shape.
    faults: Vec<Fault>,
}

/// Runs the command.
pub(super) fn run(home: &Path, case: &RequestId, file: &Path, output: &Output) -> Result<Exit> {
    let alias = &alias(home, case)?;
    let heading = heading(home, alias)?;
    let bytes = read_input(file)?;
    let shown = || format!("`{}`", file.display());
    let text = json::check_object(&bytes).with_context(shown)?;
    let (payload, around) = as_payload(&json::minify(text), alias, &heading).with_context(shown)?;
    let place = |pointer: &str| json::locate(&bytes, pointer.strip_prefix(around)?);
    let case = alias.as_str();
    if let Some((words, faults)) = faults::of_payload(ActionName::CouncilVerdict, &payload, &place)
    {
        let checked = Checked {
            case,
            notes: vec![words],
            faults,
            ..Checked::default()
        };
        return print(&checked, output);
    }
    let submit: SubmitVerdict = serde_json::from_str(&payload).with_context(shown)?;
    let verdict = &submit.verdict;
    let mut checked = Checked {
        case,
        role: &verdict.role,
        says: &verdict.verdict,
        ..Checked::default()
    };
    if submit.request_id != *alias && !is_id_of(home, &submit.request_id, alias) {
        let what = format!("it is about case `{}`", submit.request_id);
        checked.notes.push(what);
    }
    if submit.request_sha256 != heading.request_sha256 {
        let what = format!(
            "it names request {}, but the brief is about request {}",
            submit.request_sha256, heading.request_sha256
        );
        checked.notes.push(what);
    }
    if checked.notes.is_empty() {
        let roles = roles_of(home)?;
        let seat = seats::reading(heading.change_type, verdict, &roles)
            .context("the verdict speaks for no role")?;
        checked.counts_as = Some(seat.verdict);
        checked.notes = seat.notes;
        let own = roles.resolve(&verdict.role).map(|role| role.name.as_str());
        let mut required = roles.required(heading.change_type);
        if !required.any(|role| Some(role.name.as_str()) == own) {
            let what = "this change does not ask for the role: its approval has no effect";
            checked.notes.push(what.to_owned());
        }
    }
    print(&checked, output)
}

/// Returns the name of a case in its briefs. Only who names it otherwise must be able to read the
/// ledger.
fn alias(home: &Path, case: &RequestId) -> Result<RequestId> {
    if case.is_alias() {
        return Ok(case.clone());
    }
    let docket = view(home)?.docket(case)?;
    let docket = docket.with_context(|| no_case(case))?;
    Ok(docket.case.shown().clone())
}

/// Whether a case may have this id. Who may not read the ledger cannot know; the hash of the request is
/// compared in any case.
fn is_id_of(home: &Path, id: &RequestId, alias: &RequestId) -> bool {
    !id.is_alias()
        && match view(home).and_then(|view| Ok(view.docket(id)?)) {
            Ok(docket) => docket.is_some_and(|docket| docket.case.shown() == alias),
            Err(_) => true,
        }
}

/// Returns what the briefs of a case say about it.
fn heading(home: &Path, alias: &RequestId) -> Result<Heading> {
    let briefs = home.join(case_dir(alias)).join("briefs");
    let within = || format!("`{}` cannot be read", briefs.display());
    for entry in std::fs::read_dir(&briefs).with_context(within)? {
        let page = std::fs::read_to_string(entry.with_context(within)?.path());
        if let Some(heading) = Heading::of(&page.with_context(within)?, alias) {
            return Ok(heading);
        }
    }
    bail!(
        "no brief of case `{alias}` is left in `{}`",
        briefs.display()
    )
}

/// Returns the payload that a text is or has within, and the pointer of what the text is within a
/// request.
fn as_payload(text: &str, alias: &RequestId, heading: &Heading) -> Result<(String, &'static str)> {
    let members: serde_json::Map<String, serde_json::Value> = serde_json::from_str(text)?;
    if members.contains_key("signature") {
        let envelope = Envelope::parse(text.as_bytes())?;
        if envelope.action != ActionName::CouncilVerdict.as_str() {
            bail!("it is a request for `{}`", envelope.action);
        }
        return Ok((envelope.payload, ""));
    }
    if members.contains_key("request_sha256") || !members.contains_key("role") {
        return Ok((text.to_owned(), "/payload"));
    }
    let sha256 = &heading.request_sha256;
    let payload =
        format!(r#"{{"request_id":"{alias}","request_sha256":"{sha256}","verdict":{text}}}"#);
    Ok((payload, "/payload/verdict"))
}

fn print(checked: &Checked<'_>, output: &Output) -> Result<Exit> {
    let counts_as = checked.counts_as.map(Stance::as_str);
    let exit = match counts_as == Some(checked.says) {
        true => Exit::Success,
        false => Exit::Refused,
    };
    if output.is_json() {
        output.json(checked)?;
        return Ok(exit);
    }
    let facts = [
        ("role", checked.role),
        ("says", checked.says),
        (
            "counts as",
            counts_as.unwrap_or("nothing: the gate would refuse it"),
        ),
    ];
    for (name, value) in facts.into_iter().filter(|(_, value)| !value.is_empty()) {
        output.line(&super::output::plain(&format!("{name:<9} {value}")))?;
    }
    for note in &checked.notes {
        output.line(&super::output::plain(&format!("{:<9} {note}", "why")))?;
    }
    let row = |fault: &Fault| {
        let place = fault.at.map(|at| format!("{}:{}", at.line, at.column));
        let example = fault.example.as_ref().map(ToString::to_string);
        vec![
            place.unwrap_or_default(),
            fault.pointer.clone(),
            fault.got.clone(),
            fault.expected.clone(),
            example.unwrap_or_default(),
        ]
    };
    if !checked.faults.is_empty() {
        let rows: Vec<Vec<String>> = checked.faults.iter().map(row).collect();
        output.table(&["at", "pointer", "got", "expected", "example"], &[], &rows)?;
    }
    Ok(exit)
}
