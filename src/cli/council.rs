//! `spoolgate council`: cases before the council. Reading takes no lock. `decide` sends signed
//! files through the gate; for unsigned files it only calculates the decision.

mod check;
mod decide;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Subcommand;
use serde::Serialize;
use serde_json::value::RawValue;
use spoolgate_council::brief;
use spoolgate_council::case::{Closed, Docket};
use spoolgate_council::finding::Evidence;
use spoolgate_council::seats::Seat;
use spoolgate_gate::Record;
use spoolgate_gate::council::{CaseRecord, rule_on, waits_for};
use spoolgate_gate::record::CaseDecision;
use spoolgate_gate::state::SEMANTICS;
use spoolgate_home::read::{self, View, real_seams};
use spoolgate_wire::code::Exit;
use spoolgate_wire::council::{Axis, CouncilDecision, Stance};
use spoolgate_wire::ids::RequestId;
use spoolgate_wire::time::Time;

use super::output::{self, Output};

/// How often `wait` checks.
const POLL: Duration = Duration::from_millis(100);

/// Longest computed finding in a table, in characters; the record has all of it.
const FINDING_CHARS: usize = 110;

/// Cases before the council.
#[derive(Subcommand)]
pub(super) enum Command {
    /// Decide a case from its request and verdicts in one step.
    #[command(
        after_help = "Examples:\n  spoolgate council decide request.json risk.json audit.json\n  \
            cat request.json verdicts/*.json | spoolgate council decide -\n\nSigned files go \
            through the gate and into the ledger, like files dropped into the spool. If any file \
            is unsigned,\nthe decision is only calculated and printed, as if the deadline had \
            passed and every signer had the right to speak.\n\nExit codes: 0 APPROVE, 1 REJECT or \
            a refused file, 3 NEEDS_MORE_INFO, still waiting for verdicts, or settling."
    )]
    Decide(DecideArgs),
    /// Print the brief of a role: what to judge, on which evidence, and how to answer.
    #[command(
        after_help = "Examples:\n  spoolgate council brief req_1 \"Risk Officer\"\n  spoolgate \
            council brief req_1 RO | any-model --json > verdict.json"
    )]
    Brief {
        /// The case.
        #[arg(value_parser = RequestId::parse)]
        case: RequestId,
        /// The role: its name or an alias.
        role: String,
    },
    /// Say what a verdict would count as, before it is signed: needs no key and no gate.
    #[command(
        after_help = "Examples:\n  spoolgate council check req_1 risk.json\n  any-model --json < \
            brief.md | spoolgate council check c-0123456789abcdef -\n\nThe file holds the object that the brief asks for, its inner `verdict` alone, or a \
            signed request. Only the briefs of the case and council/roles.yaml are read.\n\nExit \
            codes: 0 it counts as what it says, 1 it counts as less or would be refused, 2 a file \
            cannot be read."
    )]
    Check {
        /// The case, by its alias, which a brief names; who may read the ledger can give its id.
        #[arg(value_parser = RequestId::parse)]
        case: RequestId,
        /// The verdict; `-` for standard input.
        file: PathBuf,
    },
    /// List cases, newest first.
    #[command(
        after_help = "Examples:\n  spoolgate council list --open\n  spoolgate --format json \
            council list | jq -r 'select(.outcome == \"REJECT\").case'"
    )]
    List {
        /// Only undecided cases.
        #[arg(long)]
        open: bool,
        /// Maximum number of cases to list.
        #[arg(short = 'n', long, default_value_t = 50, value_name = "COUNT")]
        count: usize,
    },
    /// Show a case: seats, decision, and the rules behind it, recomputed from the ledger.
    #[command(
        after_help = "Examples:\n  spoolgate council show req_1\n  spoolgate --format json council \
            show req_1 | jq .record"
    )]
    Show {
        /// The case.
        #[arg(value_parser = RequestId::parse)]
        case: RequestId,
    },
    /// Show the seats of a decided case that voted against the decision.
    #[command(after_help = "Examples:\n  spoolgate council dissent req_1")]
    Dissent {
        /// The case.
        #[arg(value_parser = RequestId::parse)]
        case: RequestId,
    },
    /// Wait until a case is decided, then print the decision.
    #[command(
        after_help = "Examples:\n  spoolgate council wait req_1 --timeout 3600 --request-sha256 \
            5fa1... && ./deploy.sh\n\nExit codes: 0 APPROVE, 1 REJECT or about another request, 3 \
            NEEDS_MORE_INFO, 8 not decided in time."
    )]
    Wait {
        /// The case.
        #[arg(value_parser = RequestId::parse)]
        case: RequestId,
        /// How long to wait, in seconds.
        #[arg(long, default_value_t = 60, value_name = "SECONDS")]
        timeout: u64,
        /// Only accept a case about exactly this request, identified by its payload hash: any agent
        /// may have used the name of the case first.
        #[arg(long, value_name = "HEX")]
        request_sha256: Option<String>,
    },
}

