//! `spoolgate services`: the destinations of outgoing actions, and their credentials.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use spoolgate_home::HomeError;
use spoolgate_home::read::{self, View, real_seams};
use spoolgate_host::keyring::SqliteKeyring;
use spoolgate_rules::services::Service;
use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::answer::Answer;
use spoolgate_wire::code::Exit;
use spoolgate_wire::ids::ServiceName;

use super::handover::{self, Person};
use super::look;
use super::output::Output;

/// Maximum size of a secret, in bytes.
const SECRET_BYTES_MAX: usize = 64 * 1024;

/// The commands.
#[derive(clap::Subcommand)]
pub(super) enum Command {
    /// Allow another destination.
    #[command(
        after_help = "Examples:\n  spoolgate services add bank api.bank.example --method \
            GET,POST\n  spoolgate services add mail smtp.example.com --protocol smtp --port 465 \
            --action email.send,email.draft"
    )]
    Add(AddArgs),
    /// Remove a destination and its credential.
    #[command(after_help = "Examples:\n  spoolgate services remove bank")]
    Remove(NameArgs),
    /// Keep a destination in the list, but allow no actions to it.
    #[command(after_help = "Examples:\n  spoolgate services deactivate bank")]
    Deactivate(NameArgs),
    /// Allow a deactivated destination again.
    #[command(after_help = "Examples:\n  spoolgate services activate bank")]
    Activate(NameArgs),
    /// Show the destinations, the actions that may go there, and their adapters.
    #[command(
        after_help = "Examples:\n  spoolgate services list\n  spoolgate --format json services \
            list | jq -r .service"
    )]
    List,
    /// Secrets of services. No agent and no ledger line ever contains one.
    #[command(
        subcommand,
        after_help = "Examples:\n  spoolgate services credential set bank --from token.txt"
    )]
    Credential(Credential),
}

/// Credentials.
#[derive(clap::Subcommand)]
pub(super) enum Credential {
    /// Set the secret that adapters get for actions that go to a service.
    #[command(
        after_help = "Examples:\n  spoolgate services credential set bank --from token.txt     a \
            file that only you may read\n  pass show bank | spoolgate services credential set \
            bank --from -"
    )]
    Set(SetArgs),
    /// Wipe the secret of a service.
    #[command(after_help = "Examples:\n  spoolgate services credential remove bank")]
    Remove(NameArgs),
}

/// Adds a service.
#[derive(clap::Args)]
pub(super) struct AddArgs {
    /// Name of the service, as calls write it.
    #[arg(value_parser = ServiceName::parse)]
    name: ServiceName,
    /// Host of the service: exactly one, without wildcards.
    host: String,
    /// Port of the service; default: the port of the protocol.
    #[arg(long)]
    port: Option<u16>,
    /// Protocol of the service, for the adapter.
    #[arg(long, default_value = "https")]
    protocol: String,
    /// Methods that calls may use: GET, POST, PUT, DELETE, PATCH.
    #[arg(long = "method", value_delimiter = ',')]
    methods: Vec<String>,
    /// Actions that may go there, such as `email.send`.
    #[arg(long = "action", value_delimiter = ',')]
    actions: Vec<String>,
    #[command(flatten)]
    by: Person,
}

/// Names a service.
#[derive(clap::Args)]
pub(super) struct NameArgs {
    /// Name of the service.
    #[arg(value_parser = ServiceName::parse)]
    name: ServiceName,
    #[command(flatten)]
    by: Person,
}

/// Sets a credential.
#[derive(clap::Args)]
pub(super) struct SetArgs {
    /// Name of the service.
    #[arg(value_parser = ServiceName::parse)]
    name: ServiceName,
    /// The file with the secret, which only its owner may be able to read; `-` for standard input.
    /// One line break at its end is removed.
    #[arg(long, value_name = "FILE")]
    from: PathBuf,
    #[command(flatten)]
    by: Person,
}

/// Runs a command.
pub(super) fn run(home: &Path, command: &Command, output: &Output) -> Result<Exit> {
    let change = |args: &NameArgs, action: ActionName, done: &str| {
        let payload = serde_json::json!({"service": args.name});
        handover::administer(home, &args.by.person, action, &payload, output, |answer| {
            format!(
                "service {} {done} (ledger line {})",
                args.name, answer.audit_ref
            )
        })
    };
    match command {
        Command::Add(args) => add(home, args, output),
        Command::Remove(args) => change(
            args,
            ActionName::ServicesRemove,
            "is no longer in the allowlist",
        ),
        Command::Deactivate(args) => change(
            args,
            ActionName::ServicesDeactivate,
            "is not active: no action may go there",
        ),
        Command::Activate(args) => change(args, ActionName::ServicesActivate, "is active"),
        Command::List => list(home, output),
        Command::Credential(Credential::Set(args)) => set(home, args, output),
        Command::Credential(Credential::Remove(args)) => change(
            args,
            ActionName::ServicesCredential,
            "no longer has a credential",
        ),
    }
}

