//! Requests that wait for a policy or lineage from a command. Their claims are set aside, so that neither the batch nor
//! anybody's exits wait with them; commands run beside the gate; what they answer is taken down as an input, and the
//! next batch decides who waited. A gate that was stopped or killed meanwhile has the claims in `spool/work` and asks
//! again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::batch::{Begun, Outcome, Pending, Told};
use super::open::{Home, HomeError};
use super::program;
use crate::gate::elsewhere::{self, Ask, CommandAnswer, Heard, LineageAsk};
use crate::gate::prepare::{Authentic, Delivery, Origin, Prepared};
use crate::gate::record::Record;
use crate::host::disk::Disk;
use crate::ledger::line::LINE_BYTES_MAX;
use crate::rules::Rulebook;
use crate::rules::command::CommandRule;
use crate::spool::claim::{self, Claimed};
use crate::spool::name::ClaimName;
use crate::spool::watch::Waker;
use crate::wire::admission::Domain;
use crate::wire::ids::Principal;
use crate::wire::time::Time;

/// Most requests that wait; one more is decided at once, without the answer.
const WAITING_MAX: usize = 256;
/// Most requests of one principal that wait.
const WAITING_OF_ONE_MAX: usize = 64;
/// Most bytes of requests that wait.
const WAITING_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Commands of each kind that run at a time.
const AT_ONCE: usize = 4;
/// How often a request waits: for its lineage, for a policy, and for one more where rules change meanwhile.
const WAITS_MAX: u32 = 3;
/// Room for prev, seq, batch and kind in a line.
const LINE_HEAD_BYTES: usize = 200;

/// Whose command.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Whose {
    /// That of a domain.
    Domain(Domain),
    /// That of the request with this ticket.
    Request(u64),
}

/// A request that waits.
struct Waiting {
    ticket: u64,
    claim: ClaimName,
    bytes: Vec<u8>,
    source: Principal,
    /// What it waits for; nothing: its turn has come.
    ask: Option<Ask>,
    told: Told,
}

/// The command of a domain, on its way.
struct PolicyRun {
    /// SHA-256 of the policy file that names it.
    policy: String,
    /// Whether what it delivers was forgotten before it came.
    is_forgotten: bool,
    /// Whether it is the second run for that reason.
    is_second: bool,
}

