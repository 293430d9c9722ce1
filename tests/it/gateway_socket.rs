//! `watch --socket` through the program itself: the same decisions and answers as through files,
//! one client, limits of frames, and what a gate leaves behind when it ends.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::kit::gateway_home::let_trend_bot_act;
use crate::kit::process::{Running, find};
use crate::kit::{Scratch, Sent, command, decisions, lines, show, sign, spoolgate, succeed};
use rustix::process::Signal;
use serde_json::{Value, json};
use spoolgate_gate::record::{Decision, Record};
use spoolgate_rules::gateway::ACTIONS;

const MAIL: &str = r#"{"to":["ann@example.com"],"subject":"hello","body":"a word"}"#;
/// Begins, and ends once the file `go` exists.
const WAITS: &str = r#"cat >/dev/null; echo x >>begun; while ! test -e go; do sleep 0.02; done; echo '{"success":true,"data":"in time"}'"#;
const DONE: &str = r#"cat >/dev/null; echo x >>begun; echo '{"success":true,"data":"sent"}'"#;

/// A home in which `trend-bot` may request all nine actions, which a script does, with a gate that
/// listens on a socket.
struct Lab {
    scratch: Scratch,
    gate: Option<Running>,
}

impl Lab {
    fn new(script: &str) -> Lab {
        let mut lab = Lab::without_gate(script);
        lab.restart();
        lab
    }

    fn without_gate(script: &str) -> Lab {
        let scratch = Scratch::new();
        let home = scratch.home();
        crate::kit::uncaged(&home);
        let command = json!({
            "program": "sh", "args": ["-c", script], "time_limit_s": 60, "output_bytes_max": 65536,
        });
        let rules = json!({
            "adapters": [{"actions": ACTIONS, "adapter": "exec", "command": command}],
            "anomalies": {"burst_max": 1000, "burst_window_s": 5, "payload_bytes_max": 1000},
        });
        fs::write(home.join("rules/gateway.yaml"), rules.to_string()).unwrap();
        let_trend_bot_act(&home);
        Lab {
            scratch,
            gate: None,
        }
    }

    fn home(&self) -> PathBuf {
        self.scratch.home()
    }

    fn path(&self) -> PathBuf {
        self.scratch.beside("gate.sock")
    }

    fn client(&self) -> Client {
        Client::of(&self.path())
    }

    fn restart(&mut self) {
        self.gate = Some(listening(&self.home(), &self.path()));
    }

    /// Ends the gate; returns its exit code.
    fn end(&mut self, signal: Signal) -> Option<i32> {
        let mut gate = self.gate.take()?;
        gate.signal(signal);
        gate.end().code()
    }

    fn request(&self, id: &str, action: &str, payload: &str) -> Vec<u8> {
        self.scratch.request(id, action, payload)
    }

    fn query(&self, id: &str) -> Vec<u8> {
        self.request(id, "portfolio.get", "{}")
    }

    fn open_files(&self) -> usize {
        self.gate.as_ref().unwrap().count("fd")
    }

    fn decisions(&self) -> Vec<Decision> {
        decisions(&self.home()).unwrap().into_values().collect()
    }

    fn begun(&self) -> usize {
        fs::read_to_string(self.home().join("begun"))
            .unwrap_or_default()
            .lines()
            .count()
    }
}

/// Starts a gate over this home and waits until it listens.
fn listening(home: &Path, path: &Path) -> Running {
    let log = fs::File::create(home.join("gate.log")).unwrap();
    let mut command = command(home, &["watch", "--socket", path.to_str().unwrap()]);
    command.stdout(Stdio::null()).stderr(log);
    let mut gate = Running::start(command);
    find("the gate listens", || {
        assert!(
            gate.is_running(),
            "{}",
            fs::read_to_string(home.join("gate.log")).unwrap()
        );
        fs::read_to_string(home.join("gate.log"))
            .unwrap()
            .contains("listening")
            .then_some(())
    });
    gate
}

struct Client(UnixStream);

