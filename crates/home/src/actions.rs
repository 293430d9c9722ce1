//! Runs the outgoing actions of a home on a bounded pool beside the gate.
//!
//! The outcome of an action is recorded with the next batch. No action starts before its request
//! line is durable, and none starts twice: the next start closes the actions that a gate left open
//! when it ended.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::batch::Pending;
use super::core::Core;
use super::error::HomeError;
use super::open::Home;
use super::parts::Outside;
use super::sealed;
use spoolgate_gate::gateway::{Begins, Ending, Ran, respond};
use spoolgate_gate::record::Record;
use spoolgate_host::adapters::{Adapters, Credential, Own, Task};
use spoolgate_host::spool::watch::Waker;
use spoolgate_outgoing::OpenAction;
use spoolgate_rules::Rulebook;
use spoolgate_rules::safety::CageLevel;
use spoolgate_wire::gateway::ActionId;
use spoolgate_wire::ids::{Principal, RequestId};
use spoolgate_wire::time::Time;

/// How often a stopping gate checks whether actions have ended.
const LOOK: Duration = Duration::from_millis(50);

/// An action that may run.
#[derive(Debug)]
struct Job {
    begins: Begins,
    request_id: RequestId,
    action: String,
    source: Principal,
    /// Distinguishes its adapter from the other adapters of the rulebook.
    adapter: String,
    /// The credential of its service.
    credential: Option<Credential>,
    /// Which cage is enough for its program.
    cage: CageLevel,
}

/// A running action.
#[derive(Debug)]
struct Running {
    source: Principal,
    adapter: String,
    thread: JoinHandle<()>,
}

/// The pool. Dropping it stops the running actions.
#[derive(Debug)]
pub(super) struct Actions {
    waiting: VecDeque<Job>,
    running: BTreeMap<ActionId, Running>,
    /// Outcomes of actions whose response line is not written yet.
    ended: Vec<(ActionId, Ran)>,
    sender: Sender<(ActionId, Ran)>,
    receiver: Receiver<(ActionId, Ran)>,
    /// Stops the running actions at once when it is set.
    stop: Arc<AtomicBool>,
    adapters: Arc<dyn Adapters>,
    /// Whether the gate is stopping, so that no action starts any more.
    is_ending: bool,
}

impl Default for Actions {
    fn default() -> Actions {
        let (sender, receiver) = channel();
        Actions {
            waiting: VecDeque::new(),
            running: BTreeMap::new(),
            ended: Vec::new(),
            sender,
            receiver,
            stop: Arc::new(AtomicBool::new(false)),
            adapters: Arc::new(Own),
            is_ending: false,
        }
    }
}

impl Drop for Actions {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        for (_, running) in std::mem::take(&mut self.running) {
            let _ = running.thread.join();
        }
    }
}

/// Reports whether a principal may take one more of `places`, of which `taken` are in use, `own` of
/// them by this principal. A principal without a place may take the last one. Any other leaves one
/// place for each of the `others_without` a place, up to half of all places.
fn has_room(places: u32, taken: usize, own: usize, others_without: usize) -> bool {
    let places = usize::try_from(places).unwrap_or(usize::MAX);
    let kept = if own == 0 {
        0
    } else {
        others_without.min(places / 2)
    };
    places.saturating_sub(taken) > kept
}

impl Actions {
    fn listen(&mut self) {
        while let Ok(end) = self.receiver.try_recv() {
            self.note(end);
        }
    }

    fn note(&mut self, (id, ran): (ActionId, Ran)) {
        if let Some(running) = self.running.remove(&id) {
            // The thread has already sent its result and is about to end.
            let _ = running.thread.join();
        }
        self.ended.push((id, ran));
    }

