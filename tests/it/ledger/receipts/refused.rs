//! Proofs and receipts that are refused.

use super::*;

/// The text of a proof with one error in its form, and the message about it.
#[test]
fn another_spelling_of_a_proof_is_refused() {
    let (disk, log) = small();
    let (receipt, extension) = proofs(disk.as_ref(), &log, 5);
    let text = receipt.text();
    let hash = receipt.path[0].to_base64();
    let many = format!("{hash}\n").repeat(PATH_HASHES_MAX);
    let bad: Vec<(String, ProofError)> = vec![
        (String::new(), ProofError::Header),
        (text.replace("@v1", "@v2"), ProofError::Header),
        (text.replace("@v1\n", "@v1\r\n"), ProofError::Header),
        (text.replace("extra ", "Extra "), ProofError::Index),
        (text.replace("extra ", "extra  "), ProofError::Extra),
        (text.replace("index 5", "index 05"), ProofError::Index),
        (text.replace("index 5", "index +5"), ProofError::Index),
        (
            text.replace("index 5", "index 18446744073709551616"),
            ProofError::Index,
        ),
        (text.replace("index 5\n", ""), ProofError::Index),
        (text.replace("index 5\n", "index 5\r\n"), ProofError::Index),
        (text.replacen(&hash, &hash[1..], 1), ProofError::PathHash(1)),
        (
            text.replacen(&hash, &format!("{hash} "), 1),
            ProofError::PathHash(1),
        ),
        (
            text.replacen(&format!("{hash}\n"), &many, 1),
            ProofError::PathTooLong,
        ),
        (
            text[..text.find("\n\n").unwrap()].to_owned(),
            ProofError::NoCheckpoint,
        ),
    ];
    for (text, error) in bad {
        assert_eq!(Receipt::parse(text.as_bytes()), Err(error), "{text}");
    }
    assert_eq!(Receipt::parse(&[b'c', 0xff]), Err(ProofError::NotText(1)));
    assert_eq!(
        Receipt::parse(&vec![b'x'; 2_000_000]),
        Err(ProofError::TooLarge)
    );
    assert_eq!(Receipt::parse(text.as_bytes()), Ok(receipt.clone()));

    // It parses, and proves nothing.
    let key = synthetic::key(1);
    let fails = |changed: Receipt, error: ProofError| {
        assert_eq!(
            Receipt::parse(changed.text().as_bytes()),
            Ok(changed.clone())
        );
        assert_eq!(changed.check(&key), Err(error));
    };
    let size = log.size();
    fails(
        Receipt {
            extra: None,
            ..receipt.clone()
        },
        ProofError::NoLine,
    );
    fails(
        Receipt {
            index: 6,
            ..receipt.clone()
        },
        ProofError::NotIncluded { index: 6, size },
    );
    fails(
        Receipt {
            index: size,
            ..receipt.clone()
        },
        ProofError::NotIncluded { index: size, size },
    );
    fails(
        Receipt {
            path: Vec::new(),
            ..receipt.clone()
        },
        ProofError::NotIncluded { index: 5, size },
    );
    assert!(matches!(
        receipt.check(&synthetic::key(2)),
        Err(ProofError::Checkpoint(_))
    ));

    let text = extension.text();
    let first = format!("old {}\n", extension.old_size);
    assert!(text.starts_with(&first));
    for other in [
        "old 05\n", "old +5\n", "old -5\n", "Old 5\n", "old  5\n", "old 5 \n", "old\n", "5\n", "",
    ] {
        let changed = text.replacen(&first, other, 1);
        assert_eq!(
            Extension::parse(changed.as_bytes()),
            Err(ProofError::OldSize),
            "{other}"
        );
    }
    assert_eq!(Extension::parse(text.as_bytes()), Ok(extension));
}

/// A line that a log signed at another number than the one in the line must not pass for that
/// number.
#[test]
fn a_line_with_a_wrong_number_is_not_accepted() {
    let signer = synthetic::signer(1);
    let line = format!(
        r#"{{"prev":"{}","seq":7,"batch":0,"kind":"stop","note":"n"}}"#,
        Hash::ZERO
    )
    .into_bytes();
    let sign =
        |root| sign_checkpoint(&Checkpoint::new(synthetic::ORIGIN, 1, root), &signer.log).unwrap();
    let receipt = Receipt::new(line.clone(), 0, Vec::new(), sign(leaf_hash(&line)));
    assert_eq!(
        receipt.check(&synthetic::key(1)),
        Err(ProofError::Seq { index: 0, seq: 7 })
    );
    let junk = b"no ledger line".to_vec();
    let receipt = Receipt::new(junk.clone(), 0, Vec::new(), sign(leaf_hash(&junk)));
    assert!(matches!(
        receipt.check(&synthetic::key(1)),
        Err(ProofError::Line(_))
    ));
}

