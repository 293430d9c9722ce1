//! Notes and checkpoints against published examples, malformed input and every single-bit flip.
//!
//! The two verifier keys, the text and its signatures are the published test values of Go's
//! golang.org/x/mod (sumdb/note/note_test.go, BSD-3-Clause); the checkpoint text is the example of
//! <https://c2sp.org/tlog-checkpoint>.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use spoolgate_ledger::note::{
    Checkpoint, KeyError, NOTE_BYTES_MAX, NoteError, SignerKey, VerifierKey, open_checkpoint,
    open_note, sign_checkpoint, sign_note,
};
use spoolgate_ledger::tree::leaf_hash;

const PETER: &str = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";
const ENOCH: &str = "EnochRoot+af0cfe78+ATtqJ7zOtqQtYqOo0CpvDXNlMhV3HeJDpjrASKGLWdop";
const TEXT: &str = "If you think cryptography is the answer to your problem,\n\
                    then you don't know what your problem is.\n";
const PETER_LINE: &str = "— PeterNeumann \
    x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n";
const ENOCH_LINE: &str = "— EnochRoot \
    rwz+eBzmZa0SO3NbfRGzPCpDckykFXSdeX+MNtCOXm2/5n2tiOHp+vAF1aGrQ5ovTG01oOTGwnWLox33WWd1RvMc+QQ=\n";
const ORIGIN: &str = "gate.example/desk";

fn vkey(text: &str) -> VerifierKey {
    text.parse().unwrap()
}

/// Returns the key and a checkpoint note that an unknown witness also signed, with its line first
/// or last.
fn witnessed(witness_first: bool) -> (VerifierKey, Checkpoint, String) {
    let signer = SignerKey::from_seed(ORIGIN, &[1; 32]).unwrap();
    let witness = SignerKey::from_seed("witness.example", &[2; 32]).unwrap();
    let checkpoint = Checkpoint::new(ORIGIN, 1_234, leaf_hash(b"line"));
    let text = checkpoint.text();
    let line = |key| sign_note(&text, key).unwrap()[text.len() + 1..].to_owned();
    let (log_line, witness_line) = (line(&signer), line(&witness));
    let lines = if witness_first {
        witness_line + &log_line
    } else {
        log_line + &witness_line
    };
    (
        signer.verifier().clone(),
        checkpoint,
        format!("{text}\n{lines}"),
    )
}

#[test]
fn published_notes_open() {
    let check = |lines: &str, known: &[&str], expect: Result<Vec<&str>, NoteError>| {
        let note = format!("{TEXT}\n{lines}");
        let known: Vec<_> = known.iter().map(|text| vkey(text)).collect();
        let expect = expect.map(|names| (TEXT, names));
        assert_eq!(open_note(&note, &known), expect, "{lines}");
    };
    let both = format!("{PETER_LINE}{ENOCH_LINE}");
    check(PETER_LINE, &[PETER], Ok(vec!["PeterNeumann"]));
    check(&both, &[PETER], Ok(vec!["PeterNeumann"]));
    check(
        &both,
        &[PETER, ENOCH],
        Ok(vec!["PeterNeumann", "EnochRoot"]),
    );
    check(
        &both,
        &[ENOCH, PETER, ENOCH],
        Ok(vec!["PeterNeumann", "EnochRoot"]),
    );
    check(&both, &[], Err(NoteError::NoKnownSignature));
    check(PETER_LINE, &[ENOCH], Err(NoteError::NoKnownSignature));

    // A second line by a known key is not even examined. If the first line is bad, the note is
    // rejected, whatever other signatures it has.
    let id = vkey(PETER).id();
    let bad_line = PETER_LINE.replace("FYC2p", "FYC2q");
    check(
        &format!("{PETER_LINE}{bad_line}"),
        &[PETER],
        Ok(vec!["PeterNeumann"]),
    );
    let bad = Err(NoteError::BadSignature {
        name: "PeterNeumann".into(),
        id,
    });
    check(
        &format!("{ENOCH_LINE}{bad_line}"),
        &[PETER, ENOCH],
        bad.clone(),
    );
    check(&format!("{bad_line}{PETER_LINE}"), &[PETER], bad);
    check(
        &format!("{ENOCH_LINE}{bad_line}"),
        &[ENOCH],
        Ok(vec!["EnochRoot"]),
    );

    // A key with the same name and another id, or the same id and another name, is unknown.
    check(
        &PETER_LINE.replace("x08g", "xxxx"),
        &[PETER],
        Err(NoteError::NoKnownSignature),
    );
    check(
        &PETER_LINE.replace("Peter", "Pieter"),
        &[PETER],
        Err(NoteError::NoKnownSignature),
    );

    check(&PETER_LINE.repeat(100), &[PETER], Ok(vec!["PeterNeumann"]));
    check(
        &PETER_LINE.repeat(101),
        &[PETER],
        Err(NoteError::TooManySignatures { limit: 100 }),
    );
    check(
        &PETER_LINE.repeat(101),
        &[],
        Err(NoteError::TooManySignatures { limit: 100 }),
    );
}

