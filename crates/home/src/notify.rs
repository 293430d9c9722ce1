//! Tells people what happens, with the programs of `rules/notify.yaml`, beside the gate.
//!
//! Notices follow from ledger lines. Each receiver has a mark: the line up to which it was told
//! everything. `state/notified` keeps the marks, and a mark moves only after its program has
//! succeeded, so a crash repeats notices and loses none. A receiver without a mark starts at the end
//! of the ledger. What does not fit into memory stays in the ledger and is read from there later.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use super::core::Core;
use super::error::HomeError;
use super::parts::{News, Outside};
use super::program;
use super::proposals::steps;
use spoolgate_gate::elsewhere::CommandAnswer;
use spoolgate_gate::notice::{self, Level, Notice};
use spoolgate_gate::proposals::{Change as Step, pending_file};
use spoolgate_gate::record::{Event, EventKind, Record};
use spoolgate_host::spool::watch::Waker;
use spoolgate_ledger::disk::{self, Disk, Mode};
use spoolgate_rules::notify::{Kind, Receiver};
use spoolgate_rules::safety::CageLevel;
use spoolgate_wire::time::Time;

/// The marks, below the home.
pub const MARKS: &str = "state/notified";

/// Largest file of marks that is read, bytes.
const MARKS_BYTES_MAX: usize = 64 * 1024;

/// Maximum number of waiting notices per receiver, but for those of one more line.
const QUEUE_MAX: usize = 64;

/// From this number of waiting notices on, those that are no alarms are only counted, so that nobody
/// can keep an alarm waiting behind a flood.
const MANY: usize = QUEUE_MAX / 2;

/// Maximum number of lines that one round reads back from the ledger; decisions wait for them.
const READ_BACK_MAX: u64 = 64;

/// Maximum number of notices of a kind that a receiver gets within [`WINDOW_MS`].
const AT_ONCE: u64 = 5;

/// Time within which more notices of a kind become one, milliseconds.
const WINDOW_MS: u64 = 10_000;

/// How long after each failed try the next one follows, milliseconds. After the last try a line
/// says that the receiver was not told.
const TRIES_AFTER_MS: [u64; 3] = [10_000, 60_000, 300_000];

/// Maximum number of texts that are remembered because a receiver is told of them once.
const ONCE_MAX: usize = 64;

/// Number of lines without a notice after which a mark is kept, so that the next start reads few
/// lines back.
const LINES_PER_MARK: u64 = 1024;

/// How long the end of a run or of a command waits for programs, milliseconds. It holds the home
/// meanwhile, and what is not told by then is told by the next start.
const END_MS: u64 = 5_000;

/// How often the end looks at that time.
const LOOK: Duration = Duration::from_millis(50);

/// A notice that waits for its receiver.
struct Item {
    /// The first line that it is about: the mark stays before it.
    first: u64,
    /// The line that it names.
    line: u64,
    at: Time,
    id: String,
    notice: Notice,
}

/// Notices of one kind within a short time.
struct Window {
    since_ms: u64,
    told: u64,
    /// Those that are only counted, if there are any.
    rest: Option<Rest>,
}

/// Notices that become one.
struct Rest {
    count: u64,
    lines: (u64, u64),
    level: Level,
    at: Time,
}

/// A running program.
struct Running {
    thread: JoinHandle<()>,
    answer: mpsc::Receiver<Option<CommandAnswer>>,
    /// What it has answered, if that was waited for.
    said: Option<Result<Option<CommandAnswer>, mpsc::TryRecvError>>,
}

/// A receiver, and what waits for it.
struct Post {
    receiver: Receiver,
    /// The last line whose notices are in the queue, or were.
    read_to: u64,
    queue: VecDeque<Item>,
    windows: BTreeMap<Kind, Window>,
    once: VecDeque<String>,
    running: Option<Running>,
    failed_tries: usize,
    next_try_ms: u64,
    /// Whether the queue became shorter since the marks were kept.
    was_told: bool,
}

