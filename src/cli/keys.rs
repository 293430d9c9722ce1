//! `spoolgate keys`: which keys may sign.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use ed25519_dalek::{SigningKey, VerifyingKey};
use spoolgate_client::{KeyFile, KeyFileError};
use spoolgate_home::HomeError;
use spoolgate_home::open::read_genesis;
use spoolgate_home::read::{self, real_seams};
use spoolgate_host::clock::{Clock, SystemClock};
use spoolgate_host::entropy::{Entropy, SystemEntropy};
use spoolgate_host::keyring::SqliteKeyring;
use spoolgate_host::lock;
use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::admin::Algorithm;
use spoolgate_wire::code::Exit;
use spoolgate_wire::ids::Principal;
use spoolgate_wire::signing::{VerifyKey, hex, unhex};
use spoolgate_wire::time::Time;

use super::handover::{self, Person};
use super::output::{Output, plain};

/// The commands.
#[derive(clap::Subcommand)]
pub(super) enum Command {
    /// Add a key.
    #[command(
        after_help = "Examples:\n  spoolgate keys add trend-bot --out bot.key              a key \
            shared with the gate\n  spoolgate keys add trend-bot --ed25519 --out bot.key    the \
            bot's own key\n  spoolgate keys add trend-bot --public 3b6a27bc...       a key whose \
            secret stays where it is"
    )]
    Add(AddArgs),
    /// List keys.
    #[command(
        after_help = "Examples:\n  spoolgate keys list\n  spoolgate --format json keys list | jq \
            .key_id"
    )]
    List,
    /// Add a key and end the principal's other keys.
    #[command(
        after_help = "Examples:\n  spoolgate keys rotate trend-bot --out new.key                   \
            old keys stay valid an hour\n  spoolgate keys rotate trend-bot --out new.key \
            --overlap-s 0"
    )]
    Rotate(RotateArgs),
    /// End a key at once.
    #[command(
        after_help = "Examples:\n  spoolgate keys revoke 0123456789abcdef --reason \"laptop \
            stolen\""
    )]
    Revoke(RevokeArgs),
    /// Encrypt the keyring with another key, which is outside the home.
    #[command(
        after_help = "Examples:\n  spoolgate keys reseal --to /etc/spoolgate/keyring.key\n  spoolgate \
            --keyring-key /etc/spoolgate/keyring.key watch\n\nStop the gate first. If the file does \
            not exist, it is made. Keep a copy of it: without it the keyring cannot be read. After an \
            interruption, run the same command again."
    )]
    Reseal(ResealArgs),
}

/// Add a key.
#[derive(clap::Args)]
pub(super) struct AddArgs {
    /// The principal that gets the key, as in rules/principals.yaml.
    principal: String,
    /// Where to write the principal's own copy, once, with mode 0600.
    #[arg(long, required_unless_present = "public", value_name = "FILE")]
    out: Option<PathBuf>,
    /// Make an Ed25519 key: the gate keeps only the public half and cannot forge its signatures.
    #[arg(long)]
    ed25519: bool,
    /// The public half of an Ed25519 key made elsewhere, 64 hex digits.
    #[arg(long, conflicts_with_all = ["out", "ed25519"], value_name = "HEX")]
    public: Option<String>,
    #[command(flatten)]
    by: Person,
}

/// Rotate keys.
#[derive(clap::Args)]
pub(super) struct RotateArgs {
    #[command(flatten)]
    add: AddArgs,
    /// How long the old keys stay valid, in seconds.
    #[arg(long, default_value_t = 3600)]
    overlap_s: u32,
}

/// Revoke a key.
#[derive(clap::Args)]
pub(super) struct RevokeArgs {
    /// The id of the key.
    key_id: String,
    /// The reason; it is recorded in the ledger.
    #[arg(long)]
    reason: String,
    #[command(flatten)]
    by: Person,
}

/// Encrypt the keyring anew.
#[derive(clap::Args)]
pub(super) struct ResealArgs {
    /// The file with the new key.
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
}

/// Runs a command.
pub(super) fn run(home: &Path, command: &Command, output: &Output) -> Result<Exit> {
    match command {
        Command::Add(args) => add(home, args, None, output),
        Command::Rotate(args) => {
            let end = SystemClock::default()
                .now()
                .plus_ms(i64::from(args.overlap_s).saturating_mul(1000));
            add(home, &args.add, Some(end), output)
        }
        Command::Revoke(args) => {
            let payload = serde_json::json!({"key_id": args.key_id, "reason": args.reason});
            handover::administer(
                home,
                &args.by.person,
                ActionName::KeysRevoke,
                &payload,
                output,
                |answer| {
                    format!(
                        "key {} has ended (ledger line {})",
                        args.key_id, answer.audit_ref
                    )
                },
            )
        }
        Command::List => list(home, output),
        Command::Reseal(args) => reseal(home, &args.to, output),
    }
}