/// Ed25519 is deterministic, so the published seed must give the published note to the byte.
#[test]
fn published_seed_gives_the_published_note() {
    let seed = STANDARD
        .decode("gQoUAtUUbI2E8kQzMPVAgOv5juF9nHT2JS/F1ccoMXM=")
        .unwrap();
    let signer = SignerKey::from_seed("PeterNeumann", seed.as_slice().try_into().unwrap()).unwrap();
    assert_eq!(signer.verifier().to_string(), PETER);
    assert_eq!(
        sign_note(TEXT, &signer).unwrap(),
        format!("{TEXT}\n{PETER_LINE}")
    );
}

#[test]
fn published_checkpoint_text_parses() {
    let text =
        "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n";
    let checkpoint = Checkpoint::parse(text).unwrap();
    assert_eq!(
        (checkpoint.origin.as_str(), checkpoint.size),
        ("example.com/behind-the-sofa", 20_852_163)
    );
    assert_eq!(checkpoint.text(), text);
}

#[test]
fn mangled_verifier_keys_are_refused() {
    let good = PETER.as_bytes();
    for start in 0..good.len() {
        for end in start..=good.len() {
            let whole = (start, end) == (0, good.len());
            assert_eq!(
                PETER[start..end].parse::<VerifierKey>().is_ok(),
                whole,
                "{start}..{end}"
            );
        }
    }
    for bit in 0..good.len() * 8 {
        let mut bytes = good.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let flipped = String::from_utf8(bytes);
        assert!(
            flipped.is_err() || flipped.unwrap().parse::<VerifierKey>().is_err(),
            "bit {bit}"
        );
    }
    let long = "PeterNeumann+cc469956+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TWBADKEY==";
    let other_algorithm = "PeterNeumann+173116ae+ZRpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";
    let id = KeyError::Id {
        found: "C74F20A3".into(),
        expected: vkey(PETER).id(),
    };
    for (text, expect) in [
        (long, KeyError::Form),
        (other_algorithm, KeyError::Algorithm { algorithm: 0x65 }),
        (&PETER.replace("c74f20a3", "C74F20A3"), id),
        (
            &PETER.replace("PeterNeumann", ""),
            KeyError::Name {
                name: String::new(),
            },
        ),
        (
            &PETER.replace("PeterNeumann", "a b"),
            KeyError::Name { name: "a b".into() },
        ),
        (&format!("{PETER}\n"), KeyError::Form),
        ("a+c74f20a3+", KeyError::Form),
        ("", KeyError::Form),
    ] {
        assert_eq!(text.parse::<VerifierKey>(), Err(expect), "{text}");
    }
}

