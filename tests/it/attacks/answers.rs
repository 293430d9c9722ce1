//! Answers: attempts to take another answer's place, and objects planted where answers will be.

use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use spoolgate_home::Home;
use spoolgate_wire::code::Code;

use crate::attacks::siege::{Siege, about};
use crate::kit::world::{Draft, code_of};

fn told(home: &mut Home) -> Arc<Mutex<Vec<String>>> {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hear = Arc::clone(&heard);
    home.tell_events(Box::new(move |event| {
        hear.lock().unwrap().push(event.note.clone())
    }));
    heard
}

/// In the flat spool, the first authentic request with an id gets the id. The second, by a thief or
/// by the owner of the first, is refused by file name, and the first answer stays. A forged request
/// never takes an id.
#[test]
fn stealing_the_first_answer_of_a_flat_spool() {
    let mut siege = Siege::new(131);
    let mut home = siege.world.open();
    let mine = siege.world.draft("trend-bot", "orders.list", "{}");
    let forged = siege.world.sign_with(&mine, &[9; 32]);
    siege.world.drop_file("", "aa-forged.json", forged);
    siege.world.drain(&mut home);
    let answer = siege.world.answer_path("", &format!("{}.json", mine.id));
    assert!(!answer.exists(), "a forged request took the answer");
    // Another source is first with the id that it saw in the forged request.
    let thief = Draft {
        source: "other-bot".to_owned(),
        ..mine.clone()
    };
    siege
        .world
        .drop_file("", "thief.json", siege.world.sign(&thief));
    siege.world.drain(&mut home);
    let first = fs::read(&answer).unwrap();
    siege
        .world
        .drop_file("", "owner.json", siege.world.sign(&mine));
    let outcomes = siege.world.drain(&mut home);
    assert_eq!(
        code_of(about(&outcomes, "owner.json")),
        Some(Code::RequestIdConflict)
    );
    assert_eq!(
        fs::read(&answer).unwrap(),
        first,
        "an answer was overwritten"
    );
    siege.one_each(&[
        ("", b"aa-forged.json", Some(Code::SignatureInvalid)),
        ("", b"thief.json", None),
        ("", b"owner.json", Some(Code::RequestIdConflict)),
    ]);
    siege.stands(home);
}

/// In a spool of its own, an agent's ids are its own: others can neither take nor overwrite them.
#[test]
fn stealing_answers_of_an_agents_own_spool() {
    let mut siege = Siege::new(132);
    let mut home = siege.world.open();
    let mine = siege.world.draft("alpha-bot", "orders.list", "{}");
    let name = format!("{}.json", mine.id);
    let same_id = |source: &str| Draft {
        source: source.to_owned(),
        ..mine.clone()
    };
    // Before the victim's request: others use the same id, through their own spools and through
    // this one, and send the victim's own signed file through theirs.
    siege
        .world
        .drop_file("beta-dir", &name, siege.world.sign(&same_id("beta-bot")));
    siege
        .world
        .drop_file("", &name, siege.world.sign(&same_id("trend-bot")));
    siege.world.drop_file(
        "alpha-dir",
        "by-beta.json",
        siege.world.sign(&same_id("beta-bot")),
    );
    siege.world.drop_file(
        "alpha-dir",
        "by-trend.json",
        siege.world.sign(&same_id("trend-bot")),
    );
    siege
        .world
        .drop_file("beta-dir", "lifted.json", siege.world.sign(&mine));
    siege
        .world
        .drop_file("", "lifted.json", siege.world.sign(&mine));
    siege.world.drain(&mut home);
    let answer = siege.world.answer_path("alpha-dir", &name);
    assert!(!answer.exists(), "somebody else's request took the answer");
    siege
        .world
        .drop_file("alpha-dir", &name, siege.world.sign(&mine));
    siege.world.drain(&mut home);
    let first = fs::read(&answer).unwrap();
    // After it: the victim's own file under another name is a replay with the same bytes; for
    // anybody else there is no answer.
    siege
        .world
        .drop_file("alpha-dir", "again.json", siege.world.sign(&mine));
    siege
        .world
        .drop_file("beta-dir", "again.json", siege.world.sign(&mine));
    siege.world.drain(&mut home);
    assert_eq!(fs::read(&answer).unwrap(), first);
    siege.one_each(&[
        ("beta-dir", name.as_bytes(), None),
        ("", name.as_bytes(), None),
        ("alpha-dir", b"by-beta.json", Some(Code::WrongSpool)),
        ("alpha-dir", b"by-trend.json", Some(Code::WrongSpool)),
        ("beta-dir", b"lifted.json", Some(Code::WrongSpool)),
        ("", b"lifted.json", Some(Code::WrongSpool)),
        ("beta-dir", b"again.json", Some(Code::WrongSpool)),
        ("alpha-dir", name.as_bytes(), None),
    ]);
    let replays = siege
        .world
        .ledger()
        .iter()
        .filter(|line| !line["metadata"]["replay_of"].is_null())
        .count();
    assert_eq!(replays, 1);
    siege.stands(home);
}

