//! The gate's Unix socket: framing, limits, one client at a time, its path, and clients that break
//! the rules.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::kit::process::find;
use spoolgate_host::socket::{Arrived, Fault, Limits, Socket, SocketError};
use spoolgate_wire::frames::frame;
use spoolgate_wire::ids::UnixUser;

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        Place {
            folder: crate::kit::folder(),
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("gate.sock")
    }

    fn serve(&self, limits: Limits) -> Socket {
        let mut socket = Socket::bind(&self.path(), limits).unwrap();
        socket.serve(|| ()).unwrap();
        socket
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path()).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }
}

fn call(path: &Path) -> UnixStream {
    let stream = UnixStream::connect(path).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    stream
        .set_write_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    stream
}

fn send(stream: &mut UnixStream, content: &[u8]) {
    stream.write_all(&frame(content).unwrap()).unwrap();
}

fn receive(stream: &mut UnixStream) -> Vec<u8> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut content = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut content).unwrap();
    content
}

/// Whether the other end closes without sending anything.
fn is_closed(stream: &mut UnixStream) -> bool {
    match stream.read(&mut [0; 16]) {
        Ok(bytes) => bytes == 0,
        Err(error) => matches!(
            error.kind(),
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
        ),
    }
}

fn one(socket: &mut Socket) -> Arrived {
    find("it comes", || socket.take(1, usize::MAX).pop())
}

/// Sends a frame until it is accepted. Another test that starts a program keeps the client before
/// open for a moment, between fork and exec, and the socket closes the next client meanwhile.
fn taken(socket: &mut Socket, path: &Path) -> (UnixStream, Arrived) {
    find("a client is taken", || {
        let mut stream = call(path);
        stream.write_all(&frame(b"next").unwrap()).ok()?;
        stream.set_nonblocking(true).unwrap();
        loop {
            if let Some(arrived) = socket.take(1, usize::MAX).pop() {
                return Some((stream, arrived));
            }
            match stream.read(&mut [0; 16]) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
                _ => return None,
            }
        }
    })
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn frames_come_in_order_and_answers_go_back() {
    let place = Place::new();
    let mut socket = place.serve(Limits::default());
    let mut client = call(&place.path());
    let contents = [b"one".to_vec(), vec![], vec![7; 3_000_000]];
    let writer = {
        let (mut client, contents) = (client.try_clone().unwrap(), contents.clone());
        std::thread::spawn(move || {
            contents
                .iter()
                .for_each(|content| send(&mut client, content))
        })
    };
    for content in &contents {
        assert_eq!(
            one(&mut socket),
            Arrived {
                client: 1,
                user: None,
                content: Ok(content.clone())
            }
        );
        assert!(socket.answer(1, content));
        assert_eq!(&receive(&mut client), content);
    }
    writer.join().unwrap();
    assert!(!socket.has_waiting());
    assert!(!socket.answer(2, b"nobody"));
}

#[test]
fn pending_frames_are_bounded_and_the_waker_is_called() {
    let place = Place::new();
    let (woken, wakes) = std::sync::mpsc::channel();
    let mut socket = Socket::bind(&place.path(), Limits::default()).unwrap();
    socket
        .serve(move || woken.send(()).unwrap_or_default())
        .unwrap();
    let mut client = call(&place.path());
    let bytes: Vec<u8> = (0..6).flat_map(|n| frame(&[n; 10]).unwrap()).collect();
    client.write_all(&bytes).unwrap();
    wakes.recv_timeout(Duration::from_secs(20)).unwrap();
    assert!(socket.has_waiting());
    assert_eq!(socket.take(2, 1000).len(), 2);
    assert_eq!(socket.take(100, 25).len(), 2);
    assert_eq!(socket.take(0, 0).len(), 1);
    assert_eq!(socket.take(100, 1).len(), 1);
    assert!(socket.take(100, 1000).is_empty());
}

