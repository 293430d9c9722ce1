//! Receipts and consistency proofs: every position in every small tree, the cache of leaf hashes
//! with every kind of damage, and forks.

mod refused;

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::kit::layered::Layered;
use crate::kit::memory_disk::MemoryDisk;
use crate::kit::synthetic::{self, Synthetic};
use crate::kit::{Dice, campaign};
use proptest::prelude::*;
use spoolgate_host::real_disk::RealDisk;
use spoolgate_ledger::disk::Disk;
use spoolgate_ledger::find::Finder;
use spoolgate_ledger::leaves::{FILES, Leaves};
use spoolgate_ledger::note::{Checkpoint, sign_checkpoint};
use spoolgate_ledger::proof::{Extension, PATH_HASHES_MAX, ProofError, Receipt, check_order};
use spoolgate_ledger::prove::{ProveError, Prover};
use spoolgate_ledger::recover;
use spoolgate_ledger::tree::{
    Frontier, Hash, consistency_proof, empty_root, inclusion_proof, leaf_hash, node_hash,
    verify_consistency, verify_inclusion,
};

const AUDIT: &str = "audit";

fn root_of(leaves: &[Hash]) -> Hash {
    leaves.iter().copied().collect::<Frontier>().root()
}

/// Roots and paths exactly as RFC 6962, section 2.1, defines them; each subtree is hashed once.
struct Definition<'a> {
    leaves: &'a [Hash],
    roots: HashMap<(usize, usize), Hash>,
}

impl Definition<'_> {
    /// Returns the largest power of two below a number.
    fn split(count: usize) -> usize {
        let mut k = 1;
        while k * 2 < count {
            k *= 2;
        }
        k
    }

    fn root(&mut self, from: usize, to: usize) -> Hash {
        if to - from == 1 {
            return self.leaves[from];
        }
        if let Some(root) = self.roots.get(&(from, to)) {
            return *root;
        }
        let middle = from + Self::split(to - from);
        let root = node_hash(&self.root(from, middle), &self.root(middle, to));
        self.roots.insert((from, to), root);
        root
    }

    fn path(&mut self, index: usize, from: usize, to: usize) -> Vec<Hash> {
        if to - from == 1 {
            return Vec::new();
        }
        let middle = from + Self::split(to - from);
        let (mut path, sibling) = if index < middle {
            (self.path(index, from, middle), self.root(middle, to))
        } else {
            (self.path(index, middle, to), self.root(from, middle))
        };
        path.push(sibling);
        path
    }

    fn subproof(&mut self, old: usize, from: usize, to: usize, is_known: bool) -> Vec<Hash> {
        if old == to {
            return if is_known {
                Vec::new()
            } else {
                vec![self.root(from, to)]
            };
        }
        let middle = from + Self::split(to - from);
        let (mut path, sibling) = if old <= middle {
            (
                self.subproof(old, from, middle, is_known),
                self.root(middle, to),
            )
        } else {
            (
                self.subproof(old, middle, to, false),
                self.root(from, middle),
            )
        };
        path.push(sibling);
        path
    }
}

/// Returns the leaves of a whole log.
fn leaves_of<'a>(disk: &'a dyn Disk, size: u64) -> Option<Leaves<'a>> {
    Leaves::open(Finder::open(disk, Path::new(AUDIT)).unwrap(), size).unwrap()
}

/// Makes a random log in memory: batches, long and short lines, segments.
fn log_of(lines: usize, seed: u64) -> (Arc<MemoryDisk>, Synthetic) {
    let disk = Arc::new(MemoryDisk::default());
    let mut log = Synthetic::on(disk.clone(), 0);
    let mut dice = Dice::new(seed);
    while log.leaves.len() < lines {
        if dice.one_in(7) {
            log.cut();
        }
        let text = "x".repeat(if dice.one_in(40) {
            dice.up_to(60_000)
        } else {
            dice.up_to(300)
        });
        // A batch has at most 16 MiB.
        let most = if text.len() > 1000 { 3 } else { 256 };
        log.batch(1 + dice.up_to(most.min(lines)), &text);
    }
    (disk, log)
}

