//! `spoolgate proposals`: changes of rules that agents propose, and the approvers' decisions on
//! them.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use spoolgate_gate::proposals::{Found, Masked, Proposed, diff, masked, pending_file};
use spoolgate_home::index::proposals::{ProposalRow, Standing};
use spoolgate_home::read::{View, real_seams};
use spoolgate_host::clock::{Clock, SystemClock};
use spoolgate_ledger::segment;
use spoolgate_replay::rehearsal::{LINES, Rehearsal, rehearse};
use spoolgate_rules::Rulebook;
use spoolgate_rules::approval::{APPROVERS_PATH, Touch};
use spoolgate_rules::rule::RuleStatus;
use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::answer::Answer;
use spoolgate_wire::code::Exit;
use spoolgate_wire::ids::ProposalId;
use spoolgate_wire::signing::sha256_hex;
use spoolgate_wire::sshsig::Signers;

use super::handover::{self, Person};
use super::look;
use super::output::Output;
use super::progress::{Progress, log_bytes};

/// The commands.
#[derive(clap::Subcommand)]
pub(super) enum Command {
    /// Show proposals, newest first.
    #[command(
        after_help = "Examples:\n  spoolgate proposals list\n  spoolgate proposals list --pending"
    )]
    List(ListArgs),
    /// Show a proposal with all the results of its examination.
    #[command(
        after_help = "Examples:\n  spoolgate proposals show p-42\n  spoolgate proposals show p-42 \
            --replay 0\n\nThe requests of the last ledger lines before the proposal are decided \
            again, without the change and with it, which takes\nreading the ledger from its first \
            line."
    )]
    Show(ShowArgs),
    /// Show what a proposal changes.
    #[command(after_help = "Examples:\n  spoolgate proposals diff p-42 | patch -p1 --dry-run")]
    Diff(IdArgs),
    /// Approve a waiting proposal: its change is made.
    #[command(
        after_help = "Examples:\n  spoolgate proposals approve p-42\n  spoolgate proposals approve \
            p-42 --sha256 $(sha256sum < proposals/pending/p-42.yaml | cut -c-64)"
    )]
    Approve(ApproveArgs),
    /// Decline a waiting proposal.
    #[command(
        after_help = "Examples:\n  spoolgate proposals decline p-42 --reason \"too few trades\""
    )]
    Decline(EndArgs),
    /// Verify the SSH signature of an approver over a file.
    #[command(
        after_help = "Examples:\n  ssh-keygen -Y sign -n spoolgate -f ~/.ssh/id_ed25519 \
            p-42.yaml\n  spoolgate proposals verify p-42.yaml --approvers rules/approvers\n\nExit \
            code 1: the signature does not count."
    )]
    Verify(VerifyArgs),
    /// Revert an applied change: the rule's previous file is restored.
    #[command(
        after_help = "Examples:\n  spoolgate proposals revert p-42 --reason \"it blocked winners\""
    )]
    Revert(EndArgs),
}

/// Shows proposals.
#[derive(clap::Args)]
pub(super) struct ListArgs {
    /// Only proposals that wait for an approver.
    #[arg(long)]
    pending: bool,
    /// Maximum number of proposals to show.
    #[arg(short = 'n', long, default_value = "50")]
    lines: usize,
}

/// Names a proposal.
#[derive(clap::Args)]
pub(super) struct IdArgs {
    /// The proposal, such as p-42.
    #[arg(value_parser = ProposalId::parse)]
    id: ProposalId,
}

/// Shows a proposal.
#[derive(clap::Args)]
pub(super) struct ShowArgs {
    /// The proposal, such as p-42.
    #[arg(value_parser = ProposalId::parse)]
    id: ProposalId,
    /// How many ledger lines before the proposal to replay; 0: none.
    #[arg(long, value_name = "LINES", default_value_t = LINES)]
    replay: u64,
}

/// Approves a proposal.
#[derive(clap::Args)]
pub(super) struct ApproveArgs {
    /// The proposal, such as p-42.
    #[arg(value_parser = ProposalId::parse)]
    id: ProposalId,
    /// SHA-256 of the pending file that was reviewed; default: the pending file as recorded in the
    /// ledger.
    #[arg(long)]
    sha256: Option<String>,
    #[command(flatten)]
    by: Person,
}

/// Verifies a signature.
#[derive(clap::Args)]
pub(super) struct VerifyArgs {
    /// The file that was signed.
    file: PathBuf,
    /// The approvers who may sign, in the format of git's allowed_signers.
    #[arg(long, value_name = "FILE")]
    approvers: PathBuf,
    /// The signature; default: the file's name with `.sig` appended.
    #[arg(long, value_name = "FILE")]
    signature: Option<PathBuf>,
}

/// Declines or reverts a proposal.
#[derive(clap::Args)]
pub(super) struct EndArgs {
    /// The proposal, such as p-42.
    #[arg(value_parser = ProposalId::parse)]
    id: ProposalId,
    /// The reason; it is recorded in the ledger.
    #[arg(long)]
    reason: String,
    #[command(flatten)]
    by: Person,
}

