//! Requests that come as frames through a socket. They are decided in the same batches as files and answered once their
//! lines are sealed; no file is made of them. What a gate that ended had not answered is answered when it is sent again.

use std::collections::BTreeMap;

use super::batch::Begun;
use super::open::Home;
use crate::gate::prepare::{Delivery, Origin, Refusal};
use crate::gate::record::{Decision, Status};
use crate::host::socket::{Arrived, Fault, Socket};
use crate::spool::claim::Claimed;
use crate::spool::name::ClaimName;
use crate::wire::answer::Answer;
use crate::wire::code::Code;

/// Most bytes of frames that are taken into one batch.
const BATCH_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The socket, and who waits there.
pub(super) struct Door {
    socket: Socket,
    /// Who sent the last frame. There is one client at a time.
    client: u64,
    /// Frames of every client so far.
    frames: u64,
    /// How many frames of this client wait for an answer that comes later, by the place that lines name for it.
    asked: BTreeMap<String, u32>,
}

/// What a batch answers to a request that came through the socket.
pub(super) struct Due {
    seq: u64,
    place: String,
    /// None: it comes later.
    answer: Option<Answer>,
    is_held: bool,
}

impl Due {
    /// Of a decision, if its answer goes through the socket.
    pub(super) fn of(seq: u64, decision: &Decision, answer: Option<&Answer>) -> Option<Due> {
        let is_held = decision.status == Status::Held;
        let place = decision.answer.clone();
        is_through_socket(&place).then(|| Due { seq, place, answer: answer.cloned(), is_held })
    }
}

/// Whether the answer at this place, below the spool, is no file but a frame.
pub(super) fn is_through_socket(place: &str) -> bool {
    place.split_once('/').is_some_and(|(folder, _)| folder == Origin::Socket.answer_dir())
}

/// The name of a frame, in lines: its client's number, then its own.
fn name_of(client: u64, frame: u64) -> String {
    format!("{client}-{frame:012}.json")
}

/// Whose frame it was.
fn client_of(claim: &ClaimName) -> Option<u64> {
    let (client, _) = claim.file.split_once('-').filter(|_| claim.origin == Origin::Socket)?;
    client.parse().ok()
}

fn refusal_of(fault: &Fault) -> Refusal {
    let code = match fault {
        Fault::TooLong { .. } => Code::TooLarge,
        Fault::Incomplete { .. } => Code::FrameIncomplete,
    };
    Refusal::new(code, fault.to_string())
}

impl Home {
    /// Has requests come through this socket too, from the next round on.
    pub fn listen_on(&mut self, socket: Socket) {
        self.door = Some(Door { socket, client: 0, frames: 0, asked: BTreeMap::new() });
    }

    /// Frames that are there, as what is claimed; at most so many.
    pub(super) fn take_frames(&mut self, frames_max: usize) -> Vec<Claimed> {
        let batch = self.ledger.position().batch;
        let Some(door) = &mut self.door else { return Vec::new() };
        let mut claimed = Vec::new();
        for Arrived { client, content } in door.socket.take(frames_max, BATCH_BYTES_MAX) {
            if client != door.client {
                door.client = client;
                door.asked.clear();
            }
            door.frames = door.frames.saturating_add(1);
            let file = name_of(client, door.frames);
            let content = content.map_err(|fault| refusal_of(&fault));
            let weight = content.as_ref().map_or(0, Vec::len);
            let shown = format!("frame {} of client {client}", door.frames);
            let claim = ClaimName { attempt: 1, batch, origin: Origin::Socket, file: file.clone() };
            let delivery = Delivery { origin: Origin::Socket, file, shown, content };
            claimed.push(Claimed { claim, delivery, weight });
        }
        claimed
    }

    /// Whether a frame is there to be taken.
    pub(super) fn has_frames(&self) -> bool {
        self.door.as_ref().is_some_and(|door| door.socket.has_waiting())
    }

    /// Sends what a batch answers, now that it is sealed: `ended` are answers that come after their requests, by place.
    pub(super) fn answer_frames(
        &mut self,
        claims: &[(Begun, u64)],
        due: Vec<Due>,
        ended: &[(String, Answer)],
    ) {
        let Some(door) = &mut self.door else { return };
        let clients: BTreeMap<u64, u64> =
            claims.iter().filter_map(|(begun, seq)| Some((*seq, client_of(&begun.claim)?))).collect();
        for (place, answer) in ended {
            door.answer_later(place, answer);
        }
        for Due { seq, place, answer, is_held } in due {
            let client = clients.get(&seq).copied();
            match (client, &answer) {
                (Some(client), Some(answer)) => door.send(client, answer),
                // A held request that was decided again.
                (None, Some(answer)) => door.answer_later(&place, answer),
                _ => {}
            }
            if client == Some(door.client) && (answer.is_none() || is_held) {
                let waiting = door.asked.entry(place).or_default();
                *waiting = waiting.saturating_add(1);
            }
        }
    }

    /// Closes the socket: what is written to it already may still be read.
    pub(super) fn close_socket(&mut self) {
        self.door = None;
    }
}

impl Door {
    fn send(&self, client: u64, answer: &Answer) {
        let bytes = answer.to_bytes();
        let frame = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        // Who is gone asks again, and has the same answer.
        let _ = self.socket.answer(client, frame);
    }

    fn answer_later(&mut self, place: &str, answer: &Answer) {
        let waiting = self.asked.remove(place).unwrap_or(0);
        (0..waiting).for_each(|_| self.send(self.client, answer));
    }
}