fn add(home: &Path, args: &AddArgs, output: &Output) -> Result<Exit> {
    let mut payload = serde_json::json!({
        "service": args.name, "host": args.host, "protocol": args.protocol, "methods": args.methods,
        "actions": args.actions,
    });
    if let (Some(port), Some(payload)) = (args.port, payload.as_object_mut()) {
        payload.insert("port".to_owned(), port.into());
    }
    handover::administer(
        home,
        &args.by.person,
        ActionName::ServicesAdd,
        &payload,
        output,
        |answer| {
            format!(
                "service {} at {} is allowed (ledger line {})",
                args.name, args.host, answer.audit_ref
            )
        },
    )
}

/// Reads a secret. No error message contains any of it.
fn secret_of(from: &Path) -> Result<String> {
    let mut bytes = Vec::new();
    let most = u64::try_from(SECRET_BYTES_MAX)
        .unwrap_or(u64::MAX)
        .saturating_add(3);
    let told = || format!("credential file `{}`", from.display());
    if from == Path::new("-") {
        io::stdin()
            .take(most)
            .read_to_end(&mut bytes)
            .context("standard input")?;
    } else {
        let file = File::open(from).with_context(told)?;
        let metadata = file.metadata().with_context(told)?;
        if !metadata.is_file() || metadata.permissions().mode() & 0o077 != 0 {
            bail!(
                "{} must be a file that only its owner may read; run chmod 600 on it",
                told()
            );
        }
        file.take(most).read_to_end(&mut bytes).with_context(told)?;
    }
    let Ok(mut text) = String::from_utf8(bytes) else {
        bail!("{} is not UTF-8 text", told())
    };
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    if text.is_empty() {
        bail!("{} is empty", told());
    }
    if text.len() > SECRET_BYTES_MAX {
        bail!("{} is larger than {SECRET_BYTES_MAX} bytes", told());
    }
    Ok(text)
}

fn set(home: &Path, args: &SetArgs, output: &Output) -> Result<Exit> {
    // Check first that there is a home and a person who may ask: otherwise no secret is stored.
    handover::persons_key(home, &args.by.person)?;
    let secret = secret_of(&args.from)?;
    let credential_id = spoolgate_client::random_name()?;
    let keyring = SqliteKeyring::open(home, false).map_err(HomeError::Keyring)?;
    keyring
        .insert_credential(&args.name, &credential_id, &secret)
        .map_err(HomeError::Keyring)?;
    let payload = serde_json::json!({"service": args.name, "credential_id": credential_id});
    let answer = handover::ask(
        home,
        &args.by.person,
        ActionName::ServicesCredential,
        &payload,
    );
    // Remove the secret only after a refusal: a request without an answer may still be decided.
    if let Ok(Some(Answer { error: Some(_), .. })) = &answer {
        keyring
            .remove_credential(&credential_id)
            .map_err(HomeError::Keyring)?;
    }
    handover::report(answer?.as_ref(), output, |answer| {
        format!(
            "service {} has credential {credential_id} (ledger line {})",
            args.name, answer.audit_ref
        )
    })
}

/// A row of the list.
#[derive(Serialize)]
struct Row<'a> {
    #[serde(flatten)]
    service: &'a Service,
    /// The adapter of each action that may go there; null if there is none.
    adapters: BTreeMap<&'a str, Option<&'static str>>,
    /// Whether there is a credential for this host.
    credential: bool,
}

fn row<'a>(view: &'a View, service: &'a Service) -> Row<'a> {
    let calls = (!service.methods.is_empty()).then_some(ActionName::ServiceApiCall.as_str());
    let actions = service.actions.iter().map(String::as_str).chain(calls);
    let adapter = |action| {
        let rule = view
            .rulebook
            .gateway
            .adapter(action, service.service.as_str());
        (action, rule.map(|rule| rule.adapter.as_str()))
    };
    let credential = view.state.credentials.get(&service.service);
    let credential = credential.is_some_and(|record| record.host == service.host);
    Row {
        service,
        adapters: actions.map(adapter).collect(),
        credential,
    }
}

fn list(home: &Path, output: &Output) -> Result<Exit> {
    let seams = real_seams(home)?;
    let view = read::read(home, &seams)?;
    look::remark_rules(home, &view, output);
    let rows: Vec<Row<'_>> = view
        .rulebook
        .services
        .services
        .iter()
        .map(|service| row(&view, service))
        .collect();
    if output.is_json() {
        rows.iter().try_for_each(|row| output.json(row))?;
        return Ok(Exit::Success);
    }
    let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(
            |Row {
                 service,
                 adapters,
                 credential,
             }| {
                let methods: Vec<&str> = service
                    .methods
                    .iter()
                    .map(|method| method.as_str())
                    .collect();
                let done: Vec<String> = adapters
                    .iter()
                    .map(|(action, adapter)| {
                        format!("{action}: {}", adapter.unwrap_or("no adapter"))
                    })
                    .collect();
                vec![
                    service.service.to_string(),
                    service.port.map_or_else(
                        || service.host.clone(),
                        |port| format!("{}:{port}", service.host),
                    ),
                    service.protocol.clone(),
                    yes(service.is_active),
                    if methods.is_empty() {
                        "-".to_owned()
                    } else {
                        methods.join(" ")
                    },
                    done.join(", "),
                    yes(*credential),
                    format!("{} by {}", service.added_at, service.added_by),
                ]
            },
        )
        .collect();
    let head = [
        "service",
        "host",
        "protocol",
        "active",
        "methods",
        "used for",
        "credential",
        "added",
    ];
    output.table(&head, &[], &rows)?;
    Ok(Exit::Success)
}
