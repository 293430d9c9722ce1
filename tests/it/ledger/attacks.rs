//! The table "What each layer proves" of docs/evidence.md, row by row: each attack is performed on
//! a real ledger, and each layer must find it exactly where the table says so. Layers must also not
//! find what the table says they cannot: otherwise the table would be wrong.

use std::collections::BTreeSet;
use std::path::Path;

use crate::kit::ledger_files::{
    Files, Forger, Opened, forge, is_seal, lines_of, small, three_segments,
};
use crate::kit::memory_disk::MemoryDisk;
use crate::kit::place::{ORDER, ORIGIN, Place, drain};
use spoolgate_host::keyring::LogKeys;
use spoolgate_ledger::note::{self, Checkpoint, VerifierKey};
use spoolgate_ledger::segment::{self, Segment};
use spoolgate_ledger::tree::{Frontier, Hash, leaf_hash};
use spoolgate_ledger::verify::{self, Options, Reached, Report};
use spoolgate_wire::signing::hex;

/// What each layer found. Each layer includes the layers before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Finds {
    /// `audit verify --chain`.
    chain: bool,
    /// `audit verify` of a folder without any checkpoint.
    seals: bool,
    /// `audit verify --head` with a head that was noted elsewhere.
    head: bool,
}

/// Every layer finds it.
const BY_ALL: Finds = Finds {
    chain: true,
    seals: true,
    head: true,
};
/// The links do not find it, the seals do.
const BY_SEALS: Finds = Finds {
    chain: false,
    seals: true,
    head: true,
};
/// Only a head that was noted finds it.
const BY_HEAD: Finds = Finds {
    chain: false,
    seals: false,
    head: true,
};
/// Nothing finds it.
const BY_NOBODY: Finds = Finds {
    chain: false,
    seals: false,
    head: false,
};

fn verified(files: &Files, options: &Options) -> Report {
    let disk = MemoryDisk::with(&files.files);
    verify::verify(&disk, Path::new("audit"), options, &|_| {}).unwrap()
}

/// Runs every layer. A layer that accepts the log must state exactly what it reached.
fn found_by(files: &Files, head: &[u8]) -> Finds {
    let bare = files.without_checkpoint();
    let ask = |options: Options, reached: Reached| {
        let report = verified(&bare, &options);
        assert!(!report.ok || report.reached == reached, "{report:?}");
        assert_eq!(report.ok, report.problems.is_empty());
        !report.ok
    };
    let heads = vec![(
        "noted".to_owned(),
        String::from_utf8(head.to_vec()).unwrap(),
    )];
    Finds {
        chain: ask(
            Options {
                chain: true,
                ..Options::default()
            },
            Reached::Chain,
        ),
        seals: ask(Options::default(), Reached::Seals),
        head: ask(
            Options {
                heads,
                ..Options::default()
            },
            Reached::RememberedHead,
        ),
    }
}

fn check(files: &Files, head: &[u8], expected: Finds, what: &str) {
    assert_eq!(found_by(files, head), expected, "{what}");
}

fn kind_of(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    text.split("\"kind\":\"")
        .nth(1)
        .unwrap()
        .split('"')
        .next()
        .unwrap()
        .to_owned()
}

fn with_lines(files: &Files, lines: &[Vec<u8>]) -> Files {
    files.with_segment(1, [lines.join(&b'\n'), vec![b'\n']].concat())
}