    /// Removes and returns the next job to start: among the jobs that there is room for, the
    /// longest waiting one of a principal with the fewest running actions.
    fn next(&mut self, rules: &Rulebook) -> Option<Job> {
        let workers = rules.gateway.workers;
        let running: Vec<(&Principal, &str)> = self
            .running
            .values()
            .map(|running| (&running.source, running.adapter.as_str()))
            .collect();
        let of = |source: &Principal| running.iter().filter(|(other, _)| *other == source).count();
        let fits = |job: &Job| {
            let rule = &job.begins.adapter;
            let in_it: Vec<&Principal> = running
                .iter()
                .filter(|(_, name)| *name == job.adapter)
                .map(|(source, _)| *source)
                .collect();
            let others = || {
                rules
                    .principals
                    .values()
                    .filter(|other| other.name != job.source)
            };
            let is_for =
                |actions: &[String]| actions.iter().any(|name| rule.actions.contains(name));
            let idle = others()
                .filter(|other| !other.actions.is_empty() && of(&other.name) == 0)
                .count();
            let idle_in_it = others()
                .filter(|other| is_for(&other.actions) && !in_it.contains(&&other.name))
                .count();
            let own_in_it = in_it
                .iter()
                .filter(|source| ***source == job.source)
                .count();
            has_room(*workers, running.len(), of(&job.source), idle)
                && has_room(*rule.at_once, in_it.len(), own_in_it, idle_in_it)
        };
        if running.len() >= usize::try_from(*workers).unwrap_or(usize::MAX) {
            return None;
        }
        // Jobs with the same principal and adapter fit or wait together, so check each such pair
        // once.
        let mut known: BTreeMap<(&Principal, &str), bool> = BTreeMap::new();
        let waiting = self.waiting.iter().enumerate().filter(|(_, job)| {
            *known
                .entry((&job.source, job.adapter.as_str()))
                .or_insert_with(|| fits(job))
        });
        let (index, _) = waiting.min_by_key(|(_, job)| of(&job.source))?;
        self.waiting.remove(index)
    }

    fn start(&mut self, root: &Path, waker: Option<Waker>, job: Job) {
        let id = job.begins.id;
        let (source, adapter) = (job.source.clone(), job.adapter.clone());
        let (sender, stop, root) = (self.sender.clone(), Arc::clone(&self.stop), root.to_owned());
        let adapters = Arc::clone(&self.adapters);
        let body = move || {
            let ran = catch_unwind(AssertUnwindSafe(|| {
                run(adapters.as_ref(), &root, &job, &stop)
            }));
            let ran =
                ran.unwrap_or_else(|_| Ran::new(Ending::Lost, "the gate failed while it ran"));
            // The receiver is gone only if the gate is ending.
            let _ = sender.send((id, ran));
            waker.iter().for_each(Waker::wake);
        };
        match std::thread::Builder::new()
            .name("adapter".to_owned())
            .spawn(body)
        {
            Ok(thread) => {
                self.running.insert(
                    id,
                    Running {
                        source,
                        adapter,
                        thread,
                    },
                );
            }
            Err(error) => {
                let note = format!("the adapter could not be started: {error}");
                self.ended.push((id, Ran::new(Ending::NotRun, note)));
            }
        }
    }
}

fn name_of(begins: &Begins) -> String {
    let adapter = &begins.adapter;
    let services: Vec<&str> = adapter
        .services
        .iter()
        .map(|service| service.as_str())
        .collect();
    format!("{} {}", adapter.actions.join(","), services.join(","))
}

fn run(adapters: &dyn Adapters, root: &Path, job: &Job, stop: &AtomicBool) -> Ran {
    let Begins {
        adapter,
        service,
        payload,
        ..
    } = &job.begins;
    let task = Task {
        request_id: &job.request_id,
        source: &job.source,
        action: &job.action,
        payload,
        service,
        credential: job.credential.as_ref(),
        home: root,
        cage: job.cage,
    };
    adapters.execute(adapter, &task, stop)
}

impl Home {
    /// Replaces this program's own adapters for the actions that start from now on.
    pub fn use_adapters(&mut self, adapters: Arc<dyn Adapters>) {
        self.outside.actions.adapters = adapters;
    }

    /// Writes response lines for the actions that have ended.
    ///
    /// # Errors
    /// Returns [`HomeError`] if a blob cannot be written or a line cannot be folded.
    pub(super) fn push_responses(
        &mut self,
        pending: &mut Pending,
        now: Time,
    ) -> Result<(), HomeError> {
        self.outside.actions.listen();
        let mut ended = std::mem::take(&mut self.outside.actions.ended).into_iter();
        while let Some((id, ran)) = ended.next() {
            let Some(open) = self.core.state.actions.open.get(&id) else {
                continue;
            };
            let seq = self.core.next_seq(pending);
            let (rules, entropy) = (&self.core.rulebook.hash, self.core.seams.entropy.as_ref());
            let mut salt = || sealed::salt(entropy);
            let (response, blobs) = respond(open, &ran, rules, now, seq, &mut salt)?;
            if !self.core.put_blobs_if_room(pending, &blobs)? {
                // What has ended is recorded once the disk has room.
                let rest = [(id, ran)].into_iter().chain(ended);
                self.outside.actions.ended.extend(rest);
                return Ok(());
            }
            self.push_event(pending, Record::Response(Box::new(response)))?;
        }
        Ok(())
    }

