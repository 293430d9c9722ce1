//! Decides one request at once: in this process if it gets the lock, otherwise by the gate that
//! holds it. The file takes the same way in both cases, so the answer is the same.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, fchown};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use spoolgate_client as agent;
use spoolgate_home::read::{self, real_seams};
use spoolgate_home::{Home, HomeError, layout, suspect};
use spoolgate_host::keyring::SqliteKeyring;
use spoolgate_host::lock::owner_beside_root;
use spoolgate_ledger::segment;
use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::answer::Answer;
use spoolgate_wire::code::Exit;
use spoolgate_wire::ids::Principal;
use spoolgate_wire::signing::SignKey;

use super::look;
use super::output::{Format, Output};

/// How often to try the lock and look for the answer.
const POLL: Duration = Duration::from_millis(20);
/// How long a command waits for a running gate.
pub(super) const WAIT: Duration = Duration::from_secs(60);

/// The person behind a command.
#[derive(clap::Args)]
pub(super) struct Person {
    /// The person who gives the command.
    #[arg(long = "as", default_value = OWNER, value_name = "PERSON",
        value_parser = Principal::parse)]
    pub person: Principal,
}

/// Who gives commands, if nobody else is named.
const OWNER: &str = "owner";

impl Person {
    /// Whether nobody else is named.
    pub(super) fn is_owner(&self) -> bool {
        self.person.as_str() == OWNER
    }
}

/// The outcome of a request that was handed over.
pub(super) enum Handed {
    /// The answer, as the gate wrote it.
    Answered(Vec<u8>),
    /// The gate that holds the lock did not answer in time.
    TimedOut,
}

/// Hands a signed request over and waits for the answer.
///
/// # Errors
/// Returns [`HomeError`] if the home cannot decide. The request is then withdrawn if no gate has
/// claimed it; a claimed request is decided at the next start.
pub(super) fn decide(home: &Path, request: &[u8]) -> Result<Handed> {
    decide_within(home, request, WAIT)
}

/// Like [`decide`], but waits at most this long for a running gate.
pub(super) fn decide_within(home: &Path, request: &[u8], wait: Duration) -> Result<Handed> {
    let folder = home.join("spool/local/in");
    if !folder.is_dir() && segment::is_log(&home.join(segment::AUDIT_DIR)) {
        // A home from a copy or an archive may lack its empty folders: make them again.
        layout::make_folders(home, real_seams(home)?.disk.as_ref())?;
    }
    let name = format!("{}.json", agent::random_name()?);
    let hidden = folder.join(format!(".{name}"));
    let mut file = fs::OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(&hidden)
        .map_err(|source| match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                HomeError::NotAHome(home.to_owned())
            }
            _ => HomeError::disk(&hidden, source),
        })?;
    let pending = folder.join(&name);
    file.write_all(request)
        .and_then(|()| match owner_beside_root(&folder)? {
            // The gate of another user must be able to read what root hands over.
            Some(owner) => fchown(&file, Some(owner), None),
            None => Ok(()),
        })
        .and_then(|()| fs::rename(&hidden, &pending))
        .map_err(|source| {
            // Part of a request is useless.
            let _ = fs::remove_file(&hidden);
            HomeError::disk(&pending, source)
        })?;
    let answer = home.join("spool/local/out").join(&name);
    let deadline = Instant::now() + wait;
    // Outgoing actions may take this process longer than `WAIT`, so look for the answer once more
    // after the deadline.
    loop {
        let is_last = Instant::now() >= deadline;
        if let Ok(bytes) = fs::read(&answer)
            && bytes.ends_with(b"\n")
        {
            // The request is answered even if this file cannot be removed; the gate sweeps it away
            // later.
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
                open.moved_aside()
                    .for_each(|told| Output::new(Format::Table).remark(&told));
                open.left_open()
                    .iter()
                    .for_each(|told| Output::new(Format::Table).remark(told));
                open.try_suspects_with(suspect::by_command(home));
                let patience = Patience::begin()?;
                let decided = open.until_idle(true, &patience.stop, &mut |_| {});
                if Patience::was_told() {
                    // Report how many actions are running, and what another signal does.
                    open.tell_events(Box::new(|event| {
                        Output::new(Format::Table).remark(&event.note)
                    }));
                }
                let ended = decided.and_then(|()| open.end_actions(&patience.stop));
                let settled = ended.and_then(|()| open.settle());
                patience.end();
                if let Err(error) = settled {
                    let told = withdrawn(&pending);
                    return Err(
                        anyhow::Error::from(error).context(format!("the request was {told}"))
                    );
                }
            }
            Err(HomeError::Busy(_)) => std::thread::sleep(POLL),
            Err(error) => {
                // The command failed, so the request must not be decided some day without anybody
                // asking.
                let _ = fs::remove_file(&pending);
                return Err(error.into());
            }
        }
    }
}

