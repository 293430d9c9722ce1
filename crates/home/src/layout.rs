//! The folders of a home, and the creation of a new one.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use ed25519_dalek::SigningKey;

use super::error::HomeError;
use super::open::Seams;
use spoolgate_gate::Change;
use spoolgate_gate::record::{Genesis, Record};
use spoolgate_gate::state::{KeyRecord, SEMANTICS};
use spoolgate_host::keyring::{LogKeys, SqliteKeyring};
use spoolgate_host::rule_folder;
use spoolgate_host::spool::claim;
use spoolgate_host::spool::scan::Gate;
use spoolgate_ledger::Ledger;
use spoolgate_ledger::disk::{Disk, Mode};
use spoolgate_ledger::log::LogSigner;
use spoolgate_ledger::note::SignerKey;
use spoolgate_rules::principals::Role;
use spoolgate_rules::{Bundle, Rulebook};
use spoolgate_wire::admin::Algorithm;
use spoolgate_wire::ids::Principal;
use spoolgate_wire::signing::{SignKey, VerifyKey, hex};

/// Folders that the gate works in, below the home, with who may read them.
pub const FOLDERS: &[(&str, Mode)] = &[
    ("rules", Mode::Shared),
    ("rules/core", Mode::Shared),
    ("rules/active", Mode::Shared),
    ("rules/sets", Mode::Shared),
    ("rules/strategies", Mode::Shared),
    ("proposals", Mode::Shared),
    ("proposals/pending", Mode::Shared),
    ("proposals/approved", Mode::Shared),
    ("proposals/declined", Mode::Shared),
    ("proposals/applied", Mode::Shared),
    ("proposals/theses", Mode::Shared),
    ("council", Mode::Shared),
    // Artifacts, which the ledger holds sealed, are in these files in clear.
    ("council/cases", Mode::Private),
    ("spool", Mode::Shared),
    ("spool/in", Mode::Shared),
    // Beside `in` and not below it: a user who may write to `in` could move it away.
    ("spool/local", Mode::Private),
    ("spool/local/in", Mode::Private),
    ("spool/out", Mode::Shared),
    ("spool/forward", Mode::Shared),
    ("spool/outbox", Mode::Shared),
    ("spool/local/out", Mode::Private),
    ("spool/work", Mode::Private),
    ("spool/rejected", Mode::Private),
    // One agent must not read what another requested.
    ("audit", Mode::Private),
    ("audit/blobs", Mode::Private),
    ("audit/rulebooks", Mode::Private),
    ("state", Mode::Private),
];

/// Returns who may read a folder that the gate creates below the home.
pub(super) fn mode_of(folder: &Path) -> Mode {
    FOLDERS
        .iter()
        .find(|(known, _)| Path::new(known) == folder)
        .map_or(Mode::Shared, |(_, mode)| *mode)
}

/// Creates missing folders; a clone of a repository lacks the empty ones.
///
/// # Errors
/// Returns the disk's error with the folder's path; `home` serves only to name that path.
pub fn make_folders(home: &Path, disk: &dyn Disk) -> Result<(), HomeError> {
    FOLDERS.iter().try_for_each(|(folder, mode)| {
        disk.create_dir(Path::new(folder), *mode)
            .map_err(|source| match source.kind() {
                ErrorKind::AlreadyExists | ErrorKind::NotADirectory => {
                    HomeError::NoFolder(home.join(folder))
                }
                _ => HomeError::disk(&home.join(folder), source),
            })
    })
}

/// Creates the spools of agents that have their own. The operating system decides who may use them.
/// Nothing is made in a folder that another user than the gate's owns: it is not used as a spool.
///
/// # Errors
/// Returns the disk's error, unless an agent caused it.
pub fn make_agent_spools<'a>(
    disk: &dyn Disk,
    agents: impl Iterator<Item = &'a Principal>,
) -> std::io::Result<()> {
    let gate = Gate::of(disk)?;
    for agent in agents {
        let own = Path::new("spool/in").join(agent.as_str());
        if disk.stat(&own)?.is_some_and(|folder| !gate.made(folder)) {
            continue;
        }
        for folder in [
            own.clone(),
            own.join("tmp"),
            own.join("new"),
            Path::new("spool/out").join(agent.as_str()),
        ] {
            match disk.create_dir(&folder, Mode::Shared) {
                // An agent that put something in the place of its own folder blocks only itself.
                Err(error)
                    if claim::is_senders_doing(&error)
                        || error.kind() == ErrorKind::AlreadyExists =>
                {
                    break;
                }
                other => other?,
            }
        }
    }
    Ok(())
}

