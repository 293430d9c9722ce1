//! The thread of the socket: waits, accepts, reads, writes, and disconnects.

use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SendFlags, SocketFlags, accept_with, send, sockopt::socket_peercred};
use rustix::process::geteuid;

use super::{Arrived, Desk, Limits, Line, Shared};
use spoolgate_wire::frames::{Fault, FrameReader};
use spoolgate_wire::ids::UnixUser;

/// Maximum number of bytes per read.
const READ_BYTES: usize = 64 * 1024;
/// Maximum number of reads before other work is checked.
const READS_MAX: usize = 16;
/// Maximum number of connections accepted before other work is checked.
const ACCEPTS_MAX: usize = 64;
/// Pause after a failed accept: without free descriptors it would fail again at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Time for the gate to answer a fault.
const FAULT_ANSWER: Duration = Duration::from_secs(1);
/// How long, and up to how many bytes, the rest of a frame that is too long is read and dropped. A
/// client that could not finish writing would not read the answer.
const REST: Duration = Duration::from_secs(10);
const REST_BYTES_MAX: u64 = 64 << 20;
/// How long unsent answers are still written when the gate stops.
const FLUSH: Duration = Duration::from_millis(500);
/// Longest wait, in case a wake-up is missed. Nothing depends on it.
const LOOK: Duration = Duration::from_secs(60);

/// A connected client, as the thread sees it; [`Line`] has the rest.
struct Client {
    fd: OwnedFd,
    number: u64,
    /// Its user as the rules name it, or `None` for the gate's own user.
    user: Option<UnixUser>,
    /// When its last byte came.
    heard: Instant,
    reader: FrameReader,
    /// When the incomplete frame began.
    partial_since: Option<Instant>,
    /// Reading is paused because too much is waiting.
    paused: bool,
    /// The client has finished sending.
    ended: bool,
    faulty: bool,
    /// Bytes of a frame that is too long which are still to be dropped, and until when.
    rest: u64,
    rest_until: Option<Instant>,
    /// Since when only the answer to the fault has been missing.
    settled_since: Option<Instant>,
}

struct Turn<'a> {
    desk: &'a Desk,
    limits: &'a Limits,
    wake: &'a dyn Fn(),
    /// The connected clients, by the ids of their users.
    clients: BTreeMap<u32, Client>,
    /// The number of clients so far.
    count: u64,
    accept_after: Option<Instant>,
    buffer: Vec<u8>,
}

/// Runs until the gate stops.
pub(super) fn run(listener: &OwnedFd, desk: &Desk, limits: &Limits, wake: &dyn Fn()) {
    let buffer = vec![0; READ_BYTES];
    let mut turn = Turn {
        desk,
        limits,
        wake,
        clients: BTreeMap::new(),
        count: 0,
        accept_after: None,
        buffer,
    };
    loop {
        if desk.shared().stop {
            break turn.flush();
        }
        let deadline = turn.tend();
        let has_connections = turn.wait(Some(listener), deadline);
        if has_connections {
            turn.accept(listener);
        }
    }
}