fn make(args: &AddArgs, principal: &Principal) -> Result<(VerifyKey, Option<KeyFile>)> {
    if let Some(public) = &args.public {
        let bytes = unhex(public).and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
        let key = bytes.and_then(|bytes| VerifyingKey::from_bytes(&bytes).ok());
        let Some(key) = key.filter(|key| !key.is_weak()) else {
            bail!("--public is not an Ed25519 public key of 64 lower-case hex digits");
        };
        return Ok((VerifyKey::Ed25519(Box::new(key)), None));
    }
    let secret = SystemEntropy.bytes32()?;
    let (algorithm, key) = if args.ed25519 {
        (
            Algorithm::Ed25519,
            VerifyKey::Ed25519(Box::new(SigningKey::from_bytes(&secret).verifying_key())),
        )
    } else {
        (Algorithm::HmacSha256, VerifyKey::Hmac(secret))
    };
    let key_id = spoolgate_host::keyring::key_id(&key);
    let file = KeyFile {
        principal: principal.clone(),
        key_id,
        algorithm,
        secret: hex(&secret),
    };
    Ok((key, Some(file)))
}

fn add(home: &Path, args: &AddArgs, others_end: Option<Time>, output: &Output) -> Result<Exit> {
    let principal = Principal::parse(&args.principal)?;
    let (key, file) = make(args, &principal)?;
    let algorithm = match key {
        VerifyKey::Hmac(_) => Algorithm::HmacSha256,
        VerifyKey::Ed25519(_) => Algorithm::Ed25519,
    };
    // First check that there is a home and a person who may ask. Then write the copy before the key
    // becomes valid: a valid key without a copy would have to be revoked.
    handover::persons_key(home, &args.by.person)?;
    let keyring = SqliteKeyring::open(home, false).map_err(HomeError::Keyring)?;
    if let (Some(file), Some(out)) = (&file, &args.out) {
        file.write(out).map_err(|error| match error {
            KeyFileError::Write { path, source } => HomeError::disk(&path, source).into(),
            other => anyhow::Error::from(other),
        })?;
    }
    let key_id = match keyring.insert(&key) {
        Ok(key_id) => key_id,
        Err(error) => {
            // The request was not sent, so the key will not be added. A leftover copy would block
            // the next try.
            if let Some(out) = args.out.as_ref().filter(|_| file.is_some()) {
                let _ = fs::remove_file(out);
            }
            return Err(HomeError::Keyring(error).into());
        }
    };
    let mut payload =
        serde_json::json!({"principal": principal, "key_id": key_id, "algorithm": algorithm});
    let action = match others_end {
        Some(end) => {
            if let Some(payload) = payload.as_object_mut() {
                payload.insert("others_end".to_owned(), serde_json::json!(end));
            }
            ActionName::KeysRotate
        }
        None => ActionName::KeysAdd,
    };
    let answer = handover::ask(home, &args.by.person, action, &payload);
    let may_hold = match &answer {
        Ok(Some(answer)) => answer.exit() == Exit::Success,
        // There is no answer, or a disk error: the request may still be decided.
        Ok(None) | Err(_) => true,
    };
    // Remove the copy before printing anything: a closed standard output says nothing about the
    // key.
    if let Some(out) = args.out.as_ref().filter(|_| !may_hold) {
        fs::remove_file(out)
            .with_context(|| format!("key file `{}` of a key that was not added", out.display()))?;
    }
    let answer = answer?;
    handover::tell_of_rules(home, answer.as_ref(), output);
    handover::report(answer.as_ref(), output, |answer| {
        let copy = args
            .out
            .as_ref()
            .map(|out| format!(", copy in {}", out.display()))
            .unwrap_or_default();
        format!(
            "key {key_id} of {principal} is valid{copy} (ledger line {})",
            answer.audit_ref
        )
    })
}

fn reseal(home: &Path, to: &Path, output: &Output) -> Result<Exit> {
    let seams = real_seams(home)?;
    read_genesis(home, seams.disk.as_ref())?;
    let lock = lock::try_lock(home)
        .map_err(|source| HomeError::disk(&home.join(lock::LOCK_FILE), source))?;
    let Some(_lock) = lock else {
        return Err(HomeError::Busy(home.to_owned()).into());
    };
    SqliteKeyring::reseal(home, to).map_err(HomeError::Keyring)?;
    if output.is_json() {
        output.json(&serde_json::json!({"keyring_key": to}))?;
        return Ok(Exit::Success);
    }
    output.line(&plain(&format!(
        "the keyring is encrypted with the key in {0}; name it from now on: --keyring-key {0}",
        to.display()
    )))?;
    Ok(Exit::Success)
}

fn list(home: &Path, output: &Output) -> Result<Exit> {
    let seams = real_seams(home)?;
    let view = read::read(home, &seams)?;
    let now = seams.clock.now();
    if output.is_json() {
        view.state
            .keys
            .values()
            .try_for_each(|key| output.json(key))?;
        return Ok(Exit::Success);
    }
    let rows: Vec<Vec<String>> = view
        .state
        .keys
        .values()
        .map(|key| {
            let algorithm = match key.algorithm {
                Algorithm::HmacSha256 => "hmac-sha256",
                Algorithm::Ed25519 => "ed25519",
            };
            let status = match (key.revoked_at, key.ends_at) {
                (Some(at), _) => format!("revoked {at}"),
                (None, None) => "holds".to_owned(),
                (None, Some(end)) if key.is_active(now) => format!("valid until {end}"),
                (None, Some(end)) => format!("ended {end}"),
            };
            vec![
                key.principal.to_string(),
                key.key_id.clone(),
                algorithm.to_owned(),
                key.added_at.to_string(),
                status,
            ]
        })
        .collect();
    output.table(
        &["principal", "key", "algorithm", "added", "status"],
        &[],
        &rows,
    )?;
    Ok(Exit::Success)
}