/// The receivers of a home. Dropping it ends the running programs.
#[derive(Default)]
pub(super) struct Notifications {
    posts: Vec<Post>,
    /// The last line that this process offered to receivers; `None` before the first call.
    seen: Option<u64>,
    /// The marks as the file has them.
    kept: BTreeMap<String, u64>,
    /// Whether the last step read lines back.
    has_read: bool,
    /// Whether the file could not be written; this is reported once.
    is_unkept: bool,
    /// Threads of receivers that the rules name no longer.
    leaving: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
}

impl Drop for Notifications {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let running = self.posts.drain(..).filter_map(|post| post.running);
        let running = running.map(|running| running.thread);
        for thread in running.chain(self.leaving.drain(..)) {
            let _ = thread.join();
        }
    }
}

impl Post {
    fn new(receiver: Receiver, read_to: u64) -> Post {
        Post {
            receiver,
            read_to,
            queue: VecDeque::new(),
            windows: BTreeMap::new(),
            once: VecDeque::new(),
            running: None,
            failed_tries: 0,
            next_try_ms: 0,
            was_told: false,
        }
    }

    /// The line up to which the receiver was told everything.
    fn mark(&self) -> u64 {
        let queued = self.queue.iter().map(|item| item.first);
        let rests = self
            .windows
            .values()
            .filter_map(|window| window.rest.as_ref());
        let waiting = queued.chain(rests.map(|rest| rest.lines.0)).min();
        waiting.map_or(self.read_to, |line| line.saturating_sub(1))
    }

    /// Takes the notices of a line; returns whether there was room.
    fn take(&mut self, (line, at): (u64, Time), notices: &[Notice], now_ms: u64) -> bool {
        if self.queue.len() >= QUEUE_MAX {
            return false;
        }
        self.read_to = line;
        let name = self.receiver.name.as_str();
        for (number, notice) in notices.iter().enumerate() {
            let is_own = notice.not_to.as_deref() == Some(name);
            if is_own || !self.receiver.hears(notice.kind) {
                continue;
            }
            if let Some(once) = &notice.once {
                if self.once.contains(once) {
                    continue;
                }
                if self.once.len() >= ONCE_MAX {
                    self.once.pop_front();
                }
                self.once.push_back(once.clone());
            }
            // Each proposal has a text of its own, so none can stand for another.
            if self.receiver.reads_proposals
                || count(
                    &mut self.windows,
                    &mut self.queue,
                    notice,
                    (line, at),
                    now_ms,
                )
            {
                self.queue.push_back(Item {
                    first: line,
                    line,
                    at,
                    id: format!("n-{line}-{number}"),
                    notice: notice.clone(),
                });
            }
        }
        true
    }

    /// Turns the notices that were only counted into one per kind, once their time is over; or at
    /// once.
    fn close_windows(&mut self, now_ms: u64, at_once: bool) {
        for (kind, window) in &mut self.windows {
            if at_once || (window.is_over(now_ms) && self.queue.len() < MANY) {
                window.close(*kind, &mut self.queue);
            }
        }
    }

    fn is_due(&self, now_ms: u64) -> bool {
        self.running.is_none() && !self.queue.is_empty() && self.next_try_ms <= now_ms
    }