/// Decides a case in one step.
#[derive(clap::Args)]
pub(super) struct DecideArgs {
    /// The request, then its verdicts; `-` for standard input, which may hold several documents in
    /// sequence.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// Runs the command.
pub(super) fn run(home: &Path, command: &Command, output: &Output) -> Result<Exit> {
    match command {
        Command::Decide(args) => decide::run(home, args, output),
        Command::Brief { case, role } => print_brief(home, case, role, output),
        Command::Check { case, file } => check::run(home, case, file, output),
        Command::List { open, count } => list(home, *open, *count, output),
        Command::Show { case } => show(home, case, output),
        Command::Dissent { case } => dissent(home, case, output),
        Command::Wait {
            case,
            timeout,
            request_sha256,
        } => wait(
            home,
            case,
            Duration::from_secs(*timeout),
            request_sha256.as_deref(),
            output,
        ),
    }
}

fn exit_of(outcome: Stance) -> Exit {
    match outcome {
        Stance::Approve => Exit::Success,
        Stance::Reject => Exit::Refused,
        Stance::NeedsMoreInfo => Exit::NeedsApproval,
    }
}

fn no_case(case: &RequestId) -> String {
    format!("case `{case}` does not exist; `spoolgate council list` shows all cases")
}

fn view(home: &Path) -> Result<View> {
    Ok(read::read(home, &real_seams(home)?)?)
}

/// Returns the decision on a case, with its ledger line.
fn decision_of(view: &View, docket: &Docket) -> Result<Option<(CaseDecision, CouncilDecision)>> {
    let Some(Closed { line: seq, .. }) = docket.closed else {
        return Ok(None);
    };
    let Some(Record::Council(line)) = view.record(seq)? else {
        bail!("line {seq} is not the council's decision; run `spoolgate audit verify`");
    };
    let text = view.text(
        line.decision.as_deref().map(RawValue::get),
        line.decision_blob.as_deref(),
    )?;
    let text = text.with_context(|| format!("audit/blobs lacks the decision of line {seq}"))?;
    let decision =
        serde_json::from_str(&text).with_context(|| format!("the decision of line {seq}"))?;
    Ok(Some((*line, decision)))
}

/// Returns the record of a decision: rules, seats, dissent, computed evidence.
fn record_of(view: &View, line: &CaseDecision) -> Result<CaseRecord> {
    let text = view.text(
        line.record.as_deref().map(RawValue::get),
        line.record_blob.as_deref(),
    )?;
    let text = text.context("audit/blobs lacks the record of the decision")?;
    serde_json::from_str(&text).context("the record of the decision")
}

/// Prints a decision.
pub(super) fn print_decision(decision: &CouncilDecision, output: &Output) -> Result<()> {
    if output.is_json() {
        return output.json(decision);
    }
    output.line(&output::plain(&format!("case     {}", decision.request_id)))?;
    output.line(&format!("outcome  {}", decision.final_outcome.as_str()))?;
    output.line("")?;
    output.line(&output::plain(&decision.summary_reasoning))?;
    output.line("")?;
    let rows: Vec<Vec<String>> = Axis::ALL
        .iter()
        .map(|axis| {
            let score = decision.axis_scores.get(*axis).to_string();
            vec![
                axis.number().to_string(),
                axis.as_str().replace('_', " "),
                score,
            ]
        })
        .collect();
    output.table(&["axis", "name", "score"], &["axis", "score"], &rows)?;
    for (heading, lines) in [
        ("Blocking issues", &decision.blocking_issues),
        ("Next steps", &decision.next_steps),
    ] {
        if !lines.is_empty() {
            output.heading(heading)?;
            lines
                .iter()
                .try_for_each(|line| output.line(&output::plain(&format!("- {line}"))))?;
        }
    }
    Ok(())
}

fn print_brief(home: &Path, case: &RequestId, role: &str, output: &Output) -> Result<Exit> {
    let view = view(home)?;
    let Some(docket) = view.docket(case)? else {
        bail!(no_case(case))
    };
    let roles = &view.rulebook.roles;
    let Some(rule) = roles.resolve(role) else {
        let names: Vec<&str> = roles
            .required(docket.case.change_type)
            .map(|role| role.name.as_str())
            .collect();
        bail!(
            "role `{role}` does not exist in this case; its roles are {}",
            names.join(", ")
        );
    };
    let said = view.said(&docket)?;
    let request = said
        .request
        .context("the request can no longer be read; run `spoolgate audit verify`")?;
    output.raw(brief::brief(&request, &docket.case, rule, roles).as_bytes())?;
    Ok(Exit::Success)
}

/// A case in the list.
#[derive(Serialize)]
struct Listed<'a> {
    case: &'a RequestId,
    /// The name by which its judges know it; that of its folder.
    alias: &'a RequestId,
    change_type: &'static str,
    proposer: &'a str,
    opened_at: String,
    deadline: String,
    outcome: Option<&'static str>,
    waiting_for: Vec<&'a str>,
}