/// A proposal as `--format json` lists it.
#[derive(Serialize)]
struct Listed<'a> {
    status: &'static str,
    line: u64,
    #[serde(flatten)]
    proposed: &'a Proposed,
    /// What masks that the change loosens its rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    alone: Option<Masked>,
    #[serde(skip_serializing_if = "Option::is_none")]
    replay: Option<Rehearsal>,
}

/// Runs a command.
pub(super) fn run(home: &Path, command: &Command, output: &Output) -> Result<Exit> {
    match command {
        Command::List(args) => list(home, args, output),
        Command::Show(args) => show(home, args, output),
        Command::Diff(IdArgs { id }) => {
            let (_, _, Proposed { path, old, new, .. }) = find(home, *id)?;
            let text = diff::unified(&path, old.as_deref(), new.as_deref());
            text.lines()
                .try_for_each(|line| output.line(&super::output::plain(line)))?;
            Ok(Exit::Success)
        }
        Command::Approve(ApproveArgs { id, sha256, by }) => {
            let sha256 = match sha256 {
                Some(sha256) => sha256.clone(),
                None => sha256_hex(
                    pending_file(&find(home, *id)?.2)
                        .map_err(anyhow::Error::msg)?
                        .as_bytes(),
                ),
            };
            let payload = serde_json::json!({"id": id, "sha256": sha256});
            let exit = handover::administer(
                home,
                &by.person,
                ActionName::ProposalApprove,
                &payload,
                output,
                |answer| {
                    let rule = handover::value(answer, "ProposalApplied", "rule_id");
                    format!(
                        "{id} is applied: rule `{rule}` is changed ({})",
                        line_of(answer)
                    )
                },
            )?;
            if exit == Exit::Refused && home.join(APPROVERS_PATH).exists() {
                output.remark(&format!(
                    "with `{APPROVERS_PATH}`, no right in rules/principals.yaml approves {id}: sign \
                        its pending file with a key of that list (docs/rules.md)"
                ));
            }
            Ok(exit)
        }
        Command::Decline(EndArgs { id, reason, by }) => {
            let payload = serde_json::json!({"id": id, "reason": reason});
            handover::administer(
                home,
                &by.person,
                ActionName::ProposalDecline,
                &payload,
                output,
                |answer| format!("{id} is declined ({})", line_of(answer)),
            )
        }
        Command::Verify(args) => verify(args, output),
        Command::Revert(EndArgs { id, reason, by }) => {
            let payload = serde_json::json!({"id": id, "reason": reason});
            handover::administer(
                home,
                &by.person,
                ActionName::ProposalRevert,
                &payload,
                output,
                |answer| {
                    format!(
                        "{id} is reverted, the rule's previous file is in force ({})",
                        line_of(answer)
                    )
                },
            )
        }
    }
}

fn show(home: &Path, ShowArgs { id, replay }: &ShowArgs, output: &Output) -> Result<Exit> {
    let (view, row, proposed) = find(home, *id)?;
    let status = status(&view, &row, &proposed);
    let alone = alone(&view, &proposed, &mut BTreeMap::new());
    let replay = if *replay == 0 {
        None
    } else {
        replayed(home, &view, &row, &proposed, *replay, output)?
    };
    if output.is_json() {
        output.json(&Listed {
            status,
            line: row.seq,
            proposed: &proposed,
            alone,
            replay,
        })?;
    } else {
        output.line(&format!("{id} is {status} (ledger line {})", row.seq))?;
        let text = pending_file(&proposed).map_err(anyhow::Error::msg)?;
        text.lines()
            .try_for_each(|line| output.line(&super::output::plain(line)))?;
        if let Some(masked) = alone {
            output.line(&format!(
                "{}, {}",
                proposed.direction.as_str(),
                masked.in_words()
            ))?;
        }
        replay
            .iter()
            .try_for_each(|replay| output.line(&format!("replay: {}", replay.in_words())))?;
    }
    Ok(Exit::Success)
}

fn verify(args: &VerifyArgs, output: &Output) -> Result<Exit> {
    let read = super::handle::read_input;
    let text = |path: &Path| -> Result<String> {
        String::from_utf8(read(path)?).with_context(|| format!("`{}`", path.display()))
    };
    let signature = args.signature.clone().unwrap_or_else(|| {
        let mut name = args.file.as_os_str().to_owned();
        name.push(".sig");
        PathBuf::from(name)
    });
    let signers = Signers::read(&text(&args.approvers)?)
        .map_err(|why| anyhow::anyhow!("`{}`: {why}", args.approvers.display()))?;
    let refused = |why: &dyn Display| {
        output.remark(&format!("`{}`: {why}", signature.display()));
        Ok(Exit::Refused)
    };
    let now = SystemClock::default().now();
    match signers.verify(&read(&args.file)?, &text(&signature)?, now) {
        Ok(signed) => {
            if let Err(why) = Touch::default().check(signed.token) {
                return refused(&why);
            }
            output.line(&super::output::plain(&format!(
                "signed by {} with {}",
                signed.identity, signed.key
            )))?;
            Ok(Exit::Success)
        }
        Err(why) => refused(&why),
    }
}