#[test]
fn heads_of_one_size_and_two_roots_are_a_fork() {
    let (disk, log) = small();
    let prover = Prover::open(disk.as_ref(), Path::new(AUDIT)).unwrap();
    let signer = synthetic::signer(1);
    let sign = |size, root| {
        sign_checkpoint(&Checkpoint::new(synthetic::ORIGIN, size, root), &signer.log).unwrap()
    };
    let newest = prover.newest().unwrap();
    let (size, root) = (newest.checkpoint.size, newest.checkpoint.root);
    let other = leaf_hash(b"another history");
    let forked = prover.head(&sign(size, other)).unwrap();
    // Both heads are at hand, so nothing else is read.
    let fork = ProofError::Fork {
        size,
        one: other,
        other: root,
    };
    assert!(
        matches!(prover.extension(&forked, &newest), Err(ProveError::Proof(error)) if error == fork)
    );
    let same = prover.extension(&newest, &newest).unwrap();
    assert_eq!(
        same.check(&forked.checkpoint, &synthetic::key(1)),
        Err(fork.clone())
    );
    assert!(fork.to_string().starts_with("FORK") && fork.to_string().contains(&root.to_string()));
    assert_eq!(
        same.check(&newest.checkpoint, &synthetic::key(1)),
        Ok(newest.checkpoint.clone())
    );

    // A signed head of an earlier size that this log never had.
    let old = prover.head(&log.heads[1]).unwrap().checkpoint;
    let forked = prover.head(&sign(old.size, other)).unwrap();
    let said = prover.extension(&forked, &newest).unwrap_err();
    assert!(
        matches!(said, ProveError::Fork { size, signed, sealed } if (size, signed,
            sealed) == (old.size, other, old.root)),
        "{said}"
    );
    assert!(said.to_string().starts_with("FORK"));
    assert!(matches!(
        prover.check_head(&forked.checkpoint),
        Err(ProveError::Fork { .. })
    ));
    // A receipt under it cannot be made.
    assert!(matches!(
        prover.receipt(1, &forked),
        Err(ProveError::Fork { .. })
    ));

    // Between two seals, and after the end.
    for size in [old.size + 1, size + 5] {
        let head = prover.head(&sign(size, other)).unwrap();
        assert!(
            matches!(
                prover.check_head(&head.checkpoint),
                Err(ProveError::OffLog { .. })
            ),
            "{size}"
        );
    }
    let head = prover.head(&sign(size + 5, other)).unwrap();
    assert!(matches!(
        prover.extension(&newest, &head),
        Err(ProveError::OffLog { .. })
    ));
    let order = check_order(&newest.checkpoint, &old);
    assert_eq!(
        order,
        Err(ProofError::Order {
            old: size,
            new: old.size
        })
    );
}

/// The first proof for a witness: every log continues the empty one. A consistency proof with any
/// change proves nothing; the longest possible path is read.
#[test]
fn a_changed_path_or_size_shows_nothing() {
    let (disk, log) = small();
    let (receipt, extension) = proofs(disk.as_ref(), &log, 5);
    let prover = Prover::open(disk.as_ref(), Path::new(AUDIT)).unwrap();
    let old = prover.head(&log.heads[1]).unwrap().checkpoint;
    let key = synthetic::key(1);
    extension.check(&old, &key).unwrap();
    assert!(extension.path.len() > 1);
    let mut changed = Vec::new();
    for at in 0..extension.path.len() {
        let mut path = extension.path.clone();
        path[at] = leaf_hash(b"another");
        changed.push(path);
        let mut path = extension.path.clone();
        path.remove(at);
        changed.push(path);
        let mut path = extension.path.clone();
        path.insert(at, leaf_hash(b"one more"));
        changed.push(path);
    }
    changed.push([extension.path.clone(), vec![leaf_hash(b"one more")]].concat());
    for path in changed {
        let refused = Extension {
            path,
            ..extension.clone()
        }
        .check(&old, &key)
        .unwrap_err();
        assert!(
            matches!(refused, ProofError::NotConsistent { .. }),
            "{refused}"
        );
    }
    for old_size in [0, old.size - 1, old.size + 1] {
        let refused = Extension {
            old_size,
            ..extension.clone()
        }
        .check(&old, &key)
        .unwrap_err();
        assert!(
            matches!(refused, ProofError::OtherOld { .. }),
            "{old_size}: {refused}"
        );
    }
    let elsewhere = Checkpoint::new("example.org/other", old.size, old.root);
    let refused = extension.check(&elsewhere, &key).unwrap_err();
    assert!(matches!(refused, ProofError::OtherLog { .. }), "{refused}");
    let of = |hashes: usize| {
        Receipt {
            path: vec![leaf_hash(b""); hashes],
            ..receipt.clone()
        }
        .text()
    };
    assert!(Receipt::parse(of(63).as_bytes()).is_ok());
    assert!(matches!(
        Receipt::parse(of(64).as_bytes()),
        Err(ProofError::PathTooLong)
    ));
}
