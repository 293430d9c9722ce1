//! Requests that wait for a command to return a policy or lineage.
//!
//! Their claims are set aside, so that neither the batch nor any exit waits with them. The commands
//! run beside the gate; their answers are recorded as inputs, and the next batch decides the
//! waiting requests. If a gate is stopped or killed meanwhile, the claims are in `spool/work` and
//! the next gate asks again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::batch::{Begun, Outcome, Pending, Waited};
use super::core::Core;
use super::error::HomeError;
use super::open::Home;
use super::parts::Outside;
use super::program;
use spoolgate_gate::Seen;
use spoolgate_gate::elsewhere::{self, Ask, CommandAnswer, Heard, LineageAsk};
use spoolgate_gate::prepare::{Authentic, Delivery, Origin, Prepared};
use spoolgate_gate::record::Record;
use spoolgate_host::spool::claim::{self, Claimed};
use spoolgate_host::spool::name::ClaimName;
use spoolgate_host::spool::watch::Waker;
use spoolgate_ledger::disk::Disk;
use spoolgate_ledger::line::LINE_BYTES_MAX;
use spoolgate_rules::Rulebook;
use spoolgate_rules::command::CommandRule;
use spoolgate_rules::safety::CageLevel;
use spoolgate_wire::admission::Domain;
use spoolgate_wire::ids::Principal;
use spoolgate_wire::time::Time;

/// Maximum number of waiting requests; one more is decided at once, without the answer.
const WAITING_MAX: usize = 256;
/// Maximum number of waiting requests of one principal.
const WAITING_OF_ONE_MAX: usize = 64;
/// Maximum bytes of waiting requests.
const WAITING_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Number of commands of each kind that run at the same time.
const AT_ONCE: usize = 4;
/// How often a request may wait: for its lineage, for a policy, and once more if rules change
/// meanwhile.
const WAITS_MAX: u32 = 3;
/// Room for prev, seq, batch and kind in a line.
const LINE_HEAD_BYTES: usize = 200;

/// What a command runs for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Whose {
    /// A domain.
    Domain(Domain),
    /// The request with this ticket.
    Request(u64),
}

/// A request that waits.
struct Waiting {
    ticket: u64,
    claim: ClaimName,
    bytes: Vec<u8>,
    source: Principal,
    /// What it waits for; `None` if its turn has come.
    ask: Option<Ask>,
    waited: Waited,
}

/// A running policy command of a domain.
struct PolicyRun {
    /// SHA-256 of the policy file that names it.
    policy: String,
    /// Whether its result was forgotten before it arrived.
    is_forgotten: bool,
    /// Whether this is the second run for that reason.
    is_second: bool,
}

/// Requests that wait, and commands that run for them. Dropping it ends the commands.
pub(super) struct ExternalPolicy {
    root: PathBuf,
    waiting: VecDeque<Waiting>,
    policies: BTreeMap<Domain, PolicyRun>,
    lineages: BTreeSet<u64>,
    /// Domains whose command runs once more, because the result was forgotten before it arrived.
    again: BTreeSet<Domain>,
    ended: Vec<(Whose, CommandAnswer)>,
    next_ticket: u64,
    threads: Vec<JoinHandle<()>>,
    sender: Sender<(Whose, CommandAnswer)>,
    receiver: Receiver<(Whose, CommandAnswer)>,
    stop: Arc<AtomicBool>,
    waker: Option<Waker>,
}

