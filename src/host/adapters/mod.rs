//! Adapters: the only code that has anything done outside. One is a value behind `Adapter`; those of programs and stubs
//! are here, those that speak to a network come beside them and get the same task. What any of them says goes through
//! `execute`, which keeps credentials in.

mod exec;
mod secrets;
mod stub;

use std::path::Path;
use std::sync::atomic::AtomicBool;

use zeroize::Zeroize;

use crate::gate::gateway::{Ending, Ran};
use crate::rules::gateway::AdapterRule;
use crate::rules::services::Service;
use crate::wire::ids::{Principal, RequestId};

/// Complaints beside a longer credential are not kept: a part of it could be all that is kept of a complaint.
const CREDENTIAL_BESIDE_COMPLAINT: usize = 512;

/// A secret of a service. It is never shown, and overwritten when it is let go.
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

/// What is to be done, once.
#[derive(Clone, Debug)]
pub struct Task<'a> {
    /// Id of the request: the other side may use it, with `source`, to tell a second attempt from the first.
    pub request_id: &'a RequestId,
    /// Who signed it. An id is its own: two principals may use the same.
    pub source: &'a Principal,
    /// The action.
    pub action: &'a str,
    /// Its payload with defaults, JSON.
    pub payload: &'a str,
    /// Where it goes.
    pub service: &'a Service,
    /// The credential of the service, where there is one.
    pub credential: Option<&'a Credential>,
    /// The home.
    pub home: &'a Path,
}

/// Something that does actions.
trait Adapter {
    /// Does one, within its limits, or until `stop`. It never fails: what went wrong is said in what it returns.
    fn execute(&self, task: &Task<'_>, stop: &AtomicBool) -> Ran;
}

/// Whatever does actions for a gate: adapters by their rules, or what stands for them.
pub trait Adapters: std::fmt::Debug + Send + Sync {
    /// Does one action by the adapter of this rule, as `Adapter::execute` does.
    fn execute(&self, rule: &AdapterRule, task: &Task<'_>, stop: &AtomicBool) -> Ran;
}

/// The adapters of this program.
#[derive(Clone, Copy, Debug)]
pub struct Own;

impl Adapters for Own {
    fn execute(&self, rule: &AdapterRule, task: &Task<'_>, stop: &AtomicBool) -> Ran {
        execute(rule, task, stop)
    }
}

/// The adapter of a rule.
fn of(rule: &AdapterRule) -> Box<dyn Adapter + '_> {
    match &rule.command {
        Some(command) => Box::new(exec::Exec { command }),
        None => Box::new(stub::Stub),
    }
}

/// Has a task done by the adapter of a rule, within its limits, or until `stop`. Nothing that it returns holds the task's
/// credential in a form that programs write texts in.
fn execute(rule: &AdapterRule, task: &Task<'_>, stop: &AtomicBool) -> Ran {
    let mut ran = of(rule).execute(task, stop);
    let Some(Credential(secret)) = task.credential else { return ran };
    if secret.len() > CREDENTIAL_BESIDE_COMPLAINT {
        ran.complaint.zeroize();
    }
    let texts = [ran.note.as_bytes(), &ran.complaint, ran.output.as_deref().unwrap_or_default()];
    if texts.iter().any(|text| secrets::holds(text, secret)) {
        ran.note.zeroize();
        ran.complaint.zeroize();
        ran.output.zeroize();
        let note = "its output or its complaint held the credential of the service: nothing of them is kept, and \
                    whether it was done is not known";
        return Ran::new(Ending::Withheld, note);
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