#[test]
fn others_are_closed_while_one_is_there_and_nothing_leaks() {
    let place = Place::new();
    let mut socket = place.serve(Limits::default());
    let mut first = call(&place.path());
    send(&mut first, b"first");
    one(&mut socket);
    let before = descriptors();
    for _ in 0..10_000 {
        assert!(is_closed(&mut call(&place.path())));
    }
    // Other tests in this process also open and close files meanwhile.
    assert!(
        descriptors() < before + 5_000,
        "{before} before, {} after",
        descriptors()
    );
    send(&mut first, b"still");
    assert_eq!(one(&mut socket).content.unwrap(), b"still");
    assert!(socket.answer(1, b"yes"));
    assert_eq!(receive(&mut first), b"yes");
    drop(first);
    for number in 2..200 {
        let (_next, arrived) = taken(&mut socket, &place.path());
        assert_eq!(
            arrived,
            Arrived {
                client: number,
                user: None,
                content: Ok(b"next".to_vec())
            }
        );
    }
}

#[test]
fn a_frame_that_is_too_long_ends_it_after_the_answers() {
    let place = Place::new();
    let mut socket = place.serve(Limits {
        frame_bytes_max: 10,
        ..Limits::default()
    });
    let mut client = call(&place.path());
    send(&mut client, b"good");
    client.write_all(&frame(&[0; 11]).unwrap()).unwrap();
    assert_eq!(one(&mut socket).content.unwrap(), b"good");
    assert_eq!(
        one(&mut socket).content,
        Err(Fault::TooLong { declared_bytes: 11 })
    );
    assert!(socket.answer(1, b"done"));
    assert!(socket.answer(1, b"too long"));
    assert_eq!(receive(&mut client), b"done");
    assert_eq!(receive(&mut client), b"too long");
    assert!(is_closed(&mut client));
    // A fault that is not answered does not keep the connection open either.
    let mut client = call(&place.path());
    client.write_all(&[255; 4]).unwrap();
    assert_eq!(
        one(&mut socket).content,
        Err(Fault::TooLong {
            declared_bytes: u32::MAX
        })
    );
    assert!(is_closed(&mut client));
}

#[test]
fn an_end_inside_a_frame_is_reported() {
    let place = Place::new();
    let mut socket = place.serve(Limits::default());
    let mut client = call(&place.path());
    client.write_all(&[0, 0, 0, 9, 1, 2]).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let fault = Fault::Incomplete {
        got_bytes: 2,
        declared_bytes: Some(9),
    };
    assert_eq!(
        one(&mut socket),
        Arrived {
            client: 1,
            user: None,
            content: Err(fault)
        }
    );
    assert!(is_closed(&mut client));
}

#[test]
fn a_byte_now_and_then_does_not_extend_the_time_of_a_frame() {
    let place = Place::new();
    let mut socket = place.serve(Limits {
        partial_frame_ms_max: 300,
        ..Limits::default()
    });
    let mut client = call(&place.path());
    // An idle client is not late.
    std::thread::sleep(Duration::from_millis(500));
    send(&mut client, b"fine");
    assert!(one(&mut socket).content.is_ok());
    assert!(socket.answer(1, b""));
    let start = Instant::now();
    client.write_all(&[0, 0, 1, 0]).unwrap();
    let arrived = find("it comes", || {
        let _ = client.write(&[1]);
        std::thread::sleep(Duration::from_millis(20));
        socket.take(1, usize::MAX).pop()
    });
    assert!(
        start.elapsed() >= Duration::from_millis(290),
        "{:?}",
        start.elapsed()
    );
    assert!(
        matches!(
            arrived.content,
            Err(Fault::Incomplete {
                declared_bytes: Some(256),
                ..
            })
        ),
        "{arrived:?}"
    );
}

#[test]
fn a_client_that_sends_no_more_gets_its_answers() {
    let place = Place::new();
    let mut socket = place.serve(Limits::default());
    let mut client = call(&place.path());
    send(&mut client, b"a");
    send(&mut client, b"b");
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(one(&mut socket).content.unwrap(), b"a");
    std::thread::sleep(Duration::from_millis(50));
    assert!(socket.answer(1, b"A"));
    assert_eq!(receive(&mut client), b"A");
    assert_eq!(one(&mut socket).content.unwrap(), b"b");
    std::thread::sleep(Duration::from_millis(50));
    assert!(socket.answer(1, b"B"));
    assert_eq!(receive(&mut client), b"B");
    assert!(is_closed(&mut client));
    assert!(find("it comes", || (!socket.answer(1, b"C")).then_some(true)));
}

