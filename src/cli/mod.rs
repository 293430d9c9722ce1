//! The command line: one file per command, which parses, calls and prints. It makes no decisions.

mod account;
mod actions;
mod admit;
mod approvals;
mod audit;
mod bridge_test;
mod bridges;
mod clock;
mod completions;
mod control;
mod council;
mod demo;
mod demo_day;
mod deploy;
mod doctor;
mod explain;
mod explain_words;
mod funding;
mod halt;
mod handle;
mod handover;
mod heartbeat;
mod init;
mod keys;
mod kill;
mod limits;
mod look;
mod man;
mod market;
mod market_show;
mod notify;
mod orders;
mod output;
mod positions;
mod progress;
mod proposals;
mod rebuild;
mod report;
mod rules;
mod run;
mod schema;
mod schema_of_home;
mod selftest;
mod services;
mod sign;
mod status;
mod strategies;
mod submit;
mod suspect;
mod theses;
mod watch;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Result, bail};
use clap::{Parser, Subcommand};
use spoolgate_home::HomeError;
use spoolgate_wire::code::Exit;

use output::{Format, Output};

/// A hard boundary between software agents and money, mail and rules.
///
/// Agents drop signed JSON files into spool/in; the gate checks each one against rules that agents
/// cannot edit, answers in spool/out, and writes every decision to a ledger that anybody can
/// verify.
#[derive(Parser)]
#[command(
    version,
    after_help = "Examples:\n  spoolgate demo                      a day of real prices in a \
        scratch home\n  spoolgate init my-home              a new home\n  spoolgate --home \
        my-home watch      decide requests as they come\n  spoolgate audit verify              \
        check the whole ledger\n\nExit codes: 0 success, 1 refused, 2 malformed or usage, 3 needs \
        approval, 4 rate limited,\n5 ledger corrupt, 6 storage failure, 7 busy (another gate \
        holds the lock), 8 --wait timed out"
)]
struct Cli {
    /// The directory of the home.
    #[arg(long, global = true, default_value = ".", value_name = "DIR")]
    home: PathBuf,
    /// The file with the key to the keyring, if it is not state/keyring.key in the home.
    #[arg(long, global = true, value_name = "FILE")]
    keyring_key: Option<PathBuf>,
    /// How to print: tables for people, JSON for programs.
    #[arg(long, global = true, default_value = "table", value_enum)]
    format: Format,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Play one real day through the gate in a scratch home.
    Demo(demo::Args),
    /// Make a new home: folders, rule files, keyring, ledger.
    Init(init::Args),
    /// Add, list, rotate and revoke keys.
    #[command(
        subcommand,
        after_help = "Examples:\n  spoolgate keys add trend-bot --out bot.key\n  spoolgate keys \
            list"
    )]
    Keys(keys::Command),
    /// Sign a payload and print the envelope.
    Sign(sign::Args),
    /// Drop signed files into the spool, as an agent does.
    Submit(submit::Args),
    /// Decide one signed file at once and print the answer.
    Handle(handle::Args),
    /// Decide what is in the spool, then end.
    Run(run::Args),
    /// Decide requests as they come, until stopped.
    Watch(watch::Args),
    /// Prices and funding rates.
    #[command(
        subcommand,
        after_help = "Examples:\n  spoolgate market import bars.csv --symbol BTC-USD --interval 1m \
            --at-end-of close"
    )]
    Market(market::Command),
    /// Show the account, positions and stops.
    #[command(
        after_help = "Examples:\n  spoolgate portfolio\n  spoolgate --format json portfolio | jq \
            .equity"
    )]
    Portfolio,
    /// Show open orders.
    #[command(
        after_help = "Examples:\n  spoolgate orders\n  spoolgate --format json orders | jq -r \
            .order_id"
    )]
    Orders,
    /// Cancel an order, whoever sent it.
    #[command(
        subcommand,
        after_help = "Examples:\n  spoolgate order cancel o-12 --reason \"wrong price\""
    )]
    Order(orders::Command),
    /// Close entries, and positions if asked to, and wait until that is confirmed.
    Kill(kill::Args),
    /// Close a position at the market.
    Close(orders::CloseArgs),
    /// Bring a position of the book in line with its venue.
    #[command(
        subcommand,
        after_help = "Examples:\n  spoolgate position adjust --strategy trend --symbol BTC-USD --size \
            -0.0001 --price 6795 --reason \"a fee that the venue took in coins\""
    )]
    Position(positions::Command),
    /// Show executions.
    Fills(look::FillsArgs),
    /// Explain in words what was asked, what was decided and why, and what has happened since.
    Explain(explain::Args),
    /// Trip every check on a scratch copy of the rules in force.
    Selftest(selftest::Args),
    /// Verify and read the ledger.
    #[command(
        subcommand,
        after_help = "Examples:\n  spoolgate audit verify\n  spoolgate audit tail -n 5\n  \
            spoolgate audit show my-request-id"
    )]
    Audit(audit::Command),
    /// Cases before the council: decide, brief, list, show, wait.
    #[command(
        subcommand,
        after_help = "Examples:\n  spoolgate council list --open\n  spoolgate council brief req_1 \
            \"Risk Officer\"\n  spoolgate council decide request.json verdict-*.json"
    )]
    Council(council::Command),
    /// Admission of tasks: ask whether a task may be created, and check forwarded tasks.
    #[command(
        subcommand,
        after_help = "Examples:\n  spoolgate admit check task.json --as research-bot\n  spoolgate \
            admit admit task.json --as research-bot --id task-001\n  spoolgate admit verify \
            spool/forward/agents/r-42.json"
    )]
    Admit(admit::Command),
    /// Decide which strategy of a concern runs.
    #[command(
        subcommand,
        after_help = "Examples:\n  spoolgate control apply pause.json\n  spoolgate control apply \
            pause.json --as hermes --key hermes.key"
    )]
    Control(control::Command),
    /// The registry of strategies.
    #[command(
        subcommand,
        after_help = "Examples:\n  spoolgate strategies list\n  spoolgate strategies show trend"
    )]
    Strategies(strategies::Command),
    /// Theses: which ones there are, and what is wrong with their files.
    #[command(
        subcommand,
        after_help = "Examples:\n  spoolgate theses list\n  spoolgate theses lint proposals/theses"
    )]
    Theses(theses::Command),
    /// Outgoing actions: which are open, and the results of the others.
    #[command(
        subcommand,
        after_help = "Examples:\n  spoolgate actions open\n  spoolgate actions list -n 50"
    )]
    Actions(actions::Command),
    /// Requests that rules hold: show, grant, deny.
    #[command(
        subcommand,
        after_help = "Examples:\n  spoolgate approvals list\n  spoolgate approvals show h-42\n  \
            spoolgate approvals grant h-42"
    )]
    Approvals(approvals::Command),
    /// Values that are in a set for one task.
    #[command(
        subcommand,
        after_help = "Examples:\n  spoolgate grants list\n  spoolgate grants add --set hosts \
            --value example.org --task research/task-001 --until 2026-03-02T18:00:00Z"
    )]
    Grants(approvals::Grants),
    /// Changes of rules that agents propose: list, show, approve, decline, revert.
    #[command(
        subcommand,
        after_help = "Examples:\n  spoolgate proposals list --pending\n  spoolgate proposals show \
            p-42\n  spoolgate proposals approve p-42"
    )]
    Proposals(proposals::Command),
    /// Rules: what they may read, what is wrong with them, what they do.
    #[command(
        subcommand,
        after_help = "Examples:\n  spoolgate rules lint\n  spoolgate rules test\n  spoolgate rules \
            fields --action order.submit"
    )]
    Rules(rules::Command),
    /// Where outgoing actions may go: list, add, remove, deactivate; credentials.
    #[command(
        subcommand,
        after_help = "Examples:\n  spoolgate services list\n  spoolgate services add bank \
            api.bank.example --method GET\n  spoolgate services credential set bank --from \
            token.txt"
    )]
    Services(services::Command),
    /// Programs that tell people what happens: try them.
    #[command(
        subcommand,
        after_help = "Examples:\n  spoolgate notify test\n  spoolgate notify test phone"
    )]
    Notify(notify::Command),
    /// Programs between the gate and an exchange: test them.
    #[command(
        subcommand,
        after_help = "Examples:\n  spoolgate bridge test --list\n  spoolgate bridge test python3 \
            my_bridge.py"
    )]
    Bridge(bridge_test::Command),
    /// Halt entries, or allow them again.
    #[command(
        subcommand,
        after_help = "Examples:\n  spoolgate halt set --reason \"exchange trouble\"\n  spoolgate \
            halt clear --reason \"exchange is back\""
    )]
    Halt(halt::Command),
    /// Other values of limits for a while.
    #[command(
        subcommand,
        after_help = "Examples:\n  spoolgate limits list\n  spoolgate limits override \
            max_single_position 0.08 --until 2h --reason \"the roll of the future\"\n  spoolgate \
            limits end max_single_position"
    )]
    Limits(limits::Command),
    /// Vouch for an agent whose entries the dead man's switch has closed.
    Heartbeat(heartbeat::Args),
    /// Deposits and withdrawals.
    #[command(
        subcommand,
        after_help = "Examples:\n  spoolgate account deposit 5000 --reason \"opening balance\""
    )]
    Account(account::Command),
    /// Accept the machine's clock after a step.
    #[command(
        subcommand,
        after_help = "Examples:\n  spoolgate clock accept --reason \"NTP was off, checked\""
    )]
    Clock(clock::Command),
    /// Rebuild state.db from the ledger.
    #[command(
        after_help = "Examples:\n  spoolgate rebuild\n\nNothing is lost: the ledger holds \
            everything that is in state.db."
    )]
    Rebuild,
    /// Show whether a gate is running, what is left in the spool, and what keeps entries closed.
    Status(status::Args),
    /// Check this machine and this home for problems, and say how to fix them.
    Doctor(doctor::Args),
    /// Write one page for people: equity, decisions, refusals, cases, the ledger.
    Report(report::Args),
    /// JSON Schemas of requests, answers and rule files.
    Schema(schema::Args),
    /// Completions for a shell.
    Completions(completions::Args),
    /// Man pages of all commands.
    Man(man::Args),
    /// Try a claim over which the gate has died; the gate runs this.
    Suspect(suspect::Args),
}