impl Drop for ExternalPolicy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl ExternalPolicy {
    fn new(root: &Path, waker: Option<Waker>) -> ExternalPolicy {
        let (sender, receiver) = channel();
        ExternalPolicy {
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
        let own = self
            .waiting
            .iter()
            .filter(|other| other.source == *source)
            .count();
        self.waiting.len() < WAITING_MAX
            && own < WAITING_OF_ONE_MAX
            && held.saturating_add(bytes) <= WAITING_BYTES_MAX
    }

    /// Collects the answers of commands that have ended.
    fn listen(&mut self) {
        self.ended.extend(self.receiver.try_iter());
        self.threads.retain(|thread| !thread.is_finished());
    }

    /// Starts every command whose turn it is.
    fn start_due(&mut self, rules: &Rulebook) {
        while let Some(domain) = self.next_domain() {
            let policy = rules.admission.get(&domain);
            let command =
                policy.and_then(|policy| Some((policy, policy.profile.policy_command.as_ref()?)));
            let question = elsewhere::policy_question(&domain);
            let (Some((policy, command)), Some(question)) = (command, question) else {
                self.release(&domain);
                continue;
            };
            let is_second = self.again.remove(&domain);
            let run = PolicyRun {
                policy: policy.sha256.clone(),
                is_forgotten: false,
                is_second,
            };
            self.policies.insert(domain.clone(), run);
            let how = (command.clone(), rules.safety.cage);
            self.start(Whose::Domain(domain), how, question);
        }
        while let Some((ticket, ask)) = self.next_lineage() {
            self.lineages.insert(ticket);
            let how = (ask.command, rules.safety.cage);
            self.start(Whose::Request(ticket), how, ask.question);
        }
    }

    fn next_domain(&self) -> Option<Domain> {
        let mut wanted = self
            .waiting
            .iter()
            .filter_map(|request| match &request.ask {
                Some(Ask::Policy(domain)) => Some(domain),
                _ => None,
            });
        wanted
            .find(|domain| !self.policies.contains_key(domain))
            .filter(|_| self.policies.len() < AT_ONCE)
            .cloned()
    }

    /// Returns the request whose lineage to ask for next: the longest waiting one of a principal
    /// with the fewest running commands, so that no principal's flood delays another.
    fn next_lineage(&self) -> Option<(u64, LineageAsk)> {
        if self.lineages.len() >= AT_ONCE {
            return None;
        }
        let runs = |request: &&Waiting| self.lineages.contains(&request.ticket);
        let mut running: BTreeMap<&Principal, usize> = BTreeMap::new();
        for request in self.waiting.iter().filter(runs) {
            *running.entry(&request.source).or_default() += 1;
        }
        let wanted = self
            .waiting
            .iter()
            .filter(|request| !runs(request))
            .filter_map(|request| match &request.ask {
                Some(Ask::Lineage(ask)) => Some((request, ask)),
                _ => None,
            });
        let next =
            wanted.min_by_key(|(request, _)| running.get(&request.source).copied().unwrap_or(0));
        next.map(|(request, ask)| (request.ticket, (**ask).clone()))
    }

    fn start(&mut self, whose: Whose, (command, cage): (CommandRule, CageLevel), question: String) {
        let (sender, stop, root) = (
            self.sender.clone(),
            Arc::clone(&self.stop),
            self.root.clone(),
        );
        let (waker, asked_for) = (self.waker.clone(), whose.clone());
        let body = move || {
            let how = (cage, "admission");
            if let Some(answer) = program::run(&root, &command, how, question.as_bytes(), &stop) {
                // The receiver is gone only if the gate is ending.
                let _ = sender.send((asked_for, answer));
            }
            waker.iter().for_each(Waker::wake);
        };
        match std::thread::Builder::new()
            .name("admission command".to_owned())
            .spawn(body)
        {
            Ok(thread) => self.threads.push(thread),
            Err(error) => {
                let note = format!("the command could not be started: {error}");
                self.ended.push((
                    whose,
                    CommandAnswer {
                        note,
                        output: None,
                        cage: None,
                    },
                ));
            }
        }
    }

    /// Ends the wait of all requests that wait for the policy of a domain.
    fn release(&mut self, domain: &Domain) {
        for request in &mut self.waiting {
            if matches!(&request.ask, Some(Ask::Policy(asked)) if asked == domain) {
                request.ask = None;
            }
        }
    }

    /// Removes and returns the requests whose turn has come.
    ///
    /// Among requests with the same file name it takes only one at a time, because the decision on
    /// one would be taken for the decision on the other. It takes a request that was begun before
    /// alone, so that no other is affected if it kills the gate again.
    fn take_ready(&mut self) -> Vec<Waiting> {
        let mut ready: Vec<Waiting> = Vec::new();
        let mut names: BTreeSet<(Origin, String)> = BTreeSet::new();
        for _ in 0..self.waiting.len() {
            let Some(request) = self.waiting.pop_front() else {
                break;
            };
            let ClaimName {
                attempt,
                origin,
                file,
                ..
            } = &request.claim;
            let fits = ready.is_empty()
                || (*attempt == 1 && ready.iter().all(|other| other.claim.attempt == 1));
            if request.ask.is_none() && fits && names.insert((origin.clone(), file.clone())) {
                ready.push(request);
            } else {
                self.waiting.push_back(request);
            }
        }
        ready
    }
}

impl Core {
    /// Returns what a request has to wait for in a batch at `now`, if anything. `waited` is what it
    /// has waited for already.
    pub(super) fn must_wait(
        &self,
        request: &Prepared,
        waited: &Waited,
        now: Time,
    ) -> Result<Option<Ask>, HomeError> {
        if waited.waits >= WAITS_MAX {
            return Ok(None);
        }
        let has_lineage = waited.reported.is_some();
        let ask = elsewhere::waits_for(&self.state, &self.rulebook, request, has_lineage, now);
        let (
            Some(ask),
            Ok(Authentic {
                envelope,
                request_hash,
                ..
            }),
        ) = (ask, &request.request)
        else {
            return Ok(None);
        };
        // A request that is only answered again, or whose id is taken, needs no command.
        let (source, id) = (envelope.source.as_str(), envelope.id.as_str());
        let decides = |seen: &Seen| !seen.is_open_to(source, request_hash);
        let is_known = self
            .store
            .seen(source, id)?
            .is_some_and(|seen| decides(&seen))
            || (request.origin != Origin::Local
                && self
                    .store
                    .seen_in_spool(&request.origin.label(), id)?
                    .is_some_and(|seen| decides(&seen)));
        Ok(Some(ask).filter(|_| !is_known))
    }
}

impl Outside {
    /// Sets a claim aside until its command has ended, or returns it if there is no room.
    pub(super) fn set_aside(
        &mut self,
        core: &Core,
        begun: Begun,
        request: &Prepared,
        ask: Ask,
    ) -> Result<Option<Begun>, HomeError> {
        let (Some(bytes), Ok(authentic)) = (&begun.bytes, &request.request) else {
            return Ok(Some(begun));
        };
        let source = authentic.envelope.source.clone();
        let (root, waker) = (&core.root, &self.waker);
        let external = self
            .external_policy
            .get_or_insert_with(|| ExternalPolicy::new(root, waker.clone()));
        // A request that has waited before keeps its place.
        if begun.waited.waits == 0 && !external.has_room(&source, bytes.len()) {
            return Ok(Some(begun));
        }
        let Begun {
            claim,
            bytes,
            waited,
        } = begun;
        // A frame has no file to set aside: it waits in memory alone.
        let claim = if claim.is_aside() || claim.origin.is_socket() {
            claim
        } else {
            claim::set_aside(core.seams.disk.as_ref(), claim).map_err(in_work)?
        };
        let ticket = external.next_ticket;
        external.next_ticket = ticket.wrapping_add(1);
        let (bytes, waited) = (
            bytes.unwrap_or_default(),
            Waited {
                waits: waited.waits.saturating_add(1),
                ..waited
            },
        );
        external.waiting.push_back(Waiting {
            ticket,
            claim,
            bytes,
            source,
            ask: Some(ask),
            waited,
        });
        Ok(None)
    }

