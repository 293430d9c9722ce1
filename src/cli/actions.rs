//! `spoolgate actions`: outgoing actions and their results. Takes no lock, so it works beside a
//! running gate.

use std::path::Path;

use anyhow::Result;
use serde::Serialize;
use spoolgate_gate::record::{Response, Status};
use spoolgate_gate::{Change, Record};
use spoolgate_home::read::{View, real_seams};
use spoolgate_outgoing::{Change as Step, OpenAction};
use spoolgate_replay::query::{Books, Filter};
use spoolgate_wire::code::{Code, Exit};
use spoolgate_wire::gateway::ActionId;
use spoolgate_wire::time::Time;

use super::look;
use super::output::{Output, short};

/// Longest request id shown in a table, in characters.
const NAME_CHARACTERS_MAX: usize = 40;

/// The commands.
#[derive(clap::Subcommand)]
pub(super) enum Command {
    /// Show actions that have begun and have not ended.
    #[command(
        after_help = "Examples:\n  spoolgate actions open\n  spoolgate --format json actions open \
            | jq -r .id\n\nOnly the running gate knows whether an adapter is at work on one of \
            them. If no gate is running, an earlier one left them\nopen: the next start closes \
            them as UNKNOWN_OUTCOME and never does them again."
    )]
    Open,
    /// Show the newest actions and their results.
    #[command(
        after_help = "Examples:\n  spoolgate actions list\n  spoolgate actions list -n 200\n  \
            spoolgate --format json actions list | jq -c 'select(.code==\"UNKNOWN_OUTCOME\")'"
    )]
    List {
        /// How many to show.
        #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
        recent: usize,
    },
}

/// An action, as it is printed.
#[derive(Serialize)]
struct Shown {
    id: ActionId,
    begun_at: Time,
    action: String,
    source: String,
    request_id: String,
    service: String,
    host: String,
    adapter: String,
    /// `begun`, `success` or `error`.
    state: &'static str,
    /// The ledger line that records the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    response: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<Code>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

impl Shown {
    fn of(open: &OpenAction, response: Option<Response>) -> Shown {
        let state = match response.as_ref().map(|line| line.status) {
            None => "begun",
            Some(Status::Success) => "success",
            Some(_) => "error",
        };
        Shown {
            id: open.id,
            begun_at: open.begun_at,
            action: open.action.clone(),
            source: open.source.to_string(),
            request_id: open.request_id.to_string(),
            service: open.service.to_string(),
            host: open.host.clone(),
            adapter: open.adapter.clone(),
            state,
            response: response.as_ref().map(|line| line.id.clone()),
            ended_at: response.as_ref().map(|line| line.timestamp),
            code: response.as_ref().and_then(|line| line.metadata.code),
            message: response.and_then(|line| line.metadata.message),
        }
    }
}

/// Runs a command.
pub(super) fn run(home: &Path, command: &Command, output: &Output) -> Result<Exit> {
    let (view, _) = look::view(home)?;
    let shown = match command {
        Command::Open => view
            .state
            .actions
            .open
            .values()
            .map(|open| Shown::of(open, None))
            .collect(),
        Command::List { recent } => newest(home, &view, *recent)?,
    };
    print(&shown, output)?;
    Ok(Exit::Success)
}

fn newest(home: &Path, view: &View, count: usize) -> Result<Vec<Shown>> {
    let books = Books::of_home(home, &real_seams(home)?)?;
    let filter = Filter {
        kinds: vec!["request".to_owned()],
        ..Filter::default()
    };
    let mut shown = Vec::new();
    books.find(&filter, Some(count), &mut |line| -> Result<()> {
        let record = Record::parse(&line.kind, &line.body()).map_err(anyhow::Error::msg)?;
        for change in record.iter().flat_map(Record::changes) {
            if let Change::Actions(Step::Opened(open)) = change {
                shown.push(Shown::of(open, view.response_to(line.seq)?));
            }
        }
        Ok(())
    })?;
    Ok(shown)
}

fn print(shown: &[Shown], output: &Output) -> Result<()> {
    if output.is_json() {
        return shown.iter().try_for_each(|action| output.json(action));
    }
    let rows: Vec<Vec<String>> = shown
        .iter()
        .map(|action| {
            vec![
                action.id.to_string(),
                action.begun_at.to_string(),
                action.action.clone(),
                action.source.clone(),
                short(&action.request_id, NAME_CHARACTERS_MAX),
                format!("{} ({})", action.service, action.host),
                action.adapter.clone(),
                action.state.to_owned(),
                action
                    .code
                    .map_or_else(String::new, |code| code.to_string()),
            ]
        })
        .collect();
    let header = [
        "id", "begun", "action", "source", "request", "service", "adapter", "state", "code",
    ];
    output.table(&header, &[], &rows)
}
