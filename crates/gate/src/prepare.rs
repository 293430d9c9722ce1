//! From claimed bytes to an authenticated request: strict JSON, envelope, signature, payload. What
//! fails before its signature is verified is answered only under its file name, so that a forged
//! request cannot take the answer of another one.

use std::borrow::Borrow;

use super::actions::{self, Body, Lane};
use super::faults::{self, Complaint, Locate};
use super::state::State;
use spoolgate_trading::class::{self, Class};
use spoolgate_wire::code::{Code, Retry};
use spoolgate_wire::envelope::{Envelope, EnvelopeError};
use spoolgate_wire::ids::{Principal, UnixUser};
use spoolgate_wire::json::Locator;
use spoolgate_wire::orders::SubmitOrder;
use spoolgate_wire::repair::Repair;
use spoolgate_wire::signing::{self, VerifyKey};
use spoolgate_wire::time::Time;

/// Which spool a file came through; the answer goes the same way back.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// `spool/local/in`: the gate's own user at a command line.
    Local,
    /// `spool/in`.
    Flat,
    /// `spool/in/<agent>/new`.
    Agent(Principal),
    /// A frame of the socket, which a process of this system user sent; `None` for the gate's own
    /// user. There is no file.
    Socket(Option<UnixUser>),
}

impl Origin {
    /// `local`, `flat`, `agent-<name>`, `socket` or `socket-<user>`.
    pub fn label(&self) -> String {
        match self {
            Origin::Local => "local".to_owned(),
            Origin::Flat => "flat".to_owned(),
            Origin::Agent(name) => format!("agent-{name}"),
            Origin::Socket(None) => "socket".to_owned(),
            Origin::Socket(Some(user)) => format!("socket-{user}"),
        }
    }

    /// Reads a label back.
    pub fn from_label(label: &str) -> Option<Origin> {
        match label {
            "local" => Some(Origin::Local),
            "flat" => Some(Origin::Flat),
            "socket" => Some(Origin::Socket(None)),
            other => match other.strip_prefix("socket-") {
                Some(user) => Some(Origin::Socket(Some(UnixUser::parse(user).ok()?))),
                None => Principal::parse(other.strip_prefix("agent-")?)
                    .ok()
                    .map(Origin::Agent),
            },
        }
    }

    /// Whether a principal may use this spool. It may have a spool folder of its own, and a system
    /// user whose processes send its requests through the socket.
    pub fn is_for(&self, own_spool: Option<&Principal>, own_user: Option<&UnixUser>) -> bool {
        match (self, own_spool) {
            (Origin::Socket(Some(user)), _) => own_user == Some(user),
            (Origin::Local, _) | (Origin::Flat | Origin::Socket(None), None) => true,
            (Origin::Agent(used), Some(own)) => used == own,
            (Origin::Flat | Origin::Socket(None), Some(_)) | (Origin::Agent(_), None) => false,
        }
    }

    /// Whether the request came through the socket.
    pub fn is_socket(&self) -> bool {
        matches!(self, Origin::Socket(_))
    }

    /// Folder of the answers, below the spool. Answers on the socket are not files.
    pub fn answer_dir(&self) -> String {
        match self {
            Origin::Local => "local/out".to_owned(),
            Origin::Flat => "out".to_owned(),
            Origin::Agent(name) => format!("out/{name}"),
            Origin::Socket(_) => self.label(),
        }
    }
}

/// Maximum length of a refusal's text before the remedy, in characters.
const REFUSAL_CHARS_MAX: usize = 1000;

/// Why something was refused, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Stable code.
    pub code: Code,
    /// What happened, where, and what to do.
    pub message: String,
    /// Whether and how its sender may try again.
    pub repair: Repair,
    /// Whether the file stays in the spool because the gate cannot move it, so that nothing of it
    /// is kept elsewhere.
    pub stays: bool,
}

impl Refusal {
    /// The same refusal of a file that stays in the spool.
    #[must_use]
    pub fn staying(self) -> Refusal {
        Refusal {
            stays: true,
            ..self
        }
    }