#[test]
fn frames_sent_before_a_disconnect_are_accepted() {
    let place = Place::new();
    let mut socket = place.serve(Limits {
        waiting_frames_max: 3,
        ..Limits::default()
    });
    let mut client = call(&place.path());
    (0..20).for_each(|n| send(&mut client, &[n]));
    drop(client);
    for n in 0..20 {
        assert_eq!(
            one(&mut socket),
            Arrived {
                client: 1,
                user: None,
                content: Ok(vec![n])
            }
        );
    }
    find("it comes", || (!socket.answer(1, b"")).then_some(()));
}

#[test]
fn nothing_is_read_while_too_much_waits() {
    let place = Place::new();
    let mut socket = place.serve(Limits {
        waiting_bytes_max: 100_000,
        ..Limits::default()
    });
    let mut client = call(&place.path());
    client.set_nonblocking(true).unwrap();
    let stream = frame(&[5; 10_000]).unwrap().repeat(1000);
    let mut sent = 0;
    let mut quiet = 0;
    while quiet < 50 {
        match client.write(&stream[sent..]) {
            Ok(bytes) => (sent, quiet) = (sent + bytes, 0),
            Err(_) => quiet += 1,
        }
        std::thread::sleep(Duration::from_millis(4));
    }
    assert!(
        sent < 3_000_000,
        "{sent} bytes were read with nobody taking any"
    );
    assert!(socket.take(usize::MAX, usize::MAX).len() <= 10);
    client.set_nonblocking(false).unwrap();
    let writer = std::thread::spawn(move || {
        client.write_all(&stream[sent..]).unwrap();
        client
    });
    let mut taken = 10;
    while taken < 1000 {
        taken += socket.take(7, usize::MAX).len();
    }
    drop(writer.join().unwrap());
}

#[test]
fn a_client_that_does_not_read_is_disconnected() {
    let place = Place::new();
    let limits = Limits {
        unsent_bytes_max: 2_000_000,
        write_ms_max: 300,
        ..Limits::default()
    };
    let mut socket = place.serve(limits);
    // Too much.
    let mut client = call(&place.path());
    send(&mut client, b"?");
    one(&mut socket);
    assert!((0..100).any(|_| !socket.answer(1, &[1; 100_000])));
    assert!(!socket.answer(1, b"gone"));
    // Too long.
    let mut client = call_again(&place, &mut socket);
    let start = Instant::now();
    assert!(socket.answer(client.1, &[1; 1_900_000]));
    find("it comes", || (!socket.answer(client.1, b"")).then_some(()));
    assert!(start.elapsed() >= Duration::from_millis(290));
    drop(client.0.write(b"x"));
    call_again(&place, &mut socket);
}

/// A large frame is not read before the one before is decided.
#[test]
fn large_frames_come_one_at_a_time() {
    let place = Place::new();
    let mut socket = place.serve(Limits {
        large_frame_bytes: 400_000,
        partial_frame_ms_max: 300,
        ..Limits::default()
    });
    let mut client = call(&place.path());
    let large = frame(&[7; 400_001]).unwrap();
    let stream = [&large[..], &large, &frame(b"small").unwrap()].concat();
    let writer = std::thread::spawn(move || client.write_all(&stream).map(|()| client).unwrap());
    assert_eq!(one(&mut socket).content.unwrap().len(), 400_001);
    // Time in which a client waits for its turn does not count against it.
    std::thread::sleep(Duration::from_millis(500));
    assert!(!socket.has_waiting());
    assert_eq!(one(&mut socket).content.unwrap().len(), 400_001);
    assert_eq!(one(&mut socket).content.unwrap(), b"small");
    drop(writer.join().unwrap());
}

/// Connects the next client, once the one before is gone.
fn call_again(place: &Place, socket: &mut Socket) -> (UnixStream, u64) {
    find("it comes", || {
        let mut client = call(&place.path());
        let _ = client.write_all(&frame(b"?").unwrap());
        std::thread::sleep(Duration::from_millis(50));
        socket
            .take(1, usize::MAX)
            .pop()
            .map(|arrived| (client, arrived.client))
    })
}

