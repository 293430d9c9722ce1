//! `spoolgate admit`: admission of tasks.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use spoolgate_admission::Receipt;
use spoolgate_home::HomeError;
use spoolgate_home::index::lineage::Sums;
use spoolgate_home::open::read_genesis;
use spoolgate_home::read::{self, real_seams};
use spoolgate_ledger::note::VerifierKey;
use spoolgate_ledger::token::{self, FORWARDED_BYTES_MAX, Forwarded, TokenError};
use spoolgate_ledger::{recover, segment};
use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::checks::AnsweredRow;
use spoolgate_wire::code::Exit;
use spoolgate_wire::ids::{DomainPart, Principal, RequestId};
use spoolgate_wire::time::Time;

use super::handover::{self, Person};
use super::output::Output;
use super::sign;

/// The commands.
#[derive(clap::Subcommand)]
pub(super) enum Command {
    /// Ask whether a task may be created, and reserve its place.
    #[command(
        after_help = "Examples:\n  spoolgate admit evaluate task.json --as research-bot\n  \
            spoolgate admit evaluate - --as research-bot --key research-bot.key --id task-001 < \
            task.json\n\nThe file holds the body: {\"envelope\": {...}, \"forward\": true} \
            (docs/admission.md). The id of the request is the id of the task.\nExit codes: 0 \
            allowed, 1 denied, 2 not a request."
    )]
    Evaluate(AskArgs),
    /// Do the same, and forward an ALLOW to spool/forward/<surface>.
    #[command(
        after_help = "Examples:\n  spoolgate admit admit task.json --as research-bot --id task-001"
    )]
    Admit(AskArgs),
    /// Do the same without changing anything: nothing is reserved or forwarded.
    #[command(
        after_help = "Examples:\n  spoolgate admit check task.json --as research-bot && echo it \
            would be admitted"
    )]
    Check(AskArgs),
    /// Show the policies and whether they can be used.
    #[command(
        after_help = "Examples:\n  spoolgate admit health\n  spoolgate --format json admit health"
    )]
    Health(Person),
    /// Forget what policy commands returned; read rule files again.
    #[command(
        after_help = "Examples:\n  spoolgate admit invalidate\n  spoolgate admit invalidate \
            --profile default"
    )]
    Invalidate(InvalidateArgs),
    /// Show what the tasks of a tree have reserved and spent, and what is not settled.
    #[command(
        after_help = "Examples:\n  spoolgate admit tree task-001\n  spoolgate --format json admit \
            tree task-001\n\nTrees of this name of all tenants are shown. What no settler has \
            settled counts as spent.\nExit codes: 0 shown, 1 no such tree."
    )]
    Tree(TreeArgs),
    /// Check that a forwarded file is what the gate admitted.
    #[command(
        after_help = "Examples:\n  spoolgate admit verify spool/forward/api/r-42.json\n  \
            spoolgate admit verify r-42.json --log-key 'example.org/log+1a2b3c4d+AZ...'\n\nExit \
            codes: 0 genuine, 1 forged or changed, 2 no forwarded file.\nThe key of a log is \
            shown by `spoolgate audit verify`."
    )]
    Verify(VerifyArgs),
}

/// Asks about a task.
#[derive(clap::Args)]
pub(super) struct AskArgs {
    /// File with the body, a JSON object; `-` for standard input.
    file: PathBuf,
    /// The principal that asks.
    #[arg(long = "as", value_name = "PRINCIPAL", value_parser = Principal::parse)]
    source: Principal,
    /// Key file; default: the gate's own copy in this home's keyring.
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Id of the request, which is also the id of the task; default: a random one.
    #[arg(long)]
    id: Option<String>,
}

/// Forgets what policy commands returned.
#[derive(clap::Args)]
pub(super) struct InvalidateArgs {
    /// Only policies of this profile, in any domain.
    #[arg(long, value_name = "PROFILE", value_parser = DomainPart::parse)]
    profile: Option<DomainPart>,
    #[command(flatten)]
    by: Person,
}

