//! Turns by owner in the flat spool: no owner waits for the files of another, and what is held in
//! memory is bounded.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use rustix::process::geteuid;

use spoolgate_gate::prepare::Origin;
use spoolgate_host::spool::scan::Scanner;

use crate::kit::process::{Running, answered, until};
use crate::kit::{Scratch, Sent, campaign};

use crate::fairness::tree::{Tree, agent, claims, drain, quota, round, scanner};

/// The user of the flood. Its files sort before all others, so a folder shows them first.
const LOUD: u32 = 1;

fn flood(tree: &Tree, count: usize) {
    for n in 0..count {
        tree.put_of(LOUD, &Origin::Flat, &format!("a{n:06}.json"), 400, true);
    }
}

/// Returns the number of rounds until this file is claimed, and how many files of others are
/// claimed in the same round before it.
fn wait_for(scanner: &mut Scanner, tree: &Tree, now_ms: u64, file: &str) -> (usize, usize) {
    for rounds in 1..=100 {
        let served = claims(&round(scanner, tree, now_ms));
        if let Some(before) = served.iter().position(|(_, name, _)| name == file) {
            return (rounds, before);
        }
    }
    panic!("{file} is not claimed in 100 rounds")
}

#[test]
fn a_request_waits_for_one_turn_of_another_owner_and_not_for_its_files() {
    // A turn has 64 files; from 1,024 files on the owner reads the folder itself.
    for count in [1, 63, 64, 65, 1023, 1024, 1025, 50_000] {
        let tree = Tree::default();
        flood(&tree, count);
        let mut scanner = scanner(0, None);
        // The first look is short, so it ends with the second round.
        (0..2).for_each(|_| drop(round(&mut scanner, &tree, 0)));
        for turn in 0..20 {
            // Whenever it comes, in the middle of a turn or not.
            scanner.set_batch_max(225 + turn);
            round(&mut scanner, &tree, 0);
            scanner.set_batch_max(256);
            let name = format!("z{turn:02}.json");
            tree.put_of(2, &Origin::Flat, &name, 400, true);
            let (rounds, before) = wait_for(&mut scanner, &tree, 0, &name);
            assert!(
                rounds == 1 && before <= 2 * 64,
                "{count}: {rounds} rounds, {before} files"
            );
        }
        // After a batch of one request, a look that was cut short ends first.
        scanner.set_batch_max(1);
        round(&mut scanner, &tree, 0);
        round(&mut scanner, &tree, 0);
        scanner.set_batch_max(256);
        tree.put_of(2, &Origin::Flat, "z.json", 400, true);
        assert!(wait_for(&mut scanner, &tree, 0, "z.json").0 <= 3, "{count}");
    }
}

#[test]
fn owners_with_many_files_share_as_spools_do_and_none_is_left() {
    let tree = Tree::default();
    let files = BTreeMap::from([(1, 3000), (2, 100), (3, 1500), (4, 1)]);
    for (uid, count) in &files {
        for n in 0..*count {
            tree.put_of(
                *uid,
                &Origin::Flat,
                &format!("u{uid}-{n:05}.json"),
                400,
                true,
            );
        }
    }
    (0..500).for_each(|n| tree.put(&agent(0), &format!("own{n:04}.json"), 400, true));
    let mut scanner = scanner(1, None);
    let (served, _) = drain(&mut scanner, &tree, 0);
    assert_eq!(served.len(), 3000 + 100 + 1500 + 1 + 500, "each file once");
    let place = |prefix: &str| {
        served
            .iter()
            .rposition(|(_, name, _)| name.starts_with(prefix))
    };
    // Five take turns; the last of 100 files comes in the second turn.
    assert!(place("u4-").unwrap() <= 5 * 64, "{:?}", place("u4-"));
    assert!(place("u2-").unwrap() <= 10 * 64, "{:?}", place("u2-"));
    assert!(place("own").unwrap() <= 8 * 4 * 64, "{:?}", place("own"));
    assert_eq!(tree.left(&Origin::Flat), 0);
}

/// New names that sort first do not starve the last name of the same owner.
#[test]
fn no_name_of_a_busy_owner_starves() {
    let tree = Tree::default();
    flood(&tree, 3000);
    tree.put_of(LOUD, &Origin::Flat, "zz-last.json", 400, true);
    let mut scanner = scanner(0, None);
    for batch in [1, 16, 256] {
        scanner.set_batch_max(batch);
        let mut n = 0;
        for rounds in 0.. {
            assert!(rounds <= 8 * 4000 / batch, "zz-last.json starves");
            let served = claims(&round(&mut scanner, &tree, 0));
            for _ in &served {
                n += 1;
                tree.put_of(
                    LOUD,
                    &Origin::Flat,
                    &format!("A{batch}-{n:06}.json"),
                    400,
                    true,
                );
            }
            if served.iter().any(|(_, name, _)| name == "zz-last.json") {
                break;
            }
        }
        tree.put_of(LOUD, &Origin::Flat, "zz-last.json", 400, true);
    }
}

/// More owners than have places: all are served, and a quiet one has a place again.
#[test]
fn more_owners_than_places_share_one() {
    for owners in [255, 256, 257, 1000] {
        let tree = Tree::default();
        for uid in 0..owners {
            for n in 0..3 {
                let name = format!("u{uid:04}-{n}.json");
                tree.put_of(uid, &Origin::Flat, &name, 400, true);
            }
        }
        let mut scanner = scanner(0, None);
        let (served, _) = drain(&mut scanner, &tree, 0);
        assert_eq!(served.len(), 3 * usize::try_from(owners).unwrap());
        flood(&tree, 5000);
        round(&mut scanner, &tree, 0);
        tree.put_of(5000, &Origin::Flat, "z.json", 400, true);
        let (rounds, _) = wait_for(&mut scanner, &tree, 0, "z.json");
        assert!(rounds <= 2, "{owners}: {rounds} rounds");
    }
}