impl Turn<'_> {
    /// Waits for any event, at most until `deadline`. Returns whether there are connections to
    /// accept.
    fn wait(&mut self, listener: Option<&OwnedFd>, deadline: Option<Instant>) -> bool {
        let now = Instant::now();
        if self.accept_after.is_some_and(|after| after <= now) {
            self.accept_after = None;
        }
        let until = [deadline, self.accept_after].into_iter().flatten().min();
        let wait = until.map_or(LOOK, |until| until.saturating_duration_since(now).min(LOOK));
        // Rounding down a fraction of a millisecond would turn it into no wait at all.
        let wait = wait.saturating_add(Duration::from_millis(1));
        let mut fds = vec![PollFd::new(&self.desk.bell, PollFlags::IN)];
        let listens = listener.filter(|_| self.accept_after.is_none());
        fds.extend(listens.map(|listener| PollFd::new(listener, PollFlags::IN)));
        for client in self.clients.values() {
            let has_unsent = self
                .desk
                .shared()
                .lines
                .get(&client.number)
                .is_some_and(|line| !line.unsent.is_empty());
            let mut wanted = PollFlags::empty();
            wanted.set(PollFlags::OUT, has_unsent);
            wanted.set(PollFlags::IN, client.reads());
            // `poll` reports a hang-up even if it is not requested, again and again as long as
            // reading is paused.
            if !client.paused || has_unsent {
                fds.push(PollFd::new(&client.fd, wanted));
            }
        }
        let timeout = Timespec::try_from(wait).unwrap_or(Timespec {
            tv_sec: 1,
            tv_nsec: 0,
        });
        if let Err(error) = poll(&mut fds, Some(&timeout))
            && error != Errno::INTR
        {
            // The error is not one that we can resolve, and retrying at once would loop.
            std::thread::sleep(ACCEPT_PAUSE);
        }
        let _ = rustix::io::read(&self.desk.bell, &mut [0_u8; 8]);
        listens.is_some()
            && fds
                .get(1)
                .is_some_and(|listener| !listener.revents().is_empty())
    }

    /// Reads from the clients, writes to them, and disconnects them if necessary. Returns the time
    /// until which to wait.
    fn tend(&mut self) -> Option<Instant> {
        let mut clients = std::mem::take(&mut self.clients);
        let mut until = None;
        let before = clients.len();
        clients.retain(|uid, client| {
            let tended = self.tend_one(*uid, client);
            until = [until, tended.flatten()].into_iter().flatten().min();
            tended.is_some()
        });
        // Another client may have the turn of one that is gone.
        let is_next = clients.len() < before;
        self.clients = clients;
        is_next.then(Instant::now).or(until)
    }

    /// Like [`Turn::tend`], for one client. `None` if it is disconnected.
    fn tend_one(&mut self, uid: u32, client: &mut Client) -> Option<Option<Instant>> {
        let arrived = client.read(self.desk, self.limits, &mut self.buffer);
        if arrived {
            (self.wake)();
        }
        let mut shared = self.desk.shared();
        let now = Instant::now();
        let is_served = client.user == shared.users.get(&uid).cloned();
        let line = shared.lines.get_mut(&client.number)?;
        write(&client.fd, line, now);
        let deadline = client.deadline(line, self.limits, now);
        let stays = is_served && deadline.is_none_or(|deadline| deadline > now);
        if stays && !line.over && !client.is_done(line) && !client.is_gone() {
            // The time limit of a partial frame does not end the connection; it becomes a fault at
            // the next read.
            let read = after(client.partial_since, self.limits.partial_frame_ms_max);
            let read = read.filter(|_| client.reads());
            return Some([deadline, read].into_iter().flatten().min());
        }
        shared.forget(client.number);
        None
    }

    fn accept(&mut self, listener: &OwnedFd) {
        for _ in 0..ACCEPTS_MAX {
            let fd = match accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(fd) => fd,
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(_) => {
                    self.accept_after = Instant::now().checked_add(ACCEPT_PAUSE);
                    return;
                }
            };
            // Connections of other users are closed without reading or writing anything.
            let Ok(peer) = socket_peercred(&fd) else {
                continue;
            };
            let uid = peer.uid.as_raw();
            let user = self.desk.shared().users.get(&uid).cloned();
            if user.is_none() && peer.uid != geteuid() {
                continue;
            }
            // A client that has disconnected must not keep the new one out.
            self.tend();
            if !self.makes_way(uid) {
                continue;
            }
            self.count = self.count.saturating_add(1);
            self.desk.shared().lines.insert(self.count, Line::default());
            let client = Client {
                fd,
                number: self.count,
                user,
                heard: Instant::now(),
                reader: FrameReader::new(self.limits.frame_bytes_max),
                partial_since: None,
                paused: false,
                ended: false,
                faulty: false,
                rest: 0,
                rest_until: None,
                settled_since: None,
            };
            self.clients.insert(uid, client);
        }
    }

    /// Whether no client of this user is connected. Disconnects one that was silent for long and is
    /// owed nothing, if there are other users, so that a client that hangs does not lock out the
    /// next one.
    fn makes_way(&mut self, uid: u32) -> bool {
        let Some(client) = self.clients.get(&uid) else {
            return true;
        };
        let mut shared = self.desk.shared();
        let is_silent = after(Some(client.heard), self.limits.silent_ms)
            .is_some_and(|until| until <= Instant::now());
        let is_owed = |line: &Line| line.answered < line.owed || !line.unsent.is_empty();
        let is_owed = shared.lines.get(&client.number).is_some_and(is_owed);
        if shared.users.is_empty() || !is_silent || is_owed || client.reader.has_rest() {
            return false;
        }
        shared.forget(client.number);
        drop(shared);
        self.clients.remove(&uid);
        true
    }

    /// Writes unsent answers for a moment.
    fn flush(&mut self) {
        let until = Instant::now().checked_add(FLUSH);
        for client in self.clients.values_mut() {
            client.ended = true;
            client.paused = false;
        }
        while until.is_some_and(|until| until > Instant::now()) {
            let mut shared = self.desk.shared();
            let now = Instant::now();
            self.clients.retain(|_, client| {
                let line = shared.lines.get_mut(&client.number);
                line.filter(|line| !line.over).is_some_and(|line| {
                    write(&client.fd, line, now);
                    !line.over && !line.unsent.is_empty()
                })
            });
            drop(shared);
            if self.clients.is_empty() {
                break;
            }
            self.wait(None, until);
        }
        self.clients.clear();
        self.desk.shared().lines.clear();
    }
}

