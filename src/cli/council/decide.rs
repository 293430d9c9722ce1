//! `spoolgate council decide`: decides a case from its request and verdicts in one step.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::value::RawValue;
use spoolgate_council::case::Docket;
use spoolgate_council::signers::Filed;
use spoolgate_gate::council::{CaseRecord, calculate, waits_for};
use spoolgate_gate::faults;
use spoolgate_home::read::View;
use spoolgate_rules::roles::{self, Roles};
use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::answer::Answer;
use spoolgate_wire::code::Exit;
use spoolgate_wire::council::{CouncilDecision, CouncilRequest, RoleVerdict, SubmitVerdict};
use spoolgate_wire::envelope::Envelope;
use spoolgate_wire::ids::RequestId;
use spoolgate_wire::{json, signing};

use super::super::handle::read_input;
use super::super::handover::{self, Handed};
use super::super::output::Output;
use super::{
    DecideArgs, POLL, decision_of, exit_of, no_case, print_decision, print_evidence, record_of,
    view,
};

/// How long a running gate may take to decide a case after its last answer.
const DECIDED_WITHIN: Duration = Duration::from_secs(10);

/// A document of the input.
enum Document {
    Request(Box<CouncilRequest>, String),
    Bound(SubmitVerdict),
    Bare(RoleVerdict),
}

fn documents(files: &[PathBuf]) -> Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    for file in files {
        let shown = if file == Path::new("-") {
            "standard input".to_owned()
        } else {
            file.display().to_string()
        };
        let bytes = read_input(file)?;
        if bytes.trim_ascii().is_empty() {
            bail!("`{shown}` is empty; name files that hold a request or a verdict");
        }
        for (number, value) in serde_json::Deserializer::from_slice(&bytes)
            .into_iter::<Box<RawValue>>()
            .enumerate()
        {
            let value = value.with_context(|| format!("`{shown}`: document {}", number + 1))?;
            let text = json::check_object(value.get().as_bytes())
                .with_context(|| format!("`{shown}`: document {}", number + 1))?;
            found.push((shown.clone(), json::minify(text).into_owned()));
        }
    }
    Ok(found)
}

fn read_document(shown: &str, text: &str) -> Result<Document> {
    let payload = match Envelope::parse(text.as_bytes()) {
        Ok(envelope) => envelope.payload,
        Err(_) => text.to_owned(),
    };
    let keys: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&payload)?;
    let has = |name: &str| keys.contains_key(name);
    if has("verdict") && has("role") {
        let verdict =
            serde_json::from_str(&payload).with_context(|| format!("`{shown}` is no verdict"))?;
        return Ok(Document::Bare(verdict));
    }
    let (action, what) = match has("request_sha256") {
        true => (ActionName::CouncilVerdict, "no verdict"),
        false => (ActionName::CouncilRequest, "not a council request"),
    };
    if let Some((why, _)) = faults::of_payload(action, &payload, &|_| None) {
        bail!("`{shown}` is {what}: {why}");
    }
    Ok(match action {
        ActionName::CouncilVerdict => Document::Bound(serde_json::from_str(&payload)?),
        _ => {
            let sha256 = signing::sha256_hex(payload.as_bytes());
            Document::Request(Box::new(serde_json::from_str(&payload)?), sha256)
        }
    })
}

/// Runs `council decide`.
pub(super) fn run(home: &Path, args: &DecideArgs, output: &Output) -> Result<Exit> {
    let found = documents(&args.files)?;
    let is_signed = |text: &str| Envelope::parse(text.as_bytes()).is_ok();
    let signed = found.iter().filter(|(_, text)| is_signed(text)).count();
    if found.is_empty() {
        bail!("nothing to decide: give the request first, then its verdicts");
    }
    if signed == found.len() {
        return decide_signed(home, &found, output);
    }
    if signed > 0 {
        output
            .remark("not every file is signed: nothing is recorded, and no signature was checked");
    }
    calculate_only(home, &found, output)
}

