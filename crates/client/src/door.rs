//! The ways to reach a gate, and what a missing answer means.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::socket::{self, SocketError};
use super::spool::{Spool, SpoolError};
use spoolgate_wire::answer::Answer;
use spoolgate_wire::envelope::Envelope;
use spoolgate_wire::ids::RequestId;

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The request could not be handed to the spool.
    #[error("request `{id}` was not sent: {why}")]
    NotInSpool {
        /// Id of the request, which is not used up.
        id: RequestId,
        /// Why the spool did not take it.
        why: SpoolError,
    },
    /// The request could not be sent through the socket.
    #[error("request `{id}` was not sent: {why}")]
    NotThroughSocket {
        /// Id of the request, which is not used up.
        id: RequestId,
        /// Why the socket did not take it.
        why: SocketError,
    },
    /// The request was sent, but the answer was lost or did not come in time.
    #[error(
        "no answer to request `{id}` within {waited_s} s: the gate may have decided it or may \
            still decide it; it is safe to send the same bytes again under this id, because \
            nothing is done twice and the stored answer is returned"
    )]
    NoAnswer {
        /// Id of the request.
        id: RequestId,
        /// Number of seconds waited.
        waited_s: u64,
    },
}

impl AskError {
    /// Whether the gate may decide the request anyway.
    pub fn may_be_decided(&self) -> bool {
        matches!(self, AskError::NoAnswer { .. })
    }
}

/// A way to reach a gate.
#[derive(Clone, Debug)]
pub enum Door {
    /// Files in the flat spool or in an agent's own spool.
    Spool(Spool),
    /// Frames through the socket at this path.
    Socket(PathBuf),
}

impl Door {
    /// Hands a signed request over and waits for its answer.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use spoolgate_client::{Door, sign};
    /// use spoolgate_wire::{answer::AnswerStatus, ids::Principal, signing::SignKey};
    /// # mod gate { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/gate.rs")); }
    /// # let folder = tempfile::tempdir()?;
    /// # let socket = gate::start(folder.path());
    ///
    /// let key = SignKey::Hmac([7; 32]);
    /// let me = Principal::parse("trend-bot")?;
    /// let request = sign(&key, &me, "orders.list", "{}", None, None, None)?;
    /// match Door::Socket(socket).ask(&request, Duration::from_secs(10)) {
    ///     Ok(answer) => assert_eq!(answer.status, AnswerStatus::Success),
    ///     // The same bytes may be sent again: nothing is done twice.
    ///     Err(error) if error.may_be_decided() => panic!("ask again: {error}"),
    ///     Err(error) => return Err(error.into()),
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`AskError`], which says whether the gate may decide the request anyway.
    pub fn ask(&self, request: &Envelope, wait: Duration) -> Result<Answer, AskError> {
        let id = || request.id.clone();
        let bytes = request.to_json().into_bytes();
        let begun = Instant::now();
        // A deadline beyond the range of the clock means no deadline; a year is long enough.
        let deadline = begun
            .checked_add(wait)
            .unwrap_or(begun + Duration::from_secs(31_536_000));
        let lost = || AskError::NoAnswer {
            id: id(),
            waited_s: wait.as_secs(),
        };
        match self {
            Door::Spool(spool) => spool
                .hand_in(&bytes, &request.id.file_stem(), Some(&request.id))
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