#[test]
fn every_place_in_every_tree_up_to_300_lines_has_the_proof_of_the_definition() {
    let (disk, log) = log_of(310, 1);
    let mut definition = Definition {
        leaves: &log.leaves,
        roots: HashMap::new(),
    };
    // Every small size, every size around the edge of a tile, and some of the other sizes.
    let (small, step) = campaign((68, 50), (130, 10));
    for size in (1..=300_usize)
        .filter(|size| *size <= small || (254..=259).contains(size) || size % step == 0)
    {
        let root = definition.root(0, size);
        let count = size as u64;
        let mut leaves = leaves_of(disk.as_ref(), count).unwrap();
        assert_eq!(leaves.root(count).unwrap(), Some(root));
        for index in 0..size {
            let path = leaves.inclusion(index as u64, count).unwrap().unwrap();
            assert_eq!(path, definition.path(index, 0, size), "{index} of {size}");
            assert!(verify_inclusion(
                &log.leaves[index],
                index as u64,
                count,
                &path,
                &root
            ));
        }
        // Every pair of small sizes; some pairs of larger sizes, and those at both ends.
        for old in
            (1..=size).filter(|old| size <= small || old % 11 == 0 || *old < 3 || size - old < 3)
        {
            let path = leaves.consistency(old as u64, count).unwrap().unwrap();
            assert_eq!(
                path,
                definition.subproof(old, 0, size, true),
                "{old} to {size}"
            );
            assert!(verify_consistency(
                old as u64,
                count,
                &definition.root(0, old),
                &root,
                &path
            ));
        }
        assert_eq!(leaves.inclusion(count, count).unwrap(), None);
        assert_eq!(leaves.consistency(0, count).unwrap(), None);
        assert_eq!(leaves.consistency(count + 1, count).unwrap(), None);
    }
    assert!(
        FILES
            .iter()
            .all(|name| disk.get(Path::new(AUDIT).join(name)).is_none()),
        "too few to be kept"
    );
}

#[test]
fn lines_are_found_in_any_segment_and_beside_torn_batches() {
    let (disk, mut log) = log_of(3000, 2);
    // A batch that was never sealed, with exactly the numbers of the next segment.
    let last = Path::new(AUDIT).join(format!(
        "log-{:08}.jsonl",
        recover::segments(disk.as_ref(), Path::new(AUDIT))
            .unwrap()
            .len()
    ));
    let mut bytes = disk.get(&last).unwrap();
    let head = log.leaves.last().unwrap();
    let batch = log.heads.len() as u64;
    for seq in log.leaves.len()..log.leaves.len() + 50 {
        bytes.extend_from_slice(
            format!("{{\"prev\":\"{head}\",\"seq\":{seq},\"batch\":{batch},\"kind\":\"stop\",\"note\":\"torn\"}}\n").as_bytes(),
        );
    }
    disk.put(&last, &bytes);
    let (ledger, found) =
        recover::open(disk.clone(), synthetic::signer(1), None, &mut |_| Ok(())).unwrap();
    assert!(matches!(found, recover::Found::Torn(_)), "{found:?}");
    log.go_on(ledger);
    log.batch(100, "after");
    let finder = Finder::open(disk.as_ref(), Path::new(AUDIT)).unwrap();
    for (seq, leaf) in log.leaves.iter().enumerate() {
        assert_eq!(
            leaf_hash(&finder.line(seq as u64).unwrap().unwrap()),
            *leaf,
            "line {seq}"
        );
    }
    assert_eq!(finder.line(log.leaves.len() as u64).unwrap(), None);
    let mut all = Vec::new();
    finder
        .each_leaf(0, u64::MAX, &mut |leaf| all.push(leaf))
        .unwrap();
    assert_eq!(all, log.leaves);
}