/// Edits the body of every line, doubles it, removes it and swaps it with the next, and swaps every
/// two batches. The number is that of the first changed line.
fn edits(lines: &[Vec<u8>]) -> Vec<(String, usize, Vec<Vec<u8>>)> {
    let mut all = Vec::new();
    for (n, line) in lines.iter().enumerate() {
        let kind = kind_of(line);
        let text = String::from_utf8(line.clone()).unwrap();
        let (from, to) = match kind.as_str() {
            "seal" => ("\"root\":\"", "\"root\":\"0"),
            "published" => ("\"up_to\":", "\"up_to\":1"),
            _ => ("\"timestamp\":\"2026-", "\"timestamp\":\"2027-"),
        };
        let edited = text.replacen(from, to, 1);
        assert_ne!(edited, text, "{kind}");
        let mut put = |what: &str, change: &dyn Fn(&mut Vec<Vec<u8>>)| {
            let mut changed = lines.to_vec();
            change(&mut changed);
            all.push((format!("line {n}, {kind}: {what}"), n, changed));
        };
        put("edited", &|lines| lines[n] = edited.clone().into_bytes());
        put("doubled", &|lines| lines.insert(n, lines[n].clone()));
        put("taken out", &|lines| drop(lines.remove(n)));
        if n + 1 < lines.len() {
            put("swapped with the next", &|lines| lines.swap(n, n + 1));
        }
    }
    let ends: Vec<usize> = (0..lines.len())
        .filter(|n| is_seal(&lines[*n]))
        .map(|n| n + 1)
        .collect();
    for (a, b) in ends.windows(2).map(|pair| (pair[0], pair[1])) {
        let begin = ends
            .iter()
            .rev()
            .find(|end| **end < a)
            .copied()
            .unwrap_or(0);
        let mut swapped = lines.to_vec();
        swapped[begin..b].rotate_left(a - begin);
        all.push((
            format!("batches before and behind line {a} swapped"),
            begin,
            swapped,
        ));
    }
    all
}

/// Makes a ledger with every kind of line that a day of orders has, and its newest head.
fn day() -> (Files, Vec<u8>) {
    let place = Place::new(4);
    let bot = place.ask_for_agent_key("k1");
    let mut home = place.open().unwrap();
    drain(&mut home).unwrap();
    place.ask(&bot, "trend-bot", "o1", "order.submit", ORDER);
    place.ask(&bot, "trend-bot", "l1", "orders.list", "{}");
    drain(&mut home).unwrap();
    home.finish("stop").unwrap();
    drop(home);
    let files = Files::of(&place);
    let head = files.checkpoint();
    let kinds: BTreeSet<String> = lines_of(files.segment(1))
        .iter()
        .map(|line| kind_of(line))
        .collect();
    let expected = ["decision", "genesis", "published", "seal", "stop", "tick"];
    let missing: Vec<&&str> = expected
        .iter()
        .filter(|kind| !kinds.contains(**kind))
        .collect();
    assert!(missing.is_empty(), "no {missing:?} in {kinds:?}");
    (files, head)
}

#[test]
fn an_unchanged_ledger_passes_every_layer() {
    let (files, head) = day();
    check(&files, &head, BY_NOBODY, "untouched");
    check(
        &three_segments(),
        &three_segments().checkpoint(),
        BY_NOBODY,
        "three segments",
    );
}

/// Row 1: edit, insert, delete, reorder; hashes are not recomputed. The last line belongs to row 3,
/// because no link names it.
#[test]
fn edited_and_nothing_recomputed() {
    let (files, head) = day();
    let lines = lines_of(files.segment(1));
    let mut checked = 0;
    for (what, n, changed) in edits(&lines) {
        let only_the_last = n + 1 == lines.len() && !what.ends_with("doubled");
        if !only_the_last {
            check(&with_lines(&files, &changed), &head, BY_ALL, &what);
            checked += 1;
        }
    }
    assert!(checked > 40, "{checked}");
}