#[test]
fn malformed_notes_are_refused() {
    let signature = PETER_LINE.trim_end().rsplit(' ').next().unwrap();
    let line = |line| Err(NoteError::SignatureLine { line });
    let control = |offset| Err(NoteError::ControlCharacter { offset });
    for (note, expect) in [
        (String::new(), Err(NoteError::NoFinalNewline)),
        (TEXT.to_owned(), Err(NoteError::NoSignatures)),
        (format!("{TEXT}\n"), Err(NoteError::NoSignatures)),
        (format!("{TEXT}{PETER_LINE}"), Err(NoteError::NoSignatures)),
        (format!("\n{PETER_LINE}"), Err(NoteError::NoSignatures)),
        (
            format!("{TEXT}\n{}", PETER_LINE.trim_end()),
            Err(NoteError::NoFinalNewline),
        ),
        (
            format!("{TEXT}\n{PETER_LINE}\n"),
            Err(NoteError::NoSignatures),
        ),
        (
            format!("{TEXT}\n{PETER_LINE}\n\n"),
            Err(NoteError::NoSignatures),
        ),
        (format!("{TEXT}\n{PETER_LINE}Unexpected line.\n"), line(2)),
        (
            format!("{TEXT}\n{PETER_LINE}\n{ENOCH_LINE}"),
            Err(NoteError::NoKnownSignature),
        ),
        (format!("\u{1}{TEXT}\n{PETER_LINE}"), control(0)),
        (format!("{TEXT}\0\n\n{PETER_LINE}"), control(TEXT.len())),
        (
            format!("{TEXT}\n{}", PETER_LINE.replace('\n', "\r\n")),
            control(TEXT.len() + PETER_LINE.len()),
        ),
        (format!("{TEXT}\n– PeterNeumann {signature}\n"), line(1)),
        (format!("{TEXT}\n- PeterNeumann {signature}\n"), line(1)),
        (format!("{TEXT}\n—PeterNeumann {signature}\n"), line(1)),
        (format!("{TEXT}\n—  PeterNeumann {signature}\n"), line(1)),
        (format!("{TEXT}\n— PeterNeumann  {signature}\n"), line(1)),
        (format!("{TEXT}\n— PeterNeumann {signature} \n"), line(1)),
        (
            format!("{TEXT}\n— PeterNeumann\u{a0}{signature}\n"),
            line(1),
        ),
        (format!("{TEXT}\n— Bad Name {signature}\n"), line(1)),
        (format!("{TEXT}\n— Bad+Name {signature}\n"), line(1)),
        (format!("{TEXT}\n— {signature}\n"), line(1)),
        (format!("{TEXT}\n— PeterNeumann \n"), line(1)),
        (format!("{TEXT}\n— PeterNeumann x08gow==\n"), line(1)),
        (format!("{TEXT}\n{PETER_LINE}— someone !!!!\n"), line(2)),
        (
            format!("{TEXT}\n{}", PETER_LINE.replace("nAM=", "nAN=")),
            line(1),
        ),
        (
            format!("{TEXT}\n{}", PETER_LINE.replace("nAM=", "nAM")),
            line(1),
        ),
    ] {
        assert_eq!(open_note(&note, &[vkey(PETER)]), expect, "{note:?}");
    }
    let id = vkey(PETER).id();
    for wrong_length in ["x08goxA=", &signature.replace("AM=", "AMA")] {
        let note = format!("{TEXT}\n— PeterNeumann {wrong_length}\n");
        let expect = NoteError::BadSignature {
            name: "PeterNeumann".into(),
            id,
        };
        assert_eq!(open_note(&note, &[vkey(PETER)]), Err(expect), "{note:?}");
    }
    let size_bytes = NOTE_BYTES_MAX + 1;
    let error = NoteError::TooLarge {
        size_bytes,
        limit_bytes: NOTE_BYTES_MAX,
    };
    assert_eq!(
        open_note(&"\n".repeat(size_bytes), &[vkey(PETER)]),
        Err(error)
    );
}