/// Requests that wait, and commands that run for them. Dropping it ends the commands.
pub(super) struct Elsewhere {
    root: PathBuf,
    waiting: VecDeque<Waiting>,
    policies: BTreeMap<Domain, PolicyRun>,
    lineages: BTreeSet<u64>,
    /// Domains whose command runs once more, because what the last one delivered was forgotten meanwhile.
    again: BTreeSet<Domain>,
    ended: Vec<(Whose, CommandAnswer)>,
    next_ticket: u64,
    threads: Vec<JoinHandle<()>>,
    sender: Sender<(Whose, CommandAnswer)>,
    receiver: Receiver<(Whose, CommandAnswer)>,
    stop: Arc<AtomicBool>,
    waker: Option<Waker>,
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Elsewhere {
    fn new(root: &Path, waker: Option<Waker>) -> Elsewhere {
        let (sender, receiver) = channel();
        Elsewhere {
            root: root.to_owned(),
            waiting: VecDeque::new(),
            policies: BTreeMap::new(),
            lineages: BTreeSet::new(),
            again: BTreeSet::new(),
            ended: Vec::new(),
            next_ticket: 0,
            threads: Vec::new(),
            sender,
            receiver,
            stop: Arc::new(AtomicBool::new(false)),
            waker,
        }
    }

    fn has_room(&self, source: &Principal, bytes: usize) -> bool {
        let held: usize = self.waiting.iter().map(|other| other.bytes.len()).sum();
        let own = self.waiting.iter().filter(|other| other.source == *source).count();
        self.waiting.len() < WAITING_MAX
            && own < WAITING_OF_ONE_MAX
            && held.saturating_add(bytes) <= WAITING_BYTES_MAX
    }

    /// Takes in what commands answered meanwhile.
    fn listen(&mut self) {
        self.ended.extend(self.receiver.try_iter());
        self.threads.retain(|thread| !thread.is_finished());
    }

    /// Starts every command whose turn it is.
    fn start_due(&mut self, rules: &Rulebook) {
        while let Some(domain) = self.next_domain() {
            let policy = rules.admission.get(&domain);
            let command = policy.and_then(|policy| Some((policy, policy.profile.policy_command.as_ref()?)));
            let question = elsewhere::policy_question(&domain);
            let (Some((policy, command)), Some(question)) = (command, question) else {
                self.release(&domain);
                continue;
            };
            let is_second = self.again.remove(&domain);
            let run = PolicyRun { policy: policy.sha256.clone(), is_forgotten: false, is_second };
            self.policies.insert(domain.clone(), run);
            self.start(Whose::Domain(domain), command.clone(), question);
        }
        while let Some((ticket, ask)) = self.next_lineage() {
            self.lineages.insert(ticket);
            self.start(Whose::Request(ticket), ask.command, ask.question);
        }
    }

    fn next_domain(&self) -> Option<Domain> {
        let mut wanted = self.waiting.iter().filter_map(|request| match &request.ask {
            Some(Ask::Policy(domain)) => Some(domain),
            _ => None,
        });
        wanted
            .find(|domain| !self.policies.contains_key(domain))
            .filter(|_| self.policies.len() < AT_ONCE)
            .cloned()
    }

    /// The longest waiting request of a principal for whom the fewest commands run: nobody's flood keeps another
    /// waiting.
    fn next_lineage(&self) -> Option<(u64, LineageAsk)> {
        if self.lineages.len() >= AT_ONCE {
            return None;
        }
        let runs = |request: &&Waiting| self.lineages.contains(&request.ticket);
        let mut running: BTreeMap<&Principal, usize> = BTreeMap::new();
        for request in self.waiting.iter().filter(runs) {
            *running.entry(&request.source).or_default() += 1;
        }
        let wanted =
            self.waiting.iter().filter(|request| !runs(request)).filter_map(|request| match &request.ask {
                Some(Ask::Lineage(ask)) => Some((request, ask)),
                _ => None,
            });
        let next = wanted.min_by_key(|(request, _)| running.get(&request.source).copied().unwrap_or(0));
        next.map(|(request, ask)| (request.ticket, (**ask).clone()))
    }

    fn start(&mut self, whose: Whose, command: CommandRule, question: String) {
        let (sender, stop, root) = (self.sender.clone(), Arc::clone(&self.stop), self.root.clone());
        let (waker, asked_for) = (self.waker.clone(), whose.clone());
        let body = move || {
            if let Some(answer) = program::run(&root, &command, question.as_bytes(), &stop) {
                // Nobody listens to it only if the gate is ending.
                let _ = sender.send((asked_for, answer));
            }
            waker.iter().for_each(Waker::wake);
        };
        match std::thread::Builder::new().name("admission command".to_owned()).spawn(body) {
            Ok(thread) => self.threads.push(thread),
            Err(error) => {
                let note = format!("the command could not be started: {error}");
                self.ended.push((whose, CommandAnswer { note, output: None }));
            }
        }
    }

    /// Who waits for the policy of a domain waits no longer.
    fn release(&mut self, domain: &Domain) {
        for request in &mut self.waiting {
            if matches!(&request.ask, Some(Ask::Policy(asked)) if asked == domain) {
                request.ask = None;
            }
        }
    }

    /// Those whose turn has come. Of one name only one at a time, or the decision over one would be taken for that
    /// over the other; what was begun before alone, so that nothing else goes with it if it kills the gate again.
    fn take_ready(&mut self) -> Vec<Waiting> {
        let mut ready: Vec<Waiting> = Vec::new();
        let mut names: BTreeSet<(Origin, String)> = BTreeSet::new();
        for _ in 0..self.waiting.len() {
            let Some(request) = self.waiting.pop_front() else { break };
            let ClaimName { attempt, origin, file, .. } = &request.claim;
            let fits =
                ready.is_empty() || (*attempt == 1 && ready.iter().all(|other| other.claim.attempt == 1));
            if request.ask.is_none() && fits && names.insert((origin.clone(), file.clone())) {
                ready.push(request);
            } else {
                self.waiting.push_back(request);
            }
        }
        ready
    }
}

impl Home {
    /// What a request has to wait for, in a batch at `now`. `told` is what it has waited for already.
    pub(super) fn must_wait(
        &self,
        request: &Prepared,
        told: &Told,
        now: Time,
    ) -> Result<Option<Ask>, HomeError> {
        if told.waits >= WAITS_MAX {
            return Ok(None);
        }
        let has_lineage = told.reported.is_some();
        let ask = elsewhere::waits_for(&self.state, &self.rulebook, request, has_lineage, now);
        let (Some(ask), Ok(Authentic { envelope, .. })) = (ask, &request.request) else { return Ok(None) };
        // What only is answered again, or whose id is taken, asks nobody.
        let (source, id) = (envelope.source.as_str(), envelope.id.as_str());
        let is_known = self.store.seen(source, id)?.is_some()
            || (request.origin != Origin::Local
                && self.store.seen_in_spool(&request.origin.label(), id)?.is_some());
        Ok(Some(ask).filter(|_| !is_known))
    }