#[test]
fn unsent_answers_go_out_when_the_gate_stops() {
    let place = Place::new();
    let mut socket = place.serve(Limits::default());
    let mut client = call(&place.path());
    send(&mut client, b"?");
    one(&mut socket);
    let reader = std::thread::spawn(move || receive(&mut client));
    assert!(socket.answer(1, &[3; 2_000_000]));
    drop(socket);
    assert_eq!(reader.join().unwrap(), [3; 2_000_000]);
    assert!(place.names().is_empty());
}

#[test]
fn the_socket_is_private_and_removed_with_the_gate() {
    let place = Place::new();
    let socket = place.serve(Limits::default());
    assert_eq!(
        std::fs::symlink_metadata(place.path())
            .unwrap()
            .permissions()
            .mode()
            & 0o777,
        0o600
    );
    assert_eq!(place.names(), ["gate.sock"]);
    drop(socket);
    assert!(place.names().is_empty());
}

fn mode(place: &Place) -> u32 {
    let found = std::fs::symlink_metadata(place.path()).unwrap();
    found.permissions().mode() & 0o7777
}

fn user(uid: u32, name: &str) -> BTreeMap<u32, UnixUser> {
    BTreeMap::from([(uid, UnixUser::parse(name).unwrap())])
}

/// Limits with which every client counts as silent at once.
fn silent_at_once() -> Limits {
    Limits {
        silent_ms: 0,
        ..Limits::default()
    }
}

/// Connects the first client, which gets an answer.
fn served(place: &Place, socket: &mut Socket) -> UnixStream {
    let mut first = call(&place.path());
    send(&mut first, b"first");
    assert_eq!(one(socket).client, 1);
    assert!(socket.answer(1, b"yes"));
    assert_eq!(receive(&mut first), b"yes");
    first
}

/// The rules name users: then every user can connect, and a client that hangs makes way.
#[test]
fn with_users_a_silent_client_makes_way_for_the_next_of_its_user() {
    let place = Place::new();
    let mut socket = place.serve(silent_at_once());
    let mut first = served(&place, &mut socket);
    // Without users a client stays however long it is silent.
    assert!(is_closed(&mut call(&place.path())));
    socket.serve_users(user(4_000_000_000, "bot"));
    let mut second = call(&place.path());
    send(&mut second, b"second");
    assert_eq!(one(&mut socket).client, 2);
    assert!(is_closed(&mut first));
    // This one is owed an answer, so it stays.
    assert!(is_closed(&mut call(&place.path())));
    assert!(socket.answer(2, b"yes"));
    assert_eq!(receive(&mut second), b"yes");
    let (_third, arrived) = taken(&mut socket, &place.path());
    assert_eq!((arrived.client, arrived.user), (3, None));
    // One that was heard within the limit stays too.
    let place = Place::new();
    let mut socket = place.serve(Limits::default());
    socket.serve_users(user(4_000_000_000, "bot"));
    let _first = served(&place, &mut socket);
    assert!(is_closed(&mut call(&place.path())));
}

/// The same for a client of another user, whose place nobody of the gate's user takes.
#[test]
fn a_silent_client_of_another_user_makes_way_for_its_own_only() {
    let probe = std::process::Command::new("setpriv")
        .args(["--reuid=65534", "--clear-groups", "python3", "-c", ""])
        .output();
    if !probe.is_ok_and(|done| done.status.success()) {
        eprintln!("skipped: needs root, setpriv and python3");
        return;
    }
    let place = Place::new();
    std::fs::set_permissions(place.folder.path(), Permissions::from_mode(0o755)).unwrap();
    let mut socket = place.serve(silent_at_once());
    socket.serve_users(user(65534, "bot"));
    assert_eq!(socket.keep_mode().unwrap(), Some((0o600, 0o666)));
    let mut own = call(&place.path());
    send(&mut own, b"own");
    assert_eq!(one(&mut socket).user, None);
    let script = "import socket, sys\n\
        def call():\n    \
            s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])\n    \
            s.sendall(b'\\0\\0\\0\\3bot'); return s\n\
        first = call()\n\
        first.recv(5, socket.MSG_WAITALL)\n\
        second = call()\n\
        assert first.recv(1) == b''\n\
        assert second.recv(5, socket.MSG_WAITALL)[4:] == b'2'\n";
    let mut client = std::process::Command::new("setpriv")
        .args(["--reuid=65534", "--clear-groups", "python3", "-c", script])
        .arg(place.path())
        .spawn()
        .unwrap();
    for answer in [b"1", b"2"] {
        let arrived = one(&mut socket);
        assert_eq!(arrived.user.as_ref().map(UnixUser::as_str), Some("bot"));
        assert!(socket.answer(arrived.client, answer));
    }
    assert!(client.wait().unwrap().success());
    // The gate's own user was connected all the time, and is still owed its answer.
    assert!(socket.answer(1, b"yes"));
    assert_eq!(receive(&mut own), b"yes");
}

