// A gate for examples in the documentation: it answers one request on its socket.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use spoolgate_wire::answer::{Answer, AnswerStatus};
use spoolgate_wire::envelope::Envelope;
use spoolgate_wire::frames::{FrameReader, frame};
use spoolgate_wire::time::Time;

/// Starts the gate and returns the path of its socket.
pub fn start(folder: &Path) -> PathBuf {
    let socket = folder.join("gate.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut reader, mut piece) = (FrameReader::new(1 << 20), [0; 4096]);
        let request = loop {
            if let Some(content) = reader.next_frame() {
                break Envelope::parse(&content.unwrap()).unwrap();
            }
            let read = stream.read(&mut piece).unwrap();
            assert_ne!(read, 0, "the client closed the connection");
            reader.push(&piece[..read]);
        };
        let answer = Answer {
            request_id: request.id.to_string(),
            timestamp: Time::EPOCH,
            status: AnswerStatus::Success,
            data: None,
            removed: None,
            redacted: false,
            error: None,
            audit_ref: "7".to_owned(),
        };
        let bytes = frame(&answer.to_bytes()).unwrap();
        stream.write_all(&bytes).unwrap();
    });
    socket
}