    /// Builds a refusal whose message ends with the code's remedy. `what` may quote the sender, so
    /// it is cut to a length that a ledger line can hold, and terminal control characters are
    /// escaped.
    pub fn new(code: Code, what: impl AsRef<str>) -> Refusal {
        let what = escaped(what.as_ref());
        Refusal::recorded(code, format!("{what}; {}", code.remedy()))
    }

    /// The refusal with the whole message, as a line has it.
    pub(super) fn recorded(code: Code, message: String) -> Refusal {
        Refusal {
            code,
            message,
            repair: Repair::of(code.retry()),
            stays: false,
        }
    }

    /// Replaces the advice that the code gives.
    #[must_use]
    pub(super) fn retried(mut self, retry: Retry) -> Refusal {
        self.repair.retry = retry;
        self
    }

    /// The refusal with a time to wait, milliseconds, if it is known.
    #[must_use]
    pub(super) fn waiting(mut self, wait_ms: Option<u64>) -> Refusal {
        self.repair.retry_after_ms = wait_ms;
        self
    }
}

/// Escapes what a terminal would obey: control characters, including the C1 ones that JSON leaves
/// as they are, characters that change the direction of writing or end a line, and characters that
/// nobody sees.
pub fn escaped(text: &str) -> String {
    let obeyed = |c: char| {
        c.is_control()
            || matches!(c, '\u{061c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
    };
    if text.len() <= REFUSAL_CHARS_MAX && text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return text.to_owned();
    }
    let mut out = String::new();
    for c in text.chars().take(REFUSAL_CHARS_MAX) {
        if obeyed(c) {
            out.extend(c.escape_unicode())
        } else {
            out.push(c)
        }
    }
    out
}

/// A claimed file.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// Where it came from.
    pub origin: Origin,
    /// The file's name, or `=` and 16 hex digits if it is not a valid name.
    pub file: String,
    /// The name for messages, escaped and cut.
    pub shown: String,
    /// The bytes, or why they cannot be decided on.
    pub content: Result<Vec<u8>, Refusal>,
}

/// A delivery after authentication.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// Where it came from.
    pub origin: Origin,
    /// Its file name.
    pub file: String,
    /// SHA-256 of its bytes, if they were read.
    pub file_sha256: Option<String>,
    /// Number of bytes.
    pub file_bytes: Option<u64>,
    /// The request, or why it is not one.
    pub request: Result<Authentic, Box<Unverified>>,
}

/// A request whose signature is good.
#[derive(Clone, Debug)]
pub struct Authentic {
    /// Its envelope.
    pub envelope: Envelope,
    /// The key that verified it.
    pub key_id: String,
    /// SHA-256 of the payload, hex.
    pub payload_hash: String,
    /// SHA-256 of the signing string, hex.
    pub request_hash: String,
    /// The payload, or why it cannot be read.
    pub body: Result<Body, Refusal>,
}

/// What is known about bytes that are not a verified request.
#[derive(Clone, Debug)]
pub struct Unverified {
    /// The envelope, if there is one.
    pub envelope: Option<Envelope>,
    /// Why it is refused.
    pub refusal: Refusal,
}

/// Provides the keys that the state names.
pub trait Keyring {
    /// Returns the verifier of this key, if the keyring has it.
    fn verify_key(&self, key_id: &str) -> Option<VerifyKey>;
}

/// Authenticates a delivery under the keys active at `now`. The bytes of a borrowed delivery are
/// not copied, because they can be large.
pub fn prepare(
    delivery: impl Borrow<Delivery>,
    state: &State,
    keyring: &dyn Keyring,
    now: Time,
) -> Prepared {
    let Delivery {
        origin,
        file,
        shown,
        content,
    } = delivery.borrow();
    let bytes = content.as_ref().ok();
    let file_sha256 = bytes.map(|bytes| signing::sha256_hex(bytes));
    let file_bytes = bytes.and_then(|bytes| u64::try_from(bytes.len()).ok());
    let request = match content {
        Ok(bytes) => authenticate(bytes, shown, state, keyring, now),
        Err(refusal) => Err(Box::new(Unverified {
            envelope: None,
            refusal: refusal.clone(),
        })),
    };
    Prepared {
        origin: origin.clone(),
        file: file.clone(),
        file_sha256,
        file_bytes,
        request,
    }
}