    /// Prepares a claim for its decision. A claim that waited is renamed for its batch. If claims
    /// of the same name still wait, their names are synced first, so that they are not taken for
    /// decided after a power cut.
    pub(super) fn before_deciding(
        &self,
        core: &Core,
        claim: ClaimName,
    ) -> Result<ClaimName, HomeError> {
        let disk: &dyn Disk = core.seams.disk.as_ref();
        let Some(external) = &self.external_policy else {
            return Ok(claim);
        };
        let is_namesake =
            |other: &Waiting| other.claim.origin == claim.origin && other.claim.file == claim.file;
        if external.waiting.iter().any(is_namesake) {
            disk.sync_dir(Path::new(claim::WORK_DIR)).map_err(in_work)?;
        }
        if !claim.is_aside() {
            return Ok(claim);
        }
        claim::take_up(disk, claim, core.ledger.position().batch).map_err(in_work)
    }

    /// Marks running policy commands whose policies the request made the gate forget, because their
    /// results are older than the request.
    pub(super) fn forget_running(&mut self, core: &Core, request: &Prepared) {
        let Some(external) = &mut self.external_policy else {
            return;
        };
        for (domain, run) in &mut external.policies {
            run.is_forgotten |= elsewhere::forgets(&core.rulebook, request, domain);
        }
    }

