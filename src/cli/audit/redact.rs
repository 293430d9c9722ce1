//! `audit redact`: deletes sealed fields of a request for good. Only a person on the gate's own
//! machine can do it.

use std::path::Path;

use anyhow::{Context, Result, bail};
use spoolgate_home::redact::{Asked, Plan, RedactError, is_named, user};
use spoolgate_home::{Home, HomeError, read};
use spoolgate_wire::code::Exit;
use spoolgate_wire::ids::RequestId;

use crate::cli::output::{self, Output};

/// What to redact, and why.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Number of the request's ledger line, or its id.
    request: String,
    /// JSON pointer of a sealed field, such as /artifacts/diff_content, or `data`, `message` or
    /// `complaint` of the result; default: all of them.
    #[arg(long, value_name = "POINTER")]
    field: Vec<String>,
    /// The reason; it stays in the ledger for ever.
    #[arg(long)]
    reason: String,
    /// Redact. Without this, the command only prints what it would do.
    #[arg(long)]
    yes: bool,
}

/// The result, as JSON output.
#[derive(serde::Serialize)]
struct Told<'a> {
    is_done: bool,
    lines: Vec<u64>,
    fields: Vec<&'a str>,
    /// The earlier line that already redacted them.
    before: Option<u64>,
}

/// Redacts the fields.
pub(super) fn run(home: &Path, args: &Args, output: &Output) -> Result<Exit> {
    let mut opened = match Home::open_briefly(home, read::real_seams(home)?) {
        Err(HomeError::Busy(_)) => {
            output.remark("a gate runs on this home; stop it, redact, and start it again");
            return Ok(Exit::Busy);
        }
        other => other?,
    };
    let told = redact(&mut opened, args, output);
    opened.settle()?;
    told
}

fn redact(home: &mut Home, args: &Args, output: &Output) -> Result<Exit> {
    let lines = match args.request.parse() {
        Ok(seq) => home.lines_of_request(seq),
        Err(_) => {
            let id = RequestId::parse(&args.request).with_context(|| {
                format!(
                    "`{}` is neither a line number nor a request id",
                    args.request
                )
            })?;
            home.lines_of_id(&id)
        }
    };
    let by = user(
        std::env::var("USER").ok().as_deref(),
        rustix::process::getuid().as_raw(),
    );
    let (fields, reason) = (args.field.clone(), args.reason.clone());
    let plan = lines.and_then(|lines| {
        let asked = Asked {
            lines,
            fields,
            reason,
            by,
        };
        if args.yes {
            home.redact(&asked)
        } else {
            home.plan_redaction(&asked)
        }
    });
    let plan = match plan {
        Ok(plan) => plan,
        Err(RedactError::Home(error)) => {
            if args.yes && error.exit() == Exit::Storage {
                output.remark(
                    "the content may still be there; repeat the command, which finishes what a line \
                        records already, and see `audit verify`",
                );
            }
            return Err(error.into());
        }
        Err(RedactError::Refused(why)) => bail!(why),
    };
    print(home, &plan, args.yes, output)
}

fn print(home: &Home, plan: &Plan, is_done: bool, output: &Output) -> Result<Exit> {
    let (lines, mut fields, before) = match plan {
        Plan::Done(line) => (Vec::new(), Vec::new(), Some(*line)),
        Plan::Delete(of) => {
            let all = of.values().flatten().filter(|field| is_named(field));
            (
                of.keys().copied().collect::<Vec<u64>>(),
                all.map(|field| field.field.as_str()).collect(),
                None,
            )
        }
    };
    fields.sort_unstable();
    fields.dedup();
    if output.is_json() {
        output.json(&Told {
            is_done: is_done && before.is_none(),
            lines,
            fields,
            before,
        })?;
        return Ok(Exit::Success);
    }
    if let Some(line) = before {
        output.line(&format!("redacted already, in line {line}"))?;
        return Ok(Exit::Success);
    }
    let shown: Vec<&str> = fields
        .iter()
        .map(|field| {
            if field.is_empty() {
                "the payload"
            } else {
                field
            }
        })
        .collect();
    let lines_shown: Vec<String> = lines.iter().map(u64::to_string).collect();
    let what = format!("{} of line {}", shown.join(", "), lines_shown.join(", "));
    if !is_done {
        output.line(&output::plain(&format!(
            "would redact {what} for ever; --yes does it"
        )))?;
        return Ok(Exit::Success);
    }
    let has_hashes = matches!(plan, Plan::Delete(of)
        if of.values().flatten().any(|field| !is_named(field)));
    let hashes = if has_hashes {
        " and its signed hashes"
    } else {
        ""
    };
    output.line(&output::plain(&format!("redacted {what}{hashes}")))?;
    let naming = home.verdicts_naming_the_hash(&lines)?;
    if !naming.is_empty() {
        let naming: Vec<String> = naming.iter().map(u64::to_string).collect();
        output.remark(&format!(
            "verdicts in lines {} contain the unsalted hash of the request: a reader who guesses \
                the whole request can confirm the guess",
            naming.join(", ")
        ));
    }
    output.remark(
        "copies that others made, backups, snapshots and freed blocks of the disk still contain it",
    );
    Ok(Exit::Success)
}