/// Makes a write beyond the file size limit (`ulimit -f`) fail like a write to a full disk. Without
/// a handler, its signal would end the process before it could report the error.
fn fail_at_the_file_size_limit() {
    let noticed = Arc::new(AtomicBool::new(false));
    // If registering fails, the signal keeps its default effect.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, noticed);
}

/// Parses the command line, runs the command, and turns the result into an exit code.
pub(crate) fn run() -> ExitCode {
    fail_at_the_file_size_limit();
    // If adopting fails, processes that adapters leave behind keep running: docs/gateway.md.
    let _ = spoolgate_host::orphans::adopt();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // clap prints help to standard output with exit code 0, errors to standard error
            // with 2.
            let _ = error.print();
            return ExitCode::from(
                u8::try_from(error.exit_code()).unwrap_or(Exit::Malformed as u8),
            );
        }
    };
    let output = Output::new(cli.format);
    match dispatch(&cli, &output) {
        Ok(exit) => ExitCode::from(exit as u8),
        Err(error) if output::is_broken_pipe(&error) => ExitCode::from(output.exit() as u8),
        Err(error) => {
            // Errors of the home have their own codes and exit codes; any other error is one of the
            // machine or of the command line, after which systemd does not start the gate again.
            let of_home = error
                .chain()
                .find_map(|cause| cause.downcast_ref::<HomeError>());
            let other = if output::is_unwritten(&error) || output::is_of_machine(&error) {
                Exit::Storage
            } else {
                Exit::Malformed
            };
            let exit = of_home.map_or(other, HomeError::exit);
            output.error(&error, of_home.and_then(HomeError::code), exit);
            ExitCode::from(exit as u8)
        }
    }
}

