//! Sends a request as a frame through the gate's socket and reads its answer. Uses one connection
//! per request: a gate serves one client at a time, and a client that keeps its connection keeps
//! the others out.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use spoolgate_wire::answer::Answer;
use spoolgate_wire::frames::{self, FrameReader};

/// Longest answer that is accepted, in bytes.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// Delay before the next attempt after the gate closed the connection.
const AGAIN: Duration = Duration::from_millis(50);
/// The system does not accept a timeout of 0.
const LEAST: Duration = Duration::from_millis(1);

/// Why no answer came through the socket.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SocketError {
    /// There is no gate: nothing was sent.
    #[error("no gate answers at `{}` ({source}); start one with `spoolgate watch --socket`",
        path.display())]
    NoGate {
        /// The path of the socket.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The request does not fit into a frame.
    #[error("the request has {bytes} bytes, more than a frame holds")]
    TooLarge {
        /// Its length in bytes.
        bytes: usize,
    },
    /// The request was sent, completely or in part, and no answer came: the gate may have decided
    /// it.
    #[error("no answer came through `{}`", path.display())]
    NoAnswer {
        /// The path of the socket.
        path: PathBuf,
    },
}

/// Sends the same bytes until they are answered or the deadline passes. A gate that closes the
/// connection either serves another client or has stopped. In both cases the same bytes may be sent
/// again, because an id takes effect only once.
///
/// ```
/// use std::time::{Duration, Instant};
///
/// use spoolgate_client::{sign, socket};
/// use spoolgate_wire::{ids::Principal, signing::SignKey};
/// # mod gate { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/gate.rs")); }
/// # let folder = tempfile::tempdir()?;
/// # let path = gate::start(folder.path());
///
/// let key = SignKey::Hmac([7; 32]);
/// let me = Principal::parse("trend-bot")?;
/// let request = sign(&key, &me, "orders.list", "{}", None, Some("r-1"), None)?;
/// let deadline = Instant::now() + Duration::from_secs(10);
/// let answer = socket::ask(&path, request.to_json().as_bytes(), "r-1", deadline)?;
/// assert_eq!((answer.request_id.as_str(), answer.audit_ref.as_str()), ("r-1", "7"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns [`SocketError`], which says whether anything was sent.
pub fn ask(
    path: &Path,
    request: &[u8],
    id: &str,
    deadline: Instant,
) -> Result<Answer, SocketError> {
    let Some(frame) = frames::frame(request) else {
        return Err(SocketError::TooLarge {
            bytes: request.len(),
        });
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
                return Err(SocketError::NoGate {
                    path: path.to_owned(),
                    source,
                });
            }
            Err(_) => {}
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(SocketError::NoAnswer {
                path: path.to_owned(),
            });
        }
        std::thread::sleep(AGAIN.min(left));
    }
}

/// Sends one frame and reads its answer. `None` if the connection ends before.
fn exchange(
    mut stream: UnixStream,
    frame: &[u8],
    id: &str,
    deadline: Instant,
) -> io::Result<Option<Answer>> {
    let left = || {
        deadline
            .saturating_duration_since(Instant::now())
            .max(LEAST)
    };
    stream.set_write_timeout(Some(left()))?;
    // A gate that serves another client closes the connection without reading, but bytes it sent
    // before may still be there.
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
            // The gate answers bytes that it cannot read as a request without an id.
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
