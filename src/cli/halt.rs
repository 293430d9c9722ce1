//! `spoolgate halt`: stops entries, and allows them again. Exits are never halted.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use spoolgate_client as agent;
use spoolgate_home::rulebook::{FLATTEN, flattens};
use spoolgate_host::lock::LOCK_FILE;
use spoolgate_host::rule_folder::HALT_FILE;
use spoolgate_host::spool::publish::RESERVE_DIR;
use spoolgate_ledger::disk::is_full;
use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::answer::{Answer, AnswerError};
use spoolgate_wire::code::{Code, Exit};

use super::handover::{self, Person};
use super::look;
use super::output::{Output, causes};

/// The commands.
#[derive(clap::Subcommand)]
pub(super) enum Command {
    /// Halt the entries of all principals, or of one principal, strategy, symbol or bridge.
    #[command(
        after_help = "Examples:\n  spoolgate halt set --reason \"exchange trouble\"\n  spoolgate \
            halt set --principal trend-bot --reason drill\n  spoolgate halt set --symbol BTC-USD \
            --keep-orders --reason \"odd prices\"\n\nIt pulls the entries that work, unless \
            --keep-orders is given. If the request does not halt, for whatever \
            reason but a slip (a principal that does not\nexist, or that --as names and that may \
            not), the file rules/HALT is created instead, which halts\nthe entries of all principals, \
            and the exit code is 0."
    )]
    Set(SetArgs),
    /// Clear a halt, the latched drawdown, or the closure of a strategy or a symbol.
    #[command(
        after_help = "Examples:\n  spoolgate halt clear --reason \"exchange is back\"\n  \
            spoolgate halt clear --drawdown --reason reviewed\n  spoolgate halt clear --strategy \
            trend --reason reviewed\n  spoolgate halt clear --symbol BTC-USD --reason \"the gap \
            was real\""
    )]
    Clear(ClearArgs),
}

/// Halts entries.
#[derive(clap::Args)]
pub(super) struct SetArgs {
    /// Whose entries to halt; default: those of all principals.
    #[arg(long)]
    principal: Option<String>,
    #[command(flatten)]
    on: Part,
    /// Leave the entries that work already where they are.
    #[arg(long)]
    keep_orders: bool,
    /// The reason; it is recorded in the ledger.
    #[arg(long)]
    reason: String,
    #[command(flatten)]
    by: Person,
}

/// A part of the account.
#[derive(clap::Args)]
pub(super) struct Part {
    /// Only this strategy.
    #[arg(long)]
    pub(super) strategy: Option<String>,
    /// Only this symbol.
    #[arg(long)]
    pub(super) symbol: Option<String>,
    /// Only what goes through this bridge.
    #[arg(long)]
    pub(super) bridge: Option<String>,
}

impl Part {
    /// The part that is named, such as "strategy `trend`".
    pub(super) fn in_words(&self) -> Option<String> {
        let (kind, name) = self.members().into_iter().next()?;
        Some(format!("{kind} `{}`", name.as_str()?))
    }

    /// The parts that are named, with the names of their members in a request. The gate refuses more
    /// than one.
    pub(super) fn members(&self) -> serde_json::Map<String, serde_json::Value> {
        let named = [
            ("strategy", &self.strategy),
            ("symbol", &self.symbol),
            ("bridge", &self.bridge),
        ];
        let named = named
            .into_iter()
            .filter_map(|(key, name)| Some((key.to_owned(), name.as_deref()?.into())));
        named.collect()
    }
}

/// Clears a halt.
#[derive(clap::Args)]
pub(super) struct ClearArgs {
    /// The halt of one principal; default: the halt of all principals.
    #[arg(long)]
    principal: Option<String>,
    /// The latched drawdown; its peak starts again at the current equity.
    #[arg(long, conflicts_with = "principal")]
    drawdown: bool,
    /// The halt of one strategy, and its closure after losses or refusals in a row or too frequent
    /// executions.
    #[arg(long, conflicts_with_all = ["principal", "drawdown"])]
    strategy: Option<String>,
    /// The halt of one symbol, and its closure after an implausible price gap or a doubt.
    #[arg(long, conflicts_with_all = ["principal", "drawdown", "strategy"])]
    symbol: Option<String>,
    /// The halt of what goes through one bridge.
    #[arg(long, conflicts_with_all = ["principal", "drawdown", "strategy", "symbol"])]
    bridge: Option<String>,
    /// The reason; it is recorded in the ledger.
    #[arg(long)]
    reason: String,
    #[command(flatten)]
    by: Person,
}

