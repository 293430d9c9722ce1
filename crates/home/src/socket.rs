//! Requests that arrive as frames through a socket. They are decided in the same batches as files
//! and answered once their lines are sealed; no files are written for them. If a gate ends before
//! answering, the client resends the request.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::batch::Begun;
use super::open::Home;
use super::parts::Intake;
use spoolgate_gate::prepare::{Delivery, Origin, Refusal};
use spoolgate_gate::record::{Decision, Status};
use spoolgate_gate::storage;
use spoolgate_host::doctor as machine;
use spoolgate_host::socket::{Arrived, Fault, Socket};
use spoolgate_host::spool::claim::Claimed;
use spoolgate_host::spool::name::ClaimName;
use spoolgate_rules::Rulebook;
use spoolgate_wire::answer::Answer;
use spoolgate_wire::code::Code;
use spoolgate_wire::envelope::claimed_id;
use spoolgate_wire::ids::UnixUser;
use spoolgate_wire::time::Time;

/// Maximum bytes of frames per batch.
const BATCH_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The socket and the clients connected to it.
pub(super) struct Door {
    socket: Socket,
    /// Number of frames of all clients so far.
    frames: u64,
    /// The newest client of each user; `None` is the gate's own user.
    talks: BTreeMap<Option<UnixUser>, Talk>,
    /// Why the mode of the socket cannot be set, as it was reported.
    fault: Option<String>,
}

/// What is remembered of a client.
#[derive(Default)]
struct Talk {
    client: u64,
    /// How many frames of this client wait for a later answer, by the place that lines name for it.
    asked: BTreeMap<String, u32>,
    /// The id that each frame names that is not answered yet, by the name of the frame. A client that
    /// waits for an id learns by it which of its frames was refused; no line has it.
    claimed: BTreeMap<String, String>,
}

/// The id in the answer to a frame that names none.
const UNKNOWN_ID: &str = "unknown";

/// Returns whether the answer at this place, below the spool, is sent as a frame and not written as
/// a file.
pub(super) fn is_through_socket(place: &str) -> bool {
    user_of(place).is_some()
}

/// Returns whose clients get the answer at this place, below the spool. `None` if it is a file.
fn user_of(place: &str) -> Option<Option<UnixUser>> {
    let (folder, _) = place.split_once('/')?;
    match Origin::from_label(folder)? {
        Origin::Socket(user) => Some(user),
        _ => None,
    }
}

/// Returns the name of a frame in lines: the number of its client, then its own.
fn name_of(client: u64, frame: u64) -> String {
    format!("{client}-{frame:012}.json")
}

/// Returns the client that sent a frame.
fn client_of(claim: &ClaimName) -> Option<u64> {
    let (client, _) = claim
        .file
        .split_once('-')
        .filter(|_| claim.origin.is_socket())?;
    client.parse().ok()
}

/// Maps the lines of the decisions on claimed frames to the clients that sent them.
pub(super) fn clients_of(claims: &[(Begun, u64)]) -> BTreeMap<u64, u64> {
    claims
        .iter()
        .filter_map(|(begun, seq)| Some((*seq, client_of(&begun.claim)?)))
        .collect()
}

/// Returns the users that the rules name, by id. Of two names for one user the first one counts, and
/// a name that this machine does not know counts for nobody.
fn users_of(rules: &Rulebook) -> BTreeMap<u32, UnixUser> {
    let mut users = BTreeMap::new();
    for user in rules
        .principals
        .values()
        .filter_map(|rule| rule.unix_user.as_ref())
    {
        let known = machine::user(user.as_str()).map(|known| known.uid);
        if let Some(uid) = known.or_else(|| user.as_str().parse().ok()) {
            users.entry(uid).or_insert_with(|| user.clone());
        }
    }
    users
}

fn refusal_of(fault: &Fault) -> Refusal {
    let code = match fault {
        Fault::TooLong { .. } => Code::TooLarge,
        Fault::Incomplete { .. } => Code::FrameIncomplete,
    };
    Refusal::new(code, fault.to_string())
}

impl Home {
    /// Makes the gate take requests from this socket too, from the next round on.
    pub fn listen_on(&mut self, socket: Socket) {
        self.intake.door = Some(Door {
            socket,
            frames: 0,
            talks: BTreeMap::new(),
            fault: None,
        });
        self.serve_users();
    }

    /// Serves clients of the users that the rules name.
    pub(super) fn serve_users(&mut self) {
        let Some(door) = &self.intake.door else {
            return;
        };
        door.socket.serve_users(users_of(&self.core.rulebook));
        // Without an error the change is what the rules demand, and no news.
        if door.socket.keep_mode().is_err() {
            self.keep_socket();
        }
    }

    /// Gives the socket the mode that its users need, and reports to the operator if it had another
    /// one or cannot get it. Until then those users cannot connect, and everybody else is served.
    pub(super) fn keep_socket(&mut self) {
        let Some(door) = &mut self.intake.door else {
            return;
        };
        let (told, fault) = match door.socket.keep_mode() {
            Ok(None) => (None, None),
            Ok(Some((had, has))) => {
                let path = door.socket.path().display();
                let told = format!("socket `{path}` had mode {had:04o}; it is {has:04o} now");
                (Some(told), None)
            }
            Err(error) => {
                let fault = format!(
                    "{error}; the mode of the socket cannot be kept, so clients of the users in \
                        rules/principals.yaml may be unable to connect; the gate tries again every \
                        second"
                );
                let is_new = door.fault.as_ref() != Some(&fault);
                (is_new.then(|| fault.clone()), Some(fault))
            }
        };
        door.fault = fault;
        if let Some(told) = told {
            self.news.tell(&self.core, told);
        }
    }

