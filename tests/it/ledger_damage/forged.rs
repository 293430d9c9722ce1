//! Segments and checkpoints that somebody changed on purpose.

use super::*;

#[test]
fn lost_swapped_and_shortened_segments() {
    let files = three_segments();
    let segment = |number: u32| files.segment(number).to_vec();
    for number in 1..=3 {
        check_refused(
            &files.with(&segment::path(number), None),
            &format!("segment {number} removed"),
        );
        check_refused(
            &files.with_segment(number, Vec::new()),
            &format!("segment {number} emptied"),
        );
    }
    let bare = files.without_checkpoint();
    for (a, b) in [(1, 2), (2, 3), (1, 3)] {
        let swapped = bare.with_segment(a, segment(b)).with_segment(b, segment(a));
        check_refused(&swapped, &format!("segments {a} and {b} swapped"));
    }
    check_refused(&bare.with_segment(4, segment(3)), "segment 3 twice");
    check_refused(&bare.with_segment(4, Vec::new()), "an empty segment 4");
    check_refused(&bare.with_segment(5, segment(3)), "a gap before segment 5");
    // The torn rest is removed, or has grown.
    let sealed = *files.seal_ends(1).last().unwrap();
    check_refused(
        &bare.with_segment(1, segment(1)[..sealed].to_vec()),
        "the frozen rest removed",
    );
    check_refused(
        &bare.with_segment(1, [segment(1), vec![0]].concat()),
        "the frozen rest grown",
    );
    for number in 1..=2 {
        let lengths = lengths_of(&segment(number));
        for_all(&lengths, |length| {
            let cut = bare.with_segment(number, segment(number)[..*length].to_vec());
            check_refused(&cut, &format!("segment {number} cut to {length} bytes"));
        });
    }
}

/// Edits, deletions, insertions and swaps with every later hash, number and root recomputed, but
/// without the key: a chain alone passes them all.
#[test]
fn a_forger_without_the_key() {
    let (_place, files, _) = small();
    let lines = lines_of(files.segment(1));
    assert_eq!(
        forge(&lines, &files.keys, Forger::HoldsSealKey),
        files.segment(1),
        "the forger's own tools"
    );
    let last_batch = files.segment(1)[..files.seal_ends(1)[2]]
        .iter()
        .filter(|b| **b == b'\n')
        .count();
    for n in 0..lines.len() {
        let mut edited = lines.clone();
        edited[n] = String::from_utf8(lines[n].clone())
            .unwrap()
            .replacen("2026-", "2027-", 1)
            .into_bytes();
        let mut deleted = lines.clone();
        deleted.remove(n);
        let mut inserted = lines.clone();
        inserted.insert(n, lines[n].clone());
        let mut swapped = lines.clone();
        swapped.swap(n, (n + 1) % lines.len());
        for (what, forged) in [
            ("edited", edited),
            ("deleted", deleted),
            ("inserted", inserted),
            ("swapped", swapped),
        ] {
            if what == "edited" && is_seal(&lines[n]) {
                continue;
            }
            let what = format!("line {n} {what}");
            let forged = files.with_segment(1, forge(&forged, &files.keys, Forger::Keyless));
            if forged.segment(1).starts_with(files.segment(1)) {
                // One seal too many after the last one: everything that was acknowledged is still
                // there.
                assert_eq!(forged.open(), Opened::Torn(whole(&files)), "{what}");
                assert!(!forged.verifies(), "{what}");
                continue;
            }
            check_refused(&forged, &what);
            let bare = forged.without_checkpoint();
            // The last seal is deleted, which is a tail cut at a line: nobody can distinguish it
            // from a torn batch.
            assert!(!bare.verifies(), "{what}: verifies without a checkpoint");
            match bare.open() {
                Opened::Corrupt(_) => {}
                Opened::Torn(_) if n + 1 >= last_batch => {}
                other => panic!("{what}: {other:?}"),
            }
        }
    }
    // A file without any seal must not pass as a log that has none yet.
    let unsealed: Vec<Vec<u8>> = lines
        .iter()
        .filter(|line| !is_seal(line))
        .cloned()
        .collect();
    let unsealed = files.with_segment(1, forge(&unsealed, &files.keys, Forger::Keyless));
    check_refused(&unsealed, "unsealed");
    check_refused(&unsealed.without_checkpoint(), "unsealed, no checkpoint");
}

/// The holder of the seal key can rewrite everything; a remembered head shows it.
#[test]
fn a_forger_with_the_seal_key() {
    let (_place, files, older) = small();
    let mut lines = lines_of(files.segment(1));
    lines[3] = String::from_utf8(lines[3].clone())
        .unwrap()
        .replacen("2026-", "2027-", 1)
        .into_bytes();
    let forged = files.with_segment(1, forge(&lines, &files.keys, Forger::HoldsSealKey));
    check_refused(&forged, "with the newest checkpoint");
    check_refused(&forged.with_checkpoint(&older), "with an older checkpoint");
    let bare = forged.without_checkpoint();
    assert!(matches!(bare.open(), Opened::Clean(_)));
    let report = bare.verify(false).unwrap();
    assert!(report.ok && report.reached == Reached::Seals, "{report:?}");
    // A head noted elsewhere shows the same.
    let heads = vec![("noted".to_owned(), String::from_utf8(older).unwrap())];
    let options = Options {
        heads,
        threads: 1,
        ..Options::default()
    };
    let disk = MemoryDisk::with(&bare.files);
    let report = verify::verify(&disk, Path::new("audit"), &options, &|_| {}).unwrap();
    assert!(
        !report.ok && report.problems[0].file == "noted",
        "{report:?}"
    );
}

