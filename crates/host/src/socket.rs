//! The Unix socket of `spoolgate watch --socket`: requests come in as frames and answers go out as
//! frames. It serves one client of each user at a time: of the gate's own user, and of the users that
//! the rules name.
//!
//! One thread polls the listener, the clients, and a counter by which the gate signals that it took
//! or answered a frame. Nothing here decides anything or can hold up the gate: the amounts of
//! waiting and unsent data are limited, and a client that exceeds a limit is disconnected.

mod place;
mod turn;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use rustix::event::{EventfdFlags, eventfd};

use spoolgate_wire::frames;
pub use spoolgate_wire::frames::{Fault, FrameReader};

use spoolgate_wire::envelope::REQUEST_BYTES_MAX;
use spoolgate_wire::ids::UnixUser;

/// Why the socket cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// The path does not fit into the address of a Unix socket.
    #[error(
        "socket path {} is {bytes} bytes long, and at most {bytes_max} are possible there; choose \
            a shorter one",
        path.display()
    )]
    PathTooLong {
        /// The path of the socket.
        path: PathBuf,
        /// Its length in bytes.
        bytes: usize,
        /// The longest possible path there, with room for the temporary name of the socket.
        bytes_max: usize,
    },
    /// A live gate listens there.
    #[error("a live gate answers at socket {}; stop it or choose another path", path.display())]
    InUse {
        /// The path of the socket.
        path: PathBuf,
    },
    /// There is a file that is not a socket. It is never removed.
    #[error("{} exists and is not a socket; choose another path, or remove it \
        yourself", path.display())]
    NotASocket {
        /// The path of the socket.
        path: PathBuf,
    },
    /// The operating system reports an error.
    #[error("socket {}: {source}", path.display())]
    Io {
        /// The path of the socket.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// Limits of the socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of bytes in an incoming frame.
    pub frame_bytes_max: usize,
    /// Maximum time from the first byte of a frame to its last, in milliseconds. There is no limit
    /// between two frames.
    pub partial_frame_ms_max: u64,
    /// Number of waiting frames at which reading stops until some are taken. Users share it equally,
    /// like the next number.
    pub waiting_frames_max: usize,
    /// Number of waiting bytes at which reading stops until some are taken. The frame that reaches
    /// the limit is kept.
    pub waiting_bytes_max: usize,
    /// A frame of more bytes than this is large. One large frame at a time is read or decided, over
    /// all clients, which take turns; the others are not read meanwhile.
    pub large_frame_bytes: usize,
    /// Number of unread bytes of all answers above which the client with the most is disconnected.
    pub unsent_bytes_max: usize,
    /// Maximum time in which the client must read an answer, once the earlier ones are read, in
    /// milliseconds.
    pub write_ms_max: u64,
    /// Time after which a client that sent nothing and is owed nothing gives way to another one of
    /// the same user, if the rules name users, in milliseconds.
    pub silent_ms: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            frame_bytes_max: REQUEST_BYTES_MAX,
            partial_frame_ms_max: 10_000,
            waiting_frames_max: 256,
            waiting_bytes_max: 4 << 20,
            large_frame_bytes: 256 << 10,
            unsent_bytes_max: 16 << 20,
            write_ms_max: 10_000,
            silent_ms: 60_000,
        }
    }
}

/// A frame that arrived, or the reason why it did not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrived {
    /// Number of the client; clients are numbered from 1 in the order in which they connect.
    pub client: u64,
    /// Its user as the rules name it, or `None` for the gate's own user.
    pub user: Option<UnixUser>,
    /// The content of the frame.
    pub content: Result<Vec<u8>, Fault>,
}

/// What the thread and the gate share about a connected client.
#[derive(Debug, Default)]
struct Line {
    /// Number of complete frames that were read; the gate owes an answer to each.
    owed: u64,
    answered: u64,
    /// Complete outgoing frames, oldest first.
    unsent: VecDeque<Vec<u8>>,
    unsent_bytes: usize,
    head_written: usize,
    /// When writing of the first of them began.
    head_since: Option<Instant>,
    fault_taken: bool,
    /// The client must be disconnected, whatever is unsent.
    over: bool,
}

