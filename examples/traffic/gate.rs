//! Sends calls through the gate: in a home of its own, as signed requests in its spool, one task
//! after the other.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use spoolgate_gate::record::Status;
use spoolgate_home::batch::Outcome;
use spoolgate_home::{Home, Seams, layout};
use spoolgate_host::clock::{Clock, ManualClock};
use spoolgate_host::entropy::{Entropy, SeededEntropy};
use spoolgate_host::keyring::SqliteKeyring;
use spoolgate_host::real_disk::RealDisk;
use spoolgate_wire::code::Code;
use spoolgate_wire::envelope::Envelope;
use spoolgate_wire::ids::{Principal, RequestId};
use spoolgate_wire::signing::{SignKey, VerifyKey};
use spoolgate_wire::time::Time;

use super::calls::{Call, Suite};
use super::policy;

/// When the first task begins.
const START: &str = "2026-03-02T12:00:00Z";
/// Time between two tasks in milliseconds: longer than every window, so that no task uses up the
/// window of another.
const TASK_MS: i64 = 2 * 86_400_000;
/// Time between two calls of a task in milliseconds, so that they are not a burst.
const CALL_MS: i64 = 2000;
/// Maximum time of the adapters for a task.
const PATIENCE: Duration = Duration::from_secs(120);

/// The fate of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Fate {
    /// The contract's schema cannot express it; the gate answered `MALFORMED_PAYLOAD`.
    Inexpressible,
    /// Refused.
    Refused,
    /// Held for a person.
    Held,
    /// Begun.
    Passed,
}

/// The fate of a call, and what decided it.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    /// The call, by its place in the file.
    pub call: usize,
    /// Its fate.
    pub fate: Fate,
    /// Checks that did not pass.
    pub by: Vec<String>,
}

/// Sends all calls of a suite through a new home under a part of the policy.
///
/// # Errors
/// Returns an error if the home cannot be made, the rules cannot be read, or an answer does not
/// come.
pub(crate) fn run(
    policy: &Path,
    suite: &Suite,
    calls: &[(usize, &Call)],
    groups: &[&str],
    is_open: bool,
) -> Result<Vec<Told>> {
    let root = tempfile::tempdir()?;
    let rules = root.path().join("rules");
    fs::create_dir_all(&rules)?;
    // Every home has these files.
    for name in ["safety.yaml", "instruments.yaml"] {
        fs::copy(
            Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("rules")
                .join(name),
            rules.join(name),
        )?;
    }
    let of_suite: Vec<&Call> = calls.iter().map(|(_, call)| *call).collect();
    policy::write(root.path(), policy, (suite, &of_suite), groups, is_open)?;
    fs::create_dir_all(root.path().join("state"))?;
    let mut gate = Gate::found(root.path())?;
    let mut told = Vec::new();
    let mut rest = calls;
    while let Some((_, first)) = rest.first() {
        let is_same =
            |(_, call): &&(usize, &Call)| call.task_id == first.task_id && call.kind == first.kind;
        let (task, others) = rest.split_at(rest.iter().take_while(is_same).count());
        told.extend(gate.task(task)?);
        rest = others;
    }
    gate.home.finish("all calls were made")?;
    Ok(told)
}

struct Gate {
    home: Home,
    clock: Arc<ManualClock>,
    spool: std::path::PathBuf,
    key: SignKey,
    sent: usize,
}