    /// Waits until the program has ended, but no longer than this.
    fn wait(&mut self, at_most: Duration) {
        let Some(running) = &mut self.running else {
            return;
        };
        if running.said.is_none() {
            running.said = match running.answer.recv_timeout(at_most) {
                Err(mpsc::RecvTimeoutError::Timeout) => None,
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    Some(Err(mpsc::TryRecvError::Disconnected))
                }
                Ok(answer) => Some(Ok(answer)),
            };
        }
    }

    /// Takes the answer of the program, if it has ended: whether the receiver was told, or why not.
    fn ended(&mut self) -> Option<Result<(), String>> {
        let running = self.running.as_mut()?;
        let said = running.said.take();
        let answer = said.unwrap_or_else(|| running.answer.try_recv());
        if answer == Err(mpsc::TryRecvError::Empty) {
            return None;
        }
        if let Some(running) = self.running.take() {
            let _ = running.thread.join();
        }
        match answer {
            Ok(Some(CommandAnswer {
                output: Some(_), ..
            })) => Some(Ok(())),
            Ok(Some(CommandAnswer { note, .. })) => Some(Err(note)),
            // The gate is ending.
            Ok(None) => None,
            Err(_) => Some(Err("the gate failed while it ran".to_owned())),
        }
    }

    /// Starts the program; returns whether a thread could be made for it.
    fn start(&mut self, input: String, how: How) -> bool {
        let (sender, answer) = mpsc::channel();
        let command = self.receiver.command.clone();
        let body = move || {
            let How {
                root,
                cage,
                stop,
                waker,
            } = how;
            let input = input.as_bytes();
            let _ = sender.send(program::run(
                &root,
                &command,
                (cage, "notify"),
                input,
                &stop,
            ));
            waker.iter().for_each(Waker::wake);
        };
        let thread = std::thread::Builder::new().name("notification".to_owned());
        let thread = thread.spawn(body).ok();
        self.running = thread.map(|thread| Running {
            thread,
            answer,
            said: None,
        });
        self.running.is_some()
    }
}

/// How programs run.
struct How {
    root: std::path::PathBuf,
    cage: CageLevel,
    stop: Arc<AtomicBool>,
    waker: Option<Waker>,
}

/// Counts a notice, and returns whether it is told by itself.
fn count(
    windows: &mut BTreeMap<Kind, Window>,
    queue: &mut VecDeque<Item>,
    notice: &Notice,
    (line, at): (u64, Time),
    now_ms: u64,
) -> bool {
    let window = windows.entry(notice.kind).or_insert(Window {
        since_ms: now_ms,
        told: 0,
        rest: None,
    });
    let has_room = queue.len() < MANY;
    if window.is_over(now_ms) {
        if has_room {
            window.close(notice.kind, queue);
        }
        (window.since_ms, window.told) = (now_ms, 0);
    }
    if window.told < AT_ONCE && (has_room || notice.level == Level::Alarm) {
        window.told = window.told.saturating_add(1);
        return true;
    }
    let rest = window.rest.get_or_insert(Rest {
        count: 0,
        lines: (line, line),
        level: notice.level,
        at,
    });
    rest.count = rest.count.saturating_add(1);
    (rest.lines.1, rest.at) = (line, at);
    rest.level = rest.level.max(notice.level);
    false
}

impl Window {
    fn is_over(&self, now_ms: u64) -> bool {
        now_ms.saturating_sub(self.since_ms) >= WINDOW_MS
    }

    /// Queues one notice for those that were only counted.
    fn close(&mut self, kind: Kind, queue: &mut VecDeque<Item>) {
        let Some(rest) = self.rest.take() else { return };
        let (first, line) = rest.lines;
        queue.push_back(Item {
            first,
            line,
            at: rest.at,
            id: format!("n-{line}-{}", kind.as_str()),
            notice: Notice::of_many(kind, rest.level, rest.count, rest.lines),
        });
    }
}

