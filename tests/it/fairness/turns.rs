//! The order in which spools are served: bytes are shared, small files do not wait for large ones,
//! no spool waits for another, and a round does a bounded amount of work.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::SeqCst;

use proptest::prelude::*;
use spoolgate_gate::prepare::Origin;
use spoolgate_wire::envelope::REQUEST_BYTES_MAX;

use crate::fairness::tree::{Tree, agent, claims, drain, round, scanner};

/// The bytes of a turn, as docs/spool.md states them.
const TURN: u64 = 64 * 1024;
/// The minimum cost of a file.
const LEAST: u64 = 1024;

/// Deficit round robin as in the literature: the order in which whole lists of files are served.
fn model(files: &[Vec<u64>]) -> Vec<(usize, u64)> {
    let (mut next, mut saved) = (vec![0; files.len()], vec![0; files.len()]);
    let mut order = Vec::new();
    while next
        .iter()
        .zip(files)
        .any(|(next, files)| *next < files.len())
    {
        for spool in 0..files.len() {
            saved[spool] += TURN;
            while let Some(size) = files[spool]
                .get(next[spool])
                .filter(|size| **size.max(&&LEAST) <= saved[spool])
            {
                saved[spool] -= size.max(&LEAST);
                next[spool] += 1;
                order.push((spool, *size));
            }
        }
    }
    order
}

fn sizes() -> impl Strategy<Value = Vec<u64>> {
    let size = prop_oneof![4 => 2..3000_u64, 2 => 3000..80_000_u64, 1 => 80_000..400_000_u64];
    prop::collection::vec(size, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn the_order_is_that_of_the_model_and_bytes_are_shared(
        files in prop::collection::vec(sizes(), 2..6),
        batch in prop_oneof![Just(1_usize), Just(7), Just(256), Just(1024)],
    ) {
        let tree = Tree::default();
        for (spool, sizes) in files.iter().enumerate() {
            for (n, size) in sizes.iter().enumerate() {
                tree.put(&agent(spool), &format!("f{n:03}.json"), *size, true);
            }
        }
        let mut scanner = scanner(files.len(), None);
        scanner.set_batch_max(batch);
        let (served, _) = drain(&mut scanner, &tree, 0);
        prop_assert_eq!(served.len(), files.iter().map(Vec::len).sum::<usize>(), "each file once");
        let number: BTreeMap<Origin, usize> = (0..files.len()).map(|n| (agent(n), n)).collect();
        let served: Vec<(usize, u64)> = served.iter().map(|(origin, _, size)| (number[origin],
            *size)).collect();

        // As long as every spool has something waiting.
        let mut left: Vec<usize> = files.iter().map(Vec::len).collect();
        let mut bytes = vec![0_u64; files.len()];
        let largest = *files.iter().flatten().max().unwrap();
        let expected = model(&files);
        for (n, (spool, size)) in served.iter().enumerate() {
            prop_assert_eq!((spool, size), (&expected[n].0, &expected[n].1), "file {} of {:?}", n,
                &served);
            bytes[*spool] += size.max(&LEAST);
            let (least, most) = (*bytes.iter().min().unwrap(), *bytes.iter().max().unwrap());
            prop_assert!(most - least <= largest + 2 * TURN, "after file {}: {:?}", n, bytes);
            left[*spool] -= 1;
            if left[*spool] == 0 {
                break;
            }
        }
    }
}

#[test]
fn a_small_file_waits_for_one_round_of_the_ring_at_most() {
    let tree = Tree::default();
    for n in 0..100_000 {
        tree.put(&agent(0), &format!("f{n:06}.json"), 400, true);
    }
    for n in 0..20 {
        tree.put(&agent(1), &format!("f{n:02}.json"), 10_000_000, true);
    }
    let mut scanner = scanner(3, None);
    for turn in 0..20 {
        for _ in 0..3 {
            let served = claims(&round(&mut scanner, &tree, 0));
            assert!(!served.is_empty() && served.len() <= 256);
        }
        let name = format!("one-{turn}.json");
        tree.put(&agent(2), &name, 400, true);
        let mut before: BTreeMap<Origin, u64> = BTreeMap::new();
        'waiting: for batches in 1.. {
            assert!(batches <= 3, "{before:?}");
            for (origin, file, size) in claims(&round(&mut scanner, &tree, 0)) {
                if file == name {
                    break 'waiting;
                }
                *before.entry(origin).or_default() += size.max(LEAST);
            }
        }
        for (origin, bytes) in before {
            assert!(
                bytes <= 2 * TURN + 10_000_000,
                "{origin:?} had {bytes} bytes before it"
            );
        }
    }
}

#[test]
fn a_lone_spool_waits_for_no_other() {
    let tree = Tree::default();
    tree.put(&agent(500), "large.json", 10_000_000, true);
    let mut scanner = scanner(1000, None);
    let served = claims(&round(&mut scanner, &tree, 0));
    assert_eq!(
        served,
        [(agent(500), "large.json".to_owned(), 10_000_000)],
        "in the first round"
    );
    // Also one that is larger than any request may be.
    let over = u64::try_from(REQUEST_BYTES_MAX).unwrap() * 1000;
    tree.put(&Origin::Flat, "huge.json", over, true);
    assert_eq!(claims(&round(&mut scanner, &tree, 0)).len(), 1);
}

#[test]
fn a_round_looks_at_so_many_names_and_goes_on_from_there() {
    for whole in [true, false] {
        let tree = Tree::default();
        for n in 0..20_000 {
            // Ignored names, or files that do not parse yet.
            let name = if whole {
                format!("a{n:05}.tmp")
            } else {
                format!("a{n:05}.json")
            };
            tree.put(&agent(0), &name, 100, whole);
        }
        tree.put(&agent(0), "zzz.json", 100, true);
        tree.put(&agent(1), "one.json", 100, true);
        let mut scanner = scanner(2, None);
        let mut served = Vec::new();
        let mut rounds = 0;
        loop {
            let before = (tree.names.load(SeqCst), tree.reads.load(SeqCst));
            let found = round(&mut scanner, &tree, 0);
            let names = tree.names.load(SeqCst) - before.0;
            let reads = tree.reads.load(SeqCst) - before.1;
            assert!(
                names <= 4096 && reads <= 256,
                "{names} names, {reads} reads in one round"
            );
            rounds += 1;
            served.extend(
                claims(&found)
                    .into_iter()
                    .map(|(_, name, _)| (rounds, name)),
            );
            if !found.more && found.claimed.is_empty() {
                break;
            }
            assert!(rounds < 1000, "the scanner never comes to rest");
        }
        let names: Vec<&str> = served.iter().map(|(_, name)| name.as_str()).collect();
        assert_eq!(names, ["one.json", "zzz.json"], "{whole}");
        assert_eq!(served[0].0, 1, "one.json does not wait for 20,000 names");
    }
}

#[test]
fn a_batch_has_as_many_requests_as_are_set() {
    for (set, expected) in [
        (0, 1),
        (1, 1),
        (255, 255),
        (256, 256),
        (257, 257),
        (1024, 1024),
        (1025, 1024),
    ] {
        let tree = Tree::default();
        for n in 0..2000 {
            tree.put(&agent(n % 3), &format!("f{n:04}.json"), 100, true);
        }
        let mut scanner = scanner(3, None);
        scanner.set_batch_max(set);
        assert_eq!(
            claims(&round(&mut scanner, &tree, 0)).len(),
            expected,
            "{set}"
        );
    }
}