    /// Sets a claim aside until its command has ended. Gives it back where there is no room.
    pub(super) fn set_aside(
        &mut self,
        begun: Begun,
        request: &Prepared,
        ask: Ask,
    ) -> Result<Option<Begun>, HomeError> {
        let (Some(bytes), Ok(authentic)) = (&begun.bytes, &request.request) else { return Ok(Some(begun)) };
        let source = authentic.envelope.source.clone();
        let (root, waker) = (&self.root, &self.waker);
        let elsewhere = self.elsewhere.get_or_insert_with(|| Elsewhere::new(root, waker.clone()));
        // Who waited before has its place still.
        if begun.told.waits == 0 && !elsewhere.has_room(&source, bytes.len()) {
            return Ok(Some(begun));
        }
        let Begun { claim, bytes, told } = begun;
        // A frame has no file to set aside: it waits in memory alone.
        let claim = if claim.is_aside() || claim.origin == Origin::Socket {
            claim
        } else {
            claim::set_aside(self.seams.disk.as_ref(), claim).map_err(in_work)?
        };
        let ticket = elsewhere.next_ticket;
        elsewhere.next_ticket = ticket.wrapping_add(1);
        let (bytes, told) = (bytes.unwrap_or_default(), Told { waits: told.waits.saturating_add(1), ..told });
        elsewhere.waiting.push_back(Waiting { ticket, claim, bytes, source, ask: Some(ask), told });
        Ok(None)
    }

    /// Before a claim is decided: one that waited is named after its batch, and others of its name that still wait
    /// must not be taken for decided after a power cut.
    pub(super) fn before_deciding(&self, claim: ClaimName) -> Result<ClaimName, HomeError> {
        let disk: &dyn Disk = self.seams.disk.as_ref();
        let Some(elsewhere) = &self.elsewhere else { return Ok(claim) };
        let is_namesake =
            |other: &Waiting| other.claim.origin == claim.origin && other.claim.file == claim.file;
        if elsewhere.waiting.iter().any(is_namesake) {
            disk.sync_dir(Path::new(claim::WORK_DIR)).map_err(in_work)?;
        }
        if !claim.is_aside() {
            return Ok(claim);
        }
        claim::take_up(disk, claim, self.ledger.position().batch).map_err(in_work)
    }

    /// Notes that a request had policies forgotten: what commands deliver that run just now is older than that.
    pub(super) fn forget_running(&mut self, request: &Prepared) {
        let Some(elsewhere) = &mut self.elsewhere else { return };
        for (domain, run) in &mut elsewhere.policies {
            run.is_forgotten |= elsewhere::forgets(&self.rulebook, request, domain);
        }
    }

    /// Whether a request waits for a command.
    pub(super) fn waits_for_commands(&self) -> bool {
        self.elsewhere.as_ref().is_some_and(|elsewhere| !elsewhere.waiting.is_empty())
    }

    /// Waits until a command ends, or for this long.
    pub(super) fn wait_for_commands(&mut self, at_most: Duration) {
        let Some(elsewhere) = &mut self.elsewhere else { return };
        let ended = elsewhere.receiver.recv_timeout(at_most);
        elsewhere.ended.extend(ended);
    }

    /// Starts commands, and decides those whose commands have ended. None where there was nothing to decide.
    pub(super) fn hear_commands(&mut self) -> Result<Option<Vec<Outcome>>, HomeError> {
        let Some(elsewhere) = &mut self.elsewhere else { return Ok(None) };
        elsewhere.listen();
        elsewhere.start_due(&self.rulebook);
        let has_ready = elsewhere.waiting.iter().any(|request| request.ask.is_none());
        // Claims left behind have their turn first, one a batch; they may come to wait for the same command.
        let is_due = has_ready || !elsewhere.ended.is_empty();
        if !is_due || !self.left_behind.is_empty() {
            return Ok(None);
        }
        let outcomes = self.process_who_waited()?;
        if let Some(elsewhere) = &mut self.elsewhere {
            elsewhere.start_due(&self.rulebook);
        }
        Ok(Some(outcomes))
    }

    /// Takes down what commands answered, and returns the requests that are to be decided on it.
    pub(super) fn push_answers_from_elsewhere(
        &mut self,
        pending: &mut Pending,
        now: Time,
    ) -> Result<Vec<(Claimed, Told)>, HomeError> {
        let Some(mut elsewhere) = self.elsewhere.take() else { return Ok(Vec::new()) };
        let pushed = self.push_answers_of(&mut elsewhere, pending, now);
        let ready = elsewhere.take_ready();
        self.elsewhere = Some(elsewhere);
        pushed?;
        Ok(ready
            .into_iter()
            .map(|Waiting { claim, bytes, told, .. }| (claimed_again(claim, bytes), told))
            .collect())
    }