/// Lets a gate of this process do what is due now, if no other one holds the lock: record
/// `rules/HALT`, and place orders again that a venue dropped. It takes only what commands handed over.
pub(super) fn take_turn(home: &Path) -> Result<()> {
    match Home::open_briefly(home, real_seams(home)?) {
        Ok(mut open) => {
            open.until_idle(true, &AtomicBool::new(false), &mut |_| {})?;
            Ok(open.settle()?)
        }
        Err(HomeError::Busy(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// What signals do while this command decides by itself. The first one lets running outgoing
/// actions finish and starts no new ones; the second one ends them. At other times a signal ends
/// the command as usual.
struct Patience {
    /// Whether a signal ends the command.
    is_over: Arc<AtomicBool>,
    /// Set by a signal, and cleared when the command acts on it.
    stop: Arc<AtomicBool>,
    /// Set by a signal, and never cleared. A command with several requests then starts no other.
    was_told: Arc<AtomicBool>,
}

static PATIENCE: OnceLock<Patience> = OnceLock::new();

impl Patience {
    /// Makes signals wait from now on.
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
                PATIENCE.get_or_init(|| Patience {
                    is_over,
                    stop,
                    was_told,
                })
            }
        };
        patience.is_over.store(false, Ordering::SeqCst);
        Ok(patience)
    }

    /// Lets signals end the command again.
    fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
    }

    fn was_told() -> bool {
        PATIENCE
            .get()
            .is_some_and(|patience| patience.was_told.load(Ordering::SeqCst))
    }
}

/// Withdraws a request, and returns in words whether that was in time. A claimed request is
/// decided, or answered again, at the next start.
fn withdrawn(pending: &Path) -> &'static str {
    match fs::remove_file(pending) {
        Ok(()) => "withdrawn",
        Err(_) => "claimed by the gate: it is decided now or at the next start",
    }
}

/// Sends a person's request from the command line, signed with the gate's copy of the key, and
/// prints the answer.
pub(super) fn administer(
    home: &Path,
    person: &Principal,
    action: ActionName,
    payload: &impl Serialize,
    output: &Output,
    done: impl FnOnce(&Answer) -> String,
) -> Result<Exit> {
    let answer = ask(home, person, action, payload)?;
    tell_of_rules(home, answer.as_ref(), output);
    report(answer.as_ref(), output, done)
}

/// After a refusal, remarks if the rule files differ from the rules in force or cannot be used:
/// what the refusal misses may be in them.
pub(super) fn tell_of_rules(home: &Path, answer: Option<&Answer>, output: &Output) {
    let is_refused = answer.is_some_and(|answer| answer.exit() != Exit::Success);
    if is_refused && let Ok((view, _)) = look::view(home) {
        look::remark_rules(home, &view, output);
    }
}

/// Prints the answer to a person's request; `done` describes a successful one.
pub(super) fn report(
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
        output.remark(&format!(
            "{}: {} (ledger line {})",
            error.code, error.message, answer.audit_ref
        ));
    } else {
        output.line(&super::output::plain(&done(answer)))?;
    }
    Ok(answer.exit())
}

/// Returns a value in an answer's data, for people.
pub(super) fn value(answer: &Answer, what: &str, key: &str) -> String {
    let data = answer
        .data
        .as_ref()
        .and_then(|data| serde_json::from_str::<serde_json::Value>(data.get()).ok());
    match data.as_ref().and_then(|data| data.get(what)?.get(key)) {
        Some(serde_json::Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => "?".to_owned(),
    }
}

/// Sends a person's request and returns the answer. `None` if a running gate did not answer in
/// time.
pub(super) fn ask(
    home: &Path,
    person: &Principal,
    action: ActionName,
    payload: &impl Serialize,
) -> Result<Option<Answer>> {
    let key = persons_key(home, person)?;
    ask_with(
        home,
        &key,
        person,
        action,
        &serde_json::to_string(payload)?,
        None,
    )
}

/// Sends a request of a principal whose key is at hand, like [`ask`]. Without an `id` it gets a
/// random one.
pub(super) fn ask_with(
    home: &Path,
    key: &SignKey,
    source: &Principal,
    action: ActionName,
    payload: &str,
    id: Option<&str>,
) -> Result<Option<Answer>> {
    let envelope = agent::sign(key, source, action.as_str(), payload, None, id, None)?;
    answer_within(home, &envelope.to_json(), WAIT)
}

/// Hands a signed request over and returns its answer. `None` if a running gate did not answer in
/// time.
pub(super) fn answer_within(home: &Path, request: &str, wait: Duration) -> Result<Option<Answer>> {
    match decide_within(home, request.as_bytes(), wait)? {
        Handed::Answered(bytes) => Ok(Some(
            serde_json::from_slice(&bytes).context("the gate's answer")?,
        )),
        Handed::TimedOut => Ok(None),
    }
}

/// Returns the gate's copy of the key of the person who gives a command.
pub(super) fn persons_key(home: &Path, person: &Principal) -> Result<SignKey> {
    match own_key(home, person)? {
        Some(key) => Ok(key),
        None => bail!(
            "the keyring of `{}` holds no current shared key of `{person}`; name yourself with \
                --as; `spoolgate keys list` shows who has keys",
            home.display()
        ),
    }
}

/// Returns the gate's copy of a principal's shared key, if there is a current one.
pub(super) fn own_key(home: &Path, principal: &Principal) -> Result<Option<SignKey>> {
    let seams = real_seams(home)?;
    let view = read::read(home, &seams)?;
    let keyring = SqliteKeyring::open(home, false).map_err(HomeError::Keyring)?;
    Ok(layout::own_sign_key(
        &keyring,
        &view.state,
        principal,
        seams.clock.now(),
    )?)
}