fn dispatch(cli: &Cli, output: &Output) -> Result<Exit> {
    if matches!(cli.format, Format::Csv | Format::Jsonl)
        && !matches!(&cli.command, Command::Audit(command) if command.is_export())
    {
        bail!(
            "only `spoolgate audit export` prints `csv` and `jsonl`; all commands print `table` \
                and `json`"
        );
    }
    let home = cli.home.as_path();
    if let Some(path) = &cli.keyring_key {
        spoolgate_host::keyring::name_key_file(path.clone());
    }
    match &cli.command {
        Command::Demo(args) => demo::run(args, output),
        Command::Init(args) => init::run(home, args, output),
        Command::Keys(command) => keys::run(home, command, output),
        Command::Sign(args) => sign::run(home, args, output),
        Command::Submit(args) => submit::run(home, args, output),
        Command::Handle(args) => handle::run(home, args, output),
        Command::Run(args) => run::run(home, args, output),
        Command::Watch(args) => watch::run(home, args, output),
        Command::Market(command) => market::run(home, command, output),
        Command::Portfolio => look::portfolio(home, output),
        Command::Orders => look::orders(home, output),
        Command::Order(command) => orders::run(home, command, output),
        Command::Kill(args) => kill::run(home, args, output),
        Command::Close(args) => orders::close(home, args, output),
        Command::Position(command) => positions::run(home, command, output),
        Command::Fills(args) => look::fills(home, args, output),
        Command::Explain(args) => explain::run(home, args, output),
        Command::Selftest(args) => selftest::run(home, args, output),
        Command::Audit(command) => audit::run(home, command, output),
        Command::Council(command) => council::run(home, command, output),
        Command::Admit(command) => admit::run(home, command, output),
        Command::Control(command) => control::run(home, command, output),
        Command::Strategies(command) => strategies::run(home, command, output),
        Command::Theses(command) => theses::run(home, command, output),
        Command::Actions(command) => actions::run(home, command, output),
        Command::Approvals(command) => approvals::run(home, command, output),
        Command::Grants(command) => approvals::run_grants(home, command, output),
        Command::Proposals(command) => proposals::run(home, command, output),
        Command::Rules(command) => rules::run(home, command, output),
        Command::Services(command) => services::run(home, command, output),
        Command::Notify(command) => notify::run(home, command, output),
        Command::Bridge(command) => bridge_test::run(command, output),
        Command::Halt(command) => halt::run(home, command, output),
        Command::Limits(command) => limits::run(home, command, output),
        Command::Heartbeat(args) => heartbeat::run(home, args, output),
        Command::Account(command) => account::run(home, command, output),
        Command::Clock(command) => clock::run(home, command, output),
        Command::Rebuild => rebuild::run(home, output),
        Command::Status(args) => status::run(home, args, output),
        Command::Doctor(args) => doctor::run(home, args, output),
        Command::Report(args) => report::run(home, args, output),
        Command::Schema(args) => schema::run(home, args, output),
        Command::Completions(args) => completions::run(args, output),
        Command::Man(args) => man::run(args, output),
        Command::Suspect(args) => suspect::run(home, args, output),
    }
}