impl Client {
    fn of(path: &Path) -> Client {
        let stream = UnixStream::connect(path).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        Client(stream)
    }

    fn send(&mut self, body: &[u8]) {
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        self.0.write_all(&[&length, body].concat()).unwrap();
    }

    /// Returns the next frame. `None` at the end.
    fn bytes(&mut self) -> Option<Vec<u8>> {
        let mut length = [0; 4];
        match self.0.read_exact(&mut length) {
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset
                ) =>
            {
                return None;
            }
            other => other.unwrap(),
        }
        let mut body = vec![0; usize::try_from(u32::from_be_bytes(length)).unwrap()];
        self.0.read_exact(&mut body).unwrap();
        Some(body)
    }

    fn answer(&mut self) -> Value {
        serde_json::from_slice(&self.bytes().expect("an answer, not the end")).unwrap()
    }

    fn ask(&mut self, body: &[u8]) -> Value {
        self.send(body);
        self.answer()
    }

    /// Ends the connection. Dropping the stream does not do that at once if a process that another
    /// test is just starting still has a copy of it.
    fn leave(self) {
        self.0.shutdown(Shutdown::Both).unwrap();
    }

    /// Whether nothing more comes and the connection is closed.
    fn is_closed(&mut self) -> bool {
        self.bytes().is_none()
    }
}

fn code(answer: &Value) -> &str {
    answer["error"]["code"].as_str().unwrap_or("")
}

#[test]
fn frames_and_files_are_one_pipeline() {
    let lab = Lab::new(DONE);
    let mut client = lab.client();
    client.send(&lab.query("q-1"));
    let through_socket = client.bytes().unwrap();
    assert!(!through_socket.ends_with(b"\n"));
    let answer: Value = serde_json::from_slice(&through_socket).unwrap();
    assert_eq!(
        (&answer["requestId"], &answer["status"]),
        (&json!("q-1"), &json!("success"))
    );
    // Signed once and sent again through another door: the same answer, byte for byte.
    let mail = lab.request("mail-1", "email.send", MAIL);
    client.send(&mail);
    let first = client.bytes().unwrap();
    client.send(&mail);
    assert_eq!(client.bytes().unwrap(), first);
    Sent::new("mail-1.json", mail.clone()).drop_into(&lab.home());
    let file = lab.home().join("spool/out/mail-1.json");
    let through_file = find("the file is answered", || fs::read(&file).ok());
    assert_eq!(through_file, [&first[..], b"\n"].concat());
    assert_eq!(lab.begun(), 1);
    // And in the other direction.
    let other = lab.request("mail-2", "email.send", MAIL);
    Sent::new("mail-2.json", other.clone()).drop_into(&lab.home());
    let file = lab.home().join("spool/out/mail-2.json");
    let through_file = find("the file is answered", || fs::read(&file).ok());
    client.send(&other);
    assert_eq!(
        [client.bytes().unwrap(), b"\n".to_vec()].concat(),
        through_file
    );
    assert_eq!(lab.begun(), 2);
    let through: Vec<String> = lab
        .decisions()
        .into_iter()
        .map(|decision| decision.spool)
        .collect();
    assert_eq!(
        through.iter().filter(|spool| *spool == "socket").count(),
        4,
        "{through:?}"
    );
    assert!(!lab.home().join("spool/socket").exists());
    let replayed = spoolgate(&lab.home(), &["audit", "replay"]);
    assert!(replayed.status.success(), "{}", show(&replayed));
}

#[test]
fn an_open_action_is_answered_later_and_its_copies_with_it() {
    let lab = Lab::new(WAITS);
    let mut client = lab.client();
    let mail = lab.request("mail-1", "email.send", MAIL);
    client.send(&mail);
    client.send(&mail);
    find("it has begun", || (lab.begun() == 1).then_some(()));
    assert_eq!(client.ask(&lab.query("q-1"))["requestId"], "q-1");
    fs::write(lab.home().join("go"), "").unwrap();
    let first = client.bytes().unwrap();
    assert_eq!(client.bytes().unwrap(), first);
    let answer: Value = serde_json::from_slice(&first).unwrap();
    assert_eq!(
        (&answer["requestId"], &answer["data"]),
        (&json!("mail-1"), &json!("in time"))
    );
    assert_eq!(lab.begun(), 1);
}

