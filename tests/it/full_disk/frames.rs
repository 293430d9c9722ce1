//! Frames on a full disk: exits are decided, a request that has its answer gets it again, and the
//! rest is refused without a line.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;

use crate::kit::desk::{Desk, order};
use crate::kit::ledger_files::lines_of;
use crate::kit::process::find;
use crate::kit::signed;
use serde_json::{Value, json};
use spoolgate_home::Home;
use spoolgate_host::clock::Clock as _;
use spoolgate_host::socket::{Limits, Socket};
use spoolgate_wire::frames::{FrameReader, frame};

/// A client of a gate that runs in the test.
struct Client {
    desk: Desk,
    home: Home,
    stream: UnixStream,
    reader: FrameReader,
}

impl Client {
    fn new() -> Client {
        let desk = Desk::with_limits("storage: {reserve_bytes: 4194304, floor_bytes: 0}");
        let mut home = desk.open();
        let path = desk.place.root.path().join("gate.sock");
        let limits = Limits::default();
        let mut socket = Socket::bind(&path, limits).unwrap();
        socket.serve(|| ()).unwrap();
        home.listen_on(socket);
        let stream = UnixStream::connect(&path).unwrap();
        stream.set_nonblocking(true).unwrap();
        let reader = FrameReader::new(limits.frame_bytes_max);
        Client {
            desk,
            home,
            stream,
            reader,
        }
    }

    fn request(&self, id: &str, payload: &str) -> Vec<u8> {
        self.request_for("order.submit", id, payload)
    }

    fn request_for(&self, action: &str, id: &str, payload: &str) -> Vec<u8> {
        let (key, now) = (&self.desk.keys["trend-bot"], self.desk.place.clock.now());
        let envelope = signed(key, "trend-bot", id, action, payload, now);
        envelope.to_json().into_bytes()
    }

    /// Sends a frame and lets the gate run until it has answered.
    fn ask(&mut self, request: &[u8]) -> Value {
        self.stream.write_all(&frame(request).unwrap()).unwrap();
        let Client {
            home,
            stream,
            reader,
            ..
        } = self;
        let answer = find("the gate answers", || {
            home.round(false).unwrap();
            let mut bytes = [0; 4096];
            match stream.read(&mut bytes) {
                Ok(0) => panic!("the gate has closed the connection"),
                Ok(read) => reader.push(&bytes[..read]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => panic!("{error}"),
            }
            reader.next_frame()
        });
        serde_json::from_slice(&answer.unwrap()).unwrap()
    }

    fn decisions(&self) -> usize {
        let log = self.desk.place.disk.get("audit/log-00000001.jsonl");
        let lines = lines_of(&log.unwrap());
        let lines = lines
            .iter()
            .map(|line| serde_json::from_slice(line).unwrap());
        lines
            .filter(|line: &Value| line["kind"] == "decision")
            .count()
    }
}

#[test]
fn a_frame_gets_the_answer_that_it_had_and_otherwise_a_refusal_without_a_line() {
    let mut client = Client::new();
    let buy = order("trend", "buy", "0.02", None, "btc-range-long");
    let buy = client.request("buy", &buy);
    let bought = client.ask(&buy);
    assert_eq!(bought["error"], Value::Null, "{bought}");
    client.desk.bar(&mut client.home, "6800", "6800");
    client.home.round(false).unwrap();
    client.desk.place.disk.leave(Some(0));
    let before = client.decisions();

    let sell = order("trend", "sell", "0.001", None, "btc-range-long");
    let sell = client.request("sell", &sell);
    let sold = client.ask(&sell);
    assert_eq!(sold["error"], Value::Null, "{sold}");
    assert_eq!(client.decisions(), before + 1);
    assert_eq!(client.ask(&sell), sold);
    assert_eq!(client.ask(&buy), bought);

    let more = order("trend", "buy", "0.002", Some("6700"), "btc-dip-long");
    let more = client.request("more", &more);
    let refused = client.ask(&more);
    assert_eq!(refused["error"]["code"], "STORAGE_LOW", "{refused}");
    assert_eq!(refused["auditRef"], "");
    // Another request under an id that is used up does not get the answer of the first.
    let other = order("trend", "buy", "0.003", None, "btc-range-long");
    let other = client.request("buy", &other);
    assert_eq!(client.ask(&other)["error"]["code"], "STORAGE_LOW");
    assert_eq!(client.decisions(), before + 1, "none of these has a line");

    client.desk.place.disk.leave(None);
    client.desk.place.pass_s(60);
    // The gate looks for room as it goes round.
    client.home.round(false).unwrap();
    let taken = client.ask(&more);
    assert_ne!(taken["error"]["code"], json!("STORAGE_LOW"), "{taken}");
    assert_eq!(client.ask(&other)["error"]["code"], "REQUEST_ID_CONFLICT");
}

/// The blob of a frame is the first write that finds no room.
#[test]
fn a_frame_that_needs_a_blob_is_refused_without_a_line() {
    let mut client = Client::new();
    client.desk.place.disk.leave(Some(0));
    let before = client.decisions();
    let bad = client.request_for("email.send", "bad", r#"{"b":"x"}"#);
    for _ in 0..2 {
        let refused = client.ask(&bad);
        assert_eq!(refused["requestId"], "bad");
        assert_eq!(refused["error"]["code"], "STORAGE_LOW", "{refused}");
        assert_eq!(refused["auditRef"], "");
    }
    let halt = client.request_for("halt.set", "halt", r#"{"reason":"drill"}"#);
    assert_eq!(client.ask(&halt)["error"], Value::Null);
    assert_eq!(client.decisions(), before + 1, "only the halt has a line");
    client.desk.place.disk.leave(None);
    client.desk.place.pass_s(60);
    client.home.round(false).unwrap();
    assert_eq!(client.ask(&bad)["error"]["code"], "MALFORMED_PAYLOAD");
}
