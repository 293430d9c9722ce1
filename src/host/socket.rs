//! The Unix socket of `spoolgate watch --socket`: requests come in as frames, answers go out as frames, to one client
//! at a time, of the gate's own user only.
//!
//! One thread polls the listener, the client and a counter by which the gate tells that it took or answered something.
//! Nothing here decides anything, and nothing here can hold the gate up: what waits and what is unsent is bounded, and
//! whoever does not keep to the limits is disconnected.

pub mod frames;
mod place;
mod turn;

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use rustix::event::{EventfdFlags, eventfd};

pub use frames::{Fault, FrameReader};

use crate::wire::envelope::REQUEST_BYTES_MAX;

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// The address of a Unix socket has no room for it.
    #[error(
        "socket path {} is {bytes} bytes long, at most {bytes_max} are possible there; choose a shorter one",
        path.display()
    )]
    PathTooLong {
        /// Where it was to be.
        path: PathBuf,
        /// Its length.
        bytes: usize,
        /// What would be possible, with room for the name that the socket is made under.
        bytes_max: usize,
    },
    /// Somebody listens there.
    #[error("a live gate answers at socket {}; stop it or choose another path", path.display())]
    InUse {
        /// Where it was to be.
        path: PathBuf,
    },
    /// Something else is there. It is never removed.
    #[error("{} is there and is no socket; choose another path, or remove it yourself", path.display())]
    NotASocket {
        /// Where it was to be.
        path: PathBuf,
    },
    /// The operating system refuses.
    #[error("socket {}: {source}", path.display())]
    Io {
        /// Where it was to be.
        path: PathBuf,
        /// What it says.
        source: io::Error,
    },
}

/// How much of anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one frame that comes.
    pub frame_bytes_max: usize,
    /// From the first byte of a frame to its last, in milliseconds. Between two frames there is no limit.
    pub partial_frame_ms_max: u64,
    /// Frames that wait to be taken; while there are so many, nothing is read.
    pub waiting_frames_max: usize,
    /// Bytes that wait to be taken; while there are so many, nothing is read. The frame that reaches this is kept.
    pub waiting_bytes_max: usize,
    /// Bytes of answers that the client has not read; with more it is disconnected.
    pub unsent_bytes_max: usize,
    /// In which the client must read an answer, once those before it are read, in milliseconds.
    pub write_ms_max: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            frame_bytes_max: REQUEST_BYTES_MAX,
            partial_frame_ms_max: 10_000,
            waiting_frames_max: 256,
            waiting_bytes_max: 32 << 20,
            unsent_bytes_max: 32 << 20,
            write_ms_max: 10_000,
        }
    }
}

/// One frame that came, or why none did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrived {
    /// Whose it is: clients are numbered from 1 as they come.
    pub client: u64,
    /// Its bytes.
    pub content: Result<Vec<u8>, Fault>,
}

/// What the thread and the gate share about the client that is connected.
#[derive(Debug)]
struct Line {
    client: u64,
    /// Frames that were read whole, each of which the gate owes an answer.
    owed: u64,
    answered: u64,
    /// Whole frames as they go out, the oldest first, with how much of the first is written.
    unsent: VecDeque<Vec<u8>>,
    unsent_bytes: usize,
    head_written: usize,
    /// Since when the first of them is being written.
    head_since: Option<Instant>,
    fault_taken: bool,
    /// It has to go, whatever is unsent.
    over: bool,
}

#[derive(Debug, Default)]
struct Shared {
    waiting: VecDeque<Arrived>,
    waiting_bytes: usize,
    line: Option<Line>,
    stop: bool,
}

#[derive(Debug)]
struct Desk {
    shared: Mutex<Shared>,
    /// Counts up to have the thread look again.
    bell: OwnedFd,
}

impl Desk {
    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self) {
        // It fails when the counter is full only, and then it has rung.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }
}

/// A socket to which one client at a time brings requests. Dropping it sends what is unsent for a moment, then closes
/// and removes it.
#[derive(Debug)]
pub struct Socket {
    limits: Limits,
    path: PathBuf,
    desk: Arc<Desk>,
    thread: Option<JoinHandle<()>>,
    // Before the listener: who comes while both go finds nothing, rather than one who does not answer.
    _place: place::Place,
    listener: OwnedFd,
}

