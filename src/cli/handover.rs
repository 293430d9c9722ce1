//! One request decided at once: with the lock, by this process; while another gate runs, by that one. The
//! file goes the same way in both cases, so the answer is the same.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use spoolgate::agent;
use spoolgate::home::read::{self, real_seams};
use spoolgate::home::{Home, HomeError, layout};
use spoolgate::host::keyring::SqliteKeyring;
use spoolgate::ledger::segment;
use spoolgate::wire::answer::Answer;
use spoolgate::wire::code::Exit;
use spoolgate::wire::ids::Principal;
use spoolgate::wire::signing::SignKey;

use super::look;
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
        if Patience::was_told() {
            let told = withdrawn(&pending);
            bail!("a signal came before the request was answered; it was {told}");
        }
        match Home::open_briefly(home, real_seams(home)?) {
            Ok(mut open) => {
                open.left_open().iter().for_each(|told| Output::new(Format::Table).remark(told));
                let patience = Patience::begin()?;
                let decided = open.until_idle(true, &patience.stop, &mut |_| {});
                if Patience::was_told() {
                    // How many are being done, and what one more signal does.
                    open.tell_events(Box::new(|event| Output::new(Format::Table).remark(&event.note)));
                }
                let ended = decided.and_then(|()| open.end_actions(&patience.stop));
                let settled = ended.and_then(|()| open.settle());
                patience.end();
                if let Err(error) = settled {
                    let told = withdrawn(&pending);
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

/// What signals do to a command that decides by itself: the first lets what runs outside come to its end, and nothing
/// more begin; the second ends it. But for that time a signal ends the command, as any.
struct Patience {
    /// Whether a signal ends the command.
    is_over: Arc<AtomicBool>,
    /// Set by a signal, until it is heard.
    stop: Arc<AtomicBool>,
    /// Set by a signal. Whoever has more than one request decided begins no other then.
    was_told: Arc<AtomicBool>,
}

static PATIENCE: OnceLock<Patience> = OnceLock::new();

impl Patience {
    /// From now on signals wait.
    fn begin() -> io::Result<&'static Patience> {
        let patience = match PATIENCE.get() {
            Some(patience) => patience,
            None => {
                let [stop, was_told] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
                let is_over = Arc::new(AtomicBool::new(true));
                for signal in [SIGTERM, SIGINT] {
                    flag::register_conditional_default(signal, Arc::clone(&is_over))?;
                    flag::register(signal, Arc::clone(&stop))?;
                    flag::register(signal, Arc::clone(&was_told))?;
                }
                PATIENCE.get_or_init(|| Patience { is_over, stop, was_told })
            }
        };
        patience.is_over.store(false, Ordering::SeqCst);
        Ok(patience)
    }

    /// From now on they do not.
    fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
    }

    fn was_told() -> bool {
        PATIENCE.get().is_some_and(|patience| patience.was_told.load(Ordering::SeqCst))
    }
}

/// Takes a request back, and says whether that was in time. Not claimed yet: nobody decides it. Claimed: the next start
/// decides it, or answers it again.
fn withdrawn(pending: &Path) -> &'static str {
    match fs::remove_file(pending) {
        Ok(()) => "withdrawn",
        Err(_) => "begun: it is decided, or will be at the next start",
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
    let answer = ask(home, person, action, payload)?;
    tell_of_rules(home, answer.as_ref(), output);
    report(answer.as_ref(), output, done)
}

/// Says beside a refusal that the rule files are others than those that it was decided under, or cannot be used: what is
/// missing may stand in them.
pub fn tell_of_rules(home: &Path, answer: Option<&Answer>, output: &Output) {
    let is_refused = answer.is_some_and(|answer| answer.exit() != Exit::Success);
    if is_refused && let Ok((view, _)) = look::view(home) {
        look::remark_rules(home, &view, output);
    }
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
