//! Checkpoints, notes and keys as text: each is written again as it was read, byte for byte, and only
//! text signed by a known key is accepted.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signature, VerifyingKey};
use spoolgate_ledger::note::{
    Checkpoint, SignerKey, VerifierKey, open_checkpoint, open_note, sign_checkpoint, sign_note,
};

/// The key that bodies know.
pub(crate) fn signer() -> SignerKey {
    SignerKey::from_seed("gate.example/desk", &[7; 32]).unwrap()
}

/// Any bytes as text.
pub fn body(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    check_key(&text);
    let signer = signer();
    let key = signer.verifier().clone();
    if let Ok((signed, names)) = open_note(&text, std::slice::from_ref(&key)) {
        assert_eq!(names, [signer.name()]);
        assert!(text.starts_with(signed));
        check_signed(&text, signed, &key);
    }
    if let Ok(checkpoint) = open_checkpoint(&text, &key, signer.name()) {
        assert!(
            text.starts_with(&checkpoint.text()),
            "another text than was signed"
        );
        assert_eq!(checkpoint.origin, signer.name());
    }
    if let Ok(note) = sign_note(&text, &signer) {
        let (signed, names) =
            open_note(&note, std::slice::from_ref(&key)).expect("signed and not opened");
        assert_eq!(
            (signed, names.as_slice()),
            (text.as_ref(), &[signer.name()][..])
        );
    }
    if let Ok(checkpoint) = Checkpoint::parse(&text) {
        assert_eq!(checkpoint.text(), text, "written again as another text");
        let note = sign_checkpoint(&checkpoint, &signer).expect("read and not signed");
        assert_eq!(
            open_checkpoint(&note, &key, &checkpoint.origin),
            Ok(checkpoint)
        );
    }
    // A checkpoint of parts that were never read.
    let mut lines = text.split('\0');
    let mut next = || lines.next().unwrap_or_default().to_owned();
    let mut made = Checkpoint::new(
        &next(),
        data.len() as u64,
        spoolgate_ledger::tree::leaf_hash(data),
    );
    made.extensions
        .extend([next()].into_iter().filter(|line| !line.is_empty()));
    if let Ok(note) = sign_checkpoint(&made, &signer) {
        assert_eq!(open_checkpoint(&note, &key, &made.origin), Ok(made));
    }
}

/// The signature is there and good, by the library alone.
fn check_signed(note: &str, signed: &str, key: &VerifierKey) {
    let public = VerifyingKey::from_bytes(key.public_key()).unwrap();
    let good = note[signed.len()..].lines().any(|line| {
        let base64 = line.rsplit(' ').next().unwrap_or_default();
        let Ok(bytes) = STANDARD.decode(base64) else {
            return false;
        };
        bytes
            .get(4..)
            .and_then(|bytes| Signature::from_slice(bytes).ok())
            .is_some_and(|signature| public.verify_strict(signed.as_bytes(), &signature).is_ok())
    });
    assert!(good, "nobody signed this: {note:?}");
}

fn check_key(text: &str) {
    if let Ok(key) = text.parse::<VerifierKey>() {
        assert_eq!(key.to_string(), text, "a key with two spellings");
        assert_eq!(key.to_string().parse::<VerifierKey>().as_ref(), Ok(&key));
    }
}
