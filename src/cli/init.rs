//! `spoolgate init`: makes a new home.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use spoolgate_gate::schemas;
use spoolgate_home::read::real_seams;
use spoolgate_home::{HomeError, layout};
use spoolgate_host::keyring::KEYRING_FILE;
use spoolgate_ledger::segment;
use spoolgate_rules::{notify, retention};
use spoolgate_wire::code::Exit;
use spoolgate_wire::ids::Principal;

use super::deploy;
use super::output::{Output, plain};

/// The rule files of a new home, which are also this project's own.
pub(super) const TEMPLATE: &[(&str, &str)] = &[
    ("rules/safety.yaml", include_str!("../../rules/safety.yaml")),
    (
        "rules/principals.yaml",
        include_str!("../../rules/principals.yaml"),
    ),
    (
        "rules/instruments.yaml",
        include_str!("../../rules/instruments.yaml"),
    ),
    (
        "rules/services.yaml",
        include_str!("../../rules/services.yaml"),
    ),
    (
        "rules/gateway.yaml",
        include_str!("../../rules/gateway.yaml"),
    ),
    (
        "rules/strategies/range.yaml",
        include_str!("../../rules/strategies/range.yaml"),
    ),
    (
        "rules/strategies/trend.yaml",
        include_str!("../../rules/strategies/trend.yaml"),
    ),
    (
        "rules/admission/research/agents/default.yaml",
        include_str!("../../rules/admission/research/agents/default.yaml"),
    ),
    (
        "council/roles.yaml",
        include_str!("../../council/roles.yaml"),
    ),
    (
        "proposals/theses/btc-dip-long.md",
        include_str!("../../proposals/theses/btc-dip-long.md"),
    ),
    (
        "proposals/theses/btc-range-long.md",
        include_str!("../../proposals/theses/btc-range-long.md"),
    ),
    (
        "proposals/theses/btc-range-short.md",
        include_str!("../../proposals/theses/btc-range-short.md"),
    ),
];

/// Make a new home.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  spoolgate init my-home\n  spoolgate init my-home --person alice \
        --origin audit.example.org/gate-1\n  spoolgate init /srv/gate --agent-user \
        bot\n\ndeploy/users.sh in the home separates agent and gate, deploy/spoolgate.service and \
        deploy/crontab run the gate;\nnothing of them is installed. Existing rule files are kept; \
        edit them before or after."
)]
pub(super) struct Args {
    /// The directory; default: the one given with --home.
    dir: Option<PathBuf>,
    /// The first person, as in rules/principals.yaml; gets a key in the keyring.
    #[arg(long, default_value = "owner")]
    person: String,
    /// Name of the log in checkpoints, a URL without scheme; default: a random one.
    #[arg(long)]
    origin: Option<String>,
    /// The system user that the gate is to run as, for the files in deploy/.
    #[arg(long, value_name = "NAME", default_value = "spoolgate", value_parser = deploy::user_name)]
    gate_user: String,
    /// The system user that agents run as, for the files in deploy/.
    #[arg(long, value_name = "NAME", default_value = "agent", value_parser = deploy::user_name)]
    agent_user: String,
}