/// How long a halt waits for a running gate before it falls back to the file.
const WAIT: Duration = Duration::from_secs(5);

/// How entries were halted, or why not.
pub(super) enum Stop {
    /// The gate answered the request: it halts, or a slip of the person was refused.
    Answered(Box<Answer>),
    /// The file `rules/HALT` halts the entries of everybody.
    Braked,
    /// Nothing halts them.
    Failed(Result<Exit>),
}

/// Halts entries by a request, or else by the file `rules/HALT`.
fn set(home: &Path, args: &SetArgs, output: &Output) -> Result<Exit> {
    let mut payload = args.on.members();
    payload.insert("reason".to_owned(), args.reason.as_str().into());
    if let Some(name) = &args.principal {
        payload.insert("principal".to_owned(), name.as_str().into());
    }
    if args.keep_orders {
        payload.insert("keep_orders".to_owned(), true.into());
    }
    match stop(home, &args.by, payload, false, output) {
        Stop::Answered(answer) => handover::report(Some(&answer), output, |answer| {
            let of = whose(answer).map(|name| format!(" of `{name}`"));
            let of = of.or_else(|| args.on.in_words().map(|part| format!(" of {part}")));
            let working = if args.keep_orders {
                "stay, unless another halt pulls them"
            } else {
                "are pulled"
            };
            format!(
                "entries{} are halted and working entries {working}; exits are still allowed \
                    (ledger line {})",
                of.unwrap_or_default(),
                answer.audit_ref
            )
        }),
        Stop::Braked => {
            let done = "`rules/HALT` was created instead: entries of all principals are halted until \
                you remove it, and exits are still allowed; a running gate records it within seconds";
            if output.is_json() {
                output.json(&serde_json::json!({"halted_by": "rules/HALT"}))?;
            } else {
                output.line(done)?;
            }
            Ok(Exit::Success)
        }
        Stop::Failed(handed) => handed,
    }
}

/// Halts entries by a request with these members, or else by the file `rules/HALT`, which with
/// `flatten` demands that all positions are closed.
pub(super) fn stop(
    home: &Path,
    by: &Person,
    payload: serde_json::Map<String, serde_json::Value>,
    flatten: bool,
    output: &Output,
) -> Stop {
    let payload = serde_json::Value::Object(payload).to_string();
    let answer = match ask(home, by, &payload) {
        Ok(Some(answer)) => answer,
        Ok(None) => {
            output.remark("the running gate did not answer in time");
            return brake(home, Ok(Exit::WaitTimeout), flatten, output);
        }
        Err(error) => return brake(home, Err(error), flatten, output),
    };
    // A slip of the person is told; whatever else keeps the request from halting must not.
    let is_slip = |error: &AnswerError| match error.code {
        Code::NotFound | Code::MalformedPayload => true,
        Code::NotPermitted => !by.is_owner(),
        _ => false,
    };
    if answer.error.as_ref().is_none_or(is_slip) {
        return Stop::Answered(Box::new(answer));
    }
    if let Some(error) = &answer.error {
        output.remark(&format!("{}: {}", error.code, error.message));
    }
    brake(home, Ok(answer.exit()), flatten, output)
}

/// Returns whose entries a halt stops, if it is about one principal.
pub(super) fn whose(answer: &Answer) -> Option<String> {
    let data = serde_json::from_str::<serde_json::Value>(answer.data.as_ref()?.get()).ok()?;
    let name = data.pointer("/HaltSet/principal")?.as_str()?;
    Some(name.to_owned())
}

/// Sends the request. `None` if a running gate did not answer in time.
pub(super) fn ask(home: &Path, by: &Person, payload: &str) -> Result<Option<Answer>> {
    let (person, action) = (&by.person, ActionName::HaltSet.as_str());
    let key = handover::persons_key(home, person)?;
    let envelope = agent::sign(&key, person, action, payload, None, None, None)?;
    handover::answer_within(home, &envelope.to_json(), WAIT)
}