/// Shows what the tasks of a tree have reserved and spent.
#[derive(clap::Args)]
pub(super) struct TreeArgs {
    /// The name of the tree, which is its `root_task_id`.
    #[arg(value_name = "ROOT", value_parser = RequestId::parse)]
    root: RequestId,
}

/// Checks that a forwarded file is what the gate admitted.
#[derive(clap::Args)]
pub(super) struct VerifyArgs {
    /// The file; `-` for standard input.
    file: PathBuf,
    /// The log's verifier key, which also contains the name of the log; default: the key of the
    /// home.
    #[arg(long, value_name = "VKEY")]
    log_key: Option<String>,
}

/// Runs a command.
pub(super) fn run(home: &Path, command: &Command, output: &Output) -> Result<Exit> {
    match command {
        Command::Evaluate(args) => ask(home, ActionName::AdmissionEvaluate, args, output),
        Command::Admit(args) => ask(home, ActionName::AdmissionAdmit, args, output),
        Command::Check(args) => ask(home, ActionName::AdmissionCheck, args, output),
        Command::Health(by) => health(home, by, output),
        Command::Invalidate(args) => invalidate(home, args, output),
        Command::Tree(args) => tree(home, args, output),
        Command::Verify(args) => verify(home, args, output),
    }
}

/// The answer to an admission request.
#[derive(Deserialize)]
struct Answered {
    receipt: Receipt,
    checks: Vec<AnsweredRow<'static>>,
}

fn ask(home: &Path, action: ActionName, args: &AskArgs, output: &Output) -> Result<Exit> {
    let key = sign::key_of(home, &args.source, args.key.as_deref())?;
    let body = sign::read_text(&args.file, "body")?;
    let answer = handover::ask_with(home, &key, &args.source, action, &body, args.id.as_deref())?;
    let said = answer.as_ref().and_then(|answer| answer.data.as_ref());
    let said = said.and_then(|data| serde_json::from_str::<Answered>(data.get()).ok());
    if let Some(said) = said.filter(|_| !output.is_json()) {
        print_answered(&said, output)?;
    }
    handover::report(answer.as_ref(), output, |answer| {
        format!("allowed (ledger line {})", answer.audit_ref)
    })
}

fn print_answered(said: &Answered, output: &Output) -> Result<()> {
    let Receipt {
        receipt_id,
        dry_run,
        effective_counters: counters,
        forwarded_to,
        ..
    } = &said.receipt;
    let amount = |value: Option<Amount>| {
        value.map_or_else(|| "-".to_owned(), |n| n.normalized().to_string())
    };
    let rows: Vec<Vec<String>> = said
        .checks
        .iter()
        .map(|row| {
            let passed = if row.passed { "ok" } else { "FAILED" };
            let why = row.reason.as_deref().unwrap_or_default();
            [
                &*row.check_name,
                passed,
                &amount(row.value),
                &amount(row.limit),
                &*row.source,
                why,
            ]
            .map(super::output::plain)
            .to_vec()
        })
        .collect();
    output.table(
        &["check", "", "value", "limit", "source", "why"],
        &["value", "limit"],
        &rows,
    )?;
    let budget = counters
        .recursion_budget_remaining
        .map(|left| format!(", budget left {left}"));
    let dry_run = if *dry_run { ", dry run" } else { "" };
    let forwarded = forwarded_to
        .as_ref()
        .map(|path| format!(", forwarded to spool/{path}"));
    output.line(&super::output::plain(&format!(
        "receipt {receipt_id}{dry_run}{}{}",
        budget.unwrap_or_default(),
        forwarded.unwrap_or_default()
    )))
}