/// Row 2: the same, with every later hash recomputed, without the key.
#[test]
fn edited_and_every_later_hash_recomputed() {
    let (files, head) = day();
    let lines = lines_of(files.segment(1));
    let mut checked = 0;
    for (what, n, changed) in edits(&lines) {
        let same = forge(&changed, &files.keys, Forger::Keyless);
        let forged = files.with_segment(1, same.clone());
        if same == files.segment(1) {
            // The root of an edited seal was recomputed too, so nothing of the edit is left.
            assert!(what.contains("seal: edited"), "{what}");
        } else if kind_of(&changed[0]) != "genesis" || what.starts_with("line 0, genesis: doubled")
        {
            // The first line names the keys and cannot be anywhere else.
            assert_eq!(n, 0, "{what}");
            check(&forged, &head, BY_ALL, &what);
        } else {
            check(&forged, &head, BY_SEALS, &what);
            checked += 1;
        }
    }
    assert!(checked > 30, "{checked}");
}

/// Row 3: damage to the last sealed batch, where no later line names what is damaged. Links show
/// nothing. Verify flags that the seal does not hold, but a gate without a head can only treat the
/// batch as torn; a head decides it.
#[test]
fn the_last_sealed_batch_damaged() {
    let (files, head) = day();
    let log = files.segment(1).to_vec();
    let ends = files.seal_ends(1);
    let last_line = log[..log.len() - 1]
        .iter()
        .rposition(|byte| *byte == b'\n')
        .unwrap()
        + 1;
    let check_damage = |bytes: Vec<u8>, what: String| {
        let damaged = files.with_segment(1, bytes);
        check(&damaged, &head, BY_SEALS, &what);
        let bare = damaged.without_checkpoint();
        assert!(
            matches!(bare.open(), Opened::Torn(_)),
            "{what}: {:?}",
            bare.open()
        );
        assert!(
            matches!(damaged.open(), Opened::Corrupt(_)),
            "{what}: {:?}",
            damaged.open()
        );
    };
    let body = last_line
        + String::from_utf8_lossy(&log[last_line..])
            .find("\"size\":")
            .unwrap();
    for at in body..log.len() - 2 {
        let mut flipped = log.clone();
        flipped[at] ^= 1 << (at % 8);
        // A line that ends early is not a line, and the check of links detects that.
        if flipped[at] != b'\n' {
            check_damage(flipped, format!("byte {at}"));
        }
    }
    // A cut after any line of the batch except its seal: nothing there names what is gone.
    let begin = ends[ends.len() - 2];
    let cuts: Vec<usize> = (begin..last_line).filter(|at| log[*at] == b'\n').collect();
    assert!(!cuts.is_empty());
    for cut in cuts {
        check_damage(log[..=cut].to_vec(), format!("cut to {} bytes", cut + 1));
    }
    // A line of the batch that a later line names belongs to row 1.
    let mut flipped = log.clone();
    flipped[begin + 150] ^= 1;
    check(
        &files.with_segment(1, flipped),
        &head,
        BY_ALL,
        "a line of the last batch",
    );
}

/// Row 4: the tail is cut at a seal. Only a head over more lines than are left finds it.
#[test]
fn the_tail_cut_at_a_seal() {
    let (_place, files, older) = small();
    let newest = files.checkpoint();
    let log = files.segment(1).to_vec();
    let ends = files.seal_ends(1);
    for end in &ends[..ends.len() - 1] {
        let cut = files.with_segment(1, log[..*end].to_vec());
        check(&cut, &newest, BY_HEAD, &format!("cut at {end}"));
        assert!(
            matches!(cut.without_checkpoint().open(), Opened::Clean(_)),
            "{end}"
        );
        assert!(
            matches!(cut.open(), Opened::Corrupt(_)),
            "{end}: the gate has the newest head"
        );
    }
    // An older head finds only cuts before its own end.
    let known = ends[ends.len() - 2];
    check(
        &files.with_segment(1, log[..known].to_vec()),
        &older,
        BY_NOBODY,
        "cut behind the older head",
    );
    let further = ends[ends.len() - 3];
    check(
        &files.with_segment(1, log[..further].to_vec()),
        &older,
        BY_HEAD,
        "cut before the older head",
    );
    // The same for whole files.
    let three = three_segments();
    let newest = three.checkpoint();
    let one = three.segment(1)[..*three.seal_ends(1).last().unwrap()].to_vec();
    let cut = three
        .with(&segment::path(3), None)
        .with(&segment::path(2), None)
        .with_segment(1, one);
    check(
        &cut,
        &newest,
        BY_HEAD,
        "two files taken away, with what tells of them",
    );
}