    /// Reports whether a request waits for a command.
    pub(super) fn waits_for_commands(&self) -> bool {
        self.external_policy
            .as_ref()
            .is_some_and(|external| !external.waiting.is_empty())
    }

    /// Waits until a command ends, at most `at_most`.
    pub(super) fn wait_for_commands(&mut self, at_most: Duration) {
        let Some(external) = &mut self.external_policy else {
            return;
        };
        let ended = external.receiver.recv_timeout(at_most);
        external.ended.extend(ended);
    }

    /// Puts waiting claims back for the next start. Stopping the gate does not count as an attempt.
    pub(super) fn give_back_waiting(&mut self, core: &Core) {
        let Some(mut external) = self.external_policy.take() else {
            return;
        };
        for Waiting { claim, .. } in external
            .waiting
            .drain(..)
            .filter(|request| request.claim.attempt > 1)
        {
            let before = ClaimName {
                attempt: claim.attempt - 1,
                ..claim.clone()
            };
            // If the disk refuses, it does count as an attempt.
            let _ = claim::give_back(core.seams.disk.as_ref(), &claim, &before);
        }
    }
}

impl Home {
    /// Starts commands, and decides the requests whose commands have ended. Returns `None` if there
    /// was nothing to decide.
    pub(super) fn hear_commands(&mut self) -> Result<Option<Vec<Outcome>>, HomeError> {
        let Some(external) = &mut self.outside.external_policy else {
            return Ok(None);
        };
        external.listen();
        external.start_due(&self.core.rulebook);
        let has_ready = external.waiting.iter().any(|request| request.ask.is_none());
        // Claims left behind go first, one per batch; they may come to wait for the same command.
        let is_due = has_ready || !external.ended.is_empty();
        // On a full disk they wait.
        let can_wait = self.core.storage.is_full() || !self.intake.left_behind.is_empty();
        if !is_due || can_wait {
            return Ok(None);
        }
        let outcomes = self.process_who_waited()?;
        if let Some(external) = &mut self.outside.external_policy {
            external.start_due(&self.core.rulebook);
        }
        Ok(Some(outcomes))
    }

    /// Records the answers of commands, and returns the requests to decide with them.
    pub(super) fn push_external_answers(
        &mut self,
        pending: &mut Pending,
        now: Time,
    ) -> Result<Vec<(Claimed, Waited)>, HomeError> {
        let Some(mut external) = self.outside.external_policy.take() else {
            return Ok(Vec::new());
        };
        let pushed = self.push_answers_of(&mut external, pending, now);
        let ready = external.take_ready();
        self.outside.external_policy = Some(external);
        pushed?;
        Ok(ready
            .into_iter()
            .map(
                |Waiting {
                     claim,
                     bytes,
                     waited,
                     ..
                 }| (claimed_again(claim, bytes), waited),
            )
            .collect())
    }

    fn push_answers_of(
        &mut self,
        external: &mut ExternalPolicy,
        pending: &mut Pending,
        now: Time,
    ) -> Result<(), HomeError> {
        let mut ended = std::mem::take(&mut external.ended).into_iter();
        while let Some((whose, answer)) = ended.next() {
            let has_room = match &whose {
                Whose::Domain(domain) => {
                    self.push_policy(external, pending, domain, &answer, now)?
                }
                Whose::Request(ticket) => {
                    self.push_lineage(external, pending, *ticket, &answer, now)?
                }
            };
            if !has_room {
                // They are recorded once the disk has room.
                let rest = [(whose, answer)].into_iter().chain(ended);
                external.ended.extend(rest);
                break;
            }
        }
        Ok(())
    }