/// The log has enough lines for hashes of all levels that a test can have.
#[test]
fn the_cache_is_what_the_lines_give_however_it_grew() {
    let disk = Arc::new(MemoryDisk::default());
    let mut log = Synthetic::on(disk.clone(), 0);
    let get = |level: usize| {
        disk.get(Path::new(AUDIT).join(FILES[level]))
            .unwrap_or_default()
    };
    let mut dice = Dice::new(3);
    let check = |log: &Synthetic| {
        for (level, name) in FILES.iter().enumerate() {
            let hashes = get(level);
            let group = 256_usize.pow(level as u32);
            let expected: Vec<u8> = log
                .leaves
                .chunks_exact(group)
                .take(hashes.len() / 32)
                .flat_map(|leaves| *root_of(leaves).as_bytes())
                .collect();
            assert_eq!(hashes, expected, "{name}");
        }
    };
    for target in [500, 1500, 3000, 3100, 20_000, 66_000, 135_000] {
        while log.leaves.len() < target {
            log.batch(256, "");
            if dice.one_in(60) {
                log.cut();
            }
        }
        let size = log.size();
        let mut leaves = leaves_of(disk.as_ref(), size).unwrap();
        let mut definition = Definition {
            leaves: &log.leaves,
            roots: HashMap::new(),
        };
        let all = size as usize;
        for _ in 0..200 {
            let index = dice.below(size);
            let path = leaves.inclusion(index, size).unwrap();
            assert_eq!(path, Some(definition.path(index as usize, 0, all)));
            let old = 1 + dice.below(size);
            let path = leaves.consistency(old, size).unwrap();
            assert_eq!(path, Some(definition.subproof(old as usize, 0, all, true)));
        }
        check(&log);
    }
    assert_eq!(get(2).len(), 2 * 32, "two times 65,536 lines");
    // Each file is rebuilt from the others.
    for (level, name) in FILES.iter().enumerate().take(3) {
        let before = get(level);
        disk.drop_file(Path::new(AUDIT).join(name));
        let size = log.size();
        let mut leaves = leaves_of(disk.as_ref(), size).unwrap();
        assert_eq!(
            leaves.root(size).unwrap(),
            Some(root_of(&log.leaves[..size as usize]))
        );
        assert!(get(level).len() >= before.len(), "{name}");
        check(&log);
    }
}