impl Client {
    fn reads(&self) -> bool {
        self.drops() || (!self.paused && !self.ended && !self.faulty)
    }

    /// Whether the rest of a frame that is too long is still read and dropped.
    fn drops(&self) -> bool {
        let is_time = |until: Instant| Instant::now() < until;
        self.rest > 0 && !self.ended && self.rest_until.is_some_and(is_time)
    }

    /// Reads what is available and fits. Returns whether there is something new to take.
    fn read(&mut self, desk: &Desk, limits: &Limits, buffer: &mut [u8]) -> bool {
        let mut arrived = self.sort(&mut desk.shared(), limits);
        for _ in 0..READS_MAX {
            if !self.reads() {
                break;
            }
            match rustix::io::read(&self.fd, &mut *buffer) {
                Ok(0) => self.ended = true,
                Ok(bytes) if self.faulty => {
                    let dropped = u64::try_from(bytes).unwrap_or(u64::MAX);
                    self.rest = self.rest.saturating_sub(dropped);
                }
                Ok(bytes) => {
                    self.heard = Instant::now();
                    self.reader.push(buffer.get(..bytes).unwrap_or_default());
                }
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => break,
                // Connection reset: nothing more will arrive, and nothing can be sent.
                Err(_) => self.ended = true,
            }
            arrived |= self.sort(&mut desk.shared(), limits);
        }
        let late = after(self.partial_since, limits.partial_frame_ms_max);
        if self.reads() && !self.faulty && late.is_some_and(|late| late <= Instant::now()) {
            arrived |= self.break_off(&mut desk.shared());
        }
        arrived
    }

    /// Passes complete frames on to the gate, as far as there is room. Pauses before a large frame
    /// until it is this client's turn.
    fn sort(&mut self, shared: &mut Shared, limits: &Limits) -> bool {
        if self.faulty {
            return false;
        }
        let was_paused = self.paused;
        let mut arrived = false;
        loop {
            self.paused = shared.is_full(self.user.as_ref(), limits);
            if self.paused {
                return arrived;
            }
            match self.reader.next_frame() {
                None => break,
                Some(content) => {
                    arrived = true;
                    self.put(shared, content);
                }
            }
        }
        if self.ended {
            return self.break_off(shared) || arrived;
        }
        let awaited = self.reader.awaited().unwrap_or(0);
        if awaited > limits.large_frame_bytes {
            self.paused = !shared.may_send_large(self.number, limits);
            if !self.paused {
                self.reader.reserve();
            }
        }
        // Do not count time in which reading was paused against the client.
        if !self.reader.has_rest() {
            self.partial_since = None;
        } else if arrived || was_paused || self.partial_since.is_none() {
            self.partial_since = Some(Instant::now());
        }
        arrived
    }