/// Row 5: the holder of both keys rewrites the whole log, including the checkpoint. Only holders of
/// older heads find it, and only if the change is before their head.
#[test]
fn rewritten_by_the_holder_of_the_keys() {
    let (_place, files, older) = small();
    let newest = files.checkpoint();
    let lines = lines_of(files.segment(1));
    let known = parsed(&files, &older).size;
    for n in (0..lines.len()).filter(|n| !is_seal(&lines[*n])) {
        let mut changed = lines.clone();
        let text = String::from_utf8(lines[n].clone()).unwrap();
        changed[n] = text.replacen("2026-", "2027-", 1).into_bytes();
        let bytes = forge(&changed, &files.keys, Forger::HoldsSealKey);
        assert_ne!(bytes, files.segment(1));
        let rewritten = files.with_segment(1, bytes);
        let own = head_of(&rewritten);
        let what = format!("line {n} rewritten");
        check(
            &rewritten,
            &own,
            BY_NOBODY,
            &format!("{what}, by the new checkpoint"),
        );
        check(
            &rewritten,
            &newest,
            BY_HEAD,
            &format!("{what}, by the newest head"),
        );
        let expected = if (n as u64) < known {
            BY_HEAD
        } else {
            BY_NOBODY
        };
        check(
            &rewritten,
            &older,
            expected,
            &format!("{what}, by an older head"),
        );
        // The gate itself has the newest head in the folder.
        assert!(matches!(rewritten.open(), Opened::Corrupt(_)), "{what}");
        assert!(
            matches!(rewritten.with_checkpoint(&own).open(), Opened::Clean(_)),
            "{what}"
        );
    }
}

/// Another attack that belongs to the last row: without any key, an attacker can still write a
/// whole new log with keys of its own. That log is sound; only the key that was noted earlier, or a
/// head, shows that it is another log.
#[test]
fn another_log_with_other_keys_under_the_same_name() {
    let (_place, files, _) = small();
    let newest = files.checkpoint();
    let noted: VerifierKey = verified(&files, &Options::default())
        .log_key
        .parse()
        .unwrap();
    let theirs = Files::of(&Place::new(77));
    check(&theirs, &newest, BY_HEAD, "another log");
    let own = Options {
        key: Some(noted),
        ..Options::default()
    };
    assert!(!verified(&theirs, &own).ok, "--key tells");
    assert!(verified(&files, &own).ok);
    // The same lines under other keys: the genesis line names those keys.
    let keys: &LogKeys = &theirs.keys;
    let mut lines = lines_of(files.segment(1));
    let genesis = String::from_utf8(lines[0].clone()).unwrap();
    let field = |text: &str, field: &str| {
        let at = text.find(field).unwrap() + field.len();
        text[at..at + text[at..].find('"').unwrap()].to_owned()
    };
    let their_genesis = String::from_utf8(lines_of(theirs.segment(1))[0].clone()).unwrap();
    let taken = ["\"log_key\":\"", "\"seal_key\":\""]
        .iter()
        .fold(genesis, |genesis, name| {
            genesis.replacen(&field(&genesis, name), &field(&their_genesis, name), 1)
        });
    lines[0] = taken.into_bytes();
    let taken = files.with_segment(1, forge(&lines, keys, Forger::HoldsSealKey));
    check(&taken, &newest, BY_HEAD, "taken over");
    assert!(!verified(&taken, &own).ok, "--key tells");
}

