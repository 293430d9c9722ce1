//! Attacks on the scan itself: files that are never completed or may not be opened or moved, and
//! spool folders that are not folders. None of them may end the gate or cost another sender an
//! answer.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::chown;
use std::path::Path;

use rustix::io::Errno;
use spoolgate_home::batch::Outcome;
use spoolgate_wire::code::Code;

use crate::kit::world::{World, code_of};
use crate::kit::{show, spoolgate};

/// Files in a full batch used to hide the unfinished ones before them: the time of their first
/// sight was lost, and a run ended without answering them.
#[test]
fn unfinished_files_before_a_full_batch_are_answered() {
    let world = World::new(61);
    let mut home = world.open();
    for n in 0..20 {
        world.drop_file("", &format!("half-{n}.json"), r#"{"id":"#);
    }
    for n in 0..256 {
        world.drop_file("", &format!("whole-{n}.json"), r#"{"id":1}"#);
    }
    let outcomes = world.drain(&mut home);
    let unfinished = outcomes
        .iter()
        .filter(|outcome| code_of(outcome) == Some(Code::MalformedJson))
        .count();
    assert_eq!((outcomes.len(), unfinished), (276, 20));
}

/// The same under a load that never ends: the waiting time is two seconds, whatever else arrives.
#[test]
fn patience_ends_under_steady_load() {
    let world = World::new(62);
    let mut home = world.open();
    for n in 0..20 {
        world.drop_file("", &format!("half-{n}.json"), r#"{"id":"#);
    }
    let mut refused = 0;
    for round in 0..40 {
        for n in 0..300 {
            world.drop_file("", &format!("w-{round}-{n}.json"), r#"{"id":1}"#);
        }
        let outcomes = home.round(false).unwrap().outcomes;
        refused += outcomes
            .iter()
            .filter(|outcome| code_of(outcome) == Some(Code::MalformedJson))
            .count();
        world.pass_ms(200);
    }
    assert_eq!(refused, 20, "after 8 s");
}

/// More unfinished files than the gate remembers: nothing is refused early, and in the end
/// everything is refused.
#[test]
fn more_unfinished_files_than_are_remembered() {
    let world = World::new(63);
    let mut home = world.open();
    for n in 0..4500 {
        world.drop_file("", &format!("half-{n}.json"), "{");
    }
    let start = world.now();
    assert!(
        home.round(false).unwrap().outcomes.is_empty(),
        "not before two seconds"
    );
    let outcomes = world.drain(&mut home);
    assert_eq!(outcomes.len(), 4500);
    assert!(
        outcomes
            .iter()
            .all(|outcome| outcome.decision.timestamp.since_ms(start) >= 2000)
    );
}

/// Makes a disk on which a verb fails for paths that contain `part`.
fn failing(verb: &'static str, part: &'static str, errno: Errno) -> World {
    World::with_disk(
        64,
        Box::new(
            move |called: &str, path: &Path, _: Option<&Path>, is_after: bool| {
                let hit = !is_after && called == verb && path.to_string_lossy().contains(part);
                hit.then(|| io::Error::from(errno))
            },
        ),
    )
}

/// A writer may hold a lease on its file, and opening the file without blocking then fails: that
/// used to end the gate.
#[test]
fn a_leased_file_ends_nothing() {
    let mut world = failing("read", "leased", Errno::AGAIN);
    let mut home = world.open();
    world.drop_file("", "leased.json", "{}");
    let query = world.draft("trend-bot", "orders.list", "{}");
    world.send(&query);
    let outcomes = world.drain(&mut home);
    let codes: Vec<Option<Code>> = outcomes.iter().map(code_of).collect();
    assert!(
        codes.contains(&None) && codes.contains(&Some(Code::Unreadable)),
        "{codes:?}"
    );
}

/// A directory that its owner closed may not be moved to another folder, nor may a mount point:
/// that used to end the gate. It stays, and everything else is answered.
#[test]
fn a_file_that_may_not_be_moved_stops_nothing() {
    for errno in [Errno::ACCESS, Errno::PERM, Errno::BUSY, Errno::XDEV] {
        let mut world = failing("rename_new", "stuck", errno);
        let mut home = world.open();
        fs::create_dir(world.inbox("", b"stuck.json")).unwrap();
        fs::create_dir(world.inbox("", b"stuck two")).unwrap();
        let query = world.draft("trend-bot", "orders.list", "{}");
        world.send(&query);
        let outcomes = world.drain(&mut home);
        let codes = |outcomes: &[Outcome]| -> BTreeSet<Option<&str>> {
            let codes = outcomes.iter().map(code_of);
            codes.map(|code| code.map(Code::name)).collect()
        };
        let expected = [None, Some("NOT_A_FILE"), Some("BAD_FILE_NAME")];
        assert_eq!(codes(&outcomes), BTreeSet::from(expected), "{errno:?}");
        // Each is answered once, and nothing is said to be kept.
        assert_eq!(outcomes.len(), 3);
        assert!(
            outcomes
                .iter()
                .all(|outcome| outcome.decision.kept.is_none())
        );
        assert!(world.answer_path("", "stuck.json.error.json").exists());
        for _ in 0..20 {
            world.pass_ms(60_000);
            assert!(world.drain(&mut home).is_empty(), "{errno:?}");
        }
        assert_eq!(home.left(), BTreeMap::from([("flat".to_owned(), 2)]));
        // Another version of it is answered again.
        fs::write(world.inbox("", b"stuck.json").join("more"), "").unwrap();
        assert_eq!(world.drain(&mut home).len(), 1);
        fs::remove_dir_all(world.inbox("", b"stuck.json")).unwrap();
        world.drain(&mut home);
        assert_eq!(home.left(), BTreeMap::from([("flat".to_owned(), 1)]));
        drop(home);
        let replayed = spoolgate(&world.root, &["audit", "replay"]);
        assert!(replayed.status.success(), "{}", show(&replayed));
    }
}

/// An error on one entry of a folder that others can write concerns that entry. The sender may not
/// be to blame, so it is answered only at the fourth look, half a minute later.
#[test]
fn an_entry_that_cannot_be_read_ends_nothing() {
    for errno in [Errno::IO, Errno::STALE] {
        let mut world = failing("read", "broken", errno);
        let mut home = world.open();
        world.drop_file("", "broken.json", "{}");
        world.drop_file("alpha-dir", "broken.json", "{}");
        let query = world.draft("trend-bot", "orders.list", "{}");
        world.send(&query);
        let outcomes = home.round(false).unwrap().outcomes;
        assert_eq!(outcomes.iter().map(code_of).collect::<Vec<_>>(), [None]);
        let mut codes = Vec::new();
        for second in 0..120 {
            assert!(second >= 31 || codes.is_empty(), "{second} s: {codes:?}");
            codes.extend(home.round(false).unwrap().outcomes.iter().map(code_of));
            world.pass_ms(1000);
        }
        assert_eq!(codes, [Some(Code::Unreadable); 2], "{errno:?}");
        let left = [("agent-alpha-dir".to_owned(), 1), ("flat".to_owned(), 1)];
        assert_eq!(home.left(), BTreeMap::from(left));
    }
}

/// If an agent's folder is a file, a link or gone, only that agent loses its answers.
#[test]
fn a_spool_that_is_no_folder_ends_nothing() {
    for what in ["file", "link", "gone"] {
        let mut world = World::new(65);
        let mut home = world.open();
        let folder = world.inbox("alpha-dir", b"");
        let folder = folder.components().as_path();
        fs::remove_dir(folder).unwrap();
        match what {
            "file" => fs::write(folder, "").unwrap(),
            "link" => std::os::unix::fs::symlink("/", folder).unwrap(),
            _ => {}
        }
        let query = world.draft("beta-bot", "orders.list", "{}");
        let outcome = world.decide(&mut home, &query);
        assert_eq!(code_of(&outcome), None, "{what}");
    }
}

/// A folder that a person makes for a new agent waits for its rule: it used to be removed at once.
#[test]
fn a_new_agents_folder_waits_for_its_rule() {
    let world = World::new(66);
    let mut home = world.open();
    fs::create_dir_all(world.root.join("spool/in/gamma-dir/new")).unwrap();
    let path = world.root.join("rules/principals.yaml");
    let rules = fs::read_to_string(&path).unwrap();
    fs::write(
        &path,
        rules.replace("name: keyless-bot,", "name: keyless-bot, spool: gamma-dir,"),
    )
    .unwrap();
    world.drop_file("gamma-dir", "r.json", "{}");
    for _ in 0..20 {
        home.round(false).unwrap();
        world.pass_ms(200);
    }
    assert!(world.answer_path("gamma-dir", "r.json.error.json").exists());
}

/// An agent that may write to the flat spool can make a folder there. It is not read as a spool,
/// whatever the rules name, and doctor succeeds.
#[test]
fn a_folder_of_another_user_is_not_used_as_a_spool() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root gives folders away");
        return;
    }
    for foreign in ["spool/in/gamma-dir", "spool/in/gamma-dir/new"] {
        let world = World::new(68);
        let new = world.root.join("spool/in/gamma-dir/new");
        fs::create_dir_all(&new).unwrap();
        let path = world.root.join("rules/principals.yaml");
        let rules = fs::read_to_string(&path).unwrap();
        let rules = rules.replace("name: keyless-bot,", "name: keyless-bot, spool: gamma-dir,");
        fs::write(&path, rules).unwrap();
        let foreign = world.root.join(foreign);
        chown(&foreign, Some(61_999), None).unwrap();
        world.drop_file("gamma-dir", "r.json", "{}");
        fs::create_dir(world.inbox("", b"nobody")).unwrap();
        chown(world.inbox("", b"nobody"), Some(61_999), None).unwrap();
        let mut home = world.open();
        assert!(!world.root.join("spool/in/gamma-dir/tmp").exists() || foreign == new);
        for _ in 0..20 {
            home.round(false).unwrap();
            world.pass_ms(200);
        }
        let answer = world.answer_path("gamma-dir", "r.json.error.json");
        assert!(new.join("r.json").exists() && !answer.exists());
        assert!(
            !world.inbox("", b"nobody").exists(),
            "no spool has this name"
        );
        // Once it is the gate's, it is one.
        chown(&foreign, Some(0), None).unwrap();
        for _ in 0..20 {
            home.round(false).unwrap();
            world.pass_ms(200);
        }
        assert!(answer.exists());
    }
}

/// Directories are not requests: a directory with a principal's name stays with its content,
/// because its rule may be missing only for a moment; any other is refused and kept whole.
#[test]
fn directories_are_refused_or_left_alone() {
    let world = World::new(67);
    let mut home = world.open();
    for name in ["nobody", "No body", "d.json"] {
        fs::create_dir(world.inbox("", name.as_bytes())).unwrap();
        fs::write(world.inbox("", name.as_bytes()).join("r.json"), "{}").unwrap();
    }
    let outcomes = world.drain(&mut home);
    let mut codes: Vec<&str> = outcomes
        .iter()
        .filter_map(code_of)
        .map(Code::name)
        .collect();
    codes.sort_unstable();
    assert_eq!(codes, ["BAD_FILE_NAME", "NOT_A_FILE"]);
    for outcome in outcomes {
        let kept = world
            .root
            .join("spool")
            .join(outcome.decision.kept.unwrap());
        assert_eq!(fs::read_to_string(kept.join("r.json")).unwrap(), "{}");
    }
    assert!(world.inbox("", b"nobody/r.json").exists());
}