/// Halts entries by the file `rules/HALT`, after a request did not. That needs neither room for
/// data, nor a key, nor a gate that answers. Where no file can be made any more, it is a second name
/// of the lock, which is empty, or one of the files that were made for answers on a full disk.
/// `handed` is the outcome if this fails too.
fn brake(home: &Path, handed: Result<Exit>, flatten: bool, output: &Output) -> Stop {
    // In a folder that is not a home, a file would halt nobody.
    let is_home = ["audit", "state", "spool"]
        .iter()
        .any(|name| home.join(name).is_dir());
    let rules = home.join("rules");
    if !is_home || !rules.is_dir() {
        return Stop::Failed(handed);
    }
    let file = rules.join(HALT_FILE);
    // Whatever is there already, it halts.
    let is_there = file.symlink_metadata().is_ok();
    let flat = if flatten {
        demand_flat(home, &file)
    } else {
        Ok(())
    };
    let made = if is_there || file.symlink_metadata().is_ok() {
        Ok(())
    } else {
        File::create_new(&file).map(drop).or_else(|error| {
            if is_full(&error) {
                fs::hard_link(home.join(LOCK_FILE), &file).or_else(|_| take_spare(home, &file))
            } else {
                Err(error)
            }
        })
    };
    let made = made.and_then(|()| File::open(&rules)?.sync_all());
    if let Err(source) = made {
        output.remark(&format!(
            "`{}` could not be created either: {source}; stop the gate, which stops entries",
            file.display()
        ));
        return Stop::Failed(handed);
    }
    if let Err(error) = handed {
        output.remark(&causes(&error));
    }
    if let Err(why) = flat {
        output.remark(&format!(
            "`{}` halts entries, and cannot demand that positions are closed: {why}; write \
                `flatten` into its first line",
            file.display()
        ));
    }
    Stop::Braked
}

/// Makes the halt file demand that positions are closed, whatever it says besides. Where there is no
/// room for another file, it is one of those that were made for answers on a full disk.
fn demand_flat(home: &Path, file: &Path) -> io::Result<()> {
    let said = match file.symlink_metadata() {
        Ok(found) if found.is_file() => fs::read(file)?,
        Ok(_) => return Err(io::Error::other("it is not a file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error),
    };
    if flattens(&said) {
        return Ok(());
    }
    let fresh = file.with_file_name(".HALT.new");
    let write = |options: &mut fs::OpenOptions, text: &[u8]| {
        let mut written = options.write(true).open(&fresh)?;
        written.write_all(text)?;
        written.set_len(u64::try_from(text.len()).unwrap_or(u64::MAX))?;
        written.sync_all()?;
        fs::rename(&fresh, file)
    };
    let line = [FLATTEN, b"\n"].concat();
    let whole = [&line[..], &said].concat();
    let made = write(File::options().create(true), &whole);
    made.or_else(|error| {
        if !is_full(&error) {
            return Err(error);
        }
        take_spare(home, &fresh)?;
        write(&mut File::options(), &line)
    })
}

/// Gives the file that halts the inode of one that is not needed. The gate makes that one again when
/// there is room.
fn take_spare(home: &Path, file: &Path) -> io::Result<()> {
    let spare = fs::read_dir(home.join(RESERVE_DIR))?.next();
    fs::rename(spare.ok_or(io::ErrorKind::StorageFull)??.path(), file)
}

/// Runs a command.
pub(super) fn run(home: &Path, command: &Command, output: &Output) -> Result<Exit> {
    match command {
        Command::Set(args) => set(home, args, output),
        Command::Clear(args) => {
            let (scope, what) = match (&args.principal, &args.strategy, &args.symbol, args.drawdown)
            {
                _ if args.bridge.is_some() => (
                    serde_json::json!({"bridge": args.bridge}),
                    "no halt of the bridge is in force any more".to_owned(),
                ),
                (Some(name), ..) => (
                    serde_json::json!({"principal": name}),
                    format!("no halt of `{name}` alone is in force any more"),
                ),
                (None, Some(name), ..) => (
                    serde_json::json!({"strategy": name}),
                    format!(
                        "no halt of strategy `{name}` is in force any more; its losses and refusals \
                            in a row and its executions count from zero again"
                    ),
                ),
                (None, None, Some(symbol), _) => (
                    serde_json::json!({"symbol": symbol}),
                    format!("what closed `{symbol}` is cleared"),
                ),
                (None, None, None, true) => (
                    serde_json::json!("drawdown"),
                    "the latched drawdown is cleared".to_owned(),
                ),
                (None, None, None, false) => (
                    serde_json::json!("all"),
                    "no halt of everybody is in force any more".to_owned(),
                ),
            };
            let payload = serde_json::json!({"scope": scope, "reason": args.reason});
            let exit = handover::administer(
                home,
                &args.by.person,
                ActionName::HaltClear,
                &payload,
                output,
                |answer| format!("{what} (ledger line {})", answer.audit_ref),
            )?;
            if exit == Exit::Success {
                look::remark_closed(home, output)?;
            }
            Ok(exit)
        }
    }
}