fn health(home: &Path, by: &Person, output: &Output) -> Result<Exit> {
    let answer = handover::ask(home, &by.person, ActionName::AdmissionHealth, &json!({}))?;
    let said = answer.as_ref().and_then(|answer| answer.data.as_ref());
    let said = said.and_then(|data| serde_json::from_str::<Value>(data.get()).ok());
    let policies = said
        .as_ref()
        .and_then(|said| said.pointer("/AdmissionHealth/policies")?.as_array());
    if let Some(policies) = policies.filter(|_| !output.is_json()) {
        let rows: Vec<Vec<String>> = policies.iter().map(health_row).collect();
        output.table(
            &["tenant", "surface", "profile", "version", "max depth", ""],
            &["max depth"],
            &rows,
        )?;
    }
    let fault = said
        .as_ref()
        .and_then(|said| said.pointer("/AdmissionHealth/rulebook_fault")?.as_str());
    let fault =
        fault.map(|fault| format!("nothing is admitted: the rule files cannot be used: {fault}"));
    handover::report(answer.as_ref(), output, |answer| {
        fault.unwrap_or_else(|| {
            format!(
                "the rule files are in force (ledger line {})",
                answer.audit_ref
            )
        })
    })
}

fn health_row(policy: &Value) -> Vec<String> {
    let text = |key: &str| match policy.get(key) {
        Some(Value::String(text)) => super::output::plain(text),
        Some(Value::Null) | None => "-".to_owned(),
        Some(other) => other.to_string(),
    };
    let state = policy
        .get("error")
        .and_then(Value::as_str)
        .unwrap_or("ready");
    let mut row: Vec<String> = [
        "tenant",
        "surface",
        "profile",
        "policy_version",
        "max_spawn_depth",
    ]
    .map(text)
    .to_vec();
    row.push(super::output::plain(state));
    row
}

fn invalidate(home: &Path, args: &InvalidateArgs, output: &Output) -> Result<Exit> {
    let (action, payload) = match &args.profile {
        Some(profile) => (
            ActionName::AdmissionCacheInvalidate,
            json!({"policy_profile_id": profile}),
        ),
        None => (ActionName::AdmissionCacheClear, json!({})),
    };
    handover::administer(home, &args.by.person, action, &payload, output, |answer| {
        let domains = handover::value(answer, "PoliciesForgotten", "domains");
        format!(
            "forgotten: {domains}; the rule files are read again (ledger line {})",
            answer.audit_ref
        )
    })
}

/// The JSON output for a tree.
#[derive(Serialize)]
struct ShownTree<'a> {
    tenant_id: &'a DomainPart,
    root_task_id: &'a RequestId,
    profile: Option<&'a str>,
    opened_by: Option<&'a Principal>,
    since: Option<Time>,
    tasks: u64,
    unsettled_tasks: u64,
    tasks_left: Option<i64>,
    usd: ShownSums<Amount>,
    tokens: ShownSums<i128>,
}

/// One budget of a tree in the JSON output.
#[derive(Serialize)]
struct ShownSums<T> {
    left: Option<T>,
    reserved: Option<T>,
    spent: Option<T>,
    unsettled: Option<T>,
}

impl<T> ShownSums<T> {
    fn of(left: Option<T>, sums: Sums<T>) -> ShownSums<T> {
        ShownSums {
            left,
            reserved: sums.reserved,
            spent: sums.spent,
            unsettled: sums.unsettled,
        }
    }

    fn row(&self, unit: &str, show: impl Fn(&T) -> String) -> Vec<String> {
        let all = [&self.left, &self.reserved, &self.spent, &self.unsettled];
        let shown = all.map(|sum| sum.as_ref().map_or_else(|| "-".to_owned(), &show));
        [vec![unit.to_owned()], shown.to_vec()].concat()
    }
}