#[derive(Debug, Default)]
struct Shared {
    waiting: VecDeque<Arrived>,
    /// The connected clients, by number.
    lines: BTreeMap<u64, Line>,
    /// The users besides the gate's own whose clients are served.
    users: BTreeMap<u32, UnixUser>,
    /// The clients that want to send a large frame, in turn; the first sends.
    large: VecDeque<u64>,
    /// Whether a large frame was taken and may still be in work.
    has_large_in_work: bool,
    stop: bool,
}

impl Shared {
    /// Whether it is this client's turn to send a large frame; it waits for its turn otherwise.
    fn may_send_large(&mut self, client: u64, limits: &Limits) -> bool {
        if !self.large.contains(&client) {
            self.large.push_back(client);
        }
        let is_large = |arrived: &Arrived| size(arrived) > limits.large_frame_bytes;
        let is_free = !self.has_large_in_work && !self.waiting.iter().any(is_large);
        is_free && self.large.front() == Some(&client)
    }

    fn forget(&mut self, client: u64) {
        self.lines.remove(&client);
        self.large.retain(|other| *other != client);
    }

    /// Makes room for the answers of the others: disconnects the client with the most unread bytes.
    fn drop_fullest(&mut self) {
        let fullest = self.lines.values_mut().max_by_key(|line| line.unsent_bytes);
        if let Some(line) = fullest {
            line.over = true;
            line.unsent = VecDeque::new();
            line.unsent_bytes = 0;
        }
    }

    /// Whether as much waits of a user as may.
    fn is_full(&self, user: Option<&UnixUser>, limits: &Limits) -> bool {
        let users = self.users.len().saturating_add(1);
        let share = |most: usize| most.checked_div(users).unwrap_or(most).max(1);
        let own = self
            .waiting
            .iter()
            .filter(|arrived| arrived.user.as_ref() == user);
        let (frames, bytes) = own.fold((0_usize, 0_usize), |(frames, bytes), arrived| {
            (
                frames.saturating_add(1),
                bytes.saturating_add(size(arrived)),
            )
        });
        frames >= share(limits.waiting_frames_max) || bytes >= share(limits.waiting_bytes_max)
    }
}

#[derive(Debug)]
struct Desk {
    shared: Mutex<Shared>,
    /// Counter that wakes the thread.
    bell: OwnedFd,
}

impl Desk {
    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self) {
        // This fails only if the counter is full, and then the thread is woken anyway.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }
}

/// A socket through which one client of each user at a time sends requests. When dropped, it keeps sending for a
/// moment, then closes and removes the socket.
#[derive(Debug)]
pub struct Socket {
    limits: Limits,
    path: PathBuf,
    desk: Arc<Desk>,
    thread: Option<JoinHandle<()>>,
    // Declared before the listener, so that the path goes first: a client that connects meanwhile
    // finds no socket instead of one that does not answer.
    place: place::Place,
    listener: OwnedFd,
}

