//! Requests that crash the gate whenever it reads them: the third attempt refuses them unread,
//! keeps their bytes, and costs no other request more than one attempt.

use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use spoolgate_host::spool::name::ClaimName;
use spoolgate_wire::code::Code;

use crate::kit::world::World;

/// Makes a disk on which the gate dies at every claim of a file named `poison`: when the claim is
/// made, and when it is read again.
fn poisoned(seed: u64) -> World {
    World::with_disk(
        seed,
        Box::new(|verb, path: &Path, to, is_after| {
            let is_poison = path.to_string_lossy().contains("poison");
            let is_begun =
                verb == "rename_new" && is_after && path.starts_with("spool/in") && to.is_some();
            let is_read = verb == "read" && path.starts_with("spool/work");
            if is_poison && (is_begun || is_read) {
                panic!("killed by {}", path.display());
            }
            None
        }),
    )
}

/// Starts the gate until it survives; returns how often it died.
fn run(world: &World) -> usize {
    for deaths in 0..20 {
        let lived = catch_unwind(AssertUnwindSafe(|| {
            let mut home = world.open();
            world.drain(&mut home);
        }));
        if lived.is_ok() {
            return deaths;
        }
    }
    panic!("it never comes to rest");
}

/// Returns code, kept bytes and batch of every decision about these files.
fn decided(world: &World) -> BTreeMap<String, (Option<Code>, Option<String>, u64)> {
    let home = world.open();
    let mut by_file = BTreeMap::new();
    for line in world
        .ledger()
        .iter()
        .filter(|line| line["kind"] == "decision")
    {
        let (batch, decision) = home.decision(line["seq"].as_u64().unwrap()).unwrap();
        let about = (decision.metadata.code, decision.kept, batch);
        if decision.file.starts_with("f-") {
            assert!(
                by_file.insert(decision.file.clone(), about).is_none(),
                "{} twice",
                decision.file
            );
        }
    }
    by_file
}

fn send(world: &mut World, id: &str) -> String {
    let mut draft = world.draft("trend-bot", "orders.list", "{}");
    draft.id = id.to_owned();
    let text = world.sign(&draft);
    world.send(&draft);
    text
}

#[test]
fn a_poisoned_request_is_given_up_and_all_others_are_decided() {
    for poisons in [1, 2, 3] {
        let mut world = poisoned(80 + poisons);
        let mut bytes = BTreeMap::new();
        for n in 0..30 {
            send(&mut world, &format!("f-{n:02}"));
        }
        for n in 0..poisons {
            let id = format!("f-1{n}-poison");
            bytes.insert(format!("{id}.json"), send(&mut world, &id));
        }
        assert_eq!(
            run(&world),
            2 * usize::try_from(poisons).unwrap(),
            "two deaths each"
        );
        let decided = decided(&world);
        assert_eq!(decided.len(), 30 + bytes.len());
        for (file, (code, kept, _)) in &decided {
            match bytes.get(file) {
                Some(text) => {
                    assert_eq!(*code, Some(Code::Internal), "{file}");
                    let kept = world.root.join("spool").join(kept.as_ref().unwrap());
                    assert_eq!(&fs::read_to_string(kept).unwrap(), text, "{file}");
                    assert!(
                        world
                            .answer_path("", &format!("{file}.error.json"))
                            .exists(),
                        "{file}"
                    );
                }
                None => assert_eq!((*code, kept), (None, &None), "{file}"),
            }
        }
        for folder in ["spool/work", "spool/in"] {
            let left = fs::read_dir(world.root.join(folder)).unwrap();
            let left: Vec<_> = left
                .map(|entry| entry.unwrap().path())
                .filter(|path| path.is_file())
                .collect();
            assert!(left.is_empty(), "{left:?}");
        }
    }
}

/// Claims that died beside a poisoned one are decided one per batch, before the poisoned one is
/// tried a third time, and at their second attempt.
#[test]
fn claims_beside_a_poisoned_one_are_decided_at_the_second_attempt() {
    let mut world = poisoned(84);
    for n in 0..10 {
        send(&mut world, &format!("f-{n:02}"));
    }
    send(&mut world, "f-05-poison");
    let die = |world: &World| {
        let lived = catch_unwind(AssertUnwindSafe(|| {
            let mut home = world.open();
            world.drain(&mut home);
        }));
        assert!(lived.is_err(), "it is still poisoned");
        let entries = fs::read_dir(world.root.join("spool/work")).unwrap();
        let mut claims: Vec<(String, u32)> = entries
            .map(|entry| ClaimName::parse(&entry.unwrap().file_name()).unwrap())
            .map(|claim| (claim.file, claim.attempt))
            .collect();
        claims.sort();
        claims
    };
    let names = |numbers: std::ops::Range<u32>| numbers.map(|n| format!("f-{n:02}.json"));
    // They are claimed in the order of names: the poison comes after f-04 and before f-05.
    let mut first: Vec<(String, u32)> = names(0..5).map(|name| (name, 1)).collect();
    first.push(("f-05-poison.json".to_owned(), 1));
    assert_eq!(die(&world), first);
    // All before it were decided, each alone; the poison took no other claim with it.
    assert_eq!(die(&world), [("f-05-poison.json".to_owned(), 2)]);
    assert_eq!(run(&world), 0, "the third attempt is not one");
    let decided = decided(&world);
    let batches: Vec<u64> = names(0..5).map(|name| decided[&name].2).collect();
    assert!(
        batches.windows(2).all(|pair| pair[0] < pair[1]),
        "one a batch: {batches:?}"
    );
    assert_eq!(decided.len(), 11);
}

/// The same if the spool is over its quota, and files are read without being claimed.
#[test]
fn a_poisoned_request_over_quota_takes_the_same_way() {
    let mut world = poisoned(85);
    fs::write(
        world.root.join("rules/rates.yaml"),
        "spool: {requests_per_minute: 3, bytes_per_minute: 1000000}\n",
    )
    .unwrap();
    for n in 0..10 {
        send(&mut world, &format!("f-{n:02}"));
    }
    send(&mut world, "f-05-poison");
    // Each start begins with a full bucket, so it takes three new files; the poison is the sixth.
    let mut deaths = 0;
    for _ in 0..20 {
        deaths += run(&world);
        world.pass_ms(60_000);
    }
    assert_eq!(deaths, 2);
    let decided = decided(&world);
    assert_eq!(decided.len(), 11);
    assert_eq!(decided["f-05-poison.json"].0, Some(Code::Internal));
}