/// Checks that a receipt and a consistency proof of random lines equal those of the definition.
fn demand_proofs(disk: &dyn Disk, log: &Synthetic, dice: &mut Dice) {
    let prover = Prover::open(disk, Path::new(AUDIT)).unwrap();
    let head = prover.newest().unwrap();
    let (size, tree) = (log.size(), &log.leaves[..log.size() as usize]);
    assert_eq!(head.checkpoint.size, size);
    for _ in 0..4 {
        let index = dice.below(size);
        let receipt = prover.receipt(index, &head).unwrap();
        assert_eq!(receipt.path, inclusion_proof(tree, index).unwrap());
        assert_eq!(receipt.check(&synthetic::key(1)).unwrap().line.seq, index);
        let old = prover
            .head(&log.heads[dice.below(log.heads.len() as u64) as usize])
            .unwrap();
        let made = prover.extension(&old, &head).unwrap();
        assert_eq!(
            made.path,
            consistency_proof(tree, old.checkpoint.size).unwrap()
        );
    }
    prover.check_head(&head.checkpoint).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(campaign(6, 24)))]

    /// Whatever the cache contains, the proof is right: cut anywhere, longer, changed, missing, or
    /// from another log.
    #[test]
    fn no_damage_to_the_cache_makes_a_wrong_proof(seed in any::<u64>()) {
        let mut dice = Dice::new(seed);
        let (disk, mut log) = log_of(1500 + dice.up_to(2500), seed);
        for _ in 0..6 {
            demand_proofs(disk.as_ref(), &log, &mut dice);
            for name in FILES {
                let path = Path::new(AUDIT).join(name);
                let mut bytes = disk.get(&path).unwrap_or_default();
                match dice.below(7) {
                    0 => disk.drop_file(&path),
                    1 => {
                        bytes.truncate(dice.up_to(bytes.len()));
                        disk.put(&path, &bytes);
                    }
                    2 if !bytes.is_empty() => {
                        for _ in 0..=dice.up_to(40) {
                            let at = dice.below(bytes.len() as u64) as usize;
                            bytes[at] ^= 1 << dice.below(8);
                        }
                        disk.put(&path, &bytes);
                    }
                    3 => {
                        bytes.resize(bytes.len() + dice.up_to(100_000), 0);
                        disk.put(&path, &bytes);
                    }
                    4 if !bytes.is_empty() => {
                        let middle = bytes.len() / 2;
                        bytes.rotate_left(middle / 32 * 32);
                        disk.put(&path, &bytes);
                    }
                    _ => {}
                }
            }
            if dice.one_in(2) {
                log.batch(1 + dice.up_to(200), "more");
            }
        }
    }

    /// Only exactly this spelling is read, and reading never panics.
    #[test]
    fn a_receipt_is_written_as_it_was_read(bytes in proptest::collection::vec(any::<u8>(), 0..200),
        cut in any::<usize>()) {
        let _ = Receipt::parse(&bytes);
        let _ = Extension::parse(&bytes);
        let (disk, log) = small();
        let (receipt, extension) = proofs(disk.as_ref(), &log, 5);
        for (text, is_receipt) in [(receipt.text(), true), (extension.text(), false)] {
            let mut changed = text.into_bytes();
            let at = cut % changed.len();
            let end = (at + 1 + bytes.len() % 3).min(changed.len());
            changed.splice(at..end, bytes.iter().copied().take(3));
            if is_receipt {
                if let Ok(read) = Receipt::parse(&changed) {
                    prop_assert_eq!(read.text().into_bytes(), changed);
                }
            } else if let Ok(read) = Extension::parse(&changed) {
                prop_assert_eq!(read.text().into_bytes(), changed);
            }
        }
    }
}

/// Makes a log of a few batches.
fn small() -> (Arc<MemoryDisk>, Synthetic) {
    let disk = Arc::new(MemoryDisk::default());
    let mut log = Synthetic::on(disk.clone(), 0);
    for n in 0..4 {
        log.batch(3 + n, "line ");
    }
    (disk, log)
}

fn proofs(disk: &dyn Disk, log: &Synthetic, seq: u64) -> (Receipt, Extension) {
    let prover = Prover::open(disk, Path::new(AUDIT)).unwrap();
    let head = prover.newest().unwrap();
    let old = prover.head(&log.heads[1]).unwrap();
    (
        prover.receipt(seq, &head).unwrap(),
        prover.extension(&old, &head).unwrap(),
    )
}

#[test]
fn the_empty_log_is_the_beginning_of_every_log() {
    let (disk, _) = small();
    let newest = Prover::open(disk.as_ref(), Path::new(AUDIT))
        .unwrap()
        .newest()
        .unwrap();
    let first = Extension {
        old_size: 0,
        path: Vec::new(),
        checkpoint: newest.note.clone(),
    };
    let key = synthetic::key(1);
    let nothing = Checkpoint::new(synthetic::ORIGIN, 0, empty_root());
    assert_eq!(first.check(&nothing, &key), Ok(newest.checkpoint.clone()));
    let more = Extension {
        path: vec![Hash::ZERO],
        ..first.clone()
    };
    assert!(matches!(
        more.check(&nothing, &key),
        Err(ProofError::NotConsistent { .. })
    ));
    let other = Checkpoint::new(synthetic::ORIGIN, 0, Hash::ZERO);
    assert!(matches!(
        first.check(&other, &key),
        Err(ProofError::NotConsistent { .. })
    ));
}