impl Notifications {
    /// Follows the receivers of the rulebook in force. New ones start at their marks, or after
    /// line `before`.
    fn follow(&mut self, core: &Core, news: &mut News, before: u64) {
        let to = &core.rulebook.notify.to;
        let is_first = self.seen.is_none();
        let is_same = to.iter().eq(self.posts.iter().map(|post| &post.receiver));
        if is_same && !is_first {
            return;
        }
        let disk = core.seams.disk.as_ref();
        if is_first {
            self.seen = Some(before);
            self.kept = read_marks(disk).unwrap_or_else(|why| {
                news.tell(core, format!("{why}; receivers are told from here on"));
                BTreeMap::new()
            });
        }
        let mut posts = std::mem::take(&mut self.posts);
        for receiver in to {
            let known = posts
                .iter()
                .position(|post| post.receiver.name == receiver.name);
            let post = match known.map(|index| posts.swap_remove(index)) {
                Some(post) => Post {
                    receiver: receiver.clone(),
                    ..post
                },
                None => {
                    // After a rollback the ledger may end before the mark.
                    let mark = self.kept.get(receiver.name.as_str());
                    let mark = mark.filter(|_| is_first).copied().unwrap_or(before);
                    Post::new(receiver.clone(), mark.min(before))
                }
            };
            self.posts.push(post);
        }
        let gone = posts.into_iter().filter_map(|post| post.running);
        self.leaving.extend(gone.map(|running| running.thread));
        self.leaving.retain(|thread| !thread.is_finished());
        self.keep_marks(core, news);
    }

    /// Keeps the marks if one was told something, or is far ahead of the file.
    fn keep_marks(&mut self, core: &Core, news: &mut News) {
        let marks: BTreeMap<String, u64> = self
            .posts
            .iter()
            .map(|post| (post.receiver.name.to_string(), post.mark()))
            .collect();
        let is_kept = |(name, mark): (&String, &u64)| {
            let kept = self.kept.get(name);
            kept.is_some_and(|kept| mark.saturating_sub(*kept) < LINES_PER_MARK && kept <= mark)
        };
        let is_same = marks.len() == self.kept.len() && marks.iter().all(is_kept);
        if is_same && !self.posts.iter().any(|post| post.was_told) {
            return;
        }
        let disk = core.seams.disk.as_ref();
        match write_marks(disk, &marks) {
            Ok(()) => {
                self.kept = marks;
                self.is_unkept = false;
                self.posts.iter_mut().for_each(|post| post.was_told = false);
            }
            Err(error) if !self.is_unkept => {
                self.is_unkept = true;
                let note =
                    format!("`{MARKS}` cannot be written, so a start repeats notices: {error}");
                news.tell(core, note);
            }
            Err(_) => {}
        }
    }

    /// Reads lines back for receivers that are behind; returns whether it read any.
    fn read_back(&mut self, core: &Core, news: &mut News, now_ms: u64) -> bool {
        let seen = self.seen.unwrap_or_default();
        let mut left = READ_BACK_MAX;
        for post in &mut self.posts {
            while post.read_to < seen && left > 0 && post.queue.len() < QUEUE_MAX {
                let line = post.read_to.saturating_add(1);
                let record = match core.store.line(line) {
                    Ok(Some(_)) => core.record(line).map(|(_, record)| Some(record)),
                    // A seal, or a line that others do not need.
                    Ok(None) => Ok(None),
                    // The index cannot be read: a later round tries again.
                    Err(_) => break,
                };
                left = left.saturating_sub(1);
                match record {
                    Ok(Some(record)) => {
                        let of = (line, record.timestamp());
                        post.take(of, &notice::of(&record), now_ms);
                    }
                    Ok(None) => post.read_to = line,
                    Err(error) => {
                        post.read_to = line;
                        let name = &post.receiver.name;
                        let note =
                            format!("receiver `{name}` is told nothing of line {line}: {error}");
                        news.tell(core, note);
                    }
                }
            }
        }
        left < READ_BACK_MAX
    }

