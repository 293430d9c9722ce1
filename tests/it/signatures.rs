//! HMAC-SHA256 and Ed25519 against every Wycheproof vector that fits the envelope's signatures.
//! Source and licence: tests/vectors/wycheproof/README.md.

use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signature, Verifier, VerifyingKey};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use spoolgate_wire::signing::{ED25519_PREFIX, SignKey, VerifyKey, unhex};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct File<G> {
    number_of_tests: usize,
    test_groups: Vec<G>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HmacGroup {
    key_size: usize,
    tag_size: usize,
    tests: Vec<HmacCase>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HmacCase {
    tc_id: u32,
    comment: String,
    key: String,
    msg: String,
    tag: String,
    result: Verdict,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EddsaGroup {
    public_key: PublicKey,
    tests: Vec<EddsaCase>,
}

#[derive(Deserialize)]
struct PublicKey {
    pk: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EddsaCase {
    tc_id: u32,
    comment: String,
    msg: String,
    sig: String,
    result: Verdict,
}

/// These two files have no third verdict ("acceptable").
#[derive(Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Valid,
    Invalid,
}

/// What was run, so that no vector is ever skipped unnoticed.
#[derive(Debug, Default, PartialEq, Eq)]
struct Count {
    valid: usize,
    invalid: usize,
    /// Messages that are text were also verified as text and, with HMAC, signed as text.
    text: usize,
    /// Vectors that do not fit: another key size, or a truncated tag.
    unfit: usize,
}

impl Count {
    fn add(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Valid => self.valid += 1,
            Verdict::Invalid => self.invalid += 1,
        }
    }

    fn total(&self) -> usize {
        self.valid + self.invalid + self.unfit
    }
}

fn file<G: DeserializeOwned>(name: &str) -> File<G> {
    serde_json::from_slice(&fs::read(Path::new("tests/vectors/wycheproof").join(name)).unwrap())
        .unwrap()
}

#[test]
fn hmac_sha256_vectors() {
    let file = file::<HmacGroup>("hmac-sha256.json");
    let mut count = Count::default();
    for group in &file.test_groups {
        for case in &group.tests {
            let shown = format!("tcId {}: {}", case.tc_id, case.comment);
            let Ok(key) = <[u8; 32]>::try_from(unhex(&case.key).unwrap()) else {
                assert_ne!(group.key_size, 256, "{shown}");
                count.unfit += 1;
                continue;
            };
            let (message, verify_key) = (unhex(&case.msg).unwrap(), VerifyKey::Hmac(key));
            let verified = verify_key.verifies_bytes(&message, &case.tag);
            if group.tag_size != 256 {
                // The envelope accepts no truncated tags, not even correct ones.
                assert!(!verified, "{shown}");
                count.unfit += 1;
                continue;
            }
            assert_eq!(verified, case.result == Verdict::Valid, "{shown}");
            count.add(case.result);
            if let Ok(text) = std::str::from_utf8(&message) {
                assert_eq!(verify_key.verifies(text, &case.tag), verified, "{shown}");
                assert_eq!(
                    SignKey::Hmac(key).sign(text) == case.tag,
                    verified,
                    "{shown}"
                );
                count.text += 1;
            }
        }
    }
    assert_eq!(
        count,
        Count {
            valid: 27,
            invalid: 54,
            text: 56,
            unfit: 93
        }
    );
    assert_eq!(count.total(), file.number_of_tests);
}

/// Strict verification accepts all valid vectors.
#[test]
fn ed25519_vectors() {
    let file = file::<EddsaGroup>("ed25519.json");
    let mut count = Count::default();
    for group in &file.test_groups {
        let public = <[u8; 32]>::try_from(unhex(&group.public_key.pk).unwrap()).unwrap();
        let key = VerifyKey::Ed25519(Box::new(VerifyingKey::from_bytes(&public).unwrap()));
        for case in &group.tests {
            let shown = format!("tcId {}: {}", case.tc_id, case.comment);
            let message = unhex(&case.msg).unwrap();
            let base64 = STANDARD.encode(unhex(&case.sig).unwrap());
            let signature = format!("{ED25519_PREFIX}{base64}");
            let verified = key.verifies_bytes(&message, &signature);
            assert_eq!(verified, case.result == Verdict::Valid, "{shown}");
            assert!(
                !key.verifies_bytes(&message, &base64),
                "{shown}: without the prefix"
            );
            assert!(!key.verifies_bytes(&message, &case.sig), "{shown}: in hex");
            count.add(case.result);
            if let Ok(text) = std::str::from_utf8(&message) {
                assert_eq!(key.verifies(text, &signature), verified, "{shown}");
                count.text += 1;
            }
        }
    }
    assert_eq!(
        count,
        Count {
            valid: 88,
            invalid: 63,
            text: 84,
            unfit: 0
        }
    );
    assert_eq!(count.total(), file.number_of_tests);
}

/// No vector distinguishes strict verification from the plain one. Under a key of small order, for
/// which nobody needs a private key, one signature is valid for every message: here the key and R
/// are the neutral element and S is 0.
#[test]
fn a_key_of_small_order_verifies_nothing() {
    let mut neutral = [0; 32];
    neutral[0] = 1;
    let bytes = [neutral, [0; 32]].concat();
    let key = VerifyingKey::from_bytes(&neutral).unwrap();
    let signature = format!("{ED25519_PREFIX}{}", STANDARD.encode(&bytes));
    for message in ["", "one", "another"] {
        assert!(
            key.verify(message.as_bytes(), &Signature::from_slice(&bytes).unwrap())
                .is_ok(),
            "{message}"
        );
        assert!(
            !VerifyKey::Ed25519(Box::new(key)).verifies(message, &signature),
            "{message}"
        );
    }
}