/// Plants an object at the path where an answer, or its hidden temporary file, will be.
fn plant(siege: &Siege, what: &str, path: &PathBuf) {
    match what {
        "link" => symlink(siege.secret(), path).unwrap(),
        "dangling" => symlink(siege.outside.join("made-by-the-gate"), path).unwrap(),
        "folder link" => symlink(siege.outside.join("folder"), path).unwrap(),
        "hard link" => fs::hard_link(siege.secret(), path).unwrap(),
        "fifo" => assert!(Command::new("mkfifo").arg(path).status().unwrap().success()),
        "file" => fs::write(path, "planted").unwrap(),
        "closed file" => {
            fs::write(path, "planted").unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o0)).unwrap();
        }
        "directory" => fs::create_dir(path).unwrap(),
        _ => {
            fs::create_dir_all(path.join("inside/deeper")).unwrap();
            fs::write(path.join("inside/file.json"), "{}").unwrap();
        }
    }
}

const PLANTED: [&str; 9] = [
    "link",
    "dangling",
    "folder link",
    "hard link",
    "fifo",
    "file",
    "closed file",
    "directory",
    "full directory",
];

/// An agent that may write to a folder of answers can plant anything under future names: every
/// answer still becomes a file of its own, and nothing planted is followed, written to or emptied.
#[test]
fn planted_where_answers_will_be() {
    let mut siege = Siege::new(133);
    let mut home = siege.world.open();
    let heard = told(&mut home);
    let mut sent = Vec::new();
    for (spool, agent) in [("", "trend-bot"), ("alpha-dir", "alpha-bot")] {
        for what in PLANTED {
            for hidden in [false, true] {
                let draft = siege.world.draft(agent, "orders.list", "{}");
                let name = format!("{}.json", draft.id);
                let planted = if hidden {
                    format!(".{name}.tmp")
                } else {
                    name.clone()
                };
                plant(&siege, what, &siege.world.answer_path(spool, &planted));
                siege.world.send(&draft);
                sent.push((spool, what, name));
            }
        }
        // Also under the name of an answer by file name.
        plant(
            &siege,
            "full directory",
            &siege.world.answer_path(spool, "bad.json.error.json"),
        );
        siege.world.drop_file(spool, "bad.json", "[]");
        sent.push((spool, "full directory", "bad.json".to_owned()));
    }
    let outcomes = siege.world.drain(&mut home);
    assert_eq!(outcomes.len(), sent.len());
    for (spool, what, name) in &sent {
        let code = if name == "bad.json" {
            Some(Code::MalformedJson)
        } else {
            None
        };
        siege.one_each(&[(spool, name.as_bytes(), code)]);
        let answer = if code.is_some() {
            format!("{name}.error.json")
        } else {
            name.clone()
        };
        let meta = fs::symlink_metadata(siege.world.answer_path(spool, &answer)).unwrap();
        let is_plain = meta.file_type().is_file() && !meta.file_type().is_fifo();
        assert!(
            is_plain && std::os::unix::fs::MetadataExt::nlink(&meta) == 1,
            "{what}: {meta:?}"
        );
    }
    let aside = crate::kit::world::walk(&siege.world.root.join("spool/out"));
    let full = aside
        .keys()
        .filter(|path| path.ends_with("inside/file.json"))
        .count();
    assert_eq!(
        full,
        2 * 3,
        "directories are moved aside with all that is in them: {aside:?}"
    );
    let told = heard
        .lock()
        .unwrap()
        .iter()
        .filter(|note| note.contains("a directory blocked"))
        .count();
    assert_eq!(told, 2 * 5, "{heard:?}");
    drop(home);
    // A start that finds everything in place changes nothing.
    let home = siege.world.open();
    assert_eq!(
        crate::kit::world::walk(&siege.world.root.join("spool/out")),
        aside
    );
    siege.stands(home);
}

/// The same during recovery: answers were decided and not published, and then objects were planted.
#[test]
fn planted_before_a_restart() {
    let dies = Arc::new(AtomicBool::new(false));
    let is_dying = Arc::clone(&dies);
    let mut siege = Siege::with_disk(
        134,
        Box::new(
            move |verb: &str,
                  path: &std::path::Path,
                  _: Option<&std::path::Path>,
                  is_after: bool| {
                let hit = verb == "write" && path.starts_with("spool/out") && !is_after;
                (hit && is_dying.load(Ordering::SeqCst))
                    .then(|| std::io::Error::other("the power went"))
            },
        ),
    );
    let mut home = siege.world.open();
    let mut sent = Vec::new();
    for (spool, agent) in [("", "trend-bot"), ("alpha-dir", "alpha-bot")] {
        for what in PLANTED {
            let draft = siege.query(agent);
            sent.push((spool, what, format!("{}.json", draft.id)));
        }
    }
    dies.store(true, Ordering::SeqCst);
    assert!(home.round(false).is_err());
    drop(home);
    for (spool, what, name) in &sent {
        plant(&siege, what, &siege.world.answer_path(spool, name));
    }
    dies.store(false, Ordering::SeqCst);
    let home = siege.world.open();
    for (spool, _, name) in &sent {
        siege.one_each(&[(spool, name.as_bytes(), None)]);
    }
    siege.stands(home);
}

