//! `spoolgate-mcp` offers the agent's side of the gate to a model as tools, on standard input and
//! output (docs/mcp.md). It signs with the agent's key, hands requests to the spool or the socket,
//! and reports what was decided. In a home it opens only the spool folders and, read-only for
//! resources, the rule files and the ledger's checkpoint.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a program: it reads files and its environment"
)]

mod arguments;
mod body;
mod desk;
mod explain;
mod frame;
mod quiet;
mod raw;
mod resources;
mod said;
mod schema;
mod server;
mod stdio;
mod told;
mod tools;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Parser;
use rmcp::ServiceExt;
use spoolgate_client::spool::Spool;
use spoolgate_client::{Door, KeyFile};
use spoolgate_wire::ids::Principal;

use desk::Desk;
use server::{Names, Offer, Server};

/// Maximum number of calls that wait for the gate at a time; further calls wait for a free place.
const CALLS_MAX: usize = 64;
/// Exit code of a wrong command line, the same as in `spoolgate`.
const MALFORMED: u8 = 2;

/// Offers a gate's actions to a model as tools, over the Model Context Protocol on standard input
/// and output.
#[derive(Parser)]
#[command(
    name = "spoolgate-mcp",
    version,
    after_help = "Examples:\n  spoolgate-mcp --home my-home --as trend-bot --key bot.key\n  \
        spoolgate-mcp --home my-home --as trend-bot --key bot.key --agent trend-bot --wait 30\n  \
        spoolgate-mcp --home my-home --as trend-bot --key bot.key --socket my-home/gate.sock\n  \
        spoolgate-mcp --home my-home --as trend-bot --key bot.key --allow trading --allow rules"
)]
struct Args {
    /// The home of the gate.
    #[arg(long, value_name = "DIR")]
    home: PathBuf,
    /// The principal that signs the requests.
    #[arg(long = "as", value_name = "PRINCIPAL", value_parser = Principal::parse)]
    principal: Principal,
    /// The key file of the principal, as written by `spoolgate keys add`; only its owner may be
    /// able to read it.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// Use this agent's own spool directory instead of the flat spool.
    #[arg(long, value_name = "NAME", value_parser = Principal::parse, conflicts_with = "socket")]
    agent: Option<Principal>,
    /// Use the gate's socket instead of the spool.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// How long to wait for an answer.
    #[arg(long, value_name = "SECONDS", default_value_t = 60,
        value_parser = clap::value_parser!(u64).range(0..=3600))]
    wait: u64,
    /// Offer only this tool, or the tools of this group: trading, rules, council, control, admission
    /// or assistant. May be repeated. Absent: all tools.
    #[arg(long, value_name = "TOOL|GROUP")]
    allow: Vec<String>,
    /// The names to list. Calls may use both.
    #[arg(long, value_name = "NAMES", default_value = "plain")]
    names: Names,
    /// List the schema of every tool's result too.
    #[arg(long)]
    schemas: bool,
}

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            // Help goes to standard output with exit code 0, errors to standard error with 2.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(MALFORMED));
        }
    };
    match serve(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If standard error cannot be written either, there is nobody left to inform.
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::from(MALFORMED)
        }
    }
}

fn serve(args: Args) -> Result<()> {
    let offer = Offer {
        tools: tools::offered(&args.allow)?,
        names: args.names,
        has_output_schemas: args.schemas,
    };
    let key = KeyFile::read_private(&args.key, &args.principal)?.sign_key()?;
    let door = match args.socket {
        Some(path) => Door::Socket(path),
        None => Door::Spool(Spool::of(&args.home, args.agent.as_ref())?),
    };
    let desk = Desk::new(
        args.home,
        args.principal,
        key,
        door,
        Duration::from_secs(args.wait),
    );
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .max_blocking_threads(CALLS_MAX)
        .build()
        .context("the runtime")?;
    let (transport, writer) = stdio::open();
    let served = runtime.block_on(async {
        let running = match Server::new(offer, desk).serve(transport).await {
            Ok(running) => running,
            // The client closed the connection before it sent anything: nothing to do.
            Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
            Err(error) => bail!("the handshake: {error}"),
        };
        running.waiting().await.context("the connection")?;
        Ok(())
    });
    // The client is gone: do not wait for calls that still wait for an answer.
    runtime.shutdown_background();
    let _ = writer.join();
    served
}
