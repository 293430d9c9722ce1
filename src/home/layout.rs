//! The folders of a home, and making a new one.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use ed25519_dalek::SigningKey;

use super::open::{HomeError, Seams};
use crate::gate::Change;
use crate::gate::record::{Genesis, Record};
use crate::gate::state::KeyRecord;
use crate::host::disk::{Disk, Mode};
use crate::host::keyring::{LogKeys, SqliteKeyring};
use crate::ledger::Ledger;
use crate::ledger::log::LogSigner;
use crate::ledger::note::SignerKey;
use crate::rules::principals::Role;
use crate::rules::{Bundle, Rulebook, load};
use crate::spool::claim;
use crate::wire::admin::Algorithm;
use crate::wire::ids::Principal;
use crate::wire::signing::{SignKey, VerifyKey, hex};

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
    ("council/cases", Mode::Shared),
    ("spool", Mode::Shared),
    ("spool/in", Mode::Shared),
    // Beside `in` and not below it: whoever may write there could move it away.
    ("spool/local", Mode::Private),
    ("spool/local/in", Mode::Private),
    ("spool/out", Mode::Shared),
    ("spool/forward", Mode::Shared),
    ("spool/outbox", Mode::Shared),
    ("spool/local/out", Mode::Private),
    ("spool/work", Mode::Private),
    ("spool/rejected", Mode::Private),
    // What one agent asked is not for another to read.
    ("audit", Mode::Private),
    ("audit/blobs", Mode::Private),
    ("audit/rulebooks", Mode::Private),
    ("state", Mode::Private),
];

/// Makes the folders that are missing. A clone of a repository has no empty ones.
///
/// # Errors
/// What the disk says, and of which folder; `home` is named there and nothing else.
pub fn make_folders(home: &Path, disk: &dyn Disk) -> Result<(), HomeError> {
    FOLDERS.iter().try_for_each(|(folder, mode)| {
        disk.create_dir(Path::new(folder), *mode).map_err(|source| match source.kind() {
            ErrorKind::AlreadyExists | ErrorKind::NotADirectory => HomeError::NoFolder(home.join(folder)),
            _ => HomeError::disk(&home.join(folder), source),
        })
    })
}

/// Makes the spools of agents that have their own. Who may use them is for the operating system to say.
///
/// # Errors
/// What the disk says.
pub fn make_agent_spools<'a>(
    disk: &dyn Disk,
    agents: impl Iterator<Item = &'a Principal>,
) -> std::io::Result<()> {
    for agent in agents {
        let own = Path::new("spool/in").join(agent.as_str());
        for folder in
            [own.clone(), own.join("tmp"), own.join("new"), Path::new("spool/out").join(agent.as_str())]
        {
            match disk.create_dir(&folder, Mode::Shared) {
                // What the agent put in its own folder's place is for it to mend; the others go on.
                Err(error) if claim::is_senders_doing(&error) || error.kind() == ErrorKind::AlreadyExists => {
                    break;
                }
                other => other?,
            }
        }
    }
    Ok(())
}

/// Makes keyring and ledger of a home whose rule files are there: log keys, a key for the first person,
/// the genesis line. Returns the first person's key id and the log's verifier key.
///
/// # Errors
/// [`HomeError`]; a home that has a ledger or keyring already is not touched.
pub fn found(
    home: &Path,
    seams: &Seams,
    origin: &str,
    person: &Principal,
) -> Result<(String, String), HomeError> {
    make_folders(home, seams.disk.as_ref())?;
    let bundle = load::load(home)?;
    // Checked before anything is made: a home with broken rules or a log without a name would be half a home.
    check_person(&Rulebook::compile(&bundle)?, person)?;
    SignerKey::from_seed(origin, &[0; 32])?;
    found_with(seams, &SqliteKeyring::open(home, true)?, &bundle, origin, person)
}

fn check_person(rulebook: &Rulebook, person: &Principal) -> Result<(), HomeError> {
    match rulebook.role(person) {
        Some(Role::Human) => Ok(()),
        _ => Err(HomeError::NoPerson(person.clone())),
    }
}

/// The same from parts that need not be on disk, for simulations.
///
/// # Errors
/// [`HomeError`].
pub fn found_with(
    seams: &Seams,
    keyring: &SqliteKeyring,
    bundle: &Bundle,
    origin: &str,
    person: &Principal,
) -> Result<(String, String), HomeError> {
    let disk: Arc<dyn Disk> = Arc::clone(&seams.disk);
    make_folders(Path::new(""), disk.as_ref())?;
    let rulebook = Rulebook::compile(bundle)?;
    check_person(&rulebook, person)?;
    super::rulebook::keep(disk.as_ref(), bundle)?;
    let keys = LogKeys { log_seed: seams.entropy.bytes32()?, seal_seed: seams.entropy.bytes32()? };
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
        program: crate::VERSION.to_owned(),
        changes: vec![Change::RulebookLoaded { hash: rulebook.hash }, Change::KeyAdded(key)],
    });
    let body = genesis.body().map_err(HomeError::Record)?;
    Ledger::create(disk, signer, &[(genesis.kind(), body)])?;
    Ok((key_id, verifier))
}

/// The keys a log is written with, from its seeds.
///
/// # Errors
/// [`HomeError::Key`] for an origin that cannot name a log.
pub fn log_signer(origin: &str, keys: &LogKeys) -> Result<LogSigner, HomeError> {
    let log = SignerKey::from_seed(origin, &keys.log_seed)?;
    Ok(LogSigner { origin: origin.to_owned(), log, seal: SigningKey::from_bytes(&keys.seal_seed) })
}

/// The shared key of a person for commands of the gate's own user: the newest active one in the keyring.
///
/// # Errors
/// [`HomeError`].
pub fn own_sign_key(
    keyring: &SqliteKeyring,
    state: &crate::gate::State,
    principal: &Principal,
    now: crate::wire::time::Time,
) -> Result<Option<SignKey>, HomeError> {
    for key_id in state.active_keys(principal, now) {
        if let Some(key) = keyring.sign_key(key_id)? {
            return Ok(Some(key));
        }
    }
    Ok(None)
}