fn listed<'a>(view: &'a View, docket: &'a Docket) -> Listed<'a> {
    let case = &docket.case;
    let is_open = docket.closed.is_none();
    Listed {
        case: &case.id,
        alias: case.shown(),
        change_type: case.change_type.as_str(),
        proposer: case.proposer.as_str(),
        opened_at: case.opened_at.to_string(),
        deadline: case.deadline.to_string(),
        outcome: docket.closed.map(|closed| closed.outcome.as_str()),
        waiting_for: if is_open {
            waits_for(&view.rulebook, docket)
        } else {
            Vec::new()
        },
    }
}

fn list(home: &Path, open: bool, count: usize, output: &Output) -> Result<Exit> {
    let view = view(home)?;
    let dockets = view.dockets(count, open)?;
    if output.is_json() {
        dockets
            .iter()
            .try_for_each(|docket| output.json(&listed(&view, docket)))?;
        return Ok(Exit::Success);
    }
    let rows: Vec<Vec<String>> = dockets
        .iter()
        .map(|docket| {
            let Listed {
                case,
                change_type,
                proposer,
                opened_at,
                deadline,
                outcome,
                waiting_for,
                ..
            } = listed(&view, docket);
            let state = outcome.unwrap_or("open").to_owned();
            let waiting = if outcome.is_some() {
                String::new()
            } else {
                waiting_for.join(", ")
            };
            vec![
                case.to_string(),
                change_type.to_owned(),
                proposer.to_owned(),
                state,
                opened_at,
                deadline,
                waiting,
            ]
        })
        .collect();
    output.table(
        &[
            "case",
            "change",
            "proposer",
            "outcome",
            "opened",
            "deadline",
            "waits for",
        ],
        &[],
        &rows,
    )?;
    Ok(Exit::Success)
}

/// A case with all details.
#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    listed: Listed<'a>,
    request_sha256: &'a str,
    request_line: u64,
    votes: Vec<ShownVote<'a>>,
    silent: &'a [String],
    decision: Option<CouncilDecision>,
    decision_line: Option<u64>,
    /// Decisions that this one replaced after objections, newest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    earlier: Vec<Earlier>,
    /// Whether the ledger alone gives the same decision; `None` for an open case, and for a decision
    /// of a version that decided differently.
    recomputes: Option<bool>,
    record: CaseRecord,
}

/// A decision that an objection led to another one.
#[derive(Serialize)]
struct Earlier {
    line: u64,
    decided_at: Time,
    outcome: Stance,
}

/// Returns the decisions that a decision replaced, newest first.
fn earlier_of(view: &View, line: &CaseDecision) -> Result<Vec<Earlier>> {
    let mut found = Vec::new();
    let mut revises = line.revises;
    while let Some(seq) = revises {
        let Some(Record::Council(line)) = view.record(seq)? else {
            bail!("line {seq} is not the council's decision; run `spoolgate audit verify`");
        };
        // Only older lines can be replaced: a damaged ledger must not make this endless.
        revises = line.revises.filter(|older| *older < seq);
        found.push(Earlier {
            line: seq,
            decided_at: line.timestamp,
            outcome: line.outcome,
        });
    }
    Ok(found)
}

#[derive(Serialize)]
struct ShownVote<'a> {
    line: u64,
    role: &'a str,
    by: &'a str,
}