/// The separator is the last empty line, so empty lines within the text are signed with it.
#[test]
fn empty_lines_belong_to_the_text() {
    let signer = SignerKey::from_seed(ORIGIN, &[1; 32]).unwrap();
    for text in ["\n", "\n\n", "a\n\n", "\n\na\n\nb\n\n\n"] {
        let note = sign_note(text, &signer).unwrap();
        assert_eq!(
            open_note(&note, &[signer.verifier().clone()]),
            Ok((text, vec![ORIGIN])),
            "{text:?}"
        );
    }
    // A signed note within the text of a note is text: its inner signatures are not signatures of
    // the outer note.
    let inner = sign_note("inner\n", &signer).unwrap();
    let outer = sign_note(&inner, &SignerKey::from_seed("other", &[2; 32]).unwrap()).unwrap();
    assert_eq!(
        open_note(&outer, &[signer.verifier().clone()]),
        Err(NoteError::NoKnownSignature)
    );
}

#[test]
fn invalid_note_texts_are_not_signed() {
    let signer = SignerKey::from_seed(ORIGIN, &[1; 32]).unwrap();
    let large = "x\n".repeat(NOTE_BYTES_MAX / 2);
    assert_eq!(sign_note("", &signer), Err(NoteError::NoFinalNewline));
    assert_eq!(sign_note("a", &signer), Err(NoteError::NoFinalNewline));
    assert_eq!(
        sign_note("a\0\n", &signer),
        Err(NoteError::ControlCharacter { offset: 1 })
    );
    assert!(matches!(
        sign_note(&large, &signer),
        Err(NoteError::TooLarge { .. })
    ));
}

#[test]
fn a_checkpoint_opens_only_for_its_key_and_its_log() {
    let (key, checkpoint, note) = witnessed(false);
    assert_eq!(open_checkpoint(&note, &key, ORIGIN), Ok(checkpoint));
    let error = NoteError::Origin {
        found: ORIGIN.into(),
        expected: "gate.example/other".into(),
    };
    assert_eq!(
        open_checkpoint(&note, &key, "gate.example/other"),
        Err(error)
    );
    let namesake = SignerKey::from_seed(ORIGIN, &[3; 32]).unwrap();
    assert_eq!(
        open_checkpoint(&note, namesake.verifier(), ORIGIN),
        Err(NoteError::NoKnownSignature)
    );
    // Signed by the right key, but not a checkpoint.
    let signer = SignerKey::from_seed(ORIGIN, &[1; 32]).unwrap();
    assert_eq!(
        open_checkpoint(&sign_note("hi\n", &signer).unwrap(), &key, ORIGIN),
        Err(NoteError::TooFewLines)
    );
    let error = sign_checkpoint(&Checkpoint::new("a\tb", 0, leaf_hash(b"")), &signer);
    assert_eq!(error, Err(NoteError::ControlCharacter { offset: 1 }));
}

#[test]
fn every_bit_flip_of_a_checkpoint_fails_or_changes_nothing() {
    for witness_first in [false, true] {
        let (key, checkpoint, note) = witnessed(witness_first);
        let witness_start = note.find("— witness").unwrap();
        let witness_end = witness_start + note[witness_start..].find('\n').unwrap();
        let (mut failed, mut harmless) = (0, 0);
        for bit in 0..note.len() * 8 {
            let mut bytes = note.clone().into_bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let opened = String::from_utf8(bytes)
                .ok()
                .and_then(|note| open_checkpoint(&note, &key, ORIGIN).ok());
            let Some(opened) = opened else {
                failed += 1;
                continue;
            };
            assert_eq!(opened, checkpoint, "bit {bit}");
            assert!(
                (witness_start..witness_end).contains(&(bit / 8)),
                "bit {bit} is not the witness's"
            );
            harmless += 1;
        }
        assert_eq!(failed + harmless, note.len() * 8);
        assert!(
            harmless > 100,
            "only {harmless} flips in the unknown line passed"
        );
    }
}