    /// Records the answer of a policy command. Returns false, and changes nothing, if the disk has no
    /// room for it.
    fn push_policy(
        &mut self,
        external: &mut ExternalPolicy,
        pending: &mut Pending,
        domain: &Domain,
        answer: &CommandAnswer,
        now: Time,
    ) -> Result<bool, HomeError> {
        let Some(run) = external.policies.remove(domain) else {
            return Ok(true);
        };
        let policy = self.core.rulebook.admission.get(domain);
        let Some(policy) = policy
            .filter(|policy| policy.profile.policy_command.is_some())
            .cloned()
        else {
            external.release(domain);
            return Ok(true);
        };
        // The policy file has changed, and the new file has a command of its own.
        if policy.sha256 != run.policy {
            return Ok(true);
        }
        if run.is_forgotten && !run.is_second {
            external.again.insert(domain.clone());
            return Ok(true);
        }
        let note =
            "policies were forgotten twice while the policy command ran: send it again".to_owned();
        let forgotten = CommandAnswer {
            note,
            output: None,
            cage: None,
        };
        let answer = if run.is_forgotten { &forgotten } else { answer };
        let hear = |answer: &CommandAnswer| {
            elsewhere::hear_policy(&self.core.rulebook, domain, &policy, answer, now)
        };
        let heard = fitting(hear, answer)?;
        if !self.core.put_blobs_if_room(pending, &heard.blobs)? {
            external.policies.insert(domain.clone(), run);
            return Ok(false);
        }
        external.release(domain);
        self.push_event(pending, Record::AdmissionInput(Box::new(heard.input)))?;
        Ok(true)
    }

    /// As [`Home::push_policy`], of a lineage command.
    fn push_lineage(
        &mut self,
        external: &mut ExternalPolicy,
        pending: &mut Pending,
        ticket: u64,
        answer: &CommandAnswer,
        now: Time,
    ) -> Result<bool, HomeError> {
        let request = external
            .waiting
            .iter_mut()
            .find(|request| request.ticket == ticket);
        if let Some(request) = request
            && let Some(Ask::Lineage(ask)) = &request.ask
        {
            let (heard, reported) = elsewhere::hear_lineage(&self.core.rulebook, ask, answer, now);
            if !self.core.put_blobs_if_room(pending, &heard.blobs)? {
                return Ok(false);
            }
            request.ask = None;
            request.waited.reported = Some(reported);
            self.push_event(pending, Record::AdmissionInput(Box::new(heard.input)))?;
        }
        external.lineages.remove(&ticket);
        Ok(true)
    }
}

fn in_work(source: io::Error) -> HomeError {
    HomeError::disk(Path::new(claim::WORK_DIR), source)
}

/// Returns a claim with the bytes from its first reading; the file is not read again.
pub(super) fn claimed_again(claim: ClaimName, bytes: Vec<u8>) -> Claimed {
    let (origin, file, weight) = (claim.origin.clone(), claim.file.clone(), bytes.len());
    let delivery = Delivery {
        origin,
        shown: file.clone(),
        file,
        content: Ok(bytes),
    };
    Claimed {
        claim,
        delivery,
        weight,
    }
}

/// Returns what `hear` makes of an answer, without its output if the line would be too long for the
/// ledger.
fn fitting(
    hear: impl Fn(&CommandAnswer) -> Heard,
    answer: &CommandAnswer,
) -> Result<Heard, HomeError> {
    let heard = hear(answer);
    let body = serde_json::to_string(&heard.input)
        .map_err(|error| HomeError::Record(error.to_string()))?;
    let bytes_max = LINE_BYTES_MAX - LINE_HEAD_BYTES;
    if body.len() <= bytes_max {
        return Ok(heard);
    }
    let note = format!(
        "{}; its profile makes a ledger line of {} bytes, at most {bytes_max} fit",
        answer.note,
        body.len()
    );
    Ok(hear(&CommandAnswer {
        note,
        output: None,
        cage: None,
    }))
}