fn show(home: &Path, case: &RequestId, output: &Output) -> Result<Exit> {
    let view = view(home)?;
    let Some(docket) = view.docket(case)? else {
        bail!(no_case(case))
    };
    let mut said = view.said(&docket)?;
    let mut earlier: Vec<Earlier> = Vec::new();
    let (decision, record, recomputes) = match decision_of(&view, &docket)? {
        Some((line, decision)) => {
            earlier = earlier_of(&view, &line)?;
            let revised = earlier.first().map(|revised| revised.outcome);
            // An objection after this decision did not count yet.
            said.verdicts
                .retain(|(seq, _)| line.verdict_lines.contains(seq));
            let again = rule_on(&view.rulebook_of(&line.rulebook)?, &docket, &said, revised);
            let record = record_of(&view, &line)?;
            let same = again.decision == decision && again.record == record;
            let is_comparable = record.semantics == Some(SEMANTICS);
            (Some(decision), record, is_comparable.then_some(same))
        }
        None => {
            let ruling = rule_on(&view.rulebook, &docket, &said, None);
            (None, ruling.record, None)
        }
    };
    let votes: Vec<ShownVote<'_>> = docket
        .votes
        .iter()
        .map(|(line, vote)| {
            let by = vote.by.as_ref().map_or("command", |by| by.as_str());
            ShownVote {
                line: *line,
                role: &vote.role,
                by,
            }
        })
        .collect();
    let shown = Shown {
        listed: listed(&view, &docket),
        request_sha256: &docket.case.request_sha256,
        request_line: docket.request,
        votes,
        silent: &docket.silent,
        decision,
        decision_line: docket.closed.map(|closed| closed.line),
        earlier,
        recomputes,
        record,
    };
    if output.is_json() {
        output.json(&shown)?;
    } else {
        print_shown(&shown, output)?;
    }
    Ok(if shown.recomputes == Some(false) {
        Exit::LedgerCorrupt
    } else {
        Exit::Success
    })
}

fn print_shown(shown: &Shown<'_>, output: &Output) -> Result<()> {
    let Listed {
        case,
        alias,
        change_type,
        proposer,
        opened_at,
        deadline,
        waiting_for,
        ..
    } = &shown.listed;
    let facts = [
        ("case", case.to_string()),
        ("alias", alias.to_string()),
        ("change", (*change_type).to_owned()),
        ("proposer", (*proposer).to_owned()),
        (
            "opened",
            format!("{opened_at} (ledger line {})", shown.request_line),
        ),
        ("deadline", deadline.clone()),
        ("request", format!("sha256 {}", shown.request_sha256)),
    ];
    for (name, value) in facts {
        output.line(&output::plain(&format!("{name:<9} {value}")))?;
    }
    if shown.decision.is_none() {
        output.line(&output::plain(&format!(
            "{:<9} {}",
            "waits for",
            waiting_for.join(", ")
        )))?;
    }
    if !shown.votes.is_empty() {
        output.heading("Verdicts")?;
        let rows: Vec<Vec<String>> = shown
            .votes
            .iter()
            .map(|vote| {
                vec![
                    vote.line.to_string(),
                    vote.role.to_owned(),
                    vote.by.to_owned(),
                ]
            })
            .collect();
        output.table(&["line", "role", "by"], &["line"], &rows)?;
    }
    print_rules(&shown.record, output)?;
    if let Some(decision) = &shown.decision {
        if !shown.earlier.is_empty() {
            output.heading("Earlier decisions, before objections")?;
            let row = |earlier: &Earlier| {
                let Earlier {
                    line,
                    decided_at,
                    outcome,
                } = earlier;
                vec![
                    line.to_string(),
                    decided_at.to_string(),
                    outcome.as_str().to_owned(),
                ]
            };
            let rows: Vec<Vec<String>> = shown.earlier.iter().map(row).collect();
            output.table(&["line", "decided", "outcome"], &["line"], &rows)?;
        }
        output.heading("Decision")?;
        print_decision(decision, output)?;
        output.line("")?;
        output.line(match shown.recomputes {
            Some(false) => "THE LEDGER GIVES ANOTHER DECISION: run `spoolgate audit verify`",
            Some(true) => "recomputed from the ledger: the same decision",
            None => "not recomputed: a version that decided by other rules wrote it",
        })?;
    }
    Ok(())
}