    /// Takes the frames that have arrived, at most this many, as claims.
    pub(super) fn take_frames(&mut self, frames_max: usize) -> Vec<Claimed> {
        let batch = self.core.ledger.position().batch;
        let Some(door) = &mut self.intake.door else {
            return Vec::new();
        };
        let mut claimed = Vec::new();
        for arrived in door.socket.take(frames_max, BATCH_BYTES_MAX) {
            let Arrived {
                client,
                user,
                content,
            } = arrived;
            let talk = door.talks.entry(user.clone()).or_default();
            if client != talk.client {
                *talk = Talk {
                    client,
                    ..Talk::default()
                };
            }
            door.frames = door.frames.saturating_add(1);
            let file = name_of(client, door.frames);
            let content = content.map_err(|fault| refusal_of(&fault));
            let claimed_id = content.as_ref().ok().and_then(|bytes| claimed_id(bytes));
            if let Some(id) = claimed_id {
                talk.claimed.insert(file.clone(), id.to_owned());
            }
            let weight = content.as_ref().map_or(0, Vec::len);
            let shown = format!("frame {} of client {client}", door.frames);
            let claim = ClaimName {
                attempt: 1,
                batch,
                origin: Origin::Socket(user.clone()),
                file: file.clone(),
            };
            let delivery = Delivery {
                origin: Origin::Socket(user),
                file,
                shown,
                content,
            };
            claimed.push(Claimed {
                claim,
                delivery,
                weight,
            });
        }
        claimed
    }
}

impl Intake {
    /// Returns whether a frame has arrived.
    pub(super) fn has_frames(&self) -> bool {
        self.door
            .as_ref()
            .is_some_and(|door| door.socket.has_waiting())
    }

    /// Sends the answer of a sealed decision to the client that sent the frame. If `answer` is
    /// `None`, it comes later.
    pub(super) fn answer_frame(
        &mut self,
        client: Option<u64>,
        decision: &Decision,
        answer: Option<&Answer>,
    ) {
        let Some(door) = &mut self.door else { return };
        let place = &decision.answer;
        let Some(talk) = user_of(place).and_then(|user| door.talks.get_mut(&user)) else {
            return;
        };
        let claimed = talk.claimed.remove(&decision.file);
        if client == Some(talk.client) && (answer.is_none() || decision.status == Status::Held) {
            let waiting = talk.asked.entry(place.clone()).or_default();
            *waiting = waiting.saturating_add(1);
        }
        match (client, answer) {
            (Some(client), Some(answer)) if answer.request_id.is_empty() => {
                let request_id = claimed.unwrap_or_else(|| UNKNOWN_ID.to_owned());
                let answer = Answer {
                    request_id,
                    ..answer.clone()
                };
                door.send(client, &answer);
            }
            (Some(client), Some(answer)) => door.send(client, answer),
            // A held request was decided again.
            (None, Some(answer)) => door.answer_later(place, answer),
            (_, None) => {}
        }
    }

    /// Sends an answer that comes later than its request, by the place that lines name for it.
    pub(super) fn answer_late_frame(&mut self, place: &str, answer: &Answer) {
        if let Some(door) = &mut self.door {
            door.answer_later(place, answer);
        }
    }

    /// Answers a frame without a line, for which the disk has no room: with the answer that the
    /// request got before, or with a refusal.
    pub(super) fn answer_without_line(
        &mut self,
        claim: &ClaimName,
        content: Option<&[u8]>,
        stored: Option<Answer>,
        now: Time,
    ) {
        let (Some(door), Some(client)) = (&mut self.door, client_of(claim)) else {
            return;
        };
        if let Origin::Socket(user) = &claim.origin
            && let Some(talk) = door.talks.get_mut(user)
        {
            talk.claimed.remove(&claim.file);
        }
        let id = content.and_then(claimed_id).unwrap_or(UNKNOWN_ID);
        let answer = stored.unwrap_or_else(|| storage::without_line(id, now));
        door.send(client, &answer);
    }

    /// The path of the socket, if there is one.
    pub(super) fn socket_path(&self) -> Option<PathBuf> {
        let path = self.door.as_ref()?.socket.path();
        Some(std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))
    }

    /// Closes the socket. The client can still read what was already written to it.
    pub(super) fn close_socket(&mut self) {
        self.door = None;
    }
}

impl Door {
    fn send(&self, client: u64, answer: &Answer) {
        let bytes = answer.to_bytes();
        let frame = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        // A client that is gone resends its request and gets the same answer.
        let _ = self.socket.answer(client, frame);
    }

    fn answer_later(&mut self, place: &str, answer: &Answer) {
        let talk = user_of(place).and_then(|user| self.talks.get_mut(&user));
        let Some(talk) = talk else { return };
        let (client, waiting) = (talk.client, talk.asked.remove(place).unwrap_or(0));
        (0..waiting).for_each(|_| self.send(client, answer));
    }
}
