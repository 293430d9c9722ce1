//! Asking roles that a command answers: the brief goes to the program, what it writes comes back as an input. Commands
//! run beside the gate, so none of them holds up a decision; a gate that was killed meanwhile asks again.

use std::collections::{BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use super::batch::Pending;
use super::open::{Home, HomeError};
use super::program;
use crate::council::brief;
use crate::gate::council::{self, RoleAnswer};
use crate::gate::elsewhere::CommandAnswer;
use crate::gate::prepare::escaped;
use crate::rules::command::CommandRule;
use crate::wire::ids::RequestId;

/// Commands that run at a time.
const AT_ONCE: usize = 2;
/// Cases looked through at the start for roles that were not asked yet.
const OPEN_CASES_MAX: usize = 100_000;

/// Roles being asked. Dropping it ends the commands that run.
#[derive(Debug)]
pub(super) struct Asking {
    root: PathBuf,
    waiting: VecDeque<RequestId>,
    running: BTreeSet<(RequestId, String)>,
    threads: Vec<JoinHandle<()>>,
    sender: Sender<RoleAnswer>,
    receiver: Receiver<RoleAnswer>,
    stop: Arc<AtomicBool>,
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Asking {
    /// Notes that a case has opened.
    pub(super) fn about(&mut self, id: RequestId) {
        self.waiting.push_back(id);
    }

    fn ask(&mut self, id: &RequestId, role: &str, spec: CommandRule, brief: String) -> std::io::Result<()> {
        let (sender, stop, root) = (self.sender.clone(), Arc::clone(&self.stop), self.root.clone());
        let (case, role) = (id.clone(), role.to_owned());
        self.running.insert((case.clone(), role.clone()));
        let thread = std::thread::Builder::new().name("role command".to_owned()).spawn(move || {
            if let Some(answer) = program::run(&root, &spec, brief.as_bytes(), &stop) {
                let CommandAnswer { note, output } = answer;
                // Nobody listens to it only if the gate is ending.
                let _ = sender.send(RoleAnswer { case, role, note, output });
            }
        })?;
        self.threads.push(thread);
        Ok(())
    }
}

impl Home {
    /// Has roles with a command answer from now on: cases that are open, and those that open later.
    ///
    /// # Errors
    /// [`HomeError`].
    pub fn let_roles_answer(&mut self) -> Result<(), HomeError> {
        let (sender, receiver) = channel();
        let waiting = self.store.open_cases(OPEN_CASES_MAX)?.into();
        self.asking = Some(Asking {
            root: self.root.clone(),
            waiting,
            running: BTreeSet::new(),
            threads: Vec::new(),
            sender,
            receiver,
            stop: Arc::new(AtomicBool::new(false)),
        });
        Ok(())
    }

    /// Looks through all open cases again: under other rules other roles have a command.
    pub(super) fn ask_again(&mut self) -> Result<(), HomeError> {
        if let Some(asking) = &mut self.asking {
            asking.waiting = self.store.open_cases(OPEN_CASES_MAX)?.into();
        }
        Ok(())
    }

    /// Whether a role's command runs or waits for its turn.
    pub(super) fn is_asking(&self) -> bool {
        self.asking.as_ref().is_some_and(|asking| !asking.running.is_empty() || !asking.waiting.is_empty())
    }

    /// Hands in what commands answered and starts those whose turn it is. Returns whether there is anything to take
    /// down.
    pub(super) fn ask_roles(&mut self) -> Result<bool, HomeError> {
        let Some(mut asking) = self.asking.take() else { return Ok(false) };
        let asked = self.ask_with(&mut asking);
        self.asking = Some(asking);
        asked?;
        Ok(!self.role_answers.is_empty())
    }

    fn ask_with(&mut self, asking: &mut Asking) -> Result<(), HomeError> {
        for answer in asking.receiver.try_iter() {
            asking.running.remove(&(answer.case.clone(), answer.role.clone()));
            self.role_answers.push(answer);
        }
        asking.threads.retain(|thread| !thread.is_finished());
        while asking.running.len() < AT_ONCE {
            let Some(id) = asking.waiting.front().cloned() else { break };
            let Some(docket) = self.store.docket(&id)?.filter(|docket| docket.closed.is_none()) else {
                asking.waiting.pop_front();
                continue;
            };
            let due = council::commands_due(&self.rulebook, &docket);
            let next = due.into_iter().find(|role| {
                let is_answered =
                    self.role_answers.iter().any(|answer| answer.case == id && answer.role == *role);
                !is_answered && !asking.running.contains(&(id.clone(), (*role).to_owned()))
            });
            let Some(rule) = next.and_then(|role| self.rulebook.roles.resolve(role)) else {
                asking.waiting.pop_front();
                continue;
            };
            let Some(spec) = rule.command.clone() else { break };
            let said = self.said(&Pending::default(), &docket)?;
            let (role, sha256) = (rule.name.clone(), &docket.case.request_sha256);
            let brief =
                said.request.map(|request| brief::brief(&request, sha256, rule, &self.rulebook.roles));
            let failed = match brief {
                Some(brief) => asking.ask(&id, &role, spec, brief).err().map(|error| error.to_string()),
                None => Some("the request can no longer be read".to_owned()),
            };
            if let Some(why) = failed {
                asking.running.remove(&(id.clone(), role.clone()));
                let note = escaped(&format!("the command could not be started: {why}"));
                self.role_answers.push(RoleAnswer { case: id, role, note, output: None });
            }
        }
        Ok(())
    }
}