fn tree(home: &Path, args: &TreeArgs, output: &Output) -> Result<Exit> {
    let view = read::read(home, &real_seams(home)?)?;
    let found = view.trees(&args.root)?;
    let shown: Vec<ShownTree<'_>> = found
        .iter()
        .map(|sums| (sums, sums.tree.binding.as_ref()))
        .map(|(sums, binding)| ShownTree {
            tenant_id: &sums.tenant,
            root_task_id: &args.root,
            profile: binding.map(|binding| binding.profile.as_str()),
            opened_by: binding.and_then(|binding| binding.opened_by.as_ref()),
            since: binding.map(|binding| binding.since),
            tasks: sums.tasks,
            unsettled_tasks: sums.unsettled_tasks,
            tasks_left: sums.tree.budget,
            usd: ShownSums::of(sums.tree.left.usd, sums.usd),
            tokens: ShownSums::of(sums.tree.left.tokens.map(i128::from), sums.tokens),
        })
        .collect();
    if output.is_json() {
        output.json(&shown)?;
    }
    for tree in shown.iter().filter(|_| !output.is_json()) {
        let dash = || "-".to_owned();
        output.line(&format!(
            "{}/{}: profile {}, opened by {}, since {}",
            tree.tenant_id,
            tree.root_task_id,
            tree.profile.unwrap_or("-"),
            tree.opened_by.map_or_else(dash, ToString::to_string),
            tree.since.map_or_else(dash, |since| since.to_string())
        ))?;
        let left = tree.tasks_left.map(|left| format!(", {left} left"));
        output.line(&format!(
            "{} tasks{}, {} not settled",
            tree.tasks,
            left.unwrap_or_default(),
            tree.unsettled_tasks
        ))?;
        output.table(
            &["", "left", "reserved", "spent", "unsettled"],
            &["left", "reserved", "spent", "unsettled"],
            &[
                tree.usd.row("usd", |usd| usd.normalized().to_string()),
                tree.tokens.row("tokens", i128::to_string),
            ],
        )?;
    }
    if shown.is_empty() {
        output.remark(&format!("there is no tree `{}`", args.root));
        return Ok(Exit::Refused);
    }
    Ok(Exit::Success)
}

/// Returns the keys of the log, newest first, each with the first line that it no longer covers.
fn log_keys(home: &Path, given: Option<&str>) -> Result<Vec<(VerifierKey, u64)>> {
    if let Some(text) = given {
        return Ok(vec![(text.parse().context("--log-key")?, u64::MAX)]);
    }
    let disk = real_seams(home)?.disk;
    // Fails with a clear message if there is no ledger.
    read_genesis(home, disk.as_ref())?;
    let keys = recover::keys_over_time(disk.as_ref(), Path::new(segment::AUDIT_DIR))
        .map_err(HomeError::Ledger)?;
    let ends = keys
        .all()
        .iter()
        .skip(1)
        .map(|from| from.line)
        .chain([u64::MAX]);
    let mut keys: Vec<(VerifierKey, u64)> = keys
        .all()
        .iter()
        .map(|from| from.keys.log_key.clone())
        .zip(ends)
        .collect();
    keys.reverse();
    Ok(keys)
}

/// Verifies a forwarded file under one of the keys. A token is issued when its line is decided, or
/// again later, so a key that had ended before that line cannot have issued it.
fn verify_under(
    keys: &[(VerifierKey, u64)],
    bytes: &[u8],
) -> std::result::Result<Forwarded, TokenError> {
    let mut newest = None;
    for (key, end) in keys {
        match token::verify_forwarded(bytes, key, key.name()) {
            Ok(forwarded) => {
                let line = forwarded
                    .claim
                    .receipt_id
                    .strip_prefix("r-")
                    .and_then(|seq| seq.parse().ok());
                if line.is_some_and(|line: u64| line < *end) || *end == u64::MAX {
                    return Ok(forwarded);
                }
            }
            Err(error) => {
                newest.get_or_insert(error);
            }
        }
    }
    Err(newest.unwrap_or_else(|| TokenError::Shape("the log has no key".to_owned())))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let source: Box<dyn Read> = if path == Path::new("-") {
        Box::new(std::io::stdin())
    } else {
        Box::new(File::open(path).with_context(|| format!("file `{}`", path.display()))?)
    };
    let cap = u64::try_from(FORWARDED_BYTES_MAX)
        .unwrap_or(u64::MAX)
        .saturating_add(1);
    let mut bytes = Vec::new();
    source
        .take(cap)
        .read_to_end(&mut bytes)
        .with_context(|| format!("file `{}`", path.display()))?;
    Ok(bytes)
}