#[test]
fn a_line_after_the_checkpoint_has_no_receipt_yet() {
    let (disk, mut log) = small();
    let prover = Prover::open(disk.as_ref(), Path::new(AUDIT)).unwrap();
    let head = prover.newest().unwrap();
    let size = head.checkpoint.size;
    // The seal of the checkpoint follows the lines that the checkpoint covers.
    assert!(
        matches!(prover.receipt(size, &head), Err(ProveError::NotYet { seq, size: s }) if (seq,
            s) == (size, size))
    );
    assert!(matches!(
        prover.receipt(size + 1, &head),
        Err(ProveError::NoLine(_))
    ));
    log.batch(1, "next");
    assert!(prover.receipt(size, &prover.newest().unwrap()).is_ok());
    // An older head still works.
    let old = prover.receipt(size - 1, &head).unwrap();
    assert_eq!(old.check(&synthetic::key(1)).unwrap().checkpoint.size, size);
}

#[test]
fn a_reader_without_write_access_gets_proofs() {
    let (disk, log) = log_of(3000, 9);
    let before = disk.files_below("");
    let locked = Layered::before(disk.clone(), |call| {
        let is_read = ["read_dir", "stat", "read", "read_log"].contains(&call.verb);
        if is_read {
            Ok(())
        } else {
            Err(std::io::ErrorKind::ReadOnlyFilesystem.into())
        }
    });
    let mut dice = Dice::new(9);
    demand_proofs(&locked, &log, &mut dice);
    // Beside a cache that ends early, and one that is wrong from some position on.
    let all: Vec<u8> = log
        .leaves
        .iter()
        .flat_map(|leaf| *leaf.as_bytes())
        .collect();
    disk.put(Path::new(AUDIT).join(FILES[0]), &all[..1000 * 32 + 7]);
    demand_proofs(&locked, &log, &mut dice);
    disk.put(
        Path::new(AUDIT).join(FILES[0]),
        &[&all[..40 * 32], &[7; 100_000]].concat(),
    );
    demand_proofs(&locked, &log, &mut dice);
    disk.drop_file(Path::new(AUDIT).join(FILES[0]));
    assert_eq!(disk.files_below(""), before);
}

/// Several provers at once, each of which may find the cache incomplete or rebuild it, while the
/// log grows.
#[test]
fn provers_do_not_disturb_each_other_nor_the_log() {
    let dir = crate::kit::folder();
    fs::create_dir(dir.path().join(AUDIT)).unwrap();
    let disk = Arc::new(RealDisk::open(dir.path()).unwrap());
    let mut log = Synthetic::on(disk.clone(), 0);
    for _ in 0..8 {
        log.batch(200, "before");
    }
    let done = AtomicBool::new(false);
    let made = std::thread::scope(|scope| {
        let provers: Vec<_> = (0..3_u64)
            .map(|number| {
                let (disk, done, dir) = (&disk, &done, &dir);
                scope.spawn(move || {
                    let mut dice = Dice::new(number);
                    let mut made = 0;
                    while !done.load(Ordering::Relaxed) || made < 20 {
                        let prover = Prover::open(disk.as_ref(), Path::new(AUDIT)).unwrap();
                        let head = prover.newest().unwrap();
                        prover
                            .receipt(dice.below(head.checkpoint.size), &head)
                            .unwrap();
                        made += 1;
                        if dice.one_in(5) {
                            let name = FILES[dice.below(2) as usize];
                            let _ = fs::remove_file(dir.path().join(AUDIT).join(name));
                        }
                    }
                    made
                })
            })
            .collect();
        for n in 0..60 {
            log.batch(150, "meanwhile");
            if n % 20 == 19 {
                log.cut();
            }
        }
        done.store(true, Ordering::Relaxed);
        provers
            .into_iter()
            .map(|prover| prover.join().unwrap())
            .sum::<u64>()
    });
    assert!(made >= 60, "{made}");
    // One more prover completes whatever the others left.
    let mut dice = Dice::new(4);
    demand_proofs(disk.as_ref(), &log, &mut dice);
    demand_proofs(disk.as_ref(), &log, &mut dice);
}