/// Runs the command.
pub(super) fn run(home: &Path, args: &Args, output: &Output) -> Result<Exit> {
    let home = args.dir.as_deref().unwrap_or(home);
    if segment::is_log(&home.join(segment::AUDIT_DIR)) {
        bail!(
            "`{}` already has a ledger; name a folder without one",
            home.display()
        );
    }
    if home.join(KEYRING_FILE).exists() {
        bail!(
            "`{}` has a keyring and no ledger: restore the ledger or, if an `init` was \
                interrupted, remove `{}` and run it again",
            home.display(),
            home.join(KEYRING_FILE).display()
        );
    }
    if args.gate_user == args.agent_user {
        bail!(
            "`{}` is named for both: if the agent and the gate run as the same user, there is no \
                boundary; name two users",
            args.gate_user
        );
    }
    let person = Principal::parse(&args.person)?;
    let strangers = strangers(home)?;
    write_template(home, &person)?;
    write_new(&home.join(retention::PATH), retention::SHIPPED)?;
    write_new(&home.join(notify::PATH), notify::SHIPPED)?;
    let seams = real_seams(home)?;
    let origin = match &args.origin {
        Some(origin) => origin.clone(),
        None => format!("spoolgate.invalid/{}", spoolgate_client::random_name()?),
    };
    // A power cut could otherwise leave empty rule files, which would close entries or set other
    // limits than those printed.
    let rules = Path::new("rules");
    seams
        .disk
        .sync_fs(rules)
        .map_err(|source| HomeError::disk(rules, source))?;
    let (key_id, log_key) = layout::found(home, &seams, &origin, &person)?;
    let deploy = deploy::Deploy::new(home, &args.gate_user, &args.agent_user)?;
    deploy.write(home)?;
    if output.is_json() {
        let made = serde_json::json!({
            "home": home, "origin": origin, "log_key": log_key, "person": person, "key_id": key_id,
            "separate": deploy.commands()
        });
        output.json(&made)?;
        return Ok(Exit::Success);
    }
    let rows = vec![
        vec!["home".to_owned(), home.display().to_string()],
        vec!["log".to_owned(), origin],
        vec!["log key".to_owned(), log_key],
        vec![
            "person".to_owned(),
            format!("{person}, key {key_id} in state/keyring.db"),
        ],
    ];
    output.table(&["made", ""], &[], &rows)?;
    output.line(
        "\nNote the log key outside this machine: `spoolgate audit verify --key` checks against \
            it.",
    )?;
    output.line(
        "\nIf the agent and the gate run as the same user, there is no boundary. As root \
            (deploy/users.sh does the same):\n",
    )?;
    deploy
        .commands()
        .iter()
        .try_for_each(|command| output.line(&plain(&format!("  {command}"))))?;
    if let Some(stranger) = strangers.first() {
        output.line(&plain(&format!(
            "\nThe folder was not empty: deploy/users.sh gives all of it to the gate's user, \
                including `{stranger}`."
        )))?;
    }
    output.line("\nNext: edit rules/, then `spoolgate keys add trend-bot --out bot.key`.")?;
    Ok(Exit::Success)
}

/// Lists names in a folder that no home has. `deploy/users.sh` would change their owner as well.
fn strangers(home: &Path) -> Result<Vec<String>> {
    const OF_HOMES: [&str; 12] = [
        "rules",
        "council",
        "proposals",
        "spool",
        "audit",
        "state",
        "schemas",
        "deploy",
        ".git",
        ".gitignore",
        ".gitattributes",
        "README.md",
    ];
    let entries = match std::fs::read_dir(home) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) if error.kind() == ErrorKind::NotADirectory => {
            bail!(
                "`{}` is a file, but a home is a folder; name another",
                home.display()
            )
        }
        Err(error) => return Err(error).with_context(|| format!("folder `{}`", home.display())),
    };
    let names =
        entries.filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()));
    let mut names: Vec<String> = names
        .filter(|name| !OF_HOMES.contains(&name.as_str()))
        .collect();
    names.sort_unstable();
    Ok(names)
}

/// Where the first lines of rule files look for their schemas: in this repository, and in a home.
const SCHEMAS: [&str; 2] = ["/examples/schemas/", "/schemas/"];

/// Returns the files of a new home: rule files, and the schemas that editors check them against.
fn files() -> Vec<(String, String)> {
    let [here, there] = SCHEMAS;
    let mut files: Vec<(String, String)> = TEMPLATE
        .iter()
        .map(|(path, text)| ((*path).to_owned(), text.replacen(here, there, 1)))
        .collect();
    let of_files = schemas::names().filter(|name| schemas::is_of_file(name));
    files.extend(of_files.filter_map(|name| {
        Some((
            format!("schemas/{name}.json"),
            schemas::text(name)?.to_owned(),
        ))
    }));
    files
}

/// The rule file that names the first person, and its line to replace.
const PRINCIPALS: &str = "rules/principals.yaml";
const OWNER: &str = "  - name: owner\n";

/// Writes the rule files that do not exist yet, with this name for the first person.
pub(super) fn write_template(home: &Path, person: &Principal) -> Result<()> {
    for (path, text) in files() {
        let text = if path == PRINCIPALS {
            text.replacen(OWNER, &format!("  - name: {person}\n"), 1)
        } else {
            text
        };
        let path = home.join(path);
        if let Some(folder) = path.parent() {
            // Only the owner may write rules, whatever the umask is.
            DirBuilder::new()
                .recursive(true)
                .mode(0o755)
                .create(folder)
                .with_context(|| {
                    format!(
                        "folder `{}`; name a place where you may create folders",
                        folder.display()
                    )
                })?;
        }
        write_new(&path, &text)?;
    }
    Ok(())
}

/// Writes a file, unless there is one.
fn write_new(path: &Path, text: &str) -> Result<()> {
    match OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(0o644)
        .open(path)
    {
        Ok(mut file) => Ok(file
            .write_all(text.as_bytes())
            .map_err(|source| HomeError::disk(path, source))?),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error).with_context(|| format!("file `{}`", path.display())),
    }
}