/// A copy of a home continues by itself: two logs of the same keys with a common beginning. Each is
/// sound. A head of one finds the other, so heads must be compared.
#[test]
fn two_continuations_of_one_log() {
    let (place, files, older) = small();
    let copy = place.fork();
    for (place, id) in [(&place, "l8"), (&copy, "l9")] {
        place.ask_as_owner(id, "orders.list", "{}");
        drain(&mut place.open().unwrap()).unwrap();
    }
    let (one, two) = (Files::of(&place), Files::of(&copy));
    for (files, own, other) in [(&one, &one, &two), (&two, &two, &one)] {
        check(files, &own.checkpoint(), BY_NOBODY, "its own head");
        check(files, &other.checkpoint(), BY_HEAD, "the other's head");
        check(files, &older, BY_NOBODY, "a head from before they parted");
    }
    // Lines of one log after the beginning of the other: every layer finds them, unless they
    // continue it unchanged.
    let ends = files.seal_ends(1);
    let before = ends[ends.len() - 2];
    let mixed = [
        &files.segment(1)[..before],
        &two.segment(1)[*ends.last().unwrap()..],
    ]
    .concat();
    check(
        &files.with_segment(1, mixed),
        &files.checkpoint(),
        BY_ALL,
        "a batch left out between",
    );
}

fn parsed(files: &Files, head: &[u8]) -> Checkpoint {
    let text = String::from_utf8(head.to_vec()).unwrap();
    note::open_checkpoint(&text, files.signer().verifier(), ORIGIN).unwrap()
}

/// Returns the checkpoint that the holder of the log key would sign for these files.
fn head_of(files: &Files) -> Vec<u8> {
    let report = verified(&files.without_checkpoint(), &Options::default());
    assert!(report.ok, "{report:?}");
    let checkpoint = Checkpoint::new(
        ORIGIN,
        report.lines - 1,
        Hash::from_hex(&report.root).unwrap(),
    );
    note::sign_checkpoint(&checkpoint, &files.signer().log)
        .unwrap()
        .into_bytes()
}

/// Joins the lines of several files and recomputes every hash and number, and what each file states
/// about the file before it. The files are whole, without torn rests.
fn chained_again(files: &Files, parts: &[Vec<Vec<u8>>], forger: Forger) -> Files {
    let mut lines: Vec<Vec<u8>> = Vec::new();
    let mut forged: Vec<Vec<u8>> = Vec::new();
    let mut changed = files.without_checkpoint();
    for (part, number) in parts.iter().zip(1..) {
        let mut part = part.clone();
        if let Some(before) = forged.last() {
            let text = String::from_utf8(part[0].clone()).unwrap();
            let (start, body) = text.split_at(text.find("\"previous\":").unwrap());
            let mut told: Segment = serde_json::from_str(&format!("{{{body}")).unwrap();
            told.previous.file = segment::file_name(number - 1);
            told.previous.length = before.len() as u64;
            told.previous.lines = lines_of(before).len() as u64;
            told.previous.head = leaf_hash(lines_of(before).last().unwrap()).to_string();
            told.rest = None;
            part[0] =
                format!("{start}{}", &serde_json::to_string(&told).unwrap()[1..]).into_bytes();
        }
        lines.extend(part);
        let all = forge(&lines, &files.keys, forger);
        let known: usize = forged.iter().map(Vec::len).sum();
        forged.push(all[known..].to_vec());
        changed = changed.with_segment(number, forged.last().unwrap().clone());
    }
    changed
}

fn sealed_lines(files: &Files, number: u32) -> Vec<Vec<u8>> {
    lines_of(&files.segment(number)[..*files.seal_ends(number).last().unwrap()])
}