/// Creates the keyring and the ledger of a home whose rule files exist: log keys, a key for the
/// first person, and the genesis line. Returns the key id of the first person and the verifier key
/// of the log.
///
/// # Errors
/// Returns [`HomeError`] if a step fails; a home that already has a ledger or keyring is not
/// touched.
pub fn found(
    home: &Path,
    seams: &Seams,
    origin: &str,
    person: &Principal,
) -> Result<(String, String), HomeError> {
    make_folders(home, seams.disk.as_ref())?;
    let bundle = rule_folder::load(home)?;
    // Check before creating anything: broken rules or an invalid log name would leave half a home.
    check_person(&Rulebook::compile_to_apply(&bundle)?, person)?;
    SignerKey::from_seed(origin, &[0; 32])?;
    found_with(
        seams,
        &SqliteKeyring::open(home, true)?,
        &bundle,
        origin,
        person,
    )
}

fn check_person(rulebook: &Rulebook, person: &Principal) -> Result<(), HomeError> {
    match rulebook.role(person) {
        Some(Role::Human) => Ok(()),
        _ => Err(HomeError::NoPerson(person.clone())),
    }
}

/// Like [`found`], with parts that need not be on disk, for simulations.
///
/// # Errors
/// Returns [`HomeError`] if the rules do not compile, `person` is not in them, or a step fails.
pub fn found_with(
    seams: &Seams,
    keyring: &SqliteKeyring,
    bundle: &Bundle,
    origin: &str,
    person: &Principal,
) -> Result<(String, String), HomeError> {
    let disk: Arc<dyn Disk> = Arc::clone(&seams.disk);
    make_folders(Path::new(""), disk.as_ref())?;
    let rulebook = Rulebook::compile_to_apply(bundle)?;
    check_person(&rulebook, person)?;
    super::rulebook::keep(disk.as_ref(), bundle)?;
    let keys = LogKeys {
        log_seed: seams.entropy.bytes32()?,
        seal_seed: seams.entropy.bytes32()?,
    };
    keyring.insert_log_keys(&keys)?;
    let key_id = keyring.insert(&VerifyKey::Hmac(seams.entropy.bytes32()?))?;
    let signer = log_signer(origin, &keys)?;
    let now = seams.clock.now();
    let key = KeyRecord {
        key_id: key_id.clone(),
        principal: person.clone(),
        algorithm: Algorithm::HmacSha256,
        added_at: now,
        ends_at: None,
        revoked_at: None,
    };
    let verifier = signer.verifier().to_string();
    let genesis = Record::Genesis(Genesis {
        timestamp: now,
        format: 1,
        origin: origin.to_owned(),
        log_key: verifier.clone(),
        seal_key: hex(signer.seal.verifying_key().as_bytes()),
        nonce: hex(&seams.entropy.bytes32()?),
        rulebook: rulebook.hash.clone(),
        program: spoolgate_wire::VERSION.to_owned(),
        semantics: SEMANTICS,
        changes: vec![
            Change::RulebookLoaded {
                hash: rulebook.hash,
                approved: None,
            },
            Change::KeyAdded(key),
        ],
    });
    let body = genesis
        .body()
        .map_err(|error| HomeError::Record(error.to_string()))?;
    Ledger::create(disk, signer, &[(genesis.kind(), body)])?;
    Ok((key_id, verifier))
}

/// Derives the keys that sign a log from its seeds.
///
/// # Errors
/// Returns [`HomeError::Key`] if the origin cannot name a log.
pub fn log_signer(origin: &str, keys: &LogKeys) -> Result<LogSigner, HomeError> {
    let log = SignerKey::from_seed(origin, &keys.log_seed)?;
    Ok(LogSigner {
        origin: origin.to_owned(),
        log,
        seal: SigningKey::from_bytes(&keys.seal_seed),
    })
}

/// Returns the shared key with which commands of the gate's own user sign for a person: the first
/// active one, by key id, that the keyring can sign with.
///
/// # Errors
/// Returns [`HomeError::Keyring`] if the keyring cannot be read.
pub fn own_sign_key(
    keyring: &SqliteKeyring,
    state: &spoolgate_gate::State,
    principal: &Principal,
    now: spoolgate_wire::time::Time,
) -> Result<Option<SignKey>, HomeError> {
    for key_id in state.active_keys(principal, now) {
        if let Some(key) = keyring.sign_key(key_id)? {
            return Ok(Some(key));
        }
    }
    Ok(None)
}