    /// Hears from programs that have ended. A notice is given up after its last try, but not at the
    /// end of a run, whose last line is written, nor while the disk is full.
    fn hear(&mut self, core: &Core, news: &mut News, now_ms: u64, is_end: bool) {
        for post in &mut self.posts {
            let Some(ended) = post.ended() else {
                continue;
            };
            let Some(item) = post.queue.front() else {
                continue;
            };
            match ended {
                Ok(()) => {
                    post.queue.pop_front();
                    (post.failed_tries, post.next_try_ms, post.was_told) = (0, 0, true);
                }
                Err(note) => {
                    let (name, id) = (&post.receiver.name, &item.id);
                    news.tell(
                        core,
                        format!("receiver `{name}` was not told of {id}: {note}"),
                    );
                    let [.., long] = TRIES_AFTER_MS;
                    let after = TRIES_AFTER_MS.get(post.failed_tries).copied();
                    post.failed_tries = post.failed_tries.saturating_add(1);
                    let has_no_line = is_end || core.storage.is_full();
                    if let Some(wait_ms) = after.or(has_no_line.then_some(long)) {
                        post.next_try_ms = now_ms.saturating_add(wait_ms);
                        continue;
                    }
                    if item.notice.kind != Kind::NotTold {
                        let tries = post.failed_tries;
                        let note = notice::not_told(name.as_str(), id, item.notice.kind, tries);
                        news.events.push(Record::Event(
                            EventKind::NotTold,
                            Event {
                                timestamp: core.ledger_now(),
                                note,
                                changes: Vec::new(),
                                cage: None,
                            },
                        ));
                    }
                    post.queue.pop_front();
                    (post.failed_tries, post.next_try_ms, post.was_told) = (0, 0, true);
                }
            }
        }
    }

    /// Reads back, hears from programs and starts what is due; returns whether there is more to do
    /// at once, or a program runs. `is_end` puts nothing off.
    fn step(&mut self, core: &Core, news: &mut News, waker: Option<&Waker>, is_end: bool) -> bool {
        let now_ms = core.seams.clock.monotonic_ms();
        self.has_read = self.read_back(core, news, now_ms);
        for post in &mut self.posts {
            post.close_windows(now_ms, is_end);
        }
        self.hear(core, news, now_ms, is_end);
        let runs = self.start(core, waker, now_ms);
        if is_end {
            self.keep_marks(core, news);
        }
        runs || self.has_read
    }

    /// Starts the programs of notices that are due; returns whether any runs.
    fn start(&mut self, core: &Core, waker: Option<&Waker>, now_ms: u64) -> bool {
        for post in &mut self.posts {
            if !post.is_due(now_ms) {
                continue;
            }
            let Some(item) = post.queue.front() else {
                continue;
            };
            let input = match post.receiver.reads_proposals {
                true => pending_text(core, item),
                false => item.notice.to_line(&item.id, item.at, item.line).ok(),
            };
            let Some(input) = input else {
                post.queue.pop_front();
                post.was_told = true;
                continue;
            };
            let how = How {
                root: core.root.clone(),
                cage: core.rulebook.safety.cage,
                stop: Arc::clone(&self.stop),
                waker: waker.cloned(),
            };
            if !post.start(input, how) {
                let [soon, ..] = TRIES_AFTER_MS;
                post.next_try_ms = now_ms.saturating_add(soon);
            }
        }
        self.posts.iter().any(|post| post.running.is_some())
    }
}

/// Returns the text of the pending file of a proposal; `None` if its line can no longer be read.
fn pending_text(core: &Core, item: &Item) -> Option<String> {
    let (_, record) = core.record(item.line).ok()?;
    let about = item.notice.about.as_deref();
    let proposed = steps(record.changes()).find_map(|step| match step {
        Step::Pended { proposed, .. } if about == Some(&proposed.proposal_id.to_string()) => {
            Some(proposed)
        }
        _ => None,
    })?;
    pending_file(proposed).ok()
}