/// Prints the rules that were applied, the result of each, and the computed checks.
fn print_rules(record: &CaseRecord, output: &Output) -> Result<()> {
    let CaseRecord {
        deliberation,
        evidence,
        ..
    } = record;
    output.heading("Seats")?;
    let kind = |seat: &Seat| match (seat.computed, seat.votes) {
        (true, 0) => "computed".to_owned(),
        (true, votes) => format!("computed, {votes} filed"),
        (false, votes) => format!("{votes} filed"),
    };
    let seats = deliberation.seats.iter().map(|seat| (seat, kind(seat)));
    let foreign = deliberation
        .foreign
        .iter()
        .map(|seat| (seat, format!("{}, no seat", kind(seat))));
    let rows: Vec<Vec<String>> = seats
        .chain(foreign)
        .map(|(seat, kind)| {
            vec![
                seat.role.clone(),
                seat.verdict.as_str().to_owned(),
                kind,
                seat.notes.join("; "),
            ]
        })
        .collect();
    output.table(&["role", "counts as", "from", "notes"], &[], &rows)?;
    output.heading("Rules")?;
    let rows: Vec<Vec<String>> = deliberation
        .rules
        .iter()
        .map(|rule| {
            vec![
                rule.rule.as_str().to_owned(),
                rule.result.as_str().to_owned(),
                rule.why.join("; "),
            ]
        })
        .collect();
    output.table(&["rule", "allows", "why not better"], &[], &rows)?;
    print_evidence(evidence, output)
}

/// Prints the computed checks.
fn print_evidence(evidence: &[Evidence], output: &Output) -> Result<()> {
    for evidence in evidence {
        output.heading(&format!(
            "Computed for the {}: {}",
            evidence.role,
            evidence.verdict.as_str()
        ))?;
        let rows: Vec<Vec<String>> = evidence
            .findings
            .iter()
            .map(|finding| {
                let result = match finding.pass {
                    Some(true) => "pass",
                    Some(false) => finding.severity.as_str(),
                    None => "-",
                };
                vec![
                    finding.check_id.clone(),
                    result.to_owned(),
                    finding.value.clone().unwrap_or_default(),
                    finding.threshold.clone().unwrap_or_default(),
                    output::short(&finding.answer, FINDING_CHARS),
                ]
            })
            .collect();
        output.table(
            &["check", "result", "value", "threshold", "finding"],
            &[],
            &rows,
        )?;
    }
    Ok(())
}

fn dissent(home: &Path, case: &RequestId, output: &Output) -> Result<Exit> {
    let view = view(home)?;
    let Some(docket) = view.docket(case)? else {
        bail!(no_case(case))
    };
    let Some((line, decision)) = decision_of(&view, &docket)? else {
        output.remark(&format!("case `{case}` is not decided yet"));
        return Ok(Exit::NeedsApproval);
    };
    let record = record_of(&view, &line)?;
    let dissenting = &record.deliberation.dissent;
    if output.is_json() {
        dissenting.iter().try_for_each(|seat| output.json(seat))?;
        return Ok(Exit::Success);
    }
    if dissenting.is_empty() {
        output.line(&format!(
            "every seat voted {}",
            decision.final_outcome.as_str()
        ))?;
        return Ok(Exit::Success);
    }
    let rows: Vec<Vec<String>> = dissenting
        .iter()
        .map(|seat| vec![seat.role.clone(), seat.verdict.as_str().to_owned()])
        .collect();
    output.line(&format!("decided  {}", decision.final_outcome.as_str()))?;
    output.table(&["role", "voted"], &[], &rows)?;
    Ok(Exit::Success)
}

fn wait(
    home: &Path,
    case: &RequestId,
    at_most: Duration,
    request_sha256: Option<&str>,
    output: &Output,
) -> Result<Exit> {
    let begun = Instant::now();
    loop {
        let view = view(home)?;
        let docket = view.docket(case)?;
        if let (Some(docket), Some(wanted)) = (&docket, request_sha256)
            && docket.case.request_sha256 != wanted
            && view.signed_hash(docket.request)?.as_deref() != Some(wanted)
        {
            let is_about = &docket.case.request_sha256;
            output.remark(&format!("case `{case}` is about request {is_about}"));
            return Ok(Exit::Refused);
        }
        if let Some(docket) = &docket
            && let Some((_, decision)) = decision_of(&view, docket)?
        {
            print_decision(&decision, output)?;
            return Ok(exit_of(decision.final_outcome));
        }
        if begun.elapsed() >= at_most {
            let state = if docket.is_some() {
                "is not decided"
            } else {
                "does not exist"
            };
            output.remark(&format!(
                "case `{case}` {state} after {} s; is a gate running?",
                at_most.as_secs()
            ));
            return Ok(Exit::WaitTimeout);
        }
        std::thread::sleep(POLL);
    }
}