/// Swaps, doubles and removes whole files, and exchanges them with files of another log of the same
/// name.
#[test]
fn segments_swapped_and_chained_again() {
    let files = three_segments();
    let head = files.checkpoint();
    let parts: Vec<_> = (1..=3).map(|number| sealed_lines(&files, number)).collect();
    let segment = |number: u32| files.segment(number).to_vec();
    let swapped = files
        .with_segment(2, segment(3))
        .with_segment(3, segment(2));
    check(&swapped, &head, BY_ALL, "swapped");
    check(
        &files.with_segment(3, segment(2)),
        &head,
        BY_ALL,
        "the second twice",
    );
    let gone = files
        .with_segment(2, segment(3))
        .with(&segment::path(3), None);
    check(&gone, &head, BY_ALL, "the second taken out");
    // Another log of this name, with keys of its own.
    let other = {
        let place = Place::new(5);
        place.ask_for_agent_key("k1");
        drain(&mut place.open().unwrap()).unwrap();
        place.open().unwrap().finish("stop").unwrap();
        Files::of(&place)
    };
    let mut theirs = lines_of(other.segment(1));
    theirs.remove(0);
    let with_theirs = [vec![parts[1][0].clone()], theirs].concat();
    check(
        &files.with_segment(2, other.segment(1).to_vec()),
        &head,
        BY_ALL,
        "a file of another log",
    );
    // The same with everything recomputed: now the seals must find it instead of the links.
    for (what, order) in [
        (
            "swapped",
            vec![parts[0].clone(), parts[2].clone(), parts[1].clone()],
        ),
        (
            "the second twice",
            vec![parts[0].clone(), parts[1].clone(), parts[1].clone()],
        ),
        (
            "the second taken out",
            vec![parts[0].clone(), parts[2].clone()],
        ),
        (
            "lines of another log",
            vec![parts[0].clone(), with_theirs, parts[2].clone()],
        ),
    ] {
        let base = if order.len() == 2 {
            files.with(&segment::path(3), None)
        } else {
            files.clone()
        };
        let keyless = chained_again(&base, &order, Forger::Keyless);
        check(&keyless, &head, BY_SEALS, &format!("{what}, chained again"));
        let keyed = chained_again(&base, &order, Forger::HoldsSealKey);
        check(
            &keyed,
            &head,
            BY_HEAD,
            &format!("{what}, chained and sealed again"),
        );
    }
    // The tool that forges changes nothing if there is nothing to forge except torn rests.
    let untouched = chained_again(&files, &parts, Forger::HoldsSealKey);
    check(&untouched, &head_of(&untouched), BY_NOBODY, "chained again");
}

/// The signature of a seal is for one place in one log: it covers size, root, the line before and
/// the name.
#[test]
fn a_seal_moved_to_another_place() {
    let (_place, files, _) = small();
    let head = files.checkpoint();
    let lines = lines_of(files.segment(1));
    let seals: Vec<usize> = (0..lines.len()).filter(|n| is_seal(&lines[*n])).collect();
    let signature = |line: &[u8]| {
        let text = String::from_utf8(line.to_vec()).unwrap();
        let at = text.find("\"sig\":\"").unwrap() + 7;
        text[at..at + 88].to_owned()
    };
    for (a, b) in [(0, 1), (1, 2), (0, 3)] {
        let (a, b) = (seals[a], seals[b]);
        let mut changed = lines.clone();
        let text = String::from_utf8(lines[b].clone()).unwrap();
        changed[b] = text
            .replace(&signature(&lines[b]), &signature(&lines[a]))
            .into_bytes();
        let forged = files.with_segment(1, forge(&changed, &files.keys, Forger::Keyless));
        check(
            &forged,
            &head,
            BY_SEALS,
            &format!("seal {b} with the signature of {a}"),
        );
    }
}

/// The root in a head covers the whole log before it: nobody can present other lines under a head,
/// with or without the key.
#[test]
fn a_head_says_what_all_lines_are() {
    let (files, head) = day();
    let checkpoint = parsed(&files, &head);
    let tree: Frontier = lines_of(files.segment(1))
        .iter()
        .take(usize::try_from(checkpoint.size).unwrap())
        .map(|line| leaf_hash(line))
        .collect();
    assert_eq!(
        tree.root(),
        checkpoint.root,
        "{}",
        hex(checkpoint.root.as_bytes())
    );
}