    fn push_answers_of(
        &mut self,
        elsewhere: &mut Elsewhere,
        pending: &mut Pending,
        now: Time,
    ) -> Result<(), HomeError> {
        for (whose, answer) in std::mem::take(&mut elsewhere.ended) {
            match whose {
                Whose::Domain(domain) => self.push_policy(elsewhere, pending, &domain, answer, now)?,
                Whose::Request(ticket) => self.push_lineage(elsewhere, pending, ticket, answer, now)?,
            }
        }
        Ok(())
    }

    fn push_policy(
        &mut self,
        elsewhere: &mut Elsewhere,
        pending: &mut Pending,
        domain: &Domain,
        mut answer: CommandAnswer,
        now: Time,
    ) -> Result<(), HomeError> {
        let Some(run) = elsewhere.policies.remove(domain) else { return Ok(()) };
        let policy = self.rulebook.admission.get(domain);
        let Some(policy) = policy.filter(|policy| policy.profile.policy_command.is_some()).cloned() else {
            elsewhere.release(domain);
            return Ok(());
        };
        // Another file asks its own command.
        if policy.sha256 != run.policy {
            return Ok(());
        }
        if run.is_forgotten && !run.is_second {
            elsewhere.again.insert(domain.clone());
            return Ok(());
        }
        if run.is_forgotten {
            let note = "policies were forgotten twice while the policy command ran: send it again".to_owned();
            answer = CommandAnswer { note, output: None };
        }
        let hear =
            |answer: &CommandAnswer| elsewhere::hear_policy(&self.rulebook, domain, &policy, answer, now);
        let heard = fitting(hear, &answer)?;
        elsewhere.release(domain);
        self.push_heard(pending, heard)
    }

    fn push_lineage(
        &mut self,
        elsewhere: &mut Elsewhere,
        pending: &mut Pending,
        ticket: u64,
        answer: CommandAnswer,
        now: Time,
    ) -> Result<(), HomeError> {
        elsewhere.lineages.remove(&ticket);
        let Some(request) = elsewhere.waiting.iter_mut().find(|request| request.ticket == ticket) else {
            return Ok(());
        };
        let Some(Ask::Lineage(ask)) = request.ask.take() else { return Ok(()) };
        let (heard, reported) = elsewhere::hear_lineage(&self.rulebook, &ask, &answer, now);
        request.told.reported = Some(reported);
        self.push_heard(pending, heard)
    }

    fn push_heard(&mut self, pending: &mut Pending, heard: Heard) -> Result<(), HomeError> {
        for (digest, bytes) in &heard.blobs {
            self.put_blob(pending, digest, bytes)?;
        }
        self.push_event(pending, Record::AdmissionInput(Box::new(heard.input)))
    }

    /// Puts claims that wait back for the next start: that the gate was stopped is no attempt of theirs.
    pub(super) fn give_back_waiting(&mut self) {
        let Some(mut elsewhere) = self.elsewhere.take() else { return };
        for Waiting { claim, .. } in elsewhere.waiting.drain(..).filter(|request| request.claim.attempt > 1) {
            let before = ClaimName { attempt: claim.attempt - 1, ..claim.clone() };
            // Should the disk refuse, it counts as one.
            let _ = claim::give_back(self.seams.disk.as_ref(), &claim, &before);
        }
    }
}

fn in_work(source: io::Error) -> HomeError {
    HomeError::disk(Path::new(claim::WORK_DIR), source)
}

/// What was read when the file was claimed: it is not read again.
fn claimed_again(claim: ClaimName, bytes: Vec<u8>) -> Claimed {
    let (origin, file, weight) = (claim.origin.clone(), claim.file.clone(), bytes.len());
    let delivery = Delivery { origin, shown: file.clone(), file, content: Ok(bytes) };
    Claimed { claim, delivery, weight }
}

/// What was heard, as a line that the ledger has room for.
fn fitting(hear: impl Fn(&CommandAnswer) -> Heard, answer: &CommandAnswer) -> Result<Heard, HomeError> {
    let heard = hear(answer);
    let body = serde_json::to_string(&heard.input).map_err(|error| HomeError::Record(error.to_string()))?;
    let bytes_max = LINE_BYTES_MAX - LINE_HEAD_BYTES;
    if body.len() <= bytes_max {
        return Ok(heard);
    }
    let note = format!(
        "{}; its profile makes a ledger line of {} bytes, at most {bytes_max} fit",
        answer.note,
        body.len()
    );
    Ok(hear(&CommandAnswer { note, output: None }))
}
