//! The agent's side as a library: key files, signing, the spool, the socket, and the report if no
//! answer comes.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::kit::{Scratch, names, succeed};
use serde_json::json;
use spoolgate_client::spool::{Spool, SpoolError};
use spoolgate_client::{self as agent, AskError, Door, KeyFile, KeyFileError};
use spoolgate_wire::answer::AnswerStatus;
use spoolgate_wire::envelope::Envelope;
use spoolgate_wire::frames::frame;
use spoolgate_wire::ids::{Principal, RequestId};
use spoolgate_wire::signing::SignKey;
use tempfile::TempDir;

const KEY: SignKey = SignKey::Hmac([7; 32]);
const AT_ONCE: Duration = Duration::ZERO;
/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(60);

fn bot() -> Principal {
    Principal::parse("trend-bot").unwrap()
}

fn request(key: &SignKey, id: &str) -> Envelope {
    agent::sign(key, &bot(), "portfolio.get", "{}", None, Some(id), None).unwrap()
}

fn answer(id: &str) -> String {
    json!({"requestId": id, "timestamp": "2026-02-20T14:42:00Z", "status": "success",
        "auditRef": "1"})
    .to_string()
}

/// Makes the folders of a flat spool and of the spool of `own`, without a gate.
fn spools() -> TempDir {
    let home = crate::kit::folder();
    for folder in ["spool/in/own/tmp", "spool/in/own/new", "spool/out/own"] {
        fs::create_dir_all(home.path().join(folder)).unwrap();
    }
    home
}