impl Socket {
    /// Makes the socket, of mode 0600 from the first moment. A stale one is replaced, one of a live gate never, and
    /// nothing that is no socket.
    ///
    /// # Errors
    /// [`SocketError`]: which of these it is.
    pub fn bind(path: &Path, limits: Limits) -> Result<Socket, SocketError> {
        let (listener, place) = place::take(path)?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| SocketError::Io { path: path.to_owned(), source: error.into() })?;
        let desk = Arc::new(Desk { shared: Mutex::default(), bell });
        Ok(Socket { limits, path: path.to_owned(), desk, thread: None, _place: place, listener })
    }

    /// Begins to listen, in a thread of its own. `wake` is called there when there is something to take; it must not
    /// block. Once begun, a second call changes nothing.
    ///
    /// # Errors
    /// [`SocketError::Io`] if there is no thread or descriptor to be had.
    pub fn serve(&mut self, wake: impl Fn() + Send + Sync + 'static) -> Result<(), SocketError> {
        if self.thread.is_some() {
            return Ok(());
        }
        let io = |source: io::Error| SocketError::Io { path: self.path.clone(), source };
        let listener = self.listener.try_clone().map_err(io)?;
        let (desk, limits) = (Arc::clone(&self.desk), self.limits);
        let run = move || turn::run(&listener, &desk, &limits, &wake);
        let thread = std::thread::Builder::new().name("socket".to_owned()).spawn(run).map_err(io)?;
        self.thread = Some(thread);
        Ok(())
    }

    /// What came, the oldest first, at most so many frames and bytes, but one if there is any. Never blocks. What a
    /// client sent before it went away is taken as well. Each frame of these is to be answered once: a client that has
    /// said that it sends no more stays connected until that is done. A fault may be answered, within a second.
    pub fn take(&mut self, frames_max: usize, bytes_max: usize) -> Vec<Arrived> {
        let mut taken = Vec::new();
        let mut shared = self.desk.shared();
        let mut bytes = 0_usize;
        while let Some(next) = shared.waiting.front() {
            let more = size(next);
            let is_first = taken.is_empty();
            if !is_first && (taken.len() >= frames_max || bytes.saturating_add(more) > bytes_max) {
                break;
            }
            bytes = bytes.saturating_add(more);
            shared.waiting_bytes = shared.waiting_bytes.saturating_sub(more);
            let Some(next) = shared.waiting.pop_front() else { break };
            if let Some(line) = shared.line.as_mut().filter(|line| line.client == next.client) {
                line.fault_taken |= next.content.is_err();
            }
            taken.push(next);
        }
        drop(shared);
        if !taken.is_empty() {
            self.desk.ring();
        }
        taken
    }

    /// Whether something is there to take.
    pub fn has_waiting(&self) -> bool {
        !self.desk.shared().waiting.is_empty()
    }

    /// Sends one answer to a client, as a frame; false: it is gone, or goes because it has too much unread. Never
    /// blocks. True says that it will be written while the client reads, not that it was read.
    pub fn answer(&self, client: u64, bytes: &[u8]) -> bool {
        let Some(frame) = frames::frame(bytes) else { return false };
        let mut shared = self.desk.shared();
        let current = shared.line.as_mut().filter(|line| line.client == client && !line.over);
        let Some(line) = current else { return false };
        let unsent_bytes = line.unsent_bytes.saturating_add(frame.len());
        let fits = unsent_bytes <= self.limits.unsent_bytes_max;
        if fits {
            line.unsent_bytes = unsent_bytes;
            line.answered = line.answered.saturating_add(1);
            line.unsent.push_back(frame);
        } else {
            line.over = true;
        }
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
            // It has nothing to tell; a thread that failed is as gone as one that ended.
            let _ = thread.join();
        }
    }
}

fn size(arrived: &Arrived) -> usize {
    arrived.content.as_ref().map_or(0, Vec::len)
}
