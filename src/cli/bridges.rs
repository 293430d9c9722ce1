//! Bridges to venues as the commands show them.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use serde_json::{Value, json};
use spoolgate_gate::State;
use spoolgate_gate::bridges::used;
use spoolgate_home::outbox::OUTBOX_DIR;
use spoolgate_rules::Rulebook;
use spoolgate_trading::book::Bridge;
use spoolgate_wire::ids::Principal;
use spoolgate_wire::time::Time;

/// Counts the instructions that a bridge has not taken, and the age of the oldest, milliseconds. `None`
/// if its folder cannot be read.
pub(super) fn untaken(home: &Path, bridge: &str) -> Option<(usize, u64)> {
    let folder = home.join(OUTBOX_DIR).join(bridge);
    let files = match fs::read_dir(folder) {
        Ok(files) => files,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Some((0, 0)),
        Err(_) => return None,
    };
    let (mut count, mut oldest_ms) = (0_usize, 0);
    for file in files {
        let file = file.ok()?;
        let name = file.file_name();
        let name = Path::new(&name);
        let is_told = name.extension().is_some_and(|ending| ending == "json");
        if !is_told || name.as_os_str().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        count = count.saturating_add(1);
        let modified = file.metadata().and_then(|of| of.modified()).ok();
        let age = modified.and_then(|at| SystemTime::now().duration_since(at).ok());
        let age_ms = age.and_then(|age| u64::try_from(age.as_millis()).ok());
        oldest_ms = oldest_ms.max(age_ms.unwrap_or(0));
    }
    Some((count, oldest_ms))
}

/// Says how many instructions a bridge has not taken, and for how long.
pub(super) fn untaken_in_words(untaken: Option<(usize, u64)>) -> String {
    match untaken {
        None => "its folder cannot be read".to_owned(),
        Some((0, _)) => "no instruction is untaken".to_owned(),
        Some((count, ms)) => format!("{count} untaken for {}", seconds(ms)),
    }
}

/// Milliseconds as seconds with one decimal.
pub(super) fn seconds(ms: u64) -> String {
    format!("{}.{} s", ms / 1000, ms % 1000 / 100)
}

/// How old a bridge's sign of life is, milliseconds, if that is so old that a running gate would have
/// found the bridge silent: then no gate has looked.
fn overdue_ms(home: &Path, bridge: &str, rules: &Rulebook) -> Option<u64> {
    let path = home.join(OUTBOX_DIR).join(bridge).join(".alive");
    let modified = fs::metadata(path).and_then(|of| of.modified()).ok()?;
    let age = SystemTime::now().duration_since(modified).ok()?;
    let age_ms = u64::try_from(age.as_millis()).ok()?;
    let timeout_ms = u64::from(*rules.safety.bridges.timeout_s).saturating_mul(1000);
    (age_ms > timeout_ms.saturating_add(OVERDUE_MS)).then_some(age_ms)
}

/// How long a running gate may take to notice that a bridge is silent, milliseconds.
const OVERDUE_MS: u64 = 5_000;

/// Says whether a bridge is there, and agrees with the book.
fn state_in_words(known: Option<&Bridge>, overdue_ms: Option<u64>, now: Time) -> String {
    let Some(known) = known else {
        return "no sign of life yet".to_owned();
    };
    if let (None, Some(age_ms)) = (&known.silent, overdue_ms) {
        let age = seconds(age_ms);
        return format!("no sign of life for {age}, and no gate has noticed: is one running?");
    }
    if let Some(silence) = &known.silent {
        return format!("silent since {}: {}", silence.since, silence.why);
    }
    match known.reconciled_at {
        None => "alive; no snapshot yet".to_owned(),
        Some(at) => {
            let age_ms = u64::try_from(now.since_ms(at)).unwrap_or(0);
            format!("alive; last snapshot {} ago", seconds(age_ms))
        }
    }
}

/// What there is to say of every bridge that anything depends on: its name, and its state in words.
pub(super) fn in_words(
    home: &Path,
    state: &State,
    rules: &Rulebook,
    now: Time,
) -> Vec<(String, String)> {
    let told = |name: &Principal| {
        let overdue_ms = overdue_ms(home, name.as_str(), rules);
        let what = state_in_words(state.book.bridges.get(name), overdue_ms, now);
        let untaken = untaken_in_words(untaken(home, name.as_str()));
        (format!("bridge {name}"), format!("{what}; {untaken}"))
    };
    used(state, rules).into_iter().map(told).collect()
}

/// The same as JSON.
pub(super) fn as_json(home: &Path, state: &State, rules: &Rulebook) -> Vec<Value> {
    let told = |name: &Principal| {
        let known = state.book.bridges.get(name);
        let untaken = untaken(home, name.as_str());
        json!({
            "bridge": name,
            "alive": known.is_some_and(|known| known.silent.is_none())
                && overdue_ms(home, name.as_str(), rules).is_none(),
            "silent": known.and_then(|known| known.silent.as_ref()),
            "run": known.map(|known| &known.run),
            "reconciled_at": known.and_then(|known| known.reconciled_at),
            "untaken": untaken.map(|(count, _)| count),
            "oldest_untaken_ms": untaken.map(|(_, ms)| ms),
        })
    };
    used(state, rules).into_iter().map(told).collect()
}