fn read_marks(disk: &dyn Disk) -> Result<BTreeMap<String, u64>, String> {
    match disk.read(Path::new(MARKS), MARKS_BYTES_MAX) {
        Ok(file) => serde_json::from_slice(&file.bytes)
            .map_err(|error| format!("`{MARKS}` cannot be read: {error}")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(BTreeMap::new()),
        Err(error) => Err(format!("`{MARKS}` cannot be read: {error}")),
    }
}

/// Writes the marks; without receivers there is no file, so that one that is named later starts at
/// the end.
fn write_marks(disk: &dyn Disk, marks: &BTreeMap<String, u64>) -> std::io::Result<()> {
    let path = Path::new(MARKS);
    if marks.is_empty() {
        return match disk.remove(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
    }
    let text = serde_json::to_vec(marks).map_err(std::io::Error::other)?;
    disk::replace(disk, path, &text, Mode::Private, true)
}

impl Outside {
    /// Queues the notices of durable lines.
    pub(super) fn notify_of<'a>(
        &mut self,
        core: &Core,
        news: &mut News,
        lines: impl Iterator<Item = (u64, &'a Record)> + Clone,
    ) {
        let Some((first, _)) = lines.clone().next() else {
            return;
        };
        let notifications = &mut self.notifications;
        notifications.follow(core, news, first.saturating_sub(1));
        let before = notifications.seen.unwrap_or_default();
        let tip = core.ledger.position().seq.saturating_sub(1);
        notifications.seen = Some(tip);
        if notifications.posts.is_empty() {
            return;
        }
        let now_ms = core.seams.clock.monotonic_ms();
        let mut current: Vec<&mut Post> = notifications
            .posts
            .iter_mut()
            .filter(|post| post.read_to >= before)
            .collect();
        for (line, record) in lines {
            let notices = notice::of(record);
            if !notices.is_empty() {
                let of = (line, record.timestamp());
                // A receiver without room is behind from here on, and the ledger keeps the rest.
                current.retain_mut(|post| post.take(of, &notices, now_ms));
            }
        }
        // The seal of the batch has no notices.
        current.into_iter().for_each(|post| post.read_to = tip);
    }

    /// Hears from programs that have ended and starts what is due.
    pub(super) fn go_on_notifying(&mut self, core: &Core, news: &mut News) {
        let waker = self.waker.clone();
        let tip = core.ledger.position().seq.saturating_sub(1);
        self.notifications.follow(core, news, tip);
        // The lines of what was given up before are durable by now.
        self.notifications.keep_marks(core, news);
        self.notifications.step(core, news, waker.as_ref(), false);
    }

    /// Whether the last round read lines back, so that the next one may find more.
    pub(super) fn has_notices_behind(&self) -> bool {
        self.notifications.has_read
    }

    /// Goes on until nothing is due, but no longer than [`END_MS`].
    pub(super) fn end_notifying(&mut self, core: &Core, news: &mut News) {
        self.go_on_notifying(core, news);
        let notifications = &mut self.notifications;
        let now_ms = || core.seams.clock.monotonic_ms();
        let until_ms = now_ms().saturating_add(END_MS);
        while notifications.step(core, news, None, true) {
            if now_ms() >= until_ms {
                // Their threads end the programs and are joined later.
                std::mem::take(&mut notifications.stop).store(true, Ordering::SeqCst);
                let posts = notifications.posts.iter();
                let waiting: usize = posts.map(|post| post.queue.len()).sum();
                let note = format!(
                    "notices that are not told yet: {waiting}; the next start of a gate tells them"
                );
                news.tell(core, note);
                break;
            }
            let mut posts = notifications.posts.iter_mut();
            if let Some(post) = posts.find(|post| post.running.is_some()) {
                post.wait(LOOK);
            }
        }
        notifications.keep_marks(core, news);
    }
}

/// Tries a receiver with a test notice, and returns what its program answered.
///
/// # Errors
/// Returns [`HomeError`] if the notice cannot be written.
pub fn try_receiver(
    root: &Path,
    receiver: &Receiver,
    cage: CageLevel,
    now: Time,
) -> Result<Option<CommandAnswer>, HomeError> {
    let line = notice::test_line(now).map_err(|error| HomeError::Record(error.to_string()))?;
    let stop = AtomicBool::new(false);
    let how = (cage, "notify");
    Ok(program::run(
        root,
        &receiver.command,
        how,
        line.as_bytes(),
        &stop,
    ))
}

#[cfg(test)]
mod tests;
