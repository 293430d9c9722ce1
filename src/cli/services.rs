//! `spoolgate services`: where outgoing actions may go, and with which credentials.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use spoolgate::home::HomeError;
use spoolgate::home::read::{self, View, real_seams};
use spoolgate::host::keyring::SqliteKeyring;
use spoolgate::rules::services::Service;
use spoolgate::wire::answer::Answer;
use spoolgate::wire::code::Exit;
use spoolgate::wire::ids::ServiceName;

use super::handover::{self, Person};
use super::look;
use super::output::Output;

/// Largest secret, bytes.
const SECRET_BYTES_MAX: usize = 64 * 1024;

/// The commands.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Allow one more destination.
    #[command(
        after_help = "Examples:\n  spoolgate services add bank api.bank.example --method GET,POST\n  spoolgate services add mail smtp.example.com --protocol smtp --port 465 --action email.send,email.draft"
    )]
    Add(AddArgs),
    /// Take a destination out, and its credential with it.
    #[command(after_help = "Examples:\n  spoolgate services remove bank")]
    Remove(NameArgs),
    /// Keep a destination in the list, and let nothing go there.
    #[command(after_help = "Examples:\n  spoolgate services deactivate bank")]
    Deactivate(NameArgs),
    /// Allow it again.
    #[command(after_help = "Examples:\n  spoolgate services activate bank")]
    Activate(NameArgs),
    /// Show the destinations, what goes there, and what does it.
    #[command(
        after_help = "Examples:\n  spoolgate services list\n  spoolgate --format json services list | jq -r .service"
    )]
    List,
    /// Secrets of services: no agent and no ledger line ever has one.
    #[command(
        subcommand,
        after_help = "Examples:\n  spoolgate services credential set bank --from token.txt"
    )]
    Credential(Credential),
}

/// Credentials.
#[derive(clap::Subcommand)]
pub enum Credential {
    /// Have adapters get this secret for actions that go to a service.
    #[command(
        after_help = "Examples:\n  spoolgate services credential set bank --from token.txt     a file that only you may read\n  pass show bank | spoolgate services credential set bank --from -"
    )]
    Set(SetArgs),
    /// Wipe the secret of a service.
    #[command(after_help = "Examples:\n  spoolgate services credential remove bank")]
    Remove(NameArgs),
}

/// Add a service.
#[derive(clap::Args)]
pub struct AddArgs {
    /// Its name, as calls write it.
    #[arg(value_parser = ServiceName::parse)]
    name: ServiceName,
    /// Its host: one, whole, without wildcards.
    host: String,
    /// Its port; absent: that of the protocol.
    #[arg(long)]
    port: Option<u16>,
    /// Its protocol, for the adapter.
    #[arg(long, default_value = "https")]
    protocol: String,
    /// Methods that calls may have: GET, POST, PUT, DELETE, PATCH.
    #[arg(long = "method", value_delimiter = ',')]
    methods: Vec<String>,
    /// Actions that go there, as `email.send`.
    #[arg(long = "action", value_delimiter = ',')]
    actions: Vec<String>,
    #[command(flatten)]
    by: Person,
}

/// Name a service.
#[derive(clap::Args)]
pub struct NameArgs {
    /// Which.
    #[arg(value_parser = ServiceName::parse)]
    name: ServiceName,
    #[command(flatten)]
    by: Person,
}

/// Set a credential.
#[derive(clap::Args)]
pub struct SetArgs {
    /// Whose.
    #[arg(value_parser = ServiceName::parse)]
    name: ServiceName,
    /// The file with the secret, which nobody else may read; `-` is standard input. One line break at its end is cut.
    #[arg(long, value_name = "FILE")]
    from: PathBuf,
    #[command(flatten)]
    by: Person,
}