#[test]
fn a_client_that_disconnects_gets_its_answer_when_it_returns() {
    let lab = Lab::new(WAITS);
    let mail = lab.request("mail-1", "email.send", MAIL);
    let mut client = lab.client();
    client.send(&mail);
    find("it has begun", || (lab.begun() == 1).then_some(()));
    client.leave();
    fs::write(lab.home().join("go"), "").unwrap();
    find("it is done", || {
        let found = lines(&lab.home()).ok()?;
        found
            .iter()
            .any(|(_, _, record)| matches!(record, Some(Record::Response(_))))
            .then_some(())
    });
    let mut client = lab.client();
    assert_eq!(client.ask(&lab.query("q-1"))["status"], "success");
    assert_eq!(client.ask(&mail)["data"], "in time");
    assert_eq!(lab.begun(), 1);
}

#[test]
fn a_held_request_is_answered_twice() {
    let lab = Lab::new(DONE);
    let mut client = lab.client();
    let large = json!({"to": ["ann@example.com"], "subject": "hello", "body": "x".repeat(2000)})
        .to_string();
    let answer = client.ask(&lab.request("mail-1", "email.send", &large));
    assert_eq!(
        (&answer["status"], code(&answer)),
        (&json!("requires_approval"), "HELD")
    );
    let hold = answer["data"]["Held"]["hold_id"].as_str().unwrap();
    succeed(&lab.home(), &["approvals", "grant", hold]);
    let answer = client.answer();
    assert_eq!(
        (&answer["requestId"], &answer["data"]),
        (&json!("mail-1"), &json!("sent"))
    );
}