impl Socket {
    /// Creates the socket, with mode 0600 from the first moment. Replaces a stale socket, but never
    /// the socket of a live gate or anything that is not a socket.
    ///
    /// # Errors
    /// Returns [`SocketError`] if the path is taken or cannot be used.
    pub fn bind(path: &Path, limits: Limits) -> Result<Socket, SocketError> {
        let (listener, place) = place::take(path)?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|error| {
            SocketError::Io {
                path: path.to_owned(),
                source: error.into(),
            }
        })?;
        let desk = Arc::new(Desk {
            shared: Mutex::default(),
            bell,
        });
        Ok(Socket {
            limits,
            path: path.to_owned(),
            desk,
            thread: None,
            place,
            listener,
        })
    }

    /// The path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Serves clients of these users too, by user id, and no longer those of other users.
    /// Connections of others are closed unread. Call [`Socket::keep_mode`] next: it lets users
    /// connect.
    pub fn serve_users(&self, users: BTreeMap<u32, UnixUser>) {
        let mut shared = self.desk.shared();
        if shared.users != users {
            shared.users = users;
            drop(shared);
            self.desk.ring();
        }
    }

    /// Gives the socket the mode that its users need, 0666 if there are any and otherwise 0600, if
    /// something else has changed it or setting it failed before. Returns the mode that it had and
    /// the one that it has now, or `None` if it was right.
    ///
    /// # Errors
    /// Returns [`SocketError::Io`] if the mode cannot be read or set.
    pub fn keep_mode(&self) -> Result<Option<(u32, u32)>, SocketError> {
        let has_users = !self.desk.shared().users.is_empty();
        let mode = if has_users { 0o666 } else { 0o600 };
        let had = self
            .place
            .set_mode(mode)
            .map_err(|source| SocketError::Io {
                path: self.path.clone(),
                source,
            })?;
        Ok(had.map(|had| (had, mode)))
    }

    /// Starts listening, in a thread of its own. That thread calls `wake` when there is something
    /// to take; `wake` must not block. A second call changes nothing.
    ///
    /// # Errors
    /// Returns [`SocketError::Io`] if the thread or a descriptor cannot be created.
    pub fn serve(&mut self, wake: impl Fn() + Send + Sync + 'static) -> Result<(), SocketError> {
        if self.thread.is_some() {
            return Ok(());
        }
        let io = |source: io::Error| SocketError::Io {
            path: self.path.clone(),
            source,
        };
        let listener = self.listener.try_clone().map_err(io)?;
        let (desk, limits) = (Arc::clone(&self.desk), self.limits);
        let run = move || turn::run(&listener, &desk, &limits, &wake);
        let thread = std::thread::Builder::new()
            .name("socket".to_owned())
            .spawn(run)
            .map_err(io)?;
        self.thread = Some(thread);
        Ok(())
    }

    /// Takes what arrived, oldest first: at most `frames_max` frames and `bytes_max` bytes, but at
    /// least one frame if there is one. Never blocks. Includes what a client sent before it
    /// disconnected. Answer each frame once: a client that has finished sending stays connected
    /// until then. A fault may be answered within a second. Drop what was taken before the next call,
    /// which lets the next large frame in.
    pub fn take(&mut self, frames_max: usize, bytes_max: usize) -> Vec<Arrived> {
        let mut taken = Vec::new();
        let mut shared = self.desk.shared();
        let had_large = std::mem::take(&mut shared.has_large_in_work);
        let mut bytes = 0_usize;
        while let Some(next) = shared.waiting.front() {
            let more = size(next);
            let is_first = taken.is_empty();
            if !is_first && (taken.len() >= frames_max || bytes.saturating_add(more) > bytes_max) {
                break;
            }
            bytes = bytes.saturating_add(more);
            let Some(next) = shared.waiting.pop_front() else {
                break;
            };
            if let Some(line) = shared.lines.get_mut(&next.client) {
                line.fault_taken |= next.content.is_err();
            }
            shared.has_large_in_work |= more > self.limits.large_frame_bytes;
            taken.push(next);
        }
        drop(shared);
        if had_large || !taken.is_empty() {
            self.desk.ring();
        }
        taken
    }

    /// Whether there is something to take.
    pub fn has_waiting(&self) -> bool {
        !self.desk.shared().waiting.is_empty()
    }

    /// Queues an answer to a client as a frame. Returns false if the client is gone or is being
    /// disconnected because it has too much unread. Never blocks. True means that the answer will
    /// be written as the client reads, not that the client has read it.
    pub fn answer(&self, client: u64, bytes: &[u8]) -> bool {
        let Some(frame) = frames::frame(bytes) else {
            return false;
        };
        let mut shared = self.desk.shared();
        let current = shared.lines.get_mut(&client).filter(|line| !line.over);
        let Some(line) = current else { return false };
        line.unsent_bytes = line.unsent_bytes.saturating_add(frame.len());
        line.answered = line.answered.saturating_add(1);
        line.unsent.push_back(frame);
        let all = |shared: &Shared| -> usize {
            let unsent = shared.lines.values().map(|line| line.unsent_bytes);
            unsent.fold(0, usize::saturating_add)
        };
        while all(&shared) > self.limits.unsent_bytes_max {
            shared.drop_fullest();
        }
        let fits = shared.lines.get(&client).is_some_and(|line| !line.over);
        drop(shared);
        self.desk.ring();
        fits
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.desk.shared().stop = true;
        self.desk.ring();
        if let Some(thread) = self.thread.take() {
            // The thread returns nothing, and it does not matter here whether it panicked.
            let _ = thread.join();
        }
    }
}

fn size(arrived: &Arrived) -> usize {
    arrived.content.as_ref().map_or(0, Vec::len)
}
