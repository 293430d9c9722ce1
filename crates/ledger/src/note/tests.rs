//! Tests of notes and checkpoints.

use proptest::prelude::*;

use super::*;
use crate::tree::leaf_hash;

const ORIGIN: &str = "gate.example/desk";

fn signer(name: &str) -> SignerKey {
    SignerKey::from_seed(name, &[7; 32]).unwrap()
}

#[test]
fn names_that_cannot_stand_in_a_note_are_refused() {
    for name in [
        "",
        " ",
        "a b",
        "a+b",
        "a\u{a0}b",
        "a\u{2003}b",
        "a\u{3000}",
        "a\nb",
        "a\tb",
        "a\u{85}",
        "a\0",
    ] {
        let error = SignerKey::from_seed(name, &[7; 32]).unwrap_err();
        assert_eq!(
            error,
            KeyError::Name {
                name: name.to_owned()
            }
        );
    }
    for name in ["a", "gate.example/desk", "Ürünler", "a-b_c", "—"] {
        let key = signer(name);
        assert_eq!(
            key.verifier().to_string().parse().as_ref(),
            Ok(key.verifier())
        );
    }
}

#[test]
fn a_signer_prints_no_secret() {
    let key = signer(ORIGIN);
    assert_eq!(
        format!("{key:?}"),
        format!("SignerKey({ORIGIN}+{}, secret)", key.verifier().id())
    );
    assert!(!format!("{key:?} {key:#?}").contains("7, 7"));
}

#[test]
fn keys_of_small_order_are_refused() {
    let mut identity = [0; 32];
    identity[0] = 1;
    assert_eq!(VerifierKey::new("a", &identity), Err(KeyError::Point));
    assert_eq!(VerifierKey::new("a", &[0; 32]), Err(KeyError::Point));
    assert_eq!(VerifierKey::new("a", &[0x02; 32]), Err(KeyError::Point));
}

#[test]
fn two_keys_behind_one_label_are_ambiguous() {
    let key = signer(ORIGIN).verifier().clone();
    let mut other = SignerKey::from_seed(ORIGIN, &[8; 32])
        .unwrap()
        .verifier()
        .clone();
    let note = sign_note("text\n", &signer(ORIGIN)).unwrap();
    let twice = [key.clone(), other.clone(), key.clone()];
    assert_eq!(open_note(&note, &twice), Ok(("text\n", vec![ORIGIN])));
    // A real collision of the 32-bit id takes minutes to find; pretend that one was.
    other.id = key.id;
    let error = open_note(&note, &[key.clone(), other]).unwrap_err();
    assert_eq!(
        error,
        NoteError::AmbiguousKey {
            name: ORIGIN.into(),
            id: key.id
        }
    );
}

#[test]
fn checkpoint_texts() {
    let root = leaf_hash(b"x").to_base64();
    let check = |text: &str, expect: Result<(), NoteError>| {
        let parsed = Checkpoint::parse(text);
        assert_eq!(
            parsed.as_ref().map(|_| ()).map_err(Clone::clone),
            expect,
            "{text:?}"
        );
        if let Ok(checkpoint) = parsed {
            assert_eq!(checkpoint.text(), text);
        }
    };
    check(&format!("o\n0\n{root}\n"), Ok(()));
    check(&format!("o\n18446744073709551615\n{root}\n"), Ok(()));
    check(&format!("o with space\n1\n{root}\next 1\next 2\n"), Ok(()));
    for size in [
        "00",
        "01",
        "+1",
        "-1",
        "-0",
        "1 ",
        " 1",
        "1e3",
        "0x1",
        "1.0",
        "18446744073709551616",
        "١",
    ] {
        check(&format!("o\n{size}\n{root}\n"), Err(NoteError::TreeSize));
    }
    let unpadded = root.trim_end_matches('=');
    let short = &STANDARD.encode([0; 31]);
    let long = &STANDARD.encode([0; 33]);
    let url_safe = &STANDARD.encode([0xff; 32]).replace('/', "_");
    for bad in [
        "=",
        "AAAA",
        unpadded,
        short,
        long,
        url_safe,
        &format!("{root} "),
        &format!(" {root}"),
    ] {
        check(&format!("o\n1\n{bad}\n"), Err(NoteError::RootHash));
    }
    check("", Err(NoteError::NoFinalNewline));
    check(&format!("o\n1\n{root}"), Err(NoteError::NoFinalNewline));
    check("\n", Err(NoteError::EmptyLine { line: 1 }));
    check(
        &format!("\n1\n{root}\n"),
        Err(NoteError::EmptyLine { line: 1 }),
    );
    check(
        &format!("o\n\n{root}\n"),
        Err(NoteError::EmptyLine { line: 2 }),
    );
    check(
        &format!("o\n1\n{root}\n\n"),
        Err(NoteError::EmptyLine { line: 4 }),
    );
    check(
        &format!("o\n1\n{root}\n\nx\n"),
        Err(NoteError::EmptyLine { line: 4 }),
    );
    check("o\n", Err(NoteError::TooFewLines));
    check("o\n1\n", Err(NoteError::TooFewLines));
    for control in ["\0", "\r", "\t", "\u{1b}", "\u{7f}", "\u{9b}"] {
        check(
            &format!("o{control}\n1\n{root}\n"),
            Err(NoteError::ControlCharacter { offset: 1 }),
        );
        let offset = 5 + root.len();
        check(
            &format!("o\n1\n{root}\n{control}\n"),
            Err(NoteError::ControlCharacter { offset }),
        );
    }
}

#[test]
fn a_checkpoint_that_reads_back_as_another_is_not_signed() {
    let root = leaf_hash(b"x");
    let forged = Checkpoint::new(&format!("o\n9\n{}", Hash::ZERO.to_base64()), 1, root);
    assert_eq!(
        sign_checkpoint(&forged, &signer("o")),
        Err(NoteError::Ambiguous)
    );
    let empty = Checkpoint::new("", 1, root);
    assert_eq!(
        sign_checkpoint(&empty, &signer("o")),
        Err(NoteError::EmptyLine { line: 1 })
    );
}

proptest! {
    #[test]
    fn a_signed_checkpoint_opens_as_itself(
        origin in "[!-~é—]{1,40}",
        size: u64,
        root: [u8; 32],
        extensions in prop::collection::vec("[ -~]{1,30}", 0..4),
    ) {
        let root = Hash::from_bytes(root);
        let checkpoint = Checkpoint { extensions, ..Checkpoint::new(&origin, size, root) };
        let note = sign_checkpoint(&checkpoint, &signer(ORIGIN)).unwrap();
        prop_assert_eq!(open_checkpoint(&note, signer(ORIGIN).verifier(), &origin), Ok(checkpoint));
    }

    #[test]
    fn any_text_that_can_be_signed_comes_back_whole(text in "([ -~é—\u{85}]{0,12}\n){0,6}") {
        let note = sign_note(&text, &signer(ORIGIN));
        prop_assert_eq!(note.is_ok(), !text.is_empty());
        if let Ok(note) = note {
            let known = [signer(ORIGIN).verifier().clone()];
            prop_assert_eq!(open_note(&note, &known), Ok((&*text, vec![ORIGIN])));
        }
    }

    #[test]
    fn nothing_read_makes_it_panic(note in "[\n\n\n— a+=/\0é]{0,60}",
        vkey in "[a+0-9A-Z=/]{0,60}") {
        let key = signer("a").verifier().clone();
        prop_assert!(open_note(&note, &[key]).is_err());
        prop_assert!(vkey.parse::<VerifierKey>().is_err());
        prop_assert!(Checkpoint::parse(&note).is_err());
    }
}