/// A look reads 4,096 names and 256 for each request of the round before.
#[test]
fn a_look_is_bounded_and_goes_on() {
    let tree = Tree::default();
    for n in 0..20_000 {
        // Files that do not parse yet.
        tree.put_of(LOUD, &Origin::Flat, &format!("a{n:05}.json"), 400, false);
    }
    tree.put_of(2, &Origin::Flat, "z.json", 400, true);
    let mut scanner = scanner(0, None);
    let mut rounds = 0;
    loop {
        let before = tree.names.load(SeqCst);
        let found = round(&mut scanner, &tree, 0);
        let names = tree.names.load(SeqCst) - before;
        assert!(names <= 2 * 4096, "{names} names in one round");
        rounds += 1;
        if claims(&found).iter().any(|(_, name, _)| name == "z.json") {
            break;
        }
        assert!(found.more && rounds <= 5, "{rounds} rounds");
    }
}

/// All owners share the quota of the flat spool, one file of each in turn.
#[test]
fn owners_take_turns_under_a_quota() {
    let tree = Tree::default();
    flood(&tree, 200);
    let mut scanner = scanner(0, Some(quota(10, 1_000_000)));
    assert_eq!(drain(&mut scanner, &tree, 0).0.len(), 10);
    for n in 0..10 {
        tree.put_of(2, &Origin::Flat, &format!("z{n:02}.json"), 400, true);
    }
    let mut served = Vec::new();
    for second in 1..=120 {
        served.extend(drain(&mut scanner, &tree, second * 1000).0);
    }
    let names: Vec<char> = served
        .iter()
        .filter_map(|(_, name, _)| name.chars().next())
        .collect();
    assert_eq!(names.len(), 20, "ten a minute");
    let quiet = names.iter().filter(|name| **name == 'z').count();
    assert!((9..=10).contains(&quiet), "{names:?}");
    // What passes a quota does not wait for the files of others either.
    tree.put_of(3, &Origin::Flat, "z-exit.json", 400, true);
    let (rounds, _) = wait_for(&mut scanner, &tree, 121_000, "z-exit.json");
    assert!(rounds <= 2, "{rounds} rounds");
    assert_eq!(tree.left(&Origin::Flat), 190 - 20 + 10);
}

/// Drops a file of this user.
fn drop_as(uid: u32, home: &Path, sent: &Sent) {
    let folder = home.join("spool/in");
    let hidden = folder.join(format!(".{}", sent.name.display()));
    fs::write(&hidden, &sent.bytes).unwrap();
    chown(&hidden, Some(uid), None).unwrap();
    fs::rename(&hidden, folder.join(&sent.name)).unwrap();
}

/// With real users: one floods the flat spool, another sends cancels, one after the other. With
/// `SPOOLGATE_WHOLE=1` there are 50,000 files and 20 cancels. What a cancel waits for is counted in
/// files, since the time depends on the machine.
#[test]
fn a_cancel_beside_a_flood_by_another_user_is_answered_at_once() {
    if !geteuid().is_root() {
        eprintln!("skipped: only root can make files of other users");
        return;
    }
    let (count, cancels) = campaign((3000, 5), (50_000, 20));
    let scratch = Scratch::new();
    let home = scratch.home();
    for n in 0..count {
        let id = format!("flood-{n}");
        let bytes = scratch.request(&id, "strategies.list", "{}");
        drop_as(60_001, &home, &Sent::new(&format!("{id}.json"), bytes));
    }
    let left = || fs::read_dir(home.join("spool/in")).unwrap().count();
    let gate = Running::watching(&home);
    until("the gate is busy", || left() < count);
    let mut took: Vec<Duration> = Vec::new();
    for n in 0..cancels {
        let id = format!("cancel-{n}");
        let bytes = scratch.request(&id, "order.cancel", r#"{"orderId":"o-1"}"#);
        let sent = Sent::new(&format!("{id}.json"), bytes);
        let (before, begun) = (left(), Instant::now());
        drop_as(60_002, &home, &sent);
        answered(&home, &format!("{id}.json"));
        took.push(begun.elapsed());
        let after = left();
        assert!(after > 0, "the flood ended before the cancels");
        // The batch that was being decided, one more while the look goes on, and its own.
        assert!(
            before - after <= 3 * 256,
            "{} files came first",
            before - after
        );
    }
    took.sort();
    let status = fs::read_to_string(format!("/proc/{}/status", gate.0.id())).unwrap();
    let kib = |field: &str| -> u64 {
        let line = status.lines().find(|line| line.starts_with(field)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    let (peak, own) = (kib("VmHWM:"), kib("RssAnon:"));
    println!(
        "beside {count} files of another user, of which {} are left, a cancel is answered in {:?} \
         (median of {cancels}; longest {:?}); at most {peak} KiB of memory, {own} KiB of them not \
         pages of files",
        left(),
        took[cancels / 2],
        took[cancels - 1]
    );
    // Most of the memory is the program's own file, which is larger in the build for tests.
    assert!(peak < 40 * 1024 && own < 10 * 1024, "{peak} and {own} KiB");
}