fn authenticate(
    bytes: &[u8],
    shown: &str,
    state: &State,
    keyring: &dyn Keyring,
    now: Time,
) -> Result<Authentic, Box<Unverified>> {
    let locator = Locator::new(bytes);
    let locate = |pointer: &str| locator.find(pointer);
    let envelope = Envelope::parse(bytes).map_err(|error| {
        let refusal = match &error {
            EnvelopeError::Json(why) => faults::refused_json(shown, why),
            other => {
                let text = String::from_utf8_lossy(bytes);
                faults::refused_envelope(shown, &text, other, &locate)
            }
        };
        Box::new(Unverified {
            envelope: None,
            refusal,
        })
    })?;
    let payload_hash = envelope.payload_hash();
    let message = envelope.signing_string_of(&payload_hash);
    let verified = state.active_keys(&envelope.source, now).find(|key_id| {
        keyring
            .verify_key(key_id)
            .is_some_and(|key| key.verifies(&message, &envelope.signature))
    });
    let Some(key_id) = verified.map(str::to_owned) else {
        // A source without keys and a wrong signature get the same text: strangers must not learn
        // which principals have keys.
        let what = format!(
            "file `{shown}`: no current key of `{}` made this signature over the request",
            envelope.source
        );
        let refusal = Refusal::new(Code::SignatureInvalid, what);
        return Err(Box::new(Unverified {
            envelope: Some(envelope),
            refusal,
        }));
    };
    let request_hash = signing::sha256_hex(message.as_bytes());
    let body = read_body(&envelope, bytes.len(), &locate);
    Ok(Authentic {
        envelope,
        key_id,
        payload_hash,
        request_hash,
        body,
    })
}

/// Reads the payload of a request. `locate` is for the faults of one that cannot be read.
pub(super) fn read_body(
    envelope: &Envelope,
    file_bytes: usize,
    locate: Locate<'_>,
) -> Result<Body, Refusal> {
    let action = actions::named(&envelope.action).ok_or_else(|| {
        Refusal::new(
            Code::UnknownAction,
            format!("action `{}` does not exist", envelope.action),
        )
    })?;
    let rule = action.row();
    if file_bytes > rule.bytes_max {
        let what = format!(
            "the file has {file_bytes} bytes; a request for `{}` has at most {}",
            rule.name, rule.bytes_max
        );
        return Err(Refusal::new(Code::TooLarge, what));
    }
    let payload = envelope.payload.as_str();
    match action.read(payload) {
        Ok(body) => Ok(body.with_faults(action, envelope, locate)),
        Err(why) => {
            let why = Complaint::of_payload(&why, payload);
            let (words, faults) = faults::in_payload(action, payload, why, locate);
            let what = format!("payload of `{}`: {words}", rule.name);
            Err(Refusal::new(Code::MalformedPayload, what).with_faults(faults))
        }
    }
}

impl Authentic {
    /// The payload, if it could be read and has this type.
    pub fn payload<T: 'static>(&self) -> Option<&T> {
        self.body.as_ref().ok()?.payload()
    }

    /// A request without a signature, for trying out what would be decided.
    pub fn unsigned(envelope: Envelope) -> Authentic {
        let payload_hash = envelope.payload_hash();
        let request_hash =
            signing::sha256_hex(envelope.signing_string_of(&payload_hash).as_bytes());
        let body = read_body(&envelope, envelope.payload.len(), &|_| None);
        Authentic {
            envelope,
            key_id: String::new(),
            payload_hash,
            request_hash,
            body,
        }
    }
}

impl Prepared {
    /// The lane in the present state: an order that only reduces is protected. Computed when the
    /// request's turn comes, because an earlier decision of the batch can change it.
    pub fn lane(&self, state: &State) -> Lane {
        let Ok(Authentic { body: Ok(body), .. }) = &self.request else {
            return Lane::Ordinary;
        };
        let is_exit = body.payload().is_some_and(|order: &SubmitOrder| {
            let SubmitOrder {
                strategy,
                symbol,
                side,
                order_type,
                ..
            } = order;
            let capacity = class::capacity(&state.book, strategy, symbol, *side, *order_type);
            class::classify(order.size, capacity) == Class::Exit
        });
        if is_exit {
            Lane::Protected
        } else {
            body.rule.lane
        }
    }
}