#[test]
fn bytes_that_are_not_a_request_are_answered_and_recorded() {
    let lab = Lab::new(DONE);
    let mut client = lab.client();
    let deep = [vec![b'['; 50_000], vec![b']'; 50_000]].concat();
    for (bytes, expect) in [
        (&b"garbage"[..], "MALFORMED_JSON"),
        (b"", "MALFORMED_JSON"),
        (b"\xff\xfe", "MALFORMED_JSON"),
        (b"{}", "MALFORMED_ENVELOPE"),
        (&deep, "MALFORMED_JSON"),
    ] {
        let answer = client.ask(bytes);
        assert_eq!(
            (code(&answer), &answer["requestId"]),
            (expect, &json!("unknown"))
        );
    }
    let mut forged: Value = serde_json::from_slice(&lab.query("q-0")).unwrap();
    forged["signature"] = json!("00".repeat(32));
    // A refusal before the signature names the id of the frame, so that a client that waits for an id
    // does not wait in vain.
    for (bytes, id, expect) in [
        (forged.to_string(), "q-0", "SIGNATURE_INVALID"),
        (
            r#"{"id":"onlyid"}"#.to_owned(),
            "onlyid",
            "MALFORMED_ENVELOPE",
        ),
        (
            r#"{"id":"twice","id":"twice"}"#.to_owned(),
            "twice",
            "MALFORMED_JSON",
        ),
        (
            r#"{"id":"lone","payload":{"a":"\ud800"}}"#.to_owned(),
            "lone",
            "MALFORMED_JSON",
        ),
        (r#"{"id":"half","payl"#.to_owned(), "half", "MALFORMED_JSON"),
        (r#"{"id":7}"#.to_owned(), "unknown", "MALFORMED_ENVELOPE"),
    ] {
        let answer = client.ask(bytes.as_bytes());
        assert_eq!(
            (code(&answer), &answer["requestId"]),
            (expect, &json!(id)),
            "{bytes}"
        );
    }
    assert_eq!(client.ask(&lab.query("q-1"))["status"], "success");
    // Longer than any request may be: it is answered, then the connection is closed, whatever would
    // have followed.
    client.0.write_all(&u32::MAX.to_be_bytes()).unwrap();
    assert_eq!(code(&client.answer()), "TOO_LARGE");
    client.0.shutdown(Shutdown::Write).unwrap();
    assert!(client.is_closed());
    // One that writes the whole frame before it reads finds the answer.
    let mut client = lab.client();
    client.send(&vec![b' '; 11_000_000]);
    assert_eq!(code(&client.answer()), "TOO_LARGE");
    assert!(client.is_closed());
    let mut client = lab.client();
    assert_eq!(client.ask(&lab.query("q-2"))["status"], "success");
    // The connection ends in the middle of a frame.
    client.0.write_all(b"\x00\x00\x00\x09{\"id").unwrap();
    client.0.shutdown(Shutdown::Write).unwrap();
    assert_eq!(code(&client.answer()), "FRAME_INCOMPLETE");
    assert!(client.is_closed());
    let found = lab.decisions();
    let of = |code: &str| {
        found
            .iter()
            .filter(|line| line.metadata.code.is_some_and(|found| found.name() == code))
            .count()
    };
    let counts = [
        "MALFORMED_JSON",
        "MALFORMED_ENVELOPE",
        "SIGNATURE_INVALID",
        "TOO_LARGE",
        "FRAME_INCOMPLETE",
    ];
    assert_eq!(counts.map(of), [7, 3, 1, 2, 1]);
    // None of them is a request whose sender could not be answered.
    let replayed = spoolgate(&lab.home(), &["audit", "replay"]);
    assert!(
        replayed.status.success(),
        "{}",
        String::from_utf8_lossy(&replayed.stdout)
    );
    // Complete frames are kept like files.
    for line in found.iter().filter(|line| line.metadata.code.is_some()) {
        let kept = line
            .kept
            .as_ref()
            .map(|place| lab.home().join("spool").join(place).is_file());
        assert_eq!(kept, line.file_bytes.map(|_| true), "{line:?}");
    }
}

/// The alphabet of nanoid, whose ids may begin with `-` or `_`, is that of the seed of this contract.
#[test]
fn ids_that_begin_with_a_dash_or_an_underscore() {
    let lab = Lab::new(DONE);
    let mut client = lab.client();
    for id in ["-V1StGXR8_Z5jdHi6B-myT", "_2", "-"] {
        let request = lab.query(id);
        let answer = client.ask(&request);
        assert_eq!(
            (&answer["requestId"], &answer["status"]),
            (&json!(id), &json!("success"))
        );
        // The same bytes through the spool: the file and its answer have a `+` before the id.
        Sent::new(&format!("+{id}.json"), request).drop_into(&lab.home());
        let file = lab.home().join(format!("spool/out/+{id}.json"));
        let through_file = find("the file is answered", || fs::read(&file).ok());
        assert_eq!(
            serde_json::from_slice::<Value>(&through_file).unwrap(),
            answer
        );
    }
    let replayed = spoolgate(&lab.home(), &["audit", "replay"]);
    assert!(replayed.status.success(), "{}", show(&replayed));
}

#[test]
fn one_client_is_served_and_others_get_nothing() {
    let lab = Lab::new(DONE);
    let mut client = lab.client();
    assert_eq!(client.ask(&lab.query("q-1"))["status"], "success");
    let before = lab.open_files();
    for _ in 0..500 {
        let mut other = lab.client();
        // The connection may be closed before this is written.
        let _ = other.0.write_all(b"\x00\x00\x00\x02{}");
        assert!(other.is_closed());
    }
    find("their descriptors are gone", || {
        (lab.open_files() <= before).then_some(())
    });
    assert_eq!(client.ask(&lab.query("q-2"))["status"], "success");
    assert_eq!(
        lab.decisions()
            .iter()
            .filter(|line| line.metadata.code.is_some())
            .count(),
        0
    );
}

#[test]
fn many_requests_without_waiting() {
    let lab = Lab::new(DONE);
    let mut client = lab.client();
    let queries: Vec<Vec<u8>> = (0..1000).map(|n| lab.query(&format!("q-{n}"))).collect();
    let mut writer = Client(client.0.try_clone().unwrap());
    let sender = std::thread::spawn(move || queries.iter().for_each(|query| writer.send(query)));
    for n in 0..1000 {
        let answer = client.answer();
        assert_eq!(answer["requestId"], format!("q-{n}"));
    }
    sender.join().unwrap();
}

#[test]
fn a_gate_that_ends_leaves_no_socket_and_one_that_is_killed_a_stale_one() {
    let mut lab = Lab::new(DONE);
    let path = lab.path();
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let mail = lab.request("mail-1", "email.send", MAIL);
    let first = lab.client().ask(&mail);
    assert_eq!(lab.end(Signal::TERM), Some(0));
    assert!(!path.exists());
    lab.restart();
    assert_eq!(lab.client().ask(&mail), first);
    lab.end(Signal::KILL);
    assert!(path.exists());
    lab.restart();
    assert_eq!(lab.client().ask(&mail), first);
    assert_eq!(lab.begun(), 1);
}

#[test]
fn a_second_gate_takes_neither_socket_nor_file() {
    let lab = Lab::new(DONE);
    let path = lab.path();
    let other = Lab::without_gate(DONE);
    let refused = spoolgate(
        &other.home(),
        &["watch", "--socket", path.to_str().unwrap()],
    );
    assert_eq!(refused.status.code(), Some(7), "{}", show(&refused));
    assert_eq!(lab.client().ask(&lab.query("q-1"))["status"], "success");
    let file = other.scratch.beside("file.sock");
    fs::write(&file, "mine").unwrap();
    let refused = spoolgate(
        &other.home(),
        &["watch", "--socket", file.to_str().unwrap()],
    );
    assert!(!refused.status.success(), "{}", show(&refused));
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    let long = other.scratch.beside(&"x".repeat(120));
    let refused = spoolgate(
        &other.home(),
        &["watch", "--socket", long.to_str().unwrap()],
    );
    assert!(
        !refused.status.success() && show(&refused).contains("long"),
        "{}",
        show(&refused)
    );
}

#[test]
fn an_agent_with_its_own_spool_must_use_it() {
    let mut lab = Lab::without_gate(DONE);
    let path = lab.home().join("rules/principals.yaml");
    let principals = fs::read_to_string(&path).unwrap();
    fs::write(
        &path,
        principals.replacen(
            "name: trend-bot\n",
            "name: trend-bot\n    spool: trend-bot\n",
            1,
        ),
    )
    .unwrap();
    lab.restart();
    assert_eq!(code(&lab.client().ask(&lab.query("q-1"))), "WRONG_SPOOL");
}

/// Root alone can act as another user.
#[test]
fn an_agent_of_another_user_sends_for_its_principal_only() {
    let probe = Command::new("setpriv")
        .args(["--reuid=65534", "--clear-groups", "python3", "-c", ""])
        .output();
    if !probe.is_ok_and(|done| done.status.success()) {
        eprintln!("skipped: needs root, setpriv and python3");
        return;
    }
    let mut lab = Lab::without_gate(DONE);
    let home = lab.home();
    map_user(&home, "65534");
    lab.restart();
    let outside = tempfile::tempdir().unwrap();
    let open = |path: &Path| {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    open(outside.path());
    let script = "import json, socket, struct, sys\n\
        s = socket.socket(socket.AF_UNIX)\n\
        s.connect(sys.argv[1])\n\
        for name in sys.argv[2:]:\n    \
            body = open(name, 'rb').read()\n    \
            s.sendall(struct.pack('>I', len(body)) + body)\n    \
            head = s.recv(4, socket.MSG_WAITALL)\n    \
            if not head: print('closed'); break\n    \
            got = json.loads(s.recv(struct.unpack('>I', head)[0], socket.MSG_WAITALL))\n    \
            print(got.get('error', {}).get('code', got['status']))\n";
    open(lab.path().parent().unwrap());
    let sent = |uid: &str, files: &[(&str, Vec<u8>)]| {
        let mut command = Command::new("setpriv");
        let reuid = format!("--reuid={uid}");
        command.args([&reuid, "--clear-groups", "python3", "-c", script]);
        command.arg(lab.path());
        for (name, bytes) in files {
            let file = outside.path().join(name);
            fs::write(&file, bytes).unwrap();
            open(&file);
            command.arg(file);
        }
        let done = command.output().unwrap();
        String::from_utf8(done.stdout).unwrap()
    };
    let own = lab.query("u-1");
    let price = r#"{"symbol":"BTC-USD"}"#;
    let others = sign(&lab.scratch.owner, "owner", "u-2", "market.get", price);
    assert_eq!(
        sent("65534", &[("own", own), ("others", others)]),
        "success\nWRONG_SPOOL\n"
    );
    // A user that the rules do not name is closed unread.
    assert_eq!(sent("65533", &[("own", lab.query("u-3"))]), "");
    let spools: Vec<String> = lab.decisions().into_iter().map(|line| line.spool).collect();
    assert_eq!(
        spools
            .iter()
            .filter(|spool| *spool == "socket-65534")
            .count(),
        2
    );
    // The gate's own user is served beside.
    assert_eq!(lab.client().ask(&lab.query("u-4"))["status"], "success");
    lab.end(Signal::TERM);
    succeed(&home, &["audit", "verify"]);
    succeed(&home, &["audit", "replay"]);
}

/// Lets processes of this user act as `trend-bot`.
fn map_user(home: &Path, user: &str) {
    let path = home.join("rules/principals.yaml");
    let text = fs::read_to_string(&path).unwrap();
    let mapped = text.replace(
        "- name: trend-bot\n",
        &format!("- name: trend-bot\n    unix_user: \"{user}\"\n"),
    );
    assert_ne!(text, mapped);
    fs::write(&path, mapped).unwrap();
}

/// A user that no machine has.
const NOBODY: &str = "4000000000";

#[test]
fn a_mode_that_cannot_be_set_is_reported_and_set_later() {
    let mut lab = Lab::without_gate(DONE);
    let (home, place) = (lab.home(), crate::kit::folder());
    let path = place.path().join("gate.sock");
    let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
    let log = || fs::read_to_string(home.join("gate.log")).unwrap();
    let warned = || {
        let told = spoolgate(&home, &["doctor"]);
        show(&told).contains("cannot connect to this socket of the gate")
    };
    // So that the rules are not news to the gate.
    succeed(&home, &["run", "--until-idle"]);
    lab.gate = Some(listening(&home, &path));
    // The folder of the socket is away when the rules begin to name a user.
    let aside = place.path().with_extension("aside");
    fs::rename(place.path(), &aside).unwrap();
    let rulebooks = || {
        let found = lines(&home).unwrap();
        found
            .iter()
            .filter(|(_, kind, _)| kind == "rulebook")
            .count()
    };
    let before = rulebooks();
    map_user(&home, NOBODY);
    find("the rules are in force", || {
        (rulebooks() > before).then_some(())
    });
    let failed = "the mode of the socket cannot be kept";
    assert!(log().contains(failed), "{}", log());
    assert!(warned());
    fs::rename(&aside, place.path()).unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    find("the mode is set", || (mode() == 0o666).then_some(()));
    find("that is reported", || {
        log()
            .contains("had mode 0600; it is 0666 now")
            .then_some(())
    });
    // However often it failed, it was reported once.
    assert_eq!(log().matches(failed).count(), 1, "{}", log());
    assert!(!warned());
    // As deploy/users.sh takes away what others may write.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    find("the mode is set again", || (mode() == 0o666).then_some(()));
    find("that is reported", || {
        log()
            .contains("had mode 0644; it is 0666 now")
            .then_some(())
    });
    // A folder that the user cannot enter is for people to open.
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o700)).unwrap();
    assert!(warned());
    lab.end(Signal::TERM);
    assert!(!warned());
}
