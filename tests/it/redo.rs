//! Every state that a crash can leave behind, made by killing the gate at that place, and what the
//! next start does with it: the table of docs/spool.md, row by row.

mod files;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex};

use spoolgate_home::Home;
use spoolgate_wire::code::Code;

use crate::kit::world::{Draft, World, code_of};

/// Where the gate dies: at a verb on a path that contains this, before or after the verb is done.
#[derive(Clone, Copy)]
struct Kill {
    verb: &'static str,
    part: &'static str,
    after: bool,
}

const fn before(verb: &'static str, part: &'static str) -> Kill {
    Kill {
        verb,
        part,
        after: false,
    }
}

const fn after(verb: &'static str, part: &'static str) -> Kill {
    Kill {
        verb,
        part,
        after: true,
    }
}

type Armed = Arc<Mutex<Option<Kill>>>;

fn mortal(seed: u64) -> (World, Armed) {
    let armed: Armed = Arc::default();
    let kill = Arc::clone(&armed);
    let meddle = move |verb: &str, path: &Path, to: Option<&Path>, is_after: bool| {
        let mut armed = kill.lock().unwrap();
        let holds = |part: &str| {
            [Some(path), to]
                .iter()
                .flatten()
                .any(|path| path.to_string_lossy().contains(part))
        };
        let hit = armed.is_some_and(|kill| {
            (verb == kill.verb || kill.verb == "any") && holds(kill.part) && is_after == kill.after
        });
        if hit {
            *armed = None;
            drop(armed);
            panic!("killed at {verb} of {}", path.display());
        }
        None
    };
    (World::with_disk(seed, Box::new(meddle)), armed)
}

/// Runs the gate until it dies there.
fn die(world: &World, armed: &Armed, kill: Kill) {
    *armed.lock().unwrap() = Some(kill);
    let lived = catch_unwind(AssertUnwindSafe(|| {
        let mut home = world.open();
        world.drain(&mut home);
    }));
    assert!(
        lived.is_err(),
        "it never came to {} of {}",
        kill.verb,
        kill.part
    );
}