fn line_of(answer: &Answer) -> String {
    format!("ledger line {}", answer.audit_ref)
}

fn find(home: &Path, id: ProposalId) -> Result<(View, ProposalRow, Proposed)> {
    let (view, _) = look::view(home)?;
    match view.proposal(id)? {
        Some((row, proposed)) => Ok((view, row, proposed)),
        None => {
            bail!("proposal {id} does not exist; `spoolgate proposals list` shows all")
        }
    }
}

/// Replays the requests before a proposal under its change. If it cannot be replayed, prints why
/// and returns `None`.
fn replayed(
    home: &Path,
    view: &View,
    row: &ProposalRow,
    proposed: &Proposed,
    lines: u64,
    output: &Output,
) -> Result<Option<Rehearsal>> {
    let rulebooks = view
        .rulebook_of(&proposed.base)
        .map_err(|error| error.to_string())
        .and_then(|before| {
            let after = before.with_rule(&proposed.path, proposed.new.as_deref());
            after
                .map(|after| (before, after))
                .map_err(|error| error.to_string())
        });
    let (before, after) = match rulebooks {
        Ok(rulebooks) => rulebooks,
        Err(why) => {
            output.remark(&format!("no replay: {why}"));
            return Ok(None);
        }
    };
    let seams = real_seams(home)?;
    let progress = Progress::bytes(
        output,
        "replaying",
        log_bytes(&home.join(segment::AUDIT_DIR)),
    );
    let until = row.record.unwrap_or(row.seq);
    let done = rehearse(
        home,
        &seams,
        (&before, &after),
        (until, lines),
        &mut |read| progress.at(read),
    );
    drop(progress);
    Ok(Some(done?))
}

fn list(home: &Path, args: &ListArgs, output: &Output) -> Result<Exit> {
    let (view, _) = look::view(home)?;
    let mut rows = Vec::new();
    let mut books = BTreeMap::new();
    for (row, proposed) in view.proposals(args.lines, args.pending)? {
        let status = status(&view, &row, &proposed);
        let alone = alone(&view, &proposed, &mut books);
        if output.is_json() {
            output.json(&Listed {
                status,
                line: row.seq,
                proposed: &proposed,
                alone,
                replay: None,
            })?;
            continue;
        }
        let Proposed {
            proposal_id,
            rule_id,
            kind,
            by,
            at,
            direction,
            ..
        } = &proposed;
        rows.push(vec![
            proposal_id.to_string(),
            at.to_string(),
            by.to_string(),
            rule_id.to_string(),
            super::output::short(&kind.in_words(), 60),
            match alone {
                Some(masked) => format!("{}, {}", direction.as_str(), masked.in_words()),
                None => direction.as_str().to_owned(),
            },
            status.to_owned(),
        ]);
    }
    if output.is_json() {
        return Ok(Exit::Success);
    }
    if rows.is_empty() {
        output.line("no proposals")?;
    } else {
        output.table(
            &[
                "proposal",
                "at",
                "by",
                "rule",
                "change",
                "direction",
                "status",
            ],
            &[],
            &rows,
        )?;
    }
    Ok(Exit::Success)
}

/// Returns what masks that a proposal loosens its rule, under the rulebook that it was judged
/// under; `None` also if that is lost. `books` keeps rulebooks by hash.
fn alone(
    view: &View,
    proposed: &Proposed,
    books: &mut BTreeMap<String, Option<Rulebook>>,
) -> Option<Masked> {
    if !matches!(proposed.direction, Found::Same | Found::Tightening) {
        return None;
    }
    let base = &proposed.base;
    let before = books.entry(base.clone());
    let before = before.or_insert_with(|| view.rulebook_of(base).ok());
    let before = before.as_ref()?;
    let after = before
        .with_rule(&proposed.path, proposed.new.as_deref())
        .ok()?;
    masked(&before.ruleset, &after.ruleset, &proposed.rule_id)
}

/// Returns the standing of a proposal or, if it was applied, the present status of its rule.
fn status(view: &View, row: &ProposalRow, proposed: &Proposed) -> &'static str {
    match row.standing {
        Standing::Pending => "proposed",
        Standing::Declined => "declined",
        Standing::Reverted => "reverted",
        Standing::Applied => {
            let rule = view.rulebook.ruleset.rules.get(&proposed.rule_id);
            match rule.map(|rule| (rule.is_core(), rule.file.status)) {
                None => "gone",
                Some((true, _)) => "graduated",
                Some((false, RuleStatus::Active)) => "active",
                Some((false, RuleStatus::Shadow)) => "shadow",
                Some((false, RuleStatus::Suspended)) => "suspended",
                Some((false, RuleStatus::Retired)) => "retired",
            }
        }
    }
}
