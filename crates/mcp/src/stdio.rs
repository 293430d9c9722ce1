//! Standard input and output as the SDK's transport: a thread reads lines, a thread writes them.

use std::collections::HashSet;
use std::io::{self, BufRead, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rmcp::RoleServer;
use rmcp::model::{ClientNotification, JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::{Notify, mpsc};

use super::frame::{self, Incoming};

/// Longest line in bytes: a request of maximum size with every byte escaped once.
const LINE_BYTES_MAX: usize = 24 << 20;
/// Maximum number of lines waiting to be read or written.
const LINES_MAX: usize = 16;

enum Line {
    Whole(Vec<u8>),
    TooLong,
}

/// The transport.
pub(crate) struct Stdio {
    lines: mpsc::Receiver<Line>,
    out: mpsc::Sender<Vec<u8>>,
    unsaid: Option<Vec<u8>>,
    open: Arc<Open>,
}

/// Requests that are not answered yet. A client that sends requests through a pipe and closes it
/// still gets all answers.
#[derive(Default)]
struct Open {
    ids: Mutex<HashSet<RequestId>>,
    fewer: Notify,
}

impl Open {
    fn ids(&self) -> MutexGuard<'_, HashSet<RequestId>> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ended(&self, id: &RequestId) {
        self.ids().remove(id);
        self.fewer.notify_waiters();
    }
}

/// Starts to read and write. The returned thread ends once the transport is dropped and everything
/// is written.
pub(crate) fn open() -> (Stdio, JoinHandle<()>) {
    let (lines, read) = mpsc::channel(LINES_MAX);
    let (out, written) = mpsc::channel(LINES_MAX);
    // This thread ends with the process: a blocking read cannot be interrupted.
    std::thread::spawn(move || {
        read_lines(&mut io::stdin().lock(), LINE_BYTES_MAX, |line| {
            lines.blocking_send(line).is_ok()
        })
    });
    let writer = std::thread::spawn(move || write_lines(written));
    (
        Stdio {
            lines: read,
            out,
            unsaid: None,
            open: Arc::default(),
        },
        writer,
    )
}

fn write_lines(mut lines: mpsc::Receiver<Vec<u8>>) {
    let mut out = io::stdout().lock();
    while let Some(line) = lines.blocking_recv() {
        if out.write_all(&line).and_then(|()| out.flush()).is_err() {
            return;
        }
    }
}

/// Passes lines to `take` until the input ends or `take` returns false. Text after the last line
/// break is dropped.
fn read_lines(input: &mut impl BufRead, bytes_max: usize, mut take: impl FnMut(Line) -> bool) {
    let (mut line, mut is_cut) = (Vec::new(), false);
    loop {
        let piece = match input.fill_buf() {
            Ok([]) => return,
            Ok(piece) => piece,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        let end = memchr::memchr(b'\n', piece);
        let content = piece.get(..end.unwrap_or(piece.len())).unwrap_or_default();
        if line.len().saturating_add(content.len()) > bytes_max {
            is_cut = true;
            line = Vec::new();
        } else if !is_cut {
            line.extend_from_slice(content);
        }
        let used = content.len().saturating_add(usize::from(end.is_some()));
        input.consume(used);
        if end.is_none() {
            continue;
        }
        let whole = std::mem::take(&mut line);
        if !take(if std::mem::take(&mut is_cut) {
            Line::TooLong
        } else {
            Line::Whole(whole)
        }) {
            return;
        }
    }
}

impl Stdio {
    /// Returns whether a message is for the SDK, and keeps track of open requests.
    ///
    /// Only requests are, and cancellations of open requests. The other notifications mean nothing
    /// to a server that requests nothing from its client, and the SDK would stop if one came before
    /// the first request.
    fn is_to_be_heard(&self, message: &RxJsonRpcMessage<RoleServer>) -> bool {
        match message {
            JsonRpcMessage::Request(request) => {
                self.open.ids().insert(request.id.clone());
                true
            }
            JsonRpcMessage::Notification(notification) => match &notification.notification {
                ClientNotification::CancelledNotification(cancelled) => {
                    let id = cancelled.params.request_id.as_ref();
                    let is_open = id.is_some_and(|id| self.open.ids().contains(id));
                    id.iter().for_each(|id| self.open.ended(id));
                    is_open
                }
                _ => false,
            },
            _ => false,
        }
    }
}

impl Transport<RoleServer> for Stdio {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let (out, open) = (self.out.clone(), Arc::clone(&self.open));
        let answered = match &message {
            JsonRpcMessage::Response(response) => Some(response.id.clone()),
            JsonRpcMessage::Error(error) => error.id.clone(),
            _ => None,
        };
        let line = frame::outgoing(message);
        async move {
            let sent = match line {
                Some(line) => out
                    .send(line)
                    .await
                    .map_err(|_| io::ErrorKind::BrokenPipe.into()),
                None => Err(io::Error::other("a message that cannot be written as JSON")),
            };
            answered.iter().for_each(|id| open.ended(id));
            sent
        }
    }

    // The SDK drops this future whenever something else is ready, so all state that lives across an
    // await is in `self`.
    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            if self.unsaid.is_some() {
                let permit = self.out.reserve().await.ok()?;
                if let Some(line) = self.unsaid.take() {
                    permit.send(line);
                }
            }
            match self.lines.recv().await {
                Some(Line::Whole(line)) => match frame::incoming(&line) {
                    Incoming::Message(message) => {
                        if self.is_to_be_heard(&message) {
                            return Some(*message);
                        }
                    }
                    Incoming::Fault(answer) => self.unsaid = answer,
                },
                Some(Line::TooLong) => self.unsaid = frame::too_long(LINE_BYTES_MAX),
                None => break,
            }
        }
        loop {
            let fewer = self.open.fewer.notified();
            tokio::pin!(fewer);
            // Register now: a notification that comes before the await below must not be missed.
            fewer.as_mut().enable();
            if self.open.ids().is_empty() {
                return None;
            }
            fewer.await;
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_at_their_limit_and_the_next_one_is_whole() {
        let input = b"ab\nabcdefgh\n\nabcde\nrest";
        for piece in 1..=input.len() {
            let mut got = Vec::new();
            read_lines(
                &mut io::BufReader::with_capacity(piece, &input[..]),
                5,
                |line| {
                    got.push(match line {
                        Line::Whole(line) => String::from_utf8_lossy(&line).into_owned(),
                        Line::TooLong => "too long".to_owned(),
                    });
                    true
                },
            );
            assert_eq!(got, ["ab", "too long", "", "abcde"], "pieces of {piece}");
        }
    }
}