/// Calculates what the decision on unsigned files would be.
fn calculate_only(home: &Path, found: &[(String, String)], output: &Output) -> Result<Exit> {
    let mut request: Option<(Box<CouncilRequest>, String)> = None;
    let mut verdicts: Vec<RoleVerdict> = Vec::new();
    for (shown, text) in found {
        match (read_document(shown, text)?, &request) {
            (Document::Request(read, sha256), None) => request = Some((read, sha256)),
            (Document::Request(..), Some(_)) => {
                bail!("`{shown}` is a second request; decide one case at a time")
            }
            (_, None) => bail!("`{shown}` is a verdict; the request comes first"),
            (Document::Bound(bound), Some((request, sha256))) => {
                let id = &bound.request_id;
                let is_named = *id == request.request_id || *id == RequestId::alias_of(sha256);
                if bound.request_sha256 != *sha256 || !is_named {
                    output.remark(&format!(
                        "`{shown}` is a verdict on other bytes than this request: its seat stays \
                            empty"
                    ));
                } else {
                    verdicts.push(bound.verdict);
                }
            }
            (Document::Bare(verdict), Some(_)) => verdicts.push(verdict),
        }
    }
    let Some((request, _)) = request else {
        bail!("there is no request among the files")
    };
    let ruling = calculate(&roles_of(home)?, &request, &Filed::apart(verdicts), None);
    output
        .remark("calculated from unsigned files: nothing is recorded, and no request can cite it");
    print_ruling(&ruling.decision, &ruling.record, output)?;
    Ok(exit_of(ruling.decision.final_outcome))
}

/// Prints a decision and, for people, the checks that the gate computed for it.
fn print_ruling(decision: &CouncilDecision, record: &CaseRecord, output: &Output) -> Result<()> {
    print_decision(decision, output)?;
    match output.is_json() {
        true => Ok(()),
        false => print_evidence(&record.evidence, output),
    }
}

/// Returns the council's rules of a home, or the shipped ones if the home has none.
pub(super) fn roles_of(home: &Path) -> Result<Roles> {
    let path = home.join(roles::PATH);
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Roles::read(roles::PATH, &text)?),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Roles::shipped()?),
        Err(error) => Err(error).with_context(|| format!("`{}`", path.display())),
    }
}

/// Returns a case; if it waits for nobody and takes no further verdict, not before a running gate has
/// decided it, which it does behind the answers of its batch.
fn when_decided(home: &Path, case: &RequestId) -> Result<(View, Docket)> {
    let until = Instant::now() + DECIDED_WITHIN;
    loop {
        let view = view(home)?;
        let Some(docket) = view.docket(case)? else {
            bail!(no_case(case))
        };
        let is_due = match docket.closed {
            Some(closed) => closed.is_reopened,
            None => docket.closes_at.is_none() && waits_for(&view.rulebook, &docket).is_empty(),
        };
        if !is_due || Instant::now() >= until {
            return Ok((view, docket));
        }
        std::thread::sleep(POLL);
    }
}

/// Decides signed files: each goes through the gate, in the given order.
fn decide_signed(home: &Path, found: &[(String, String)], output: &Output) -> Result<Exit> {
    let mut case: Option<RequestId> = None;
    // Read all of them before the first is handed in: a decision of the gate cannot be undone.
    for (shown, text) in found {
        match read_document(shown, text)? {
            Document::Request(request, _) if case.is_none() => {
                case = Some(request.request_id.clone())
            }
            Document::Request(..) => {
                bail!("`{shown}` is a second request; decide one case at a time")
            }
            Document::Bound(bound)
                if case.as_ref().is_none_or(|case| *case == bound.request_id) =>
            {
                case = Some(bound.request_id);
            }
            Document::Bound(bound) => bail!("`{shown}` is about case `{}`", bound.request_id),
            Document::Bare(_) => {
                bail!("`{shown}` names no request; sign request_id, request_sha256 and verdict")
            }
        }
    }
    let mut refused = false;
    for (shown, text) in found {
        match handover::decide(home, text.as_bytes())? {
            Handed::Answered(bytes) => {
                let answer: Answer = serde_json::from_slice(&bytes).context("the gate's answer")?;
                if let Some(error) = &answer.error {
                    refused = true;
                    output.remark(&format!("`{shown}`: {}: {}", error.code, error.message));
                }
            }
            Handed::TimedOut => {
                output.remark(
                    "the running gate did not answer in time; the request is still in its spool",
                );
                return Ok(Exit::WaitTimeout);
            }
        }
    }
    let Some(case) = case else {
        bail!("there is no request among the files")
    };
    let (view, docket) = when_decided(home, &case)?;
    match decision_of(&view, &docket)? {
        Some((line, decision)) => {
            print_ruling(&decision, &record_of(&view, &line)?, output)?;
            let exit = exit_of(decision.final_outcome);
            Ok(if refused && exit == Exit::Success {
                Exit::Refused
            } else {
                exit
            })
        }
        None => {
            let waiting = waits_for(&view.rulebook, &docket).join(", ");
            let state = match docket.closes_at {
                Some(at) => format!("takes verdicts until {at}"),
                None => format!("waits for {waiting} until {}", docket.case.deadline),
            };
            output.remark(&format!(
                "case `{case}` {state}; `spoolgate council wait {case}` waits for the decision"
            ));
            Ok(if refused {
                Exit::Refused
            } else {
                Exit::NeedsApproval
            })
        }
    }
}
