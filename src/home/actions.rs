//! Outgoing actions of a home: what has begun runs on a bounded pool beside the gate, and what came of it is taken down with
//! the next batch. Nothing is begun before its request line is durable, and nothing twice: what a gate that ended left open
//! is closed at the next start.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::batch::Pending;
use super::open::{Home, HomeError};
use crate::actions::OpenAction;
use crate::gate::gateway::{Begins, Ending, Ran, respond};
use crate::gate::record::Record;
use crate::host::adapters::{Adapters, Credential, Own, Task};
use crate::rules::Rulebook;
use crate::spool::watch::Waker;
use crate::wire::gateway::ActionId;
use crate::wire::ids::{Principal, RequestId};
use crate::wire::time::Time;

/// How often what ends while the gate stops is looked for.
const LOOK: Duration = Duration::from_millis(50);

/// One action that may run.
#[derive(Debug)]
struct Job {
    begins: Begins,
    request_id: RequestId,
    action: String,
    source: Principal,
    /// What tells its adapter from the others of the rulebook.
    adapter: String,
    /// The credential of its service.
    credential: Option<Credential>,
}

/// What runs.
#[derive(Debug)]
struct Running {
    source: Principal,
    adapter: String,
    thread: JoinHandle<()>,
}

/// The pool. Dropping it ends what runs.
#[derive(Debug)]
pub(super) struct Actions {
    waiting: VecDeque<Job>,
    running: BTreeMap<ActionId, Running>,
    /// How those ended whose response is not written yet.
    ended: Vec<(ActionId, Ran)>,
    sender: Sender<(ActionId, Ran)>,
    receiver: Receiver<(ActionId, Ran)>,
    /// Ends what runs at once.
    stop: Arc<AtomicBool>,
    adapters: Arc<dyn Adapters>,
    /// Nothing begins any more: the gate stops.
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

/// Whether one more may take one of these places. Who has none yet may have the last one; who has some leaves one to each
/// of the others who have none, as far as half of the places reach.
fn has_room(places: u32, taken: usize, own: usize, others_without: usize) -> bool {
    let places = usize::try_from(places).unwrap_or(usize::MAX);
    let kept = if own == 0 { 0 } else { others_without.min(places / 2) };
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
            // It has nothing left to do but to end.
            let _ = running.thread.join();
        }
        self.ended.push((id, ran));
    }

    /// The longest waiting action that there is room for, of a principal for whom the fewest run.
    fn next(&mut self, rules: &Rulebook) -> Option<Job> {
        let workers = rules.gateway.workers;
        let running: Vec<(&Principal, &str)> =
            self.running.values().map(|running| (&running.source, running.adapter.as_str())).collect();
        let of = |source: &Principal| running.iter().filter(|(other, _)| *other == source).count();
        let fits = |job: &Job| {
            let rule = &job.begins.adapter;
            let in_it: Vec<&Principal> =
                running.iter().filter(|(_, name)| *name == job.adapter).map(|(source, _)| *source).collect();
            let others = || rules.principals.values().filter(|other| other.name != job.source);
            let is_for = |actions: &[String]| actions.iter().any(|name| rule.actions.contains(name));
            let idle = others().filter(|other| !other.actions.is_empty() && of(&other.name) == 0).count();
            let idle_in_it =
                others().filter(|other| is_for(&other.actions) && !in_it.contains(&&other.name)).count();
            let own_in_it = in_it.iter().filter(|source| ***source == job.source).count();
            has_room(workers, running.len(), of(&job.source), idle)
                && has_room(rule.at_once, in_it.len(), own_in_it, idle_in_it)
        };
        if running.len() >= usize::try_from(workers).unwrap_or(usize::MAX) {
            return None;
        }
        // Jobs of one principal and adapter fit or wait together: each such pair is looked at once.
        let mut known: BTreeMap<(&Principal, &str), bool> = BTreeMap::new();
        let waiting = self.waiting.iter().enumerate().filter(|(_, job)| {
            *known.entry((&job.source, job.adapter.as_str())).or_insert_with(|| fits(job))
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
            let ran = catch_unwind(AssertUnwindSafe(|| run(adapters.as_ref(), &root, &job, &stop)));
            let ran = ran.unwrap_or_else(|_| Ran::new(Ending::Lost, "the gate failed while it ran"));
            // Nobody listens to it only if the gate is ending.
            let _ = sender.send((id, ran));
            waker.iter().for_each(Waker::wake);
        };
        match std::thread::Builder::new().name("adapter".to_owned()).spawn(body) {
            Ok(thread) => {
                self.running.insert(id, Running { source, adapter, thread });
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
    let services: Vec<&str> = adapter.services.iter().map(|service| service.as_str()).collect();
    format!("{} {}", adapter.actions.join(","), services.join(","))
}

fn run(adapters: &dyn Adapters, root: &Path, job: &Job, stop: &AtomicBool) -> Ran {
    let Begins { adapter, service, payload, .. } = &job.begins;
    let task = Task {
        request_id: &job.request_id,
        source: &job.source,
        action: &job.action,
        payload,
        service,
        credential: job.credential.as_ref(),
        home: root,
    };
    adapters.execute(adapter, &task, stop)
}

impl Home {
    /// Has these do what begins from now on, in place of this program's own adapters.
    pub fn use_adapters(&mut self, adapters: Arc<dyn Adapters>) {
        self.actions.adapters = adapters;
    }

    /// Lets an action begin whose request line is durable.
    pub(super) fn begin_action(&mut self, begins: Begins) {
        let Some(open) = self.state.actions.open.get(&begins.id) else { return };
        let (request_id, action, source) =
            (open.request_id.clone(), open.action.clone(), open.source.clone());
        let credential = match self.credential(&begins.service) {
            Ok(credential) => credential,
            Err(error) => {
                self.actions.ended.push((begins.id, Ran::new(Ending::NotRun, error.to_string())));
                return;
            }
        };
        let adapter = name_of(&begins);
        self.actions.waiting.push_back(Job { begins, request_id, action, source, adapter, credential });
    }

    /// Starts what there is room for.
    pub(super) fn start_actions(&mut self) {
        if self.actions.is_ending {
            self.close_waiting();
        }
        while let Some(job) = self.actions.next(&self.rulebook) {
            let waker = self.waker.clone();
            self.actions.start(&self.root, waker, job);
        }
    }

    /// Takes down how actions ended.
    ///
    /// # Errors
    /// [`HomeError`].
    pub(super) fn push_responses(&mut self, pending: &mut Pending, now: Time) -> Result<(), HomeError> {
        self.actions.listen();
        for (id, ran) in std::mem::take(&mut self.actions.ended) {
            let Some(open) = self.state.actions.open.get(&id) else { continue };
            let seq = self.next_seq(pending);
            let (response, blobs) = respond(open, &ran, &self.rulebook.hash, now, seq);
            for (digest, bytes) in &blobs {
                self.put_blob(pending, digest, bytes)?;
            }
            self.push_event(pending, Record::Response(Box::new(response)))?;
        }
        Ok(())
    }

    /// Whether an action waits, runs, or has ended and is not taken down.
    pub(super) fn has_actions(&self) -> bool {
        !(self.actions.waiting.is_empty() && self.actions.running.is_empty() && self.actions.ended.is_empty())
    }

    /// Waits until one ends, or for this long.
    pub(super) fn wait_for_actions(&mut self, at_most: Duration) {
        if !self.actions.running.is_empty()
            && let Ok(end) = self.actions.receiver.recv_timeout(at_most)
        {
            self.actions.note(end);
        }
    }

    /// Waits until everything that runs has come to its end; it is taken down with the next batch.
    pub fn until_actions_end(&mut self) {
        while !self.actions.running.is_empty() {
            self.wait_for_actions(Duration::from_millis(100));
        }
    }

    /// What an earlier gate left open is closed with the next batch: nobody knows whether it was done.
    pub(super) fn close_left_open(&mut self) {
        let told = self.state.actions.open.values().map(|open| {
            let OpenAction { id, action, source, request_id, .. } = open;
            format!(
                "the gate ended while an action was open: {id} {action} of {source}, request `{request_id}`; it is closed as \
                 UNKNOWN_OUTCOME, and whether it was done is known at `{}` only",
                open.host
            )
        });
        self.left_open = told.collect();
        let left = self.state.actions.open.keys().copied();
        let lost = |id| {
            let note = "the gate ended before it was known what came of it".to_owned();
            (id, Ran::new(Ending::Lost, note))
        };
        self.actions.ended.extend(left.map(lost));
    }

    fn close_waiting(&mut self) {
        for job in std::mem::take(&mut self.actions.waiting) {
            let ran = Ran::new(Ending::NotRun, "the gate stopped before it was begun");
            self.actions.ended.push((job.begins.id, ran));
        }
    }

    /// Lets what runs come to its end, or be ended by `hurry`, and nothing more begin: the gate stops. What came of it is
    /// taken down and answered as it comes.
    ///
    /// # Errors
    /// [`HomeError`].
    pub fn end_actions(&mut self, hurry: &AtomicBool) -> Result<(), HomeError> {
        self.actions.is_ending = true;
        self.close_waiting();
        self.actions.listen();
        let running = self.actions.running.len();
        if running > 0 {
            // What was set is why we are here.
            hurry.store(false, Ordering::SeqCst);
            self.tell(format!(
                "{running} actions are being done: the gate ends when they have; one more signal ends them at once, \
                 and nobody will know what came of them"
            ));
        }
        while self.has_actions() {
            if !self.actions.ended.is_empty() {
                self.write_news()?;
                continue;
            }
            if hurry.load(Ordering::SeqCst) {
                self.actions.stop.store(true, Ordering::SeqCst);
            }
            self.wait_for_actions(LOOK);
        }
        Ok(())
    }
}