/// An agent whose folder of answers is a link, a file, closed or gone loses only its own answers.
/// Answers never leave through the link, the gate reports the folder, and the same request brings
/// the answers once the folder is repaired.
#[test]
fn a_folder_of_answers_that_is_none() {
    for what in ["link", "dangling", "file", "gone"] {
        let mut siege = Siege::new(135);
        let mut home = siege.world.open();
        let heard = told(&mut home);
        let folder = siege.world.root.join("spool/out/alpha-dir");
        fs::remove_dir(&folder).unwrap();
        match what {
            "link" => symlink(siege.outside.join("folder"), &folder).unwrap(),
            "dangling" => symlink(siege.outside.join("made-by-the-gate"), &folder).unwrap(),
            "file" => fs::write(&folder, "").unwrap(),
            _ => {}
        }
        let draft = siege.query("alpha-bot");
        let other = siege.query("beta-bot");
        let outcomes = siege.world.drain(&mut home);
        assert_eq!(outcomes.len(), 2, "{what}: {outcomes:?}");
        assert!(
            siege
                .world
                .answer_path("beta-dir", &format!("{}.json", other.id))
                .is_file()
        );
        let answer = siege
            .world
            .answer_path("alpha-dir", &format!("{}.json", draft.id));
        if what != "gone" {
            assert!(
                fs::symlink_metadata(&folder).is_ok_and(|there| !there.is_dir()),
                "{what} was replaced"
            );
            let is_told = heard
                .lock()
                .unwrap()
                .iter()
                .any(|note| note.contains("cannot be written"));
            assert!(is_told, "{what}: {heard:?}");
            // A restart behaves in the same way.
            drop(home);
            home = siege.world.open();
            let heard = told(&mut home);
            assert!(
                heard
                    .lock()
                    .unwrap()
                    .iter()
                    .any(|note| note.contains("cannot be written")),
                "{what}"
            );
            fs::remove_file(&folder).unwrap();
            siege.world.send(&draft);
            siege.world.drain(&mut home);
        }
        let answer = fs::read_to_string(&answer).unwrap();
        assert!(
            answer.contains(&format!(r#""requestId":"{}""#, draft.id)),
            "{what}: {answer}"
        );
        siege.stands(home);
    }
}

/// An attacker clears the folder of answers and plants objects in it as fast as possible: the gate
/// continues, and answers appear again once the attacker stops.
#[test]
fn planting_while_answers_are_written() {
    let mut siege = Siege::new(136);
    let mut home = siege.world.open();
    let stop = Arc::new(AtomicBool::new(false));
    let folder = siege.world.root.join("spool/out/alpha-dir");
    let ids = Arc::new(Mutex::new(String::new()));
    let vandal = {
        let (stop, folder, ids) = (Arc::clone(&stop), folder.clone(), Arc::clone(&ids));
        std::thread::spawn(move || {
            let mut n = 0_u64;
            while !stop.load(Ordering::SeqCst) {
                n += 1;
                let name = ids.lock().unwrap().clone();
                for path in [folder.join(&name), folder.join(format!(".{name}.tmp"))] {
                    let _ = match n % 4 {
                        0 => fs::create_dir(&path),
                        1 => symlink("/dev/zero", &path),
                        2 => fs::remove_dir(&path),
                        _ => fs::remove_file(&path),
                    };
                }
            }
            n
        })
    };
    for _ in 0..100 {
        let draft = siege.world.draft("alpha-bot", "orders.list", "{}");
        *ids.lock().unwrap() = format!("{}.json", draft.id);
        siege.world.send(&draft);
        let outcomes = siege.world.drain(&mut home);
        assert_eq!(outcomes.len(), 1);
    }
    stop.store(true, Ordering::SeqCst);
    println!("{} plantings", vandal.join().unwrap());
    siege.stands(home);
}

/// Senders that share no spool share no ids.
#[test]
fn the_same_id_in_two_spools_is_two_requests() {
    let mut siege = Siege::new(137);
    let mut home = siege.world.open();
    for agent in ["alpha-bot", "beta-bot"] {
        let draft = Draft {
            id: "same".to_owned(),
            ..siege.world.draft(agent, "orders.list", "{}")
        };
        siege.world.send(&draft);
    }
    let outcomes = siege.world.drain(&mut home);
    assert_eq!(
        outcomes.iter().map(code_of).collect::<Vec<_>>(),
        [None, None]
    );
    let refs: Vec<String> = ["alpha-dir", "beta-dir"]
        .map(|spool| {
            let bytes = fs::read(siege.world.answer_path(spool, "same.json")).unwrap();
            serde_json::from_slice::<serde_json::Value>(&bytes).unwrap()["auditRef"].to_string()
        })
        .to_vec();
    assert_ne!(refs[0], refs[1]);
    siege.stands(home);
}