/// Runs a command.
pub fn run(home: &Path, command: &Command, output: &Output) -> Result<Exit> {
    let change = |args: &NameArgs, action: &str, done: &str| {
        let payload = serde_json::json!({"service": args.name});
        handover::administer(home, &args.by.person, action, &payload, output, |answer| {
            format!("service {} {done} (ledger line {})", args.name, answer.audit_ref)
        })
    };
    match command {
        Command::Add(args) => add(home, args, output),
        Command::Remove(args) => change(args, "services.remove", "is no longer in the allowlist"),
        Command::Deactivate(args) => change(args, "services.deactivate", "is not active: nothing goes there"),
        Command::Activate(args) => change(args, "services.activate", "is active"),
        Command::List => list(home, output),
        Command::Credential(Credential::Set(args)) => set(home, args, output),
        Command::Credential(Credential::Remove(args)) => {
            change(args, "services.credential", "has no credential any more")
        }
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
    handover::administer(home, &args.by.person, "services.add", &payload, output, |answer| {
        format!("service {} at {} is allowed (ledger line {})", args.name, args.host, answer.audit_ref)
    })
}

/// Reads a secret. Nothing of it is in any error.
fn secret_of(from: &Path) -> Result<String> {
    let mut bytes = Vec::new();
    let most = u64::try_from(SECRET_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(3);
    let told = || format!("credential file `{}`", from.display());
    if from == Path::new("-") {
        io::stdin().take(most).read_to_end(&mut bytes).context("standard input")?;
    } else {
        let file = File::open(from).with_context(told)?;
        let metadata = file.metadata().with_context(told)?;
        if !metadata.is_file() || metadata.permissions().mode() & 0o077 != 0 {
            bail!("{} must be a file that only its owner may read; run chmod 600 on it", told());
        }
        file.take(most).read_to_end(&mut bytes).with_context(told)?;
    }
    let Ok(mut text) = String::from_utf8(bytes) else { bail!("{} is not UTF-8 text", told()) };
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
    // Without a home, or a person who may ask, no secret is kept.
    handover::persons_key(home, &args.by.person)?;
    let secret = secret_of(&args.from)?;
    let credential_id = spoolgate::agent::random_name()?;
    let keyring = SqliteKeyring::open(home, false).map_err(HomeError::Keyring)?;
    keyring.insert_credential(&args.name, &credential_id, &secret).map_err(HomeError::Keyring)?;
    let payload = serde_json::json!({"service": args.name, "credential_id": credential_id});
    let answer = handover::ask(home, &args.by.person, "services.credential", &payload);
    // What was not answered may still be decided.
    if let Ok(Some(Answer { error: Some(_), .. })) = &answer {
        keyring.remove_credential(&credential_id).map_err(HomeError::Keyring)?;
    }
    handover::report(answer?.as_ref(), output, |answer| {
        format!("service {} has credential {credential_id} (ledger line {})", args.name, answer.audit_ref)
    })
}

/// One row of the list.
#[derive(Serialize)]
struct Row<'a> {
    #[serde(flatten)]
    service: &'a Service,
    /// What does each action that may go there; null: nothing.
    adapters: BTreeMap<&'a str, Option<&'static str>>,
    /// Whether it has a credential for this host.
    credential: bool,
}

fn row<'a>(view: &'a View, service: &'a Service) -> Row<'a> {
    let calls = (!service.methods.is_empty()).then_some("service.api_call");
    let actions = service.actions.iter().map(String::as_str).chain(calls);
    let adapter = |action| {
        let rule = view.rulebook.gateway.adapter(action, service.service.as_str());
        (action, rule.map(|rule| rule.adapter.as_str()))
    };
    let credential = view.state.credentials.get(&service.service);
    let credential = credential.is_some_and(|record| record.host == service.host);
    Row { service, adapters: actions.map(adapter).collect(), credential }
}

fn list(home: &Path, output: &Output) -> Result<Exit> {
    let seams = real_seams(home)?;
    let view = read::read(home, &seams)?;
    look::remark_rules(home, &view, output);
    let rows: Vec<Row<'_>> =
        view.rulebook.services.services.iter().map(|service| row(&view, service)).collect();
    if output.is_json() {
        rows.iter().try_for_each(|row| output.json(row))?;
        return Ok(Exit::Success);
    }
    let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|Row { service, adapters, credential }| {
            let methods: Vec<&str> = service.methods.iter().map(|method| method.as_str()).collect();
            let done: Vec<String> = adapters
                .iter()
                .map(|(action, adapter)| format!("{action}: {}", adapter.unwrap_or("no adapter")))
                .collect();
            vec![
                service.service.to_string(),
                service.port.map_or_else(|| service.host.clone(), |port| format!("{}:{port}", service.host)),
                service.protocol.clone(),
                yes(service.is_active),
                if methods.is_empty() { "-".to_owned() } else { methods.join(" ") },
                done.join(", "),
                yes(*credential),
                format!("{} by {}", service.added_at, service.added_by),
            ]
        })
        .collect();
    let head = ["service", "host", "protocol", "active", "methods", "used for", "credential", "added"];
    output.table(&head, &[], &rows)?;
    Ok(Exit::Success)
}
