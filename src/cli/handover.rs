//! One request decided at once: with the lock, by this process; while another gate runs, by that one. The
//! file goes the same way in both cases, so the answer is the same.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use spoolgate::agent;
use spoolgate::home::read::{self, real_seams};
use spoolgate::home::{Home, HomeError, layout};
use spoolgate::host::keyring::SqliteKeyring;
use spoolgate::ledger::segment;
use spoolgate::wire::answer::Answer;
use spoolgate::wire::code::Exit;
use spoolgate::wire::ids::Principal;
use spoolgate::wire::signing::SignKey;

use super::output::{Format, Output};

/// How often the lock is tried and the answer looked for.
const POLL: Duration = Duration::from_millis(20);
/// How long a command waits for a running gate.
pub const WAIT: Duration = Duration::from_secs(60);

/// The person behind a command.
#[derive(clap::Args)]
pub struct Person {
    /// The person who does this.
    #[arg(long = "as", default_value = "owner", value_name = "PERSON", value_parser = Principal::parse)]
    pub person: Principal,
}

/// What came of a request.
pub enum Handed {
    /// Its answer, as the gate wrote it.
    Answered(Vec<u8>),
    /// The gate that holds the lock did not answer in time.
    TimedOut,
}

/// Has a signed request decided.
///
/// # Errors
/// [`HomeError`] where the home cannot decide. A request that no gate has claimed is withdrawn then; one that
/// was claimed is decided at the next start.
pub fn decide(home: &Path, request: &[u8]) -> Result<Handed> {
    let folder = home.join("spool/local/in");
    if !folder.is_dir() && segment::is_log(&home.join(segment::AUDIT_DIR)) {
        // A home without its empty folders, as from a copy or an archive, is a home.
        layout::make_folders(home, real_seams(home)?.disk.as_ref())?;
    }
    let name = format!("{}.json", agent::random_name()?);
    let hidden = folder.join(format!(".{name}"));
    let mut file =
        fs::OpenOptions::new().create_new(true).write(true).mode(0o600).open(&hidden).map_err(|source| {
            match source.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                    HomeError::NotAHome(home.to_owned())
                }
                _ => HomeError::disk(&hidden, source),
            }
        })?;
    let pending = folder.join(&name);
    file.write_all(request).and_then(|()| fs::rename(&hidden, &pending)).map_err(|source| {
        // A part of a request is of no use to anybody.
        let _ = fs::remove_file(&hidden);
        HomeError::disk(&pending, source)
    })?;
    let answer = home.join("spool/local/out").join(&name);
    let deadline = Instant::now() + WAIT;
    // What is to be done outside may take longer here than another gate is waited for: looked at once more then.
    loop {
        let is_last = Instant::now() >= deadline;
        if let Ok(bytes) = fs::read(&answer)
            && bytes.ends_with(b"\n")
        {
            // It is decided and answered, whatever becomes of this file; one that stays is swept away later.
            let _ = fs::remove_file(&answer);
            return Ok(Handed::Answered(bytes));
        }
        if is_last {
            return Ok(Handed::TimedOut);
        }
        match Home::open_briefly(home, real_seams(home)?) {
            Ok(mut open) => {
                open.left_open().iter().for_each(|told| Output::new(Format::Table).remark(told));
                let decided = open.until_idle(true, &AtomicBool::new(false), &mut |_| {});
                if let Err(error) = decided.and_then(|()| open.settle()) {
                    // Not claimed yet: as below. Claimed: the next start decides it, or answers it again.
                    let withdrawn = fs::remove_file(&pending).is_ok();
                    let told = if withdrawn {
                        "withdrawn"
                    } else {
                        "begun: it is decided, or will be at the next start"
                    };
                    return Err(anyhow::Error::from(error).context(format!("the request was {told}")));
                }
            }
            Err(HomeError::Busy(_)) => std::thread::sleep(POLL),
            Err(error) => {
                // Nobody will decide it now: it must not be decided some day, unasked.
                let _ = fs::remove_file(&pending);
                return Err(error.into());
            }
        }
    }
}

/// A person's request from the command line, signed with the gate's copy of the key.
pub fn administer(
    home: &Path,
    person: &Principal,
    action: &str,
    payload: &impl Serialize,
    output: &Output,
    done: impl FnOnce(&Answer) -> String,
) -> Result<Exit> {
    report(ask(home, person, action, payload)?.as_ref(), output, done)
}

/// Prints the answer to a person's request, `done` of one that was carried out.
pub fn report(
    answer: Option<&Answer>,
    output: &Output,
    done: impl FnOnce(&Answer) -> String,
) -> Result<Exit> {
    let Some(answer) = answer else {
        output.remark("the running gate did not answer in time; the request is still in its spool");
        return Ok(Exit::WaitTimeout);
    };
    if output.is_json() {
        output.raw(&answer.to_bytes())?;
    } else if let Some(error) = &answer.error {
        output.remark(&format!("{}: {} (ledger line {})", error.code, error.message, answer.audit_ref));
    } else {
        output.line(&super::output::plain(&done(answer)))?;
    }
    Ok(answer.exit())
}

/// A value in an answer's data, for people.
pub fn value(answer: &Answer, what: &str, key: &str) -> String {
    let data =
        answer.data.as_ref().and_then(|data| serde_json::from_str::<serde_json::Value>(data.get()).ok());
    match data.as_ref().and_then(|data| data.get(what)?.get(key)) {
        Some(serde_json::Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => "?".to_owned(),
    }
}

/// The same, returning the answer; none if a running gate did not answer in time.
pub fn ask(
    home: &Path,
    person: &Principal,
    action: &str,
    payload: &impl Serialize,
) -> Result<Option<Answer>> {
    let key = persons_key(home, person)?;
    ask_with(home, &key, person, action, &serde_json::to_string(payload)?, None)
}

/// The same of anybody whose key is at hand; `id` is that of the request, absent a random one.
pub fn ask_with(
    home: &Path,
    key: &SignKey,
    source: &Principal,
    action: &str,
    payload: &str,
    id: Option<&str>,
) -> Result<Option<Answer>> {
    let envelope = agent::sign(key, source, action, payload, None, id, None)?;
    match decide(home, envelope.to_json().as_bytes())? {
        Handed::Answered(bytes) => Ok(Some(serde_json::from_slice(&bytes).context("the gate's answer")?)),
        Handed::TimedOut => Ok(None),
    }
}

/// The gate's copy of the key of who gives a command.
pub fn persons_key(home: &Path, person: &Principal) -> Result<SignKey> {
    match own_key(home, person)? {
        Some(key) => Ok(key),
        None => bail!(
            "the keyring of `{}` holds no current shared key of `{person}`; say who you are with --as; `spoolgate keys list` shows who has keys",
            home.display()
        ),
    }
}

/// The gate's copy of a principal's shared key.
pub fn own_key(home: &Path, principal: &Principal) -> Result<Option<SignKey>> {
    let seams = real_seams(home)?;
    let view = read::read(home, &seams)?;
    let keyring = SqliteKeyring::open(home, false).map_err(HomeError::Keyring)?;
    Ok(layout::own_sign_key(&keyring, &view.state, principal, seams.clock.now())?)
}
