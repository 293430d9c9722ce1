//! Telling people that a proposal waits: a command that rules name, beside the gate. One at a time; one that fails is
//! told of and not tried again, for the proposal is in its folder all the same.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use super::open::Home;
use super::program;
use crate::gate::elsewhere::CommandAnswer;
use crate::rules::command::CommandRule;

/// Most notifications that wait for their turn; more are not sent.
const WAITING_MAX: usize = 64;

/// Notifications on their way. Dropping it ends the command that runs.
#[derive(Default)]
pub(super) struct Notifying {
    waiting: VecDeque<(CommandRule, String)>,
    running: Option<JoinHandle<Option<CommandAnswer>>>,
    stop: Arc<AtomicBool>,
}

impl Drop for Notifying {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.running.take() {
            let _ = thread.join();
        }
    }
}

impl Home {
    /// Has people told of a proposal, by its pending file.
    pub(super) fn notify(&mut self, text: String) {
        let Some(notify) = &self.rulebook.notify else { return };
        if self.notifying.waiting.len() >= WAITING_MAX {
            self.tell("too many notifications wait; one is not sent".to_owned());
            return;
        }
        self.notifying.waiting.push_back((notify.command.clone(), text));
        self.go_on_notifying(false);
    }

    /// Starts the next command where none runs, and tells of one that failed. `to_the_end` waits until none is left.
    pub(super) fn go_on_notifying(&mut self, to_the_end: bool) {
        loop {
            let is_over =
                self.notifying.running.as_ref().is_some_and(|thread| to_the_end || thread.is_finished());
            if let Some(thread) = self.notifying.running.take_if(|_| is_over) {
                match thread.join() {
                    Ok(Some(CommandAnswer { output: None, note })) => {
                        self.tell(format!("people were not told of a proposal: {note}"));
                    }
                    Ok(_) => {}
                    Err(_) => self.tell("people were not told of a proposal".to_owned()),
                }
            }
            if self.notifying.running.is_some() {
                return;
            }
            let Some((command, text)) = self.notifying.waiting.pop_front() else { return };
            let (root, stop) = (self.root.clone(), Arc::clone(&self.notifying.stop));
            let thread = std::thread::Builder::new()
                .name("notification".to_owned())
                .spawn(move || program::run(&root, &command, text.as_bytes(), &stop));
            match thread {
                Ok(thread) => self.notifying.running = Some(thread),
                Err(error) => self.tell(format!("people were not told of a proposal: {error}")),
            }
        }
    }
}