fn verify(home: &Path, args: &VerifyArgs, output: &Output) -> Result<Exit> {
    let keys = log_keys(home, args.log_key.as_deref())?;
    let origin = keys
        .first()
        .map(|(key, _)| key.name().to_owned())
        .unwrap_or_default();
    match verify_under(&keys, &read(&args.file)?) {
        Ok(forwarded) => {
            print_genuine(&forwarded, &origin, output)?;
            Ok(Exit::Success)
        }
        Err(error) if error.is_unreadable() => bail!("`{}`: {error}", args.file.display()),
        Err(error) => {
            if output.is_json() {
                output.json(&json!({"genuine": false, "log": origin, "why": error.to_string()}))?;
            } else {
                output.remark(&format!("NOT GENUINE  `{}`: {error}", args.file.display()));
            }
            Ok(Exit::Refused)
        }
    }
}

/// Returns the members of a JSON object as text: an envelope may hold numbers that no Rust number
/// can hold.
fn members(text: &str) -> Result<BTreeMap<String, &RawValue>> {
    Ok(serde_json::from_str(text)?)
}

/// The JSON output for a genuine file.
#[derive(Serialize)]
struct Genuine<'a> {
    genuine: bool,
    log: &'a str,
    receipt_id: &'a str,
    request_id: &'a str,
    request_hash: &'a str,
    envelope_sha256: &'a str,
    tenant_id: Option<&'a RawValue>,
    surface_id: Option<&'a RawValue>,
    causality: Option<&'a RawValue>,
}

fn print_genuine(forwarded: &Forwarded, origin: &str, output: &Output) -> Result<()> {
    let envelope = members(&forwarded.envelope)?;
    let causality = match envelope.get("causality") {
        Some(text) if text.get().starts_with('{') => members(text.get())?,
        _ => BTreeMap::new(),
    };
    if output.is_json() {
        return output.json(&Genuine {
            genuine: true,
            log: origin,
            receipt_id: &forwarded.claim.receipt_id,
            request_id: &forwarded.claim.request_id,
            request_hash: &forwarded.claim.request_hash,
            envelope_sha256: &forwarded.claim.envelope_sha256,
            tenant_id: envelope.get("tenant_id").copied(),
            surface_id: envelope.get("surface_id").copied(),
            causality: envelope.get("causality").copied(),
        });
    }
    let shown = |value: Option<&&RawValue>| match value {
        Some(value) => serde_json::from_str(value.get()).unwrap_or_else(|_| value.get().to_owned()),
        None => "-".to_owned(),
    };
    let of = |key: &str| shown(causality.get(key));
    let task = format!(
        "root {}, depth {}, {}",
        of("root_task_id"),
        of("spawn_depth"),
        of("capability_id")
    );
    let rows: Vec<Vec<String>> = [
        ("receipt", forwarded.claim.receipt_id.clone()),
        ("request", forwarded.claim.request_id.clone()),
        ("tenant", shown(envelope.get("tenant_id"))),
        ("surface", shown(envelope.get("surface_id"))),
        ("task", task),
        (
            "genuine",
            format!("log {origin} admitted this; it cannot tell whether the file was used before"),
        ),
    ]
    .map(|(name, value)| vec![name.to_owned(), value])
    .to_vec();
    output.table(&["forwarded", ""], &[], &rows)
}