    /// Waits until all running actions have ended. The next batch records their outcomes.
    pub fn until_actions_end(&mut self) {
        while !self.outside.actions.running.is_empty() {
            self.outside.wait_for_actions(Duration::from_millis(100));
        }
    }

    /// Ends the actions of a stopping gate.
    ///
    /// No action starts any more, and running ones finish unless `hurry` is set meanwhile. Each
    /// outcome is recorded and answered as it comes, unless the disk is full.
    ///
    /// # Errors
    /// Returns [`HomeError`] if a batch cannot be written.
    pub fn end_actions(&mut self, hurry: &AtomicBool) -> Result<(), HomeError> {
        self.outside.actions.is_ending = true;
        self.outside.close_waiting();
        self.outside.actions.listen();
        let running = self.outside.actions.running.len();
        if running > 0 {
            // The flag is set because the gate is stopping. Clear it, so that one more signal can
            // end the actions at once.
            hurry.store(false, Ordering::SeqCst);
            self.news.tell(
                &self.core,
                format!(
                    "{running} actions are running: the gate stops when they have ended; one more \
                    signal ends them at once, and their outcome will be unknown"
                ),
            );
        }
        while self.outside.has_actions() {
            let is_full = self.is_disk_full();
            if !self.outside.actions.ended.is_empty() && !is_full {
                self.write_news()?;
                continue;
            }
            // The outcomes have no room; the next start closes these actions.
            if is_full && self.outside.actions.running.is_empty() {
                break;
            }
            if hurry.load(Ordering::SeqCst) {
                self.outside.actions.stop.store(true, Ordering::SeqCst);
            }
            self.outside.wait_for_actions(LOOK);
        }
        Ok(())
    }
}

impl Outside {
    /// Queues an action whose request line is durable.
    pub(super) fn begin_action(&mut self, core: &Core, begins: Begins) {
        let Some(open) = core.state.actions.open.get(&begins.id) else {
            return;
        };
        let (request_id, action, source) = (
            open.request_id.clone(),
            open.action.clone(),
            open.source.clone(),
        );
        let credential = match core.credential(&begins.service) {
            Ok(credential) => credential,
            Err(error) => {
                self.actions
                    .ended
                    .push((begins.id, Ran::new(Ending::NotRun, error.to_string())));
                return;
            }
        };
        let adapter = name_of(&begins);
        self.actions.waiting.push_back(Job {
            begins,
            request_id,
            action,
            source,
            adapter,
            credential,
            cage: core.rulebook.safety.cage,
        });
    }

    /// Starts as many waiting actions as there is room for.
    pub(super) fn start_actions(&mut self, core: &Core) {
        if self.actions.is_ending {
            self.close_waiting();
        }
        while let Some(job) = self.actions.next(&core.rulebook) {
            let waker = self.waker.clone();
            self.actions.start(&core.root, waker, job);
        }
    }

    /// Reports whether an action waits, runs, or has ended without a response line.
    pub(super) fn has_actions(&self) -> bool {
        !(self.actions.waiting.is_empty()
            && self.actions.running.is_empty()
            && self.actions.ended.is_empty())
    }

    /// Waits until an action ends, at most `at_most`.
    pub(super) fn wait_for_actions(&mut self, at_most: Duration) {
        if !self.actions.running.is_empty()
            && let Ok(end) = self.actions.receiver.recv_timeout(at_most)
        {
            self.actions.note(end);
        }
    }

    /// Queues outcomes for the actions that an earlier gate left open. The next batch closes them,
    /// because nobody knows whether they were done.
    pub(super) fn close_left_open(&mut self, core: &Core) {
        let told = core.state.actions.open.values().map(|open| {
            let OpenAction {
                id,
                action,
                source,
                request_id,
                ..
            } = open;
            format!(
                "the gate ended while an action was open: {id} {action} of {source}, request \
                    `{request_id}`; it is closed as UNKNOWN_OUTCOME; ask `{}` whether it was \
                    carried out",
                open.host
            )
        });
        self.left_open = told.collect();
        let left = core.state.actions.open.keys().copied();
        let lost = |id| {
            let note = "the gate ended before the outcome was known".to_owned();
            (id, Ran::new(Ending::Lost, note))
        };
        self.actions.ended.extend(left.map(lost));
    }

    fn close_waiting(&mut self) {
        for job in std::mem::take(&mut self.actions.waiting) {
            let ran = Ran::new(Ending::NotRun, "the gate stopped before it began");
            self.actions.ended.push((job.begins.id, ran));
        }
    }
}
