//! Roles that are answered by a command: the program gets the brief, and its output comes back as
//! an input. Commands run beside the gate, so none delays a decision; after a crash the gate asks
//! again.

use std::collections::{BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use super::batch::Pending;
use super::core::Core;
use super::error::HomeError;
use super::open::Home;
use super::parts::Outside;
use super::program;
use spoolgate_council::brief;
use spoolgate_gate::council::{self, RoleAnswer};
use spoolgate_gate::elsewhere::CommandAnswer;
use spoolgate_gate::prepare::escaped;
use spoolgate_rules::command::CommandRule;
use spoolgate_rules::safety::CageLevel;
use spoolgate_wire::ids::RequestId;

/// How many commands run at a time.
const AT_ONCE: usize = 2;
/// How many open cases are searched at start for roles that were not asked yet.
const OPEN_CASES_MAX: usize = 100_000;

/// Roles that are being asked. Dropping it stops the running commands.
#[derive(Debug)]
pub(super) struct RoleCommands {
    root: PathBuf,
    waiting: VecDeque<RequestId>,
    running: BTreeSet<(RequestId, String)>,
    /// Answers that go into the next batch.
    answers: Vec<RoleAnswer>,
    threads: Vec<JoinHandle<()>>,
    sender: Sender<RoleAnswer>,
    receiver: Receiver<RoleAnswer>,
    stop: Arc<AtomicBool>,
}

impl Drop for RoleCommands {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl RoleCommands {
    /// Notes that a case has opened.
    pub(super) fn about(&mut self, id: RequestId) {
        self.waiting.push_back(id);
    }

    fn hear(&mut self) {
        for answer in self.receiver.try_iter() {
            self.running
                .remove(&(answer.case.clone(), answer.role.clone()));
            self.answers.push(answer);
        }
        self.threads.retain(|thread| !thread.is_finished());
    }

    fn start_due(&mut self, core: &Core) -> Result<(), HomeError> {
        while self.running.len() < AT_ONCE {
            let Some(id) = self.waiting.front().cloned() else {
                break;
            };
            let Some(docket) = core
                .store
                .docket(&id)?
                .filter(|docket| docket.closed.is_none())
            else {
                self.waiting.pop_front();
                continue;
            };
            let due = council::commands_due(&core.rulebook, &docket);
            let next = due.into_iter().find(|role| {
                let is_answered = self
                    .answers
                    .iter()
                    .any(|answer| answer.case == id && answer.role == *role);
                !is_answered && !self.running.contains(&(id.clone(), (*role).to_owned()))
            });
            let Some(rule) = next.and_then(|role| core.rulebook.roles.resolve(role)) else {
                self.waiting.pop_front();
                continue;
            };
            let Some(spec) = rule.command.clone() else {
                break;
            };
            let said = core.said(&Pending::default(), &docket)?;
            let role = rule.name.clone();
            let brief = said
                .request
                .map(|request| brief::brief(&request, &docket.case, rule, &core.rulebook.roles));
            let failed = match brief {
                Some(brief) => self
                    .ask(&id, &role, (spec, core.rulebook.safety.cage), brief)
                    .err()
                    .map(|error| error.to_string()),
                None => Some("the request can no longer be read".to_owned()),
            };
            if let Some(why) = failed {
                self.running.remove(&(id.clone(), role.clone()));
                let note = escaped(&format!("the command could not be started: {why}"));
                self.answers.push(RoleAnswer {
                    case: id,
                    role,
                    note,
                    output: None,
                    cage: None,
                });
            }
        }
        Ok(())
    }

    fn ask(
        &mut self,
        id: &RequestId,
        role: &str,
        (spec, cage): (CommandRule, CageLevel),
        brief: String,
    ) -> std::io::Result<()> {
        let (sender, stop, root) = (
            self.sender.clone(),
            Arc::clone(&self.stop),
            self.root.clone(),
        );
        let (case, role) = (id.clone(), role.to_owned());
        self.running.insert((case.clone(), role.clone()));
        let thread = std::thread::Builder::new()
            .name("role command".to_owned())
            .spawn(move || {
                if let Some(answer) =
                    program::run(&root, &spec, (cage, "role"), brief.as_bytes(), &stop)
                {
                    let CommandAnswer { note, output, cage } = answer;
                    // The receiver is gone only if the gate is ending.
                    let _ = sender.send(RoleAnswer {
                        case,
                        role,
                        note,
                        output,
                        cage,
                    });
                }
            })?;
        self.threads.push(thread);
        Ok(())
    }
}

impl Home {
    /// Has roles with a command answer from now on, in open cases and in those that open later.
    pub fn let_roles_answer(&mut self) -> Result<(), HomeError> {
        let (sender, receiver) = channel();
        let waiting = self.core.store.open_cases(OPEN_CASES_MAX)?.into();
        self.outside.role_commands = Some(RoleCommands {
            root: self.core.root.clone(),
            waiting,
            running: BTreeSet::new(),
            answers: Vec::new(),
            threads: Vec::new(),
            sender,
            receiver,
            stop: Arc::new(AtomicBool::new(false)),
        });
        Ok(())
    }
}

impl Outside {
    /// Looks through all open cases again: under other rules, other roles have a command.
    pub(super) fn ask_again(&mut self, core: &Core) -> Result<(), HomeError> {
        if let Some(commands) = &mut self.role_commands {
            commands.waiting = core.store.open_cases(OPEN_CASES_MAX)?.into();
        }
        Ok(())
    }

    /// Returns whether a role's command is running or waiting.
    pub(super) fn is_asking(&self) -> bool {
        self.role_commands
            .as_ref()
            .is_some_and(|commands| !commands.running.is_empty() || !commands.waiting.is_empty())
    }

    /// Receives the answers of commands and starts those that are due. Returns whether there are
    /// answers to record.
    pub(super) fn ask_roles(&mut self, core: &Core) -> Result<bool, HomeError> {
        let Some(commands) = &mut self.role_commands else {
            return Ok(false);
        };
        commands.hear();
        commands.start_due(core)?;
        Ok(!commands.answers.is_empty())
    }

    /// Returns whether there are answers of role commands to record.
    pub(super) fn has_role_answers(&self) -> bool {
        self.role_commands
            .as_ref()
            .is_some_and(|commands| !commands.answers.is_empty())
    }

    /// Takes the answers of role commands.
    pub(super) fn give_back_role_answers(&mut self, answers: impl Iterator<Item = RoleAnswer>) {
        if let Some(commands) = &mut self.role_commands {
            commands.answers.extend(answers);
        }
    }

    pub(super) fn take_role_answers(&mut self) -> Vec<RoleAnswer> {
        self.role_commands
            .as_mut()
            .map(|commands| std::mem::take(&mut commands.answers))
            .unwrap_or_default()
    }
}