fn names(world: &World, folder: &str) -> Vec<String> {
    let entries = fs::read_dir(world.root.join(folder)).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().is_file())
        .map(|e| e.file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Returns the number of decision lines about a file.
fn lines(world: &World, file: &str) -> usize {
    world
        .ledger()
        .iter()
        .filter(|line| line["kind"] == "decision" && line["file"] == file)
        .count()
}

/// Whether `spool/out` contains exactly the answer of the file's line.
fn is_answered(world: &World, home: &Home, draft: &Draft) -> bool {
    let file = format!("{}.json", draft.id);
    let ledger = world.ledger();
    let line = ledger
        .iter()
        .rfind(|line| line["kind"] == "decision" && line["file"] == *file)
        .unwrap();
    let answer = home.answer(line["seq"].as_u64().unwrap()).unwrap();
    fs::read(world.answer_path("", &file)).is_ok_and(|bytes| bytes == answer.to_bytes())
}

fn query(world: &mut World) -> Draft {
    world.draft("trend-bot", "orders.list", "{}")
}

/// Rule files that cannot be used must not delay what was decided before.
fn break_rules(world: &World) {
    fs::write(world.root.join("rules/safety.yaml"), "?").unwrap();
}

#[test]
fn claimed_and_not_decided() {
    let (mut world, armed) = mortal(90);
    let draft = query(&mut world);
    world.send(&draft);
    die(&world, &armed, after("rename_new", "spool/in/"));
    let file = format!("{}.json", draft.id);
    assert!(names(&world, "spool/in").is_empty());
    assert!(names(&world, "spool/work")[0].starts_with("1~") && lines(&world, &file) == 0);
    let mut home = world.open();
    assert_eq!(lines(&world, &file), 0, "opening decides nothing");
    assert_eq!(world.drain(&mut home).len(), 1);
    assert!(lines(&world, &file) == 1 && is_answered(&world, &home, &draft));
    assert!(names(&world, "spool/work").is_empty());
}

#[test]
fn decided_and_not_answered() {
    for (kill, answer, temporary, claims) in [
        (before("write", "spool/out/"), false, false, 1),
        (before("rename", "spool/out/"), false, true, 1),
        (after("rename", "spool/out/"), true, false, 1),
        (before("remove", "spool/work/"), true, false, 1),
        (after("remove", "spool/work/"), true, false, 0),
    ] {
        for broken in [false, true] {
            let (mut world, armed) = mortal(91);
            let draft = query(&mut world);
            world.send(&draft);
            die(&world, &armed, kill);
            let file = format!("{}.json", draft.id);
            let what = format!("{} {} {} {broken}", kill.verb, kill.part, kill.after);
            assert_eq!(lines(&world, &file), 1, "{what}");
            assert_eq!(world.answer_path("", &file).exists(), answer, "{what}");
            assert_eq!(
                world.answer_path("", &format!(".{file}.tmp")).exists(),
                temporary,
                "{what}"
            );
            assert_eq!(names(&world, "spool/work").len(), claims, "{what}");
            if broken {
                break_rules(&world);
            }
            let mut home = world.open();
            assert!(
                is_answered(&world, &home, &draft),
                "{what}: as soon as the home is open"
            );
            assert!(names(&world, "spool/work").is_empty(), "{what}");
            assert!(
                !world.answer_path("", &format!(".{file}.tmp")).exists(),
                "{what}"
            );
            assert!(
                world.drain(&mut home).is_empty() && lines(&world, &file) == 1,
                "{what}: never twice"
            );
        }
    }
}

/// The start that repairs dies as well, at every possible place.
#[test]
fn dying_again_while_it_is_redone() {
    for kill in [
        before("write", "spool/out/"),
        after("write", "spool/out/"),
        after("rename", "spool/out/"),
        before("remove", "spool/work/"),
        after("remove", "spool/work/"),
    ] {
        let (mut world, armed) = mortal(92);
        let draft = query(&mut world);
        world.send(&draft);
        die(&world, &armed, before("write", "spool/out/"));
        die(&world, &armed, kill);
        let home = world.open();
        assert!(is_answered(&world, &home, &draft) && names(&world, "spool/work").is_empty());
        assert_eq!(lines(&world, &format!("{}.json", draft.id)), 1);
    }
}

/// After a power cut an answer can be empty, incomplete or gone, and its claim too.
#[test]
fn answered_but_not_durably() {
    for broken in [None, Some(&b""[..]), Some(b"{\"requ"), Some(b"{}\n")] {
        let (mut world, _) = mortal(93);
        let draft = query(&mut world);
        world.send(&draft);
        let mut home = world.open();
        world.drain(&mut home);
        drop(home);
        let path = world.answer_path("", &format!("{}.json", draft.id));
        match broken {
            Some(bytes) => fs::write(&path, bytes).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        let mut home = world.open();
        assert!(is_answered(&world, &home, &draft), "{broken:?}");
        // After the `published` line nothing is compared any more: clients may remove what they
        // have read.
        home.mark_published().unwrap();
        drop(home);
        fs::remove_file(&path).unwrap();
        drop(world.open());
        assert!(!path.exists());
    }
}

/// A file that is not a request is kept once.
#[test]
fn refused_and_not_kept() {
    for kill in [
        before("any", "spool/rejected/"),
        after("any", "spool/rejected/"),
    ] {
        let (world, armed) = mortal(94);
        world.drop_file("", "forged.json", r#"{"id":1}"#);
        die(&world, &armed, kill);
        assert_eq!(lines(&world, "forged.json"), 1);
        let home = world.open();
        let kept = names(&world, "spool/rejected");
        assert_eq!(kept.len(), 1, "{kept:?}");
        assert_eq!(
            fs::read_to_string(world.root.join("spool/rejected").join(&kept[0])).unwrap(),
            r#"{"id":1}"#
        );
        assert!(names(&world, "spool/work").is_empty());
        drop(home);
    }
}

/// An answer that a command has taken is not written again; one that it cannot have taken is.
#[test]
fn answers_to_commands() {
    for (kill, again) in [
        (before("write", "spool/local/out/"), true),
        (before("remove", "spool/work/"), true),
        (after("remove", "spool/work/"), false),
    ] {
        let (mut world, armed) = mortal(95);
        let draft = query(&mut world);
        let file = format!("{}.json", draft.id);
        fs::write(
            world.root.join("spool/local/in").join(&file),
            world.sign(&draft),
        )
        .unwrap();
        die(&world, &armed, kill);
        let answer = world.root.join("spool/local/out").join(&file);
        // The command removes what it has read.
        let _ = fs::remove_file(&answer);
        let home = world.open();
        assert_eq!(
            (answer.exists(), lines(&world, &file)),
            (again, 1),
            "{} {}",
            kill.verb,
            kill.after
        );
        drop(home);
    }
}

/// A request that came twice is answered twice, whichever of the two the gate died with.
#[test]
fn the_same_request_again() {
    let (mut world, armed) = mortal(96);
    let draft = query(&mut world);
    world.send(&draft);
    die(&world, &armed, before("write", "spool/out/"));
    // Its sender saw no answer, and sends it again while the gate is down.
    world.send(&draft);
    let mut home = world.open();
    assert!(is_answered(&world, &home, &draft));
    let outcomes = world.drain(&mut home);
    assert_eq!(outcomes.len(), 1);
    assert!(outcomes[0].decision.metadata.replay_of.is_some());
    let first = fs::read(world.answer_path("", &format!("{}.json", draft.id))).unwrap();
    assert_eq!(first, outcomes[0].answer.to_bytes());
    assert_eq!(code_of(&outcomes[0]), None::<Code>);
}
