//! Adapters: the only code that carries out outgoing actions. An adapter is a value behind
//! `Adapter`. Programs and the stub are here; adapters for network services will be added beside
//! them and get the same task. Everything an adapter reports goes through `execute`, which keeps
//! credentials from leaking.

mod exec;
mod secrets;
mod stub;

use std::path::Path;
use std::sync::atomic::AtomicBool;

use zeroize::Zeroize;

use crate::command;

use spoolgate_gate::gateway::{Ending, Ran};
use spoolgate_rules::gateway::AdapterRule;
use spoolgate_rules::safety::CageLevel;
use spoolgate_rules::services::Service;
use spoolgate_wire::ids::{Principal, RequestId};

/// Longest credential whose adapter's complaint is kept: a truncated complaint could contain part
/// of a longer one.
const CREDENTIAL_BESIDE_COMPLAINT: usize = 512;

/// The secret of a service. It is never printed, and its memory is overwritten when it is dropped.
#[derive(Clone)]
pub struct Credential(pub String);

impl Drop for Credential {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Credential(..)")
    }
}

/// An action to carry out once.
#[derive(Clone, Debug)]
pub struct Task<'a> {
    /// Id of the request. The service may use it together with `source` to recognise a second
    /// attempt.
    pub request_id: &'a RequestId,
    /// The sender. Ids are per sender: two principals may use the same id.
    pub source: &'a Principal,
    /// Name of the action.
    pub action: &'a str,
    /// Payload of the request with defaults filled in, JSON.
    pub payload: &'a str,
    /// The service that the action goes to.
    pub service: &'a Service,
    /// The credential of the service, if it has one.
    pub credential: Option<&'a Credential>,
    /// The folder of the home.
    pub home: &'a Path,
    /// Which cage is enough for the adapter's program.
    pub cage: CageLevel,
}

/// Carries out actions.
trait Adapter {
    /// Carries out a task within its limits, or until `stop`. It never fails: the result says what
    /// went wrong.
    fn execute(&self, task: &Task<'_>, stop: &AtomicBool) -> Ran;
}

/// Carries out actions for a gate: the adapters that the rules name, or a substitute for them.
pub trait Adapters: std::fmt::Debug + Send + Sync {
    /// Carries out a task with the adapter of this rule.
    fn execute(&self, rule: &AdapterRule, task: &Task<'_>, stop: &AtomicBool) -> Ran;
}

/// The built-in adapters.
#[derive(Clone, Copy, Debug)]
pub struct Own;

impl Adapters for Own {
    fn execute(&self, rule: &AdapterRule, task: &Task<'_>, stop: &AtomicBool) -> Ran {
        execute(rule, task, stop)
    }
}

/// Selects the adapter of a rule.
fn of(rule: &AdapterRule) -> Box<dyn Adapter + '_> {
    match &rule.command {
        Some(command) => Box::new(exec::Exec { command }),
        None => Box::new(stub::Stub),
    }
}

/// Carries out a task with the adapter of a rule, within its limits, or until `stop`. The result
/// does not contain the task's credential in any form in which programs usually write text.
fn execute(rule: &AdapterRule, task: &Task<'_>, stop: &AtomicBool) -> Ran {
    let mut ran = of(rule).execute(task, stop);
    let Some(Credential(secret)) = task.credential else {
        return ran;
    };
    if secret.len() > CREDENTIAL_BESIDE_COMPLAINT {
        ran.complaint.zeroize();
    }
    let texts = [
        ran.note.as_bytes(),
        &ran.complaint,
        ran.output.as_deref().unwrap_or_default(),
    ];
    // What was cut may hold the beginning of a form that is longer than what is kept.
    let is_cut = ran.complaint.len() >= command::COMPLAINT_BYTES_MAX;
    if texts.iter().any(|text| secrets::holds(text, secret))
        || is_cut && secrets::may_begin(&ran.complaint, secret)
    {
        ran.note.zeroize();
        ran.complaint.zeroize();
        ran.output.zeroize();
        let note = "its output or its complaint held the credential of the service: nothing of \
            them is kept, and whether it was done is not known";
        return Ran {
            cage: ran.cage,
            ..Ran::new(Ending::Withheld, note)
        };
    }
    ran
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_is_not_shown() {
        let credential = Credential("hunter2-hunter2".to_owned());
        let shown = format!("{credential:?} {:?}", Some(&credential));
        assert!(!shown.contains("hunter"), "{shown}");
    }
}