    /// Ends reading because the rest of a frame will not come. Returns whether a frame was
    /// incomplete.
    fn break_off(&mut self, shared: &mut Shared) -> bool {
        self.partial_since = None;
        let fault = self.reader.finish();
        if let Some(fault) = fault {
            self.put(shared, Err(fault));
        }
        fault.is_some()
    }

    fn put(&mut self, shared: &mut Shared, content: Result<Vec<u8>, Fault>) {
        shared.large.retain(|client| *client != self.number);
        match (&content, shared.lines.get_mut(&self.number)) {
            (Ok(_), Some(line)) => line.owed = line.owed.saturating_add(1),
            (Err(_), _) => {
                self.faulty = true;
                self.rest = self.reader.missing().min(REST_BYTES_MAX);
                self.rest_until = Instant::now().checked_add(REST);
            }
            (Ok(_), None) => {}
        }
        let arrived = Arrived {
            client: self.number,
            user: self.user.clone(),
            content,
        };
        shared.waiting.push_back(arrived);
    }

    /// When to end the connection if nothing happens before.
    fn deadline(&mut self, line: &Line, limits: &Limits, now: Instant) -> Option<Instant> {
        let is_settled = line.fault_taken && line.answered >= line.owed && line.unsent.is_empty();
        self.settled_since = is_settled.then(|| self.settled_since.unwrap_or(now));
        let answered = match self.drops() {
            true => self.rest_until,
            false => self
                .settled_since
                .and_then(|since| since.checked_add(FAULT_ANSWER)),
        };
        let written = after(line.head_since, limits.write_ms_max);
        [answered, written].into_iter().flatten().min()
    }

    /// Whether everything was received and every answer is written.
    fn is_done(&self, line: &Line) -> bool {
        let is_answered = |answers: u64| line.answered >= answers && line.unsent.is_empty();
        if self.faulty {
            is_answered(line.owed.saturating_add(1)) && !self.drops()
        } else {
            self.ended && !self.paused && is_answered(line.owed)
        }
    }

    /// Whether the client has closed the connection and nothing is left to read.
    fn is_gone(&self) -> bool {
        if self.reads() || (self.paused && !self.faulty) {
            return false;
        }
        let mut fds = [PollFd::from_borrowed_fd(
            self.fd.as_fd(),
            PollFlags::empty(),
        )];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let told = poll(&mut fds, Some(&now));
        let [fd] = fds;
        told.is_ok()
            && fd
                .revents()
                .intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL)
    }
}

/// Writes as much as fits. Each answer has a time limit of its own, so reading a byte now and then
/// is not enough.
fn write(fd: &OwnedFd, line: &mut Line, now: Instant) {
    while let Some(head) = line.unsent.front() {
        line.head_since.get_or_insert(now);
        let rest = head.get(line.head_written..).unwrap_or_default();
        match send(fd, rest, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(bytes) => {
                line.head_written = line.head_written.saturating_add(bytes);
                line.unsent_bytes = line.unsent_bytes.saturating_sub(bytes);
                if line.head_written >= head.len() {
                    line.unsent.pop_front();
                    line.head_written = 0;
                    line.head_since = None;
                }
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return,
            Err(_) => {
                line.over = true;
                return;
            }
        }
    }
}

fn after(since: Option<Instant>, ms: u64) -> Option<Instant> {
    since.and_then(|since| since.checked_add(Duration::from_millis(ms)))
}