#[test]
fn signing_keeps_the_text_of_the_payload() {
    let signed = agent::sign(
        &KEY,
        &bot(),
        "order.cancel",
        r#"{ "n" : 0.10000000000000000001 }"#,
        Some(r#"{ "a" : 1.0 }"#),
        None,
        None,
    );
    let signed = signed.unwrap();
    assert_eq!(signed.payload, r#"{"n":0.10000000000000000001}"#);
    assert_eq!(signed.causality.as_deref(), Some(r#"{"a":1.0}"#));
    assert_eq!(
        Envelope::parse(signed.to_json().as_bytes()).unwrap(),
        signed
    );
    assert!(
        KEY.verify_key()
            .verifies(&signed.signing_string(), &signed.signature)
    );
    for (payload, causality, id, time, expect) in [
        (
            "[]",
            None,
            None,
            None,
            "the payload: the document is not an object",
        ),
        (
            r#"{"a":1,"a":2}"#,
            None,
            None,
            None,
            "the payload: duplicate key `a`",
        ),
        (
            "{}",
            Some("7"),
            None,
            None,
            "the causality: the document is not an object",
        ),
        ("{}", None, Some("../x"), None, "`../x` is not a request id"),
        ("{}", None, None, Some("today"), "`today` is not a time"),
    ] {
        let error = agent::sign(&KEY, &bot(), "a.b", payload, causality, id, time)
            .unwrap_err()
            .to_string();
        assert!(error.starts_with(expect), "{error}");
    }
    let long = format!(r#"{{"a":"{}"}}"#, "x".repeat(8192));
    let error = agent::sign(&KEY, &bot(), "a.b", "{}", Some(&long), None, None)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("8200 bytes without white space, the limit is 8192"),
        "{error}"
    );
}

#[test]
fn no_message_about_a_key_file_repeats_a_secret() {
    let dir = crate::kit::folder();
    let secret = "5ec2e7".repeat(11)[..64].to_owned();
    let file = |name: &str, text: &str| -> PathBuf {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path
    };
    let whole = |principal: &str, algorithm: &str, secret: &str| {
        json!({"principal": principal, "key_id": "0", "algorithm": algorithm, "secret": secret})
            .to_string()
    };
    let good = file("good", &whole("trend-bot", "hmac-sha256", &secret));
    assert!(matches!(
        KeyFile::read_private(&good, &bot())
            .unwrap()
            .sign_key()
            .unwrap(),
        SignKey::Hmac(_)
    ));
    for mode in [0o640, 0o604, 0o620, 0o666] {
        fs::set_permissions(&good, fs::Permissions::from_mode(mode)).unwrap();
        let error = KeyFile::read_private(&good, &bot()).err().unwrap();
        assert!(
            matches!(error, KeyFileError::Open { mode: found, .. } if found == mode),
            "{error}"
        );
        assert!(KeyFile::read(&good, &bot()).is_ok());
    }
    for (name, text) in [
        ("text", format!("\"{secret}\"")),
        ("bare", secret.clone()),
        ("other", whole("owner", "hmac-sha256", &secret)),
        ("kind", whole("trend-bot", &secret, "x")),
        (
            "twisted",
            whole(&format!("../{secret}"), "hmac-sha256", "x"),
        ),
        ("cut", whole("trend-bot", "hmac-sha256", &secret[..62])),
        (
            "more",
            whole("trend-bot", "hmac-sha256", &secret)
                .replace("\"key_id\"", &format!("\"{secret}\":1,\"key_id\"")),
        ),
    ] {
        let read = KeyFile::read(&file(name, &text), &bot()).and_then(|file| file.sign_key());
        let error = read.err().unwrap_or_else(|| panic!("{name} was taken"));
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains(&secret[..12]), "{name}: {shown}");
    }
}

#[test]
fn a_file_that_waits_is_never_replaced() {
    let home = spools();
    let own = Principal::parse("own").unwrap();
    for (agent, folder) in [(None, "spool/in"), (Some(&own), "spool/in/own/new")] {
        let spool = Spool::of(home.path(), agent).unwrap();
        let folder = home.path().join(folder);
        for (n, name) in ["r1.json", "r1.1.json", "r1.2.json"]
            .into_iter()
            .enumerate()
        {
            let sent = spool
                .hand_in(format!("{n}").as_bytes(), "r1", Some(&id("r1")))
                .unwrap();
            assert_eq!(sent.name, name);
            assert_eq!(
                fs::read_to_string(folder.join(name)).unwrap(),
                n.to_string()
            );
            assert_eq!(
                fs::metadata(folder.join(name)).unwrap().nlink(),
                1,
                "the gate refuses linked files"
            );
        }
        assert!(
            names(&folder)
                .iter()
                .all(|name| !name.to_string_lossy().starts_with('.'))
        );
    }
    assert!(names(&home.path().join("spool/in/own/tmp")).is_empty());
    let other = Principal::parse("other").unwrap();
    assert!(matches!(
        Spool::of(home.path(), Some(&other)),
        Err(SpoolError::NoOwn { .. })
    ));
    assert!(matches!(
        Spool::of(Path::new("/nowhere"), None),
        Err(SpoolError::Missing { .. })
    ));
}

#[test]
fn only_a_new_and_complete_answer_counts() {
    let home = spools();
    let spool = Spool::of(home.path(), None).unwrap();
    let out = |name: &str| home.path().join("spool/out").join(name);
    fs::write(out("r1.json"), answer("r1")).unwrap();
    let sent = spool.hand_in(b"{}", "r1", Some(&id("r1"))).unwrap();
    fs::remove_file(home.path().join("spool/in/r1.json")).unwrap();
    assert!(
        sent.answer_by(Instant::now()).is_none(),
        "an old answer is not that of this request"
    );
    for half in ["", r#"{"requestId":"r1","#] {
        fs::write(out("new"), half).unwrap();
        fs::rename(out("new"), out("r1.json")).unwrap();
        assert!(sent.answer_by(Instant::now()).is_none(), "`{half}`");
    }
    fs::write(out("new"), answer("r1")).unwrap();
    fs::rename(out("new"), out("r1.json")).unwrap();
    assert_eq!(
        sent.answer_by(Instant::now()).unwrap().status,
        AnswerStatus::Success
    );
    // A file that is not a request is answered under its own name.
    let sent = spool.hand_in(b"x", "junk", None).unwrap();
    fs::write(out("junk.json.error.json"), answer("")).unwrap();
    assert!(
        sent.answer_by(Instant::now()).is_none(),
        "a refusal of an earlier file of this name, while this one waits"
    );
    fs::remove_file(home.path().join("spool/in/junk.json")).unwrap();
    assert!(sent.answer_by(Instant::now()).is_some());
}

/// An answer does not say what was requested. Returned as the answer to another request, it would
/// make a refused order look like an accepted one.
#[test]
fn an_answer_to_another_request_with_the_same_id_is_not_returned() {
    let home = spools();
    let spool = Spool::of(home.path(), None).unwrap();
    let at = |name: &str| home.path().join("spool").join(name);
    let publish = |name: &str, text: &str| {
        fs::write(at("out/new"), text).unwrap();
        fs::rename(at("out/new"), at("out").join(name)).unwrap();
    };
    let conflict = |id: &str| {
        let error = json!({"code": "REQUEST_ID_CONFLICT", "message": "the id was used before"});
        json!({"requestId": id, "timestamp": "2026-02-20T14:42:00Z", "status": "error",
            "error": error, "auditRef": "2"})
        .to_string()
    };
    // While this request waits, it cannot be the one that was answered; nor is that answer its own
    // once it is claimed.
    let sent = spool.hand_in(b"this", "r1", Some(&id("r1"))).unwrap();
    publish("r1.json", &answer("r1"));
    assert!(sent.answer_by(Instant::now()).is_none());
    fs::remove_file(at("in/r1.json")).unwrap();
    publish("r1.json.error.json", &conflict("r1"));
    assert_eq!(
        sent.answer_by(Instant::now() + LONG).unwrap().status,
        AnswerStatus::Error
    );
    // If both wait, both may be claimed before either is answered.
    let first = spool.hand_in(b"the first", "r2", Some(&id("r2"))).unwrap();
    let second = spool.hand_in(b"the second", "r2", Some(&id("r2"))).unwrap();
    assert_eq!(
        (first.name.as_str(), second.name.as_str()),
        ("r2.json", "r2.1.json")
    );
    fs::remove_file(at("in/r2.json")).unwrap();
    fs::remove_file(at("in/r2.1.json")).unwrap();
    publish("r2.json", &answer("r2"));
    assert!(second.answer_by(Instant::now()).is_none());
    publish("r2.1.json.error.json", &conflict("r2"));
    assert_eq!(
        second.answer_by(Instant::now() + LONG).unwrap().status,
        AnswerStatus::Error
    );
    assert_eq!(
        first.answer_by(Instant::now() + LONG).unwrap().status,
        AnswerStatus::Success
    );
    // Junk under the file's name does not hide an answer.
    let sent = spool.hand_in(b"this", "r3", Some(&id("r3"))).unwrap();
    fs::remove_file(at("in/r3.json")).unwrap();
    publish("r3.json", &answer("r3"));
    publish(
        "r3.json.error.json",
        &conflict("r3").replace("REQUEST_ID_CONFLICT", "SIGNATURE_INVALID"),
    );
    assert_eq!(
        sent.answer_by(Instant::now() + LONG).unwrap().status,
        AnswerStatus::Success
    );
}

#[test]
fn a_lost_answer_says_that_the_same_bytes_are_safe_and_they_are() {
    let scratch = Scratch::new();
    let door = Door::Spool(Spool::of(&scratch.home(), None).unwrap());
    let envelope = request(&scratch.bot, "lost");
    let error = door.ask(&envelope, AT_ONCE).unwrap_err();
    assert!(
        error.may_be_decided()
            && matches!(&error, AskError::NoAnswer { id, .. } if id.as_str() == "lost")
    );
    let text = error.to_string();
    assert!(
        text.contains("`lost`") && text.contains("may still decide it") && text.contains("is safe"),
        "{text}"
    );
    succeed(&scratch.home(), &["run", "--until-idle"]);
    let stored = fs::read(scratch.home().join("spool/out/lost.json")).unwrap();
    std::thread::scope(|scope| {
        let again = scope.spawn(|| door.ask(&envelope, LONG).unwrap());
        // Either may come first: a gate that has nothing to do yet, or the file.
        while !again.is_finished() {
            succeed(&scratch.home(), &["run", "--until-idle"]);
        }
        assert_eq!(again.join().unwrap().to_bytes(), stored);
    });
    fs::remove_dir_all(scratch.home().join("spool/in")).unwrap();
    let error = door
        .ask(&request(&scratch.bot, "not-sent"), AT_ONCE)
        .unwrap_err();
    assert!(
        !error.may_be_decided()
            && error
                .to_string()
                .starts_with("request `not-sent` was not sent"),
        "{error}"
    );
}

fn frame_of(stream: &mut UnixStream) -> Vec<u8> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut content = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut content).unwrap();
    content
}

#[test]
fn the_socket_is_asked_with_the_same_bytes_until_it_answers() {
    let dir = crate::kit::folder();
    let path = dir.path().join("gate.sock");
    let door = Door::Socket(path.clone());
    let envelope = request(&KEY, "r1");
    let nobody = door.ask(&envelope, LONG).unwrap_err();
    assert!(
        !nobody.may_be_decided() && nobody.to_string().contains("no gate answers at"),
        "{nobody}"
    );
    let listener = UnixListener::bind(&path).unwrap();
    let gate = std::thread::spawn(move || {
        // Closed unread, as when another client is connected.
        drop(listener.accept().unwrap());
        // Read and not answered, as when a gate ends.
        let first = frame_of(&mut listener.accept().unwrap().0);
        // Answered: first to another client, then in pieces.
        let (mut stream, _) = listener.accept().unwrap();
        let second = frame_of(&mut stream);
        stream
            .write_all(&frame(answer("other").as_bytes()).unwrap())
            .unwrap();
        for piece in frame(answer("r1").as_bytes()).unwrap().chunks(7) {
            stream.write_all(piece).unwrap();
        }
        (first, second)
    });
    assert_eq!(door.ask(&envelope, LONG).unwrap().request_id, "r1");
    let (first, second) = gate.join().unwrap();
    assert_eq!(first, envelope.to_json().into_bytes());
    assert_eq!(first, second);
}

#[test]
fn a_silent_socket_leaves_the_decision_unknown() {
    let dir = crate::kit::folder();
    let path = dir.path().join("gate.sock");
    // It accepts connections and never reads.
    let _listener = UnixListener::bind(&path).unwrap();
    let error = Door::Socket(path)
        .ask(&request(&KEY, "r1"), AT_ONCE)
        .unwrap_err();
    assert!(error.may_be_decided(), "{error}");
}

fn id(text: &str) -> RequestId {
    RequestId::parse(text).unwrap()
}
