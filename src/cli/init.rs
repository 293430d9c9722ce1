//! `spoolgate init`: a new home.

use std::fs::{DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use spoolgate::home::read::real_seams;
use spoolgate::home::{HomeError, layout};
use spoolgate::host::keyring::KEYRING_FILE;
use spoolgate::ledger::segment;
use spoolgate::wire::code::Exit;
use spoolgate::wire::ids::Principal;

use super::output::Output;

/// Rule files of a new home: those of this project's own.
pub const TEMPLATE: &[(&str, &str)] = &[
    ("rules/safety.yaml", include_str!("../../rules/safety.yaml")),
    ("rules/principals.yaml", include_str!("../../rules/principals.yaml")),
    ("rules/instruments.yaml", include_str!("../../rules/instruments.yaml")),
    ("rules/services.yaml", include_str!("../../rules/services.yaml")),
    ("rules/gateway.yaml", include_str!("../../rules/gateway.yaml")),
    ("rules/strategies/range.yaml", include_str!("../../rules/strategies/range.yaml")),
    ("rules/strategies/trend.yaml", include_str!("../../rules/strategies/trend.yaml")),
    (
        "rules/admission/research/agents/default.yaml",
        include_str!("../../rules/admission/research/agents/default.yaml"),
    ),
    ("council/roles.yaml", include_str!("../../council/roles.yaml")),
    ("proposals/theses/btc-dip-long.md", include_str!("../../proposals/theses/btc-dip-long.md")),
    ("proposals/theses/btc-range-long.md", include_str!("../../proposals/theses/btc-range-long.md")),
    ("proposals/theses/btc-range-short.md", include_str!("../../proposals/theses/btc-range-short.md")),
];

/// Make a new home.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  spoolgate init my-home\n  spoolgate init my-home --person alice --origin audit.example.org/gate-1\n\nRule files that are there already are kept; edit them before or after."
)]
pub struct Args {
    /// The directory; absent: the one of --home.
    dir: Option<PathBuf>,
    /// The first person, as in rules/principals.yaml; gets a key in the keyring.
    #[arg(long, default_value = "owner")]
    person: String,
    /// Name of the log in checkpoints, a URL without scheme; absent: a random one.
    #[arg(long)]
    origin: Option<String>,
}

/// Runs the command.
pub fn run(home: &Path, args: &Args, output: &Output) -> Result<Exit> {
    let home = args.dir.as_deref().unwrap_or(home);
    if segment::is_log(&home.join(segment::AUDIT_DIR)) {
        bail!("`{}` has a ledger already; a home is made once", home.display());
    }
    if home.join(KEYRING_FILE).exists() {
        bail!(
            "`{}` has a keyring and no ledger: bring the ledger back, or, if an `init` ended half-way, remove `{}` and run it again",
            home.display(),
            home.join(KEYRING_FILE).display()
        );
    }
    let person = Principal::parse(&args.person)?;
    write_template(home)?;
    let seams = real_seams(home)?;
    let origin = match &args.origin {
        Some(origin) => origin.clone(),
        None => format!("spoolgate.invalid/{}", spoolgate::agent::random_name()?),
    };
    // A rule file that a power cut left empty would close entries, or hold other limits than were printed.
    let rules = Path::new("rules");
    seams.disk.sync_fs(rules).map_err(|source| HomeError::disk(rules, source))?;
    let (key_id, log_key) = layout::found(home, &seams, &origin, &person)?;
    if output.is_json() {
        let made = serde_json::json!({
            "home": home, "origin": origin, "log_key": log_key, "person": person, "key_id": key_id
        });
        output.json(&made)?;
        return Ok(Exit::Success);
    }
    let rows = vec![
        vec!["home".to_owned(), home.display().to_string()],
        vec!["log".to_owned(), origin],
        vec!["log key".to_owned(), log_key],
        vec!["person".to_owned(), format!("{person}, key {key_id} in state/keyring.db")],
    ];
    output.table(&["made", ""], &[], &rows)?;
    output
        .line("\nNote the log key outside this machine: `spoolgate audit verify --key` checks against it.")?;
    output.line("Next: edit rules/, then `spoolgate keys add trend-bot --out bot.key`.")?;
    Ok(Exit::Success)
}

/// Writes the rule files that are not there.
pub fn write_template(home: &Path) -> Result<()> {
    for (path, text) in TEMPLATE {
        let path = home.join(path);
        if let Some(folder) = path.parent() {
            // Whatever the umask is, only the owner may write rules.
            DirBuilder::new()
                .recursive(true)
                .mode(0o755)
                .create(folder)
                .with_context(|| format!("folder `{}`", folder.display()))?;
        }
        match OpenOptions::new().create_new(true).write(true).mode(0o644).open(&path) {
            Ok(mut file) => file.write_all(text.as_bytes())?,
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error).with_context(|| format!("file `{}`", path.display())),
        }
    }
    Ok(())
}