#[test]
fn the_mode_is_that_of_the_users_and_is_set_again() {
    let place = Place::new();
    let socket = place.serve(Limits::default());
    let set = |bits: u32| {
        std::fs::set_permissions(place.path(), Permissions::from_mode(bits)).unwrap();
    };
    assert_eq!((mode(&place), socket.keep_mode().unwrap()), (0o600, None));
    socket.serve_users(user(4_000_000_000, "bot"));
    // The folder is away, so the mode cannot be set.
    let aside = place.folder.path().with_extension("aside");
    std::fs::rename(place.folder.path(), &aside).unwrap();
    socket.keep_mode().unwrap_err();
    std::fs::rename(&aside, place.folder.path()).unwrap();
    assert_eq!(mode(&place), 0o600);
    assert_eq!(socket.keep_mode().unwrap(), Some((0o600, 0o666)));
    assert_eq!((mode(&place), socket.keep_mode().unwrap()), (0o666, None));
    set(0o644);
    assert_eq!(socket.keep_mode().unwrap(), Some((0o644, 0o666)));
    socket.serve_users(BTreeMap::new());
    assert_eq!(socket.keep_mode().unwrap(), Some((0o666, 0o600)));
    assert_eq!(mode(&place), 0o600);
    // Another process took the path: its file is left alone.
    std::fs::rename(place.path(), place.folder.path().join("moved")).unwrap();
    let _other = UnixListener::bind(place.path()).unwrap();
    set(0o640);
    assert_eq!(socket.keep_mode().unwrap(), None);
    assert_eq!(mode(&place), 0o640);
}

#[test]
fn a_live_gate_keeps_its_socket_and_a_stale_one_is_replaced() {
    let place = Place::new();
    let socket = place.serve(Limits::default());
    let refused = Socket::bind(&place.path(), Limits::default());
    assert!(
        matches!(refused, Err(SocketError::InUse { .. })),
        "{refused:?}"
    );
    drop(call(&place.path()));
    drop(socket);
    drop(UnixListener::bind(place.path()).unwrap());
    let socket = place.serve(Limits::default());
    assert_eq!(place.names(), ["gate.sock"]);
    drop(call(&place.path()));
    // A socket of another process in its place stays.
    std::fs::rename(place.path(), place.folder.path().join("aside")).unwrap();
    let _other = UnixListener::bind(place.path()).unwrap();
    drop(socket);
    assert!(place.path().exists());
}

#[test]
fn a_path_that_is_not_a_socket_is_never_removed() {
    let place = Place::new();
    std::fs::write(place.path(), b"mine").unwrap();
    let refused = Socket::bind(&place.path(), Limits::default());
    assert!(
        matches!(refused, Err(SocketError::NotASocket { .. })),
        "{refused:?}"
    );
    assert_eq!(std::fs::read(place.path()).unwrap(), b"mine");
    std::fs::remove_file(place.path()).unwrap();
    std::os::unix::fs::symlink("nowhere", place.path()).unwrap();
    let refused = Socket::bind(&place.path(), Limits::default());
    assert!(
        matches!(refused, Err(SocketError::NotASocket { .. })),
        "{refused:?}"
    );
    assert_eq!(place.names(), ["gate.sock"]);
}

#[test]
fn a_path_that_is_too_long_is_reported() {
    let place = Place::new();
    let long = place.folder.path().join("x".repeat(108));
    let refused = Socket::bind(&long, Limits::default()).unwrap_err();
    assert!(
        matches!(refused, SocketError::PathTooLong { bytes_max: 107, .. }),
        "{refused:?}"
    );
    assert!(refused.to_string().contains("choose a shorter one"));
    let missing = Socket::bind(&place.folder.path().join("no/gate.sock"), Limits::default());
    assert!(
        matches!(missing, Err(SocketError::Io { .. })),
        "{missing:?}"
    );
}