/// A segment line that is signed and still wrong: a bug of the writer, or a lie of the key holder.
#[test]
fn a_sealed_segment_line_must_still_be_true() {
    let files = three_segments().without_checkpoint();
    let one = &files.segment(1)[..*files.seal_ends(1).last().unwrap()];
    let rest = files.segment(1)[one.len()..].to_vec();
    let two = &files.segment(2)[..*files.seal_ends(2).last().unwrap()];
    let sealed = format!("\"length\":{},\"lines\"", one.len());
    let text = String::from_utf8(two.to_vec()).unwrap();
    assert!(text.contains(&sealed));
    let past_end = format!("\"length\":{},\"lines\"", one.len() + rest.len() + 1000);
    let shorter = format!("\"length\":{},\"lines\"", one.len() - 1);
    let frozen = format!("\"length\":{}", rest.len());
    let past_end_rest = format!("\"length\":{}", rest.len() + 1);
    let lines = format!("\"lines\":{}", lines_of(one).len());
    for (what, from, to) in [
        (
            "a length past the end of the file",
            sealed.as_str(),
            past_end.as_str(),
        ),
        ("a shorter length", &sealed, &shorter),
        ("a rest past the end of the file", &frozen, &past_end_rest),
        ("another number of lines", &lines, "\"lines\":77"),
        ("no rest", "\"rest\":{", "\"rest\":null,\"tser\":{"),
        (
            "another file",
            "\"file\":\"log-00000001",
            "\"file\":\"log-00000009",
        ),
    ] {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text, "{what}");
        let all = [lines_of(one), lines_of(changed.as_bytes())].concat();
        let forged = forge(&all, &files.keys, Forger::HoldsSealKey);
        let (first, second) = forged.split_at(one.len());
        let forged = files
            .with(&segment::path(3), None)
            .with_segment(1, [first, &rest].concat())
            .with_segment(2, second.to_vec());
        check_refused(&forged, what);
    }
}

#[test]
fn checkpoints() {
    let (_place, files, older) = small();
    let newest = files.checkpoint();
    let signer = files.signer();
    let sign = |checkpoint: &Checkpoint, signer: &SignerKey| {
        note::sign_checkpoint(checkpoint, signer)
            .unwrap()
            .into_bytes()
    };
    let (size, root) = {
        let text = String::from_utf8(newest.clone()).unwrap();
        let parsed = note::open_checkpoint(&text, signer.verifier(), ORIGIN).unwrap();
        (parsed.size, parsed.root)
    };
    let other_root = sign(&Checkpoint::new(ORIGIN, size, leaf_hash(b"x")), &signer.log);
    let between = sign(&Checkpoint::new(ORIGIN, size - 1, root), &signer.log);
    let beyond = sign(&Checkpoint::new(ORIGIN, size + 2, root), &signer.log);
    let stranger = SignerKey::from_seed(ORIGIN, &[9; 32]).unwrap();
    let stranger = sign(
        &Checkpoint::new(ORIGIN, size + 2, leaf_hash(b"x")),
        &stranger,
    );
    let mut garbage = newest.clone();
    garbage.iter_mut().for_each(|byte| *byte ^= 0xff);
    // How opening and verifying treat a checkpoint: true means accepted.
    for (what, checkpoint, opens, verifies) in [
        ("newest", newest.clone(), true, true),
        ("older", older, true, true),
        // A power cut can leave an empty or incomplete checkpoint, because it is published by
        // rename, without a sync.
        ("empty", Vec::new(), true, false),
        ("half", newest[..newest.len() / 2].to_vec(), true, false),
        ("garbage", garbage, true, false),
        // Only heads signed with this log's key count; otherwise anybody could stop the gate with a
        // file.
        ("a stranger's", stranger, true, false),
        ("two roots for one size", other_root, false, false),
        ("no seal has this size", between, false, false),
        ("more than there is", beyond, false, false),
    ] {
        let files = files.with_checkpoint(&checkpoint);
        let opened = files.open();
        assert_eq!(
            matches!(opened, Opened::Clean(_)),
            opens,
            "{what}: {opened:?}"
        );
        assert_eq!(
            matches!(opened, Opened::Corrupt(_)),
            !opens,
            "{what}: {opened:?}"
        );
        assert_eq!(files.verifies(), verifies, "{what}");
    }
    // Flips every bit: opening accepts only the log as it is, and verify reports the rest.
    for_all(&every_bit(0..newest.len()), |(at, bit)| {
        let files = files.with_checkpoint(&flipped(&newest, *at, *bit));
        assert!(
            matches!(files.open(), Opened::Clean(_)),
            "byte {at}, bit {bit}"
        );
        assert!(!files.verifies(), "byte {at}, bit {bit}");
    });
}
