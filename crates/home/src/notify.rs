//! Notifies approvers that a proposal waits, with a command that the rules name and that runs
//! beside the gate.
//!
//! One command runs at a time. A failed one is reported and not tried again, because the proposal
//! is in its folder anyway.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use super::core::Core;
use super::parts::{News, Outside};
use super::program;
use spoolgate_gate::elsewhere::CommandAnswer;
use spoolgate_rules::command::CommandRule;

/// Maximum number of waiting notifications; more are not sent.
const WAITING_MAX: usize = 64;

/// Notifications that wait or are being sent. Dropping it ends the running command.
#[derive(Default)]
pub(super) struct Notifications {
    waiting: VecDeque<(CommandRule, String)>,
    running: Option<JoinHandle<Option<CommandAnswer>>>,
    stop: Arc<AtomicBool>,
}

impl Drop for Notifications {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.running.take() {
            let _ = thread.join();
        }
    }
}

impl Outside {
    /// Queues a notification about a proposal; `text` is its pending file.
    pub(super) fn notify(&mut self, core: &Core, news: &mut News, text: String) {
        let Some(notify) = &core.rulebook.notify else {
            return;
        };
        if self.notifications.waiting.len() >= WAITING_MAX {
            news.tell(
                core,
                "too many notifications wait; one is not sent".to_owned(),
            );
            return;
        }
        self.notifications
            .waiting
            .push_back((notify.command.clone(), text));
        self.go_on_notifying(core, news, false);
    }

    /// Starts the next command if none runs, and reports one that failed. `to_the_end` waits until
    /// none is left.
    pub(super) fn go_on_notifying(&mut self, core: &Core, news: &mut News, to_the_end: bool) {
        loop {
            let is_over = self
                .notifications
                .running
                .as_ref()
                .is_some_and(|thread| to_the_end || thread.is_finished());
            if let Some(thread) = self.notifications.running.take_if(|_| is_over) {
                match thread.join() {
                    Ok(Some(CommandAnswer {
                        output: None, note, ..
                    })) => {
                        news.tell(
                            core,
                            format!("approvers were not notified of a proposal: {note}"),
                        );
                    }
                    Ok(_) => {}
                    Err(_) => {
                        news.tell(core, "approvers were not notified of a proposal".to_owned())
                    }
                }
            }
            if self.notifications.running.is_some() {
                return;
            }
            let Some((command, text)) = self.notifications.waiting.pop_front() else {
                return;
            };
            let (root, stop) = (core.root.clone(), Arc::clone(&self.notifications.stop));
            let cage = core.rulebook.safety.cage;
            let thread = std::thread::Builder::new()
                .name("notification".to_owned())
                .spawn(move || {
                    program::run(&root, &command, (cage, "notify"), text.as_bytes(), &stop)
                });
            match thread {
                Ok(thread) => self.notifications.running = Some(thread),
                Err(error) => news.tell(
                    core,
                    format!("approvers were not notified of a proposal: {error}"),
                ),
            }
        }
    }
}
