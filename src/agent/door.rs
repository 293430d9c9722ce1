//! The ways to a gate, and what it means when no answer comes.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::socket::{self, SocketError};
use super::spool::{Spool, SpoolError};
use crate::wire::answer::Answer;
use crate::wire::envelope::Envelope;
use crate::wire::ids::RequestId;

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// It could not be handed to the spool.
    #[error("request `{id}` was not sent: {why}")]
    NotInSpool {
        /// Its id, which is not used up.
        id: RequestId,
        /// Why.
        why: SpoolError,
    },
    /// It could not be sent through the socket.
    #[error("request `{id}` was not sent: {why}")]
    NotThroughSocket {
        /// Its id, which is not used up.
        id: RequestId,
        /// Why.
        why: SocketError,
    },
    /// It was sent, and the answer was lost or did not come in time.
    #[error(
        "no answer to request `{id}` within {waited_s} s: it may still be decided, or be decided already; sending the same bytes again under this id is safe, nothing is done twice and the answer is the stored one"
    )]
    NoAnswer {
        /// Its id.
        id: RequestId,
        /// How long it was waited for.
        waited_s: u64,
    },
}

impl AskError {
    /// Whether the request may be decided all the same.
    pub fn may_be_decided(&self) -> bool {
        matches!(self, AskError::NoAnswer { .. })
    }
}

/// A way to a gate.
#[derive(Clone, Debug)]
pub enum Door {
    /// Files in the flat spool or an agent's own.
    Spool(Spool),
    /// Frames through the socket at this path.
    Socket(PathBuf),
}

impl Door {
    /// Hands a signed request over and waits for its answer.
    ///
    /// # Errors
    /// [`AskError`], which tells whether the request may be decided all the same.
    pub fn ask(&self, request: &Envelope, wait: Duration) -> Result<Answer, AskError> {
        let id = || request.id.clone();
        let bytes = request.to_json().into_bytes();
        let begun = Instant::now();
        // A time limit beyond what the clock can tell is none; a year is as good.
        let deadline = begun.checked_add(wait).unwrap_or(begun + Duration::from_secs(31_536_000));
        let lost = || AskError::NoAnswer { id: id(), waited_s: wait.as_secs() };
        match self {
            Door::Spool(spool) => spool
                .hand_in(&bytes, request.id.as_str(), Some(request.id.as_str()))
                .map_err(|why| match why {
                    SpoolError::HandedIn { .. } => lost(),
                    why => AskError::NotInSpool { id: id(), why },
                })?
                .answer_by(deadline)
                .ok_or_else(lost),
            Door::Socket(path) => {
                socket::ask(path, &bytes, request.id.as_str(), deadline).map_err(|why| match why {
                    SocketError::NoAnswer { .. } => lost(),
                    why => AskError::NotThroughSocket { id: id(), why },
                })
            }
        }
    }
}