impl Gate {
    fn found(root: &Path) -> Result<Gate> {
        let clock = Arc::new(ManualClock::at(Time::parse(START)?));
        let entropy = Arc::new(SeededEntropy::new(9));
        let seams = Seams {
            disk: Arc::new(RealDisk::open(root)?),
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            entropy: entropy.clone(),
        };
        let owner = Principal::parse("owner")?;
        let (owner_key, _) = layout::found(root, &seams, "spoolgate.invalid/traffic", &owner)?;
        let keyring = SqliteKeyring::open(root, false)?;
        let owner_key = keyring
            .sign_key(&owner_key)?
            .context("the owner has no key")?;
        let secret = entropy.bytes32()?;
        let key_id = keyring.insert(&VerifyKey::Hmac(secret))?;
        let home = Home::open(root, seams)?;
        if let Some(fault) = home.rules_fault() {
            bail!("the policy cannot be read: {fault}");
        }
        let key = SignKey::Hmac(secret);
        let mut gate = Gate {
            home,
            clock,
            spool: root.join("spool/in"),
            key,
            sent: 0,
        };
        let payload =
            format!(r#"{{"principal":"assistant","key_id":"{key_id}","algorithm":"hmac-sha256"}}"#);
        gate.put(
            &owner_key,
            "owner",
            "key",
            "keys.add",
            &payload,
            gate.clock.now(),
        )?;
        match gate.settle()?.first() {
            Some(outcome) if outcome.answer.error.is_none() => Ok(gate),
            other => bail!("the assistant got no key: {other:?}"),
        }
    }

    /// Signs a request and drops it as an agent does.
    fn put(
        &self,
        key: &SignKey,
        who: &str,
        id: &str,
        action: &str,
        payload: &str,
        at: Time,
    ) -> Result<()> {
        let mut envelope = Envelope {
            id: RequestId::parse(id)?,
            timestamp_text: at.to_string(),
            timestamp: at,
            action: action.to_owned(),
            payload: payload.to_owned(),
            source: Principal::parse(who)?,
            signature: String::new(),
            causality: None,
        };
        envelope.signature = key.sign(&envelope.signing_string());
        let (hidden, file) = (
            self.spool.join(format!("{id}.tmp")),
            self.spool.join(format!("{id}.json")),
        );
        fs::write(&hidden, envelope.to_json())?;
        Ok(fs::rename(hidden, file)?)
    }

    fn task(&mut self, calls: &[(usize, &Call)]) -> Result<Vec<Told>> {
        self.clock.set(self.clock.now().plus_ms(TASK_MS));
        let mut told = Vec::new();
        for (nth, call) in calls {
            self.clock.set(self.clock.now().plus_ms(CALL_MS));
            self.sent = self.sent.saturating_add(1);
            let id = format!("call-{:04}", self.sent);
            let payload = serde_json::to_string(&call.payload)?;
            self.put(
                &self.key,
                "assistant",
                &id,
                &call.action,
                &payload,
                self.clock.now(),
            )?;
            let outcomes = self.settle()?;
            let decided = outcomes
                .iter()
                .find(|outcome| outcome.decision.request_id.as_deref() == Some(&id));
            let Some(outcome) = decided else {
                bail!("{}: nothing was decided", call.name())
            };
            told.push(Told {
                call: *nth,
                fate: fate(outcome),
                by: by(outcome),
            });
        }
        Ok(told)
    }

    /// Runs rounds until nothing is left to do.
    fn settle(&mut self) -> Result<Vec<Outcome>> {
        let begun = Instant::now();
        let mut outcomes = Vec::new();
        loop {
            let round = self.home.round(false)?;
            outcomes.extend(round.outcomes);
            if !round.more && self.home.state().actions.open.is_empty() {
                return Ok(outcomes);
            }
            if begun.elapsed() > PATIENCE {
                bail!("adapters did not end");
            }
            if !round.more {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

fn fate(outcome: &Outcome) -> Fate {
    match outcome.decision.status {
        Status::Pending | Status::Success | Status::Error => Fate::Passed,
        Status::Held => Fate::Held,
        Status::RateLimited => Fate::Refused,
        Status::Rejected => match outcome.answer.error.as_ref().map(|error| error.code) {
            Some(Code::MalformedPayload) => Fate::Inexpressible,
            _ => Fate::Refused,
        },
    }
}

fn by(outcome: &Outcome) -> Vec<String> {
    let failed = outcome.decision.checks.iter().filter(|row| !row.passed);
    let names: Vec<String> = failed.map(|row| row.name.to_string()).collect();
    match (&outcome.answer.error, names.is_empty()) {
        (Some(error), true) => vec![error.code.to_string()],
        _ => names,
    }
}
