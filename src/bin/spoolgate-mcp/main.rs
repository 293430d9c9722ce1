//! `spoolgate-mcp`: the agent's side of the gate as tools of a model, on standard input and output (docs/mcp.md). It signs with
//! the agent's key, hands requests to the spool or the socket, and tells what was decided. Of a home it opens the spool
//! folders, and for resources the rule files and the ledger's checkpoint, read-only.

mod arguments;
mod desk;
mod explain;
mod frame;
mod raw;
mod resources;
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
use spoolgate::agent::spool::Spool;
use spoolgate::agent::{Door, KeyFile};
use spoolgate::wire::ids::Principal;

use desk::Desk;
use server::Server;
use tools::Tool;

/// How many calls may wait for the gate at a time; further ones wait for these.
const CALLS_MAX: usize = 64;
/// The exit code of a wrong command line, as that of `spoolgate`.
const MALFORMED: u8 = 2;

/// The tools of a model that may ask a gate, over the Model Context Protocol on standard input and output.
#[derive(Parser)]
#[command(
    name = "spoolgate-mcp",
    version,
    after_help = "Examples:\n  spoolgate-mcp --home my-home --as trend-bot --key bot.key\n  spoolgate-mcp --home my-home --as trend-bot --key bot.key --agent trend-bot --wait 30\n  spoolgate-mcp --home my-home --as trend-bot --key bot.key --socket my-home/gate.sock\n  spoolgate-mcp --home my-home --as trend-bot --key bot.key --allow portfolio --allow orders"
)]
struct Args {
    /// The home whose gate is asked.
    #[arg(long, value_name = "DIR")]
    home: PathBuf,
    /// Who signs.
    #[arg(long = "as", value_name = "PRINCIPAL", value_parser = Principal::parse)]
    principal: Principal,
    /// Its key file, as `spoolgate keys add` wrote it; nobody else may read it.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// Use this agent's own spool directory instead of the flat spool.
    #[arg(long, value_name = "NAME", value_parser = Principal::parse, conflicts_with = "socket")]
    agent: Option<Principal>,
    /// Ask through the gate's socket instead of the spool.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// How long an answer is waited for.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(0..=3600))]
    wait: u64,
    /// Offer this tool only; may be said several times. Absent: all of them.
    #[arg(long, value_name = "TOOL")]
    allow: Vec<String>,
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
            // Who cannot read what is wrong is not helped by a failure to say it.
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::from(MALFORMED)
        }
    }
}

fn serve(args: Args) -> Result<()> {
    let tools = offered(&args.allow)?;
    let key = KeyFile::read_private(&args.key, &args.principal)?.sign_key()?;
    let door = match args.socket {
        Some(path) => Door::Socket(path),
        None => Door::Spool(Spool::of(&args.home, args.agent.as_ref())?),
    };
    let desk = Desk::new(args.home, args.principal, key, door, Duration::from_secs(args.wait));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .max_blocking_threads(CALLS_MAX)
        .build()
        .context("the runtime")?;
    let (transport, writer) = stdio::open();
    let served = runtime.block_on(async {
        let running = match Server::new(tools, desk).serve(transport).await {
            Ok(running) => running,
            // Who closes the connection before saying anything has nothing more to hear.
            Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
            Err(error) => bail!("the handshake: {error}"),
        };
        running.waiting().await.context("the connection")?;
        Ok(())
    });
    // A call that waits for its answer is not waited for once nobody hears it.
    runtime.shutdown_background();
    let _ = writer.join();
    served
}

/// The tools named, or all.
fn offered(names: &[String]) -> Result<Vec<&'static Tool>> {
    if names.is_empty() {
        return Ok(tools::TOOLS.iter().collect());
    }
    let find = |name: &String| {
        tools::find(name).with_context(|| {
            let known: Vec<&str> = tools::TOOLS.iter().map(|tool| tool.name).collect();
            format!("there is no tool `{}`; --allow takes: {}", name.escape_debug(), known.join(", "))
        })
    };
    names.iter().map(find).collect()
}
