//! A request as a frame through the gate's socket, and its answer back. A connection for each request: a gate talks to one
//! client at a time, and who keeps it keeps others out.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::host::socket::frames::{self, FrameReader};
use crate::wire::answer::Answer;

/// Longest answer that is taken.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// How soon a gate that closed the connection is asked again.
const AGAIN: Duration = Duration::from_millis(50);
/// A time limit of the system must not be 0.
const LEAST: Duration = Duration::from_millis(1);

/// Why no answer came through the socket.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Nobody was there at all: nothing was sent.
    #[error("no gate answers at `{}` ({source}); start one with `spoolgate watch --socket`", path.display())]
    NoGate {
        /// Where.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// More than a frame holds.
    #[error("the request has {bytes} bytes, more than a frame holds")]
    TooLarge {
        /// How many.
        bytes: usize,
    },
    /// It was sent, as a whole or in part, and no answer came: the request may be decided.
    #[error("no answer came through `{}`", path.display())]
    NoAnswer {
        /// Where.
        path: PathBuf,
    },
}

/// Sends the same bytes until they are answered or time is up. A gate that closes the connection talks to somebody else, or
/// ended; the same bytes again are safe in either case, their id being used up once.
///
/// # Errors
/// [`SocketError`], which tells whether anything was sent.
pub fn ask(path: &Path, request: &[u8], id: &str, deadline: Instant) -> Result<Answer, SocketError> {
    let Some(frame) = frames::frame(request) else {
        return Err(SocketError::TooLarge { bytes: request.len() });
    };
    let mut is_sent = false;
    loop {
        match UnixStream::connect(path) {
            Ok(stream) => {
                is_sent = true;
                if let Ok(Some(answer)) = exchange(stream, &frame, id, deadline) {
                    return Ok(answer);
                }
            }
            Err(source) if !is_sent && source.kind() != io::ErrorKind::WouldBlock => {
                return Err(SocketError::NoGate { path: path.to_owned(), source });
            }
            Err(_) => {}
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(SocketError::NoAnswer { path: path.to_owned() });
        }
        std::thread::sleep(AGAIN.min(left));
    }
}

/// One frame there and its answer back; none if the connection ends before.
fn exchange(mut stream: UnixStream, frame: &[u8], id: &str, deadline: Instant) -> io::Result<Option<Answer>> {
    let left = || deadline.saturating_duration_since(Instant::now()).max(LEAST);
    stream.set_write_timeout(Some(left()))?;
    // A gate that talks to somebody else closes unread; what it said before that may still be there.
    let written = stream.write_all(frame);
    let mut reader = FrameReader::new(ANSWER_BYTES_MAX);
    let mut piece = vec![0; 1 << 16];
    loop {
        stream.set_read_timeout(Some(left()))?;
        let read = match stream.read(&mut piece) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        reader.push(piece.get(..read).unwrap_or_default());
        while let Some(Ok(content)) = reader.next_frame() {
            let answer: Answer = serde_json::from_slice(&content).map_err(io::Error::from)?;
            // What could not be read as a request is answered without an id.
            if answer.request_id == id || answer.request_id.is_empty() {
                return Ok(Some(answer));
            }
        }
        if read == 0 {
            return written.map(|()| None);
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
    }
}
